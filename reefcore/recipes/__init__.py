"""Recipes: how one model is trained, as a YAML file per row of a published table, checked before anything runs.

The recipes here with `profile: sample` are tiny siblings of the families in the paper's Table 3, sized for two CPU
cores. Their ranking says nothing about the paper's models; `paper_row` says beside which row they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

from reefcore.errors import ReefcoreError
from reefcore.files import read_settings


@dataclass(frozen=True)
class Recipe:
    """One way to train one model; a YAML file has the same keys (`name` is the file's name).

    Attributes
    ----------
    name, profile, paper_row : str
        The recipe, the size it is made for (``sample``, ``full``), and the row of the paper's Table 3 it belongs to.
    model : str
        A name of timm; `model_args` are passed to ``timm.create_model``.
    pretrained : bool
        Start from timm's weights, which timm downloads.
    input_size : int
        Side of the model's input in pixels; patches of another size are resized (antialiased bilinear).
    mean, std : tuple of 3 floats
        Of the training images in 0..1, per channel, for normalisation.
    epochs, batch_size : int
    optimiser : {'adamw', 'sgd'}
        SGD has Nesterov momentum 0.9.
    lr, weight_decay : float
        Biases and one-dimensional weights are not decayed.
    schedule : {'cosine', 'constant'}
        Of the learning rate, per step, after a linear warm-up over `warmup_epochs`; cosine ends at zero.
    label_smoothing, drop_path : float
        In [0, 1); a `drop_path` of 0 is not passed to the model.
    horizontal_flip, vertical_flip, rotate_90 : bool
        Each patch is flipped with probability 0.5, and turned by 0, 90, 180 or 270 degrees.
    colour_jitter : float
        Each patch is multiplied by a gain, and each of its channels by another, uniform in 1 -+ this; in [0, 1).
    train_per_class, val_per_class : int
        At most that many patches per class, drawn with the seed; 0 takes all. Evaluation always takes all test patches.
    min_per_class : int
        Rarer classes are repeated up to that many patches per epoch; 0 repeats none.
    """

    name: str
    profile: str
    paper_row: str
    model: str
    model_args: dict
    pretrained: bool
    input_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    epochs: int
    batch_size: int
    optimiser: str
    lr: float
    weight_decay: float
    schedule: str
    warmup_epochs: float
    label_smoothing: float
    drop_path: float
    horizontal_flip: bool
    vertical_flip: bool
    rotate_90: bool
    colour_jitter: float
    train_per_class: int
    val_per_class: int
    min_per_class: int


CHOICES = {"profile": ("sample", "full"), "optimiser": ("adamw", "sgd"), "schedule": ("cosine", "constant")}
POSITIVE = ("input_size", "epochs", "batch_size", "lr")
FRACTIONS = ("label_smoothing", "drop_path", "colour_jitter")
NOT_NEGATIVE = ("weight_decay", "warmup_epochs", "train_per_class", "val_per_class", "min_per_class")


def names() -> list[str]:
    """List the recipes that travel with the library."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))


def load(name_or_path: str | Path, changes: dict | None = None) -> Recipe:
    """Read and check a recipe.

    Parameters
    ----------
    name_or_path : str or path
        One of `names`, or a YAML file.
    changes : dict, optional
        Keys and values that stand in for the file's own, and are checked as they are.

    Raises
    ------
    ReefcoreError
        Naming the file and the key: where the file is missing or no YAML mapping, a key is unknown, missing, of the
        wrong type or out of its range, or two keys cannot go together.
    """
    path, values = read_settings(name_or_path, Path(__file__).parent, "recipe")
    if "name" in values:
        raise ReefcoreError("the key 'name' is not set in the file", path, "a recipe is named as its file")
    recipe = _typed({"name": path.stem, **values, **(changes or {})}, path)
    _consistent(recipe, path)
    return recipe


def _typed(values: dict, path: Path) -> Recipe:
    """Make a Recipe of a file's values, refusing unknown and missing keys and wrong types."""
    hints = get_type_hints(Recipe)
    unknown = [str(key) for key in values if key not in hints]
    if unknown:
        raise ReefcoreError(
            f"unknown key {unknown[0]!r}", path, f"the keys are {', '.join(f.name for f in fields(Recipe))}"
        )
    missing = [key for key in hints if key not in values]
    if missing:
        raise ReefcoreError(f"the key {missing[0]!r} is missing", path, "every choice is written down in the recipe")
    checked = {}
    for key, kind in hints.items():
        value = values[key]
        if get_origin(kind) is tuple:
            inner = get_args(kind)[0]
            if not (isinstance(value, list) and len(value) == 3 and all(_is(v, inner) for v in value)):
                raise ReefcoreError(f"{key} must be a list of three numbers, not {value!r}", path)
            checked[key] = tuple(float(v) for v in value)
        elif _is(value, kind):
            checked[key] = kind(value)
        else:
            raise ReefcoreError(f"{key} must be of type {kind.__name__}, not {value!r}", path)
    return Recipe(**checked)


def _is(value, kind: type) -> bool:
    """Tell whether a YAML value is of a type; a whole number is a float too, but true is no number."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _consistent(recipe: Recipe, path: Path) -> None:
    """Refuse values out of range and combinations that cannot be."""

    def refuse(key: str, wrong: str):
        raise ReefcoreError(f"{key} {wrong}", path)

    for key, choices in CHOICES.items():
        if getattr(recipe, key) not in choices:
            refuse(key, f"must be one of {', '.join(choices)}, not {getattr(recipe, key)!r}")
    for key in POSITIVE:
        if not getattr(recipe, key) > 0:
            refuse(key, f"must be above 0, not {getattr(recipe, key)}")
    for key in FRACTIONS:
        if not 0 <= getattr(recipe, key) < 1:
            refuse(key, f"must lie in [0, 1), not {getattr(recipe, key)}")
    for key in NOT_NEGATIVE:
        if not getattr(recipe, key) >= 0:
            refuse(key, f"must be at least 0, not {getattr(recipe, key)}")
    if not all(0 < value <= 1 for value in recipe.std) or not all(0 <= value <= 1 for value in recipe.mean):
        refuse("mean and std", "are those of pixels in 0..1, and std is above 0")
    if recipe.batch_size < 2:
        refuse("batch_size", "must be at least 2: batch normalisation needs two patches")
    if recipe.warmup_epochs >= recipe.epochs:
        refuse("warmup_epochs", f"({recipe.warmup_epochs:g}) must be below epochs ({recipe.epochs})")
    if recipe.train_per_class and recipe.min_per_class > recipe.train_per_class:
        refuse("min_per_class", f"({recipe.min_per_class}) exceeds train_per_class ({recipe.train_per_class})")
    if clash := {"num_classes", "pretrained", "drop_path_rate", "in_chans"} & set(recipe.model_args):
        refuse("model_args", f"may not set {', '.join(sorted(clash))}, which other keys and the data decide")
