"""How everything stands: the index of the papers, the notebooks by their records, and the page. Nothing is built."""

import ast
import csv
import json
import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from conftest import TOP

from reefcore import audit, cli, profiles, published, reproduction
from reefcore.files import write_json, write_parquet
from reefcore.workflow import build, keys, status, steps

ITEMS = pd.read_csv(TOP / "data" / "published" / "items.csv", keep_default_na=False)
SECRET = "/home" + "/someone"  # in two parts: this file too may not name a folder of a machine


class TestItems:
    def test_every_table_and_figure_is_there_once_with_its_data(self):
        reefnet = ITEMS.loc[ITEMS["paper"] == "ReefNet", "item"].tolist()
        assert reefnet == [f"Table {n}" for n in range(1, 14)] + [f"Figure {n}" for n in range(1, 17)]
        assert all(len(published.table(n)) for n in range(1, 14))
        names = ITEMS.loc[ITEMS["paper"] != "ReefNet", "item"].str.lower().str.replace(" ", "_")
        assert set(published.substrate().index) < set(names) and ITEMS["item"].is_unique

    def test_chapters_and_anchors_exist_or_a_note_says_why_not(self):
        for item in ITEMS.itertuples():
            assert item.title and (item.needs if item.chapter else item.note), item
            for chapter in item.chapter.split():
                assert chapter in build.notebooks(), item
            if item.anchor:
                assert item.anchor in anchors(item.chapter.split()[0]), item


def anchors(chapter: str) -> set[str]:
    """List the names that a notebook gives to what it shows."""
    cells = nbformat.read(TOP / "notebooks" / f"{chapter}.ipynb", 4).cells
    code = [node for cell in cells if cell.cell_type == "code" for node in ast.walk(ast.parse(cell.source))]
    calls = [node for node in code if isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith("show")]
    return {call.args[1].value for call in calls if isinstance(call.args[1], ast.Constant)}


@pytest.fixture(autouse=True)
def nothing_is_built(monkeypatch):
    """No step and no chapter is made by asking how they stand; and other rooms give what a test can know."""

    def refuse(*_, **__):
        raise AssertionError("something was built")

    monkeypatch.setattr(steps, "ensure", refuse)
    # Not build.ensure, which the processes that run the chapters beside the tests look up by its name.
    monkeypatch.setattr(build.notebook, "execute", refuse)
    cells = {"Table 3": [0.5, float("nan"), 0.5], "Table 6": [float("nan")] * 2}
    gathered = pd.DataFrame([(item, value) for item, values in cells.items() for value in values])
    monkeypatch.setattr(reproduction, "gather", lambda tables, **_: gathered.set_axis(["item", "value"], axis=1))
    monkeypatch.setattr(audit, "run", lambda: pd.DataFrame({"certainty": ["impossible", "ask", "ask"]}))


@pytest.fixture
def told(checkout):
    """A checkout with a notebook for each way to stand; the records are invented."""
    extra = 'profile: str = "sample"  # where the data are\nseed: int = 0  # of all\nruns: int = 5  # anything'
    for name in ("12_compared", "21_labels", "40_supervised", "50_zero_shot", "54_open_set"):
        checkout.notebook(name, "1 + 1", parameters=extra)
    checkout.chapters.mkdir(parents=True)
    record(checkout, "12_compared")
    record(checkout, "40_supervised", {"seed": 3, "runs": 7})
    record(checkout, "21_labels")
    source = checkout.folder / "notebooks" / "21_labels.ipynb"
    source.write_text(source.read_text().replace("1 + 1", "1 + 2"))
    (checkout.folder / "build" / "failed").mkdir(parents=True)
    (checkout.folder / "build" / "failed" / "54_open_set.ipynb").touch()
    return checkout


def record(checkout, name: str, given: dict | None = None, profile: str = "sample") -> dict:
    """Pretend that a notebook was run."""
    (chapter,) = build.chapters([name], {"profile": profile} | (given or {}))
    made_of = build.ingredients(chapter)
    (checkout.chapters / f"{name}.ipynb").write_text(json.dumps({"html": f'<div id="{ANCHORS.get(name, "x")}">'}))
    made = {
        "name": name,
        "profile": profile,
        "seed": chapter.profile.seed,
        "parameters": {"profile": profile, "seed": 0, "runs": 5} | (given or {}),
        "code": {"label": "abc1234567"},
        "packages": {"numpy": "2.0", "Zarr": "3.1"},
        "start": "2026-01-02T03:04:05+00:00",
        "seconds": 61.25,
        "key": keys.key_of(made_of),
        "ingredients": made_of,
        "outputs": keys.describe(checkout.chapters, [f"{name}.ipynb"]),
    }
    write_json(made, checkout.chapters / f"{name}.json")
    return made


ANCHORS = {"40_supervised": "supervised-table-3"}
PAGES = ["intro", "status"] + [f"chapters/{n}" for n in ("12_compared", "21_labels", "40_supervised", "54_open_set")]


