"""Profiles: where the data of a run lie, how large it is, and what every page it feeds must say; one YAML file each."""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

from reefcore.errors import ReefcoreError
from reefcore.files import check_keys, read_settings

KINDS = ("sample", "full")
CRITERIA = {"min_annotations", "min_sources", "min_per_source"}
TRAIN_SETS = ("S1", "S2", "S3", "S4")


@dataclass(frozen=True)
class Profile:
    """What a profile file says; its keys are these attributes (`name` and `path` are the file's).

    Attributes
    ----------
    name : str
        The file's name without its ending.
    kind : {'sample', 'full'}
        Whether the data are made by this project, or come from outside and must be there.
    notice : str
        The sentence that stands on every page, figure and table of this profile.
    data : str
        The data folder, relative to the root (see `reefcore.workflow.root`); ``$NAME`` is taken from the environment.
    seed : int
        At least 0.
    scale : float
        Size of the sample, 1 being the one of the book.
    crop : int
        Side of a patch in pixels.
    recipes, train_sets : tuple of str
        Which recipes are trained, each on those of its own training sets that are among these.
    predictions : tuple of str
        Files of predictions of other programs, relative to the root, whose runs the chapters show beside the trained.
    seeds : dict
        Run -> how many seeds it is trained with, where more than one: ``{vit-S3: 3}``.
    shards : bool
        Whether patches are kept as WebDataset shards, for what does not fit in memory, instead of one array.
    recipe_changes : dict
        Keys of `reefcore.recipes.Recipe` that this profile sets in each of its recipes.
    zero_shot : tuple of str
        Zero-shot recipes (`reefcore.recipes.zero_shot`) whose models are asked.
    descriptions : str
        A table of descriptions (`reefcore.descriptions`) with the sets that the library does not bring, relative to the
        root; empty where there is none.
    corpus : dict
        Of the sample: how large the invented reefs are that its own vision-language model learns from; see
        `reefcore.sample.corpus.make` and `reefcore.contrastive.pretrain`.
    few_shot : dict
        What `reefcore.few_shot.run` is called with; nothing is run where it is empty.
    open_set : dict
        ``recipes`` and ``train_sets`` whose models are trained without some classes, and how these are chosen (see
        `reefcore.open_set.hold_out`); nothing is run where it is empty.
    substrate : dict
        Of a substrate survey: ``recipes`` that are trained on patches and ``frame_recipes`` on whole frames, by parts
        of whole sequences, ``patch_recipes`` by parts that a random draw of patches makes (to show how much it
        flatters), ``frame_changes`` (keys of `reefcore.recipes.Recipe` for frame_recipes: there are fewer frames than
        patches), ``side`` (of a patch as it is kept, in pixels; 256), ``scale`` (of the sample, 1 being the one of the
        book), ``pseudo`` (``routes``: zero-shot recipes that label patches; ``frames`` and ``repeats`` of
        `reefcore.substrate.pseudo.compare`). The profile has no survey where it is empty.
    domains : dict
        Of other reefs as test domains: the ``run`` that answers, and ``points`` drawn from each photo with a mask (25);
        nothing is tested where it is empty.
    resamples : int
        Of the bootstrap.
    site : str
        The source that is held out as test set W; empty where there is none.
    criteria : dict
        What `reefcore.curation.label_criteria` is called with; the paper's where empty.
    cross_sources : dict
        ``n_test`` and ``n_val`` of `reefcore.splits.across_sources`; the paper's where empty.
    resources : dict
        What jobs ask a machine or a cluster for, by kind, where it is not what `reefcore.workflow.resources` says. No
        result depends on it.
    path : Path
        The file itself.
    """

    name: str
    kind: str
    notice: str
    data: str
    seed: int
    crop: int
    recipes: tuple[str, ...]
    train_sets: tuple[str, ...]
    resamples: int
    scale: float = 1.0
    predictions: tuple[str, ...] = ()
    seeds: dict = field(default_factory=dict, hash=False)
    shards: bool = False
    recipe_changes: dict = field(default_factory=dict, hash=False)
    zero_shot: tuple[str, ...] = ()
    descriptions: str = ""
    corpus: dict = field(default_factory=dict, hash=False)
    few_shot: dict = field(default_factory=dict, hash=False)
    open_set: dict = field(default_factory=dict, hash=False)
    substrate: dict = field(default_factory=dict, hash=False)
    domains: dict = field(default_factory=dict, hash=False)
    site: str = ""
    criteria: dict = field(default_factory=dict, hash=False)
    cross_sources: dict = field(default_factory=dict, hash=False)
    resources: dict = field(default_factory=dict, hash=False)
    path: Path = Path()

    @property
    def settings(self) -> dict:
        """Everything that results depend on, as plain values: what a key is made of."""
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in ("path", "resources")}

    def folder(self, root: Path) -> Path:
        """Return the data folder; a seed that is not the file's own has a folder of its own.

        Raises
        ------
        ReefcoreError
            Where the folder is named by an environment variable that is not set.
        """
        named = re.findall(r"\$\{?(\w+)", self.data)
        text = os.path.expandvars(os.path.expanduser(self.data))
        if unset := [name for name in named if not os.environ.get(name)]:  # empty, it would be the checkout
            raise ReefcoreError(
                f"the data folder is named by the environment variable {unset[0]}, which is not set",
                self.path,
                f"set {unset[0]} to the folder with the released data, or write the folder into a copy of this file",
            )
        return root / text

    def with_seed(self, seed: int | None) -> Profile:
        """Return the profile with another seed, in a data folder of its own; None and the own seed change nothing."""
        if seed is None or seed == self.seed:
            return self
        if seed < 0:
            raise ReefcoreError(f"the seed {seed} is negative", do="choose 0 or more")
        return dataclasses.replace(self, seed=seed, data=f"{self.data}-seed{seed}")


