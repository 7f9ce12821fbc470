"""From a table of text to the annotations table: what the readers of all formats share."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd

from reefcore import tables
from reefcore.annotations.sheet import Head, Sheet, snake
from reefcore.errors import ReefcoreError

PEOPLE = ("annotator", "photographer")  # columns of personal names in the released ReefNet file
NOT_PEOPLE = ("robot", "imported")  # CoralNet's own annotators
NOBODY = {"unknown", "anonymous", "observer", "not recorded", "no name"}  # words that stand where a name would
# Columns of people, by the end of their name in snake_case: modified_by, point_modified_by_email, observer_2, ...
PERSON = re.compile(
    r"(^|_)(annotators?|photograph\w*|fot[oó]graf\w*|observ(er|ador|ateur)\w*|users?|username|display_?name|divers?|"
    r"(first|last|sur)_?names?|e_?mails?|contacts?|author|recorder|reviewer|scorer|analyst|collector|surveyors?|operator|"
    r"credits?|initials|by)(_(names?|ids?|s|\d+))*$"
)
MAIL = re.compile(r"[\w.+'-]+@[\w-]+(?:\.[\w-]+)+")
FREE = {"broad_category", "condition", "ecoregion", "province", "realm"}  # text columns of the schema a file may fill
REASONS = {"image": "no image name", "row": "no usable row", "column": "no usable column", "label_raw": "no label"}
METRES = re.compile(r"([-+]?[\d.,]+)\s*m?", re.IGNORECASE)
GROUPED = re.compile(r"\d{1,3}([.,]\d{3})+")  # 1,250, which may be 1250 or 1.25
#: What Excel and pandas write in a cell where a label was lost; none of them is one.
LOST = {"#name?", "#n/a", "#value!", "#ref!", "#null!", "#num!", "#div/0!", "nan"}
#: Columns of positions by their names, the file's own included: site_latitude, ...
PLACE = re.compile(r"(?:^|_)(?:lat|lon|lng|long|latitude|longitude|geom|geometry|wkt|utm\w*|easting|northing)(?:_|$)")
WORD = re.compile(r"\w+")
#: Texts that join tables or say what a point is, in which no name is replaced; nor is one in the schema's columns.
NO_REMARKS = "unit site transect survey date date_annotated group_in_file life_form labelled_by shape rule".split()
LARGEST = 2**31 - 1  # no image has more pixels on a side
EDGE = 1e-6  # how far beyond the edge of a photo a point may lie by rounding
CHANCE = 0.05  # below this, points that never touch 0 but do touch 1 are said to count from 1


@dataclass
class Options:
    """The options of `reefcore.annotations.read`, described there."""

    source: str | None = None
    names: bool = False
    unmangle: bool = False
    base: int | None = None
    columns: dict | None = None
    size: tuple[int, int] | None = None
    sizes: pd.DataFrame | None = None
    points: str = "centroid"
    sample: int = 100
    seed: int = 0
    people: dict[str, str] = field(default_factory=dict)  # every name that was replaced -> its pseudonym
    titles: dict[str, str] = field(default_factory=dict)  # column of the table -> its title in the file, as there

    def check_sizes(self) -> None:
        """Refuse sizes that are none; a text such as 4000x3000 becomes a pair.

        Raises
        ------
        ReefcoreError
        """
        if self.size is not None:
            sides = re.findall(r"\d+", str(self.size))
            if len(sides) != 2 or not all(0 < int(side) <= LARGEST for side in sides):
                raise ReefcoreError(f"size is {self.size!r}", do="give width and height in pixels, such as 4000x3000")
            self.size = tuple(int(side) for side in sides)
        if self.sizes is not None:
            if not {"image", "width", "height"} <= set(self.sizes):
                raise ReefcoreError("the table of sizes lacks a column", do="give image, width and height")
            sides = self.sizes[["width", "height"]].apply(pd.to_numeric, errors="coerce").round()
            sides = sides.where((sides > 0) & (sides <= LARGEST)).dropna().astype("int64")
            self.sizes = sides.assign(image=self.sizes["image"].astype("str"))

    def sized(self, images: pd.Series) -> pd.DataFrame:
        """Give the size of each photo in pixels, as far as `size` or `sizes` tells: width and height, Int64.

        A photo is found by its name, else by its name in any case, else by its name without the ending.
        """
        found = pd.DataFrame({"width": pd.NA, "height": pd.NA}, index=images.index, dtype="Int64")
        if self.size is not None:
            found["width"], found["height"] = self.size
        if self.sizes is None:
            return found
        for reduce in (str, str.casefold, lambda name: re.sub(r"\.\w{2,4}$", "", name.casefold())):
            known = self.sizes.assign(image=self.sizes["image"].map(reduce))
            known = known.groupby("image")[["width", "height"]].agg(["min", "max"])
            known = known[(known.xs("min", axis=1, level=1) == known.xs("max", axis=1, level=1)).all(axis=1)]
            names = images.map(reduce)
            for side in found:
                found[side] = found[side].fillna(names.map(known[side]["min"]).astype("Int64"))
        return found


@dataclass
class Result:
    """What a reader gives.

    Attributes
    ----------
    frame : DataFrame
        The annotations table (of `read_covers`: the covers).
    problems : list of (line, column, problem)
    total : int
        Records of data in the file.
    left_out : dict
        Reason -> number of records that the table does not represent.
    """

    frame: pd.DataFrame
    problems: list[tuple]
    total: int
    left_out: dict[str, int] = field(default_factory=dict)


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
    kinds : tuple of str
        The kinds of `Head` that `read` takes.
    covers : bool
        The file holds counts or percents, no points: `reefcore.annotations.read_covers` reads it.
    """

    name: str
    title: str
    recognise: Callable[[Head], bool]
    read: Callable[[Head, Options], Result] | None = None
    do: str = ""
    kinds: tuple[str, ...] = ("text", "workbook")
    covers: bool = False

    def fits(self, head: Head) -> bool:
        """Tell whether a file has this format and, where it is one to read, can be."""
        return (self.read is None or head.kind in self.kinds) and self.recognise(head)


