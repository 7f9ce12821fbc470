"""What a photo's pixels say about camera and water before any label: resolution and mean colour (paper, Section 3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.images import decode, image_size, photo_path

__all__ = ["image_size", "mean_rgb", "table"]

COLUMNS = ["source", "image", "width", "height", "megapixels", "red", "green", "blue"]


def mean_rgb(path: str | Path) -> tuple[float, float, float]:
    """Average the colour of a photo over all its pixels.

    A JPEG is decoded at an eighth of its size, where every pixel already is the mean of a block of 8 x 8: nine times
    faster, and within 0.1 level of the full decode on ordinary photos (0.6 where much of it is clipped black or white).
    Blocks cut by the border count by their area.

    Returns
    -------
    red, green, blue : float
        In 0..255.

    Raises
    ------
    ReefcoreError
        Where the photo cannot be read.
    """
    image, _ = decode(path, eighth=True)
    across, down = (_block_sides(full, small) for full, small in zip(image_size(path), image.size, strict=True))
    rows = down @ np.asarray(image, dtype=np.float32).reshape(len(down), -1)
    red, green, blue = (across @ rows.reshape(len(across), 3) / (across.sum() * down.sum())).tolist()
    return red, green, blue


def _block_sides(full: int, small: int) -> np.ndarray:
    """Give how many of `full` pixels in a line each of `small` ones stands for: 8 and a rest, or all 1."""
    side = 8 if small < full else 1
    return np.minimum(full - side * np.arange(small), side).astype(np.float32)


def table(images: pd.DataFrame, photos: str | Path, workers: int = 2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Measure many photos.

    Parameters
    ----------
    images : DataFrame
        Columns ``source`` and ``image``; repeated photos are measured once.
    photos : path
        Folder with the photos as ``<source>/<image>``; a single source may lie directly in it.
    workers : int
        Threads; PIL lets others run while it decodes.

    Returns
    -------
    covariates : DataFrame
        ``source``, ``image``, ``width`` and ``height`` in pixels, ``megapixels``, and ``red``, ``green``, ``blue`` in
        0..255, sorted by source and image.
    skipped : DataFrame
        ``source``, ``image``, ``reason`` of the photos that could not be read.
    """
    names = images[["source", "image"]].drop_duplicates().sort_values(["source", "image"])
    flat = names["source"].nunique() == 1

    def measure(name):
        path = photo_path(photos, *name, flat)
        try:
            (width, height), colour = image_size(path), mean_rgb(path)
        except ReefcoreError as error:
            return (*name, str(error.what)), None
        return None, (*name, width, height, width * height / 1e6, *colour)

    with ThreadPoolExecutor(workers) as pool:
        skipped, measured = (
            zip(*pool.map(measure, names.itertuples(index=False, name=None)), strict=True) if len(names) else ((), ())
        )
    return (
        pd.DataFrame([row for row in measured if row], columns=COLUMNS),
        pd.DataFrame([row for row in skipped if row], columns=["source", "image", "reason"], dtype="str"),
    )
