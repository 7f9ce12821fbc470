"""CoralNet's exports of points, in every width they have had, and what spreadsheets, R and people make of them.

Which column holds the label: ``Label ID`` wins over ``Label code``, as in CoralNet's own uploads, and both win over the
older ``Label``, which is a short code; the CoralNet-Toolbox has ``Short Code``. API results keep ``label_code``.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd

from reefcore.annotations.points import (
    Format,
    Options,
    Result,
    build,
    counted,
    each,
    extras,
    grouped,
    has_index,
    need,
    plain_number,
)
from reefcore.annotations.sheet import Head, key, load

NAMES = ("name", "imagename", "filename", "image", "imagefile")
LABELS = ("labelid", "labelcode", "label", "shortcode", "labelname")  # the last two in tables of the CoralNet-Toolbox
OWN = {*NAMES, *LABELS, "row", "column", "heightcm", "machinesuggestion1", "dateannotated", "waterquality"}


def _image(head: Head) -> int | None:
    """Find the column of image names: by its name, or a first column whose header is blank."""
    found = head.first(*NAMES)
    return 0 if found is None and head.header and not head.header[0].strip() else found


def _by_r(head: Head, text: pd.DataFrame) -> bool:
    """Tell whether R wrote the file: dots for spaces in its header, or an unnamed column that counts from 1."""
    dotted = any("." in title and key(title) in OWN for title in head.header)
    return dotted or (has_index(head, text) and text[0].iloc[0] == "1")


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
    given = {name: (head.header[at].strip() or name, text[at]) for name, at in columns.items()}
    given["label_raw"] = given["label_raw"][0], raw
    out = pd.Series("", index=text.index, dtype="str")
    if head.has("machinesuggestion1"):  # an unconfirmed point: what the machine suggests is no label
        only = raw.eq("") & text[head.columns["machinesuggestion1"]].ne("")
        out = out.mask(only, "no label, only a machine's suggestion")
        if only.any():
            said = f"{counted(only.sum(), 'point')} left out, without a label but with a machine's suggestion"
            sheet.problems.append((None, head.header[label].strip(), said))
    further = extras(head, sheet, used, options)
    if head.has("verified", "patchsize"):  # the CoralNet-Toolbox says whether a person has confirmed a label
        by = {"true": "person", "1": "person", "false": "machine", "0": "machine"}
        further["labelled_by"] = text[head.columns["verified"]].str.lower().map(by).astype("str")
    for name in {"latitude", "longitude"} & set(columns):  # what a number cannot say, such as 20.50, stays as text
        values = text[columns[name]]
        if each(values, plain_number).ne(values).any():
            further[f"{name}_in_file"] = values.where(values.ne(""))
            options.titles[f"{name}_in_file"] = head.header[columns[name]]
    return build(head, sheet, given, further, options, out, fixed=False)


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
    head = replace(head, header=[name if key(name) != "score" else "score" for name in head.header])
    result = _read(head, options, title, ("labelcode", "labelid"))
    frame = result.frame
    point = [name for name in ("source", "image", "point_number", "row", "column") if name in frame]
    best = frame.sort_values("score", ascending=False, kind="stable", na_position="last")
    best = best.drop_duplicates(point).sort_index().reset_index(drop=True)
    if others := len(frame) - len(best):
        several = int((frame.groupby(point, dropna=False).size() > 1).sum())
        text = (
            f"{counted(others, 'lower-ranked answer')} of {counted(several, 'point')} left out; the best score of each "
        )
        text += "was kept"
        result.problems.append((None, "score", text))
        result.left_out["a lower-ranked answer of the same point"] = others
    result.frame = best.assign(labelled_by="machine")
    return result


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
