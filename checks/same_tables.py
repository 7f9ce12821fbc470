"""Compare two builds: every file of their data folders, and every table of their executed chapters, as CSV.

``python checks/same_tables.py ONE OTHER`` says how many are the same and which are not; the exit code is 1 where any
differs in more than what was measured while it was made.
"""

import base64
import html
import io
import re
import sys
from pathlib import Path

import nbformat
import pandas as pd

from reefcore.files import sha256

MEASURED = re.compile(r"second|minute|hour|speed|frames/s|per s\b|ms\b|run time|memory|^time$|_at$", re.I)  # columns
LINES = re.compile(r"run time [\d.]+ s|\"(seconds|start|glance|sha256)\": .*")  # when and where a page was made
CHAPTERS = {"64_real_time"}  # what they show is how fast this machine is
BESIDE = {".keys", "locks", "done", "failed", "progress", "plan.json"}  # how it was made, not what


def data(top: Path) -> dict[str, Path]:
    """List the files that steps made: path below ``build`` -> file."""
    files = [path for path in sorted((top / "build").rglob("*")) if path.is_file()]
    names = {path.relative_to(top / "build"): path for path in files}
    return {str(name): path for name, path in names.items() if not BESIDE & {*name.parts}}


def pages(top: Path) -> dict[str, str]:
    """List the tables and figures of executed chapters that can be downloaded: chapter and name -> CSV."""
    found = {}
    for path in sorted((top / "book" / "chapters").glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            for output in cell.get("outputs", []):
                shown = output.get("data", {}).get("text/html", "")
                for name, coded in re.findall(r'download="([^"]+\.csv)" href="data:text/csv;base64,([^"]*)"', shown):
                    found[f"{path.stem}: {html.unescape(name)}"] = base64.b64decode(coded).decode()
    return found


def without_times(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out the columns that hold what was measured."""
    return table[[name for name in table if not MEASURED.search(str(name))]]


def _without_place(path: Path) -> str:
    """Read a page or a record without when, and in which folder, it was made."""
    top = str(path).partition("/build/")[0]
    return LINES.sub("", path.read_text(encoding="utf-8").replace(top, ""))


def same_file(one: Path, other: Path) -> str:
    """Say how alike two files are: "bytes", "values", or "" where they are not."""
    if sha256(one) == sha256(other):
        return "bytes"
    if one.suffix in (".html", ".ipynb", ".json", ".yaml"):
        return "values" if len({_without_place(path) for path in (one, other)}) == 1 else ""
    if one.suffix != ".parquet":
        return ""
    return "values" if without_times(pd.read_parquet(one)).equals(without_times(pd.read_parquet(other))) else ""


def same_text(name: str, one: str, other: str) -> str:
    """Say how alike two tables of a page are: "bytes", "values", "measured", or "" where they are not."""
    if one == other:
        return "bytes"
    if name.partition(":")[0] in CHAPTERS:
        return "measured"
    tables = [without_times(pd.read_csv(io.StringIO(text))) for text in (one, other)]
    return "values" if tables[0].equals(tables[1]) else ""


def compare(kind: str, one: dict, other: dict, same) -> int:
    """Compare what two builds have of a kind; print how many agree and what does not, and return how many do not."""
    alone = sorted(set(one) ^ set(other))
    how = {name: same(name, one[name], other[name]) for name in sorted(set(one) & set(other))}
    counts = pd.Series([*how.values()], dtype=object).value_counts()
    words = {
        "bytes": "to the last byte",
        "values": "but for times and folders",
        "measured": "of measured speed, not compared",
    }
    said = ", ".join(f"{counts[key]} {text}" for key, text in words.items() if key in counts)
    wrong = alone + [name for name, found in how.items() if not found]
    print(f"{kind}: {len(how)} in both builds: {said or 'none'}; {len(wrong)} differ.")
    for name in wrong:
        print(f"  {name}: {'in one build alone' if name in alone else 'differs'}")
    return len(wrong) + (not how)


def main(one: str, other: str) -> int:
    """Compare two folders."""
    tops = Path(one), Path(other)
    wrong = compare("Files of steps", *map(data, tops), lambda name, *files: same_file(*files))
    wrong += compare("Tables of chapters", *map(pages, tops), same_text)
    print("The two builds are not the same." if wrong else "The two builds have the same tables.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
