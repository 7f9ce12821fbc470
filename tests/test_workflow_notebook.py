"""Running notebooks: parameters by their types, every failure a sentence, nothing of the machine in the result."""

import json
import os
import subprocess
import sys

import nbformat
import pytest

from reefcore import workflow
from reefcore.errors import ReefcoreError
from reefcore.workflow import engine, notebook

TYPED = """\
text: str = "a"  # some text
whole: int = 3  # a whole number
rate: float = 0.1  # a rate
flag: bool = True  # on or off
names: list[str] = []  # some names
sizes: dict[str, int] = {}  # sizes by name
limit: int | None = None  # at most
plain = 2.5
"""


@pytest.fixture
def declared(checkout):
    return notebook.parameters(notebook.read(checkout.notebook("typed", parameters=TYPED)))


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("text", "7", "7"),
        ("text", "true", "true"),
        ("whole", "7", 7),
        ("whole", 7, 7),
        ("rate", "1e-4", 1e-4),
        ("rate", "2", 2.0),
        ("rate", 2, 2.0),
        ("flag", "false", False),
        ("flag", "No", False),
        ("names", '["a", "b"]', ["a", "b"]),
        ("names", "['a']", ["a"]),
        ("sizes", '{"a": 1}', {"a": 1}),
        ("limit", "12", 12),
        ("plain", "1", 1.0),
    ],
)
def test_a_value_is_read_as_its_type_asks(declared, name, given, value):
    settled = notebook.settle({name: given}, declared, "typed")
    assert settled == {name: value}
    assert type(settled[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("whole", "7.5"),
        ("whole", "seven"),
        ("whole", True),
        ("rate", "fast"),
        ("flag", "perhaps"),
        ("flag", 1),
        ("names", "a"),
        ("names", "[1]"),
        ("sizes", '{"a": "b"}'),
        ("limit", "x"),
        ("text", 7),
    ],
)
def test_a_value_of_another_type_is_refused(declared, name, given):
    with pytest.raises(ReefcoreError, match=f"typed: the parameter {name} must be of type .* not "):
        notebook.settle({name: given}, declared, "typed")


def test_defaults_are_not_passed_and_none_is_a_value(declared):
    assert notebook.settle({"text": "a", "flag": "yes", "limit": "none", "rate": "0.1"}, declared, "typed") == {}
    assert {name: parameter.comment for name, parameter in declared.items()}["rate"] == "a rate"


def test_an_unknown_parameter_is_refused_with_those_there_are(declared):
    with pytest.raises(ReefcoreError, match="unknown parameter 'sed'; it has text, whole"):
        notebook.settle({"sed": "1"}, declared, "typed")


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (None, "no code cell tagged `parameters`"),
        ("print(1)", "line 1 of the parameters cell is not a parameter"),
        ("a: int", "line 1 of the parameters cell is not a parameter"),
        ("a: int = 1 +", "not Python"),
        ("a: int = len('x')", "default of the parameter a is not a constant"),
        ("a: complex = 1", "has the type complex"),
        ("a: int = 'x'", "must be of type int, not 'x'"),
    ],
)
def test_a_parameters_cell_that_is_none_is_refused(checkout, cell, sentence):
    path = checkout.notebook("bad", parameters=cell)
    with pytest.raises(ReefcoreError, match=sentence):
        workflow.execute(path, {}, checkout.folder / "out.ipynb")
    assert not (checkout.folder / "out.ipynb").exists()


def test_two_parameters_cells_are_refused(checkout):
    path = checkout.notebook("two", "b: int = 1")
    content = nbformat.read(path, 4)
    content.cells[2].metadata["tags"] = ["parameters"]
    nbformat.write(content, path)
    with pytest.raises(ReefcoreError, match="2 cells tagged `parameters`"):
        workflow.execute(path, {}, checkout.folder / "out.ipynb")


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"cells": 3}'])
def test_what_is_no_notebook_is_refused(checkout, text):
    path = checkout.folder / "no.ipynb"
    path.write_text(text)
    with pytest.raises(ReefcoreError, match=r"no\.ipynb: this is not a notebook"):
        workflow.execute(path, {}, checkout.folder / "out.ipynb")


