"""Curation and review: every filter by hand, and nothing lost without a reason."""

import pandas as pd
import pytest

from reefcore import curation, review, tables, taxonomy
from reefcore.errors import ReefcoreError


def annotations(rows):
    frame = pd.DataFrame(rows, columns=["source", "image", "row", "column", "label_raw"])
    frame["realm"] = "Central Indo-Pacific"
    return taxonomy.map_labels(tables.complete(frame))[0]


def test_duplicates_across_sources_keep_the_first_source():
    frame = annotations(
        [("b", "x.jpg", 1, 1, "Porites"), ("a", "x.jpg", 1, 1, "Porites"), ("a", "x.jpg", 1, 1, "Pavona")]
    )
    kept, dropped = curation.drop_duplicates(frame)
    assert kept["source"].tolist() == ["a", "a"] and dropped["source"].tolist() == ["b"]
    assert dropped["twin"].tolist() == [frame["annotation_id"][1]]


def test_label_criteria_by_hand():
    rows = [(f"s{i % 3}", f"{i}.jpg", i, 0, "Porites") for i in range(30)]
    rows += [("s0", f"p{i}.jpg", i, 0, "Pavona") for i in range(30)]  # one source only
    rows += [(f"s{i % 3}", f"f{i}.jpg", i, 0, "Favites") for i in range(29)]  # one source has 9
    rows += [(f"s{i % 3}", f"h{i}.jpg", i, 0, "Hard coral") for i in range(60)]
    table = curation.label_criteria(annotations(rows), min_annotations=30, min_sources=3, min_per_source=10).set_index(
        "label"
    )
    assert table["kept"].to_dict() == {"Scleractinia": False, "Pavona": False, "Porites": True, "Favites": False}
    assert table.at["Scleractinia", "reason"] == "not a genus"
    assert table.at["Pavona", "reason"] == "fewer than 3 sources with 10 annotations each"
    assert table.at["Favites", "reason"] == "fewer than 30 annotations" and table.at["Favites", "sources_enough"] == 2


def test_curate_counts_every_step():
    rows = [("s", "1.jpg", i, 0, "Porites") for i in range(5)] + [
        ("s", "1.jpg", 0, 0, "Porites"),
        ("s", "2.jpg", 0, 0, "Sand"),
    ]
    left, steps = curation.curate(annotations(rows), min_annotations=1, min_sources=1, min_per_source=1)
    assert steps["annotations"].tolist() == [7, 6, 5, 5] and len(left) == 5
    assert steps["images"].tolist() == [2, 2, 1, 1]


def reviewed(plan):
    """Make annotations and reviews from (source, label, correct, other) counts."""
    rows = [(s, f"{label}{i}.jpg", i, 0, label) for s, label, c, o in plan for i in range(c + o)]
    frame = annotations(rows)
    verdicts = [
        v for _, _, c, o in plan for v in ["correct"] * c + ["incorrect", "low_quality", "hard_to_decide"][:1] * o
    ]
    return frame, pd.DataFrame({"annotation_id": frame["annotation_id"], "verdict": verdicts})


def test_the_two_filters_by_hand():
    plan = [
        ("good", "Porites", 9, 1),  # stays
        ("good", "Pavona", 6, 4),  # 60 %: step 2
        ("good", "Favites", 0, 5),  # Favites is wrong everywhere: step 1
        ("bad", "Porites", 2, 8),  # the source: step 1
        ("edge", "Pavona", 7, 3),  # exactly 70 %: stays
        ("edge", "Porites", 1, 1),  # 50 %
    ]
    frame, reviews = reviewed(plan)
    quality, dropped = review.filter_by_review(frame, reviews)
    left = quality[quality["step1"]].groupby(["source", "label"]).size()
    assert set(left.index) == {("good", "Porites"), ("good", "Pavona"), ("edge", "Pavona"), ("edge", "Porites")}
    left = quality[quality["step2"]].groupby(["source", "label"]).size()
    assert set(left.index) == {("good", "Porites"), ("edge", "Pavona")}
    reasons = dropped.set_index(["step", "what"])["reason"].to_dict()
    assert (
        reasons[1, "source"] == "agreement 20% of 10 is under 50%"
        and reasons[1, "label"] == "agreement 0% of 5 is under 50%"
    )
    summary = review.filter_summary(quality, reviews).set_index("stage")
    assert summary["annotations"].to_dict() == {"all": 47, "step1": 32, "step2": 20}
    assert summary.at["step2", "agreement"] == pytest.approx(16 / 20)


def test_unreviewed_is_kept_by_step_1_only():
    frame, reviews = reviewed([("a", "Porites", 9, 1), ("a", "Pavona", 3, 0)])
    reviews = reviews[reviews["annotation_id"].isin(frame.loc[frame["label"] == "Porites", "annotation_id"])]
    quality, dropped = review.filter_by_review(frame, reviews)
    pavona = quality[quality["label"] == "Pavona"]
    assert pavona["step1"].all() and not pavona["step2"].any()
    assert "never reviewed" in dropped["reason"].tolist()


def test_quality_leaves_the_held_out_site_unfiltered():
    frame, reviews = reviewed([("a", "Porites", 9, 1), ("W", "Porites", 0, 4), ("W", "Pavona", 1, 0)])
    table = review.quality(frame, reviews, "W", min_annotations=1, min_sources=1, min_per_source=1)
    site = table[table["site"]]
    assert site["step2"].all() and set(site["label"]) == {"Porites"} and len(site) == 4  # nobody trains on Pavona


def test_reviews_of_unknown_annotations_are_refused():
    frame, reviews = reviewed([("a", "Porites", 2, 0)])
    with pytest.raises(ReefcoreError, match="1 reviews are for annotations that are not known"):
        review.agreement(reviews, frame.head(1), [])
    with pytest.raises(ReefcoreError, match="min_pair=70 is not a fraction"):
        review.filter_by_review(frame, reviews, min_pair=70)
