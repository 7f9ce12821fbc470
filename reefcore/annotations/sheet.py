"""From bytes to rows: what a file is, how its text is encoded, and its records with the lines they stand on.

Everything here is about files, nothing about corals. A line ends with LF, CR LF, CR, or CR CR LF (what a CR LF file
becomes when it passes through a program that adds a CR), and each of these counts as one line.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import datetime
import io
import itertools
import re
import zipfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError

HEAD = 1 << 20  # bytes and characters read at a time, and enough of a file to tell its format
DELIMITERS = ",;\t|"
TITLES = 5  # lines above the header that are passed over where the header is below them
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
csv.field_size_limit(1 << 30)  # the outline of a region can be longer than the 128 kB that csv allows
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
    kind : {'text', 'workbook', 'zip', 'json', 'parquet', 'folder'}
    start : str
        The first characters of a text file.
    header : list of str
        The column names as the file has them (of a zip file: those of its first CSV).
    delimiter : str
    names : list of str
        The files in a zip file or, with its folders, in a folder, sorted; hidden ones are left out.
    titles : int
        Records above the header that hold something else.
    sheet : str
        The worksheet of a workbook.
    """

    path: Path
    kind: str
    start: str = ""
    header: list[str] = field(default_factory=list)
    delimiter: str = ","
    names: list[str] = field(default_factory=list)
    titles: int = 0
    sheet: str = ""

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
        inside = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
        return Head(path, "folder", names=sorted(str(f) for f in inside if not any(p[0] in ".~" for p in f.parts)))
    try:
        with open(path, "rb") as handle:
            start = handle.read(HEAD)
    except FileNotFoundError:
        raise ReefcoreError("this file does not exist", path, "check the path") from None
    except OSError as error:
        raise ReefcoreError(f"this file cannot be opened ({error.strerror})", path) from None
    if not start.strip():
        raise ReefcoreError("this file is empty", path, "export it, or copy it, again")
    if start.startswith(b"PAR1"):
        if columns := _parquet_columns(path):
            return Head(path, "parquet", header=columns)
        raise ReefcoreError("this Parquet table is damaged, or cut off", path, "download it again")
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
    lines = ENDS.split(text)
    at = next((at for at, line in enumerate(lines) if line.strip(' \t,;"\ufeff')), None)
    if at is None:
        raise ReefcoreError("this file is empty", path, "export it, or copy it, again")
    tries = ("\n".join(lines[at : at + n]) for n in range(1, TITLES + 1))  # a name may have a line break, in quotes
    first = next((line for line in tries if line.count('"') % 2 == 0), lines[at])
    delimiter = max(DELIMITERS, key=first.count)
    return Head(path, "text", text, split(first, delimiter) or first.split(delimiter), delimiter)


