"""The steps behind the chapters on substrates: a survey's frames, their parts and patches, and the models of them."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np

from reefcore.errors import ReefcoreError
from reefcore.files import atomic, read_parquet, write_parquet
from reefcore.profiles import Profile
from reefcore.recipes import Recipe
from reefcore.substrate import training
from reefcore.tables import GRID
from reefcore.workflow import steps
from reefcore.workflow.steps import Step

SUBSTRATE = {"scale", "side", "recipes", "patch_recipes", "frame_recipes", "frame_changes", "pseudo"}
#: Tables that a survey brings, with the columns that are needed here.
TABLES = {
    "frames": ["frame", "sequence", "label"],
    "patch_labels": ["frame", "row", "column", "label"],
    "observations": ["observer", "order", "position", "frame", "label"],
}
#: Kind of recipe under `substrate` of a profile -> the end of its runs' names, and what is cut for it.
KINDS = {"recipes": ("", "frame_patches"), "patch_recipes": (".patch", "frame_patches")}
KINDS |= {"frame_recipes": (".frame", "whole_frames")}


def plan(profile: Profile) -> list[Step]:
    """List the steps of a profile's substrate survey, each after those it needs; none where it has none."""
    settings = profile.substrate
    if not settings:
        return []
    if wrong := sorted(set(settings) - SUBSTRATE):
        do = f"use {', '.join(sorted(SUBSTRATE))}"
        raise ReefcoreError(f"unknown key {wrong[0]!r} under substrate", profile.path, do)
    tables, uses = tuple(f"{name}.parquet" for name in TABLES), ("reefcore.substrate.training",)
    if profile.kind == "sample":
        made, given = (*tables, "frames", "tracks"), {"scale": str(settings.get("scale", 1.0))}
        found = [Step("survey", _sample, made, (), ("reefcore.sample.substrate",), ("seed",), given)]
    else:
        found = [Step("survey", _brought, (*tables, "frames"), settings=("data",), external=True)]
    found.append(Step("substrate_splits", _split, ("substrate_splits.parquet",), ("survey",), uses, ("seed",)))
    runs, side = _runs(profile), {"side": str(settings.get("side", 256))}
    for name, grid in {"frame_patches": GRID, "whole_frames": (1, 1)}.items():
        outputs = (f"{name}.npy", f"{name}.parquet", f"{name}_skipped.parquet")
        found.append(Step(name, functools.partial(_cut, name, grid), outputs, ("survey",), uses, given=side))
    trained = []
    for name, (kind, recipe) in runs.items():
        of, source = ("frame" if kind == "frame_recipes" else "patch"), KINDS[kind][1]
        outputs = [f"{of}_predictions/{name}.parquet", *(f"substrate_{table}/{name}.parquet" for table in FACTS)]
        step = Step(
            f"substrate-{name}",
            functools.partial(_run, name, kind, recipe),
            (*outputs, f"checkpoints/substrate-{name}.safetensors"),
            ("survey", "substrate_splits", source),
            uses,
            ("seed", "recipe_changes", "kind"),
            steps._made_of(recipe),
        )
        trained.append(step)
    outputs, names = tuple(output for step in trained for output in step.outputs), tuple(step.name for step in trained)
    before = ("substrate_splits", *dict.fromkeys(KINDS[kind][1] for kind, _ in runs.values()))
    return [*found, *trained, Step("substrate", _train, outputs, names, before=before)] if trained else found


FACTS = ("history", "runs")


@functools.cache
def _runs(profile: Profile) -> dict[str, tuple[str, Recipe]]:
    """Name the runs of a profile: run -> (kind of recipe, recipe)."""
    found = {}
    for kind, (end, _) in KINDS.items():
        for name in profile.substrate.get(kind, []):
            changes = profile.substrate.get("frame_changes", {}) if kind == "frame_recipes" else {}
            recipe = training.recipe(name, profile.kind, changes | profile.recipe_changes)
            if recipe.task != "substrate":
                what = f"substrate {kind}: the task of {name} is {recipe.task}, not substrate"
                raise ReefcoreError(what, profile.path, "extend a recipe of `reefcore recipes list` for substrates")
            found[f"{recipe.name}{end}"] = kind, recipe
    return found


