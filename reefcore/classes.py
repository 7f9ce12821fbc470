"""What a run gets right and wrong, class by class and family by family, and which answers to look at."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from reefcore import curation, metrics, published, taxonomy
from reefcore.errors import ReefcoreError
from reefcore.review import wilson
from reefcore.tables import among, positions

#: What the authors compare: (model, level) -> the run that reproduces it, and the level of `levels`.
TWO_HEADS = {
    ("one head", "genus"): ("vit-S4-S4", "genus"),
    ("one head", "family"): ("vit-S4-S4", "family"),
    ("two heads", "genus"): ("vit_two_heads-S4-S4", "genus"),
    ("two heads", "family"): ("vit_two_heads.family-S4-S4", "family"),  # answers of families stay as they are
    ("family head", "family"): ("vit_family-S4-S4", "family"),
}


def pick(predictions: pd.DataFrame, run: str) -> tuple[pd.DataFrame, str]:
    """Take one run out of many; where there is no such run, the first of the same train and test set, or the first.

    Returns
    -------
    rows : DataFrame
        Its predictions, with the scores of its own classes only.
    said : str
        Which run this is; a sentence where it is not the one asked for.

    Raises
    ------
    ReefcoreError
        Where there is no run at all.
    """
    if not len(predictions):
        raise ReefcoreError("there are no predictions", do="train a recipe, or give predictions of any program")
    runs = predictions["run_id"].unique()
    setting = f"-{'-'.join(run.rsplit('-', 2)[1:])}"
    chosen = run if run in runs else next((name for name in runs if name.endswith(setting)), runs[0])
    rows = predictions[predictions["run_id"] == chosen].dropna(axis=1, how="all").reset_index(drop=True)
    said = f"Run {chosen}."
    return rows, said if chosen == run else f"{run} was not run in this profile; {chosen} stands in for it."


def train_counts(splits: pd.DataFrame, annotations: pd.DataFrame, run: str) -> pd.Series:
    """Count the training points per class of the training set that a run_id ``<recipe>-<train set>-<test set>`` names.

    Families follow the genera, for runs that answer with families.

    Raises
    ------
    ReefcoreError
        Where the run names no training set of `splits`.
    """
    scheme = ["", "", *run.rsplit("-", 2)][-2]
    train = splits.loc[(splits["scheme"] == scheme) & (splits["part"] == "train"), "annotation_id"]
    if not len(train):
        raise ReefcoreError(
            f"the training set of run {run} is not known", do="name runs <recipe>-<train set>-<test set>"
        )
    where = positions(train, annotations["annotation_id"])
    counts = annotations["label"].iloc[where[where >= 0]].value_counts()
    families = counts.groupby(taxonomy.family_of(counts.index).reindex(counts.index).to_numpy()).sum()
    return pd.concat([counts, families[~families.index.isin(counts.index)]])


def per_class(rows: pd.DataFrame, counts: pd.Series) -> pd.DataFrame:
    """Describe each class by its support, its recall and its most frequent wrong label (paper, Figure 10).

    Parameters
    ----------
    rows : DataFrame
        Predictions of one run.
    counts : Series of int
        Training points by class, of `train_counts`.

    Returns
    -------
    DataFrame
        The most trained class first: ``label``, ``train``, ``n`` (test points), ``errors``, ``recall`` with Wilson's
        95 % interval ``ci_low``, ``ci_high``, ``precision``, ``f1``, ``taken_for`` (the most frequent wrong label) and
        ``top_share`` (its share of the errors); NaN where the class is absent from the test, was never the answer, or
        has no error.
    """
    cells = metrics.confusion(rows["y_true"], rows["y_pred"])
    hits, n, said = pd.Series(np.diag(cells), cells.index), cells.sum(axis=1), cells.sum()
    wrong = cells.mask(np.eye(len(cells), dtype=bool), 0)
    errors = n - hits
    low, high = wilson(hits, n)
    table = pd.DataFrame(
        {
            "train": counts.reindex(cells.index, fill_value=0),
            "n": n,
            "errors": errors,
            "recall": hits / n.where(n > 0),
            "ci_low": np.where(n > 0, low, np.nan),
            "ci_high": np.where(n > 0, high, np.nan),
            "precision": hits / said.where(said > 0),
            "f1": 2 * hits / (n + said),
            "taken_for": wrong.idxmax(axis=1).where(errors > 0),
            "top_share": wrong.max(axis=1) / errors.where(errors > 0),
        }
    )
    table = table.rename_axis("label").reset_index()
    return table.sort_values(["train", "label"], ascending=[False, True], ignore_index=True)


def to_families(rows: pd.DataFrame) -> pd.DataFrame:
    """Put the families of the true and predicted genera in their place; scores are left out."""
    family = taxonomy.family_of(pd.concat([rows["y_true"], rows["y_pred"]]).unique())
    kept = rows[["run_id", "annotation_id"]]
    return kept.assign(**{name: rows[name].map(family).astype("str") for name in ("y_true", "y_pred")})


def matrix(rows: pd.DataFrame) -> pd.DataFrame:
    """Divide the confusion matrix by its row sums (paper, Figure 11): shares of the points of each true class.

    A class absent from the test has a row of NaN, for nothing of it was measured (the paper draws it as zeros).
    """
    cells = metrics.confusion(rows["y_true"], rows["y_pred"])
    return cells.div(cells.sum(axis=1).where(lambda n: n > 0), axis=0)


def by_family(labels: Iterable[str]) -> pd.Series:
    """Order classes in blocks of one family, the largest block first; the value is the family."""
    family = taxonomy.family_of(sorted(labels))
    order = pd.DataFrame({"family": family, "size": family.map(family.value_counts())})
    return order.sort_values(["size", "family"], ascending=[False, True], kind="stable")["family"]


def confused(rows: pd.DataFrame, most: int = 10) -> pd.DataFrame:
    """List the most frequent confusions of one run.

    Returns
    -------
    DataFrame
        ``truth``, ``taken for``, ``points``, ``of`` (points of that truth), ``share``.
    """
    pairs = rows[["y_true", "y_pred"]].set_axis(["truth", "taken for"], axis=1)
    wrong = pairs[pairs["truth"] != pairs["taken for"]].value_counts().rename("points").reset_index()
    wrong["of"] = wrong["truth"].map(pairs["truth"].value_counts())
    wrong["share"] = wrong["points"] / wrong["of"]
    order = ["points", "truth", "taken for"]
    return wrong.sort_values(order, ascending=[False, True, True], ignore_index=True).head(most)


def _spread(cells: np.ndarray) -> np.ndarray:
    """Spread the errors of each true class over the other classes by how often these are predicted at all."""
    others = cells.sum(axis=0) * (1 - np.eye(len(cells)))
    total = others.sum(axis=1, keepdims=True)
    errors = cells.sum(axis=1, keepdims=True) - np.diag(cells)[:, None]
    return errors * np.divide(others, total, out=np.zeros_like(others), where=total > 0)


def within_family(rows: pd.DataFrame) -> pd.DataFrame:
    """Count the errors that stay within the family of the true class.

    Returns
    -------
    DataFrame
        ``family``, ``classes``, ``errors``, ``within``, ``share`` with Wilson's interval ``ci_low``, ``ci_high``, and
        ``expected``: the share if a class's errors went to the others by how often these are predicted. All classes
        first, then each family with two classes or more; NaN without errors.
    """
    cells = metrics.confusion(rows["y_true"], rows["y_pred"])
    family = taxonomy.family_of(cells.index).to_numpy()
    same = family[:, None] == family
    wrong = cells.to_numpy() * ~np.eye(len(cells), dtype=bool)
    spread = _spread(cells.to_numpy())
    sizes = pd.Series(family).value_counts().sort_index()
    lines = []
    for name in ["all", *sizes[sizes > 1].index]:
        mine = np.full(len(family), True) if name == "all" else family == name
        errors, within = wrong[mine].sum(), (wrong * same)[mine].sum()
        lines.append((name, mine.sum(), errors, within, (spread * same)[mine].sum()))
    table = pd.DataFrame(lines, columns=["family", "classes", "errors", "within", "expected"])
    errors = table["errors"].where(table["errors"] > 0)
    for side, bound in zip(("ci_low", "ci_high"), wilson(table["within"], table["errors"]), strict=True):
        table[side] = np.where(errors.notna(), bound, np.nan)
    table = table.assign(share=table["within"] / errors, expected=table["expected"] / errors)
    return table[["family", "classes", "errors", "within", "share", "ci_low", "ci_high", "expected"]]


def named_pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """Look up the pairs of genera that the paper names as easily confused (A.4.3, A.5) among the errors of a run.

    Returns
    -------
    DataFrame
        ``pair``, ``section``, ``points`` (test points of the two), ``errors`` (theirs), ``confused`` (one taken for the
        other), ``share`` of the errors and the share ``expected`` (see `within_family`), and ``rank`` of the pair among
        all by ``confused``; NA where neither occurs or neither is mistaken.
    """
    printed = published.confusions()
    cells = metrics.confusion(rows["y_true"], rows["y_pred"])
    names = sorted({*cells.index, *printed["first"], *printed["second"]})
    counts = cells.reindex(index=names, columns=names, fill_value=0).to_numpy()
    both, spread, n = counts + counts.T, _spread(counts), counts.sum(axis=1)
    wrong = n - np.diag(counts)
    first, second = (positions(printed[side], names) for side in ("first", "second"))
    table = pd.DataFrame({"pair": printed["first"] + " – " + printed["second"], "section": printed["section"]})
    table["points"], table["errors"] = n[first] + n[second], wrong[first] + wrong[second]
    table["confused"] = both[first, second]
    errors = table["errors"].where(table["errors"] > 0)
    table["share"] = table["confused"] / errors
    table["expected"] = (spread + spread.T)[first, second] / errors
    every = both[np.triu_indices(len(names), 1)]
    rank = [1 + (every > confused).sum() for confused in table["confused"]]
    return table.assign(rank=pd.Series(rank, dtype="Int64").mask(table["confused"] == 0))


def levels(rows: pd.DataFrame, annotations: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Score one run's genera, and the families that they stand for, with intervals over photos.

    Returns
    -------
    DataFrame
        ``level`` (genus, family), ``classes``, ``metric``, ``value``, ``ci_low``, ``ci_high``.
    """
    photos, parts = metrics.photo_of(rows["annotation_id"], annotations), []
    for level, said in (("genus", rows), ("family", to_families(rows))):
        scores = metrics.bootstrap(said["y_true"], said["y_pred"], photos, n, seed)
        scores.insert(0, "classes", said["y_true"].nunique())
        scores.insert(0, "level", level)
        parts.append(scores[scores["metric"] != "accuracy"])
    return pd.concat(parts, ignore_index=True)