def _parquet_columns(path: Path) -> list[str]:
    """Name the columns of a Parquet table; none where it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return []


def lower_headers(head: Head) -> Iterator[Head]:
    """Give the head of a table again with its second, third, ... record as the header, for titles above a table.

    Of a workbook, its further worksheets follow.
    """
    if head.kind == "workbook":
        for sheet, rows in itertools.groupby(workbook_records(head.path), lambda record: record[0]):
            filled = itertools.islice((cells for _, _, cells in rows if not is_blank(cells)), TITLES + 1)
            for titles, cells in enumerate(filled):
                if titles or sheet != head.sheet:
                    yield replace(head, header=cells, titles=titles, sheet=sheet)
        return
    if head.kind == "text":
        rows = (line for line in ENDS.split(head.start) if line.strip(' \t,;"'))
    else:
        return
    for titles, row in enumerate(itertools.islice(rows, 1, TITLES + 1), 1):
        delimiter = max(DELIMITERS, key=row.count)
        yield replace(head, header=split(row, delimiter) or [], delimiter=delimiter, titles=titles)


@contextlib.contextmanager
def unzip(path: Path, do: str, what: str = "this zip file is damaged or locked") -> Iterator[zipfile.ZipFile]:
    """Open a zip file; whatever a damaged or locked one makes fail while it is open is said with `what` and `do`.

    Raises
    ------
    ReefcoreError
    """
    wrong = (OSError, zipfile.BadZipFile, zipfile.zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except wrong as error:
        raise ReefcoreError(f"{what} ({error})", path, do) from None


def _look_zip(path: Path) -> Head:
    with unzip(path, "copy it again", "this zip file or workbook is damaged") as archive:
        names = sorted(archive.namelist())
        if "xl/workbook.xml" in names:
            for sheet, _, cells in workbook_records(path):
                return Head(path, "workbook", header=cells, sheet=sheet)
            raise ReefcoreError("this workbook is empty", path, "save the table of points in it")
        tables = [name for name in names if name.lower().endswith(".csv")]
        try:
            with archive.open(tables[0]) if tables else io.BytesIO() as table:
                first = table.read(HEAD).decode("utf-8-sig", errors="replace").split("\n")[0].strip()
        except zipfile.zlib.error as error:
            raise ReefcoreError(f"this zip file is damaged ({error})", path, "copy it again") from None
    return Head(path, "zip", header=split(first, ",") or [], names=names)


def split(line: str, delimiter: str) -> list[str] | None:
    """Split one record; None where its quotation marks do not fit."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True))
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
    quoted : bool
        A quotation mark stands somewhere.
    """

    encoding: str
    example: str
    lines: int
    plain: bool
    quoted: bool = False


def scan(path: Path, limit: int | None = None) -> Scan:
    """Find the encoding of a text file, by its first `limit` bytes or by all, and count its lines."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, odd, pieces, done, newlines, last, mark, quoted = True, False, [], 0, 0, b"\n", b"", False
    with open(path, "rb") as handle:
        while (limit is None or done < limit) and (chunk := handle.read(8 * HEAD if limit is None else limit)):
            if chunk.endswith(b"\r"):
                chunk += handle.read(1)
            mark, last, done = mark or chunk[:4], chunk[-1:], done + len(chunk)
            newlines, quoted = newlines + chunk.count(b"\n"), quoted or b'"' in chunk
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
        return Scan("utf-8-sig", "", newlines + (last != b"\n"), not odd, quoted)
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
        cells = split(text, delimiter)
        held, quotes = [item], text.count('"')
        while cells is None and len(held) < LONGEST:
            item = waiting.popleft() if waiting else next(numbered, None)
            if item is None:
                break
            held.append(item)
            quotes += item[1].count('"')
            if quotes % 2 == 0:
                cells = split("\n".join(part for _, part in held), delimiter)
                if cells is not None and fit(cells, width) is None:
                    cells = None
        if cells is None:
            waiting.extendleft(reversed(held[1:]))
        yield line, cells, "" if cells is not None else UNCLOSED


def _stripped(cells: Iterable[str]) -> list[str]:
    """Give cells without blanks around them, and without empty ones at the end."""
    found = [cell.strip() for cell in cells]
    while found and not found[-1]:
        found.pop()
    return found


def fit(cells: list[str], width: int, needed: int | None = None) -> list[str] | None:
    """Give a record the width of the header; None where it has fewer cells, or more that are not all empty.

    Only cells of unnamed columns at the end, those from `needed` on, may lack.
    """
    if len(cells) < (width if needed is None else needed) or not is_blank(cells[width:]):
        return None
    return cells[:width] + [""] * (width - len(cells))


