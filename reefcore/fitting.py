"""The trainer: one loop for every recipe, on one CPU thread or many GPUs; killed, it goes on. Imports torch.

Everything random of an epoch follows from the seed, the epoch and the process, so a run that is resumed ends as one
that was not interrupted: on CPU, with the same number of threads, to the last bit. On few cores use one thread per
process and run processes side by side: on two cores, two processes with two threads each are slower than one with one.

Started by ``torchrun``, every process calls `fit` and `predict` alike; Lightning Fabric shares out the work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from lightning_fabric import Fabric
from timm.utils import distribute_bn
from tqdm import tqdm

from reefcore import learners, weights
from reefcore.augment import Augmentation, normalised, seed_all
from reefcore.errors import ReefcoreError
from reefcore.learners import Learner
from reefcore.patches import ArrayPatches
from reefcore.recipes import Recipe

logger = logging.getLogger(__name__)

EVALUATION_BATCH = 256
CHECK_EVERY = 50  # steps between looks at the losses on a GPU: each look waits for it
HISTORY = ["epoch", "loss", "lr", "images_per_second", "val_macro_recall", "seconds"]
REPEATABLE = ["epoch", "loss", "lr", "val_macro_recall"]
PRECISION = {"off": "32-true", "fp16": "16-mixed", "bf16": "bf16-mixed"}
DECAY, PATIENCE, FLOOR = 0.5, 3, 3e-5  # of the schedule plateau (the substrate paper's authors' code)
IDLE = 20.0  # seconds between two lines of the log


@dataclass
class Fitted:
    """A trained learner at its chosen epoch.

    Attributes
    ----------
    learner : Learner
        Its `classes` are in the order of its outputs.
    recipe : Recipe
    history : DataFrame
        One row per epoch: ``epoch`` (from 1), ``loss`` (mean over its patches), ``lr`` (the largest, at its end),
        ``images_per_second`` (of training, all processes together), ``val_macro_recall`` (NaN without validation
        patches) and ``seconds``. A loaded checkpoint has it without images per second and seconds.
    best_epoch : int
    crop : int
        Side in pixels of the patches it was trained on.
    about : dict
        What else the caller wanted to keep.
    """

    learner: Learner
    recipe: Recipe
    history: pd.DataFrame
    best_epoch: int
    crop: int
    about: dict = dataclasses.field(default_factory=dict)

    @property
    def classes(self) -> list[str]:
        """What is scored, in the order of the outputs."""
        return self.learner.classes

    def save(self, path: str | Path) -> Path:
        """Write a checkpoint: safetensors, with everything that `load` needs.

        The same training gives the same bytes, so the columns of `history` that a clock makes are left out.
        """
        # The learner's recipe has what came with weights from the hub: a CLIP model's shape and preprocessing.
        recipe = dataclasses.replace(self.learner.recipe, weights=self.recipe.weights)
        known = {
            "recipe": dataclasses.asdict(recipe),
            "classes": self.classes,
            "families": self._families(),
            "history": self.history[REPEATABLE].to_dict("list"),
            "best_epoch": self.best_epoch,
            "crop": self.crop,
            "about": self.about,
        }
        return weights.save(self.learner.state_dict(), path, known)

    def _families(self) -> dict[str, str] | None:
        if not hasattr(self.learner, "families"):
            return None
        of = self.learner.membership.argmax(dim=1).tolist()
        return {genus: self.learner.families[i] for genus, i in zip(self.classes, of, strict=True)}


def load(path: str | Path) -> Fitted:
    """Read a checkpoint of `Fitted.save`.

    Raises
    ------
    ReefcoreError
        Where the file is missing, cut off, or was not written by this trainer.
    """
    state, known = weights.read(path)
    if "recipe" not in known:
        raise ReefcoreError(
            "this is not a checkpoint of a trained model",
            path,
            "give the file that `reefcore train` wrote for a training set",
        )
    try:
        values = {key: tuple(v) if isinstance(v, list) else v for key, v in known["recipe"].items()}
        recipe = Recipe(**values)
        # Nothing is fetched, the weights are in the file; and no class counts are needed, as no loss is.
        bare = dataclasses.replace(recipe, weights="scratch", loss=recipe.loss and "ce")
        learner = learners.build(bare, known["classes"], families=known["families"])
        learner.load_state_dict(state)
    except (TypeError, RuntimeError) as error:
        raise ReefcoreError(
            f"this checkpoint is of another version of reefcore ({' '.join(str(error).split())[:200]})",
            path,
            "train the recipe again",
        ) from None
    return Fitted(learner, recipe, pd.DataFrame(known["history"]), known["best_epoch"], known["crop"], known["about"])


def launch(amp: str) -> Fabric:
    """Set up devices, precision and, under torchrun, the group of processes."""
    world, local = (int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    fabric = Fabric(
        accelerator=accelerator,
        devices=local,
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
        # no CPU is fast at fp16, so what a GPU trained so is used there as plain numbers
        precision=PRECISION["off" if accelerator == "cpu" and amp == "fp16" else amp],
    )
    if world > 1:
        fabric.launch()
    return fabric


_kept = functools.cache(launch)  # for predicting, which leaves no state in it: setting up takes longer than some photos


def fit(
    recipe: Recipe,
    patches,
    train: tuple[np.ndarray, np.ndarray],
    val: tuple[np.ndarray, np.ndarray],
    classes: list[str],
    *,
    seed: int = 0,
    threads: int = 1,
    families: dict[str, str] | None = None,
    start: str | Path | None = None,
    resume: str | Path | None = None,
    about: dict | None = None,
) -> Fitted:
    """Train a recipe on patches, keeping the epoch with the best macro recall on the validation patches.

    Parameters
    ----------
    recipe : Recipe
        Its `train_per_class` and `val_per_class` are for `reefcore.training`; the patches given here are all used.
    patches : ArrayPatches or ShardPatches
    train, val : (positions in `patches`, positions in `classes`), ndarrays of int64, shape (n,)
        Without validation patches, and for masked pretraining, the last epoch is kept.
    classes : list of str
        Empty for masked pretraining, whose labels are not looked at.
    seed, threads : int
    families : dict of str, optional
        Genus -> family, for the task 'genus_family'.
    start : path, optional
        The weights that ``weights: recipe:<name>`` stands for.
    resume : path, optional
        Where the state after each epoch is kept; if it is there, of the same training, it goes on from it. It stays at
        the end, so that nothing is lost until the caller has what it needs of the result, and removes it.
    about : dict, optional
        Kept in the checkpoint.

    Raises
    ------
    ReefcoreError
        With too little to train on, a model or weights that cannot be had, or a loss that is not finite: it names the
        epoch, the batch and its first patches.
    """
    (positions, y), (val_positions, val_y) = train, val
    with _settings(threads):
        fabric = launch(recipe.amp)
        if len(positions) < 2 * fabric.world_size or (recipe.task != "masked" and len(classes) < 2):
            raise ReefcoreError(f"{len(positions)} patches of {len(classes)} classes are not enough for {recipe.name}")
        seed_all(seed, 0)  # every process starts from the same weights
        counts = np.bincount(y, minlength=len(classes)) if classes else None
        learner = learners.build(recipe, classes, counts=counts, families=families, weights=start)
        batch = min(recipe.batch_size, max(len(positions) // fabric.world_size, 2))
        updates = max(len(_epoch(y, recipe, seed, 0)) // (batch * fabric.world_size), 1)
        optimiser, schedule = _optimiser(recipe, learner, updates)
        module, optimiser = fabric.setup(learner, optimiser)
        average = _average(recipe, learner)
        judged = average.module if average else learner
        name = (about or {}).get("run", recipe.name)
        same = (dataclasses.asdict(recipe), classes, seed, fabric.world_size)
        progress = _Progress(resume, (*same, resume and _digest(patches, (train, val), start)))
        progress.load(fabric, learner, optimiser, average)
        if recipe.schedule == "plateau" and not (len(val_positions) and classes):
            raise ReefcoreError(f"the schedule plateau of {recipe.name} waits for validation patches, and has none")
        augmentation = Augmentation(recipe, len(classes))
        feed = _Feed(patches, positions, y, recipe, augmentation)
        watch_val = _held(patches, val_positions, recipe) if len(val_positions) else None
        quiet = not (fabric.is_global_zero and sys.stderr.isatty())
        bar = tqdm(total=recipe.epochs * updates, desc=name, leave=False, disable=quiet)
        bar.update(progress.epoch * updates)
        for epoch in range(progress.epoch + 1, recipe.epochs + 1):
            order = _epoch(y, recipe, seed, epoch)[fabric.global_rank :: fabric.world_size]
            key = (seed, epoch, fabric.global_rank)
            seed_all(*key)
            watched = [row[4] for row in progress.history]
            slower = plateau(watched, recipe.lr) / recipe.lr if recipe.schedule == "plateau" else 1.0
            began = shown = time.perf_counter()
            losses, pending = [], []
            module.train()
            for step, (x, target, chosen) in enumerate(feed.batches(order, batch, updates, key), start=1):
                schedule.step_update((epoch - 1) * updates + step - 1)
                for group in optimiser.param_groups if slower < 1 else ():
                    group["lr"] *= slower
                x, target = augmentation.batch(x.to(fabric.device), target.to(fabric.device))
                loss = module(x, target)
                losses.append(loss.detach())
                pending.append((step, losses[-1], chosen))
                if fabric.device.type == "cpu" or len(pending) == CHECK_EVERY or step == updates:
                    _finite(pending, name, epoch, positions, patches)
                    pending.clear()
                fabric.backward(loss)
                if recipe.clip_grad:
                    fabric.clip_gradients(module, optimiser, max_norm=recipe.clip_grad, error_if_nonfinite=False)
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
                if average:
                    average.update(learner, step=(epoch - 1) * updates + step)
                bar.update()
                if fabric.is_global_zero and time.perf_counter() - shown > IDLE:
                    shown = time.perf_counter()
                    rate = step * batch * fabric.world_size / (shown - began)
                    lr = _largest(optimiser)
                    logger.info(
                        "%s epoch %d step %d of %d: loss %.3f, lr %.2e, %.0f images/s",
                        *(name, epoch, step, updates, losses[-1], lr, rate),
                    )
            total = fabric.all_reduce(torch.stack(losses).mean(), reduce_op="mean").item()
            rate = len(losses) * batch * fabric.world_size / (time.perf_counter() - began)
            if fabric.world_size > 1:  # each process has seen other patches: all go on with the mean of what they saw
                for model in (learner, *([judged] if average else [])):
                    distribute_bn(model, fabric.world_size, reduce=True)
            value = float("nan")
            if watch_val is not None and classes:
                answers = _evaluated(fabric, judged, judged.logits, watch_val, recipe).argmax(axis=1)
                value = _macro_recall(val_y, answers)
            row = (epoch, total, _largest(optimiser), rate, value, time.perf_counter() - began)
            said = "%s epoch %d: loss %.3f, lr %.2e, %.0f images/s, validation macro recall %.3f, %.1f s"
            if fabric.is_global_zero:
                logger.info(said, name, *row)
            progress.add(row, judged)
            progress.save(fabric, learner, optimiser, average)
        bar.close()
        fabric.barrier()
        judged.load_state_dict(progress.best)
    table = pd.DataFrame(progress.history, columns=HISTORY)
    return Fitted(judged.eval(), recipe, table, progress.best_epoch, patches.size, about or {})


def predict(fitted: Fitted, x, threads: int = 1, family: bool = False) -> np.ndarray:
    """Predict patches.

    Parameters
    ----------
    fitted : Fitted
    x : ndarray of uint8, shape (n, size, size, 3); or (patches, positions)
    threads : int
    family : bool
        The answers of the family head, where there is one.

    Returns
    -------
    ndarray of float32, shape (n, classes)
        Probabilities.
    """
    what = fitted.learner.family_logits if family else fitted.learner.logits
    return torch.from_numpy(_answers(fitted, x, threads, what)).softmax(dim=1).numpy()


def outputs(fitted: Fitted, x, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Give what a model says of patches before it becomes probabilities.

    Parameters
    ----------
    fitted, x, threads : see `predict`

    Returns
    -------
    logits : ndarray of float32, shape (n, classes)
    features : ndarray of float32, shape (n, dim)
        The last layer before the scores.
    """
    learner = fitted.learner

    def both(images):
        made = learner.features(images)
        return torch.cat([learner.scored(made), made], dim=1)

    found = _answers(fitted, x, threads, both)
    return found[:, : len(learner.classes)], found[:, len(learner.classes) :]


