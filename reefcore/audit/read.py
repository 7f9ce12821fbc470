"""A user's file of results, as people write them, read as the results that the rules take."""

from __future__ import annotations

import re
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.annotations import sheet
from reefcore.audit import of_metrics
from reefcore.audit.rules import word
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet

#: What a column is -> how its heading may be written, as letters and digits only; the first found counts
ALIASES = {
    "model": "model method row name run recipe architecture backbone network",
    "train": "train trainset training trainedon",
    "test": "test testset dataset split setting testsplit scheme benchmark",
    "class": "class label genus taxon category",
    "n": "n samples support testsize testsamples nsamples ntest numberofsamples",
    "classes": "classes nclasses numclasses numberofclasses",
    "macro_precision": "macroprecision precisionmacro macroavgprecision precision prec",
    "macro_recall": "macrorecall recallmacro macroavgrecall balancedaccuracy balancedacc uar recall rec",
    "macro_f1": "macrof1 f1macro macrof1score macroavgf1 f1 f1score fscore",
    "weighted_precision": "weightedprecision precisionweighted",
    "weighted_recall": "weightedrecall recallweighted",
    "weighted_f1": "weightedf1 f1weighted weightedf1score",
    "accuracy": "accuracy acc microrecall overallaccuracy oa top1 top1accuracy top1acc",
    "auroc": "auroc auc rocauc",
    "fpr_at_95_tpr": "fpr95 fpr95tpr fprat95tpr fprat95",
    "mean_rank": "meanrank averagerank avgrank",
}
NAMES, SIZES = ("model", "train", "test", "class"), ("n", "classes")
FIELDS = ["metric", "value", "step", "unit", "spread", *SIZES]
SCORE = "score predictions first: reefcore evaluate FILE --output OUT.parquet"
MISSING = set("- -- --- – — . / ? n/a n.a. n.a na nan none null".split()) | {""}
DEVIATION = re.compile(r"(\b|_)(sd|std|stdev|stddev|sem|stderr)(\b|_)|±|deviation", re.IGNORECASE)
NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE)
SAVE = "save it as CSV (commas, semicolons or tabs) or xlsx, with the names of the columns in the first row"
ALIAS = {alias: what for what, names in ALIASES.items() for alias in names.split()}
REPORT = {"macro avg": "macro", "weighted avg": "weighted", "accuracy": "accuracy", "micro avg": "", "samples avg": ""}


def _number(text: str, size: bool, place: str) -> tuple[float, float, bool, bool]:
    """Read a cell: value, step, whether it has a percent sign, whether ± or something in brackets follows."""
    bare = re.sub(r"\\textbf|\\underline|[*_{}$†‡\s\\]", "", text.replace("\u2212", "-"))
    mean = re.fullmatch(r"(.*?)(?:[±(\[]|\+/-|\+-|pm).*?(%?)", bare)
    bare = "".join(mean.groups()) if mean else bare
    percent, bare = bare.endswith("%"), bare.removesuffix("%")
    if size and re.fullmatch(r"\d{1,3}([,.'’]\d{3})+", bare):
        bare = re.sub(r"\D", "", bare)
    bare = bare if "." in bare else bare.replace(",", ".", 1)
    if not NUMBER.fullmatch(bare):
        raise ReefcoreError(f"{text!r} is not a number", place, "give a number, or leave the cell empty")
    number, places = float(bare), Decimal(bare).as_tuple().exponent
    if not np.isfinite(number) or (size and (number < 0 or (number > 1 and number % 1))):
        raise ReefcoreError(f"{text!r} is no {'count' if size else 'finite number'}", place, "correct it")
    return number, 10.0**places if places >= -7 else 0.0, percent, bool(mean)


