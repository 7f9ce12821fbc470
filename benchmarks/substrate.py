"""Real time: what a frame costs from its file to the decision, on one and on two threads.

Frames are of the authors' camera (5312 x 3040 pixels, with more and with less in its JPEG), of a full-HD video, and as
small as those of the sample.

The network is MobileNetV3-small with the authors' head, untrained (weights do not change its time), at 256 pixels: 28
patches a frame. ``python -m benchmarks.substrate`` prints how decoding, grid, network and decision share the time, and
how much longer a frame takes from end to end than the network alone.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import Row, photo, seconds

FRAMES = 2  # different ones, again and again
SIZES = ((5312, 3040, 88), (5312, 3040, 65), (1920, 1080, 88), (672, 384, 88))  # width, height, quality of the JPEG


def frames(folder: Path) -> list[tuple[str, list[Path]]]:
    """Write frames like photographs, structure at every scale and a sensor's noise: of each size, its files."""
    from PIL import Image

    found = []
    for number, (width, height, quality) in enumerate(SIZES):
        paths = [folder / f"{number}-{seed}.jpg" for seed in range(FRAMES)]
        for seed, path in enumerate(paths):
            smooth = np.asarray(Image.open(photo(folder / "smooth.jpg", width, height, seed))).astype(np.float32)
            noise = np.random.default_rng(seed).normal(0, 6, smooth.shape[:2]).astype(np.float32)
            noisy = np.clip(smooth + noise[..., None], 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(path, quality=quality)
        found.append((f"{width} x {height}", paths))
    return found


def models(folder: Path) -> dict[str, Path]:
    """Write the network as a checkpoint of PyTorch and as an exported graph."""
    from reefcore import fitting, learners
    from reefcore.substrate import export, training
    from reefcore.tables import SUBSTRATES

    recipe = training.recipe("mobilenetv3_small", "full", {"weights": "scratch"})
    learner = learners.build(recipe, list(SUBSTRATES), counts=[1, 1, 1])
    history = pd.DataFrame(columns=fitting.HISTORY)
    fitted = fitting.Fitted(learner.eval(), recipe, history, 0, recipe.input_size, {"alpha": 0.5})
    checkpoint = fitted.save(folder / "network.safetensors")
    return {"ONNX Runtime": export.write(fitted, folder / "network.onnx"), "PyTorch": checkpoint}


def table(folder: Path, repeats: int = 4) -> pd.DataFrame:
    """Measure the parts one after another, and the runner, in which decoding and network work at the same time.

    Returns
    -------
    DataFrame
        ``frame`` (width x height), ``file`` (size of the JPEG, MB), ``runtime``, ``threads`` (of the network),
        ``decode``, ``grid``, ``network``, ``decision`` (ms per frame), ``network share`` (of their sum), ``network
        alone`` and ``end to end`` (ms per frame, measured in turns), ``ratio`` (end to end, of the network alone),
        ``network busy`` (its inverse: the share of the run's time in which the network works), ``frames per second``.
    """
    from reefcore.substrate import stream

    rows, built = [], models(folder)
    for size, paths in frames(folder):
        megabytes = np.mean([path.stat().st_size for path in paths]) / 1e6
        parts = stream.timings(built["ONNX Runtime"], paths, (1, 2), repeats).pivot(
            index="threads", columns="part", values="seconds"
        )
        for (runtime, model), threads in itertools.product(built.items(), (1, 2)):
            runner, out = stream.Runner(model, 0.5, threads), folder / "decisions.csv"
            patches, alone, whole = runner.patches(paths[0]), np.inf, np.inf
            for _ in range(repeats):
                alone = min(alone, seconds(lambda r=runner, x=patches: r.answer(x), 3))
                out.unlink(missing_ok=True)
                report = stream.run(4 * paths, runner, out)
                whole = min(whole, report["seconds"] / report["frames"])
            known = parts.loc[threads].to_dict() | ({} if runtime == "ONNX Runtime" else {"network": alone})
            spent = sum(known.values())
            row = {"frame": size, "file": megabytes, "runtime": runtime, "threads": threads}
            row |= {part: 1000 * known[part] for part in ("decode", "grid", "network", "decision")}
            row |= {"network share": known["network"] / spent, "network alone": 1000 * alone}
            row |= {"end to end": 1000 * whole, "ratio": whole / alone, "network busy": alone / whole}
            row |= {"frames per second": 1 / whole}
            rows.append(row)
    return pd.DataFrame(rows)


def rows() -> Iterator[Row]:
    """Compare one part after another with all at the same time."""
    with tempfile.TemporaryDirectory() as folder:
        for row in table(Path(folder), 3).to_dict("records"):
            one_by_one = sum(row[part] for part in ("decode", "grid", "network", "decision")) / 1000
            job = f"decide a frame {row['frame']}, {row['file']:.1f} MB, {row['threads']} threads"
            yield Row(job, f"one after another ({row['runtime']})", one_by_one, "stream.run", row["end to end"] / 1000)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(table(Path(place)).round(2).to_string(index=False))
