"""Other reefs as test domains: what a classifier of genera is worth on data sets that others annotated in their way.

A point tests as much as its label allows: a genus that the model knows, the family of any hard coral, or only whether
there is a hard coral. What it cannot test is counted, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from reefcore import benthos, metrics, open_set, taxonomy
from reefcore.annotations.masks import BINARY, CORAL
from reefcore.errors import ReefcoreError
from reefcore.files import share
from reefcore.tables import SCORE

NOT_SAID = ("Unclear", "Not benthos", "Other", benthos.DEAD)  # groups of which nobody can say: a hard coral or none
LEVELS = ("genus", "family", "coral or not")
OTHER = "not coral"


def datasets() -> pd.DataFrame:
    """List the data sets that can be test domains, with what is known of each; see ``data/domains/README.md``."""
    return pd.read_csv(share("data", "domains", "datasets.csv"), dtype="str")


def labelled(annotations: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Say of the points of a data set what their labels mean.

    Parameters
    ----------
    annotations : DataFrame
        From `reefcore.annotations.read`.
    dataset : str
        One of `datasets`; another name is read as any other file's labels are.

    Returns
    -------
    DataFrame
        The same rows with those of `reefcore.benthos.apply`, ``dataset``, ``family`` (of hard corals) and ``coral``
        (boolean: whether it is a hard coral, of a binary mask whether it is any coral; missing where the label does not
        say, as for dead coral).
    """
    known = datasets().set_index("dataset")
    if dataset in BINARY:
        coral = annotations["label_raw"].eq(CORAL).astype("boolean")
        empty = dict.fromkeys(("genus", "life_form", "family"), pd.Series(None, index=annotations.index, dtype="str"))
        return annotations.assign(functional_group=annotations["broad_category"], **empty, coral=coral, dataset=dataset)
    ocean = known["ocean"].get(dataset)
    table = benthos.apply(annotations, benthos.propose(annotations, ocean if isinstance(ocean, str) else None))
    return told(table, dataset)