def counted(n: int, one: str, many: str | None = None) -> str:
    """Say a number with its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def number(text: str) -> float:
    """Read a number, with a point or a comma; NaN where it is none. Python alone would take ``1_000``."""
    try:
        if re.fullmatch(r"[-+]?\d+,\d+", text):
            text = text.replace(",", ".")
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def numbers(values: pd.Series) -> pd.Series:
    return values.map({value: number(value) for value in values.unique()}).astype("float64")


def pixel_problem(text: str, base: int = 0) -> str:
    """Say what is wrong with a row or column as the file has it; empty text where nothing is."""
    if not text:
        return "is empty"
    value = number(text)
    if not math.isfinite(value) or value != math.floor(value):
        return f"{text!r} is not a whole number of pixels"
    if not base <= value <= LARGEST:
        return f"{text!r} must be at least {base}" if value < base else f"{text!r} is larger than any image"
    return ""


def ungroup(values: pd.Series) -> tuple[pd.Series, str]:
    """Read whole numbers with a sign between their thousands, and say so: ``1,250`` beside ``950`` is 1250.

    Where other values do not bear that out, ``1,000`` may also be 1 with decimals: it is made no number at all.
    """
    grouped = {value for value in values.unique() if GROUPED.fullmatch(value)}
    if not grouped:
        return values, ""
    rest = [value for value in values.unique() if value and value not in grouped]
    if rest and all(re.fullmatch(r"\d{1,3}", value) for value in rest):
        one = next(value for value in values if value in grouped)
        whole = re.sub("[.,]", "", one)
        return each(values, lambda value: re.sub("[.,]", "", value) if value in grouped else value), (
            f"{one!r} and others like it were read with a sign between thousands, as {whole}"
        )
    if not rest and all(re.fullmatch(r"\d+[.,]000", value) for value in grouped):
        return values, ""  # whole numbers with three decimals
    return each(values, lambda value: f"{value} (thousands, or decimals?)" if value in grouped else value), ""


def degree_problem(text: str, limit: int) -> str:
    """Say what is wrong with a latitude (`limit` 90) or longitude (180); empty text where nothing is."""
    value = number(text or "0")
    if math.isnan(value):
        return f"{text!r} is not in decimal degrees"
    return "" if abs(value) <= limit else f"{text!r} must be between {-limit} and {limit}"


def pseudonym(name: str) -> str:
    """Replace a personal name by ``person-`` and 8 hexadecimal digits, the same for the same name everywhere.

    Case and spaces do not count.
    CoralNet's own annotators, `robot` and `Imported`, stay. The digits keep names out of tables and figures; they do
    not hide a person from somebody who guesses the name and hashes it.
    """
    plain = " ".join(name.lower().split())
    if not plain or plain in NOT_PEOPLE or re.fullmatch(r"person-[0-9a-f]{8}", plain):  # read back, it stays the same
        return name
    return f"person-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"


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


def hide(values: pd.Series, options: Options) -> pd.Series:
    """Replace the names of people by pseudonyms, unless `names` is asked for."""
    if options.names:
        return values
    hidden = each(values, pseudonym)
    changed = values[hidden.ne(values)].unique()
    options.people.update({name: pseudonym(name) for name in changed})
    return hidden


def without_people(frame: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Replace the names that stand in columns of people wherever a further text, such as a remark, names them too.

    A name is taken for one as a whole, in any case, where it has two words and four letters, or six letters: else a
    person called Reef or Sand would change what others wrote. Names of images, labels and places stay.

    Parameters
    ----------
    frame : DataFrame
        What a reader gave.
    options : Options
        Its ``people`` are the names.

    Returns
    -------
    DataFrame
    """
    by_first: dict[str, list[list[str]]] = {}
    for name in options.people:
        letters = 0 if name.casefold() in NOBODY else sum(map(str.isalpha, name))
        if letters >= 6 or (letters >= 4 and len(name.split()) > 1):
            by_first.setdefault(WORD.findall(name.casefold())[0], []).append(name.split())
    if not by_first:
        return frame

    instead = cache(pseudonym)

    @cache
    def any_of(words: frozenset) -> re.Pattern:
        some = sorted((parts for word in words for parts in by_first[word]), key=lambda parts: -len(" ".join(parts)))
        several = "|".join(r"\s+".join(map(re.escape, parts)) for parts in some)
        return re.compile(rf"(?<!\w)(?:{several})(?!\w)", re.IGNORECASE)

    def clean(text: str) -> str:  # one pattern of all names would be slow where there are many
        words = by_first.keys() & WORD.findall(text.casefold())
        return any_of(frozenset(words)).sub(lambda found: instead(found[0]), text) if words else text

    for name in frame:
        if frame[name].dtype == "str" and name not in {*tables.COLUMNS["annotations"], *NO_REMARKS}:
            told = {text: clean(text) for text in frame[name].dropna().unique()}
            if any(text != new for text, new in told.items()):
                frame[name] = frame[name].map(told).astype("str")
    return frame


