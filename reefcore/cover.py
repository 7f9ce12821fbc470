"""Percent cover from points: of images, transects, sites and dates, with intervals, and how it changed.

A cover is a share of points. Points of one image resemble each other, so an interval from the number of points alone is
too narrow: whole images (or whole transects) are drawn with replacement instead. The interval is the percentile one,
widened as a t interval is (Hesterberg 2015, doi:10.1080/00031305.2015.1089789). Draws of fewer than 8 never leave the
range of what was seen and hold the truth too seldom: there it is a t interval, cut at 0 and 100. Either says how much
the cover of other images, taken in the same way, would vary. It knows nothing of wrong labels, nor of reef that no
image shows.

The column ``interval`` says how each interval was made:

===================  ====================================================================================
``images``           images were drawn (``transects``: transects, each with all its images)
``images, t``        a t interval from fewer than 8 images (``transects, t``: transects)
``points``           Wilson's, as if the points were independent: of a single image
``points, alike``    the same, where all images have the same share (so where none has the category): drawing
                     them would give an interval without width
``none: ...``        NA: only one image or transect to draw from, or a cover without counts
===================  ====================================================================================
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from reefcore.benthos import HARD_CORAL, NOT_BENTHOS, UNCLEAR
from reefcore.errors import ReefcoreError
from reefcore.metrics import draws_of
from reefcore.review import wilson

ALL = "ALL IMAGES"  # what CoralNet calls the row of them all
MISSING = "(not identified)"
NOT_CORAL = "(not hard coral)"  # genera and life forms are those of hard corals
CORAL_ONLY = ("genus", "life_form")
PERIODS = {"day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}
FEW = 8  # images or transects: fewer are not drawn
AT_ONCE = 20_000_000  # numbers of draws held at a time
WEIGHTS, RESAMPLED = ("image", "point"), ("image", "transect")


class Samples(NamedTuple):
    """Images (or sample units) by categories."""

    share: np.ndarray  # (samples, categories), of each image's points
    count: np.ndarray  # the same shape; NaN where a cover comes without counts
    total: np.ndarray  # (samples,)
    categories: list[str]
    unit: np.ndarray  # (samples,), position in `units`
    units: list[str]
    cluster: np.ndarray  # (samples,), of what is drawn


def percent_cover(
    annotations: pd.DataFrame,
    by: str = "label",
    unit: str = "image",
    *,
    weight: str = "image",
    resample: str = "image",
    period: str | None = None,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Give the percent cover of every category in every unit, with an interval.

    Parameters
    ----------
    annotations : DataFrame
        One row per point, with ``source``, ``image``, `by` and `unit`.
    by : str
        The column of categories, such as label, label_raw, genus, functional_group, life_form. Where it is empty the
        category is "(not identified)"; with genus or life_form and a functional group that is no hard coral (nor
        unclear), "(not hard coral)".
    unit : str
        The column of units, such as image, transect, site, date; "all" for the last rows alone. Images of one name in
        several sources, and transects of one name at several sites, are told apart.
    weight : {'image', 'point'}
        Each image counts the same, as in CoralNet, or each point does (pooled).
    resample : {'image', 'transect'}
        What is drawn for an interval. An image without a transect is one by itself.
    period : {'day', 'month', 'year'}, optional
        What a date is cut to; by default the day.
    n, seed : int
        Draws.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    DataFrame
        `unit`, `by`, ``images``, ``count`` (points of the category), ``total`` (points), ``percent``, ``ci_low``,
        ``ci_high`` (0 to 100), ``interval`` (see the module). Every category stands in every unit, and last in
        ``ALL IMAGES``. Units without a name are "(no transect)" and so on.

    Raises
    ------
    ReefcoreError
        Where there are no points, or a column lacks, or a choice is not known.

    Examples
    --------
    >>> points = pd.DataFrame({"source": "a", "image": list("ppqq"), "label": ["Sand", "Turf", "Sand", "Sand"]})
    >>> percent_cover(points)[["image", "label", "percent"]].query("label == 'Sand'").to_numpy().tolist()
    [['p', 'Sand', 50.0], ['q', 'Sand', 100.0], ['ALL IMAGES', 'Sand', 75.0]]
    """
    return _table(samples_of_points, annotations, by, unit, period, weight, resample, n, level, seed)


