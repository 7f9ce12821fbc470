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
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, Formatter, FuncFormatter, LogFormatterMathtext
from PIL import Image

from reefcore import spreadsheets
from reefcore.errors import ReefcoreError

# Okabe and Ito's palette: told apart with any colour vision, and in grey beside the markers, lines and hatches.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"
SKY, PINK, YELLOW = "#56B4E9", "#CC79A7", "#F0E442"
PALE, LINE = "#E8E8E8", "#BDBDBD"  # grids and grounds; what is drawn but not what is said
WATER, LAND, COAST = "#F4F9FC", "#D9D9D9", "#9FD2F2"
MINT, SAND, EARTH, STONE, DARK, FAINT, WHITE = (
    *("#8FD3B8", "#EFE3C2", "#C9B48A", "#B5B5B5"),
    *("#4D4D4D", "#D4D4D4", "#FFFFFF"),
)
#: Functional group -> colour and hatch; neighbours in this order differ in lightness or hatch, so also in grey
LOOKS = {
    "Hard coral": (RED, ""),
    "Soft coral": (PINK, ""),
    "Other invertebrate": (BLUE, ""),
    "Sponge": (YELLOW, ""),
    "Algae (fleshy)": (GREEN, ""),
    "Turf algae": (MINT, "--"),
    "Crustose coralline algae": (PINK, "///"),
    "Seagrass": (GREEN, "|||"),
    "Sand and sediment": (SAND, ""),
    "Rubble": (EARTH, "xx"),
    "Rock and bare substrate": (STONE, ""),
    "Dead coral": (DARK, ""),
    "Other": (SKY, "--"),
    "Not benthos": (WHITE, "///"),
    "Unclear": (FAINT, "///"),
    "(not identified)": (PALE, "xx"),
    "(not hard coral)": (PALE, ""),
}
#: Colours and hatches of other categories, in the order of their cover
FURTHER = [(c, h) for h in ("", "///", "--") for c in (BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW)]
MARKERS = ("o", "s", "^", "D")
HATCHES = ("", "///", "--", "xx", "|||", "\\\\\\")
TALL = 40  # rows from which a table scrolls inside itself
ROWS = 200  # of a table on a page; its file has all
#: Control characters, halves of letters, and marks that turn what follows them round.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: Inches: of a chart that a phone shows whole, and of one with panels, inside which a phone's reader scrolls.
NARROW, WIDE = 4.25, 7.2
SMALL = 8.5  # points, of the smallest letters: 9 pixels where a narrow chart fills a phone
FINE = 6.5  # of numbers in cells that are in the data too, and the notice
LARGE = 10.0  # points, of titles
BRIEF = 300  # letters of an alternative text
LEGIBLE = 8.8  # pixels that letters have at the least, before a figure scrolls inside itself
HEAVY = 150_000  # bytes of photographs, from which they are saved with less quality
RC = {
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": LARGE,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "svg.hashsalt": "reefcore",  # ids in the file are then the same each time
}


