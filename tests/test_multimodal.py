"""Questions about patches: how answers are read, what is sent, counted and listed."""

import dataclasses
import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import multimodal
from reefcore.chat import Answer
from reefcore.errors import ReefcoreError
from reefcore.multimodal import NO_ANSWER, parse
from reefcore.recipes import zero_shot

CLASSES = ["Acropora", "Montipora", "Pocillopora", "Porites", "Astrea", "Astreopora"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Porites", ("Porites", "name")),
        ("  porites.\n", ("Porites", "name")),
        ("**Porites**", ("Porites", "name")),
        ("`PORITES`", ("Porites", "name")),
        ("- 'Porites'", ("Porites", "name")),
        ('{"genus": "Porites"}', ("Porites", "name")),
        ('```json\n{"Answer": "porites", "not": "Acropora"}\n```', ("Porites", "name")),
        ("The coral in the middle is Porites, a massive one.", ("Porites", "named")),
        ("Porites lobata", ("Porites", "named")),
        ("This is Porites, not Acropora.", ("Porites", "named")),
        ("Astreopora", ("Astreopora", "name")),
        ("<think>Acropora? No, Montipora.</think>Porites", ("Porites", "name")),
        ("It has the look of Acropora or Montipora.\n\nPorites", ("Porites", "marked")),
        ("Acropora branches, Porites does not.\nAnswer: Porites", ("Porites", "marked")),
        ("Either Acropora or Porites. The genus is **Acropora**.", ("Acropora", "marked")),
        ("Acropora or Porites", (NO_ANSWER, "several")),
        ("\n".join(CLASSES), (NO_ANSWER, "several")),
        ("Answer: Acropora or Porites", (NO_ANSWER, "several")),
        ("Acropra", (NO_ANSWER, "misspelt")),
        ("Unknown", (NO_ANSWER, "refused")),
        ("I'm sorry, I cannot identify corals.", (NO_ANSWER, "refused")),
        ("None of the genera.", (NO_ANSWER, "refused")),
        ("Dendrophyllia", (NO_ANSWER, "other")),
        ("brain coral", (NO_ANSWER, "other")),
        ("", (NO_ANSWER, "empty")),
        (" ... ", (NO_ANSWER, "empty")),
        ("<think>hmm Porites", (NO_ANSWER, "empty")),
        ("not Porites", (NO_ANSWER, "other")),
        ("珊瑚", (NO_ANSWER, "other")),
        ("[1, 2, 3]", (NO_ANSWER, "other")),
    ],
)
def test_an_answer_is_one_class_or_none(text, expected):
    assert parse(text, CLASSES) == expected


def test_an_answer_that_was_cut_is_said_to_be():
    assert parse("<think>long", CLASSES, "length") == (NO_ANSWER, "cut off")
    assert parse("The coral in the middle", CLASSES, "length") == (NO_ANSWER, "cut off")


class Eyes:
    """A model that sees how red a patch is, and says what `says` makes of that."""

    model = "eyes"

    def __init__(self, says):
        self.says, self.seen = says, []

    def answer(self, text, image=b"", before=lambda: None, **settings):
        before()
        pixels = np.asarray(Image.open(io.BytesIO(image)))
        self.seen.append((text, pixels, settings))
        said = self.says(int(pixels[0, 0, 0]))
        return said if isinstance(said, Answer) else Answer(said, 50, 2, "stop")


@pytest.fixture
def recipe():
    return dataclasses.replace(zero_shot.load("qwen2_5_vl"), settings={"max_tokens": 8, "temperature": 0.0, "side": 64})


def patches_and_points(n=4):
    patches = np.stack([np.full((32, 32, 3), 10 * i, np.uint8) for i in range(n)])
    points = pd.DataFrame({"annotation_id": [f"p{i}" for i in range(n)], "label": (CLASSES * 2)[:n], "test": "S2"})
    return patches, points.set_index(pd.Index(range(5, 5 + n)))


def test_answers_become_predictions_counts_and_a_list(recipe, tmp_path):
    patches, points = patches_and_points()
    says = {0: "Acropora", 10: "Who knows? Unknown.", 20: Answer("", error="status 400: policy"), 30: "Acropora!"}
    asked = multimodal.ask(recipe, Eyes(says.get), patches, points, CLASSES, "name", None, tmp_path / "a.jsonl")
    table, counts = asked.predictions, asked.counts.iloc[0]
    assert set(table["run_id"]) == {"qwen2_5_vl.name-zero-S2"}
    assert list(table["y_true"]) == CLASSES[:4]
    assert list(table["y_pred"]) == ["Acropora", NO_ANSWER, NO_ANSWER, "Acropora"]
    assert list(table["reason"]) == ["name", "refused", "failed", "name"]
    assert (counts["asked"], counts["valid"], counts[NO_ANSWER], counts["failed"]) == (4, 2, 1, 1)
    assert counts["reasons"] == "failed: 1; refused: 1" and counts["input_tokens"] == 150
    assert list(asked.listed["annotation_id"]) == ["p1", "p2"]
    assert list(asked.listed["answer"]) == ["Who knows? Unknown.", "status 400: policy"]


