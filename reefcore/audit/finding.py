"""What an audit says: a finding, what it looked at without one, and how sure a finding is."""

from __future__ import annotations

from collections.abc import Iterable

#: How sure a finding is, the surest first -> what that means, to a reader
CERTAINTY = {
    "impossible": "no data can give these printed numbers as they are defined, with every benefit of rounding",
    "inconsistent": "two places contradict each other, or what the text defines",
    "ask": "it may be fine, and is worth asking",
}


def finding(rule: str, certainty: str, where: Iterable[str], values: Iterable[str], text: str) -> dict[str, str]:
    """Make one finding.

    Parameters
    ----------
    rule : str
        The rule's name.
    certainty : {"impossible", "inconsistent", "ask"}
        See `CERTAINTY`.
    where, values : iterable of str
        The places, and what each prints.
    text : str
        One or two neutral sentences: what the places say, and why both cannot be, or what to ask.

    Returns
    -------
    dict
        ``rule``, ``certainty``, ``where``, ``values``, ``text``, all str; several places or values joined by "; ".
    """
    assert certainty in CERTAINTY, certainty
    return {
        "rule": rule,
        "certainty": certainty,
        "where": "; ".join(where),
        "values": "; ".join(map(str, values)),
        "text": text,
    }


def checked(rule: str, where: str, checks: int, remark: str = "") -> dict:
    """Say what a rule looked at: ``rule``, ``where``, ``checks`` (how many comparisons) and ``remark``."""
    return {"rule": rule, "where": where, "checks": int(checks), "remark": remark}
