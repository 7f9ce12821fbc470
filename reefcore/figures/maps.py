"""Maps: where sources and photos lie, and how much each ecoregion holds."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from reefcore import geography
from reefcore.errors import ReefcoreError
from reefcore.figures.style import (
    BLUE,
    COAST,
    GREEN,
    GREY,
    LAND,
    LINE,
    MARKERS,
    ORANGE,
    PINK,
    RED,
    SMALL,
    WATER,
    WIDE,
    canvas,
    key,
)

COLOURS = (BLUE, ORANGE, GREEN, RED, PINK, "black")  # all of Okabe and Ito's
LATITUDES = (-42, 42)  # of the world map: no reef of hard corals lies beyond


def _degrees(value: float, letters: str) -> str:
    """Write a latitude (letters "NS") or longitude ("EW") as people do."""
    value = round(float(value), 6)
    return f"{abs(value):g}°" + ("" if value == 0 or abs(value) == 180 else letters[value < 0])


def _area(annotations, most: float):
    """Give the area of a circle in square points: it grows with the square root, or the smallest would vanish."""
    return 14 + 330 * np.sqrt(np.asarray(annotations, float) / most)


def source_map(groups: pd.DataFrame, ecoregions=None) -> Figure:
    """Draw where the sources lie on a map of the world's reefs (paper, Figure 3; Equal Earth projection).

    Parameters
    ----------
    groups : DataFrame
        From `reefcore.geography.group`. A row without a position is not drawn: a line below names its sources.
    ecoregions : GeoDataFrame, optional
        From `reefcore.geography.read_meow`, drawn as outlines.

    Raises
    ------
    ReefcoreError
        Where there is no source at all.
    """
    if groups.empty:
        raise ReefcoreError("there is no source to draw", do="check the annotations")
    figure, (axes,) = canvas(8, 3.7)
    centre, (south, north) = geography.CENTRE, LATITUDES

    def shapes(table, **look):
        flat = (
            geography.recentre(table, centre, south, north)
            .segmentize(2)
            .transform(lambda xy: np.column_stack(geography.equal_earth(*xy.T)))
        )
        flat.plot(ax=axes, **look)

    _graticule(axes, centre)
    if ecoregions is not None:
        shapes(ecoregions.geometry.simplify(0.1), facecolor="none", edgecolor=COAST, lw=0.6, zorder=0.8)
    shapes(geography.land(), facecolor=LAND, edgecolor="white", lw=0.3, zorder=1)
    placed = groups[groups["latitude"].notna()].sort_values("annotations", ascending=False)
    x, y = geography.equal_earth((placed["longitude"] - centre + 180) % 360 - 180, placed["latitude"])
    most = max(1, groups["annotations"].max())
    realms = placed["realm"].fillna("no realm recorded")
    each = zip(sorted(realms.unique()), cycle((*MARKERS, "v", "P", "X")), cycle(COLOURS))
    looks = {realm: {"marker": marker, "color": colour} for realm, marker, colour in each}
    keys = [Line2D([], [], ls="", ms=7, label=realm, **look) for realm, look in looks.items()]
    # One by one, so that the small ones lie on the large ones.
    for place, area in enumerate(_area(placed["annotations"], most)):
        axes.scatter(x[place], y[place], s=area, alpha=0.75, lw=0.6, ec="white", zorder=3, **looks[realms.iloc[place]])
    sizes = []
    # Round numbers of annotations, a decade apart, for the sizes.
    for power in range(int(np.log10(most)), max(-1, int(np.log10(most)) - 3), -1):
        size = np.sqrt(_area(10**power, most))
        sizes.append(
            Line2D([], [], ls="", marker="o", ms=size, mfc="none", mec=GREY, label=f"{10**power:,} annotations")
        )
    key(figure, keys, columns=6)
    axes.legend(handles=sizes, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=3, fontsize=SMALL)
    lost = groups.loc[groups["latitude"].isna(), "members"]
    note = "No usable position, not drawn: " + "; ".join(lost) + "." if len(lost) else ""
    axes.set_xlabel(note, fontsize=SMALL, color=GREY, wrap=True)
    axes.set_ylabel("")  # geopandas writes one
    return figure


def _graticule(axes: Axes, centre: float) -> None:
    """Draw meridians and parallels with their degrees, and the frame of the map."""
    south, north = LATITUDES
    every = np.linspace(-180, 180, 181)
    for latitude in (-30, -15, 0, 15, 30):
        x, y = geography.equal_earth(every, np.full_like(every, latitude))
        axes.plot(x, y, color=LINE, lw=0.5, zorder=0.5)
        axes.text(x[0], y[0], _degrees(latitude, "NS") + " ", ha="right", va="center", fontsize=SMALL, color=GREY)
    up = np.linspace(south, north, 43)
    for longitude in range(0, 360, 60):
        east = (longitude - centre + 180) % 360 - 180
        x, y = geography.equal_earth(np.full_like(up, east), up)
        axes.plot(x, y, color=LINE, lw=0.5, zorder=0.5)
        name = _degrees((longitude + 180) % 360 - 180, "EW")
        axes.annotate(
            name, (x[0], y[0]), (0, -3), textcoords="offset points", ha="center", va="top", fontsize=SMALL, color=GREY
        )
    corner = [np.full_like(up, -180), every, np.full_like(up, 180), every[::-1]]
    side = [up, np.full_like(every, north), up[::-1], np.full_like(every, south)]
    axes.plot(*geography.equal_earth(np.concatenate(corner), np.concatenate(side)), color=GREY, lw=0.8, zorder=2)
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
    axes.margins(0.01)
    axes.xaxis.labelpad = 42  # the degrees and the sizes stand between


def ecoregion_bars(table: pd.DataFrame) -> Figure:
    """Draw sources, images and annotations per ecoregion on log scales (paper, Figure 7).

    Parameters
    ----------
    table : DataFrame
        From `reefcore.geography.by_ecoregion`; the first row is drawn on top.
    """
    figure, panels = canvas(WIDE, max(2.5, 0.22 * len(table) + 0.8), columns=3)
    for axes, name, colour in zip(panels, ("sources", "images", "annotations"), (ORANGE, GREEN, BLUE), strict=True):
        axes.barh(table["ecoregion"], table[name], color=colour, height=0.7)
        axes.set(xscale="log", title=name, xlim=(0.5, table[name].max() * 5))
        for place, value in enumerate(table[name]):
            axes.text(value * 1.1, place, f"{value:,}", va="center", fontsize=SMALL, color=GREY)
    panels[0].tick_params(axis="y", labelsize=SMALL)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
    panels[0].set_ylim(len(table) - 0.4, -0.6)
    panels[1].set_xlabel("number (log scale)")
    return figure


def site_panels(points: pd.DataFrame, land, degrees: float = 0.5) -> Figure:
    """Draw where the photos of one site come from: in the region, at the site, and outside of it (paper, Figure 8).

    Parameters
    ----------
    points : DataFrame
        ``latitude``, ``longitude`` of each photo; those without a usable one are counted below the map.
    land : GeoSeries
        From `reefcore.geography.land`, or a finer one.
    degrees : float
        Photos joined by steps of at most this belong together (see `reefcore.geography.cluster`); the largest group is
        the site, the others lie outside.

    Raises
    ------
    ReefcoreError
        Where no photo has a position.
    """
    checked = geography.check_positions(points)
    photos = checked[checked["problem"] == ""]
    if photos.empty:
        raise ReefcoreError("no photo of this site has a position", do="give latitude and longitude")
    number = geography.cluster(photos, degrees)
    at_site = number == np.bincount(number).argmax()
    _, centre = geography.mean_position(photos[at_site])
    photos = photos.assign(east=centre + (photos["longitude"] - centre + 180) % 360 - 180)  # whole at 180 degrees too
    site, outside = photos[at_site], photos[~at_site]
    coast = geography.recentre(land, centre).translate(centre)
    region = photos[["east", "latitude"]]
    parts = [("b  the site", site, RED, "o"), ("c  outside of it", outside, BLUE, "s")][: 1 + bool(len(outside))]
    figure, (first,) = canvas(2.5 * (1 + len(parts)), 3.0)
    grid = GridSpec(1, 1 + len(parts), figure=figure)
    first.set_subplotspec(grid[0])
    panel(first, region, 8.0, coast)
    first.set_title("a  the region", loc="left")
    for column, (title, here, colour, marker) in enumerate(parts, 1):
        axes = figure.add_subplot(grid[column])
        frame = panel(axes, here[["east", "latitude"]], 0.05, coast)
        # Darker where more photos lie upon each other.
        axes.scatter(here["east"], here["latitude"], s=22, marker=marker, color=colour, alpha=0.5, lw=0, zorder=3)
        axes.set_title(title, loc="left")
        spots = len(here.drop_duplicates(["latitude", "longitude"]))
        same = "one position for all photos" if spots == 1 else f"{spots:,} positions"
        axes.set_xlabel(f"photos: {len(here):,}; {same}")
        first.plot(*frame, color=colour, lw=1.2, zorder=3)
        first.plot(here["east"].mean(), here["latitude"].mean(), marker, color=colour, ms=5, zorder=3)
        first.annotate(
            title[0], (here["east"].mean(), here["latitude"].mean()), (6, 4), textcoords="offset points", fontsize=10
        )
    lost = len(checked) - len(photos)
    first.set_xlabel(f"photos without a usable position: {lost:,}" if lost else "")
    return figure


def round_length(room: float) -> float:
    """Choose the length of a scale bar: the largest of 1, 2 or 5 times a power of ten that fits into `room`."""
    power = 10.0 ** np.floor(np.log10(room))
    return max(step * power for step in (1, 2, 5) if step * power <= room)


def panel(axes: Axes, places: pd.DataFrame, margin: float, land) -> tuple[list, list]:
    """Frame positions with a margin (degrees), draw land, degrees and a scale bar; return the frame as a line."""
    from shapely import box

    (west, south), (east, north) = places.min(), places.max()
    stretch = np.cos(np.radians((south + north) / 2))  # of a degree of longitude
    half = max((east - west) * stretch, north - south) / 2 + margin
    middle, centre_north = (west + east) / 2, (south + north) / 2
    west, east = middle - half / stretch, middle + half / stretch
    south, north = centre_north - half, centre_north + half
    land = land.intersection(box(west, south, east, north))
    land = land[~land.is_empty]
    if len(land):
        land.plot(ax=axes, facecolor=LAND, edgecolor="white", lw=0.3, zorder=1)
    axes.set(xlim=(west, east), ylim=(south, north), ylabel="", aspect=1 / stretch, facecolor=WATER)
    axes.spines[:].set_visible(True)
    axes.locator_params(nbins=3)
    axes.xaxis.set_major_formatter(lambda value, _: _degrees((value + 180) % 360 - 180, "EW"))
    axes.yaxis.set_major_formatter(lambda value, _: _degrees(value, "NS"))
    axes.tick_params(labelsize=SMALL)
    degree = np.pi / 180 * geography.EARTH_KM
    length = round_length(half * degree / 2)
    x, y = west + 0.06 * (east - west), south + 0.06 * (north - south)
    axes.plot([x, x + length / degree / stretch], [y, y], color="black", lw=2, solid_capstyle="butt", zorder=4)
    axes.annotate(f"{length:g} km", (x, y), (0, 4), textcoords="offset points", fontsize=SMALL, zorder=4)
    return [west, east, east, west, west], [south, south, north, north, south]
