"""Keys and records: what a thing is made from is followed through imports, and content decides, not times."""

import os
import subprocess
import sys

import pytest

from reefcore.workflow import keys, project

FILES = {
    "__init__.py": "",
    "alone.py": "x = 1",
    "base.py": 'from reefcore.files import share\n\ndef f():\n    return share("data", "small", "a.csv")',
    "middle.py": "def f():\n    from reefcore import base\n",
    "pack/__init__.py": "from . import inner",
    "pack/inner.py": "from ..middle import f",
    "pack/list.csv": "a,b",
    "files.py": "def share(*parts): ...",
    "workflow/__init__.py": "import reefcore.alone",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "reefcore"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "data" / "small").mkdir(parents=True)
    (tmp_path / "data" / "small" / "a.csv").write_text("1")
    monkeypatch.setattr(keys, "PACKAGE", folder)
    monkeypatch.setattr(keys, "share", lambda *parts: tmp_path.joinpath(*parts))
    for cached in (keys._scan, keys._shared_hashes):
        cached.cache_clear()
        monkeypatch.setattr(keys, cached.__name__, cached.__wrapped__)
    return folder


def test_modules_are_followed_through_imports_and_no_further(package):
    hashes = keys.modules(source="import reefcore.pack\nfrom reefcore import workflow, nothing\nimport os")
    assert sorted(hashes) == [
        "data/small/a.csv",
        *(f"reefcore/{n}" for n in ("__init__.py", "base.py", "files.py", "middle.py")),
        *(f"reefcore/pack/{n}" for n in ("__init__.py", "inner.py", "list.csv")),
    ]
    assert sorted(keys.modules("reefcore.alone")) == ["reefcore/__init__.py", "reefcore/alone.py"]


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ("reefcore/base.py", False),
        ("reefcore/pack/list.csv", False),
        ("data/small/a.csv", False),
        ("reefcore/alone.py", True),
    ],
)
def test_the_hash_changes_with_what_is_used_only(package, changed, same):
    before = keys.modules("reefcore.pack")
    path = package.parent / changed
    path.write_text(path.read_text() + "\n# another")
    assert (keys.modules("reefcore.pack") == before) is same


def test_the_root_is_the_checkout_around_the_folder_one_is_in(checkout, monkeypatch):
    assert keys.root() == checkout.folder
    monkeypatch.chdir(checkout.folder / "notebooks")
    assert keys.root() == checkout.folder
    monkeypatch.chdir(checkout.folder.parent)
    assert keys.root() == keys.PACKAGE.parent  # the checkout the package itself lies in


@pytest.fixture
def made(tmp_path):
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "1.jpg").write_bytes(b"one")
    (tmp_path / "table.parquet").write_bytes(b"table")
    record = {"key": "k", "ingredients": {}, "outputs": keys.describe(tmp_path, ["photos", "table.parquet"])}
    path = tmp_path / "record.json"
    keys.write_json(record, path)
    return path


def test_a_record_holds_until_the_content_changes(made):
    assert keys.fresh(made, made.parent, "k")
    assert keys.fresh(made, made.parent, "other") is None
    for name in ("table.parquet", "photos/a/1.jpg"):
        os.utime(made.parent / name, (1, 1))
    assert keys.fresh(made, made.parent, "k")
    assert keys.read_record(made)["outputs"]["table.parquet"]["glance"] == keys.glance(made.parent / "table.parquet")


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "table.parquet").unlink(),
        lambda folder: (folder / "table.parquet").write_bytes(b"tabel"),
        lambda folder: (folder / "table.parquet").write_bytes(b""),
        lambda folder: (folder / "photos" / "a" / "1.jpg").write_bytes(b"two"),
        lambda folder: (folder / "photos" / "a" / "2.jpg").write_bytes(b"more"),
        lambda folder: (folder / "record.json").write_text('{"key": "k"'),
        lambda folder: (folder / "record.json").write_text('["k"]'),
    ],
)
def test_damage_is_found(made, damage):
    damage(made.parent)
    assert keys.fresh(made, made.parent, "k") is None


def test_a_lock_is_refused_while_held_and_free_once_its_holder_is_killed(tmp_path):
    path = tmp_path / "a.lock"
    hold = f"keys.take(pathlib.Path({str(path)!r}))"
    code = f"import pathlib\nfrom reefcore.workflow import keys\n{hold}\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        assert keys.take(path, patience=0.1) is None
        assert path.read_text() == str(holder.pid)
        holder.kill()
    handle = keys.take(path, patience=0.1)
    assert handle is not None
    keys.release(handle)
    with keys.locked(path):
        assert keys.take(path, patience=0) is None


def test_the_code_version_says_commit_and_dirt_or_does_without_git(package, monkeypatch):
    def git(*command):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=package.parent, check=True)

    assert project.code_version()["label"].startswith("src-")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    clean = project.code_version()
    assert clean["dirty"] is False and clean["label"] == clean["commit"]
    (package / "alone.py").write_text("x = 2")
    dirty = project.code_version()
    assert dirty["dirty"] is True and dirty["label"] == clean["commit"] + "-dirty"
    assert dirty["sources"] != clean["sources"]
    monkeypatch.setenv("PATH", "")
    assert project.code_version()["commit"] is None