def _columns(header: list[str], path: Path, frame: pd.DataFrame) -> dict[str, int]:
    """Find which column is what; a first one without a name is an index as pandas writes it."""
    keys = [re.sub("pct$|percent(age)?$", "", sheet.key(name)) for name in header]
    at = {what: [keys.index(key) for key in names.split() if key in keys] for what, names in ALIASES.items()}
    found = {what: places[0] for what, places in at.items() if places}
    if keys[found.get("class", 0)] in ("label", "category") and not {"model", "n"} & set(found):
        found["model"] = found.pop("class")  # a label of what a row is, rather than of a class
    if keys[0] == "" and not {"model", "class"} <= set(found):
        found["model" if "class" in found or not set(REPORT) & set(frame[0].str.casefold()) else "class"] = 0
    if {"ytrue", "ypred"} & set(keys):
        raise ReefcoreError("this is a file of predictions, not of results", path, SCORE)
    metrics = set(ALIASES) - {*NAMES, *SIZES}
    if len({ALIAS.get(sheet.key(name)) for name in frame.get(0, [])} & metrics) > 1:
        raise ReefcoreError("each row is a metric here", path, "exchange rows and columns: a row per model")
    if not metrics & set(found):
        named = ", ".join(" ".join(name.split()) for name in header if name)[:200]
        if len(header) < 2 or not named:
            raise ReefcoreError(f"its first row has no columns, but “{named[:60]}”", path, SAVE)
        do = "name one precision, recall, F1 or accuracy, with a row per model and test set"
        raise ReefcoreError(f"no column of results in its first row: {named}", path, do)
    return found


def _unit(what: str, header: str, cells: dict[int, tuple], lines: np.ndarray, path: Path) -> str:
    """Decide the unit of a column: percent where its heading, a cell, or a number above 1 says so."""
    signs = [cell[2] for cell in cells.values()]
    steps = [cell[1] for cell in cells.values() if abs(cell[0]) > 1]
    if what == "mean_rank":
        return "rank"
    if not (steps or any(signs) or re.search("%|percent|pct", header.casefold().replace("95%", ""))):
        return "fraction"
    for row, (value, step, percent, _) in cells.items():  # 0.81 is no percentage beside 81.2, but is beside 2.50
        if 0 < abs(value) <= 1 and not percent and (any(signs) or step < min(steps, default=0)):
            what = f"{value:g} looks like a fraction, and other numbers of the column like percent"
            raise ReefcoreError(what, f"{path}:{lines[row]}: {header}", "write all of a column in one unit")
    return "percent"


def read(path: str | Path) -> pd.DataFrame:
    """Read a table of results: one row per model (and setting), or per class as scikit-learn reports them.

    Parameters
    ----------
    path : path
        CSV with commas, semicolons or tabs, or xlsx; columns in any order and case, under any of the names in
        `ALIASES`. Or the metrics table of `reefcore evaluate --output`.

    Returns
    -------
    DataFrame
        Results as `reefcore.audit.rules` has them. ``.attrs["columns"]``: column -> how it was
        read; ``.attrs["unread"]``: columns that were not.

    Raises
    ------
    ReefcoreError
        Where a row or a cell cannot be read, a column mixes units, or nothing is a result; with line and column.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        metrics = read_parquet(path)
        if not {"run_id", "metric", "value", "n", "classes"} <= set(metrics):
            raise ReefcoreError("this is no table of metrics", path, f"give results as CSV or xlsx; or {SCORE}")
        return of_metrics(metrics).assign(table=path.name)
    try:
        head = sheet.look(path)
    except ReefcoreError as error:  # it speaks of points
        wrong, do = error.what.replace(" of points", ""), error.do
        raise ReefcoreError(wrong, path, "give CSV, or xlsx" if do == sheet.ANNOTATIONS else do) from None
    if not head.header and head.kind == "workbook":
        raise ReefcoreError("this workbook is empty", path, "save it again, or as CSV")
    if head.kind not in ("text", "workbook"):
        raise ReefcoreError("this is not a table", path, "give CSV, or xlsx")
    whole, others = sheet.load(head), []
    if head.kind == "workbook":
        with zipfile.ZipFile(path) as book:
            others = book.namelist()
        others = ["the other sheets"] * (sum(bool(re.match(r"xl/worksheets/[^/]+\.xml", name)) for name in others) > 1)
    for line, _, problem in whole.problems:
        if line and "blank" not in problem:
            what = f"this line {problem}" if problem.startswith("has") else problem
            raise ReefcoreError(what, f"{path}:{line}", "mend it, or quote commas in names")
    found = _results(head.header, whole.frame, whole.lines, path)
    found.attrs["unread"] += others
    return found


def of_table(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Read results from a table that is there already, with columns as `read` knows them; see `read`.

    All numbers of a column are taken to have as many decimals as the longest: 71.8 beside 75.47 is 71.80.
    """
    texts = table.astype(object).where(table.notna(), "").astype("str")
    for at, (_, column) in enumerate(table.items()):
        if pd.api.types.is_float_dtype(column) and np.isfinite(column.dropna()).all():
            longest = max((-Decimal(text).as_tuple().exponent for text in texts.iloc[:, at] if text), default=0)
            texts.isetitem(at, column.map(f"{{:.{longest}f}}".format, na_action="ignore").fillna(""))
    frame = texts.set_axis(range(table.shape[1]), axis=1)
    lines = np.arange(2, len(frame) + 2)
    return _results([str(column) for column in table], frame.reset_index(drop=True), lines, Path(name))


