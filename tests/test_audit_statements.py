"""What must hold between printed numbers: each kind on values that hold and that do not, and on the paper's own."""

import pandas as pd
import pytest

from reefcore import published
from reefcore.audit import statements
from reefcore.errors import ReefcoreError


def values(**numbers):
    """Make values: a number, or (number, step, unit, qualifier) as far as given; ``t9_row_column`` is a table's."""
    rows = []
    for name, given in numbers.items():
        value, step, unit, qualifier, *_ = (*(given if isinstance(given, tuple) else (given,)), *[None] * 4)
        table = int(name[1]) if name[0] == "t" and name[1].isdigit() else pd.NA
        _, row, column = name.split("_") if table is not pd.NA else (pd.NA,) * 3
        rows.append(
            {
                "place": name.replace("_", "/").removeprefix("t"),
                "value": value,
                "unit": unit or "annotations",
                "step": 1 if step is None else step,
                "qualifier": qualifier or "exact",
                "table": table,
                "row": row,
                "column": column,
                "section": "" if table is not pd.NA else "3.4",
                "printed": f"{value} things",
            }
        )
    return pd.DataFrame(rows).astype({"table": "Int64"})


def lines(*rows, certainty="inconsistent", reason="They are one."):
    columns = ["kind", "left", "right", "certainty", "holds_here", "reason"]
    return pd.DataFrame([(*row, certainty, "no", reason) for row in rows], columns=columns)


def breach(kind, left, right, **numbers):
    """Return the one finding of a line, or None."""
    findings, checked = statements.check(values(**numbers), lines((kind, left, right)))
    assert len(findings) < 2 and checked[0]["checks"] > 0
    return findings[0] if findings else None


CASES = [  # kind, left, right, what holds, what does not
    ("equal", "a", "b", {"a": 5, "b": 5}, {"a": 5, "b": 6}),
    ("equal", "a", "b", {"a": ("Test-S1", 0, "name"), "b": ("test-s1", 0, "name")}, {"a": ("x", 0), "b": ("y", 0)}),
    ("equal", "a", "b", {"a": (81.5, 0.1, "percent"), "b": (81, 1, "percent")}, {"a": (81.7, 0.1), "b": (81, 1)}),
    ("equal", "a", "b", {"a": 221419, "b": (221000, 1000, "", "over")}, {"a": 220999, "b": (221000, 1000, "", "over")}),
    ("equal", "a", "b", {"a": 7999, "b": (8000, 1000, "", "under")}, {"a": 9000, "b": (8000, 1000, "", "under")}),
    ("equal", "a", "b", {"a": 91, "b": (92, 1, "percent", "at most")}, {"a": 93, "b": (92, 1, "percent", "at most")}),
    ("at_most", "a", "b", {"a": 92.4, "b": (92, 1, "percent", "at most")}, {"a": 93, "b": (92, 1, "", "at most")}),
    ("sum", "a + b", "c", {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 4}),
    ("sum", "a - b", "c", {"a": (5.0, 0.1), "b": (2.0, 0.1), "c": (3.1, 0.1)}, {"a": 5, "b": 2, "c": 4}),
    ("ratio", "a + b x 2", "c / 2", {"a": 1, "b": 2, "c": 10}, {"a": 1, "b": 2, "c": 12}),
    ("at_most", "a", "b", {"a": 5, "b": 5}, {"a": 6, "b": 5}),
    ("at_most", "a", "b | 8", {"a": (7.5, 0.1), "b": (7, 1, "percent")}, {"a": 9, "b": 9}),
    ("at_least", "a", "#2", {"a": 2, "t2_x_u": 1, "t2_y_u": 1}, {"a": 1, "t2_x_u": 1, "t2_y_u": 1}),
    ("greater", "2/x/*", "2/y/*", {"t2_x_u": 2, "t2_y_u": 1, "t2_x_v": 3, "t2_y_v": 2}, {"t2_x_u": 2, "t2_y_u": 3}),
    ("greater", "2/*!y/u", "2/*/v", {"t2_x_u": 2, "t2_y_u": 0, "t2_x_v": 1, "t2_y_v": 1}, {"t2_x_u": 0, "t2_x_v": 1}),
    ("best", "2/x/*", "2/?/*", {"t2_x_u": 2, "t2_y_u": 1}, {"t2_x_u": 2, "t2_y_u": 3}),
    ("best", "2/x/u", "2/?/u", {"t2_x_u": 2, "t2_z_u": 1, "t2_y_u": (9, 0, "sources")}, {"t2_x_u": 2, "t2_y_u": 3}),
    ("lowest", "2/x/u", "2/?/u", {"t2_x_u": (2.0, 0.1), "t2_y_u": (1.9, 0.1)}, {"t2_x_u": 2, "t2_y_u": 1}),
    ("within", "a", "b | c", {"a": (24.5, 0.1), "b": (25, 1, "percent"), "c": 9e9}, {"a": 22, "b": 25, "c": 180}),
    ("other_order", "2/*/u", "2/*/v", {"t2_x_u": 1, "t2_y_u": 2, "t2_x_v": 2, "t2_y_v": 1}, {"t2_x_u": 1, "t2_x_v": 2}),
    ("same_bound", "a", "b", {"a": (50, 1, "", "over"), "b": (50, 1, "", "over")}, {"a": (50, 1, "", "over"), "b": 50}),
    ("same_unit", "a", "b", {"a": (34, 1, "images"), "b": (34, 1, "images")}, {"a": (34, 1, "images"), "b": 34}),
]


