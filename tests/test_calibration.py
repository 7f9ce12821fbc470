"""Confidence against correctness: checked on probabilities whose calibration is known, and against plain loops."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from reefcore import calibration, classes
from reefcore.errors import ReefcoreError

CLASSES = ["Favites", "Pavona", "Porites"]


def rows_of(p, truth, run="vit-S3-S3", classes=CLASSES):
    table = pd.DataFrame(p, columns=[f"score:{name}" for name in classes])
    ids = [f"{run}{i}" for i in range(len(table))]
    return table.assign(
        run_id=run, annotation_id=ids, y_true=np.asarray(truth), y_pred=np.asarray(classes)[np.argmax(p, axis=1)]
    )


def drawn(n=4000, too_sure=1.0, seed=0, run="vit-S3-S3"):
    """Draw truths from softmax(z) and give softmax(too_sure z): the temperature that repairs it is too_sure."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n, len(CLASSES)))
    truth = [rng.choice(CLASSES, p=p) for p in softmax(z, axis=1)]
    return rows_of(softmax(too_sure * z, axis=1), truth, run), z


def test_what_is_no_probability_is_refused():
    rows = rows_of([[0.7, 0.2, 0.1], [0.5, 0.2, 0.2]], ["Favites", "Porites"])
    with pytest.raises(ReefcoreError, match=r"the scores of 1 of 2 points of run vit-S3-S3 .* such as .*1 \(sum 0.900"):
        calibration.answers(rows)
    with pytest.raises(ReefcoreError, match="do not sum to one"):
        calibration.answers(rows.assign(**{"score:Pavona": [np.nan, 0.3]}))
    with pytest.raises(ReefcoreError, match="run vit-S3-S3 has no scores; give one column score:CLASS per class"):
        calibration.answers(rows.drop(columns=[f"score:{name}" for name in CLASSES]))
    with pytest.raises(ReefcoreError, match="predicts Isopora but has no scores of it"):
        calibration.answers(rows.iloc[:1].assign(y_pred="Isopora"))
    rounded = calibration.answers(rows_of([[0.333, 0.333, 0.3335]], ["Porites"]))
    assert rounded.p.sum() == pytest.approx(1, abs=1e-12)


def test_confidence_is_that_of_the_answer_even_where_another_class_has_more():
    rows = rows_of([[0.7, 0.2, 0.1]], ["Pavona"]).assign(y_pred="Pavona")
    said = calibration.answers(rows)
    assert said.confidence == pytest.approx([0.2]) and said.right.tolist() == [True]
    assert calibration.confident(rows)["confidence"].tolist() == pytest.approx([0.2])


def test_scaling_probabilities_is_scaling_logits_and_changes_no_answer():
    rows, z = drawn(200)
    said = calibration.answers(rows)
    for t in (0.5, 1.0, 3.0):
        again = calibration.scaled(said, t)
        assert np.allclose(again.p, softmax(z / t, axis=1)) and (again.p.argmax(axis=1) == said.answer).all()


def test_losses_agree_with_scikit_learn_and_say_what_a_class_without_score_costs():
    rows, _ = drawn(300)
    nll, brier = calibration.losses(calibration.answers(rows))
    p = rows[[f"score:{name}" for name in CLASSES]].to_numpy()
    assert nll.mean() == pytest.approx(log_loss(rows["y_true"], p, labels=CLASSES))
    one_hot = rows["y_true"].to_numpy()[:, None] == np.array(CLASSES)
    assert np.allclose(brier, ((p - one_hot) ** 2).sum(axis=1))
    nll, brier = calibration.losses(calibration.answers(rows_of([[0.6, 0.4, 0.0], [1.0, 0.0, 0.0]], ["x", "Porites"])))
    assert nll == pytest.approx([-np.log(calibration.CLIP)] * 2) and brier == pytest.approx([0.36 + 0.16 + 1, 2])


@pytest.mark.parametrize("too_sure", [0.5, 1.0, 3.0])
def test_the_temperature_is_found(too_sure):
    rows, _ = drawn(too_sure=too_sure)
    stranger = rows.iloc[:50].assign(y_true="x")  # no temperature changes the loss of these
    fitted = calibration.temperature(calibration.answers(pd.concat([rows, stranger])))
    assert fitted == pytest.approx(too_sure, rel=0.1)
    with pytest.raises(ReefcoreError, match="no temperature can be fitted"):
        calibration.temperature(calibration.answers(stranger))


