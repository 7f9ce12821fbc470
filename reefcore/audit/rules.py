"""Rules for tables of results: each takes the results and gives its findings, and what it looked at without one.

Results are one row per printed number: ``place`` (for people), ``table``, ``model``, ``train``, ``test``, ``metric``,
``value`` and ``step`` (a unit of the last printed digit, in the value's own unit; 0 where it is exact), ``unit``
(percent, fraction, rank), ``n`` and ``classes`` (of the test set; NaN where not known), and where there are any
``class`` (else ``""``; `n` is then the class's own) and ``spread`` (True for a mean over several runs).

Rules take them as `ready` completes them. Rounding is always given its benefit: a printed number stands for all that
round to it, whichever way halves go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from math import ceil, comb, floor, log10, sqrt
from operator import attrgetter, itemgetter

import numpy as np
import pandas as pd

from reefcore.audit.finding import checked, finding

SCALE = {"percent": 100.0, "fraction": 1.0, "rank": 1.0}
WORDS = {"auroc": "AUROC", "fpr_at_95_tpr": "FPR@95%TPR", "f1": "F1"}
AVERAGES = {kind: [f"{kind}_{name}" for name in ("precision", "recall", "f1")] for kind in ("macro", "weighted")}
RECALLS = ["accuracy", "macro_recall", "weighted_recall"]  # one number where all classes have as many points
TINY = 1e-9  # fractions: floating-point arithmetic
FEWEST, MOST = 5, 0.8  # triples that speak, and the share that agrees, before something is said of a table
ROWS = 2000  # compared with each other
LONE = 0.1  # single repeats expected by chance
CUT = 0.01  # chance that all numbers of a table fit cut digits
ALIKE = 1000  # points, for two models not to share all metrics by chance
LISTED = 12  # cells that a sentence names
NEAR = 3  # steps: what counts as equal to the harmonic mean; each of three numbers is rounded
Found = tuple[list[dict], list[dict]]


def ready(results: pd.DataFrame) -> pd.DataFrame:
    """Complete results for the rules: ``label`` (the class), ``v`` and ``half`` (value, half a step, as fractions).

    ``setting`` (numbered by ``order``) is the training and test set; where a table names neither, it is the table.
    ``grain``: the least by which two numbers differ: a step, or one point of n.
    """
    filled = {"class": "", "train": "", "test": "", "spread": False, "n": np.nan, "classes": np.nan}
    table = results.assign(**{name: value for name, value in filled.items() if name not in results})
    table = table.fillna({name: filled[name] for name in ("class", "train", "test", "spread")})
    setting = (table["train"] + " / " + table["test"]).str.strip(" /")
    table["setting"] = setting.mask(setting == "", table["table"])
    table["order"] = pd.factorize(table["setting"])[0]
    scale = table["unit"].map(SCALE)
    table = table.assign(v=table["value"] / scale, half=table["step"] / scale / 2).rename(columns={"class": "label"})
    table["grain"] = np.fmax(2 * table["half"], 1 / table["n"].where(table["n"] > 0))
    table.attrs = results.attrs
    return table.reset_index(drop=True)


def word(metric: str) -> str:
    """Name a metric as people do."""
    return WORDS.get(metric, metric.replace("_", " ").replace(" f1", " F1"))


def printed(cell, value: float | None = None, more: int = 0) -> str:
    """Write a cell's number, or another fraction in its unit, with the digits that it was printed with and `more`."""
    digits = (max(0, round(-log10(cell.step))) if cell.step else 6) + more
    return f"{cell.value if value is None else value * SCALE[cell.unit]:.{digits}f}"


def _rows(table: pd.DataFrame) -> list:
    return list(table.itertuples(index=False))


def _and(texts: Iterable) -> str:
    *most, last = dict.fromkeys(map(str, texts)) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _listed(cells: list) -> str:
    more = [f"{len(cells) - LISTED:,} more"] if len(cells) > LISTED else []
    return _and([f"{cell.model} {printed(cell)} ({cell.label or cell.setting})" for cell in cells[:LISTED]] + more)


def _finding(rule: str, certainty: str, cells: list, text: str) -> dict[str, str]:
    return finding(rule, certainty, [cell.place for cell in cells], map(printed, cells), text)


