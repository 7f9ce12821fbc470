"""Tables of a workbook or CSV whose sheets and columns are not known before: found by their names and their values.

A sheet can begin with titles, and one can explain the columns of the others. A column is taken for what it is where its
name says so and its values fit, or where the values alone leave no doubt: names of known sources, known labels. What is
not recognised is said, not guessed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from reefcore.annotations.sheet import is_blank, key, lines_of, look, records, scan, workbook_records
from reefcore.tables import RANKS, VERDICTS

ABOVE = 12  # rows from the top of a sheet among which its header is looked for
ALONE, NAMED = 0.6, 0.5  # shares of values that must fit: where they speak alone, and beside the name of the column
NUMBER = re.compile(r"\s*([+-]?\d+(?:[.,]\d+)?)\s*[a-z°]*\s*", re.IGNORECASE)
DEGREES = re.compile(r"\s*([+-]?\d+(?:[.,]\d+)?)\s*°?\s*([NSEW]?)\s*", re.IGNORECASE)
SIZE = re.compile(r"\s*(\d{3,5})\s*(?:px)?\s*[x×*,;/]\s*(\d{3,5})\s*(?:px|pixels)?\s*", re.IGNORECASE)
MISSING = ["", "na", "n/a", "nan", "none", "null", "-", "unknown"]
LAYOUTS = {"stratified random": "stratif", "uniform grid": "grid|uniform", "simple random": "random"}
#: What a column can be -> a pattern of its name (letters and digits only, lower case), the best first.
NAMES = {
    "annotation_id": r"annotationid",
    "verdict": r"verdict|^correct|review(?!er)|judge?ment|expert(?!name)",
    "reviewer": r"reviewer|expertname|^expert$|judge$",
    "timestamp": r"timestamp|reviewed(at|on)|reviewdate",
    "source": r"^(coralnet)?source(name|id)?$|^coralnetsource|sourcename",
    "image": r"^image(name|file|filename)?$|^(photo|file)(name)?$|^name$",
    "row": r"^row$",
    "column": r"^column$|^col$",
    "label_raw": r"(coralnet|original|source|raw|rsg|initial|old).*label|label.*(coralnet|original|raw)|^label(name)?$",
    "label": r"(reefnet|our|sorted|final|new|harmoni|merged|target|mapped).*label|label.*(reefnet|final|new)|^genus$",
    "short_code": r"short.*code|labelcode|^code$|abbrev",
    "aphia_id": r"aphia|worms",
    "rank": r"rank|taxonomiclevel",
    "broad_category": r"broad|functional",
    "condition": r"condition|health",
    "valid": r"^valid",
    "images_url": r"images?.*ur[li]|images?link",
    "url": r"ur[li]$|^link|webpage|website",
    "images_number": r"^(number|no|n|count|total)(of)?(images|photos)|^(images|photos)(number|count|total)?$",
    "first_image": r"first.*image",
    "latitude": r"latitude|^(mean|decimal)?lat($|d)",
    "longitude": r"longitude|^(mean|decimal)?long?($|d)",
    "depth": r"depth",
    "date": r"date|^year",
    "width": r"width",
    "height": r"(image|photo|pixel|^)height",
    "megapixels": r"megapixel|resolution|^mp$|imagesize|pixels",
    "ecoregion": r"ecoregion",
    "province": r"province",
    "realm": r"realm",
    "contributors": r"contribut|creator|author|attribution|owner|credit",
    "affiliations": r"affiliat|institut|organi[sz]ation",
    "licence": r"licen[cs]e|rights|termsofuse",
    "layout": r"sampling|point(s)?(generation|layout|method|distribution)|annotationmethod|layout",
}


def fold(text: str) -> str:
    """Fold a name for comparing: case, runs of blanks, and blanks around it."""
    return " ".join(str(text).split()).casefold()


@dataclass
class Known:
    """What is known before: values that tell columns, folded (see `fold`), and the names of columns of other files."""

    sources: set[str] = field(default_factory=set)
    raw: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)


@dataclass
class Table:
    """One sheet as a table of text: where its header stands, its columns by their titles, and what each is.

    Attributes
    ----------
    file, sheet : str
    frame : DataFrame of str
        Columns by their titles, values as they stand; ``attrs["line"]`` of the first row.
    roles : dict
        What a column is (see `NAMES`; ``explained`` and ``meaning`` of a sheet that explains columns) -> its title.
    problem : str
        Why the sheet is no table.
    explained : list of str
        Of a sheet that explains columns: what it explains that is not there, and leaves out.
    above : int
        Rows above the header that are as wide as the table, so that one of them may be the header.
    """

    file: str
    sheet: str
    frame: pd.DataFrame
    roles: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    explained: list[str] = field(default_factory=list)
    above: int = 0

    def has(self, *roles: str) -> bool:
        """Tell whether the table has columns that are all of these."""
        return all(role in self.roles for role in roles)

    def get(self, role: str) -> pd.Series:
        """Give the column that is this, read as what it is; NA where a value does not fit."""
        return parse(role, self.frame[self.roles[role]])

    def said(self) -> list[tuple]:
        """Say of each column what it was read as: file, sheet, column, read_as, values, note."""
        if self.problem:
            return [(self.file, self.sheet, "", "", 0, self.problem)]
        of = {title: role for role, title in self.roles.items()}
        text = f"rows above the header as wide as the table, not read: {self.above:,}; {self.frame.columns[0]}"
        rows = [(self.file, self.sheet, "", "", 0, text + " ... was taken for the header")] if self.above else []
        for title, values in self.frame.items():
            filled, role = int((values.str.strip() != "").sum()), of.get(title, "")
            notes = [] if role else ["not recognised, and not read"]
            if role and (lost := filled - int(self.get(role).notna().sum())):
                notes.append(f"{lost:,} of {filled:,} values do not fit and are left empty")
            if role and (around := int((values != values.str.strip()).sum())):
                notes.append(f"{around:,} values have blanks around them, and were read without")
            if role == "explained":
                notes += self.explained
            rows.append((self.file, self.sheet, title, role, filled, "; ".join(notes)))
        return rows


def read(path: Path, known: Known) -> list[Table]:
    """Read all sheets of a workbook, or a CSV, and say what their columns are.

    Parameters
    ----------
    path : path
    known : Known

    Returns
    -------
    list of Table

    Raises
    ------
    ReefcoreError
        Where the file cannot be read.
    """
    tables = [_table(path.name, sheet, rows) for sheet, rows in _sheets(path)]
    titles = {key(title) for table in tables for title in table.frame} | known.columns
    for table in tables:
        _recognise(table, known, titles)
    return tables


def _sheets(path: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Give the rows of each sheet, blank ones left out; a CSV is one sheet without a name."""
    with open(path, "rb") as handle:
        zipped = handle.read(2) == b"PK"  # to look at a workbook would read its sheets once more
    if zipped:
        for sheet, rows in itertools.groupby(workbook_records(path), lambda record: record[0]):
            yield sheet, [cells for _, _, cells in rows if not is_blank(cells)]
        return
    head = look(path)
    found = records(lines_of(path, scan(path).encoding), head.delimiter, len(head.header))
    yield "", [cells for _, cells, _ in found if cells is not None and not is_blank(cells)]


