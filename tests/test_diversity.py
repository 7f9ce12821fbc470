"""Diversity and effort: exact expectations against draws, and predicted widths against simulated surveys."""

import numpy as np
import pandas as pd
import pytest

from reefcore import cover, diversity, effort
from reefcore.errors import ReefcoreError


def reef(images=30, points=10, genera=12, seed=0, unidentified=0.1):
    """Make points of hard corals whose genera differ between images; some without a genus, and sand."""
    rng, rows = np.random.default_rng(seed), []
    names = np.array([f"Genus{i:02d}" for i in range(genera)])
    common = 0.6 ** np.arange(genera)
    for i in range(images):
        here = rng.dirichlet(3 * common / common.sum() + 1e-3)
        for name in rng.choice(names, points, p=here):
            kind = rng.random()
            group = "Sand and sediment" if kind < 0.3 else "Hard coral"
            rows.append(("a", f"{i:03d}", None if kind < 0.3 + unidentified else name, group, "NS"[i % 2]))
    return pd.DataFrame(rows, columns=["source", "image", "genus", "functional_group", "site"])


class TestAccumulation:
    def test_equals_the_mean_over_random_orders_of_the_images(self):
        points = reef()
        table = diversity.accumulation(points).set_index("images")["mean"]
        sets = [set(genera.dropna()) for _, genera in points.groupby("image")["genus"]]
        rng = np.random.default_rng(0)
        for size in (1, 5, 15, 30):
            drawn = [
                len(set().union(*(sets[i] for i in rng.permutation(len(sets))[:size])))
                for _ in range(3000 if size < 30 else 1)
            ]
            assert table[size] == pytest.approx(np.mean(drawn), abs=0.1)

    def test_counts_images_without_any_coral_and_says_what_has_no_genus(self):
        points = reef()
        sand = points.head(1).assign(image="sand", genus=None, functional_group="Sand and sediment")
        table = diversity.accumulation(pd.concat([points, sand]))
        coral = points["functional_group"] == "Hard coral"
        assert table["images"].max() == 31 and table.attrs["unidentified"] == (coral & points["genus"].isna()).sum()

    def test_the_interval_does_not_close_while_genera_are_found_once(self):
        last = diversity.accumulation(reef(images=8)).iloc[-1]
        assert last.ci_low < last["mean"] < last.ci_high

    def test_no_coral_gives_an_empty_table(self):
        assert len(diversity.accumulation(reef().assign(genus=None))) == 0
        assert len(diversity.rarefaction(reef().assign(genus=None))) == 0
        assert diversity.richness(reef().assign(genus=None))["observed"].tolist() == [0, 0]


