"""The explorer's tables: what each source holds of each taxon, what reviewers said of it, and what a model answered."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore import covariates, geography, review, taxonomy
from reefcore.tables import positions

CELL = ["points", "photos", "reviewed", "correct", "tested", "right"]


def tables(
    annotations: pd.DataFrame,
    reviews: pd.DataFrame | None = None,
    photos: pd.DataFrame | None = None,
    rows: pd.DataFrame | None = None,
) -> dict[str, pd.DataFrame]:
    """Count points, verdicts and answers of each taxon of each source: all that the explorer adds up.

    Parameters
    ----------
    annotations : DataFrame
        The annotations table; points without a label are left out.
    reviews : DataFrame, optional
        The reviews of (some of) these annotations.
    photos : DataFrame, optional
        Of `reefcore.covariates.table`.
    rows : DataFrame, optional
        Predictions of one run for (some of) these annotations.

    Returns
    -------
    dict of DataFrame
        ``sources`` : ``source``, ``ecoregion``, ``province``, ``realm`` (`reefcore.geography.NO_PLACE` where none is
        recorded), ``latitude``, ``longitude``, ``photos`` (with a labelled point), ``red``, ``green``, ``blue`` (median
        of its photos' means, 0 to 255).
        ``taxa`` : ``taxon``, ``rank``, ``family``; those of the annotations and of the answers.
        ``cells`` : a row per ``source`` and ``taxon`` with points: ``points``, ``photos``; ``reviewed``, ``correct``
        (verdicts); ``tested``, ``right`` (points that the run answered, rightly).
        ``answers`` : a row per ``source``, ``taxon`` and ``answer`` with ``points``.
    """
    known = annotations[annotations["label"].notna()].rename(columns={"label": "taxon"})
    places = geography.sources(known)
    places[geography.REGION] = places[geography.REGION].fillna(geography.NO_PLACE)
    colour = pd.DataFrame(columns=["source", *covariates.RGB]) if photos is None else covariates.summary(photos)
    sources = places.rename(columns={"images": "photos"}).merge(colour[["source", *covariates.RGB]], how="left")
    sources = sources[["source", *geography.REGION, "latitude", "longitude", "photos", *covariates.RGB]]
    by = ["source", "taxon"]
    cells = known.groupby(by).agg(points=("image", "size"), photos=("image", "nunique")).reset_index()
    if reviews is not None and len(reviews):
        judged = review.agreement(reviews, known, by)
        cells = cells.merge(judged[[*by, "reviewed", "correct"]], on=by, how="left")
    answers = pd.DataFrame({name: [] for name in (*by, "answer", "points")}).astype({"points": int})
    if rows is not None and len(rows):
        where = positions(rows["annotation_id"], known["annotation_id"])
        names = {"y_true": "taxon", "y_pred": "answer"}
        said = rows[where >= 0].rename(columns=names).assign(source=known["source"].to_numpy()[where[where >= 0]])
        answers = said.groupby([*by, "answer"]).size().rename("points").reset_index()
        score = answers.assign(right=answers["points"].where(answers["taxon"] == answers["answer"], 0))
        score = score.rename(columns={"points": "tested"}).groupby(by)[["tested", "right"]].sum()
        cells = cells.merge(score, on=by, how="outer")
    cells = cells.reindex(columns=[*by, *CELL]).fillna(dict.fromkeys(CELL, 0)).astype(dict.fromkeys(CELL, int))
    names = sorted({*cells["taxon"], *answers["answer"]})
    ranks = known.drop_duplicates("taxon").set_index("taxon")["rank"].reindex(names)
    family = taxonomy.family_of(names).reindex(names)
    family = family.where((family != pd.Series(names, names)) | ranks.eq("family"))
    taxa = pd.DataFrame({"taxon": names, "rank": ranks.to_numpy(), "family": family.to_numpy()})
    return {"sources": sources, "taxa": taxa, "cells": cells, "answers": answers}


def _shares(sums: pd.DataFrame) -> pd.DataFrame:
    """Turn counts into agreement and recall with Wilson's intervals; NaN where nothing was reviewed or tested."""
    for name, part, whole in (("agreement", "correct", "reviewed"), ("recall", "right", "tested")):
        low, high = review.wilson(sums[part], sums[whole])
        some = sums[whole] > 0
        sums[name] = sums[part] / sums[whole].where(some)
        sums[f"{name}_low"], sums[f"{name}_high"] = np.where(some, low, np.nan), np.where(some, high, np.nan)
    return sums


def by_source(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Sum up each source: the explorer's table of sources with nothing chosen.

    Returns
    -------
    DataFrame
        The columns of ``sources``, ``points``, ``taxa`` (how many), ``reviewed``, ``tested``; ``agreement`` (share of
        verdicts that are correct) and ``recall`` (share of the tested points that the run names rightly) with Wilson's
        95 % intervals, ``_low`` and ``_high``; NaN without verdicts or answers.
    """
    cells = tables["cells"]
    sums = cells.groupby("source")[["points", *CELL[2:]]].sum()
    sums.insert(1, "taxa", cells[cells["points"] > 0].groupby("source").size().reindex(sums.index, fill_value=0))
    return tables["sources"].join(_shares(sums), on="source").drop(columns=["correct", "right"])


def by_taxon(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Sum up each taxon: the explorer's table of taxa with nothing chosen.

    Returns
    -------
    DataFrame
        The most points first: ``taxon``, ``rank``, ``family``, ``points``, ``photos``, ``sources`` (how many), and what
        `by_source` gives of verdicts and answers; ``taken_for`` (the most frequent wrong answer) and ``top_share`` (its
        share of the tested points), missing where there is none.
    """
    cells = tables["cells"]
    sums = cells.groupby("taxon")[CELL].sum().reindex(tables["taxa"]["taxon"], fill_value=0)
    sums.insert(2, "sources", cells[cells["points"] > 0].groupby("taxon").size().reindex(sums.index, fill_value=0))
    table = tables["taxa"].join(_shares(sums), on="taxon")
    top = confusions(tables).drop_duplicates("taxon").set_index("taxon")
    table["taken_for"], table["top_share"] = table["taxon"].map(top["answer"]), table["taxon"].map(top["share"])
    order = table.sort_values(["points", "taxon"], ascending=[False, True], ignore_index=True)
    return order.drop(columns=["correct", "right"])


def confusions(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """List which taxon is taken for which, the most frequent first.

    Returns
    -------
    DataFrame
        ``taxon``, ``answer``, ``points``, ``of`` (tested points of that taxon), ``share``.
    """
    pairs = tables["answers"].groupby(["taxon", "answer"])["points"].sum().reset_index()
    pairs["of"] = pairs.groupby("taxon")["points"].transform("sum")
    wrong = pairs[pairs["taxon"] != pairs["answer"]]
    wrong = wrong.assign(share=wrong["points"] / wrong["of"])
    return wrong.sort_values(["points", "taxon", "answer"], ascending=[False, True, True], ignore_index=True)


def beside(own: pd.DataFrame, tables: dict[str, pd.DataFrame], ecoregions: list[str]) -> pd.DataFrame:
    """Put the taxa of one's own annotations beside what the explorer knows of them.

    Parameters
    ----------
    own : DataFrame
        One's own annotations; those without a label are left out.
    tables : dict of DataFrame
        Of `tables`.
    ecoregions : list of str
        Where one's own reef lies.

    Returns
    -------
    DataFrame
        The most points first: ``taxon``, ``your points``, ``points``, ``sources``, ``sources near`` (with the taxon, in
        these ecoregions), ``agreement``, ``recall``, ``taken for``; zero and missing for taxa that are not there.
    """
    counts = own.loc[own["label"].notna(), "label"].astype("str").value_counts()
    table = counts.rename_axis("taxon").rename("your points").reset_index()
    near = tables["sources"].loc[tables["sources"]["ecoregion"].isin(ecoregions), "source"]
    cells = tables["cells"].query("points > 0")
    table["sources near"] = table["taxon"].map(cells[cells["source"].isin(near)]["taxon"].value_counts()).fillna(0)
    known = by_taxon(tables)[["taxon", "points", "sources", "agreement", "recall", "taken_for"]]
    table = table.merge(known.rename(columns={"taken_for": "taken for"}), how="left").fillna(
        {"points": 0, "sources": 0}
    )
    table = table.astype(dict.fromkeys(["points", "sources", "sources near"], int))
    order = ["taxon", "your points", "points", "sources", "sources near", "agreement", "recall", "taken for"]
    return table.sort_values(["your points", "taxon"], ascending=[False, True], ignore_index=True)[order]
