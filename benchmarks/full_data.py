"""Every data chapter on a release of the real size, without photos: ``python -m benchmarks.full_data``.

Makes a synthetic release (`benchmarks.release`), a full profile that names it, its tables, curation and splits, and
runs the data chapters one after the other, each in a process of its own. Printed are seconds and the peak memory of
each with all its children, then Table 2 of this run beside the published one. Some 10 GB of disk; it is no part of
``python -m benchmarks``.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from benchmarks import release
from reefcore import comparison, profiles, published, splits
from reefcore.files import read_parquet

STEPS = ("data", "curate", "candidates", "covariates", "splits")
CHAPTERS = ("compared", "explorer", "curation", "labels", "places", "al_wajh", "review", "select", "splits")
MINUTES, GIGABYTES = 10, 4  # that all of it may take
ONE = """
import sys
from pathlib import Path
from reefcore.workflow import build, keys, steps
from reefcore.workflow.project import find_profile
kind, name, profile, output = sys.argv[1:]
if kind == "step":
    one = find_profile(profile)
    steps.ensure(one, one.folder(keys.root()), name, 1)
else:
    build.ensure(build.chapters([name], {"profile": profile})[0], Path(output), 1)
"""


def measure(command: list[str]) -> tuple[float, float, float]:
    """Run a command; return its seconds, those of processors, and the most memory of it and its children, in GB.

    The memory is the largest sum of what each of these processes held, looked at twenty times a second.

    Raises
    ------
    subprocess.CalledProcessError
        Where it fails.
    """
    import psutil

    began, before, peak = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN), 0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            try:
                family = [found := psutil.Process(process.pid), *found.children(recursive=True)]
                peak = max(peak, sum(one.memory_info().rss for one in family))
            except psutil.NoSuchProcess:  # ended while it was looked at
                pass
            time.sleep(0.05)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu, peak / 1e9


def profile_of(folder: Path) -> Path:
    """Write a full profile of a data folder, which trains nothing."""
    text = Path(profiles.__file__).with_name("full.yaml").read_text(encoding="utf-8")
    before, _, after = text.partition("recipes: #")
    text = before + "recipes: []\n" + after[after.index("train_sets:") :]
    text = text.replace("${REEFNET_DATA}", str(folder)).replace("the released ReefNet data", "a synthetic release")
    lines = [line for line in text.split("\n") if not line.startswith(("open_set:", "seeds:"))]
    path = folder / "full_data.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def table_2(folder: Path) -> tuple[pd.DataFrame, dict[str, bool]]:
    """Put Table 2 of a data folder beside the published one, and check its structure.

    Returns
    -------
    table : DataFrame
        See `reefcore.comparison.splits`.
    checks : dict
        What must be so -> whether it is.
    """
    annotations = read_parquet(folder / "annotations.parquet", ["annotation_id", "source", "image", "label"])
    table = read_parquet(folder / "splits.parquet")
    summary = splits.summary(table, annotations, read_parquet(folder / "reviews.parquet"))
    here = summary.set_index(["scheme", "part"])
    leaks, classes = splits.leaks(table, annotations).set_index("scheme"), here["classes"]
    total, scale = here["annotations"].groupby("scheme").sum(), len(annotations) / release.ROWS
    printed = published.texts("review")
    kept = {"S1": printed["step1/annotations"], "S2": printed["step2/annotations"]}
    wanted = {(s, p) for s in ("S1", "S2", "S3", "S4") for p in ("train", "val", "test")}
    checks = {
        "S1 to S4 have train, val and test, W and U a test": set(here.index) == wanted | {("W", "test"), ("U", "test")},
        "S1 and S2 hold what the paper's two review filters leave, within 2 %": all(
            abs(total[name] / scale / value - 1) < 0.02 for name, value in kept.items()
        ),
        "39 classes in Train-S1, S2 and S3": classes[[("S1", "train"), ("S2", "train"), ("S3", "train")]].eq(39).all(),
        "70 sources in S1, 7 in Test-S3 and 17 in Val-S3, 46 in Train-S3": here["sources"][
            [("S1", "train"), ("S3", "test"), ("S3", "val"), ("S3", "train")]
        ].tolist() == [70, 7, 17, 46],
        "S2 is part of S1, S4 of S3": total["S2"] < total["S1"] and total["S4"] < total["S3"],
        "Val and Test of S3 and S4 are the same": all(
            here["annotations"]["S3", part] == here["annotations"]["S4", part] for part in ("val", "test")
        ),
        "every class of a part is in its training part": (here["classes_in_train"] == here["classes"]).all(),
        "no image in two parts, no source in two of S3, S4": leaks["images"].eq(0).all()
        and leaks["sources"][["S3", "S4", "W"]].eq(0).all(),
        "agreement rises from S1 to S2": here["agreement"]["S2", "train"] > here["agreement"]["S1", "train"],
        "12 classes in W": classes["W", "test"] == 12,
    }  # fmt: skip
    return comparison.splits(summary), {name: bool(value) for name, value in checks.items()}


def run(folder: Path, rows: int, seed: int = 0, names: tuple[str, ...] = CHAPTERS) -> bool:
    """Make the release where it is not there, run the steps and chapters and print what they take.

    Returns
    -------
    bool
        Whether all is within the limits and Table 2 has the right structure.
    """
    if not (folder / "reviews.csv").exists():
        began = time.perf_counter()
        release.make(folder, rows, seed)
        size = (folder / "released" / "All_ReefNet_annotations.csv").stat().st_size / 1e9
        print(f"{rows:,} rows, {size:.2f} GB, made in {time.perf_counter() - began:.0f} s\n")
    profile = profile_of(folder)
    print(f"{'job':<22} {'s':>7} {'CPU s':>7} {'GB':>6}")
    took = []
    for kind, name in [*(("step", one) for one in STEPS), *(("chapter", one) for one in names)]:
        command = [sys.executable, "-c", ONE, kind, name, str(profile), str(folder / "chapters")]
        took.append(measure(command))
        print(f"{kind + ' ' + name:<22} {took[-1][0]:7.1f} {took[-1][1]:7.1f} {took[-1][2]:6.2f}", flush=True)
    total, cpu, peak = sum(one[0] for one in took), sum(one[1] for one in took), max(one[2] for one in took)
    print(f"{'together, peak':<22} {total:7.1f} {cpu:7.1f} {peak:6.2f}   asked: {60 * MINUTES} s, {GIGABYTES} GB\n")
    table, checks = table_2(folder)
    print(table.to_string(index=False, float_format="{:,.0f}".format))
    for name, right in checks.items():
        print(f"{'yes' if right else 'NO ':<4}{name}")
    return total < 60 * MINUTES and peak < GIGABYTES and all(checks.values())


def main() -> None:
    """Run it in a temporary folder, or in one that is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=release.ROWS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="keep everything here; what is there already is not made again")
    parser.add_argument("--chapters", nargs="*", default=CHAPTERS, help="only these")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(0 if run(folder, options.rows, options.seed, tuple(options.chapters)) else 1)


if __name__ == "__main__":
    main()
