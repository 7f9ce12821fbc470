"""When a published number counts as reproduced: every value beside this profile's, and the rules that judge them.

The interval of a result is over photos, at `LEVEL`. It misses the published value by chance in one of twenty honest
reproductions, and a table has many values. So one value alone decides nothing: a value differs, and two rows stand in
the opposite order, only where that is beyond chance among all values, or pairs, of its table (`FAMILY`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom, norm

from reefcore import comparison, open_set, published, ranking, recipes, zero_shot
from reefcore.audit import statements
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet
from reefcore.predictions import run_parts
from reefcore.published import COMMON_TEST
from reefcore.recipes import zero_shot as models
from reefcore.tables import SCHEMES, check

LEVEL = 0.95  # of the intervals of a results file
#: Chance that an honest reproduction of a table breaks one of its rules. Eleven tables are judged by three rules each:
#: at 5 % some table would fail by chance more often than not.
FAMILY = 0.01
COVERS, CLOSE, DIFFERS = "covers", "close but outside", "differs"
SAME, OTHER, NOT_RUN = "no interval, same digits", "no interval, other digits", "not run"
TOLD, UNTOLD, TIED = "same sign, told apart", "same sign, not told apart", "tied"
OPPOSITE, BEYOND = "opposite, not told apart", "opposite beyond chance"
REPRODUCED, PARTLY, NOT, SYNTHETIC = "reproduced", "partly", "not", "not comparable: synthetic sample"
#: What Tables 5 and 12 call a test set
COLUMN = {"S2": "within_source_test_s2", "S3": "cross_source_test_s3s4"}
ROW = {"S1": "within-source", "S2": "within-source (QC)", "U": "cross-source", "S3": "cross-source (QC)"}
UNORDERED = ("Table 2", "text")  # sizes of parts, and figures of many kinds: no order is claimed
MIXED = ("Table 6", "Table 7")  # their columns are different metrics
MEASURED = ["place", "value", "ci_low", "ci_high", "n"]


def _trained(tables: Mapping[str, pd.DataFrame], n: int, seed: int) -> pd.DataFrame:
    parts, names = [], {setting: column for column, setting in _settings().items()}
    for number in published.TRAINED:
        table = comparison.beside(tables["metrics"], comparison.rows_of(number), number).dropna(subset=["published"])
        column = table["metric"] if number == 7 else table["setting"].map(names)
        parts.append(table.assign(place=f"{number}/" + table["model"] + "/" + column))
    return _percent(pd.concat(parts))


def _percent(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**100 * table[["value", "ci_low", "ci_high"]])


def _zero_shot(tables: Mapping[str, pd.DataFrame], n: int, seed: int) -> pd.DataFrame:
    measured = zero_shot.evaluate(tables["zero_shot"], _points(tables), n, seed)
    rank = zero_shot.beside(measured, 12)
    return pd.concat([_recall(measured), rank.assign(place="12/" + rank["test"].map(ROW) + "/" + rank["row"])])


def _recall(measured: pd.DataFrame) -> pd.DataFrame:
    table = zero_shot.beside(measured, 5)
    return _percent(table.assign(place="5/" + table["row"] + "/" + table["test"].map(COLUMN)))


def _evaluated(tables: Mapping[str, pd.DataFrame], n: int, seed: int) -> pd.DataFrame:
    """Take zero-shot runs from a metrics table, where `reefcore evaluate` measured them."""
    table = tables["metrics"]
    table = table[zero_shot.is_zero_shot(table["run_id"])]
    return _recall(table.join(zero_shot.parts(table["run_id"])).assign(chance=np.nan))


def _held_out(found: pd.DataFrame) -> pd.DataFrame:
    """Take the test points of the run that stands beside Table 6: the first that learnt from Train-S4."""
    found = found[found["run_id"].str.contains("-S4-") & ~found["run_id"].str.endswith("-val")]
    return found[found["run_id"] == found["run_id"].min()].dropna(axis=1, how="all").reset_index(drop=True)


def _open_set(tables: Mapping[str, pd.DataFrame], n: int, seed: int) -> pd.DataFrame:
    scored = open_set.with_scores(tables["open_set"])
    table = open_set.beside(open_set.bootstrap(scored, _points(tables), n, seed))
    return table.assign(place="6/" + table["score"].map(open_set.ROWS) + "/" + table["metric"], n=len(scored))


def _counted(tables: Mapping[str, pd.DataFrame], n: int, seed: int) -> pd.DataFrame:
    site = tables["quality"].loc[tables["quality"]["site"], "source"].min()
    return statements.here(tables, site)[["place", "value"]]


def _settings() -> dict[str, str]:
    """Name the columns of Tables 3, 4 and 8 to 11 as `reefcore.comparison` names settings."""
    pairs = [(train, COMMON_TEST.get(test, test)) for train, test in published.settings()]
    return {f"train_{a}_test_{b}".lower().replace("&", ""): f"{a} / {b}" for a, b in pairs}


def _points(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    return tables["annotations"].drop_duplicates("annotation_id")


#: What measures published values, and the tables of a project that it needs
MAKERS: dict[Callable, tuple[str, ...]] = {
    _trained: ("metrics",),
    _zero_shot: ("zero_shot", "annotations"),
    _evaluated: ("metrics",),
    _open_set: ("open_set", "annotations"),
    _counted: ("annotations", "sources", "images", "reviews", "quality", "splits"),
}
TABLES = (*dict.fromkeys(name for needs in MAKERS.values() for name in needs), "candidates")  # these for the funnel


def gather(tables: Mapping[str, pd.DataFrame], n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Put every published value of Tables 2 to 12, and the counts of data and reviews in the text, beside a profile's.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        A project's tables by name (`TABLES`); what is not there is not run.
    n, seed : int
        Of the bootstrap of Tables 5, 6 and 12; the others have the intervals of the metrics table. Table 2 and the text
        count and divide what the data hold: no interval.

    Returns
    -------
    DataFrame
        ``item`` ("Table 3", "text"), ``place``, ``row``, ``column`` (a setting as "S3 / S3&S4"; of
        Table 12 the models are the rows), ``unit``,
        ``published``, ``step`` (of the last printed digit), ``value``, ``ci_low``, ``ci_high`` (all in the printed
        unit; NaN where not run) and ``n`` (test points).
    """
    tables = {name: _held_out(table) if name == "open_set" else table for name, table in tables.items()}
    tables = {name: table for name, table in tables.items() if name != "open_set" or len(table)}
    measured = [make(tables, n, seed) for make, needs in MAKERS.items() if set(needs) <= set(tables)]
    found = pd.concat([pd.DataFrame(columns=MEASURED), *measured])[MEASURED].dropna(subset=["place", "value"])
    found = found.drop_duplicates("place").astype(dict.fromkeys(MEASURED[1:], float))
    printed = published.values()
    number, metric = printed["table"].fillna(0).astype(int), printed["unit"].isin(["percent", "fraction", "rank"])
    asked = (number == 2) | (number.between(3, 12) & metric) | ((number == 0) & printed["place"].isin(found["place"]))
    counted = pd.to_numeric(printed["value"], errors="coerce").notna() & printed["qualifier"].isin(["exact", "about"])
    items = np.where(number > 0, "Table " + number.astype("str"), "text")
    printed = printed.assign(item=items).rename(columns={"value": "published"})
    printed.loc[number == 12, ["row", "column"]] = printed.loc[number == 12, ["column", "row"]].to_numpy()
    printed["column"] = printed["column"].replace(_settings())
    columns = ["item", "place", "row", "column", "unit", "published", "step"]
    table = printed.loc[asked & counted, columns].astype({"published": float, "step": float})
    return table.merge(found, how="left", on="place")


