"""The full profile from the released files: tables, what is said of them, and the steps up to the splits."""

import dataclasses
import json

import openpyxl
import pandas as pd
import pytest

from reefcore import profiles, released, tables, workbooks
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet, write_parquet
from reefcore.workflow import keys, steps
from reefcore.workflow import open as open_project

HEADER = (
    "X,CoralNet_source,Image_name,Row,Column,CoralNet_label,CoralNet_label_short_code,Sorted_ReefNet_label,Broad_category,"
    "Condition_indication,Latitude,Longitude,Ecoregion,Province,Realm"
)
PLACE = "-17.5,149.75,Society Islands,Southeast Polynesia,Eastern Indo-Pacific"
LABELS = [("Porites (massive)", "Porites", "Hard corals"), ("ACR", "Acropora", "Hard corals")]
LABELS += [("Turf", "Turf algae", "Algae")]


def rows(sources=("Reef A", "Reef B", "Reef C", "Reef D"), images=6, points=6):
    """Write points of each label on each photo of each source."""
    found, number = [], 0
    for source in sources:
        for image in range(images):
            for point in range(points):
                raw, label, broad = LABELS[point % len(LABELS)]
                number += 1
                where = f"{number},{source},{source[-1]}{image}.jpg,{10 * point},{20 + point}"
                found.append(f"{where},{raw},X{point % 3},{label},{broad},Healthy,{PLACE}")
    return found


def workbook(path, **sheets):
    """Write a workbook: sheet -> rows."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, lines in sheets.items():
        sheet = book.create_sheet(name.replace("_", " "))
        for line in lines:
            sheet.append(line)
    book.save(path)


def beside(folder):
    """Put the other released files into the folder: in the spirit of what is known of them, and oddly."""
    said = [
        ("Column", "What it is"),
        *((name, f"About {name}.") for name in HEADER.split(",")),
        ("Depth", "In metres."),
    ]
    workbook(folder / "Metadata_All_ReefNet_annotations.xlsx", README=said)
    explained = [["Overview of the sources"], [], ["Name of the column", "Explanation"]]
    explained += [
        ["CoralNet source", "As on CoralNet."],
        ["Creators", "Who."],
        ["Average image resolution", "In pixels."],
    ]
    sources = [["The sources of ReefNet, see the first sheet"], [], [None, None, "where", None, None, None, "odd"]]
    titles = ["CoralNet source", "Creators", "Latitude (mean)", "Longitude (mean)", "Average image resolution"]
    sources.append([*titles, "Point generation", "Colour of the boat"])
    sources.append(["reef a ", "A. Diver, B. Diver", -17.6, 149.7, "4000 x 3000", "Simple random, 25 points", "red"])
    sources.append(["Reef B", "C. Diver", 40.0, 149.7, "12.2 MP", "Stratified", "blue"])
    sources.append(["Reef Z", "D. Diver", "somewhere", 149.7, "large", "Grid", "blue"])
    workbook(folder / "Metadata_ReefNet_by_CoralNet_sources.xlsx", Explanation=explained, By_source=sources)
    mapping = [["CoralNet label", "Short code", "ReefNet label", "AphiaID", "Rank"]]
    mapping += [["Porites (massive)", "PORm", "Porites", 206485, "genus"], ["ACR", "ACR", "Montipora", 1, "genus"]]
    mapping += [["Turf", "TURF", "Turf algae", None, "other"], ["Pavona varians", "PVAR", "Pavona", 2, "genus"]]
    workbook(folder / "ReefNet_labelmapping.xlsx", Readme=[["Label", "Meaning"]], Labels=mapping)
    lines = ["Source,Valid,URL,ImagesURL,ImagesNumber,FirstImageNumber"]
    for number, (name, valid) in enumerate({"Reef A": "yes", "Reef B": "yes ", "Reef C": "no"}.items()):
        lines.append(
            f'{name},{valid},https://host.test/source/{number}/,https://host.test/image/,"1,{number:03}",7{number}'
        )
    (folder / "Overview_Sources_for_Image_Download.csv").write_text("\n".join(lines) + "\n")
    (folder / "ReefNet_RSG-TestDataset_labelmapping.xlsx").write_text("<html>sign in</html>")


@pytest.fixture(autouse=True)
def no_memory():
    """Another test's folder of the same name is another folder."""
    steps.key.cache_clear()


