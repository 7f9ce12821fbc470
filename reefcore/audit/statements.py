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
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations
from math import comb, inf, isfinite, log10
from typing import NamedTuple

import pandas as pd

from reefcore import comparison, curation, geography, open_set, published, splits
from reefcore.audit.finding import CERTAINTY, checked, finding
from reefcore.errors import ReefcoreError
from reefcore.files import share
from reefcore.review import PER_PAIR, filter_summary
from reefcore.tables import SCORE

FILE = "data/published/relations.csv"
#: Units of what is measured and not counted: a whole number of them is a rounded one
ROUNDED = {"percent", "fraction", "rank", "megapixels", "points per image"}
SHOWN = 8  # places of a statement that holds; a finding names all of its own
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
    """What does not hold: terms, a clause, what follows it, how sure it is (None: as the line says), how often."""

    terms: tuple[Term, ...]
    clause: str
    object: str = ""
    certainty: str | None = None
    count: int = 1


Pairs = list[tuple[list[Term], list[Term]]]  # the terms of both sides, for every word that * stands for


def relations() -> pd.DataFrame:
    """Return what should hold between published values: the columns of ``data/published/relations.csv``."""
    return pd.read_csv(share("data", "published", "relations.csv"), dtype=str, keep_default_na=False)


def place(value) -> str:
    """Name where a published value stands, as people do: "section 3.4", "Table 2, Test-S2, annotations"."""
    if pd.isna(value.table):
        return re.sub(r"^(?=([A-Z]\.)?\d)", "section ", value.section) or value.place
    return f"Table {value.table}, {value.row}, {_heads(value.table).get(value.column, value.column)}"


@cache
def _heads(table: int) -> dict[str, str]:
    return published.layout(table, "columns")["head"].to_dict()


def printed(value) -> str:
    """Write a published value with the digits that it is printed with, and what the text says of it."""
    if isinstance(value.value, str):
        return value.value
    digits = max(0, round(-log10(value.step))) if value.step else 0 if value.value == int(value.value) else 2
    return ("" if value.qualifier == "exact" else f"{value.qualifier} ") + f"{value.value:,.{digits}f}"


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
        if text in self.rows:
            row = self.rows[text]
            return Term(text, f"{place(row)} ({printed(row)})", (row,), *interval(row, cut))
        for signs in ("-+", "/x"):
            before, sign, after = re.match(rf"(?:(.*) ([{signs}]) )?(.*)$", text).groups()
            if sign:
                first, second = self.term(before, cut), self.term(after, cut)
                ends = [_SIGNS[sign](a, b) for a in first[-2:] for b in second[-2:]]
                name = f"{first.name} {sign} {second.name}"
                return Term(text, name, first.values + second.values, min(ends), max(ends))
        if re.fullmatch(r"#\d+", text):
            rows = [row for row in self.rows.values() if not pd.isna(row.table) and row.table == int(text[1:])]
            count = len({row.row for row in rows})
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
    """Say where a term stands: with the words around it, or with what its parts make."""
    if [value.place for value in term.values] != [term.text]:
        total = f"{(term.low + term.high) / 2:,.2f}".removesuffix(".00")
        return f"{term.name} = {total}" if term.values else term.name
    value = term.values[0]
    if not pd.isna(value.table) or not value.section:
        return term.name
    text = " ".join(str(value.printed).replace(r"\sim", "~").replace(r"\times", "x").split())
    return re.sub(r"\\text|[$\\{}]", "", f'{place(value)} ("{text}")')


