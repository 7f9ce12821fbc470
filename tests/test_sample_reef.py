"""The made-up reef: the raw files hold every oddity that the tutorial tells of, and the truth that it compares with."""

import re

import pandas as pd
import pytest
from PIL import Image

from reefcore import annotations, covariates, images
from reefcore.errors import ReefcoreError
from reefcore.figures.truth import against_truth
from reefcore.sample import reef


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reef")
    reef.generate(folder)
    return folder


@pytest.fixture(scope="module")
def truth(raw):
    return pd.read_csv(raw / "truth.csv", keep_default_na=False)


def test_the_export_is_read_and_every_row_is_accounted_for(raw):
    table = annotations.read(raw / "annotations.csv")
    assert table.attrs["format"] == "coralnet"
    assert table["image"].nunique() == 90
    told = " ".join(table.attrs["problems"]["problem"])
    assert "without a label" in told and "X.PAV" in told and "silt" in told
    assert table.attrs["read"] == table.attrs["rows"] - 2 == len(table)
    assert table.duplicated(["image", "row", "column", "label_raw"]).sum() == 1
    assert (table["row"] >= reef.HEIGHT).sum() == 1
    assert {"Turf", "TURF", "Lobo", "DCA", "Pocilopora"} <= set(table["label_raw"])
    assert not table["photographer"].str.contains("Diver").any()


def test_photos_are_as_untidy_as_told(raw):
    names = {path.name: path for path in (raw / "photos").rglob("*.*")}
    planned = set(pd.read_csv(raw / "metadata.csv")["Name"])
    assert len(planned) == 95 and len(planned - set(names)) > 20
    assert "HMR_SW_T2_2023_02.jpg" not in {re.sub(r"\W", "_", name) for name in names}
    assert names["HMR_LP_T3_2024_01 (1).jpg"].exists() and names["hmr_sw_t1_2024_01.jpg"].exists()
    assert names["IMG_0031.jpg"].read_bytes() == names["HMR_CG_T1_2023_02.jpg"].read_bytes()
    assert images.decode(names["HMR_LP_T2_2023_03.jpg"])[1]  # ends early
    with pytest.raises(ReefcoreError):
        images.decode(names["HMR_CG_T4_2024_05.jpg"])
    assert sum(path.stat().st_size for path in names.values()) < 15e6
    assert Image.open(names["HMR_CG_T1_2023_01.jpg"]).size == (reef.WIDTH, reef.HEIGHT)
    assert sum(covariates.mean_rgb(names["HMR_CG_T3_2024_02.jpg"])) < 60  # the dark one


def test_metadata_has_days_first_and_one_blank_latitude(raw):
    table = pd.read_csv(raw / "metadata.csv", dtype=str, keep_default_na=False)
    assert set(table["Date"]) == {"14/03/2023", "19/03/2024"}
    assert (table["Latitude"] == " ").sum() == 1
    assert table["Latitude"].ne(" ").sum() == len(table) - 1


def test_coral_was_lost_where_it_bleached_and_nowhere_else(truth):
    coral = truth[(truth["functional_group"] == "Hard coral") & (truth["transect"] != "T4")]
    cover = (coral.groupby(["site", "survey"])["percent"].sum() / (reef.TRANSECTS * reef.PHOTOS)).unstack()
    loss = cover[2023] - cover[2024]
    assert loss[reef.BLEACHED] > 12
    assert (loss.drop(reef.BLEACHED).abs() < 5).all()
    assert truth.groupby("image")["percent"].sum().between(99.9, 100.1).all()
    assert set(truth.loc[truth["condition"] != "", "site"]) == {reef.BLEACHED}


def test_points_agree_with_the_truth(raw, truth):
    table = annotations.read(raw / "annotations.csv")
    people = table[table["annotator"] != "robot"]
    algae = people["label_raw"].str.upper().eq("TURF").mean() * 100
    area = truth.loc[truth["image"].isin(people["image"]) & truth["taxon"].eq("Turf algae"), "percent"].sum()
    assert abs(algae - area / people["image"].nunique()) < 3


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(raw, tmp_path):
    reef.generate(tmp_path / "again")
    files = sorted(path.relative_to(raw) for path in raw.rglob("*.*"))
    assert all((raw / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files)
    reef.generate(tmp_path / "other", seed=1)
    assert (raw / "truth.csv").read_bytes() != (tmp_path / "other" / "truth.csv").read_bytes()


def test_estimates_are_drawn_against_the_truth():
    rows = [("Hard coral", 30.0, 25.0, 36.0, 31.0), ("Rubble", 10.0, 6.0, 15.0, 17.0)]
    table = pd.DataFrame(rows, columns=["group", "percent", "ci_low", "ci_high", "truth"])
    figure = against_truth(table, "group")
    (axes,), (legend,) = figure.axes, figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Hard coral", "Rubble"]
    assert axes.get_xlim() == axes.get_ylim() and axes.get_xlim()[1] > 36


def test_a_negative_seed_is_refused(tmp_path):
    with pytest.raises(ReefcoreError, match="negative"):
        reef.generate(tmp_path, -1)
