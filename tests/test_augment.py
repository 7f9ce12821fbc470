"""Each part of the augmentation does what its recipe says, and nothing else."""

import dataclasses
import random

import numpy as np
import pytest
import torch

from reefcore import recipes
from reefcore.augment import Augmentation, normalised, seed_all, shown
from reefcore.errors import ReefcoreError

NONE = dataclasses.replace(recipes.load("aug_none"), vertical_flip=0.0, quarter_turns=False)
N = 400


def pixels(n=1):
    return torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def batch(x, target=None, **changes):
    """Change a batch by a recipe that does only what `changes` says; give it as 8-bit pixels would be, and targets."""
    recipe = dataclasses.replace(NONE, **changes)
    seed_all(3)
    x, target = Augmentation(recipe, 4).batch(x, torch.zeros(len(x), dtype=torch.int64) if target is None else target)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (recipe.mean, recipe.std))
    return (x * std + mean) * 255, target


def forms(out):
    return {patch.round().byte().numpy().tobytes() for patch in out}


def turned(x):
    return {np.ascontiguousarray(np.rot90(x, k, (1, 2))).tobytes() for k in range(4)}


def test_none_leaves_pixels_and_targets_as_they_are():
    x, target = pixels(5), torch.arange(5) % 4
    out, same = batch(x, target)
    assert torch.equal(out.round(), x.float()) and same is target
    assert not Augmentation(NONE, 4).image_wise
    assert normalised(x, NONE).is_contiguous(memory_format=torch.channels_last)


def test_flips_and_quarter_turns_give_their_positions_equally_often():
    x = pixels()
    out, _ = batch(x.repeat(N, 1, 1, 1), horizontal_flip=0.25)
    flipped = sum(torch.equal(patch.round(), x[0].flip(2).float()) for patch in out)
    assert forms(out) == {x[0].numpy().tobytes(), x[0].flip(2).numpy().tobytes()} and 70 < flipped < 130
    assert forms(batch(x, vertical_flip=1.0)[0]) == {x[0].flip(1).numpy().tobytes()}
    out, _ = batch(x.repeat(N, 1, 1, 1), quarter_turns=True)
    assert forms(out) == turned(x[0].numpy())
    counts = np.unique([patch.round().byte().numpy().tobytes() for patch in out], return_counts=True)[1]
    assert counts.min() > 70
    out, _ = batch(x.repeat(N, 1, 1, 1), quarter_turns=True, horizontal_flip=0.5)
    assert forms(out) == turned(x[0].numpy()) | turned(x[0].flip(2).numpy())


def test_water_jitter_shifts_red_and_all_channels_stretches_contrast_and_blurs_each_on_its_own():
    grey = torch.full((N, 3, 32, 32), 100, dtype=torch.uint8)
    out, _ = batch(grey, water_jitter=0.5)
    red, green, blue = out.mean((2, 3)).T - 100
    assert torch.allclose(green, blue, atol=1e-2)
    shifted = green[(red - green).abs() < 1e-2]  # its red is as the others: contrast and blur leave plain grey as it is
    assert (
        0.4 * N < len(shifted) < 0.6 * N and shifted.abs().max() <= 30.01 and (shifted.abs() > 0.1).float().mean() > 0.4
    )
    assert (
        (green.abs() < 1e-2).float().mean() < 0.6 and green.abs().max() > 25 and (red - green).abs().max() < 30 * 2.01
    )
    fine = (torch.arange(32) % 2 * 40 + 100).repeat(N, 3, 32, 1).byte()  # stripes of one pixel: a blur takes them out
    spread, _ = batch(fine, water_jitter=0.5)
    spread = spread[:, 1, :, 4:-4].std((1, 2)) / fine[:, 1, :, 4:-4].float().std((1, 2))
    assert 0.4 < (spread < 0.1).float().mean() < 0.6
    kept = spread[spread >= 0.1]
    assert kept.min() > 0.49 and 1.5 < kept.max() < 2.01 and 0.4 < ((kept - 1).abs() < 1e-3).float().mean() < 0.6
    extreme, _ = batch(pixels(50), water_jitter=1.0)
    assert extreme.min() >= -0.01 and extreme.max() <= 255.01
    again, _ = batch(pixels(50), water_jitter=1.0)
    assert torch.equal(extreme, again)


