"""Do a paper's printed numbers agree with one another? What must hold between them is data; here it is checked.

A line of ``data/published/relations.csv`` has a ``kind`` (`KINDS`), a ``left`` and a ``right`` side, the ``certainty``
of a breach, ``holds_here`` (yes: any faithful reproduction satisfies it) and the ``reason`` why it should hold. Lines
with one and the same reason are one statement, and at most one finding. A side is one or more terms with " | " between
them. A term is a place (see `reefcore.published.values`), a number, ``#13`` (the rows of Table 13), or several of these
with " + ", " - ", " x " or " / ". In a place, ``*`` stands for any word, the same one on the whole line; ``?``, on the
right, for every word; ``*!A!B`` for any but A and B. Both stand for places of one unit, that of the first.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from math import inf
from typing import NamedTuple

import pandas as pd

from reefcore import comparison, curation, geography, open_set, published
from reefcore import splits as benchmark
from reefcore.audit.finding import CERTAINTY, checked, finding
from reefcore.errors import ReefcoreError
from reefcore.files import share
from reefcore.review import filter_summary

FILE = "data/published/relations.csv"
#: Units of what is measured and not counted: a whole number of them is a rounded one
ROUNDED = {"percent", "fraction", "rank", "megapixels", "points per image"}
_SIGNS = {"x": operator.mul, "/": operator.truediv, "+": operator.add, "-": operator.sub}
_NEAR = 1e-9  # of binary fractions


class Term(NamedTuple):
    """What stands on a side: its text, its name for people, the values in it, and the interval in which it lies."""

    text: str
    name: str
    values: tuple
    low: float | str
    high: float | str


class Breach(NamedTuple):
    """What does not hold: the terms, a clause, and how sure that is (None: as sure as the line says)."""

    terms: tuple[Term, ...]
    text: str
    certainty: str | None = None


Pairs = list[tuple[list[Term], list[Term]]]  # the terms of both sides, for every word that * stands for


def relations() -> pd.DataFrame:
    """Return what should hold between published values: the columns of ``data/published/relations.csv``."""
    return pd.read_csv(share("data", "published", "relations.csv"), dtype=str, keep_default_na=False)


def place(value) -> str:
    """Name where a published value stands, as people do: "section 3.4", "Table 2, Test-S2, annotations"."""
    if pd.isna(value.table):
        return re.sub(r"^(?=[A-Z]?\.?\d)", "section ", value.section) or value.place
    sets = re.sub(r"(train|test)_(s\d|w)(s4)?", lambda m: "-".join((m[1].title(), m[2].upper())) + (m[3] and "&S4" or ""), value.column)
    return f"Table {value.table}, {value.row}, {sets.replace('_T', ' / T').replace('_', ' ')}"


def interval(value, cut: bool = False) -> tuple[float | str, float | str]:
    """Return between which ends a printed value lies, so that rounding has its benefit.

    Half a step to both sides; no end where the text says over, under, at least or at most; with `cut`, also a whole
    step up, as if digits had been cut off. A count that is printed to its last digit is exact, and so is a word.
    """
    if isinstance(value.value, str):
        return value.value.casefold(), value.value.casefold()
    half = value.step / 2 if value.step != 1 or value.unit in ROUNDED else 0
    low = {"under": -inf, "at most": -inf, "over": value.value, "at least": value.value}
    high = {"over": inf, "at least": inf, "under": value.value + half, "at most": value.value + half}
    ends = value.value - half, value.value + half * (1 + cut)
    return low.get(value.qualifier, ends[0]), high.get(value.qualifier, ends[1])


class _Paper:
    """The values by their places, and the terms made of them."""

    def __init__(self, values: pd.DataFrame):
        self.rows = {row.place: row for row in values.itertuples(index=False)}

    def words(self, term: str, mark: str) -> list[str]:
        """Return what a ``*`` or ``?`` of a term stands for, by its first operand with one."""
        marked = next((part for part in re.split(r" [-+x/] ", term) if mark in part), None)
        if marked is None:
            return [""]
        before, banned, after = re.split(rf"{re.escape(mark)}((?:![^/]*)?)", marked, maxsplit=1)
        pattern = re.compile(f"{re.escape(before)}([^/]+){re.escape(after)}")
        found = {match[1]: row.unit for name, row in self.rows.items() if (match := pattern.fullmatch(name))}
        found = {word: unit for word, unit in found.items() if word not in banned.split("!")}
        if not found:
            raise ReefcoreError(f"there is no published value like {marked}")
        return [word for word, unit in found.items() if unit == next(iter(found.values()))]

    def pairs(self, line) -> Pairs:
        """Return the terms of both sides, for every word that the line's ``*`` stands for."""
        sides = [side.split(" | ") for side in (line.left, line.right)]
        words = next((self.words(term, "*") for term in sides[0] + sides[1] if "*" in term), [""])
        pairs = [[[_put(term, "*", word) for term in side] for side in sides] for word in words]
        spread = [(left, [_put(t, "?", word) for t in right for word in self.words(t, "?")]) for left, right in pairs]
        return [(list(map(self.term, left)), list(map(self.term, right))) for left, right in spread]

    def term(self, text: str, cut: bool = False) -> Term:
        """Return a term with its interval; products come before sums."""
        for signs in ("-+", "/x"):
            before, sign, after = re.match(rf"(?:(.*) ([{signs}]) )?(.*)$", text).groups()
            if sign:
                first, second = self.term(before, cut), self.term(after, cut)
                ends = [_SIGNS[sign](a, b) for a in first[-2:] for b in second[-2:]]
                return Term(text, f"{first.name} {sign} {second.name}", first.values + second.values, min(ends), max(ends))
        if text in self.rows:
            row = self.rows[text]
            said = " ".join(str(row.printed).split())
            said = f'("{said}")' if pd.isna(row.table) and row.section else f"({said})"
            return Term(text, f"{place(row)} {said}", (row,), *interval(row, cut))
        if re.fullmatch(r"#\d+", text):
            count = len({row.row for row in self.rows.values() if row.table is not pd.NA and row.table == int(text[1:])})
            return Term(text, f"the rows of Table {text[1:]} ({count})", (), count, count)
        if not re.fullmatch(r"\d+(\.\d+)?", text):
            raise ReefcoreError(f"there is no published value {text}", do="see reefcore.published.values()")
        return Term(text, text, (), float(text), float(text))


