"""The released ReefNet files, read by DuckDB: 6 million rows never become one pandas frame.

A file whose every line is one record is read by DuckDB as it is. Any other (an old encoding, odd line ends, values with
line breaks, ragged or blank rows) is first rewritten, row by row, by the code that reads CoralNet's files too, so that
every problem is found and its line is right.

``label_raw`` is ``CoralNet_label``, or the short code where that is empty; ``label`` is ``Sorted_ReefNet_label``, or
``Our_Labels`` in the file of the Al-Wajh site. ``rank`` and ``aphia_id`` stay empty: `reefcore.taxonomy` fills them.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from reefcore import files, tables
from reefcore.annotations.points import (
    LARGEST,
    NOT_PEOPLE,
    PEOPLE,
    Format,
    Options,
    Result,
    by_line,
    degree_problem,
    need,
    pixel_problem,
    said_base,
)
from reefcore.annotations.sheet import ENDS, Head, Records, look, scan, snake
from reefcore.errors import ReefcoreError, problems_table

LIMIT = 256 << 20  # bytes; `read` refuses a larger file (this is about a million rows)
LISTED = 100_000  # problems that are listed; how many more there are is counted
#: Column of the annotations table -> its name in ReefNet-1.0, and the keys of the columns it may come from, best first.
COLUMNS = {
    "source": ("CoralNet_source", ("coralnetsource", "source")),
    "image": ("Image_name", ("imagename", "image", "name", "filename")),
    "row": ("Row", ("row",)),
    "column": ("Column", ("column",)),
    "label_raw": ("CoralNet_label", ("coralnetlabel", "coralnetlabelshortcode")),
    "label": ("Sorted_ReefNet_label", ("ourlabels", "sortedreefnetlabel")),
    "broad_category": ("Broad_category", ("broadcategory",)),
    "condition": ("Condition_indication", ("conditionindication",)),
    "latitude": ("Latitude", ("latitude",)),
    "longitude": ("Longitude", ("longitude",)),
    "ecoregion": ("Ecoregion", ("ecoregion",)),
    "province": ("Province", ("province",)),
    "realm": ("Realm", ("realm",)),
}
NEEDED = ("source", "image", "row", "column", "label_raw", "label")
NUMBERS = ("row", "column", "latitude", "longitude")
TEXTS = ("source", "image", "label_raw")
GOOD = f"""source IS NOT NULL AND image IS NOT NULL AND label_raw IS NOT NULL
    AND coalesce("row" = floor("row") AND "row" BETWEEN 0 AND {LARGEST}, false)
    AND coalesce("column" = floor("column") AND "column" BETWEEN 0 AND {LARGEST}, false)
    AND (latitude_text IS NULL OR coalesce(latitude BETWEEN -90 AND 90, false))
    AND (longitude_text IS NULL OR coalesce(longitude BETWEEN -180 AND 180, false))"""
# The id of reefcore.tables.annotation_ids, and the table in the order of its schema.
ID = """substr(md5(concat_ws(chr(31), source, image, "row"::BIGINT, "column"::BIGINT, label_raw)), 1, 16)"""
TABLE = f"""SELECT {ID} AS annotation_id, source, image, "row"::BIGINT AS "row", "column"::BIGINT AS "column",
    label_raw, label, NULL::VARCHAR AS rank, NULL::BIGINT AS aphia_id, broad_category, condition, latitude, longitude,
    ecoregion, province, realm"""


def _is_al_wajh(head: Head) -> bool:
    return head.has("ourlabels", "row", "column")


def _is_released(head: Head) -> bool:
    return head.has("sortedreefnetlabel") or head.has("coralnetsource", "row", "column")


def _places(head: Head) -> dict[str, list[int]]:
    """Find the positions that each column of the table is filled from, best first."""
    places = {name: [head.columns[k] for k in keys if k in head.columns] for name, (_, keys) in COLUMNS.items()}
    if _is_al_wajh(head):  # this file may have no labels but those of the authors
        places["label_raw"] += places["label"]
    return places


def _lacking(head: Head, source: str | None) -> list[tuple]:
    """Refuse a file that lacks a column it must have; report what else ReefNet-1.0 has and this file has not."""
    places = _places(head)
    if _is_al_wajh(head):
        need(head, "the Al-Wajh file of ReefNet", image=(places["image"] or [None])[0])
        return []
    must = [name for name in NEEDED if not (name == "source" and source)]
    need(head, "ReefNet-1.0", **{COLUMNS[name][0]: (places[name] or [None])[0] for name in must})
    missing = [COLUMNS[name][0] for name in COLUMNS if name not in NEEDED and not places[name]]
    return [(1, name, "this column of ReefNet-1.0 is not in the file; left empty") for name in missing]


def text(value: str | Path) -> str:
    """Write a text as SQL does."""
    return "'" + str(value).replace("'", "''") + "'"


def _points(head: Head, options: Options) -> tuple[str, list[str]]:
    """Write the SQL that makes points of the view ``file``, and the SQL of each further column.

    Row, column, latitude and longitude come twice: as they stand in the file (``..._text``) and as numbers.
    """
    places = _places(head)
    parts = {
        name: f"coalesce({', '.join(f'given(c{position})' for position in found)}, NULL)" if found else "NULL::VARCHAR"
        for name, found in places.items()
    }
    if options.source:
        parts["source"] = text(options.source)
    elif _is_al_wajh(head):
        parts["source"] = f"coalesce({parts['source']}, {text(head.path.stem)})"
    columns = [f'{part} AS "{name}{"_text" * (name in NUMBERS)}"' for name, part in parts.items()]
    for name in NUMBERS:
        shift = f" - {options.base or 0}" if name in ("row", "column") else ""
        cell = f"c{places[name][0]}" if places[name] else "NULL"
        columns.append(f'TRY_CAST({cell} AS DOUBLE){shift} AS "{name}"')
    used, taken = {found[0] for found in places.values() if found}, set(tables.COLUMNS["annotations"])
    extras = []
    for position, title in enumerate(head.header):
        name = snake(title).removeprefix("coralnet_")
        if position in used or name in ("", "x"):  # X numbers the rows
            continue
        if name in taken:
            name = f"{name}_{position + 1}"
        taken.add(name)
        hide = name in PEOPLE and not options.names
        columns.append(f"{'pseudonym' if hide else 'given'}(c{position}) AS e{position}")
        extras.append(f'e{position} AS "{name}"')
    cells = ", ".join(f"c{position}" for position in range(len(head.header)))
    return f"SELECT line, {', '.join(columns)}, trim(concat({cells})) = '' AS is_blank FROM file", extras


def _view(head: Head, path: Path, delimiter: str, line: str, first: str = "") -> str:
    """Write the SQL of the view ``file``: the cells c0, c1, ... of each record as text, and its line."""
    cells = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(head.header)))
    return f"""CREATE OR REPLACE TEMP VIEW file AS SELECT {line} AS line, * FROM read_csv({text(path)}, header = true,
        auto_detect = false, nullstr = ['', 'NA'], delim = {text(delimiter)}, quote = '"', escape = '"',
        columns = {{{first}{cells}}})"""


@contextmanager
def database_in(folder: str | Path, memory_limit: str = "1GB", threads: int = 2) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a silent database in memory that spills to a folder."""
    settings = {"memory_limit": memory_limit, "threads": threads, "temp_directory": str(Path(folder) / "spill")}
    with duckdb.connect(config=settings) as database:
        database.execute("SET enable_progress_bar = false")
        # Almost no value has blanks around it, and to look for them costs half of cutting them off.
        database.execute("""CREATE TEMP MACRO given(x) AS
            CASE WHEN x = '' OR starts_with(x, ' ') OR ends_with(x, ' ') THEN nullif(trim(x), '') ELSE x END""")
        database.execute(f"""CREATE TEMP MACRO pseudonym(x) AS CASE WHEN lower(trim(x)) IN {NOT_PEOPLE} THEN trim(x)
            ELSE 'person-' || substr(sha256(regexp_replace(lower(given(x)), '\\s+', ' ', 'g')), 1, 8) END""")
        yield database