def told(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Say of points whose labels are mapped, as those of a site are, what they can test: adds what `labelled` does."""
    group = table["functional_group"]
    hard = group.eq(taxonomy.HARD_CORAL)
    named = hard & table["rank"].isin(["species", "genus", "family"])
    family = table["label"].where(named).map(taxonomy.family_of(table.loc[named, "label"].unique()))
    coral = hard.astype("boolean").mask(group.isin(NOT_SAID))
    return table.assign(family=family.astype("str"), coral=coral, dataset=dataset)


def testable(points: pd.DataFrame, classes: Iterable[str]) -> pd.DataFrame:
    """Count what the points of each data set can test of a model.

    Parameters
    ----------
    points : DataFrame
        From `labelled`; several data sets below each other.
    classes : iterable of str
        The classes of the model.

    Returns
    -------
    DataFrame
        ``dataset``, ``points``, ``photos``, ``genera`` (classes in common), ``genus`` (points of a class of the model),
        ``genus, share``, ``other genus`` (points of a genus or family that it does not know), ``family`` (of a hard
        coral whose family is known), ``coral``, ``not coral``, ``not said``.
    """
    classes, rows = set(classes), []
    for name, part in points.groupby("dataset", sort=True):
        hard, known = part["family"].notna(), part["label"].isin(classes)
        row = {"dataset": name, "points": len(part), "photos": len(part.drop_duplicates(["source", "image"]))}
        row |= {
            "genus": int((hard & known).sum()),
            "other genus": int((hard & ~known).sum()),
            "family": int(hard.sum()),
        }
        row |= {"coral": int(part["coral"].eq(True).sum()), "not coral": int(part["coral"].eq(False).sum())}
        row |= {"not said": int(part["coral"].isna().sum()), "genera": part.loc[hard & known, "label"].nunique()}
        rows.append(row | {"genus, share": row["genus"] / len(part)})
    names = ["dataset", "points", "photos", "genera", "genus", "genus, share", "other genus", "family", "coral"]
    return pd.DataFrame(rows, columns=[*names, "not coral", "not said"])


def joined(predictions: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Put the points of `labelled` beside predictions, by ``annotation_id``; points without an answer are left out.

    Raises
    ------
    ReefcoreError
        Where no prediction is of any of these points.
    """
    names = ["annotation_id", "dataset", "source", "image", "label", "family", "coral"]
    own = predictions.drop(columns=names[1:], errors="ignore")  # the file may say where its points lie, too
    table = own.merge(points[names].drop_duplicates("annotation_id"), on="annotation_id")
    if table.empty and len(predictions):
        do = "an annotation_id stands for source, image, row, column and label: predict the points of domain_points"
        raise ReefcoreError("none of these predictions is of a point of the test domains", do=do)
    return table


def known_classes(predictions: pd.DataFrame) -> list[str]:
    """Name the classes of one run: those it has scores for, else those it answers anywhere, which may be fewer."""
    scored = [
        name.removeprefix(SCORE) for name in predictions if name.startswith(SCORE) and predictions[name].notna().any()
    ]
    return sorted(scored or predictions["y_pred"].unique())


def _is_coral(names: Iterable[str]) -> dict[str, bool]:
    known = taxonomy.taxa()
    corals = {*known["taxon"], *known["family"], taxonomy.HARD_CORAL, "Scleractinia", CORAL}
    return {name: name in corals for name in names}


def evaluate(predictions: pd.DataFrame, points: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Score predictions at every level that the labels of each data set allow, with intervals over photos.

    ``genus``: points of a class of the model. ``family``: points of a hard coral whose family is known, also of genera
    that the model does not know; the family of the answer counts. ``coral or not``: whether the answer is a coral
    (a model that knows nothing else always says so: macro recall 0.5) and, for every score of how sure a model is of
    its classes, how well it tells corals from the rest (``auroc``).

    Parameters
    ----------
    predictions : DataFrame
        The predictions table of any runs, on these points.
    points : DataFrame
        From `labelled`.
    n, seed : int
        Of the bootstrap.

    Returns
    -------
    DataFrame
        ``dataset``, ``run_id``, ``level``, ``metric`` (macro_recall, accuracy, auroc), ``score`` (of auroc), ``value``,
        ``ci_low``, ``ci_high``, ``points``, ``photos``, ``classes`` (in the truth). A level without points has no row.
    """
    rows, knows = [], {run: known_classes(part) for run, part in predictions.groupby("run_id")}
    for (dataset, run), part in joined(predictions, points).groupby(["dataset", "run_id"], sort=True):
        photo = part["source"] + "/" + part["image"]
        classes, corals = knows[run], _is_coral(part["y_pred"].unique())
        answer = {True: CORAL, False: OTHER}
        families = taxonomy.family_of(part["y_pred"].unique())
        asked = {
            "genus": (part["family"].notna() & part["label"].isin(classes), part["label"], part["y_pred"]),
            "family": (part["family"].notna(), part["family"], part["y_pred"].map(families)),
            "coral or not": (part["coral"].notna(), part["coral"].map(answer), part["y_pred"].map(corals).map(answer)),
        }
        for level, (use, truth, said) in asked.items():
            if not use.any():
                continue
            told = {"dataset": dataset, "run_id": run, "level": level, "points": int(use.sum())}
            told |= {"photos": photo[use].nunique(), "classes": truth[use].nunique()}
            scores = metrics.bootstrap(truth[use], said[use], photo[use], n, seed)
            rows += [
                told | row for row in scores[scores["metric"].isin(["macro_recall", "accuracy"])].to_dict("records")
            ]
            if level == LEVELS[2] and truth[use].nunique() == 2 and any(name.startswith(SCORE) for name in part):
                rows += [told | row for row in _surer(part[use], classes, n, seed)]
    names = "dataset run_id level metric score value ci_low ci_high points photos classes".split()
    return pd.DataFrame(rows, columns=names)


def _surer(part: pd.DataFrame, classes: list[str], n: int, seed: int) -> list[dict]:
    """Measure how well the scores of a run tell corals, which it may know, from what it cannot know."""
    asked = open_set.with_scores(part.dropna(axis=1, how="all")).assign(
        y_true=part["coral"].astype("bool").map({True: classes[0], False: OTHER})
    )
    found = open_set.bootstrap(asked, asked[["annotation_id", "source", "image"]], n, seed)
    return found[found["metric"] == "auroc"][["metric", "score", "value", "ci_low", "ci_high"]].to_dict("records")


def confusions(predictions: pd.DataFrame, points: pd.DataFrame, most: int = 3) -> pd.DataFrame:
    """List what the hard corals of each data set are most often taken for.

    Returns
    -------
    DataFrame
        ``dataset``, ``run_id``, ``truth``, ``answer``, ``points``, ``share`` (of the points of this truth): wrong
        answers, at most `most` of each data set and run.
    """
    table = joined(predictions, points)
    table = table[table["family"].notna()]
    by = ["dataset", "run_id", "label"]
    counts = table.groupby([*by, "y_pred"], as_index=False).size()
    counts["share"] = counts["size"] / counts.groupby(by)["size"].transform("sum")
    wrong = counts[counts["label"] != counts["y_pred"]]
    wrong = wrong.sort_values(
        ["dataset", "run_id", "size", "label", "y_pred"], ascending=[True, True, False, True, True]
    )
    wrong = wrong.groupby(["dataset", "run_id"]).head(most)
    return wrong.rename(columns={"label": "truth", "y_pred": "answer", "size": "points"}).reset_index(drop=True)[
        ["dataset", "run_id", "truth", "answer", "points", "share"]
    ]


def wide(measured: pd.DataFrame, score: str = "msp") -> pd.DataFrame:
    """Arrange `evaluate` with a row for each data set, run and level.

    Returns
    -------
    DataFrame
        ``dataset``, ``run_id``, ``level``, ``classes``, ``points``, ``photos``, ``macro recall``, ``accuracy``,
        ``AUROC`` (of that score), and ``main`` with its ``ci_low`` and ``ci_high``: AUROC for coral or not where there
        is one, else macro recall.
    """
    told, keys = measured[measured["score"].isna() | measured["score"].eq(score)], ["dataset", "run_id", "level"]
    table = told.drop_duplicates(keys)[[*keys, "classes", "points", "photos"]].reset_index(drop=True)
    values = told.pivot(index=keys, columns="metric", values="value").reindex(
        columns=["macro_recall", "accuracy", "auroc"]
    )
    main = told.sort_values("metric", key=lambda names: names.map(["auroc", "macro_recall", "accuracy"].index))
    main = main.drop_duplicates(keys).rename(columns={"value": "main"})[[*keys, "main", "ci_low", "ci_high"]]
    named = values.rename(columns={"macro_recall": "macro recall", "auroc": "AUROC"}).reset_index()
    return table.merge(named, on=keys).merge(main, on=keys)
