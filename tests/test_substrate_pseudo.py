"""Pseudo-labels: prompts summed to substrates, a chat that fails, and how many expert labels each is worth."""

import base64
import dataclasses
import io
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from chat_server import serve
from PIL import Image

from reefcore import chat, multimodal, profiles, recipes
from reefcore.errors import ReefcoreError
from reefcore.figures import label_worth
from reefcore.files import write_parquet
from reefcore.substrate import pseudo
from reefcore.tables import SUBSTRATES
from reefcore.workflow import pseudo as steps
from reefcore.workflow import steps as workflow_steps

PATCHES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
POINTS = pd.DataFrame({"frame": ["a.jpg"] * 2 + ["b.jpg"] * 2, "row": [0, 1] * 2, "column": [0, 2] * 2})
TRUTH = ["Coral", "Deploy", "No-Deploy", "Deploy"]


class Eyes:
    """An encoder whose texts are the axes, and whose images lean to the axes that a patch's first pixel names."""

    scale, side = 5.0, 8

    def texts(self, texts):
        return np.eye(len(texts), dtype=np.float32)

    def images(self, patches):
        found = np.eye(8, dtype=np.float32)[patches[:, 0, 0, 0] % 8]
        return 0.8 * found + 0.1


def test_there_are_two_prompts_for_each_of_the_authors_words():
    found = pseudo.words()
    assert found["word"].value_counts().to_dict() == dict.fromkeys(["sand", "water", "coral", "rock"], 2)
    of = found.groupby("word")["substrate"].unique().map(list).to_dict()
    assert of == {"sand": ["No-Deploy"], "water": ["No-Deploy"], "coral": ["Coral"], "rock": ["Deploy"]}
    assert found["prompt"].is_unique


def test_prompts_of_ones_own_need_every_substrate(tmp_path):
    lines = dict.fromkeys(SUBSTRATES, "so")
    for words, said in (
        ({"sand": {"substrate": "No-Deploy", "prompts": ["sand"]}}, "words stand for No-Deploy"),
        ({"sand": {"prompts": ["sand"]}}, "give each word a substrate"),
        (["sand"], "give each word a substrate"),
    ):
        path = tmp_path / f"{len(said)}{len(words)}.yaml"
        path.write_text(yaml.safe_dump({"words": words, "substrates": lines}))
        with pytest.raises(ReefcoreError, match=said):
            pseudo.words(path)


def test_probabilities_over_eight_prompts_are_added_to_substrates():
    pytest.importorskip("open_clip")
    prompts, patches = pseudo.words(), PATCHES.copy()
    patches[:, 0, 0, 0] = [prompts.index[prompts["word"] == word][0] for word in ("coral", "rock", "water", "sand")]
    found = pseudo.zero_shot(Eyes(), patches, POINTS)
    assert found["label"].tolist() == ["Coral", "Deploy", "No-Deploy", "No-Deploy"]
    assert found["word"].tolist() == ["coral", "rock", "water", "sand"]
    hit, other = np.exp(5 * 0.9), np.exp(5 * 0.1)
    total = hit + 7 * other
    expected = [4 * other / total, (hit + other) / total, 2 * other / total]  # of the coral patch
    np.testing.assert_allclose(found.loc[0, [f"score:{name}" for name in SUBSTRATES]].astype(float), expected, 1e-5)
    assert found[["frame", "row", "column"]].equals(POINTS)
    with pytest.raises(ReefcoreError, match="3 patches and 4 points"):
        pseudo.zero_shot(Eyes(), patches[:3], POINTS)


@pytest.fixture
def asked(tmp_path):
    said = ["Coral", "no idea", (400, b"policy", {}), "Deploy"]
    with serve(lambda text, n: said[n]) as server:
        client = chat.Server("m", server.url, tries=1, timeout=5)
        given = (client, PATCHES, POINTS, tmp_path / "a.jsonl")
        table, counts = pseudo.ask(*given, settings={"side": 16}, parallel=1)
        again, _ = pseudo.ask(*given, settings={"side": 16}, parallel=1)
        return table, again, counts.iloc[0], server


