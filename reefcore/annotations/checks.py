"""What a file of annotations holds and what is wrong with it, for people and as JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from reefcore.annotations import reefnet
from reefcore.annotations.points import base_of
from reefcore.errors import ReefcoreError, problems_table, problems_text

COUNTS = """SELECT count(*), count(DISTINCT (source, image)), count(DISTINCT label_raw), min("row"), max("row"),
    min("column"), max("column"), count(*) - count(DISTINCT ('0x' || annotation_id)::UBIGINT) FROM points"""
PER_IMAGE = "SELECT min(n), median(n), max(n) FROM (SELECT count(*) AS n FROM points GROUP BY source, image)"


def check(paths: Iterable[str | Path]) -> list[dict]:
    """Read files of annotations and say what each holds; a ReefNet file of any size goes through DuckDB.

    Parameters
    ----------
    paths : iterable of path

    Returns
    -------
    list of dict
        One entry per file, ready for JSON:

        ``file``, ``format`` (None where unknown), ``refused`` (the sentence, or None), ``rows`` (rows of data in the
        file), ``kept`` (points read), ``images``, ``labels`` (distinct raw labels), ``row_range`` and ``column_range``
        ([min, max] in pixels), ``base`` ('0', '1' or 'unclear') and ``base_evidence``, ``points_per_image`` ([min,
        median, max]), ``duplicates`` (points that repeat an earlier one with the same label) and ``problems`` (all:
        line, column, problem).
    """
    return [_check(Path(path)) for path in paths]


def _check(path: Path) -> dict:
    from reefcore.annotations import read, recognise

    entry = {"file": str(path), "format": None, "refused": None, "rows": 0, "kept": 0, "images": 0, "labels": 0}
    entry |= {"row_range": None, "column_range": None, "base": None, "base_evidence": None, "points_per_image": None}
    entry |= {"duplicates": 0, "problems": []}
    try:
        entry["format"] = recognise(path).name
        with tempfile.TemporaryDirectory() as temporary, reefnet.database_in(temporary) as database:
            if entry["format"] in {form.name for form in reefnet.FORMATS}:
                parquet = Path(temporary) / "annotations.parquet"
                done = reefnet.convert(path, parquet)
                entry["rows"], problems = done["rows"], done["problems"]
                points = database.read_parquet(str(parquet))
            else:
                frame = read(path, base=0)  # what it says about the base is said below
                entry["rows"], problems = frame.attrs["rows"], frame.attrs["problems"]
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
    rows = problems.astype("object").where(problems.notna(), None)
    return entry | {"problems": rows.to_dict("records")}


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
    figures = (f"{entry[many]:,} {one if entry[many] == 1 else many}" for one, many in counts.items())
    lines = [f"{entry['file']}: {entry['format']}", f"  {', '.join(figures)}"]
    if entry["kept"]:
        low, middle, high = entry["points_per_image"]
        said = {"0": "counted from 0", "1": "counted from 1, it seems", "unclear": "counted from 0 or 1, unclear"}
        (top, bottom), (left, right) = entry["row_range"], entry["column_range"]
        lines += [
            f"  {low:,} to {high:,} points per image, median {middle:,g}",
            f"  rows {top:,} to {bottom:,}, columns {left:,} to {right:,}: "
            f"{said[entry['base']]} ({entry['base_evidence']})",
        ]
    problems = problems_table((row["line"], row["column"], row["problem"]) for row in entry["problems"])
    folder = None if folder is None else Path(folder)
    return "\n".join([*lines, problems_text(problems, entry["file"], entry["kept"], entry["rows"], folder)])
