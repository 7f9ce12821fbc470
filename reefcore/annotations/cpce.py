"""CPCe's ``.cpc`` files: one photo each; one file, a folder with its subfolders, or a zip of them is one table.

A file has the paths of the code file and of the photo with the photo's size, the four corners of the border, the number
of points, one line ``x,y`` per point, one line ``"number","CODE","Notes","note"`` per point, and 28 or no lines of
header. Sizes and positions are in units of a pixel's fraction: 15 to a pixel where Windows showed 96 dots per inch,
12 at 120 (CPCe before 4.0). Positions are rounded to the nearest pixel, as CoralNet rounds them when it reads ``.cpc``.

Kohler, K. E. and Gill, S. M. (2006), https://doi.org/10.1016/j.cageo.2005.11.009.
"""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

from reefcore.annotations.points import Format, Options, Result, build, counted, hide_mails, number, pseudonym
from reefcore.annotations.sheet import ENDS, Head, Sheet, split, unzip
from reefcore.errors import ReefcoreError
from reefcore.images import image_size

UNITS = (15, 12, 10, 7.5)  # to a pixel, at 96, 120, 144 and 192 dots per inch
LARGE = 16 << 20  # bytes; with the most points a file is smaller
MOST = 100_000  # no photo has more points; a larger number of points is a damaged one
START = re.compile(r'\s*"[^"\r\n]*"\s*,\s*"[^"\r\n]*"\s*(,\s*[\d.]+\s*){4}[\r\n]')
HOME = re.compile(r"((?:users|home|documents and settings)/)([^/]+)(?=/)", re.IGNORECASE)  # a person's folder
LABEL = re.compile(
    r'\s*"?(\d+)"?\s*,\s*"([^"]*)"(?:\s*,.*)?'
)  # the number and code of a point, whatever is wrong with its note
DAMAGED = "a point of a damaged .cpc file"


@dataclass
class _File:
    """One ``.cpc`` as it stands: texts, with the lines of the file."""

    name: str
    path: str = ""
    width: float = math.nan
    height: float = math.nan
    points: list[tuple] = field(default_factory=list)  # line, x, y, number, code, note
    header: list[str] = field(default_factory=list)
    total: int = 0
    cut: int | None = None  # the first line of a label that cannot be read
    problem: tuple | None = None  # why nothing of it can be used: line, sentence

    @property
    def photo(self) -> str:
        return self.path.rpartition("/")[2]


def _contents(head: Head) -> Iterator[tuple[str, bytes | str]]:
    """Give the name of each file and its bytes, or in words why they cannot be had."""
    names = [name for name in head.names if _is_name(name)] or [head.path.name]
    if head.kind != "zip":
        for name in names:
            path = head.path / name if head.kind == "folder" else head.path
            try:
                yield name, path.read_bytes() if path.stat().st_size < LARGE else "is too large for a .cpc file"
            except OSError as error:
                yield name, f"cannot be opened ({error.strerror})"
        return
    with unzip(head.path, "copy it again") as archive:
        for name in names:
            small = archive.getinfo(name).file_size < LARGE
            yield name, archive.read(name) if small else "is too large for a .cpc file"


