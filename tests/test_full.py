"""The full profile as it stands: what is there, what chapters need and do without, and what a build leaves out."""

import json
import re
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
from test_released import HEADER, rows

from reefcore import cli
from reefcore.errors import ReefcoreError
from reefcore.fetch import hub
from reefcore.fetch.manifest import Manifest
from reefcore.files import sha256, write_parquet
from reefcore.workflow import build, full, keys, launch, resources, status, steps
from reefcore.workflow import open as open_project

PROFILE = """\
kind: full
notice: "Full profile, for tests."
data: data
seed: 0
crop: 32
recipes: [resnet101, vit_mae]
train_sets: [S3]
resamples: 10
site: Al-Wajh
criteria: {min_annotations: 8, min_sources: 1, min_per_source: 1}
cross_sources: {n_test: 1, n_val: 1}
"""
PARAMETERS = 'profile: str = "own.yaml"  # where the data are\nseed: int = 0  # of the splits\n'
OPEN = "from reefcore import workflow\n\nproject = workflow.open(profile, seed=seed)"
SOME = 'rows = len(project.table("covariates")) if project.has("photos") else None'


@pytest.fixture
def own(checkout, monkeypatch):
    """A checkout with a profile of kind full on a machine without a GPU, no data, and four chapters."""
    for cached in (steps._runs, steps.plan, steps.key, keys.environment):
        cached.cache_clear()
    monkeypatch.setattr(resources, "gpus", lambda: [])
    monkeypatch.delenv(launch.TRAIN, raising=False)
    (checkout.folder / "own.yaml").write_text(PROFILE)
    for name, code in {
        "10_points": 'len(project.table("annotations"))',
        "20_photos": SOME,
        "40_models": 'len(project.table("predictions"))',
        "70_alone": "1 + 1",
    }.items():
        checkout.notebook(name, OPEN, code, "project.provenance()", parameters=PARAMETERS)
    yield checkout
    for cached in (steps._runs, steps.plan, steps.key, keys.environment):
        cached.cache_clear()


def found(own) -> tuple[dict, dict]:
    """Check, and give items and chapters by name."""
    steps.key.cache_clear()
    said = full.check("own.yaml")
    items, chapters = (
        {row[key]: row for row in said[kind]} for kind, key in (("items", "item"), ("chapters", "chapter"))
    )
    return items | {"": said}, chapters


def release(own):
    """Put the released annotations into the data folder, with the record of what was fetched."""
    folder = own.folder / "data" / "released"
    folder.mkdir(parents=True)
    path = folder / "All_ReefNet_annotations.csv"
    path.write_text("\n".join([HEADER, *rows()]) + "\n")
    facts = {"size": path.stat().st_size, "sha256": sha256(path), "modified": path.stat().st_mtime_ns}
    (folder / hub.RECORD).write_text(json.dumps({path.name: facts}))
    return path


def photos(own, count):
    """Put some of the photos of the table of images into the data folder."""
    images = pd.DataFrame({"source": "Reef A", "image": [f"A{n}.jpg" for n in range(6)]})
    write_parquet(images, own.folder / "data" / "images.parquet")
    (own.folder / "data" / "photos" / "Reef A").mkdir(parents=True)
    for name in images["image"][:count]:
        (own.folder / "data" / "photos" / "Reef A" / name).write_bytes(b"jpeg")


def test_an_empty_folder_lacks_everything_and_says_in_which_order_to_get_it(own):
    items, chapters = found(own)
    assert items["annotations"]["state"] == items["images"]["state"] == "missing"
    assert items["annotations"]["command"] == "reefcore fetch annotations --profile own.yaml"
    assert {name: row["runs"] for name, row in chapters.items()} == {
        "10_points": "no",
        "20_photos": "in part",  # all that it reads stands under a question
        "40_models": "no",
        "70_alone": "yes",
    }
    assert chapters["40_models"]["lacks"] == ("released", "photos", "train")
    commands = [one["command"] for one in items[""]["next"]]
    assert commands[0].startswith("reefcore fetch annotations metadata") and commands[-1].startswith("reefcore run all")
    assert not items[""]["complete"] and cli.main(["full", "check", "--profile", "own.yaml"]) == 1


