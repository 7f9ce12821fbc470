"""Reading point annotations: a file of any known format becomes the annotations table.

=========================  ==========================================================  =======
format                     what it is                                                  module
=========================  ==========================================================  =======
``coralnet``               CoralNet's export of annotations, in every width            coralnet
``coralnet-api``           the results of CoralNet's deploy API                        coralnet
``reefnet-annotator``      the workbook that the ReefNet annotator saves               coralnet
``reefnet-1.0``            ``All_ReefNet_annotations.csv``                             reefnet
``reefnet-al-wajh``        the ReefNet file of the Al-Wajh site                        reefnet
=========================  ==========================================================  =======

Module ``refused`` recognises what holds no points or is not read yet. The format is told from the content, never from
the file's name. A new format is one module with a list ``FORMATS``, added to the list here.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reefcore.annotations import coralnet, reefnet, refused
from reefcore.annotations.checks import check, check_text
from reefcore.annotations.points import Format, Options, by_line
from reefcore.annotations.reefnet import convert
from reefcore.annotations.sheet import Head, look
from reefcore.errors import ReefcoreError, problems_table

__all__ = ["FORMATS", "check", "check_text", "convert", "read", "recognise"]

#: All formats; the first that recognises a file is taken.
FORMATS: list[Format] = [*reefnet.FORMATS, *coralnet.FORMATS, *refused.FORMATS]


class _Problems(pd.DataFrame):
    """A table of problems that is equal or not as a whole: pandas compares ``attrs`` so when it joins tables."""

    @property
    def _constructor(self):  # a copy is one too
        return _Problems

    def __eq__(self, other):
        return isinstance(other, pd.DataFrame) and self.equals(other)

    __hash__ = None


def recognise(path: str | Path) -> Format:
    """Tell the format of a file.

    Raises
    ------
    ReefcoreError
        Where it is no readable file, or has no known format.
    """
    return _recognise(look(path))


def _recognise(head: Head) -> Format:
    for form in FORMATS:
        if form.fits(head):
            return form
    do = "a file of points has at least the columns Name, Row, Column and Label"
    if head.kind == "json":
        raise ReefcoreError("this is a JSON file of no format that reefcore knows", head.path, do)
    if head.kind == "zip":
        raise ReefcoreError("this is a zip file of no format that reefcore knows", head.path, "unpack it first")
    if len(head.header) < 2:
        first = head.start.strip().split("\n")[0].strip()[:60]
        raise ReefcoreError(f"this is not a table of points; it begins with {first!r}", head.path, do)
    names = ", ".join(repr(name.strip()[:40]) for name in head.header[:8])
    names += f" and {len(head.header) - 8} more" if len(head.header) > 8 else ""
    raise ReefcoreError(f"no format that reefcore knows has the columns {names}", head.path, do)


def read(
    path: str | Path,
    *,
    source: str | None = None,
    format: str | None = None,
    names: bool = False,
    unmangle: bool = False,
    base: int | None = None,
) -> pd.DataFrame:
    """Read point annotations of any known format into the annotations table.

    Parameters
    ----------
    path : path
    source : str, optional
        The name of the source, for all rows; by default what the file says, or its name without the ending.
    format : str, optional
        One of the formats above, for a file that is not recognised.
    names : bool
        Keep the names of annotators and photographers; by default ``person-`` and 8 hexadecimal digits stand for each.
    unmangle : bool
        Undo what R made of labels (``X.MOEN`` from ``*MOEN``, ``A.B`` from ``A-B``); by default they are only reported.
    base : {0, 1}, optional
        What rows and columns count from in the file. By default 0, as CoralNet counts, and a file that seems to count
        from 1 is reported. With 1, one is subtracted.

    Returns
    -------
    DataFrame
        The table ``annotations`` of `reefcore.tables` with the file's further columns in snake_case. ``attrs`` has
        ``format``, ``rows`` (rows of data in the file) and ``problems`` (line, column, problem). pandas' ``to_parquet``
        cannot store a table in ``attrs``; `reefcore.files.write_parquet` leaves it out.

    Raises
    ------
    ReefcoreError
        Where the file is refused: no file, no points, a format that is unknown or not read yet, or columns that lack.

    Examples
    --------
    >>> annotations = read("annotations.csv", source="My reef")  # doctest: +SKIP
    >>> annotations.attrs["problems"]  # doctest: +SKIP
    """
    if base not in (None, 0, 1):
        raise ReefcoreError(f"base is {base!r}", do="rows and columns count from 0 or from 1")
    head = look(path)
    if format is None:
        form = _recognise(head)
    else:
        readable = {form.name: form for form in FORMATS if form.read}
        if head.kind not in ("text", "workbook"):
            raise ReefcoreError(f"this {head.kind} file is not a table of points", path, "give a CSV or an xlsx")
        if format not in readable:
            raise ReefcoreError(f"{format!r} is not a format that reefcore reads", do=f"use {', '.join(readable)}")
        form = readable[format]
    if form.read is None:
        raise ReefcoreError(f"this is {form.title}", path, form.do)
    result = form.read(head, Options(source=source, names=names, unmangle=unmangle, base=base))
    frame = result.frame
    problems = _Problems(problems_table(sorted(result.problems, key=by_line)))
    frame.attrs = {"format": form.name, "rows": result.total, "problems": problems}
    return frame
