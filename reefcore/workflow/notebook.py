"""Running a notebook, strictly: it does what is asked, or a sentence says why not, and keeps nothing of the machine."""

from __future__ import annotations

import ast
import copy
import io
import json
import logging
import os
import re
import sys
import tempfile
import tokenize
from dataclasses import dataclass
from pathlib import Path
from types import NoneType

from reefcore.errors import ReefcoreError
from reefcore.files import atomic

TYPES = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "None": NoneType}
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
STARTS = 3  # tries to start a kernel


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's parameters cell: ``name: type = default  # comment``."""

    name: str
    type: ast.expr
    default: object
    comment: str


def read(path: str | Path):
    """Read a notebook.

    Raises
    ------
    ReefcoreError
        Where it is missing, or is no notebook.
    """
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise ReefcoreError("this notebook does not exist", path, "check its name") from None
    except Exception as error:  # nbformat lets json, jsonschema and its own errors through
        raise ReefcoreError(f"this is not a notebook ({_one_line(error)})", path) from None
    for number, cell in enumerate(notebook.cells):  # nbformat invents random ids for old notebooks
        if notebook.nbformat_minor < 5:
            cell["id"] = f"cell-{number}"
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
    return notebook


def parameters(notebook, where: str | Path = "notebook") -> dict[str, Parameter]:
    """Read the parameters of a notebook from its one cell tagged ``parameters``.

    Raises
    ------
    ReefcoreError
        Where there is no such cell or more than one, or a line of it is not ``name: type = default``.
    """
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1 or cells[0].cell_type != "code":
        found = "no code cell" if not cells else f"{len(cells)} cells" if len(cells) > 1 else "a cell without code"
        raise ReefcoreError(f"{found} tagged `parameters`", where, "tag exactly one code cell with it")
    source = cells[0].source
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise ReefcoreError(f"the parameters cell is not Python ({error.msg}, line {error.lineno})", where) from None
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            name, kind = node.target.id, node.annotation
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, kind = node.targets[0].id, None
        else:
            raise ReefcoreError(
                f"line {node.lineno} of the parameters cell is not a parameter",
                where,
                "write `name: type = default  # comment`",
            )
        try:
            default = ast.literal_eval(node.value)
        except ValueError:
            raise ReefcoreError(
                f"the default of the parameter {name} is not a constant", where, "write a plain value"
            ) from None
        if kind is None:  # without a type, the default's
            kind = ast.parse(type(default).__name__ if default is not None else "None", mode="eval").body
        parameter = Parameter(name, kind, default, comments.get(node.end_lineno, ""))
        _fits(default, parameter, where)
        found[name] = parameter
    return found


def _fits(value, parameter: Parameter, where: str | Path) -> object:
    """Return a value in the declared type of a parameter; a whole number is a float too, but true is no number."""

    def fit(value, kind: ast.expr):
        text = ast.unparse(kind)
        if isinstance(kind, ast.BinOp) and isinstance(kind.op, ast.BitOr):
            for side in (kind.left, kind.right):
                try:
                    return fit(value, side)
                except TypeError:
                    continue
            raise TypeError
        if isinstance(kind, ast.Subscript):
            inner = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
            value = fit(value, kind.value)
            if isinstance(value, dict):
                return {fit(k, inner[0]): fit(v, inner[-1]) for k, v in value.items()}
            return [fit(v, inner[0]) for v in value]
        if text not in TYPES:
            raise ReefcoreError(
                f"the parameter {parameter.name} has the type {text}",
                where,
                f"use {', '.join(TYPES)}, list[...], ... | None",
            )
        if text == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, TYPES[text]) or (isinstance(value, bool) and text != "bool"):
            raise TypeError
        return value

    try:
        return fit(value, parameter.type)
    except TypeError:
        raise ReefcoreError(
            f"the parameter {parameter.name} must be of type {ast.unparse(parameter.type)}, not {value!r}", where
        ) from None


def _parsed(text: str, parameter: Parameter):
    """Read a value from the command line as the declared type of its parameter asks."""
    kinds = {node.id for node in ast.walk(parameter.type) if isinstance(node, ast.Name)}
    optional = any(isinstance(node, ast.Constant) and node.value is None for node in ast.walk(parameter.type))
    if optional and text.lower() in ("none", "null"):
        return None
    if isinstance(parameter.type, ast.Name) and parameter.type.id == "bool":
        return WORDS.get(text.lower(), text)
    if kinds == {"str"} and not isinstance(parameter.type, ast.Subscript):
        return text
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text


def settle(given: dict, declared: dict[str, Parameter], where: str | Path) -> dict:
    """Check given parameters against the declared ones.

    Parameters
    ----------
    given : dict
        Name -> value; text is read as the declared type asks (``"1e-4"`` float, ``'["a"]'`` a list, ``false`` a bool).
    declared : dict
        Of `parameters`.
    where : str or path
        The notebook, for the sentence.

    Returns
    -------
    dict
        The parameters whose value is not the default.

    Raises
    ------
    ReefcoreError
        Where a parameter is not declared, or a value is of another type.
    """
    settled = {}
    for name, value in given.items():
        if name not in declared:
            raise ReefcoreError(f"unknown parameter {name!r}", where, f"it has {', '.join(declared) or 'none'}")
        parameter = declared[name]
        value = _fits(_parsed(value, parameter) if isinstance(value, str) else value, parameter, where)
        if value != parameter.default or type(value) is not type(parameter.default):
            settled[name] = value
    return settled