def features(fitted: Fitted, x, threads: int = 1) -> np.ndarray:
    """Give the features of patches, float32, shape (n, dim): the last layer before the scores; see `predict`."""
    return _answers(fitted, x, threads, fitted.learner.features)


def plateau(values: list[float], lr: float) -> float:
    """Give the learning rate after epochs with these validation values, by torch's ReduceLROnPlateau.

    It is halved, down to 3e-5 at least, where more than three epochs in a row have not bettered the best value: as the
    code of the substrate paper's authors does. What they watch is not known here; ours is macro recall. As the rate
    follows from the history alone, a training that is resumed goes on as one that was not interrupted.

    Parameters
    ----------
    values : list of float
        Macro recall on validation, in [0, 1], of each epoch so far; higher is better.
    lr : float
        The rate of the first epoch.
    """
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=lr)
    rule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, "max", DECAY, PATIENCE, min_lr=FLOOR)
    for value in values:
        rule.step(value)
    return _largest(optimiser)


# -------------------------------------------------------------------------------------------------------- the parts


@contextlib.contextmanager
def _settings(threads: int):
    """Run torch with so many threads and deterministic algorithms, and put everything back, random states too."""
    import random

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    states = random.getstate(), np.random.get_state()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(not torch.cuda.is_available(), warn_only=True)
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads what nobody wrote
    try:
        # of this process's GPU alone: asking the others for their state would take memory on each
        with torch.random.fork_rng([int(os.environ.get("LOCAL_RANK", 0))] if torch.cuda.is_available() else []):
            yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled
        random.setstate(states[0])
        np.random.set_state(states[1])


