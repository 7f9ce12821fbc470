"""What other programs read: round trips, the sums of counts, identifiers of taxa, and what must not leak."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reefcore import annotations, taxonomy
from reefcore.annotations import export
from reefcore.errors import ReefcoreError

FULL = (
    "Name,Date,Site,My Aux,Height (cm),Latitude,Longitude,Depth,Photographer,Comments,Row,Column,Label,Annotator,"
    "Date annotated,Machine suggestion 1,Machine confidence 1\n"
    'a.jpg,2020-01-02,North,,40,-17.50,149.75,5-8 m,Jane Doe,"one, ""two""",10,20,Porites,Jane Doe,'
    "2020-09-13 05:20:27+00:00,Porites,81\n"
    "a.jpg,2020-01-02,North,,40,-17.50,149.75,5-8 m,Jane Doe,,11,21,Sand,robot,,,\n"
    "b.jpg,5/6/2020,North,x,40,,,,,,12,22,*MOEN,Imported,,Porites,7\n"
)
WIDTHS = {
    "short": "Name,Row,Column,Label\na.jpg,1,20,POR\na.jpg,1,20,POR\nb.jpg,0,7,=1+1\n",
    "annotator": "Name,Row,Column,Label,Annotator,Date annotated\na.jpg,1,2,POR,robot,2020-01-01\nb.jpg,1,2,P B,,\n",
    "code": "Name,Date,Row,Column,Label code,Label ID\na.jpg,,1,2,POR,171\nb.jpg,,1,2,SAND,\n",
    "both": "Name,Row,Column,Label ID,Label\na.jpg,1,2,171,POR\n",
    "depth": "Name,Depth,Row,Column,Label\na.jpg,5.0,1,2,POR\nb.jpg,7,1,2,POR\n",
    "full": FULL,
}

REAL = next((up / "shared/real" for up in Path(__file__).parents if (up / "shared/real").exists()), Path("absent"))


def table(path):
    return pd.read_csv(path, dtype="str", keep_default_na=False)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_coralnet_export_comes_back_cell_by_cell(put, tmp_path, width):
    path = put(WIDTHS[width])
    for names in (True, False):
        done = export.write(annotations.read(path, names=names), tmp_path / "out.csv", "coralnet")
        before, after = table(path), table(tmp_path / "out.csv")
        people = [] if names else [name for name in ("Annotator", "Photographer") if name in before]
        pd.testing.assert_frame_equal(before.drop(columns=people), after.drop(columns=people))
        assert done["rows"] == len(before) and done["left_out"] == {}
        if people and width == "full":
            assert after["Annotator"][0].startswith("person-") and after["Annotator"][1] == "robot"
        again = annotations.read(tmp_path / "out.csv", names=names, source="reef")
        assert again.equals(annotations.read(path, names=names))  # pseudonyms included


def test_what_r_and_people_did_to_titles_is_undone_and_other_formats_are_short(put, tmp_path):
    r = '"","Name","Row","Column","Label","Height..cm."\n"1","a.jpg",1,2,"POR",40\n'
    export.write(annotations.read(put(r)), tmp_path / "out.csv", "coralnet")
    assert (tmp_path / "out.csv").read_text() == "Name,Row,Column,Label,Height (cm)\na.jpg,1,2,POR,40\n"
    frame = pd.DataFrame({"source": ["s"], "image": ["a.jpg"], "row": [1], "column": [2], "label_raw": ["POR"]})
    export.write(annotations.points.tables.complete(frame), tmp_path / "out.csv", "coralnet")
    assert (tmp_path / "out.csv").read_text() == "Name,Row,Column,Label\na.jpg,1,2,POR\n"


@pytest.fixture
def mapped(put):
    frame = annotations.read(put(FULL.replace("*MOEN", "Porites cf. lutea")))
    return taxonomy.map_labels(frame)[0]


