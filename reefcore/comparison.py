"""What was published beside what this profile reproduced: never one in place of the other."""

from __future__ import annotations

from functools import cache

import pandas as pd

from reefcore import curation, geography, metrics, published, recipes
from reefcore.predictions import run_parts
from reefcore.published import COMMON_TEST
from reefcore.tables import among

STAGES = {"all": "before review", "step1": "after step 1", "step2": "after step 2"}


@cache
def _recipes() -> list[recipes.Recipe]:
    return [recipes.load(name) for name in recipes.names()]


def rows_of(number: int) -> dict[str, str]:
    """Return the recipes of a published table's rows, recipe -> row, in the order of the table."""
    order = list(dict.fromkeys(published.results(number)["model"]))
    rows = {recipe.name: recipe.row for recipe in _recipes() if number in recipe.tables and recipe.row in order}
    return dict(sorted(rows.items(), key=lambda item: order.index(item[1])))


def others(metrics: pd.DataFrame) -> dict[str, str]:
    """Name runs of a metrics or predictions table that no recipe of the library made, as rows of their own."""
    known = recipes.names()
    names = run_parts(metrics["run_id"])["recipe"].unique()
    return {name: name for name in sorted(names) if name.partition(".")[0] not in known}


def beside(metrics: pd.DataFrame, rows: dict[str, str], number: int = 3) -> pd.DataFrame:
    """Put reproduced metrics beside what the paper printed for the same model and setting.

    Parameters
    ----------
    metrics : DataFrame
        The metrics table, with run ids ``<recipe>-<train set>-<test set>``.
    rows : dict
        Recipe -> row of the paper's table.
    number : int
        The table; see `reefcore.published.results`.

    Returns
    -------
    DataFrame
        ``model``, ``setting``, ``train``, ``test``, ``metric``, ``published``, ``value``, ``ci_low``, ``ci_high``,
        ``difference`` (value minus published), fractions; ``n`` and ``classes`` of the test set. Every row that the
        paper prints is there, with NaN where it was not run; a run whose row the paper lacks has NaN as published.
    """
    printed = published.results(number)
    parts = run_parts(metrics["run_id"])
    here = metrics.join(parts)[parts["recipe"].isin(list(rows))]
    here = here.assign(model=here["recipe"].map(rows))
    keys = ["train", "test", "metric"]
    here = here.merge(printed[keys].drop_duplicates(), on=keys)
    table = printed.merge(here, how="outer", on=["model", *keys])
    table["setting"] = table["train"] + " / " + table["test"].replace(COMMON_TEST)
    table["difference"] = table["value"] - table["published"]
    order = {key: list(dict.fromkeys([*printed[key], *table[key]])).index for key in ("metric", "model")}
    settings = {pair: i for i, pair in enumerate(published.settings())}
    pairs = pd.Series(list(zip(table["train"], table["test"], strict=True)), index=table.index, dtype=object)
    table = table.assign(order=pairs.map(settings), **{f"order_{key}": table[key].map(f) for key, f in order.items()})
    table = table.sort_values(["order_metric", "order", "order_model"], ignore_index=True)
    values = ["published", "value", "ci_low", "ci_high", "difference", "n", "classes"]
    return table[["model", "setting", *keys, *values]]


def in_percent(table: pd.DataFrame) -> pd.DataFrame:
    """Arrange what `beside` returns for print: percent, with the interval in two columns."""
    percent = 100 * table[["published", "value", "ci_low", "ci_high", "difference"]]
    percent.columns = ["published", "reproduced", "low", "high", "difference"]
    return pd.concat([table[["metric", "setting", "model"]], percent, table[["n", "classes"]]], axis=1)


def sentence(table: pd.DataFrame, metric: str) -> str:
    """Say in words what a figure of `beside` shows: the best of each setting, here and as published."""
    run = table.dropna(subset=["published", "value"])
    parts = []
    for setting, rows in run.groupby("setting", sort=False):
        here, printed = rows.loc[rows["value"].idxmax()], rows.loc[rows["published"].idxmax()]
        parts.append(f"{setting} {here.model} {here.value:.0%} ({printed.model} {printed.published:.0%})")
    return f"Best {metric.replace('_', ' ')} here (published): " + ("; ".join(parts) or "none was run") + "."


