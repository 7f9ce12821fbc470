"""What site.yaml says: where a reef's annotations, photos and metadata are, and how they are to be read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from reefcore.errors import ReefcoreError

MADE_UP = "made-up"  # the site that travels with the library
FILE = "site.yaml"
FACTS = ("date", "site", "transect", "survey", "depth", "latitude", "longitude")  # what is known of an image
NOTICE = "Site {}: its own annotations and photos, computed on this machine."
MADE_UP_NOTICE = "Made-up reef: synthetic, made by this project. No number here is about a real reef."
OPTIONS = ("source", "format", "columns", "base", "unmangle", "size", "sample", "points")  # of `annotations.read`
IN_FILE = ("file", *OPTIONS, "swap", "scale")
CLASSIFIER = {"use": bool, "checkpoint": str, "weights": str, "patch": int, "points_per_photo": int, "most": int}
#: Of keys that are not text.
TYPES = {"base": int, "seed": int, "resamples": int, "sample": int, "scale": float, "columns": dict, "size": tuple}
TYPES |= dict.fromkeys(("swap", "exif", "unmangle"), bool)
PRIVACY = {"positions": str, "photos": bool, "names": bool}
POSITIONS = ("exact", "rounded", "none")
OCEANS = ("", "Atlantic", "Indo-Pacific")


@dataclass(frozen=True)
class Site:
    """A reef of one's own; a profile of kind ``site``. Its keys are those of site.yaml (`path` is the file).

    Attributes
    ----------
    name : str
        For titles.
    annotations : tuple of dict
        Each with ``file`` (a file or a folder) and options of `reefcore.annotations.read` for it alone, ``swap`` and
        ``scale``. A list of paths in the file is the short form.
    photos : str
        The folder of photos, with its subfolders; empty where there is none.
    metadata : tuple of str
        Tables, CSV or xlsx, with a row per image: date, site, transect, depth, position.
    format, source, columns, size, base
        As `reefcore.annotations.read` has them, for every file of annotations.
    swap : bool
        Rows and columns are exchanged in the files.
    scale : float
        Pixels of the photos as they are here per pixel of the files, 1 where the photos were not resized.
    columns_of : dict
        Fact (``image``, ``date``, ``site``, ``transect``, ``survey``, ``depth``, ``latitude``, ``longitude``) -> column
        that holds it, in the metadata or the annotations; written ``site_column: Reef`` and so on.
    from_name : str
        A regular expression with named groups that reads facts from the names of images.
    date_format : str
        Of written dates, as Python's strptime has it.
    exif : bool
        Take date and position from the photos' own headers where nothing else gives them.
    ocean : {'', 'Atlantic', 'Indo-Pacific'}
        Decides names that mean different corals in the two; empty: by the positions.
    meow : str
        The polygons of the marine ecoregions, see `reefcore.geography.read_meow`.
    reefnet : str
        A profile whose sources the reef is compared with.
    classifier : dict
        ``use``, ``checkpoint``, ``weights``, ``patch``, ``points_per_photo``, ``most``.
    privacy : dict
        ``positions`` (exact, rounded to 0.1 degree, none), ``photos`` and ``names`` (whether they are shown).
    labels : str
        The table of labels that its owner edits.
    seed, resamples : int
    data : str
        The folder that paths are relative to: that of site.yaml, or one below the root for the made-up reef.
    own_seed : bool
        Whether the seed is the file's.
    """

    name: str
    annotations: tuple = field(hash=False)
    photos: str = ""
    metadata: tuple[str, ...] = ()
    format: str = ""
    source: str = ""
    columns: dict | str = field(default_factory=dict, hash=False)
    size: str = ""
    base: int | None = None
    swap: bool = False
    scale: float = 1.0
    columns_of: dict = field(default_factory=dict, hash=False)
    from_name: str = ""
    date_format: str = ""
    exif: bool = True
    ocean: str = ""
    meow: str = ""
    reefnet: str = ""
    classifier: dict = field(default_factory=dict, hash=False)
    privacy: dict = field(default_factory=dict, hash=False)
    labels: str = "labels.csv"
    seed: int = 0
    resamples: int = 1000
    data: str = ""
    own_seed: bool = True
    path: Path = Path()

    kind = "site"

    @property
    def notice(self) -> str:
        """The sentence that stands on every page, figure and table of this reef."""
        return MADE_UP_NOTICE if self.is_made_up else NOTICE.format(self.name)

    @property
    def is_made_up(self) -> bool:
        """Whether it is the site that travels with the library."""
        return self.path.parent == Path(__file__).parent

    @property
    def settings(self) -> dict:
        """Everything but where it lies, as plain values: what a key is made of. A moved folder keeps its tables."""
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in ("path", "data", "own_seed")}

    def home(self, root: str | Path = "") -> Path:
        """Return the folder that the paths of site.yaml are relative to."""
        return Path(root) / self.data

    def folder(self, root: str | Path = "") -> Path:
        """Return the folder of its tables; a seed that is not the file's own has a folder of its own."""
        return self.home(root) / ("tables" if self.own_seed or self.is_made_up else f"tables-seed{self.seed}")

    def with_seed(self, seed: int | None) -> Site:
        """Return the site with another seed; None and its own seed change nothing."""
        if seed is None or seed == self.seed:
            return self
        if seed < 0:
            raise ReefcoreError(f"the seed {seed} is negative", do="choose 0 or more")
        data = f"{self.data}-seed{seed}" if self.is_made_up else self.data
        return dataclasses.replace(self, seed=seed, data=data, own_seed=False)

    def at(self, path: str, root: str | Path = "") -> Path:
        """Return where a path of site.yaml leads; ``~`` and ``$NAME`` are understood."""
        return Path(os.path.normpath(self.home(root) / os.path.expandvars(os.path.expanduser(path))))


