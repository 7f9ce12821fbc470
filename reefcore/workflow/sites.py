"""The steps of a site, an ecologist's own reef: read, labels, covariates, classify, in the folder of its site.yaml."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pandas as pd

from reefcore import profiles
from reefcore import site as own
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet, write_json, write_parquet
from reefcore.site import write_csv
from reefcore.workflow import keys
from reefcore.workflow.steps import Step

READ = ("points", "images", "photos", "problems", "left_out", "covers", "checks")
CLASSIFIED = ("classifier", "predictions", "machine")
BY = ("functional_group", "genus", "life_form", "label_raw")
DATES = 30  # beyond these, change from date to date is no table that anybody reads
#: Settings that reading does not depend on: of later steps, or of pages only.
LATER = {"name", "seed", "resamples", "reefnet", "ocean", "labels", "classifier"}


def plan(site) -> list[Step]:
    """List the steps of a site, each after those it needs.

    A user's files count by what they hold, her photos by names and sizes; the raw files of the made-up site are a step
    of their own. ``labels.csv`` is what it was before the step ``labels`` added new labels to it.
    """
    folder, made_up = site.folder(keys.root()), site.is_made_up
    first = Step("raw", _raw, ("../raw",), (), ("reefcore.sample.reef",), ("seed",))
    settings = tuple(sorted(set(site.settings) - LATER))
    tables, before = tuple(f"{name}.parquet" for name in READ), ("raw",) if made_up else ()
    given = {"files": "raw"} if made_up else _files(site)
    labels = {"decisions": _decisions(site, folder)}
    read, labelled = ("reefcore.site.tables",), ("reefcore.site.tables", "reefcore.benthos")
    covers = ("reefcore.cover", "reefcore.overview")
    return [
        *([first] if made_up else []),
        Step("read", _read, tables, before, read, settings, given),
        Step(
            "labels",
            _label,
            ("labels.parquet", "annotations.parquet", "label_checks.parquet"),
            ("read",),
            labelled,
            ("ocean", "labels"),
            labels,
        ),
        Step(
            "covariates", _covariates, ("covariates.parquet", "unreadable.parquet"), ("read",), ("reefcore.covariates",)
        ),
        Step(
            "classify",
            _classify,
            tuple(f"{name}.parquet" for name in CLASSIFIED),
            ("labels", "covariates"),
            ("reefcore.machine",),
            ("seed", "classifier"),
        ),
        Step(
            "cover",
            _cover,
            ("../csv/cover",),
            ("labels",),
            covers,
            ("seed", "resamples"),
        ),
    ]


def photo_folder(site) -> Path | None:
    """Return the folder of a site's photos, or None where its site.yaml names none."""
    return site.at(site.photos, keys.root()) if site.photos else None


def _files(site) -> dict[str, str]:
    """Fingerprint what a site reads: annotations and metadata by content, photos by names and sizes."""
    columns = [site.columns] if isinstance(site.columns, str) else []
    named = [*(one["file"] for one in site.annotations), *site.metadata, *columns, site.meow]
    found = {}
    for number, path in enumerate(site.at(name) for name in named if name):
        found[f"file {number} {path.name}"] = keys.digest(path) if path.exists() else "missing"
    photos = photo_folder(site)
    if photos:
        found["photos"] = keys.glance(photos, times=False) if photos.is_dir() else "missing"
    return found


def _left(folder: Path) -> Path:
    return folder / ".keys" / "labels-left.json"


def _decisions(site, folder: Path) -> str:
    """Hash labels.csv as she left it: where nobody touched it since the step wrote it, what it was before that."""
    path = site.at(site.labels, keys.root())
    now = keys.digest(path) if path.exists() else "missing"
    with suppress(OSError, ValueError, KeyError):
        kept = json.loads(_left(folder).read_text(encoding="utf-8"))
        return kept["given"] if kept["left"] == now else now
    return now


