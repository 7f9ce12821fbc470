"""Fit a classifier to patches and predict patches: arrays in, arrays out, by a recipe. Imports torch.

Patches stay 8-bit in one array; each batch is augmented and normalised as a whole. On one machine the same seed and
number of threads give the same bytes. Use one thread per process and run processes side by side: on two cores, two
processes with two threads each are slower than one with one.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from tqdm import tqdm

from reefcore.errors import ReefcoreError
from reefcore.recipes import Recipe

logger = logging.getLogger(__name__)

EVALUATION_BATCH = 256


@dataclass
class Fitted:
    """A trained model: the torch module at its chosen epoch, its classes in the order of its outputs, and its history.

    `history` has one row per epoch: ``epoch`` (from 1), ``loss`` (mean over the epoch's patches), ``val_macro_recall``
    (NaN without validation patches) and ``seconds``.
    """

    model: torch.nn.Module
    recipe: Recipe
    classes: list[str]
    history: pd.DataFrame
    best_epoch: int


def fit(
    recipe: Recipe,
    train_x: np.ndarray,
    train_y: np.ndarray,
    val_x: np.ndarray,
    val_y: np.ndarray,
    classes: list[str],
    seed: int = 0,
    threads: int = 1,
) -> Fitted:
    """Train a recipe on patches, keeping the epoch with the best macro recall on the validation patches.

    Parameters
    ----------
    recipe : Recipe
        Its `train_per_class` and `val_per_class` are for `run`; the patches given here are all used.
    train_x, val_x : ndarray of uint8, shape (n, size, size, 3)
        Without validation patches the last epoch is kept.
    train_y, val_y : ndarray of int, shape (n,)
        Positions in `classes`.
    classes : list of str
    seed, threads : int

    Raises
    ------
    ReefcoreError
        With fewer than two patches or classes to train on, a model that timm does not know or cannot build, or a loss
        that is not finite.
    """
    if len(train_x) < 2 or len(classes) < 2:
        raise ReefcoreError(f"{len(train_x)} patches of {len(classes)} classes are not enough to train {recipe.name}")
    rng = np.random.default_rng(seed)
    with _deterministic(seed, threads):
        model = _build(recipe, len(classes))
        optimiser = _optimiser(recipe, model)
        x, val_x = _resized(train_x, recipe.input_size), _resized(val_x, recipe.input_size)
        steps = max(len(_epoch(train_y, recipe, np.random.default_rng(seed))) // recipe.batch_size, 1) * recipe.epochs
        step, best, history = 0, (-1.0, 0, None), []
        for epoch in tqdm(range(1, recipe.epochs + 1), recipe.name, leave=False, disable=not sys.stderr.isatty()):
            started, total, seen = time.perf_counter(), 0.0, 0
            model.train()
            for index in _batches(_epoch(train_y, recipe, rng), recipe.batch_size):
                for group in optimiser.param_groups:
                    group["lr"] = recipe.lr * _schedule(recipe, step, steps)
                batch = _augmented(_normalised(x[index], recipe), recipe, rng)
                target = torch.from_numpy(train_y[index])
                loss = F.cross_entropy(model(batch), target, label_smoothing=recipe.label_smoothing)
                if not torch.isfinite(loss):
                    raise ReefcoreError(
                        f"the loss of {recipe.name} is not finite in epoch {epoch}", do="lower lr in the recipe"
                    )
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
                step, total, seen = step + 1, total + loss.item() * len(index), seen + len(index)
            value = _macro_recall(val_y, _scores(model, val_x, recipe).argmax(axis=1)) if len(val_x) else np.nan
            history.append((epoch, total / seen, value, time.perf_counter() - started))
            logger.info("%s epoch %d: loss %.3f, validation macro recall %.3f, %.1f s", recipe.name, *history[-1])
            if not value <= best[0]:  # also true without validation patches, where the last epoch is kept
                best = (value, epoch, {name: tensor.clone() for name, tensor in model.state_dict().items()})
        model.load_state_dict(best[2])
    table = pd.DataFrame(history, columns=["epoch", "loss", "val_macro_recall", "seconds"])
    return Fitted(model, recipe, list(classes), table, best[1])


def predict(fitted: Fitted, x: np.ndarray, threads: int = 1) -> np.ndarray:
    """Predict patches: ndarray of uint8, shape (n, size, size, 3) -> probabilities, float32, shape (n, classes)."""
    with _deterministic(0, threads):
        return _scores(fitted.model, _resized(x, fitted.recipe.input_size), fitted.recipe)


@contextlib.contextmanager
def _deterministic(seed: int, threads: int):
    """Run torch with a seed, a fixed number of threads and deterministic algorithms, then put everything back."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


def _build(recipe: Recipe, classes: int) -> torch.nn.Module:
    import timm

    options = dict(recipe.model_args)
    if recipe.drop_path:
        options["drop_path_rate"] = recipe.drop_path
    try:
        model = timm.create_model(recipe.model, pretrained=recipe.pretrained, num_classes=classes, **options)
    except Exception as error:  # timm raises whatever the model's code raises: the recipe is what is wrong
        raise ReefcoreError(
            f"timm cannot build {recipe.model} ({' '.join(str(error).split())})",
            f"recipe {recipe.name}",
            "check the keys model, model_args, drop_path and pretrained",
        ) from error
    return model.to(memory_format=torch.channels_last)


def _optimiser(recipe: Recipe, model: torch.nn.Module) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=recipe.lr, momentum=0.9, nesterov=True)
    return torch.optim.AdamW(groups, lr=recipe.lr)