def convert(
    path: str | Path,
    parquet: str | Path,
    memory_limit: str = "1GB",
    threads: int = 2,
    *,
    source: str | None = None,
    names: bool = False,
    base: int | None = None,
) -> dict:
    """Turn a ReefNet file of any size into the annotations table as Parquet.

    Rows that cannot be used (no source, image or label; a row or column that is no whole number of pixels; a position
    off the globe) are left out and listed.

    Parameters
    ----------
    path : path
        ``All_ReefNet_annotations.csv`` or the Al-Wajh file.
    parquet : path
        Where the table goes (zstd, rows in the order of the file).
    memory_limit : str
        What DuckDB may hold in memory; beyond this it uses a temporary folder beside `parquet`.
    threads : int
    source, names, base
        As for `reefcore.annotations.read`.

    Returns
    -------
    dict
        ``format``, ``rows`` (rows of data in the file), ``kept`` (rows written), ``left_out`` (reason -> rows) and
        ``problems``, a table of line, column and problem; beyond 100,000 its last row says how many more there are.

    Raises
    ------
    ReefcoreError
        Where the file is no ReefNet file, lacks a column it must have, or DuckDB cannot do it within the limit.
    """
    head, parquet = look(path), Path(parquet)
    form = next((form for form in FORMATS if form.fits(head)), None)
    if form is None:
        raise ReefcoreError("this is not a ReefNet file", path, "read it with reefcore.annotations.read")
    problems, options = _lacking(head, source), Options(source=source, names=names, base=base)
    with files.atomic(parquet) as output, tempfile.TemporaryDirectory(dir=parquet.parent) as folder:
        try:
            with database_in(Path(folder), memory_limit, threads) as database:
                counts = _convert_plain(database, head, options, output)
                if counts is None:
                    counts = _convert_rewritten(database, head, options, output, Path(folder), problems)
                rows, kept, bad = counts
                problems += _bad_rows(database, head, options, bad) if bad else []
        except (duckdb.OutOfMemoryException, duckdb.IOException, duckdb.InvalidInputException) as error:
            reason = str(error).split("\n")[0]
            raise ReefcoreError(f"DuckDB could not convert this file ({reason})", path, "raise memory_limit") from None
    if not rows:
        problems.append((None, "", "the file has a header and no points"))
    left_out = {"a broken record": rows - kept - bad, "no usable name, label, pixel or position": bad}
    found = {"format": form.name, "rows": rows, "kept": kept, "left_out": {why: n for why, n in left_out.items() if n}}
    return found | {"problems": problems_table(sorted(problems, key=by_line))}