def test_each_notebook_says_how_it_stands_and_why(told):
    found = status.index()
    rows = {row["name"]: row for row in found["notebooks"]}
    assert {name: status.sentence(row) for name, row in rows.items()} == {
        "12_compared": "up to date",
        "21_labels": "stale (notebook changed)",
        "40_supervised": "up to date",
        "50_zero_shot": "missing",
        "54_open_set": "failed (the unfinished notebook is build/failed/54_open_set.ipynb)",
    }
    one = rows["40_supervised"]
    assert one["changed"] == {"seed": 3, "runs": 7} and one["seed"] == 3
    assert one["parameters"] == {"profile": "sample", "seed": 3, "runs": 7}
    assert (one["seconds"], one["code"], one["started"]) == (61.25, "abc1234567", "2026-01-02T03:04:05+00:00")
    assert re.fullmatch("[0-9a-f]{8}", one["key"]) and one["python"] == keys.environment()["python"]
    assert rows["50_zero_shot"]["key"] is None and rows["50_zero_shot"]["parameters"] == {}
    (told.chapters / "12_compared.ipynb").write_text("damaged")
    assert status.index()["notebooks"][0]["state"] == "incomplete"


def test_items_join_what_is_published_with_what_was_computed(told):
    found = status.index()
    items = {item["item"]: item for item in found["items"]}
    assert items["Table 3"]["published"] == len(published.table(3)) and items["Figure 2"]["published"] == 0
    assert items["Patch accuracy"]["published"] == 1 and items["Patch classification"]["published"] == 0
    assert (items["Table 3"]["computed"], items["Table 3"]["cells"], items["Table 3"]["state"]) == (2, 3, "up to date")
    assert items["Figure 1"]["state"] == "stale" and items["Figure 6"]["state"] == "no chapter"
    assert items["Table 2"]["state"] == "missing"  # its chapter is not among the notebooks
    counts = found["counts"]
    assert (counts["tables"], counts["figures"], counts["published_values"]) == (13, 16, len(published.values()))
    assert (counts["computed_values"], counts["comparable_values"]) == (2, 5)
    assert (counts["notebooks"], counts["notebooks_run"], counts["notebooks_up_to_date"]) == (5, 3, 2)
    assert counts["seconds"] == pytest.approx(3 * 61.25, abs=0.1) and counts["packages"] == 2
    assert counts["cells"] == {"Table 3": [2, 3], "Table 6": [0, 2]}
    assert counts["findings"] == {"impossible": 1, "ask": 2}
    assert found["environment"]["packages"] == {"numpy": "2.0", "Zarr": "3.1"}


def test_a_notebook_of_another_profile_is_stale_and_the_commonest_profile_is_meant(told):
    record(told, "54_open_set", profile="smoke")
    found = status.index()
    assert found["profile"] == "sample"
    why = next(row for row in found["notebooks"] if row["name"] == "54_open_set")["why"]
    assert why == ["the unfinished notebook is build/failed/54_open_set.ipynb"]
    (told.folder / "build" / "failed" / "54_open_set.ipynb").unlink()
    (row,) = [row for row in status.index()["notebooks"] if row["name"] == "54_open_set"]
    assert row["state"] == "stale" and "parameter profile" in row["why"] and row["profile"] == "smoke"
    smoke = {row["name"]: row["state"] for row in status.index("smoke")["notebooks"]}
    assert smoke["54_open_set"] == "up to date" and smoke["12_compared"] == "stale"
    items = {item["item"]: item["run"] for item in status.index("smoke")["items"]}
    assert items["Table 6"] and not items["Table 1"]  # that was run in another profile


def test_a_parameter_that_is_gone_and_packages_that_differ_are_said(told):
    path = told.chapters / "40_supervised.json"
    made = json.loads(path.read_text())
    made["parameters"]["gone"], made["ingredients"]["parameter gone"], made["packages"]["numpy"] = 1, "1", "2.1"
    write_json(made, path)
    found = status.index()
    (row,) = [row for row in found["notebooks"] if row["name"] == "40_supervised"]
    assert row["state"] == "stale" and "parameter gone" in row["why"]
    assert found["environment"]["packages"]["numpy"] == "2.0 and 2.1"


def test_data_that_are_elsewhere_are_said_without_a_path(told, monkeypatch):
    monkeypatch.delenv("REEFNET_DATA", raising=False)
    cells = 'project = workflow.open(profile)\nproject.table("splits")'
    told.notebook("30_splits", f"from reefcore import workflow\n{cells}")
    found = status.index("full")
    (row,) = [row for row in found["notebooks"] if row["name"] == "30_splits"]
    assert row["state"] == "unknown" and "REEFNET_DATA, which is not set" in row["why"][0] and "/" not in row["why"][0]
    assert found["said"] == "computed from the data of the profile full" and row["needs"] == ["splits"]


