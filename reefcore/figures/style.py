"""One look for every figure and table: safe for colour-blind readers, naming its profile, with its data attached."""

from __future__ import annotations

import base64
import html
import io
import re
import textwrap
from collections import Counter
from dataclasses import dataclass

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reefcore import spreadsheets
from reefcore.errors import ReefcoreError

# Okabe and Ito's palette: told apart with any colour vision, and in grey.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"
MARKERS = ("o", "s", "^", "D")
TALL = 40  # rows from which a table scrolls inside itself
ROWS = 200  # of a table on a page; its file has all
#: Control characters, halves of letters, and marks that turn what follows them round.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
RC = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.hashsalt": "reefcore",  # ids in the file are then the same each time
}


def canvas(width: float = 7.0, height: float = 4.0, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Make a figure with rows of axes in the house's style.

    Parameters
    ----------
    width, height : float
        Inches.
    columns, rows : int
        Axes side by side and above each other, sharing the vertical axis.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        axes = figure.subplots(rows, columns, sharey=True, squeeze=False)
    return figure, list(axes.flat)


def escaped(text: object) -> str:
    """Write text as HTML that shows it, on one line and letter by letter: what would turn it round, or is no letter, is
    a replacement character.
    """
    return html.escape(_UNSEEN.sub("\ufffd", " ".join(str(text).split())))


def _link(data: bytes, kind: str, name: str, text: str) -> str:
    encoded = base64.b64encode(data).decode()
    return f'<a download="{escaped(name)}" href="data:{kind};base64,{encoded}">{escaped(text)}</a>'


def _csv(data: pd.DataFrame, name: str) -> str:
    return _link(spreadsheets.csv(data).encode(errors="replace"), "text/csv", f"{name}.csv", "data as CSV")


def _minus(text: str) -> str:
    """Give negative numbers their minus sign, which screen readers say; hyphens within names stay."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _wraps(text: str) -> str:
    """Give the class of a cell that may wrap: long text, and names of models, which have no blanks to wrap at."""
    if len(text) > 20 and " " not in text:
        return " class=name"
    return " class=long" if len(text) > 40 else ""


def marked(markup: str, place: float) -> str:
    """Mark the best number of several bold and the second best underlined, and say so to a screen reader."""
    tag, said = {1: ("strong", "best"), 2: ("u", "second best")}.get(place, ("", ""))
    return f'<{tag}>{markup}</{tag}><span class="visually-hidden"> {said}</span>' if tag else markup


@dataclass(frozen=True)
class Shown:
    """HTML that a notebook displays; the text version says what it is."""

    markup: str
    text: str
    words: bool = False  # in a cell of a table: words stand on the left, numbers on the right
    lines: tuple[tuple[str, str], ...] = ()  # of a cell with several numbers: markup and text of each

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.markup


def show(figure: Figure, name: str, caption: str, alt: str, notice: str, data: pd.DataFrame | None = None) -> Shown:
    """Show a figure with its caption, its text for those who cannot see it, and its data.

    Parameters
    ----------
    figure : Figure
        Photographs become JPEG, everything else SVG.
    name : str
        Of the downloaded file, without ending.
    caption : str
    alt : str
        What the figure shows and its main number.
    notice : str
        The profile's sentence, printed into the figure.
    data : DataFrame, optional
        What is drawn.

    Raises
    ------
    ReefcoreError
        Where caption or alt is empty.
    """
    if not caption.strip() or not alt.strip():
        raise ReefcoreError(f"the figure {name} has no caption or no alternative text", do="write both")
    caption, alt = _minus(caption), _minus(alt)
    photographs = any(axes.images for axes in figure.axes)
    # Below the drawing: a watermark across it would hide data.
    figure.text(0.995, -0.012, notice, ha="right", va="top", fontsize=7, color=GREY)
    stream = io.BytesIO()
    with matplotlib.rc_context(RC):
        if photographs:
            figure.savefig(
                stream, format="jpeg", dpi=130, bbox_inches="tight", pil_kwargs={"quality": 82, "optimize": True}
            )
        else:
            figure.savefig(stream, format="svg", bbox_inches="tight", metadata={"Date": None})
    kind = "image/jpeg" if photographs else "image/svg+xml"
    encoded = base64.b64encode(stream.getvalue()).decode()
    links = f" {_csv(data, name)}" if data is not None else ""
    return Shown(
        f'<figure class="reef" id="{escaped(name)}">'
        f'<img alt="{escaped(alt)}" src="data:{kind};base64,{encoded}">'
        f"<figcaption>{escaped(caption)} <em>{escaped(notice)}</em>{links}</figcaption></figure>",
        f"[figure {name}: {alt}]",
    )


def download(text: str, name: str, label: str) -> Shown:
    """Offer a text file to the reader, such as a citation file; `name` is the file's, `label` what the link says."""
    return Shown(
        f'<p class="download">{_link(text.encode(), "text/plain", name, label)}</p>', f"[file {name}: {label}]"
    )


def _cell(value, spec: str | None) -> str:
    """Write a value of a table for people, as text."""
    if isinstance(value, Shown):
        return value.text
    if not pd.api.types.is_scalar(value):
        return str(value)
    if pd.isna(value):
        return "–"
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if not pd.api.types.is_number(value):
        return str(value).removesuffix(" 00:00:00")
    sign = "+" if spec == "+" else ""
    whole = abs(value) >= 1000 or float(value).is_integer()
    automatic = f"{sign},.0f" if whole else f"{sign}.1f"
    return format(value, automatic if spec in (None, "+") else spec).replace("-", "−")


def _head(column) -> str:
    """Write the name of a column of the library as a person would; names with anything but small letters stay."""
    name = {"ci_low": "low", "ci_high": "high"}.get(str(column), str(column))
    return name.replace("_", " ") if re.fullmatch("[a-z0-9_]+", name) else name


def _behind(text: str) -> Counter:
    """Count the signs behind the whole part of a number, digits as one sign: what decides where its point stands."""
    return Counter(re.sub(r"\d", "0", re.sub(r"^\D*[\d,]*", "", text)))


def _numbers(values: pd.Series, spec: str | None, place: pd.Series) -> list[str]:
    """Write the cells of a column of numbers so that their points stand below each other.

    Behind each number comes what it lacks of the widest one, as an attribute that tables.css makes room for: the text
    stays the number. `place` is the rank of each value where the best is to be marked.
    """
    cells = []
    for value, rank in zip(values, place, strict=True):
        text = _cell(value, spec)
        one = (value.markup, text) if isinstance(value, Shown) else (marked(escaped(text), rank), text)
        cells.append(value.lines if isinstance(value, Shown) and value.lines else (one,))
    room = Counter()
    for cell in cells:
        for _, text in cell:
            room |= _behind(text)

    def line(markup: str, text: str) -> str:
        lacks = "".join((room - _behind(text)).elements()).replace(" ", "\xa0") if re.search(r"\d|^–$", text) else ""
        return markup + (f'<span data-room="{html.escape(lacks)}"></span>' if lacks else "")

    # The line end keeps the numbers apart where only the text is read.
    return ["\n<br>".join(line(*one) for one in cell) for cell in cells]


def show_table(
    table: pd.DataFrame,
    name: str,
    caption: str,
    notice: str,
    formats: dict | None = None,
    data: pd.DataFrame | None = None,
    foot: int = 0,
    best: dict[str, str] | None = None,
) -> Shown:
    """Show a table with its caption and its data.

    Parameters
    ----------
    table : DataFrame
        Its column names are the printed ones. A cell may be a `Shown`, as those of `results_table` are. Of more than
        `ROWS` rows the first are shown, and the caption says so.
    name, caption, notice : see `show`
    formats : dict, optional
        Column -> format specification of its numbers, such as ``{"recall": ".1%"}``. Without one, whole and large
        numbers have thousands separators and no decimals, others one decimal; ``"+"`` is the same with a sign.
    data : DataFrame, optional
        What the link gives, where the page shows only a part of it; by default the table.
    foot : int
        That many last rows are no entries, and stay last when a reader sorts.
    best : dict, optional
        Column of numbers -> ``highest`` or ``lowest``: its best is marked, and its second best.
    """
    formats, best, data = formats or {}, best or {}, table if data is None else data
    entries, kept = len(table) - foot, min(ROWS, len(table) - foot)
    if kept < entries:
        caption = f"{caption} The first {kept:,} of {entries:,} rows are shown here; the data have all."
    rows = pd.concat([table.iloc[:kept], table.iloc[entries:]]) if kept < entries else table
    head, body = [], []
    for place, column in enumerate(table):
        values = rows.iloc[:, place]
        number = (pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)) or all(
            isinstance(value, Shown) and not value.words for value in values
        )
        head.append(f'<th scope="col"{" class=number" if number else ""}>{escaped(_head(column))}</th>')
        tag = "td" if place or number else 'th scope="row"'  # what a row is of
        if number:
            rank = pd.Series(0.0, index=range(len(rows)))
            if column in best:
                entry = pd.Series(table.iloc[:entries, place].to_numpy(float))
                order = entry.rank(ascending=best[column] == "lowest", method="dense")
                rank = rank.add(order[:kept] * (order.max() > 1), fill_value=0)  # of equals none is the best
            body.append([f"<td class=number>{cell}</td>" for cell in _numbers(values, formats.get(column), rank)])
        else:
            body.append(
                [
                    f"<{tag}{_wraps(text)}>{value.markup if isinstance(value, Shown) else escaped(text)}</{tag[:2]}>"
                    for value, text in ((value, _cell(value, formats.get(column))) for value in values)
                ]
            )
    lines = [f"<tr>{''.join(cells)}</tr>" for cells in zip(*body, strict=True)]
    last = f"<tfoot>{''.join(lines[kept:])}</tfoot>" if foot else ""
    caption, label = _minus(caption), textwrap.shorten(_minus(caption), 90, placeholder=" …")
    kinds = [" class=published" * ("published" in str(column).split()) for column in table]
    columns = f"<colgroup>{''.join(f'<col{kind}>' for kind in kinds)}</colgroup>" if any(kinds) else ""
    return Shown(
        f'<div class="reef-table{" tall" * (len(rows) > TALL)}" id="{escaped(name)}" role="region" tabindex="0" '
        f'aria-label="{escaped(label)}"><table>'
        f"<caption>{escaped(caption)} <em>{escaped(notice)}</em> {_csv(data, name)}</caption>"
        f"{columns}<thead><tr>{''.join(head)}</tr></thead>"
        f"<tbody>{''.join(lines[:kept])}</tbody>{last}</table></div>",
        f"[table {name}: {entries} rows]",
    )
