"""Published numbers are the printed ones; comparisons never put one for the other."""

import pandas as pd
import pytest

from reefcore import comparison, published
from reefcore.errors import ReefcoreError

COLUMNS = ["place", "value", "unit", "step", "qualifier", "table", "row", "column", "section", "printed"]


def test_tables_are_as_printed():
    table = published.table(3).set_index("place")
    cell = table.loc["3/DeiT/train_s2_test_s2"]
    assert [cell["value"], cell["step"], cell["printed"], cell["unit"]] == [77.4, 0.01, "77.40", "percent"]
    assert list(published.values().columns) == COLUMNS == list(published.table(13).columns)
    assert [len(published.table(number)) > 0 for number in range(1, 14)] == [True] * 13
    with pytest.raises(ReefcoreError, match="there is no published table 14"):
        published.table(14)


def test_results_are_in_fractions_in_the_order_of_the_table():
    table = published.results(9).set_index(["model", "train", "test"])
    assert table.at[("ViT", "S3", "W"), "published"] == pytest.approx(0.6865) and set(table["metric"]) == {"macro_f1"}
    assert table.index.unique("model")[:2].tolist() == ["EfficientNet", "ResNet"]
    seven = published.results(7)
    assert set(seven["train"] + seven["test"]) == {"S4S4"} and set(seven["metric"]) == {"macro_recall", "accuracy"}
    assert [len(published.results(number)) for number in (3, 4, 7, 8, 9, 10, 11)] == [60, 16, 28, 60, 60, 60, 6]
    with pytest.raises(ReefcoreError, match="table 5 is not one of trained models"):
        published.results(5)


def test_one_function_gives_any_value():
    assert published.value("review/step2/agreement") == 92 and published.value("2/Test-S2/annotations") == 23043
    assert (
        published.value("12/within-source/BioCLIP") == 10.33
        and published.value("1/Eilat/annotation_type") == "Sparse points"
    )
    assert published.value("substrate/patch_accuracy") == 89.1 and published.value("two_heads/one head/genus") == 42.3
    assert published.value("few_shot_later/Qwen3-VL-8B/ReefNet/few-shot/1") == 5.56
    assert published.texts("review/step1")["sources"] == 70
    with pytest.raises(ReefcoreError, match=r"no published number is called review; see reefcore.published.values"):
        published.value("review")
    with pytest.raises(ReefcoreError, match="3/Vit/train_s1_test_s1; choose from 3/ViT/train_s1_test_s1"):
        published.value("3/Vit/train_s1_test_s1")


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


def test_the_substrate_paper_has_four_known_figures():
    found = published.substrate()
    values = {
        "deployment_accuracy": pytest.approx(0.778),
        "patch_accuracy": pytest.approx(0.891),
        "frames_per_second": 5.5,
        "sites": 5,
    }
    assert found["value"].to_dict() == values
    assert found["printed"].tolist() == ["77.8 %", "89.1 %", "5.5", "5"]