def _optimiser(recipe: Recipe, learner: Learner, updates: int):
    """Make timm's schedule on torch's optimiser; groups may have a scale of the learning rate (layer decay)."""
    from timm.scheduler import create_scheduler_v2

    groups = learner.parameter_groups(recipe)
    if recipe.optimiser == "sgd":
        optimiser = torch.optim.SGD(groups, lr=recipe.lr, momentum=recipe.betas[0], nesterov=True)
    else:  # the fused kernel is faster, on CPU too; under fp16 it does not let gradients be clipped
        fused = recipe.amp != "fp16"
        optimiser = torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, fused=fused)
    schedule, _ = create_scheduler_v2(
        optimiser,
        "constant" if recipe.schedule == "plateau" else recipe.schedule,  # `plateau` is a factor on it
        num_epochs=recipe.epochs,
        warmup_epochs=recipe.warmup_epochs,
        warmup_lr=recipe.lr / 100,
        step_on_epochs=False,
        updates_per_epoch=updates,
    )
    return optimiser, schedule


def _average(recipe: Recipe, learner: Learner):
    if not recipe.ema:
        return None
    from timm.utils import ModelEmaV3

    return ModelEmaV3(learner, decay=recipe.ema, use_warmup=True)


def _largest(optimiser) -> float:
    return max(group["lr"] for group in optimiser.param_groups)


