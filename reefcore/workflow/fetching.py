"""The command ``reefcore fetch``: what is there, what it would take, and getting it."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from reefcore import profiles
from reefcore.errors import ReefcoreError
from reefcore.fetch import ITEMS, MEOW, PHOTOS, QUARANTINE, REEFNET, RELEASED, SUBSTRATE
from reefcore.profiles import Profile
from reefcore.workflow import crawling, keys

SPEED = 10e6  # bytes a second, for estimates of time
LICENCE = (
    f"{REEFNET} is under CC BY-NC-SA 4.0: name its authors, not for money, and share alike "
    "(https://creativecommons.org/licenses/by-nc-sa/4.0/)."
)


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
    one.add_argument("--revision", metavar="REV", help="of a dataset on the hub: commit, tag or branch (as before)")
    one.add_argument("--from", dest="given", metavar="PATH", help="of meow: a zip file or folder that is here already")
    one.add_argument("--json", action="store_true", help="for programs")
    crawling.options(one)


def fetch(options) -> int:
    """Get what was named, one after the other; return the exit code."""
    profile = profiles.load(options.profile)
    if profile.kind != "full":
        what = f"the profile {profile.name} makes its own data, so nothing is fetched for it"
        raise ReefcoreError(what, do="leave --profile out, or name one of kind full")
    wanted = _wanted(options.what)
    if not wanted:
        return _overview(profile, options.json)
    folder, told, failed = profile.folder(keys.root()), {}, {}
    groups = [[name for name in wanted if ITEMS[name].files], *([name] for name in wanted if not ITEMS[name].files)]

    def say(text: str) -> None:
        if not options.json:
            print(text, flush=True)

    for group in filter(None, groups):
        try:
            get = _GETTERS.get(group[0])
            told |= get(options, profile, folder, say) if get else _released(group, options, profile, folder, say)
        except ImportError as error:
            failed[", ".join(group)] = f"the package {error.name} is missing; pip install 'reefcore[fetch,train]'."
        except ReefcoreError as error:
            if options.debug:
                raise
            failed[", ".join(group)] = str(error)
    if options.json:
        print(json.dumps({"folder": str(folder), "items": told, "failed": failed}, indent=2, ensure_ascii=False))
    for text in failed.values():
        print(f"reefcore: {text}", file=sys.stderr)
    return 2 if failed else max((item.get("code", 0) for item in told.values()), default=0)


def _wanted(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in (*ITEMS, "all"):
            near = difflib.get_close_matches(name, [*ITEMS, "all"], 1)
            do = f"did you mean {near[0]}" if near else f"choose from {', '.join(ITEMS)}, all"
            raise ReefcoreError(f"there is nothing called {name!r} to fetch", do=do)
    return [name for name in ITEMS if name in names or ("all" in names and name != "images")]


def size(count: float) -> str:
    """Write a number of bytes for people: ``2.95 GB``."""
    unit = next(one for one in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes")) if count >= one[0] or one[0] == 1)
    return f"{count / unit[0]:.3g} {unit[1]}" if unit[0] > 1 else f"{count:.0f} bytes"


def duration(seconds: float) -> str:
    """Write a duration for people: ``5 min``, ``1.5 h``, ``7.9 days``."""
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
        if seconds < 172800
        else f"{seconds / 86400:.1f} days"
    )


def _took(left: float, free: float) -> str:
    if not left:
        return f"Nothing is left to fetch; {size(free)} are free."
    return f"{size(left)} to fetch, about {duration(left / SPEED)} at {size(SPEED)} a second; {size(free)} are free."


def _overview(profile: Profile, as_json: bool) -> int:
    try:
        folder, note = profile.folder(keys.root()), ""
    except ReefcoreError as error:
        folder, note = None, f"{error}\n"
    rows = []
    for name, item in ITEMS.items():
        here = _here(name, profile, folder) if folder else "not looked for"
        row = {"item": name, "about": item.about, "place": item.place, "licence": item.licence, "here": here}
        rows.append(
            row
            | {"command": f"reefcore fetch {name}" + (" --accept-terms --contact ADDRESS" if name == "images" else "")}
        )
    if as_json:
        print(json.dumps({"folder": str(folder or ""), "items": rows}, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        told = {"what": row["about"], "in": row["place"] or "the hub's own cache (HF_HOME)"}
        told |= {"licence": row["licence"], "here": row["here"]}
        print("\n    ".join([row["command"], *(f"{key:8} {text}" for key, text in told.items())]))
    print(f"\n{note}Data folder: {folder or 'not named yet'}. With --dry-run a command says what it would take.")
    return 0


def _here(name: str, profile: Profile, folder: Path) -> str:
    """Say what of an item is in the data folder."""
    from reefcore.fetch import hub
    from reefcore.fetch.manifest import Manifest

    if files := ITEMS[name].files:
        known = hub.record(folder / RELEASED)
        there = sum(hub.is_there(folder / RELEASED, file, known) for file in files)
        found = f"{there} of {len(files)} files"
        if name == "al-wajh":
            found += f", {_count(folder / PHOTOS / (profile.site or 'Al-Wajh')):,} photos"
        return found
    if name == "images":
        with Manifest(path if (path := folder / "photos.sqlite").exists() else ":memory:") as manifest:
            states = manifest.table()["state"]
        return f"{states.eq('there').sum():,} of {len(states):,} photos asked for so far"
    if name == "meow":
        return "yes" if (folder / MEOW / "meow_ecos.shp").exists() else "no"
    if name == "substrate":
        return f"{len(hub.record(folder / 'substrate')):,} files"
    return "see --dry-run"


def _count(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*")) if folder.is_dir() else 0


def _released(names: list[str], options, profile: Profile, folder: Path, say: Callable[[str], None]) -> dict:
    """Get files of ReefNet's dataset; unpack the photos among them."""
    from reefcore.fetch import hub

    place = folder / RELEASED
    planned = hub.plan(place, names, options.revision)
    listing, unknown, left = planned.attrs["listing"], planned.attrs["unknown"], int(planned["left"].sum())
    if listing:
        say(f"{REEFNET} at {listing.commit}:")
    for row in planned.itertuples():
        say(f"  {row.state:9} {size(row.size):>10}  {row.file}")
    if unknown:
        say(f"  The hub also has, and nothing here reads: {', '.join(unknown)}.")
    packed = planned.loc[planned["file"].str.endswith(".zip") & (planned["state"] == "to fetch"), "size"]
    say("  " + _took(left, hub.room(folder, left + int(packed.sum()))))
    if not options.dry_run:
        if left:
            say(LICENCE)
        planned = hub.get(place, planned)
        say(f"{', '.join(names)}: in {place}.")
    told = {name: {"files": _rows(planned[planned["item"] == name].drop(columns="item"))} for name in names}
    told[names[0]] |= {"revision": listing.commit if listing else None, "unknown": unknown}
    if "al-wajh" in names and not options.dry_run:
        told["al-wajh"]["photos"] = _unpack(profile, folder, planned, say)
    return told


