"""Open-set recognition: does a model notice a class that it was never shown (paper, A.4.1 and Table 6)?

Every score here is oriented so that **higher means known**. The energy of Liu et al. (2020, arXiv 2010.03759) is minus
the log of the summed exponentials of the logits, low for what is known; ``energy`` here is that with the sign turned,
so that no caller has to remember which of the scores runs the other way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real

import numpy as np
import pandas as pd

from reefcore import published
from reefcore.errors import ReefcoreError
from reefcore.metrics import draws_of, photo_of
from reefcore.tables import KNOWN, SCORE

#: Score -> its row of Table 6; ``knn`` has none.
ROWS = {"msp": "MSP", "mls": "MLS", "energy": "Energy"}
TURNED = "energy, sign reversed"
NAMED = ("Agaricia", "Pavona")  # the two unknown classes that the paper names
TPR = 0.95  # share of known points that is accepted where false acceptances are counted
NEIGHBOUR = 10  # whose distance is the kNN score; Sun et al. take it by validation
FEWEST = 50  # accepted points that a threshold of risk must rest on
CHUNK = 100  # resamples at once: bounds memory to CHUNK x points numbers


def scores(logits) -> dict[str, np.ndarray]:
    """Say of logits how sure they are of a known class.

    Parameters
    ----------
    logits : array-like, shape (n, classes)

    Returns
    -------
    dict of ndarray, shape (n,)
        Higher means known. ``msp``: the largest softmax probability (Hendrycks and Gimpel 2017, arXiv 1610.02136);
        ``mls``: the largest logit (Vaze et al. 2022, arXiv 2110.06207); ``energy``: log sum exp of the logits (Liu et
        al. 2020, arXiv 2010.03759, with the sign turned).

    Raises
    ------
    ReefcoreError
        Where logits are not a table of finite numbers.
    """
    logits = _finite(logits, "logits", 2, "give finite numbers, (n, classes)")
    largest = logits.max(axis=1)
    beyond = np.log(np.exp(logits - largest[:, None]).sum(axis=1))  # at least 0: no logit is too large
    return {"msp": np.exp(-beyond), "mls": largest, "energy": largest + beyond}


def knn(trained, features, k: int = NEIGHBOUR) -> np.ndarray:
    """Say how near the features of points are to those trained on: minus the distance of the k-th nearest.

    Features are scaled to unit length (Sun et al. 2022, arXiv 2204.06507).

    Parameters
    ----------
    trained : array-like, shape (m, dim)
        Features of training points, all of known classes.
    features : array-like, shape (n, dim)
    k : int
        1 to m; fewer training points lower it.

    Returns
    -------
    ndarray, shape (n,)
        -2 to 0; higher means known.

    Raises
    ------
    ReefcoreError
        Where nothing was trained on, or the features are not finite or not of one model.
    """
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    advice = "give finite numbers, (points, features), from one model"
    trained, features = (_finite(given, "features", 2, advice) for given in (trained, features))
    if not len(trained) or k < 1 or trained.shape[1] != features.shape[1]:
        raise ReefcoreError(
            f"features of shape {features.shape} have no neighbour {k} among {trained.shape}",
            do="give features of training points of the same model, and k of at least 1",
        )
    if not len(features):
        return np.zeros(0)
    found = NearestNeighbors(n_neighbors=min(k, len(trained)), algorithm="brute").fit(normalize(trained))
    return -found.kneighbors(normalize(features))[0][:, -1]


def evaluate(known, score) -> dict[str, float]:
    """Measure how well a score tells known points from unknown ones.

    Parameters
    ----------
    known : array-like of bool, shape (n,)
        Whether the class of each point was trained on.
    score : array-like, shape (n,)
        Higher means known.

    Returns
    -------
    dict
        ``auroc``: the probability that a known point scores above an unknown one, ties counting half; below 0.5 the
        score runs the other way. ``fpr_at_95_tpr``: the share of unknown points accepted at the highest threshold that
        accepts at least 95 % of the known (accepted: score at or above it).

    Raises
    ------
    ReefcoreError
        Where `known` is neither true nor false, lengths differ, a score is not finite, or all points are known or all
        unknown.
    """
    known, score = _checked(known, score)
    curve = _Curve(score, {"known": known, "unknown": ~known})
    values = curve.values(np.ones((1, len(score))))
    return {name: float(value[0]) for name, value in values.items()}


def hold_out(
    train_counts: Mapping[str, int],
    test_counts: Mapping[str, int],
    n: int = 8,
    min_test: int | None = None,
    min_train: int = 50,
    most: float = 0.1,
    seed: int = 0,
) -> list[str]:
    """Choose the classes that are kept from training.

    The paper holds out eight, "excluding low-frequency classes and selecting unknowns with at least 100 test-sample
    support", names two of them, and gives no other rule. Here a class is eligible where it has at least `min_train`
    training points (chosen) and `min_test` test points. The two named come first where they
    are eligible, then others in an order drawn by the seed. The unknown points may not become more than `most` of the
    test set (in the paper they are 5.5 %): a class is passed over where it would leave too little for the rest.

    Parameters
    ----------
    train_counts, test_counts : mapping of int
        Points by class. A class without training points cannot be held out.
    n : int
    min_test : int, optional
        By default the paper's 100, scaled by the points of the test set against the paper's, at least 5.
    min_train : int
    most : float
        Share of the test points.
    seed : int

    Returns
    -------
    list of str
        At most `n`, sorted.

    Raises
    ------
    ReefcoreError
        Where no class is eligible.
    """
    train, test = pd.Series(train_counts, dtype="float64"), pd.Series(test_counts, dtype="float64")
    least = least_test(test.sum()) if min_test is None else min_test
    common = train.index[train >= min_train]
    eligible = sorted(name for name in common if test.get(name, 0) >= least)
    drawn = np.random.default_rng(seed).permutation(eligible).tolist()
    order = [*(name for name in NAMED if name in drawn), *(name for name in drawn if name not in NAMED)]
    chosen: list[str] = []
    n = min(n, int((test[eligible].sort_values().cumsum() <= most * test.sum()).sum()))  # so many fit
    while order and len(chosen) < n:
        name = order.pop(0)
        # A class so common that too little would be left for the others is passed over.
        others = test[order].nsmallest(n - len(chosen) - 1).sum()
        if test[[*chosen, name]].sum() + others <= most * test.sum():
            chosen.append(name)
    if not chosen:
        raise ReefcoreError(
            f"no class can be held out: none has {min_train:g} training points and {least:g} test points and is at "
            f"most {most:.0%} of the test set",
            do="lower min_train or min_test, or raise most",
        )
    return sorted(chosen)


def least_test(points: float) -> int:
    """Scale the paper's 100 test points of a class to a test set of so many points; at least 5."""
    return max(5, round(published.value("open_set/least_test") * points / published.value("open_set/test_points")))


