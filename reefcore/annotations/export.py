"""Writing annotations for other programs.

===============  ====================================================================================================
format           what is written
===============  ====================================================================================================
``coralnet``     CoralNet's CSV: every column and cell that was read of a CoralNet file, else Name, Row, Column, Label
                 and what CoralNet has a column for
``reefcloud``    one row per point in ReefCloud's column names
``mermaid``      counts per photo, label and growth form in MERMAID's layout of benthic photo quadrats
``darwin-core``  occurrences: one per photo, taxon and basis of record, with the percent of the photo's points
``croissant``    the table itself as Parquet, and a Croissant description beside it
===============  ====================================================================================================

What cannot be represented is counted by its reason, never dropped in silence. Pseudonyms stay pseudonyms. In the two
formats that people open in a spreadsheet (``mermaid``, ``darwin-core``) a cell that would be taken for a formula gets
an apostrophe in front; in the others, which must come back as they were, only one that would call something.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import croissant, spreadsheets
from reefcore.annotations.points import each, labelled_by, pseudonym, telling
from reefcore.annotations.sheet import key
from reefcore.errors import ReefcoreError
from reefcore.files import atomic, write_parquet

#: CoralNet's own column titles, in its order, around the user-named ones; by `key` they stand for the table's columns.
BEFORE = ["Name", "Date"]
AFTER = ["Height (cm)", "Latitude", "Longitude", "Depth", "Camera", "Photographer", "Water quality", "Strobes"]
AFTER += ["Framing gear used", "White balance card", "Comments", "Row", "Column", "Label", "Annotator"]
AFTER += ["Date annotated"]
AFTER += [f"Machine {what} {number}" for number in range(1, 6) for what in ("suggestion", "confidence")]
TITLES = {key(title): title for title in [*BEFORE, *AFTER, "Label ID", "Label code"]}
PIXELS = {"image": "Name", "row": "Row", "column": "Column"}
REEFCLOUD = {"project_name": "source", "site_name": "site", "site_latitude": "latitude", "site_longitude": "longitude"}
REEFCLOUD |= {"survey_start_date": "date", "survey_depth": "depth", "survey_transect_number": "transect"}
REEFCLOUD |= {"image_name": "image", "image_height": "height", "image_width": "width"}
MERMAID = ["Site *", "Management *", "Sample date: Year *", "Sample date: Month *", "Sample date: Day *", "Sample time"]
MERMAID += ["Depth *", "Transect length surveyed *", "Number of quadrats *", "Quadrat size *"]
MERMAID += ["Number of points per quadrat *", "Transect number *", "Transect label", "Reef slope", "Visibility"]
MERMAID += ["Current", "Relative depth", "Tide", "Sample unit notes", "Observer emails *", "Quadrat *"]
MERMAID += ["Benthic attribute *", "Growth form", "Number of points *"]
MEASURED = ("depth", "width", "height")  # no positions, whatever they equal
DEAD = "Dead coral"  # as MERMAID calls it, of whatever taxon
DEGREE = 111_320  # metres per degree of latitude, and of longitude at the equator
CELL = 0.1  # degrees: what a position is rounded to
QUALIFIER = re.compile(r"\b(?:cf|aff|nr|spp?)\b\.?|\?")  # what people write in a label of which they are not sure


def _text(values: pd.Series) -> pd.Series:
    """Write values as text: whole numbers without a decimal point, missing ones empty."""
    if pd.api.types.is_float_dtype(values) or pd.api.types.is_integer_dtype(values):
        plain = [
            "" if pd.isna(v) else str(int(v)) if float(v).is_integer() else repr(float(v)) for v in values.tolist()
        ]
        return pd.Series(plain, index=values.index, dtype="str")
    if pd.api.types.is_datetime64_any_dtype(values):
        values = values.dt.strftime("%Y-%m-%dT%H:%M:%S").str.removesuffix("T00:00:00")
    return values.astype("str").fillna("")


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    return _text(frame[name]) if name in frame else pd.Series("", index=frame.index, dtype="str")


def _day(frame: pd.DataFrame) -> pd.Series:
    """Give the dates that are ISO 8601 as YYYY-MM-DD; others, such as 5/6/2016, could be two days and stay empty."""
    return _column(frame, "date").str.extract(r"^(\d{4}-\d{2}-\d{2})(?!\d)")[0].fillna("")


def coralnet(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Make CoralNet's table; of one read from CoralNet, the columns and cells that it had."""
    given = frame.attrs.get("titles", {}) if frame.attrs.get("format") == "coralnet" else {}
    titles = {name: title for name, title in given.items() if name in frame}
    if not titles:
        known = {key(name): name for name in frame}
        own = PIXELS | {"label_raw": "Label"}
        titles = {name: TITLES[short] for short, name in known.items() if short in TITLES and name != "label"} | own
        order = [*BEFORE, *AFTER]
        titles = dict(sorted(titles.items(), key=lambda item: order.index(item[1]) if item[1] in order else 99))
        titles = {name: title for name, title in titles.items() if name in own or frame[name].notna().any()}
    found = {}
    for name, title in titles.items():  # where the label stands in several columns, each is as it was
        title = PIXELS.get(name) or TITLES.get(key(title)) or title.strip()
        found.setdefault(title, _text(frame[name]))
    if frame["source"].nunique() > 1:  # else photos of one name would become one
        found.setdefault("Source", _text(frame["source"]))
    return pd.DataFrame(found), {}


