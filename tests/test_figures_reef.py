"""A site's figures draw what they are given, and its tables are counted for people."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from reefcore import figures, overview
from reefcore.errors import ReefcoreError
from reefcore.figures import reef


def covers(units=("North", "South", "ALL IMAGES")):
    groups = {"Hard coral": 40.0, "Sand and sediment": 35.0, "Turf algae": 25.0, "Sponge": 0.0}
    rows = [(unit, name, 10, 4, 100, cover) for unit in units for name, cover in groups.items()]
    table = pd.DataFrame(rows, columns=["site", "functional_group", "images", "count", "total", "percent"])
    return table.assign(ci_low=table["percent"] * 0.8, ci_high=table["percent"] * 1.2)


def images():
    names = [f"p{i}.jpg" for i in range(6)]
    table = pd.DataFrame({"source": "a", "image": names, "photo": [*names[:4], pd.NA, pd.NA]})
    table["site"] = pd.Series(["N", "N", "N", "S", "S", " "], dtype="str")
    table["date"] = pd.to_datetime(["2020-05-01", "2020-06-20", "2021-05-02", "2020-05-03", None, None])
    table["depth"] = [3.0, 5, 12, np.nan, np.nan, np.nan]
    table["points"], table["labelled"] = [25, 25, 25, 10, 0, 0], [25, 0, 20, 10, 0, 0]
    blank = pd.Series(pd.NA, table.index, dtype="str")
    table = table.assign(transect=blank, camera=blank, photographer=blank)
    return table.assign(latitude=[1.0, 1, 1, np.nan, np.nan, np.nan], longitude=[9.0, 9, 9, 9, np.nan, np.nan])


def points():
    labels, who = ["A", "A", "B", "C", "A"], ["Observer 1", "robot", "Observer 1", pd.NA, pd.NA]
    table = pd.DataFrame({"source": "a", "image": ["p0.jpg"] * 3 + ["p1.jpg", "p2.jpg"], "label_raw": labels})
    table["annotator"] = pd.Series(who, dtype="str")
    return table.assign(labelled_by=pd.Series(["person", "machine", "person", pd.NA, pd.NA], dtype="str"))


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


class TestFigures:
    def test_cover_is_sorted_with_its_numbers(self):
        figure = figures.cover_bars(
            covers(["ALL IMAGES"]), "functional_group", covers(["ALL IMAGES"]), ("same", "pooled")
        )
        assert names(figure.axes[0]) == ["Hard coral", "Sand and sediment", "Turf algae", "Sponge"]
        assert "40.0 %  (n 4)" in texts(figure)

    def test_cover_without_interval_or_count_is_drawn(self):
        bare = covers(["ALL IMAGES"]).assign(ci_low=np.nan, ci_high=np.nan, count=pd.array([pd.NA] * 4, "Float64"))
        assert "40.0 %" in texts(figures.cover_bars(bare, "functional_group"))

    def test_a_stack_fills_its_bar_and_gathers_what_is_rare(self):
        table = covers().rename(columns={"functional_group": "label"}).replace({"Hard coral": "x", "Turf algae": "y"})
        figure = figures.stacked(table.replace({"Sand and sediment": "z"}), "label", "site", most=2)
        widths = pd.Series([bar.get_width() for bar in figure.axes[0].patches])
        assert widths.sum() == pytest.approx(300)
        shown = [text.get_text() for text in figure.legends[0].get_texts()]
        assert shown == ["x", "z", reef.REST]

    def test_looks_differ(self):
        for names_ in (reef.LOOKS, "abcdefghijklmnopqrstu"):
            assert len(set(reef.looks(names_).values())) == len(names_)
        solid = [to_rgb(colour) for colour, hatch in reef.LOOKS.values() if not hatch]
        grey = sorted(np.dot(colour, [0.299, 0.587, 0.114]) for colour in solid)
        assert len(solid) == len(set(solid)) and np.ptp(grey) > 0.5

    def test_change_says_direction_and_how_sure(self):
        table = pd.DataFrame({"group": ["a", "b", "c"], "difference": [-8.0, 1, 2], "probability": [1.0, 0.6, np.nan]})
        table = table.assign(ci_low=[-12.0, -2, np.nan], ci_high=[-4.0, 4, np.nan])
        said = texts(figures.change_bars(table, "group"))
        assert said == ["−8.0  (down: >99%)", "+1.0  (up: 60%)", "+2.0"]

    def test_over_time_keeps_dates_apart_and_hides_what_is_empty(self):
        figure = figures.over_time(
            covers(("2020", "2021")), "functional_group", "site", ["Hard coral", "Sponge", "Turf algae"]
        )
        assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]

    def test_curves_histogram_bars_shares_and_flags(self):
        table = pd.DataFrame(
            {"images": [1, 2, 3], "mean": [2.0, 3, 3.5], "ci_low": [1.0, 2, 3], "ci_high": [3.0, 4, 4]}
        )
        assert len(figures.curves(table, "images", "mean", ("images", "genera"), goal=3).axes[0].lines) == 2
        assert figures.histogram(pd.Series([0.0, 1, 100]), "x", {"limit": 5}, log=True).axes[0].get_xscale() == "log"
        kinds = figures.bars(pd.DataFrame({"n": ["a", "b"], "v": [1, 2], "k": ["x", "y"]}), "n", "v", "k")
        assert [text.get_text() for text in kinds.legends[0].get_texts()] == ["x", "y"]
        part = pd.DataFrame({"what": ["dates"], "images": [0], "of": [0]})
        assert texts(figures.shares(part, "what")) == ["0 of 0"]
        flagged = pd.DataFrame({"brightness": [10.0, 90], "sharpness": [5.0, 50], "flag": ["dark", pd.NA]})
        assert figures.photo_flags(flagged).legends

    @pytest.mark.parametrize("draw", [figures.cover_bars, figures.change_bars])
    def test_nothing_to_draw_is_said(self, draw):
        with pytest.raises(ReefcoreError, match=r"there is no .* to draw"):
            draw(covers().head(0), "functional_group")

    def test_say_escapes(self):
        assert "&lt;b&gt;" in figures.say("a <b>")._repr_html_() and repr(figures.say("a <b>")) == "a <b>"


class TestOverview:
    def test_counts_and_completeness(self):
        table = overview.counts(images(), points()).set_index("what")
        assert table.loc["photos found", "number"] == 4 and table.loc["points labelled by a machine", "number"] == 1
        assert table.loc["sites", "number"] == 2 and table.loc["depths", "to"] == "12 m"
        assert tuple(table.loc["days with photos"]) == (4, "2020-05-01", "2021-05-02")
        whole = overview.completeness(images()).set_index("what")["images"]
        assert whole["all of its points (here 25)"] == 3 and whole["a position"] == 3
        assert whole["all points labelled by people"] == 2 and whole["a site"] == 5

    def test_sample_units_of_covers_count_as_images(self):
        rows = [("m", "t1", "2009-04-15", "S", "A", 3, 5), ("m", "t1", "2009-04-15", "S", "B", 2, 5)]
        rows += [("m", "t2", "2011-03-31", "S", "A", 5, 5)]
        given = pd.DataFrame(rows, columns=["source", "unit", "date", "site", "label_raw", "count", "total"])
        for have in (images(), images().head(0)):
            table = overview.units(have, given)
            assert len(table) == len(have) + 2 and list(table.columns) == list(have.columns)
            assert list(table["points"].tail(2)) == [5, 5] and table["photo"].tail(2).isna().all()
        table = overview.counts(images().head(0), points().head(0), given).set_index("what")
        assert table.loc["different labels", "number"] == 2 and table.loc["days with photos", "to"] == "2011-03-31"

    def test_completeness_of_nothing(self):
        table = overview.completeness(images().head(0))
        assert table["share"].isna().all() and (table["of"] == 0).all()

    def test_what_no_cover_counts_is_said(self):
        table = pd.DataFrame({"label_raw": ["TWS", "Sand", "Shadow", "TWS"]})
        assert overview.not_counted(table) == ""
        table["functional_group"] = ["Not benthos", "Sand and sediment", "Not benthos", "Not benthos"]
        assert "3 of 4 points (75.0%) show no benthos (TWS, Shadow) and are left" in overview.not_counted(table)
        assert "1 of 2 points (50.0%) shows no benthos (TWS) and is left" in overview.not_counted(table.head(2))

    def test_people_add_up(self):
        table = overview.people(points())
        assert table["points"].sum() == 5 and table["share"].sum() == pytest.approx(1)
        assert list(table["annotator"]) == ["Observer 1", "not said", "robot"]
        assert list(table["labelled by"]) == ["people", "not said", "a machine"]
        assert table["most used"].iloc[0] == "A, B"

    def test_surveys_are_dates_close_together(self):
        dates = images()["date"]
        assert list(overview.surveys(dates).dropna()) == ["2020-05", "2020-05", "2021-05", "2020-05"]
        assert list(overview.surveys(dates, 30).dropna()) == ["2020-05", "2020-06", "2021-05", "2020-05"]
        assert list(overview.surveys(dates, every="year").dropna()) == ["2020", "2020", "2021", "2020"]
        two = pd.Series(pd.to_datetime(["2020-05-01", "2020-05-30"]))
        assert list(overview.surveys(two, 5)) == ["2020-05-01", "2020-05-30"]
        assert overview.surveys(dates.iloc[4:]).isna().all()
        with pytest.raises(ReefcoreError, match="cannot be grouped by 'week'"):
            overview.surveys(dates, every="week")

    def test_only_what_was_seen_each_time_is_compared(self):
        seen = images().assign(survey=overview.surveys(images()["date"]))
        kept = overview.revisited(seen, "site", "survey")
        assert set(kept["site"]) == {"N"} and kept.attrs["left_out"] == [" ", "S"]
        table = overview.design(seen, ["site"], "survey")
        assert table.loc[table["site"] == "S", "not known"].item() == 1 and table["in all"].sum() == 6

    def test_dates_are_compared_by_the_places_that_both_have(self):
        rows = [("N", "1", "a"), ("N", "2", "b"), ("S", "2", "a"), ("S", "3", "b"), ("N", "3", "b"), ("W", "1", "b")]
        seen = pd.DataFrame(rows, columns=["site", "survey", "label"]).assign(
            source="x", image=lambda t: t.index.astype(str)
        )
        table = overview.changes(seen, "label", "site", "survey", n=10)
        pairs = table.drop_duplicates(["from", "to"])[["from", "to", "places"]]
        assert pairs.to_numpy().tolist() == [["1", "2", 1], ["2", "3", 2], ["1", "3", 1]]
        first = table[(table["from"] == "1") & (table["label"] == "a")]
        assert list(first["difference"]) == [-100, -100]  # W, which only the first date has, would have made it 50
        assert set(overview.last_pair(table)["to"]) == {"3"} and set(overview.last_pair(table)["from"]) == {"1"}
        assert overview.changes(seen[seen["site"] == "W"], "label", "site", "survey").empty

    def test_zones_of_depth(self):
        assert list(overview.depth_zones(images()["depth"]).dropna()) == ["00-05 m", "05-10 m", "10-15 m"]

    def test_water_is_beside_the_published(self):
        photos = pd.DataFrame({"red": [0.385 * 255], "green": [0.0], "blue": [255.0], "megapixels": [12.0]})
        table = overview.water(photos).set_index("quantity")["difference"]
        assert table["mean red"] == pytest.approx(0, abs=1e-12) and table["mean blue"] == pytest.approx(0.659)

    def test_near_sources_come_first(self):
        sources = pd.DataFrame(
            {"source": ["far", "near", "lost"], "latitude": [1.0, 1, np.nan], "longitude": [99.0, 10, 5]}
        )
        sources = sources.assign(ecoregion=["x", "e", "e"], province="p", realm="r", images=1, annotations=2)
        here = images().assign(ecoregion="e", province="q", realm="r")
        table = overview.nearby(sources, here)
        assert list(table["source"]) == ["near", "far", "lost"] and list(table["shares"]) == [
            "ecoregion",
            "realm",
            "ecoregion",
        ]
        assert table["km"].iloc[0] == pytest.approx(111.2, rel=0.01) and np.isnan(table["km"].iloc[2])
