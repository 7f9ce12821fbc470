"""The published numbers as tables, each linked to the page that reproduces it. Nothing here is reproduced."""

from __future__ import annotations

import html
import re
from string import ascii_lowercase

import numpy as np
import pandas as pd

from reefcore import published
from reefcore.figures.style import Shown, marked, show_table


def _cell(place: str, text: str, words: bool, best: float = 0, note: str = "") -> Shown:
    """Link what is printed to the page that reproduces it."""
    page, inner = published.reproduced_in(place), marked(html.escape(text), best)
    linked = f'<a href="{html.escape(page)}">{inner}</a>' if page else inner
    return Shown(linked + (f"<sup>{note}</sup>" if note else ""), text, words)


# Signs of the paper's LaTeX, as a reader of a table expects them.
_SIGNS = [
    (r"\\sim\s*", "~"),
    (r"\s*\\times\s*", " × "),
    (r"\\geq\s*", "≥ "),
    (r"\\%", "%"),
    (r"\\text\{(.*?)\}", r"\1"),
]
_SIGNS += [(r"\{,\}", ","), (r"\\(alpha|beta|gamma)", lambda name: {"a": "α", "b": "β", "g": "γ"}[name[1][0]])]
_SIGNS += [(r"\^\{?(-?\d+)\}?", lambda power: power[1].translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")))]


def _plain(text: str) -> str:
    """Write the formulas of a sentence with the signs themselves; the data keep what was printed."""
    for sign, shown in _SIGNS:
        text = re.sub(sign, shown, text)
    return text.replace("$", "")


def as_printed(value: float, step: float, sign: str = "") -> Shown:
    """Write a number with as many decimals as a printed one has; `sign` is ``+`` for a difference."""
    if np.isnan(value):
        return Shown("–", "–")
    text = f"{value:{sign},.{max(0, round(-np.log10(step)))}f}".replace("-", "−")
    return Shown(html.escape(text), text)


def printed_table(number: int) -> Shown:
    """Show a table of the ReefNet paper as published.

    Heads are the paper's, of rows too; each value is a link to the page that reproduces it. Where models stand beside
    each other the best is bold and the second best underlined, as in the paper's Table 3. Notes stand below.

    Parameters
    ----------
    number : int
        1 to 13.

    Raises
    ------
    ReefcoreError
        Where the paper has no such table.
    """
    about, found = published.about(number), published.table(number)
    columns, heads = published.layout(number, "columns"), published.layout(number, "rows")["head"].to_dict()
    sign = found["column"].map(columns["better"]).map({"highest": -1, "lowest": 1})
    sign = sign.where(~found["row"].str.startswith("test "))
    across = "row" if (columns["test"] == "").all() else "column"  # Table 12 has its models side by side
    values = pd.to_numeric(found["value"], errors="coerce") * sign
    best = values.groupby(found[across], sort=False).rank(method="dense").set_axis(found["place"]).fillna(0)
    printed, notes = found.set_index("place")["printed"], published.notes(number)
    marks = dict(zip(notes, ascii_lowercase, strict=False))
    rows = list(dict.fromkeys(found["row"]))
    key = columns["head"].get(about["key"], about["key"])
    shown = pd.DataFrame({key: [heads.get(row, row) for row in rows]})
    for column, head, unit in columns.drop(about["key"], errors="ignore")[["head", "unit"]].itertuples(name=None):
        places = [f"{number}/{row}/{column}" for row in rows]
        shown[head] = [
            _cell(place, printed.get(place, "–"), unit == "name", best.get(place, 0), marks.get(place, ""))
            for place in places
        ]
    bold = f" Bold: the best of its {across}; underlined: the second best." if (best == 2).any() else ""
    caption = f"Table {number} of the paper, as published (section {about['section']}): {about['title']}. "
    caption += f"{about['note']}{bold}"
    foot = sum(row.startswith("test ") for row in rows)
    table = show_table(shown, f"published-table-{number}", caption.strip(), published.NOTICE, data=found, foot=foot)
    below = " ".join(f"<sup>{marks[place]}</sup> {html.escape(text)}" for place, text in notes.items())
    return Shown(table.markup + (f'<p class="notes">{below}</p>' if below else ""), table.text)


def printed_figures(found: pd.DataFrame, name: str, caption: str) -> Shown:
    """Show published numbers that stand outside tables, each linked to the page that reproduces it.

    Parameters
    ----------
    found : DataFrame
        Rows of `reefcore.published.values`; ``printed`` may be other words that say what the number is.
    name, caption : see `reefcore.figures.style.show`
    """
    cells = []
    for row in found.itertuples():
        text = str(row.value)
        if isinstance(row.value, float):
            text = published.SIGNS[row.qualifier] + as_printed(row.value, row.step).text
        cells.append(_cell(row.place, text, False))
    names = [Shown(re.sub("[/_]", r"\g<0><wbr>", html.escape(place)), place, True) for place in found["place"]]
    shown = pd.DataFrame({"name": names, "value": cells, "unit": found["unit"].array, "where": found["section"].array})
    if not found["printed"].str.fullmatch(r"[\d.,~]+").all():
        shown["in words"] = [_plain(text) for text in found["printed"]]
    return show_table(shown, name, caption, published.NOTICE, data=found)
