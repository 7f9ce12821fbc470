"""Frames from folders, videos and pipes are decided one by one, and what goes wrong on the way is a row."""

import io
import json
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from reefcore.errors import ReefcoreError
from reefcore.figures import kept_up
from reefcore.substrate import decide, grid, stream

SIDE = 4


def frame(seed: int, height: int = 44, width: int = 70) -> np.ndarray:
    """A frame of grey cells: white ones are Deploy, grey ones Coral (see `Bright`)."""
    rng, out = np.random.default_rng(seed), np.zeros((height, width, 3), np.uint8)
    for top, left, bottom, right in grid.cells(height, width):
        out[top:bottom, left:right] = rng.choice([10, 120, 240])
    return out


def jpeg(pixels: np.ndarray, **options) -> bytes:
    stream_ = io.BytesIO()
    Image.fromarray(pixels).save(stream_, "JPEG", quality=95, **options)
    return stream_.getvalue()


class Bright(stream.Runner):
    """A runner whose network is the brightness of a patch."""

    def __init__(self, path, alpha=0.3, slow=0.0):
        path.touch()
        self.path, self.alpha, self.side, self.rows, self.columns = path, alpha, SIDE, 4, 7
        self.about, self.slow = {"run": "bright", "notice": "A test."}, slow

    def _answer(self, patches, alpha):
        time.sleep(self.slow)
        label = np.digitize(patches.mean(axis=(1, 2, 3)), [64, 180])
        ratio = np.float32((label == 2).mean())
        return label, np.eye(3, dtype=np.float32)[label], ratio, np.float32((label == 1).mean()), ratio > alpha


@pytest.fixture
def runner(tmp_path):
    return Bright(tmp_path / "bright.onnx")


@pytest.fixture
def folder(tmp_path):
    """Two sequences of three good frames each."""
    for i in range(6):
        path = tmp_path / "frames" / f"s{i // 3}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(frame(i)))
    return tmp_path / "frames"


def test_a_folder_is_decided_in_order_as_the_rule_says(runner, folder, tmp_path):
    report = stream.run(folder, runner, tmp_path / "out.csv")
    table = stream.read(tmp_path / "out.csv")
    assert table["frame"].tolist() == [f"s{i // 3}/{i}.jpg" for i in range(6)]
    for i, row in enumerate(table.itertuples()):
        codes = ["NCD".index(letter) for letter in row.classes]
        truth = np.digitize(grid.patches(frame(i), SIDE).mean(axis=(1, 2, 3)), [64, 180])
        assert codes == truth.tolist() and row.deploy == decide(codes, 0.3)
        assert row.ratio == pytest.approx(codes.count(2) / 28, abs=1e-5)
        assert row.coral == pytest.approx(codes.count(1) / 28, abs=1e-5)
    assert 0 < report["deployments"] == table["deploy"].sum() < report["frames"] == 6
    assert table["decided_at"].is_monotonic_increasing and str(table["decided_at"].dt.tz) == "UTC"
    assert report["problems"] == report["dropped"] == report["earlier"] == 0


