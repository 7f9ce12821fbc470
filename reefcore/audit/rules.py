"""Rules for tables of results: each takes the results and gives its findings, and what it looked at without one.

Results are one row per printed number: ``place`` (for people), ``table``, ``model``, ``train``, ``test``, ``metric``,
``value`` and ``step`` (a unit of the last printed digit, in the value's own unit; 0 where it is exact), ``unit``
(percent, fraction, rank), ``n`` and ``classes`` (of the test set; NaN where not known), and where there are any
``class`` (else ``""``; `n` is then the class's own) and ``spread`` (True for a mean over several runs).

Rounding is always given its benefit: a printed number stands for all that round to it, whichever way halves go.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import ceil, comb, floor, log10, sqrt

import numpy as np
import pandas as pd

from reefcore.audit.finding import checked, finding

SCALE = {"percent": 100.0, "fraction": 1.0, "rank": 1.0}
WORDS = {"auroc": "AUROC", "fpr_at_95_tpr": "FPR@95%TPR"}
AVERAGES = {kind: tuple(f"{kind}_{name}" for name in ("precision", "recall", "f1")) for kind in ("macro", "weighted")}
TINY = 1e-9  # fractions: floating-point arithmetic
FEWEST = 5  # triples that speak, before what most of them do is said of a table
MOST = 0.8
NEAR = 3  # steps: what counts as equal to the harmonic mean; each of three numbers is rounded
Found = tuple[list[dict], list[dict]]


def ready(results: pd.DataFrame) -> pd.DataFrame:
    """Add what rules need: ``v`` and ``half`` (value and half a step, as fractions), ``setting`` and its number.

    A setting is a training and test set; where a table names neither, what it prints is of that table alone.
    """
    if "setting" in results:
        return results
    filled = {"class": "", "train": "", "test": "", "spread": False, "n": np.nan, "classes": np.nan}
    table = results.assign(**{name: value for name, value in filled.items() if name not in results})
    table = table.fillna({"class": "", "train": "", "test": "", "spread": False}).reset_index(drop=True)
    scale = table["unit"].map(SCALE)
    setting = (table["train"] + " / " + table["test"]).str.strip(" /")
    setting = setting.mask(setting == "", table["table"])
    out = table.assign(v=table["value"] / scale, half=table["step"] / scale / 2, setting=setting)
    out["order"] = pd.factorize(out["setting"])[0]
    out.attrs = results.attrs
    return out


def word(metric: str) -> str:
    """Name a metric as people do."""
    return WORDS.get(metric, metric.replace("_", " ").replace(" f1", " F1"))


def printed(cell) -> str:
    """Give a number with the digits that it was printed with."""
    digits = max(0, round(-log10(cell.step))) if cell.step else 6
    return f"{cell.value:.{digits}f}"


def _say(cell, fraction: float, more: int = 0) -> str:
    """Write a fraction in a cell's unit, with its digits and `more`."""
    digits = (max(0, round(-log10(cell.step))) if cell.step else 6) + more
    return f"{fraction * SCALE[cell.unit]:.{digits}f}"


def _rows(table: pd.DataFrame) -> list:
    return list(table.rename(columns={"class": "label"}).itertuples(index=False))


def _and(texts) -> str:
    texts = list(dict.fromkeys(map(str, texts)))
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _joined(results: pd.DataFrame, names: tuple[str, ...]) -> Iterator[tuple[tuple, list[tuple]]]:
    """Give, for each model, setting and class that has all these metrics, the ways to take one cell of each."""
    table = results[results["metric"].isin(names)]
    for key, group in table.groupby(["model", "setting", "class"], sort=False):
        cells = [_rows(group[group["metric"] == name]) for name in names]
        if all(cells):
            yield key, list(product(*cells))