def find(name_or_path: str | Path) -> Path:
    """Find a site.yaml: by the name of a site below ``sites/``, by its folder, or by its path.

    Raises
    ------
    ReefcoreError
        Where there is none, with the sites that are there.
    """
    text, path = str(name_or_path), Path(name_or_path).expanduser()
    if text == MADE_UP:
        return Path(__file__).with_name(f"{MADE_UP}.yaml")
    if path.suffix in (".yaml", ".yml"):
        if path.is_file():
            return path
        raise ReefcoreError("this file does not exist", path, "check the path, or make it with `reefcore site new`")
    for folder in (path, Path("sites") / text, Path("sites") / slug(text)):
        if (folder / FILE).is_file():
            return folder / FILE
    known = sorted(file.parent.name for file in Path("sites").glob(f"*/{FILE}"))
    do = f"the sites here are {', '.join([MADE_UP, *known])}; `reefcore site new` makes one, or name a site.yaml"
    raise ReefcoreError(f"there is no site {text!r}", do=do)


def slug(name: str) -> str:
    """Make the name of a folder of the name of a site: letters of any script and digits stay, the rest is ``-``."""
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-")


def load(name_or_path: str | Path) -> Site:
    """Read and check a site.yaml.

    Parameters
    ----------
    name_or_path : str or path
        ``made-up``, the name of a site below ``sites/`` of the current folder, its folder, or the file.

    Raises
    ------
    ReefcoreError
        Naming the file, the line and the key: where the file is missing or no YAML, or a key is unknown, stands twice,
        is missing, or has a value that it cannot have.
    """
    path = find(name_or_path)
    values, lines = _read(path)

    def wrong(key: str, text: str, do: str | None = None):
        return ReefcoreError(text, f"{path}:{lines[key]}" if key in lines else path, do)

    columns_of = {f"{fact}_column": fact for fact in ("image", *FACTS)}
    fields = [f.name for f in dataclasses.fields(Site) if f.name not in ("columns_of", "data", "own_seed", "path")]
    allowed = [*fields, *columns_of]
    for key in values:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, 1)
            do = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(allowed)}"
            raise wrong(key, f"unknown key {str(key)!r}", do)
    found, named = {}, {}
    for key, value in values.items():
        if value is None or value == "":  # `photos:` with nothing behind it
            continue
        if key in columns_of:
            named[columns_of[key]] = _text(value, key, wrong)
        elif key == "annotations":
            found[key] = tuple(_file(one, wrong) for one in (value if isinstance(value, list) else [value]))
        elif key == "metadata":
            found[key] = tuple(_text(one, key, wrong) for one in (value if isinstance(value, list) else [value]))
        elif key in ("privacy", "classifier"):
            found[key] = _mapping(value, key, PRIVACY if key == "privacy" else CLASSIFIER, wrong)
        else:
            found[key] = _typed(value, key, TYPES.get(key, str), wrong)
    if not found.get("annotations"):
        raise wrong("annotations", "the key 'annotations' is missing", "name the file or folder of annotations")
    made_up = path.parent == Path(__file__).parent
    found.setdefault("name", path.stem if path.name != FILE else path.resolve().parent.name)
    site = Site(**found, columns_of=named, path=path, data="build/made-up" if made_up else str(path.resolve().parent))
    try:
        groups = set(re.compile(site.from_name).groupindex)
    except re.error as error:
        raise wrong("from_name", f"from_name is not a regular expression ({error})") from None
    for key, text in {
        "base": site.base not in (None, 0, 1) and "must be 0 or 1",
        "seed": site.seed < 0 and "must be at least 0",
        "resamples": site.resamples < 1 and "must be at least 1",
        "scale": not 0 < site.scale < 1000 and "must be above 0",
        "ocean": site.ocean not in OCEANS and "must be Atlantic or Indo-Pacific",
        "privacy": site.privacy.get("positions", "exact") not in POSITIONS
        and "positions must be exact, rounded or none",
        "from_name": site.from_name
        and (not groups or groups - set(FACTS))
        and f"needs named groups such as (?P<site>[A-Z]+); the names may be {', '.join(FACTS)}",
        "date_format": site.date_format and "%" not in site.date_format and "must look like '%d/%m/%Y'",
    }.items():
        if text:
            raise wrong(key, f"{key} {text}, not {getattr(site, key)!r}")
    return site


