"""The papers' numbers as data, exactly as printed, errors included. Reproduced numbers never enter here."""

from __future__ import annotations

import difflib
from decimal import Decimal
from functools import cache

import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import share

#: What a table says that shows only published numbers.
NOTICE = "As published; no profile computed any of it."
#: S3 and S4 are tested on one and the same set
COMMON_TEST = {"S3": "S3&S4", "S4": "S3&S4"}
#: Tables of trained models
TRAINED = (3, 4, 7, 8, 9, 10, 11)
#: File of further published numbers -> the columns that name a number, and the column of the numbers
FURTHER = {
    "substrate": (["name"], "value"),
    "two_heads": (["model", "level"], "recall_pct"),
    "few_shot_later": (["model", "test", "how", "shots"], "macro_recall_pct"),
}
#: Qualifier -> how it is written before a number
SIGNS = {"exact": "", "about": "~", "over": "> ", "under": "< ", "at least": "≥ ", "at most": "≤ "}
FIELDS = ["place", "value", "unit", "step", "qualifier", "table", "row", "column", "section", "printed"]


@cache
def _read(name: str) -> pd.DataFrame:
    """Read a file of ``data/published`` as text: 77.40 is not 77.4."""
    return pd.read_csv(share("data", "published", f"{name}.csv"), dtype=str, keep_default_na=False)


def _name(number: int) -> str:
    names = {int(path.name[6:8]): path.stem for path in share("data", "published").glob("table_*.csv")}
    if number not in names:
        raise ReefcoreError(f"there is no published table {number}", do=f"choose one of {sorted(names)}")
    return names[number]


def about(number: int) -> pd.Series:
    """Return what is said of a table: ``section``, ``key`` (the column that names its rows), ``title``, ``note``."""
    _name(number)
    return _read("tables").set_index("number").loc[str(number)]


def layout(number: int, kind: str) -> pd.DataFrame:
    """Return what is said of the columns of a table, or of its rows.

    Parameters
    ----------
    number : int
    kind : {'columns', 'rows'}

    Returns
    -------
    DataFrame
        Indexed by the column, or by those rows of which something is said: ``head`` (as printed), ``test`` (the test
        set, a name of Table 2, or empty); of columns also ``unit``, ``metric``, ``train``, and ``better`` (which end is
        the better one: highest, lowest, or empty where nothing is compared).
    """
    found = _read(kind).query("table == @number", local_dict={"number": str(number)})
    return found.drop(columns="table").set_index(kind[:-1])


def notes(number: int) -> dict[str, str]:
    """Return the notes on cells of a table, by place; also on cells without a value."""
    found = _read("notes").set_index("place")["note"]
    return found[found.index.str.startswith(f"{number}/") & (found != "")].to_dict()


def reproduced_in(place: str) -> str | None:
    """Return the page that reproduces a published number, such as ``40_supervised.html#supervised-table-3``.

    The longest beginning of the place in ``chapters.csv`` says it; of other cells, the index of tables (``items.csv``).
    """
    found = _read("chapters").set_index("prefix").agg("#".join, axis=1)
    of = {start: page for start, page in found.items() if place.startswith(start)}
    items = _read("items").query("paper == 'ReefNet'").set_index("item")
    item = f"Table {place.partition('/')[0]}"
    if not of and item in items.index:
        of[""] = f"{items.at[item, 'chapter'].split()[0]}#{items.at[item, 'anchor']}"
    return of[max(of, key=len)].replace("#", ".html#") if of else None


@cache
def _cells(number: int) -> pd.DataFrame:
    """Return the cells of a table, with what ``columns.csv`` says of their columns and ``rows.csv`` of their rows."""
    key = about(number)["key"]
    found = _read(_name(number)).set_index(key).stack().rename_axis(["row", "column"]).rename("text").reset_index()
    found = found[found["text"] != ""].join(layout(number, "columns"), on="column")
    tests = layout(number, "rows")["test"].to_dict()
    found["test"] = [said or tests.get(row, "") for row, said in zip(found["row"], found["test"], strict=True)]
    return found.assign(place=f"{number}/" + found["row"] + "/" + found["column"], table=number)