def outside(results: pd.DataFrame) -> Found:
    """A share lies in [0, 1], a mean rank in [1, classes], and AUROC and FPR@95%TPR bound each other.

    At the threshold that accepts 95 % of the known, the curve is at least 0.95 high from the FPR `f` on, so AUROC is
    at least 0.95 (1 - f); before it is lower, so AUROC is at most 1 - 0.05 f (half of that is given to ties, where the
    curve is a slope).
    """
    table, findings = ready(results), []
    rank = table["unit"] == "rank"
    top = table["classes"].fillna(np.inf).where(rank, 1.0)
    low = (table["v"] + table["half"] * rank < rank - TINY) | (~rank & (table["v"] < 0))
    wrong = table[low | (table["v"] - table["half"] * rank > top + TINY)]
    for (name, metric), group in wrong.groupby(["table", "metric"], sort=False):
        cells = _rows(group)
        within = "1 to the number of classes" if cells[0].unit == "rank" else f"0 to {SCALE[cells[0].unit]:g}"
        text = f"{name}: {word(metric)} lies in {within} ({cells[0].unit}) by its definition."
        findings.append(finding("range", "impossible", [c.place for c in cells], map(printed, cells), text))
    pairs = list(_joined(table, ("auroc", "fpr_at_95_tpr")))
    for _, ways in pairs:
        for a, f in ways:
            low, high = 0.95 * (1 - f.v - f.half), 1 - 0.025 * (f.v - f.half)
            if not low - TINY <= a.v + a.half or not a.v - a.half <= high + TINY:
                text = f"With this FPR@95%TPR, AUROC is from {low:.4f} to {high:.4f}, whatever the scores."
                findings.append(finding("range", "impossible", [a.place, f.place], [printed(a), printed(f)], text))
    return findings, [checked("range", _and(table["table"].unique()), len(table) + len(pairs))]


def f1_bound(results: pd.DataFrame) -> Found:
    """An average F1 cannot exceed the mean of average precision and recall over the same classes.

    Of one class F1 is the harmonic mean of precision and recall, never above their arithmetic mean; an average with the
    same weights keeps the order. Where a number is printed twice, a finding needs all ways to take it to exceed. The
    slack, half a step of F1 and of each of the others' half, is as large for numbers that were cut off.
    """
    results, over, checks = ready(results), {}, 0
    for names in AVERAGES.values():
        for (model, setting, _), ways in _joined(results, names):
            checks += 1
            p, r, f = min(ways, key=lambda way: _excess(*way))
            if _excess(p, r, f) > TINY:
                over.setdefault((model, f.table, f.metric), []).append((setting, p, r, f))
    findings = []
    for (model, table, metric), cells in over.items():
        said = [
            f"{printed(f)} where the mean of {printed(p)} and {printed(r)} is {_say(f, (p.v + r.v) / 2)} ({setting})"
            for setting, p, r, f in cells
        ]
        text = (
            f"{table} prints for {model} a {word(metric)} above the mean of precision and recall: {_and(said)}. "
            "The F1 of a class is never above the mean of its precision and recall, so neither is the average."
        )
        flat = [cell for _, *three in cells for cell in three]
        findings.append(finding("f1_bound", "impossible", [c.place for c in flat], map(printed, flat), text))
    return findings, [checked("f1_bound", "averages of precision, recall and F1 of one model and setting", checks)]


def _excess(p, r, f) -> float:
    return f.v - f.half - (p.v + p.half + r.v + r.half) / 2


