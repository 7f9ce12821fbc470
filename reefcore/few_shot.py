"""Few labels: how well does a reef do with 1, 5, 10, 20 or 50 labels of each genus?

Later versions of the paper adapt models with nested supports; here a support is drawn class by class, the smaller ones
being part of the larger, and several times over. What learns from it: a linear probe, nearest class means and nearest
neighbours on frozen features, and fine-tuning.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from reefcore import metrics
from reefcore.errors import ReefcoreError
from reefcore.tables import positions

logger = logging.getLogger(__name__)

SHOTS = (1, 5, 10, 20, 50)
METHODS = ("linear probe", "class mean", "nearest neighbours")
#: Setting -> what it asks, for people.
SETTINGS = {
    "within": "labels of the same sources, other photos (Train-S2, Test-S2)",
    "cross": "labels of other sources (Train-S4, Test-S3&S4)",
    "site": "labels of a new reef itself: half of its photos are labelled, the other half tested (Test-W)",
}
SCALES = (1, 2, 4)  # pixels; of the texture of `colour_texture`


def colour_texture(patches: np.ndarray) -> np.ndarray:
    """Describe patches by colour and texture, with nothing learnt.

    Parameters
    ----------
    patches : ndarray of uint8, shape (n, side, side, 3)

    Returns
    -------
    ndarray of float32, shape (n, 45)
        Of red, green and blue over the patch: mean and standard deviation (6), shares of 8 levels of each (24); of
        grey, smoothed to three scales: the mean slope, its spread, the spread of the curvature, and the shares of two
        directions of slope (15).
    """
    from scipy import ndimage

    made = []
    for start in range(0, len(patches), 512):
        x = patches[start : start + 512].astype(np.float32) / 255
        flat = x.reshape(len(x), -1, 3)
        parts = [flat.mean(1), flat.std(1)]
        level = np.minimum((flat * 8).astype(int), 7)
        parts += [(level == i).mean(1) for i in range(8)]
        grey = x.mean(3)
        for scale in SCALES:
            smooth = ndimage.gaussian_filter(grey, (0, scale, scale))
            dy, dx = np.gradient(smooth, axis=(1, 2))
            slope = np.hypot(dy, dx)
            bend = ndimage.laplace(smooth, axes=(1, 2))
            total = slope.sum((1, 2)) + 1e-9
            of = [slope.mean((1, 2)), slope.std((1, 2)), bend.std((1, 2))]
            of += [np.abs(d).sum((1, 2)) / total for d in (dy, dx)]
            parts.append(np.stack(of, 1))
        made.append(np.concatenate(parts, axis=1))
    return np.concatenate(made).astype(np.float32)


def pools(
    splits: pd.DataFrame, annotations: pd.DataFrame, seed: int = 0
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Say of each setting which points may be labelled, and which are tested.

    Parameters
    ----------
    splits : DataFrame
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``, ``label``.
    seed : int
        Halves the photos of the new site.

    Returns
    -------
    dict
        Key of `SETTINGS` -> (pool, test), each with the columns of `annotations`; a setting without points on both
        sides is left out. No photo is on both sides.
    """
    known = annotations.drop_duplicates("annotation_id")

    def points(scheme: str, part: str) -> pd.DataFrame:
        ids = splits.loc[(splits["scheme"] == scheme) & (splits["part"] == part), "annotation_id"].sort_values()
        return known.iloc[positions(ids, known["annotation_id"])].reset_index(drop=True)

    site = points("W", "test")
    photo, photos = pd.factorize(site["source"] + "\x1f" + site["image"], sort=True)
    labelled = np.isin(photo, np.random.default_rng(seed).permutation(len(photos))[: len(photos) // 2])
    found = {
        "within": (points("S2", "train"), points("S2", "test")),
        "cross": (points("S4", "train"), points("S4", "test")),
        "site": (site[labelled], site[~labelled]),
    }
    return {name: both for name, both in found.items() if all(map(len, both))}


def supports(labels: Sequence[str], shots: Sequence[int] = SHOTS, seed: int = 0) -> dict[int, np.ndarray]:
    """Draw nested supports: that of fewer labels is part of that of more.

    Parameters
    ----------
    labels : sequence of str, length n
    shots : sequence of int
        Labels per class, each at least 1; a class with fewer gives all it has.
    seed : int

    Returns
    -------
    dict of ndarray of int
        Shots -> positions in `labels`, rising.
    """
    if not len(shots) or min(shots) < 1:
        raise ReefcoreError(f"supports of {list(shots)} labels per class cannot be drawn", do="give numbers from 1")
    order = np.random.default_rng(seed).permutation(len(labels))
    turn = (
        pd.Series(np.asarray(labels, dtype=object)[order]).groupby(np.asarray(labels, dtype=object)[order]).cumcount()
    )
    return {int(k): np.sort(order[turn.to_numpy() < k]) for k in sorted(set(shots))}


def learn(method: str, x: np.ndarray, y: np.ndarray, test: np.ndarray, seed: int = 0) -> np.ndarray:
    """Learn a support's features and answer for others.

    Parameters
    ----------
    method : str
        One of `METHODS`. The linear probe is a logistic regression (C = 1, classes weighted alike) on features scaled
        to mean 0 and variance 1; class means and neighbours (up to 5, weighted by nearness) go by the cosine of
        features so scaled.
    x : ndarray, shape (n, dim)
    y : ndarray of str, shape (n,)
    test : ndarray, shape (m, dim)
    seed : int

    Returns
    -------
    ndarray of str, shape (m,)
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import LabelEncoder, StandardScaler, normalize

    if method not in METHODS:
        raise ReefcoreError(f"there is no method {method!r}", do=f"choose from {', '.join(METHODS)}")
    if len(set(y)) == 1:
        return np.full(len(test), y[0], dtype=object)
    scaler = StandardScaler().fit(x)
    x, test = (scaler.transform(part).astype(np.float32) for part in (x, test))
    coder = LabelEncoder().fit(y)
    code = coder.transform(y)
    if method == "class mean":
        means = np.stack([normalize(x)[code == i].mean(axis=0) for i in range(len(coder.classes_))])
        return coder.classes_[(normalize(test) @ normalize(means).T).argmax(axis=1)]
    if method == "linear probe":
        model = LogisticRegression(max_iter=200, class_weight="balanced", random_state=seed)
    else:
        model, x, test = KNeighborsClassifier(min(5, len(x)), weights="distance"), normalize(x), normalize(test)
    with warnings.catch_warnings():  # 200 steps are part of the method, and one label per class is what is asked for
        warnings.simplefilter("ignore")
        return coder.classes_[model.fit(x, code).predict(test)]


def run(
    splits: pd.DataFrame,
    annotations: pd.DataFrame,
    features: Mapping[str, Callable[[pd.Series], np.ndarray]],
    tunings: Mapping[str, Callable[[pd.Series, np.ndarray, pd.Series, int], np.ndarray]] | None = None,
    *,
    settings: Mapping[str, Sequence[str]],
    shots: Sequence[int] = SHOTS,
    repeats: int = 5,
    tuned_repeats: int = 2,
    tuned_shots: Sequence[int] = (5, 20, 50),
    seed: int = 0,
    n: int = 200,
) -> pd.DataFrame:
    """Learn from supports of several sizes in several settings, and score the answers.

    Parameters
    ----------
    splits, annotations : DataFrame
        See `pools`.
    features : mapping of callables
        Name -> ``f(ids)``, which gives the features of annotations, float32 (n, dim).
    tunings : mapping of callables, optional
        Name -> ``f(ids, labels, test_ids, seed)``, which fine-tunes a model on points and answers for others.
    settings : mapping
        Key of `SETTINGS` -> names of `features` and `tunings` that may be used in it: those that saw no label of its
        pool. A model trained on other sources has seen the labels of a pool of these sources.
    shots, repeats : see `supports`
    tuned_repeats, tuned_shots : the same of fine-tuning, which takes longer
    seed : int
    n : int
        Resamples of the test photos, drawn alike for every row of one setting.

    Returns
    -------
    DataFrame
        One row per ``setting``, ``features``, ``method``, ``shots``, ``repeat``: ``macro_recall``; ``labels`` (given in
        all), ``classes`` (in the test part), ``complete`` (share of the pool's classes that have so many labels),
        ``unseen`` (share of the test classes that the pool lacks) and ``draws`` (macro recall of each resample).
    """
    tunings, rows = tunings or {}, []
    for setting, (pool, test) in pools(splits, annotations, seed).items():
        photo = test["source"] + "\x1f" + test["image"]
        counts, tested = pool["label"].value_counts(), set(test["label"])
        about = {"setting": setting, "classes": len(tested), "unseen": len(tested - set(counts.index)) / len(tested)}
        names = settings.get(setting, ())
        if unknown := [name for name in names if name not in {*features, *tunings}]:
            raise ReefcoreError(f"there are no features {unknown[0]!r} for few-shot learning in {setting}")
        drawn = [supports(pool["label"], shots, seed + repeat) for repeat in range(repeats)]
        used = np.unique(np.concatenate([support for one in drawn for support in one.values()]))

        def row(name, method, k, repeat, support, answers, of=(about, counts, test["label"], photo)):
            about, counts, truth, photo = of
            draws = metrics.resample(truth, answers, photo, n, seed)["macro_recall"].tolist()
            value = metrics.score(truth, answers)["macro_recall"]
            what = {"features": name, "method": method, "shots": k, "repeat": repeat, "labels": len(support)}
            return about | what | {"complete": float((counts >= k).mean()), "macro_recall": value, "draws": draws}

        for name in (name for name in names if name in features):
            x, of_test = features[name](pool["annotation_id"].iloc[used]), features[name](test["annotation_id"])
            for repeat, one in enumerate(drawn):
                for k, support in one.items():
                    at = np.searchsorted(used, support)
                    y = pool["label"].to_numpy(object)[support]
                    for method in METHODS:
                        rows.append(row(name, method, k, repeat, support, learn(method, x[at], y, of_test, seed)))
        for name in (name for name in names if name in tunings):
            for repeat, one in enumerate(drawn[:tuned_repeats]):
                for k, support in ((k, one[k]) for k in one if k in tuned_shots):
                    labels = pool["label"].to_numpy(object)[support]
                    answers = tunings[name](pool["annotation_id"].iloc[support], labels, test["annotation_id"], seed)
                    rows.append(row(name, "fine-tuning", k, repeat, support, answers))
        logger.info("Few labels, %s: %d points may be labelled, %d are tested.", setting, len(pool), len(test))
    columns = ["setting", "features", "method", "shots", "repeat", "macro_recall", "labels", "classes", "complete"]
    return pd.DataFrame(rows, columns=[*columns, "unseen", "draws"])


def curves(results: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Average over supports, with an interval for other supports and other photos.

    Parameters
    ----------
    results : DataFrame
        From `run`.
    seed : int

    Returns
    -------
    DataFrame
        ``setting``, ``features``, ``method``, ``shots``; ``macro_recall`` (mean over supports); ``ci_low``, ``ci_high``
        (95 %: in each draw supports are drawn with replacement, and photos, the same ones for all supports); ``labels``
        (mean number in all), ``repeats``, ``classes``, ``chance`` (one over the classes), ``complete``, ``unseen``.
    """
    rng, rows = np.random.default_rng(seed), []
    keys = ["setting", "features", "method", "shots"]
    for key, group in results.groupby(keys, sort=False):
        draws = np.array(group["draws"].tolist())  # supports x resamples
        picked = rng.integers(len(draws), size=(len(draws), draws.shape[1]))
        drawn = np.take_along_axis(draws, picked, axis=0).mean(axis=0)
        low, high = np.quantile(drawn, [0.025, 0.975])
        first = group.iloc[0]
        row = dict(zip(keys, key, strict=True)) | {"macro_recall": group["macro_recall"].mean()}
        row |= {"ci_low": low, "ci_high": high, "labels": group["labels"].mean(), "repeats": len(group)}
        row |= {"classes": first["classes"], "chance": 1 / first["classes"]}
        rows.append(row | {"complete": first["complete"], "unseen": first["unseen"]})
    return pd.DataFrame(rows)


def answer(curves: pd.DataFrame, setting: str, share: float = 0.9) -> str:
    """Say in words how many labels are enough.

    Parameters
    ----------
    curves : DataFrame
        From `curves`.
    setting : str
        One of `SETTINGS`.
    share : float
        Of the gain of the most labels over chance that counts as enough.

    Returns
    -------
    str
        About the features and method with the highest macro recall at the most labels that they were tried with.
    """
    here = curves[curves["setting"] == setting]
    if here.empty:
        return f"Nothing was run for labels of {SETTINGS[setting]}."
    last = here.sort_values("shots").groupby(["features", "method"], sort=False).tail(1)
    last = last[last["shots"] == here["shots"].max()]
    top = last.loc[last["macro_recall"].idxmax()]
    curve = here[(here["features"] == top["features"]) & (here["method"] == top["method"])].sort_values("shots")
    chance = top["chance"]
    who = f"{top['method']} on {top['features']}"
    if top["ci_low"] <= chance:
        return (
            f"With {top['shots']} labels per genus no way tried is above chance ({chance:.1%}) for sure: the best, "
            f"{who}, has a macro recall of {top['macro_recall']:.1%} [{top['ci_low']:.1%}, {top['ci_high']:.1%}]."
        )
    enough = curve[curve["macro_recall"] - chance >= share * (top["macro_recall"] - chance)].iloc[0]
    text = (
        f"About {enough['shots']} labels per genus ({enough['labels']:,.0f} in all) get you a macro recall of "
        f"{enough['macro_recall']:.1%} [{enough['ci_low']:.1%}, {enough['ci_high']:.1%}] by {who}; "
        f"chance is {chance:.1%}."
    )
    if enough["shots"] < top["shots"]:
        gain = 100 * (top["macro_recall"] - enough["macro_recall"])
        return f"{text} With {top['shots']} ({top['labels']:,.0f} in all) it is {gain:.1f} points higher."
    if len(curve) == 1:
        return text
    before = curve.iloc[-2]
    gain = 100 * (top["macro_recall"] - before["macro_recall"])
    return f"{text} That is {gain:.1f} points above {before['shots']} labels: it has not levelled off, more may help."
