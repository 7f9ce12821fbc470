"""Cutting a whole survey: what it is said to take, and many processes that leave what one leaves."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import cutting, shards
from reefcore.errors import ReefcoreError


def photo(path, seed, side=300):
    path.parent.mkdir(parents=True, exist_ok=True)
    small = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    Image.fromarray(small).resize((side * 4 // 3, side), Image.Resampling.BICUBIC).save(path, quality=92)


@pytest.fixture
def survey(tmp_path):
    """Four sources, the last without its photos; the second has photos of another size."""
    rows = []
    for s, source in enumerate(("A", "B/b", "C", "D")):
        for i in range(8 if source == "A" else 4):
            rows += [(source, f"{i}.jpg", 30 * k, 20 * k) for k in range(4)]
            if source != "D":
                photo(tmp_path / "photos" / source / f"{i}.jpg", 10 * s + i, 600 if s == 1 else 300)
    points = pd.DataFrame(rows, columns=["source", "image", "row", "column"]).assign(label="Porites")
    points["annotation_id"] = [f"{i:04x}" for i in range(len(points))]
    return points, tmp_path / "photos"


def contents(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_many_processes_leave_the_bytes_that_one_leaves(survey, tmp_path):
    ids, skipped = cutting.write(*survey, 64, tmp_path / "many", 2)
    here = survey[0]["source"] != "D"
    shards.write(survey[0][here], survey[1], 64, tmp_path / "one")
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    assert set(ids) == set(survey[0].loc[here, "annotation_id"])
    assert set(skipped["source"]) == {"D"} and set(skipped["reason"]) == {cutting.ABSENT} and len(skipped) == 16


def test_the_forecast_of_a_slice_is_near_what_is_written(survey, tmp_path):
    points, folder = survey[0], tmp_path / "shards"
    found = cutting.plan(*survey, 64, folder, 1, each=3)
    assert [found[n] for n in ("points", "points_there", "photos", "photos_there", "sources")] == [80, 64, 20, 16, 4]
    assert found["how"] == "measured" and found["slice"] == 9 and found["missing"] == {"D": 4} and found["fits"]
    cutting.write(*survey, 64, folder, 1)
    # of whole blocks of the tar files, without what their ends are filled up with
    blocks = sum(512 * (3 + -(-n // 512)) for n in pd.concat(map(pd.read_parquet, folder.glob("*.parquet")))["length"])
    assert found["bytes"] == found["bytes_left"] == pytest.approx(blocks, rel=0.05)
    assert found["bytes_all"] == pytest.approx(found["bytes"] * 80 / 64, rel=0.1) and found["seconds_left"] > 0
    assert not list(tmp_path.glob(".slice*"))  # nothing of a slice is kept
    again = cutting.plan(*survey, 64, folder, 1)
    assert again["points_done"] == 64 and again["seconds_left"] == 0 and again["bytes_left"] == 0
    assert any("1 sources have no photo here (4 photos; the first: D)" in line for line in cutting.said(found))
    assert len(points) == again["points"]


def test_without_a_photo_the_figures_are_stated_ones():
    counts = pd.DataFrame([("A", 100, 20, 0, 0, 0, 0)], columns=cutting.counted(*nothing()).columns)
    found = cutting.forecast(
        counts, pd.DataFrame(columns=["source", "photos", "points", "bytes", "seconds"]), 256, 2, 9
    )
    assert found["how"] == "stated" and found["bytes_all"] == 100 * cutting.STATED["bytes"] / 4
    assert found["bytes_left"] == 0 and found["fits"] and found["seconds_all"] == 20 * cutting.STATED["seconds"] / 2


def nothing():
    return pd.DataFrame(columns=shards.POINT), "photos", 64, "shards"


def test_a_disk_that_is_too_small_is_refused_before_it_is_full():
    found = {"fits": False, "bytes_left": 2e9, "bytes_free": 1e9}
    with pytest.raises(ReefcoreError, match=r"take 2.0 GB more, and 1.0 GB are free .*--anyway"):
        cutting.check(found, "shards")
    cutting.check(found, "shards", anyway=True)


def test_photos_that_come_later_are_made_later_and_nothing_else(survey, tmp_path):
    folder = tmp_path / "shards"
    cutting.write(*survey, 64, folder, 2)
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    for i in range(4):
        photo(survey[1] / "D" / f"{i}.jpg", i)
    ids, skipped = cutting.write(*survey, 64, folder, 2)
    assert len(ids) == 80 and skipped.empty and all(file.stat().st_mtime_ns == t for file, t in before.items())
    for file in (survey[1] / "A").iterdir():
        file.unlink()  # cut, then removed: what was cut stays
    ids, skipped = cutting.write(*survey, 64, folder, 2)
    assert len(ids) == 80 and skipped.empty


@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_that_fails_stops_no_other(survey, tmp_path, workers):
    points, photos = survey
    points.loc[points["source"] == "B/b", "label"] = None
    points.loc[points.index[points["source"] == "B/b"][0], "row"] = None
    with pytest.raises(ReefcoreError, match=r"of 1 of 3 sources could not be made \(B/b\); of B/b: .* lacks its photo"):
        cutting.write(points, photos, 64, tmp_path / "shards", workers)
    assert {file.name.partition("-")[0] for file in (tmp_path / "shards").glob("*.tar")} == {"a", "c"}


def test_progress_counts_photos_of_what_is_being_written(survey, tmp_path):
    cutting.write(*survey, 64, tmp_path / "shards", 1)
    seen = {}
    cutting._look(tmp_path / "shards", 0, seen)
    assert sorted(seen.values()) == [("A", 8), ("B/b", 4), ("C", 4)]
    later = {}
    cutting._look(tmp_path / "shards", 4e9, later)
    assert later == {}


def test_parts_keep_their_warnings_to_themselves(survey, tmp_path, caplog):
    points = survey[0].assign(row=lambda t: t["row"] + 10_000 * (t["source"] == "C"))
    with caplog.at_level(logging.WARNING):
        ids, _ = cutting.write(points, survey[1], 64, tmp_path / "shards", 2)
    assert len(ids) == 48 and [r.message[:31] for r in caplog.records] == ["32 of 80 points have no patch; "]


def test_the_command_measures_a_slice_and_makes_single_sources(survey, tmp_path, monkeypatch, capsys):
    from reefcore import cli, workflow
    from reefcore.workflow import steps

    points, _ = survey
    points.to_parquet(tmp_path / "annotations.parquet")
    points[["annotation_id"]].to_parquet(tmp_path / "splits.parquet")
    profile = SimpleNamespace(name="full", kind="full", shards=True, crop=64, path="full.yaml")
    project = SimpleNamespace(profile=profile, folder=tmp_path)
    monkeypatch.setattr(workflow, "open", lambda name: project)
    monkeypatch.setattr(steps, "plan", lambda profile: {"patches": None, "splits": None})
    monkeypatch.setattr(steps, "runs", lambda profile: [])
    monkeypatch.setattr(steps, "ensure", lambda *_: None)
    assert cli.main(["prepare", "patches", "--profile", "full", "--slice", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["slice"] == 3 and found["here"] == {"A": 8, "B/b": 4, "C": 4} and not (tmp_path / "shards").exists()
    assert cli.main(["prepare", "--profile", "full", "--source", "C"]) == 0
    assert "16 of 16 points have their patch" in capsys.readouterr().out
    assert [file.name[:2] for file in (tmp_path / "shards").glob("*.tar")] == ["c-"]
    assert cli.main(["prepare", "--profile", "full", "--source", "Q"]) == 2
    assert "no scheme uses a point of the source 'Q'; there is A, B/b, C" in capsys.readouterr().err
    monkeypatch.setattr(cutting.shutil, "disk_usage", lambda place: SimpleNamespace(free=1000))
    assert cli.main(["prepare", "--profile", "full", "--source", "A"]) == 2
    assert "free on the disk" in capsys.readouterr().err
    assert cli.main(["prepare", "--profile", "full", "--source", "A", "--anyway"]) == 0
    profile.shards = False
    assert cli.main(["prepare", "--profile", "full", "--slice", "1"]) == 2 and "no shards" in capsys.readouterr().err


def test_the_step_refuses_a_small_disk_and_leaves_what_a_training_reads(survey, tmp_path, monkeypatch, caplog):
    from reefcore.workflow import steps

    points, photos = survey
    points.to_parquet(tmp_path / "annotations.parquet")
    points[["annotation_id"]].to_parquet(tmp_path / "splits.parquet")
    profile = SimpleNamespace(shards=True, crop=64)
    monkeypatch.setattr(cutting.shutil, "disk_usage", lambda place: SimpleNamespace(free=1000))
    with pytest.raises(ReefcoreError, match="free on the disk"):
        steps._patches(profile, tmp_path, 1)
    monkeypatch.setenv(steps.ANYWAY, "1")
    with caplog.at_level(logging.INFO):
        steps._patches(profile, tmp_path, 1)
    assert "80 points on 20 photos of 4 sources" in caplog.text  # said before it starts
    kept, skipped = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("patches", "skipped"))
    assert kept["annotation_id"].tolist() == steps.store(profile, tmp_path).ids and len(kept) == 64
    assert set(skipped["source"]) == {"D"}
    for file in sorted(photos.rglob("*.jpg")) + sorted((tmp_path / "shards").iterdir()):
        file.unlink()
    steps._patches(profile, tmp_path, 1)  # no photo at all: what can do without goes on
    assert (
        len(pd.read_parquet(tmp_path / "patches.parquet")) == 0
        and len(pd.read_parquet(tmp_path / "skipped.parquet")) == 80
    )
    with pytest.raises(ReefcoreError, match=r"there is no patch: no photo .*reefcore fetch images"):
        steps.store(profile, tmp_path)