def not_run(table: pd.DataFrame) -> str:
    """Say which rows of what `beside` returns were not run, and in which settings."""
    missing = table[table["value"].isna()].drop_duplicates(["model", "setting"])
    if missing.empty:
        return "Every row and setting of the published table was run in this profile."
    settings = missing.groupby("model", sort=False)["setting"].agg(list)
    everywhere = settings.map(len) == table["setting"].nunique()
    parts = [f"{', '.join(settings.index[everywhere])} (in no setting)"] if everywhere.any() else []
    parts += [f"{model} ({', '.join(names)})" for model, names in settings[~everywhere].items()]
    return f"Not run in this profile: {'; '.join(parts)}."


def test_sets(table: pd.DataFrame) -> pd.DataFrame:
    """Count classes and points of the test sets, as the last rows of the paper's tables do, from its Table 2.

    Parameters
    ----------
    table : DataFrame
        From `beside`.

    Returns
    -------
    DataFrame
        ``setting``, and of ``classes`` and ``points`` what is ``published`` and what is here (``<name>, here``).
    """
    printed = published.wide(2).set_index("split")
    first = table.groupby("setting", sort=False).agg({"test": "first", "classes": "first", "n": "first"})
    names = "Test-" + first["test"].replace(COMMON_TEST)
    return pd.DataFrame(
        {
            "setting": first.index,
            "classes, published": printed.loc[names, "classes"].array,
            "classes, here": first["classes"].array,
            "points, published": printed.loc[names, "annotations"].array,
            "points, here": first["n"].array,
        }
    )


def recipes_table(
    rows: dict[str, str], runs: pd.DataFrame, size: str = "sample", changes: dict | None = None
) -> pd.DataFrame:
    """Put what each recipe is in the paper beside what this profile trains.

    Parameters
    ----------
    rows : dict
        Recipe -> row of the paper's table.
    runs : DataFrame
        ``recipe`` and ``parameters`` (numbers that are learnt) of each run; NaN for a recipe that was not run.
    size : {'sample', 'full'}
        Of this profile.
    changes : dict, optional
        What the profile sets in each of them.
    """
    shown = {"model": "model", "px": "input_size", "epochs": "epochs", "weights": "weights"}
    learnt = runs.drop_duplicates("recipe").set_index("recipe")["parameters"]
    table = []
    for name, row in rows.items():
        full, here = recipes.load(name, "full"), recipes.load(name, size, changes)
        both = [(full, "paper"), (here, "here")]
        values = {f"{what}, {whose}": getattr(r, key) for what, key in shown.items() for r, whose in both}
        learnt_here = {"parameters, here": learnt.get(name, float("nan"))}
        models = {key: values.pop(key) for key in ("model, paper", "model, here")}
        table.append({"row": row} | models | learnt_here | values)
    return pd.DataFrame(table)


def training_sets(runs: pd.DataFrame) -> pd.DataFrame:
    """Put the points of the paper's training sets beside what a run of this profile trains on.

    Parameters
    ----------
    runs : DataFrame
        ``train_set`` (empty for a pretraining, which is left out), ``train_patches`` and ``epochs`` of each run.
    """
    printed = published.wide(2).set_index("split")["annotations"]
    by = runs[runs["train_set"] != ""].groupby("train_set")
    table = by.agg(runs=("run", "size"), patches=("train_patches", "median"), epochs=("epochs", "median"))
    table.insert(0, "points, paper", printed[[f"Train-{name}" for name in table.index]].array)
    names = {"train_set": "train set", "patches": "patches of a run, here", "epochs": "epochs, here"}
    return table.reset_index().rename(columns=names)


def with_paper(rows: dict[str, tuple[str | float, float]]) -> pd.DataFrame:
    """Put figures of the paper beside those of this profile.

    Parameters
    ----------
    rows : dict
        Quantity -> what the paper says (a name of ``data/published/text_figures.csv``, or what follows from such
        figures), and the value here.

    Returns
    -------
    DataFrame
        ``quantity``, ``published``, ``here``, ``difference``; ``.attrs["places"]``: the names of published values, by
        quantity.
    """
    table = pd.DataFrame(
        [
            (name, published.value(paper) if isinstance(paper, str) else paper, here)
            for name, (paper, here) in rows.items()
        ],
        columns=["quantity", "published", "here"],
    )
    table.attrs["places"] = {name: paper for name, (paper, _) in rows.items() if isinstance(paper, str)}
    return table.assign(difference=table["here"] - table["published"])


