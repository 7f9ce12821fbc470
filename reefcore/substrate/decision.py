"""How a frame is decided: the alpha curve, what a mistake costs, and a rule that looks where the patches lie.

A device is dropped where the share of Deploy patches is above alpha, strictly. Alpha is chosen on validation frames and
tried on test frames. Published: 77.8 % of the decisions right (Raine et al. 2025, arXiv 2509.01019), at an alpha that
is not known; the authors' code has 0.5, 0.6 and 0.7. Intervals (95 %) resample whole frames, or whole sequences of the
survey, for neighbouring frames show much the same seabed; those of a single group are NaN.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import pandas as pd

from reefcore import substrate
from reefcore.errors import ReefcoreError
from reefcore.metrics import drawn_sums, interval
from reefcore.tables import GRID, SCORE, SUBSTRATES

logger = logging.getLogger(__name__)

ALPHAS = (0.5, 0.6, 0.7)  # of the authors' code
KEY = ["run_id", "part", "frame"]
PRICES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)  # of a wrong deployment, in missed ones
CRITERIA = ("accuracy", "f1", "cost")
FOLDS = 5  # groups of frames that are left out in turn, at least
SIDES = ("left", "middle", "right")
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)  # C of the second rule's logistic regression
CUTS = np.round(np.linspace(0.05, 0.95, 91), 2)  # thresholds of its probability
UNITS = {"turbidity": "NTU", "depth": "m", "altitude": "m"}
PATCHES = GRID[0] * GRID[1]


def shares(patches: pd.DataFrame, frames: pd.DataFrame | None = None) -> pd.DataFrame:
    """Count, for each frame of each run, the patches that were predicted to be Deploy and Coral.

    Parameters
    ----------
    patches : DataFrame
        Patch predictions: ``run_id``, ``part``, ``frame``, ``row``, ``column``, ``y_pred``.
    frames : DataFrame, optional
        ``frame``, ``sequence`` and the expert's ``label`` (Deploy, No-Deploy).

    Returns
    -------
    DataFrame
        ``run_id``, ``part``, ``frame``, ``n`` (patches), ``deploy``, ``coral`` (shares in [0, 1]), sorted. With
        `frames` also ``sequence`` and ``truth`` (bool: the expert would deploy); frames without a label are left out,
        and the log says how many.

    Raises
    ------
    ReefcoreError
        Where a column is missing, there is no prediction, one is no substrate, a patch stands twice, or a frame is not
        in `frames` or has another label.
    """
    _has(patches, [*KEY, "row", "column", "y_pred"], "patch predictions")
    if not len(patches):
        raise ReefcoreError("there are no patch predictions", do="run a classifier over the frames first")
    if (strange := ~patches["y_pred"].isin(SUBSTRATES)).any():
        what = f"{str(patches['y_pred'][strange].iloc[0])!r} is no substrate of a patch"
        raise ReefcoreError(what, do=f"predict one of {', '.join(SUBSTRATES)}")
    if (again := patches.duplicated([*KEY, "row", "column"])).any():
        row = patches[again].iloc[0]
        what = f"row {row['row']}, column {row['column']} of frame {row['frame']} stands twice in run {row['run_id']}"
        raise ReefcoreError(what, do="give one prediction per patch; keep one split of the patches")
    said = patches["y_pred"]
    table = patches[KEY].assign(n=1, deploy=said.eq("Deploy"), coral=said.eq("Coral")).groupby(KEY, sort=True)
    table = table.agg({"n": "size", "deploy": "mean", "coral": "mean"}).reset_index()
    if frames is None:
        return table
    _has(frames, ["frame", "sequence", "label"], "frames")
    table = table.merge(frames[["frame", "sequence", "label"]].drop_duplicates("frame"), how="left", indicator="known")
    if (stray := table["known"] == "left_only").any():
        what = f"{stray.sum()} predicted frames are not in the table of frames, such as {table['frame'][stray].iloc[0]}"
        raise ReefcoreError(what, do="give the table of the frames that were predicted")
    label = table["label"]
    if (wrong := label.notna() & ~label.isin(["Deploy", "No-Deploy"])).any():
        what = f"frame {table['frame'][wrong].iloc[0]} is labelled {label[wrong].iloc[0]}"
        raise ReefcoreError(what, do="label frames Deploy or No-Deploy")
    if label.isna().any():
        logger.warning("%d of %d frames have no label and are left out.", label.isna().sum(), len(label))
    table = table.assign(truth=label == "Deploy")[label.notna()]
    return table.drop(columns=["label", "known"]).reset_index(drop=True)


def steps(patches: int = PATCHES) -> np.ndarray:
    """List the alphas at which a decision may change: every k / patches from 0 to 1, and those of the authors' code."""
    return np.unique([*np.arange(patches + 1) / patches, *ALPHAS])


