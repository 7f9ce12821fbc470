"""The 44 taxa and 12 other benthic categories of the sample: which they are, and what each one looks like.

The paper counts its taxa (43 genera and the family Fungiidae, of 20 families) but prints no list. The choice here
follows the evidence in ``data/taxonomy/reefnet_genus_counts.csv``, in this order: genera that the paper's text or a
data source derived from ReefNet names ("named"); genera that a published loader of the Al-Wajh test set uses
("loader"); then the genera with most public CoralNet annotations, the last two of them from families not represented
yet, so that 20 families result as in the paper ("guess").

The looks are caricatures for one purpose: genera that the paper says are confused (section A.4.3) have neighbouring
corallites, sizes and colours. They are no key to corals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from reefcore.files import share

NAMED = """
    Acanthastrea Acropora Agaricia Astreopora Colpophyllia Cyphastrea Dendrogyra Dichocoenia Diploria Dipsastraea
    Echinophyllia Echinopora Eusmilia Favia Favites Fungiidae Gardineroseris Goniastrea Leptastrea Meandrina Montastraea
    Montipora Orbicella Pavona Platygyra Plesiastrea Pocillopora Porites Pseudodiploria Siderastrea Stephanocoenia
    Stylophora
""".split()
LOADER = "Galaxea Lobophyllia Plerogyra Seriatopora Tubastraea".split()

#: Surface colours, sRGB 0..1, as under white light.
COLOURS = {
    "brown": (0.46, 0.33, 0.21), "umber": (0.35, 0.24, 0.16), "tan": (0.62, 0.50, 0.33), "cream": (0.78, 0.70, 0.54),
    "sand": (0.80, 0.74, 0.62), "mustard": (0.62, 0.51, 0.27), "olive": (0.45, 0.42, 0.23),
    "green": (0.39, 0.46, 0.29), "lime": (0.44, 0.60, 0.30), "moss": (0.28, 0.36, 0.20), "grey": (0.52, 0.50, 0.46),
    "ash": (0.66, 0.64, 0.59), "dark": (0.17, 0.12, 0.09), "pink": (0.72, 0.48, 0.50), "rose": (0.56, 0.36, 0.35),
    "mauve": (0.50, 0.40, 0.44), "purple": (0.41, 0.31, 0.46), "lilac": (0.60, 0.53, 0.63),
    "orange": (0.76, 0.44, 0.18), "rust": (0.56, 0.31, 0.17), "yellow": (0.76, 0.66, 0.34), "red": (0.56, 0.24, 0.19),
    "white": (0.88, 0.86, 0.80), "blue": (0.40, 0.45, 0.58),
}  # fmt: skip


@dataclass(frozen=True, eq=False)  # two kinds are the same only if they are one: caches go by it
class Kind:
    """What one taxon or benthic category looks like.

    Attributes
    ----------
    name, ocean : str
        The taxon or category; "Atlantic", "Indo-Pacific" or "both".
    corallite : str
        What its surface is made of, a key of `morphology.SURFACES`.
    size, relief : float
        Spacing and height of that pattern in pixels.
    options : dict
        Further parameters of the surface.
    forms : dict
        Growth forms, keys of `morphology.FORMS`, with their weights.
    colours : tuple of (ridge, valley)
        Names in `COLOURS`.
    """

    name: str
    ocean: str
    corallite: str
    size: float
    relief: float
    options: dict
    forms: dict
    colours: tuple


def _pairs(text: str, sign: str) -> dict[str, float]:
    return {key: float(value) for key, value in (part.split(sign) for part in text.split())}


def _kinds(group: str) -> tuple[Kind, ...]:
    looks = pd.read_csv(Path(__file__).with_name("looks.csv"), keep_default_na=False)
    return tuple(
        Kind(
            row.name,
            row.ocean,
            row.corallite,
            float(row.size),
            float(row.relief),
            _pairs(row.options, "="),
            _pairs(row.forms, ":"),
            tuple(tuple(colour.split("/")) for colour in row.colours.split()),
        )
        for row in looks[looks["group"] == group].drop(columns="group").itertuples(index=False)
    )


CORALS = _kinds("coral")
OTHER = _kinds("other")
KINDS = {kind.name: kind for kind in CORALS + OTHER}


@cache
def _table() -> pd.DataFrame:
    known = pd.read_csv(share("data", "taxonomy", "coral_taxa.csv")).set_index("genus_or_family")
    rows = []
    for kind in CORALS:
        entry = known.loc[kind.name]
        grade = "named" if kind.name in NAMED else "loader" if kind.name in LOADER else "guess"
        rows.append(
            {
                "taxon": kind.name,
                "rank": entry["rank"].lower(),
                "aphia_id": int(entry["aphia_id"]),
                "family": entry["family"],
                "ocean": kind.ocean,
                "grade": grade,
                "growth_forms": ", ".join(kind.forms),
                "corallite": kind.corallite,
            }
        )
    return pd.DataFrame(rows)


def table() -> pd.DataFrame:
    """Return the 44 hard-coral taxa of the sample.

    Returns
    -------
    DataFrame
        ``taxon``; ``rank`` ("genus", or "family" for Fungiidae); ``aphia_id`` (WoRMS); ``family``; ``ocean``
        ("Atlantic", "Indo-Pacific" or "both"); ``grade``, how sure it is that ReefNet has it ("named", "loader",
        "guess"); ``growth_forms``; ``corallite``. One row per taxon, sorted by name.
    """
    return _table().copy()
