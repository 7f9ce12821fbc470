"""Released files come whole from a hub that fails in every way, go on where they stopped, and are never half there."""

import errno
import hashlib
import io
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
import types
import zipfile

import huggingface_hub.constants
import huggingface_hub.file_download
import huggingface_hub.utils._http
import numpy as np
import pandas as pd
import pytest
from hub_server import HubServer
from PIL import Image

from reefcore import cli, geography, weights, workflow
from reefcore.errors import ReefcoreError
from reefcore.fetch import ITEMS, REEFNET, SUBSTRATE, USER_AGENT, archive, hub, models, places

POINTS = random.Random(0).randbytes(50_000)
CSV = "All_ReefNet_annotations.csv"
CROISSANT = "croissant_ReefNet_1.0.json"


def jpeg(seed: int, size=(40, 30)) -> bytes:
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "JPEG")
    return stream.getvalue()


def zipped(members: dict, how=zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return stream.getvalue()


PHOTOS = zipped({"RSG/images/a.jpg": jpeg(1), "RSG/images/b.jpg": jpeg(2)})
RELEASE = {
    CSV: POINTS,
    CROISSANT: "{}",
    "Metadata_All_ReefNet_annotations.xlsx": b"1" * 2000,
    "Metadata_ReefNet_by_CoralNet_sources.xlsx": b"2",
    "Overview_Sources_for_Image_Download.csv": b"3",
    "ReefNet_labelmapping.xlsx": b"4",
    "ReefNet_RSG-TestDataset_annotations.csv": b"5",
    "ReefNet_RSG-TestDataset_images.zip": PHOTOS,
    "ReefNet_RSG-TestDataset_labelmapping.xlsx": b"6",
    "README.md": b"7",
}


@pytest.fixture
def slept(monkeypatch) -> list:
    """Seconds that were to be waited, and are not."""
    seconds = []
    clock = types.SimpleNamespace(sleep=seconds.append, time=time.time)
    for module in (huggingface_hub.file_download, huggingface_hub.utils._http, hub):
        monkeypatch.setattr(module, "time", clock)
    return seconds


@pytest.fixture
def host(monkeypatch, tmp_path, slept):
    """The hub, with the release; whatever asks the hub asks this one, and writes in small pieces."""
    constants = huggingface_hub.constants
    with HubServer() as server:
        server.commit = server.put(REEFNET, RELEASE)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
        monkeypatch.setenv("REEFNET_DATA", str(tmp_path / "data"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def fetched(folder, items=("annotations",), **options):
    return hub.get(folder, hub.plan(folder, items, **options))


def ranges(host) -> list:
    return [headers.get("Range") for method, path, headers in host.requests if method == "GET" and "/cdn/" in path]


def assert_whole(folder):
    assert (folder / CSV).read_bytes() == POINTS
    facts = hub.record(folder)[CSV]
    assert facts["sha256"] == hashlib.sha256(POINTS).hexdigest() and facts["size"] == len(POINTS)
    assert sorted(os.listdir(folder)) == [CSV, CROISSANT, "fetched.json"]


def test_files_are_listed_fetched_once_and_recorded_with_their_commit(host, tmp_path):
    planned = hub.plan(tmp_path, ["annotations"])
    assert planned["state"].tolist() == ["to fetch"] * 2 and planned["left"].tolist() == [50_000, 2]
    assert not list(tmp_path.glob("*.csv"))  # a plan writes nothing
    assert hub.get(tmp_path, planned)["state"].tolist() == ["fetched"] * 2
    assert_whole(tmp_path)
    assert hub.record(tmp_path)[CSV]["revision"] == host.commit
    asked = len(host.requests)
    assert fetched(tmp_path)["state"].tolist() == ["there"] * 2 and len(host.requests) == asked
    assert all(USER_AGENT in headers["User-Agent"] for _, path, headers in host.requests if REEFNET in path)


@pytest.mark.parametrize(
    ("kind", "how", "first"),
    [
        ("drop", {"after": 20_000}, "bytes=20000-"),
        ("stall", {"after": 30_000}, "bytes=30000-"),
        ("short", {}, None),
        ("status", {"code": 503}, None),
    ],
)
def test_what_passes_is_tried_again_from_the_byte_that_was_reached(host, tmp_path, kind, how, first):
    host.fault("/cdn/", kind, **how)
    fetched(tmp_path)
    assert_whole(tmp_path)
    assert ranges(host)[1:] == ([first] if kind != "short" else [])


def test_the_hub_is_waited_for_as_long_as_it_says_and_no_longer(host, tmp_path, slept):
    host.fault("resolve/.*csv", "status", method="HEAD", code=429, headers={"Retry-After": "7"})
    fetched(tmp_path)
    assert slept == [7]
    host.fault("resolve/.*Metadata", "status", None, method="HEAD", code=429, headers={"Retry-After": "4000"})
    with pytest.raises(
        ReefcoreError, match=r"asked too often and says to wait 4000 s \(429\); wait, then type the same"
    ):
        fetched(tmp_path, ["metadata"])
    assert slept == [7]
    assert (tmp_path / "Overview_Sources_for_Image_Download.csv").exists()  # the others of the command have come


@pytest.mark.parametrize(
    ("pattern", "kind", "how", "said"),
    [
        ("/cdn/", "wrong", {}, r"annotations.csv: what came is not what the hub lists \(SHA-256 .*it was not kept"),
        ("/cdn/", "html", {}, "what answers is not the file: a page of a proxy or a log-in, perhaps; it was not kept"),
        ("resolve.*csv", "html", {}, "what answers is not the file"),
        ("/api/", "html", {}, "what answers is not the file"),
        ("resolve.*csv", "status", {"code": 404}, r"the hub does not have this file any more \(404\)"),
        ("/cdn/", "status", {"code": 403}, r"lets in only whom it knows \(403\); read and accept its terms"),
        ("/api/", "status", {"code": 401}, r"not for everyone \(401\).*HF_TOKEN"),
        ("/api/", "status", {"code": 503}, r"the hub cannot answer now \(503\); wait a little, then type the same"),
        ("/api/", "stall", {"after": 5}, "the connection stalled; type the same command again"),
        ("/cdn/", "drop", {"after": 0}, "the connection was lost .*; check the network, then type the same command"),
        ("/cdn/", "loop", {}, "leads round in a circle"),
        ("resolve.*csv", "loop", {}, "leads round in a circle"),
        ("/api/", "loop", {}, "leads round in a circle"),
    ],
)
def test_each_fault_is_one_sentence_leaves_nothing_corrupt_and_the_same_command_finishes(
    host, tmp_path, pattern, kind, how, said
):
    host.fault(pattern, kind, None, method=None, **how)
    ask = hub.Hub(tries=2, timeout=0.2)
    with pytest.raises(ReefcoreError, match=said) as error:
        hub.get(tmp_path, hub.plan(tmp_path, ["annotations"], hub=ask), ask)
    assert "\n" not in str(error.value)
    assert not (tmp_path / CSV).exists()
    host.faults.clear()
    fetched(tmp_path)
    assert_whole(tmp_path)


def test_files_kept_in_pieces_come_as_one_that_can_be_resumed(host, tmp_path):
    host.xet = True
    host.fault("/cdn/", "drop", after=20_000)
    fetched(tmp_path)
    assert_whole(tmp_path)
    assert ranges(host) == [None, "bytes=20000-"] and not host.paths(pattern="xet-read-token")


def test_a_file_that_another_process_fetches_is_left_to_it(host, tmp_path):
    remote = next(one for one in hub.Hub().listing(REEFNET).files if one.path == CSV)
    with (
        hub.alone(hub.part_of(tmp_path / CSV, remote)),
        pytest.raises(ReefcoreError, match="another process is at this file; wait for it"),
    ):
        fetched(tmp_path)
    fetched(tmp_path)
    assert_whole(tmp_path)


def test_a_closed_repository_opens_with_a_token(host, tmp_path, monkeypatch):
    host.gated.add(REEFNET)
    with pytest.raises(ReefcoreError, match="make a token in your settings there, and set HF_TOKEN"):
        fetched(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    fetched(tmp_path)
    assert_whole(tmp_path)


def test_without_a_hub_the_network_is_named(tmp_path):
    with pytest.raises(ReefcoreError, match=r"the connection was lost \(.*refused.*\); check the network"):
        hub.plan(tmp_path, ["annotations"], hub=hub.Hub("http://127.0.0.1:9", tries=1))


RUN = "import sys, huggingface_hub.constants as c; c.DOWNLOAD_CHUNK_SIZE = 1000; from reefcore import cli; "


def command(host, tmp_path, before="", **more):
    text = f"{RUN}{before}sys.exit(cli.main(['fetch', 'annotations']))"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it writes files too
    environment = kept | {"HF_ENDPOINT": host.url, "HF_HOME": str(tmp_path / "hf")} | more
    return subprocess.Popen([sys.executable, "-c", text], env=environment, stderr=subprocess.PIPE, text=True)


def test_killed_half_way_it_goes_on(host, tmp_path):
    host.fault("/cdn/", "stall", after=40_000)
    process, folder = command(host, tmp_path), tmp_path / "data" / "released"
    end = time.monotonic() + 30
    while not any(part.stat().st_size > 30_000 for part in folder.glob(".*.part")) and time.monotonic() < end:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.stderr.close()
    assert not (folder / CSV).exists()
    (part,) = folder.glob(".*.part")
    fetched(folder)
    assert_whole(folder)
    had = int(ranges(host)[-1].removeprefix("bytes=").removesuffix("-"))
    assert 30_000 < had <= 40_000 and not part.exists()


def test_a_full_disk_is_said_and_the_rest_comes_when_there_is_room(host, tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20480, 20480)); "
    process = command(host, tmp_path, limit)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said.startswith(f"reefcore: {CSV}: there is no room for it (File too large); make room, then type the same")
    assert said.count("\n") == 1 and not (tmp_path / "data" / "released" / CSV).exists()
    fetched(tmp_path / "data" / "released")
    assert_whole(tmp_path / "data" / "released")
    assert ranges(host)[-1] == "bytes=20480-"


def test_too_little_room_is_said_before_anything_is_fetched(host, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=10_000))
    assert cli.main(["fetch", "annotations"]) == 2
    assert "this takes 0.0 GB, and 0.0 GB are free; make room, or set REEFNET_DATA" in capsys.readouterr().err
    assert not (tmp_path / "data").exists() and not host.paths(pattern="resolve")


def test_a_damaged_part_is_dropped_and_the_file_fetched_from_its_start(host, tmp_path):
    remote = next(one for one in hub.Hub().listing(REEFNET).files if one.path == CSV)
    hub.part_of(tmp_path / CSV, remote).write_bytes(b"x" * 10_000)
    fetched(tmp_path)
    assert_whole(tmp_path)
    assert ranges(host) == ["bytes=10000-", None]


def test_renamed_files_are_found_by_what_their_names_say_and_doubt_is_said(host, tmp_path):
    other = {"data/sources_overview_2.csv": b"a", "v2/ReefNet_annotations_all.csv": POINTS, "a.txt": b"", "b.png": b""}
    host.put(
        REEFNET, other | {CROISSANT: "{}", "ReefNet_label-mapping_v2.xlsx": b"", "ReefNet_labelmapping_v3.xlsx": b""}
    )
    planned = hub.plan(tmp_path, ["annotations", "labelmapping"])
    assert planned["state"].tolist() == ["to fetch", "to fetch", "missing"]
    assert planned.attrs["unknown"] == [
        "ReefNet_label-mapping_v2.xlsx",
        "ReefNet_labelmapping_v3.xlsx",
        "a.txt",
        "b.png",
    ]
    with pytest.raises(ReefcoreError, match=r"nothing that is surely ReefNet_labelmapping.xlsx; it has .*_v2.xlsx"):
        hub.get(tmp_path, planned)
    assert hub.record(tmp_path)[CSV]["name"] == "v2/ReefNet_annotations_all.csv"
    assert_whole(tmp_path)


@pytest.mark.parametrize("name", [name for item in ITEMS.values() for name in item.files])
def test_each_published_name_is_recognised_when_it_changes_a_little_and_as_no_other(name):
    changed = name.replace("ReefNet_", "ReefNet-v2_").replace(".", "_final.", 1)
    listing = hub.Listing(REEFNET, "c", (hub.Remote(changed, 1),))
    found, _ = hub.find(listing, {name: p for item in ITEMS.values() for name, p in item.files.items()})
    assert list(found) == [name]


def test_the_commit_stays_until_another_is_asked_for(host, tmp_path):
    fetched(tmp_path)
    newer = host.put(REEFNET, RELEASE | {CSV: POINTS[::-1]})
    fetched(tmp_path, ["annotations", "metadata"])
    assert {facts["revision"] for facts in hub.record(tmp_path).values()} == {host.commit}
    table = fetched(tmp_path, revision="main")
    assert table["state"].tolist() == ["fetched", "there"]  # the description is the same file
    assert hub.record(tmp_path)[CSV]["revision"] == newer and (tmp_path / CSV).read_bytes() == POINTS[::-1]
    with pytest.raises(ReefcoreError, match="the hub does not have this revision; give --revision main"):
        fetched(tmp_path, revision="none")


def test_a_file_put_there_by_hand_is_taken_if_it_is_the_one_and_else_kept_aside(host, tmp_path):
    (tmp_path / CSV).write_bytes(POINTS)
    assert fetched(tmp_path)["state"].tolist() == ["there", "fetched"] and not ranges(host)
    (tmp_path / CSV).write_bytes(POINTS[:-9])
    assert fetched(tmp_path)["state"].tolist() == ["fetched", "there"]
    assert (tmp_path / CSV).read_bytes() == POINTS and (tmp_path / f"{CSV}.before").stat().st_size == 49_991


def test_offline_the_hub_s_cache_serves_and_is_not_doubled(host, tmp_path, monkeypatch):
    huggingface_hub.hf_hub_download(REEFNET, CSV, repo_type="dataset", endpoint=host.url)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    asked, folder = len(host.requests), tmp_path / "released"
    with pytest.raises(ReefcoreError, match=f"cache has no {CROISSANT}.*hf download ReefNet/ReefNet-1.0 {CROISSANT}"):
        fetched(folder)
    assert (folder / CSV).read_bytes() == POINTS and len(host.requests) == asked
    assert (folder / CSV).stat().st_nlink == 2  # one copy on the disk
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    with pytest.raises(ReefcoreError, match="HF_HUB_OFFLINE is set, and the hub's cache has nothing of this"):
        fetched(tmp_path / "other")
    lacking = pd.DataFrame({"there": [True, False], "size": [0, 0]})
    assert models.took(lacking, str).startswith("HF_HUB_OFFLINE is set")


# ------------------------------------------------------------------------------------------------------ photos of a zip


def unpacked(tmp_path, data: bytes, **limits):
    (tmp_path / "p.zip").write_bytes(data)
    return archive.unpack(
        tmp_path / "p.zip", tmp_path / "photos", tmp_path / "quarantine", archive.Limits(**limits) if limits else None
    )


def test_photos_are_unpacked_once_and_what_is_none_is_said(tmp_path):
    members = {"RSG/a.jpg": jpeg(1), "RSG/b.JPG": jpeg(2), "RSG/page.jpg": b"<html>", "RSG/notes.txt": b"x"}
    data = zipped(members | {"__MACOSX/RSG/._a.jpg": b"x", "RSG/.DS_Store": b"", "RSG/early.jpg": jpeg(3)[:-400]})
    table = unpacked(tmp_path, data)
    assert dict(zip(table["member"], table["state"], strict=True)) == {
        "RSG/a.jpg": "unpacked",
        "RSG/b.JPG": "unpacked",
        "RSG/early.jpg": "unpacked",
        "RSG/notes.txt": "not a photo",
        "RSG/page.jpg": "quarantined",
    }
    assert table.set_index("member")["problem"]["RSG/early.jpg"] == "the photo ends early, as it was published"
    assert sorted(os.listdir(tmp_path / "photos")) == ["a.jpg", "b.JPG", "early.jpg"]
    assert os.listdir(tmp_path / "quarantine") == ["page.jpg"]
    (tmp_path / "photos" / "a.jpg").write_bytes(b"cut")
    (tmp_path / "photos" / ".a.77.tmp.jpg").write_bytes(b"of a process that was killed")
    before = (tmp_path / "photos" / "b.JPG").stat().st_mtime_ns
    states = unpacked(tmp_path, data).set_index("member")["state"]
    assert states["RSG/a.jpg"] == "unpacked" and states["RSG/b.JPG"] == "there"
    assert (tmp_path / "photos" / "b.JPG").stat().st_mtime_ns == before
    assert sorted(os.listdir(tmp_path / "photos")) == ["a.jpg", "b.JPG", "early.jpg"]


def test_photos_of_one_name_in_two_folders_keep_their_folders(tmp_path):
    table = unpacked(tmp_path, zipped({"RSG/1/a.jpg": jpeg(1), "RSG/2/a.jpg": jpeg(2)}))
    assert table["image"].tolist() == ["1/a.jpg", "2/a.jpg"]


def linked() -> bytes:
    info = zipfile.ZipInfo("link.jpg")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr(info, "/etc/passwd")
    return stream.getvalue()


def twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate name"):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as file:
            file.writestr("a.jpg", jpeg(1))
            file.writestr("a.jpg", jpeg(2))
    return stream.getvalue()


def lying() -> bytes:
    """A bomb that says it is small."""
    data, full = bytearray(zipped({"a.jpg": bytes(3_000_000)})), (3_000_000).to_bytes(4, "little")
    for at in (22, data.rindex(b"PK\1\2") + 24):
        assert data[at : at + 4] == full
        data[at : at + 4] = (50_000).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "limits", "said"),
    [
        (
            zipped({"ok.jpg": jpeg(1), "../../x.jpg": jpeg(2)}),
            {},
            r"would write outside of its folder \('\.\./\.\./x.jpg'",
        ),
        (zipped({"/etc/x.jpg": jpeg(2)}), {}, "would write outside"),
        (zipped({"C:/x.jpg": jpeg(2)}), {}, "would write outside"),
        (zipped({"a\\..\\..\\x.jpg": jpeg(2)}), {}, "would write outside"),
        (linked(), {}, r"holds a link or a device \('link.jpg'"),
        (zipped({"a.jpg": bytes(5_000_000)}), {}, "would unpack 4,[0-9]+ bytes to 5,000,000"),
        (
            zipped({f"{i}.jpg": bytes(900_000) for i in range(9)}),
            {"total": 8_000_000},
            "would unpack to 9 files of 8,100,000",
        ),
        (zipped({f"{i}.jpg": b"" for i in range(9)}), {"photos": 8}, "would unpack to 9 files"),
        (lying(), {}, "this zip file is damaged or locked"),
        (PHOTOS[:-30], {}, "this zip file is damaged or locked"),
        (PHOTOS[:500], {}, "this zip file is damaged or locked"),
        (
            zipped({"a.jpg": b"whole"}, zipfile.ZIP_STORED).replace(b"whole", b"other"),
            {},
            "this zip file is damaged or locked",
        ),
    ],
)
def test_hostile_and_damaged_zip_files_are_refused_and_nothing_of_them_stays(tmp_path, data, limits, said):
    with pytest.raises(ReefcoreError, match=said) as error:
        unpacked(tmp_path / "in", data, **limits) if (tmp_path / "in").mkdir() is None else None
    assert "delete it and fetch it again" in str(error.value)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["p.zip"]


