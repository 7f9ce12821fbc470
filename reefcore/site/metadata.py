"""What is known of an image beside its points: written dates, depths and positions, and the tables that hold them."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.annotations.sheet import key, load, look
from reefcore.errors import ReefcoreError
from reefcore.site.checks import few
from reefcore.site.settings import FACTS

#: How columns are spelt, without regard to case, blanks and signs; what is written in brackets counts.
SPELT = {
    "image": "name imagename filename image photo photoname imagefile file photofile picture imageid photoid quadrat",
    "date": "date sampledate datetaken surveydate day datetime photodate samplingdate collectiondate timestamp",
    "site": "site sitename siteid location reef reefname station stationname sitecode locality",
    "transect": "transect transectname transectnumber transectid transectlabel transectno line replicate",
    "survey": "survey surveyname surveytitle surveyid campaign deployment",
    "depth": "depth depthm depthmeters depthmetres depthinm waterdepth",
    "latitude": "latitude lat latdd decimallatitude latitudedd latdeg sitelatitude",
    "longitude": "longitude lon long lng longdd londd decimallongitude longitudedd londeg sitelongitude",
    "photographer": "photographer photographername takenby",
    "camera": "camera cameramodel",
}
NUMBER = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*(?:°|m|metres|meters|deg)?\s*([NSEW])?", re.IGNORECASE)
YEAR_FIRST = re.compile(r"(\d{4})(?:([-/.:])(\d{1,2})\2(\d{1,2})(?:[T ].*)?|(\d\d)(\d\d)(?:T?\d{4,6}Z?)?)")
YEAR_LAST = re.compile(r"(\d{1,2})([-/. ])(\d{1,2})\2(\d{4}|\d{2})(?:[T, ].*)?")
SERIAL = re.compile(r"[2-5]\d{4}")  # what Excel shows of a day in a cell that is not formatted as a date


def read(path: Path) -> tuple[pd.DataFrame, list[tuple]]:
    """Read a table of metadata as text, with the names of its columns; ``line`` is where each row stands.

    Returns
    -------
    table : DataFrame
    problems : list of (line, column, problem)

    Raises
    ------
    ReefcoreError
        Where it is no table.
    """
    head = look(path)
    if head.kind not in ("text", "workbook") or len(head.header) < 2:
        do = "give a CSV or an xlsx with a row per image"
        raise ReefcoreError("this is not a table of metadata", path, do)
    sheet, names = load(head), []
    for position, title in enumerate(head.header):
        name = title.strip() or f"unnamed {position + 1}"
        names.append(name if name not in names else f"{name} ({position + 1})")
    return sheet.frame.set_axis(names, axis=1).assign(line=sheet.lines), sheet.problems


def columns(names: list[str], asked: dict[str, str]) -> dict[str, str]:
    """Find which column holds which fact: as asked, else by its usual spellings.

    Parameters
    ----------
    names : list of str
        Columns of a table.
    asked : dict
        Fact -> column, see `reefcore.site.Site`; one that this table does not have is left to other tables.
    """
    by_key, found = {}, {}
    for name in names:
        by_key.setdefault(key(name), name)
    for fact, spelt in SPELT.items():
        if fact in asked:
            name = by_key.get(key(asked[fact]))
        else:
            name = next((by_key[one] for one in spelt.split() if one in by_key), None)
        if name is not None:
            found[fact] = name
    return found


def missing(asked: dict[str, str], names: list[str], where: Path) -> None:
    """Refuse a column of site.yaml that no table has.

    Raises
    ------
    ReefcoreError
        With the name that is most like it.
    """
    known = {key(name): name for name in names}
    for fact, name in asked.items():
        if key(name) not in known:
            near = difflib.get_close_matches(key(name), known, 1)
            do = f"did you mean {known[near[0]]!r}?" if near else f"there are {', '.join(sorted(known.values())[:12])}"
            raise ReefcoreError(f"{fact}_column: no table has a column {name!r}", where, do)


def dates(texts: pd.Series, written: str = "") -> tuple[pd.Series, list[tuple[str, str, int, str]]]:
    """Read a column of written dates.

    Whether 3/4/2016 is in April or in March is told by the whole column: another date of it that can only be read one
    way settles it. Where none does, such dates are left empty; nothing is guessed.

    Parameters
    ----------
    texts : Series of str
    written : str
        As strptime has it (``%d/%m/%Y``); beside it only dates that begin with the year are read.

    Returns
    -------
    found : Series of datetime64[us]
        Without a time zone: as on the clock that wrote them.
    said : list of (state, text, rows, examples)
        What could not be read, what was left empty, and how the ambiguous ones were read.
    """
    texts = texts.astype("str").str.strip().replace("", pd.NA)
    distinct, said, found = texts.dropna().unique().tolist(), [], {}
    order, left = _order(distinct), []
    if order in ("mixed", "unclear") and not written:
        left = [text for text in distinct if (parts := _parts(text)) and parts[0] != parts[1]]
        if order == "mixed":  # each date that can only be read one way is read so
            left = [text for text in left if max(_parts(text)[:2]) <= 12]
    for text in distinct:
        if written:
            found[text] = pd.to_datetime(text, format=written, errors="coerce")
            if pd.isna(found[text]) and YEAR_FIRST.fullmatch(text):  # as CoralNet writes them
                found[text] = _date(text, "")
        elif text not in left:
            found[text] = _date(text, order)
    bad = [text for text in distinct if text not in left and pd.isna(found[text])]
    how_many = lambda values: int(texts.isin(values).sum())  # noqa: E731
    if left:
        why = "the column has both day/month and month/day" if order == "mixed" else "no date of the column settles it"
        text = f"dates such as {left[0]} can be day/month or month/day ({why}) and are left empty; say which"
        do = " in site.yaml: date_format: '%d/%m/%Y' or '%m/%d/%Y'"
        said.append(("warning", text + do, how_many(left), few(left)))
    elif order in ("dmy", "mdy") and not written:
        ambiguous = [t for t in distinct if (p := _parts(t)) and p[0] != p[1] and max(p[:2]) <= 12]
        if ambiguous:
            sure = next(t for t in distinct if (p := _parts(t)) and max(p[:2]) > 12)
            way = "day/month/year" if order == "dmy" else "month/day/year"
            text = f"dates are read as {way}, as {sure} can only be; date_format in site.yaml changes that"
            same = {YEAR_LAST.fullmatch(one)[2] for one in [sure, *ambiguous]}  # 06-01-16 beside 5/25/2016
            said.append(("note" if len(same) == 1 else "warning", text, how_many(ambiguous), few(ambiguous)))
    if bad:
        hint = f"as {written}" if written else "as a day; write them as 2016-05-25, or say how in date_format"
        if SERIAL.fullmatch(bad[0]) and not written:
            day = pd.Timestamp("1899-12-30") + pd.Timedelta(days=int(bad[0]))
            hint = f"as a day; if they are Excel's numbers of days ({day:%Y-%m-%d}), format the column as dates there"
        said.append(("warning", f"dates such as {bad[0]!r} cannot be read {hint}", how_many(bad), few(bad)))
    return texts.map(found).astype("datetime64[us]"), said


def _parts(text: str) -> tuple[int, int] | None:
    """Give the first two numbers of a date whose year comes last."""
    match = YEAR_LAST.fullmatch(text)
    return (int(match[1]), int(match[3])) if match else None


def _order(texts: list[str]) -> str:
    """Tell which comes first in dates whose year comes last: dmy, mdy, unclear, mixed, or none of that kind."""
    pairs = [parts for parts in map(_parts, texts) if parts]
    day, month = any(a > 12 for a, _ in pairs), any(b > 12 for _, b in pairs)
    return "mixed" if day and month else "dmy" if day else "mdy" if month else "unclear" if pairs else ""


def _date(text: str, order: str) -> pd.Timestamp:
    """Read one date; NaT where it is none."""
    if match := YEAR_FIRST.fullmatch(text):
        year, month, day = int(match[1]), int(match[3] or match[5]), int(match[4] or match[6])
    elif match := YEAR_LAST.fullmatch(text):
        a, b, year = int(match[1]), int(match[3]), int(match[4])
        day, month = (b, a) if order == "mdy" or (order == "mixed" and b > 12) else (a, b)
        year += (2000 if year < 70 else 1900) if year < 100 else 0
    elif re.search(r"[^\W\d_]{3}", text) and re.search(r"\d{1,2}\D+\d{2,4}|\d{4}\D+\d{1,2}", text):
        stamp = pd.to_datetime(text, errors="coerce", dayfirst=True)
        return stamp.tz_localize(None) if pd.notna(stamp) else pd.NaT
    else:
        return pd.NaT
    try:
        stamp = pd.Timestamp(year, month, day)
    except ValueError:
        return pd.NaT
    clock = re.search(r"[T, ]\s*(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*([AP]M)?", text, re.IGNORECASE)
    if not clock:
        return stamp
    hour = int(clock[1]) % 12 + 12 * (clock[4].upper() == "PM") if clock[4] else int(clock[1])
    return stamp + pd.Timedelta(hours=hour, minutes=int(clock[2]), seconds=int(clock[3] or 0))


def numbers(texts: pd.Series, name: str) -> tuple[pd.Series, list[tuple[str, str, int, str]]]:
    """Read a column of depths (metres) or degrees, with a decimal point or comma; N, S, E or W may follow.

    Returns
    -------
    found : Series of float64
    said : list of (state, text, rows, examples)
        Of values that are no number, such as degrees with minutes, which are left empty.
    """
    if pd.api.types.is_numeric_dtype(texts):
        return texts.astype("float64"), []
    texts = texts.astype("str").str.strip().replace({"": pd.NA, "NA": pd.NA, "N/A": pd.NA, "-": pd.NA})
    found = {}
    for text in texts.dropna().unique():
        match = NUMBER.fullmatch(text)
        found[text] = float(match[1].replace(",", ".")) if match else np.nan
        if match and (match[2] or "").upper() in ("S", "W"):
            found[text] = -abs(found[text])
    bad = [text for text, value in found.items() if np.isnan(value)]
    if not bad:
        return texts.map(found).astype("float64"), []
    do = "write metres as a plain number" if name == "depth" else "write decimal degrees, such as -18.2871"
    said = f"{name} such as {bad[0]!r} is not a number and is left empty; {do}"
    return texts.map(found).astype("float64"), [("warning", said, int(texts.isin(bad).sum()), few(bad))]


def from_names(names: pd.Series, pattern: str) -> pd.DataFrame:
    """Read facts from the names of images by the named groups of a regular expression; NA where it does not fit."""
    found = names.astype("str").str.extract(pattern)
    return found[[name for name in found if name in FACTS]]
