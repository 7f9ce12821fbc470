"""Chapters and the whole build: what depends on what, as Snakemake is told, and running one job of it."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import datetime
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from reefcore import warm
from reefcore.errors import ReefcoreError
from reefcore.files import share, write_json
from reefcore.profiles import Profile
from reefcore.site import MADE_UP
from reefcore.workflow import keys, launch, notebook, resources, sites, steps
from reefcore.workflow.project import RECORD, code_version, find_profile, fingerprint

BOOK = "book/chapters"  # where the book looks for the executed notebooks
KERNEL_DIED = "the kernel died"  # of a chapter, and not by itself: it had too little memory, or was killed
FEW = 4  # jobs, for which a warm process would cost more time than it saves
PLAN = "build/plan.json"  # of a build on a cluster, for its jobs
_RUN_BY = ("project.py", "sites.py", "notebook.py", "engine.py")  # the part of the workflow that a page goes through


@dataclass(frozen=True)
class Chapter:
    """A notebook, with what it is asked for.

    Attributes
    ----------
    name : str
    notebook : Path
    profile : Profile
        Under the seed it will run with.
    given : dict
        The parameters that differ from the notebook's defaults.
    needs : tuple of str
        The steps whose outputs it reads.
    beside : tuple
        Of other projects that it opens: their profiles (a site is one), each with the steps.
    without : tuple of str
        Of a full profile: the steps whose outputs it would read too, and does without; see `reefcore.workflow.full`.
    """

    name: str
    notebook: Path
    profile: Profile
    given: dict = dataclasses.field(hash=False)
    needs: tuple[str, ...] = ()
    beside: tuple[tuple[Profile, tuple[str, ...]], ...] = ()
    without: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The data folder it reads."""
        return self.profile.folder(keys.root())

    @property
    def steps(self) -> list[tuple[Profile, Path, str]]:
        """All steps whose outputs it reads: profile, data folder and name of each."""
        both = ((self.profile, self.needs), *self.beside)
        return [(one, one.folder(keys.root()), need) for one, needs in both for need in needs]


def notebooks(site: bool | None = None) -> dict[str, Path]:
    """Find the chapters: name -> notebook, in the order of the book.

    Parameters
    ----------
    site : bool, optional
        Only the chapters of a site, which ``site report`` runs, or only the others.
    """
    folder = keys.root() / "notebooks"
    if not folder.is_dir():
        folder = share("notebooks")
    found = [(path, True) for path in folder.glob("site/[0-9][0-9]_*.ipynb")]
    found += [(path, False) for path in folder.glob("[0-9][0-9]_*.ipynb")]
    return {path.stem: path for path, own in sorted(found, key=lambda one: one[0].stem) if site in (None, own)}


def find(name: str) -> Path:
    """Find a chapter's notebook by ``30_splits``, ``splits``, or its path."""
    known = notebooks()
    if name.endswith(".ipynb"):
        return Path(name)
    matching = [path for stem, path in known.items() if name in (stem, stem.partition("_")[2])]
    if len(matching) != 1:
        raise ReefcoreError(f"there is no chapter {name!r}", do=f"choose from {', '.join(known) or 'none'}, all")
    return matching[0]


