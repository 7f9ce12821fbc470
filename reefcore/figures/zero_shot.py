"""Figures of models that were not trained on the classes."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.style import BLUE, GREY, LINE, MARKERS, NARROW, ORANGE, PALE, SMALL, canvas, key

METRICS = {"macro_recall": ("macro recall (%)", 100), "mean_rank": ("average rank of the true class", 1)}


def prompt_sets(measured: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Draw what each prompt set scores, a panel per metric and test set, with chance as a line.

    Parameters
    ----------
    measured : DataFrame
        From `reefcore.zero_shot.evaluate`, of one recipe.
    names : dict
        Test set -> title of its panel, in order.
    """
    sets = list(dict.fromkeys(measured["prompts"]))
    metrics = [metric for metric in METRICS if metric in set(measured["metric"])]
    tests = [test for test in names if test in set(measured["test"])]
    figure, axes_ = canvas(
        1.3 + 1.2 * len(tests), 1.0 + len(metrics) * (0.7 + 0.26 * len(sets)), len(tests), len(metrics)
    )
    for number, axes in enumerate(axes_):
        metric, test = metrics[number // len(tests)], tests[number % len(tests)]
        label, scale = METRICS[metric]
        rows = measured[(measured["metric"] == metric) & (measured["test"] == test)]
        y = rows["prompts"].map(sets.index).to_numpy(float)
        axes.hlines(y, scale * rows["ci_low"], scale * rows["ci_high"], color=BLUE, lw=1.5)
        axes.plot(scale * rows["value"], y, MARKERS[0], color=BLUE, ms=5, label="95 % interval over photos")
        if len(rows):
            axes.axvline(scale * rows["chance"].iloc[0], color=ORANGE, lw=1, ls="--", label="chance", zorder=0)
        axes.set(yticks=list(range(len(sets))), ylim=(len(sets) - 0.4, -0.6), xlim=(0, None))
        if test == tests[0]:
            axes.set_yticklabels(sets)
        else:
            axes.tick_params(labelleft=False)
        if number % len(tests) == len(tests) // 2:  # once for the row
            axes.set_xlabel(label)
        axes.grid(axis="y", color=PALE, lw=0.8)
        if number < len(tests):
            axes.set_title(textwrap.fill(names[test], 14), fontsize=9)
    key(figure, *axes_[0].get_legend_handles_labels(), columns=2)
    return figure


def answers(recall: pd.DataFrame) -> Figure:
    """Draw of each class how often it is right and how often it is answered, beside how often it is there.

    Parameters
    ----------
    recall : DataFrame
        ``label``, ``recall`` (fraction), ``answered`` (share of the answers), ``there`` (share of the points);
        where it has ``ci_low`` and ``ci_high``, they are the interval of the recall.
    """
    recall = recall.sort_values("there", ascending=False)
    figure, (left, right) = canvas(NARROW, 1.0 + 0.17 * len(recall), 2)
    y = range(len(recall))
    left.barh(y, 100 * recall["recall"], color=BLUE, height=0.7)
    if "ci_low" in recall:
        low, high = (100 * recall[end].where(recall["recall"].notna()) for end in ("ci_low", "ci_high"))
        left.hlines(y, low, high, color=GREY, lw=1)
    left.set(yticks=y, ylim=(len(recall) - 0.5, -0.5), xlabel="recall (%)")
    left.set_yticklabels(recall["label"], fontsize=SMALL)
    right.hlines(y, 100 * recall["there"], 100 * recall["answered"], color=LINE, lw=1)
    right.plot(100 * recall["there"], y, MARKERS[3], color=GREY, mfc="white", ms=4, label="of the points")
    right.plot(100 * recall["answered"], y, MARKERS[0], color=BLUE, ms=4, label="of the answers")
    right.set(yticks=y, ylim=(len(recall) - 0.5, -0.5), xlabel="share (%)")
    right.tick_params(labelleft=False)
    key(figure, *right.get_legend_handles_labels())
    return figure
