"""Labels as people write them -> the accepted names of WoRMS, with AphiaIDs, from tables that travel with the library.

`data/taxonomy/README.md` says where the tables come from. Nothing here asks the network: `reefcore.worms` does.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import share

OCEANS = ("Atlantic", "Indo-Pacific")
ATLANTIC_REALMS = ("Tropical Atlantic", "Temperate Northern Atlantic")
#: What a benthic label that is not a hard coral belongs to (the released file's Broad_category).
BROAD = {
    "Turf algae": "Algae",
    "Macroalgae": "Algae",
    "Chlorophyta": "Algae",
    "Phaeophyceae": "Algae",
    "Rhodophyta": "Algae",
    "Corallinales": "Algae",
    "Cyanobacteria": "Algae",
    "Sediment": "Abiotic background",
    "Hard substrate": "Abiotic background",
    "Rubble": "Abiotic background",
    "Shadow": "Abiotic background",
    "Human objects": "Abiotic background",
    "Seagrass": "Other biota",
    "Octocorallia": "Other biota",
    "Porifera": "Other biota",
    "Millepora": "Other biota",
    "Other hydrozoa": "Other biota",
    "Zoantharia": "Other biota",
    "Actiniaria": "Other biota",
    "Echinoidea": "Other biota",
    "Tunicata": "Other biota",
    "Other invertebrate": "Other biota",
    "Fish": "Other biota",
    "Unknown": "Other biota",
}
HARD_CORAL = "Hard coral"
ORDER = "Scleractinia"
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
NEGATION = re.compile(r"\b(?:other than|except|excluding|without)\b.*|\b(?:non?|not)[\s-]+[a-z]+")
OPEN_LIST = re.compile(r"\betc\b|\b(?:and|&|or) others?\b")
TOKEN = re.compile(r"[a-zà-ÿ]+|[/&+,(]")
#: Where two names stand on either side of one of these, a label names both.
LIST = {*"/&+,", "and", "or"}
#: Words of labels that name no taxon. They are never taken for a misspelt or shortened name.
PLAIN = frozenset(
    """adult and arborescent atlantic bare big blue bottlebrush branch branched branches branching brown bushy
    caespitose cf clumping cluster colonies colony column columnar common complex coral corallite corallites
    corals corymbose cover crust crustose cup deep digit digitate digitiform dome encrust encrusting erect fine
    finger fingers flat foliaceous foliacious foliate foliose form forms fragment free freeliving from genera
    genus green grey group growth hard hermatypic hispidose juvenile knobby lamellar laminar laminate large leafy
    lettuce light living lobate lobed low macro massive massives meandering meandrine meandroid medium mixed morph
    morphology mound mounding mushroom nodular nodule open orange other others pacific partial pillar pink plate
    plates plating platy plocoid purple recruit recruits ridge rose rounded sheet short small smooth solitary
    species spiky star stony stout subgenus submassive table tables tabular tabulate tall thick thin tubular
    unattached unclassified undetermined unidentified unknown vase white wire with yellow""".split()
)
#: Homonyms: the words beside the name that say it is not the coral, and what it then is.
HOMONYMS = {
    "Turbinaria": (r"alga|phaeo|seaweed|fucal|sargass|macrophyt", "Phaeophyceae"),
    "Undaria": (r"alga|phaeo|seaweed|kelp|laminari", "Phaeophyceae"),
    "Acropora": (r"bryozo", "Other invertebrate"),
    "Astrea": (r"gastropod|snail|mollus|turban", "Other invertebrate"),
}
OLD_FAMILIES = ("Mussidae", "Pectiniidae", "Siderastreidae", "Trachyphylliidae")
CUTOFF = 0.85  # similarity (difflib ratio) from which an unknown word is taken for a misspelling of a known name
CLEAR = 0.03  # by which it must be nearer to that name than to one that means something else
WITH_EPITHET = 0.7  # the same cutoff where the next word is a species of that genus
DOMINANT = 30  # an abbreviation is the one with this many times the public annotations of all others it may stand for
COLUMNS = "label taxon rank aphia_id condition how score genus family order class candidates reason".split()
LIKE = 0.6  # similarity from which a name is offered as a candidate for an unmatched label
VAGUE = (ORDER, "Human objects", "Shadow", "Unknown")  # what a label means only where it names nothing finer
UNSURE = ("spelling", "abbreviation", "epithet")  # ways to match that a person should confirm


@cache
def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(share("data", "taxonomy", f"{name}.csv"), dtype="str")


@cache
def _taxa() -> pd.DataFrame:
    taxa = pd.read_csv(share("data", "taxonomy", "coral_taxa.csv"))
    taxa = taxa.rename(columns={"genus_or_family": "taxon"})
    taxa["rank"] = taxa["rank"].str.lower()
    taxa["aphia_id"] = taxa["aphia_id"].astype("Int64")
    return taxa


def taxa() -> pd.DataFrame:
    """Return the hard-coral taxa whose AphiaIDs are known offline.

    Returns
    -------
    DataFrame
        ``taxon``, ``rank`` (genus or family), ``aphia_id``, ``family``, ``status`` and the evidence columns of
        ``data/taxonomy/coral_taxa.csv`` (derived from WoRMS, CC BY 4.0).
    """
    return _taxa().copy()


def ocean_of(realm: str | None) -> str | None:
    """Tell whose coral fauna a MEOW realm has: ``'Atlantic'`` or ``'Indo-Pacific'``; None where it is unknown."""
    if realm is None or pd.isna(realm):
        return None
    return "Atlantic" if realm in ATLANTIC_REALMS else "Indo-Pacific"


def _key(text: str) -> str:
    """Fold a label for comparison: lower case, punctuation as spaces, one space."""
    return re.sub(r"[^0-9a-zà-ÿ]+", " ", str(text).casefold()).strip()


@dataclass(frozen=True)
class _Found:
    """What a label, or a word of one, means; `genus` is the finest genus it names, `reason` why `taxon` is None."""

    taxon: str | None = None
    how: str | None = None
    score: float = 1.0
    genus: str | None = None
    candidates: tuple[str, ...] = ()
    reason: str = ""


class _Names:
    """The tables of names for the labels of one ocean (or of an unknown one), and how a word is looked up in them."""

    def __init__(self, ocean: str | None):
        self.ocean = ocean
        coral, more, names = _taxa(), _read("genera"), _read("species_names")
        genera = coral[coral["rank"] == "genus"].set_index("taxon")
        self.family = more.set_index("genus")["family"].to_dict() | genera["family"].to_dict()
        self.accepted = {name: name for name in self.family}
        self.accepted |= more.dropna().set_index("genus")["accepted"].to_dict()
        self.genera = {name.casefold(): name for name in self.family}
        families = {*_read("coral_families")["family"], *self.family.values(), *OLD_FAMILIES}
        self.families = {name.casefold(): name for name in families if name.endswith("idae")}
        self.other = {name: row.label for row in _read("not_hard_coral").itertuples() for name in row.names.split()}
        self.ids = coral[coral["status"].str.startswith("accepted")].set_index("taxon")["aphia_id"].to_dict()
        self.ids |= _read("coral_families").dropna().set_index("family")["aphia_id_used"].astype("Int64").to_dict()
        self.codes, self.phrases, self.successors, self.elsewhere = {}, {}, set(), set()
        for row in pd.concat([_read("label_aliases"), _read("label_aliases_more")]).itertuples():
            key, here = _key(row.alias), pd.isna(row.ocean) or row.ocean == ocean
            if row.kind == "code":
                if here:
                    self.codes.setdefault(key, row.label)
                else:
                    self.elsewhere.add(key)
            elif row.kind == "misspelling":
                self.genera.setdefault(key, row.label)
            elif row.kind == "old name" and " " not in key:
                self.successors.add((row.alias, row.label))
                if here:
                    self.accepted[row.alias] = row.label
            elif row.kind not in ("old name", "member") and here:
                self.phrases.setdefault(tuple(key.split()), (row.label, row.kind))
        self.codes = {key: label for key, label in self.codes.items() if tuple(key.split()) not in self.phrases}
        self.species, self.of_epithet = {}, defaultdict(set)
        for row in names.itertuples():
            for epithet in row.epithets.split():
                self.species[row.written, epithet] = row.taxon
                if ocean is None or pd.isna(row.ocean) or row.ocean == ocean:
                    self.of_epithet[epithet].add(row.written)
        counts = _read("reefnet_genus_counts").set_index("taxon")["coralnet_public_annotations"].astype(float)
        self.counts = counts.fillna(0).to_dict()
        self.targets = sorted({*(name.casefold() for name in self.family), *self.families, *self.other, *PLAIN})
        self.letters = np.array([_letters(name) for name in self.targets])

    def default(self, genus: str) -> str:
        """Give the taxon of a genus as written, where no species decides."""
        name = self.accepted[genus]
        return "Fungiidae" if self.family.get(name) == "Fungiidae" else name

    def of(self, genus: str, epithet: str) -> str | None:
        """Give the taxon of a species, under its genus as written or the genus that is accepted for that."""
        return self.species.get((genus, epithet)) or self.species.get((self.accepted[genus], epithet))

    def meaning(self, name: str) -> str | None:
        """Give the taxon or category of a name of the tables; None for a plain word."""
        if name in self.genera:
            return self.default(self.genera[name])
        return self.families.get(name) or self.other.get(name)

    def named(self, how: str, score: float, genera: set[str], taxa: set[str]) -> _Found:
        """Decide between the taxa that an indirect name may stand for: one, or none of them."""
        if len(taxa) > 1:
            return _Found(candidates=tuple(sorted(taxa)), reason="could stand for several taxa")
        genus = self.accepted[next(iter(genera))] if len(genera) == 1 and next(iter(genera)) in self.accepted else None
        return _Found(next(iter(taxa)), how, score, genus)

    def near(self, word: str, cutoff: float) -> list[tuple[float, str]]:
        """List the known names with the same first letter that are similar to a word, the nearest first."""
        lengths = self.letters.sum(1) + len(word)
        # Letters that only one of the two has bound the ratio from above: few names are left to compare in full.
        possible = np.abs(self.letters - _letters(word)).sum(1) <= (1 - cutoff) * lengths
        names = (self.targets[i] for i in np.flatnonzero(possible) if self.targets[i][0] == word[0])
        ratios = [(difflib.SequenceMatcher(None, word, name, False).ratio(), name) for name in names]
        return sorted(((r, name) for r, name in ratios if r >= cutoff), key=lambda pair: (-pair[0], pair[1]))

    def spelling(self, word: str) -> _Found | None:
        """Take a word for a misspelling of the one name it is near to."""
        near = self.near(word, CUTOFF) if len(word) > 5 else []
        if word.endswith("idae"):  # a family that is not known names no genus, however like it looks
            near = [(ratio, name) for ratio, name in near if name in self.families]
        if not near or self.meaning(near[0][1]) is None:
            return None
        best = [name for ratio, name in near if ratio > near[0][0] - CLEAR]
        taxa = {self.meaning(name) or name for name in best}
        return self.named("spelling", near[0][0], {self.genera[n] for n in best if n in self.genera}, taxa)

    def current(self, written: set[str], epithet: str) -> set[str]:
        """Give the taxa of a species named under several genera: those that still hold it, where some do."""
        taxa = {genus: self.species[genus, epithet] for genus in written}
        held = {taxon for genus, taxon in taxa.items() if taxon in (genus, "Fungiidae") or taxon in BROAD}
        return held or set(taxa.values())

    def binomial(self, word: str, epithet: str) -> _Found | None:
        """Read a shortened or misspelt genus by the species that follows: "P. rus", "mont capitata"."""
        written = {genus for genus in self.of_epithet.get(epithet, ()) if genus.casefold().startswith(word)}
        if written:
            return self.named("abbreviation", 1.0, written, self.current(written, epithet))
        if len(epithet) > 2 and not any(plain.startswith(epithet) for plain in PLAIN):  # "P. irr"
            full = [e for e in self.of_epithet if e.startswith(epithet)]
            written = {g for e in full for g in self.of_epithet[e] if g.casefold().startswith(word)}
            taxa = {taxon for e in full for taxon in self.current({*written} & self.of_epithet[e], e)}
            if taxa:
                return self.named("abbreviation", 1.0, written, taxa)
        near = [
            (difflib.SequenceMatcher(None, word, genus.casefold()).ratio(), genus)
            for genus in self.of_epithet.get(epithet, ())
            if genus[0].casefold() == word[0]
        ]
        if len(word) > 4 and near and max(near)[0] >= WITH_EPITHET:
            ratio, genus = max(near)
            return self.named("spelling", ratio, {genus}, {self.species[genus, epithet]})
        return None

    def indirect(self, word: str, alone: bool) -> _Found | None:
        """Read one word that is no known name as a run-together, shortened or misspelt one."""
        written = {g for g in self.of_epithet.get(word[1:], ()) if g[0].casefold() == word[0]}
        if written and alone and len(word) > 5:  # "mcavernosa"
            return self.named("epithet", 1.0, written, self.current(written, word[1:]))
        for name, genus in self.genera.items():  # "poritesmassive", "acroporas"
            rest = word.removeprefix(name)
            if len(name) > 4 and rest != word:
                if self.of(genus, rest):
                    return self.named("word", 1.0, {genus}, {self.of(genus, rest)})
                if rest in ("s", "sp", "spp") or (len(rest) > 2 and any(p.startswith(rest) for p in PLAIN)):
                    return self.named("word", 1.0, {genus}, {self.default(genus)})
        short = [name for name in (*self.genera, *self.other) if name.startswith(word)] if len(word) > 3 else []
        return self.shortened(short) if any(name in self.genera for name in short) else self.spelling(word)

    def shortened(self, names: list[str]) -> _Found:
        """Decide which of the names that begin like an abbreviation it stands for: the one that nearly all mean."""
        genera = {self.genera[name] for name in names if name in self.genera}
        taxa = {self.meaning(name) for name in names} | {HOMONYMS[g][1] for g in genera & {"Turbinaria", "Undaria"}}
        weight = {taxon: self.counts.get(taxon, 0.0) for taxon in taxa}
        top = max(weight, key=lambda taxon: (weight[taxon], taxon))
        if taxa.isdisjoint(BROAD) and weight[top] > DOMINANT * (sum(weight.values()) - weight[top]):
            taxa = {top}
            genera = {genus for genus in genera if self.default(genus) == top}
        return self.named("abbreviation", 1.0, genera, taxa)


def _letters(word: str) -> np.ndarray:
    return np.bincount([min(ord(c) - 97, 26) if c >= "a" else 26 for c in word], minlength=27)


_names = cache(_Names)


def _condition(text: str) -> tuple[str, str | None]:
    """Split the words on a colony's health off a label in lower case."""
    found = None
    for pattern, name in CONDITIONS.items():
        text, times = re.subn(pattern, " ", text)
        found = found or (name if times else None)
    return text, found


