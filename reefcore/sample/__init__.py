"""The sample: a miniature ReefNet made from a seed, so that every chapter runs without a download.

Synthetic throughout: invented sources, procedural photos, simulated annotators and reviewers. Same tables, same long
tail, same filters as the released data set; no number computed on it says anything about real corals.
"""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import write_parquet
from reefcore.parallel import pool

log = logging.getLogger(__name__)
MAX_ROUNDS = 12  # of extra photos for taxa that too few points fell on


def _take(task) -> tuple[pd.DataFrame, list]:
    """Take the planned photos of one source: render, save, lay out points and read off what is under each."""
    from reefcore.sample import photos, survey

    folder, row, planned = task
    look = photos.make_look(row.look, row.realm, row.megapixels)
    where = Path(folder) / row.source
    where.mkdir(parents=True, exist_ok=True)
    points, sizes = [], []
    for photo in planned:
        width, height = photos.shape(look, photo.seed)
        image, classes = photos.photo(look, photo.covers, photo.seed, width, height)
        photos.save(image, where / photo.image, look, photo.seed)
        rng = survey.stream(photo.seed, "points")
        at = survey.place_points(photo.points, photo.layout, height, width, rng)
        taxon = np.array(photos.CLASSES)[classes[at[:, 0], at[:, 1]]]
        points.append(
            pd.DataFrame(
                {"source": row.source, "image": photo.image, "row": at[:, 0], "column": at[:, 1], "taxon": taxon}
            )
        )
        sizes.append((row.source, photo.image, width, height))
    return pd.concat(points, ignore_index=True), sizes


def check(seed: int, scale: float) -> None:
    """Refuse, with a ReefcoreError, a negative seed and a scale outside (0, 2]."""
    if seed < 0:
        raise ReefcoreError(f"the seed {seed} is negative", do="choose 0 or more")
    if not 0 < scale <= 2:
        raise ReefcoreError(f"a sample of scale {scale} cannot be made", do="choose a scale above 0 and up to 2")


def generate(folder: str | Path, seed: int = 2025, scale: float = 1.0, workers: int = 2) -> None:
    """Make the sample: photos and tables.

    Parameters
    ----------
    folder : path
        Receives ``annotations.parquet``, ``reviews.parquet``, ``sources.parquet``, ``images.parquet``,
        ``truth.parquet`` and ``photos/<source>/<image>``. What is there is replaced; the tables are written last, so
        that a folder with ``annotations.parquet`` is complete.
    seed : int
        The same seed gives the same bytes on one machine, whatever `workers` is.
    scale : float
        Photos as a fraction of the whole sample's, in (0, 2].
    workers : int
        Processes.

    Raises
    ------
    ReefcoreError
        Where `scale` is out of range.
    """
    from reefcore.sample import survey

    check(seed, scale)
    folder = Path(folder)
    (folder / "annotations.parquet").unlink(missing_ok=True)
    shutil.rmtree(folder / "photos", ignore_errors=True)  # those of another scale would stay between the new ones
    table = survey.sources(seed, scale)
    homes = survey.communities(table, seed)
    rows = {row["source"]: row for _, row in table.iterrows()}
    plan = {s: [survey.plan_photo(r, homes[s], seed, n) for n in range(1, r.images + 1)] for s, r in rows.items()}
    minimum = round(survey.MIN_POINTS * min(1.0, scale))
    found, sizes, extra = [], [], dict.fromkeys(rows, 0)
    with pool(workers) as processes:
        for turn in range(MAX_ROUNDS):
            tasks = [(folder / "photos", rows[s], planned) for s, planned in sorted(plan.items()) if planned]
            tasks.sort(
                key=lambda task: -len(task[2]) * task[1].megapixels
            )  # the longest first: no worker idles at the end
            results = processes.map(_take, tasks)
            if sys.stderr.isatty():
                from tqdm import tqdm

                results = tqdm(results, total=len(tasks), unit="source", desc=f"sample photos, round {turn + 1}")
            for points, size in results:
                found.append(points)
                sizes += size
            plan = _more(table, homes, pd.concat(found), minimum, extra, seed)
            if not plan:
                break
    log.info("sample: %d photos, %d of them extra for rare taxa", len(sizes), sum(extra.values()))
    order = ["source", "image", "row", "column"]
    points = pd.concat(found).sort_values([*order, "taxon"], kind="stable", ignore_index=True)
    annotations, reviews, truth = survey.annotations(points, table, seed)
    images = pd.DataFrame(sizes, columns=["source", "image", "width", "height"]).sort_values(
        order[:2], ignore_index=True
    )
    table["images"] = table["source"].map(images["source"].value_counts())
    table = table.assign(contributors="ReefNet Companion (synthetic survey)", licence="CC0-1.0")
    write_parquet(table, folder / "sources.parquet")
    write_parquet(images, folder / "images.parquet")
    write_parquet(reviews, folder / "reviews.parquet")
    write_parquet(truth, folder / "truth.parquet")
    write_parquet(annotations, folder / "annotations.parquet")