def canvas(
    width: float = NARROW, height: float = 3.0, columns: int = 1, rows: int = 1, **more
) -> tuple[Figure, list[Axes]]:
    """Make a figure with rows of axes in the house's style.

    Parameters
    ----------
    width, height : float
        Inches.
    columns, rows : int
        Axes side by side and above each other, sharing the vertical axis.
    **more
        For `Figure.subplots`, such as other heights of the rows.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        axes = figure.subplots(rows, columns, squeeze=False, **({"sharey": True} | more))
        for one in axes.flat:  # ticks are made later, when these settings are no longer in force
            one.tick_params(labelsize=SMALL)
    return figure, list(axes.flat)


def escaped(text: object) -> str:
    """Write text as HTML that shows it, on one line and letter by letter: what would turn it round, or is no letter, is
    a replacement character.
    """
    return html.escape(_UNSEEN.sub("\ufffd", " ".join(str(text).split())))


def key(figure: Figure, handles, labels=None, columns: int = 3) -> None:
    """Write the key above a figure, in as many columns (at most `columns`) as its width has room for."""
    labels = [handle.get_label() for handle in handles] if labels is None else list(labels)
    room = 72 * figure.get_figwidth() / (4.8 * max(map(len, labels), default=1) + 31)
    figure.legend(
        handles, labels, loc="outside upper center", ncols=max(1, min(columns, int(room))), fontsize=SMALL,
        frameon=False, columnspacing=1.2, handletextpad=0.5,
    )  # fmt: skip


def short(name: str, most: int = 24) -> str:
    """Cut a name that has one line beside an axis; the data behind the figure have it whole."""
    name = str(name)
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def _link(data: bytes, kind: str, name: str, text: str) -> str:
    encoded = base64.b64encode(data).decode()
    return f'<a download="{escaped(name)}" href="data:{kind};base64,{encoded}">{escaped(text)}</a>'


def _csv(data: pd.DataFrame, name: str) -> str:
    return _link(spreadsheets.csv(data).encode(errors="replace"), "text/csv", f"{name}.csv", "data as CSV")


def _minus(text: str) -> str:
    """Give negative numbers their minus sign, which screen readers say; hyphens within names stay."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _brief(text: str) -> str:
    """Cut a long alternative text at the end of one of its parts: a screen reader reads it in one go."""
    parts = re.split(r"(?<=[;.])(?<!\d\.) ", text)
    while len(parts) > 1 and (len(" ".join(parts)) > BRIEF or " ".join(parts).count("(") > " ".join(parts).count(")")):
        parts.pop()
    brief = " ".join(parts)
    return brief if brief == text else brief.rstrip(";.") + "; the rest is in the data."


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
        Photographs become JPEG of some 150 kB at most, everything else SVG.
    name : str
        Of the downloaded file, without ending.
    caption : str
    alt : str
        What the figure shows and its main number; a long one is cut after 300 letters, as the data have the rest.
    notice : str
        The profile's sentence, printed into the figure.
    data : DataFrame, optional
        What is drawn.

    Raises
    ------
    ReefcoreError
        Where caption or alt is empty, or both are the same.
    """
    if not caption.strip() or not alt.strip():
        raise ReefcoreError(f"the figure {name} has no caption or no alternative text", do="write both")
    if caption.strip() == alt.strip():
        raise ReefcoreError(
            f"caption and alternative text of the figure {name} are the same", do="say in one what is seen"
        )
    caption, alt = _minus(caption), _brief(_minus(alt))
    _letter_by_letter(figure)
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    for text in texts:
        text.set_fontsize(min(text.get_fontsize(), LARGE))
    for legend in figure.findobj(Legend):
        legend.set_frame_on(False)
    with matplotlib.rc_context(RC):  # texts that are made now are letters, too
        figure.draw_without_rendering()
        low = min(0, figure.get_tightbbox().y0)  # inches
        # Below the drawing: a watermark across it would hide data.
        words = textwrap.fill(notice, int(72 * figure.get_figwidth() / (0.56 * 7.5)))
        figure.text(0.995, (low - 0.04) / figure.get_figheight(), words, ha="right", va="top", fontsize=7.5, color=GREY)
        kind, content, width, height = (_photograph if any(a.images for a in figure.axes) else _drawing)(figure)
    encoded = base64.b64encode(content).decode()
    least = width * LEGIBLE / (min((text.get_fontsize() for text in texts), default=SMALL) * 4 / 3)
    links = f" {_csv(data, name)}" if data is not None else ""
    return Shown(
        f'<figure class="reef" id="{escaped(name)}">'
        f'<img alt="{escaped(alt)}" src="data:{kind};base64,{encoded}" width="{width:.0f}" height="{height:.0f}" '
        f'style="--wide: {width:.0f}px; --least: {least:.0f}px">'
        f"<figcaption>{escaped(caption)} <em>{escaped(notice)}</em>{links}</figcaption></figure>",
        f"[figure {name}: {alt}]",
    )


class _Letters(Formatter):
    """Labels the ticks as `before` does: with plain numbers where it has formulas, and no name of endless length."""

    def __init__(self, before: Formatter):
        self.before = before

    def __call__(self, value: float, position: int | None = None) -> str:
        text = self.before(value, position)
        if isinstance(self.before, LogFormatterMathtext):
            return f"{value:,.10g}" if text else ""
        return "\n".join(textwrap.shorten(line, 60, placeholder=" …") for line in _cut(str(text)).split("\n"))

    def set_locs(self, locs) -> None:
        self.before.set_locs(locs)


def _cut(text: str) -> str:
    """Cut words that are longer than any name, and drop what is no letter."""
    return re.sub(r"(\S{31})\S{2,}", r"\1…", "\n".join(_UNSEEN.sub("", line) for line in text.split("\n")))


def _letter_by_letter(figure: Figure) -> None:
    """Let no text be read as a formula, which a label such as ``$x^2_$`` would be or fail to be, nor fill a page."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        for kind in ("major", "minor"):
            if isinstance(
                formatter := getattr(axis, f"get_{kind}_formatter")(),
                LogFormatterMathtext | FixedFormatter | FuncFormatter,
            ):
                getattr(axis, f"set_{kind}_formatter")(_Letters(formatter))
    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_text(_cut(text.get_text()))


