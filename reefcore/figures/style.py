"""One look for every figure and table: safe for colour-blind readers, naming its profile, with its data attached."""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import dataclass

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reefcore.errors import ReefcoreError

# Okabe and Ito's palette: told apart with any colour vision, and in grey.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"
MARKERS = ("o", "s", "^", "D")
TALL = 40  # rows from which a table scrolls inside itself
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


def _link(data: bytes, kind: str, name: str, text: str) -> str:
    encoded = base64.b64encode(data).decode()
    return f'<a download="{html.escape(name)}" href="data:{kind};base64,{encoded}">{html.escape(text)}</a>'


def _csv(data: pd.DataFrame, name: str) -> str:
    return _link(data.to_csv(index=False).encode(), "text/csv", f"{name}.csv", "data as CSV")


def _minus(text: str) -> str:
    """Give negative numbers their minus sign, which screen readers say; hyphens within names stay."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _wraps(text: str) -> str:
    """Give the class of a cell that may wrap: long text, and names of models, which have no blanks to wrap at."""
    if len(text) > 20 and " " not in text:
        return " class=name"
    return " class=long" if len(text) > 40 else ""


@dataclass(frozen=True)
class Shown:
    """HTML that a notebook displays; the text version says what it is."""

    markup: str
    text: str
    words: bool = False  # in a cell of a table: words stand on the left, numbers on the right

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
        f'<figure class="reef" id="{html.escape(name)}">'
        f'<img alt="{html.escape(alt)}" src="data:{kind};base64,{encoded}">'
        f"<figcaption>{html.escape(caption)} <em>{html.escape(notice)}</em>{links}</figcaption></figure>",
        f"[figure {name}: {alt}]",
    )


def download(text: str, name: str, label: str) -> Shown:
    """Offer a text file to the reader, such as a citation file; `name` is the file's, `label` what the link says."""
    return Shown(
        f'<p class="download">{_link(text.encode(), "text/plain", name, label)}</p>', f"[file {name}: {label}]"
    )


def show_table(
    table: pd.DataFrame,
    name: str,
    caption: str,
    notice: str,
    formats: dict | None = None,
    data: pd.DataFrame | None = None,
    foot: int = 0,
) -> Shown:
    """Show a table with its caption and its data.

    Parameters
    ----------
    table : DataFrame
        Its column names are the printed ones. A cell may be a `Shown`, as those of `results_table` are.
    name, caption, notice : see `show`
    formats : dict, optional
        Column -> format specification of its numbers, such as ``{"recall": ".1%"}``. Without one, whole and large
        numbers have thousands separators and no decimals, others one decimal; ``"+"`` is the same with a sign.
    data : DataFrame, optional
        What the link gives, where the page shows only a part of it; by default the table.
    foot : int
        That many last rows are no entries, and stay last when a reader sorts.
    """
    formats, data, caption = formats or {}, table if data is None else data, _minus(caption)

    def cell(value, spec):
        if isinstance(value, Shown):
            return value.markup
        if pd.isna(value):
            return "–"
        if isinstance(value, str | bool):
            return html.escape(str(value))
        sign = "+" if spec == "+" else ""
        whole = abs(value) >= 1000 or float(value).is_integer()
        automatic = f"{sign},.0f" if whole else f"{sign}.1f"
        return format(value, automatic if spec in (None, "+") else spec).replace("-", "−")

    numeric = [
        pd.api.types.is_numeric_dtype(table[column])
        or all(isinstance(value, Shown) and not value.words for value in table[column])
        for column in table
    ]
    head = "".join(
        f'<th scope="col"{" class=number" if number else ""}>{html.escape(str(column))}</th>'
        for column, number in zip(table, numeric, strict=True)
    )
    rows = [
        "<tr>"
        + "".join(
            f"<td{' class=number' if number else _wraps(str(v))}>{cell(v, formats.get(c))}</td>"
            for v, c, number in zip(row, table.columns, numeric, strict=True)
        )
        + "</tr>"
        for row in table.itertuples(index=False)
    ]
    entries = len(rows) - foot
    body, last = "".join(rows[:entries]), f"<tfoot>{''.join(rows[entries:])}</tfoot>" if foot else ""
    return Shown(
        f'<div class="reef-table{" tall" * (len(table) > TALL)}" id="{html.escape(name)}" role="region" tabindex="0" '
        f'aria-label="{html.escape(caption)}"><table>'
        f"<caption>{html.escape(caption)} <em>{html.escape(notice)}</em> {_csv(data, name)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{last}</table></div>",
        f"[table {name}: {entries} rows]",
    )