def _table(file: str, sheet: str, rows: list[list[str]]) -> Table:
    """Find the header among the first rows: the first that is about as wide as the table, and words."""
    widths = [sum(cell.strip() != "" for cell in row) for row in rows[: 5 * ABOVE]]
    wide = max(widths, default=0)

    def is_header(row: list[str]) -> bool:
        filled = [cell for cell in row if cell.strip()]
        words = sum(NUMBER.fullmatch(cell) is None for cell in filled)
        return wide > 1 and len(filled) >= max(2, 0.7 * wide) and words > 0.8 * len(filled)

    at = next((at for at, row in enumerate(rows[:ABOVE]) if is_header(row)), None)
    if at is None:
        return Table(file, sheet, pd.DataFrame(), problem=f"no table was found in this sheet ({len(rows):,} rows)")
    row = rows[at]
    width = max(len(cells) for cells in rows[at:])
    titles = [*(cell.strip() for cell in row), *[""] * (width - len(row))]
    named = [title or f"unnamed {place + 1}" for place, title in enumerate(titles)]
    named = [title if title not in named[:place] else f"{title} ({place + 1})" for place, title in enumerate(named)]
    body = [cells + [""] * (width - len(cells)) for cells in rows[at + 1 :] if cells != row]
    frame = pd.DataFrame(body, columns=named, dtype="str")
    empty = [name for name, title in zip(named, titles, strict=True) if not title and (frame[name] == "").all()]
    above = sum(sum(cell.strip() != "" for cell in cells) >= max(2, 0.7 * wide) for cells in rows[:at])
    return Table(file, sheet, frame.drop(columns=empty), above=above)


