"""Reef substrate: from the patches of a frame to the decision whether a coral device is dropped there.

A frame is laid out in a grid (`reefcore.substrate.grid`), each patch is classified as Deploy, Coral or No-Deploy, and
the frame is a place to deploy where enough of its patches are (`decide`, `reefcore.substrate.decision`). The task is
that of Raine et al. 2025, arXiv 2509.01019; its metrics are those of the evaluation card (`score`).
"""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd

from reefcore import metrics
from reefcore.errors import ReefcoreError
from reefcore.multimodal import NO_ANSWER
from reefcore.tables import SUBSTRATES

__all__ = ["decide", "least", "per_class", "score"]

logger = logging.getLogger(__name__)

CARD = ("Deploy", "No-Deploy", "Coral")  # the card's order: a sum of three fractions depends on it in its last digit
PLACE = ["frame", "row", "column"]  # what a patch is known by
OTHER = len(SUBSTRATES)  # code of every label that is no substrate


def score(y_true, y_pred) -> dict[str, float]:
    """Score patches as the evaluation card does.

    Parameters
    ----------
    y_true, y_pred : array-like of str, shape (n,)
        True and predicted substrate of n patches, names of `reefcore.tables.SUBSTRATES`. The card's recipe takes them
        the other way round.

    Returns
    -------
    dict
        ``macro_f1``: the mean of the F1 of Deploy, No-Deploy and Coral, always over the three, a class that is absent
        counting 0. ``accuracy``: the share of all n that are right. Fractions in [0, 1]; the card prints percent. A
        label that is no substrate is never right; a warning in the log names such labels, but for ``no valid answer``
        of a multimodal model, which is wrong without a word.

    Raises
    ------
    ReefcoreError
        Where there is nothing to score, or lengths differ (the recipe would divide by zero, or cut the longer one).

    Examples
    --------
    >>> score(["Deploy", "Deploy", "Coral", "Coral"], ["Deploy", "Coral", "Coral", "Coral"])["accuracy"]
    0.75
    """
    cells = confusion_cells(*coded(y_true, y_pred)).sum(axis=0)
    f1 = dict(zip(SUBSTRATES, _rates(cells)["f1"].tolist(), strict=True))
    return {"macro_f1": sum(f1[name] for name in CARD) / OTHER, "accuracy": float(np.trace(cells[:-1]) / cells.sum())}


def per_class(y_true, y_pred, frames, n: int = 1000, seed: int = 0, level: float = 0.95) -> pd.DataFrame:
    """Describe the answers by class, with intervals that resample whole frames: all patches of one are drawn together.

    Parameters
    ----------
    y_true, y_pred : array-like of str, shape (patches,)
        See `score`.
    frames : array-like, shape (patches,)
        The frame of each patch, or its survey sequence: neighbouring frames are not independent either.
    n, seed : int
        Draws, and their seed.
    level : float
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        ``class`` (Deploy, No-Deploy, Coral, and ``all``), ``metric``, ``value``, ``ci_low``, ``ci_high`` (fractions)
        and ``support`` (patches of that true class). Of a class: ``precision``, ``recall``, ``f1``; of all:
        ``macro_f1``, ``accuracy`` (see `score`) and ``weighted_f1``, the mean of the F1 by support, which hides the
        rare class, as the card warns. With one frame the intervals are NaN.

    Raises
    ------
    ReefcoreError
        As `score`, or where frames do not go with the patches, or `n` or `level` is out of its range.
    """
    found = resampled(y_true, y_pred, frames, n, seed)
    low, high = metrics.interval(found.iloc[1:], level)
    table = pd.DataFrame({"value": found.iloc[0], "ci_low": low, "ci_high": high}).rename_axis(["class", "metric"])
    if pd.Series(frames).nunique() < 2:
        table[["ci_low", "ci_high"]] = np.nan
    truth = list(y_true)
    support = {name: truth.count(name) for name in SUBSTRATES} | {"all": len(truth)}
    return table.reset_index().assign(support=lambda rows: rows["class"].map(support))


def decide(patch_classes, alpha: float):
    """Decide from the classes of a frame's patches whether to deploy: more than `alpha` of them are Deploy, strictly.

    Parameters
    ----------
    patch_classes : array-like of str or int, shape (patches,) or (frames, patches)
        Names of substrates, or the authors' codes: 0 No-Deploy, 1 Coral, 2 Deploy.
    alpha : float
        In [0, 1]. The authors' code has 0.5, 0.6 and 0.7: at least 15, 17 and 20 of 28 patches (`least`).

    Returns
    -------
    bool, or ndarray of bool, shape (frames,)

    Raises
    ------
    ReefcoreError
        Where alpha is outside [0, 1], there is no patch, or a class is no substrate.

    Examples
    --------
    >>> decide([2] * 14 + [0] * 14, 0.5), decide([2] * 15 + [0] * 13, 0.5)
    (False, True)
    """
    given = np.asarray(patch_classes)
    if not given.size:
        raise ReefcoreError("a frame without patches cannot be decided", do="give the class of every patch")
    known = np.arange(OTHER) if given.dtype.kind in "iu" else np.array(SUBSTRATES)
    if (strange := ~np.isin(given, known)).any():
        value = given[strange].flat[0]
        raise ReefcoreError(
            f"{str(value)!r} is no substrate of a patch", do=f"use {', '.join(SUBSTRATES)}, or their codes 0, 1, 2"
        )
    deploy = (given == known[SUBSTRATES.index("Deploy")]).sum(axis=-1) >= least(alpha, given.shape[-1])
    return bool(deploy) if given.ndim == 1 else deploy


