"""CoralNet files in all their states: each test writes the bytes of one oddity, then looks at rows and problems."""

import random
import zipfile

import openpyxl
import pandas as pd
import pytest

from reefcore import annotations, files, tables
from reefcore.annotations import points, sheet
from reefcore.errors import ReefcoreError

SHORT = "Name,Row,Column,Label\na.jpg,1,20,POR\na.jpg,30,4,SAND\nb.jpg,0,7,POR\n"
FULL = (
    "Name,Date,Site,Aux2,Height (cm),Latitude,Longitude,Depth,Camera,Photographer,Comments,Row,Column,Label,Annotator,"
    "Date annotated,Machine suggestion 1,Machine confidence 1\n"
    'a.jpg,2020-01-02,North,,40,-17.5,149.75,5-8 m,,Jane Doe,"one, two",10,20,POR,Jane Doe,'
    "2020-09-13 05:20:27+00:00,POR,81\n"
    "a.jpg,2020-01-02,North,,40,-17.5,149.75,5-8 m,,Jane Doe,,11,21,*MOEN,robot,,,\n"
    "b.jpg,2020-01-02,North,,40, ,,,,,,12,22,POR,Imported,,POR,7\n"
)


def said(frame):
    """List the problems of a table that was read."""
    table = frame.attrs["problems"]
    return [(None if pd.isna(line) else line, column, text) for line, column, text in table.itertuples(index=False)]


def points_of(frame):
    return list(frame[["image", "row", "column", "label_raw"]].itertuples(index=False, name=None))


EXPECTED = [("a.jpg", 1, 20, "POR"), ("a.jpg", 30, 4, "SAND"), ("b.jpg", 0, 7, "POR")]


def test_a_short_export_becomes_the_annotations_table(put):
    frame = annotations.read(put(SHORT))
    assert points_of(frame) == EXPECTED
    assert list(frame) == list(tables.COLUMNS["annotations"])
    assert frame["source"].tolist() == ["reef"] * 3
    assert frame.attrs["format"] == "coralnet" and frame.attrs["rows"] == 3 and said(frame) == []
    assert frame["annotation_id"].tolist() == tables.annotation_ids(frame).tolist()
    assert frame["row"].dtype == "int64" and frame["label"].isna().all()


def test_ids_do_not_depend_on_how_a_whole_number_is_written(put):
    plain = annotations.read(put(SHORT), source="S")
    floats = annotations.read(
        put(SHORT.replace(",20,", ",20.0,").replace("30,4", "30.0,4.0"), "floats.csv"), source="S"
    )
    broken = annotations.read(put(SHORT + "b.jpg,x,1,POR\n", "broken.csv"), source="S")
    assert plain["annotation_id"].tolist() == floats["annotation_id"].tolist() == broken["annotation_id"].tolist()


def test_a_full_export_keeps_its_further_columns_and_hides_people(put):
    path = put(FULL)
    frame = annotations.read(path)
    assert said(frame) == []
    assert frame["label_raw"].tolist() == ["POR", "*MOEN", "POR"]
    assert frame["latitude"].tolist()[:2] == [-17.5, -17.5] and pd.isna(frame["latitude"][2])
    assert frame["longitude"].tolist()[:2] == [149.75, 149.75] and pd.isna(frame["longitude"][2])
    assert frame["annotator"].tolist() == [points.pseudonym("Jane Doe"), "robot", "Imported"]
    assert frame["annotator"].str.fullmatch(r"person-[0-9a-f]{8}|robot|Imported").all()
    assert frame["photographer"][0] == points.pseudonym("jane doe") and pd.isna(frame["photographer"][2])
    assert frame["machine_confidence_1"][0] == 81.0 and frame["machine_confidence_1"].dtype == "float64"
    assert frame["comments"][0] == "one, two" and frame["depth_in_file"][0] == "5-8 m" and frame["depth"].isna().all()
    assert {"height_cm", "date_annotated", "machine_suggestion_1", "site", "aux2"} <= set(frame)
    assert annotations.read(path, names=True)["annotator"].tolist() == ["Jane Doe", "robot", "Imported"]