def reefcloud(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Make a table of points in ReefCloud's column names; the coordinate is the text ``x, y``."""
    table = pd.DataFrame({title: _column(frame, name) for title, name in REEFCLOUD.items()})
    who, labels = labelled_by(frame), _column(frame, "label_raw")
    table["point_id"] = _column(frame, "annotation_id")
    table["point_num"] = (frame.groupby(["source", "image"], sort=False).cumcount() + 1).astype("str")
    table["point_machine_classification"] = labels.where(who.eq("machine").fillna(False), "")
    table["point_human_classification"] = labels.where(~who.eq("machine").fillna(False), "")
    table["point_human_group_code"] = _column(frame, "group_in_file")
    table["point_coordinate"] = _column(frame, "column") + ", " + _column(frame, "row")
    table["point_modified_by_displayname"] = _column(frame, "annotator")
    return table, {}


def mermaid(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Make MERMAID's table of benthic photo quadrats: a photo is a quadrat; fields nobody knows stay empty."""
    site = _column(frame, "site")
    rows = pd.DataFrame({"Site *": site.where(site.ne(""), _column(frame, "source")), "day": _day(frame)})
    rows["Depth *"], rows["Transect number *"] = _column(frame, "depth"), _column(frame, "transect").replace("", "1")
    unit = list(rows)
    rows["image"] = _column(frame, "source") + "\x1f" + _column(frame, "image")
    label = _column(frame, "label")
    rows["Benthic attribute *"] = label.where(label.ne(""), _column(frame, "label_raw"))
    dead = _column(frame, "condition").str.lower().eq("dead")
    rows["Benthic attribute *"] = rows["Benthic attribute *"].mask(dead, DEAD)  # else it would count as living coral
    growth = _column(frame, "life_form").str.lower()
    rows["Growth form"] = growth.replace("tabular", "plates or tables")
    rows["Number of points per quadrat *"] = rows.groupby("image")["day"].transform("size").astype("str")
    photos = rows.drop_duplicates([*unit, "image"])
    photos = photos.assign(**{"Quadrat *": (photos.groupby(unit, sort=False).cumcount() + 1).astype("str")})
    photos["Number of quadrats *"] = photos.groupby(unit)["image"].transform("size").astype("str")
    rows = rows.merge(photos[[*unit, "image", "Quadrat *", "Number of quadrats *"]], on=[*unit, "image"])
    table = rows.groupby(list(rows), sort=False).size().astype("str").rename("Number of points *").reset_index()
    for title, part in {"Year": slice(4), "Month": slice(5, 7), "Day": slice(8, 10)}.items():
        table[f"Sample date: {title} *"] = table["day"].str[part].str.lstrip("0")
    return spreadsheets.inert(table.reindex(columns=MERMAID, fill_value="")), {}


def uncertainty(latitude: pd.Series) -> pd.Series:
    """Compute how far in metres a position rounded to 0.1 degree can be from the true one: half a cell's diagonal."""
    half = CELL / 2 * DEGREE
    return np.hypot(half, half * np.cos(np.deg2rad(latitude)))


def darwin_core(frame: pd.DataFrame, rounded: bool = False) -> tuple[pd.DataFrame, dict]:
    """Make Darwin Core occurrences: one per photo, taxon, condition and basis of record (person or machine).

    The event is the photo; its sample size is its points, and the quantity of a taxon the percent of them. A point
    whose label is no taxon with an AphiaID (sand, dead coral, a label without a taxon) makes no occurrence: it counts
    in the sample size, and is counted by its reason.
    """
    taxa = frame["aphia_id"].notna()
    none = "a label that is no taxon with an AphiaID" if taxa.any() else "a label without a taxon: map labels to taxa"
    left_out = {none: int((~taxa).sum())} if (~taxa).any() else {}
    rows = pd.DataFrame({name: _column(frame, name) for name in ("source", "image", "label", "label_raw", "rank")})
    rows["aphia_id"], rows["day"] = _column(frame, "aphia_id"), _day(frame)
    rows["verbatim"] = _column(frame, "date").where(rows["day"].eq(""), "")
    rows["basis"] = np.where(labelled_by(frame).eq("machine").fillna(False), "MachineObservation", "HumanObservation")
    rows["qualifier"] = rows["label_raw"].str.findall(QUALIFIER).str.join(" ")
    for name in ("site", "latitude", "longitude", "depth", "condition"):
        rows[name] = _column(frame, name)
    people = _column(frame, "annotator")
    rows["person"] = each(people, pseudonym)
    rows["points"] = rows.groupby(["source", "image"])["label"].transform("size")
    what = ["source", "image", "aphia_id", "condition", "qualifier", "basis"]
    groups = rows[taxa].groupby(what, sort=False)
    found = groups.first().drop(columns=["person", "label_raw"]).assign(n=groups.size())
    for name in ("person", "label_raw"):
        several = rows.loc[taxa & rows[name].ne(""), [*what, name]].drop_duplicates().sort_values(name)
        found[name] = several.groupby(what, sort=False)[name].first()
        several = several[several.duplicated(what, keep=False)]
        if len(several):
            found[name] = (
                several.groupby(what, sort=False)[name].agg(" | ".join).reindex(found.index).fillna(found[name])
            )
    found = found.reset_index().fillna({"person": ""})
    ids = ["\x1f".join(parts) for parts in found[what].itertuples(index=False)]
    table = pd.DataFrame(
        {
            "occurrenceID": ["reefcore:" + hashlib.md5(i.encode(), usedforsecurity=False).hexdigest() for i in ids],
            "eventID": found["source"] + ":" + found["image"],
            "eventDate": found["day"],
            "verbatimEventDate": found["verbatim"],
            "basisOfRecord": found["basis"],
            "occurrenceStatus": "present",
            "vitality": np.where(found["condition"].str.contains("dead", case=False), "dead", ""),
            "occurrenceRemarks": found["condition"],
            "scientificName": found["label"],
            "scientificNameID": "urn:lsid:marinespecies.org:taxname:" + found["aphia_id"],
            "taxonRank": found["rank"],
            "verbatimIdentification": found["label_raw"],
            "identificationQualifier": found["qualifier"],
            "identifiedBy": found["person"],
            "organismQuantity": (100 * found["n"] / found["points"]).round(4).map("{:g}".format).astype("str"),
            "organismQuantityType": "percentage of points",
            "sampleSizeValue": found["points"].astype("str"),
            "sampleSizeUnit": "points",
            "samplingProtocol": "point annotation of a photo",
            "datasetName": found["source"],
            "locality": found["site"],
            "decimalLatitude": found["latitude"],
            "decimalLongitude": found["longitude"],
            "geodeticDatum": np.where(found["latitude"].ne(""), "WGS84", ""),
            "coordinateUncertaintyInMeters": "",
            "minimumDepthInMeters": found["depth"],
            "maximumDepthInMeters": found["depth"],
        }
    )
    if rounded:
        far = uncertainty(pd.to_numeric(found["latitude"], errors="coerce")).map(math.ceil, na_action="ignore")
        table["coordinateUncertaintyInMeters"] = _text(far.astype("Int64"))
    return spreadsheets.inert(table), left_out


FORMATS: dict[str, Callable] = {"coralnet": coralnet, "reefcloud": reefcloud, "mermaid": mermaid}
FORMATS |= {"darwin-core": darwin_core, "croissant": lambda frame: (frame, {})}


def write(
    annotations: pd.DataFrame,
    path: str | Path,
    format: str,
    *,
    positions: str = "exact",
    name: str = "annotations",
    licence: str = "not stated",
    cite: str = "not stated",
) -> dict:
    """Write annotations in a format of other programs, whole or not at all.

    Parameters
    ----------
    annotations : DataFrame
        The annotations table. Labels need not be mapped to taxa, except for ``darwin-core``.
    path : path
        A CSV; of ``croissant`` a Parquet table, with the description beside it as ``NAME.croissant.json``.
    format : {'coralnet', 'reefcloud', 'mermaid', 'darwin-core', 'croissant'}
    positions : {'exact', 'rounded', 'none'}
        Latitudes and longitudes as they are, rounded to 0.1 degree, or left out. A further column that repeats them,
        such as a remark, is left out unless they are as they are.
    name, licence, cite : str
        For ``croissant``: what the data are called, their licence, how to cite them.

    Returns
    -------
    dict
        ``files`` (what was written), ``format``, ``rows`` (of the file), ``annotations`` (of the table),
        ``left_out`` (reason -> annotations that the file does not represent), ``hidden`` (further columns that tell
        positions, which are left out where these are not to be exact).

    Raises
    ------
    ReefcoreError
        Where a format or an option has no meaning.
    """
    path = Path(path)
    if format not in FORMATS:
        raise ReefcoreError(f"{format!r} is not a format that reefcore writes", do=f"use {', '.join(FORMATS)}")
    if positions not in ("exact", "rounded", "none"):
        raise ReefcoreError(f"positions is {positions!r}", do="use exact, rounded or none")
    frame = annotations.reset_index(drop=True)
    frame.attrs = {name: annotations.attrs[name] for name in ("format", "titles") if name in annotations.attrs}
    frame, hidden = (frame, []) if positions == "exact" else _less_exact(frame, positions)
    table, left_out = FORMATS[format](frame, *([positions == "rounded"] if format == "darwin-core" else []))
    if format == "croissant" and path.suffix != ".parquet":
        raise ReefcoreError("a Croissant table is Parquet", path, "let its name end in .parquet")
    files = [path]
    try:
        if format == "croissant":
            described = croissant.describe(write_parquet(table, path), table, name, name, licence, cite)
            files.append(path.with_suffix(".croissant.json"))
            with atomic(files[1]) as temporary:
                temporary.write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        else:
            with atomic(path) as temporary:
                inert = spreadsheets.inert(table, runs=spreadsheets.CALLS)
                inert.to_csv(temporary, index=False, lineterminator="\n")
    except OSError as error:
        raise ReefcoreError(f"this cannot be written ({error.strerror})", path, "name another place") from None
    rows = {"rows": len(table), "annotations": len(frame), "left_out": left_out, "hidden": hidden}
    return {"files": [str(file) for file in files], "format": format, **rows}


def _less_exact(frame: pd.DataFrame, positions: str) -> tuple[pd.DataFrame, list[str]]:
    """Round every position to 0.1 degree, or leave it out; further columns that tell it are left out, and named."""
    place = [name for name in ("latitude", "longitude") if name in frame]
    hidden = telling(frame, frame.reindex(columns=["latitude", "longitude"]).astype("float64"), MEASURED)
    frame = frame.drop(columns=hidden)
    if positions == "none":
        return frame.drop(columns=place), hidden
    return frame.assign(**{name: frame[name].round(1) for name in place}), hidden


def together(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Join tables that `reefcore.annotations.read` gave, their accounts and the titles of their columns as well."""
    known = [frame.attrs for frame in frames]
    frame = pd.concat([one for one in frames if len(one)] or frames[:1], ignore_index=True)
    left_out = Counter()
    for attrs in known:
        left_out.update(attrs["left_out"])
    formats = sorted({attrs["format"] for attrs in known})
    frame.attrs = {"format": formats[0] if len(formats) == 1 else "several", "left_out": dict(left_out)}
    frame.attrs |= {name: sum(attrs[name] for attrs in known) for name in ("rows", "read")}
    frame.attrs["titles"] = {name: title for attrs in known for name, title in attrs["titles"].items()}
    return frame


def said(done: dict) -> str:
    """Say what `write` did, for people."""
    reasons = {"read": done["input_left_out"], "written": done["left_out"]}
    lines = [f"{done['input_read']:,} of {done['input_rows']:,} records read"]
    written = done["annotations"] - sum(done["left_out"].values())
    lines.append(
        f"{', '.join(done['files'])}: {done['rows']:,} rows of {written:,} of {done['annotations']:,} annotations"
    )
    lines += [f"not {how}: {why} ({n:,})" for how, counts in reasons.items() for why, n in counts.items()]
    if done["hidden"]:
        lines.append(f"columns left out, because they tell positions: {', '.join(done['hidden'])}")
    return "\n".join(lines)