def two_heads(predictions: pd.DataFrame, annotations: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Put heads for genus, family or both beside what the authors give with their training code.

    Returns
    -------
    DataFrame
        ``model``, ``level``, ``run``, ``published``, ``reproduced``, ``low``, ``high``, ``difference``: macro recall in
        percent; NaN where the run is not there.
    """
    lines = []
    for line in published.two_heads().itertuples():
        run, level = TWO_HEADS[line.model, line.level]
        rows, values = predictions[predictions["run_id"] == run], [np.nan] * 3
        if len(rows):
            scores = levels(rows, annotations, n, seed).set_index(["level", "metric"])
            values = 100 * scores.loc[(level, "macro_recall"), ["value", "ci_low", "ci_high"]]
        lines.append((line.model, line.level, run, line.recall_pct, *values))
    table = pd.DataFrame(lines, columns=["model", "level", "run", "published", "reproduced", "low", "high"])
    return table.assign(difference=table["reproduced"] - table["published"])


def examples(
    rows: pd.DataFrame, annotations: pd.DataFrame, patch_ids, crop: int, each: int = 8, seed: int = 0
) -> pd.DataFrame:
    """Choose answers worth looking at (paper, Figures 4, 12 and 13).

    Parameters
    ----------
    rows : DataFrame
        Predictions of one run, with a column ``confidence`` (see `reefcore.calibration.confident`).
    annotations : DataFrame
        All labelled points: what else lies within a patch is read from them.
    patch_ids : sequence of str
        The annotation_id of each patch; points without a patch are not chosen.
    crop : int
        Side of a patch in pixels of the photo.
    each : int
        Of each kind, at most; of the kind ``common`` one right and one wrong answer for that many genera.
    seed : int
        Of the drawing by chance.

    Returns
    -------
    DataFrame
        ``kind`` (``common``: drawn by chance from the genera with the most test points; ``sure``: the most confident
        mistakes; ``unsure``: the least confident right answers; ``several``: drawn by chance from points with a point
        of another hard coral in their patch), ``patch`` (position), ``annotation_id``, ``y_true``, ``y_pred``,
        ``right``, ``confidence`` and ``others``, the other corals in the patch.
    """
    rows = rows.assign(patch=positions(rows["annotation_id"], patch_ids))
    rows = rows[rows["patch"] >= 0].sort_values("annotation_id").sample(frac=1, random_state=seed)
    rows["right"] = rows["y_true"] == rows["y_pred"]
    common = rows["y_true"].value_counts().sort_index().nlargest(each).index
    rows["place"] = common.get_indexer(rows["y_true"])
    pairs = rows[rows["place"] >= 0].drop_duplicates(["y_true", "right"])
    others = _others(rows, annotations, crop)
    chosen = {
        "common": pairs.sort_values(["place", "right"], ascending=[True, False]),
        "sure": rows[~rows["right"]].nlargest(each, "confidence"),
        "unsure": rows[rows["right"]].nsmallest(each, "confidence"),
        "several": rows[rows["annotation_id"].isin(others.index)].head(each),
    }
    table = pd.concat([part.assign(kind=kind) for kind, part in chosen.items()], ignore_index=True)
    table["others"] = [others.get(point, "") for point in table["annotation_id"]]
    return table[["kind", "patch", "annotation_id", "y_true", "y_pred", "right", "confidence", "others"]]


def _others(rows: pd.DataFrame, annotations: pd.DataFrame, crop: int) -> pd.Series:
    """Name the hard corals other than its own that have a point within each point's patch; by annotation_id."""
    place = ["annotation_id", "source", "image", "row", "column", "label"]
    known = curation.hard_corals(annotations)[place]
    known = known[known["label"].notna() & (known["label"] != taxonomy.ORDER)]  # that one may be of the same genus
    mine = known[among(known["annotation_id"], rows["annotation_id"])]
    pairs = mine.merge(known, on=["source", "image"], suffixes=("", "_other"))
    offsets = pairs["row_other"] - pairs["row"], pairs["column_other"] - pairs["column"]
    inside = (pairs["label"] != pairs["label_other"]) & np.logical_and(
        *(offset.between(-((crop + 1) // 2), crop // 2 - 1) for offset in offsets)
    )
    names = pairs[inside].groupby("annotation_id")["label_other"].unique()
    return names.map(lambda labels: ", ".join(sorted(labels)))


def in_words(answers: pd.DataFrame) -> str:
    """Say truth, answer and confidence of `examples`, of the first six by name, for those who cannot see them."""
    parts = [
        f"{row.y_true} → {row.y_pred} ({row.confidence:.0%}{f'; also {row.others}' if row.others else ''})"
        for row in answers.itertuples()
    ]
    more = f"; and {len(parts) - 6} more" if len(parts) > 6 else ""
    right = (answers["y_true"] == answers["y_pred"]).sum()
    return f"{len(parts)} patches, {right} answered right; truth → answer: {'; '.join(parts[:6])}{more}."