def test_a_position_that_cannot_be_used_is_left_empty_and_the_point_stays(put):
    text = FULL.replace("40,-17.5,149.75", "40,17 S,190")
    frame = annotations.read(put(text))
    assert len(frame) == 3 and frame["latitude"].isna().all() and frame["longitude"].isna().all()
    assert said(frame) == [
        (2, "Latitude", "'17 S' is not in decimal degrees, left empty (2 rows)"),
        (2, "Longitude", "'190' must be between -180 and 180, left empty (2 rows)"),
    ]


@pytest.mark.parametrize(
    ("header", "row", "label"),
    [
        ("Name,Row,Column,Label code", "a.jpg,1,2,POR", "POR"),
        ("Name,Row,Column,Label code,Label ID", "a.jpg,1,2,POR,171", "171"),
        ("Name,Row,Column,Label ID,Label code", "a.jpg,1,2,171.0,POR", "171"),
        ("Name,Row,Column,Label code,Label ID", "a.jpg,1,2,POR,", "POR"),
        ("Name,Row,Column,Label,Label ID", "a.jpg,1,2,POR,171", "171"),
    ],
)
def test_the_label_id_wins_over_the_code(put, header, row, label):
    frame = annotations.read(put(f"{header}\n{row}\n"))
    assert frame["label_raw"].tolist() == [label] and said(frame) == []
    if "Label ID" in header and "code" in header:
        assert frame["label_code"].tolist() == ["POR"] and "label_id" in frame


R_FILE = (
    '"","Name","Height..cm.","Row","Column","Label","Machine.suggestion.1"\n'
    '"1","a.jpg",NA,1,20,"X.MOEN",NA\n"2","a.jpg",40,2,21,"A.B",NA\n"3","b.jpg",NA,3,22,"X.MOEN",NA\n'
    '"4","b.jpg",NA,4,23,NA,NA\n'
)


def test_a_file_saved_again_by_r(put):
    frame = annotations.read(put(R_FILE))
    assert points_of(frame) == [("a.jpg", 1, 20, "X.MOEN"), ("a.jpg", 2, 21, "A.B"), ("b.jpg", 3, 22, "X.MOEN")]
    assert list(frame)[len(tables.COLUMNS["annotations"]) :] == ["height_cm", "machine_suggestion_1"]
    assert frame["height_cm"].isna().tolist() == [True, False, True]
    assert said(frame) == [
        (
            2,
            "Label",
            "'X.MOEN' looks rewritten by R, perhaps from '*MOEN'; unmangle=True restores it (2 rows)",
        ),
        (3, "Label", "'A.B' looks rewritten by R, perhaps from 'A-B'; unmangle=True restores it"),
        (5, "Label", "is empty"),
    ]


def test_labels_that_r_rewrote_are_restored_only_when_asked(put):
    frame = annotations.read(put(R_FILE), unmangle=True)
    assert frame["label_raw"].tolist() == ["*MOEN", "A-B", "*MOEN"]
    assert said(frame)[0] == (2, "Label", "'X.MOEN' was read as '*MOEN' (2 rows)")


def test_a_dot_in_a_label_is_not_suspicious_where_r_had_no_hand(put):
    frame = annotations.read(put("Name,Row,Column,Label\na.jpg,1,2,C.carnea\na.jpg,1,3,NA\na.jpg,1,4,X.MOEN\n"))
    assert frame["label_raw"].tolist() == ["C.carnea", "NA", "X.MOEN"]
    assert [(line, column) for line, column, _ in said(frame)] == [(4, "Label")]


