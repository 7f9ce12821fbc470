"""The released ReefNet files: DuckDB makes the same table, ids, lines and sentences as the other readers."""

import csv
import io
import random

import duckdb
import pandas as pd
import pytest

from reefcore import annotations, files, tables
from reefcore.annotations import points, reefnet, sheet
from reefcore.errors import ReefcoreError

HEADER = (
    "X,CoralNet_source,Image_name,Row,Column,CoralNet_label,CoralNet_label_short_code,Sorted_ReefNet_label,Broad_category,"
    "Condition_indication,Latitude,Longitude,Ecoregion,Province,Realm,Site note"
)
PLACE = "-17.5,149.75,Society Islands,Southeast Polynesia,Eastern Indo-Pacific"
ROWS = [
    f"1,Reef A,a.jpg,10,20,Porites (massive),PORm,Porites,Hard coral,Healthy,{PLACE},first",
    f"2,Reef A,a.jpg,11.0,21,Turf,TURF,Turf algae,Algae,NA,{PLACE},",
    f'3,"Reef A, B",b.jpg,0,5,NA,ACR,Acropora,Hard coral,Bleached,{PLACE},',
    "4,Curaçao,ç.jpg,7,8,Unsure,UNS,NA,NA,NA,NA,NA,NA,NA,NA,",
]
TEXT = "\n".join([HEADER, *ROWS]) + "\n"


@pytest.fixture
def put(put):
    return lambda content, name="all.csv": put(content, name)


def said(problems):
    return [(None if pd.isna(line) else line, column, text) for line, column, text in problems.itertuples(index=False)]


def test_the_released_columns_become_the_annotations_table(put):
    frame = annotations.read(put(TEXT))
    assert frame.attrs["format"] == "reefnet-1.0" and said(frame.attrs["problems"]) == []
    schema = list(tables.COLUMNS["annotations"])
    assert list(frame) == [*schema, "label_short_code", "site_note"]
    assert frame["source"].tolist() == ["Reef A", "Reef A", "Reef A, B", "Curaçao"]
    assert frame["image"].tolist() == ["a.jpg", "a.jpg", "b.jpg", "ç.jpg"]
    assert frame["row"].tolist() == [10, 11, 0, 7] and frame["column"].tolist() == [20, 21, 5, 8]
    assert frame["label_raw"].tolist() == ["Porites (massive)", "Turf", "ACR", "Unsure"]
    assert frame["label"].fillna("").tolist() == ["Porites", "Turf algae", "Acropora", ""]
    assert frame["condition"].fillna("").tolist() == ["Healthy", "", "Bleached", ""]
    assert frame["latitude"].tolist()[:3] == [-17.5] * 3 and frame["longitude"].isna().tolist() == [False] * 3 + [True]
    assert frame["realm"][0] == "Eastern Indo-Pacific" and frame["rank"].isna().all() and frame["aphia_id"].isna().all()
    assert frame["site_note"].fillna("").tolist() == ["first", "", "", ""]


def test_sql_gives_the_ids_of_the_tables_module(put):
    frame = annotations.read(put(TEXT))
    assert frame["annotation_id"].tolist() == tables.annotation_ids(frame).tolist()
    assert (
        frame["annotation_id"].tolist()
        == tables.complete(frame.drop(columns="annotation_id"))["annotation_id"].tolist()
    )


def test_convert_writes_the_same_table_and_the_same_bytes(put, tmp_path):
    path = put(TEXT)
    done = annotations.convert(path, tmp_path / "one.parquet", memory_limit="200MB", threads=1)
    again = annotations.convert(path, tmp_path / "two.parquet")
    assert {name: done[name] for name in ("format", "rows", "kept")} == {"format": "reefnet-1.0", "rows": 4, "kept": 4}
    assert len(done["problems"]) == len(again["problems"]) == 0
    assert files.sha256(tmp_path / "one.parquet") == files.sha256(tmp_path / "two.parquet")
    kept, problems = tables.check(files.read_parquet(tmp_path / "one.parquet"), "annotations")
    pd.testing.assert_frame_equal(kept, annotations.read(path), check_flags=False)
    assert len(problems) == 0
    assert sorted(child.name for child in tmp_path.iterdir()) == ["all.csv", "one.parquet", "two.parquet"]


