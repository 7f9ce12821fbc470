"""The full profile as it stands: what is there, which chapters can run with it, and the command that gets the rest.

What a chapter needs is read from its code, as the build does: the steps whose tables it reads, down to what comes from
outside and to what takes a GPU. A read that stands under ``if project.has("photos")`` is one it can do without.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import re
import shlex
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from reefcore import profiles
from reefcore.errors import ReefcoreError
from reefcore.fetch import ITEMS
from reefcore.files import free, read_parquet, write_json
from reefcore.profiles import Profile
from reefcore.site import MADE_UP

#: Steps that take a GPU -> what they make, and the command that makes it.
RUNS = {
    "train": ("trained models", "train"),
    "zero_shot": ("zero-shot answers", "zero-shot"),
    "few_shot": ("few-shot runs", "prepare few_shot"),
    "open_set": ("open-set runs", "prepare open_set"),
    "substrate": ("substrate models", "prepare substrate"),
    "pseudo_labels": ("pseudo-labels", "prepare pseudo_labels"),
}
#: Steps that stand for what comes from outside -> what `reefcore fetch` calls it.
OUTSIDE = {"released": ("annotations", "metadata"), "photos": ("images",), "survey": ("substrate",)}
WORDS = {"released": "annotations", "photos": "photos", "survey": "substrate survey", "reviews": "expert verdicts"}
WORDS |= {"domains": "other data sets"}
WORDS |= {name: words for name, (words, _) in RUNS.items()}
OWN = {"reviews": "reviews", "domain_points": "domains"}  # table -> what is a user's own: a chapter goes on without
WITHOUT = {"covariates": ("photos",)}  # step -> what it can do without: then its table is empty
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

    def visit_If(self, node):
        """Keep the branch that is run without it."""
        asks, no = self._asks(node.test), isinstance(node.test, ast.UnaryOp)
        self.generic_visit(node)
        return ((node.body if no else node.orelse) or ast.Pass()) if asks else node

    def visit_IfExp(self, node):
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
        self._roots: dict[str, dict[str, None]] = {}

    @property
    def half(self) -> str:
        """Name the tables that lack where somebody brought some of the four."""
        from reefcore.workflow import steps

        lacking = [name for name in steps.SURVEY if not self.path(name)]
        return f" (of the tables in its folder, {', '.join(lacking)} is missing)" if 0 < len(lacking) < 4 else ""

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

    def roots(self, step: str) -> dict[str, None]:
        """List what a step is made of at last: `RUNS`, and what comes from outside."""
        if step not in self._roots:
            found = {step: None} if step in RUNS or self.plan[step].external else {}
            for need in self.plan[step].needs:
                found |= self.roots(need)
            self._roots[step] = found
        return self._roots[step]

    def without(self, needs: Iterable[str], hard: Iterable[str]) -> tuple[str, ...]:
        """List the steps that a chapter does without now: not `hard`, and lacking something."""
        return tuple(n for n in needs if n not in hard and self.folder and not all(self.lacks(n).values()))

    def missing(self, name: str) -> bool:
        """Tell whether a notebook is told no where it asks ``project.has(name)``, as far as is known before it runs."""
        from reefcore.workflow import steps

        if name == "domains":
            return not _folders(self.path("domains"))
        if name == "reviews":
            made = self.path("reviews.parquet")
            return not (self.path("reviews.csv") or (made and len(read_parquet(made, []))))
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
        ``item``, ``what``, ``state`` (there, partly, missing, broken), ``there`` and ``of`` (files, photos or runs;
        None where nothing is counted), ``note``, ``command`` (empty where there is nothing to do, or nothing helps).
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
    said = [f"{count:,} {words}" for words, count in _tried(stand).items()] or [f"{held:,} in quarantine"] * bool(held)
    note = ", ".join(said) if said or wanted else "how many is known when the annotations are there"
    done = there >= wanted > 0
    rows.append(_fetched(stand, "images", done, there > 0 and not done, note) | {"there": there, "of": wanted or None})
    verdicts, domains = not stand.missing("reviews"), list(_folders(stand.path("domains")))
    note = "the release has none that is known of; your own go there as reviews.csv"
    rows.append(_row("reviews", "verdicts of experts on labels", verdicts, note="" if verdicts else note))
    rows.append(_row("domains", "other datasets, as test domains", domains, note=", ".join(domains)))
    cut = stand.path(".keys", "patches.json")
    rows.append(_row("patches", "crops around the points", cut, command=stand.command("prepare patches")))
    for name, (made, of) in stand.runs.items():
        row = _row(RUNS[name][0], f"the step {name}", made == of, made, stand.command(RUNS[name][1]))
        rows.append(row | {"there": made, "of": of})
    return rows + _machine(stand)


def _row(item: str, what: str, there, part=False, command: str = "", note: str = "") -> dict:
    state = THERE if there else PARTLY if part else MISSING
    row = {"item": item, "what": what, "state": state, "there": None, "of": None, "note": note}
    return row | {"command": "" if there else command}


def _fetched(stand: Stand, name: str, there, part=False, note: str = "") -> dict:
    return _row(name, ITEMS[name].about, there, part, stand.command(f"fetch {name}"), note)


def _released(stand: Stand, name: str) -> dict:
    """Compare the files of an item with the record of what was fetched; one that nobody touched is not read."""
    from reefcore.fetch import hub

    folder, names = stand.path("released"), ITEMS[name].files
    found = [file for file in names if folder and (folder / file).exists()]
    known = hub.record(folder) if found else {}
    bad = [
        f"{file} is not as it was fetched" for file in found if file in known and not hub.is_there(folder, file, known)
    ]
    notes = bad + [f"without {file}" for file in names if found and file not in found]
    if name == "al-wajh" and found and not stand.path("photos", stand.profile.site):
        notes.append("without its photos")
    row = _fetched(stand, name, found and not notes, found, "; ".join(notes)) | {"there": len(found), "of": len(names)}
    return row | ({"state": BROKEN} if bad else {})


def _weights(stand: Stand) -> list[dict]:
    """Look for the models of the profile's recipes in the hub's cache, by name; `fetch weights` looks into them."""
    from huggingface_hub.constants import HF_HUB_CACHE

    from reefcore import recipes
    from reefcore.recipes import zero_shot
    from reefcore.substrate import training

    one, names = (
        stand.profile,
        [name for kind in ("recipes", "patch_recipes") for name in stand.profile.substrate.get(kind, ())],
    )
    found = [recipes.load(name, one.kind, one.recipe_changes) for name in one.recipes]
    found += [training.recipe(name, one.kind, one.recipe_changes) for name in names]
    found += [recipe for recipe in map(zero_shot.load, one.zero_shot) if recipe.kind == "clip"]
    rows = []
    for model in sorted({recipe.model for recipe in found if recipe.weights == "hub"}):
        name = model.removeprefix("hf-hub:")
        name = f"models--{name.replace('/', '--')}" if "/" in name else f"models--timm--{name}*"
        there = next(Path(HF_HUB_CACHE).glob(f"{name}/snapshots/*/*"), None)
        rows.append(_row(f"weights {model}", ITEMS["weights"].about, there, command=stand.command("fetch weights")))
    return rows


def _tried(stand: Stand) -> dict[str, int]:
    """Count, by the manifest of `fetch images`, the photos that were tried and are not there."""
    if not (path := stand.path("photos.sqlite")):
        return {}
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as base:
        try:
            counted = dict(base.execute("SELECT state, count(*) FROM photos GROUP BY state"))
        except sqlite3.Error as error:
            raise ReefcoreError(
                f"the manifest of photos cannot be read ({error})", path, "see that it is whole"
            ) from None
    words = {"missing": "not at their host", "quarantined": "in quarantine", "failed": "to be tried again"}
    return {words[state]: int(counted[state]) for state in words if state in counted}


def _machine(stand: Stand) -> list[dict]:
    from reefcore.workflow import launch, resources

    gpus, room = len(resources.gpus()), free(stand.folder or Path.cwd())
    note = "" if gpus else f"trainings start only where they are asked for (--train, or {launch.TRAIN}=1)"
    row = _row("GPU", "of this machine", gpus, note=note) | {"there": gpus}
    return [row, _row("disk", f"{room / 1e9:,.0f} GB free where the data lie", True)]


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
            text = build.code(content)
            sections = _sections(content, {name for name in bare(text)[1] if stand.missing(name)})
            read = dict.fromkeys(_own(text))
            needs |= read
            lacks |= {name: True for name in read if stand.missing(name)}
        if "photos" in needs and 0 < stand.photos[0] < stand.photos[1]:
            part = "with {:,} of {:,} photos".format(*stand.photos)
    needs, lacks = ({name: found.get(name) for name in WORDS if name in found} for found in (needs, lacks))
    runs = NO if not all(lacks.values()) else SOME if lacks or part else YES
    first = [name for name, soft in lacks.items() if runs == SOME or not soft]
    half = stands[chapter.profile].half if chapter.profile in stands else ""
    words = ", ".join(WORDS[name] + half * (name == "released") for name in first)
    why = [f"it needs {words}"] if runs == NO else [f"without {words}" if first else "", part]
    fetched = [what for name in first for what in OUTSIDE.get(name, ())] + ["images"] * (runs == SOME and bool(part))
    todo = [f"fetch {' '.join(dict.fromkeys(fetched))}"] if fetched else []
    todo += [RUNS[name][1] for name in first if name in RUNS]
    todo = [f"run {chapter.name}"] if runs == YES else todo
    command = " && ".join(map(stand.command, todo)) if needs else f"reefcore run {chapter.name}"
    why = "; ".join(filter(None, why))
    return Standing(chapter.name, runs, tuple(needs), tuple(lacks), tuple(sections), why, command)


def _sections(content, missing: set[str]) -> list[str]:
    """List the headings above the cells of a notebook that ask for something that is missing."""
    heading, found = "", {}
    for cell in content.cells:
        if cell.cell_type == "code":
            found |= dict.fromkeys([heading] * bool(missing & {*bare(cell.source)[1]}))
        elif lines := [line for line in cell.source.splitlines() if line.startswith("#")]:
            heading = lines[-1].lstrip("# ")
    return [*found]


# ------------------------------------------------------------------------------------------------------ the commands


def check(profile: str | Path = "full") -> dict:
    """Say how a profile of kind full stands; nothing is made, and no torch is imported.

    Returns
    -------
    dict
        ``profile``; ``folder`` (None where it is not set; ``unset`` says what to do); ``items``, see `items`;
        ``chapters``, `Standing` as dicts; ``next``: dicts with ``command`` and ``gives``, in the order in which to type
        them; ``complete``: whether nothing is missing that a chapter needs and a command gets.

    Raises
    ------
    ReefcoreError
        Where the profile is not right, or makes its own data.
    """
    from reefcore.workflow import build
    from reefcore.workflow.project import find_profile

    one = find_profile(profile)
    if one.kind != "full":
        raise ReefcoreError(
            f"the profile {one.name} is of kind {one.kind}, and needs nothing", do="name full, or a copy"
        )
    stand = Stand(one)
    stands = {one: stand}
    found = [of(chapter, stands) for chapter in build.chapters(["all"], {"profile": str(profile)})]
    rows = items(stand)
    needed = {name for chapter in found for name in chapter.lacks if name in OUTSIDE or name in RUNS}
    return {
        "profile": one.name,
        "folder": str(stand.folder) if stand.folder else None,
        "unset": stand.unset,
        "items": rows,
        "chapters": [asdict(chapter) for chapter in found],
        "next": _next(stand, rows),
        "complete": not needed and all(row["state"] in (THERE, MISSING) for row in rows if row["command"]),
    }


def _next(stand: Stand, rows: list[dict]) -> list[dict]:
    """List the commands that remain, in their order, each with what it gives."""
    open_ = {row["item"] for row in rows if row["state"] != THERE}
    tables = [name for name in ("annotations", "metadata", "labelmapping", "al-wajh", "meow") if name in open_]
    runs = [words for words, _ in RUNS.values() if words in open_]
    found = [("export REEFNET_DATA=/a/large/folder", "where all of it goes")] if stand.unset else []
    words = [
        (tables and f"fetch {' '.join(tables)}", "the data chapters, without photos"),
        (runs and "full estimate", "what the rest takes: download, disk, hours of GPUs"),
        (
            "images" in open_ and "fetch images",
            "patches, colours, and what is trained on them; part of the photos will do",
        ),
        ("substrate" in open_ and "fetch substrate", "the survey of the substrate chapters"),
        (
            any(name.startswith("weights ") for name in open_) and "fetch weights",
            "the models that trainings start from, for a node without a network",
        ),
        ("patches" in open_ and "prepare patches", "the crops that everything is trained on"),
        ("run all", "every chapter that can run" + (", and on a GPU the trainings" if runs else "")),
    ]
    found += [(stand.command(said), gives) for said, gives in words if said]
    return [{"command": command, "gives": gives} for command, gives in found]


def text(found: dict) -> str:
    """Write what `check` says for a terminal."""
    from reefcore.workflow.status import columns

    def count(row: dict) -> str:
        return "" if row["there"] is None else f"{row['there']:,}" + (f" of {row['of']:,}" if row["of"] else "")

    def need(chapter: dict) -> str:
        return ", ".join(f"{'-' if name in chapter['lacks'] else ''}{WORDS[name]}" for name in chapter["needs"])

    def note(chapter: dict) -> str:
        some, left = [part for part in chapter["why"].split("; ") if part.startswith("with ")], chapter["sections"]
        return "; ".join([*some, *([f"left out: {', '.join(left)}"] if left else [])])

    rows, chapters = [row for row in found["items"] if not row["item"].startswith("weights ")], found["chapters"]
    models = [row for row in found["items"] if row not in rows]  # in one row
    if lacking := [row for row in models if row["command"]]:
        several = {
            "there": len(models) - len(lacking),
            "of": len(models),
            "note": f"{lacking[0]['what']}, by `--json` each",
        }
        rows.insert(6, lacking[0] | several | {"item": "weights"} | ({"state": PARTLY} if lacking != models else {}))
    elif models:
        rows.insert(6, models[0] | {"item": "weights", "there": len(models)})
    lines = [f"Profile {found['profile']}, data folder {found['folder'] or 'not set'}", *filter(None, [found["unset"]])]
    shown = {name: [row[name] for row in rows] for name in ("item", "state")} | {"how many": map(count, rows)}
    lines += columns(
        shown | {"command": [row["command"] for row in rows], "": [row["note"] or row["what"] for row in rows]}
    )
    shown = {name: [row[name] for row in chapters] for name in ("chapter", "runs")}
    shown |= {"needs (- is missing)": map(need, chapters), "command": [row["command"] for row in chapters]}
    lines += columns(shown | {"": map(note, chapters)} if any(map(note, chapters)) else shown)
    lines += columns({name: [one[name.strip()] for one in found["next"]] for name in ("command", "gives")})
    return "\n".join(lines)


def add(commands, command) -> None:
    """Add ``reefcore full`` to the commands (see `reefcore.cli`)."""
    from reefcore.workflow import estimating

    group = commands.add_parser("full", help="see what the full profile has, lacks and takes")
    group = group.add_subparsers(required=True, metavar="COMMAND")
    help = "say what is there, what each chapter needs, and the command that gets what is missing"
    one = command(group, "check", _check, help, epilog="Exit code 0: nothing is missing; 1: something is.")
    one.add_argument("--profile", default="full", help="full, or a YAML file of that kind (full)")
    one.add_argument("--json", action="store_true", help="for programs")
    estimating.add(group, command)


def _check(options) -> int:
    found = check(options.profile)
    print(json.dumps(found, indent=2) if options.json else text(found))
    return int(not found["complete"])


# -------------------------------------------------------------------------------------------------- for the book's page


def needs(profile: str = "full") -> list[dict]:
    """Say what each chapter needs, whatever is there: ``chapter``, ``title``, ``needs``, ``more`` (can do without)."""
    from reefcore.workflow import build, notebook
    from reefcore.workflow.project import find_profile

    one, rows = find_profile(profile), []
    stand = Stand(one)
    stand.folder, stand.train = None, False
    for name, path in build.notebooks(site=False).items():
        content = notebook.read(path)
        text = build.code(content)
        chosen = {key: given.default for key, given in notebook.parameters(content, name).items()}
        if chosen["profile"] == MADE_UP:  # it is of a reef of one's own
            continue
        every, hard = (build.reads(code, one, chosen)[one] for code in (text, bare(text)[0]))
        must = {root for need in hard for root, soft in stand.lacks(need).items() if not soft}
        more = {root: None for need in every for root in stand.lacks(need)} | dict.fromkeys(_own(text))
        more = [root for root in more if root not in must]
        ordered = [[WORDS[root] for root in WORDS if root in roots] for roots in (must, more)]
        rows.append({"chapter": name, "title": _title(content), **dict(zip(("needs", "more"), ordered, strict=True))})
    return rows


def _own(text: str) -> list[str]:
    return [OWN[name] for name in re.findall(r'project\.\w+\(\s*"(\w+)"', text) if name in OWN]


def _title(content) -> str:
    return next(line for cell in content.cells for line in cell.source.splitlines() if line.startswith("# "))[2:]


def tables() -> dict[str, str]:
    """Write the tables of the book's page in Markdown: name -> table."""
    rows = needs()
    items = ["| item | what it is | where it goes | licence or terms |", "|---|---|---|---|"]
    for name, item in ITEMS.items():
        place = f"`{item.place}`" if item.place else "the hub's own cache"
        licence = re.sub(r"--[\w-]+", r"`\g<0>`", item.licence)  # else two hyphens become a dash
        items.append(f"| `{name}` | {item.about} | {place} | {licence} |")
    chapters = ["| chapter | needs | takes too, where it is there |", "|---|---|---|"]
    for row in rows:
        cells = [", ".join(row[name]) or "–" for name in ("needs", "more")]
        chapters.append(f"| [{row['title']}](chapters/{row['chapter']}) | {' | '.join(cells)} |")
    few = sum({*row["needs"]} <= {WORDS["released"]} for row in rows)
    count = f"Of {len(rows)} chapters, {few} need no more than the released annotations."
    return {"items": "\n".join(items), "chapters": "\n".join(chapters), "count": count}


