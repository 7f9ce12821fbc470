"""Charts of colour and resolution by source: a table of photos in (`reefcore.covariates`), a Figure out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.errors import ReefcoreError
from reefcore.figures.style import BLUE, GREEN, GREY, NARROW, PALE, RED, SMALL, WIDE, canvas, key, short

CHANNELS = (("red", RED, "o", "-"), ("green", GREEN, "s", "--"), ("blue", BLUE, "^", ":"))
LEVELS = np.arange(0, 256, 2)
SMOOTH = 3.0  # least standard deviation of a density's kernel, in levels: a source of one photo has a peak too


def _by_cast(covariates: pd.DataFrame) -> pd.DataFrame:
    """Give each source's median colour, from red-cast to blue-cast."""
    middle = covariates.groupby("source")[["red", "green", "blue"]].median()
    return middle.loc[(middle["blue"] - middle["red"]).sort_values(kind="stable").index]


def _density(values: np.ndarray) -> np.ndarray:
    """Estimate the density at `LEVELS` by a Gaussian kernel, its width by Scott's rule, scaled to a peak of 1."""
    width = max(values.std() * len(values) ** -0.2, SMOOTH)
    counts, _ = np.histogram(values, bins=np.arange(257) - 0.5)
    density = np.exp(-0.5 * ((LEVELS[:, None] - np.arange(256)) / width) ** 2) @ counts
    return density / density.max()


