"""Time and memory of the tables of a report for 454,900 points over 4,105 photos, beside pandas and a loop.

    python benchmarks/site.py [--rows N] [--photos N] [--folder FOLDER]

The file is CoralNet's short format. Everything runs in one process of its own: reading, checking, mapping the labels,
and the covers by label, genus, functional group and life form, of every image and of all, with 1000 draws. The plain
way makes the table with groupby, and draws in a loop; it is timed for fewer draws, and compared by the draw.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import Row

ROWS, PHOTOS, LIMIT_S, LIMIT_GB = 454_900, 4_105, 60, 2
LABELS = """Acropora|Acropora (tabulate)|Acropora (branching)|Acropora_digitate|Porites|Porites_massive|Por_BR|Montipora
|Monti(f)|Montipora_encrusting|Pocillopora|Pocillopora meandrina|Pavona|Favites|Dipsastraea|Goniastrea
|Platygyra|Cyphastrea|Echinopora|Galaxea|Fungia|Lobophyllia|Astreopora|Stylophora|Seriatopora|Turbinaria
|Goniopora|Leptastrea|Hydnophora|Merulina|Isopora|Hard coral|HC_EN|HC_MA|Bleached hard coral|Dead coral|DCA
|Soft coral|Sinularia|Sarcophyton|Xenia|Gorgonian|Sponge|Cliona|Zoanthid|Millepora|Ascidian|Macroalgae
|Halimeda|Dictyota|Lobophora|Turf|TRF_Rub|CCA|Cyanobacteria|Seagrass|Sand|Silt|Rubble|Rock|Shadow|Unknown|Tape""".replace(
    "\n", ""
).split("|")
TABLES = ("label_raw", "genus", "functional_group", "life_form")


def make(path: Path, rows: int, photos: int) -> None:
    """Write points of invented photos: each has a cover of its own, and as many points as the next."""
    rng = np.random.default_rng(0)
    common = rng.dirichlet(np.full(len(LABELS), 0.5))
    photo = np.sort(np.arange(rows) % photos)
    shares = np.cumsum(rng.dirichlet(40 * common + 1e-3, photos), axis=1)
    label = (rng.random(rows)[:, None] > shares[photo]).sum(axis=1).clip(max=len(LABELS) - 1)
    frame = pd.DataFrame({"Name": [f"Reef {i % 12} T{i % 5} {i:05d}.JPG" for i in photo]})
    frame["Row"], frame["Column"] = rng.integers(0, 3000, rows), rng.integers(0, 4000, rows)
    frame["Label"] = np.array(LABELS)[label]
    frame.to_csv(path, index=False)


def ours(path: Path) -> list[tuple[str, float]]:
    """Make the tables; the seconds of each step."""
    from reefcore import annotations, benthos, cover

    steps, start = [], time.perf_counter()

    def step(name: str) -> None:
        nonlocal start
        steps.append((name, time.perf_counter() - start))
        start = time.perf_counter()

    points = annotations.read(path)
    step("read")
    annotations.check([path])
    step("check")
    labels = benthos.propose(points)
    points = benthos.apply(points, labels)
    step("labels")
    for by in TABLES:
        cover.percent_cover(points, by=by, unit="image")
        step(f"cover by {by}")
    return steps


def plain(path: Path, draws: int = 20) -> tuple[float, float]:
    """Make one table of covers with groupby and a loop; seconds without intervals, and seconds of each draw."""
    frame, start = pd.read_csv(path), time.perf_counter()
    counts = frame.groupby(["Name", "Label"]).size().unstack(fill_value=0)
    percents = counts.div(counts.sum(axis=1), axis=0)
    table, middle = percents.mean(), time.perf_counter()
    rng = np.random.default_rng(0)
    for _ in range(draws):
        table = percents.loc[rng.choice(percents.index, len(percents))].mean()
    assert len(table) == counts.shape[1]
    return middle - start, (time.perf_counter() - middle) / draws


def _in_process(path: Path, pipe) -> None:
    pipe.send((ours(path), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2))


def measure(path: Path) -> tuple[list[tuple[str, float]], float]:
    """Run `ours` in a process of its own: the seconds of its steps, and its peak of memory in GB."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_in_process, args=(path, there))
    process.start()
    there.close()  # so that a process that fails is met here, not waited for
    steps, memory = here.recv()
    process.join()
    return steps, memory


def rows():
    """Give the row for ``python -m benchmarks``: 1000 draws of the covers of every label, the loop's by its draws."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "points.csv")
        make(path, ROWS // 4, PHOTOS // 4)
        steps, _ = measure(path)
        once, draw = plain(path)
    yield Row(
        "covers of 1,026 photos, 20 draws",
        "groupby, .loc in a loop",
        once + 20 * draw,
        "percent_cover, 1000",
        dict(steps)["cover by label_raw"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--photos", type=int, default=PHOTOS)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = (asked.folder or Path(temporary)) / "points.csv"
        make(path, asked.rows, asked.photos)
        steps, memory = measure(path)
        once, draw = plain(path)
    for name, seconds in steps:
        print(f"{name:<28} {seconds:7.2f} s")
    print(f"{'all':<28} {sum(s for _, s in steps):7.2f} s (limit {LIMIT_S}), {memory:.2f} GB (limit {LIMIT_GB})")
    ratio = draw / (dict(steps)["cover by label_raw"] / 1000)
    print(f"the plain way: {once:.2f} s and {draw:.4f} s a draw, {ratio:.0f} x a draw of ours")


if __name__ == "__main__":
    main()