def equal(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """One quantity has one value, wherever it is printed, and a whole is the sum of its parts.

    Numbers whose intervals share no point differ, whatever was rounded. Where cut-off digits would explain it ("1.3K"
    for 1,376), it is only worth asking.
    """
    for a, b in _each(pairs):
        if not _same(a, b):
            cut = not isinstance(a.low, str) and _same(*(paper.term(term.text, cut=True) for term in (a, b)))
            clause = "agrees, if digits were cut off and not rounded, with" if cut else "does not agree with"
            yield Breach((a, b), f"{_said(a)} {clause}", _said(b), "ask" if cut else None)


def at_least(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """The left is at least the right, as a total and its part, or a model of which the text says that it is better."""
    return (Breach((a, b), f"{_said(a)} is below", _said(b)) for a, b in _each(pairs) if _below(a, b))


def at_most(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """The left is at most the right; see `at_least`."""
    return (Breach((a, b), f"{_said(a)} is above", _said(b)) for a, b in _each(pairs) if _below(b, a))


def within(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """A mean and a median lie between the least and the largest value, which are the two terms on the right."""
    for left, (least, most) in pairs:
        for a in left:
            if _below(a, least) or _below(most, a):
                yield Breach((a, least, most), f"{_said(a)} does not lie between {least.name} and {most.name}")


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
            terms = (*left, *right, *(term for terms in fits for term in terms))
            yield Breach(terms, text, count=len(differ))


def _turned(pairs: Pairs) -> tuple[int, list[pd.Series]]:
    """Count the pairs of rows that stand in another order, and rank the rows of both sides."""
    first, second = ([side[i][0] for side in pairs] for i in (0, 1))
    both = list(combinations(range(len(pairs)), 2))
    signs = [[int(_below(s[j], s[i])) - int(_below(s[i], s[j])) for i, j in both] for s in (first, second)]
    ranks = [pd.Series([term.low for term in side]).rank(ascending=False) for side in (first, second)]
    return sum(a * b < 0 for a, b in zip(*signs, strict=True)), ranks


def same_order(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """Two columns rank the same rows alike.

    A pair of rows is turned where both columns tell them apart, each the other way. Spearman's correlation says how
    much of the order is left.
    """
    turned, (ranks, there) = _turned(pairs)
    if turned:
        best = int(ranks.argmin())
        (first,), (second,) = pairs[best]
        text = f"{turned} of {comb(len(pairs), 2)} pairs of rows stand in the other order (Spearman's correlation "
        text += f"{ranks.corr(there):.2f}); the highest, {first.name}, is number {int(there[best])} of {len(pairs)} as "
        yield Breach((first, second), text + second.name, count=turned)


def other_order(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """Two columns rank the same rows differently, as the text says: at least one pair of rows is turned."""
    if not _turned(pairs)[0]:
        terms = (pairs[0][0][0], pairs[0][1][0])
        yield Breach(terms, "no two rows stand in the other order", count=_comparisons("other_order", pairs))


def same_bound(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """A threshold that is stated twice is the same: its value, and whether the value itself passes."""
    for a, b in _each(pairs):
        if len({(term.values[0].qualifier, term.values[0].value) for term in (a, b)}) > 1:
            yield Breach((a, b), f"{a.name} and {b.name} differ for what lies on the threshold")


def same_unit(pairs: Pairs, paper: _Paper) -> Iterator[Breach]:
    """One and the same number counts the same things at both places."""
    for a, b in _each(pairs):
        units = [t.values[0].unit for t in (a, b)]
        if _same(a, b) and len(set(units)) > 1:
            yield Breach((a, b), f"{_said(a)} counts {units[0]}, {_said(b)} counts {units[1]}")


#: A line's kind -> its function. Several names for one, so that a line reads as what it says.
KINDS: dict[str, Callable[[Pairs, _Paper], Iterator[Breach]]] = {
    **dict.fromkeys(("equal", "sum", "ratio", "drop"), equal),
    **dict.fromkeys(("at_least", "greater", "best"), at_least),
    **dict.fromkeys(("at_most", "less", "lowest"), at_most),
    **{function.__name__: function for function in (within, row_is, same_order, other_order, same_bound, same_unit)},
}


def check(values: pd.DataFrame, relations: pd.DataFrame, known: Iterable[dict] = ()) -> tuple[list[dict], list[dict]]:
    """Check what should hold between the places of a paper.

    Parameters
    ----------
    values : DataFrame
        As `reefcore.published.values` returns them.
    relations : DataFrame
        As `relations` returns them; the index counts the lines of the file.
    known : iterable of dict
        Findings of other rules. What one of them says of the same places is not reported again.

    Returns
    -------
    findings, checked : list of dict
        See `reefcore.audit.finding`: at most one finding of a statement, and for every statement what was compared.

    Raises
    ------
    ReefcoreError
        Where a line names a place, a kind or a certainty that there is not, or cannot be compared so.
    """
    paper, findings, looked, used = _Paper(values), [], [], set()
    said_before = [(set(found["where"].split("; ")), found["rule"]) for found in known]
    for reason, read, of, breaches, count, fails in _statements(paper, relations):
        kind, remark = read[0][0], reason
        if breaches:
            rows = {row.place: row for b in breaches for term in b.terms for row in term.values}.values()
            certainty = min((b.certainty for b in breaches), key=list(CERTAINTY).index)
            where = list(map(place, rows))
            other = next((rule for places, rule in said_before if places <= set(where)), "")
            if not other:
                findings.append(finding(kind, certainty, where, map(printed, rows), f"{_sentences(breaches)} {reason}"))
            many = "1 does" if fails == 1 else f"{fails} do"
            remark = f"{many} not hold; see the finding{other and f' of {other}'}. {reason}"
        used |= set(of)
        where = list(dict.fromkeys(map(place, of.values())))
        more = [f"and {len(where) - SHOWN} more"] if len(where) > SHOWN else []
        looked.append(checked(kind, "; ".join(where[:SHOWN] + more), count, remark))
    alone = [row for name, row in paper.rows.items() if pd.isna(row.table) and name not in used]
    where = "; ".join(f"{place(row)} ({row.place})" for row in alone)
    return findings, [*looked, checked("stated once", where, 0, "Nothing to compare these figures of the text with.")]


def _statements(paper: _Paper, relations: pd.DataFrame) -> Iterator[tuple]:
    """Give each statement: reason, kinds and terms of its lines, values by place, breaches, comparisons, failures."""
    for reason, lines in relations.groupby("reason", sort=False):
        pairs, found = zip(*(_read(line, paper) for line in lines.itertuples()), strict=True)
        read, breaches = list(zip(lines["kind"], pairs, strict=True)), [b for one in found for b in one]
        terms = (term for of in pairs for left, right in of for term in left + right)
        values = {row.place: row for term in terms for row in term.values}
        count = sum(_comparisons(*line) for line in read)
        yield reason, read, values, breaches, count, sum(b.count for b in breaches)


def _read(line, paper: _Paper) -> tuple[Pairs, list[Breach]]:
    try:
        for name, known in (("kind", KINDS), ("certainty", CERTAINTY)):
            if getattr(line, name) not in known:
                raise ReefcoreError(f"there is no {name} {getattr(line, name)}", do=f"choose from {', '.join(known)}")
        pairs = paper.pairs(line)
        found = KINDS[line.kind](pairs, paper)
        return pairs, [breach._replace(certainty=breach.certainty or line.certainty) for breach in found]
    except ReefcoreError as error:
        raise ReefcoreError(error.what, f"{FILE}:{line.Index + 2}", error.do) from None
    except (AttributeError, IndexError, TypeError, ValueError):  # words in a sum, a range of three ends
        what = f'"{line.left}" and "{line.right}" cannot be compared as {line.kind}'
        raise ReefcoreError(what, f"{FILE}:{line.Index + 2}", "see reefcore.audit.statements") from None


def _comparisons(kind: str, pairs: Pairs) -> int:
    """Count what a line compares: terms two by two, or, of an order, rows two by two."""
    if kind in ("same_order", "other_order"):
        return max(1, comb(len(pairs), 2))
    return sum(len(left) for left, _ in pairs) if kind in ("within", "row_is") else len(list(_each(pairs)))


def _sentences(breaches: list[Breach]) -> str:
    clauses: dict[str, list[str]] = {}
    for b in breaches:
        clauses.setdefault(b.clause, []).append(b.object)
    said = (f"{clause} {'; '.join(filter(None, objects))}".strip() for clause, objects in clauses.items())
    return " ".join(f"{words[0].upper()}{words[1:]}." for words in said)


def _how(read: list[tuple[str, Pairs]]) -> str:
    """Say of a statement that holds how far its terms are apart, or what they are."""
    spans: dict[str, list[float]] = {}
    for kind, pairs in read:
        if kind in ("same_order", "other_order"):
            turned, (one, two) = _turned(pairs)
            spans.setdefault(f"pairs of rows in the other order (of {comb(len(pairs), 2)}):", []).append(turned)
            spans.setdefault("Spearman's correlation", []).append(one.corr(two))
            continue
        words, sign = {at_least: ("higher by", 0.5), at_most: ("lower by", -0.5)}.get(KINDS[kind], ("", 0))
        gaps = [sign * (a.low + a.high - b.low - b.high) for a, b in _each(pairs) if words]
        gaps = [gap for gap in gaps if isfinite(gap)]
        made = [_said(a) for a, _ in _each(pairs) if not words and len(a.values) > 1] or ["as said"]
        for key in [words] if gaps else made:
            spans.setdefault(key, []).extend(gaps)
    written = {key: [f"{n:,}" if isinstance(n, int) else f"{n:,.2f}" for n in sorted(of)] for key, of in spans.items()}
    said = "; ".join(f"{key} {' to '.join(dict.fromkeys(of[:1] + of[-1:]))}".strip() for key, of in written.items())
    return re.sub(r"(?<= )-(?=\d)", "−", said)


def about(*tables: int) -> pd.DataFrame:
    """Hold what the paper says of its own tables against the numbers that they print.

    Parameters
    ----------
    tables : int
        Statements that name a value of any of these tables.

    Returns
    -------
    DataFrame
        ``the paper says`` (the reason of a statement), ``checks`` (numbers compared, see `check`), ``holds`` ("yes",
        "no", or for how many of the checks) and ``the printed tables say``. Two orders are compared by pairs of rows;
        they are other ones where any pair is turned.
    """
    rows = []
    for reason, read, of, breaches, checks, fails in _statements(_Paper(published.values()), relations()):
        if {row.table for row in of.values() if not pd.isna(row.table)} & set(tables):
            holds = "yes" if not fails else "no" if fails == checks else f"{checks - fails} of {checks}"
            rows.append((reason, checks, holds, _sentences(breaches) or _how(read)))
    return pd.DataFrame(rows, columns=["the paper says", "checks", "holds", "the printed tables say"])


def holding(values: pd.DataFrame, relations: pd.DataFrame) -> pd.DataFrame:
    """Return the relations that any faithful reproduction satisfies and all places of which are among the values."""
    paper, kept = _Paper(values), relations[relations["holds_here"] == "yes"]

    def known(line) -> bool:
        try:
            return bool(paper.pairs(line))
        except ReefcoreError:
            return False

    return kept[[known(line) for line in kept.itertuples()]]


def here(tables: Mapping[str, pd.DataFrame], site: str = "") -> pd.DataFrame:
    """Return a profile's own numbers under the places of the paper's, for `check`; see `holding`.

    Parameters
    ----------
    tables : mapping
        As `reefcore.workflow.Project.table` gives them: annotations, sources, images, reviews, quality and splits;
        where there are any, candidates, and open_set (the test points of one run).
    site : str
        The held-out source.

    Returns
    -------
    DataFrame
        As `reefcore.published.values`: every value is exact, and the section is empty.
    """
    data = [tables[name] for name in ("annotations", "sources", "images", "reviews")]
    corals, reviews = curation.hard_corals(data[0]), data[3]
    counted = [comparison.data_set(*data, site), comparison.largest_ecoregions(geography.by_ecoregion(corals))]
    if "layout" in tables["sources"]:
        counted.append(comparison.point_layouts(*data[:2], site))
    found = {"dataset/site_annotations": (corals["source"] == site).sum(), "review/per_pair": PER_PAIR}
    for table in counted:
        found |= {table.attrs["places"].get(row.quantity): row.here for row in table.itertuples()}
    stages = filter_summary(tables["quality"].query("not site"), reviews).set_index("stage")
    stages["agreement"] *= 100
    found |= {f"review/{stage}/{name}": value for (stage, name), value in stages.stack().items()}
    summary = splits.summary(tables["splits"], data[0].drop_duplicates("annotation_id"), reviews)
    parts = comparison.splits(summary).set_index("split").filter(like=", here").rename(columns=lambda c: c[:-6])
    parts.columns = parts.columns.str.replace(" ", "_").str.replace("^agreement", "expert_agreement_pct", regex=True)
    found |= {f"2/{split}/{name}": value for (split, name), value in parts.stack().items()}
    if "candidates" in tables:
        steps = curation.source_funnel(tables["candidates"])[0]
        found |= {f"funnel/{row.rule}": row.sources for row in steps.itertuples()}
    if "open_set" in tables:
        points = tables["open_set"].dropna(axis="columns", how="all")
        known = open_set.is_known(points)
        kinds = {"known": points.loc[known], "unknown": points.loc[~known]}
        found |= {f"open_set/{kind}_points": len(rows) for kind, rows in kinds.items()}
        found["open_set/unknown_classes"] = kinds["unknown"]["y_true"].nunique()
        found["open_set/known_classes"] = points.columns.str.startswith(SCORE).sum()
    like = published.values().set_index("place")
    like = like.loc[[place for place in found if place in like.index and pd.notna(found[place])]]
    numbers = [float(found[place]) for place in like.index]
    written = [f"{number:,.6g}" for number in numbers]
    return like.assign(value=numbers, step=0.0, qualifier="exact", section="", printed=written).reset_index()
