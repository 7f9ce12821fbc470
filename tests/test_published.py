"""Published numbers are the printed ones; comparisons never put one for the other."""

import re
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from reefcore import audit, comparison, published
from reefcore.errors import ReefcoreError
from reefcore.figures.published import as_printed, printed_figures, printed_table

COLUMNS = ["place", "value", "unit", "step", "qualifier", "table", "row", "column", "section", "printed"]


TOP = Path(__file__).resolve().parents[1]
FOLDER = TOP / "data" / "published"
#: The paper's text lies beside some checkouts, and travels with none
PAPER = next((p for p in (up / "shared/seeds/reefnet_paper.txt" for up in TOP.parents) if p.exists()), None)
ABOVE = (1, 6, 7, 13)  # tables whose caption stands above them in that text
needs_paper = pytest.mark.skipif(PAPER is None, reason="the text of the paper is not beside this checkout")


def plain(text):
    """Write a text of the paper as the data do: no citations, no TeX, no marks of notes."""
    text = re.sub(r"\s+", " ", text)  # also the blanks that do not break
    text = re.sub(r"\(?\b[A-Z]\w+ (?:& \w+|et al\.),? \(?\d{4}[a-z]?\)+|\(ours\)|[*†‡$]", " ", text)
    for old, new in {r"\sim": "~", r"\geq": ">=", "\u2011": "-", "S3 & S4": "S3&S4", "\u2019": "'"}.items():
        text = text.replace(old, new)
    return re.sub(r"\s+", " ", text).replace("~ ", "~").strip().casefold()


def test_tables_are_as_printed():
    table = published.table(3).set_index("place")
    cell = table.loc["3/DeiT/train_s2_test_s2"]
    assert [cell["value"], cell["step"], cell["printed"], cell["unit"]] == [77.4, 0.01, "77.40", "percent"]
    assert list(published.values().columns) == COLUMNS == list(published.table(13).columns)
    assert [len(published.table(number)) > 0 for number in range(1, 14)] == [True] * 13
    with pytest.raises(ReefcoreError, match="there is no published table 14"):
        published.table(14)


def test_every_cell_is_a_value_once():
    values = published.values().set_index("place")
    assert values.index.is_unique and values["value"].notna().all()
    for path in FOLDER.glob("table_*.csv"):
        number = int(path.name[6:8])
        wide = pd.read_csv(path, dtype=str, keep_default_na=False)
        key = published.about(number)["key"]
        cells = {f"{number}/{row[key]}/{c}": row[c] for _, row in wide.iterrows() for c in wide if c != key and row[c]}
        assert set(values.index[values["table"] == number]) - set(cells) == {
            f"{number}/test {of}/{c}"
            for c in wide
            if number in (3, 8, 9, 10) and c != key
            for of in ("classes", "samples")
        }
        mine = values.loc[list(cells)]
        assert mine["printed"].str.replace(r"[~,]", "", regex=True).tolist() == [
            text.replace(",", "") for text in cells.values()
        ]
        assert not set(mine["unit"]) & {"", None}
    names = pd.read_csv(FOLDER / "text_figures.csv", dtype=str)["name"]
    assert names.isin(values.index).all() and values["table"].isna().sum() == len(names) + 4 + 5 + 16


def test_the_last_printed_digit_is_kept():
    values = published.values().set_index("place")
    steps = {"3/ViT/train_s2_test_s2": 0.01, "6/MLS/fpr_at_95_tpr": 0.0001, "2/Test-S1/annotations": 1}
    steps |= {"1/Eilat/hard_coral_annotations": 1000, "normalisation/mean/red": 0.001, "substrate/patch_accuracy": 0.1}
    assert values.loc[list(steps), "step"].to_dict() == steps
    eilat = values.loc["1/Eilat/hard_coral_annotations"]
    assert [eilat["qualifier"], eilat["printed"], eilat["value"]] == ["about", "~12,000", 12000]
    words = values["value"].map(lambda value: isinstance(value, str))
    assert (values["step"].isna() == words).all() and set(values.loc[words, "unit"]) == {"name"}
    assert set(values["qualifier"]) <= set(published.SIGNS)


def test_tables_of_models_are_results_as_the_audit_reads_them():
    cells = published.cells().set_index("place")
    assert cells.index.is_unique and len(cells) == 60 + 16 + 14 + 6 + 28 + 3 * 60 + 6 + 16
    one = cells.loc["Table 9, BioCLIP-FT, Train-S3 / Test-S3&S4"]
    assert one[["train", "test", "metric", "value", "n", "classes"]].tolist() == [
        "Train-S3", "Test-S3&S4", "macro_f1", 66.14, 34040, 33,
    ]  # fmt: skip
    rank = cells.loc["Table 12, cross-source, SigLIP"]
    assert (rank["model"], rank["unit"], rank["train"], rank["test"]) == ("SigLIP", "rank", "", "")
    assert cells["n"].isna().sum() == 4 and set(cells.loc[cells["table"] == "Table 8", "metric"]) == {"accuracy"}


