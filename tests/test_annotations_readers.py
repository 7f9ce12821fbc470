"""CPCe, ReefCloud, Squidle+, column maps and folders: each test writes one oddity, then looks at points and counts."""

import random
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from reefcore import annotations, tables
from reefcore.annotations.points import pseudonym
from reefcore.errors import ReefcoreError

REAL = Path(__file__).resolve().parents[2] / "shared" / "real"


def said(frame):
    return frame.attrs["problems"]["problem"].tolist()


def points_of(frame):
    return list(frame[["image", "row", "column", "label_raw"]].itertuples(index=False, name=None))


def left_out(frame):
    """Give what was left out, after holding it against the rows of the file."""
    attrs = frame.attrs
    assert attrs["rows"] == attrs["read"] + sum(attrs["left_out"].values())
    assert attrs["read"] == len(frame)
    return attrs["left_out"]


def cpc(
    image="D:\\Reef\\T1\\a.jpg", points=((150, 300, "POR", ""), (1507, 2999, "SAND", "BL")), size=(3000, 4500), **put
):
    """Imitate a .cpc file."""
    lines = [f'"C:\\CPCe\\codes.txt","{image}",{size[0]},{size[1]},14400,10800', "0,4500", "3000,4500", "3000,0", "0,0"]
    lines += [str(put.get("declared", len(points)))]
    lines += [f"{x},{y}" for x, y, _, _ in points]
    lines += [
        f'"{put.get("numbers", "123456789")[n]}","{code}","Notes","{note}"'
        for n, (_, _, code, note) in enumerate(points)
    ]
    return "\r\n".join([*lines, *[f'"{text}"' for text in put.get("header", [" "] * 28)]]) + "\r\n"


def test_a_cpc_file_gives_pixels_codes_and_notes(put):
    frame = annotations.read(put(cpc(), "Survey 1/a.cpc"))
    assert points_of(frame) == [("a.jpg", 20, 10, "POR"), ("a.jpg", 200, 100, "SAND")]  # as CoralNet rounds them
    assert (
        frame["source"].unique() == ["Survey 1"] and frame["notes"].tolist()[1] == "BL" and pd.isna(frame["notes"][0])
    )
    assert (frame["width"].tolist(), frame["height"].tolist()) == ([200, 200], [300, 300])
    assert annotations.labelled_by(frame).tolist() == ["person", "person"]
    assert said(frame) == [] and left_out(frame) == {}


def test_a_position_on_the_far_edge_is_the_last_pixel_and_one_beyond_is_said(put):
    edge = ((3000, 4500, "POR", ""), (0, 0, "POR", ""), (3100, 5, "POR", ""))
    frame = annotations.read(put(cpc(points=edge), "a.cpc"))
    assert points_of(frame) == [("a.jpg", 299, 199, "POR"), ("a.jpg", 0, 0, "POR"), ("a.jpg", 0, 207, "POR")]
    assert said(frame) == [
        "1 point outside the photo, first row 0, column 207 of 'a.jpg' (200 x 300 pixels); kept as in the file"
    ]


@pytest.mark.parametrize(("image", "name"), [("D:\\x\\ä b.JPG", "ä b.JPG"), ("E:/x/b.png", "b.png"), ("", "a")])
def test_the_photo_is_named_by_its_file(put, image, name):
    assert annotations.read(put(cpc(image).encode("cp1252"), "a.cpc"))["image"].unique() == [name]


def test_units_to_a_pixel_come_from_the_size_of_the_photo(put):
    path = put(cpc(size=(2400, 3600), points=((120, 240, "POR", ""),)), "a.cpc")
    known = pd.DataFrame({"image": ["A.JPEG"], "width": [200], "height": [300]})
    frame = annotations.read(path, sizes=known)
    assert points_of(frame) == [("a.jpg", 20, 10, "POR")]
    assert said(frame) == ["the photo has 200 x 300 pixels, which makes 12 units to a pixel instead of 15"]
    turned = annotations.read(path, sizes=known.rename(columns={"width": "height", "height": "width"}))
    assert points_of(turned) == [("a.jpg", 16, 8, "POR")] and "turned, cut or is another one" in said(turned)[0]
    odd = annotations.read(put(cpc(size=(2412, 3612)), "odd.cpc"))
    assert said(odd)[0].endswith("is no whole number of pixels at 15 to a pixel; 12 were taken")


