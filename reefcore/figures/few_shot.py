"""The figure of few labels: what more of them bring."""

from __future__ import annotations

from itertools import cycle

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from reefcore.figures.style import BLUE, GREEN, GREY, MARKERS, ORANGE, PALE, PINK, RED, SKY, canvas, key

COLOURS = (GREY, BLUE, GREEN, ORANGE, RED, PINK, SKY)
PUBLISHED = {"marker": "D", "ms": 5, "mfc": "white", "color": "black", "ls": "none"}
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
        ``setting``, ``shots``, ``published`` (fraction): diamonds in its panel.
    """
    shown = [setting for setting in titles if (curves["setting"] == setting).any()]
    figure, panels = canvas(2.2 * len(shown) + 0.6, 3.8, columns=len(shown))
    names = list(dict.fromkeys(curves["features"]))
    tuned = set(curves.loc[curves["method"] == "fine-tuning", "features"])
    looks = {
        name: {"color": colour, "marker": marker, "ls": "--" if name in tuned else "-"}
        for name, colour, marker in zip(names, cycle(COLOURS), cycle(MARKERS), strict=False)
    }
    shots = sorted(set(curves["shots"]))
    for axes, setting in zip(panels, shown, strict=True):
        here = curves[curves["setting"] == setting]
        for place, name in enumerate(names):
            rows = here[here["features"] == name].sort_values("shots")
            x = rows["shots"] * SHIFT ** (place - (len(names) - 1) / 2)
            axes.vlines(x, 100 * rows["ci_low"], 100 * rows["ci_high"], color=looks[name]["color"], lw=1, alpha=0.7)
            axes.plot(x, 100 * rows["macro_recall"], ms=4, lw=1.3, **looks[name])
        axes.axhline(100 * here["chance"].iloc[0], color="black", lw=0.8, ls=":")
        if later is not None and len(points := later[later["setting"] == setting]):
            axes.plot(points["shots"], 100 * points["published"], **PUBLISHED)
        axes.set(xscale="log", xlabel="labels per genus (log)", xticks=shots, xticklabels=shots)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(titles[setting])
        axes.grid(axis="y", color=PALE, lw=0.6)
    panels[0].set(ylabel="macro recall (%), 95 % interval", ylim=(0, None))
    keys = [Line2D([], [], label=name, ms=4, lw=1.3, **look) for name, look in looks.items()]
    keys.append(Line2D([], [], color="black", lw=0.8, ls=":", label="chance"))
    if later is not None and later["setting"].isin(shown).any():
        keys.append(Line2D([], [], label="later version of the paper, other models", **PUBLISHED))
    key(figure, keys, columns=3)
    return figure
