"""Photos of the released annotations, from the public pages of CoralNet: chosen, fetched slowly, verified, reported.

Which photos: those that carry points of the benchmark's splits (hard corals of the schemes, or of one scheme), see
`wanted`. How: `crawl` reads the pages of each source until it has found them, then page and file of each photo; see
`reefcore.fetch.coralnet` for the manners, `reefcore.fetch.manifest` for what is remembered. Every photo is decoded to
its last pixel and measured (EXIF orientation is not applied) before it gets its name in ``photos/<source>/<image>``.
"""

from __future__ import annotations

import concurrent.futures
import difflib
import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath

import numpy as np
import pandas as pd
from tqdm import tqdm

from reefcore.errors import ReefcoreError
from reefcore.fetch.coralnet import PER_PAGE, Client, Failure, listing, unexpected, view
from reefcore.fetch.manifest import STATES, Manifest
from reefcore.files import atomic, free, share
from reefcore.images import ENDINGS, decode, image_size, photo_path
from reefcore.tables import among, positions

#: Bytes of a photo where none has been measured: an assumption, of a JPEG of 12 megapixels at quality 92.
ASSUMED = 3_400_000
MEASURED = 20  # photos whose mean size is believed
ATTEMPTS = 3  # of a photo that comes damaged; twice the same bytes are believed earlier
#: Photos in a row that are refused, cannot be reached, ..., after which a source is given up; such sources in a row,
#: after which the crawl ends.
TROUBLES, SOURCES = {"denied": 5, "unreachable": 3, "unexpected": 5, "quarantined": 20}, 3
STRANGE = 10  # names of which not one is found: then names are written otherwise, and the source counts as given up
PAGE = "it is a page of text, not a photo"
LEAST = 10  # points that a class should keep in a part of a split


