"""Published beside reproduced: counts of a data set, and never one in place of the other."""

import numpy as np
import pandas as pd
import pytest

from reefcore import comparison, curation, published


def test_a_data_set_is_counted_with_its_site_but_for_sources_and_places(smoke):
    tables = [smoke.table(name) for name in ("annotations", "sources", "images", "reviews")]
    site = smoke.profile.site
    table = comparison.data_set(*tables, site).set_index("quantity")
    assert table.at["images", "here"] == len(tables[2])
    assert table.at["hard-coral annotations", "here"] == len(curation.hard_corals(tables[0]))
    assert table.at["sources", "here"] == len(tables[1]) - 1 and table.at["sources", "published"] == 76
    assert table.at["genera and families", "published"] == 44
    assert table.at["hard-coral annotations", "here"] >= table.at["of a genus or family", "here"] > 0
    corals = curation.hard_corals(tables[0][tables[0]["source"] != site])
    named = corals.loc[corals["rank"].isin(["genus", "family"]), "annotation_id"]
    assert 0 < table.at["reviewed", "here"] == tables[3]["annotation_id"].isin(named).sum() < len(tables[3])
    assert np.allclose(table["difference"], table["here"] - table["published"])


def test_a_figure_may_follow_from_published_ones():
    table = comparison.with_paper({"share": (100 * 0.5, 40), "sources": ("dataset/sources", 70)})
    assert table["published"].tolist() == [50, 76] and table["difference"].tolist() == [-10, -6]
    with pytest.raises(Exception, match="no published number is called nothing"):
        comparison.with_paper({"x": ("nothing", 1)})


def test_point_layouts_leave_the_site_out(smoke):
    table = comparison.point_layouts(smoke.table("annotations"), smoke.table("sources"), smoke.profile.site)
    counted = table[table["quantity"].str.startswith("sources with")]
    assert counted["here"].sum() == len(smoke.table("sources")) - 1
    assert table.set_index("quantity").at["points per image, mean", "published"] == 40


ROWS = {"resnet101": "ResNet", "swin_b": "Swin"}


def scores(*runs):
    rows = [(run, run.rsplit("-", 1)[1], value) for run, value in runs]
    table = pd.DataFrame(rows, columns=["run_id", "scheme", "value"])
    return table.assign(
        metric="macro_recall", ci_low=table["value"] - 0.1, ci_high=table["value"] + 0.1, n=9, classes=3
    )


def test_recipes_stand_in_the_order_of_their_table():
    rows = comparison.rows_of(3)
    assert list(rows)[:2] == ["efficientnet_b4", "resnet101"] and rows["vit_mae"] == "ViT (MAE pretrained)"
    assert len(rows) == 10 and len(comparison.rows_of(7)) == 14 and list(comparison.rows_of(11)) == ["bioclip_ft"]


def test_beside_joins_the_right_printed_cell_and_keeps_what_was_not_run():
    runs = scores(("resnet101-S1-S1", 0.5), ("resnet101-S3-S3", 0.3), ("resnet101-S4-W", 0.2), ("swin_b-S2-val", 0.9))
    table = comparison.beside(runs, ROWS)
    run = table.dropna(subset=["value"])
    assert len(table) == 60 and run["published"].tolist() == pytest.approx([0.6391, 0.3796, 0.5122])
    assert run["difference"].tolist() == pytest.approx([-0.1391, -0.0796, -0.3122])
    assert run["setting"].tolist() == ["S1 / S1", "S3 / S3&S4", "S4 / W"]
    assert table["model"].head(2).tolist() == ["EfficientNet", "ResNet"]
    percent = comparison.in_percent(run)
    assert percent["reproduced"].tolist() == pytest.approx([50, 30, 20]) and percent["low"].iloc[0] == pytest.approx(40)
    said = comparison.sentence(table, "macro_recall")
    assert "S1 / S1 ResNet 50% (ResNet 64%)" in said and said.count(" / ") == 3
    assert "ResNet (S2 / S2, S4 / S3&S4, S3 / W)" in comparison.not_run(table)
    assert "EfficientNet, ConvNeXt" in comparison.not_run(table) and "(in no setting)" in comparison.not_run(table)
    sets = comparison.test_sets(table).set_index("setting")
    assert sets.loc["S3 / S3&S4"].tolist() == [33, 3, 34040, 9] and np.isnan(sets.at["S2 / S2", "points, here"])


def test_a_row_the_paper_lacks_has_no_published_number():
    table = comparison.beside(scores(("mine-S1-S1", 0.5)), {"mine": "A model of mine"})
    own = table[table["model"] == "A model of mine"]
    assert len(own) == 1 and own["published"].isna().all() and own["value"].tolist() == [0.5]


def test_every_row_run_is_said():
    names = comparison.rows_of(11)
    everywhere = [f"{name}-{a}-{b}" for name in names for a, b in published.settings()]
    table = comparison.beside(scores(*((run, 0.5) for run in everywhere)), names, 11)
    assert comparison.not_run(table).startswith("Every row and setting")


def test_recipes_and_training_sets_of_paper_and_profile():
    runs = pd.DataFrame(
        [
            ("mae_pretraining", "mae_pretraining", "", 9, 50, 8),
            ("swin_b-S1", "swin_b", "S1", 7, 100, 8),
            ("vit-S1", "vit", "S1", 9, 300, 8),
        ],
        columns=["run", "recipe", "train_set", "parameters", "train_patches", "epochs"],
    )
    table = comparison.recipes_table(ROWS, runs, "sample", {"epochs": 3}).set_index("row")
    assert list(table)[:3] == ["model, paper", "model, here", "parameters, here"]
    assert table.at["Swin", "epochs, here"] == 3 and table.at["Swin", "epochs, paper"] == 100
    assert table.at["Swin", "parameters, here"] == 7 and np.isnan(table.at["ResNet", "parameters, here"])
    sets = comparison.training_sets(runs)
    assert sets.to_numpy().tolist() == [["S1", 802956, 2, 200, 8]]


def test_within_minus_across():
    photos = pd.DataFrame(
        {"annotation_id": [f"{i:03d}" for i in range(80)], "source": "s", "image": [str(i // 4) for i in range(80)]}
    )
    answers = []
    for scheme, wrong in (("S1", 5), ("S3", 2)):
        for i in range(80):
            true = "PQR"[i % 3]
            answers.append((f"resnet101-{scheme}-{scheme}", f"{i:03d}", true, "P" if i % wrong == 0 else true))
    answers = pd.DataFrame(answers, columns=["run_id", "annotation_id", "y_true", "y_pred"])
    table = comparison.within_minus_across(answers, photos, ROWS, n=200)
    row = table.iloc[0]
    assert len(table) == 4 and row["pair"] == "S1 - S3" and row["drop"] == pytest.approx(row["within"] - row["across"])
    assert 0 < row["low"] < row["drop"] < row["high"] and row["published drop"] == pytest.approx(63.91 - 37.96)
    assert table["drop"].isna().tolist() == [False, True, True, True] and table["published drop"].notna().all()
