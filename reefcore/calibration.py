"""Is a model as right as it is sure? Reliability, temperature, and what is gained where unsure answers are left out.

Everything is computed from predictions, those of any program. Guo et al. 2017, arXiv 1706.04599, has the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from reefcore import classes
from reefcore.errors import ReefcoreError
from reefcore.metrics import drawn_sums, photo_of
from reefcore.review import wilson
from reefcore.tables import SCORE

CLIP = 1e-12  # a probability below this counts as this where its logarithm is taken
BINS = 15
LEAST = 50  # answers above a threshold: the accuracy of fewer says little
OFF = 1e-3  # what the scores of a point may be off one: more is no rounding
TRAVELS = ["setting", "temperature", "of the test", "ECE as given", "ECE rescaled", "ECE at best"]
TRAVELS += ["threshold", "promised", "answered in validation", "found", "answered"]
METRICS = {"ece": "expected calibration error", "nll": "negative log-likelihood", "brier": "Brier score"}


class Answers(NamedTuple):
    """Probabilities of one run (points, classes), and the columns of each point's true class (-1: none) and answer."""

    p: np.ndarray
    truth: np.ndarray
    answer: np.ndarray

    @property
    def confidence(self) -> np.ndarray:
        """The probability of the answer."""
        return self.p[np.arange(len(self.p)), self.answer]

    @property
    def right(self) -> np.ndarray:
        return self.truth == self.answer


def answers(rows: pd.DataFrame) -> Answers:
    """Read the probabilities of one run's predictions.

    Parameters
    ----------
    rows : DataFrame
        Predictions of one run, with a column ``score:CLASS`` per class; columns that are empty throughout are left out.

    Returns
    -------
    Answers
        Rows divided by their sum; ``confidence`` is the probability of ``y_pred``. A true class without a score
        counts as one of probability 0.

    Raises
    ------
    ReefcoreError
        Where there are no scores, those of a point are missing or do not sum to one within 0.001, or a predicted class
        has none.
    """
    columns = [name for name in rows if name.startswith(SCORE) and rows[name].notna().any()]
    if not columns:
        named = " and ".join(rows["run_id"].unique())
        raise ReefcoreError(f"run {named} has no scores", do=f"give one column {SCORE}CLASS per class")
    p, run = rows[columns].to_numpy("float64"), rows["run_id"].iloc[0]
    total = p.sum(axis=1)
    if (bad := ~(np.abs(total - 1) <= OFF)).any():
        raise ReefcoreError(
            f"the scores of {bad.sum():,} of {len(rows):,} points of run {run} do not sum to one, such as those of "
            f"{rows['annotation_id'][bad].iloc[0]} (sum {total[bad][0]:.3f})",
            do="give probabilities: the softmax of a model's logits",
        )
    names = pd.Index([name.removeprefix(SCORE) for name in columns])
    truth, answer = (names.get_indexer(rows[name]) for name in ("y_true", "y_pred"))
    if (answer < 0).any():
        stray = rows["y_pred"][answer < 0].iloc[0]
        raise ReefcoreError(f"run {run} predicts {stray} but has no scores of it", do=f"add the column {SCORE}{stray}")
    return Answers(p / total[:, None], truth, answer)


def without_scores(predictions: pd.DataFrame) -> list[str]:
    """List the runs that have no score at any point."""
    scored = predictions.filter(regex=f"^{SCORE}").notna().any(axis=1)
    some = scored.groupby(predictions["run_id"], sort=False).any()
    return some.index[~some].tolist()


def pick(predictions: pd.DataFrame, run: str) -> tuple[pd.DataFrame, str]:
    """Take one run with scores out of many, as `classes.pick` does.

    Returns
    -------
    rows : DataFrame
        Its predictions; no rows where the run asked for, or every run, is without scores.
    said : str
        Which run this is, or that it has no scores.
    """
    bare = without_scores(predictions)
    kept = predictions[~predictions["run_id"].isin(bare)]
    if run not in bare and (len(kept) or not len(predictions)):
        return classes.pick(kept, run)
    rows, _ = classes.pick(predictions, run)
    name = rows["run_id"].iloc[0]
    return rows.head(0), f"Run {name} has no scores (columns {SCORE}CLASS); this chapter needs them."