@pytest.mark.parametrize("kind, left, right, holds, fails", CASES)
def test_each_kind_passes_what_holds_and_finds_what_does_not(kind, left, right, holds, fails):
    assert breach(kind, left, right, **holds) is None
    found = breach(kind, left, right, **fails)
    assert found["certainty"] == "inconsistent" and found["rule"] == kind and found["text"].endswith(" They are one.")
    assert len(found["where"].split("; ")) == len(found["values"].split("; "))


def test_rounding_has_its_benefit_up_to_the_edge_and_no_farther():
    edge = {"b": (42.93, 0.01, "percent")}
    assert breach("equal", "a", "b", a=(42.94, 0.01, "percent"), **edge) is None
    assert breach("equal", "a", "b", a=(42.96, 0.01, "percent"), **edge)["certainty"] == "inconsistent"
    assert breach("equal", "a", "b", a=920017, b=(920000, 1000, "", "about")) is None
    cut = breach("equal", "a", "b", a=1376, b=(1300, 100))
    assert cut["certainty"] == "ask" and "digits were cut off" in cut["text"] and cut["values"] == "1,376; 1,300"
    assert breach("equal", "a", "b", a=1401, b=(1300, 100))["certainty"] == "inconsistent"
    assert breach("equal", "a", "b", a=(22, 1, "points per image"), b=(22.5, 0.1)) is None  # a median is measured


def test_a_row_that_is_not_the_stated_one_is_looked_for():
    numbers = {"t7_all_recall": 50.0, "t7_all_right": 81.0, "t3_vit_s3": 50.0, "t3_vit_s4": 44.0}
    numbers |= {"t8_vit_s3": 81.0, "t8_vit_s4": 80.0}
    left = "7/all/recall | 7/all/right"
    assert breach("row_is", left, "3/vit/s3 | 8/vit/s3", **numbers) is None
    text = breach("row_is", left, "3/vit/s4 | 8/vit/s4", **numbers)["text"]
    assert "it equals Table 3, vit, s3 (50) and Table 8, vit, s3 (81)" in text
    assert "equals" not in breach("row_is", left, "3/vit/s4 | 8/vit/s4", **numbers | {"t8_vit_s3": 82.0})["text"]