def source_densities(covariates: pd.DataFrame, sources: list[str] | None = None) -> Figure:
    """Draw how the photos' mean red, green and blue are distributed in each source (paper, Figure 15).

    Parameters
    ----------
    covariates : DataFrame
        ``source``, ``red``, ``green``, ``blue`` (0 to 255), one row per photo.
    sources : list of str, optional
        Which; by default the 24 with most photos.

    Raises
    ------
    ReefcoreError
        Where one of `sources` has no photo.
    """
    counts = covariates["source"].value_counts()
    chosen = counts.index[:24] if sources is None else sources
    if absent := [name for name in chosen if name not in counts.index]:
        raise ReefcoreError(f"the source {absent[0]!r} has no photo", do="choose from the sources of the table")
    order = _by_cast(covariates[covariates["source"].isin(list(chosen))]).index
    figure, (axes,) = canvas(NARROW, 0.34 * len(order) + 1)
    for place, source in enumerate(order):
        photos = covariates[covariates["source"] == source]
        for name, colour, _, line in CHANNELS:
            density = _density(photos[name].to_numpy())
            shape = np.where(density > 0.01, place - 0.85 * density, np.nan)  # lines along the ground would blur it
            axes.fill_between(LEVELS, place, shape, color=colour, alpha=0.12, lw=0)
            axes.plot(LEVELS, shape, line, color=colour, lw=1.2, label=name if place == 0 else None)
    axes.hlines(range(len(order)), 0, 255, color=PALE, lw=0.6, zorder=0)
    axes.set(
        xlim=(0, 255), ylim=(len(order) - 0.8, -1.1), xlabel="mean value of a photo (0-255)", yticks=range(len(order))
    )
    axes.set_yticklabels([f"{short(source, 20)} ({counts[source]:,})" for source in order], fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    key(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure


def source_colours(covariates: pd.DataFrame) -> Figure:
    """Draw the mean red, green and blue of the photos of all sources in one chart (paper, Figure 15).

    Parameters
    ----------
    covariates : DataFrame
        ``source``, ``red``, ``green``, ``blue`` (0 to 255), one row per photo.
    """
    middle = _by_cast(covariates)
    figure, (axes,) = canvas(WIDE, 3.2)
    place = covariates["source"].map({name: i for i, name in enumerate(middle.index)})
    for name, colour, marker, _ in CHANNELS:
        axes.scatter(place, covariates[name], s=3, color=colour, alpha=0.15, lw=0, rasterized=True)
        axes.plot(range(len(middle)), middle[name], marker, ms=4, color=colour, label=f"{name} (median)")
    axes.set(
        xlabel=f"{len(middle)} sources, from red-cast to blue-cast",
        ylabel="mean value of a photo (0-255)",
        xticks=[],
        ylim=(0, 255),
    )
    key(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure


def resolution_scatter(covariates: pd.DataFrame) -> Figure:
    """Draw the resolution of the photos of each source, and the median of all photos (paper, Figure 16).

    Parameters
    ----------
    covariates : DataFrame
        ``source``, ``megapixels``, one row per photo; photos of a source within 2 % of each other share a dot, whose
        area grows with their share of the source.
    """
    middle = covariates.groupby("source")["megapixels"].median().sort_values(kind="stable")
    step = np.exp(np.round(np.log(covariates["megapixels"]) / np.log(1.02)) * np.log(1.02))
    dots = covariates.groupby(["source", step.rename("step")])["megapixels"].agg(["median", "size"]).reset_index()
    share = dots["size"] / dots.groupby("source")["size"].transform("sum")
    figure, (axes,) = canvas(NARROW, max(2.5, 0.15 * len(middle) + 1))
    place = dots["source"].map({name: i for i, name in enumerate(middle.index)})
    axes.hlines(range(len(middle)), middle.min() / 100, middle.max() * 100, color=PALE, lw=0.6, zorder=0)
    axes.scatter(dots["median"], place, s=6 + 40 * share, color=BLUE, alpha=0.6, lw=0)
    whole = covariates["megapixels"].median()
    axes.axvline(whole, color=RED, lw=1, ls="--")
    low, high = covariates["megapixels"].min(), covariates["megapixels"].max()
    side = "right" if whole**2 > low * high else "left"
    text = f" median of all photos: {whole:.3g} "
    axes.text(whole, len(middle) - 0.3, text, color=RED, fontsize=SMALL, va="bottom", ha=side)
    axes.set(xscale="log", xlabel="megapixels (log scale)", xlim=(low / 1.3, high * 1.3), yticks=range(len(middle)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticklabels([short(name) for name in middle.index], fontsize=SMALL)
    axes.set_ylim(-0.8, len(middle) + 0.8)
    axes.tick_params(axis="y", length=0)
    return figure


def colour_neighbours(distances: pd.DataFrame) -> Figure:
    """Draw how far each source is from all others in colour, and name its nearest.

    Parameters
    ----------
    distances : DataFrame
        Square, in levels of 255; see `reefcore.covariates.colour_distance`.

    Raises
    ------
    ReefcoreError
        Where there are fewer than two sources.
    """
    if len(distances) < 2:
        raise ReefcoreError("one source has no neighbour to be compared with", do="give at least two sources")
    values = distances.to_numpy(copy=True)
    np.fill_diagonal(values, np.nan)
    nearest = np.nanargmin(values, axis=1)
    order = np.argsort(np.nanmin(values, axis=1), kind="stable")[::-1]
    figure, (axes,) = canvas(NARROW, max(2.5, 0.15 * len(order) + 1))
    place = np.arange(len(order))
    every = np.repeat(place[:, None], len(order), axis=1)
    axes.plot(
        values[order].ravel(),
        every.ravel(),
        "o",
        ms=2.5,
        color=GREY,
        alpha=0.35,
        mew=0,
        rasterized=True,
        label="each other source",
    )
    axes.plot(values[order, nearest[order]], place, "D", ms=4, color=BLUE, label="the nearest, named right")
    axes.set(xlabel="colour distance (levels of 255)", yticks=range(len(order)))
    axes.set(xlim=(0, None), ylim=(-0.8, len(order) - 0.2))
    axes.set_yticklabels([short(name, 20) for name in distances.index[order]], fontsize=SMALL)
    names = axes.secondary_yaxis("right")
    names.set_yticks(place, [short(name, 20) for name in distances.index[nearest[order]]], fontsize=SMALL, color=BLUE)
    key(figure, *axes.get_legend_handles_labels())
    for side in (axes, names):
        side.tick_params(axis="y", length=0)
    names.spines["right"].set_visible(False)
    return figure
