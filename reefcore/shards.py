"""Patches on disk for training at full size: WebDataset shards, written once, read by position or by `webdataset`.

A shard is a tar file ``<source>-<hash of its name>-000000.tar`` with two members per patch, ``<annotation_id>.jpg`` and
``<annotation_id>.json`` (source, image, row, column, label). The Parquet file of the same name beside it is its
manifest, written last: a shard without one does not count.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import sys
import tarfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import simplejpeg
from tqdm import tqdm

from reefcore.errors import ReefcoreError
from reefcore.files import atomic, read_parquet, write_parquet
from reefcore.images import photo_path
from reefcore.patches import inside, of_photo, resized, stacked

logger = logging.getLogger(__name__)

POINT = ["annotation_id", "source", "image", "row", "column", "label"]
COLUMNS = dict.fromkeys(["annotation_id", "source", "image", "shard"], "str")
COLUMNS |= dict.fromkeys(["offset", "length", "crc"], "int64") | {"truncated": "bool", "reason": "str"}
COLUMNS |= {"size": "int64", "shards": "int64", "key": "str"}  # of a source as a whole: `shards` is how many it has
AT_ONCE = 32  # photos whose patches, as JPEG, are in memory at a time
HEADER = 512  # bytes before each member of a tar file


def write(
    points: pd.DataFrame,
    photos: str | Path,
    size: int,
    folder: str | Path,
    workers: int = 2,
    quality: int = 95,
    per_shard: int = 2000,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cut the patches of many points into shards, decoding each photo once; what is there and still right is kept.

    The same points and photos give the same bytes. A run that is killed leaves whole shards only, and the next one goes
    on after them; a shard is written again where points, labels, photos (by size and time of change) or settings are
    others than before. Sources in the folder that `points` does not have stay, so that each may be written by a job of
    its own; two jobs must not write one source.

    JPEG is lossy. At quality 95 without chroma subsampling (4:4:4) the pixels of real reef photos differ by 1.6 levels
    of 255 on average, at most 20, at quality 90 by 2.1 (32 patches of 512 pixels of 8 photos; 166 and 117 kB a patch).

    Parameters
    ----------
    points : DataFrame
        Columns ``annotation_id``, ``source``, ``image``, ``row``, ``column``, ``label``; no annotation_id twice.
    photos : path
        Folder with the photos as ``<source>/<image>``; those of a single source may lie directly in it.
    size : int
        Side of a patch in pixels; see `reefcore.patches.crop`.
    folder : path
    workers : int
        Threads.
    quality : int
        Of the JPEG, 1 to 100.
    per_shard : int
        Points per shard, about: the points of a photo stay together.

    Returns
    -------
    manifest : DataFrame
        One row per patch: ``annotation_id``, ``source``, ``image``, ``shard`` (file), ``offset`` and ``length`` of the
        JPEG in it (bytes), ``crc`` (CRC-32 of the JPEG), ``truncated`` (its photo ends early), ``size``.
    skipped : DataFrame
        ``annotation_id``, ``source``, ``image``, ``reason``, as of `reefcore.patches.cut`.

    Raises
    ------
    ReefcoreError
        Where columns lack, an annotation_id stands twice or cannot name a file, a setting makes no sense, or a shard
        does not hold what was written.
    """
    if missing := [name for name in POINT if name not in points]:
        raise ReefcoreError(f"the points lack the column {missing[0]}", do=f"give {', '.join(POINT)}")
    if min(size, per_shard, workers) < 1 or not 1 <= quality <= 100:
        raise ReefcoreError(
            f"size {size}, workers {workers}, quality {quality}, per_shard {per_shard} make no shards",
            do="give at least 1 for each, and a quality of at most 100",
        )
    ids = points["annotation_id"]
    checks = {
        "stands twice": ids.duplicated(),
        "cannot name a file": ~ids.str.fullmatch(r"[A-Za-z0-9_-]{1,90}"),
        "lacks its photo, row or column": points[POINT[1:-1]].isna().any(axis=1),
    }
    for why, wrong in checks.items():
        if wrong.any():
            raise ReefcoreError(f"the point {ids[wrong].iat[0]!r} {why}", do="see reefcore.tables for what is asked")
    flat = points["source"].nunique() == 1
    photo_count = len(points.drop_duplicates(["source", "image"]))
    bar = tqdm(desc="shards", total=photo_count, unit="photo", disable=not sys.stderr.isatty())
    parts = []
    with bar, ThreadPoolExecutor(workers) as pool:
        for source, of_source in points.groupby("source"):
            made = _Source(str(source), of_source[POINT], Path(photos), flat, size, Path(folder), quality, per_shard)
            for part in made.write(pool):
                parts.append(part)
                bar.update(part["image"].nunique())
    manifest = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS)).astype(COLUMNS)
    kept = manifest["reason"] == ""
    skipped = manifest.loc[~kept, ["annotation_id", "source", "image", "reason"]].reset_index(drop=True)
    if len(skipped):
        logger.warning("%d of %d points have no patch; the first: %s.", len(skipped), len(ids), skipped["reason"][0])
    if ends := manifest["truncated"].sum():
        logger.warning("%d patches are of photos that end early and were used as far as they go.", ends)
    return manifest[kept].drop(columns=["reason", "shards", "key"]).reset_index(drop=True), skipped


