"""From bytes to rows: what a file is, how its text is encoded, and its records with the lines they stand on.

Everything here is about files, nothing about corals. A line ends with LF, CR LF, CR, or CR CR LF (what a CR LF file
becomes when it passes through a program that adds a CR), and each of these counts as one line.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zipfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError

HEAD = 1 << 20  # bytes and characters read at a time, and enough of a file to tell its format
LONGEST = 50  # lines that one quoted value may run over; beyond this its quotation mark was never closed
MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"II*\0": "a TIFF image",
    b"MM\0*": "a TIFF image",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls)",
    b"\x1f\x8b": "a compressed file (gzip)",
    b"PAR1": "a Parquet table",
}
ANNOTATIONS = "give the file of annotations: a CSV, an xlsx"
REMEDY = {
    "an old Excel workbook (.xls)": "save it as .xlsx or as CSV",
    "a compressed file (gzip)": "unpack it first",
    "a Parquet table": "read it with reefcore.files.read_parquet",
}
ENDS = re.compile("\r+\n|\r|\n")
# Letters and signs that names in Latin script do contain, lower case above all: what tells Mac Roman from Windows-1252.
USUAL = set("áàâäãåçéèêëíìîïñóòôöõúùûüýÿæøœß°²³µ±×–—’‘“”…")
UNCLOSED = "a quotation mark is never closed, or stands inside a quoted value"


def key(name: str) -> str:
    """Reduce a column name to its letters and digits, so that ``Height (cm)`` and ``Height..cm.`` are the same."""
    return re.sub(r"[\W_]+", "", name.casefold())


def snake(name: str) -> str:
    """Turn a column name into snake_case: ``Date annotated`` becomes ``date_annotated``."""
    return re.sub(r"[\W_]+", "_", name).strip("_").lower()


def is_blank(cells: Iterable[str]) -> bool:
    """Tell whether a record has no value at all."""
    return not any(cell.strip() for cell in cells)


@dataclass
class Head:
    """The beginning of a file, enough to recognise its format.

    Attributes
    ----------
    path : Path
    kind : {'text', 'workbook', 'zip', 'json'}
    start : str
        The first characters of a text file.
    header : list of str
        The column names as the file has them.
    delimiter : str
    """

    path: Path
    kind: str
    start: str = ""
    header: list[str] = field(default_factory=list)
    delimiter: str = ","

    @cached_property
    def columns(self) -> dict[str, int]:
        """`key` of each column name -> its position; the first of equal names counts, unnamed ones are left out."""
        found = {}
        for position, name in enumerate(self.header):
            found.setdefault(key(name), position)
        found.pop("", None)
        return found

    def has(self, *keys: str) -> bool:
        """Tell whether all these columns are there."""
        return all(name in self.columns for name in keys)

    def first(self, *keys: str) -> int | None:
        """Return the position of the first of these columns that is there."""
        return next((self.columns[name] for name in keys if name in self.columns), None)


def look(path: str | Path) -> Head:
    """Look at the beginning of a file.

    Raises
    ------
    ReefcoreError
        Where it is missing, a folder, empty, or nothing that can hold a table of points: an image, a web page, ...
    """
    path = Path(path)
    if path.is_dir():
        raise ReefcoreError("this is a folder", path, "name the files in it")
    try:
        with open(path, "rb") as handle:
            start = handle.read(HEAD)
    except FileNotFoundError:
        raise ReefcoreError("this file does not exist", path, "check the path") from None
    except OSError as error:
        raise ReefcoreError(f"this file cannot be opened ({error.strerror})", path) from None
    if not start.strip():
        raise ReefcoreError("this file is empty", path, "export it, or copy it, again")
    for magic, name in MAGIC.items():
        if start.startswith(magic):
            raise ReefcoreError(f"this is {name}, not a table of points", path, REMEDY.get(name, ANNOTATIONS))
    if start.startswith(b"PK"):
        return _look_zip(path)
    if not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in start:
        raise ReefcoreError("this is a binary file, not a table of points", path, ANNOTATIONS)
    text = start.decode(scan(path, HEAD).encoding, errors="replace")
    if re.match(r"\s*<(!doctype|html|\?xml|head|body)", text, re.IGNORECASE):
        raise ReefcoreError(
            "this is a web page, not a table: the download met a login or an error page",
            path,
            "sign in and download again",
        )
    if re.match(r"\s*[\[{]", text):
        return Head(path, "json", text)
    first = next((line for line in ENDS.split(text) if line.strip(' \t,;"')), "")
    delimiter = max(",;\t", key=first.count)
    return Head(path, "text", text, _split(first, delimiter) or first.split(delimiter), delimiter)


def _look_zip(path: Path) -> Head:
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(archive.namelist())
            if "xl/workbook.xml" in names:
                rows = (cells for _, cells, _ in _workbook_records(path) if not is_blank(cells))
                return Head(path, "workbook", header=next(rows, []))
            tables = [name for name in names if name.lower().endswith(".csv")]
            with archive.open(tables[0]) if tables else io.BytesIO() as table:
                first = table.read(HEAD).decode("utf-8-sig", errors="replace").split("\n")[0].strip()
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise ReefcoreError(f"this zip file or workbook is damaged ({error})", path, "copy it again") from None
    except zipfile.zlib.error as error:
        raise ReefcoreError(f"this zip file is damaged ({error})", path, "copy it again") from None
    return Head(path, "zip", header=_split(first, ",") or [])


def _split(line: str, delimiter: str) -> list[str] | None:
    """Split one record; None where its quotation marks do not fit."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


