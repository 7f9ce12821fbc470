"""Shards: what writing patches to disk once costs beside cutting and saving them one by one."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks import Row, alternately, photo
from reefcore.patches import crop
from reefcore.shards import write

SIZE = 512


def rows() -> Iterator[Row]:
    """Write ten patches of 512 pixels of one 12-megapixel JPEG to a tar file."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        file = photo(Path(folder) / "photo.jpg")
        row, column = rng.integers(SIZE, 3000 - SIZE, 10), rng.integers(SIZE, 4000 - SIZE, 10)
        points = pd.DataFrame({"source": "benchmark", "image": file.name, "row": row, "column": column, "label": "a"})
        points["annotation_id"] = points.index.astype("str")

        def one_by_one():
            with tarfile.open(Path(folder) / "plain.tar", "w") as tar:
                for i, (r, c) in enumerate(zip(row, column, strict=True)):
                    data = io.BytesIO()
                    patch = Image.fromarray(crop(np.asarray(Image.open(file)), r, c, SIZE))
                    patch.save(data, "jpeg", quality=95, subsampling=0)
                    member = tarfile.TarInfo(f"{i}.jpg")
                    member.size = data.tell()
                    tar.addfile(member, io.BytesIO(data.getvalue()))

        def shard():
            shutil.rmtree(Path(folder) / "shards", ignore_errors=True)
            write(points, folder, SIZE, Path(folder) / "shards", workers=1)

        plain_s, library_s = alternately(one_by_one, shard)
    yield Row("10 patches to a tar file, 12 MP", "PIL decode per point, PIL save", plain_s, "shards.write", library_s)
