"""Frames as they come, decided one by one: from a folder, a video, a camera's address or a pipe, into a CSV.

What delivers frames, what decodes and cuts them, and the network run at the same time: where there are cores for them,
a frame costs the time of the network, not the sum. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import importlib.util
import io
import json
import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from reefcore import substrate
from reefcore.errors import ReefcoreError
from reefcore.files import write_json
from reefcore.images import ENDINGS, image_size, photo_path, photos_in
from reefcore.substrate import grid, tracks
from reefcore.tables import GRID, SUBSTRATES

logger = logging.getLogger(__name__)

COLUMNS = ["frame", "time", "decided_at", "classes", "ratio", "coral", "deploy", "seconds", "problem"]
LETTERS = np.array([name[0] for name in SUBSTRATES])  # of the column `classes`: N, C, D
CUTTERS = 2  # threads that decode and cut: one takes about as long for a large photo as the network for its patches
_SOI = b"\xff\xd8"
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")  # what ends the pixels of a JPEG: no escape, no restart
_READ = 1 << 18


class Frame(NamedTuple):
    """A frame of a source: its name, its time (aware, or None), and a path, bytes of a file, pixels, or an error."""

    name: str
    time: datetime | None
    what: Any


class Answer(NamedTuple):
    """What a model says of a frame; ``ratio`` and ``coral`` are shares of its patches in [0, 1].

    ``classes`` is int64, (n,), positions in `SUBSTRATES`; ``probability`` is float32, (n, 3).
    """

    classes: np.ndarray
    probability: np.ndarray
    ratio: float
    coral: float
    deploy: bool


def needs(package: str):
    """Import a package of the extra ``realtime``.

    Raises
    ------
    ReefcoreError
        Where it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ReefcoreError(f"this needs the package {package}", do="install reefcore[realtime]") from None


def about_of(fitted, alpha: float | None = None) -> dict:
    """Say of a checkpoint what an exported model says of itself: classes, side, rows, columns, alpha, run, notice."""
    alpha = fitted.about.get("alpha") if alpha is None else alpha
    if alpha is not None:
        substrate.least(alpha)  # refuses what is outside 0..1
    rows, columns = (int(fitted.about.get(key, n)) for key, n in zip(("rows", "columns"), GRID, strict=True))
    known = {"classes": ",".join(fitted.classes), "side": fitted.recipe.input_size, "rows": rows, "columns": columns}
    said = {key: str(fitted.about.get(key, "")) for key in ("run", "notice")}
    return known | {"alpha": "" if alpha is None else float(alpha)} | said