def test_darwin_core_names_taxa_by_their_lsid_and_counts_what_is_none(mapped, tmp_path):
    done = export.write(mapped, tmp_path / "dwc.csv", "darwin-core")
    got = table(tmp_path / "dwc.csv")
    assert done["left_out"] == {"a label that is no taxon with an AphiaID": 1} and len(got) == 2
    one, other = got.iloc[0], got.iloc[1]
    assert one["scientificName"] == "Porites" and one["taxonRank"] == "genus"
    assert one["scientificNameID"] == "urn:lsid:marinespecies.org:taxname:206485"
    assert (one["organismQuantity"], one["sampleSizeValue"], one["sampleSizeUnit"]) == ("50", "2", "points")
    assert (one["eventDate"], other["eventDate"], other["verbatimEventDate"]) == ("2020-01-02", "", "5/6/2020")
    assert (one["decimalLatitude"], one["geodeticDatum"]) == ("-17.5", "WGS84") and other["geodeticDatum"] == ""
    assert other["identificationQualifier"] == "cf." and one["identifiedBy"].startswith("person-")
    assert set(got["basisOfRecord"]) == {"HumanObservation"} and got["occurrenceID"].is_unique
    export.write(mapped.iloc[::-1], tmp_path / "again.csv", "darwin-core")
    assert set(table(tmp_path / "again.csv")["occurrenceID"]) == set(got["occurrenceID"])
    mapped["annotator"] = "robot"
    export.write(mapped, tmp_path / "dwc.csv", "darwin-core")
    assert set(table(tmp_path / "dwc.csv")["basisOfRecord"]) == {"MachineObservation"}


def test_positions_are_rounded_with_their_uncertainty_or_left_out(mapped, tmp_path):
    mapped["latitude"] = mapped["latitude"] - 0.0123
    for format in ("coralnet", "reefcloud", "darwin-core"):
        export.write(mapped, tmp_path / "r.csv", format, positions="rounded")
        assert "17.5123" not in (tmp_path / "r.csv").read_text() and "-17.5" in (tmp_path / "r.csv").read_text()
        export.write(mapped, tmp_path / "n.csv", format, positions="none")
        assert "17.5" not in (tmp_path / "n.csv").read_text()
    export.write(mapped, tmp_path / "r.csv", "darwin-core", positions="rounded")
    metres = float(table(tmp_path / "r.csv")["coordinateUncertaintyInMeters"][0])
    assert metres == pytest.approx(5566 * np.hypot(1, np.cos(np.deg2rad(17.5))), abs=1)


@pytest.mark.parametrize("positions", ["rounded", "none"])
def test_columns_that_repeat_a_position_are_left_out_and_named(put, tmp_path, positions):
    text = "Name,Row,Column,Label,Latitude,Longitude,Depth,Comments,Breite,Easting,Notes\n"
    text += "a.jpg,1,2,POR,-17.5123,149.7546,17.5123,buoy at -17.512 149.755,17.51,5,dark\n"
    text += "b.jpg,1,2,POR,-17.5124,149.7546,17.5124,,17.51,5,in 1.25 knots\n"
    done = export.write(annotations.read(put(text)), tmp_path / "out.csv", "coralnet", positions=positions)
    assert done["hidden"] == ["comments", "breite", "easting"]
    assert "they tell positions: comments" in export.said(
        done | {"input_left_out": {}, "input_read": 2, "input_rows": 2}
    )
    got = table(tmp_path / "out.csv")
    assert got["Depth"].tolist() == ["17.5123", "17.5124"] and got["Notes"].tolist() == ["dark", "in 1.25 knots"]
    assert not got.drop(columns="Depth").stack().str.contains("7.51|9.75").any() and "Comments" not in got
    assert ("Latitude" in got) == (positions == "rounded")
    done = export.write(annotations.read(put(text)), tmp_path / "out.csv", "coralnet")
    assert done["hidden"] == [] and "Comments" in table(tmp_path / "out.csv")


def test_a_spreadsheet_takes_no_cell_for_a_formula(mapped, tmp_path):
    mapped["label"] = mapped["label_raw"] = "=HYPERLINK()"
    for format in ("mermaid", "darwin-core"):
        export.write(mapped, tmp_path / "f.csv", format)
        cells = table(tmp_path / "f.csv").stack()
        assert "'=HYPERLINK()" in set(cells) and not cells.str.match(r"[=+@]|-\D").any()


def test_mermaid_counts_add_up_and_are_read_again(mapped, tmp_path):
    mapped["transect"] = "3"
    export.write(mapped.assign(life_form="Tabular"), tmp_path / "m.csv", "mermaid")
    got = table(tmp_path / "m.csv")
    assert list(got) == export.MERMAID and got["Growth form"].unique().tolist() == ["plates or tables"]
    covers = annotations.read_covers(tmp_path / "m.csv")
    assert covers["count"].sum() == len(mapped) and covers["unit"].nunique() == 2
    assert len(covers.attrs["problems"]) == 0 and covers["date"][0] == "2020-01-02"