def _by(table: pd.DataFrame, *names: str) -> dict[tuple, list]:
    """Group rows by their values of these columns."""
    groups, key = {}, attrgetter(*names)
    for cell in _rows(table):
        groups.setdefault(key(cell), []).append(cell)
    return groups


def _joined(results: pd.DataFrame, names: list[str]) -> Iterator[tuple[tuple, list[tuple]]]:
    """Give, for each model, setting and class that has all these metrics, the ways to take one cell of each."""
    for key, cells in _by(results[results["metric"].isin(names)], "model", "setting", "label").items():
        each = [[cell for cell in cells if cell.metric == name] for name in names]
        if all(each):
            yield key, list(product(*each))


def _harmonic(p: float, r: float) -> float:
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def outside(results: pd.DataFrame) -> Found:
    """A share lies in [0, 1], a mean rank in [1, classes], and AUROC and FPR@95%TPR bound each other.

    At the threshold that accepts 95 % of the known the curve is at least 0.95 high from the FPR `f` on, so AUROC is
    at least 0.95 (1 - f); before it the curve is lower, so AUROC is at most 1 - 0.05 f (half of that is left to ties,
    where the curve is a slope).
    """
    rank, v, half = results["unit"] == "rank", results["v"], results["half"]
    top = results["classes"].fillna(np.inf).where(rank, 1.0)
    wrong = results[(v + half * rank < rank - TINY) | (v - half * rank > top + TINY)]
    findings = []
    for (name, metric), group in wrong.groupby(["table", "metric"], sort=False):
        lies = "1 and the number of classes" if metric == "mean_rank" else "0 and 1 (100 %)"
        text = f"{name} prints as {word(metric)}: {_listed(_rows(group))}. It lies between {lies} by its definition."
        findings.append(_finding("range", "impossible", _rows(group), text))
    for _, ways in _joined(results, ["auroc", "fpr_at_95_tpr"]):
        a, f = ways[0]
        low, high = 0.95 * (1 - f.v - f.half), 1 - 0.025 * (f.v - f.half)
        if a.v + a.half < low - TINY or a.v - a.half > high + TINY:
            text = f"With this FPR@95%TPR, AUROC is from {printed(a, low)} to {printed(a, high)}, whatever the scores."
            findings.append(_finding("range", "impossible", [a, f], text))
    return findings, [checked("range", _and(results["table"]), len(results))]


def f1_bound(results: pd.DataFrame) -> Found:
    """An average F1 cannot exceed the mean of average precision and recall over the same classes.

    Of one class F1 is the harmonic mean of precision and recall, never above their arithmetic mean; an average with the
    same weights keeps the order. Where a number is printed twice, a finding needs all ways to take it to exceed. The
    slack, half a step of F1 and the mean half step of the others, is as large for numbers that were cut off.
    """
    over, checks = {}, 0
    for names in AVERAGES.values():
        for (model, *_), ways in _joined(results, names):
            tries = [(f.v - f.half - (p.v + p.half + r.v + r.half) / 2, p, r, f) for p, r, f in ways]
            excess, *cells = min(tries, key=itemgetter(0))
            checks += 1
            if excess > TINY:
                over.setdefault((model, cells[2].table, cells[2].metric), []).append(cells)
    findings = []
    for (model, table, metric), triples in over.items():
        said = _and(
            f"{printed(f)} where {printed(p)} and {printed(r)} average {printed(f, (p.v + r.v) / 2)} ({f.setting})"
            for p, r, f in triples
        )
        text = (
            f"{table} prints for {model} a {word(metric)} above the mean of precision and recall: {said}. The F1 of a "
            "class is never above the mean of its precision and recall, so neither is the average."
        )
        findings.append(_finding("f1_bound", "impossible", [cell for three in triples for cell in three], text))
    return findings, [checked("f1_bound", "averages of precision, recall and F1 of one model and setting", checks)]


def _nearest(results: pd.DataFrame) -> Iterator[tuple]:
    """Give macro precision, recall and F1 of each model and setting, after the gap of F1 to the harmonic mean.

    Where a number is printed twice, the one is taken with which the gap is smallest.
    """
    for _, ways in _joined(results, AVERAGES["macro"]):
        yield min([(abs(f.v - _harmonic(p.v, r.v)), p, r, f) for p, r, f in ways], key=itemgetter(0))


