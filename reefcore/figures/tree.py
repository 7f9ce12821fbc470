"""The taxa of a data set as a tree: order, families, genera (paper, Figure 1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.errors import ReefcoreError
from reefcore.figures.style import BLUE, GREY, LINE, NARROW, ORANGE, SMALL, canvas

GAP = 0.35  # between families, in rows
SPINE, FAMILY, FORK, LEAF = 0.06, 0.12, 0.52, 0.58  # across the figure, as fractions


def taxon_tree(table: pd.DataFrame) -> Figure:
    """Draw the families of the hard corals and their genera, with the number of annotations of each.

    Parameters
    ----------
    table : DataFrame
        One row per taxon: ``taxon``, ``family``, ``annotations`` (at least 1). A taxon that is its family (Fungiidae)
        has a leaf of that name.

    Raises
    ------
    ReefcoreError
        Where there is no taxon, or one without a family.
    """
    if table.empty or table["family"].isna().any():
        orphans = ", ".join(table.loc[table["family"].isna(), "taxon"])
        raise ReefcoreError(
            f"no tree can be drawn of {orphans or 'no taxa'}", do="give each taxon a row with its family and count"
        )
    weight = table.groupby("family")["annotations"].transform("sum")
    table = table.assign(weight=weight).sort_values(
        ["weight", "family", "annotations", "taxon"], ascending=[False, True, False, True], ignore_index=True
    )
    row = np.arange(len(table)) + GAP * (table["family"] != table["family"].shift()).cumsum().to_numpy()
    figure, (axes,) = canvas(NARROW, 0.19 * row[-1] + 1.2)
    line = {"color": LINE, "lw": 0.9, "zorder": 0}
    middles = []
    for family, leaves in table.groupby("family", sort=False):
        rows = row[leaves.index]
        middle = rows.mean()
        middles.append(middle)
        axes.hlines(middle, SPINE, FORK, **line)
        axes.vlines(FORK, rows[0], rows[-1], **line)
        axes.hlines(rows, FORK, LEAF, **line)
        total = leaves["annotations"].sum()
        name = f"{family}  {total:,}"
        axes.text(FAMILY, middle, name, va="center", fontsize=SMALL, bbox={"fc": "white", "ec": "none", "pad": 1.5})
    axes.vlines(SPINE, min(middles), max(middles), **line)
    axes.scatter(
        np.full(len(table), LEAF), row, s=4 + 90 * table["annotations"] / table["annotations"].max(), color=BLUE, lw=0
    )
    for place, leaf in zip(row, table.itertuples(), strict=True):
        style = "normal" if leaf.taxon == leaf.family else "italic"
        axes.text(LEAF + 0.025, place, leaf.taxon, va="center", fontsize=SMALL, style=style)
        axes.text(LEAF + 0.36, place, f"{leaf.annotations:,}", va="center", ha="right", fontsize=SMALL, color=GREY)
    axes.plot(SPINE, (min(middles) + max(middles)) / 2, "s", color=ORANGE, ms=6)
    total = f"Scleractinia  {table['annotations'].sum():,}"
    axes.text(
        SPINE - 0.02, (min(middles) + max(middles)) / 2, total, rotation=90, va="center", ha="right", fontsize=SMALL
    )
    axes.set(xlim=(0, 1), ylim=(row[-1] + 0.6, row[0] - 0.6))
    axes.axis("off")
    return figure