def test_dead_coral_is_not_written_as_a_living_one(mapped, tmp_path):
    dead = mapped.assign(condition="Dead")
    export.write(dead, tmp_path / "m.csv", "mermaid")
    assert set(table(tmp_path / "m.csv")["Benthic attribute *"]) == {"Dead coral"}
    export.write(dead, tmp_path / "d.csv", "darwin-core")
    assert set(table(tmp_path / "d.csv")["vitality"]) == {"dead"}


def test_reefcloud_points_are_read_again(mapped, tmp_path):
    export.write(mapped, tmp_path / "rc.csv", "reefcloud")
    got = table(tmp_path / "rc.csv")
    assert got["point_coordinate"].tolist() == ["20, 10", "21, 11", "22, 12"]
    assert got["point_machine_classification"].tolist() == ["", "Sand", ""]
    again = annotations.read(tmp_path / "rc.csv")
    assert again[["row", "column"]].to_numpy().tolist() == mapped[["row", "column"]].to_numpy().tolist()
    assert again["label_raw"].tolist() == mapped["label_raw"].tolist()


def test_croissant_is_valid_and_gives_the_rows(mapped, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant")
    done = export.write(mapped, tmp_path / "t.parquet", "croissant", name="my reef", licence="CC-BY-4.0", cite="Doe")
    described = mlcroissant.Dataset(done["files"][1])
    assert not described.metadata.issues.errors
    rows = list(described.records("annotations"))
    assert [row["annotations/image"].decode() for row in rows] == mapped["image"].tolist()
    assert json.loads((tmp_path / "t.croissant.json").read_text())["license"] == "CC-BY-4.0"


@pytest.mark.parametrize("format", ["coralnet", "reefcloud", "mermaid", "darwin-core"])
def test_no_annotations_make_a_header(put, tmp_path, format):
    frame = annotations.read(put("Name,Row,Column,Label\n"))
    assert export.write(frame, tmp_path / "e.csv", format)["rows"] == 0 and len(table(tmp_path / "e.csv")) == 0


def test_what_cannot_be_written_is_a_sentence(mapped, tmp_path):
    for arguments, sentence in {
        ("a.csv", "excel"): "'excel' is not a format that reefcore writes",
        ("a.csv", "croissant"): "a Croissant table is Parquet",
        (".", "coralnet"): "cannot be written",
    }.items():
        with pytest.raises(ReefcoreError, match=sentence):
            export.write(mapped, tmp_path / arguments[0], arguments[1])
    with pytest.raises(ReefcoreError, match="positions"):
        export.write(mapped, tmp_path / "a.csv", "coralnet", positions="secret")


def test_the_command_line_accounts_for_every_record(put, tmp_path, capsys):
    from reefcore import cli

    one, two = put("Name,Row,Column,Label\na.jpg,1,2,Porites\na.jpg,x,2,Sand\n"), put(WIDTHS["full"], "two.csv")
    out = str(tmp_path / "o.csv")
    assert cli.main(["annotations", "convert", str(one), str(two), "--to", "darwin-core", "--output", out]) == 0
    said = capsys.readouterr().out
    assert "4 of 5 records read" in said and "not read: no usable row (1)" in said and "not written:" in said
    assert cli.main(["annotations", "convert", str(one), "--to", "coralnet", "--output", str(one)]) == 2
    assert cli.main(["annotations", "convert", str(one), str(two), "--to", "coralnet", "--output", out]) == 0
    assert annotations.read(out)["source"].tolist() == ["reef", "two", "two", "two"]


@pytest.mark.skipif(not REAL.exists(), reason="real files are not beside the checkout")
@pytest.mark.parametrize(
    "name", ["annotations/coralnet_full_source_2091.csv", "annotations/coralnet_short_one_based.csv"]
)
def test_real_coralnet_exports_come_back_cell_by_cell(tmp_path, name):
    export.write(annotations.read(REAL / name, names=True), tmp_path / "out.csv", "coralnet")
    pd.testing.assert_frame_equal(table(REAL / name), table(tmp_path / "out.csv"))


@pytest.mark.skipif(not REAL.exists(), reason="real files are not beside the checkout")
def test_real_regions_become_points_inside_them_and_shares_of_the_map(tmp_path):
    path = REAL / "annotations/taglab_project.json"
    frame, drawn = annotations.read(path), annotations.read(path, points="sample", sample=20_000)
    share = drawn["label_raw"].value_counts(normalize=True)
    area = frame.groupby("label_raw")["area"].sum() / (frame["width"] * frame["height"]).iloc[0]
    assert len(frame) == frame.attrs["rows"] and (share[area.index] - area).abs().max() < 0.02