def least(alpha: float, patches: int = 28) -> int:
    """Say how many patches of a frame must be Deploy for a yes: the least k with k / patches above `alpha`, strictly.

    ``k / patches > alpha`` in double precision is exact for an alpha written in decimals: the quotient and the literal
    of one number are the same double. ``k > alpha * patches`` would not be.

    Returns
    -------
    int
        1 to patches + 1; at alpha 1 no frame has enough.

    Raises
    ------
    ReefcoreError
        Where alpha is no number in [0, 1], or there is no patch.
    """
    if patches < 1:
        raise ReefcoreError(f"a frame of {patches} patches cannot be decided", do="use a grid of at least one patch")
    try:
        value = float(str(alpha))  # 0.7 in single precision is 0.7 too
    except ValueError:
        value = np.nan
    if not 0 <= value <= 1:
        raise ReefcoreError(f"alpha={alpha} is no share of patches", do="choose an alpha from 0 to 1, such as 0.5")
    return int((np.arange(patches + 1) / patches <= value).sum())


def coded(y_true, y_pred) -> tuple[np.ndarray, np.ndarray]:
    """Give the authors' codes of true and predicted labels; one that is no substrate has `OTHER`. Errors: `score`."""
    given = [pd.Series(list(labels), dtype="object") for labels in (y_true, y_pred)]
    if len(given[0]) != len(given[1]):
        what = f"{len(given[0])} true substrates but {len(given[1])} predicted ones"
        raise ReefcoreError(what, do="give one prediction per patch")
    if not len(given[0]):
        raise ReefcoreError("there is nothing to score: no patches", do="check that the run has test patches")
    if strange := sorted({str(label) for labels in given for label in labels.unique()} - {*SUBSTRATES, NO_ANSWER}):
        logger.warning("Labels that are no substrate count as wrong: %s.", ", ".join(strange[:5]))
    code = {name: place for place, name in enumerate(SUBSTRATES)}
    return tuple(labels.map(code).fillna(OTHER).to_numpy("int64") for labels in given)


def confusion_cells(true: np.ndarray, pred: np.ndarray) -> np.ndarray:
    """Put each patch in its cell, by codes of `coded`: float64, shape (patches, truth, prediction)."""
    cells = np.zeros((len(true), OTHER + 1, OTHER + 1))
    cells[np.arange(len(true)), true, pred] = 1
    return cells


def resampled(y_true, y_pred, frames, n: int, seed: int) -> pd.DataFrame:
    """Give the metrics of `per_class` as they are, in the first row, and in each of `n` draws of whole frames."""
    cells = confusion_cells(*coded(y_true, y_pred))
    return described(metrics.drawn_sums(cells.reshape(len(cells), -1), frames, n, seed))


def described(sums: np.ndarray) -> pd.DataFrame:
    """Turn sums of `confusion_cells`, (draws, 4 x 4), into a column (class, metric) for each line of `per_class`."""
    cells = sums.reshape(len(sums), OTHER + 1, OTHER + 1)
    rates, support = _rates(cells), cells.sum(-1)[:, :OTHER]
    columns = {(name, metric): rates[metric][:, SUBSTRATES.index(name)] for name in CARD for metric in rates}
    columns["all", "macro_f1"] = rates["f1"].mean(-1)
    columns["all", "accuracy"] = np.trace(cells[:, :OTHER], axis1=1, axis2=2) / np.maximum(cells.sum((1, 2)), 1)
    columns["all", "weighted_f1"] = (rates["f1"] * support).sum(-1) / np.maximum(support.sum(-1), 1)
    return pd.DataFrame(columns)


def _rates(cells: np.ndarray) -> dict[str, np.ndarray]:
    """Give precision, recall and F1 of the substrates, (..., 3), from (..., truth, prediction); 0 where undefined."""

    def ratio(top, bottom):
        return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)

    hits = np.diagonal(cells, axis1=-2, axis2=-1)[..., :OTHER]
    precision, recall = ratio(hits, cells.sum(-2)[..., :OTHER]), ratio(hits, cells.sum(-1)[..., :OTHER])
    return {"precision": precision, "recall": recall, "f1": ratio(2 * precision * recall, precision + recall)}
