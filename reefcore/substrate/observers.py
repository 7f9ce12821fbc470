"""Do people agree on where to deploy? Agreement over the frames that both labelled, and nothing else.

A frame that one observer lacks is listed; the authors' code counted it as agreement (``facts/substrate.md``). Labels are
``Deploy`` and ``No-Deploy``. The statistics take a wide table, one column per set of answers (see `answers`), so that a
model or the expert stands in it beside the observers.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet
from reefcore.images import ENDINGS
from reefcore.metrics import draws_of

logger = logging.getLogger(__name__)

LABELS = ("Deploy", "No-Deploy")
ORDERS = ("blind", "ordered")
_SPELT = {"deploy": "Deploy", "nodeploy": "No-Deploy"}


def _plain(name) -> str:
    return re.sub(r"[\s_-]", "", str(name)).lower()


def read_folders(folder: str | Path) -> pd.DataFrame:
    """Read labels that observers gave by sorting frames into class folders.

    Parameters
    ----------
    folder : path
        ``<observer>/<class>/<frame>``, where the class folder is ``Deploy`` or ``No-Deploy``; case, blanks, hyphens and
        underscores do not matter. Above it may stand a folder ``blind`` or ``ordered``. All other folders, above or
        below the class folder, are part of the frame's name, such as its sequence.

    Returns
    -------
    DataFrame
        ``observer``, ``order`` (``blind``, ``ordered`` or ``unknown``), ``frame``, ``label``, sorted.

    Raises
    ------
    ReefcoreError
        Where there is no folder or no photo, a photo lies in no class folder, or a frame in both of one observer.
    """
    folder, rows = Path(folder), []
    if not folder.is_dir():
        raise ReefcoreError("this is not a folder", folder, "give the folder that holds one folder per observer")
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in ENDINGS or not path.is_file():
            continue
        observer, *between = path.relative_to(folder).parts
        kind = [_plain(name) for name in between[:-1]]
        at = next((place for place, name in enumerate(kind) if name in _SPELT), None)
        if at is None:
            where, do = path.parent, "name the folder Deploy or No-Deploy, or take it away"
            raise ReefcoreError(f"the folder of {path.name} is no class folder of an observer", where, do)
        order = next((name for name in kind[:at] if name in ORDERS), "unknown")
        rest = [name for place, name in enumerate(between) if place != at and not (place < at and kind[place] in ORDERS)]
        rows.append((observer, order, "/".join(rest), _SPELT[kind[at]]))
    if not rows:
        raise ReefcoreError("there is no photo in this folder", folder, f"photos end in {', '.join(ENDINGS)}")
    table = pd.DataFrame(rows, columns=["observer", "order", "frame", "label"], dtype="str")
    return check(table, folder).sort_values(["observer", "order", "frame"], ignore_index=True)


def read_table(path: str | Path) -> pd.DataFrame:
    """Read labels from a CSV or Parquet file with ``observer``, ``frame``, ``label`` and, optionally, ``order`` and
    ``position``; labels are understood as `read_folders` does, the result is the same."""
    path = Path(path)
    try:
        table = read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype="str", encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ReefcoreError(f"this is no table ({' '.join(str(error).split())})", path, "give CSV or Parquet") from None
    if missing := [name for name in ("observer", "frame", "label") if name not in table]:
        raise ReefcoreError(f"the table lacks {', '.join(missing)}", path, "name its columns observer, frame and label")
    table = table.assign(order=table["order"].fillna("unknown") if "order" in table else "unknown")
    if "position" in table:
        table = table.assign(position=pd.to_numeric(table["position"], errors="coerce").astype("Int64"))
    return check(table, path)


def check(observations: pd.DataFrame, where: str | Path | None = None) -> pd.DataFrame:
    """Spell labels and orders in one way, drop repeated rows, and refuse a frame with two labels.

    Raises
    ------
    ReefcoreError
        Where a label is neither Deploy nor No-Deploy, or one observer gave a frame both in one order.
    """
    label = observations["label"].map(lambda name: _SPELT.get(_plain(name)))
    if label.isna().any():
        bad = observations.loc[label.isna(), "label"].iloc[0]
        raise ReefcoreError(f"{bad!r} is neither Deploy nor No-Deploy", where, "correct the label, or take the row away")
    table = observations.assign(label=label, order=observations["order"].str.strip().str.lower())
    key = ["observer", "order", "frame"]
    table = table[~table.duplicated([*key, "label"])]
    if (twice := table.duplicated(key)).any():
        row = table[twice].iloc[0]
        text = f"{row['observer']} has frame {row['frame']} both as Deploy and as No-Deploy"
        raise ReefcoreError(text, where, "keep one of the two")
    if left := len(observations) - len(table):
        logger.warning("%d observations are there twice; one of each is kept.", left)
    return table.reset_index(drop=True)


def answers(observations: pd.DataFrame, **others: pd.Series) -> pd.DataFrame:
    """Lay out answers side by side: one row per frame, one column per observer and order, missing where there is none.

    Parameters
    ----------
    observations : DataFrame
        ``observer``, ``order``, ``frame``, ``label``.
    **others : Series of str
        Further columns by frame, such as ``expert`` or ``model``; they add no frames.

    Returns
    -------
    DataFrame
        Indexed by ``frame``, sorted; columns such as ``observer A, blind`` (the observer alone where the order is not
        known).
    """
    observations = check(observations)
    known = observations["order"] != "unknown"
    column = observations["observer"].where(~known, observations["observer"] + ", " + observations["order"])
    wide = observations.assign(column=column).pivot(index="frame", columns="column", values="label").sort_index()
    return wide.rename_axis(columns=None).assign(**{name: given.reindex(wide.index) for name, given in others.items()})


@dataclass(frozen=True)
class Agreement:
    """What `agreement` found: see there."""

    values: dict
    confusion: pd.DataFrame
    missing: pd.DataFrame


def agreement(
    wide: pd.DataFrame, first: str, second: str, groups: pd.Series | None = None, n: int = 1000, seed: int = 0
) -> Agreement:
    """Compare two columns of answers over the frames that both have.

    Parameters
    ----------
    wide : DataFrame
        From `answers`.
    first, second : str
        Its columns.
    groups : Series, optional
        By frame: what is resampled together, such as the sequence, whose frames resemble each other. By default
        frames are.
    n, seed : int
        Draws of the bootstrap.

    Returns
    -------
    Agreement
        ``values``: ``frames`` (that both labelled), ``missing`` (that one lacks), ``agreement`` (fraction) and
        ``kappa`` (Cohen 1960, doi:10.1177/001316446002000104), each with ``_low`` and ``_high`` (95 %),
        ``first_deploys`` and ``second_deploys`` (each one's share of Deploy, over the same frames), ``faulty`` (what
        agreement would be if a frame that one lacks counted as agreement: never use it) and ``note``, which says why
        kappa is NaN. Kappa is low where nearly all frames have one label, however well people agree: read it beside
        the shares of Deploy. ``confusion``: counts, first in rows, second in columns. ``missing``: ``frame`` and
        ``lacks`` (which of the two).

    Raises
    ------
    ReefcoreError
        Where a column is not there, or they have no frame in common.
    """
    for name in (first, second):
        if name not in wide:
            raise ReefcoreError(f"there are no answers of {name!r}", do=f"choose from {', '.join(wide)}")
    both = wide[[first, second]].dropna()
    if both.empty:
        raise ReefcoreError(f"{first} and {second} have no frame in common", do="compare observers of the same frames")
    lacks = [(frame, name) for name, other in ((first, second), (second, first))
             for frame in wide.index[wide[name].isna() & wide[other].notna()]]
    cells = _cells(both, wide.index, groups)
    total = cells.sum(0)
    value, kappa = _agreement(total)
    drawn = _agreement(_draws(cells, n, seed))
    spans = [_span(draw, len(cells)) for draw in drawn]
    deploys = both.eq("Deploy").mean()
    note = "" if np.isfinite(kappa) else f"both gave every frame the label {both.iloc[0, 0]}: kappa is not defined"
    values = {
        "first": first, "second": second, "frames": len(both), "missing": len(lacks),
        "agreement": float(value), "agreement_low": spans[0][0], "agreement_high": spans[0][1],
        "kappa": float(kappa), "kappa_low": spans[1][0], "kappa_high": spans[1][1],
        "first_deploys": deploys.iloc[0], "second_deploys": deploys.iloc[1],
        "faulty": float((value * len(both) + len(lacks)) / (len(both) + len(lacks))), "note": note,
    }  # fmt: skip
    confusion = pd.DataFrame(total.reshape(2, 2).astype(int), pd.Index(LABELS, name=first), pd.Index(LABELS, name=second))
    missing = pd.DataFrame(lacks, columns=["frame", "lacks"], dtype="str")
    return Agreement(values, confusion, missing.sort_values("frame", ignore_index=True))


def _cells(both: pd.DataFrame, frames: pd.Index, groups: pd.Series | None) -> np.ndarray:
    """Count, per group of `frames`, the four pairs of answers: shape (groups, 4), in the order of `LABELS`."""
    group = pd.Series(range(len(frames)), frames) if groups is None else groups.reindex(frames)
    if group.isna().any():
        raise ReefcoreError(f"frame {group.index[group.isna()][0]} is in no group", do="give the sequence of every frame")
    code = 2 * (both.iloc[:, 0] == "No-Deploy") + (both.iloc[:, 1] == "No-Deploy")
    number = pd.Series(pd.factorize(group, sort=True)[0], frames)
    counts = np.zeros((number.max() + 1, 4))
    np.add.at(counts, (number[both.index].to_numpy(), code.to_numpy(int)), 1)
    return counts


def _draws(sums: np.ndarray, n: int, seed: int) -> np.ndarray:
    return np.concatenate([weights @ sums for weights in draws_of(len(sums), n, seed)])


def _agreement(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Percent agreement and kappa of counts of shape (..., 4); NaN where both know one label only."""
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b, c, d = np.moveaxis(cells / cells.sum(-1, keepdims=True), -1, 0)
        chance = (a + b) * (a + c) + (c + d) * (b + d)
        constant = (a == 1) | (d == 1)
        return a + d, np.where(constant, np.nan, (a + d - chance) / (1 - chance))


