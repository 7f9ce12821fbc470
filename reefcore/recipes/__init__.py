"""Recipes: how one model is trained, as one YAML file per row of a published table, checked before anything runs.

A file gives ``row``, ``tables``, ``schemes`` and ``task``, then settings: at the top for both sizes, under ``full`` as
the paper trains, under ``sample`` as a tiny sibling that learns the synthetic sample on a CPU. ``extends`` names a
recipe whose values stand where a file has none. ``sources`` says, key by key, where the full value comes from: the
paper's section, the authors' published code, timm's model card, or "chosen" where nobody states it. Those of the
substrate paper (doi 10.48550/arXiv.2509.01019) are in a folder of their own: ``substrate/mobilenetv3_small``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

from reefcore.errors import ReefcoreError
from reefcore.files import read_settings
from reefcore.losses import NAMES as LOSSES
from reefcore.losses import soft_targets, weighs_classes

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Recipe:
    """One way to train one model. Every choice is written down; a profile's or caller's changes are checked alike."""

    name: str  # the file's
    size: str  # sample or full
    row: str  # the row's name in the published tables
    tables: tuple[int, ...]  # the published tables that have it
    schemes: tuple[str, ...]  # the training sets that the paper trains it on; none for pretraining
    task: str  # genus, family, genus_family (two heads), substrate, masked (doi 10.1109/CVPR52688.2022.01553)
    task_args: dict  # of the head or heads, of ClipLoss, of the masks and the decoder (see TASKS)
    library: str  # timm or open_clip
    model: str  # its name there, with the tag of the weights
    model_args: dict  # further arguments of it
    weights: str  # scratch, hub (the model's own, downloaded), recipe:NAME (what that one learnt), a .safetensors file
    input_size: int  # pixels a side; patches of another size are resized
    mean: tuple[float, float, float]  # per channel, of pixels in 0..1
    std: tuple[float, float, float]
    epochs: int
    batch_size: int  # patches per step and process
    optimiser: str  # adamw, or sgd with Nesterov momentum 0.9
    betas: tuple[float, float]  # of adamw
    lr: float  # the peak; not scaled by the batch
    weight_decay: float
    layer_decay: float  # factor on lr per layer below the head; 1: none
    clip_grad: float  # largest norm of the gradient; 0: any
    schedule: str  # of lr after a linear warm-up: cosine (ends at 0), constant, or plateau (see fitting.plateau)
    warmup_epochs: float
    loss: str  # of reefcore.losses, with beta, gamma and alpha; '' where the task has its own
    beta: float
    gamma: float
    alpha: float
    label_smoothing: float
    drop_path: float  # probability
    ema: float  # decay of averaged weights; 0: none
    horizontal_flip: float  # probability
    vertical_flip: float  # probability
    quarter_turns: bool  # turned by 0, 90, 180 or 270 degrees, equally often
    colour_jitter: float  # brightness, contrast and saturation vary by 1 -+ this
    water_jitter: float  # probability, of each for itself: another red, brightness or contrast, a blur (see augment)
    randaugment: str  # as timm writes it; '': none
    random_erasing: float  # probability
    mixup: float  # alpha of its beta distribution; 0: none
    cutmix: float  # alpha of its beta distribution; 0: none
    amp: str  # mixed precision: off, fp16, bf16
    channels_last: bool  # the memory format
    train_per_class: int  # at most so many patches of a class are drawn; 0: all
    val_per_class: int  # the same of validation; test patches are always all taken
    min_per_class: int  # rarer classes are repeated up to so many patches per epoch
    sampler: str  # of an epoch's patches: '' (each once) or inverse (drawn with replacement, every class equally often)
    balance_twice: bool  # whether that sampler may meet a loss that weighs classes: together they favour the rare ones


KEYS = [field.name for field in fields(Recipe)][2:]  # of a file; name and size are not written in it
HEADER = ("row", "tables", "schemes", "task")  # what a recipe is; every other key is a setting
SETTINGS = [key for key in KEYS if key not in HEADER]
SECTIONS = {"full": SETTINGS, "sample": SETTINGS, "sources": SETTINGS}
CHOICES = {
    "schemes": ("S1", "S2", "S3", "S4"),
    "library": ("timm", "open_clip"),
    "optimiser": ("adamw", "sgd"),
    "schedule": ("cosine", "constant", "plateau"),
    "loss": (*LOSSES, ""),
    "amp": ("off", "fp16", "bf16"),
    "sampler": ("", "inverse"),
}
INTERVALS = {
    "(0, inf)": "input_size epochs lr alpha",
    "[0, inf)": "weight_decay clip_grad warmup_epochs gamma mixup cutmix train_per_class val_per_class min_per_class",
    "[0, 1)": "betas beta label_smoothing drop_path ema colour_jitter",
    "[0, 1]": "mean horizontal_flip vertical_flip water_jitter random_erasing",
    "(0, 1]": "std layer_decay",
    "[2, inf)": "batch_size",  # batch normalisation needs two patches
}
#: What each task and library take: their task_args, each with its type and interval.
TASKS = {
    ("genus", "timm"): {},
    ("family", "timm"): {},
    ("genus_family", "timm"): {"family_weight": (float, "(0, inf)")},
    ("substrate", "timm"): {"hidden": (int, "(0, inf)"), "dropout": (float, "[0, 1)")},
    ("genus", "open_clip"): {"local_loss": (bool, "[0, 1]"), "gather_with_grad": (bool, "[0, 1]")},
    ("masked", "timm"): {
        "mask_ratio": (float, "(0, 1)"),
        "decoder_dim": (int, "(0, inf)"),
        "decoder_depth": (int, "(0, inf)"),
        "decoder_heads": (int, "(0, inf)"),
    },
}
RANDAUGMENT = r"rand(-((m|n|mmax)\d+|(p|mstd)\d+\.?\d*|inc[01]|t[a-z]+))*"  # as timm.data.rand_augment_transform reads


def names(folder: str = "") -> list[str]:
    """List the recipes that travel with the library: ReefNet's, or those of a folder such as 'substrate'."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in (FOLDER / folder).glob("[!_]*.yaml"))


