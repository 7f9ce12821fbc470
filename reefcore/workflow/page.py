"""One page of several executed notebooks: a single HTML file that loads nothing from elsewhere and runs no script."""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

SMALL = 20_000  # bytes of a table's data that stay in the page as a link; larger ones lie beside it only
ROWS = 150  # of a table on the page
PIXELS, QUALITY = 1600, 80  # of photographs on the page: longer side, and of JPEG
FOR_EDITORS = re.compile(r"^#+ For your own", re.MULTILINE)  # what to change and run, for who has the notebooks
_DROPPED = {"script", "style", "iframe", "object", "embed", "form", "link", "meta", "base", "template", "title"}
_VOID = {"img", "br", "hr", "col", "wbr", "input"}
_KEPT = {
    "id",
    "class",
    "alt",
    "download",
    "scope",
    "role",
    "tabindex",
    "aria-label",
    "colspan",
    "rowspan",
    "data-room",
    "open",
    "lang",
}
_DATA = re.compile(r"data:([\w/+.-]+);base64,([A-Za-z0-9+/=\s]+)$")

STYLE = """
:root{color-scheme:light dark;--ink:#1b2429;--soft:#566570;--page:#fff;--line:#d5dde1;--tint:#f2f6f8;--link:#00629b}
@media (prefers-color-scheme:dark){
:root{--ink:#e6ecef;--soft:#a3b1b9;--page:#14191c;--line:#36424a;--tint:#1d2529;--link:#7cc4f0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:1rem/1.55 system-ui,"Segoe UI",Roboto,sans-serif}
main,header,nav,footer{max-width:56rem;margin:0 auto;padding:0 1rem}
h1,h2,h3,h4{line-height:1.25;overflow-wrap:anywhere}
h2{margin-top:3.5rem;padding-top:1rem;border-top:2px solid var(--line)}
a{color:var(--link)}
nav ol{padding-left:1.4rem;columns:2 20rem}
nav summary{cursor:pointer}
nav ul{columns:2 16rem;padding-left:1rem;font-size:.9rem}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem}
.notice,.lacks,.failed{background:var(--tint);border-left:4px solid var(--line);padding:.6rem .9rem}
.failed{border-left-color:#d55e00}
figure{margin:1.5rem 0}
figure img{display:block;max-width:100%;height:auto;background:#fff;border-radius:3px}
figcaption,caption{font-size:.9rem;text-align:left;padding:.4rem 0}
caption{position:sticky;left:0;max-width:min(54rem,100vw - 2rem)}
.reef-table{position:relative;overflow-x:auto;margin:1.5rem 0}
.reef-table table{min-width:min(100%,32rem)}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem .25rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
tbody th,tfoot th{font-weight:inherit}
td.number,th.number{text-align:right}
[data-room]::after{content:attr(data-room);visibility:hidden}
td strong::before{content:"★\\a0"/"";font-size:.8em}
.long{min-width:16rem;overflow-wrap:anywhere}
.name{overflow-wrap:anywhere;min-width:9rem}
.visually-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--tint);padding:.6rem .9rem;font-size:.85rem}
code{background:var(--tint);overflow-wrap:anywhere}
.provenance,.more{color:var(--soft);font-size:.85rem}
@media screen{.tall{max-height:36rem;overflow:auto}
.tall thead th{position:sticky;top:0;background:var(--page)}}
@media print{
:root{color-scheme:light;--ink:#000;--soft:#444;--page:#fff;--line:#bbb;--tint:#fff;--link:#000}
nav,.download{display:none}
main,header{max-width:none}
h2{break-before:page;border:0}
h2,h3,h4,caption{break-after:avoid}
figure,tr{break-inside:avoid}
a[href^="data:"]{display:none}}
"""