def _epoch(y: np.ndarray, recipe: Recipe, seed: int, epoch: int) -> np.ndarray:
    """Shuffle the patches of an epoch, in which classes rarer than `min_per_class` are repeated up to it.

    With the sampler 'inverse' as many are drawn with replacement, each with the probability 1 / n of its class.
    """
    rng = np.random.default_rng((seed, epoch))
    if recipe.sampler == "inverse":
        chance = 1 / np.bincount(y)[y]
        return rng.choice(len(y), len(y), p=chance / chance.sum())
    index = [np.arange(len(y))]
    if recipe.min_per_class:
        for label, count in enumerate(np.bincount(y)):
            if 0 < count < recipe.min_per_class:
                index.append(rng.choice(np.flatnonzero(y == label), recipe.min_per_class - count))
    return rng.permutation(np.concatenate(index))


def _finite(pending: list, name: str, epoch: int, positions, patches) -> None:
    """Stop at the first loss that is not finite, naming its batch."""
    good = torch.isfinite(torch.stack([value for _, value, _ in pending]))
    if good.all():
        return
    step, _, chosen = pending[int((~good).nonzero()[0])]
    names = ", ".join(str(patches.ids[positions[i]]) for i in chosen[:3])
    raise ReefcoreError(
        f"the loss of {name} is not finite in epoch {epoch}, batch {step} (patches {names}, ...)",
        do="lower lr in the recipe, or set amp to off; what was trained before this epoch is kept",
    )