# ---------------------------------------------------------------------------------------------- what a build leaves out


def _of_full(chapters: list) -> list:
    """Keep the chapters that open a profile of kind full."""
    return [one for one in chapters if "full" in (one.profile.kind, *(beside.kind for beside, _ in one.beside))]


def divide(chapters: list, named: bool = False) -> tuple[list, list[tuple]]:
    """Divide chapters of a build: those that can run now, and the others, each with its `Standing`.

    Parameters
    ----------
    chapters : list of Chapter
    named : bool
        Whether somebody asked for just these: then one that cannot run is refused.

    Raises
    ------
    ReefcoreError
        With what it needs and the command that gets it.
    """
    stands: dict[Profile, Stand] = {}
    left = [(one, how) for one in _of_full(chapters) if (how := of(one, stands)).runs == NO]
    for stand in stands.values():
        stand.profile.folder(Path())  # where it is not set, that is the first thing to say
    for one, how in left if named else ():
        raise ReefcoreError(f"{one.name} cannot run: {how.why}", do=how.command)
    return [one for one in chapters if one not in [other for other, _ in left]], left


def leave_out(chapter, standing: Standing, output: Path) -> None:
    """Put a page in the place of a chapter that cannot run: why, and what gets it.

    One that was run in this profile earlier stays, and is stale.
    """
    from reefcore.workflow import build, keys, notebook
    from reefcore.workflow.project import Provenance

    path, profiles_ = build.record_path(output, chapter.name), (chapter.profile, *(one for one, _ in chapter.beside))
    lacking = next((one for one in profiles_ if one.kind == "full"), chapter.profile)
    near = f"{lacking.path.parent}/"  # a page names no folder of a machine

    def shown(command: str) -> str:
        return command.replace(near, "") if lacking.path.is_absolute() else command

    told = {"why": standing.why, "command": shown(standing.command)}
    record, executed = keys.read_record(path) or {}, output / f"{chapter.name}.ipynb"
    if executed.exists() and record.get("profile") == chapter.profile.name and record.get("left_out", told) == told:
        return
    import nbformat.v4

    content, about = notebook.read(chapter.notebook), build.about(chapter)
    parts = [f"profile {about['profile']}", f"seed {about['seed']}", f"code {about['code']['label']}", "not run"]
    words = f"This chapter is left out of the profile {lacking.name}: {standing.why}."
    words += f" This gets it:\n\n```console\n{told['command']}\n```\n\nThen the chapter takes the place of this page: "
    words += f"`{shown(Stand(lacking).command(f'run {chapter.name}'))}`."
    line = Provenance(chapter.profile.notice, parts, path.name)._repr_html_()
    cells = [
        nbformat.v4.new_markdown_cell(text, id=f"left-out-{n}")
        for n, text in enumerate((f"# {_title(content)}", words, line))
    ]
    notebook.write(nbformat.v4.new_notebook(cells=cells, metadata=content.metadata), executed)
    kept = about | {
        "key": "left out",
        "ingredients": {f"parameter {name}": repr(value) for name, value in chapter.given.items()},
        "outputs": keys.describe(output, [executed.name]),
        "left_out": told,
    }
    write_json(kept, path)


def told(names: list[str], given: dict) -> list[str]:
    """Say after a build, a line each, what was left out, and what was run without something."""
    from reefcore.workflow import build

    stands: dict[Profile, Stand] = {}
    found = [(one.name, how) for one in _of_full(build.chapters(names, given)) if (how := of(one, stands)).runs != YES]
    return [
        f"{'left out' if how.runs == NO else 'in part'}: {name}: {how.why}{f' -> {how.command}' if how.command else ''}"
        for name, how in found
    ]
