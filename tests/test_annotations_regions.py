"""BIIGLE and TagLab: shapes become points by the stated rule, and what becomes none is counted."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import shapely

from reefcore import annotations
from reefcore.annotations import points, regions, taglab
from reefcore.errors import ReefcoreError

HEADER = (
    "annotation_label_id,label_id,label_name,label_hierarchy,user_id,firstname,lastname,image_id,filename,"
    "image_longitude,image_latitude,shape_id,shape_name,points,attributes,annotation_id,created_at\n"
)
CRESCENT = "[0,0,60,0,60,10,10,10,10,50,60,50,60,60,0,60]"  # its centroid lies outside
SHAPES = {
    "Point": "[99.7,59.2]",
    "Circle": "[30,20,5]",
    "Rectangle": "[10,10,20,10,20,30,10,30]",
    "Ellipse": "[10,20,30,20,20,25,20,15]",
    "Polygon": CRESCENT,
    "LineString": "[0,0,5,5]",
    "WholeFrame": "[]",
}


def row(number, shape, places, label="Porites", image="a.jpg", person="7,Ann,Lee", size=(100, 60), where="149.5,-17.5"):
    attributes = json.dumps({"size": 1, "width": size[0], "height": size[1]}) if size else ""
    cells = [f"{number}", "5", label, f'"Biota > {label}"', person, "3", image, where, "1", shape, f'"{places}"']
    attributes = attributes.replace('"', '""')
    return ",".join([*cells, f'"{attributes}"', f"{number}", "2026-01-02 03:04:05"]) + "\n"


def accounted(frame):
    attrs = frame.attrs
    assert attrs["rows"] == attrs["read"] + sum(attrs["left_out"].values())
    return attrs["left_out"]


@pytest.fixture
def put(put):
    def write(content, name="report.csv"):
        if isinstance(content, dict):
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                for member, text in content.items():
                    archive.writestr(member, text)
            content = buffer.getvalue()
        return put(content, name)

    return write


class TestBiigle:
    def test_each_shape_becomes_the_point_that_is_written(self, put):
        rows = "".join(row(i, name, places) for i, (name, places) in enumerate(SHAPES.items()))
        frame = annotations.read(put(HEADER + rows))
        assert accounted(frame) == {"a line, not a point or a region": 1, "a label of the whole photo": 1}
        got = dict(zip(frame["shape"], zip(frame["column"], frame["row"], frame["rule"], strict=True), strict=True))
        assert got["Point"] == (99, 59, "point") and got["Circle"] == (30, 20, "centre")
        assert got["Rectangle"] == (15, 20, "centroid") and got["Ellipse"] == (20, 20, "centroid")
        x, y, rule = got["Polygon"]
        assert rule == "inside"
        assert shapely.Polygon(np.reshape(json.loads(CRESCENT), (-1, 2))).contains(shapely.Point(x + 0.5, y + 0.5))
        area = frame.set_index("shape")["area"]
        assert area["Rectangle"] == 200 and area["Circle"] == pytest.approx(np.pi * 25, rel=1e-3)
        assert area["Ellipse"] == pytest.approx(np.pi * 50, rel=1e-3) and pd.isna(area["Point"])

    def test_a_report_says_who_where_and_how_large_without_names(self, put):
        frame = annotations.read(put({"7-Ann Lee.csv": HEADER + row(1, "Point", "[1,2]")}, "report.zip"))
        one = frame.iloc[0]
        assert frame.attrs["format"] == "biigle" and one["annotator"] == points.pseudonym("ann lee")
        assert (one["width"], one["height"], one["latitude"], one["longitude"]) == (100, 60, -17.5, 149.5)
        assert one["label_hierarchy"] == "Biota > Porites" and one["labelled_by"] == "person" and "date" not in frame
        assert not frame.astype("str").apply(lambda column: column.str.contains("Ann|Lee")).any(axis=None)
        named = annotations.read(put(HEADER + row(1, "Point", "[1,2]")), names=True)
        assert named["annotator"].tolist() == ["Ann Lee"] and named["firstname"].tolist() == ["Ann"]
        alone = annotations.read(put(HEADER + row(1, "Point", "[1,2]", person="7,,")))
        assert alone["annotator"].tolist() == [points.pseudonym("7")]

    def test_tables_of_a_zip_are_joined_and_other_tables_counted(self, put):
        other = "image_label_id,filename,label_name\n1,a.jpg,Sand\n2,b.jpg,Sand\n"
        video = HEADER.replace("filename", "video_filename") + row(1, "Point", "[1,2]")
        files = {"a.csv": HEADER + row(1, "Point", "[1,2]"), "b/../c.csv": HEADER + row(2, "Point", "[3,4]")}
        files |= {
            "empty.csv": "",
            "head.csv": HEADER,
            "o.csv": other,
            "v.csv": video,
            "read me.txt": "x",
            "__MACOSX/a.csv": "x",
        }
        frame = annotations.read(put(files, "report.zip"))
        assert frame["row"].tolist() == [2, 4] and frame["source"].unique().tolist() == ["report"]
        assert accounted(frame) == {"a table that is no report of image annotations": 3}
        inner = put({"v.csv": HEADER + row(1, "Point", "[1,2]")}, "inner.zip").read_bytes()
        assert annotations.read(put({"12_North.zip": inner}, "project.zip"))["source"].tolist() == ["12_North"]

    def test_a_report_without_annotations_is_no_error(self, put):
        frame = annotations.read(put(HEADER))
        assert frame.empty and frame.attrs["problems"]["problem"].tolist() == ["the file has a header and no points"]

    @pytest.mark.parametrize("places", ["", "[1]", "[1,2,3]", "{}", '["a",1]', "[1e999,2]", "[NaN,2]", "[true,2]"])
    def test_places_that_cannot_be_read_are_counted(self, put, places):
        text = HEADER + row(1, "Point", places.replace('"', '""')) + row(2, "Point", "[1,2]")
        frame = annotations.read(put(text))
        assert len(frame) == 1 and accounted(frame) == {"a point whose coordinates cannot be read": 1}

    def test_an_outline_of_any_length_is_read(self, put):
        turn = np.linspace(0, 2 * np.pi, 20_000)
        corners = np.column_stack([50 + 20 * np.cos(turn), 30 + 20 * np.sin(turn)]).round(4)
        frame = annotations.read(put(HEADER + row(1, "Polygon", json.dumps(corners.ravel().tolist()))))
        assert frame[["column", "row"]].to_numpy().tolist() in ([[49, 29]], [[50, 30]], [[49, 30]], [[50, 29]])

    def test_places_outside_their_photo_are_said_and_the_edge_is_inside(self, put):
        places = ["[100,60]", "[250,10]", "[-1,5]"]
        frame = annotations.read(put(HEADER + "".join(row(i, "Point", at) for i, at in enumerate(places))))
        assert frame["column"].tolist() == [99, 250] and frame["row"].tolist() == [59, 10]
        assert accounted(frame) == {"a place left of or above its photo": 1}
        assert "1 point outside the photo" in "\n".join(frame.attrs["problems"]["problem"])

    def test_what_a_user_should_doubt_is_said(self, put):
        text = HEADER + row(1, "Point", "[1,2]") + row(1, "Point", "[1,2]", "Sand")
        text += row(2, "Point", "[1,2]").replace(",5,Porites", ",6,Porites") + row(3, "Polygon", "[0,0,9,9,0,0]")
        frame = annotations.read(put(text))
        said = "\n".join(frame.attrs["problems"]["problem"])
        assert "1 annotations have several labels" in said and "'Porites' is the name of 2 labels" in said
        assert len(frame) == 3 and accounted(frame) == {"a polygon without an area": 1}

    def test_images_of_one_name_are_told_apart_by_their_number(self, put):
        other = row(2, "Point", "[3,4]", size=(50, 40)).replace(",3,a.jpg", ",4,a.jpg")
        text = HEADER + row(1, "Point", "[1,2]") + other + row(3, "Point", "[5,6]", image="b.jpg")
        frame = annotations.read(put(text))
        assert frame["image"].tolist() == ["3/a.jpg", "4/a.jpg", "b.jpg"] and frame["width"].tolist() == [100, 50, 100]
        assert "1 image names stand for several images each" in "\n".join(frame.attrs["problems"]["problem"])
        assert annotations.read(put(HEADER + row(1, "Point", "[1,2]")))["image"].tolist() == ["a.jpg"]

    def test_points_are_drawn_over_the_photo_and_take_the_label_on_top(self, put):
        text = HEADER + row(1, "Rectangle", "[0,0,50,0,50,60,0,60]", "Reef") + row(2, "Point", "[1,2]")
        text += row(3, "Rectangle", "[0,0,25,0,25,60,0,60]", "Coral") + row(
            4, "Circle", "[5,5,2]", image="b", size=None
        )
        path = put(text)
        frame = annotations.read(path, points="sample", sample=4000, seed=1)
        assert set(accounted(frame).values()) == {1} and len(frame.attrs["left_out"]) == 2
        share = frame["label_raw"].value_counts(normalize=True)
        assert share.to_dict() == pytest.approx({"Coral": 0.25, "Reef": 0.25, regions.NO_REGION: 0.5}, abs=0.03)
        assert (frame["column"].max(), frame["row"].max(), frame["column"].min()) == (99, 59, 0)
        assert frame.equals(annotations.read(path, points="sample", sample=4000, seed=1))

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            (HEADER.replace("filename", "video_filename"), "this is a BIIGLE report of video annotations"),
            (
                "image_label_id,image_id,filename,label_name\n1,2,a.jpg,Sand\n",
                "this is a BIIGLE report of labels of whole",
            ),
            (
                "label_name,shape_name,points,filename,annotation_label_id\n".replace("points,", ""),
                "lacks the column points",
            ),
        ],
    )
    def test_reports_without_points_are_refused_in_a_sentence(self, put, content, sentence):
        with pytest.raises(ReefcoreError, match=sentence):
            annotations.read(put(content))

    def test_damaged_and_hostile_zips_are_refused_in_a_sentence(self, put, monkeypatch):
        good = put({"a.csv": HEADER + row(1, "Point", "[1,2]") * 50}, "report.zip")
        data = bytearray(good.read_bytes())
        data[60] ^= 255
        with pytest.raises(ReefcoreError):
            annotations.read(put(bytes(data), "flipped.zip"))
        monkeypatch.setattr("reefcore.annotations.biigle.LARGEST", 100)
        with pytest.raises(ReefcoreError, match="more than 4 GB"):
            annotations.read(good)


def project(images, **more):
    return json.dumps({"working_area": None, "dictionary_name": "x", "labels": {}, "images": images, **more})


def outlined(area=((0, 0), (20, 0), (20, 20), (0, 20)), label="Porites", holes=(), **more):
    region = {
        "id": 4,
        "contour": [list(p) for p in area],
        "inner contours": list(holes),
        "class name": label,
        "note": "",
    }
    return region | more


def one_map(*found, **more):
    channels = [{"filename": "C:\\maps\\plot 1.png", "type": "RGB"}]
    return {
        "width": 40,
        "height": 40,
        "map_px_to_mm_factor": "0.9",
        "channels": channels,
        "name": "plot",
        "acquisition_date": "2013-01-01",
        "annotations": {"regions": list(found), "points": []},
    } | more


class TestTagLab:
    def test_contours_are_pairs_or_differences_in_tenths(self):
        want = [[3.0, 20.5], [2.0, 20.5], [2.0, 19.5]]
        for given in (want, "30 205 -10 0 0 -10", [30, 205, -10, 0, 0, -10]):
            assert taglab.contour(given).tolist() == want
        assert taglab.contour("30 x") is None and taglab.contour("1 2 3") is None and taglab.contour(None) is None

    def test_a_region_is_a_point_inside_it_and_holes_are_outside(self, put):
        hole = [[5, 5], [15, 5], [15, 15], [5, 15]]
        frame = annotations.read(put(project([one_map(outlined(holes=[hole]))]), "p.json"))
        one = frame.iloc[0]
        assert (
            one["area"] == 300 and one["rule"] == "inside" and not (5 <= one["row"] <= 15 and 5 <= one["column"] <= 15)
        )
        assert one["image"] == "plot 1.png" and one["date"] == "2013-01-01" and one["mm_per_pixel"] == 0.9
        assert (one["width"], one["height"], one["region"], one["map"]) == (40, 40, "4", "plot")

    def test_what_is_no_labelled_region_is_counted(self, put):
        found = [outlined(), outlined(label="Empty"), outlined(label=""), outlined(area=[(0, 0), (5, 5)]), "x"]
        found += [outlined(area=[(-30, -30), (-20, -30), (-20, -20)])]
        frame = annotations.read(put(project([one_map(*found)]), "p.json"))
        assert len(frame) == 1 and sum(accounted(frame).values()) == 5 == frame.attrs["rows"] - 1
        assert taglab.NOT_LABELLED in frame.attrs["left_out"]

    def test_projects_of_every_version_and_their_own_points(self, put):
        old = json.dumps({"Map File": "maps/old.png", "Map Scale": 1.0, "Segmentation Data": [outlined()]})
        frame = annotations.read(put(old, "old.json"))
        assert frame["image"].tolist() == ["old.png"] and frame["row"].tolist() == [10]
        bare = one_map(annotations=[outlined()], acquisition_date="1955-11-05")
        frame = annotations.read(put(project([bare]), "bare.json"))
        assert len(frame) == 1 and frame["date"].isna().all()
        own = [{"Id": 1, "X": 3.6, "Y": 7.2, "Class": "Sand", "Note": ""}, {"Id": 2, "X": "x", "Y": 0, "Class": "Sand"}]
        frame = annotations.read(put(project([one_map(annotations={"regions": [], "points": own})]), "own.json"))
        assert frame[["column", "row", "label_raw"]].to_numpy().tolist() == [[4, 7, "Sand"]]
        assert accounted(frame) == {"a point whose place cannot be read": 1}

    def test_maps_of_one_photo_are_told_apart(self, put):
        frame = annotations.read(put(project([one_map(outlined()), one_map(outlined(), name="later")]), "p.json"))
        assert frame["image"].tolist() == ["plot (plot 1.png)", "later (plot 1.png)"]

    def test_points_are_drawn_over_the_working_area(self, put):
        path = put(project([one_map(outlined(), outlined(label="Empty"))], working_area=[0, 0, 20, 40]), "p.json")
        frame = annotations.read(path, points="sample", sample=2000)
        assert accounted(frame) == {} and frame["column"].max() == 19 and frame["row"].max() == 39
        assert (frame["label_raw"] == regions.NO_REGION).mean() == pytest.approx(0.5, abs=0.05)

    @pytest.mark.parametrize(
        "text", ['{"working_area": null, "images": [', '{"working_area": {"images": 3}}', '["working_area", 1]']
    )
    def test_a_damaged_project_is_a_sentence_or_empty(self, put, text):
        try:
            assert annotations.read(put(text, "p.json")).empty
        except ReefcoreError as error:
            assert "damaged" in str(error) or "no TagLab project" in str(error)