def beside_harmonic(results: pd.DataFrame) -> pd.DataFrame:
    """Put each macro F1 beside the harmonic mean of macro precision and macro recall, the nearest that is printed.

    Parameters
    ----------
    results : DataFrame
        See the head of this module.

    Returns
    -------
    DataFrame
        ``model``, ``setting``, ``macro F1``, ``harmonic mean``, ``difference``; percent and points.
    """
    found = [(f.model, f.setting, 100 * f.v, 100 * _harmonic(p.v, r.v)) for _, p, r, f in _nearest(ready(results))]
    table = pd.DataFrame(found, columns=["model", "setting", "macro F1", "harmonic mean"])
    return table.assign(difference=table["macro F1"] - table["harmonic mean"])


def harmonic(results: pd.DataFrame) -> Found:
    """Is what a table calls macro F1 the harmonic mean of macro precision and macro recall?

    There are two definitions (Opitz and Burst 2019, arXiv 1911.03347). The mean of the F1 of the classes is at most
    the harmonic mean of the averages (Jensen: the harmonic mean is concave), and lower by about the variance, over
    classes, of precision minus recall, divided by 4 times their mean. A triple speaks where that gap would be more
    than twice the tolerance if this difference only had a spread as large as its mean; a model that finds a single
    class (recall of 1 / classes) says nothing, nor do two classes or fewer, nor few triples that speak.
    """
    findings, looked, by_table = [], [], {}
    for triple in _nearest(results[~(results["classes"] <= 2)]):
        by_table.setdefault(triple[3].table, []).append(triple)
    for table, triples in by_table.items():
        step = max(1e-6, *(2 * cell.half for _, *cells in triples for cell in cells))
        near = [gap <= NEAR * step + TINY for gap, *_ in triples]
        speak = [
            (p.v - r.v) ** 2 > 4 * NEAR * step * (p.v + r.v) and min(p.v, r.v) > np.fmax(0.1, 1.5 / f.classes)
            for _, p, r, f in triples
        ]
        agree = sum(a and b for a, b in zip(near, speak, strict=True))
        remark = f"{sum(speak)} can tell the definitions apart, {agree} of them are the harmonic mean"
        looked.append(checked("harmonic", table, len(triples), remark))
        if sum(speak) < FEWEST or agree < MOST * sum(speak):
            continue
        f, stated = triples[0][3], results.attrs.get("stated", {}).get("macro_f1")
        above = [c for gap, p, r, c in triples if TINY < c.v - _harmonic(p.v, r.v) - step <= (NEAR - 1) * step + TINY]
        not_so = [triple[3] for triple, follows in zip(triples, near, strict=True) if not follows]
        text = (
            f"{sum(near)} of {len(triples)} macro F1 of {table} equal, within {printed(f, NEAR * step)}, the harmonic "
            f"mean of the averaged precision and recall; of the {sum(speak)} where the two definitions should differ "
            f"visibly, {agree} do. The mean of the F1 of the classes{f' ({stated})' if stated else ''} is lower, the "
            "more so the more classes differ."
        )
        for few, said in ((above, "lie above it by more than rounding, which no such mean can"), (not_so, "differ")):
            text += f" {len(few)} {said}: {_listed(few)}." if few else ""
        text += "" if stated else " For one class, or if F1 is meant as the harmonic mean, this is as it should be."
        places = [f"{table}, macro F1", *dict.fromkeys(c.table for _, *cells in triples for c in cells[:2])]
        certainty = "inconsistent" if stated else "ask"
        findings.append(finding("harmonic", certainty, places, [f"{sum(near)} of {len(triples)}"], text))
    return findings, looked


