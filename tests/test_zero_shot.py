"""Ranks, tables and sentences about models that were never trained on the classes."""

import numpy as np
import pandas as pd
import pytest

from reefcore import figures, predictions, published, zero_shot
from reefcore.errors import ReefcoreError

CLASSES = list("abcd")
PAIR = [("morphology", "name")]


def run(run_id, truth, scores, ids=None, classes=CLASSES):
    """Make the predictions of one run."""
    ids = pd.Series([f"p{i:03d}" for i in range(len(truth))] if ids is None else ids)
    return predictions.from_scores(run_id, ids, pd.Series(truth), np.asarray(scores, np.float32), classes)


def photos(count, per_photo=4):
    """Make the annotations of so many points, some to each photo."""
    ids = [f"p{i:03d}" for i in range(count)]
    return pd.DataFrame({"annotation_id": ids, "source": "s", "image": [f"i{i // per_photo}" for i in range(count)]})


@pytest.fixture(scope="module")
def world():
    """A toy that guesses with names and mostly knows with morphology, and a chat model that answers in words."""
    rng = np.random.default_rng(0)
    at = np.arange(160) % 4
    truth = np.array(CLASSES)[at]
    guess = rng.random((160, 4))
    known = 0.6 * guess + 0.4 * np.eye(4)[at]
    spoken = run("qwen2_5_vl.book-zero-S3", truth, known).drop(columns=[f"score:{name}" for name in CLASSES])
    spoken.loc[:39, "y_pred"] = zero_shot.NO_ANSWER
    tables = [run("toy.name-zero-S3", truth, guess), run("toy.morphology-zero-S3", truth, known), spoken]
    return pd.concat(tables, ignore_index=True), photos(160)


def test_rank_counts_the_classes_that_score_higher_and_halves_ties():
    scores = [[0.1, 0.4, 0.3, 0.2], [0.4, 0.4, 0.1, 0.1], [0.25] * 4, [0.9, 0.1, 0, 0]]
    table = run("r.name-zero-S3", list("abcz"), scores)
    assert zero_shot.ranks(table).to_numpy() == pytest.approx([4, 1.5, 2.5, np.nan], nan_ok=True)
    moved = table.iloc[::-1].set_axis([7, 7, 5, 1])  # any index, also with repeats
    assert zero_shot.ranks(moved).to_numpy() == pytest.approx([np.nan, 2.5, 1.5, 4], nan_ok=True)


def test_rank_leaves_out_classes_of_other_runs_and_runs_without_scores():
    one = run("r.name-zero-S3", ["a"], [[0.2, 0.8]], classes=["a", "b"])
    other = run("q.name-zero-S3", ["d"], [[0.7, 0.3]], classes=["c", "d"])
    spoken = one.drop(columns=["score:a", "score:b"]).assign(run_id="chat.name-zero-S3")
    found = zero_shot.ranks(pd.concat([one, other, spoken], ignore_index=True))
    assert found.to_numpy() == pytest.approx([2, 2, np.nan], nan_ok=True)
    assert zero_shot.ranks(spoken).isna().all()


def test_run_ids_give_recipe_prompt_set_and_test():
    ids = pd.Series(["toy.name-zero-S3", "my.own-model.book-zero-W", "plain-zero-S1", "vit-S3-S3"])
    assert zero_shot.parts(ids).to_numpy().tolist() == [
        ["toy", "name", "S3"],
        ["my.own-model", "book", "W"],
        ["plain", "", "S1"],
        ["vit", "", "S3"],
    ]
    assert zero_shot.is_zero_shot(ids).tolist() == [True, True, True, False]


def test_evaluate_gives_both_measures_with_chance_and_counts(world):
    table, annotations = world
    measured = zero_shot.evaluate(table, annotations, 200).set_index(["run_id", "metric"])
    guess, known = measured.loc["toy.name-zero-S3"], measured.loc["toy.morphology-zero-S3"]
    assert measured[["chance"]].groupby("metric").max()["chance"].to_dict() == {"macro_recall": 0.25, "mean_rank": 2.5}
    assert known.at["mean_rank", "ci_high"] < guess.at["mean_rank", "ci_low"]
    for rows in (guess, known):
        assert (rows["ci_low"] <= rows["value"]).all() and (rows["value"] <= rows["ci_high"]).all()
    of = table[table["run_id"] == "toy.name-zero-S3"]
    assert guess.at["mean_rank", "value"] == pytest.approx(zero_shot.ranks(of).mean())
    assert guess.at["macro_recall", "value"] == pytest.approx((of["y_true"] == of["y_pred"]).mean())  # equal classes
    spoken = measured.loc["qwen2_5_vl.book-zero-S3"]
    assert spoken.index.tolist() == ["macro_recall"] and spoken["invalid"].tolist() == [40]
    assert spoken["offered"].isna().all() and spoken["unranked"].tolist() == [160]
    again = zero_shot.evaluate(table, annotations, 200).set_index(["run_id", "metric"])
    pd.testing.assert_frame_equal(measured, again)


