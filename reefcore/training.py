"""Train a recipe on a scheme's training part, choose a checkpoint on its validation part, predict its test parts."""

from __future__ import annotations

import logging
import zlib

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.predictions import from_scores
from reefcore.recipes import Recipe

logger = logging.getLogger(__name__)

#: Training scheme -> the schemes on whose test part its model is evaluated (paper, Table 3). The test parts of S3 and
#: S4 are one and the same; W is the site that no source of the others comes from.
TESTS = {"S1": ("S1",), "S2": ("S2",), "S3": ("S3", "W"), "S4": ("S4", "W")}


def run(
    recipe: Recipe,
    train_set: str,
    patches: np.ndarray,
    annotations: pd.DataFrame,
    splits: pd.DataFrame,
    *,
    patch_ids,
    seed: int = 0,
    threads: int = 1,
) -> pd.DataFrame:
    """Train a recipe on one training set and predict every test set it is evaluated on.

    Parameters
    ----------
    recipe : Recipe
    train_set : {'S1', 'S2', 'S3', 'S4'}
    patches : ndarray of uint8, shape (n, size, size, 3)
        May be memory-mapped.
    annotations : DataFrame
        ``annotation_id`` and ``label`` of at least the points in `splits`.
    splits : DataFrame
        ``annotation_id``, ``scheme``, ``part``. A scheme without validation part keeps the last epoch; a test scheme
        without test part gives no predictions.
    patch_ids : sequence of str, length n
        The annotation_id of each patch. Points of `splits` without a patch are left out and counted in the log.
    seed, threads : int

    Returns
    -------
    DataFrame
        A predictions table with run_id ``<recipe>-<train_set>-<test scheme>``, one score per class of the training set
        (sorted). Test points of a class that was not trained on are predicted too, and can only be errors.

    Raises
    ------
    ReefcoreError
        Where there is nothing to train on or to test, or the loss is not finite.
    """
    from reefcore.fitting import fit, predict  # imports torch

    if train_set not in TESTS:
        raise ReefcoreError(f"there is no training set {train_set!r}", do=f"choose from {', '.join(TESTS)}")
    if len(patch_ids) != len(patches):
        raise ReefcoreError(f"{len(patches)} patches but {len(patch_ids)} ids", do="build the patches again")
    position = pd.Series(np.arange(len(patch_ids)), index=pd.Index(patch_ids, dtype="str"))
    labels = annotations.drop_duplicates("annotation_id").set_index("annotation_id")["label"]
    wanted = splits[splits["scheme"].isin({train_set, *TESTS[train_set]})].sort_values("annotation_id", kind="stable")
    wanted = wanted.assign(patch=wanted["annotation_id"].map(position), label=wanted["annotation_id"].map(labels))
    if lost := int(wanted["patch"].isna().sum()):
        logger.warning("%d of %d points of %s have no patch and are left out.", lost, len(wanted), train_set)
        wanted = wanted[wanted["patch"].notna()]
    if wanted["label"].isna().any():
        raise ReefcoreError(
            f"{wanted['label'].isna().sum()} points of the splits have no label among the annotations",
            do="make the splits of these annotations again",
        )
    wanted = wanted.astype({"patch": "int64"})

    def part(scheme, name):
        return wanted[(wanted["scheme"] == scheme) & (wanted["part"] == name)]

    train, val = part(train_set, "train"), part(train_set, "val")
    tests = {scheme: test for scheme in TESTS[train_set] if len(test := part(scheme, "test"))}
    if not tests:
        raise ReefcoreError(
            f"none of {', '.join(TESTS[train_set])} has test points with a patch", do="check the splits"
        )
    classes = sorted(train["label"].unique())
    rng = _generator(seed, recipe.name, train_set, "draw")
    train = _capped(train, recipe.train_per_class, rng)
    val = _capped(val[val["label"].isin(classes)], recipe.val_per_class, rng)
    code = {name: i for i, name in enumerate(classes)}

    def xy(frame):
        return patches[frame["patch"].to_numpy()], frame["label"].map(code).to_numpy("int64")

    stable_seed = int(_generator(seed, recipe.name, train_set, "fit").integers(2**31))
    fitted = fit(recipe, *xy(train), *xy(val), classes, stable_seed, threads)
    return pd.concat(
        [
            from_scores(
                f"{recipe.name}-{train_set}-{scheme}",
                test["annotation_id"],
                test["label"],
                predict(fitted, patches[test["patch"].to_numpy()], threads),
                classes,
            )
            for scheme, test in tests.items()
        ],
        ignore_index=True,
    )


def _generator(seed: int, *key: str) -> np.random.Generator:
    """Make a generator of a seed and a stable key of text."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32("\x1f".join(key).encode())]))


def _capped(frame: pd.DataFrame, cap: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw at most `cap` rows per label (0 takes all), in the order of the frame."""
    if not cap:
        return frame
    shuffled = frame.iloc[rng.permutation(len(frame))]
    return shuffled[shuffled.groupby("label").cumcount() < cap].sort_values("annotation_id", kind="stable")
