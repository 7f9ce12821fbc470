"""Tables that people open in a spreadsheet: no text runs as a formula there, and numbers stay numbers."""

from __future__ import annotations

import re

import pandas as pd

#: How text begins that a spreadsheet would run, in East Asian width too; a number may have its sign.
FORMULA = re.compile(r"[=@\t\r\n＝＠＋－]|[+-](?!\d*\.?\d+(?:[eE][+-]?\d+)?%?\Z)")

#: Of these, what calls something or reaches out of its sheet; ``-`` and ``=1+1`` do neither.
CALLS = re.compile(r"[=@+\-\t\r\n＝＠＋－].*[(!|]", re.DOTALL)


def inert(table: pd.DataFrame, returns: bool = False, runs: re.Pattern = FORMULA) -> pd.DataFrame:
    """Put an apostrophe before text, of cells and of heads, that a spreadsheet would take for a formula.

    Parameters
    ----------
    table : DataFrame
        Its columns of numbers, dates and truth values stay as they are.
    returns : bool
        Whether a reader will take one apostrophe off again: text that begins with one then gets another.
    runs : re.Pattern
        What is taken for a formula; `CALLS` where all other cells must stay as another program wants them.
    """

    def safe(value):
        text = "" if isinstance(value, int | float) else str(value)
        return f"'{text}" if runs.match(text) or (returns and text.startswith("'")) else value

    table = table.copy(deep=False)
    for place, kind in enumerate(table.dtypes):
        if pd.api.types.is_object_dtype(kind) or isinstance(kind, pd.StringDtype | pd.CategoricalDtype):
            table.isetitem(place, table.iloc[:, place].map(safe))
    return table.set_axis([safe(name) for name in table], axis=1)


def csv(table: pd.DataFrame) -> str:
    """Return the CSV of a table for people: every digit of its numbers, and nothing that runs."""
    return inert(table).to_csv(index=False, lineterminator="\n")
