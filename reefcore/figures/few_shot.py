"""The figure of few labels: what more of them bring."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from reefcore.figures.style import BLUE, GREEN, GREY, MARKERS, ORANGE, RED, canvas

COLOURS = (GREY, BLUE, GREEN, ORANGE, RED, "#CC79A7", "#56B4E9")
SHIFT = 1.05  # between lines, so that intervals stand side by side


def label_curves(curves: pd.DataFrame, titles: dict[str, str], later: pd.DataFrame | None = None) -> Figure:
    """Draw macro recall against the labels per class, a panel of each setting and a line of each way.

    Parameters
    ----------
    curves : DataFrame
        From `reefcore.few_shot.curves`; one method of each features.
    titles : dict of str
        Setting -> title of its panel, in order.
    later : DataFrame, optional
        ``setting``, ``shots``, ``published`` (fraction): published points, drawn as diamonds in the panel of the setting.
    """
    shown = [setting for setting in titles if (curves["setting"] == setting).any()]
    figure, panels = canvas(3.1 * len(shown) + 0.6, 4.2, columns=len(shown))
    names = list(dict.fromkeys(curves["features"]))
    shots = sorted(set(curves["shots"]))
    for axes, setting in zip(panels, shown, strict=True):
        here = curves[curves["setting"] == setting]
        for place, name in enumerate(names):
            rows = here[here["features"] == name].sort_values("shots")
            x = rows["shots"] * SHIFT ** (place - (len(names) - 1) / 2)
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            style = "--" if (rows["method"] == "fine-tuning").any() else "-"
            axes.vlines(x, 100 * rows["ci_low"], 100 * rows["ci_high"], color=colour, lw=1, alpha=0.7)
            axes.plot(x, 100 * rows["macro_recall"], marker, ls=style, lw=1.3, ms=4, color=colour)
        axes.axhline(100 * here["chance"].iloc[0], color="black", lw=0.8, ls=":")
        if later is not None and len(points := later[later["setting"] == setting]):
            axes.plot(points["shots"], 100 * points["published"], "D", ms=5, mfc="white", color="black", ls="none")
        axes.set(xscale="log", xlabel="labels per genus (log scale)", xticks=shots, xticklabels=shots)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(titles[setting], fontsize=9)
        axes.grid(axis="y", color="#E5E5E5", lw=0.6)
    panels[0].set(ylabel="macro recall (%), 95 % interval", ylim=(0, None))
    key, drawn = figure.add_subplot(), []
    for place, name in enumerate(names):
        style = "--" if (curves.loc[curves["features"] == name, "method"] == "fine-tuning").any() else "-"
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        drawn += key.plot([], [], marker, ls=style, color=colour, ms=4, label=name)
    drawn += key.plot([], [], ":", color="black", lw=0.8, label="chance")
    if later is not None and later["setting"].isin(shown).any():
        drawn += key.plot([], [], "D", mfc="white", color="black", ms=5, label="published later, other models")
    key.remove()
    figure.legend(handles=drawn, loc="outside lower center", ncols=3, fontsize=8)
    return figure