def read(path: str | Path, profile: str | None = None) -> pd.DataFrame:
    """Read a results file: what ``reefcore evaluate --output`` writes, or a profile's ``metrics.parquet``.

    Parameters
    ----------
    path : path
        Parquet or CSV (UTF-8): ``run_id`` (``<recipe>-<train set>-<test set>``), ``metric``, ``value``, ``ci_low``,
        ``ci_high`` (fractions; both ends may be empty), ``n``, ``classes``.
    profile : str, optional
        The profile the results are of: needed where no column ``profile`` says it.

    Returns
    -------
    DataFrame
        The metrics table; ``.attrs["profile"]`` is the profile.

    Raises
    ------
    ReefcoreError
        Naming the row and the column: where the file cannot be read or lacks a column, a number is no fraction or not
        within its interval, a run is of no known recipe or set, or stands twice; where no profile is named, or two are.
    """
    try:
        table = read_parquet(path) if Path(path).suffix == ".parquet" else pd.read_csv(path)
        if "run_id" in table and "scheme" not in table:
            test = run_parts(table["run_id"].astype("str"))["test"]
            table["scheme"] = test.where(test.isin(SCHEMES), SCHEMES[0])  # run ids are checked below
        kept, problems = check(table, "metrics")
    except ReefcoreError as error:
        raise ReefcoreError(error.what, path, error.do) from None
    except (ValueError, OSError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ReefcoreError(f"this is not a readable CSV ({why})", path, "give UTF-8 CSV or Parquet") from None
    if len(problems):
        line, column, problem = problems.iloc[0]
        raise ReefcoreError(problem, f"{path}:{line}: {column}", "correct this row")
    if kept.empty:
        raise ReefcoreError("there is no result in this file", path, "give at least one run and metric")
    parts, value, low, high = run_parts(kept["run_id"]), *(kept[name] for name in ("value", "ci_low", "ci_high"))
    known = parts["recipe"].str.partition(".")[0].isin([*recipes.names(), *models.names()])
    sets = parts["train"].isin([*dict(published.settings()), "zero"]) & parts["test"].isin(SCHEMES)
    outside = (value < low - 1e-9) | (value > high + 1e-9) | (low > high)
    for column, wrong, what in (
        ("run_id", ~sets, "does not end in -TRAIN-TEST, such as -S3-W"),
        ("run_id", ~known, "is of no recipe of `reefcore recipes list`"),
        ("metric", kept.duplicated(["run_id", "metric"]), "stands twice for this run"),
        ("ci_low", low.isna() != high.isna(), "is only one end of an interval"),
        ("value", outside, "does not lie in [ci_low, ci_high]"),
    ):
        if wrong.any():
            row = int(wrong.to_numpy().argmax())
            raise ReefcoreError(f"{kept[column].iloc[row]} {what}", f"{path}:{row + 2}: {column}", "correct this row")
    said = {*kept.get("profile", []), *([profile] if profile else [])}
    if len(said) != 1:
        what = f"two profiles are named: {', '.join(sorted(map(str, said)))}" if said else "no profile is named"
        raise ReefcoreError(f"of these results {what}", path, "say one, as with --profile full")
    kept.attrs["profile"] = str(said.pop())
    return kept


def _arms(count) -> np.ndarray:
    """Say how much longer the arms of an interval must be so that one of `count` misses by chance in `FAMILY` of cases.

    Bonferroni's bound holds however the values depend on each other; that arms grow as a normal distribution's is an
    approximation.
    """
    return norm.isf(FAMILY / 2 / np.maximum(count, 1)) / norm.isf((1 - LEVEL) / 2)


def values(results: pd.DataFrame) -> pd.DataFrame:
    """Judge each value.

    *covers*: the interval, made wider by half the printed step, holds the published value: the paper's unrounded number
    may lie that far from the printed one. *close but outside*: it does not, as in one of twenty honest reproductions.
    *differs*: it does not even where its arms are long enough for all values of its table (`_arms`). Without an
    interval nothing says how far chance reaches, so only the printed digits count: *no interval, same digits* or
    *other digits*. The rest is *not run*.

    Parameters
    ----------
    results : DataFrame
        From `gather`.

    Returns
    -------
    DataFrame
        With ``difference`` (value minus published), ``far_low``, ``far_high`` (the interval with its long arms), in
        the printed unit, and ``verdict``.
    """
    value, low, high = (results[name] for name in ("value", "ci_low", "ci_high"))
    half, difference = results["step"] / 2 + 1e-9, value - results["published"]
    sure = value.notna() & low.notna() & high.notna()
    more = _arms(sure.groupby(results["item"]).transform("sum")) - 1
    far = {"far_low": low - more * (value - low).clip(0), "far_high": high + more * (high - value).clip(0)}
    held, near = (results["published"].between(a - half, b + half) for a, b in ((low, high), far.values()))
    conditions = [value.isna(), ~sure & (difference.abs() <= half), ~sure, held, near]
    verdict = np.select(conditions, [NOT_RUN, SAME, OTHER, COVERS, CLOSE], DIFFERS)
    return results.assign(difference=difference, **far, verdict=verdict)


def pairs(results: pd.DataFrame) -> pd.DataFrame:
    """Judge the sign of every printed difference between two rows of a column, and two columns of a row.

    Only differences that rounding cannot make count: more than a printed step. The interval of a difference is made of
    the two intervals by MOVER (Zou & Donner 2008, Statistics in Medicine 27, 1693). It takes the two as independent;
    two models on one test set share its points, which mostly makes it too wide, so that fewer pairs are told apart than
    could be. A pair is *told apart* where zero lies outside the interval with arms long enough for all pairs of its
    table (`_arms`), and *opposite beyond chance* where it is told apart the other way than printed. Columns of
    different metrics are not compared, nor sizes in Table 2 and the text.

    Parameters
    ----------
    results : DataFrame
        From `gather`.

    Returns
    -------
    DataFrame
        ``item``, ``of`` ("rows" or "columns"), ``where`` (the column, or the row), ``first``, ``second``,
        ``published``, ``value`` (first minus second, in the printed unit), ``ci_low``, ``ci_high`` (95 %, for the pair
        alone), ``far_low``, ``far_high`` (with its long arms) and ``verdict``.
    """
    rows = results[~results["item"].isin(UNORDERED)].reset_index(drop=True).rename_axis("order").reset_index()
    rows["down"], rows["up"] = (rows["value"] - rows["ci_low"]).clip(0), (rows["ci_high"] - rows["value"]).clip(0)
    found = []
    for of, where, side in (("rows", "column", "row"), ("columns", "row", "column")):
        part = rows if of == "rows" else rows[~rows["item"].isin(MIXED)]
        both = part.merge(part, on=["item", where], suffixes=("", "_2")).query("order < order_2")
        found.append(both.assign(of=of, where=both[where], first=both[side], second=both[f"{side}_2"]))
    both = pd.concat(found, ignore_index=True)
    printed = both["published"] - both["published_2"]
    gap = both["value"] - both["value_2"]
    table = both[["item", "of", "where", "first", "second"]].assign(published=printed, value=gap)
    table["ci_low"] = gap - np.hypot(both["down"], both["up_2"])
    table["ci_high"] = gap + np.hypot(both["up"], both["down_2"])
    table = table[printed.abs() > (both["step"] + both["step_2"]) / 2 + 1e-9].reset_index(drop=True)
    gap, sure = table["value"], table["ci_low"].notna()
    arms = _arms(sure.groupby(table["item"]).transform("sum"))
    table["far_low"], table["far_high"] = (gap + arms * (table[end] - gap) for end in ("ci_low", "ci_high"))
    clear = (table["far_low"] > 0) | (table["far_high"] < 0)
    same = gap * table["published"] > 0
    conditions = [gap.isna(), gap == 0, same & clear, same, clear]
    return table.assign(verdict=np.select(conditions, [NOT_RUN, TIED, TOLD, UNTOLD, BEYOND], OPPOSITE))


def orders(results: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Count the pairs of rows that stand as printed in each column.

    Parameters
    ----------
    results : DataFrame
        From `gather`.
    judged : DataFrame
        From `pairs`.

    Returns
    -------
    DataFrame
        ``item``, ``column``, ``pairs`` (run, and printed apart), ``same`` (fraction with the printed sign), `OPPOSITE`
        and `BEYOND` (pairs), and Kendall's tau-b ``kendall`` of its rows (see
        `reefcore.ranking.order_agreement`).
    """
    run = judged[(judged["of"] == "rows") & (judged["verdict"] != NOT_RUN)]
    flags = {name: run["verdict"] == name for name in (OPPOSITE, BEYOND)}
    flags = run.assign(pairs=1, same=run["verdict"].isin([TOLD, UNTOLD]), **flags)
    table = flags.groupby(["item", "where"], sort=False)[["pairs", "same", OPPOSITE, BEYOND]].sum()
    table["same"] = table["same"] / table["pairs"]
    columns = results.dropna(subset=["value"]).groupby(["item", "column"])
    tau = {key: ranking.order_agreement(rows.assign(setting=""))["kendall"].iloc[0] for key, rows in columns}
    table["kendall"] = [tau[key] for key in table.index]
    return table.rename_axis(["item", "column"]).reset_index()


def needed(count: int) -> int:
    """Say how many of `count` intervals must cover for a table to count as reproduced.

    Honest 95 % intervals cover a binomial number of published values; this is the largest number that all but `FAMILY`
    of honest reproductions reach. Values of one test set share its photos, so that misses come together: of 60 values
    in six columns whose errors correlate by 0.3 or 0.6, an honest table falls short in 3 or 8 of 100 cases
    (simulated). Where the photos are the paper's own, both numbers share their luck, and it falls short less often.

    Examples
    --------
    >>> needed(60)
    53
    """
    return int(binom.ppf(FAMILY, count, LEVEL)) if count else 0


def verdicts(results: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Judge each table as a whole.

    *reproduced*: every value is run; at least `needed` intervals cover; no value differs or, without an interval, has
    other digits; no pair is opposite beyond chance; and intervals are short enough to say something: of the printed
    differences at least one, alone, has an interval on its own side of zero. Else *partly* where at least half of
    what was run covers or has the same digits, and *not* where less does. Only the released data can reproduce a
    result about them: a synthetic sample is *not comparable*, though all is counted.

    Parameters
    ----------
    results : DataFrame
        From `gather`.
    kind : {'full', 'sample'}
        Of the profile the results are of; see `reefcore.profiles.Profile`.

    Returns
    -------
    DataFrame
        ``item``, ``verdict``, ``values``, then how many are of each verdict of `values`; ``needed`` (least number that
        must cover) and ``expected to miss`` (of those with an interval, by chance); ``pairs`` (run) and how many are
        `OPPOSITE` and `BEYOND`; ``fails`` (bool: something that was run breaks a rule).
    """
    judged, order = values(results), pairs(results)
    items, kinds = judged["item"].unique(), [COVERS, CLOSE, DIFFERS, SAME, OTHER, NOT_RUN]
    counts = pd.crosstab(judged["item"], judged["verdict"]).reindex(items, columns=kinds, fill_value=0)
    kinds = [TOLD, UNTOLD, TIED, OPPOSITE, BEYOND]
    signs = pd.crosstab(order["item"], order["verdict"]).reindex(items, columns=kinds, fill_value=0)
    total, sure = counts.sum(axis=1), counts[[COVERS, CLOSE, DIFFERS]].sum(axis=1)
    least = sure.map(needed)
    fails = (counts[COVERS] < least) | (counts[DIFFERS] + counts[OTHER] + signs[BEYOND] > 0)
    shown = np.where(order["published"] > 0, order["ci_low"], -order["ci_high"]) > 0
    says = pd.Series(shown, index=order.index).groupby(order["item"]).any().reindex(items, fill_value=True)
    run, passed = total - counts[NOT_RUN], counts[COVERS] + counts[SAME]
    good = ~fails & (run == total) & (says | (sure == 0))
    conditions = [run == 0, np.full(len(run), kind != "full"), good, 2 * passed >= run]
    table = counts.assign(needed=least, **{"expected to miss": (1 - LEVEL) * sure}, pairs=signs.sum(axis=1))
    table = table.join(signs[[OPPOSITE, BEYOND]]).assign(fails=fails)
    table.insert(0, "verdict", np.select(conditions, [NOT_RUN, SYNTHETIC, REPRODUCED, PARTLY], NOT))
    table.insert(1, "values", total)
    return table.rename_axis("item").rename_axis(columns=None).reset_index()
