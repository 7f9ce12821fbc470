"""The exported graph is the model and the rule: same classes, same probabilities, same decisions as PyTorch."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from reefcore import figures, fitting, learners  # noqa: E402
from reefcore.cli import main  # noqa: E402
from reefcore.errors import ReefcoreError  # noqa: E402
from reefcore.substrate import decide, export, grid, least, stream, training  # noqa: E402
from reefcore.tables import SUBSTRATES  # noqa: E402

SIDE, OUT = 32, ["ratio", "coral", "deploy"]
REAL = [folder / "shared" / "real" / "reef_photos" for folder in Path(__file__).resolve().parents]
PHOTOS = next((folder for folder in REAL if folder.is_dir()), None)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def fitted(model, classes=SUBSTRATES, **about):
    recipe = SimpleNamespace(mean=MEAN, std=STD, input_size=SIDE)
    return SimpleNamespace(learner=model, classes=list(classes), recipe=recipe, about=about)


class Network(torch.nn.Module):
    """A small convolutional network with the layers of the real ones."""

    def __init__(self, seed=0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            layers = torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.BatchNorm2d(16), torch.nn.Hardswish()
            more = torch.nn.Conv2d(16, 16, 3, 2, 1, groups=16), torch.nn.Conv2d(16, 24, 1), torch.nn.ReLU()
            pool = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
            self.layers = torch.nn.Sequential(*layers, *more, *pool, torch.nn.Linear(24, 3))
            self.layers[-1].weight.data *= 8

    def logits(self, x):
        return self.layers(x)


@pytest.fixture(scope="module")
def model():
    return fitted(Network(), rows=4, columns=7, alpha=0.4, run="small", notice="A test.")


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return export.write(model, tmp_path_factory.mktemp("onnx") / "model.onnx")


def test_the_graph_says_what_it_takes_and_gives(path, model, tmp_path, capfd):
    again = export.write(model, tmp_path / "again.onnx")
    assert again.read_bytes() == path.read_bytes() and capfd.readouterr() == ("", "")
    session = onnxruntime.InferenceSession(path)
    told = {value.name: (value.type, value.shape) for value in (*session.get_inputs(), *session.get_outputs())}
    assert told["patches"] == ("tensor(uint8)", ["n", SIDE, SIDE, 3]) and told["alpha"] == ("tensor(float)", [])
    assert list(told) == [*export.INPUTS, *export.OUTPUTS]
    assert told["class"][0] == "tensor(int64)" and told["deploy"] == ("tensor(bool)", [])
    about = session.get_modelmeta().custom_metadata_map
    assert about == {
        "classes": "No-Deploy,Coral,Deploy", "side": "32", "rows": "4", "columns": "7", "alpha": "0.4",
        "run": "small", "notice": "A test.", "precision": "float32",
    }  # fmt: skip
    onnx.checker.check_model(onnx.load(path))
    assert str(Path.cwd()).encode() not in path.read_bytes()


@pytest.mark.parametrize("size", [(44, 70), (97, 131), (203, 119), (320, 560), (4, 7)])
def test_it_agrees_with_pytorch_on_random_frames_of_any_size(path, model, size):
    frames = [np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8) for seed in range(3)]
    found = export.check(model, path, frames)
    assert found["difference"] < 1e-4 and found["classes"] and found["decisions"]
    assert (found["frames"], found["patches"]) == (3, 84)


@pytest.mark.skipif(PHOTOS is None, reason="the real photos are not here")
def test_it_agrees_with_pytorch_on_real_photos(path, model):
    photos = sorted(file for file in PHOTOS.iterdir() if file.suffix.lower() in (".jpg", ".png"))
    photos = [file for file in photos if "truncated" not in file.name]
    found = export.check(model, path, photos)
    assert found["difference"] < 1e-4 and found["classes"] and found["frames"] == len(photos) > 2


def test_a_checkpoint_and_its_export_decide_alike(tmp_path, capsys, monkeypatch):
    recipe = training.recipe("resnet18", "sample", {"input_size": SIDE})
    learner = learners.build(recipe, list(SUBSTRATES), counts=[1, 1, 1]).eval()
    about = {"rows": 3, "columns": 5, "alpha": 0.2, "run": "r", "notice": "A test."}
    made = fitting.Fitted(learner, recipe, pd.DataFrame(columns=fitting.HISTORY), 0, SIDE, about)
    checkpoint, exported = made.save(tmp_path / "m.safetensors"), tmp_path / "m.onnx"
    assert main(["substrate", "export", str(checkpoint), str(exported)]) == 0
    assert capsys.readouterr().out == f"{exported}\n"
    frames = [np.random.default_rng(i).integers(0, 256, (95, 133 - 60 * i, 3), dtype=np.uint8) for i in range(2)]
    threads, runners = torch.get_num_threads(), [stream.Runner(path) for path in (checkpoint, exported)]
    for frame in frames:
        ours, theirs = (runner.decide(frame) for runner in runners)
        assert np.abs(ours.probability - theirs.probability).max() < 1e-4 and ours.ratio == theirs.ratio
        assert (ours.classes == theirs.classes).all() and len(ours.classes) == 15 and ours.deploy == theirs.deploy
    assert runners[0].alpha == runners[1].alpha == 0.2 and torch.get_num_threads() == threads
    folder = tmp_path / "frames"
    folder.mkdir()
    Image.fromarray(frames[0]).save(folder / "a.png")
    asked = []
    monkeypatch.setattr(export, "quantise", lambda path, out, patches: asked.append(patches))
    assert main(["substrate", "export", str(checkpoint), str(exported), "--int8", "--frames", str(folder)]) == 0
    assert (asked[0] == grid.patches(frames[0], SIDE, 3, 5, fast=True)).all()
    (folder / "a.png").write_text("damaged")
    other = tmp_path / "int8.onnx"  # float32 must not be left under this name
    assert main(["substrate", "export", str(checkpoint), str(other), "--int8", "--frames", str(folder)]) == 2
    assert "a.png: this is not an image that can be read" in capsys.readouterr().err and not other.exists()


def test_a_check_would_notice_another_model(path):
    frames = [np.random.default_rng(0).integers(0, 256, (90, 90, 3), dtype=np.uint8)]
    assert export.check(fitted(Network(seed=1)), path, frames)["difference"] > 1e-3


def test_the_decision_in_the_graph_is_the_rule_for_every_count_and_alpha(path):
    session = onnxruntime.InferenceSession(export.tail(path))
    logits = next(value.name for value in session.get_inputs() if value.name != "alpha")
    for n in range(1, 61):
        others = [i / 100 for i in range(101)] if n in (25, 28) else [0.0, 0.5, 0.6, 0.7, 1.0]
        for k in range(n + 1):
            codes = np.r_[np.full(k, 2), np.arange(n - k) % 2]
            given = {logits: np.eye(3, dtype=np.float32)[codes]}
            for alpha in {*others, max(k - 1, 0) / n, k / n, min(k + 1, n) / n, k % 29 / 28}:
                ratio, coral, deploy = session.run(OUT, given | {"alpha": np.array(alpha, np.float32)})
                assert bool(deploy) == (k >= least(alpha, n)), (n, k, alpha)
            assert ratio == np.float32(k / n) and coral == np.float32((n - k) // 2 / n)
            assert bool(deploy) == decide(codes, alpha)


def test_int8_keeps_the_interface_and_most_of_the_answers(path, model, tmp_path, capfd):
    patches = np.random.default_rng(0).integers(0, 256, (84, SIDE, SIDE, 3), dtype=np.uint8)
    patches = (patches * np.linspace(0.2, 1, 84)[:, None, None, None]).astype(np.uint8)
    small = export.quantise(path, tmp_path / "int8.onnx", patches)
    assert capfd.readouterr() == ("", "")
    whole, rounded = stream.Runner(path), stream.Runner(small)
    assert rounded.about == whole.about | {"precision": "int8"} and rounded.alpha == 0.4
    a, b = whole.answer(patches), rounded.answer(patches)
    assert 0 < np.abs(a.probability - b.probability).max() < 0.2 and (a.classes == b.classes).mean() > 0.9
    kinds = {node.op_type for node in onnx.load(small).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    with pytest.raises(ReefcoreError, match="no patch to calibrate on"):
        export.quantise(path, tmp_path / "none.onnx", patches[:0])


def test_the_parts_of_a_frame_are_timed(path, tmp_path):
    Image.fromarray(np.zeros((300, 500, 3), np.uint8)).save(tmp_path / "a.jpg")
    times = stream.timings(path, [tmp_path / "a.jpg"] * 2, (1, 2), 2)
    assert times["part"].tolist() == ["decode", "grid", "network", "decision"] * 2
    assert (times["seconds"] > 0).all() and times.groupby("threads")["share"].sum().tolist() == pytest.approx([1, 1])
    bars = figures.time_shares(times).axes[0]
    widths = sum(bar.get_width() for bar in bars.patches)
    assert widths == pytest.approx(1000 * times["seconds"].sum())
    told = export.described(path).set_index("name")
    assert told.loc["patches"].tolist() == ["input", "uint8", f"n x {SIDE} x {SIDE} x 3"]
    assert told.loc["deploy"].tolist() == ["output", "bool", "one number"]


def test_what_cannot_be_exported_or_run_is_one_sentence(model, tmp_path, path):
    for wrong, sentence in (
        (lambda: export.write(fitted(Network(), ["Deploy", "No-Deploy"]), tmp_path / "a.onnx"), "knows Deploy, No-D"),
        (lambda: export.write(model, tmp_path / "a.pt"), "end its name in .onnx"),
        (lambda: export.write(model, tmp_path / "a.onnx", alpha=1.2), "alpha=1.2 is no share"),
        (lambda: stream.Runner(tmp_path / "none.onnx"), "there is no such model"),
        (lambda: stream.Runner(path, alpha=-0.1), "alpha=-0.1 is no share"),
        (lambda: stream.Runner(path, threads=0), "0 threads; give 1 or more"),
    ):
        with pytest.raises(ReefcoreError, match=sentence):
            wrong()
    without = export.write(fitted(Network()), tmp_path / "without.onnx")
    with pytest.raises(ReefcoreError, match="has no operating point; give alpha"):
        stream.Runner(without)
    assert stream.Runner(without, alpha=0.6).alpha == 0.6
    for name, text, sentence in (
        ("bad.onnx", "no model", "this model cannot be opened"),
        ("a.pt", "", "this is no model that decides frames"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ReefcoreError, match=sentence):
            stream.Runner(tmp_path / name)
    graph = onnx.load(path)
    del graph.metadata_props[:]
    onnx.save(graph, tmp_path / "foreign.onnx")
    with pytest.raises(ReefcoreError, match="was not exported here"):
        stream.Runner(tmp_path / "foreign.onnx")