def located(frame: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows whose photo is there, named as what reads photos asks for it below the photo folder.

    Parameters
    ----------
    frame : DataFrame
        Columns ``source`` and ``image``, and any others.
    images : DataFrame
        Of a site: ``source``, ``image``, ``photo``.

    Returns
    -------
    DataFrame
        With the index of `frame`; ``source`` is ``.`` and ``image`` the path below the photo folder.
    """
    pairs = pd.MultiIndex.from_frame(frame[["source", "image"]])
    photo = images.set_index(["source", "image"])["photo"].reindex(pairs).set_axis(frame.index)
    return frame.assign(source=".", image=photo)[photo.notna()]


def _raw(site, folder: Path, workers: int) -> None:
    from reefcore.sample import reef

    reef.generate(folder.parent / "raw", site.seed)


def _read(site, folder: Path, workers: int) -> None:
    from reefcore.site import tables

    found = tables.make(site, keys.root(), workers)
    for name in READ:
        write_parquet(found[name], folder / f"{name}.parquet")


def _label(site, folder: Path, workers: int) -> None:
    from reefcore.site import checks, tables

    given, points = _decisions(site, folder), read_parquet(folder / "points.parquet")
    covers = read_parquet(folder / "covers.parquet")
    labels, annotations, problems = tables.label(site, points, keys.root(), covers=covers)
    said = checks.table(checks.of_labels(labels, problems))
    for name, table in {"labels": labels, "annotations": annotations, "label_checks": said}.items():
        write_parquet(table, folder / f"{name}.parquet")
    path = site.at(site.labels, keys.root())
    if path.exists():
        write_json({"given": given, "left": keys.digest(path)}, _left(folder))


def _covariates(site, folder: Path, workers: int) -> None:
    from reefcore import covariates

    images, photos = read_parquet(folder / "images.parquet", ["source", "image", "photo"]), photo_folder(site)
    table, unreadable = covariates.table(located(images, images), photos or folder, workers)
    for name, one in {"covariates": table, "unreadable": unreadable}.items():  # a photo can be of several images
        named = one.drop(columns="source").rename(columns={"image": "photo"}).merge(images, on="photo")
        write_parquet(named.sort_values(["source", "image"])[list(one)], folder / f"{name}.parquet")


def _classify(site, folder: Path, workers: int) -> None:
    from reefcore import machine

    points, images = read_parquet(folder / "annotations.parquet"), read_parquet(folder / "images.parquet")
    asked = dict(site.classifier)
    if not asked.pop("use", True):
        found = machine.empty("No classifier: site.yaml says `classifier: {use: false}`.")
    elif not images["photo"].notna().any():
        found = machine.empty("No classifier: the site has no photos.")
    else:
        if asked.get("checkpoint"):
            asked["checkpoint"] = site.at(asked["checkpoint"], keys.root())
        if asked.get("weights") and (folder_of := site.at(asked["weights"], keys.root())).is_dir():
            asked["weights"] = str(folder_of)
        photos = read_parquet(folder / "covariates.parquet")
        found = machine.classify(points, images, photo_folder(site), covariates=photos, seed=site.seed, **asked)
    for name in CLASSIFIED:
        write_parquet(found[name], folder / f"{name}.parquet")


def _cover(site, folder: Path, workers: int) -> None:
    """Write percent cover, and how it changed, for spreadsheets: a file for each kind of category and of unit."""
    from reefcore import cover, overview

    points, covers = read_parquet(folder / "annotations.parquet"), read_parquet(folder / "covers.parquet")
    table, measure = points, cover.percent_cover
    if points.empty:
        table, measure = overview.meaning(covers, read_parquet(folder / "labels.parquet")), cover.from_counts
    place, options = folder.parent / "csv" / "cover", {"seed": site.seed, "n": site.resamples}
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    image = "image" if len(points) else "unit"
    for by in BY if len(table) else ():
        if by not in table:
            continue
        for unit in ("all", "site", "transect", "date", image):
            if unit == image or unit == "all" or table[unit].notna().any():
                found = measure(table, by, unit, **options)
                # Of single images, as CoralNet lays them out; what an interval needs is one level up.
                write_csv(cover.wide(found) if unit == image else found, place / f"{by}-{unit}.csv")
        if 1 < table["date"].dropna().astype("str").str[:10].nunique() <= DATES:
            write_csv(cover.change(table, by, "date", **options), place / f"{by}-change.csv")


def given(site) -> str:
    """Return what a notebook or a command line names a site by: relative to the root, where it lies below it."""
    path = site.path.absolute()
    if site.is_made_up:
        return own.MADE_UP
    return str(path.relative_to(keys.root()) if path.is_relative_to(keys.root()) else path)


def load(name_or_path: str | Path):
    """Load the site that somebody means, or None where a profile is meant.

    ``made-up``; a site.yaml; a folder with one; or a name below ``sites/`` in the current folder. A relative path is
    looked for from the current folder, from the one above (where a notebook of the site lies), then from the root.
    """
    if str(name_or_path) == own.MADE_UP:
        return own.load(own.MADE_UP)
    if str(name_or_path) in profiles.names():
        return None
    wanted = Path(name_or_path)
    tops = [Path.cwd(), Path.cwd().parent, keys.root()]
    for top in tops if not wanted.is_absolute() else [Path()]:
        for path in (top / wanted, top / wanted / own.FILE, top / "sites" / own.slug(str(name_or_path)) / own.FILE):
            if path.suffix in (".yaml", ".yml") and path.is_file() and _is_site(path):
                return own.load(path)
    if wanted.name == own.FILE:
        raise ReefcoreError("there is no such site.yaml", wanted, "make one: reefcore site new NAME --annotations FILE")
    return None


def _is_site(path: Path) -> bool:
    """Tell a site.yaml of whatever name from a profile: it names annotations."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return path.name == own.FILE or bool(re.search(r"(?m)^annotations\s*:", text))
