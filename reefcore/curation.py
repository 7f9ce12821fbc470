"""From listed sources and all their points to the annotations worth a benchmark (paper sections 3.2 and A.2.1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import share
from reefcore.tables import HARD_CORALS, IDENTITY, plain

#: The paper's label criteria (section 3.2).
MIN_ANNOTATIONS, MIN_SOURCES, MIN_PER_SOURCE = 100, 3, 10
GENUS_OR_FAMILY = ("Fungiidae",)  # kept at family level: its genera are hard to tell apart in photos
MIN_CONFIRMED = 500  # confirmed images of a source (A.2.1)
#: What tables of the real candidates say in place of a profile.
RECORDS = "Real sources, from the authors' records: the same in every profile."
#: Names of sources that are trials; whole words, so that "Greatest Reef" is none of them.
TRIAL = re.compile(r"(?<![a-z])(?:tests?|testing|trials?)(?![a-z])", re.IGNORECASE)
#: Retained by the paper "after manual inspection", whatever its name says; compared without punctuation and case.
EXCEPTION = "coralnet assistance test"


@dataclass(frozen=True)
class Rule:
    """One rule by which sources leave the funnel.

    Attributes
    ----------
    name : str
        Also its name among the figures of the paper's text (``funnel/<name>``: sources left).
    columns : tuple of str
        What it looks at; a table without them is not judged by it.
    keep : callable
        Table -> bool for each source.
    reason : str
        Why a source goes.
    why : callable, optional
        Table of the sources that go -> the reason of each, where they differ.
    """

    name: str
    columns: tuple[str, ...]
    keep: Callable[[pd.DataFrame], pd.Series]
    reason: str
    why: Callable[[pd.DataFrame], pd.Series] | None = None


def _is_exception(names: pd.Series) -> pd.Series:
    return names.str.casefold().str.replace(r"[\W_]+", " ", regex=True).str.startswith(EXCEPTION)


DECIDED = "decided by hand: no reef-building corals, or no photos of a shallow tropical reef"
PASSED_OVER = 'marked "yes" with blanks around it: passed over by a program that compares with "yes"'


def _why_decided(gone: pd.DataFrame) -> pd.Series:
    return gone["decision"].str.strip().eq("yes").map({True: PASSED_OVER, False: DECIDED})


#: The paper's rules, in its order. What needs evidence fails where a value is missing; what needs an objection passes.
SOURCE_RULES = (
    Rule("named", ("source",), lambda t: ~t["source"].str.contains(TRIAL) | _is_exception(t["source"]),
         "its name says that it is a test or a trial"),
    Rule("classified", ("classifier", "confirmed_images"),
         lambda t: t["classifier"].eq(True) & t["confirmed_images"].gt(0),
         "no trained classifier, or no confirmed image"),
    Rule("confirmed", ("confirmed_images",), lambda t: t["confirmed_images"].ge(MIN_CONFIRMED),
         f"fewer than {MIN_CONFIRMED} confirmed images"),
    Rule("reviewed", ("decision",), lambda t: t["decision"].eq("yes"),
         DECIDED, _why_decided),
    Rule("unique", ("withdrawn",), lambda t: t["withdrawn"].isna(),
         "all its annotations are duplicates, or it became private"),
    Rule("uncalibrated", ("calibration",), lambda t: ~t["calibration"].eq(True),
         "it trains novice annotators (calibration)"),
    Rule("labelled", ("annotations",), lambda t: t["annotations"].gt(0),
         "none of its labels meets the label criteria"),
)  # fmt: skip


def candidates() -> pd.DataFrame:
    """Return the 125 sources that reached the paper's manual review, as `source_funnel` takes them.

    On record are the authors' decisions and comments, and who was on their lists of 100 and of 85; so these counts are
    read from the record, not found anew. Of 105 sources marked "yes", five have a space behind it in the authors' file,
    and a program that compares with "yes" passes over them; which five is inferred from the list of 100, and the space
    put back here (``data/sources/README.md``). ``withdrawn`` is where a source of the list of 100 is missing from the
    list of 85 and no calibration source: which of the two reasons it was is not on record. ``calibration`` is read from
    the name.

    Returns
    -------
    DataFrame
        ``source``, ``confirmed_images`` (January 2024), ``decision``, ``comment`` (of the authors), ``withdrawn`` (NA,
        or why), ``calibration`` (bool), ``lowest_level`` (finest labels of the source, as the authors describe them).
    """
    table = pd.read_csv(share("data", "sources", "coralnet_candidate_sources.csv"))
    calibration = table["source"].str.contains("calibration", case=False)
    gone = table["in_crawler_100"].eq("yes") & table["in_arxiv_v1_contributor_table_85"].eq("no") & ~calibration
    return pd.DataFrame(
        {
            "source": table["source"],
            "confirmed_images": table["confirmed_images_2024_01"],
            "decision": table["valid"],
            "comment": table["author_comment"],
            "withdrawn": pd.Series("duplicate or private", index=table.index).where(gone),
            "calibration": calibration,
            "lowest_level": table["lowest_labelset_level"],
        }
    )


def source_funnel(
    candidates: pd.DataFrame, rules: tuple[Rule, ...] = SOURCE_RULES
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Apply the paper's rules to a table of candidate sources (A.2.1, Figure 5).

    Parameters
    ----------
    candidates : DataFrame
        ``source`` (unique), and of these what is known: ``classifier`` (bool: trained), ``confirmed_images`` (int),
        ``decision`` ("yes" where a person found reef-building corals on shallow tropical reefs; compared as written),
        ``withdrawn`` (NA, or why the source went: duplicate, private), ``calibration`` (bool), ``annotations`` (int:
        those of labels that meet the label criteria). A column ``comment`` is carried along.
    rules : tuple of Rule

    Returns
    -------
    steps : DataFrame
        ``rule`` ("listed" first), ``sources`` left, ``dropped``, ``reason``; a rule whose columns are not there has NA
        counts and says what it lacks.
    dropped : DataFrame
        ``source``, ``rule``, ``reason``, ``comment``: every source that left, by the first rule that it failed.

    Raises
    ------
    ReefcoreError
        Where there is no column ``source``, or a source stands twice.
    """
    if "source" not in candidates:
        raise ReefcoreError("the table of candidates has no column source", do="add it: one row per source")
    if (again := candidates["source"].duplicated()).any():
        name = candidates.loc[again, "source"].iloc[0]
        raise ReefcoreError(f"the source {name!r} stands twice among the candidates", do="keep one row per source")
    left = candidates
    steps, dropped = [("listed", len(left), 0, "all candidates")], []
    for rule in rules:
        if lacking := [name for name in rule.columns if name not in left]:
            steps.append((rule.name, pd.NA, pd.NA, f"not judged: the table has no {', '.join(lacking)}"))
            continue
        keep = rule.keep(left).astype(bool)
        gone = left[~keep].sort_values("source").reindex(columns=["source", "comment"])
        why = rule.why(left.loc[gone.index]) if rule.why else rule.reason
        dropped.append(gone.assign(rule=rule.name, reason=why))
        left = left[keep]
        steps.append((rule.name, len(left), len(gone), rule.reason))
    steps = pd.DataFrame(steps, columns=["rule", "sources", "dropped", "reason"])
    empty = pd.DataFrame(columns=["source", "rule", "reason", "comment"], dtype="str")
    dropped = pd.concat([empty, *dropped], ignore_index=True)
    return steps.astype({"sources": "Int64", "dropped": "Int64"}), dropped


