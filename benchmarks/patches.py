"""Crops around points: decode a photo once for all its points, by the faster decoder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import Row, alternately, ten_points
from reefcore.patches import crop, cut

SIZE = 512


def rows() -> Iterator[Row]:
    """Cut ten crops of 512 pixels from a 12-megapixel JPEG."""
    with tempfile.TemporaryDirectory() as folder:
        file, points = ten_points(Path(folder), SIZE)

        def per_point():
            for r, c in zip(points["row"], points["column"], strict=True):
                crop(np.asarray(Image.open(file)), r, c, SIZE)

        def once():
            pixels = np.asarray(Image.open(file))
            for r, c in zip(points["row"], points["column"], strict=True):
                crop(pixels, r, c, SIZE)

        point_s, once_s, library_s = alternately(per_point, once, lambda: cut(points, folder, SIZE, workers=1))
    yield Row("10 crops of 512 px, 12 MP", "PIL decode per point", point_s, "patches.cut", library_s)
    yield Row("10 crops of 512 px, 12 MP", "PIL decode once", once_s, "patches.cut", library_s)