def test_test_sets_are_those_of_table_2():
    """Not by definition, but both are printed: where they differ the audit must say so, and this test be changed."""
    values = published.values().set_index("place")["value"]
    sizes = pd.read_csv(FOLDER / "test_sets.csv")
    for row in sizes.itertuples():
        test = published.layout(row.table, "columns").at[row.column, "test"]
        assert values[f"{row.table}/test samples/{row.column}"] == row.samples == values[f"2/{test}/annotations"]
        assert values[f"{row.table}/test classes/{row.column}"] == row.classes == values[f"2/{test}/classes"]


@needs_paper
@pytest.mark.parametrize("number", range(1, 14))
def test_cells_stand_in_their_row_of_the_paper(number):
    lines = PAPER.read_text(encoding="utf-8").split("\n")
    at = {n: next(i for i, line in enumerate(lines) if line.startswith(f"Table {n}:")) for n in range(1, 14)} | {0: 0}
    region = slice(at[number], at.get(number + 1)) if number in ABOVE else slice(at[number - 1], at[number])
    printed = [[plain(field) for field in line.split("\t")] for line in lines[region]]
    table, columns = published.table(number), published.layout(number, "columns")
    wide = table.pivot(index="row", columns="column", values="printed")
    wide = wide.reindex(index=table["row"].unique(), columns=[c for c in columns.index if c in set(table["column"])])
    wide = wide.fillna("N/A")
    wide = wide.rename(index=published.layout(number, "rows")["head"].to_dict())
    wide = wide.rename(index=lambda row: re.sub("^test ", "Number of test ", row))
    if number == 5:  # the paper prints its models as columns
        wide = wide.rename(columns=columns["head"]).T
    if number == 2:  # crosses and ticks, once for several rows
        wide, printed = wide.drop(columns=["setting", "source_genus_filter"]), [row[2:] for row in printed]
    missing = [row for row, *cells in wide.itertuples() if [plain(field) for field in (row, *cells)] not in printed]
    assert missing == []


@needs_paper
def test_figures_of_the_text_stand_in_the_text():
    whole, figures = plain(PAPER.read_text(encoding="utf-8")), published.values().query("table.isna()")
    figures = figures[~figures["place"].str.partition("/")[0].isin(published.FURTHER)]
    figures = figures[~figures["section"].str.startswith("Table")]  # said in a table, and only named here
    assert [row.place for row in figures.itertuples() if plain(row.printed) not in whole] == []


@needs_paper
def test_words_that_the_audit_quotes_stand_in_the_text():
    whole = plain(PAPER.read_text(encoding="utf-8"))
    quotes = [quote for said in audit.STATED.values() for quote in re.findall("“(.+?)”", said)]
    assert len(quotes) == len(audit.STATED) and [quote for quote in quotes if plain(quote) not in whole] == []


def test_each_value_leads_to_a_chapter_and_a_place_on_it():
    sources = {
        path.stem: "\n".join(cell.source for cell in nbformat.read(path, 4).cells)
        for path in (TOP / "notebooks").glob("*.ipynb")
    }
    led = {place: published.reproduced_in(place) for place in published.values()["place"]}
    assert [place for place, page in led.items() if page is None] == []
    for page in set(led.values()):
        chapter, anchor = page.split(".html#")
        assert f'"{anchor}"' in sources[chapter], page
    assert led["3/ViT/train_s1_test_s1"] == "40_supervised.html#supervised-table-3"
    assert led["review/per_pair"] != led["review/all/labels"] and led["1/ReefNet/images"] != led["1/Eilat/images"]
    assert published.reproduced_in("nothing") is None


def test_a_table_is_shown_as_printed_and_each_of_its_values_is_a_link():
    shown = printed_table(3).markup
    assert shown.count("<td class=number><a href=") == 72 and "<strong>84.06</strong>" in shown
    assert "<u>82.88</u>" in shown and "ViT-B (MAE pretrained)" in shown and shown.count("second best</span>") == 6
    foot = shown.partition("<tfoot>")[2]
    assert "40,881" in foot and "best" not in foot
    first = printed_table(1)
    assert "<sup>a</sup></td>" in first.markup and first.markup.endswith("count of hard corals.</p>")
    assert "~12,000" in first.markup and "<td><a" in first.markup  # words stand on the left
    assert "<strong>8.89</strong>" in printed_table(12).markup and "<strong>0.5820</strong>" in printed_table(6).markup


def test_figures_of_the_text_are_shown_with_their_precision():
    found = published.values().set_index("place", drop=False)
    found.loc["dataset/images", ["qualifier", "step"]] = ["over", 1000.0]
    shown = printed_figures(found.loc[["dataset/images", "normalisation/mean/red"]], "name", "caption").markup
    assert "&gt; 334,162</a>" in shown and "0.385</a>" in shown and "334,162 images" in shown
    every = printed_figures(found[found["printed"].str.contains("[$]")], "name", "caption").markup.partition("<tbody>")[
        2
    ]
    assert "2 × 10⁻⁵" in every and "~925K genus" in every and "γ=2" in every and not re.search(r"[$\\{}]", every)
    assert [as_printed(*row).text for row in ((26.4, 0.01), (-1, 1, "+"), (np.nan, 1))] == ["26.40", "−1", "–"]


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
    assert list(published.texts("funnel"))[:2] == ["listed", "named"] and published.value("funnel/listed/3.1") == 1366
    assert "listed/3.1" not in published.texts("funnel")
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
