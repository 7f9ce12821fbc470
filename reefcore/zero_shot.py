"""Tables 5 and 12: models that were never trained on the classes (sections 5.3 and A.6), from predictions alone.

A run is ``<recipe>.<prompt set>-zero-<test set>``. Its scores give the rank of the true class; a run without scores, as
that of a language model that answers with a name, has macro recall only.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore import metrics, published
from reefcore.descriptions import shipped
from reefcore.multimodal import NO_ANSWER
from reefcore.predictions import run_parts
from reefcore.recipes import zero_shot as recipes
from reefcore.recipes.zero_shot import ZeroShot
from reefcore.tables import SCORE

#: Test set -> what it is called here.
NAMES = {"S1": "within sources", "S2": "within sources (QC)", "U": "across sources", "S3": "across sources (QC)"}
NAMES |= {"S4": "across sources (QC), S4", "W": "new site"}
MEASURES = ["published", "value", "ci_low", "ci_high", "difference", "chance"]  # of what `beside` returns


def parts(run_ids: pd.Series) -> pd.DataFrame:
    """Split run ids into ``recipe``, ``prompts`` (empty where there is none) and ``test``."""
    found = run_parts(run_ids.astype("str"))
    whole = found["recipe"].astype("str")
    recipe = whole.str.replace(r"\.[^.]*$", "", regex=True)
    prompts = [name[len(first) + 1 :] for name, first in zip(whole, recipe, strict=True)]
    table = pd.DataFrame({"recipe": recipe, "prompts": prompts, "test": found["test"]}, index=run_ids.index)
    return table.astype("str")  # of no run too


def is_zero_shot(run_ids: pd.Series) -> pd.Series:
    """Tell which run ids are of models that were not trained: their training part is the word zero."""
    return run_parts(run_ids)["train"] == "zero"


def ranks(predictions: pd.DataFrame) -> pd.Series:
    """Rank the true class of each point among the classes that its run scores.

    Parameters
    ----------
    predictions : DataFrame
        A predictions table.

    Returns
    -------
    Series of float
        1 for the highest score; classes with equal scores share the mean of their ranks. NaN where the run does not
        score the true class, or nothing.
    """
    columns = [name for name in predictions if name.startswith(SCORE)]
    found = pd.Series(np.nan, index=predictions.index)
    if not columns or predictions.empty:
        return found
    scores = predictions[columns].to_numpy(np.float32)
    at = pd.Index([name.removeprefix(SCORE) for name in columns]).get_indexer(predictions["y_true"])
    true = np.where(at >= 0, scores[np.arange(len(scores)), at], np.nan)[:, None]
    rank = (scores > true).sum(axis=1) + ((scores == true).sum(axis=1) + 1) / 2
    return found.mask(~np.isnan(true[:, 0]), rank)


def evaluate(predictions: pd.DataFrame, annotations: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Measure macro recall and the average rank of the true class, with intervals by resampling photos.

    Parameters
    ----------
    predictions : DataFrame
        A predictions table of zero-shot runs.
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``.
    n, seed : int

    Returns
    -------
    DataFrame
        ``run_id``, ``recipe``, ``prompts``, ``test``, ``metric`` (``macro_recall``; ``mean_rank`` where there are
        scores: the mean over points, 1 the best), ``value``, ``ci_low``, ``ci_high`` (95 %; NaN for one photo), ``n``
        (points), ``classes`` (in the truth), ``offered`` (classes to choose from, where they are scored), ``chance``
        (one over the classes in the truth; the middle rank), ``invalid`` (answers that name no class) and ``unranked``
        (points whose class is not offered).
    """
    rows = []
    for run, table in predictions.groupby("run_id", sort=False):
        photo = metrics.photo_of(table["annotation_id"], annotations)
        rank = ranks(table)
        offered = int(table[[name for name in table if name.startswith(SCORE)]].notna().any().sum())
        classes = table["y_true"].nunique()
        common = {"run_id": run, "n": len(table), "classes": classes, "offered": offered or np.nan}
        common |= {"invalid": int((table["y_pred"] == NO_ANSWER).sum()), "unranked": int(rank.isna().sum())}
        recall = metrics.bootstrap(table["y_true"], table["y_pred"], photo, n, seed).set_index("metric")
        value = recall.loc["macro_recall", ["value", "ci_low", "ci_high"]].to_dict()
        rows.append(common | {"metric": "macro_recall", "chance": 1 / classes} | value)
        ranked = rank.notna()
        if ranked.any():
            low, high = _interval(rank[ranked].to_numpy(), photo[ranked], n, seed)
            value = {"value": rank.mean(), "ci_low": low, "ci_high": high}
            rows.append(common | {"metric": "mean_rank", "chance": (offered + 1) / 2} | value)
    columns = ["metric", "value", "ci_low", "ci_high", "n", "classes", "offered", "chance", "invalid", "unranked"]
    table = pd.DataFrame(rows, columns=["run_id", *columns])
    return table[["run_id"]].join(parts(table["run_id"])).join(table[columns])


