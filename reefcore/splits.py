"""The benchmark's splits: within sources (S1, S2), across sources (S3, S4; U), the held-out site (W) (paper section 4).

An image is never in two parts of a scheme, nor a source in two parts of S3 or S4.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.tables import PARTS, SCHEMES, among, positions, validate

TEST_SOURCES, VAL_SOURCES = 7, 17  # paper, section 4.2


def _table(annotations: pd.DataFrame, scheme: str, part) -> pd.DataFrame:
    return pd.DataFrame(
        {"annotation_id": annotations["annotation_id"].array, "scheme": scheme, "part": np.asarray(part)}
    )


def _ordered(annotations: pd.DataFrame) -> pd.DataFrame:
    """Sort by id: iterative stratification depends on the order of rows, and a user's file may come in any."""
    missing = [name for name in ("annotation_id", "source", "image", "label") if name not in annotations]
    if missing:
        raise ReefcoreError(f"annotations lack {', '.join(missing)}", do="give the annotations table")
    if annotations["label"].isna().any():
        raise ReefcoreError(
            "an annotation without a label cannot be stratified",
            do="keep the labelled ones: annotations.dropna(subset='label')",
        )
    if annotations["annotation_id"].duplicated().any():
        raise ReefcoreError("an annotation stands twice", do="drop duplicates first: reefcore.curation.drop_duplicates")
    return annotations.sort_values("annotation_id", kind="stable", ignore_index=True)


