"""Tables 5 and 12 from predictions: ranks, what stands beside what, what is missing, which texts help."""

import numpy as np
import pandas as pd
import pytest

from reefcore import figures, published, zero_shot
from reefcore.errors import ReefcoreError

CLASSES = ["Acropora", "Pavona", "Porites"]


def scored(run, y_true, scores):
    table = pd.DataFrame({"run_id": run, "annotation_id": [f"{i:03d}" for i in range(len(y_true))], "y_true": y_true})
    scores = np.asarray(scores, dtype="float32")
    table["y_pred"] = np.array(CLASSES)[scores.argmax(1)]
    return table.join(pd.DataFrame(scores, columns=[f"score:{name}" for name in CLASSES]))


def test_ranks_begin_at_one_equal_scores_share_and_what_is_not_scored_has_none():
    table = scored(
        "m.name-zero-S2", ["Acropora", "Pavona", "Porites", "Favia"], [[0.5, 0.3, 0.2]] * 2 + [[0.4, 0.2, 0.4]] * 2
    )
    assert zero_shot.ranks(table).tolist()[:3] == [1, 2, 1.5] and np.isnan(zero_shot.ranks(table)[3])
    assert zero_shot.ranks(table.drop(columns=[f"score:{name}" for name in CLASSES])).isna().all()


