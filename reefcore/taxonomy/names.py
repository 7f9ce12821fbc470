"""The tables of names, and how one word is looked up in them."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from reefcore.files import share

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
ORDER = "Scleractinia"
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
    "Undaria": (r"alga|phaeo|seaweed|kelp|laminari|debris|frond", "Phaeophyceae"),
    "Acropora": (r"bryozo", "Other invertebrate"),
    "Astrea": (r"gastropod|snail|mollus|turban", "Other invertebrate"),
}
OLD_FAMILIES = ("Mussidae", "Pectiniidae", "Siderastreidae", "Trachyphylliidae")
CUTOFF = 0.85  # similarity (difflib ratio) from which an unknown word is taken for a misspelling of a known name
CLEAR = 0.03  # by which it must be nearer to that name than to one that means something else
WITH_EPITHET = 0.7  # the same cutoff where the next word is a species of that genus
DOMINANT = 30  # an abbreviation is the one with this many times the public annotations of all others it may stand for


@cache
def read(name: str) -> pd.DataFrame:
    return pd.read_csv(share("data", "taxonomy", f"{name}.csv"), dtype="str")


@cache
def coral_taxa() -> pd.DataFrame:
    taxa = pd.read_csv(share("data", "taxonomy", "coral_taxa.csv"))
    taxa = taxa.rename(columns={"genus_or_family": "taxon"})
    taxa["rank"] = taxa["rank"].str.lower()
    taxa["aphia_id"] = taxa["aphia_id"].astype("Int64")
    return taxa


def fold(text: str) -> str:
    """Fold a label for comparison: lower case, punctuation as spaces, one space."""
    return re.sub(r"[^0-9a-zà-ÿ]+", " ", str(text).casefold()).strip()


@dataclass(frozen=True)
class Found:
    """What a label, or a word of one, means; `genus` is the finest genus it names, `reason` why `taxon` is None."""

    taxon: str | None = None
    how: str | None = None
    score: float = 1.0
    genus: str | None = None
    candidates: tuple[str, ...] = ()
    reason: str = ""


class Names:
    """The tables of names for the labels of one ocean (or of an unknown one), and how a word is looked up in them."""

    def __init__(self, ocean: str | None):
        self.ocean = ocean
        coral, more, names = coral_taxa(), read("genera"), read("species_names")
        genera = coral[coral["rank"] == "genus"].set_index("taxon")
        self.family = more.set_index("genus")["family"].to_dict() | genera["family"].to_dict()
        self.accepted = {name: name for name in self.family}
        self.accepted |= more.dropna().set_index("genus")["accepted"].to_dict()
        self.genera = {name.casefold(): name for name in self.family}
        families = {*read("coral_families")["family"], *self.family.values(), *OLD_FAMILIES}
        self.families = {name.casefold(): name for name in families if name.endswith("idae")}
        self.other = {name: row.label for row in read("not_hard_coral").itertuples() for name in row.names.split()}
        self.ids = coral[coral["status"].str.startswith("accepted")].set_index("taxon")["aphia_id"].to_dict()
        self.ids |= read("coral_families").dropna().set_index("family")["aphia_id_used"].astype("Int64").to_dict()
        self.codes, self.phrases, self.successors, self.elsewhere = {}, {}, set(), set()
        for row in pd.concat([read("label_aliases"), read("label_aliases_more")]).itertuples():
            key, here = fold(row.alias), pd.isna(row.ocean) or row.ocean == ocean
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
        counts = read("reefnet_genus_counts").set_index("taxon")["coralnet_public_annotations"].astype(float)
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

    def named(self, how: str, score: float, genera: set[str], taxa: set[str]) -> Found:
        """Decide between the taxa that an indirect name may stand for: one, or none of them."""
        if len(taxa) > 1:
            return Found(candidates=tuple(sorted(taxa)), reason="could stand for several taxa")
        genus = self.accepted[next(iter(genera))] if len(genera) == 1 and next(iter(genera)) in self.accepted else None
        return Found(next(iter(taxa)), how, score, genus)

    def near(self, word: str, cutoff: float) -> list[tuple[float, str]]:
        """List the known names with the same first letter that are similar to a word, the nearest first."""
        lengths = self.letters.sum(1) + len(word)
        # Letters that only one of the two has bound the ratio from above: few names are left to compare in full.
        possible = np.abs(self.letters - _letters(word)).sum(1) <= (1 - cutoff) * lengths
        names = (self.targets[i] for i in np.flatnonzero(possible) if self.targets[i][0] == word[0])
        ratios = [(difflib.SequenceMatcher(None, word, name, False).ratio(), name) for name in names]
        return sorted(((r, name) for r, name in ratios if r >= cutoff), key=lambda pair: (-pair[0], pair[1]))

    def spelling(self, word: str) -> Found | None:
        """Take a word for a misspelling of the one name it is near to."""
        near = self.near(word, CUTOFF) if len(word) > 5 else []
        family = word.endswith("idae")  # one that is not known names no genus, however like it looks
        near = [(ratio, name) for ratio, name in near if (name in self.families) == family]
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

    def binomial(self, word: str, epithet: str) -> Found | None:
        """Read a shortened or misspelt genus by the species that follows: "P. rus", "mont capitata"."""
        written = {genus for genus in self.of_epithet.get(epithet, ()) if genus.casefold().startswith(word)}
        if written:
            return self.named("abbreviation", 1.0, written, self.current(written, epithet))
        if len(epithet) > 2 and not any(plain.startswith(epithet) for plain in PLAIN):  # "P. irr"
            found = self.begun(word, epithet)
            if found:
                return found
        near = [
            (difflib.SequenceMatcher(None, word, genus.casefold()).ratio(), genus)
            for genus in self.of_epithet.get(epithet, ())
            if genus[0].casefold() == word[0]
        ]
        if len(word) > 4 and near and max(near)[0] >= WITH_EPITHET:
            ratio, genus = max(near)
            return self.named("spelling", ratio, {genus}, {self.species[genus, epithet]})
        return None

    def begun(self, word: str, epithet: str) -> Found | None:
        """Read the beginnings of a genus and of one of its species."""
        full = [e for e in self.of_epithet if e.startswith(epithet)]
        written = {g for e in full for g in self.of_epithet[e] if g.casefold().startswith(word)}
        taxa = {taxon for e in full for taxon in self.current(written & self.of_epithet[e], e)}
        return self.named("abbreviation", 1.0, written, taxa) if taxa else None

    def indirect(self, word: str, alone: bool) -> Found | None:
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
        plain = any(p.startswith(word) for p in PLAIN)
        short = [name for name in (*self.genera, *self.other) if name.startswith(word) and len(word) > 3 and not plain]
        if any(name in self.genera for name in short):
            return self.shortened(short)
        found = self.spelling(word)
        if not found and alone and 3 < len(word) < 7 and not plain:  # a code such as "mcav": many groups have them
            code = self.begun(word[0], word[1:])
            found = code and Found(candidates=code.candidates or (code.taxon,), reason="may be a code")
        return found

    def shortened(self, names: list[str]) -> Found:
        """Decide which of the names that begin like an abbreviation it stands for: the one that nearly all mean."""
        genera = {self.genera[name] for name in names if name in self.genera}
        taxa = {self.meaning(name) for name in names} | {HOMONYMS[g][1] for g in genera & {"Turbinaria", "Undaria"}}
        weight = {taxon: self.counts.get(taxon, 0.0) for taxon in taxa}
        top = max(weight, key=lambda taxon: (weight[taxon], taxon))
        if not weight[top]:  # nobody is known to annotate it
            return Found(candidates=tuple(sorted(taxa)), reason="could stand for a rare taxon")
        if taxa.isdisjoint(BROAD) and weight[top] > DOMINANT * (sum(weight.values()) - weight[top]):
            taxa = {top}
            genera = {genus for genus in genera if self.default(genus) == top}
        return self.named("abbreviation", 1.0, genera, taxa)


def _letters(word: str) -> np.ndarray:
    return np.bincount([min(ord(c) - 97, 26) if c >= "a" else 26 for c in word], minlength=27)


names_of = cache(Names)