def load(name_or_path: str | Path, size: str = "sample", changes: dict | None = None) -> Recipe:
    """Read and check a recipe.

    Parameters
    ----------
    name_or_path : str or path
        One of `names`, or of ``names("substrate")``, or a YAML file.
    size : {'sample', 'full'}
    changes : dict, optional
        Keys and values that stand in for the file's own, and are checked as they are.

    Raises
    ------
    ReefcoreError
        Naming the file and the key: where a file is missing or no YAML mapping, `extends` goes round in a circle, a key
        is unknown, missing, of the wrong type or out of its range, or two keys cannot go together.
    """
    if size not in ("sample", "full"):
        raise ReefcoreError(f"there is no size {size!r} of a recipe", do="choose sample or full")
    chain = _chain(name_or_path)
    path = chain[-1][0]
    values = {}
    for _, file in chain:
        values |= {key: file[key] for key in KEYS if key in file} | file.get(size, {})
    values |= changes or {}
    _known(values, KEYS, path)
    for key in KEYS:
        if key not in values:
            do = f"set it at the top, under {size}, or in a recipe that this one extends"
            raise ReefcoreError(f"the key {key!r} is missing", path, do)
    hints = get_type_hints(Recipe)
    checked = {key: _value(key, values[key], hints[key], path) for key in KEYS}
    recipe = Recipe(name=path.stem, size=size, **checked)
    _consistent(recipe, path)
    return recipe


def sources(name_or_path: str | Path) -> dict[str, str]:
    """Say where the full value of each setting comes from; a value without a source is a choice of its file."""
    said = {}
    for path, file in _chain(name_or_path):
        own = {**file, **file.get("full", {})}
        said |= {key: f"chosen: in {path.name}" for key in SETTINGS if key in own} | file.get("sources", {})
    return said