def execute(
    notebook: str | Path,
    given: dict | None,
    out: str | Path,
    *,
    cwd: str | Path | None = None,
    failed: str | Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float = 3600,
) -> None:
    """Run a notebook over papermill and save the result, whole or not at all.

    The saved notebook has outputs but nothing of the machine: paths are relative, times, process numbers and memory
    addresses are gone, so the same inputs give the same bytes as far as the outputs do.

    Parameters
    ----------
    notebook : path
    given : dict, optional
        Parameters; see `settle`.
    out : path
        The executed notebook.
    cwd : path, optional
        The folder to run it in; by default the current one.
    failed : path, optional
        Where an unfinished notebook is saved.
    env : dict, optional
        Environment variables for the kernel, besides those of this process.
    timeout : float
        Seconds a single cell may take.

    Raises
    ------
    ReefcoreError
        One sentence with the chapter, the code cell's number and the error: where a parameter is wrong, a cell raises
        or exits, the kernel dies or does not start, or the time is up.
    """
    where = Path(notebook)
    source = read(where)
    settled = settle(given or {}, parameters(source, where.name), where.name)
    cwd = Path(cwd or Path.cwd()).resolve()
    for _ in range(STARTS):
        executed, begun, problem = _attempt(source, settled, cwd, env or {}, timeout)
        if begun or not problem:
            break
    _scrub(executed, cwd)
    if problem:
        if failed:
            write(executed, Path(failed))
        raise ReefcoreError(problem, where.stem, f"the unfinished notebook is {failed}" if failed else None)
    write(executed, Path(out))


def _attempt(source, settled: dict, cwd: Path, env: dict, timeout: float):
    """Run a notebook once: the notebook as far as it came, whether a cell was begun, and what went wrong, if any."""
    from papermill import execute_notebook

    from reefcore.workflow import engine

    # It cannot read the type `str | None` and then warns of an unknown parameter; `settle` has refused those.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    ran, reason = [], None
    with tempfile.TemporaryDirectory(prefix="reef") as short:
        steady = {"IPYTHONDIR": f"{short}/ipython", "PYTHONHASHSEED": "0", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        errors = Path(short) / "stderr"
        with errors.open("wb") as stderr:
            try:
                execute_notebook(
                    copy.deepcopy(source),
                    None,
                    settled,
                    engine_name=engine.NAME,
                    kernel_name="python3",
                    language="python",
                    progress_bar=False,
                    ran=ran,
                    connection_file=f"{short}/k.json",
                    execution_timeout=timeout,
                    kernel={"env": os.environ | steady | env, "cwd": str(cwd), "stderr": stderr},
                )
            except Exception as error:  # papermill, nbclient, zmq and the kernel each raise their own
                reason = error
        last = errors.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    executed = ran[0] if ran else copy.deepcopy(source)
    begun = [cell for cell in executed.cells if cell.metadata.get("papermill", {}).get("start_time")]
    return executed, bool(begun), _problem(executed, begun, reason, timeout, last)


def _problem(executed, begun: list, reason: Exception | None, timeout: float, last: str) -> str | None:
    """Say in one sentence why a run is not a success; None where it is one."""
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    code = [cell for cell in cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    numbers = [number for number, cell in enumerate(code, 1) if any(cell is one for one in begun)]
    place, kind = f"code cell {numbers[-1]}" if numbers else "the notebook did not start", type(reason).__name__
    if kind == "DeadKernelError":
        words = f"its last words: {_one_line(last)}" if last else "as when memory runs out or the code ends the process"
        return f"{place}: the kernel died (DeadKernelError), {words}"
    if kind == "CellTimeoutError":
        return f"{place}: it took longer than {timeout:g} s (CellTimeoutError)"
    for number, cell in enumerate(code, 1):
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                return f"code cell {number} raised {_one_line(f'{output.ename}: {output.evalue}')}"
    if reason is not None:
        return f"{place}: {kind}: {_one_line(reason)}"
    for number, cell in enumerate(code, 1):
        if cell.source.strip() and cell.get("execution_count") is None:
            return f"code cell {number} was not run"
    return None


def _one_line(error: object) -> str:
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())
    return text if len(text) <= 300 else text[:297] + "..."


def _scrub(notebook, cwd: Path) -> None:
    """Take everything of the machine and the moment out of an executed notebook."""
    for name in ("papermill", "widgets"):
        notebook.metadata.pop(name, None)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    folders = {str(cwd): ".", sys.prefix: "<python>", sys.base_prefix: "<python>", str(Path.home()): "~"}
    folders |= {tempfile.gettempdir(): "<temporary>"}
    names = sorted((f for f in folders if len(f) > 1), key=len, reverse=True)
    # Not inside a longer word, which could be an image in base64.
    paths = re.compile(rf"(?<![\w+/=.-])({'|'.join(map(re.escape, names))})(?![\w+=-])")

    def clean(value):
        if isinstance(value, list):
            return [clean(v) for v in value]
        if isinstance(value, dict):
            return {k: clean(v) for k, v in value.items()}
        if not isinstance(value, str):
            return value
        if "/ipykernel_" in value:
            value = re.sub(r"(?:/[\w.+-]{1,100}){1,9}/ipykernel_\d+/\d+\.py", "<cell>", value)
        value = paths.sub(lambda match: folders[match[1]], value)
        return re.sub(r"\b0x[0-9a-f]{8,16}\b", "0x0", value)

    for number, cell in enumerate(notebook.cells):
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = f"injected-{number}"
            cell.source = clean(cell.source)
        for output in cell.get("outputs", []):
            for name in ("text", "ename", "evalue", "traceback"):
                if name in output:
                    output[name] = clean(output[name])
            for mime, value in output.get("data", {}).items():
                if mime.startswith("text/") or mime.endswith("json"):
                    output["data"][mime] = clean(value)


def write(notebook, path: Path) -> None:
    """Save a notebook, whole or not at all."""
    import nbformat

    with atomic(path) as temporary:
        temporary.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
