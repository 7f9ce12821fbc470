"""From outlined regions to points, by one stated rule for every format that has regions (BIIGLE, TagLab).

By default each region becomes one point: its centroid where that lies inside it, else a point well inside
(shapely's representative point), so that the point always carries the region's label. Such points say what was
outlined, not how much of the photo it covers: a large and a small colony count one point each. With
``points="sample"``, points are drawn at random over each photo instead, as a point count would have, and each takes the
label of the region it falls in; then every photo and every part of it counts the same, and cover can be computed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from reefcore import tables

NO_REGION = "(no region)"  # the label of a drawn point that no region covers
PHOTO = ["source", "image", "latitude", "longitude", "width", "height", "date", "map", "mm_per_pixel"]  # facts of it


def polygon(outline: np.ndarray, holes: Sequence[np.ndarray] = ()):
    """Make a shape of an outline and the outlines of its holes; an outline that crosses itself is mended.

    Parameters
    ----------
    outline : array of float, shape (n, 2)
        x and y in pixels.
    holes : sequence of such arrays

    Returns
    -------
    shapely Polygon or MultiPolygon, or None where it encloses no area.
    """
    import shapely

    rings = [np.asarray(ring, dtype="float64") for ring in (outline, *holes)]
    if rings[0].ndim != 2 or len(rings[0]) < 3 or not np.isfinite(rings[0]).all():
        return None
    shape = shapely.Polygon(rings[0], [ring for ring in rings[1:] if ring.ndim == 2 and len(ring) >= 3])
    if not shape.is_valid:
        parts = shapely.get_parts(shapely.make_valid(shape))
        shape = shapely.union_all([part for part in parts if part.area > 0])
    return shape if shape.area > 0 else None


def inside(shape) -> tuple[float, float, str]:
    """Give one point inside a shape and how it was chosen: ``centroid``, or ``inside`` where that lies outside."""
    point, how = shape.centroid, "centroid"
    if not shape.contains(point):
        point, how = shape.representative_point(), "inside"
    return point.x, point.y, how


def draw(shapes: Sequence, box: tuple[int, int, int, int], centre: float, image: str, n: int, seed: int):
    """Draw pixels at random over a part of a photo, and find the region each lies in.

    Parameters
    ----------
    shapes : sequence of shapely shapes
    box : (left, top, width, height)
        In pixels; each pixel of it is as likely as any other.
    centre : float
        Where in the coordinates of the shapes the centre of pixel 0 lies: 0 or 0.5.
    image : str
        Its name; the draw depends on it and on `seed` alone, not on the other photos of a file.
    n, seed : int

    Returns
    -------
    rows, columns : arrays of int, shape (n,)
    found : array of int, shape (n,)
        The position of the smallest shape over each pixel, the one that lies on top; -1 where none does.
    """
    import shapely

    left, top, width, height = box
    random = np.random.default_rng([seed, zlib.crc32(image.encode())])
    columns, rows = left + random.integers(width, size=n), top + random.integers(height, size=n)
    found = np.full(n, -1)
    if len(shapes):
        drawn, over = shapely.STRtree(shapes).query(shapely.points(columns + centre, rows + centre), "intersects")
        for place in np.argsort([-shapes[i].area for i in over], kind="stable"):  # the smallest last, so it stays
            found[drawn[place]] = over[place]
    return rows, columns, found


def sampled(frame: pd.DataFrame, shapes: Sequence, boxes: dict, centre: float, n: int, seed: int) -> pd.DataFrame:
    """Draw `n` points over each photo that has regions, in the place of one point per region.

    Parameters
    ----------
    frame : DataFrame
        The annotations table of the regions, one row each.
    shapes : sequence
        Their shapely shapes.
    boxes : dict
        Image -> (left, top, width, height) of the part of it that is drawn over.
    centre, n, seed
        As for `draw`.

    Returns
    -------
    DataFrame
        The annotations table of the points. What holds for the photo is kept for all, what holds for a region for the
        points in it; a point in none has the label ``(no region)``.
    """
    if frame.empty:
        return frame
    parts = []
    for (_, image), group in frame.assign(shape_=list(shapes)).groupby(["source", "image"], sort=False):
        outlines, group = list(group.pop("shape_")), group.reset_index(drop=True)
        rows, columns, found = draw(outlines, boxes[image], centre, image, n, seed)
        part = group.reindex(found).reset_index(drop=True)
        for name in (name for name in PHOTO if name in group):
            part[name] = group[name].iloc[0]
        parts.append(part.assign(row=rows, column=columns, rule="drawn"))
    drawn = pd.concat(parts, ignore_index=True)
    drawn["label_raw"] = drawn["label_raw"].fillna(NO_REGION)
    kept, problems = tables.check(tables.complete(drawn), "annotations")
    assert problems.empty, problems
    return kept
