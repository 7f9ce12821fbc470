"""The five tables that everything in this project is a step between, with their schemas and their checks.

============  ===================================  =====================================================
table         one row is                           made by
============  ===================================  =====================================================
annotations   one labelled point of one image      `reefcore.annotations.read`, or the sample
reviews       one expert verdict on one annotation the review app, or the sample
splits        one annotation in one scheme         `reefcore.splits`
predictions   one model's answer for one annotation training, zero-shot, or any other program
metrics       one number with its uncertainty      `reefcore.metrics`
============  ===================================  =====================================================

Extra columns are accepted everywhere and kept.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError, problems_table

SCHEMES = ("S1", "S2", "S3", "S4", "W", "U")  # W and U have only a test part
PARTS = ("train", "val", "test")
VERDICTS = ("correct", "incorrect", "low_quality", "hard_to_decide")
RANKS = ("species", "genus", "family", "order", "other")
HARD_CORALS = ("hard coral", "hard corals")  # what broad_category says of one, in any case
SCORE = "score:"  # a predictions table has one column `score:CLASS` per class
KNOWN = "known:"  # and may have `known:NAME`, a number that is higher the surer a point's class is a known one
SUBSTRATES = ("No-Deploy", "Coral", "Deploy")  # substrates of a patch, as the authors' code counts them: 0, 1, 2
GRID = (4, 7)  # rows and columns of patches over a frame
IDENTITY = ["source", "image", "row", "column", "label_raw"]


class Kind(NamedTuple):
    """What may stand in a column: its pandas dtype, whether it may be empty, its range, or the only values it has."""

    dtype: str = "str"
    nullable: bool = False
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()


_any, _optional, _fraction = Kind(), Kind(nullable=True), Kind("float64", True, 0, 1)
#: Name of a table -> its columns. Rows and columns in pixels (0-based, from the top-left corner), latitude and
#: longitude in WGS84 decimal degrees, probabilities and metrics as fractions in [0, 1].
COLUMNS: dict[str, dict[str, Kind]] = {
    "annotations": {
        "annotation_id": _any,
        "source": _any,
        "image": _any,
        "row": Kind("int64", low=0),
        "column": Kind("int64", low=0),
        "label_raw": _any,
        "label": _optional,
        "rank": Kind(nullable=True, values=RANKS),
        "aphia_id": Kind("Int64", True, low=1),
        "broad_category": _optional,
        "condition": _optional,
        "latitude": Kind("float64", True, -90, 90),
        "longitude": Kind("float64", True, -180, 180),
        "ecoregion": _optional,
        "province": _optional,
        "realm": _optional,
    },
    "reviews": {
        "annotation_id": _any,
        "verdict": Kind(values=VERDICTS),
        "reviewer": _any,
        "timestamp": Kind("datetime64[us, UTC]"),
    },
    "splits": {"annotation_id": _any, "scheme": Kind(values=SCHEMES), "part": Kind(values=PARTS)},
    "predictions": {"run_id": _any, "annotation_id": _any, "y_true": _any, "y_pred": _any},
    "metrics": {
        "run_id": _any,
        "scheme": Kind(values=SCHEMES),
        "metric": _any,
        "value": _fraction,
        "ci_low": _fraction,
        "ci_high": _fraction,
        "n": Kind("int64", low=0),
        "classes": Kind("int64", low=0),
    },
}
UNIQUE = {"splits": ["annotation_id", "scheme"], "predictions": ["run_id", "annotation_id"]}


@cache
def schema(table: str):
    """Return the pandera schema of a table; a table of predictions may have any number of scores."""
    import pandera.pandas as pa  # takes longer to import than all the rest together

    def column(kind: Kind) -> pa.Column:
        checks = []
        if kind.low is not None:
            checks.append(pa.Check.ge(kind.low, error=f"must be at least {kind.low:g}"))
        if kind.high is not None:
            checks.append(pa.Check.le(kind.high, error=f"must be at most {kind.high:g}"))
        if kind.values:
            checks.append(pa.Check.isin(kind.values, error=f"must be one of {', '.join(kind.values)}"))
        return pa.Column(kind.dtype, checks, nullable=kind.nullable, coerce=True)

    columns = {name: column(kind) for name, kind in COLUMNS[table].items()}
    if table == "predictions":
        share = pa.Check.in_range(0, 1, error="a score must lie in [0, 1]")
        columns[f"^{SCORE}.+$"] = pa.Column("float32", share, coerce=True, required=False, regex=True)
    return pa.DataFrameSchema(columns, unique=UNIQUE.get(table))


def annotation_ids(frame: pd.DataFrame) -> pd.Series:
    """Compute the stable ids of annotations: the first 16 hexadecimal digits of an MD5.

    The hash is over source, image, row, column and label_raw, joined by U+001F; a missing value counts as empty text.
    The same point with the same label always has the same id, on every machine and in every version; an exact duplicate
    has the id of its twin.

    Parameters
    ----------
    frame : DataFrame
        With the columns ``source``, ``image``, ``row``, ``column``, ``label_raw``.

    Returns
    -------
    Series of str
        With the index of `frame`.

    Examples
    --------
    >>> point = pd.DataFrame([["A", "a.jpg", 10, 20, "POR"]], columns=["source", "image", "row", "column", "label_raw"])
    >>> annotation_ids(point)[0]
    'fe6783df0dc4a495'
    """
    frame = frame.astype({"row": "Int64", "column": "Int64"})  # 111.0 and 111 are the same pixel
    parts = [frame[name].astype("object").where(frame[name].notna(), "").map(str) for name in IDENTITY]
    keys = ("\x1f".join(values) for values in zip(*parts, strict=True))
    ids = [hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()[:16] for key in keys]
    return pd.Series(ids, index=frame.index, dtype="str")


def positions(ids, known) -> np.ndarray:
    """Find each id among known ones: the position of the first that equals it, or -1.

    Joins and ``isin`` of pandas take seconds where hundreds of thousands of texts are known; this does not.

    Parameters
    ----------
    ids, known : Series, array or collection of str

    Returns
    -------
    ndarray of int, shape (len(ids),)
    """
    import pyarrow.compute as pc

    ids, known = _arrow(ids), _arrow(known)
    return np.asarray(pc.fill_null(pc.index_in(ids, value_set=known), -1))


def among(ids, known) -> np.ndarray:
    """Tell which ids are among the known ones; see `positions`."""
    import pyarrow.compute as pc

    return np.asarray(pc.is_in(_arrow(ids), value_set=_arrow(known)))


def _arrow(texts):
    import pyarrow as pa

    texts = pd.array(list(texts) if isinstance(texts, set | frozenset) else texts, dtype="str")
    return pa.array(texts).cast(pa.large_string())


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Make texts of what was read as categories, which millions of rows are read as."""
    return frame.astype({name: "str" for name in frame if frame[name].dtype == "category"})


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Give an annotations table its ids and all columns of its schema, in order, missing ones empty; extras follow."""
    frame, names = frame.copy(), list(COLUMNS["annotations"])
    for name, kind in COLUMNS["annotations"].items():
        if name not in frame and name != "annotation_id":
            frame[name] = pd.Series(np.nan, index=frame.index).astype(kind.dtype)
    frame["annotation_id"] = annotation_ids(frame)
    return frame[names + [name for name in frame if name not in names]]


def check(
    frame: pd.DataFrame, table: str, lines: pd.Series | np.ndarray | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Check a table against its schema, collecting every problem instead of stopping at the first.

    Parameters
    ----------
    frame : DataFrame
    table : {'annotations', 'reviews', 'splits', 'predictions', 'metrics'}
    lines : array of int, optional
        The 1-based line of the file each row came from; by default a header on line 1 is assumed.

    Returns
    -------
    kept : DataFrame
        The rows without a problem, in the schema's types.
    problems : DataFrame
        Columns ``line``, ``column``, ``problem``; see `reefcore.errors.problems_text` for saying them.

    Raises
    ------
    ReefcoreError
        Where a column of the schema is missing: then no row can be kept.
    """
    from pandera.errors import SchemaErrors

    missing = [name for name in COLUMNS[table] if name not in frame]
    if missing:
        raise ReefcoreError(
            f"a table of {table} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}",
            do="add them; reefcore.tables lists every column",
        )
    where = np.arange(2, len(frame) + 2) if lines is None else np.asarray(lines)
    frame = frame.reset_index(drop=True)
    rows = set()
    while True:  # a value that is no number hides the range check of its column: look again at what is left
        try:
            kept = schema(table).validate(frame, lazy=True)
            break
        except SchemaErrors as errors:
            cases = errors.failure_cases
        cases = cases[cases["index"].notna()]
        if not len(cases):
            raise ReefcoreError(
                f"a table of {table} has a column of the wrong type", do="check the types of its columns"
            )
        bad = cases["index"].astype(int)
        columns = cases["column"].where(cases["schema_context"] == "Column", "")
        sentences = (_sentence(case) for case in cases.itertuples())
        rows |= {(int(where[i]), str(c), s) for i, c, s in zip(bad, columns, sentences, strict=True)}
        frame, where = frame.drop(index=set(bad)), np.delete(where, sorted(set(bad)))
        frame = frame.reset_index(drop=True)
    return kept, problems_table(sorted(rows))


def _sentence(case) -> str:
    """Say one pandera failure case as a person would."""
    value, check_ = case.failure_case, str(case.check)
    if check_ == "not_nullable":
        return "is empty"
    if check_.startswith(("coerce_dtype", "dtype")):
        kind = check_.lower()
        wanted = "a whole number" if "int" in kind else "a number" if "float" in kind else "of the right type"
        return f"{value!r} is not {wanted}"
    if "unique" in check_:
        return "stands twice"
    return f"{value!r} {check_}"


def validate(frame: pd.DataFrame, table: str, where: str | Path | None = None) -> pd.DataFrame:
    """Check a table that must be right as a whole, such as one this project wrote itself.

    Raises
    ------
    ReefcoreError
        With the first problems in the sentence, where any row breaks the schema.
    """
    kept, problems = check(frame, table)
    if len(problems):
        first = "; ".join(f"line {row.line}: {row.column}: {row.problem}" for row in problems.head(3).itertuples())
        raise ReefcoreError(f"{len(problems)} problems in a table of {table}: {first}", where)
    return kept
