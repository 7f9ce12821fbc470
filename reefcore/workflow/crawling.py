"""``reefcore fetch images``: which photos, what it would take, the crawl, and what is missing in the end."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from reefcore.errors import ReefcoreError
from reefcore.fetch import PHOTOS, RELEASED, coralnet
from reefcore.files import atomic
from reefcore.profiles import Profile
from reefcore.tables import SCHEMES
from reefcore.workflow import keys

LIST = "Overview_Sources_for_Image_Download.csv"
COLUMNS = ["annotation_id", "source", "image", "row", "column", "label", "ecoregion"]


def options(one) -> None:
    """Add the options of ``reefcore fetch images``."""
    group = one.add_argument_group(
        "of images", "Only photos that carry hard corals of the benchmark's splits are taken."
    )
    for name, what in {"sources": "source", "ecoregion": "ecoregion", "genus": "genus"}.items():
        group.add_argument(
            f"--{name}", action="append", default=[], metavar=what.upper(), help=f"only of this {what}; may be repeated"
        )
    group.add_argument("--scheme", choices=SCHEMES, help="only photos that this scheme needs")
    group.add_argument("--limit", type=_count, metavar="N", help="N photos, spread over the sources")
    group.add_argument("--limit-per-source", type=_count, metavar="N", help="N photos of each source")
    group.add_argument("--accept-terms", action="store_true", help="the terms of the site were read; asked once")
    group.add_argument(
        "--contact",
        default=os.environ.get("REEFCORE_CONTACT", ""),
        metavar="ADDRESS",
        help="your mail or web address, told to the site (REEFCORE_CONTACT)",
    )
    group.add_argument("--delay", type=float, default=coralnet.DELAY, help="seconds between two requests (%(default)g)")
    group.add_argument("--at-once", type=int, default=coralnet.AT_ONCE, help="requests at a time, at most %(default)d")
    group.add_argument(
        "--retry-quarantined", action="store_true", help="try again what was quarantined, or missing on the site"
    )
    group.add_argument("--host", default=coralnet.HOST, metavar="URL", help="another address of the site (%(default)s)")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of photos; give 1 or more")
    return int(text)


def images(options, profile: Profile, folder: Path, say: Callable[[str], None]) -> dict:
    """Fetch photos from CoralNet, or estimate it: `say` prints a line for people, what is returned is for --json."""
    from reefcore.fetch import hub, photos
    from reefcore.fetch.manifest import Manifest
    from reefcore.workflow.project import Project

    client = coralnet.Client("", options.host, options.delay, options.at_once)  # refuses what is impolite
    project, released, path = Project(profile), folder / RELEASED / LIST, folder / "photos.sqlite"
    annotations, splits = project.table("annotations", COLUMNS), project.table("splits")
    asked = (options.sources, options.ecoregion, options.genus, options.scheme or "")
    wanted = photos.wanted(annotations, splits, *asked, options.limit, options.limit_per_source, without=[profile.site])
    if {"width", "height"} <= set(known := project.table("images")):
        sizes = known[["source", "image", "width", "height"]].drop_duplicates(["source", "image"])
        sizes = sizes.rename(columns={"width": "expected_width", "height": "expected_height"})
        wanted = wanted.merge(sizes, on=["source", "image"], how="left")
    sources = photos.numbered(wanted, photos.source_list(released if released.exists() else None))
    if not released.exists():
        say(f"{released} is not here: the sources on record are taken instead (reefcore fetch metadata).")

    def estimate(manifest) -> dict:
        found = photos.estimate(wanted, sources, manifest.table(), folder, options.delay)
        _say_estimate(found, options, say)
        return found

    if options.dry_run:
        with Manifest(path if path.exists() else ":memory:") as manifest:
            return {"images": {"estimate": estimate(manifest)}}
    client.agent = coralnet.agent(options.contact)
    if (lock := keys.take(folder / ".keys" / "photos.lock")) is None:
        raise ReefcoreError("another program is fetching photos into this folder", folder, "wait for it, or stop it")
    try:
        with Manifest(path) as manifest:
            if not manifest.fact("terms accepted"):
                say(coralnet.TERMS)
                if not options.accept_terms:
                    do = "read them and add --accept-terms"
                    raise ReefcoreError("the terms of the site are not accepted yet", coralnet.HOST, do)
                manifest.fact("terms", coralnet.TERMS)
                manifest.fact("terms accepted", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            if options.retry_quarantined:
                manifest.forget(["quarantined", "missing"], sources["source"])
            expected = estimate(manifest)
            hub.room(folder, expected["bytes"])
            try:
                ended = photos.crawl(folder, wanted, sources, client, manifest)
            except KeyboardInterrupt:
                print("reefcore: stopped; nothing is lost, and the same command goes on.", file=sys.stderr)
                raise
            states = manifest.table()
    finally:
        os.close(lock)
    found = dict(zip(("sources", "splits"), photos.report(states, annotations, splits, folder / PHOTOS), strict=True))
    return {"images": {"estimate": expected} | _say_found(states.merge(wanted), found, folder, ended, say)}


def _say_estimate(found: dict, options, say: Callable[[str], None]) -> None:
    from reefcore.workflow.fetching import duration, size

    unknown = f", {found['no_number']:,} are of sources that are on no list" if found["no_number"] else ""
    measured = "measured so far" if found["measured"] else "an assumption: too few are here to measure"
    say(
        f"{found['photos']:,} photos of {found['sources']:,} sources carry such points: {found['there']:,} are here,"
        f" {found['to_fetch']:,} are to be fetched{unknown}."
    )
    if not found["to_fetch"]:
        return
    say(
        f"About {size(found['bytes'])} ({size(found['photo_bytes'])} a photo, {measured});"
        f" {size(found['free_bytes'])} are free."
    )
    say(
        f"At least {duration(found['seconds'])}: up to {found['requests']:,} requests, {options.delay:g} s apart and"
        f" {options.at_once} at a time. It may be stopped at any time; the same command goes on."
    )


def _short(names: str, most: int = 4) -> str:
    """Leave the many names of a list to the file."""
    several = names.split(", ")
    return names if len(several) <= most else f"{', '.join(several[: most - 1])} and {len(several) - most + 1} more"


def _say_found(states, found: dict, folder: Path, ended: str, say: Callable[[str], None]) -> dict:
    """Write the reports beside the manifest, and say them in short."""
    from reefcore import spreadsheets
    from reefcore.fetch import photos
    from reefcore.workflow.fetching import _rows

    for name, table in found.items():
        with atomic(folder / f"photos_{name}.csv") as temporary:
            temporary.write_text(spreadsheets.csv(table), encoding="utf-8")
    counts = states["state"].value_counts().to_dict()
    say("Of the photos asked for: " + ", ".join(f"{count:,} {state}" for state, count in counts.items()) + ".")
    reasons = states.loc[states["state"].ne("there") & states["reason"].ne(""), "reason"].value_counts()
    for reason, count in reasons[:5].items():
        say(f"  {count:,}: {reason}")
    for row in found["splits"].itertuples():
        lost = f"; without a point left: {_short(row.vanished)}" if row.vanished else ""
        lost += f"; fewer than {photos.LEAST} left: {_short(row.below)}" if row.below else ""
        say(f"  {row.scheme} {row.part}: {row.share_missing:.1%} of {row.points:,} points have no photo here{lost}")
    say(f"All of it: {folder / 'photos_sources.csv'}, {folder / 'photos_splits.csv'}")
    if ended:
        print(f"reefcore: {ended} The same command goes on.", file=sys.stderr)
    done = counts.get("there", 0) == len(states)
    return {"photos": counts, "ended": ended, "code": 0 if done else 1} | {k: _rows(v) for k, v in found.items()}