def chapters(names: list[str], given: dict) -> list[Chapter]:
    """Choose chapters and settle their parameters.

    Parameters
    ----------
    names : list of str
        See `find`; ``all`` for the whole book.
    given : dict
        Parameters. With several chapters each takes those it has, and one that none has is refused.

    Raises
    ------
    ReefcoreError
        Where a chapter, a profile or a parameter is not known, or a value is of a wrong type.
    """
    paths = list(notebooks().values()) if "all" in names else [find(name) for name in names]
    if not paths:
        raise ReefcoreError("there are no chapters", keys.root() / "notebooks", "work in a checkout of the project")
    contents = {path: notebook.read(path) for path in paths}
    declared = {path: notebook.parameters(contents[path], path.name) for path in paths}
    known = sorted({name for one in declared.values() for name in one})
    if unknown := [name for name in given if name not in known]:
        raise ReefcoreError(
            f"unknown parameter {unknown[0]!r}", ", ".join(p.stem for p in paths), f"there are {', '.join(known)}"
        )
    asked = find_profile(given["profile"]) if "profile" in given else None
    from reefcore.workflow import full  # which is made of what is here

    result, stands = [], {}
    for path in paths:
        mine = {name: value for name, value in given.items() if name in declared[path] and name != "profile"}
        if asked and (place := _place(asked, declared[path], path.stem)):
            mine[place] = sites.given(asked) if asked.kind == "site" else given["profile"]
        settled = notebook.settle(mine, declared[path], path.name)
        chosen = {name: parameter.default for name, parameter in declared[path].items()} | settled
        under = find_profile(chosen.get("profile", "sample")).with_seed(chosen.get("seed"))
        found = reads(code(contents[path]), under, chosen)
        beside = tuple((one, steps_) for one, steps_ in found.items() if one != under and steps_)
        needs, without = found[under], ()
        if under.kind == "full":
            hard = reads(full.bare(code(contents[path]))[0], under, chosen)[under]
            stand = stands[under] = stands.get(under) or full.Stand(under)
            without = stand.without(needs, hard)
            needs = tuple(need for need in needs if need not in without)
        result.append(Chapter(path.stem, path, under, settled, needs, beside, without))
    return result


def _place(asked: Profile, declared: dict, name: str) -> str | None:
    """Choose the parameter that takes a profile: a chapter of a site takes a site, the last section of others too."""
    own = "profile" in declared and declared["profile"].default == MADE_UP
    if asked.kind == "site" and not own and "site" not in declared:
        raise ReefcoreError(f"{name} is about ReefNet, and {asked.name} is a site", do="name a profile, such as sample")
    fitting = ("profile",) if own == (asked.kind == "site") else ("reefnet",) if own else ("site",)
    return next((place for place in fitting if place in declared), None)


def code(content) -> str:
    """Join the code cells of a notebook as Python, without the lines of IPython's own (``%``, ``!``)."""
    cells = "\n".join(cell.source for cell in content.cells if cell.cell_type == "code")
    return re.sub(r"(?m)^\s*[%!].*$", "", cells)


def needs(text: str, profile: Profile) -> tuple[str, ...]:
    """List the steps of a profile that a notebook's code reads from; see `reads`."""
    return reads(text, profile, {})[profile]


def reads(code: str, profile: Profile, chosen: dict) -> dict[Profile, tuple[str, ...]]:
    """List the steps a notebook's code reads from: by its ``project.table("...")``, ``project.photos``, ``.patches``,
    ``.frames``.

    A project is what ``workflow.open`` was assigned to, or the ``reefnet`` of a site; a table whose name is computed
    could be any of them.

    Parameters
    ----------
    code : str
    profile : Profile
        What ``workflow.open(profile)`` opens.
    chosen : dict
        The parameters: another one that is opened, such as ``site``, names another profile.

    Returns
    -------
    dict
        Profile or site -> names of its steps; `profile` is always there.
    """
    nodes = list(ast.walk(ast.parse(code)))
    projects: dict[str, Profile | None] = {}

    def owner(node) -> Profile | None:
        """Say which project an expression is, or opens."""
        if isinstance(node, ast.Name):
            return projects.get(node.id)
        if isinstance(node, ast.IfExp):
            return owner(node.body) or owner(node.orelse)
        if isinstance(node, ast.Attribute) and node.attr == "reefnet":
            site = owner(node.value.value if ast.unparse(node.value).endswith(".profile") else node.value)
            asked = site and site.kind == "site" and (chosen.get("reefnet") or site.reefnet)
            return find_profile(asked) if asked else None
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "workflow.open"):
            return None
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Attribute):
            return owner(first)
        name = first.value if isinstance(first, ast.Constant) else chosen.get(getattr(first, "id", None))
        return find_profile(name) if name and getattr(first, "id", None) != "profile" else profile

    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and (one := owner(node.value)):
            projects[node.targets[0].id] = one
    calls = {id(node.func): node.args for node in nodes if isinstance(node, ast.Call)}
    outputs: dict[Profile, set] = {profile: set()}
    for node in nodes:
        if isinstance(node, ast.Attribute) and (one := owner(node.value)):
            outputs.setdefault(one, set()).update(_outputs(one, node.attr, calls.get(id(node))))
    makers = {one: {steps.maker(one, output) for output in found} for one, found in outputs.items()}
    return {one: tuple(name for name in steps.plan(one) if name in found) for one, found in makers.items()}