def from_counts(
    covers: pd.DataFrame,
    by: str = "label_raw",
    unit: str = "unit",
    *,
    weight: str = "image",
    resample: str = "image",
    period: str | None = None,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Give the same table from covers that come as counts or percents of sample units.

    Parameters
    ----------
    covers : DataFrame
        From `reefcore.annotations.read_covers`: one row per sample unit and label, with ``source``, ``unit``,
        ``count``, ``total``, ``percent``. A sample unit takes the place of an image.
    by, unit, weight, resample, period, n, level, seed : see `percent_cover`
        Weight "point" needs counts.
    """
    return _table(_of_covers, covers, by, unit, period, weight, resample, n, level, seed)


def change(
    annotations: pd.DataFrame,
    by: str = "label",
    unit: str = "date",
    *,
    weight: str = "image",
    resample: str = "image",
    period: str | None = None,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare the cover of consecutive dates (or other ordered units), and of the first and the last.

    With resample="transect", transects that both dates have are drawn for both at once, so that what differs between
    transects cancels out; else the two dates are drawn on their own.

    Parameters
    ----------
    annotations : DataFrame
        As for `percent_cover`; or covers, see `from_counts`.
    unit : str
        Values are compared in their order. Points without one are left out; ``attrs["without"]`` counts them.
    by, weight, resample, period, n, level, seed : see `percent_cover`

    Returns
    -------
    DataFrame
        `by`, ``from``, ``to``, ``percent_from``, ``percent_to``, ``difference`` (percentage points, to - from),
        ``ci_low``, ``ci_high``, ``probability`` (share of the draws whose difference has that sign, ties half; of an
        increase where the difference is 0; from Student's t where fewer than 8 were there to draw), ``images_from``,
        ``images_to``, ``interval`` (images, transects, paired transects; ``none: ...`` where one date has only one, or
        where all are alike: interval and probability are NA then). Empty where fewer than two units are there.
    """
    make = _of_covers if "percent" in annotations else samples_of_points
    known = annotations[_units(annotations, unit, period)[0] >= 0] if unit in annotations else annotations
    names = [by, "from", "to", "percent_from", "percent_to", "difference", "ci_low", "ci_high"]
    names += ["probability", "images_from", "images_to", "interval"]
    table = pd.DataFrame(columns=names)
    if len(known):
        samples = make(known, by, unit, resample, period)
        last = len(samples.units) - 1
        pairs = [(i, i + 1) for i in range(last)] + ([(0, last)] if last > 1 else [])
        clustered = _clustered(samples, weight) if pairs else ()
        parts = [_difference(samples, clustered, *pair, resample, n, level, seed) for pair in pairs]
        rows = [pd.DataFrame(part).assign(**{by: samples.categories})[names] for part in parts]
        table = pd.concat(rows, ignore_index=True) if rows else table
    table.attrs["without"] = len(annotations) - len(known)
    return table


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """Turn a table of covers on its side: units as rows, categories as columns of percents, as CoralNet exports them.

    Parameters
    ----------
    table : DataFrame
        From `percent_cover`.

    Returns
    -------
    DataFrame
        The unit, ``images``, ``points``, then one column per category; the rows in the order of `table`.
    """
    unit, by = table.columns[:2]
    percents = table.pivot(index=unit, columns=by, values="percent")[list(dict.fromkeys(table[by]))]
    first = table.drop_duplicates(unit).set_index(unit)
    percents.insert(0, "images", first["images"])
    percents.insert(1, "points", first["total"])
    return percents.reindex(first.index).reset_index().rename_axis(columns=None)


def categories_of(frame: pd.DataFrame, by: str) -> pd.Series:
    """Give the category of every row as text, where it is empty one of the names in brackets; see `percent_cover`."""
    if by not in frame:
        raise ReefcoreError(f"the points have no column {by!r} to tell categories by", do="choose one that they have")
    values = frame[by].astype("str")
    if by in CORAL_ONLY and "functional_group" in frame:
        other = frame["functional_group"].notna() & ~frame["functional_group"].isin([HARD_CORAL, UNCLEAR])
        values = values.mask(values.isna() & other, NOT_CORAL)
    return values.fillna(MISSING)


def not_benthos(frame: pd.DataFrame) -> np.ndarray:
    """Tell which points (or rows of covers) are left out as no benthos; none where there is nothing else.

    Parameters
    ----------
    frame : DataFrame
        Annotations or covers; without ``functional_group`` none are.

    Returns
    -------
    ndarray of bool
    """
    if "functional_group" not in frame:
        return np.zeros(len(frame), dtype=bool)
    out = frame["functional_group"].eq(NOT_BENTHOS).to_numpy(dtype=bool)
    return out & ~out.all()


def _benthic(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out what is no benthos; of covers, the percents and totals of the rest become those of the benthos."""
    out = not_benthos(frame)
    if not out.any():
        return frame
    if "percent" in frame:
        unit = frame.groupby(["source", "unit"], dropna=False, sort=False).ngroup().to_numpy()
        gone = frame[out].groupby(unit[out])[["percent", "count"]].sum().reindex(unit, fill_value=0)
        left = 1 - gone["percent"].to_numpy("float64") / 100
        out |= left < 1e-9  # nothing else is in this unit
        total = frame["total"].astype("Float64") - gone["count"].astype("Float64").array
        frame = frame.assign(percent=frame["percent"] / np.where(out, 1, left), total=total)
    return frame[~out].reset_index(drop=True)


def name_units(frame: pd.DataFrame, name: str) -> pd.Series:
    """Name units so that those of one name in several sources are told apart; those without stay empty.

    Transects of one name at several sites are told apart too.
    """
    values = frame[name].astype("str")
    for other in ("site", "source") if name == "transect" else ("source",):
        if other in frame and other != name and frame[other].nunique() > 1:
            places = frame[[other]].assign(value=values).drop_duplicates().dropna()
            if places["value"].duplicated().any():
                values = (frame[other].astype("str") + " / " + values).fillna(values)
    return values


def _units(frame: pd.DataFrame, unit: str, period: str | None) -> tuple[np.ndarray, list[str]]:
    """Number the units of rows in their order, -1 where a row has none."""
    if period is not None and period not in PERIODS:
        raise ReefcoreError(f"period={period!r} is not known", do=f"choose one of {', '.join(PERIODS)}")
    if unit not in frame:
        raise ReefcoreError(f"the points have no column {unit!r}", do="choose one that they have, or 'all'")
    values = frame[unit]
    if unit == "date" and not pd.api.types.is_datetime64_any_dtype(values):
        values = pd.to_datetime(values, format="ISO8601", errors="coerce", utc=True)
    if pd.api.types.is_datetime64_any_dtype(values):
        values = values.dt.strftime(PERIODS[period or "day"]).astype("str")
    elif unit in ("image", "unit", "transect"):
        values = name_units(frame, unit)
    codes, names = pd.factorize(values, sort=True)
    names = [f"{name:g}" if isinstance(name, float) else name for name in names]
    if all(isinstance(name, str) for name in names) and not pd.api.types.is_numeric_dtype(values):
        order = np.array(sorted(range(len(names)), key=lambda i: _natural(names[i])), dtype=int)
        codes = np.where(codes < 0, -1, np.argsort(order)[codes]) if len(names) else codes
        names = [names[i] for i in order]
    return codes, [str(name) for name in names]


def _natural(name: str) -> list[tuple[int, str]]:
    """Give a key that puts T2 before T10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), part) if i % 2 else (0, part) for i, part in enumerate(parts)]