def test_an_executed_notebook_has_its_outputs_and_nothing_of_the_machine(checkout):
    checks = 'assert (whole, names, flag, rate) == (5, ["x"], False, 1e-4), (whole, names, flag, rate)'
    shown = "import os, sys, tempfile\nprint(os.getcwd() + '/data', sys.executable, tempfile.gettempdir(), object())\n"
    shown += "import warnings; warnings.warn('careful')"
    path = checkout.notebook(
        "typed", checks, shown, "print(1); print(2, file=sys.stderr); 'AAAA/tmp/BBBB'", parameters=TYPED
    )
    given = {"whole": "5", "names": '["x"]', "flag": "false", "rate": "1e-4"}
    texts = []
    for name in ("one", "two"):
        workflow.execute(path, given, checkout.folder / "out" / f"{name}.ipynb")
        texts.append((checkout.folder / "out" / f"{name}.ipynb").read_text())
    assert texts[0] == texts[1]
    for trace in (str(checkout.folder), sys.prefix, os.path.expanduser("~") + "/", "ipykernel_", "papermill", "date"):
        assert trace not in texts[0]
    content = nbformat.reads(texts[0], 4)
    assert [cell.execution_count for cell in content.cells if cell.cell_type == "code"] == [1, 2, 3, 4, 5]
    printed = content.cells[4].outputs[0].text
    assert printed.startswith("./data <python>/bin/python") and "<temporary>" in printed and "0x0>" in printed
    assert content.cells[5].outputs[-1].data["text/plain"] == "'AAAA/tmp/BBBB'"  # as in base64: no path


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (["1", "1 / 0"], "code cell 3 raised ZeroDivisionError: division by zero"),
        (["import os; os._exit(3)"], "code cell 2: the kernel died .DeadKernelError"),
        (["import sys; sys.exit(0)", "1"], "code cell 2 raised SystemExit: 0"),
        (["import time; time.sleep(60)"], "code cell 2: it took longer than 1 s .CellTimeoutError"),
        (["def"], "code cell 2 raised SyntaxError: "),
    ],
)
def test_a_failure_is_one_sentence_and_the_unfinished_notebook_lies_aside(checkout, cells, sentence):
    path, out, failed = (
        checkout.notebook("wrong", *cells),
        checkout.folder / "out.ipynb",
        checkout.folder / "failed.ipynb",
    )
    with pytest.raises(ReefcoreError, match=sentence) as caught:
        workflow.execute(path, {}, out, failed=failed, timeout=1)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("wrong: ")
    assert not out.exists()
    assert str(checkout.folder) not in failed.read_text()
    code = [cell.source for cell in nbformat.read(failed, 4).cells if cell.cell_type == "code"]
    assert code[1:] == cells


def test_a_cell_that_was_skipped_is_a_failure(checkout):
    path = checkout.notebook("skips", "1")
    content = nbformat.read(path, 4)
    content.cells[2].metadata["tags"] = ["skip-execution"]
    nbformat.write(content, path)
    with pytest.raises(ReefcoreError, match="code cell 2 was not run"):
        workflow.execute(path, {}, checkout.folder / "out.ipynb")


def test_a_kernel_that_does_not_start_is_tried_again(checkout, monkeypatch):
    good, starts = engine.Kernel.kernel_spec.fget, []

    def flaky(self):
        starts.append(1)
        spec = good(self)
        if len({id(s) for s in seen}) <= 2:
            spec.argv = [sys.executable, "-c", "raise SystemExit('Address already in use')"]
        return spec

    seen = []
    original = engine.Engine.execute_managed_notebook.__func__

    def counted(cls, nb_man, *arguments, **options):
        seen.append(nb_man)
        return original(cls, nb_man, *arguments, **options)

    monkeypatch.setattr(engine.Kernel, "kernel_spec", property(flaky))
    monkeypatch.setattr(engine.Engine, "execute_managed_notebook", classmethod(counted))
    path = checkout.notebook("late", "1")
    workflow.execute(path, {}, checkout.folder / "out.ipynb")
    assert len(seen) == 3
    monkeypatch.setattr(notebook, "STARTS", 2)
    seen.clear()
    with pytest.raises(ReefcoreError, match=r"late: the notebook did not start: .*"):
        workflow.execute(path, {}, checkout.folder / "out.ipynb")
    assert len(seen) == 2


def test_the_kernel_is_this_python_whatever_is_installed_as_python3(checkout, monkeypatch):
    spec = checkout.folder / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(json.dumps({"argv": ["false"], "display_name": "other", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(checkout.folder / "jupyter"))
    path = checkout.notebook("here", f"import sys; assert sys.executable == {sys.executable!r}")
    workflow.execute(path, {}, checkout.folder / "out.ipynb")


def test_plain_papermill_runs_the_same_notebook(checkout):
    path = checkout.notebook("plain", "assert whole == 4", parameters="whole: int = 3  # a number")
    out = checkout.folder / "out.ipynb"
    command = [sys.executable, "-m", "papermill", str(path), str(out), "-p", "whole", "4", "-k", "python3"]
    subprocess.run(command, check=True, capture_output=True, cwd=path.parent)
    assert out.exists()
