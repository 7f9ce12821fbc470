"""The book as one PDF, from a site of three pages."""

import json

import pytest

from reefcore import cli
from reefcore.errors import ReefcoreError
from reefcore.workflow import pdf

pypdf = pytest.importorskip("pypdf")
pytest.importorskip("playwright")
try:
    pdf.chromium()
except ReefcoreError as error:
    pytest.skip(str(error), allow_module_level=True)

NOTICE = "Sample profile: synthetic reefs."
HEAD = '<html><head><link rel="stylesheet" href="_static/s.css?v=1"></head><body><nav>NAVIGATION</nav><article>'
PAGES = {
    "intro": """<h1>The reef</h1><p>See <a href='chapters/10_a.html#far'>far</a>,
<a href='https://example.org/x'>away</a>, <a href='chapters/10_a.csv'>data</a>.</p><img alt='' src='_static/i.svg'>""",
    "chapters/10_a": f"""<h1>First: "quoted" <b>&lt;one&gt;</b></h1>
<details class='hide above-input'><pre>HIDDEN</pre></details><details><summary>More</summary>OPENED</details>
<button>PRESS</button><div style='height: 1500px'></div><h2 id='far'>Far below</h2>
<figure class='reef'><img alt='x' loading='lazy' src='i.svg'><figcaption>Caption
<a download href='a.csv'>data as CSV</a> ·
<a download href='a.ipynb'>notebook</a> · code 1234</figcaption></figure>
<div class='reef-table' style='overflow: auto; width: 300px'><table><tr>
{"<td>wide-cell-99</td>" * 22}</tr></table></div>
<section id='run-this-page'><h2>Run</h2></section>""",
    "last": "<h1>Last</h1><p><a href='intro.html'>back</a></p>",
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    top = tmp_path_factory.mktemp("book")
    (top / "book/html/chapters").mkdir(parents=True)
    (top / "book/html/_static").mkdir()
    (top / "_config.yml").write_text("title: A Companion\nauthor: The authors\n")
    (top / "book/_toc.yml").write_text(
        "root: intro\nparts:\n- caption: The data\n  chapters:\n  - file: chapters/10_a\n- chapters:\n  - file: last\n"
    )
    for name, body in PAGES.items():
        (top / f"book/html/{name}.html").write_text(f"{HEAD}{body}</article></body></html>")
    for place in ("_static", "chapters"):
        (top / f"book/html/{place}/i.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>")
    record = {
        "key": "",
        "ingredients": {},
        "outputs": {},
        "profile": "sample",
        "notice": NOTICE,
        "start": "2026-11-30T01:02:03",
        "code": {"label": "abc1234"},
    }
    (top / "book/html/chapters/10_a.json").write_text(json.dumps(record))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REEFCORE_ROOT", str(top))
        assert cli.main(["book", "pdf", str(top / "book/html"), "--output", str(top / "a.pdf")]) in (0, None)
        again = pdf.write(top / "book/html", top / "b.pdf")
    return pypdf.PdfReader(top / "a.pdf"), (top / "a.pdf").read_bytes(), again.read_bytes()


def test_begins_with_what_it_is_and_its_contents(printed):
    texts = [page.extract_text() for page in printed[0].pages]
    for said in ("A Companion", "Profile: sample.", NOTICE, "abc1234", "2026-11-30"):
        assert said in texts[0]
    starts = {"The reef": 3, "First": 4, "Last": len(texts)}
    for title, number in starts.items():
        line = next(line for line in texts[1].splitlines() if line.startswith(title))
        assert line.endswith(str(number)), texts[1]
        assert title in texts[number - 1]
    assert "The data" in texts[1]


def test_a_version_that_was_changed_while_pages_ran_is_named_once():
    records = [{"code": {"label": label}, "start": "2026-11-30"} for label in ("abc", "abc-dirty", "def")]
    assert any(line.endswith(", abc-dirty, def.") for line in pdf._facts(records))


def test_footers_say_page_and_number_whatever_the_title(printed):
    texts = [page.extract_text() for page in printed[0].pages]
    assert 'First: "quoted" <one>' in texts[4] and texts[4].startswith("5")


def test_leaves_out_what_paper_cannot_use(printed):
    text = "".join(page.extract_text() for page in printed[0].pages)
    assert not [word for word in ("NAVIGATION", "HIDDEN", "PRESS", "data as CSV", "notebook", "Run") if word in text]
    assert "OPENED" in text and "Caption code 1234" in " ".join(text.split())


def test_links_lead_inside_the_file_or_to_the_web(printed):
    reader = printed[0]
    links = [note.get_object() for page in reader.pages for note in page.get("/Annots", [])]
    out = {link["/A"]["/URI"] for link in links if "/URI" in link.get("/A", {})}
    assert out == {"https://example.org/x"}
    assert {"/page-chapters-10-a--far", "/page-intro", "/page-last"} <= {link.get("/Dest") for link in links}
    assert {"/page-chapters-10-a--far", "/page-intro"} <= set(reader.named_destinations)


def test_has_bookmarks_tags_and_wide_tables_whole(printed):
    reader = printed[0]
    titles = [entry.title for entry in reader.outline if not isinstance(entry, list)]
    assert titles[1:] == ["Contents", "The reef", 'First: "quoted" <one>', "Last"]
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in root and root["/Lang"] == "en"
    assert "".join(page.extract_text() for page in reader.pages).replace("\n", "").count("wide-cell-99") == 22


def test_the_same_pages_give_the_same_bytes(printed):
    assert printed[1] == printed[2]
    assert printed[0].metadata["/CreationDate"] == "D:20261130010203Z"


def test_without_a_book_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("REEFCORE_ROOT", str(tmp_path))
    (tmp_path / "book").mkdir()
    (tmp_path / "book/_toc.yml").write_text("root: intro\n")
    with pytest.raises(ReefcoreError, match="no rendered book here; type `make book`"):
        pdf.write(tmp_path)