class Runner:
    """A patch classifier that decides frames.

    Parameters
    ----------
    model : path
        An ``.onnx`` file of `reefcore.substrate.export.write`, run by ONNX Runtime, or a ``.safetensors`` checkpoint,
        run by PyTorch. Both on the CPU.
    alpha : float, optional
        In [0, 1]; by default the model's own operating point.
    threads : int
        Of the network; decoding and cutting have two others.

    Attributes
    ----------
    about : dict of str
        What the model says of itself: classes, side, rows, columns, alpha, run, notice.
    side, rows, columns : int
    alpha : float
    fast : bool
        Patches are resized by PyTorch, in a fifth of Pillow's time: where it is installed; see `grid.patches`.

    Raises
    ------
    ReefcoreError
        Where the file is no such model, alpha is outside [0, 1] or neither given nor known, or a package is missing.
    """

    fast = importlib.util.find_spec("torch") is not None

    def __init__(self, model: str | Path, alpha: float | None = None, threads: int = 1):
        self.path = Path(model)
        if threads < 1:
            raise ReefcoreError(f"a network cannot run on {threads} threads", do="give 1 or more")
        if not self.path.is_file():
            raise ReefcoreError("there is no such model", self.path, "check the path")
        open_ = {".onnx": self._onnx, ".safetensors": self._torch}.get(self.path.suffix)
        if open_ is None:
            do = "give an .onnx file of `reefcore substrate export`, or a .safetensors checkpoint"
            raise ReefcoreError("this is no model that decides frames", self.path, do)
        self._answer, self.about = open_(threads)
        self.side, self.rows, self.columns = (int(self.about[key]) for key in ("side", "rows", "columns"))
        if alpha is None and self.about["alpha"] == "":
            raise ReefcoreError("this model has no operating point", self.path, "give alpha, such as 0.5")
        self.alpha = float(self.about["alpha"] if alpha is None else alpha)
        substrate.least(self.alpha)
        # The first frame takes longer than others: packages are loaded, memory is laid out.
        self.decide(np.zeros((self.rows, self.columns, 3), np.uint8))

    def _onnx(self, threads: int):
        onnxruntime = needs("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        # Threads that wait would otherwise spin, and take the cores from those that decode.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions share no class but this
            text = " ".join(str(error).split())[:200]
            raise ReefcoreError(f"this model cannot be opened ({text})", self.path, "export it again") from None
        about = session.get_modelmeta().custom_metadata_map
        if not {"classes", "side", "rows", "columns", "alpha"} <= set(about):
            raise ReefcoreError("this model was not exported here", self.path, "use `reefcore substrate export`")

        def answer(patches: np.ndarray, alpha: np.ndarray) -> list[np.ndarray]:
            return session.run(None, {"patches": patches, "alpha": alpha})

        return answer, about

    def _torch(self, threads: int):
        import torch

        from reefcore import fitting
        from reefcore.substrate.export import Decision

        fitted = fitting.load(self.path)
        module = Decision(fitted)

        @torch.inference_mode()
        def answer(patches: np.ndarray, alpha: np.ndarray) -> list[np.ndarray]:
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            try:
                return [out.numpy() for out in module(torch.from_numpy(patches), torch.from_numpy(alpha))]
            finally:
                torch.set_num_threads(before)

        return answer, about_of(fitted)

    def patches(self, frame) -> np.ndarray:
        """Cut a frame (a path, bytes of a file, or uint8 (height, width, 3)) into patches; see `grid.read`."""
        cut = grid.patches if isinstance(frame, np.ndarray) else grid.read
        return cut(frame, self.side, self.rows, self.columns, self.fast)

    def answer(self, patches: np.ndarray) -> Answer:
        """Decide from patches, uint8 (n, side, side, 3): the network and the rule."""
        label, probability, ratio, coral, deploy = self._answer(patches, np.array(self.alpha, np.float32))
        return Answer(label, probability, float(ratio), float(coral), bool(deploy))

    def decide(self, frame) -> Answer:
        """Decide one frame; what it may be, and what is refused, see `patches`."""
        return self.answer(self.patches(frame))


# ---------------------------------------------------------------------------------------------------- where frames come


def frames_of(source) -> Iterator[Frame]:
    """Deliver the frames of a source, one after another.

    Parameters
    ----------
    source : path, str or iterable
        A folder of photos (see `reefcore.images.photos_in`), one photo, a video, an address that FFmpeg opens
        (``rtsp://...``), a file ``.mjpeg`` or ``-`` (standard input) of JPEGs one after another, as
        ``ffmpeg -f mjpeg -`` writes; or any iterable of paths, of uint8 arrays (height, width, 3) or of `Frame`.

    Returns
    -------
    iterator of Frame
        Photos are named by their path in the folder, others by their number from 1. Times are those of the GPS or
        the camera's clock with its offset (EXIF), or a video's own clock where it says when it began. A part of a
        video that cannot be decoded is a frame that is an error.

    Raises
    ------
    ReefcoreError
        Where there is no such source, or nothing in it; before the first frame.
    """
    if not isinstance(source, str | Path):
        return (_named(item, i) for i, item in enumerate(source, start=1))
    if str(source) == "-":
        return _pipe(sys.stdin.buffer, "stdin")
    if "://" in str(source):
        return _video(str(source))
    path = Path(source)
    if path.is_dir():
        paths = [photo_path(path, *row, flat=True) for row in photos_in(path).itertuples(index=False)]
        if paths[0].parent == path and any(file.suffix.lower() in ENDINGS for file in path.glob("*/*")):
            logger.warning("%s holds photos itself, so those of its subfolders are not taken.", path)
        return (Frame(file.relative_to(path).as_posix(), None, file) for file in paths)
    if not path.is_file():
        do = "give a folder of photos, a video, an address, or - for standard input"
        raise ReefcoreError("there is no such source of frames", source, do)
    if path.suffix.lower() in ENDINGS:
        return iter([Frame(path.name, None, path)])
    return _pipe(open(path, "rb"), path.name) if path.suffix.lower() in (".mjpeg", ".mjpg") else _video(str(path))


def _named(item, number: int) -> Frame:
    if isinstance(item, Frame):
        return item
    return Frame(str(item), None, Path(item)) if isinstance(item, str | Path) else Frame(f"{number:06d}", None, item)


def _pipe(stream, name: str) -> Iterator[Frame]:
    first = next(found := _jpegs(stream), None)
    if first is None:
        raise ReefcoreError("there is no JPEG in this stream", name, "write it as `ffmpeg -i ... -f mjpeg -` does")

    def frames() -> Iterator[Frame]:
        yield Frame(f"{name}#000001", None, first)
        yield from (Frame(f"{name}#{i:06d}", None, data) for i, data in enumerate(found, start=2))

    return frames()


def _jpegs(stream) -> Iterator[bytes]:
    """Cut a stream into JPEGs by their segments: a thumbnail inside a header is not taken for a frame.

    A JPEG that is cut off ends where the next one begins, and its decoder then says that it ends early.
    """
    data = bytearray()

    def has(n: int) -> bool:
        while len(data) < n:
            if not (more := stream.read1(_READ)):
                return False
            data.extend(more)
        return True

    while True:
        while (start := data.find(_SOI)) < 0:
            del data[: max(len(data) - 1, 0)]
            if not has(len(data) + 1):
                return
        del data[:start]
        end, at = None, 2
        while end is None:
            if not has(at + 2):
                end = len(data)
            elif data[at] != 0xFF or data[at + 1] == _SOI[1]:  # no segment begins here: damaged, or the next frame
                while (end := data.find(_SOI, at)) < 0 and has(len(data) + 1):
                    pass
                end = len(data) if end < 0 else end
            elif data[at + 1] == 0xD9:
                end = at + 2
            elif not has(at + 4):
                end = len(data)
            else:
                pixels = data[at + 1] == 0xDA
                at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
                while pixels and has(at + 2):
                    if found := _MARKER.search(data, at):
                        at = found.start()
                        break
                    at = max(at, len(data) - 1)
        yield bytes(data[:end])
        del data[:end]


def _video(address: str) -> Iterator[Frame]:
    av = needs("av")
    name = address.rpartition("/")[2] or address
    try:
        container = av.open(address)
        if not container.streams.video:
            raise ReefcoreError("there is no picture in this file", address, "give a video, or a folder of photos")
    except av.error.FFmpegError as error:
        raise ReefcoreError(f"this video cannot be opened ({error.strerror})", address, "check the address") from None
    began = None
    with contextlib.suppress(ValueError):
        began = datetime.fromisoformat(container.metadata.get("creation_time", ""))

    def frames() -> Iterator[Frame]:
        number = 0
        with container:
            packets = container.demux(video=0)
            while True:
                try:
                    packet = next(packets, None)
                    if packet is None:
                        return
                    pictures = packet.decode()
                except av.error.FFmpegError as error:
                    number += 1
                    problem = ReefcoreError(f"this part of the video cannot be decoded ({error.strerror})", address)
                    yield Frame(f"{name}#{number:06d}", None, problem)
                    if not isinstance(error, av.error.InvalidDataError):
                        return
                    continue
                for picture in pictures:
                    number += 1
                    known = began is not None and began.tzinfo and picture.time is not None
                    when = began + timedelta(seconds=picture.time) if known else None
                    what = picture.to_ndarray(format="rgb24")
                    if picture.is_corrupt:  # the decoder has painted over what was lost
                        what = ReefcoreError("this frame of the video is damaged", address)
                    yield Frame(f"{name}#{number:06d}", when, what)

    return frames()


# --------------------------------------------------------------------------------------------------------- what is done


def run(
    source,
    model: str | Path | Runner,
    output: str | Path,
    alpha: float | None = None,
    threads: int = 1,
    live: bool = False,
    rate: float | None = None,
) -> dict:
    """Decide the frames of a source and write each decision as soon as it is made.

    The CSV has a line per frame: ``frame``, ``time`` (of the frame, UTC, where it is known), ``decided_at`` (UTC),
    ``classes`` (a letter per patch, row by row: N No-Deploy, C Coral, D Deploy), ``ratio`` and ``coral`` (shares of
    patches), ``deploy`` (true, false), ``seconds`` (from when the frame was there to its decision) and ``problem``. A
    frame that cannot be decoded, that ends early or is smaller than the grid has a problem and no decision; one higher
    than wide has both. What model, alpha, grid and source they are of is in ``<output>.json``.

    A run that was interrupted goes on: photos and frames of a video that are in the file are not done again, and a last
    line that is not whole is. Frames of pipes, cameras and live runs have no lasting names: they are added, with ``@``
    and how many were there before at the end of their names.

    Parameters
    ----------
    source : see `frames_of`
    model, alpha, threads : see `Runner`
    output : path
        Of the CSV.
    live : bool
        Frames come whether or not the last one is decided: the newest is taken, and others that wait are dropped and
        counted. Otherwise every frame is decided, and the source waits.
    rate : float, optional
        With `live`, frames per second at which the source is played: photos and videos need it, cameras do not.

    Returns
    -------
    dict
        ``output``, ``alpha``, ``frames`` (with a line, now), ``deployments``, ``problems`` (without a decision),
        ``portrait`` (higher than wide), ``dropped``, ``earlier`` (in the file before), ``seconds``,
        ``frames_per_second`` (decided), and medians per decided frame: ``cut_s`` (decoding and cutting), ``network_s``
        and ``latency_s``.

    Raises
    ------
    ReefcoreError
        As `frames_of` and `Runner` do, or where the output is of another model, alpha, grid, folder or video, or of
        another program.
    """
    kept = isinstance(source, str | Path) and str(source) != "-" and "://" not in str(source)
    if rate is not None and not (live and rate > 0):
        raise ReefcoreError(f"a rate of {rate:g} frames per second", do="give one above 0, and only for a live run")
    if live and rate is None and kept:
        raise ReefcoreError("these frames do not come by themselves", source, "say at which rate a live run plays them")
    frames = frames_of(source)
    runner = model if isinstance(model, Runner) else Runner(model, alpha, threads)
    done = _earlier(Path(output), runner, str(Path(source).resolve()) if kept else None)

    def left() -> Iterator[Frame]:
        for frame in frames:
            lasting = not live and (kept or isinstance(frame.what, Path))
            if not (lasting and frame.name in done):
                yield frame if lasting or not done else frame._replace(name=f"{frame.name}@{len(done)}")

    began, dropped, rows = time.perf_counter(), [0], []
    came = _ahead(_arriving(left(), rate), 1 if live else CUTTERS, dropped if live else None)
    with open(output, "a", newline="", encoding="utf-8") as file, ThreadPoolExecutor(CUTTERS) as pool:
        writer = csv.writer(file)
        try:
            for ready in _ahead((pool.submit(_cut, runner, *item) for item in came), 1):
                name, when, at, patches, cut_s, problem = ready.result()
                start = time.perf_counter()
                answer = None if patches is None else runner.answer(patches)
                end = time.perf_counter()
                writer.writerow([name, *_columns(when, answer), f"{end - at:.4f}", problem])
                file.flush()  # a run that is killed loses the frame in hand, no more
                took = (np.nan,) * 3 if answer is None else (cut_s, end - start, end - at)
                rows.append((answer is not None, bool(problem), answer is not None and answer.deploy, *took))
        except KeyboardInterrupt:
            if not live:  # which has no other end
                raise
    seconds = time.perf_counter() - began
    made = pd.DataFrame(rows, columns=["decided", "problem", "deploy", "cut_s", "network_s", "latency_s"])
    said = {"output": str(output), "alpha": runner.alpha, "frames": len(made), "deployments": int(made["deploy"].sum())}
    said |= {"problems": int((~made["decided"]).sum()), "portrait": int((made["decided"] & made["problem"]).sum())}
    said |= {"dropped": dropped[0], "earlier": len(done), "seconds": seconds}
    medians = made[["cut_s", "network_s", "latency_s"]].median().to_dict()
    return said | {"frames_per_second": made["decided"].sum() / seconds} | medians


def read(path: str | Path) -> pd.DataFrame:
    """Read the decisions that `run` wrote; a last line that is not whole is left out.

    Returns
    -------
    DataFrame
        The columns of `run`, ``time`` and ``decided_at`` as datetime64[us, UTC], ``deploy`` as boolean (missing where
        there is a problem).
    """
    try:
        text = Path(path).read_bytes().decode("utf-8")
        table = pd.read_csv(io.StringIO(text[: text.rfind("\n") + 1]), dtype="str", keep_default_na=False)
        if list(table) != COLUMNS:
            raise ValueError("other columns")
        for name in ("ratio", "coral", "seconds"):
            table[name] = pd.to_numeric(table[name].replace("", None)).astype(float)
        for name in ("time", "decided_at"):
            table[name] = pd.to_datetime(table[name].replace("", None), utc=True, format="ISO8601").astype(tracks.UTC)
    except FileNotFoundError:
        raise ReefcoreError("there are no such decisions", path, "check the path") from None
    except (OSError, ValueError) as error:
        raise ReefcoreError(f"these are no decisions of `reefcore substrate run` ({error})", path) from None
    return table.assign(deploy=table["deploy"].map({"true": True, "false": False}).astype("boolean"))


def by_patch(decisions: pd.DataFrame, columns: int = GRID[1]) -> pd.DataFrame:
    """Give each patch of decided frames its own row: ``frame``, ``row``, ``column`` (from 0), ``y_pred``."""
    known = decisions.loc[decisions["classes"] != "", ["frame", "classes"]]
    told = known.assign(y_pred=known["classes"].map(list)).explode("y_pred", ignore_index=True)
    place = told.groupby("frame", sort=False).cumcount()
    told = told.assign(row=place // columns, column=place % columns)
    told["y_pred"] = told["y_pred"].map({name[0]: name for name in SUBSTRATES}).astype("str")
    return told[["frame", "row", "column", "y_pred"]]


def timings(
    model: str | Path, frames: Iterable[Path], threads: Iterable[int] = (1, 2), repeats: int = 3
) -> pd.DataFrame:
    """Measure how the parts of a decision share the time of a frame, one part after another.

    Parameters
    ----------
    model : path
        An exported model.
    frames : iterable of path
    threads : iterable of int
        Of the network; decoding and cutting have one in any case.
    repeats : int
        Each frame is done so often, in turns, and its shortest time counts, so that other work of the machine disturbs
        less.

    Returns
    -------
    DataFrame
        ``threads``, ``part`` (``decode``, ``grid``, ``network``, ``decision``), ``seconds`` (per frame, mean over the
        frames), ``share`` (of all four).
    """
    onnxruntime = needs("onnxruntime")
    from reefcore.substrate.export import tail

    frames, rows = list(frames), []
    for n in threads:
        runner, options = Runner(model, 0.5, n), onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = n, 3
        rule = onnxruntime.InferenceSession(tail(model), options, providers=["CPUExecutionProvider"])
        name, logits = rule.get_inputs()[0].name, np.zeros((runner.rows * runner.columns, len(SUBSTRATES)), np.float32)
        given = {name: logits, "alpha": np.array(0.5, np.float32)}
        taken = np.full((len(frames), 4), np.inf)
        for _ in range(repeats):
            for i, frame in enumerate(frames):
                clock = [time.perf_counter()]
                pixels, size = grid.decoded(frame, runner.side, runner.rows, runner.columns)
                clock.append(time.perf_counter())
                patches = grid.cut(pixels, size, runner.side, runner.rows, runner.columns, runner.fast)
                clock.append(time.perf_counter())
                runner.answer(patches)
                clock.append(time.perf_counter())
                rule.run(None, given)
                clock.append(time.perf_counter())
                taken[i] = np.minimum(taken[i], np.diff(clock))
        decode_s, cut_s, whole_s, rule_s = taken.mean(axis=0)
        parts = {"decode": decode_s, "grid": cut_s, "network": whole_s - rule_s, "decision": rule_s}
        total = sum(parts.values())
        rows += [(n, part, seconds, seconds / total) for part, seconds in parts.items()]
    return pd.DataFrame(rows, columns=["threads", "part", "seconds", "share"])


def _arriving(frames: Iterator[Frame], rate: float | None) -> Iterator[tuple[Frame, float]]:
    """Say when each frame was there; at a rate, each comes at its time."""
    began = time.perf_counter()
    for i, frame in enumerate(frames):
        if rate:
            time.sleep(max(began + i / rate - time.perf_counter(), 0))
        yield frame, time.perf_counter()


def _cut(runner: Runner, frame: Frame, at: float) -> tuple:
    """Decode and cut a frame, or say why that cannot be."""
    start, patches, problem, when = time.perf_counter(), None, "", frame.time
    try:
        if isinstance(frame.what, ReefcoreError):
            raise frame.what
        patches = runner.patches(frame.what)
        pixels = isinstance(frame.what, np.ndarray)
        problem = grid.portrait(*(frame.what.shape[:2] if pixels else image_size(frame.what)[::-1])) or ""
        if isinstance(frame.what, Path):
            when = tracks.taken(frame.what, None)[0]
    except ReefcoreError as error:
        problem = error.what
    return frame.name, when, at, patches, time.perf_counter() - start, problem


def _columns(when, answer: Answer | None) -> list[str]:
    times = [
        "" if pd.isna(at) else at.astimezone(UTC).isoformat(timespec="milliseconds") for at in (when, datetime.now(UTC))
    ]
    if answer is None:
        return times + [""] * 4
    shares = f"{answer.ratio:.6g}", f"{answer.coral:.6g}"
    return [*times, "".join(LETTERS[answer.classes]), *shares, str(answer.deploy).lower()]


def _earlier(output: Path, runner: Runner, source: str | None) -> set[str]:
    """Prepare the file for more lines, and say which frames it has."""
    with open(runner.path, "rb") as file:
        model = hashlib.file_digest(file, "sha256").hexdigest()
    mine = {"model": model, "alpha": runner.alpha, "rows": runner.rows, "columns": runner.columns}
    mine |= {"frames": source} if source else {}  # in another folder, a frame of the same name is another frame
    beside = output.with_name(f"{output.name}.json")
    if not output.exists() or not output.stat().st_size:
        write_json(mine | {key: runner.about[key] for key in ("run", "notice")}, beside)
        output.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
        return set()
    do = "name another file, or remove this one"
    try:
        theirs = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ReefcoreError("this file is there already, and not known to be of this model", output, do) from None
    if other := [key for key in mine if theirs.get(key) != mine[key]]:
        was = f"{other[0]} {theirs.get(other[0])}" if other[0] != "model" else "another model"
        raise ReefcoreError(f"this file holds decisions of {was}", output, do)
    whole = output.read_bytes()
    with open(output, "r+b") as file:
        file.truncate(whole.rfind(b"\n") + 1)  # the line that a killed run was writing
    return set(read(output)["frame"])


def _ahead(items: Iterator, size: int, dropped: list[int] | None = None) -> Iterator:
    """Run an iterator in a thread of its own, so many items ahead; with a count to add to, older items are dropped."""
    waiting: queue.Queue = queue.Queue(size)
    over, end = threading.Event(), object()

    def put(item, last: bool = False) -> None:
        while not over.is_set():
            try:
                return waiting.put(item, timeout=0.1 if last or dropped is None else 0)
            except queue.Full:
                if dropped is not None and not last:
                    with contextlib.suppress(queue.Empty):
                        waiting.get_nowait()
                        dropped[0] += 1

    def work() -> None:
        try:
            for item in items:
                put((item, None))
                if over.is_set():
                    return
            put((end, None), last=True)
        except BaseException as error:  # is raised where the items are used
            put((end, error), last=True)

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        over.set()