def is_hard_coral(annotations: pd.DataFrame) -> np.ndarray:
    """Tell which points are labelled as hard coral, of any rank: those that `hard_corals` selects."""
    code, names = pd.factorize(annotations["broad_category"])
    # Code -1, of what has no category, takes the last place.
    return np.append(pd.Series(names, dtype="str").str.casefold().isin(HARD_CORALS).to_numpy(bool), False)[code]


def hard_corals(annotations: pd.DataFrame) -> pd.DataFrame:
    """Select the points labelled as hard coral (broad category "Hard coral" or "Hard corals"), of any rank.

    Texts that were read as categories are plain texts again.
    """
    return plain(annotations[is_hard_coral(annotations)])


def _twins(annotations: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Find the positions of the rows that repeat another one, and of the row that each repeats."""
    by = ["image", "row", "column", "label_raw"]
    # Numbers tell in a second which of six million rows stand twice; the order of names is only needed among those.
    coded = {name: pd.factorize(annotations[name])[0] if name in (by[0], by[3]) else annotations[name] for name in by}
    some = np.flatnonzero(pd.DataFrame(coded).duplicated(keep=False))
    few = plain(annotations[IDENTITY].iloc[some]).reset_index(drop=True).sort_values(IDENTITY, kind="stable")
    first = few.assign(at=few.index).groupby(by, sort=False, dropna=False)["at"].transform("first")
    again = np.sort(few.index[few.duplicated(by)])
    return some[again], some[first.reindex(again).to_numpy(int)]


def drop_duplicates(annotations: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Drop duplicate annotations: same image file name, label and coordinates (A.2.1), across sources.

    The first in the order of source names stays, so that the order of rows does not matter.

    Returns
    -------
    kept, dropped : DataFrame
        `dropped` has the columns ``twin`` and ``twin_source``: the annotation_id that stayed, and its source. Rows of
        `kept` are in the order of `annotations`.
    """
    again, first = _twins(annotations)
    left = np.ones(len(annotations), dtype=bool)
    left[again] = False
    twin = {
        f"twin{end}": annotations[name].iloc[first].array
        for name, end in (("annotation_id", ""), ("source", "_source"))
    }
    return annotations[left], annotations.iloc[again].assign(**twin)


def duplicate_sources(annotations: pd.DataFrame) -> pd.DataFrame:
    """Tell how much of each source repeats another one, or itself.

    Returns
    -------
    DataFrame
        ``source``, ``annotations``, ``duplicates``, ``share`` (of its annotations), ``most_from`` (the source that has
        most of their twins), ``withdrawn`` ("duplicate" where nothing of the source is left, else NA); only sources
        with duplicates, the largest share first.
    """
    names = [annotations["source"].iloc[places].astype("str").array for places in _twins(annotations)]
    table = (
        pd.DataFrame(dict(zip(("source", "twin_source"), names, strict=True)))
        .groupby("source", sort=True)
        .agg(
            duplicates=("twin_source", "size"),
            most_from=("twin_source", lambda names: names.value_counts().sort_index().idxmax()),
        )
    )
    table["annotations"] = annotations["source"].value_counts().reindex(table.index)
    table["share"] = table["duplicates"] / table["annotations"]
    whole = table["duplicates"] == table["annotations"]
    table["withdrawn"] = pd.Series("duplicate", index=table.index, dtype="str").where(whole)
    columns = ["source", "annotations", "duplicates", "share", "most_from", "withdrawn"]
    return table.reset_index().sort_values(["share", "source"], ascending=[False, True], ignore_index=True)[columns]


def label_counts(annotations: pd.DataFrame) -> pd.DataFrame:
    """Count annotations per label and source, with the label's rank and AphiaID: what `judge_labels` needs."""
    labelled = annotations[annotations["label"].notna()].groupby(["label", "source"], sort=True)
    return labelled.agg(
        rank=("rank", "first"), aphia_id=("aphia_id", "first"), annotations=("source", "size")
    ).reset_index()


def judge_labels(
    counts: pd.DataFrame,
    min_annotations: int = MIN_ANNOTATIONS,
    min_sources: int = MIN_SOURCES,
    min_per_source: int = MIN_PER_SOURCE,
) -> pd.DataFrame:
    """Apply the paper's criteria to counted labels of hard corals (section 3.2).

    A label is kept where it is a genus (or Fungiidae), has an AphiaID, occurs at least `min_annotations` times, and
    has at least `min_per_source` annotations in at least `min_sources` sources. The criterion "consistent and
    distinguishable visual patterns" was a judgement of experts and cannot be computed.

    Parameters
    ----------
    counts : DataFrame
        ``label``, ``source``, ``rank``, ``aphia_id``, ``annotations``: see `label_counts`.
    min_annotations, min_sources, min_per_source : int

    Returns
    -------
    DataFrame
        ``label``, ``rank``, ``annotations``, ``sources`` (that have it), ``sources_enough`` (that have it at least
        `min_per_source` times), ``kept`` (bool), ``reason`` (the first criterion it fails, empty where kept), ``fails``
        (how many criteria it fails); the most annotated first.

    Raises
    ------
    ReefcoreError
        Where a criterion is negative.
    """
    if min(min_annotations, min_sources, min_per_source) < 0:
        raise ReefcoreError("a label criterion is negative", do="give counts of 0 or more")
    table = counts.groupby("label", sort=True).agg(
        rank=("rank", "first"),
        aphia_id=("aphia_id", "first"),
        annotations=("annotations", "sum"),
        sources=("source", "nunique"),
    )
    enough = counts[counts["annotations"] >= min_per_source].groupby("label").size()
    table["sources_enough"] = enough.reindex(table.index, fill_value=0)
    fails = {
        "not a genus": ~((table["rank"] == "genus") | table.index.isin(GENUS_OR_FAMILY)),
        "no AphiaID": table["aphia_id"].isna(),
        f"fewer than {min_annotations} annotations": table["annotations"] < min_annotations,
        f"fewer than {min_sources} sources with {min_per_source} annotations each": table["sources_enough"]
        < min_sources,
    }
    table["reason"] = ""
    for reason, failed in reversed(fails.items()):
        table.loc[failed, "reason"] = reason
    table["kept"] = table["reason"] == ""
    table["fails"] = sum(failed.astype(int) for failed in fails.values()) if len(table) else 0
    table = table.reset_index().sort_values(["annotations", "label"], ascending=[False, True], ignore_index=True)
    return table[["label", "rank", "annotations", "sources", "sources_enough", "kept", "reason", "fails"]]


def label_criteria(annotations: pd.DataFrame, **criteria) -> pd.DataFrame:
    """Apply the paper's criteria to each label of hard-coral annotations; see `judge_labels`."""
    return judge_labels(label_counts(annotations), **criteria)


def removed_by_criterion(judged: pd.DataFrame) -> pd.DataFrame:
    """Count what each label criterion removes, in the order in which they are applied.

    Parameters
    ----------
    judged : DataFrame
        From `label_criteria`.

    Returns
    -------
    DataFrame
        ``criterion``, ``labels``, ``annotations`` removed by it after those before it, and ``only`` (labels that fail
        nothing else: without this criterion they would stay).
    """
    gone = judged[~judged["kept"]].assign(only=judged["fails"] == 1)
    table = gone.groupby("reason", sort=False).agg(
        labels=("label", "size"), annotations=("annotations", "sum"), only=("only", "sum")
    )
    return table.rename_axis("criterion").reset_index()


def curate(annotations: pd.DataFrame, **criteria) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Select the benchmark's annotations: without duplicates, hard corals, of the labels that meet the criteria.

    The order is the paper's (A.2.1): duplicates go first, over all labels.

    Parameters
    ----------
    annotations : DataFrame
        The annotations table, labels mapped (see `reefcore.taxonomy.map_labels`).
    **criteria
        See `judge_labels`.

    Returns
    -------
    curated : DataFrame
        The annotations kept.
    steps : DataFrame
        ``step``, ``annotations``, ``images``, ``sources``, ``labels`` left after each step.
    """
    # Numbers instead of texts, and rows chosen at the end: the table may have six million rows.
    code = {name: pd.factorize(annotations[name])[0] for name in ("source", "image", "label")}
    named = (code["source"] >= 0) & (code["image"] >= 0)
    code["photo"] = np.where(named, code["source"] * (code["image"].max(initial=0) + 1) + code["image"], -1)
    steps, left = [], np.ones(len(annotations), dtype=bool)

    def count(step):
        there = [len(pd.unique(code[name][left & (code[name] >= 0)])) for name in ("photo", "source", "label")]
        steps.append((step, int(left.sum()), *there))

    count("all labelled points")
    left[_twins(annotations)[0]] = False
    count("without duplicates")
    left &= is_hard_coral(annotations)
    count("hard corals")
    corals = hard_corals(annotations[left])
    judged = label_criteria(corals, **criteria)
    kept = corals["label"].isin(judged.loc[judged["kept"], "label"])
    left[left] = kept.to_numpy()
    count("labels that meet the criteria")
    return corals[kept], pd.DataFrame(steps, columns=["step", "annotations", "images", "sources", "labels"])