def _match(label: str, names: _Names) -> tuple[_Found, str | None]:
    """Match one label; returns what it means and the condition that it names."""
    text = re.sub(r"^X(?=[._\d])", "", label)  # R puts an X before a name that may not start so
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])|[_.-]", " ", text).casefold()
    if _key(text) in names.codes:
        return _Found(names.codes[_key(text)], "code"), None
    text, condition = _condition(NEGATION.sub(" ", text))
    if _key(text) in names.codes:
        return _Found(names.codes[_key(text)], "code"), condition
    return _read_words(text, names), condition


def _read_words(text: str, names: _Names) -> _Found:
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
            (others if label in BROAD and label not in VAGUE else vague).append((i, _Found(label, kind)))
        elif word in names.other:
            others.append((i, _Found(names.other[word], "name" if len(tokens) == 1 else "word")))
        elif family:
            vague.append((i, _Found(family, "name" if len(tokens) == 1 else "word")))
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
    return _guess(rest, names) or (dict(vague)[strength[0][1]] if strength else _Found(reason="no known name"))


def _several(taxa: set[str]) -> _Found:
    return _Found(candidates=tuple(sorted(taxa)), reason="names several taxa")


def _genus(corals: list, tokens: list, rest: list, text: str, names: _Names) -> _Found:
    """Decide which taxon the genera that a label names mean, given the species beside them."""
    taxa = set()
    for _, genus in corals:
        pattern, label = HOMONYMS.get(genus, ("(?!)", None))
        if re.search(pattern, text) or (genus == "Turbinaria" and names.ocean == "Atlantic"):
            return _Found(label, "homonym")
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
        return _Found(taxon, "homonym" if written[0] in HOMONYMS else "word")
    if taxon == "Fungiidae":
        return _Found(taxon, "member", 1.0, genus if len(written) == 1 and not OPEN_LIST.search(text) else None)
    exact = "name" if len(tokens) == 1 else "word"
    how = exact if taxon.casefold() in tokens else "misspelling" if taxon == written[0] else "old name"
    return _Found(taxon, how, 1.0, taxon)