def _span(drawn: np.ndarray, groups: int) -> tuple[float, float]:
    drawn = drawn[np.isfinite(drawn)]
    if groups < 2 or not len(drawn):
        return np.nan, np.nan
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def pairs(
    wide: pd.DataFrame, chosen: list[tuple[str, str]] | None = None, groups=None, n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Compare columns of answers two by two: the ``values`` of `agreement` as a table; by default all pairs."""
    chosen = list(combinations(wide, 2)) if chosen is None else chosen
    return pd.DataFrame([agreement(wide, *pair, groups, n, seed).values for pair in chosen])


def difference(
    wide: pd.DataFrame, one: tuple[str, str], other: tuple[str, str], groups=None, n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Compare the agreement of two pairs of columns: the same frames (or groups) are drawn for both.

    Returns
    -------
    DataFrame
        ``measure`` (agreement, kappa), ``value`` (that of `one` minus that of `other`), ``ci_low``, ``ci_high`` (95 %).
    """
    cells = [_cells(wide[list(pair)].dropna(), wide.index, groups) for pair in (one, other)]
    values = [np.array(_agreement(counts.sum(0))) for counts in cells]
    first, second = (np.array(_agreement(_draws(counts, n, seed))) for counts in cells)
    rows = [_span(gap, len(cells[0])) for gap in first - second]
    table = pd.DataFrame({"measure": ["agreement", "kappa"], "value": values[0] - values[1]})
    return table.assign(ci_low=[low for low, _ in rows], ci_high=[high for _, high in rows])


def fleiss_kappa(counts) -> float:
    """Compute Fleiss' kappa (1971, doi:10.1037/h0031619) of how many raters gave each frame each label.

    Parameters
    ----------
    counts : array-like of int, shape (frames, labels)
        The same number of raters, at least 2, in every row.

    Returns
    -------
    float
        NaN where all gave one label.
    """
    counts = np.asarray(counts, float)
    raters = counts.sum(1)
    if len(counts) == 0 or (raters != raters[0]).any() or raters[0] < 2:
        raise ReefcoreError("Fleiss' kappa asks for the same number of raters, at least 2, for every frame")
    return float(_fleiss(np.column_stack([_alike(counts), counts]).mean(0)))


def _alike(counts: np.ndarray) -> np.ndarray:
    """Share of the pairs of raters that agree, per frame."""
    raters = counts.sum(1)
    return ((counts**2).sum(1) - raters) / (raters * (raters - 1))


def _fleiss(means: np.ndarray) -> np.ndarray:
    """Kappa of the mean share of agreeing pairs and the mean counts, of shape (..., 1 + labels)."""
    chance = ((means[..., 1:] / means[..., 1:].sum(-1, keepdims=True)) ** 2).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chance == 1, np.nan, (means[..., 0] - chance) / (1 - chance))