def test_bins_hold_equally_many_points_and_equal_confidences_share_one():
    said = calibration.answers(drawn(1000)[0])
    table = calibration.reliability(said, 10)
    assert table["n"].tolist() == [100] * 10 and table["confidence"].is_monotonic_increasing
    order = np.argsort(said.confidence)
    assert table["accuracy"].tolist() == pytest.approx([said.right[part].mean() for part in np.split(order, 10)])
    assert ((table["ci_low"] < table["accuracy"]) & (table["accuracy"] < table["ci_high"])).all()
    tied = calibration.answers(rows_of([[0.8, 0.1, 0.1]] * 5 + [[0.4, 0.3, 0.3]] * 5, ["Favites"] * 10))
    assert calibration.reliability(tied, 4)["n"].tolist() == [5, 5]
    assert len(calibration.reliability(calibration.answers(rows_of([[1.0, 0, 0]] * 3, ["Favites"] * 3)), 4)) == 1


def test_calibration_error_of_a_calibrated_model_is_what_chance_gives():
    said = calibration.answers(drawn(3000)[0])
    table = calibration.scores(said, np.arange(3000), n=100)
    ece = table.set_index("metric").loc["ece"]
    assert ece["value"] < 2 * table.attrs["ece_by_chance"] and ece["ci_low"] <= ece["value"] <= ece["ci_high"]
    bins = calibration.reliability(said)
    by_hand = (bins["n"] * (bins["accuracy"] - bins["confidence"]).abs()).sum() / 3000
    assert ece["value"] == pytest.approx(by_hand)
    sure = calibration.scores(calibration.answers(drawn(3000, too_sure=4)[0]), np.arange(3000), n=100)
    assert sure.set_index("metric").loc["ece", "ci_low"] > 3 * sure.attrs["ece_by_chance"]


def test_intervals_resample_photos_and_repeat():
    rows, _ = drawn(400)
    twice = pd.concat([rows, rows, rows, rows])  # a photo holds a point four times: no more is known
    alone = calibration.scores(calibration.answers(rows), np.arange(400), n=300)
    photos = np.tile(np.arange(400), 4)
    together = calibration.scores(calibration.answers(twice), photos, n=300)
    pd.testing.assert_frame_equal(together, calibration.scores(calibration.answers(twice), photos, n=300))
    width = [(t["ci_high"] - t["ci_low"]).iloc[1:].to_numpy() for t in (alone, together)]
    assert np.allclose(*width, rtol=0.05)


def test_the_temperature_comes_from_validation_points_alone():
    test, _ = drawn(500, too_sure=3, run="vit-S3-W")
    home, _ = drawn(2000, too_sure=2, seed=1, run="vit-S3-val")
    both, fitted = calibration.stages(test, home, "vit-S3-W")
    assert fitted == pytest.approx(2, rel=0.15) and list(both) == ["as given", "rescaled"]
    other = calibration.stages(test.assign(y_true="Favites"), home, "vit-S3-W")
    assert other[1] == fitted
    both, fitted = calibration.stages(test, home.assign(run_id="vit-S1-val"), "vit-S3-W")
    assert list(both) == ["as given"] and np.isnan(fitted)


def test_every_run_is_scored_before_and_after():
    first, second = drawn(300, too_sure=3)[0], drawn(200, too_sure=3, run="cnn-S1-S1")[0]
    second.loc[0, "y_true"] = "Isopora"
    predictions = pd.concat([first, second])
    annotations = pd.DataFrame({"annotation_id": predictions["annotation_id"], "source": "A", "image": "b"})
    annotations["image"] = [f"{i % 40}.jpg" for i in range(len(annotations))]
    home = drawn(1000, too_sure=3, seed=2, run="vit-S3-val")[0]
    table = calibration.before_and_after(predictions, home, annotations, n=50)
    assert table.groupby(["run", "stage"]).size().to_dict() == {
        ("cnn-S1-S1", "as given"): 4,
        ("vit-S3-S3", "as given"): 4,
        ("vit-S3-S3", "rescaled"): 4,
    }
    values = table[table["run"] == "vit-S3-S3"].set_index(["stage", "metric"])["value"]
    assert values["rescaled", "ece"] < values["as given", "ece"] / 2
    assert values["rescaled", "nll"] < values["as given", "nll"]
    assert values["rescaled", "accuracy"] == values["as given", "accuracy"]
    assert set(table.loc[table["run"] == "cnn-S1-S1", "unknown"]) == {1}
    assert set(table.loc[table["by_chance"].notna(), "metric"]) == {"ece"}


