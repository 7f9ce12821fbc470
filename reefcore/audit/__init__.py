"""Are tables of results consistent with themselves, with each other and with what they are defined as?

`run` reads the paper's tables, or any others, by the rules of `reefcore.audit.rules`; `report` says the outcome in
plain language. A finding says what printed numbers cannot be, or do not agree with; never why.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pandas as pd

from reefcore import published
from reefcore.audit import rules, statements
from reefcore.audit.finding import CERTAINTY, checked
from reefcore.errors import ReefcoreError
from reefcore.predictions import run_parts

FINDINGS = ["rule", "certainty", "where", "values", "text"]
CHECKED = ["rule", "where", "checks", "remark"]
NEEDED = ["place", "table", "model", "metric", "value", "step", "unit"]
#: What the paper's text says of metrics, of runs, and of numbers printed twice: its tables are held against that
STATED = {
    "macro_f1": "section A.4.5: “calculated as the macro-average F1 across all classes”",
    "runs": "section 8: “we report results across multiple runs where applicable”",
    "twice": "Section A.4.4 calls those of Table 11 “updated BioCLIP-FT results”",
    "auroc": "section A.4.1: “magnitude-sensitive approaches like MLS and Energy yield the best performance”",
}
OTHER_N = 0.01  # another printed count this near a test set's size may be meant for it
SETTLE = {
    "range": "the number as the program wrote it",
    "f1_bound": "the predictions, scored again; or which column each number was meant for",
    "harmonic": "saying how macro F1 was computed; the mean of the F1 of classes needs the predictions",
    "macro_bounds": "the number of points and of correct ones per class",
    "granularity": "the number of test points that each row is of, and how many were correct",
    "per_class": "the confusion matrix",
    "twice": "which of the two is of the model that the other tables are of",
    "repeats": "the predictions of that model, scored again",
    "shifted": "the predictions of both rows",
    "reversed_score": "whether a high score meant known or unknown when it was evaluated",
}
OTHERWISE = "the data behind the places"
LIMITS = (
    "An audit reads numbers, not data: what it does not report may still be wrong, and what it reports may be a slip "
    "of typing, rounding or naming as well as of computing. It says nothing of how good a model is, nor why."
)


def settle(rule: str) -> str:
    """Say what would settle a finding of a rule."""
    return SETTLE.get(rule, OTHERWISE)


def of_metrics(metrics: pd.DataFrame) -> pd.DataFrame:
    """Turn the metrics table of this project into a table of results: exact, as fractions.

    Parameters
    ----------
    metrics : DataFrame
        See `reefcore.metrics.evaluate`. Micro recall is left out where accuracy, the same number, is there.
    """
    found = metrics.join(run_parts(metrics["run_id"]).fillna("").rename(columns={"recipe": "model"}))
    accuracies = found.loc[found["metric"] == "accuracy", "run_id"]
    found = found[(found["metric"] != "micro_recall") | ~found["run_id"].isin(accuracies)]
    found["metric"] = found["metric"].replace("micro_recall", "accuracy")
    place = found["run_id"] + ", " + found["metric"].map(rules.word)
    found = found.assign(place=place, table="metrics", step=0.0, unit="fraction")
    columns = ["place", "table", "model", "train", "test", "metric", "value", "step", "unit", "n", "classes"]
    return found[columns].astype({"n": float, "classes": float}).reset_index(drop=True)


def of_paper() -> pd.DataFrame:
    """Return the paper's tables of models as results, with what its text says of them in ``.attrs``.

    ``stated``: what -> what the text says of it (`STATED`); ``other_n``: size of a test set -> another printed
    count near it -> place.
    """
    found, counts = published.cells(), published.values().query("unit == 'annotations' and step == 1")
    near = {
        n: {row.value: f"section {row.section}" for row in counts.itertuples() if 0 < abs(row.value - n) <= OTHER_N * n}
        for n in found["n"].dropna().unique()
    }
    found.attrs = {"stated": STATED, "other_n": near}
    return found


def run(tables: pd.DataFrame | Mapping[str, pd.DataFrame] | None = None) -> pd.DataFrame:
    """Audit tables of results.

    Parameters
    ----------
    tables : DataFrame or mapping of name to DataFrame, optional
        Results: one row per number as `reefcore.audit.rules` has them, a row per model with columns as
        `reefcore.audit.read.read` knows them, or a metrics table of this project. Several are read together, each
        under its name. By default the paper: its tables of models, and the figures of its text.

    Returns
    -------
    DataFrame
        One row per finding, the surest first: ``rule``, ``certainty`` (impossible, inconsistent, ask), ``where``,
        ``values``, ``text``, all str. ``.attrs["checked"]``: what was looked at: ``rule``, ``where``, ``checks``,
        ``remark``.

    Raises
    ------
    ReefcoreError
        Where a table lacks a column of results.
    """
    looked, findings, given = [], [], {"": tables} if isinstance(tables, pd.DataFrame) else tables or {"": of_paper()}
    if not isinstance(given, Mapping):
        raise ReefcoreError("these are no tables of results", do="make them with reefcore.audit.read.read(FILE)")
    given = {name: _as_results(part, name) for name, part in given.items()}
    for name, part in given.items():
        said = [f"{column} as {what}" for column, what in part.attrs.get("columns", {}).items()]
        if said:
            said += [f"not {column}" for column in part.attrs["unread"]]
            looked.append(checked("read", name or part["table"].iloc[0], len(part), "; ".join(said)))
    results = pd.concat([part.assign(table=name) if name else part for name, part in given.items()], ignore_index=True)
    results.attrs = next(iter(given.values())).attrs
    results = rules.ready(results)
    for rule in rules.RULES:
        found, checks = rule(results)
        findings, looked = findings + found, looked + checks
    if tables is None:
        found, checks = statements.check(published.values(), statements.relations(), findings)
        findings, looked = findings + found, looked + checks
    return _outcome(findings, looked)


def _as_results(table: pd.DataFrame, name: str) -> pd.DataFrame:
    from reefcore.audit.read import of_table  # it needs this module

    if "metric" not in table:
        return of_table(table, name or "results")
    if "run_id" in table:
        return of_metrics(table)
    lacking = [column for column in NEEDED if column not in table]
    if lacking:
        do = "make it with reefcore.audit.read.read(FILE)"
        raise ReefcoreError(f"a table of results lacks {', '.join(lacking)}", name or None, do)
    return table


def own(tables: Mapping[str, pd.DataFrame], site: str = "") -> pd.DataFrame:
    """Audit what a profile of this project computed: every metric of every run, and what any reproduction must satisfy.

    Parameters
    ----------
    tables : mapping
        As `reefcore.workflow.Project.table` gives them: metrics, and those of `reefcore.audit.statements.here`.
    site : str
        The held-out source.

    Returns
    -------
    DataFrame
        As `run` returns it. Numbers are exact, so that nothing is forgiven as rounding.
    """
    found = run(tables["metrics"])
    values = statements.here(tables, site)
    more, looked = statements.check(values, statements.holding(values, statements.relations()))
    return _outcome(found.to_dict("records") + more, found.attrs["checked"].to_dict("records") + looked)


def _outcome(findings: list[dict], looked: list[dict]) -> pd.DataFrame:
    out = pd.DataFrame(findings, columns=FINDINGS, dtype="str")
    out = out.sort_values("certainty", key=lambda c: c.map(list(CERTAINTY).index), kind="stable", ignore_index=True)
    out.attrs["checked"] = pd.DataFrame(looked, columns=CHECKED)
    return out


def report(findings: pd.DataFrame, less_sure: int = 0) -> str:
    """Say in plain language what `run` found, what it looked at, and what it cannot tell.

    Parameters
    ----------
    findings : DataFrame
    less_sure : int
        How many others were left out, as they are less sure.
    """
    lines, fill = [], textwrap.TextWrapper(width=100, initial_indent="   ", subsequent_indent="   ").fill
    for number, row in enumerate(findings.itertuples(), 1):
        lines += [f"{number}. {row.certainty.capitalize()} ({row.rule}): {CERTAINTY[row.certainty]}.", fill(row.text)]
        lines += [fill(f"Where: {row.where}"), fill(f"Printed: {row.values}")]
        lines += [fill(f"What would settle it: {settle(row.rule)}."), ""]
    many = "Nothing was found." if findings.empty else f"{len(findings)} finding{'s' * (len(findings) > 1)}."
    many += f" {less_sure} less sure {'are' if less_sure > 1 else 'is'} not shown." if less_sure else ""
    lines += [many, "", "What was checked, and how often:"]
    for rule, rows in findings.attrs["checked"].query("checks > 0").groupby("rule", sort=False):
        said = [f"{row.where}: {row.checks:,}{f' ({row.remark})' if row.remark else ''}" for row in rows.itertuples()]
        many = [f"{len(rows)} statements, {rows['checks'].sum():,} comparisons"]
        lines += [fill(f"{rule}: {one}") for one in (said if rule in (*SETTLE, "read") else many)]
    return "\n".join([*lines, "", textwrap.fill(LIMITS, 100)])