def _put(term: str, mark: str, word: str) -> str:
    return re.sub(rf"{re.escape(mark)}(![^/]*?)?(?=/|$| [-+x/] )", lambda _: word, term) if word else term


def _each(pairs: Pairs) -> Iterator[tuple[Term, Term]]:
    return ((a, b) for left, right in pairs for a in left for b in right if a.text != b.text)


def _below(a: Term, b: Term) -> bool:
    return a.high < b.low - _NEAR


def _same(a: Term, b: Term) -> bool:
    if isinstance(a.low, str) or isinstance(b.low, str):
        return a.low == b.low
    return not _below(a, b) and not _below(b, a)


def _said(term: Term) -> str:
    return term.name + (f" = {(term.low + term.high) / 2:,.10g}" if len(term.values) > 1 else "")


def equal(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """One quantity has one value, wherever it is printed, and a whole is the sum of its parts.

    Numbers whose intervals share no point differ, whatever was rounded. Where cut-off digits would explain it ("1.3K"
    for 1,376), it is only worth asking.
    """
    for a, b in _each(pairs):
        if not _same(a, b) and not isinstance(a.low, str) and _same(*(paper.term(t.text, cut=True) for t in (a, b))):
            yield Breach((a, b), f"{_said(a)} and {_said(b)} agree only if digits were cut off, not rounded", "ask")
        elif not _same(a, b):
            yield Breach((a, b), f"{_said(a)} and {_said(b)} are not the same")


def at_least(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """The left is at least the right, as a total and its part, or a model of which the text says that it is better."""
    return (Breach((a, b), f"{_said(a)} is below {_said(b)}") for a, b in _each(pairs) if _below(a, b))


def at_most(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """The left is at most the right; see `at_least`."""
    return (Breach((a, b), f"{_said(a)} is above {_said(b)}") for a, b in _each(pairs) if _below(b, a))


def within(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """A mean and a median lie between the least and the largest value, which are the two terms on the right."""
    for left, (least, most) in pairs:
        for a in left:
            if _below(a, least) or _below(most, a):
                yield Breach((a, least, most), f"{_said(a)} does not lie between {_said(least)} and {_said(most)}")


def row_is(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """The cells of one row are those of another table, term by term, as its text or caption says.

    Where they are not, columns of the same rows are looked for that all of them do equal.
    """
    for left, right in pairs:
        differ = [(a, b) for a, b in zip(left, right, strict=True) if not _same(a, b)]
        if differ:
            stem = [b.text.rpartition("/")[0] for b in right]
            columns = [paper.term(f"{stem[0]}/{column}") for column in paper.words(f"{stem[0]}/*", "*")]
            others = [[paper.term(f"{s}/{c.text.rpartition('/')[2]}") for s in stem] for c in columns]
            fits = [terms for terms in others if all(map(_same, left, terms))]
            text = "; ".join(f"{_said(a)} is not {_said(b)}" for a, b in differ)
            text += "".join(f"; it equals {' and '.join(map(_said, terms))}" for terms in fits)
            yield Breach((*left, *right, *(term for terms in fits for term in terms)), text)


def _turned(pairs: Pairs) -> tuple[list[Term], list[Term], int, int]:
    first, second = ([side[i][0] for side in pairs] for i in (0, 1))
    both = list(combinations(range(len(pairs)), 2))
    signs = [[int(_below(s[j], s[i])) - int(_below(s[i], s[j])) for i, j in both] for s in (first, second)]
    return first, second, sum(a * b < 0 for a, b in zip(*signs, strict=True)), len(both)


def same_order(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """Two columns rank the same rows alike. A pair is turned where both columns tell its rows apart, each the other way.

    Spearman's correlation says how much of the order is left.
    """
    first, second, turned, pairs_of_rows = _turned(pairs)
    if turned:
        ranks = [pd.Series([term.low for term in side]).rank(ascending=False) for side in (first, second)]
        best, place_there = ranks[0].idxmin(), int(ranks[1][ranks[0].idxmin()])
        text = f"{turned} of {pairs_of_rows} pairs of rows stand in the other order"
        text += f" (Spearman's correlation {ranks[0].corr(ranks[1]):.2f}); the highest, {_said(first[best])}, is number "
        yield Breach((first[best], second[best]), f"{text}{place_there} of {len(first)} as {_said(second[best])}")


def other_order(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """Two columns rank the same rows differently, as the text says: at least one pair of rows is turned."""
    first, second, turned, _ = _turned(pairs)
    if not turned:
        yield Breach((first[0], second[0]), "no two rows stand in the other order")


def same_bound(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """A threshold that is stated twice is the same: its value, and whether the value itself passes."""
    for a, b in _each(pairs):
        first, second = ((t.values[0].qualifier, t.values[0].value) for t in (a, b))
        if first != second:
            said = [f"{t.name}: {q} {v:g}" for t, (q, v) in zip((a, b), (first, second), strict=True)]
            yield Breach((a, b), "; ".join(said) + "; they differ for what lies on the threshold")


def same_unit(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """One and the same number counts the same things at both places."""
    for a, b in _each(pairs):
        units = [t.values[0].unit for t in (a, b)]
        if _same(a, b) and len(set(units)) > 1:
            yield Breach((a, b), f"{a.name} counts {units[0]}, {b.name} counts {units[1]}: one number, two units")


#: A line's kind -> its function. Several names for one, so that a line reads as what it says.
KINDS: dict[str, Callable[[Pairs, _Paper], Iterator[Breach]]] = {
    **dict.fromkeys(("equal", "sum", "ratio", "drop"), equal),
    **dict.fromkeys(("at_least", "greater", "best"), at_least),
    **dict.fromkeys(("at_most", "less", "lowest"), at_most),
    **{function.__name__: function for function in (within, row_is, same_order, other_order, same_bound, same_unit)},
}


def check(values: pd.DataFrame, relations: pd.DataFrame) -> tuple[list[dict], list[dict]]:
    """Check what should hold between the places of a paper.

    Parameters
    ----------
    values : DataFrame
        As `reefcore.published.values` returns them.
    relations : DataFrame
        As `relations` returns them; the index counts the lines of the file.

    Returns
    -------
    findings, checked : list of dict
        See `reefcore.audit.finding`: at most one finding of a statement, and for every statement what was compared.

    Raises
    ------
    ReefcoreError
        Where a line names a place, a kind or a certainty that there is not.
    """
    paper, findings, looked = _Paper(values), [], []
    for reason, lines in relations.groupby("reason", sort=False):
        breaches, terms, count = [], [], 0
        for line in lines.itertuples():
            pairs = _read(line, paper)
            found = [b._replace(certainty=b.certainty or line.certainty) for b in KINDS[line.kind](pairs, paper)]
            breaches += found
            terms += [term for left, right in pairs for term in left + right]
            count += sum(len(left) * len(right) for left, right in pairs)
        kind, remark = lines["kind"].iloc[0], reason
        if breaches:
            rows = {row.place: row for b in breaches for term in b.terms for row in term.values}.values()
            certainty = min((b.certainty for b in breaches), key=list(CERTAINTY).index)
            text = " ".join(f"{b.text[0].upper()}{b.text[1:]}." for b in breaches) + f" {reason}"
            printed = [_printed(row) for row in rows]
            findings.append(finding(kind, certainty, map(place, rows), printed, text))
            remark = f"{len(breaches)} do not hold; see the finding. {reason}"
        where = dict.fromkeys(place(row) for term in terms for row in term.values)
        looked.append(checked(kind, "; ".join(where), count, remark))
    return findings, looked


def _printed(row) -> str:
    if isinstance(row.value, str):
        return row.value
    about = "" if row.qualifier == "exact" else f"{row.qualifier} "
    decimals = max(0, len(f"{row.step:.10f}".rstrip("0").partition(".")[2])) if row.step else 0
    return about + (f"{row.value:,.{decimals}f}" if row.step else f"{row.value:,.6g}")


def _read(line, paper: _Paper) -> Pairs:
    try:
        for name, known in (("kind", KINDS), ("certainty", CERTAINTY)):
            if getattr(line, name) not in known:
                raise ReefcoreError(f"there is no {name} {getattr(line, name)}", do=f"choose from {', '.join(known)}")
        return paper.pairs(line)
    except ReefcoreError as error:
        raise ReefcoreError(error.what, f"{FILE}:{line.Index + 2}", error.do) from None
