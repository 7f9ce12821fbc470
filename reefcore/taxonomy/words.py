"""Reading one label: its words on health go, negations fall away, and what is left names a taxon or does not."""

from __future__ import annotations

import difflib
import re
from itertools import pairwise

from reefcore.taxonomy.names import BROAD, CUTOFF, HOMONYMS, ORDER, PLAIN, Found, Names, fold

#: What a label says about a colony's health, in words that are no part of a name; the first that fits is the condition.
CONDITIONS = {
    r"(?:partial|partly)\w* (?:mortality|dead)|\b(?:covered|overgrown) (?:with|by|in) \w+": None,
    r"(?:\b(?:alga[el]?|turf|sponge|sediment|cca) )?\b(?:overgrow\w+|covered)": None,
    r"(?:(?:partial|partly|full)\w* )?\bbleach\w*": "Bleached",
    r"(?:(?:recent|new|old|long|fresh)(?:ly)? )?\b(?:dead|killed|mortality)\b": "Dead",
    r"\btrematod\w*": "Trematodiasis",
    r"\bdiseas\w*|\b(?:white|black|yellow) (?:band|syndrome)\b|\bdark spots?\b": "Diseased",
    r"\bgrowth anomal\w*|\bhypermycosis|\btissue loss": "Diseased",
    r"\bpal(?:e|ing)\b": "Pale",
    r"\b(?:healthy?|alive|live)\b": "Healthy",
}
#: "Acropora-associated algae" is about the algae; a label that says what it is not says nothing else.
ASSOCIATED = re.compile(r"\b[a-z]+[\s-]+associated\b")
DENIED = re.compile(r"\b(?:non?|not)[\s-]+(?:scleract|ston(?:e|y)|hard[\s-]+coral|reef[\s-]*building)")
NEGATION = re.compile(r"\b(?:other than|except|excluding|without)\b.*|\b(?:non?|not)[\s-]+[a-z]+")
OPEN_LIST = re.compile(r"\betc\b|\b(?:and|&|or) others?\b")
TOKEN = re.compile(r"[a-zà-ÿ]+|[/&+,(]")
#: Where two names stand on either side of one of these, a label names both.
LIST = {*"/&+,", "and", "or"}
VAGUE = (ORDER, "Human objects", "Shadow", "Unknown")  # what a label means only where it names nothing finer


def match(label: str, names: Names) -> tuple[Found, str | None]:
    """Match one label; returns what it means and the condition that it names."""
    text = re.sub(r"^X(?=[._\d])", "", label)  # R puts an X before a name that may not start so
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])|[_.-]", " ", text).casefold()
    if fold(text) in names.codes:
        return Found(names.codes[fold(text)], "code"), None
    if DENIED.search(text):
        return Found(reason="says what it is not"), None
    text, condition = _condition(ASSOCIATED.sub(" ", NEGATION.sub(" ", text)))
    if fold(text) in names.codes:
        return Found(names.codes[fold(text)], "code"), condition
    return _read_words(text, names), condition


def _condition(text: str) -> tuple[str, str | None]:
    """Split the words on a colony's health off a label in lower case."""
    found = None
    for pattern, name in CONDITIONS.items():
        text, times = re.subn(pattern, " ", text)
        found = found or (name if times else None)
    return text, found