def _clusters(frame: pd.DataFrame, resample: str, image: str) -> np.ndarray:
    """Number what is drawn: an image, or a transect of a site; an image without a transect is one by itself."""
    if resample not in RESAMPLED:
        raise ReefcoreError(f"resample={resample!r} is not known", do=f"choose one of {', '.join(RESAMPLED)}")
    names = ["source", image]
    if resample == "transect":
        if "transect" not in frame or frame["transect"].isna().all():
            raise ReefcoreError("no point has a transect to draw", do="give transects, or draw images")
        where = [name for name in ("source", "site", "transect") if name in frame]
        here = frame.groupby(where, dropna=False, sort=True).ngroup().to_numpy()
        alone = frame.groupby(names, dropna=False, sort=True).ngroup().to_numpy() + here.max() + 1
        return np.where(frame["transect"].notna(), here, alone)
    return frame.groupby(names, dropna=False, sort=True).ngroup().to_numpy()


def _frame_of_samples(frame: pd.DataFrame, unit: str, resample: str, period: str | None, image: str) -> tuple:
    """Number samples (an image, or the part of it that is in one unit), and give each its unit and its cluster."""
    if not len(frame):
        raise ReefcoreError("there are no points", do="give annotations with at least one point")
    cluster = _clusters(frame, resample, image)
    units, names = (np.zeros(len(frame), int), [ALL]) if unit == "all" else _units(frame, unit, period)
    if (units < 0).any():
        units, names = np.where(units < 0, len(names), units), [*names, f"(no {unit})"]
    keys = pd.DataFrame({"unit": units, "source": frame["source"].array, "image": frame[image].array})
    sample = keys.groupby(["unit", "source", "image"], dropna=False, sort=True).ngroup().to_numpy()
    first = np.unique(sample, return_index=True)[1]
    return sample, units[first], names, cluster[first]


