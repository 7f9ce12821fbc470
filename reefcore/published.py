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
#: Metric -> the table that prints it
TABLE_OF = {"macro_recall": 3, "micro_recall": 8, "macro_f1": 9, "macro_precision": 10}


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


def supervised(metric: str = "macro_recall") -> pd.DataFrame:
    """Return what Tables 3, 8, 9 and 10 print, as fractions.

    Parameters
    ----------
    metric : {'macro_recall', 'micro_recall', 'macro_f1', 'macro_precision'}

    Returns
    -------
    DataFrame
        ``model``, ``train``, ``test``, ``published`` (fraction in [0, 1]; the paper prints percent).
    """
    if metric not in TABLE_OF:
        raise ReefcoreError(f"the paper prints no table of {metric}", do=f"choose one of {', '.join(TABLE_OF)}")
    tidy = table(TABLE_OF[metric])
    tidy = tidy[tidy["column"].isin(list(SETTINGS))]
    where = tidy["column"].map(SETTINGS)
    return pd.DataFrame(
        {
            "model": tidy["row"].array,
            "train": where.str[0].array,
            "test": where.str[1].array,
            "published": pd.to_numeric(tidy["value"]).to_numpy() / 100,
        }
    )


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
