"""The command ``reefcore fetch``: what is there, what it would take, and getting it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from reefcore.errors import ReefcoreError
from reefcore.fetch import ITEMS, PHOTOS, RELEASED, coralnet
from reefcore.files import atomic
from reefcore.profiles import Profile
from reefcore.tables import SCHEMES
from reefcore.workflow import keys


def add(commands, command) -> None:
    """Add ``reefcore fetch`` to the commands (see `reefcore.cli`)."""
    one = command(
        commands,
        "fetch",
        fetch,
        "get what the full profile needs: the released data, photos, places, weights; the same command again goes on",
        epilog="Without WHAT: what there is, what of it is here, its licence, and the command that gets it.",
    )
    known = ", ".join(ITEMS)
    one.add_argument("what", nargs="*", metavar="WHAT", help=f"{known}; all is all of them but images")
    one.add_argument("--profile", default="full", help="whose data folder it goes into (full)")
    one.add_argument("--dry-run", action="store_true", help="say files, sizes, disk and time, and stop")
    one.add_argument("--revision", metavar="REV", help="of ReefNet's dataset: a commit, tag or branch (as before)")
    one.add_argument(
        "--from", dest="given", metavar="PATH", help="of meow: the zip file or folder that is here already"
    )
    one.add_argument("--json", action="store_true", help="for programs")
    _images_options(one)


def _images_options(one) -> None:
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
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _images(options, profile: Profile, folder: Path) -> int:
    """Fetch photos from CoralNet, or estimate it; return the exit code."""
    from reefcore.fetch import photos
    from reefcore.fetch.manifest import Manifest
    from reefcore.workflow.project import Project

    client = coralnet.Client("", options.host, options.delay, options.at_once)  # refuses what is impolite
    project = Project(profile)
    columns = ["annotation_id", "source", "image", "row", "column", "label", "ecoregion"]
    annotations, splits = project.table("annotations", columns), project.table("splits")
    table = photos.wanted(
        annotations,
        splits,
        options.sources,
        options.ecoregion,
        options.genus,
        options.scheme or "",
        options.limit,
        options.limit_per_source,
        without=[profile.site],
    )
    released = folder / RELEASED / "Overview_Sources_for_Image_Download.csv"
    sources = photos.numbered(table, photos.source_list(released if released.exists() else None))
    path = folder / "photos.sqlite"
    if options.dry_run:
        with Manifest(path if path.exists() else ":memory:") as manifest:
            _say_estimate(photos.estimate(table, sources, manifest.table(), folder, options.delay), options)
        return 0
    client.agent = coralnet.agent(options.contact)
    if (lock := keys.take(folder / ".keys" / "photos.lock")) is None:
        raise ReefcoreError("another program is fetching photos into this folder", folder, "wait for it, or stop it")
    try:
        with Manifest(path) as manifest:
            if not options.accept_terms and not manifest.fact("terms accepted"):
                print(coralnet.TERMS)
                raise ReefcoreError(
                    "the terms of the site are not accepted yet", do="read them, then add --accept-terms"
                )
            if not manifest.fact("terms accepted"):
                print(coralnet.TERMS)
                manifest.fact("terms accepted", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
                manifest.fact("terms", coralnet.TERMS)
            if options.retry_quarantined:
                manifest.forget(["quarantined", "missing"])
            expected = photos.estimate(table, sources, manifest.table(), folder, options.delay)
            _say_estimate(expected, options)
            if expected["bytes"] > expected["free_bytes"]:
                do = "make room, or ask for fewer: --sources, --scheme, --limit"
                raise ReefcoreError("there is no room for so many photos", folder, do)
            try:
                ended = photos.crawl(folder, table, sources, client, manifest)
            except KeyboardInterrupt:
                print("reefcore: stopped; nothing is lost, and the same command goes on.", file=sys.stderr)
                return 130
            return _say_photos(manifest, annotations, splits, folder, table, ended, options)
    finally:
        os.close(lock)


def _time(seconds: float) -> str:
    for unit, length in {"days": 86400, "hours": 3600, "minutes": 60}.items():
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def _say_estimate(found: dict, options) -> None:
    if options.json:
        if options.dry_run:
            print(json.dumps(found, indent=2))
        return
    measured = "measured so far" if found["measured"] else "an assumption: too few are here to measure"
    print(
        f"{found['photos']:,} photos of {found['sources']:,} sources are wanted; {found['there']:,} are here,"
        f" {found['to_fetch']:,} are to be fetched"
        + (f", {found['no_number']:,} are of sources that are on no list" if found["no_number"] else "")
        + f".\nAbout {found['bytes'] / 1e9:,.1f} GB ({found['photo_bytes'] / 1e6:.1f} MB a photo, {measured});"
        f" {found['free_bytes'] / 1e9:,.1f} GB are free.\nAt least {_time(found['seconds'])}:"
        f" {found['requests']:,} requests at most, {options.delay:g} s apart, {options.at_once} at a time."
        " It may be stopped at any time; the same command goes on."
    )


def _say_photos(manifest, annotations, splits, folder: Path, table, ended: str, options) -> int:
    """Write the report of photos beside the manifest, and say it in short."""
    from reefcore import spreadsheets
    from reefcore.fetch import photos

    states = manifest.table()
    found = dict(zip(("sources", "splits"), photos.report(states, annotations, splits, folder / PHOTOS), strict=True))
    for name, one in found.items():
        with atomic(folder / f"photos_{name}.csv") as temporary:
            temporary.write_text(spreadsheets.csv(one), encoding="utf-8")
    states = states.merge(table[["source", "image"]], on=["source", "image"])
    counts = states["state"].value_counts()
    if options.json:
        said = {name: json.loads(one.to_json(orient="records")) for name, one in found.items()}
        print(json.dumps({"photos": counts.to_dict(), "ended": ended} | said, indent=2))
    else:
        print("Of the photos asked for: " + ", ".join(f"{count:,} {state}" for state, count in counts.items()) + ".")
        for reason, count in states.query("state != 'there' and reason != ''")["reason"].value_counts()[:5].items():
            print(f"  {count:,}: {reason}")
        for row in found["splits"].itertuples():
            lost = f"; without a point: {row.vanished}" if row.vanished else ""
            lost += f"; below {photos.LEAST}: {row.below}" if row.below else ""
            print(
                f"  {row.scheme} {row.part}: {row.share_missing:.1%} of {row.points:,} points have no photo here{lost}"
            )
        print(f"{folder / 'photos_sources.csv'} and photos_splits.csv have all of it.")
    if ended:
        print(f"reefcore: {ended} The same command goes on.", file=sys.stderr)
    return 0 if counts.get("there", 0) == len(states) else 1


def fetch(options) -> int:
    """Get what was named, one after the other; return the exit code."""
    print(json.dumps(sorted(ITEMS)))
    return 0
