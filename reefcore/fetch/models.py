"""The pretrained models that the recipes of a profile start from: which files of the hub, and getting them."""

from __future__ import annotations

import json

import pandas as pd

from reefcore import recipes
from reefcore.errors import ReefcoreError
from reefcore.fetch.hub import Hub, Remote, is_offline, room
from reefcore.profiles import Profile
from reefcore.recipes import zero_shot
from reefcore.substrate import training


def needed(profile: Profile) -> pd.DataFrame:
    """List the repositories of the hub whose weights the recipes of a profile load.

    Imports timm, which alone knows where its models lie; and so torch.

    Returns
    -------
    DataFrame
        ``model`` (as recipes name it), ``repository``, ``files`` (tuples of names, of which the first that is there is
        taken) and ``recipes`` (theirs); sorted by repository. ``attrs["asked"]``: models that a server or transformers
        has, which are not fetched.
    """
    used, asked = {}, []
    for name in profile.recipes:
        recipe = recipes.load(name, profile.kind, profile.recipe_changes)
        while recipe.weights.startswith("recipe:"):
            recipe = recipes.load(recipe.weights.removeprefix("recipe:"), profile.kind, profile.recipe_changes)
        used.setdefault((recipe.model, recipe.weights), []).append(name)
    for kind in ("recipes", "patch_recipes", "frame_recipes"):
        for name in profile.substrate.get(kind, []):
            recipe = training.recipe(name, profile.kind, profile.recipe_changes)
            used.setdefault((recipe.model, recipe.weights), []).append(name)
    for name in profile.zero_shot:
        asks = zero_shot.load(name)
        if asks.kind != "clip":
            asked.append(asks.model)
        used.setdefault((f"hf-hub:{asks.model}", asks.weights), []).append(name)
    found = {}
    for (model, source), names in used.items():
        if source == "hub":
            found.setdefault((model.removeprefix("hf-hub:"), *_where(model)), []).extend(names)
    rows = [(*where, ", ".join(dict.fromkeys(names))) for where, names in found.items()]
    table = pd.DataFrame(rows, columns=["model", "repository", "files", "recipes"])
    table.attrs["asked"] = asked
    return table.sort_values(["repository", "model"], ignore_index=True)


def _clip_files() -> tuple:
    from reefcore import weights

    return (weights.CLIP_CONFIG,), weights.CLIP_FILES


def _where(model: str) -> tuple[str, tuple]:
    """Say which repository a model of a recipe lies in, and which of its files are loaded."""
    if model.startswith("hf-hub:"):
        return model.removeprefix("hf-hub:"), _clip_files()
    import timm

    from reefcore import weights

    config = timm.get_pretrained_cfg(model)
    if config is None or not config.hf_hub_id:
        raise ReefcoreError(f"timm knows no pretrained weights of {model}", do="name their tag in the recipe")
    names = (config.hf_hub_filename,) if config.hf_hub_filename else weights.TIMM_FILES
    return (config.hf_hub_id, (names,))


def plan(table: pd.DataFrame, hub: Hub | None = None) -> pd.DataFrame:
    """Add what of `needed` is in the hub's cache (``there``), and the ``size`` of what is not, in bytes by the hub."""
    from huggingface_hub import try_to_load_from_cache

    hub, rows = hub or Hub(), []
    for repository, files in zip(table["repository"], table["files"], strict=True):
        there = all(any(isinstance(try_to_load_from_cache(repository, name), str) for name in names) for names in files)
        size = (
            0
            if there or is_offline()
            else sum(one.size for one in _taken(hub.listing(repository, kind="model").files, files))
        )
        rows.append((there, size))
    return table.assign(there=[there for there, _ in rows], size=[size for _, size in rows])


def took(planned: pd.DataFrame, say) -> str:
    """Say how much is to come; refuse where the disk of the hub's cache has less room."""
    from huggingface_hub import constants

    if is_offline() and not planned["there"].all():
        return "HF_HUB_OFFLINE is set, so the hub is not asked how large those are that are not there."
    left = int(planned["size"].sum())
    return f"{constants.HF_HUB_CACHE}: {say(left, room(constants.HF_HUB_CACHE, left))}"


def _taken(listed: tuple[Remote, ...], files: tuple) -> list[Remote]:
    by_name = {one.path: one for one in listed}
    return [found for names in files if (found := next((by_name[n] for n in names if n in by_name), None))]


def get(table: pd.DataFrame) -> None:
    """Get the files of `needed` into the hub's own cache, as training does; see `reefcore.weights.fetch`.

    A file that is cut is fetched from its start by the next call; those that are whole stay.
    """
    from reefcore import weights

    for model, repository, files in zip(table["model"], table["repository"], table["files"], strict=True):
        for names in files:
            path = weights.fetch(repository, names, model)
            if path.name == weights.CLIP_CONFIG:
                _words(model, json.loads(path.read_text(encoding="utf-8")))


def _words(model: str, config: dict) -> None:
    """Get what cuts text into words, where a CLIP names a repository of its own for it."""
    from reefcore import weights

    if owner := config.get("model_cfg", {}).get("text_cfg", {}).get("hf_tokenizer_name"):
        for names in (["tokenizer.json", "spiece.model"], ["special_tokens_map.json", "tokenizer_config.json"]):
            weights.fetch(owner, names, f"the tokenizer of {model}")
        weights.fetch(owner, ["tokenizer_config.json"], f"the tokenizer of {model}")
