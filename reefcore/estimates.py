"""What the whole full reproduction takes on a machine, table by table, before anything is started.

Every number is computed from a few figures, and `basis` says of each whether it was measured, stated (by a maker, by
the release, by the paper) or assumed. Work that several tables share is counted once.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reefcore import cost, cutting, published, recipes
from reefcore.errors import ReefcoreError
from reefcore.files import share
from reefcore.training import TESTS

HEADLINE = "vit_mae-S3"  # the run that chapters of single runs look at: Figures 4, 10 to 13
OF_HEADLINE = ("Figure 4", "Figure 10", "Figure 11", "Figure 12", "Figure 13")
OF_ALL_PHOTOS = ("Figure 15", "Figure 16")
#: Part of the splits -> how the paper's Table 2 calls it.
PRINTED = {(s, p): f"{p.title()}-{s}" for s in ("S1", "S2") for p in ("train", "val", "test")}
PRINTED |= {(s, p): f"{p.title()}-S3&S4" for s in ("S3", "S4") for p in ("val", "test")}
PRINTED |= {("S3", "train"): "Train-S3", ("S4", "train"): "Train-S4", ("W", "test"): "Test-W"}
ASKED = (("S1", "test"), ("S2", "test"), ("S3", "test"), ("W", "test"))  # what models that saw no label are asked
#: Seconds of one core: to read and resize a patch of 512 pixels from a shard, and per pixel of the model's input where
#: colours of single patches are changed. Measured on one core of a server, three recipes with and three without.
READ, CHANGE = 4.0e-3, 3.0e-8
READERS = 16  # processes that feed one GPU, at most; see reefcore.fitting
COVARIATES = 0.03  # seconds of one core for a photo of 12 megapixels, see reefcore.covariates
LARGEST_ASKED = 1.6e11  # operations per patch of ViT-L/14 at 224 pixels, the largest of the models that are only asked
ANNOTATIONS, AL_WAJH = 2.95e9, 1.21e9  # bytes of the released files, as the release lists them
NIGHT = 12  # hours
STATED = {"bytes_per_patch": cutting.STATED["bytes"], "seconds_per_photo": cutting.STATED["seconds"], "slice": 0}
SITE = {("W", "test")}
NOT_COUNTED = (
    "Not counted: published weights that are downloaded (some GB), few-shot curves, Qwen's rows of Table 5 (a chat "
    "server), the substrate survey, the chapters themselves (minutes), queues, and trainings that fail. Nobody looks "
    "here whether a batch fits into the memory of a GPU."
)


@dataclass(frozen=True)
class Machine:
    """What an estimate is made for; see `machine`."""

    name: str
    gpus: int
    peak: float  # operations per second of a GPU, as its maker states
    utilisation: float  # the part of it that a training reaches
    cores: int
    disk: float  # bytes
    bandwidth: float  # bytes per second
    source: str  # of the peak

    @property
    def readers(self) -> int:
        """Processes that can feed the GPUs."""
        return min(self.cores, READERS * self.gpus)


def known_gpus() -> pd.DataFrame:
    """Return the graphics processors whose peak is on record: ``gpu``, ``name``, ``memory_gb``, ``peak_tflops``..."""
    return pd.read_csv(share("data", "machines", "gpus.csv"))


def machine(
    gpu: str = "v100",
    gpus: int = 4,
    cores: int = 32,
    disk: float = np.inf,
    bandwidth: float = 100e6,
    peak: float = 0,
    utilisation: float = 0.3,
) -> Machine:
    """Describe a machine; the GPUs of the default are the paper's (section A.3.2).

    Parameters
    ----------
    gpu : str
        One of `known_gpus`; with a `peak` any name.
    gpus, cores : int
    disk : float
        Bytes that are free.
    bandwidth : float
        Bytes per second from the network.
    peak : float
        Operations per second of one GPU; 0 takes what its maker states.
    utilisation : float
        The part of the peak that a training reaches, in (0, 1].

    Raises
    ------
    ReefcoreError
        Where the GPU is not known, or a number makes no sense.
    """
    table = known_gpus().set_index("gpu")
    found = table.loc[gpu.lower()] if gpu.lower() in table.index else None
    if found is None and not peak:
        do = f"choose from {', '.join(table.index)}, or give its peak by --peak (10^12 operations per second)"
        raise ReefcoreError(f"the peak of a GPU {gpu!r} is not known", do=do)
    if min(gpus, cores) < 1 or not (disk > 0 and bandwidth > 0):
        what = f"{gpus} GPUs, {cores} cores, a disk of {disk:g} bytes and {bandwidth:g} bytes per second"
        raise ReefcoreError(f"{what} make no machine", do="give more than nothing of each")
    name, source = (gpu, "given") if peak else (found["name"], found["source"])
    peak = peak or found["peak_tflops"] * 1e12
    cost.gpu_hours(1, 1, 1, peak, utilisation)  # checks both
    return Machine(name, gpus, float(peak), utilisation, cores, disk, bandwidth, source)


def amount(text: str) -> float:
    """Read an amount of bytes, or of bytes per second: ``2TB``, ``500 GB``, ``100MB/s``, ``12e9``.

    Raises
    ------
    ReefcoreError
        Where it is none, or a number of bits.
    """
    found = re.fullmatch(r"([\d.]+(?:e\d+)?)\s*([kKMGTP]?)(i?)B?(?:/s)?", text.strip())
    try:
        number = float(found[1])
    except (TypeError, ValueError):
        raise ReefcoreError(f"{text!r} is no amount of bytes", do="write it as 500GB, 2TB or 100MB/s") from None
    return number * (1024 if found[3] else 1000) ** " kMGTP".index(found[2].replace("K", "k") or " ")


class Parts:
    """Points of the parts of the splits, and the photos they lie on: counted where there are splits, else by Table 2.

    Parameters
    ----------
    splits, annotations : DataFrame, optional
        ``annotation_id``, ``scheme``, ``part``; ``annotation_id``, ``source``, ``image``.
    """

    def __init__(self, splits: pd.DataFrame | None = None, annotations: pd.DataFrame | None = None):
        self.how, self.rows = "stated: Table 2 of the paper", None
        if splits is not None and len(splits):
            photo = annotations.drop_duplicates("annotation_id").set_index("annotation_id")
            photo = pd.Series(photo.groupby(["source", "image"]).ngroup(), photo.index)
            self.rows = splits.assign(photo=splits["annotation_id"].map(photo))
            self.how = "counted in the splits that are there"
        else:
            self.printed = published.wide(2).set_index("split")["annotations"].astype(int)
            coral, photos = ("coral_annotations", "images_with_corals")
            self.per_photo = published.value(f"dataset/{coral}/A.2.4") / published.value(f"dataset/{photos}/A.2.4")

    def _of(self, parts: Iterable[tuple[str, str]]) -> pd.DataFrame:
        wanted = pd.MultiIndex.from_tuples(sorted(set(parts)), names=["scheme", "part"])
        return self.rows[pd.MultiIndex.from_frame(self.rows[["scheme", "part"]]).isin(wanted)]

    def points(self, parts: Iterable[tuple[str, str]]) -> int:
        """Count the points of several parts, each once.

        The sizes in Table 2 do not say what parts share: the training parts of the schemes are taken to lie in the
        largest of those asked for, the test parts to be apart, and all of them in those of S1 and Al-Wajh.
        """
        parts = set(parts)
        if self.rows is not None:
            return self._of(parts)["annotation_id"].nunique() if parts else 0
        trained = [sum(self._size(s, p) for s, p in parts if s == scheme and p != "test") for scheme in TESTS]
        tested = {PRINTED[one]: self._size(*one) for one in parts if one[1] == "test"}
        most = sum(self._size("S1", p) for p in ("train", "val", "test")) + self._size("W", "test")
        return min(max(trained) + sum(tested.values()), most)

    def _size(self, scheme: str, part: str) -> int:
        return int(self.printed.get(PRINTED[scheme, part], 0))

    def photos(self, parts: Iterable[tuple[str, str]]) -> int:
        """Count the photos of CoralNet that several parts lie on; those of Al-Wajh come in one file."""
        parts = {one for one in parts if one[0] != "W"}
        if not parts:
            return 0
        return (
            self._of(parts)["photo"].nunique() if self.rows is not None else round(self.points(parts) / self.per_photo)
        )

    def free(self) -> int:
        """Count the points that no scheme tests: those a pretraining sees. By Table 2 at most so many."""
        if self.rows is None:
            return self.points([("S1", "train"), ("S1", "val")]) - self._size("S3", "test")
        tested = self.rows.loc[self.rows["part"] == "test", "annotation_id"]
        return int((~self.rows["annotation_id"].drop_duplicates().isin(tested)).sum())


def of_set(train_set: str) -> list[tuple[str, str]]:
    """List the parts that a run on a training set reads: its own, and those it is tested on."""
    return [(train_set, "train"), (train_set, "val"), *((test, "test") for test in TESTS[train_set])]


@functools.lru_cache(maxsize=128)
def _recipe(name: str, changes: str) -> recipes.Recipe:
    return recipes.load(name, "full", json.loads(changes))


def jobs(
    runs: pd.DataFrame,
    models: pd.DataFrame,
    parts: Parts,
    on: Machine,
    measured: pd.DataFrame | None = None,
    changes: dict | None = None,
) -> pd.DataFrame:
    """Estimate each piece of work that takes a GPU.

    Parameters
    ----------
    runs : DataFrame
        ``job``, ``kind`` (pretraining, training, open set, asked), ``recipe``, ``train_set``, ``starts_from``.
    models : DataFrame
        ``recipe``, ``parameters``, ``flops``: see `reefcore.cost.table`.
    parts : Parts
    on : Machine
    measured : DataFrame, optional
        A runs table: ``run``, ``recipe``, ``train_patches``, ``epochs``, ``seconds``, ``device``. Those of a GPU are
        taken as they are, and for other training sets of their recipe by the patches they read per second.
    changes : dict, optional
        Of the profile, to every recipe.

    Returns
    -------
    DataFrame
        `runs` with ``tables``, ``parts`` (that it reads), ``patches`` (of an epoch), ``epochs``, ``parameters``,
        ``gpu_hours``, ``core_hours`` (of reading patches), ``hours`` (on the machine: the slower of both; the work is
        taken to be shared by its GPUs without loss), ``limit`` (GPUs or cores), ``how`` and ``done``.
    """
    seen = pd.DataFrame() if measured is None or measured.empty else measured[measured["device"] == "cuda"]
    count, rows = models.set_index("recipe"), []
    for run in runs.itertuples():
        recipe = None if run.kind == "asked" else _recipe(run.recipe, json.dumps(changes or {}))
        trained = parts.points([(run.train_set, "train")]) if run.train_set else parts.free() if recipe else 0
        checked = parts.points([(run.train_set, "val")]) if run.train_set else 0
        reads = of_set(run.train_set) if run.train_set else list(ASKED) if recipe is None else []
        if recipe and not run.train_set:  # a pretraining sees what no scheme tests
            reads = [(scheme, part) for scheme in TESTS for part in ("train", "val")]
        tests = parts.points([one for one in reads if one[1] == "test"])
        epochs, flops = (recipe.epochs, count.at[run.recipe, "flops"]) if recipe else (0, LARGEST_ASKED)
        passes = epochs * (cost.PASSES * trained + checked) + tests  # of the model, forwards
        gpu = cost.gpu_hours(flops, passes / cost.PASSES, 1, on.peak, on.utilisation)
        changed = recipe and (recipe.colour_jitter or recipe.randaugment)
        change = CHANGE * recipe.input_size**2 if changed else 0.0
        core = (epochs * (trained * (READ + change) + checked * READ) + tests * READ) / 3600
        hours, how, done = max(gpu / on.gpus, core / on.readers), "computed" if recipe else "computed: at most", False
        mine = seen[seen["run"] == run.job] if len(seen) else seen
        alike = seen[seen["recipe"] == run.recipe] if len(seen) else seen
        if len(mine):
            hours, how, done = mine["seconds"].iat[0] / 3600, "measured", True
        elif len(alike) and trained:
            speed = (alike["train_patches"] * alike["epochs"] / alike["seconds"]).median()
            hours, how = trained * epochs / speed / 3600, "by the measured speed of its recipe"
        limit = "GPUs" if gpu / on.gpus >= core / on.readers else "cores"
        if how.startswith(("measured", "by")):
            gpu, limit = hours * on.gpus, "measured"
        weights = count.at[run.recipe, "parameters"] if recipe else 0
        tables = recipe.tables if run.kind == "training" else {"open set": (6,), "asked": (5, 12)}.get(run.kind, ())
        rows.append((tables, tuple(reads), trained, epochs, weights, gpu, core, hours, limit, how, done))
    names = "tables parts patches epochs parameters gpu_hours core_hours hours limit how done".split()
    return runs.join(pd.DataFrame(rows, columns=names, index=runs.index))


def closure(names: Iterable[str], work: pd.DataFrame) -> set[str]:
    """Add to jobs those that they start from."""
    starts = work.set_index("job")["starts_from"]
    return set(names) | {starts[name] for name in names if starts.get(name)}


def of_item(item: str, work: pd.DataFrame) -> set[str]:
    """Name the jobs that a published table or figure stands on; none where it takes no model."""
    number = int(item.removeprefix("Table ")) if item.startswith("Table ") else 0
    names = set(work.loc[[number in tables for tables in work["tables"]], "job"])
    if item in OF_HEADLINE:
        names = set(work.loc[work["job"] == HEADLINE, "job"])
    return closure(names, work)


def items(work: pd.DataFrame, parts: Parts, tables: Iterable[int] = ()) -> pd.DataFrame:
    """Say what each published table and figure takes.

    Parameters
    ----------
    work : DataFrame
        See `jobs`.
    parts : Parts
    tables : iterable of int
        Only these tables; all tables and figures where it is empty.

    Returns
    -------
    DataFrame
        ``item``, ``title``, ``needs``, ``runs``, ``photos`` (of CoralNet), ``gpu_hours`` and ``hours`` (alone),
        ``new_gpu_hours`` and ``new_hours`` (that the items above have not taken already: these add up).
    """
    listed = pd.read_csv(share("data", "published", "items.csv")).query("paper == 'ReefNet'").dropna(subset="chapter")
    wanted = [f"Table {number}" for number in tables]
    if unknown := sorted(set(wanted) - set(listed["item"])):
        raise ReefcoreError(f"the paper has no {unknown[0]}", do="choose from 1 to 13")
    listed, taken, rows = listed[listed["item"].isin(wanted)] if wanted else listed, set(), []
    hours = work.set_index("job")[["gpu_hours", "hours"]]
    for row in listed.itertuples():
        names = of_item(row.item, work)
        alone, new = hours.loc[sorted(names)].sum(), hours.loc[sorted(names - taken)].sum()
        taken |= names
        photos = parts.photos(_reads(row.item, names, work))
        rows.append((row.item, row.title, row.needs, len(names), photos, *alone, *new))
    if not wanted and (names := set(hours.index) - taken):
        title, photos = "Runs of the profile that no table of the paper has", parts.photos(_reads("", names, work))
        rows.append(
            ("others", title, "the released data and GPUs", len(names), photos, *[*hours.loc[sorted(names)].sum()] * 2)
        )
    columns = ["item", "title", "needs", "runs", "photos", "gpu_hours", "hours", "new_gpu_hours", "new_hours"]
    return pd.DataFrame(rows, columns=columns)


def _reads(item: str, names: set[str], work: pd.DataFrame) -> set[tuple[str, str]]:
    """List the parts whose photos an item needs."""
    if item in OF_ALL_PHOTOS:
        return set(PRINTED)
    return {part for found in work.loc[work["job"].isin(names), "parts"] for part in found}


def subsets(
    work: pd.DataFrame,
    parts: Parts,
    on: Machine,
    photo: dict,
    patch: dict | None = None,
    tables: Iterable[int] = (),
) -> pd.DataFrame:
    """Say what can be reproduced with less than everything, from the smallest useful start on.

    Parameters
    ----------
    work, parts, on, tables : see `items`
    photo : dict
        Of a photo of CoralNet: ``bytes``, and ``seconds`` that it takes at the polite rate.
    patch : dict, optional
        ``bytes_per_patch`` and ``seconds_per_photo`` of `reefcore.cutting.forecast`; `reefcore.cutting.STATED` where
        there is none.

    Returns
    -------
    DataFrame
        ``subset``, ``photos``, ``download_bytes``, ``download_hours``, ``disk_bytes``, ``core_hours`` (cutting and
        measuring photos), ``gpu_hours``, ``hours`` (one after the other: download, cutting, training), ``fits`` (the
        disk), ``night``, ``gives`` (items in full), ``in_part`` (tables with some of their runs).
    """
    patch = patch or STATED
    wanted = items(work, parts, tables).set_index("item")["needs"].drop("others", errors="ignore")
    of = {item: of_item(item, work) for item in wanted.index}
    reads = {item: _reads(item, names, work) for item, names in of.items()}
    costs, rows = work.set_index("job"), []
    for name, chosen, held, also in _listed(work, of if tables else {}, reads):
        some, photos = costs.loc[sorted(chosen)], parts.photos(held)
        at_site = bool(held & SITE)
        hub = ANNOTATIONS + AL_WAJH * at_site
        gpu, hours = some[["gpu_hours", "hours"]].sum()
        if held == SITE:  # the answers of models that are only asked, here five of them
            n = parts.points(SITE) * int((work["kind"] == "asked").sum())
            gpu = cost.gpu_hours(LARGEST_ASKED, n / cost.PASSES, 1, on.peak, on.utilisation)
            hours = max(gpu / on.gpus, n * READ / 3600 / on.readers)
        download = (hub / on.bandwidth + photos * max(photo["seconds"], photo["bytes"] / on.bandwidth)) / 3600
        shards = parts.points(held) * patch["bytes_per_patch"]
        weights = 4 * (some["parameters"].sum() + 4 * some["parameters"].max()) if len(some) else 0
        cores = photos * (patch["seconds_per_photo"] + COVARIATES) / 3600
        disk = hub + AL_WAJH * at_site + photos * photo["bytes"] + shards + weights  # a zip file, and what it holds
        hours += download + cores / on.cores
        if held == SITE:
            also += f"; the rest of a night of {NIGHT} hours fetches about "
            also += f"{max(0, round((NIGHT - hours) * 3600 / photo['seconds'], -2)):,.0f} photos of CoralNet"
        gives, in_part = [], []
        for item, needs in wanted.items():
            whole = of[item] <= chosen and reads[item] <= held
            if "chat server" in needs:
                in_part += [f"{item} (not what asks a chat server)"] * (whole and bool(of[item]))
            elif whole:
                gives.append(item)
            elif number := len(of[item] & chosen):
                in_part.append(f"{item} ({number} of {len(of[item])} runs)")
        if tables and not (gives or in_part):
            continue
        numbers = photos, hub + photos * photo["bytes"], download, disk, cores, gpu, hours
        rows.append((name, *numbers, disk <= on.disk, hours <= NIGHT, ", ".join(gives), ", ".join(in_part), also))
    names = "photos download_bytes download_hours disk_bytes core_hours gpu_hours hours fits night gives in_part also"
    return pd.DataFrame(rows, columns=["subset", *names.split()])


def _listed(work: pd.DataFrame, of: dict, reads_of: dict) -> list[tuple[str, set, set, str]]:
    """List the subsets: name, jobs, parts whose photos they need, what else they allow; `of` are the only tables."""

    def reads(chosen: set) -> set:
        return {part for found in work.loc[work["job"].isin(chosen), "parts"] for part in found}

    row = "its row of Tables 3 and 8 to 10"
    asked = set(work.loc[work["kind"] == "asked", "job"])
    start = "the answers at Al-Wajh of models that need no training, which the paper does not print; with a checkpoint "
    start += "from elsewhere, the columns of Test-W of " + row
    found = [
        ("smallest useful: annotations and Al-Wajh", set(), SITE, start),
        ("the annotations alone", set(), set(), ""),
        ("the test photos, nothing trained", asked, set(ASKED), f"with a checkpoint from elsewhere, all of {row}"),
    ]
    fast = work[(work["kind"] == "training") & (work["train_set"] == "S3") & ~work["starts_from"].astype(bool)]
    if len(fast):
        quickest = fast.loc[fast["hours"].idxmin()]
        found.append((f"the quickest row: {quickest['job']}", {quickest["job"]}, set(quickest["parts"]), ""))
    tables = {f"Table {n}": of_item(f"Table {n}", work) for n in range(3, 13)}
    some = {f"the headline row: {HEADLINE}": closure({HEADLINE} & set(work["job"]), work)}
    some |= {name: tables[name] for name in ("Table 7", "Table 6", "Table 4")}
    some["Tables 3 and 8 to 11"] = set().union(*(tables[f"Table {n}"] for n in (3, 8, 9, 10, 11)))
    found += [(name, chosen, reads(chosen), "") for name, chosen in some.items() if chosen]
    if of:
        return [*found, (" and ".join(of), set().union(*of.values()), set().union(*reads_of.values()), "")]
    return [*found, ("everything", set(work["job"]), set(PRINTED), "")]


def basis(parts: Parts, on: Machine, photo: dict, patch: dict | None = None) -> pd.DataFrame:
    """List the figures that everything else is computed from: ``what``, ``value``, ``how`` it is known.

    Parameters are those of `subsets`; ``how`` of `photo` says how its bytes and seconds are known.
    """
    patch = patch or STATED
    how = f"measured on {patch['slice']} photos" if patch["slice"] else "stated: reefcore.cutting.STATED"
    change = f"{READ * 1e3:g} ms, and {CHANGE * 1e9:g} ns per pixel where colours are changed"
    rows = [
        (
            "operations per second of a GPU",
            f"{on.peak:.4g}",
            f"stated by the maker, if data/machines has it right: {on.source}",
        ),
        ("part of them that a training reaches", f"{on.utilisation:.0%}", "assumed; 20 to 40 % are common"),
        ("operations per patch", "by recipe", "computed on the full models, see reefcore.cost"),
        ("points of each part of the splits", "by part", parts.how),
        ("points of a pretraining", f"{parts.free():,}", "computed: all that no scheme tests"),
        ("operations per patch of a model that is only asked", f"{LARGEST_ASKED:.2g}", "assumed: of the largest"),
        ("reading a patch, on one core", change, "measured by this project, reefcore.estimates"),
        ("a patch on disk", f"{patch['bytes_per_patch'] / 1e3:,.0f} kB", how),
        ("cutting a photo, on one core", f"{patch['seconds_per_photo'] * 1e3:,.0f} ms", how),
        ("measuring a photo, on one core", f"{COVARIATES * 1e3:g} ms", "stated: reefcore.covariates, 12 megapixels"),
        ("released annotations", f"{ANNOTATIONS / 1e9:g} GB", "stated: the listing of the release"),
        ("photos of Al-Wajh, zipped", f"{AL_WAJH / 1e9:g} GB", "stated: the listing of the release"),
        ("a photo of CoralNet", f"{photo['bytes'] / 1e6:,.2f} MB", photo["how"]["bytes"]),
        ("fetching it", f"{photo['seconds']:.3g} s", photo["how"]["seconds"]),
        ("bandwidth", f"{on.bandwidth / 1e6:,.0f} MB/s", "given"),
    ]
    return pd.DataFrame(rows, columns=["what", "value", "how"])
