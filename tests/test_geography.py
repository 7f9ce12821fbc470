"""Positions find their ecoregion across every seam, what cannot be placed is said, and order does not matter."""

import hashlib
import io
import os
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from shapely import box

from reefcore import comparison, files, geography, published
from reefcore.errors import ReefcoreError

SHAPES = {
    "Straddle": box(175, -20, 180, -10).union(box(-180, -20, -175, -10)),
    "Gulf": box(38, 20, 42, 28),
    "Red": box(34, 20, 38, 28),
    "Far east": box(-180, 40, -175, 50),
}


@pytest.fixture
def regions():
    columns = {"ECOREGION": list(SHAPES), "PROVINCE": "province", "REALM": "realm"}
    return gpd.GeoDataFrame(columns, geometry=list(SHAPES.values()), crs=4326)


def at(*places, **more):
    return pd.DataFrame(places, columns=["latitude", "longitude"]).assign(**more)


def test_a_position_lies_in_its_polygon_on_both_sides_of_the_antimeridian(regions):
    points = at((-15, 179.9), (-15, -179.9), (-15, 180.1), (-15, 180), (24, 36), (24, 38)).set_index(pd.Index([9] * 6))
    found = geography.locate(points, regions)
    assert found["ecoregion"].tolist() == ["Straddle"] * 4 + ["Red", "Gulf"]  # on a border, the first by name
    assert set(found["how"]) == {"polygon"} and set(found["distance_km"]) == {0} and found.index.tolist() == [9] * 6
    assert found["longitude"].tolist() == pytest.approx([179.9, -179.9, -179.9, -180, 36, 38])


def test_outside_of_every_polygon_the_nearest_is_named_with_its_distance(regions):
    points = at((29, 36), (45, 179.5), (0, 90))
    found = geography.locate(points, regions)
    assert found["ecoregion"].tolist()[:2] == ["Red", "Far east"] and pd.isna(found["ecoregion"][2])
    assert found["how"].tolist() == ["nearest polygon", "nearest polygon", "too far"]
    degree = np.pi / 180 * geography.EARTH_KM
    assert found["distance_km"].tolist()[:2] == pytest.approx([degree, 0.5 * degree * np.cos(np.pi / 4)], abs=1.2)
    assert geography.locate(points, regions, max_km=100)["how"].tolist() == ["too far", "nearest polygon", "too far"]


@pytest.mark.parametrize(
    ("latitude", "longitude", "how", "problem"),
    [
        (None, 5, "no coordinates", "no coordinates"),
        (5, np.nan, "no coordinates", "no coordinates"),
        (134.2, 7.3, "bad coordinates", "latitude is outside -90 to 90; latitude and longitude may be swapped"),
        (134.2, 97.3, "bad coordinates", "latitude is outside -90 to 90"),
        (7.3, 361, "bad coordinates", "longitude is outside -180 to 360"),
        (0, 0, "bad coordinates", "latitude and longitude are both 0: never filled in?"),
        ("12 S", 7, "bad coordinates", "latitude is not a number"),
    ],
)
def test_what_cannot_be_a_position_is_said(regions, latitude, longitude, how, problem):
    points = pd.DataFrame({"latitude": [latitude, 24], "longitude": [longitude, 36]})
    for polygons in (regions, ""):
        found = geography.locate(points, polygons)
        assert found.loc[0, ["how", "problem"]].tolist() == [how, problem]
        assert found.loc[0, ["latitude", "ecoregion", "distance_km"]].isna().all()
        assert found.loc[1, "problem"] == "" and pd.notna(found.loc[1, "ecoregion"])


