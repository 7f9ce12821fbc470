"""Published numbers are the printed ones; comparisons never put one for the other."""

import pandas as pd
import pytest

from reefcore import comparison, published
from reefcore.errors import ReefcoreError


def test_tables_are_as_printed():
    table = published.table(3)
    cell = table[(table["row"] == "EfficientNet") & (table["column"] == "train_s1_test_s1")]["value"]
    assert cell.tolist() == [78.36] and list(table.columns) == ["table", "row_number", "row", "column", "value"]
    assert [len(published.table(number)) > 0 for number in range(1, 14)] == [True] * 13
    with pytest.raises(ReefcoreError, match="there is no published table 14"):
        published.table(14)


def test_supervised_is_in_fractions():
    table = published.supervised("macro_f1").set_index(["model", "train", "test"])
    assert table.at[("ViT", "S3", "W"), "published"] == pytest.approx(0.6865)
    with pytest.raises(ReefcoreError, match="prints no table of accuracy"):
        published.supervised("accuracy")


def test_text_figures():
    assert published.text("review/step2/agreement") == 92
    assert published.texts("review/step1")["sources"] == 70
    with pytest.raises(ReefcoreError, match="no figure of the text is called review"):
        published.text("review")


def metrics():
    rows = [("resnet_tiny-S1-S1", "S1", 0.5), ("resnet_tiny-S3-S3", "S3", 0.3), ("resnet_tiny-S4-W", "W", 0.2)]
    table = pd.DataFrame(rows, columns=["run_id", "scheme", "value"])
    return table.assign(
        metric="macro_recall", ci_low=table["value"] - 0.1, ci_high=table["value"] + 0.1, n=9, classes=3
    )


def test_beside_joins_the_right_printed_cell():
    table = comparison.beside(metrics(), {"resnet_tiny": "ResNet"})
    assert table["published"].tolist() == pytest.approx([0.6391, 0.3796, 0.5122])
    assert table["difference"].tolist() == pytest.approx([-0.1391, -0.0796, -0.3122])
    assert table["setting"].tolist() == ["Train-S1 / Test-S1", "Train-S3 / Test-S3&S4", "Train-S4 / Test-W"]
    percent = comparison.in_percent(table)
    assert percent["reproduced"].tolist() == pytest.approx([50, 30, 20]) and percent["low"].iloc[0] == pytest.approx(40)
    assert "ResNet Train-S1 / Test-S1 50% (published 64%)" in comparison.sentence(table, "macro_recall")


def test_a_row_the_paper_lacks_has_no_published_number():
    table = comparison.beside(metrics(), {"resnet_tiny": "A model of mine"})
    assert len(table) == 3 and table["published"].isna().all() and table["value"].notna().all()


def test_split_table_is_joined_by_part():
    rows = [("S1", "train"), ("S3", "val"), ("S3", "test"), ("W", "test")]
    summary = pd.DataFrame(rows, columns=["scheme", "part"]).assign(
        annotations=[1, 2, 3, 4], classes=5, sources=6, agreement=[0.8, 0.9, 0.95, 1.0], classes_in_train=5
    )
    table = comparison.splits(summary).set_index("split")
    assert table["annotations, published"].to_dict() == {
        "Train-S1": 802956,
        "Val-S3&S4": 37473,
        "Test-S3&S4": 34040,
        "Test-W": 4606,
    }
    assert table["annotations, here"].to_dict() == {"Train-S1": 1, "Val-S3&S4": 2, "Test-S3&S4": 3, "Test-W": 4}
    assert table.at["Test-S3&S4", "difference"] == pytest.approx(-1)


def test_review_filters_beside_the_paper():
    summary = pd.DataFrame(
        {
            "stage": ["all", "step1", "step2"],
            "annotations": 10,
            "labels": 4,
            "sources": 3,
            "reviewed": 9,
            "agreement": [0.7, 0.8, 0.9],
        }
    )
    table = comparison.review_filters(summary)
    first = table.iloc[0]
    assert (first["quantity"], first["published"], first["reproduced"]) == (
        "expert agreement (%)",
        73,
        pytest.approx(70),
    )
    assert table[table["published"].isna()][["stage", "quantity"]].to_numpy().tolist() == [
        ["after step 1", "reviewed"],
        ["after step 2", "reviewed"],
    ]


def predictions():
    photos = pd.DataFrame(
        {"annotation_id": [f"{i:03d}" for i in range(80)], "source": "s", "image": [str(i // 4) for i in range(80)]}
    )
    rows = []
    for scheme, wrong in (("S1", 5), ("S3", 2)):
        for i in range(80):
            true = "PQR"[i % 3]
            rows.append((f"resnet_tiny-{scheme}-{scheme}", f"{i:03d}", true, "P" if i % wrong == 0 else true))
    return pd.DataFrame(rows, columns=["run_id", "annotation_id", "y_true", "y_pred"]), photos


def test_within_minus_across():
    table = comparison.within_minus_across(*predictions(), ["resnet_tiny"], n=200)
    row = table.iloc[0]
    assert len(table) == 1 and row["pair"] == "S1 - S3" and row["drop"] == pytest.approx(row["within"] - row["across"])
    assert 0 < row["low"] < row["drop"] < row["high"] and row["published drop"] == pytest.approx(63.91 - 37.96)


def test_recall_and_support_and_confusions():
    answers, photos = predictions()
    labels = photos.assign(label=["PQR"[i % 3] for i in range(80)])
    parts = pd.concat(
        [pd.DataFrame({"annotation_id": photos["annotation_id"], "scheme": s, "part": "train"}) for s in ("S1", "S3")]
    )
    table = comparison.recall_and_support(answers, parts, labels, "resnet_tiny")
    assert table["train"].tolist() == [27, 27, 26] * 2 and table[table["label"] == "P"]["recall"].tolist() == [1, 1]
    thirds = comparison.rare_and_common(table).set_index("setting")
    assert thirds["rare"].iloc[0] == pytest.approx(table["recall"].iloc[2])
    confused = comparison.confused(answers[answers["run_id"] == "resnet_tiny-S3-S3"])
    assert confused["taken for"].tolist() == ["P", "P"] and confused["points"].sum() == sum(
        i % 2 == 0 and i % 3 != 0 for i in range(80)
    )
