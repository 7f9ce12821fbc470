"""The whole book as one PDF: the rendered pages, one after the other, printed by Chromium.

All pages become one document, so that links, bookmarks, page numbers and the tags for screen readers are the browser's
own. It is printed twice: the first print tells on which page each chapter begins, the second says so in the contents.
"""

from __future__ import annotations

import html
import logging
import os
import re
import shutil
import tempfile
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import yaml

from reefcore.errors import ReefcoreError
from reefcore.workflow import book, keys

WIDTH = 658  # CSS pixels between the margins of an A4 page
# What a reader of paper cannot use: buttons, the code behind a figure, downloads, how to run and cite each page.
_GONE = """script, noscript, button, input, select, textarea, form, a.headerlink, a[download], details.hide,
#run-this-page, #cite-this-page, .prev-next-footer, .screen-only, [data-needs] [hidden]"""
_STYLE = """
@page { size: A4; margin: 18mm 18mm 20mm; @bottom-right { content: counter(page); font: 8pt sans-serif; color: #444 } }
@page cover { @bottom-right { content: "" } }
html, body { background: #fff; overflow: visible; height: auto; font-size: 10pt }
body { display: block; width: auto; margin: 0; padding: 0 }
section.paper { break-before: page; padding: 0; margin: 0 }
section.paper.cover { break-before: auto; padding-top: 55mm }
section.paper h1 { margin-top: 0; font-size: 20pt }
section.paper h2 { font-size: 14pt } section.paper h3 { font-size: 12pt }
h1, h2, h3, h4 { break-after: avoid } p, li { orphans: 3; widows: 3 }
figure, img, .admonition, pre { break-inside: avoid } tr { break-inside: avoid } thead { display: table-header-group }
figure.reef, figure.reef * { max-width: 100% !important; min-width: 0 !important; overflow: visible !important }
img { height: auto !important; max-width: 100% !important; max-height: 215mm; object-fit: contain }
section.paper div { overflow: visible !important; max-height: none !important }
table { font-size: 8pt; min-width: 60%; position: static !important }
caption, thead, tbody tr:first-child { break-after: avoid }
th, td { position: static !important }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 8pt }
a { overflow-wrap: anywhere }
.contents a { display: flex; color: inherit; text-decoration: none; padding: 1.2pt 0 }
.contents a span { flex: 1; border-bottom: 1px dotted #888; margin: 0 4pt 3pt }
.contents p { font-weight: bold; margin: 9pt 0 2pt; break-after: avoid }
"""
# Tables that are wider than the page are made smaller, down to half; what is wider still may break its words.
_FIT = """() => { for (const table of document.querySelectorAll("section.paper table")) {
  // a table itself may leave its caption behind, the region around both does not
  if (table.offsetHeight < 450) (table.closest(".reef-table") || table).style.breakInside = "avoid";
  const room = table.closest("section.paper").clientWidth, wide = table.scrollWidth;
  if (wide <= room + 1) continue;
  table.style.zoom = Math.max(0.5, room / wide);
  if (room / wide < 0.5) { table.style.width = "100%"; table.style.overflowWrap = "anywhere";
    for (const cell of table.querySelectorAll("th, td")) cell.style.whiteSpace = "normal"; } } }"""


def write(folder: str | Path | None = None, path: str | Path | None = None) -> Path:
    """Print the rendered book into one PDF: a title page, the contents, every page of the table of contents.

    Parameters
    ----------
    folder : path, optional
        The rendered book; by default where `book.build` puts it.
    path : path, optional
        The PDF; by default ``build/reefnet-companion-VERSION-PROFILE.pdf``.

    Returns
    -------
    Path
        The PDF.

    Raises
    ------
    ReefcoreError
        Where there is no book, no Chromium, no Playwright, or the browser does not print.
    """
    folder = Path(folder or keys.root() / book.HTML).resolve()
    names = [name for name in book.pages() if (folder / f"{name}.html").exists()]
    if not names:
        raise ReefcoreError("there is no rendered book here", folder, "type `make book`")
    records = [record for name in names if (record := keys.read_record(folder / f"{name}.json"))]
    profile = "-".join(sorted({record["profile"] for record in records})) or "pages"
    path = Path(path or keys.root() / "build" / f"reefnet-companion-{keys.reefcore.__version__}-{profile}.pdf")
    path.parent.mkdir(parents=True, exist_ok=True)
    document = _document(folder, names, records)
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of large files, which a book is
    with tempfile.TemporaryDirectory() as scratch:
        page, printed = Path(scratch, "book.html"), Path(scratch, "book.pdf")
        _print(page, printed, document)
        _print(page, printed, _numbered(document, _starts(printed)))
        _describe(printed, path, records)
    return path


