"""The steps behind the chapter on pseudo-labels: what models that no expert taught call the patches, and its worth."""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import chat
from reefcore.files import check_keys, read_parquet, share, write_parquet
from reefcore.profiles import Profile
from reefcore.recipes import zero_shot
from reefcore.recipes.zero_shot import ZeroShot
from reefcore.substrate import PLACE
from reefcore.workflow import experiments, keys
from reefcore.workflow.steps import Step

KEYS = ("routes", "frames", "repeats")  # of `pseudo` under `substrate` in a profile: the last two for pseudo.compare
PROMPTS = ("substrate", "chat_substrate")  # files of data/prompts


def plan(profile: Profile) -> list[Step]:
    """List the steps of a profile's pseudo-labels; none where it names no routes, or none that can be asked.

    A route is a zero-shot recipe (`reefcore.recipes.zero_shot`): its model and its settings; its prompts are those of
    ``data/prompts/substrate.yaml``, and ``points`` the most patches of training and of test that are asked, in whole
    frames. Multimodal models are asked only where the environment says where they run (see `reefcore.chat.client`).
    """
    asked = [recipe for recipe, why in _routes(profile) if not why]
    if not asked:
        return []
    needs = ("survey", "substrate_splits", "frame_patches")
    sample = ["clip_sample"] if any(recipe.weights == "sample" for recipe in asked) else []
    uses = ("reefcore.substrate.pseudo", "reefcore.vision_language", "reefcore.patches")
    given = {recipe.name: keys.text_hash(repr(dataclasses.asdict(recipe))) for recipe in asked}
    given |= {name: keys.digest(share("data", "prompts", f"{name}.yaml")) for name in PROMPTS}
    settings = {key: str(value) for key, value in profile.substrate["pseudo"].items() if key != "routes"}
    label = functools.partial(_label, asked)
    worth_needs, few = (*needs, "pseudo_labels"), ("reefcore.substrate.pseudo", "reefcore.patches")
    return [
        Step("pseudo_labels", label, ("pseudo_labels.parquet",), (*needs, *sample), uses, ("seed",), given),
        Step("pseudo_worth", _worth, ("pseudo_worth.parquet",), worth_needs, few, ("seed", "resamples"), settings),
    ]


def _routes(profile: Profile) -> list[tuple[ZeroShot, str]]:
    """Read the routes of a profile, each with why it is not run, if it is not."""
    given = profile.substrate.get("pseudo", {})
    check_keys(given, KEYS, ("routes",) if given else (), profile.path)
    reached = os.environ.get(chat.URL) or os.environ.get(chat.LOCAL, "0") not in ("", "0")
    why = "" if reached else f"neither {chat.URL} nor {chat.LOCAL} is set"
    recipes = map(zero_shot.load, given.get("routes", []))
    return [(recipe, why if recipe.kind == "chat" else "") for recipe in recipes]


def routes(profile: Profile) -> pd.DataFrame:
    """List the routes of a profile: ``route``, ``kind``, ``model``, ``not run because`` (empty where it is run)."""
    rows = [(recipe.name, recipe.kind, recipe.model, why) for recipe, why in _routes(profile)]
    return pd.DataFrame(rows, columns=["route", "kind", "model", "not run because"])


def _points(folder: Path) -> pd.DataFrame:
    """Give the training and test patches that an expert labelled, with ``part`` and ``place`` in the array."""
    places = read_parquet(folder / "frame_patches.parquet")[PLACE]
    labels = read_parquet(folder / "patch_labels.parquet")
    points = places.assign(place=np.arange(len(places))).merge(labels, on=PLACE)
    points = points.merge(read_parquet(folder / "substrate_splits.parquet")[["frame", "part"]], on="frame")
    return points[points["part"] != "val"].reset_index(drop=True)


def _label(asked: list[ZeroShot], profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import vision_language
    from reefcore.substrate import pseudo

    points, patches, tables = _points(folder), np.load(folder / "frame_patches.npy", mmap_mode="r"), []
    for recipe in asked:
        some = pseudo.whole_frames(points, recipe.points, profile.seed)
        if recipe.kind == "chat":
            file = folder / "answers" / f"pseudo-{recipe.name}.jsonl"
            images = (patches[place] for place in some["place"])
            client, budget = chat.client(recipe.model), chat.budget()
            found, _ = pseudo.ask(client, images, some, file, budget, recipe.settings, profile.seed)
        else:
            source = experiments._source(recipe, folder)
            encoder = vision_language.load(recipe.model, source, recipe.settings)
            starts = range(0, len(some), experiments.AT_ONCE)
            parts = [some.iloc[start : start + experiments.AT_ONCE] for start in starts]
            found = pd.concat([pseudo.zero_shot(encoder, patches[part["place"]], part) for part in parts])
            found = found.reset_index(drop=True)
        expert = some[["part", "label"]].reset_index(drop=True).rename(columns={"label": "y_true"})
        found = found.rename(columns={"label": "y_pred"})
        tables.append(pd.concat([expert.assign(route=recipe.name), found], axis=1))
    write_parquet(pd.concat(tables, ignore_index=True), folder / "pseudo_labels.parquet")


def _worth(profile: Profile, folder: Path, workers: int) -> None:
    from reefcore import few_shot
    from reefcore.patches import ArrayPatches
    from reefcore.substrate import pseudo

    points, array = _points(folder), np.load(folder / "frame_patches.npy", mmap_mode="r")
    patches, side = ArrayPatches(array, pd.Series(range(len(array)))), min(array.shape[1], experiments.TEXTURE_SIDE)
    parts = np.array_split(points["place"].to_numpy(), range(4096, len(points), 4096))
    x = np.concatenate([few_shot.colour_texture(patches.read(part, side)) for part in parts])
    settings = {key: value for key, value in profile.substrate["pseudo"].items() if key != "routes"}
    labels = read_parquet(folder / "pseudo_labels.parquet")
    table = pseudo.compare(points, x, labels, n=profile.resamples, seed=profile.seed, **settings)
    write_parquet(table, folder / "pseudo_worth.parquet")
