"""``reefcore full estimate``: what the full profile takes on a machine, by what is there and what is stated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet
from reefcore.profiles import Profile

RANGE = 0.2, 0.4  # of the peak: what trainings commonly reach


def runs(profile: Profile) -> pd.DataFrame:
    """List what a profile does on GPUs: ``job``, ``kind``, ``recipe``, ``train_set``, ``starts_from``."""
    from reefcore.recipes import zero_shot
    from reefcore.workflow import experiments, steps

    rows = [
        (run.name, "training" if run.train_set else "pretraining", run.recipe, run.train_set, run.starts_from)
        for run in steps._runs(profile)
    ]
    rows += [(job, "open set", *what, "") for job, what in experiments.open_runs(profile).items()]
    asked = [recipe.name for recipe in map(zero_shot.load, profile.zero_shot) if recipe.kind == "clip"]
    rows += [(f"zero-{name}", "asked", name, "", "") for name in asked]
    return pd.DataFrame(rows, columns=["job", "kind", "recipe", "train_set", "starts_from"])


def estimate(profile: Profile, machine, tables: tuple[int, ...] = (), measured: bool = False, each: int = 1) -> dict:
    """Estimate a profile of kind full; nothing is made or fetched. Imports torch, to count operations of the models.

    Parameters
    ----------
    profile : Profile
    machine : reefcore.estimates.Machine
    tables : tuple of int
        Only these tables of the paper.
    measured : bool
        Whether trainings that the profile has count by the time they took, which is that of the GPU they had.
    each : int
        Photos of each source that are cut to measure, where splits and photos are there; 0 measures none.

    Returns
    -------
    dict
        ``jobs``, ``items``, ``subsets`` and ``basis``: DataFrames, see `reefcore.estimates`; ``machine``.
    """
    from reefcore import cost, estimates
    from reefcore.workflow import keys

    if profile.kind != "full":
        what = f"the profile {profile.name} is of kind {profile.kind}: the sample takes minutes"
        raise ReefcoreError(what, do="name full, or a copy of it")
    try:
        folder = profile.folder(keys.root())
    except ReefcoreError:  # nobody has a data folder yet: all is as published
        folder = Path("nowhere")
    work, parts, each_photo = runs(profile), _parts(folder), photo(folder)
    names = sorted(set(work.loc[work["kind"] != "asked", "recipe"]))
    took = [read_parquet(file) for file in sorted((folder / "runs").glob("*.parquet"))] if measured else []
    found = pd.concat(took, ignore_index=True) if took else None
    jobs = estimates.jobs(work, cost.table(names), parts, machine, found, profile.recipe_changes)
    if tables:
        wanted = set().union(*(estimates.of_item(f"Table {number}", jobs) for number in tables))
        jobs = jobs[jobs["job"].isin(wanted)]
    patch = _slice(profile, folder, each)
    return {
        "machine": machine,
        "items": estimates.items(jobs, parts, tables),
        "subsets": estimates.subsets(jobs, parts, machine, each_photo, patch, tables),
        "jobs": jobs,
        "basis": estimates.basis(parts, machine, each_photo, patch),
    }


def _parts(folder: Path):
    from reefcore import estimates

    if not (folder / "splits.parquet").exists():
        return estimates.Parts()
    points = read_parquet(folder / "annotations.parquet", ["annotation_id", "source", "image"])
    return estimates.Parts(read_parquet(folder / "splits.parquet"), points)


def photo(folder: Path | None = None) -> dict:
    """Say what a photo of CoralNet takes: ``bytes`` and ``seconds`` (at the polite rate), and ``how`` each is known.

    Bytes are the mean of those that were fetched into a data folder, or what `reefcore fetch images` assumes.
    """
    from reefcore.fetch import coralnet, photos
    from reefcore.fetch.manifest import Manifest

    found = {"bytes": float(photos.ASSUMED), "seconds": (2 + 1 / coralnet.PER_PAGE) * coralnet.DELAY}
    how = {
        "bytes": "assumed: as reefcore fetch images does before some are there",
        "seconds": f"computed: two requests and a part of a page, {coralnet.DELAY:g} s between two requests",
    }
    if folder and (file := folder / "photos.sqlite").exists():
        with Manifest(file) as manifest:
            there = manifest.table().query("state == 'there'")["bytes"].dropna()
        if len(there) >= photos.MEASURED:
            found["bytes"], how["bytes"] = float(there.mean()), f"measured: the mean of {len(there):,} that are there"
    return found | {"how": how}


def _slice(profile: Profile, folder: Path, each: int) -> dict | None:
    """Measure some photos of each source, where there are any."""
    from reefcore import cutting
    from reefcore.workflow import steps

    if not (each and (folder / "photos").is_dir() and (folder / "splits.parquet").exists()):
        return None
    points = steps.cut_points(folder)
    sliced = cutting.measured(points, folder / "photos", profile.crop, folder, each)
    if sliced.empty:
        return None
    total = sliced[["photos", "points", "bytes", "seconds"]].sum()
    return {
        "bytes_per_patch": total["bytes"] / total["points"],
        "seconds_per_photo": total["seconds"] / total["photos"],
        "slice": int(total["photos"]),
    }


def text(found: dict) -> str:
    """Write an estimate for a terminal."""
    from reefcore.estimates import NOT_COUNTED
    from reefcore.workflow.status import columns

    on, items, subsets, jobs = (found[name] for name in ("machine", "items", "subsets", "jobs"))
    disk = f"{on.disk / 1e12:,.2f} TB of disk" if np.isfinite(on.disk) else "a disk of any size"
    lines = [
        f"On {on.gpus} x {on.name}, {on.cores} cores, {disk}, {on.bandwidth / 1e6:,.0f} MB/s. An estimate: hours are "
        "computed from the figures at the end, none is a measurement unless it says so.",
    ]
    numbers = {
        "GPU hours": "gpu_hours",
        "hours here": "hours",
        "new GPU hours": "new_gpu_hours",
        "new hours": "new_hours",
    }
    shown = {"item": items["item"], "runs": items["runs"], "photos": items["photos"].map("{:,}".format)}
    shown |= {name: items[column].map("{:,.1f}".format) for name, column in numbers.items()}
    lines += columns(shown | {"": items["title"]})
    together = (
        f"{items['new_gpu_hours'].sum():,.0f} GPU hours, {items['new_hours'].sum() / 24:,.1f} days on this machine"
    )
    lines += ["", f"In all {together}: new is what the items above have not taken; these add up, each run once."]
    free = jobs.loc[jobs["how"].str.startswith("computed"), "gpu_hours"].sum()  # of a measured speed
    least, most = (jobs["gpu_hours"].sum() + free * (on.utilisation / u - 1) for u in RANGE[::-1])
    lines.append(
        f"If they reach {RANGE[0]:.0%} to {RANGE[1]:.0%} of their peak: {most:,.0f} to {least:,.0f} GPU hours."
    )
    limits = jobs["limit"].value_counts()
    lines.append(
        f"Of {len(jobs)} runs the GPUs set the pace of {limits.get('GPUs', 0)}, reading patches with the cores that of "
        f"{limits.get('cores', 0)}" + (f"; {measured} are measured." if (measured := limits.get("measured")) else ".")
    )
    if len(how := jobs["how"].value_counts()) > 1:
        lines.append("GPU hours: " + ", ".join(f"{count} {name}" for name, count in how.items()) + ".")
    size = {"download": "download_bytes", "disk": "disk_bytes"}
    shown = {"what for": subsets["subset"], "photos": subsets["photos"].map("{:,}".format)}
    shown |= {f"{name} (GB)": (subsets[column] / 1e9).map("{:,.0f}".format) for name, column in size.items()}
    shown |= {"fits": subsets["fits"].map({True: "yes", False: "NO"})}
    shown |= {"fetch (h)": subsets["download_hours"], "CPU (core h)": subsets["core_hours"]}
    shown |= {"GPU hours": subsets["gpu_hours"], "days in all": subsets["hours"] / 24}
    for name in ("fetch (h)", "CPU (core h)", "GPU hours", "days in all"):
        shown[name] = shown[name].map("{:,.1f}".format)
    shown |= {"one night": subsets["night"].map({True: "yes", False: "no"})}
    lines += columns(shown)
    lines += ["", "What each gives:"]
    for row in subsets.itertuples():
        more = "".join(f"; {start}{words}" for start, words in (("in part ", row.in_part), ("and ", row.also)) if words)
        lines.append(f"- {row.subset}: {short(row.gives)}{more}.")
    lines += columns({name: found["basis"][name] for name in ("what", "value", "how")})
    return "\n".join([*lines, "", NOT_COUNTED])


def short(gives: str) -> str:
    """Write 'Table 1, Table 2, Figure 1' shorter: 'Tables 1, 2; Figures 1'."""
    names = gives.split(", ") if gives else []
    kinds = {k: [n.removeprefix(f"{k} ") for n in names if n.startswith(k)] for k in ("Table", "Figure")}
    return "; ".join(f"{kind}s {', '.join(some)}" for kind, some in kinds.items() if some) or "none in full"


def as_json(found: dict) -> str:
    """Write an estimate for programs."""
    from reefcore.estimates import NOT_COUNTED

    tables = {n: json.loads(found[n].to_json(orient="records")) for n in ("items", "subsets", "jobs", "basis")}
    machine = {key: value if value != np.inf else None for key, value in vars(found["machine"]).items()}
    return json.dumps({"machine": machine, **tables, "not_counted": NOT_COUNTED}, indent=2)


def add(group, command) -> None:
    """Add ``estimate`` to ``reefcore full``."""
    help = "say what it takes on a machine: GPU hours per table, disk, download, and what less gives"
    one = command(group, "estimate", _estimate, help, epilog="Nothing is fetched or started. Sizes as 500GB, 100MB/s.")
    one.add_argument("--gpus", type=int, default=4, help="how many (4)")
    one.add_argument(
        "--gpu", default="v100", help="v100, a100, h100, h200, l40s, rtx4090, ...; the paper's by default (v100)"
    )
    one.add_argument(
        "--peak", type=float, default=0, metavar="TFLOPS", help="of another GPU: 10^12 operations a second"
    )
    one.add_argument(
        "--utilisation", type=float, default=0.3, help="the part of the peak that a training reaches (0.3)"
    )
    one.add_argument("--cores", type=int, default=32, help="(32)")
    one.add_argument("--disk", metavar="SIZE", default="", help="that is free, such as 2TB (of any size)")
    one.add_argument("--bandwidth", metavar="SIZE", default="100MB/s", help="of the network (100MB/s)")
    one.add_argument("--table", type=int, nargs="+", default=[], metavar="N", help="only these tables of the paper")
    one.add_argument("--measured", action="store_true", help="trainings that are there count by the time they took")
    one.add_argument(
        "--slice", type=int, default=1, metavar="N", help="photos of each source that are cut to measure (1)"
    )
    one.add_argument("--profile", default="full", help="full, or a YAML file of that kind (full)")
    one.add_argument("--json", action="store_true", help="for programs")


def _estimate(options) -> None:
    from reefcore import estimates
    from reefcore.workflow.project import find_profile

    given = {name: getattr(options, name) for name in ("gpu", "gpus", "cores", "utilisation")}
    disk = estimates.amount(options.disk) if options.disk else np.inf
    on = estimates.machine(**given, disk=disk, bandwidth=estimates.amount(options.bandwidth), peak=1e12 * options.peak)
    found = estimate(find_profile(options.profile), on, tuple(options.table), options.measured, options.slice)
    print(as_json(found) if options.json else text(found))
