"""From a table of text to the annotations table: what the readers of all formats share."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reefcore import tables
from reefcore.annotations.sheet import Head, Sheet
from reefcore.errors import ReefcoreError

PEOPLE = ("annotator", "photographer")  # columns of personal names
NOT_PEOPLE = ("robot", "imported")  # CoralNet's own annotators
LARGEST = 2**31 - 1  # no image has more pixels on a side
CHANCE = 0.05  # below this, points that never touch 0 but do touch 1 are said to count from 1


@dataclass
class Options:
    """The options of `reefcore.annotations.read`, described there."""

    source: str | None = None
    names: bool = False
    unmangle: bool = False
    base: int | None = None


@dataclass
class Result:
    """What a reader gives: the annotations table, the problems, and how many rows of data the file has."""

    frame: pd.DataFrame
    problems: list[tuple]
    total: int


@dataclass(frozen=True)
class Format:
    """A file format: how it is recognised by its beginning, and how it is read or why it is refused.

    Attributes
    ----------
    name : str
        Short and stable.
    title : str
        For people, with its article.
    recognise : callable
        Given a `Head`, tells whether the file has this format.
    read : callable, optional
        Given a `Head` and `Options`, gives a `Result`; None where the format is refused.
    do : str
        What to do with a file that is refused.
    """

    name: str
    title: str
    recognise: Callable[[Head], bool]
    read: Callable[[Head, Options], Result] | None = None
    do: str = ""

    def fits(self, head: Head) -> bool:
        """Tell whether a file has this format and, where it is one to read, can be."""
        return (self.read is None or head.kind in ("text", "workbook")) and self.recognise(head)


def _float(text: str) -> float:
    """Read a number; NaN where it is none. Python alone would take ``1_000``."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def _numbers(values: pd.Series) -> pd.Series:
    return values.map({value: _float(value) for value in values.unique()}).astype("float64")


def pixel_problem(text: str, base: int = 0) -> str:
    """Say what is wrong with a row or column as the file has it; empty text where nothing is."""
    if not text:
        return "is empty"
    value = _float(text)
    if not math.isfinite(value) or value != math.floor(value):
        return f"{text!r} is not a whole number of pixels"
    if not base <= value <= LARGEST:
        return f"{text!r} must be at least {base}" if value < base else f"{text!r} is larger than any image"
    return ""


def degree_problem(text: str, limit: int) -> str:
    """Say what is wrong with a latitude (`limit` 90) or longitude (180); empty text where nothing is."""
    value = _float(text or "0")
    if math.isnan(value):
        return f"{text!r} is not in decimal degrees"
    return "" if abs(value) <= limit else f"{text!r} must be between {-limit} and {limit}"


def pseudonym(name: str) -> str:
    """Replace a personal name by ``person-`` and 8 hexadecimal digits, the same for the same name everywhere.

    CoralNet's own annotators, `robot` and `Imported`, stay. The digits keep names out of tables and figures; they do
    not hide a person from somebody who guesses the name and hashes it.
    """
    if not name or name.lower() in NOT_PEOPLE:
        return name
    return f"person-{hashlib.sha256(name.lower().encode()).hexdigest()[:8]}"


def each(values: pd.Series, function: Callable[[str], str]) -> pd.Series:
    """Apply a function once per distinct value."""
    return values.map({value: function(value) for value in values.unique()}).astype("str")


def grouped(values: pd.Series, lines: np.ndarray, column: str, sentences: pd.Series, end: str = "") -> list[tuple]:
    """Make one problem per distinct value whose sentence is not empty: at its first line, with the number of rows."""
    wrong = sentences.ne("").to_numpy()
    table = pd.DataFrame({"value": values[wrong], "sentence": sentences[wrong], "line": lines[wrong]})
    found = []
    for _, group in table.groupby("value", sort=False):
        rows = f" ({len(group):,} rows)" if len(group) > 1 else ""
        found.append((int(group["line"].iloc[0]), column, group["sentence"].iloc[0] + end + rows))
    return found


