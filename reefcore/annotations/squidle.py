"""Squidle+'s exports of annotations, with dots or underscores in their column names.

``point.x`` and ``point.y`` are fractions of the photo's width and height from its top-left corner: without the size of
a photo they are no pixels. A row without them labels a whole frame and is left out. An image is named by the file name
in ``point.media.path_best`` where that has one, as a photo that was downloaded is, and by its key otherwise.
"""

from __future__ import annotations

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
    scaled,
    titled,
)
from reefcore.annotations.sheet import Head, load

#: Standard column -> the key of Squidle+'s column.
STANDARD = {
    "date": ("pointposetimestamp", "pointmediatimestampstart"),
    "depth": ("pointposedep",),
    "altitude": ("pointposealt",),
    "survey": ("pointmediadeploymentname",),
    "group_in_file": ("labellineagenames",),
}
LABEL = ("labelname", "labellineagenames", "labeltranslatedname", "labeltranslatedlineagenames")
NONE = ("", "none", "null", "nan")


def _file_name(path: str) -> str:
    """Give the file that a path or an address ends with; empty text where that has no ending of a photo."""
    name = re.split(r"[\\/]", re.split(r"[?#]", path)[0])[-1]
    return name if re.search(r"\.(jpe?g|png|tiff?|bmp|gif|webp)$", name, re.IGNORECASE) else ""


def read(head: Head, options: Options) -> Result:
    """Read an export of annotations."""
    label = head.first(*LABEL)
    need(
        head,
        "a Squidle+ export of annotations",
        **{
            "point.media.key": head.first("pointmediakey", "pointmediapathbest"),
            "label.name": label,
        },
    )
    sheet = load(head)
    text = sheet.frame = sheet.frame.replace("NA", "")  # what R writes for an empty cell
    key, best = cells(head, text, "pointmediakey"), each(cells(head, text, "pointmediapathbest"), _file_name)
    stem = best.str.replace(r"\.\w+$", "", regex=True)
    images = best.where(best.ne("") & (key.eq("") | key.eq(stem) | key.eq(best)), key)
    x, y = cells(head, text, "pointx"), cells(head, text, "pointy")
    frames = x.str.lower().isin(NONE) & y.str.lower().isin(NONE)
    out = pd.Series("", index=images.index, dtype="str").mask(frames, "a label of a whole frame, no point")
    if frames.any():
        sheet.problems.append((None, "point.x", f"{counted(frames.sum(), 'label')} of whole frames left out"))
    source = pd.Series(options.source or head.path.stem, index=images.index, dtype="str")
    if head.has("pointmediaid"):
        media = cells(head, text, "pointmediaid")
        images, said = named_apart(images, source, media, cells(head, text, "pointmediadeploymentname"), media)
        sheet.problems += said
    given = {
        "image": ("point.media.key", images),
        "label_raw": (head.header[label].strip(), cells(head, text, *LABEL)),
    }
    places, sizes, out = scaled(head, sheet, options, images, {"row": ("point.y", y), "column": ("point.x", x)}, out)
    given |= places
    given |= titled(head, text, latitude="pointposelat", longitude="pointposelon")
    named = {head.first(*keys): name for name, keys in STANDARD.items() if head.first(*keys) not in (None, label)}
    used = {head.columns[name] for name in ("pointposelat", "pointposelon", "pointx", "pointy") if head.has(name)}
    further = extras(head, sheet, used | {label}, options, named) | {side: sizes[side] for side in sizes}
    who = (cells(head, text, "userfirstname") + " " + cells(head, text, "userlastname")).str.strip()
    who = hide(who.mask(who.eq(""), cells(head, text, "userusername", "user")), options)
    further["annotator"] = who.where(who.ne(""))
    result = build(head, sheet, given, further, options, out)
    if "point_id" in result.frame:
        again = int(result.frame["point_id"].dropna().duplicated().sum())
        if again:
            result.problems.append(
                (
                    None,
                    "point.id",
                    f"{counted(again, 'label stands', 'labels stand')} on a point that has one already; all were kept",
                )
            )
    return result


FORMATS = [
    Format(
        "squidle",
        "a Squidle+ export of annotations",
        lambda head: head.has("pointx", "pointy") and head.first(*LABEL) is not None,
        read,
    )
]
