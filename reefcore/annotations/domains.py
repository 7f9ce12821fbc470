"""Data sets of points that others have published, for use as test domains: BenthicNet, Eilat, MERMAID's open data.

``benthicnet``
    ``benthicnet_labelled.csv``: a row for each label, with ``dataset``, ``site``, ``image`` and CATAMI labels as paths
    from the general to the special. A label of a whole photo is no point: it is left out and counted.
``eilat``
    A folder of photos with a text file beside each, ``photo.jpg.txt`` or ``photo.txt``: lines ``row; column; label``.
    That is how the same authors published the Moorea labels; that Eilat's have it too is assumed.
``mermaid-open``
    ``mermaid_confirmed_annotations.parquet`` or one photo's ``..._annotations.csv``; a label is an attribute with its
    growth form.

Those of masks are in `reefcore.annotations.masks`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.annotations.points import Format, Options, Result, build, cells, counted, each, extras, need, titled
from reefcore.annotations.sheet import Head, Sheet, key, lines_of, load, scan
from reefcore.errors import ReefcoreError
from reefcore.images import ENDINGS

#: Columns that may hold the pixel of a label: nobody has told us what the released file calls it.
ROWS, COLUMNS = (
    ("row", "pointrow", "annotationrow", "y", "pointy"),
    ("column", "col", "pointcolumn", "annotationcolumn", "x", "pointx"),
)
CATAMI = ("catamibiota", "catamisubstrate")  # what lives there counts before what it lives on
#: A part of a CATAMI path -> the functional group of all below it.
CATAMI_GROUPS = {
    "stony corals": "Hard coral",
    "black & octocorals": "Soft coral",
    "macroalgae": "Macroalgae",
    "sponges": "Sponge",
    "seagrasses": "Seagrass",
    "unconsolidated (soft)": "Sand",
    "consolidated (hard)": "Rock",
}


def _path(label: str) -> list[str]:
    """Split a CATAMI path, ``Cnidaria > Corals > Stony corals``, into its parts."""
    return [part.strip() for part in re.split(r"\s*(?:>|\||;)\s*", label.strip("[]'\"")) if part.strip()]


def _group_of(label: str) -> str:
    return next(
        (CATAMI_GROUPS[name] for part in reversed(_path(label)) if (name := part.casefold()) in CATAMI_GROUPS), ""
    )


def read_benthicnet(head: Head, options: Options) -> Result:
    """Read BenthicNet's labelled CSV; the photo is named ``<dataset>/<site>/<image>.jpg``, as it is downloaded."""
    need(
        head,
        "BenthicNet's table of labels",
        **{"dataset, site, image": head.first("dataset"), "catami_biota": head.first(*CATAMI)},
    )
    sheet = load(head)
    text = sheet.frame
    raw = pd.Series("", index=text.index, dtype="str")
    for name in CATAMI:
        raw = raw.where(raw.ne(""), cells(head, text, name))
    named = [cells(head, text, name) for name in ("dataset", "site", "image")]
    images = (named[0] + "/" + named[1] + "/" + named[2]).where(named[2].ne(""), "")
    images = images.where(images.eq("") | images.str.lower().str.endswith(ENDINGS), images + ".jpg")
    leaf = each(raw, lambda label: next(reversed(_path(label)), ""))
    row, column = cells(head, text, *ROWS), cells(head, text, *COLUMNS)
    whole = row.eq("") & column.eq("")
    codes = leaf.str.fullmatch(r"[\d,\s]+") & raw.ne("")  # the tables for training have numbers of classes
    out = pd.Series("", index=text.index, dtype="str").mask(codes, "a number of a class, whose name is not in the file")
    out = out.mask(whole & out.eq(""), "a label of the whole photo, no point")
    if whole.any():
        sheet.problems.append(
            (None, "", f"{counted(int(whole.sum()), 'label')} of whole photos left out: they are no points")
        )
    given = {
        "image": ("image", images),
        "label_raw": ("catami_biota", leaf),
        "row": ("row", row),
        "column": ("column", column),
    }
    given |= titled(head, text, latitude="latitude", longitude="longitude")
    used = {i for name in ("latitude", "longitude", "image", *ROWS, *COLUMNS) if (i := head.first(name)) is not None}
    group = each(raw, _group_of)
    further = extras(head, sheet, used, options) | {"group_in_file": group.where(group.ne(""))}
    return build(head, sheet, given, further, options, out)


