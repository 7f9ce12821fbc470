"""A released file condensed by DuckDB holds what the rules of `curation` keep of the same rows in pandas."""

import numpy as np
import pandas as pd
import pytest

from reefcore import annotations, bulk, curation, tables
from reefcore.errors import ReefcoreError

CRITERIA = {"min_annotations": 30, "min_sources": 2, "min_per_source": 5}


def released(path, rows=900, seed=0):
    """Write a file like ReefNet-1.0 with repeats within and between sources, other biota, and rare labels."""
    rng = np.random.default_rng(seed)
    label = rng.choice(
        ["Porites", "Pavona", "Favites", "Turf algae", "Scleractinia"], rows, p=[0.4, 0.2, 0.02, 0.3, 0.08]
    )
    frame = pd.DataFrame(
        {
            "X": range(rows),
            "CoralNet_source": rng.choice(["reef b", "reef a", "reef c"], rows),
            "Image_name": [f"{i}.jpg" for i in rng.integers(0, 30, rows)],
            "Row": rng.integers(0, 6, rows),
            "Column": rng.integers(0, 6, rows),
            "CoralNet_label": label,
            "CoralNet_label_short_code": "x",
            "Sorted_ReefNet_label": label,
            "Broad_category": np.where(label == "Turf algae", "Algae", "Hard coral"),
            "Condition_indication": "NA",
            "Latitude": 1.5,
            "Longitude": 2.5,
            "Ecoregion": "Hawaii",
            "Province": "Hawaii",
            "Realm": "Eastern Indo-Pacific",
        }
    )
    frame.to_csv(path, index=False)
    return path


def test_condensed_equals_curated(tmp_path):
    path = released(tmp_path / "all.csv")
    found = bulk.condense(path, tmp_path / "out.parquet", **CRITERIA)
    table = annotations.read(path)
    expected, _ = curation.curate(
        table.assign(rank=np.where(table["label"] == "Scleractinia", "order", "genus"), aphia_id=1), **CRITERIA
    )
    got = pd.read_parquet(tmp_path / "out.parquet")
    assert got["annotation_id"].tolist() == expected["annotation_id"].tolist()
    assert got["source"].tolist() == expected["source"].tolist()
    assert (
        set(got["label"]) == {"Porites", "Pavona"} and set(got["rank"]) == {"genus"} and got["aphia_id"].gt(1000).all()
    )
    assert not len(tables.check(got, "annotations")[1])
    kept, dropped = curation.drop_duplicates(curation.hard_corals(table))
    assert found["duplicates"]["annotations"].sum() == len(dropped) > 50
    twins = dropped.groupby(["source", "twin_source"]).size().reset_index(name="annotations")
    assert found["duplicates"].to_numpy().tolist() == twins.to_numpy().tolist()
    assert found["steps"]["annotations"].tolist()[1:] == [len(kept), len(expected)]
    assert not len(found["problems"])


def test_the_order_of_rows_and_an_intermediate_parquet_change_nothing(tmp_path):
    path = released(tmp_path / "all.csv")
    bulk.condense(path, tmp_path / "a.parquet", **CRITERIA)
    annotations.convert(path, tmp_path / "whole.parquet")
    bulk.condense(tmp_path / "whole.parquet", tmp_path / "b.parquet", **CRITERIA)
    assert pd.read_parquet(tmp_path / "a.parquet").equals(pd.read_parquet(tmp_path / "b.parquet"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *sorted(lines[1:])]) + "\n")
    bulk.condense(path, tmp_path / "c.parquet", **CRITERIA)
    ids = [sorted(pd.read_parquet(tmp_path / f"{name}.parquet")["annotation_id"]) for name in "ac"]
    assert ids[0] == ids[1]


def test_rows_that_cannot_be_used_are_listed(tmp_path):
    path = released(tmp_path / "all.csv")
    text = path.read_text().splitlines()
    coral = next(i for i, line in enumerate(text) if "Hard coral" in line)
    cells = text[coral].split(",")
    text[coral] = ",".join([*cells[:3], "-5", *cells[4:]])
    path.write_text("\n".join(text) + "\n")
    problems = bulk.condense(path, tmp_path / "out.parquet", **CRITERIA)["problems"]
    assert problems["line"].tolist() == [coral + 1] and problems["column"].tolist() == ["Row"]


def test_a_ragged_file_is_read_the_slower_way(tmp_path):
    path = released(tmp_path / "all.csv")
    bulk.condense(path, tmp_path / "a.parquet", **CRITERIA)
    path.write_text(path.read_text() + "1,only,three\n")
    found = bulk.condense(path, tmp_path / "b.parquet", **CRITERIA)
    assert pd.read_parquet(tmp_path / "a.parquet").equals(pd.read_parquet(tmp_path / "b.parquet"))
    assert len(found["problems"]) == 1


def test_files_without_hard_corals_are_refused(tmp_path):
    path = released(tmp_path / "all.csv")
    path.write_text(path.read_text().replace("Hard coral", "Algae"))
    with pytest.raises(ReefcoreError, match="no row of this file is a hard coral"):
        bulk.condense(path, tmp_path / "out.parquet")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ReefcoreError, match="not a ReefNet file"):
        bulk.condense(tmp_path / "other.csv", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_no_label_that_meets_the_criteria_leaves_an_empty_table(tmp_path):
    found = bulk.condense(released(tmp_path / "all.csv"), tmp_path / "out.parquet", min_annotations=10_000)
    assert found["steps"]["annotations"].iloc[-1] == 0 and not found["labels"]["kept"].any()
    assert not len(pd.read_parquet(tmp_path / "out.parquet"))