def _share(presence: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Choose `size` of the rows of a multi-hot matrix, stratified by its columns."""
    from iterstrat.ml_stratifiers import MultilabelStratifiedShuffleSplit  # brings scikit-learn, a second of imports

    if size < 1:
        return np.array([], dtype=int)
    # A column that is everywhere or nowhere tells nothing; without it the iteration is shorter and no less balanced.
    varied = presence[:, (presence.min(0) != presence.max(0))]
    if not varied.shape[1]:
        return np.sort(np.random.default_rng(seed).permutation(len(presence))[:size])
    if varied.shape[1] == 1:  # the library takes one column for a list of classes
        varied = np.hstack([varied, 1 - varied])
    splitter = MultilabelStratifiedShuffleSplit(n_splits=1, test_size=size, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's warning on classes with one member is the normal case here
        return np.sort(next(splitter.split(np.zeros(len(varied)), varied))[1])


def within_source(
    annotations: pd.DataFrame, seed: int = 0, test: float = 0.2, val: float = 0.1, keep=None
) -> pd.DataFrame:
    """Split the images of each source, stratified by the labels on them (S1; and S2 where `keep` is given).

    Multilabel stratified shuffle split (Sechidis et al., 2011, doi:10.1007/978-3-642-23808-6_10) per source, on images
    (section 4.1). S2 has the image assignment of S1, restricted to the annotations in `keep`: an image that is for
    testing in one is for testing in the other, so that the two can be compared.

    Parameters
    ----------
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``, ``label``; row order does not matter.
    seed : int
    test, val : float
        Fraction of each source's images, to within a few: iterative stratification trades the exact size for the
        balance of labels. A source with too few images is all training.
    keep : collection of annotation_id, optional
        The annotations of S2: those that pass both review filters.

    Returns
    -------
    DataFrame
        The splits table.

    Raises
    ------
    ReefcoreError
        Where a label is missing, an annotation stands twice, or the fractions leave nothing to train on.
    """
    if min(test, val) < 0 or test + val >= 1:
        raise ReefcoreError(
            f"test={test} and val={val} leave nothing to train on", do="give fractions that sum to less than 1"
        )
    annotations = _ordered(annotations)
    part = np.full(len(annotations), "train", dtype=object)
    for number, (_, rows) in enumerate(annotations.groupby("source", sort=True)):
        image, images = pd.factorize(rows["image"], sort=True)
        label, labels = pd.factorize(rows["label"], sort=True)
        hot = np.zeros((len(images), len(labels)), dtype="int8")
        hot[image, label] = 1
        chosen = _share(hot, round(test * len(images)), seed + number)
        rest = np.setdiff1d(np.arange(len(images)), chosen)
        second = rest[_share(hot[rest], round(val * len(images)), seed + number)]
        of_image = np.full(len(images), "train", dtype=object)
        of_image[chosen], of_image[second] = "test", "val"
        part[rows.index] = of_image[image]
    table = _table(annotations, "S1", part)
    if keep is not None:
        table = pd.concat([table, table[among(table["annotation_id"], keep)].assign(scheme="S2")], ignore_index=True)
    return validate(table, "splits")


def allocate_sources(
    annotations: pd.DataFrame, agreement: pd.Series, n_test: int = TEST_SOURCES, n_val: int = VAL_SOURCES, seed: int = 0
) -> pd.Series:
    """Allocate whole sources to train, val and test (section 4.2).

    Test sources are selected first, "to prioritize high expert agreement and maximize class overlap with training";
    validation sources next, "to maintain overlap with both". The paper gives no algorithm; this one is greedy. A source
    can be taken only while every label it has stays in at least one source for training. Of those that can be taken,
    the one with the largest agreement squared times (1 + labels that the part does not have yet) is taken.

    Parameters
    ----------
    annotations : DataFrame
        ``source``, ``label`` of the eligible annotations.
    agreement : Series
        Expert agreement (fraction) by source.
    n_test, n_val : int
    seed : int
        Breaks ties.

    Returns
    -------
    Series
        Part by source.

    Raises
    ------
    ReefcoreError
        Where there are not enough sources to take from.
    """
    sources = sorted(annotations["source"].unique())
    if n_test + n_val >= len(sources):
        raise ReefcoreError(
            f"{n_test} test and {n_val} validation sources cannot be taken from {len(sources)} sources",
            do="take fewer, or bring more sources",
        )
    labels = annotations.groupby("source")["label"].unique().map(set)
    tie = dict(zip(sources, np.random.default_rng(seed).random(len(sources)), strict=True))
    part = pd.Series("train", index=sources)
    for name, wanted in (("test", n_test), ("val", n_val)):
        covered: set = set()
        for _ in range(wanted):
            train = part.index[part == "train"]
            holders = pd.Series([label for source in train for label in labels[source]]).value_counts()
            free = [source for source in train if all(holders[label] > 1 for label in labels[source])]
            if not free:
                raise ReefcoreError(
                    f"no source can be taken for {name} without losing a label from training",
                    do=f"ask for fewer than {wanted} {name} sources",
                )
            best = max(free, key=lambda s: (agreement.get(s, 0.0) ** 2 * (1 + len(labels[s] - covered)), tie[s]))
            part[best] = name
            covered |= labels[best]
    return part


def across_sources(
    annotations: pd.DataFrame,
    seed: int = 0,
    keep=None,
    agreement: pd.Series | None = None,
    n_test: int = TEST_SOURCES,
    n_val: int = VAL_SOURCES,
) -> pd.DataFrame:
    """Split by whole sources (S3; and S4 where `keep` is given).

    Both schemes share val and test, which hold only annotations in `keep` where it is given (Val-S3&S4 and Test-S3&S4
    of Table 2); Train-S3 has every annotation of the training sources, Train-S4 those in `keep`. Annotations of val
    or test sources that are not in `keep` are in neither.

    Parameters
    ----------
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``, ``label``.
    seed : int
    keep : collection of annotation_id, optional
        Annotations that pass both review filters.
    agreement : Series, optional
        Expert agreement by source (see `allocate_sources`); by default every source counts the same.
    n_test, n_val : int
        Numbers of sources.

    Returns
    -------
    DataFrame
        The splits table.
    """
    annotations = _ordered(annotations)
    kept = np.ones(len(annotations), bool) if keep is None else among(annotations["annotation_id"], keep)
    eligible = annotations[kept]
    if agreement is None:
        agreement = pd.Series(1.0, index=sorted(annotations["source"].unique()))
    part = annotations["source"].map(allocate_sources(eligible, agreement, n_test, n_val, seed)).fillna("train")
    table = _table(annotations, "S3", part)[kept | (part == "train").to_numpy()]
    if keep is not None:
        table = pd.concat([table, table[among(table["annotation_id"], keep)].assign(scheme="S4")], ignore_index=True)
    return validate(table, "splits")


def held_out(annotations: pd.DataFrame) -> pd.DataFrame:
    """Put every annotation of a held-out site in the test part of scheme W (section 4.2, Test-W)."""
    return validate(_table(_ordered(annotations), "W", "test"), "splits")


def unfiltered(annotations: pd.DataFrame, splits: pd.DataFrame) -> pd.DataFrame:
    """Put every annotation of the sources that S3 tests on in the test part of scheme U.

    Test-S3&S4 holds only what passes the last review filter; Table 12 has a cross-source row with that filter (QC) and
    one without, of which the paper says no more.

    Parameters
    ----------
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``, ``label`` of what S3 was made of.
    splits : DataFrame
        From `across_sources`.
    """
    tested = splits.loc[(splits["scheme"] == "S3") & (splits["part"] == "test"), "annotation_id"]
    sources = annotations.loc[among(annotations["annotation_id"], tested), "source"].unique()
    return validate(_table(_ordered(annotations[annotations["source"].isin(sources)]), "U", "test"), "splits")


def released(annotations: pd.DataFrame, scheme: str = "S1") -> pd.DataFrame:
    """Read the splits that a released file brings along, in columns ``split`` or ``split_S1`` to ``split_W``.

    Parameters
    ----------
    annotations : DataFrame
        With any of these columns; values train, val or test (also training, valid, validation, testing, in any case); a
        row that is empty there is in no part.
    scheme : str
        What a column that is only called ``split`` belongs to.

    Returns
    -------
    DataFrame
        The splits table; no rows where there is no such column.

    Raises
    ------
    ReefcoreError
        Where a value is none of these.
    """
    names = {str(name).casefold(): name for name in annotations}
    tables = [_table(annotations[:0], scheme, [])]
    for own, column in [(scheme, "split"), *((name, f"split_{name}".casefold()) for name in SCHEMES)]:
        if column not in names:
            continue
        said = annotations[names[column]].astype("str").str.strip().str.casefold()
        part = said.replace({"training": "train", "valid": "val", "validation": "val", "testing": "test", "": pd.NA})
        wrong = part.notna() & ~part.isin(PARTS)
        if wrong.any():
            raise ReefcoreError(
                f"the column {names[column]} says {said[wrong].iloc[0]!r} for {wrong.sum()} annotations",
                do=f"use {', '.join(PARTS)}, or leave it empty",
            )
        tables.append(_table(annotations[part.notna()], own, part[part.notna()]))
    return validate(pd.concat(tables, ignore_index=True).drop_duplicates(["annotation_id", "scheme"]), "splits")


def make(
    annotations: pd.DataFrame,
    quality: pd.DataFrame,
    seed: int = 0,
    n_test: int = TEST_SOURCES,
    n_val: int = VAL_SOURCES,
) -> pd.DataFrame:
    """Make every scheme of the benchmark; one that the annotations bring along is taken as it is (see `released`).

    Parameters
    ----------
    annotations : DataFrame
        The annotations table, duplicates or not.
    quality : DataFrame
        From `reefcore.review.quality`.
    seed, n_test, n_val : see `across_sources`

    Returns
    -------
    DataFrame
        The splits table: S1-S4 of what passes step 1 of the review (S2 and S4: and step 2), W of the held-out site, U
        of the test sources of S3 and S4 without step 2.
    """
    site = quality[quality["site"]]
    pool = quality[quality["step1"] & ~quality["site"]]
    keep = set(pool.loc[pool["step2"], "annotation_id"])
    # A source is trusted by the share of its annotations whose pair of source and label the experts agree with: plain
    # agreement over its verdicts, ten of each label, would let its rarest labels weigh as much as its commonest.
    agreement = pool.groupby("source")["step2"].mean()
    across = across_sources(pool, seed, keep, agreement, n_test, n_val)
    parts = [within_source(pool, seed, keep=keep), across, unfiltered(pool, across)]
    if len(site):
        parts.append(held_out(site))
    made, brought = pd.concat(parts, ignore_index=True), released(annotations)
    brought = brought[among(brought["annotation_id"], quality["annotation_id"])]
    return validate(pd.concat([made[~made["scheme"].isin(brought["scheme"])], brought], ignore_index=True), "splits")


def _joined(splits: pd.DataFrame, annotations: pd.DataFrame) -> pd.DataFrame:
    """Give each row of the splits table what is known of its annotation; rows of unknown ones go, as in a merge."""
    at = positions(splits["annotation_id"], annotations["annotation_id"])
    known = annotations.drop(columns="annotation_id").iloc[at[at >= 0]].reset_index(drop=True)
    return splits[at >= 0].reset_index(drop=True).join(known)


def _training(scheme: str) -> tuple[str, str]:
    """Name the training part that a scheme's models are trained on; W and U are tests of those of S3."""
    return "S3" if scheme in ("W", "U") else scheme, "train"


def summary(splits: pd.DataFrame, annotations: pd.DataFrame, reviews: pd.DataFrame | None = None) -> pd.DataFrame:
    """Summarise splits as the paper's Table 2 does.

    Returns
    -------
    DataFrame
        ``scheme``, ``part``, ``annotations``, ``classes``, ``sources``, ``images``, ``agreement`` (fraction of
        verdicts that are correct; NaN without reviews), ``classes_in_train`` (classes of the part that its training
        part has too; for W, that Train-S3 has).
    """
    # Numbers are counted many times faster than texts, and the tables can have millions of rows.
    coded = pd.DataFrame({name: pd.factorize(annotations[name])[0] for name in ("source", "image", "label")})
    coded["image"] = coded["source"] * (coded["image"].max() + 1) + coded["image"]
    coded["annotation_id"] = annotations["annotation_id"].array
    joined = _joined(splits, coded)
    if reviews is None:
        reviews = pd.DataFrame({"annotation_id": [], "verdict": []}, dtype="str")
    seen = joined[among(joined["annotation_id"], reviews["annotation_id"])]
    said = reviews[["annotation_id", "verdict"]].merge(seen, on="annotation_id")
    agreement = said["verdict"].eq("correct").groupby([said["scheme"], said["part"]]).mean()
    labels = joined.groupby(["scheme", "part"])["label"].unique().map(set)
    rows = []
    for (scheme, part), here in joined.groupby(["scheme", "part"], sort=True):
        train = labels.get(_training(scheme), set())
        rows.append(
            {
                "scheme": scheme,
                "part": part,
                "annotations": len(here),
                "classes": len(labels[scheme, part]),
                "sources": here["source"].nunique(),
                "images": here["image"].nunique(),
                "agreement": agreement.get((scheme, part), np.nan),
                "classes_in_train": len(labels[scheme, part] & train),
            }
        )
    table = pd.DataFrame(rows)
    order = {"train": 0, "val": 1, "test": 2}
    return table.sort_values(
        ["scheme", "part"], key=lambda s: s.map(order) if s.name == "part" else s, ignore_index=True
    )


def leaks(splits: pd.DataFrame, annotations: pd.DataFrame, twins: pd.DataFrame | None = None) -> pd.DataFrame:
    """Count images and sources that stand in more than one part of a scheme.

    Parameters
    ----------
    splits, annotations : DataFrame
    twins : DataFrame, optional
        Pairs of near-duplicate photos: ``source_a``, ``image_a``, ``source_b``, ``image_b`` (see
        `reefcore.covariates.near_duplicates`).

    Returns
    -------
    DataFrame
        ``scheme``, ``images`` and ``sources`` in more than one part; images is 0 for every scheme, sources for S3, S4
        and W. With `twins`, ``near_duplicates``: pairs with one photo in the training part, the other in val or test.
    """
    joined = _joined(splits, annotations[["annotation_id", "source", "image"]])
    rows = []
    for scheme, here in joined.groupby("scheme", sort=True):
        parts = here.drop_duplicates(["source", "image", "part"]).groupby(["source", "image"])["part"]
        row = {
            "scheme": scheme,
            "images": int(parts.nunique().gt(1).sum()),
            "sources": int(here.groupby("source")["part"].nunique().gt(1).sum()),
        }
        if twins is not None:
            trained = parts.first().eq("train")
            sides = [trained.reindex(pd.MultiIndex.from_frame(twins[[f"source_{s}", f"image_{s}"]])) for s in "ab"]
            both = sides[0].notna().to_numpy() & sides[1].notna().to_numpy()
            row["near_duplicates"] = int((both & (sides[0].to_numpy() != sides[1].to_numpy())).sum())
        rows.append(row)
    return pd.DataFrame(rows)


def label_shift(splits: pd.DataFrame, annotations: pd.DataFrame) -> pd.DataFrame:
    """Measure how far the classes of val and test are from those of the training part.

    Returns
    -------
    DataFrame
        ``scheme``, ``part``, ``shift`` (total variation distance of the class frequencies, 0 the same to 1 disjoint; W
        against Train-S3), ``only_here`` (classes that training lacks), ``only_train`` (classes the part lacks).
    """
    joined = _joined(splits, annotations[["annotation_id", "label"]])
    counts = joined.groupby(["scheme", "part", "label"]).size().unstack(fill_value=0)
    rows = []
    for scheme, part in counts.index:
        train = _training(scheme)
        if part == "train" or train not in counts.index:
            continue
        here, there = counts.loc[(scheme, part)], counts.loc[train]
        shift = 0.5 * (here / here.sum() - there / there.sum()).abs().sum()
        only_here, only_train = ((here > 0) & (there == 0)).sum(), ((here == 0) & (there > 0)).sum()
        rows.append((scheme, part, shift, int(only_here), int(only_train)))
    return pd.DataFrame(rows, columns=["scheme", "part", "shift", "only_here", "only_train"])
