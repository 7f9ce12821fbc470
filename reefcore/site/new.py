"""Begin a site: look at what there is, and write a site.yaml that says in comments what was found."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from reefcore import spreadsheets
from reefcore.annotations import columns as column_map
from reefcore.errors import ReefcoreError
from reefcore.files import atomic
from reefcore.site import settings, tables

HEAD = """\
# A site of the ReefNet Companion. Edit a line, save, and type `reefcore site check {site}` again.
# Paths are relative to this file. Text after # is a remark. Put text with : # % or \\ in 'single quotes'.
# `reefcore site report {site}` makes the report.
"""
#: Key, how it is written where it is empty, and what it does.
LINES = [
    ("name", "''", "for titles"),
    ("annotations", "''", "the export, or several, or folders of them"),
    ("photos", "", "the folder of photos; subfolders are looked through"),
    ("metadata", "", "a CSV or xlsx with a row per image: date, site, transect, depth, latitude, longitude"),
    ("format", "", "only where the format of the annotations is not recognised"),
    ("source", "", "one name for the source of all annotations, in place of what the files say"),
    ("size", "", "of the photos in pixels, 4000x3000: only where the export has fractions and there are no photos"),
    ("columns", "", "only for a table of your own: which column is what, or a YAML file that says so"),
    (None, "", "\n# How rows and columns are to be understood. `reefcore site check` says where a line should change."),
    ("base", "", "1 where rows and columns count from 1"),
    ("swap", "false", "true where rows and columns are exchanged"),
    ("scale", "1", "pixels of these photos per pixel of the export, where photos were resized"),
    (None, "", "\n# What is known of the images: names of columns, of the metadata or of the export."),
    ("image_column", "", ""),
    ("date_column", "", ""),
    ("site_column", "", ""),
    ("transect_column", "", ""),
    ("depth_column", "", "metres"),
    ("latitude_column", "", "decimal degrees"),
    ("longitude_column", "", "decimal degrees"),
    ("date_format", "", "'%d/%m/%Y' or '%m/%d/%Y', where dates can be read both ways"),
    ("from_name", "", "read facts from image names: '(?P<site>[A-Z]+)_(?P<transect>T[0-9]+)_.*'"),
    ("exif", "true", "false: do not take date and position from the photos' own headers"),
    (None, "", "\n# What names and comparisons refer to."),
    ("ocean", "", "Atlantic or Indo-Pacific: decides names of corals; by default the positions tell"),
    ("meow", "", "the shapefile of marine ecoregions, if you have it"),
    ("reefnet", "", "a profile whose ReefNet sources your reef is compared with"),
    ("labels", "labels.csv", "what each label means; edit it in a spreadsheet"),
    (None, "", "\n# What a report shows. Nothing leaves this computer."),
    ("privacy", "{{positions: exact, photos: true, names: false}}", "positions: exact, rounded (0.1 degree) or none"),
    (
        None,
        "",
        "\n# The classifier goes by colour and texture. A checkpoint of `reefcore train`, or weights of timm or",
    ),
    (None, "", "# open_clip on this computer, are tried beside it, and the better is used. use: false leaves it out."),
    ("classifier", "{{use: true, checkpoint: '', weights: ''}}", ""),
    (None, "", "\n# How the numbers are made."),
    ("seed", "0", "of everything random"),
    ("resamples", "1000", "of the intervals"),
]


def new(
    name: str,
    files: Sequence[str | Path],
    photos: str | Path | None = None,
    metadata: Sequence[str | Path] = (),
    format: str | None = None,
    columns: str | Path | None = None,
    size: str | None = None,
    folder: str | Path = "sites",
    force: bool = False,
) -> tuple[settings.Site, dict[str, pd.DataFrame]]:
    """Make the folder of a site with its site.yaml.

    Parameters
    ----------
    name : str
        The folder is named after it.
    files : sequence of path
        Files or folders of annotations.
    photos, metadata, format, columns, size
        As in `reefcore.site.Site`.
    folder : path
        Where the site's folder goes.
    force : bool
        Replace a site.yaml that is there (it is kept as ``site.yaml.before``); labels.csv stays.

    Returns
    -------
    site : Site
    made : dict of DataFrame
        See `reefcore.site.make`.

    Raises
    ------
    ReefcoreError
        Where the site is there already, or nothing can be read: then nothing is written.
    """
    short = settings.slug(name)
    if not short or short == settings.MADE_UP:
        why = "is kept for the reef that travels with reefcore" if short else "has no letter or digit"
        raise ReefcoreError(f"the name {name!r} {why}", do="choose another one")
    if not name.isprintable():  # a line break, which no settings file may have
        raise ReefcoreError(f"the name {name!r} has signs that no name has", do="choose another one")
    home = Path(folder) / short
    path = home / settings.FILE
    if path.exists() and not force:
        raise ReefcoreError("this site is there already", path, "edit it, or give --force to write it anew")
    for one in (*files, *([photos] if photos else []), *metadata):
        if not Path(one).expanduser().exists():
            raise ReefcoreError("there is no such file or folder", one, "check the path")
    values = {
        "name": name,
        "annotations": [_relative(one, home) for one in _together(files)],
        "format": format,
        "size": size,
    }
    values |= {
        "photos": _relative(photos, home) if photos else None,
        "metadata": [_relative(m, home) for m in metadata],
    }
    inline = columns if isinstance(columns, str) and columns.lstrip().startswith("{") else None
    values["columns"] = column_map.load(inline) if inline else _relative(columns, home) if columns else None
    site = settings.Site(
        name=name,
        annotations=tuple({"file": one} for one in values["annotations"]),
        photos=values["photos"] or "",
        metadata=tuple(values["metadata"]),
        format=format or "",
        columns=values["columns"] or {},
        size=size or "",
        data=str(home.resolve()),
        path=path,
    )
    made = tables.make(site)  # before anything is written
    if path.exists():
        os.replace(path, path.with_name(f"{settings.FILE}.before"))
    with atomic(path) as temporary:
        temporary.write_text(_text(short if str(folder) == "sites" else str(home), values, made), encoding="utf-8")
    return settings.load(path), made


def _together(files: Sequence[str | Path]) -> list[str | Path]:
    """Give a folder for its files, where all of one kind are named: what ``*.cpc`` means to a shell."""
    paths = [Path(one).expanduser().resolve() for one in files]
    kinds = {(path.parent, path.suffix) for path in paths}
    if len(paths) > 3 and len(kinds) == 1:
        ((parent, suffix),) = kinds
        if sorted(paths) == sorted(path for path in parent.iterdir() if path.suffix == suffix):
            return [parent]
    return list(files)


def _relative(path: str | Path, home: Path) -> str:
    """Write a path relative to the site where both lie near each other, else as it is on this machine."""
    whole, home = Path(path).expanduser().resolve(), home.resolve()
    near = os.path.relpath(whole, home)
    return Path(near).as_posix() if near.count("..") <= 3 else whole.as_posix()


def _text(short: str, values: dict, made: dict) -> str:
    checks = made["checks"]
    lines = [HEAD.format(site=short)]
    found = {"annotations": "files", "photos": "photos", "metadata": "metadata"}
    notes = {"date_column": "dates", "site_column": "site", "transect_column": "transect", "depth_column": "depth"}
    notes |= {"latitude_column": "positions", "swap": "rows and columns"}
    for key, blank, remark in LINES:
        if key is None:
            lines.append(remark)
            continue
        for check in [notes[key]] if key in notes else [found[key]] if key in found else []:
            rows = checks[(checks["check"] == check) & (checks["state"].ne("note") | (check == "files"))]
            # A name with a line break would end the remark, and what follows it would be settings.
            texts = ["".join(one if one.isprintable() else " " for one in text) for text in rows["text"].head(3)]
            lines += [f"# found: {text}" for text in texts]
        value = values.get(key)
        if isinstance(value, list):
            value = value[0] if len(value) == 1 else value or None
        written = (
            blank.replace("{{", "{").replace("}}", "}") if value is None else json.dumps(value, ensure_ascii=False)
        )
        line = f"{key}: {written}".rstrip()
        lines.append(f"{line}  # {remark}" if remark else line)
    return "\n".join(lines) + "\n"


def write_lists(site: settings.Site, made: dict[str, pd.DataFrame], root: str | Path = "") -> Path:
    """Write the lists that a check speaks of as CSV, for a spreadsheet; return their folder.

    ``images.csv``, ``photos.csv``, ``problems.csv``, ``left_out.csv``, ``checks.csv`` and ``outside.csv`` (the points
    that lie outside their photo).
    """
    folder = site.folder(root).parent / "csv"
    lists = {name: made[name] for name in ("images", "photos", "problems", "left_out", "checks")}
    points = made["points"]
    out = points[points["inside"].fillna(True).eq(False)]
    sizes = made["images"][["source", "image", "width", "height"]]
    columns = ["file", "source", "image", "row", "column", "label_raw"]
    lists["outside"] = out[columns].merge(sizes, on=["source", "image"], how="left")
    for name, frame in lists.items():
        write_csv(frame, folder / f"{name}.csv")
    return folder


def write_csv(table: pd.DataFrame, path: Path) -> Path:
    """Write a table for a spreadsheet: with the mark that says it is UTF-8, and no text that would run as a formula."""
    from pyarrow import Table, csv

    table = table.copy(deep=False)
    for name in table:
        if pd.api.types.is_datetime64_any_dtype(table[name]):
            table[name] = table[name].dt.strftime("%Y-%m-%d %H:%M:%S").str.removesuffix(" 00:00:00")
    table = spreadsheets.inert(table)
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.write(b"\xef\xbb\xbf")
        csv.write_csv(Table.from_pandas(table, preserve_index=False), file, csv.WriteOptions(quoting_style="needed"))
    return path