def test_an_index_without_dots_still_tells_r(put):
    frame = annotations.read(put('"","Name","Row","Column","Label"\n"1","a.jpg",1,2,"A.B"\n"2","a.jpg",NA,2,"A.B"\n'))
    assert points_of(frame) == [("a.jpg", 1, 2, "A.B")] and "unnamed_1" not in frame
    assert (3, "Row", "is empty") in said(frame)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"], ids=["LF", "CRLF", "CR", "CRCRLF"])
def test_lines_are_counted_whatever_ends_them(put, end):
    text = SHORT.replace("a.jpg,30,4,SAND", "a.jpg,30,4\na.jpg,30,4,SAND\n\na.jpg,-1,4,SAND").replace("\n", end)
    frame = annotations.read(put(text))
    assert points_of(frame) == EXPECTED
    assert said(frame) == [
        (3, "", "has 3 values where the header has 4 columns"),
        (5, "", "1 blank row, which is not counted as data"),
        (6, "Row", "'-1' must be at least 0"),
    ]
    assert frame.attrs["rows"] == 5


def test_line_ends_across_the_pieces_a_file_is_read_in(put, monkeypatch):
    path = put(SHORT.replace("\n", "\r\n") + "b.jpg,x,1,POR\r\n")
    for size in range(1, 40):
        monkeypatch.setattr(sheet, "HEAD", size)
        assert list(sheet.lines_of(path, "utf-8"))[-1] == "b.jpg,x,1,POR"
        assert len(list(sheet.lines_of(path, "utf-8"))) == 5
        assert sheet.scan(path) == sheet.Scan("utf-8-sig", "", 5, True)


