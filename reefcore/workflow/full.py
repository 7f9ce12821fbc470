"""The full profile as it stands: what is there, which chapters can run with it, and the command that gets the rest.

What a chapter needs is read from its code, as the build does: the steps whose tables it reads, down to what comes from
outside and to what takes a GPU. A read that stands under ``if project.has("photos")`` is one it can do without.
"""

from __future__ import annotations

import ast
import functools
import html
import json
import os
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from reefcore import profiles
from reefcore.errors import ReefcoreError
from reefcore.fetch import ITEMS
from reefcore.files import read_parquet, sha256, write_json
from reefcore.profiles import Profile

#: Steps that take a GPU -> what they make, and the command that makes it.
RUNS = {
    "train": ("trained models", "train"),
    "zero_shot": ("answers of models that were not trained here", "zero-shot"),
    "few_shot": ("few-shot curves", "prepare few_shot"),
    "open_set": ("models that some classes were kept from", "prepare open_set"),
    "substrate": ("trained models of the substrate survey", "prepare substrate"),
    "pseudo_labels": ("pseudo-labels of the substrate survey", "prepare pseudo_labels"),
}
#: Steps that stand for what comes from outside -> what `reefcore fetch` calls it.
OUTSIDE = {"released": ("annotations", "metadata"), "photos": ("images",), "survey": ("substrate",)}
WITHOUT = {"covariates": ("photos",)}  # step -> what it can do without: then its table is empty
HASHED = 100 << 20  # bytes; a larger file is hashed only where it was touched after it was fetched
THERE, PARTLY, MISSING, BROKEN = "there", "partly", "missing", "broken"
YES, SOME, NO = "yes", "in part", "no"


# ------------------------------------------------------------------------------------- what a chapter can do without


class _Bare(ast.NodeTransformer):
    """Take out of code what it does only where ``project.has(...)``, and collect what it asks for, and where."""

    def __init__(self):
        self.asked: dict[str, list[int]] = {}

    def _asks(self, test: ast.expr) -> bool:
        calls = [node for node in ast.walk(test) if isinstance(node, ast.Call)]
        named = [call.args[0] for call in calls if ast.unparse(call.func) == "project.has" and call.args]
        for name in named:
            self.asked.setdefault(getattr(name, "value", ast.unparse(name)), []).append(test.lineno)
        return bool(named)

    def visit_If(self, node):  # noqa: N802 - the name that ast asks for
        """Keep the branch that is run without it."""
        asks, no = self._asks(node.test), isinstance(node.test, ast.UnaryOp)
        self.generic_visit(node)
        return ((node.body if no else node.orelse) or ast.Pass()) if asks else node

    def visit_IfExp(self, node):  # noqa: N802
        """Keep the value that is taken without it."""
        asks, no = self._asks(node.test), isinstance(node.test, ast.UnaryOp)
        self.generic_visit(node)
        return (node.body if no else node.orelse) if asks else node


def bare(code: str) -> tuple[str, dict[str, list[int]]]:
    """Take out of a notebook's code what it does only where the project has something.

    Returns
    -------
    str
        What is left.
    dict
        What it asks `Project.has` for -> the lines where.
    """
    taken = _Bare()
    return ast.unparse(taken.visit(ast.parse(code))), taken.asked


# ------------------------------------------------------------------------------------------------------ how it stands