def samples_of_points(frame: pd.DataFrame, by: str, unit: str, resample: str, period: str | None) -> Samples:
    frame = _benthic(frame)
    sample, units, names, cluster = _frame_of_samples(frame, unit, resample, period, "image")
    category, categories = pd.factorize(categories_of(frame, by), sort=True)
    size = len(categories)
    count = np.bincount(sample * size + category, minlength=len(units) * size).reshape(-1, size).astype("float64")
    order = np.argsort([str(name).startswith("(") for name in categories], kind="stable")  # brackets come last
    count, total = count[:, order], count.sum(axis=1)
    return Samples(count / total[:, None], count, total, [categories[i] for i in order], units, names, cluster)


def _of_covers(frame: pd.DataFrame, by: str, unit: str, resample: str, period: str | None) -> Samples:
    frame = _benthic(frame)
    sample, units, names, cluster = _frame_of_samples(frame, unit, resample, period, "unit")
    values = pd.DataFrame({"sample": sample, "category": categories_of(frame, by).array})
    values["share"] = frame["percent"].to_numpy("float64", na_value=np.nan) / 100
    values["count"] = frame["count"].to_numpy("float64", na_value=np.nan)
    share = values.pivot_table(index="sample", columns="category", values="share", aggfunc="sum", fill_value=0)
    summed = values.groupby(["sample", "category"])["count"].agg(lambda v: v.sum(skipna=False))
    count = summed.unstack(fill_value=0).reindex(columns=share.columns)
    total = frame["total"].to_numpy("float64", na_value=np.nan)[np.unique(sample, return_index=True)[1]]
    count = count.to_numpy() + np.where(np.isnan(total), np.nan, 0)[:, None]  # 0 of an unknown number is unknown
    return Samples(share.to_numpy(), count, total, list(share.columns), units, names, cluster)


def _parts(samples: Samples, weight: str) -> tuple[np.ndarray, np.ndarray]:
    """Give the numerator and the denominator of the cover, per sample; sums of them over any samples make a cover."""
    if weight not in WEIGHTS:
        raise ReefcoreError(f"weight={weight!r} is not known", do=f"choose one of {', '.join(WEIGHTS)}")
    if weight == "image":
        return samples.share, np.ones(len(samples.total))
    if np.isnan(samples.count).any() or np.isnan(samples.total).any():
        raise ReefcoreError("covers without counts cannot be pooled by points", do="use weight='image'")
    return samples.count, samples.total


