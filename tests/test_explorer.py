"""The explorer adds up what other chapters count; its page filters as pandas does, by hand, keyboard and address."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import TOP

from reefcore import classes, explorer, geography, metrics, review, spreadsheets
from reefcore.errors import ReefcoreError
from reefcore.figures import explorer as draw
from reefcore.workflow.pdf import chromium

sys.path.insert(0, str(TOP / "book" / "_ext"))
EVIL = ["<script>alert(1)</script>", "=cmd()", "</script><img src=x onerror=alert(1)>"]
GENERA = ["Porites", "Acropora", "Montipora", *EVIL[1:]]


@pytest.fixture(scope="module")
def survey():
    """Six sources in three ecoregions, one without a position; two of them tested, hardly reviewed all."""
    rng, n = np.random.default_rng(0), 900
    names = ["alpha", "alpha two", "beta", "gamma", "delta", EVIL[0]]
    regions = ["Hawaii", "Hawaii", "Fiji Islands", "Fiji Islands", "Bahamian", None]
    source = rng.integers(0, 6, n)
    label = np.where(source == 4, 0, rng.choice(5, n, p=[0.4, 0.3, 0.1, 0.1, 0.1]))
    frame = pd.DataFrame(
        {
            "annotation_id": [f"{i:016x}" for i in range(n)],
            "source": pd.Series(names, dtype="str").iloc[source].to_numpy(),
            "image": [f"{i % 7}.jpg" for i in range(n)],
            "label": pd.Series(GENERA, dtype="str").iloc[label].to_numpy(),
            "rank": "genus",
            "ecoregion": pd.Series(regions, dtype="str").iloc[source].to_numpy(),
            "latitude": np.array([21, 21.5, -17, -18, 25, np.nan])[source],
            "longitude": np.array([-157, -156, 178, -179, -77, np.nan])[source],
        }
    )
    realms = {"Hawaii": "East", "Fiji Islands": "Centre", "Bahamian": "Atlantic"}
    frame["province"], frame["realm"] = frame["ecoregion"], frame["ecoregion"].map(realms)
    seen = rng.choice(n, 300, replace=False)
    verdicts = rng.choice(["correct", "incorrect", "low_quality"], 300, p=[0.7, 0.2, 0.1])
    reviews = pd.DataFrame({"annotation_id": frame["annotation_id"].iloc[seen].to_numpy(), "verdict": verdicts})
    test = frame[frame["source"].isin(["alpha", "gamma"])]
    rows = pd.DataFrame({"run_id": "vit-S3-S3", "annotation_id": test["annotation_id"], "y_true": test["label"]})
    rows["y_pred"] = np.where(
        rng.random(len(rows)) < 0.5, rows["y_true"], rng.choice([*GENERA[:3], "Favia"], len(rows))
    )
    photos = frame.drop_duplicates(["source", "image"])[["source", "image"]]
    photos = photos.assign(width=10, height=10, megapixels=0.1, aspect=1.0, camera=None)
    photos[["red", "green", "blue"]] = rng.uniform(0, 255, (len(photos), 3))
    return {"annotations": frame, "reviews": reviews, "photos": photos, "rows": rows}


@pytest.fixture(scope="module")
def tables(survey):
    return explorer.tables(*survey.values())


class TestTables:
    def test_every_point_is_counted_once(self, tables, survey):
        frame = survey["annotations"]
        assert tables["cells"]["points"].sum() == len(frame) and len(tables["sources"]) == 6
        by = explorer.by_source(tables).set_index("source")
        assert by["points"].to_dict() == frame["source"].value_counts().to_dict()
        assert by["photos"].to_dict() == frame.groupby("source")["image"].nunique().to_dict()
        taxa = explorer.by_taxon(tables).set_index("taxon")
        assert taxa.loc[GENERA, "sources"].to_dict() == frame.groupby("label")["source"].nunique().to_dict()
        assert taxa.loc["Favia", ["points", "sources", "tested"]].tolist() == [0, 0, 0]  # answered, never there
        assert by.loc[EVIL[0], "ecoregion"] == geography.NO_PLACE and np.isnan(by.loc[EVIL[0], "latitude"])

    @pytest.mark.parametrize(("by", "key"), [("source", "source"), ("taxon", "label")])
    def test_agreement_is_that_of_the_review(self, tables, survey, by, key):
        known = review.agreement(survey["reviews"], survey["annotations"], [key]).set_index(key)
        table = getattr(explorer, f"by_{by}")(tables).set_index(by).loc[known.index]
        for mine, theirs in {"agreement": "agreement", "agreement_low": "ci_low", "reviewed": "reviewed"}.items():
            np.testing.assert_allclose(table[mine], known[theirs])

    def test_recall_and_confusions_are_those_of_the_chapter_on_classes(self, tables, survey):
        rows = survey["rows"]
        known = classes.per_class(rows, pd.Series(dtype=int)).set_index("label")
        table = explorer.by_taxon(tables).set_index("taxon").loc[known.index]
        np.testing.assert_allclose(table["recall"], known["recall"])
        np.testing.assert_allclose(table["recall_high"], known["ci_high"])
        assert table["taken_for"].fillna("").tolist() == known["taken_for"].fillna("").tolist()
        tested = table[table["tested"] > 0]
        assert tested["recall"].mean() == pytest.approx(metrics.score(rows["y_true"], rows["y_pred"])["macro_recall"])
        mine = explorer.confusions(tables).head(5).rename(columns={"taxon": "truth", "answer": "taken for"})
        pd.testing.assert_frame_equal(mine, classes.confused(rows, 5), check_dtype=False)

    def test_what_is_not_there_is_missing_and_no_zero(self, survey):
        alone = explorer.tables(survey["annotations"])
        for table in (explorer.by_source(alone), explorer.by_taxon(alone)):
            assert table[["agreement", "recall", "recall_low"]].isna().all(axis=None)
        assert explorer.by_source(alone)["red"].isna().all() and explorer.confusions(alone).empty
        assert draw.payload(alone, "", "notice")["answers"]["points"] == []

    def test_ones_own_taxa_stand_beside(self, tables, survey):
        own = (
            survey["annotations"]
            .query("source == 'alpha'")
            .assign(label=lambda t: t["label"].replace("=cmd()", "Pavona"))
        )
        table = explorer.beside(own, tables, ["Hawaii"]).set_index("taxon")
        assert table.loc["Porites", ["sources", "sources near"]].tolist() == [6, 2]
        assert table.loc["Pavona", ["points", "sources near"]].tolist() == [0, 0] and np.isnan(
            table.loc["Pavona", "recall"]
        )
        assert table["your points"].sum() == len(own)

    def test_the_data_of_a_page_stay_small(self):
        rng = np.random.default_rng(0)
        sources, taxa = [f"A source with a name {i}" for i in range(85)], [f"Taxon number {i}" for i in range(125)]
        cells = pd.MultiIndex.from_product([sources, taxa], names=["source", "taxon"]).to_frame(index=False)
        cells[explorer.CELL] = rng.integers(0, 9999, (len(cells), len(explorer.CELL)))
        answers = pd.MultiIndex.from_product([sources[:14], taxa[:39], taxa[:39]], names=["source", "taxon", "answer"])
        answers = answers.to_frame(index=False).sample(6000, random_state=0).assign(points=7)
        places = pd.DataFrame({"source": sources, "latitude": 10.0, "longitude": 20.0})
        places = places.assign(ecoregion="An ecoregion", province="A province", realm="A realm", photos=1000)
        places[["red", "green", "blue"]] = 100.4
        made = {"sources": places, "taxa": pd.DataFrame({"taxon": taxa, "rank": "genus", "family": "Family"})}
        shown = draw.explore(made | {"cells": cells, "answers": answers}, "Run.", "Notice.")
        assert len(shown.markup.encode()) < 500_000

    def test_the_picture_has_a_mark_per_taxon_that_was_reviewed_and_tested(self, tables):
        (axes,) = draw.agreement_and_recall(explorer.by_taxon(tables)).axes
        assert len(axes.collections[-1].get_offsets()) == len(GENERA)


class TestExtension:
    @pytest.fixture
    def app(self, tmp_path, monkeypatch):
        import explorer as extension

        assert extension.__file__.startswith(str(TOP / "book")), "the extension, not the library"
        monkeypatch.setattr(extension, "vega", lambda cache: "bundle")
        added = []
        app = SimpleNamespace(outdir=str(tmp_path), srcdir=str(TOP / "book"), added=added, extension=extension)
        app.add_css_file = app.add_js_file = lambda name, **_: added.append(name)
        return app

    def test_only_pages_that_ask_for_it_load_the_scripts(self, app, tmp_path):
        app.extension.add(app, "a", "page.html", {"body": "<p>text</p>"}, None)
        assert app.added == [] and not list(tmp_path.iterdir())
        app.extension.add(app, "b", "page.html", {"body": '<div data-needs="vega"></div>'}, None)
        assert app.added == ["explorer.css", "vega.js", "explorer.js"]
        assert {path.name for path in (tmp_path / "_static").iterdir()} == set(app.added)


# ------------------------------------------------------------------------------------------------- in a real browser


@pytest.fixture(scope="module")
def browser():
    try:
        program = chromium()
    except ReefcoreError:
        pytest.skip("there is no Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = playwright.chromium.launch(executable_path=program, args=quiet)
        yield started
        started.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory, tables):
    """A page in a folder, as the book has it."""
    import explorer as extension

    folder = tmp_path_factory.mktemp("site")
    for name in extension.OWN:
        (folder / name).write_bytes((extension.HERE / name).read_bytes())
    (folder / "vega.js").write_text(extension.vega(TOP / "build"), encoding="utf-8")
    shown = draw.explore(tables, "Run vit-S3-S3.", "A notice.", without="all-map")
    (folder / "page.html").write_text(
        '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><title>Explorer</title>'
        '<link rel="stylesheet" href="explorer.css"><style>[data-theme=dark] body {color: #eee}</style>'
        f'<script defer src="vega.js"></script><script defer src="explorer.js"></script><h1>Page</h1>{shown.markup}'
        '<section><h2>All</h2><figure id="all-map"><figcaption>everything</figcaption></figure></section>',
        encoding="utf-8",
    )
    return folder / "page.html"


@pytest.fixture
def open_page(browser, site):
    contexts, wrong = [], []

    def opened(hash_="", **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(("file:", "blob:", "data:")) else wrong.append(asked.url),
        )
        page.goto(site.as_uri() + hash_)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def choose(page, name, value):
    page.get_by_label(name).select_option(value)


def names(page, table):
    return page.locator(f"[aria-label={table}] tbody th").all_inner_texts()


def said(page):
    return page.get_by_role("status").inner_text()


class TestPage:
    def test_a_genus_leaves_its_sources_and_counts_as_pandas_does(self, open_page, survey):
        page, frame = open_page(), survey["annotations"]
        choose(page, "Genus or taxon", "Acropora")
        here = frame[frame["label"] == "Acropora"]
        assert names(page, "sources") == here["source"].value_counts(sort=True).index.tolist()
        assert names(page, "taxa") == ["Acropora"]
        photos = len(here[["source", "image"]].drop_duplicates())
        judged = survey["reviews"][survey["reviews"]["annotation_id"].isin(here["annotation_id"])]
        rows = survey["rows"][survey["rows"]["y_true"] == "Acropora"]
        right = (rows["y_pred"] == "Acropora").mean()
        assert said(page) == (
            f"{here['source'].nunique()} of 6 sources, {photos} photos, {len(here)} points of Acropora; "
            f"review agreement {(judged['verdict'] == 'correct').mean():.0%} of {len(judged)} verdicts; "
            f"model recall {right:.0%} of {len(rows)} test points."
        )

    def test_place_and_genus_filter_together(self, open_page, survey):
        page, frame = open_page(), survey["annotations"]
        choose(page, "Ecoregion", "Fiji Islands")
        assert sorted(names(page, "sources")) == ["beta", "gamma"]
        choose(page, "Genus or taxon", "Porites")
        here = frame[(frame["ecoregion"] == "Fiji Islands") & (frame["label"] == "Porites")]
        assert (
            f"2 of 6 sources, {len(here[['source', 'image']].drop_duplicates())} photos, {len(here)} points of Porites"
            in said(page)
        )
        rows = survey["rows"][survey["rows"]["annotation_id"].isin(frame.query("source == 'gamma'")["annotation_id"])]
        wrong = rows[
            (rows["y_true"] != rows["y_pred"]) & ((rows["y_true"] == "Porites") | (rows["y_pred"] == "Porites"))
        ]
        pairs = page.locator("[aria-label=confusions] tbody tr").all()
        assert len(pairs) == len(wrong[["y_true", "y_pred"]].drop_duplicates())
        assert sum(int(row.locator("td").nth(1).inner_text()) for row in pairs) == len(wrong)
        page.get_by_role("button", name="Reset").click()
        assert said(page).startswith("6 of 6 sources")

    def test_an_empty_choice_says_so(self, open_page):
        page = open_page()
        choose(page, "Ecoregion", "Bahamian")
        choose(page, "Genus or taxon", "Acropora")  # there is none
        assert said(page) == "No source has this: Bahamian, Acropora. Choose less, or reset."
        assert names(page, "sources") == []

    def test_a_wider_place_lets_go_of_a_narrower_one_that_it_does_not_hold(self, open_page):
        page = open_page()
        choose(page, "Ecoregion", "Fiji Islands")
        choose(page, "Realm", "East")
        assert page.get_by_label("Ecoregion").input_value() == "" and sorted(names(page, "sources")) == [
            "alpha",
            "alpha two",
        ]

    def test_a_whole_name_is_one_source_and_a_part_is_all_that_have_it(self, open_page):
        page = open_page()
        field = page.get_by_label("Source (part of name)")
        field.fill("alp")
        assert sorted(names(page, "sources")) == ["alpha", "alpha two"]
        field.fill("alpha")
        assert names(page, "sources") == ["alpha"]

    def test_by_keyboard_a_name_is_taken_and_let_go(self, open_page):
        page = open_page()
        button = page.locator("[aria-label=taxa] tbody button").filter(has_text="Montipora")
        button.focus()
        page.keyboard.press("Enter")
        assert "points of Montipora" in said(page)
        focused = page.evaluate(
            "[document.activeElement.textContent, document.activeElement.getAttribute('aria-pressed')]"
        )
        assert focused == ["Montipora", "true"]
        page.keyboard.press("Enter")
        assert "points of 5 taxa" in said(page)

    def test_a_head_sorts_its_table(self, open_page, tables):
        page = open_page()
        head = page.locator("[aria-label=sources] thead button").filter(has_text="review agreement")
        head.focus()
        page.keyboard.press("Enter")
        order = explorer.by_source(tables).sort_values("agreement", ascending=False, kind="stable")["source"]
        assert names(page, "sources")[0] == order.iloc[0]
        assert page.locator("[aria-label=sources] th[aria-sort=descending]").count() == 1

    def test_the_choice_stands_in_the_address_and_back_undoes_it(self, open_page):
        page = open_page()
        choose(page, "Ecoregion", "Hawaii")
        choose(page, "Genus or taxon", "Porites")
        before = said(page)
        again = open_page(page.evaluate("location.hash"))
        assert said(again) == before and again.get_by_label("Genus or taxon").input_value() == "Porites"
        page.go_back()
        page.wait_for_function("!location.hash.includes('taxon')")
        assert (
            page.get_by_label("Genus or taxon").input_value() == ""
            and page.get_by_label("Ecoregion").input_value() == "Hawaii"
        )
        assert said(open_page("#taxon=Nowhere&colour=7")).startswith("6 of 6")

    def test_names_are_text_and_files_run_nothing(self, open_page, tables):
        page = open_page()
        page.locator(".explorer-chart svg").first.wait_for()
        assert EVIL[0] in names(page, "sources") and set(EVIL[1:]) <= set(names(page, "taxa"))
        assert page.locator("img").count() == 0
        with page.expect_download() as download:
            page.get_by_role("button", name="Download as CSV").nth(1).click()
        read = pd.read_csv(download.value.path())
        assert "'=cmd()" in read["taxon"].tolist() and EVIL[2] in read["taxon"].tolist()
        known = explorer.by_taxon(tables).set_index("taxon")["agreement"]
        mine = read.set_index("taxon")["review agreement"]
        assert mine["Porites"] == pytest.approx(known["Porites"])

    def test_the_guard_of_files_is_the_library_s(self, open_page):
        texts = ["=1", "+1", "-1.5e3", "-x", "@a", "\ta", "＝1", "a=1", "+5 m", "-"]
        pattern = spreadsheets.FORMULA
        page = open_page()
        source = (TOP / "book/_ext/explorer/explorer.js").read_text().split("const FORMULA = ")[1].split(";")[0]
        found = page.evaluate(f"(texts) => texts.map((text) => {source}.test(text))", texts)
        assert found == [bool(pattern.match(text)) for text in texts]

    def test_charts_follow_the_choice_and_the_theme(self, open_page):
        page = open_page()
        drawing = page.locator(".explorer-chart svg").first
        drawing.wait_for()
        filled = '.mark-symbol.role-mark path:is([fill^="#"], [fill^="rgb"])'
        count = f"document.querySelector('.explorer-chart').querySelectorAll('{filled}').length"
        page.wait_for_function(f"{count} === 5")  # of six, one has no position
        choose(page, "Colour of the map", "recall")
        page.wait_for_function("document.querySelectorAll('.explorer-chart path[fill=\"#9e9e9e\"]').length === 3")
        assert page.evaluate(count) == 5  # those that were not tested are grey, not gone
        choose(page, "Ecoregion", "Hawaii")
        page.wait_for_function(f"{count} === 2")
        ink = "document.querySelector('.explorer-chart svg text').getAttribute('fill')"
        before = page.evaluate(ink)
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.wait_for_function(f"{ink} !== {json.dumps(before)}")
        assert page.evaluate(ink) == "rgb(238, 238, 238)"

    def test_without_scripts_and_on_paper_everything_stands_there(self, open_page):
        page = open_page(java_script_enabled=False)
        assert page.locator(".explorer-off").is_visible() and page.get_by_text("everything", exact=True).is_visible()
        page = open_page()
        assert not page.get_by_text("everything", exact=True).is_visible()
        page.emulate_media(media="print")
        assert page.get_by_text("everything", exact=True).is_visible() and not page.get_by_role("status").is_visible()

    def test_a_phone_does_not_scroll_sideways(self, open_page):
        page = open_page(viewport={"width": 360, "height": 740})
        page.locator(".explorer-chart svg").first.wait_for()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 360

    def test_it_can_be_used_at_once(self, open_page):
        page = open_page()
        page.wait_for_function("performance.getEntriesByName('explorer').length")
        ready = page.evaluate("performance.getEntriesByName('explorer')[0].startTime")
        assert ready < 5000  # 1 s on a machine with nothing else to do