def confident(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the probability of the answer as a column ``confidence``; see `answers` for what is refused, but no rows."""
    return rows.assign(confidence=answers(rows).confidence if len(rows) else 0.0)


def scaled(said: Answers, temperature: float) -> Answers:
    """Divide the logits by a temperature: above 1 makes every answer less sure, and changes none.

    ``softmax(log p / T)`` is what temperature scaling of the logits gives, so probabilities are enough; those under
    `CLIP` are taken as that.
    """
    logits = np.log(np.maximum(said.p, CLIP)) / temperature
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return said._replace(p=p / p.sum(axis=1, keepdims=True))


def losses(said: Answers) -> tuple[np.ndarray, np.ndarray]:
    """Give each point's negative log-likelihood (natural logarithm) and Brier score (over all classes, 0 to 2).

    A true class without a score has probability 0: its Brier score gains 1, its likelihood is `CLIP`, as is that of any
    probability below it.
    """
    hit = np.where(said.truth >= 0, said.p[np.arange(len(said.p)), said.truth], 0)
    return -np.log(np.maximum(hit, CLIP)), (said.p**2).sum(axis=1) - 2 * hit + 1


def temperature(said: Answers) -> float:
    """Find the temperature with the least negative log-likelihood, between exp(-3) and exp(3).

    Points whose true class has no score are left out: no temperature changes theirs.

    Raises
    ------
    ReefcoreError
        Where no point is left.
    """
    from scipy.optimize import minimize_scalar

    known = Answers(*(part[said.truth >= 0] for part in said))
    if not len(known.p):
        raise ReefcoreError("no temperature can be fitted: no point has a score of its true class")

    def loss(log_t: float) -> float:
        return losses(scaled(known, np.exp(log_t)))[0].mean()

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def _bin(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Sort points into bins of equal number by confidence; equal confidences share a bin."""
    return (
        pd.qcut(confidence, bins, labels=False, duplicates="drop") if np.ptp(confidence) else 0 * confidence.astype(int)
    )


def reliability(said: Answers, bins: int = BINS) -> pd.DataFrame:
    """Put how often answers are right beside how sure they are, in bins of equally many points.

    Returns
    -------
    DataFrame
        Per bin ``n``, mean ``confidence``, ``accuracy`` with Wilson's 95 % interval ``ci_low``, ``ci_high``.
    """
    points = pd.DataFrame({"confidence": said.confidence, "right": said.right})
    table = points.groupby(_bin(said.confidence, bins)).agg(
        n=("right", "size"), confidence=("confidence", "mean"), accuracy=("right", "mean")
    )
    table["ci_low"], table["ci_high"] = wilson(table["accuracy"] * table["n"], table["n"])
    return table.reset_index(drop=True)


def scores(said: Answers, photos, bins: int = BINS, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Score the probabilities of one run, with bootstrap intervals that resample whole photos.

    The draws are shifted to have the score itself as their mean: resampling adds noise to every bin, and with it to the
    calibration error.

    Parameters
    ----------
    said : Answers
    photos : sequence, one per point
    bins : int
        Of the expected calibration error: the mean over points of the difference between accuracy and mean confidence
        of their bin, bins of equally many points. The bins are those of all points in every draw.
    n, seed : int

    Returns
    -------
    DataFrame
        ``metric`` (ece, nll, brier, accuracy), ``value``, ``ci_low``, ``ci_high``. ``.attrs["ece_by_chance"]`` is the
        error that a perfectly calibrated model of the same confidences would have, for bins are finite.
    """
    confidence, right = said.confidence, said.right
    place = _bin(confidence, bins)
    gaps = np.zeros((len(right), place.max() + 1))
    gaps[np.arange(len(right)), place] = confidence - right
    points = np.column_stack([gaps, *losses(said), right, np.ones(len(right))])
    drawn = drawn_sums(points, np.asarray(photos), n, seed)
    values = np.column_stack([np.abs(drawn[:, :-4]).sum(axis=1), drawn[:, -4:-1]]) / drawn[:, -1:]
    draws = values[1:] + (values[0] - values[1:].mean(axis=0))
    low, high = np.maximum(np.quantile(draws, [0.025, 0.975], axis=0), 0)
    table = pd.DataFrame({"metric": [*METRICS, "accuracy"], "value": values[0], "ci_low": low, "ci_high": high})
    noise = pd.Series(confidence * (1 - confidence)).groupby(place).sum()
    table.attrs["ece_by_chance"] = float(np.sqrt(2 / np.pi * noise).sum() / len(right))
    return table


def stages(predictions: pd.DataFrame, validation: pd.DataFrame, run: str) -> tuple[dict[str, Answers], float]:
    """Read one run ``<recipe>-<train set>-<test set>`` as given, and rescaled by its validation points alone.

    Returns
    -------
    dict
        ``as given`` and, where `validation` has a run ``<recipe>-<train set>-val``, ``rescaled``.
    float
        The temperature; NaN without validation points.
    """
    said = answers(predictions[predictions["run_id"] == run])
    home = validation[validation["run_id"] == f"{run.rpartition('-')[0]}-val"]
    if not len(home):
        return {"as given": said}, np.nan
    fitted = temperature(answers(home))
    return {"as given": said, "rescaled": scaled(said, fitted)}, fitted


def before_and_after(
    predictions: pd.DataFrame,
    validation: pd.DataFrame,
    annotations: pd.DataFrame,
    bins: int = BINS,
    n: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Score the probabilities of every run as given, and after a temperature fitted on its validation points alone.

    Parameters
    ----------
    predictions, validation : see `stages`
    annotations : DataFrame
        Gives the photo of each test point.
    bins, n, seed : see `scores`

    Returns
    -------
    DataFrame
        ``run``, ``points``, ``unknown`` (points whose true class has no score), ``temperature``, ``stage`` (as given,
        rescaled), ``metric``, ``value``, ``ci_low``, ``ci_high``, ``by_chance`` (of the expected calibration error).
        A run without validation points is there as given only; one without scores is left out, see `without_scores`.
    """
    parts = []
    predictions = predictions[~predictions["run_id"].isin(without_scores(predictions))]
    predictions = predictions.assign(photo=photo_of(predictions["annotation_id"], annotations))
    for run, rows in predictions.groupby("run_id", sort=False):
        both, fitted = stages(rows, validation, run)
        for stage, said in both.items():
            table = scores(said, rows["photo"], bins, n, seed)
            lead = {"run": run, "points": len(rows), "unknown": (said.truth < 0).sum(), "temperature": fitted}
            chance = np.where(table["metric"] == "ece", table.attrs["ece_by_chance"], np.nan)
            parts.append(table.assign(**lead, stage=stage, by_chance=chance))
    columns = ["run", "points", "unknown", "temperature", "stage", "metric", "value", "ci_low", "ci_high", "by_chance"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def coverage(said: Answers, steps: int = 20) -> pd.DataFrame:
    """Compute how often the surest answers are right, when the others are left for a person to decide.

    Returns
    -------
    DataFrame
        ``coverage`` (share of points answered), ``n``, ``threshold`` (the least confidence answered), ``accuracy`` with
        Wilson's 95 % interval ``ci_low``, ``ci_high``.
    """
    order = np.argsort(-said.confidence, kind="stable")
    n = np.unique(np.ceil(len(order) * np.arange(1, steps + 1) / steps).astype(int))
    hits = np.cumsum(said.right[order])[n - 1]
    low, high = wilson(hits, n)
    return pd.DataFrame(
        {
            "coverage": n / len(order),
            "n": n,
            "threshold": said.confidence[order][n - 1],
            "accuracy": hits / n,
            "ci_low": low,
            "ci_high": high,
        }
    )


def promise(home: Answers, abroad: Answers, wanted: float = 0.9) -> dict[str, float]:
    """Choose a threshold on validation points (home), and see what it is worth on the test (abroad).

    Parameters
    ----------
    home, abroad : Answers
    wanted : float
        Accuracy that the validation answers from the threshold on have, at least.

    Returns
    -------
    dict
        ``threshold`` (NaN where none gives that accuracy to at least `LEAST` validation answers), ``promised``
        (accuracy from it on) and ``answered in validation`` (share of the points from it on), ``found`` and
        ``answered`` (the same on the test).
    """
    order = np.argsort(-home.confidence, kind="stable")
    accuracy = np.cumsum(home.right[order]) / np.arange(1, len(order) + 1)
    sure = home.confidence[order]
    last = np.append(sure[1:] < sure[:-1], True)  # equal confidences are answered together
    enough = np.flatnonzero((accuracy >= wanted) & last & (np.arange(1, len(order) + 1) >= LEAST))
    threshold = sure[enough[-1]] if len(enough) else np.nan
    result = {"threshold": float(threshold)}
    for where, accuracy_name, share in ((home, "promised", "answered in validation"), (abroad, "found", "answered")):
        kept = where.confidence >= threshold
        result |= {accuracy_name: float(where.right[kept].mean()) if kept.any() else np.nan, share: float(kept.mean())}
    return result


def settings(predictions: pd.DataFrame, run: str) -> dict[str, str]:
    """Name the runs of one run's recipe, within sources and across: setting -> run; the run itself where none is there.

    Settings are those of the paper's Table 3 with training set S1 or S3.
    """
    recipe = run.rsplit("-", 2)[0]
    names = {"within sources (S1)": "S1-S1", "across sources (S3)": "S3-S3", "held-out site (W)": "S3-W"}
    there = set(predictions["run_id"].unique())
    found = {setting: f"{recipe}-{name}" for setting, name in names.items() if f"{recipe}-{name}" in there}
    return found if run in found.values() else {run: run}


def travels(
    predictions: pd.DataFrame, validation: pd.DataFrame, runs: dict[str, str], wanted: float = 0.9, bins: int = BINS
) -> pd.DataFrame:
    """See what is left on the test of a temperature and a threshold that were set on validation points.

    Parameters
    ----------
    predictions, validation : see `stages`
    runs : dict
        Setting -> run_id; runs without validation points are left out.
    wanted : see `promise`
    bins : see `scores`

    Returns
    -------
    DataFrame
        ``setting``, ``temperature``, ``of the test`` (the temperature that would have been best there), ``ECE as
        given``, ``ECE rescaled``, ``ECE at best``, and the columns of `promise`.
    """
    lines = []
    for setting, run in runs.items():
        both, fitted = stages(predictions, validation, run)
        if "rescaled" not in both:
            continue
        said, home = both["as given"], answers(validation[validation["run_id"] == f"{run.rpartition('-')[0]}-val"])
        best = temperature(said)
        errors = [_ece(a, bins) for a in (*both.values(), scaled(said, best))]
        lines.append((setting, fitted, best, *errors, *promise(home, said, wanted).values()))
    return pd.DataFrame(lines, columns=TRAVELS)


def _ece(said: Answers, bins: int) -> float:
    table = reliability(said, bins)
    return float(np.average((table["accuracy"] - table["confidence"]).abs(), weights=table["n"]))