def _results(header: list[str], frame: pd.DataFrame, lines: np.ndarray, path: Path) -> pd.DataFrame:
    """Read the rows of a table, all text; `lines` are where they stand."""
    columns = _columns(header, path, frame)
    names = pd.DataFrame({name: frame[columns[name]] if name in columns else "" for name in NAMES}, index=frame.index)
    for mark, instead in (
        (r"\\textbf|[*{}]", ""),
        (r"[\s\x00-\x1f\x7f-\x9f]+", " "),
    ):  # and what moves a terminal's cursor
        names = names.apply(lambda texts, mark=mark, new=instead: texts.str.replace(mark, new, regex=True).str.strip())
    unread = [at for at, name in enumerate(header) if name.strip() and at not in columns.values()]
    for more in ([frame[at] for at in unread], [pd.Series(lines, frame.index, dtype="str").radd("line ")]):
        again = names.duplicated(keep=False)  # rows that differ in a column that was not read are of different models
        for texts in more:
            names["model"] += (", " + texts).where(again & (texts != ""), "")
    names["model"] = names["model"].str.strip(", ").replace("", path.stem)
    numbers = {what: {} for what in columns if what not in NAMES}
    for what, cells in numbers.items():
        for row, text in enumerate(frame[columns[what]]):
            if text.strip("* ").casefold() not in MISSING:
                place = f"{path}:{lines[row]}: {header[columns[what]]}"
                cells[row] = _number(text, what in SIZES, place)
    means = {row for cells in numbers.values() for row, cell in cells.items() if cell[3]}  # a row of means over runs
    if any(DEVIATION.search(header[at]) for at in unread):
        means = set(frame.index)
    rows, said = [], {header[at] or "first column": what for what, at in columns.items()}
    sizes = [numbers.pop(name, {}) for name in SIZES]
    for what, cells in numbers.items():
        name = header[columns[what]]
        unit = _unit(what, name, cells, lines, path)
        said[name] = f"{word(what)}, {unit}"
        for row, (value, step, *_) in cells.items():
            place = f"{path.name}, line {lines[row]}, column {name}"
            n, classes = (size.get(row, (np.nan,))[0] for size in sizes)
            cell = [what, value, step, unit, row in means, n, classes]
            rows.append([row, columns[what], place, path.name, *names.loc[row], *cell])
    if not rows:
        raise ReefcoreError("there is no number in its columns", path, "give a row per model")
    found = pd.DataFrame(rows, columns=["row", "at", "place", "table", *NAMES, *FIELDS]).sort_values(["row", "at"])
    found = found.drop(columns=["row", "at"]).reset_index(drop=True)
    found = _as_classes(found) if "class" in columns else found
    found.attrs = {"columns": said, "unread": [header[at] for at in unread]}
    return found


def _as_classes(found: pd.DataFrame) -> pd.DataFrame:
    """Name what rows of classes print, and the rows of averages below them, as scikit-learn's report has them."""
    kind = found["class"].str.casefold().map(REPORT)
    metric = found["metric"].str.removeprefix("macro_")
    overall = kind == "accuracy"
    found["metric"] = metric.where(kind.isna(), kind + "_" + metric).mask(overall, "accuracy")
    found["class"] = found["class"].where(kind.isna(), "")
    keep = (kind != "") & (~overall | (metric == "f1"))
    found.loc[overall & ((found["n"] % 1 != 0) | (found["n"] < 2)), "n"] = np.nan
    return found[keep].reset_index(drop=True)