def test_without_polygons_the_nearest_representative_point_decides():
    known = geography.representatives()
    found = geography.locate(known, "")
    assert known["ecoregion"].nunique() == 232 and (found["ecoregion"] == known["ecoregion"]).all()
    assert found["distance_km"].max() < 1e-3 and set(found["how"]) == {"nearest point"}
    found = geography.locate(at((-17, 179.9), (-17, -179.9), (25.6, 36.8), (47, 88)), "")
    assert found["ecoregion"].tolist()[:3] == ["Fiji Islands", "Fiji Islands", "Northern and Central Red Sea"]
    assert found["realm"][2] == "Western Indo-Pacific" and found["how"][3] == "too far"


def test_locate_needs_its_columns_and_takes_an_empty_table(regions):
    with pytest.raises(ReefcoreError, match="lacks the column longitude"):
        geography.locate(pd.DataFrame({"latitude": [1.0]}))
    assert list(geography.locate(at(), regions)) == list(geography.locate(at((1, 2)), ""))


def test_polygons_are_read_from_a_file_a_folder_or_what_was_fetched(regions, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert geography.read_meow() is None and geography.read_meow("") is None
    geography.cache_folder().mkdir(parents=True)
    regions.to_file(geography.cache_folder() / "meow_ecos.shp")
    for path in (None, tmp_path, geography.cache_folder() / "meow_ecos.shp"):
        assert geography.read_meow(path)["ecoregion"].tolist() == sorted(SHAPES)
    assert geography.locate(at((24, 36)))["how"].tolist() == ["polygon"]


def test_wrong_polygons_are_refused(regions, tmp_path):
    with pytest.raises(ReefcoreError, match="there are no ecoregions here; check the path"):
        geography.read_meow(tmp_path / "none.shp")
    regions.drop(columns="REALM").to_file(tmp_path / "part.geojson")
    with pytest.raises(ReefcoreError, match=r"part.geojson: a table of ecoregions lacks realm"):
        geography.read_meow(tmp_path / "part.geojson")
    (tmp_path / "text.shp").write_text("no shapefile")
    with pytest.raises(ReefcoreError, match=r"text.shp: these polygons cannot be read"):
        geography.read_meow(tmp_path / "text.shp")


@pytest.fixture
def archive(regions, tmp_path, monkeypatch) -> bytes:
    """A zip file like the published one, whose hashes are the expected ones."""
    regions.to_file(tmp_path / "meow_ecos.shp")
    parts = {suffix: (tmp_path / f"meow_ecos{suffix}").read_bytes() for suffix in (".shp", ".shx", ".dbf", ".prj")}
    hashes = {suffix: hashlib.sha256(parts[suffix]).hexdigest() for suffix in (".shp", ".dbf")}
    monkeypatch.setattr(geography, "MEOW_SHA256", hashes)
    return zipped(parts)


def zipped(parts) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for suffix, content in parts.items():
            file.writestr(f"MEOW/meow_ecos{suffix}", content)
    return stream.getvalue()


@pytest.fixture
def serve():
    """Serve pages (path -> content, length it claims) on this machine; what was asked for is in `.asked`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            if self.path not in server.pages:
                self.send_error(404)
                return
            content, claimed = server.pages[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(claimed))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.pages, server.asked = {}, []
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_polygons_are_fetched_once_from_the_first_address_that_serves(serve, archive, tmp_path):
    serve.pages["/b.zip"] = (archive, len(archive))
    addresses = [f"{serve.address}/a.zip", f"{serve.address}/b.zip"]
    shapefile = geography.download_meow(tmp_path / "cache", addresses)
    assert geography.read_meow(shapefile)["ecoregion"].tolist() == sorted(SHAPES)
    assert geography.download_meow(tmp_path / "cache", addresses) == shapefile
    assert serve.asked == ["/a.zip", "/b.zip"]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("missing", r"a\.zip: 404 Client Error"),
        ("truncated", r"a\.zip: .*IncompleteRead"),
        ("cut", r"a\.zip: File is not a zip file"),
        ("other", r"meow_ecos\.shp is not the published file \(its SHA-256 differs\)"),
        ("partial", r"the zip file lacks meow_ecos\.dbf"),
        ("closed", "Connection refused"),
    ],
)
def test_what_cannot_be_fetched_leaves_nothing_and_says_what_to_do(serve, archive, tmp_path, case, message):
    other = zipped({".shp": b"1", ".shx": b"2", ".dbf": b"3", ".prj": b"4"})
    serve.pages = {
        "truncated": {"/a.zip": (archive[:-100], len(archive))},
        "cut": {"/a.zip": (archive[:-100], len(archive) - 100)},
        "other": {"/a.zip": (other, len(other))},
        "partial": {"/a.zip": (part := zipped({".shp": b"1", ".shx": b"2"}), len(part))},
    }.get(case, {})
    address = "http://127.0.0.1:9" if case == "closed" else serve.address
    with pytest.raises(ReefcoreError, match=message) as error:
        geography.download_meow(tmp_path / "cache", f"{address}/a.zip")
    assert "download the MEOW zip file by hand" in str(error.value)
    assert not list((tmp_path / "cache").glob("*"))


def test_a_folder_that_cannot_be_written_is_named(serve, archive, tmp_path):
    serve.pages["/a.zip"] = (archive, len(archive))
    (tmp_path / "file").touch()
    with pytest.raises(ReefcoreError, match=r"file/x: the ecoregions cannot be kept here"):
        geography.download_meow(tmp_path / "file" / "x", f"{serve.address}/a.zip")


@pytest.fixture
def places():
    rows = [
        ("a", -17.0, 179.5, 10), ("b", -17.5, -179.2, 5), ("c", -17.0, -177.4, 3),  # a chain across the antimeridian
        ("d", 20.0, -157.0, 99), ("e", 22.5, -157.0, 1), ("lost", np.nan, np.nan, 200), ("zero", 0.0, 0.0, 7),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["source", "latitude", "longitude", "annotations"]).assign(realm="realm")


def test_groups_reach_across_the_antimeridian_and_do_not_depend_on_order(places):
    groups = geography.group(places)
    assert groups["members"].tolist() == ["d", "a, b, c", "e", "lost, zero"]
    assert groups["annotations"].tolist() == [99, 18, 1, 207] and groups["sources"].tolist() == [1, 3, 1, 2]
    assert abs(groups["longitude"][1]) > 178 and groups["latitude"][1] == pytest.approx(-17.17, abs=0.02)
    assert groups.loc[3, ["latitude", "longitude"]].isna().all()
    for seed in range(5):
        pd.testing.assert_frame_equal(geography.group(places.sample(frac=1, random_state=seed)), groups)
    assert len(geography.group(places, 0)) == 6 and len(geography.group(places, 2.5)) == 3


def test_group_refuses_what_it_cannot_use(places):
    with pytest.raises(ReefcoreError, match="-1 degrees is negative"):
        geography.group(places, -1)
    with pytest.raises(ReefcoreError, match="lacks the columns source, annotations"):
        geography.group(places[["latitude", "longitude"]])


@pytest.fixture
def annotations():
    rows = [("a", "1", -17, 179), ("a", "1", -17, 179), ("a", "2", -17, -179), ("b", "1", 20, -157)]
    table = pd.DataFrame([*rows, ("c", "1", None, None)], columns=["source", "image", "latitude", "longitude"])
    table["ecoregion"] = ["Fiji Islands", "Fiji Islands", "Fiji Islands", "Hawaii", None]
    return table.assign(province="p", realm=["r", "r", "r", "s", None])


def test_sources_have_their_mean_position_and_counts(annotations):
    table = geography.sources(annotations).set_index("source")
    assert abs(table.at["a", "longitude"]) == pytest.approx(180) and table.at["a", "positions"] == 2
    assert table.loc["a", ["images", "annotations", "ecoregion"]].tolist() == [2, 3, "Fiji Islands"]
    assert table.at["c", "problem"] == "no coordinates" and table.loc["c", ["latitude", "ecoregion"]].isna().all()


def test_ecoregions_are_counted_and_what_has_none_is_a_row(annotations):
    table = geography.by_ecoregion(pd.concat([annotations, annotations.tail(1)] + [annotations.tail(1)] * 3))
    assert table["ecoregion"].tolist() == ["Fiji Islands", "Hawaii", geography.NO_PLACE]
    assert table[["sources", "images", "annotations"]].to_numpy().tolist() == [[1, 2, 3], [1, 1, 1], [1, 1, 5]]
    assert table["share"].sum() == pytest.approx(1) and table["realm"].tolist()[:2] == ["r", "s"]


def test_the_papers_figures_stand_beside_those_here(annotations):
    table = comparison.largest_ecoregions(geography.by_ecoregion(annotations)).set_index("quantity")
    assert table.loc["Hawaii: sources", ["published", "here", "difference"]].tolist() == [18, 1, -17]
    assert table.at["Samoa Islands: annotations", "here"] == 0
    paper = published.texts("places")
    assert table.at["Hawaii: share (%)", "published"] == pytest.approx(100 * paper["Hawaii/annotations"] / 924626)
    assert table.at["these three: share (%)", "here"] == pytest.approx(20)
    assert table.filter(like="ecoregions", axis=0)["published"].tolist() == [26, 25]
    assert table.filter(like="ecoregions", axis=0)["here"].tolist() == [2, 2]


def test_mean_position_of_nothing_is_nothing():
    assert np.isnan(geography.mean_position(at())).all()


@pytest.mark.parametrize("centre", [160, 0, -160, 180])
def test_shapes_are_cut_at_the_seam_and_nothing_is_lost(centre):
    land = geography.land().set_crs(None, allow_override=True)
    assert land.is_valid.all() and land.bounds["maxx"].max() <= 180
    cut = geography.recentre(land, centre)
    assert cut.area.sum() == pytest.approx(land.area.sum()) and cut.is_valid.all()
    west, _, east, _ = cut.total_bounds
    assert -180 <= west < east <= 180
    x, _ = geography.equal_earth([-180, 0, 180], [10, 10, 10])
    assert x[0] == pytest.approx(-x[2]) and x[1] == 0


def test_the_antimeridian_is_not_bridged_by_land():
    fiji = geography.land().cx[176:180, -20:-15]
    assert len(fiji) and (fiji.bounds["maxx"] - fiji.bounds["minx"]).max() < 3


@pytest.mark.skipif(not os.environ.get("REEFCORE_MEOW"), reason="REEFCORE_MEOW names no folder with meow_ecos.shp")
def test_real_polygons():
    regions = geography.read_meow(os.environ["REEFCORE_MEOW"])
    known = geography.representatives()
    found = geography.locate(known, regions)
    assert len(regions) == 232 and (found["ecoregion"] == known["ecoregion"]).mean() > 0.99
    found = geography.locate(at((-17, 179.9), (-17, -179.9), (20.8, -156.3), (25.6, 36.8), (47, 88)), regions)
    assert found["ecoregion"].tolist()[:4] == ["Fiji Islands"] * 2 + ["Hawaii", "Northern and Central Red Sea"]
    assert found["how"][4] == "too far"
    cells = pd.MultiIndex.from_product([np.arange(-30.5, 32, 2), np.arange(-179.5, 180, 2)], names=list(at()))
    polygon, point = (geography.locate(cells.to_frame(index=False), meow) for meow in (regions, ""))
    inside = polygon["how"] == "polygon"
    agree = [(polygon[name] == point[name])[inside].mean() for name in geography.REGION]
    assert agree[0] > 0.75 and agree[1] > 0.88 and agree[2] > 0.94
    for suffix, expected in geography.MEOW_SHA256.items():
        assert files.sha256(Path(os.environ["REEFCORE_MEOW"]) / f"meow_ecos{suffix}") == expected
