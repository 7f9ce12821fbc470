"""The synthetic survey for substrates: the same bytes each time, frames that overlap, labels and headers that hold."""

import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from PIL import ExifTags, Image

from reefcore import geography
from reefcore.errors import ReefcoreError
from reefcore.files import sha256
from reefcore.images import image_size, open_image
from reefcore.sample import photos, substrate, taxa
from reefcore.tables import GRID, SUBSTRATES

SCALE = 0.05  # the least: 4 sequences of 8 frames


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    (folder / "frames/old").mkdir(parents=True)  # of another scale
    substrate.generate(folder, 3, SCALE, workers=2)
    return folder


@pytest.fixture(scope="module")
def frames(folder):
    return pd.read_parquet(folder / "frames.parquet")


def test_other_processes_in_another_order_make_the_same_bytes(folder, frames, tmp_path):
    sequence = substrate._plan(3, SCALE)[-1]
    rows, patches = substrate._shoot((tmp_path, sequence, 3, None))
    for name in rows["frame"]:
        assert sha256(tmp_path / name) == sha256(folder / "frames" / name)
    again = frames[frames["sequence"] == sequence.name].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows.drop(columns="margin"), again)
    labels = pd.read_parquet(folder / "patch_labels.parquet")
    assert len(frames) == 4 * len(rows) == 4 * 8 and len(labels) == 4 * len(patches)
    assert not (folder / "frames/old").exists()
    assert substrate._plan(4, SCALE)[-1].name != sequence.name


def test_frames_are_what_the_table_says(folder, frames):
    assert frames["frame"].is_unique and frames["frame"].is_monotonic_increasing
    for row in frames.itertuples():
        assert image_size(folder / "frames" / row.frame) == (row.width, row.height)
    assert frames["depth"].between(1, 10).all() and frames["altitude"].between(2, 4).all()
    clear, turbid = (frames.groupby("sequence")["turbidity"].mean().agg(which) for which in ("min", "max"))
    assert turbid > 2 * clear > 0
    assert str(frames["time"].dtype) == "datetime64[us, UTC]"
    assert frames["time"].dt.tz_convert("Etc/GMT-10").dt.hour.between(7, 17).all()  # by day in eastern Australia


def test_neighbouring_frames_show_the_same_seabed(folder, frames):
    """Shrunk, the lower part of a frame is the middle of the one before: the vehicle moves up by about half a frame."""
    for _, rows in frames.groupby("sequence"):
        size = (56, 32)
        a, b = (open_image(folder / "frames" / name) for name in rows["frame"][:2])
        a, b = (np.asarray(Image.fromarray(x).convert("L").resize(size), float) for x in (a, b))
        match = [np.corrcoef(a[: 32 - k].ravel(), b[k:].ravel())[0, 1] for k in range(24)]
        assert 10 <= np.argmax(match) <= 22 and max(match) > 0.5 > match[0]


def test_headers_hold_time_and_place(folder, frames):
    spared = 0
    for row in frames.itertuples():
        exif = Image.open(folder / "frames" / row.frame).getexif()
        taken, gps = exif.get_ifd(ExifTags.IFD.Exif), exif.get_ifd(ExifTags.IFD.GPSInfo)
        local = taken[ExifTags.Base.DateTimeOriginal] + taken[ExifTags.Base.OffsetTimeOriginal]
        assert pd.to_datetime(local, format="%Y:%m:%d %H:%M:%S%z") == row.time
        if np.isnan(row.latitude):
            spared += 1
            assert not gps or {float(x) for tag in (2, 4) for x in gps[tag]} == {0.0}
            continue
        clock = ":".join(f"{float(x):02.0f}" for x in gps[ExifTags.GPS.GPSTimeStamp])
        assert pd.to_datetime(f"{gps[ExifTags.GPS.GPSDateStamp]} {clock}Z", format="%Y:%m:%d %H:%M:%S%z") == row.time
        assert (gps[1], gps[3]) == ("S", "E")
        south, east = (np.dot([float(x) for x in gps[tag]], [1, 1 / 60, 1 / 3600]) for tag in (2, 4))
        assert (-south, east) == pytest.approx((row.latitude, row.longitude), abs=1e-9)
    assert 1 <= spared < 8


