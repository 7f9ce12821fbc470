"""Shards hold what was cut, byte for byte the same each time, whatever interrupts the writing."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import patches, shards
from reefcore.errors import ReefcoreError


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """Two sources of smooth photos, six points each; one point outside, one photo missing."""
    photos, rng, rows = tmp_path_factory.mktemp("photos"), np.random.default_rng(0), []
    for source in ("Reef A", "Bänk 2"):
        (photos / source).mkdir()
        for name in ("a.jpg", "b.jpg", "c.jpg"):
            small = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8))
            small.resize((240, 180), Image.Resampling.BICUBIC).save(photos / source / name, quality=95)
            rows += [(source, name, int(r), int(c)) for r, c in rng.integers(0, 180, (6, 2))]
    rows += [("Reef A", "a.jpg", 180, 0), ("Reef A", "none.jpg", 1, 1)]
    points = pd.DataFrame(rows, columns=["source", "image", "row", "column"])
    points["annotation_id"] = [f"{i:04x}" for i in range(len(points))]
    points["label"] = ["Porites"] * (len(points) - 1) + [None]
    return points.sample(frac=1, random_state=0), photos


def write(survey, folder, **options):
    return shards.write(*survey, 64, folder, **{"per_shard": 8} | options)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_what_is_written_is_what_was_cut(survey, tmp_path):
    points, photos = survey
    manifest, skipped = write(survey, tmp_path)
    cut, skipped_too = patches.cut(points, photos, 64)
    by = ["annotation_id"]
    assert skipped.sort_values(by).reset_index(drop=True).equals(skipped_too.sort_values(by).reset_index(drop=True))
    kept = points[~points["annotation_id"].isin(skipped["annotation_id"])]
    assert len(manifest) == len(kept) == 36 and manifest["shard"].nunique() == 4 and set(manifest["size"]) == {64}
    stored = shards.ShardPatches(tmp_path)
    assert stored.size == 64 and not stored.in_memory and set(stored.ids) == set(kept["annotation_id"])
    where = [stored.ids.index(i) for i in kept["annotation_id"]]
    difference = np.abs(stored.read(where, 64).astype(int) - cut)
    assert difference.mean() < 2 and difference.max() < 40


def test_the_webdataset_package_reads_them(survey, tmp_path):
    import webdataset

    points = survey[0].set_index("annotation_id")
    write(survey, tmp_path)
    urls = sorted(str(path) for path in tmp_path.glob("*.tar"))
    samples = list(webdataset.WebDataset(urls, shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == shards.ShardPatches(tmp_path).ids
    for sample in samples[:3]:
        about, point = json.loads(sample["json"]), points.loc[sample["__key__"]]
        assert (about["source"], about["image"], about["row"]) == (point["source"], point["image"], point["row"])
        assert about["label"] == "Porites" and sample["jpg"][:2] == b"\xff\xd8"


def test_the_same_points_in_any_order_give_the_same_bytes(survey, tmp_path):
    write(survey, tmp_path / "a")
    write((survey[0].sort_values("annotation_id"), survey[1]), tmp_path / "b", workers=1)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_only_what_changed_is_written_again(survey, tmp_path, monkeypatch):
    points, photos = survey
    first = write(survey, tmp_path)
    encoded = []
    encode = shards.simplejpeg.encode_jpeg
    monkeypatch.setattr(shards.simplejpeg, "encode_jpeg", lambda *a: encoded.append(1) or encode(*a))
    again = write(survey, tmp_path)
    assert encoded == [] and all(a.equals(b) for a, b in zip(first, again, strict=True))
    fewer = points[points["image"] != "c.jpg"]
    write((fewer, photos), tmp_path)  # both sources change, and need fewer shards
    assert len(encoded) == 24 and len(shards.ShardPatches(tmp_path).ids) == 24
    write((fewer[fewer["source"] == "Reef A"], photos), tmp_path)  # the other one stays
    assert len(encoded) == 24 and len(shards.ShardPatches(tmp_path).ids) == 24
    one = fewer[fewer["source"] == "Reef A"]
    for options in ({"quality": 90}, {"per_shard": 100}):
        encoded.clear()
        write((one, photos), tmp_path, **options)
        assert len(encoded) == 12
    path = photos / "Reef A" / "a.jpg"
    before = path.stat()
    os.utime(path, (1, 1))
    encoded.clear()
    write((one, photos), tmp_path, per_shard=100)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(encoded) == 12


@pytest.mark.parametrize("harm", ["cut", "missing", "no manifest"])
def test_a_shard_that_is_not_whole_is_written_again(survey, tmp_path, harm):
    write(survey, tmp_path)
    right, path = contents(tmp_path), min(tmp_path.glob("*.tar"))
    if harm == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        (path if harm == "missing" else path.with_suffix(".parquet")).unlink()
    write(survey, tmp_path)
    assert contents(tmp_path) == right


KILLED = """
import sys, time, pandas as pd
from reefcore import shards
encode = shards.simplejpeg.encode_jpeg
shards.simplejpeg.encode_jpeg = lambda *a: time.sleep(0.05) or encode(*a)
shards.write(pd.read_parquet(sys.argv[1]), sys.argv[2], 64, sys.argv[3], per_shard=8)
"""


def test_a_killed_run_leaves_whole_shards_and_the_next_one_ends_the_same(survey, tmp_path):
    points, photos = survey
    write(survey, tmp_path / "undisturbed")
    points.to_parquet(tmp_path / "points.parquet")
    folder = tmp_path / "killed"
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "points.parquet"), str(photos), str(folder)])
    until = time.monotonic() + 60
    while not (list(folder.glob("*.parquet")) and list(folder.glob(".*.tmp.tar"))) and time.monotonic() < until:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    left, right = contents(folder), contents(tmp_path / "undisturbed")
    whole = {name: data for name, data in left.items() if not name.startswith(".")}
    assert whole and len(whole) < len(right) and len(whole) < len(left)
    assert all(right[name] == data for name, data in whole.items())
    with pytest.raises(ReefcoreError, match="not complete"):
        shards.ShardPatches(folder)
    write(survey, folder)
    assert contents(folder) == right


def test_patches_are_read_in_any_order_and_at_any_side(survey, tmp_path):
    write(survey, tmp_path)
    stored = shards.ShardPatches(tmp_path)
    whole = stored.read(range(36), 64)
    assert np.array_equal(stored.read([30, 2, 30], 64), whole[[30, 2, 30]])
    assert stored.read([], 8).shape == (0, 8, 8, 3)
    for side in (96, 48, 33, 8):
        alike = np.stack([patches.resized(patch, side) for patch in whole])
        got = stored.read(range(36), side)
        assert got.shape == alike.shape and np.abs(got.astype(int) - alike).mean() < 1.5
    for positions, side in (([36], 8), ([-1], 8), ([0], 0)):
        with pytest.raises(ReefcoreError, match=r"no patch at position|of 0 pixels"):
            stored.read(positions, side)
    assert np.allclose(patches.statistics(stored, range(36))["mean"], whole.mean(axis=(0, 1, 2)) / 255)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_read_the_same(survey, tmp_path, method):
    write(survey, tmp_path)
    stored = shards.ShardPatches(tmp_path)
    here = [stored.read([i, 35 - i], 32).tobytes() for i in range(8)]
    with ProcessPoolExecutor(2, get_context(method)) as pool:
        there = list(pool.map(stored.read, [[i, 35 - i] for i in range(8)], [32] * 8))
    assert [x.tobytes() for x in there] == here and pickle.loads(pickle.dumps(stored)).ids == stored.ids


def test_damage_is_said_with_shard_and_annotation(survey, tmp_path):
    manifest, _ = write(survey, tmp_path)
    stored, row = shards.ShardPatches(tmp_path), manifest.iloc[5]
    with open(tmp_path / row["shard"], "r+b") as file:
        file.seek(row["offset"] + row["length"] // 2)
        file.write(bytes(8))
    with pytest.raises(ReefcoreError, match=rf"{row['shard']}: the patch of the annotation {row['annotation_id']} is"):
        stored.read([stored.ids.index(row["annotation_id"])], 64)
    stored.read([stored.ids.index(manifest["annotation_id"][4])], 64)  # its neighbour is whole
    (tmp_path / row["shard"]).unlink()
    with pytest.raises(ReefcoreError, match=r"cannot be read .* delete this shard"):
        stored.read([stored.ids.index(row["annotation_id"])], 64)


def test_a_folder_that_is_not_of_whole_shards_of_one_size_is_refused(survey, tmp_path):
    points, photos = survey
    with pytest.raises(ReefcoreError, match="not a folder of shards"):
        shards.ShardPatches(tmp_path)
    for source, size in (("Reef A", 64), ("Bänk 2", 32)):
        shards.write(points[points["source"] == source], photos, size, tmp_path)
    with pytest.raises(ReefcoreError, match="32, 64 pixels"):
        shards.ShardPatches(tmp_path)
    points.to_parquet(tmp_path / "points.parquet")
    with pytest.raises(ReefcoreError, match="not a folder of shards"):
        shards.ShardPatches(tmp_path)


def test_points_without_any_patch_make_no_tar(survey, tmp_path):
    points, photos = survey
    manifest, skipped = write((points[points["image"] == "none.jpg"], photos), tmp_path)
    assert manifest.empty and len(skipped) == 1 and not list(tmp_path.glob("*.tar"))
    assert write((points[:0], photos), tmp_path)[0].empty
    assert write((points[points["image"] == "none.jpg"], photos), tmp_path)[1].equals(skipped)


@pytest.mark.parametrize("lost", ["0003.json", "0003.jpg"])
def test_a_shard_that_lost_a_member_while_written_is_refused(survey, tmp_path, monkeypatch, lost):
    add = tarfile.TarFile.addfile
    monkeypatch.setattr(
        tarfile.TarFile, "addfile", lambda tar, member, data: member.name == lost or add(tar, member, data)
    )
    with pytest.raises(ReefcoreError, match="does not hold what was written"):
        write(survey, tmp_path)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"annotation_id": "a"}, "'a' stands twice"),
        ({"annotation_id": [f"{i}/x" for i in range(38)]}, "cannot name a file"),
        ({"annotation_id": ["x" * 91 + f"{i}" for i in range(38)]}, "cannot name a file"),
        ({"image": None}, "lacks its photo"),
        ({"label": "drop"}, "lack the column label"),
    ],
)
def test_points_that_cannot_be_written_are_refused(survey, tmp_path, change, said):
    points, photos = survey
    points = points.drop(columns="label") if "drop" in change.values() else points.assign(**change)
    with pytest.raises(ReefcoreError, match=said):
        write((points, photos), tmp_path)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("options", [{"quality": 0}, {"quality": 101}, {"per_shard": 0}, {"workers": 0}])
def test_settings_that_make_no_shards_are_refused(survey, tmp_path, options):
    with pytest.raises(ReefcoreError, match="make no shards"):
        write(survey, tmp_path, **options)