@pytest.mark.parametrize(
    ("encoding", "label", "name"),
    [("mac_roman", "Anémone", "Mac Roman"), ("cp1252", "Anémone à bulles", "Windows-1252")],
)
def test_old_encodings_are_told_apart_and_said(put, encoding, label, name):
    frame = annotations.read(put(SHORT.replace("SAND", label).encode(encoding)))
    assert frame["label_raw"].tolist() == ["POR", label, "POR"]
    assert said(frame) == [(None, "", f"the text is not UTF-8; it was read as {name} (for example {label!r})")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_the_first_name(put, encoding):
    frame = annotations.read(put(SHORT.replace("SAND", "Anémone").encode(encoding)))
    assert frame["label_raw"].tolist() == ["POR", "Anémone", "POR"] and said(frame) == []


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(put, delimiter):
    assert points_of(annotations.read(put(SHORT.replace(",", delimiter)))) == EXPECTED


def test_a_trailing_comma_and_empty_extras_are_accepted_and_others_are_not(put):
    text = (
        SHORT.replace("Label\n", "Label,\n").replace("POR\n", "POR,\n").replace("SAND", "SAND,,,")
        + "b.jpg,1,2,POR,,x\n"
    )
    frame = annotations.read(put(text))
    assert points_of(frame) == EXPECTED and "unnamed_5" not in frame
    assert said(frame) == [(5, "", "has 6 values where the header has 5 columns")]
    frame = annotations.read(put(SHORT.replace("Label\n", "Label,\n"), "short.csv"))
    assert points_of(frame) == EXPECTED and said(frame) == []


def test_blank_rows_are_counted_and_are_no_data(put):
    text = "\n" + SHORT.replace("a.jpg,30", ",,,\n\n , ,\t,\na.jpg,30") + "\n,,,\n\n"
    frame = annotations.read(put(text))
    assert points_of(frame) == EXPECTED and frame.attrs["rows"] == 3
    assert said(frame) == [(4, "", "3 blank rows, which are not counted as data")]


def test_an_unclosed_quotation_mark_costs_one_line(put):
    many = "".join(f"c.jpg,{i},1,POR\n" for i in range(100))
    frame = annotations.read(put(SHORT.replace("a.jpg,30", '"a.jpg,30') + many))
    assert len(frame) == 102
    assert said(frame) == [(3, "", "a quotation mark is never closed, or stands inside a quoted value")]
    closed = annotations.read(
        put('Name,Row,Column,Label\na.jpg,1,2,"A"B\na.jpg,1,12" frame,C\na.jpg,3,4,"D"\n', "q.csv")
    )
    assert points_of(closed) == [("a.jpg", 3, 4, "D")]
    assert [line for line, *_ in said(closed)] == [2, 3]


def test_a_value_over_two_lines_is_one_value(put):
    text = 'Name,Comments,Row,Column,Label\na.jpg,"first\nsecond",1,2,POR\na.jpg,,x,2,POR\n'
    frame = annotations.read(put(text))
    assert frame["comments"].tolist() == ["first\nsecond"]
    assert said(frame) == [(4, "Row", "'x' is not a whole number of pixels")]


def test_a_first_header_of_one_space(put):
    frame = annotations.read(put(SHORT.replace("Name", " ")))
    assert points_of(frame) == EXPECTED
    assert said(frame) == [(None, "", "the first column has no name; it was taken for the image names")]
    indexed = annotations.read(put(" ,Name,Row,Column,Label\n0,a.jpg,1,2,POR\n1,a.jpg,3,4,NA\n", "indexed.csv"))
    assert points_of(indexed) == [("a.jpg", 1, 2, "POR"), ("a.jpg", 3, 4, "NA")] and said(indexed) == []
    later = annotations.read(put("Name,,Row,Column,Label\na.jpg,1,1,2,A.B\na.jpg,2,3,4,NA\n", "later.csv"))
    assert later["unnamed_2"].tolist() == ["1", "2"] and later["label_raw"].tolist() == ["A.B", "NA"]
    kept = annotations.read(put(" ,Name,Row,Column,Label\nx,a.jpg,1,2,POR\nx,a.jpg,3,4,POR\n", "kept.csv"))
    assert kept["unnamed_1"].tolist() == ["x", "x"]


def test_columns_added_by_hand_never_break_the_table(put):
    text = (
        "Name,Reef Zone,Source,Rank,Condition,Label.1,label-1,Row,Column,Label\na.jpg,crest,,top,Bleached,u,v,1,2,POR\n"
    )
    frame = annotations.read(put(text + "a.jpg,crest,Other,top,,u,v,1,3,POR\n"))
    assert frame["source"].tolist() == ["reef", "Other"]
    assert frame["reef_zone"].tolist() == ["crest", "crest"] and frame["rank_in_file"].tolist() == ["top", "top"]
    assert frame["rank"].isna().all() and frame["condition"].isna().tolist() == [False, True]
    assert frame["label_1"].tolist() == ["u", "u"] and frame["label_1_2"].tolist() == ["v", "v"]
    assert annotations.read(put(text), source="Mine")["source"].tolist() == ["Mine"]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("", "is empty"),
        ("1.5", "'1.5' is not a whole number of pixels"),
        ("x", "'x' is not a whole number of pixels"),
        ("1_0", "'1_0' is not a whole number of pixels"),
        ("nan", "'nan' is not a whole number of pixels"),
        ("inf", "'inf' is not a whole number of pixels"),
        ("-3", "'-3' must be at least 0"),
        ("1e12", "'1e12' is larger than any image"),
    ],
)
def test_rows_without_a_pixel_are_left_out_and_named(put, value, sentence):
    frame = annotations.read(put(SHORT + f"b.jpg,{value},1,POR\n"))
    assert points_of(frame) == EXPECTED and said(frame) == [(5, "Row", sentence)]


def test_rows_without_image_or_label_are_left_out_and_named(put):
    frame = annotations.read(put(SHORT + ",1,1,\n"))
    assert points_of(frame) == EXPECTED and said(frame) == [(5, "Name", "is empty"), (5, "Label", "is empty")]


def test_a_header_without_points(put):
    frame = annotations.read(put("Name,Row,Column,Label\n"))
    assert len(frame) == 0 and said(frame) == [(None, "", "the file has a header and no points")]


