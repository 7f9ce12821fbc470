"""The released ReefNet files -> the tables that everything starts from; how each file is read stands on its page.

The annotations go through DuckDB and Arrow, so that six million rows never are one pandas frame. Of the spreadsheets,
sheets and columns are found by what they hold: see `reefcore.workbooks`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import re
import shutil
import tempfile
from pathlib import Path

import pandas as pd

from reefcore import attribution, curation, geography, tables, taxonomy, workbooks
from reefcore.annotations import reefnet
from reefcore.annotations.sheet import key, look
from reefcore.errors import ReefcoreError
from reefcore.files import sha256, write_json, write_parquet
from reefcore.workbooks import Known, Table, fold

logger = logging.getLogger(__name__)

TABLES = ("annotations.parquet", "sources.parquet", "images.parquet", "reviews.parquet")
MADE = ".keys/made.json"  # hashes of the tables that were made here: any other is somebody's own
AGAIN = "get it again by `reefcore fetch annotations`"
TEXTS = (".csv", ".xlsx", ".json")
#: What is taken of a sheet with a row per source -> by how much two files may differ before that is said.
OF_SOURCE = {"latitude": 1.0, "longitude": 1.0, "megapixels": 0.5, "images_number": 0.5}
OF_SOURCE |= dict.fromkeys(["valid", "url", "images_url", "first_image", *geography.REGION, "layout"])
OF_SOURCE |= dict.fromkeys(["contributors", "affiliations", "licence"])
OF_IMAGE = {"width": "Int64", "height": "Int64", "depth": "float64", "date": "str"}
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
    """Find the files of annotations by their columns: ``reefnet-1.0``, and ``reefnet-al-wajh`` by its name too."""
    found = {}
    for file in files(folder):
        with contextlib.suppress(ReefcoreError):  # said by `refuse`, or where the tables beside are read
            head = look(file) if file.suffix.lower() == ".csv" else None
            form = head and next((form.name for form in reefnet.FORMATS if form.fits(head)), None)
            if form:
                found.setdefault("reefnet-al-wajh" if re.search("rsg|wajh", file.name, re.IGNORECASE) else form, file)
    return found


def refuse(folder: Path) -> None:
    """Say what is wrong with files in ``released`` that should be annotations.

    Raises
    ------
    ReefcoreError
        Where there is such a file.
    """
    right = find(folder / "released").values()  # the file of Al-Wajh alone is no fault
    for file in files(folder / "released"):
        if file.suffix.lower() == ".csv" and "annotation" in file.name.lower() and file not in right:
            columns = ", ".join(look(file).header[:8])
            raise ReefcoreError(f"this file is not the released annotations (its columns are {columns})", file, AGAIN)


def is_there(folder: Path) -> bool:
    """Tell whether a data folder has the released annotations, so that its tables are made of them."""
    return "reefnet-1.0" in find(folder / "released")


def brought(folder: Path) -> list[str]:
    """List what a user put into a data folder and the step `data` takes as it is: all tables, or expert verdicts."""
    if not is_there(folder):
        return list(TABLES)
    if (folder / "reviews.csv").exists():
        return ["reviews.csv"]
    return ["reviews.parquet"] if _foreign(folder, "reviews.parquet") else []


def _foreign(folder: Path, name: str) -> bool:
    """Tell whether a table is there that was not made here."""
    made = read_json(folder / MADE).get(name)
    return (folder / name).exists() and (made is None or sha256(folder / name) != made)


def read_json(path: Path) -> dict:
    """Read a record of JSON; one that is not there, or broken, says nothing."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _set_aside(path: Path) -> None:
    """Rename a table that was not made here, so that it is not written over."""
    names = (path.with_stem(f"{path.stem}.own{number or ''}") for number in itertools.count())
    other = next(name for name in names if not name.exists())
    path.rename(other)
    logger.warning("%s was not made of the released files; it is now %s.", path.name, other.name)


