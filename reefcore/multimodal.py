"""Ask a multimodal language model which class a patch shows, and make predictions of its answers.

How an answer becomes a class (see `parse`) and how the question is put are choices of this project: the paper describes
its set-ups (section 5.3: names only, with generated and with book-based descriptions), not its question.
"""

from __future__ import annotations

import difflib
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from reefcore import descriptions as described
from reefcore import prompts
from reefcore.chat import Budget, Question, ask_all, short_hash
from reefcore.errors import ReefcoreError
from reefcore.tables import validate

NO_ANSWER = "no valid answer"
REFUSAL = re.compile(r"\b(unknown|unsure|not sure|unable|sorry|can ?not|can['’]t|none of)\b", re.IGNORECASE)
ANSWER_KEYS = ("answer", "genus", "class", "label", "prediction", "name")
MARKED = re.compile(rf"\b(?:{'|'.join(ANSWER_KEYS)})\b\W*(?:is\b)?(?P<said>[^\n]*)", re.IGNORECASE)
ALIKE = 0.85  # of difflib: a word that is counted as a misspelt name
ABOUT_THE_QUESTION = ("side", "instruction", "shuffle")  # settings of a recipe that are not the server's


class Asked(NamedTuple):
    """What `ask` gives: predictions, a table of one row of counts, and the points without a valid answer."""

    predictions: pd.DataFrame
    counts: pd.DataFrame
    listed: pd.DataFrame  # annotation_id, reason, answer


def ask(
    recipe,
    client,
    patches: np.ndarray | Callable[[np.ndarray], np.ndarray],
    points: pd.DataFrame,
    classes: Sequence[str],
    prompt_set: str,
    descriptions: pd.DataFrame | None,
    answers_file: str | Path,
    seed: int = 0,
    budget: Budget | None = None,
    parallel: int = 4,
    again: bool = False,
) -> Asked:
    """Ask a model for the class of each patch.

    The classes of a question stand in an order drawn for each point, so that a model that likes the first is not
    rewarded for the alphabet; ``shuffle: false`` in the recipe's settings keeps the order of `classes`.

    Parameters
    ----------
    recipe : reefcore.recipes.zero_shot.ZeroShot
        Its ``name`` and ``settings``: ``side`` (pixels of the image that is sent as PNG; default 224), ``instruction``
        (default ``chat_genus``), ``shuffle``; the others are sent.
    client : reefcore.chat.Server or Local
    patches : uint8 ndarray, shape (n, s, s, 3), or callable
        A function is called with row numbers of `points`, some at a time, and returns their patches.
    points : DataFrame, n rows
        ``annotation_id``, ``label`` and ``test`` (its test set) of each patch; one of two test sets is asked once.
    classes : sequence of str
    prompt_set : str
        ``name``: the names alone; any other: a set of descriptions, which follow the names.
    descriptions : DataFrame or None
        A table of descriptions, beside those shipped.
    answers_file : path
        Every answer is kept there as it comes; the same call goes on from there.
    seed : int
        Draws the order of the classes.
    budget, parallel, again
        As of `reefcore.chat.ask_all`.

    Returns
    -------
    Asked
        Predictions have run ids ``<recipe>.<prompt set>-zero-<test>`` and a column ``reason``: how the answer was read.
        An answer that names no class, and a question that failed, predicts ``no valid answer``.

    Raises
    ------
    ReefcoreError
        Where a class has no description, the patches are not those of the points, or asking had to stop.
    """
    read = patches if callable(patches) else patches.__getitem__
    given = len(points) if callable(patches) else len(patches)
    if given != len(points) or not given:
        raise ReefcoreError(f"{given} patches for {len(points)} points", do="give one patch for each point")
    own = {"side": 224, "instruction": "chat_genus", "shuffle": True} | recipe.settings
    sent = {key: value for key, value in own.items() if key not in ABOUT_THE_QUESTION}
    texts = {} if prompt_set == "name" else prompts.description(classes, prompt_set, descriptions)
    lines = [f"- {name}: {texts[name]}" if name in texts else f"- {name}" for name in classes]
    points = points.reset_index(drop=True)

    def questions():
        for row, annotation_id in enumerate(points["annotation_id"]):
            order = np.random.default_rng(int(short_hash(f"{seed} {annotation_id}"), 16)).permutation(len(lines))
            listing = "\n".join(lines[i] for i in (order if own["shuffle"] else range(len(lines))))
            text, name = described.prompt(own["instruction"], classes=listing)
            yield Question(annotation_id, f"{name} {prompt_set}", text, png(read(np.array([row]))[0], own["side"]))

    answers, counts = ask_all(client, questions(), answers_file, sent, budget, parallel, again)
    understood = [
        parse(answer.text, classes, answer.finish) if not answer.error else (NO_ANSWER, "failed") for answer in answers
    ]
    table = pd.DataFrame(
        {
            "run_id": f"{recipe.name}.{prompt_set}-zero-" + points["test"],
            "annotation_id": points["annotation_id"],
            "y_true": points["label"],
            "y_pred": [name for name, _ in understood],
            "reason": [reason for _, reason in understood],
        }
    )
    invalid = table["y_pred"] == NO_ANSWER
    listed = table.loc[invalid, ["annotation_id", "reason"]]
    listed = listed.assign(answer=[answers[i].error or answers[i].text for i in listed.index]).reset_index(drop=True)
    reasons = table.loc[invalid, "reason"].value_counts().sort_index()
    row = {
        "recipe": recipe.name,
        "prompts": prompt_set,
        "model": client.model,
        **counts,
        "valid": int((~invalid).sum()),
    }
    row |= {NO_ANSWER: int(invalid.sum()) - counts["failed"]}
    row |= {"reasons": "; ".join(f"{reason}: {count}" for reason, count in reasons.items())}
    return Asked(validate(table, "predictions", answers_file), pd.DataFrame([row]), listed)