def source_list(path: str | Path | None = None) -> pd.DataFrame:
    """Read which sources may be fetched, and their numbers on CoralNet.

    Parameters
    ----------
    path : path, optional
        The released ``Overview_Sources_for_Image_Download.csv``. Its columns are found by what they hold: addresses
        with ``/source/<number>/``, ``Source``, ``Valid`` (yes, with or without spaces around it), ``ImagesNumber``.
        Without it, the candidate sources on record that are marked as valid (``data/sources``).

    Returns
    -------
    DataFrame
        ``source``, ``number``, ``photos`` (of the source in all; NA where unknown).

    Raises
    ------
    ReefcoreError
        Where the file is no such list.
    """
    if path is None:
        table = pd.read_csv(share("data", "sources", "coralnet_candidate_sources.csv"))
        table = table[table["valid"].str.strip().eq("yes") & table["coralnet_source_id"].notna()]
        names = {"coralnet_source_id": "number", "total_images_2024_01": "photos"}
        return table.rename(columns=names)[["source", "number", "photos"]].astype(
            {"source": "str", "number": "Int64", "photos": "Int64"}
        )
    try:
        table = pd.read_csv(path, dtype="str", encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ReefcoreError(f"this list of sources cannot be read ({error})", path, "fetch it again") from None
    names = {re.sub(r"\W", "", str(name)).casefold(): name for name in table}
    numbers = [
        found for name in table if (found := table[name].str.extract(r"/source/(\d+)", expand=False)).notna().any()
    ]
    if not numbers or "source" not in names:
        raise ReefcoreError(
            "this list has no column Source, or no addresses of CoralNet sources", path, "fetch it again"
        )
    valid = table[names["valid"]].str.strip().str.casefold().eq("yes") if "valid" in names else True
    photos = pd.to_numeric(table[names["imagesnumber"]], errors="coerce") if "imagesnumber" in names else pd.NA
    found = pd.DataFrame({"source": table[names["source"]].str.strip(), "number": numbers[0], "photos": photos})
    return found[numbers[0].notna() & valid].astype({"number": "Int64", "photos": "Int64"}).reset_index(drop=True)


def wanted(
    annotations: pd.DataFrame,
    splits: pd.DataFrame,
    sources: Iterable[str] = (),
    ecoregions: Iterable[str] = (),
    genera: Iterable[str] = (),
    scheme: str = "",
    limit: int | None = None,
    limit_per_source: int | None = None,
    without: Iterable[str] = (),
) -> pd.DataFrame:
    """Choose photos: those that carry a point of the splits, and of all that is asked for.

    Parameters
    ----------
    annotations, splits : DataFrame
    sources, ecoregions, genera : iterable of str
        Only points of these (`label` for genera); all where empty. Case and punctuation of names do not matter.
    scheme : str
        Only points of this scheme; of any where empty.
    limit : int, optional
        So many photos, spread over the sources: the first of each (in the order of the site's pages, by name), then
        the second of each.
    limit_per_source : int, optional
    without : iterable of str
        Sources that come from elsewhere.

    Returns
    -------
    DataFrame
        ``source``, ``image``, ``points`` (how many are on it), ``row``, ``column`` (the largest of them, in pixels).

    Raises
    ------
    ReefcoreError
        Where a name is unknown, or nothing is left.
    """
    used = splits["annotation_id"] if not scheme else splits.loc[splits["scheme"].eq(scheme), "annotation_id"]
    points = annotations[among(annotations["annotation_id"], used) & ~annotations["source"].isin(list(without))]
    for what, asked in {"source": sources, "ecoregion": ecoregions, "genus": genera}.items():
        if asked := list(asked):
            column = "label" if what == "genus" else what
            points = points[points[column].isin(_known(asked, annotations[column].dropna().unique(), what))]
    groups = points.groupby(["source", "image"], observed=True)
    table = groups.agg(points=("row", "size"), row=("row", "max"), column=("column", "max")).reset_index()
    if table.empty:
        raise ReefcoreError("no photo carries such points", do="ask for less at a time: see --help for what is chosen")
    order = table["image"].str.lower()
    table = table.assign(order=order).sort_values(["source", "order", "image"], kind="stable").drop(columns="order")
    place = table.groupby("source").cumcount()
    if limit_per_source is not None:
        table, place = table[place < limit_per_source], place[place < limit_per_source]
    if limit is not None:
        table = table[place.rank(method="first") <= limit]  # ties in the order of the sources
    return table.reset_index(drop=True)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", str(name).casefold())


def _known(asked: list[str], names: Iterable[str], what: str) -> list[str]:
    """Find names as they stand in the table."""
    by_plain = defaultdict(list)
    for name in names:
        by_plain[_plain(name)].append(name)
    found = []
    for name in asked:
        like = by_plain.get(_plain(name), [])
        same = [name] if name in like else like
        if not same:
            near = difflib.get_close_matches(_plain(name), by_plain, 3, 0.5)
            do = f"did you mean {' or '.join(repr(by_plain[key][0]) for key in near)}?" if near else None
            raise ReefcoreError(f"no annotation is of the {what} {name!r}", do=do)
        found += same
    return found


def numbered(photos: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Give each source of `photos` its number: by name, or by a name that differs only in case and punctuation.

    Returns
    -------
    DataFrame
        ``source`` (of `photos`, sorted), ``number``, ``photos``; NA where the list has none, or several.
    """
    names = pd.Series(sorted(photos["source"].unique()), dtype="str")
    exact = known.drop_duplicates("source", keep=False).set_index("source")
    plain = known.assign(source=known["source"].map(_plain)).drop_duplicates("source", keep=False).set_index("source")
    rows = [
        exact.loc[n] if n in exact.index else plain.loc[p] if (p := _plain(n)) in plain.index else None for n in names
    ]
    columns = {
        key: pd.array([pd.NA if row is None else row[key] for row in rows], "Int64") for key in ("number", "photos")
    }
    return pd.DataFrame({"source": names, **columns})


def estimate(photos: pd.DataFrame, sources: pd.DataFrame, manifest: pd.DataFrame, folder: Path, delay: float) -> dict:
    """Estimate a crawl before it starts.

    Parameters
    ----------
    photos : DataFrame
        From `wanted`.
    sources : DataFrame
        From `numbered`.
    manifest : DataFrame
        From `Manifest.table`.
    folder : Path
        The data folder.
    delay : float
        Seconds between the starts of two requests.

    Returns
    -------
    dict
        ``photos``, ``sources``, ``there``, ``to_fetch`` (not there, of sources with a number), ``no_number``,
        ``photo_bytes`` and whether it is ``measured`` (the mean so far) or assumed, ``bytes``, ``requests`` (at most
        the pages of each source, and two per photo), ``seconds`` (at least: requests times delay), ``free_bytes``.
    """
    table = photos.merge(manifest[["source", "image", "state"]], on=["source", "image"], how="left")
    table = table.merge(sources.rename(columns={"photos": "listed"}), on="source", how="left")
    there = table["state"].eq("there")
    left = table[~there & table["number"].notna()]
    sizes = manifest.loc[manifest["state"].eq("there"), "bytes"].dropna()
    measured = len(sizes) >= MEASURED
    each = int(sizes.mean()) if measured else ASSUMED
    per_source = left.groupby("source").agg(here=("image", "size"), all=("listed", "first"))
    pages = np.ceil(
        per_source["all"].fillna(per_source["here"]).clip(lower=per_source["here"]).astype(float) / PER_PAGE
    )
    requests = int(pages.sum()) + 2 * len(left)
    return {
        "photos": len(table),
        "sources": table["source"].nunique(),
        "there": int(there.sum()),
        "to_fetch": len(left),
        "no_number": int((~there & table["number"].isna()).sum()),
        "photo_bytes": each,
        "measured": measured,
        "bytes": each * len(left),
        "requests": requests,
        "seconds": requests * delay,
        "free_bytes": free(folder),
    }


def verify(data: bytes, row: int = 0, column: int = 0, *sizes: tuple[int, int] | None) -> tuple[int, int]:
    """Check that bytes are a whole photo of the expected size; return its width and height in pixels.

    Parameters
    ----------
    data : bytes
    row, column : int
        The largest annotated row and column, which must lie in the photo where no size is known (one pixel more is
        let pass: old points count from 1).
    *sizes : (int, int) or None
        Width and height that its host says, and that the release says: it must have each that is known, since points
        on a photo of another size would be wrong.

    Raises
    ------
    ReefcoreError
        Saying what it is instead.
    """
    if not data:
        raise ReefcoreError("it has no bytes")
    if data[:512].lstrip(b"\xef\xbb\xbf \r\n\t").lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ReefcoreError(PAGE)
    try:
        _, truncated = decode(data)
        width, height = image_size(data)
    except ReefcoreError as error:
        raise ReefcoreError(error.what) from None
    if truncated:
        raise ReefcoreError("it ends early")
    sizes = [size for size in sizes if size]
    if size := next((size for size in sizes if (width, height) != size), None):
        raise ReefcoreError(f"it has {width} x {height} pixels, and is said to have {size[0]} x {size[1]}")
    if not sizes and (row > height or column > width):
        raise ReefcoreError(f"it has {width} x {height} pixels, and a point lies at row {row}, column {column}")
    return width, height


def place(photos: Path, source: str, image: str) -> Path:
    """Say where a photo goes (see `reefcore.images.photo_path`), if its names can be those of files.

    A slash in a name makes a folder, as everywhere in this library.

    Raises
    ------
    ReefcoreError
        Where a name leads out of the folder, or no file can have it.
    """
    for part in [*source.split("/"), *image.split("/")]:
        bad = part in ("", ".", "..") or "\0" in part or len(part.encode()) > 225
        if os.name == "nt":
            bad = bad or PureWindowsPath(part).is_reserved() or re.search(r'[<>:"|?*\\]|[ .]$', part)
        if bad:
            raise ReefcoreError(f"{part[:60]!r} cannot be the name of a file")
    return photo_path(photos, source, image)


def match(names: Iterable[str], listed: Iterable[tuple[int, str]]) -> dict[str, tuple[int | None, str]]:
    """Find photos of the annotations among those that a source lists.

    The same name counts first; then one that differs only in case, spaces and underscores, or its ending. A name that
    several photos have, or that several names would get, is ambiguous and gets none.

    Parameters
    ----------
    names : iterable of str
    listed : iterable of (number, name)

    Returns
    -------
    dict
        name -> (number or None, what is to be said).
    """

    def key(name: str) -> str:
        stem, dot, ending = name.rpartition(".")
        return re.sub(r"[\s_]+", "_", (stem if dot and f".{ending}".casefold() in ENDINGS else name).strip().casefold())

    names, listed = list(names), list(listed)
    exact, loose = defaultdict(list), defaultdict(list)
    for number, name in listed:
        exact[name].append((number, name))
        loose[key(name)].append((number, name))
    found = {name: exact.get(name) or loose.get(key(name)) or [] for name in names}
    takers = Counter(here[0][0] for here in found.values() if len(here) == 1)
    answers = {}
    for name, here in found.items():
        if not here:
            answers[name] = None, f"not among the {len(listed):,} photos of the source"
        elif len(here) > 1:
            numbers = ", ".join(str(number) for number, _ in sorted(here)[:5])
            answers[name] = None, f"ambiguous: {len(here)} photos of the source have this name ({numbers})"
        elif takers[here[0][0]] > 1 and here[0][1] != name:
            answers[name] = None, f"ambiguous: only {here[0][1]!r} is like it, and other names are too"
        else:
            answers[name] = here[0][0], "" if here[0][1] == name else f"its host calls it {here[0][1]!r}"
    return answers


class _Crawl:
    """The state of one crawl; the main thread alone uses the manifest."""

    def __init__(self, folder: str | Path, client: Client, manifest: Manifest):
        self.folder, self.client, self.manifest = Path(folder), client, manifest
        self.photos, self.quarantine = self.folder / "photos", self.folder / "quarantine"

    def take(self, rows: pd.DataFrame, threads, bar) -> None:
        """Verify photos that lie there without, or other than, a record of it; want again those that are gone."""
        unknown, folders = [], set()
        for row in rows.itertuples(index=False):
            bar.update()
            try:
                path = place(self.photos, row.source, row.image)
                size = path.stat().st_size if path.is_file() else None
            except ReefcoreError as error:
                self.manifest.set(row.source, row.image, "missing", reason=error.what)
                continue
            folders.add(path.parent)
            if size is None and row.state == "there":
                self.manifest.set(row.source, row.image, "wanted", reason="its file is gone")
            elif size is not None and (row.state != "there" or size != row.bytes):
                unknown.append((row, path))
        for left in (left for folder in folders for left in folder.glob(".*.tmp*")):  # of a kill while one was written
            left.unlink()
        for (row, path), (facts, reason) in zip(unknown, threads.map(_look, unknown), strict=True):
            if reason:
                self.aside(row.source, row.image, path)
            self.manifest.set(row.source, row.image, "quarantined" if reason else "there", reason=reason, **facts)

    def aside(self, source: str, image: str, what: Path | bytes) -> None:
        """Put what is no good photo into quarantine."""
        with atomic(place(self.quarantine, source, image)) as temporary:
            if isinstance(what, bytes):
                temporary.write_bytes(what)
            else:
                shutil.move(what, temporary)

    def find(self, source: str, number: int, names: list[str]) -> dict[str, tuple[int | None, str]]:
        """Read the pages of a source until all names are found."""
        asked, seen, last = set(names), set(), names[0]
        address = self.manifest.next_page(source, f"{self.client.host}/source/{number}/browse/images/")
        listed = dict(self.manifest.listed(source))
        while address and (asked - set(listed.values()) or last in asked):
            if address in seen:
                raise unexpected("the pages of the source go in a circle", address)
            seen.add(address)
            here = listing(self.client.page(address), address)
            self.manifest.read_page(source, here.photos, here.following)
            listed.update(here.photos)
            address, last = here.following, here.photos[-1][1] if here.photos else ""  # namesakes may be overleaf
        return match(names, listed.items())

    def fetch(self, row, host_name: str) -> tuple[str, dict]:
        """Fetch and verify one photo (in a thread); return its state and facts."""
        url = f"{self.client.host}/image/{int(row.number)}/view/"
        before = ""
        for attempt in range(ATTEMPTS):
            page = view(soup := self.client.page(url), url)
            if page.name.split() != host_name.split():
                raise unexpected(f"it is of {page.name!r}, not of {host_name!r}", url, soup)
            try:
                data, _ = self.client.get(page.address)
            except Failure as failure:
                if failure.kind == "denied" and attempt == 0:  # the signature of the address may have expired
                    continue
                raise
            try:
                size = verify(data, row.row, row.column, page.size, _expected(row))
            except ReefcoreError as error:
                reason, digest = error.what, hashlib.sha256(data).hexdigest()
                if digest == before:
                    break
                before = digest
                continue
            with atomic(place(self.photos, row.source, row.image)) as temporary:
                temporary.write_bytes(data)
            return "there", {"page": url, "reason": row.note} | _facts(data, size)
        self.aside(row.source, row.image, data)
        return "quarantined", {"page": url, "reason": reason, "bytes": len(data)}

    def keep(self, failure: Failure) -> None:
        """Keep a page that is not as expected for a look."""
        if failure.body:
            name = re.sub(r"\W+", "-", str(failure.where).partition("://")[2]).strip("-")[:150]
            with atomic(self.folder / "unexpected" / f"{name}.html") as temporary:
                temporary.write_bytes(failure.body)

    def source(self, source: str, number: int, due: pd.DataFrame, threads, bar) -> str:
        """Fetch the photos of one source; return why it was given up, if it was."""

        def said(row, state: str, **facts) -> None:
            self.manifest.set(source, row.image, state, **facts)
            bar.update()

        try:
            found = self.find(source, number, list(due["image"]))
        except Failure as failure:
            if failure.kind in ("busy", "stopped"):
                raise
            self.keep(failure)
            for row in due.itertuples():
                said(row, "missing" if failure.kind in ("gone", "private") else "failed", reason=str(failure))
            return str(failure) if failure.kind in TROUBLES else ""
        names, todo, troubles, given_up, running = dict(self.manifest.listed(source)), [], Counter(), "", {}
        if len(found) >= STRANGE and names and not any(number for number, _ in found.values()):
            given_up = f"none of {len(found):,} names is among the {len(names):,} photos of the source"
            given_up += f", which has {next(iter(names.values()))!r} for example"
        due = due.assign(number=[found[name][0] for name in due["image"]], note=[found[n][1] for n in due["image"]])
        for row in due.itertuples(index=False):
            if pd.isna(row.number):
                said(row, "missing", reason=given_up or row.note)
            else:
                todo.append(row)
        while todo or running:
            while todo and len(running) < self.client.at_once:
                row = todo.pop(0)
                running[threads.submit(self.fetch, row, names[row.number])] = row
            for done in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                row = running.pop(done)
                facts = {"image_id": int(row.number), "tries": row.tries + 1}
                try:
                    state, more = done.result()
                    if state == "there":
                        troubles.clear()
                    troubles[state] += 1
                except Failure as failure:
                    if failure.kind in ("busy", "stopped"):
                        raise
                    self.keep(failure)
                    state, more = "failed", {"reason": str(failure)}
                    if failure.kind in ("gone", "private"):
                        state = "missing"
                    troubles[failure.kind] += 1
                said(row, state, **facts | more)
                if not given_up and any(troubles[kind] >= most for kind, most in TROUBLES.items()):
                    given_up = more["reason"]
                    for row in todo:
                        said(row, "failed", reason=f"the source was given up for now, after: {given_up}")
                    todo = []
        return given_up


def _expected(row) -> tuple[int, int] | None:
    size = getattr(row, "expected_width", None), getattr(row, "expected_height", None)
    return None if any(map(pd.isna, size)) else (int(size[0]), int(size[1]))


def _look(one: tuple) -> tuple[dict, str]:
    """Verify a photo that lies there already; return its facts, or what is wrong with it."""
    row, path = one
    try:
        return _facts(data := path.read_bytes(), verify(data, row.row, row.column, _expected(row))), ""
    except ReefcoreError as error:
        return {}, error.what


def _facts(data: bytes, size: tuple[int, int]) -> dict:
    digest = hashlib.sha256(data).hexdigest()
    return {"bytes": len(data), "sha256": digest, "width": size[0], "height": size[1]}


def _folds(folder: Path) -> bool:
    """Tell whether the file system takes two names that differ in case for one."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=".Case", dir=folder) as probe:
        return (folder / Path(probe.name).name.swapcase()).exists()


def crawl(folder: str | Path, photos: pd.DataFrame, sources: pd.DataFrame, client: Client, manifest: Manifest) -> str:
    """Fetch photos; what is there and verified is left, and a killed crawl goes on where it was.

    Parameters
    ----------
    folder : path
        The data folder.
    photos : DataFrame
        From `wanted`; ``expected_width`` and ``expected_height``, where known, count where its host says no size.
    sources : DataFrame
        From `numbered`.
    client : Client
        It cannot be used again where the crawl ends early.
    manifest : Manifest
        Of ``photos.sqlite`` in the folder. What is ``missing`` or ``quarantined`` is left alone, but for pages
        that came in the place of photos: see `Manifest.forget`.

    Returns
    -------
    str
        Why it ended before all was tried; empty where it did not.
    """
    work, quiet = _Crawl(folder, client, manifest), not sys.stderr.isatty()
    manifest.want(photos)

    def rows() -> pd.DataFrame:
        return photos.merge(manifest.table(), on=["source", "image"])

    threads, given_up = concurrent.futures.ThreadPoolExecutor(client.at_once), 0
    try:
        if _folds(work.photos):
            again = (photos["source"] + "/" + photos["image"]).str.casefold().duplicated()
            reason = "its name differs from another's only in case, and this file system takes both for one"
            for row in photos[again].itertuples():
                manifest.set(row.source, row.image, "missing", reason=reason)
            photos = photos[~again]
        with tqdm(total=len(photos), desc="Looking at what is there", unit="photo", disable=quiet) as bar:
            work.take(rows(), threads, bar)
        due = rows()  # a page is of the site's trouble that day, not of the photo
        due = due[due["state"].isin(["wanted", "failed"]) | due["state"].eq("quarantined") & due["reason"].eq(PAGE)]
        numbers = sources.set_index("source")["number"].dropna()
        if due["source"].isin(numbers.index).any():
            client.obey()
        with tqdm(total=len(due), desc="Photos", unit="photo", disable=quiet) as bar:
            for source, here in due.groupby("source", sort=True):
                if source not in numbers.index:
                    for name in here["image"]:
                        manifest.set(source, name, "failed", reason="the source is on no list of those to be fetched")
                    bar.update(len(here))
                    continue
                trouble = work.source(source, int(numbers[source]), here, threads, bar)
                given_up = given_up + 1 if trouble else 0
                if given_up == SOURCES:
                    return f"{SOURCES} sources in a row were given up, the last after: {trouble}"
        return ""
    except Failure as failure:
        work.keep(failure)
        return str(failure)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return f"{Path(folder)}: there is no room for more photos ({error.strerror}); make room."
        raise
    finally:
        client.stop.set()  # threads end soon, and what they were at stays wanted
        threads.shutdown(cancel_futures=True)


def report(
    manifest: pd.DataFrame,
    annotations: pd.DataFrame,
    splits: pd.DataFrame,
    photos: str | Path | None = None,
    least: int = LEAST,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Say what is missing, per source, and what that does to each split.

    Parameters
    ----------
    manifest : DataFrame
        From `Manifest.table`.
    annotations, splits : DataFrame
    photos : path, optional
        The folder of photos: one that has no row in the manifest counts as there if its file is.
    least : int
        Points that a class should keep in a part.

    Returns
    -------
    sources : DataFrame
        ``source``, ``photos`` (of the manifest), then how many are of each of `STATES`, ``main_reason`` (the commonest
        of those that are not there).
    parts : DataFrame
        ``scheme``, ``part``, ``photos``, ``photos_missing``, ``points``, ``points_missing`` (whose photo is not there),
        ``share_missing`` (of the points, in [0, 1]), ``classes``, ``vanished`` (classes without a point left, by name),
        ``below`` (classes that fall below `least` points).
    """
    counts = manifest.groupby(["source", "state"]).size().unstack(fill_value=0).reindex(columns=STATES, fill_value=0)
    counts.insert(0, "photos", counts.sum(axis=1))
    reasons = manifest[manifest["reason"].ne("") & manifest["state"].ne("there")].groupby("source")["reason"]
    counts["main_reason"] = reasons.agg(lambda said: said.value_counts().index[0]).reindex(counts.index, fill_value="")
    at = positions(splits["annotation_id"], annotations["annotation_id"])
    points = annotations[["source", "image", "label"]].iloc[at[at >= 0]].reset_index(drop=True)
    points = points.assign(**splits.loc[at >= 0, ["scheme", "part"]].reset_index(drop=True))
    of_photo = points.groupby(["source", "image"], sort=False, observed=True)
    keys = of_photo.size().reset_index()[["source", "image"]]
    keys = keys.merge(manifest[["source", "image", "state"]], on=["source", "image"], how="left")
    there = keys["state"].eq("there").to_numpy(copy=True)
    if photos is not None:
        for row in np.flatnonzero(keys["state"].isna()):
            there[row] = photo_path(photos, keys.at[row, "source"], keys.at[row, "image"]).is_file()
    points = points.assign(photo=of_photo.ngroup(), there=there[of_photo.ngroup()])
    rows = []
    for (scheme, part), here in points.groupby(["scheme", "part"], sort=True):
        before, after = here["label"].value_counts(), here.loc[here["there"], "label"].value_counts()
        after = after.reindex(before.index, fill_value=0)
        rows.append(
            {
                "scheme": scheme,
                "part": part,
                "photos": here["photo"].nunique(),
                "photos_missing": here.loc[~here["there"], "photo"].nunique(),
                "points": len(here),
                "points_missing": int((~here["there"]).sum()),
                "share_missing": float((~here["there"]).mean()),
                "classes": len(before),
                "vanished": ", ".join(sorted(before.index[after == 0])),
                "below": ", ".join(sorted(before.index[(after > 0) & (after < least) & (before >= least)])),
            }
        )
    return counts.rename_axis(columns=None).reset_index(), pd.DataFrame(rows)