class Stand:
    """How the data folder of a profile of kind full stands; what was looked at is not looked at again.

    Attributes
    ----------
    profile : Profile
    folder : Path or None
        None where a variable of the environment names it that is not set; `unset` says so.
    train : bool
        Whether trainings may be started here.
    """

    def __init__(self, profile: Profile):
        from reefcore.workflow import keys, launch, steps

        self.profile, self.unset, self.folder = profile, "", None
        try:
            self.folder = profile.folder(keys.root())
        except ReefcoreError as error:
            self.unset = f"{error.what}: {error.do}"
        self.plan, self.train = steps.plan(profile), launch.may_train(profile)
        self._lacks: dict[str, dict[str, bool]] = {}

    def command(self, words: str) -> str:
        """Write a command for this profile."""
        name = profiles.given(self.profile)
        own = name != "full" or not words.startswith(("fetch", "full"))  # whose default it is
        return f"reefcore {words}{f' --profile {shlex.quote(name)}' if own else ''}"

    def path(self, *names: str) -> Path | None:
        """Return a path below the data folder where something is there."""
        path = self.folder.joinpath(*names) if self.folder else None
        return path if path and path.exists() else None

    @functools.cached_property
    def photos(self) -> tuple[int, int, int]:
        """Count photos: there, wanted (of the table of images; 0 where there is none yet), in quarantine."""
        images = self.path("images.parquet")
        there, held = (sum(map(len, _folders(self.path(name)).values())) for name in ("photos", "quarantine"))
        return there, len(read_parquet(images, [])) if images else 0, held

    @functools.cached_property
    def runs(self) -> dict[str, tuple[int, int]]:
        """Count of each of `RUNS` in the plan: how many are up to date, and how many there are."""
        from reefcore.workflow import steps

        counted = {}
        for name in filter(self.plan.__contains__, RUNS):
            parts = [name] if self.plan[name].modules else self.plan[name].needs  # a step without stands for its needs
            made = [one for one in parts if self.path(".keys", f"{one}.json")]
            counted[name] = sum(steps.is_fresh(self.profile, self.folder, one) for one in made), len(parts)
        return counted

    def has(self, step: str) -> bool:
        """Tell whether there is anything of what comes from outside."""
        from reefcore import released
        from reefcore.workflow.steps import SURVEY

        if self.folder is None:
            return False
        if step == "released":
            return released.is_there(self.folder) or all(map(self.path, SURVEY))
        if step == "photos":
            return self.photos[0] > 0
        return self.plan[step].optional or all(map(self.path, self.plan[step].outputs))

    def lacks(self, step: str) -> dict[str, bool]:
        """List what a step lacks, of `RUNS` and from outside -> whether it can do without."""
        if step in self._lacks:
            return self._lacks[step]
        made, found = self.plan[step], {}
        needs = made.needs
        if made.external:
            found = {} if self.has(step) else {step: False}
        elif step in RUNS and self.runs[step][0] == self.runs[step][1]:
            needs = ()  # whatever it was made of
        elif step in RUNS and not self.train:
            found = {step: False}
        for need in needs:
            for name, soft in self.lacks(need).items():
                found[name] = found.get(name, True) and (soft or name in WITHOUT.get(step, ()))
        self._lacks[step] = found
        return found

    def without(self, needs: Iterable[str], hard: Iterable[str]) -> tuple[str, ...]:
        """List the steps that a chapter does without now: not `hard`, and lacking something."""
        return tuple(n for n in needs if n not in hard and self.folder and not all(self.lacks(n).values()))

    def missing(self, name: str) -> bool:
        """Tell whether a notebook is told no where it asks ``project.has(name)``, as far as is known before it runs."""
        from reefcore.workflow import steps

        if name == "reviews":
            return not (self.path("reviews.csv") or ((made := self.path("reviews.parquet")) and len(read_parquet(made, []))))
        output = {"photos": "photos", "frames": "frames"}.get(name, f"{name}.parquet")
        step = steps.maker(self.profile, name if name in steps.SEVERAL else output)
        return step is None or bool(self.lacks(step))


def _folders(folder: Path | None) -> dict[str, list[str]]:
    """List the files in each folder of a folder; 300,000 take half a second."""
    inside = sorted(one.name for one in os.scandir(folder) if one.is_dir()) if folder else []
    return {name: [one.name for one in os.scandir(folder / name) if one.name[0] != "."] for name in inside}


# --------------------------------------------------------------------------------------------------- what is there


def items(stand: Stand) -> list[dict]:
    """List what the profile takes.

    Returns
    -------
    list of dict
        ``item``, ``what``, ``state`` (there, partly, missing, broken), ``there`` and ``of`` (files, photos or runs; None
        where nothing is counted), ``note``, ``command`` (that gets it; empty where nothing is to be done, or can be).
    """
    rows = [_released(stand, name) for name, item in ITEMS.items() if item.files]
    if rows[0]["state"] == MISSING and stand.has("released"):
        rows[0] |= {"state": THERE, "note": "as tables that were put into the folder", "command": ""}
    survey = "survey" not in stand.plan or stand.has("survey")
    part = not survey and stand.path("substrate")
    note = "its files are there, and the tables that chapters read are not" if part else ""
    rows += [_fetched(stand, "meow", stand.path("meow")), _fetched(stand, "substrate", survey, part, note)]
    rows += _weights(stand)
    there, wanted, held = stand.photos
    note = f"{held:,} in quarantine" if held else "" if wanted else "how many is known when the annotations are there"
    done = there >= wanted > 0
    rows.append(_fetched(stand, "images", done, there > 0 and not done, note) | {"there": there, "of": wanted or None})
    verdicts, domains = not stand.missing("reviews"), list(_folders(stand.path("domains")))
    note = "the release has none that is known of; your own go there as reviews.csv"
    rows.append(_row("reviews", "verdicts of experts on labels", verdicts, note="" if verdicts else note))
    rows.append(_row("domains", "other datasets, as test domains", domains, note=", ".join(domains)))
    cut = stand.path(".keys", "patches.json")
    rows.append(_row("patches", "crops around the points", cut, command=stand.command("prepare patches")))
    for name, (made, of) in stand.runs.items():
        what, words = RUNS[name]
        rows.append(_row(name, what, made == of, made, stand.command(words)) | {"there": made, "of": of})
    return rows + _machine(stand)


def _row(item: str, what: str, there, part=False, command: str = "", note: str = "") -> dict:
    state = THERE if there else PARTLY if part else MISSING
    row = {"item": item, "what": what, "state": state, "there": None, "of": None, "note": note}
    return row | {"command": "" if there else command}


