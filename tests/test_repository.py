"""What holds for the repository as a whole: notebooks, the lock and conda files, and who may import whom."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml

from reefcore.workflow import keys, notebook

TOP = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((TOP / "notebooks").rglob("*.ipynb"))

# A room may import from the lines above its own, and from its own line.
ROOMS = """
errors files warm spreadsheets
parallel tables images published croissant
annotations
taxonomy worms
curation review benthos
bulk attribution
splits
geography workbooks
released
covariates patches shards
selection
sample
chat
descriptions
prompts
recipes losses
weights
learners pretraining vision_language contrastive augment
predictions fitting training inference multimodal
metrics
cover
comparison diversity effort
ranking classes calibration cost few_shot open_set zero_shot texture quality
machine
substrate
audit
reproduction
overview
explorer
figures
profiles
site
workflow
cli
"""
LEVEL = {room: level for level, line in enumerate(ROOMS.splitlines()) for room in line.split()}

TABLES_ONLY = [
    "errors",
    "files",
    "tables",
    "annotations",
    "taxonomy",
    "curation",
    "review",
    "splits",
    "metrics",
    "published",
]
TABLES_ONLY += ["losses", "worms", "bulk", "attribution", "geography", "croissant", "selection", "shards", "inference"]
TABLES_ONLY += ["predictions", "patches", "covariates", "recipes", "sample", "figures", "profiles", "workflow", "cli"]
TABLES_ONLY += ["classes", "calibration", "cost", "chat", "descriptions", "prompts", "recipes.zero_shot", "multimodal"]
TABLES_ONLY += ["site", "spreadsheets", "released", "workbooks"]
TABLES_ONLY += ["few_shot", "open_set", "zero_shot", "substrate", "reproduction"]
TABLES_ONLY += ["benthos", "cover", "diversity", "effort"]
TABLES_ONLY += ["overview", "explorer"]
TABLES_ONLY += ["texture", "machine", "quality"]
TABLES_ONLY += ["audit", "audit.read", "audit.rules", "audit.statements"]
TABLES_ONLY += [
    f"substrate.{name}" for name in "grid decision tracks observers stream own pseudo training compared".split()
]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestNotebooks:
    def test_is_committed_without_outputs(self, path):
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code":
                assert cell.outputs == [] and cell.execution_count is None, cell.source

    def test_has_typed_and_commented_parameters(self, path):
        declared = notebook.parameters(notebook.read(path), path.name)
        assert {"profile", "seed"} <= set(declared)
        cell = next(c for c in nbformat.read(path, 4).cells if "parameters" in c.metadata.get("tags", []))
        assert all(isinstance(node, ast.AnnAssign) for node in ast.parse(cell.source).body)
        assert [name for name, parameter in declared.items() if not parameter.comment] == []

    def test_is_short_and_strings_together_what_the_library_does(self, path):
        code = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert len(code) < 25
        for source in code:
            assert len(source.splitlines()) < 15, source
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
            assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)], source

    def test_names_no_path(self, path):
        for cell in nbformat.read(path, 4).cells:
            assert not re.search(r"""["'(](?:/|~/|[A-Z]:\\|\.\./)[\w.-]*""", cell.source), cell.source

    def test_ends_with_where_it_comes_from(self, path):
        code = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert code[-1].strip() == "project.provenance()"

    def test_runs_under_any_kernel_of_python(self, path):
        metadata = nbformat.read(path, 4).metadata
        assert metadata.kernelspec == {"display_name": "Python 3", "language": "python", "name": "python3"}
        assert "widgets" not in metadata and "papermill" not in metadata


def test_there_are_chapters_and_the_book_lists_each():
    toc = (TOP / "book" / "_toc.yml").read_text()
    chapters = [path.stem for path in NOTEBOOKS if path.parent.name == "notebooks"]
    assert chapters and all(f"chapters/{name}" in toc for name in chapters)


def test_every_package_is_pinned_and_every_dependency_locked():
    lines = [line for line in (TOP / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.match(r"[A-Za-z0-9._-]+==[^\s;,*]+(?: ; .+)?$", line)] == []
    locked = {re.split("==", line)[0].lower().replace("_", "-") for line in lines}
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + [item for extra in project["optional-dependencies"].values() for item in extra]
    names = {re.split(r"[\s\[<>=!;]", item)[0].lower().replace("_", "-") for item in asked}
    assert names <= locked


def test_conda_installs_what_make_installs():
    environment = yaml.safe_load((TOP / "environment.yml").read_text())
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    python, pip, inside = environment["dependencies"]
    assert python == f"python {project['requires-python']}" and pip == "pip"
    assert inside == {"pip": ["-r requirements.lock", "-e ."]}
    assert environment["name"] == project["name"]


def test_makefile_installs_the_lock_and_says_which_pythons():
    makefile = (TOP / "Makefile").read_text()
    low, high = re.search(r">=3\.(\d+),<3\.(\d+)", (TOP / "pyproject.toml").read_text()).groups()
    assert f"(3, {low}) <= sys.version_info[:2] < (3, {high})" in makefile
    extras = " ".join(
        f"--extra {name}" for name in ("train", "fetch", "cluster", "language", "realtime", "book", "dev")
    )
    command = f"uv pip compile --universal --python-version 3.11 {extras} --no-annotate"
    assert command in makefile and command in (TOP / "requirements.lock").read_text()


def room_of(path: Path) -> str:
    """Return the room a file of the package belongs to."""
    return path.relative_to(keys.PACKAGE).parts[0].removesuffix(".py")


def test_rooms_import_from_earlier_rooms_only():
    wrong = []
    for path in sorted(keys.PACKAGE.rglob("*.py")):
        room = room_of(path)
        if room in ("__init__", "__main__"):
            continue
        assert room in LEVEL, f"{path.name} is in no room of tests/test_repository.py"
        package = ".".join(path.relative_to(keys.PACKAGE.parent).parent.parts)
        for name in keys.imports(path.read_text(), package):
            used = [*name.split("."), ""][1]
            if used and LEVEL[used] > LEVEL[room]:
                wrong.append(f"{path.relative_to(keys.PACKAGE)} imports {name}")
    assert wrong == []


def modules_after(statement: str) -> set[str]:
    """List what a fresh interpreter has imported after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"numpy", "pandas", "pyarrow", "torch", "sklearn", "matplotlib", "duckdb", "yaml"}
    assert not heavy & modules_after("import reefcore")


def test_rooms_of_tables_do_not_import_torch():
    statement = "import " + ", ".join(f"reefcore.{room}" for room in TABLES_ONLY)
    assert not {
        "torch",
        "timm",
        "openai",
        "onnxruntime",
        "av",
        "transformers",
        "papermill",
        "snakemake",
    } & modules_after(statement)


def tracked() -> list[Path]:
    """List the files under version control; a released archive has no git, and nothing in it that was not committed."""
    if not (TOP / ".git").exists():
        return sorted(TOP.glob("reefcore/**/*.py"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True, check=True).stdout
    return [TOP / name for name in listed.split("\0") if name and (TOP / name).is_file()]


def test_no_tracked_text_names_a_folder_of_a_machine():
    pattern = re.compile(r"(?<![\w.~:/-])/(?:home|Users|root|work|mnt)/[A-Za-z0-9]")
    texts = [path for path in tracked() if path.suffix not in (".lock", ".parquet", ".png", ".jpg")]
    assert [path for path in texts if pattern.search(path.read_text(encoding="utf-8", errors="replace"))] == []
