"""A user's file of results, as people write them, read as the results that the rules take."""

from __future__ import annotations

import re
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
    "n": "n samples support testsize testsamples points annotations nsamples ntest numberofsamples",
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
MISSING = set("- – — . / n/a na nan none null".split()) | {""}
NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE)
REPORT = {"macro avg": "macro", "weighted avg": "weighted", "accuracy": "accuracy", "micro avg": "", "samples avg": ""}


def _number(text: str, size: bool) -> tuple[float, float, bool, bool] | None:
    """Read a cell: value, step, whether it has a percent sign, whether it is a mean (± or a spread in brackets)."""
    text = re.sub(r"\\textbf|\\underline|[*_{}$†‡\s\\]", "", text.replace("\u2212", "-"))
    mean = re.fullmatch(r"(.*?)(?:±|\+/-|\+-|pm)[^±]*?(%?)|(.*?)\([^)]*\)(%?)", text)
    text = "".join(part or "" for part in mean.groups()) if mean else text
    percent, text = text.endswith("%"), text.removesuffix("%")
    if size and re.fullmatch(r"\d{1,3}([,.'’]\d{3})+", text):
        text = re.sub(r"\D", "", text)
    if "." not in text:
        text = text.replace(",", ".", 1)
    if not NUMBER.fullmatch(text):
        return None
    step = 10.0 ** Decimal(text).as_tuple().exponent
    return float(text), step if step >= 1e-7 else 0.0, percent, bool(mean)


def _columns(header: list[str], path: Path, n_rows: pd.DataFrame) -> dict[str, int]:
    keys = [re.sub("pct$|percent(age)?$", "", sheet.key(name)) for name in header]
    found = {}
    for what, aliases in ALIASES.items():
        at = next((keys.index(alias) for alias in aliases.split() if alias in keys), None)
        if at is not None:
            found[what] = at
    first = n_rows[0].str.casefold() if len(n_rows) else ()
    if "" in keys[:1] and not {"model", "class"} <= set(found):  # what pandas writes for an index
        found["class" if "class" not in found and set(REPORT) & set(first) else "model"] = 0
    if {"y_true", "y_pred"} & set(name.strip() for name in header):
        raise ReefcoreError(
            "this is a file of predictions, not of results",
            path,
            "score it: reefcore evaluate FILE --output OUT.parquet",
        )
    if not set(found) - set(NAMES) - set(SIZES):
        raise ReefcoreError(
            f"no column of results is among {', '.join(filter(None, header))}",
            path,
            "name one precision, recall, F1, accuracy, AUROC or FPR95",
        )
    return found


def _unit(what: str, header: str, cells: list[tuple[int, tuple]], path: Path) -> str:
    """Decide the unit of a column: percent where its heading, a cell, or a number above 1 says so."""
    if what == "mean_rank":
        return "rank"
    above = [cell for _, cell in cells if abs(cell[0]) > 1]
    signs = [cell[2] for _, cell in cells]
    if not (above or any(signs) or re.search("%|percent|pct", header.casefold().replace("95%", ""))):
        return "fraction"
    finest = max((cell[1] for cell in above), default=0)
    for line, (value, step, percent, _) in cells:
        if 0 < abs(value) <= 1 and not percent and (any(signs) or step < min([c[1] for c in above] or [finest])):
            raise ReefcoreError(
                f"{value:g} looks like a fraction, and other numbers of the column like percent",
                f"{path}:{line}: {header}",
                "write all of a column in one unit",
            )
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
        Results as `reefcore.audit.rules` has them. ``.attrs["units"]``: column -> how it was read; ``.attrs["unread"]``:
        columns that were not.

    Raises
    ------
    ReefcoreError
        Where a row or a cell cannot be read, a column mixes units, or nothing is a result; with line and column.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        metrics = read_parquet(path)
        if not {"run_id", "metric", "value", "n", "classes"} <= set(metrics):
            do = "score predictions first: reefcore evaluate FILE --output OUT.parquet"
            raise ReefcoreError("this is no table of metrics", path, do)
        return of_metrics(metrics).assign(table=path.name)
    head = sheet.look(path)
    if head.kind not in ("text", "workbook"):
        raise ReefcoreError("this is not a table", path, "give CSV, or xlsx")
    whole = sheet.load(head)
    broken = [problem for problem in whole.problems if problem[0] and "blank" not in problem[2]]
    if broken:
        raise ReefcoreError(f"this line {broken[0][2]}", f"{path}:{broken[0][0]}", "mend it, or quote commas in names")
    columns = _columns(head.header, path, whole.frame)
    text = {name: whole.frame[columns[name]] if name in columns else None for name in NAMES}
    values: dict[str, dict[int, tuple]] = {}
    for what, at in columns.items():
        if what in NAMES:
            continue
        values[what] = {}
        for row, cell in enumerate(whole.frame[at]):
            if cell.strip("* ").casefold() in MISSING:
                continue
            number = _number(cell, what in SIZES)
            if number is None:
                place = f"{path}:{whole.lines[row]}: {head.header[at]}"
                raise ReefcoreError(f"{cell!r} is not a number", place, "give a number, or leave the cell empty")
            values[what][row] = number
    names = pd.DataFrame({n: (t if t is not None else "") for n, t in text.items()}, index=whole.frame.index)
    names = names.apply(lambda column: column.str.strip("* ").replace(r"\\textbf\{(.*)\}", r"\1", regex=True))
    unread = [at for at, name in enumerate(head.header) if at not in columns.values() and name.strip()]
    for more in [whole.frame[unread].agg(", ".join, axis=1) if unread else None, [f"line {i}" for i in whole.lines]]:
        again = names.duplicated(keep=False)  # rows that differ in a column that was not read are of different models
        if more is not None:
            names["model"] = names["model"].where(~again, (names["model"] + ", " + pd.Series(more)).str.strip(", "))
    rows, units = [], {}
    for what in values.keys() - set(SIZES):
        header = head.header[columns[what]]
        unit = _unit(what, header, [(whole.lines[row], cell) for row, cell in values[what].items()], path)
        units[header] = f"{word(what)}, {unit}"
        for row, (value, step, _, mean) in values[what].items():
            place = f"{path.name}, line {whole.lines[row]}, column {header}"
            size = {name: values.get(name, {}).get(row, (np.nan,))[0] for name in SIZES}
            rows.append({"place": place, "table": path.name, **names.loc[row], "metric": what, "value": value})
            rows[-1] |= {"step": step, "unit": unit, "spread": mean, "row": row, "at": columns[what], **size}
    if not rows:
        raise ReefcoreError("there is no number in its columns", path, "give a row per model")
    found = pd.DataFrame(rows).sort_values(["row", "at"], ignore_index=True)
    if text["class"] is not None:
        found = _as_classes(found)
    found.attrs = {"units": units, "unread": [head.header[at] for at in unread]}
    return found.drop(columns=["row", "at"])


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
