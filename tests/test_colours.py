"""Figures of colour and resolution: what is drawn is what the table says, for few sources and many."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from reefcore import figures
from reefcore.errors import ReefcoreError


def photos(sources=3, each=4):
    """Make colours and resolutions of some sources, each bluer and larger than the one before."""
    k = np.repeat(np.arange(sources), each)
    shift = np.tile(np.arange(each), sources) - (each - 1) / 2
    name = [f"source {i:02d}" for i in k]
    red, blue = 200 - 2.0 * k + shift, 60 + 2.0 * k + shift
    return pd.DataFrame({"source": name, "red": red, "green": 120.0, "blue": blue, "megapixels": 1.0 + k})


def labels(ticks):
    return [label.get_text() for label in ticks]


def test_densities_peak_at_the_colours_and_are_ordered_by_cast():
    figure = figures.source_densities(photos())
    axes = figure.axes[0]
    assert labels(axes.get_yticklabels()) == ["source 00 (4)", "source 01 (4)", "source 02 (4)"]
    for source in range(3):
        peaks = [line.get_xdata()[np.nanargmin(line.get_ydata())] for line in axes.lines[3 * source : 3 * source + 3]]
        assert peaks == pytest.approx([200 - 2 * source, 120, 60 + 2 * source], abs=1)


def test_densities_take_the_sources_with_most_photos_or_those_asked_for():
    table = photos(sources=30)
    table = pd.concat([table, table[table["source"] == "source 29"]])
    assert "source 29 (8)" in labels(figures.source_densities(table).axes[0].get_yticklabels())
    assert len(figures.source_densities(table).axes[0].get_yticks()) == 24
    assert len(figures.source_densities(table, [*table["source"].unique()]).axes[0].get_yticks()) == 30
    chosen = figures.source_densities(table.drop_duplicates("source"), ["source 07"]).axes[0]
    assert labels(chosen.get_yticklabels()) == ["source 07 (1)"]  # one photo has a peak, too
    with pytest.raises(ReefcoreError, match="'elsewhere' has no photo"):
        figures.source_densities(table, ["elsewhere"])


def test_resolution_has_a_dot_per_size_and_the_median_of_all():
    table = photos()
    table.loc[0, "megapixels"] = 0.1
    axes = figures.resolution_scatter(table).axes[0]
    dots = axes.collections[1].get_offsets().tolist()
    assert sorted(map(tuple, dots)) == [(0.1, 0), (1, 0), (2, 1), (3, 2)]
    assert axes.lines[0].get_xdata() == [2, 2] and "median of all photos: 2" in axes.texts[0].get_text()
    assert labels(axes.get_yticklabels()) == ["source 00", "source 01", "source 02"]


def test_neighbours_are_named_and_the_loneliest_is_lowest():
    names = ["a", "b", "c"]
    distances = pd.DataFrame([[0, 2, 9], [2, 0, 5], [9, 5, 0]], index=names, columns=names, dtype=float)
    axes = figures.colour_neighbours(distances).axes[0]
    assert labels(axes.get_yticklabels()) == ["c", "b", "a"]
    assert labels(axes.child_axes[0].get_yticklabels()) == ["b", "a", "b"]
    assert axes.lines[-1].get_xdata().tolist() == [5, 2, 2]
    assert (np.diag(distances) == 0).all()  # the table is left as it was
    with pytest.raises(ReefcoreError, match="no neighbour"):
        figures.colour_neighbours(distances.iloc[:1, :1])


@pytest.mark.parametrize("sources", [2, 76])
def test_names_of_sources_do_not_overlap(sources):
    table = photos(sources)
    distances = pd.DataFrame(np.abs(np.subtract.outer(np.arange(sources), np.arange(sources))) + 0.0)
    for figure in (
        figures.source_densities(table, list(table["source"].unique())),
        figures.resolution_scatter(table),
        figures.colour_neighbours(distances),
    ):
        figure.draw_without_rendering()
        boxes = sorted((label.get_window_extent() for label in figure.axes[0].get_yticklabels()), key=lambda b: b.y0)
        assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
