"""Figures of frame decisions: the alpha curve, and what mistakes cost."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.style import BLUE, GREEN, GREY, NARROW, ORANGE, RED, SMALL, canvas, key

LINES = {
    "precision": ("Deploy precision", BLUE, "-"),
    "recall": ("Deploy recall", ORANGE, "--"),
    "accuracy": ("accuracy", GREEN, "-"),
    "f1": ("F1 of Deploy", GREY, "--"),
}


def alpha_curve(curve: pd.DataFrame, marked, chosen: float, published: float | None = None) -> Figure:
    """Draw what decisions are worth by alpha, with bands: Deploy precision and recall, and accuracy and F1.

    Parameters
    ----------
    curve : DataFrame
        From `reefcore.substrate.decision.curve`; fractions.
    marked : sequence of float
        Alphas with a dotted line.
    chosen : float
        The operating point.
    published : float, optional
        Published accuracy, a fraction, at an alpha that is not known.
    """
    figure, panels = canvas(NARROW, 5.4, 1, 2, sharex=True)
    for axes, metrics in zip(panels, (("precision", "recall"), ("accuracy", "f1")), strict=True):
        for metric in metrics:
            label, colour, style = LINES[metric]
            rows = curve[curve["metric"] == metric].sort_values("alpha")
            low, high = 100 * rows["ci_low"], 100 * rows["ci_high"]
            axes.fill_between(rows["alpha"], low, high, step="post", color=colour, alpha=0.18, lw=0)
            axes.step(rows["alpha"], 100 * rows["value"], style, where="post", color=colour, lw=1.6, label=label)
        for alpha in marked:
            axes.axvline(alpha, color="black", lw=0.8, ls=":")
            axes.text(alpha, 101.5, f"{alpha:g}", ha="center", fontsize=SMALL)
        axes.axvline(chosen, color=RED, lw=1.4, label=f"chosen alpha {chosen:.2f}")
        axes.set(ylabel="percent, 95 % interval", xlim=(0, 1), ylim=(0, 101))
    if published is not None:
        label = f"published accuracy {published:.1%}"
        panels[1].axhline(100 * published, color="black", lw=1, ls="-.", label=label)
    panels[1].set_xlabel("alpha")
    keys = {key: mark for axes in panels for mark, key in zip(*axes.get_legend_handles_labels(), strict=True)}
    key(figure, list(keys.values()), keys.keys(), columns=3)
    return figure


def cost_curve(costs: pd.DataFrame, never: float) -> Figure:
    """Draw the cost per frame by alpha with its band, and below it how often each alpha is the cheapest of a draw.

    Parameters
    ----------
    costs : DataFrame
        From `reefcore.substrate.decision.cost`.
    never : float
        Cost per frame where nothing is ever deployed.
    """
    figure, (axes,) = canvas(NARROW, 3.4)
    some = costs[costs["alpha"] < 1]
    axes.fill_between(some["alpha"], some["ci_low"], some["ci_high"], step="mid", color=BLUE, alpha=0.18, lw=0)
    axes.step(some["alpha"], some["cost"], where="mid", color=BLUE, lw=1.6, label="cost, 95 % interval")
    axes.axhline(never, color=RED, lw=1.2, ls="--", label="never deploying")
    best = costs["cost"].idxmin()
    axes.plot(costs["alpha"][best], costs["cost"][best], "o", color="black", ms=6, label="cheapest")
    axes.set(
        xlabel="alpha", ylabel="cost per frame", xlim=(0, 1.02), ylim=(0, max(some["ci_high"].max(), never) * 1.05)
    )
    share = axes.twinx()
    share.bar(costs["alpha"], 100 * costs["chosen"], width=0.02, color=ORANGE, label="cheapest in draws")
    share.set(ylabel="draws (%)", ylim=(0, 100))
    share.spines["right"].set_visible(True)
    axes.set_zorder(share.get_zorder() + 1)
    axes.patch.set_visible(False)
    marks = [*axes.get_legend_handles_labels()[0], *share.get_legend_handles_labels()[0]]
    key(figure, marks, columns=4)
    return figure


def cheapest_alpha(table: pd.DataFrame, price: float) -> Figure:
    """Draw the cheapest alpha, with its interval, by how many missed deployments a wrong one is worth.

    Parameters
    ----------
    table : DataFrame
        From `reefcore.substrate.decision.cheapest`.
    price : float
        Of the page, marked.
    """
    figure, (axes,) = canvas(NARROW, 2.9)
    axes.vlines(table["wrong_per_missed"], table["ci_low"], table["ci_high"], color=BLUE, lw=1.5)
    axes.plot(table["wrong_per_missed"], table["alpha"], "o-", color=BLUE, ms=5, lw=1)
    axes.axvline(price, color=RED, lw=1, ls="--")
    ticks = table["wrong_per_missed"]
    axes.set(xscale="log", xticks=ticks, ylim=(0, 1.02), ylabel="cheapest alpha, 95 % interval")
    axes.set_xticklabels([f"{x:g}" if x >= 1 else f"1/{1 / x:g}" for x in ticks])
    axes.minorticks_off()
    axes.set_xlabel("cost of a wrong deployment, in missed ones (log scale)")
    return figure


def decided(ratio: np.ndarray, truth: np.ndarray, alpha: float) -> Figure:
    """Draw how many frames have which share of Deploy patches, those the expert would deploy on and the others.

    Parameters
    ----------
    ratio : ndarray of float, shape (frames,)
    truth : ndarray of bool, shape (frames,)
    alpha : float
        Marked.
    """
    figure, (axes,) = canvas(NARROW, 2.9)
    groups = [ratio[truth], ratio[~truth]]
    names = ["the expert would deploy", "the expert would not"]
    axes.hist(
        groups,
        np.linspace(0, 1, 15),
        stacked=True,
        color=[BLUE, ORANGE],
        hatch=["", "///"],
        ec="white",
        lw=0,
        label=names,
    )
    axes.axvline(alpha, color=RED, lw=1.4, label=f"chosen alpha, {alpha:.2f}")
    axes.set(xlabel="share of patches predicted Deploy", ylabel="frames", xlim=(0, 1))
    key(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure
