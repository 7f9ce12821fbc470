"""The 44 taxa and 12 other benthic categories of the sample: which they are, and what each one looks like.

The paper counts its taxa (43 genera and the family Fungiidae, of 20 families) but prints no list. The choice here follows
the evidence in ``data/taxonomy/reefnet_genus_counts.csv``, in this order: genera that the paper's text or a data source
derived from ReefNet names ("named"); genera that a published loader of the Al-Wajh test set uses ("loader"); then the
genera with most public CoralNet annotations, the last two of them from families not represented yet, so that 20 families
result as in the paper ("guess").

The looks are caricatures for one purpose: genera that the paper says are confused (section A.4.3) have neighbouring
corallites, sizes and colours. They are no key to corals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pandas as pd

from reefcore.files import share

NAMED = """Acanthastrea Acropora Agaricia Astreopora Colpophyllia Cyphastrea Dendrogyra Dichocoenia Diploria Dipsastraea
    Echinophyllia Echinopora Eusmilia Favia Favites Fungiidae Gardineroseris Goniastrea Leptastrea Meandrina Montastraea
    Montipora Orbicella Pavona Platygyra Plesiastrea Pocillopora Porites Pseudodiploria Siderastrea Stephanocoenia
    Stylophora""".split()
LOADER = "Galaxea Lobophyllia Plerogyra Seriatopora Tubastraea".split()

#: Surface colours, sRGB 0..1, as under white light.
COLOURS = {
    "brown": (0.46, 0.33, 0.21), "umber": (0.35, 0.24, 0.16), "tan": (0.62, 0.50, 0.33), "cream": (0.78, 0.70, 0.54),
    "sand": (0.80, 0.74, 0.62), "mustard": (0.66, 0.53, 0.22), "olive": (0.45, 0.42, 0.23), "green": (0.36, 0.48, 0.28),
    "moss": (0.30, 0.36, 0.20), "grey": (0.52, 0.50, 0.46), "ash": (0.66, 0.64, 0.59), "dark": (0.17, 0.12, 0.09),
    "pink": (0.72, 0.47, 0.50), "rose": (0.60, 0.34, 0.36), "mauve": (0.52, 0.40, 0.50), "purple": (0.42, 0.31, 0.50),
    "lilac": (0.62, 0.55, 0.66), "orange": (0.80, 0.44, 0.15), "rust": (0.55, 0.29, 0.15), "yellow": (0.82, 0.70, 0.30),
    "red": (0.62, 0.20, 0.16), "white": (0.88, 0.86, 0.80), "blue": (0.40, 0.46, 0.58),
}  # fmt: skip

# Taxon | ocean | corallite, size, relief, options | growth forms with weights | colours: ridge/valley
# Size is the spacing of corallites (or of valleys) in pixels of a photo of median resolution; relief is the height of
# their walls in the same pixels. The options are explained in `reefcore.sample.morphology.tile`.
_CORALS = """
Acanthastrea   |Indo-Pacific|polygons 11 3.0 septa=.7 wall=.30|massive:2 encrusting:2|brown/green tan/moss rust/olive grey/green
Acropora       |both        |cones 4.5 2.2 pit=.3|staghorn:3 tabular:3 digitate:3 bushy:2|tan/brown brown/umber cream/brown mustard/umber lilac/mauve
Agaricia       |Atlantic    |rows 6 1.8 septa=.3|foliose:3 encrusting:2|brown/umber tan/brown olive/umber rust/umber
Astreopora     |Indo-Pacific|cones 7 2.4 pit=.9|massive:3 encrusting:1|cream/tan tan/brown mauve/brown olive/umber
Colpophyllia   |Atlantic    |ridges 20 5.0 groove=.6 septa=.5|massive:4|tan/green brown/green cream/olive
Cyphastrea     |Indo-Pacific|stars 5.5 1.8 ring=.30|massive:2 encrusting:3|brown/umber tan/olive mauve/umber green/moss
Dendrogyra     |Atlantic    |ridges 9 1.5 septa=.2 fuzz=.8|columnar:4|brown/umber tan/brown
Dichocoenia    |Atlantic    |stars 10 2.4 ring=.32 oval=1|massive:4|cream/tan mustard/brown tan/olive
Diploastrea    |Indo-Pacific|stars 13 4.0 ring=.42 septa=1 dome=1|massive:4|tan/brown cream/olive green/moss
Diploria       |Atlantic    |ridges 13 4.0 groove=1 septa=.5 order=9|massive:4|tan/brown mustard/umber cream/brown
Dipsastraea    |Indo-Pacific|polygons 9.5 3.0 septa=.5 wall=.34|massive:3|brown/green tan/umber green/moss rust/green
Echinophyllia  |Indo-Pacific|stars 15 2.6 ring=.30 septa=.8 fuzz=.3|foliose:2 encrusting:3|brown/green rust/moss olive/umber
Echinopora     |Indo-Pacific|stars 7 2.0 ring=.32 fuzz=.5|foliose:3 encrusting:2 bushy:1|tan/brown brown/olive cream/brown mauve/umber
Eusmilia       |Atlantic    |flowers 15 4.0 petals=10|stubby:3 massive:1|tan/brown cream/olive ash/olive
Favia          |Atlantic    |polygons 8 2.6 septa=.6 wall=.36|massive:2 encrusting:1|tan/brown mustard/brown olive/umber
Favites        |Indo-Pacific|polygons 10 3.0 septa=.4 wall=.24|massive:3 encrusting:1|brown/green tan/moss grey/green cream/brown
Fungiidae      |Indo-Pacific|radial 5 2.2|solitary:1|brown/umber tan/brown green/olive cream/tan mauve/brown
Galaxea        |Indo-Pacific|flowers 8.5 4.0 petals=6 spike=1|massive:2 encrusting:2|green/umber olive/dark brown/dark ash/umber
Gardineroseris |Indo-Pacific|polygons 7.5 2.2 septa=.3 wall=.22 merge=.12|massive:2 encrusting:2|brown/umber tan/brown olive/umber
Goniastrea     |Indo-Pacific|polygons 7 2.2 septa=.4 wall=.22 merge=.25|massive:3 encrusting:1|tan/umber brown/umber olive/moss pink/brown
Goniopora      |Indo-Pacific|flowers 10 3.0 petals=12|massive:2 columnar:2|brown/dark olive/umber green/umber lilac/brown
Hydnophora     |Indo-Pacific|cones 9 3.4 pit=0 ridge=1|massive:2 encrusting:2 bushy:1|green/moss tan/olive cream/brown
Isopora        |Indo-Pacific|cones 4 1.4 pit=.3|digitate:2 columnar:3 encrusting:1|brown/umber tan/brown mustard/olive
Leptastrea     |Indo-Pacific|polygons 6 1.3 septa=.5 wall=.16|encrusting:3 massive:2|tan/umber brown/umber purple/umber ash/green
Lobophyllia    |Indo-Pacific|ridges 26 7.0 groove=.7 septa=.4 breaks=1|massive:4|rust/green grey/moss brown/green mauve/umber
Madracis       |both        |stars 4.5 1.0 ring=.30|stubby:3 encrusting:2|mustard/olive tan/olive cream/brown
Meandrina      |Atlantic    |ridges 15 4.4 septa=1 order=3|massive:3 encrusting:1|tan/brown cream/brown mustard/brown
Montastraea    |Atlantic    |stars 13 4.2 ring=.36 septa=.6 dome=1|massive:4|mustard/umber brown/green tan/rust olive/dark
Montipora      |Indo-Pacific|cones 5.5 1.6 pit=.5 uneven=1|encrusting:4 foliose:3 bushy:1|brown/umber tan/brown mauve/brown blue/mauve rust/umber
Orbicella      |Atlantic    |stars 7 2.2 ring=.38 septa=.3|massive:2 columnar:3 foliose:1|mustard/umber brown/umber tan/olive green/umber
Pachyseris     |Indo-Pacific|rows 7.5 3.0 septa=.1 order=9|foliose:4 encrusting:1|tan/umber brown/umber ash/brown
Pavona         |Indo-Pacific|rows 5 1.6 septa=.5 order=2|foliose:2 encrusting:2 columnar:1|brown/umber tan/brown olive/umber
Platygyra      |Indo-Pacific|ridges 11 3.2 septa=.5|massive:4|tan/green brown/umber grey/green pink/olive
Plerogyra      |Indo-Pacific|bubbles 13 6.0|massive:3|cream/olive ash/moss sand/brown
Plesiastrea    |Indo-Pacific|stars 6 1.7 ring=.34|encrusting:3 massive:2|green/moss brown/olive cream/olive
Pocillopora    |Indo-Pacific|cones 6.5 2.6 pit=0|stubby:4 bushy:1|pink/rose tan/brown brown/umber mustard/brown rose/umber
Porites        |both        |pores 4.0 0.8|lobed:4 columnar:2 bushy:2 encrusting:1|mustard/olive tan/brown grey/olive lilac/mauve brown/umber
Psammocora     |Indo-Pacific|pores 3.2 1.2 fuzz=1|encrusting:3 columnar:2|grey/umber brown/umber tan/mauve
Pseudodiploria |Atlantic    |ridges 14 4.0 septa=.7 groove=.15|massive:4|tan/green mustard/green brown/moss
Seriatopora    |Indo-Pacific|cones 4 1.0 pit=.3|needles:1|cream/tan pink/rose tan/brown
Siderastrea    |both        |pores 5.5 1.8|massive:3 encrusting:2|pink/umber tan/umber grey/umber rust/dark
Stephanocoenia |Atlantic    |pores 5 1.2 rim=1|massive:2 encrusting:2|tan/dark grey/umber cream/dark
Stylophora     |Indo-Pacific|pores 4.5 0.8 rim=.5|stubby:3 bushy:1|cream/tan pink/rose tan/brown purple/mauve
Tubastraea     |both        |flowers 13 6.0 petals=14 cup=1|massive:2 encrusting:1|orange/red yellow/orange orange/rust
"""
_OTHER = """
Turf algae     |both        |rock 9 7 |ground:1|brown/moss olive/umber tan/umber
Macroalgae     |both        |plain 4 .6|leafy:3 bushy:1|moss/dark olive/umber green/moss brown/dark
Corallinales   |both        |crust 14 5 |ground:1|pink/rose mauve/rose rose/umber
Sediment       |both        |sand 2 1.5|ground:1|sand/tan white/ash cream/grey
Hard substrate |both        |rock 15 7 |ground:1|cream/grey ash/olive tan/grey
Rubble         |both        |rubble 12 8|ground:1|ash/umber cream/brown tan/umber
Octocorallia   |both        |fuzz 3 1.2|fan:3 fingers:2|purple/dark mauve/umber ash/brown mustard/umber
Porifera       |both        |plain 6 1.5 holes=1|lobed:2 encrusting:2 tubes:2|orange/rust red/dark purple/dark yellow/olive umber/dark
Millepora      |both        |plain 3 .4|stubby:2 foliose:2|mustard/rust yellow/mustard
Zoantharia     |both        |discs 8 1.8|encrusting:3|cream/olive mustard/umber green/umber
Shadow         |both        |rock 12 5|ground:1|dark/dark
Human objects  |both        |plain 3 .2|ground:1|white/ash
"""


@dataclass(frozen=True)
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


def _parse(text: str) -> list[Kind]:
    kinds = []
    for line in text.strip().splitlines():
        name, ocean, surface, forms, colours = (part.strip() for part in line.split("|"))
        corallite, size, relief, *options = surface.split()
        pairs = (option.split("=") for option in options)
        weights = (form.split(":") for form in forms.split())
        kinds.append(
            Kind(
                name,
                ocean,
                corallite,
                float(size),
                float(relief),
                {key: float(value) for key, value in pairs},
                {form: float(weight) for form, weight in weights},
                tuple(tuple(colour.split("/")) for colour in colours.split()),
            )
        )
    return kinds


CORALS = tuple(_parse(_CORALS))
OTHER = tuple(_parse(_OTHER))
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
        ("Atlantic", "Indo-Pacific" or "both"); ``grade``, how sure it is that ReefNet has it ("named", "loader", "guess");
        ``growth_forms``; ``corallite``. One row per taxon, sorted by name.
    """
    return _table().copy()