def _values(found: pd.DataFrame) -> pd.DataFrame:
    """Complete rows of ``place``, ``text``, ``unit`` and ``section``: the other columns of `values`."""
    for name in ("step", "qualifier", "table", "row", "column"):
        found[name] = found.get(name, pd.NA)
    numbers = pd.to_numeric(found["text"], errors="coerce")
    number = numbers.notna()
    found["value"] = numbers.astype(float).astype(object).where(number, found["text"])
    digits = [
        Decimal(text).as_tuple().exponent if is_one else 0 for text, is_one in zip(found["text"], number, strict=True)
    ]
    last = pd.Series([float(f"1e{digit}") for digit in digits], index=found.index)
    found["step"] = pd.to_numeric(found["step"]).fillna(last).where(number)
    found["qualifier"] = found["qualifier"].replace("", pd.NA).fillna("exact")
    if "printed" not in found:
        text = found["text"].where(~number | (last < 1), numbers.map("{:,.0f}".format))
        found["printed"] = found["qualifier"].map(SIGNS) + text
    return found[FIELDS]


@cache
def _all() -> pd.DataFrame:
    sizes = _read("test_sets").melt(["table", "column"], var_name="unit", value_name="text").astype({"table": int})
    sizes = sizes.assign(row="test " + sizes["unit"], unit=sizes["unit"].replace("samples", "annotations"))
    sizes["place"] = sizes["table"].astype(str) + "/" + sizes["row"] + "/" + sizes["column"]
    tables = _read("tables").astype({"number": int}).set_index("number")
    found = pd.concat([*map(_cells, tables.index), sizes]).sort_values("table", kind="stable")
    found = found.assign(section=found["table"].map(tables["section"]))
    found = found.join(_read("notes").set_index("place")[["step", "qualifier"]], on="place")
    parts = [_values(found), _values(_read("text_figures").rename(columns={"name": "place", "value": "text"}))]
    for name, (keys, value) in FURTHER.items():
        found = _read(name).rename(columns={value: "text", "where": "section"})
        found["place"] = ["/".join([name, *filter(None, row)]) for row in found[keys].itertuples(index=False)]
        parts.append(_values(found.assign(unit=found.get("unit", "percent"))))
    return pd.concat(parts, ignore_index=True).astype({"table": "Int64"})


def values() -> pd.DataFrame:
    """Return every published number of both papers: the tables, the text, and what the authors printed elsewhere.

    Returns
    -------
    DataFrame
        One row per number or word that stands in a cell or in the text: ``place`` (of a table
        ``<table>/<row>/<column>``, else the name of the figure), ``value`` (float in its own unit, or str), ``unit``
        (of words ``name``), ``step`` (the unit of the last printed digit, in the value's own unit; NaN of words),
        ``qualifier`` (exact, about, over, under, at least, at most), ``table`` (Int64), ``row``, ``column`` (NA
        outside tables), ``section``, and ``printed`` (the cell, or the words around the figure). Rows
        "test classes" and "test samples" of Tables 3, 8, 9 and 10 are there too.
    """
    return _all().copy()


def table(number: int) -> pd.DataFrame:
    """Return one published table in tidy form; see `values`, whose columns it has. Cells without a value are left out.

    Parameters
    ----------
    number : int
        The number of the table in the ReefNet paper, 1 to 13.

    Raises
    ------
    ReefcoreError
        Where the paper has no such table.
    """
    _name(number)
    return _all().query("table == @number").reset_index(drop=True)


@cache
def _by_place() -> dict[str, float | str]:
    return dict(zip(_all()["place"], _all()["value"], strict=True))