def hide_mails(values: pd.Series, options: Options) -> pd.Series:
    """Replace every e-mail address within texts by its pseudonym, unless `names` is asked for."""
    if options.names or not values.str.contains("@", regex=False).any():
        return values
    return each(values, lambda text: MAIL.sub(lambda mail: pseudonym(mail[0]), text))


def has_index(head: Head, text: pd.DataFrame) -> bool:
    """Tell whether the first column only numbers the rows: it has no name, and its values rise."""
    if head.header[0].strip() or not len(text):
        return False
    rising = pd.to_numeric(text[0], errors="coerce")
    return bool(rising.notna().all() and rising.is_unique and rising.is_monotonic_increasing)


def _standard(name: str, values: pd.Series) -> pd.Series | None:
    """Convert a column that has one meaning in every table; None where its values do not have it."""
    if name == "depth":
        return numbers(each(values, lambda text: text if (found := METRES.fullmatch(text)) is None else found[1]))
    if name in ("width", "height"):
        wrong = each(values[values.ne("")], pixel_problem).ne("").any()
        return None if wrong else numbers(values).astype("Int64")
    if name == "labelled_by":
        return values.where(values.ne("")) if values.isin(["person", "machine", ""]).all() else None
    return numbers(values)  # the score of a machine


def plain_number(text: str) -> str:
    """Write a number as Python does, whole ones without a point; a text that is not written so says more."""
    return repr(number(text)).removesuffix(".0") if text else ""


