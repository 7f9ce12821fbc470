"""What a recipe does to patches before a model sees them: timm's and torchvision's parts, in one order. Imports torch.

Colour jitter and RandAugment work on 8-bit images one by one; the rest works on whole batches: flips, quarter turns,
water jitter, normalisation, random erasing, then mixup or cutmix.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import torch

from reefcore.errors import ReefcoreError
from reefcore.recipes import Recipe

LEVELS = 30.0  # of 255: by so much water jitter shifts red, and all channels (the substrate paper's authors' code)
CONTRASTS = (0.5, 2.0)  # and by such factors it changes contrast
EVEN = 1000.0  # alpha of mixup and cutmix with which the shares of both patches are about equal


class Augmentation:
    """The augmentation of a recipe.

    Random numbers come from the global generators of Python, numpy and torch, as timm's parts take theirs there; the
    trainer seeds them once per epoch.

    Parameters
    ----------
    recipe : Recipe
    classes : int
        How many there are: mixup and cutmix turn targets into shares of them.
    """

    def __init__(self, recipe: Recipe, classes: int):
        self.recipe = recipe
        self.image_wise = bool(recipe.colour_jitter or recipe.randaugment)
        self._steps = self._image_steps()
        self._erase = self._mix = None
        if recipe.random_erasing:
            from timm.data.random_erasing import RandomErasing

            self._erase = RandomErasing(recipe.random_erasing, mode="pixel", device="cpu")
        if recipe.mixup or recipe.cutmix:
            from timm.data import Mixup

            self._mix = Mixup(recipe.mixup, recipe.cutmix, label_smoothing=0.0, num_classes=classes)  # the loss smooths

    def _image_steps(self) -> list:
        steps = []
        if self.recipe.colour_jitter:
            from torchvision.transforms import ColorJitter

            # timm's own script drops colour jitter where RandAugment is on; the paper names both, so both act here
            steps.append(ColorJitter(*[self.recipe.colour_jitter] * 3))
        if self.recipe.randaugment:
            from timm.data.auto_augment import rand_augment_transform

            fill = tuple(round(255 * value) for value in self.recipe.mean)
            options = {"translate_const": int(self.recipe.input_size * 0.45), "img_mean": fill}
            try:
                steps.append(rand_augment_transform(self.recipe.randaugment, options))
            except (AssertionError, ValueError) as error:
                raise ReefcoreError(
                    f"timm cannot read randaugment: {self.recipe.randaugment!r} ({error})", f"recipe {self.recipe.name}"
                ) from None
        return steps

    def image(self, image: np.ndarray) -> np.ndarray:
        """Change one 8-bit image, shape (size, size, 3)."""
        from PIL import Image

        changed = Image.fromarray(image)
        for step in self._steps:
            changed = step(changed)
        return np.asarray(changed)

    def batch(self, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Change and normalise a batch.

        Parameters
        ----------
        x : Tensor of uint8, shape (n, 3, size, size)
        target : Tensor of int64, shape (n,)

        Returns
        -------
        x : Tensor of float32, shape (n, 3, size, size)
        target : Tensor
            As given, or shares of the classes, shape (n, classes), after mixup or cutmix.
        """
        recipe, n = self.recipe, len(x)

        def some(probability: float) -> torch.Tensor:
            return (torch.rand(n) < probability).to(x.device).view(n, 1, 1, 1)

        turns = [
            (recipe.horizontal_flip, lambda part: part.flip(3)),
            (recipe.vertical_flip, lambda part: part.flip(2)),
            # a quarter turn of half of them, half a turn of half: all four, equally often
            (0.5 * recipe.quarter_turns, lambda part: part.transpose(2, 3).flip(2)),
            (0.5 * recipe.quarter_turns, lambda part: part.flip((2, 3))),
        ]
        x = x.clone()
        for probability, turned in turns:
            if probability:  # only those that turn are moved: a third less time than by torch.where
                chosen = some(probability).flatten()
                x[chosen] = turned(x[chosen])
        if recipe.water_jitter:
            x = _water(x.float(), some, recipe.water_jitter)
        x = normalised(x, recipe)
        if self._erase is not None:
            self._erase.device = x.device
            x = self._erase(x)
        if self._mix is not None and n > 1:
            if n % 2:  # timm mixes pairs
                x, target = x[:-1], target[:-1]
            x, target = self._mix(x, target)
        return x, target


