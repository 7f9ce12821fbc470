"""Tables and figures of trained models: published beside reproduced, orders, and differences with their intervals."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reefcore.figures.style import (
    BLUE,
    GREEN,
    GREY,
    LINE,
    MARKERS,
    NARROW,
    ORANGE,
    PALE,
    RC,
    RED,
    SMALL,
    Shown,
    canvas,
    key,
    marked,
)

DIVERGING = LinearSegmentedColormap.from_list("orange-blue", [ORANGE, "white", BLUE])


def _line(what: str, value: float, spec: str, place: float = 0, interval: str = "") -> tuple[str, str]:
    """Write one of the numbers of a cell, as markup that says to a screen reader which it is, and as text."""
    text = "–" if np.isnan(value) else format(value, spec).replace("-", "−")
    kind = what.split()[0]
    said = f'<span class="visually-hidden">{what} </span>{marked(text, place)}{interval if text != "–" else ""}'
    return f'<span class="of-{kind}">{said}</span>', text + (interval if text != "–" else "")


def _lines(lines: list[tuple[str, str]]) -> Shown:
    """Make a cell of several numbers, one below the other."""
    return Shown(
        "\n<br>".join(markup for markup, _ in lines), " | ".join(text for _, text in lines), False, tuple(lines)
    )


def results_table(table: pd.DataFrame, sets: pd.DataFrame) -> pd.DataFrame:
    """Arrange a table of the paper for `show_table`: models by settings, three lines to a cell.

    The lines, named in the second column, are the published number, the reproduced one with its interval, and their
    difference; percent. The best of a column is bold and the second best underlined, as in the paper, among the
    published and among the reproduced.

    Parameters
    ----------
    table : DataFrame
        From `reefcore.comparison.beside`.
    sets : DataFrame
        From `reefcore.comparison.test_sets`: the two last rows.
    """
    single = table["metric"].nunique() == 1
    table = table.assign(column=table["setting"] if single else table["metric"].str.replace("_", " "))
    by = table.groupby("column", sort=False)
    # One model alone is not the best of anything.
    best = {
        n: by[n].rank(ascending=False, method="dense") * (by[n].transform("count") > 1) for n in ("published", "value")
    }
    cells = []
    for at, row in enumerate(table.itertuples()):
        lines = [_line("published", 100 * row.published, ".2f", best["published"].iat[at])]
        sure = not np.isnan(row.ci_low)  # one photo gives no interval
        interval = f" [{100 * row.ci_low:.1f}, {100 * row.ci_high:.1f}]" if sure else ""
        lines.append(_line("this profile", 100 * row.value, ".1f", best["value"].iat[at], interval))
        if not np.isnan(row.value - row.published):
            lines.append(_line("difference", 100 * row.difference, "+.1f"))
        cells.append(_lines(lines))
    shown = table.assign(cell=cells).pivot(index="model", columns="column", values="cell")
    shown = shown.reindex(index=table["model"].unique(), columns=table["column"].unique())
    shown = shown.map(lambda cell: cell if isinstance(cell, Shown) else Shown("–", "–"))
    of = by["setting"].first()
    sets = sets.set_index("setting")
    for name in ("classes", "points"):
        pairs = [(sets.at[of[c], f"{name}, published"], sets.at[of[c], f"{name}, here"]) for c in shown]
        texts = [_lines([_line("published", a, ",.0f"), _line("this profile", b, ",.0f")]) for a, b in pairs]
        shown.loc[f"Number of test {name}"] = texts
    lines = [max(len(cell.lines) for cell in row) for row in shown.to_numpy()]
    names = [("published", "this profile", "difference")[:number] for number in lines]
    shown.insert(0, "number", [Shown("\n<br>".join(some), " | ".join(some), words=True) for some in names])
    return shown.rename_axis(index=None, columns=None).reset_index(names="model")


def matrices(
    panels: dict[str, pd.DataFrame],
    label: str,
    spec: str = ".2f",
    limit: float | None = None,
    marks: pd.DataFrame | None = None,
) -> Figure:
    """Draw matrices side by side, with their numbers in the cells.

    Parameters
    ----------
    panels : dict
        Title -> numbers with the same rows; the colours are white at zero.
    label : str
        What the numbers are.
    spec : str
        Format of a number.
    limit : float, optional
        Number of the full colour; by default the largest.
    marks : DataFrame of bool, optional
        Like the panels: numbers that get a star.
    """
    first = next(iter(panels.values()))
    columns = sum(panel.shape[1] for panel in panels.values())
    limit = limit or max(float(np.nanmax(np.abs(panel.to_numpy()))) for panel in panels.values()) or 1.0
    heads = {title: [str(name).replace(" / ", " /\n") for name in panel] for title, panel in panels.items()}
    longest = max(len(line) for names in heads.values() for name in names for line in name.split("\n"))
    cell = 0.5 if columns > 4 else 0.75
    turned = 90 if longest * 0.068 > cell else 0
    figure, all_axes = canvas(
        1.9 + cell * columns, 1.2 + 0.06 * longest * (turned > 0) + 0.34 * len(first), len(panels)
    )
    for axes, (title, panel) in zip(all_axes, panels.items(), strict=True):
        drawn = axes.pcolormesh(panel.to_numpy(float), cmap=DIVERGING, vmin=-limit, vmax=limit, ec="white", lw=0.5)
        for (y, x), value in np.ndenumerate(panel.to_numpy(float)):
            if np.isnan(value):
                continue
            star = "*" if marks is not None and marks.iat[y, x] else ""
            colour = "white" if value > 0.85 * limit else "black"
            text = format(value, spec).replace("-", "−") + star
            axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=SMALL, color=colour)
        axes.set(title=title, xticks=np.arange(panel.shape[1]) + 0.5, yticks=np.arange(len(panel)) + 0.5)
        axes.set_xticklabels(
            [str(name).replace(" / ", " /\n") for name in panel.columns], rotation=turned, fontsize=SMALL
        )
        axes.set_yticklabels(panel.index, fontsize=SMALL)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    all_axes[0].invert_yaxis()
    bar = figure.colorbar(drawn, ax=all_axes, label=label, shrink=0.8)
    if not any((panel.to_numpy(float) < 0).any() for panel in panels.values()):
        bar.ax.set_ylim(0, limit)  # shares know no negative numbers
    return figure


def forest(table: pd.DataFrame, panel: str, label: str, title: str, differences: bool = True) -> Figure:
    """Draw numbers with their intervals, one panel per group, beside the published ones.

    Parameters
    ----------
    table : DataFrame
        `panel`, `label`, ``value``, ``ci_low``, ``ci_high``, and ``published`` where there is one; fractions.
    panel, label : str
        Columns: of the panels, of the lines.
    title : str
        What the numbers are, under the axes.
    differences : bool
        Whether they are differences: zero is drawn, and a marker is filled where ``apart`` is true.
    """
    labels = list(dict.fromkeys(table[label]))
    groups = list(table.groupby(panel, sort=False))
    rows_of_panels = 1 if len(groups) <= 3 else 2  # more in a row are too small to read on a page
    columns = -(-len(groups) // rows_of_panels)
    height = 0.8 + rows_of_panels * (0.6 + 0.34 * len(labels))
    names = [textwrap.fill(str(name), 22) for name in labels]
    room = 0.5 + 0.068 * max(len(line) for name in names for line in name.split("\n"))  # inches that the names take
    figure, all_axes = canvas(max(NARROW, room + 1.45 * columns), height, columns, rows_of_panels)
    for axes in all_axes[len(groups) :]:
        axes.remove()
    all_axes = all_axes[: len(groups)]
    kinds = [(True, BLUE, "told apart from zero"), (False, "white", "not told apart")]
    mark = {"ms": 5, "clip_on": False, "zorder": 3, "in_layout": False}  # one at the end of the scale stays whole
    for axes, (name, rows) in zip(all_axes, groups, strict=True):
        y = rows[label].map(labels.index).to_numpy(float)
        # A percentile interval of a biased metric need not contain its value: the line is drawn where the interval is.
        axes.hlines(y, 100 * rows["ci_low"], 100 * rows["ci_high"], color=BLUE, lw=1.5)
        for apart, face, text in kinds if differences else [(True, BLUE, "this profile")]:
            part = rows["apart"].to_numpy(bool) == apart if differences else rows["value"].notna().to_numpy()
            axes.plot(100 * rows["value"][part], y[part], MARKERS[0], label=text, color=BLUE, mfc=face, **mark)
        if "published" in rows:
            axes.plot(100 * rows["published"], y + 0.28, MARKERS[3], color=GREY, mfc="white", label="published", **mark)
        if differences:
            axes.axvline(0, color=GREY, lw=0.8, zorder=0)
        else:
            axes.set_xlim(100 * min(0, rows[["value", "ci_low"]].min(axis=None)), 100)  # kappa may be below 0
        axes.set(title=name, yticks=range(len(labels)), yticklabels=names, ylim=(len(labels) - 0.4, -0.6))
        axes.grid(axis="y", color=PALE, lw=0.8)
    span = [edge for axes in all_axes for edge in axes.get_xlim()]
    for axes in all_axes:  # one scale: the panels are compared
        axes.set_xlim(min(span), max(span))
    figure.supxlabel(textwrap.fill(title, 60), fontsize=9.5)
    handles, texts = all_axes[0].get_legend_handles_labels()
    if len(texts) > 1:
        key(figure, handles, texts, columns=3)
    return figure


def judged(values: pd.DataFrame, pairs: pd.DataFrame) -> Figure:
    """Draw how values and pairs were judged: intervals beside what is published, each line with its verdict.

    Parameters
    ----------
    values, pairs : DataFrame
        From `reefcore.reproduction.values` and `reefcore.reproduction.pairs`, of one column of one table.
    """
    chance, beyond = (ORANGE, MARKERS[1]), (RED, "X")
    looks = {"close but outside": chance, "opposite, not told apart": chance}
    looks |= {"differs": beyond, "opposite beyond chance": beyond}
    sizes = [len(values), len(pairs)]
    figure, panels = canvas(NARROW, 1.4 + 0.42 * sum(sizes), 1, 2, sharey=False, height_ratios=sizes)
    named = pairs.assign(row=pairs["first"] + " − " + pairs["second"])
    for axes, rows, title in zip(panels, (values, named), ("values", "differences of two rows"), strict=True):
        for y, row in enumerate(rows.itertuples()):
            colour, marker = looks.get(row.verdict, (BLUE, MARKERS[0]))
            axes.hlines(y, row.far_low, row.far_high, color=colour, lw=0.8)
            axes.hlines(y, row.ci_low, row.ci_high, color=colour, lw=2.6)
            axes.plot(row.value, y, marker, color=colour, ms=6)
            axes.plot(row.published, y, MARKERS[3], color="black", mfc="none", ms=8)
        lines = rows["row"] + ":\n" + rows["verdict"]
        axes.set(title=title, yticks=range(len(rows)), yticklabels=lines, ylim=(len(rows) - 0.4, -0.6))
    panels[1].axvline(0, color=GREY, lw=0.8, zorder=0)
    panels[1].set_xlabel("thick: 95 % interval; thin: its long arms;\nopen diamond: published")
    return figure


def class_weights(table: pd.DataFrame) -> Figure:
    """Draw the weight of each class in a class-balanced loss against its number of training points.

    Parameters
    ----------
    table : DataFrame
        ``beta``, ``count`` (at least 1), ``weight`` (mean 1 over the classes).
    """
    figure, (axes,) = canvas(NARROW, 3.3)
    betas = list(table.groupby("beta"))
    styles = zip(betas, (GREY, ORANGE, GREEN, BLUE), MARKERS, strict=False)
    for (beta, rows), colour, marker in styles:
        rows = rows.sort_values("count")
        axes.plot(rows["count"], rows["weight"], marker, ls="-", lw=1, ms=4, color=colour, label=f"beta {beta:g}")
    axes.set(xscale="log", yscale="log", xlabel="training points of the class (log scale)", ylabel="weight (log scale)")
    axes.legend(fontsize=SMALL)
    return figure


def learning(history: pd.DataFrame) -> Figure:
    """Draw how trainings went: loss and validation macro recall by epoch, a panel of each, the others in grey.

    Parameters
    ----------
    history : DataFrame
        ``model``, ``epoch``, ``loss``, ``val_macro_recall`` (fraction).
    """
    models = list(history.groupby("model", sort=False))
    rows = -(-len(models) // 4)
    columns = -(-len(models) // rows)
    with rc_context(RC):
        figure = Figure(figsize=(0.8 + 1.6 * columns, 0.6 + 2.4 * rows), layout="constrained", facecolor="white")
        figure.get_layout_engine().set(h_pad=0.08)
        quantities = [("loss", 1, "training loss"), ("val_macro_recall", 100, "validation macro recall (%)")]
        for part, (column, scale, label) in zip(figure.subfigures(2, 1), quantities, strict=True):
            panels = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
            for place, (axes, (model, run)) in enumerate(zip(panels, models, strict=False)):
                for _, other in models:
                    axes.plot(other["epoch"], scale * other[column], color=LINE, lw=0.8)
                axes.plot(run["epoch"], scale * run[column], color=BLUE, marker="o", ms=3, lw=1.5)
                axes.set_title(model)
                axes.tick_params(labelbottom=place + columns >= len(models))  # the last of each column
                axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            for axes in panels[len(models) :]:
                axes.remove()
            if column == "val_macro_recall":
                panels[0].set_ylim(0, None)
            part.supylabel(label)
            part.supxlabel("epoch")
    return figure