def build(
    head: Head, sheet: Sheet, columns: dict[str, int], labels: pd.Series, extras: dict[str, pd.Series], options: Options
) -> Result:
    """Make the annotations table.

    A row without an image, a label, or a row and column that are whole numbers of pixels is left out and reported. A
    latitude or longitude that cannot be used is left empty and reported; the point stays.

    Parameters
    ----------
    head, sheet
        The file.
    columns : dict
        ``image``, ``row``, ``column`` and, where the file has them, ``label_raw``, ``source``, ``latitude``,
        ``longitude`` -> position.
    labels : Series of str
        The raw label of each row.
    extras : dict of Series
        Further columns, by their names in the result.
    options : Options
    """
    text, problems = sheet.frame, list(sheet.problems)
    base, bad = options.base or 0, np.zeros(len(text), dtype=bool)
    for name in ("image", "row", "column", "label_raw"):
        values = labels if name == "label_raw" else text[columns[name]]
        judge = (lambda value: pixel_problem(value, base)) if name in ("row", "column") else _empty_problem
        sentences = each(values, judge)
        wrong = sentences.ne("").to_numpy()
        said = head.header[columns[name]].strip() or name
        problems += zip(sheet.lines[wrong].tolist(), [said] * wrong.sum(), sentences[wrong], strict=True)
        bad |= wrong
    stem = head.path.stem
    if "source" in columns and not options.source:
        source = text[columns["source"]].replace("", stem)
    else:
        source = pd.Series(options.source or stem, index=text.index, dtype="str")
    found = {"source": source, "image": text[columns["image"]], "label_raw": labels}
    for name in ("row", "column"):
        found[name] = _numbers(text[columns[name]].where(~bad, "0")).astype("int64") - base
    for name, limit in (("latitude", 90), ("longitude", 180)):
        if name in columns:
            values = text[columns[name]]
            sentences = each(values, lambda value, limit=limit: degree_problem(value, limit))
            problems += grouped(values, sheet.lines, head.header[columns[name]].strip(), sentences, ", left empty")
            found[name] = _numbers(values.where(sentences.eq(""), ""))
    frame = pd.DataFrame(found | extras)[~bad]
    frame, rest = tables.check(tables.complete(frame), "annotations", sheet.lines[~bad])
    problems += rest.itertuples(index=False, name=None)
    problems += said_base(frame, options)
    if not sheet.total:
        problems.append((None, "", "the file has a header and no points"))
    return Result(frame, problems, sheet.total)


def by_line(problem: tuple) -> int:
    """Sort problems by their line; those of the whole file come first."""
    return 0 if pd.isna(problem[0]) else problem[0]


def said_base(frame: pd.DataFrame, options: Options) -> list[tuple]:
    """Make the problem of a table whose rows and columns seem to count from 1, where the user has not said."""
    if options.base is not None or frame.empty:
        return []
    extent = [int(frame[name].agg(end)) for name in ("row", "column") for end in ("min", "max")]
    guess, evidence = base_of(len(frame), *extent)
    text = f"rows and columns seem to count from 1 ({evidence}); base=1 reads them so"
    return [(None, "", text)] if guess == "1" else []


def _empty_problem(text: str) -> str:
    return "" if text else "is empty"


def base_of(n: int, row_min: int, row_max: int, column_min: int, column_max: int) -> tuple[str, str]:
    """Judge whether rows and columns count from 0 or from 1, by the smallest ones among `n` points.

    A 0 settles it. Otherwise, were points spread evenly over images that count from 0, each would miss the first row
    of the largest image with a chance of 1 - 1 / (largest row + 1), and likewise the first column. Where the points
    reach 1 and the chance that all of them miss 0 is under 5 %, they count from 1. Points that keep a margin, such as a
    grid, cannot tell: an axis whose smallest value lies too far in for evenly spread points is left out.

    Returns
    -------
    base : {'0', '1', 'unclear'}
    evidence : str
    """
    seen = f"minimum row {row_min} and column {column_min} over {n:,} points"
    if min(row_min, column_min) == 0:
        return "0", seen
    axes = [(low, n / (high + 1)) for low, high in ((row_min, row_max), (column_min, column_max))]
    near = [expected for low, expected in axes if low <= 1 + 3 / expected]  # 1 + 3 / expected: missed by chance in 5 %
    chance = math.exp(-sum(near))
    if min(row_min, column_min) == 1 and chance < CHANCE:
        said = f"{chance:.1%}" if chance >= 0.001 else "under 0.1%"
        return "1", f"{seen}, never 0; the chance of that is {said} if they counted from 0 and lay evenly"
    return "unclear", seen


def need(head: Head, title: str, **wanted: int | None) -> None:
    """Refuse a file that lacks columns, naming them all.

    Raises
    ------
    ReefcoreError
    """
    missing = [name for name, position in wanted.items() if position is None]
    if missing:
        raise ReefcoreError(
            f"this looks like {title} but lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}",
            head.path,
            "export it again with all columns, or add them",
        )