@dataclass
class Section:
    """A chapter on the page.

    Attributes
    ----------
    name : str
        Of the notebook; the anchor of its heading.
    title : str
    body : str
        Clean HTML, its headings from ``h3`` on; the heading of the section itself is not in it.
    parts : list of (str, str)
        Anchor and text of its headings.
    files : dict
        File name -> text of the tables behind its figures and tables.
    """

    name: str
    title: str
    body: str = ""
    parts: list[tuple[str, str]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def section(name: str, notebook, chapters: list[str], notice: str = "", folder: str = "csv/chapters") -> Section:
    """Convert an executed notebook: its words and what its code shows, without the code and how to change it.

    Parameters
    ----------
    name : str
        Of the notebook, without ending.
    notebook : NotebookNode
    chapters : list of str
        Names of the notebooks that are on the page: links to others become text.
    notice : str
        Is not printed in every section, as it stands on top of the page and on every figure.
    folder : str
        Where, beside the page, the files lie that are too large to stand in it.
    """
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    made, pieces = Section(name, name), []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (source := FOR_EDITORS.split(cell.source)[0].strip()):
            tokens = markdown.parse(source)
            for number, token in enumerate(tokens):
                if token.type == "heading_open" and token.tag == "h1":
                    made.title, tokens[number : number + 3] = _words(tokens[number + 1].content), []
                    break
            for number, token in enumerate(tokens):
                if token.type in ("heading_open", "heading_close"):
                    token.tag = f"h{min(max(int(token.tag[1]) + 1, 3), 6)}"
                if token.type == "heading_open":
                    text = _words(tokens[number + 1].content)
                    anchor = f"{len(made.parts) + 1}-{re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')}"
                    token.attrSet("id", anchor)
                    made.parts.append((f"{name}-{anchor}", text))
            pieces.append(markdown.renderer.render(tokens, markdown.options, {}))
        elif cell.cell_type == "code":
            outputs = [one for one in cell.get("outputs", []) if one.get("text", "").strip() != notice or not notice]
            pieces += [_shown(output, made.title) for output in outputs]
    said = set()  # what is missing is said once in a section, not of every figure that needs it
    for number, piece in enumerate(pieces):
        if re.match(r"<h\d", piece):
            said = set()
        if piece.startswith('<p class="lacks">'):
            pieces[number] = "" if piece in said else piece
            said.add(piece)
    cleaner = _Clean(name, chapters, folder)
    cleaner.feed("\n".join(filter(None, pieces)))
    cleaner.close()
    made.body, made.files = "".join(cleaner.out), cleaner.files
    return made


def _words(heading: str) -> str:
    """Take the marks of Markdown out of a heading."""
    return re.sub(r"[*_`]|\]\([^)]*\)|\[", "", heading)


def _shown(output, title: str) -> str:
    """Give the HTML of one output of a cell; what a program says on standard error is not for readers."""
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text)}</pre>" if output.name == "stdout" and output.text.strip() else ""
    data = output.get("data", {})
    if "text/html" in data:  # the record of the provenance is a file beside the notebook
        return re.sub(r' · <a href="[^"]*\.json">[^<]*</a>', "", data["text/html"])
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            text = "".join(data[kind].split())
            return f'<figure><img alt="Figure of: {html.escape(title)}" src="data:{kind};base64,{text}"></figure>'
    return f"<pre>{html.escape(data['text/plain'])}</pre>" if data.get("text/plain") else ""


