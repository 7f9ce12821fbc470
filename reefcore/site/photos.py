"""Which photo belongs to which image: names are the same across case, ending, spaces, copies and subfolders."""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
from PIL.ExifTags import GPS, Base

from reefcore import images
from reefcore.errors import ReefcoreError
from reefcore.substrate import tracks

HOW = ("exact", "case", "ending", "spaces", "suffix")  # a name is looked for by each in turn; the first that finds it
#: In words: how a photo has the same name as its image
WAYS = {
    "exact": "exactly",
    "case": "but for capitals",
    "ending": "but for the ending",
    "spaces": "but for blanks and signs",
    "suffix": "but for the mark of a copy",
    "subfolder": "in a subfolder",
}
#: What programs add to the name of a copy: `` (1)``, `` copy``, `` - Copy (2)``, ``-1``.
COPY = re.compile(r"(?:\s*\(\d+\)|[\s_-]*\b(?:copy|kopie|copie|copia)(?:[\s_-]*\d+)?|-\d{1,2})+$", re.IGNORECASE)
ENDING = re.compile(r"\.(?:jpe?g|png|tiff?|bmp|webp|gif|nef|cr2|arw|dng|heic|orf|rw2)$", re.IGNORECASE)
NEAR = 0.75  # of difflib: names that are shown as perhaps meant
MOST_NEAR = 2000  # unmatched images for which that is looked up
LOOK_ALIKE = str.maketrans("oli", "011")  # letters that are typed for digits, in lower case
HEAD = 65536  # bytes that, with the size, tell whether two photos are the same
COLUMNS = ["path", "source", "image", "how", "near", "state"]
FACTS = ["path", "photo_width", "photo_height", "orientation", "camera", "date", "latitude", "longitude", "problem"]