def test_a_photo_beside_its_cpc_is_measured(put, tmp_path):
    path = put(cpc(size=(2400, 3600), points=((120, 240, "POR", ""),)), "T1/a.cpc")
    Image.new("RGB", (200, 300)).save(tmp_path / "T1" / "a.jpg")
    for where in (path, tmp_path):
        frame = annotations.read(where)
        assert points_of(frame) == [("a.jpg", 20, 10, "POR")] and "which makes 12 units" in said(frame)[0]


def test_points_without_a_code_are_counted(put):
    frame = annotations.read(put(cpc(points=((1, 1, "POR", ""), (2, 2, "", ""), (3, 3, " ", ""))), "a.cpc"))
    assert len(frame) == 1 and left_out(frame) == {"no label": 2} and said(frame) == ["2 of 3 points without a label"]


def test_old_files_without_header_lines_or_corners_and_letters_for_numbers(put):
    text = cpc(header=[], numbers="ABC").replace("\r\n", "\n")
    assert len(annotations.read(put(text, "a.cpc"))) == 2
    lines = text.split("\n")
    assert len(annotations.read(put("\n".join([lines[0], *lines[5:]]), "b.cpc"))) == 2


def test_header_lines_may_name_people_and_are_kept_only_when_asked(put):
    path = put(cpc(header=["Jane Doe", " "] + [""] * 26), "a.cpc")
    assert not [name for name in annotations.read(path) if name.startswith("header")]
    assert "names=True keeps them" in said(annotations.read(path))[0]
    assert annotations.read(path, names=True)["header_1"].tolist() == ["Jane Doe"] * 2


def test_a_folder_reads_the_good_files_and_counts_the_points_of_broken_ones(put, tmp_path):
    put(cpc(), "all/T1/a.cpc")
    put(cpc("D:\\T2\\a.jpg"), "all/T2/a.CPC")
    put(cpc("D:\\T2\\c.jpg", declared=3), "all/T2/c.cpc")
    put(cpc("D:\\T2\\d.jpg")[:-100].rpartition('"2"')[0], "all/T2/d.cpc")  # cut within the labels
    put("", "all/T2/e.cpc")
    put("photo", "all/T1/a.jpg")
    frame = annotations.read(tmp_path / "all")
    assert frame.attrs["format"] == "cpce" and frame["source"].unique() == ["all"]
    assert frame["image"].unique().tolist() == ["T1/a.jpg", "T2/a.jpg", "d.jpg"]
    assert left_out(frame) == {"a point of a damaged .cpc file": 3, "no label": 1}
    texts = said(frame)
    assert any(text.startswith("T2/c.cpc:6: says 3 points and has 2 positions") for text in texts)
    assert any(text.startswith("T2/e.cpc:1: does not begin with") for text in texts)
    assert any("'a.jpg' stands in 2 .cpc files" in text for text in texts)
    (entry,) = annotations.check([tmp_path / "all"])
    assert (entry["rows"], entry["read"], entry["left_out"]) == (9, 5, left_out(frame)) and entry["base"] == "0"


def test_the_same_photo_in_two_files_stays_one_photo(put, tmp_path):
    put(cpc(), "one.cpc")
    put(cpc(), "two.cpc")
    frame = annotations.read(tmp_path)
    assert frame["image"].unique() == ["a.jpg"] and len(frame) == 4 and "were put together" in said(frame)[0]


def test_folders_that_tell_photos_apart_name_no_person(put, tmp_path):
    put(cpc("C:\\Users\\Jane\\a.jpg"), "one.cpc")
    put(cpc("C:\\Users\\Kim\\a.jpg").replace('"1","POR","Notes",""', '"1","PO'), "two.cpc")
    frame = annotations.read(tmp_path)
    assert frame["image"].unique().tolist() == [f"{pseudonym('jane')}/a.jpg", f"{pseudonym('kim')}/a.jpg"]
    assert left_out(frame) == {"no label": 1} and any(
        "two.cpc:9: this line is broken or cut" in text for text in said(frame)
    )


def test_a_zip_of_cpc_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("T1/a.cpc", cpc())
    frame = annotations.read(tmp_path / "export.zip")
    assert len(frame) == 2 and frame["source"].unique() == ["export"]


