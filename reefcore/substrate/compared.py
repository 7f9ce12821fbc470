"""What a split and a way to balance classes do to a score: for the page, apart from what trains."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore import metrics, substrate
from reefcore.substrate import PLACE


def flattery(by_sequence: pd.DataFrame, by_patch: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Measure how much better a model looks when patches, not sequences, were divided at random.

    Parameters
    ----------
    by_sequence, by_patch : DataFrame
        Predictions of the same recipe under `training.split` and `training.random_split`, validation and test:
        what `training.run` gives.
    n, seed : int
        Draws of the bootstrap over frames, and their seed.

    Returns
    -------
    DataFrame
        ``patches``, ``metric`` (macro_f1, accuracy), ``by_sequence``, ``by_patch``, ``difference``, ``ci_low``,
        ``ci_high``. "own test": each on its own test part, as one would report it; these are different patches, drawn
        independently. "the same": the patches that neither was trained on, drawn together: what differs is whether
        their neighbours were.
    """
    own = [told[told["part"] == "test"] for told in (by_sequence, by_patch)]
    both = by_sequence.merge(by_patch[[*PLACE, "y_pred"]], on=PLACE, suffixes=("", "_too"))
    tables = []
    for name, pair in {"own test": own, "the same": [both, both.assign(y_pred=both["y_pred_too"])]}.items():
        table = difference(*pair, n, seed, paired=name == "the same")
        table = table.rename(columns={"first": "by_sequence", "second": "by_patch"})
        table.insert(0, "patches", name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def difference(
    first: pd.DataFrame, second: pd.DataFrame, n: int = 1000, seed: int = 0, paired: bool = True
) -> pd.DataFrame:
    """Compare two models of patches by the card's scores.

    Parameters
    ----------
    first, second : DataFrame
        ``frame``, ``y_true``, ``y_pred``.
    n, seed : int
        Draws of the bootstrap over frames, and their seed.
    paired : bool
        Both are of the same frames, which are then drawn together.

    Returns
    -------
    DataFrame
        ``metric`` (macro_f1, accuracy), ``first``, ``second``, ``difference`` (second minus first), ``ci_low``,
        ``ci_high``.
    """
    draws = []
    for at, told in enumerate((first, second)):
        of = told["y_true"], told["y_pred"], told["frame"], n, seed if paired else seed + at
        draws.append(substrate.resampled(*of)["all"][["macro_f1", "accuracy"]])
    gap = draws[1] - draws[0]
    low, high = metrics.interval(gap.iloc[1:], 0.95)
    values = {"first": draws[0].iloc[0], "second": draws[1].iloc[0], "difference": gap.iloc[0]}
    return pd.DataFrame(values | {"ci_low": low, "ci_high": high}).rename_axis("metric").reset_index()


def doubled(counts: pd.Series) -> pd.DataFrame:
    """Say how much each class weighs in training: the share of the loss that it has where a model knows nothing yet.

    Parameters
    ----------
    counts : Series of int
        Training patches by class.

    Returns
    -------
    DataFrame
        ``class``, ``patches`` and shares in [0, 1]: ``as they are``; ``drawn`` with the probability 1 / n_c, or
        ``weighted`` by N / n_c, which give every class the same; and ``both``, which turns the tail round.
    """
    shares = {"as they are": 0, "drawn": 1, "weighted": 1, "both": 2}
    parts = {name: counts / counts.astype(float) ** power for name, power in shares.items()}
    table = pd.DataFrame({"class": counts.index, "patches": counts.to_numpy()})
    return table.assign(**{name: (part / part.sum()).to_numpy() for name, part in parts.items()})


def holds(groups: int, n: int = 1000, draws: int = 1000, seed: int = 0) -> float:
    """Say how often a 95 % bootstrap interval over whole groups holds the truth: less often, the fewer they are.

    Parameters
    ----------
    groups : int
        Such as the sequences of a part of the survey.
    n : int
        Simulated surveys: a mean of groups of one size, normally distributed about the truth.
    draws, seed : int
        Draws of the bootstrap in each, and the seed of both.

    Returns
    -------
    float
        Share of the surveys, in [0, 1]; NaN for a single group, which gives no interval. Unequal groups do worse.
    """
    if groups < 2:
        return float("nan")
    weights = np.vstack(list(metrics.draws_of(groups, draws, seed)))
    means = np.random.default_rng(seed).standard_normal((n, groups)) @ weights.T
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    return float(((low <= 0) & (high >= 0)).mean())
