"""Files: written whole or not at all, hashed, and found in a checkout or in an installed package."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import yaml

from reefcore.errors import ReefcoreError


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside `path`, renamed to `path` when the block ends well and removed when it does not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last: writers such as PIL and numpy choose the format, or add their own ending, by it.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_writable(folder: str | Path) -> bool:
    """Tell whether files can be put in a folder; a folder without write bits is read-only even for root."""
    folder = Path(folder)
    return folder.is_dir() and bool(folder.stat().st_mode & 0o222) and os.access(folder, os.W_OK)


def free(folder: str | Path) -> int:
    """Return the free bytes of the disk that holds a folder, or would hold it."""
    place = Path(folder).absolute()
    return shutil.disk_usage(next(one for one in (place, *place.parents) if one.exists())).free


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_parquet(frame: pd.DataFrame, path: str | Path) -> Path:
    """Write a table to Parquet (zstd), whole or not at all; the same table gives the same bytes."""
    path = Path(path)
    frame = frame.copy(deep=False)
    frame.attrs = {}  # a reader puts its table of problems there, which pandas cannot store
    with atomic(path) as temporary:
        frame.to_parquet(temporary, index=False, compression="zstd")
    return path


def read_parquet(path: str | Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a Parquet table.

    Raises
    ------
    ReefcoreError
        Where the file is missing or is not Parquet.
    """
    path = Path(path)
    if not path.exists():
        raise ReefcoreError("this table does not exist", path, "build it with `reefcore run all`, or check the path")
    try:
        return pd.read_parquet(path, columns=columns)
    except (OSError, ValueError) as error:
        raise ReefcoreError(
            f"this is not a readable Parquet table ({error})", path, "delete it and build it again"
        ) from None


def write_json(value, path: str | Path) -> Path:
    """Write JSON (sorted keys, two spaces), whole or not at all."""
    path = Path(path)
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def share(*parts: str) -> Path:
    """Find what travels with the library: ``data/...`` and ``notebooks/...``.

    In an installed package it lies inside the package, in a checkout at the top of the repository.

    Raises
    ------
    ReefcoreError
        Where neither has it.
    """
    package = Path(__file__).resolve().parent
    for top in (package / "_share", package.parent):
        path = top.joinpath(*parts)
        if path.exists():
            return path
    raise ReefcoreError(f"{'/'.join(parts)} does not travel with this installation of reefcore", do="install it again")


def read_settings(name_or_path: str | Path, folder: Path, what: str) -> tuple[Path, dict]:
    """Read the `key: value` lines of a YAML file: one of a folder by its name, or any by its path.

    Parameters
    ----------
    name_or_path : str or path
        A name without ending, looked for in `folder`, or a path that ends in ``.yaml`` or ``.yml``.
    folder : Path
    what : str
        What such a file is called in errors.

    Returns
    -------
    path : Path
    values : dict

    Raises
    ------
    ReefcoreError
        Where there is no such name or file, or it is no YAML mapping.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = folder / f"{name_or_path}.yaml"
        if not path.exists():
            known = ", ".join(sorted(file.stem for file in folder.glob("*.yaml")))
            raise ReefcoreError(f"there is no {what} {str(name_or_path)!r}", do=f"choose from {known}, or name a file")
    try:
        values = yaml.load(
            path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )  # 8 x faster
    except OSError:
        raise ReefcoreError(f"this {what} cannot be read", path, "check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ReefcoreError(f"this {what} is not YAML ({' '.join(str(error).split())})", path) from None
    if not isinstance(values, dict):
        raise ReefcoreError(f"a {what} is a list of `key: value` lines", path, f"copy one of reefcore/{what}s")
    return path, values


def check_keys(values: dict, allowed: Iterable[str], required: Iterable[str], path: Path) -> None:
    """Refuse keys of a settings file that have no meaning, and the lack of one that it needs."""
    for key in values:
        if key not in allowed:
            raise ReefcoreError(f"unknown key {key!r}", path, f"the keys are {', '.join(allowed)}")
    for key in required:
        if key not in values:
            raise ReefcoreError(f"the key {key!r} is missing", path, "add it")