def test_a_chat_model_is_asked_once_about_each_patch_with_a_line_on_each_substrate(asked):
    table, again, counts, server = asked
    pd.testing.assert_frame_equal(table, again)
    assert len(server.requests) == 4 == counts["asked"]
    for text in server.texts:
        lines = sorted(line for line in text.splitlines() if line.startswith("- "))
        assert [line.split(":")[0][2:] for line in lines] == ["Coral", "Deploy", "No-Deploy"]
        assert all(len(line.split(":")[1]) > 20 for line in lines)
    image = base64.b64decode(server.requests[0]["messages"][0]["content"][0]["image_url"]["url"].partition(",")[2])
    assert Image.open(io.BytesIO(image)).size == (16, 16)


def test_failed_calls_and_invalid_answers_stay_and_count_as_wrong(asked):
    table = asked[0].assign(route="chat", y_true=TRUTH).rename(columns={"label": "y_pred"})
    assert table["y_pred"].tolist() == ["Coral", multimodal.NO_ANSWER, multimodal.NO_ANSWER, "Deploy"]
    assert table["reason"].tolist() == ["name", "refused", "failed", "name"] or table["reason"][2] == "failed"
    found = pseudo.agreement(table, 20).set_index(["class", "metric"])
    assert found.at[("all", "accuracy"), "value"] == 2 / 4  # and not 2 / 2
    assert found.at[("Deploy", "recall"), "value"] == 1 / 2
    assert (found["patches"] == 4).all() and (found[multimodal.NO_ANSWER] == 2).all()


def test_a_budget_stops_the_asking_and_keeps_what_was_answered(tmp_path):
    with serve("Coral") as server:
        client = chat.Server("m", server.url, tries=1, timeout=5)
        with pytest.raises(ReefcoreError, match="used up: 2 of 4 questions"):
            pseudo.ask(client, PATCHES, POINTS, tmp_path / "a.jsonl", chat.Budget(requests=2), parallel=1)
        table, counts = pseudo.ask(client, PATCHES, POINTS, tmp_path / "a.jsonl", parallel=1)
    assert len(server.requests) == 4 and counts.iloc[0]["from_cache"] == 2 and (table["label"] == "Coral").all()


@pytest.mark.parametrize(
    ("text", "label", "reason"),
    [
        ("no deploy", "No-Deploy", "name"),
        ("**No_Deploy**", "No-Deploy", "name"),
        ("not Deploy", None, "other"),
        ("Non-Deploy", None, "other"),
        ("Don't deploy", None, "other"),
        ("There is no coral, so Deploy.", "Deploy", "named"),
        ("Sand. No-Deploy", "No-Deploy", "named"),
        ("NoDeploy", None, "misspelt"),
        ("Deploy or No-Deploy", None, "several"),
    ],
)
def test_an_answer_is_never_read_as_its_opposite(text, label, reason):
    assert multimodal.parse(text, SUBSTRATES) == (label or multimodal.NO_ANSWER, reason)


@pytest.fixture(scope="module")
def survey():
    """40 training, 4 validation and 20 test frames of 6 patches, told apart by two noisy features; and two routes."""
    rng, frames = np.random.default_rng(0), 64
    points = pd.DataFrame({"frame": np.repeat([f"f{n:02d}" for n in range(frames)], 6), "row": 0})
    points["column"] = np.tile(np.arange(6), frames)
    points["part"] = np.repeat(["train"] * 40 + ["val"] * 4 + ["test"] * 20, 6)
    code = rng.integers(3, size=len(points))
    points["label"] = np.array(SUBSTRATES)[code]
    x = np.stack([code == 0, code == 1, code == 2, code == 3], 1) * 1.6 + rng.normal(size=(len(points), 4))
    half = np.where(rng.random(len(points)) < 0.5, points["label"], rng.permutation(points["label"]))
    same = points.assign(route="same", y_pred=points["label"])
    noisy = points.assign(route="noisy", y_pred=half)
    noisy.loc[[0, 1, len(points) - 1], "y_pred"] = multimodal.NO_ANSWER
    return points, x, pd.concat([same, noisy])


@pytest.fixture(scope="module")
def compared(survey):
    return pseudo.compare(*survey, frames=(1, 4, 16, 99), repeats=3, n=50, seed=1)


