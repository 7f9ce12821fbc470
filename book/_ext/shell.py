"""The shell of the site: the landing page's numbers, badge and dates of a page, its description, and a light theme."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import yaml

from reefcore import published

#: A bar of the landing page: what it says, the published table, and the column whose best model it shows
BARS = [
    ("Reefs it was trained on, other photos", 3, "train_s1_test_s1"),
    ("Reefs it has never seen", 3, "train_s3_test_s3s4"),
    ("Never trained on these corals, never-seen reefs", 5, "cross_source_test_s3s4"),
]
#: Patterns below ``_static`` of files that no page loads
UNUSED = ["**/*.map", "scripts/fontawesome*", "scripts/bootstrap*", "vendor", "locales", "images/logo_*", "*.png"]
UNUSED += ["*webpack-macros.html", "copybutton_funcs.js"]


def best(number: int, column: str) -> tuple[str, float]:
    """Return the best model of a column of a published table, and its number."""
    found = published.table(number).query("column == @column and unit == 'percent'")
    first = found.loc[found["value"].astype(float).idxmax()]
    return first["row"], float(first["value"])


def findings() -> dict[str, str]:
    """Return what the landing page says in numbers, as MyST substitutions: all of them published."""
    rows = []
    for text, number, column in BARS:
        model, value = best(number, column)
        rows.append(
            f'<div class="bar"><dt>{text} <small>{html.escape(model)}, Table {number}</small></dt>'
            f'<dd style="--share: {value:.1f}%"><strong>{value:.0f} %</strong></dd></div>'
        )
    tables = {number: published.table(number)["row"] for _, number, _ in BARS}
    models = {number: rows.loc[~rows.str.startswith("test ")].nunique() for number, rows in tables.items()}
    shown = {f"found_{number}": str(count) for number, count in models.items()}
    for name in ("coral_annotations", "images_with_corals", "sources", "labels"):
        shown[name] = f"{published.value(f'dataset/{name}'):,.0f}"
    bars = f'<dl class="reef-found">{"".join(rows)}</dl>'
    return {**shown, "found_bars": f"```{{raw}} html\n{bars}\n```"}


def text_dates(folder: Path) -> dict[str, str]:
    """Return when each file of the book's text last changed, by git; of text that is not committed, nothing."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    if shutil.which("git") is None or git("rev-parse", "--is-shallow-repository").strip() != "false":
        return {}  # of a shallow copy all dates are that of its one version
    dates, day = {}, ""
    for line in git("log", "--format=%x00%cs", "--name-only", "--relative", "--", "book", "notebooks").splitlines():
        if line.startswith("\0"):
            day = line[1:]
        elif line:
            dates.setdefault(line, day)
    changed = git("status", "--porcelain", "--no-renames", "--", "book", "notebooks").splitlines()
    return {path: day for path, day in dates.items() if path not in {line[3:] for line in changed}}


def parts(toc: Path) -> dict[str, str]:
    """Return the part of the book in which each page stands."""
    listed = yaml.safe_load(toc.read_text(encoding="utf-8")).get("parts", []) if toc.exists() else []
    pages = [(page, part["caption"]) for part in listed for page in part["chapters"] if "caption" in part]
    pages += [(section, part) for page, part in pages for section in page.get("sections", [])]
    return {page["file"]: part for page, part in pages}


def badge(record: dict | None, changed: str | None, profiles: str | None = None) -> str:
    """Write the line under a page's title: whose numbers these are, when they were computed and the text changed.

    Parameters
    ----------
    record : dict, optional
        Of a chapter: ``profile``, ``notice``, ``start``.
    changed : str, optional
        ISO date of the text.
    profiles : str, optional
        Address of the page that says what a profile is.
    """
    shown = []
    if record:
        notice, about = record.get("notice", ""), f"{record.get('profile', 'unknown')} profile"
        about += ", synthetic" if "synthetic" in notice else ""
        if "inputs" in record and all(" " in name for name in record["inputs"]):  # none of the profile's own
            about = "published numbers"
        tag, href = ("a", f' href="{profiles}"') if profiles else ("span", "")
        said = f"{html.escape(about[0].upper() + about[1:])}</{tag}>"
        shown.append(f'<{tag} class="reef-profile"{href} title="{html.escape(notice)}">{said}')
    days = {"Computed": (record or {}).get("start", "")[:10], "Text changed": changed or ""}
    shown += [f'<span>{word} <time datetime="{day}">{day}</time></span>' for word, day in days.items() if day]
    return f'<p class="reef-badge">{" ".join(shown)}</p>' if shown else ""


def description(doctree) -> str:
    """Return the first sentences of a page, for those who list it; what it reproduces is not one."""
    from docutils import nodes

    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if not text.startswith("Reproduces") and len(text) > 40:
            return re.match(r".{40,250}?[.?!](?=\s|$)|.{1,160}", text)[0]
    return ""