def _fetched(stand: Stand, name: str, there, part=False, note: str = "") -> dict:
    return _row(name, ITEMS[name].about, there, part, stand.command(f"fetch {name}"), note)


def _released(stand: Stand, name: str) -> dict:
    """Compare the files of an item with the record of what was fetched: sizes, and hashes where that is quick."""
    folder, names, bad = stand.path("released"), ITEMS[name].files, []
    record = stand.path("released", "fetched.json")
    known = json.loads(record.read_text(encoding="utf-8")) if record else {}
    found = [file for file in names if folder and (folder / file).exists()]
    for file in found:
        said, now = known.get(file, {}), (folder / file).stat()
        touched = now.st_size < HASHED or (record and now.st_mtime > record.stat().st_mtime)
        if now.st_size != said.get("size", now.st_size):
            bad.append(f"{file} has {now.st_size:,} bytes instead of {said['size']:,}")
        elif touched and "sha256" in said and sha256(folder / file) != said["sha256"]:
            bad.append(f"{file} is not what was fetched")
    notes = bad + [f"without {file}" for file in names if found and file not in found]
    if name == "al-wajh" and found and not stand.path("photos", stand.profile.site):
        notes.append("without its photos")
    row = _fetched(stand, name, found and not notes, found, "; ".join(notes)) | {"there": len(found), "of": len(names)}
    return row | ({"state": BROKEN} if bad else {})


def _weights(stand: Stand) -> list[dict]:
    return []


def _machine(stand: Stand) -> list[dict]:
    from reefcore.workflow import launch

    gpus, near = launch.gpus(), stand.folder or Path.cwd()
    while not near.exists():
        near = near.parent
    note = ", ".join(gpus) or f"without one, trainings start only where they are asked for (--train, {launch.TRAIN}=1)"
    free = f"{shutil.disk_usage(near).free / 1e9:,.0f} GB free where the data lie"
    return [_row("GPU", "of this machine", gpus, note=note), _row("disk", free, True)]


# -------------------------------------------------------------------------------------------------------- chapters


@dataclass(frozen=True)
class Standing:
    """How a chapter stands.

    Attributes
    ----------
    chapter : str
    runs : {'yes', 'in part', 'no'}
    needs, lacks : tuple of str
        What it needs of `RUNS` and of what comes from outside, and what of that is missing.
    sections : tuple of str
        Headings of the sections that are left out.
    why, command : str
    """

    chapter: str
    runs: str
    needs: tuple[str, ...]
    lacks: tuple[str, ...]
    sections: tuple[str, ...]
    why: str
    command: str


def of(chapter, stands: dict[Profile, Stand] | None = None) -> Standing:
    """Say how a chapter of `reefcore.workflow.build` stands; `stands` keeps what was looked at of each profile."""
    from reefcore.workflow import build, notebook

    stands, lacks, needs, sections, part = {} if stands is None else stands, {}, {}, [], ""
    for one, wanted in ((chapter.profile, (*chapter.needs, *chapter.without)), *chapter.beside):
        if one.kind != "full":
            continue
        stand = stands[one] = stands.get(one) or Stand(one)
        for need in wanted:
            needs |= dict.fromkeys(stand.roots(need))
            for name, soft in stand.lacks(need).items():
                lacks[name] = lacks.get(name, True) and (soft or need in chapter.without)
        if one == chapter.profile:
            content = notebook.read(chapter.notebook)
            missing = {name for name in bare(build.code(content))[1] if stand.missing(name)}
            sections = _sections(content, missing)
            lacks |= dict.fromkeys({"reviews"} & missing, True)
        if "photos" in needs and 0 < stand.photos[0] < stand.photos[1]:
            part = "with {:,} of {:,} photos".format(*stand.photos)
    runs = NO if not all(lacks.values()) else SOME if lacks or part else YES
    if lacks:
        part = f"{'it needs' if runs == NO else 'without'} {', '.join(WORDS[name] for name in lacks)}" + f"; {part}" * bool(part)
    fetched = [what for name in lacks for what in OUTSIDE.get(name, ())] + ["images"] * (SOME == runs and "photos" in part)
    words = [f"fetch {' '.join(dict.fromkeys(fetched))}"] * bool(fetched)
    words += [RUNS[name][1] for name in lacks if name in RUNS]
    if runs != SOME and not words:
        words = [f"run {chapter.name.partition('_')[2]}"]
    command = " && ".join(stand.command(one) for one in words) if needs else f"reefcore run {chapter.name}"
    return Standing(chapter.name, runs, tuple(needs), tuple(lacks), tuple(sections), part, command)


def _sections(content, missing: set[str]) -> list[str]:
    """List the headings above the cells of a notebook that ask for something that is missing."""
    heading, found = "", {}
    for cell in content.cells:
        if cell.cell_type == "code":
            found |= dict.fromkeys([heading] * bool(missing & {*bare(code_of(cell))[1]}))
        elif lines := [line for line in cell.source.splitlines() if line.startswith("#")]:
            heading = lines[-1].lstrip("# ")
    return [*found]