def reversed_score(results: pd.DataFrame) -> Found:
    """An AUROC well below 0.5, with an FPR@95%TPR near 1: was the score taken the wrong way round?

    Turning a score turns AUROC to 1 - AUROC. The energy of Liu et al. (2020, arXiv 2010.03759) is low for what is
    known, the other scores are high. Chance is excluded by three standard errors of a useless score at their smallest
    (as many known as unknown: sqrt(1 / 3n)), and by 0.1 at least; by 0.2 where n is not known. It may be true of data
    made to mislead, so it is worth asking, and inconsistent only where a text says that the score is good.
    """
    findings, table = [], results[results["metric"] == "auroc"]
    stated = results.attrs.get("stated", {}).get("auroc")
    rates = {(c.table, c.model, c.setting): c for c in _rows(results[results["metric"] == "fpr_at_95_tpr"])}
    for cell in _rows(table):
        margin = max(0.1, 3 * sqrt(1 / (3 * cell.n))) if cell.n > 0 else 0.2
        rate = rates.get((cell.table, cell.model, cell.setting))
        if cell.v + cell.half >= 0.5 - margin or (rate and rate.v < 0.9):
            continue
        beside = table[(table["table"] == cell.table) & (table["setting"] == cell.setting) & (table["v"] > 0.5)]
        text = (
            f"{cell.table} prints for {cell.model} an AUROC of {printed(cell)}, far below chance"
            f"{f', with a FPR@95%TPR of {printed(rate)}' if rate else ''}. With the score turned round it would be "
            f"{printed(cell, 1 - cell.v)}{''.join(f'; {o.model} has {printed(o)}' for o in _rows(beside))}. A score "
            "that is low for what is known, as the energy of Liu et al. (2020), gives this if taken as high for it."
            f"{f' The text says otherwise: {stated}.' if stated else ''}"
        )
        cells = [cell, rate] if rate else [cell]
        findings.append(_finding("reversed_score", "inconsistent" if stated else "ask", cells, text))
    return findings, [checked("reversed_score", "AUROC", len(table))] if len(table) else []


def reachable(cell, n: float, cut: bool = False) -> bool:
    """Tell whether a printed share can be k / n for a whole k: rounded in any way, or (`cut`) with digits cut off."""
    low, high = (cell.v, cell.v + 2 * cell.half - 2e-6 / n) if cut else (cell.v - cell.half, cell.v + cell.half)
    return ceil(low * n - 1e-6) <= floor(high * n + 1e-6)


def granularity(results: pd.DataFrame) -> Found:
    """A share of n points is k / n for a whole k (GRIM: Brown and Heathers 2017, doi 10.1177/1948550616673876).

    For accuracy, and for the recall of one class with its own n. The test bites where 1 / n is coarser than the printed
    step. Means over runs are not such shares, and are left out; where a text says that some numbers are means, and not
    which, a number is not impossible. Where all of a table fit with digits cut off rather than rounded, and unrelated
    numbers would with a chance below `CUT`, nothing is said.
    """
    findings, looked = [], []
    table = results[results["n"].gt(0) & ~results["spread"].astype(bool)]
    whole, classes = table[table["metric"] == "accuracy"], table[(table["metric"] == "recall") & (table["label"] != "")]
    cut_off = set()  # tables
    for name, group in pd.concat([whole, classes]).groupby("table"):
        odds = np.fmin(1.0, group["n"] * 2 * group["half"])
        if odds.prod() < CUT and all(reachable(cell, cell.n, cut=True) for cell in _rows(group[odds < 1 - TINY])):
            cut_off.add(name)
    groups = [*whole.groupby(["table", "test", "n"], sort=False)]
    groups += [((*key, 0), group) for key, group in classes.groupby(["table", "model"], sort=False)]
    for (name, test, n), group in groups:
        whose, where = f"{n:,.0f} points" if n else "the points of the class", f"{name}{f', {test}' if test else ''}"
        cells = [cell for cell in _rows(group) if cell.n * 2 * cell.half < 1 - TINY]
        if not cells:
            c = _rows(group)[0]
            remark = f"cannot bite: one of {c.n:,.0f} points is {printed(c, 1 / c.n, 3)}, finer than {c.step:g}"
            looked.append(checked("granularity", where, len(group), remark))
            continue
        chance = 1 - np.mean([cell.n * 2 * cell.half for cell in cells])
        failed = [cell for cell in cells if not reachable(cell, cell.n)]
        cut = name in cut_off
        remark = f"{chance:.0%} of unrelated numbers would not fit"
        remark += "; all fit with digits cut off, not rounded" if failed and cut else ""
        looked.append(checked("granularity", where, len(cells), remark))
        if not failed or cut:
            continue
        neither = [cell for cell in failed if not reachable(cell, cell.n, cut=True)]
        still = f"{len(neither)} cannot: {_listed(neither)}" if neither else "all can"
        text = (
            f"{len(failed)} of the {len(cells)} shares that {where} prints cannot be a whole number out of {whose}, "
            f"however halves are rounded; nor could {chance:.0%} of numbers unrelated to it. With digits cut off "
            f"instead, {still}."
        )
        for other, source in results.attrs.get("other_n", {}).get(n, {}).items():
            short = sum(not reachable(cell, other) for cell in cells)
            text += f" Out of {other:,.0f} ({source}) {short} cannot."
        runs = results.attrs.get("stated", {}).get("runs")
        text += f" Means over runs{f' ({runs})' if runs else ''}, and weighted shares, are not bound by this."
        certainty = ("inconsistent" if runs else "impossible") if neither else "ask"
        findings.append(_finding("granularity", certainty, failed, text))
    return findings, looked