def test_the_image_has_the_side_and_the_server_the_settings_of_the_recipe(recipe, tmp_path):
    patches, points = patches_and_points(1)
    eyes = Eyes(lambda red: "Porites")
    multimodal.ask(recipe, eyes, patches, points, CLASSES, "name", None, tmp_path / "a.jsonl")
    text, pixels, settings = eyes.seen[0]
    assert pixels.shape == (64, 64, 3) and settings == {"max_tokens": 8, "temperature": 0.0}
    assert all(f"- {name}\n" in text for name in CLASSES)


def order_of(text):
    return [line[2:] for line in text.splitlines() if line.startswith("- ")]


def test_the_classes_are_shuffled_for_each_point_by_the_seed(recipe, tmp_path):
    patches, points = patches_and_points(6)

    def orders(which, seed, changed=recipe):
        eyes, file = Eyes(lambda red: "Porites"), tmp_path / f"{which}.jsonl"
        multimodal.ask(changed, eyes, patches, points, CLASSES, "name", None, file, seed=seed, parallel=1)
        return [order_of(text) for text, _, _ in eyes.seen]

    first = orders("a", 0)
    assert all(sorted(order) == sorted(CLASSES) for order in first) and len(set(map(tuple, first))) > 3
    assert orders("b", 0) == first and orders("c", 1) != first
    still = dataclasses.replace(recipe, settings=recipe.settings | {"shuffle": False})
    assert orders("d", 0, still) == [CLASSES] * 6


def test_a_point_of_two_test_sets_is_asked_once_and_patches_may_be_read_as_needed(recipe, tmp_path):
    patches, points = patches_and_points(3)
    both, rows, eyes = pd.concat([points, points.assign(test="S3")]), [], Eyes(lambda red: "Porites")

    def read(at):
        rows.extend(at)
        return patches[at % 3]

    asked = multimodal.ask(recipe, eyes, read, both, CLASSES, "name", None, tmp_path / "a.jsonl")
    assert len(eyes.seen) == 3 and rows == list(range(6))
    assert asked.predictions["run_id"].value_counts().to_dict() == {
        "qwen2_5_vl.name-zero-S2": 3,
        "qwen2_5_vl.name-zero-S3": 3,
    }
    again = multimodal.ask(recipe, eyes, read, both, CLASSES, "name", None, tmp_path / "a.jsonl")
    assert len(eyes.seen) == 3 and again.counts["from_cache"].iloc[0] == 3
    pd.testing.assert_frame_equal(again.predictions, asked.predictions)


def test_descriptions_follow_the_names_shipped_ones_and_ones_own(recipe, tmp_path):
    patches, points = patches_and_points(1)
    classes = ["Acropora", "Porites"]
    rows = [(name, "book", f"{name} of the book", 4, "me", "", "", "") for name in classes]
    own = pd.DataFrame(rows, columns="taxon set text words how prompt source passage".split())
    eyes = Eyes(lambda red: "Porites")
    multimodal.ask(recipe, eyes, patches, points, classes, "book", own, tmp_path / "a.jsonl")
    multimodal.ask(recipe, eyes, patches, points, classes, "morphology", own, tmp_path / "a.jsonl")
    book, shipped = (order_of(text) for text, _, _ in eyes.seen)
    assert sorted(book) == ["Acropora: Acropora of the book", "Porites: Porites of the book"]
    assert all(len(line.split()) > 15 for line in shipped)
    with pytest.raises(ReefcoreError, match="no descriptions of the set 'generated'"):
        multimodal.ask(recipe, eyes, patches, points, classes, "generated", own, tmp_path / "a.jsonl")
    with pytest.raises(ReefcoreError, match="Nonea"):
        multimodal.ask(recipe, eyes, patches, points, [*classes, "Nonea"], "book", own, tmp_path / "a.jsonl")


def test_patches_that_are_not_those_of_the_points(recipe, tmp_path):
    patches, points = patches_and_points(3)
    with pytest.raises(ReefcoreError, match="2 patches for 3 points"):
        multimodal.ask(recipe, Eyes(str), patches[:2], points, CLASSES, "name", None, tmp_path / "a.jsonl")
