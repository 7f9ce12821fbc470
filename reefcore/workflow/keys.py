"""Keys: what a step or a chapter is made from, as one hash; and the records of what has been made.

A key is a Merkle hash. It covers the source text of the reefcore modules that are used (found by following the imports,
so an edit elsewhere changes nothing), the data files these modules ask `reefcore.files.share` for, the settings and
parameters, the keys of the inputs, the lock file and the version. Times of files never count.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import reefcore
from reefcore.errors import ReefcoreError
from reefcore.files import sha256, share, write_json

PACKAGE = Path(reefcore.__file__).resolve().parent
DATA = (".csv", ".json", ".yaml")  # what lies beside the modules of a package belongs to it
ROOT = "REEFCORE_ROOT"  # tells the kernel of a site's notebook, which runs in the site's folder, what the root is
STOP = "reefcore.workflow"  # what a chapter gets through the workflow is covered by the keys of its inputs


def root() -> Path:
    """Return the folder everything is built in.

    It is the checkout the current folder lies in, else the checkout reefcore was installed from, else the current
    folder: a notebook finds the same data wherever it is run from.
    """
    if ROOT in os.environ:
        return Path(os.environ[ROOT])
    here = Path.cwd()
    for folder in (here, *here.parents, PACKAGE.parent):
        if (folder / "Snakefile").is_file() and (folder / "notebooks").is_dir():
            return folder
    return here


# ---------------------------------------------------------------------------------------------------------- sources


def _file_of(module: str) -> Path | None:
    """Return the file of a module of this package, or None where the name is not a module (a function, a class)."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    for candidate in (path / "__init__.py", path.with_suffix(".py")):
        if candidate.is_file():
            return candidate
    return None


@functools.lru_cache(maxsize=1)  # one text after the other is asked for its imports and for its data
def _nodes(source: str) -> list[ast.AST]:
    """Parse a text, and keep what `imports` and `shared` look at."""
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def imports(source: str, package: str = "") -> set[str]:
    """List the reefcore modules that a source text imports, inside functions too.

    Parameters
    ----------
    source : str
        Python.
    package : str
        The package the text is in, for its relative imports.
    """
    found = set()
    for node in _nodes(source):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        found |= {name for name in names if name.split(".")[0] == "reefcore" and _file_of(name)}
    return found


def shared(source: str) -> set[str]:
    """List the data files or folders that a source text asks `reefcore.files.share` for, as far as constants say."""
    found = set()
    for node in _nodes(source):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "share":
            parts = []
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    break
                parts.append(argument.value)
            if parts:
                found.add("/".join(parts))
    return found


def modules(*names: str, source: str = "") -> dict[str, str]:
    """Hash the modules that some modules, or a source text, use, and the data files beside them or asked for by them.

    Returns
    -------
    dict
        ``reefcore/...`` or ``data/...`` -> SHA-256 of its content.
    """
    queue = [name for name in {*names, *imports(source)} if name != STOP]
    seen, data = set(), shared(source)
    while queue:
        name = queue.pop()
        if name in seen or name.startswith(STOP):
            continue
        seen.add(name)
        parents = name.rpartition(".")[0]
        _, used, files = _scan(_file_of(name), name)
        queue += [*used, *([parents] if parents else [])]
        data |= files
    result = {}
    for name in seen:
        file = _file_of(name)
        result[file.relative_to(PACKAGE.parent).as_posix()] = _scan(file, name)[0]
        beside = file.parent.iterdir() if file.name == "__init__.py" else ()
        result |= {p.relative_to(PACKAGE.parent).as_posix(): sha256(p) for p in beside if p.suffix in DATA}
    for place in data:
        result.update(_shared_hashes(place))
    return dict(sorted(result.items()))


@functools.cache
def _scan(file: Path, name: str) -> tuple[str, frozenset, frozenset]:
    """Read a module once: its hash, the modules it imports, the data it asks for."""
    source = file.read_text(encoding="utf-8")
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    return text_hash(source), frozenset(imports(source, package)), frozenset(shared(source))


@functools.cache
def _shared_hashes(place: str) -> dict[str, str]:
    try:
        top = share(*place.split("/"))
    except ReefcoreError:
        return {place: "missing"}
    files = sorted(p for p in top.rglob("*") if p.is_file()) if top.is_dir() else [top]
    return {f"{place}/{p.relative_to(top).as_posix()}" if top.is_dir() else place: sha256(p) for p in files}


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def environment(own: bool = False) -> dict[str, str]:
    """Say what everything runs on: the lock file (without one, the installed packages), the version, Python.

    An ecologist's `own` reef is the same from whatever folder it is opened: of it, the packages that the library always
    needs count, and no lock file.
    """
    lock = root() / "requirements.lock"
    if own:
        asked = [line for line in importlib.metadata.requires("reefcore") or () if "extra ==" not in line]
        names = sorted(re.match(r"[\w.-]+", line)[0] for line in asked)
        packages = text_hash("\n".join(f"{name}=={importlib.metadata.version(name)}" for name in names))
    elif lock.exists():
        packages = sha256(lock)
    else:
        packages = text_hash("\n".join(sorted(f"{d.name}=={d.version}" for d in importlib.metadata.distributions())))
    return {"requirements.lock": packages, "version": reefcore.__version__, "python": "{}.{}".format(*sys.version_info)}