def make(folder: Path, site: str) -> None:
    """Make the tables of a data folder of the released files in its folder ``released``.

    Tables that somebody else put there are set aside, but for expert verdicts, which the release has none of: those in
    ``reviews.parquet`` or ``reviews.csv`` are taken.

    Parameters
    ----------
    folder : path
    site : str
        The name that the source of the Al-Wajh file gets.

    Raises
    ------
    ReefcoreError
        Where a file of annotations lacks a column it must have, or a file cannot be read.
    """
    found, problems, said = find(folder / "released"), [], []
    own = "reviews.csv" not in brought(folder) and _foreign(folder, "reviews.parquet")
    for name in TABLES[:3] if own else TABLES:
        if _foreign(folder, name):
            _set_aside(folder / name)
    for left in folder.glob(".released-*"):  # by a process that was killed
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".released-") as temporary:
        parts = {}
        for form, source in (("reefnet-1.0", None), ("reefnet-al-wajh", site)):
            if form in found:
                parts[found[form].name] = part = Path(temporary) / f"{form}.parquet"
                done = reefnet.convert(found[form], part, source=source)
                problems.append(done["problems"].assign(file=found[form].name))
                said += _counted(found[form].name, done)
        annotations = Path(temporary) / "annotations.parquet"
        _join(list(parts.values()), annotations)
        with reefnet.database_in(temporary) as database:
            counts, made = _derived(database, annotations)
            sheets, wrong = _sheets(folder / "released", found, _known(found, counts, made["sources"]))
            reviews, unread = (None, []) if own else _reviews(database, folder, sheets, annotations)
        made["sources"], more = _sources(made["sources"], sheets)
        made["images"], lost = _images(made["images"], sheets)
        said += [row for table in sheets for row in table.said()] + more + lost + wrong + unread
        made |= {"mapping": _mapping(sheets, counts), **({} if own else {"reviews": reviews})}
        made["problems"] = pd.concat(problems)[list(SAID["problems"])]
        made["release"] = pd.DataFrame(said, columns=list(SAID["release"])).astype(SAID["release"])
        for name, table in made.items():
            write_parquet(table, Path(temporary) / f"{name}.parquet")
        names = [f"{name}.parquet" for name in ("annotations", *made)]
        write_json({name: sha256(Path(temporary) / name) for name in names if name in TABLES}, folder / MADE)
        for name in names:
            (Path(temporary) / name).replace(folder / name)


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


