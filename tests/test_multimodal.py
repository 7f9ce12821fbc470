"""Reading answers of multimodal models, and asking them about patches."""

import base64
import io
import logging

import numpy as np
import pandas as pd
import pytest
from chat_server import serve
from PIL import Image

from reefcore import chat, multimodal
from reefcore.errors import ReefcoreError
from reefcore.recipes import zero_shot

CLASSES = ["Acropora", "Porites", "Pocillopora", "Galaxea", "Pavona"]


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("Porites", "Porites", "name"),
        (" **porites**.\n", "Porites", "name"),
        ('"PORITES"', "Porites", "name"),
        ('```json\n{"genus": "Porites", "confidence": 0.9}\n```', "Porites", "named"),
        ('{"answer": "Porites", "why": "smoother than Acropora"}', "Porites", "marked"),
        ("The coral in the middle is a Porites colony.", "Porites", "named"),
        ("It is not Acropora but Porites", "Porites", "named"),
        ("Acropora or Porites? The answer is Porites, not Galaxea.", "Porites", "marked"),
        ("Acropora has branches; this has none.\n\nPorites", "Porites", "marked"),
        ("<think>Acropora? Galaxea?</think>Porites", "Porites", "name"),
        ("Acropora, Porites", None, "several"),
        ("\n".join(f"- {name}" for name in CLASSES), None, "several"),
        ("Acropra", None, "misspelt"),
        ("not Porites", None, "other"),
        ("Unknown", None, "refused"),
        ("I'm sorry, I can't tell.", None, "refused"),
        ("Fungia", None, "other"),
        (" . ", None, "empty"),
        ("", None, "empty"),
    ],
)
def test_an_answer_is_read_by_the_rule(text, expected, reason):
    assert multimodal.parse(text, CLASSES) == (expected or "no valid answer", reason)


def test_an_answer_cut_off_before_a_name_says_so():
    assert multimodal.parse("<think>It might be", CLASSES, "length") == ("no valid answer", "cut off")
    assert multimodal.parse("The coral in the", CLASSES, "length")[1] == "cut off"


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny_chat.yaml"
    path.write_text(
        "about: A test.\nkind: chat\nmodel: m\nprompts: [name, mine]\ntests: [S2, S3]\n"
        "settings: {max_tokens: 8, temperature: 0.0, side: 16}\n"
    )
    return zero_shot.load(path)


@pytest.fixture
def points():
    ids = ["a", "b", "c", "a"]
    return pd.DataFrame({"test": ["S2", "S2", "S2", "S3"], "annotation_id": ids, "label": ["Porites"] * 4})


PATCHES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
PATCHES[3] = PATCHES[0]


def client(server):
    return chat.Server("m", server.url, tries=1, timeout=5)


def described(**columns):
    given = {"taxon": CLASSES, "set": "mine", "text": [f"looks like {n}ish" for n in range(5)], "words": 3}
    return pd.DataFrame(given | {"how": "me", "prompt": "", "source": "", "passage": ""} | columns)


def test_patches_become_predictions_and_counts(recipe, points, tmp_path):
    said = ["Porites", "no idea", (400, b"policy", {})]
    with serve(lambda text, n: said[n]) as server:
        options = {"parallel": 1, "budget": chat.Budget(input_price=1, output_price=1)}
        table, counts = multimodal.ask(
            recipe, client(server), PATCHES, points, CLASSES, "name", tmp_path / "a.jsonl", **options
        )
        again, _ = multimodal.ask(recipe, client(server), PATCHES, points, CLASSES, "name", tmp_path / "a.jsonl")
        assert len(server.requests) == 3  # the point of both test sets is asked once
    pd.testing.assert_frame_equal(table, again)
    assert table["run_id"].tolist() == ["tiny_chat.name-zero-S2"] * 3 + ["tiny_chat.name-zero-S3"]
    assert table["y_pred"].tolist() == ["Porites", "no valid answer", "no valid answer", "Porites"]
    assert table["reason"].tolist() == ["name", "other", "failed", "name"]
    assert table["answer"][1] == "no idea" and "policy" in table["answer"][2]
    row = counts.iloc[0]
    assert (row["asked"], row["valid"], row["no valid answer"], row["failed"]) == (3, 2, 1, 1)
    assert row["reasons"] == "failed: 1; other: 1" and row["cost"] == pytest.approx(30e-6)
    body = server.requests[0]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 8, 0.0) and "side" not in body
    image = base64.b64decode(body["messages"][0]["content"][0]["image_url"]["url"].partition(",")[2])
    assert Image.open(io.BytesIO(image)).size == (16, 16)