def _photograph(figure: Figure) -> tuple[str, bytes, float, float]:
    """Save as JPEG, of less quality and then smaller where it is heavy; and give its size in CSS pixels."""
    stream = io.BytesIO()
    figure.savefig(
        stream, format="png", dpi=192, bbox_inches="tight", pad_inches=0.04, pil_kwargs={"compress_level": 1}
    )
    with Image.open(stream) as opened:
        picture = opened.convert("RGB")
    width, height = picture.width / 2, picture.height / 2  # 192 dots to the 96 pixels of an inch
    for quality, share in ((82, 1.0), (72, 1.0), (72, 0.8), (64, 0.7), (55, 0.6)):
        stream = io.BytesIO()
        small = picture.resize((round(share * picture.width), round(share * picture.height)), Image.Resampling.LANCZOS)
        (small if share < 1 else picture).save(stream, "jpeg", quality=quality, optimize=True, progressive=True)
        if stream.tell() <= HEAVY:
            break
    return "image/jpeg", stream.getvalue(), width, height


def _drawing(figure: Figure) -> tuple[str, bytes, float, float]:
    """Save as SVG, and give its size in CSS pixels."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", dpi=192, bbox_inches="tight", pad_inches=0.04, metadata={"Date": None})
    text = slim(stream.getvalue())
    width, height = (
        4 / 3 * float(re.search(rf'<svg [^>]*?{side}="([\d.]+)pt"', text)[1]) for side in ("width", "height")
    )
    return "image/svg+xml", text.encode(), width, height


def slim(svg: str) -> str:
    """Write a drawing of matplotlib's in less than half of its bytes; it looks the same.

    Letters stay outlines, so that they look alike on every machine; their places, which are most of the file, are
    written short. Ids that nothing refers to, comments and blanks go, and places keep a hundredth of a point.
    """
    svg = re.sub(r"<!--.*?-->|<!DOCTYPE.*?>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<use xlink:href="#([\w-]+)" transform="translate\(([-\d.]+)[ ,]([-\d.]+)\)"\s*/>', _letter, svg)
    svg = svg.replace('xlink:href="#', 'href="#').replace("DejaVuSans-", "d")
    used = set(re.findall(r'#([\w-]+)[")]', svg))
    svg = re.sub(r' id="([\w-]+)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r'(?<= d=")[^"]+|(?<=translate\()[^)]+', lambda found: _short(found[0]), svg)
    svg = re.sub(r'(?<=style=")[^"]+', lambda found: found[0].replace(": ", ":").replace("; ", ";"), svg)
    return re.sub(r">\s+<", "><", svg)


def _short(places: str) -> str:
    """Round the numbers of a path, and take its needless blanks away."""
    places = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), places)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(places.split()))


def _letter(found: re.Match) -> str:
    x, y = (round(float(found[group])) for group in (2, 3))  # a hundredth of the letters' size
    return f'<use href="#{found[1]}"' + f' x="{x}"' * (x != 0) + f' y="{y}"' * (y != 0) + "/>"


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
    if spec == "p":
        return f"{value:.3f}" if value >= 0.0005 else "< 0.001"
    sign = "+" if spec == "+" else ""
    whole = abs(value) >= 1000 or float(value).is_integer()
    automatic = f"{sign},.0f" if whole else f"{sign}.1f"
    text = format(value, automatic if spec in (None, "+") else spec).replace("-", "−")
    return text if re.search("[1-9]", text) else text.lstrip("+−")  # nothing has no sign


def _head(column) -> str:
    """Write the name of a column of the library as a person would; names with anything but small letters stay."""
    name = {"ci_low": "low", "ci_high": "high"}.get(str(column), str(column))
    return name.replace("_", " ").replace(" f1", " F1") if re.fullmatch("[a-z0-9_]+", name) else name


def _behind(text: str) -> Counter:
    """Count the signs behind the whole part of a number, digits as one sign: what decides where its point stands."""
    return Counter(re.sub(r"\d", "0", re.sub(r"^\D*[\d,]*", "", text)))


_PRINTED = re.compile(r"unknown|[+−-]?\d[\d,.]*( ?%)?")  # a published number as it is printed


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


def _words(values: pd.Series, spec: str | None, first: bool) -> tuple[str, list[str]]:
    """Give the cells of a column of words, and the class of its head; the first column says what each row is of."""
    texts = [_cell(value, spec) for value in values]
    kinds = [_wraps(text) for text in texts]
    head = " class=long" * (
        first and " class=long" in kinds
    )  # sentences do not stay in sight, and none of their column
    start, end = ('th scope="row"', "th") if first else ("td", "td")
    cells = [
        f"<{start}{head or kind}>{value.markup if isinstance(value, Shown) else escaped(text)}</{end}>"
        for value, text, kind in zip(values, texts, kinds, strict=True)
    ]
    return head, cells


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
        numbers have thousands separators and no decimals, others one decimal; ``"+"`` is the same with a sign; ``"p"``
        is for p values.
    data : DataFrame, optional
        What the link gives, where the page shows only a part of it; by default the table.
    foot : int
        That many last rows are no entries, and stay last when a reader sorts.
    best : dict, optional
        Column of numbers -> ``highest`` or ``lowest``: its best is marked, and its second best; ``highest per test``:
        those of each value of the column ``test``.
    """
    formats, best, data = formats or {}, best or {}, table if data is None else data
    entries, kept = len(table) - foot, min(ROWS, len(table) - foot)
    if kept < entries:
        caption = f"{caption} The first {kept:,} of {entries:,} rows are shown here; the data have all."
    rows = pd.concat([table.iloc[:kept], table.iloc[entries:]]) if kept < entries else table
    head, body = [], []
    for place, column in enumerate(table):
        values = rows.iloc[:, place]
        number = (pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)) or (
            len(values) > 0 and all(isinstance(value, Shown) and not value.words for value in values)
        )
        number |= column == "published" and all(_PRINTED.fullmatch(str(value)) for value in values)
        spec, kind = formats.get(column), " class=number" * number
        if number:
            rank = pd.Series(0.0, index=range(len(rows)))
            if column in best:
                way, _, alike = best[column].partition(" per ")
                entry = pd.Series(table.iloc[:entries, place].to_numpy(float))
                entry = entry.groupby(table[alike].iloc[:entries].astype(str).to_numpy() if alike else [0] * entries)
                order = entry.rank(ascending=way == "lowest", method="dense")
                several = entry.transform("nunique") > 1  # of equals none is the best
                rank = rank.add((order * several)[:kept], fill_value=0)
            body.append([f"<td{kind}>{cell}</td>" for cell in _numbers(values, spec, rank)])
        else:
            kind, cells = _words(values, spec, place == 0)
            body.append(cells)
        title = "this profile" if column == "value" and "published" in table else _head(column)
        head.append(f'<th scope="col"{kind}>{escaped(title)}</th>')
    lines = [f"<tr>{''.join(cells)}</tr>" for cells in zip(*body, strict=True)]
    last = f"<tfoot>{''.join(lines[kept:])}</tfoot>" if foot else ""
    caption, label = _minus(caption), textwrap.shorten(_minus(caption), 90, placeholder=" …")
    kinds = [" class=published" * ("published" in str(column).split()) for column in table]
    columns = f"<colgroup>{''.join(f'<col{kind}>' for kind in kinds)}</colgroup>" if any(kinds) else ""
    return Shown(
        f'<div class="reef-table{" tall" * (len(rows) >= TALL)}" id="{escaped(name)}" role="region" tabindex="0" '
        f'aria-label="{escaped(label)}"><table>'
        f"<caption>{escaped(caption)} <em>{escaped(notice)}</em> {_csv(data, name)}</caption>"
        f"{columns}<thead><tr>{''.join(head)}</tr></thead>"
        f"<tbody>{''.join(lines[:kept])}</tbody>{last}</table></div>",
        f"[table {name}: {entries} rows]",
    )