def test_tracks_cover_every_frame(folder, frames):
    degree = np.pi / 180 * geography.EARTH_KM * 1000
    for sequence, rows in frames.groupby("sequence"):
        points = ET.parse(folder / "tracks" / f"{sequence}.gpx").iter("{http://www.topografix.com/GPX/1/1}trkpt")
        track = {pd.Timestamp(p[0].text): (float(p.get("lat")), float(p.get("lon"))) for p in points}
        at = np.array([track[time] for time in rows["time"]])
        known = rows["latitude"].notna().to_numpy()
        np.testing.assert_allclose(at[known], rows.loc[known, ["latitude", "longitude"]], atol=1e-8)
        steps = np.hypot(*(np.diff(at, axis=0) * degree * [1, np.cos(np.radians(at[0, 0]))]).T)
        assert (steps > 1).all() and (steps < 1.5).all()
        place = pd.DataFrame({"latitude": at[:1, 0], "longitude": at[:1, 1]})
        assert geography.locate(place)["ecoregion"][0] == substrate.ECOREGION


def test_cover_reads_the_centred_crop_of_each_cell():
    mask = np.zeros((4 * 5 + 3, 7 * 6 + 2), int)
    mask[:6, 42 - 5 :] = 2  # the last cell of the first row is 6 x 6 pixels: rows 0..5, columns 38..43
    mask[5, :] = 1  # outside the crop of 5 x 6
    shares = substrate.cover(mask)
    assert shares.shape == (*GRID, 3) and np.allclose(shares.sum(-1), 1)
    assert shares[0, 6].tolist() == [0, 0, 1] and shares[1, 0, 1] == 0


def test_patches_and_frames_are_labelled_by_what_is_there(folder, frames):
    labels = pd.read_parquet(folder / "patch_labels.parquet")
    assert len(labels) == len(frames) * 28 and set(labels["label"]) == set(SUBSTRATES)
    ratio = (labels["label"] == "Deploy").groupby(labels["frame"]).mean()
    deploy = (frames.set_index("frame")["label"] == "Deploy")[ratio.index]
    assert ratio[deploy].mean() > ratio[~deploy].mean() + 0.2
    assert {photos.CLASSES[i] for i in np.flatnonzero(substrate.SUBSTRATE == 1)} == {kind.name for kind in taxa.CORALS}


def test_margin_counts_where_deploy_lies_and_minds_coral():
    shares = np.zeros((*GRID, 3))
    shares[..., 0] = 1
    near, far, coral = shares.copy(), shares.copy(), shares.copy()
    near[2:], far[:2], coral[:] = (0, 0, 1), (0, 0, 1), (0, 0.55, 0.45)
    assert substrate.margin(near) > 0 > substrate.margin(far) and substrate.margin(coral) < 0


def test_observers_agree_mostly_lack_frames_and_lean_on_their_last_answer():
    many = pd.DataFrame({"frame": np.arange(4000).astype(str), "sequence": "a", "depth": 5.0, "turbidity": 1.0})
    many["margin"] = np.random.default_rng(0).normal(0, 0.2, len(many))
    seen = substrate.observe(many, 0)
    wide = seen.pivot(index="frame", columns=["observer", "order"], values="label")
    a, b = (wide[name, "blind"].dropna() for name in substrate.OBSERVERS)
    both = a.index.intersection(b.index)
    assert 0.75 < (a[both] == b[both]).mean() < 0.95 and len(both) < min(len(a), len(b)) < len(many)
    groups = seen.groupby(["observer", "order"])
    same = groups["label"].agg(lambda x: (x.to_numpy()[1:] == x.to_numpy()[:-1]).mean())
    assert (same[:, "ordered"] > same[:, "blind"] + 0.05).all()
    kept = groups["frame"].agg(lambda x: x.astype(int).is_monotonic_increasing)
    assert kept[:, "ordered"].all() and not kept[:, "blind"].any() and (groups["position"].min() == 1).all()


def test_bad_scales_are_refused(tmp_path):
    with pytest.raises(ReefcoreError, match="scale 0 cannot"):
        substrate.generate(tmp_path, 0, 0)
    with pytest.raises(ReefcoreError, match="negative"):
        substrate.generate(tmp_path, -1)