def test_a_broken_cpc_file_alone_is_refused_in_one_sentence(put):
    for text in ("", cpc()[:60], cpc(declared=9), "not a cpc"):
        with pytest.raises(ReefcoreError, match=r"\.$"):
            annotations.read(put(text, "a.cpc"))


CLOUD = (
    "project_name,site_name,site_latitude,site_longitude,site_depth,survey_title,survey_start_date,survey_depth,"
    "survey_transect_number,image_id,image_name,image_height,image_width,image_disabled,point_id,"
    "point_machine_classification,point_human_classification,point_human_group_code,point_coordinate,"
    "point_modified_by_displayname,point_modified_by_email\n"
)


def cloud(
    survey="S1",
    start="2019-03-08 14:00:00+00",
    image="7,a.jpg",
    off="f",
    labels="CA,TA,A",
    at="700.9, 1500.0",
    lon=150.2,
):
    person = "Jane  Doe,jane@example.org"
    return f'P,North,-22,{lon},5,{survey},{start},7.5,2,{image},3000,4000,{off},1,{labels},"{at}",{person}\n'


def test_reefcloud_points(put):
    rows = (
        cloud()
        + cloud(labels="CA,,")
        + cloud(labels=",,")
        + cloud(off="t")
        + cloud(at="x")
        + cloud("S2", image="8,a.jpg")
    )
    frame = annotations.read(put(CLOUD + rows))
    assert points_of(frame) == [("a.jpg", 1500, 700, "TA"), ("a.jpg", 1500, 700, "CA"), ("a.jpg", 1500, 700, "TA")]
    assert frame["source"].tolist() == ["S1", "S1", "S2"] and frame["survey"].tolist() == ["S1", "S1", "S2"]
    assert frame["labelled_by"].tolist() == ["person", "machine", "person"]
    one = frame.iloc[0]
    assert (one["site"], one["transect"], one["depth"], one["group_in_file"]) == ("North", "2", 7.5, "A")
    assert (one["width"], one["height"], one["latitude"], one["longitude"]) == (4000, 3000, -22, 150.2)
    assert one["point_modified_by_displayname"] == one["annotator"] == pseudonym("jane doe")
    assert one["point_modified_by_email"] == pseudonym("jane@example.org")
    assert left_out(frame) == {"a point of an image that is disabled": 1, "no label": 1, "no usable row": 1}
    assert annotations.read(put(CLOUD + rows), source="Mine").groupby("image").size().to_dict() == {
        "S1/a.jpg": 2,
        "S2/a.jpg": 1,
    }


@pytest.mark.parametrize(
    ("start", "lon", "day"),
    [
        ("2019-03-08 14:00:00+00", 150.2, "2019-03-09"),  # midnight of the next day there
        ("2022-05-11 00:00:00+00", 150.2, "2022-05-11"),
        ("2022-05-11 00:00:00+00", -80, "2022-05-11"),
        ("2022-05-11 04:00:00+00", -80, "2022-05-11"),  # summer time: an hour before the sun's midnight
        ("2022-05-11 20:00:00+00", -80, "2022-05-11"),
        ("2019-03-08 14:00:00+00", "", "2019-03-08"),
        ("30/08/20x", 150.2, None),
    ],
)
def test_the_day_of_a_reefcloud_survey_is_the_day_at_its_site(put, start, lon, day):
    date = annotations.read(put(CLOUD + cloud(start=start, lon=lon)))["date"][0]
    assert date == day if day else pd.isna(date)


SQUIDLE = (
    '"","label.name","label.lineage_names","point.id","point.media.id","point.media.key","point.media.path_best",'
    '"point.pose.dep","point.pose.lat","point.pose.lon","point.pose.timestamp","point.x","point.y","user.username"\r\n'
)
PATH = "https://data.example.org/full/PR_1.jpg?x=1"


def squid(n, x, y, key="PR_1", path=PATH, point=None):
    pose = '"21.5","-40.2","148","2015-02-03 04:05:06"'
    return f'"{n}","Sand","Physical > Sand","{point or n}","5","{key}","{path}",{pose},"{x}","{y}","Jane"\r\n'


