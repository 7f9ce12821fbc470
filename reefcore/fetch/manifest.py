"""The manifest of photos: one row per photo that was ever wanted, in a SQLite file that survives being killed.

``photos.sqlite`` lies beside ``photos/``. Each photo has a state: ``wanted`` (not tried yet), ``there`` (verified and
in ``photos/``), ``missing`` (its host does not have it, or not under this name), ``quarantined`` (what came is no whole
photo of the expected size and lies in ``quarantine/``), ``failed`` (it could not be fetched this time; the next run
tries again). What a source's pages listed is kept too, so that a crawl of days does not read them twice.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from reefcore.errors import ReefcoreError

STATES = ("wanted", "there", "missing", "quarantined", "failed")
#: Of a photo: its number and page on its host, what was verified, why it is not there, how often it was tried, and when
#: the row last changed (UTC).
FACTS = ("image_id", "page", "bytes", "sha256", "width", "height", "reason", "tries", "changed")
VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS photos (source TEXT, image TEXT, state TEXT NOT NULL DEFAULT 'wanted', image_id INTEGER,
    page TEXT, bytes INTEGER, sha256 TEXT, width INTEGER, height INTEGER, reason TEXT NOT NULL DEFAULT '',
    tries INTEGER NOT NULL DEFAULT 0, changed TEXT, PRIMARY KEY (source, image)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS listed (source TEXT, image_id INTEGER, name TEXT, PRIMARY KEY (source, image_id))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sources (source TEXT PRIMARY KEY, next TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


class Manifest:
    """An open manifest; a context manager. It is of one thread.

    Parameters
    ----------
    path : path
        Made where it is missing.

    Raises
    ------
    ReefcoreError
        Where the file is no manifest, or one of a later version.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._said():
            self._base = sqlite3.connect(self.path, timeout=30)
            version = self._base.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise ReefcoreError("this manifest was made by a later reefcore", self.path, "use that one")
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")  # a lost last second is verified again from the photos
            self._base.executescript(f"{_TABLES}PRAGMA user_version={VERSION};")

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_) -> None:
        self._base.close()

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            do = "see that there is room and no other program holds it; if it is damaged, delete it: photos stay"
            raise ReefcoreError(f"the manifest of photos cannot be used ({error})", self.path, do) from None

    def _do(self, command: str, rows: Iterable[tuple]) -> None:
        with self._said(), self._base:
            self._base.executemany(command, rows)

    def want(self, photos: pd.DataFrame) -> None:
        """Add photos (``source``, ``image``); those that have a row keep it."""
        rows = photos[["source", "image"]].itertuples(index=False, name=None)
        self._do("INSERT OR IGNORE INTO photos (source, image) VALUES (?, ?)", rows)

    def set(self, source: str, image: str, state: str, **facts) -> None:
        """Say the state of a photo, and what else of `FACTS` is known; ``reason`` is emptied where none is given."""
        facts = {"reason": ""} | facts | {"changed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        if state not in STATES or not set(facts) <= set(FACTS):
            raise ValueError(state)
        names = ", ".join(f"{name} = ?" for name in facts)
        self._do(
            f"UPDATE photos SET state = ?, {names} WHERE source = ? AND image = ?",
            [(state, *(value.item() if hasattr(value, "item") else value for value in facts.values()), source, image)],
        )

    def forget(self, states: Iterable[str], sources: Iterable[str]) -> None:
        """Want photos of these states and sources again; those of the sources that have some are listed anew."""
        pairs = [(source, state) for source in sources for state in states]
        of = "EXISTS (SELECT 1 FROM photos WHERE source = ?1 AND state = ?2)"
        for table in ("listed", "sources"):
            self._do(f"DELETE FROM {table} WHERE source = ?1 AND {of}", pairs)
        self._do("UPDATE photos SET state = 'wanted', reason = '' WHERE source = ? AND state = ?", pairs)

    def table(self) -> pd.DataFrame:
        """Return the photos: ``source``, ``image``, ``state`` and `FACTS`, sorted by source and image."""
        columns = ["source", "image", "state", *FACTS]
        with self._said():
            rows = self._base.execute(f"SELECT {', '.join(columns)} FROM photos ORDER BY source, image").fetchall()
        numbers = dict.fromkeys(("image_id", "bytes", "width", "height", "tries"), "Int64")
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns, "str") | numbers)

    def listed(self, source: str) -> list[tuple[int, str]]:
        """Return number and name of the photos that a source's pages have shown so far."""
        with self._said():
            return self._base.execute("SELECT image_id, name FROM listed WHERE source = ?", [source]).fetchall()

    def next_page(self, source: str, first: str) -> str:
        """Return the page of a source that is to be read next: `first` at first, empty where all are read."""
        with self._said():
            found = self._base.execute("SELECT next FROM sources WHERE source = ?", [source]).fetchone()
        return found[0] if found else first

    def read_page(self, source: str, photos: Iterable[tuple[int, str]], following: str) -> None:
        """Keep what a page listed, and which one follows."""
        with self._said(), self._base:
            rows = ((source, number, name) for number, name in photos)
            self._base.executemany("INSERT OR REPLACE INTO listed VALUES (?, ?, ?)", rows)
            self._base.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", (source, following))

    def fact(self, name: str, value: str | None = None) -> str:
        """Return what is noted under a name (empty where nothing is), after noting `value` where one is given."""
        if value is not None:
            self._do("INSERT OR REPLACE INTO facts VALUES (?, ?)", [(name, value)])
        with self._said():
            return (self._base.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone() or ("",))[0]