def test_an_expert_labels_whole_frames_and_pseudo_labels_teach_the_same_classifier(survey, compared):
    expert = compared[compared["route"] == "expert"]
    sizes = expert.groupby("frames")["labels"].unique().map(list).to_dict()
    assert sizes == {1: [6], 4: [24], 16: [96], 40: [240]}  # neither validation nor test, and not 99
    by = compared[compared["how"] == "taught"].groupby("route")["macro_f1"].last()
    assert by["same"] == expert["macro_f1"].iloc[-1] > by["noisy"]
    taught = compared[compared["how"] == "taught"].groupby("route")["labels"].last()
    assert taught["same"] == 240 and taught["noisy"] == 238  # invalid answers teach nothing
    asked = compared[compared["how"] == "asked"].set_index("route")
    assert asked.at["same", "accuracy"] == 1
    test = survey[2][(survey[2]["route"] == "noisy") & (survey[2]["part"] == "test")]
    assert asked.at["noisy", "accuracy"] == (test["y_pred"] == test["label"]).mean()  # the invalid one counts as wrong
    assert all(len(draws) == 50 for draws in compared["draws"])
    mean = expert.groupby("frames")["macro_f1"].mean()
    assert mean[40] > mean[1] + 0.1


def test_the_same_seed_compares_alike_and_wrong_input_is_refused(survey, compared):
    points, x, labels = survey
    again = pseudo.compare(points, x, labels, frames=(1, 4, 16, 99), repeats=3, n=50, seed=1)
    pd.testing.assert_frame_equal(again, compared)
    with pytest.raises(ReefcoreError, match="features of 3 patches"):
        pseudo.compare(points, x[:3], labels)
    with pytest.raises(ReefcoreError, match="0 training patches and 20 test frames"):
        pseudo.compare(points[points["part"] == "test"], x[-120:], labels)
    with pytest.raises(ReefcoreError, match="numbers from 1"):
        pseudo.compare(points, x, labels, frames=[0])


def curve(levels, spread=0.0):
    """Make results whose curve is 0.2, 0.4 and 0.6 at 10, 100 and 1000 labels, in every draw."""
    rows = [
        ("expert", "taught", repeat, frames, 10**frames, 0.2 * frames, 0.2 * frames, [0.2 * frames] * 40)
        for repeat in range(2)
        for frames in (1, 2, 3)
    ]
    for name, level in levels.items():
        draws = list(np.linspace(level - spread, level + spread, 40))
        rows.append((name, "taught", 0, 3, 1000, level, level, draws))
    return pd.DataFrame(rows, columns=["route", "how", "repeat", "frames", "labels", "macro_f1", "accuracy", "draws"])


def test_labels_are_worth_where_the_curve_reaches_their_level():
    found = pseudo.worth(curve({"middle": 0.3, "low": 0.1, "high": 0.7, "end": 0.6})).set_index("route")
    assert found.at["middle", "labels"] == pytest.approx(10**1.5)
    assert found.at["low", "labels"] == 0 and found.at["low", "below"] == 1
    assert np.isinf(found.at["high", "labels"]) and found.at["high", "beyond"] == 1
    assert found.at["end", "labels"] == pytest.approx(1000)
    wide = pseudo.worth(curve({"wide": 0.5}, spread=0.2)).iloc[0]
    assert wide["labels"] == pytest.approx(10**2.5)
    assert wide["ci_low"] == pytest.approx(10**1.5) and np.isinf(wide["ci_high"])
    assert 0.2 < wide["beyond"] < 0.3
    told = pseudo.answer(pseudo.worth(curve({"low": 0.1, "wide": 0.5}, spread=0.2)))
    assert "fewer than 10 expert labels" in told[0] and "to more than 1,000)" in told[1]


def test_labels_as_good_as_all_of_the_experts_are_not_worth_more_than_all():
    rng = np.random.default_rng(0)
    points = pd.DataFrame(list(np.ndindex(14, 4)), columns=["frame", "column"]).assign(row=0)
    points = points.assign(frame="f" + points["frame"].astype(str), part=np.repeat(["train", "test"], [40, 16]))
    points["label"] = rng.choice(SUBSTRATES, len(points))
    x = rng.normal(size=(len(points), 3)) + pd.get_dummies(points["label"]).to_numpy(float)
    same = points[points["part"] == "train"].assign(route="same", y_pred=lambda rows: rows["label"])
    found = pseudo.worth(pseudo.compare(points, x, same, (1, 3), repeats=3, n=60))
    assert found.at[0, "beyond"] == 0 and np.isfinite(found.at[0, "ci_high"])


