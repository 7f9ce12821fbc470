"""Estimates of cover beside the truth, which only a made-up reef has."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.reef import looks
from reefcore.figures.style import GREY, NARROW, canvas, key


def against_truth(table: pd.DataFrame, by: str) -> Figure:
    """Draw the estimated cover of categories, with its interval, against the true one.

    Parameters
    ----------
    table : DataFrame
        `by`, ``percent``, ``ci_low``, ``ci_high``, ``truth`` (0..100); a row per estimate.
    by : str
        Column of the categories; each has a marker, and the colour that it has in other figures.
    """
    figure, (axes,) = canvas(NARROW, 4.4)
    top = 1.05 * table[["ci_high", "truth"]].max().max()
    axes.plot([0, top], [0, top], color="0.6", linewidth=1, zorder=0)
    groups = table.groupby(by, sort=True)
    for marker, (colour, _), (name, rows) in zip("osD^vPX" * 9, looks(groups.groups).values(), groups, strict=False):
        arms = rows["percent"] - rows["ci_low"], rows["ci_high"] - rows["percent"]
        edge = {"mec": GREY, "mew": 0.6}  # some colours are pale
        axes.errorbar(rows["truth"], rows["percent"], arms, fmt=marker, color=colour, label=str(name), **edge)
    axes.set(xlim=(0, top), ylim=(0, top), xlabel="true cover (%)", ylabel="estimated cover (%), 95 % interval")
    key(figure, *axes.get_legend_handles_labels(), columns=2)
    return figure
