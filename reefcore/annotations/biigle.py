"""BIIGLE's CSV report of image annotations, as the zip it comes in or as a table taken out of it.

=========================  =========================================================================================
shape                      becomes
=========================  =========================================================================================
Point                      itself
Circle                     its centre
Rectangle, Polygon,        one point inside, by the rule of `reefcore.annotations.regions`; with
Ellipse                    ``points="sample"``, points drawn at random over each photo instead
LineString                 left out and counted: a length, not a place
WholeFrame, unknown ones   left out and counted
=========================  =========================================================================================

A pixel is the whole part of a coordinate: BIIGLE counts x and y from the corner of the photo. Images of one file name
in one report are told apart by their number, which is put before the name as a folder.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.annotations import regions
from reefcore.annotations.points import LARGEST as FARTHEST
from reefcore.annotations.points import Format, Options, Result, build, cells, extras, hide, named_apart, need
from reefcore.annotations.sheet import Head, load, look, unzip
from reefcore.errors import ReefcoreError

TITLE = "a BIIGLE annotation report"
AREAS = ("circle", "rectangle", "polygon", "ellipse")
NUMBERS = {"point": 2, "circle": 3, "rectangle": 8, "ellipse": 8}  # how many coordinates a shape has
OWN = ("filename", "imagelatitude", "imagelongitude", "labelname", "points", "attributes", "shapename", "createdat")
PEOPLE = ("userid", "firstname", "lastname")
LARGEST = 4 << 30  # bytes of tables that are unpacked from one zip; more is an attack or a mistake


def _is_biigle(head: Head) -> bool:
    """Tell whether a table, or one of the tables in a zip, is a report of image annotations."""
    if head.kind == "zip":
        with tempfile.TemporaryDirectory() as folder:
            return any(_is_biigle(inner) for _, inner in _sheets(head.path, Path(folder), ""))
    fits = head.has("annotationlabelid", "filename") or head.has("labelname", "shapename", "points", "filename")
    return fits and not is_video(head)


def is_video(head: Head) -> bool:
    """Tell whether it is a report of video annotations."""
    return head.has("videoannotationlabelid") or head.has("videofilename")


def is_image_labels(head: Head) -> bool:
    """Tell whether it is a report of labels of whole images."""
    return head.has("imagelabelid")


def _sheets(path: Path, folder: Path, source: str, depth: int = 0):
    """Unpack the tables of a report, as ``(source, head)``; a report of a project holds a zip per volume."""
    with unzip(path, "export it again") as archive:
        names = sorted(name for name in archive.namelist() if not name.startswith("__MACOSX"))
        names = [name for name in names if name.lower().endswith((".csv", ".zip"))]
        if sum(archive.getinfo(name).file_size for name in names) > LARGEST:
            raise ReefcoreError("this zip unpacks to more than 4 GB", path, "export smaller parts")
        for number, name in enumerate(names):
            copy = folder / f"{depth}-{number}{Path(name).suffix.lower()}"  # never by the name in the zip
            copy.write_bytes(archive.read(name))
            if copy.suffix == ".zip":
                if depth == 0:
                    inner = folder / str(number)
                    inner.mkdir()
                    yield from _sheets(copy, inner, Path(name).stem, depth + 1)
            else:
                with contextlib.suppress(ReefcoreError):  # empty, or no table at all
                    yield source, look(copy)


def _numbers(text: str) -> list[float] | None:
    """Read the coordinates of a shape: a JSON list of finite numbers, nothing else."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        return None
    return values if all(abs(value) <= FARTHEST for value in values) else None  # NaN is not


def _outline(kind: str, values: list[float]):
    """Make the shapely shape of a region; a circle and an ellipse become polygons of 128 corners."""
    turn = np.linspace(0, 2 * np.pi, 128, endpoint=False)
    if kind == "circle":
        x, y, radius = values
        return regions.polygon(np.column_stack([x + radius * np.cos(turn), y + radius * np.sin(turn)]))
    corners = np.reshape(values, (-1, 2))
    if kind == "ellipse":  # the ends of its two axes
        middle, one, other = corners.mean(axis=0), corners[1] - corners[0], corners[3] - corners[2]
        corners = middle + np.outer(np.cos(turn), one / 2) + np.outer(np.sin(turn), other / 2)
    return regions.polygon(corners)


