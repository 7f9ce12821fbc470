"""Chapters and the whole build: what depends on what, as Snakemake is told, and running one job of it."""

from __future__ import annotations

import ast
import dataclasses
import datetime
import importlib.metadata
import json
import re
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from reefcore.errors import ReefcoreError
from reefcore.files import share, write_json
from reefcore.profiles import Profile
from reefcore.workflow import keys, notebook, steps
from reefcore.workflow.project import RECORD, code_version, find_profile, fingerprint

BOOK = "book/chapters"  # where the book looks for the executed notebooks
_RUN_BY = ("project.py", "notebook.py", "engine.py")  # the part of the workflow that a page goes through


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
    """

    name: str
    notebook: Path
    profile: Profile
    given: dict = dataclasses.field(hash=False)
    needs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The data folder it reads."""
        return self.profile.folder(keys.root())


def notebooks() -> dict[str, Path]:
    """Find the chapters: name -> notebook, in the order of the book."""
    folder = keys.root() / "notebooks"
    if not folder.is_dir():
        folder = share("notebooks")
    return {path.stem: path for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))}


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
    result = []
    for path in paths:
        mine = {name: value for name, value in given.items() if name in declared[path]}
        settled = notebook.settle(mine, declared[path], path.name)
        chosen = {name: parameter.default for name, parameter in declared[path].items()} | settled
        under = find_profile(chosen.get("profile", "sample")).with_seed(chosen.get("seed"))
        result.append(Chapter(path.stem, path, under, settled, needs(_code(contents[path]), under)))
    return result


def _code(content) -> str:
    """Join the code cells of a notebook as Python, without the lines of IPython's own (``%``, ``!``)."""
    cells = "\n".join(cell.source for cell in content.cells if cell.cell_type == "code")
    return re.sub(r"(?m)^\s*[%!].*$", "", cells)


def needs(code: str, profile: Profile) -> tuple[str, ...]:
    """List the steps a notebook's code reads from: by its ``project.table("...")``, ``project.photos``, ``.patches``,
    ``.frames``.

    A project is what ``workflow.open`` was assigned to; a table whose name is computed could be any of them.
    """
    nodes = list(ast.walk(ast.parse(code)))
    opened = [
        n.targets[0] for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.value).startswith("workflow.open(")
    ]
    projects = {target.id for target in opened if isinstance(target, ast.Name)}
    used = [
        n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in projects
    ]
    outputs = {{"photos": "photos", "patches": "patches.parquet", "frames": "frames"}.get(node.attr) for node in used}
    for node in nodes:
        if isinstance(node, ast.Call) and node.func in used and node.func.attr == "table":
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            every = {o for step in steps.plan(profile).values() for o in step.outputs if o.endswith(".parquet")}
            every = {o for o in every if "/" not in o or o.partition("/")[0] in steps.SEVERAL}
            outputs |= {name if name in steps.SEVERAL else f"{name}.parquet"} if name else every
    makers = {steps.maker(profile, output) for output in outputs if output}
    return tuple(name for name in steps.plan(profile) if name in makers)


def ingredients(chapter: Chapter) -> dict[str, str]:
    """Say what a chapter is made from, name by name."""
    content = notebook.read(chapter.notebook)
    cells = [[cell.cell_type, cell.source, sorted(cell.metadata.get("tags", []))] for cell in content.cells]
    made_of = {
        "notebook": keys.text_hash(json.dumps(cells)),
        **keys.environment(),
        **keys.modules(source=_code(content)),
    }
    for name in _RUN_BY:
        text = (keys.PACKAGE / "workflow" / name).read_text(encoding="utf-8")
        made_of[f"reefcore/workflow/{name}"] = keys.text_hash(text)
    made_of |= {f"profile {name}": str(value) for name, value in chapter.profile.settings.items()}
    made_of |= {f"parameter {name}": repr(value) for name, value in chapter.given.items()}
    for name, value in chapter.given.items():
        if isinstance(value, str) and value and name != "profile" and (keys.root() / value).exists():
            made_of[f"file {name}"] = keys.glance(keys.root() / value)  # what it holds counts, not only its name
    return made_of | {f"step {need}": steps.key(chapter.profile, chapter.folder, need) for need in chapter.needs}


def key_of(chapter: Chapter) -> str:
    """Return the key of a chapter."""
    return keys.key_of(ingredients(chapter))


def record_path(output: Path, name: str) -> Path:
    """Return where the record of a chapter lies: beside the executed notebook, for people and programs to read."""
    return output / f"{name}.json"


def is_fresh(chapter: Chapter, output: Path) -> bool:
    """Tell whether a chapter is up to date."""
    return keys.fresh(record_path(output, chapter.name), output, key_of(chapter)) is not None


