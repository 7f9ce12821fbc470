"""Figures of what a model answers: class by class, family by family, how sure it is, and what it costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from reefcore.figures.style import (
    BLUE,
    FINE,
    GREEN,
    GREY,
    LINE,
    MARKERS,
    NARROW,
    ORANGE,
    PALE,
    RED,
    SMALL,
    WIDE,
    canvas,
    key,
)

ROW = 0.2  # inches per class
PRINTED = 0.1  # shares from which a cell has its number
NUMBERED = 26  # classes up to which cells have numbers: of more they would have less than 8 pixels on a page
COLOURS = (BLUE, ORANGE, GREEN, RED)


def per_class(table: pd.DataFrame) -> Figure:
    """Draw each class's training points, its most frequent wrong label and its recall (paper, Figure 10).

    Three panels share their rows, the most trained class on top.

    Parameters
    ----------
    table : DataFrame
        From `reefcore.classes.per_class`.
    """
    figure, (train, top, recall) = canvas(WIDE, ROW * len(table) + 1, columns=3)
    figure.get_layout_engine().set(wspace=0.06)
    place = np.arange(len(table))
    train.barh(place, table["train"], color=BLUE, height=0.7)
    train.set(xscale="log", xlabel="training points (log)", xlim=(0.8, 8 * max(1, table["train"].max())))
    top.barh(place, 100 * table["top_share"].fillna(0), color=ORANGE, height=0.7)
    top.set(xlabel="of its errors (%)", xlim=(0, 215), xticks=(0, 50, 100))
    seen = table["n"] > 0
    recall.hlines(place[seen], 100 * table["ci_low"][seen], 100 * table["ci_high"][seen], color=BLUE, lw=1.2)
    recall.plot(100 * table["recall"], place, "o", color=BLUE, ms=4)
    recall.set(xlabel="recall (%), 95 % interval", xlim=(-3, 103))
    for at, row in enumerate(table.itertuples()):
        train.text(max(row.train, 0.8) * 1.08, at, f"{row.train:,}", va="center", fontsize=SMALL, color=GREY)
        if row.n == 0:
            recall.text(50, at, "not in the test", va="center", ha="center", fontsize=SMALL, color=GREY)
        elif row.errors:
            top.text(100 * row.top_share + 2, at, row.taken_for, va="center", fontsize=SMALL, color=GREY)
        else:
            top.text(2, at, "no error", va="center", fontsize=SMALL, color=GREY)
    for axes, title in zip((train, top, recall), ("Training", "Taken most often for", "Recall"), strict=True):
        axes.set_title(title)
        axes.grid(axis="x", color=PALE, lw=0.6)
        axes.set_axisbelow(True)
    train.set(yticks=place, ylim=(len(table) - 0.4, -0.6))
    train.set_yticklabels(table["label"], fontsize=SMALL)
    return figure


def confusion(shares: pd.DataFrame, families: pd.Series | None = None, counts: pd.Series | None = None) -> Figure:
    """Draw a confusion matrix by the shares of each true class (paper, Figure 11).

    White is a share of zero; cells from a tenth on have their percentage, up to `NUMBERED` classes. Rows of classes
    that are absent from the test are hatched: nothing of them was measured.

    Parameters
    ----------
    shares : DataFrame
        From `reefcore.classes.matrix`: square, rows of NaN for absent classes.
    families : Series of str, optional
        Family of each class, by class, in the order of `shares`: its blocks are outlined and named.
    counts : Series of int, optional
        Points of each true class, by class: written behind its name.
    """
    size = len(shares)
    letters = SMALL if size <= NUMBERED else 10  # of the names: a page makes a large matrix smaller
    side = max(ROW * size + 1.6, NARROW)
    figure, (axes,) = canvas(side + (0.9 if families is not None else 0), side)
    values = shares.to_numpy()
    rows, columns = np.nonzero(np.nan_to_num(values))
    cells = [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in zip(rows, columns, strict=True)]
    drawn = PatchCollection(cells, cmap="Blues", lw=0)
    drawn.set(array=100 * values[rows, columns], clim=(0, 100))
    axes.add_collection(drawn)
    for row, column in zip(rows, columns, strict=True):
        if size <= NUMBERED and (share := values[row, column]) >= PRINTED:
            ink = "white" if share > 0.6 else "black"
            axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=FINE, color=ink)
    for row in np.flatnonzero(np.isnan(values).all(axis=1)):
        absent = Rectangle((-0.5, row - 0.5), size, 1, fc=PALE, ec=LINE, hatch="////", lw=0)
        axes.add_patch(absent)
        axes.text(
            size / 2 - 0.5, row, "not in the test", ha="center", va="center", fontsize=SMALL, backgroundcolor=PALE
        )
    edges = np.arange(size + 1) - 0.5
    axes.hlines(edges, -0.5, size - 0.5, color=PALE, lw=0.4, zorder=0)
    axes.vlines(edges, -0.5, size - 0.5, color=PALE, lw=0.4, zorder=0)
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xlabel="predicted", ylabel="truth", aspect="equal")
    axes.set_xticks(range(size), shares.columns, rotation=90, fontsize=letters)
    names = shares.index if counts is None else [f"{name} ({counts.get(name, 0):,})" for name in shares.index]
    axes.set_yticks(range(size), names, fontsize=letters)
    if families is not None:
        _blocks(axes, families.reindex(shares.index).to_numpy(), letters)
    bar = figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.4, aspect=30, pad=0.01, anchor=(0, 0.5))
    bar.set_label("share of the points of the true class (%)", fontsize=SMALL)
    return figure


def _blocks(axes, families: np.ndarray, letters: float) -> None:
    """Outline the runs of one family along the diagonal, and name them at the right edge."""
    starts = np.flatnonzero(np.r_[True, families[1:] != families[:-1]])
    for start, end in zip(starts, [*starts[1:], len(families)], strict=True):
        axes.add_patch(Rectangle((start - 0.5, start - 0.5), end - start, end - start, fill=False, ec=RED, lw=1.2))
        axes.axhline(end - 0.5, color=GREY, lw=0.5)
        axes.axvline(end - 0.5, color=GREY, lw=0.5)
        axes.text(len(families) - 0.2, (start + end - 1) / 2, families[start], va="center", fontsize=letters, color=RED)


def _end(fractions) -> float:
    """Give where an axis in percent ends: at the next ten above the data, and a little more for a marker at 100."""
    top = 10 * np.ceil(10 * np.nanmax(fractions.to_numpy(float)) - 1e-9)
    return 101 if top >= 100 else max(top, 10.0)


def reliability(table: pd.DataFrame) -> Figure:
    """Draw how often answers are right against how sure they are; on the diagonal the two agree.

    The axes end at the next ten above the data.

    Parameters
    ----------
    table : DataFrame
        Rows of `reefcore.calibration.reliability`, with ``setting`` (a panel each) and ``stage`` (a marker each).
    """
    figure, panels = canvas(NARROW if table["setting"].nunique() < 2 else WIDE, 3.3, columns=table["setting"].nunique())
    end = _end(table[["confidence", "ci_high"]])
    for axes, (setting, rows) in zip(panels, table.groupby("setting", sort=False), strict=True):
        axes.plot([0, 100], [0, 100], color=GREY, lw=1, ls="--")
        for (stage, points), marker, colour in zip(rows.groupby("stage", sort=False), MARKERS, COLOURS, strict=False):
            x = 100 * points["confidence"]
            axes.vlines(x, 100 * points["ci_low"], 100 * points["ci_high"], color=colour, lw=1)
            axes.plot(x, 100 * points["accuracy"], marker, color=colour, ms=4.5, mfc="white", label=stage)
        n = rows["n"]
        each = f"{n.min():,}" if n.min() == n.max() else f"{n.min():,} to {n.max():,}"
        axes.set(xlabel="confidence (%)", xlim=(0, end), ylim=(0, end), aspect="equal")
        axes.set_title(f"{setting}\n{each} points per marker", fontsize=SMALL)
    panels[0].set_ylabel("answers that are right (%)")
    key(figure, *panels[0].get_legend_handles_labels())
    return figure


def coverage(table: pd.DataFrame) -> Figure:
    """Draw how often the surest answers are right, against the share of points that are answered.

    Parameters
    ----------
    table : DataFrame
        Rows of `reefcore.calibration.coverage`, with ``setting`` (a line each).
    """
    figure, (axes,) = canvas(NARROW, 3.3)
    for (setting, rows), marker, colour in zip(table.groupby("setting", sort=False), MARKERS, COLOURS, strict=False):
        x = 100 * rows["coverage"]
        axes.fill_between(x, 100 * rows["ci_low"], 100 * rows["ci_high"], color=colour, alpha=0.2, lw=0)
        axes.plot(x, 100 * rows["accuracy"], marker=marker, ms=4, color=colour, label=setting)
    axes.set(xlabel="points answered, the surest first (%)", ylabel="answers that are right (%)")
    axes.set(xlim=(0, 101), ylim=(0, _end(table["ci_high"])))
    key(figure, *axes.get_legend_handles_labels())
    return figure


def hours(table: pd.DataFrame) -> Figure:
    """Draw estimated GPU-hours per recipe with their range, on a log scale.

    Parameters
    ----------
    table : DataFrame
        ``recipe``, ``low``, ``hours``, ``high``.
    """
    table = table.sort_values("hours", ignore_index=True)
    figure, (axes,) = canvas(NARROW, 0.26 * len(table) + 0.8)
    axes.hlines(table.index, table["low"], table["high"], color=BLUE, lw=2)
    axes.plot(table["hours"], table.index, "o", color=BLUE)
    for at, row in enumerate(table.itertuples()):
        axes.text(row.high * 1.12, at, f"{row.hours:,.0f}", va="center", fontsize=SMALL, color=GREY)
    axes.set(xscale="log", xlabel="GPU-hours (log scale)", xlim=(table["low"].min() / 1.3, table["high"].max() * 2))
    axes.set_yticks(table.index, table["recipe"], fontsize=SMALL)
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.grid(axis="x", color=PALE, lw=0.6)
    axes.set_axisbelow(True)
    return figure