def harmonic(results: pd.DataFrame) -> Found:
    """Is what a table calls macro F1 the harmonic mean of macro precision and macro recall?

    There are two definitions (Opitz and Burst 2019, arXiv 1911.03347). The mean of the F1 of the classes is at most
    the harmonic mean of the averages (Jensen: the harmonic mean is concave), and lower by about the variance, over
    classes, of precision minus recall, divided by 4 times their mean. A triple speaks where that gap would be more
    than twice the tolerance if this difference only had a spread as large as its mean. With two classes or fewer, or
    few triples that speak, nothing is said.
    """
    results, findings, looked = ready(results), [], []
    by_table = {}
    for _, ways in _joined(results[~(results["classes"] <= 2)], AVERAGES["macro"]):
        p, r, f = min(ways, key=lambda way: abs(way[2].v - _harmonic(way[0].v, way[1].v)))
        by_table.setdefault(f.table, []).append((p, r, f, f.v - _harmonic(p.v, r.v)))
    for table, triples in by_table.items():
        step = max(cell.half for *three, _ in triples for cell in three) * 2
        speak = [abs(p.v - r.v) ** 2 > 4 * NEAR * step * (p.v + r.v) for p, r, _, _ in triples]
        near = [abs(gap) <= NEAR * step + TINY for *_, gap in triples]
        agree = sum(n for n, s in zip(near, speak, strict=True) if s)
        if not step or sum(speak) < FEWEST or agree < MOST * sum(speak):
            remark = f"{sum(speak)} of {len(triples)} could tell the definitions apart, {agree} of them equal it"
            looked.append(checked("harmonic", table, len(triples), remark))
            continue
        f = triples[0][2]
        close = sum(abs(gap) <= step + TINY for *_, gap in triples)
        above = [x for x in triples if x[3] > TINY + x[2].half + max(x[0].half, x[1].half) and abs(x[3]) <= NEAR * step]
        not_so = [x for x, n in zip(triples, near, strict=True) if not n]
        stated = results.attrs.get("stated", {}).get("macro_f1")
        text = (
            f"{close} of {len(triples)} macro F1 of {table} equal, within {_say(f, step)}, the harmonic mean of the "
            f"averaged precision and recall, and {sum(near)} within {_say(f, NEAR * step)}; of the {sum(speak)} where "
            f"the two definitions should differ visibly, {agree} do. The mean of the F1 of the classes"
            f"{f' ({stated})' if stated else ''} lies below that, the more so the more classes differ."
        )
        if above:
            text += f" {len(above)} lie above it by more than rounding, which no such mean can."
        if not_so:
            text += f" It does not hold for {_and(f'{c.model}, {c.setting}' for _, _, c, _ in not_so)}."
        if not stated:
            text += " If these are of one class, or F1 is meant as the harmonic mean, this is as it should be: say so."
        places = [
            f"{table}, {word('macro_f1')}",
            _and({r.table for _, r, _, _ in triples} | {p.table for p, *_ in triples}),
        ]
        certainty = "inconsistent" if stated else "ask"
        findings.append(finding("harmonic", certainty, places, [f"{sum(near)} of {len(triples)}"], text))
    return findings, looked


def _harmonic(p: float, r: float) -> float:
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def reversed_score(results: pd.DataFrame) -> Found:
    """An AUROC well below 0.5 with an FPR@95%TPR near 1: was the score taken the wrong way round?

    Turning a score turns AUROC to 1 - AUROC. The energy of Liu et al. (2020, arXiv 2010.03759) is low for what is
    known, the other scores are high. Below 0.5 by chance is excluded by three standard errors of a useless score, at
    their best (as many known as unknown): sqrt(1 / 3n), and by 0.1 at least; by 0.2 where n is not known. It may be
    true of data made to mislead, so it is worth asking, and inconsistent only where a text says that the score is good.
    """
    results, findings = ready(results), []
    table = results[results["metric"] == "auroc"]
    for cell in _rows(table):
        margin = max(0.1, 3 * sqrt(1 / (3 * cell.n))) if cell.n > 0 else 0.2
        same = (results["setting"] == cell.setting) & (results["table"] == cell.table)
        rate = _rows(results[same & (results["model"] == cell.model) & (results["metric"] == "fpr_at_95_tpr")])
        if cell.v + cell.half >= 0.5 - margin or (rate and rate[0].v < 0.9):
            continue
        others = _rows(table[same.loc[table.index] & (table["model"] != cell.model) & (table["v"] > 0.5)])
        said = f" ({', '.join(f'{o.model} {printed(o)}' for o in others)})" if others else ""
        stated = results.attrs.get("stated", {}).get("auroc")
        text = (
            f"{cell.table} prints for {cell.model} an AUROC of {printed(cell)}, far below chance"
            f"{f', with a FPR@95%TPR of {printed(rate[0])}' if rate else ''}. With the score turned round it would be "
            f"{_say(cell, 1 - cell.v)}, to compare with the others{said}. A score that is low for what is known, as the "
            f"energy of Liu et al. (2020), does this if it is taken as high for it."
            f"{f' The text says otherwise: {stated}.' if stated else ''}"
        )
        cells = [cell, *rate]
        certainty = "inconsistent" if stated else "ask"
        findings.append(finding("reversed_score", certainty, [c.place for c in cells], map(printed, cells), text))
    return findings, [checked("reversed_score", "AUROC", len(table))] if len(table) else []