def _copy(database, head: Head, options: Options, output: Path) -> int:
    """Write the good rows and count them."""
    points, extras = _points(head, options)
    columns = ", ".join([TABLE, *extras])
    query = f"COPY ({columns} FROM ({points}) WHERE {GOOD}) TO {text(output)} (FORMAT parquet, COMPRESSION zstd)"
    return database.execute(query).fetchone()[0]


def hard_corals(database, head: Head, options: Options, table: str) -> int:
    """Put the usable hard-coral rows of a plain file into a table of the database; return how many are not usable.

    The table has no ids yet, and its rows the order of the file.

    Raises
    ------
    ReefcoreError
        Where the file has no broad categories.
    duckdb.Error
        Where the file is not plain: ragged rows, bad quotation marks, an old encoding.
    """
    places = _places(head)["broad_category"]
    if not places:
        raise ReefcoreError("this file has no column Broad_category", head.path, "give the released ReefNet-1.0 file")
    database.execute(_view(head, head.path, head.delimiter, "NULL::BIGINT"))
    points, extras = _points(head, options)
    # One row in six is a hard coral: the others are dropped, most by a glance at a length, before they are cleaned.
    category = f"c{places[0]}"
    is_coral = f"strlen({category}) >= 10 AND lower(trim({category})) IN {tables.HARD_CORALS}"
    chosen = f"(SELECT * FROM file WHERE {is_coral})"
    points = points.replace("FROM file", f"FROM {chosen}")
    columns = ", ".join([TABLE.partition("AS annotation_id,")[2], *extras])
    database.execute(f"CREATE TEMP TABLE {table} AS SELECT {columns}, {GOOD} AS usable FROM ({points})")
    bad = database.execute(f"DELETE FROM {table} WHERE NOT usable").fetchone()[0]
    database.execute(f"ALTER TABLE {table} DROP usable")
    return bad


