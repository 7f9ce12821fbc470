"""The full profile as it stands: what is there, which chapters can run with it, and what gets the rest."""

from __future__ import annotations


def add(commands, command) -> None:
    """Add ``reefcore full`` to the commands (see `reefcore.cli`)."""
    group = commands.add_parser("full", help="see what the full profile has, lacks and takes")
    group = group.add_subparsers(required=True, metavar="COMMAND")
    one = command(group, "check", _check, "say what is there, what each chapter needs, and the command that gets it")
    one.add_argument("--profile", default="full", help="full, or a YAML file of that kind (full)")
    one.add_argument("--json", action="store_true", help="for programs")


def _check(options) -> int:
    return 1