def _outputs(profile: Profile, used: str, arguments: list | None) -> set[str]:
    """List the outputs that an attribute of a project reads; `arguments` where it is called."""
    name = arguments[0].value if arguments and isinstance(arguments[0], ast.Constant) else None
    several = steps.SEVERAL if profile.kind != "site" else ()
    if used == "table" and arguments is not None:
        every = {o for step in steps.plan(profile).values() for o in step.outputs if o.endswith(".parquet")}
        every = {o for o in every if "/" not in o or o.partition("/")[0] in several}
        return {name if name in several else f"{name}.parquet"} if name else every
    if profile.kind == "site":
        asked = "predictions.parquet" if (used, name) == ("has", "classifier") else "images.parquet"
        return {asked} if used in ("photos", "patches", "located", "has", "lacks") else set()
    folders = {"photos": "photos", "patches": "patches.parquet", "frames": "frames"}
    if used == "has" and name:  # asking takes the table, but starts no training
        known = name in folders or name in several or steps.maker(profile, f"{name}.parquet")
        return {folders.get(name, f"{name}.parquet")} if known and name not in several else set()
    return {folders.get(used, "")} - {""}


def ingredients(chapter: Chapter) -> dict[str, str]:
    """Say what a chapter is made from, name by name."""
    content = notebook.read(chapter.notebook)
    cells = [[cell.cell_type, cell.source, sorted(cell.metadata.get("tags", []))] for cell in content.cells]
    made_of = {
        "notebook": keys.text_hash(json.dumps([cell for cell in cells if cell[0] == "code"])),
        "words": keys.text_hash(json.dumps([cell if cell[0] != "code" else [] for cell in cells])),
        **keys.environment(own=chapter.profile.kind == "site"),
        **keys.modules(source=code(content)),
    }
    makes_report = "reefcore.workflow.report" in keys.imports(code(content))
    if makes_report:  # of chapters that count as well
        made_of |= {f"site {name}": keys.digest(path) for name, path in notebooks(site=True).items()}
    for name in (*_RUN_BY, *(("report.py", "page.py") if makes_report else ())):
        text = (keys.PACKAGE / "workflow" / name).read_text(encoding="utf-8")
        made_of[f"reefcore/workflow/{name}"] = keys.text_hash(text)
    made_of |= {f"profile {name}": steps.said(chapter.profile, name) for name in chapter.profile.settings}
    made_of |= {f"parameter {name}": repr(value) for name, value in chapter.given.items()}
    for name, value in chapter.given.items():
        if isinstance(value, str) and value and name != "profile" and (keys.root() / value).exists():
            made_of[f"file {name}"] = keys.glance(keys.root() / value)  # what it holds counts, not only its name
    for one, _ in chapter.beside:
        made_of |= {f"{one.name} {name}": steps.said(one, name) for name in one.settings}
    return made_of | {_step(chapter, one, need): steps.key(one, folder, need) for one, folder, need in chapter.steps}


def _step(chapter: Chapter, profile: Profile, need: str) -> str:
    """Name a step among the ingredients of a chapter: with its profile, where that is not the chapter's own."""
    return f"step {need}" if profile == chapter.profile else f"step {profile.name} {need}"


def key_of(chapter: Chapter) -> str:
    """Return the key of a chapter."""
    return keys.key_of(ingredients(chapter))


def record_path(output: Path, name: str) -> Path:
    """Return where the record of a chapter lies: beside the executed notebook, for people and programs to read."""
    return output / f"{name}.json"


