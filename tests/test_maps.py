"""Maps draw what has a position where it lies, name what has none, and keep the Pacific whole."""

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from shapely import box

from reefcore import figures, geography
from reefcore.errors import ReefcoreError


@pytest.fixture
def groups():
    rows = [
        (-17.0, 178.0, 1, 50, "Central Indo-Pacific", "fiji"),
        (20.0, -157.0, 2, 9000, "Eastern Indo-Pacific", "hawaii, maui"),
        (12.0, -69.0, 1, 700, "Tropical Atlantic", "curacao"),
        (np.nan, np.nan, 1, 20, None, "nowhere"),
    ]
    return pd.DataFrame(rows, columns=["latitude", "longitude", "sources", "annotations", "realm", "members"])


def spots(axes):
    """List the scattered points of axes as (x, y, area, marker's number of corners)."""
    return [
        (*path.get_offsets()[0], path.get_sizes()[0], len(path.get_paths()[0].vertices))
        for path in axes.collections
        if hasattr(path, "get_sizes") and len(path.get_offsets()) == 1 and len(path.get_sizes())
    ]


def test_source_map_draws_each_group_once_and_names_what_has_no_position(groups):
    figure = figures.source_map(groups)
    (axes,) = figure.axes
    drawn = sorted(spots(axes))
    assert len(drawn) == 3
    fiji, hawaii, curacao = drawn  # from west to east: the Pacific is not cut
    assert fiji[1] < 0 < curacao[1] < hawaii[1] and fiji[2] < curacao[2] < hawaii[2]
    assert fiji[0] > 0  # east of the middle at 160 E
    assert axes.get_xlabel() == "No usable position, not drawn: nowhere."
    texts = [text.get_text() for legend in (*figure.legends, axes.get_legend()) for text in legend.get_texts()]
    assert texts[:3] == ["Central Indo-Pacific", "Eastern Indo-Pacific", "Tropical Atlantic"]
    assert texts[3:] == ["1,000 annotations", "100 annotations", "10 annotations"]


def test_realms_differ_in_colour_and_marker(groups):
    figure = figures.source_map(groups)
    keys = figure.legends[0].legend_handles
    assert len({key.get_color() for key in keys}) == len({key.get_marker() for key in keys}) == 3
    labels = {text.get_text() for text in figure.axes[0].texts}
    assert {"30°N ", "0° ", "30°S ", "180°", "60°W", "120°E"} <= labels


def test_nothing_is_drawn_across_the_whole_map(groups):
    wide = gpd.GeoSeries([box(-40, -5, 10, 5)], crs=4326)  # lies on the seam at 20 W
    ecoregions = gpd.GeoDataFrame({"ecoregion": ["x"]}, geometry=wide)
    with_regions, without = (figures.source_map(groups, table).axes[0] for table in (ecoregions, None))
    assert len(with_regions.collections) == len(without.collections) + 1
    whole = np.diff(geography.equal_earth([-180, 180], [0, 0])[0])[0]
    outlines = [path for axes in (with_regions,) for kind in axes.collections for path in kind.get_paths()]
    assert max(np.abs(np.diff(path.vertices[:, 0])).max() for path in outlines) < whole / 2


def test_a_map_without_sources_is_refused_and_one_without_positions_is_not(groups):
    with pytest.raises(ReefcoreError, match="there is no source to draw"):
        figures.source_map(groups.head(0))
    assert spots(figures.source_map(groups.tail(1)).axes[0]) == []


def test_ecoregion_bars_are_as_long_as_the_counts():
    columns = ["ecoregion", "sources", "images", "annotations"]
    table = pd.DataFrame([("Hawaii", 18, 300, 7000), ("Floridian", 1, 12, 90)], columns=columns)
    panels = figures.ecoregion_bars(table).axes
    assert [[bar.get_width() for bar in axes.patches] for axes in panels] == [[18, 1], [300, 12], [7000, 90]]
    assert {axes.get_xscale() for axes in panels} == {"log"} and panels[0].yaxis_inverted()
    assert [text.get_text() for text in panels[2].texts] == ["7,000", "90"]


def photos(*places):
    return pd.DataFrame(places, columns=["latitude", "longitude"])


def test_site_panels_part_the_site_from_what_lies_outside():
    table = photos((25.6, 36.8), (25.7, 36.9), (25.61, 36.82), (27.4, 35.4), (None, None), (0, 0))
    region, site, outside = figures.site_panels(table, geography.land()).axes
    assert region.get_xlabel() == "photos without a usable position: 2"
    assert site.get_xlabel() == "photos: 3; 3 positions" and outside.get_xlabel().startswith("photos: 1;")
    assert len(site.collections[-1].get_offsets()) == 3
    assert outside.collections[-1].get_offsets()[0].tolist() == pytest.approx([35.4, 27.4])
    for axes in (region, site, outside):  # the whole panel is where the photos are, and no degree is stretched
        (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
        assert (
            west < east
            and south < north
            and axes.get_aspect() == pytest.approx(1 / np.cos(np.radians((south + north) / 2)))
        )


def test_photos_at_one_position_are_said_to_be():
    figure = figures.site_panels(photos((25.0, 35.3), (25.0, 35.3)), geography.land())
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["a  the region", "b  the site"]
    assert figure.axes[1].get_xlabel() == "photos: 2; one position for all photos"


def test_a_site_on_the_antimeridian_is_whole():
    axes = figures.site_panels(photos((-17, 179.95), (-17.1, -179.9)), geography.land()).axes[1]
    west, east = axes.get_xlim()
    assert east - west < 1
    axes.figure.canvas.draw()
    assert {"180°", "179.9°W"} <= {label.get_text() for label in axes.get_xticklabels()}


def test_the_scale_bar_is_as_long_as_it_says():
    axes = figures.site_panels(photos((60.0, 5.0), (60.2, 5.1)), geography.land()).axes[1]
    bar = axes.lines[-1]
    length = np.diff(bar.get_xdata())[0] * np.pi / 180 * geography.EARTH_KM * np.cos(np.radians(60.1))
    assert axes.texts[-1].get_text() == f"{length:.0f} km"


def test_a_site_without_positions_is_refused():
    with pytest.raises(ReefcoreError, match="no photo of this site has a position"):
        figures.site_panels(photos((None, None)), geography.land())
