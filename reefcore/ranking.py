"""Tables of trained models read as a reader does: who is ahead of whom, by how much, and is it more than chance."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations, product

import pandas as pd
from scipy import stats

from reefcore import classes, metrics, published
from reefcore.predictions import run_parts
from reefcore.published import COMMON_TEST

LEVEL = 0.05  # a p value under it counts as a difference, or as an agreement of two orders


def _correlated(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Correlate two orders of the same rows; NaN where fewer than three rows have both numbers."""
    both = pd.concat([first, second], axis=1).dropna()
    nothing = dict.fromkeys(("kendall", "p", "spearman"), float("nan"))
    if len(both) < 3:
        return {"models": len(both), **nothing}
    kendall, spearman = stats.kendalltau(*both.to_numpy().T), stats.spearmanr(*both.to_numpy().T)
    return {
        "models": len(both),
        "kendall": float(kendall.statistic),
        "p": float(kendall.pvalue),
        "spearman": float(spearman.statistic),
    }


def order_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Correlate the published with the reproduced order of the models, per setting.

    Parameters
    ----------
    table : DataFrame
        From `reefcore.comparison.beside`.

    Returns
    -------
    DataFrame
        ``setting``, ``models`` (with both numbers), Kendall's tau-b ``kendall`` with its two-sided ``p``, Spearman's
        ``spearman``; in [-1, 1], NaN with fewer than three models.
    """
    parts = [
        {"setting": setting, **_correlated(rows["published"], rows["value"])}
        for setting, rows in table.groupby("setting", sort=False)
    ]
    return pd.DataFrame(parts)


def setting_agreement(table: pd.DataFrame, column: str = "published") -> pd.DataFrame:
    """Correlate the order of the models in one setting with that in each other.

    Parameters
    ----------
    table : DataFrame
        From `reefcore.comparison.beside`.
    column : {'published', 'value'}

    Returns
    -------
    DataFrame
        ``first``, ``second`` (settings), and the columns of `order_agreement`.
    """
    wide = table.pivot(index="model", columns="setting", values=column)
    pairs = combinations(dict.fromkeys(table["setting"]), 2)
    return pd.DataFrame([{"first": a, "second": b, **_correlated(wide[a], wide[b])} for a, b in pairs])


def differences(
    predictions: pd.DataFrame,
    annotations: pd.DataFrame,
    rows: dict[str, str],
    number: int = 3,
    pairs: Iterable[tuple[str, str]] | None = None,
    metric: str = "macro_recall",
    n: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare rows of a published table two by two in each of its settings; see `reefcore.metrics.paired`.

    Parameters
    ----------
    predictions, annotations : see `reefcore.metrics.paired`
    rows : dict
        Recipe -> row of the paper's table.
    number : int
        The table; see `reefcore.published.results`.
    pairs : iterable of (row, row), optional
        First minus second; by default all pairs of `rows`.
    metric, n, seed : see `reefcore.metrics.paired`. P values are adjusted within each setting.

    Returns
    -------
    DataFrame
        ``setting``, ``first``, ``second``, ``published`` (difference of the printed numbers), ``value``, ``ci_low``,
        ``ci_high``, ``p``, ``p_holm``; fractions, NaN where it was not run or not printed; ``apart``: whether the
        interval excludes zero and the adjusted p is below 0.05. ``.attrs["left_out"]`` names the runs that are not
        compared: their points or true labels are not those of the run with the most points, the first of equals.
    """
    printed = published.results(number)
    printed = printed[printed["metric"] == metric]
    wanted = list(combinations(rows.values(), 2) if pairs is None else pairs)
    tables, left_out = [], []
    for (train, test), cells in printed.groupby(["train", "test"], sort=False):
        paper = cells.set_index("model")["published"]
        run = {row: f"{recipe}-{train}-{test}" for recipe, row in rows.items()}
        here = predictions[predictions["run_id"].isin(list(run.values()))]
        stray = _elsewhere(here)
        left_out += stray
        present = set(here["run_id"].unique()) - set(stray)
        table = pd.DataFrame(wanted, columns=["first", "second"])
        table = table.assign(
            setting=f"{train} / {COMMON_TEST.get(test, test)}",
            published=table["first"].map(paper) - table["second"].map(paper),
        )
        done = [pair for pair in wanted if {run.get(row) for row in pair} <= present]
        if done:
            gaps = metrics.paired(here, annotations, [(run[a], run[b]) for a, b in done], metric, n, seed)
            gaps[["first", "second"]] = done
            table = table.merge(gaps, how="left", on=["first", "second"])
        tables.append(table)
    columns = ["setting", "first", "second", "published", "value", "ci_low", "ci_high", "p", "p_holm"]
    table = pd.concat(tables, ignore_index=True).reindex(columns=columns)
    clear = (table["ci_low"] > 0) | (table["ci_high"] < 0)
    table = table.assign(apart=clear & (table["p_holm"] < LEVEL))
    table.attrs["left_out"] = left_out
    return table