def _guess(words: list[str], names: _Names) -> _Found | None:
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


def match_labels(labels, ocean: str | None = None) -> pd.DataFrame:
    """Match labels as sources write them to taxa (genus, or family for Fungiidae) and benthic categories.

    Words on health are split off first. A label that is a code as a whole is a code; else its words are read as names:
    the genus, under the name that is accepted today for that species, before a family and that before the order. A
    label that names two genera is left unmatched, and so is one that names a coral and something else. Where no word
    is a name, run-together names ("mcavernosa"), abbreviations ("acrop", "P. rus") and misspellings are tried.

    Parameters
    ----------
    labels : iterable of str
        Labels; each distinct one is matched once. Codes that differ in case only mean different things in one list, so
        none of them is matched.
    ocean : {'Atlantic', 'Indo-Pacific'}, optional
        Decides names that mean different corals in the two oceans: Favia is Dipsastraea in the Indo-Pacific. Without
        it, aliases that hold in one ocean only are not used.

    Returns
    -------
    DataFrame
        ``label`` (as given), ``taxon`` (NA where unmatched), ``rank`` (genus, family, order, other), ``aphia_id`` (NA
        for benthic categories and for taxa whose id is not known offline), ``condition`` (Bleached, Dead, Diseased,
        Pale, Trematodiasis, Healthy or NA), ``how`` (name, word, old name, member of Fungiidae, misspelling, homonym,
        epithet, abbreviation, spelling, or the kind of alias), ``score`` (1 for an exact match, else the similarity in
        [0, 1]), ``genus`` (the finest genus named, which for Fungiidae is not the taxon), ``family``, ``order`` and
        ``class`` of a hard coral, ``candidates`` (taxa that an unmatched label may mean, comma-separated) and
        ``reason`` (why it is unmatched).

    Raises
    ------
    ReefcoreError
        Where `ocean` is not one of the two.
    """
    if ocean is not None and ocean not in OCEANS:
        raise ReefcoreError(f"ocean={ocean!r} is not known", do=f"choose one of {', '.join(OCEANS)}, or None")
    names = _names(ocean)
    distinct = list(dict.fromkeys(labels))
    found = [_match(str(label), names) for label in distinct]
    folded = pd.Series([_key(label) for label in distinct], dtype="str")
    clash = folded.duplicated(keep=False) & np.array([what.how == "code" for what, _ in found], bool)
    rows = []
    for label, (what, condition), clashes, key in zip(distinct, found, clash, folded, strict=True):
        if clashes:
            what = _Found(candidates=(what.taxon,), reason="codes that differ in case only")
        elif what.taxon is None and key in names.elsewhere:
            what = _Found(candidates=what.candidates, reason="a code whose meaning depends on the ocean")
        taxon = what.taxon
        family = names.family.get(taxon) or (taxon if str(taxon).casefold() in names.families else None)
        coral = family is not None or taxon == ORDER
        rank = "genus" if taxon in names.family else "family" if family else "order" if coral else "other"
        genus = what.genus or (taxon if rank == "genus" else None)
        lineage = (genus, family, ORDER, "Hexacorallia") if coral else (None,) * 4
        score = what.score if taxon else 0.0
        row = (label, taxon, rank if taxon else None, names.ids.get(taxon), condition, what.how, score, *lineage)
        rows.append((*row, ", ".join(what.candidates), what.reason))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype(dict.fromkeys(set(COLUMNS) - {"label", "score"}, "str") | {"aphia_id": "Int64"})


