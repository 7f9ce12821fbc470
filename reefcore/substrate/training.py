"""Train a classifier of patches, or of whole frames: frames divided by sequence, cut, learnt, predicted.

Neighbouring frames of a sequence show the same ground, so sequences are divided whole: a model that has seen the frame
before and the one after knows the one between. `random_split` divides patches instead, to show how much that flatters.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import recipes
from reefcore.errors import ReefcoreError
from reefcore.images import image_size
from reefcore.patches import ArrayPatches
from reefcore.recipes import Recipe
from reefcore.substrate import PLACE, decision, grid
from reefcore.tables import GRID, PARTS, SCORE, SUBSTRATES
from reefcore.training import Memory, Run, capped, facts, generator

logger = logging.getLogger(__name__)

FRAME = ("No-Deploy", "Deploy")  # the classes of a whole frame, the authors' codes 0 and 1
SHARES = (0.6, 0.2, 0.2)  # of the frames, for training, validation and testing
DRAWS = 2000  # of sequences into parts, of which the most even is taken


def recipe(name: str | Path, size: str = "sample", changes: dict | None = None) -> Recipe:
    """Load a recipe for substrates: ``mobilenetv3_small``, or a YAML file; see `reefcore.recipes.load`."""
    known = f"substrate/{name}" in recipes.names("substrate")
    return recipes.load(f"substrate/{name}" if known else name, size, changes)


def split(frames: pd.DataFrame, labels: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Divide frames into parts by whole sequences, with shares of frames and of classes as near `SHARES` as is found.

    Parameters
    ----------
    frames : DataFrame
        ``frame``, ``sequence``, and perhaps ``label``, whose shares then count as well, and ``site``: then training has
        a sequence of each site, where that is possible. What is tested is the next dive at known sites.
    labels : DataFrame
        ``frame``, ``label`` of patches; frames without are divided all the same.
    seed : int

    Returns
    -------
    DataFrame
        ``frame`` (sorted), ``part`` (train, val, test).

    Raises
    ------
    ReefcoreError
        With fewer than three sequences, or where a frame is of none.
    """
    frames = frames.sort_values("frame")
    if (stray := frames["sequence"].isna()).any():
        what = f"frame {frames['frame'][stray].iat[0]} is of no sequence"
        raise ReefcoreError(what, do="name the dive, transect or day that each frame is of")
    of = frames.set_index("frame")["sequence"]
    counts = pd.crosstab(labels["frame"].map(of), labels["label"]).reindex(sorted(of.unique()), fill_value=0)
    counts.insert(0, "frames", of.value_counts())
    if "label" in frames:
        counts = counts.join(pd.crosstab(frames["sequence"], frames["label"]).add_prefix("frame ")).fillna(0)
    if len(counts) < len(SHARES):
        what = f"{len(counts)} sequences cannot be divided into training, validation and test"
        raise ReefcoreError(what, do="bring three or more: neighbouring frames must not fall on both sides")
    shares = (counts / counts.sum()).to_numpy()
    sites = frames.groupby("sequence")["site"].first().to_numpy() if "site" in frames else np.zeros(len(counts))
    rng, best, chosen = np.random.default_rng(seed), np.inf, None
    for _ in range(DRAWS):
        order = rng.permutation(len(counts))
        middles = shares[order, 0].cumsum() - shares[order, 0] / 2  # a sequence belongs where its middle lies
        ends = np.searchsorted(middles, np.cumsum(SHARES)[:-1]).clip([1, 2], len(order) - np.array([2, 1]))
        ends[1] = max(ends[1], ends[0] + 1)  # each part has a sequence
        sums = np.stack([part.sum(axis=0) for part in np.split(shares[order], ends)])
        uneven = ((sums / np.array(SHARES)[:, None] - 1) ** 2).sum()
        uneven += len(counts) * len(set(sites) - set(sites[order[: ends[0]]]))
        if uneven < best:
            parts = np.repeat(PARTS, np.diff([0, *ends, len(order)]))
            best, chosen = uneven, dict(zip(counts.index[order], parts, strict=True))
    return pd.DataFrame({"frame": frames["frame"].array, "part": frames["sequence"].map(chosen).astype("str").array})


