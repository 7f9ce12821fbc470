"""The released ReefNet files -> the tables that everything starts from; how each file is read stands on its page.

The annotations go through DuckDB and Arrow, so that six million rows never are one pandas frame. Of the spreadsheets,
sheets and columns are found by what they hold: see `reefcore.workbooks`.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pandas as pd

from reefcore import taxonomy
from reefcore.annotations import reefnet
from reefcore.annotations.sheet import look
from reefcore.files import write_parquet
from reefcore.tables import COLUMNS

logger = logging.getLogger(__name__)

TABLES = ("annotations.parquet", "sources.parquet", "images.parquet", "reviews.parquet")
TEXTS = (".csv", ".xlsx", ".json")
#: What is said beside them: problems of single lines; what was read of which file, sheet and column, and what was not;
#: and what the label mapping says, beside the annotations and `reefcore.taxonomy`.
SAID = {
    "problems": {"file": "str", "line": "Int64", "column": "str", "problem": "str"},
    "release": {"file": "str", "sheet": "str", "column": "str", "read_as": "str", "values": "Int64", "note": "str"},
    "mapping": {
        **dict.fromkeys(["file", "label_raw", "label", "annotated", "taxon", "note"], "str"),
        "annotations": "Int64",
    },
}


def files(folder: Path) -> list[Path]:
    """List the released files that tables are made of, sorted: neither photos nor the record of what was fetched."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file for file in found if file.suffix.lower() in TEXTS and file.name != "fetched.json" and file.is_file()]


def find(folder: Path) -> dict[str, Path]:
    """Find the files of annotations among the released ones by their columns: ``reefnet-1.0``, ``reefnet-al-wajh``."""
    found = {}
    for file in files(folder):
        if file.suffix.lower() == ".csv" and file.stat().st_size:
            head = look(file)
            if form := next((form.name for form in reefnet.FORMATS if form.fits(head)), None):
                found.setdefault(form, file)
    return found


def is_there(folder: Path) -> bool:
    """Tell whether a data folder has the released annotations, so that its tables are made of them."""
    return "reefnet-1.0" in find(folder / "released")


def brought(folder: Path) -> list[str]:
    """List what a user put into a data folder and the step `data` takes as it is: all tables, or expert verdicts."""
    if not is_there(folder):
        return list(TABLES)
    return [name for name in ("reviews.csv",) if (folder / name).exists()]


def make(folder: Path, site: str) -> None:
    """Make the tables of a data folder of the released files in its folder ``released``.

    Parameters
    ----------
    folder : path
    site : str
        The name that the source of the Al-Wajh file gets.

    Raises
    ------
    ReefcoreError
        Where a file of annotations lacks a column it must have.
    """
    found, problems = find(folder / "released"), []
    with tempfile.TemporaryDirectory(dir=folder, prefix=".released-") as temporary:
        parts = []
        for form, source in (("reefnet-1.0", None), ("reefnet-al-wajh", site)):
            if form in found:
                parts.append(Path(temporary) / f"{form}.parquet")
                done = reefnet.convert(found[form], parts[-1], source=source)
                problems.append(done["problems"].assign(file=found[form].name))
        annotations = Path(temporary) / "annotations.parquet"
        _join(parts, annotations)
        tables = _derived(annotations)
        say_nothing(folder)
        write_parquet(pd.concat(problems)[list(SAID["problems"])], folder / "problems.parquet")
        for name, table in tables.items():
            write_parquet(table, folder / f"{name}.parquet")
        annotations.replace(folder / annotations.name)


def say_nothing(folder: Path) -> None:
    """Write the tables of what is said, empty: of tables that were brought, nothing was read and nothing left out."""
    for name, columns in SAID.items():
        write_parquet(pd.DataFrame(columns=list(columns)).astype(columns), folder / f"{name}.parquet")


def _join(parts: list[Path], output: Path) -> None:
    """Put files of annotations one after the other, with rank and AphiaID of their labels.

    The Al-Wajh file may have no broad categories: then its labels that are names of hard corals are hard corals.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    labels = sorted(
        {one for part in parts for one in pq.read_table(part, columns=["label"])[0].unique().to_pylist() if one}
    )
    named = taxonomy.match_labels(labels)
    hard = pa.array(["Hard coral" if known else None for known in named["order"].notna()], pa.string())
    ranks, ids = pa.array(named["rank"], pa.string()), pa.array(named["aphia_id"], pa.int64())
    schema = pa.unify_schemas([pq.read_schema(part) for part in parts]).remove_metadata()
    with pq.ParquetWriter(output, schema, compression="zstd") as writer:
        for part in parts:
            for batch in pq.ParquetFile(part).iter_batches(1 << 16):
                where = pc.index_in(batch["label"], value_set=pa.array(labels, pa.string()))
                new = {"rank": ranks.take(where), "aphia_id": ids.take(where)}
                if batch["broad_category"].null_count == len(batch):
                    new["broad_category"] = hard.take(where)
                columns = [
                    new.get(field.name)
                    if field.name in new
                    else batch[field.name]
                    if field.name in batch.schema.names
                    else pa.nulls(len(batch), field.type)
                    for field in schema
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _derived(annotations: Path) -> dict[str, pd.DataFrame]:
    """Make the tables of sources, images and (no) reviews of the annotations alone."""

    table = f"read_parquet({reefnet.text(annotations)})"
    with tempfile.TemporaryDirectory() as folder, reefnet.database_in(folder) as database:
        sources = database.execute(f"""SELECT source, mode(ecoregion) AS ecoregion, count(DISTINCT image) AS images,
            count(*) AS points, mode(province) AS province, mode(realm) AS realm, avg(latitude) AS latitude,
            avg(longitude) AS longitude FROM {table} GROUP BY source ORDER BY source""").df()
        images = database.execute(f"""SELECT DISTINCT source, image FROM {table} ORDER BY source, image""").df()
    images = images.assign(width=pd.NA, height=pd.NA).astype({"width": "Int64", "height": "Int64"})
    reviews = pd.DataFrame({name: pd.Series(dtype=kind.dtype) for name, kind in COLUMNS["reviews"].items()})
    return {"sources": sources, "images": images, "reviews": reviews}
