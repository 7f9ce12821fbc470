"""Figures of a user's own reef: cover with its intervals, change, effort, genera, labels and photos."""

from __future__ import annotations

import html
import textwrap
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.errors import ReefcoreError
from reefcore.figures.style import (
    BLUE,
    FAINT,
    FURTHER,
    GREEN,
    GREY,
    LOOKS,
    MARKERS,
    NARROW,
    ORANGE,
    PALE,
    PINK,
    RED,
    SKY,
    SMALL,
    STONE,
    Shown,
    canvas,
    key,
)

REST = "all others"
NAME = 22  # letters of a name beside an axis, per line


def say(sentence: str) -> Shown:
    """Show a sentence in the place of a figure or table that cannot be made, such as why."""
    return Shown(f'<p class="lacks">{html.escape(sentence)}</p>', sentence)


def _rows(n: int, inches: float = 0.3, least: float = 1.6) -> float:
    """Give the height of a figure with n horizontal bars."""
    return max(least, inches * n + 0.9)


def _names(axes, names, most: int = NAME) -> None:
    """Write names beside the bars from the top down, in lines that a phone has room for."""
    names = [textwrap.fill(str(name), most, max_lines=2, placeholder=" …") for name in names]
    axes.set_yticks(range(len(names)), names, fontsize=SMALL)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _some(table: pd.DataFrame, what: str) -> None:
    if table.empty:
        raise ReefcoreError(f"there is no {what} to draw", do="check the tables of this site")


def shares(table: pd.DataFrame, name: str) -> Figure:
    """Draw how much of a whole each row has, such as how many photos have a date.

    Parameters
    ----------
    table : DataFrame
        `name`, ``images``, ``of`` (numbers), first row on top.
    name : str
    """
    _some(table, "share")
    figure, (axes,) = canvas(NARROW, _rows(len(table)))
    part = 100 * table["images"] / table["of"].where(table["of"] > 0)
    place = np.arange(len(table))
    axes.barh(place, 100, color=PALE, height=0.65)
    axes.barh(place, part, color=BLUE, height=0.65)
    for at, row in enumerate(table.itertuples()):
        axes.text(102, at, f"{row.images:,} of {row.of:,}", va="center", fontsize=SMALL, color=GREY)
    axes.set(xlim=(0, 145), xticks=range(0, 101, 25), xlabel="share (%)")
    _names(axes, table[name])
    return figure


