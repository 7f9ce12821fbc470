"""From all annotated points to the hard-coral annotations worth a benchmark (paper sections 3.2 and A.2.1)."""

from __future__ import annotations

import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.tables import IDENTITY

#: The paper's label criteria (section 3.2).
MIN_ANNOTATIONS, MIN_SOURCES, MIN_PER_SOURCE = 100, 3, 10
GENUS_OR_FAMILY = ("Fungiidae",)  # kept at family level: its genera are hard to tell apart in photos


def hard_corals(annotations: pd.DataFrame) -> pd.DataFrame:
    """Select the points labelled as hard coral (broad category "Hard coral" or "Hard corals"), of any rank."""
    category = annotations["broad_category"].astype("str").str.casefold()
    return annotations[category.isin(["hard coral", "hard corals"])]


def drop_duplicates(annotations: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Drop duplicate annotations: same image file name, label and coordinates (A.2.1), across sources.

    The first in the order of source names stays, so that the order of rows does not matter.

    Returns
    -------
    kept, dropped : DataFrame
        `dropped` has the column ``twin``: the annotation_id that stayed. Rows of `kept` are in the order of
        `annotations`.
    """
    by = ["image", "row", "column", "label_raw"]
    ordered = annotations.sort_values(IDENTITY, kind="stable")
    twin = ordered.groupby(by, sort=False, dropna=False)["annotation_id"].transform("first")
    again = ordered.duplicated(by).reindex(annotations.index)
    return annotations[~again], annotations[again].assign(twin=twin.reindex(annotations.index)[again])


def label_criteria(
    annotations: pd.DataFrame,
    min_annotations: int = MIN_ANNOTATIONS,
    min_sources: int = MIN_SOURCES,
    min_per_source: int = MIN_PER_SOURCE,
) -> pd.DataFrame:
    """Apply the paper's criteria to each label of hard-coral annotations (section 3.2).

    A label is kept where it is a genus (or Fungiidae), has an AphiaID, occurs at least `min_annotations` times, and
    has at least `min_per_source` annotations in at least `min_sources` sources. The criterion "consistent and
    distinguishable visual patterns" was a judgement of experts and cannot be computed.

    Returns
    -------
    DataFrame
        ``label``, ``rank``, ``annotations``, ``sources`` (that have it), ``sources_enough`` (that have it at least
        `min_per_source` times), ``kept`` (bool), ``reason`` (the first criterion it fails, empty where kept); the most
        annotated first.
    """
    if min(min_annotations, min_sources, min_per_source) < 0:
        raise ReefcoreError("a label criterion is negative", do="give counts of 0 or more")
    labelled = annotations[annotations["label"].notna()]
    per_source = labelled.groupby(["label", "source"], sort=True).size().rename("count").reset_index()
    table = labelled.groupby("label", sort=True).agg(
        rank=("rank", "first"),
        aphia_id=("aphia_id", "first"),
        annotations=("source", "size"),
        sources=("source", "nunique"),
    )
    enough = per_source[per_source["count"] >= min_per_source].groupby("label").size()
    table["sources_enough"] = enough.reindex(table.index, fill_value=0)
    failed = [
        (~((table["rank"] == "genus") | table.index.isin(GENUS_OR_FAMILY)), "not a genus"),
        (table["aphia_id"].isna(), "no AphiaID"),
        (table["annotations"] < min_annotations, f"fewer than {min_annotations} annotations"),
        (
            table["sources_enough"] < min_sources,
            f"fewer than {min_sources} sources with {min_per_source} annotations each",
        ),
    ]
    table["reason"] = ""
    for fails, reason in reversed(failed):
        table.loc[fails, "reason"] = reason
    table["kept"] = table["reason"] == ""
    table = table.reset_index().sort_values(["annotations", "label"], ascending=[False, True], ignore_index=True)
    return table[["label", "rank", "annotations", "sources", "sources_enough", "kept", "reason"]]


def curate(annotations: pd.DataFrame, **criteria) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Select the benchmark's annotations: hard corals, without duplicates, of the labels that meet the criteria.

    Parameters
    ----------
    annotations : DataFrame
        The annotations table, labels mapped (see `reefcore.taxonomy.map_labels`).
    **criteria
        See `label_criteria`.

    Returns
    -------
    curated : DataFrame
        The annotations kept.
    steps : DataFrame
        ``step``, ``annotations``, ``images``, ``sources``, ``labels`` left after each step.
    """
    steps = []

    def count(step, left):
        steps.append(
            (
                step,
                len(left),
                left.groupby("source")["image"].nunique().sum(),
                left["source"].nunique(),
                left["label"].nunique(),
            )
        )
        return left

    left = count("all labelled points", annotations)
    left = count("hard corals", hard_corals(left))
    left = count("without duplicates", drop_duplicates(left)[0])
    table = label_criteria(left, **criteria)
    left = count("labels that meet the criteria", left[left["label"].isin(table.loc[table["kept"], "label"])])
    return left, pd.DataFrame(steps, columns=["step", "annotations", "images", "sources", "labels"])
