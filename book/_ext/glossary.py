"""Links the first use of each term of the glossary on every other page to its definition.

Which spellings are links is said in the glossary itself: the lines of the term, or, where there is one, the list in a
comment ``% links: ...`` under it (``none``: no link by itself, for words that mean other things as well). A plural in
-s or -es counts; a spelling with a capital letter counts only with it. The links are made when pages are written, as
references like those that somebody writes by hand.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

#: Inside of these nothing is a use of a word in a sentence, or there is a link already.
CLOSED = (nodes.title, nodes.reference, addnodes.pending_xref, nodes.FixedTextElement, nodes.literal, nodes.raw)
CLOSED += (nodes.math, nodes.math_block, nodes.term, nodes.caption, nodes.citation, nodes.footnote, addnodes.glossary)
CLOSED += (nodes.problematic, nodes.system_message, nodes.substitution_definition, nodes.Invisible)
CLOSED_CLASSES = {"cell", "sd-card"}  # what a notebook runs and shows; a card is one link as a whole


def spellings(page: str) -> dict[str, str]:
    """Read which spellings are links.

    Parameters
    ----------
    page : str
        Source of the page with the ``{glossary}`` directives.

    Returns
    -------
    dict
        Spelling -> the first line of its term, longest spelling first.
    """
    found: dict[str, str] = {}
    for block in re.findall(r"^```\{glossary\}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for entry in re.findall(r"(?:^\S.*\n)+(?:^[ \t]+.*\n|^\n)+", block, re.MULTILINE):
            terms = [line for line in entry.splitlines() if line and not line[0].isspace() and line[0] != ":"]
            if terms:
                said = re.search(r"^\s+% links: *(.*)$", entry, re.MULTILINE)
                listed = [one.strip() for one in said[1].split(",")] if said else terms
                found |= {one: terms[0] for one in listed if one and one != "none"}
    return dict(sorted(found.items(), key=lambda item: (-len(item[0]), item[0])))


def pattern(found: dict[str, str]) -> re.Pattern | None:
    """Build the expression that finds any of the spellings as whole words; None where there are none."""
    parts = []
    for one in found:
        words = r"\s+".join(map(re.escape, one.split()))
        parts.append(words + r"(?:e?s)?" if one != one.lower() else f"(?i:{words}(?:e?s)?)")
    return re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-])") if parts else None


def term_of(word: str, found: dict[str, str]) -> str:
    """Return the term of a word that `pattern` found."""
    word = " ".join(word.split())
    for form in (word, word.lower()):
        for ending in ("", "s", "es"):
            if form.endswith(ending) and form.removesuffix(ending) in found:
                return found[form.removesuffix(ending)]
    raise LookupError(word)


class Linker(SphinxPostTransform):
    """Puts a reference in the place of the first use of each term, before Sphinx resolves references."""

    default_priority = 5

    def run(self, **kwargs) -> None:
        """Walk through the text of a page."""
        found, expression = self.app.env.reef_terms
        if expression is None or self.env.docname == self.app.config.glossary_page:
            return
        seen: set[str] = set()
        for element in list(self.document.findall(nodes.TextElement)):
            _join(element)
        for text in list(self.document.findall(nodes.Text)):
            if not _open(text):
                continue
            pieces, at, content = [], 0, str(text)
            for match in expression.finditer(content):
                term = term_of(match[0], found)
                if term not in seen:
                    seen.add(term)
                    pieces += [nodes.Text(content[at : match.start()]), _link(term, match[0], self.env.docname)]
                    at = match.end()
            if pieces:
                text.parent.replace(text, [one for one in [*pieces, nodes.Text(content[at:])] if one != ""])


def _join(element) -> None:
    """Make one text of pieces that follow each other: a term may run over the end of a line."""
    joined: list[nodes.Node] = []
    for child in element.children:
        if joined and isinstance(child, nodes.Text) and isinstance(joined[-1], nodes.Text):
            joined[-1] = nodes.Text(joined[-1] + child)
        else:
            joined.append(child)
    if len(joined) < len(element.children):
        element.children = []
        element.extend(joined)


def _open(node) -> bool:
    while (node := node.parent) is not None:
        if isinstance(node, CLOSED) or (isinstance(node, nodes.Element) and CLOSED_CLASSES & set(node["classes"])):
            return False
    return True


def _link(term: str, word: str, page: str) -> addnodes.pending_xref:
    shown = nodes.inline("", word, classes=["xref", "std", "std-term", "term"])
    options = {"refdomain": "std", "reftype": "term", "reftarget": term, "refdoc": page, "refexplicit": True}
    return addnodes.pending_xref("", shown, refwarn=True, **options)


def _read(app, env, added, changed, removed):
    """Read the terms once the pages are known; remember whether they may have changed."""
    page, name = Path(app.srcdir, f"{app.config.glossary_page}.md"), app.config.glossary_page
    found = spellings(page.read_text(encoding="utf-8")) if name in env.found_docs and page.exists() else {}
    env.reef_terms = found, pattern(found)
    env.reef_terms_new = name in {*added, *changed, *removed}
    return []


def _write_again(app, env):
    """Write every page again where the glossary is new."""
    return sorted(env.found_docs) if env.reef_terms_new else []


def setup(app):
    """Register the links with Sphinx."""
    app.add_config_value("glossary_page", "glossary", "env")
    app.connect("env-get-outdated", _read)
    app.connect("env-updated", _write_again)
    app.add_post_transform(Linker)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
