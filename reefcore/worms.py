"""An optional look-up in WoRMS (https://www.marinespecies.org) of the names that the offline tables do not have.

pyworms is not used: its address, its time limit (300 s) and its ten repeats are fixed, it waits for nobody's
Retry-After, names no user agent and raises at the first name that fails, which would lose the answers before it.
"""

from __future__ import annotations

import datetime
import email.utils
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

import reefcore
from reefcore.errors import ReefcoreError
from reefcore.files import write_json
from reefcore.taxonomy.names import ORDER

URL = "https://www.marinespecies.org/rest"
DELAY = 1.0  # seconds between the starts of two requests
TIMEOUT = 20.0  # seconds
TRIES = 4  # per name
LONGEST = 120.0  # seconds that are waited at the most; a server that asks for more is left alone
GIVE_UP = 3  # names in a row that fail, after which the others are not asked
ANSWER = "outcome aphia_id accepted_name accepted_aphia_id rank status class order family".split()


class _Unanswered(Exception):
    """A name has no answer, and why."""


def lookup(
    names: Iterable[str],
    cache: str | Path,
    url: str | None = None,
    delay: float = DELAY,
    timeout: float = TIMEOUT,
    tries: int = TRIES,
) -> pd.DataFrame:
    """Look hard-coral names up in WoRMS, politely and once: what was answered is kept in a file.

    Only records of the order Scleractinia are taken, so that Acropora is the coral (205469) and not the bryozoan
    (578625), and Turbinaria not the alga (206630). A name that fails is listed and does not stop the others; after
    three in a row the rest is not asked.

    Parameters
    ----------
    names : iterable of str
        Scientific names; each distinct one is asked once, NA left out.
    cache : str or Path
        The JSON file of answers, made where it does not exist. Failures are not kept.
    url : str, optional
        Of the service; WoRMS's own by default.
    delay : float
        Least seconds between two requests. A repeat waits for as long as the server says (Retry-After, up to two
        minutes), else twice as long each time.
    timeout : float
        Seconds to wait for an answer.
    tries : int
        Requests per name, at most.

    Returns
    -------
    DataFrame
        One row per name, in their order: ``name``, ``outcome`` (found, not known, no hard coral, or why it failed),
        ``aphia_id``, ``accepted_name``, ``accepted_aphia_id``, ``rank``, ``status``, ``class``, ``order``, ``family``
        (of the record found), and ``looked_up`` (date; NA where it failed). ``.attrs["failed"]`` counts the failures.

    Raises
    ------
    ReefcoreError
        Where the file of answers cannot be read, or a number makes no sense.
    """
    if delay < 0 or timeout <= 0 or tries < 1:
        raise ReefcoreError(
            f"delay={delay}, timeout={timeout}, tries={tries} is no way to ask", do="give positive numbers"
        )
    cache, known = Path(cache), _kept(Path(cache))
    rows, failed, in_a_row, next_at = [], 0, 0, 0.0
    try:
        for name in dict.fromkeys(name for name in names if pd.notna(name)):
            if name not in known:
                try:
                    if in_a_row >= GIVE_UP:
                        raise _Unanswered(f"not asked: {GIVE_UP} names before it failed")
                    records, next_at = _ask(name, url or URL, delay, timeout, tries, next_at)
                    known[name] = _choose(name, records) | {"looked_up": datetime.date.today().isoformat()}
                    in_a_row = 0
                except _Unanswered as error:
                    failed, in_a_row, next_at = failed + 1, in_a_row + 1, time.monotonic() + delay
                    rows.append({"name": name, "outcome": str(error)})
                    continue
            rows.append({"name": name} | known[name])
    finally:  # an interruption keeps what was answered
        if known:
            write_json(known, cache)
    table = pd.DataFrame(rows, columns=["name", *ANSWER, "looked_up"])
    ids = dict.fromkeys(["aphia_id", "accepted_aphia_id"], "Int64")
    table = table.astype({name: ids.get(name, "str") for name in table})
    table.attrs["failed"] = failed
    return table


def _kept(cache: Path) -> dict[str, dict]:
    """Read the answers of earlier look-ups."""
    if not cache.exists():
        return {}
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
        if all(set(ANSWER) <= set(answer) for answer in known.values()):
            return known
    except (OSError, ValueError, AttributeError, TypeError):
        pass
    raise ReefcoreError("this is not a file of WoRMS answers", cache, "name another file, or delete it to ask again")


def _ask(name: str, url: str, delay: float, timeout: float, tries: int, next_at: float) -> tuple[list[dict], float]:
    """Get the records of a name; returns them and when the next request may start (monotonic seconds)."""
    address = f"{url.rstrip('/')}/AphiaRecordsByName/{urllib.parse.quote(name, safe='')}?like=false&marine_only=false"
    agent = f"reefcore/{reefcore.__version__} (coral label mapping; one request at a time)"
    request = urllib.request.Request(address, headers={"User-Agent": agent, "Accept": "application/json"})
    why = ""
    for attempt in range(tries):
        time.sleep(max(0.0, next_at - time.monotonic()))
        next_at = time.monotonic() + delay
        wait = delay * 2 ** (attempt + 1)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                records = json.load(answer) if answer.status == 200 else []  # 204: no such name
            if isinstance(records, list) and all(isinstance(record, dict) for record in records):
                return records, next_at
            why = "an answer that is no list of records"
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code}"
            if error.code != 429 and error.code < 500:
                break
            wait = max(wait, _seconds(error.headers.get("Retry-After")))
        except (OSError, http.client.HTTPException, ValueError) as error:  # no connection, too slow, no JSON
            why = str(getattr(error, "reason", error)) or type(error).__name__
        if wait > LONGEST:
            why += f", wait {wait:.0f} s"
            break
        next_at = max(next_at, time.monotonic() + wait)
    raise _Unanswered(f"failed: {why}")


def _seconds(retry_after: str | None) -> float:
    """Read a Retry-After header, seconds or a date; 0 where there is none or it is neither."""
    try:
        return float(retry_after or 0)
    except ValueError:
        pass
    try:
        until = email.utils.parsedate_to_datetime(retry_after)
        return max(0.0, (until - datetime.datetime.now(until.tzinfo)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _choose(name: str, records: list[dict]) -> dict:
    """Pick the hard coral among the records of a name: an accepted one first, then the lowest AphiaID."""
    corals = [record for record in records if record.get("order") == ORDER and record.get("scientificname") == name]
    if not corals:
        return dict.fromkeys(ANSWER) | {"outcome": "no hard coral" if records else "not known"}
    best = min(corals, key=lambda record: (record.get("status") != "accepted", record.get("AphiaID")))
    fields = ["found"] + [
        best.get(key) for key in "AphiaID valid_name valid_AphiaID rank status class order family".split()
    ]
    return dict(zip(ANSWER, fields, strict=True))