class _Feed:
    """Batches of 8-bit patches: from memory where they are, else by worker processes."""

    def __init__(self, patches, positions, y, recipe: Recipe, augmentation: Augmentation):
        self.patches, self.positions, self.recipe = patches, positions, recipe
        self.y, self.augmentation = torch.tensor(y), augmentation
        self.x = patches.read(positions, recipe.input_size) if patches.in_memory else None

    def batches(self, order: np.ndarray, size: int, most: int, key: tuple) -> Iterator:
        """Give (patches uint8 (n, 3, side, side), targets, their positions in the training set), full batches only."""
        index = [order[start : start + size] for start in range(0, len(order), size)][:most]
        if self.x is None:
            yield from self._from_disk(index, key)
            return
        for chosen in index:
            images = self.x[chosen]
            if self.augmentation.image_wise:
                images = np.stack([self.augmentation.image(image) for image in images])
            yield _tensor(images), self.y[chosen], chosen

    def _from_disk(self, index: list[np.ndarray], key: tuple) -> Iterator:
        chosen = _Chosen(self.patches, self.positions, self.recipe.input_size, self.augmentation, key)
        turn = itertools.count()
        numbered = [[(next(turn), place) for place in where] for where in index]
        for x, where in zip(_loaded(chosen, numbered), index, strict=True):
            yield x, self.y[where], where


class _Chosen(torch.utils.data.Dataset):
    """One patch at a time; what is done to it depends on the key and its turn alone, not on who reads it."""

    def __init__(self, patches, positions, side: int, augmentation: Augmentation, key: tuple):
        self.patches, self.positions, self.side = patches, positions, side
        self.augmentation, self.key = augmentation, key

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, item: tuple[int, int]) -> torch.Tensor:
        turn, place = item  # a patch that is repeated in an epoch has several turns
        image = self.patches.read([self.positions[place]], self.side)[0]
        if self.augmentation is not None and self.augmentation.image_wise:
            seed_all(*self.key, turn)  # of the worker process
            image = self.augmentation.image(image)
        return torch.from_numpy(image.transpose(2, 0, 1).copy())


def _loaded(chosen: _Chosen, batches: list) -> Iterator[torch.Tensor]:
    """Read batches ahead in worker processes: one at least, so that no reader's seed meets the trainer's generators."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # 16 readers feed a GPU; more would only take memory
    workers = min(max(cores // int(os.environ.get("LOCAL_WORLD_SIZE", 1)) - 1, 1), 16)
    options = {"num_workers": workers, "pin_memory": torch.cuda.is_available()}
    try:
        yield from torch.utils.data.DataLoader(chosen, batch_sampler=batches, **options)
    except ReefcoreError as error:  # torch puts the worker's traceback before its sentence
        raise ReefcoreError(str(error).strip().rpartition(f"{ReefcoreError.__name__}: ")[2]) from None


def _tensor(images: np.ndarray) -> torch.Tensor:
    """Give patches as a tensor (n, 3, side, side), channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)


def _held(patches, positions, recipe: Recipe):
    """Say which patches are evaluated: an array at the model's size where it fits in memory, else where they lie."""
    if patches.in_memory:
        return patches.read(positions, recipe.input_size)
    return _Chosen(patches, positions, recipe.input_size, None, ())


def _answers(fitted: Fitted, x, threads: int, what: Callable) -> np.ndarray:
    """Evaluate patches, given as `predict` takes them."""
    patches, positions = (ArrayPatches(x, range(len(x))), np.arange(len(x))) if isinstance(x, np.ndarray) else x
    with _settings(threads):
        fabric = _kept(fitted.recipe.amp)
        learner = fitted.learner.to(fabric.device)
        return _evaluated(fabric, learner, what, _held(patches, positions, fitted.recipe), fitted.recipe)