def extras(
    head: Head, sheet: Sheet, used: set[int], options: Options, named: dict[int, str] | None = None
) -> dict[str, pd.Series]:
    """Name the further columns: snake_case, empty values missing, people's names replaced; an index is left out.

    ``depth`` (metres), ``width``, ``height`` (pixels) and ``labelled_by`` have one meaning in every table: where a text
    says more than that, it is kept as ``depth_in_file``, and so on. `named` says what columns at some positions are
    called; ``used`` ones are left out.
    """
    found, named = {}, named or {}
    if has_index(head, sheet.frame):
        used = {0, *used}
    for position in sorted(range(len(head.header)), key=lambda at: at not in named):
        title, values = named.get(position, head.header[position]), sheet.frame[position]
        if position in used or (not title.strip() and values.eq("").all()):
            continue
        name = plain = snake(title) or f"unnamed_{position + 1}"
        if name in tables.COLUMNS["annotations"] and name not in FREE:
            name = plain = f"{name}_in_file"
        number_, kept = 2, None
        while name in found:
            name, number_ = f"{plain}_{number_}", number_ + 1
        if name in ("depth", "width", "height", "labelled_by") or plain == "score" or "machine_confidence" in plain:
            kept = _standard(name, values)
            exact = kept is not None and each(values, plain_number).eq(values)
            if kept is not None:
                found[name], options.titles[name] = kept, title
            if plain == "score" or "machine_confidence" in plain or (name == "labelled_by" and kept is not None):
                continue
            if kept is not None and exact.all():
                continue
            options.titles.pop(name, None)
            name = f"{name}_in_file"
        values = hide(values, options) if PERSON.search(plain) else hide_mails(values, options)
        found[name], options.titles[name] = values.where(values.ne("")), title
    return found


def build(
    head: Head,
    sheet: Sheet,
    given: dict[str, tuple[str, pd.Series]],
    further: dict[str, pd.Series],
    options: Options,
    out: pd.Series | None = None,
    fixed: bool = True,
) -> Result:
    """Make the annotations table.

    A row without an image, a label, or a row and column that are whole numbers of pixels is left out, reported and
    counted. A latitude or longitude that cannot be used is left empty and reported; the point stays.

    Parameters
    ----------
    head, sheet
        The file.
    given : dict
        ``image``, ``row``, ``column``, ``label_raw`` and, where the file has them, ``source``, ``latitude``,
        ``longitude`` -> the title in the file, and the values as text.
    further : dict of Series
        Further columns, by their names in the result.
    options : Options
    out : Series of str, optional
        Why the reader leaves a row out, ``""`` where it does not. Such a row is counted and not looked at again.
    fixed : bool
        The format says what rows and columns count from: 0 here. Otherwise `Options.base` says it, and rows and columns
        that seem to count from 1 are reported.
    """
    problems, left_out = list(sheet.problems), Counter(sheet.left_out)
    out = pd.Series("", index=sheet.frame.index, dtype="str") if out is None else out
    base, asked = 0 if fixed else options.base or 0, out.eq("")
    for name in ("row", "column"):
        title, values = given[name]
        values, text = ungroup(values)
        given = given | {name: (title, values)}
        problems += [(None, title, text)] if text else []
    for name, why in REASONS.items():
        title, values = given[name]
        judge = {"image": _empty_problem, "label_raw": _lost_problem}.get(
            name, lambda value: pixel_problem(value, base)
        )
        sentences = each(values, judge)
        wrong = (sentences.ne("") & asked).to_numpy()
        problems += zip(sheet.lines[wrong].tolist(), [title] * wrong.sum(), sentences[wrong], strict=True)
        out = out.mask(wrong & out.eq("").to_numpy(), why)
    left_out.update(out[out.ne("")])
    between = pd.concat([numbers(given[name][1][asked]) for name in ("row", "column")], axis=1)
    lost = int((between.mod(1) > 0).any(axis=1).sum())
    if not fixed and 2 * lost > len(between):
        what = "are parts of a photo, not pixels" if (between.abs() <= 1).all(axis=None) else "lie between two pixels"
        do = "a column map reads them: units: fraction" if what.startswith("are") else "a column map rounds them down"
        problems.append((None, "", f"the positions of {counted(lost, 'row')} {what}; {do}"))
    good = out.eq("").to_numpy()
    options.titles |= {name: title for name, (title, _) in given.items()}
    options.titles = dict(sorted(options.titles.items(), key=lambda item: _position(head, item[1])))
    stem = head.path.stem
    source = pd.Series(options.source or stem, index=sheet.frame.index, dtype="str")
    if "source" in given and not options.source:
        source = given["source"][1].replace("", stem)
    found = {"source": source, "image": given["image"][1], "label_raw": given["label_raw"][1]}
    for name in ("row", "column"):
        found[name] = numbers(given[name][1].where(good, "0")).astype("int64") - base
    for name, limit in (("latitude", 90), ("longitude", 180)):
        if name in given:
            title, values = given[name]
            sentences = each(values, lambda value, limit=limit: degree_problem(value, limit))
            problems += grouped(values, sheet.lines, title, sentences, ", left empty")
            found[name] = numbers(values.where(sentences.eq(""), ""))
    frame = pd.DataFrame(found | further)[good]
    frame, rest = tables.check(tables.complete(frame), "annotations", sheet.lines[good])
    problems += rest.itertuples(index=False, name=None)
    left_out["a value that the table cannot hold"] += int(good.sum()) - len(frame)
    problems += beyond(frame)
    if not fixed:
        problems += said_base(frame, options)
    elif options.base == 1:
        problems.append((None, "", "base=1 was not applied: this format says itself what positions count from"))
    if not sheet.total:
        problems.append((None, "", "the file has a header and no points"))
    return Result(frame, problems, sheet.total, dict(+left_out))


