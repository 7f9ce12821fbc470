"""How many genera a reef has, seen from few photos or few points: accumulation, rarefaction and Chao's estimates.

Expectations are exact, not drawn: over all orders of the photos (Mao Tau; Colwell et al. 2004, doi:10.1890/03-0557) and
over all samples of the points (Hurlbert 1971, doi:10.2307/1934145). Their intervals are for another survey of the same
reef, not for another order of the same photos (Colwell et al. 2012, doi:10.1093/jpe/rtr044): they do not close at the
last photo. Points of one photo are no independent finds of a genus: where photos are few, trust the photos' figures.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from reefcore.cover import name_units
from reefcore.errors import ReefcoreError
from reefcore.taxonomy import HARD_CORAL

STEPS = 60  # sizes at which a curve is given, at most


class _Found(NamedTuple):
    """What was counted, and what was left out."""

    frame: pd.DataFrame
    unidentified: int


def _identified(annotations: pd.DataFrame, by: str) -> _Found:
    """Keep the points of hard corals that have a taxon; counts the hard corals that have none."""
    if by not in annotations:
        raise ReefcoreError(f"the points have no column {by!r}", do="map the labels first, or choose another column")
    frame = annotations
    if "functional_group" in frame:
        frame = frame[frame["functional_group"].eq(HARD_CORAL)]
    known = frame[by].notna()
    return _Found(frame[known], int((~known).sum()))


def chao(once: float, twice: float, seen: int, units: int | None = None) -> tuple[float, float]:
    """Estimate richness and its variance in the bias-corrected form of Chao (1987, doi:10.2307/2531532).

    Parameters
    ----------
    once, twice : int
        Taxa found once (in one photo), and twice.
    seen : int
        Taxa found.
    units : int, optional
        Photos, for Chao2; without it the estimate is Chao1, from points.

    Returns
    -------
    estimate, variance : float
    """
    f = 1.0 if units is None else (units - 1) / units
    unseen = f * once * (once - 1) / (2 * (twice + 1))
    estimate = seen + unseen
    if twice > 0:
        a, b = once * (once - 1), 2 * (twice + 1)
        variance = (
            f * a / b
            + f**2 * once * (2 * once - 1) ** 2 / b**2
            + f**2 * once**2 * twice * (once - 1) ** 2 / b**2 / (twice + 1) ** 2
        )
    else:
        variance = f * once * (once - 1) / 2 + f**2 * once * (2 * once - 1) ** 2 / 4
        variance -= f**2 * once**4 / (4 * estimate) if estimate else 0
    return estimate, max(variance, 0.0)


def _ends(estimate: float, variance: float, counts: np.ndarray, units: int, level: float) -> tuple[float, float]:
    """Give the interval of Chao (1987): what is unseen is log-normal, so that it never goes below what was seen.

    Where fewer than two taxa were found once, the estimate is what was seen, and its variance that of taxa missed by
    chance, as in EstimateS (Colwell 2013, appendix B of its guide).
    """
    from scipy.special import ndtri

    seen, z = len(counts), ndtri((1 + level) / 2)
    if estimate > seen:
        k = np.exp(z * np.sqrt(np.log1p(variance / (estimate - seen) ** 2)))
        return seen + (estimate - seen) / k, seen + (estimate - seen) * k
    if not seen or units < 2:
        return (0.0, 0.0) if not seen else (np.nan, np.nan)  # one photo tells nothing of others
    missed = np.exp(-counts.astype("float64"))
    spread = np.sqrt(max((missed - missed**2).sum() - (counts * missed).sum() ** 2 / units, 0))
    whole = 1 - missed.mean()
    return float(seen), max(float(seen), (seen + z * spread) / whole)


def _curve(counts: np.ndarray, total: int, sizes: np.ndarray, estimate: float, level: float) -> np.ndarray:
    """Give expected taxa in samples of some sizes, without replacement, and the ends of their intervals: (3, sizes)."""
    from scipy.special import gammaln, ndtri

    left = total - counts[:, None] - sizes[None, :]
    missed = gammaln(total - counts + 1)[:, None] + gammaln(total - sizes + 1)[None, :] - gammaln(total + 1)
    missed = np.exp(
        np.where(left >= 0, missed - gammaln(np.maximum(left, 0) + 1), -np.inf)
    )  # chance to miss each taxon
    mean = (1 - missed).sum(axis=0)
    variance = ((1 - missed) ** 2).sum(axis=0) - mean**2 / max(estimate, len(counts))
    half = ndtri((1 + level) / 2) * np.sqrt(np.maximum(variance, 0))
    return np.stack([mean, np.maximum(mean - half, 0), mean + half])


def _sizes(total: int) -> np.ndarray:
    return np.unique(np.linspace(1, total, min(total, STEPS)).round().astype(int))


def accumulation(
    annotations: pd.DataFrame, by: str = "genus", unit: str = "image", level: float = 0.95
) -> pd.DataFrame:
    """Give the genera that are expected in 1, 2, ... photos, whatever their order.

    Parameters
    ----------
    annotations : DataFrame
        With ``source``, `unit`, `by`; only hard corals count where there is a ``functional_group``. Photos without any
        of them count as photos.
    by : str
        The column of taxa; points without one are left out, and ``attrs["unidentified"]`` counts them.
    unit : str
        What is added one by one: image, transect, ...
    level : float

    Returns
    -------
    DataFrame
        ``images``, ``mean``, ``ci_low``, ``ci_high`` (taxa), at 60 sizes at most. Empty where no taxon is identified.
    """
    annotations = annotations.reset_index(drop=True)
    found = _identified(annotations, by)
    units = name_units(annotations, unit)
    total = units.nunique()
    table = pd.DataFrame(columns=["images", "mean", "ci_low", "ci_high"], dtype="float64")
    if len(found.frame):
        counts = units[found.frame.index].groupby(found.frame[by].astype("str").array).nunique().to_numpy()
        estimate, _ = chao((counts == 1).sum(), (counts == 2).sum(), len(counts), total)
        sizes = _sizes(total)
        mean, low, high = _curve(counts, total, sizes, estimate, level)
        table = pd.DataFrame({"images": sizes, "mean": mean, "ci_low": low, "ci_high": high})
    table.attrs["unidentified"] = found.unidentified
    return table


def _groups(annotations: pd.DataFrame, group: str | None):
    """Give the parts of a table by a column, or the whole of it as "all"."""
    if group is None:
        return [("all", annotations)]
    if group not in annotations:
        raise ReefcoreError(f"the points have no column {group!r}", do="choose one that they have")
    return [(str(name), part) for name, part in annotations.groupby(group, sort=True)]


def rarefaction(
    annotations: pd.DataFrame, by: str = "genus", group: str | None = None, level: float = 0.95
) -> pd.DataFrame:
    """Give the genera that are expected in fewer points, so that groups can be compared at the same number.

    Parameters
    ----------
    annotations, by, level : see `accumulation`
    group : str, optional
        The column of groups, such as site or date.

    Returns
    -------
    DataFrame
        ``group``, ``points`` (of identified hard corals), ``expected``, ``ci_low``, ``ci_high`` (taxa); each group has
        a row for ``attrs["common"]``, the points of the smallest group.
    """
    parts = [(name, _identified(part, by).frame[by].value_counts()) for name, part in _groups(annotations, group)]
    parts = [(name, counts.to_numpy()) for name, counts in parts if len(counts)]
    common = min((int(counts.sum()) for _, counts in parts), default=0)
    tables = []
    for name, counts in parts:
        total = int(counts.sum())
        sizes = np.union1d(_sizes(total), [common])
        estimate, _ = chao((counts == 1).sum(), (counts == 2).sum(), len(counts))
        mean, low, high = _curve(counts, total, sizes, estimate, level)
        tables.append(pd.DataFrame({"group": name, "points": sizes, "expected": mean, "ci_low": low, "ci_high": high}))
    columns = ["group", "points", "expected", "ci_low", "ci_high"]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
    table.attrs["common"] = common
    return table


def richness(
    annotations: pd.DataFrame, by: str = "genus", group: str | None = None, level: float = 0.95
) -> pd.DataFrame:
    """Estimate how many genera there are, those that nobody saw included.

    Parameters
    ----------
    annotations, by, group, level : see `rarefaction`

    Returns
    -------
    DataFrame
        Two rows per group: ``group``, ``estimator`` (Chao2, from the photos that have each genus; Chao1, from points,
        as if they were independent), ``observed``, ``estimate``, ``ci_low``, ``ci_high``, ``once``, ``twice`` (genera
        found in one and in two photos, or points), ``images`` (all), ``points`` (identified), ``unidentified`` (points
        of hard corals). Chao2 of one photo has no interval. The estimate is a lower bound: genera that are rare enough
        are in no photo and leave no trace.
    """
    rows = []
    for name, part in _groups(annotations, group):
        part = part.reset_index(drop=True)
        found, images = _identified(part, by), name_units(part, "image")
        taxa = found.frame[by].astype("str").array
        number = images.nunique()
        per_image = images[found.frame.index].groupby(taxa).nunique()
        for estimator, counts, units in (
            ("Chao2", per_image, number),
            ("Chao1", pd.Series(taxa).value_counts(), None),
        ):
            once, twice, seen = int((counts == 1).sum()), int((counts == 2).sum()), len(counts)
            estimate, variance = chao(once, twice, seen, units)
            ends = _ends(estimate, variance, counts.to_numpy(), units or int(counts.sum()), level)
            numbers = (once, twice, number, len(found.frame), found.unidentified)
            rows.append((name, estimator, seen, estimate, *ends, *numbers))
    columns = "group estimator observed estimate ci_low ci_high once twice images points unidentified".split()
    return pd.DataFrame(rows, columns=columns)