@torch.inference_mode()
def _evaluated(fabric: Fabric, learner: Learner, what: Callable, held, recipe: Recipe) -> np.ndarray:
    """Give `what` of normalised patches, float32; every process does a share of them, and all have the whole."""
    learner.eval()
    n = len(held)
    share = -(-n // fabric.world_size)
    first = fabric.global_rank * share
    mine = np.minimum(np.arange(first, first + share), n - 1)  # the last one again where a share is not full
    if isinstance(held, np.ndarray):
        batches = (_tensor(held[part]) for part in _cut(mine))
    else:
        batches = _loaded(held, [[(0, place) for place in part] for part in _cut(mine)])
    if not n:  # of no patch there is no answer, but it has a width
        batches = [torch.zeros((1, 3, recipe.input_size, recipe.input_size), dtype=torch.uint8)]
    parts = []
    for x in batches:
        with fabric.autocast():
            parts.append(what(normalised(x.to(fabric.device), recipe)).float().cpu())
    found = torch.cat(parts)[:share]
    if fabric.world_size > 1:
        found = fabric.all_gather(found.to(fabric.device)).flatten(0, 1)[:n].cpu()
    return found.numpy()


def _cut(index: np.ndarray) -> list[np.ndarray]:
    return [index[start : start + EVALUATION_BATCH] for start in range(0, len(index), EVALUATION_BATCH)]


def _macro_recall(y: np.ndarray, predicted: np.ndarray) -> float:
    """Average recall over the classes in `y`; `reefcore.metrics` has the full set, and comes after training."""
    n = np.bincount(y)
    hits = np.bincount(y[predicted == y], minlength=len(n))
    return float((hits[n > 0] / n[n > 0]).mean())


def _digest(patches, parts, start: str | Path | None) -> str:
    """Tell trainings apart by their patches, labels and first weights."""
    digest = hashlib.sha256()
    for positions, y in parts:
        digest.update("\n".join(str(patches.ids[i]) for i in positions).encode() + y.tobytes())
    if start:
        with open(start, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


class _Progress:
    """How far a training is: its history, its best weights, and the file that a killed run goes on from."""

    def __init__(self, path: str | Path | None, what: tuple):
        self.path, self.what = Path(path) if path else None, repr(what)
        self.history: list[tuple] = []
        self.best: dict[str, torch.Tensor] = {}
        self.best_epoch = 0

    @property
    def epoch(self) -> int:
        return len(self.history)

    def add(self, row: tuple, learner: Learner) -> None:
        """Note an epoch, and keep its weights where its validation is the best so far."""
        self.history.append(row)
        best = self.history[self.best_epoch - 1][4] if self.best_epoch else -1.0
        if not row[4] <= best:  # also true without validation patches, where the last epoch is kept
            self.best_epoch = row[0]
            self.best = {key: tensor.detach().clone() for key, tensor in learner.state_dict().items()}

    def save(self, fabric: Fabric, learner: Learner, optimiser, average) -> None:
        """Write everything that the next epoch needs."""
        if self.path is None or fabric.global_rank:
            return
        state = {f"learner.{key}": value for key, value in learner.state_dict().items()}
        state |= {f"best.{key}": value for key, value in self.best.items()}
        if average:
            state |= {f"average.{key}": value for key, value in average.module.state_dict().items()}
        for index, values in optimiser.state_dict()["state"].items():
            state |= {f"optimiser.{index}.{key}": torch.as_tensor(value) for key, value in values.items()}
        scaler = fabric.strategy.precision.state_dict()
        known = {"what": self.what, "history": self.history, "best_epoch": self.best_epoch, "scaler": scaler}
        weights.save(state, self.path, known)

    def load(self, fabric: Fabric, learner: Learner, optimiser, average) -> None:
        """Go on from the file, where it is of the same training; another's is left to be overwritten."""
        if self.path is None or not self.path.exists():
            return
        try:
            state, known = weights.read(self.path)
        except ReefcoreError as error:
            logger.warning("%s This training starts from the beginning.", error)
            return
        if known.get("what") != self.what:
            logger.warning("%s is of another training: this one starts from the beginning.", self.path.name)
            return
        parts: dict = {"learner": {}, "best": {}, "average": {}, "optimiser": {}}
        for key, value in state.items():
            part, _, rest = key.partition(".")
            parts[part][rest] = value
        learner.load_state_dict(parts["learner"])
        self.best = parts["best"]
        if average:
            average.module.load_state_dict(parts["average"])
        trained = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        moments: dict = {}
        for key, value in parts["optimiser"].items():
            index, _, name = key.partition(".")
            if value.ndim:  # the file has lost the memory format, and the fused kernel does not look at it
                value = torch.empty_like(trained[int(index)]).copy_(value)
            moments.setdefault(int(index), {})[name] = value
        optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
        fabric.strategy.precision.load_state_dict(known["scaler"])
        self.history = [tuple(row) for row in known["history"]]
        self.best_epoch = known["best_epoch"]
        logger.info("%s goes on after epoch %d.", self.path.stem, self.epoch)
