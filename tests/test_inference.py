"""A trained model answers for annotated points and for photos; what has no answer is listed."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore import annotations, fitting, inference, predictions
from reefcore.cli import main
from reefcore.errors import ReefcoreError
from reefcore.files import write_parquet
from reefcore.tables import complete

CLASSES = ["Acropora", "Montipora", "Porites"]  # a red, a green and a blue coral


def redness(fitted, patches):
    """Answer by the mean colour of a patch: a stand-in for a network, and right about single-coloured photos."""
    assert patches.dtype == np.uint8 and patches.shape[1:] == (8, 8, 3)
    return patches.mean(axis=(1, 2)) / patches.mean(axis=(1, 2)).sum(axis=1, keepdims=True)


@pytest.fixture
def model(monkeypatch, tmp_path):
    for name in ("m.pt", "runs/vit-S3.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    recipe = SimpleNamespace(name="vit", size="sample", input_size=8, task="genus")
    fitted = SimpleNamespace(classes=CLASSES, crop=16, recipe=recipe)
    monkeypatch.setattr(fitting, "load", lambda path: fitted, raising=False)
    monkeypatch.setattr(fitting, "predict", redness)
    return fitted


@pytest.fixture
def photos(tmp_path):
    """A folder of three photos of one colour each, and one that is none."""
    folder = tmp_path / "reef"
    folder.mkdir()
    for name, colour in (("a.png", (200, 40, 10)), ("b.png", (10, 200, 40)), ("c.png", (10, 40, 200))):
        Image.new("RGB", (120, 60), colour).save(folder / name)
    (folder / "d.jpg").write_text("no photo")
    return folder


def points_of(photos, rows):
    points = pd.DataFrame(rows, columns=["image", "row", "column", "label_raw", "label"])
    return complete(points.assign(source=photos.name))


ROWS = [
    ("c.png", 5, 6, "POR", "Porites"),
    ("a.png", 59, 119, "POR", "Porites"),
    ("b.png", 60, 0, "MON", "Montipora"),
    ("d.jpg", 1, 1, "MON", "Montipora"),
    ("a.png", 0, 0, "Acropora", "Acropora"),
    ("b.png", 1, 1, "Pavona clavus", None),
]


def test_annotations_give_predictions_beside_their_labels(model, photos, tmp_path):
    points = points_of(photos, ROWS)
    given, output = write_parquet(points, tmp_path / "points.parquet"), tmp_path / "out.parquet"
    report = inference.run("runs/vit-S3.pt", given, output, photos.parent)
    table = predictions.read(output)
    kept = points.iloc[[0, 1, 4, 5]]
    assert table["annotation_id"].tolist() == kept["annotation_id"].tolist() and set(table["run_id"]) == {"vit-S3"}
    assert table["y_true"].tolist() == ["Porites", "Porites", "Acropora", "Pavona clavus"]
    assert table["y_pred"].tolist() == ["Porites", "Acropora", "Acropora", "Montipora"]
    assert np.allclose(table[[f"score:{name}" for name in CLASSES]].iloc[1], [0.8, 0.16, 0.04])
    skipped = pd.read_csv(report["skipped_list"])
    assert skipped["image"].tolist() == ["b.png", "d.jpg"] and skipped["row"].tolist() == [60, 1]
    assert "lies outside its photo" in skipped["reason"][0] and "not an image" in skipped["reason"][1]
    assert (report["points"], report["photos"], report["skipped"]) == (4, 3, 2)


def test_a_label_of_the_model_is_taken_as_given(model, photos, tmp_path):
    points = points_of(photos, [("a.png", 1, 1, "Acropora", "Pavona")])  # as where the model's classes are raw labels
    given = write_parquet(points, tmp_path / "points.parquet")
    inference.run("m.pt", given, tmp_path / "out.csv", photos)
    assert predictions.read(tmp_path / "out.csv")["y_true"].tolist() == ["Acropora"]


def test_a_model_of_families_answers_beside_families(model, photos, tmp_path):
    model.recipe.task, model.classes = "family", ["Acroporidae", "Agariciidae", "Poritidae"]
    rows = [("a.png", 1, 1, "ACR", "Acropora"), ("c.png", 1, 1, "Poritidae", "Porites"), ("b.png", 1, 1, "X", None)]
    given = write_parquet(points_of(photos, rows), tmp_path / "points.parquet")
    inference.run("m.pt", given, tmp_path / "out.csv", photos)
    table = predictions.read(tmp_path / "out.csv")
    assert table["y_true"].tolist() == ["Acroporidae", "Poritidae", "X"]
    assert table["y_pred"].tolist() == ["Acroporidae", "Poritidae", "Agariciidae"]


def test_a_file_of_coralnet_is_read_and_photos_may_lie_flat(model, photos, tmp_path, caplog):
    file = tmp_path / "annotations.csv"
    file.write_text("Name,Row,Column,Label\na.png,5,5,ACR\na.png,5,5,ACR\nc.png,9,9,POR\nc.png,9,x,POR\n")
    report = inference.run("m.pt", file, tmp_path / "out.csv", photos)
    table = predictions.read(tmp_path / "out.csv")
    assert table["y_true"].tolist() == ["ACR", "POR"] and table["y_pred"].tolist() == ["Acropora", "Porites"]
    assert "1 points stand twice" in caplog.text and "3 of 4 rows kept" in caplog.text
    assert report["skipped_list"] is None and not list(tmp_path.glob("*.skipped.csv"))


def test_photos_give_a_table_that_can_be_read_again(model, photos, tmp_path):
    report = inference.run("m.pt", photos, tmp_path / "out.csv", n=8)
    assert (report["points"], report["photos"], report["skipped"]) == (24, 3, 1)
    again = annotations.read(tmp_path / "out.csv")
    assert again.attrs["format"] == "coralnet" and len(again.attrs["problems"]) == 0
    assert again.groupby("image")["label_raw"].unique().map(list).to_dict() == {
        "a.png": ["Acropora"], "b.png": ["Montipora"], "c.png": ["Porites"]
    }  # fmt: skip
    written = pd.read_csv(tmp_path / "out.csv")
    assert list(written)[:6] == ["Source", "Name", "Row", "Column", "Label", "Confidence"]
    assert np.allclose(written["Confidence"], 0.8) and np.allclose(written["Second confidence"], 0.16)
    assert written["Second label"].tolist() == ["Montipora"] * 8 + ["Porites"] * 8 + ["Montipora"] * 8
    assert pd.read_csv(tmp_path / "out.csv.skipped.csv")["image"].tolist() == ["d.jpg"]


def test_one_photo_and_subfolders_are_taken_too(model, photos, tmp_path):
    inference.run("m.pt", photos / "b.png", tmp_path / "one.csv", n=4)
    assert set(pd.read_csv(tmp_path / "one.csv")["Name"]) == {"b.png"}
    (tmp_path / "all").mkdir()
    for name in ("reef", "other"):
        shutil.copytree(photos, tmp_path / "all" / name)
    inference.run("m.pt", tmp_path / "all", tmp_path / "all.parquet", n=4)
    assert pd.read_parquet(tmp_path / "all.parquet").groupby(["Source", "Name"]).size().tolist() == [4] * 6


def test_a_grid_is_of_equal_cells(photos):
    points, skipped = inference.lay_points(pd.DataFrame({"source": ["reef"], "image": ["a.png"]}), photos, 8)
    assert sorted(set(points["row"])) == [15, 45] and sorted(set(points["column"])) == [15, 45, 75, 105]
    assert len(points) == 8 and skipped.empty
    assert len(inference.lay_points(points.head(1), photos, 25)[0]) == 25


def test_random_points_are_of_the_seed_and_the_photo_alone(photos):
    def laid(images, **options):
        names = pd.DataFrame({"source": "reef", "image": images})
        return inference.lay_points(names, photos, 30, "random", **options)[0].groupby("image")

    together, alone = laid(["a.png", "b.png"]), laid(["b.png"])
    assert together.get_group("b.png").reset_index(drop=True).equals(alone.get_group("b.png"))
    rows = together["row"].apply(list)
    assert rows["a.png"] != rows["b.png"] and rows["b.png"] != laid(["b.png"], seed=1)["row"].apply(list)["b.png"]
    points = alone.get_group("b.png")
    assert not points.duplicated().any() and points["row"].between(0, 59).all() and points["column"].max() > 59
    few, _ = inference.lay_points(pd.DataFrame({"source": ["reef"], "image": ["a.png"]}), photos, 9999, "random")
    assert len(few) == 60 * 120


def test_an_output_is_replaced_only_when_asked(model, photos, tmp_path):
    output = tmp_path / "out.csv"
    inference.run("m.pt", photos, output, n=2)
    before = output.read_bytes()
    with pytest.raises(ReefcoreError, match="there already"):
        inference.run("m.pt", photos, output, n=3)
    assert output.read_bytes() == before
    (photos / "d.jpg").unlink()
    inference.run("m.pt", photos, output, n=3, force=True)
    assert len(pd.read_csv(output)) == 9 and not list(tmp_path.glob("*.skipped.csv"))  # no list of an earlier run stays


def test_what_cannot_be_predicted_is_refused_in_a_sentence(model, photos, tmp_path):
    given = write_parquet(points_of(photos, ROWS[3:4]), tmp_path / "points.parquet")
    with pytest.raises(ReefcoreError, match=r"no point can be predicted .this is not an image"):
        inference.run("m.pt", given, tmp_path / "out.csv", photos)
    assert len(pd.read_csv(tmp_path / "out.csv.skipped.csv")) == 1 and not (tmp_path / "out.csv").exists()
    table = write_parquet(pd.DataFrame({"annotation_id": ["a"]}), tmp_path / "table.parquet")
    empty = write_parquet(points_of(photos, ROWS[:1]).head(0), tmp_path / "empty.parquet")
    for given_, folder, name, said in (
        (tmp_path / "reefs", None, "x.csv", "nothing of this name"), (photos / "d.jpg", None, "x.csv", "not an image"),
        (empty, photos, "x.csv", "there is none"), (given, None, "x.csv", "--photos"),
        (photos, photos, "x.csv", "--photos"),
        (given, photos, "x.txt", "CSV or Parquet"), (table, photos, "x.csv", "lacks the column source"),
    ):  # fmt: skip
        with pytest.raises(ReefcoreError, match=said):
            inference.run("m.pt", given_, tmp_path / name, folder)
    with pytest.raises(ReefcoreError, match=r"nosuch\.safetensors: there is nothing of this name; check the path"):
        inference.run("nosuch.safetensors", given, tmp_path / "x.csv", photos)
    for n, layout in ((0, "grid"), (5, "spiral")):
        with pytest.raises(ReefcoreError, match="cannot be laid out"):
            inference.run("m.pt", photos, tmp_path / "x.csv", n=n, layout=layout)


def test_many_photos_are_predicted_a_few_at_a_time(model, photos, tmp_path, monkeypatch):
    for i in range(40):
        shutil.copy(photos / f"{'abc'[i % 3]}.png", photos / f"p{i:02}.png")
    sizes = []
    monkeypatch.setattr(fitting, "predict", lambda fitted, x: sizes.append(len(x)) or redness(fitted, x))
    inference.run("m.pt", photos, tmp_path / "out.csv", n=5)
    assert sum(sizes) == 43 * 5 and max(sizes) <= inference.AT_ONCE * 5
    assert pd.read_csv(tmp_path / "out.csv")["Label"].iloc[15:].tolist() == [
        ["Acropora", "Montipora", "Porites"][i % 3] for i in range(40) for _ in range(5)
    ]


def test_the_command_says_what_model_it_is_and_what_it_skipped(model, photos, tmp_path, capsys):
    output = str(tmp_path / "out.csv")
    assert main(["predict", "m.pt", str(photos), "--points", "4", "--layout", "random", "--output", output]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == output and "recipe vit" in said.err and "synthetic reefs only" in said.err
    assert "1 without an answer" in said.err
    assert main(["predict", "m.pt", str(photos), "--output", output]) == 2
    capsys.readouterr()
    assert main(["predict", "m.pt", str(photos), "--output", output, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == 75
