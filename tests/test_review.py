"""The review sample, intervals and stability: reproducible, and right where the answer is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from reefcore import review
from reefcore.errors import ReefcoreError


def reviewed(plan):
    """Make annotations and reviews from (source, label, correct, other) counts."""
    rows = [(s, label, v) for s, label, right, wrong in plan for v in ["correct"] * right + ["incorrect"] * wrong]
    frame = pd.DataFrame(rows, columns=["source", "label", "verdict"])
    frame["annotation_id"] = [f"{i:04d}" for i in range(len(frame))]
    return frame.drop(columns="verdict"), frame[["annotation_id", "verdict"]]


def test_the_review_sample_has_up_to_ten_of_each_pair_in_any_order():
    frame, _ = reviewed([("a", "Porites", 40, 0), ("a", "Pavona", 3, 0), ("b", "Porites", 12, 0)])
    drawn = review.review_sample(frame, seed=3)
    assert drawn.groupby(["source", "label"]).size().tolist() == [3, 10, 10]
    shuffled = frame.sample(frac=1, random_state=1)
    assert review.review_sample(shuffled, seed=3)["annotation_id"].tolist() == drawn["annotation_id"].tolist()
    other = review.review_sample(frame, seed=4)["annotation_id"]
    assert set(other) != set(drawn["annotation_id"])
    twice = pd.concat([frame, frame])
    assert len(review.review_sample(twice, seed=3)) == len(drawn)


def test_nothing_to_review_is_said():
    frame, _ = reviewed([("a", "Porites", 4, 0)])
    with pytest.raises(ReefcoreError, match="no annotation has a label"):
        review.review_sample(frame.assign(label=pd.NA))
    with pytest.raises(ReefcoreError, match="per_pair=0"):
        review.review_sample(frame, per_pair=0)


@pytest.mark.parametrize(("correct", "n"), [(0, 10), (7, 10), (10, 10), (1, 1), (300, 411)])
def test_wilson_is_that_of_scipy(correct, n):
    low, high = review.wilson([correct], [n])
    expected = binomtest(correct, n).proportion_ci(0.95, "wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_is_everything():
    assert np.concatenate(review.wilson([0], [0])).tolist() == [0, 1]


PLAN = [
    ("a", "Porites", 10, 0),
    ("a", "Pavona", 7, 3),
    ("b", "Porites", 1, 9),
    ("b", "Pavona", 5, 5),
    ("c", "Porites", 9, 1),
]


def test_stability_knows_what_the_filters_keep_and_what_is_sure():
    frame, reviews = reviewed(PLAN)
    pairs, draws = review.stability(frame, reviews, n=400, seed=1)
    quality, _ = review.filter_by_review(frame, reviews)
    kept = set(map(tuple, quality.loc[quality["step2"], ["source", "label"]].drop_duplicates().to_numpy()))
    assert set(map(tuple, pairs.loc[pairs["kept"], ["source", "label"]].to_numpy())) == kept
    again = pairs.set_index(["source", "label"])["kept_again"]
    assert again["a", "Porites"] == 1 and again["b", "Porites"] == 0 and 0.1 < again["a", "Pavona"] < 0.9
    assert len(draws) == 400 and draws["annotations"].between(0, len(frame)).all() and draws["annotations"].std() > 0
    assert review.stability(frame, reviews, n=400, seed=1)[1].equals(draws)


def test_zero_reviews_keep_step_1_and_nothing_after_it():
    frame, reviews = reviewed(PLAN)
    pairs, draws = review.stability(frame, reviews.head(0), n=5)
    assert not pairs["kept"].any() and (draws == 0).all(axis=None)
    quality, dropped = review.filter_by_review(frame, reviews.head(0))
    assert quality["step1"].all() and not quality["step2"].any() and (dropped["reason"] == "never reviewed").all()
    assert not len(review.agreement(reviews.head(0), frame, ["source"]))


def test_the_chance_to_pass_is_the_binomial_one():
    table = review.chance_of_passing(10, 0.7).set_index("right")["passes"]
    assert table.iloc[0] == 0 and table.iloc[-1] == 1 and table.is_monotonic_increasing
    rng = np.random.default_rng(0)
    simulated = (rng.binomial(10, 0.6, 100_000) >= 7).mean()
    assert table.iloc[60] == pytest.approx(simulated, abs=0.005)
    with pytest.raises(ReefcoreError, match="0 verdicts decide nothing"):
        review.chance_of_passing(0)