@pytest.fixture
def release(tmp_path):
    """Make a data folder with released files of the real layout, and a full profile of it."""
    folder = tmp_path / "data" / "released"
    folder.mkdir(parents=True)
    (folder / "All_ReefNet_annotations.csv").write_text("\n".join([HEADER, *rows()]) + "\n")
    wajh = ["Name,Row,Column,Our_Labels", *(f"w{n}.jpg,{n},5,{['Porites', 'Acropora'][n % 2]}" for n in range(8))]
    (folder / "ReefNet_RSG-TestDataset_annotations.csv").write_text("\n".join(wajh) + "\n")
    changes = {"data": str(tmp_path / "data"), "recipes": (), "zero_shot": (), "open_set": {}, "few_shot": {}}
    criteria = {"min_annotations": 8, "min_sources": 1, "min_per_source": 1}
    changes |= {"substrate": {}, "seeds": {}, "criteria": criteria, "cross_sources": {"n_test": 1, "n_val": 1}}
    return dataclasses.replace(profiles.load("full"), name="test", **changes), tmp_path / "data"


def said(folder, file, column=""):
    """Give what the table of the release says of a column."""
    table = read_parquet(folder / "release.parquet").query("file == @file and column == @column")
    return table["read_as"].iloc[0], "; ".join(table["note"])


def test_a_sheet_that_contradicts_itself_and_rows_above_a_header_are_said(release):
    _, folder = release
    lines = [["Source", "Latitude", "Megapixels"], ["Reef A", 12, 12], ["Reef B", 1, 12], ["Reef A", -5, 99]]
    workbook(folder / "released" / "a.xlsx", Sources=lines)
    numbers = [["CoralNet_source", 2019, 2020], ["Reef A", "x", "y"], ["Reef B", "x", "z"], ["Reef C", "y", "z"]]
    workbook(folder / "released" / "b.xlsx", Odd=numbers)
    images = [["Source", "Image", "Width"], *(["Reef A", "A0.jpg", w] for w in (4000, 1)), ["Reef A", "A1.jpg", 30]]
    workbook(folder / "released" / "c.xlsx", Images=images)
    released.make(folder, "Al-Wajh")
    assert "sources listed with different values: 1; the first is taken" in said(folder, "a.xlsx", "Megapixels")[1]
    assert "images listed with different values: 1" in said(folder, "c.xlsx", "Width")[1]
    assert "rows above the header as wide as the table, not read: 1; Reef A" in said(folder, "b.xlsx")[1]
    assert read_parquet(folder / "sources.parquet").set_index("source")["megapixels"]["Reef A"] == 12


def test_the_released_files_go_through_the_steps_without_photos_and_reviews(release):
    profile, folder = release
    for step in ("splits", "candidates", "covariates"):
        steps.ensure(profile, folder, step, 1)
    annotations = tables.validate(read_parquet(folder / "annotations.parquet"), "annotations")
    assert annotations["annotation_id"].tolist() == tables.annotation_ids(annotations).tolist()
    assert len(annotations) == 4 * 36 + 8 and annotations["source"].iloc[-1] == "Al-Wajh"
    assert annotations.groupby("label")["rank"].first().to_dict() == {
        "Acropora": "genus", "Porites": "genus", "Turf algae": "other"
    }  # fmt: skip
    quality = read_parquet(folder / "quality.parquet")
    assert quality["step2"].all() and len(quality) == 4 * 24 + 8  # nobody reviewed: nothing is filtered
    assert {"S1", "S2", "S3", "S4", "W"} <= set(read_parquet(folder / "splits.parquet")["scheme"])
    project = open_project(profile)
    for name in ("photos", "covariates", "reviews", "patches", "problems", "mapping", "anything", "predictions"):
        assert not project.has(name), name
    assert project.has("splits") and project.has("release")
    assert len(project.table("unreadable")) == len(project.table("images")) == 4 * 6 + 8
    with pytest.raises(ReefcoreError, match="has no photos; get them by `reefcore fetch images"):
        project.photos  # noqa: B018
    (folder / "photos" / "Reef A").mkdir(parents=True)
    steps.key.cache_clear()
    assert project.has("photos") and not project.has("covariates")


