"""How each page is cited, as a sentence and as BibTeX; and the look of references: names, years, round brackets.

The book's title, authors, version and year come from CITATION.cff, the papers from references.bib, and what a chapter
was run with from the record beside it.
"""

import html
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml
from pybtex.backends.html import Backend
from pybtex.database import parse_string
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.template import FieldIsMissing, node, sentence
from sphinxcontrib.bibtex.plugin import register_plugin as register_referencing
from sphinxcontrib.bibtex.style.referencing import BracketStyle, PersonStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle
from sphinxcontrib.bibtex.style.template import join

OTHERS = "others"  # the last author of an entry of which BibTeX names only some
REEFNET, SUBSTRATE = "reefnet2025", "raine2025"
OWN = (
    "In a report on your own reef, cite this book for how its tables and figures are made, the program in which your "
    "points were labelled (such as CoralNet; see the {references}), and the people who took and labelled the photos."
)


# ------------------------------------------------------------------------------------------------------- references


@node
def _people(children, context, role, other=None, **kwargs):
    """Join the names of an entry, where some stand for all of them with "et al."."""
    persons = context["entry"].persons.get(role)
    if not persons:
        raise FieldIsMissing(role, context["entry"])
    some = str(persons[-1]) == OTHERS
    style = context["style"]
    written = style.person.style_plugin.format if hasattr(style, "person") else style.format_name
    names = [written(one) for one in persons[: -1 if some else None]]
    return join[join(**kwargs, other=other)[names], " et al." if some else ""].format_data(context)


class People(PersonStyle):
    """Last names, as references in the text have them."""

    def names(self, role, full):
        """Return the template of the names."""
        shown = {"sep": self.sep, "sep2": self.sep2, "last_sep": self.last_sep}
        return _people(role=role, **shown, other=None if full else " et al.")

    def author_or_editor_or_title(self, full):
        """Return the template of the names: each entry has authors."""
        return self.names("author", full)


def _round() -> BracketStyle:
    """Return round brackets."""
    return BracketStyle("(", ")")


@dataclass
class Reference(AuthorYearReferenceStyle):
    """Names and year in round brackets: (Guo et al., 2017), Guo et al. (2017)."""

    bracket_textual: BracketStyle = field(default_factory=_round)
    bracket_parenthetical: BracketStyle = field(default_factory=_round)
    bracket_author: BracketStyle = field(default_factory=_round)
    bracket_year: BracketStyle = field(default_factory=_round)
    person: PersonStyle = field(default_factory=People)


class Labels(BaseLabelStyle):
    """A label in the list that says what the text says: Guo et al., 2017."""

    def format_labels(self, sorted_entries):
        """Give the label of each entry."""
        for entry in sorted_entries:
            names = [" ".join(one.prelast_names + one.last_names).strip("{}") for one in entry.persons["author"]]
            lead = f"{names[0]} et al." if len(names) > 2 or OTHERS in names else " and ".join(names)
            yield f"{lead}, {entry.fields['year']}"


class ReefStyle(Style):
    """The list of references, by name and year."""

    default_label_style = Labels

    def format_names(self, role, as_sentence=True):
        """Return the template of all names."""
        names = _people(role=role, sep=", ", sep2=" and ", last_sep=" and ")
        return sentence[names] if as_sentence else names


# ---------------------------------------------------------------------------------------------------------- a page


def papers(page: str) -> list[str]:
    """List the keys of the papers whose numbers a page shows."""
    number = re.match(r"chapters/(\d)(\d)_", page)
    if page in ("intro", "status") or page.startswith("chapters/70_"):
        return [REEFNET, SUBSTRATE]
    if number and number[1] == "6":
        return [SUBSTRATE] if number[2] in "01234" else []  # the others are of no published figure
    return [REEFNET] if number and number[1] not in "89" else []


