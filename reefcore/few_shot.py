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
    "within": "Labels of the same sources, other photos (Train-S2, Test-S2)",
    "cross": "Labels of other sources (Train-S4, Test-S3&S4)",
    "site": "Labels of a new reef itself: half of its photos are labelled, the other half tested (Test-W)",
}
TEXTURE = "colour and texture"  # what `colour_texture` is called
TRAINED = ("S1", "S2", "S3", "S4")  # training sets
TUNED = "fine-tuning"  # the method of rows that a tuning made
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

    Raises
    ------
    ReefcoreError
        Where these are no 8-bit colour patches.
    """
    from scipy import ndimage

    if patches.ndim != 4 or patches.shape[3] != 3 or patches.dtype != np.uint8 or not len(patches):
        raise ReefcoreError(
            f"{patches.dtype} of shape {patches.shape} are no patches", do="give 8-bit colours, (n, side, side, 3)"
        )
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
        Key of `SETTINGS` -> (pool, test), each with the columns of `annotations`, in the order of their ids; a setting
        without points on both sides is left out. No photo is on both sides.

    Raises
    ------
    ReefcoreError
        Where a point of the splits is no annotation, or one without label.
    """
    known = annotations.drop_duplicates("annotation_id")

    def points(scheme: str, part: str) -> pd.DataFrame:
        ids = splits.loc[(splits["scheme"] == scheme) & (splits["part"] == part), "annotation_id"].sort_values()
        places = positions(ids, known["annotation_id"])
        found = known.iloc[places].reset_index(drop=True)
        if wrong := int(((places < 0) | found["label"].isna()).sum()):
            raise ReefcoreError(
                f"{wrong} of {len(ids)} points of {scheme} are no annotations with a label",
                do="give the annotations that were split, and leave out those without label",
            )
        return found

    site = points("W", "test")
    photo, photos = pd.factorize(_photo(site), sort=True)
    labelled = np.isin(photo, np.random.default_rng(seed).permutation(len(photos))[: len(photos) // 2])
    found = {
        "within": (points("S2", "train"), points("S2", "test")),
        "cross": (points("S4", "train"), points("S4", "test")),
        "site": (site[labelled], site[~labelled]),
    }
    return {name: both for name, both in found.items() if all(map(len, both))}


def _photo(points: pd.DataFrame) -> pd.Series:
    return points["source"] + "\x1f" + points["image"]


def supports(labels: Sequence[str], shots: Sequence[int] = SHOTS, seed: int | Sequence[int] = 0) -> dict:
    """Draw nested supports: that of fewer labels is part of that of more.

    Parameters
    ----------
    labels : sequence of str, length n
    shots : sequence of int
        Labels per class, each at least 1; a class with fewer gives all it has.
    seed : int or sequence of int

    Returns
    -------
    dict of ndarray of int
        Shots -> positions in `labels`, rising.

    Raises
    ------
    ReefcoreError
        Where a number of labels is below 1, or none is given.
    """
    if not len(shots) or min(shots) < 1:
        raise ReefcoreError(f"supports of {list(shots)} labels per class cannot be drawn", do="give numbers from 1")
    order = np.random.default_rng(seed).permutation(len(labels))
    drawn = pd.Series(np.asarray(labels, dtype=object)[order])
    turn = drawn.groupby(drawn).cumcount().to_numpy()
    return {int(k): np.sort(order[turn < k]) for k in sorted(set(shots))}


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
        Key of `SETTINGS` -> names of `features` and `tunings` to use in it. A model that a training set was trained
        on (named ``...-S1`` to ``...-S4``) has seen labels of these sources and is for ``site`` alone.
    shots, repeats : see `supports`
    tuned_repeats, tuned_shots : the same of fine-tuning, which takes longer
    seed : int
    n : int
        Resamples of the test photos, drawn alike for every row of one setting.

    Returns
    -------
    DataFrame
        One row per ``setting``, ``features``, ``method``, ``shots``, ``repeat``: ``macro_recall``; ``labels`` (given in
        all), ``offered`` (classes in the pool), ``complete`` (those of them with so many labels), ``classes`` (in the
        test part), ``unseen`` (those of them that the pool lacks: always wrong), ``photos`` (of the test part) and
        ``draws`` (macro recall of each resample). A setting without points is left out, with a warning.

    Raises
    ------
    ReefcoreError
        Where a setting or features are not known, features have seen labels that they are to do without, or numbers
        of labels or repeats cannot be drawn.
    """
    tunings, rows = tunings or {}, []
    _check(settings, {*features, *tunings})
    tuned = any(name in tunings for names in settings.values() for name in names)
    if tuned and not set(tuned_shots) <= set(shots):
        raise ReefcoreError(f"tuned_shots {list(tuned_shots)} are not all among shots {list(shots)}", do="add them")
    if repeats < 1 or (tuned and not 1 <= tuned_repeats <= repeats):
        raise ReefcoreError(f"{repeats} supports, {tuned_repeats} of them for fine-tuning, cannot be drawn")
    found = pools(splits, annotations, seed)
    for setting, names in settings.items():
        if setting not in found:
            logger.warning("Few labels, %s: there are no points on both sides, and nothing is run.", setting)
            continue
        pool, test = found[setting]
        truth, photo = test["label"], _photo(test)
        counts, tested = pool["label"].value_counts(), set(truth)
        about = {"setting": setting, "offered": len(counts), "classes": len(tested)}
        about |= {"unseen": len(tested - set(counts.index)), "photos": photo.nunique()}
        labels = pool["label"].to_numpy(object)
        drawn = [supports(labels, shots, (seed, repeat)) for repeat in range(repeats)]
        used = np.unique(np.concatenate([support for one in drawn for support in one.values()]))
        given: list[tuple] = []
        for name in (name for name in names if name in features):
            x, of_test = features[name](pool["annotation_id"].iloc[used]), features[name](test["annotation_id"])
            for repeat, one in enumerate(drawn):
                for k, support in one.items():
                    known = x[np.searchsorted(used, support)]
                    for method in METHODS:
                        answers = learn(method, known, labels[support], of_test, seed)
                        given.append((name, method, k, repeat, len(support), answers))
        for name in (name for name in names if name in tunings):
            for repeat, one in enumerate(drawn[:tuned_repeats]):
                for k, support in ((k, one[k]) for k in sorted(set(tuned_shots))):
                    ids = pool["annotation_id"].iloc[support]
                    answers = tunings[name](ids, labels[support], test["annotation_id"], seed + repeat)
                    given.append((name, TUNED, k, repeat, len(support), answers))
        for name, method, k, repeat, size, answers in given:
            what = {"features": name, "method": method, "shots": k, "repeat": repeat, "labels": size}
            value = metrics.score(truth, answers)["macro_recall"]
            draws = metrics.resample(truth, answers, photo, n, seed)["macro_recall"].tolist()
            rows.append(about | what | {"complete": int((counts >= k).sum()), "macro_recall": value, "draws": draws})
        logger.info("Few labels, %s: %d points may be labelled, %d are tested.", setting, len(pool), len(test))
    columns = ["setting", "features", "method", "shots", "repeat", "macro_recall", "labels", "offered", "complete"]
    return pd.DataFrame(rows, columns=[*columns, "classes", "unseen", "photos", "draws"])


def _check(settings: Mapping[str, Sequence[str]], known: set[str]) -> None:
    """Refuse settings and features that are not there, and features that have seen the labels they do without."""
    for setting, names in settings.items():
        if setting not in SETTINGS:
            raise ReefcoreError(f"there is no few-shot setting {setting!r}", do=f"choose from {', '.join(SETTINGS)}")
        if unknown := [name for name in names if name not in known]:
            raise ReefcoreError(
                f"there are no features {unknown[0]!r} for few-shot learning in {setting}",
                do=f"choose from {', '.join(sorted(known))}",
            )
        seen = [name for name in names if name.rpartition("-")[2] in TRAINED]
        if seen and setting != "site":
            raise ReefcoreError(
                f"{seen[0]} was trained on labels of the sources of the setting {setting}, so few labels of them would "
                "say nothing",
                do="use it in the setting site, or features that were made without labels",
            )


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
        (95 %: in each draw the test photos are resampled, the same ones for all supports, and the supports too. As
        resampled means of R supports vary too little, by the factor (R - 1) / R in their variance, their part is
        stretched by its root. From one support the interval is of the photos alone; on one photo it is NaN);
        ``labels`` (mean number in all), ``repeats``, ``chance`` (one over the classes of the test, the most that an
        answer without looking gets), and ``offered``, ``complete``, ``classes``, ``unseen`` as from `run`.
    """
    rng, rows = np.random.default_rng(seed), []
    keys = ["setting", "features", "method", "shots"]
    for key, group in results.groupby(keys, sort=False):
        draws = np.array(group["draws"].tolist())  # supports x resamples
        count, centre = len(draws), draws.mean(axis=0)
        picked = rng.integers(count, size=draws.shape)
        moved = np.take_along_axis(draws, picked, axis=0).mean(axis=0) - centre
        low, high = np.quantile(centre + moved * np.sqrt(count / max(count - 1, 1)), [0.025, 0.975])
        first = group.iloc[0]
        if first["photos"] < 2:
            low = high = np.nan
        row = dict(zip(keys, key, strict=True)) | {"macro_recall": group["macro_recall"].mean()}
        row |= {"ci_low": max(low, 0.0), "ci_high": min(high, 1.0), "labels": group["labels"].mean(), "repeats": count}
        row |= {"chance": 1 / first["classes"]}
        rows.append(row | first[["offered", "complete", "classes", "unseen"]].to_dict())
    columns = [*keys, "macro_recall", "ci_low", "ci_high", "labels", "repeats", "chance"]
    return pd.DataFrame(rows, columns=[*columns, "offered", "complete", "classes", "unseen"])


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
        About the features and method with the highest macro recall at the most labels, and what cheaper ways reach
        with as many.
    """
    here = curves[curves["setting"] == setting]
    if here.empty:
        return f"{SETTINGS[setting]}: nothing was run."
    most = here[here["shots"] == here["shots"].max()]
    top = most.loc[most["macro_recall"].idxmax()]
    curve = here[(here["features"] == top["features"]) & (here["method"] == top["method"])].sort_values("shots")
    chance = top["chance"]
    if not (curve["ci_low"] > chance).any():
        return (
            f"With up to {_labels(top)} per genus nothing that was tried is above chance ({chance:.1%}) for "
            f"sure: the best, {_way(top)}, has a macro recall of {_span(top)}."
        )
    enough = curve[curve["macro_recall"] - chance >= share * (top["macro_recall"] - chance)].iloc[0]
    said = [
        f"About {_labels(enough)} per genus ({_given(enough)}) get you a macro recall of {_span(enough)}, by "
        f"{_way(top)}; chance is {chance:.1%}."
    ]
    last = enough["shots"] == top["shots"]
    start, end = (curve.iloc[-2] if last and len(curve) > 1 else enough), top
    gain, overlap = 100 * (end["macro_recall"] - start["macro_recall"]), not start["ci_high"] < end["ci_low"]
    if len(curve) == 1:
        said.append("No other number of labels was tried.")
    elif last:
        ends = (
            "the intervals overlap, so whether more would help cannot be told" if overlap else "it has not levelled off"
        )
        said.append(f"That is {gain:+.1f} points from {_labels(start)}: {ends}.")
    else:
        doublings, doubt = np.log2(end["labels"] / start["labels"]), ", though the intervals overlap" if overlap else ""
        each = f", {gain / doublings:+.1f} per doubling of the labels" if doublings > 0.1 else ""
        said.append(f"With {end['shots']} ({_given(end)}) it is {_span(end)}: {gain:+.1f} points{each}{doubt}.")
    for cost, without in enumerate(("any weights", "fine-tuning")):
        cheaper = most[most.apply(_cost, axis=1) == cost]
        if cost < _cost(top) and len(cheaper):
            best = cheaper.loc[cheaper["macro_recall"].idxmax()]
            said.append(f"Without {without} the best at {best['shots']} is {_way(best)}: {_span(best)}.")
    return " ".join(said)


def _cost(row: pd.Series) -> int:
    """Rank what a way needs: 0 no weights, 1 frozen features, 2 a training of its own."""
    return 0 if row["features"] == TEXTURE else 2 if row["method"] == TUNED else 1


def _labels(row: pd.Series) -> str:
    return "1 label" if row["shots"] == 1 else f"{row['shots']} labels"


def _way(row: pd.Series) -> str:
    return row["features"] if row["method"] == TUNED else f"{row['method']} on {row['features']}"


def _span(row: pd.Series) -> str:
    interval = "no interval" if pd.isna(row["ci_low"]) else f"{row['ci_low']:.1%} to {row['ci_high']:.1%}"
    return f"{row['macro_recall']:.1%} [{interval}]"


def _given(row: pd.Series) -> str:
    few = "" if row["complete"] == row["offered"] else f"; {row['complete']} of {row['offered']} genera have so many"
    return f"{row['labels']:,.0f} in all{few}"