def listing(folder: str | Path) -> list[str]:
    """List the photos in a folder and all its subfolders, as sorted paths relative to it; hidden ones are left out.

    Raises
    ------
    ReefcoreError
        Where there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "this is a file, not a folder of photos" if folder.exists() else "there is no such folder of photos"
        raise ReefcoreError(what, folder, "write the folder behind photos: in site.yaml, or leave it empty")
    found = []
    for where, below, names in os.walk(folder, followlinks=True):
        below[:] = sorted(name for name in below if not name.startswith((".", "__MACOSX")))
        inside = Path(where).relative_to(folder)
        kept = (name for name in names if name.lower().endswith(images.ENDINGS) and not name.startswith("."))
        found += [(inside / name).as_posix() for name in kept]
    return sorted(found)


def _parts(name: str) -> list[str]:
    """Split a name as any system writes it into folders and file name, in composed letters."""
    name = unicodedata.normalize("NFC", name.strip())
    if "://" in name:
        name = unquote(re.sub(r"[?#].*$", "", name.split("://", 1)[1]))
    return [part for part in re.split(r"[\\/]+", name) if part not in ("", ".")] or [name]


def _plain(text: str) -> str:
    """Reduce a name or folder to its letters and digits, words apart by one blank."""
    text = unquote(text) if "%" in text else text
    return re.sub(r"[\W_]+", " ", unicodedata.normalize("NFC", text).casefold()).strip()


def _keys(name: str) -> tuple[str, str, str, str, str]:
    """Give the keys of a file name, one per entry of `HOW`; the last is without what marks a copy."""
    low = name.casefold()
    stem = ENDING.sub("", low)
    return name, low, stem, _plain(stem), _plain(COPY.sub("", unquote(stem) if "%" in stem else stem))


def match(wanted: pd.DataFrame, paths: Iterable[str], folder: Path | None = None) -> pd.DataFrame:
    """Find the photo of each image by its name.

    A name is looked for as it is, then without regard to case, to the ending, to blanks and signs (and what a URL makes
    of them), and to the mark of a copy, ``(1)``, `` copy`` or ``-1``, on one side. Where several photos fit, the one
    whose folders are in the image's own path, or are its source, survey, site, transect or file is taken; where that
    does not decide, and the files differ, none is: it is ambiguous.

    Parameters
    ----------
    wanted : DataFrame
        ``source``, ``image``, each pair once; and ``file``, ``survey``, ``site``, ``transect`` where known. An image
        that several files of annotations have may share its photo; two images of one file may not.
    paths : iterable of str
        Photos, as `listing` gives them.
    folder : path, optional
        Where they lie: then photos that fit equally are compared, and equal files count as one.

    Returns
    -------
    DataFrame
        A row per image and a row per photo that no image has: ``path``, ``source``, ``image``, ``how`` (one of `HOW`,
        or ``subfolder`` where an exact name lay in a subfolder that is not the source's), ``near`` (the name that was
        perhaps meant, of the first 2,000 unmatched images; the photos that an ambiguous one may be; the photo that a
        copy is of), ``state`` (matched, unmatched, ambiguous; copy: the same file as a photo that is matched).
    """
    paths = list(paths)
    split = [_parts(path) for path in paths]
    keyed = [_keys(parts[-1]) for parts in split]
    index = [defaultdict(list) for _ in HOW]
    for number, keys in enumerate(keyed):
        for level, key in enumerate(keys):
            index[level][key].append(number)
    file = wanted["file"] if "file" in wanted else wanted["source"]
    texts = [wanted[name].astype("object").where(wanted[name].notna(), "").astype(str) for name in ("source", "image")]
    rows = list(zip(*texts, file.astype(str), strict=True))
    about = [name for name in ("source", "survey", "site", "transect") if name in wanted]
    tokens = [
        {_plain(str(value)) for value in row if pd.notna(value)} - {""} for row in wanted[about].itertuples(False)
    ]
    for some, (_, _, name) in zip(tokens, rows, strict=True):  # 2016/export.csv: its photos may be in 2016
        some.update(_plain(part) for part in re.sub(r"\.\w+$", "", name).split("/"))
    asked = [_parts(image) for _, image, _ in rows]
    asked_keys = [_keys(parts[-1]) for parts in asked]
    taken, state, how = [-1] * len(rows), ["unmatched"] * len(rows), [None] * len(rows)
    used: dict[tuple, int] = {}  # file and photo -> image
    for level, name in enumerate(HOW):
        claims = defaultdict(list)
        for row in range(len(rows)):
            if state[row] != "unmatched":
                continue
            keys = asked_keys[row]
            fits = index[level].get(keys[level] or None, ())  # nothing but signs is no name
            if name == "suffix":  # the mark of a copy may be on one side, not on both: (1) is not (2)
                fits = [n for n in fits if keyed[n][3] == keys[4] or keys[3] == keyed[n][4]]
            fits = [n for n in fits if (rows[row][2], n) not in used]
            if not fits:
                continue
            chosen = _choose(fits, split, asked[row], tokens[row], paths, folder)
            if chosen is None:
                state[row] = "ambiguous"
                how[row] = fits
            else:
                claims[rows[row][2], chosen].append(row)
        for (source_file, photo), those in claims.items():
            if len(those) > 1:  # names that repeat between surveys: the folder must say whose photo it is
                scores = [_score(split[photo], asked[row], tokens[row]) for row in those]
                best = [row for row, score in zip(those, scores, strict=True) if score == max(scores)]
                for row in those:
                    if len(best) > 1:
                        state[row], how[row] = "ambiguous", [photo]
                those = best if len(best) == 1 else []
            for row in those:
                used[source_file, photo] = row
                inside = [_plain(part) for part in split[photo][:-1]]
                place = level == 0 and inside and inside != [_plain(part) for part in asked[row][:-1]]
                place = place and inside != [_plain(rows[row][0])]
                taken[row], state[row], how[row] = photo, "matched", "subfolder" if place else name
    claimed = {photo for _, photo in used}
    doubtful = {n for row, fits in enumerate(how) if state[row] == "ambiguous" for n in fits} - claimed
    near = _near([row for row in range(len(rows)) if state[row] == "unmatched"], asked_keys, claimed | doubtful, keyed)
    found = []
    for row, (source, image, _) in enumerate(rows):
        path = paths[taken[row]] if taken[row] >= 0 else None
        guess = paths[near[row]] if row in near else None
        if state[row] == "ambiguous":
            guess = ", ".join(paths[n] for n in how[row][:3]) + (", ..." if len(how[row]) > 3 else "")
        found.append((path, source, image, how[row] if path else None, guess, state[row]))
    back = {photo: rows[row][1] for row, photo in near.items()}
    twins = {keyed[photo][4]: photo for photo in claimed}
    for number in sorted(set(range(len(paths))) - claimed):
        kind, guess = "ambiguous" if number in doubtful else "unmatched", back.get(number)
        twin = twins.get(keyed[number][4])
        if folder and twin is not None and _beginning(folder / paths[twin]) == _beginning(folder / paths[number]):
            kind, guess = "copy", paths[twin]
        found.append((paths[number], None, None, None, guess, kind))
    return pd.DataFrame(found, columns=COLUMNS).astype("str")


def _score(photo: list[str], image: list[str], tokens: set[str]) -> tuple[int, int]:
    """Count the folders that a photo's path shares with the end of the image's own path, and with its survey."""
    mine, theirs = ([_plain(part) for part in reversed(parts[:-1])] for parts in (photo, image))
    tail = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    return tail, len(set(mine) & (tokens | set(theirs)))


def _choose(fits, split, image, tokens, paths, folder) -> int | None:
    """Choose among photos that fit a name equally; None where nothing decides."""
    if len(fits) == 1:
        return fits[0]
    scores = {n: _score(split[n], image, tokens) for n in fits}
    best = [n for n in fits if scores[n] == max(scores.values())]
    if len(best) == 1:
        return best[0]
    if folder is not None and len({_beginning(folder / paths[n]) for n in best[:20]}) == 1:
        return min(best, key=lambda n: (len(split[n]), paths[n]))  # copies of one file: any is right
    return None


def _beginning(path: Path) -> tuple:
    try:
        with open(path, "rb") as handle:
            return path.stat().st_size, handle.read(HEAD)
    except OSError:
        return (str(path),)


def _near(lost: list[int], asked, claimed: set[int], keyed) -> dict[int, int]:
    """Find for images without a photo the unused photo whose name is most like theirs, if one is like it at all."""
    buckets, near = defaultdict(list), {}
    free = [n for n in range(len(keyed)) if n not in claimed]

    def ends(key: str) -> list[tuple]:
        digits = re.findall(r"\d+", key)
        return [("start", key[:5]), ("end", key[-5:]), ("digits", digits[-1].lstrip("0") if digits else key)]

    for number in free:
        for bucket in ends(keyed[number][3]):
            buckets[bucket].append(number)
    for row in lost[:MOST_NEAR]:
        key = asked[row][3]
        some = dict.fromkeys(n for bucket in ends(key) for n in buckets[bucket][:30])
        names = {keyed[n][3]: n for n in reversed(some) if _same_numbers(key, keyed[n][3])}
        if best := difflib.get_close_matches(key, names, 1, NEAR):
            near[row] = names[best[0]]
    return near


def _same_numbers(one: str, other: str) -> bool:
    """Tell whether two names can be of one photo by their numbers: equal ones but for order, or a digit that lacks."""
    a, b = ([n.lstrip("0") for n in re.findall(r"\d+", name.translate(LOOK_ALIKE))] for name in (one, other))
    if sorted(a) == sorted(b):
        return True
    a, b = sorted(("".join(a), "".join(b)), key=len)
    return len(b) - len(a) == 1 and any(b[:n] + b[n + 1 :] == a for n in range(len(b)))


def facts(folder: str | Path, paths: Iterable[str], workers: int = 2) -> pd.DataFrame:
    """Read what the headers of photos say.

    Returns
    -------
    DataFrame
        ``path``, ``photo_width`` and ``photo_height`` in pixels as stored (NA where it cannot be read), ``orientation``
        (of EXIF, 1 where it has none), ``camera``, ``date`` (the camera's own clock), ``latitude``, ``longitude``,
        ``problem``.
    """
    folder, paths = Path(folder), list(paths)
    with ThreadPoolExecutor(workers) as pool:
        rows = list(pool.map(lambda path: (path, *_facts(folder / path)), paths))
    table = pd.DataFrame(rows, columns=FACTS)
    table["date"] = pd.to_datetime(table["date"], errors="coerce", format="ISO8601")
    types = {"photo_width": "Int64", "photo_height": "Int64", "orientation": "int64", "camera": "str", "path": "str"}
    types |= {"date": "datetime64[us]", "latitude": "float64", "longitude": "float64", "problem": "str"}
    return table.astype(types)


def _facts(path: Path) -> tuple:
    """Read the header of one photo: the columns of `facts` after the path, the date still as text."""
    width = height = camera = clock = None
    orientation, latitude, longitude, problem = 1, np.nan, np.nan, ""
    try:
        width, height = images.image_size(path)
        tags, taking, gps = images.exif(path)
        camera = images.camera(path) if tags.get(Base.Make) or tags.get(Base.Model) else None
    except ReefcoreError as error:
        return width, height, orientation, camera, clock, latitude, longitude, error.what
    if isinstance(turned := tags.get(Base.Orientation), int):
        orientation = turned
    clock = str(taking.get(Base.DateTimeOriginal) or "").strip("\0 ").replace(":", "-", 2) or None
    try:
        if gps and str(gps.get(GPS.GPSStatus) or "A").strip("\0 ") != "V":  # V: the receiver had no fix
            degrees = tracks.dms_degrees  # the one reading of rationals, without the time zones of `tracks.taken`
            there = (
                degrees(gps.get(GPS.GPSLatitude), gps.get(GPS.GPSLatitudeRef), "NS", "latitude"),
                degrees(gps.get(GPS.GPSLongitude), gps.get(GPS.GPSLongitudeRef), "EW", "longitude"),
            )
            latitude, longitude = there
    except ValueError as error:
        problem = str(error)
    return width, height, orientation, camera, clock, latitude, longitude, problem
