"""Ask a multimodal language model which class a patch shows, and make predictions of its answers.

How an answer becomes a class (see `parse`) and how the question is put are choices of this project: the paper describes
its set-ups (section 5.3: names only, with generated and with book-based descriptions), not its question.
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import descriptions as described
from reefcore import prompts
from reefcore.chat import Question, ask_all, short_hash
from reefcore.errors import ReefcoreError
from reefcore.tables import validate

NO_ANSWER = "no valid answer"
REFUSAL = re.compile(r"\b(unknown|unsure|not sure|unable|sorry|can ?not|can['’]t|none of)\b", re.IGNORECASE)
ANSWER_KEYS = ("answer", "genus", "class", "label", "prediction", "name")
MARKED = re.compile(rf"\b(?:{'|'.join(ANSWER_KEYS)})\b\W*(?:is\b)?(?P<said>[^\n,.;}}]*)", re.IGNORECASE)
APART = re.compile(r"[\s_-]+")  # what may stand between the words of a name
DENIAL = r"(?:\b(?:not?|non)|n['’]t)\s+(?:an?\s+)?"
ALIKE = 0.85  # of difflib: a word that is counted as a misspelt name
ABOUT_THE_QUESTION = ("side", "instruction", "shuffle")  # settings of a recipe that are not the server's


def ask(
    recipe,
    client,
    patches: Iterable[np.ndarray],
    points: pd.DataFrame,
    classes: Sequence[str],
    prompt_set: str,
    answers_file: str | Path,
    descriptions: pd.DataFrame | None = None,
    seed: int = 0,
    **options,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ask a model for the class of each patch.

    The classes of a question stand in an order drawn for each point, so that a model that likes the first is not
    rewarded for the alphabet; ``shuffle: false`` in the recipe's settings keeps the order of `classes`.

    Parameters
    ----------
    recipe : reefcore.recipes.zero_shot.ZeroShot
        Its ``name`` and ``settings``: ``side`` (pixels of the image that is sent as PNG; default 224), ``instruction``
        (default ``chat_genus``), ``shuffle``; the others are sent.
    client : reefcore.chat.Server or Local
    patches : iterable of uint8 ndarray, shape (s, s, 3)
        One for each point; taken as they are needed.
    points : DataFrame
        ``annotation_id``, ``label`` and ``test`` (the test set); a point of two test sets is asked once.
    classes : sequence of str
    prompt_set : str
        ``name``: the names alone; any other: a set of descriptions, which follow the names.
    answers_file : path
        Every answer is kept there as it comes; the same call goes on from there.
    descriptions : DataFrame, optional
        A table of descriptions beside those shipped.
    seed : int
        Draws the order of the classes.
    **options
        ``budget``, ``parallel`` and ``again`` of `reefcore.chat.ask_all`.

    Returns
    -------
    predictions : DataFrame
        Of runs ``<recipe>.<prompt set>-zero-<test>``, with the columns ``reason`` (how the answer was read, see
        `parse`, or ``failed``) and ``answer`` (as it came, or why none did). An answer that names no class, and a
        question that failed, predicts ``no valid answer``.
    counts : DataFrame
        One row: those of `reefcore.chat.ask_all`, ``valid``, ``no valid answer`` and ``reasons`` (of answers without a
        class).

    Raises
    ------
    ReefcoreError
        Where a class has no description, the patches are not those of the points, or asking had to stop.
    """
    own = _settings(recipe)
    sent = {key: value for key, value in own.items() if key not in ABOUT_THE_QUESTION}
    texts = {} if prompt_set == "name" else prompts.description(classes, prompt_set, descriptions)

    def questions():
        left = iter(patches)
        for annotation_id in points["annotation_id"]:
            if (patch := next(left, None)) is None:
                raise ReefcoreError(f"there are fewer patches than the {len(points)} points", do="give one for each")
            text, name = question(recipe, annotation_id, classes, texts, seed)
            yield Question(annotation_id, f"{name} {prompt_set}", text, png(patch, own["side"]))

    answers, counts = ask_all(client, questions(), answers_file, sent, **options)
    read = [(NO_ANSWER, "failed") if a.error else parse(a.text, classes, a.finish) for a in answers]
    table = pd.DataFrame(
        {
            "run_id": [f"{recipe.name}.{prompt_set}-zero-{test}" for test in points["test"]],
            "annotation_id": points["annotation_id"].to_numpy(),
            "y_true": points["label"].to_numpy(),
            "y_pred": [name for name, _ in read],
            "reason": [reason for _, reason in read],
            "answer": [answer.error or answer.text for answer in answers],
        }
    )
    invalid = table["y_pred"] == NO_ANSWER
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
    return validate(table, "predictions", answers_file), pd.DataFrame([row])


def _settings(recipe) -> dict:
    return {"side": 224, "instruction": "chat_genus", "shuffle": True} | recipe.settings


def question(recipe, annotation_id: str, classes: Sequence[str], texts: dict[str, str], seed: int = 0) -> tuple:
    """Write the question about one point.

    Parameters
    ----------
    recipe, seed : see `ask`
    annotation_id : str
        Draws the order of the classes, with the seed.
    classes : sequence of str
    texts : dict of str
        A description of each class; empty for names alone.

    Returns
    -------
    text, prompt : str
        The question, and the name and hash of the prompt it was made of.
    """
    own = _settings(recipe)
    lines = [f"- {name}: {texts[name]}" if texts else f"- {name}" for name in classes]
    order = np.random.default_rng(int(short_hash(f"{seed} {annotation_id}"), 16)).permutation(len(lines))
    listing = "\n".join(lines[i] for i in (order if own["shuffle"] else range(len(lines))))
    return described.prompt(own["instruction"], classes=listing)


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
    where its whole name stands, unless "not", "no" or the like comes right before it; a hyphen in a name may be a blank
    ("No Deploy" is No-Deploy). Where several are named, the one that is named as the answer counts: alone on the only
    line that is nothing but a name, or alone after the last "answer:", "genus is" and the like, up to the next comma
    or stop. A misspelt name is not a valid answer: genera differ by few letters.

    Returns
    -------
    class_name : str
        One of `classes`, or ``no valid answer``.
    reason : str
        ``name`` (nothing but the name), ``named`` (in a sentence), ``marked`` (of several, as the answer); or
        ``empty``, ``cut off``, ``several``, ``misspelt``, ``refused``, ``other``.
    """
    spelled = {APART.sub(" ", name).casefold(): name for name in classes}
    names = sorted(spelled, key=len, reverse=True)  # a species before its genus
    # Lazy (??): "No Deploy" is tried as a name before its "no" is taken to deny what follows.
    pattern = re.compile(rf"(?P<no>{DENIAL})??\b(?P<name>{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)

    def named(part: str) -> list[str]:
        mentions = pattern.finditer(APART.sub(" ", part).replace("*", ""))
        return list(dict.fromkeys(spelled[m["name"].casefold()] for m in mentions if not m["no"]))

    text = re.sub(r"<think>.*?(</think>|$)", "", text, flags=re.DOTALL).strip()
    if not re.search(r"\w", text):
        return NO_ANSWER, "cut off" if finish == "length" else "empty"
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
