"""What a file of annotations holds and what is wrong with it, for people and as JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from reefcore.annotations import reefnet
from reefcore.annotations.points import base_of, counted
from reefcore.errors import ReefcoreError, problems_table, problems_text

COUNTS = """SELECT count(*), count(DISTINCT (source, image)), count(DISTINCT label_raw), min("row"), max("row"),
    min("column"), max("column"), count(*) - count(DISTINCT ('0x' || annotation_id)::UBIGINT) FROM points"""
COUNTED = ("coralnet", "reefnet", "columns")  # formats in which files count from 0 or from 1
PER_IMAGE = "SELECT min(n), median(n), max(n) FROM (SELECT count(*) AS n FROM points GROUP BY source, image)"


def check(paths: Iterable[str | Path], columns=None, size=None) -> list[dict]:
    """Read files of annotations and say what each holds; a ReefNet file of any size goes through DuckDB.

    Parameters
    ----------
    paths : iterable of path
        Files, or folders of files of one format.
    columns, size
        As for `reefcore.annotations.read`.

    Returns
    -------
    list of dict
        One entry per file, ready for JSON:

        ``file``, ``format`` (None where unknown), ``refused`` (the sentence, or None), ``rows`` (rows of data in the
        file), ``read`` (rows that became points, or covers), ``left_out`` (reason -> rows that did not), ``kept``
        (points read), ``covers`` (the file holds counts or percents without points), ``images`` (of covers: sample
        units), ``labels`` (distinct raw labels), ``row_range`` and ``column_range`` ([min, max] in pixels), ``base``
        ('0', '1' or 'unclear') and ``base_evidence``, ``points_per_image`` ([min, median, max]), ``duplicates`` (points
        that repeat an earlier one with the same label) and ``problems`` (all: line, column, problem).
    """
    return [_check(Path(path), columns, size) for path in paths]


def _check(path: Path, columns, size) -> dict:
    from reefcore.annotations import read, read_covers, recognise

    entry = {"file": str(path), "format": None, "refused": None, "rows": 0, "kept": 0, "images": 0, "labels": 0}
    entry |= {"row_range": None, "column_range": None, "base": None, "base_evidence": None, "points_per_image": None}
    entry |= {"duplicates": 0, "read": 0, "left_out": {}, "covers": False, "problems": []}
    try:
        form = recognise(path) if columns is None else None
        entry["format"] = form.name if form else "columns"
        if form and form.covers and form.read:
            entry["covers"] = True
            frame = read_covers(path)
            entry |= {"kept": len(frame), "images": len(frame[["source", "unit"]].drop_duplicates())}
            entry |= {"labels": frame["label_raw"].nunique()}
            return entry | _attrs(frame.attrs)
        with tempfile.TemporaryDirectory() as temporary, reefnet.database_in(temporary) as database:
            if entry["format"] in {form.name for form in reefnet.FORMATS}:
                parquet = Path(temporary) / "annotations.parquet"
                done = reefnet.convert(path, parquet)
                done["read"] = done["kept"]
                points = database.read_parquet(str(parquet))
            else:
                frame = read(path, base=0 if form else None, columns=columns, size=size)  # the base is said below
                done = frame.attrs
                points = database.from_df(frame[["annotation_id", "source", "image", "row", "column", "label_raw"]])
            points.create_view("points")
            counts = database.execute(COUNTS).fetchone()
            per_image = database.execute(PER_IMAGE).fetchone()
    except ReefcoreError as error:
        return entry | {"refused": str(error)}
    entry["kept"], entry["images"], entry["labels"], *extent, entry["duplicates"] = counts
    if entry["kept"]:
        entry |= {"row_range": extent[:2], "column_range": extent[2:], "points_per_image": list(per_image)}
        entry["base"], entry["base_evidence"] = base_of(entry["kept"], *extent)
        if not entry["format"].startswith(COUNTED):
            entry["base"], entry["base_evidence"] = "0", "as the format says"
    return entry | _attrs(done)


def _attrs(done: dict) -> dict:
    rows = done["problems"].astype("object").where(done["problems"].notna(), None)
    return {name: done[name] for name in ("rows", "read", "left_out")} | {"problems": rows.to_dict("records")}


def check_text(entries: dict | list[dict], folder: str | Path | None = None) -> str:
    """Say entries of `check` for people: of each file its format, its figures, then its problems.

    Parameters
    ----------
    entries : dict or list of dict
    folder : path, optional
        Where the problems that are too many to show go, as CSV; see `reefcore.errors.problems_text`.
    """
    if not isinstance(entries, dict):
        return "\n\n".join(check_text(entry, folder) for entry in entries)
    entry = entries
    if entry["refused"]:
        return f"refused: {entry['refused']}"
    counts = {"row": "rows", "image": "images", "label": "labels", "duplicate": "duplicates"}
    if entry["covers"]:
        counts = {"row": "rows", "sample unit": "images", "label": "labels"}
    figures = (f"{entry[many]:,} {one}{'s' * (entry[many] != 1)}" for one, many in counts.items())
    lines = [f"{entry['file']}: {entry['format']}", f"  {', '.join(figures)}"]
    lines[0] += ", counts or percents without points" if entry["covers"] else ""
    if entry["kept"] and not entry["covers"]:
        low, middle, high = entry["points_per_image"]
        said = {"0": "counted from 0", "1": "counted from 1, it seems", "unclear": "counted from 0 or 1, unclear"}
        (top, bottom), (left, right) = entry["row_range"], entry["column_range"]
        lines += [
            f"  {low:,} to {counted(high, 'point')} per image, median {middle:,g}",
            f"  rows {top:,} to {bottom:,}, columns {left:,} to {right:,}: "
            f"{said[entry['base']]} ({entry['base_evidence']})",
        ]
    lines += [f"  left out: {rows:,} ({why})" for why, rows in entry["left_out"].items()]
    problems = problems_table((row["line"], row["column"], row["problem"]) for row in entry["problems"])
    folder = None if folder is None else Path(folder)
    return "\n".join([*lines, problems_text(problems, entry["file"], entry["read"], entry["rows"], folder)])