def macro_recall_range(counts, correct: int) -> tuple[float, float]:
    """Give the least and the greatest macro recall of so many correct points, given how many each class has.

    A correct point of a class of c points adds 1 / (c classes) to macro recall, whatever the others are. So the sum is
    greatest with points of the smallest classes first, and least with those of the largest first: no exchange of one
    correct point for another improves on that.

    Parameters
    ----------
    counts : sequence of int
        Points per class; classes without a point have no recall and are left out.
    correct : int
        From 0 to their sum.

    Returns
    -------
    low, high : float
        Fractions in [0, 1].
    """
    counts = np.sort(np.asarray(counts, dtype="int64"))
    counts = counts[counts > 0]
    filled = [np.clip(correct - (order.cumsum() - order), 0, order) / order for order in (counts[::-1], counts)]
    return float(filled[0].mean()), float(filled[1].mean())


def macro_bounds(results: pd.DataFrame) -> Found:
    """Accuracy and the sizes of the classes leave macro recall a range: see `macro_recall_range`.

    Where sizes are known (rows of classes that add up to n) it is exact. With n and the number of classes alone, the
    highest is that of classes of one point but one, and the lowest is accuracy divided by the number of classes. In
    both, classes without a point may count as 0. Averages over two classes or fewer are left out: recall there is often
    that of one class.
    """
    findings, exact, weak = [], 0, 0
    sizes = results[(results["label"] != "") & (results["metric"] == "recall")]
    sizes = {key: group["n"] for key, group in sizes.groupby(["table", "model", "setting"])}
    for (model, setting, _), ways in _joined(results, ["accuracy", "macro_recall"]):
        fits = []
        for a, r in ways:
            counts = sizes.get((r.table, model, setting))
            known = counts is not None and counts.sum() == a.n
            if not (known or (a.classes > 2 and a.n >= a.classes)):
                continue
            least = max(0, floor((a.v - a.half) * a.n))
            most = min(int(a.n), ceil((a.v + 2 * a.half) * a.n))
            counts = counts if known else [1] * int(a.classes - 1) + [int(a.n - a.classes + 1)]
            low = macro_recall_range(counts, least)[0] * (counts > 0).mean() if known else least / a.n / a.classes
            high = macro_recall_range(counts, most)[1]
            fits.append((low - TINY <= r.v + r.half and r.v - r.half <= high + TINY, known, a, r, low, high))
        if not fits:
            continue
        fit, known, a, r, low, high = max(fits, key=itemgetter(0))
        exact, weak = exact + known, weak + (not known)
        if not fit:
            given = "the sizes of its classes" if known else f"{a.classes:.0f} classes of {a.n:,.0f} points"
            text = (
                f"With an accuracy of {printed(a)} and {given}, macro recall is from {printed(r, low)} to "
                f"{printed(r, high)}, whichever points are right; {model} prints {printed(r)} ({setting})."
            )
            findings.append(_finding("macro_bounds", "impossible", [a, r], text))
    remark = f"{exact} with the sizes of classes, {weak} with their number alone, which leaves a wide range"
    return findings, [checked("macro_bounds", "accuracy and macro recall", exact + weak, remark)]