def cells(head: Head, text: pd.DataFrame, *keys: str) -> pd.Series:
    """Give the first of these columns that is there, as text; empty text where none is."""
    at = head.first(*keys)
    return pd.Series("", index=text.index, dtype="str") if at is None else text[at]


def titled(head: Head, text: pd.DataFrame, **keys: str) -> dict[str, tuple[str, pd.Series]]:
    """Give those of these columns that are there with their titles, as `build` takes them."""
    at = {name: head.first(one) for name, one in keys.items()}
    return {name: (head.header[i].strip(), text[i]) for name, i in at.items() if i is not None}


def scaled(
    head: Head,
    sheet: Sheet,
    options: Options,
    images: pd.Series,
    given: dict[str, tuple[str, pd.Series]],
    out: pd.Series,
    whole: int = 1,
) -> tuple[dict[str, tuple[str, pd.Series]], pd.DataFrame, pd.Series]:
    """Turn the rows and columns of `given` from parts of a photo's sides into whole pixels.

    Parameters
    ----------
    head, sheet, options
    images : Series of str
        The photo of each row; its size is found by `Options.sized`.
    given : dict
        ``row`` and ``column`` -> title in the file, and values as text, from 0 to `whole`.
    out : Series of str
        Why a row is left out already.
    whole : int
        What stands for a whole side: 1, or 100 for percents.

    Returns
    -------
    given : dict
        The same with pixels; problems are put into the sheet.
    sizes : DataFrame
        ``width`` and ``height`` of each row.
    out : Series of str
        With the rows of photos of unknown size, and of positions that are no such parts.

    Raises
    ------
    ReefcoreError
        Where no size is known at all.
    """
    sizes, asked, titles = options.sized(images), out.eq("") & images.ne(""), [title for title, _ in given.values()]
    lacks = sizes.isna().any(axis=1) & asked
    if asked.any() and lacks.sum() == asked.sum():
        what = f"{' and '.join(reversed(titles))} are parts of the photo's width and height, and its size is not known"
        do = "give --size 4000x3000 or, in Python, size=(4000, 3000) or sizes=, a table; a site measures its photos"
        raise ReefcoreError(what, head.path, do)
    if lacks.any():
        names = images[lacks].unique()
        said = f"the size of {counted(len(names), 'photo')} is not known: {counted(lacks.sum(), 'point')} left out"
        sheet.problems.append((None, "", f"{said}, first those of {names[0]!r}"))
    out = out.mask(lacks, "a point of a photo of unknown size")
    found = {}
    for (name, (title, values)), side in zip(given.items(), ("height", "width"), strict=True):
        parts = numbers(values) / whole
        parts = parts.where(~parts.between(-EDGE, 1 + EDGE), parts.clip(0, 1))
        wrong = ~parts.between(0, 1) & out.eq("")
        sentences = each(values, lambda text: f"{text!r} is not between 0 and {whole}").where(wrong, "")
        sheet.problems += grouped(values, sheet.lines, title, sentences)
        out = out.mask(wrong, f"no usable {name}")
        last = sizes[side].fillna(1) - 1  # a part of 1 lies in the last pixel
        pixels = np.floor(parts.where(out.eq(""), 0) * sizes[side].fillna(1)).clip(upper=last)
        found[name] = title, pixels.astype("int64").astype("str")
    return found, sizes, out


