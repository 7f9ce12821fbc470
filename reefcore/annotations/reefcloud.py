"""ReefCloud's export of points, one row per point with everything about its project, site, survey and image.

``point_coordinate`` is the text "x, y" in pixels from the top-left corner; a point lies in the pixel that holds it, so
fractions are cut off. The label is the person's, and the machine's where no person gave one. Image names repeat between
surveys: a survey is a source here, so that source and image name one photo.
"""

from __future__ import annotations

import math
import re

import pandas as pd

from reefcore.annotations.points import (
    Format,
    Options,
    Result,
    build,
    cells,
    counted,
    each,
    extras,
    hide,
    named_apart,
    need,
    number,
    titled,
)
from reefcore.annotations.sheet import Head, load

LABELS = ("pointhumanclassification", "pointmachineclassification")
COORDINATE = re.compile(r"[\[(]?\s*([-+\d.eE]+)\s*[,;]\s*([-+\d.eE]+)\s*[\])]?")
#: Standard column -> the keys of ReefCloud's columns that it may come from, best first.
STANDARD = {
    "site": ("sitename",),
    "survey": ("surveytitle",),
    "transect": ("surveytransectnumber",),
    "depth": ("surveydepth", "sitedepth"),
    "width": ("imagewidth",),
    "height": ("imageheight",),
    "group_in_file": ("pointhumangroupcode",),
}
DISABLED = "a point of an image that is disabled"
NEAR = pd.Timedelta(hours=2)  # a survey that begins this near to midnight has a day and no time of day


def _pixel(text: str, axis: int) -> str:
    """Give one part of a coordinate as a whole number; a coordinate that is none stays as it is."""
    found = COORDINATE.fullmatch(text)
    value = number(found[axis]) if found else math.nan
    return str(math.floor(value)) if math.isfinite(value) else text


def _days(starts: pd.Series, longitudes: pd.Series) -> pd.Series:
    """Give the day of each survey at its site: ReefCloud stores the midnight of a day there in UTC."""
    pairs = pd.DataFrame({"start": starts, "longitude": longitudes})
    days = {}
    for start, longitude in set(pairs.itertuples(index=False, name=None)):
        try:
            time = pd.Timestamp(start)
        except ValueError:
            time = pd.NaT
        east = number(longitude)
        if pd.isna(time):
            days[start, longitude] = None
            continue
        time = time.tz_convert("UTC").tz_localize(None) if time.tzinfo else time
        if time != time.normalize() and abs(east) <= 180:
            time += pd.Timedelta(hours=east / 15)  # the mean time of the sun there
            nearest = time.round("D")
            time = nearest if abs(time - nearest) <= NEAR else time
        days[start, longitude] = time.strftime("%Y-%m-%d")
    return pd.Series([days[pair] for pair in pairs.itertuples(index=False, name=None)], index=starts.index, dtype="str")


def read(head: Head, options: Options) -> Result:
    """Read an export of points."""
    human, machine = head.first("pointhumanclassification"), head.first("pointmachineclassification")
    label = machine if human is None else human
    place = head.first("pointcoordinate", "pointx")
    need(head, "a ReefCloud export of points", point_human_classification=label, point_coordinate=place)
    sheet = load(head)
    text = sheet.frame = sheet.frame.replace("NA", "")  # what R writes for an empty cell
    person, answer = cells(head, text, "pointhumanclassification"), cells(head, text, "pointmachineclassification")
    source = cells(head, text, "surveytitle", "sitename", "projectname")
    images = cells(head, text, "imagename")
    if head.has("imageid"):
        within = pd.Series(options.source, index=source.index, dtype="str") if options.source else source
        numbers = cells(head, text, "imageid")
        images, said = named_apart(images, within, numbers, source, source + "/" + numbers)
        sheet.problems += said
    coordinate = text[place]
    if head.has("pointx", "pointy") and not head.has("pointcoordinate"):
        coordinate = coordinate + ", " + cells(head, text, "pointy")
    given = {
        "image": ("image_name", images),
        "row": ("point_coordinate", each(coordinate, lambda text: _pixel(text, 2))),
        "column": ("point_coordinate", each(coordinate, lambda text: _pixel(text, 1))),
        "label_raw": (head.header[label].strip(), person.mask(person.eq(""), answer)),
        "source": ("survey_title", source),
    }
    given |= titled(head, text, latitude="sitelatitude", longitude="sitelongitude")
    named = {head.first(*keys): name for name, keys in STANDARD.items() if head.first(*keys) is not None}
    used = {head.columns[name] for name in ("imagename", "sitelatitude", "sitelongitude") if head.has(name)}
    further = extras(head, sheet, used | {place}, options, named)
    further["labelled_by"] = pd.Series("machine", index=person.index, dtype="str").mask(person.ne(""), "person")
    names = [cells(head, text, f"pointmodifiedby{what}") for what in ("displayname", "username", "email")]
    who = hide(names[0].mask(names[0].eq(""), names[1]).mask(names[0].eq("") & names[1].eq(""), names[2]), options)
    further["annotator"] = who.where(who.ne("") & person.ne(""))
    starts = ("surveystartdate", "surveystartdateutc")
    if head.first(*starts) is not None:
        further["date"] = _days(cells(head, text, *starts), cells(head, text, "sitelongitude"))
    disabled = cells(head, text, "imagedisabled").str.lower().isin(["t", "true", "1", "yes"])
    out = pd.Series("", index=person.index, dtype="str").mask(disabled, DISABLED)
    if disabled.any():
        count = images[disabled].nunique()
        sheet.problems.append(
            (
                None,
                "image_disabled",
                f"{counted(disabled.sum(), 'point')} of {counted(count, 'disabled image')} left out",
            )
        )
    return build(head, sheet, given, further, options, out)


FORMATS = [
    Format(
        "reefcloud",
        "a ReefCloud export of points",
        lambda head: (
            head.has("imagename") and head.first("pointcoordinate", *LABELS) is not None and not head.has("row")
        ),
        read,
    )
]