def test_missing_columns_are_all_named(put):
    with pytest.raises(
        ReefcoreError, match="looks like a CoralNet annotations export but lacks the column Label; export"
    ):
        annotations.read(put("Name,Row,Column\na.jpg,1,2\n"))
    with pytest.raises(ReefcoreError, match="lacks the columns Row, Column, Label; "):
        annotations.read(put("Name,Colour\na.jpg,1\n"), format="coralnet")


API = (
    "\ufefffilename,point_number,row,column,score,label_id,label_code,processing_time\n"
    "a.png,1,10.0,20.0,0.2,171.0,POR,4.5\na.png,1,10.0,20.0,0.7,82.0,SAND,4.5\n,,,,,,,\n"
    "a.png,2,10,21,0.5,171,POR,4.5\na.png,2,10,21,0.5,82,SAND,4.5\nb.png,1,10,20,,171,POR,4.5\n"
)


def test_api_results_keep_the_best_answer_of_a_point(put):
    frame = annotations.read(put(API))
    assert frame.attrs["format"] == "coralnet-api" and frame.attrs["rows"] == 5
    assert points_of(frame) == [("a.png", 10, 20, "SAND"), ("a.png", 10, 21, "POR"), ("b.png", 10, 20, "POR")]
    assert frame["score"].tolist()[:2] == [0.7, 0.5] and pd.isna(frame["score"][2])
    assert frame["label_code"].tolist() == ["SAND", "POR", "POR"]
    assert said(frame) == [
        (None, "score", "2 lower-ranked answers of 2 points left out; the best score of each was kept"),
        (4, "", "1 blank row, which is not counted as data"),
    ]


def test_api_results_need_a_score(put):
    with pytest.raises(ReefcoreError, match="looks like a table of CoralNet API results but lacks the column score;"):
        annotations.read(put(SHORT), format="coralnet-api")


def workbook(path, rows, before=0):
    book = openpyxl.Workbook()
    if before:
        book.create_sheet("first", 0)  # an empty sheet is passed over
    for row in [[]] * before + rows:
        book["Sheet"].append(row)
    book.save(path)
    return path


ANNOTATOR = ["Name", "Row", "Column", "Label Code(abbreviation)", "Label Name", "Label Number", "Valid"]


def test_the_workbook_of_the_reefnet_annotator(tmp_path):
    rows = [ANNOTATOR, ["a.jpg", 201, 302, "POR", "Porites", 9, None], ["a.jpg", 201.0, 561, None, "Sand", 3, None]]
    path = workbook(tmp_path / "points.xlsx", [*rows, [], ["a.jpg", 1.5, 2, "POR", "Porites", 9, None]], before=2)
    frame = annotations.read(path)
    assert frame.attrs["format"] == "reefnet-annotator" and frame.attrs["rows"] == 3
    assert points_of(frame) == [("a.jpg", 201, 302, "POR"), ("a.jpg", 201, 561, "Sand")]
    assert frame["label_number"].tolist() == ["9", "3"] and frame["valid"].isna().all()
    assert said(frame) == [
        (6, "", "1 blank row, which is not counted as data"),
        (7, "Row", "'1.5' is not a whole number of pixels"),
    ]


def test_a_coralnet_export_saved_as_a_workbook(tmp_path):
    rows = [line.split(",") for line in SHORT.splitlines()]
    frame = annotations.read(workbook(tmp_path / "export.xlsx", rows))
    assert points_of(frame) == EXPECTED and frame.attrs["format"] == "coralnet"


def test_the_name_of_a_file_does_not_matter(put):
    assert points_of(annotations.read(put(SHORT, "reef.xlsx"))) == EXPECTED
    assert annotations.recognise(put(API, "reef.jpg")).name == "coralnet-api"