def _schedule(recipe: Recipe, step: int, steps: int) -> float:
    """Give the factor on the learning rate at a step."""
    warmup = recipe.warmup_epochs / recipe.epochs * steps
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if recipe.schedule == "constant":
        return 1.0
    return 0.5 * (1 + np.cos(np.pi * (step - warmup) / max(steps - warmup, 1)))


def _epoch(y: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """Shuffle the patches of an epoch, in which classes rarer than `min_per_class` are repeated up to it."""
    index = [np.arange(len(y))]
    for label, count in enumerate(np.bincount(y)):
        if 0 < count < recipe.min_per_class:
            index.append(rng.choice(np.flatnonzero(y == label), recipe.min_per_class - count))
    return rng.permutation(np.concatenate(index))


def _batches(index: np.ndarray, size: int) -> list[np.ndarray]:
    """Cut an epoch into full batches; the rest is left to the next epoch's shuffle, unless there is nothing else."""
    full = len(index) // size
    return np.split(index[: full * size], full) if full else [index]


def _resized(x: np.ndarray, size: int) -> torch.Tensor:
    """Give patches as a uint8 tensor (n, 3, size, size), channels last in memory."""
    tensor = torch.from_numpy(np.ascontiguousarray(x)).permute(0, 3, 1, 2)
    if tensor.shape[-1] == size or not len(tensor):
        return tensor
    chunks = (
        F.interpolate(part.float(), size=(size, size), mode="bilinear", antialias=True) for part in tensor.split(256)
    )
    return torch.cat([part.round().clamp(0, 255).byte() for part in chunks])


def _normalised(x: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) * 255 for values in (recipe.mean, recipe.std))
    return ((x.float() - mean) / std).contiguous(memory_format=torch.channels_last)


def _augmented(x: torch.Tensor, recipe: Recipe, rng: np.random.Generator) -> torch.Tensor:
    """Flip, turn and tint normalised patches, a batch at once."""
    n = len(x)
    for wanted, axis in ((recipe.horizontal_flip, 3), (recipe.vertical_flip, 2)):
        if wanted:
            flipped = torch.from_numpy(rng.random(n) < 0.5)
            x = torch.where(flipped.view(n, 1, 1, 1), x.flip(axis), x)
    if recipe.rotate_90:  # a quarter turn of half of the patches, then half a turn of half: all four, equally often
        turned = torch.from_numpy(rng.random(n) < 0.5)
        x = torch.where(turned.view(n, 1, 1, 1), x.transpose(2, 3).flip(2), x)
        half = torch.from_numpy(rng.random(n) < 0.5)
        x = torch.where(half.view(n, 1, 1, 1), x.flip((2, 3)), x)
    if recipe.colour_jitter:
        gain = rng.uniform(-recipe.colour_jitter, recipe.colour_jitter, (n, 4)).astype(np.float32) + 1
        gain = torch.from_numpy(gain[:, :1] * gain[:, 1:]).view(n, 3, 1, 1)
        dark = -torch.tensor(recipe.mean).view(1, 3, 1, 1) / torch.tensor(recipe.std).view(1, 3, 1, 1)
        x = (x - dark) * gain + dark
    return x.contiguous(memory_format=torch.channels_last)


@torch.inference_mode()
def _scores(model: torch.nn.Module, x: torch.Tensor, recipe: Recipe) -> np.ndarray:
    model.eval()
    parts = [model(_normalised(part, recipe)).softmax(dim=1) for part in x.split(EVALUATION_BATCH)]
    return torch.cat(parts).numpy() if len(x) else np.zeros((0, model.num_classes), np.float32)


def _macro_recall(y: np.ndarray, predicted: np.ndarray) -> float:
    """Average recall over the classes in `y`; `reefcore.metrics` has the full set, and comes after training."""
    n = np.bincount(y)
    hits = np.bincount(y[predicted == y], minlength=len(n))
    return float((hits[n > 0] / n[n > 0]).mean())