def _water(x: torch.Tensor, some, probability: float) -> torch.Tensor:
    """Change what depth, turbidity and focus change, levels 0 to 255: each in some patches, by amounts of their own.

    The amounts are uniform within the authors' ranges; contrast is about a patch's own mean, and the blur is a binomial
    of 3 x 3 pixels: their code's summary names neither, nor a probability.
    """

    def amount(low: float, high: float) -> torch.Tensor:
        return torch.empty(len(x)).uniform_(low, high).to(x.device).view(-1, 1, 1, 1)

    red = torch.tensor([1.0, 0.0, 0.0], device=x.device).view(1, 3, 1, 1)
    x = x + some(probability) * amount(-LEVELS, LEVELS) * red
    x = x + some(probability) * amount(-LEVELS, LEVELS)
    mean = x.mean((1, 2, 3), keepdim=True)
    x = torch.where(some(probability), mean + (x - mean) * amount(*CONTRASTS), x)
    wide = torch.nn.functional.pad(x, (1, 1, 1, 1), mode="replicate")
    tall = wide[:, :, :-2] + 2 * wide[:, :, 1:-1] + wide[:, :, 2:]
    blurred = (tall[..., :-2] + 2 * tall[..., 1:-1] + tall[..., 2:]) / 16
    return torch.where(some(probability), blurred, x).clamp(0, 255)


def normalised(x: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Give 8-bit patches (n, 3, side, side) as floats with the recipe's mean and standard deviation taken out.

    Floats of the same range are taken too, and overwritten.
    """
    n, _, height, width = x.shape
    # Channels last, a patch is one row: over rows the arithmetic is several times as fast as over three channels.
    rows = x.permute(0, 2, 3, 1).reshape(n, -1).float()
    mean, std = (torch.tensor(v, device=x.device).mul(255).repeat(height * width) for v in (recipe.mean, recipe.std))
    x = rows.sub_(mean).div_(std).view(n, height, width, 3).permute(0, 3, 1, 2)
    return x if recipe.channels_last else x.contiguous()


def seed_all(*key: int) -> None:
    """Seed the global generators of Python, numpy and torch from a key of whole numbers."""
    state = np.random.SeedSequence(key).generate_state(3)
    random.seed(int(state[0]))
    np.random.seed(int(state[1]))
    torch.manual_seed(int(state[2]))


def shown(recipe: Recipe, images: np.ndarray, seed: int = 0) -> np.ndarray:
    """Give patches under each augmentation of a recipe, applied to every patch, made visible again.

    In training most act on some of the patches only, or faintly. Here flips, erasing and RandAugment's changes are
    certain, mixup takes about half of each patch, and cutmix a box of about half its area, cut by the patch's border.

    Parameters
    ----------
    recipe : Recipe
    images : ndarray of uint8, shape (n, size, size, 3)
        An even number; mixup and cutmix mix the first with the last, and so on.
    seed : int

    Returns
    -------
    ndarray of uint8, shape (n, size, size, 3)
    """
    chances = ("horizontal_flip", "vertical_flip", "water_jitter", "random_erasing")
    certain = {name: float(getattr(recipe, name) > 0) for name in chances}
    certain |= {name: EVEN * (getattr(recipe, name) > 0) for name in ("mixup", "cutmix")}
    if recipe.randaugment:
        certain["randaugment"] = recipe.randaugment + "-p1.0"
    augmentation = Augmentation(replace(recipe, **certain), 2)
    seed_all(seed)
    if augmentation.image_wise:
        images = np.stack([augmentation.image(image) for image in images])
    x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
    x, _ = augmentation.batch(x, torch.arange(len(images)) % 2)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (recipe.mean, recipe.std))
    return ((x * std + mean) * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()
