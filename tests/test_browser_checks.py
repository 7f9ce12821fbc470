"""The checks of the book in a browser can fail: each finds what is wrong with a page made for it."""

import functools
import sys

import pytest
from conftest import TOP

from reefcore.errors import ReefcoreError
from reefcore.workflow import pdf

try:
    pdf.chromium()
    sys.path.append(str(TOP / "checks"))
    browser = pytest.importorskip("browser")
except ReefcoreError as error:
    pytest.skip(str(error), allow_module_level=True)

DOT = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='40' height='40'%3E"
    "%3Cpath d='M0 0L40 40' stroke='black'/%3E%3C/svg%3E"
)
GOOD = (
    f'<h1>A reef</h1><p>Corals and <a href="#here">points</a>.</p><img alt="a line" src="{DOT}"><p id="here">Here.</p>'
)
STYLE = """@media (prefers-color-scheme: dark) {
body { background: #111; color: #eee } a { color: #9cf } img { background: #fff } }"""


@pytest.fixture(scope="module")
def started():
    with browser.browser() as one:
        yield one


def page_of(folder, started, body, style=STYLE, head="<title>Page</title>", lang=' lang="en"', then=browser.visit):
    """Look at a page made of this."""
    page = (
        f"<!DOCTYPE html><html{lang}><head><meta charset='utf-8'>{head}"
        f"<meta name='viewport' content='width=device-width'><style>{style}</style></head>"
        f"<body><main><article>{body}</article></main></body></html>"
    )
    (folder / "page.html").write_text(page)
    with browser.serve(folder) as base:
        report = then(started, base + "page.html")
        if then is browser.visit:
            report["lost"] = browser.lost(folder, base, {"page.html": report})["page.html"]
        return report


@pytest.fixture
def look(tmp_path, started):
    return functools.partial(page_of, tmp_path, started)


def test_a_page_without_faults_has_none(look):
    report = look(GOOD)
    assert report["found"] == report["lost"] == [] and 0 < report["bytes"] < 5000 and report["paint"] > 0
    assert look(GOOD, then=browser.walk) == []


BAD = {
    "other-host: asks for http://example.org": '<script>new Image().src = "http://example.org/a.png"</script>',
    "other-host: asks for https://example.org/s.css": '<link rel="stylesheet" href="https://example.org/s.css">',
    "other-host: <link": '<link rel="preconnect" href="https://example.org">',
    "other-host: a socket": '<script>new WebSocket("ws://example.org/")</script>',
    "console: error, oh": '<script>console.error("oh")</script>',
    "exception: no": '<script>throw "no"</script>',
    "dialog: 1": "<script>alert(1)</script>",
    "request: ": '<img alt="gone" src="gone.png">',
    "image-alt: ": f'<img src="{DOT}">',
    "image-alt: the name of a file": f'<img alt="plot-1.png" src="{DOT}">',
    "one-h1: 2": "<h1>Another</h1>",
    "headings-in-order: <h4>": "<h4>Deep</h4>",
    "positive-tabindex: ": '<a href="#here" tabindex="2">first</a>',
    "axe color-contrast: ": '<p style="color: #bbb; background: #fff">pale</p>',
    "axe button-name: ": "<button></button>",
    "axe label: ": '<input type="text" style="min-height: 24px">',
    "axe aria-required-children: ": '<div role="list"><p role="note">one</p></div>',
    "sideways-scroll: ": '<div style="width: 700px">wide</div>',
    "text-size: 8 px": '<p style="font-size: 8px">small</p>',
    "touch-target: ": '<button style="height: 15px; padding: 0">row</button>',
    "dark-figure: ": f'<img alt="a line" style="background: none" src="{DOT}">',
}


@pytest.fixture(scope="module")
def found(tmp_path_factory, started):
    return page_of(tmp_path_factory.mktemp("bad"), started, GOOD + "".join(BAD.values()))["found"]


@pytest.mark.parametrize("rule", BAD)
def test_a_fault_is_found(rule, found):
    assert any(text.startswith(rule) for text in found), found


def test_a_page_without_a_language_or_title_or_dark_theme_is_found(look):
    found = look(GOOD, style="", head="", lang="")["found"]
    assert {"lang: <html> has none", "title: <title> is empty"} <= set(found)
    assert "dark: the page stays light" not in found  # nothing is painted: the browser's own background
    assert "dark: the page stays light" in look(GOOD, style="body { background: #fff }")["found"]


@pytest.mark.parametrize(
    ("link", "finding"),
    [
        ("gone.html", "broken-link: gone.html"),
        ("#gone", "broken-anchor: page.html#gone"),
        ("http://example.org/", "external-link: http://example.org/"),
        ("https://example.org/a paper", None),
        ("javascript:alert(1)", "external-link: javascript:alert(1)"),
        ("mailto:a@example.org", None),
    ],
)
def test_links_lead_somewhere(link, finding, look):
    assert look(f'{GOOD}<a href="{link}">one</a>')["lost"] == ([finding] if finding else [])


def test_an_anchor_made_by_a_script_counts(look):
    late = '<a href="#late">late</a><script>document.querySelector("h1").id = "late"</script>'
    assert look(GOOD + late)["lost"] == []


def test_what_loads_late_weighs_too(look, tmp_path):
    (tmp_path / "large.svg").write_text(f"<svg xmlns='http://www.w3.org/2000/svg'><!-- {'x' * 200_000} --></svg>")
    late = '<div style="height: 9000px"></div><img alt="late" loading="lazy" width="9" height="9" src="large.svg">'
    assert look(GOOD + late)["bytes"] > 200_000


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ('<a href="#here" onfocus="this.blur()">never</a>', "keyboard: never reached <a> never"),
        ('<a href="#here" style="outline: none">dim</a>', "focus-visible: nothing shows the focus of <a> dim"),
    ],
)
def test_what_the_keyboard_does_not_reach_or_show_is_found(body, finding, look):
    assert finding in look(GOOD + body, then=functools.partial(browser.walk, limit=20))


def test_a_missing_browser_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CHROMIUM", "nowhere")
    with pytest.raises(ReefcoreError, match=r"^nowhere: no Chromium was found; install it \(Debian: .*CHROMIUM\.$"):
        pdf.chromium()
