"""Crops around points: decode a photo once for all its points, instead of once per point."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks import Row, photo, seconds
from reefcore.patches import cut

SIZE = 512


def rows() -> Iterator[Row]:
    """Cut ten crops of 512 pixels from each of two 12-megapixel JPEGs."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files = [photo(Path(folder) / f"{i}.jpg", seed=i) for i in range(2)]
        points = pd.DataFrame(
            {
                "source": "benchmark",
                "image": np.repeat([file.name for file in files], 10),
                "row": rng.integers(0, 3000, 20),
                "column": rng.integers(0, 4000, 20),
                "annotation_id": [str(i) for i in range(20)],
            }
        )

        def plain():
            for point in points.itertuples():
                image = np.asarray(Image.open(Path(folder) / point.image))
                padded = np.pad(image, ((SIZE, SIZE), (SIZE, SIZE), (0, 0)), mode="reflect")
                top, left = point.row + SIZE // 2, point.column + SIZE // 2
                padded[top : top + SIZE, left : left + SIZE].copy()

        plain_s, library_s = seconds(plain, 1), seconds(lambda: cut(points, folder, SIZE, workers=1))
    yield Row("20 crops of 512 px from 2 photos, 12 MP", "open, decode, pad, slice per point", plain_s,
              "patches.cut: decode once, fold indices", library_s)  # fmt: skip
