"""Expert verdicts -> agreement -> what to keep (paper sections 3.4 and A.2.2-A.2.3).

Agreement is micro-averaged: verdicts `correct` among all verdicts, so that `low_quality` and `hard_to_decide` count
against it, as the authors computed it. Nothing is relabelled; annotations are only kept or not.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore import curation
from reefcore.errors import ReefcoreError
from reefcore.tables import among

#: The paper's thresholds (section 3.4): step 1 drops what is strictly under MIN_SOURCE or MIN_LABEL, step 2 pairs
#: under MIN_PAIR.
MIN_SOURCE, MIN_LABEL, MIN_PAIR = 0.5, 0.5, 0.7
PER_PAIR = 10  # points that an expert looks at, per label and source (A.2.3)


def check_fractions(**thresholds: float) -> None:
    """Refuse a threshold of agreement that is no fraction, by its name."""
    for name, value in thresholds.items():
        if not 0 <= value <= 1:
            raise ReefcoreError(f"{name}={value} is not a fraction", do="give a number between 0 and 1")


def review_sample(annotations: pd.DataFrame, per_pair: int = PER_PAIR, seed: int = 0) -> pd.DataFrame:
    """Draw the stratified sample that experts review: up to `per_pair` points of each label of each source (A.2.3).

    Parameters
    ----------
    annotations : DataFrame
        ``annotation_id``, ``source``, ``label``; rows without a label are never drawn.
    per_pair : int
    seed : int
        The same seed draws the same points, in whatever order the rows come.

    Returns
    -------
    DataFrame
        The rows drawn, by source, label and annotation_id.

    Raises
    ------
    ReefcoreError
        Where `per_pair` is below 1, or no row has a label.
    """
    if per_pair < 1:
        raise ReefcoreError(f"per_pair={per_pair} draws nothing", do="review at least one point per label and source")
    known = annotations[annotations["label"].notna()].drop_duplicates("annotation_id").sort_values("annotation_id")
    if not len(known):
        raise ReefcoreError("no annotation has a label, so there is nothing to review", do="map the labels first")
    shuffled = known.iloc[np.random.default_rng(seed).permutation(len(known))]
    drawn = shuffled.groupby(["source", "label"], sort=False).head(per_pair)
    return drawn.sort_values(["source", "label", "annotation_id"], ignore_index=True)


def wilson(correct, reviewed, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Give Wilson's score interval of proportions (Wilson 1927, doi:10.1080/01621459.1927.10502953).

    Parameters
    ----------
    correct, reviewed : array-like of int
        Counts; 0 of 0 has the interval 0 to 1.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    low, high : ndarray of float
        Fractions in [0, 1].
    """
    from scipy.special import ndtri

    n = np.asarray(reviewed, dtype=float)
    share = np.divide(correct, n, out=np.full(n.shape, 0.5), where=n > 0)
    z = ndtri((1 + level) / 2)
    middle = (share * n + z**2 / 2) / (n + z**2)
    half = z * np.sqrt(n * share * (1 - share) + z**2 / 4) / (n + z**2)
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def agreement(reviews: pd.DataFrame, annotations: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Compute expert agreement per group.

    Parameters
    ----------
    reviews : DataFrame
        The reviews table; an annotation reviewed twice counts twice.
    annotations : DataFrame
        With ``annotation_id`` and the columns of `by`.
    by : list of str
        Such as ``["source"]``, ``["label"]``, ``["source", "label"]``, or ``[]`` for one figure over all.

    Returns
    -------
    DataFrame
        The columns of `by`, ``reviewed`` (verdicts), ``correct`` (verdicts), ``agreement`` (fraction in [0, 1]) and
        its 95 % interval by Wilson, ``ci_low`` and ``ci_high``.

    Raises
    ------
    ReefcoreError
        Where reviews are for annotations that are not there.
    """
    reviews = reviews[["annotation_id", "verdict"]]
    known = annotations[among(annotations["annotation_id"], reviews["annotation_id"])]
    known = known.drop_duplicates("annotation_id").set_index("annotation_id")
    stray = ~reviews["annotation_id"].isin(known.index)
    if stray.any():
        raise ReefcoreError(
            f"{stray.sum()} reviews are for annotations that are not known, such as {reviews[stray].iloc[0, 0]}",
            do="give the annotations that were reviewed",
        )
    joined = reviews.join(known[by], on="annotation_id")
    joined["is_correct"] = joined["verdict"] == "correct"
    keys = by or [pd.Series("all", index=joined.index, name="all")]
    table = joined.groupby(keys, sort=True)["is_correct"].agg(reviewed="size", correct="sum").reset_index()
    low, high = wilson(table["correct"], table["reviewed"])
    return table.assign(agreement=table["correct"] / table["reviewed"], ci_low=low, ci_high=high)


def filter_by_review(
    annotations: pd.DataFrame,
    reviews: pd.DataFrame,
    min_source: float = MIN_SOURCE,
    min_label: float = MIN_LABEL,
    min_pair: float = MIN_PAIR,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Apply the two review filters.

    Step 1 drops every source with an agreement under `min_source` over all its labels and every label with an agreement
    under `min_label` over all sources; both are decided on the same reviews, before anything is dropped. Step 2 keeps,
    of what is left, the source-label pairs with at least `min_pair`. What was never reviewed is kept in step 1 (there
    is no evidence against it) and not in step 2 (there is none for it).

    Parameters
    ----------
    annotations : DataFrame
        Annotations of hard corals: ``annotation_id``, ``source``, ``label``.
    reviews : DataFrame
        The reviews table; reviews of other annotations are left aside.
    min_source, min_label, min_pair : float
        Fractions in [0, 1].

    Returns
    -------
    quality : DataFrame
        ``annotation_id``, ``source``, ``label``, ``step1``, ``step2`` (bool: kept after that step).
    dropped : DataFrame
        ``step``, ``what`` (source, label, pair), ``source``, ``label``, ``reviewed``, ``agreement``, ``reason``: every
        thing dropped and why.
    """
    check_fractions(min_source=min_source, min_label=min_label, min_pair=min_pair)
    reviewed = annotations[among(annotations["annotation_id"], reviews["annotation_id"])]
    reviews = reviews[among(reviews["annotation_id"], reviewed["annotation_id"])]
    quality = annotations[["annotation_id", "source", "label"]].reset_index(drop=True)
    dropped = []
    quality["step1"] = True
    for what, minimum in (("source", min_source), ("label", min_label)):
        table = agreement(reviews, reviewed, [what])
        low = table[table["agreement"] < minimum]
        quality["step1"] &= ~quality[what].isin(low[what])
        dropped.append(low.assign(step=1, what=what, minimum=minimum))
    pairs = agreement(reviews, reviewed, ["source", "label"])
    pairs = (
        quality.groupby(["source", "label"], sort=True)["step1"]
        .first()
        .reset_index()
        .merge(pairs, how="left", on=["source", "label"])
    )
    low = pairs[pairs["step1"] & ~(pairs["agreement"] >= min_pair)]
    keys = pd.MultiIndex.from_frame(quality[["source", "label"]])
    quality["step2"] = quality["step1"] & ~keys.isin(pd.MultiIndex.from_frame(low[["source", "label"]]))
    dropped.append(low.assign(step=2, what="pair", minimum=min_pair))
    dropped = pd.concat(dropped, ignore_index=True)
    said = [
        "never reviewed" if pd.isna(value) else f"agreement {value:.0%} of {reviewed:.0f} is under {minimum:.0%}"
        for value, reviewed, minimum in zip(dropped["agreement"], dropped["reviewed"], dropped["minimum"], strict=True)
    ]
    columns = ["step", "what", "source", "label", "reviewed", "agreement", "reason"]
    return quality, dropped.assign(reason=said).reindex(columns=columns)


def filter_summary(quality: pd.DataFrame, reviews: pd.DataFrame) -> pd.DataFrame:
    """Summarise the filters as the paper's section 3.4 does.

    Returns
    -------
    DataFrame
        One row per stage (``all``, ``step1``, ``step2``): ``annotations``, ``labels``, ``sources``, ``reviewed``
        (verdicts), ``agreement`` (fraction).
    """
    rows = []
    reviewed = quality[among(quality["annotation_id"], reviews["annotation_id"])]
    for stage in ("all", "step1", "step2"):
        kept, seen = (table if stage == "all" else table[table[stage]] for table in (quality, reviewed))
        verdicts = reviews.loc[reviews["annotation_id"].isin(seen["annotation_id"]), "verdict"]
        share = (verdicts == "correct").mean() if len(verdicts) else float("nan")
        rows.append((stage, len(kept), kept["label"].nunique(), kept["source"].nunique(), len(verdicts), share))
    return pd.DataFrame(rows, columns=["stage", "annotations", "labels", "sources", "reviewed", "agreement"])


def stability(
    annotations: pd.DataFrame,
    reviews: pd.DataFrame,
    min_source: float = MIN_SOURCE,
    min_label: float = MIN_LABEL,
    min_pair: float = MIN_PAIR,
    n: int = 1000,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ask how much of what the filters keep hangs on which points the experts happened to see.

    The verdicts of each source-label pair are drawn again with replacement, `n` times, and both filters applied to
    each draw. What was never reviewed stays as it is.

    Parameters
    ----------
    annotations, reviews, min_source, min_label, min_pair : see `filter_by_review`
    n : int
        Draws.
    seed : int

    Returns
    -------
    pairs : DataFrame
        ``source``, ``label``, ``annotations``, ``reviewed``, ``agreement``, ``kept`` (bool: by the filters), and the
        share of draws that keep it, ``kept_again``.
    draws : DataFrame, shape (n, 3)
        ``annotations``, ``sources``, ``labels`` that pass both filters in each draw.
    """
    reviews = reviews[among(reviews["annotation_id"], annotations["annotation_id"])]
    pairs = annotations.groupby(["source", "label"], sort=True).size().rename("annotations").reset_index()
    pairs = pairs.merge(agreement(reviews, annotations, ["source", "label"]), how="left", on=["source", "label"])
    reviewed = pairs["reviewed"].fillna(0).to_numpy(int)
    share = pairs["agreement"].fillna(0).to_numpy()
    correct = np.random.default_rng(seed).binomial(reviewed, share, size=(n, len(pairs)))
    hot = {by: pd.get_dummies(pairs[by]).to_numpy(float) for by in ("source", "label")}

    def keep(correct):
        with np.errstate(invalid="ignore"):  # 0 of 0: never reviewed
            good = correct / reviewed >= min_pair
            for by, minimum in (("source", min_source), ("label", min_label)):
                good &= ~((correct @ hot[by]) / (reviewed @ hot[by]) < minimum)[:, hot[by].argmax(1)]
        return good

    again, size = keep(correct), pairs["annotations"].to_numpy()
    kept = keep(np.rint(share * reviewed)[None])[0]
    draws = {"annotations": again @ size} | {f"{by}s": ((again @ hot[by]) > 0).sum(1) for by in hot}
    pairs = pairs[["source", "label", "annotations", "reviewed", "agreement"]]
    return pairs.assign(reviewed=reviewed, kept=kept, kept_again=again.mean(0)), pd.DataFrame(draws)


def chance_of_passing(reviewed: int = PER_PAIR, minimum: float = MIN_PAIR) -> pd.DataFrame:
    """Compute how likely a pair passes the filter, by how often its labels are right.

    Parameters
    ----------
    reviewed : int
        Verdicts per pair.
    minimum : float
        The threshold, in [0, 1].

    Returns
    -------
    DataFrame
        ``right`` (true share of right labels, 0 to 1 in steps of 0.01), ``passes`` (binomial probability that at least
        `minimum` of `reviewed` verdicts are correct).
    """
    from scipy.stats import binom

    if reviewed < 1:
        raise ReefcoreError(f"{reviewed} verdicts decide nothing", do="ask for at least 1")
    right = np.linspace(0, 1, 101)
    needed = np.ceil(minimum * reviewed - 1e-9)
    return pd.DataFrame({"right": right, "passes": binom.sf(needed - 1, reviewed, right)})


def quality(annotations: pd.DataFrame, reviews: pd.DataFrame, site: str = "", **criteria) -> pd.DataFrame:
    """Decide for each hard-coral annotation of the benchmark which filters it passes.

    Parameters
    ----------
    annotations, reviews : DataFrame
        The tables. Without any review there is nothing to filter by, and both steps keep everything.
    site : str
        The held-out source (Al-Wajh in the paper): labelled by experts, so neither judged by the label criteria nor
        filtered; of it, the labels that the other sources keep count.
    **criteria
        See `reefcore.curation.label_criteria`.

    Returns
    -------
    DataFrame
        ``annotation_id``, ``source``, ``image``, ``label``, ``site``, ``step1``, ``step2`` (bool).
    """
    away = annotations["source"] == site
    curated, _ = curation.curate(annotations[~away], **criteria)
    kept, _ = filter_by_review(curated, reviews)
    if reviews.empty:
        kept["step2"] = kept["step1"]
    table = kept.merge(curated[["annotation_id", "image"]], on="annotation_id").assign(site=False)
    there = curation.drop_duplicates(curation.hard_corals(annotations[away]))[0]
    there = there[there["label"].isin(set(table.loc[table["step1"], "label"]))]
    there = there[["annotation_id", "source", "image", "label"]].assign(site=True, step1=True, step2=True)
    columns = ["annotation_id", "source", "image", "label", "site", "step1", "step2"]
    return pd.concat([table[columns], there[columns]]).sort_values("annotation_id", ignore_index=True)