def is_known(predictions: pd.DataFrame) -> pd.Series:
    """Tell whether the class of each point is one that its run scores.

    Parameters
    ----------
    predictions : DataFrame
        A predictions table with scores; a run has no value in the column of a class that it does not know.

    Raises
    ------
    ReefcoreError
        Where a run has no scores: then nobody can say what it knows.
    """
    columns = [name for name in predictions if name.startswith(SCORE)]
    has = predictions[columns].notna().groupby(predictions["run_id"]).any()
    if bare := [run for run in predictions["run_id"].unique() if not (columns and has.loc[run].any())]:
        raise ReefcoreError(f"the run {bare[0]} has no scores", do=f"give one column {SCORE}CLASS per class it knows")
    knows = has.rename(columns=lambda name: name.removeprefix(SCORE)).stack()
    asked = pd.MultiIndex.from_frame(predictions[["run_id", "y_true"]])
    return pd.Series(knows.reindex(asked, fill_value=False).to_numpy(bool), index=predictions.index)


def with_scores(predictions: pd.DataFrame) -> pd.DataFrame:
    """Give a predictions table the score that probabilities alone allow, ``known:msp``, where it lacks it."""
    if f"{KNOWN}msp" in predictions and predictions[f"{KNOWN}msp"].notna().all():
        return predictions
    largest = predictions[[name for name in predictions if name.startswith(SCORE)]].max(axis=1)
    return predictions.assign(**{f"{KNOWN}msp": predictions.get(f"{KNOWN}msp", largest).fillna(largest)})


