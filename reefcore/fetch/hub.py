"""Files of the Hugging Face hub: resumed where a download stopped, checked, and recorded with their revision.

``hf_hub_download`` of huggingface_hub 2 starts a file of gigabytes anew in each process, so its parts are used here:
its headers, errors, cache and `http_get`, which goes on at a byte. Endpoint, token, cache and offline mode come from
its environment variables (HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pandas as pd

from reefcore import __version__
from reefcore.errors import ReefcoreError
from reefcore.fetch import ITEMS, REEFNET, USER_AGENT
from reefcore.files import free, sha256, write_json

RECORD = "fetched.json"
AGAIN = "type the same command again: it goes on where it stopped"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that another try may better
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Remote:
    """A file of a repository: its path there, size in bytes, and its SHA-256 (large files) or git's hash of it."""

    path: str
    size: int
    sha256: str = ""
    blob: str = ""


@dataclass(frozen=True)
class Listing:
    """What a repository has at a commit."""

    repository: str
    commit: str
    files: tuple[Remote, ...]
    kind: str = "dataset"


@dataclass(frozen=True)
class Hub:
    """How the hub is asked.

    Attributes
    ----------
    endpoint : str, optional
        By default what HF_ENDPOINT says.
    tries : int
        So often something is asked that may do better the next time, besides downloads that were cut.
    wait : float
        Seconds before the second try, twice as long before each further one, unless the hub says how long.
    longest : float
        Seconds; where the hub asks for more patience than that, this is said instead.
    timeout : float
        Seconds without an answer to a question; HF_HUB_DOWNLOAD_TIMEOUT is the one of downloads.
    """

    endpoint: str | None = None
    tries: int = 5
    wait: float = 1.0
    longest: float = 300.0
    timeout: float = 30.0

    def listing(self, repository: str, revision: str | None = None, kind: str = "dataset") -> Listing:
        """Ask what a repository has.

        Raises
        ------
        ReefcoreError
            Where there is no such repository or revision, it is closed to the one who asks, or the hub cannot be had.
        """
        from huggingface_hub import HfApi

        api = HfApi(self.endpoint, library_name="reefcore", library_version=__version__, user_agent=USER_AGENT)
        ask = functools.partial(
            api.repo_info, repository, revision=revision, repo_type=kind, timeout=self.timeout, files_metadata=True
        )
        told = self._patiently(ask, repository)
        files = [
            Remote(
                one.rfilename, one.size or 0, one.lfs.sha256 if one.lfs else "", "" if one.lfs else one.blob_id or ""
            )
            for one in told.siblings or ()
        ]
        if not told.sha or any(_unsafe(one.path) for one in files):
            raise ReefcoreError("this listing of the hub makes no sense", repository, "see what HF_ENDPOINT names")
        return Listing(repository, told.sha, tuple(sorted(files, key=lambda one: one.path)), kind)

    def fetch(self, listing: Listing, remote: Remote, path: str | Path) -> dict:
        """Get one file, whole and checked, or not at all; what has come of it is kept beside for the next time.

        Returns
        -------
        dict
            What the record keeps: ``repository``, ``revision`` (commit), ``name`` (on the hub), ``size`` (bytes),
            ``sha256``, ``fetched`` (UTC).

        Raises
        ------
        ReefcoreError
            Saying what went wrong and what to do.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = part_of(path, remote)
        with alone(part):
            for _ in range(2):  # what another time left may be at fault: once more from the start
                began = part.stat().st_size
                if began > remote.size:
                    os.truncate(part, began := 0)
                if not began and (cached := self._cached(listing, remote)):
                    _link(cached, part)
                    began = remote.size
                if part.stat().st_size < remote.size:
                    self._patiently(lambda: self._stream(listing, remote, part), path.name, listing.repository)
                if not (wrong := differs(part, remote)):
                    os.replace(part, path)
                    return _facts(path, listing, remote)
                part.unlink()
                if not began:
                    break
                part.touch()
        raise ReefcoreError(f"what came is not what the hub lists ({wrong}); it was not kept", path, AGAIN)

    def _cached(self, listing: Listing, remote: Remote) -> str | None:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(listing.repository, remote.path, repo_type=listing.kind, revision=listing.commit)
        return found if isinstance(found, str) and os.path.getsize(found) == remote.size else None

    def _stream(self, listing: Listing, remote: Remote, part: Path) -> None:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url, logging
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers
        from tqdm import tqdm

        class Bar(tqdm):
            def __init__(self, *given, **options):
                super().__init__(*given, **options | {"disable": not sys.stderr.isatty()})

        where = {"repo_type": listing.kind, "revision": listing.commit, "endpoint": self.endpoint}
        headers = build_hf_headers(library_name="reefcore", library_version=__version__, user_agent=USER_AGENT)
        logging.set_verbosity_error()  # what it warns of is tried again here
        url = hf_hub_url(listing.repository, remote.path, **where)
        # Asked first: `http_get` would wait as long as it is told to, and write down whatever page answers.
        head = get_hf_file_metadata(url, timeout=self.timeout, endpoint=self.endpoint, headers=headers)
        if head.commit_hash is None or head.size not in (None, remote.size):
            raise ValueError(f"{head.commit_hash}, {head.size} bytes")
        with open(part, "ab") as file:
            try:
                http_get(
                    url,
                    file,
                    resume_size=file.tell(),
                    headers=headers | {"Accept-Encoding": "identity"},
                    expected_size=remote.size,
                    displayed_filename=remote.path,
                    tqdm_class=Bar,
                )
            except OSError as error:
                if type(error) is OSError and error.errno is None:  # its length: a page, or another file
                    file.truncate(0)
                raise

    def _patiently(self, do: Callable, where: str, repository: str = ""):
        for tried in range(1, self.tries + 1):
            try:
                return do()
            except Exception as error:  # of the hub's library, of its HTTP library, of the disk
                pause = _pause(error, self.wait * 2 ** (tried - 1))
                if pause is None or tried == self.tries or pause > self.longest:
                    raise _said(error, where, repository or where, pause) from error
                log.info("%s: %s; trying again in %.0f s", where, type(error).__name__, pause)
                time.sleep(pause)


def part_of(path: Path, remote: Remote) -> Path:
    """Say where what has come of a file waits for the rest; another content has another name."""
    return path.with_name(f".{path.name}.{(remote.sha256 or remote.blob or 'unknown')[:12]}.part")


def _unsafe(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return not parts or path.startswith("/") or "\\" in path or ":" in parts[0] or ".." in parts


@contextlib.contextmanager
def alone(part: Path) -> Iterator[None]:
    """Keep another process from the same file, or part of one; a part that stays empty is removed."""
    with open(part, "ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ReefcoreError("another process is at this file", part, "wait for it") from None
        try:
            yield
        finally:
            if part.exists() and not part.stat().st_size:
                part.unlink()


def _link(source: str | Path, target: Path) -> None:
    """Give a file a second name, or copy it where it lies on another disk."""
    real = os.path.realpath(source)  # the cache's own names are links
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    try:
        os.link(real, target)
    except OSError:
        shutil.copyfile(real, target)


def differs(path: Path, remote: Remote) -> str:
    """Say how a file differs from the one on the hub; empty where it is the same."""
    size = path.stat().st_size
    if size != remote.size:
        return f"{size:,} bytes, not {remote.size:,}"
    if remote.sha256 and (found := sha256(path)) != remote.sha256:
        return f"SHA-256 {found[:12]}..., not {remote.sha256[:12]}..."
    if remote.blob and hashlib.sha1(b"blob %d\0" % size + path.read_bytes()).hexdigest() != remote.blob:
        return "git's hash of it is another"
    return ""


def _facts(path: Path, listing: Listing, remote: Remote) -> dict:
    state = path.stat()
    return {
        "repository": listing.repository,
        "revision": listing.commit,
        "name": remote.path,
        "size": state.st_size,
        "sha256": remote.sha256 or sha256(path),
        "modified": state.st_mtime_ns,
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _pause(error: Exception, usual: float) -> float | None:
    """Return how long to wait before another try, in seconds; None where another would do no better."""
    if (status := _status(error)) is not None:
        if status not in _PASSING:
            return None
        said = error.response.headers.get("Retry-After", "")
        return float(said) if said.isdecimal() else usual
    kind = type(error)
    return usual if kind.__module__.startswith("httpx") and kind.__name__ != "TooManyRedirects" else None


def _said(error: Exception, where: str, repository: str, pause: float | None) -> ReefcoreError:
    """Say an error of the hub, the network or the disk in a sentence."""
    if isinstance(error, ReefcoreError):
        return error
    status, kind = _status(error), {one.__name__ for one in type(error).__mro__}
    token = (
        f"read and accept its terms on https://huggingface.co/datasets/{repository}, make a token in your settings "
        "there, and set HF_TOKEN or run `hf auth login`"
    )
    if "OfflineModeIsEnabled" in kind:
        what, do = "HF_HUB_OFFLINE is set, so the hub is not asked", "unset it where there is a network"
    elif "GatedRepoError" in kind or status == 403:
        what, do = f"the hub lets in only whom it knows ({status})", token
    elif "RevisionNotFoundError" in kind:
        what, do = "the hub does not have this revision", "give --revision main, or the commit you want"
    elif "RepositoryNotFoundError" in kind or status == 401:
        what, do = (
            f"the hub does not have this, or not for everyone ({status})",
            f"check its name; if it is there, {token}",
        )
    elif status == 404 and where == repository:
        what, do = "there is no such listing where the hub should be (404)", "see what HF_ENDPOINT names"
    elif status == 404:
        what, do = "the hub does not have this file any more (404)", "give --revision main to see what it has now"
    elif status == 429:
        what = f"the hub is asked too often and says to wait {pause or 0:.0f} s (429)"
        do = f"wait, then {AGAIN}; with HF_TOKEN set it allows more"
    elif status is not None:
        what, do = f"the hub cannot answer now ({status})", f"wait a little, then {AGAIN}"
    elif "TooManyRedirects" in kind:
        what, do = "the hub's address of it leads round in a circle", "see what HF_ENDPOINT names, and try again later"
    elif getattr(error, "errno", None) in FULL:
        what, do = f"there is no room for it ({os.strerror(error.errno)})", f"make room, then {AGAIN}"
    elif "TimeoutException" in kind:
        what, do = "the connection stalled", AGAIN
    elif type(error).__module__.startswith("httpx"):
        what, do = f"the connection was lost ({' '.join(str(error).split())})", f"check the network, then {AGAIN}"
    elif isinstance(error, OSError) and error.errno is not None:
        return ReefcoreError(f"this cannot be written ({error.strerror})", error.filename or where, AGAIN)
    else:  # a page of a proxy or of a log-in, where a file or a listing should be
        what = "what answers is not the file: a page of a proxy or a log-in, perhaps; it was not kept"
        do = f"see what HF_ENDPOINT and the proxy's settings say, then {AGAIN}"
        log.info("%s: %s", where, error)
    return ReefcoreError(what, where, do)


# ------------------------------------------------------------------------------------------------- the released data


def record(folder: str | Path) -> dict:
    """Read what was fetched into a folder: file -> what `Hub.fetch` says of it; empty where nothing was."""
    path = Path(folder) / RECORD
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError:
        raise ReefcoreError("this record cannot be read", path, "delete it: the files are checked anew") from None


def is_there(folder: Path, name: str, known: dict) -> bool:
    """Tell whether a file is the recorded one; its bytes are read only where its time is another."""
    path, facts = folder / name, known.get(name)
    if not facts or not path.is_file() or path.stat().st_size != facts["size"]:
        return False
    return path.stat().st_mtime_ns == facts["modified"] or sha256(path) == facts["sha256"]


def find(listing: Listing, files: dict[str, str]) -> tuple[dict[str, Remote], list[str]]:
    """Find files by their names, or where the hub has renamed them by what the names say.

    Parameters
    ----------
    listing : Listing
    files : dict
        Published name -> pattern, see `reefcore.fetch.Item`.

    Returns
    -------
    found : dict
        Published name -> file.
    missing : list of str
        Published names for which nothing was found, or more than one file.
    """
    found, missing, known = {}, [], {name for item in ITEMS.values() for name in item.files}
    for name, pattern in files.items():
        exact = [one for one in listing.files if PurePosixPath(one.path).name == name]
        like = [
            one
            for one in listing.files
            if re.fullmatch(pattern, base := PurePosixPath(one.path).name, re.IGNORECASE) and base not in known
        ]
        if len(exact or like) == 1:
            found[name] = (exact or like)[0]
        else:
            missing.append(name)
    return found, missing


def plan(folder: str | Path, items: Iterable[str], revision: str | None = None, hub: Hub | None = None) -> pd.DataFrame:
    """Say what getting items of ReefNet's dataset takes.

    Parameters
    ----------
    folder : path
        Where the files go: ``released`` of the data folder.
    items : iterable of str
        Of `reefcore.fetch.ITEMS`.
    revision : str, optional
        A commit, tag or branch; by default the commit of what is there already, else the newest.
    hub : Hub, optional

    Returns
    -------
    DataFrame
        ``item``, ``file``, ``state`` (there, to fetch, missing: the hub has it no more), ``size`` and ``left`` (bytes;
        what is still to come). Its ``attrs``: ``listing``, None where the hub need not be asked; ``found`` (see
        `find`); ``unknown``, files of the hub that no item knows.
    """
    folder, hub = Path(folder), hub or Hub()
    known = record(folder)
    wanted = {name: (item, pattern) for item in items for name, pattern in ITEMS[item].files.items()}
    there = {name for name in wanted if is_there(folder, name, known)}
    listing, found, unknown, rows = None, {}, [], []
    if revision is not None or there != set(wanted):
        pinned = revision or next((facts["revision"] for _, facts in sorted(known.items())), None)
        listing = offline(wanted, pinned) if is_offline() else hub.listing(REEFNET, pinned)
        found, _ = find(listing, {name: pattern for name, (_, pattern) in wanted.items()})
        everything, _ = find(
            listing, {name: pattern for item in ITEMS.values() for name, pattern in item.files.items()}
        )
        plain = {".gitattributes", "README.md", *(one.path for one in everything.values())}
        unknown = [one.path for one in listing.files if one.path not in plain]
    for name, (item, _) in wanted.items():
        remote = found.get(name)
        if listing and remote and (name not in there or known[name]["revision"] != listing.commit):
            fits = (folder / name).is_file() and not differs(folder / name, remote)
            there = there | {name} if fits else there - {name}
        state = "there" if name in there else "to fetch" if remote else "missing"
        size = remote.size if remote else known.get(name, {}).get("size", 0)
        part = part_of(folder / name, remote) if remote else None
        left = max(0, size - (part.stat().st_size if part.exists() else 0)) if state == "to fetch" else 0
        rows.append((item, name, state, size, left))
    table = pd.DataFrame(rows, columns=["item", "file", "state", "size", "left"])
    table.attrs = {"listing": listing, "found": found, "unknown": unknown}
    return table


def get(folder: str | Path, planned: pd.DataFrame, hub: Hub | None = None) -> pd.DataFrame:
    """Get what a `plan` says is to be fetched, each file whole and checked, and record it.

    Returns
    -------
    DataFrame
        The plan with ``state`` there or fetched.

    Raises
    ------
    ReefcoreError
        Where the hub lacks a file, or one cannot be had; after the others have been fetched.
    """
    folder, hub = Path(folder), hub or Hub()
    listing, found, known, states, failed = planned.attrs["listing"], planned.attrs["found"], record(folder), [], []
    for name, state in zip(planned["file"], planned["state"], strict=True):
        if state == "to fetch":
            if (folder / name).exists() and not is_there(folder, name, known):  # put there by hand, or cut off since
                os.replace(folder / name, folder / f"{name}.before")
            for old in folder.glob(f".{name}.*.part"):
                if old != part_of(folder / name, found[name]):
                    old.unlink()
            try:
                known[name], state = hub.fetch(listing, found[name], folder / name), "fetched"
            except ReefcoreError as error:
                failed.append(error)
        elif name in found:
            known[name] = _facts(folder / name, listing, found[name])
        states.append(state)
        write_json(known, folder / RECORD)
    if failed:
        raise failed[0]
    if lacking := planned.loc[planned["state"] == "missing", "file"].tolist():
        if is_offline():
            raise ReefcoreError(
                f"the hub's cache has no {lacking[0]}, and HF_HUB_OFFLINE is set", do=_download(lacking)
            )
        has = ", ".join(one.path for one in listing.files) or "nothing"
        what = f"the hub has nothing that is surely {lacking[0]}; it has {has}"
        raise ReefcoreError(what, folder, "put the right file there by hand, under this name")
    return planned.assign(state=states, left=0)


def is_offline() -> bool:
    """Tell whether HF_HUB_OFFLINE forbids to ask the hub."""
    from huggingface_hub import constants

    return constants.is_offline_mode()


def _download(names: Iterable[str]) -> str:
    return f"where there is a network, run `hf download {REEFNET} {' '.join(names)} --repo-type dataset`"


def offline(names: Iterable[str], revision: str | None = None) -> Listing:
    """List what the hub's cache has of ReefNet's dataset, for HF_HUB_OFFLINE, with sizes and hashes as they are."""
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    with contextlib.suppress(CacheNotFound):
        for repository in scan_cache_dir(constants.HF_HUB_CACHE).repos:
            if (repository.repo_id, repository.repo_type) == (REEFNET, "dataset"):
                kept = sorted(repository.revisions, key=lambda one: (one.last_modified, one.commit_hash), reverse=True)
                for one in kept:
                    if revision is None or revision in (one.commit_hash, *one.refs):
                        top = one.snapshot_path
                        paths = sorted((str(file.file_path.relative_to(top)), file.file_path) for file in one.files)
                        files = tuple(Remote(name, path.stat().st_size, sha256(path)) for name, path in paths)
                        return Listing(REEFNET, one.commit_hash, files)
    what = "HF_HUB_OFFLINE is set, and the hub's cache has nothing of this"
    raise ReefcoreError(what, REEFNET, _download(names))


def room(folder: str | Path, needed: int) -> int:
    """Return the free bytes of the disk that holds a folder; refuse where fewer are free than needed.

    Raises
    ------
    ReefcoreError
    """
    there = free(folder)
    if needed > there:
        what = f"this takes {needed / 1e9:,.1f} GB, and {there / 1e9:,.1f} GB are free"
        raise ReefcoreError(what, folder, "make room, or set REEFNET_DATA to a folder on a larger disk")
    return there
