"""Square crops around annotated points, cut as CoralNet's pyspacer cuts them, and how a model reads them.

A frame that is not annotated at points is laid out in the cells of a grid instead (`cells`, `crops`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from tqdm import tqdm

from reefcore.errors import ReefcoreError
from reefcore.images import decode, open_image, photo_path
from reefcore.tables import GRID

__all__ = ["ArrayPatches", "cells", "crop", "crops", "cut", "open_image", "resized", "statistics"]

logger = logging.getLogger(__name__)


def cells(height: int, width: int, rows: int = GRID[0], columns: int = GRID[1]) -> np.ndarray:
    """Divide a frame into near-equal cells, as ``numpy.array_split`` does: every pixel lies in exactly one.

    Parameters
    ----------
    height, width : int
        Of the frame, in pixels; in this order.
    rows, columns : int
        Of the grid, at least 1.

    Returns
    -------
    ndarray of int64, shape (rows * columns, 4)
        Top, left, bottom and right of each cell in pixels, bottom and right excluded; row by row from the top left.

    Raises
    ------
    ReefcoreError
        Where the frame has fewer pixels than the grid has rows or columns.
    """
    if rows < 1 or columns < 1:
        raise ReefcoreError(f"a grid of {rows} x {columns} has no cell", do="ask for at least one row and one column")
    if height < rows or width < columns:
        raise ReefcoreError(
            f"a frame {width} pixels wide and {height} high is smaller than the grid of {columns} columns and "
            f"{rows} rows",
            do="give frames as the camera takes them, no thumbnails",
        )
    down, right = (
        np.arange(n + 1) * (size // n) + np.minimum(np.arange(n + 1), size % n)
        for size, n in ((height, rows), (width, columns))
    )
    row, column = (place.ravel() for place in np.indices((rows, columns)))
    return np.stack([down[row], right[column], down[row + 1], right[column + 1]], axis=1)


def crops(height: int, width: int, rows: int = GRID[0], columns: int = GRID[1]) -> np.ndarray:
    """Give the crop in the middle of each cell: floor(height / rows) x floor(width / columns) pixels, all alike.

    A cell is at most one pixel larger than its crop; of an odd pixel, the last row or column is left out.

    Returns
    -------
    ndarray of int64, shape (rows * columns, 4)
        See `cells`, also for parameters and errors.
    """
    inside = cells(height, width, rows, columns)
    size = np.array([height // rows, width // columns])
    inside[:, :2] += (inside[:, 2:] - inside[:, :2] - size) // 2
    inside[:, 2:] = inside[:, :2] + size
    return inside


def crop(image: np.ndarray, row: int, column: int, size: int) -> np.ndarray:
    """Cut a square around a point; what lies beyond the border is the image reflected there.

    The patch starts at ``row - ceil(size / 2)`` and ``column - ceil(size / 2)``, so the point is the pixel at index
    ``ceil(size / 2)`` of the patch in both directions: just past the middle, for even and odd sizes alike. The border
    pixel is not repeated (``numpy.pad(mode="reflect")``), and an image smaller than the patch is reflected back and
    forth as often as needed; a side of one pixel is repeated. This equals pyspacer's padding by `size` and slicing,
    pixel for pixel, without the padded copy of the image.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)
    row, column : int
        The point, in pixels from the top and from the left, 0-based; any point of the image, the border included.
    size : int
        Side of the patch in pixels, at least 1.

    Returns
    -------
    ndarray of uint8, shape (size, size, 3)
        A copy.

    Raises
    ------
    ReefcoreError
        Where the point lies outside the image or `size` is below 1.

    Examples
    --------
    >>> image = np.arange(9, dtype=np.uint8).reshape(3, 3)[:, :, None].repeat(3, axis=2)
    >>> crop(image, 0, 2, 4)[:, :, 0]
    array([[6, 7, 8, 7],
           [3, 4, 5, 4],
           [0, 1, 2, 1],
           [3, 4, 5, 4]], dtype=uint8)
    """
    height, width = image.shape[:2]
    if size < 1:
        raise ReefcoreError(f"a patch of {size} pixels cannot be cut", do="ask for a size of at least 1")
    if not (0 <= row < height and 0 <= column < width):
        raise ReefcoreError(_outside(row, column, height, width), do="points are 0-based (row, column), in pixels")
    top, left = int(row) - (size + 1) // 2, int(column) - (size + 1) // 2
    if top >= 0 and left >= 0 and top + size <= height and left + size <= width:
        return image[top : top + size, left : left + size].copy()
    return image[_reflected(top, size, height)[:, None], _reflected(left, size, width)]


def _outside(row: int, column: int, height: int, width: int) -> str:
    return f"the point at row {row}, column {column} lies outside its photo of {height} x {width} pixels"


def _reflected(start: int, size: int, length: int) -> np.ndarray:
    """Fold the positions start..start+size-1 into 0..length-1 by reflection about the border pixels."""
    period = max(2 * (length - 1), 1)
    position = np.arange(start, start + size) % period
    return np.minimum(position, period - position) if length > 1 else np.zeros(size, dtype=int)


def cut(points: pd.DataFrame, photos: str | Path, size: int, workers: int = 2) -> tuple[np.ndarray, pd.DataFrame]:
    """Cut the patches of many points, decoding each photo once.

    Parameters
    ----------
    points : DataFrame
        Columns ``source``, ``image``, ``row``, ``column``, ``annotation_id``.
    photos : path
        Folder with the photos as ``<source>/<image>``; those of a single source may lie directly in it.
    size : int
        Side of a patch in pixels; see `crop` for the border rule and `reefcore.images.decode` for how photos are read.
    workers : int
        Threads.

    Returns
    -------
    patches : ndarray of uint8, shape (n, size, size, 3)
        One patch per point that is not in `skipped`, in the order of `points`.
    skipped : DataFrame
        ``annotation_id``, ``source``, ``image``, ``reason``: points outside their photo, and all points of a photo that
        is missing or cannot be read. ``.attrs["truncated"]`` lists the photos that end early and were used anyway.
    """
    patches = np.zeros((len(points), size, size, 3), dtype=np.uint8)
    reasons = np.full(len(points), "", dtype=object)
    rows, columns = points["row"].to_numpy(), points["column"].to_numpy()
    groups = sorted(points.groupby(["source", "image"], sort=False).indices.items())
    flat = points["source"].nunique() == 1

    def cut_photo(group) -> str | None:
        (source, name), indices = group
        found, truncated = of_photo(photo_path(photos, source, name, flat), rows[indices], columns[indices], size)
        for i, patch in zip(indices, found, strict=True):
            if isinstance(patch, str):
                reasons[i] = patch
            else:
                patches[i] = patch
        return f"{source}/{name}" if truncated else None

    with ThreadPoolExecutor(workers) as pool:
        done = tqdm(pool.map(cut_photo, groups), "patches", len(groups), unit="photo", disable=not sys.stderr.isatty())
        truncated = [name for name in done if name]
    bad = reasons != ""
    skipped = points.loc[bad, ["annotation_id", "source", "image"]].assign(reason=reasons[bad]).reset_index(drop=True)
    skipped.attrs["truncated"] = truncated
    if truncated:
        logger.warning(
            "%d photos end early and were used as far as they go: %s.", len(truncated), ", ".join(truncated[:5])
        )
    if len(skipped):
        logger.warning(
            "%d of %d points have no patch; the first: %s.", len(skipped), len(points), skipped["reason"].iat[0]
        )
        patches = patches[~bad]
    return patches, skipped


def of_photo(path: str | Path, rows, columns, size: int) -> tuple[Iterator[np.ndarray | str], bool]:
    """Decode a photo once and cut a patch about each of its points, one at a time; see `crop`.

    Returns
    -------
    patches : iterator
        For each point its patch, or the reason (str) why there is none.
    truncated : bool
        The photo ends early and is used as far as it goes.
    """
    try:
        image, truncated = decode(path)
    except ReefcoreError as error:
        return iter([error.what] * len(rows)), False
    height, width = image.shape[:2]
    return (
        crop(image, row, column, size)
        if 0 <= row < height and 0 <= column < width
        else _outside(row, column, height, width)
        for row, column in zip(rows, columns, strict=True)
    ), truncated


KEPT = 256e6  # bytes of resized patches that an `ArrayPatches` keeps for the next reading: many trainings read the same


class ArrayPatches:
    """Patches of one array, in memory or memory-mapped, by their position in it.

    `reefcore.shards.ShardPatches` is read alike.

    Parameters
    ----------
    array : ndarray of uint8, shape (n, size, size, 3)
    ids : sequence of str, length n
        The annotation_id of each patch.

    Attributes
    ----------
    ids : list of str
    size : int
        Side of a patch as it is kept, in pixels.
    in_memory : bool
        Whether reading is cheap enough to do without worker processes.

    Raises
    ------
    ReefcoreError
        Where there is not one id per patch, or the array holds no patches.
    """

    in_memory = True

    def __init__(self, array: np.ndarray, ids):
        if array.ndim != 4 or array.shape[1:] != (array.shape[1], array.shape[1], 3) or array.dtype != np.uint8:
            raise ReefcoreError(
                f"an array of {array.dtype}, shape {array.shape}, holds no patches",
                do="give uint8, shape (n, size, size, 3)",
            )
        if len(ids) != len(array):
            raise ReefcoreError(f"{len(array)} patches but {len(ids)} ids", do="build the patches again")
        self.array, self.ids, self.size = array, list(ids), array.shape[1]
        self._resized: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def read(self, positions, side: int) -> np.ndarray:
        """Read patches.

        Parameters
        ----------
        positions : sequence of int
            In any order; one may come again.
        side : int
            Resized to this many pixels, see `resized`.

        Returns
        -------
        ndarray of uint8, shape (len(positions), side, side, 3)
            A copy.

        Raises
        ------
        ReefcoreError
            Where a position is outside 0..n-1, or `side` below 1.
        """
        positions = inside(positions, len(self.ids), side)
        if side == self.size:
            return np.asarray(self.array[positions])
        if len(self.array) * 3 * side**2 > KEPT:
            return stacked((resized(self.array[position], side) for position in positions), len(positions), side)
        if side not in self._resized:
            there = np.zeros(len(self.array), bool)
            self._resized = {side: (np.empty((len(there), side, side, 3), np.uint8), there)}  # of the last side only
        pixels, there = self._resized[side]
        for position in np.unique(positions[~there[positions]]):
            pixels[position], there[position] = resized(self.array[position], side), True
        return pixels[positions]


def inside(positions, n: int, side: int) -> np.ndarray:
    """Check what a `read` is asked for, before the first patch is touched; return the positions as an array."""
    positions = np.asarray(positions, dtype=np.int64)
    wrong = positions[(positions < 0) | (positions >= n)]
    if len(wrong):
        raise ReefcoreError(f"there is no patch at position {wrong[0]} of {n}", do="positions count from 0")
    if side < 1:
        raise ReefcoreError(f"a patch of {side} pixels cannot be read", do="ask for a side of at least 1")
    return positions


def stacked(patches, n: int, side: int) -> np.ndarray:
    """Stack `n` patches of one side as they come."""
    stack = np.empty((n, side, side, 3), dtype=np.uint8)
    for i, patch in enumerate(patches):
        stack[i] = patch
    return stack


def resized(patch: np.ndarray, side: int) -> np.ndarray:
    """Resize a patch to a side in pixels: bilinear, and antialiased where it becomes smaller (Pillow's, as timm's)."""
    if len(patch) == side:
        return patch
    return np.asarray(Image.fromarray(patch).resize((side, side), Image.Resampling.BILINEAR))


def statistics(patches, positions, seed: int = 0, most: int = 20_000) -> pd.DataFrame:
    """Compute what patches are normalised by: mean and standard deviation of each channel.

    The paper normalises by those of its training part (appendix A.3).

    Parameters
    ----------
    patches : ArrayPatches or ShardPatches
    positions : sequence of int
        The patches of the training part.
    seed : int
        Of the draw where there are more than `most`.
    most : int
        Patches looked at; every pixel of them counts, exactly.

    Returns
    -------
    DataFrame
        ``channel`` (red, green, blue), ``mean``, ``std`` (over pixels; fractions of 255), ``n`` (patches).

    Raises
    ------
    ReefcoreError
        Without a patch, or with a position that has none.
    """
    positions = np.asarray(positions, dtype=np.int64)
    if not len(positions):
        raise ReefcoreError("there is no patch to take statistics of", do="give positions of at least one")
    if len(positions) > most:
        positions = np.random.default_rng(seed).choice(positions, most, replace=False)
    positions, total, squares = np.sort(positions), np.zeros(3), np.zeros(3)
    for start in range(0, len(positions), 64):
        levels = patches.read(positions[start : start + 64], patches.size).reshape(-1, 3).astype(np.float64)
        total += levels.sum(axis=0)  # whole numbers below 2**53: exact, in any order
        squares += np.einsum("ij,ij->j", levels, levels)
    pixels = len(positions) * patches.size**2
    mean = total / pixels
    std = np.sqrt(squares / pixels - mean**2)
    return pd.DataFrame(
        {"channel": ["red", "green", "blue"], "mean": mean / 255, "std": std / 255, "n": len(positions)}
    )