def test_the_figure_marks_what_lies_on_the_curve_and_beyond():
    results = curve({"middle": 0.3, "low": 0.1, "high": 0.7})
    axes = label_worth(pseudo.summary(results), pseudo.worth(results)).axes[0]
    markers = [line.get_marker() for line in axes.lines]
    assert markers.count("D") == markers.count("<") == markers.count(">") == 1


def test_whole_frames_are_chosen_in_each_part():
    points = pd.DataFrame({"frame": np.repeat(list("abcdef"), 4), "part": ["train"] * 16 + ["test"] * 8})
    some = pseudo.whole_frames(points, 9, seed=3)
    assert some.groupby(["part", "frame"]).size().tolist() == [4] * 4 and some["part"].value_counts()["train"] == 8
    assert pseudo.whole_frames(points, 0) is points


def profile(**pseudo_settings):
    return SimpleNamespace(substrate={"pseudo": pseudo_settings}, kind="sample", seed=0, resamples=20, path=None)


def test_a_chat_route_is_planned_only_where_a_server_is_named(monkeypatch):
    monkeypatch.delenv(chat.URL, raising=False)
    monkeypatch.delenv(chat.LOCAL, raising=False)
    both = profile(routes=["clip_sample", "qwen2_5_vl"])
    listed = steps.routes(both).set_index("route")["not run because"]
    assert listed["clip_sample"] == "" and chat.URL in listed["qwen2_5_vl"]
    label, worth = steps.plan(both)
    assert "clip_sample" in label.needs and "qwen2_5_vl" not in label.given and worth.needs[-1] == "pseudo_labels"
    assert steps.plan(profile(routes=["qwen2_5_vl"])) == [] == steps.plan(SimpleNamespace(substrate={}, path=None))
    monkeypatch.setenv(chat.URL, "http://127.0.0.1:1/v1")
    assert "qwen2_5_vl" in steps.plan(both)[0].given
    with pytest.raises(ReefcoreError, match="unknown key 'route'"):
        steps.plan(profile(routes=[], route="x"))


def test_the_toy_is_made_for_a_route_and_refused_outside_of_the_sample():
    given = {"substrate": {"pseudo": {"routes": ["clip_sample"]}}, "zero_shot": (), "few_shot": {}}
    plan = workflow_steps.plan(dataclasses.replace(profiles.load("smoke"), **given))
    assert list(plan).index("clip_sample") < list(plan).index("pseudo_labels") < list(plan).index("pseudo_worth")
    with pytest.raises(ReefcoreError, match="toy of the sample"):
        workflow_steps.plan(dataclasses.replace(profiles.load("full"), **given))


def test_the_steps_label_patches_and_measure_their_worth(survey, tmp_path, monkeypatch):
    vision_language = pytest.importorskip("reefcore.vision_language")
    points, folder = survey[0], tmp_path
    write_parquet(points[["frame", "row", "column"]], folder / "frame_patches.parquet")
    write_parquet(points[["frame", "row", "column", "label"]], folder / "patch_labels.parquet")
    write_parquet(points[["frame", "part"]].drop_duplicates(), folder / "substrate_splits.parquet")
    level = points["label"].map({"No-Deploy": 0, "Coral": 4, "Deploy": 6}).to_numpy()
    pixels = np.random.default_rng(1).integers(0, 30, (len(points), 8, 8, 3)) + 30 * level[:, None, None, None]
    pixels[:, 0, 0, 0] = level
    np.save(folder / "frame_patches.npy", pixels.astype(np.uint8))
    monkeypatch.setattr(vision_language, "load", lambda *given: Eyes())
    wanted = profile(routes=["clip_sample"], frames=[2, 8], repeats=2)
    for step in steps.plan(wanted):
        step.build(wanted, folder, 1)
    labels = pd.read_parquet(folder / "pseudo_labels.parquet")
    assert set(labels["part"]) == {"train", "test"} and (labels["y_true"] == labels["y_pred"]).all()
    results = pd.read_parquet(folder / "pseudo_worth.parquet")
    assert sorted(results["frames"].unique()) == [0, 2, 8, 40]
    found = pseudo.worth(results).set_index("how")
    assert found.at["asked", "macro_f1"] == 1 and found.at["taught", "labels"] <= 240
    assert recipes.zero_shot.load("clip_sample").name == labels["route"].unique()