def about(chapter: Chapter) -> dict:
    """Say what a chapter's record says of it, run or left out: its profile, parameters and seed, and the code."""
    declared = notebook.parameters(notebook.read(chapter.notebook), chapter.notebook.name)
    return {
        "name": chapter.name,
        "profile": chapter.profile.name,
        "notice": chapter.profile.notice,
        "seed": chapter.profile.seed,
        "parameters": {name: parameter.default for name, parameter in declared.items()} | chapter.given,
        "code": code_version(),
    }


def is_fresh(chapter: Chapter, output: Path) -> bool:
    """Tell whether a chapter is up to date."""
    return keys.fresh(record_path(output, chapter.name), output, key_of(chapter)) is not None


def ensure(
    chapter: Chapter,
    output: Path,
    workers: int = steps.WORKERS,
    *,
    cwd: Path | None = None,
    place: Path | None = None,
    env: dict[str, str] | None = None,
) -> dict:
    """Make a chapter up to date, and the steps it needs; return its record, which is also written beside it.

    It runs in `cwd` (by default the root); locks and an unfinished notebook lie in `place` (by default ``build``).

    The record holds the profile, the parameters, the seed, the code version and whether it was dirty, the hashes of the
    inputs, the packages, start and duration, the key and what went into it. Where nothing but words of the notebook
    changed, it is not run: what was executed gets the new words, and the record says when (``reworded``).
    """
    place, made_of, path = place or keys.root() / "build", ingredients(chapter), record_path(output, chapter.name)
    key = keys.key_of(made_of)
    with keys.locked(place / "locks" / f"{keys.text_hash(str(path))[:16]}.lock"):
        if record := keys.fresh(path, output, key) or _reworded(chapter, output, made_of):
            return record
        inputs = {}
        for one, folder, need in chapter.steps:
            made, name = steps.ensure(one, folder, need, workers), _step(chapter, one, need).removeprefix("step ")
            inputs[name] = {output: fingerprint(made, output) for output in steps.plan(one)[need].outputs}
        executed, failed = output / f"{chapter.name}.ipynb", place / "failed" / f"{chapter.name}.ipynb"
        began, start = time.perf_counter(), datetime.datetime.now(datetime.UTC)
        # The bars of libraries of models ask for widgets, which a page does not have.
        env = {RECORD: path.name, "PYTHONWARNINGS": "ignore:IProgress not found"} | (env or {})
        notebook.execute(chapter.notebook, chapter.given, executed, cwd=cwd or keys.root(), failed=failed, env=env)
        failed.unlink(missing_ok=True)
        record = about(chapter) | {
            "inputs": inputs,
            "packages": {
                d.name: d.version for d in sorted(importlib.metadata.distributions(), key=lambda d: d.name.lower())
            },
            "start": start.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 2),
            "key": key,
            "ingredients": made_of,
            "outputs": keys.describe(output, [executed.name]),
        }
        write_json(record, path)
        return record


