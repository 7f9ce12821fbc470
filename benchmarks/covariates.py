"""Mean colour of a photo: a decode at an eighth of the size, instead of a full one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import Row, photo, seconds
from reefcore.covariates import mean_rgb


def rows() -> Iterator[Row]:
    """Average the colour of one 12-megapixel JPEG."""
    with tempfile.TemporaryDirectory() as folder:
        file = photo(Path(folder) / "photo.jpg")
        plain_s = seconds(lambda: np.asarray(Image.open(file)).mean(axis=(0, 1)))
        library_s = seconds(lambda: mean_rgb(file))
    yield Row(
        "mean colour of a photo, 12 MP", "decode, numpy mean", plain_s, "covariates.mean_rgb: 1/8 decode", library_s
    )