def test_squidle_positions_are_scaled_by_the_photo(put):
    rows = (
        squid(0, 0.5, 1.0)
        + squid(1, "0.8333333333333334", 0)
        + squid(2, "", "")
        + squid(3, 1.5, 0)
        + squid(4, 0.5, 1, point=1)
    )
    frame = annotations.read(put(SQUIDLE + rows), size="1360x1024")
    assert points_of(frame) == [
        ("PR_1.jpg", 1023, 680, "Sand"),
        ("PR_1.jpg", 0, 1133, "Sand"),
        ("PR_1.jpg", 1023, 680, "Sand"),
    ]
    assert left_out(frame) == {"a label of a whole frame, no point": 1, "no usable column": 1}
    assert (frame["depth"][0], frame["latitude"][0], frame["date"][0]) == (21.5, -40.2, "2015-02-03 04:05:06")
    assert (
        frame["user_username"].unique() == frame["annotator"].unique() == [pseudonym("Jane")]
        and "unnamed_1" not in frame
    )
    assert "1 label stands on a point that has one already; all were kept" in said(frame)


def test_squidle_without_the_size_of_the_photo_says_what_to_give(put):
    path = put(
        (SQUIDLE + squid(0, 0.5, 0.5) + squid(1, 0.5, 0.5, "B", "x"))
        .replace("point.", "point_")
        .replace("label.", "label_")
    )
    with pytest.raises(
        ReefcoreError, match=r"are parts of the photo's width and height, and its size is not known; give"
    ):
        annotations.read(path)
    some = annotations.read(path, sizes=pd.DataFrame({"image": ["pr_1.JPG"], "width": [100], "height": [50]}))
    assert points_of(some) == [("PR_1.jpg", 25, 50, "Sand")] and left_out(some) == {
        "a point of a photo of unknown size": 1
    }
    assert annotations.check([path], size="100x50")[0]["read"] == 2
    assert annotations.check([path])[0]["refused"]


TABLE = "Photo;Y;X;Class;Day;Who;Deep\na.jpg;10,5;20;POR;1/2/20;Jane Doe;5 m\n"
TABLE += "b.jpg;x;1;SAND;;jane  doe;3-4\nb.jpg;3;4;SAND;;;7,5\n"
MAP = {
    "image": "Photo",
    "row": "y",
    "column": "X",
    "label": "Class",
    "date": "Day",
    "annotator": "Who",
    "depth": "Deep",
}


def test_any_table_is_read_by_a_column_map(put):
    path = put(TABLE)
    with pytest.raises(ReefcoreError, match=r"perhaps \{image: Photo, row: Y, column: X, label: Class\}"):
        annotations.read(path)
    frame = annotations.read(path, columns=MAP)
    assert points_of(frame) == [("a.jpg", 10, 20, "POR"), ("b.jpg", 3, 4, "SAND")] and frame["date"][0] == "1/2/20"
    assert frame["depth"].tolist() == [5, 7.5] and frame["depth_in_file"].tolist() == ["5 m", "7,5"]
    assert frame["annotator"][0] == pseudonym("Jane Doe") and left_out(frame) == {"no usable row": 1}
    yaml = put("".join(f"{name}: {title}\n" for name, title in MAP.items()) + "base: 1\n", "map.yaml")
    assert points_of(annotations.read(path, columns=yaml)) == [("a.jpg", 9, 19, "POR"), ("b.jpg", 2, 3, "SAND")]
    (entry,) = annotations.check([path], columns=yaml)
    assert (entry["format"], entry["read"], entry["rows"]) == ("columns", 2, 3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rov": "Y"}, "'rov' is no key of a column map; did you mean row"),
        (
            {"image": "Foto"},
            "the column map says that image is 'Foto', which is no column of this file; did you mean 'Phot",
        ),
        ({"label": None}, "the column map lacks label"),
        ({"units": "inches"}, "units is 'inches' in the column map; use pixels, fraction, percent"),
        ({"base": 2}, "base is 2 in the column map; use 0 or 1"),
        ({"x": "X"}, "the column map says twice what column is"),
        ({"label": "Photo"}, "the column map gives one column to image and label"),
    ],
)
def test_a_wrong_column_map_is_refused_with_what_was_meant(put, change, sentence):
    columns = {name: title for name, title in (MAP | change).items() if title is not None}
    with pytest.raises(ReefcoreError, match=sentence):
        annotations.read(put(TABLE), columns=columns)


