"""Maps of a survey's tracks, and how much observers repeat themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from reefcore import geography
from reefcore.errors import ReefcoreError
from reefcore.figures.maps import panel, round_length
from reefcore.figures.style import BLUE, GREY, LINE, MARKERS, NARROW, ORANGE, PALE, SMALL, WIDE, canvas, key
from reefcore.substrate.tracks import local


def track_map(points: pd.DataFrame, label: str = "share of Coral patches", mark: str = "deployment") -> Figure:
    """Draw the track of each sequence in metres, coloured by coral, with its deployments; north is up.

    Parameters
    ----------
    points : DataFrame
        From `reefcore.substrate.tracks.deployment`, with ``coral`` (share of Coral patches, 0 to 1). One panel per
        sequence, all at the scale of the longest. Frames without a position are counted below the panel.
    label, mark : str
        What the colour and the triangles stand for.

    Raises
    ------
    ReefcoreError
        Where no frame has a position.
    """
    if points["latitude"].isna().all():
        raise ReefcoreError("no frame has a position to draw", do="join the frames to a track, or give their positions")
    groups = [(name, here[here["latitude"].notna()], here) for name, here in points.groupby("sequence")]
    places = [local(here) for _, here, _ in groups]
    middles = [(place.max(0) + place.min(0)) / 2 if len(place) else np.zeros(2) for place in places]
    half = 1.1 * max([np.abs(p - m).max() for p, m in zip(places, middles, strict=True) if len(p)] + [0.5])
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    figure, panels = canvas(max(NARROW, 1.6 * columns + 0.8), 1.75 * rows + 0.7, columns, rows)
    for axes in panels[len(groups) :]:
        axes.remove()
    most = max(points["coral"].max(), 0.05)
    drawn = None
    for axes, (name, here, every), place, middle in zip(panels, groups, places, middles, strict=False):
        place = place - middle
        coral = here["coral"].to_numpy(float)
        if len(place) > 1:
            line = LineCollection(np.stack([place[:-1], place[1:]], axis=1), cmap="viridis_r", lw=5, capstyle="round")
            line.set(array=(coral[:-1] + coral[1:]) / 2, clim=(0, most), zorder=1)
            drawn = axes.add_collection(line)
            axes.plot(*place[0], MARKERS[0], ms=7, mfc="white", mec=GREY, zorder=2)
        released = here["deploy"].to_numpy(bool)
        axes.plot(*place[released].T, "v", ms=5, mfc=ORANGE, mec="black", mew=0.5, ls="none", zorder=3)
        axes.set(xlim=(-half, half), ylim=(-1.3 * half, half), aspect="equal", xticks=[], yticks=[])
        axes.set_title(name)
        axes.spines[:].set(visible=True, color=LINE)
        lost = len(every) - len(here)
        axes.set_xlabel(f"without a position: {lost}" if lost else "", fontsize=SMALL, color=GREY)
        length, x, y = round_length(half * 0.7), -0.92 * half, -1.22 * half  # below the tracks
        axes.plot([x, x + length], [y, y], color="black", lw=2, solid_capstyle="butt", zorder=4)
        axes.annotate(f"{length:g} m", (x, y), (0, 4), textcoords="offset points", fontsize=SMALL, zorder=4)
    arrow = {"arrowstyle": "-|>", "color": "black"}
    panels[0].annotate("", (0.94, 0.14), (0.94, 0.02), xycoords="axes fraction", arrowprops=arrow)
    panels[0].text(0.88, 0.03, "N", ha="center", fontsize=SMALL, transform=panels[0].transAxes)
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=panels[: len(groups)], shrink=0.8, aspect=30, pad=0.02)
        bar.set_label(label)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    keys = [
        Line2D([], [], ls="", marker="v", ms=6, mfc=ORANGE, mec="black", label=mark),
        Line2D([], [], ls="", marker=MARKERS[0], ms=7, mfc="white", mec=GREY, label="start"),
    ]
    key(figure, keys, columns=2)
    return figure


def survey_sites(points: pd.DataFrame, land, margin: float = 3.0) -> Figure:
    """Draw where the sites of a survey lie: in their region, with the coast, and close up.

    Parameters
    ----------
    points : DataFrame
        ``site``, ``latitude``, ``longitude``; frames without a position are left out. A site is drawn at the mean.
    land : GeoSeries
        From `reefcore.geography.land`.
    margin : float
        Degrees of the region around the sites.
    """
    located = points[points["latitude"].notna()]
    if located.empty:
        raise ReefcoreError("no frame has a position to draw", do="join the frames to a track, or give their positions")
    north, east = np.array([geography.mean_position(here) for _, here in located.groupby("site")]).T
    _, centre = geography.mean_position(located)
    coast = geography.recentre(land, centre).translate(centre)
    sites = pd.DataFrame({"east": centre + (east - centre + 180) % 360 - 180, "latitude": north})
    names = [name for name, _ in located.groupby("site")]
    figure, (region,) = canvas(WIDE, 3.2)
    grid = GridSpec(1, 2, figure=figure)
    region.set_subplotspec(grid[0])
    near = figure.add_subplot(grid[1])
    panel(region, sites, margin, coast)
    frame = panel(near, sites, 0.03, coast)
    region.plot(*frame, color=BLUE, lw=1.2, zorder=3)
    for axes, title in ((region, "a  the region"), (near, "b  the sites")):
        axes.plot(*sites.to_numpy().T, MARKERS[0], color=ORANGE, mec="black", ms=5, zorder=3)
        axes.set_title(title, loc="left")
        axes.set_xlabel("")  # geopandas writes one
    # Names stand in a column beside the map, in the order of latitudes, at least a line apart.
    south, top = near.get_ylim()
    heights = (sites["latitude"] - south) / (top - south)
    gap, at = min(0.08, 1 / len(sites)), -1.0
    for place in np.argsort(heights.to_numpy(), kind="stable"):
        at = min(max(heights[place], at + gap), 1 - gap * (heights > heights[place]).sum())
        near.annotate(
            names[place], tuple(sites.iloc[place]), (1.05, at), textcoords="axes fraction", fontsize=SMALL, va="center",
            arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.6},
        )  # fmt: skip
    return figure


def repeats(table: pd.DataFrame) -> Figure:
    """Draw how often observers gave the same answer again, beside what the frames explain.

    Parameters
    ----------
    table : DataFrame
        From `reefcore.substrate.observers.stickiness`.
    """
    figure, (axes,) = canvas(NARROW, 0.45 * len(table) + 1.3)
    place = np.arange(len(table))
    axes.hlines(
        place, 100 * table["low"], 100 * table["high"], color=GREY, lw=5, alpha=0.4, label="shuffled errors, 95 %"
    )
    axes.plot(100 * table["expert"], place, MARKERS[3], color=GREY, mfc="white", label="the expert, same order")
    axes.plot(100 * table["repeats"], place, MARKERS[0], color=BLUE, label="the observer")
    axes.set(yticks=place, yticklabels=table["observer"] + ", " + table["order"], ylim=(len(table) - 0.4, -0.6))
    axes.set_xlabel("answers that repeat the one before (%)")
    axes.grid(axis="y", color=PALE, lw=0.8)
    key(figure, *axes.get_legend_handles_labels(), columns=3)
    return figure