def test_with_annotations_chapters_run_and_say_what_is_left_out(own):
    release(own)
    items, chapters = found(own)
    row = items["annotations"]
    assert (row["state"], row["there"], row["of"]) == ("partly", 1, 2) and "croissant" in row["note"]
    assert chapters["10_points"]["runs"] == "yes"
    some = chapters["20_photos"]
    assert (some["runs"], some["lacks"], some["sections"]) == ("in part", ("photos",), ("20_photos",))
    assert some["command"] == "reefcore fetch images --profile own.yaml"
    none = chapters["40_models"]
    assert none["runs"] == "no" and none["why"] == "it needs photos, trained models"
    assert none["command"].endswith(" && reefcore train --profile own.yaml")


def test_a_file_that_is_not_as_it_was_fetched_is_broken(own):
    path = release(own)
    path.write_text(path.read_text().replace("Porites", "Poritez"))
    items, _ = found(own)
    assert items["annotations"]["state"] == "broken" and path.name in items["annotations"]["note"]
    assert cli.main(["full", "check", "--profile", "own.yaml", "--json"]) == 1


def test_some_photos_are_counted_and_chapters_say_of_how_many(own):
    release(own)
    photos(own, 4)
    items, chapters = found(own)
    assert (items["images"]["state"], items["images"]["there"], items["images"]["of"]) == ("partly", 4, 6)
    assert (chapters["20_photos"]["runs"], chapters["20_photos"]["why"]) == ("in part", "with 4 of 6 photos")
    assert (chapters["40_models"]["runs"], chapters["40_models"]["why"]) == ("no", "it needs trained models")
    assert "photos 4 of 6" in repr(open_project("own.yaml").provenance())
    (own.folder / "data" / "quarantine" / "Reef A").mkdir(parents=True)
    (own.folder / "data" / "quarantine" / "Reef A" / "A5.jpg").write_bytes(b"<html>")
    assert found(own)[0]["images"]["note"] == "1 in quarantine"
    with Manifest(own.folder / "data" / "photos.sqlite") as manifest:
        manifest.want(pd.DataFrame({"source": "Reef A", "image": ["A4.jpg", "A5.jpg"]}))
        manifest.set("Reef A", "A4.jpg", "missing", reason="404")
        manifest.set("Reef A", "A5.jpg", "quarantined", reason="HTML")
    assert found(own)[0]["images"]["note"] == "1 not at their host, 1 in quarantine"


def test_trained_runs_are_counted_and_the_chapter_runs_with_all(own, monkeypatch):
    release(own)
    photos(own, 6)
    made = ["resnet101-S3"]
    monkeypatch.setattr(steps, "is_fresh", lambda profile, folder, name: name in made)
    (own.folder / "data" / ".keys").mkdir()
    for name in ("resnet101-S3", "vit_mae-S3", "mae_pretraining"):
        (own.folder / "data" / ".keys" / f"{name}.json").write_text("{}")
    items, chapters = found(own)
    assert (items["trained models"]["state"], items["trained models"]["there"]) == ("partly", 1)
    assert chapters["40_models"]["lacks"] == ("train",)
    assert not open_project("own.yaml").has("predictions")
    made += ["vit_mae-S3", "mae_pretraining"]
    items, chapters = found(own)
    assert items["trained models"]["state"] == "there" and chapters["40_models"]["runs"] == "yes"
    assert items[""]["complete"] is False  # the released files are not all there
    assert open_project("own.yaml").has("predictions")


@pytest.mark.parametrize(
    "gpus, asked, starts", [(["0"], "", True), (["0"], "0", False), ([], "1", True), ([], "", False)]
)
def test_trainings_start_on_a_gpu_or_where_they_are_asked_for(own, monkeypatch, gpus, asked, starts):
    release(own)
    photos(own, 6)
    monkeypatch.setattr(resources, "gpus", lambda: gpus)
    monkeypatch.setenv(launch.TRAIN, asked)
    _, chapters = found(own)
    assert chapters["40_models"]["runs"] == ("yes" if starts else "no")
    assert open_project("own.yaml").has("predictions") == starts


