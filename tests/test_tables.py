"""The five tables: ids that never change, and every problem found, said and counted."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from reefcore import tables
from reefcore.errors import ReefcoreError, problems_table, problems_text


def points(n=5):
    frame = pd.DataFrame({"source": "A", "image": "a.jpg", "row": range(n), "column": 7, "label_raw": "POR"})
    return tables.complete(frame)


def test_id_is_the_documented_hash():
    frame = points(1)
    key = "\x1f".join(["A", "a.jpg", "0", "7", "POR"])
    assert frame["annotation_id"][0] == hashlib.md5(key.encode()).hexdigest()[:16]


def test_id_does_not_depend_on_order_or_dtypes():
    frame = points(4)
    other = frame.iloc[::-1].astype({"row": "float64", "column": "Int64", "source": "object"})
    assert tables.annotation_ids(other).sort_index().tolist() == frame["annotation_id"].tolist()


def test_id_differs_when_any_part_differs():
    frame = pd.concat([points(1)] * 6, ignore_index=True)
    for i, (name, value) in enumerate(
        {"source": "B", "image": "b.jpg", "row": 9, "column": 9, "label_raw": "por"}.items(), 1
    ):
        frame.loc[i, name] = value
    assert tables.annotation_ids(frame).nunique() == 6


def test_good_table_is_kept_whole_with_extras():
    kept, problems = tables.check(points().assign(annotator="x"), "annotations")
    assert len(kept) == 5 and not len(problems) and "annotator" in kept
    assert kept["row"].dtype == "int64" and kept["aphia_id"].dtype == "Int64"


def test_every_problem_of_every_row_is_found():
    bad = points(5)
    bad["row"] = ["x", -1, 3, None, 4]
    bad.loc[2, "latitude"] = 99.0
    kept, problems = tables.check(bad, "annotations", lines=[11, 12, 13, 14, 15])
    assert kept["row"].tolist() == [4]
    found = set(problems[["line", "column"]].itertuples(index=False, name=None))
    assert found == {(11, "row"), (12, "row"), (13, "latitude"), (14, "row")}
    assert "'x' is not a whole number" in problems["problem"].tolist()
    assert "-1 must be at least 0" in problems["problem"].tolist()


def test_missing_column_is_named():
    with pytest.raises(ReefcoreError, match=r"a table of splits lacks the column part; add"):
        tables.check(pd.DataFrame({"annotation_id": ["a"], "scheme": ["S1"]}), "splits")


def test_unknown_values_and_double_rows():
    frame = pd.DataFrame(
        {"annotation_id": ["a", "a", "b"], "scheme": ["S1", "S1", "S9"], "part": ["train", "val", "test"]}
    )
    kept, problems = tables.check(frame, "splits")
    assert not len(kept)
    assert "'S9' must be one of S1, S2, S3, S4, W, U" in problems["problem"].tolist()
    assert (problems["problem"] == "stands twice").sum() == 2


def test_scores_must_be_probabilities():
    frame = pd.DataFrame(
        {"run_id": "r", "annotation_id": ["a", "b"], "y_true": "P", "y_pred": "P", "score:P": [0.4, 1.5]}
    )
    kept, problems = tables.check(frame, "predictions")
    assert len(kept) == 1 and problems["column"].tolist() == ["score:P"]


def test_validate_says_the_first_problems_in_one_sentence():
    with pytest.raises(ReefcoreError, match=r"t\.parquet: 1 problems in a table of annotations: line 3: row: -1"):
        tables.validate(points(2).assign(row=[0, -1]), "annotations", "t.parquet")


def test_report_shows_twenty_and_writes_the_rest_beside(tmp_path):
    file = tmp_path / "points.csv"
    file.write_text("x")
    problems = problems_table((i, "Row", f"problem {i}") for i in range(2, 47))
    text = problems_text(problems, file, kept=955, total=1000)
    lines = text.splitlines()
    assert lines[0] == f"{file}:2: Row: problem 2" and len(lines) == 22
    rest = pd.read_csv(tmp_path / "points.csv.problems.csv")
    assert len(rest) == 25 and rest["problem"].iloc[-1] == "problem 46"
    assert "955 of 1,000 rows kept" in lines[-1]


def test_report_goes_to_the_current_folder_where_the_file_is_read_only(tmp_path, monkeypatch):
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    monkeypatch.chdir(tmp_path)
    problems_text(problems_table((i, "", "p") for i in range(30)), locked / "a.csv", 0, 30)
    locked.chmod(0o755)
    assert (tmp_path / "a.csv.problems.csv").exists() and not list(locked.iterdir())


def test_reviews_keep_time_zones():
    frame = pd.DataFrame(
        {"annotation_id": ["a"], "verdict": ["correct"], "reviewer": ["r"], "timestamp": ["2024-01-01T00:00:00Z"]}
    )
    kept = tables.validate(frame, "reviews")
    assert str(kept["timestamp"].dt.tz) == "UTC"
    assert np.isnan(tables.complete(points(1))["latitude"][0])


def test_ids_are_found_as_pandas_finds_them():
    ids, known = pd.Series(["b", "x", None, "a"], dtype="str"), pd.Series(["a", "b", "a"], dtype="str")
    assert tables.positions(ids, known).tolist() == [1, -1, -1, 0]
    assert tables.among(ids, known).tolist() == ids.isin(known).tolist() == [True, False, False, True]
    assert tables.among(ids, {"x"}).tolist() == [False, True, False, False]
    assert not tables.among(ids, []).any() and len(tables.positions(ids[:0], known)) == 0
