"""The whole book as one PDF, printed by Chromium."""

from __future__ import annotations

import os
import shutil

from reefcore.errors import ReefcoreError


def chromium() -> str:
    """Find the browser that prints and checks the book.

    Returns
    -------
    str
        Its program: the environment variable ``CHROMIUM``, or the first of the usual names on the path.

    Raises
    ------
    ReefcoreError
        Where there is none.
    """
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        raise ReefcoreError(
            "no Chromium was found",
            os.environ.get("CHROMIUM"),
            "install it (Debian: `apt install chromium`), or name its program in the environment variable CHROMIUM",
        )
    return found