def reachable(cell, n: float, cut: bool = False) -> bool:
    """Tell whether a share printed so can be k / n for a whole k: rounded in any way, or (`cut`) with digits cut off."""
    low, high = (cell.v, cell.v + 2 * cell.half - 2e-6 / n) if cut else (cell.v - cell.half, cell.v + cell.half)
    return ceil(low * n - 1e-6) <= floor(high * n + 1e-6)


def granularity(results: pd.DataFrame) -> Found:
    """A share of n points is k / n for a whole k (GRIM: Brown and Heathers 2017, doi 10.1177/1948550616673876).

    For accuracy, and for the recall of one class with its own n. The test bites where 1 / n is coarser than the printed
    step. Means over runs are not such shares, and are left out.
    """
    results, findings, looked = ready(results), [], []
    table = results[
        ((results["metric"] == "accuracy") | ((results["metric"] == "recall") & (results["class"] != "")))
        & results["n"].gt(0)
        & ~results["spread"].astype(bool)
    ]
    recall = table["class"] != ""
    groups = [*table[~recall].groupby(["table", "test", "n"], sort=False)]
    groups += [((*key, np.nan), group) for key, group in table[recall].groupby(["table", "model"], sort=False)]
    for (name, test, n), group in groups:
        cells = [c for c in _rows(group) if c.n * 2 * c.half < 1 - TINY]
        whose = f"{n:,.0f} points" if n == n else "the points of each class"
        where = f"{name}{f', {test}' if test else ''}"
        if not cells:
            c = _rows(group)[0]
            remark = (
                f"cannot bite: one of {c.n:,.0f} points is {_say(c, 1 / c.n, 3)}, finer than the printed {c.step:g}"
            )
            looked.append(checked("granularity", where, len(group), remark))
            continue
        failed = [c for c in cells if not reachable(c, c.n)]
        chance = 1 - np.mean([min(1.0, c.n * 2 * c.half) for c in cells])
        if not failed:
            remark = f"all can be a whole number out of {whose}; of unrelated numbers {chance:.0%} could not"
            looked.append(checked("granularity", where, len(cells), remark))
            continue
        neither = [c for c in failed if not reachable(c, c.n, cut=True)]
        text = (
            f"{len(failed)} of {len(cells)} printed shares of {where} are no whole number out of {whose}, however halves "
            f"are rounded; of numbers unrelated to it {chance:.0%} would not be. "
        )
        text += (
            f"Nor are {len(neither)} of them if digits were cut off: {_and(f'{c.model} {printed(c)}' for c in neither)}. "
            if neither
            else "All of them are if digits were cut off instead of rounded. "
        )
        for other, source in results.attrs.get("other_n", {}).get(n, {}).items():
            short = sum(not reachable(c, other) for c in cells)
            text += f"Out of {other:,.0f} ({source}) {short} of {len(cells)} are not. "
        text += "Means over runs, or weighted shares, would not be bound by this."
        certainty = "impossible" if neither else "ask"
        findings.append(finding("granularity", certainty, [c.place for c in failed], map(printed, failed), text))
    return findings, looked


