"""TagLab projects: outlined regions on orthomosaics or photos, as points by the rule of `regions`.

Read are projects of every version: several maps with ``regions`` and ``points``, several maps with a bare list of
regions, and the first version with one ``Map File``. Contours are lists of x and y, or TagLab's text of differences in
tenths of a pixel. The centre of pixel 0 lies at 0, so a coordinate is rounded to its pixel.

``area`` is that of the outline in pixels, less its holes; with ``mm_per_pixel`` it is an area on the reef, which is
another thing than a count of points.
"""

from __future__ import annotations

import json
import math
import ntpath
import posixpath
from collections import Counter

import numpy as np
import pandas as pd

from reefcore import tables
from reefcore.annotations import regions
from reefcore.annotations.points import LARGEST, Format, Options, Result
from reefcore.annotations.sheet import Head, scan
from reefcore.errors import ReefcoreError

EMPTY = "Empty"  # TagLab's class of a region that nobody has labelled
NO_DATE = "1955-11-05"  # TagLab's date of a map whose date is not known
MARKS = (
    '"working_area"',
    '"Map File"',
    '"dictionary_name"',
    '"Segmentation Data"',
    '"map_px_to_mm_factor"',
    '"inner contours"',
)


def contour(given) -> np.ndarray | None:
    """Decode a contour: pairs of x and y, or differences in tenths of a pixel as a list or as text.

    Returns
    -------
    array of float, shape (n, 2)
        x and y in pixels; None where it is neither.
    """
    try:
        if isinstance(given, str):
            given = [int(number) for number in given.split()]
        values = np.asarray(given, dtype="float64")
        values = values if values.ndim == 2 and values.shape[1] == 2 else values.reshape(-1, 2).cumsum(axis=0) / 10
        return values if (np.abs(values) <= LARGEST).all() else None
    except (TypeError, ValueError, OverflowError):
        return None


def _load(head: Head) -> dict:
    try:
        with open(head.path, encoding=scan(head.path).encoding) as handle:
            project = json.load(handle)
    except (ValueError, RecursionError) as error:
        raise ReefcoreError(f"this TagLab project is damaged ({error})", head.path, "save or copy it again") from None
    if not isinstance(project, dict):
        raise ReefcoreError("this JSON file is no TagLab project", head.path, "give the project that TagLab saved")
    return project


def _file(path: str) -> str:
    """Take the file name of a path of Windows or of any other system."""
    return posixpath.basename(ntpath.basename(str(path or "")))


def _list(value) -> list:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _maps(project: dict) -> list[dict]:
    """Give the maps of a project of any version with the keys of today."""
    if "Map File" in project:
        channel = {"filename": project["Map File"], "type": "RGB"}
        one = {"channels": [channel], "map_px_to_mm_factor": project.get("Map Scale")}
        return [one | {"annotations": {"regions": _list(project.get("Segmentation Data"))}}]
    maps = [one for one in _list(project.get("images")) if isinstance(one, dict)]
    for one in maps:
        found = one.get("annotations") or {}
        one["annotations"] = found if isinstance(found, dict) else {"regions": found}
    return maps


def _name(one: dict, number: int) -> str:
    """Name a map by the file of its photo, else by the name it has in the project."""
    channels = [channel for channel in _list(one.get("channels")) if isinstance(channel, dict)]
    channels.sort(key=lambda channel: channel.get("type") != "RGB")
    files = [_file(channel.get("filename")) for channel in channels]
    return next((str(name) for name in [*files, one.get("name"), one.get("id")] if name), f"map {number}")


def _whole(value) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 < value <= LARGEST else None


def _box(project: dict, one: dict, width: int | None, height: int | None) -> tuple[int, int, int, int] | None:
    """Give the part of a map that is drawn over: its working area (top, left, width, height), else all of it."""
    area = project.get("working_area") or one.get("working_area")
    try:
        top, left, wide, high = (int(value) for value in area)
        if 0 < wide <= LARGEST and 0 < high <= LARGEST and 0 <= top <= LARGEST and 0 <= left <= LARGEST:
            return left, top, wide, high
    except (TypeError, ValueError, OverflowError):
        pass
    return None if width is None or height is None else (0, 0, width, height)