@pytest.fixture
def asked():
    """Make three runs on the same 300 points in 60 photos: by chance, better, and a language model without scores."""
    rng = np.random.default_rng(0)
    y = rng.choice(CLASSES, 300)
    noise = rng.random((300, 3))
    right = (np.array(CLASSES) == y[:, None]) * 0.5
    tables = [
        scored("clip_sample.name-zero-S3", y, noise / 3),
        scored("clip_sample.morphology-zero-S3", y, (noise + right) / 3),
    ]
    chat = tables[0].drop(columns=[f"score:{name}" for name in CLASSES]).assign(run_id="qwen2_5_vl.name-zero-S3")
    chat.loc[:29, "y_pred"] = zero_shot.NO_ANSWER
    annotations = pd.DataFrame({"annotation_id": tables[0]["annotation_id"], "source": "s"})
    return pd.concat([*tables, chat], ignore_index=True), annotations.assign(image=[str(i // 5) for i in range(300)])


def test_every_run_has_recall_and_those_with_scores_a_rank(asked):
    predictions, annotations = asked
    found = zero_shot.evaluate(predictions, annotations, n=100).set_index(["recipe", "prompts", "metric"])
    rank = found.loc[("clip_sample", "name", "mean_rank")]
    assert rank["value"] == pytest.approx(zero_shot.ranks(predictions.iloc[:300]).mean()) and rank["chance"] == 2
    assert rank["ci_low"] < rank["value"] < rank["ci_high"] and rank["ci_high"] - rank["ci_low"] < 0.4
    chat = found.loc["qwen2_5_vl", "name"]
    assert list(chat.index) == ["macro_recall"] and chat["invalid"].tolist() == [30]
    assert found.loc[("clip_sample", "morphology", "macro_recall"), "value"] > rank["chance"] / 6
    assert found["chance"].xs("macro_recall", level=2).unique() == pytest.approx(1 / 3)
    one = zero_shot.evaluate(predictions, annotations.assign(image="the same"), n=10)
    assert one["ci_low"].isna().all()
    assert zero_shot.evaluate(predictions.iloc[:0], annotations).empty


def test_the_interval_of_a_rank_is_that_of_photos_drawn_one_by_one(asked):
    predictions, annotations = asked
    rank, photo = zero_shot.ranks(predictions.iloc[:300]), annotations["image"]
    rng, groups = np.random.default_rng(1), [rank[photo == name].to_numpy() for name in photo.unique()]
    draws = [np.concatenate([groups[i] for i in rng.integers(60, size=60)]).mean() for _ in range(400)]
    found = zero_shot.evaluate(predictions.iloc[:300], annotations, n=400).set_index("metric").loc["mean_rank"]
    assert found["ci_low"] == pytest.approx(np.quantile(draws, 0.025), abs=0.03)
    assert found["ci_high"] == pytest.approx(np.quantile(draws, 0.975), abs=0.03)


def test_a_toy_never_stands_beside_a_printed_number(asked):
    predictions, annotations = asked
    five = zero_shot.beside(zero_shot.evaluate(predictions, annotations, n=20), 5)
    assert five.loc[five["recipe"] == "clip_sample", "published"].isna().all()
    qwen = five[five["recipe"] == "qwen2_5_vl"].iloc[0]
    assert qwen["row"] == "Qwen2.5-VL" and qwen["published"] == pytest.approx(0.0392)
    assert qwen["difference"] == pytest.approx(qwen["value"] - 0.0392)
    assert len(five) == 14 + 2  # every printed cell, and the toy's rows
    twelve = zero_shot.beside(zero_shot.evaluate(predictions, annotations, n=20), 12)
    assert set(twelve["row"].head(16)) == {"CLIP", "SigLIP", "OpenCLIP", "BioCLIP"} and len(twelve) == 18


def test_what_is_missing_names_weights_server_and_descriptions(asked):
    predictions, annotations = asked
    measured = zero_shot.evaluate(predictions, annotations, n=20)
    lacks = zero_shot.missing(measured).set_index("row")
    assert list(lacks.index) == ["CLIP", "SigLIP", "OpenCLIP", "BioCLIP", "Qwen-GPT", "Qwen-Book"]
    assert "imageomics/bioclip" in lacks.at["BioCLIP", "lacks"]
    assert "the set generated" in lacks.at["BioCLIP", "lacks"]
    assert lacks.at["Qwen-Book", "command"].startswith("reefcore describe MODEL --texts FOLDER")
    assert lacks.at["CLIP", "command"].endswith("reefcore zero-shot clip --profile sample")
    own = pd.DataFrame({"set": ["generated"]})
    assert "descriptions" not in zero_shot.missing(measured, own).set_index("row").at["BioCLIP", "lacks"]


def test_a_better_text_is_told_apart_on_the_same_photos(asked):
    predictions, annotations = asked
    found = zero_shot.better(predictions, annotations, [("morphology", "name"), ("book", "name")], n=200)
    assert found["metric"].tolist() == ["macro_recall", "mean_rank"] and found["better"].tolist() == ["yes", "yes"]
    recall, rank = found["value"]
    assert recall > 0 > rank
    back = zero_shot.better(predictions, annotations, [("name", "morphology")], n=200)
    assert back["better"].tolist() == ["worse", "worse"] and back["value"].tolist() == pytest.approx([-recall, -rank])


def test_answers_that_fall_on_a_few_classes_are_seen(asked):
    predictions, _ = asked
    one = predictions.iloc[:300].assign(y_pred="Porites")
    told = zero_shot.answered(one).iloc[0]
    assert told[["commonest", "share", "answers", "right"]].tolist() == ["Porites", 1, 1, 1]
    table = zero_shot.by_class(one).set_index("label")
    assert table["recall"].to_dict() == {"Acropora": 0, "Pavona": 0, "Porites": 1}
    assert table.at["Porites", "answered"] == 1 and table["there"].sum() == pytest.approx(1)


def test_run_ids_give_recipe_prompts_and_test_set():
    found = zero_shot.parts(pd.Series(["clip.name-zero-S2", "mine-zero-U"]))
    assert found.to_numpy().tolist() == [["clip", "name", "S2"], ["mine", "", "U"]]
    assert zero_shot.is_zero_shot(pd.Series(["a.b-zero-S2", "vit-S3-S3"])).tolist() == [True, False]


def test_claims_of_the_text_are_held_against_the_tables():
    holds = zero_shot.claims().set_index("the paper says")["holds"]
    assert holds.filter(like="BioCLIP achieves").tolist() == ["yes"]
    assert holds.filter(like="(not said)").tolist() == ["11 of 14"]  # CLIP twice and SigLIP once are below chance


def test_published_tables_are_fractions_and_ranks():
    five, twelve = (published.zero_shot(n).set_index(["row", "test"])["published"] for n in (5, 12))
    assert five["BioCLIP", "S3"] == pytest.approx(0.1033) and twelve["CLIP", "U"] == 17.29
    with pytest.raises(ReefcoreError, match="table 3 is not one of zero-shot models"):
        published.zero_shot(3)


def test_figures_show_each_prompt_set_and_each_class(asked):
    predictions, annotations = asked
    measured = zero_shot.evaluate(predictions, annotations, n=20).query("recipe == 'clip_sample'")
    figure = figures.prompt_sets(measured, zero_shot.NAMES)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["name", "morphology"]
    drawn = figures.answers(zero_shot.by_class(predictions.iloc[:300]))
    assert {label.get_text() for label in drawn.axes[0].get_yticklabels()} == set(CLASSES)
