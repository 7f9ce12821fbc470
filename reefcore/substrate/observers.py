"""Do people agree on where to deploy? Agreement over the frames that both labelled, and nothing else.

A frame that one observer lacks is listed; the authors' code counted it as agreement. Labels are ``Deploy`` and
``No-Deploy``. The statistics take a wide table, one column per set of answers (see `answers`), so that a model or the
expert can stand in it beside the observers.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import metrics
from reefcore.errors import ReefcoreError
from reefcore.files import read_parquet
from reefcore.images import ENDINGS

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
        above = [name for name, plain in zip(between[:at], kind, strict=False) if plain not in ORDERS]
        rest = [*above, *between[at + 1 :]]
        rows.append((observer, order, "/".join(rest), _SPELT[kind[at]]))
    if not rows:
        raise ReefcoreError("there is no photo in this folder", folder, f"photos end in {', '.join(ENDINGS)}")
    table = pd.DataFrame(rows, columns=["observer", "order", "frame", "label"], dtype="str")
    return check(table, folder).sort_values(["observer", "order", "frame"], ignore_index=True)


def read_table(path: str | Path) -> pd.DataFrame:
    """Read labels from a CSV or Parquet file with the columns of `read_folders`; ``order`` may be missing.

    A column ``position``, the place in which the observer saw the frame, is kept as a number.
    """
    path = Path(path)
    try:
        parquet = path.suffix == ".parquet"
        table = read_parquet(path) if parquet else pd.read_csv(path, dtype="str", encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ReefcoreError(f"this is no table ({' '.join(str(error).split())})", path, "give CSV or Parquet") from None
    if missing := [name for name in ("observer", "frame", "label") if name not in table]:
        raise ReefcoreError(f"the table lacks {', '.join(missing)}", path, "name its columns observer, frame and label")
    if (lost := table[["observer", "frame"]].isna().any(axis=1)).any():
        said = "this row lacks its observer or its frame"
        raise ReefcoreError(said, f"{path}:{lost.argmax() + 2}", "correct the line")
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
        text = f"the label {str(bad)!r} is neither Deploy nor No-Deploy"
        raise ReefcoreError(text, where, "correct it, or take the row away")
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
        By frame: what is resampled together, such as its sequence, whose frames resemble each other. By default each
        frame is drawn by itself.
    n, seed : int
        Draws of the bootstrap.

    Returns
    -------
    Agreement
        ``values``: ``first``, ``second``, ``frames`` (that both labelled), ``missing`` (that one of them lacks);
        ``agreement`` (fraction) and ``kappa`` (Cohen 1960, doi:10.1177/001316446002000104), each with ``_low`` and
        ``_high`` (95 %; NaN where all draws are alike, as in one group or without any disagreement);
        ``first_deploys``, ``second_deploys`` (shares of Deploy, over the same frames): kappa is low where nearly all
        frames have one label, however well people agree; ``faulty``: what agreement would be if frames that one lacks
        counted as agreement, to show the fault and for nothing else; ``note``: why kappa is NaN. ``confusion``:
        counts, first in rows. ``missing``: ``frame`` and ``lacks``, the one who lacks it.

    Raises
    ------
    ReefcoreError
        Where a column is not there, they have no frame in common, or a frame is in no group.
    """
    both = _both(wide, first, second)
    if both.empty:
        raise ReefcoreError(f"{first} and {second} have no frame in common", do="compare observers of the same frames")
    only = wide[[first, second]].dropna(how="all")
    lacks = only[only.isna().any(axis=1)]
    sums = metrics.drawn_sums(_cells(both), _groups(both.index, groups), n, seed)
    drawn = _agreement(sums)
    total, deploys, note = sums[0], both.eq("Deploy").mean().to_numpy(), ""
    if np.isnan(drawn["kappa"][0]):
        note = f"both gave every frame the label {both.iloc[0, 0]}: kappa is not defined"
    values = {"first": first, "second": second, "frames": len(both), "missing": len(lacks)}
    for name, (value, low, high) in _spans(drawn).items():
        values |= {name: value, f"{name}_low": low, f"{name}_high": high}
    values |= {"first_deploys": deploys[0], "second_deploys": deploys[1]}
    values |= {"faulty": (total[0] + total[3] + len(lacks)) / len(only), "note": note}
    axes = (pd.Index(LABELS, name=name) for name in (first, second))
    missing = lacks[first].isna().map({True: first, False: second}).rename("lacks").reset_index()
    return Agreement(values, pd.DataFrame(total.reshape(2, 2).astype(int), *axes), missing)


