"""The full profile on a small synthetic release: from the released files to Table 2, without photos, or verdicts."""

import sys

import nbformat
import pandas as pd
import pytest
from conftest import TOP

from reefcore import curation, profiles, taxonomy
from reefcore.files import read_parquet, write_parquet
from reefcore.workflow import keys, steps

sys.path.append(str(TOP))
from benchmarks import full_data, release

ROWS = 60_000
CHAPTERS = (
    "12_compared",
    "14_explorer",
    "20_curation",
    "22_places",
    "23_al_wajh",
    "25_review",
    "28_select",
    "30_splits",
)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Make the release, its tables and its splits; return the plan of the pairs, the profile and its folder."""
    folder = tmp_path_factory.mktemp("full")
    pairs = release.make(folder, ROWS, seed=3)
    profile = profiles.load(full_data.profile_of(folder))
    for name in full_data.STEPS:
        steps.ensure(profile, folder, name, 1)
    return pairs, profile, folder


def test_the_same_seed_makes_the_same_release(full, tmp_path):
    _, _, folder = full
    release.make(tmp_path, ROWS, seed=3)
    again = {path.name: path.read_bytes() for path in (tmp_path / "released").iterdir()}
    assert again == {path.name: path.read_bytes() for path in (folder / "released").iterdir() if path.is_file()}


def test_a_release_of_too_few_rows_is_refused(tmp_path):
    with pytest.raises(release.ReefcoreError, match="too few"):
        release.make(tmp_path, 20_000)


def test_the_review_keeps_what_was_planned(full):
    pairs, _, folder = full
    quality = read_parquet(folder / "quality.parquet").query("not site")
    found = quality.groupby(["source", "label"])[["step1", "step2"]].agg(["size", "all", "any"])
    planned = pairs.set_index(["source", "label"]).sort_index()
    assert found["step1", "size"].equals(planned["annotations"].rename(("step1", "size")))
    for step in ("step1", "step2"):
        assert (found[step, "all"] == planned[step]).all() and (found[step, "any"] == planned[step]).all()


def test_table_2_has_its_structure(full):
    table, checks = full_data.table_2(full[2])
    assert [name for name, right in checks.items() if not right] == []
    assert len(table) == 11


def test_hard_corals_are_read_alone_and_texts_as_categories(full):
    _, _, folder = full
    whole = read_parquet(folder / "annotations.parquet")
    corals = steps.read_annotations(folder, corals=True)
    pd.testing.assert_frame_equal(corals, curation.hard_corals(whole).reset_index(drop=True))
    site = steps.read_annotations(folder, ["image", "label"], source="Al-Wajh", corals=True)
    assert (
        len(site) == ((whole["source"] == "Al-Wajh") & curation.is_hard_coral(whole)).sum() and len(site.columns) == 2
    )
    names = [name for name in whole if name != "image_page"]
    whole, coded = whole[names], steps.read_annotations(folder, names, categories=True)
    assert coded.memory_usage(deep=True).sum() < whole.memory_usage(deep=True).sum() / 2
    for plain, by_code in zip(curation.curate(whole), curation.curate(coded), strict=True):
        pd.testing.assert_frame_equal(plain, by_code, check_dtype=False)
    pd.testing.assert_frame_equal(curation.duplicate_sources(whole), curation.duplicate_sources(coded))
    mapping = taxonomy.label_mapping(coded)
    assert mapping["annotations"].sum() == len(whole)
    pd.testing.assert_frame_equal(mapping, taxonomy.label_mapping(whole))


def told(chapter: str, profile, printed) -> str:
    """Run the cells of a chapter above those of one's own reef; return what it printed."""
    notebook = nbformat.read(keys.root() / "notebooks" / f"{chapter}.ipynb", 4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    names = {}
    for source in code[: next(i for i, source in enumerate(code) if "workflow.open(site)" in source)]:
        exec(source if "profile: str" not in source else f"{source}\nprofile = {str(profile.path)!r}", names)
    return printed.readouterr().out


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapters_run_without_photos(full, chapter, capsys):
    said = told(chapter, full[1], capsys)
    if chapter == "28_select":  # sizes are in the release, so photos can be chosen by them
        assert "Left out" not in said


@pytest.mark.parametrize("chapter", ["12_compared", "14_explorer", "23_al_wajh", "25_review", "28_select", "30_splits"])
def test_chapters_say_what_they_leave_out_without_verdicts_and_metadata(full, chapter, tmp_path, capsys):
    for name in ("annotations", "sources", "images"):
        table = read_parquet(full[2] / f"{name}.parquet")
        kept = {"sources": ["source", "ecoregion", "images"], "images": ["source", "image", "width", "height"]}.get(
            name
        )
        table = table[kept] if kept else table
        gone = {column: pd.NA for column in ("width", "height") if column in table}
        write_parquet(table.assign(**gone), tmp_path / f"{name}.parquet")
    write_parquet(read_parquet(full[2] / "reviews.parquet").head(0), tmp_path / "reviews.parquet")
    profile = profiles.load(full_data.profile_of(tmp_path))
    said = told(chapter, profile, capsys)
    expected = {"25_review": "no verdicts of experts", "28_select": "layout, megapixels, min_agreement"}
    assert expected.get(chapter, "") in said


def test_the_benchmark_says_how_much_a_process_took():
    code = "import time; x = bytearray(80 << 20); time.sleep(0.3)"
    seconds, cpu, memory = full_data.measure([sys.executable, "-c", code])
    assert seconds >= 0.3 > cpu > 0 and memory > 0.08
    with pytest.raises(full_data.subprocess.CalledProcessError):
        full_data.measure([sys.executable, "-c", "raise SystemExit(3)"])