@cache
def _book(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def _entries(path: Path) -> dict[str, tuple[str, str]]:
    """Read references.bib: key -> the entry as it stands there, and as HTML."""
    text = path.read_text(encoding="utf-8")
    raw = {key: entry for entry, key in re.findall(r"^(@\w+\{([\w-]+),.*?^\})", text, re.MULTILINE | re.DOTALL)}
    style = ReefStyle()
    formatted = style.format_entries(parse_string(text, "bibtex").entries.values())
    return {one.key: (raw[one.key], one.text.render(Backend())) for one in formatted}


def section(page: str, title: str, book: dict, record: dict | None, entries: dict, address: str = "") -> str:
    """Write the section of a page.

    Parameters
    ----------
    page : str
        Its path in the book, without ending.
    title : str
        As text.
    book : dict
        CITATION.cff: title, authors, version, date-released.
    record : dict or None
        Of the chapter's last run.
    entries : dict
        Key -> BibTeX and HTML of the papers.
    address : str, optional
        Of the page, or of the repository.

    Returns
    -------
    str
        HTML.
    """
    authors = [one.get("name") or f"{one['given-names']} {one['family-names']}" for one in book["authors"]]
    year, version = str(book["date-released"])[:4], book["version"]
    made = []
    if record and "code" in record:
        made = [f"code {record['code']['label']}", f"profile {record['profile']}"]
        made += [f"run on {record['start'][:10]}"] if record.get("start") else []
    whole = page == "intro"
    inside = f"<em>{html.escape(book['title'])}</em>, version {html.escape(version)}"
    words = f"{html.escape(', '.join(authors))} ({year}). "
    words += f"{inside}." if whole else f"{html.escape(title)}{'' if title[-1:] in '?!' else '.'} In: {inside}."
    if made:
        said = ", ".join(made)
        words += f" {html.escape(said[0].upper() + said[1:])}."
    words += f' <a href="{html.escape(address)}">{html.escape(address)}</a>' if address else ""
    fields = {
        "author": f"{{{' and '.join(map(_tex, authors))}}}",
        "title": f"{{{_tex(book['title'] if whole else title)}}}",
        "howpublished": _tex(f"{'' if whole else book['title'] + ', '}version {version}"),
        "year": year,
        "note": _tex(", ".join(made)),
        "url": address,
    }
    name = "reefnet-companion" + ("" if whole else f":{page.removeprefix('chapters/').replace('/', '-')}")
    lines = "".join(f"  {key} = {{{value}}},\n" for key, value in fields.items() if value)
    shown = [f"@misc{{{name},\n{lines}}}"]
    found = papers(page)
    also = ""
    if found:
        shown += [entries[key][0] for key in found]
        whose = "paper whose numbers it shows" if len(found) == 1 else "papers whose numbers it shows"
        also = f"<p>And the {whose}:</p>" + "".join(f"<p>{entries[key][1]}</p>" for key in found)
    elif re.match(r"chapters/[89]", page):
        link = f'<a href="{"../" * page.count("/")}references.html">references</a>'
        also = f"<p>{OWN.format(references=link)}</p>"
    bibtex = html.escape("\n\n".join(shown))
    return (
        '<section id="cite-this-page"><h2>How to cite this page<a class="headerlink" href="#cite-this-page" '
        f'title="Link to this heading">#</a></h2><p>{words}</p>{also}<p>As BibTeX:</p>'
        '<div class="highlight-bibtex notranslate"><div class="highlight"><pre tabindex="0">'
        f"<span></span>{bibtex}\n</pre></div></div></section>"
    )


def _tex(text: str) -> str:
    """Write text so that LaTeX prints it."""
    signs = {"\\": r"\textbackslash{}", "–": "--", "—": "---"} | {one: f"\\{one}" for one in "&%$#_{}"}
    return "".join(signs.get(one, one) for one in text)


def on_page(app, pagename, templatename, context, doctree):
    """Give the template the section of a page that somebody wrote."""
    if doctree is None:
        return
    if 'class="citation-list"' in context.get("body", ""):  # a list whose children are none to a screen reader
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
    source, record = Path(app.srcdir), Path(app.srcdir, f"{pagename}.json")
    citation = source.parent / "CITATION.cff"
    if not citation.exists():
        return
    base = app.config.html_baseurl.rstrip("/")
    address = f"{base}/{pagename}.html" if base else app.config.html_theme_options.get("repository_url", "")
    title = html.unescape(re.sub(r"<[^>]+>", "", context.get("title", pagename)))
    run = json.loads(record.read_text(encoding="utf-8")) if record.exists() else None
    entries = _entries(source / "references.bib")
    context["reef_cite"] = section(pagename, title, _book(citation), run, entries, address)


def setup(app):
    """Register with Sphinx, and the styles with pybtex and sphinxcontrib-bibtex."""
    register_plugin("pybtex.style.formatting", "author_year", ReefStyle)
    register_referencing("sphinxcontrib.bibtex.style.referencing", "author_year_reef", Reference)
    app.connect("html-page-context", on_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
