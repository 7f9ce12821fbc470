"""Percent cover: against plain loops, CoralNet's own table, and the truth of simulated reefs."""

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from reefcore import cover
from reefcore.errors import ReefcoreError

REAL = Path(__file__).parents[2] / "shared" / "real" / "annotations"


def survey(images=12, points=20, transects=4, seed=0, spread=8.0, dates=("2019-03-01",), shift=0.0):
    """Make points of a reef whose images differ: labels Coral, Sand, Turf by a Dirichlet draw for each image."""
    rng, rows = np.random.default_rng(seed), []
    for d, date in enumerate(dates):
        for t in range(transects):
            there = rng.dirichlet(np.array([3.0 + shift * d, 4.0, 5.0 - shift * d]))
            for i in range(images // transects):
                share = rng.dirichlet(spread * there)
                labels = rng.choice(["Coral", "Sand", "Turf"], points, p=share)
                rows += [("reef", f"{date}_{t}_{i}.jpg", f"T{t}", date, label) for label in labels]
    return pd.DataFrame(rows, columns=["source", "image", "transect", "date", "label"])


def one(table, unit, category, by="label"):
    return table[(table.iloc[:, 0] == unit) & (table[by] == category)].iloc[0]


class TestPercentCover:
    def test_equals_a_plain_loop_for_every_unit_and_category(self):
        points = pd.concat([survey(), survey(images=4, points=7, seed=1).assign(transect="T9", date="2020-01-01")])
        for weight in ("image", "point"):
            table = cover.percent_cover(points, unit="transect", weight=weight, n=10)
            for row in table.itertuples():
                here = points if row.transect == cover.ALL else points[points["transect"] == row.transect]
                hits = here["label"] == row.label
                shares = hits.groupby([here["source"], here["image"]]).mean()
                assert row.percent == pytest.approx(100 * (shares.mean() if weight == "image" else hits.mean()))
                assert (row.images, row.count, row.total) == (len(shares), hits.sum(), len(here))

    def test_equal_image_weight_and_pooling_differ_where_images_have_different_numbers_of_points(self):
        points = pd.DataFrame({"source": "a", "image": ["p"] * 8 + ["q"] * 2, "label": ["x"] * 8 + ["y"] * 2})
        assert one(cover.percent_cover(points), cover.ALL, "x").percent == 50
        assert one(cover.percent_cover(points, weight="point"), cover.ALL, "x").percent == 80

    @pytest.mark.parametrize("weight", ["image", "point"])
    def test_what_is_no_benthos_is_neither_counted_nor_in_the_total(self, weight):
        points = survey().assign(functional_group="Other")
        tape = points.groupby("image").cumcount() < points["image"].str[-5].astype(int) * 3
        marked = points.assign(label=points["label"].mask(tape, "Tape"))
        marked.loc[tape, "functional_group"] = "Not benthos"
        table = cover.percent_cover(marked, weight=weight, n=10)
        assert table.equals(cover.percent_cover(points[~tape], weight=weight, n=10)) and "Tape" not in set(
            table["label"]
        )
        assert cover.not_benthos(marked).sum() == tape.sum() > 0
        alone = marked.assign(functional_group="Not benthos")
        assert one(cover.percent_cover(alone, n=10), cover.ALL, "Tape").total == len(points)  # there is nothing else

    def test_covers_without_what_is_no_benthos_are_those_of_its_points(self):
        points = survey().assign(functional_group="Other", label_raw=lambda t: t["label"])
        points.loc[points["label"] == "Sand", "functional_group"] = "Not benthos"
        points.loc[points["image"] == points["image"].iloc[0], "functional_group"] = "Not benthos"  # a whole image
        keys = ["source", "image", "label_raw", "functional_group", "transect", "date"]
        counts = points.groupby(keys).size().rename("count").reset_index().rename(columns={"image": "unit"})
        covers = counts.assign(total=20, percent=counts["count"] * 5.0)
        table = cover.from_counts(covers, n=10)
        same = cover.percent_cover(points, "label_raw", n=10).rename(columns={"image": "unit"})
        pd.testing.assert_frame_equal(table, same, check_dtype=False)
        assert table["images"].max() == 11

    def test_interval_equals_a_plain_bootstrap(self):
        points = survey(images=40, transects=40)
        row = one(cover.percent_cover(points, unit="all", n=4000), cover.ALL, "Coral")
        shares = (points["label"] == "Coral").groupby(points["image"]).mean().to_numpy()
        rng = np.random.default_rng(5)
        draws = [100 * rng.choice(shares, len(shares)).mean() for _ in range(4000)]
        tail = cover.tail_of(0.95, 40)
        assert row.ci_low == pytest.approx(np.quantile(draws, tail), abs=0.6)
        assert row.ci_high == pytest.approx(np.quantile(draws, 1 - tail), abs=0.6)

    def test_the_tail_makes_a_drawn_interval_of_a_mean_as_wide_as_a_t_interval(self):
        for n, quantile in ((8, 2.3646), (20, 2.0930), (1000, 1.9623)):  # Student's t, n - 1 degrees of freedom
            drawn = NormalDist().inv_cdf(1 - cover.tail_of(0.95, n)) * np.sqrt(
                (n - 1) / n
            )  # draws' spread is too small
            assert drawn == pytest.approx(quantile, abs=1e-3)

    def test_few_images_have_the_t_interval_of_their_shares(self):
        points = survey(images=5, transects=5)
        row = one(cover.percent_cover(points, unit="all", n=10), cover.ALL, "Coral")
        shares = 100 * (points["label"] == "Coral").groupby(points["image"]).mean()
        half = 2.7764 * shares.std(ddof=1) / np.sqrt(5)  # Student's t, 4 degrees of freedom
        assert row.interval == "images, t" and row.ci_high - row.percent == pytest.approx(half, abs=1e-2)
        assert row.ci_low == pytest.approx(max(shares.mean() - half, 0), abs=1e-2)

    def test_transects_are_drawn_whole_with_their_images(self):
        points = survey(images=40, transects=8, spread=200)
        by_image = one(cover.percent_cover(points, unit="all"), cover.ALL, "Coral")
        by_transect = one(cover.percent_cover(points, unit="all", resample="transect"), cover.ALL, "Coral")
        assert by_transect.ci_high - by_transect.ci_low > 1.5 * (by_image.ci_high - by_image.ci_low)
        assert by_transect.interval == "transects" and by_image.percent == by_transect.percent

    @pytest.mark.parametrize("images", [4, 12])
    def test_covers_the_truth_as_often_as_it_says(self, images):
        inside = []
        for seed in range(100):
            row = one(
                cover.percent_cover(survey(images, transects=images, seed=seed), unit="all", n=300),
                "ALL IMAGES",
                "Sand",
            )
            inside.append(row.ci_low <= 100 * 4 / 12 <= row.ci_high)
        assert 0.88 <= np.mean(inside) <= 1

    def test_one_image_takes_its_points_as_independent_and_says_so(self):
        table = cover.percent_cover(survey())
        row = table.iloc[0]
        assert row.interval == "points" and row.ci_low < row.percent < row.ci_high

    def test_one_transect_has_no_interval_and_says_why(self):
        table = cover.percent_cover(survey(images=6, transects=1), unit="all", resample="transect")
        assert table["ci_low"].isna().all() and set(table["interval"]) == {"none: one transect"}

    def test_what_no_image_has_is_not_zero_to_zero(self):
        points = pd.concat([survey(), survey(seed=3, transects=1).assign(transect="T9", label="Rubble")])
        row = one(cover.percent_cover(points, unit="transect"), "T0", "Rubble")
        assert row.percent == 0 and row.ci_low == 0 and row.ci_high > 1 and row.interval == "points, alike"

    def test_every_category_in_every_unit_and_all_images_last(self):
        table = cover.percent_cover(survey(), unit="transect")
        assert len(table) == 5 * 3 and set(table["transect"].tail(3)) == {cover.ALL}
        assert table.groupby("transect")["percent"].sum().to_numpy() == pytest.approx(100)

    def test_points_without_a_unit_or_a_category_are_counted_under_names_of_their_own(self):
        points = survey()
        points.loc[:9, "transect"] = None
        points.loc[:4, "label"] = None
        table = cover.percent_cover(points, unit="transect")
        assert one(table, "(no transect)", cover.MISSING)["count"] == 5
        assert table["label"].iloc[-1] == cover.MISSING
        assert table[table["transect"] != cover.ALL].drop_duplicates("transect")["total"].sum() == len(points)

    def test_names_used_twice_are_told_apart(self):
        points = pd.concat([survey(seed=1).assign(site="North"), survey(seed=2).assign(site="South", source="b")])
        images = cover.percent_cover(points)
        assert images["image"].nunique() == 2 * 12 + 1 and "b / 2019-03-01_0_0.jpg" in set(images["image"])
        assert "South / T1" in set(cover.percent_cover(points, unit="transect")["transect"])

    def test_units_come_in_the_order_of_their_numbers(self):
        points = survey(images=12, transects=12)
        names = cover.percent_cover(points, unit="transect", n=10)["transect"].drop_duplicates()
        assert names.tolist() == [f"T{i}" for i in range(12)] + [cover.ALL]
        depth = points.assign(depth=points["transect"].str[1:].astype(float) / 2)
        assert cover.percent_cover(depth, unit="depth", n=10)["depth"].unique().tolist()[:3] == ["0", "0.5", "1"]

    def test_genera_leave_apart_what_is_no_hard_coral(self):
        points = survey().assign(functional_group="Sand and sediment", genus=None)
        points.loc[points["label"] == "Coral", "functional_group"] = "Hard coral"
        points.loc[points.index[points["label"] == "Coral"][:3], "genus"] = "Porites"
        counts = cover.percent_cover(points, by="genus", unit="all").set_index("genus")["count"]
        coral = int((points["label"] == "Coral").sum())
        assert counts.to_dict() == {"Porites": 3, cover.MISSING: coral - 3, cover.NOT_CORAL: len(points) - coral}

    def test_dates_are_cut_to_days_months_or_years(self):
        points = survey(dates=("2019-03-01", "2019-03-09", "2020-01-01"))
        for period, names in (("month", ["2019-03", "2020-01"]), ("year", ["2019", "2020"])):
            table = cover.percent_cover(points.assign(date=pd.to_datetime(points["date"])), unit="date", period=period)
            assert list(dict.fromkeys(table["date"])) == [*names, cover.ALL]

    def test_wide_has_images_as_rows_as_coralnet_has_them(self):
        table = cover.wide(cover.percent_cover(survey()))
        assert list(table) == ["image", "images", "points", "Coral", "Sand", "Turf"]
        assert len(table) == 13 and table["image"].iloc[-1] == cover.ALL and table["points"].iloc[-1] == 240

    @pytest.mark.parametrize(
        ("choice", "text"),
        [
            ({"by": "nothing"}, "no column 'nothing'"),
            ({"unit": "nothing"}, "no column 'nothing'"),
            ({"weight": "area"}, "weight='area'"),
            ({"resample": "reef"}, "resample='reef'"),
            ({"level": 95}, "level=95"),
            ({"period": "week", "unit": "date"}, "period='week'"),
            ({"n": 0}, "n=0"),
        ],
    )
    def test_refuses_what_it_does_not_know_in_one_sentence(self, choice, text):
        with pytest.raises(ReefcoreError, match=text):
            cover.percent_cover(survey(), **choice)

    def test_refuses_no_points_and_no_transects(self):
        with pytest.raises(ReefcoreError, match="no points"):
            cover.percent_cover(survey().iloc[:0])
        with pytest.raises(ReefcoreError, match="no point has a transect"):
            cover.percent_cover(survey().drop(columns="transect"), resample="transect")

    def test_same_seed_same_table_whatever_the_order_of_the_points(self):
        points = survey()
        shuffled = points.sample(frac=1, random_state=3)
        pd.testing.assert_frame_equal(cover.percent_cover(points), cover.percent_cover(shuffled))


class TestChange:
    def test_finds_the_difference_its_sign_and_both_numbers_of_images(self):
        points = survey(images=40, transects=40, dates=("2019-03-01", "2021-03-01"), shift=3.0)
        row = cover.change(points).set_index("label").loc["Coral"]
        assert row["difference"] == pytest.approx(row["percent_to"] - row["percent_from"])
        assert row["ci_low"] < row["difference"] < row["ci_high"] and row["probability"] > 0.95
        assert (row["images_from"], row["images_to"], row["interval"]) == (40, 40, "images")

    def test_the_same_transects_revisited_are_paired_and_the_interval_is_narrower(self):
        first = survey(images=24, transects=8, spread=100)
        second = first.assign(date="2020-01-01", image="b" + first["image"])
        moved = second.index[second["label"] == "Sand"][::4]
        second.loc[moved, "label"] = "Coral"
        points = pd.concat([first, second], ignore_index=True)
        paired = cover.change(points, resample="transect").set_index("label").loc["Coral"]
        apart = points.assign(transect=points["date"] + points["transect"])
        apart = cover.change(apart, resample="transect").set_index("label").loc["Coral"]
        assert (paired["interval"], apart["interval"]) == ("paired transects", "transects")
        assert paired["ci_high"] - paired["ci_low"] < 0.5 * (apart["ci_high"] - apart["ci_low"])
        assert paired["difference"] == pytest.approx(apart["difference"])

    @pytest.mark.parametrize("paired", [False, True])
    def test_few_have_the_t_interval_of_the_difference(self, paired):
        points = survey(images=5, transects=5, dates=("2019-03-01", "2021-03-01"), shift=2)
        row = cover.change(points, resample="transect" if paired else "image", n=10).set_index("label").loc["Coral"]
        shares = 100 * (points["label"] == "Coral").groupby([points["transect"], points["date"]]).mean().unstack()
        apart = np.sqrt(shares.var(ddof=1).sum() / 5)
        error = shares.diff(axis=1).iloc[:, -1].std(ddof=1) / np.sqrt(5) if paired else apart
        assert row["ci_high"] - row["difference"] == pytest.approx(2.7764 * error, abs=1e-2)
        assert row["difference"] - row["ci_low"] == pytest.approx(2.7764 * error, abs=1e-2)
        assert row["interval"] == ("paired transects, t" if paired else "images, t")

    def test_draws_without_a_difference_count_half(self):
        points = survey(images=20, transects=4, dates=("2019-03-01", "2021-03-01")).assign(label="Sand")
        points.loc[points["image"] == points["image"].iloc[-1], "label"] = "Coral"  # one of 20, not drawn in 0.95 ** 20
        row = cover.change(points, n=4000).set_index("label").loc["Coral"]
        assert row["probability"] == pytest.approx(1 - 0.95**20 / 2, abs=0.02)

    def test_consecutive_dates_and_the_first_to_the_last(self):
        table = cover.change(survey(dates=("2019-03-01", "2020-03-01", "2021-03-01")))
        pairs = list(dict.fromkeys(zip(table["from"], table["to"], strict=True)))
        years = ("2019-03-01", "2020-03-01", "2021-03-01")
        assert pairs == [years[:2], years[1:], (years[0], years[2])]

    def test_no_change_has_no_direction(self):
        points = survey()
        table = cover.change(pd.concat([points, points.assign(date="2020-01-01", image="b" + points["image"])]), n=2000)
        assert table["probability"].to_numpy() == pytest.approx(0.5, abs=0.05) and (table["difference"] == 0).all()

    def test_one_image_on_one_date_has_no_interval_and_points_without_a_date_are_counted(self):
        late = survey(images=1, transects=1, dates=("2020-01-01",))
        points = pd.concat([survey(), late, survey(images=2, transects=2, points=5).assign(date=None, image="x")])
        table = cover.change(points)
        assert table["ci_low"].isna().all() and set(table["interval"]) == {"none: one image"}
        assert table.attrs["without"] == 10

    def test_one_date_gives_an_empty_table(self):
        assert len(cover.change(survey())) == 0

    def test_covers_the_true_difference_as_often_as_it_says(self):
        inside = []
        for seed in range(100):
            points = survey(10, transects=10, seed=seed, dates=("2019-01-01", "2020-01-01"), shift=1.0)
            row = cover.change(points, n=300).set_index("label").loc["Coral"]
            inside.append(row["ci_low"] <= 100 / 12 <= row["ci_high"])
        assert 0.88 <= np.mean(inside) <= 1


class TestFromCounts:
    def covers(self):
        points = survey()
        covers = points.groupby(["source", "image", "transect", "label"]).size().rename("count").reset_index()
        covers = covers.rename(columns={"image": "unit", "label": "label_raw"})
        covers["total"] = covers.groupby("unit")["count"].transform("sum").astype("Float64")
        return points, covers.assign(
            percent=100 * covers["count"] / covers["total"], count=covers["count"].astype("Float64")
        )

    def test_counts_say_the_same_as_their_points(self):
        points, covers = self.covers()
        for weight in ("image", "point"):
            ours = cover.from_counts(covers, unit="transect", weight=weight)
            theirs = cover.percent_cover(points, unit="transect", weight=weight)
            pd.testing.assert_frame_equal(ours.rename(columns={"label_raw": "label"}), theirs)

    def test_percents_alone_have_intervals_but_are_not_pooled(self):
        _, covers = self.covers()
        covers = covers.assign(count=pd.NA, total=pd.NA).astype({"count": "Float64", "total": "Float64"})
        table = cover.from_counts(covers)
        assert set(table["interval"]) == {"none: no counts", "images"} and table["count"].isna().all()
        with pytest.raises(ReefcoreError, match="without counts"):
            cover.from_counts(covers, weight="point")


@pytest.mark.skipif(not REAL.exists(), reason="the real files are not beside this checkout")
def test_equals_the_percents_that_coralnet_gives_for_a_real_source():
    from reefcore import annotations

    points = annotations.read(REAL / "coralnet_full_source_2091.csv")
    theirs = pd.read_csv(REAL / "coralnet_percent_covers_source_2091.csv").set_index("Image name")
    codes = {
        "Acropora": "Acropora",
        "Pavona": "Pavona",
        "Sand": "Sand",
        "Broken coral rubble": "C-Rubble",
        "Porites": "Porites",
    }
    ours = cover.wide(cover.percent_cover(points, by="label_raw", n=10)).set_index("image")
    whole = theirs[theirs["Image ID"] == cover.ALL].iloc[0]
    for name, code in codes.items():
        images = theirs[name].drop(theirs.index[theirs.index.isna()])
        assert np.abs(ours[code].reindex(images.index) - images).max() < 0.00051
        assert abs(ours.loc[cover.ALL, code] - whole[name]) < 0.00051
