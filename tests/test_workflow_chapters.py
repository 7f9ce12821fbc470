"""The book's own chapters, all of them, on the smoke profile."""

import json
import subprocess
import sys
from html import escape as html_escape

import nbformat
import pytest
from conftest import TOP

from reefcore import cli, curation, published
from reefcore.site import MADE_UP
from reefcore.site.settings import MADE_UP_NOTICE
from reefcore.workflow import build, notebook


def test_a_build_finds_every_chapter_up_to_date(executed, capfd):
    jobs = build.jobs(["all"], {"profile": "smoke"}, executed)
    assert sum(job.name.startswith("chapter ") for job in jobs) == len(build.notebooks())
    assert cli.main(["run", "all", "--profile", "smoke", "--output", str(executed)]) == 0
    said = capfd.readouterr()
    assert "Everything is up to date" in said.out + said.err and "chapter" not in said.err


@pytest.mark.parametrize("name", list(build.notebooks()))
def test_a_chapter_runs_shows_something_and_says_where_it_comes_from(executed, smoke, name):
    content = nbformat.read(executed / f"{name}.ipynb", 4)
    outputs = [output for cell in content.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output for output in outputs if output.output_type in ("display_data", "execute_result")]
    assert len(shown) >= 3
    assert not [output for output in outputs if output.get("name") == "stderr"], "a warning would stand on the page"
    html = "".join(output.data.get("text/html", "") for output in shown)
    known = (smoke.notice, MADE_UP_NOTICE, published.NOTICE, html_escape(curation.RECORDS))
    notices = sum(html.count(notice) for notice in known)
    files = sum(output.data.get("text/plain", "").startswith("[file") for output in shown)
    files += html.count('class="lacks"')  # a sentence of the page
    assert html.count('class="provenance"') == 1 and notices >= len(shown) - 1 - files
    record = json.loads((executed / f"{name}.json").read_text())
    about_a_site = notebook.parameters(content, name)["profile"].default == MADE_UP
    assert record["profile"] == (MADE_UP if about_a_site else "smoke") and record["inputs"]
    assert str(TOP) not in json.dumps(content)


@pytest.mark.parametrize("name", list(build.notebooks(site=False)))
def test_a_chapter_ends_with_a_section_on_a_reef_of_ones_own_that_shows_something(executed, name):
    content = nbformat.read(executed / f"{name}.ipynb", 4)
    last = max(i for i, cell in enumerate(content.cells) if "## For your own reef" in cell.source)
    outputs = [o for cell in content.cells[last:-1] for o in cell.get("outputs", ())]
    html = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    assert name == "80_your_reef" or (MADE_UP_NOTICE in html and 'class="lacks"' not in html)


@pytest.mark.parametrize(
    ("name", "table", "printed"),
    [
        ("50_zero_shot", "zero-shot-table-12", ["CLIP", "15.96", "BioCLIP", "8.89"]),
        ("51_language_models", "language-table-5", ["Qwen2.5-VL", "2.98", "Qwen-Book", "6.27"]),
        ("51_language_models", "language-not-run", ["Qwen-GPT", "reefcore zero-shot qwen2_5_vl"]),
        ("54_open_set", "open-set-table-6", ["MSP", "0.817", "Energy", "0.990"]),
    ],
)
def test_printed_rows_stand_there_where_nothing_was_run(executed, name, table, printed):
    content = nbformat.read(executed / f"{name}.ipynb", 4)
    outputs = [output for cell in content.cells if cell.cell_type == "code" for output in cell.outputs]
    html = [output.get("data", {}).get("text/html", "") for output in outputs]
    (found,) = [text for text in html if f'id="{table}"' in text]
    assert [text for text in printed if text not in found] == []


def test_a_chapter_that_only_reads_tables_does_not_import_torch():
    code = ["import sys"]
    for name in build.notebooks():
        cells = [cell.source for cell in nbformat.read(build.find(name), 4).cells if cell.cell_type == "code"]
        lines = [line for cell in cells for line in cell.splitlines() if line.startswith(("import ", "from "))]
        # Those show what augmentation does to a patch, and export a model.
        if not {"from reefcore import augment", "from reefcore.substrate import compared, export, stream"} & set(lines):
            code += [*lines, f"assert 'torch' not in sys.modules, {name!r}"]
    assert len(code) > 50
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