def _elsewhere(predictions: pd.DataFrame) -> list[str]:
    """List the runs whose points and true labels are not those of the run with the most points."""
    runs = predictions.groupby("run_id", sort=False)
    truths = {run: rows.set_index("annotation_id")["y_true"].sort_index() for run, rows in runs}
    largest = max(truths.values(), key=len, default=None)
    return [run for run, truth in truths.items() if not truth.equals(largest)]


def in_points(table: pd.DataFrame) -> pd.DataFrame:
    """Arrange what `differences` returns for print, in percentage points."""
    values = 100 * table[["published", "value", "ci_low", "ci_high"]]
    values.columns = ["published", "reproduced", "low", "high"]
    told = table["apart"].map({True: "yes", False: "no"}).where(table["value"].notna())
    named = table[["setting", "first", "second"]].rename(columns={"second": "against"})
    return pd.concat([named, values, table["p_holm"].rename("p (Holm)"), told.rename("told apart")], axis=1)


def told_apart(table: pd.DataFrame) -> pd.DataFrame:
    """Count, per setting, the pairs of `differences` that the photos tell apart.

    Returns
    -------
    DataFrame
        ``setting``, ``pairs`` (run), ``told apart``.
    """
    run = table.dropna(subset=["value"])
    apart = run.groupby("setting", sort=False)["apart"].agg(["size", "sum"]).reset_index()
    return apart.set_axis(["setting", "pairs", "told apart"], axis=1)


def square(pairs: pd.DataFrame, column: str, mirror: int = 1) -> pd.DataFrame:
    """Arrange ``first``, ``second`` and a column of pairs as a square; below the diagonal times `mirror` (1 or -1)."""
    names = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    other = pairs.rename(columns={"first": "second", "second": "first"})
    both = pd.concat([pairs, other.assign(**{column: mirror * other[column]})])
    return both.pivot(index="first", columns="second", values=column).reindex(index=names, columns=names)


