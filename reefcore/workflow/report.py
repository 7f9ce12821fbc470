"""The report of a site: its chapters run beside its site.yaml, its tables for spreadsheets, and one page of it all."""

from __future__ import annotations

import dataclasses
import html
import importlib.util
import logging
import re
from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import atomic
from reefcore.parallel import pool
from reefcore.workflow import build, keys, notebook, page, sites, steps
from reefcore.workflow.project import SiteProject, code_version, open

logger = logging.getLogger(__name__)

NEEDED = ("ipykernel", "papermill", "nbformat", "markdown_it")
TABLES = ("images", "photos", "problems", "left_out", "covers", "labels", "annotations", "classifier", "machine")
EXPORTS = {"darwin-core": "darwin-core.csv", "coralnet": "coralnet.csv", "croissant": "annotations.parquet"}


@dataclass
class Report:
    """What `make` made.

    Attributes
    ----------
    page : Path
        The report, one HTML file.
    chapters : dict
        Name of each chapter -> None, or the sentence why it is not in the report.
    files : list of Path
        Tables for spreadsheets.
    ran : list of str
        Chapters that were run; the others were up to date.
    """

    page: Path
    chapters: dict[str, str | None] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)


def make(
    name_or_path: str | Path,
    only: list[str] | None = None,
    given: dict | None = None,
    cores: int = 2,
    say: Callable[[str], object] = logger.info,
) -> Report:
    """Make the report of a site: ``report.html``, ``notebooks/``, ``csv/`` and ``exports/`` beside its site.yaml.

    A chapter that fails is said, and the others are made; one that is up to date is not run again, so a report that was
    interrupted goes on where it was.

    Parameters
    ----------
    name_or_path : str or path
        See `reefcore.site.load`.
    only : list of str, optional
        Chapters, as ``84_cover`` or ``cover``; all by default.
    given : dict, optional
        Parameters of the chapters; each takes those that it has.
    cores : int
        Chapters at a time.
    say : callable
        Is told what is done, in a few words.

    Raises
    ------
    ReefcoreError
        Where the site is not right, its files cannot be read, a chapter or a parameter is not known, or a package that
        this needs is not installed.
    """
    from reefcore import site as own

    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        what = f"the report needs {', '.join(name.replace('_', '-') for name in missing)}, which is not installed"
        raise ReefcoreError(what, do="pip install 'reefcore[book]'")
    if cores < 1:
        raise ReefcoreError(f"nothing can be run on {cores} cores", do="give --cores 1 or more")
    given = dict(given or {})
    project = open(own.load(name_or_path), _seed(given.pop("seed", None)))
    home, chapters = project.folder.parent, _chapters(project, only, given)
    needed = {step: None for chapter in chapters for step in chapter.steps}
    needed |= {(project.profile, project.folder, name): None for name in steps.plan(project.profile)}
    broken = {}
    for one, folder, name in needed:
        if not steps.is_fresh(one, folder, name):
            say(f"making {name}")
        try:
            steps.ensure(one, folder, name, cores)
        except Exception as error:  # what a library lets through is said too, and the other chapters are made
            if name in ("raw", "read", "labels"):  # without these there is nothing to report
                raise
            broken[name] = str(error) if isinstance(error, ReefcoreError) else f"{type(error).__name__}: {error}"
    result = Report(home / "report.html")
    result.chapters = _run(chapters, home, cores, result.ran, say)
    fine = [one for one in chapters if result.chapters[one.name] is None]
    names = [one.name for one in fine]
    sections = [
        page.section(name, notebook.read(home / "notebooks" / f"{name}.ipynb"), names, project.notice) for name in names
    ]
    result.files = _tables(project, home / "csv", sections) + _exports(project, home / "exports")
    missing = {**{f"the step {name}": why for name, why in broken.items()}, **result.chapters}
    text = page.write(project.profile.name, project.notice, _summary(project, missing), sections, _foot(project))
    with atomic(result.page) as temporary:
        temporary.write_text(_private(text, project), encoding="utf-8")
    return result


def _seed(given) -> int | None:
    if given is None or re.fullmatch(r"\d+", str(given)):
        return None if given is None else int(given)
    raise ReefcoreError(f"the seed {given!r} is no whole number", do="give 0 or more")


def _chapters(project: SiteProject, only: list[str] | None, given: dict) -> list[build.Chapter]:
    """Choose the chapters of a site, with the parameters they will have."""
    known = build.notebooks(site=True)
    stems = {**{name.partition("_")[2]: name for name in known}, **{name: name for name in known}}
    if unknown := [name for name in only or () if name not in stems]:
        do = f"choose from {', '.join(name.partition('_')[2] for name in known)}"
        raise ReefcoreError(f"a report has no chapter {unknown[0]!r}", do=do)
    if wrong := [name for name in given if name in ("profile", "site", "reefnet")]:
        raise ReefcoreError(f"{wrong[0]} is not chosen here: the report is of {project.profile.name}")
    names = [name for name in known if name in {stems[one] for one in only or known}]
    if not names:
        raise ReefcoreError("no chapters of a site travel with this installation of reefcore", do="install it again")
    seed = {} if project.profile.own_seed else {"seed": project.seed}
    asked = {"profile": str(project.profile.path)} if not project.profile.is_made_up else {}
    chapters = build.chapters([str(known[name]) for name in names], given | seed | asked)
    if project.profile.is_made_up:
        return chapters
    # Named from the folder of the site, where the notebooks lie to be run again, wherever that folder goes.
    file = {"profile": project.profile.path.name}
    return [dataclasses.replace(one, profile=project.profile, given=one.given | file) for one in chapters]