def _chain(name_or_path: str | Path) -> list[tuple[Path, dict]]:
    """Read a recipe's file and those it extends, the farthest first, and check their keys."""
    if Path(name_or_path).suffix not in (".yaml", ".yml") and name_or_path not in (
        known := names() + names("substrate")
    ):
        do = f"choose from {', '.join(known)}, or name a file"
        raise ReefcoreError(f"there is no recipe {str(name_or_path)!r}", do=do)
    chain = []
    while True:
        path, values = read_settings(name_or_path, FOLDER, "recipe")
        _known(values, [*KEYS, "extends", *SECTIONS], path)
        for section, allowed in SECTIONS.items():
            if not isinstance(values.get(section, {}), dict):
                raise ReefcoreError(f"{section} must be a list of `key: value` lines", path)
            _known(values.get(section, {}), allowed, path, f" under {section}")
        chain.insert(0, (path, values))
        if (parent := values.get("extends")) is None:
            return chain
        name_or_path = _beside(path, parent)
        if name_or_path is None:
            raise ReefcoreError(f"extends: there is no recipe {parent!r}", path, "name one beside it or of the library")
        if any(name_or_path.samefile(file) for file, _ in chain):
            raise ReefcoreError(f"extends: {parent} leads back to where it came from", path, "break the circle")


def _beside(path: Path, name: str) -> Path | None:
    """Find the recipe that a file names: beside the file, or in the library."""
    return next((file for folder in (path.parent, FOLDER) if (file := folder / f"{name}.yaml").exists()), None)


def _known(values: dict, allowed: list[str], path: Path, section: str = "") -> None:
    """Refuse keys that have no meaning."""
    for key in values:
        if key in ("name", "size"):
            raise ReefcoreError(f"the key {key!r} is not set in the file", path, "a recipe is named as its file")
        if key not in allowed:
            raise ReefcoreError(f"unknown key {key!r}{section}", path, f"the keys are {', '.join(allowed)}")


def _value(key: str, value, kind: type, path: Path):
    """Check the type of a value; a whole number is a float too, but true is no number."""
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        if not isinstance(value, list | tuple) or (inner[-1] is not Ellipsis and len(value) != len(inner)):
            what = "a list" if inner[-1] is Ellipsis else f"a list of {len(inner)} numbers"
            raise ReefcoreError(f"{key} must be {what}, not {value!r}", path)
        return tuple(_value(key, one, inner[0], path) for one in value)
    if isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool):
        return kind(value)
    exponent = kind is float and isinstance(value, str) and re.fullmatch(r"[-+.\d]+[eE][-+]?\d+", value)
    do = "write the number with a point and a signed exponent, such as 1.0e-4" if exponent else None
    if kind is str and isinstance(value, bool):
        do = "put the word in quotes: YAML reads off, on, no and yes as false and true"
    raise ReefcoreError(f"{key} must be of type {kind.__name__}, not {value!r}", path, do)