def listed(text):
    return [line[2:] for line in text.splitlines() if line.startswith("- ")]


def test_classes_stand_in_an_order_drawn_for_each_point(recipe, points, tmp_path):
    orders = {}
    for seed in (0, 0, 1):
        with serve("Porites") as server:
            file = tmp_path / f"{len(orders)}{seed}.jsonl"
            multimodal.ask(recipe, client(server), PATCHES, points, CLASSES, "name", file, seed=seed, parallel=1)
        found = [listed(text) for text in server.texts]
        assert all(sorted(order) == sorted(CLASSES) for order in found) and len({tuple(o) for o in found}) > 1
        assert orders.setdefault(seed, found) == found
    assert orders[0] != orders[1]


def test_descriptions_follow_the_names_and_a_class_without_one_is_an_error(recipe, points, tmp_path):
    with serve("Porites") as server:
        ask = (recipe, client(server), PATCHES, points, CLASSES, "mine", tmp_path / "a.jsonl")
        multimodal.ask(*ask, descriptions=described())
        assert "Porites: looks like 1ish" in listed(server.texts[0])
        sent = len(server.requests)
        with pytest.raises(ReefcoreError, match="describes 4 of 5 classes, not Acropora"):
            multimodal.ask(*ask, descriptions=described().iloc[1:])
        with pytest.raises(ReefcoreError, match="fewer patches than the 4 points"):
            multimodal.ask(*ask[:2], PATCHES[:2], *ask[3:], descriptions=described())
        assert len(server.requests) == sent


def test_the_zero_shot_step_asks_a_chat_model(recipe, tmp_path, monkeypatch, caplog):
    from types import SimpleNamespace

    from reefcore.files import read_parquet, write_parquet
    from reefcore.workflow import experiments

    folder, ids = tmp_path / "data", ["a", "b", "c"]
    splits = {"scheme": ["S2", "S2", "S3", "S2"], "annotation_id": ["a", "b", "a", "c"]}
    splits["part"] = ["test", "test", "test", "train"]
    write_parquet(pd.DataFrame(splits), folder / "splits.parquet")
    labels = pd.DataFrame({"annotation_id": ids, "label": ["Porites", "Acropora", "Galaxea"]})
    write_parquet(labels, folder / "annotations.parquet")
    write_parquet(labels[["annotation_id"]], folder / "patches.parquet")
    np.save(folder / "patches.npy", np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8))
    profile = SimpleNamespace(seed=0, shards=False, descriptions="", name="test", kind="sample")
    monkeypatch.delenv("REEFCORE_CHAT_URL", raising=False)
    monkeypatch.delenv("REEFCORE_CHAT_LOCAL", raising=False)
    with pytest.raises(ReefcoreError, match=r"REEFCORE_CHAT_URL.*REEFCORE_CHAT_LOCAL=1"):
        experiments._ask(recipe, profile, folder, 1)
    with serve("Porites") as server, caplog.at_level(logging.WARNING):
        monkeypatch.setenv("REEFCORE_CHAT_URL", server.url)
        experiments._ask(recipe, profile, folder, 1)
        experiments._ask(recipe, profile, folder, 1)
        assert len(server.requests) == 2
    assert "not asked with the prompt set mine" in caplog.text
    table = read_parquet(folder / "zero_shot" / "tiny_chat.parquet")
    runs = table.groupby("run_id")["y_true"].agg(list).to_dict()
    assert runs == {"tiny_chat.name-zero-S2": ["Porites", "Acropora"], "tiny_chat.name-zero-S3": ["Porites"]}
    assert set(table["y_pred"]) == {"Porites"}
    assert read_parquet(folder / "answers" / "tiny_chat.parquet")["from_cache"].tolist() == [2]