BAD = [
    f"5,,a.jpg,x,21,Turf,TURF,Turf algae,Algae,NA,{PLACE},",
    "6,Reef A,a.jpg,-1,1.5,NA,NA,Turf algae,Algae,NA,95,north,a,b,c,",
]
SENTENCES = [
    (4, "CoralNet_source", "is empty"),
    (4, "Row", "'x' is not a whole number of pixels"),
    (6, "CoralNet_label", "is empty"),
    (6, "Row", "'-1' must be at least 0"),
    (6, "Column", "'1.5' is not a whole number of pixels"),
    (6, "Latitude", "'95' must be between -90 and 90"),
    (6, "Longitude", "'north' is not in decimal degrees"),
]


def test_bad_rows_are_listed_with_their_lines(put):
    path = put("\n".join([HEADER, *ROWS[:2], BAD[0], ROWS[2], BAD[1], ROWS[3]]) + "\n")
    frame = annotations.read(path)
    assert said(frame.attrs["problems"]) == SENTENCES and frame.attrs["rows"] == 6
    assert frame["image"].tolist() == ["a.jpg", "a.jpg", "b.jpg", "ç.jpg"]


def test_what_is_not_listed_is_counted(put, monkeypatch):
    monkeypatch.setattr(reefnet, "LISTED", 2)
    frame = annotations.read(put("\n".join([HEADER, ROWS[0], *[BAD[0]] * 5]) + "\n"))
    problems = said(frame.attrs["problems"])
    assert [line for line, *_ in problems] == [None, 3, 3, 4, 4] and len(frame) == 1
    assert problems[0][2] == "3 more rows were left out, not listed here"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"], ids=["LF", "CRLF", "CR", "CRCRLF"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "mac_roman"])
def test_line_ends_and_encodings_change_nothing(put, end, encoding):
    text = "\n".join([HEADER, *ROWS[:2], BAD[0], ROWS[2], BAD[1], ROWS[3]]) + "\n"
    frame = annotations.read(put(text.replace("\n", end).encode(encoding)))
    problems = said(frame.attrs["problems"])
    assert [problem for problem in problems if problem[0]] == SENTENCES
    assert frame["source"].tolist() == ["Reef A", "Reef A", "Reef A, B", "Curaçao"]
    old = {"cp1252": "Windows-1252", "mac_roman": "Mac Roman"}.get(encoding)
    assert [text for line, _, text in problems if line is None] == (
        [f"the text is not UTF-8; it was read as {old} (for example 'Curaçao')"] if old else []
    )


def test_ragged_rows_cost_themselves_and_nothing_else(put):
    odd = [
        "short,row",
        "",
        ROWS[1] + "x,y,z",
        ROWS[1] + ",,",
        ROWS[1].replace("Turf,", '"Turf,', 1),
        ROWS[1].replace("Turf,", '"Turf\nalgae",', 1),
        "," * HEADER.count(","),
    ]
    frame = annotations.read(put("\n".join([HEADER, ROWS[0], *odd, BAD[0], ROWS[2]]) + "\n"))
    assert frame["label_raw"].tolist() == ["Porites (massive)", "Turf", "Turf\nalgae", "ACR"]
    assert said(frame.attrs["problems"]) == [
        (3, "", "has 2 values where the header has 16 columns"),
        (4, "", "1 blank row, which is not counted as data"),
        (5, "", "has 18 values where the header has 16 columns"),
        (7, "", "a quotation mark is never closed, or stands inside a quoted value"),
        (10, "", "1 blank row, which is not counted as data"),
        (11, "CoralNet_source", "is empty"),
        (11, "Row", "'x' is not a whole number of pixels"),
    ]
    assert frame.attrs["rows"] == 8


def test_both_ways_of_reading_agree_on_random_files(put, monkeypatch):
    """A plain file gives the same table and problems through DuckDB alone and when it is rewritten first."""
    dice = random.Random(0)
    pools = [
        ["1"], ["S", "T, U", 'q"q', "", " S "], ["a.jpg", "b.jpg", "NA"], ["0", "7", "7.0", "-1", "x", "1e2", "", " 5"],
        ["0", "3", "1.5", "inf", "99999999999"], ["Porites", "NA", ""], ["POR", ""], ["Porites", "NA"], ["Hard coral"],
        ["NA", "Dead"], ["1.5", "NA", "91", "x"], ["150", "", "-181"], ["e"], ["p"], ["r"], ["", "note"],
    ]  # fmt: skip
    for turn in range(5):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEADER.split(","))
        writer.writerows([dice.choice(pool) for pool in pools] for _ in range(200))
        path = put(text.getvalue(), f"{turn}.csv")
        plain = annotations.read(path)
        with monkeypatch.context() as patch:
            patch.setattr(reefnet, "_convert_plain", lambda *_: None)
            rewritten = annotations.read(path)
        assert 0 < len(plain) < 200
        pd.testing.assert_frame_equal(plain, rewritten)


