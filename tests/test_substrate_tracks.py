"""Positions from EXIF, tracks joined by time, deployments, coverage, area and GeoJSON."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from reefcore.errors import ReefcoreError
from reefcore.figures import survey_sites, track_map
from reefcore.geography import land
from reefcore.substrate import tracks

TOP = Path(__file__).resolve().parents[1]
REAL = [Path(os.environ.get("REEFCORE_REAL", "")), *(folder / "shared" / "real" for folder in TOP.parents)]
REAL = next((path / "gps_quadrats" for path in REAL if (path / "gps_quadrats").is_dir()), None)

SOUTH_EAST = {1: "S", 2: (19.0, 30.0, 36.0), 3: "E", 4: (149.0, 15.0, 0.0)}
STAMP = {7: (23.0, 13.0, 4.5), 29: "2024:02:04"}


def photo(path: Path, gps: dict | None = None, taking: dict | None = None) -> Path:
    """Write a small JPEG with these tags."""
    exif = Image.Exif()
    exif.get_ifd(0x8825).update(gps or {})
    exif.get_ifd(0x8769).update(taking or {})
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6)).save(path, exif=exif)
    return path


@pytest.mark.parametrize(
    "gps, latitude, longitude",
    [
        (SOUTH_EAST, -19.51, 149.25),
        (SOUTH_EAST | {1: "N", 3: "W"}, 19.51, -149.25),
        ({1: "S", 2: (42.0, 37.5, 0.0), 3: "W", 4: (64.0, 15.6, 0.0)}, -42.625, -64.26),  # minutes with decimals
        ({1: "S", 2: 19.51, 3: "E", 4: 149.25}, -19.51, 149.25),  # one rational
        ({1: b"S\0", 2: (19.51, 0.0, 0.0), 3: "e", 4: (149.25, 0.0, 0.0)}, -19.51, 149.25),
    ],
)
def test_positions_of_a_header(tmp_path, gps, latitude, longitude):
    photo(tmp_path / "a.jpg", gps | STAMP)
    row = tracks.positions(tmp_path).iloc[0]
    assert (row["latitude"], row["longitude"]) == pytest.approx((latitude, longitude), abs=1e-8)
    assert (row["frame"], row["how"], row["problem"]) == ("a.jpg", "exif", "")
    assert row["time"] == pd.Timestamp("2024-02-04 23:13:04.5", tz="UTC")


@pytest.mark.parametrize(
    "gps, problem",
    [
        ({}, "no GPS position in the header"),
        ({k: v for k, v in SOUTH_EAST.items() if k != 1}, "the GPS latitude does not say N or S"),
        ({k: v for k, v in SOUTH_EAST.items() if k != 3}, "the GPS longitude does not say E or W"),
        (SOUTH_EAST | {1: "E"}, "the GPS latitude does not say N or S"),
        (SOUTH_EAST | {2: (IFDRational(0, 0),) * 3}, "the GPS latitude is not a number (such as 0/0)"),
        (SOUTH_EAST | {2: (91.0, 0.0, 0.0)}, "latitude is outside -90 to 90"),
        (SOUTH_EAST | {2: (19.0, 75.0, 0.0)}, "the GPS latitude is not degrees, minutes and seconds: 19, 75, 0"),
        ({1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)}, "latitude and longitude are both 0"),
        (SOUTH_EAST | {9: "V"}, "the receiver had no fix"),
    ],
)
def test_a_frame_without_a_usable_position_is_listed_with_the_reason(tmp_path, gps, problem):
    photo(tmp_path / "one" / "a.jpg", gps | STAMP)
    photo(tmp_path / "one" / "b.jpg", SOUTH_EAST | STAMP)
    table = tracks.positions(tmp_path)
    assert list(table["frame"]) == ["one/a.jpg", "one/b.jpg"] and set(table["sequence"]) == {"one"}
    assert table["problem"][0].startswith(problem) and table["problem"][1] == ""
    assert table[["latitude", "longitude"]].isna().all(axis=1).tolist() == [True, False]
    assert table["how"].isna().tolist() == [True, False]
    assert table["time"].notna().all()  # it can still be joined to a track


def test_a_camera_clock_needs_its_time_zone(tmp_path):
    clock = {36867: "2024:02:05 09:13:04", 37521: "25"}
    files = [
        photo(tmp_path / "a.jpg", SOUTH_EAST, clock),
        photo(tmp_path / "b.jpg", SOUTH_EAST, clock | {36881: "+10:00"}),
    ]
    utc = pd.Timestamp("2024-02-04 23:13:04.25", tz="UTC")
    table = tracks.positions(files)
    assert pd.isna(table["time"][0]) and table["time"][1] == utc
    assert "does not say of which time zone it is" in table["problem"][0] and table["latitude"].notna().all()
    for zone in ("Australia/Brisbane", "+10:00"):
        assert (tracks.positions(files, zone)["time"] == utc).all()
    with pytest.raises(ReefcoreError, match="'Brisbane' is not a time zone"):
        tracks.positions(files, "Brisbane")


def test_folders_that_cannot_be_read_and_photos_that_can_not(tmp_path):
    with pytest.raises(ReefcoreError, match="not a folder"):
        tracks.positions(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReefcoreError, match="no photo in this folder"):
        tracks.positions(tmp_path / "empty")
    with pytest.raises(ReefcoreError, match="no photo to read"):
        tracks.positions([])
    with pytest.raises(ReefcoreError, match="no GPX or CSV file"):
        tracks.read_tracks(tmp_path / "empty")
    whole = photo(tmp_path / "c" / "a.jpg", SOUTH_EAST | STAMP).read_bytes()
    place = whole.index(b"Exif\0\0") + 6
    (tmp_path / "c" / "b.jpg").write_bytes(whole[: place + 8] + b"\xff" * 60 + whole[place + 68 :])  # damaged header
    (tmp_path / "c" / "c.jpg").write_bytes(b"no photo")
    table = tracks.positions(tmp_path / "c")
    assert table["latitude"].notna().tolist() == [True, False, False]
    assert (table["problem"][1:] != "").all()


@pytest.mark.parametrize(
    "text, zone, problem",
    [
        ("2024-04-07T02:30:00", "Australia/Sydney", "occurs twice in Australia/Sydney"),
        ("2024-10-06T02:30:00", "Australia/Sydney", "occurs never in Australia/Sydney"),
        ("2024-02-05T09:00:00", None, "does not say of which time zone"),
        ("5/2/2024 9:00", "+10:00", "is not a time that can be read"),
        ("2024-02-05T09:00:00", "+25:00", "is not a time zone"),
    ],
)
def test_times_are_not_guessed(text, zone, problem):
    with pytest.raises(ReefcoreError, match=problem):
        tracks.utc([text], zone)


def test_times_with_an_offset_and_without():
    texts = ["2024-02-05T09:00:00+10:00", "2024-02-04T23:00:00Z", "2024:02:05 09:00:00", None]
    found = tracks.utc(texts, "+10:00")
    assert (found[:3] == pd.Timestamp("2024-02-04 23:00", tz="UTC")).all() and pd.isna(found[3])


GPX = """<?xml version="1.0"?><gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
{}</trkseg></trk></gpx>"""


def test_a_gpx_track_is_sorted_and_what_is_left_out_is_said(tmp_path, caplog):
    fixes = [
        ("-19.2", "149.2", "09:00:02Z"),
        ("-19.1", "149.1", "09:00:00Z"),
        ("-19.9", "149.9", "09:00:02Z"),
        ("0", "0", "09:00:03Z"),
    ]
    point = '<trkpt lat="{}" lon="{}"><time>2024-02-05T{}</time></trkpt>'
    (tmp_path / "s1.gpx").write_text(GPX.format("".join(point.format(*fix) for fix in fixes)))
    track = tracks.read_tracks(tmp_path)
    assert track["latitude"].tolist() == [-19.1, -19.2] and set(track["sequence"]) == {"s1"}
    assert track["time"][0] == pd.Timestamp("2024-02-05 09:00", tz="UTC")
    assert "1 fixes have the time of another one" in caplog.text and "1 fixes have no time or no usable" in caplog.text
    for text, problem in (("<gpx", "not GPX"), (GPX.format(""), "no fix with a time")):
        (tmp_path / "s1.gpx").write_text(text)
        with pytest.raises(ReefcoreError, match=problem):
            tracks.read_tracks(tmp_path)


@pytest.mark.parametrize(
    "head",
    ["time,latitude,longitude", "Timestamp;Lat (deg);Lon (deg)", "datetime\tLAT\tlng"],
    ids=["comma", "semicolon", "tab"],
)
def test_a_csv_track_in_usual_spellings(tmp_path, head):
    sign = next(s for s in ";\t," if s in head)
    rows = [f"2024-02-05T09:00:0{i}{{}}{sign}-19.{i}{sign}149.{i}" for i in (2, 1)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([head, *(row.format("+10:00") for row in rows)]))
    assert tracks.read_track(path)["latitude"].tolist() == [-19.1, -19.2]
    path.write_text("\n".join([head, *(row.format("") for row in rows)]))
    with pytest.raises(ReefcoreError, match=r"t\.csv: the time .* does not say of which time zone"):
        tracks.read_track(path)
    assert tracks.read_track(path, "Australia/Brisbane")["time"][0] == pd.Timestamp("2024-02-04 23:00:01", tz="UTC")
    path.write_text("time_utc,lat,lon\n2024-02-05 09:00:01,-19.1,149.1\n")  # the zone given is then the camera's
    assert tracks.read_track(path, "+10:00")["time"][0] == pd.Timestamp("2024-02-05 09:00:01", tz="UTC")
    path.write_text("when,latitude,longitude\n1,2,3\n")
    with pytest.raises(ReefcoreError, match=r"no column for time \(it has when, latitude, longitude\)"):
        tracks.read_track(path)


def fixes(seconds, latitude, longitude) -> pd.DataFrame:
    """Make a track of these fixes."""
    time = pd.Timestamp("2024-02-05", tz="UTC") + pd.to_timedelta(seconds, unit="s")
    return pd.DataFrame({"time": time, "latitude": latitude, "longitude": longitude})


def test_join_interpolates_between_enclosing_fixes_and_nowhere_else():
    track = fixes([0.0, 4.0, 20.0], [-19.0, -19.4, -19.5], [179.9998, -179.9998, -179.9])
    frames = fixes([-1.0, 0.0, 1.0, 4.0, 10.0, 20.0, 21.0], np.nan, np.nan)[["time"]].assign(frame=list("abcdefg"))
    frames.loc[7] = [pd.NaT, "h"]
    out = tracks.join(frames, track, most=5)
    assert out["how"].notna().tolist() == [False, True, True, True, False, True, False, False]
    assert out["latitude"][1:4].tolist() == pytest.approx([-19.0, -19.1, -19.4])
    assert out["longitude"][2] == pytest.approx(179.9999)  # over 180 degrees, not around the world
    assert out["problem"][0] == out["problem"][6] == "track: its time is not within a track"
    assert out["problem"][4] == "track: the fixes around its time are 16 s apart" and "no time" in out["problem"][7]
    assert tracks.join(frames, track, most=16)["latitude"][4] == pytest.approx(-19.4 - 0.1 * 6 / 16)
    with pytest.raises(ReefcoreError, match="times of the table have no time zone"):
        tracks.join(frames.assign(time=frames["time"].dt.tz_localize(None)), track)
    with pytest.raises(ReefcoreError, match="most=0"):
        tracks.join(frames, track, most=0)


def test_join_keeps_a_position_and_to_the_track_of_the_own_sequence():
    track = pd.concat(
        [fixes([0, 2], -19.0, [149.0, 149.2]).assign(sequence="a"), fixes([0, 2], -20.0, 150.0).assign(sequence="b")]
    )
    frames = fixes([1, 1, 1], [np.nan, np.nan, -5.0], [np.nan, np.nan, 100.0])
    frames = frames.assign(
        frame=list("xyz"), sequence=["a", "b", "a"], how=[None, None, "exif"], problem=["0/0", "", ""]
    )
    out = tracks.join(frames, track)
    assert out["latitude"].tolist() == [-19.0, -20.0, -5.0] and out["longitude"][0] == pytest.approx(149.1)
    assert out["how"].tolist() == ["track", "track", "exif"] and out["problem"].tolist() == ["", "", ""]
    lost = tracks.join(frames.assign(sequence="c"), track)
    assert lost["problem"].tolist() == [
        "0/0; track: its time is not within a track",
        "track: its time is not within a track",
        "",
    ]


def survey() -> pd.DataFrame:
    """Make two sequences north and east, 10 m between frames of 4 m x 2 m, one frame without a position."""
    degree = 110_574.3  # metres of a degree of latitude at the equator
    north = fixes(range(6), np.arange(6) * 10 / degree, 10.0).assign(sequence="n")
    east = fixes(range(3), 1.0, 20 + np.arange(3) * 10 / 111_302.6).assign(sequence="e")
    table = pd.concat([north, east], ignore_index=True)
    table.loc[2, ["latitude", "longitude"]] = np.nan
    deploy = [True, False, True, False, True, True, True, False, True]
    shape = {"width": 40, "height": 20, "altitude": 2.0, "site": table["sequence"].str.upper()}
    return table.assign(
        frame=[f"f{i}" for i in range(9)], deploy=deploy, coral=[0, 0.5, 1, 0.5, 0, 0, 1, 1, 1], **shape
    )


def test_distances_between_deployments_do_not_bridge_sequences():
    points = tracks.deployment(
        survey().drop(columns=["deploy", "coral"]).iloc[::-1], survey()[["frame", "deploy", "coral"]]
    )
    assert points["frame"].tolist() == ["f6", "f7", "f8", "f0", "f1", "f3", "f4", "f5", "f2"]
    assert points["along"][:8].tolist() == pytest.approx([0, 10, 20, 0, 10, 30, 40, 50], abs=0.01)
    assert points["since"].dropna().tolist() == pytest.approx([20, 40, 10], abs=0.01)
    table = tracks.summary(points).set_index("sequence")
    assert table.loc["n", ["frames", "located", "deployments"]].tolist() == [6, 5, 3]
    assert table["length"].tolist() == pytest.approx([20, 50, 70], abs=0.01)
    assert table.loc["all", ["nearest", "median", "farthest", "per_100_m"]].tolist() == pytest.approx(
        [10, 20, 40, 500 / 70], abs=0.02
    )
    with pytest.raises(ReefcoreError, match="frame f0 has more than one decision"):
        tracks.deployment(survey(), pd.concat([survey()[["frame", "deploy"]]] * 2))
    with pytest.raises(ReefcoreError, match="frame f3 has no decision"):
        tracks.deployment(survey().astype({"deploy": "object"}).replace({"deploy": {False: None}}).iloc[2:])


def test_coverage_averages_frames_and_draws_stretches():
    points = tracks.deployment(survey())
    table = tracks.coverage(points, block=24, n=200).set_index("sequence")
    assert table["coral"].tolist() == pytest.approx([1.0, 0.2, 4 / 8]) and table["blocks"].tolist() == [1, 3, 2]
    with pytest.raises(ReefcoreError, match="no frame has a position and a share of coral"):
        tracks.coverage(points.assign(latitude=np.nan))
    assert np.isnan(table["ci_low"]["e"]) and table["ci_low"]["n"] < 0.2 < table["ci_high"]["n"]


def test_area_counts_overlapping_ground_once():
    points = tracks.deployment(survey())
    apart = tracks.area(points, metres=4.0).set_index("sequence")
    assert apart["summed"].tolist() == pytest.approx([24, 40, 64]) and apart["overlap"].tolist() == pytest.approx(
        [0, 0, 0]
    )
    # 30 m across is 15 m along: of the 10 m between neighbours, 5 m are seen again (where the track has no gap).
    wide = tracks.area(points[points["sequence"] == "e"], metres=30.0, by="site").set_index("site")
    assert wide.loc["E", ["summed", "seen"]].tolist() == pytest.approx([3 * 450, 30 * 35], rel=1e-3)
    by_angle = tracks.area(points, field_of_view=90.0)  # at 2 m altitude that is 4 m
    assert by_angle["seen"].tolist() == pytest.approx(apart["seen"].tolist())
    shape = tracks.footprints(points[points["sequence"] == "e"], metres=4.0)[1].bounds
    assert (shape[2] - shape[0], shape[3] - shape[1]) == pytest.approx((2, 4), abs=1e-3)  # across the track, turned
    for wrong in ({}, {"metres": 4.0, "field_of_view": 90.0}, {"field_of_view": 180.0}, {"metres": -1.0}):
        with pytest.raises(ReefcoreError):
            tracks.area(points, **wrong)


def test_geojson_is_read_back_by_geopandas(tmp_path):
    import geopandas as gpd

    points = tracks.deployment(survey())
    path = tracks.write_geojson(points, tmp_path / "track.geojson")
    first = path.read_bytes()
    assert tracks.write_geojson(points, path).read_bytes() == first and b"NaN" not in first
    table = gpd.read_file(path)
    assert table.crs.to_epsg() == 4326 and len(table) == 2 + 9
    spots = table[table.geometry.geom_type == "Point"]
    assert spots.geometry.x.to_numpy() == pytest.approx(points["longitude"][:8].to_numpy(), abs=5e-8)
    assert spots["deploy"].astype(bool).tolist() == points["deploy"][:8].tolist()
    assert table[table.geometry.isna()]["frame"].tolist() == ["f2"]
    assert json.loads(first)["features"][2]["properties"]["time"] == "2024-02-05T00:00:00.000000Z"


def test_geojson_cuts_a_line_at_180_degrees():
    points = fixes([0, 1], [-17.0, -17.2], [179.9, -179.7]).assign(sequence="s", frame=["a", "b"])
    line = tracks.geojson(points)["features"][0]["geometry"]
    assert line["type"] == "MultiLineString"
    assert line["coordinates"] == [[[179.9, -17.0], [180.0, -17.05]], [[-180.0, -17.05], [-179.7, -17.2]]]


@pytest.mark.skipif(REAL is None, reason="the photos of quadrats with positions are not here")
def test_real_photos_have_positions_and_ask_for_their_time_zone():
    table = tracks.positions(REAL)
    assert (table["how"] == "exif").all() and table["latitude"].between(-42.65, -42.61).all()
    assert table["longitude"].between(-64.28, -64.24).all()
    assert (
        table["time"].isna().all() and table["problem"].str.contains("time zone").all()
    )  # only the file's own date has one
    told = tracks.positions(REAL, "America/Argentina/Catamarca")
    assert told["time"].notna().all() and (told["problem"] == "").all()
    assert told["time"].equals(tracks.positions(REAL, "-03:00")["time"])
    day = told["time"].dt.date.astype(str)
    points = tracks.deployment(told.assign(sequence=day, deploy=True))
    assert tracks.summary(points)["length"].iloc[-1] > 100
    assert len(tracks.geojson(points)["features"]) == len(table) + day.nunique()


def test_figures_show_the_tracks_and_name_the_sites():
    points = tracks.deployment(survey())
    figure = track_map(points)
    titles = [axes.get_title() for axes in figure.axes[:2]]
    assert titles == ["e", "n"] and figure.axes[1].get_xlabel() == "without a position: 1"
    assert all(axes.get_xlim() == figure.axes[0].get_xlim() and axes.get_aspect() == 1 for axes in figure.axes[:2])
    bars = [line for line in figure.axes[0].lines if line.get_linewidth() == 2]
    assert np.ptp(bars[0].get_xdata()) == float(figure.axes[0].texts[0].get_text().removesuffix(" m"))
    own = track_map(points, "hard coral", "bare rock")
    assert own.axes[-1].get_ylabel() == "hard coral" and own.legends[0].get_texts()[0].get_text() == "bare rock"
    texts = {text.get_text() for text in survey_sites(points, land()).axes[1].texts}
    assert {"N", "E"} <= texts
    with pytest.raises(ReefcoreError, match="no frame has a position"):
        track_map(points.assign(latitude=np.nan))
