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
    assert lacks.at["Qwen-Book", "command"].endswith("; reefcore zero-shot qwen2_5_vl --profile mine.yaml")
    own = pd.DataFrame({"set": ["generated"]})
    row = zero_shot.missing(measured, own, "reef.yaml").set_index("row").loc["BioCLIP"]
    assert "descriptions" not in row["lacks"] and row["command"] == "reefcore zero-shot bioclip --profile reef.yaml"


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


def test_printed_numbers_stand_beside_chance():
    table = zero_shot.beside_chance()
    worse = table[~table["better"]]
    assert worse[["row", "test"]].to_numpy().tolist() == [["CLIP", "S2"], ["CLIP", "S3"], ["SigLIP", "S3"]]
    assert (worse["published"] < worse["chance"]).all() and (len(table), set(table["table"])) == (30, {5, 12})


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


def test_ranks_are_among_the_classes_of_the_own_run_whatever_the_index():
    one = scored("m.name-zero-S3", ["Acropora"], [[0.2, 0.8, 0.0]])
    other = one.rename(columns=lambda name: name.replace("score:", "score:other ")).assign(y_true="other Pavona")
    both = pd.concat([one, other, one.assign(y_true="Pavona")])  # an index with repeats
    assert zero_shot.ranks(both).tolist() == [2, 1, 1]
    rows = zero_shot.evaluate(both, pd.DataFrame({"annotation_id": ["000"], "source": "s", "image": "i"}), 5)
    assert rows["offered"].tolist() == [6, 6]  # the classes of a run are those it scores anywhere


def test_points_of_a_class_that_is_not_offered_are_counted_and_not_ranked():
    table = scored("m.name-zero-S3", ["Acropora", "Pavona", "Favia", "Favia"], [[0.9, 0.1, 0]] * 4)
    annotations = pd.DataFrame({"annotation_id": table["annotation_id"], "source": "s", "image": list("abcd")})
    rows = zero_shot.evaluate(table, annotations, 50).set_index("metric")
    assert rows["unranked"].tolist() == [2, 2] and rows.at["mean_rank", "value"] == 1.5
    assert rows.at["macro_recall", "value"] == pytest.approx(1 / 3)
    with pytest.raises(ReefcoreError, match="unknown annotations, such as 003"):
        zero_shot.evaluate(table, annotations.iloc[:3], 50)


def test_prompt_sets_on_other_points_are_compared_on_those_they_share(asked):
    predictions, annotations = asked
    name = predictions["run_id"] == "clip_sample.name-zero-S3"
    pair = [("morphology", "name")]
    few = predictions[~name | (predictions["annotation_id"] < "080")]
    assert zero_shot.better(few, annotations, pair, n=50)["n"].tolist() == [80, 80]
    apart = few[(few["run_id"] == "clip_sample.name-zero-S3") | (few["annotation_id"] >= "080")]
    assert zero_shot.better(apart, annotations, pair, n=50).empty
    same = predictions[name].assign(run_id="clip_sample.photo-zero-S3")
    equal = zero_shot.better(pd.concat([predictions, same]), annotations, [("photo", "name")], n=50)
    assert equal["better"].tolist() == ["not told apart"] * 2 and equal["value"].tolist() == [0, 0]


def test_answers_without_a_class_are_no_class():
    table = scored("m.name-zero-S3", ["Acropora", "Pavona", "Pavona"], np.eye(3)[[0, 2, 1]])
    table.loc[2, "y_pred"] = zero_shot.NO_ANSWER
    assert zero_shot.answered(table).loc[0, ["answers", "classes", "right"]].tolist() == [2, 2, 1]
    rows = zero_shot.by_class(table).set_index("label")
    assert list(rows.index) == ["Pavona", "Acropora", "Porites"] and np.isnan(rows.at["Porites", "recall"])


def test_a_profile_without_runs_has_the_printed_rows_alone():
    none = pd.DataFrame(columns=["run_id", "annotation_id", "y_true", "y_pred"], dtype="str")
    measured = zero_shot.evaluate(none, none)
    five = zero_shot.in_percent(zero_shot.beside(measured, 5))
    assert len(five) == 14 and five["value"].isna().all() and five["published"].max() == pytest.approx(10.33)
    assert len(zero_shot.beside(measured, 12)) == 16 and len(zero_shot.missing(measured)) == 7
    assert zero_shot.better(none, none, [("book", "name")]).empty and zero_shot.answered(none).empty
