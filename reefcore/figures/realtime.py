"""Figures of real time: where the time of a frame goes, and which frames a live run could not keep up with."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reefcore.figures.style import BLUE, GREEN, GREY, NARROW, ORANGE, RED, SMALL, canvas, key

#: Part of a frame's time -> colour and hatch.
PARTS = {"decode": (ORANGE, "///"), "grid": (GREEN, "xx"), "network": (BLUE, ""), "decision": (GREY, "")}


def time_shares(timings: pd.DataFrame) -> Figure:
    """Draw how the parts of a decision share the time of a frame, a bar per number of threads.

    Parameters
    ----------
    timings : DataFrame
        From `reefcore.substrate.stream.timings`: ``threads``, ``part``, ``seconds``, ``share``.
    """
    wide = timings.pivot(index="threads", columns="part", values="seconds") * 1000
    figure, (axes,) = canvas(NARROW, 0.6 * len(wide) + 1.2)
    left, place = np.zeros(len(wide)), np.arange(len(wide))
    for part, (colour, hatch) in PARTS.items():
        axes.barh(place, wide[part], left=left, color=colour, hatch=hatch, ec="white", lw=0, height=0.6, label=part)
        left = left + wide[part].to_numpy()
    shares = timings[timings["part"] == "network"].set_index("threads")["share"]
    for at, (threads, end) in enumerate(zip(wide.index, left, strict=True)):
        axes.text(end + left.max() * 0.01, at, f"network {shares[threads]:.0%}", va="center", fontsize=SMALL)
    axes.set(yticks=place, xlim=(0, 1.36 * left.max()), xlabel="time per frame, one part after another (ms)")
    axes.set_yticklabels([f"{n} thread{'s' * (n > 1)}" for n in wide.index])
    axes.invert_yaxis()
    key(figure, *axes.get_legend_handles_labels(), columns=len(PARTS))
    return figure


def kept_up(decisions: pd.DataFrame, came: int, rate: float) -> Figure:
    """Draw when each frame of a live run came, which were dropped, and how late the others were decided.

    Parameters
    ----------
    decisions : DataFrame
        ``number`` (of the frame in the order in which they came, from 0) and ``seconds`` (from coming to its decision).
    came : int
        Frames that came.
    rate : float
        Frames per second at which they came.
    """
    figure, (axes,) = canvas(NARROW, 3.0)
    dropped = np.setdiff1d(np.arange(came), decisions["number"])
    axes.plot(decisions["number"] / rate, 1000 * decisions["seconds"], "o", color=BLUE, ms=4, label="decided")
    axes.plot(dropped / rate, np.zeros(len(dropped)), "|", color=RED, ms=9, mew=0.8, label="dropped")
    top = 1150 * max(decisions["seconds"].max(), 1e-3)
    axes.set(xlabel="when the frame came (s)", ylabel="until it was decided (ms)", ylim=(-0.06 * top, top))
    key(figure, *axes.get_legend_handles_labels(), columns=2)
    return figure