def test_missing_columns_are_named(put):
    text = "\n".join(",".join(line.split(",")[:8]) for line in TEXT.splitlines()[:3]) + "\n"
    frame = annotations.read(put(text))
    assert len(frame) == 2 and frame["province"].isna().all()
    missing = ["Broad_category", "Condition_indication", "Latitude", "Longitude", "Ecoregion", "Province", "Realm"]
    assert said(frame.attrs["problems"]) == [
        (1, name, "this column of ReefNet-1.0 is not in the file; left empty") for name in missing
    ]
    with pytest.raises(
        ReefcoreError, match=r"looks like ReefNet-1.0 but lacks the columns CoralNet_source, Row, CoralNet_label;"
    ):
        annotations.read(put("Image_name,Column,Sorted_ReefNet_label\na.jpg,1,Porites\n"))
    frame = annotations.read(
        put("Image_name,Row,Column,CoralNet_label,Sorted_ReefNet_label\na.jpg,1,2,P,Porites\n"), source="S"
    )
    assert frame["source"].tolist() == ["S"]


def test_the_al_wajh_file(put):
    frame = annotations.read(
        put("Image,Row,Column,Our_Labels,Depth\na.jpg,1,2,Porites,5 m\na.jpg,3,4,,\n", "alwajh.csv")
    )
    assert frame.attrs["format"] == "reefnet-al-wajh"
    assert frame[["source", "image", "row", "column", "label_raw", "label", "depth"]].values.tolist() == [
        ["alwajh", "a.jpg", 1, 2, "Porites", "Porites", "5 m"]
    ]
    assert said(frame.attrs["problems"]) == [(3, "Our_Labels", "is empty")]
    with pytest.raises(ReefcoreError, match="the Al-Wajh file of ReefNet but lacks the column image;"):
        annotations.read(put("Row,Column,Our_Labels\n1,2,Porites\n"))


def test_names_of_columns_and_sources_never_break_the_query(put):
    header = HEADER.replace("Site note", '"it\'s a ""note"""').replace("X,", "C1,", 1)
    frame = annotations.read(put("\n".join([header, *ROWS]) + "\n", "it's.csv"), source="O'Neil")
    assert set(frame["source"]) == {"O'Neil"} and frame["c1"].tolist() == ["1", "2", "3", "4"]
    assert frame["it_s_a_note"][0] == "first"
    twice = annotations.read(put(TEXT.replace("X,", "Site-note,", 1)))
    assert twice["site_note"].tolist() == ["1", "2", "3", "4"] and twice["site_note_16"][0] == "first"


def test_people_are_hidden_as_by_the_other_readers(put):
    path = put(TEXT.replace("Site note", "Annotator").replace("first", "Jane  DOE") + ROWS[0].replace("first", "robot"))
    frame = annotations.read(path)
    assert frame["annotator"].dropna().tolist() == [points.pseudonym("jane doe"), "robot"]
    assert annotations.read(path, names=True)["annotator"].dropna().tolist() == ["Jane  DOE", "robot"]


def test_numbers_that_only_python_knows_are_not_lost_in_silence(put):
    frame = annotations.read(put("\n".join([HEADER, ROWS[0], ROWS[1].replace(",11.0,", ",１１,")]) + "\n"))
    assert len(frame) == 1 and said(frame.attrs["problems"]) == [(3, "", "cannot be read")]


def test_duckdb_shows_no_progress(tmp_path):
    with reefnet.database_in(tmp_path) as database:
        assert database.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)


