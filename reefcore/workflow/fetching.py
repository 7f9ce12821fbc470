"""The command ``reefcore fetch``: what is there, what it would take, and getting it."""

from __future__ import annotations

import json
from pathlib import Path

from reefcore.errors import ReefcoreError
from reefcore.fetch import ITEMS
from reefcore.profiles import Profile


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


def _images(options, profile: Profile, folder: Path) -> dict:
    raise ReefcoreError("images cannot be fetched yet")


def fetch(options) -> int:
    """Get what was named, one after the other; return the exit code."""
    print(json.dumps(sorted(ITEMS)))
    return 0