def per_class(results: pd.DataFrame) -> Found:
    """Rows of classes agree with themselves and with their averages.

    The F1 of a class is the harmonic mean of its precision and recall (0 where both are). The macro row is the mean of
    the rows of the classes, the weighted row their mean by the points of each, and accuracy is the weighted recall.
    Averages are compared where the classes' points add up to n, so that no class is missing; where n is not given,
    a difference is worth asking only.
    """
    findings, checks, classes = [], 0, results[results["label"] != ""]
    for (model, _, label), ways in _joined(classes, ["precision", "recall", "f1"]):
        p, r, f = ways[0]
        checks += 1
        low = _harmonic(max(0, p.v - p.half), max(0, r.v - r.half))
        high = _harmonic(p.v + p.half, r.v + r.half)
        if f.v + f.half < low - TINY or f.v - f.half > high + TINY:
            text = (
                f"For the class {label} of {model} the F1 is printed as {printed(f)}; the harmonic mean of the printed "
                f"precision and recall, with rounding, is {printed(f, low, 1)} to {printed(f, high, 1)}."
            )
            findings.append(_finding("per_class", "impossible", [p, r, f], text))
    key = ["table", "model", "setting", "metric"]
    averages = {(c.table, c.model, c.setting, c.metric): c for c in _rows(results[results["label"] == ""])}
    for (*whose, metric), group in classes.groupby(key, sort=False):
        n, both = group["n"], group[["v", "half"]]
        by_size = both.mul(n, axis=0).sum() / n.sum() if n.notna().all() and n.sum() else None
        for name, should in ((f"macro_{metric}", both.mean()), (f"weighted_{metric}", by_size), ("accuracy", by_size)):
            cell = averages.get((*whose, name)) if metric == "recall" or name != "accuracy" else None
            if cell is None or should is None or (cell.n == cell.n and cell.n != n.sum()):
                continue
            checks += 1
            if abs(cell.v - should["v"]) > cell.half + should["half"] + TINY:
                how = "their mean" if name.startswith("macro") else "their mean by the points of each"
                text = (
                    f"The {word(name)} of {cell.model} is printed as {printed(cell)}; of the {len(group)} classes "
                    f"{how} is {printed(cell, should['v'])}."
                )
                findings.append(_finding("per_class", "inconsistent" if cell.n == cell.n else "ask", [cell], text))
    return findings, [checked("per_class", "classes, and their averages", checks)] if len(classes) else []


def twice(results: pd.DataFrame) -> Found:
    """The same number of the same model, printed in two tables, is the same but for rounding."""
    found, checks, last = {}, 0, []
    for (model, metric, *_), group in _by(results, "model", "metric", "setting", "label", "unit").items():
        for a, b in combinations(group, 2):
            checks += a.table != b.table
            if a.table == b.table or a.value == b.value:
                continue
            if abs(a.v - b.v) > a.half + b.half + TINY:
                found.setdefault((model, metric, a.table, b.table), []).append((a, b))
            else:
                last.append(f"{printed(a)} and {printed(b)} ({a.place}; {b.place})")
    findings = []
    for (model, metric, first, second), pairs in found.items():
        said = _and(f"{printed(a)} and {printed(b)} ({a.setting})" for a, b in pairs)
        text = f"{first} and {second} print different numbers for the {word(metric)} of {model}: {said}."
        text += f" {stated}." if (stated := results.attrs.get("stated", {}).get("twice")) else ""
        findings.append(_finding("twice", "inconsistent", [cell for pair in pairs for cell in pair], text))
    remark = f"one last digit apart, as rounding can be: {'; '.join(last)}" if last else ""
    return findings, [checked("twice", "numbers printed in two tables", checks, remark)]


def _not_round(results: pd.DataFrame) -> pd.DataFrame:
    """Keep printed numbers of whole test sets with three digits or more that are not round: not 0, 50 or 100."""
    digits = (results["value"] / results["step"].where(results["step"] > 0)).round()
    return results[(results["label"] == "") & (digits >= 100) & (digits % 100 != 0)].reset_index(drop=True)


