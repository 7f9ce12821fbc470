"""Contact sheets: many patches at a glance, each with its label."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from reefcore.errors import ReefcoreError
from reefcore.figures.style import BLUE, RED, SMALL

GAP = 0.06  # between patches, as a fraction of their side
CAPTION = 0.24  # height of a label's strip, as a fraction of a patch's side
LINE = 0.17  # of each further line
INCHES = 0.95  # side of a patch


def contact_sheet(
    patches: np.ndarray,
    labels: Sequence[str],
    columns: int = 8,
    title: str | None = None,
    mark: bool = False,
    right: Sequence[bool] | None = None,
) -> Figure:
    """Lay patches out in rows, in their order, each above its label.

    Parameters
    ----------
    patches : ndarray of uint8, shape (n, size, size, 3)
    labels : sequence of str, length n
        May have several lines; a line is shortened where wider than a patch.
    columns : int
        Patches per row, at least 1; fewer patches leave the rest of their row empty.
    title : str, optional
    mark : bool
        Draw a small ring about the annotated point of each patch (see `reefcore.patches.crop`).
    right : sequence of bool, optional
        Frame patches that are right with a thin solid line, and those that are wrong with a thick broken one.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ReefcoreError
        Where there is no patch, or not one label per patch.
    """
    if not len(patches):
        raise ReefcoreError("there is no patch to show", do="check that points and photos belong together")
    if len(labels) != len(patches):
        raise ReefcoreError(f"{len(labels)} labels for {len(patches)} patches", do="give one label per patch")
    columns = min(columns, len(patches))
    rows = -(-len(patches) // columns)
    labels = [
        "\n".join(line if len(line) <= 16 else line[:15] + "…" for line in str(label).split("\n")) for label in labels
    ]
    lines = max(label.count("\n") for label in labels)
    longest = max(len(line) for label in labels for line in label.split("\n"))
    letters = SMALL * min(1, 14 / max(longest, 1))  # so that neighbours do not touch
    step_x, step_y = 1 + GAP, 1 + GAP + CAPTION + LINE * lines
    width, height = columns * step_x - GAP, rows * step_y
    head, side = 0.4 if title else 0.0, max(INCHES, 2.6 / width)  # a patch alone is larger
    figure = Figure(figsize=(width * side, height * side + head), facecolor="white")
    axes = figure.add_axes((0, 0, 1, height * side / (height * side + head)))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for i, (patch, label) in enumerate(zip(patches, labels, strict=True)):
        x, y = i % columns * step_x, i // columns * step_y
        axes.imshow(patch, extent=(x, x + 1, y + 1, y), interpolation="antialiased")
        axes.text(x + 0.5, y + 1.05, label, ha="center", va="top", fontsize=letters)
        if right is not None:
            style = {"ec": BLUE, "lw": 1.5} if right[i] else {"ec": RED, "lw": 3, "ls": (0, (2, 1))}
            axes.add_patch(Rectangle((x + 0.01, y + 0.01), 0.98, 0.98, fill=False, **style))
        if mark:
            centre = ((len(patch) + 1) // 2 + 0.5) / len(patch)
            axes.plot(x + centre, y + centre, "o", ms=7, mfc="none", mec="white", mew=0.9)
    axes.set(xlim=(0, width), ylim=(height, 0), aspect="auto")  # imshow sets its own
    if title:
        figure.text(0.5, 1 - 0.2 / (height * side + head), title, ha="center", va="center", fontsize=11)
    return figure


def answer_sheet(patches: np.ndarray, answers: pd.DataFrame, columns: int = 8) -> Figure:
    """Lay out patches with their truth, a model's answer and its confidence (paper, Figures 4, 12 and 13).

    Parameters
    ----------
    patches : ndarray of uint8, shape (n, size, size, 3)
    answers : DataFrame, n rows
        ``y_true``, ``y_pred``, ``right`` (bool), ``confidence`` (fraction): see `reefcore.classes.examples`.
    columns : int
        Patches per row.
    """
    labels = [
        f"{row.y_true}\n{'✓' if row.right else '✗'} {row.y_pred}\n{row.confidence:.0%} sure"
        for row in answers.itertuples()
    ]
    return contact_sheet(patches, labels, columns, mark=True, right=answers["right"].to_list())


def photo_sheet(photos: Sequence[np.ndarray], labels: Sequence[str], columns: int = 4) -> Figure:
    """Lay whole photos of any shape out in rows, each above its label.

    Parameters
    ----------
    photos : sequence of ndarray of uint8, shape (height, width, 3)
    labels : sequence of str
    columns : int
        Photos per row.
    """
    if not len(photos) or len(labels) != len(photos):
        raise ReefcoreError(
            f"{len(labels)} labels for {len(photos)} photos", do="give at least one photo, and one label each"
        )
    rows = -(-len(photos) // columns)
    columns = min(columns, len(photos))
    figure = Figure(figsize=(1.8 * max(columns, 2), 1.6 * rows), layout="constrained", facecolor="white")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid:
        axes.axis("off")
    for axes, photo, label in zip(grid, photos, labels, strict=False):
        axes.imshow(photo, interpolation="antialiased")
        words = "\n".join(textwrap.fill(line, 25) for line in str(label).split("\n"))
        axes.set_title(words, fontsize=SMALL, pad=3)
    return figure