def _clustered(samples: Samples, weight: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum the parts over the samples of each cluster of each unit.

    Gives the sums (tops, the last column bottoms), and the unit and the cluster of each, in this order.
    """
    tops, bottoms = _parts(samples, weight)
    pairs, group = np.unique(np.stack([samples.unit, samples.cluster]), axis=1, return_inverse=True)
    sums = np.zeros((pairs.shape[1], tops.shape[1] + 1))
    np.add.at(sums, group.ravel(), np.column_stack([tops, bottoms]))
    return sums, *pairs


def tail_of(level: float, clusters: int) -> float:
    """Give the tail of a percentile interval that is widened for few clusters as a t interval is.

    Parameters
    ----------
    level : float
        Coverage, in (0, 1).
    clusters : int
        At least 2.

    Returns
    -------
    float
        The share of draws below the interval, and above it: (1 - level) / 2 for many clusters, less for few.
    """
    from scipy.special import ndtr, stdtrit

    if not 0 < level < 1:
        raise ReefcoreError(f"level={level} is not a coverage", do="choose a level between 0 and 1, such as 0.95")
    return float(ndtr(np.sqrt(clusters / (clusters - 1)) * stdtrit(clusters - 1, (1 - level) / 2)))


def _intervals(samples: Samples, weight: str, n: int, level: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the clusters of every unit; gives the ends of the intervals and clusters per unit.

    Units with as many clusters share their draws, so that all of them are one product.
    """
    if n < 1:
        raise ReefcoreError(f"n={n} draws cannot be made", do="choose n of at least 1")
    sums, unit, _ = _clustered(samples, weight)
    tops, bottoms = sums[:, :-1], sums[:, -1]
    sizes, width = np.bincount(unit, minlength=len(samples.units)), tops.shape[1]
    ends = np.full((2, len(samples.units), width), np.nan)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for size in np.unique(sizes[sizes > 1]):
        alike = np.flatnonzero(sizes == size)
        if size < FEW:
            rows = starts[alike][:, None] + np.arange(size)
            shares, error = _ratio(tops[rows], bottoms[rows])
            half = _t(size, level) * error
            ends[:, alike] = np.clip([shares - half, shares + half], 0, 1)
            continue
        weights = np.vstack(list(draws_of(size, n, seed))).astype("float64")
        tail = tail_of(level, int(size))
        for some in np.array_split(alike, max(1, min(len(alike), n * width * len(alike) // AT_ONCE))):
            rows = starts[some][:, None] + np.arange(size)
            top, bottom = weights @ tops[rows], weights @ bottoms[rows][:, :, None]  # (units, draws, categories)
            ends[:, some] = np.quantile(top / bottom, [tail, 1 - tail], axis=1)
    return ends, sizes


def _ratio(tops: np.ndarray, bottoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give covers and their standard errors from (..., clusters, categories) and (..., clusters)."""
    whole = bottoms.sum(axis=-1)[..., None]
    share, clusters = tops.sum(axis=-2) / whole, bottoms.shape[-1]
    off = tops - share[..., None, :] * bottoms[..., None]
    return share, np.sqrt(clusters / (clusters - 1) * (off**2).sum(axis=-2)) / whole


def _t(clusters: int, level: float) -> float:
    """Give the quantile of Student's t that an interval over so many clusters reaches to."""
    from scipy.special import stdtrit

    tail_of(level, clusters)  # refuses what is no coverage
    return float(stdtrit(clusters - 1, (1 + level) / 2))


def _table(make, frame, by, unit, period, weight, resample, n, level, seed) -> pd.DataFrame:
    """Give the rows of every unit, and last those of all images; `make` gives samples of points or of covers."""
    samples = [make(frame, by, one, resample, period) for one in dict.fromkeys((unit, "all"))]
    parts = [_rows(some, by, unit, weight, resample, n, level, seed) for some in samples]
    return pd.concat(parts, ignore_index=True)


def _rows(samples, by, unit, weight, resample, n, level, seed) -> pd.DataFrame:
    tops, bottoms = _parts(samples, weight)
    units, width = len(samples.units), len(samples.categories)

    def summed(values):
        sums = np.zeros((units, *values.shape[1:]))
        np.add.at(sums, samples.unit, values)
        return sums

    images, count, total = np.bincount(samples.unit, minlength=units), summed(samples.count), summed(samples.total)
    share = summed(tops) / summed(bottoms)[:, None]
    (low, high), clusters = _intervals(samples, weight, n, level, seed)
    how = np.where(clusters > 1, np.where(clusters < FEW, f"{resample}s, t", f"{resample}s"), f"none: one {resample}")
    how = np.repeat(how[:, None], width, axis=1)
    counted = ~np.isnan(count) & ~np.isnan(total)[:, None]
    plain = (images == 1)[:, None] & counted
    alike = (high - low < 1e-12) & (clusters > 1)[:, None]
    how = np.where(plain, "points", np.where(alike & counted, "points, alike", how))
    how = np.where(((images == 1)[:, None] | alike) & ~counted, "none: no counts", how)
    bounds = wilson(np.nan_to_num(count), np.nan_to_num(np.broadcast_to(total[:, None], count.shape)), level)
    by_points, unknown = np.char.startswith(how, "points"), np.char.startswith(how, "none")
    low, high = (
        np.where(by_points, bound, np.where(unknown, np.nan, end))
        for bound, end in zip(bounds, (low, high), strict=True)
    )
    frame = pd.DataFrame(
        {
            unit: np.repeat(samples.units, width),
            by: np.tile(samples.categories, units),
            "images": np.repeat(images, width),
            "count": pd.array(count.ravel()).astype("Float64"),
            "total": pd.array(np.repeat(total, width)).astype("Float64"),
            "percent": 100 * share.ravel(),
            "ci_low": 100 * low.ravel(),
            "ci_high": 100 * high.ravel(),
            "interval": how.ravel(),
        }
    )
    numbers = "Float64" if (frame["count"] % 1).any() else "Int64"
    return frame.astype({unit: "str", by: "str", "interval": "str", "count": numbers, "total": numbers})


def _difference(samples, clustered, first, second, resample, n, level, seed) -> dict:
    """Compare two units of samples, of which `clustered` gives the clusters; see `change`."""
    from scipy.special import stdtr

    sums, unit, cluster = clustered
    (one, before), (two, after) = ((cluster[unit == place], sums[unit == place]) for place in (first, second))
    shares = [100 * sums.sum(0)[:-1] / sums.sum(0)[-1] for sums in (before, after)]
    difference = shares[1] - shares[0]
    paired = resample == "transect" and len(np.intersect1d(one, two)) > 0
    fewest = min(len(one), len(two))
    result = {
        "from": samples.units[first],
        "to": samples.units[second],
        "percent_from": shares[0],
        "percent_to": shares[1],
        "difference": difference,
        "images_from": int((samples.unit == first).sum()),
        "images_to": int((samples.unit == second).sum()),
    }
    if fewest < 2:
        nothing = np.full(len(difference), np.nan)
        return (
            result
            | dict.fromkeys(("ci_low", "ci_high", "probability"), nothing)
            | {"interval": f"none: one {resample}"}
        )
    if fewest < FEW:
        few = ", t"
        if paired:  # what a transect is off in both dates goes together
            every, off = np.union1d(one, two), 0
            for sign, names, sums in ((-1, one, before), (1, two, after)):
                each = np.zeros((len(every), sums.shape[1]))
                each[np.searchsorted(every, names)] = sums
                whole = each[:, -1].sum()
                off = off + sign * (each[:, :-1] - each[:, :-1].sum(0) / whole * each[:, -1:]) / whole
            error = 100 * np.sqrt(len(every) / (len(every) - 1) * (off**2).sum(axis=0))
        else:
            errors = [_ratio(sums[:, :-1], sums[:, -1])[1] for sums in (before, after)]
            error = 100 * np.hypot(*errors)
        half = _t(fewest, level) * error
        low, high = np.maximum(difference - half, -100), np.minimum(difference + half, 100)
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = stdtr(fewest - 1, np.nan_to_num(np.abs(difference) / error, nan=0.0, posinf=np.inf))
    else:
        few = ""
        if paired:  # one drawing of all transects serves both dates
            every = np.union1d(one, two)
            drawn = np.vstack(list(draws_of(len(every), n, seed)))
            drawn = [drawn[:, np.searchsorted(every, names)] for names in (one, two)]
        else:
            drawn = [np.vstack(list(draws_of(len(names), n, s))) for names, s in ((one, [seed, 0]), (two, [seed, 1]))]
        with np.errstate(invalid="ignore"):  # a draw of transects that one date lacks says nothing
            sums = [d @ side for d, side in zip(drawn, (before, after), strict=True)]
            draws = 100 * (sums[1][:, :-1] / sums[1][:, -1:] - sums[0][:, :-1] / sums[0][:, -1:])
        draws = draws[~np.isnan(draws).any(axis=1)]
        tail = tail_of(level, fewest)
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
        probability = ((draws * np.where(difference < 0, -1, 1) > 0) + 0.5 * (draws == 0)).mean(axis=0)
    flat = high - low < 1e-9
    low, high, probability = (np.where(flat, np.nan, values) for values in (low, high, probability))
    how = np.where(flat, f"none: {resample}s alike", ("paired transects" if paired else f"{resample}s") + few)
    return result | {"ci_low": low, "ci_high": high, "probability": probability, "interval": how}