def test_points_of_a_class_that_is_not_offered_are_counted_and_not_ranked():
    table = run("r.name-zero-S3", list("abzz"), [[0.9, 0.1, 0, 0]] * 4)
    rows = zero_shot.evaluate(table, photos(4, 1), 50).set_index("metric")
    assert rows["unranked"].tolist() == [2, 2] and rows.at["mean_rank", "value"] == 1.5
    assert rows.at["macro_recall", "value"] == pytest.approx(1 / 3) and rows["classes"].tolist() == [3, 3]


def test_interval_is_over_photos_and_there_is_none_of_one_photo():
    truth, scores = ["a"] * 20, np.repeat(np.eye(4)[[0, 1]], 10, axis=0)
    table = run("r.name-zero-S3", truth, scores)

    def width(per_photo):
        row = zero_shot.evaluate(table, photos(20, per_photo), 400).set_index("metric").loc["mean_rank"]
        return row["ci_high"] - row["ci_low"]

    assert width(10) > 1.5 * width(1)  # ten points alike in a photo say as much as one
    assert np.isnan(width(20))


def test_a_point_without_a_photo_is_refused(world):
    table, annotations = world
    with pytest.raises(ReefcoreError, match="unknown annotations, such as p159"):
        zero_shot.evaluate(table, annotations.iloc[:-1], 10)


def test_printed_rows_stand_beside_what_their_recipe_says_and_the_toy_stands_alone(world):
    table, annotations = world
    bio = table[table["run_id"] == "toy.name-zero-S3"].assign(run_id="bioclip.generated-zero-S3")
    sample = bio.assign(run_id="clip_sample.morphology-zero-S3")
    bare = bio.assign(run_id="bioclip.name-zero-S3")
    everything = pd.concat([table, bio, bare, sample], ignore_index=True)
    measured = zero_shot.evaluate(everything, annotations, 50)
    for number, printed in ((5, 0.1033), (12, 8.89)):
        found = zero_shot.beside(measured, number).set_index(["row", "test"])
        row = found.loc[("BioCLIP", "S3")]
        assert row["published"] == pytest.approx(printed) and row["recipe"] == "bioclip"
        assert row["difference"] == pytest.approx(row["value"] - printed)
        own = found.loc[[("clip_sample, morphology", "S3"), ("bioclip, name", "S3"), ("toy, name", "S3")]]
        assert own["published"].isna().all() and own["value"].notna().all() and own["difference"].isna().all()
        cells = published.zero_shot(number)
        there = found.reindex(pd.MultiIndex.from_frame(cells[["row", "test"]]))["published"]
        assert there.to_numpy() == pytest.approx(cells["published"].to_numpy())  # every printed cell, and once
        assert found["published"].count() == len(cells) and found.index[0] == ("CLIP", "S2" if number == 5 else "S1")
    book = zero_shot.beside(measured, 5).set_index(["row", "test"]).loc[("Qwen-Book", "S3")]
    assert book["published"] == pytest.approx(0.0627) and book["prompts"] == "book"


def test_percent_changes_the_fractions_only(world):
    table, annotations = world
    five = zero_shot.beside(zero_shot.evaluate(table, annotations, 50), 5)
    shown = zero_shot.in_percent(five).set_index(["row", "test"])
    assert shown.at[("BioCLIP", "S2"), "published"] == pytest.approx(9.92)
    assert shown.at[("toy, name", "S3"), "chance"] == 25 and shown.at[("toy, name", "S3"), "n"] == 160


def test_what_was_not_run_says_what_it_lacks_and_how_to_run_it(world):
    table, annotations = world
    measured = zero_shot.evaluate(table, annotations, 50)
    rows = zero_shot.missing(measured, profile="mine").set_index("row")
    assert rows.index.tolist() == ["CLIP", "SigLIP", "OpenCLIP", "BioCLIP", "Qwen2.5-VL", "Qwen-GPT"]  # Qwen-Book ran
    assert rows.at["Qwen2.5-VL", "command"] == "reefcore zero-shot qwen2_5_vl --profile mine"
    assert "a server of" in rows.at["Qwen2.5-VL", "lacks"] and "descriptions" not in rows.at["Qwen2.5-VL", "lacks"]
    assert "the weights of imageomics/bioclip, and descriptions of the set generated" in rows.at["BioCLIP", "lacks"]
    assert rows.at["BioCLIP", "command"].startswith("reefcore describe MODEL --profile mine --output mine.csv; ")
    have = pd.DataFrame({"set": ["generated"]})
    given = zero_shot.missing(measured, have, "mine").set_index("row").loc["BioCLIP"]
    assert given.to_list() == [
        "bioclip",
        "the weights of imageomics/bioclip",
        "reefcore zero-shot bioclip --profile mine",
    ]


