"""Tables of the book: for the eye, the ear, the keyboard and the spreadsheet; and labels that are text everywhere."""

import ast
import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
import pandas as pd
import pytest

from reefcore import figures
from reefcore.errors import ReefcoreError
from reefcore.figures import style
from reefcore.workflow import notebook, page, pdf

TOP = Path(__file__).resolve().parents[1]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd()",
    "-2+3+cmd|' /C calc'!A0",
    "{{7*7}}",
    "$x^2_$",
    "[a](javascript:alert(1))",
    "`code` **bold** | cell |",
    "\u202egro.reef\u202c \u200f",
    "\u0634\u0639\u0627\u0628",
    "long " + "x" * 295,
    "</table></div><h1>out</h1>",
]


class Elements(HTMLParser):
    """Names of the elements of a page, its attributes and its text."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def harmless(markup):
    """Fail where something of a label became more than text; return the parsed page."""
    found = Elements(markup)
    assert not {"script", "h1", "iframe", "b"} & set(found.names), found.names
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    sources = [value for name, value in found.attributes if name in ("src", "href")]
    assert not [value for value in sources if not re.match(r"data:(image|text)/|#", value)], sources
    return found


def csv_of(markup):
    data = base64.b64decode(re.search(r"data:text/csv;base64,([^\"]+)", markup)[1]).decode()
    return pd.read_csv(io.StringIO(data), dtype="str", keep_default_na=False)


def column(markup, place):
    """Return cells of a column as (text, room behind it)."""
    rows = re.findall(r"<tr>(.*?)</tr>", markup.partition("<tbody>")[2], re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)[place] for row in rows]
    return [(re.sub("<[^>]*>", "", cell), (re.findall('data-room="([^"]*)"', cell) or [""])[0]) for cell in cells]


# --------------------------------------------------------------------------------------------------------------- looks


def test_points_stand_below_each_other():
    table = pd.DataFrame({"a": list("wxyz"), "n": [1234.0, 5.25, -0.5, np.nan]})
    cells = column(figures.show_table(table, "t", "c", "p", {"n": ",.2f"}).markup, 1)
    assert cells == [("1,234.00", ""), ("5.25", ""), ("−0.50", ""), ("–", ".00")]
    cells = column(figures.show_table(table, "t", "c", "p").markup, 1)
    assert cells[0] == ("1,234", ".0") and cells[1] == ("5.2", "")
    texts = ["63.52", "5.1 [4.0, 10.2]", "+58", "–"]
    lined = pd.DataFrame({"a": list("wxyz"), "n": [style.Shown(text, text) for text in texts]})
    behind = [
        re.sub(r"^\D*[\d,]*", "", text) + room
        for text, room in column(figures.show_table(lined, "t", "c", "p").markup, 1)
    ]
    widths = {"".join(sorted(re.sub(r"\d", "0", text.replace("\xa0", " ")))) for text in behind[:3]}
    assert len(widths) == 1  # behind the whole part each has the same signs, seen or not


def test_a_small_p_is_below_a_bound_and_a_rounded_zero_has_no_sign():
    table = pd.DataFrame({"a": list("xyz"), "p": [0.0001, 0.0005, 1.0], "gain": [-0.01, 0.2, 0.0]})
    markup = figures.show_table(table, "t", "c", "n", {"p": "p", "gain": "+.1f"}).markup
    assert column(markup, 1) == [("&lt; 0.001", ""), ("0.001", ""), ("1.000", "")]
    assert [text for text, _ in column(markup, 2)] == ["0.0", "+0.2", "0.0"]


def test_the_best_is_said_and_equals_are_not():
    table = pd.DataFrame({"model": list("abcd"), "loss": [0.3, 0.1, 0.1, 0.2], "same": 1.0, "all": 9.0})
    markup = figures.show_table(
        table, "t", "c", "p", {"loss": ".1f"}, best={"loss": "lowest", "same": "highest"}, foot=1
    ).markup
    said = [re.sub("<[^>]*>", "", text).strip() for text, _ in column(markup, 1)]
    assert said == ["0.3 second best", "0.1 best", "0.1 best", "0.2"]  # the last row is no entry
    assert "best" not in column(markup, 2)[0][0]


def test_the_best_of_each_test_set_is_said_and_one_alone_is_not():
    table = pd.DataFrame({"test": ["W", "S3", "W", "S2"], "recall": [0.1, 0.3, 0.2, 0.4]})
    markup = style.show_table(table, "t", "c", "p", {"recall": ".1f"}, best={"recall": "highest per test"}).markup
    assert [said for said, _ in column(markup, 1)] == ["0.1 second best", "0.3", "0.2 best", "0.4"]


def test_rows_have_heads_truth_is_words_and_names_of_columns_are_said():
    table = pd.DataFrame({"label": ["a"], "kept": [True], "ci_low": [0.5], "Mean_of X": [1]})
    markup = figures.show_table(table, "t", "c", "p").markup
    assert '<th scope="row">a</th>' in markup and "<td>yes</td>" in markup
    assert re.findall(r'scope="col"[^>]*>([^<]*)', markup) == ["label", "kept", "low", "Mean_of X"]
    days = figures.show_table(pd.DataFrame({"d": pd.to_datetime(["2024-01-02"])}), "t", "c", "p").markup
    assert ">2024-01-02<" in days


def test_a_table_without_rows_has_its_heads_on_the_left():
    assert "number" not in figures.show_table(pd.DataFrame({"why": []}, dtype=object), "none", "None.", "n").markup


def test_of_many_rows_the_first_are_shown_and_all_are_in_the_file():
    table = pd.DataFrame({"n": range(style.ROWS + 50), "a": "x"})
    table.loc[len(table)] = [7, "all"]
    markup = figures.show_table(table, "t", "Many.", "p", foot=1).markup
    assert len(column(markup, 0)) == style.ROWS + 1 and column(markup, 1)[-1][0] == "all"
    assert "Many. The first 200 of 250 rows are shown here; the data have all." in markup
    assert len(csv_of(markup)) == 251 and '<col class="published">' not in markup


def test_a_first_column_of_sentences_is_marked_as_a_whole():
    table = pd.DataFrame({"said": ["many words " * 5, "few"], "n": [1, 2]})
    markup = figures.show_table(table, "t", "c", "p").markup
    assert markup.count("class=long") == 3 and '<th scope="row" class=long>few' in markup
    reproduced = figures.show_table(pd.DataFrame({"published": [1], "value": [2]}), "t", "c", "p").markup
    assert ">this profile<" in reproduced and "<col class=published><col>" in reproduced


def test_a_region_is_named_in_short():
    markup = figures.show_table(pd.DataFrame({"n": [1]}), "t", "Words " * 60, "p").markup
    name = re.search(r'aria-label="([^"]*)"', markup)[1]
    assert len(name) <= 90 and name.endswith("…") and 'tabindex="0"' in markup


# -------------------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("text", HOSTILE)
def test_a_label_is_text_in_every_part_of_a_table_and_figure(text):
    table = pd.DataFrame({text: [text, "b"], "n": [-1.5, 2]})
    data = pd.DataFrame({"label": [text], "n": [-1.5]})
    drawn = figures.long_tail(pd.Series({text: 9, "b": 3}), minimum=2)
    for shown in (
        figures.show_table(table, text, f"Of {text}.", text),
        figures.show(drawn, text, f"Of {text}.", f"Bars of {text}.", text, data),
        figures.say(text),
    ):
        found = harmless(shown.markup)
        seen = style._UNSEEN.sub("\ufffd", " ".join(text.split()))
        assert seen in found.text or "<a download" not in shown.markup
    cells = csv_of(figures.show_table(table, "t", "c", "p").markup)
    risky = text[0] in "=-"
    assert cells.iloc[0, 0] == f"'{text}" * risky + text * (not risky) and cells["n"][0] == "-1.5"
    assert next(iter(cells)) == f"'{text}" * risky + text * (not risky)


def drawings():
    counts = pd.Series(range(len(HOSTILE), 0, -1), index=HOSTILE)
    square = pd.DataFrame(np.eye(len(HOSTILE)), index=HOSTILE, columns=HOSTILE)
    cover = pd.DataFrame({"label": HOSTILE, "count": 3, "percent": 8.0, "ci_low": 6.0, "ci_high": 10.0, "images": 4})
    colours = pd.DataFrame({"source": HOSTILE, "red": 50, "green": 90.0, "blue": range(len(HOSTILE))})
    yield figures.long_tail(counts, minimum=2)
    yield figures.matrices({HOSTILE[5]: square}, HOSTILE[5])
    yield figures.cover_bars(cover, "label")
    yield figures.source_colours(colours)
    yield figures.bars(pd.DataFrame({"label": HOSTILE, "n": counts.array, "kind": HOSTILE}), "label", "n", "kind")
    yield figures.stacked(cover.assign(site=HOSTILE[0]), "label", "site")
    yield figures.photo_sheet([np.full((20, 30, 3), 90, "uint8")] * len(HOSTILE), HOSTILE)
    yield figures.ecoregion_bars(pd.DataFrame({"ecoregion": HOSTILE, "sources": 1, "images": 2, "annotations": 900}))


@pytest.mark.parametrize("place", range(8))
def test_labels_are_drawn_as_letters(place):
    drawn = next(figure for number, figure in enumerate(drawings()) if number == place)
    markup = figures.show(drawn, "n", "c", "a", "p").markup
    if svg := re.search(r"svg\+xml;base64,([^\"]+)", markup):
        tree = ElementTree.fromstring(base64.b64decode(svg[1]))
        assert not [one for one in tree.iter() if one.tag.endswith(("script", "foreignObject"))]


def test_log_axes_count_in_plain_numbers():
    drawn = figures.long_tail(pd.Series({"a": 90_000, "b": 3}))
    figures.show(drawn, "n", "c", "a", "p")
    drawn.draw_without_rendering()
    assert "10,000" in [text.get_text() for text in drawn.axes[0].get_xticklabels()]


# ------------------------------------------------------------------------------------------------------------- browser


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    try:
        path = pdf.chromium()
    except ReefcoreError:
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as started:
        one = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


def site_page(body):
    script, look = ((TOP / "book" / "_static" / f"tables.{kind}").read_text() for kind in ("js", "css"))
    hidden = ".visually-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden } "
    hidden += ".pst-scrollable-table-container { overflow-x: auto }"
    head = f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><style>{hidden}{look}</style>'
    return f'{head}<body><article class="bd-article">{body}</article><script>{script}</script>'


def opened(browser, html, **options):
    tab = browser.new_page(**options)
    tab.set_default_timeout(20_000)
    dialogs = []
    tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    tab.set_content(html)
    return tab, dialogs


def test_the_browser_sorts_filters_and_scrolls_by_keyboard(browser):
    table = pd.DataFrame(
        {
            "genus": [f"Genus {n}" for n in range(7)] + HOSTILE[:2],
            "recall": [0.5, np.nan, -3.0, 1200.0, 63.5, 7.0, 0.25, 2.0, 9.0],
            **{f"wide column {n}": "some words" for n in range(8)},
        }
    )
    plain = (
        "<div class='pst-scrollable-table-container'><table><tr>"
        + "<td>wide cell of words</td>" * 30
        + "</tr></table></div>"
    )
    body = (
        figures.show_table(table, "t", "Same.", "p").markup
        + figures.show_table(table.head(3), "u", "Same.", "p").markup
    )
    tab, dialogs = opened(browser, site_page(body + plain), viewport={"width": 360, "height": 640})
    first = "[...document.querySelectorAll('#t tbody tr')].map(row => row.cells[1].textContent)"
    button = tab.locator("#t thead button").nth(1)
    assert button.bounding_box()["height"] >= 24 and button.bounding_box()["width"] >= 24
    button.focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate(first) == ["−3", "0.2", "0.5", "2", "7", "9", "63.5", "1,200", "–"]
    assert tab.locator("#t thead th").nth(1).get_attribute("aria-sort") == "ascending"
    tab.keyboard.press("Enter")
    assert tab.evaluate(first)[0] == "1,200" and tab.evaluate(first)[-1] == "–"
    assert tab.locator("#t [aria-sort]").count() == 1 and tab.locator("#t [aria-sort=descending]").count() == 1
    field = tab.get_by_label("Filter the rows")
    assert field.count() == 1  # a table of three rows has none
    field.fill("GENUS 63.5")
    assert tab.get_by_role("status").inner_text() == "1 of 9 rows"
    field.fill("nowhere")
    assert tab.get_by_role("status").inner_text() == "No row has “nowhere”."
    field.press("Escape")
    assert field.input_value() == "" and tab.locator("#t tbody tr:visible").count() == 9
    names = [one.get_attribute("aria-label") for one in tab.get_by_role("region").all()]
    assert len(set(names)) == len(names) == 3  # the plain table, too
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.locator("#t").focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("document.querySelector('#t').scrollLeft > 0")
    assert not dialogs and tab.locator("#t img, #t script").count() == 0
    tab.close()


def test_points_are_below_each_other_on_the_screen(browser):
    table = pd.DataFrame({"a": list("xyz"), "n": [style.Shown(t, t) for t in ("63.52", "5.1 [4.0, 10.2]", "1,058")]})
    tab, _ = opened(browser, site_page(figures.show_table(table, "t", "c", "p").markup))
    places = tab.evaluate(
        """[...document.querySelectorAll('#t td.number')].map(cell => {
            const text = cell.firstChild, range = document.createRange();
            range.setStart(text, 0);
            range.setEnd(text, text.data.replace(/[.].*/, '').length);
            return range.getBoundingClientRect().right;
        })"""
    )
    assert max(places) - min(places) < 0.6
    tab.close()


def test_without_scripts_and_in_print_all_of_it_is_there(browser):
    table = pd.DataFrame({"n": range(60), "a": "word"})
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.set_content(site_page(figures.show_table(table, "t", "c", "p").markup))
    assert tab.locator("#t tbody tr").count() == 60 and tab.locator("button, input").count() == 0
    context.close()
    tab, _ = opened(browser, site_page(figures.show_table(table, "t", "c", "p").markup))
    tab.emulate_media(media="print")
    assert not tab.locator("input").is_visible()
    assert tab.evaluate("(box => box.scrollHeight - box.clientHeight)(document.querySelector('#t'))") <= 1
    tab.close()


# ---------------------------------------------------------------------------------------------------------------- site


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A site all of whose names are hostile: labels, images, sites, transects, the source and the site itself."""
    folder, draw = tmp_path_factory.mktemp("hostile"), np.random.default_rng(0)
    names = [text.replace("/", "∕") for text in HOSTILE]
    rows = [(f"{names[i % 6]}{i % 8}.jpg", *draw.integers(400, size=2), HOSTILE[i % len(HOSTILE)]) for i in range(240)]
    points = pd.DataFrame(rows, columns=["Name", "Row", "Column", "Label"])
    points["Label"] = points["Label"].where(points.index % 3 > 0, "Porites")
    points["site"], points["transect"] = HOSTILE[1], [HOSTILE[i % 3] for i in range(240)]
    points["date"] = np.where(np.arange(240) % 2, "2023-05-06", "2024-05-06")
    points.to_csv(folder / "given.csv", index=False)
    name = HOSTILE[0].replace("'", "''")
    (folder / "site.yaml").write_text(
        f"name: '{name}'\nannotations: given.csv\nsource: '{HOSTILE[1]}'\nsite_column: site\n"
        "transect_column: transect\ndate_column: date\nresamples: 50\n"
    )
    return folder / "site.yaml"