def chromium() -> str:
    """Find the browser that prints and checks the book.

    Returns
    -------
    str
        Its program: the environment variable ``CHROMIUM``, or the first of the usual names on the path.

    Raises
    ------
    ReefcoreError
        Where there is none.
    """
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        raise ReefcoreError(
            "no Chromium was found",
            os.environ.get("CHROMIUM"),
            "install it (Debian: `apt install chromium`), or name its program in the environment variable CHROMIUM",
        )
    return found


def _document(folder: Path, names: list[str], records: list[dict]) -> str:
    """Put the articles of all pages into one page, each in a section of its own, links turned inwards."""
    from bs4 import BeautifulSoup

    slugs = {(folder / f"{name}.html").as_uri(): _slug(name) for name in names}
    sections, titles, styles = [], {}, {}
    for name in names:
        address = (folder / f"{name}.html").as_uri()
        soup = BeautifulSoup((folder / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
        article = soup.find("article") or soup.body
        styles |= {urljoin(address, link["href"]).split("?")[0]: None for link in soup.select("link[rel=stylesheet]")}
        for gone in article.select(_GONE):
            after = gone.next_sibling  # " · ", between the downloads of a caption
            if gone.name == "a" and isinstance(after, str):
                after.replace_with(re.sub(r"^\s*·\s*", "", after))
            gone.decompose()
        for cell in article.select("div.cell"):  # one without output would part a heading from its figure
            if not cell.get_text(strip=True) and not cell.find(["img", "svg"]):
                cell.decompose()
        head = article.find("h1")
        titles[name] = head.get_text(" ", strip=True) if head else name
        _turn_inwards(article, address, slugs)
        sections.append(
            f'<section class="paper bd-article" id="{slugs[address]}">{article.decode_contents()}</section>'
        )
    foot = "font: 8pt sans-serif; color: #444"
    rules = "".join(
        f"@page {slug} {{ @bottom-left {{ content: {_css(titles[name])}; {foot} }} }}\n#{slug} {{ page: {slug} }}\n"
        for name, slug in zip(names, map(_slug, names), strict=True)
    )
    config = yaml.safe_load((keys.root() / "_config.yml").read_text(encoding="utf-8"))
    cover = f'<section class="paper cover" style="page: cover"><h1>{html.escape(config["title"])}</h1>'
    cover += "".join(f"<p>{html.escape(line)}</p>" for line in [config["author"], *_facts(records)]) + "</section>"
    links = "".join(f'<link rel="stylesheet" href="{html.escape(address)}">' for address in styles)
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">'
        f"<title>{html.escape(config['title'])}</title>{links}<style>{_STYLE}{rules}</style></head>"
        f"<body>{cover}{_contents(titles)}{''.join(sections)}</body></html>"
    )


def _slug(name: str) -> str:
    return "page-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def _css(text: str) -> str:
    """Write a text as CSS does, whatever is in it."""
    return '"' + re.sub(r'["\\<\n]', lambda found: f"\\{ord(found[0]):x} ", text) + '"'


def _facts(records: list[dict]) -> list[str]:
    """What the title page says of where the numbers come from."""
    found = [sorted({record[name] for record in records if record.get(name)}) for name in ("profile", "notice")]
    code = {record["code"]["label"] for record in records}
    code = sorted(code - {label.removesuffix("-dirty") for label in code if label.endswith("-dirty")})
    days = sorted({record["start"][:10] for record in records})
    return [
        f"Profile: {', '.join(found[0])}." if found[0] else "",
        *found[1],
        f"Code version: {', '.join([keys.reefcore.__version__, *code])}.",
        f"Computed {days[0]}{' to ' + days[-1] if len(days) > 1 else ''}." if days else "",
    ]


def _contents(titles: dict[str, str]) -> str:
    """List the pages by part, with room for their numbers."""
    toc = yaml.safe_load((keys.root() / "book" / "_toc.yml").read_text(encoding="utf-8"))

    def rows(node):
        for item in node if isinstance(node, list) else [node]:
            if item.get("caption"):
                yield f"<p>{html.escape(item['caption'])}</p>"
            name = item.get("root") or item.get("file")
            if name in titles:
                slug = _slug(name)
                yield f'<a href="#{slug}">{html.escape(titles[name])}<span></span><b data-of="{slug}">000</b></a>'
            for below in ("parts", "chapters", "sections"):
                yield from rows(item.get(below, []))

    return f'<section class="paper contents"><h1>Contents</h1>{"".join(rows(toc))}</section>'


def _turn_inwards(article, address: str, slugs: dict[str, str]) -> None:
    """Make what an article names its own: ids, links to other pages, images."""
    own = slugs[address]
    for element in article.find_all(True):
        for name in ("id", "for", "aria-labelledby", "aria-describedby"):
            if element.get(name):
                element[name] = " ".join(f"{own}--{part}" for part in element[name].split())
        for name, value in list(element.attrs.items()):
            if isinstance(value, str) and "url(#" in value:
                element[name] = value.replace("url(#", f"url(#{own}--")
        if element.name == "details":
            element["open"] = ""
        if element.get("loading"):
            del element["loading"]
        for name in ("src", "href", "xlink:href"):
            if not element.get(name) or element[name].startswith("data:"):
                continue
            target, fragment = urldefrag(urljoin(address, element[name]))
            if target in slugs:
                element[name] = f"#{slugs[target]}" + (f"--{unquote(fragment)}" if fragment else "")
            elif name == "src" or not target.startswith("file:"):
                element[name] = target + (f"#{fragment}" if fragment else "")
            else:  # a file beside the page, which paper does not have
                del element[name]


def _print(page: Path, path: Path, document: str) -> None:
    """Print a document with Chromium: tagged, with bookmarks."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise ReefcoreError("Playwright is not installed", do="install reefcore with its extra dev") from None
    page.write_text(document, encoding="utf-8")
    quiet = "--no-sandbox --disable-gpu --disable-background-networking --allow-file-access-from-files".split()
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=chromium(), args=[*quiet, "--host-resolver-rules=MAP * ~NOTFOUND"]
            )
            tab = browser.new_page(viewport={"width": WIDTH, "height": 1000})
            tab.set_default_timeout(300_000)
            tab.emulate_media(media="print")
            tab.goto(page.as_uri())
            tab.evaluate(_FIT)
            tab.pdf(path=path, prefer_css_page_size=True, print_background=True, tagged=True, outline=True)
            browser.close()
        except Error as error:
            raise ReefcoreError(f"Chromium did not print the book: {str(error).splitlines()[0]}") from None


def _starts(printed: Path) -> dict[str, int]:
    """Read from a print on which page, from 1, each chapter begins."""
    from pypdf import PdfReader

    reader = PdfReader(printed)
    places = {name.lstrip("/"): place for name, place in reader.named_destinations.items()}
    return {name: reader.get_destination_page_number(place) + 1 for name, place in places.items()}


def _numbered(document: str, starts: dict[str, int]) -> str:
    """Write the numbers of pages into the contents."""
    return re.sub(
        r'(<b data-of="([^"]+)">)000', lambda found: f"{found[1]}{starts.get(unquote(found[2]), '')}", document
    )


def _describe(printed: Path, path: Path, records: list[dict]) -> None:
    """Say what the PDF is, with the time of its newest chapter instead of that of the print."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(printed))
    config = yaml.safe_load((keys.root() / "_config.yml").read_text(encoding="utf-8"))
    days = sorted(record["start"] for record in records)
    stamp = "D:" + (re.sub(r"\D", "", days[-1])[:14].ljust(14, "0") if days else "20000101000000") + "Z"
    writer.metadata = {
        "/Title": config["title"],
        "/Author": config["author"],
        "/Subject": " ".join(_facts(records)),
        "/CreationDate": stamp,
        "/ModDate": stamp,
    }
    with path.open("wb") as file:
        writer.write(file)