def key_of(ingredients: dict) -> str:
    """Hash ingredients: 16 hexadecimal digits."""
    return text_hash(json.dumps(ingredients, sort_keys=True, default=str))[:16]


# ---------------------------------------------------------------------------------------------------------- records


def _entries(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _stats(path: str, above: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Give the names of the files below a folder, in order, and what is known of each: 300,000 in some seconds."""
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _stats(entry.path, f"{above}{entry.name}/")
        elif entry.is_file():
            yield above + entry.name, entry.stat()


def glance(path: Path, times: bool = True) -> str:
    """Fingerprint a file or folder by names, sizes and (unless told otherwise) times: equal means untouched."""
    stats = _stats(str(path)) if path.is_dir() else [(".", path.stat())]
    return text_hash(json.dumps([(name, s.st_size, s.st_mtime_ns if times else 0) for name, s in stats]))[:16]


def digest(path: Path) -> str:
    """Hash the content of a file, or the names and contents of a folder."""
    if not path.is_dir():
        return sha256(path)
    return text_hash("\n".join(f"{p.relative_to(path).as_posix()} {sha256(p)}" for p in _entries(path)))


def known_digest(path: Path, folder: Path, fetched: dict | None = None) -> str:
    """Hash the content of a large file of a data folder once, and remember it there for as long as it is untouched.

    Of a file that was `fetched`, the ``sha256`` is on record, with its ``size`` and the time ``modified`` of then.
    """
    memory, name, now = folder / ".keys" / "digests.json", path.relative_to(folder).as_posix(), glance(path)
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    if known.get(name, [""])[0] != now:
        facts = {"size": path.stat().st_size, "modified": path.stat().st_mtime_ns}
        same = fetched and facts == {fact: fetched.get(fact) for fact in facts} and fetched.get("sha256")
        known[name] = [now, same or digest(path)]
        with contextlib.suppress(OSError):  # a folder that is only read stays as it is
            write_json(known, memory)
    return known[name][1]


def describe(folder: Path, outputs: Iterable[str]) -> dict[str, dict]:
    """Fingerprint outputs, relative to their folder, for a record."""
    return {name: {"glance": glance(folder / name), "sha256": digest(folder / name)} for name in outputs}


def read_record(path: Path) -> dict | None:
    """Read a record: JSON with ``key``, ``ingredients`` and ``outputs`` at least. None where there is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    return record if isinstance(record, dict) and {"key", "ingredients", "outputs"} <= set(record) else None


def fresh(path: Path, folder: Path, key: str) -> dict | None:
    """Return a record, where its key is this one and the outputs in the folder are there, whole and unchanged."""
    record = read_record(path)
    if record is None or record["key"] != key:
        return None
    before = json.dumps(record)
    if not all(_intact(folder / output, was) for output, was in record["outputs"].items()):
        return None
    if json.dumps(record) != before:
        with contextlib.suppress(OSError):  # a folder that is only read stays as it is
            write_json(record, path)
    return record


def _intact(path: Path, was: dict) -> bool:
    """Tell whether an output is what was written: its content decides, its times only save the reading."""
    if not path.exists():
        return False
    now = glance(path)
    if now != was["glance"] and digest(path) != was["sha256"]:
        return False
    was["glance"] = now
    return True


def changes(old: dict | None, new: dict) -> list[str]:
    """List which ingredients differ."""
    old = old or {}
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


# ------------------------------------------------------------------------------------------------------------ locks


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock while the block runs, waiting for it; the kernel drops it with the process, however that ends."""
    handle = _open_lock(path)
    try:
        _flock(handle, wait=True)
        yield
    finally:
        os.close(handle)


def take(path: Path, patience: float = 2.0) -> int | None:
    """Take a lock, waiting some seconds at most: a file descriptor that holds it until closed, or None."""
    handle, until = _open_lock(path), time.monotonic() + patience
    while not _flock(handle, wait=False):  # the children of a killed build end a moment after it
        if time.monotonic() > until:
            os.close(handle)
            return None
        time.sleep(0.1)
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def _open_lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # the umask says who else may build here


def _flock(handle: int, wait: bool) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def release(handle: int) -> None:
    """Give back a lock of `take`."""
    os.close(handle)
