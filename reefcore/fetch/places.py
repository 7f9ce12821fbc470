"""Two things that are not ReefNet's: the polygons of ecoregions, and the photos of the substrate survey."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import pandas as pd

from reefcore import geography
from reefcore.errors import ReefcoreError
from reefcore.fetch import MEOW, SUBSTRATE, hub
from reefcore.files import atomic, write_json
from reefcore.images import ENDINGS, image_size

FRAME = (5312, 3040)  # width and height of the survey's frames, in pixels, as the authors' code expects them
CLASSES = {"deploy": "Deploy", "nodeploy": "No-Deploy", "coral": "Coral"}  # a folder's name as letters -> a class


def meow(data: str | Path, url: str | Iterable[str] = geography.MEOW_URLS, timeout: float = 60) -> Path:
    """Put the polygons into the data folder, and where `reefcore.geography.locate` looks by itself.

    See `reefcore.geography.download_meow`.
    """
    shapefile = geography.download_meow(Path(data) / MEOW, url, timeout)
    geography.download_meow(None, shapefile)
    return shapefile


def missing(
    data: str | Path, revision: str | None = None, ask: hub.Hub | None = None
) -> tuple[hub.Listing, list[hub.Remote]]:
    """Say what the dataset of the substrate survey holds, and what of it is not in ``substrate`` yet."""
    folder = Path(data) / "substrate"
    known = hub.record(folder)
    there = sorted({facts["revision"] for facts in known.values()})
    listing = (ask or hub.Hub()).listing(SUBSTRATE, revision or (there[-1] if there else None))
    have = {one for one in listing.files if hub.is_there(folder, one.path, known)}
    return listing, [one for one in listing.files if one not in have or one.size != known[one.path]["size"]]


def substrate(
    data: str | Path, listing: hub.Listing, todo: Iterable[hub.Remote], ask: hub.Hub | None = None
) -> pd.DataFrame:
    """Get the files of the substrate survey that are `missing`, and say what is in them.

    How the dataset is laid out is not known here, so everything is fetched (about 32 GB) into ``substrate``, with the
    hub's paths. Photos that are whole frames by their size get a second name in ``frames``, where the chapters look.
    Its tables are listed, not read: which of their columns mean what has to be seen first.

    Returns
    -------
    DataFrame
        ``path``, ``size`` (bytes), ``what`` (frame, photo of another size, table, archive, not recognised) and
        ``class`` (of the folder's name, where it is one), sorted by path; in ``substrate/recognised.json`` too.
    """
    folder = Path(data) / "substrate"
    known = hub.record(folder)
    for one in todo:
        known[one.path] = (ask or hub.Hub()).fetch(listing, one, folder / one.path)
        write_json(known, folder / hub.RECORD)
    return recognise(data, [one.path for one in listing.files])


def recognise(data: str | Path, paths: Iterable[str]) -> pd.DataFrame:
    """Say what files of the substrate survey are by what they hold, and give frames their place; see `substrate`."""
    data, rows, seen = Path(data), [], {}
    for path in sorted(paths):
        file, parts = data / "substrate" / path, PurePosixPath(path).parts
        letters = ["".join(filter(str.isalpha, part.lower())) for part in parts[:-1]]
        label = next((CLASSES[part] for part in reversed(letters) if part in CLASSES), "")
        ending = PurePosixPath(path).suffix.lower()
        what = "table" if ending in (".csv", ".xlsx", ".parquet", ".json") else "not recognised"
        if ending in ENDINGS:
            with contextlib.suppress(ReefcoreError):
                what = "frame" if image_size(file) == FRAME else "photo of another size"
        elif ending in (".zip", ".tar", ".gz", ".tgz", ".7z"):
            what = "archive"
        if what == "frame":
            if parts[-1] in seen:
                raise ReefcoreError(
                    f"two frames are called {parts[-1]}: {seen[parts[-1]]} and {path}", data / "substrate"
                )
            seen[parts[-1]] = path
            _second(file, data / "frames" / parts[-1])
        rows.append((path, file.stat().st_size, what, label))
    table = pd.DataFrame(rows, columns=["path", "size", "what", "class"])
    write_json(table.to_dict("records"), data / "substrate" / "recognised.json")
    return table


def _second(file: Path, name: Path) -> None:
    """Give a file a second name, or a copy where the disk cannot."""
    if name.exists():
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    try:
        name.hardlink_to(file)
    except OSError:
        with atomic(name) as temporary:
            shutil.copyfile(file, temporary)