def _text(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")  # CPCe runs on Windows


def _is_name(name: str) -> bool:
    """Tell whether a file is a .cpc, and not what macOS puts beside one."""
    return name.lower().endswith(".cpc") and not name.rpartition("/")[2].startswith("._")


def _pair(line: str) -> list[str] | None:
    cells = [cell.strip().strip('"') for cell in line.split(",")]
    if len(cells) == 4 and all(re.fullmatch(r"[-+]?\d+", cell) for cell in cells):  # decimal commas
        cells = [".".join(cells[:2]), ".".join(cells[2:])]
    return cells if len(cells) == 2 and all(re.fullmatch(r"[-+]?[\d.]+", cell) for cell in cells) else None


def _parse(name: str, data: bytes | str) -> _File:
    """Read one file; what it has of positions and labels is counted whatever is wrong with it."""
    found = _File(name)
    if isinstance(data, str):
        found.problem = None, data
        return found
    lines = ENDS.split(_text(data))
    begin = next((at for at, line in enumerate(lines) if line.strip()), 0)
    first = split(lines[begin], ",") or []
    near = range(begin + 1, min(begin + 8, len(lines)))  # corners may stand between
    at = next((at for at in near if re.fullmatch(r'\s*"?\d{1,9}"?\s*', lines[at])), None)
    if len(first) < 2 or at is None:
        what = "has no number of points" if len(first) > 1 else "does not begin with the paths of a code file and photo"
        found.problem = begin + 1, f"{what}; is it a .cpc file, and whole?"
        return found
    found.path = first[1].strip().replace("\\", "/") or re.sub(r"\.cpc$", "", name, flags=re.IGNORECASE)
    found.width, found.height = (number(cell.strip()) for cell in [*first[2:4], "", ""][:2])
    declared = int(lines[at].strip().strip('"'))
    body = [(number_, line) for number_, line in enumerate(lines[at + 1 :], at + 2) if line.strip()]
    positions = []
    for line, text in body:
        if (pair := _pair(text)) is None:
            break
        positions.append((line, *pair))
    labels = []
    for line, text in body[len(positions) :]:
        cells = split(text, ",")
        if cells is None or len(cells) > 1:
            if cells is not None and len(cells) == 4:
                labels.append((line, *(cells[i].strip() for i in (0, 1, 3))))
            elif known := LABEL.fullmatch(text):
                labels.append((line, known[1], known[2].strip(), ""))
            else:
                found.cut = found.cut or line
        elif labels:
            found.header.append(cells[0].strip())
    found.total = max(declared if declared <= MOST else 0, len(positions), len(labels))
    numbers = {label[1]: label for label in labels}
    if len(positions) != declared:
        found.problem = at + 1, f"says {counted(declared, 'point')} and has {counted(len(positions), 'position')}"
    elif len(labels) == declared:
        pass
    elif set(numbers) <= {str(place) for place in range(1, declared + 1)} and len(numbers) == len(labels):
        labels = [numbers.get(str(place), (positions[place - 1][0], "", "", "")) for place in range(1, declared + 1)]
    else:
        found.problem = found.cut or at + 1, f"has {counted(declared, 'position')} and {counted(len(labels), 'label')}"
    if found.problem:
        found.problem = found.problem[0], f"{found.problem[1]}: which label belongs to which cannot be told"
        return found
    found.points = [(line, x, y, *rest) for (line, x, y), (_, *rest) in zip(positions, labels, strict=True)]
    return found


def _photos(files: list[_File]) -> tuple[dict[str, str], list[tuple]]:
    """Name the photo of each file: by its file name, or with folders where several photos have the same."""
    names, problems, alike = {}, [], defaultdict(list)
    for one in files:
        names[one.name] = one.photo
        alike[one.photo].append(one)
    for photo, group in alike.items():
        if len(group) == 1:
            continue
        files_ = ", ".join(one.name for one in group[:2]) + ", ..." * (len(group) > 2)
        said = f"{photo!r} stands in {len(group)} .cpc files ({files_})"
        if len({one.path.lower() for one in group}) == 1:
            problems.append((None, "", f"{said}: their points were put together"))
            continue
        folders = [one.name.replace("\\", "/").rpartition("/")[0] for one in group]
        if len(set(folders)) < len(group):  # then the folders of the photos, from as far up as they differ
            parts = [HOME.sub(lambda part: f"{part[1]}{pseudonym(part[2])}", one.path).split("/") for one in group]
            whole = len({tuple(part) for part in parts})
            deep = next(
                n for n in range(1, max(map(len, parts)) + 1) if len({tuple(part[-n:]) for part in parts}) == whole
            )
            folders = ["/".join(part[-deep:-1]) for part in parts]
        names |= {one.name: f"{folder}/{photo}".lstrip("/") for one, folder in zip(group, folders, strict=True)}
        problems.append((None, "", f"{said} of different folders; their folders were put before it"))
    return names, problems


def _beside(head: Head, files: list[_File]) -> pd.DataFrame:
    """Measure the photos that stand beside their .cpc, where CPCe leaves it: width and height, or missing."""
    at = {name.lower(): head.path / name for name in head.names} if head.kind == "folder" else {}
    found = []
    for one in files:
        folder = one.name.rpartition("/")[0] if head.kind == "folder" else ""
        path = at.get(f"{folder}/{one.photo}".lstrip("/").lower(), head.path.parent / one.photo)
        try:
            found.append(image_size(path) if head.kind != "zip" and path.is_file() else (pd.NA, pd.NA))
        except (ReefcoreError, OSError):  # no photo, or a name too long for one
            found.append((pd.NA, pd.NA))
    return pd.DataFrame(found, columns=["width", "height"], dtype="Int64")


def _units(one: _File, width, height) -> tuple[float, str]:
    """Tell how many units of a file make a pixel of its photo, and what is odd about it."""
    if not (one.width > 0 and one.height > 0):
        return 15, "says no size of its photo; 15 units to a pixel were taken"
    if pd.notna(width) and pd.notna(height):
        across, down = one.width / width, one.height / height
        if math.isclose(across, down, rel_tol=0.005):
            odd = f"the photo has {width} x {height} pixels, which makes {across:.4g} units to a pixel instead of 15"
            return across, "" if across == 15 else odd
        said = f"says a photo of {one.width / 15:g} x {one.height / 15:g} pixels and the photo has {width} x {height}"
        return 15, f"{said}: it was turned, cut or is another one; positions are those of the .cpc"
    whole = [unit for unit in UNITS if one.width % unit == 0 and one.height % unit == 0]
    if 15 in whole:
        return 15, ""
    said = f"its photo of {one.width:g} x {one.height:g} units is no whole number of pixels at 15 to a pixel"
    return (whole[0], f"{said}; {whole[0]:g} were taken") if whole else (15, f"{said}; 15 were taken")


def _pixel(text: str, units: float, side: float) -> str:
    """Round a position to its pixel, the last one where it lies on the far edge; as it is where it is no number."""
    value = number(text)
    if not math.isfinite(value):
        return text
    pixel = math.floor(value / units + 0.5)
    return str(min(pixel, max(math.ceil(side / units) - 1, 0)) if value <= side else pixel)


def read(head: Head, options: Options) -> Result:
    """Read ``.cpc`` files."""
    files = [_parse(*content) for content in _contents(head)]
    several, problems, left_out, said = head.kind != "text", [], Counter(), defaultdict(list)

    def say(one: _File, line: int | None, text: str) -> None:
        said[text].append((one.name, line))

    for one in files:
        if one.problem:
            say(one, *one.problem)
            left_out[DAMAGED] += one.total
    good = [one for one in files if not one.problem]
    if not good:
        many = f"none of its {len(files):,} .cpc files can be read; {files[0].name} " if several else "this .cpc file "
        raise ReefcoreError(f"{many}{files[0].problem[1]}", head.path, "copy it again or open it in CPCe")
    names, more = _photos(good)
    problems += more
    sizes = options.sized(pd.Series([names[one.name] for one in good], dtype="str")).fillna(_beside(head, good))
    rows, headers = [], {}
    for one, width, height in zip(good, sizes["width"], sizes["height"], strict=True):
        units, odd = _units(one, width, height)
        if odd:
            say(one, 1, odd)
        if one.cut:
            say(one, one.cut, "this line is broken or cut; its point was left without a label")
        empty = sum(not point[4] for point in one.points)
        if empty:
            say(one, None, f"{empty:,} of {counted(len(one.points), 'point')} without a label")
        sides = [round(side / units) if side > 0 else None for side in (one.width, one.height)]
        headers |= {at: "" for at, text in enumerate(one.header, 1) if text}
        for line, x, y, *rest in one.points:
            row, column = _pixel(y, units, one.height), _pixel(x, units, one.width)
            rows.append((line, names[one.name], row, column, *rest, *sides, one))
    for what, where in said.items():
        name, line = where[0]
        many = f" (so do {len(where) - 1:,} others)" if len(where) > 1 else ""
        place = f"{name}:{line}" if line else name
        problems.append((None, "", f"{place}: {what}{many}") if several else (line, "", what))
    table = pd.DataFrame(
        rows, columns=["line", "image", "row", "column", "point", "code", "notes", "width", "height", "of"]
    )
    text = table[["image", "row", "column", "point", "code", "notes"]].astype("str")
    place = head.path.resolve()
    source = place.stem if head.kind == "zip" else place.name if head.kind == "folder" else place.parent.name
    given = {"image": ("photo", text["image"]), "row": ("y", text["row"]), "column": ("x", text["column"])}
    given |= {"label_raw": ("code", text["code"]), "source": ("", pd.Series(source or "cpce", index=text.index))}
    out = pd.Series("", index=text.index).mask(text["code"].eq(""), "no label")
    further = {"point": text["point"], "notes": hide_mails(text["notes"], options)}
    if headers and options.names:
        for at in headers:
            further[f"header_{at}"] = pd.Series([(*of.header, *[""] * 28)[at - 1] for of in table["of"]], dtype="str")
    elif headers:
        problems.append((None, "", "the header lines were left out, as they may name people; names=True keeps them"))
    further = {name: values.where(values.ne("")) for name, values in further.items()}
    further |= {side: table[side].astype("Int64") for side in ("width", "height")}
    further["labelled_by"] = pd.Series("person", index=text.index, dtype="str")  # CPCe has no machine
    further["file"] = pd.Series([of.name for of in table["of"]], index=text.index, dtype="str")
    lines = table["line"].to_numpy("int64")
    sheet = Sheet(text, lines, problems, sum(one.total for one in files), dict(+left_out))
    return build(head, sheet, given, further, options, out)


def _is_cpce(head: Head) -> bool:
    if head.kind == "text":
        return bool(START.match(head.start)) or head.path.suffix.lower() == ".cpc"
    return any(_is_name(name) for name in head.names)


FORMATS = [Format("cpce", "CPCe's .cpc files", _is_cpce, read, kinds=("text", "folder", "zip"))]
