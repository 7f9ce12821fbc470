"""Photos out of a zip file: nothing is written outside their folder, nothing without end, and each one is an image."""

from __future__ import annotations

import stat
import sys
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import ZipFile, ZipInfo

import pandas as pd
from tqdm import tqdm

from reefcore.annotations.sheet import unzip
from reefcore.errors import ReefcoreError
from reefcore.fetch.hub import FULL, alone
from reefcore.files import atomic
from reefcore.images import ENDINGS, decode

DO = "it is not what the authors published: delete it and fetch it again"
PIECE = 1 << 20  # bytes
_LITTER = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")


@dataclass(frozen=True)
class Limits:
    """What a zip file of photos may unpack to: photos, bytes of one and of all, and bytes for each byte packed."""

    photos: int = 200_000
    one: int = 500_000_000
    total: int = 50_000_000_000
    ratio: float = 50.0  # photos are packed already; plain bitmaps gain some


def unpack(path: str | Path, folder: str | Path, quarantine: str | Path, limits: Limits | None = None) -> pd.DataFrame:
    """Unpack the photos of a zip file into one folder; those that are there already, whole, stay.

    Subfolders are left out where all names differ without them. What is no photo by its ending is not unpacked.

    Parameters
    ----------
    path : path
    folder : path
        Where photos go.
    quarantine : path
        Where files go that say they are photos and cannot be decoded.
    limits : Limits, optional

    Returns
    -------
    DataFrame
        ``member`` (name in the zip file), ``image`` (name in `folder`), ``size`` (bytes), ``state`` (there, unpacked,
        quarantined, not a photo) and ``problem``; sorted by member.

    Raises
    ------
    ReefcoreError
        Before anything is written: where the file is damaged, names reach outside of the folder, are links or stand for
        two contents, or it would unpack to too much. And where a member's bytes are not those that were packed.
    """
    path, folder, quarantine, limits = Path(path), Path(folder), Path(quarantine), limits or Limits()
    with unzip(path, DO) as archive, alone(path):
        for old in folder.rglob(".*.tmp.*"):  # of a process that was killed
            old.unlink()
        members = sorted((info for info in archive.infolist() if not info.is_dir()), key=lambda info: info.filename)
        _checked(path, members, limits)
        images = _names(path, members)
        rows, bar = [], tqdm(members, "photos", unit="photo", disable=not sys.stderr.isatty())
        for info in bar:
            state, problem, image = "not a photo", "", images.get(info.filename, "")
            if image:
                state, problem = _photo(archive, info, folder / image, quarantine / image)
            elif not set(PurePosixPath(info.filename).parts) & set(_LITTER):
                problem = "its name does not end as a photo's"
            else:
                continue
            rows.append((info.filename, image, info.file_size, state, problem))
    return pd.DataFrame(rows, columns=["member", "image", "size", "state", "problem"]).drop_duplicates(
        ignore_index=True
    )


def _checked(path: Path, members: list[ZipInfo], limits: Limits) -> None:
    """Refuse a zip file by what its directory says."""
    for info in members:
        name = info.filename.replace("\\", "/")
        parts = PurePosixPath(name).parts
        if (
            not parts
            or name.startswith("/")
            or ".." in parts
            or ":" in parts[0]
            or any(ord(sign) < 32 for sign in name)
        ):
            raise ReefcoreError(f"this zip file would write outside of its folder ({info.filename!r})", path, DO)
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ReefcoreError(f"this zip file holds a link or a device ({info.filename!r})", path, DO)
        if info.flag_bits & 1:
            raise ReefcoreError(f"this zip file is locked by a password ({info.filename!r})", path, DO)
        if info.file_size > limits.one or info.file_size > max(limits.ratio * info.compress_size, PIECE):
            what = f"{info.filename!r} would unpack {info.compress_size:,} bytes to {info.file_size:,}"
            raise ReefcoreError(what, path, DO)
    packed, total = sum(info.compress_size for info in members), sum(info.file_size for info in members)
    if len(members) > limits.photos or total > limits.total or packed > path.stat().st_size:
        what = f"this zip file would unpack to {len(members):,} files of {total:,} bytes"
        raise ReefcoreError(what, path, DO)


def _names(path: Path, members: list[ZipInfo]) -> dict[str, str]:
    """Name the photos: without folders where that keeps them apart, else without those that all have in common."""
    photos = {}
    for info in members:
        parts = PurePosixPath(info.filename.replace("\\", "/")).parts
        if parts[-1].lower().endswith(ENDINGS) and not set(parts) & set(_LITTER) and not parts[-1].startswith("._"):
            content = (info.CRC, info.file_size)
            if photos.setdefault(info.filename, (parts, content))[1] != content:
                raise ReefcoreError(f"this zip file has two files called {info.filename!r}", path, DO)
    contents = {(parts[-1].lower(), content) for parts, content in photos.values()}
    if max(Counter(name for name, _ in contents).values(), default=0) > 1:
        folders, common = [parts[:-1] for parts, _ in photos.values()], 0
        while {place[common : common + 1] for place in folders} == {folders[0][common : common + 1]} != {()}:
            common += 1
        return {name: "/".join(parts[common:]) for name, (parts, _) in photos.items()}
    return {name: parts[-1] for name, (parts, _) in photos.items()}


def _photo(archive: ZipFile, info: ZipInfo, target: Path, aside: Path) -> tuple[str, str]:
    """Unpack one photo; return its state and problem."""
    if target.is_file() and target.stat().st_size == info.file_size and zlib.crc32(target.read_bytes()) == info.CRC:
        return "there", ""
    pieces, left = [], info.file_size
    with archive.open(info) as packed:
        while piece := packed.read(PIECE):  # in pieces: what it claims to hold may be less than what it holds
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise ValueError(f"{info.filename!r} holds more than it says")
    data, state, problem = b"".join(pieces), "unpacked", ""
    try:
        if decode(data, 64)[1]:
            problem = "the photo ends early, as it was published"
    except ReefcoreError as error:
        state, problem, target = "quarantined", error.what, aside
    try:
        with atomic(target) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        what = "there is no room for the photos" if error.errno in FULL else "this photo cannot be written"
        do = "see that there is room and that it may be written there, then type the same command again"
        raise ReefcoreError(f"{what} ({error.strerror})", target, do) from None
    return state, problem