def test_an_order_is_turned_only_by_what_rounding_cannot_explain():
    first = {"t3_a_u": (3.0, 0.1), "t3_b_u": (2.0, 0.1), "t3_c_u": (1.0, 0.1)}
    near = {"t3_a_v": (3.0, 0.1), "t3_b_v": (3.1, 0.1), "t3_c_v": (1.0, 0.1)}
    assert breach("same_order", "3/*/u", "3/*/v", **first, **near) is None
    text = breach("same_order", "3/*/u", "3/*/v", **first, **near | {"t3_b_v": (3.3, 0.1)})["text"]
    assert text.startswith("1 of 3 pairs of rows") and "correlation 0.50" in text and "number 2 of 3" in text


def test_lines_of_one_reason_are_one_finding_as_sure_as_the_surest():
    table = lines(("equal", "a", "b"), ("at_most", "c", "a"), ("equal", "a", "a"))
    table.loc[1, "certainty"] = "impossible"
    findings, checked = statements.check(values(a=1, b=2, c=3, d=4), table)
    assert len(findings) == 1 and findings[0]["certainty"] == "impossible" and findings[0]["values"] == "1; 2; 3"
    known = [{"rule": "twice", "where": "section 3.4"}, {"rule": "other", "where": "section 3.4; section 4"}]
    again, checked = statements.check(values(a=1, b=2, c=3, d=4), table, known)
    assert again == [] and "see the finding of twice" in checked[0]["remark"]
    assert len(statements.check(values(a=1, b=2, c=3), table, known[1:])[0]) == 1
    assert "; section 3.4 (d)" not in checked[0]["where"] and checked[-1]["where"] == "section 3.4 (d)"


@pytest.mark.parametrize(
    "row, message",
    [
        (("equal", "a", "nothing"), "relations.csv:2: there is no published value nothing"),
        (("equal", "3/*/u", "a"), "relations.csv:2: there is no published value like 3/"),
        (("alike", "a", "a"), "relations.csv:2: there is no kind alike; choose from equal"),
        (("within", "a", "a"), 'relations.csv:2: "a" and "a" cannot be compared as within'),
        (("sum", "a + word", "a"), 'relations.csv:2: "a . word" and "a" cannot be compared as sum'),
    ],
)
def test_a_line_that_cannot_be_read_is_named(row, message):
    with pytest.raises(ReefcoreError, match=message):
        statements.check(values(a=1, word=("x", 0, "name")), lines(row))
    with pytest.raises(ReefcoreError, match="there is no certainty sure"):
        statements.check(values(a=1), lines(("equal", "a", "a"), certainty="sure"))


@pytest.fixture(scope="module")
def paper():
    return statements.check(published.values(), statements.relations())


def test_every_table_and_most_figures_of_the_text_are_compared(paper):
    table, all_of_them = statements.relations(), published.values().set_index("place")
    read = statements._Paper(published.values())
    pairs = [pair for line in table.itertuples() for pair in read.pairs(line)]
    used = {row.place for pair in pairs for side in pair for term in side for row in term.values}
    counted = {
        int(text) for side in (table["left"], table["right"]) for text in side.str.extract(r"#(\d+)")[0].dropna()
    }
    assert set(all_of_them.loc[list(used), "table"].dropna()) | counted == set(range(1, 14))
    text = all_of_them.index[all_of_them["table"].isna()]
    assert len(used & set(text)) >= 200
    assert all(f"({place})" in paper[1][-1]["where"] for place in set(text) - used)
    assert sum(row["checks"] for row in paper[1]) > 700
    assert set(table["holds_here"]) == {"yes", "no"} and table["reason"].str.endswith(".").all()


