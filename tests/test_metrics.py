"""Metrics against scikit-learn, and intervals against slow resampling."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
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


@pytest.fixture(scope="module")
def three_runs(answers):
    """Three runs on the same points, the rows of one in another order."""
    true, pred, groups = answers
    rng = np.random.default_rng(2)
    ids = np.array([f"{i:03d}" for i in range(len(true))])
    tables = []
    for run, right in (("a", 0.5), ("b", 0.1), ("c", 0.0)):
        order = rng.permutation(len(true)) if run == "b" else np.arange(len(true))
        better = np.where(rng.random(len(true)) < right, true, pred)
        tables.append(pd.DataFrame({"run_id": run, "annotation_id": ids, "y_true": true, "y_pred": better}).iloc[order])
    photos = pd.DataFrame({"annotation_id": ids, "source": "s", "image": [f"{g:02d}" for g in groups]})
    return pd.concat(tables, ignore_index=True), photos


def test_paired_is_the_slow_paired_bootstrap(three_runs, answers):
    runs, photos = three_runs
    true, _, groups = answers
    got = metrics.paired(runs, photos, n=200, seed=4, level=0.9)
    assert got[["first", "second"]].to_numpy().tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    pred = runs.pivot(index="annotation_id", columns="run_id", values="y_pred")
    names = np.unique(groups)
    weights = np.random.default_rng(4).multinomial(len(names), np.full(len(names), 1 / len(names)), size=200)
    drawn = []
    for weight in weights:
        at = np.concatenate([np.tile(np.flatnonzero(groups == g), w) for g, w in zip(names, weight, strict=True) if w])
        one, two = (
            sk.recall_score(true[at], pred[r].to_numpy()[at], labels=sorted(set(true[at])), average="macro")
            for r in "ab"
        )
        drawn.append(one - two)
    first = got.iloc[0]
    assert (first["ci_low"], first["ci_high"]) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])))
    gap = sk.balanced_accuracy_score(true, pred["a"]) - sk.balanced_accuracy_score(true, pred["b"])
    assert first["value"] == pytest.approx(gap)
    assert first["p"] == pytest.approx(2 * stats.norm.sf(abs(gap) / np.std(drawn, ddof=1)))


def test_paired_p_values_are_adjusted_for_all_pairs_of_the_call(three_runs):
    runs, photos = three_runs
    every = metrics.paired(runs, photos, n=100).sort_values("p")
    smallest, middle, largest = every["p"]
    by_hand = [3 * smallest, max(3 * smallest, 2 * middle), max(3 * smallest, 2 * middle, largest)]
    assert every["p_holm"].tolist() == pytest.approx(np.minimum(1, by_hand))
    one = metrics.paired(runs, photos, [("a", "b")], n=100).iloc[0]
    both = every[(every["first"] == "a") & (every["second"] == "b")].iloc[0]
    assert one["p_holm"] == one["p"] == both["p"] and one["ci_low"] == both["ci_low"]


def test_runs_with_the_same_answers_are_not_told_apart(three_runs):
    runs, photos = three_runs
    twin = pd.concat([runs, runs[runs["run_id"] == "a"].assign(run_id="d")])
    row = metrics.paired(twin, photos, [("a", "d")], n=50).iloc[0]
    assert row[["value", "ci_low", "ci_high", "p", "p_holm"]].tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("change", "pairs", "sentence"),
    [
        (lambda t: t, [("a", "x")], "there are no predictions of run x"),
        (lambda t: t[t["run_id"] == "a"], None, "there are no two runs to compare"),
        (lambda t: t.iloc[1:], None, "runs a and b are not on the same points"),
        (lambda t: pd.concat([t.head(1), t]), None, "runs a and a are not on the same points"),
        (lambda t: t.assign(y_true=t["y_true"].where(t["run_id"] != "c", "z")), None, "runs a and c are not on"),
    ],
)
def test_runs_that_cannot_be_paired_are_refused(three_runs, change, pairs, sentence):
    runs, photos = three_runs
    with pytest.raises(ReefcoreError) as error:
        metrics.paired(change(runs), photos, pairs, n=10)
    assert str(error.value).startswith(sentence)


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


def test_the_interval_of_one_photo_is_none_and_few_photos_are_warned_of(caplog):
    one = metrics.evaluate(predictions(), annotations().assign(image="1"), n=20)
    assert one["value"].notna().all() and one[["ci_low", "ci_high"]].isna().all().all()
    assert "Run m-S1-S1 has few photos (1)" in caplog.text
    caplog.clear()
    many = pd.concat([predictions().assign(annotation_id=[f"{i}{name}" for name in "abcd"]) for i in range(3)])
    table = metrics.evaluate(many, pd.DataFrame({"annotation_id": many["annotation_id"], "source": "s"}).assign(
        image=many["annotation_id"]), n=20)  # fmt: skip
    assert table["ci_low"].notna().all() and caplog.text == ""


def test_what_does_not_go_with_the_annotations_is_said():
    known = annotations().assign(label=["Porites", "Porites", "Pavona", None])
    given = predictions().assign(
        y_true=["Porites", "Poritidae", "Porites", "x"], y_pred=["Poritidae", "x", "Pavona", "Agariciidae"]
    )
    (said,) = metrics.doubts(given, known)  # a family is the family's own label, and no label contradicts nothing
    assert said == ("y_true is not the label of the annotation for 1 of 4 points, such as c (Porites, labelled Pavona)")
    given = pd.concat([given.drop(index=2)] * 2)
    assert metrics.doubts(given, known) == []
    given["y_pred"] = list("fedcba")
    assert metrics.doubts(given, known) == ["answers that are no class of the truth: a, b, c, d, e and 1 more"]


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
            lambda: metrics.evaluate(predictions(), annotations(), "S7"),
            "there is no test set 'S7'; choose from S1, S2, S3, S4, W, U.",
        ),
        (
            lambda: metrics.evaluate(predictions(), annotations().head(3)),
            "1 predictions are for unknown annotations, such as",
        ),
        (lambda: metrics.evaluate(predictions().head(0), annotations()), "there is nothing to score"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ReefcoreError) as error:
        call()
    assert str(error.value).startswith(sentence) and str(error.value).count("\n") == 0