def test_a_build_leaves_out_what_cannot_run_and_puts_a_page_there(own):
    release(own)
    names = [job.name for job in build.jobs(["all"], {})]
    assert {"chapter 10_points", "chapter 20_photos", "chapter 70_alone"} <= {*names}
    assert not [name for name in names if "40_models" in name or "resnet101" in name or "step patches" in name]
    page = nbformat.read(own.chapters / "40_models.ipynb", 4)
    text = "\n".join(cell.source for cell in page.cells)
    assert text.startswith("# 40_models") and "it needs photos, trained models" in text
    assert "reefcore fetch images --profile own.yaml && reefcore train --profile own.yaml" in text
    assert '<p class="provenance">' in text and "profile own" in text and "seed 0" in text
    record = keys.read_record(own.chapters / "40_models.json")
    assert record["left_out"]["why"] in text and "start" not in record
    (chapter,) = build.chapters(["40_models"], {})
    assert not build.is_fresh(chapter, own.chapters)  # it is run as soon as it can be
    row = next(row for row in status.index("own.yaml")["notebooks"] if row["name"] == "40_models")
    assert row["state"] == "left out" and "reefcore train" in status.sentence(row)
    told = full.told(["all"], {})
    assert [line.partition(":")[0] for line in told] == ["in part", "left out"] and "40_models" in told[1]
    before = (own.chapters / "40_models.json").stat().st_mtime_ns
    build.jobs(["all"], {})
    assert (own.chapters / "40_models.json").stat().st_mtime_ns == before


def test_a_page_that_was_run_in_the_profile_stays(own):
    release(own)
    own.chapters.mkdir(parents=True)
    kept = own.chapters / "40_models.ipynb"
    kept.write_text("as it was run")
    record = {"key": "1", "ingredients": {}, "outputs": {}, "profile": "own"}
    kept.with_suffix(".json").write_text(json.dumps(record))
    build.jobs(["all"], {})
    assert kept.read_text() == "as it was run"
    kept.with_suffix(".json").write_text(json.dumps(record | {"profile": "sample"}))
    build.jobs(["all"], {})
    assert "left out" in kept.read_text()


def test_a_chapter_that_was_named_and_cannot_run_is_refused_with_the_command(own, capsys):
    release(own)
    with pytest.raises(ReefcoreError, match=r"40_models cannot run: it needs photos, trained models; reefcore fetch"):
        build.jobs(["40_models"], {})
    assert cli.main(["full", "check", "--profile", "sample"]) == 2
    assert "of kind sample, and needs nothing" in capsys.readouterr().err


def test_a_chapter_is_run_without_what_it_only_asks_for(own):
    release(own)
    (chapter,) = build.chapters(["20_photos"], {})
    assert (chapter.needs, chapter.without) == (("covariates",), ("photos",))
    code = 'n = len(project.table("predictions")) if project.has("predictions") else 0'
    own.notebook("30_maybe", OPEN, code, "project.provenance()", parameters=PARAMETERS)
    (chapter,) = build.chapters(["30_maybe"], {})
    assert (chapter.needs, chapter.without) == ((), ("train",))
    photos(own, 6)
    steps.key.cache_clear()
    assert build.chapters(["30_maybe"], {})[0].without == ("train",)


@pytest.mark.parametrize(
    "code, left, asked",
    [
        ('if project.has("photos"):\n    a = 1\nelse:\n    b = 2', "b = 2", {"photos": [1]}),
        ('if not project.has("photos"):\n    b = 2\nelse:\n    a = 1', "b = 2", {"photos": [1]}),
        ('c = 1 if project.has("x") else 2', "c = 2", {"x": [1]}),
        ('if project.has("x"):\n    a = 1', "pass", {"x": [1]}),
        ('if mine.has("x"):\n    a = 1', "if mine.has('x'):\n    a = 1", {}),
    ],
)
def test_what_stands_under_a_question_is_taken_out(code, left, asked):
    assert full.bare(code) == (left, asked)


def test_check_imports_nothing_heavy_and_says_what_to_set():
    code = "import os, sys; os.environ.pop('REEFNET_DATA', None)\nfrom reefcore.workflow import full\n"
    code += "found = full.check(); print(found['unset'], found['next'][0]['command'])\n"
    code += "sys.exit(bool({'torch', 'timm', 'snakemake', 'papermill'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "set REEFNET_DATA" in done.stdout and "export REEFNET_DATA=" in done.stdout


def test_the_page_of_the_book_says_what_each_chapter_needs():
    rows = {row["chapter"]: row for row in full.needs()}
    assert rows["20_curation"]["needs"] == ["annotations"] and rows["70_numbers"]["needs"] == []
    assert rows["40_supervised"]["needs"] == ["annotations", "photos", "trained models"]
    assert "photos" in rows["24_colour"]["more"] and "expert verdicts" in rows["25_review"]["more"]
    tables = full.tables()
    assert all(f"| `{name}` |" in tables["items"] for name in full.ITEMS)
    assert re.match(r"Of \d+ chapters, \d+ need", tables["count"])
    page = (keys.PACKAGE.parent / "book" / "full.md").read_text()
    assert all(f"<!-- {name} of reefcore/workflow/full.py -->" in page for name in tables)
