"""Train a recipe on a scheme's training part, choose a checkpoint on its validation part, predict its test parts."""

from __future__ import annotations

import contextlib
import logging
import sys
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import taxonomy
from reefcore.errors import ReefcoreError
from reefcore.predictions import from_scores
from reefcore.recipes import Recipe
from reefcore.tables import positions

logger = logging.getLogger(__name__)

#: Training scheme -> the schemes on whose test part its model is evaluated (paper, Table 3). The test parts of S3 and
#: S4 are one and the same; W is the site that no source of the others comes from.
TESTS = {"S1": ("S1",), "S2": ("S2",), "S3": ("S3", "W"), "S4": ("S4", "W")}
MOST_VALIDATION = 2000  # points whose answers are kept for calibration


@dataclass(frozen=True)
class Run:
    """What training left: tables, and the model itself.

    Attributes
    ----------
    predictions : DataFrame
        A predictions table with run_id ``<run>-<test scheme>``, one score per class of the training set (sorted). Test
        points of a class that was not trained on are predicted too, and can only be errors. The answers of a family
        head have run_id ``<run's name>.family-<training set>-<test scheme>``.
    validation : DataFrame
        The same for points of the validation part, drawn as they come, with run_id ``<run>-val``.
    history : DataFrame
        ``run`` and the columns of `reefcore.fitting.Fitted.history`.
    facts : DataFrame
        One row: ``run``, ``recipe``, ``train_set``, ``seed``, ``parameters``, ``train_patches``, ``epochs``,
        ``best_epoch``, ``seconds`` (of training), ``images_per_second`` (the median epoch's), ``memory_mb`` (the most
        that training held: of the GPU, or of the process) and ``device``.
    fitted : Fitted
    """

    predictions: pd.DataFrame
    validation: pd.DataFrame
    history: pd.DataFrame
    facts: pd.DataFrame
    fitted: object


def name_of(recipe: str, train_set: str, seed: int = 0) -> str:
    """Name a run: ``<recipe>-<training set>``, with the seed where it is not 0 (``vit.seed1-S3``)."""
    return f"{recipe}.seed{seed}-{train_set}" if seed else f"{recipe}-{train_set}"


def run(
    recipe: Recipe,
    train_set: str,
    patches,
    annotations: pd.DataFrame,
    splits: pd.DataFrame,
    *,
    name: str | None = None,
    without: Collection[str] = (),
    seed: int = 0,
    threads: int = 1,
    start: str | Path | None = None,
    resume: str | Path | None = None,
    about: dict | None = None,
) -> Run:
    """Train a recipe on one training set and predict every test set it is evaluated on.

    Parameters
    ----------
    recipe : Recipe
    train_set : {'S1', 'S2', 'S3', 'S4'}
    patches : ArrayPatches or ShardPatches
    annotations : DataFrame
        ``annotation_id`` and ``label`` of at least the points in `splits`.
    splits : DataFrame
        ``annotation_id``, ``scheme``, ``part``. A scheme without validation part keeps the last epoch; a test scheme
        without test part gives no predictions. Points without a patch are left out and counted in the log.
    name : str, optional
        Of the run; by default `name_of` recipe, training set and seed.
    without : collection of str
        Classes that are not trained on and not validated with, though they are tested: the unknown of an open set.
    seed, threads, start, resume, about : see `reefcore.fitting.fit`

    Raises
    ------
    ReefcoreError
        Where there is nothing to train on or to test, or training fails.
    """
    from reefcore.fitting import fit, predict  # imports torch

    if train_set not in TESTS:
        raise ReefcoreError(f"there is no training set {train_set!r}", do=f"choose from {', '.join(TESTS)}")
    wanted = _with_patches(splits[splits["scheme"].isin({train_set, *TESTS[train_set]})], patches, train_set)
    found = positions(wanted["annotation_id"], annotations["annotation_id"])
    labels = annotations["label"].to_numpy("object")[found]
    unknown = pd.isna(labels) | (found < 0)
    if unknown.any():
        raise ReefcoreError(
            f"{unknown.sum()} points of the splits have no label among the annotations",
            do="make the splits of these annotations again",
        )
    wanted = wanted.assign(label=labels)
    family = taxonomy.family_of(sorted(set(labels))) if recipe.task in ("family", "genus_family") else None
    if recipe.task == "family":
        wanted["label"] = wanted["label"].map(family)

    if stray := sorted(set(without) - set(wanted["label"])):
        raise ReefcoreError(f"{', '.join(stray)} cannot be left out of {train_set}: there are no points of it")

    def part(scheme, name):
        return wanted[(wanted["scheme"] == scheme) & (wanted["part"] == name)]

    train, val = (rows[~rows["label"].isin(without)] for rows in (part(train_set, "train"), part(train_set, "val")))
    tests = {scheme: test for scheme in TESTS[train_set] if len(test := part(scheme, "test"))}
    if not tests:
        raise ReefcoreError(
            f"none of {', '.join(TESTS[train_set])} has test points with a patch", do="check the splits"
        )
    classes = sorted(train["label"].unique())
    rng = generator(seed, recipe.name, train_set, "draw")
    train = capped(train, recipe.train_per_class, rng)
    known = val[val["label"].isin(classes)]
    code = {name: i for i, name in enumerate(classes)}

    def places(frame):
        return frame["patch"].to_numpy(), frame["label"].map(code).to_numpy("int64")

    name = name or name_of(recipe.name, train_set, seed)
    memory = Memory()
    fitted = fit(
        recipe,
        patches,
        places(train),
        places(capped(known, recipe.val_per_class, rng)),
        classes,
        seed=int(generator(seed, recipe.name, train_set, "fit").integers(2**31)),
        threads=threads,
        families=None if family is None else family.to_dict(),
        start=start,
        resume=resume,
        about={"run": name, **(about or {})},
    )

    def answers(points, run_id, of_families=False):
        scores = predict(fitted, (patches, points["patch"].to_numpy()), threads, of_families)
        scored = fitted.learner.families if of_families else classes
        truth = points["label"].map(family) if of_families else points["label"]
        return from_scores(run_id, points["annotation_id"], truth, scores, scored)

    tables = [answers(test, f"{name}-{scheme}") for scheme, test in tests.items()]
    if recipe.task == "genus_family":
        second = name.replace(recipe.name, f"{recipe.name}.family", 1)
        tables += [answers(test, f"{second}-{scheme}", True) for scheme, test in tests.items()]
    drawn = val.iloc[np.sort(rng.permutation(len(val))[:MOST_VALIDATION])]
    validation = answers(drawn, f"{name}-val") if len(val) else tables[0].iloc[:0]
    return Run(
        pd.concat(tables, ignore_index=True),
        validation,
        fitted.history.assign(run=name)[["run", *fitted.history]],
        facts(fitted, recipe, train_set, seed, len(train), memory),
        fitted,
    )