def random_split(labels: pd.DataFrame, splits: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Divide patches at random, whatever frame they are from, into parts as large as those of `split`.

    It flatters: patches of one frame and of its neighbours fall on both sides. Only for showing how much.

    Returns
    -------
    DataFrame
        ``frame``, ``row``, ``column``, ``part``.
    """
    labels = labels.sort_values(PLACE, ignore_index=True)
    parts = labels["frame"].map(splits.set_index("frame")["part"]).to_numpy(object)
    return labels[PLACE].assign(part=np.random.default_rng(seed).permutation(parts))


def cut(
    folder: str | Path,
    frames: Sequence[str],
    side: int,
    rows: int = GRID[0],
    columns: int = GRID[1],
    workers: int = 1,
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, pd.DataFrame, pd.DataFrame]:
    """Cut the patches of many frames; with one row and one column a patch is the whole frame.

    Parameters
    ----------
    folder : path
    frames : sequence of str
        Files, relative to the folder.
    side : int
        Of a patch, in pixels.
    rows, columns : int
        Of the grid.
    workers : int
        Threads.
    out : ndarray of uint8, shape (frames * rows * columns, side, side, 3), optional
        Where they go, such as a file mapped into memory.

    Returns
    -------
    pixels : ndarray of uint8
        As `out`: frame by frame in the order given, each row by row.
    places : DataFrame
        ``frame``, ``row``, ``column`` (from 0) of each patch and its position in `pixels`, ``patch``.
    skipped : DataFrame
        ``frame``, ``reason``: frames that cannot be read, end early or are smaller than the grid; black in `pixels`.

    Raises
    ------
    ReefcoreError
        Where no frame is left.
    """
    n, found, high = rows * columns, [], 0
    if out is None:
        out = np.zeros((len(frames) * n, side, side, 3), np.uint8)

    def one(at: int) -> tuple[str | None, bool]:
        file = Path(folder) / frames[at]
        try:
            out[at * n : (at + 1) * n] = grid.read(file, side, rows, columns)
            return None, grid.portrait(*image_size(file)[::-1]) is not None
        except ReefcoreError as error:
            return error.what, False

    with ThreadPoolExecutor(workers) as pool:
        for reason, turned in pool.map(one, range(len(frames))):
            found.append(reason)
            high += turned
    kept = [at for at, reason in enumerate(found) if reason is None]
    skipped = pd.DataFrame(
        [(name, reason) for name, reason in zip(frames, found, strict=True) if reason], columns=["frame", "reason"]
    )
    if not kept:
        first = f"; the first, {skipped['frame'].iat[0]}: {skipped['reason'].iat[0]}" if len(skipped) else ""
        raise ReefcoreError(f"none of {len(frames)} frames can be used{first}", folder, "check the folder of frames")
    if len(skipped):
        left = (len(skipped), len(frames), *skipped.iloc[0])
        logger.warning("%d of %d frames are left out; the first: %s (%s).", *left)
    if high:
        logger.warning("%d of %d frames are higher than wide, most likely stored turned.", high, len(frames))
    row, column = (place.ravel() for place in np.indices((rows, columns)))
    places = {"row": np.tile(row, len(kept)), "column": np.tile(column, len(kept))}
    places = pd.DataFrame({"frame": np.repeat(np.array(frames, object)[kept], n)} | places)
    return out, places.assign(patch=(np.array(kept)[:, None] * n + np.arange(n)).ravel()), skipped


def run(
    recipe: Recipe,
    pixels: np.ndarray,
    places: pd.DataFrame,
    labels: pd.DataFrame,
    splits: pd.DataFrame,
    *,
    frames: pd.DataFrame | None = None,
    classes: Sequence[str] = SUBSTRATES,
    name: str | None = None,
    seed: int = 0,
    threads: int = 1,
    resume: str | Path | None = None,
    about: dict | None = None,
) -> Run:
    """Train a recipe on the training part, choose the epoch on validation, predict validation and test.

    Parameters
    ----------
    recipe : Recipe
        Of the task 'substrate'; see `recipe`.
    pixels, places : see `cut`
    labels : DataFrame
        ``frame``, ``row``, ``column``, ``label``: one of `classes`. Of whole frames, row and column are 0.
    splits : DataFrame
        ``frame``, ``part`` (see `split`), or ``frame``, ``row``, ``column``, ``part`` (see `random_split`).
    frames : DataFrame, optional
        ``frame``, ``sequence``, ``label`` (Deploy, No-Deploy): give the checkpoint its alpha, chosen on validation.
    classes : sequence of str
        In the order of the outputs: `SUBSTRATES`, or `FRAME` for whole frames.
    name : str, optional
        Of the run; by default the recipe's.
    seed, threads, resume, about : see `reefcore.fitting.fit`

    Returns
    -------
    Run
        See `reefcore.training.Run`. ``predictions``: ``run_id``, ``split`` (sequence or patch), ``part`` (val, test),
        ``frame``, ``row``, ``column``, ``y_true``, ``y_pred`` and ``score:CLASS`` of every labelled patch of both
        parts, once, in the order of `places`; its ``validation`` is empty. The checkpoint's ``about`` has ``run``,
        ``rows``, ``columns`` and ``alpha`` (None where it cannot be chosen).

    Raises
    ------
    ReefcoreError
        Where a label is no class, a class has no training patch, or training fails.
    """
    from reefcore.fitting import fit, predict  # imports torch

    on = [column for column in PLACE if column in splits]
    table = places.merge(labels[[*PLACE, "label"]], on=PLACE, how="inner", validate="1:1", sort=False)
    table = table.merge(splits[[*on, "part"]], on=on, how="inner", validate="m:1", sort=False).sort_values("patch")
    if (strange := ~table["label"].isin(classes)).any():
        what = f"{table['label'][strange].iat[0]!r} is no class of a patch"
        raise ReefcoreError(f"{what} of {table['frame'][strange].iat[0]}", do=f"use {', '.join(classes)}")
    if lost := len(labels) - len(table):
        logger.warning("%d of %d labels have no patch or no part, and are left out.", lost, len(labels))
    train, val, test = (table[table["part"] == part] for part in PARTS)
    if absent := [one for one in classes if one not in set(train["label"])]:
        what = f"no training patch is {' or '.join(absent)}"
        raise ReefcoreError(what, do="label more sequences, or divide them otherwise")
    rng = generator(seed, recipe.name, "substrate")
    train = capped(train, recipe.train_per_class, rng)
    code = {one: i for i, one in enumerate(classes)}
    name, memory = name or recipe.name, Memory()
    rows, columns = (int(places[axis].max()) + 1 for axis in ("row", "column"))
    patches = ArrayPatches(pixels, range(len(pixels)))
    fitted = fit(
        recipe,
        patches,
        *((part["patch"].to_numpy(), part["label"].map(code).to_numpy("int64")) for part in (train, val)),
        list(classes),
        seed=int(rng.integers(2**31)),
        threads=threads,
        resume=resume,
        about={"run": name, "rows": rows, "columns": columns, **(about or {})},
    )
    held = pd.concat([val, test], ignore_index=True)
    scores = predict(fitted, (patches, held["patch"].to_numpy()), threads)
    told = held[["part", *PLACE]].assign(y_true=held["label"], y_pred=np.array(classes, object)[scores.argmax(axis=1)])
    told.insert(0, "run_id", name)
    told.insert(1, "split", "patch" if len(on) > 1 else "sequence")
    told = told.astype({"y_pred": "str"}).join(pd.DataFrame(scores, columns=[f"{SCORE}{one}" for one in classes]))
    fitted.about["alpha"] = _alpha(told[told["part"] == "val"], frames, rows * columns)
    history = fitted.history.assign(run=name)[["run", *fitted.history]]
    return Run(told, told.iloc[:0], history, facts(fitted, recipe, "", seed, len(train), memory), fitted)


def _alpha(val: pd.DataFrame, frames: pd.DataFrame | None, patches: int) -> float | None:
    """Choose alpha on the validation frames all of whose patches were predicted; there are none in a random split."""
    if frames is None or patches == 1 or not len(val):
        return None
    whole = decision.shares(val, frames).query("n == @patches")
    if not len(whole):
        return None
    return decision.operating_point(whole["deploy"], whole["truth"].to_numpy(), patches=patches)["alpha"]


def parameters(recipe: Recipe, classes: int = len(SUBSTRATES)) -> int:
    """Count what a recipe trains, by building its model, from scratch: nothing is fetched. Imports torch."""
    from reefcore.learners import build

    bare = replace(recipe, weights="scratch")
    learner = build(bare, [f"class {i}" for i in range(classes)], counts=[1] * classes)
    return sum(p.numel() for p in learner.parameters() if p.requires_grad)
