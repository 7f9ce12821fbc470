"""How everything stands: the tables and figures of both papers, the notebooks, what they ran on. It builds nothing."""

from __future__ import annotations

import contextlib
import html
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pandas as pd

from reefcore import published
from reefcore.errors import ReefcoreError
from reefcore.files import atomic, share, write_json
from reefcore.profiles import Profile
from reefcore.workflow import build, keys, sites, steps
from reefcore.workflow.project import Project, find_profile


class AsMade(Project):
    """A project whose tables are as they were made last, whatever changed since; nothing is made on the spot."""

    def _made(self, output: str) -> dict:
        record = keys.read_record(steps.record_path(self.folder, steps.maker(self.profile, output)))
        if record is None:
            raise ReefcoreError(f"{output} was not made", do="type `reefcore run all`")
        return record


def _computed(profile: Profile) -> dict[str, dict]:
    """Count the values of each item (``cells``: those that a run gave, those that one can give), and ``findings``.

    What is counted is kept for as long as no record of a step and no module that measures or audits has changed.
    """
    made_of = {"profile": profile.name} | keys.modules("reefcore.reproduction")
    with contextlib.suppress(ReefcoreError, OSError):
        made_of["records"] = keys.glance(steps.record_path(profile.folder(keys.root()), "data").parent)
    path, key = keys.root() / "build" / "status.json", keys.key_of(made_of)
    with contextlib.suppress(OSError, ValueError, KeyError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return {name: kept[name] for name in ("cells", "findings")}
    from reefcore import audit, reproduction  # they take a second to import, and are not needed for what is kept

    tables = {}
    for name in reproduction.TABLES:
        with contextlib.suppress(ReefcoreError):  # not made, damaged, or in a folder that nobody named here
            tables[name] = AsMade(profile).table(name)
    values = reproduction.gather(tables, n=2).groupby("item")["value"]  # of intervals nothing is said
    cells = {item: [int(found.count()), len(found)] for item, found in values}
    counted = {"cells": cells, "findings": dict(Counter(audit.run()["certainty"]))}
    with contextlib.suppress(OSError):  # a folder that is only read stays as it is
        write_json({"key": key} | counted, path)
    return counted


def index(profile: str | None = None, output: str | Path | None = None) -> dict:
    """Say how everything stands, from the records that lie beside what was made.

    A notebook is judged under the parameters it was run with, where that was in this profile.

    Parameters
    ----------
    profile : str, optional
        By default the one that most notebooks were run in.
    output : path, optional
        Where the executed notebooks are; by default in the book.

    Returns
    -------
    dict
        ``profile`` (name), ``notice``, ``said`` (what is to be said of a number of this profile);
        ``items``: dicts of `data/published/items.csv` with ``published`` (values), ``cells`` and ``computed`` (values
        that a run can give, and those there are; None where nothing is counted), ``run`` (whether its chapter was, in
        this profile), ``state``, ``seconds``, ``key``;
        ``notebooks``: dicts with ``name``, ``state`` (up to date, stale, missing, failed, incomplete, left out: the
        profile lacks what it needs, unknown: its data are not on this machine), ``why`` (what changed, or a sentence),
        ``seconds``, ``started``, ``profile``, ``seed``, ``parameters`` (all), ``changed`` (those that are not the
        defaults), ``code``, ``python``, ``key`` (8 digits of the hash of all inputs), ``needs`` (steps);
        ``steps``: dicts with ``name``, ``state``, ``why``; ``environment``: ``python``, ``platform``, ``packages``
        (name -> versions); ``counts``.

    Raises
    ------
    ReefcoreError
        Where there is no such profile.
    """
    output = Path(output or keys.root() / build.BOOK).absolute()
    records = {name: keys.read_record(build.record_path(output, name)) or {} for name in build.notebooks()}
    ran = Counter(r["parameters"]["profile"] for r in records.values() if r.get("parameters") and not _site(r))
    profile = profile or (ran.most_common(1)[0][0] if ran else "sample")
    one = find_profile(profile)
    pages = [_chapter(name, record, profile, one.name) for name, record in records.items()]
    notebooks = [_notebook(page, records[page.name], output) for page in pages]
    seeds = Counter(page.profile.seed for page in pages).most_common(1)
    counted = _computed(one.with_seed(seeds[0][0] if seeds else None))
    cells = counted["cells"]
    own = {page.profile.name for page in pages if page.profile.kind == "site"}  # which are of no profile
    values = published.values()
    environment = _environment(records.values())
    items = _items({row["name"]: row for row in notebooks}, values, cells, one.name)
    counts = {
        "tables": sum(item["item"].startswith("Table ") for item in items),
        "figures": sum(item["item"].startswith("Figure ") for item in items),
        "published_values": len(values),
        "comparable_values": sum(size for _, size in cells.values()),
        "computed_values": sum(computed for computed, _ in cells.values()),
        "notebooks": len(notebooks),
        "notebooks_run": sum(row["profile"] in {one.name} | own and row["state"] != "left out" for row in notebooks),
        "notebooks_up_to_date": sum(row["state"] == "up to date" for row in notebooks),
        "seconds": round(sum(row["seconds"] or 0 for row in notebooks if row["profile"] in {one.name} | own), 1),
        "packages": len(environment["packages"]),
        **counted,
    }
    sample = one.kind == "sample"
    return {
        "profile": one.name,
        "notice": one.notice,
        "said": "computed on the synthetic sample" if sample else f"computed from the data of the profile {one.name}",
        "items": items,
        "notebooks": notebooks,
        "steps": _steps(pages, one),
        "environment": environment,
        "counts": counts,
    }


def _site(record: dict) -> str:
    """Return what a chapter of a site was run with, by its record; empty for other chapters."""
    given = record.get("parameters", {}).get("profile", "")
    with contextlib.suppress(ReefcoreError):  # it is not there any more
        return given if given and sites.load(given) else ""
    return given


def _chapter(name: str, record: dict, profile: str, profile_name: str) -> build.Chapter:
    """Settle a chapter as it was run in this profile, or with its site; as it would be run, where it was not."""
    given = {}
    if site := _site(record):
        profile, profile_name = site, record["profile"]
    if record.get("profile") == profile_name:
        given = {k: v for k, v in record.get("parameters", {}).items() if f"parameter {k}" in record["ingredients"]}
    try:
        return build.chapters([name], given | {"profile": profile})[0]
    except ReefcoreError:  # it had parameters then that it has no more
        return build.chapters([name], {"profile": profile})[0]


def _standing(name: str, record: Path, folder: Path, ingredients: Callable[[], dict]) -> dict:
    """Compare what something was made from with what it would be made from now."""
    found = keys.read_record(record)
    try:
        now = ingredients()
    except ReefcoreError as error:
        return {"name": name, "state": "unknown", "why": [error.what]}
    why = keys.changes(found["ingredients"], now) if found else []
    if found is None:
        state = "missing"
    elif why:
        state = "stale"
    else:
        state = "up to date" if keys.fresh(record, folder, keys.key_of(now)) else "incomplete"
    return {"name": name, "state": state, "why": why}


def _notebook(page: build.Chapter, record: dict, output: Path) -> dict:
    row = _standing(page.name, build.record_path(output, page.name), output, partial(build.ingredients, page))
    failed = Path("build", "failed", f"{page.name}.ipynb")
    if row["state"] != "up to date" and (keys.root() / failed).exists():
        row |= {"state": "failed", "why": [f"the unfinished notebook is {failed}"]}
    if left := record.get("left_out"):
        row |= {"state": "left out", "why": [f"{left['why']}: {left['command']}"]}
    parameters = record.get("parameters", {})
    made_of = record.get("ingredients", {})
    return row | {
        "seconds": record.get("seconds"),
        "started": record.get("start"),
        "profile": record.get("profile"),
        "seed": record.get("seed"),
        "parameters": parameters,
        "changed": {name: value for name, value in parameters.items() if f"parameter {name}" in made_of},
        "code": record.get("code", {}).get("label"),
        "python": made_of.get("python"),
        "key": record["key"][:8] if record else None,
        "needs": [*page.needs, *(f"{one.name}: {need}" for one, needs in page.beside for need in needs)],
    }


def _steps(pages: list[build.Chapter], profile: Profile) -> list[dict]:
    """Tell how each step stands that a chapter needs, or another one that is needed; all of them without chapters."""
    wanted: dict[Path, tuple[Profile, set]] = {}
    try:
        for one, folder, need in (step for page in pages for step in page.steps):
            wanted.setdefault(folder, (one, set()))[1].add(need)
        if not pages:
            wanted[profile.folder(keys.root())] = profile, set(steps.plan(profile))
    except ReefcoreError:  # as above
        return []
    rows = []
    for folder, (under, names) in wanted.items():
        plan = steps.plan(under)
        for name in reversed(plan):
            names |= {*plan[name].needs} if name in names else set()
        for name in filter(names.__contains__, plan):
            made_of = partial(steps.ingredients, under, folder, name)
            shown = f"{under.name}: {name}" if under.kind == "site" else name
            rows.append(_standing(shown, steps.record_path(folder, name), folder, made_of))
    return rows


def _items(notebooks: dict[str, dict], values: pd.DataFrame, cells: dict, profile: str) -> list[dict]:
    """Join the index of the papers with what is published, what was computed, and how the chapter stands."""
    items = pd.read_csv(share("data", "published", "items.csv"), keep_default_na=False).to_dict("records")
    known = Counter("Table " + values["table"].dropna().astype(str)) + Counter(values["place"])
    for item in items:
        name = item["item"]
        row = notebooks.get(
            item["chapter"].partition(" ")[0], {"state": "missing" if item["chapter"] else "no chapter"}
        )
        computed, size = cells.get(name, (None, None))
        item |= {
            "published": known[name] or known[f"substrate/{name.lower().replace(' ', '_')}"],
            "cells": size,
            "computed": computed,
            "run": row.get("profile") == profile and row["state"] != "left out",
        }
        item |= {field: row.get(field) for field in ("state", "seconds", "key")}
    return items


def _environment(records) -> dict:
    """Say what the notebooks ran on; the platform is the one of this process."""
    versions, pythons = {}, {}
    for record in records:
        pythons |= dict.fromkeys([record.get("ingredients", {}).get("python")])
        for name, version in record.get("packages", {}).items():
            versions.setdefault(name, {})[version] = None
    packages = {name: " and ".join(versions[name]) for name in sorted(versions, key=str.lower)}
    python = " and ".join(sorted(filter(None, pythons)))
    return {"python": python, "platform": f"{platform.system()} {platform.machine()}", "packages": packages}


# ------------------------------------------------------------------------------------------------- for people to read

_PAGE = """\
# Status: what is here, and how it stands

Every table and figure of both papers, every notebook of this book, and what they ran on. This page is made from the
records beside the executed notebooks whenever the book is rendered. `reefcore status` prints the same, and
`reefcore status --json` gives it to programs.

**Profile {profile}.** {notice} Of a value that this profile has, the page says *{said}* and no more. {more}

{summary}

{late}

## Tables of the ReefNet paper

{tables}

## Figures of the ReefNet paper

{figures}

## The reef substrate paper

{substrate}

## Notebooks

{notebooks}

## Environment

The notebooks ran on Python {python}; this page was made on {platform}.

{packages}

## How to read this

*Published* counts the numbers and words of `data/published`; a figure was published as a picture and has none. *Here*
counts the values that a run of this profile gave, of those that a run can give; *as published* is a table that nobody
computes. *Seconds* are what its chapter took when it was last run.

*Inputs* are the first eight digits of the hash of all that a page was made from: its code, the modules it uses, the
data, the settings and the lock file. The same digits mean the same inputs. What is *stale* would be made from something
else today; what changed is named, and `make book` makes it again.

*Needs* says what the published values take; of a notebook, the steps whose outputs it reads.
"""


_MORE = {"70_numbers": "the published values", "71_consistent": "whether they are consistent"}
_MORE |= {"72_reproduced": "when a value counts as reproduced"}


def sentence(row: dict) -> str:
    """Say how a notebook or a step stands, and why."""
    why = ", ".join(row["why"][:3]) + (", ..." if len(row["why"]) > 3 else "")
    return f"{row['state']} ({why}{' changed' * (row['state'] == 'stale')})" if why else row["state"]


def late(found: dict, *kinds: str) -> list[dict]:
    """List what is not up to date, of ``notebooks`` or ``steps`` or both: ``name``, and ``state``, which says why."""
    rows = [row for kind in kinds or ("notebooks", "steps") for row in found[kind]]
    return [{"name": row["name"], "state": sentence(row)} for row in rows if row["state"] != "up to date"]


def summary(found: dict) -> dict[str, str]:
    """Say the counts as people read them: what -> how many."""
    from reefcore.audit.finding import CERTAINTY

    counts = found["counts"]
    findings = [f"{counts['findings'][kind]} {kind}" for kind in CERTAINTY if kind in counts["findings"]]
    behind = len(late(found, "notebooks")), len(late(found, "steps"))
    return {
        "tables and figures of the ReefNet paper": "{tables} and {figures}".format(**counts),
        "published values": "{published_values:,}".format(**counts),
        f"values {found['said']}": "{computed_values:,} of {comparable_values:,} that a run can give".format(**counts),
        "notebooks run": "{notebooks_run} of {notebooks}, in {seconds:,.0f} s".format(**counts),
        "notebooks and steps that are not up to date": "{} and {}".format(*behind),
        "packages": str(counts["packages"]),
        "findings of the audit of the published values": ", ".join(findings) or "none",
    }


def _here(item: dict) -> str:
    """Say what the profile has of an item."""
    if item["cells"] and item["computed"]:
        return f"{item['computed']} of {item['cells']}"
    if not item["chapter"]:
        return "–"
    if item["cells"] or not item["run"]:
        return "not run"
    return "as published" if item["needs"] == "nothing" else "run"


def _pairs(values: dict) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def columns(shown: dict[str, Iterable]) -> list[str]:
    """Write columns as lines for a terminal, with their names above them and an empty line before."""
    texts = [[name, *("–" if x is None else str(x) for x in column)] for name, column in shown.items()]
    widths = [max(map(len, column)) for column in texts]
    return ["", *("  ".join(map(str.ljust, row, widths)).rstrip() for row in zip(*texts, strict=True))]


def report(found: dict, every_step: bool = False) -> str:
    """Write the status for a terminal; of the steps only those not up to date, where not all are asked for."""

    items, notebooks = found["items"], found["notebooks"]
    shown = {"published": (item["published"] or None for item in items), "here": map(_here, items)}
    shown |= {name: [item[name] for item in items] for name in ("state", "seconds", "key", "chapter")}
    text = [f"Profile {found['profile']}. {found['notice']}", ""]
    text += [f"{what}: {number}" for what, number in summary(found).items()]
    text += columns({"item": [item["item"] for item in items]} | shown)
    shown = {name: [row[name] for row in notebooks] for name in ("name", "seconds", "key")}
    shown |= {"changed parameters": [_pairs(row["changed"]) or "none" for row in notebooks]}
    text += columns(shown | {"state": map(sentence, notebooks)})
    chosen = found["steps"] if every_step else [row for row in found["steps"] if row["state"] != "up to date"]
    if chosen:
        text += columns({"step": [row["name"] for row in chosen], "state": map(sentence, chosen)})
    return "\n".join([*text, "", "More: `reefcore status --json`, or the page `status` of the book."])


def page(found: dict, output: Path, shown: list[str]) -> str:
    """Write the page of the book: `found` is from `index`, `shown` the pages of the book (links lead to no others)."""
    from reefcore.figures import show_table
    from reefcore.figures.style import Shown

    def link(chapter: str, text: str, anchor: str = "") -> Shown:
        executed = output / f"{chapter}.ipynb"
        if f"chapters/{chapter}" not in shown or not executed.exists():
            return Shown(html.escape(text), text, words=True)
        there = anchor and f'id=\\"{anchor}\\"' in executed.read_text(encoding="utf-8")
        address = f"chapters/{chapter}.html{f'#{anchor}' if there else ''}"
        return Shown(f'<a href="{address}">{html.escape(text)}</a>', text, words=True)

    def table(rows: list[dict], name: str, caption: str) -> str:
        return show_table(pd.DataFrame(rows), f"status-{name}", caption, found["notice"], {"seconds": ".1f"}).markup

    def row(item: dict) -> dict:
        links = [link(chapter, chapter) for chapter in item["chapter"].split()]
        return {
            "item": link(item["chapter"].partition(" ")[0], item["item"], item["anchor"]),
            "what it shows": item["title"],
            "published": item["published"] or float("nan"),
            "here": _here(item),
            "state": item["state"],
            "seconds": item["seconds"],
            "inputs": item["key"] or "–",
            "chapter": Shown("<br>".join(one.markup for one in links) or "–", item["chapter"], words=True),
            "needs": item["needs"] or "–",
            "note": item["note"] or "–",
        }

    notebooks = [
        {
            "notebook": link(one["name"], one["name"]),
            "state": one["state"],
            "seconds": one["seconds"],
            "inputs": one["key"] or "–",
            "profile": one["profile"] or "–",
            "seed": one["seed"],
            "changed parameters": _pairs(one["changed"]) or "none",
            "all parameters": _pairs(one["parameters"]) or "–",
            "needs": ", ".join(one["needs"]) or "nothing",
            "code": one["code"] or "–",
            "Python": one["python"] or "–",
            "started": one["started"] or "–",
        }
        for one in found["notebooks"]
    ]
    items = {"tables": [], "figures": [], "substrate": []}
    for item in found["items"]:
        kind = "figures" if item["item"].startswith("Figure ") else "tables"
        items[kind if item["paper"] == "ReefNet" else "substrate"].append(row(item))
    says = f"Here: values {found['said']}, of those that a run can give; where none are counted, whether it was run."
    behind, environment = late(found), found["environment"]
    more = [f"[{what}](chapters/{name})" for name, what in _MORE.items() if f"chapters/{name}" in shown]
    packages = [{"package": name, "version": version} for name, version in environment["packages"].items()]
    parts = {kind: table(rows, kind, f"{len(rows)} items. {says}") for kind, rows in items.items()}
    parts |= {
        "summary": table([{"what": k, "number": v} for k, v in summary(found).items()], "counts", "Counts."),
        "late": "Every notebook is up to date, and every step that one needs.",
        "notebooks": table(notebooks, "notebooks", "Notebooks: how each stands, and what it was run with."),
        "packages": table(packages, "packages", "Packages that the notebooks ran on.") if packages else "",
        "more": f"Other pages say more: {', '.join(more)}." if more else "",
    }
    if behind:
        parts["late"] = "## Not up to date\n\n" + table(behind, "late", "Notebooks and steps, and what changed since.")
    return _PAGE.format(**environment | parts | {name: found[name] for name in ("profile", "notice", "said")})


def write(shown: list[str]) -> None:
    """Write the page into the book, where it says something else than before; see `page`."""
    path = keys.root() / "book" / "status.md"
    text = page(index(), keys.root() / build.BOOK, shown)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with atomic(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
