"""Figures: a table in, a matplotlib Figure out; and how figures and tables are shown on a page."""

from reefcore.figures.charts import (
    agreement_intervals,
    agreement_steps,
    chance_of_passing,
    funnel,
    kept_again,
    long_tail,
    pair_agreement,
    source_funnel,
)
from reefcore.figures.colours import colour_neighbours, resolution_scatter, source_colours, source_densities
from reefcore.figures.few_shot import label_curves
from reefcore.figures.maps import ecoregion_bars, site_panels, source_map
from reefcore.figures.open_set import known_unknown, risk_coverage
from reefcore.figures.pseudo_labels import label_worth
from reefcore.figures.realtime import kept_up, time_shares
from reefcore.figures.reef import (
    bars,
    change_bars,
    cover_bars,
    curves,
    histogram,
    over_time,
    photo_flags,
    say,
    shares,
    stacked,
)
from reefcore.figures.results import class_weights, forest, judged, learning, matrices, results_table
from reefcore.figures.sheets import answer_sheet, contact_sheet, photo_sheet
from reefcore.figures.style import download, show, show_table
from reefcore.figures.substrate import frame_grid
from reefcore.figures.tracks import repeats, survey_sites, track_map
from reefcore.figures.tree import taxon_tree
from reefcore.figures.zero_shot import answers, prompt_sets

__all__ = [
    "agreement_intervals",
    "agreement_steps",
    "answer_sheet",
    "answers",
    "bars",
    "chance_of_passing",
    "change_bars",
    "class_weights",
    "colour_neighbours",
    "contact_sheet",
    "cover_bars",
    "curves",
    "download",
    "ecoregion_bars",
    "forest",
    "frame_grid",
    "funnel",
    "histogram",
    "judged",
    "kept_again",
    "kept_up",
    "known_unknown",
    "label_curves",
    "label_worth",
    "learning",
    "long_tail",
    "matrices",
    "over_time",
    "pair_agreement",
    "photo_flags",
    "photo_sheet",
    "prompt_sets",
    "repeats",
    "resolution_scatter",
    "results_table",
    "risk_coverage",
    "say",
    "shares",
    "show",
    "show_table",
    "site_panels",
    "source_colours",
    "source_densities",
    "source_funnel",
    "source_map",
    "stacked",
    "survey_sites",
    "taxon_tree",
    "time_shares",
    "track_map",
]
