"""The book as one file: the same bytes of the same book, a checksum that is checked, and never a book that is stale."""

import json
import os
import re
import subprocess
import zipfile

import pytest

from reefcore import cli
from reefcore.errors import ReefcoreError
from reefcore.files import write_json
from reefcore.workflow import archive, book, keys

PAGE = "<html><article><h1>Page</h1><p>one two three four five six seven eight nine ten</p>{}</article></html>"


@pytest.fixture
def rendered(checkout):
    """A checkout with a book of two pages, rendered from what lies there."""
    (checkout.folder / "_config.yml").write_text("title: A book\n")
    html = checkout.folder / book.HTML
    (html / "deep").mkdir(parents=True)
    (checkout.folder / "book" / "_toc.yml").write_text("format: jb-book\nroot: intro\n")
    (checkout.folder / "book" / "intro.md").write_text("# A book\n")
    (html / "index.html").write_text(PAGE.format('<a href="intro.html">on</a>'))
    (html / "intro.html").write_text(PAGE.format('<a href="deep/data.csv">data</a>'))
    (html / "deep" / "data.csv").write_text("a\n" * 1000)
    (html / ".buildinfo").write_text("of Sphinx")
    stamp(html)
    return checkout


def stamp(html):
    """Say that the book is rendered from what lies here now."""
    outputs = keys.describe(html.parent, ["html"])
    made_of = book.ingredients()
    write_json({"key": keys.key_of(made_of), "ingredients": made_of, "outputs": outputs}, html.with_name("record.json"))


def test_it_opens_from_a_folder_and_its_checksum_is_right(rendered, tmp_path):
    made = archive.write()
    assert re.fullmatch(r"reefnet-companion-\d+\.\d+\.\d+-\w+\.zip", made["path"].name)
    assert made["path"].parent == rendered.folder / "build" and made["bytes"] == made["path"].stat().st_size
    check = ["sha256sum", "-c", made["checksum"].name]
    assert subprocess.run(check, cwd=made["path"].parent, capture_output=True).returncode == 0
    with zipfile.ZipFile(made["path"]) as opened:
        names = opened.namelist()
        opened.extractall(tmp_path / "out")
    assert names == ["START-HERE.txt", "deep/data.csv", "index.html", "intro.html"] and made["files"] == 4
    assert "open index.html" in (tmp_path / "out" / "START-HERE.txt").read_text()
    assert (tmp_path / "out" / "deep" / "data.csv").read_text() == "a\n" * 1000
    assert os.access(tmp_path / "out" / "index.html", os.R_OK)
    assert book.check(tmp_path / "out")["problems"] == []


def test_the_same_book_gives_the_same_bytes(rendered, tmp_path):
    first = archive.write(tmp_path / "a")
    for path in (rendered.folder / book.HTML).rglob("*"):
        os.utime(path, (10**9, 10**9))
        path.chmod(0o755)
    second = archive.write(tmp_path / "b")
    assert first["sha256"] == second["sha256"] and first["path"].read_bytes() == second["path"].read_bytes()
    assert str(rendered.folder).encode() not in first["path"].read_bytes()


def test_a_stale_a_damaged_and_a_wrong_book_is_refused(rendered):
    html = rendered.folder / book.HTML
    (rendered.folder / "book" / "intro.md").write_text("# Another\n")
    with pytest.raises(ReefcoreError, match=r"has changed since.*type `make book`"):
        archive.write()
    stamp(html)
    (html / "deep" / "data.csv").write_text("b\n")
    with pytest.raises(ReefcoreError, match="has changed since"):
        archive.write()
    (html / "intro.html").write_text(PAGE.format('<a href="nowhere.html">x</a><img src="a.png">'))
    stamp(html)
    with pytest.raises(ReefcoreError, match=r"fails its checks: intro.html: a.png leads nowhere, and 2 more"):
        archive.write()
    rendered.notebook("10_late", "1")
    with pytest.raises(ReefcoreError, match="not up to date: 10_late"):
        stamp(html)
        archive.write()
    assert not list((rendered.folder / "build").glob("*.zip*"))


def test_the_command_line_says_where_it_is(rendered, capsys, tmp_path):
    assert cli.main(["book", "archive", "--output", str(tmp_path / "out"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sha256"] in (tmp_path / "out" / f"{said['path'].rpartition('/')[2]}.sha256").read_text()
    assert cli.main(["book", "archive", "--output", str(tmp_path / "out")]) == 0
    assert said["sha256"] in capsys.readouterr().out
    (rendered.folder / book.HTML / "index.html").unlink()
    assert cli.main(["book", "archive"]) != 0
    assert "there is no rendered book here; type `make book`" in capsys.readouterr().err.replace(":", ";")