def test_fractions_and_percents_of_the_photo(put):
    columns = {"name": "Name", "x": "x", "y": "y", "label": "Label"}
    text = "Name,x,y,Label,w,h\na,0.5,1,POR,100,200\na,2,0,POR,100,200\n"
    frame = annotations.read(put(text), columns=columns | {"units": "fraction", "width": "w", "height": "h"})
    assert points_of(frame) == [("a", 199, 50, "POR")] and said(frame) == ["'2' is not between 0 and 1"]
    assert left_out(frame) == {"no usable column": 1}
    frame = annotations.read(put(text), columns=columns | {"units": "percent"}, size=(100, 200))
    assert points_of(frame) == [("a", 2, 0, "POR"), ("a", 0, 2, "POR")]


def test_titles_above_the_header_and_headers_among_the_rows(put):
    text = "My reef,,,\n\nName,Row,Column,Label\na.jpg,1,2,POR\nName,Row,Column,Label\nb.jpg,3,4,SAND\n"
    frame = annotations.read(put(text))
    assert points_of(frame) == [("a.jpg", 1, 2, "POR"), ("b.jpg", 3, 4, "SAND")]
    assert left_out(frame) == {"the header again": 1}
    assert said(frame) == ["this line above the header was passed over", "repeats the header"]


def test_a_machines_suggestion_is_no_label(put):
    text = "Name,Row,Column,Label,Annotator,Machine suggestion 1\na,1,2,,,POR\na,1,3,,,\na,1,4,POR,robot,POR\n"
    frame = annotations.read(put(text))
    assert len(frame) == 1 and annotations.labelled_by(frame).tolist() == ["machine"]
    assert left_out(frame) == {"no label, only a machine's suggestion": 1, "no label": 1}


def test_decimal_commas_where_semicolons_divide(put):
    frame = annotations.read(put("Name;Row;Column;Latitude;Longitude;Label\na;1,0;2;-17,5;149,75;POR\n"))
    assert frame[["row", "column", "latitude", "longitude"]].values.tolist() == [[1, 2, -17.5, 149.75]]


def test_people_and_their_addresses_leave_no_trace_unless_asked(put):
    text = (
        "Name,Row,Column,Label,Observer,Uploaded by,First name,Comments\na,1,2,POR,José Gil,J. Roe,José,see jo@x.org\n"
    )
    path = put(text.encode("latin-1"))
    frame = annotations.read(path)
    everything = frame.to_csv() + frame.attrs["problems"].to_csv() + str(frame.attrs)
    assert not [name for name in ("José", "Roe", "jo@x.org") if name in everything]
    assert frame["comments"][0] == f"see {pseudonym('jo@x.org')}" and frame["observer"][0] == pseudonym("JOSÉ  gil")
    assert annotations.read(path, names=True)["observer"][0] == "José Gil"


def test_a_name_in_a_remark_is_the_pseudonym_of_its_column(put):
    text = "Name,Row,Column,Label,Annotator,Photographer,Comments,Site,Aux1\n"
    text += "Jane Doe.jpg,1,2,Jane Doe,Jane Doe,Reef,seen by JANE  doe (janedoe),Jane Doe,Sand on reef\n"
    text += "a.jpg,1,2,Sand,Sand,cmarino,ask cmarino; Janet Doe; Jane Doer,N,Ann Li was here\n"
    text += "a.jpg,3,2,Sand,robot,Ann Li,robot,N,\n"
    frame = annotations.read(put(text))
    jane, ann, one = pseudonym("Jane Doe"), pseudonym("ann li"), pseudonym("cmarino")
    assert frame["comments"].tolist() == [f"seen by {jane} (janedoe)", f"ask {one}; Janet Doe; Jane Doer", "robot"]
    assert frame["aux1"].fillna("").tolist() == ["Sand on reef", f"{ann} was here", ""]
    assert frame.loc[0, ["image", "label_raw", "site"]].tolist() == ["Jane Doe.jpg", "Jane Doe", "Jane Doe"]
    assert frame["annotator"].tolist() == [jane, pseudonym("sand"), "robot"]
    assert annotations.read(put(text), names=True)["comments"][0] == "seen by JANE  doe (janedoe)"