class TestRarefaction:
    def test_equals_the_mean_over_random_samples_of_the_points(self):
        points = reef()
        table = diversity.rarefaction(points).set_index("points")["expected"]
        genera = points["genus"].dropna().to_numpy()
        size = int(table.index[len(table) // 4])
        rng = np.random.default_rng(0)
        drawn = [len(set(rng.choice(genera, size, replace=False))) for _ in range(4000)]
        assert table[size] == pytest.approx(np.mean(drawn), abs=0.08)
        assert table.iloc[-1] == pytest.approx(len(set(genera))) and table.iloc[0] == pytest.approx(1)

    def test_every_group_has_a_row_at_the_size_of_the_smallest(self):
        points = reef().query("site == 'N' or image < '007'")
        table = diversity.rarefaction(points, group="site")
        smallest = points.dropna(subset="genus").groupby("site").size().min()
        assert table.attrs["common"] == smallest
        assert table[table["points"] == smallest]["group"].tolist() == ["N", "S"]


class TestRichness:
    def test_chao1_and_its_interval_as_worked_by_hand(self):
        # 10 genera: 4 once, 2 twice: 10 + 4 * 3 / (2 * 3) = 12
        estimate, variance = diversity.chao(4, 2, 10)
        assert estimate == 12
        assert variance == pytest.approx(4 * 3 / 6 + 4 * 7**2 / 36 + 16 * 2 * 9 / (36 * 9))
        assert diversity.chao(4, 2, 10, units=5)[0] == pytest.approx(10 + 0.8 * 2)
        assert diversity.chao(3, 0, 5)[0] == 5 + 3

    def test_the_interval_never_goes_below_what_was_seen(self):
        table = diversity.richness(reef(images=6, seed=4), group="site")
        assert (table["ci_low"] >= table["observed"]).all() and (table["ci_high"] >= table["estimate"]).all()
        assert table["estimator"].tolist() == ["Chao2", "Chao1"] * 2

    def test_holds_the_true_number_where_genera_are_about_as_frequent(self):
        rng, held = np.random.default_rng(0), []
        for _ in range(100):
            points = pd.DataFrame({"source": "a", "image": np.arange(60).astype(str), "genus": rng.integers(0, 30, 60)})
            row = diversity.richness(points.astype({"genus": "str"})).iloc[0]
            held.append(row["ci_low"] <= 30 <= row["ci_high"])
        assert 0.88 <= np.mean(held) <= 1

    def test_is_nearer_to_the_truth_than_what_was_seen(self):
        tables = pd.concat([diversity.richness(reef(images=10, genera=8, seed=s)) for s in range(60)])
        chao2 = tables[tables["estimator"] == "Chao2"]
        assert abs(chao2["estimate"].mean() - 8) < 0.7 * abs(chao2["observed"].mean() - 8)
        assert (chao2["ci_high"] > chao2["ci_low"]).mean() > 0.9

    def test_refuses_a_column_that_lacks(self):
        with pytest.raises(ReefcoreError, match="no column 'species'"):
            diversity.richness(reef(), by="species")
        with pytest.raises(ReefcoreError, match="no column 'reef'"):
            diversity.rarefaction(reef(), group="reef")


def survey(images, points, seed=0, between=0.15, transects=None):
    """Make a survey of one category whose share differs between images with a standard deviation of `between`."""
    rng = np.random.default_rng(seed)
    mean = 0.3
    size = mean * (1 - mean) / between**2 - 1
    share = rng.beta(mean * size, (1 - mean) * size, images)
    if transects:
        share = np.repeat(rng.beta(mean * size, (1 - mean) * size, transects), images // transects)
    hits = rng.random((images, points)) < share[:, None]
    image = np.repeat(np.arange(images), points)
    frame = pd.DataFrame(
        {"source": "a", "image": image.astype(str), "functional_group": np.where(hits.ravel(), "Hard coral", "Sand")}
    )
    return frame.assign(transect=(image * (transects or 1) // images).astype(str))


class TestEffort:
    def test_the_half_width_is_that_of_the_drawn_interval(self):
        points = survey(60, 20)
        row = effort.needed(points).set_index("functional_group").loc["Hard coral"]
        drawn = cover.percent_cover(points, by="functional_group", unit="all", n=4000).iloc[0]
        assert row["half_width"] == pytest.approx((drawn.ci_high - drawn.ci_low) / 2, rel=0.06)

    def test_as_many_images_as_it_says_halve_the_interval(self):
        says, halved = [], []
        for seed in range(20):
            row = effort.needed(survey(30, 20, seed)).iloc[0]
            again = effort.needed(survey(int(row["images_to_halve"]), 20, 100 + seed)).iloc[0]
            says.append(row["half_width"] / 2)
            halved.append(again["half_width"])
        assert np.mean(halved) == pytest.approx(np.mean(says), rel=0.06)

    def test_as_many_points_as_it_says_halve_the_interval_where_images_are_alike(self):
        says, halved = [], []
        for seed in range(30):
            row = effort.needed(survey(60, 5, seed, between=0.05)).iloc[0]
            if pd.notna(row["points_to_halve"]):
                again = effort.needed(survey(60, int(row["points_to_halve"]), 100 + seed, between=0.05)).iloc[0]
                says.append(row["half_width"] / 2)
                halved.append(again["half_width"])
        assert len(says) > 20 and np.mean(halved) == pytest.approx(np.mean(says), rel=0.15)

    def test_more_points_do_not_help_where_the_images_differ(self):
        row = effort.needed(survey(60, 50, between=0.3)).iloc[0]
        assert pd.isna(row["points_to_halve"]) and "would not do it" in row["text"] and row["between"] > 0.8

    def test_splits_the_variance_as_it_was_made(self):
        shares = [effort.needed(survey(100, 10, seed, between=0.1)).iloc[0]["between"] for seed in range(20)]
        assert np.mean(shares) == pytest.approx(0.01 / (0.01 + (0.21 - 0.01) / 10), abs=0.05)

    def test_transects_are_what_is_added_where_they_are_drawn(self):
        points = survey(60, 20, transects=6)
        by_image, by_transect = (effort.needed(points, resample=how).iloc[0] for how in ("image", "transect"))
        assert by_transect["half_width"] > 1.5 * by_image["half_width"]
        assert by_transect["images_to_halve"] % 10 == 0 and "transects instead of 6" in by_transect["text"]

    def test_one_image_and_no_difference_say_so(self):
        assert effort.needed(survey(1, 20)).iloc[0]["text"] == "one image tells nothing"
        same = effort.needed(survey(10, 20).assign(functional_group="Sand")).iloc[0]
        assert same["text"] == "no image differs from another" and pd.isna(same["images_to_halve"])
        assert len(effort.curve(survey(1, 20), "Hard coral")) == 0

    def test_the_curve_goes_through_the_survey_and_falls(self):
        points = survey(40, 20)
        table = effort.curve(points, "Hard coral")
        now = table[table["now"]]
        assert len(now) == 1 and now["images"].item() == 40
        assert now["half_width"].item() == pytest.approx(effort.needed(points).iloc[0]["half_width"])
        for _, line in table.groupby("points"):
            assert (line["half_width"].diff().dropna() < 0).all()
        between = effort.needed(points).iloc[0]["between"]
        dense = table[(table["images"] == 40) & (table["points"] == 100)]["half_width"].item()
        assert dense == pytest.approx(now["half_width"].item() * np.sqrt(between + (1 - between) * 20 / 100))
        assert sorted(effort.curve(survey(40, 21), "Hard coral", points=(5, 20, 50))["points"].unique()) == [5, 21, 50]
        with pytest.raises(ReefcoreError, match="no functional_group 'Lava'"):
            effort.curve(points, "Lava")
