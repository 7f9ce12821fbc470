"""Zero-shot recipes: which model is asked, and with which prompts, without being trained on the classes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from reefcore.errors import ReefcoreError
from reefcore.files import check_keys, read_settings
from reefcore.tables import SCHEMES

FOLDER = Path(__file__).parent / "zero"
KINDS = ("clip", "chat")
CHAT = {"max_tokens": int, "temperature": (int, float), "side": int}  # the settings that a chat recipe has
ASKED = {"instruction": str, "shuffle": bool}  # and those that it may have
CLIP = {"mean", "std"}  # the settings that a clip recipe may have


@dataclass(frozen=True)
class ZeroShot:
    """One model that is asked.

    Attributes
    ----------
    name : str
        The file's.
    about : str
        What it is, in a sentence.
    kind : {'clip', 'chat'}
        A vision-language model of open_clip, or a multimodal language model behind a chat interface.
    model : str
        Repository on the hub (clip), or the name by which a server or transformers knows it (chat).
    weights : str
        ``hub``; ``sample``, the toy that the sample profile pretrains; or a folder with ``open_clip_config.json`` and
        the weights. Empty for chat.
    prompts : tuple of str
        Prompt sets, see `reefcore.prompts.SETS`.
    tests : tuple of str
        Test sets.
    rows : dict
        Prompt set -> the row of the published Tables 5 and 12 that it stands for.
    points : int
        At most so many points of a test set are asked, drawn by the seed; 0 asks all.
    settings : dict
        Of chat: ``max_tokens`` of an answer, ``temperature``, ``side`` of the image sent in pixels; and where other
        than usual ``instruction`` (a file of ``data/prompts``) and ``shuffle`` (classes, anew for each image). Of clip:
        ``mean`` and ``std`` of pixels in 0..1, where the configuration of the weights leaves them out.
    sources : dict
        Where each choice comes from.
    """

    name: str
    about: str
    kind: str
    model: str
    weights: str
    prompts: tuple[str, ...]
    tests: tuple[str, ...]
    rows: dict
    points: int
    settings: dict
    sources: dict

    def __hash__(self) -> int:
        return hash((self.name, self.model))


def names() -> list[str]:
    """List the zero-shot recipes that travel with the library."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name_or_path: str | Path) -> ZeroShot:
    """Read and check a zero-shot recipe.

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
    path, values = read_settings(name_or_path, FOLDER, "zero-shot recipe")
    values = {"weights": "", "rows": {}, "points": 0, "settings": {}, "sources": {}} | values
    types = {"prompts": list, "tests": list, "rows": dict, "points": int, "settings": dict, "sources": dict}
    keys = [field.name for field in fields(ZeroShot)][1:]
    check_keys(values, keys, keys, path)
    for key in keys:
        kind = types.get(key, str)
        if not isinstance(values[key], kind) or isinstance(values[key], bool):
            raise ReefcoreError(f"{key} must be of type {kind.__name__}, not {values[key]!r}", path)
    for key in ("prompts", "tests"):
        if not all(isinstance(value, str) for value in values[key]):
            raise ReefcoreError(f"{key} must hold names, not {values[key]!r}", path)
    recipe = ZeroShot(path.stem, **values | {key: tuple(values[key]) for key in ("prompts", "tests")})
    for key, wrong in {
        "kind": recipe.kind not in KINDS and f"must be one of {', '.join(KINDS)}",
        "prompts": not recipe.prompts and "may not be empty",
        "tests": (not recipe.tests or set(recipe.tests) - set(SCHEMES)) and f"may hold {', '.join(SCHEMES)}",
        "rows": set(recipe.rows) - set(recipe.prompts) and "may only name prompt sets of prompts",
        "points": recipe.points < 0 and "must be at least 0",
        "weights": (recipe.kind == "clip") != bool(recipe.weights) and "is for models of the kind clip, which need it",
        "settings": _wrong_settings(recipe.kind, recipe.settings),
    }.items():
        if wrong:
            raise ReefcoreError(f"{key} {wrong}, not {getattr(recipe, key)!r}", path)
    return recipe


def _wrong_settings(kind: str, settings: dict) -> str:
    """Say what the settings of a kind must be where they are not, else nothing."""
    if kind == "clip":
        three = all(
            isinstance(v, list) and [isinstance(x, int | float) for x in v] == [True] * 3 for v in settings.values()
        )
        return (
            "" if three and set(settings) in (set(), CLIP) else "may be mean and std, three numbers each, for this kind"
        )
    if not set(CHAT) <= set(settings) <= {*CHAT, *ASKED}:
        return f"must be {', '.join(CHAT)}, and may be {', '.join(ASKED)}, for this kind"
    for key, value in settings.items():
        if not isinstance(value, (CHAT | ASKED)[key]) or (key in CHAT and value < (key != "temperature")):
            return f"must have a {key} that makes sense"
    return ""