def _placed(observations: pd.DataFrame) -> None:
    """Refuse observations that do not say in which order the frames were seen."""
    if "position" not in observations:
        do = "add the column position: 1, 2, ... as the observer saw the frames"
        raise ReefcoreError("these observations do not say in which order frames were seen", do=do)


def _both(wide: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    for name in (first, second):
        if name not in wide:
            raise ReefcoreError(f"there are no answers of {name!r}", do=f"choose from {'; '.join(map(str, wide))}")
    return wide[[first, second]].dropna()


def _cells(both: pd.DataFrame) -> np.ndarray:
    """Put each frame in its cell of four: both Deploy, only the first, only the second, neither."""
    code = 2 * (both.iloc[:, 0] == LABELS[1]) + (both.iloc[:, 1] == LABELS[1])
    return np.eye(4)[code.to_numpy(int)]


def _groups(frames: pd.Index, groups: pd.Series | None) -> np.ndarray:
    found = frames.to_series() if groups is None else groups.reindex(frames)
    if found.isna().any():
        raise ReefcoreError(f"frame {frames[found.isna()][0]} is in no group", do="give the sequence of every frame")
    return found.to_numpy()


def _agreement(cells: np.ndarray) -> dict[str, np.ndarray]:
    """Percent agreement and kappa of counts of shape (n, 4); kappa is NaN where both know one label only."""
    both, first, second, neither = cells.T
    n = cells.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        agree = (both + neither) / n
        chance = ((both + first) * (both + second) + (neither + first) * (neither + second)) / n**2
        kappa = np.where((both == n) | (neither == n), np.nan, (agree - chance) / (1 - chance))
    return {"agreement": agree, "kappa": kappa}


def _spans(drawn: dict[str, np.ndarray]) -> dict[str, tuple[float, float, float]]:
    """Give the value, which comes first, and the 95 % interval of the draws after it; NaN where they are all alike."""
    found = {}
    for name, values in drawn.items():
        rest = values[1:][np.isfinite(values[1:])]
        told = len(rest) and np.ptp(rest) > 1e-12
        low, high = np.quantile(rest, [0.025, 0.975]) if told else (np.nan, np.nan)
        found[name] = float(values[0]), float(low), float(high)
    return found


def pairs(
    wide: pd.DataFrame, chosen: list[tuple[str, str]] | None = None, groups=None, n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Compare columns of answers two by two: the ``values`` of `agreement` as a table; by default all pairs.

    Raises
    ------
    ReefcoreError
        As `agreement`, or where there is no pair.
    """
    chosen = list(combinations(wide, 2)) if chosen is None else chosen
    if not chosen:
        said = f"there are answers of {wide.columns[0]} only" if wide.shape[1] else "there is no answer"
        raise ReefcoreError(f"{said}: nothing to compare", do="give the answers of two observers or more")
    return pd.DataFrame([agreement(wide, *pair, groups, n, seed).values for pair in chosen])


def difference(
    wide: pd.DataFrame, one: tuple[str, str], other: tuple[str, str], groups=None, n: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Compare the agreement of two pairs of columns: the same frames (or groups) are drawn for both.

    Returns
    -------
    DataFrame
        ``measure`` (agreement, kappa), ``value`` (that of `one` minus that of `other`, each over the frames of its
        pair), ``ci_low``, ``ci_high`` (95 %).
    """
    pairs_of = [_both(wide, *pair) for pair in (one, other)]
    frames = wide.index[wide.index.isin(pairs_of[0].index) | wide.index.isin(pairs_of[1].index)]
    cells = np.zeros((len(frames), 8))
    for place, both in enumerate(pairs_of):
        cells[frames.isin(both.index), 4 * place : 4 * place + 4] = _cells(both)
    sums = metrics.drawn_sums(cells, _groups(frames, groups), n, seed)
    first, second = _agreement(sums[:, :4]), _agreement(sums[:, 4:])
    spans = _spans({name: first[name] - second[name] for name in first})
    columns = ["measure", "value", "ci_low", "ci_high"]
    return pd.DataFrame([(name, *span) for name, span in spans.items()], columns=columns)


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

    Raises
    ------
    ReefcoreError
        Where the raters are fewer than two, or not the same number for every frame.
    """
    counts = np.atleast_2d(np.asarray(counts, float))
    raters = counts.sum(axis=1)
    if not raters.size or raters[0] < 2 or (raters != raters[0]).any():
        text = "Fleiss' kappa asks for the same number of raters, at least 2, for every frame"
        raise ReefcoreError(text, do="keep the frames that all have labelled")
    return float(_fleiss(np.atleast_2d(counts).sum(axis=0)[None], _alike(counts).mean(keepdims=True))[0])


def _alike(counts: np.ndarray) -> np.ndarray:
    """Share of the pairs of raters that agree, per frame."""
    raters = counts.sum(axis=1)
    return ((counts**2).sum(axis=1) - raters) / (raters * (raters - 1))


def _fleiss(counts: np.ndarray, alike: np.ndarray) -> np.ndarray:
    chance = ((counts / counts.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chance == 1, np.nan, (alike - chance) / (1 - chance))


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
    parts = np.column_stack([counts, _alike(counts), np.ones(len(full))])
    sums = metrics.drawn_sums(parts, _groups(full.index, groups), n, seed)
    value, low, high = _spans({"kappa": _fleiss(sums[:, :-2], sums[:, -2] / sums[:, -1])})["kappa"]
    shape = {"raters": wide.shape[1], "frames": len(full), "missing": len(wide) - len(full)}
    return shape | {"kappa": value, "kappa_low": low, "kappa_high": high}


def stickiness(observations: pd.DataFrame, frames: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Ask whether observers repeat their last answer more often than the frames explain.

    Neighbouring frames look alike, so answers repeat along a track for good reasons. For comparison the answers are
    shuffled among the frames of one sequence with the same expert label: how often an observer errs stays as it is, and
    only the order of the errors goes. Hard frames lie together too, and are mistaken together by an observer who never
    looks back: a small p does not tell the two apart. `carried` does, where there are blind answers.

    Parameters
    ----------
    observations : DataFrame
        ``observer``, ``order``, ``position`` (in which the observer saw the frames), ``frame``, ``label``.
    frames : DataFrame
        ``frame``, ``sequence`` and ``label``, the expert's; frames without one are left out.
    n, seed : int
        Shuffles.

    Returns
    -------
    DataFrame
        Per ``observer`` and ``order``: ``pairs`` (answers after one another; of ordered ones, within a sequence),
        ``repeats`` (share of pairs with the same answer), ``expert`` (the same of the expert's labels), ``expected``,
        ``low``, ``high`` (mean and 95 % of the shuffles), ``p`` (share of shuffles with as many repeats or more).
    """
    _placed(observations)
    truth = frames.set_index("frame")
    rng, rows = np.random.default_rng(seed), []
    for (observer, order), here in check(observations).groupby(["observer", "order"]):
        here = here[here["frame"].isin(truth.index[truth["label"].notna()])].sort_values("position")
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


def carried(observations: pd.DataFrame, frames: pd.DataFrame, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Compare how often ordered answers repeat with the same person's blind answers, laid along the same track.

    The frames, their neighbours and the person are the same, so hard frames that lie together count in both; only the
    order in which they were seen differs.

    Parameters
    ----------
    observations : DataFrame
        ``observer``, ``order``, ``position``, ``frame``, ``label``.
    frames : DataFrame
        ``frame`` and ``sequence``.
    n, seed : int
        Draws of whole sequences, and their seed.

    Returns
    -------
    DataFrame
        Per ``observer`` who labelled in both orders: ``pairs`` (frames after one another in a sequence, of those with
        both answers), ``ordered``, ``blind`` (shares of pairs with the same answer), ``difference`` and its 95 %
        interval, ``ci_low``, ``ci_high`` (NaN with one sequence).
    """
    _placed(observations)
    sequence = frames.set_index("frame")["sequence"]
    rows = []
    for observer, here in check(observations[observations["frame"].isin(sequence.index)]).groupby("observer"):
        wide = here.pivot(index="frame", columns="order", values="label").reindex(columns=ORDERS).dropna()
        position = here[here["order"] == "ordered"].set_index("frame")["position"]
        wide = wide.loc[position[wide.index].sort_values().index]
        of = sequence[wide.index].to_numpy()
        follow = of[1:] == of[:-1]
        if not follow.any():
            continue
        same = (wide.to_numpy()[1:] == wide.to_numpy()[:-1])[follow].astype(float)  # blind, ordered
        sums = metrics.drawn_sums(np.column_stack([same, np.ones(len(same))]), of[1:][follow], n, seed)
        blind, ordered = (sums[:, :2] / sums[:, 2:]).T
        span = _spans({"difference": ordered - blind})["difference"]
        rows.append((observer, len(same), ordered[0], blind[0], *span))
    return pd.DataFrame(rows, columns="observer pairs ordered blind difference ci_low ci_high".split())