def _size(text: str) -> tuple[int | None, int | None]:
    """Read width and height from the attributes of an image."""
    try:
        known = json.loads(text or "{}")
        size = tuple(int(known[name]) for name in ("width", "height"))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None, None
    return size if min(size) > 0 and max(size) <= FARTHEST else (None, None)


def _place(kind: str, text: str) -> tuple:
    """Find the point of one shape: x, y, rule, shape and why it is left out."""
    if kind not in ("point", *AREAS):
        known = {"linestring": "a line, not a point or a region", "wholeframe": "a label of the whole photo"}
        return None, None, "", None, known.get(kind, f"a shape that is not known ({kind or 'none'})")
    values = _numbers(text)
    if values is None or len(values) != NUMBERS.get(kind, len(values)) or (kind == "polygon" and len(values) % 2):
        return None, None, "", None, f"a {kind} whose coordinates cannot be read"
    if kind == "point":
        return *values, "point", None, ""
    shape = _outline(kind, values)
    if shape is None:
        return None, None, "", None, f"a {kind} without an area"
    if kind == "circle":
        return *values[:2], "centre", shape, ""
    return *regions.inside(shape), shape, ""


def _person(head: Head, text: pd.DataFrame) -> pd.Series:
    """Name who labelled: first and last name, else the number of the account."""
    full = (cells(head, text, "firstname") + " " + cells(head, text, "lastname")).str.strip()
    return full.where(full.ne(""), cells(head, text, "userid"))


def _table(head: Head, options: Options, source: str) -> Result:
    """Read one table of image annotations."""
    wanted = {title: head.first(title.replace("_", "")) for title in ("filename", "label_name", "shape_name", "points")}
    need(head, TITLE, **wanted)
    sheet, columns, sampled = load(head), head.columns, options.points == "sample"
    text, none = sheet.frame, pd.Series("", index=sheet.frame.index, dtype="str")
    images, kinds = text[columns["filename"]], text[columns["shapename"]].str.lower()
    placed = [_place(*pair) for pair in zip(kinds, text[columns["points"]], strict=True)]
    places = pd.DataFrame(placed, columns=["x", "y", "rule", "outline", "why"], index=text.index)
    attributes = cells(head, text, "attributes")
    known, size = {value: _size(value) for value in attributes.unique()}, options.sized(images)
    for i, side in enumerate(size):
        size[side] = (
            attributes.map({value: pair[i] for value, pair in known.items()}).astype("Int64").fillna(size[side])
        )
    out = places["why"].astype("str")
    if sampled:
        out = out.mask(out.eq("") & places["outline"].isna(), "a point, where points are drawn over regions")
        out = out.mask(out.eq("") & size.isna().any(axis=1), "a region on a photo whose size is not known")
    pixels = {}
    for axis, side in (("x", "width"), ("y", "height")):
        place = places[axis].astype("float64")
        place = np.floor(place - place.eq(size[side].astype("float64")))  # the very edge belongs to the last pixel
        out = out.mask(out.eq("") & place.lt(0), "a place left of or above its photo")
        pixels[side] = place.fillna(-1).astype("int64").astype("str")
    problems = [
        (int(sheet.lines[out.eq(why)][0]), "points", f"{why}: left out ({n:,} row{'s' * (n > 1)})")
        for why, n in out[out.ne("")].value_counts(sort=False).items()
    ]
    sheet.problems += problems + _doubts(head, text)
    if "imageid" in columns:  # else two photos of one name would become one; the sizes are found by the plain name
        number = text[columns["imageid"]]
        images, said = named_apart(images, pd.Series(source, index=text.index, dtype="str"), number, number)
        sheet.problems += said
    given = {"image": (head.header[columns["filename"]], images), "row": ("points", pixels["height"])}
    given |= {"column": ("points", pixels["width"]), "label_raw": ("label_name", text[columns["labelname"]])}
    for title in ("latitude", "longitude"):
        if f"image{title}" in columns:
            given[title] = (f"image_{title}", text[columns[f"image{title}"]])
    area = pd.Series([None if shape is None else shape.area for shape in places["outline"]], index=text.index)
    further = {"shape": text[columns["shapename"]], "rule": places["rule"], "area": area.astype("float64"), **size}
    person = hide(_person(head, text), options)
    further |= {"annotator": person.where(person.ne("")), "labelled_by": none + "person"}  # people give BIIGLE's labels
    if "createdat" in columns:
        further["date_annotated"] = text[columns["createdat"]].where(text[columns["createdat"]].ne(""))
    used = {columns[name] for name in (*OWN, *(() if options.names else PEOPLE)) if name in columns}
    further |= extras(head, sheet, used, options) | {"outline": pd.Series(np.arange(len(text)), index=text.index)}
    result = build(head, sheet, given, further, replace(options, source=source), out)
    order = result.frame.pop("outline")
    if sampled:
        boxes = {row.image: (0, 0, row.width, row.height) for row in result.frame.itertuples()}
        shapes = places["outline"].to_numpy()[order]
        result.frame = regions.sampled(result.frame, shapes, boxes, 0.5, options.sample, options.seed)
    return result


