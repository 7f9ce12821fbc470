"""Figures: a table in, a matplotlib Figure out; and how figures and tables are shown on a page."""

from reefcore.figures.charts import (
    agreement_steps,
    funnel,
    long_tail,
    pair_agreement,
    published_and_reproduced,
    recall_by_support,
    source_colours,
    source_map,
)
from reefcore.figures.sheets import contact_sheet, photo_sheet
from reefcore.figures.style import show, show_table
from reefcore.figures.tree import taxon_tree

__all__ = [
    "agreement_steps",
    "contact_sheet",
    "funnel",
    "long_tail",
    "pair_agreement",
    "photo_sheet",
    "published_and_reproduced",
    "recall_by_support",
    "show",
    "show_table",
    "source_colours",
    "source_map",
    "taxon_tree",
]
