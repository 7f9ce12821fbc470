"""Figures of patch classification: a frame with its grid, what an expert says of its patches and what a model does."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from reefcore.figures.style import BLUE, GREEN, ORANGE, RED, SMALL, WIDE
from reefcore.substrate.grid import crops
from reefcore.tables import GRID

#: Substrate -> colour and letter in the drawing.
LOOK = {"Deploy": (BLUE, "D"), "Coral": (ORANGE, "C"), "No-Deploy": (GREEN, "N")}


def frame_grid(
    photo: np.ndarray, panels: dict[str, np.ndarray], truth: np.ndarray | None = None, grid: tuple[int, int] = GRID
) -> Figure:
    """Draw the patches of a frame over it, each with the letter of its substrate (D, C, N); a panel per opinion.

    Parameters
    ----------
    photo : ndarray of uint8, shape (height, width, 3)
    panels : dict
        Title -> substrates of the patches, row by row, shape (rows * columns,).
    truth : ndarray of str, shape (rows * columns,), optional
        Patches that differ from it have a thick broken frame.
    grid : (rows, columns)
    """
    height, width = photo.shape[:2]
    figure = Figure(
        figsize=(WIDE / 2 * len(panels), WIDE / 2 * height / width + 0.35), layout="constrained", facecolor="white"
    )
    for axes, (title, classes) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        axes.imshow(photo, interpolation="antialiased")
        for i, (top, left, bottom, right) in enumerate(crops(height, width, *grid)):
            colour, letter = LOOK[classes[i]]
            wrong = truth is not None and classes[i] != truth[i]
            style = {"ec": RED, "lw": 2.2, "ls": (0, (2, 1))} if wrong else {"ec": "white", "lw": 0.5}
            axes.add_patch(Rectangle((left + 2, top + 2), right - left - 5, bottom - top - 5, fill=False, **style))
            box = {"boxstyle": "square,pad=0.15", "fc": colour, "ec": "none"}
            place = left + 0.1 * (right - left), top + 0.14 * (bottom - top)
            axes.text(*place, letter, ha="left", va="top", fontsize=SMALL, color="white", weight="bold", bbox=box)
        axes.set_title(title, loc="left")
        axes.axis("off")
    return figure
