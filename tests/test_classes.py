"""What a run gets right and wrong: hand-made predictions whose numbers can be counted."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import classification_report

from reefcore import classes, patches, taxonomy
from reefcore.errors import ReefcoreError

# Favites and Goniastrea are Merulinidae, Porites Poritidae
ANSWERS = [("Favites", "Favites")] * 4 + [("Favites", "Goniastrea")] * 3 + [("Favites", "Porites")]
ANSWERS += [("Goniastrea", "Favites")] * 2 + [("Porites", "Porites")] * 5 + [("Porites", "Pavona")]


def rows_of(answers=ANSWERS, run="vit-S4-S4"):
    table = pd.DataFrame(answers, columns=["y_true", "y_pred"], dtype="str")
    return table.assign(run_id=run, annotation_id=[f"{run}{i}" for i in range(len(table))])


def annotations_of(*tables):
    ids = pd.concat([table["annotation_id"] for table in tables])
    return pd.DataFrame({"annotation_id": ids, "source": "A", "image": [f"{i % 5}.jpg" for i in range(len(ids))]})


def test_a_run_that_is_not_there_is_replaced_and_said():
    table = pd.concat([rows_of(run=run) for run in ("a-S1-S1", "b-S3-W", "c-S3-W")]).assign(**{"score:x": np.nan})
    rows, said = classes.pick(table, "b-S3-W")
    assert set(rows["run_id"]) == {"b-S3-W"} and said == "Run b-S3-W." and "score:x" not in rows
    assert classes.pick(table, "z-S3-W")[1].startswith("z-S3-W was not run in this profile; b-S3-W")
    assert classes.pick(table, "z")[0]["run_id"].iloc[0] == "a-S1-S1"
    with pytest.raises(ReefcoreError, match="there are no predictions"):
        classes.pick(table.head(0), "a-S1-S1")


def test_training_points_are_counted_by_class_and_by_family():
    splits = pd.DataFrame({"annotation_id": list("abcde"), "scheme": "S4", "part": ["train"] * 4 + ["test"]})
    labels = ["Favites", "Favites", "Goniastrea", "Fungiidae", "Porites"]
    annotations = pd.DataFrame({"annotation_id": list("abcde"), "label": labels})
    counts = classes.train_counts(splits, annotations, "my-vit.seed1-S4-W")
    assert counts.to_dict() == {"Favites": 2, "Goniastrea": 1, "Fungiidae": 1, "Merulinidae": 3}
    for run in ("vit", "vit-S1-S1"):
        with pytest.raises(ReefcoreError, match=f"the training set of run {run} is not known"):
            classes.train_counts(splits, annotations, run)


def test_each_class_has_its_recall_and_its_most_frequent_wrong_label():
    rows = rows_of()
    table = classes.per_class(rows, pd.Series({"Porites": 50, "Favites": 7, "Pavona": 7})).set_index("label")
    report = classification_report(rows["y_true"], rows["y_pred"], output_dict=True, zero_division=0)
    for label in ("Favites", "Goniastrea", "Porites"):
        for name, key in {"recall": "recall", "precision": "precision", "f1": "f1-score", "n": "support"}.items():
            assert table.at[label, name] == pytest.approx(report[label][key])
    assert table.index.tolist() == ["Porites", "Favites", "Pavona", "Goniastrea"]
    assert table.loc["Favites", ["train", "n", "errors", "recall", "taken_for"]].tolist() == [
        7,
        8,
        4,
        0.5,
        "Goniastrea",
    ]
    assert table.at["Favites", "top_share"] == 0.75 and table.at["Goniastrea", "recall"] == 0
    assert 0 < table.at["Favites", "ci_low"] < 0.5 < table.at["Favites", "ci_high"] < 1
    assert table.loc["Pavona", ["recall", "ci_low", "top_share", "taken_for"]].isna().all()  # only ever an answer


def test_rows_of_absent_classes_are_missing_not_zero():
    shares = classes.matrix(rows_of())
    assert shares.loc["Pavona"].isna().all() and shares.drop("Pavona").sum(axis=1).tolist() == pytest.approx([1] * 3)
    assert shares.at["Favites", "Goniastrea"] == 3 / 8
    order = classes.by_family(shares.index)
    assert order.to_dict() == {
        "Favites": "Merulinidae",
        "Goniastrea": "Merulinidae",
        "Pavona": "Agariciidae",
        "Porites": "Poritidae",
    }
    assert order.index[:2].tolist() == ["Favites", "Goniastrea"]


def test_the_most_frequent_confusions_come_first():
    table = classes.confused(rows_of(), 2)
    assert table.to_numpy().tolist() == [["Favites", "Goniastrea", 3, 8, 3 / 8], ["Goniastrea", "Favites", 2, 2, 1.0]]


def test_families_of_families_and_of_strangers_are_themselves():
    assert taxonomy.family_of(["Fungiidae", "Turf algae", "Porites"]).tolist() == [
        "Fungiidae",
        "Turf algae",
        "Poritidae",
    ]


def test_errors_within_the_family_are_compared_with_those_by_frequency():
    table = classes.within_family(rows_of()).set_index("family")
    assert table.index.tolist() == ["all", "Merulinidae"]
    assert table.loc["all", ["errors", "within"]].tolist() == [7, 5] and table.at["all", "share"] == 5 / 7
    # answers: Favites 6, Goniastrea 3, Pavona 1, Porites 6; 4 errors of Favites, 2 of Goniastrea, 1 of Porites
    expected = 4 * 3 / 10 + 2 * 6 / 13
    assert table.at["all", "expected"] == pytest.approx(expected / 7)
    assert table.at["Merulinidae", "expected"] == pytest.approx(expected / 6)
    right = classes.within_family(rows_of([("Favites", "Favites"), ("Goniastrea", "Goniastrea")]))
    assert right[["share", "ci_low", "ci_high", "expected"]].isna().all(axis=None)


def test_named_pairs_count_both_directions():
    answers = [("Goniastrea", "Platygyra")] * 3 + [("Platygyra", "Goniastrea")] + [("Favites", "Goniastrea")] * 5
    table = classes.named_pairs(rows_of(answers)).set_index("pair")
    found = table.loc["Goniastrea – Platygyra"]
    assert found[["points", "errors", "confused", "share", "rank"]].tolist() == [4, 4, 4, 1.0, 2]
    assert found["expected"] == pytest.approx((3 * 1 + 1 * 1) / 4)  # each has no other label it could go to
    absent = table.loc["Colpophyllia – Platygyra"]
    assert absent["confused"] == 0 and pd.isna(absent["rank"]) and absent["share"] == 0
    assert table.loc["Siderastrea – Pavona", ["share", "expected", "rank"]].isna().all()
    assert set(table["section"]) == {"A.4.3", "A.5"}


def test_scores_of_families_follow_from_the_genera():
    rows = rows_of()
    table = classes.levels(rows, annotations_of(rows), n=50).set_index(["level", "metric"])
    assert table.at[("genus", "macro_recall"), "value"] == pytest.approx((4 / 8 + 0 + 5 / 6) / 3)
    assert table.at[("family", "macro_recall"), "value"] == pytest.approx((9 / 10 + 5 / 6) / 2)
    assert table.at[("family", "micro_recall"), "classes"] == 2 and (table["ci_low"] <= table["ci_high"]).all()


def test_two_heads_stand_beside_what_the_authors_give():
    family = classes.to_families(rows_of(run="vit_family-S4-S4"))
    predictions = pd.concat([rows_of(), family])
    table = classes.two_heads(predictions, annotations_of(predictions), n=50).set_index(["model", "level"])
    assert table["published"].tolist() == [42.30, 52.82, 44.70, 54.33, 53.74]
    assert table.at[("one head", "genus"), "reproduced"] == pytest.approx(100 * (4 / 8 + 5 / 6) / 3)
    assert table.at[("one head", "family"), "reproduced"] == table.at[("family head", "family"), "reproduced"]
    assert table.loc["two heads", ["reproduced", "low", "high", "difference"]].isna().all(axis=None)
    assert table.at[("family head", "family"), "difference"] == pytest.approx(
        table.at[("family head", "family"), "reproduced"] - 53.74
    )


def example_points():
    rows = rows_of().assign(confidence=np.linspace(0.1, 0.9, len(ANSWERS)))
    points = pd.DataFrame(
        {
            "annotation_id": rows["annotation_id"],
            "source": "A",
            "image": [f"{i}.jpg" for i in range(len(rows))],
            "row": 50,
            "column": 50,
            "label": rows["y_true"],
            "broad_category": "Hard coral",
        }
    )
    return rows, points


def test_examples_are_drawn_by_seed_and_extremes_are_extreme():
    rows, points = example_points()
    ids = rows["annotation_id"].iloc[:-1]  # the last point, Porites taken for Pavona, has no patch
    table = classes.examples(rows, points, ids, 10, each=3)
    pd.testing.assert_frame_equal(table, classes.examples(rows, points, ids, 10, each=3))
    kinds = dict(list(table.groupby("kind")))
    assert set(kinds) == {"common", "sure", "unsure"}
    common = kinds["common"]
    assert common["y_true"].tolist() == ["Favites", "Favites", "Porites", "Goniastrea"]
    assert common["right"].tolist() == [True, False, True, False]
    assert kinds["sure"]["confidence"].is_monotonic_decreasing and not kinds["sure"]["right"].any()
    assert kinds["unsure"]["confidence"].iloc[0] == pytest.approx(0.1) and kinds["unsure"]["right"].all()
    assert (ids.to_numpy()[table["patch"]] == table["annotation_id"]).all()
    assert len(classes.examples(rows, points, [], 10)) == 0


@pytest.mark.parametrize("size", [10, 11])
def test_other_corals_are_those_that_the_patch_shows(size):
    rows, points = example_points()
    image = np.zeros((100, 100, 3), np.uint8)
    for offset in (-6, -5, 0, 4, 5, 6):
        image[:] = 0
        image[50 + offset, 50] = 255
        other = points.iloc[:1].assign(annotation_id="x", row=50 + offset, label="Isopora")
        alga = other.assign(annotation_id="y", row=50, label="Turf algae", broad_category="Algae")
        coral = other.assign(annotation_id="z", row=50, label="Scleractinia")  # may be of the same genus
        table = classes.examples(rows, pd.concat([points, other, alga, coral]), rows["annotation_id"], size)
        seen = table.loc[table["annotation_id"] == rows["annotation_id"].iloc[0], "others"]
        assert ("Isopora" in set(seen)) == bool(patches.crop(image, 50, 50, size).any()), offset
        assert set(seen) <= {"", "Isopora"}


def test_examples_are_told_in_words():
    table = pd.DataFrame({"y_true": ["a", "b"], "y_pred": ["a", "c"], "confidence": [0.5, 0.25], "others": ["", "d"]})
    assert classes.in_words(table) == "2 patches, 1 answered right; truth → answer: a → a (50%); b → c (25%; also d)."
