"""The book: rendered from executed chapters by Jupyter Book, and checked as a reader without a network meets it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

from reefcore.errors import ReefcoreError
from reefcore.files import write_json
from reefcore.workflow import build as workflow
from reefcore.workflow import keys, links, status

HTML = "book/_build/html"
LIMIT, WHOLE = 1_500_000, 60_000_000  # bytes of a page with all that it loads, and of the book
LIMITS = {r"_explorer\.html$": 3_000_000}  # pages that may weigh more
READ = ("_config.yml", "CITATION.cff", "environment.yml")  # besides `book`, by Sphinx and by its extensions
_JUPYTER_BOOK = """
import os, sys
from jupyter_book.cli.main import main
from reefcore.parallel import end_with_parent
end_with_parent(os.getppid())
sys.exit(main())
"""


def build() -> Path:
    """Render the book where something changed: from scratch, with warnings as errors, so that a failure stays one.

    Returns
    -------
    Path
        The folder with ``index.html``.

    Raises
    ------
    ReefcoreError
        With what Jupyter Book warns of; or where a chapter was not run.
    """
    top, made_of = keys.root(), ingredients()
    book, html = top / "book", top / HTML
    key, record = keys.key_of(made_of), html.with_name("record.json")
    if is_fresh(key):
        return html
    handle = workflow.lock()
    try:
        shutil.rmtree(html.parent, ignore_errors=True)
        options = ["--config", str(top / "_config.yml"), "--path-output", str(book), "-W", "-n", "--keep-going"]
        command = [sys.executable, "-c", _JUPYTER_BOOK, "build", str(book), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=top)
        text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        if done.returncode or not (html / "index.html").exists():
            shutil.rmtree(html.parent, ignore_errors=True)
            told = [
                line.replace(f"{top}/", "") for line in text.splitlines() if re.search(r"WARNING|ERROR|Error", line)
            ]
            raise ReefcoreError(
                "Jupyter Book did not build the book:\n  " + "\n  ".join(told or text.splitlines()[-5:])
            )
        for data in sorted((book / "chapters").glob("*.json")):
            shutil.copy(data, html / "chapters" / data.name)
        write_json({"key": key, "ingredients": made_of, "outputs": keys.describe(html.parent, ["html"])}, record)
    finally:
        keys.release(handle)
    return html


def is_fresh(key: str | None = None) -> bool:
    """Tell whether the rendered book is of what lies here now, and whole."""
    html = keys.root() / HTML
    return keys.fresh(html.with_name("record.json"), html.parent, key or keys.key_of(ingredients())) is not None


def ingredients() -> dict[str, str]:
    """Say what the rendered book is made from, name by name; the page of how all stands is written first.

    It is what lies in `book`, and what its extensions read and run: notebooks, records of the chapters, modules.

    Raises
    ------
    ReefcoreError
        Where a chapter was not run.
    """
    top, shown = keys.root(), pages()
    for page in shown:
        if page.startswith("chapters/") and not (top / "book" / f"{page}.ipynb").exists():
            raise ReefcoreError(f"the chapter {page} was not run", do="type `make book`, or `reefcore run all` before")
    if "status" in shown:  # a page that says how all others stand, and the same of the same records
        status.write(shown)
    sources = [
        p for p in sorted((top / "book").rglob("*")) if p.is_file() and not {"_build", "__pycache__"} & {*p.parts}
    ]
    sources = [top / name for name in READ] + [p for p in sources if p.suffix != ".json"]
    made_of = {str(p.relative_to(top)): keys.digest(p) for p in sources if p.exists()} | keys.environment()
    for name, path in workflow.notebooks().items():
        made_of[f"notebook {name}"] = keys.digest(path)
    for path in sorted((top / "book" / "chapters").glob("*.json")):
        if record := keys.read_record(path):
            said = {name: value for name, value in record.items() if name != "outputs"}
            made_of[f"record {path.stem}"] = keys.key_of(said)
    for path in sorted((top / "book" / "_ext").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        made_of |= keys.modules(source=text)
        for name in sorted(keys.imports(text)):  # of the workflow, which keys.modules leaves out
            if name.startswith(keys.STOP) and (file := keys.PACKAGE.parent / f"{name.replace('.', '/')}.py").exists():
                made_of[name] = keys.digest(file)
    made_of["dates"] = _dates()
    return made_of


def _dates() -> str:
    """Hash the days on which the texts were changed, and which are changed now: pages say so; nothing without git."""

    def git(*command: str) -> list[str]:
        command = ["git", "--no-optional-locks", *command, "--", "book", "notebooks"]
        done = subprocess.run(command, cwd=keys.root(), capture_output=True, text=True)
        return done.stdout.splitlines() if done.returncode == 0 else []

    if shutil.which("git") is None:
        return ""
    day, last = "", {}
    for line in git("log", "--format=%x00%cs", "--name-only"):
        if line.startswith("\0"):
            day = line[1:]
        elif line:
            last.setdefault(line, day)
    return keys.key_of({"last": last, "now": git("status", "--porcelain")})


def times() -> list[str]:
    """Say how long each chapter took when it was last run, a line each."""
    found = [(page, keys.read_record(keys.root() / "book" / f"{page}.json")) for page in pages()]
    return [f"{page:32}{record['seconds']:7.1f} s" for page, record in found if record]


def pages() -> list[str]:
    """List the pages of the table of contents, without endings, in order."""

    def walk(node) -> list[str]:
        if isinstance(node, list):
            return [page for item in node for page in walk(item)]
        own = [node[name] for name in ("root", "file") if name in node]
        return own + [page for name in ("parts", "chapters", "sections") for page in walk(node.get(name, []))]

    return walk(yaml.safe_load((keys.root() / "book" / "_toc.yml").read_text(encoding="utf-8")))


# ------------------------------------------------------------------------------------------------------------ check

_AWAY = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
_CSS_AWAY = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
_JS_AWAY = re.compile(r"""(?:import\s*\(|importScripts\(|\.src\s*=|fetch\()\s*["'`](?:https?:)?//[^"'`]+""")
_MACHINE = re.compile(r"(?<![\w./:~-])/(?:home|Users|root|tmp|work|mnt|opt|var|private)/[\w.-]+|[A-Z]:\\\\?Users\\")
_TEXT = {".html", ".ipynb", ".json", ".txt", ".md", ".csv"}
_LOADED = {"stylesheet", "preload", "icon", "modulepreload", "preconnect", "dns-prefetch", "manifest", "prefetch"}


@dataclass
class _Page(HTMLParser):
    """What the checks want to know of a page."""

    anchors: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    no_alt: list[str] = field(default_factory=list)
    images: int = 0
    errors: int = 0
    words: int = 0
    provenance: list[str] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    headings: list[int] = field(default_factory=list)
    unlinked: list[str] = field(default_factory=list)  # figures and tables without the notebook that made them

    def __post_init__(self):
        super().__init__()
        self._inside: list[str] = []
        self._article = self._provenance = self._shown = False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.twice |= self.anchors & {given.get("id")}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        classes = set((given.get("class") or "").split())
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and _LOADED & set((given.get("rel") or "").split()):
            self.resources.append(given.get("href") or "")
        elif tag in ("script", "img", "iframe", "embed", "source", "video", "audio", "track", "input") and given.get(
            "src"
        ):
            self.resources.append(given["src"])
        self.resources += [part.split()[0] for part in (given.get("srcset") or "").split(",") if part.strip()]
        if tag == "object" and given.get("data"):
            self.resources.append(given["data"])
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if {"reef", "reef-table"} & classes and tag in ("figure", "div"):
            self.unlinked.append(given.get("id") or "?")
            self._shown = True
        elif tag == "a" and self._shown and urlsplit(given.get("href") or "").path.endswith(".ipynb"):
            self.unlinked.pop()
            self._shown = False
        if tag == "img":
            self.images += 1
            if not (given.get("alt") or "").strip():
                self.no_alt.append((given.get("src") or "")[:80])
        if given.get("style"):
            self.inline.append(given["style"])
        self.errors += bool({"traceback", "stderr"} & classes and "output" in classes)
        if tag in ("script", "style"):
            self._inside.append(tag)
        if tag == "article":
            self._article = True
        if tag == "p" and "provenance" in classes:
            self._provenance = True
            self.provenance.append("")

    def handle_endtag(self, tag):
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()
        if tag == "article":
            self._article = False
        if tag in ("figure", "table"):
            self._shown = False
        if tag == "p":
            self._provenance = False

    def handle_data(self, data):
        if self._inside:
            self.inline.append(data)
        elif self._article:
            self.words += len(data.split())
        if self._provenance:
            self.provenance[-1] += data


def check(folder: str | Path | None = None) -> dict:
    """Check a rendered book.

    Every page of the table of contents is there and says something; nothing is loaded from elsewhere; links and anchors
    inside the book lead somewhere, those out of it have a known form; images have alternative text, headings are in
    order; no error, warning or path of the machine shows; pages and the whole are light; each chapter ends with where
    it comes from, says its profile, and its figures and tables link to the notebook.

    Parameters
    ----------
    folder : path, optional
        By default where `build` puts it.

    Returns
    -------
    dict
        ``problems`` (sentences), ``pages``, ``links``, ``images``, ``bytes``, ``summary``.

    Raises
    ------
    ReefcoreError
        Where there is no book.
    """
    folder = Path(folder or keys.root() / HTML)
    if not (folder / "index.html").exists():
        raise ReefcoreError("there is no rendered book here", folder, "type `make book`")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    parsed: dict[Path, _Page] = {}
    for path in files:
        if path.suffix == ".html" and "_static" not in path.relative_to(folder).parts:
            parsed[path.resolve()] = page = _Page()
            page.feed(path.read_text(encoding="utf-8"))
    sizes = {path.resolve(): path.stat().st_size for path in files}
    problems = [f"the book has {sum(sizes.values()) / 1e6:.1f} MB"] if sum(sizes.values()) > WHOLE else []
    for path, page in parsed.items():
        problems += _weight_problems(folder.resolve(), path, page, sizes)
    for path, page in parsed.items():
        problems += [f"{path.relative_to(folder.resolve())}: {text}" for text in _page_problems(path, page, parsed)]
    for path in files:
        problems += [f"{path.relative_to(folder)}: {text}" for text in _file_problems(path)]
    for name in pages():
        page = parsed.get((folder / f"{name}.html").resolve())
        if page is None:
            problems.append(f"{name}: the table of contents names it, and it is not there")
        else:
            problems += [f"{name}.html: {text}" for text in _chapter_problems(folder, name, page)]
    counts = {
        "pages": len(parsed),
        "links": sum(len(page.links) for page in parsed.values()),
        "images": sum(page.images for page in parsed.values()),
        "bytes": sum(sizes.values()),
    }
    verdict = f"{len(problems)} problems" if problems else "no problems"
    summary = "{pages} pages, {links} links, {images} images, {megabytes:.1f} MB: {verdict}.".format(
        **counts, megabytes=counts["bytes"] / 1e6, verdict=verdict
    )
    return {"problems": problems, **counts, "summary": summary}


def _weight_problems(folder: Path, path: Path, page: _Page, sizes: dict[Path, int]) -> list[str]:
    """Weigh a page with everything it loads, once each."""
    loaded = {(path.parent / unquote(urlsplit(address).path)).resolve() for address in page.resources}
    weight, name = sum(sizes.get(one, 0) for one in {path, *loaded}), path.relative_to(folder).as_posix()
    limit = next((limit for pattern, limit in LIMITS.items() if re.search(pattern, name)), LIMIT)
    return [f"{name}: it weighs {weight / 1e6:.2f} MB with what it loads"] if weight > limit else []


def _page_problems(path: Path, page: _Page, parsed: dict[Path, _Page]) -> list[str]:
    found = [f"loads {address} from elsewhere" for address in page.resources if _AWAY.match(address)]
    found += [f"the image {name or '?'} has no alternative text" for name in page.no_alt]
    found += [f"the id {name} stands twice" for name in page.twice]
    found += [f"{page.errors} cells show an error or a warning"] if page.errors else []
    if page.headings and (page.headings.count(1) != 1 or page.headings[0] != 1):
        found.append(f"it has {page.headings.count(1)} first headings, and starts with one of level {page.headings[0]}")
    jumps = [f"{a} to {b}" for a, b in zip(page.headings, page.headings[1:], strict=False) if b > a + 1]
    found += [f"headings jump from level {jump}" for jump in jumps]
    for text in page.inline:
        found += [f"loads {away} from elsewhere" for away in _CSS_AWAY.findall(text)]
        found += [f"a script loads from elsewhere: {away[:80]}" for away in _JS_AWAY.findall(text)]
    for address in {*page.links, *page.resources}:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if parts.scheme == "data":
                found.append(f"{address[:60]} stands in the page, and is no file")
            elif address in page.links and (wrong := links.problem(address)):
                found.append(wrong)
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.exists():
            found.append(f"{address} leads nowhere")
        elif parts.fragment and target in parsed and unquote(parts.fragment) not in parsed[target].anchors:
            found.append(f"{address} leads to no such place")
    return sorted(found)


def _file_problems(path: Path) -> list[str]:
    found = []
    if path.suffix in (".css", ".js"):
        text = path.read_text(encoding="utf-8", errors="replace")
        pattern = _CSS_AWAY if path.suffix == ".css" else _JS_AWAY
        found += [f"loads {away[:80]} from elsewhere" for away in pattern.findall(text)]
    if path.suffix in _TEXT or path.name == "searchindex.js":
        text = path.read_text(encoding="utf-8", errors="replace")
        own = [str(folder) for folder in (keys.root(), Path.home(), Path(sys.prefix)) if len(folder.parts) > 2]
        found += [f"names a folder of this machine: {name}" for name in sorted({*_MACHINE.findall(text)})]
        found += [f"names a folder of this machine: {name}" for name in own if f"{name}/" in text]
        found += ["shows a traceback"] if "Traceback (most recent call last)" in text else []
    return found


def _chapter_problems(folder: Path, name: str, page: _Page) -> list[str]:
    found = ["says next to nothing"] if page.words < 10 else []
    if name.startswith("chapters/"):
        record = keys.read_record(folder / f"{name}.json")
        if record is None:
            found.append("its machine-readable record is missing")
        elif len(page.provenance) != 1:
            found.append(f"has {len(page.provenance)} lines of provenance instead of one")
        else:
            for text in (record["notice"], f"profile {record['profile']}", f"seed {record['seed']}"):
                if text not in page.provenance[0]:
                    found.append(f"its line of provenance does not say {text!r}")
        found += [f"{shown} does not link to its notebook" for shown in page.unlinked]
        path = workflow.notebooks().get(name.rpartition("/")[2])
        away = links.links(*links.setting(), str(path.relative_to(keys.root()))) if path else {}
        for kind in ("binder", "colab"):
            if kind in away and away[kind] not in page.links:
                found.append(f"does not link to {kind.title()}, where it can be run")
    return found