def _unpack(profile: Profile, folder: Path, planned: pd.DataFrame, say: Callable[[str], None]) -> dict:
    from reefcore.fetch import archive

    site = profile.site or "Al-Wajh"
    (name,) = planned.loc[planned["file"].str.endswith(".zip"), "file"]
    photos = archive.unpack(folder / RELEASED / name, folder / PHOTOS / site, folder / QUARANTINE / site)
    counts = photos["state"].value_counts().to_dict()
    said = ", ".join(f"{n:,} {state}" for state, n in counts.items()) or "no photos"
    say(f"al-wajh: {said}, in {folder / PHOTOS / site}.")
    odd = photos[photos["problem"] != ""]
    for row in odd.head(20).itertuples():
        say(f"  {row.member}: {row.problem}")
    if len(odd) > 20:
        say(f"  and {len(odd) - 20:,} more; --json lists them.")
    return {"counts": counts, "problems": _rows(odd)}


def _meow(options, profile: Profile, folder: Path, say: Callable[[str], None]) -> dict:
    from reefcore import geography
    from reefcore.fetch import places

    if options.dry_run:
        say(f"meow: 0.5 MB from {' or '.join(geography.MEOW_URLS)}, or --from PATH.")
        return {"meow": {}}
    found = places.meow(folder, options.given or geography.MEOW_URLS)
    say(f"meow: {found}")
    return {"meow": {"path": str(found)}}


def _substrate(options, profile: Profile, folder: Path, say: Callable[[str], None]) -> dict:
    from reefcore.fetch import hub, places
    from reefcore.workflow import survey

    say(f"{SUBSTRATE}: its licence is {ITEMS['substrate'].licence}.")
    listing, todo = places.missing(folder, options.revision)
    left = sum(one.size for one in todo)
    say(f"  {len(todo):,} of {len(listing.files):,} files; {_took(left, hub.room(folder, left))}")
    if options.dry_run:
        return {"substrate": {"files": len(todo), "left": left}}
    found = places.substrate(folder, listing, todo)
    counts = found["what"].value_counts().to_dict()
    say(f"substrate: {', '.join(f'{n:,} {what}' for what, n in counts.items())}; recognised.json lists them.")
    lacking = {name: columns for name, columns in survey.TABLES.items() if not (folder / f"{name}.parquet").exists()}
    for name, columns in lacking.items():
        say(f"  The substrate chapters need {name}.parquet ({', '.join(columns)}), to be made of what is there.")
    return {"substrate": {"counts": counts}}


def _weights(options, profile: Profile, folder: Path, say: Callable[[str], None]) -> dict:
    from reefcore.fetch import models

    planned = models.plan(models.needed(profile))
    for row in planned.itertuples():
        say(f"  {'there' if row.there else 'to fetch':9} {'' if row.there else size(row.size):>10}  {row.repository}")
    for model in planned.attrs["asked"]:
        say(f"  {model} is asked of a server (see the chapters without training), or fetched by transformers itself.")
    say("  " + models.took(planned, _took))
    if not options.dry_run:
        models.get(planned[~planned["there"]])
        say("weights: in the hub's cache; each has a licence of its own, on its page of the hub.")
    return {"weights": {"models": _rows(planned.drop(columns="files"))}}


def _rows(table: pd.DataFrame) -> list[dict]:
    return json.loads(table.to_json(orient="records"))


_GETTERS = {"meow": _meow, "substrate": _substrate, "weights": _weights, "images": crawling.images}