class _Source:
    """The shards of one source: which points each holds, and what they are made of (the key)."""

    def __init__(self, source, points, photos, flat, size, folder, quality, per_shard):
        self.points = points.sort_values(["image", "annotation_id"], ignore_index=True)
        self.size, self.quality, self.folder = size, quality, folder
        names = self.points["image"].unique()
        self.paths = {name: photo_path(photos, source, name, flat) for name in names}
        starts = np.where(self.points["image"].duplicated(), 0, np.arange(len(points)))
        first = np.maximum.accumulate(starts)  # of each point: the first point of its photo, which tells the shard
        self.shard = pd.factorize(first // per_shard)[0]
        self.count = int(self.shard.max()) + 1
        digest = hashlib.md5(source.encode(), usedforsecurity=False).hexdigest()[:6]  # tells "A b" from "a-b"
        self.stem = f"{re.sub(r'[^a-z0-9]+', '-', source.lower()).strip('-')}-{digest}"
        made_of = [self.points.to_csv(index=False), str((size, quality, per_shard))]
        for name, path in self.paths.items():
            stat = path.stat() if path.exists() else None
            made_of.append(f"{name} {stat.st_size} {stat.st_mtime_ns}" if stat else f"{name} missing")
        self.key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()

    def write(self, pool: ThreadPoolExecutor) -> Iterator[pd.DataFrame]:
        """Give the manifest of each shard; one that is there, whole and made of the same is not made again."""
        paths = [self.folder / f"{self.stem}-{number:06d}.tar" for number in range(self.count)]
        stems = {path.stem for path in paths}
        for file in sorted(self.folder.glob(f"*{self.stem}-*")):  # manifests (.parquet) go before their shards (.tar)
            if file.stem not in stems:  # one too many, or left by a run that was killed
                file.unlink()
        for number, path in enumerate(paths):
            record = path.with_suffix(".parquet")
            try:
                manifest = read_parquet(record)
                right = set(manifest.get("key", [])) == {self.key} and not _difference(path, manifest)
            except ReefcoreError:
                right = False
            if not right:
                record.unlink(missing_ok=True)
                manifest = self._shard(path, self.points[self.shard == number], pool)
                write_parquet(manifest, record)
            yield manifest

    def _shard(self, path: Path, points: pd.DataFrame, pool: ThreadPoolExecutor) -> pd.DataFrame:
        """Write one shard, whole or not at all; return its manifest."""
        rows, photos = [], list(points.groupby("image"))
        with atomic(path) as temporary:
            with tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as tar:
                for start in range(0, len(photos), AT_ONCE):
                    batch = photos[start : start + AT_ONCE]
                    for (_, of_photo_), (found, truncated) in zip(batch, pool.map(self._jpegs, batch), strict=True):
                        for point, data in zip(of_photo_.to_dict("records"), found, strict=True):
                            rows.append(self._row(tar, path, point, data, truncated))
            manifest = pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
            if difference := _difference(temporary, manifest):
                raise ReefcoreError(
                    f"the shard does not hold what was written ({difference})", path, "check the disk, and run it again"
                )
        if (manifest["reason"] != "").all():
            path.unlink()  # nobody can read an empty tar file
        return manifest

    def _jpegs(self, photo) -> tuple[list[bytes | str], bool]:
        """Cut and encode the patches of one photo; in place of one that cannot be cut stands the reason."""
        name, points = photo
        found, truncated = of_photo(self.paths[name], points["row"], points["column"], self.size)
        jpegs = (p if isinstance(p, str) else simplejpeg.encode_jpeg(p, self.quality, "RGB", "444") for p in found)
        return list(jpegs), truncated

    def _row(self, tar: tarfile.TarFile, path: Path, point: dict, data: bytes | str, truncated: bool) -> tuple:
        """Add a patch to a shard; return its row of the manifest."""
        identity, same = (point["annotation_id"], point["source"], point["image"]), (self.size, self.count, self.key)
        if isinstance(data, str):
            return (*identity, "", -1, 0, 0, truncated, data, *same)
        offset = tar.offset + HEADER
        point = {name: None if pd.isna(value) else value for name, value in point.items()}
        about = json.dumps(point, ensure_ascii=False).encode()
        for ending, content in (("jpg", data), ("json", about)):
            member = tarfile.TarInfo(f"{identity[0]}.{ending}")  # of owner, group and time 0: the same bytes each time
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        return (*identity, path.name, offset, len(data), zlib.crc32(data), truncated, "", *same)


def _difference(path: Path, manifest: pd.DataFrame) -> str:
    """Say how the members of a shard, by their headers, differ from its manifest; nothing where they do not."""
    wanted = manifest[manifest["reason"] == ""]
    if wanted.empty:
        return ""
    try:
        with tarfile.open(path) as tar:
            held = {member.name: (member.offset_data, member.size) for member in tar}
    except (OSError, tarfile.TarError) as error:
        return str(error)
    for name, *place in zip(wanted["annotation_id"], wanted["offset"], wanted["length"], strict=True):
        if held.pop(f"{name}.jpg", ()) != tuple(place) or not held.pop(f"{name}.json", ()):
            return f"not that of {name}"
    return f"also {next(iter(held))}" if held else ""


class ShardPatches:
    """Patches in shards, by position: what `reefcore.patches.ArrayPatches` is for an array.

    Safe in the worker processes of a data loader, forked or spawned: no file stays open between patches.

    Parameters
    ----------
    folder : path
        With the shards of one or more sources, see `write`.

    Attributes
    ----------
    ids : list of str
        Sorted by shard, then as they lie in it.
    size : int
    in_memory : bool

    Raises
    ------
    ReefcoreError
        Where there is no shard, the shards of a source are not complete, or sizes are mixed.
    """

    in_memory = False

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        files = sorted(self.folder.glob("*.parquet"))
        tables = [read_parquet(file).assign(file=file.name) for file in files]
        if not tables or any(list(table) != [*COLUMNS, "file"] for table in tables):
            raise ReefcoreError("this is not a folder of shards alone", folder, "write them by reefcore.shards.write")
        table = pd.concat(tables, ignore_index=True)
        sources = table.groupby("source").agg({"file": "nunique", "shards": "first", "key": "nunique"})
        for source in sources.index[(sources["file"] != sources["shards"]) | (sources["key"] > 1)]:
            raise ReefcoreError(
                f"the shards of the source {source} are not complete", folder, "run reefcore.shards.write to its end"
            )
        if table["size"].nunique() > 1:
            sizes = ", ".join(str(size) for size in sorted(table["size"].unique()))
            raise ReefcoreError(f"patches of {sizes} pixels lie in one folder", folder, "give each size its own")
        table = table[table["reason"] == ""]
        self.ids, self.size = table["annotation_id"].tolist(), int(table["size"].max())
        self._where = table["shard"].tolist(), *(table[name].to_numpy() for name in ("offset", "length", "crc"))

    def read(self, positions, side: int) -> np.ndarray:
        """Read patches; see `reefcore.patches.ArrayPatches.read`.

        A patch is decoded at a reduced size where that leaves at least twice the side, and then resized as any other.
        Decoding at the side itself would take half the time, but its patches are a fifth sharper than resized ones, so
        a model would be trained on what it never meets again.

        Raises
        ------
        ReefcoreError
            Also where a shard or a patch in it is damaged.
        """
        positions = inside(positions, len(self.ids), side)
        return stacked((self._patch(position, side) for position in positions), len(positions), side)

    def _patch(self, position: int, side: int) -> np.ndarray:
        shard, offset, length, crc = (values[position] for values in self._where)
        path = self.folder / shard
        try:
            with open(path, "rb") as file:  # anew for each patch: microseconds, beside milliseconds of decoding
                file.seek(offset)
                data = file.read(length)
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
        else:
            why = "is damaged" if zlib.crc32(data) != crc else None
        if why:
            raise ReefcoreError(
                f"the patch of the annotation {self.ids[position]} {why}",
                path,
                "delete this shard and run reefcore.shards.write again",
            )
        reduced = min(2 * side, self.size)
        return resized(simplejpeg.decode_jpeg(data, min_height=reduced, min_width=reduced), side)