def bars(table: pd.DataFrame, name: str, value: str, kind: str | None = None) -> Figure:
    """Draw numbers as horizontal bars, the first row on top; kinds differ in colour and hatch.

    Parameters
    ----------
    table : DataFrame
        `name`, `value` (at least 0), and `kind` (at most six).
    name, value, kind : str
    """
    _some(table, value)
    figure, (axes,) = canvas(
        NARROW, _rows(len(table), 0.31 if table[name].astype("str").str.len().max() > NAME else 0.24)
    )
    kinds = pd.Series(value, table.index) if kind is None else table[kind].astype("str")
    hatches = ("", "///", "--", "xx", "|||", "\\\\\\")
    colours = (BLUE, ORANGE, GREY, GREEN, PINK, RED)
    for colour, hatch, here in zip(colours, hatches, kinds.unique(), strict=False):
        rows = np.flatnonzero(kinds == here)
        axes.barh(rows, table[value].iloc[rows], color=colour, hatch=hatch, ec="white", lw=0, height=0.7, label=here)
    top = max(table[value].max(), 1e-9)
    for at, number in enumerate(table[value]):
        axes.text(number + top * 0.015, at, f"{number:,.4g}", va="center", fontsize=SMALL, color=GREY)
    axes.set(xlabel=value, xlim=(0, 1.22 * top))
    _names(axes, table[name])
    if kind is not None:
        key(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure


def histogram(values: pd.Series, label: str, marks: dict[str, float] | None = None, log: bool = False) -> Figure:
    """Draw how photos are spread over a quantity.

    Parameters
    ----------
    values : Series of float
        One per photo; those without one are left out.
    label : str
        Quantity and unit.
    marks : dict, optional
        Words -> value, drawn as lines.
    log : bool
        Whether the axis is logarithmic; values of 0 and less are then drawn as the least above.
    """
    values, marks = values.dropna().astype(float), marks or {}
    _some(values, label)
    low, high = values.min(), values.max()
    if log:
        low = values[values > 0].min() if (values > 0).any() else 1.0
        values, high = values.clip(lower=low), max(high, low)
    everything = [low, high, *marks.values()]
    edges = np.histogram_bin_edges(np.log(values) if log else values, bins=min(30, max(5, round(len(values) ** 0.5))))
    figure, (axes,) = canvas(NARROW, 2.8)
    counts, _, _ = axes.hist(values, np.exp(edges) if log else edges, color=BLUE, ec="white", lw=0.5)
    for number, ((words, at), style) in enumerate(zip(marks.items(), cycle(("--", ":", "-.")), strict=False)):
        axes.axvline(at, color=RED, lw=1.2, ls=style)
        side = "right" if at > np.mean(everything) else "left"
        height = counts.max() * (1.04 + 0.11 * number)
        axes.text(at, height, f" {words} ", color=RED, fontsize=SMALL, ha=side, va="bottom")
    axes.set(xlabel=label, ylabel="photos", ylim=(0, counts.max() * (1.05 + 0.13 * len(marks))))
    if log:
        axes.set_xscale("log")
    return figure


def cover_bars(
    table: pd.DataFrame, by: str, other: pd.DataFrame | None = None, names: tuple[str, str] = ("", ""), most: int = 20
) -> Figure:
    """Draw percent cover with its intervals, the highest first, and beside it how else it can be reckoned.

    Parameters
    ----------
    table : DataFrame
        Rows of one unit of `reefcore.cover.percent_cover`: `by`, ``count``, ``percent``, ``ci_low``, ``ci_high``.
    by : str
    other : DataFrame, optional
        As `table`, reckoned in another way; drawn for the same categories.
    names : (str, str)
        What the two are.
    most : int
        Categories drawn, those with most cover.
    """
    _some(table, "cover")
    table = table.sort_values(["percent", by], ascending=[False, True]).head(most)
    figure, (axes,) = canvas(NARROW, _rows(len(table), 0.28 if other is None else 0.36))
    place, high = np.arange(len(table)), table["ci_high"].fillna(table["percent"])
    series = [(table, BLUE, "o", 0.0 if other is None else -0.17)]
    if other is not None:
        beside = table[[by]].merge(other, on=by, how="left").set_index(table.index)
        series.append((beside, ORANGE, "D", 0.17))
        high = high.combine(beside["ci_high"].fillna(beside["percent"]), np.fmax)
    for (rows, colour, marker, shift), label in zip(series, names, strict=False):
        axes.hlines(place + shift, rows["ci_low"], rows["ci_high"], color=colour, lw=2, alpha=0.6)
        filled = {"mfc": "white"} if shift > 0 else {}
        axes.plot(rows["percent"], place + shift, marker, color=colour, ms=5, label=label, ls="none", **filled)
    top = max(high.max(), 1)
    for at, row in enumerate(table.itertuples()):
        text = f"{row.percent:.1f} %" + (f"  (n {row.count:,.0f})" if pd.notna(row.count) else "")
        axes.text(high.iloc[at] + 0.03 * top, at, text, va="center", fontsize=SMALL, color=GREY)
    axes.set(xlabel="cover (%), with its interval", xlim=(-0.01 * top, 1.62 * top))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= min(100, 1.1 * top)])
    axes.grid(axis="x", color=PALE, lw=0.6)
    axes.set_axisbelow(True)
    _names(axes, table[by].fillna("(not identified)"))
    if other is not None:
        key(figure, *axes.get_legend_handles_labels(), columns=2)
    return figure


def looks(categories) -> dict[str, tuple[str, str]]:
    """Give each category a colour and a hatch: functional groups always the same ones, the others in their order."""
    further = iter(FURTHER)
    found = {}
    for name in categories:
        found[name] = LOOKS.get(name) or ((FAINT, "--") if name == REST else next(further, (STONE, "xx")))
    return found