class _Clean(HTMLParser):
    """Writes HTML anew with what a page needs and nothing that runs, loads or leads nowhere."""

    def __init__(self, name: str, chapters: list[str], folder: str):
        super().__init__(convert_charrefs=True)
        self.name, self.chapters, self.folder = name, chapters, folder
        self.out: list[str] = []
        self.files: dict[str, str] = {}
        self._dropped: list[str] = []  # inside of these nothing is kept
        self._row, self._links = None, []

    def _say(self, text: str) -> None:
        if not self._dropped and not (self._row is not None and self._row > ROWS):
            self.out.append(text)

    def handle_starttag(self, tag, attrs):
        if self._dropped or tag in _DROPPED:
            if tag not in _VOID | {"link", "meta", "base", "embed"}:
                self._dropped.append(tag)
            return
        given = {key: value or "" for key, value in attrs}
        kept = {key: value for key, value in given.items() if key in _KEPT}
        if "id" in kept:
            kept["id"] = f"{self.name}-{kept['id']}"
        if tag == "tbody":
            self._row = 0
        elif tag == "tr" and self._row is not None:
            self._row += 1
        if tag == "a":
            self._links.append(self._link(given, kept))
            if self._links[-1] is None:
                return
        elif tag == "img":
            kept["src"] = _picture(given.get("src", ""))
            kept.setdefault("alt", "")
            if not kept["src"]:
                return
        attributes = "".join(f' {key}="{html.escape(value)}"' for key, value in kept.items())
        self._say(f"<{tag}{attributes}>")

    def handle_endtag(self, tag):
        if self._dropped:
            if tag == self._dropped[-1]:
                self._dropped.pop()
            return
        if tag in _DROPPED | _VOID:
            return
        if tag == "tbody":
            left, self._row = (self._row or 0) - ROWS, None
            if left > 0:
                self._say(
                    f'<tr><td colspan="99" class="more">and {left:,} more rows, in the data of this table</td></tr>'
                )
        if tag == "a" and (not self._links or self._links.pop() is None):
            return
        self._say(f"</{tag}>")

    def handle_data(self, data):
        if self._links and self._links[-1] is None and self._beside and data == "data as CSV":
            data, self._beside = f"data: {self._beside}", ""
        self._say(html.escape(data, quote=False))

    _beside = ""

    def _link(self, given: dict, kept: dict) -> str | None:
        """Put the address of a link right in `kept`; None where only its text stays."""
        address = given.get("href", "").strip()
        if found := _DATA.match(address):
            content = base64.b64decode(found[2])
            if found[1].startswith("text/"):
                name = re.sub(r"[^\w.-]+", "-", given.get("download") or "data.csv")
                self.files[name] = content.decode("utf-8", errors="replace")
                if len(content) > SMALL:
                    self._beside = f"{self.folder}/{name}"
                    return None
            kept["href"] = address
            return address
        if address.startswith("#"):
            kept["href"] = f"#{self.name}-{address[1:]}"
            return kept["href"]
        if re.match(r"https?://", address):
            kept |= {"href": address, "rel": "noreferrer"}
            return address
        page = re.match(r"(?:\./)?([\w-]+)\.(?:md|ipynb|html)(?:#([\w-]+))?$", address)
        if page and page[1] in self.chapters:
            kept["href"] = f"#{page[1]}-{page[2]}" if page[2] else f"#{page[1]}"
            return kept["href"]
        return None


def _picture(address: str) -> str:
    """Return the address of a picture within the page, a photograph saved anew without what its header says of it."""
    found = _DATA.match(address)
    if not found or not found[1].startswith("image/"):
        return ""
    if found[1] == "image/svg+xml":  # as the source of an image, a browser runs and loads nothing of it
        return address
    from PIL import Image

    content = base64.b64decode(found[2])
    with Image.open(io.BytesIO(content)) as picture:
        plain = not ({"exif", "comment", "xmp", "photoshop", "icc_profile"} & set(picture.info))
        if plain and max(picture.size) <= PIXELS and len(content) < 300_000:
            return address
        picture.thumbnail((PIXELS, PIXELS))
        stream, kind = io.BytesIO(), "png" if found[1] == "image/png" else "jpeg"
        bare = Image.new("RGB", picture.size)
        bare.paste(picture.convert("RGB"))
        bare.save(stream, kind, quality=QUALITY, optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"


def write(title: str, notice: str, summary: str, sections: list[Section], foot: list[str]) -> str:
    """Write the page.

    Parameters
    ----------
    title, notice : str
        As text.
    summary : str
        HTML that stands before the contents.
    sections : list of Section
    foot : list of str
        Lines about where it comes from, as text.
    """
    contents = "".join(f'<li><a href="#{one.name}">{html.escape(one.title)}</a></li>' for one in sections)
    parts = "".join(
        f"<p><b>{html.escape(one.title)}</b></p><ul>"
        + "".join(f'<li><a href="#{anchor}">{html.escape(text)}</a></li>' for anchor, text in one.parts)
        + "</ul>"
        for one in sections
    )
    bodies = "".join(
        f'<section><h2 id="{one.name}">{html.escape(one.title)}</h2>\n{one.body}</section>\n' for one in sections
    )
    lines = "".join(f'<p class="provenance">{html.escape(line)}</p>' for line in foot)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f'<title>{html.escape(title)}</title><link rel="icon" href="data:,"><style>{STYLE}</style></head>\n<body>'
        f'<a class="skip" href="#main">To the text</a><header><h1>{html.escape(title)}</h1>'
        f'<p class="notice">{html.escape(notice)}</p></header>\n'
        f'<nav aria-label="Contents"><ol>{contents}</ol>'
        f"<details><summary>All sections</summary>{parts}</details></nav>\n"
        f'<main id="main">{summary}{bodies}</main>'
        f"<footer>{lines}</footer></body></html>\n"
    )