def value(place: str) -> float | str:
    """Return any published number, by its place.

    Parameters
    ----------
    place : str
        ``<table>/<row>/<column>``, such as ``3/ViT/train_s1_test_s1`` or ``2/Test-S2/annotations``; or the name of a
        figure of the text, such as ``dataset/images``; or of another file, such as ``substrate/patch_accuracy``.

    Returns
    -------
    float or str
        In its own unit: a percentage is a percentage.

    Raises
    ------
    ReefcoreError
        Where nothing is published under that name.
    """
    if place not in _by_place():
        near = difflib.get_close_matches(str(place), _by_place(), 3)
        do = f"choose from {', '.join(near)}" if near else "see reefcore.published.values()"
        raise ReefcoreError(f"no published number is called {place}", do=do)
    return _by_place()[place]


def texts(prefix: str) -> dict[str, float | str]:
    """Return the published numbers whose places start with ``prefix/``, without it; what is said again is left out.

    A number that the paper gives again is called as the number, followed by where: ``funnel/listed/3.1``.
    """
    start, all_ = prefix + "/", _by_place()
    first = [place for place in all_ if place.startswith(start) and place.rpartition("/")[0] not in all_]
    return {place.removeprefix(start): all_[place] for place in first}


def cells() -> pd.DataFrame:
    """Return what Tables 3 to 12 print of models, as `reefcore.audit.run` reads a table of results.

    Returns
    -------
    DataFrame
        ``place`` (as a person reads it), ``table``, ``model``, ``train``, ``test`` (names of Table 2; empty where the
        table names none), ``metric`` (the paper's micro recall is ``accuracy``), ``value``, ``step``, ``unit``
        (percent, fraction or rank), ``n`` and ``classes`` of the test set as Table 2 prints them, else NaN.
    """
    found = pd.concat([_cells(number) for number in range(3, 13)], ignore_index=True)
    ranks = found["metric"] == "mean_rank"  # Table 12 has its models as columns
    found["model"] = found["row"].where(~ranks, found["column"])
    found["metric"] = found["metric"].replace("micro_recall", "accuracy")
    sizes = wide(2).set_index("split")
    found = found.assign(n=found["test"].map(sizes["annotations"]), classes=found["test"].map(sizes["classes"]))
    found = found.merge(_all()[["place", "value", "step"]], on="place")
    found["table"] = "Table " + found["table"].astype(str)
    found["place"] = found["table"] + ", " + found["row"] + ", " + found["head"]
    columns = ["place", "table", "model", "train", "test", "metric", "value", "step", "unit", "n", "classes"]
    return found[columns].astype({"value": float})


def wide(number: int) -> pd.DataFrame:
    """Return one published table as printed, its columns as they are; see `table` for the tidy form."""
    return pd.read_csv(share("data", "published", f"{_name(number)}.csv"))


def _models(number: int) -> pd.DataFrame:
    """Return the cells of a table of models, with train and test set as in a run id, and percent as fractions."""
    found = _cells(number)
    train, test = found["train"].str.removeprefix("Train-"), found["test"].str.removeprefix("Test-")
    common = test == "S3&S4"
    test = test.where(~common, train.where(train != "", "S3"))
    scale = found["unit"].map({"percent": 100, "rank": 1})
    return found.assign(train=train, test=test, published=pd.to_numeric(found["text"]) / scale)


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
    if number not in TRAINED:
        raise ReefcoreError(f"table {number} is not one of trained models", do=f"choose one of {list(TRAINED)}")
    return _models(number).rename(columns={"row": "model"})[["model", "train", "test", "metric", "published"]]


def settings() -> list[tuple[str, str]]:
    """Return the pairs of train and test set of Tables 3 and 8 to 11, in the paper's order."""
    return list(dict.fromkeys(results(3)[["train", "test"]].itertuples(index=False, name=None)))


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
    found = _models(number)
    found["row"] = found["row" if number == 5 else "column"]
    return found.assign(test=found["test"].replace("", "U"))[["row", "test", "metric", "published"]]


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