def _read(path: Path) -> tuple[dict, dict]:
    """Read the values of a YAML file and the line of each key."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        node, values = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ReefcoreError(f"this file cannot be read ({error})", path, "save it as UTF-8 text") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that no calendar has
        mark = getattr(error, "problem_mark", None)
        line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
        do = "write `key: value` lines as in the file that `reefcore site new` makes"
        if "\t" in line:
            do = "replace the tab by spaces"
        elif "%" in line:
            do = "put the value in quotes: date_format: '%d/%m/%Y'"
        elif "\\" in line:
            do = "put the path in single quotes: 'C:\\reef\\photos'"
        said = f"this is not YAML ({getattr(error, 'problem', None) or error})"
        raise ReefcoreError(said, f"{path}:{mark.line + 1}" if mark else path, do) from None
    if not isinstance(values, dict):
        raise ReefcoreError("a site is a list of `key: value` lines", path, "make one with `reefcore site new`")
    lines = {}
    for key, _ in node.value:
        if key.value in lines:
            place = f"{path}:{key.start_mark.line + 1}"
            raise ReefcoreError(
                f"the key {key.value!r} stands twice (also on line {lines[key.value]})", place, "keep one"
            )
        lines[key.value] = key.start_mark.line + 1
    return values, lines


def _text(value, key: str, wrong) -> str:
    """Take text; a number or a date of YAML is text here, a list or `no` is not."""
    if isinstance(value, bool | list | dict) or not isinstance(value, str | int | float | datetime.date):
        raise wrong(key, f"{key} must be text, not {value!r}", "put it in quotes" if isinstance(value, bool) else None)
    if isinstance(value, str) and re.search(r"[\x00-\x1f]", value):  # "C:\reef": \r is a sign of its own there
        raise wrong(key, f"{key} has signs that no path or name has: {value!r}", "put the path in single quotes")
    return str(value)


def _typed(value, key: str, kind: type, wrong):
    if kind is tuple and isinstance(value, list):  # [4000, 3000]
        value = "x".join(map(str, value))
    if kind is tuple and not re.fullmatch(r"\s*[1-9]\d*\s*[x×]\s*[1-9]\d*\s*", str(value)):
        raise wrong(key, f"{key} must be width and height in pixels, such as 4000x3000, not {value!r}")
    if kind is dict and isinstance(value, dict):
        return value
    if kind in (str, tuple, dict):  # a map of columns may lie in a file
        return _text(value, key, wrong)
    if kind is float and isinstance(value, str):  # YAML takes 1e-4 for text
        with contextlib.suppress(ValueError):
            value = float(value.replace(",", "."))
    fits = isinstance(value, int | float if kind is float else kind) and isinstance(value, bool) == (kind is bool)
    if not fits:
        said = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise wrong(key, f"{key} must be {said}, not {value!r}")
    return kind(value)


def _mapping(value, key: str, allowed: dict, wrong) -> dict:
    if not isinstance(value, dict) or (unknown := set(value) - set(allowed)):
        said = (
            f"unknown key {sorted(map(str, unknown))[0]!r} in {key}"
            if isinstance(value, dict)
            else f"{key} has no keys"
        )
        raise wrong(key, said, f"the keys are {', '.join(allowed)}")
    return {name: _typed(one, name, allowed[name], lambda _, *t: wrong(key, *t)) for name, one in value.items()}


def _file(value, wrong) -> dict:
    if not isinstance(value, dict):
        return {"file": _text(value, "annotations", wrong)}
    if (unknown := set(value) - set(IN_FILE)) or "file" not in value:
        said = f"unknown key {sorted(map(str, unknown))[0]!r}" if unknown else "the key 'file' is missing"
        raise wrong("annotations", f"{said} in annotations", f"the keys of a file are {', '.join(IN_FILE)}")
    return {k: _typed(v, k, TYPES.get(k, str), lambda _, *t: wrong("annotations", *t)) for k, v in value.items()}