def read_mermaid(head: Head, options: Options) -> Result:
    """Read MERMAID's confirmed annotations; the photo is ``<image_id>.png``, and the region its MEOW realm."""
    names = ("image_id", "row", "col", "benthic_attribute_name")
    need(head, "MERMAID's open training data", **{name: head.first(key(name)) for name in names})
    sheet = load(head)
    text = sheet.frame
    attribute, form, image = (cells(head, text, name) for name in ("benthicattributename", "growthformname", "imageid"))
    labels = attribute.where(form.eq("") | attribute.eq(""), attribute + " (" + form + ")")
    used = {head.first(key(name)) for name in (*names, "growth_form_name")} - {None}
    further = extras(head, sheet, used, options) | {"life_form": form.where(form.ne(""))}
    if head.has("regionname"):
        further["realm"] = (realm := cells(head, text, "regionname")).where(realm.ne(""))
    titles = {"row": ("row", cells(head, text, "row")), "column": ("col", cells(head, text, "col"))}
    images = (image + ".png").where(image.ne(""), "")
    given = {"image": ("image_id", images), "label_raw": ("benthic_attribute_name", labels)} | titles
    return build(
        head, sheet, given, further | {"labelled_by": pd.Series("person", index=text.index, dtype="str")}, options
    )


def _beside(head: Head) -> list[tuple[str, str]]:
    """Pair each photo of a folder with the text file of its points."""
    there = set(head.names)
    photos = [name for name in head.names if name.lower().endswith(ENDINGS)]
    found = (
        (name, next((t for t in (f"{name}.txt", f"{name.rpartition('.')[0]}.txt") if t in there), ""))
        for name in photos
    )
    return [pair for pair in found if pair[1]]


def read_eilat(head: Head, options: Options) -> Result:
    """Read the text files of a folder; lines that begin with # are comments, and a line that is no point is counted."""
    rows, lines, names = [], [], []
    if not _beside(head):
        raise ReefcoreError("no photo of this folder has a text file of points beside it", head.path, "see its page")
    for image, points in _beside(head):
        file = head.path / points
        for line, record in enumerate(lines_of(file, scan(file).encoding), 1):
            if record.strip() and not record.lstrip().startswith("#"):
                delimiter = next((one for one in ";\t" if one in record), ",")
                parts = [part.strip() for part in record.split(delimiter)]
                rows.append([image, *(parts if len(parts) == 3 else ["", "", record.strip()])])
                lines.append(line)
                names.append(Path(points).name)
    frame = pd.DataFrame(rows, columns=range(4), dtype="str")
    sheet = Sheet(frame, np.array(lines, dtype="int64"), [], len(frame))
    source = options.source or head.path.resolve().name
    titles = ("image", "row", "column", "label_raw")
    given = {name: (name, frame[at]) for at, name in enumerate(titles)} | {
        "source": ("source", pd.Series(source, index=frame.index, dtype="str"))
    }
    result = build(head, sheet, given, {"file": pd.Series(names, index=frame.index, dtype="str")}, options, fixed=False)
    alone = sum(name.lower().endswith(ENDINGS) for name in head.names) - len(_beside(head))
    if alone:
        result.problems.append((None, "", f"{counted(alone, 'photo')} without a file of points"))
    return result


FORMATS = [
    Format(
        "benthicnet",
        "BenthicNet's table of labels",
        lambda head: head.has("dataset", "site", "image") and head.first(*CATAMI) is not None,
        read_benthicnet,
    ),
    Format(
        "mermaid-open",
        "MERMAID's open training data",
        lambda head: head.has("imageid", "row", "col", "benthicattributename"),
        read_mermaid,
        kinds=("text", "workbook", "parquet"),
    ),
    Format(
        "eilat",
        "a folder of photos with a text file of points beside each",
        lambda head: head.kind == "folder" and bool(_beside(head)),
        read_eilat,
        kinds=("folder",),
    ),
]