def _interval(values: np.ndarray, photo: pd.Series, n: int, seed: int) -> tuple[float, float]:
    """Give the percentile interval of a mean over points, whole photos being resampled."""
    code, names = pd.factorize(photo, sort=True)
    if len(names) < 2:
        return np.nan, np.nan
    sums, sizes = np.bincount(code, weights=values), np.bincount(code)
    drawn = [(weights @ sums) / (weights @ sizes) for weights in metrics.draws_of(len(names), n, seed)]
    return tuple(np.quantile(np.concatenate(drawn), [0.025, 0.975]))


def beside(measured: pd.DataFrame, number: int) -> pd.DataFrame:
    """Put measured numbers beside the paper's Table 5 (macro recall) or Table 12 (average rank).

    Parameters
    ----------
    measured : DataFrame
        From `evaluate`. A run stands beside a printed row where its recipe says that its prompt set is that row's;
        every other run is a row of its own, with nothing printed.
    number : {5, 12}

    Returns
    -------
    DataFrame
        ``row``, ``recipe``, ``prompts``, ``test``, ``published``, ``value``, ``ci_low``, ``ci_high``, ``difference``
        (value minus published), ``chance``, ``n``. Fractions, or ranks. Every printed cell is there.
    """
    printed = published.zero_shot(number)
    metric = printed["metric"].iloc[0]
    known = {name: recipes.load(name) for name in recipes.names()}
    here = measured[(measured["metric"] == metric) & measured["test"].isin(printed["test"])]
    rows = [
        known[recipe].rows.get(prompts, "") if recipe in known else ""
        for recipe, prompts in here[["recipe", "prompts"]].to_numpy()
    ]
    own = (here["recipe"] + ", " + here["prompts"].replace("", "no prompt set")).to_numpy(object)
    printed_rows = set(printed["row"])
    here = here.assign(row=[row if row in printed_rows else name for row, name in zip(rows, own, strict=True)])
    table = printed.drop(columns="metric").merge(here, on=["row", "test"], how="outer")
    order = list(dict.fromkeys([*printed["row"], *here["row"]])).index
    tests = list(dict.fromkeys(printed["test"])).index
    table = table.assign(first=table["row"].map(order), second=table["test"].map(tests))
    table = table.sort_values(["first", "second"], ignore_index=True)
    table["difference"] = table["value"] - table["published"]
    return table[["row", "recipe", "prompts", "test", *MEASURES, "n"]]


def in_percent(table: pd.DataFrame) -> pd.DataFrame:
    """Arrange what `beside` returns of Table 5 for print: percent, and test sets in words."""
    table = table.assign(test=table["test"].map(NAMES), **100 * table[MEASURES])
    return table.drop(columns=["recipe", "prompts"])


