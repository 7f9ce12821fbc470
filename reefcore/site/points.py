"""Points on their photos: rows and columns that are exchanged, count from 1, belong to another size or lie outside."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore import tables
from reefcore.annotations.points import base_of, counted

ENOUGH = 30  # points of known photos below which nothing is concluded from where they lie
SHARE = 0.1  # of the points outside as given: at most so many may be outside when exchanged
ALIKE = 0.05  # how far two ratios may differ and count as one factor
MANY = 200  # points, evenly spread, that all but surely come within 5 % of the far borders


def requested(points: pd.DataFrame, swap: bool, scale: float) -> pd.DataFrame:
    """Exchange rows and columns, and scale them to the photos as they are here, where site.yaml asks for it."""
    if not swap and scale == 1:
        return points
    row, column = ("column", "row") if swap else ("row", "column")
    found = {"row": points[row], "column": points[column]}
    if scale != 1:
        found = {name: np.floor((values + 0.5) * scale).astype("int64") for name, values in found.items()}
    points = points.assign(**found)
    return points.assign(annotation_id=tables.annotation_ids(points))


def inside(points: pd.DataFrame, width, height) -> pd.Series:
    """Tell of each point whether it lies on its photo: boolean, NA where the size of the photo is not known."""
    width, height = (pd.array(side, dtype="Int64") for side in (width, height))
    found = (points["row"].astype("Int64") < height) & (points["column"].astype("Int64") < width)
    return found.where(pd.notna(width) & pd.notna(height)).astype("boolean").rename("inside")


def judge(points: pd.DataFrame, images: pd.DataFrame, which: np.ndarray) -> list[tuple]:
    """Say of each file of annotations what is wrong with its rows and columns, with the evidence and the remedy.

    Nothing is changed: a line of site.yaml does that.

    Parameters
    ----------
    points : DataFrame
        ``file``, ``image``, ``row``, ``column`` (0-based).
    images : DataFrame
        ``width``, ``height`` (Int64, as stored; NA unknown), ``stated_width``, ``stated_height`` (as the export says),
        ``orientation`` (of EXIF).
    which : ndarray of int
        The row of `images` of each point.

    Returns
    -------
    list of (check, state, text, count, examples)
    """
    height, width = (images[name].astype("Float64").to_numpy(float, na_value=np.nan) for name in ("height", "width"))
    said = _sizes(images)
    for file, here in points.groupby("file", sort=True):
        at = which[points.index.get_indexer(here.index)]
        said += _file(str(file), here, at, height[at], width[at], images["orientation"].to_numpy()[at] >= 5)
    return said


def _file(file, here, at, height, width, turned) -> list[tuple]:
    row, column = here["row"].to_numpy(), here["column"].to_numpy()
    known = ~np.isnan(height)
    given = known & ((row >= height) | (column >= width))
    swapped = known & ((column >= height) | (row >= width))
    examples = "; ".join(
        f"{one.image}: row {one.row}, column {one.column}, photo {width[n]:.0f} x {height[n]:.0f}"
        for n, one in zip(np.flatnonzero(given)[:5], here[given].head(5).itertuples(), strict=True)
    )
    base, evidence = base_of(len(here), row.min(), row.max(), column.min(), column.max())
    edge = known & ((row == height) | (column == width)) & (row <= height) & (column <= width)
    name, said = "rows and columns", []
    if (base == "1" or min(row.min(), column.min()) >= 1) and edge.any() and (given == edge).all():
        text = f"{file}: {counted(edge.sum(), 'point')} exactly one pixel beyond the photo, and none at 0: rows and"
        text += f" columns count from 1 ({evidence}); base: 1 in site.yaml reads them so"
        return [(name, "warning", text, edge.sum(), "")]
    if base == "1":
        text = f"{file}: rows and columns seem to count from 1 ({evidence}); base: 1 in site.yaml reads them so"
        said.append((name, "warning", text, 0, ""))
    if not given.any():
        return said + _small(file, row, column, height, width, known)
    photos, out = len(np.unique(at[given])), int(given.sum())
    on = counted(photos, "photo")
    much = (
        f"{out:,} of {counted(known.sum(), 'point')} {'lies' if out == 1 else 'lie'} outside the photo as in the file"
    )
    all_turned, still = (given & turned).sum() == out, int((swapped & turned).sum())
    if all_turned and still <= SHARE * out and (known & ~turned).any():
        text = f"{file}: {much}, on photos that the EXIF orientation turns by a quarter, and {still:,} of them if rows"
        text += " and columns are exchanged: these were annotated upright and are stored lying; save them upright"
        return [*said, (name, "warning", text, out, examples)]
    if swapped.sum() <= SHARE * out and (out >= 3 or out == known.sum()):
        text = f"{file}: {much} (on {on}), {swapped.sum():,} if rows and columns are exchanged: they are in"
        text += " the other order, it seems; swap: true in site.yaml exchanges them"
        if all_turned:
            text += " (or the photos, whose EXIF orientation turns them, were annotated upright)"
        return [*said, (name, "wrong", text, out, examples)]
    if known.sum() >= ENOUGH and (factor := _factor(row, column, height, width, known)) and factor > 1 + ALIKE:
        text = f"{file}: {much}, and reach {factor:.2f} times as far both ways: the photos were made smaller after they"
        text += f" were annotated, it seems; scale: {1 / factor:.3f} in site.yaml fits the points to them"
        return [*said, (name, "wrong", text, out, examples)]
    text = f"{file}: {much} (on {on}); all are in csv/outside.csv, count in covers, and get no patch"
    return [*said, (name, "warning", text, out, examples)]


def _factor(row, column, height, width, known) -> float:
    """Return how far points reach over their photos, where it is the same both ways; else 0."""
    down, across = (row[known] + 1) / height[known], (column[known] + 1) / width[known]
    far = max(down.max(), across.max())
    return far if abs(down.max() - across.max()) <= ALIKE * far else 0.0


def _small(file, row, column, height, width, known) -> list[tuple]:
    """Say that points cover one corner of the photos only."""
    places = len(
        set(zip(row[known].tolist(), column[known].tolist(), strict=True))
    )  # some tools always ask the same few
    factor = _factor(row, column, height, width, known) if places >= MANY else 0
    if not 0 < factor < 0.8:
        return []
    text = (
        f"{file}: all points lie in the upper left {factor:.0%} of the photos' height and width: the photos are larger"
    )
    text += f" than those that were annotated, it seems; scale: {1 / factor:.3f} in site.yaml fits the points to them"
    return [("rows and columns", "warning", text, int(known.sum()), "")]


def _sizes(images: pd.DataFrame) -> list[tuple]:
    """Say where photos do not have the size that the export states."""
    known = images[["width", "height", "stated_width", "stated_height"]].notna().all(axis=1)
    some = images[known]
    other = (some["width"] != some["stated_width"]) | (some["height"] != some["stated_height"])
    turned = other & (some["width"] == some["stated_height"]) & (some["height"] == some["stated_width"])
    said = []
    for which, text in (
        (
            turned,
            "with width and height exchanged, against the export: annotated upright and stored lying",
        ),
        (other & ~turned, "without the size that the export states: resized or cut after annotation"),
    ):
        rows = some[which]
        if not len(rows):
            continue
        examples = "; ".join(
            f"{one.image}: {one.width} x {one.height}, stated {one.stated_width} x {one.stated_height}"
            for one in rows.head(5).itertuples()
        )
        ratios = pd.concat([rows[side] / rows[f"stated_{side}"] for side in ("width", "height")]).astype(float)
        if not which.equals(turned) and ratios.max() - ratios.min() <= ALIKE * ratios.max():
            text += f"; scale: {ratios.median():.3f} in site.yaml fits the points to them"
        said.append(("size of photos", "warning", f"{counted(len(rows), 'photo')} {text}", len(rows), examples))
    return said
