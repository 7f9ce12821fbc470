"""A subset of the data, with whom to cite and a description that another program accepts."""

import json

import mlcroissant
import pandas as pd
import pytest
import yaml

from reefcore import attribution, cli, curation, selection, tables
from reefcore.errors import ReefcoreError


@pytest.fixture
def annotations():
    rows = [(f"s{i % 3}", f"{i % 9}.jpg", i, i, ("Porites", "Pavona")[i % 2]) for i in range(54)]
    frame = tables.complete(pd.DataFrame(rows, columns=["source", "image", "row", "column", "label_raw"]))
    frame["label"], frame["ecoregion"] = (
        frame["label_raw"],
        frame["source"].map({"s0": "Hawaii"}).fillna("Fiji Islands"),
    )
    return tables.check(frame, "annotations")[0]


@pytest.fixture
def images():
    rows = [(f"s{i % 3}", f"{i}.jpg", 2.0 + i, 100 + 40 * (i % 3), 120, 90) for i in range(9)]
    return pd.DataFrame(rows, columns=["source", "image", "megapixels", "red", "green", "blue"])


def test_each_criterion_keeps_what_it_says_and_is_counted(annotations, images):
    sources = pd.DataFrame({"source": ["s0", "s1", "s2"], "layout": ["uniform grid", "uniform grid", "simple random"]})
    reviews = pd.DataFrame({"annotation_id": annotations["annotation_id"], "verdict": "correct"})
    reviews.loc[annotations["source"] == "s1", "verdict"] = "incorrect"
    given = {"sources": sources, "images": images, "reviews": reviews}

    def kept(**criteria):
        selected, steps = selection.select(annotations, **criteria, **given)
        assert steps["annotations"].iloc[0] == 54 and steps["annotations"].iloc[-1] == len(selected)
        return selected

    assert set(kept(ecoregion=["Hawaii"])["source"]) == {"s0"}
    assert set(kept(genus=["Pavona"])["label"]) == {"Pavona"}
    assert set(kept(layout=["uniform grid"])["source"]) == {"s0", "s1"}
    assert set(kept(min_agreement=0.7)["source"]) == {"s0", "s2"}
    assert set(kept(megapixels=(5, 6.5))["image"]) == {"3.jpg", "4.jpg"}
    assert set(kept(like="s0", max_colour_distance=15)["source"]) == {"s0", "s1"}  # 40 levels in one channel of three
    assert set(kept(like=images[images["source"] == "s2"], max_colour_distance=1)["source"]) == {"s2"}
    assert len(kept(points=(6, 6))) == 54


def test_what_cannot_be_selected_is_said(annotations, images):
    for criteria, said in {
        ("ecoregion", "Hawai"): "did you mean Hawaii",
        ("min_agreement", 0.5): "min_agreement needs a table of reviews",
        ("layout", "grid"): "layout needs a table of sources with source, layout",
        ("megapixels", (1, 2)): "megapixels needs a table of covariates",
        ("points", (5, 2)): "points=5,2 is upside down",
        ("points", (90, 99)): "nothing is left after 90 to 99 points per image",
    }.items():
        name, value = criteria
        value = [value] if isinstance(value, str) else value
        with pytest.raises(ReefcoreError, match=said):
            selection.select(annotations, **{name: value})
    with pytest.raises(ReefcoreError, match="no like is called 'x'"):
        selection.select(annotations, like="x", images=images)


def test_a_selection_is_written_with_attribution_and_a_valid_croissant(annotations, tmp_path):
    annotations = annotations.assign(source=annotations["source"].replace({"s0": "carib", "s1": "Kahekili"}))
    selected, steps = selection.select(annotations, source=["carib", "s2"])
    files = selection.write(selected, steps, tmp_path / "out")
    assert [file.name for file in files] == [
        "annotations.parquet", "steps.csv", "attribution.csv", "CITATION.cff", "croissant.json",
    ]  # fmt: skip
    attributed = pd.read_csv(tmp_path / "out" / "attribution.csv").set_index("source")
    assert "Hugh Runyan" in attributed.at["carib", "contributors"]
    assert attributed.at["s2", "note"] == "not in Table 13: ask the owner of the source"
    citation = yaml.safe_load((tmp_path / "out" / "CITATION.cff").read_text())
    assert {"name": "Hugh Runyan"} in citation["references"][1]["authors"] and len(citation["references"]) == 3
    dataset = mlcroissant.Dataset(jsonld=str(files[-1]))
    assert not dataset.metadata.issues.errors
    records = list(dataset.records("annotations"))
    assert len(records) == len(selected)
    assert records[0]["annotations/label"].decode() == selected["label"].iloc[0]
    assert json.loads(files[-1].read_text())["description"].endswith("(source: carib, s2)")
    selection.write(selected, steps, tmp_path / "sample", notice="All invented.")
    for name in ("CITATION.cff", "croissant.json"):
        assert "All invented." in (tmp_path / "sample" / name).read_text()
    before = [file.read_bytes() for file in files]
    assert [file.read_bytes() for file in selection.write(selected, steps, tmp_path / "out")] == before


def test_the_85_sources_of_table_13_are_those_that_the_funnel_leaves():
    _, dropped = curation.source_funnel(curation.candidates())
    left = set(curation.candidates()["source"]) - set(dropped["source"])
    people = attribution.contributors()
    assert set(people["source"]) == left and len(people) == 85 and people["contributors"].notna().all()


def test_attribution_knows_names_as_they_are_written_elsewhere_and_own_ones_come_first():
    table = attribution.attribution(["403 He’eia Restoration", "ESD_REA HAWAII_v2"]).set_index("source")
    assert table["contributors"].notna().all() and table.at["ESD_REA HAWAII_v2", "cite"].endswith("(2018b)")
    own = pd.DataFrame({"source": ["carib", "mine"], "contributors": ["Me", "Us"], "licence": ["CC0-1.0", None]})
    table = attribution.attribution(own).set_index("source")
    assert table.at["carib", "contributors"] == "Me" and table.at["carib", "licence"] == "CC0-1.0"
    assert table["note"].isna().all()


def test_select_on_the_command_line(smoke, tmp_path, capsys):
    smoke.table("covariates")
    out = tmp_path / "chosen"
    assert (
        cli.main(["select", str(out), "--profile", "smoke", "--genus", "Porites", "--megapixels", "0", "99", "--json"])
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["steps"][-1]["annotations"] == len(pd.read_parquet(out / "annotations.parquet")) > 0
    photos = next(path for path in sorted(smoke.photos.iterdir()) if path.is_dir())
    assert (
        cli.main(["select", str(out), "--profile", "smoke", "--like", str(photos), "--max-colour-distance", "5"]) == 0
    )
    assert photos.name in set(pd.read_parquet(out / "annotations.parquet")["source"])
    assert cli.main(["select", str(out), "--profile", "smoke", "--genus", "Porite"]) == 2
    assert "did you mean Porites" in capsys.readouterr().err


def test_a_folder_of_other_things_is_left_alone(annotations, tmp_path):
    selected, steps = selection.select(annotations)
    (tmp_path / "CITATION.cff").write_text("somebody's own")
    with pytest.raises(ReefcoreError, match="this folder holds other things"):
        selection.write(selected, steps, tmp_path)
    with pytest.raises(ReefcoreError, match="this is a file, not a folder"):
        selection.write(selected, steps, tmp_path / "CITATION.cff")
    assert (tmp_path / "CITATION.cff").read_text() == "somebody's own"