def test_what_the_paper_says_of_a_table_holds_for_so_many_of_its_numbers(monkeypatch):
    four = statements.about(4)
    assert four["holds"].tolist() == ["yes", "2 of 4", "yes"] and four["checks"].tolist() == [4, 4, 4]
    assert four["the printed tables say"].iloc[0] == "lower by 0.79 to 4.48"
    assert "Train-S3 / Test-S3&S4 (46.33) is below" in four["the printed tables say"].iloc[1]
    assert statements.about(7)["holds"].tolist() == ["no", "25 of 26", "yes"]
    three = statements.about(3, 4).set_index("the paper says")
    orders = three.filter(like="rank models neither", axis=0).squeeze()
    assert orders["checks"] == 5 * 45 and "11 to 25; Spearman's correlation −0.12" in orders["the printed tables say"]
    assert three.filter(like="ranking of models", axis=0)["holds"].tolist() == ["35 of 45"]
    assert three.filter(like="drop of BioCLIP-FT", axis=0)["the printed tables say"].item().endswith("= 41.12")
    values, names = published.values(), {"4/CE/": "4/Focal/", "4/Focal/": "4/CE/"}
    swapped = values.assign(place=values["place"].replace(names, regex=True))
    monkeypatch.setattr(published, "values", lambda: swapped)
    assert statements.about(4)["holds"].iloc[1] == "2 of 4" and "S1 / Test-S1" in statements.about(4).iloc[1, 3]


FINE = ["920,017; 4,609; 924,626", "32,173; 1,867; 34,040", "88; 3; 85", "85; 9; 76", "51; 23; 2; 76", "44; 17; 7; 68"]
FINE += ["445,985; 9,999; 23,043; 479,027", "42.94; 42.93", "221,419", "201,685", "107,553", "0.1;", "84.06; 42.94; 41"]


def test_what_contradicts_is_found_once_and_what_is_fine_is_not(paper):
    found = pd.DataFrame(paper[0]).set_index("values")
    assert found.index.is_unique and not [fine for fine in FINE if any(fine in values for values in found.index)]
    assert sum("40,881" in values.split("; ") and "23,043" in values for values in found.index) == 1
    assert found.loc["22; 25; 180", "certainty"] == "impossible" == found.loc["40; 39; 39", "certainty"]
    assert found.loc["1,376; 1,300; 1,300", "certainty"] == "ask"
    for values in ("26; 25; 25", "76; 85; 85", "924,626; 925,322", "181,223; 181,046", "75.29; 79.32", "43; 44"):
        assert found.loc[values, "certainty"] == "inconsistent"
    assert "it equals Table 3, ViT-B, Train-S3" in found["text"].str.cat().replace("Table 3, ViT, ", "Table 3, ViT-B, ")
    assert not found["text"].str.contains("error|mistake|wrong|careless|false|nan|None", case=False).any()


def test_the_numbers_of_a_profile_have_the_papers_places_and_satisfy_what_any_must(smoke):
    names = ["annotations", "sources", "images", "reviews", "quality", "splits", "candidates", "open_set"]
    tables = {name: smoke.table(name) for name in names}
    run = tables["open_set"]["run_id"].str.endswith("-S4-S4")
    tables["open_set"] = tables["open_set"][run]
    here = statements.here(tables, smoke.profile.site)
    own = here.set_index("place")["value"]
    assert own["2/Train-S1/annotations"] == (tables["splits"].eval("scheme == 'S1' and part == 'train'")).sum()
    assert own["funnel/labelled"] == own["dataset/sources"] and own["open_set/unknown_classes"] == 3
    table = statements.holding(here, statements.relations())
    missing = statements.relations().query("holds_here == 'yes'").drop(table.index)
    assert missing["left"].str.contains("uniform grid").all()  # no source of the smoke profile has one
    assert statements.check(here, table)[0] == []
    broken = here.assign(value=here["value"].where(here["place"] != "2/Val-S1/annotations", 1e9))
    assert {found["rule"] for found in statements.check(broken, table)[0]} == {"sum", "at_most"}
    assert len(statements.holding(here[here["place"] != "points/mean"], table)) == len(table) - 1
    assert "1,000,000,000" in statements.check(broken, table)[0][0]["values"]
