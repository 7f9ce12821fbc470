"""Speed of this library beside the plain way of doing the same, and its accuracy on real photographs.

``python -m benchmarks`` prints one table of ratios; each module here gives it rows by a function ``rows()``. Times are
the best of a few repeats on this machine, one thread each; the ratio is what travels between machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Row(NamedTuple):
    """One job done the plain way and this library's way, in seconds."""

    job: str
    plain: str
    plain_s: float
    library: str
    library_s: float


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Time a function: the best of some repeats, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def alternately(*works: Callable[[], object], rounds: int = 7) -> list[float]:
    """Time several ways in turn, so that what else the machine does meets all of them; the best of each, in seconds."""
    return [min(times) for times in zip(*([seconds(work, 1) for work in works] for _ in range(rounds)), strict=True)]


def ten_points(folder, size: int = 512):
    """Write a `photo` into a folder; return its path and a table of ten points on it, `size` pixels from its edges."""
    import numpy as np
    import pandas as pd

    file, rng = photo(folder / "photo.jpg"), np.random.default_rng(0)
    row, column = rng.integers(size, 3000 - size, 10), rng.integers(size, 4000 - size, 10)
    points = pd.DataFrame({"source": "benchmark", "image": file.name, "row": row, "column": column, "label": "a"})
    return file, points.assign(annotation_id=points.index.astype("str"))


def photo(path, width: int = 4000, height: int = 3000, seed: int = 0):
    """Write a JPEG of 12 megapixels with structure at every scale, as a photo has, and return its path."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3), dtype=np.float32)
    for step in (4, 16, 64, 256):
        noise = rng.integers(0, 256, (height // step + 1, width // step + 1, 3), dtype=np.uint8)
        total += np.asarray(Image.fromarray(noise).resize((width, height), Image.Resampling.BILINEAR))
    Image.fromarray((total / 4).astype(np.uint8)).save(path, quality=92)
    return path
