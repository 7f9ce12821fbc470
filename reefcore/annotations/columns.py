"""Any other table of points, CSV or workbook, with a map that says which of its columns is which.

A map is a dictionary, its text in braces, or a YAML file with the same keys::

    image: Photo name      # needed, as are row, column and label; the values are the table's own column names
    row: Y                 # from the top edge
    column: X              # from the left edge
    label: Class
    date: Day              # and any of source, site, transect, survey, depth, latitude, longitude, annotator,
                           # labelled_by (person or machine), width, height (of the photo), group_in_file
    units: pixels          # or fraction: 0 to 1 of the photo's height and width, or percent: 0 to 100
    base: 0                # or 1: what rows and columns count from

A row that lies between two pixels is rounded down. Columns that the map does not name are kept under their own names.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd

from reefcore.annotations.points import Format, Options, Result, build, each, extras, hide, number, numbers, scaled
from reefcore.annotations.sheet import Head, key, lower_headers
from reefcore.annotations.sheet import load as load_sheet
from reefcore.errors import ReefcoreError

NEEDED = ("image", "row", "column", "label")
FURTHER = ("source", "site", "transect", "survey", "date", "depth", "latitude", "longitude", "annotator", "labelled_by")
FURTHER += ("width", "height", "group_in_file")
ALIKE = {"x": "column", "y": "row", "name": "image", "label_raw": "label", "photo": "image", "latitude": "latitude"}
UNITS = {"pixels": 1, "fraction": 1, "percent": 100}
#: What a column of another tool is likely to be, by the `key` of its name; used in proposals, never to read.
LIKELY = {
    "image": (
        "image",
        "imagename",
        "filename",
        "imagefilename",
        "imagepath",
        "imageid",
        "photo",
        "name",
        "photoname",
        "file",
        "frame",
        "picture",
    ),
    "row": ("row", "imagerow", "y", "pointy", "ycoord", "ypos", "posy", "py", "ypixel", "pixely"),
    "column": (
        "column",
        "col",
        "imagecol",
        "imagecolumn",
        "x",
        "pointx",
        "xcoord",
        "xpos",
        "posx",
        "px",
        "xpixel",
        "pixelx",
    ),
    "label": (
        "label",
        "labelname",
        "labelcode",
        "shortcode",
        "class",
        "code",
        "category",
        "species",
        "taxon",
        "classification",
        "pointhumanclassification",
        "benthicattributename",
    ),
}


def load(columns: dict | str | Path) -> dict:
    """Read a column map, or check one.

    Raises
    ------
    ReefcoreError
        Where it is no map, has a key that means nothing, or lacks one that is needed.
    """
    where = None
    if isinstance(columns, str | Path):
        import yaml

        inline = str(columns).lstrip().startswith("{")  # as a refusal proposes it
        where = None if inline else Path(columns)
        try:
            columns = yaml.safe_load(columns if inline else where.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            what = getattr(error, "strerror", None) or str(error).split("\n")[0]
            raise ReefcoreError(
                f"this column map cannot be read ({what})", where, "write one KEY: COLUMN per line"
            ) from None
    if not isinstance(columns, dict):
        raise ReefcoreError("this is no column map", where, "write one KEY: COLUMN per line, such as image: Photo")
    found = {}
    for name, value in columns.items():
        plain = ALIKE.get(str(name).strip().lower(), str(name).strip().lower())
        if plain not in (*NEEDED, *FURTHER, "units", "base"):
            near = difflib.get_close_matches(plain, (*NEEDED, *FURTHER, *ALIKE, "units", "base"), 1)
            do = f"did you mean {near[0]}" if near else f"use {', '.join((*NEEDED, *FURTHER))}, units, base"
            raise ReefcoreError(f"{name!r} is no key of a column map", where, do)
        if plain in found:
            raise ReefcoreError(f"the column map says twice what {plain} is", where, "keep one of the two")
        found[plain] = value if plain in ("units", "base") else str("" if value is None else value).strip()
    if missing := [name for name in NEEDED if not found.get(name)]:
        raise ReefcoreError(f"the column map lacks {', '.join(missing)}", where, "say which columns hold them")
    if str(found.get("units", "pixels")) not in UNITS:
        raise ReefcoreError(f"units is {found['units']!r} in the column map", where, f"use {', '.join(UNITS)}")
    if str(found.get("base", 0)) not in ("0", "1"):
        raise ReefcoreError(f"base is {found['base']!r} in the column map", where, "use 0 or 1")
    return found | ({"base": int(found["base"])} if "base" in found else {})


def proposal(head: Head) -> str:
    """Propose a column map for a table of no known format; empty text where nothing in it looks like points."""
    for one in (head, *lower_headers(head)):
        likely = {}
        for name, keys in LIKELY.items():
            if (at := one.first(*keys)) is not None:
                likely[name] = one.header[at].strip()
        if len(likely) == len(LIKELY) and len(set(likely.values())) == len(likely):
            said = ", ".join(f"{name}: {title}" for name, title in likely.items())
            return f"say which column is which (columns in site.yaml, or --columns), perhaps {{{said}}}"
    return ""


def _at(head: Head, title: str, name: str) -> int:
    """Find a column by its name to the letter, else by its letters and digits."""
    titles = [one.strip() for one in head.header]
    if title in titles:
        return titles.index(title)
    if key(title) in head.columns:
        return head.columns[key(title)]
    near = difflib.get_close_matches(title, titles, 1, 0.5)
    do = f"did you mean {near[0]!r}" if near else f"its columns are {', '.join(repr(one) for one in titles[:12])}"
    raise ReefcoreError(f"the column map says that {name} is {title!r}, which is no column of this file", head.path, do)


def _below_titles(head: Head, columns: dict) -> Head:
    """Find the header that has the columns of a map, below titles where need be."""
    wanted = {key(columns[name]) for name in NEEDED}
    return next((one for one in (head, *lower_headers(head)) if wanted <= one.columns.keys()), head)


def _whole(text: str) -> str:
    value = number(text)
    return str(math.floor(value)) if math.isfinite(value) else text


def read(head: Head, options: Options) -> Result:
    """Read a table by a column map.

    Raises
    ------
    ReefcoreError
        Where there is no map, or it names a column that the file lacks.
    """
    if options.columns is None:
        raise ReefcoreError("this format needs a column map", head.path, "give columns=, image, row, column and label")
    columns = dict(options.columns)
    units, base = columns.pop("units", "pixels"), columns.pop("base", None)
    head = _below_titles(head, columns)
    places = {name: _at(head, title, name) for name, title in columns.items()}
    if len(set(places.values())) < len(places):
        twice = [name for name, at in places.items() if list(places.values()).count(at) > 1]
        raise ReefcoreError(f"the column map gives one column to {' and '.join(twice)}", head.path, "name two columns")
    sheet = load_sheet(head)
    text = sheet.frame
    given = {name: (head.header[at].strip(), text[at]) for name, at in places.items()}
    given["label_raw"] = given.pop("label")
    named = {
        places[name]: name for name in FURTHER if name in places and name not in ("source", "latitude", "longitude")
    }
    used = {places[name] for name in (*NEEDED, "source", "latitude", "longitude") if name in places}
    further = extras(head, sheet, used, options, named)
    if "annotator" in places:
        values = hide(text[places["annotator"]], options)
        further["annotator"] = values.where(values.ne(""))
    images, out = given["image"][1], pd.Series("", index=text.index, dtype="str")
    if units != "pixels":
        if options.size is None and options.sizes is None and {"width", "height"} <= places.keys():
            own = pd.DataFrame({"image": images} | {side: numbers(text[places[side]]) for side in ("width", "height")})
            options = replace(options, sizes=own)
            options.check_sizes()
        parts = {name: given[name] for name in ("row", "column")}
        parts, sizes, out = scaled(head, sheet, options, images, parts, out, UNITS[units])
        given |= parts
        further |= {side: sizes[side] for side in sizes}
    else:
        for name in ("row", "column"):
            title, values = given[name]
            given[name] = title, each(values, _whole)
            if odd := int((numbers(values) % 1 > 0).sum()):
                sheet.problems.append((None, title, f"{odd:,} values between two pixels were rounded down"))
    if base is not None and options.base is None:
        options = replace(options, base=base)
    return build(head, sheet, given, further, options, out, fixed=units != "pixels")


FORMATS = [Format("columns", "a table of points", lambda head: False, read)]