def test_better_texts_are_told_apart_in_the_right_direction(world):
    table, annotations = world
    gaps = zero_shot.better(table, annotations, PAIR, 200).set_index("metric")
    assert gaps["better"].tolist() == ["yes", "yes"] and gaps["n"].tolist() == [160, 160]
    assert gaps.at["macro_recall", "ci_low"] > 0 and gaps.at["mean_rank", "ci_high"] < 0
    turned = zero_shot.better(table, annotations, [("name", "morphology")], 200).set_index("metric")
    assert turned["better"].tolist() == ["worse", "worse"]
    assert turned["value"].to_numpy() == pytest.approx(-gaps["value"].to_numpy())
    same = table.assign(run_id=table["run_id"].str.replace("morphology", "photo"))
    same = pd.concat([table, same[same["run_id"].str.contains("photo")]])  # an index with repeats
    equal = zero_shot.better(same, annotations, [("photo", "morphology"), ("photo", "book")], 100)
    assert equal["better"].tolist() == ["not told apart"] * 2 and equal["value"].tolist() == [0, 0]


def test_prompt_sets_on_other_points_are_compared_on_those_they_share(world):
    table, annotations = world
    few = table[(table["run_id"] != "toy.name-zero-S3") | (table["annotation_id"] < "p080")]
    assert zero_shot.better(few, annotations, PAIR, 100)["n"].tolist() == [80, 80]
    none = few[(few["run_id"] != "toy.morphology-zero-S3") | (few["annotation_id"] >= "p080")]
    assert zero_shot.better(none, annotations, PAIR, 100).empty


def test_answers_that_fall_on_few_classes_show():
    truth = list("aabbccdd")
    table = run("r.name-zero-S3", truth, [[0.9, 0.1, 0, 0]] * 6 + [[0.1, 0.9, 0, 0]] * 2)
    table.loc[7, "y_pred"] = zero_shot.NO_ANSWER
    row = zero_shot.answered(table).iloc[0]
    assert row[["commonest", "share", "its_share"]].tolist() == ["a", 0.75, 0.25]
    assert row[["answers", "classes", "right"]].tolist() == [2, 4, 1]
    classes = zero_shot.by_class(table.replace({"y_true": {"d": "a"}})).set_index("label")
    assert classes.index[0] == "a" and zero_shot.NO_ANSWER not in classes.index
    assert classes["recall"].to_dict() == {"a": 0.5, "b": 0, "c": 0} and classes.at["a", "n"] == 4
    stray = zero_shot.by_class(table[table["y_true"] != "a"]).set_index("label").loc["a"]
    assert np.isnan(stray["recall"]) and stray["there"] == 0 and stray["answered"] == pytest.approx(4 / 6)


def test_claims_are_held_against_the_printed_tables(monkeypatch):
    table = zero_shot.claims()
    assert table["holds"].tolist() == ["yes"] * 7 + ["11 of 14", "yes"]
    assert "chance is 2.56 within and 3.03 across" in table["the printed table says"].iloc[7]
    printed = published.zero_shot
    worse = {5: lambda t: 0.9 - t["published"], 12: lambda t: 40 - t["published"]}
    monkeypatch.setattr(published, "zero_shot", lambda number: printed(number).assign(published=worse[number]))
    turned = zero_shot.claims()["holds"].tolist()
    assert turned == ["no", "no", "1 of 2", "no", "no", "no", "no", "yes", "no"]


def test_printed_tables_are_tidy():
    five, twelve = published.zero_shot(5), published.zero_shot(12)
    assert (len(five), len(twelve)) == (14, 16) and set(twelve["test"]) == {"S1", "S2", "U", "S3"}
    assert five.set_index(["row", "test"]).at[("CLIP", "S3"), "published"] == pytest.approx(0.01)
    assert twelve.set_index(["row", "test"]).at[("CLIP", "U"), "published"] == pytest.approx(17.29)
    with pytest.raises(ReefcoreError, match="table 3 is not one of zero-shot models"):
        published.zero_shot(3)


def test_a_profile_without_runs_has_the_printed_rows_alone():
    none = pd.DataFrame(columns=["run_id", "annotation_id", "y_true", "y_pred"], dtype="str")
    measured = zero_shot.evaluate(none, photos(1))
    assert zero_shot.in_percent(zero_shot.beside(measured, 5))["value"].isna().all()
    assert len(zero_shot.beside(measured, 12)) == 16 and len(zero_shot.missing(measured)) == 7
    assert zero_shot.better(none, photos(1), PAIR).empty and zero_shot.answered(none).empty


def test_figures_show_every_prompt_set_and_class(world):
    table, annotations = world
    measured = zero_shot.evaluate(table[table["run_id"].str.startswith("toy")], annotations, 50)
    figure = figures.prompt_sets(measured, zero_shot.NAMES)
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels == ["name", "morphology"] and figure.axes[0].get_title() == zero_shot.NAMES["S3"]
    assert len(figure.axes) == 2 and figure.axes[1].get_xlabel() == "average rank of the true class"
    classes = zero_shot.by_class(table[table["run_id"] == "toy.name-zero-S3"])
    bars = figures.answers(classes).axes[0]
    names, widths = [tick.get_text() for tick in bars.get_yticklabels()], [bar.get_width() for bar in bars.patches]
    assert dict(zip(names, widths, strict=True)) == pytest.approx(
        (100 * classes.set_index("label")["recall"]).to_dict()
    )
