"""Figures of open sets: how scores of known and unknown points lie, and what accepting fewer points buys."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.style import BLUE, GREEN, GREY, NARROW, ORANGE, SMALL, canvas, key
from reefcore.tables import KNOWN

TITLES = {"msp": "largest probability", "mls": "largest logit", "energy": "energy", "knn": "nearness (kNN)"}
COLOURS = {"msp": BLUE, "mls": ORANGE, "energy": GREEN, "knn": GREY}
STYLES = {"msp": "-", "mls": "--", "energy": ":", "knn": "-."}


def known_unknown(predictions: pd.DataFrame, known: pd.Series, scores: list[str]) -> Figure:
    """Draw how each score is spread over known and unknown points, as shares of each kind.

    Parameters
    ----------
    predictions : DataFrame
        Of one run, with ``known:NAME``.
    known : Series of bool
    scores : list of str
    """
    figure, panels = canvas(NARROW, 0.5 + 1.9 * -(-len(scores) // 2), min(2, len(scores)), -(-len(scores) // 2))
    for axes, name in zip(panels, scores, strict=False):
        values = predictions[KNOWN + name]
        bins = np.linspace(*values.quantile([0.002, 0.998]), 26)
        for part, colour, label, filled in ((known, BLUE, "known", True), (~known, ORANGE, "unknown", False)):
            weights = np.full(int(part.sum()), 100 / max(int(part.sum()), 1))
            kind = {"alpha": 0.45} if filled else {"histtype": "step", "lw": 1.6}
            axes.hist(values[part].clip(bins[0], bins[-1]), bins, weights=weights, color=colour, label=label, **kind)
        axes.set_xlabel(TITLES.get(name, name))
        axes.tick_params(labelsize=SMALL)
    for axes in panels[len(scores) :]:
        axes.remove()
    figure.supylabel("points of the kind (%)", fontsize=9.5)
    key(figure, *panels[0].get_legend_handles_labels(), columns=2)
    return figure


def risk_coverage(curves: dict[str, pd.DataFrame]) -> Figure:
    """Draw the share of wrong answers among the accepted against how many are accepted, a panel per run.

    Parameters
    ----------
    curves : dict
        Title -> ``score``, ``coverage``, ``risk``, ``ci_low``, ``ci_high`` (fractions).
    """
    figure, panels = canvas(NARROW, 0.5 + 2.5 * len(curves), 1, len(curves), sharex=True)
    for axes, (title, table) in zip(panels, curves.items(), strict=True):
        for name, rows in table.groupby("score", sort=False):
            colour = COLOURS.get(name, "black")
            label = TITLES.get(name, name)
            axes.plot(100 * rows["coverage"], 100 * rows["risk"], STYLES.get(name, "-"), color=colour, label=label)
            axes.fill_between(
                100 * rows["coverage"], 100 * rows["ci_low"], 100 * rows["ci_high"], color=colour, alpha=0.1
            )
        axes.set(xlim=(0, 100), ylim=(0, 100), ylabel="wrong among the accepted (%)", title=title)
    panels[-1].set_xlabel("accepted, the surest first (% of all points)")
    key(figure, *panels[0].get_legend_handles_labels(), columns=4)
    return figure
