"""The figure of pseudo-labels: how many expert labels do as well."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.style import BLUE, GREEN, GREY, NARROW, ORANGE, PALE, PINK, RED, SKY, SMALL, YELLOW, canvas, key

COLOURS = (ORANGE, GREEN, RED, PINK, SKY, YELLOW)
STYLES = {"taught": "-", "asked": "--"}
SAYS = {"taught": "{} teaches the classifier", "asked": "{} answers itself"}


def label_worth(summary: pd.DataFrame, worth: pd.DataFrame) -> Figure:
    """Draw the learning curve of expert labels, and where it reaches what each route of pseudo-labels reaches.

    Parameters
    ----------
    summary : DataFrame
        From `reefcore.substrate.pseudo.summary`.
    worth : DataFrame
        From `reefcore.substrate.pseudo.worth`. The bar across a level spans the 95 % interval of its number of expert
        labels; an arrow says that it goes on beyond the curve.
    """
    figure, (axes,) = canvas(NARROW, 4.2)
    curve = summary[summary["route"] == "expert"].sort_values("labels")
    axes.fill_between(curve["labels"], 100 * curve["ci_low"], 100 * curve["ci_high"], color=BLUE, alpha=0.13, lw=0)
    axes.vlines(curve["labels"], 100 * curve["lowest"], 100 * curve["highest"], color=BLUE, lw=1)
    label = "expert labels: mean, lowest and highest\ndraw of frames, 95 % interval"
    axes.plot(curve["labels"], 100 * curve["macro_f1"], "o-", color=BLUE, ms=4, label=label)
    first, last = curve["labels"].iloc[0], curve["labels"].iloc[-1]
    low, high = first / 1.6, last * 1.6
    looks = dict(zip(dict.fromkeys(worth["route"]), cycle(COLOURS), strict=False))
    for row in worth.itertuples():
        colour, level = looks[row.route], 100 * row.macro_f1
        axes.axhline(level, color=colour, lw=1, ls=STYLES[row.how], label=SAYS[row.how].format(row.route))
        start, end = (np.clip(value, low, high) for value in (row.ci_low, row.ci_high))
        axes.plot([start, end], [level, level], color=colour, lw=4, alpha=0.5, solid_capstyle="butt")
        if first <= row.labels <= last:
            axes.plot(row.labels, level, "D", color=colour, ms=7, mec="white", zorder=5)
        else:
            at, sign = (low * 1.08, "<") if row.labels < first else (high / 1.08, ">")
            axes.plot(at, level, sign, color=colour, ms=8, mec="white", zorder=5)
    ticks = curve["labels"].to_numpy()
    axes.set(xscale="log", xlim=(low, high), ylim=(0, None), xticks=ticks, xticklabels=[f"{n:,.0f}" for n in ticks])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.set(xlabel="patches that an expert labelled (log scale)", ylabel="macro F1 on the test sequences (%)")
    axes.grid(axis="y", color=PALE, lw=0.6)
    axes.axvline(last, color=GREY, lw=0.8, ls=":")
    axes.text(last / 1.04, 1.5, "all there are", rotation=90, ha="right", va="bottom", fontsize=SMALL, color=GREY)
    key(figure, *axes.get_legend_handles_labels(), columns=2)
    return figure
