"""The funnel of sources, duplicates and label criteria: the paper's counts from the real candidates, rules by hand."""

import pandas as pd
import pytest

from reefcore import comparison, curation, published, tables
from reefcore.errors import ReefcoreError


def test_the_real_candidates_give_the_counts_of_the_paper():
    steps, dropped = curation.source_funnel(curation.candidates())
    left = steps.set_index("rule")["sources"]
    assert left["listed"] == 125
    assert all(
        left[rule] == published.value(f"funnel/{rule}") for rule in ("confirmed", "reviewed", "unique", "uncalibrated")
    )
    assert len(dropped) == 40 and dropped["reason"].ne("").all() and dropped["source"].is_unique
    assert set(dropped.loc[dropped["rule"] == "uncalibrated", "source"].str.contains("Calibration")) == {True}
    passed_over = dropped[dropped["reason"].str.startswith('marked "yes"')]["source"]
    assert len(passed_over) == 5 and "Vavau" in set(passed_over)
    assert "kelp forest" in dropped.set_index("source").at["CPP_ROV", "comment"]


def test_105_are_meant_and_100_are_taken():
    decision = curation.candidates()["decision"]
    assert (decision.str.strip() == "yes").sum() == 105 and (decision == "yes").sum() == 100
    meant = curation.candidates().assign(decision=decision.str.strip())
    steps, _ = curation.source_funnel(meant)
    assert steps.set_index("rule").at["reviewed", "sources"] == 105


def candidates(**changes):
    row = {"source": "Reef", "classifier": True, "confirmed_images": 500, "decision": "yes", "withdrawn": None}
    return pd.DataFrame([row | {"calibration": False, "annotations": 1} | changes]).astype({"withdrawn": "str"})


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"source": "my_Test"}, "named"),
        ({"source": "Trial 3"}, "named"),
        ({"source": "testing"}, "named"),
        ({"source": "Greatest Reef, contest"}, None),
        ({"source": "Trials"}, "named"),
        ({"source": "CoralNet Assistance Test"}, None),
        ({"source": "CoralNet_Assistance_Test_0921"}, None),
        ({"classifier": False}, "classified"),
        ({"classifier": None}, "classified"),
        ({"confirmed_images": 0}, "classified"),
        ({"confirmed_images": 499}, "confirmed"),
        ({"decision": "FEW"}, "reviewed"),
        ({"decision": "yes "}, "reviewed"),
        ({"withdrawn": "private"}, "unique"),
        ({"calibration": True}, "uncalibrated"),
        ({"annotations": 0}, "labelled"),
        ({}, None),
    ],
)
def test_each_rule_takes_what_it_should(changes, rule):
    steps, dropped = curation.source_funnel(candidates(**changes))
    assert dropped["rule"].tolist() == ([rule] if rule else [])
    assert steps["sources"].iloc[-1] == (0 if rule else 1)


def test_a_rule_without_its_columns_is_not_applied_and_says_so():
    steps, dropped = curation.source_funnel(pd.DataFrame({"source": ["a", "b trial"]}))
    assert dropped["source"].tolist() == ["b trial"]
    rest = steps[steps["rule"].ne("listed") & steps["rule"].ne("named")]
    assert rest["sources"].isna().all() and rest["reason"].str.startswith("not judged: the table has no").all()
    beside = comparison.source_funnel(steps).set_index("rule")
    assert beside.at["named", "difference"] == 1 - 1310 and pd.isna(beside.at["confirmed", "difference"])


def test_candidates_must_be_named_once():
    with pytest.raises(ReefcoreError, match="'a' stands twice"):
        curation.source_funnel(pd.DataFrame({"source": ["a", "a"]}))
    with pytest.raises(ReefcoreError, match="no column source"):
        curation.source_funnel(pd.DataFrame({"name": ["a"]}))


def test_the_sample_s_listing_gives_the_counts_of_the_paper(smoke):
    steps, dropped = curation.source_funnel(smoke.table("candidates"))
    left = steps.set_index("rule")["sources"]
    kept = set(smoke.table("quality").query("not site")["source"])
    assert left["labelled"] == len(kept) and set(dropped["source"]).isdisjoint(kept)
    assert left["listed"] / left["labelled"] == pytest.approx(1366 / 76, rel=0.1) and steps["sources"].notna().all()


def points(rows):
    frame = tables.complete(pd.DataFrame(rows, columns=["source", "image", "row", "column", "label_raw"]))
    return frame.assign(label=frame["label_raw"], rank="genus", aphia_id=1, broad_category="Hard coral")


def test_a_source_of_repeats_is_withdrawn():
    rows = [("a", "1.jpg", i, 0, "Porites") for i in range(4)]
    rows += [("b", "1.jpg", i, 0, "Porites") for i in range(2)]  # nothing of its own
    rows += [("c", "1.jpg", 0, 0, "Porites"), ("c", "9.jpg", 0, 0, "Porites"), ("c", "9.jpg", 0, 0, "Porites")]
    table = curation.duplicate_sources(points(rows)).set_index("source")
    assert table["duplicates"].to_dict() == {"b": 2, "c": 2} and table["most_from"].to_dict() == {"b": "a", "c": "a"}
    assert table["withdrawn"].fillna("-").to_dict() == {"b": "duplicate", "c": "-"}
    assert table.at["c", "share"] == pytest.approx(2 / 3)
    assert not len(curation.duplicate_sources(points(rows[:4])))


def test_each_criterion_is_counted():
    rows = [(f"s{i % 3}", f"{i}.jpg", i, 0, "Porites") for i in range(30)]
    rows += [("s0", f"p{i}.jpg", i, 0, "Pavona") for i in range(30)]
    rows += [("s0", f"h{i}.jpg", i, 0, "Scleractinia") for i in range(40)]
    frame = points(rows)
    frame["rank"] = frame["rank"].where(frame["label"] != "Scleractinia", "order")
    judged = curation.label_criteria(frame, min_annotations=30, min_sources=3, min_per_source=10)
    removed = curation.removed_by_criterion(judged).set_index("criterion")
    assert removed["annotations"].to_dict() == {"not a genus": 40, "fewer than 3 sources with 10 annotations each": 30}
    assert removed["only"].to_dict() == {"not a genus": 0, "fewer than 3 sources with 10 annotations each": 1}
    with pytest.raises(ReefcoreError, match="negative"):
        curation.label_criteria(frame, min_annotations=-1)


def test_a_table_without_hard_corals_has_no_labels_to_judge():
    frame = points([("s", "1.jpg", 0, 0, "Sand")]).assign(broad_category="Abiotic background")
    curated, steps = curation.curate(frame)
    assert not len(curated) and steps["annotations"].tolist() == [1, 1, 0, 0]
    assert not len(curation.removed_by_criterion(curation.label_criteria(curation.hard_corals(frame))))