def missing(measured: pd.DataFrame, descriptions: pd.DataFrame | None = None, profile: str = "sample") -> pd.DataFrame:
    """Say of each published row that was not run what it lacks, and the command that runs it.

    Parameters
    ----------
    measured : DataFrame
        From `evaluate`.
    descriptions : DataFrame, optional
        The descriptions that the profile has beside the shipped ones.
    profile : str
        Its name or path, for the command.

    Returns
    -------
    DataFrame
        ``row``, ``recipe``, ``lacks``, ``command``.
    """
    had = set(shipped()["set"]) | (set(descriptions["set"]) if descriptions is not None else set())
    ran = set(zip(measured["recipe"], measured["prompts"], strict=True))
    found = []
    for name in recipes.names():
        recipe = recipes.load(name)
        for prompts, row in recipe.rows.items():
            if (name, prompts) not in ran:
                found.append((row, name, *_lacks(recipe, prompts, had, profile)))
    table = pd.DataFrame(found, columns=["row", "recipe", "lacks", "command"])
    order = list(dict.fromkeys(published.zero_shot(5)["row"])).index
    return table.sort_values("row", key=lambda rows: rows.map(order), ignore_index=True)


def _lacks(recipe: ZeroShot, prompts: str, had: set[str], profile: str) -> tuple[str, str]:
    where = "a server" if recipe.kind == "chat" else "the weights"
    lacks, run = f"{where} of {recipe.model}", f"reefcore zero-shot {recipe.name} --profile"
    if prompts == "name" or prompts in had:
        return lacks, f"{run} {profile}"
    texts = " --texts FOLDER" if prompts == "book" else ""
    lacks += f", and descriptions of the set {prompts}: mine.yaml is a copy of the profile that names mine.csv"
    return lacks, f"reefcore describe MODEL{texts} --profile {profile} --output mine.csv; {run} mine.yaml"


