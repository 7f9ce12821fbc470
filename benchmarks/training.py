"""The trainer beside a plain timm loop of the same model, batch, augmentation, optimiser and schedule.

Each way is timed in turn for several rounds, and the ratio is the median of the rounds' ratios: other work on the
machine slows both. Large models are timed where there is a GPU, and said to be left out where there is none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import Row
from reefcore import recipes
from reefcore.patches import ArrayPatches

PATCHES, CLASSES, EPOCHS, ROUNDS = 1024, 39, 3, 7
LARGE = 512  # patches for the large models
NO_MIXING = {"colour_jitter": 0.0, "randaugment": "", "random_erasing": 0.0, "mixup": 0.0, "cutmix": 0.0}


def rows() -> Iterator[Row]:
    """Train and predict with tiny models on one CPU thread, and train large ones on a GPU."""
    import torch

    torch.set_num_threads(1)
    for name in ("resnet101", "vit"):
        recipe = dataclasses.replace(recipes.load(name), epochs=EPOCHS, min_per_class=0)
        yield _row(f"train {recipe.model}, 32 px", "a timm loop", "fitting.fit", *_training(recipe, PATCHES))
        yield _row(
            f"predict {recipe.model}, 32 px", "forward on ready tensors", "fitting.predict", *_predicting(recipe)
        )
    if not torch.cuda.is_available():
        print("large models are not trained: there is no GPU")
        return
    for name in ("loss_ce", "convnext_l"):
        changes = {"amp": "bf16", "weights": "scratch", "epochs": EPOCHS, "warmup_epochs": 1, **NO_MIXING}
        recipe = recipes.load(name, "full", changes)
        job = f"train {recipe.model.split('.')[0]}, {recipe.input_size} px"
        yield _row(job, "a timm loop, bf16", "fitting.fit, bf16", *_training(recipe, LARGE))


def _row(job: str, plain: str, library: str, plain_way, library_way, patches: int) -> Row:
    """Time both ways in turn: the medians, and with them patches per second."""
    times = np.array([(plain_way(), library_way()) for _ in range(ROUNDS)])
    library_s = np.median(times[:, 1])
    plain_s = library_s * np.median(times[:, 0] / times[:, 1])
    said = (f"{way}: {patches / seconds:.0f} patches/s" for way, seconds in ((plain, plain_s), (library, library_s)))
    first, second = said
    return Row(job, first, plain_s, second, library_s)


def _data(n: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (n, side, side, 3), dtype=np.uint8), rng.integers(0, CLASSES, n)


def _training(recipe, n: int):
    """Give both ways to train, each a function that returns the seconds of its median epoch after the first."""
    import timm
    import torch
    from timm.optim import param_groups_layer_decay, param_groups_weight_decay
    from timm.scheduler import CosineLRScheduler

    from reefcore.fitting import fit

    pixels, y = _data(n, recipe.input_size)
    nothing = (np.zeros(0, "int64"),) * 2
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"

    def plain() -> float:
        torch.manual_seed(0)
        options = recipe.model_args | ({"drop_path_rate": recipe.drop_path} if recipe.drop_path else {})
        model = timm.create_model(recipe.model.split(".")[0], num_classes=CLASSES, **options)
        model = model.to(device, memory_format=torch.channels_last).train()
        skip = model.no_weight_decay() if hasattr(model, "no_weight_decay") else ()
        if recipe.layer_decay < 1:
            groups = param_groups_layer_decay(
                model, recipe.weight_decay, no_weight_decay_list=skip, layer_decay=recipe.layer_decay
            )
        else:
            groups = param_groups_weight_decay(model, recipe.weight_decay, no_weight_decay_list=skip)
        optimiser = torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, fused=True)
        steps = n // recipe.batch_size
        schedule = CosineLRScheduler(
            optimiser, recipe.epochs * steps, warmup_t=steps, warmup_lr_init=recipe.lr / 100, t_in_epochs=False
        )
        mean, std = (torch.tensor(v, device=device).view(1, 3, 1, 1) * 255 for v in (recipe.mean, recipe.std))
        x, target = torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(y)
        loss_of, seconds = torch.nn.CrossEntropyLoss(), []
        for epoch in range(recipe.epochs):
            began, order, total = time.perf_counter(), torch.randperm(n), 0.0
            for step in range(steps):
                schedule.step_update(epoch * steps + step)
                chosen = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
                batch = _turned(x[chosen].to(device), recipe)
                batch = ((batch.float() - mean) / std).contiguous(memory_format=torch.channels_last)
                with torch.autocast(device, torch.bfloat16) if recipe.amp == "bf16" else contextlib.nullcontext():
                    loss = loss_of(model(batch), target[chosen].to(device))
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_grad)
                optimiser.step()
                optimiser.zero_grad()
                total += loss.detach()
            total.item()
            seconds.append(time.perf_counter() - began)
        return float(np.median(seconds[1:]))

    def library() -> float:
        patches = ArrayPatches(pixels, [str(i) for i in range(n)])
        classes = [str(i) for i in range(CLASSES)]
        history = fit(recipe, patches, (np.arange(n), y), nothing, classes).history
        return float(np.median(n // recipe.batch_size * recipe.batch_size / history["images_per_second"][1:]))

    return plain, library, n


def _turned(x, recipe):
    """Flip and turn patches at random, as the recipe does."""
    import torch

    def some(probability):
        return (torch.rand(len(x), 1, 1, 1) < probability).to(x.device)

    x = torch.where(some(recipe.horizontal_flip), x.flip(3), x)
    if recipe.vertical_flip:
        x = torch.where(some(recipe.vertical_flip), x.flip(2), x)
    if recipe.quarter_turns:
        x = torch.where(some(0.5), x.transpose(2, 3).flip(2), x)
        x = torch.where(some(0.5), x.flip((2, 3)), x)
    return x


def _predicting(recipe):
    """Give both ways to predict: the model alone on tensors made before, and `predict` on 8-bit patches."""
    import torch

    from reefcore import fitting
    from reefcore.augment import normalised

    n = 2 * PATCHES
    pixels, y = _data(n, recipe.input_size)
    patches, nothing = ArrayPatches(pixels, [str(i) for i in range(n)]), (np.zeros(0, "int64"),) * 2
    short = dataclasses.replace(recipe, epochs=1, warmup_epochs=0)
    some, classes = np.arange(CLASSES), [str(i) for i in range(CLASSES)]
    fitted = fitting.fit(short, patches, (some, y[some]), nothing, classes)
    device = next(fitted.learner.parameters()).device
    ready = [normalised(part.to(device), recipe) for part in torch.from_numpy(pixels).permute(0, 3, 1, 2).split(256)]

    def plain() -> float:
        began = time.perf_counter()
        with torch.inference_mode():
            for batch in ready:
                fitted.learner.logits(batch).cpu()
        return time.perf_counter() - began

    def library() -> float:
        began = time.perf_counter()
        fitting.predict(fitted, (patches, np.arange(n)))
        return time.perf_counter() - began

    return plain, library, n