def test_a_format_can_be_forced_and_an_unknown_one_is_refused(put):
    forced = annotations.read(put(API), format="coralnet")
    assert forced.attrs["format"] == "coralnet" and forced["label_raw"].tolist() == ["171", "82", "171", "82", "171"]
    with pytest.raises(ReefcoreError, match="this json file is not a table of points; give a CSV or an xlsx"):
        annotations.read(put("[1]", "list.csv"), format="coralnet")
    with pytest.raises(
        ReefcoreError, match=r"'xml' is not a format that reefcore reads; use reefnet-al-wajh, reefnet-1.0, "
    ):
        annotations.read(put(SHORT), format="xml")
    with pytest.raises(ReefcoreError, match="base is 2"):
        annotations.read(put(SHORT), base=2)


def random_points(low, n=4000, size=500, seed=1):
    pixels = random.Random(seed)
    rows = (f"a.jpg,{pixels.randrange(size) + low},{pixels.randrange(size) + low},POR" for _ in range(n))
    return "Name,Row,Column,Label\n" + "\n".join(rows) + "\n"


def test_points_that_count_from_1_are_said_and_read_so_only_when_asked(put):
    path = put(random_points(1))
    frame = annotations.read(path)
    (problem,) = said(frame)
    assert problem[2].startswith("rows and columns seem to count from 1 (minimum row 1 and column 1 over 4,000 points")
    assert problem[2].endswith("; base=1 reads them so")
    shifted = annotations.read(path, base=1)
    assert (frame["row"] - shifted["row"]).eq(1).all() and (frame["column"] - shifted["column"]).eq(1).all()
    assert said(shifted) == said(annotations.read(path, base=0)) == []
    assert said(annotations.read(put(random_points(0), "zero.csv"))) == []
    zero = annotations.read(put("Name,Row,Column,Label\na.jpg,0,5,POR\na.jpg,1,5,POR\n", "z.csv"), base=1)
    assert len(zero) == 1 and said(zero) == [(2, "Row", "'0' must be at least 1")]


@pytest.mark.parametrize(
    ("n", "extent", "base"),
    [
        (5450, (1, 2250, 2, 3000), "1"),  # many points, one axis missed 1 by chance
        (5450, (0, 2250, 2, 3000), "0"),
        (5450, (1, 2250, 300, 2700), "unclear"),  # columns keep a margin: rows alone are no evidence at this n
        (50000, (1, 2250, 300, 2700), "1"),
        (20, (1, 2250, 1, 3000), "unclear"),
        (20000, (50, 1150, 50, 1150), "unclear"),  # a grid
        (20000, (2, 1150, 3, 1150), "unclear"),  # never 1 either
    ],
)
def test_the_base_is_judged_by_what_chance_allows(n, extent, base):
    assert points.base_of(n, *extent)[0] == base


def test_tables_that_were_read_can_be_joined_and_written(put, tmp_path):
    one, two = annotations.read(put(SHORT + ",,,x\n")), annotations.read(put(SHORT, "two.csv"))
    assert len(pd.concat([one, two])) == 6 and len(one.merge(one, on="annotation_id")) == 3
    assert pd.concat([one, one.copy()]).attrs["problems"].equals(one.attrs["problems"])
    files.write_parquet(one, tmp_path / "one.parquet")
    assert files.read_parquet(tmp_path / "one.parquet")["annotation_id"].tolist() == one["annotation_id"].tolist()