def _source(profile: Profile, kind: str, recipe: Recipe) -> str:
    """Give the name or file that a profile names a recipe by."""
    return next(name for name in profile.substrate[kind] if Path(name).stem == recipe.name)


def _sample(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore.sample import substrate

    substrate.generate(folder, profile.seed, profile.substrate.get("scale", 1.0), workers)


def _brought(profile: Profile, folder: Path, workers: int) -> None:
    wanted = [f"{name}.parquet" for name in TABLES]
    if missing := [name for name in (*wanted, "frames") if not (folder / name).exists()]:
        what = f"the profile {profile.name} needs {', '.join(missing)} of a survey in its data folder"
        raise ReefcoreError(what, folder, "put them there, or use the profile sample")
    for name, columns in TABLES.items():
        if lacking := [column for column in columns if column not in read_parquet(folder / f"{name}.parquet")]:
            raise ReefcoreError(f"the column {lacking[0]} is missing", folder / f"{name}.parquet", "add it")


def _split(profile: Profile, folder: Path, workers: int) -> None:
    frames, labels = (read_parquet(folder / f"{name}.parquet") for name in ("frames", "patch_labels"))
    write_parquet(training.split(frames, labels, profile.seed), folder / "substrate_splits.parquet")


def _cut(name: str, grid: tuple[int, int], profile: Profile, folder: Path, workers: int) -> None:
    frames, side = sorted(read_parquet(folder / "frames.parquet")["frame"]), profile.substrate.get("side", 256)
    with atomic(folder / f"{name}.npy") as temporary:
        shape = (len(frames) * grid[0] * grid[1], side, side, 3)
        pixels = np.lib.format.open_memmap(temporary, "w+", np.uint8, shape)  # a large survey does not fit in memory
        _, places, skipped = training.cut(folder / "frames", frames, side, *grid, workers, pixels)
        pixels.flush()
    write_parquet(places, folder / f"{name}.parquet")
    write_parquet(skipped, folder / f"{name}_skipped.parquet")


def _run(name: str, kind: str, recipe: Recipe, profile: Profile, folder: Path, workers: int) -> None:
    frames, labels, splits = (
        read_parquet(folder / f"{table}.parquet") for table in ("frames", "patch_labels", "substrate_splits")
    )
    source, classes = KINDS[kind][1], training.SUBSTRATES
    if kind == "frame_recipes":
        labels, classes = frames[["frame", "label"]].dropna().assign(row=0, column=0), training.FRAME
    elif kind == "patch_recipes":
        splits = training.random_split(labels, splits, profile.seed)
    resume = folder / "progress" / f"substrate-{name}.safetensors"
    done = training.run(
        recipe,
        np.load(folder / f"{source}.npy", mmap_mode="r"),
        read_parquet(folder / f"{source}.parquet"),
        labels,
        splits,
        frames=frames,
        classes=classes,
        name=name,
        seed=profile.seed,
        resume=resume,
        about={"notice": profile.notice},
    )
    if int(os.environ.get("RANK", 0)):
        return  # of several processes, the first writes
    told, of = done.predictions, "patch"
    if kind == "frame_recipes":
        told, of = told.drop(columns=["split", "row", "column"]), "frame"
    full = training.recipe(_source(profile, kind, recipe), "full")  # for the page, which builds no models
    facts = done.facts.assign(full_parameters=training.parameters(full, len(classes)))
    tables = {f"{of}_predictions": told, "substrate_history": done.history, "substrate_runs": facts}
    for table, rows in tables.items():
        write_parquet(rows, folder / table / f"{name}.parquet")
    done.fitted.save(folder / "checkpoints" / f"substrate-{name}.safetensors")
    resume.unlink(missing_ok=True)


def _train(profile: Profile, folder: Path, workers: int) -> None:
    names = [f"substrate-{name}" for name in _runs(profile)]
    steps.together(profile, folder, names, workers)