def fleiss(wide: pd.DataFrame, columns: list[str] | None = None, groups=None, n: int = 1000, seed: int = 0) -> dict:
    """Compute Fleiss' kappa of more than two columns of answers, over the frames that all of them have.

    Returns
    -------
    dict
        ``raters``, ``frames``, ``missing`` (frames that at least one lacks), ``kappa``, ``kappa_low``, ``kappa_high``.

    Raises
    ------
    ReefcoreError
        Where no frame is in all columns.
    """
    wide = wide if columns is None else wide[columns]
    full = wide.dropna()
    if full.empty:
        raise ReefcoreError("no frame was labelled by all observers", do="leave out the observer who lacks most")
    counts = np.column_stack([(full == label).sum(axis=1) for label in LABELS]).astype(float)
    parts = pd.DataFrame(np.column_stack([_alike(counts), counts, np.ones(len(full))]))
    group = np.arange(len(full)) if groups is None else groups.reindex(full.index).to_numpy()
    sums = parts.groupby(group).sum().to_numpy()
    drawn = _draws(sums, n, seed)
    low, high = _span(_fleiss(drawn[:, :-1] / drawn[:, -1:]), len(sums))
    shape = {"raters": wide.shape[1], "frames": len(full), "missing": len(wide) - len(full)}
    return shape | {"kappa": fleiss_kappa(counts), "kappa_low": low, "kappa_high": high}


