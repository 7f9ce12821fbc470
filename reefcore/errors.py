"""The one exception a user of reefcore meets, and the problems of a file as a report."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

SHOWN = 20  # problems printed in full; the others go to a file beside the input
COLUMNS = ["line", "column", "problem"]


class ReefcoreError(Exception):
    """Bad input, said in one sentence: what is wrong, where, and what to do.

    Parameters
    ----------
    what : str
        What is wrong, without a closing full stop.
    where : str or Path, optional
        The place: a file, ``file:line``, ``file:line: column``.
    do : str, optional
        What the user can do about it.
    """

    def __init__(self, what: str, where: str | Path | None = None, do: str | None = None):
        self.what, self.where, self.do = what, where, do
        text = what.rstrip(".")
        if where is not None:
            text = f"{where}: {text}"
        if do:
            text = f"{text}; {do.rstrip('.')}"
        super().__init__(text + ".")


def problems_table(rows=()) -> pd.DataFrame:
    """Make the table of problems that readers and checks return.

    Parameters
    ----------
    rows : iterable of (line, column, problem)
        ``line`` is the 1-based line of the file (``None`` where the problem has no line), ``column`` the name of the
        column (``""`` where it is about the row or the file), ``problem`` the sentence.
    """
    table = pd.DataFrame(list(rows), columns=COLUMNS)
    return table.astype({"line": "Int64", "column": "str", "problem": "str"})


def problems_text(problems: pd.DataFrame, file: str | Path, kept: int, total: int, folder: Path | None = None) -> str:
    """Say the problems of one file: the first 20 in full, the rest in a CSV beside, and how many rows were kept.

    Parameters
    ----------
    problems : DataFrame
        Columns ``line``, ``column``, ``problem`` (see `problems_table`).
    file : path
        The file they are about.
    kept, total : int
        Rows kept, of how many.
    folder : Path, optional
        Where the CSV with the rest is written; by default beside `file`, or in the current folder where the folder of
        `file` is read-only.

    Returns
    -------
    str
        Lines ``file:line: column: what is wrong`` and a closing line.
    """
    file = Path(file)
    lines = []
    for line, column, problem in problems.head(SHOWN).itertuples(index=False):
        place = f"{file}" if pd.isna(line) else f"{file}:{line}"
        lines.append(f"{place}: {column}: {problem}" if column else f"{place}: {problem}")
    if len(problems) > SHOWN:
        from reefcore import spreadsheets
        from reefcore.files import atomic, is_writable

        if folder is None:
            folder = file.parent if is_writable(file.parent) else Path.cwd()
        rest = Path(folder) / f"{file.name}.problems.csv"
        with atomic(rest) as temporary:
            spreadsheets.inert(problems.iloc[SHOWN:]).to_csv(temporary, index=False)
        lines.append(f"{file}: {len(problems) - SHOWN} more problems are listed in {rest}.")
    lines.append(f"{file}: {kept:,} of {total:,} rows kept.")
    return "\n".join(lines)
