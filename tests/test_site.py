"""The rendered book: built from scratch with warnings as errors, and every check of it finds what it is for."""

import importlib.util
import json
import shutil
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import TOP

from reefcore.errors import ReefcoreError
from reefcore.workflow import book, links

INTRO = """\
# A small book

It has a formula, $\\frac{1}{n} \\sum_i r_i$, and cites {cite:t}`reefnet2025`. Its one chapter says enough words.

$$
\\alpha = 0.5
$$

```{bibliography}
```
"""
HOME = "/home" + "/someone"  # in two parts: this file too may not name a folder of a machine
SHOWN = '<p id="here">Something.</p><p class="provenance"><em>Only a test.</em> profile tiny · seed 4</p>'


@pytest.fixture
def small(checkout):
    """A book of an introduction and one executed chapter."""
    shutil.copy(TOP / "_config.yml", checkout.folder)
    for name in ("_ext", "_static", "_templates", "references.bib"):
        (shutil.copytree if (TOP / "book" / name).is_dir() else shutil.copy)(
            TOP / "book" / name, checkout.folder / "book" / name
        )
    toc = "format: jb-book\nroot: intro\nchapters:\n  - file: how_to_read\n  - file: chapters/10_small\n"
    (checkout.folder / "book" / "how_to_read.md").write_text(
        "# Reading\n\n(profiles)=\n\n## Profiles\n\nOf these the badge of a chapter says which it is, and no more."
    )
    (checkout.folder / "book" / "_toc.yml").write_text(toc)
    (checkout.folder / "book" / "intro.md").write_text(INTRO)
    source = checkout.notebook("10_small", "1")
    content = json.loads(source.read_text())
    content["cells"][0]["source"] = (
        "# A chapter\n\nIt says something in more than ten words, as every page of a book should do."
    )
    content["cells"][2]["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": {"text/html": SHOWN}}]
    checkout.chapters.mkdir()
    (checkout.chapters / "10_small.ipynb").write_text(json.dumps(content))
    record = {"key": "k", "ingredients": {}, "outputs": {}, "profile": "tiny", "seed": 4, "seconds": 1.5}
    (checkout.chapters / "10_small.json").write_text(json.dumps({**record, "notice": "Only a test."}))
    return checkout


def test_a_book_is_built_once_is_right_and_fails_as_often_as_it_is_wrong(small):
    with open(small.folder / "book" / "_toc.yml", "a") as toc:
        toc.write("  - file: status\n")
    html = book.build()
    report = book.check(html)
    assert report["problems"] == []
    assert report["pages"] == 6 and report["images"] >= 2 and 1e5 < report["bytes"] < 1e6
    assert (html / "chapters" / "10_small.json").exists()
    assert book.times() == ["chapters/10_small                   1.5 s"]
    before = (html / "index.html").stat().st_mtime_ns
    assert book.build() == html and (html / "index.html").stat().st_mtime_ns == before

    (small.folder / "book" / "intro.md").write_text(INTRO + "\n[nowhere](nothing.md)\n")
    for _ in range(2):
        with pytest.raises(ReefcoreError, match=r"did not build the book:\n  book/intro.md:\d+: WARNING: .*nothing.md"):
            book.build()
    assert not html.exists()
    with pytest.raises(ReefcoreError, match="there is no rendered book here"):
        book.check()
    (small.chapters / "10_small.ipynb").unlink()
    with pytest.raises(ReefcoreError, match="the chapter chapters/10_small was not run"):
        book.build()


@pytest.fixture
def site(small):
    """A rendered book without the theme: as little as passes the checks."""
    folder = small.folder / "html"
    (folder / "chapters").mkdir(parents=True)
    shutil.copy(small.chapters / "10_small.json", folder / "chapters")
    page = (
        "<html><head>{head}</head><article><h1>Page</h1><p>one two three four five six seven eight</p>{body}</article>"
    )
    line = '<p class="provenance">Only a test. profile tiny · seed 4</p>'
    link = '<a href="chapters/10_small.html#here">chapter</a> <a href="https://doi.org/10.1000/home/a">away</a>'
    (folder / "index.html").write_text(page.format(head="", body=link))
    (folder / "intro.html").write_text(page.format(head='<link rel="stylesheet" href="a.css">', body=link))
    (folder / "how_to_read.html").write_text(page.format(head="", body="and nine words or ten"))
    (folder / "a.css").write_text("p { background: url(data:image/png;base64,AAAA) }")
    away = links.links(*links.setting(), "notebooks/10_small.ipynb")
    line += f'<a href="{away["binder"]}">Binder</a> <a href="{away["colab"]}">Colab</a>'
    body = f'<p id="here"></p><img src="../a.css" alt="a figure">{line}'
    (folder / "chapters" / "10_small.html").write_text(page.format(head="", body=body))
    return folder


