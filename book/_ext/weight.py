"""Images and data that stand in the pages become files beside them, so that a page opens before it has all of them.

A notebook holds its figures and the data behind them as ``data:`` addresses, so that it can be passed on alone. A page
of the book has files: ``chapters/30_splits-files/own-splits.csv``. Each figure and table of a chapter also gets the
link to the notebook that made it, and the version of the code.
"""

import base64
import hashlib
import html
import io
import re
import urllib.parse
from pathlib import Path

from reefcore.workflow import keys, links

IMAGES = {"svg+xml": "svg", "jpeg": "jpg", "png": "png", "gif": "gif", "webp": "webp", "avif": "avif"}
FILES = {"csv", "txt", "bib", "ris", "json", "geojson", "parquet", "zip", "kml", "gpx", "yaml", "cff", "xlsx"}
_TAG = re.compile(r"<(img|a|figure|div|/figure|/figcaption|/caption)\b[^>]*>")
_ATTRIBUTE = re.compile(r"""\b([\w-]+)=(?:"([^"]*)"|'([^']*)')""")


def safe(name: str) -> str:
    """Make a name that every file system and every address takes."""
    return re.sub(r"[^a-z0-9_.-]+", "-", name.lower()).strip("-._")[:80] or "file"


def decode(address: str) -> tuple[str, bytes]:
    """Read a ``data:`` address: its type and its content."""
    head, _, body = address.removeprefix("data:").partition(",")
    raw = urllib.parse.unquote_to_bytes(body)
    return head.partition(";")[0].strip(), base64.b64decode(raw) if head.endswith(";base64") else raw


def size(kind: str, content: bytes) -> tuple[int, int] | None:
    """Say how large an image is shown, in pixels: width and height; None where it does not say."""
    if kind == "svg":
        head = content[: content.find(b">", content.find(b"<svg")) + 1].decode("utf-8", errors="replace")
        sides = [re.search(rf'\s{side}="([\d.]+)(pt|px|)"', head) for side in ("width", "height")]
        return tuple(round(float(s[1]) * (4 / 3 if s[2] == "pt" else 1)) for s in sides) if all(sides) else None
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        return picture.size


class Files:
    """The files of one page: each content once, each name once."""

    def __init__(self, outdir: Path, page: str):
        self.folder = outdir / f"{page}-files"
        self.base = f"{page.rpartition('/')[2]}-files"
        self._names: dict[str, bytes] = {}

    def add(self, stem: str, suffix: str, content: bytes) -> str:
        """Write a file, unless it is there; return its address on the page."""
        number, stem = 1, safe(stem)
        while self._names.setdefault(name := f"{stem}{f'-{number}' * (number > 1)}.{suffix}", content) != content:
            number += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(content)
        return urllib.parse.quote(f"{self.base}/{name}")


def lighten(body: str, files: Files, made_by: str = "") -> str:
    """Put the images and data of a page into files, and say of each figure and table what made it.

    Parameters
    ----------
    body : str
        HTML of the article.
    files : Files
    made_by : str
        HTML that each caption of a figure or table ends with.
    """
    inside, images = "", 0  # the last figure or table that was opened; how many images came before

    def tag(match: re.Match) -> str:
        nonlocal inside, images
        text, kind = match[0], match[1]
        given = {m[1]: html.unescape(m[2] if m[2] is not None else m[3]) for m in _ATTRIBUTE.finditer(text)}
        if kind in ("figure", "div"):
            if {"reef", "reef-table"} & set(given.get("class", "").split()):
                inside = given.get("id", "figure")
            return text
        if kind.startswith("/"):
            if kind == "/figure":
                inside = ""
                return text
            ended, inside = inside, "" if kind == "/caption" else inside
            return made_by + text if ended else text
        key = "src" if kind == "img" else "href"
        address = given.get(key, "")
        new = {}
        if address.startswith("data:"):
            mime, content = decode(address)
            if kind == "img":
                suffix = IMAGES.get(mime.partition("/")[2], "bin")
                digest = hashlib.sha256(content).hexdigest()[:8]
                formula = "math" in given.get("class", "").split()
                new[key] = files.add(f"formula-{digest}" if formula else inside or f"image-{digest}", suffix, content)
                if "width" not in given and not formula and (sides := size(suffix, content)):
                    new["width"], new["height"] = map(str, sides)
            else:
                stem, _, suffix = given.get("download", "").rpartition(".")
                if suffix.lower() not in FILES:  # never a page or a script, whatever a label is called
                    stem, suffix = given.get("download", ""), "csv" if mime == "text/csv" else "txt"
                new[key] = files.add(stem or inside or "data", suffix.lower(), content)
        if kind == "img":
            images += 1
            new |= {"decoding": "async"} | ({"loading": "lazy"} if images > 1 and "loading" not in given else {})
        if key in new:
            text = re.sub(rf"""\b{key}=(?:"data:[^"]*"|'data:[^']*')""", lambda _: f'{key}="{new.pop(key)}"', text)
        added = "".join(f' {name}="{html.escape(value)}"' for name, value in new.items())
        return re.sub(r"\s*(/?)>$", lambda end: f"{added}{end[1]}>", text)

    return _TAG.sub(tag, body)


def made_by(record: dict, page: str, url: str) -> str:
    """Say which notebook and which code made what a caption is of."""
    version = record.get("code") or {}
    label = html.escape((version.get("commit") or "")[:7] or version.get("label", ""))
    if label and (address := links.code(url, version.get("commit"))):
        label = f'<a href="{address}">{label}</a>'
    label = f" · code {label}{' with changes' * bool(version.get('dirty'))}" if label else ""
    return f' · <a href="{page}.ipynb" download>notebook</a>{label}'


def on_page(app, pagename, templatename, context, doctree):
    """Lighten a page as it is written."""
    if not context.get("body"):
        return
    said, record = "", keys.read_record(Path(app.srcdir) / f"{pagename}.json")
    if record and pagename.startswith("chapters/"):
        said = made_by(record, pagename.rpartition("/")[2], links.setting()[0])
    context["body"] = lighten(context["body"], Files(Path(app.outdir), pagename), said)


def setup(app):
    """Register with Sphinx, after what others do to a page."""
    app.connect("html-page-context", on_page, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
