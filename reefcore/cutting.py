"""The patches of a whole survey: what they will take, by a slice that is measured, and many processes that make them.

A source is the unit of work: each is written by one process, into shards of its own (`reefcore.shards`), so a run that
was killed goes on, and a later one makes only the sources whose photos came or changed since. The shards of a source
whose photos are all gone stay: who has little room may cut a source and then remove its photos.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from reefcore import shards
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet
from reefcore.images import photo_path
from reefcore.parallel import pool

logger = logging.getLogger(__name__)

#: Of a patch and a photo, where no photo is there to be measured. Bytes: 32 patches of 512 pixels of 8 real reef photos
#: at JPEG quality 95, see `reefcore.shards.write`. Seconds: photos of 12 megapixels with 5 patches of 512 pixels each,
#: on one core of a server: 0.06 to 0.08.
STATED = {"bytes": 166_000, "size": 512, "seconds": 0.07}
BLOCK = 512  # of a tar file, which holds whole ones: of a patch two headers, its JPEG, and a few lines of JSON
ABSENT = "no photo of its source is there"


def counted(points: pd.DataFrame, photos: str | Path, size: int, folder: str | Path) -> pd.DataFrame:
    """Count what is to be cut, source by source: which photos are there, and which patches are made already.

    Parameters
    ----------
    points, photos, size, folder : see `write`

    Returns
    -------
    DataFrame
        ``source``, ``points``, ``photos``, ``there`` (photos), ``points_there`` (points on those), ``done`` (points
        whose shard was made of the same points and photos), ``held`` (bytes of the shards of this source).
    """
    rows, flat = [], points["source"].nunique() == 1
    for source, some in points.groupby("source"):
        names = some["image"].value_counts()
        there = np.array([photo_path(photos, str(source), name, flat).is_file() for name in names.index])
        done = held = 0
        if there.any() and Path(folder).is_dir():
            made = shards._Source(str(source), some[shards.POINT], Path(photos), flat, size, Path(folder), 95, 2000)
            for number in range(made.count):
                path = Path(folder) / f"{made.stem}-{number:06d}.tar"
                with contextlib.suppress(ReefcoreError, OSError):  # a shard that is not there, or not whole
                    if set(read_parquet(path.with_suffix(".parquet"), ["key"])["key"]) == {made.key}:
                        done += int((made.shard == number).sum())
                held += path.stat().st_size if path.exists() else 0
        rows.append((source, len(some), len(names), there.sum(), names.to_numpy()[there].sum(), done, held))
    columns = ["source", "points", "photos", "there", "points_there", "done", "held"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:], "int64"))


def measured(
    points: pd.DataFrame, photos: str | Path, size: int, place: str | Path, each: int = 2, seed: int = 0
) -> pd.DataFrame:
    """Cut a slice, some photos of each source, and measure it; nothing of it is kept.

    Parameters
    ----------
    points, photos, size : see `write`
    place : path
        A folder on the disk that is meant to hold the shards: writing counts.
    each : int
        Photos of each source, drawn by chance among those that are there.
    seed : int
        Of the draw.

    Returns
    -------
    DataFrame
        One row per source with a photo: ``source``, ``photos`` and ``points`` of the slice, ``bytes`` (on disk, of its
        patches), ``seconds`` (of one core).
    """
    flat, rows = points["source"].nunique() == 1, []
    names = points[["source", "image"]].drop_duplicates().sort_values(["source", "image"])
    names = names.iloc[np.random.default_rng(seed).permutation(len(names))].sort_values("source", kind="stable")
    Path(place).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".slice-", dir=place) as temporary, _quiet():
        for source, some in names.groupby("source"):
            here = (name for name in some["image"] if photo_path(photos, str(source), name, flat).is_file())
            drawn = [name for name, _ in zip(here, range(each), strict=False)]
            if not drawn:
                continue
            mine = points[(points["source"] == source) & points["image"].isin(drawn)]
            if not rows:  # the first photo also loads the decoder
                shards.write(mine, photos, size, Path(temporary) / "first", workers=1)
            began = time.perf_counter()
            made, _ = shards.write(mine, photos, size, Path(temporary) / "slice", workers=1)
            seconds = time.perf_counter() - began
            blocks = (made["length"] + BLOCK - 1) // BLOCK + 3
            rows.append((source, len(drawn), len(mine), int(blocks.sum()) * BLOCK, seconds))
    return pd.DataFrame(rows, columns=["source", "photos", "points", "bytes", "seconds"])


def forecast(counts: pd.DataFrame, sliced: pd.DataFrame, size: int, workers: int, free: float) -> dict:
    """Say what cutting takes: of the photos that are there, of what is left of them, and of all.

    A source that was measured stands for itself, the mean of those for the others, and `STATED` where none was.

    Parameters
    ----------
    counts, sliced : DataFrame
        See `counted` and `measured`; `sliced` may be empty.
    size : int
        Side of a patch in pixels.
    workers : int
        Processes.
    free : float
        Bytes of the disk that nothing takes yet.

    Returns
    -------
    dict
        ``points``, ``photos``, ``photos_there``, ``points_there``, ``sources``, ``sources_there``,
        ``points_done``, ``bytes_per_patch``, ``seconds_per_photo``, ``bytes`` (of the patches of the photos that are
        there), ``bytes_all``, ``bytes_left`` (of those there, without what the shards hold already), ``bytes_free``,
        ``core_seconds_left``, ``seconds_left`` (on that many processes), ``seconds_all``, ``fits``, ``how`` (measured
        or stated), ``slice`` (photos of it), ``here`` and ``missing`` (sources with and without a photo -> photos).
    """
    each = counts.merge(sliced, on="source", how="left", suffixes=("", "_sliced"))
    total = sliced[["photos", "points", "bytes", "seconds"]].sum()
    if len(sliced):
        usual = total["bytes"] / total["points"], total["seconds"] / total["photos"]
    else:
        usual = STATED["bytes"] * (size / STATED["size"]) ** 2, STATED["seconds"]
    per_patch = (each["bytes"] / each["points_sliced"]).fillna(usual[0])
    per_photo = (each["seconds"] / each["photos_sliced"]).fillna(usual[1])
    share = 1 - (each["done"] / each["points_there"].where(each["points_there"] > 0)).fillna(0)  # of it, still to cut
    left = per_photo * each["there"] * share
    there, whole = per_patch * each["points_there"], per_patch * each["points"]
    room = (there - each["held"]).clip(lower=0).sum()
    # A source has as many threads as its share of the work, so the largest does not outlast the others.
    return {
        **{name: int(counts[name].sum()) for name in ("points", "photos", "points_there")},
        "photos_there": int(counts["there"].sum()),
        "points_done": int(counts["done"].sum()),
        "sources": len(counts),
        "sources_there": int((counts["there"] > 0).sum()),
        "bytes_per_patch": float(usual[0]),
        "seconds_per_photo": float(usual[1]),
        "bytes": float(there.sum()),
        "bytes_all": float(whole.sum()),
        "bytes_left": float(room),
        "bytes_free": float(free),
        "core_seconds_left": float(left.sum()),
        "seconds_left": float(left.sum() / workers),
        "seconds_all": float((per_photo * each["photos"]).sum() / workers),
        "workers": workers,
        "fits": bool(room <= free),
        "how": "measured" if len(sliced) else "stated",
        "slice": int(total["photos"]),
        "here": {row.source: int(row.there) for row in counts.itertuples() if row.there},
        "missing": {row.source: int(row.photos) for row in counts.itertuples() if not row.there},
    }


def said(found: dict) -> list[str]:
    """Put a `forecast` into sentences."""
    size = {name: _size(found[name]) for name in ("bytes", "bytes_all", "bytes_left", "bytes_free")}
    basis = (
        f"measured on {found['slice']:,} photos: " if found["slice"] else "as stated for photos of 12 megapixels: "
    ) + f"{found['bytes_per_patch'] / 1e3:,.0f} kB a patch, {found['seconds_per_photo'] * 1e3:,.0f} ms a photo and core"
    whole = f"{size['bytes_all']} and {_time(found['seconds_all'])} for all photos from the start"
    lines = [
        f"{found['points']:,} points on {found['photos']:,} photos of {found['sources']} sources; "
        f"{found['photos_there']:,} photos of {found['sources_there']} sources are there, "
        f"{found['points_there']:,} points on them, of which {found['points_done']:,} are cut already.",
        f"Disk: {size['bytes']} for the photos that are there, {size['bytes_left']} of it still to be written; "
        f"{size['bytes_free']} are free.",
        f"Time: about {_time(found['seconds_left'])} with {found['workers']} processes ({whole}); {basis}.",
    ]
    if not found["photos_there"]:
        lines[1:] = [f"No photo is there: `reefcore fetch images` gets them. It takes {whole}; {basis}."]
        return lines
    if found["bytes_all"] - found["bytes"] + found["bytes_left"] > found["bytes_free"]:
        lines.append("The patches of all photos do not fit on this disk beside what is there.")
    if missing := found["missing"]:
        lines.append(
            f"{len(missing)} sources have no photo here ({sum(missing.values()):,} photos; the first: "
            f"{next(iter(missing))}); they are left out now and made by the same command once their photos are there."
        )
    return lines


def _size(number: float) -> str:
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.1f} MB"


def _time(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.1f} min"


def plan(points: pd.DataFrame, photos: str | Path, size: int, folder: str | Path, workers: int, each: int = 2) -> dict:
    """Count, measure a slice and make the `forecast` of `write`; see there."""
    counts, place = counted(points, photos, size, folder), Path(folder).parent
    if (counts["done"] == counts["points_there"]).all():
        each = 0  # all is made: nothing to be measured
    sliced = measured(points, photos, size, place, each)
    return forecast(counts, sliced, size, workers, shutil.disk_usage(place).free)


def check(found: dict, folder: str | Path, anyway: bool = False) -> None:
    """Refuse what the disk cannot hold, by a `forecast`.

    Raises
    ------
    ReefcoreError
        Where less is free than is to be written, unless `anyway`.
    """
    if not (found["fits"] or anyway):
        what = f"the patches take {_size(found['bytes_left'])} more, and {_size(found['bytes_free'])} are"
        do = "make room, fetch photos of fewer sources, cut single ones by --source, or start all the same by --anyway"
        raise ReefcoreError(f"{what} free on the disk", folder, do)


def write(
    points: pd.DataFrame, photos: str | Path, size: int, folder: str | Path, workers: int = 2
) -> tuple[pd.Series, pd.DataFrame]:
    """Cut the patches of a whole survey into shards; see `make`.

    Returns
    -------
    ids : Series
        The annotation_id of each patch in the folder, in the order in which `reefcore.shards.ShardPatches` has them.
    skipped : DataFrame
        ``annotation_id``, ``source``, ``image``, ``reason``: the points that have no patch.
    """
    skipped = make(points, photos, size, folder, workers)
    ids = pd.Series(shards.ShardPatches(folder).ids if any(Path(folder).glob("*.parquet")) else [], dtype="str")
    skipped = skipped[~skipped["annotation_id"].isin(ids)].reset_index(drop=True)  # made before their photos were gone
    if len(skipped):
        logger.warning("%d of %d points have no patch; the first: %s.", len(skipped), len(points), skipped["reason"][0])
    return ids, skipped


def make(points: pd.DataFrame, photos: str | Path, size: int, folder: str | Path, workers: int = 2) -> pd.DataFrame:
    """Cut the patches of some sources, by many processes; see `reefcore.shards.write` for the shards.

    A source that fails stops no other: they are all named at the end. One with much of the work gets several threads of
    its process. Jobs of a cluster may each make sources of their own in one folder; no two may make the same.

    Parameters
    ----------
    points : DataFrame
        Columns ``annotation_id``, ``source``, ``image``, ``row``, ``column``, ``label``; no annotation_id twice.
    photos : path
        Folder with the photos as ``<source>/<image>``.
    size : int
        Side of a patch in pixels.
    folder : path
    workers : int
        Processes.

    Returns
    -------
    DataFrame
        ``annotation_id``, ``source``, ``image``, ``reason``: the points of which no patch was cut.

    Raises
    ------
    ReefcoreError
        Where a source failed, after all others are made.
    """
    folder, photos, flat = Path(folder), Path(photos), points["source"].nunique() == 1
    folder.mkdir(parents=True, exist_ok=True)
    names = points.drop_duplicates(["source", "image"])
    there = [photo_path(photos, *name, flat).is_file() for name in zip(names["source"], names["image"], strict=True)]
    here = names.loc[there, "source"].value_counts()  # the largest source first, so that it does not end last
    absent = points.loc[~points["source"].isin(here.index), ["annotation_id", "source", "image"]]
    grouped = dict(iter(points.groupby("source")))
    tasks = {
        source: (grouped[source], photos, size, folder, max(1, workers * int(count) // int(here.sum())))
        for source, count in here.items()
    }
    if workers == 1 or len(tasks) < 2:
        results = ((source, *_source(*task, alone=True)) for source, task in tasks.items())
    else:
        results = _together(tasks, names["source"].value_counts(), workers)
    skipped, failed = [absent.assign(reason=ABSENT)], {}
    for source, made, why in results:
        skipped.append(made)
        if why:
            failed[source] = why
    if failed:
        first = next(iter(failed))
        what = f"the patches of {len(failed)} of {len(tasks)} sources could not be made ({', '.join(failed)}); of "
        do = "mend it and give the same command again: the other sources are made and stay"
        raise ReefcoreError(f"{what}{first}: {failed[first]}", folder, do)
    return pd.concat(skipped, ignore_index=True)


def _source(points, photos, size: int, folder, threads: int, alone: bool = False) -> tuple[pd.DataFrame | None, str]:
    """Write the shards of a source; return the points without a patch, or why it failed."""
    try:
        with contextlib.nullcontext() if alone else _quiet():
            return shards.write(points, photos, size, folder, threads)[1], ""
    except (ReefcoreError, OSError, MemoryError) as error:
        return None, str(error) or type(error).__name__


def _together(tasks: dict, photos: pd.Series, workers: int):
    """Write sources in a pool of processes, with one bar over all photos; yield (source, skipped, why it failed)."""
    began, seen, finished = time.time(), {}, 0
    bar = tqdm(desc="shards", total=int(photos[list(tasks)].sum()), unit="photo", disable=not sys.stderr.isatty())
    with bar, pool(min(workers, len(tasks))) as processes:
        waiting = {processes.submit(_source, *task): source for source, task in tasks.items()}
        try:
            while waiting:
                for job in wait(waiting, 1.0, FIRST_COMPLETED).done:
                    source = waiting.pop(job)
                    try:
                        made = job.result()
                    except BrokenProcessPool:
                        made = None, "a process was ended from outside, as happens where memory is short"
                    finished += int(photos[source])
                    yield source, *made
                if not bar.disable:
                    _look(next(iter(tasks.values()))[3], began, seen)
                    under_way = sum(count for source, count in seen.values() if source in waiting.values())
                    bar.update(finished + under_way - bar.n)
        except BaseException:
            processes.shutdown(wait=False, cancel_futures=True)
            raise


def _look(folder: Path, began: float, seen: dict) -> None:
    """Note the source and the number of photos of the shards that were written since; each manifest is read once."""
    for file in folder.glob("*.parquet"):
        with contextlib.suppress(ReefcoreError, OSError):  # one that is just being replaced
            if file.name not in seen and file.stat().st_mtime >= began:
                table = read_parquet(file, ["source", "image"])
                seen[file.name] = table["source"].iat[0], table["image"].nunique()


@contextlib.contextmanager
def _quiet():
    """Keep the bars and warnings of parts to themselves: the whole has its own."""
    level = shards.logger.level
    shards.logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        shards.logger.setLevel(level)