def _doubts(head: Head, text: pd.DataFrame) -> list[tuple]:
    """Say what a user should know: several labels on one annotation, one name for several labels."""
    found, columns = [], head.columns
    if "annotationid" in columns:
        labels = text.groupby(columns["annotationid"])[columns["labelname"]].size()
        if many := int((labels > 1).sum()):
            found.append((None, "annotation_id", f"{many:,} annotations have several labels; each is a row of its own"))
    if "labelid" in columns:
        several = text.groupby(columns["labelname"])[columns["labelid"]].nunique()
        what = "labels, which are taken for one; label_hierarchy tells them apart"
        found += [
            (None, "label_name", f"{name!r} is the name of {n} {what}") for name, n in several[several > 1].items()
        ]
    return found


def read(head: Head, options: Options) -> Result:
    """Read a report: a table, or a zip of tables (of volumes, users or label trees).

    Raises
    ------
    ReefcoreError
        Where no table of it is a report of image annotations, or the zip is damaged.
    """
    source = options.source or head.path.stem
    if head.kind != "zip":
        return _table(head, options, source)
    results, problems, others = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (found, inner) in enumerate(_sheets(head.path, Path(folder), source), 1):
            if _is_biigle(inner):
                try:
                    results.append(_table(inner, options, options.source or found))
                except ReefcoreError as error:  # it names the unpacked copy
                    raise ReefcoreError(f"table {number}: {error.what}", head.path, error.do) from None
                problems += [(line, column, f"table {number}: {said}") for line, column, said in results[-1].problems]
            elif rows := load(inner).total:
                others += rows
                problems.append((None, "", f"table {number} is no report of image annotations; {rows:,} rows left out"))
    if not results:
        raise ReefcoreError("this zip holds no table of image annotations", head.path, "make BIIGLE's CSV report")
    if len(results) == number == 1:
        problems = results[0].problems
    left_out = Counter({"a table that is no report of image annotations": others})
    for result in results:
        left_out.update(result.left_out)
    frame = pd.concat([result.frame for result in results], ignore_index=True)
    return Result(frame, problems, sum(result.total for result in results) + others, dict(+left_out))


FORMATS = [
    Format("biigle", TITLE, _is_biigle, read, kinds=("text", "workbook", "zip")),
    Format(
        "biigle-video",
        "a BIIGLE report of video annotations: frames of a film, no points of photos",
        is_video,
        do="annotate still frames, or export a report of image annotations",
    ),
    Format(
        "biigle-summary",
        "a BIIGLE report of areas, counts or places, without the points of annotations",
        lambda head: (
            head.has("annotationareasqm")
            or head.has("imagefilename", "labelname")
            or head.header == ["label_name", "count"]
        ),
        do="make the CSV report of image annotations",
    ),
    Format(
        "biigle-image-labels",
        "a BIIGLE report of labels of whole images, without points",
        is_image_labels,
        do="make the CSV report of image annotations",
    ),
]
