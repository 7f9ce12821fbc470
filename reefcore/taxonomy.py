"""Labels as people write them -> the accepted names of WoRMS, with AphiaIDs, from tables that travel with the library.

`data/taxonomy/README.md` says where the tables come from. Nothing here asks the network.
"""

from __future__ import annotations

import difflib
import re
from functools import cache

import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import share

OCEANS = ("Atlantic", "Indo-Pacific")
ATLANTIC_REALMS = ("Tropical Atlantic", "Temperate Northern Atlantic")
#: What a benthic label that is not a hard coral belongs to (the released file's Broad_category).
BROAD = {
    "Turf algae": "Algae",
    "Macroalgae": "Algae",
    "Corallinales": "Algae",
    "Sediment": "Abiotic background",
    "Hard substrate": "Abiotic background",
    "Rubble": "Abiotic background",
    "Shadow": "Abiotic background",
    "Human objects": "Abiotic background",
    "Octocorallia": "Other biota",
    "Porifera": "Other biota",
    "Millepora": "Other biota",
    "Zoantharia": "Other biota",
    "Unknown": "Other biota",
}
HARD_CORAL = "Hard coral"
CONDITIONS = {
    "bleach": "Bleached",
    "dead": "Dead",
    "trematod": "Trematodiasis",
    "healthy": "Healthy",
    "alive": "Healthy",
}
NOT_MISSPELT = {"anacropora", "acanthaster"}  # names of other animals that come within the cutoff of a coral genus
CUTOFF = 0.86  # similarity (difflib ratio) above which an unknown genus is taken for a misspelling of a known one


@cache
def _taxa() -> pd.DataFrame:
    taxa = pd.read_csv(share("data", "taxonomy", "coral_taxa.csv"))
    taxa = taxa.rename(columns={"genus_or_family": "taxon"})
    taxa["rank"] = taxa["rank"].str.lower()
    taxa["aphia_id"] = taxa["aphia_id"].astype("Int64")
    return taxa


@cache
def _aliases() -> pd.DataFrame:
    aliases = pd.read_csv(share("data", "taxonomy", "label_aliases.csv"))
    return aliases.assign(key=aliases["alias"].map(_key))


def taxa() -> pd.DataFrame:
    """Return the hard-coral taxa that are known offline.

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


def _condition(key: str) -> tuple[str, str | None]:
    """Split the words on a coral's condition off a folded label."""
    for stem, name in CONDITIONS.items():
        if re.search(rf"\b{stem}\w*", key):
            return re.sub(rf"\s*\b{stem}\w*\b\s*", " ", key).strip(), name
    return key, None


def match_labels(labels, ocean: str | None = None) -> pd.DataFrame:
    """Match labels as sources write them to taxa (genus, or family for Fungiidae) and benthic categories.

    A label is tried, in this order, as a listed alias of the ocean (old names, vernaculars, codes, misspellings), as an
    accepted genus, by any word that is one, and as a misspelling of an accepted genus. Codes match only as a whole
    label.

    Parameters
    ----------
    labels : iterable of str
        Labels; each distinct one is matched once.
    ocean : {'Atlantic', 'Indo-Pacific'}, optional
        Decides names that mean different corals in the two oceans: Favia is Dipsastraea in the Indo-Pacific. Without
        it, aliases that hold in one ocean only are not used.

    Returns
    -------
    DataFrame
        ``label`` (as given), ``taxon`` (NA where unmatched), ``rank`` (genus, family, order, other), ``aphia_id`` (NA
        for benthic categories), ``condition`` (Bleached, Dead, Trematodiasis, Healthy or NA), ``how`` (name,
        word, spelling, or the kind of alias), ``score`` (1 for an exact match, else the similarity in [0, 1]).

    Raises
    ------
    ReefcoreError
        Where `ocean` is not one of the two.
    """
    if ocean is not None and ocean not in OCEANS:
        raise ReefcoreError(f"ocean={ocean!r} is not known", do=f"choose one of {', '.join(OCEANS)}, or None")
    taxa_, aliases = _taxa(), _aliases()
    aliases = aliases[aliases["ocean"].isna() | (aliases["ocean"] == ocean)]
    known_aliases = {row.key: (row.label, row.kind) for row in aliases.itertuples()}
    accepted = taxa_[taxa_["status"].str.startswith("accepted")].set_index("taxon")
    genera = {_key(name): name for name in accepted.index}
    members = {key: label for key, (label, kind) in known_aliases.items() if kind == "member"}

    def match(label):
        key, condition = _condition(_key(label))
        words = key.split()
        first = words[0] if words else ""
        named = {members.get(word) or genera[word] for word in words if word in genera or word in members}
        if key in known_aliases:
            taxon, how, score = *known_aliases[key], 1.0
        elif key in genera:
            taxon, how, score = genera[key], "name", 1.0
        elif " ".join(words[:2]) in known_aliases and known_aliases[" ".join(words[:2])][1] != "code":
            taxon, how, score = *known_aliases[" ".join(words[:2])], 1.0
        elif first in known_aliases and known_aliases[first][1] != "code":
            taxon, how, score = *known_aliases[first], 1.0
        elif named and "non" not in words:  # "Goniopora/Alveopora" names two: left unmatched
            taxon, how, score = (named.pop(), "word", 1.0) if len(named) == 1 else (None, None, 0.0)
        else:
            guess = len(first) > 5 and not first.endswith("idae") and first not in NOT_MISSPELT
            near = difflib.get_close_matches(first, genera, n=1, cutoff=CUTOFF) if guess else []
            if not near:
                return label, None, None, None, condition, None, 0.0
            score = difflib.SequenceMatcher(None, first, near[0]).ratio()
            taxon, how = genera[near[0]], "spelling"
        if taxon is None:
            return label, None, None, None, condition, None, 0.0
        if taxon in accepted.index:
            return label, taxon, accepted.at[taxon, "rank"], accepted.at[taxon, "aphia_id"], condition, how, score
        return label, taxon, "order" if taxon == "Scleractinia" else "other", None, condition, how, score

    columns = ["label", "taxon", "rank", "aphia_id", "condition", "how", "score"]
    table = pd.DataFrame([match(label) for label in dict.fromkeys(labels)], columns=columns)
    return table.astype({"taxon": "str", "rank": "str", "aphia_id": "Int64", "condition": "str", "how": "str"})


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
