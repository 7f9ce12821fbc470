"""The papers' tables as data, exactly as printed, errors included. Reproduced numbers never enter here."""

from __future__ import annotations

from functools import cache

import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import share

#: What a table says that shows only published numbers.
NOTICE = "As published; no profile computed any of it."
#: The column of Tables 3 and 8-11 -> (train set, test set)
SETTINGS = {
    "train_s1_test_s1": ("S1", "S1"),
    "train_s2_test_s2": ("S2", "S2"),
    "train_s3_test_s3s4": ("S3", "S3"),
    "train_s4_test_s3s4": ("S4", "S4"),
    "train_s3_test_w": ("S3", "W"),
    "train_s4_test_w": ("S4", "W"),
}
#: S3 and S4 are tested on one and the same set
COMMON_TEST = {"S3": "S3&S4", "S4": "S3&S4"}
#: Table of one metric over `SETTINGS` -> its metric
METRIC_OF = {
    3: "macro_recall",
    4: "macro_recall",
    8: "micro_recall",
    9: "macro_f1",
    10: "macro_precision",
    11: "macro_recall",
}


@cache
def _wide(number: int) -> pd.DataFrame:
    folder = share("data", "published")
    found = sorted(folder.glob(f"table_{number:02d}_*.csv"))
    if not found:
        numbers = sorted(int(path.name[6:8]) for path in folder.glob("table_*.csv"))
        raise ReefcoreError(f"there is no published table {number}", do=f"choose one of {numbers}")
    return pd.read_csv(found[0])


def table(number: int) -> pd.DataFrame:
    """Return one published table in tidy form.

    Parameters
    ----------
    number : int
        The number of the table in the ReefNet paper, 1 to 13.

    Returns
    -------
    DataFrame
        ``table``, ``row`` (the first column's text), ``row_number`` (0-based), ``column``, ``value`` (as printed; a
        number where it is one). Missing cells are left out.

    Raises
    ------
    ReefcoreError
        Where the paper has no such table.
    """
    wide = _wide(number)
    tidy = wide.rename_axis("row_number").set_index(wide.columns[0], append=True).stack().dropna().reset_index()
    tidy.columns = ["row_number", "row", "column", "value"]
    return tidy.assign(table=number)[["table", "row_number", "row", "column", "value"]]


def wide(number: int) -> pd.DataFrame:
    """Return one published table as printed, its columns as they are; see `table` for the tidy form."""
    return _wide(number).copy()


def results(number: int) -> pd.DataFrame:
    """Return what a table of trained models prints, as fractions.

    Parameters
    ----------
    number : {3, 4, 7, 8, 9, 10, 11}

    Returns
    -------
    DataFrame
        ``model`` (the row), ``train``, ``test``, ``metric``, ``published`` (fraction in [0, 1]; the paper prints
        percent), in the paper's order. Table 7 is of Train-S4 / Test-S3&S4, as A.4.2 says.

    Raises
    ------
    ReefcoreError
        Where the table is not one of these.
    """
    if number not in METRIC_OF and number != 7:
        raise ReefcoreError(
            f"table {number} is not one of trained models", do=f"choose one of {sorted([*METRIC_OF, 7])}"
        )
    tidy = table(number)
    if number == 7:
        tidy = tidy.assign(train="S4", test="S4", metric=tidy["column"])
    else:
        where = tidy["column"].map(SETTINGS)
        tidy = tidy.assign(train=where.str[0], test=where.str[1], metric=METRIC_OF[number])
    tidy = tidy.assign(model=tidy["row"], published=pd.to_numeric(tidy["value"]) / 100)
    return tidy[["model", "train", "test", "metric", "published"]]


def zero_shot(number: int) -> pd.DataFrame:
    """Return what a table of models prints that were not trained on the classes.

    Parameters
    ----------
    number : {5, 12}

    Returns
    -------
    DataFrame
        ``row`` (the model), ``test`` (S2 and S3; of Table 12 also S1 and U: see `reefcore.splits.unfiltered`),
        ``metric``, ``published``: macro recall as a fraction (Table 5), average rank of the true class (Table 12).

    Raises
    ------
    ReefcoreError
        Where the table is another one.
    """
    if number not in (5, 12):
        raise ReefcoreError(f"table {number} is not one of zero-shot models", do="choose 5 or 12")
    tidy = table(number).assign(published=lambda t: pd.to_numeric(t["value"]))
    if number == 5:
        tests = {"within_source_test_s2": "S2", "cross_source_test_s3s4": "S3"}
        tidy = tidy.assign(test=tidy["column"].map(tests), metric="macro_recall", published=tidy["published"] / 100)
    else:
        tests = {"within-source": "S1", "within-source (QC)": "S2", "cross-source": "U", "cross-source (QC)": "S3"}
        tidy = tidy.assign(test=tidy["row"].map(tests), metric="mean_rank", row=tidy["column"])
    return tidy[["row", "test", "metric", "published"]]


@cache
def _text() -> pd.Series:
    return pd.read_csv(share("data", "published", "text_figures.csv")).set_index("name")["value"]


def text(name: str) -> float:
    """Return a figure that the paper gives in its text, by its name in ``data/published/text_figures.csv``.

    Raises
    ------
    ReefcoreError
        Where there is no such name.
    """
    if name not in _text().index:
        raise ReefcoreError(f"no figure of the text is called {name}", do="see data/published/text_figures.csv")
    return float(_text()[name])


def texts(prefix: str) -> dict[str, float]:
    """Return the figures of the text whose names start with ``prefix/``, without it."""
    found = _text()[_text().index.str.startswith(prefix + "/")]
    return {name.removeprefix(prefix + "/"): float(value) for name, value in found.items()}


def confusions() -> pd.DataFrame:
    """Return the pairs of genera that the paper names as hard to tell apart: ``first``, ``second``, ``section``."""
    return pd.read_csv(share("data", "published", "confusions.csv"))


def two_heads() -> pd.DataFrame:
    """Return what the authors print of heads for genus, family or both: ``model``, ``level``, ``recall_pct``."""
    return pd.read_csv(share("data", "published", "two_heads.csv"))


def few_shot_later() -> pd.DataFrame:
    """Return what later versions of the paper print of few-shot adaptation; the version that is companioned has none.

    Returns
    -------
    DataFrame
        ``model``, ``test`` (ReefNet or Al-Wajh), ``classes``, ``how`` (few-shot; or all labels, a full fine-tuning),
        ``shots`` (labels per class; NaN for all), ``published`` (fraction; that it is macro recall is inferred) and
        ``where``.
    """
    found = pd.read_csv(share("data", "published", "few_shot_later.csv"))
    found.insert(5, "published", found.pop("macro_recall_pct") / 100)
    return found


def substrate() -> pd.DataFrame:
    """Return the four headline figures of the reef substrate paper (Raine et al. 2025, arXiv 2509.01019).

    Nothing else of that paper is known here: no per-class table, no alpha, no figure of observers.

    Returns
    -------
    DataFrame
        Indexed by ``name`` (deployment_accuracy, patch_accuracy, frames_per_second, sites): ``value`` (percentages as
        fractions in [0, 1]), ``unit``, ``printed`` (as a person reads it), ``what`` and ``where``.
    """
    found = pd.read_csv(share("data", "published", "substrate.csv")).set_index("name")
    percent = found["unit"] == "percent"
    printed = found["value"].map("{:g}".format) + percent.map({True: " %", False: ""})
    found.insert(2, "printed", printed)
    found["value"] = found["value"].where(~percent, found["value"] / 100)
    return found.assign(unit=found["unit"].mask(percent, "fraction"))
