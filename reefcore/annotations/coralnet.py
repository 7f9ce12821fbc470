"""CoralNet's exports of points, in every width they have had, and what spreadsheets, R and people make of them.

Which column holds the label: ``Label ID`` wins over ``Label code``, as in CoralNet's own uploads, and both win over the
older ``Label``, which is a short code. API results keep ``label_code``.
"""

from __future__ import annotations

import re

import pandas as pd

from reefcore.annotations.points import PEOPLE, Format, Options, Result, build, each, grouped, need, pseudonym
from reefcore.annotations.sheet import Head, Sheet, key, load, snake
from reefcore.tables import COLUMNS

NAMES = ("name", "imagename", "filename", "image", "imagefile")
LABELS = ("labelid", "labelcode", "label")
OWN = {*NAMES, *LABELS, "row", "column", "heightcm", "machinesuggestion1", "dateannotated", "waterquality"}
FREE = {"broad_category", "condition", "ecoregion", "province", "realm"}  # text columns of the schema a file may fill


def _image(head: Head) -> int | None:
    """Find the column of image names: by its name, or a first column whose header is blank."""
    found = head.first(*NAMES)
    return 0 if found is None and head.header and not head.header[0].strip() else found


def _has_index(head: Head, text: pd.DataFrame) -> bool:
    """Tell whether the first column only numbers the rows: it has no name, and its values rise."""
    if head.header[0].strip() or not len(text):
        return False
    numbers = pd.to_numeric(text[0], errors="coerce")
    return bool(numbers.notna().all() and numbers.is_unique and numbers.is_monotonic_increasing)


def _by_r(head: Head, text: pd.DataFrame) -> bool:
    """Tell whether R wrote the file: dots for spaces in its header, or an unnamed column that counts from 1."""
    dotted = any("." in title and key(title) in OWN for title in head.header)
    return dotted or (_has_index(head, text) and text[0].iloc[0] == "1")


def _extras(head: Head, sheet: Sheet, used: set[int], names: bool) -> dict[str, pd.Series]:
    """Name the further columns: snake_case, empty values missing, people's names replaced; an index is left out."""
    found = {}
    if _has_index(head, sheet.frame):
        used = {0, *used}
    for position, title in enumerate(head.header):
        values = sheet.frame[position]
        if position in used or (not title.strip() and values.eq("").all()):
            continue
        name = plain = snake(title) or f"unnamed_{position + 1}"
        if name in COLUMNS["annotations"] and name not in FREE:
            name = plain = f"{name}_in_file"
        number = 2
        while name in found:
            name, number = f"{plain}_{number}", number + 1
        if plain in PEOPLE and not names:
            values = each(values, pseudonym)
        values = values.where(values.ne(""))
        if plain == "score" or plain.startswith("machine_confidence"):
            values = pd.to_numeric(values, errors="coerce").astype("float64")
        found[name] = values
    return found


def _unmangle(label: str, by_r: bool) -> str:
    """Undo what R's make.names does to ``*MOEN`` and, only in files that R wrote, to ``12_x`` and ``A-B``."""
    label = re.sub(r"^X\.(?=\S)", "*", label)
    return re.sub(r"(?<=\w)\.(?=\w)", "-", re.sub(r"^X(?=\d)", "", label)) if by_r else label


def _read(head: Head, options: Options, title: str, labels: tuple[str, ...]) -> Result:
    image, label = _image(head), head.first(*labels)
    need(head, title, Name=image, Row=head.first("row"), Column=head.first("column"), Label=label)
    sheet = load(head)
    text = sheet.frame
    if by_r := _by_r(head, text):
        sheet.frame = text = text.replace("NA", "")
    columns = {"image": image, "row": head.columns["row"], "column": head.columns["column"], "label_raw": label}
    for name in ("source", "latitude", "longitude"):
        if name in head.columns:
            columns[name] = head.columns[name]
    raw = text[label]
    for other in labels[labels.index(next(name for name in labels if name in head.columns)) :]:
        if other in head.columns:  # where the ID is empty the code stands in, and so on
            raw = raw.where(raw.ne(""), text[head.columns[other]])
    if labels[0] == "labelid":
        raw = raw.str.replace(r"^(\d+)\.0$", r"\1", regex=True)
    used = set(columns.values()) - ({label} if len(head.columns.keys() & set(labels)) > 1 else set())
    restored = each(raw, lambda value: _unmangle(value, by_r))
    said = raw.map(repr) + (" was read as " if options.unmangle else " looks rewritten by R, perhaps from ")
    said += restored.map(repr) + ("" if options.unmangle else "; unmangle=True restores it")
    said = said.where(restored.ne(raw), "")
    sheet.problems += grouped(raw, sheet.lines, head.header[label].strip(), said)
    if options.unmangle:
        raw = restored
    if not head.header[image].strip():
        sheet.problems.append((None, "", "the first column has no name; it was taken for the image names"))
    return build(head, sheet, columns, raw, _extras(head, sheet, used, options.names), options)


def read_export(head: Head, options: Options) -> Result:
    """Read an annotations export of any width."""
    return _read(head, options, "a CoralNet annotations export", LABELS)


def read_annotator(head: Head, options: Options) -> Result:
    """Read the workbook that the ReefNet annotator saves (or the same columns as CSV)."""
    return _read(head, options, "a file of the ReefNet annotator", ("labelcodeabbreviation", "labelname"))


def read_api(head: Head, options: Options) -> Result:
    """Read the results of CoralNet's deploy API; of several ranked answers for one point the best score is kept."""
    title = "a table of CoralNet API results"
    need(head, title, score=head.first("score"))
    result = _read(head, options, title, ("labelcode", "labelid"))
    frame = result.frame
    point = [name for name in ("source", "image", "point_number", "row", "column") if name in frame]
    best = frame.sort_values("score", ascending=False, kind="stable", na_position="last")
    best = best.drop_duplicates(point).sort_index().reset_index(drop=True)
    if others := len(frame) - len(best):
        several = int((frame.groupby(point, dropna=False).size() > 1).sum())
        text = f"{others:,} lower-ranked answers of {several:,} points were left out; the best score of each was kept"
        result.problems.append((None, "score", text))
    return Result(best, result.problems, result.total)


def _is_api(head: Head) -> bool:
    return head.has("row", "column", "score") and head.first("labelcode", "labelid") is not None


def _is_export(head: Head) -> bool:
    return head.has("row", "column") and (_image(head) is not None or head.first(*LABELS) is not None)


FORMATS = [
    Format("coralnet-api", "CoralNet API results", _is_api, read_api),
    Format(
        "reefnet-annotator",
        "a file of the ReefNet annotator",
        lambda head: head.has("row", "column", "labelcodeabbreviation"),
        read_annotator,
    ),
    Format("coralnet", "a CoralNet annotations export", _is_export, read_export),
]