def test_runs_without_scores_are_named_and_left_out():
    first, bare = drawn(60)[0], drawn(40, run="mine-S3-S3")[0].drop(columns=[f"score:{name}" for name in CLASSES])
    both = pd.concat([first, bare], ignore_index=True)
    photos = both[["annotation_id"]].assign(source="A", image=[f"{i % 9}.jpg" for i in range(len(both))])
    assert calibration.without_scores(both) == ["mine-S3-S3"] and calibration.without_scores(first) == []
    home = first.assign(run_id="vit-S3-val")
    assert calibration.before_and_after(both, home, photos, n=20)["run"].unique().tolist() == ["vit-S3-S3"]
    assert calibration.before_and_after(bare, home, photos, n=20).empty
    rows, said = calibration.pick(both, "mine-S3-S3")
    assert said == "Run mine-S3-S3 has no scores (columns score:CLASS); this chapter needs them." and rows.empty
    patches = photos.assign(row=1, column=1, label="Porites", broad_category="Hard coral")
    assert classes.examples(calibration.confident(rows), patches, photos["annotation_id"], 8).empty
    assert "mine-S3-S3 has no scores" in calibration.pick(bare, "vit-S3-S3")[1]
    rows, said = calibration.pick(pd.concat([bare, first]), "cnn-S3-S3")  # what stands in for it has scores
    assert rows["run_id"].unique().tolist() == ["vit-S3-S3"] and said.startswith("cnn-S3-S3 was not run")
    with pytest.raises(ReefcoreError, match="there are no predictions"):
        calibration.pick(first.head(0), "vit-S3-S3")


def test_the_surest_answers_are_kept_first():
    p = [[c, 1 - c, 0.0] for c in (0.9, 0.6, 0.8, 0.7)]
    table = calibration.coverage(calibration.answers(rows_of(p, ["Favites", "Pavona", "Favites", "Pavona"])), 4)
    assert table["coverage"].tolist() == [0.25, 0.5, 0.75, 1] and table["threshold"].tolist() == [0.9, 0.8, 0.7, 0.6]
    assert table["accuracy"].tolist() == pytest.approx([1, 1, 2 / 3, 1 / 2])


def test_a_promise_made_at_home_is_checked_on_the_test():
    home = calibration.answers(drawn(3000)[0])
    abroad = calibration.answers(drawn(3000, too_sure=4, seed=1)[0])
    found = calibration.promise(home, abroad, 0.8)
    kept = home.confidence >= found["threshold"]
    assert found["promised"] == home.right[kept].mean() >= 0.8 and found["answered in validation"] == kept.mean()
    more = home.confidence >= np.sort(home.confidence[~kept])[-1]
    assert home.right[more].mean() < 0.8  # no lower threshold keeps the promise
    assert found["found"] < found["promised"] - 0.05 and found["answered"] > found["answered in validation"]
    tied = calibration.answers(rows_of([[0.9, 0.1, 0.0]] * 400, ["Favites"] * 300 + ["Pavona"] * 100))
    assert np.isnan(calibration.promise(tied, abroad, 0.8)["threshold"])  # equally sure answers cannot be parted
    never = calibration.promise(calibration.answers(rows_of([[0.8, 0.1, 0.1]], ["Porites"])), abroad, 0.8)
    assert np.isnan(never["threshold"]) and np.isnan(never["found"]) and never["answered"] == 0
    p = [[0.9, 0.1, 0.0]] * (calibration.LEAST - 1) + [[0.5, 0.3, 0.2]]  # one answer less than a threshold needs
    few = rows_of(p, ["Favites"] * (calibration.LEAST - 1) + ["Pavona"])
    assert np.isnan(calibration.promise(calibration.answers(few), abroad, 0.99)["threshold"])
    enough = calibration.answers(pd.concat([few.head(1), few]))
    assert calibration.promise(enough, abroad, 0.99)["threshold"] == pytest.approx(0.9)


def test_settings_of_a_recipe_and_what_travels():
    runs = {name: drawn(300, 2, i, f"vit-{name}")[0] for i, name in enumerate(["S1-S1", "S3-S3", "S4-W"])}
    predictions = pd.concat(runs.values())
    shown = calibration.settings(predictions, "vit-S3-S3")
    assert shown == {"within sources (S1)": "vit-S1-S1", "across sources (S3)": "vit-S3-S3"}
    assert calibration.settings(predictions, "vit-S4-W") == {"vit-S4-W": "vit-S4-W"}
    home = drawn(900, 2, 5, "vit-S1-val")[0]
    table = calibration.travels(predictions, home, shown)
    assert table["setting"].tolist() == ["within sources (S1)"]
    line = table.iloc[0]
    assert line["temperature"] == pytest.approx(2, rel=0.2) and line["ECE rescaled"] < line["ECE as given"]
    assert calibration.travels(predictions, home.head(0), shown).columns.tolist() == table.columns.tolist()