@pytest.mark.parametrize(
    ("title", "is_person"),
    [
        *(
            (title, True)
            for title in ("Observer 2", "Diver name", "Photographer(s)", "Fotógrafo", "E-mail", "uploaded by")
        ),
        *((title, True) for title in ("point.modified_by.email", "user.first_name")),
        *((title, False) for title in ("Camera", "Site name", "Dive")),
    ],
)
def test_columns_of_people_are_known_by_their_names(put, title, is_person):
    frame = annotations.read(put(f"Name,Row,Column,Label,{title}\na,1,2,POR,Kim\n"))
    assert (frame.iloc[0, -1] == pseudonym("kim")) == is_person


def test_a_folder_of_files_of_one_format(put, tmp_path):
    put("Name,Row,Column,Label\na,1,2,POR\na,x,2,POR\n", "one.csv")
    put("Name,Row,Column,Label,Date\na,1,2,POR,2020\n", "sub/two.csv")
    put("Label ID,Short Code\n1,POR\n", "labelset.csv")
    put("notes", "notes.txt")
    frame = annotations.read(tmp_path)
    assert frame["source"].tolist() == ["one", "two"] and left_out(frame) == {"no usable row": 1}
    assert "one.csv: 'x' is not a whole number of pixels" in said(frame)
    assert any(text.startswith("labelset.csv was passed over: this is a CoralNet labelset") for text in said(frame))
    put(CLOUD + cloud(), "cloud.csv")
    with pytest.raises(ReefcoreError, match=r"files of several formats \(reefcloud: cloud.csv; coralnet: one.csv\)"):
        annotations.read(tmp_path)


def test_labelled_by_prefers_what_the_file_says():
    frame = pd.DataFrame(
        {"annotator": ["robot", "Imported", "person-1", None], "labelled_by": [None, None, "machine", None]}
    )
    assert annotations.labelled_by(frame).fillna("-").tolist() == ["machine", "person", "machine", "-"]
    assert annotations.labelled_by(frame[[]]).isna().all()


def _mangled(data, dice):
    data = bytearray(data)
    for _ in range(dice.randrange(1, 5)):
        place = dice.randrange(len(data)) if data else 0
        kind = dice.randrange(4)
        if kind == 0:
            del data[place:]
        elif kind == 1 and b"," in data:
            gone = dice.randrange(bytes(data).split(b"\n")[0].count(b",") + 1)
            rows = [line.split(b",") for line in bytes(data).split(b"\n")]
            data = bytearray(b"\n".join(b",".join(c for i, c in enumerate(row) if i != gone) for row in rows))
        elif kind == 2:
            data[place:place] = dice.choice([b'"', b"\r", b"\n", b",", b"\0", b"\xff", b"1e400", b"-9", b"nan"])
        else:
            data = bytearray(
                bytes(data).decode("utf-8", "replace").encode(dice.choice(["utf-16", "cp1252", "utf-8-sig"]), "replace")
            )
    return bytes(data)


def test_damaged_files_give_a_table_or_a_sentence_and_every_row_is_counted(put):
    dice, outcomes = random.Random(0), set()
    seeds = [
        (cpc(), "a.cpc"),
        (CLOUD + cloud() * 3, "c.csv"),
        (SQUIDLE + squid(1, 0.5, 0.5) * 3, "s.csv"),
        (TABLE, "t.csv"),
    ]
    for turn in range(160):
        text, name = seeds[turn % len(seeds)]
        try:
            columns = MAP if name == "t.csv" else None
            frame = annotations.read(put(_mangled(text.encode(), dice), name), size=(100, 50), columns=columns)
            tables.validate(frame, "annotations")
            left_out(frame)
            outcomes.add("table")
        except ReefcoreError as error:
            assert str(error).endswith(".") and "\n" not in str(error)
            outcomes.add("sentence")
    assert outcomes == {"table", "sentence"}


@pytest.mark.skipif(not REAL.exists(), reason="the real files are not here")
def test_every_row_of_the_real_files_is_counted():
    entries = annotations.check([*sorted((REAL / "annotations").iterdir()), REAL / "cpce"], size=(1360, 1024))
    assert all(entry["rows"] == entry["read"] + sum(entry["left_out"].values()) for entry in entries)
    refused = [Path(entry["file"]).stem for entry in entries if entry["refused"]]
    assert all("labelset" in name or "metadata" in name for name in refused)
    cpce = entries[-1]
    assert (cpce["images"], cpce["read"]) == (6, 300)
