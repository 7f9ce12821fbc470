"""The build: what changed and nothing else is made again, and it survives being killed at any moment."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import nbformat
import papermill
import pytest
from conftest import Checkout

from reefcore import cli, workflow
from reefcore.errors import ReefcoreError
from reefcore.files import write_parquet
from reefcore.workflow import build, keys, steps

PARAMETERS = 'profile: str = "survey.yaml"  # where the data are\nseed: int = 0  # of the splits\n'
OPEN = "from reefcore import workflow\n\nproject = workflow.open(profile, seed=seed)"
PROFILE = """\
kind: full
notice: "A survey for tests."
data: survey
seed: 0
crop: 32
recipes: []
train_sets: []
resamples: 10
site: "sample-W Farlagoon (Al-Wajh-like)"
criteria: {min_annotations: 8, min_sources: 1, min_per_source: 1}
cross_sources: {n_test: 2, n_val: 2}
"""


def with_survey(checkout: Checkout, smoke) -> Checkout:
    """Give a checkout the tables of a survey and three chapters: one reads splits, one quality, one nothing."""
    (checkout.folder / "survey" / "photos").mkdir(parents=True)
    for name in ("annotations", "sources", "images", "reviews"):
        write_parquet(smoke.table(name), checkout.folder / "survey" / f"{name}.parquet")
    shutil.copytree(checkout.folder / "survey", checkout.folder / "survey-seed3")
    (checkout.folder / "survey.yaml").write_text(PROFILE)
    checkout.notebook("10_splits", OPEN, 'len(project.table("splits"))', "project.provenance()", parameters=PARAMETERS)
    checkout.notebook(
        "20_quality", OPEN, 'len(project.table("quality"))', "project.provenance()", parameters=PARAMETERS
    )
    extra = PARAMETERS + "size: float = 1.5  # anything\nmore: dict[str, str] = {}  # anything\n"
    checkout.notebook("30_alone", OPEN, "size * 2", "project.provenance()", parameters=extra)
    return checkout


@pytest.fixture
def survey(checkout, smoke):
    return with_survey(checkout, smoke)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, smoke) -> Checkout:
    """A checkout whose whole book was built, and nothing happened to the build."""
    checkout = with_survey(Checkout(tmp_path_factory.mktemp("undisturbed")), smoke)
    everything = {"released", "data", "curate", "splits", "10_splits", "20_quality", "30_alone"}
    assert made(checkout.reefcore("run", "all")) == everything
    return checkout


@pytest.fixture
def built(survey, undisturbed) -> Checkout:
    """The survey's checkout, built: a copy of what was made once."""
    shutil.copytree(undisturbed.folder, survey.folder, dirs_exist_ok=True)
    return survey


@pytest.fixture
def reefcore(survey, capfd):
    """The command line, in this process, where it should start no job; one that it starts all the same is heard."""

    def run(*arguments) -> subprocess.CompletedProcess:
        for cached in (steps._runs, steps.plan, steps.key, keys.environment):  # another process would read the files
            cached.cache_clear()
        code = cli.main(list(arguments))
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    yield run
    keys.environment.cache_clear()


def made(result) -> set[str]:
    """List the jobs that a run of the command line did."""
    assert result.returncode == 0, result.stderr
    return set(re.findall(r"^(?:step|chapter)\s+(\S+)", result.stderr, re.MULTILINE))


def contents(checkout) -> dict[str, str]:
    """Collect what a build made, without run times and the state of the checkout that reefcore lies in."""
    found = {name: keys.digest(checkout.folder / "survey" / name) for name in ("quality.parquet", "splits.parquet")}
    for path in sorted(checkout.chapters.glob("*.ipynb")):
        found[path.name] = re.sub(r"run time [\d.]+ s|code [\w-]+", "", path.read_text())
    return found