def stacked(table: pd.DataFrame, by: str, unit: str, most: int = 9) -> Figure:
    """Draw the composition of each unit (site, transect, date) as one bar of 100 %.

    Parameters
    ----------
    table : DataFrame
        Of `reefcore.cover.percent_cover`: `unit`, `by`, ``images``, ``percent``. The first unit is on top.
    by, unit : str
    most : int
        Categories that have a colour of their own, those with most cover; functional groups all have one.
    """
    _some(table, "cover")
    wide = table.pivot_table(index=unit, columns=by, values="percent", aggfunc="sum", sort=False).fillna(0)
    wide = wide.loc[:, wide.mean().gt(0)]
    ranked = wide.mean().sort_values(ascending=False, kind="stable").index
    known = [name for name in LOOKS if name in wide]
    order = known + [name for name in ranked if name not in LOOKS]
    if len(order) > max(most, len(known)):
        kept = order[: max(most, len(known))]
        wide = wide[kept].assign(**{REST: wide.drop(columns=kept).sum(axis=1)})
        order = [*kept, REST]
    images = table.drop_duplicates(unit).set_index(unit)["images"]
    figure, (axes,) = canvas(NARROW, _rows(len(wide), 0.32) + 0.2 * -(-len(order) // 2))
    left, place = np.zeros(len(wide)), np.arange(len(wide))
    for name, (colour, hatch) in looks(order).items():
        width = wide[name].to_numpy()
        axes.barh(place, width, left=left, color=colour, hatch=hatch, ec="white", lw=0.4, height=0.72, label=name)
        for at in np.flatnonzero(width >= 8):
            axes.text(
                *(left[at] + width[at] / 2, at, f"{width[at]:.0f}"),
                **{"ha": "center", "va": "center", "fontsize": SMALL},
                bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 0.8},
            )
        left += width
    axes.set(xlim=(0, 100), xlabel="cover (%)")
    _names(axes, [f"{name} ({images[name]:,.0f})" for name in wide.index])
    key(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure


def over_time(table: pd.DataFrame, by: str, unit: str, categories: list[str]) -> Figure:
    """Draw the cover of a few categories over the dates, with intervals, a panel each.

    Parameters
    ----------
    table : DataFrame
        Of `reefcore.cover.percent_cover`: `unit` (dates or surveys, in their order), `by`, ``percent``, ``ci_low``,
        ``ci_high``, ``images``.
    by, unit : str
    categories : list of str
        At most six.
    """
    _some(table, "cover")
    rows = -(-len(categories) // 2)
    figure, panels = canvas(NARROW, 2.1 * rows + 0.5, columns=min(2, len(categories)), rows=rows)
    units = list(table[unit].unique())
    room = 17 if len(categories) > 1 else 40  # letters below a panel
    turned = 90 if sum(len(str(value)) + 1 for value in units) > room + 5 else 0
    for axes, name in zip(panels, categories, strict=False):
        here = table[table[by] == name].set_index(unit).reindex(units)
        place = np.arange(len(units))
        axes.vlines(place, here["ci_low"], here["ci_high"], color=BLUE, lw=2, alpha=0.6)
        axes.plot(place, here["percent"], "o-", color=BLUE, ms=5, lw=1)
        axes.set_title(textwrap.fill(str(name), 26))
        axes.set_xticks(place, [str(value) for value in units], fontsize=SMALL, rotation=turned)
        axes.set_xlim(-0.5, len(units) - 0.5)
        axes.grid(axis="y", color=PALE, lw=0.6)
    for axes in panels[len(categories) :]:
        axes.set_visible(False)
    panels[0].set_ylim(0, None)
    figure.supylabel("cover (%)")
    return figure


def change_bars(table: pd.DataFrame, by: str, most: int = 15) -> Figure:
    """Draw the difference of cover between two dates with its interval, and how sure its direction is.

    Parameters
    ----------
    table : DataFrame
        Rows of one pair of dates of `reefcore.cover.change`: `by`, ``difference``, ``ci_low``, ``ci_high`` (percentage
        points), ``probability`` (of the direction, a fraction).
    by : str
    most : int
        Categories drawn, those that changed most.
    """
    _some(table, "change")
    table = table.loc[table["difference"].abs().sort_values(ascending=False, kind="stable").index].head(most)
    table = table.sort_values(["difference", by], ignore_index=True)
    figure, (axes,) = canvas(NARROW, _rows(len(table), 0.3))
    place, none = np.arange(len(table)), table["ci_low"].isna()
    sure = (table["ci_low"] > 0) | (table["ci_high"] < 0)
    kinds = [("interval without 0", sure, BLUE, "o", BLUE), ("interval with 0", ~sure & ~none, GREY, "o", "white")]
    for label, which, colour, marker, face in [*kinds, ("no interval", none, GREY, "x", GREY)]:
        if which.any():
            axes.hlines(place[which], table["ci_low"][which], table["ci_high"][which], color=colour, lw=2, alpha=0.6)
            axes.plot(table["difference"][which], place[which], marker, color=colour, mfc=face, ms=5, label=label)
    ends = table[["ci_low", "ci_high", "difference"]].astype(float)
    low, high = min(0, ends.min(axis=None)), max(0, ends.max(axis=None))
    span = max(high - low, 1)
    for at, row in enumerate(table.itertuples()):
        word = "up" if row.difference > 0 else "down" if row.difference < 0 else "even"
        text = f"{row.difference:+.1f}".replace("-", "−")
        if pd.notna(row.probability):  # a share of draws, which nothing makes certain
            text += f"  ({word}: {'>99%' if row.probability >= 0.995 else f'{row.probability:.0%}'})"
        axes.text(high + 0.04 * span, at, text, va="center", fontsize=SMALL, color=GREY)
    axes.axvline(0, color=GREY, lw=1)
    axes.set(xlim=(low - 0.05 * span, high + 0.85 * span), xlabel="difference of cover (percentage points)")
    axes.set_xticks([tick for tick in axes.get_xticks() if low - 0.05 * span <= tick <= high + 0.05 * span])
    _names(axes, table[by].fillna("(not identified)"))
    key(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure


def curves(
    table: pd.DataFrame, x: str, y: str, labels: tuple[str, str], group: str | None = None, goal: float | None = None
) -> Figure:
    """Draw curves with a band where they have an interval: genera against photos, precision against effort.

    Parameters
    ----------
    table : DataFrame
        `x`, `y`, and where known ``ci_low``, ``ci_high``; `group` names the curves.
    x, y, group : str
    labels : (str, str)
        Of the two axes.
    goal : float, optional
        A value of `y`, drawn as a line.
    """
    _some(table, "curve")
    figure, (axes,) = canvas(NARROW, 3.6)
    groups = [("", table)] if group is None else list(table.groupby(group, sort=False))
    looks = zip(cycle(MARKERS), cycle((BLUE, ORANGE, GREEN, RED, PINK, SKY, GREY)), cycle(("-", "--", ":")))
    for (name, rows), (marker, colour, line) in zip(groups, looks, strict=False):
        rows = rows.sort_values(x)
        if {"ci_low", "ci_high"} <= set(rows) and len(groups) <= 4:
            axes.fill_between(rows[x], rows["ci_low"], rows["ci_high"], color=colour, alpha=0.15, lw=0)
        every = max(1, len(rows) // 8)
        axes.plot(rows[x], rows[y], line, marker=marker, markevery=every, ms=4, color=colour, label=str(name))
    if goal is not None:
        axes.axhline(goal, color=RED, lw=1, ls="--")
        place = axes.get_yaxis_transform()  # beside the axes, where no curve runs
        axes.text(1.01, goal, f"{goal:.3g}", color=RED, fontsize=SMALL, va="center", transform=place)
    axes.set(xlabel=labels[0], ylabel=labels[1], ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)  # there is no half image
    if group is not None:
        columns = 2 if max(len(str(name)) for name, _ in groups) > 16 else 4
        key(figure, *axes.get_legend_handles_labels(), columns=columns)
    return figure


def photo_flags(photos: pd.DataFrame) -> Figure:
    """Draw sharpness against brightness of all photos, those with a flag marked.

    Parameters
    ----------
    photos : DataFrame
        ``brightness`` (0 to 255), ``sharpness`` (above 0), ``flag`` (NA: none).
    """
    _some(photos, "photo")
    figure, (axes,) = canvas(NARROW, 3.8)
    fine = photos[photos["flag"].isna()]
    axes.plot(fine["brightness"], fine["sharpness"], "o", color=GREY, ms=3.5, alpha=0.5, mew=0, label="no flag")
    flagged = photos[photos["flag"].notna()]
    marks = zip(cycle("sD^vPX"), cycle((RED, ORANGE, BLUE, GREEN, PINK, "black")))
    for (flag, rows), (marker, colour) in zip(flagged.groupby("flag"), marks, strict=False):
        axes.plot(rows["brightness"], rows["sharpness"], marker, color=colour, ms=6, mec="white", label=flag)
    axes.set(xlabel="brightness (0 to 255)", ylabel="sharpness (log scale)", yscale="log", xlim=(0, 255))
    key(figure, *axes.get_legend_handles_labels(), columns=4)
    return figure
