"""Labels as people write them -> the accepted names of WoRMS, with AphiaIDs, from tables that travel with the library.

`data/taxonomy/README.md` says where the tables come from. Nothing here asks the network: `reefcore.worms` does.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.taxonomy.names import BROAD, ORDER, PLAIN, Found, coral_taxa, fold, names_of
from reefcore.taxonomy.words import match

OCEANS = ("Atlantic", "Indo-Pacific")
ATLANTIC_REALMS = ("Tropical Atlantic", "Temperate Northern Atlantic")
HARD_CORAL = "Hard coral"
KINGDOM = ("Animalia", "Cnidaria")  # of every hard coral; the tables of taxa begin at the class
COLUMNS = "label taxon rank aphia_id condition how score genus family order class candidates reason".split()
LIKE = 0.6  # similarity from which a name is offered as a candidate for an unmatched label
UNSURE = ("spelling", "abbreviation", "epithet")  # ways to match that a person should confirm


def taxa() -> pd.DataFrame:
    """Return the hard-coral taxa whose AphiaIDs are known offline.

    Returns
    -------
    DataFrame
        ``taxon``, ``rank`` (genus or family), ``aphia_id``, ``family``, ``status`` and the evidence columns of
        ``data/taxonomy/coral_taxa.csv`` (derived from WoRMS, CC BY 4.0).
    """
    return coral_taxa().copy()


def family_of(labels) -> pd.Series:
    """Give the family of each genus, by label; a family, and a label of no known family, stands for itself."""
    known = coral_taxa()
    families = dict(zip(known["taxon"], known["family"], strict=True))
    return pd.Series({label: families.get(label, label) for label in labels}, dtype="str")


def strings(classes: Iterable[str]) -> dict[str, str]:
    """Spell out the ranks of taxa, from kingdom to genus, as WoRMS has them.

    Parameters
    ----------
    classes : iterable of str
        Genera or families of hard corals, of `taxa`. A family's string ends with it, as that of
        Fungiidae in ReefNet.

    Returns
    -------
    dict of str
        As ``"Animalia Cnidaria Hexacorallia Scleractinia Acroporidae Acropora"``: BioCLIP's own way to write what the
        paper writes with semicolons.

    Raises
    ------
    ReefcoreError
        Naming those that the table of taxa lacks.
    """
    lineages = {}
    for *above, family, taxon in coral_taxa()[["class", "order", "family", "taxon"]].to_numpy():
        lineages[family] = (*KINGDOM, *above, family)
        lineages.setdefault(taxon, (*lineages[family], taxon))
    classes = list(classes)
    if missing := [name for name in classes if name not in lineages]:
        raise ReefcoreError(
            f"no taxonomy is known of {', '.join(missing)}", do="use accepted names of hard-coral genera or families"
        )
    return {name: " ".join(lineages[name]) for name in classes}


def ocean_of(realm: str | None) -> str | None:
    """Tell whose coral fauna a MEOW realm has: ``'Atlantic'`` or ``'Indo-Pacific'``; None where it is unknown."""
    if realm is None or pd.isna(realm):
        return None
    return "Atlantic" if realm in ATLANTIC_REALMS else "Indo-Pacific"


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
    names = names_of(ocean)
    distinct = list(dict.fromkeys(labels))
    found = [match(str(label), names) for label in distinct]
    folded = pd.Series([fold(label) for label in distinct], dtype="str")
    clash = folded.duplicated(keep=False) & np.array([what.how == "code" for what, _ in found], bool)
    rows = []
    for label, (what, condition), clashes, key in zip(distinct, found, clash, folded, strict=True):
        if clashes:
            what = Found(candidates=(what.taxon,), reason="codes that differ in case only")
        elif what.taxon is None and key in names.elsewhere:
            what = Found(candidates=what.candidates, reason="a code whose meaning depends on the ocean")
        taxon = what.taxon
        family = names.family.get(taxon) or (taxon if str(taxon).casefold() in names.families else None)
        coral = family is not None or taxon == ORDER
        rank = "genus" if taxon in names.family else "family" if family else "order" if coral else "other"
        genus = taxon if rank == "genus" else what.genus
        lineage = (genus, family, ORDER, "Hexacorallia") if coral else (None,) * 4
        score = what.score if taxon else 0.0
        row = (label, taxon, rank if taxon else None, names.ids.get(taxon), condition, what.how, score, *lineage)
        rows.append((*row, ", ".join(what.candidates), what.reason))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype(dict.fromkeys(set(COLUMNS) - {"label", "score"}, "str") | {"aphia_id": "Int64"})


def label_mapping(annotations: pd.DataFrame) -> pd.DataFrame:
    """Match the raw labels of annotations, each once for each ocean; which ocean's names hold is read from ``realm``.

    Returns
    -------
    DataFrame
        One row per ocean and raw label: the columns of `match_labels`, with ``ocean`` and ``annotations`` (count); the
        coverage report that says what stayed unmatched.
    """
    counts = annotations.groupby(["realm", "label_raw"], dropna=False, observed=True).size()
    counts = counts.rename("annotations").reset_index().astype({"realm": "str", "label_raw": "str"})
    oceans, parts = counts["realm"].map(ocean_of), []
    for ocean in [*OCEANS, None]:
        here = counts[oceans == ocean if ocean else oceans.isna()].groupby("label_raw", sort=True)["annotations"].sum()
        parts.append(match_labels(here.index, ocean).assign(ocean=ocean, annotations=here.to_numpy()))
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def map_labels(annotations: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fill label, rank, aphia_id, broad_category and condition of annotations from their raw labels.

    Parameters
    ----------
    annotations : DataFrame
        The annotations table; ``label_raw`` and ``realm`` are used.

    Returns
    -------
    mapped : DataFrame
        The same rows in the same order.
    mapping : DataFrame
        See `label_mapping`.
    """
    oceans, mapping = annotations["realm"].map(ocean_of), label_mapping(annotations)
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
    mapping["annotations"] = mapping["annotations"].astype("Int64")
    letters = mapping["label"].map(fold).str.len()
    short = (mapping["how"] == "code") & ((letters < 4) | mapping["condition"].notna())
    table = mapping[mapping["taxon"].isna() | mapping["how"].isin(UNSURE) | short].copy()
    names = names_of(None)
    reasons = {
        "code": "a code of few letters, or with more than a code in it",
        "spelling": "a misspelling, by its likeness",
        "abbreviation": "a shortened name",
        "epithet": "an initial and a species, run together",
    }
    for row in table.itertuples():
        if pd.isna(row.taxon) and not row.candidates:
            words = [word for word in fold(row.label).split() if word.isalpha() and len(word) > 3 and word not in PLAIN]
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
