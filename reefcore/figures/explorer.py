"""The explorer of a page: its data and its place for the script (``book/_ext/explorer``), and pictures for print."""

from __future__ import annotations

import html
import json
import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore import covariates, explorer, geography
from reefcore.figures.maps import LATITUDES
from reefcore.figures.style import BLUE, GREY, NARROW, SMALL, Shown, canvas

COARSE = 0.25  # degrees: what is left of a coastline on a map as wide as a page
OFF = (
    "In the rendered book, with JavaScript switched on, places and taxa are chosen here. The pictures and tables below "
    "show everything there is to choose from."
)


def _flat(shapes: pd.DataFrame) -> pd.DataFrame:
    """Project positions to the flat map of the paper's Figure 3, in whole kilometres; missing ones stay so."""
    east = (shapes["longitude"] - geography.CENTRE + 180) % 360 - 180
    x, y = geography.equal_earth(east, shapes["latitude"])
    known = shapes["latitude"].notna() & shapes["longitude"].notna()
    return pd.DataFrame({"x": np.where(known, x / 1000, np.nan), "y": np.where(known, y / 1000, np.nan)}).round()


def _coasts() -> list[list[list[int]]]:
    """Give the outlines of the land as rings of projected positions, in whole kilometres."""
    land = geography.recentre(geography.land().simplify(COARSE), geography.CENTRE, *LATITUDES)
    rings = []
    for shape in land.explode(ignore_index=True):
        if shape.geom_type == "Polygon":
            x, y = geography.equal_earth(*np.array(shape.exterior.coords).T)
            ring = np.rint(np.column_stack([x, y]) / 1000).astype(int)
            rings.append(ring[np.r_[True, np.any(np.diff(ring, axis=0), axis=1)]].tolist())
    return rings


def _plain(value):
    """Turn a value of a table into one of JSON."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return None
    return int(value) if float(value).is_integer() else round(float(value), 4)


def payload(tables: dict[str, pd.DataFrame], said: str, notice: str) -> dict:
    """Collect what the explorer's script reads: columns of the tables, names by their number, and coastlines.

    Parameters
    ----------
    tables : dict of DataFrame
        Of `reefcore.explorer.tables`.
    said : str
        Which run the answers are of; empty where there is none.
    notice : str
        The profile's sentence.

    Returns
    -------
    dict
        Of values that JSON has: no point by itself, only counts.
    """
    sources, taxa = tables["sources"], tables["taxa"]
    shown = pd.concat([sources.drop(columns=["latitude", "longitude"]), _flat(sources)], axis=1)
    shown[covariates.RGB] = shown[covariates.RGB].astype(float).round()
    number = {"source": pd.Series(range(len(sources)), sources["source"])}
    number["taxon"] = number["answer"] = pd.Series(range(len(taxa)), taxa["taxon"])

    def columns(table):
        kept = {name: table[name].map(number[name]) if name in number else table[name] for name in table}
        return {name: [_plain(value) for value in values] for name, values in kept.items()}

    return {
        "notice": notice,
        "run": said,
        "sources": {**columns(shown), "source": list(sources["source"])},
        "taxa": {**columns(taxa), "taxon": list(taxa["taxon"])},
        "cells": columns(tables["cells"]),
        "answers": columns(tables["answers"]),
        "land": _coasts(),
    }


def explore(
    tables: dict[str, pd.DataFrame], said: str, notice: str, name: str = "explorer", without: str = ""
) -> Shown:
    """Show the explorer: without its script a sentence, and the data for it.

    Parameters
    ----------
    tables, said, notice : see `payload`
    name : str
        The anchor of the explorer on its page.
    without : str
        The anchor of the first of the pictures and tables that stand for it without the script, and on paper; with it,
        their section is folded.
    """
    # Within a script element only "</" (and "<!--") mean anything to a browser; names can hold either.
    data = json.dumps(payload(tables, said, notice), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    counts = f"{len(tables['sources'])} sources and {len(tables['taxa'])} taxa"
    return Shown(
        f'<div class="reef-explorer screen-only" id="{html.escape(name)}" data-needs="vega" '
        f'data-all="{html.escape(without)}">'
        f'<p class="explorer-off">{html.escape(OFF)}</p>'
        f'<script type="application/json">{data}</script></div>',
        f"[explorer of {counts}]",
    )


def agreement_and_recall(taxa: pd.DataFrame) -> Figure:
    """Draw each taxon by what reviewers and the model make of it, with intervals.

    Parameters
    ----------
    taxa : DataFrame
        Of `reefcore.explorer.by_taxon`; taxa without verdicts or answers are left out.
    """
    known = taxa.dropna(subset=["agreement", "recall"])
    figure, (axes,) = canvas(NARROW, 3.2)
    for across, up in (("agreement", "recall"), ("recall", "agreement")):
        low, high = (100 * known[f"{across}_{side}"] for side in ("low", "high"))
        draw = axes.hlines if across == "agreement" else axes.vlines
        draw(100 * known[up], low, high, color=GREY, alpha=0.35, lw=0.8)
    area = 12 + 250 * np.sqrt(known["points"] / max(1, known["points"].max()))
    axes.scatter(100 * known["agreement"], 100 * known["recall"], s=area, color=BLUE, alpha=0.75, ec="white", zorder=3)
    for row in known.nlargest(4, "recall").itertuples():  # names of all would lie on each other
        at = (100 * row.agreement, 100 * row.recall)
        axes.annotate(row.taxon, at, (6, 5), textcoords="offset points", fontsize=SMALL)
    top = 100 if not len(known) else min(100, 10 * math.ceil(10 * known["recall_high"].max()))
    axes.set(xlabel="review agreement (%)", ylabel="model recall (%)", xlim=(0, 103), ylim=(-2, top + 3))
    return figure


def print_tables(tables: dict[str, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give the sources and the taxa as a page prints them; see `reefcore.explorer.by_source` and `by_taxon`."""
    sources, taxa = explorer.by_source(tables), explorer.by_taxon(tables)
    columns = ["source", "ecoregion", "photos", "points", "taxa", "reviewed", "agreement", "tested", "recall"]
    shown = sources[[*columns, *covariates.RGB]]
    columns = ["taxon", "family", "points", "sources", "reviewed", "agreement", "tested", "recall", "taken_for"]
    return shown, taxa[columns].rename(columns={"taken_for": "taken for"})