def test_only_what_changed_is_made_again(built, undisturbed, reefcore):
    survey, first = built, contents(built)
    for path in survey.folder.rglob("*"):
        if path.suffix in (".parquet", ".ipynb", ".json") or ".keys" in path.parts or "done" in path.parts:
            os.utime(path)
    assert made(reefcore("run", "all")) == set()
    found = json.loads(reefcore("status", "--profile", "survey.yaml", "--json").stdout)
    assert {row["state"] for row in [*found["notebooks"], *found["steps"]]} == {"up to date"}
    assert [row["name"] for row in found["steps"]] == ["released", "data", "curate", "splits"]

    content = nbformat.read(survey.folder / "notebooks" / "20_quality.ipynb", 4)
    content.cells[0].source += "\n\nAnother sentence."
    nbformat.write(content, survey.folder / "notebooks" / "20_quality.ipynb")
    shown = reefcore("status", "--profile", "survey.yaml")
    assert shown.returncode == 1 and re.search(r"20_quality .* stale \(words changed\)", shown.stdout)
    assert made(survey.reefcore("run", "all")) == {"20_quality"}
    before, after = (nbformat.read(one.chapters / "20_quality.ipynb", 4) for one in (undisturbed, survey))
    was, record = (json.loads((one.chapters / "20_quality.json").read_text()) for one in (undisturbed, survey))
    assert after.cells[0].source.endswith("Another sentence.") and after.cells[1:] == before.cells[1:]
    assert "reworded" in record and record["start"] == was["start"]
    assert reefcore("status", "--profile", "survey.yaml").returncode == 0
    content.cells[2].source += "\n"  # code is another matter, even where it does the same
    nbformat.write(content, survey.folder / "notebooks" / "20_quality.ipynb")
    assert re.search(r"stale \(notebook changed\)", reefcore("status", "--profile", "survey.yaml").stdout)
    assert made(survey.reefcore("run", "all")) == {"20_quality"}
    assert "reworded" not in json.loads((survey.chapters / "20_quality.json").read_text())

    (survey.folder / "survey" / "splits.parquet").write_bytes(b"damaged")
    (survey.chapters / "30_alone.ipynb").unlink()
    result = survey.reefcore("run", "all")
    assert made(result) >= {"splits", "30_alone"} and "20_quality" not in made(result)
    later = contents(survey)
    assert later.pop("20_quality.ipynb") != first.pop("20_quality.ipynb")
    assert later == first

    (survey.folder / "requirements.lock").write_text("other==1\n")
    assert made(survey.reefcore("run", "splits")) == {"released", "data", "curate", "splits", "10_splits"}


