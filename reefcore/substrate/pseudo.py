"""Pseudo-labels: what models that no expert taught call the patches, and how many expert labels that is worth.

Two routes, as in the authors' code (Raine et al. 2025, arXiv 2509.01019): a vision-language model that compares a patch
with a few prompts, and a multimodal language model that is asked. Their prompts and question are not known here; ours
are in ``data/prompts`` and are this project's choice. What labels are worth is measured with one cheap classifier
(`reefcore.few_shot.colour_texture` and a logistic regression), which learns from expert labels of ever more frames,
and from pseudo-labels: the number of expert labels that does as well is what the pseudo-labels are worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

from reefcore import few_shot, multimodal, substrate
from reefcore.errors import ReefcoreError
from reefcore.files import check_keys, read_settings, share
from reefcore.substrate import PLACE
from reefcore.tables import SCORE, SUBSTRATES

EXPERT = "expert"
#: Of a question, where nobody says otherwise.
SETTINGS = {"max_tokens": 16, "temperature": 0.0, "side": 224, "instruction": "chat_substrate"}
FRAMES = (1, 3, 10, 30, 100, 300, 1000)  # that an expert labels; and all there are


@cache
def _read(name_or_path: str | Path) -> tuple[pd.DataFrame, dict[str, str]]:
    path, values = read_settings(name_or_path, share("data", "prompts"), "prompt")
    check_keys(values, ("about", "source", "words", "substrates"), ("words", "substrates"), path)
    try:
        rows = [(word, of["substrate"], text) for word, of in values["words"].items() for text in of["prompts"]]
        lines = {name: str(values["substrates"][name]) for name in SUBSTRATES}
    except (TypeError, KeyError, AttributeError) as error:
        do = f"give each word a substrate and a list of prompts, and a line on each of {', '.join(SUBSTRATES)}"
        raise ReefcoreError(f"words or substrates are not complete ({error!r})", path, do) from None
    table = pd.DataFrame(rows, columns=["word", "substrate", "prompt"])
    if set(table["substrate"]) != set(SUBSTRATES):
        do = f"let them stand for {', '.join(SUBSTRATES)}, each at least once"
        raise ReefcoreError(f"words stand for {', '.join(sorted(set(table['substrate'])))}", path, do)
    return table, lines


def words(name_or_path: str | Path = "substrate") -> pd.DataFrame:
    """List the prompts of a file of ``data/prompts``, or of one's own: ``word``, ``substrate`` (its), ``prompt``.

    Raises
    ------
    ReefcoreError
        Where the file cannot be read, a word lacks a substrate or prompts, or a substrate has no word.
    """
    return _read(name_or_path)[0].copy()


def zero_shot(encoder, patches: np.ndarray, points: pd.DataFrame, prompts: pd.DataFrame | None = None) -> pd.DataFrame:
    """Label patches by the prompts that they look most like.

    The probabilities are the softmax over all prompts of the cosines times the model's scale (CLIP's own, over the
    eight prompts and not over words); those of a word's prompts are added, and those of the words of a substrate. So a
    substrate with two words (No-Deploy: sand and water) starts with twice the weight of one with a single word. How the
    authors went from prompts to classes is not known beyond the four words.

    Parameters
    ----------
    encoder : reefcore.vision_language.Encoder
        Or any with ``images``, ``texts`` and ``scale``.
    patches : ndarray of uint8, shape (n, side, side, 3)
    points : DataFrame
        ``frame``, ``row``, ``column`` of each patch.
    prompts : DataFrame, optional
        As `words` gives.

    Returns
    -------
    DataFrame
        ``frame``, ``row``, ``column``, ``label`` (one of `SUBSTRATES`), ``score:SUBSTRATE`` (float32, sum to 1) and
        ``word`` (the likeliest).

    Raises
    ------
    ReefcoreError
        Where patches and points are not as many.
    """
    from reefcore import vision_language

    if len(patches) != len(points):
        raise ReefcoreError(f"there are {len(patches)} patches and {len(points)} points", do="give one for each")
    prompts = words() if prompts is None else prompts
    texts = encoder.texts(prompts["prompt"].tolist())
    found = pd.DataFrame(vision_language.classify(encoder.images(patches), texts, encoder.scale))
    by_word = found.T.groupby(prompts["word"].to_numpy()).sum().T
    by_class = found.T.groupby(prompts["substrate"].to_numpy()).sum().T[list(SUBSTRATES)]
    table = points[PLACE].reset_index(drop=True).assign(label=by_class.idxmax(axis=1).astype("str"))
    return table.join(by_class.add_prefix(SCORE).astype("float32")).assign(word=by_word.idxmax(axis=1).astype("str"))


def ask(
    client,
    patches: Iterable[np.ndarray],
    points: pd.DataFrame,
    answers_file: str | Path,
    budget=None,
    settings: Mapping | None = None,
    seed: int = 0,
    **options,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Label patches by asking a multimodal language model, as `reefcore.multimodal.ask` does for genera.

    The question (``data/prompts/chat_substrate.yaml``) has the patch as PNG and the three substrates with a line on
    each, in an order drawn for each patch.

    Parameters
    ----------
    client, patches, answers_file, seed : see `reefcore.multimodal.ask`
    points : DataFrame
        ``frame``, ``row``, ``column`` of each patch.
    budget : reefcore.chat.Budget, optional
    settings : mapping, optional
        Over `SETTINGS`; ``side``, ``instruction`` and ``shuffle`` are about the question, the others are sent.
    **options
        ``parallel`` and ``again`` of `reefcore.chat.ask_all`.

    Returns
    -------
    labels : DataFrame
        ``frame``, ``row``, ``column``, ``label``, ``reason`` and ``answer``, as there. One row for each point: a call
        that failed and an answer that names no substrate have the label ``no valid answer``, which every metric here
        counts as wrong. (The authors' code left failed calls out.)
    counts : DataFrame
        One row, as there.

    Raises
    ------
    ReefcoreError
        Where there are fewer patches than points, or asking had to stop: the budget is used up, the server of no use.
    """
    lines = pd.DataFrame(_read("substrate")[1].items(), columns=["taxon", "text"]).assign(set="substrate")
    recipe = SimpleNamespace(name="pseudo", settings=SETTINGS | dict(settings or {}))
    ids = points[PLACE].astype("str").agg(" ".join, axis=1)
    asked = pd.DataFrame({"annotation_id": ids, "label": "unknown", "test": "substrate"})  # the truth plays no part
    table, counts = multimodal.ask(
        recipe, client, patches, asked, SUBSTRATES, "substrate", answers_file, lines, seed, budget=budget, **options
    )
    said = table[["y_pred", "reason", "answer"]].rename(columns={"y_pred": "label"})
    return points[PLACE].reset_index(drop=True).join(said), counts