def test_what_cannot_be_decided_is_a_row_with_a_problem_and_not_an_end(runner, folder, tmp_path):
    (folder / "s0" / "1.jpg").write_bytes(b"no photo")
    whole = (folder / "s0" / "2.jpg").read_bytes()
    (folder / "s0" / "2.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "s1" / "3.jpg").write_bytes(jpeg(frame(3)[:3]))
    (folder / "s1" / "4.jpg").write_bytes(jpeg(frame(4).transpose(1, 0, 2)))
    report = stream.run(folder, runner, tmp_path / "out.csv")
    table = stream.read(tmp_path / "out.csv").set_index("frame")
    problem = table["problem"]
    assert "not an image" in problem["s0/1.jpg"] and "ends early" in problem["s0/2.jpg"]
    assert "smaller than the grid" in problem["s1/3.jpg"] and "stored turned" in problem["s1/4.jpg"]
    assert table["deploy"].isna().tolist() == [False, True, True, True, False, False]
    assert (report["frames"], report["problems"], report["portrait"]) == (6, 3, 1)


def test_a_run_that_was_killed_goes_on_where_it_was(runner, folder, tmp_path, monkeypatch, caplog):
    output = tmp_path / "out.csv"
    stream.run(folder, runner, output)
    whole = output.read_text()
    lines = whole.splitlines(keepends=True)
    output.write_text("".join(lines[:4]) + lines[4][: len(lines[4]) // 2])
    assert len(stream.read(output)) == 3
    answered = []
    monkeypatch.setattr(Bright, "answer", lambda self, x: answered.append(1) or stream.Runner.answer(self, x))
    report = stream.run(folder, runner, output)
    assert (report["earlier"], report["frames"], len(answered)) == (3, 3, 3)
    again = stream.read(output)
    assert again["frame"].tolist() == [f"s{i // 3}/{i}.jpg" for i in range(6)]
    assert output.read_text().startswith("".join(lines[:4]))
    assert stream.run(folder, runner, output)["frames"] == 0 and not caplog.text
    (folder / "top.jpg").write_bytes(jpeg(frame(7)))
    assert [one.name for one in stream.frames_of(folder)] == ["top.jpg"]
    assert "so those of its subfolders are not taken" in caplog.text
    named = [stream.Frame(f"s1/{i}.jpg", None, folder / "s1" / f"{i}.jpg") for i in (3, 4)]
    assert stream.run(named, runner, output)["frames"] == 0
    assert stream.run([frame(3)], runner, output)["frames"] == 1  # an array has a number, not a name
    assert stream.read(output)["frame"].iloc[-1] == "000001@6"
    table = stream.by_patch(again)
    assert len(table) == 6 * 28 and set(table["y_pred"]) == {"Deploy", "Coral", "No-Deploy"}
    assert table.loc[30, ["frame", "row", "column"]].tolist() == ["s0/1.jpg", 0, 2]


def test_decisions_of_another_alpha_model_or_program_are_not_added_to(runner, folder, tmp_path):
    output = tmp_path / "out.csv"
    stream.run(folder, runner, output)
    runner.alpha = 0.4
    with pytest.raises(ReefcoreError, match=r"holds decisions of alpha 0.3; name another file"):
        stream.run(folder, runner, output)
    runner.alpha = 0.3
    shutil.copytree(folder, tmp_path / "dive 2")  # frames of the same names
    with pytest.raises(ReefcoreError, match=rf"holds decisions of frames {folder}; name another file"):
        stream.run(tmp_path / "dive 2", runner, output)
    runner.path.write_text("other weights")
    with pytest.raises(ReefcoreError, match="holds decisions of another model"):
        stream.run(folder, runner, output)
    (tmp_path / "mine.csv").write_text("precious\n")
    with pytest.raises(ReefcoreError, match="is there already"):
        stream.run(folder, runner, tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv").read_text() == "precious\n"
    assert json.loads((tmp_path / "out.csv.json").read_text())["notice"] == "A test."


def test_a_live_run_takes_the_newest_frame_and_counts_what_it_drops(tmp_path):
    slow = Bright(tmp_path / "slow.onnx", slow=0.04)
    frames = [frame(i) for i in range(40)]
    report = stream.run(frames, slow, tmp_path / "live.csv", live=True, rate=200)
    table = stream.read(tmp_path / "live.csv")
    assert report["dropped"] > 10 and report["frames"] + report["dropped"] == 40
    numbers = table["frame"].astype(int)
    assert numbers.is_monotonic_increasing and numbers.iloc[-1] == 40 and numbers.diff().max() > 1
    assert report["latency_s"] < 5 * 0.04  # what waits is new: lateness does not add up
    drawn = kept_up(table.assign(number=numbers - 1), 40, 200).axes[0]
    assert [len(line.get_xdata()) for line in drawn.lines] == [report["frames"], report["dropped"]]
    easy = stream.run(frames[:5], Bright(tmp_path / "f.onnx"), tmp_path / "easy.csv", live=True, rate=50)
    assert (easy["frames"], easy["dropped"]) == (5, 0)


def test_without_live_every_frame_is_decided_however_slow(tmp_path):
    slow = Bright(tmp_path / "slow.onnx", slow=0.005)
    report = stream.run((frame(i) for i in range(20)), slow, tmp_path / "all.csv")
    assert (report["frames"], report["dropped"]) == (20, 0)


def test_decoding_goes_on_while_the_network_works(tmp_path, monkeypatch):
    both = Bright(tmp_path / "b.onnx", slow=0.02)
    monkeypatch.setattr(Bright, "patches", lambda self, x: time.sleep(0.015) or grid.patches(x, SIDE))
    report = stream.run([frame(i) for i in range(20)], both, tmp_path / "out.csv")
    assert report["seconds"] < 20 * 0.035 * 0.9


def test_jpegs_in_a_pipe_are_told_apart_by_their_segments(tmp_path, monkeypatch, runner):
    exif = Image.Exif()
    thumbnail = jpeg(frame(9, 20, 30))
    exif[0x927C] = thumbnail  # a header that holds a whole JPEG
    good = [jpeg(frame(0), exif=exif), jpeg(frame(1), progressive=True), jpeg(frame(2), restart_marker_blocks=2)]
    assert thumbnail in good[0] and b"\xff\xd0" in good[2]
    cut = jpeg(frame(3))[:-200]
    data = b"junk" + good[0] + b"\0\0" + good[1] + cut + good[2] + cut

    class Slow(io.BytesIO):
        def read1(self, n=-1):
            return super().read1(61)

    assert list(stream._jpegs(Slow(data))) == [good[0], good[1], cut, good[2], cut]
    assert list(stream._jpegs(io.BytesIO(data))) == list(stream._jpegs(Slow(data)))
    monkeypatch.setattr(stream.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    report = stream.run("-", runner, tmp_path / "pipe.csv")
    table = stream.read(tmp_path / "pipe.csv")
    assert (report["frames"], report["problems"]) == (5, 2)
    assert table["problem"].str.contains("ends early|cannot be decoded").tolist() == [False, False, True, False, True]
    # A pipe has no lasting names: what comes later is added.
    monkeypatch.setattr(stream.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(good[1])))
    assert stream.run("-", runner, tmp_path / "pipe.csv")["frames"] == 1
    assert stream.read(tmp_path / "pipe.csv")["frame"].is_unique


@pytest.fixture
def video(tmp_path):
    av = pytest.importorskip("av")
    path = tmp_path / "dive.mp4"
    with av.open(path, "w") as container:
        container.metadata["creation_time"] = "2025-03-01T00:15:30Z"
        out = container.add_stream("mpeg4", rate=10)
        out.width, out.height, out.gop_size = 140, 88, 1
        for i in range(6):
            picture = av.VideoFrame.from_ndarray(frame(i, 88, 140), format="rgb24")
            container.mux(out.encode(picture))
        container.mux(out.encode())
    return path


def test_a_video_has_numbers_and_its_own_clock(video, runner, tmp_path):
    report = stream.run(video, runner, tmp_path / "out.csv")
    table = stream.read(tmp_path / "out.csv")
    assert report["frames"] == 6 and table["frame"].tolist()[0] == "dive.mp4#000001"
    assert (table["time"] - table["time"][0]).dt.total_seconds().tolist() == pytest.approx([i / 10 for i in range(6)])
    assert str(table["time"][0]) == "2025-03-01 00:15:30+00:00"
    output = tmp_path / "out.csv"
    output.write_text("".join(output.read_text().splitlines(keepends=True)[:3]))
    again = stream.run(video, runner, output)
    assert (again["earlier"], again["frames"]) == (2, 4)


def test_a_damaged_video_loses_frames_and_goes_on(video, runner, tmp_path):
    data = bytearray(video.read_bytes())
    starts = [i for i in range(len(data) - 4) if data[i : i + 4] == b"\0\0\1\xb6"]  # a picture of MPEG-4
    data[starts[2] : starts[2] + 8] = b"\xff" * 8
    video.write_bytes(data)
    report = stream.run(video, runner, tmp_path / "out.csv")
    assert report["frames"] >= 5 and report["frames"] - report["problems"] >= 4


def test_a_picture_that_a_decoder_painted_over_is_not_decided_on(video, runner, tmp_path):
    data = bytearray(video.read_bytes())
    start = [i for i in range(len(data) - 4) if data[i : i + 4] == b"\0\0\1\xb6"][2]
    data[start + 300 : start + 400] = b"\x5a" * 100
    video.write_bytes(data)
    stream.run(video, runner, tmp_path / "out.csv")
    table = stream.read(tmp_path / "out.csv")
    assert table["problem"].tolist() == ["", "", "this frame of the video is damaged", "", "", ""]
    assert table["deploy"].isna().tolist() == [False, False, True, False, False, False]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("nothing", "there is no such source of frames; give a folder of photos"),
        ("empty", "there is no photo in this folder"),
        ("text.mp4", "this video cannot be opened"),
        ("text.mjpeg", "there is no JPEG in this stream"),
    ],
)
def test_a_source_that_is_none_is_refused_at_once(source, sentence, runner, tmp_path, monkeypatch):
    pytest.importorskip("av")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("text.mp4", "text.mjpeg"):
        (tmp_path / name).write_text("no frames")
    with pytest.raises(ReefcoreError, match=sentence):
        stream.run(source, runner, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_rates_are_for_live_runs_of_what_does_not_come_by_itself(runner, folder, tmp_path):
    for options in ({"rate": 5}, {"live": True, "rate": 0}, {"live": True}):
        with pytest.raises(ReefcoreError, match="rate"):
            stream.run(folder, runner, tmp_path / "out.csv", **options)


def test_files_that_are_no_decisions_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ReefcoreError, match="no decisions"):
        stream.read(tmp_path / "a.csv")
    with pytest.raises(ReefcoreError, match="there are no such decisions"):
        stream.read(tmp_path / "b.csv")


def test_a_missing_package_is_one_sentence(monkeypatch):
    with pytest.raises(ReefcoreError, match=r"^this needs the package surely_not; install reefcore\[realtime\]\.$"):
        stream.needs("surely_not")