def macro_recall_range(counts, correct: int) -> tuple[float, float]:
    """Give the least and the greatest macro recall of so many correct points, given how many each class has.

    A correct point of a class of c points adds 1 / (c classes) to macro recall, whatever the others are. So the greatest
    sum takes points of the smallest classes first, the least of the largest first; no exchange of one correct point for
    another improves on that.

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

    def filled(order: np.ndarray) -> float:
        return float((np.clip(correct - (order.cumsum() - order), 0, order) / order).mean())

    return filled(counts[::-1]), filled(counts)


def macro_bounds(results: pd.DataFrame) -> Found:
    """Accuracy and the sizes of the classes leave macro recall a range: see `macro_recall_range`.

    Where sizes are known (rows of classes that add up to n) it is exact. With n and the number of classes alone, the
    highest is that of classes of one point but one, and the lowest is accuracy divided by the number of classes, which
    holds as well if classes without a point count as 0. Averages over two classes or fewer are left out: there recall
    is often that of one class.
    """
    results, findings, exact, weak = ready(results), [], 0, 0
    sizes = results[(results["class"] != "") & (results["metric"] == "recall")]
    sizes = {key: group["n"] for key, group in sizes.groupby(["table", "model", "setting"])}
    for (model, setting, _), ways in _joined(results, ("accuracy", "macro_recall")):
        verdicts = []
        for a, r in ways:
            counts = sizes.get((r.table, model, setting))
            known = counts is not None and counts.notna().all() and counts.sum() == a.n
            if not a.n > 0 or not (known or (a.classes > 2 and a.n >= a.classes)):
                continue
            least = max(0, ceil((a.v - a.half) * a.n - 1e-6) - 1)
            most = min(int(a.n), floor((a.v + 2 * a.half) * a.n + 1e-6) + 1)
            if not known:
                counts = [1] * int(a.classes - 1) + [int(a.n - a.classes + 1)]
            low = macro_recall_range(counts, least)[0] if known else least / a.n / a.classes
            high = macro_recall_range(counts, most)[1]
            verdicts.append((low - TINY <= r.v + r.half and r.v - r.half <= high + TINY, a, r, low, high, known))
        exact, weak = exact + any(v[5] for v in verdicts), weak + any(not v[5] for v in verdicts)
        if verdicts and not any(v[0] for v in verdicts):
            _, a, r, low, high, known = verdicts[0]
            given = "the sizes of the classes" if known else f"{a.classes:.0f} classes of {a.n:,.0f} points"
            text = (
                f"With an accuracy of {printed(a)} and {given}, macro recall is from {_say(r, low)} to {_say(r, high)}, "
                f"whichever points are right; {model} prints {printed(r)} ({setting})."
            )
            findings.append(finding("macro_bounds", "impossible", [a.place, r.place], [printed(a), printed(r)], text))
    remark = f"{exact} with the sizes of classes, {weak} with their number alone, which leaves a wide range"
    return findings, [checked("macro_bounds", "accuracy and macro recall", exact + weak, remark)]


def twice(results: pd.DataFrame) -> Found:
    """The same number of the same model, printed in two tables, is the same but for rounding."""
    results, findings, checks, last = ready(results), {}, 0, []
    for key, group in results.groupby(["model", "metric", "setting", "class", "unit"], sort=False):
        for a, b in combinations(_rows(group), 2):
            if a.table == b.table:
                continue
            checks += 1
            if abs(a.v - b.v) > a.half + b.half + TINY:
                findings.setdefault((*key[:2], a.table, b.table), []).append((a, b))
            elif a.value != b.value:
                last.append(f"{printed(a)} and {printed(b)} ({a.place}; {b.place})")
    out = []
    for (model, metric, first, second), pairs in findings.items():
        said = _and(f"{printed(a)} and {printed(b)} ({a.setting})" for a, b in pairs)
        text = f"{first} and {second} print different numbers for the {word(metric)} of {model}: {said}."
        cells = [cell for pair in pairs for cell in pair]
        out.append(finding("twice", "inconsistent", [c.place for c in cells], map(printed, cells), text))
    remark = f"differ in the last digit, as rounding can: {'; '.join(last)}" if last else ""
    return out, [checked("twice", "numbers printed in two tables", checks, remark)]


def repeats(results: pd.DataFrame) -> Found:
    """Two different quantities of one model seldom share a number; several that do, side by side, seldom by chance.

    Compared are cells of one model that differ in metric or setting, with three digits or more, not round, aligned: all
    pairs of two metrics whose settings are so many columns apart. Two numbers that differ by `d` on the whole are
    the same in about step / d of all cases; `d` is taken as the lower quartile in the alignment, over all models, so
    that metrics which are close by nature (precision and F1; accuracy and macro recall of balanced classes) do not
    count. k of m repeats have chance comb(m, k) (step / d)^k, times the alignments looked at. A lone one among numbers
    of one unit is expected in any large table and counts below 1 in 1,000; one between a percentage and a rank or a
    fraction, whose pairs are few, where fewer than 0.1 are expected (birthday, over the spread of the model's values).
    Equal numbers of two models are no finding.
    """
    results, findings, done = ready(results), [], set()
    digits = (results["value"] / results["step"].where(results["step"] > 0)).round()
    table = results[(results["class"] == "") & (digits >= 100) & (digits % 100 != 0)].reset_index(drop=True)
    table = table.assign(row=range(len(table)))[["row", "table", "model", "metric", "value", "step", "unit", "order"]]
    pairs = table.merge(table, on="model", suffixes=("", "2")).query("row < row2")
    pairs = pairs[(pairs["metric"] != pairs["metric2"]) | (pairs["order"] != pairs["order2"])]
    pairs = pairs.assign(d=(pairs["value"] - pairs["value2"]).abs(), shift=pairs["order2"] - pairs["order"])
    pairs["same"] = pairs["d"] < TINY
    alike = pairs[pairs["unit"] == pairs["unit2"]]
    key = ["table", "metric", "table2", "metric2", "shift"]
    looks = len(alike[[*key, "model"]].drop_duplicates())
    cells = _rows(results[(results["class"] == "") & (digits >= 100) & (digits % 100 != 0)])

    def tell(found: pd.DataFrame, certainty: str, chance: str) -> None:
        pairs = [(cells[row], cells[row2]) for row, row2 in found[["row", "row2"]].itertuples(index=False)]
        names = {frozenset([(a.metric, a.setting), (b.metric, b.setting), a.model]) for a, b in pairs}
        if names <= done:
            return
        done.update(names)
        a, b = pairs[0]
        text = (
            f"{b.table} prints for {b.model}, as {word(b.metric)} ({_and(y.setting for _, y in pairs)}), "
            f"{_and(printed(x) for x, _ in pairs)}: what {a.table if a.table != b.table else 'it'} prints as "
            f"{word(a.metric)} ({_and(x.setting for x, _ in pairs)}). {chance}"
        )
        flat = [cell for pair in pairs for cell in pair]
        findings.append(finding("repeats", certainty, [c.place for c in flat], map(printed, flat), text))

    for _, group in alike.groupby(key, sort=False):
        apart = group.loc[~group["same"], "d"]
        if not group["same"].any() or apart.empty:
            continue
        for _, own in group.groupby("model", sort=False):
            m, k = len(own), int(own["same"].sum())
            chance = comb(m, k) * min(1.0, own["step"].min() / apart.quantile(0.25)) ** k * looks if k else 1.0
            if chance < (0.01 if k > 1 else 0.001):
                said = f"Of such agreements {chance:.1g} are to be expected by chance in all that was compared."
                tell(own[own["same"]], "inconsistent" if k > 1 else "ask", said)
    other = pairs[pairs["unit"] != pairs["unit2"]]
    expected = 0.0
    for _, own in other.groupby("model"):
        values = pd.concat([own["value"], own["value2"]])
        expected += len(own) * own["step"].min() / max(values.max() - values.min(), TINY)
    if expected < 0.1:
        for _, own in other[other["same"]].groupby("model", sort=False):
            tell(
                own, "ask", f"They are in different units; {expected:.2g} such agreements are to be expected by chance."
            )
    return findings, [checked("repeats", "pairs of two quantities of one model", len(pairs))]


def shifted(results: pd.DataFrame) -> Found:
    """A row that is another plus a constant, in four columns or more, within rounding.

    A row is one metric of a model over settings, or the metrics of a model in one setting. Of two rows the differences
    range over at most two steps then. By chance that is about (4 step / T)^(k - 1) for k columns, T the lower quartile of
    that range for other pairs of rows of the kind, times the pairs looked at; metrics depend on each other, so one
    column less counts there. One metric of one model in two tables is agreement.
    """
    results, findings, checks = ready(results), [], 0
    table = results[(results["step"] > 0) & (results["class"] == "") & (results["unit"] != "rank")]
    for keys, column, less in ((["metric"], "setting", 1), (["setting"], "metric", 2)):
        keys, kinds = ["table", "model", *keys], {}
        rows = [
            (key, group.drop_duplicates(column).set_index(column)) for key, group in table.groupby(keys, sort=False)
        ]
        rows = [(key, row) for key, row in rows if len(row) >= 4]
        for (one, a), (two, b) in combinations(rows[:300], 2):
            if one[1:] == two[1:]:
                continue
            common = a.index.intersection(b.index)
            if len(common) >= 4:
                d = a.loc[common, "v"] - b.loc[common, "v"]
                kind = (one[1] == two[1], *sorted([one[2], two[2]])) if column == "setting" else one[1] == two[1]
                kinds.setdefault(kind, []).append((np.ptp(d.to_numpy()), one, two, a.loc[common], b.loc[common], d))
        for pairs in kinds.values():
            checks += len(pairs)
            for span, one, two, a, b, d in pairs:
                step = 2 * max(a["half"].max(), b["half"].max())
                wide = [other[0] for other in pairs if other[0] > 2 * step + TINY]
                if span > 2 * step + TINY or len(wide) < 3:
                    continue
                if len(pairs) * min(1.0, 4 * step / np.quantile(wide, 0.25)) ** (len(d) - less) < 0.001:
                    text = (
                        f"The row {_and(one[1:])} of {one[0]} is, in {len(d)} columns, the row {_and(two[1:])} of "
                        f"{two[0]} plus {d.mean() * 100:.2f} hundredths, within rounding."
                    )
                    cells = [*_rows(a.reset_index()), *_rows(b.reset_index())]
                    places = [c.place for c in cells]
                    findings.append(finding("shifted", "inconsistent", places, map(printed, cells), text))
    return findings, [checked("shifted", "pairs of rows with four common columns", checks)]


def per_class(results: pd.DataFrame) -> Found:
    """Rows of classes agree with themselves and with their averages.

    The F1 of a class is the harmonic mean of its precision and recall (0 where both are). The macro row is the mean of
    the rows of the classes, the weighted row their mean by the points of each, and accuracy is the weighted recall.
    Averages are compared where the classes' points add up to n, so that no class is missing; where n is not given,
    a difference is worth asking only.
    """
    results, findings, checks = ready(results), [], 0
    classes = results[results["class"] != ""]
    for (model, setting, label), ways in _joined(classes, ("precision", "recall", "f1")):
        p, r, f = ways[0]
        checks += 1
        low = _harmonic(max(0, p.v - p.half), max(0, r.v - r.half))
        high = _harmonic(p.v + p.half, r.v + r.half)
        if f.v + f.half < low - TINY or f.v - f.half > high + TINY:
            text = (
                f"For the class {label} of {model} the F1 is printed as {printed(f)}; the harmonic mean of the precision "
                f"and recall printed is {_say(f, _harmonic(p.v, r.v))}, with rounding {_say(f, low)} to {_say(f, high)}."
            )
            cells = [p, r, f]
            findings.append(finding("per_class", "impossible", [c.place for c in cells], map(printed, cells), text))
    averages = results[results["class"] == ""].groupby(["table", "model", "setting", "metric"], sort=False)
    for (table, model, setting, metric), group in classes.groupby(["table", "model", "setting", "metric"], sort=False):
        n, plain = group["n"], group[["v", "half"]].mean()
        by_size = group[["v", "half"]].mul(n, axis=0).sum() / n.sum() if n.notna().all() and n.sum() else None
        kinds = {f"macro_{metric}": plain, f"weighted_{metric}": by_size}
        kinds |= {"accuracy": by_size} if metric == "recall" else {}
        for name, should in kinds.items():
            key = (table, model, setting, name)
            if should is None or key not in averages.groups:
                continue
            (cell, *_) = _rows(averages.get_group(key))
            if cell.n == cell.n and cell.n != n.sum():
                continue
            checks += 1
            if abs(cell.v - should["v"]) > cell.half + should["half"] + TINY:
                how = "the mean of the classes" if name.startswith("macro") else "the classes weighted by their points"
                text = (
                    f"The {word(name)} of {model} is printed as {printed(cell)}; {how} gives {_say(cell, should['v'])}."
                )
                places = [cell.place, f"{table}, {word(metric)} of {len(group)} classes"]
                certainty = "inconsistent" if cell.n == cell.n else "ask"
                findings.append(finding("per_class", certainty, places, [printed(cell), _say(cell, should["v"])], text))
    return findings, [checked("per_class", "classes, and their averages", checks)] if len(classes) else []


RULES = (outside, f1_bound, harmonic, macro_bounds, granularity, per_class, twice, repeats, shifted, reversed_score)
