"""Open-set scores: their sign, their measures against scikit-learn, which classes are held out, and thresholds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import auc, roc_auc_score, roc_curve

from reefcore import figures, open_set, published
from reefcore.errors import ReefcoreError


def test_higher_means_known_for_every_score():
    found = open_set.scores([[10.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    assert found["msp"] == pytest.approx([1 / (1 + 2 * np.exp(-10)), 1 / 3])
    assert found["mls"].tolist() == [10, 1]
    assert found["energy"] == pytest.approx([10 + 9.08e-5, 1 + np.log(3)], abs=1e-5)
    for score in found.values():
        assert open_set.evaluate([True, False], score) == {"auroc": 1, "fpr_at_95_tpr": 0}


def test_large_logits_neither_overflow_nor_vanish():
    found = open_set.scores([[1e4, -1e4], [-1e4, -1e4]])
    assert found["msp"].tolist() == [1, 0.5] and found["energy"] == pytest.approx([1e4, -1e4 + np.log(2)])


@pytest.mark.parametrize("digits", [6, 1, 0])  # with rounding come ties
def test_measures_are_those_of_scikit_learn(digits):
    rng = np.random.default_rng(digits)
    known = rng.random(400) < 0.8
    score = np.round(rng.normal(0, 1, 400) + known, digits)
    found = open_set.evaluate(known, score)
    fpr, tpr, _ = roc_curve(known, score, drop_intermediate=False)
    assert found["auroc"] == pytest.approx(roc_auc_score(known, score))
    assert found["fpr_at_95_tpr"] == pytest.approx(fpr[tpr >= 0.95][0])
    assert open_set.evaluate(known, -score)["auroc"] == pytest.approx(1 - found["auroc"])


def test_equal_scores_count_half_and_are_all_accepted():
    assert open_set.evaluate([1, 0, 1, 0], [5.0, 5.0, 5.0, 5.0]) == {"auroc": 0.5, "fpr_at_95_tpr": 1}
    assert open_set.evaluate([1, 1, 0, 0], [3.0, 2.0, 2.0, 1.0]) == {"auroc": 0.875, "fpr_at_95_tpr": 0.5}


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (lambda: open_set.evaluate([1, 1], [0.1, 0.2]), "all 2 points are known: there is nothing to tell apart"),
        (lambda: open_set.evaluate([0], [0.1]), "all 1 points are unknown"),
        (lambda: open_set.evaluate([1, 0], [0.1]), r"1 scores but known has the shape \(2,\); give one per point"),
        (lambda: open_set.evaluate([1, 0], [0.1, np.nan]), "1 of 2 scores are no number"),
        (lambda: open_set.scores([1.0, 2.0]), r"logits have the shape \(2,\); give finite numbers"),
        (lambda: open_set.scores([[1.0, np.inf]]), "1 of 2 logits are no number"),
        (lambda: open_set.scores([["a", "b"]]), "logits are not all numbers"),
        (lambda: open_set.threshold([0.5]), "a threshold follows from keep, or from risk"),
        (lambda: open_set.threshold([0.5], keep=0.9, risk=0.1), "a threshold follows from keep, or from risk"),
        (lambda: open_set.threshold([0.5], risk=0.1), "a threshold follows from keep, or from risk"),
        (lambda: open_set.threshold([0.5], keep=1.5), "keep is 1.5, which is no such share"),
        (lambda: open_set.threshold([], keep=0.9), "a threshold cannot be chosen from 0 points"),
        (lambda: open_set.hold_out({"a": 9}, {"a": 9}), "no class can be held out: none has 50 training points"),
        (lambda: open_set.evaluate([1, 0, np.nan], [1, 2, 3]), "known must say true or false of every point"),
        (lambda: open_set.evaluate(["False", "True"], [1, 2]), "known must say true or false of every point"),
        (lambda: open_set.evaluate([], []), "nothing to tell apart: no points"),
        (lambda: open_set.threshold([0.5], keep=0), "keep is 0, which is no such share"),
        (lambda: open_set.evaluate(pd.array([True, False, None]), [1, 2, 3]), "known must say true or false"),
        (lambda: open_set.evaluate(["0", "1"], [1, 2]), "known must say true or false of every point"),
        (lambda: open_set.evaluate([1, 0], ["a", "b"]), "scores are not all numbers; give one finite number per point"),
        (lambda: open_set.threshold(np.ones(60), np.zeros(50, bool), risk=0.1), "60 scores but wrong has the shape"),
        (lambda: open_set.threshold(np.ones(60), ["False"] * 60, risk=0.1), "wrong must say true or false"),
        (lambda: open_set.threshold(np.ones(49), np.zeros(49, bool), risk=0.1), "from 49 points; give at least 50"),
        (lambda: open_set.knn([[1.0, 2.0]], [[1.0, np.nan]]), "1 of 2 features are no number"),
        (lambda: open_set.knn([[1.0, 2.0]], [[1.0, 2.0]], k=0), "have no neighbour 0"),
        (lambda: open_set.knn(np.zeros((0, 2)), [[1.0, 2.0]]), "have no neighbour 10"),
        (lambda: open_set.knn([[1.0, 2.0]], [[1.0, 2.0, 3.0]]), "have no neighbour 10"),
    ],
)
def test_bad_input_is_one_sentence(work, sentence):
    with pytest.raises(ReefcoreError, match=sentence):
        work()


def test_neighbours_are_near_in_direction_not_in_length():
    trained = [[1.0, 0], [2, 0.1], [0, -1]]
    near, far = open_set.knn(trained, [[5.0, 0.1], [-1, 0]], k=2)
    assert near > far and far == pytest.approx(-np.sqrt(2 + 2 * 2 / np.hypot(2, 0.1)), abs=0.6)
    assert open_set.knn(trained, [[1.0, 0]], k=1)[0] == pytest.approx(0)
    assert open_set.knn(trained, [[1, 0]]).shape == (1,)


COUNTS = {"Agaricia": 500, "Pavona": 400, "Porites": 9000, "Favia": 300, "Favites": 350, "Rare": 3, "Orbicella": 260}


def test_held_out_are_common_enough_and_leave_most_points_known():
    test = {"Agaricia": 120, "Pavona": 110, "Porites": 3000, "Favia": 90, "Favites": 130, "Rare": 400, "Orbicella": 500}
    assert open_set.hold_out(COUNTS, test, min_test=100) == ["Agaricia", "Favites", "Pavona"]
    # Porites and Orbicella are too large a part of the test set; Favia has too few points there, Rare in training.
    assert "Porites" in open_set.hold_out(COUNTS, test, min_test=100, most=1.0)
    assert open_set.hold_out(COUNTS, test, n=1, min_test=100) == ["Agaricia"]
    # A class of a tenth would fit, but then no eight would.
    large = {"large": 290} | {f"genus {i}": 20 for i in range(9)} | {"rest": 2700}
    common = dict.fromkeys(large, 500) | {"rest": 1}
    found = open_set.hold_out(common, large, min_test=10)
    assert len(found) == 8 and "large" not in found
    assert all(len(open_set.hold_out(common, large, min_test=10, seed=seed)) == 8 for seed in range(9))
    many = {f"genus {i}": 300 for i in range(30)}
    drawn = [open_set.hold_out(many, many, most=0.5, seed=seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) == 8


def test_the_paper_s_hundred_points_scale_with_the_test_set():
    assert open_set.least_test(published.value("open_set/test_points")) == 100
    assert open_set.least_test(3404) == 10 and open_set.least_test(10) == 5


@pytest.fixture
def runs():
    """Make two runs with scores of known classes A and B, in photos of five points; C is known to the second only."""
    rng = np.random.default_rng(0)
    y = rng.choice(["A", "B", "C"], 400, p=[0.5, 0.35, 0.15])
    sure = np.where(y == "C", rng.normal(0, 1, 400), rng.normal(2, 1, 400))
    p = 0.5 + 0.5 / (1 + np.exp(-sure))
    ids = [f"{i:03d}" for i in range(400)]
    first = pd.DataFrame({"run_id": "m.open-S4-S4", "annotation_id": ids, "y_true": y, "y_pred": "A"})
    first = first.assign(**{"score:A": p, "score:B": 1 - p, "known:mls": sure, "known:energy": sure + 0.1})
    second = first.assign(run_id="o.open-S4-S4", **{"score:C": 0.1})
    annotations = pd.DataFrame(
        {"annotation_id": ids, "source": "s", "image": [i[:2] + str(int(i[2]) // 5) for i in ids]}
    )
    return pd.concat([first, second], ignore_index=True), annotations


def test_a_class_is_known_where_its_run_scores_it(runs):
    table, _ = runs
    known = open_set.is_known(table)
    assert (known == ((table["y_true"] != "C") | (table["run_id"] == "o.open-S4-S4"))).all()
    with pytest.raises(ReefcoreError, match=r"the run m\.open-S4-S4 has no scores"):
        open_set.is_known(table.drop(columns=["score:A", "score:B", "score:C"]))


def test_probabilities_alone_give_msp(runs):
    table = runs[0].drop(columns=["known:mls", "known:energy"])
    found = open_set.with_scores(table)
    assert open_set.names_of(found) == ["msp"] and (found["known:msp"] == table["score:A"]).all()
    assert open_set.names_of(open_set.with_scores(runs[0])) == ["msp", "mls", "energy"]
    given = table.assign(**{"known:msp": 0.25})
    assert (open_set.with_scores(given)["known:msp"] == 0.25).all()


def test_intervals_hold_the_value_and_come_of_photos(runs):
    table, annotations = runs
    first = table[table["run_id"] == "m.open-S4-S4"]
    found = open_set.bootstrap(first, annotations, n=300, seed=1)
    assert found.equals(open_set.bootstrap(first, annotations, n=300, seed=1))
    by = found.set_index(["score", "metric"])
    expected = open_set.evaluate(open_set.is_known(first), first["known:mls"])
    for metric, value in expected.items():
        assert by.at[("mls", metric), "value"] == pytest.approx(value)
        assert by.at[("mls", metric), "ci_low"] < value < by.at[("mls", metric), "ci_high"]
    assert set(found["unknown"]) == {(first["y_true"] == "C").sum()}
    # the plain way, photo by photo
    rng, draws = np.random.default_rng(0), []
    groups = [rows for _, rows in first.groupby(annotations["image"].to_numpy())]
    for _ in range(200):
        drawn = pd.concat([groups[i] for i in rng.integers(len(groups), size=len(groups))])
        draws.append(roc_auc_score(drawn["y_true"] != "C", drawn["known:mls"]))
    low, high = np.quantile(draws, [0.025, 0.975])
    assert by.at[("mls", "auroc"), "ci_low"] == pytest.approx(low, abs=0.015)
    assert by.at[("mls", "auroc"), "ci_high"] == pytest.approx(high, abs=0.015)


def test_risk_falls_as_fewer_are_accepted(runs):
    table, annotations = runs
    first = table[table["run_id"] == "m.open-S4-S4"]
    curve = open_set.risk_coverage(first, annotations, n=50).query("score == 'mls'").set_index("coverage")
    wrong = (first["y_true"] != first["y_pred"]).to_numpy()
    assert curve.at[1.0, "risk"] == pytest.approx(wrong.mean())
    half = np.argsort(-first["known:mls"].to_numpy(), kind="stable")[:200]
    assert curve.at[0.5, "risk"] == pytest.approx(wrong[half].mean())
    assert (curve["ci_low"] <= curve["risk"]).all() and (curve["ci_high"] >= curve["risk"]).all()
    area = open_set.bootstrap(first, annotations, n=10).set_index(["score", "metric"]).at[("mls", "aurc"), "value"]
    order = np.argsort(-first["known:mls"].to_numpy(), kind="stable")
    risks = np.cumsum(wrong[order]) / np.arange(1, 401)
    assert area == pytest.approx(risks.mean()) and area == pytest.approx(auc(np.arange(400) / 399, risks), abs=0.01)


def test_a_threshold_keeps_what_it_says():
    score = np.arange(100) / 100
    assert open_set.threshold(score, keep=0.95) == 0.05 and open_set.threshold(score, keep=1) == 0
    wrong = score < 0.3
    at = open_set.threshold(score, wrong, risk=0.1)
    assert wrong[score >= at].mean() <= 0.1 < wrong[score >= at - 0.01].mean()
    assert open_set.threshold(score, np.ones(100, bool), risk=0.5) == np.inf
    late = np.arange(100) < 98  # only the two surest are right: nothing of 50 points or more is
    assert open_set.threshold(score, late, risk=0.5) == np.inf
    assert open_set.threshold([1.0, 1.0, 0.0], keep=0.5) == 1  # equal scores are accepted together


def test_thresholds_of_validation_are_tried_on_the_test_part(runs):
    table, annotations = runs
    first = table[table["run_id"] == "m.open-S4-S4"]
    validation, test = first.iloc[:200], first.iloc[200:]
    found = open_set.thresholds(validation, test, annotations, keep=(0.9,), n=50).set_index("score").loc["mls"]
    known = test["y_true"] != "C"
    accepted = test["known:mls"] >= found["threshold"]
    assert found["threshold"] == open_set.threshold(validation["known:mls"][validation["y_true"] != "C"], keep=0.9)
    assert found["known accepted"] == accepted[known].mean() and found["unknown accepted"] == accepted[~known].mean()
    assert found["right"] == (test["y_true"] == "A")[accepted].mean() and found["ci_low"] < found["ci_high"]
    assert found["validation"] == (validation["y_true"] != "C").sum()


def test_table_6_stands_beside_and_what_a_forgotten_sign_gives(runs):
    table, annotations = runs
    first = open_set.with_scores(table[table["run_id"] == "m.open-S4-S4"])
    turned = open_set.bootstrap(first.assign(**{"known:energy": -first["known:energy"]}), annotations, n=20)
    beside = open_set.beside(open_set.bootstrap(first, annotations, n=20), turned).set_index(["score", "metric"])
    assert beside.at[("mls", "auroc"), "published"] == 0.8361
    assert beside.at[("energy", "auroc"), "published"] == 0.1616
    energy, reverse = beside.loc[("energy", "auroc")], beside.loc[(open_set.TURNED, "auroc")]
    ends = reverse[["value", "ci_low", "ci_high"]].to_numpy(float)
    assert ends == pytest.approx(1 - energy[["value", "ci_high", "ci_low"]].to_numpy(float))
    assert beside.at[(open_set.TURNED, "fpr_at_95_tpr"), "published"] == 0.9902
    assert beside["difference"].notna().all() and len(beside) == 8


def test_rows_of_table_6_that_were_not_measured_stay_empty(runs):
    table, annotations = runs
    bare = table[table["run_id"] == "m.open-S4-S4"].drop(columns=["known:mls", "known:energy"])
    near = bare.assign(**{"known:knn": -1.0, "known:msp": 0.5})
    beside = open_set.beside(open_set.bootstrap(near, annotations, n=5)).set_index("score")
    assert list(beside.index.unique()) == ["msp", "mls", "energy", "knn"]
    assert beside.loc[["mls", "energy"], "value"].isna().all() and beside.loc["mls", "published"].notna().all()
    assert beside.loc["msp", "value"].notna().all() and beside.loc["knn", "published"].isna().all()


def test_one_photo_has_no_interval(runs):
    table, annotations = runs
    first = table[table["run_id"] == "m.open-S4-S4"]
    one = annotations.assign(image="the same")
    assert open_set.bootstrap(first, one, n=5)["ci_low"].isna().all()
    assert open_set.risk_coverage(first, one, n=5)["ci_high"].isna().all()
    assert open_set.thresholds(first, first, one, n=5)[["ci_low", "ci_high"]].isna().all(axis=None)


def test_unknown_points_of_one_photo_say_nothing_of_unknown_points_elsewhere(runs):
    table, annotations = runs
    first = table[table["run_id"] == "m.open-S4-S4"]
    gathered = annotations.assign(image=annotations["image"].mask(first["y_true"].eq("C").to_numpy(), "the same"))
    has = open_set.bootstrap(first, gathered, n=20).groupby("metric")["ci_low"].apply(lambda low: low.notna().all())
    assert has.to_dict() == {"auroc": False, "fpr_at_95_tpr": False, "aurc": True}


def test_measures_need_a_score(runs):
    table, annotations = runs
    bare = table.drop(columns=["known:mls", "known:energy"])
    for measure in (open_set.bootstrap, open_set.risk_coverage):
        with pytest.raises(ReefcoreError, match="no point has a score of being known"):
            measure(bare, annotations)


def test_points_are_believed_or_sent_to_a_person(runs):
    first = runs[0].query("run_id == 'm.open-S4-S4'")
    found = open_set.accept(first, "mls", 1.0)
    assert len(found) == len(first) and found["known:mls"].is_monotonic_increasing
    assert (found["accepted"] == (found["known:mls"] >= 1.0)).all() and 0 < found["accepted"].mean() < 1
    with pytest.raises(ReefcoreError, match="a point has no score knn"):
        open_set.accept(first, "knn", 0.0)


def test_thresholds_need_validation_points_of_known_classes(runs):
    table, annotations = runs
    first = table[table["run_id"] == "m.open-S4-S4"]
    with pytest.raises(ReefcoreError, match="no validation points of known classes"):
        open_set.thresholds(first[first["y_true"] == "C"], first, annotations)
    with pytest.raises(ReefcoreError, match="the validation points have no score mls"):
        open_set.thresholds(first.drop(columns="known:mls"), first, annotations)


def test_figures_show_both_kinds_and_every_score(runs):
    table, annotations = runs
    first = open_set.with_scores(table[table["run_id"] == "m.open-S4-S4"])
    figure = figures.known_unknown(first, open_set.is_known(first), ["msp", "mls"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["largest probability", "largest logit"]
    curves = open_set.risk_coverage(first, annotations, n=10)
    drawn = figures.risk_coverage({"m": curves})
    labels = [line.get_label() for line in drawn.axes[0].get_lines()]
    assert labels == ["largest probability", "largest logit", "energy"]