def test_parameters_reach_the_chapters_that_have_them(survey):
    arguments = ["-p", "size=2", "-p", "seed=3", "-p", """more={"a": "it's $HOME {threads}"}"""]
    assert "30_alone" in made(survey.reefcore("run", "alone", "20_quality", *arguments))
    record = json.loads((survey.chapters / "30_alone.json").read_text())
    more = {"a": "it's $HOME {threads}"}
    assert record["parameters"] == {"profile": "survey.yaml", "seed": 3, "size": 2.0, "more": more}
    assert record["seed"] == 3 and record["profile"] == "survey" and record["code"]["version"]
    assert record["packages"]["numpy"] and record["seconds"] > 0 and record["start"].endswith("+00:00")
    inputs = json.loads((survey.chapters / "20_quality.json").read_text())["inputs"]
    assert inputs == {"curate": {"quality.parquet": keys.digest(survey.folder / "survey-seed3" / "quality.parquet")}}
    executed = (survey.chapters / "30_alone.ipynb").read_text()
    assert "A survey for tests." in executed and "seed 3" in executed and 'href=\\"30_alone.json\\"' in executed
    assert str(survey.folder) not in executed + json.dumps(record)
    # The defaults again, in one chapter only: it is made again, and elsewhere it is not.
    assert made(survey.reefcore("run", "alone")) == {"30_alone"}
    assert made(survey.reefcore("run", "alone", "--output", "elsewhere")) == {"30_alone"}
    assert (survey.folder / "elsewhere" / "30_alone.ipynb").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["all", "-p", "sead=1"],
            r"10_splits, 20_quality, 30_alone: unknown parameter 'sead'; there are more, profile, seed, size",
        ),
        (["splits", "-p", "size=1"], r"10_splits: unknown parameter 'size'"),
        (["alone", "-p", "size=big"], r"30_alone.ipynb: the parameter size must be of type float, not 'big'"),
        (["alone", "-p", "seed=1.5"], r"the parameter seed must be of type int"),
        (["nothing"], r"there is no chapter 'nothing'; choose from 10_splits, 20_quality, 30_alone, all"),
        (["all", "--profile", "none"], r"there is no profile 'none'"),
        (["all", "--profile", "no.yaml"], r"no.yaml: this profile cannot be read"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_it_starts(survey, reefcore, arguments, sentence):
    result = reefcore("run", *arguments)
    assert result.returncode == 2 and result.stdout == ""
    assert re.fullmatch(f"reefcore: .*{sentence}.*\n", result.stderr)
    assert not list(survey.folder.rglob("done")) and not survey.chapters.exists()


def test_a_failing_chapter_says_why_and_the_others_are_still_made(built):
    survey = built
    survey.notebook("15_bad", OPEN, "import os", "os._exit(1)", parameters=PARAMETERS)
    (survey.chapters / "30_alone.ipynb").unlink()
    result = survey.reefcore("run", "all")
    assert result.returncode == 1
    assert "15_bad: code cell 4: the kernel died" in result.stderr and "Traceback" not in result.stderr
    assert "the build is not complete" in result.stderr
    assert not (survey.chapters / "15_bad.ipynb").exists() and (survey.chapters / "30_alone.ipynb").exists()
    assert (survey.folder / "build" / "failed" / "15_bad.ipynb").exists()


def test_a_survey_that_is_not_there_is_said_in_one_sentence(survey):
    (survey.folder / "survey" / "reviews.parquet").unlink()
    result = survey.reefcore("run", "splits")
    sentence = (
        "10_splits cannot run: it needs annotations (of the tables in its folder, reviews.parquet is missing); reefcore"
    )
    assert sentence in result.stderr and result.returncode == 2


def test_a_killed_build_is_finished_by_the_same_command(survey, undisturbed, reefcore):
    # Killed three times, by itself or with everything in its group: while steps, a step and a chapter, and chapters
    # are at work.
    moments = ("survey/.keys/data.json", False), ("survey/.keys/splits.json", False), ("book/chapters/[12]*.json", True)
    for record, whole in moments:
        with subprocess.Popen(
            survey.command("run", "all"), cwd=survey.folder, start_new_session=True, stderr=subprocess.DEVNULL
        ) as process:
            until = time.monotonic() + 60
            while not any(survey.folder.glob(record)) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            if whole:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        assert process.returncode == -signal.SIGKILL and any(survey.folder.glob(record))
    result = survey.reefcore("run", "all")
    assert result.returncode == 0, result.stderr
    assert contents(survey) == contents(undisturbed)
    assert made(reefcore("run", "all")) == set()
    assert not list(survey.folder.rglob(".*.tmp*"))


def test_two_builds_at_once_are_refused_and_a_stale_lock_of_snakemake_is_not(survey):
    stale = survey.folder / ".snakemake" / "locks"
    stale.mkdir(parents=True)
    for kind in ("input", "output"):
        (stale / f"0.{kind}.lock").write_text(f"{build.jobs(['alone'], {})[-1].marker}\n")
    slow = "import pathlib, time\nfor _ in range(600):\n    pathlib.Path('go').exists() or time.sleep(0.05)"
    survey.notebook("40_slow", slow)
    locked = survey.folder / "build" / "locks" / "build.lock"
    with subprocess.Popen(survey.command("run", "40_slow"), cwd=survey.folder, stderr=subprocess.PIPE) as first:
        until = time.monotonic() + 60
        while not (locked.exists() and locked.read_text() == str(first.pid)) and time.monotonic() < until:
            time.sleep(0.01)
        commands = (survey.command("run", "alone"), [sys.executable, "-m", "snakemake", "--cores", "1"])
        others = [subprocess.Popen(c, cwd=survey.folder, stderr=subprocess.PIPE, text=True) for c in commands]
        for second in others:
            _, said = second.communicate()
            assert second.returncode != 0
            assert f"another build is running here (process {first.pid}); wait for it, or stop it" in said
        assert first.poll() is None
        (survey.folder / "go").touch()
        first.communicate()
        assert first.returncode == 0
    assert made(survey.reefcore("run", "alone")) == {"30_alone"}


def test_files_are_meant_from_the_folder_where_the_command_is_typed(survey):
    hers = survey.folder.parent / "hers"
    shutil.copytree(survey.folder / "notebooks", hers)
    (hers / "mine.yaml").write_text(PROFILE)
    (survey.folder / "survey.yaml").unlink()
    command = survey.command("run", "30_alone.ipynb", "--profile", "mine.yaml", "--output", "out")
    for jobs in ({"30_alone"}, set()):
        environment = os.environ | {keys.ROOT: str(survey.folder)}
        assert made(subprocess.run(command, cwd=hers, env=environment, capture_output=True, text=True)) == jobs
    assert (hers / "out" / "30_alone.ipynb").exists() and not (survey.folder / "out").exists()


def test_plain_snakemake_does_the_same(survey, reefcore):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", "chapters=quality", "seed=3"]
    subprocess.run(command, cwd=survey.folder, check=True, capture_output=True)
    assert json.loads((survey.chapters / "20_quality.json").read_text())["seed"] == 3
    assert made(reefcore("run", "quality", "-p", "seed=3")) == set()


@pytest.mark.parametrize("place", ["notebooks", ".", ".."])
def test_plain_papermill_makes_what_is_missing_on_the_spot(survey, place, monkeypatch):
    monkeypatch.chdir(survey.folder / place)
    profile = str(survey.folder / "survey.yaml") if place == ".." else "survey.yaml"
    path, out = survey.folder / "notebooks" / "20_quality.ipynb", survey.folder / "out.ipynb"
    if place == "..":  # outside any checkout, data go by the one the library lies in: an absolute folder decides here
        text = PROFILE.replace("data: survey", f"data: {survey.folder / 'survey'}")
        (survey.folder / "survey.yaml").write_text(text)
    papermill.execute_notebook(path, out, {"profile": profile}, kernel_name="python3", progress_bar=False)
    made_now = survey.folder / "survey" / "quality.parquet"
    assert made_now.exists() and f"quality {keys.digest(made_now)[:8]}" in out.read_text()


def test_what_a_notebook_needs_is_read_from_its_code(smoke):
    def needs(code):
        return build.needs(f"from reefcore import workflow\nproject = workflow.open()\n{code}", smoke.profile)

    assert needs("other.table('splits'); covariates.table(x, y)") == ()
    assert needs("project.table('truth'); project.table('images', columns=['a'])") == ("data",)
    assert needs("a = project.patches[:3]\nproject.table('quality')") == ("curate", "patches")
    assert needs("project.table('unreadable')") == ("covariates",)
    for name in ("predictions", "validation", "history", "runs"):
        assert needs(f"project.table('{name}')") == ("train",)
    every = ["data", "covariates", "curate", "candidates", "splits", "patches", "train", "metrics"]
    every += ["zero_shot", "open_set", "few_shot"]
    every += ["survey", "substrate_splits", "frame_patches", "whole_frames", "substrate"]
    every += ["pseudo_labels", "pseudo_worth", "domain_points", "domain_predictions"]
    assert needs("project.table(name)") == tuple(every)  # not each run by itself


def test_what_a_file_named_by_a_parameter_holds_counts(tmp_path):
    def key(path):
        (chapter,) = build.chapters(["22_places"], {"profile": "smoke", "meow": str(path)})
        return build.key_of(chapter)

    shapes = tmp_path / "meow.shp"
    missing = key(shapes)
    shapes.write_text("one")
    first = key(shapes)
    shapes.write_text("another")
    assert len({missing, first, key(shapes)}) == 3


def test_a_table_that_a_profile_does_not_have_is_refused(smoke):
    with pytest.raises(ReefcoreError, match=r"the profile smoke has no prices; it has .*annotations.parquet"):
        smoke.table("prices")


def test_a_step_depends_on_its_own_settings_and_recipe(smoke, monkeypatch):
    def ingredients(name):
        return steps.ingredients(smoke.profile, smoke.folder, name)

    run = ingredients("resnet101-S1")
    assert "profile scale" in ingredients("data") and "profile scale" not in run
    assert "recipe" in run and not [name for name in run if name.endswith(".yaml")]
    assert run["recipe"] == ingredients("resnet101-S2")["recipe"] != ingredients("vit-S1")["recipe"]
    assert "step mae_pretraining" in ingredients("vit_mae.seed1-S3") and "step mae_pretraining" not in run
    assert "reefcore/training.py" in run and "reefcore/training.py" not in ingredients("splits")
    assert not [name for name in ingredients("metrics") if "torch" in name or name.startswith("reefcore/workflow")]


def test_another_seed_has_a_folder_of_its_own(smoke):
    assert workflow.open("smoke", seed=smoke.seed).folder == smoke.folder
    assert workflow.open("smoke", seed=9).folder == smoke.folder.with_name("smoke-seed9")