def names_of(predictions: pd.DataFrame) -> list[str]:
    """List the scores of a predictions table, those of Table 6 first."""
    found = [name.removeprefix(KNOWN) for name in predictions if name.startswith(KNOWN)]
    return sorted(found, key=lambda name: (name not in ROWS, list(ROWS).index(name) if name in ROWS else name))


def bootstrap(predictions: pd.DataFrame, annotations: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Measure every score of every run, with intervals by resampling photos.

    Parameters
    ----------
    predictions : DataFrame
        With scores of classes and columns ``known:NAME`` (see `with_scores`).
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``.
    n, seed : int

    Returns
    -------
    DataFrame
        ``run_id``, ``score``, ``metric`` (``auroc``, ``fpr_at_95_tpr``, and ``aurc``: the area under the risk-coverage
        curve), ``value``, ``ci_low``, ``ci_high`` (95 %; a draw without unknown points does not count; NaN where the
        points, or for the first two those of one kind, come of one photo), ``known`` and ``unknown`` (points).

    Raises
    ------
    ReefcoreError
        Where a run has no scores, some that are not finite, or points of one kind only.
    """
    rows = []
    for run, name, (known, wrong, photo), score in _scored(predictions, annotations):
        curve = _Curve(score, {"known": known, "unknown": ~known, "wrong": wrong})
        value = curve.values(np.ones((1, len(score))))
        drawn = [
            curve.values(weights[:, photo[curve.order]]) for weights in draws_of(int(photo.max()) + 1, n, seed, CHUNK)
        ]
        for metric in value:
            kinds = [photo] if metric == "aurc" else [photo[known], photo[~known]]
            low, high = _quantiles(np.concatenate([draw[metric] for draw in drawn]), *kinds)
            rows.append((run, name, metric, float(value[metric][0]), low, high, known.sum(), (~known).sum()))
    columns = ["run_id", "score", "metric", "value", "ci_low", "ci_high", "known", "unknown"]
    return pd.DataFrame(rows, columns=columns)


def risk_coverage(
    predictions: pd.DataFrame, annotations: pd.DataFrame, n: int = 200, seed: int = 0, steps: int = 20
) -> pd.DataFrame:
    """Say how many of the accepted points are wrong, as more are accepted.

    Parameters
    ----------
    predictions, annotations, n, seed : see `bootstrap`
    steps : int
        Coverages from ``1 / steps`` to 1.

    Returns
    -------
    DataFrame
        ``run_id``, ``score``, ``coverage`` (at least this share of all points is accepted), ``risk`` (share of the
        accepted that is wrong: an unknown point always is), ``ci_low``, ``ci_high`` (NaN for one photo).

    Raises
    ------
    ReefcoreError
        As `bootstrap`.
    """
    coverage = np.arange(1, steps + 1) / steps
    parts = []
    for run, name, (_, wrong, photo), score in _scored(predictions, annotations):
        curve, draws = _Curve(score, {"wrong": wrong}), draws_of(int(photo.max()) + 1, n, seed, CHUNK)
        risk = curve.risk(np.ones((1, len(score))), coverage)[0]
        drawn = np.concatenate([curve.risk(weights[:, photo[curve.order]], coverage) for weights in draws])
        low, high = _quantiles(drawn, photo)
        columns = {"coverage": coverage, "risk": risk, "ci_low": low, "ci_high": high}
        parts.append(pd.DataFrame({"run_id": run, "score": name} | columns))
    return pd.concat(parts, ignore_index=True)


def threshold(score, wrong=None, *, keep: float | None = None, risk: float | None = None) -> float:
    """Choose from which score on a model is believed, on points that it was not trained on.

    Parameters
    ----------
    score : array-like, shape (n,)
        Of validation points of known classes; higher means known.
    wrong : array-like of bool, shape (n,)
        Whether the answer is wrong; for `risk`.
    keep : float, optional
        Share of these points that is to be accepted, in (0, 1]: the highest threshold that does so is taken.
    risk : float, optional
        Largest share of wrong answers among the accepted, in [0, 1): the lowest threshold that stays under it, with at
        least 50 points accepted, is taken. Validation points have no unknown classes, so that the risk on a reef that
        has some is higher.

    Returns
    -------
    float
        Accept where the score is at or above it; infinite where no threshold stays under the risk.

    Raises
    ------
    ReefcoreError
        Where not exactly one of `keep` and `risk` is given, one is out of range, scores or answers are not usable, or
        there are no points, or for `risk` fewer than 50.
    """
    score = _finite(score, "scores", 1, "give one finite number per point")
    if (keep is None) == (risk is None) or (risk is not None and wrong is None):
        raise ReefcoreError("a threshold follows from keep, or from risk and the wrong answers", do="give one of them")
    if not (0 < keep <= 1 if keep is not None else 0 <= risk < 1):
        what = f"keep is {keep}" if keep is not None else f"risk is {risk}"
        raise ReefcoreError(f"{what}, which is no such share", do="give a share between 0 and 1")
    least = 1 if risk is None else FEWEST
    if len(score) < least:
        raise ReefcoreError(f"a threshold cannot be chosen from {len(score)} points", do=f"give at least {least}")
    wrong = np.zeros(len(score), bool) if risk is None else _flags(wrong, "wrong", len(score))
    curve = _Curve(score, {"wrong": wrong})
    accepted, mistakes = curve.ends + 1, curve.cumulated(np.ones((1, len(score))))["wrong"][0]
    if keep is not None:
        good = accepted >= keep * len(score) - 1e-9
    else:
        good = (mistakes <= risk * accepted + 1e-9) & (accepted >= least)
    if not good.any():
        return np.inf
    place = int(good.argmax()) if keep is not None else len(good) - 1 - int(good[::-1].argmax())
    return float(score[curve.order][curve.ends[place]])


def thresholds(
    validation: pd.DataFrame,
    test: pd.DataFrame,
    annotations: pd.DataFrame,
    keep: tuple[float, ...] = (0.8, 0.9, 0.95),
    n: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Choose thresholds on validation points and say what they do to test points.

    Parameters
    ----------
    validation, test : DataFrame
        Predictions of one run, with ``known:NAME``; the unknown points of validation, if any, are not looked at.
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``.
    keep : tuple of float
        See `threshold`.
    n, seed : int
        Of the bootstrap of the threshold, over photos of the validation part.

    Returns
    -------
    DataFrame
        ``score``, ``keep``, ``threshold``, ``ci_low``, ``ci_high`` (NaN for one photo); of test points at or above it:
        ``known accepted``, ``unknown accepted`` (shares of each kind) and ``right`` (share of the accepted whose answer
        is right); ``validation`` (points that chose it).

    Raises
    ------
    ReefcoreError
        Where there are no validation points of known classes, or they lack a score that the test points have.
    """
    validation = validation[is_known(validation)]
    if validation.empty:
        raise ReefcoreError("there are no validation points of known classes", do="give those the run was chosen on")
    photo = pd.factorize(photo_of(validation["annotation_id"], annotations))[0]
    known, wrong = is_known(test).to_numpy(), (test["y_true"] != test["y_pred"]).to_numpy()
    rng, groups = np.random.default_rng(seed), [np.flatnonzero(photo == g) for g in range(photo.max() + 1)]
    draws = [np.concatenate([groups[g] for g in rng.integers(len(groups), size=len(groups))]) for _ in range(n)]
    rows = []
    for name in names_of(test.dropna(axis=1, how="all")):
        if KNOWN + name not in validation:
            raise ReefcoreError(f"the validation points have no score {name}", do=f"give the column {KNOWN}{name}")
        chosen_on, score = validation[KNOWN + name].to_numpy(float), test[KNOWN + name].to_numpy(float)
        for share in keep:
            value = threshold(chosen_on, keep=share)
            low, high = _quantiles(np.array([threshold(chosen_on[draw], keep=share) for draw in draws]), photo)
            accepted = score >= value
            shares = [accepted[part].mean() if part.any() else np.nan for part in (known, ~known)]
            right = (~wrong)[accepted].mean() if accepted.any() else np.nan
            rows.append((name, share, value, low, high, *shares, right, len(validation)))
    columns = ["score", "keep", "threshold", "ci_low", "ci_high", "known accepted", "unknown accepted", "right"]
    return pd.DataFrame(rows, columns=[*columns, "validation"])


def accept(predictions: pd.DataFrame, score: str, at: float) -> pd.DataFrame:
    """Divide points into those whose answer is believed and those that a person should look at.

    Parameters
    ----------
    predictions : DataFrame
        With ``known:<score>``.
    score : str
    at : float
        From `threshold`.

    Returns
    -------
    DataFrame
        The points with ``accepted``, the least sure first.

    Raises
    ------
    ReefcoreError
        Where the points have no such score.
    """
    if KNOWN + score not in predictions or predictions[KNOWN + score].isna().any():
        raise ReefcoreError(f"a point has no score {score}", do=f"give the column {KNOWN}{score}, or use msp")
    table = predictions.assign(accepted=predictions[KNOWN + score] >= at)
    return table.sort_values(KNOWN + score, kind="stable", ignore_index=True)


def beside(measured: pd.DataFrame, turned: pd.DataFrame | None = None) -> pd.DataFrame:
    """Put measured scores beside the paper's Table 6, every row of which stands, measured or not.

    Parameters
    ----------
    measured : DataFrame
        From `bootstrap`, of one run.
    turned : DataFrame, optional
        The same of minus the score ``energy``: energy as Liu et al. define it, low for what is known, scored as if
        higher meant known. It is what one gets who forgets to turn the sign, and stands beside the printed energy.

    Returns
    -------
    DataFrame
        ``score``, ``metric``, ``published``, ``value``, ``ci_low``, ``ci_high``, ``difference``; fractions, NaN where
        not measured or not printed.
    """
    printed = published.table(6).set_index(["row", "column"])["value"].astype(float)
    metrics = printed.index.unique("column")
    if turned is not None:
        measured = pd.concat([measured, turned[turned["score"] == "energy"].assign(score=TURNED)])
    found = measured[measured["metric"].isin(metrics)].set_index(["score", "metric"])[["value", "ci_low", "ci_high"]]
    asked = pd.MultiIndex.from_product([ROWS, metrics], names=found.index.names)
    table = found.reindex(asked.append(found.index.difference(asked, sort=False))).reset_index()
    rows = zip(table["score"].map(ROWS | {TURNED: "Energy"}), table["metric"], strict=True)
    table.insert(2, "published", [printed.get(row, np.nan) for row in rows])
    return table.assign(difference=table["value"] - table["published"])


def _scored(predictions: pd.DataFrame, annotations: pd.DataFrame) -> Iterator[tuple]:
    """Give each score of each run: run, name, (known, wrong, number of the photo of each point), score."""
    if not names_of(predictions.dropna(axis=1, how="all")):
        raise ReefcoreError("no point has a score of being known", do=f"give {KNOWN}NAME columns, or use with_scores")
    for run, table in predictions.groupby("run_id", sort=False):
        photo, _ = pd.factorize(photo_of(table["annotation_id"], annotations), sort=True)
        wrong, known = (table["y_true"] != table["y_pred"]).to_numpy(), is_known(table).to_numpy()
        for name in names_of(table.dropna(axis=1, how="all")):
            yield run, name, (known, wrong, photo), _checked(known, table[KNOWN + name])[1]


def _quantiles(draws: np.ndarray, *photos: np.ndarray) -> np.ndarray:
    """Give the ends of the 95 % interval of draws, (draws, ...); what comes of one photo says nothing of others."""
    if min(len(np.unique(photo)) for photo in photos) < 2:
        return np.full((2, *draws.shape[1:]), np.nan)
    return np.nanquantile(draws, [0.025, 0.975], axis=0)


def _finite(values, name: str, dimensions: int, do: str) -> np.ndarray:
    """Read an array of finite numbers."""
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ReefcoreError(f"{name} are not all numbers", do=do) from error
    if values.ndim != dimensions or (dimensions == 2 and not values.shape[1]):
        raise ReefcoreError(f"{name} have the shape {values.shape}", do=do)
    if not np.isfinite(values).all():
        raise ReefcoreError(f"{(~np.isfinite(values)).sum()} of {values.size} {name} are no number", do=do)
    return values


def _flags(values, name: str, points: int) -> np.ndarray:
    """Read one true or false per point; text and missing values are neither, though numpy takes them for true."""
    if not (isinstance(values, np.ndarray | pd.Series) and values.dtype == bool):
        values = np.asarray(values, dtype=object)
        if not all(isinstance(value, Real | np.bool_) and value in (0, 1) for value in values.flat):
            raise ReefcoreError(f"{name} must say true or false of every point", do="give booleans, or 0 and 1")
    values = np.asarray(values, dtype=bool)
    if values.shape != (points,):
        raise ReefcoreError(f"{points} scores but {name} has the shape {values.shape}", do="give one per point")
    return values


def _checked(known, score) -> tuple[np.ndarray, np.ndarray]:
    score = _finite(score, "scores", 1, "give one finite number per point")
    known = _flags(known, "known", len(score))
    if not len(known):
        raise ReefcoreError("there is nothing to tell apart: no points")
    if known.all() or not known.any():
        raise ReefcoreError(
            f"all {len(known)} points are {'known' if known.all() else 'unknown'}: there is nothing to tell apart",
            do="give points of both kinds",
        )
    return known, score


class _Curve:
    """Points sorted once by falling score; sums over all that score at least so much, for many weights at once."""

    def __init__(self, score: np.ndarray, kinds: dict[str, np.ndarray]):
        self.order = np.argsort(-score, kind="stable")
        falling = score[self.order]
        self.ends = np.flatnonzero(np.r_[falling[1:] != falling[:-1], True])  # the last of each run of equal scores
        self.kinds = {name: kind[self.order] for name, kind in kinds.items()}

    def cumulated(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Sum weights, (draws, points by falling score), of each kind down to each distinct score: (draws, scores)."""
        return {name: np.cumsum(weights * kind, axis=1)[:, self.ends] for name, kind in self.kinds.items()}

    def values(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Give AUROC, FPR at 95 % TPR and, where wrong answers are known, AURC, of each draw; NaN where undefined."""
        sums = self.cumulated(weights)
        known, unknown = sums["known"], sums["unknown"]
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.diff(unknown, axis=1, prepend=0)
            below = known - np.diff(known, axis=1, prepend=0) / 2  # of equal scores, half counts as higher
            found = {"auroc": (step * below).sum(axis=1) / (known[:, -1] * unknown[:, -1])}
            enough = (known >= TPR * known[:, -1:] - 1e-9).argmax(axis=1)
            found["fpr_at_95_tpr"] = np.take_along_axis(unknown, enough[:, None], axis=1)[:, 0] / unknown[:, -1]
            found["fpr_at_95_tpr"][known[:, -1] == 0] = np.nan
            if "wrong" in sums:
                accepted = known + unknown
                risk = np.divide(sums["wrong"], accepted, out=np.zeros(accepted.shape), where=accepted > 0)
                share = np.diff(accepted, axis=1, prepend=0)
                found["aurc"] = (risk * share).sum(axis=1) / accepted[:, -1]
        return found

    def risk(self, weights: np.ndarray, coverage: np.ndarray) -> np.ndarray:
        """Give the share of wrong answers among the accepted, (draws, coverages)."""
        wrong = self.cumulated(weights)["wrong"]
        accepted = np.cumsum(weights, axis=1)[:, self.ends]
        found = np.empty((len(weights), len(coverage)))
        for i, (a, w) in enumerate(zip(accepted, wrong, strict=True)):
            at = np.searchsorted(a, coverage * a[-1] - 1e-9)
            found[i] = w[at] / a[at]
        return found