@dataclass
class Scan:
    """What one pass over the bytes of a text file tells.

    Attributes
    ----------
    encoding : str
        A Python codec.
    example : str
        Where the bytes are not UTF-8: a piece of text with a letter that this encoding explains.
    lines : int
        Lines, the header included.
    plain : bool
        UTF-8, and every line ends in LF or CR LF.
    """

    encoding: str
    example: str
    lines: int
    plain: bool


def scan(path: Path, limit: int | None = None) -> Scan:
    """Find the encoding of a text file, by its first `limit` bytes or by all, and count its lines."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, odd, pieces, done, newlines, last, mark = True, False, [], 0, 0, b"\n", b""
    with open(path, "rb") as handle:
        while (limit is None or done < limit) and (chunk := handle.read(8 * HEAD if limit is None else limit)):
            if chunk.endswith(b"\r"):
                chunk += handle.read(1)
            mark, last, done = mark or chunk[:4], chunk[-1:], done + len(chunk)
            newlines += chunk.count(b"\n")
            odd = odd or chunk.count(b"\r\n") != chunk.count(b"\r")
            if chunk.isascii() and not decoder.getstate()[0]:
                continue
            try:
                utf8 = utf8 and decoder.decode(chunk) is not None
            except UnicodeDecodeError:
                utf8 = False
            if len(pieces) < 1000:
                pieces += re.findall(rb"[^\r\n,;\t\"]{0,30}[\x80-\xff][^\r\n,;\t\"]{0,30}", chunk)[:1000]
    if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Scan("utf-16", "", newlines, False)
    if utf8:
        return Scan("utf-8-sig", "", newlines + (last != b"\n"), not odd)
    best = max(("cp1252", "mac_roman"), key=lambda name: sum(_usual(piece, name) for piece in pieces))
    return Scan(best, pieces[0].decode(best, errors="replace").strip(), newlines + (last != b"\n"), False)


def _usual(piece: bytes, encoding: str) -> int:
    """Count the letters that speak for an encoding, less the bytes that it does not have."""
    text = piece.decode(encoding, errors="replace")
    return sum(letter in USUAL for letter in text) - 10 * text.count("\ufffd")


def lines_of(path: Path, encoding: str) -> Iterator[str]:
    """Give the lines of a text file without their ends, a piece at a time."""
    rest = ""
    with open(path, encoding=encoding, errors="replace", newline="") as handle:
        while chunk := handle.read(HEAD):
            text = rest + chunk
            body = text.rstrip("\r")  # a CR at the end may be half of a CR LF
            *whole, rest = ENDS.split(body)
            rest += text[len(body) :]
            yield from whole
    *whole, rest = ENDS.split(rest)
    yield from whole
    if rest:
        yield rest


def records(lines: Iterable[str], delimiter: str, width: int) -> Iterator[tuple[int, list[str] | None, str]]:
    """Join lines to records and split these into cells.

    An unclosed quotation mark costs the one line it stands on, not the rest of the file.

    Yields
    ------
    line : int
        1-based line on which the record begins.
    cells : list of str, or None
        As many as the record has; None where it cannot be split.
    problem : str
        Why not.
    """
    numbered, waiting = enumerate(lines, 1), deque()
    while item := (waiting.popleft() if waiting else next(numbered, None)):
        line, text = item
        cells = _split(text, delimiter)
        held, quotes = [item], text.count('"')
        while cells is None and len(held) < LONGEST:
            item = waiting.popleft() if waiting else next(numbered, None)
            if item is None:
                break
            held.append(item)
            quotes += item[1].count('"')
            if quotes % 2 == 0:
                cells = _split("\n".join(part for _, part in held), delimiter)
                if cells is not None and fit(cells, width) is None:
                    cells = None
        if cells is None:
            waiting.extendleft(reversed(held[1:]))
        yield line, cells, "" if cells is not None else UNCLOSED


def fit(cells: list[str], width: int, needed: int | None = None) -> list[str] | None:
    """Give a record the width of the header; None where it has fewer cells, or more that are not all empty.

    Only cells of unnamed columns at the end, those from `needed` on, may lack.
    """
    if len(cells) < (width if needed is None else needed) or not is_blank(cells[width:]):
        return None
    return cells[:width] + [""] * (width - len(cells))


def _workbook_records(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """Give the rows of the first worksheet that has any, as text."""
    import openpyxl

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            for sheet in book.worksheets:
                begun = False
                for line, row in enumerate(sheet.iter_rows(values_only=True), 1):
                    cells = ["" if value is None else str(value) for value in row]
                    begun = begun or not is_blank(cells)
                    if begun:
                        yield line, cells, ""
                if begun:
                    return
        finally:
            book.close()
    except Exception as error:  # openpyxl lets through whatever a damaged archive or its XML makes fail
        raise ReefcoreError(f"this workbook cannot be read ({error})", path, "save it again, or as CSV") from None


class Records:
    """The records after the header that have its width, as ``(line, cells)``; what is wrong with the others is kept.

    Attributes
    ----------
    problems : list of (line, column, problem)
    total : int
        Records that hold data, broken ones included, blank ones not.
    """

    def __init__(self, head: Head):
        self.head, self.problems, self.total = head, [], 0

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        head, width = self.head, len(self.head.header)
        needed = max((i + 1 for i, name in enumerate(head.header) if name.strip()), default=0)
        rows = _workbook_records(head.path) if head.kind == "workbook" else self._text_records(width)
        is_header, blank = True, []
        for line, cells, problem in rows:
            if cells is not None and is_blank(cells):
                blank.append(line)
                continue
            if is_header:
                is_header, blank = False, []
                continue
            if blank:  # only now is it known that data follow
                many = "1 blank row, which is" if len(blank) == 1 else f"{len(blank)} blank rows, which are"
                self.problems.append((blank[0], "", f"{many} not counted as data"))
                blank = []
            self.total += 1
            good = fit(cells, width, needed) if cells is not None else None
            if good is not None:
                yield line, good
            else:
                wrong = problem or f"has {len(cells)} values where the header has {width} columns"
                self.problems.append((line, "", wrong))

    def _text_records(self, width):
        found = scan(self.head.path)
        if found.example:
            name = {"cp1252": "Windows-1252", "mac_roman": "Mac Roman"}[found.encoding]
            text = f"the text is not UTF-8; it was read as {name} (for example {found.example!r})"
            self.problems.append((None, "", text))
        return records(lines_of(self.head.path, found.encoding), self.head.delimiter, width)


@dataclass
class Sheet:
    """A whole table as text.

    Attributes
    ----------
    frame : DataFrame
        One column per column of the file, numbered from 0; stripped text, ``""`` where empty.
    lines : array of int
        The line of the file that each row begins on.
    problems, total
        As those of `Records`.
    """

    frame: pd.DataFrame
    lines: np.ndarray
    problems: list[tuple]
    total: int


def load(head: Head) -> Sheet:
    """Read a whole table as text."""
    found, lines, rows = Records(head), [], []
    for line, cells in found:
        lines.append(line)
        rows.append([cell.strip() for cell in cells])
    frame = pd.DataFrame(rows, columns=range(len(head.header)), dtype="str")
    return Sheet(frame, np.array(lines, dtype="int64"), found.problems, found.total)