def whole_frames(points: pd.DataFrame, most: int, seed: int = 0) -> pd.DataFrame:
    """Choose whole frames, at random, with at most so many patches of each ``part`` together; 0: all."""
    if not most:
        return points
    order = np.random.default_rng(seed).permutation(points["frame"].nunique())
    turn = order[pd.factorize(points["frame"], sort=True)[0]]
    counts = points.assign(turn=turn).groupby(["part", "turn"]).size()
    kept = counts.groupby("part").cumsum() <= most
    return points[kept.loc[list(zip(points["part"], turn, strict=True))].to_numpy()].reset_index(drop=True)


def agreement(labels: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Compare pseudo-labels with the expert's, with intervals over frames.

    Parameters
    ----------
    labels : DataFrame
        ``route``, ``frame``, ``y_true``, ``y_pred``, and any more columns; patches without a valid answer are wrong.
    n, seed : int
        Resamples of the frames.

    Returns
    -------
    DataFrame
        ``route``, ``patches``, ``no valid answer`` (of them), and the columns of `reefcore.substrate.per_class`.
    """
    tables = []
    for route, found in labels.groupby("route", sort=False):
        table = substrate.per_class(found["y_true"], found["y_pred"], found["frame"], n, seed)
        lost = int((found["y_pred"] == multimodal.NO_ANSWER).sum())
        tables.append(table.assign(route=route, patches=len(found), **{multimodal.NO_ANSWER: lost}))
    whole = pd.concat(tables, ignore_index=True)
    first = ["route", "patches", multimodal.NO_ANSWER]
    return whole[first + [name for name in whole if name not in first]]


def compare(
    points: pd.DataFrame,
    x: np.ndarray,
    labels: pd.DataFrame,
    frames: Sequence[int] = FRAMES,
    repeats: int = 8,
    n: int = 500,
    seed: int = 0,
) -> pd.DataFrame:
    """Score a classifier taught with expert labels of more and more frames, and with pseudo-labels, on the test part.

    The classifier is the linear probe of `reefcore.few_shot.learn`. An expert labels whole frames, drawn at random from
    the training part; those of fewer frames are among those of more. Where a route labelled a part of the training
    patches only, it teaches with these.

    Parameters
    ----------
    points : DataFrame
        ``part`` (train or test; others are left alone), ``frame``, ``row``, ``column``, ``label``: the expert's.
    x : ndarray of float, shape (len(points), dim)
        Features of each patch, made without labels, such as `reefcore.few_shot.colour_texture`.
    labels : DataFrame
        ``route``, ``frame``, ``row``, ``column``, ``y_pred``: pseudo-labels of training patches, and of test patches
        where the route itself is to be scored there.
    frames : sequence of int
        Numbers of labelled frames, each at least 1. Those above what there is are left out; all there is is added.
    repeats : int
        Draws of frames.
    n : int
        Resamples of the test frames, the same in every row.
    seed : int

    Returns
    -------
    DataFrame
        A row of each ``route`` (``expert``, those of `labels`), ``how`` (``taught``: the classifier answers; ``asked``:
        the route's own answers on the test part, if it gave all), ``frames``, ``repeat``: ``labels`` (patches that
        taught), ``macro_f1``, ``accuracy`` (`reefcore.substrate.score`) and ``draws`` (macro F1 of each resample).

    Raises
    ------
    ReefcoreError
        Where features and points are not as many, there is nothing to learn from or a single test frame, or numbers
        cannot be drawn.
    """
    if len(x) != len(points):
        raise ReefcoreError(f"there are features of {len(x)} patches for {len(points)} points", do="give one for each")
    if repeats < 1 or not len(frames) or min(frames) < 1:
        raise ReefcoreError(f"{repeats} draws of {list(frames)} frames cannot be made", do="give numbers from 1")
    points = points.reset_index(drop=True)
    train, test = (points.index[points["part"] == part] for part in ("train", "test"))
    expert, truth, tested = points["label"].to_numpy(object), points.loc[test, "label"], points.loc[test, "frame"]
    if not len(train) or tested.nunique() < 2:
        what = f"{len(train)} training patches and {tested.nunique()} test frames are too few to compare"
        raise ReefcoreError(what, do="give points of both parts, and two test frames or more")
    rows = []

    def keep(route: str, how: str, answers, repeat: int = 0, taught: pd.Index | None = None) -> None:
        marks = substrate.resampled(truth, answers, tested, n, seed)["all"]
        of = {"frames": points.loc[taught, "frame"].nunique(), "labels": len(taught)} if taught is not None else {}
        row = {"route": route, "how": how, "repeat": repeat, "frames": 0, "labels": 0} | of
        row |= marks.iloc[0][["macro_f1", "accuracy"]].to_dict()
        rows.append(row | {"draws": marks["macro_f1"].iloc[1:].tolist()})

    def teach(taught: pd.Index, given: np.ndarray) -> np.ndarray:
        return few_shot.learn("linear probe", x[taught], given, x[test], seed)

    frame, names = pd.factorize(points.loc[train, "frame"], sort=True)
    everything = teach(train, expert[train])
    for repeat in range(repeats):
        order = np.random.default_rng((seed, repeat)).permutation(len(names))
        for count in [k for k in sorted(set(frames)) if k < len(names)]:
            taught = train[np.isin(frame, order[:count])]
            keep(EXPERT, "taught", teach(taught, expert[taught]), repeat, taught)
        keep(EXPERT, "taught", everything, repeat, train)  # the same in every repeat
    for route, found in labels.groupby("route", sort=False):
        said = points[PLACE].merge(found[[*PLACE, "y_pred"]], "left", PLACE)["y_pred"]
        valid = train[said[train].isin(SUBSTRATES)]
        if len(valid):
            keep(route, "taught", teach(valid, said[valid].to_numpy(object)), taught=valid)
        if said[test].notna().all():
            keep(route, "asked", said[test])
    return pd.DataFrame(rows)


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Average over repeats, with intervals for other draws of the labelled frames and other test frames.

    Parameters
    ----------
    results : DataFrame
        From `compare`.

    Returns
    -------
    DataFrame
        ``route``, ``how``, ``frames``, ``labels``, ``repeats``, ``macro_f1``, ``accuracy`` (means), ``ci_low``,
        ``ci_high`` (95 % of macro F1, over repeats and test frames together), ``lowest``, ``highest`` (repeat).
    """
    rows = []
    for key, group in results.groupby(["route", "how", "frames"], sort=False):
        low, high = np.quantile(np.concatenate(group["draws"].tolist()), [0.025, 0.975])
        row = dict(zip(("route", "how", "frames"), key, strict=True)) | {"labels": group["labels"].mean()}
        row |= {"repeats": len(group)} | group[["macro_f1", "accuracy"]].mean().to_dict()
        row |= {"ci_low": low, "ci_high": high}
        rows.append(row | {"lowest": group["macro_f1"].min(), "highest": group["macro_f1"].max()})
    return pd.DataFrame(rows)


def worth(results: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Say how many expert labels do as well as each route: where the learning curve reaches its macro F1.

    The curve is the mean over repeats, made to rise (isotonic regression) and followed straight between the logarithms
    of the numbers of labels. Each draw of the interval takes one resample of the test frames, the same for curve and
    route, and resamples the repeats. Nothing is read off beyond the curve's ends.

    Parameters
    ----------
    results : DataFrame
        From `compare`.
    seed : int
        Of the resampled repeats.

    Returns
    -------
    DataFrame
        A row of each route and how it was used: ``macro_f1``; ``labels``, ``ci_low``, ``ci_high`` (expert labels, in
        patches; 0: fewer than the curve's first number, infinite: more than its last), ``fewest``, ``most`` (ends of
        the curve), ``below``, ``beyond`` (shares of draws outside of it).
    """
    from sklearn.isotonic import isotonic_regression

    of = results[results["route"] == EXPERT]
    sizes = of.groupby("frames")["labels"].mean()
    curve = np.array([g.sort_values("repeat")["draws"].tolist() for _, g in of.groupby("frames")])  # sizes, repeats, n
    mean = of.groupby("frames")["macro_f1"].mean().to_numpy()
    at, rng = np.log(sizes.to_numpy()), np.random.default_rng(seed)
    picked = rng.integers(curve.shape[1], size=(curve.shape[1], curve.shape[2]))
    drawn = np.take_along_axis(curve, np.broadcast_to(picked, curve.shape), axis=1).mean(axis=1)

    def reaches(values: np.ndarray, level: float) -> float:
        rising = isotonic_regression(values)
        first = int(np.searchsorted(rising, level - 1e-12))  # of those at or above it; a mean of equals is rounded
        if first in (0, len(rising)):
            return np.inf if first else 0.0 if rising[0] > level + 1e-12 else sizes.iloc[0]
        share = min(1, (level - rising[first - 1]) / (rising[first] - rising[first - 1]))
        return float(np.exp(at[first - 1] + share * (at[first] - at[first - 1])))

    rows = []
    for row in results[results["route"] != EXPERT].itertuples():
        found = np.array([reaches(values, level) for values, level in zip(drawn.T, row.draws, strict=True)])
        low, high = np.quantile(found, [0.025, 0.975], method="inverted_cdf")  # interpolating knows no infinity
        one = {"route": row.route, "how": row.how, "macro_f1": row.macro_f1, "labels": reaches(mean, row.macro_f1)}
        one |= {"ci_low": low, "ci_high": high, "fewest": sizes.iloc[0], "most": sizes.iloc[-1]}
        rows.append(one | {"below": (found == 0).mean(), "beyond": np.isinf(found).mean()})
    return pd.DataFrame(rows)


def answer(found: pd.DataFrame) -> list[str]:
    """Say of each row of `worth` in a sentence how many expert labels it is worth."""
    told = {"taught": "Taught by the labels of {}, the classifier", "asked": "{} itself"}

    def said(labels: float, row) -> str:
        if labels == 0:
            return f"fewer than {row.fewest:,.0f}"
        return f"more than {row.most:,.0f}" if np.isinf(labels) else f"{labels:,.0f}"

    sentences = []
    for row in found.itertuples():
        low, centre, high = (said(value, row) for value in (row.ci_low, row.labels, row.ci_high))
        interval = f"throughout the 95 % interval: {low}" if low == high else f"95 % interval: {low} to {high}"
        sentences.append(
            f"{told[row.how].format(row.route)} reaches a macro F1 of {row.macro_f1:.1%}, which takes {centre} expert "
            f"labels ({interval})."
        )
    return sentences