def test_the_base_is_said_and_subtracted_when_asked(put):
    dice = random.Random(2)
    rows = "".join(f"S,a.jpg,{dice.randrange(1, 200)},{dice.randrange(1, 200)},P,Porites\n" for _ in range(3000))
    path = put("CoralNet_source,Image_name,Row,Column,CoralNet_label,Sorted_ReefNet_label\n" + rows)
    frame, shifted = annotations.read(path), annotations.read(path, base=1)
    assert said(frame.attrs["problems"])[0][2].startswith("rows and columns seem to count from 1 (")
    assert (frame["row"] - shifted["row"]).eq(1).all() and shifted["column"].min() == 0
    (entry,) = annotations.check([path])
    assert entry["base"] == "1" and "never 0; the chance of that is under 0.1%" in entry["base_evidence"]


def test_check_reads_any_size(put, monkeypatch):
    monkeypatch.setattr(reefnet, "LIMIT", 10)
    path = put("\n".join([HEADER, *ROWS, ROWS[0], BAD[0]]) + "\n")
    (entry,) = annotations.check([path])
    assert (entry["format"], entry["rows"], entry["kept"], entry["images"], entry["labels"]) == (
        "reefnet-1.0",
        6,
        5,
        3,
        4,
    )
    assert entry["duplicates"] == 1 and entry["points_per_image"] == [1, 1.0, 3]
    assert [problem["line"] for problem in entry["problems"]] == [7, 7]
    with pytest.raises(
        ReefcoreError, match=r"too large to be read into memory as one table; turn it into Parquet with "
    ):
        annotations.read(path)


def test_a_header_without_rows(put):
    frame = annotations.read(put(HEADER + "\n"))
    assert len(frame) == 0
    assert said(frame.attrs["problems"]) == [(None, "", "the file has a header and no points")]


def test_convert_refuses_other_files_and_too_little_memory(put, tmp_path):
    with pytest.raises(ReefcoreError, match=r"this is not a ReefNet file; read it with reefcore.annotations.read"):
        annotations.convert(put("Name,Row,Column,Label\na,1,2,P\n"), tmp_path / "out.parquet")
    with pytest.raises(ReefcoreError, match=r"DuckDB could not convert this file \(.*\); raise memory_limit"):
        annotations.convert(put(TEXT), tmp_path / "out.parquet", memory_limit="1KB")
    assert not (tmp_path / "out.parquet").exists()


def test_damaged_files_give_a_table_or_a_sentence(put):
    """Cut, shuffled and overwritten bytes never give another exception than ReefcoreError."""
    dice, outcomes = random.Random(0), set()
    for _ in range(40):
        data = bytearray(TEXT.encode())
        for _ in range(dice.randrange(1, 5)):
            place = dice.randrange(len(data)) if data else 0
            other = dice.randrange(place, len(data) + 1)
            change = dice.randrange(3)
            if change == 0:
                data[place:other] = bytes(dice.sample(data[place:other], other - place))
            elif change == 1:
                del data[place:]
            else:
                data[place:place] = dice.choice([b'"', b"\r", b"\n", b",", b"\xff", b"'"])
        try:
            tables.validate(annotations.read(put(bytes(data))), "annotations")
            outcomes.add("table")
        except ReefcoreError as error:
            assert str(error).endswith(".")
            outcomes.add("sentence")
    assert outcomes == {"table", "sentence"}


def test_the_pieces_a_large_file_is_scanned_in(put, monkeypatch):
    path = put(TEXT.replace("\n", "\r\n"))
    for size in (1, 7, 64):
        monkeypatch.setattr(sheet, "HEAD", size)
        assert sheet.scan(path) == sheet.Scan("utf-8-sig", "", 5, True, True)


def test_duckdb_spills_beside_the_result_only_while_it_works(put, tmp_path):
    rows = ",".join(["'S' AS CoralNet_source", "'a' || i // 10 AS Image_name", "i AS Row", "i AS Column"])
    labels = "'P' AS CoralNet_label, 'Porites' AS Sorted_ReefNet_label"
    path = tmp_path / "many.csv"
    duckdb.sql(f"COPY (SELECT {rows}, {labels} FROM range(200000) t(i)) TO '{path}' (HEADER)")
    done = annotations.convert(path, tmp_path / "many.parquet")
    assert done["kept"] == 200_000
    assert files.read_parquet(tmp_path / "many.parquet", ["row"])["row"].tolist() == list(range(200_000))
    assert sorted(child.name for child in tmp_path.iterdir()) == ["many.csv", "many.parquet"]
