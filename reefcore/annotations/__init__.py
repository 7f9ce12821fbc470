"""Reading annotations: a file of any known format becomes the annotations table.

=========================  ==========================================================  =======
format                     what it is                                                  module
=========================  ==========================================================  =======
``coralnet``               CoralNet's export of annotations, in every width            coralnet
``coralnet-api``           the results of CoralNet's deploy API                        coralnet
``reefnet-annotator``      the workbook that the ReefNet annotator saves               coralnet
``reefnet-1.0``            ``All_ReefNet_annotations.csv``                             reefnet
``reefnet-al-wajh``        the ReefNet file of the Al-Wajh site                        reefnet
``cpce``                   CPCe's ``.cpc``: a file, a folder or a zip of them          cpce
``reefcloud``              ReefCloud's export of points                                reefcloud
``squidle``                Squidle+'s export of annotations                            squidle
``benthicnet``             BenthicNet's table of CATAMI labels                         domains
``eilat``                  photos with a text file of points beside each               domains
``mermaid-open``           MERMAID's open training data, CSV or Parquet                domains
``coralscapes`` ...        folders of photos with masks: four data sets                masks
``columns``                any other table of points, with a map of its columns        columns
=========================  ==========================================================  =======

BIIGLE, TagLab and MERMAID are read by the modules of their names. Module ``refused`` recognises what holds no points.
The format is told from the content, never from the file's name. A new format is one module with a list ``FORMATS``,
added to the list here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd

from reefcore.annotations import (
    biigle,
    coralnet,
    cpce,
    domains,
    masks,
    mermaid,
    reefcloud,
    reefnet,
    refused,
    squidle,
    taglab,
)
from reefcore.annotations import (
    columns as column_map,
)
from reefcore.annotations.checks import check, check_text
from reefcore.annotations.points import MAIL, Format, Options, Result, by_line, labelled_by, pseudonym, without_people
from reefcore.annotations.reefnet import convert
from reefcore.annotations.sheet import REMEDY, Head, look, lower_headers
from reefcore.errors import ReefcoreError, problems_table

__all__ = ["FORMATS", "check", "check_text", "convert", "labelled_by", "read", "read_covers", "recognise"]

#: All formats; the first that recognises a file is taken.
FORMATS: list[Format] = [
    form
    for module in (reefnet, reefcloud, squidle, biigle, taglab, mermaid, domains, coralnet, cpce, masks, refused)
    for form in module.FORMATS
]
TABLES = (".csv", ".txt", ".tsv", ".xlsx", ".zip", ".json", ".parquet")  # files of a folder that are looked at
NUMBER = re.compile(r"-?\d+(\.\d+)?")
COUNTS = "read it with reefcore.annotations.read_covers, or make a site of it (reefcore site new)"


class _Problems(pd.DataFrame):
    """A table of problems that is equal or not as a whole: pandas compares ``attrs`` so when it joins tables."""

    @property
    def _constructor(self):  # a copy is one too
        return _Problems

    def __eq__(self, other):
        return isinstance(other, pd.DataFrame) and self.equals(other)

    __hash__ = None


def recognise(path: str | Path) -> Format:
    """Tell the format of a file, or of the files in a folder.

    Raises
    ------
    ReefcoreError
        Where it is no readable file, or has no known format.
    """
    head = look(path)
    return _recognise(head)[0] if head.kind != "folder" else _recognise_folder(head)[0]


def _recognise(head: Head) -> tuple[Format, Head]:
    for form in FORMATS:
        if form.fits(head):
            return form, head
    for lower in lower_headers(head):
        for form in FORMATS:
            if form.read and form not in reefnet.FORMATS and form.fits(lower):
                return form, lower
    if head.kind == "parquet":
        raise ReefcoreError("this is a Parquet table, not a table of points", head.path, REMEDY["a Parquet table"])
    do = "a file of points has at least the columns Name, Row, Column and Label, or say which of its columns is which "
    do += "(columns in site.yaml, or --columns): {image: Photo, row: Y, column: X, label: Code}"
    if head.kind == "json":
        do = "export the annotations as CSV instead; of JSON only TagLab's projects are read"
        raise ReefcoreError("this is a JSON file of no format that reefcore knows", head.path, do)
    if head.kind == "zip" and not head.names:
        raise ReefcoreError("this zip file is empty", head.path, "export it again")
    if head.kind == "zip":
        raise ReefcoreError("this is a zip file of no format that reefcore knows", head.path, "unpack it first")
    if len(head.header) < 2:
        first = head.start.strip().split("\n")[0].strip()
        if len(first.strip('"').split(",")) > 3 and first.count('"') == 2:
            do = (
                "each line is one value in quotes: in Excel, split the column (Data, Text to Columns) and save it again"
            )
        elif len(first.split()) > 3 and column_map.proposal(replace(head, header=first.replace('"', "").split())):
            do = "blanks stand between its values: save it with commas (in R, with write.csv)"
        raise ReefcoreError(f"this is not a table of points; it begins with {first[:60]!r}", head.path, do)
    if sum(bool(NUMBER.fullmatch(name.strip())) for name in head.header) >= 2:
        do = "its first line seems to hold data: put a line of column names above it, such as Name,Row,Column,Label"
    names = ", ".join(repr(name.strip()[:40]) for name in head.header[:8])
    names += f" and {len(head.header) - 8} more" if len(head.header) > 8 else ""
    do = column_map.proposal(head) or do
    raise ReefcoreError(f"no format that reefcore knows has the columns {names}", head.path, do)


def _recognise_folder(head: Head, covers: bool | None = None) -> tuple[Format, list[Head], list[tuple]]:
    """Tell the one format of the files in a folder: the format, the heads of its files, and what is not read."""
    for form in FORMATS:
        if form.fits(head):
            others = sum(Path(name).suffix.lower() in TABLES for name in head.names)
            text = f"{others:,} tables in this folder were not looked at: it was taken for {form.title}"
            return form, [head], [(None, "", text)] if others else []
    found, problems = {}, []
    for name in head.names:
        if Path(name).suffix.lower() in TABLES:
            try:
                form, one = _recognise(look(head.path / name))
                if form.read:
                    found.setdefault(form.name, (form, []))[1].append(one)
                    continue
                problems.append((None, "", f"{name} was passed over: this is {form.title}"))
            except ReefcoreError as error:
                problems.append((None, "", f"{name} was passed over: {error.what}"))
    kept = {name: pair for name, pair in found.items() if covers is None or pair[0].covers == covers} or found
    if len(kept) > 1:
        several = "; ".join(f"{name}: {heads[0].path.name}" for name, (_, heads) in kept.items())
        raise ReefcoreError(f"this folder holds files of several formats ({several})", head.path, "name the files")
    if not kept:
        what = problems[0][2] if problems else f"it has {len(head.names):,} files, none of them a table"
        raise ReefcoreError(f"this folder holds no file of annotations ({what})", head.path, "name the file")
    for name in found.keys() - kept.keys():
        problems += [
            (None, "", f"{one.path.name} was passed over: it is {found[name][0].title}") for one in found[name][1]
        ]
    return *next(iter(kept.values())), problems


def read(
    path: str | Path,
    *,
    source: str | None = None,
    format: str | None = None,
    names: bool = False,
    unmangle: bool = False,
    base: int | None = None,
    columns: dict | str | Path | None = None,
    size: tuple[int, int] | str | None = None,
    sizes: pd.DataFrame | None = None,
    points: str = "centroid",
    sample: int = 100,
    seed: int = 0,
) -> pd.DataFrame:
    """Read point annotations of any known format into the annotations table.

    Parameters
    ----------
    path : path
        A file, a folder of ``.cpc`` files, or a folder of files of one format.
    source : str, optional
        The name of the source, for all rows; by default what the file says, or its name without the ending.
    format : str, optional
        One of the formats above, for a file that is not recognised.
    names : bool
        Keep the names and e-mail addresses of people; by default ``person-`` and 8 hexadecimal digits stand for each,
        also where a remark names somebody whom a column of people of the file names.
    unmangle : bool
        Undo what R made of labels (``X.MOEN`` from ``*MOEN``, ``A.B`` from ``A-B``); by default they are only reported.
    base : {0, 1}, optional
        What rows and columns count from in the file. By default 0, as CoralNet counts, and a file that seems to count
        from 1 is reported. With 1, one is subtracted.
    columns : dict or path, optional
        Which column of a plain table is which; see `reefcore.annotations.columns`.
    size : (int, int) or str, optional
        Width and height of every photo in pixels, also as 4000x3000, for formats that give positions as fractions.
    sizes : DataFrame, optional
        The same for each photo: ``image``, ``width``, ``height``.
    points : {'centroid', 'sample', 'classes'}
        How regions become points: one inside each, or `sample` random ones (TagLab: over the whole image). Of masks
        `sample` are drawn in any case: over all that is labelled or, with ``classes``, as many of each class.
    sample : int
    seed : int

    Returns
    -------
    DataFrame
        The table ``annotations`` of `reefcore.tables` with the file's further columns in snake_case. ``attrs`` has
        ``format``, ``rows`` (records of data in the file), ``read`` (records that the table represents), ``left_out``
        (reason -> records that it does not; with ``read`` they add up to ``rows``), ``titles`` (column -> its title in
        the file) and ``problems`` (line, column, problem). pandas' ``to_parquet`` cannot store a table in ``attrs``;
        `reefcore.files.write_parquet` leaves it out.

    Raises
    ------
    ReefcoreError
        Where the file is refused: no file, no points, a format that is unknown, or columns that lack.

    Examples
    --------
    >>> annotations = read("annotations.csv", source="My reef")  # doctest: +SKIP
    >>> annotations.attrs["problems"]  # doctest: +SKIP
    """
    if base not in (None, 0, 1):
        raise ReefcoreError(f"base is {base!r}", do="rows and columns count from 0 or from 1")
    if points not in ("centroid", "sample", "classes"):
        raise ReefcoreError(f"points is {points!r}", do="use centroid, sample or classes")
    options = Options(source, names, unmangle, base, None, size, sizes, points, sample, seed)
    options.check_sizes()
    if columns is not None:
        options.columns = column_map.load(columns)
        format = format or "columns"
    return _read(path, options, format, False)


def read_covers(
    path: str | Path, *, source: str | None = None, format: str | None = None, names: bool = False
) -> pd.DataFrame:
    """Read counts or percent covers that have no points: MERMAID, or CoralNet's percent covers.

    Parameters
    ----------
    path, source, format, names
        As for `read`.

    Returns
    -------
    DataFrame
        One row per sample unit and label: ``source``, ``unit``, ``date``, ``site``, ``transect``, ``depth``,
        ``label_raw``, ``count`` (Float64; missing where only a percent is given), ``total``, ``percent``,
        ``life_form``. ``attrs`` as those of `read`.

    Raises
    ------
    ReefcoreError
        Where the file is refused, or holds points.
    """
    return _read(path, Options(source=source, names=names), format, True)


def _read(path: str | Path, options: Options, format: str | None, covers: bool) -> pd.DataFrame:
    head, problems = look(path), []
    if format is not None:
        readable = {form.name: form for form in [*FORMATS, *column_map.FORMATS] if form.read and form.covers == covers}
        if format not in readable:
            raise ReefcoreError(f"{format!r} is not a format that reefcore reads", do=f"use {', '.join(readable)}")
        form, heads = readable[format], [head]
        if head.kind == "folder" and "folder" not in form.kinds:
            heads = [look(head.path / name) for name in head.names if Path(name).suffix.lower() in TABLES]
            if not heads:
                raise ReefcoreError("this folder holds no table of annotations", path, f"put {form.title} there")
        for one in heads:
            if one.kind not in form.kinds:
                raise ReefcoreError(f"this {one.kind} file is not a table of points", one.path, "give a CSV or an xlsx")
    elif head.kind == "folder":
        form, heads, problems = _recognise_folder(head, covers)
    else:
        form, *heads = _recognise(head)
    if form.read is None:
        raise ReefcoreError(f"this is {form.title}", path, form.do)
    if form.covers and not covers:
        raise ReefcoreError(f"this is {form.title}", path, COUNTS)
    if covers and not form.covers:
        raise ReefcoreError(f"this is {form.title}: it holds points", path, "read it with reefcore.annotations.read")
    result = _joined([(one, form.read(one, options)) for one in heads], head)
    frame = without_people(result.frame, options)
    problems = sorted(problems + result.problems, key=by_line)
    frame.attrs = {
        "format": form.name,
        "rows": result.total,
        "read": result.total - sum(result.left_out.values()),
        "left_out": result.left_out,
        "titles": options.titles,
        "problems": _Problems(problems_table(_without_people(problems, options))),
    }
    return frame


def _joined(parts: list[tuple[Head, Result]], folder: Head) -> Result:
    """Make one result of those of the files of a folder; their problems say the file."""
    if (len(parts) == 1 and parts[0][0] is folder) or folder.kind != "folder":
        return parts[0][1]
    problems, left_out = [], Counter()
    for head, result in parts:
        name = head.path.relative_to(folder.path)
        problems += [(line, column, f"{name}: {text}") for line, column, text in result.problems]
        left_out.update(result.left_out)
    frames = [result.frame for _, result in parts]
    frame = pd.concat([one for one in frames if len(one)] or frames[:1], ignore_index=True)
    return Result(frame, problems, sum(result.total for _, result in parts), dict(left_out))


def _without_people(problems: list[tuple], options: Options) -> list[tuple]:
    """Replace the people whose names a problem quotes, as in the table."""
    if options.names:
        return problems
    known = sorted((name for name in options.people if len(name) > 2), key=len, reverse=True)
    quoted = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in known) or r"(?!)")

    def clean(text: str) -> str:
        return MAIL.sub(lambda mail: pseudonym(mail[0]), quoted.sub(lambda name: options.people[name[0]], text))

    return [(line, column, clean(text)) for line, column, text in problems]