def better(
    predictions: pd.DataFrame, annotations: pd.DataFrame, pairs: list[tuple[str, str]], n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Compare prompt sets of each recipe and test set two by two, on the same resampled photos.

    Parameters
    ----------
    predictions, annotations : DataFrame
    pairs : list of (str, str)
        Prompt sets: the first minus the second; pairs of which one was not run, or without a point that both were asked
        about, are left out.
    n, seed : int

    Returns
    -------
    DataFrame
        ``recipe``, ``test``, ``first``, ``second``, ``metric``, ``value`` (first minus second), ``ci_low``,
        ``ci_high`` (95 %, of that pair alone), ``better`` ("yes" where the interval excludes zero on the better side,
        "worse", "not told apart") and ``n`` (points that both were asked about). A lower rank is better.
    """
    runs = predictions[["run_id"]].drop_duplicates(ignore_index=True)
    runs = runs.join(parts(runs["run_id"]))
    rows = []
    for (recipe, test), group in runs.groupby(["recipe", "test"], sort=False):
        run_of = dict(zip(group["prompts"], group["run_id"], strict=True))
        for first, second in (pair for pair in pairs if set(pair) <= set(run_of)):
            both = [predictions[predictions["run_id"] == run_of[name]] for name in (first, second)]
            both = [one[one["annotation_id"].isin(two["annotation_id"])] for one, two in (both, both[::-1])]
            if both[0].empty:
                continue
            table = pd.concat(both, ignore_index=True)
            gap = metrics.paired(table, annotations, [(run_of[first], run_of[second])], "macro_recall", n, seed).iloc[0]
            told = {"macro_recall": (gap["value"], gap["ci_low"], gap["ci_high"])}
            rank = [ranks(one).set_axis(one["annotation_id"]) for one in both]
            shared = (rank[0] - rank[1].reindex(rank[0].index)).dropna()
            if len(shared):
                photo = metrics.photo_of(shared.index.to_series(), annotations)
                told["mean_rank"] = (shared.mean(), *_interval(shared.to_numpy(), photo, n, seed))
            for metric, (value, low, high) in told.items():
                sign = 1 if metric == "macro_recall" else -1
                apart = low > 0 or high < 0
                word = "not told apart" if not apart else "yes" if sign * value > 0 else "worse"
                rows.append((recipe, test, first, second, metric, value, low, high, word, len(both[0])))
    columns = ["recipe", "test", "first", "second", "metric", "value", "ci_low", "ci_high", "better", "n"]
    return pd.DataFrame(rows, columns=columns)


def answered(predictions: pd.DataFrame) -> pd.DataFrame:
    """Say how a run's answers spread over the classes: zero-shot models often fall on a few.

    Returns
    -------
    DataFrame
        ``run_id``, ``recipe``, ``prompts``, ``test``, ``commonest`` (answer; it may be no valid
        one), ``share`` (of the answers), ``its_share``
        (of the true labels that are that class), ``answers`` (classes answered at least once), ``classes`` (in the
        truth), ``right`` (classes with at least one right answer).
    """
    rows = []
    for run, table in predictions.groupby("run_id", sort=False):
        counts = table["y_pred"].value_counts()
        hit = table.loc[table["y_pred"] == table["y_true"], "y_true"].nunique()
        top = counts.index[0]
        shares = counts.iloc[0] / len(table), (table["y_true"] == top).mean()
        named = len(counts.drop(NO_ANSWER, errors="ignore"))
        rows.append((run, top, *shares, named, table["y_true"].nunique(), hit))
    found = pd.DataFrame(rows, columns=["run_id", "commonest", "share", "its_share", "answers", "classes", "right"])
    return found[["run_id"]].join(parts(found["run_id"])).join(found.drop(columns="run_id"))


def beside_chance() -> pd.DataFrame:
    """Put what Tables 5 and 12 print beside chance, of which the paper says nothing.

    Returns
    -------
    DataFrame
        ``table``, ``row``, ``test``, ``published`` and ``chance`` (percent of Table 5: one over the classes of the test
        set; rank of Table 12: the middle of the genera that A.6 offers), ``better``.
    """
    recall, rank = (published.zero_shot(number).assign(table=number) for number in (5, 12))
    classes = published.wide(2).set_index("split")["classes"]
    one = 100 / recall["test"].map({"S2": classes["Test-S2"], "S3": classes["Test-S3&S4"]})
    recall = recall.assign(published=100 * recall["published"], chance=one)
    rank = rank.assign(chance=(published.value("results/zero_shot/genera") + 1) / 2)
    table = pd.concat([recall, rank], ignore_index=True)[["table", "row", "test", "published", "chance"]]
    above = table["published"] >= table["chance"]
    return table.assign(better=above.where(table["table"] == 5, table["published"] < table["chance"]))


def by_class(predictions: pd.DataFrame) -> pd.DataFrame:
    """Count of each class of one run how often it is there, answered and right.

    Returns
    -------
    DataFrame
        ``label``, ``n`` (points), ``recall`` (fraction; NaN without points), ``answered`` (share of the answers),
        ``there`` (share of the points); classes that are there or answered, those that are there most often first.
    """
    true, answer = predictions["y_true"], predictions["y_pred"]
    n, said = true.value_counts(), answer.value_counts()
    right = true[true == answer].value_counts()
    labels = n.index.union(said.index).drop(NO_ANSWER, errors="ignore")
    table = pd.DataFrame({"n": n.reindex(labels, fill_value=0)}, index=labels.rename("label"))
    table["recall"] = (right.reindex(labels, fill_value=0) / table["n"]).where(table["n"] > 0)
    table["answered"] = said.reindex(labels, fill_value=0) / len(answer)
    table["there"] = table["n"] / len(true)
    return table.sort_values(["n", "answered"], ascending=False, kind="stable").reset_index()
