"""`reefcore substrate`: what each command prints and writes, and its sentences."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reefcore.cli import main
from reefcore.errors import ReefcoreError
from reefcore.substrate import own, stream


@pytest.fixture
def frames(tmp_path):
    """Frames of three sequences, whose left half is white."""
    for i in range(6):
        pixels = np.zeros((40, 70, 3), np.uint8)
        pixels[:, : 40 + 5 * i] = 255
        path = tmp_path / "frames" / f"s{i // 2}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = f"2025:03:01 10:00:0{i}"
        Image.fromarray(pixels).save(path, exif=exif)
    return tmp_path / "frames"


@pytest.fixture
def model(monkeypatch, tmp_path):
    """A model whose network says Deploy of white patches."""

    def onnx(self, threads):
        def answer(patches, alpha):
            label = np.where(patches.mean(axis=(1, 2, 3)) > 128, 2, 1)
            ratio = np.float32((label == 2).mean())
            return label, np.eye(3, dtype=np.float32)[label], ratio, 1 - ratio, ratio > alpha

        about = {"classes": "", "side": "8", "rows": "4", "columns": "7", "alpha": "0.7", "run": "white", "notice": ""}
        return answer, about

    monkeypatch.setattr(stream.Runner, "_onnx", onnx)
    (tmp_path / "model.onnx").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "model.onnx"


def test_run_says_what_it_did(model, frames, capsys):
    assert main(["substrate", "run", str(frames), "--checkpoint", str(model)]) == 0
    assert "decisions.csv: 6 frames, 4 deployments at alpha 0.7, 0 dropped, 0 problems; " in capsys.readouterr().out
    assert stream.read("decisions.csv")["deploy"].tolist() == [False, False, True, True, True, True]
    options = ["--alpha", "0.5", "--output", "b.csv", "--json", "--live", "--rate", "400"]
    assert main(["substrate", "run", str(frames), "--checkpoint", str(model), *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["alpha"] == 0.5 and report["frames"] + report["dropped"] == 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "empty", "--checkpoint", "model.onnx"], "empty: there is no photo in this folder"),
        (["run", "frames", "--checkpoint", "model.onnx", "--alpha", "1.5"], "alpha=1.5 is no share of patches"),
        (["run", "frames", "--checkpoint", "none.onnx"], "none.onnx: there is no such model; check the path"),
        (["run", "frames", "--checkpoint", "model.onnx", "--rate", "3"], "only for a live run"),
        (["export", "x.safetensors", "y.onnx", "--int8"], "--int8 and --frames belong together"),
        (["track", "frames", "--output", "out"], "does not say of which time zone it is"),
        (["agreement", "empty"], "empty"),
        (["train", "frames", "--labels", "no.csv", "--output", "m.safetensors"], "no.csv: there is no such file"),
        (["train", "frames", "--labels", "no.csv", "--output", "m.pt"], "end its name in .safetensors"),
        (["train", "none", "--labels", "no.csv", "--output", "m.safetensors"], "none: this is not a folder"),
        (
            ["train", "frames", "--labels", "no.csv", "--output", "m.safetensors", "--threads", "0"],
            "a network cannot be trained on 0 threads; give 1 or more",
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, model, frames, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    code = main(["substrate", *arguments])
    told = capsys.readouterr()
    if "track" in arguments:  # a photo without a usable time is a row with a problem, not an end
        assert code == 0 and sentence in told.err
    else:
        assert code == 2 and sentence in told.err and told.err.count("\n") == 1


def test_a_track_has_the_decisions(model, frames, tmp_path, capsys):
    fixes = [f"2025-03-01T00:00:{s:02d}Z,-18.5,{147 + s * 1e-5:.6f}" for s in range(0, 8, 2)]
    (tmp_path / "track.csv").write_text("\n".join(["time,lat,lon", *fixes]))
    main(["substrate", "run", str(frames), "--checkpoint", str(model)])
    asked = ["track", str(frames), "--decisions", "decisions.csv", "--track", "track.csv", "--timezone", "+10:00"]
    assert main(["substrate", *asked, "--output", "out"]) == 0
    assert "0 of 6 frames have no position" in capsys.readouterr().err
    features = json.loads((tmp_path / "out" / "track.geojson").read_text())["features"]
    points = [f for f in features if f["geometry"]["type"] == "Point"]
    assert [p["properties"]["deploy"] for p in points] == [False] * 2 + [True] * 4
    assert points[5]["geometry"]["coordinates"] == pytest.approx([147 + 5e-5, -18.5])
    summary = pd.read_csv(tmp_path / "out" / "summary.csv").set_index("sequence")
    assert summary.loc["all", "deployments"] == 4 and summary.loc["s2", "nearest"] == pytest.approx(1.056, abs=0.01)


def test_observers_are_compared(tmp_path, capsys):
    rows = [(who, f"f{i}", "Deploy" if (i + k) % 3 else "No-Deploy") for k, who in enumerate("ABC") for i in range(9)]
    table = pd.DataFrame(rows, columns=["observer", "frame", "label"])
    table.iloc[:-1].to_csv(tmp_path / "o.csv", index=False)
    assert main(["substrate", "agreement", str(tmp_path / "o.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["pairs"]) == 3 and [one["missing"] for one in told["fleiss"]] == [1]
    assert [pair["missing"] for pair in told["pairs"]] == [0, 1, 1]
    assert main(["substrate", "agreement", str(tmp_path / "o.csv")]) == 0
    told = capsys.readouterr()
    assert "Fleiss' kappa" in told.out and told.err == "f8: no answer of C\n"
    twice = pd.concat([table.assign(order=order) for order in ("blind", "ordered")])
    twice[twice["observer"] != "C"].to_csv(tmp_path / "o.csv", index=False)
    assert main(["substrate", "agreement", str(tmp_path / "o.csv")]) == 0
    told = capsys.readouterr().out
    assert "Fleiss" not in told and "resample single frames" in told  # two people in two orders are two raters
    table.assign(frame="s" + table["frame"].str[1:] + "/a.jpg").to_csv(tmp_path / "o.csv", index=False)
    assert main(["substrate", "agreement", str(tmp_path / "o.csv")]) == 0
    assert "resample frames of 9 folders, each drawn whole" in capsys.readouterr().out
    for rows, sentence in (
        (table[table["observer"] == "A"], "there are answers of A only: nothing to compare; give the answers of two"),
        (table[:0], "there is no answer: nothing to compare"),
        (table.assign(frame=table["frame"].where(table.index != 2)), "o.csv:4: this row lacks its observer or its"),
    ):
        rows.to_csv(tmp_path / "o.csv", index=False)
        assert main(["substrate", "agreement", str(tmp_path / "o.csv")]) == 2
        assert sentence in capsys.readouterr().err


def test_frames_without_a_decision_are_told(model, frames, tmp_path, capsys):
    (frames / "s1" / "2.jpg").write_text("damaged")
    main(["substrate", "run", str(frames), "--checkpoint", str(model)])
    given = ["--decisions", "decisions.csv", "--output", "out"]
    assert main(["substrate", "track", str(frames), *given]) == 0
    assert "1 of 6 frames have no decision, and are left out" in capsys.readouterr().err
    assert main(["substrate", "track", str(frames / "s0"), *given]) == 2
    assert "s0 is in this file; give the folder that it is of" in capsys.readouterr().err


def test_labels_are_read_with_their_sequences(tmp_path):
    rows = [(f"s{i}/a.jpg", 0, c, "Coral", "Deploy") for i in range(3) for c in range(2)]
    table = pd.DataFrame(rows, columns=["frame", "row", "column", "label", "decision"])
    path = tmp_path / "labels.csv"
    table.to_csv(path, index=False)
    frames, labels = own.read_labels(path)
    assert frames.values.tolist() == [[f"s{i}/a.jpg", f"s{i}", "Deploy"] for i in range(3)] and len(labels) == 6
    assert own.read_labels(path, r"s(\d)")[0]["sequence"].tolist() == ["0", "1", "2"]
    assert own.read_labels(path, "label")[0]["sequence"].unique().tolist() == ["Coral"]
    for at, column, value, sentence in (
        (1, "label", "coral", r"labels.csv:3: a label is one of No-Deploy, Coral, Deploy; correct the line"),
        (2, "row", -1, r"labels.csv:4: row and column are whole numbers from 0"),
        (2, "row", 4, r"labels.csv:4: rows are numbered 0 to 3 from the top, columns 0 to 6 from the left"),
        (2, "column", 7, r"labels.csv:4: rows are numbered 0 to 3 from the top, columns 0 to 6 from the left"),
        (3, "decision", "maybe", r"labels.csv:5: a decision is Deploy or No-Deploy"),
        (1, "column", 0, r"labels.csv:3: this patch has a label already"),
        (1, "decision", "No-Deploy", "s0/a.jpg has two sequences, or two decisions"),
    ):
        bad = table.copy()
        bad.loc[at, column] = value
        bad.to_csv(path, index=False)
        with pytest.raises(ReefcoreError, match=sentence):
            own.read_labels(path)
    table[:0].to_csv(path, index=False)
    with pytest.raises(ReefcoreError, match="there is no label in this table"):
        own.read_labels(path)
    table.drop(columns="row").to_csv(path, index=False)
    with pytest.raises(ReefcoreError, match="the table lacks row"):
        own.read_labels(path)
    for rule, sentence in (("(", "no regular expression"), ("dive(7)", "finds no sequence in the name s0/a.jpg")):
        table.to_csv(path, index=False)
        with pytest.raises(ReefcoreError, match=sentence):
            own.read_labels(path, rule)


def test_own_labels_are_trained_on_by_sequence(frames, tmp_path, monkeypatch, capsys):
    training = pytest.importorskip("reefcore.substrate.training")
    table = pd.DataFrame([(f"s{i // 2}/{i}.jpg", r, c) for i in range(6) for r in range(4) for c in range(7)])
    table.columns = ["frame", "row", "column"]
    table.assign(label=np.where(table["column"] < 4, "Deploy", "Coral")).to_csv(tmp_path / "labels.csv", index=False)
    saved = []

    def run(recipe, pixels, places, labels, splits, **options):
        assert pixels.shape[1:] == (recipe.input_size, recipe.input_size, 3) and len(places) == len(labels) == 168
        told = places.merge(splits, on="frame").assign(y_true="Coral", y_pred="Deploy")
        fitted = SimpleNamespace(about={"alpha": None}, save=saved.append)
        return SimpleNamespace(predictions=told, fitted=fitted)

    monkeypatch.setattr(training, "run", run)
    output = str(tmp_path / "m.safetensors")
    given = ["train", str(frames), "--labels", str(tmp_path / "labels.csv"), "--size", "sample", "--output", output]
    assert main(["substrate", *given]) == 0
    told = capsys.readouterr().out
    assert saved == [output] and "168 labelled patches" in told and "give --alpha" in told
    assert sum(f"{part}: 1 sequences, 2 frames" in told for part in ("train", "val", "test")) == 3