def test_check_gives_the_figures_and_all_problems(put, tmp_path):
    text = SHORT + "a.jpg,1,20,POR\nb.jpg,x,7,POR\n"
    (entry,) = annotations.check([put(text)])
    assert entry == {
        "file": str(tmp_path / "reef.csv"),
        "format": "coralnet",
        "refused": None,
        "rows": 5,
        "read": 4,
        "left_out": {"no usable row": 1},
        "kept": 4,
        "covers": False,
        "images": 2,
        "labels": 2,
        "row_range": [0, 30],
        "column_range": [4, 20],
        "base": "0",
        "base_evidence": "minimum row 0 and column 4 over 4 points",
        "points_per_image": [1, 2.0, 3],
        "duplicates": 1,
        "problems": [{"line": 6, "column": "Row", "problem": "'x' is not a whole number of pixels"}],
    }
    assert annotations.check_text(entry).splitlines() == [
        f"{entry['file']}: coralnet",
        "  5 rows, 2 images, 2 labels, 1 duplicate",
        "  1 to 3 points per image, median 2",
        "  rows 0 to 30, columns 4 to 20: counted from 0 (minimum row 0 and column 4 over 4 points)",
        "  left out: 1 (no usable row)",
        f"{entry['file']}:6: Row: 'x' is not a whole number of pixels",
        f"{entry['file']}: 4 of 5 rows kept.",
    ]


def test_check_writes_what_is_too_much_to_show(put, tmp_path):
    (entry,) = annotations.check([put(SHORT + "b.jpg,x,7,POR\n" * 30)])
    assert len(entry["problems"]) == 30
    lines = annotations.check_text(entry, tmp_path / "out").splitlines()
    assert lines[-2].endswith(f"10 more problems are listed in {tmp_path / 'out' / 'reef.csv.problems.csv'}.")
    rest = pd.read_csv(tmp_path / "out" / "reef.csv.problems.csv")
    assert rest["line"].tolist() == list(range(25, 35))


def test_check_goes_on_after_a_refused_file(put):
    empty, refused, good = annotations.check(
        [put("Name,Row,Column,Label\n", "e.csv"), put("a,b\n", "r.csv"), put(SHORT)]
    )
    assert (empty["kept"], empty["base"], empty["points_per_image"], empty["refused"]) == (0, None, None, None)
    assert annotations.check_text(empty).splitlines()[-1].endswith("0 of 0 rows kept.")
    assert refused["format"] is None and refused["rows"] == 0
    assert annotations.check_text(refused) == f"refused: {refused['refused']}"
    assert good["kept"] == 3
    both = annotations.check_text([refused, good])
    assert both == f"{annotations.check_text(refused)}\n\n{annotations.check_text(good)}"


def test_damaged_files_give_a_table_or_a_sentence(put, tmp_path):
    """Cut, shuffled and overwritten bytes never give another exception than ReefcoreError."""
    dice = random.Random(0)
    xlsx = workbook(tmp_path / "x.xlsx", [ANNOTATOR, ["a.jpg", 201, 302, "POR", "Porites", 9, None]]).read_bytes()
    seeds = [SHORT.encode(), FULL.encode("utf-8-sig"), R_FILE.encode(), API.encode(), SHORT.encode("utf-16"), xlsx]
    outcomes = set()
    for turn in range(120):
        data = bytearray(seeds[turn % len(seeds)])
        for _ in range(dice.randrange(1, 6)):
            place = dice.randrange(len(data)) if data else 0
            kind = dice.randrange(4)
            if kind == 0:
                del data[place:]
            elif kind == 1 and data:
                data[place] = dice.randrange(256)
            elif kind == 2:
                data[place:place] = dice.choice([b'"', b"\r", b"\n", b",", b"\0", b"\xff", b"'", b"1e400"])
            else:
                other = dice.randrange(place, len(data) + 1)
                data[place:other] = bytes(dice.sample(data[place:other], other - place))
        path = put(bytes(data))
        try:
            tables.validate(annotations.read(path), "annotations")
            outcomes.add("table")
        except ReefcoreError as error:
            assert str(error).endswith(".") and "\n" not in str(error)
            outcomes.add("sentence")
    assert outcomes == {"table", "sentence"}


def test_a_zip_of_a_coralnet_export_is_not_read_as_text(tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("annotations.csv", SHORT)
    for options in ({}, {"format": "coralnet"}):
        with pytest.raises(ReefcoreError, match="zip file"):
            annotations.read(tmp_path / "export.zip", **options)
