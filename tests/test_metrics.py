"""Metrics against scikit-learn, and intervals against slow resampling."""

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk

from reefcore import metrics
from reefcore.errors import ReefcoreError


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(1)
    true = rng.choice(list("abcde"), 400, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    pred = np.where(rng.random(400) < 0.6, true, rng.choice(list("abcdefg"), 400))
    return true, pred, rng.integers(0, 60, 400)


def test_score_over_truth_is_scikit_learn_over_the_classes_in_truth(answers):
    true, pred, _ = answers
    ours = metrics.score(true, pred)
    labels = sorted(set(true))
    assert ours["macro_recall"] == pytest.approx(sk.balanced_accuracy_score(true, pred))
    for name, function in {
        "macro_precision": sk.precision_score,
        "macro_f1": sk.f1_score,
        "macro_recall": sk.recall_score,
    }.items():
        assert ours[name] == pytest.approx(function(true, pred, labels=labels, average="macro", zero_division=0))
    assert ours["micro_recall"] == ours["accuracy"] == pytest.approx(sk.accuracy_score(true, pred))


def test_score_over_truth_or_prediction_counts_absent_classes_as_zero(answers):
    true, pred, _ = answers
    ours = metrics.score(true, pred, over="truth_or_prediction")
    assert ours["macro_recall"] == pytest.approx(sk.recall_score(true, pred, average="macro", zero_division=0))
    assert ours["macro_f1"] == pytest.approx(sk.f1_score(true, pred, average="macro", zero_division=0))
    assert ours["macro_recall"] < metrics.score(true, pred)["macro_recall"]


def test_score_by_hand():
    # a: 1 of 2 found; b: 1 of 1; b is predicted twice, once rightly
    got = metrics.score(["a", "a", "b"], ["a", "b", "b"])
    assert got == pytest.approx(
        {
            "macro_recall": 0.75,
            "micro_recall": 2 / 3,
            "macro_precision": 0.75,
            "macro_f1": (2 / 3 + 2 / 3) / 2,
            "accuracy": 2 / 3,
        }
    )


def test_per_class_agrees_with_scikit_learn(answers):
    true, pred, _ = answers
    table = metrics.per_class(true, pred).set_index("label")
    report = sk.classification_report(true, pred, output_dict=True, zero_division=0)
    for label in "abcde":
        for name, key in {"recall": "recall", "precision": "precision", "f1": "f1-score", "n": "support"}.items():
            assert table.at[label, name] == pytest.approx(report[label][key])
    assert np.isnan(table.at["f", "recall"])


def test_bootstrap_is_the_slow_bootstrap(answers):
    """The same resampled photos, gathered point by point and scored by scikit-learn, give the same numbers."""
    true, pred, groups = answers
    draws = metrics.resample(true, pred, groups, n=20, seed=5)
    names = np.unique(groups)
    rng = np.random.default_rng(5)
    weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=20)
    for row, weight in zip(draws.itertuples(), weights, strict=True):
        at = np.concatenate([np.tile(np.flatnonzero(groups == g), w) for g, w in zip(names, weight, strict=True) if w])
        assert row.macro_recall == pytest.approx(sk.balanced_accuracy_score(true[at], pred[at]))
        assert row.accuracy == pytest.approx((true[at] == pred[at]).mean())


def test_interval_contains_the_value_and_is_wider_when_photos_are_alike(answers):
    true, pred, groups = answers
    table = metrics.bootstrap(true, pred, groups, n=500)
    assert ((table["ci_low"] <= table["value"]) & (table["value"] <= table["ci_high"])).all()
    right = np.repeat(np.random.default_rng(0).random(40) < 0.5, 10)  # all points of a photo right, or all wrong
    alike = metrics.bootstrap(["a"] * 400, np.where(right, "a", "b"), np.repeat(np.arange(40), 10), n=500)
    single = metrics.bootstrap(["a"] * 400, np.where(right, "a", "b"), np.arange(400), n=500)
    width = [(t["ci_high"] - t["ci_low"]).iloc[0] for t in (alike, single)]
    assert width[0] > 2.5 * width[1]  # about the square root of ten


def test_same_seed_same_numbers_in_any_chunk(answers, monkeypatch):
    whole = metrics.resample(*answers, n=50, seed=3)
    pd.testing.assert_frame_equal(whole, metrics.resample(*answers, n=50, seed=3))
    monkeypatch.setattr(metrics, "CHUNK", 7)
    pd.testing.assert_frame_equal(whole, metrics.resample(*answers, n=50, seed=3))
    assert not whole.equals(metrics.resample(*answers, n=50, seed=4))


def test_difference_of_a_run_with_itself_is_zero(answers):
    draws = metrics.resample(*answers, n=50, seed=3)
    same = metrics.difference(draws, draws)
    assert (same[["value", "ci_low", "ci_high"]] == 0).all(axis=None)
    better = metrics.difference(draws + 0.2, draws).set_index("metric").loc["macro_recall"]
    assert better["ci_low"] == pytest.approx(0.2) and better["ci_high"] == pytest.approx(0.2)


def predictions(run="m-S1-S1"):
    return pd.DataFrame(
        {"run_id": run, "annotation_id": list("abcd"), "y_true": ["P", "P", "Q", "Q"], "y_pred": ["P", "Q", "Q", "Q"]}
    )


def annotations():
    return pd.DataFrame({"annotation_id": list("abcd"), "source": "s", "image": ["1", "1", "2", "3"]})


def test_evaluate_makes_the_metrics_table_from_predictions_alone():
    table = metrics.evaluate(predictions(), annotations(), n=50)
    row = table.set_index("metric").loc["macro_recall"]
    assert (row["value"], row["n"], row["classes"], row["scheme"]) == (0.75, 4, 2, "S1")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: metrics.score([], []), "there is nothing to score"),
        (lambda: metrics.score(["a"], ["a", "b"]), "1 true labels but 2 predicted ones"),
        (lambda: metrics.score(["a", None], ["a", "b"]), "a label is missing"),
        (lambda: metrics.score(["a"], ["a"], over="all"), "over='all' is not a convention"),
        (lambda: metrics.bootstrap(["a"], ["a"], [1], n=0), "n=0 draws cannot be made"),
        (lambda: metrics.bootstrap(["a"], ["a"], [1, 2]), "2 groups for 1 points"),
        (lambda: metrics.bootstrap(["a", "b"], ["a", "b"], [1, None]), "a point has no group"),
        (lambda: metrics.bootstrap(["a"], ["a"], [1], level=95), "level=95 is not a coverage"),
        (lambda: metrics.evaluate(predictions("m"), annotations()), "the test set of run m is not known"),
        (
            lambda: metrics.evaluate(predictions(), annotations().head(3)),
            "1 predictions of run m-S1-S1 are for unknown annotations",
        ),
        (lambda: metrics.evaluate(predictions().head(0), annotations()), "there is nothing to score"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ReefcoreError) as error:
        call()
    assert str(error.value).startswith(sentence) and str(error.value).count("\n") == 0