def _convert_plain(database, head: Head, options: Options, output: Path) -> tuple[int, int, int] | None:
    """Convert a file whose every line is one record: rows, good and bad ones; None where it is not such a file."""
    if head.kind != "text" or head.titles or not ENDS.split(head.start, maxsplit=1)[0].strip():
        return None
    found = scan(head.path)
    if not found.plain:
        return None
    database.execute(_view(head, head.path, head.delimiter, "row_number() OVER () + 1"))
    try:
        kept, bad, blank = _copy(database, head, options, output), 0, 0
        if kept != found.lines - 1:
            query = f"SELECT count(*), count(*) FILTER (is_blank) FROM ({_points(head, options)[0]}) WHERE NOT ({GOOD})"
            bad, blank = database.execute(query).fetchone()
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:  # ragged rows, bad quotation marks
        return None
    return (kept + bad, kept, bad) if not blank and kept + bad == found.lines - 1 else None


def _convert_rewritten(
    database, head: Head, options: Options, output: Path, folder: Path, problems: list[tuple]
) -> tuple[int, int, int]:
    """Convert any file by way of a plain CSV with the line of each record in its first column."""
    found, plain, written = Records(head), folder / "rewritten.csv", 0
    with open(plain, "w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(["written_line", *head.header])
        for line, cells in found:
            writer.writerow([line, *cells])
            written += 1
    problems += found.problems
    database.execute(_view(head, plain, ",", "written_line", "'written_line': 'BIGINT', "))
    kept = _copy(database, head, options, output)
    return found.total, kept, written - kept


def _bad_rows(database, head: Head, options: Options, bad: int) -> list[tuple]:
    """Say what is wrong with the rows that were left out."""
    texts = ", ".join([*TEXTS, *(f"{name}_text" for name in NUMBERS)])
    query = f"SELECT line, {texts} FROM ({_points(head, options)[0]}) WHERE NOT ({GOOD}) ORDER BY line LIMIT {LISTED}"
    titles = [head.header[found[0]] if found else name for name, found in _places(head).items()]
    titles = dict(zip(COLUMNS, titles, strict=True))
    problems = []
    for line, *values in database.execute(query).fetchall():
        given = dict(zip((*TEXTS, *NUMBERS), ("" if value is None else value for value in values), strict=True))
        said = {name: "" if given[name] else "is empty" for name in TEXTS}
        said |= {name: pixel_problem(given[name], options.base or 0) for name in ("row", "column")}
        said |= {
            "latitude": degree_problem(given["latitude"], 90),
            "longitude": degree_problem(given["longitude"], 180),
        }
        told = [(line, titles[name], sentence) for name, sentence in said.items() if sentence]
        problems += told or [(line, "", "cannot be read")]  # a number that Python knows and DuckDB does not
    if bad > LISTED:
        problems.append((None, "", f"{bad - LISTED:,} more rows were left out, not listed here"))
    return problems


def read(head: Head, options: Options) -> Result:
    """Read a ReefNet file that is small enough for one pandas frame.

    Raises
    ------
    ReefcoreError
        Where it is larger than 256 MB, or for the reasons of `convert`.
    """
    if (size := os.path.getsize(head.path)) > LIMIT:
        raise ReefcoreError(
            f"this ReefNet file of {size / 1e6:,.0f} MB is too large to be read into memory as one table",
            head.path,
            "turn it into Parquet with reefcore.annotations.convert and read from that what you need",
        )
    with tempfile.TemporaryDirectory() as folder:
        parquet = Path(folder) / "annotations.parquet"
        done = convert(head.path, parquet, source=options.source, names=options.names, base=options.base)
        frame, rest = tables.check(files.read_parquet(parquet), "annotations")
    problems = [*done["problems"].itertuples(index=False, name=None), *rest.itertuples(index=False, name=None)]
    less = done["kept"] - len(frame)
    left_out = done["left_out"] | ({"a value that the table cannot hold": less} if less else {})
    return Result(frame, problems + said_base(frame, options), done["rows"], left_out)


FORMATS = [
    Format("reefnet-al-wajh", "the Al-Wajh file of ReefNet", _is_al_wajh, read),
    Format("reefnet-1.0", "ReefNet-1.0", _is_released, read),
]
