"""Published beside reproduced: counts of a data set, and never one in place of the other."""

import numpy as np
import pytest

from reefcore import comparison, curation


def test_a_data_set_is_counted_with_its_site_but_for_sources_and_places(smoke):
    tables = [smoke.table(name) for name in ("annotations", "sources", "images", "reviews")]
    site = smoke.profile.site
    table = comparison.data_set(*tables, site).set_index("quantity")
    assert table.at["images", "here"] == len(tables[2])
    assert table.at["hard-coral annotations", "here"] == len(curation.hard_corals(tables[0]))
    assert table.at["sources", "here"] == len(tables[1]) - 1 and table.at["sources", "published"] == 76
    assert table.at["genera and families", "published"] == 44
    assert table.at["hard-coral annotations", "here"] >= table.at["of a genus or family", "here"] > 0
    assert np.allclose(table["difference"], table["here"] - table["published"])


def test_a_figure_may_follow_from_published_ones():
    table = comparison.with_paper({"share": (100 * 0.5, 40), "sources": ("dataset/sources", 70)})
    assert table["published"].tolist() == [50, 76] and table["difference"].tolist() == [-10, -6]
    with pytest.raises(Exception, match="no figure of the text is called nothing"):
        comparison.with_paper({"x": ("nothing", 1)})


def test_point_layouts_leave_the_site_out(smoke):
    table = comparison.point_layouts(smoke.table("annotations"), smoke.table("sources"), smoke.profile.site)
    counted = table[table["quantity"].str.startswith("sources with")]
    assert counted["here"].sum() == len(smoke.table("sources")) - 1
    assert table.set_index("quantity").at["points per image, mean", "published"] == 40