def stickiness(observations: pd.DataFrame, frames: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Ask whether observers repeat their last answer more often than the frames explain.

    Neighbouring frames look alike, so answers repeat along a track for good reasons. For comparison the answers are
    shuffled among the frames of one sequence with the same expert label: how often an observer errs stays as it is, and
    only the order of the errors goes.

    Parameters
    ----------
    observations : DataFrame
        ``observer``, ``order``, ``position`` (in which the observer saw the frames), ``frame``, ``label``.
    frames : DataFrame
        ``frame``, ``sequence`` and ``label``, the expert's.
    n, seed : int
        Shuffles.

    Returns
    -------
    DataFrame
        Per ``observer`` and ``order``: ``pairs`` (answers after one another; of ordered ones, within a sequence),
        ``repeats`` (share of pairs with the same answer), ``expert`` (the same of the expert's labels), ``expected``,
        ``low``, ``high`` (mean and 95 % of the shuffles), ``p`` (share of shuffles with as many repeats or more).
    """
    truth = frames.set_index("frame")
    rng, rows = np.random.default_rng(seed), []
    for (observer, order), here in check(observations).groupby(["observer", "order"]):
        here = here[here["frame"].isin(truth.index)].sort_values("position")
        mine, of = here["label"].eq("Deploy").to_numpy(), truth.loc[here["frame"]]
        expert, sequence = of["label"].eq("Deploy").to_numpy(), pd.factorize(of["sequence"])[0]
        follow = np.ones(max(len(here) - 1, 0), bool) if order == "blind" else sequence[1:] == sequence[:-1]
        if not follow.any():
            continue
        stratum = 2 * sequence + expert
        places, shuffled, drawn = np.argsort(stratum, kind="stable"), np.empty_like(mine), np.empty(n)
        for draw in range(n):
            shuffled[places] = mine[np.lexsort((rng.random(len(mine)), stratum))]
            drawn[draw] = (shuffled[1:] == shuffled[:-1])[follow].mean()
        repeats, known = ((values[1:] == values[:-1])[follow].mean() for values in (mine, expert))
        p = (1 + (drawn >= repeats - 1e-12).sum()) / (n + 1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        rows.append((observer, order, int(follow.sum()), repeats, known, drawn.mean(), low, high, p))
    columns = "observer order pairs repeats expert expected low high p".split()
    return pd.DataFrame(rows, columns=columns)