def _reworded(chapter: Chapter, output: Path, made_of: dict) -> dict | None:
    """Put new words around the code and the results of an executed notebook, where nothing else changed since."""
    path = record_path(output, chapter.name)
    record = keys.read_record(path)
    if record is None or keys.changes(record["ingredients"], made_of) != ["words"]:
        return None
    if keys.fresh(path, output, record["key"]) is None:
        return None
    executed, content = notebook.read(output / f"{chapter.name}.ipynb"), notebook.read(chapter.notebook)
    injected = "injected-parameters"  # of papermill, behind those that the notebook declares
    given = [cell for cell in executed.cells if injected in cell.metadata.get("tags", [])]
    ran = [cell for cell in executed.cells if cell.cell_type == "code" and cell not in given]
    code = [cell for cell in content.cells if cell.cell_type == "code"]
    if [cell.source for cell in ran] != [cell.source for cell in code]:
        return None
    for one, cell in zip(ran, code, strict=True):
        one["id"] = cell.id
    executed.cells = []
    for cell in content.cells:
        cell.metadata.setdefault("tags", [])  # as papermill does
        executed.cells.append(ran.pop(0) if cell.cell_type == "code" else cell)
        executed.cells += given if "parameters" in cell.metadata.get("tags", []) else []
    notebook.write(executed, output / f"{chapter.name}.ipynb")
    record |= {"key": keys.key_of(made_of), "ingredients": made_of}
    record |= {"reworded": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    record["outputs"] = keys.describe(output, [f"{chapter.name}.ipynb"])
    write_json(record, path)
    return record


# ------------------------------------------------------------------------------------------------------------ build


@dataclass(frozen=True)
class Job:
    """One job of the build: a step or a chapter.

    Attributes
    ----------
    name : str
        ``chapter 30_splits`` or ``step splits``, with the seed where it is not the profile's own.
    marker : Path
        The file Snakemake knows it by, relative to the root; it is there if and only if the job is up to date.
    needs : tuple of Path
        Other jobs' markers.
    resources : dict
        What it asks for, see `reefcore.workflow.resources.of`.
    command : str
    priority : int
        How many jobs wait for it, at once or later: of those that could start, the one with the most comes first.
    """

    name: str
    marker: Path
    needs: tuple[Path, ...]
    resources: dict
    command: str
    priority: int = 0


def jobs(names: list[str], given: dict, output: str | Path | None = None, apart: bool = False) -> list[Job]:
    """Plan a build: every chapter and the steps it needs, each after those it needs itself.

    Markers are put right on the way, so that Snakemake, which looks at nothing else, runs what is not up to date and
    what comes after it, whatever times the files have.

    Parameters
    ----------
    names, given
        See `chapters`.
    output : path, optional
        Where the executed notebooks go; by default into the book.
    apart : bool
        Whether each training is a job of its own for a sample too, as on a cluster.
    """
    top = keys.root()
    output = Path(output or top / BOOK).absolute()
    plan: dict[Path, Job] = {}
    stale: set[Path] = set()

    def add(name, key, is_fresh, needed, asked, command) -> Path:
        marker = Path("build", "done", f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}-{key}")
        if marker not in plan:
            up_to_date = is_fresh()
            if not up_to_date or stale & set(needed):
                stale.add(marker)
            plan[marker] = Job(name, marker, tuple(needed), asked, f"{command} --key {key} --marker {marker}")
        return marker

    def add_step(one: Profile, folder: Path, name: str) -> Path:
        step, key = steps.plan(one)[name], steps.key(one, folder, name)
        seed = f" seed {one.seed}" if one.data != find_profile(str(one.path)).data else ""
        # A survey's runs are trained in one job that shares its processes, unless each deserves a machine of its own.
        together = one.kind == "sample" and not apart
        needs = step.before if step.before and together else step.needs
        if together and not step.before:  # what starts from one of them waits for all
            trained = steps.runs(one)
            needs = dict.fromkeys("train" if need in trained else need for need in needs)
        needed = [add_step(one, folder, need) for need in needs]
        asked = sites.given(one) if one.kind == "site" else _relative(one.path)
        command = _command("step", name, "--profile", asked, "--seed", one.seed)
        kind = "together" if step.before and together else resources.kind(one, name)
        return add(
            f"step {name} {one.name}{seed}",
            key,
            lambda: steps.is_fresh(one, folder, name),
            needed,
            resources.of(one, kind),
            command,
        )

    if apart:  # a cluster has GPUs where this machine has none
        os.environ.setdefault(launch.TRAIN, "1")
    found = chapters(names, given)
    named = find_profile(given["profile"]).name if "profile" in given else None
    if named and not any(named in (c.profile.name, *(one.name for one, _ in c.beside)) for c in found):
        do = "name a site.yaml, or leave --profile out"
        raise ReefcoreError(f"the profile {named} is no site, and {names[0]} is of a site", do=do)
    from reefcore.workflow import full

    found, left = full.divide(found, "all" not in names)
    for chapter, why in left:
        full.leave_out(chapter, why, output)
    for chapter in found:
        needed = [add_step(*step) for step in chapter.steps]
        options = [part for name, value in chapter.given.items() for part in ("-p", f"{name}={_as_text(value)}")]
        command = _command("chapter", chapter.notebook, "--output", output, *options)
        wide = max([chapter.profile, *(one for one, _ in chapter.beside)], key=lambda one: one.kind == "full")
        asked = resources.of(wide, "chapter")
        add(f"chapter {chapter.name}", key_of(chapter), lambda c=chapter: is_fresh(c, output), needed, asked, command)
    for job in plan.values():
        marker = top / job.marker
        if job.marker in stale:
            marker.unlink(missing_ok=True)
        elif not marker.exists():
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
    waiting: dict[Path, set[Path]] = {marker: set() for marker in plan}
    for job in reversed(plan.values()):  # each comes after those it needs
        for need in job.needs:
            waiting[need] |= {job.marker} | waiting[job.marker]
    return [dataclasses.replace(job, priority=len(waiting[job.marker])) for job in plan.values()]


def keep(planned: list[Job]) -> list[dict]:
    """Describe a plan in plain values, and write it down for jobs on a cluster, which must not plan again."""
    plan = [
        dataclasses.asdict(job)
        | {"marker": str(job.marker), "needs": [str(need) for need in job.needs], "rule": rule(job.name)}
        for job in planned
    ]
    write_json(plan, keys.root() / PLAN)
    return plan


def refusal(marker: str | Path) -> Path:
    """Return where a job writes why it was refused: what would be refused again, and is not tried again."""
    return keys.root() / "build" / "failed" / f"{Path(marker).name}.txt"


def failures(planned: list[Job], since: float) -> list[str]:
    """Say of each job of a cluster that failed why it did, as far as it said so itself, and where to read more.

    Parameters
    ----------
    planned : list of Job
    since : float
        When the build began, in seconds since the epoch: older logs are of other builds.
    """
    found, logs = [], keys.root() / ".snakemake" / "slurm_logs"  # of Snakemake's executor for SLURM
    for job in planned:
        if (keys.root() / job.marker).exists():
            continue
        mine = [p for p in (logs / f"rule_{rule(job.name)}").rglob("*.log") if p.stat().st_mtime >= since]
        log = max(mine, key=lambda path: path.stat().st_mtime, default=None)
        more = f" (log: {_relative(log)})" if log else ""
        if (said := refusal(job.marker)).exists() and said.stat().st_mtime >= since:
            found.append(f"{job.name}: {said.read_text(encoding='utf-8').strip()}{more}")
        elif log:
            text = log.read_text(encoding="utf-8", errors="replace")
            told = re.findall(r"^slurmstepd: error: (.*?)(?: \*+)?$", text, re.MULTILINE)
            why = told[-1].strip("* ") if told else "it was killed, or its node failed"
            found.append(f"{job.name}: it ended without saying why: {why}{more}")
    return found


def rule(name: str) -> str:
    """Return the name of a job as a rule of Snakemake."""
    return name.replace(" ", "_")


def _command(*parts) -> str:
    """Write the command of a job for the shell; `exec`, so that the parent of the job is Snakemake and no shell.

    One thread of linear algebra for each: two processes with two threads each would slow both down.
    """
    words = map(shlex.quote, map(str, (sys.executable, "-m", "reefcore", "--with-parent", "job", *parts)))
    kept = " ".join(f"{name}={value}" for name, value in warm.KEEP.items())
    kept += f" {launch.TRAIN}={os.environ[launch.TRAIN]}" if os.environ.get(launch.TRAIN) else ""
    return f"exec env OMP_NUM_THREADS=1 {kept} {' '.join(words)}"


def _relative(path: Path) -> str:
    path = path.absolute()
    return str(path.relative_to(keys.root()) if path.is_relative_to(keys.root()) else path)


def _as_text(value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def lock() -> int:
    """Take the lock of the build, and remove what a killed Snakemake left behind of its own.

    Returns
    -------
    int
        A file descriptor that holds the lock for as long as it is open; it ends with the process, however that ends.

    Raises
    ------
    ReefcoreError
        Where another build is running.
    """
    path = keys.root() / "build" / "locks" / "build.lock"
    handle = keys.take(path)
    if handle is None:
        raise ReefcoreError(
            f"another build is running here (process {path.read_text() or 'unknown'})", do="wait for it, or stop it"
        )
    shutil.rmtree(keys.root() / ".snakemake" / "locks", ignore_errors=True)
    return handle


def run(
    names: list[str],
    given: dict,
    output: str | Path | None = None,
    cores: int = 2,
    *,
    executor: str = "",
    at_once: int = 0,
    settings: str | Path | None = None,
) -> bool:
    """Build chapters and the steps they need, with Snakemake; return whether everything succeeded.

    What fails says so itself, on standard error, and what does not depend on it is still built.

    Parameters
    ----------
    names, given, output
        See `jobs`.
    cores : int
        Of this machine; on a cluster each job has the cores it asks for.
    executor : str
        Of Snakemake, such as ``slurm``: each job runs where that puts it. One that fails without saying why (killed,
        out of memory or time, its node lost) is tried once more, with twice the memory.
    at_once : int
        With an executor: how many jobs may be submitted at a time.
    settings : path, optional
        With an executor: a folder with Snakemake's own settings (a workflow profile: ``config.yaml``).
    """
    try:
        from snakemake.cli import main as snakemake
    except ImportError:
        raise ReefcoreError("Snakemake is not installed", do="pip install 'reefcore[book]'") from None
    if executor and importlib.util.find_spec(f"snakemake_executor_plugin_{executor.replace('-', '_')}") is None:
        do = f"pip install snakemake-executor-plugin-{executor}; that of slurm is in reefcore[cluster]"
        raise ReefcoreError(f"Snakemake has no executor {executor} here", do=do)
    names, output = [_meant(name) for name in names], Path(output).absolute() if output else None
    given = {name: _meant(value, name == "profile") for name, value in given.items()}
    settings = Path(settings).absolute() if settings else None
    if settings and not (settings / "config.yaml").is_file():
        raise ReefcoreError("this folder holds no settings of Snakemake", settings, "put a config.yaml there")
    handle = lock()  # held by this process from here on, for the Snakefile too
    try:
        planned = jobs(names, given, output, apart=bool(executor))
        if all((keys.root() / job.marker).exists() for job in planned):
            return True
        config = {"chapters": names, "given": given, "output": str(output or ""), "lock": handle}
        arguments = ["--snakefile", str(_snakefile()), "--directory", str(keys.root())]
        arguments += ["--keep-going", "--rerun-incomplete", "--rerun-triggers", "mtime"]
        arguments += ["--scheduler", "greedy"]  # solving for the best order takes more time than it saves
        if executor:
            arguments += ["--executor", executor, "--jobs", str(at_once), "--retries", "1", "--latency-wait", "60"]
            arguments += ["--quiet", "host", "reason", "rules"]
            arguments += ["--workflow-profile", str(settings)] if settings else []
        else:
            gpus = max(len(resources.gpus()), *(job.resources["gpu"] for job in planned))
            arguments += ["--cores", str(cores), "--quiet", "all", *(("--resources", f"gpu={gpus}") if gpus else ())]
        stale = sum(not (keys.root() / job.marker).exists() for job in planned)
        try:
            with warm.server() if stale > FEW and not executor else contextlib.nullcontext():
                snakemake([*arguments, "--config", f"reefcore={json.dumps(config)}"])
        except SystemExit as end:
            return not end.code
        return True
    finally:
        keys.release(handle)


def _meant(value, profile: bool = False):
    """Name a file, or a site in the place of a profile, so that it is found from the root, where Snakemake works."""
    if not isinstance(value, str) or Path.cwd() == keys.root():
        return value
    path = site.path if profile and (site := sites.load(value)) and not site.is_made_up else Path(value)
    return str(path.absolute()) if path.suffix in (".yaml", ".yml", ".ipynb") and path.is_file() else value


def _snakefile() -> Path:
    path = keys.root() / "Snakefile"
    return path if path.exists() else share("Snakefile")
