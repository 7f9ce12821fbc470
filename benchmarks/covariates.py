"""Mean colour of a photo from a reduced decode, beside the plain way and the fastest exact one; and its size."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import simplejpeg
from PIL import Image

from benchmarks import Row, alternately, photo, seconds
from reefcore.covariates import mean_rgb, table
from reefcore.images import image_size

COPIES = 8


def plain(file: Path) -> np.ndarray:
    """Average by PIL and numpy."""
    with Image.open(file) as image:
        return np.asarray(image).mean(axis=(0, 1))


def exact(file: Path) -> np.ndarray:
    """Average by the fastest exact way known here: the faster decoder, and integer sums down and then across."""
    pixels = simplejpeg.decode_jpeg(file.read_bytes())
    sums = pixels.reshape(len(pixels), -1).sum(axis=0, dtype=np.uint32)
    return sums.reshape(-1, 3).sum(axis=0, dtype=np.uint64) / (pixels.size // 3)


def rows() -> Iterator[Row]:
    """Average the colour of 12-megapixel JPEGs, ordinary and progressive; measure all covariates; read a size."""
    with tempfile.TemporaryDirectory() as folder:
        ordinary = photo(Path(folder) / "photo.jpg")
        progressive = Path(folder) / "progressive.jpg"
        Image.open(ordinary).save(progressive, quality=92, progressive=True)
        for file, kind in ((ordinary, "12 MP"), (progressive, "12 MP progressive")):
            off = np.abs(plain(file) - mean_rgb(file)).max()
            plain_s, exact_s, library_s = alternately(*(partial(way, file) for way in (plain, exact, mean_rgb)))
            library = f"covariates.mean_rgb, off by {off:.3f} of 255"
            yield Row(f"mean colour, {kind}", "PIL decode, numpy mean", plain_s, library, library_s)
            yield Row(f"mean colour, {kind}", "exact: simplejpeg, integer sums", exact_s, library, library_s)
        names = [f"{i}.jpg" for i in range(COPIES)]
        for name in names:
            shutil.copy(ordinary, Path(folder) / name)
        images = pd.DataFrame({"source": "benchmark", "image": names})
        plain_s, library_s = alternately(partial(plain, ordinary), lambda: table(images, folder, workers=1), rounds=3)
        yield Row("all covariates, 12 MP", "PIL, numpy: mean only", plain_s, "covariates.table", library_s / COPIES)
        full_s, header_s = (
            seconds(lambda: Image.open(ordinary).load()),
            seconds(lambda: [image_size(ordinary) for _ in range(COPIES)]) / COPIES,
        )
        yield Row("size of a photo, 12 MP", "PIL decode", full_s, f"image_size: {1e6 * header_s:.0f} us", header_s)
