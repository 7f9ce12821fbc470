"""The words of the book: glossary and the links to it, references, how a page is cited, and what captions name."""

import csv
import importlib.util
import re
import subprocess
import sys

import nbformat
import pytest
import yaml
from conftest import TOP

import reefcore

BOOK = TOP / "book"
NOTEBOOKS = sorted((TOP / "notebooks").glob("*.ipynb"))
PROSE = [path for path in sorted(BOOK.rglob("*.md")) if not {"_build", "chapters"} & {*path.parts}]
PROSE = [path for path in PROSE if path.name != "status.md"]


def extension(name):
    """Load an extension of the book."""
    spec = importlib.util.spec_from_file_location(name, BOOK / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


glossary = extension("glossary")
cite = extension("cite")


def words_of(path):
    """Return the markdown of a page."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown")


# --------------------------------------------------------------------------------------------------------- glossary

PAGE = """\
# A glossary

```{glossary}
macro recall
balanced accuracy
  The mean over the classes of the `recall`.

recall
  What was found of a class, see [the page](page).

run
  One training.
  % links: none

S1
  A scheme.

bleaching
  Corals turn white.
  % links: bleaching, bleached
```
"""
TEXT = """\
# Recall in a heading

The macro
recall, the recalls, *balanced accuracy* and Recall; run; s1 and S1, vit-S1; overrecall, `S1`.

A [link with recall](glossary.md) and a **Bleached** coral, bleaching again.

## And a card

```
recall
```

"""


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """The page of a tiny book, written with and without its glossary."""
    pages = {}
    for name, written in (("with", PAGE), ("without", None)):
        folder = tmp_path_factory.mktemp(name)
        (folder / "conf.py").write_text('extensions = ["myst_parser", "glossary"]\nroot_doc = "page"\n')
        toc = "```{toctree}\nglossary\n```\n" if written else ""
        (folder / "page.md").write_text((TEXT + toc) if written else TEXT.replace("(glossary.md)", "(page.md)"))
        if written:
            (folder / "glossary.md").write_text(written)
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", "-b", "html", str(folder), str(folder / "out")]
        done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(BOOK / "_ext")})
        assert done.returncode == 0, done.stderr
        pages[name] = (folder / "out" / "page.html").read_text()
    return pages


def links_of(page):
    """List what the links to terms say, and where they lead."""
    found = r'<a class="reference internal" href="glossary.html#term-([\w-]+)"><span class="[^"]*\bterm">([^<]+)<'
    return re.findall(found, page)


def test_the_first_use_of_each_term_is_a_link_and_no_other(linked):
    assert links_of(linked["with"]) == [
        ("macro-recall", "macro\nrecall"), ("recall", "recalls"), ("S1", "S1"), ("bleaching", "Bleached"),
    ]  # fmt: skip


def test_headings_code_links_and_longer_words_stay_as_they_are(linked):
    page = linked["with"]
    assert "<h1>Recall in a heading" in page and "overrecall" in page and "vit-S1" in page
    assert 'href="glossary.html"><span class="doc">link with recall' in page.replace("std std-doc", "doc")


def test_a_book_without_a_glossary_has_no_links(linked):
    assert "std-term" not in linked["without"]


def test_spellings_are_those_of_the_terms_or_those_listed():
    found = glossary.spellings(PAGE)
    assert found == {
        "balanced accuracy": "macro recall", "macro recall": "macro recall", "bleaching": "bleaching",
        "bleached": "bleaching", "recall": "recall", "S1": "S1",
    }  # fmt: skip
    assert next(iter(found)) == "balanced accuracy" and glossary.pattern({}) is None


def entries():
    """Return the groups of the glossary: of each entry its terms and its definition."""
    blocks = re.findall(r"^```\{glossary\}\n(.*?)^```$", words_of(BOOK / "glossary.md"), re.MULTILINE | re.DOTALL)
    return [
        [
            (
                [line for line in entry.splitlines() if line[0] != " "],
                " ".join(line.strip() for line in entry.splitlines() if line[0] == " "),
            )
            for entry in re.split(r"\n\n", block.strip())
        ]
        for block in blocks
    ]


def test_the_glossary_has_two_groups_in_order_and_no_term_twice():
    groups = entries()
    assert len(groups) == 2 and all(len(group) >= 30 for group in groups)
    for group in groups:
        first = [terms[0].lower() for terms, _ in group]
        assert first == sorted(first)
    every = [term for group in groups for terms, _ in group for term in terms]
    assert len(every) == len(set(every))
    found = glossary.spellings(words_of(BOOK / "glossary.md"))
    assert found["genera"] == "genus" and "run" not in found and found["Test-W"] == "W"


def test_each_definition_is_short_and_leads_to_a_page_of_the_book():
    toc = (BOOK / "_toc.yml").read_text()
    for group in entries():
        for terms, text in group:
            leads = re.findall(r"\]\(([\w/]+)\)", text)
            assert leads and all(f"file: {page}\n" in toc for page in leads), terms
            assert len(text.partition("% links")[0].split()) < 70, terms


# ------------------------------------------------------------------------------------------------------- references


def test_each_work_that_is_cited_is_listed_and_each_that_is_listed_is_cited():
    listed = re.findall(r"^@\w+\{([\w-]+),", (BOOK / "references.bib").read_text(), re.MULTILINE)
    cited = set()
    for path in [*NOTEBOOKS, *PROSE]:
        for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", words_of(path)):
            cited |= {key.strip() for key in keys.split(",")}
    assert len(listed) == len(set(listed)) and set(listed) == cited


def test_the_book_has_one_list_of_references():
    assert [path.name for path in PROSE if "{bibliography}" in words_of(path)] == ["references.md"]
    assert "file: references\n" in (BOOK / "_toc.yml").read_text()


def test_chapters_that_stand_in_a_report_have_no_roles_that_it_would_show_raw():
    for path in sorted((TOP / "notebooks" / "site").glob("*.ipynb")):
        assert not re.search(r"\{[\w:]+\}`", words_of(path)), path.name


def test_entries_have_what_a_reader_needs_to_find_the_work():
    for key, (raw, shown) in cite._entries(BOOK / "references.bib").items():
        assert re.search(r"author\s*=", raw) and re.search(r"year\s*=\s*\{\d{4}\}", raw) and "title" in raw, key
        assert "others" not in shown and "{" not in shown, key
        for doi in re.findall(r"doi\s*=\s*\{([^}]*)\}", raw):
            assert re.fullmatch(r"10\.\d{4,9}/\S+", doi)
    assert "Raine et al." in cite._entries(BOOK / "references.bib")["raine2025"][1]


# ----------------------------------------------------------------------------------------------------------- citing

RECORD = {"code": {"label": "abc123"}, "profile": "sample", "start": "2026-01-02T03:04:05+00:00"}


def cited(page, title="Costs & <gains>", record=None, address=""):
    """Return the section of a page, as text and as what BibTeX reads of it."""
    from html import unescape

    from pybtex.database import parse_string

    book = yaml.safe_load((TOP / "CITATION.cff").read_text())
    made = cite.section(page, title, book, record, cite._entries(BOOK / "references.bib"), address)
    bibtex = unescape(re.search(r"<pre[^>]*><span></span>(.*?)</pre>", made, re.DOTALL)[1])
    return made, parse_string(bibtex, "bibtex").entries


def test_a_chapter_is_cited_with_its_code_profile_date_and_paper():
    made, entries = cited("chapters/24_colour", record=RECORD, address="https://example.org/24.html")
    assert "Costs &amp; &lt;gains&gt;. In: <em>ReefNet Companion</em>" in made and "<gains>" not in made
    assert "Code abc123, profile sample, run on 2026-01-02." in made and 'id="cite-this-page"' in made
    own = entries["reefnet-companion:24_colour"]
    assert own.fields["title"] == "{Costs \\& <gains>}" and own.fields["url"] == "https://example.org/24.html"
    assert reefcore.__version__ in own.fields["howpublished"] and set(entries) == {own.key, "reefnet2025"}


@pytest.mark.parametrize(
    "page, papers",
    [
        ("chapters/61_frame_decision", ["raine2025"]), ("chapters/70_numbers", ["reefnet2025", "raine2025"]),
        ("intro", ["reefnet2025", "raine2025"]), ("how_to_read", []), ("formats/cpce", []), ("chapters/84_cover", []),
    ],
)  # fmt: skip
def test_a_page_names_the_paper_whose_numbers_it_shows(page, papers):
    assert cite.papers(page) == papers
    made, entries = cited(page)
    assert list(entries)[1:] == papers and ("own reef" in made) == ("84" in page)


def test_pages_of_one_name_in_two_folders_have_two_keys():
    assert set(cited("formats/index")[1]) | set(cited("index")[1]) == {
        f"reefnet-companion:{n}" for n in ("formats-index", "index")
    }


def test_a_page_without_a_record_or_with_an_old_one_is_cited_all_the_same():
    assert "Code" not in cited("how_to_read")[0]
    assert "Code" not in cited("chapters/24_colour", record={"key": "k", "profile": "sample"})[0]


def test_the_citation_file_is_valid_and_says_what_the_package_says():
    book = yaml.safe_load((TOP / "CITATION.cff").read_text())
    assert book["cff-version"] == "1.2.0" and book["type"] == "software" and book["message"] and book["title"]
    assert book["version"] == reefcore.__version__ and re.fullmatch(r"\d{4}-\d\d-\d\d", str(book["date-released"]))
    for one in [book, *book["references"]]:
        assert one["authors"] and one["title"] and one["type"] in {"software", "article"}
        assert all({"name"} == set(author) or "family-names" in author for author in one["authors"])
        for identifier in one.get("identifiers", []):
            assert identifier["type"] in {"doi", "url", "swh", "other"} and identifier["value"]
    shown = re.sub(r"[{}]", "", (BOOK / "references.bib").read_text())
    assert all(paper["title"] in shown and f"{paper['year']}" in shown for paper in book["references"])


# --------------------------------------------------------------------------------------------------------- captions

with open(TOP / "data" / "published" / "items.csv", encoding="utf-8", newline="") as stream:
    ITEMS = [row for row in csv.DictReader(stream) if row["chapter"]]


def named(text):
    """List the tables and figures that a text names: "Tables 8, 9 and 10" are three."""
    found = set()
    for kind, numbers in re.findall(r"\b(Table|Figure)s? (\d+(?:(?:, | and | or )\d+)*)", text):
        found |= {f"{kind} {number}" for number in re.findall(r"\d+", numbers)}
    return found


def test_names_of_tables_and_figures_are_found():
    assert named("Tables 8, 9 and 10, as Figure 2 says (Table 3)") == {
        "Table 8", "Table 9", "Table 10", "Figure 2", "Table 3",
    }  # fmt: skip


@pytest.mark.parametrize("row", ITEMS, ids=lambda row: f"{row['paper']} {row['item']}".replace(" ", "-"))
def test_each_item_of_the_papers_is_named_on_its_pages(row):
    for chapter in row["chapter"].split():
        cells = nbformat.read(TOP / "notebooks" / f"{chapter}.ipynb", 4).cells
        if row["paper"] != "ReefNet":
            assert any("raine2025" in cell.source for cell in cells if cell.cell_type == "markdown"), chapter
            continue
        code = [cell.source for cell in cells if cell.cell_type == "code" and re.search(r"\bshow", cell.source)]
        headings = [line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
        headings = [line for line in headings if line.startswith("#")]
        main = chapter == row["chapter"].split()[0] and row["anchor"]
        captions = [source for source in code if f'"{row["anchor"]}"' in source] if main else [*code, *headings]
        assert row["item"] in named("\n".join(captions)), (chapter, row["anchor"])