def test_a_site_of_hostile_names_is_a_page_of_text(hostile, browser):
    sections = []
    for path in sorted((TOP / "notebooks" / "site").glob("*.ipynb")):
        declared = notebook.parameters(notebook.read(path))
        known = {name: one.default for name, one in declared.items()} | {"profile": str(hostile)}
        known |= {"draws": 50} if "draws" in known else {}
        executed = nbformat.read(path, 4)
        for cell in executed.cells:
            if cell.cell_type != "code" or "parameters" in cell.metadata.tags:
                continue
            body = ast.parse(cell.source).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), path.stem, "exec"), known)
            if last and (shown := eval(compile(ast.Expression(last.value), path.stem, "eval"), known)) is not None:
                markup = shown._repr_html_()
                harmless(markup)
                cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": markup})]
        sections.append(page.section(path.stem, executed, [], known["project"].notice))
    for one in sections:
        for text in one.files.values():
            assert not re.search(r"(?m)(^|,)\"?[=@\t]", text)
    site = known["project"].profile.name
    assert site == HOSTILE[0]
    tab, dialogs = opened(browser, page.write(site, known["project"].notice, "", sections, [site]))
    tab.wait_for_timeout(200)
    assert tab.title() == HOSTILE[0] and tab.locator("h1").inner_text() == HOSTILE[0]
    assert not dialogs and tab.locator("script, img:not([src^='data:'])").count() == 0
    text = tab.locator("main").inner_text()
    for label in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[4], HOSTILE[5]):
        assert label in text, label
    tab.close()


def test_published_numbers_stand_under_each_other_also_beside_unknown_ones():
    table = pd.DataFrame({"run": ["a", "b"], "published": ["unknown", "89.1 %"], "value": [0.5, 0.25]})
    for published, kind in ((["unknown", "89.1 %"], " class=number"), (["unknown", "Yes"], "")):
        markup = figures.show_table(table.assign(published=published), "t", "Said.", "", {"value": ".1%"}).markup
        assert f'<th scope="col"{kind}>published</th>' in markup and f"<td{kind}>{published[1]}</td>" in markup