def read(head: Head, options: Options) -> Result:
    """Read a project: each region is one point, or with ``points="sample"`` points are drawn over each map.

    Regions of the class ``Empty``, which nobody has labelled, are left out and counted; where points are drawn they
    stay, so that they count as part of the reef.
    """
    project, source = _load(head), options.source or head.path.stem
    sampled, rows, shapes, left, problems, boxes, total = options.points == "sample", [], [], Counter(), [], {}, 0
    maps = _maps(project)
    names = [_name(one, number) for number, one in enumerate(maps, 1)]
    for number, one in enumerate(maps):
        name, twins = names[number], names.count(names[number])
        if twins > 1:
            name = f"{one.get('name') or one.get('id') or f'map {number + 1}'} ({name})"
            problems.append((None, "", f"{twins} maps have the photo {names[number]!r}; this one is called {name!r}"))
        size = options.sized(pd.Series([name], dtype="str")).iloc[0]
        width, height = (_whole(one.get(side)) or _whole(size[side]) for side in ("width", "height"))
        scale = one.get("map_px_to_mm_factor")
        try:
            scale = float(scale)
        except (TypeError, ValueError, OverflowError):
            scale = math.nan
        date = one.get("acquisition_date")
        fact = {"source": source, "image": name, "width": width, "height": height, "mm_per_pixel": scale}
        fact |= {"date": None if date in (None, "", NO_DATE) else str(date), "map": one.get("name") or one.get("id")}
        boxes[name] = _box(project, one, width, height)
        for region in _list(one["annotations"].get("regions")):
            total += 1
            why, row, shape = _region(region, sampled, boxes[name])
            left[why] += 1
            if not why:
                rows.append(fact | row)
                shapes.append(shape)
            elif why not in ("", NOT_LABELLED):
                problems.append((None, "regions", f"region {_id(region)} of {name}: {why}; left out"))
        for point in _list(one["annotations"].get("points")):
            total += 1
            why, row = _point(point, sampled)
            left[why] += 1
            if not why:
                rows.append(fact | row)
                shapes.append(None)
            elif why not in ("", NOT_LABELLED):
                problems.append((None, "points", f"point {_id(point)} of {name}: {why}; left out"))
    del left[""]
    if left[NOT_LABELLED]:
        problems.append((None, "", f"{NOT_LABELLED}: {left[NOT_LABELLED]:,} left out"))
    if not total:
        problems.append((None, "", "the project has no regions and no points"))
    frame = pd.DataFrame(rows, columns=COLUMNS).astype(TYPES)
    frame, rest = tables.check(tables.complete(frame), "annotations")
    assert rest.empty, rest
    beyond = (frame["column"] >= frame["width"]) | (frame["row"] >= frame["height"])
    for row in frame[beyond.fillna(False)].itertuples():
        problems.append((None, "regions", f"region {row.region} of {row.image} lies outside its map"))
    if sampled:
        frame = regions.sampled(frame, shapes, boxes, 0.0, options.sample, options.seed)
    return Result(frame, problems, total, dict(left))


NOT_LABELLED = f"regions of the class {EMPTY!r}, which nobody has labelled"
COLUMNS = ["source", "image", "row", "column", "label_raw", "region", "rule", "area", "note", "date", "map", "width"]
COLUMNS += ["height", "mm_per_pixel"]
TYPES = dict.fromkeys(["source", "image", "label_raw", "region", "rule", "note", "date", "map"], "str")
TYPES |= {"row": "int64", "column": "int64", "area": "float64", "width": "Int64", "height": "Int64"}


def _id(thing) -> str:
    return str(thing.get("id", thing.get("Id", ""))) if isinstance(thing, dict) else ""


def _region(region, sampled: bool, box) -> tuple[str, dict, object]:
    """Make the row of one region: why it is left out (empty where it is not), the row, the shape."""
    if not isinstance(region, dict) or not region.get("class name"):
        return "a region without a class", {}, None
    outline = contour(region.get("contour"))
    holes = [contour(hole) for hole in _list(region.get("inner contours"))]
    shape = None if outline is None else regions.polygon(outline, [hole for hole in holes if hole is not None])
    if shape is None:
        return "a region whose outline cannot be read, or encloses nothing", {}, None
    if region["class name"] == EMPTY and not sampled:
        return NOT_LABELLED, {}, None
    if sampled and box is None:
        return "a region on a map whose size is not known, where points are drawn", {}, None
    x, y, rule = regions.inside(shape)
    row = {"row": round(y), "column": round(x), "label_raw": str(region["class name"]), "area": shape.area}
    if min(row["row"], row["column"]) < 0:
        return "a region outside its map", {}, None
    return "", row | {"region": _id(region), "rule": rule, "note": region.get("note") or None}, shape


def _point(point, sampled: bool) -> tuple[str, dict]:
    """Make the row of a point that TagLab itself has drawn or taken from elsewhere."""
    if sampled:
        return "a point, where points are drawn over regions", {}
    if not isinstance(point, dict) or not point.get("Class"):
        return "a point without a class", {}
    if point["Class"] == EMPTY:
        return NOT_LABELLED, {}
    try:
        row = {"row": round(float(point["Y"])), "column": round(float(point["X"]))}
    except (KeyError, TypeError, ValueError, OverflowError):
        return "a point whose place cannot be read", {}
    if not 0 <= min(row.values()) <= max(row.values()) <= LARGEST:
        return "a point outside its map", {}
    row |= {"label_raw": str(point["Class"]), "region": _id(point), "rule": "point", "note": point.get("Note") or None}
    return "", row


FORMATS = [
    Format(
        "taglab",
        "a TagLab project of outlined regions",
        lambda head: head.kind == "json" and any(mark in head.start for mark in MARKS),
        read,
        kinds=("json",),
    ),
    Format(
        "taglab-table",
        "a table of regions that TagLab exported",
        lambda head: head.has("taglabid", "taglabclassname"),
        do="give the project itself, the .json that TagLab saves",
    ),
]