def names() -> list[str]:
    """List the profiles that travel with the library."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))


def given(profile: Profile) -> str:
    """Return what a command line names a profile by: its name, or the path of a file of one's own."""
    return profile.name if profile.path.parent == Path(__file__).parent else str(profile.path)


def load(name_or_path: str | Path) -> Profile:
    """Read and check a profile.

    Parameters
    ----------
    name_or_path : str or path
        One of `names`, or a YAML file.

    Raises
    ------
    ReefcoreError
        Naming the file and the key: where the file is missing or no YAML mapping, or a key is unknown, missing, of the
        wrong type or out of its range.
    """
    path, values = read_settings(name_or_path, Path(__file__).parent, "profile")
    return _checked(values, path)


def _checked(values: dict, path: Path) -> Profile:
    """Make a Profile of a file's values."""
    hints = {key: kind for key, kind in get_type_hints(Profile).items() if key not in ("name", "path")}
    required = [f.name for f in dataclasses.fields(Profile) if f.name in hints and f.default is f.default_factory]
    check_keys(values, hints, required, path)
    typed = {}
    for key, value in values.items():
        kind = hints[key]
        if get_origin(kind) is tuple:
            if not isinstance(value, list) or not all(isinstance(v, get_args(kind)[0]) for v in value):
                raise ReefcoreError(f"{key} must be a list of text, not {value!r}", path)
            typed[key] = tuple(value)
        elif isinstance(value, bool) != (kind is bool) or not isinstance(value, int | float if kind is float else kind):
            raise ReefcoreError(f"{key} must be of type {kind.__name__}, not {value!r}", path)
        else:
            typed[key] = kind(value)
    profile = Profile(name=path.stem, path=path, **typed)
    for key, wrong in {
        "kind": profile.kind not in KINDS and f"must be one of {', '.join(KINDS)}",
        "seed": profile.seed < 0 and "must be at least 0",
        "crop": profile.crop < 1 and "must be at least 1",
        "resamples": profile.resamples < 1 and "must be at least 1",
        "scale": not 0 < profile.scale <= 100 and "must lie in (0, 100]",
        "train_sets": not set(profile.train_sets) <= set(TRAIN_SETS) and f"may hold {', '.join(TRAIN_SETS)}",
        "criteria": not set(profile.criteria) <= CRITERIA and f"may hold {', '.join(sorted(CRITERIA))}",
        "cross_sources": not set(profile.cross_sources) <= {"n_test", "n_val"} and "may hold n_test, n_val",
        "seeds": not all(isinstance(n, int) and n > 0 for n in profile.seeds.values()) and "must give whole numbers",
        "notice": not profile.notice.strip() and "may not be empty: every page says which profile it is of",
    }.items():
        if wrong:
            raise ReefcoreError(f"{key} {wrong}, not {getattr(profile, key)!r}", path)
    return profile
