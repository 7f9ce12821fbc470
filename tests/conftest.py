"""What several tests share: the smoke profile, files to read, and a checkout of one's own to build in."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from reefcore import workflow
from reefcore.errors import ReefcoreError
from reefcore.parallel import pool
from reefcore.workflow import build

TOP = Path(__file__).resolve().parents[1]
CHAPTERS = pytest.StashKey[tuple]()


def _start(config, workers: int) -> None:
    """Start to execute the book's chapters on the smoke profile, as the jobs of a build execute them.

    A few processes take turns: one for each chapter, as in a build, spends most of its time on imports.
    """
    chapters = build.chapters(["all"], {"profile": "smoke"})
    folder = Path(tempfile.mkdtemp(prefix="reefcore-chapters-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # as a build does
        processes = pool(workers)
        config.stash[CHAPTERS] = folder, processes, [processes.submit(build.ensure, c, folder, 1) for c in chapters]


def pytest_collection_finish(session):
    """Where much else is tested too, start to execute the chapters in one process beside it."""
    wanted = ["executed" in getattr(item, "fixturenames", ()) for item in session.items]
    if any(wanted) and wanted.count(False) > 100 and not session.config.option.collectonly:
        with contextlib.suppress(ReefcoreError):  # the fixture says it
            _start(session.config, 1)


def pytest_unconfigure(config):
    """Leave nothing behind where the tests end before the chapters do."""
    if CHAPTERS in config.stash:
        folder, processes, _ = config.stash[CHAPTERS]
        processes.shutdown(cancel_futures=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def executed(pytestconfig) -> Path:
    """The folder with the chapters executed on the smoke profile."""
    if CHAPTERS not in pytestconfig.stash:
        _start(pytestconfig, 2)
    folder, processes, jobs = pytestconfig.stash[CHAPTERS]
    for job in jobs:
        job.result()
    processes.shutdown()  # their coverage is written when they end
    return folder


@pytest.fixture(scope="session")
def smoke() -> workflow.Project:
    """The smoke profile in build/smoke: its tables are made when a test asks for them, and kept while they hold."""
    return workflow.open("smoke")


@pytest.fixture
def put(tmp_path):
    """Write a file, of text or of bytes, and give its path."""

    def write(content, name="reef.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


class Checkout:
    """A folder that the workflow takes for a checkout, with notebooks of a test."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.chapters = folder / "book" / "chapters"
        (folder / "notebooks").mkdir()
        for name in ("Snakefile", "requirements.lock"):
            shutil.copy(TOP / name, folder)

    def notebook(
        self, name: str, *cells: str, parameters: str | None = 'profile: str = "sample"  # where the data are'
    ):
        """Write a notebook with a parameters cell (None leaves it out) and code cells; return its path."""
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
        sources = ([] if parameters is None else [parameters]) + list(cells)
        notebook.cells = [nbformat.v4.new_markdown_cell(f"# {name}", id="title")]
        notebook.cells += [nbformat.v4.new_code_cell(text, id=f"cell-{i}") for i, text in enumerate(sources)]
        if parameters is not None:
            notebook.cells[1].metadata["tags"] = ["parameters"]
        path = self.folder / "notebooks" / f"{name}.ipynb"
        nbformat.write(notebook, path)
        return path

    def command(self, *arguments: str) -> list[str]:
        """Write the command line of reefcore."""
        return [sys.executable, "-m", "reefcore", *arguments]

    def reefcore(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """Run the command line in the checkout."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Checkout:
    """An empty checkout, which the test runs in."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Checkout(folder)