def test_what_the_files_beside_say_is_found_by_names_and_values(release):
    profile, folder = release
    beside(folder / "released")
    steps.ensure(profile, folder, "data", 1)
    sources = read_parquet(folder / "sources.parquet").set_index("source")
    one, two = sources.loc["Reef A"], sources.loc["Reef B"]
    assert (one["megapixels"], one["layout"], one["contributors"]) == (12.0, "simple random", "A. Diver, B. Diver")
    assert (two["megapixels"], two["layout"], two["latitude"]) == (12.2, "stratified random", -17.5)
    assert (one["images"], one["points"], one["images_number"], one["url"]) == (
        6,
        6,
        1000,
        "https://host.test/source/0/",
    )
    assert sources["valid"].fillna(False).to_dict() == {
        "Al-Wajh": False, "Reef A": True, "Reef B": True, "Reef C": False, "Reef D": False
    }  # fmt: skip
    workbook, overview = "Metadata_ReefNet_by_CoralNet_sources.xlsx", "Overview_Sources_for_Image_Download.csv"
    assert said(folder, overview, "Valid") == ("valid", "1 values have blanks around them, and were read without")
    assert said(folder, workbook, "Colour of the boat") == ("", "not recognised, and not read")
    assert "of 3 sources listed, 1 have no annotation in the release" in said(folder, workbook, "CoralNet source")[1]
    assert said(folder, workbook, "Latitude (mean)") == (
        "latitude",
        "1 of 3 values do not fit and are left empty; "
        "1 sources have another latitude than was read before, which stays: Reef B",
    )
    assert said(folder, workbook, "Name of the column")[0] == "explained"
    assert (
        "explains what is no column here: Depth" in said(folder, "Metadata_All_ReefNet_annotations.xlsx", "Column")[1]
    )
    assert "this is a web page" in said(folder, "ReefNet_RSG-TestDataset_labelmapping.xlsx")[1]
    mapping = read_parquet(folder / "mapping.parquet").set_index("label_raw")
    assert mapping["annotations"].to_dict() == {"Porites (massive)": 48, "ACR": 48, "Turf": 48, "Pavona varians": 0}
    assert mapping.loc["ACR", "note"].startswith(
        "the annotations say Acropora; reefcore.taxonomy reads Acropora; AphiaID 1"
    )
    assert mapping.loc["Pavona varians", "note"].endswith("in no annotation")
    assert (mapping.loc[["Porites (massive)", "Turf"], "note"] == "").all()


def test_sizes_dates_and_depths_come_from_a_sheet_with_a_row_per_image(release):
    profile, folder = release
    lines = [
        ["Source", "Image", "Image width", "Image height", "Depth (m)"],
        ["Reef A", "A0.jpg", 4000, 3000, "-7.5 m"],
    ]
    lines += [["Reef A", "A1.jpg", 4000, "?", ""], ["Reef A", "A99.jpg", 1, 1, 1]]
    workbook(folder / "released" / "Metadata.xlsx", Images=lines)
    steps.ensure(profile, folder, "data", 1)
    images = read_parquet(folder / "images.parquet").set_index("image")
    assert images.loc["A0.jpg", ["width", "height", "depth"]].tolist() == [4000, 3000, 7.5]
    assert images["width"].notna().sum() == 2 and images["height"].notna().sum() == 1
    assert "1 images have no annotation" in said(folder, "Metadata.xlsx", "Image")[1]


def test_verdicts_of_experts_are_taken_by_id_or_by_point(release):
    profile, folder = release
    by_point = ["Image,Row,Column,Verdict,Reviewer,Timestamp", "A0.jpg,0,20,Correct,ann,2024-05-01"]
    by_point += [
        "A0.jpg,10,21,low quality,,",
        "A0.jpg,1,1,correct,ann,2024-05-01",
        "A0.jpg,0,20,perhaps,ann,2024-05-01",
    ]
    (folder / "reviews.csv").write_text("\n".join(by_point))
    steps.ensure(profile, folder, "data", 1)
    reviews = tables.validate(read_parquet(folder / "reviews.parquet"), "reviews")
    assert reviews["verdict"].tolist() == ["correct", "low_quality"] and reviews["reviewer"][1] == "not named"
    notes = "; ".join(read_parquet(folder / "release.parquet").query("file == 'reviews.csv'")["note"])
    assert "1 verdicts are of points that are not in the annotations" in notes and "1 verdicts have no time" in notes
    # By their ids; what is in the file counts, so that the step is made again.
    (folder / "reviews.csv").write_text(reviews.head(1).assign(verdict="incorrect").to_csv(index=False))
    steps.key.cache_clear()
    steps.ensure(profile, folder, "data", 1)
    assert read_parquet(folder / "reviews.parquet")["verdict"].tolist() == ["incorrect"]
    (folder / "reviews.csv").write_text("annotation_id,opinion\n1,2\n")
    steps.key.cache_clear()
    with pytest.raises(ReefcoreError, match=r"reviews.csv: no column of this file holds verdicts"):
        steps.ensure(profile, folder, "data", 1)