def _read_words(text: str, names: Names) -> Found:
    """Find the finest taxon that the words of a label name: a coral genus before a family, that before the order."""
    tokens = TOKEN.findall(text)
    corals, others, vague, used = [], [], [], set()  # (place, what): genera; what is no hard coral; all else
    for i, word in enumerate(tokens):
        if i in used or word in LIST:
            continue
        genus = names.genera.get(word)
        family = names.families.get(word) or names.families.get(re.sub(r"ids?$", "idae", word))
        length = next((n for n in (4, 3, 2, 1) if tuple(tokens[i : i + n]) in names.phrases), 0)
        used.update(range(i, i + max(length, bool(genus or family or word in names.other))))
        if genus:
            corals.append((i, genus))
            if i + 1 < len(tokens) and names.of(genus, tokens[i + 1]):
                used.add(i + 1)  # "Pocillopora meandrina": the species is not the genus Meandrina
        elif length > 1 or (length and word not in names.other):
            label, kind = names.phrases[tuple(tokens[i : i + length])]
            (others if label in BROAD and label not in VAGUE else vague).append((i, Found(label, kind)))
        elif word in names.other:
            others.append((i, Found(names.other[word], "name" if len(tokens) == 1 else "word")))
        elif family:
            vague.append((i, Found(family, "name" if len(tokens) == 1 else "word")))
    rest = [word for i, word in enumerate(tokens) if i not in used and word not in PLAIN | LIST | {"("}]
    places = sorted([(i, True) for i, _ in corals] + [(i, False) for i, _ in others])
    for (i, one), (j, two) in pairwise(places):
        if one != two and LIST & {*tokens[i:j]}:
            return _several({*(names.default(g) for _, g in corals), *(what.taxon for _, what in others)})
    rubble = next((what for _, what in others if what.taxon == "Rubble"), None)
    if rubble or (others and (not corals or others[0][0] < corals[0][0])):
        return rubble or others[0][1]
    if corals:
        return _genus(corals, tokens, rest, text, names)
    families = {what.taxon for _, what in vague if what.taxon in names.families.values()}
    if len(families) > 1:
        return _several(families)
    strength = sorted((VAGUE.index(what.taxon) if what.taxon in VAGUE else -1, i) for i, what in vague)
    return _guess(rest, names) or (dict(vague)[strength[0][1]] if strength else Found(reason="no known name"))


def _several(taxa: set[str]) -> Found:
    return Found(candidates=tuple(sorted(taxa)), reason="names several taxa")


def _genus(corals: list, tokens: list, rest: list, text: str, names: Names) -> Found:
    """Decide which taxon the genera that a label names mean, given the species beside them."""
    taxa = set()
    for _, genus in corals:
        pattern, label = HOMONYMS.get(genus, ("(?!)", None))
        if re.search(pattern, text) or (genus == "Turbinaria" and names.ocean == "Atlantic"):
            return Found(label, "homonym")
        found = {names.of(genus, word) for word in tokens} - {None}
        if not found:  # a misspelt species of a genus that was split
            epithets = [e for g, e in names.species if g == genus]
            near = [difflib.get_close_matches(word, epithets, 1, CUTOFF) for word in rest if len(word) > 4]
            found = {names.species[genus, hit[0]] for hit in near if hit}
        taxa |= found or {names.default(genus)}
    if LIST & {*tokens}:
        spelt = [names.spelling(word) for word in rest]
        taxa |= {hit.taxon for hit in spelt if hit and hit.taxon and hit.taxon not in BROAD}
    written = list(dict.fromkeys(genus for _, genus in corals))
    if len(taxa) == 2 and len(written) == 2:  # "Dipsastraea (Favia)": one genus under its new and its old name
        inside = tokens[corals[1][0] - 1] in ("(", "subgenus", "formerly", "ex")
        for old, new in (written, written[::-1]):
            moved = any(g == old and taxon == new for (g, _), taxon in names.species.items())
            if (old, new) in names.successors or (inside and moved):
                taxa = {new}
    if len(taxa) > 1 or (OPEN_LIST.search(text) and taxa != {"Fungiidae"}):
        return _several(taxa)
    taxon, genus = taxa.pop(), names.accepted[written[0]]
    if taxon in BROAD:
        return Found(taxon, "homonym" if written[0] in HOMONYMS else "word")
    if taxon == "Fungiidae":
        return Found(taxon, "member", 1.0, genus if len(written) == 1 and not OPEN_LIST.search(text) else None)
    exact = "name" if len(tokens) == 1 else "word"
    how = exact if taxon.casefold() in tokens else "misspelling" if taxon == written[0] else "old name"
    return Found(taxon, how, 1.0, taxon)


def _guess(words: list[str], names: Names) -> Found | None:
    """Read words that are no known names: a shortened or misspelt genus, with or without its species."""
    found, i = [], 0
    while i < len(words):
        pair = names.binomial(words[i], words[i + 1]) if i + 1 < len(words) else None
        found.append(pair or names.indirect(words[i], len(words) == 1))
        i += 2 if pair else 1
    found = [what for what in found if what]
    sure = [what for what in found if what.taxon]
    if len({what.taxon for what in sure}) > 1:
        return _several({what.taxon for what in sure})
    return next(iter(sure + found), None)