def _run(chapters: list[build.Chapter], home: Path, cores: int, ran: list[str], say) -> dict[str, str | None]:
    """Run the chapters that are not up to date, several at a time; say of each why it failed, if it did."""
    said = {one.name: None for one in chapters}
    stale = [one for one in chapters if not build.is_fresh(one, home / "notebooks")]
    cwd = keys.root() if chapters[0].profile.is_made_up else home
    if not stale:
        return said
    with pool(min(cores, len(stale))) as processes:
        jobs = {processes.submit(_one, one, home, cwd, keys.root()): one.name for one in stale}
        try:
            for number, job in enumerate(as_completed(jobs), start=1):
                name = jobs[job]
                said[name] = job.result()
                ran.append(name)
                say(f"chapter {name} ({number} of {len(jobs)})" + (f": {said[name]}" if said[name] else ""))
        except BaseException:
            processes.shutdown(wait=False, cancel_futures=True)
            raise
    return said


def _one(chapter: build.Chapter, home: Path, cwd: Path, top: Path) -> str | None:
    """Run one chapter in this process and its kernel: None, or the sentence why it failed."""
    # Several kernels with several threads of linear algebra each slow each other down.
    env = {"OMP_NUM_THREADS": "1", keys.ROOT: str(top)}
    try:
        build.ensure(chapter, home / "notebooks", 1, cwd=cwd, place=home / "tables", env=env)
    except ReefcoreError as error:
        return error.what
    return None


def _tables(project: SiteProject, folder: Path, sections: list[page.Section]) -> list[Path]:
    """Write the tables for spreadsheets: those of the site, and those behind the pages."""
    written = []
    for name in TABLES:
        written.append(sites.write_csv(project.table(name), folder / f"{name}.csv"))
    for section in sections:
        for name, text in section.files.items():
            with atomic(folder / "chapters" / name) as temporary:
                temporary.write_text(text, encoding="utf-8-sig")
            written.append(folder / "chapters" / name)
    return written + sorted((folder / "cover").glob("*.csv"))


def _exports(project: SiteProject, folder: Path) -> list[Path]:
    """Write the annotations for other programs: OBIS and GBIF, CoralNet, and those that read Croissant."""
    from reefcore.annotations import export

    points = project.table("annotations")
    if not len(points):  # percents only
        return []
    positions, name, written = project.profile.privacy.get("positions", "exact"), project.profile.name, []
    for format, file in EXPORTS.items():
        written += export.write(points, folder / file, format, positions=positions, name=name)["files"]
    return [Path(file) for file in written]


def _summary(project: SiteProject, missing: dict[str, str | None]) -> str:
    """Say on top what is there, what covers the reef, what to look at, and what this report lacks; HTML."""
    from reefcore.annotations.points import counted
    from reefcore.figures import show_table

    images, points = project.table("images", ["photo", "date", "site", "transect"]), project.table("points", ["image"])
    photos = images["photo"].notna().sum()
    lines = [f"{counted(len(images), 'image')}, {photos:,} with a photo, and {counted(len(points), 'point')}"]
    if project.has("dates"):
        lines.append(f"from {images['date'].min():%Y-%m-%d} to {images['date'].max():%Y-%m-%d}")
    for name, columns in {"site": ["site"], "transect": ["site", "transect"]}.items():
        if number := len(images.loc[images[name].notna(), columns].drop_duplicates()):
            lines.append(counted(number, name))
    parts = [f"<p>{html.escape('; '.join(lines))}.</p>"]
    groups = project.folder.parent / "csv" / "cover" / "functional_group-all.csv"
    if groups.exists():
        cover = pd.read_csv(groups, encoding="utf-8-sig").sort_values("percent", ascending=False)
        cover = cover[["functional_group", "percent", "ci_low", "ci_high", "count", "total", "images"]]
        shown = cover.rename(columns={"functional_group": "group", "ci_low": "low", "ci_high": "high"})
        caption = "Percent cover of all images, each image counting the same, with an interval of 95 %."
        formats = dict.fromkeys(["percent", "low", "high"], ".1f")
        parts.append(show_table(shown, "short-cover", caption, project.notice, formats).markup)
    checks = pd.concat([project.table("checks"), project.table("label_checks")])
    checks = checks[checks["state"].isin(["wrong", "warning"])].sort_values("state", ascending=False, kind="stable")
    if len(checks):
        shown = checks[["state", "check", "text", "examples"]]
        parts.append(show_table(shown, "short-checks", "What to look at first.", project.notice).markup)
    parts += [
        f'<p class="failed">{html.escape(name)} is missing: {html.escape(why)}</p>'
        for name, why in missing.items()
        if why
    ]
    return f'<section><h2 id="in-short">In short</h2>{"".join(parts)}</section>'


def _foot(project: SiteProject) -> list[str]:
    code = code_version()
    return [
        f"Made by reefcore {code['version']} (code {code['label']}) on this computer; nothing was sent anywhere.",
        "The notebooks behind the chapters are in the folder notebooks, the tables in csv, the labels in labels.csv; "
        "exports has the annotations for other programs (Darwin Core, CoralNet, Croissant).",
    ]


def _private(text: str, project: SiteProject) -> str:
    """Take the folders of this machine out of a page, should a message have named one."""
    places = {str(project.folder.parent): "", str(keys.PACKAGE): "reefcore", str(Path.home()): "~"}
    if folder := sites.photo_folder(project.profile):
        places[str(folder)] = folder.name
    places |= {str(Path(place).resolve()): name for place, name in places.items()}
    for place in sorted((p for p in places if len(p) > 4), key=len, reverse=True):
        text = text.replace(f"{place}/", f"{places[place]}/".lstrip("/")).replace(place, places[place] or ".")
    return text