#: What is no text of a page: its tags, and elements whose spaces are kept as they stand
_NO_TEXT = re.compile(r"(<(pre|code|script|style|textarea|svg|math)\b.*?</\2>|<[^>]*>)", re.DOTALL | re.IGNORECASE)


def unbroken(body: str) -> str:
    """Keep a number and its % on one line, in the text of a page only."""
    at, parts = 0, []
    for found in [*_NO_TEXT.finditer(body), None]:
        text = body[at : found.start() if found else len(body)]
        parts += [re.sub(r"(?<=\d)\s%", "\u00a0%", text), found[0] if found else ""]
        at = found.end() if found else at
    return "".join(parts)


def prune(css: str, words: set[str]) -> str:
    """Return a style sheet without the rules of classes and ids that are not among the words, and without fonts."""
    licences = re.findall(r"/\*!.*?\*/", css, re.DOTALL)
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)

    def needed(selector: str) -> bool:
        bare = re.sub(r"\[[^\]]*\]|\([^()]*\)", "", selector)
        return "(" in bare or all(
            re.sub(r"\\", "", name) in words for name in re.findall(r"[.#]((?:[\w-]|\\.)+)", bare)
        )

    def rule(found: re.Match) -> str:
        start, _, selectors = found[1].rpartition(";")
        start += ";" if start else ""
        if selectors.strip().startswith("@"):
            return start if selectors.strip().startswith("@font-face") else found[0]
        kept = [one for one in re.split(r",(?![^(]*\))", selectors) if needed(one)]
        return f"{start}{','.join(kept)}{{{found[2]}}}" if kept else start

    css = re.sub(r"([^{}]+)\{([^{}]*)\}", rule, css)
    return "".join(dict.fromkeys(licences)) + re.sub(r"@media[^{}]*\{\s*\}", "", css)


def _lighten(app, error) -> None:
    """Remove from the site what no page loads, and from the theme's style sheets what no page shows."""
    static = Path(app.outdir) / "_static"
    if error or not static.is_dir():
        return
    for path in sorted({path for pattern in UNUSED for path in static.glob(pattern)}, reverse=True):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    words = {"show", "active", "scrolled", "empty", "noprint", "pst-sidebar-hidden"}
    for path in sorted(Path(app.outdir).rglob("*.html")):
        for given in re.findall(r'\b(?:class|id)="([^"]*)"', path.read_text(encoding="utf-8")):
            words |= {*html.unescape(given).split()}
    for path in sorted(static.rglob("*.js")):
        words |= {*re.findall(r"[\w-]+", path.read_text(encoding="utf-8"))}
    own = {path.name for path in (Path(app.srcdir) / "_static").glob("*.css")}
    for path in sorted(static.rglob("*.css")):
        if path.name not in own:
            path.write_text(prune(path.read_text(encoding="utf-8"), words), encoding="utf-8")


def _context(app, pagename, templatename, context, doctree) -> None:
    """Give a page's templates what they show."""
    source = Path(app.srcdir)
    chapter = pagename.startswith("chapters/")
    record = source / f"{pagename}.json"
    record = json.loads(record.read_text(encoding="utf-8")) if chapter and record.exists() else None
    name = Path(pagename).name
    texts = [f"notebooks/{name}.ipynb", f"notebooks/site/{name}.ipynb"] if chapter else [f"{source.name}/{pagename}.md"]
    changed = next((app.reef_dates[text] for text in texts if text in app.reef_dates), None)
    if doctree is not None and pagename != app.config.root_doc:
        known = "how_to_read" in app.env.found_docs
        profiles = f"{context['pathto']('how_to_read')}#profiles" if known else None
        context["reef_badge"] = badge(record, changed, profiles)
    context["reef_part"] = app.reef_parts.get(pagename, "")
    tags = re.sub(r'\s*<meta name="(?:viewport|generator)"[^>]*>', "", context.get("metatags") or "")
    if doctree is not None and 'name="description"' not in tags and (about := description(doctree)):
        tags += f'\n    <meta name="description" content="{html.escape(about)}" />'
    context["metatags"] = tags
    if context.get("body"):
        context["body"] = unbroken(context["body"])


def _begin(app) -> None:
    app.reef_dates = text_dates(Path(app.srcdir).parent)
    app.reef_parts = parts(Path(app.srcdir) / "_toc.yml")


def _configure(app, config) -> None:
    config.myst_substitutions = {**findings(), **config.myst_substitutions}


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", _configure)
    app.connect("builder-inited", _begin)
    app.connect("html-page-context", _context)
    app.connect("build-finished", _lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