def named_apart(
    images: pd.Series, source: pd.Series, identity: pd.Series, *before: pd.Series
) -> tuple[pd.Series, list[tuple]]:
    """Tell image names apart that stand for several images of a source, by the first of the texts `before` that does.

    Parameters
    ----------
    images, source, identity : Series of str
        The names; their sources; what identifies each image in the file (where it is empty the name does).
    *before : Series of str
        What may be put before a name, as a folder.

    Returns
    -------
    images : Series of str
    problems : list of (line, column, problem)
    """
    table = pd.DataFrame({"source": source, "image": images, "identity": identity})
    once = table.drop_duplicates()
    alike = once[once.duplicated(["source", "image"], keep=False)].groupby(["source", "image"]).size()
    if alike.empty:
        return images, []
    several = pd.MultiIndex.from_frame(table[["source", "image"]]).isin(alike.index)
    for text in before:
        told = images.mask(several, text + "/" + images)
        if table.assign(image=told).drop_duplicates().duplicated(["source", "image"]).sum() == 0:
            break
    what = (
        f"{len(alike):,} image names stand for several images each; they were told apart as {told[several].iloc[0]!r}"
    )
    return told, [(None, "", what)]


def _position(head: Head, title: str) -> int:
    return next((i for i, name in enumerate(head.header) if name.strip() == title.strip()), -1)


def beyond(frame: pd.DataFrame) -> list[tuple]:
    """Make the problem of points that lie outside their photo, by the size that the file states."""
    if not {"width", "height"} <= set(frame):
        return []
    wrong = frame[(frame["row"] >= frame["height"]).fillna(False) | (frame["column"] >= frame["width"]).fillna(False)]
    if wrong.empty:
        return []
    one = wrong.iloc[0]
    text = f"{counted(len(wrong), 'point')} outside the photo, first row {one['row']}, column {one['column']} of "
    return [(None, "", f"{text}{one['image']!r} ({one['width']} x {one['height']} pixels); kept as in the file")]


def labelled_by(frame: pd.DataFrame) -> pd.Series:
    """Tell who gave each label: ``person``, ``machine``, or missing where the file does not say.

    The column ``labelled_by`` says it; otherwise the annotator: CoralNet's ``robot`` is a machine, any other name and
    ``Imported`` (labels that somebody uploaded) is a person.

    Parameters
    ----------
    frame : DataFrame
        Annotations.

    Returns
    -------
    Series of str
        With the index of `frame`.
    """
    said = pd.Series(None, index=frame.index, dtype="str")
    if "annotator" in frame:
        who = frame["annotator"].astype("str").str.strip().str.lower()
        said = said.mask(who.notna() & who.ne(""), "person").mask(who.eq("robot").fillna(False), "machine")
    return frame["labelled_by"].astype("str").fillna(said) if "labelled_by" in frame else said


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


def _lost_problem(text: str) -> str:
    return f"{text!r} is what a spreadsheet left of a label" if text.lower() in LOST else _empty_problem(text)


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


def telling(frame: pd.DataFrame, exact: pd.DataFrame, kept: Collection[str] = ()) -> list[str]:
    """Name the further columns that tell where photos were taken, by their name or by what stands in them.

    Parameters
    ----------
    frame : DataFrame
        Annotations.
    exact : DataFrame
        ``latitude`` and ``longitude`` of the same rows in degrees, before they are rounded or left out.
    kept : collection of str
        Columns that are not looked at, beside those of the annotations table.

    Returns
    -------
    list of str
        Columns called a position, columns of which more than half of the numbers are the row's latitude or longitude
        to 0.005 degree, and texts that hold both.
    """
    exact = exact[["latitude", "longitude"]].abs()
    further = [name for name in frame if name not in tables.COLUMNS["annotations"] and name not in kept]
    return [name for name in further if PLACE.search(name) or _tells(frame[name], exact)]


def _tells(values: pd.Series, exact: pd.DataFrame) -> bool:
    """Tell whether a further column holds the positions of its rows, as a remark or under a name of its own may."""
    if not (values.dtype == "str" or pd.api.types.is_float_dtype(values)) or exact.isna().all(axis=None):
        return False
    single = pd.to_numeric(values, errors="coerce").abs()
    near = exact.sub(single, axis=0).abs().lt(0.005).any(axis=1)
    if 2 * near.sum() > values.notna().sum() > 0:
        return True
    rows = exact.assign(text=values)[values.notna() & single.isna()].dropna().drop_duplicates()
    numbers = rows["text"].str.extractall(r"(\d+\.\d{2,})")[0].astype("float64") if len(rows) else single[:0]
    near = {name: (numbers - rows[name].reindex(numbers.index, level=0)).abs() < 0.005 for name in exact}
    return bool(len(numbers) and pd.DataFrame(near).groupby(level=0).any().all(axis=1).any())


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