def thirds(
    predictions: pd.DataFrame,
    splits: pd.DataFrame,
    annotations: pd.DataFrame,
    rows: dict[str, str],
    number: int = 4,
    **options,
) -> pd.DataFrame:
    """Make `differences` over the third of the test classes with the fewest training points, and with the most.

    A class without any, which no model can answer, is in neither.

    Parameters
    ----------
    predictions, rows, number, options : see `differences`
    splits, annotations : DataFrame
        The training points of each class; `annotations` with ``label``, one row per annotation_id.

    Returns
    -------
    DataFrame
        ``third`` ("rarest" or "commonest"), ``classes`` (in it) and the columns of `differences` but ``published``:
        the paper prints no recall by class as numbers.
    """
    names = run_parts(predictions["run_id"])
    ours = predictions[names["recipe"].isin(list(rows))]
    kept = {"rarest": [], "commonest": []}
    sizes = {}
    for (train, test), runs in ours.groupby([names["train"], names["test"]]):
        counts = classes.train_counts(splits, annotations, runs["run_id"].iloc[0])
        order = counts[counts.index.isin(runs["y_true"])].sort_index().sort_values(kind="stable").index
        third = max(1, len(order) // 3)
        sizes[f"{train} / {COMMON_TEST.get(test, test)}"] = third
        kept["rarest"].append(runs[runs["y_true"].isin(order[:third])])
        kept["commonest"].append(runs[runs["y_true"].isin(order[-third:])])
    parts = [
        differences(pd.concat(runs), annotations, rows, number, **options).assign(third=third)
        for third, runs in kept.items()
        if runs
    ]
    columns = ["setting", "third", "classes", "first", "second", "value", "ci_low", "ci_high", "p", "p_holm", "apart"]
    if not parts:
        return pd.DataFrame(columns=columns)
    table = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    return table.assign(classes=table["setting"].map(sizes))[columns]


def seed_spread(metrics: pd.DataFrame, recipe: str) -> pd.DataFrame:
    """Put how far seeds of one recipe scatter beside the bootstrap interval of its first run.

    Parameters
    ----------
    metrics : DataFrame
        The metrics table; further seeds are runs ``<recipe>.seed<k>-<train set>-<test set>``.
    recipe : str

    Returns
    -------
    DataFrame
        ``metric``, ``setting``, ``seeds``, ``mean``, ``sd`` (n - 1), ``lowest``, ``highest``, ``range``, and
        ``ci_low``, ``ci_high``, ``width`` of the interval; fractions. Settings with one seed are left out.
    """
    parts = run_parts(metrics["run_id"])
    setting = parts["train"] + " / " + parts["test"].replace(COMMON_TEST)
    seeds = metrics.assign(setting=setting, first=parts["recipe"] == recipe)[
        parts["recipe"].str.fullmatch(re.escape(recipe) + r"(\.seed\d+)?")
    ]
    by = seeds.groupby(["metric", "setting"], sort=False)["value"]
    table = by.agg(seeds="size", mean="mean", sd="std", lowest="min", highest="max").query("seeds > 1")
    table["range"] = table["highest"] - table["lowest"]
    table = table.join(seeds[seeds["first"]].set_index(["metric", "setting"])[["ci_low", "ci_high"]])
    return table.assign(width=table["ci_high"] - table["ci_low"]).reset_index()


def conventions(predictions: pd.DataFrame, rows: dict[str, str]) -> pd.DataFrame:
    """Score every run under the conventions in use, to see how far each moves a number.

    Parameters
    ----------
    predictions : DataFrame
        The predictions table.
    rows : dict
        Recipe -> row of a published table; other runs are left out.

    Returns
    -------
    DataFrame
        ``run_id``, ``model``, ``setting``, ``classes`` (in truth), ``only predicted`` (classes), ``macro recall``
        over classes in truth (the paper, 5.1) and ``macro recall, truth or prediction`` (the authors' code);
        ``macro F1`` (mean of the classes' F1) and ``macro F1, harmonic`` (harmonic mean of macro precision and macro
        recall); ``micro recall`` and ``accuracy``; fractions.
    """
    runs = dict(list(predictions.groupby("run_id", sort=False)))
    table = []
    for (train, test), (recipe, model) in product(published.settings(), rows.items()):
        run = f"{recipe}-{train}-{test}"
        if run not in runs:
            continue
        part = runs[run]
        truth, union = (metrics.score(part["y_true"], part["y_pred"], over) for over in metrics.OVER)
        classes = set(part["y_true"].unique())
        table.append(
            {
                "run_id": run,
                "model": model,
                "setting": f"{train} / {COMMON_TEST.get(test, test)}",
                "classes": len(classes),
                "only predicted": len(set(part["y_pred"].unique()) - classes),
                "macro recall": truth["macro_recall"],
                "macro recall, truth or prediction": union["macro_recall"],
                "macro F1": truth["macro_f1"],
                "macro F1, harmonic": stats.hmean([truth["macro_precision"], truth["macro_recall"]]),
                "micro recall": truth["micro_recall"],
                "accuracy": truth["accuracy"],
            }
        )
    return pd.DataFrame(table)
