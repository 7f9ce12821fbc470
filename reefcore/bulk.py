"""From the released file of six million annotations to the benchmark's hard corals, without holding it in memory.

The rules are those of `reefcore.curation`; DuckDB applies them here, so that a laptop can.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import pandas as pd

from reefcore import curation, files, taxonomy
from reefcore.annotations import reefnet
from reefcore.annotations.points import Options
from reefcore.annotations.sheet import look
from reefcore.errors import ReefcoreError, problems_table
from reefcore.tables import HARD_CORALS


def condense(path: str | Path, parquet: str | Path, memory_limit: str = "1GB", threads: int = 2, **criteria) -> dict:
    """Clean, de-duplicate and label-filter a ReefNet file of any size into an annotations table as Parquet.

    Keeps hard corals whose label meets the criteria of `reefcore.curation.judge_labels`; duplicates (image, label and
    coordinates) stay once, in the source that sorts first. Labels are given rank and AphiaID by `reefcore.taxonomy`.

    Parameters
    ----------
    path : path
        ``All_ReefNet_annotations.csv``, or an annotations table as Parquet (see `reefcore.annotations.convert`).
    parquet : path
        Where the table goes; rows in the order of the file.
    memory_limit : str
        What DuckDB may hold in memory; beyond this it uses a temporary folder beside `parquet`.
    threads : int
    **criteria
        See `reefcore.curation.judge_labels`.

    Returns
    -------
    dict
        ``steps`` (a table: step, annotations, sources, labels), ``labels`` (the judged labels), ``duplicates`` (a
        table: source, twin_source, annotations) and ``problems`` (line, column, problem: rows that cannot be used).

    Raises
    ------
    ReefcoreError
        Where the file is not one of these, or nothing in it is a hard coral.
    """
    path, parquet = Path(path), Path(parquet)
    with tempfile.TemporaryDirectory(dir=parquet.parent) as folder:
        try:
            with reefnet.database_in(Path(folder), memory_limit, threads) as database:
                problems = _corals(database, path, Path(folder))
                return _condense(database, parquet, criteria) | {"problems": problems}
        except (duckdb.OutOfMemoryException, duckdb.IOException, duckdb.InvalidInputException) as error:
            reason = str(error).split("\n")[0]
            raise ReefcoreError(f"DuckDB could not condense this file ({reason})", path, "raise memory_limit") from None


def _corals(database, path: Path, folder: Path) -> pd.DataFrame:
    """Put the usable hard-coral rows into the table ``corals``; return the problems of the others."""
    if path.suffix == ".parquet":
        database.execute(f"""CREATE TEMP TABLE corals AS SELECT * EXCLUDE annotation_id
            FROM read_parquet({reefnet.text(path)}) WHERE lower(broad_category) IN {HARD_CORALS}""")
        return problems_table([])
    head = look(path)
    if not any(form.fits(head) for form in reefnet.FORMATS):
        raise ReefcoreError("this is not a ReefNet file", path, "read it with reefcore.annotations.read")
    try:
        bad = reefnet.hard_corals(database, head, Options(), "corals")
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:  # not a plain CSV: the slower way finds every problem and its line
        whole = folder / "whole.parquet"
        problems = reefnet.convert(path, whole)["problems"]
        _corals(database, whole, folder)
        return problems
    return reefnet.convert(path, folder / "whole.parquet")["problems"] if bad else problems_table([])


def _condense(database, parquet: Path, criteria: dict) -> dict:
    steps = []

    def count(step: str, table: str) -> None:
        query = f"SELECT count(*), count(DISTINCT source), count(DISTINCT label) FROM {table}"
        steps.append((step, *database.execute(query).fetchone()))

    count("hard corals", "corals")
    if not steps[0][1]:
        raise ReefcoreError("no row of this file is a hard coral", do="check the column Broad_category")
    # The first of equal points in the order of source names stays, as in `curation.drop_duplicates`; few are equal.
    point = 'image, "row", "column", label_raw'
    database.execute(f"""CREATE TEMP TABLE again AS SELECT id, source, twin_source FROM (
        SELECT rowid AS id, source, row_number() OVER points AS place, first(source) OVER points AS twin_source
        FROM corals JOIN (SELECT {point} FROM corals GROUP BY ALL HAVING count(*) > 1) USING ({point})
        WINDOW points AS (PARTITION BY {point} ORDER BY source, corals.rowid)) WHERE place > 1""")
    query = "SELECT source, twin_source, count(*) AS annotations FROM again GROUP BY ALL ORDER BY ALL"
    duplicates = database.execute(query).df()
    database.execute("DELETE FROM corals WHERE rowid IN (SELECT id FROM again)")
    count("without duplicates", "corals")
    counts = database.execute("""SELECT label, source, count(*) AS annotations FROM corals
        WHERE label IS NOT NULL GROUP BY ALL ORDER BY ALL""").df()
    named = taxonomy.match_labels(counts["label"].unique()).set_index("label")[["rank", "aphia_id"]]
    judged = curation.judge_labels(counts.join(named, on="label"), **criteria)
    kept = judged.loc[judged["kept"], ["label"]].join(named, on="label")
    database.register("kept", kept.astype({"label": "object", "rank": "object"}))
    # Changed in place, not joined while it is written: that would lose the order of the rows.
    database.execute("UPDATE corals SET rank = k.rank, aphia_id = k.aphia_id FROM kept k WHERE corals.label = k.label")
    with files.atomic(parquet) as output:
        database.execute(f"""COPY (SELECT {reefnet.ID} AS annotation_id, * FROM corals WHERE rank IS NOT NULL)
            TO {reefnet.text(output)} (FORMAT parquet, COMPRESSION zstd)""")
    left = f"read_parquet({reefnet.text(parquet)})"
    count("labels that meet the criteria", left)
    return {
        "steps": pd.DataFrame(steps, columns=["step", "annotations", "sources", "labels"]),
        "labels": judged,
        "duplicates": duplicates,
    }