def pretrain(
    recipe: Recipe,
    patches,
    splits: pd.DataFrame,
    *,
    seed: int = 0,
    threads: int = 1,
    resume: str | Path | None = None,
    about: dict | None = None,
) -> Run:
    """Pretrain a masked autoencoder on every patch that no scheme tests on, without its label.

    The paper (A.3.1) pretrained on the patches of all 85 sources before the last filters; whether those of the test
    parts were among them it does not say. Here they are not.

    Parameters
    ----------
    recipe : Recipe
        Of the task 'masked'; at most ``40 * train_per_class`` patches are drawn, all where that is 0.
    patches, splits, seed, threads, resume, about : see `run`

    Returns
    -------
    Run
        Without predictions; ``fitted.learner.encoder_state()`` is what fine-tuning starts from.
    """
    from reefcore.fitting import fit

    tested = splits.loc[splits["part"] == "test", "annotation_id"]
    ids = pd.Series(patches.ids, dtype="str")
    free = np.flatnonzero(positions(ids, tested) < 0)
    if most := recipe.train_per_class:
        rng = generator(seed, recipe.name, "draw")
        free = np.sort(rng.permutation(free)[: 40 * most])
    memory = Memory()
    nothing = (np.zeros(0, "int64"),) * 2
    fitted = fit(
        recipe,
        patches,
        (free, np.zeros(len(free), "int64")),
        nothing,
        [],
        seed=int(generator(seed, recipe.name, "fit").integers(2**31)),
        threads=threads,
        resume=resume,
        about={"run": recipe.name, **(about or {})},
    )
    none = pd.DataFrame()
    history = fitted.history.assign(run=recipe.name)[["run", *fitted.history]]
    return Run(none, none, history, facts(fitted, recipe, "", seed, len(free), memory), fitted)


def _with_patches(points: pd.DataFrame, patches, train_set: str) -> pd.DataFrame:
    """Find the patch of each point; those without one are counted in the log and left out."""
    points = points.sort_values("annotation_id", kind="stable")
    points = points.assign(patch=positions(points["annotation_id"], pd.Series(patches.ids, dtype="str")))
    if lost := int((points["patch"] < 0).sum()):
        logger.warning("%d of %d points of %s have no patch and are left out.", lost, len(points), train_set)
    return points[points["patch"] >= 0]


def generator(seed: int, *key: str) -> np.random.Generator:
    """Make a generator of a seed and a stable key of text."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32("\x1f".join(key).encode())]))


def capped(frame: pd.DataFrame, cap: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw at most `cap` rows per label (0 takes all), in the order of the frame."""
    if not cap:
        return frame
    order = rng.permutation(len(frame))
    kept = frame["label"].iloc[order].reset_index(drop=True)
    return frame.iloc[np.sort(order[kept.groupby(kept).cumcount() < cap])]


def facts(fitted, recipe: Recipe, train_set: str, seed: int, patches: int, memory: Memory) -> pd.DataFrame:
    history, learner = fitted.history, fitted.learner
    row = {
        "run": fitted.about["run"],
        "recipe": recipe.name,
        "train_set": train_set,
        "seed": seed,
        "parameters": sum(p.numel() for p in learner.parameters() if p.requires_grad),
        "train_patches": patches,
        "epochs": len(history),
        "best_epoch": fitted.best_epoch,
        "seconds": history["seconds"].sum(),
        "images_per_second": history["images_per_second"].median(),
        "memory_mb": memory.most(),
        "device": next(learner.parameters()).device.type,
    }
    return pd.DataFrame([row])


class Memory:
    """The most memory held from now on: of the GPU where there is one, else of the process, in megabytes."""

    def __init__(self):
        import torch

        self.cuda = torch.cuda.is_available()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        elif sys.platform == "linux":
            with contextlib.suppress(OSError):  # where that is not allowed, it counts from the start of the process
                Path("/proc/self/clear_refs").write_text("5")

    def most(self) -> float:
        import torch

        if self.cuda:
            return torch.cuda.max_memory_allocated() / 1e6
        if sys.platform != "linux":
            return float("nan")
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1e3
