"""Shards: what writing patches to disk once costs beside cutting and saving them one by one, and by two processes."""

from __future__ import annotations

import io
import itertools
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks import Row, alternately, ten_points
from reefcore import cutting
from reefcore.patches import crop
from reefcore.shards import write

SIZE = 512
SOURCES = 4  # of the many photos, a dozen each


def many(folder: Path, file: Path, points: pd.DataFrame) -> pd.DataFrame:
    """Lay copies of a photo out as sources, and give five points of each."""
    rows = []
    for source, number in itertools.product(range(SOURCES), range(12)):
        (folder / f"S{source}").mkdir(exist_ok=True)
        shutil.copy(file, folder / f"S{source}" / f"{number}.jpg")
        rows.append(points[:5].assign(source=f"S{source}", image=f"{number}.jpg"))
    table = pd.concat(rows, ignore_index=True)
    return table.assign(annotation_id=table.index.astype("str"))


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
        table, photos = many(Path(folder), file, points), SOURCES * 12

        def sources(workers: int):
            shutil.rmtree(Path(folder) / "shards", ignore_errors=True)
            cutting.write(table, folder, SIZE, Path(folder) / "shards", workers)

        one_s, two_s = alternately(lambda: sources(1), lambda: sources(2), rounds=3)
    yield Row("10 patches to a tar file, 12 MP", "PIL decode per point, PIL save", plain_s, "shards.write", library_s)
    job = f"{photos} photos of 12 MP, 5 patches of each"
    yield Row(job, "one process", one_s, "cutting.write, two processes", two_s)
