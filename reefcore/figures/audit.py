"""Figures of the audit: what printed averages allow, and how far a printed share lies from the nearest whole count."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.style import BLUE, GREY, MARKERS, NARROW, ORANGE, PALE, RED, SMALL, canvas, key


def allowed_f1(table: pd.DataFrame) -> Figure:
    """Draw printed macro F1 against the largest that the printed macro precision and macro recall allow.

    Parameters
    ----------
    table : DataFrame
        ``name``; ``limit`` (the mean of the two averages) and ``macro_f1``, percent; ``above``: by more than rounding.
    """
    figure, (axes,) = canvas(NARROW, 4.4)
    above = table["above"]
    ends = [table[["limit", "macro_f1"]].min(axis=None) - 3, table[["limit", "macro_f1"]].max(axis=None) + 3]
    axes.plot(ends, ends, color=GREY, lw=1, label="the mean of the two, the most that F1 can be")
    for part, marker, colour, text in (
        (~above, MARKERS[0], BLUE, "as printed"),
        (above, MARKERS[2], RED, "above, by more than rounding"),
    ):
        axes.plot(table["limit"][part], table["macro_f1"][part], marker, color=colour, ms=5, ls="", label=text)
    for number, row in enumerate(table[above].sort_values("macro_f1").itertuples()):
        axes.annotate(
            row.name.replace(", ", ",\n"),
            (row.limit, row.macro_f1),
            (-8, 12 * number - 6),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=SMALL,
        )
    axes.set(xlabel="mean of printed macro precision and recall (%)", ylabel="printed macro F1 (%)")
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    key(figure, *axes.get_legend_handles_labels())
    return figure


def grains(table: pd.DataFrame) -> Figure:
    """Draw how far printed shares lie from the nearest k / n, beside what rounding can explain.

    Parameters
    ----------
    table : DataFrame
        ``model``, ``setting``, ``value`` and ``step`` (its printed precision), both percent, and ``n``.
    """
    models, settings = list(dict.fromkeys(table["model"])), list(dict.fromkeys(table["setting"]))
    figure, (axes,) = canvas(NARROW, 1.2 + 0.3 * len(models))
    counts = table["value"] * table["n"] / 100
    offset = table["value"] - 100 * np.round(counts) / table["n"]
    half, grain = table["step"].max() / 2, 100 / table["n"].min()
    axes.axvspan(-half, half, color=PALE, lw=0, label="rounding explains it")
    for number, (setting, colour) in enumerate(zip(settings, (BLUE, ORANGE, GREY), strict=False)):
        part = table["setting"] == setting
        y = table.loc[part, "model"].map(models.index) + 0.22 * (number - (len(settings) - 1) / 2)
        axes.plot(offset[part], y, MARKERS[number], color=colour, ms=6, ls="", label=setting)
    axes.axvline(0, color=GREY, lw=0.8, zorder=0)
    axes.set(xlim=(-0.55 * grain, 0.55 * grain), ylim=(len(models) - 0.4, -0.6))
    axes.set(yticks=range(len(models)), yticklabels=models, xlabel="printed value minus the nearest k / n (points)")
    axes.grid(axis="y", color=PALE, lw=0.8)
    key(figure, *axes.get_legend_handles_labels(), columns=4)
    return figure
