"""One function per chart: a table in, a Figure out."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.style import BLUE, GREY, NARROW, ORANGE, RED, SMALL, canvas, key


def long_tail(counts: pd.Series, minimum: int | None = None) -> Figure:
    """Draw the number of annotations per taxon on a log scale (paper, Figure 2).

    Parameters
    ----------
    counts : Series of int
        Annotations by taxon, each at least 1.
    minimum : int, optional
        The criterion's least number, drawn as a line.
    """
    counts = counts.sort_values(kind="stable")
    figure, (axes,) = canvas(NARROW, max(2.5, 0.19 * len(counts) + 0.8))
    axes.barh(counts.index, counts, color=BLUE)
    axes.set(xscale="log", xlabel="annotations (log scale)", ylim=(-0.6, len(counts) - 0.4))
    axes.tick_params(axis="y", labelsize=SMALL, length=0)
    for place, count in enumerate(counts):
        axes.text(count * 1.05, place, f"{count:,}", va="center", fontsize=SMALL, color=GREY)
    axes.set_xlim(max(0.8, counts.min() * 0.5), counts.max() * 3)
    if minimum:
        axes.axvline(minimum, color=RED, lw=1, ls="--")
        axes.text(minimum, -0.2, f" at least {minimum:,}", color=RED, fontsize=SMALL, va="bottom")
    return figure


def funnel(steps: pd.DataFrame, column: str = "annotations") -> Figure:
    """Draw what is left after each step of the curation (paper, Figure 5 and section 3.2).

    Parameters
    ----------
    steps : DataFrame
        ``step`` and `column`, first step first.
    """
    figure, (axes,) = canvas(NARROW, 0.5 * len(steps) + 0.8)
    axes.barh(range(len(steps)), steps[column], color=BLUE, height=0.6)
    axes.set_yticks(range(len(steps)), [textwrap.fill(step, 24) for step in steps["step"]], fontsize=SMALL)
    axes.invert_yaxis()
    axes.set(xlabel=column, xlim=(0, steps[column].max() * 1.6))
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    for place, value in enumerate(steps[column]):
        axes.text(value, place, f"  {value:,} ({value / steps[column].iloc[0]:.0%})", va="center", fontsize=SMALL)
    return figure


def agreement_steps(table: pd.DataFrame) -> Figure:
    """Draw expert agreement before and after the two review filters, published beside reproduced.

    Parameters
    ----------
    table : DataFrame
        ``stage``, ``published``, ``reproduced`` (fractions).
    """
    figure, (axes,) = canvas(NARROW, 2.8)
    place = np.arange(len(table))
    axes.plot(place, 100 * table["published"], "D--", color=GREY, mfc="white", label="published")
    axes.plot(place, 100 * table["reproduced"], "o-", color=BLUE, label="this profile")
    axes.set(
        xticks=place,
        xticklabels=table["stage"],
        ylabel="verdicts that are correct (%)",
        ylim=(50, 102),
        xlim=(-0.3, len(table) - 0.7),
    )
    axes.legend(loc="upper left")
    return figure


def pair_agreement(pairs: pd.DataFrame, threshold: float) -> Figure:
    """Draw how the agreement of source-label pairs is spread, and where the filter cuts.

    Parameters
    ----------
    pairs : DataFrame
        ``agreement`` (fraction) per pair.
    threshold : float
        Fraction.
    """
    figure, (axes,) = canvas(NARROW, 2.8)
    bins = np.arange(0, 101, 10)
    counts, _ = np.histogram(100 * pairs["agreement"], bins)
    under = bins[1:] <= 100 * threshold + 1e-9
    for part, colour, hatch in ((under, ORANGE, "///"), (~under, BLUE, "")):
        axes.bar(bins[:-1][part] + 5, counts[part], width=9, color=colour, hatch=hatch, ec="white", lw=0)
    axes.axvline(100 * threshold, color=RED, ls="--", lw=1)
    axes.text(
        100 * threshold, counts.max() * 1.02, f"kept from {threshold:.0%} ", color=RED, ha="right", fontsize=SMALL
    )
    axes.set(
        xlabel="agreement of a source-label pair (%)", ylabel="pairs", xlim=(0, 100), ylim=(0, counts.max() * 1.12)
    )
    return figure


def source_funnel(steps: pd.DataFrame) -> Figure:
    """Draw how many sources each rule leaves, and how many it takes away (paper, Figure 5).

    Parameters
    ----------
    steps : DataFrame
        ``reason``, ``published``, ``here``, ``dropped`` per rule, the first row being all sources; rules that were not
        applied (NA) are left out.
    """
    steps = steps[steps["here"].notna()].reset_index(drop=True)
    here, dropped = steps["here"].to_numpy(float), steps["dropped"].fillna(0).to_numpy(float)
    figure, (axes,) = canvas(NARROW, 0.55 * len(steps) + 1)
    place = np.arange(len(steps))
    axes.barh(place, here, color=BLUE, height=0.6, label="sources left")
    axes.barh(place, dropped, left=here, color=ORANGE, height=0.6, hatch="///", ec="white", lw=0, label="taken away")
    axes.plot(steps["published"], place, "D", color="black", mfc="white", ms=5, ls="none", label="left, published")
    for at, row in enumerate(steps.itertuples()):
        gone = f"  (−{row.dropped:,})" if row.dropped else ""
        end, step = here[at] + dropped[at], here.max() * 0.04
        end = max(end, row.published) if row.published < end + step else end  # clear of the marker
        axes.text(end + step, at, f"{row.here:,}{gone}", va="center", fontsize=SMALL)
    axes.set(yticks=place, xlabel="sources", xlim=(0, max(here.max(), steps["published"].max()) * 1.5))
    axes.set_yticklabels([textwrap.fill(reason, 26) for reason in steps["reason"]], fontsize=SMALL)
    axes.invert_yaxis()
    key(figure, *axes.get_legend_handles_labels())
    return figure


def agreement_intervals(table: pd.DataFrame, name: str, minimum: float) -> Figure:
    """Draw the agreement of each source or label with its interval, the lowest first.

    Parameters
    ----------
    table : DataFrame
        `name`, ``agreement``, ``ci_low``, ``ci_high`` (fractions).
    name : str
        ``source`` or ``label``.
    minimum : float
        The filter's threshold; what is under it is named in the drawing.
    """
    table = table.sort_values(["agreement", name], ignore_index=True)
    figure, (axes,) = canvas(NARROW, 3.4)
    low = table["agreement"] < minimum
    for under, colour, marker, text in ((True, RED, "s", "dropped"), (False, BLUE, "o", "kept")):
        rows = table[low == under]
        axes.vlines(rows.index, 100 * rows["ci_low"], 100 * rows["ci_high"], color=colour, lw=1.2)
        axes.plot(rows.index, 100 * rows["agreement"], marker, color=colour, ms=3.5, label=text)
    said = f"{len(table)} {name}s, from low to high agreement"
    if low.any():
        names = ", ".join(table.loc[low, name].head(12)) + (", ..." if low.sum() > 12 else "")
        said += f"\n{textwrap.fill(f'dropped: {names}', 50)}"
    axes.axhline(100 * minimum, color=GREY, lw=1, ls="--")
    axes.set(
        xticks=[],
        xlabel=said,
        ylabel="verdicts that are correct (%)",
        ylim=(0, 104),
    )
    axes.legend(loc="lower right", fontsize=SMALL)
    return figure


def chance_of_passing(table: pd.DataFrame, minimum: float, reviewed: int) -> Figure:
    """Draw how likely a source-label pair passes the filter, by the true share of right labels.

    Parameters
    ----------
    table : DataFrame
        ``right``, ``passes`` (fractions).
    minimum : float
        The threshold.
    reviewed : int
        Verdicts per pair.
    """
    figure, (axes,) = canvas(NARROW, 2.9)
    axes.plot(100 * table["right"], 100 * table["passes"], color=BLUE, lw=2)
    axes.axvline(100 * minimum, color=RED, lw=1, ls="--")
    axes.text(100 * minimum, 4, f" threshold {minimum:.0%}", color=RED, fontsize=SMALL)
    for share in (minimum - 0.2, minimum, minimum + 0.2):
        chance = 100 * np.interp(share, table["right"], table["passes"])
        if 0 <= share <= 1:
            axes.plot(100 * share, chance, "o", color=BLUE)
            axes.annotate(f"{chance:.0f} %", (100 * share, chance), (-6, 4), textcoords="offset points", ha="right")
    axes.set(
        xlabel="labels of the pair that are right (%)",
        ylabel=f"chance to pass on {reviewed} verdicts (%)",
        xlim=(0, 100),
        ylim=(0, 104),
    )
    return figure


def kept_again(pairs: pd.DataFrame) -> Figure:
    """Draw in how many redrawn reviews each source-label pair is kept.

    Parameters
    ----------
    pairs : DataFrame
        ``kept`` (bool), ``kept_again`` (fraction of draws).
    """
    figure, (axes,) = canvas(NARROW, 2.8)
    bins = np.linspace(0, 100, 21)
    groups = [100 * pairs.loc[pairs["kept"] == kept, "kept_again"] for kept in (True, False)]
    axes.hist(
        groups,
        bins,
        stacked=True,
        color=[BLUE, ORANGE],
        hatch=["", "///"],
        ec="white",
        lw=0,
        label=["kept by the filters", "dropped by them"],
    )
    axes.set(xlabel="redrawn reviews that keep the pair (%)", ylabel="source-taxon pairs", xlim=(0, 100))
    key(figure, *axes.get_legend_handles_labels())
    return figure