def curve(ratio, truth, groups=None, alphas=None, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Measure the decisions at every alpha.

    Parameters
    ----------
    ratio : array-like of float, shape (frames,)
        Share of Deploy patches of each frame.
    truth : array-like of bool, shape (frames,)
        Whether the expert would deploy.
    groups : array-like, shape (frames,), optional
        What is resampled as a whole, such as the sequence of each frame; by default each frame for itself.
    alphas : array-like of float, optional
        By default `steps` of 28 patches.
    n, seed : int
        Draws of the bootstrap, and their seed.

    Returns
    -------
    DataFrame
        ``alpha``, ``metric``, ``value``, ``ci_low``, ``ci_high``, ``deployed`` (share of frames with a yes).
        ``precision`` and ``recall`` are of Deploy, ``f1`` is their harmonic mean, ``accuracy`` is over all frames.
        Precision is NaN where nothing is deployed; its interval is of the draws that have one.

    Raises
    ------
    ReefcoreError
        Where there is no frame, lengths differ, or a ratio or an alpha is outside [0, 1].
    """
    ratio, truth, groups = _checked(ratio, truth, groups)
    alphas = steps() if alphas is None else np.asarray(alphas, "float64")
    for alpha in alphas:
        substrate.least(alpha)
    sums = _sums(ratio[:, None] > alphas, truth, groups, n, seed)
    told = {"alpha": alphas, "deployed": sums[0, :, :2].sum(-1) / len(ratio)}
    parts = [_intervals(values, groups).assign(metric=metric, **told) for metric, values in _rates(sums).items()]
    return pd.concat(parts, ignore_index=True)[["alpha", "metric", "value", "ci_low", "ci_high", "deployed"]]


def operating_point(
    ratio, truth, criterion: str = "accuracy", patches: int = PATCHES, wrong: float = 1.0, missed: float = 1.0
) -> dict[str, float]:
    """Choose alpha. Give it validation frames: on test frames it would be chosen for the very frames it is tried on.

    Alphas between two neighbouring k / patches decide alike; the one half-way is returned, which no rounding can move
    across a step. Of alphas that are equally good the one nearest 0.5 is taken, and of two as near the higher.

    Parameters
    ----------
    ratio, truth : see `curve`
    criterion : {'accuracy', 'f1', 'cost'}
        The highest accuracy, or F1 of Deploy, or the least cost.
    patches, wrong, missed : see `cost`

    Returns
    -------
    dict
        ``alpha`` (1 where never deploying is best), ``least`` (patches for a yes), ``value`` (of the criterion; cost is
        per frame), ``frames``.

    Raises
    ------
    ReefcoreError
        As `cost`, or where the criterion is none of these.
    """
    ratio, truth, _ = _checked(ratio, truth, None)
    if criterion not in CRITERIA:
        raise ReefcoreError(f"{criterion!r} is no criterion for alpha", do=f"choose one of {', '.join(CRITERIA)}")
    alphas = _candidates(patches)
    sums = _outcomes(ratio[:, None] > alphas, truth).sum(axis=0)[None]
    value = -_cost(sums, wrong, missed) if criterion == "cost" else _rates(sums)[criterion]
    best = _best(np.nan_to_num(value, nan=-np.inf), alphas)[0]
    result = {"alpha": float(alphas[best]), "least": substrate.least(alphas[best], patches)}
    return result | {"value": float(abs(value[0, best])), "frames": len(ratio)}


def cost(
    ratio, truth, wrong: float, missed: float, groups=None, patches: int = PATCHES, n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Say what the decisions cost at every alpha.

    Parameters
    ----------
    ratio, truth, groups, n, seed : see `curve`
    wrong : float
        Cost of deploying where the expert would not: a device is lost on unsuitable ground. Any unit, at least 0.
    missed : float
        Cost of passing over a place where the expert would deploy, in the same unit.
    patches : int
        Of a frame.

    Returns
    -------
    DataFrame
        One row per alpha that decides differently, the last (1) never deploying: ``alpha``, ``least`` (patches for a
        yes), ``cost`` (per frame), ``ci_low``, ``ci_high`` and ``chosen``, the share of draws in which it is cheapest.

    Raises
    ------
    ReefcoreError
        As `curve`, or where a cost is negative.
    """
    ratio, truth, groups = _checked(ratio, truth, groups)
    alphas = _candidates(patches)
    costs = _cost(_sums(ratio[:, None] > alphas, truth, groups, n, seed), wrong, missed)
    told = {"alpha": alphas, "least": [substrate.least(alpha, patches) for alpha in alphas]}
    told["chosen"] = np.bincount(_best(-costs[1:], alphas), minlength=len(alphas)) / n
    table = _intervals(costs, groups).rename(columns={"value": "cost"}).assign(**told)
    return table[["alpha", "least", "cost", "ci_low", "ci_high", "chosen"]]


def cheapest(
    ratio, truth, prices=PRICES, groups=None, patches: int = PATCHES, n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Find the cheapest alpha by how many missed deployments a wrong one is worth (`prices`), and how sure it is.

    See `cost` for the other parameters and the errors.

    Returns
    -------
    DataFrame
        ``wrong_per_missed``, ``alpha``, ``ci_low``, ``ci_high`` (percentiles of the cheapest alpha over the draws),
        ``cost`` and ``never`` (cost of never deploying), both per frame, a missed one costing 1.
    """
    lines = []
    for price in prices:
        table = cost(ratio, truth, price, 1, groups, patches, n, seed)
        best = operating_point(ratio, truth, "cost", patches, price, 1)
        ends = np.searchsorted(table["chosen"].cumsum().round(9), [0.025, 0.975])
        lines.append((price, best["alpha"], *table["alpha"][ends], best["value"], table["cost"].iloc[-1]))
    return pd.DataFrame(lines, columns=["wrong_per_missed", "alpha", "ci_low", "ci_high", "cost", "never"])


def features(patches: pd.DataFrame) -> pd.DataFrame:
    """Summarise where a frame has Deploy and Coral: mean probabilities by row of the grid and by third of its width.

    Parameters
    ----------
    patches : DataFrame
        Patch predictions with ``score:Deploy`` and ``score:Coral``.

    Returns
    -------
    DataFrame
        ``run_id``, ``part``, ``frame``, sorted, then ``Deploy, row 0`` ... ``Deploy, left`` ... and the same of Coral.
        Of seven columns two are left, three in the middle, two right.

    Raises
    ------
    ReefcoreError
        Where a column or a score is missing, or a frame lacks a row or a third that others have.
    """
    scores = {f"{SCORE}{name}": name for name in ("Deploy", "Coral")}
    _has(patches, [*KEY, "row", "column", *scores], "patch predictions")
    column = patches["column"].to_numpy("int64")
    third = (2 * column + 1) * len(SIDES) // (2 * (column.max(initial=0) + 1))  # that the column's middle lies in
    row = ("row " + patches["row"].astype("int64").astype("str")).to_numpy()
    parts = [
        patches.pivot_table(score, KEY, place, aggfunc="mean").add_prefix(f"{name}, ")
        for score, name in scores.items()
        for place in (row, np.array(SIDES)[third])
    ]
    table = pd.concat(parts, axis=1)
    unscored = patches.loc[patches[list(scores)].isna().any(axis=1), "frame"]
    if len(unscored) or table.isna().any(axis=None):
        frame = unscored.iloc[0] if len(unscored) else table.index[table.isna().any(axis=1)][0][-1]
        what = f"frame {frame} lacks patches of its grid, or scores of them"
        raise ReefcoreError(what, do="predict every patch of every frame, on one grid")
    return table.reset_index()


class Rule(NamedTuple):
    """The second rule: deploy where the probability that `model` gives to the features `names` is above `threshold`."""

    model: object
    names: list[str]
    threshold: float
    strength: float

    def decide(self, table: pd.DataFrame) -> np.ndarray:
        """Decide each frame of `features`: ndarray of bool."""
        return self.model.predict_proba(table[self.names].to_numpy())[:, 1] > self.threshold

    def weights(self) -> pd.DataFrame:
        """Say how far the log odds move by one standard deviation of each feature: places by Deploy and Coral."""
        places = pd.MultiIndex.from_tuples(name.split(", ") for name in self.names)
        return pd.Series(self.model[-1].coef_[0], places).unstack(0, sort=False)


def second_rule(table: pd.DataFrame, truth, groups) -> Rule:
    """Learn a rule from where the classifier sees what: a logistic regression on `features` of validation frames.

    Not of the frames that the classifier was trained on: there its probabilities are surer than they are anywhere else.
    The strength of the regularisation (least log loss) and the threshold (most accurate, and of equals the nearest 0.5)
    are chosen by answers for groups that were left out. Where there are fewer than `FOLDS` groups, each is cut into
    stretches of neighbouring frames, for a rule of one sequence says little about the probabilities of another.

    Parameters
    ----------
    table : DataFrame
        From `features`, one row per validation frame, in the order they were taken.
    truth : array-like of bool, shape (frames,)
    groups : array-like, shape (frames,)
        The sequence of each frame.

    Raises
    ------
    ReefcoreError
        Where lengths differ, or no validation frame, or every one, is a place to deploy.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    names = [name for name in table if name.startswith(("Deploy, ", "Coral, "))]
    x = table[names].to_numpy("float64")
    _, truth, groups = _checked(np.zeros(len(x)), truth, groups)
    if truth.all() or not truth.any():
        what = f"all {len(truth)} validation frames have one decision, so no rule can be learnt"
        raise ReefcoreError(what, do="validate on frames of both kinds")
    cuts = -(-FOLDS // groups.nunique())
    fold = groups * cuts + groups.groupby(groups).cumcount() * cuts // groups.map(groups.value_counts())

    def model(strength: float):
        return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=5000))

    tried = []
    for strength in STRENGTHS:
        p = np.full(len(x), truth.mean())
        for left in sorted(set(fold)):
            out = (fold == left).to_numpy()
            if len(set(truth[~out])) == 2:  # else there is nothing to learn, and the share of all stands
                p[out] = model(strength).fit(x[~out], truth[~out]).predict_proba(x[out])[:, 1]
        tried.append((-np.log(np.clip(np.where(truth, p, 1 - p), 1e-12, 1)).mean(), strength, p))
    _, strength, p = min(tried, key=lambda one: one[0])
    right = ((p[:, None] > CUTS) == truth[:, None]).mean(axis=0)
    return Rule(model(strength).fit(x, truth), names, float(CUTS[_best(right[None], CUTS)[0]]), strength)


def compare(first, second, truth, groups=None, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Compare two decisions (array-like of bool, shape (frames,)) on the same frames, which are resampled together.

    See `curve` for the other parameters, the metrics and the errors.

    Returns
    -------
    DataFrame
        ``metric``, ``first``, ``second``, ``value`` (second minus first), ``ci_low``, ``ci_high``, and ``better``, the
        share of draws in which the second is better, draws without a difference counting half.
    """
    given = np.column_stack([np.asarray(first, bool), np.asarray(second, bool)])
    _, truth, groups = _checked(np.zeros(len(given)), truth, groups)
    parts = []
    for metric, values in _rates(_sums(given, truth, groups, n, seed)).items():
        gap = values[:, 1:] - values[:, :1]
        better = pd.Series((np.sign(gap[1:, 0]) + 1) / 2).mean() if groups.nunique() > 1 else np.nan
        told = {"metric": metric, "first": values[0, 0], "second": values[0, 1], "better": better}
        parts.append(_intervals(gap, groups).assign(**told))
    return pd.concat(parts, ignore_index=True)[["metric", "first", "second", "value", "ci_low", "ci_high", "better"]]


def strata(
    patches: pd.DataFrame,
    frames: pd.DataFrame,
    alpha: float,
    by=("turbidity", "depth"),
    parts: int = 2,
    edges: dict | None = None,
    groups: str = "frame",
    n: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Measure patches and decisions in clear and in turbid water, in shallow and in deep.

    Parameters
    ----------
    patches : DataFrame
        Patch predictions of one run and one part, with ``y_true``.
    frames : DataFrame
        ``frame``, ``sequence``, ``label`` and the columns of `by`.
    alpha : float
    by : sequence of str
        Columns of `frames`.
    parts : int
        Strata of about equally many frames.
    edges : dict, optional
        Column -> inner edges of its strata, instead; a value at an edge belongs to the stratum below.
    groups : {'frame', 'sequence'}
        What is resampled as a whole.
    n, seed : int

    Returns
    -------
    DataFrame
        ``by``, ``stratum`` (such as ``0.4 to 1.2 NTU``, or ``difference``: the highest minus the lowest), ``frames``,
        ``classes`` (substrates among its true labels: one that is absent counts 0 in macro F1), ``metric``, ``value``,
        ``ci_low``, ``ci_high``. Frames without a value are in no stratum, and the log says how many. An interval is
        NaN where a stratum has a single group; of a difference, ``frames`` are those of the smaller stratum.

    Raises
    ------
    ReefcoreError
        Where there are several runs or parts, a column is missing, or no frame has a value.
    """
    _has(patches, ["y_true"], "patch predictions")
    _has(frames, list(by), "frames")
    if len(patches[["run_id", "part"]].drop_duplicates()) > 1:
        raise ReefcoreError("strata are of one run and one part of the frames", do="choose one of each")
    frames = frames.drop_duplicates("frame")
    table = shares(patches, frames)
    patches = patches[patches["frame"].isin(table["frame"])]
    cells = substrate.confusion_cells(*substrate.coded(patches["y_true"], patches["y_pred"]))
    cells = pd.DataFrame(cells.reshape(len(cells), -1))
    cells = cells.groupby(patches["frame"].to_numpy()).sum().loc[table["frame"]].to_numpy()
    substrate.least(alpha)
    counted = np.column_stack([cells, _outcomes(table[["deploy"]].to_numpy() > alpha, table["truth"].to_numpy())[:, 0]])
    lines = []
    for column in by:
        found = []
        for name, inside in _strata(table["frame"].map(frames.set_index("frame")[column]), column, parts, edges):
            # One seed: draw i has the same groups in every stratum, so those that share sequences may be subtracted.
            sums = drawn_sums(counted * inside[:, None], table[groups], n, seed)
            found.append((name, inside, _described(sums[:, : cells.shape[1]], sums[:, cells.shape[1] :])))
        if len(found) > 1:
            fewest = min((found[0][1], found[-1][1]), key=lambda inside: table[groups][inside].nunique())
            found.append(("difference", fewest, found[-1][2] - found[0][2]))
        for name, inside, draws in found:
            classes = patches["y_true"][patches["frame"].isin(table["frame"][inside])].nunique()
            told = {"by": column, "stratum": name, "frames": inside.sum(), "classes": classes, "metric": draws.columns}
            lines.append(_intervals(draws.to_numpy(), table[groups][inside]).assign(**told))
    columns = ["by", "stratum", "frames", "classes", "metric", "value", "ci_low", "ci_high"]
    return pd.concat(lines, ignore_index=True)[columns]


def _described(cells: np.ndarray, outcomes: np.ndarray) -> pd.DataFrame:
    """Turn the counts of one stratum, by draw, into metrics of patches and of decisions; NaN in a draw without it."""
    patch, frame = substrate.described(cells), _rates(outcomes)
    told = {f"patch {name}": patch["all", key] for name, key in (("macro F1", "macro_f1"), ("accuracy", "accuracy"))}
    table = pd.DataFrame(told | {f"frame {name}": frame[name] for name in ("accuracy", "precision", "recall")})
    table.loc[outcomes.sum(axis=1) == 0] = np.nan
    return table


def _strata(value: pd.Series, column: str, parts: int, edges: dict | None) -> list[tuple[str, np.ndarray]]:
    """Name the strata of a column, lowest first, and say which frames each has."""
    if value.isna().all():
        raise ReefcoreError(f"no frame has a value of {column}", do="fill the column, or leave it out")
    if value.isna().any():
        logger.warning("%d of %d frames have no %s and are in no stratum.", value.isna().sum(), len(value), column)
    inner = (edges or {}).get(column, value.quantile(np.arange(1, parts) / parts))
    place, unit = np.searchsorted(np.unique(inner), value, side="left"), UNITS.get(column, "")
    masks = [(place == s) & value.notna().to_numpy() for s in range(place.max() + 1)]
    return [(f"{value[m].min():.1f} to {value[m].max():.1f} {unit}".strip(), m) for m in masks if m.any()]


def _has(table: pd.DataFrame, columns: list[str], what: str) -> None:
    if missing := [name for name in columns if name not in table]:
        raise ReefcoreError(f"the table of {what} lacks {', '.join(missing)}", do="add what is missing")


def _checked(ratio, truth, groups) -> tuple[np.ndarray, np.ndarray, pd.Series]:
    """Return ratios, truths, and groups numbered from 0; refuse what cannot be measured."""
    ratio, truth = np.asarray(ratio, "float64"), np.asarray(truth)
    if not len(ratio):
        raise ReefcoreError("there is no frame to decide", do="check that this part of the survey has labelled frames")
    if truth.dtype != bool or truth.shape != ratio.shape:
        what = f"{len(ratio)} frames need as many decisions of an expert, true or false"
        raise ReefcoreError(what, do="give label == 'Deploy' of each frame")
    if not ((ratio >= 0) & (ratio <= 1)).all():
        raise ReefcoreError("a share of Deploy patches is outside 0 to 1", do="divide by the patches of the frame")
    groups = pd.Series(np.arange(len(ratio)) if groups is None else pd.factorize(np.asarray(groups), sort=True)[0])
    if len(groups) != len(ratio):
        raise ReefcoreError(f"{len(groups)} groups for {len(ratio)} frames", do="give one group per frame")
    return ratio, truth, groups


def _candidates(patches: int) -> np.ndarray:
    """List one alpha for each way to decide: half-way between the steps, and 1, which never deploys."""
    return np.append(np.round((np.arange(patches) + 0.5) / patches, 4), 1.0)


def _outcomes(yes: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Put each decision in its cell: (frames, alphas, 4), right and wrong deployments, missed ones, right refusals."""
    truth = truth[:, None]
    return np.stack([yes & truth, yes & ~truth, ~yes & truth, ~yes & ~truth], axis=-1).astype("float64")


def _sums(yes: np.ndarray, truth: np.ndarray, groups: pd.Series, n: int, seed: int) -> np.ndarray:
    """Count outcomes as they are and in each draw: (1 + n, alphas, 4)."""
    return drawn_sums(_outcomes(yes, truth).reshape(len(truth), -1), groups, n, seed).reshape(1 + n, -1, 4)


def _rates(sums: np.ndarray) -> dict[str, np.ndarray]:
    """Give the metrics of decisions from outcomes (..., 4); NaN where there is nothing to divide by."""
    right, wrong, missed, refused = np.moveaxis(sums, -1, 0)

    def ratio(top, bottom):
        return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)

    return {
        "precision": ratio(right, right + wrong),
        "recall": ratio(right, right + missed),
        "accuracy": ratio(right + refused, right + wrong + missed + refused),
        "f1": ratio(2 * right, 2 * right + wrong + missed),
    }


def _cost(sums: np.ndarray, wrong: float, missed: float) -> np.ndarray:
    if not (wrong >= 0 and missed >= 0 and np.isfinite(wrong + missed)):
        what = f"a wrong deployment that costs {wrong:g} and a missed one that costs {missed:g} cannot be weighed"
        raise ReefcoreError(what, do="give costs of at least 0")
    return (wrong * sums[..., 1] + missed * sums[..., 2]) / sums.sum(-1)


def _best(values: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Find the best alpha of each row: of equals the nearest 0.5, and of two as near the higher."""
    order = np.lexsort([-alphas, np.round(np.abs(alphas - 0.5), 6)])
    return order[np.argmax(np.round(values[:, order], 12), axis=1)]


def _intervals(values: np.ndarray, groups) -> pd.DataFrame:
    """Make ``value``, ``ci_low``, ``ci_high`` of each column: the first row is the value, the others are draws."""
    low, high = interval(pd.DataFrame(values[1:]), 0.95)
    table = pd.DataFrame({"value": values[0], "ci_low": low.to_numpy(), "ci_high": high.to_numpy()})
    if pd.Series(groups).nunique() < 2:
        table[["ci_low", "ci_high"]] = np.nan
    return table