def repeats(results: pd.DataFrame) -> Found:
    """Two different quantities of one model seldom share a number; several that do, side by side, hardly by chance.

    Compared are cells of one model that differ in metric or setting, aligned: all pairs of two metrics (of two tables)
    whose settings are so many columns apart. Numbers that differ by `d` on the whole are the same in about step / d of
    all cases (a step, or one point of n if that is more); `d` is the lower quartile in the alignment, over all models,
    and at most the range of all that is printed of the model in these settings, so that numbers which are close by
    nature (precision and F1; all of them near 100 %) do not count; nor does accuracy that is macro recall for all
    models, as of balanced classes, nor two metrics of two classes in one setting: as many misses as false alarms make
    most of them equal. k of m repeats have the chance comb(m, k) (step / d)^k, times the alignments looked
    at. Below 1 in 100 two and more are reported. A lone one, also one between different units (a percentage
    and a rank), is worth asking where fewer than `LONE` are expected in all that was compared; in a large table more
    are. Two models may share a number.
    """
    findings, table = [], _not_round(results)
    cells = _rows(table)
    columns = ["table", "model", "metric", "value", "step", "unit", "order", "v", "grain", "classes"]
    table = table[columns].assign(row=range(len(table)))
    pairs = table.merge(table, on="model", suffixes=("", "2")).query("row < row2")
    pairs = pairs[(pairs["metric"] != pairs["metric2"]) | (pairs["order"] != pairs["order2"])]
    pairs = pairs.assign(d=(pairs["v"] - pairs["v2"]).abs(), shift=pairs["order2"] - pairs["order"])
    pairs = pairs[(pairs["shift"] != 0) | ~(pairs["classes"] <= 2)]
    pairs["same"] = (pairs["value"] - pairs["value2"]).abs() < TINY
    key = ["table", "metric", "table2", "metric2", "shift"]
    balanced = pairs[["metric", "metric2"]].isin(RECALLS).all(axis=1) & (pairs["shift"] == 0)
    pairs = pairs[~balanced | ~pairs.groupby([*key, "order"])["same"].transform("all")]
    like = pairs["unit"] == pairs["unit2"]
    of = table.groupby(["model", "order"])["v"].agg(list)
    looks, counted, told = len(pairs.loc[like, [*key, "model"]].drop_duplicates()), set(), []
    for _, group in pairs[like & pairs.groupby(key)["same"].transform("any")].groupby(key, sort=False):
        apart = group.loc[~group["same"], "d"]
        for model, own in group[group["same"]].groupby("model", sort=False):
            m, k = int((group["model"] == model).sum()), len(own)
            room = [np.ptp(of[model, i] + of[model, j]) for i, j in zip(own["order"], own["order2"], strict=True)]
            rate = (
                own[["grain", "grain2"]].min(axis=1).max() / max(min(apart.quantile(0.25), *room), TINY)
                if len(apart)
                else 1.0
            )
            expected = comb(m, k) * min(1.0, rate) ** k * looks
            if expected < (0.01 if k > 1 else LONE):
                told.append((own, "inconsistent" if k > 1 else "ask", f"{expected:.1g}"))
    other = pairs[~like].groupby("model", sort=False)
    spread = other[["value", "value2"]].max().max(axis=1) - other[["value", "value2"]].min().min(axis=1)
    expected = (other.size() * other["step"].min() / spread.clip(lower=TINY)).sum()
    if expected < LONE:
        told += [(own, "ask", f"Their units differ; {expected:.1g}") for _, own in other if own["same"].any()]
    for found, certainty, chance in told:
        both = [(cells[i], cells[j]) for i, j in found.loc[found["same"], ["row", "row2"]].to_numpy()]
        names = {frozenset([(a.metric, a.setting), (b.metric, b.setting), a.model]) for a, b in both}
        if names <= counted:  # a number that two tables print is repeated once
            continue
        counted.update(names)
        (a, b), (ones, others) = both[0], zip(*both, strict=True)
        text = (
            f"{b.table} prints for {b.model}, as {word(b.metric)} ({_and(c.setting for c in others)}), "
            f"{_and(map(printed, others))}: what {a.table} prints as {word(a.metric)} "
            f"({_and(c.setting for c in ones)}). {chance} such agreements would be expected by chance in all compared."
        )
        findings.append(_finding("repeats", certainty, [cell for pair in both for cell in pair], text))
    return findings, [checked("repeats", "pairs of two quantities of one model", len(pairs))]