def test_colour_jitter_is_bounded():
    gray = np.full((32, 32, 3), 100, np.uint8)  # contrast and saturation have nothing to change in it
    jitter = Augmentation(dataclasses.replace(NONE, colour_jitter=0.2), 4)
    assert jitter.image_wise
    seed_all(0)
    levels = np.array([jitter.image(gray).mean() for _ in range(N)])
    assert 79 <= levels.min() < 84 and 116 < levels.max() <= 121 and abs(levels.mean() - 100) < 2


def test_randaugment_changes_images_and_follows_the_seed():
    augmentation = Augmentation(dataclasses.replace(NONE, randaugment="rand-m7-mstd0.5-inc1"), 4)
    image = pixels()[0].permute(1, 2, 0).numpy()

    def draw(seed):
        seed_all(seed)
        return [augmentation.image(image).tobytes() for _ in range(20)]

    assert draw(1) == draw(1) != draw(2) and len(set(draw(1))) > 10
    with pytest.raises(ReefcoreError, match="timm cannot read randaugment"):
        Augmentation(dataclasses.replace(NONE, randaugment="rand-q7"), 4)


def test_random_erasing_takes_a_rectangle_of_the_given_share_of_patches():
    x = pixels().repeat(N, 1, 1, 1)
    out, _ = batch(x, random_erasing=0.3)
    changed = ((out - x).abs() > 0.5).any(dim=1)
    share = changed.flatten(1).float().mean(dim=1)
    assert 0.22 < (share > 0).float().mean() < 0.38
    assert share.max() < 0.36  # timm: at most a third of the area
    largest = changed[share.argmax()]
    assert largest.any(dim=1).sum() * largest.any(dim=0).sum() == largest.sum()


@pytest.mark.parametrize("part", ["mixup", "cutmix"])
@pytest.mark.parametrize("n", [6, 7])
def test_mixing_shares_targets_that_sum_to_one(part, n):
    x = torch.arange(0, 10 * n, 10, dtype=torch.uint8).view(n, 1, 1, 1).expand(n, 3, 32, 32)
    target = torch.arange(n) % 4
    out, shares = batch(x, target, **{part: 0.5})
    n = 6  # pairs are mixed, so an odd batch loses its last patch
    assert out.shape == (n, 3, 32, 32) and shares.shape == (n, 4)
    assert torch.allclose(shares.sum(dim=1), torch.ones(n)) and ((shares > 0).sum(dim=1) <= 2).all()
    own = shares[0, target[0]]  # patch 0 is mixed with patch 5, which is of class 1
    assert 0 < own < 1 and shares[0, 1] == pytest.approx(1 - own)
    assert out[0].mean() == pytest.approx(50 * (1 - own), abs=0.5)
    assert (out[0].std() > 1) == (part == "cutmix")


def test_one_patch_has_nothing_to_be_mixed_with():
    out, target = batch(pixels(), torch.tensor([2]), mixup=0.4, cutmix=0.5)
    assert target.tolist() == [2] and torch.equal(out.round(), pixels().float())


def test_seeds_of_the_same_key_repeat_and_others_do_not():
    def draw(*key):
        seed_all(*key)
        return random.random(), np.random.random(), torch.rand(1).item()

    assert draw(1, 2) == draw(1, 2)
    assert all(a != b for a, b in zip(draw(1, 2), draw(2, 1), strict=True))


def test_each_augmentation_is_shown_on_every_patch():
    images = pixels(4).permute(0, 2, 3, 1).numpy()
    assert (shown(recipes.load("aug_only_hflip"), images) == images[:, :, ::-1]).all()
    for name in ("randerase", "randaug", "mixup", "cutmix"):
        seen = shown(recipes.load(f"aug_only_{name}"), images)
        assert seen.shape == images.shape and (seen != images).any(axis=(1, 2, 3)).all(), name
    mixed = shown(recipes.load("aug_only_mixup"), images).astype(float)
    assert abs(mixed - (images.astype(float) + images[::-1]) / 2).max() < 20
