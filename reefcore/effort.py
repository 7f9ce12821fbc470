"""How many photos, or points on each, an interval of a given width needs.

The variance of a cover has two parts: what differs between photos (or transects), and the chance of where the points of
a photo fall, which is binomial. More photos make both smaller, more points per photo only the second. The half-width is
that of the t interval, which the drawn intervals of `reefcore.cover` follow. Points are taken as placed at random;
stratified points do a little better.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore.cover import samples_of_points
from reefcore.errors import ReefcoreError

POINTS = (5, 10, 20, 25, 50, 100, 200)


def _variance(samples) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Split the variance of each category's cover, the mean over images.

    Returns
    -------
    share : ndarray, shape (categories,)
    between, within : ndarray, shape (categories,)
        Their sum is the variance of the cover; `within` is the part of the points.
    clusters : int
    """
    p, m = samples.share, samples.total[:, None]
    mean, images = p.mean(axis=0), len(p)
    _, group = np.unique(samples.cluster, return_inverse=True)
    clusters = group.max() + 1
    off = np.zeros((clusters, p.shape[1]))
    np.add.at(off, group, p - mean)
    total = clusters / max(clusters - 1, 1) * (off**2).sum(axis=0) / images**2  # a ratio's, by its residuals
    with np.errstate(divide="ignore", invalid="ignore"):
        binomial = np.where(m > 1, p * (1 - p) / (m - 1), np.nan)  # unbiased for p (1 - p) / m
    known = ~np.isnan(binomial)
    within = np.where(known, binomial, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1) / images
    within = np.minimum(within, total)
    return mean, total - within, within, clusters


def _t(clusters, level: float) -> np.ndarray:
    from scipy.special import stdtrit

    return stdtrit(np.asarray(clusters) - 1.0, (1 + level) / 2)


def needed(
    annotations: pd.DataFrame, by: str = "functional_group", resample: str = "image", level: float = 0.95
) -> pd.DataFrame:
    """Say how many photos, or points on each, would halve the interval of every category.

    Parameters
    ----------
    annotations : DataFrame
        As for `reefcore.cover.percent_cover`; images count the same.
    by : str
    resample : {'image', 'transect'}
        What would be added: photos, or whole transects of as many photos.
    level : float

    Returns
    -------
    DataFrame
        The category, ``percent``, ``half_width`` (percentage points), ``images``, ``points_per_image`` (mean),
        ``between`` (share of the variance that differs between images), ``images_to_halve`` (images in all that halve
        the interval; with resample="transect" in more transects), ``points_to_halve`` (points on each image in all; NA
        where no number of them would), ``text``. NA where one image or transect, or no difference between them, tells
        nothing.

    Raises
    ------
    ReefcoreError
        As `reefcore.cover.percent_cover`.
    """
    samples = samples_of_points(annotations, by, "all", resample, None)
    share, between, within, clusters = _variance(samples)
    images, points = len(samples.total), float(samples.total.mean())
    total = between + within
    rows = []
    for i, name in enumerate(samples.categories):
        row = {by: name, "percent": 100 * share[i], "half_width": np.nan, "images": images, "points_per_image": points}
        row |= {"between": np.nan, "images_to_halve": pd.NA, "points_to_halve": pd.NA}
        if clusters < 2 or total[i] <= 0:
            row["text"] = f"one {resample} tells nothing" if clusters < 2 else f"no {resample} differs from another"
            rows.append(row)
            continue
        half = 100 * _t(clusters, level) * np.sqrt(total[i])
        more = np.arange(clusters + 1, 4 * clusters + 1)
        enough = _t(more, level) / np.sqrt(more) <= _t(clusters, level) / np.sqrt(clusters) / 2
        wanted = int(np.ceil(images / clusters * more[np.argmax(enough)]))
        left = total[i] / 4 - between[i]
        dense = int(np.ceil(points * within[i] / left)) if left > 0 else pd.NA
        row |= {
            "half_width": half,
            "between": between[i] / total[i],
            "images_to_halve": wanted,
            "points_to_halve": dense,
        }
        what = f"{wanted:,} images of {points:.0f} point{'s' * (round(points) != 1)} instead of {images:,}"
        if resample == "transect":
            what += f" (in {int(more[np.argmax(enough)]):,} transects instead of {clusters:,})"
        if pd.isna(dense):
            row["text"] = f"{what}; more points on these images would not do it"
        else:
            row["text"] = f"{what}, or {dense:,} points on each of these"
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.astype({"images_to_halve": "Int64", "points_to_halve": "Int64"})


def curve(
    annotations: pd.DataFrame,
    category: str,
    by: str = "functional_group",
    resample: str = "image",
    level: float = 0.95,
    points: tuple[int, ...] = POINTS,
) -> pd.DataFrame:
    """Give the half-width that other numbers of photos and of points on each would have.

    Parameters
    ----------
    annotations, by, resample, level : see `needed`
    category : str
        One of the categories of `by`.
    points : tuple of int
        Points per image; the number there is now is added, in the place of one within a tenth of it.

    Returns
    -------
    DataFrame
        ``images``, ``points`` (per image), ``half_width`` (percentage points), ``now`` (whether the survey has as many
        of both). Empty where the survey tells nothing (see `needed`).
    """
    samples = samples_of_points(annotations, by, "all", resample, None)
    if category not in samples.categories:
        raise ReefcoreError(f"there is no {by} {category!r}", do=f"choose one of {', '.join(samples.categories)}")
    i = samples.categories.index(category)
    _, between, within, clusters = _variance(samples)
    images, have = len(samples.total), float(samples.total.mean())
    empty = clusters < 2 or between[i] + within[i] <= 0
    numbers = np.unique(np.geomspace(2, max(4 * clusters, 8), 40).round().astype(int))
    numbers = np.union1d(numbers, [clusters])
    rows = []
    for m in () if empty else sorted({*(float(m) for m in points if abs(m - have) > have / 10), have}):
        variance = (between[i] + within[i] * have / m) * clusters / numbers
        half = 100 * _t(numbers, level) * np.sqrt(variance)
        photos = np.ceil(numbers * images / clusters).astype(int)
        rows.append(
            pd.DataFrame(
                {"images": photos, "points": m, "half_width": half, "now": (numbers == clusters) & (m == have)}
            )
        )
    columns = ["images", "points", "half_width", "now"]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=columns)
