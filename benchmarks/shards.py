"""Shards: what writing patches to disk once costs beside cutting and saving them one by one."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import Row, alternately, ten_points
from reefcore.patches import crop
from reefcore.shards import write

SIZE = 512


def rows() -> Iterator[Row]:
    """Write ten patches of 512 pixels of one 12-megapixel JPEG to a tar file."""
    with tempfile.TemporaryDirectory() as folder:
        file, points = ten_points(Path(folder), SIZE)

        def one_by_one():
            with tarfile.open(Path(folder) / "plain.tar", "w") as tar:
                for i, (r, c) in enumerate(zip(points["row"], points["column"], strict=True)):
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