def ensure(chapter: Chapter, output: Path, workers: int = steps.WORKERS) -> dict:
    """Make a chapter up to date, and the steps it needs; return its record, which is also written beside it.

    The record holds the profile, the parameters, the seed, the code version and whether it was dirty, the hashes of the
    inputs, the packages, start and duration, the key and what went into it.
    """
    top, made_of, path = keys.root(), ingredients(chapter), record_path(output, chapter.name)
    key = keys.key_of(made_of)
    with keys.locked(top / "build" / "locks" / f"{keys.text_hash(str(path))[:16]}.lock"):
        if record := keys.fresh(path, output, key):
            return record
        inputs = {}
        for need in chapter.needs:
            made = steps.ensure(chapter.profile, chapter.folder, need, workers)
            inputs[need] = {name: fingerprint(made, name) for name in steps.plan(chapter.profile)[need].outputs}
        executed, failed = output / f"{chapter.name}.ipynb", top / "build" / "failed" / f"{chapter.name}.ipynb"
        began, start = time.perf_counter(), datetime.datetime.now(datetime.UTC)
        # The bars of libraries of models ask for widgets, which a page does not have.
        env = {RECORD: path.name, "PYTHONWARNINGS": "ignore:IProgress not found"}
        notebook.execute(chapter.notebook, chapter.given, executed, cwd=top, failed=failed, env=env)
        failed.unlink(missing_ok=True)
        declared = notebook.parameters(notebook.read(chapter.notebook), chapter.notebook.name)
        record = {
            "name": chapter.name,
            "profile": chapter.profile.name,
            "notice": chapter.profile.notice,
            "seed": chapter.profile.seed,
            "parameters": {name: parameter.default for name, parameter in declared.items()} | chapter.given,
            "code": code_version(),
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
    threads : int
    command : str
    """

    name: str
    marker: Path
    needs: tuple[Path, ...]
    threads: int
    command: str


def jobs(names: list[str], given: dict, output: str | Path | None = None) -> list[Job]:
    """Plan a build: every chapter and the steps it needs, each after those it needs itself.

    Markers are put right on the way, so that Snakemake, which looks at nothing else, runs what is not up to date and
    what comes after it, whatever times the files have.

    Parameters
    ----------
    names, given
        See `chapters`.
    output : path, optional
        Where the executed notebooks go; by default into the book.
    """
    top = keys.root()
    output = Path(output or top / BOOK).absolute()
    plan: dict[Path, Job] = {}
    stale: set[Path] = set()

    def add(name, key, is_fresh, needed, threads, command) -> Path:
        marker = Path("build", "done", f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}-{key}")
        if marker not in plan:
            up_to_date = is_fresh()
            if not up_to_date or stale & set(needed):
                stale.add(marker)
            plan[marker] = Job(name, marker, tuple(needed), threads, f"{command} --key {key} --marker {marker}")
        return marker

    def add_step(one: Profile, folder: Path, name: str) -> Path:
        step, key = steps.plan(one)[name], steps.key(one, folder, name)
        seed = f" seed {one.seed}" if one.data != find_profile(str(one.path)).data else ""
        # A survey's runs are trained in one job that shares its processes, unless each deserves a machine of its own.
        together = one.kind == "sample"
        needs = step.before if step.before and together else step.needs
        if together and not step.before:  # what starts from one of them waits for all
            trained = steps.runs(one)
            needs = dict.fromkeys("train" if need in trained else need for need in needs)
        needed = [add_step(one, folder, need) for need in needs]
        command = _command("step", name, "--profile", _relative(one.path), "--seed", one.seed)
        wide = name in ("data", "covariates", "patches", "survey", "frame_patches") or (step.before and together)
        return add(
            f"step {name} {one.name}{seed}",
            key,
            lambda: steps.is_fresh(one, folder, name),
            needed,
            2 if wide else 1,
            command,
        )

    for chapter in chapters(names, given):
        needed = [add_step(chapter.profile, chapter.folder, need) for need in chapter.needs]
        options = [part for name, value in chapter.given.items() for part in ("-p", f"{name}={_as_text(value)}")]
        command = _command("chapter", chapter.notebook, "--output", output, *options)
        add(f"chapter {chapter.name}", key_of(chapter), lambda c=chapter: is_fresh(c, output), needed, 1, command)
    for job in plan.values():
        marker = top / job.marker
        if job.marker in stale:
            marker.unlink(missing_ok=True)
        elif not marker.exists():
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
    return list(plan.values())


def _command(*parts) -> str:
    """Write the command of a job for the shell; `exec`, so that the parent of the job is Snakemake and no shell.

    One thread of linear algebra for each: two processes with two threads each would slow both down.
    """
    words = map(shlex.quote, map(str, (sys.executable, "-m", "reefcore", "--with-parent", "job", *parts)))
    return f"exec env OMP_NUM_THREADS=1 {' '.join(words)}"


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


def run(names: list[str], given: dict, output: str | Path | None = None, cores: int = 2) -> bool:
    """Build chapters and the steps they need, with Snakemake; return whether everything succeeded.

    What fails says so itself, on standard error, and what does not depend on it is still built.
    """
    try:
        from snakemake.cli import main as snakemake
    except ImportError:
        raise ReefcoreError("Snakemake is not installed", do="pip install 'reefcore[book]'") from None
    handle = lock()  # held by this process from here on, for the Snakefile too
    try:
        planned = jobs(names, given, output)
        if all((keys.root() / job.marker).exists() for job in planned):
            return True
        config = {"chapters": names, "given": given, "output": str(output or ""), "lock": handle}
        arguments = ["--snakefile", str(_snakefile()), "--directory", str(keys.root()), "--cores", str(cores)]
        arguments += ["--quiet", "all", "--keep-going", "--rerun-incomplete", "--rerun-triggers", "mtime"]
        try:
            snakemake([*arguments, "--config", f"reefcore={json.dumps(config)}"])
        except SystemExit as end:
            return not end.code
        return True
    finally:
        keys.release(handle)


def _snakefile() -> Path:
    path = keys.root() / "Snakefile"
    return path if path.exists() else share("Snakefile")
