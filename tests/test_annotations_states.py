"""States in which held exports come: thousands, worksheets, what R and Excel leave, dialects of .cpc, other tables."""

import datetime

import openpyxl
import pytest

from reefcore import annotations
from reefcore.errors import ReefcoreError

HEADER = ["Name", "Row", "Column", "Label"]


def workbook(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def points_of(frame):
    assert frame.attrs["rows"] == frame.attrs["read"] + sum(frame.attrs["left_out"].values())
    return list(frame[["image", "row", "column", "label_raw"]].itertuples(index=False, name=None))


def said(frame):
    return frame.attrs["problems"]["problem"].tolist()


@pytest.mark.parametrize("dialect", ['a,"1,250","1,000",P', "a;1.250;1.000;P"])
def test_thousands_beside_smaller_numbers_are_read_and_said(put, dialect):
    mark = dialect[1]
    frame = annotations.read(put(f"{mark.join(HEADER)}\n{dialect}\na{mark}10{mark}20{mark}S\n"))
    assert points_of(frame) == [("a", 1250, 1000, "P"), ("a", 10, 20, "S")]
    assert "read with a sign between thousands, as 1250" in said(frame)[0]


def test_a_thousand_that_may_be_one_is_left_out_and_decimals_of_zeros_are_whole(put):
    frame = annotations.read(put('Name,Row,Column,Label\na,"1,000",5,P\na,1500,20,S\n'))
    assert points_of(frame) == [("a", 1500, 20, "S")] and frame.attrs["left_out"] == {"no usable row": 1}
    assert "thousands, or decimals?" in said(frame)[0]
    assert points_of(annotations.read(put("Name,Row,Column,Label\na,1.000,20.000,P\n"))) == [("a", 1, 20, "P")]


def test_what_excel_leaves_of_a_label_is_no_label(put):
    frame = annotations.read(put("Name,Row,Column,Label\na,1,2,#NAME?\na,1,3,nan\na,1,4,NA\n"))
    assert points_of(frame) == [("a", 1, 4, "NA")] and frame.attrs["left_out"] == {"no label": 2}


def test_bars_between_values_and_blanks(put):
    assert points_of(annotations.read(put("Name|Row|Column|Label\na|1|2|P\n"))) == [("a", 1, 2, "P")]
    with pytest.raises(ReefcoreError, match=r"write\.csv"):
        annotations.read(put('"Name" "Row" "Column" "Label"\n"1" "a" 1 2 "P"\n'))


def test_worksheets_with_the_same_columns_are_one_table_and_others_are_said(tmp_path):
    day = datetime.datetime(2018, 5, 2)
    path = workbook(
        tmp_path / "reef.xlsx",
        read_me=[["About"], ["x", "y"]],
        T1=[[*HEADER, "Date"], ["a", 1, 2, "P", day]],
        T2=[["Transect 2"], [*HEADER, "Date"], ["b", 3, 4, "S", day]],
    )
    frame = annotations.read(path)
    assert points_of(frame) == [("a", 1, 2, "P"), ("b", 3, 4, "S")] and set(frame["date"]) == {"2018-05-02"}
    assert any("'read_me' (2 rows) has other columns" in text for text in said(frame))
    assert any(text.startswith("also read") and "T2" in text for text in said(frame))


def test_a_workbook_under_another_ending_is_read_and_an_empty_one_named(tmp_path):
    path = workbook(tmp_path / "reef.xlsx", T1=[HEADER, ["a", 1, 2, "P"]])
    assert points_of(annotations.read(path.rename(tmp_path / "reef.csv"))) == [("a", 1, 2, "P")]
    with pytest.raises(ReefcoreError, match="this workbook is empty"):
        annotations.read(workbook(tmp_path / "none.xlsx", T1=[]))


def cpc(labels, points="1500,750\r\n", size="60000,45000", comma=","):
    first = comma.join(['"C:\\codes.txt"', '"C:\\x\\a.jpg"', size, "14400,10800"])
    return "\r\n".join([first, "0,0", "0,0", "0,0", "0,0", "1"]) + "\r\n" + points + labels + "\r\n"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (cpc('"1","POR"'), None),
        (cpc('"1", "POR", "Notes", "dead"', comma=", "), "dead"),
        (cpc('"1","POR","Notes","6" piece"'), None),
        (cpc('"1","POR","Notes",""', points="1500,2,750,1\r\n"), None),
    ],
)
def test_dialects_of_cpc(put, text, note):
    frame = annotations.read(put(text, "a.cpc"))
    assert points_of(frame) == [("a.jpg", 50, 100, "POR")]
    assert note is None or frame["notes"].tolist() == [note]


def test_what_macos_adds_to_a_folder_of_cpc_is_not_read(put, tmp_path):
    put(cpc('"1","POR","Notes",""'), "a.cpc")
    put(b"\0\5\x16\7", "._a.cpc")
    frame = annotations.read(tmp_path)
    assert len(frame) == 1 and said(frame) == []


def test_reefcloud_rewritten_by_r_has_dates_and_no_labels_na(put):
    header = '"image_name","survey_start_date..UTC.","point_human_classification","point_machine_classification"'
    row = '"a.jpg","2020-05-01 00:00:00",NA,"HC","7, 9"'
    frame = annotations.read(put(f'{header},"point_coordinate"\n{row}\n'))
    assert points_of(frame) == [("a.jpg", 9, 7, "HC")]
    assert (frame["date"].tolist(), frame["labelled_by"].tolist()) == (["2020-05-01"], ["machine"])