def test_tables_that_a_user_brought_are_taken_or_set_aside_and_never_written_over(release, caplog):
    profile, folder = release
    (folder / "released").rename(folder / "later")
    with pytest.raises(ReefcoreError, match="neither the released files nor annotations"):
        steps.ensure(profile, folder, "data", 1)
    own = pd.DataFrame({"annotation_id": ["mine"]})
    for name in released.TABLES:
        write_parquet(own, folder / name)
    steps.key.cache_clear()
    first = steps.ensure(profile, folder, "data", 1)["key"]
    assert read_parquet(folder / "annotations.parquet").equals(own) and read_parquet(folder / "release.parquet").empty
    write_parquet(pd.concat([own, own]), folder / "sources.parquet")
    steps.key.cache_clear()
    assert steps.ensure(profile, folder, "data", 1)["key"] != first
    (folder / "later").rename(folder / "released")
    steps.key.cache_clear()
    steps.ensure(profile, folder, "data", 1)
    assert "annotations.parquet was not made of the released files; it is now annotations.own.parquet" in caplog.text
    assert read_parquet(folder / "annotations.own.parquet").equals(own)
    assert read_parquet(folder / "reviews.parquet").equals(own)  # verdicts of one's own: the release has none
    before = {name: (folder / name).read_bytes() for name in released.TABLES}
    (folder / ".released-left").mkdir()
    steps.record_path(folder, "data").unlink()
    steps.ensure(profile, folder, "data", 1)  # again: the same bytes, and nothing set aside
    assert before == {name: (folder / name).read_bytes() for name in released.TABLES}
    assert len(list(folder.glob("*.own*"))) == 3 and not list(folder.glob(".released-*"))


def test_a_file_that_is_no_annotations_is_said_and_large_files_are_hashed_once(release, monkeypatch):
    profile, folder = release
    file = folder / "released" / "All_ReefNet_annotations.csv"
    fetched = {"size": file.stat().st_size, "modified": file.stat().st_mtime_ns, "sha256": "of the hub"}
    (file.parent / "fetched.json").write_text(json.dumps({file.name: fetched}))
    before = steps.ingredients(profile, folder, "released")
    assert before[f"input {file.name}"] == "of the hub" and "input fetched.json" not in before
    monkeypatch.setattr(keys, "digest", None)
    assert steps.ingredients(profile, folder, "released") == before
    monkeypatch.undo()
    file.write_text("<html>sign in</html>")
    (file.parent / "ReefNet_RSG-TestDataset_annotations.csv").unlink()
    assert steps.ingredients(profile, folder, "released") != before
    steps.key.cache_clear()
    with pytest.raises(ReefcoreError, match=r"All_ReefNet_annotations.csv: this is a web page"):
        steps.ensure(profile, folder, "data", 1)
    file.write_text("a,b\n1,2\n")
    steps.key.cache_clear()
    with pytest.raises(ReefcoreError, match=r"not the released annotations \(its columns are a, b\); get it again"):
        steps.ensure(profile, folder, "data", 1)


def test_the_file_of_al_wajh_alone_is_no_fault_and_the_rest_is_asked_for(release):
    profile, folder = release
    (folder / "released" / "All_ReefNet_annotations.csv").unlink()
    with pytest.raises(ReefcoreError, match="get them: reefcore fetch annotations metadata"):
        steps.ensure(profile, folder, "data", 1)


@pytest.mark.parametrize(
    ("role", "texts", "values"),
    [
        ("latitude", ["17.5 S", "17,5", "91", "x"], [-17.5, 17.5, None, None]),
        ("longitude", ["149.75°W", "181", "-3", ""], [-149.75, None, -3, None]),
        ("megapixels", ["4000x3000", "4000 × 3000 px", "12 MP", "12000000"], [12, 12, 12, 12]),
        ("images_number", ["1,234", "12.5", "-1", "7"], [1234, None, None, 7]),
        ("depth", ["-7.5 m", "8", "9999", "deep"], [7.5, 8, None, None]),
        ("label", ["Unknown", "NA", " Water ", ""], ["Unknown", None, "Water", None]),
        ("verdict", ["Hard to decide", "Yes", "wrong", "?"], ["hard_to_decide", "correct", "incorrect", None]),
        ("layout", ["Stratified Random", "a uniform grid", "random points", "?"], [*workbooks.LAYOUTS, None]),
    ],
)
def test_values_are_read_as_what_they_are(role, texts, values):
    found = workbooks.parse(role, pd.Series(texts, dtype="str"))
    assert [None if pd.isna(value) else value for value in found] == values
