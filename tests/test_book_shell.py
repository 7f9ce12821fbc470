"""The shell of the site on a tiny book: badge, dates, published numbers, and nothing that no page needs."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reefcore import published

TOP = Path(__file__).resolve().parents[1]
CONF = """
project = "ReefNet Companion"
html_title = project
extensions = ["myst_parser", "sphinx_design", "sphinx_book_theme", "shell"]
myst_enable_extensions = ["colon_fence", "substitution"]
html_theme = "sphinx_book_theme"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_sidebars = {"**": ["sbt-sidebar-nav.html"]}
html_context = {"default_mode": "light"}
html_copy_source = html_use_index = False
root_doc = "intro"
"""
NOTICE = "Sample profile: synthetic reefs & <more>."
PAGE = "# One chapter\n\n**Reproduces** nothing.\n\nIt says what a reader wants to know, in a sentence. And more.\n"
TOC = "root: intro\nparts:\n  - caption: Models\n    chapters:\n      - file: chapters/40_a\n        sections:\n"
TOC += "          - file: how_to_read\n"


@pytest.fixture(scope="module")
def shell():
    spec = importlib.util.spec_from_file_location("shell", TOP / "book" / "_ext" / "shell.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Render an introduction, a chapter with its record, and a page of prose."""
    from sphinx.cmd.build import build_main

    book = tmp_path_factory.mktemp("shell") / "book"
    (book / "chapters").mkdir(parents=True)
    for name in ("_templates", "_static"):
        shutil.copytree(TOP / "book" / name, book / name)
    (book / "conf.py").write_text(CONF)
    (book / "_toc.yml").write_text(TOC)
    intro = (TOP / "book" / "intro.md").read_text().split("**What is here")[0]
    intro = re.sub(r":link: .*\n:link-type: doc\n", "", intro)
    (book / "intro.md").write_text(f"{intro}\n```{{toctree}}\nchapters/40_a\nhow_to_read\n```\n")
    (book / "chapters" / "40_a.md").write_text(PAGE)
    (book / "how_to_read.md").write_text("# How to read\n\n## Profiles\n\nSome.\n")
    record = {"profile": "sample", "notice": NOTICE, "start": "2026-11-30T10:00:00+00:00"}
    (book / "chapters" / "40_a.json").write_text(json.dumps(record))
    sys.path.insert(0, str(TOP / "book" / "_ext"))
    try:
        assert build_main(["-q", "-W", "-b", "html", str(book), str(book / "html")]) == 0
    finally:
        sys.path.remove(str(TOP / "book" / "_ext"))
    return book / "html"


def test_a_chapter_says_under_its_title_whose_numbers_it_shows_and_since_when(site):
    page = (site / "chapters" / "40_a.html").read_text()
    found = re.search(r"</h1>\s*<p class=\"reef-badge\">(.*?)</p>", page, re.DOTALL)[1]
    assert (
        ">Sample profile, synthetic</a>" in found
        and 'title="Sample profile: synthetic reefs &amp; &lt;more&gt;."' in found
    )
    assert 'href="../how_to_read.html#profiles"' in found and '<time datetime="2026-11-30">' in found
    assert "Text changed" not in found  # there is no history here
    assert '<span class="reef-part">Models</span>' in page and "<title>One chapter - ReefNet Companion</title>" in page
    assert '<meta name="description" content="It says what a reader wants to know, in a sentence." />' in page
    assert page.count('name="viewport"') == 1 and page.count("<h1") == 1 and '<html lang="en"' in page
    assert "reef-badge" not in (site / "intro.html").read_text()


def test_the_numbers_of_the_landing_page_are_the_published_ones(site):
    page = (site / "intro.html").read_text()
    shares = [float(share) for share in re.findall(r"--share: ([\d.]+)%", page)]
    best = [published.table(3).query("column == @name").query("unit == 'percent'")["value"].max() for name in
            ("train_s1_test_s1", "train_s3_test_s3s4")]  # fmt: skip
    assert shares[:2] == pytest.approx(best, abs=0.05) and shares == sorted(shares, reverse=True) and len(shares) == 3
    assert f"{published.value('dataset/coral_annotations'):,.0f} points on hard corals" in page
    assert "the best of 10 models (Table 3) and of 7 (Table 5)" in page


def test_nothing_is_loaded_that_no_page_needs(site):
    page = (site / "chapters" / "40_a.html").read_text()
    loaded = re.findall(r'(?:src|href)="([^"]*_static[^"?]*)', page) + re.findall(r'src="([^"]*searchindex[^"]*)', page)
    assert not [one for one in loaded if re.search("fontawesome|bootstrap|searchindex", one)]
    files = {(site / "chapters" / one).resolve() for one in loaded}
    assert all(file.is_file() for file in files) and sum(file.stat().st_size for file in files) < 400_000
    rest = [path for path in site.rglob("*") if re.search(r"fontawesome|\.map$|locales|\.ttf|\.woff", str(path))]
    assert rest == []
    assert "searchindex.js" in (site / "search.html").read_text()


def test_a_style_sheet_keeps_what_is_used(shell):
    css = "/*! L */.a,.b:not(.z) p{x:1}@media (w){.c{y:2}.b{y:3}}@media print{.c{q:1}}@font-face{font-family:F}"
    css += 'h1[id="x.y"]{z:4}'
    kept = '/*! L */.b:not(.z) p{x:1}@media (w){.b{y:3}}h1[id="x.y"]{z:4}'
    assert shell.prune(css, {"b"}) == kept and shell.prune(kept, {"b"}) == kept


def test_a_number_and_its_percent_stay_on_one_line_in_text_only(shell):
    body = '<p title="5 %">At 95 % of <b>4.5\n%</b>, a % b</p><PRE>7 %</PRE><code>8 <i>9 %</i></code>'
    body += "<script>1 % 2</script> 3 %"
    kept = body.replace("95 %", "95\xa0%").replace("4.5\n%", "4.5\xa0%").replace(" 3 %", " 3\xa0%")
    assert shell.unbroken(body) == kept


def test_parts_are_of_sections_too(shell, tmp_path):
    (tmp_path / "_toc.yml").write_text(TOC)
    assert shell.parts(tmp_path / "_toc.yml") == {"chapters/40_a": "Models", "how_to_read": "Models"}
    assert shell.parts(tmp_path / "none.yml") == {}


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_the_date_of_a_text_is_that_of_its_last_change(shell, tmp_path):
    assert shell.text_dates(tmp_path) == {}
    (tmp_path / "book").mkdir()

    def commit(name, day):
        (tmp_path / "book" / name).write_text(day)
        when = f"{day}T12:00:00+00:00"
        for arguments in (["add", "."], ["commit", "-qm", "x", "--date", when]):
            who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
            subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, env={"GIT_COMMITTER_DATE": when})

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    commit("a.md", "2026-01-02")
    commit("b c.md", "2026-01-03")
    assert shell.text_dates(tmp_path) == {"book/a.md": "2026-01-02", "book/b c.md": "2026-01-03"}
    (tmp_path / "book" / "a.md").write_text("changed since")
    assert shell.text_dates(tmp_path) == {"book/b c.md": "2026-01-03"}