def test_reefcloud_with_x_and_y_apart_and_without_any(put):
    frame = annotations.read(put("image_name,pointx,pointy,point_human_classification\na,7.9,9,HC\n"))
    assert points_of(frame) == [("a", 9, 7, "HC")]
    with pytest.raises(ReefcoreError, match="ReefCloud export of points but lacks the column point_coordinate"):
        annotations.read(put("image_name,point_id,point_human_classification\na,7,HC\n"))


def test_squidle_with_translated_labels_only_and_a_point_on_the_rim(put):
    frame = annotations.read(
        put("label.translated.name,point.x,point.y,point.media.key\nSand,1.0000001,0.5,a\nKelp,NaN,nan,a\n"),
        size=(8, 4),
    )
    assert points_of(frame) == [("a", 2, 7, "Sand")] and len(frame.attrs["left_out"]) == 1


def test_percent_covers_with_percent_signs_and_two_images_of_one_name(put):
    path = put("Image ID,Image name,Annotation status,Points,P,S\n1,a,Confirmed,2,50%,50%\n2,a,Confirmed,2,100 %,0\n")
    covers = annotations.read_covers(path)
    assert covers["unit"].unique().tolist() == ["1/a", "2/a"] and covers["percent"].tolist() == [50, 50, 100, 0]
    assert covers["count"].tolist() == [1, 1, 2, 0] and len(said(covers)) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\ufeff", "this file is empty"),
        (",,,\n,,\n", "this file is empty"),
        ("a.jpg,1,2,P\na.jpg,3,4,S\n", "its first line seems to hold data"),
        ('"Name,Row,Column,Label"\n"a,1,2,P"\n', "each line is one value in quotes"),
        ('2\n"C","CORAL"\n"POR","Porites","C"\n', "a CPCe code file"),
        ("Site *,Management *,Sample date: Year *,Fish name *\nS,M,2020,x\n", "a MERMAID table of another kind"),
        ("Site *,Benthic attribute *,Growth form,Normal,Pale\nS,P,,1,2\n", "a MERMAID table of another kind"),
        ("TagLab Id,TagLab Class name,TagLab Centroid x\n1,P,2\n", "a table of regions that TagLab exported"),
        ("annotation_id,shape_name,label_names,annotation_area_sqm\n1,Circle,P,\n", "a BIIGLE report of areas"),
        ('{"images": [], "annotations": []}', "export the annotations as CSV instead"),
    ],
)
def test_a_refusal_says_what_it_is_and_what_helps(put, text, sentence):
    with pytest.raises(ReefcoreError, match=sentence):
        annotations.read(put(text))


def test_blanks_before_quotes_and_a_line_break_in_a_column_name(put):
    frame = annotations.read(put('Name, "Height\n(cm)", Row, Column, Label\n"a, b", 3, 1, 2, "Sand, fine"\n'))
    assert points_of(frame) == [("a, b", 1, 2, "Sand, fine")] and frame["height_cm"].tolist() == ["3"]


def test_the_toolbox_says_who_labelled_and_may_have_short_codes_only(put):
    rows = "a,1,2,224,POR,Porites,TRUE\na,3,4,224,SND,Sand,FALSE\n"
    frame = annotations.read(put(f"Name,Row,Column,Patch Size,Short Code,Long Code,Verified\n{rows}"))
    assert points_of(frame) == [("a", 1, 2, "POR"), ("a", 3, 4, "SND")]
    assert annotations.labelled_by(frame).tolist() == ["person", "machine"]


def test_positions_that_are_no_pixels_are_explained_once(put):
    assert "parts of a photo" in said(annotations.read(put("Name,Row,Column,Label\na,0.5,0.2,P\n")))[0]
    frame = annotations.read(put("Name,Row,Column,Label\na,10.5,2,P\na,11.5,2,P\na,10,2,P\n"))
    assert "2 rows lie between two pixels" in said(frame)[0] and len(points_of(frame)) == 1


def test_a_score_under_a_torn_title_is_one(put):
    frame = annotations.read(put('filename,row,column,sco"re,label_code\na,1,2,0.1,P\na,1,2,0.9,S\n'))
    assert points_of(frame) == [("a", 1, 2, "S")]


def test_mermaid_rewritten_by_r_has_no_growth_form_na(put):
    header = "site,management,sample_date,depth,transect_number,label,benthic_attribute,growth_form,interval"
    covers = annotations.read_covers(put(f"{header}\nS,M,2020-01-02,NA,1,NA,Sand,NA,0.5\n"))
    assert covers["label_raw"].tolist() == ["Sand"] and covers["transect"].tolist() == ["1"]
    assert covers[["depth", "life_form"]].isna().all(axis=None)


def test_a_proposed_column_map_can_be_given_as_it_stands(put):
    path = put("Image,X,Y,Taxon\na,1,2,P\n")
    with pytest.raises(ReefcoreError) as error:
        annotations.read(path)
    proposed = str(error.value)[str(error.value).index("{") :].rstrip(".")
    assert points_of(annotations.read(path, columns=proposed)) == [("a", 2, 1, "P")]
    with pytest.raises(ReefcoreError, match="cannot be read"):
        annotations.read(path, columns="{image: [")