def workbook_records(path: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Give the rows of all worksheets as text, of each from its first row that is not blank: worksheet, line, cells."""
    import openpyxl

    try:
        with open(path, "rb") as handle:  # openpyxl would look at the ending of a name
            book = openpyxl.load_workbook(handle, read_only=True, data_only=True)
            for sheet in book.worksheets:
                begun = False
                for line, row in enumerate(sheet.iter_rows(values_only=True), 1):
                    cells = [_cell(value) for value in row]
                    begun = begun or not is_blank(cells)
                    if begun:
                        yield sheet.title, line, cells
    except Exception as error:  # openpyxl lets through whatever a damaged archive or its XML makes fail
        raise ReefcoreError(f"this workbook cannot be read ({error})", path, "save it again, or as CSV") from None


def _cell(value) -> str:
    """Write a cell of a workbook as text; a date without a time of day as a date."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, bytes):  # some programs write the texts of a Parquet table so
        return value.decode("utf-8", errors="replace")
    return "" if value is None else str(value)


class Records:
    """The records after the header that have its width, as ``(line, cells)``; what is wrong with the others is kept.

    Attributes
    ----------
    problems : list of (line, column, problem)
    total : int
        Records that hold data, broken ones included, blank ones not.
    left_out : dict
        Reason -> number of records that are not given.
    """

    def __init__(self, head: Head, short: bool = False):
        self.head, self.problems, self.total, self.left_out, self.short = head, [], 0, {}, short

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        head, width = self.head, len(self.head.header)
        needed = 1 if self.short else max((i + 1 for i, name in enumerate(head.header) if name.strip()), default=0)
        rows = self._workbook_rows() if head.kind == "workbook" else self._text_records(width)
        above, blank = head.titles + 1, []
        names = [name.strip() for name in head.header]
        for line, cells, problem in rows:
            if cells is not None and is_blank(cells):
                blank.append(line)
                continue
            if above:
                if above > 1:
                    self.problems.append((line, "", "this line above the header was passed over"))
                above, blank = above - 1, []
                continue
            if blank:  # only now is it known that data follow
                many = "1 blank row, which is" if len(blank) == 1 else f"{len(blank)} blank rows, which are"
                self.problems.append((blank[0], "", f"{many} not counted as data"))
                blank = []
            self.total += 1
            good = fit(cells, width, needed) if cells is not None else None
            if good is not None and [cell.strip() for cell in good] == names:
                self._leave_out("the header again")
                self.problems.append((line, "", "repeats the header"))
            elif good is not None:
                yield line, good
            else:
                self._leave_out("a broken record")
                wrong = problem or f"has {len(cells)} values where the header has {width} columns"
                self.problems.append((line, "", wrong))

    def _leave_out(self, why):
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def _workbook_rows(self):
        """Give the rows of the worksheet, and those below the same header in others; say which are not read."""
        names, alike = _stripped(self.head.header), []
        for sheet, group in itertools.groupby(workbook_records(self.head.path), lambda record: record[0]):
            rows = ((line, cells, "") for _, line, cells in group)
            if sheet == self.head.sheet:
                yield from rows
                continue
            first = list(itertools.islice(rows, TITLES + 1))
            below = next((at for at, row in enumerate(first, 1) if _stripped(row[1]) == names), None)
            if below is None:
                many = sum(not is_blank(cells) for _, cells, _ in itertools.chain(first, rows))
                text = f"the worksheet {sheet!r} ({many:,} rows) has other columns and was not read"
                self.problems.append((None, "", text))
            else:
                alike.append(sheet)
                yield from itertools.chain(first[below:], rows)
        if alike:
            text = f"also read, for its columns are those of {self.head.sheet!r}: worksheet {', '.join(alike)}"
            self.problems.append((None, "", f"{text}; a line is that of its worksheet"))

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
    problems, total, left_out
        As those of `Records`.
    """

    frame: pd.DataFrame
    lines: np.ndarray
    problems: list[tuple]
    total: int
    left_out: dict[str, int] = field(default_factory=dict)


def load(head: Head, short: bool = False) -> Sheet:
    """Read a whole table as text; with `short`, a row may end early, as Excel leaves out delimiters of blank cells."""
    if head.kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:  # what pandas wrote as its index is a column like the others
            frame = pq.read_table(head.path).to_pandas(ignore_metadata=True)
        except (pa.ArrowException, OSError) as error:
            what = f"this is not a readable Parquet table ({error})"
            raise ReefcoreError(what, head.path, "download it again") from None
        frame = pd.DataFrame({at: frame[name].map(_cell, na_action="ignore") for at, name in enumerate(head.header)})
        frame = frame.astype("str").fillna("")
        return Sheet(frame, np.arange(2, len(frame) + 2), [], len(frame))
    if (plain := _load_plain(head)) is not None:
        return Sheet(plain, np.arange(2, len(plain) + 2), [], len(plain))
    found, lines, rows = Records(head, short), [], []
    for line, cells in found:
        lines.append(line)
        rows.append([cell.strip() for cell in cells])
    frame = pd.DataFrame(rows, columns=range(len(head.header)), dtype="str")
    return Sheet(frame, np.array(lines, dtype="int64"), found.problems, found.total, found.left_out)


def _load_plain(head: Head) -> pd.DataFrame | None:
    """Read a table whose every line is one record of the header's width, many times faster; None where it is none."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    if head.kind != "text" or head.titles or not ENDS.split(head.start, maxsplit=1)[0].strip(' \t,;"'):
        return None
    found, names = scan(head.path), [str(position) for position in range(len(head.header))]
    if not found.plain or found.quoted or found.lines < 2:
        return None
    try:
        table = arrow.read_csv(
            head.path,
            arrow.ReadOptions(column_names=names, skip_rows=1, block_size=8 * HEAD, use_threads=False),
            arrow.ParseOptions(delimiter=head.delimiter, quote_char=False),
            arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowInvalid:  # ragged rows
        return None
    frame = pd.DataFrame({at: table.column(at).to_pandas().astype("str").str.strip() for at in range(len(names))})
    again = np.all([frame[at].eq(name.strip()) for at, name in enumerate(head.header)], axis=0).any()
    blank = np.all([frame[at].eq("") for at in frame], axis=0).any()
    return None if again or blank or len(frame) != found.lines - 1 else frame