def _derived(database, annotations: Path) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Count the labels of the annotations, and make the tables of sources and images that they alone tell."""
    table = f"read_parquet({reefnet.text(annotations)})"
    counts = database.execute(f"""SELECT label_raw, label, count(*) AS annotations FROM {table}
        GROUP BY ALL ORDER BY annotations DESC, label_raw, label""").df()
    images = database.execute(f"""SELECT source, image, count(*) AS points FROM {table}
        GROUP BY ALL ORDER BY source, image""").df()
    of = images.groupby("source")["points"]
    sources = pd.DataFrame({"images": of.size(), "points": of.median().round().astype("int64")}).reset_index()
    # The region of most points, and the mean of the distinct positions: as `geography.sources` does.
    regions = database.execute(
        f"""SELECT source, {", ".join(geography.REGION)} FROM {table} GROUP BY ALL
        ORDER BY source, count(*) DESC, ALL""".replace(", ALL", "")
    ).df()
    spots = database.execute(f"SELECT DISTINCT source, latitude, longitude FROM {table} ORDER BY ALL").df()
    spots = geography.check_positions(spots).assign(source=spots["source"]).query("problem == ''")
    means = {source: geography.mean_position(here) for source, here in spots.groupby("source")}
    sources = sources.merge(regions.drop_duplicates("source"), on="source")
    for place, name in enumerate(("latitude", "longitude")):
        sources[name] = sources["source"].map({source: mean[place] for source, mean in means.items()}).astype("float64")
    return counts, {"sources": sources, "images": images}


def _counted(file: str, done: dict) -> list[tuple]:
    """Say how many rows of a file of annotations were read, and why others were not."""
    rows = [(file, "", "", "annotations", done["kept"], f"of {done['rows']:,} rows")]
    return rows + [(file, "", "", "", count, f"rows left out: {why}") for why, count in done["left_out"].items()]


def _known(found: dict[str, Path], counts: pd.DataFrame, sources: pd.DataFrame) -> Known:
    """Say which names tell what a column is."""
    names = [*sources["source"], *curation.candidates()["source"]]
    labels = [{fold(name) for name in counts[column].dropna()} for column in ("label_raw", "label")]
    return Known(
        {fold(name) for name in names}, *labels, {key(title) for file in found.values() for title in look(file).header}
    )


def _sheets(folder: Path, found: dict[str, Path], known: Known) -> tuple[list[Table], list[tuple]]:
    """Read the tables beside the annotations, and say which files cannot be read."""
    sheets, wrong = [], []
    for file in files(folder):
        if file in found.values():
            continue
        if file.suffix.lower() == ".json":
            wrong.append((file.name, "", "", "", 0, "not read: a description for programs"))
            continue
        try:
            sheets += workbooks.read(file, known)
        except ReefcoreError as error:
            wrong.append((file.name, "", "", "", 0, f"this file was not read: {error.what}"))
    return sheets, wrong


def _differ(a: pd.Series, b: pd.Series, tolerance: float | None) -> pd.Series:
    """Tell where two columns are both known, and differ."""
    both = a.notna() & b.notna()
    if tolerance is None:
        return both & (a.astype("str").map(fold, na_action="ignore") != b.astype("str").map(fold, na_action="ignore"))
    return both & ((a.astype("float64") - b.astype("float64")).abs() > tolerance)


def _sources(sources: pd.DataFrame, sheets: list[Table]) -> tuple[pd.DataFrame, list[tuple]]:
    """Add to the sources what sheets with a row per source say; what was known first stays, what differs is said."""
    said, names = [], sources["source"].map(attribution.fold)
    for table in sheets:
        if not table.has("source") or table.has("image") or table.has("label_raw", "label"):
            continue
        place, listed = (table.file, table.sheet), table.get("source").map(attribution.fold, na_action="ignore")
        strange = int((~listed.dropna().drop_duplicates().isin(names)).sum())
        if strange:
            text = f"of {listed.nunique():,} sources listed, {strange:,} have no annotation in the release"
            said.append((*place, table.roles["source"], "source", listed.nunique(), text))
        for role in (role for role in OF_SOURCE if table.has(role)):
            said += _twice(table, role, listed, "sources")
            values = table.get(role).groupby(listed).first().reindex(names).set_axis(sources.index)
            if role not in sources:
                sources[role] = values
                continue
            if (other := sources["source"][_differ(sources[role], values, OF_SOURCE[role])]).size:
                text = f"{len(other):,} sources have another {role} than was read before, which stays: {_few(other)}"
                said.append((*place, table.roles[role], role, int(values.notna().sum()), text))
            sources[role] = sources[role].fillna(values)
    kinds = {"layout": "str", "megapixels": "float64", "url": "str", "images_url": "str", "first_image": "str"}
    kinds |= {"valid": "boolean", "images_number": "Int64"}
    sources = sources.reindex(columns=[*sources, *(name for name in kinds if name not in sources)]).astype(kinds)
    people = attribution.attribution(sources)[["source", "contributors", "affiliations", "licence"]]
    return sources.drop(columns=list(people)[1:], errors="ignore").merge(people, on="source", how="left"), said


def _twice(table: Table, role: str, listed, what: str) -> list[tuple]:
    """Say how many of what a sheet lists it says different things of; the first counts."""
    several = int((table.get(role).groupby(listed).nunique() > 1).sum())
    text = f"{what} listed with different values: {several:,}; the first is taken"
    return [(table.file, table.sheet, table.roles[role], role, len(table.frame), text)] if several else []


def _few(names: pd.Series) -> str:
    return ", ".join(map(str, names.head(3))) + (", ..." if len(names) > 3 else "")


def _images(images: pd.DataFrame, sheets: list[Table]) -> tuple[pd.DataFrame, list[tuple]]:
    """Add to the images what sheets with a row per image say; what nothing is said of stays empty."""
    said, names = [], pd.MultiIndex.from_frame(images[["source", "image"]])
    images = images.assign(**{name: pd.Series(dtype=OF_IMAGE[name]) for name in ("width", "height")})
    for table in sheets:
        if not table.has("source", "image") or not (roles := [role for role in OF_IMAGE if table.has(role)]):
            continue
        keys = [table.get("source"), table.get("image")]
        listed = pd.MultiIndex.from_arrays(keys)
        for role in roles:
            said += _twice(table, role, keys, "images")
            values = table.get(role).groupby(keys).first().reindex(names).set_axis(images.index).astype(OF_IMAGE[role])
            images[role] = images[role].fillna(values) if role in images else values
        lost = int((~listed.isin(names)).sum())
        if lost:
            text = f"{lost:,} images have no annotation in the release"
            said.append((table.file, table.sheet, table.roles["image"], "image", len(listed), text))
    return images, said


def _mapping(sheets: list[Table], counts: pd.DataFrame) -> pd.DataFrame:
    """Put each line of the label mappings beside what the annotations have and what `reefcore.taxonomy` reads."""
    most = counts.drop_duplicates("label_raw")  # the label that most points of this raw label have
    most = most.assign(annotations=counts.groupby("label_raw")["annotations"].sum().reindex(most["label_raw"]).array)
    most = most.set_index(most["label_raw"].map(fold)).rename(columns={"label": "annotated"})
    parts = []
    for table in sheets:
        if not table.has("label_raw", "label"):
            continue
        one = pd.DataFrame({name: table.get(name) for name in ("label_raw", "label")}).dropna(subset="label_raw")
        one = one.drop_duplicates().assign(file=table.file)
        if one.empty:
            continue
        one = one.join(most.loc[~most.index.duplicated(), ["annotated", "annotations"]], on=one["label_raw"].map(fold))
        taxa = taxonomy.match_labels(one["label_raw"]).set_index("label")["taxon"]
        one["taxon"] = one["label_raw"].map(taxa)
        notes: dict = {row: [] for row in one.index}
        # The words for what is no coral are everybody's own, so that only corals are compared with the taxonomy.
        names = taxonomy.match_labels(pd.concat([one["label"], one["taxon"]]).dropna().unique())
        corals = names.loc[names["order"].notna(), "label"]
        coral = one["label"].isin(corals) | one["taxon"].isin(corals)
        for name, text, of in (("annotated", "the annotations say", True), ("taxon", "reefcore.taxonomy reads", coral)):
            for row in one.index[_differ(one["label"], one[name], None) & of]:
                notes[row].append(f"{text} {one[name][row]}")
        if table.has("aphia_id"):
            ids = taxonomy.match_labels(one["label"].dropna().unique()).set_index("label")["aphia_id"]
            here, said = one["label"].map(ids), table.get("aphia_id").reindex(one.index)
            for row in one.index[_differ(here, said, 0)]:
                notes[row].append(f"AphiaID {said[row]}, but {here[row]} of {one['label'][row]} here")
        for row in one.index[one["annotations"].isna()]:
            notes[row].append("in no annotation")
        parts.append(
            one.assign(note=["; ".join(found) for found in notes.values()], annotations=one["annotations"].fillna(0))
        )
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(SAID["mapping"]))
    return table[list(SAID["mapping"])].astype(SAID["mapping"])


def _reviews(database, folder: Path, sheets: list[Table], annotations: Path) -> tuple[pd.DataFrame, list[tuple]]:
    """Read expert verdicts: of ``reviews.csv`` in the data folder, else of a released sheet that holds some."""
    columns, said = tables.COLUMNS["reviews"], []
    if (file := folder / "reviews.csv").exists():
        sheets = workbooks.read(file, Known())
        if not any(table.has("verdict") for table in sheets):
            do = "give annotation_id (or source, image, row, column and label_raw), verdict, reviewer, timestamp"
            raise ReefcoreError("no column of this file holds verdicts of experts", file, do)
    table = next((table for table in sheets if table.has("verdict")), None)
    empty = pd.DataFrame({name: pd.Series(dtype=kind.dtype) for name, kind in columns.items()})
    if table is None:
        return empty, said
    place = (table.file, table.sheet, table.roles["verdict"], "verdict")
    found = (
        pd.DataFrame({name: table.get(name) for name in table.roles}).dropna(subset="verdict").reset_index(drop=True)
    )
    by = ["annotation_id"] if "annotation_id" in found else ["image", "row", "column"]
    if lacking := [name for name in by if name not in found]:
        return empty, [
            (*place, len(found), f"not read: without annotation_id or {lacking[0]}, of what points is not known")
        ]
    by += [name for name in ("source", "label_raw") if name in found and len(by) > 1]
    database.register("verdicts", found.assign(line=found.index))
    same = " AND ".join(f'a."{name}" = v."{name}"' for name in by)
    known = (
        database.execute(f"""SELECT line, min(a.annotation_id) AS annotation_id FROM verdicts v
        JOIN read_parquet({reefnet.text(annotations)}) a ON {same} GROUP BY line ORDER BY line""")
        .df()
        .set_index("line")
    )
    if lost := len(found) - len(known):
        said.append((*place, len(found), f"{lost:,} verdicts are of points that are not in the annotations"))
    found = found.reindex(columns=["verdict", "reviewer", "timestamp"]).loc[known.index].assign(**known)
    when = pd.to_datetime(found["timestamp"], utc=True, errors="coerce", format="mixed")
    if when.isna().any():
        said.append((*place, len(found), f"{when.isna().sum():,} verdicts have no time; the table says 1970"))
    when = when.fillna(pd.Timestamp(0, tz="UTC")).astype("datetime64[us, UTC]")
    found = found.assign(timestamp=when, reviewer=found["reviewer"].fillna("not named"))
    return found[list(columns)].astype({"verdict": "str", "reviewer": "str"}).reset_index(drop=True), said