def test_two_contents_of_one_name_are_refused(tmp_path):
    with pytest.raises(ReefcoreError, match=r"two files called 'a.jpg'"):
        unpacked(tmp_path, twice())


# ---------------------------------------------------------------------------------------------- places, models, command


def test_polygons_from_a_path_are_checked_and_put_where_they_are_looked_for(host, tmp_path, monkeypatch):
    parts = {suffix: suffix.encode() * 9 for suffix in geography.MEOW_PARTS}
    known = {suffix: hashlib.sha256(parts[suffix]).hexdigest() for suffix in geography.MEOW_SHA256}
    monkeypatch.setattr(geography, "MEOW_SHA256", known)
    (tmp_path / "m.zip").write_bytes(zipped({f"MEOW/meow_ecos{suffix}": data for suffix, data in parts.items()}))
    assert cli.main(["fetch", "meow", "--from", str(tmp_path / "m.zip")]) == 0
    assert (tmp_path / "data" / "meow" / "meow_ecos.shp").read_bytes() == parts[".shp"]
    assert (geography.cache_folder() / "meow_ecos.dbf").read_bytes() == parts[".dbf"]
    (tmp_path / "data" / "meow" / "meow_ecos.shp").write_bytes(b"cut")
    places.meow(tmp_path / "data", tmp_path / "data" / "meow" / ".." / ".." / "home" / "reefcore" / "meow")
    assert (tmp_path / "data" / "meow" / "meow_ecos.shp").read_bytes() == parts[".shp"]