def shifted(results: pd.DataFrame) -> Found:
    """A row that is another plus a constant, in four columns or more, within rounding.

    A row is one metric of a model over settings, or the metrics of a model in one setting. The differences of two such
    rows range over at most two steps. By chance that is about (4 step / T)^(k - 1) for k columns, T the lower quartile
    of that range for the other pairs of the kind (the same two metrics, one model or two) and at most the range of the
    rows themselves, times the pairs looked at; metrics depend on each other, so one column less counts there, and equal
    numbers of a row (macro and weighted, where classes are balanced) count once. Two models with the same metrics are
    left out with two classes, or with fewer than `ALIKE` points, where they may make the same mistakes, and are worth
    asking where n is not known. One metric of one model in two tables is agreement, and accuracy is macro recall where
    classes are balanced.
    """
    findings, checks, table = [], 0, _not_round(results)
    table = table[table["unit"] != "rank"]
    step, grain = 2 * table["half"].max(), table["grain"].max()
    for row, column, less in (("metric", "setting", 1), ("setting", "metric", 2)):
        wide = table.pivot_table(index=["table", "model", row], columns=column, values="v", sort=False)
        wide = wide[wide.nunique(axis=1) >= 4].iloc[:ROWS]
        if len(wide) < 2:
            continue
        i, j = np.triu_indices(len(wide), 1)
        values, count, names = wide.to_numpy(), wide.nunique(axis=1).to_numpy(), wide.index.to_frame(index=False)
        one, two, d = names.iloc[i].reset_index(), names.iloc[j].reset_index(), values[i] - values[j]
        same = one["model"] == two["model"]
        pairs = pd.DataFrame({"same": same, "k": np.isfinite(d).sum(axis=1), "span": _range(d), "i": i, "j": j})
        pairs["k"] = np.minimum(pairs["k"], np.minimum(count[i], count[j]))
        pairs["own"] = np.fmin(_range(values[i] + 0 * d), _range(values[j] + 0 * d))
        pairs["kind"] = np.sort([one[row], two[row]], axis=0).sum(axis=0) if row == "metric" else ""
        known = one[row].isin(RECALLS) & two[row].isin(RECALLS) | (one[row] == two[row])
        pairs = pairs[(pairs["k"] >= 4) & ~(same & known)]
        checks += len(pairs)
        for _, kind in pairs.groupby(["same", "kind"]):
            wider = kind.loc[kind["span"] > 2 * step + TINY, "span"]
            usual = wider.quantile(0.25) if len(wider) >= 3 else 0.0
            rate = np.minimum(1.0, 4 * grain / kind["own"].clip(TINY, max(usual, TINY)))
            hit = (kind["span"] <= 2 * step + TINY) & (len(kind) * rate ** (kind["k"] - less) < 0.01)
            for pair in _rows(kind[hit]):
                a, b = wide.index[[pair.i, pair.j]]
                apart = (wide.loc[a] - wide.loc[b]).dropna()
                whose = pd.MultiIndex.from_frame(table[["table", "model", row]]).isin([a, b])
                cells = _rows(table[whose & table[column].isin(apart.index)])
                alike = row == "setting" and apart.abs().max() <= step + TINY  # two models may make as many mistakes
                if alike and any(cell.n < ALIKE or cell.classes <= 2 for cell in cells):
                    continue
                text = (
                    f"The row {_and(a[1:])} of {a[0]} is, in {len(apart)} columns, the row {_and(b[1:])} of {b[0]} "
                    f"plus {printed(cells[0], apart.mean())}, within rounding."
                )
                certainty = "ask" if alike and any(cell.n != cell.n for cell in cells) else "inconsistent"
                findings.append(_finding("shifted", certainty, cells, text))
    return findings, [checked("shifted", "pairs of rows with four common columns", checks)]


def _range(values: np.ndarray) -> np.ndarray:
    return np.fmax.reduce(values, axis=1) - np.fmin.reduce(values, axis=1)


RULES = (outside, f1_bound, harmonic, macro_bounds, granularity, per_class, twice, repeats, shifted, reversed_score)