def largest_ecoregions(regions: pd.DataFrame) -> pd.DataFrame:
    """Put the three ecoregions with the most annotations in the paper (A.2.5), and how many it has, beside those here.

    Parameters
    ----------
    regions : DataFrame
        From `reefcore.geography.by_ecoregion`.

    Returns
    -------
    DataFrame
        See `with_paper`. Shares are percent of all annotations: counts of a sample are not meant to agree.
    """
    paper, total = published.texts("places"), published.value("dataset/coral_annotations")
    here = regions.set_index("ecoregion")
    names = list(dict.fromkeys(name.split("/")[0] for name in paper))
    rows = {}
    for name in names:
        got = here.loc[name] if name in here.index else dict.fromkeys(("sources", "annotations", "share"), 0)
        rows[f"{name}: sources"] = (f"places/{name}/sources", got["sources"])
        rows[f"{name}: annotations"] = (f"places/{name}/annotations", got["annotations"])
        rows[f"{name}: share (%)"] = (100 * paper[f"{name}/annotations"] / total, 100 * got["share"])
    together = sum(paper[f"{name}/annotations"] for name in names)
    rows["these three: share (%)"] = (100 * together / total, 100 * here["share"].reindex(names).sum())
    count = int((regions["ecoregion"] != geography.NO_PLACE).sum())
    rows["ecoregions (as section 3.3.1 says)"] = ("dataset/ecoregions", count)
    rows["ecoregions (as A.2.5 and Figure 7 say)"] = ("dataset/ecoregions_figure_7", count)
    return with_paper(rows)


def data_set(
    annotations: pd.DataFrame, sources: pd.DataFrame, images: pd.DataFrame, reviews: pd.DataFrame, site: str
) -> pd.DataFrame:
    """Count what a data set holds beside what the paper says of ReefNet; see `with_paper`.

    The held-out site counts, as in the paper (its 924,626 are 920,017 and the 4,609 of Al-Wajh), but for sources,
    places and verdicts, which the paper gives of CoralNet's sources.
    """
    elsewhere = annotations[annotations["source"] != site]
    corals = curation.hard_corals(annotations)
    named = corals[corals["rank"].isin(["genus", "family"])]
    counted = {
        "images": ("dataset/images", len(images)),
        "images with hard corals": ("dataset/images_with_corals", corals.groupby(["source", "image"]).ngroups),
        "hard-coral annotations": ("dataset/coral_annotations", len(corals)),
        "of a genus or family": ("labels/in_classes", len(named)),
        "genera and families": ("dataset/labels", named["label"].nunique()),
        "sources": ("dataset/sources", int((sources["source"] != site).sum())),
        "ecoregions": ("dataset/ecoregions", elsewhere["ecoregion"].nunique()),
        "points per image (median)": (
            "dataset/points_per_image_median",
            elsewhere.groupby(["source", "image"]).size().median(),
        ),
        "reviewed": (
            "review/all/reviewed",
            int(among(reviews["annotation_id"], named.loc[named["source"] != site, "annotation_id"]).sum()),
        ),
    }
    return with_paper(counted)


def point_layouts(annotations: pd.DataFrame, sources: pd.DataFrame, site: str) -> pd.DataFrame:
    """Put how points were laid out, and how many per image, beside the paper's A.2.4; see `with_paper`.

    Parameters
    ----------
    annotations, sources : DataFrame
        `sources` with a column ``layout`` where that is known.
    site : str
        The held-out source, which does not count.
    """
    layouts = sources[sources["source"] != site].reindex(columns=["layout"])["layout"].value_counts()
    rows = {f"sources with {name} points": (f"points/{name}", count) for name, count in layouts.sort_index().items()}
    points = annotations[annotations["source"] != site].groupby(["source", "image"]).size()
    rows["points per image, mean"] = ("points/mean", points.mean())
    rows["points per image, median"] = ("dataset/points_per_image_median", points.median())
    rows["points per image, least"] = ("points/least", points.min())
    rows["points per image, most"] = ("points/most", points.max())
    return with_paper(rows)


def source_funnel(steps: pd.DataFrame) -> pd.DataFrame:
    """Put the sources that each rule leaves beside the paper's A.2.1.

    Parameters
    ----------
    steps : DataFrame
        From `reefcore.curation.source_funnel`.

    Returns
    -------
    DataFrame
        ``rule``, ``reason``, ``published``, ``here`` (NA where the rule was not applied), ``difference``, ``dropped``.
    """
    printed = published.texts("funnel")
    table = steps.rename(columns={"sources": "here"}).assign(published=steps["rule"].map(printed).astype("Int64"))
    table["difference"] = table["here"] - table["published"]
    return table[["rule", "reason", "published", "here", "difference", "dropped"]]