def test_the_substrate_survey_is_fetched_and_what_is_not_understood_is_said(host, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(places, "FRAME", (40, 30))
    files = {"site1/No-Deploy/f1.jpg": jpeg(1), "site1/deploy/f2.jpg": jpeg(2), "thumb.jpg": jpeg(3, (8, 8))}
    host.put(SUBSTRATE, files | {"labels.csv": b"a,b", "rest.zip": b"z", "model.bin": b"m", "x.jpg": b"<html>"})
    assert cli.main(["fetch", "substrate"]) == 0
    said = capsys.readouterr().out
    assert (
        "CC BY 4.0 and as CC BY-NC-SA 4.0" in said and "need patch_labels.parquet (frame, row, column, label)" in said
    )
    data = tmp_path / "data"
    table = pd.DataFrame(json.loads((data / "substrate" / "recognised.json").read_text())).set_index("path")
    assert table["what"].to_dict() == {
        "labels.csv": "table",
        "model.bin": "not recognised",
        "rest.zip": "archive",
        "site1/No-Deploy/f1.jpg": "frame",
        "site1/deploy/f2.jpg": "frame",
        "thumb.jpg": "photo of another size",
        "x.jpg": "not recognised",
    }
    assert table.loc["site1/No-Deploy/f1.jpg", "class"] == "No-Deploy" and table.loc["thumb.jpg", "class"] == ""
    assert sorted(os.listdir(data / "frames")) == ["f1.jpg", "f2.jpg"]
    asked = len(host.requests)
    assert cli.main(["fetch", "substrate"]) == 0
    assert [path for _, path, _ in host.requests[asked:] if "resolve" in path] == []


def test_weights_are_listed_with_their_size_and_put_into_the_hub_s_cache(host, tmp_path, monkeypatch):
    config = {"model_cfg": {"text_cfg": {"hf_tokenizer_name": "o/words"}}}
    host.put("o/clip", {weights.CLIP_CONFIG: json.dumps(config), weights.CLIP_FILES[1]: b"w" * 5000}, "models")
    host.put("o/words", dict.fromkeys(["tokenizer.json", "tokenizer_config.json"], "{}"), "models")
    table = pd.DataFrame({"model": ["o/clip"], "repository": ["o/clip"], "files": [models._clip_files()]})
    planned = models.plan(table)
    assert planned["there"].tolist() == [False] and planned["size"].tolist() == [5000 + len(json.dumps(config))]
    models.get(planned)
    assert models.plan(table)["there"].tolist() == [True]
    assert huggingface_hub.try_to_load_from_cache("o/words", "tokenizer.json")


def test_the_command_gets_the_weights_of_a_profile_s_recipes(host, tmp_path, capsys):
    lines = ["kind: full", "notice: A test.", "data: x", "seed: 0", "crop: 512", "train_sets: [S1]", "resamples: 9"]
    (tmp_path / "own.yaml").write_text("\n".join([*lines, "recipes: [bioclip_ft]", "zero_shot: [bioclip, qwen2_5_vl]"]))
    host.put("imageomics/bioclip", {weights.CLIP_CONFIG: "{}", weights.CLIP_FILES[1]: b"w" * 9000}, "models")
    assert cli.main(["fetch", "weights", "--profile", str(tmp_path / "own.yaml")]) == 0
    said = capsys.readouterr().out
    assert (
        "to fetch        9 kB  imageomics/bioclip" in said
        and "Qwen/Qwen2.5-VL-7B-Instruct is asked of a server" in said
    )
    assert cli.main(["fetch", "weights", "--profile", str(tmp_path / "own.yaml")]) == 0
    assert "Nothing is left to fetch" in capsys.readouterr().out


def test_the_full_profile_s_models_are_named_with_their_repositories():
    from reefcore import profiles

    needed = models.needed(profiles.load("full"))
    assert {"timm/resnet101.a1_in1k", "imageomics/bioclip"} <= set(needed["repository"])
    assert needed["repository"].is_unique
    assert "bioclip_ft" in needed.set_index("repository")["recipes"]["imageomics/bioclip"]


def test_from_the_hub_to_splits(host, tmp_path, capsys):
    from test_released import HEADER, beside, rows

    made = tmp_path / "made"
    made.mkdir()
    beside(made)
    wajh = ["Name,Row,Column,Our_Labels", *(f"w{n}.jpg,{n},5,{['Porites', 'Acropora'][n % 2]}" for n in range(8))]
    files = {path.name: path.read_bytes() for path in made.iterdir()}
    files |= {CSV: "\n".join([HEADER, *rows()]) + "\n", CROISSANT: "{}"}
    files["ReefNet_RSG-TestDataset_annotations.csv"] = "\n".join(wajh) + "\n"
    files["ReefNet_RSG-TestDataset_images.zip"] = zipped({f"RSG/w{n}.jpg": jpeg(n) for n in range(8)})
    host.put(REEFNET, files)
    settings = {
        "kind": "full",
        "notice": "A test.",
        "data": str(tmp_path / "data"),
        "seed": 0,
        "crop": 32,
        "recipes": [],
    }
    settings |= {"train_sets": ["S1", "S2", "S3", "S4"], "resamples": 9, "site": "Al-Wajh"}
    settings |= {"criteria": {"min_annotations": 8, "min_sources": 1, "min_per_source": 1}}
    settings |= {"cross_sources": {"n_test": 1, "n_val": 1}}
    (tmp_path / "own.yaml").write_text(json.dumps(settings))
    command = ["fetch", "annotations", "metadata", "labelmapping", "al-wajh", "--profile", str(tmp_path / "own.yaml")]
    assert cli.main(command) == 0
    project = workflow.open(str(tmp_path / "own.yaml"))
    schemes = set(project.table("splits")["scheme"])
    assert {"S1", "S2", "S3", "S4", "W"} <= schemes and project.has("photos")
    held_out = project.table("images").query("source == 'Al-Wajh'")["image"]
    assert sorted(held_out) == sorted(os.listdir(project.photos / "Al-Wajh"))


def test_the_command_says_what_there_is_and_what_it_takes(host, tmp_path, capsys, monkeypatch):
    assert cli.main(["fetch"]) == 0
    said = capsys.readouterr().out
    assert all(f"reefcore fetch {name}" in said for name in ITEMS) and "CC BY-NC-SA 4.0" in said
    assert cli.main(["fetch", "annotations", "al-wajh", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"to fetch       50 kB  {CSV}" in said and "at 10 MB a second" in said and "free" in said
    assert not (tmp_path / "data").exists() and not host.paths(pattern="resolve")
    assert cli.main(["fetch", "al-wajh", "labelmapping"]) == 0
    said = capsys.readouterr().out
    assert "al-wajh: 2 unpacked, in" in said and said.count("not for money") == 1
    assert (tmp_path / "data" / "photos" / "Al-Wajh" / "a.jpg").read_bytes() == jpeg(1)
    assert cli.main(["fetch", "al-wajh", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"]["al-wajh"]["photos"]["counts"] == {"there": 2}
    assert cli.main(["fetch"]) == 0
    assert "3 of 3 files, 2 photos" in capsys.readouterr().out


def test_a_disk_that_is_full_at_a_write_without_a_name_is_said_in_one_sentence(host, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(hub, "write_json", full)
    assert cli.main(["fetch", "labelmapping"]) == 2
    said = "there is no room on the disk (No space left on device); make room, then type the same command again."
    assert capsys.readouterr().err == f"reefcore: {said}\n"


def test_a_host_that_is_no_hub_is_not_called_a_hub_without_the_file(host):
    host.fault("api", "status", code=404, times=None)
    with pytest.raises(ReefcoreError, match=r"no such listing where the hub should be \(404\); see what HF_ENDPOINT"):
        hub.Hub(host.url).listing(REEFNET)


def test_an_address_of_the_polygons_that_leads_nowhere_is_said_once(tmp_path):
    with pytest.raises(ReefcoreError) as said:
        geography.download_meow(tmp_path, "https://no-such-host.invalid/meow.zip", 1)
    assert str(said.value).count("/meow.zip") == 1 and "Max retries" not in str(said.value)


def test_the_command_refuses_in_one_sentence_and_goes_on_with_the_rest(host, tmp_path, capsys, monkeypatch):
    assert cli.main(["fetch", "anotations"]) == 2
    assert "there is nothing called 'anotations' to fetch; did you mean annotations." in capsys.readouterr().err
    assert cli.main(["fetch", "meow", "--profile", "sample"]) == 2
    assert "the profile sample makes its own data" in capsys.readouterr().err
    monkeypatch.setattr(geography, "MEOW_URLS", (f"{host.url}/no.zip",))
    assert cli.main(["fetch", "labelmapping", "meow", "substrate"]) == 2
    said = capsys.readouterr()
    assert (
        "no.zip: 404" in said.err
        and "(--from PATH)" in said.err
        and "the hub does not have this, or not for everyone" in said.err
    )
    assert said.err.count("\n") == 2 and (tmp_path / "data" / "released" / "ReefNet_labelmapping.xlsx").exists()
    monkeypatch.delenv("REEFNET_DATA")
    assert cli.main(["fetch"]) == 0 and "REEFNET_DATA, which is not set" in capsys.readouterr().out
    assert cli.main(["fetch", "annotations"]) == 2
    assert "set REEFNET_DATA to the folder" in capsys.readouterr().err