def test_values_are_counted_in_tables_as_they_were_made_last_and_once(told, monkeypatch):
    folder = profiles.load("sample").folder(told.folder)
    write_parquet(pd.DataFrame({"a": [1, 2]}), folder / "splits.parquet")
    (folder / "quality.parquet").write_bytes(b"damaged")
    for step, table in {"splits": "splits.parquet", "curate": "quality.parquet"}.items():
        made = {"key": "old", "ingredients": {}, "outputs": keys.describe(folder, [table])}
        write_json(made, steps.record_path(folder, step))
    asked = []

    def gather(tables, **_):
        asked.append({name: len(table) for name, table in tables.items()})
        return pd.DataFrame({"item": ["Table 2"], "value": [float(len(tables))]})

    monkeypatch.setattr(reproduction, "gather", gather)
    assert status.index()["counts"]["cells"] == status.index()["counts"]["cells"] == {"Table 2": [1, 1]}
    assert asked == [{"splits": 2}]
    write_json({"key": "new", "ingredients": {}, "outputs": {}}, steps.record_path(folder, "metrics"))
    status.index()
    assert len(asked) == 2


class TestPage:
    def test_says_what_was_computed_and_where_and_never_reproduced(self, told):
        text = status.page(status.index(), told.chapters, PAGES)
        assert "computed on the synthetic sample" in text and profiles.load("sample").notice in text
        assert "reproduced" not in text and "Figure 6" in text and "A screenshot of a web platform" in text
        assert '<a href="chapters/40_supervised.html#supervised-table-3">Table 3</a>' in text
        assert '<a href="chapters/40_supervised.html">Table 8</a>' in text  # its anchor is not on the page that was run
        assert 'href="chapters/50_zero_shot' not in text  # not a page of this book
        assert 'href="chapters/54_open_set' not in text  # not run
        assert "2 of 3" in text and "not run" in text and "stale (notebook changed)" in text
        assert "runs = 7, seed = 3" in text and "61.2" in text and str(told.folder) not in text
        assert "chapters/72_reproduced" not in text
        assert "](chapters/72_reproduced)" in status.page(
            status.index(), told.chapters, [*PAGES, "chapters/72_reproduced"]
        )
        html = [line for line in text.splitlines() if line.startswith("<div")]
        assert len(html) == 7 and all(
            line.endswith("</div>") for line in html
        )  # a blank line would end a block of HTML

    def test_is_written_again_only_where_it_says_something_else(self, told):
        path = told.folder / "book" / "status.md"
        status.write(PAGES)
        before = path.stat().st_mtime_ns, path.read_text()
        status.write(PAGES)
        assert (path.stat().st_mtime_ns, path.read_text()) == before
        record(told, "21_labels")
        status.write(PAGES)
        assert path.read_text() != before[1] and "notebook changed" not in path.read_text()

    def test_stands_where_nothing_was_run(self, checkout):
        checkout.notebook("40_supervised", "1")
        text = status.page(status.index(), checkout.chapters, PAGES)
        assert "0 of 1, in 0 s" in text and "missing" in text


class TestCommand:
    def test_prints_the_index_and_says_by_its_code_whether_all_is_up_to_date(self, told, capsys):
        assert cli.main(["status"]) == 1
        printed = capsys.readouterr().out
        assert re.search(
            r"^Table 3 +\d+ +2 of 3 +up to date +61.25 +[0-9a-f]{8} +40_supervised$", printed, re.MULTILINE
        )
        assert re.search(r"^21_labels .* stale \(notebook changed\)$", printed, re.MULTILINE)
        assert (
            "findings of the audit of the published values: 1 impossible, 2 ask" in printed
            and "runs = 7, seed = 3" in printed
        )
        for name in ("21_labels", "50_zero_shot", "54_open_set"):
            record(told, name)
        (told.folder / "build" / "failed" / "54_open_set.ipynb").unlink()
        assert cli.main(["status"]) == 0

    def test_gives_programs_everything(self, told, capsys):
        assert cli.main(["status", "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert {"items", "notebooks", "steps", "environment", "counts"} <= set(found)
        assert found["steps"] == [] and len(found["items"]) == len(ITEMS)

    def test_lists_the_steps(self, told, capsys):
        told.notebook(
            "30_splits", "from reefcore import workflow\nproject = workflow.open(profile)\nproject.table('splits')"
        )
        assert cli.main(["status", "--steps"]) == 1
        assert re.search(r"^curate +missing$", capsys.readouterr().out, re.MULTILINE)


def test_the_index_is_plain_data(told):
    text = json.dumps(status.index())
    assert SECRET not in text and str(told.folder) not in text and str(Path.home()) not in text
    with open(TOP / "data" / "published" / "items.csv", encoding="utf-8", newline="") as handle:
        assert {len(row) for row in csv.reader(handle)} == {8}
