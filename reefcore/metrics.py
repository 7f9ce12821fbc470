"""Scores of predictions, with intervals that know that the points of one photo are not independent.

Everything here is computed from labels alone (a predictions table), never from a model.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from reefcore import taxonomy
from reefcore.errors import ReefcoreError
from reefcore.tables import SCHEMES, validate

logger = logging.getLogger(__name__)

OVER = ("truth", "truth_or_prediction")
FEW = 10  # photos: resampling fewer says little about others
CHUNK = 200  # resamples at once: bounds the memory of the weights to CHUNK x groups numbers


def _codes(y_true, y_pred) -> tuple[np.ndarray, np.ndarray, list[str]]:
    y_true, y_pred = pd.Series(y_true).astype("str"), pd.Series(y_pred).astype("str")
    if len(y_true) != len(y_pred):
        raise ReefcoreError(
            f"{len(y_true)} true labels but {len(y_pred)} predicted ones", do="give one prediction per point"
        )
    if not len(y_true):
        raise ReefcoreError("there is nothing to score: no predictions", do="check that the run has test points")
    if y_true.isna().any() or y_pred.isna().any():
        raise ReefcoreError("a label is missing among the predictions", do="drop or fill the rows without a label")
    classes = sorted(set(y_true) | set(y_pred))
    code = {name: i for i, name in enumerate(classes)}
    return y_true.map(code).to_numpy("int64"), y_pred.map(code).to_numpy("int64"), classes


def confusion(y_true, y_pred) -> pd.DataFrame:
    """Count points by true class (rows) and predicted class (columns), over all classes that occur in either."""
    true, pred, classes = _codes(y_true, y_pred)
    counts = np.bincount(true * len(classes) + pred, minlength=len(classes) ** 2).reshape(len(classes), -1)
    return pd.DataFrame(counts, index=pd.Index(classes, name="truth"), columns=pd.Index(classes, name="prediction"))


def _from_confusion(cm: np.ndarray, over: str) -> dict[str, np.ndarray]:
    """Derive every metric from confusion matrices of shape (..., C, C)."""
    if over not in OVER:
        raise ReefcoreError(
            f"over={over!r} is not a convention for macro averages", do=f"choose one of {', '.join(OVER)}"
        )
    hits = np.diagonal(cm, axis1=-2, axis2=-1).astype("float64")
    truth, prediction, total = cm.sum(-1), cm.sum(-2), cm.sum((-2, -1))
    counted = truth > 0 if over == "truth" else (truth + prediction) > 0

    def ratio(top, bottom):
        return np.divide(top, bottom, out=np.zeros_like(hits), where=bottom > 0)

    def macro(values):
        return (values * counted).sum(-1) / counted.sum(-1)

    accuracy = hits.sum(-1) / total
    return {
        "macro_recall": macro(ratio(hits, truth)),
        "micro_recall": accuracy,
        "macro_precision": macro(ratio(hits, prediction)),
        "macro_f1": macro(ratio(2 * hits, truth + prediction)),
        "accuracy": accuracy,
    }


def score(y_true, y_pred, over: str = "truth") -> dict[str, float]:
    """Score predicted classes against true ones.

    Parameters
    ----------
    y_true, y_pred : array-like of str, shape (n,)
        Labels of n points.
    over : {'truth', 'truth_or_prediction'}
        The classes a macro average is over. ``'truth'``: the classes that occur among the true labels, which is the
        paper's definition of macro recall (section 5.1: balanced accuracy; A.4.5: unaffected by absent classes).
        ``'truth_or_prediction'``: also classes that were only predicted, each counting 0, as the authors' published
        evaluation code does.

    Returns
    -------
    dict
        ``macro_recall``, ``micro_recall``, ``macro_precision``, ``macro_f1``, ``accuracy``, as fractions in [0, 1].
        With one label per point micro recall and accuracy are the same number. A class that is never predicted has
        precision and F1 of 0 (scikit-learn's ``zero_division=0``); macro F1 is the mean of the per-class F1.

    Raises
    ------
    ReefcoreError
        Where there is nothing to score, lengths differ, a label is missing or `over` is unknown.

    Examples
    --------
    >>> score(["Porites", "Porites", "Pavona"], ["Porites", "Pavona", "Pavona"])["macro_recall"]
    0.75
    """
    cm = confusion(y_true, y_pred).to_numpy()
    return {name: float(value) for name, value in _from_confusion(cm, over).items()}


def resample(y_true, y_pred, groups, n: int = 1000, seed: int = 0, over: str = "truth") -> pd.DataFrame:
    """Draw bootstrap values of every metric by resampling whole groups (photos) with replacement.

    A group's points are kept together, so the interval widens where the points of one photo resemble each other. The
    work is one sparse product: resample counts (draws x groups) times the groups' confusion matrices (groups x cells).

    Parameters
    ----------
    y_true, y_pred : array-like of str, shape (points,)
    groups : array-like, shape (points,)
        The photo (or source) of each point.
    n : int
        Draws.
    seed : int
    over : see `score`. In each draw the average is over the classes that occur in it.

    Returns
    -------
    DataFrame, shape (n, 5)
        One column per metric.
    """
    return _resample([(y_true, y_pred)], groups, n, seed, over)[0]


def draws_of(groups: int, n: int, seed: int, at_once: int = CHUNK) -> Iterator[np.ndarray]:
    """Draw groups with replacement: how often each is drawn, int (at most `at_once`, groups) at a time, n in all."""
    rng, equal = np.random.default_rng(seed), np.full(groups, 1 / groups)
    for start in range(0, n, at_once):
        yield rng.multinomial(groups, equal, size=min(at_once, n - start))


def _groups(groups, points: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Number the groups of points, and refuse what cannot be drawn from."""
    if n < 1:
        raise ReefcoreError(f"n={n} draws cannot be made", do="choose n of at least 1")
    group, names = pd.factorize(pd.Series(groups), sort=True)
    if len(group) != points:
        raise ReefcoreError(f"{len(group)} groups for {points} points", do="give one group per point")
    if (group < 0).any():
        raise ReefcoreError("a point has no group", do="give the photo of every point")
    return group, np.asarray(names)


def drawn_sums(values: np.ndarray, groups, n: int, seed: int) -> np.ndarray:
    """Sum what is counted at each point over draws of whole groups with replacement: a bootstrap of anything additive.

    Parameters
    ----------
    values : ndarray, shape (points, k)
    groups : array-like, shape (points,)
        The photo (or source) of each point.
    n : int
        Draws.
    seed : int

    Returns
    -------
    ndarray, shape (1 + n, k)
        First the sums as they are, then those of the draws, each of as many groups as there are.

    Raises
    ------
    ReefcoreError
        Where `n` is below 1, or a point has no group.
    """
    group, names = _groups(groups, len(values), n)
    sums = pd.DataFrame(np.asarray(values, "float64")).groupby(group).sum().to_numpy()
    return np.vstack([sums.sum(axis=0), *(weights @ sums for weights in draws_of(len(names), n, seed))])


def _resample(runs: list[tuple], groups, n: int, seed: int, over: str) -> list[pd.DataFrame]:
    """Draw for several runs on the same points: the same photos are in draw i of each."""
    from scipy import sparse

    counts = []
    for y_true, y_pred in runs:
        true, pred, classes = _codes(y_true, y_pred)
        group, names = _groups(groups, len(true), n)
        size = len(classes)
        shape = (size * size, len(names))
        counts.append((size, sparse.coo_array((np.ones(len(true)), (true * size + pred, group)), shape=shape).tocsr()))
    parts = [[] for _ in runs]
    for weights in draws_of(len(names), n, seed):
        for (size, cells), part in zip(counts, parts, strict=True):
            drawn = (cells @ weights.T).T.reshape(len(weights), size, size)
            part.append(pd.DataFrame(_from_confusion(drawn, over)))
    return [pd.concat(part, ignore_index=True) for part in parts]


def bootstrap(
    y_true, y_pred, groups, n: int = 1000, seed: int = 0, over: str = "truth", level: float = 0.95
) -> pd.DataFrame:
    """Give every metric a percentile bootstrap interval by resampling groups (photos), not points.

    Parameters
    ----------
    y_true, y_pred, groups, n, seed, over : see `resample`
    level : float
        Coverage of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        ``metric``, ``value``, ``ci_low``, ``ci_high``; fractions in [0, 1]. The interval of one group is NaN: it says
        nothing about others.
    """
    values = score(y_true, y_pred, over)
    low, high = interval(resample(y_true, y_pred, groups, n, seed, over), level)
    if pd.Series(groups).nunique() < 2:
        low, high = low * np.nan, high * np.nan
    names = list(values)
    return pd.DataFrame(
        {"metric": names, "value": list(values.values()), "ci_low": low[names].array, "ci_high": high[names].array}
    )


def interval(draws: pd.DataFrame, level: float) -> tuple[pd.Series, pd.Series]:
    """Take the percentile interval of draws: its ends, per column."""
    if not 0 < level < 1:
        raise ReefcoreError(f"level={level} is not a coverage", do="choose a level between 0 and 1, such as 0.95")
    return draws.quantile((1 - level) / 2), draws.quantile((1 + level) / 2)


def paired(
    predictions: pd.DataFrame,
    annotations: pd.DataFrame,
    pairs: list[tuple[str, str]] | None = None,
    metric: str = "macro_recall",
    n: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compare runs on one test set two by two: photos are resampled, the same ones for every run.

    What makes photos hard is common to all runs and cancels in the difference, so a paired interval is narrower than
    the two intervals of the runs suggest.

    Parameters
    ----------
    predictions : DataFrame
        The predictions table; runs on the same points.
    annotations : DataFrame
        With ``annotation_id``, ``source`` and ``image``: the photo of each point.
    pairs : list of (run, run), optional
        The comparisons, first minus second; by default all pairs in order of appearance.
    metric : str
        A key of what `score` returns.
    n, seed, level : see `bootstrap`

    Returns
    -------
    DataFrame
        ``first``, ``second``, ``value`` (first minus second), ``ci_low``, ``ci_high`` (percentiles of the draws, for
        that pair alone), ``p`` (two-sided, of a normal distribution with the draws' standard deviation: the share of
        draws beyond zero cannot go below 1/n, which no adjustment for many pairs survives) and ``p_holm`` (adjusted
        for all pairs of the call: Holm 1979, Scandinavian Journal of Statistics 6).

    Raises
    ------
    ReefcoreError
        Where a run of `pairs` is missing, or two runs are not on the same points with the same true labels.
    """
    from scipy.special import ndtr

    runs = {str(run): rows.set_index("annotation_id") for run, rows in predictions.groupby("run_id", sort=False)}
    pairs = list(combinations(runs, 2)) if pairs is None else pairs
    used = list(dict.fromkeys(run for pair in pairs for run in pair))
    if missing := [run for run in used if run not in runs]:
        raise ReefcoreError(f"there are no predictions of run {missing[0]}", do="compare runs of this table")
    if not used:
        raise ReefcoreError("there are no two runs to compare", do="give predictions of at least two runs")
    truth = runs[used[0]]["y_true"]
    for run in used:
        same = truth.index.is_unique and len(truth) == len(runs[run]) and truth.index.isin(runs[run].index).all()
        if not same or (runs[run].loc[truth.index, "y_true"] != truth).any():
            raise ReefcoreError(
                f"runs {used[0]} and {run} are not on the same points with the same true labels",
                do="compare runs on one test set, with one prediction per point",
            )
    answers = [(truth, runs[run].loc[truth.index, "y_pred"]) for run in used]
    draws = _resample(answers, photo_of(truth.index.to_series(), annotations), n, seed, "truth")
    table = pd.DataFrame(pairs, columns=["first", "second"])
    first, second = table["first"].map(used.index), table["second"].map(used.index)
    values = np.array([score(*answer)[metric] for answer in answers])
    drawn = np.column_stack([draw[metric] for draw in draws])
    gaps = pd.DataFrame(drawn[:, first] - drawn[:, second])
    value, spread = values[first] - values[second], gaps.std().to_numpy()
    low, high = interval(gaps, level)
    steps = np.divide(value, spread, out=np.zeros_like(value), where=spread > 0)
    p = 2 * ndtr(-np.abs(steps))
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return table.assign(value=value, ci_low=low.array, ci_high=high.array, p=p, p_holm=adjusted)


def photo_of(ids: pd.Series, annotations: pd.DataFrame) -> pd.Series:
    """Name the photo of each annotation_id, as source and image: what a bootstrap resamples.

    Raises
    ------
    ReefcoreError
        Where an annotation is not in `annotations`.
    """
    names = (annotations["source"] + "\x1f" + annotations["image"]).set_axis(annotations["annotation_id"])
    photos = ids.map(names[~names.index.duplicated()])
    if photos.isna().any():
        stray = ids[photos.isna()]
        raise ReefcoreError(
            f"{len(stray)} predictions are for unknown annotations, such as {stray.iloc[0]}",
            do="give the annotations the predictions were made for",
        )
    return photos


def doubts(predictions: pd.DataFrame, annotations: pd.DataFrame) -> list[str]:
    """Say what of a predictions table does not go with the labels of its annotations, one sentence each.

    Parameters
    ----------
    predictions : DataFrame
        The predictions table.
    annotations : DataFrame
        With ``annotation_id`` and ``label``.

    Returns
    -------
    list of str
        Where ``y_true`` is neither the label of the annotation nor its family: how many points, and one of them. Where
        answers are no class that occurs in ``y_true`` or among the labels and their families: up to five of them.
    """
    predictions = predictions.reset_index(drop=True)
    known = annotations.drop_duplicates("annotation_id").set_index("annotation_id")["label"]
    labels, true = predictions["annotation_id"].map(known), predictions["y_true"]
    family = taxonomy.family_of(known.dropna().unique())
    other = labels.notna() & (true != labels) & (true != labels.map(family))
    said = []
    if other.any():
        place = other.idxmax()
        said.append(
            f"y_true is not the label of the annotation for {other.sum():,} of {len(other):,} points, such as "
            f"{predictions['annotation_id'][place]} ({true[place]}, labelled {labels[place]})"
        )
    if strange := sorted(set(predictions["y_pred"]) - {*true, *family, *family.index}):
        more = f" and {len(strange) - 5:,} more" if len(strange) > 5 else ""
        said.append(f"answers that are no class of the truth: {', '.join(strange[:5])}{more}")
    return said


def evaluate(
    predictions: pd.DataFrame,
    annotations: pd.DataFrame,
    scheme: str | None = None,
    n: int = 1000,
    seed: int = 0,
    over: str = "truth",
) -> pd.DataFrame:
    """Turn a predictions table, from any program, into the metrics table.

    Parameters
    ----------
    predictions : DataFrame
        The predictions table; may hold several runs.
    annotations : DataFrame
        With ``annotation_id``, ``source`` and ``image``: the photo of each point, for the interval.
    scheme : {'S1', 'S2', 'S3', 'S4', 'W'}, optional
        The test set the predictions are for. By default the end of each ``run_id`` (``...-S1``).
    n, seed, over : see `bootstrap`.

    Returns
    -------
    DataFrame
        The metrics table; ``n`` is the number of test points, ``classes`` the number of classes among their true
        labels. A warning names the runs with fewer than 10 photos.

    Raises
    ------
    ReefcoreError
        Where a prediction is for an annotation that is not in `annotations`, or a run's test set is not known.
    """
    if scheme is not None and scheme not in SCHEMES:
        raise ReefcoreError(f"there is no test set {scheme!r}", do=f"choose from {', '.join(SCHEMES)}")
    predictions = validate(predictions, "predictions")
    predictions = predictions.assign(photo=photo_of(predictions["annotation_id"], annotations))
    parts = []
    for run, rows in predictions.groupby("run_id", sort=True):
        test = scheme or str(run).rsplit("-", 1)[-1]
        if test not in SCHEMES:
            raise ReefcoreError(
                f"the test set of run {run} is not known",
                do=f"end its run_id in one of -{', -'.join(SCHEMES)}, or say --scheme",
            )
        table = bootstrap(rows["y_true"], rows["y_pred"], rows["photo"], n, seed, over)
        if (photos := rows["photo"].nunique()) < FEW:
            logger.warning("Run %s has few photos (%d): its intervals say little.", run, photos)
        parts.append(table.assign(run_id=run, scheme=test, n=len(rows), classes=rows["y_true"].nunique()))
    if not parts:
        raise ReefcoreError("there is nothing to score: no predictions", do="check that the run has test points")
    columns = ["run_id", "scheme", "metric", "value", "ci_low", "ci_high", "n", "classes"]
    return validate(pd.concat(parts, ignore_index=True)[columns], "metrics")