def png(patch: np.ndarray, side: int) -> bytes:
    """Encode a patch, uint8 (s, s, 3), as a PNG of `side` pixels a side (bicubic)."""
    from PIL import Image

    image = Image.fromarray(patch)
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def parse(text: str, classes: Sequence[str], finish: str = "") -> tuple[str, str]:
    """Read the class out of an answer.

    Case, punctuation, Markdown, quotes, JSON and what stands between ``<think>`` tags do not matter. A class counts
    where its whole name stands, unless "not" comes right before it. Where several are named, the one that is named as
    the answer counts: alone on the only line that is nothing but a name, or alone after the last "answer:", "genus is"
    and the like. A misspelt name is not a valid answer: genera differ by few letters.

    Returns
    -------
    class_name : str
        One of `classes`, or ``no valid answer``.
    reason : str
        ``name`` (nothing but the name), ``named`` (in a sentence), ``marked`` (of several, as the answer); or
        ``empty``, ``cut off``, ``several``, ``misspelt``, ``refused``, ``other``.
    """
    spelled = {name.casefold(): name for name in classes}
    names = sorted(spelled, key=len, reverse=True)  # a species before its genus
    pattern = re.compile(rf"(?P<no>\bnot\s+(?:an?\s+)?)?\b(?P<name>{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)

    def named(part: str) -> list[str]:
        mentions = pattern.finditer(part.replace("_", " ").replace("*", ""))
        return list(dict.fromkeys(spelled[m["name"].casefold()] for m in mentions if not m["no"]))

    text = re.sub(r"<think>.*?(</think>|$)", "", text, flags=re.DOTALL).strip()
    if not re.search(r"\w", text):
        return NO_ANSWER, "cut off" if finish == "length" else "empty"
    text = _of_json(text)
    found = named(text)
    bare = [line for line in (re.sub(r"[\W_]+", " ", line).strip() for line in text.splitlines()) if line]
    alone = [spelled[line.casefold()] for line in bare if line.casefold() in spelled]
    if len(found) == 1:
        return found[0], "name" if alone and len(bare) == 1 else "named"
    if found:
        if len(alone) == 1:
            return alone[0], "marked"
        marks = [named(mark["said"]) for mark in MARKED.finditer(text)]
        return (marks[-1][0], "marked") if marks and len(marks[-1]) == 1 else (NO_ANSWER, "several")
    words = set(re.findall(r"\w{5,}", text.casefold())) - spelled.keys()
    if any(difflib.get_close_matches(word, names, 1, ALIKE) for word in words):
        return NO_ANSWER, "misspelt"
    if REFUSAL.search(text):
        return NO_ANSWER, "refused"
    return NO_ANSWER, "cut off" if finish == "length" else "other"


def _of_json(text: str) -> str:
    """Return the answer's value where the text is a JSON object that has one, else the text."""
    inside = re.sub(r"^```\w*\s*|\s*```$", "", text)
    try:
        value = json.loads(inside)
    except ValueError:
        return text
    if isinstance(value, dict):
        by_key = {key.casefold(): item for key, item in value.items()}
        value = next((by_key[key] for key in ANSWER_KEYS if isinstance(by_key.get(key), str)), None)
    return value if isinstance(value, str) else text