def parse(role: str, values: pd.Series) -> pd.Series:
    """Read a column as what it is: numbers, degrees, yes and no, a layout, text; NA where a value does not fit."""
    text = values.str.strip()
    missing = ["", "na"] if role in ("label", "label_raw", "source", "image") else MISSING  # Unknown is a label
    text = text.mask(text.str.casefold().isin(missing))
    if role in ("latitude", "longitude"):
        found = text.str.extract(f"^{DEGREES.pattern}$", flags=re.IGNORECASE)
        number = pd.to_numeric(found[0].str.replace(",", "."), errors="coerce").astype("float64")
        number = number.where(~found[1].str.upper().isin(["S", "W"]), -number.abs())
        return number.where(number.abs() <= (90 if role == "latitude" else 180))
    if role == "megapixels":
        sides = text.str.extract(f"^{SIZE.pattern}$", flags=re.IGNORECASE).astype("float64")
        number = _numbers(text).where(lambda n: n.between(0.01, 500), _numbers(text) / 1e6)  # else written in pixels
        return (sides[0] * sides[1] / 1e6).fillna(number).where(lambda n: n.between(0.01, 500))
    if role in ("depth", "row", "column", "width", "height", "images_number", "aphia_id"):
        number = _numbers(text if role == "depth" else text.str.replace(r"(?<=\d),(?=\d{3}\b)", "", regex=True))
        if role == "depth":
            return number.abs().where(number.abs() <= 500)
        return number.where((number >= 0) & (number % 1 == 0)).astype("Int64")
    if role == "valid":
        return text.str.casefold().map({"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False})
    if role == "layout":
        found = pd.Series(pd.NA, index=text.index, dtype="str")
        for name, pattern in LAYOUTS.items():
            found = found.fillna(
                pd.Series(name, index=text.index).where(text.str.contains(pattern, case=False).eq(True))
            )
        return found
    if role == "verdict":
        found = text.str.casefold().str.replace(r"[\W_]+", "_", regex=True)
        found = found.replace({"yes": "correct", "true": "correct", "1": "correct"})
        found = found.replace({"no": "incorrect", "false": "incorrect", "wrong": "incorrect", "0": "incorrect"})
        return found.where(found.isin(VERDICTS))
    if role == "rank":
        return text.str.casefold().where(text.str.casefold().isin(RANKS))
    if role in ("url", "images_url"):
        return text.where(text.str.match(r"https?://|www\.").eq(True))
    return text


def _numbers(text: pd.Series) -> pd.Series:
    found = text.str.extract(f"^{NUMBER.pattern}$", flags=re.IGNORECASE)[0]
    return pd.to_numeric(found.str.replace(",", "."), errors="coerce").astype("float64")


def _recognise(table: Table, known: Known, titles: set[str]) -> None:
    """Say what the columns of a table are."""
    told = {"source": known.sources, "label_raw": known.raw, "label": known.labels}
    options = []
    for place, (title, values) in enumerate(table.frame.items()):
        filled = values[values.str.strip() != ""]
        if filled.empty:
            continue
        folded = filled.map(fold)
        shares = {role: folded.isin(names).mean() for role, names in told.items() if names}
        if filled.nunique() >= max(3, 0.9 * len(filled)):  # a column of ranks has genus many times, one of titles once
            share = folded.map(key).isin(titles - {key(title)}).mean()
            options += [(3, share, -place, "explained", title)] if share >= NAMED else []
        for rank, (role, pattern) in enumerate(NAMES.items()):
            named = re.search(pattern, key(title)) is not None
            share = shares[role] if role in shares else parse(role, filled).notna().mean() if named else 0.0
            # Labels of a mapping can be ones that no annotation has: there the name counts for more.
            enough = share >= (0.1 if role in ("label_raw", "label") else NAMED) if named else False
            if enough or (role in shares and share >= ALONE):
                options.append((1 + named, share if role in shares else 1.0, -rank - place / 1000, role, title))
    for _, _, _, role, title in sorted(options, reverse=True):
        if role not in table.roles and title not in table.roles.values():
            table.roles[role] = title
    if "explained" in table.roles:  # its other columns say what they mean: the one with most words
        table.roles = {"explained": table.roles["explained"]}
        others = {
            title: values.str.len().mean() for title, values in table.frame.items() if title not in table.roles.values()
        }
        if others:
            table.roles["meaning"] = max(others, key=others.get)
        told = table.frame[table.roles["explained"]].map(str.strip)
        if strange := [name for name in told if name and key(name) not in titles]:
            table.explained.append(f"explains what is no column here: {', '.join(strange)}")