def review_filters(summary: pd.DataFrame) -> pd.DataFrame:
    """Put the two review filters beside the paper's section 3.4.

    Parameters
    ----------
    summary : DataFrame
        From `reefcore.review.filter_summary`.

    Returns
    -------
    DataFrame
        ``stage``, ``quantity``, ``published`` (NaN where the paper gives none), ``reproduced``, ``difference``.
    """
    printed = published.texts("review")
    names = {"agreement": "expert agreement (%)"}
    rows = []
    for stage in summary.itertuples():
        for quantity in ("agreement", "annotations", "labels", "sources", "reviewed"):
            value = getattr(stage, quantity) * (100 if quantity == "agreement" else 1)
            paper = printed.get(f"{stage.stage}/{quantity}", float("nan"))
            rows.append((STAGES[stage.stage], names.get(quantity, quantity), paper, value, value - paper))
    table = pd.DataFrame(rows, columns=["stage", "quantity", "published", "reproduced", "difference"])
    return table.sort_values("quantity", key=lambda s: s != names["agreement"], kind="stable", ignore_index=True)


def splits(summary: pd.DataFrame) -> pd.DataFrame:
    """Put splits beside the paper's Table 2.

    Parameters
    ----------
    summary : DataFrame
        From `reefcore.splits.summary`.

    Returns
    -------
    DataFrame
        One row per printed split: for each quantity ``<quantity>, published`` and ``<quantity>, here``; the
        ``difference`` is of the agreement, in percentage points (counts of a sample are not meant to agree).
    """
    ours = summary.set_index(["scheme", "part"])
    rows = []
    for printed in published.wide(2).itertuples():
        part, _, name = printed.split.partition("-")
        key = (name[:2].rstrip("&"), part.lower()) if name != "W" else ("W", "test")
        if key not in ours.index:
            continue
        here = ours.loc[key]
        rows.append(
            {
                "split": printed.split,
                "annotations, published": printed.annotations,
                "annotations, here": here["annotations"],
                "classes, published": printed.classes,
                "classes, here": here["classes"],
                "sources, published": printed.sources,
                "sources, here": here["sources"],
                "classes in train, published": printed.classes_in_train,
                "classes in train, here": here["classes_in_train"],
                "agreement, published": printed.expert_agreement_pct,
                "agreement, here": 100 * here["agreement"],
                "difference": 100 * here["agreement"] - printed.expert_agreement_pct,
            }
        )
    return pd.DataFrame(rows)


def within_minus_across(
    predictions: pd.DataFrame, annotations: pd.DataFrame, rows: dict[str, str], n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Compute what crossing to other sources costs each model: S1 minus S3, and S2 minus S4, in macro recall.

    Parameters
    ----------
    predictions : DataFrame
        Of runs ``<recipe>-S1-S1`` and so on.
    annotations : DataFrame
        ``annotation_id``, ``source``, ``image``: photos are what is resampled.
    rows : dict
        Recipe -> row of the paper's Table 3.
    n, seed : int
        Of the bootstrap; the two test sets are resampled independently.

    Returns
    -------
    DataFrame
        ``model``, ``pair``, ``published drop``, ``within``, ``across``, ``drop``, ``low`` and ``high``, in percent or
        percentage points; NaN where it was not run, or not published.
    """
    predictions = predictions.assign(photo=metrics.photo_of(predictions["annotation_id"], annotations))
    paper = published.results(3).set_index(["model", "train", "test"])["published"]
    table = []
    for pair in (("S1", "S3"), ("S2", "S4")):
        for name, model in rows.items():
            printed = [paper.get((model, scheme, scheme), float("nan")) for scheme in pair]
            values = [printed[0] - printed[1], *[float("nan")] * 5]
            runs = [predictions[predictions["run_id"] == f"{name}-{scheme}-{scheme}"] for scheme in pair]
            if all(map(len, runs)):
                scores = [metrics.score(run["y_true"], run["y_pred"])["macro_recall"] for run in runs]
                first, second = (
                    metrics.resample(run["y_true"], run["y_pred"], run["photo"], n, seed + i)["macro_recall"]
                    for i, run in enumerate(runs)
                )
                values[1:] = [*scores, scores[0] - scores[1], *(first - second).quantile([0.025, 0.975])]
            table.append((model, f"{pair[0]} - {pair[1]}", *(100 * value for value in values)))
    columns = ["model", "pair", "published drop", "within", "across", "drop", "low", "high"]
    return pd.DataFrame(table, columns=columns)