def test_a_good_site_passes(site):
    assert book.check(site)["problems"] == []
    assert book.check(site)["summary"].startswith("4 pages, 6 links, 1 images, 0.0 MB: no problems")


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        (
            "index.html",
            "</head>",
            '<script src="https://cdn.org/a.js"></script></head>',
            "loads https://cdn.org/a.js from",
        ),
        ("index.html", "</head>", '<link rel="preload" href="//cdn.org/a.woff"></head>', "loads //cdn.org/a.woff from"),
        ("index.html", "</head>", "<style>@import 'https://f.org/x';</style></head>", "loads https://f.org/x from"),
        (
            "index.html",
            "</head>",
            "<script>import('https://f.org/x.js')</script></head>",
            "a script loads from elsewhere",
        ),
        ("index.html", "<h1>", '<iframe src="https://v.org/"></iframe><h1>', "loads https://v.org/ from elsewhere"),
        ("index.html", "<h1>", '<img alt="a" srcset="https://v.org/a.png 2x"><h1>', "loads https://v.org/a.png"),
        (
            "a.css",
            "data:image/png;base64,AAAA",
            "https://f.org/f.png",
            "a.css: loads https://f.org/f.png from elsewhere",
        ),
        ("intro.html", "a.css", "b.css", "b.css leads nowhere"),
        ("intro.html", "10_small.html", "20_small.html", "chapters/20_small.html#here leads nowhere"),
        ("intro.html", "#here", "#there", "chapters/10_small.html#there leads to no such place"),
        ("index.html", "<h1>", '<p id="x"></p><p id="x"></p><h1>', "index.html: the id x stands twice"),
        ("chapters/10_small.html", ' alt="a figure"', "", "the image ../a.css has no alternative text"),
        ("chapters/10_small.html", ' alt="a figure"', ' alt=" "', "has no alternative text"),
        (
            "chapters/10_small.html",
            "<h1>",
            '<div class="output traceback">x</div><h1>',
            "1 cells show an error or a warning",
        ),
        ("chapters/10_small.html", "<h1>", "Traceback (most recent call last)<h1>", "shows a traceback"),
        ("chapters/10_small.html", "<h1>", f"{HOME}/data<h1>", f"names a folder of this machine: {HOME}"),
        ("chapters/10_small.html", "profile tiny", "profile sample", "does not say 'profile tiny'"),
        ("chapters/10_small.html", "Only a test.", "", "does not say 'Only a test.'"),
        ("chapters/10_small.html", "provenance", "other", "has 0 lines of provenance instead of one"),
        ("chapters/10_small.json", "ingredients", "nothing", "its machine-readable record is missing"),
        (
            "index.html",
            "https://doi.org/10.1000/",
            "http://doi.org/",
            "is not an address of the form https://host/path",
        ),
        ("index.html", "doi.org/10.1000", "doi.org/abc", "is not of the form that addresses of doi.org have"),
        ("index.html", "doi.org/10.1000", "example.org", "leads to example.org, which is not in the list"),
        ("index.html", "https://doi.org/10.1000/home/a", "data:text/csv,a", "data:text/csv,a stands in the page"),
        ("index.html", "<p>one", "<h3>Deep</h3><p>one", "index.html: headings jump from level 1 to 3"),
        ("index.html", "<p>one", "<h1>Again</h1><p>one", "index.html: it has 2 first headings"),
        ("intro.html", "<h1>", "<h2>First</h2><h1>", "it has 1 first headings, and starts with one of level 2"),
        ("intro.html", "<h1>Page", f"<!--{'x' * 1_500_000}--><h1>Page", "intro.html: it weighs 1.50 MB with what it"),
        ("a.css", "p {", f"/*{'x' * 1_500_000}*/ p {{", "intro.html: it weighs 1.50 MB with what it loads"),
        (
            "chapters/10_small.html",
            "<h1>",
            '<figure class="reef" id="sole"><figcaption>None</figcaption></figure><a href="10_small.ipynb"></a><h1>',
            "sole does not link to its notebook",
        ),
        ("chapters/10_small.html", "mybinder.org/v2/gh/", "mybinder.org/v2/", "does not link to Binder"),
        ("chapters/10_small.html", "mybinder.org/v2/gh/", "mybinder.org/v2/", "addresses of mybinder.org have"),
        ("intro.html", "one two three four five six seven eight", "", "intro.html: says next to nothing"),
    ],
)
def test_what_is_wrong_is_found(site, file, old, new, problem):
    text = (site / file).read_text()
    assert old in text
    (site / file).write_text(text.replace(old, new))
    problems = book.check(site)["problems"]
    assert [text for text in problems if problem in text], problems


def test_a_figure_with_its_notebook_and_a_heavy_explorer_are_good(site):
    page = site / "chapters" / "10_small.html"
    (site / "10_small.ipynb").write_text("{}")
    shown = '<div class="reef-table" id="t"><table><caption><a href="../10_small.ipynb">n</a></caption></table></div>'
    page.write_text(page.read_text().replace("<h1>Page</h1>", f"<h1>Page</h1>{shown}"))
    (site / "14_explorer.html").write_text((site / "intro.html").read_text() + f"<!--{'x' * 2_900_000}-->")
    assert book.check(site)["problems"] == []


def test_a_page_that_is_missing_is_found(site):
    (site / "intro.html").unlink()
    assert "intro: the table of contents names it, and it is not there" in book.check(site)["problems"]


def test_a_folder_of_this_very_checkout_is_found(site, small):
    (site / "data.json").write_text(json.dumps({"path": f"{small.folder}/x"}))
    assert any("data.json: names a folder of this machine" in text for text in book.check(site)["problems"])


def test_formulas_are_images_that_say_what_they_are():
    spec = importlib.util.spec_from_file_location("mathtext", TOP / "book" / "_ext" / "mathtext.py")
    mathtext = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mathtext)
    drawing, depth = mathtext.svg(r"\frac{a}{b} < 1")
    assert ElementTree.fromstring(drawing).tag.endswith("svg") and depth > 0
    assert mathtext.svg(r"\frac{a}{b} < 1") == (drawing, depth)
    assert r'alt="\frac{a}{b} &lt; 1"' in mathtext.image(r"\frac{a}{b} < 1")