def map_labels(annotations: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fill label, rank, aphia_id, broad_category and condition of annotations from their raw labels.

    Which ocean's names hold is read from ``realm``.

    Parameters
    ----------
    annotations : DataFrame
        The annotations table; ``label_raw`` and ``realm`` are used.

    Returns
    -------
    mapped : DataFrame
        The same rows in the same order.
    mapping : DataFrame
        One row per ocean and raw label: the columns of `match_labels`, with ``ocean`` and ``annotations`` (count); the
        coverage report that says what stayed unmatched.
    """
    oceans = annotations["realm"].map(ocean_of)
    parts = []
    for ocean in [*OCEANS, None]:
        here = oceans == ocean if ocean else oceans.isna()
        counts = annotations.loc[here, "label_raw"].value_counts().sort_index()
        parts.append(match_labels(counts.index, ocean).assign(ocean=ocean, annotations=counts.to_numpy()))
    mapping = pd.concat([part for part in parts if len(part)], ignore_index=True)
    key = pd.MultiIndex.from_arrays([oceans.fillna(""), annotations["label_raw"]])
    found = mapping.assign(ocean=mapping["ocean"].fillna("")).set_index(["ocean", "label"]).reindex(key)
    coral = found["rank"].isin(["genus", "family", "order"]).to_numpy()
    mapped = annotations.assign(
        label=found["taxon"].array,
        rank=found["rank"].array,
        aphia_id=found["aphia_id"].array,
        condition=found["condition"].array,
        broad_category=found["taxon"].map(BROAD).mask(coral, HARD_CORAL).array,
    )
    return mapped, mapping


def coverage(mapping: pd.DataFrame) -> pd.DataFrame:
    """Count how spellings were matched, and how many were not.

    Parameters
    ----------
    mapping : DataFrame
        From `map_labels`.

    Returns
    -------
    DataFrame
        ``how``, ``spellings``, ``points``, ``share`` (of the points).
    """
    table = mapping.assign(how=mapping["how"].fillna("not matched")).groupby("how", sort=True)
    table = table.agg(spellings=("label", "size"), points=("annotations", "sum")).reset_index()
    return table.assign(share=table["points"] / table["points"].sum())


def review_table(mapping: pd.DataFrame) -> pd.DataFrame:
    """List what a person must decide: labels that are unmatched, and matches that rest on likeness or a short code.

    Parameters
    ----------
    mapping : DataFrame
        From `map_labels`, or from `match_labels` (then without counts).

    Returns
    -------
    DataFrame
        ``label``, ``ocean``, ``annotations``, ``taxon`` (proposed; NA where unmatched), ``how``, ``score``,
        ``candidates`` (where none are known, the names most like a word of the label) and ``reason``; the most
        annotated first, then by label.
    """
    mapping = mapping.assign(**{name: pd.NA for name in ("ocean", "annotations") if name not in mapping})
    short = (mapping["how"] == "code") & (mapping["label"].str.len() < 4)
    table = mapping[mapping["taxon"].isna() | mapping["how"].isin(UNSURE) | short].copy()
    names = _names(None)
    reasons = {
        "code": "a code of fewer than four letters",
        "spelling": "a misspelling, by its likeness",
        "abbreviation": "a shortened name",
        "epithet": "an initial and a species, run together",
    }
    for row in table.itertuples():
        if pd.isna(row.taxon) and not row.candidates:
            words = [word for word in _key(row.label).split() if word.isalpha() and len(word) > 3 and word not in PLAIN]
            near = sorted((pair for word in words for pair in names.near(word, LIKE)), reverse=True)
            taxa = dict.fromkeys(names.meaning(name) for _, name in near if names.meaning(name))
            table.at[row.Index, "candidates"] = ", ".join(list(taxa)[:3])
        elif pd.notna(row.taxon):
            table.at[row.Index, "reason"] = reasons[row.how]
    order = ["label", "ocean", "annotations", "taxon", "how", "score", "candidates", "reason"]
    return table.sort_values(["annotations", "label"], ascending=[False, True], ignore_index=True)[order]


def fill_ids(mapping: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Fill AphiaIDs that are not known offline from a look-up in WoRMS.

    Parameters
    ----------
    mapping : DataFrame
        With ``taxon`` and ``aphia_id``.
    found : DataFrame
        From `reefcore.worms.lookup`: ``name``, ``accepted_aphia_id``.

    Returns
    -------
    DataFrame
        The same rows; ids that were there stay.
    """
    ids = found.set_index("name")["accepted_aphia_id"]
    return mapping.assign(aphia_id=mapping["aphia_id"].fillna(mapping["taxon"].map(ids)).astype("Int64"))