def _more(table, homes, points, minimum, extra, seed) -> dict:
    """Plan extra photos for taxa that too few points fell on so far, in all or in their best three sources."""
    from reefcore.sample import survey, taxa

    each = minimum // 9  # in each of three sources: a little more than the label criteria ask for
    counts = points.groupby(["taxon", "source"]).size()
    plan: dict[str, list] = {}
    for taxon in (kind.name for kind in taxa.CORALS):
        living = table[(table["source"] != survey.SITE) & table["source"].map(lambda s, t=taxon: t in homes[s].index)]
        had = living["source"].map(counts.get(taxon, pd.Series(dtype=int))).fillna(0)
        # Sources that are nearly there, with enough points per photo to get there in a few.
        best = living.assign(had=had, few=living["points"] < 20).sort_values(
            ["few", "had", "source"], ascending=[True, False, True]
        )
        best = best.head(3)
        missing = (each - best["had"]).clip(lower=0)
        lacking = minimum - had.sum() - missing.sum()
        missing += max(0, lacking) / max(1, len(best))
        for (_, row), points_missing in zip(best.iterrows(), missing, strict=True):
            for _ in range(int(np.ceil(points_missing / (0.22 * row["points"])))):
                extra[row["source"]] += 1
                number = int(row["images"]) + extra[row["source"]]
                photo = survey.plan_photo(row, homes[row["source"]], seed, number, wanted=taxon)
                plan.setdefault(row["source"], []).append(photo)
    return plan


def gallery(folder: Path, images: pd.DataFrame, count: int, seed: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Choose one photo of each of `count` sources and read them.

    Returns
    -------
    photos : list of ndarray of uint8, shape (height, width, 3)
    names : list of str
        Their sources.
    """
    from reefcore.images import open_image

    rng = np.random.default_rng(seed)
    sources = sorted(images["source"].unique())
    chosen = sorted(rng.choice(sources, min(count, len(sources)), replace=False))
    first = images[images["source"].isin(chosen)].groupby("source", sort=True)["image"].first()
    return [open_image(Path(folder) / source / image) for source, image in first.items()], list(first.index)


def some_of_each(points: pd.DataFrame, truth: pd.DataFrame, count: int, seed: int = 0) -> pd.DataFrame:
    """Choose up to `count` rightly labelled points of each label, of different sources where there are; index kept."""
    right = points.merge(truth, on="annotation_id", how="left").set_axis(points.index)
    right = right[right["label"] == right["taxon"]]
    shuffled = right.iloc[np.random.default_rng(seed).permutation(len(right))]
    varied = shuffled.assign(again=shuffled.groupby(["label", "source"]).cumcount()).sort_values(
        ["label", "again"], kind="stable"
    )
    return varied.groupby("label", sort=True).head(count)