def _consistent(recipe: Recipe, path: Path) -> None:
    """Refuse values out of range and combinations that cannot be."""

    def refuse(wrong: str, do: str | None = None):
        raise ReefcoreError(wrong, path, do)

    def bounded(key: str, values, interval: str):
        low, high = map(float, interval[1:-1].split(", "))
        for value in values if isinstance(values, tuple) else (values,):
            if not (low < value < high or (interval[0], value) == ("[", low) or (value, interval[-1]) == (high, "]")):
                refuse(f"{key} must lie in {interval}, not {value}")

    for key, choices in CHOICES.items():
        given = getattr(recipe, key)
        for value in given if isinstance(given, tuple) else (given,):
            if value not in choices:
                refuse(f"{key} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    for interval, keys in INTERVALS.items():
        for key in keys.split():
            bounded(key, getattr(recipe, key), interval)
    if (recipe.task, recipe.library) not in TASKS:
        refuse(f"task {recipe.task!r} with library {recipe.library!r} is none of {', '.join(map(' by '.join, TASKS))}")
    arguments = TASKS[recipe.task, recipe.library]
    if set(recipe.task_args) != set(arguments):
        refuse(f"task_args of task {recipe.task} must set {', '.join(arguments) or 'nothing'} and no more")
    for key, (kind, interval) in arguments.items():
        bounded(f"task_args {key}", _value(f"task_args {key}", recipe.task_args[key], kind, path), interval)
    if recipe.task == "masked" and recipe.task_args["decoder_dim"] % recipe.task_args["decoder_heads"]:
        refuse("task_args decoder_dim must be a multiple of decoder_heads")
    soft = [key for key in ("label_smoothing", "mixup", "cutmix") if getattr(recipe, key)]
    if recipe.task == "masked" or recipe.library == "open_clip":
        if recipe.loss or soft:
            refuse(f"{(soft or ['loss'])[0]} means nothing here: {recipe.task} by {recipe.library} has its own loss")
    elif not recipe.loss:
        refuse(f"loss must be one of {', '.join(LOSSES)}, not empty")
    elif soft and not soft_targets(recipe.loss):
        refuse(f"{soft[0]} mixes the classes of a patch, for which loss {recipe.loss} is not defined", "set it to 0")
    for key, none in (("layer_decay", 1), ("drop_path", 0)):
        if recipe.library == "open_clip" and getattr(recipe, key) != none:
            refuse(f"{key} must be {none}: it is not known to models of open_clip")
    if recipe.randaugment and not re.fullmatch(RANDAUGMENT, recipe.randaugment):
        refuse(f"randaugment {recipe.randaugment!r} is not as timm writes it", "such as rand-m7-mstd0.5-inc1, or ''")
    if recipe.warmup_epochs >= recipe.epochs:
        refuse(f"warmup_epochs ({recipe.warmup_epochs:g}) must be below epochs ({recipe.epochs})")
    if recipe.train_per_class and recipe.min_per_class > recipe.train_per_class:
        refuse(f"min_per_class ({recipe.min_per_class}) exceeds train_per_class ({recipe.train_per_class})")
    if recipe.sampler and recipe.min_per_class:
        refuse("sampler and min_per_class both bring rare classes up", "set min_per_class to 0, or sampler to ''")
    if recipe.sampler and weighs_classes(recipe.loss) and not recipe.balance_twice:
        what = f"the loss {recipe.loss} and the sampler {recipe.sampler} each make up for rare classes"
        refuse(f"{what}: together they do it twice", "drop one, or set balance_twice to true where that is meant")
    if clash := {"num_classes", "pretrained", "drop_path_rate", "in_chans"} & set(recipe.model_args):
        refuse(f"model_args may not set {', '.join(sorted(clash))}, which other keys and the data decide")
    _weights(recipe, path, refuse)


def _weights(recipe: Recipe, path: Path, refuse) -> None:
    """Check where training starts from; a pretraining recipe must have learnt the same encoder."""
    kind, _, name = recipe.weights.partition(":")
    if kind != "recipe":
        if kind not in ("scratch", "hub") and not recipe.weights.endswith(".safetensors"):
            refuse(f"weights must be scratch, hub, recipe:NAME or a .safetensors file, not {recipe.weights!r}")
        return
    if recipe.task == "masked" or recipe.library == "open_clip":
        refuse(f"weights {recipe.weights!r} are for timm models that are fine-tuned")
    task = (
        {key: value for _, values in _chain(name) for key, value in values.items()}["task"] if name in names() else ""
    )
    if task != "masked":
        refuse(f"weights: {name!r} is no pretraining recipe", "name one of the library whose task is masked")
    learnt = load(name, recipe.size)
    if (learnt.model.split(".")[0], learnt.model_args) != (recipe.model.split(".")[0], recipe.model_args):
        refuse(f"model and model_args must be those of weights {name}: {learnt.model} {learnt.model_args}")
