"""A survey of one's own, as the command line takes it: labels from a CSV, positions and decisions joined by frame."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import images
from reefcore.errors import ReefcoreError
from reefcore.substrate import stream, tracks
from reefcore.substrate.observers import LABELS
from reefcore.tables import GRID, SUBSTRATES


def sequences(frames: pd.Series, rule: str = "") -> pd.Series:
    """Say which survey sequence each frame is of: the part of its name that a rule finds, or its folder.

    Parameters
    ----------
    frames : Series of str
    rule : str
        A regular expression searched for in the name; its first group, or all of it, names the sequence.

    Raises
    ------
    ReefcoreError
        Where the rule is none, or finds nothing in a name.
    """
    if not rule:
        return frames.str.replace(r"/?[^/]*$", "", regex=True)
    try:
        found = frames.str.extract(rule if "(" in rule else f"({rule})")[0]
    except re.error as error:
        raise ReefcoreError(f"{rule!r} is no regular expression ({error})") from None
    if (lost := found.isna()).any():
        raise ReefcoreError(f"{rule!r} finds no sequence in the name {frames[lost].iloc[0]}", do="correct it")
    return found


def read_labels(path: str | Path, rule: str = "") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read labels of patches.

    Parameters
    ----------
    path : path
        A CSV with ``frame`` (path in the folder of frames), ``row`` and ``column`` (of the patch, from 0) and
        ``label`` (Deploy, No-Deploy, Coral); ``decision`` (Deploy, No-Deploy: of the whole frame) may be there.
    rule : str
        The column that names the survey sequence, or see `sequences`.

    Returns
    -------
    frames : DataFrame
        ``frame``, ``sequence``, and ``label`` where decisions are given.
    labels : DataFrame
        ``frame``, ``row``, ``column``, ``label``.

    Raises
    ------
    ReefcoreError
        Where the file cannot be read, a column is missing, or a value is not what it must be: with its line.
    """
    if not Path(path).is_file():
        raise ReefcoreError("there is no such file of labels", path, "check the path")
    try:
        table = pd.read_csv(path, dtype="str", encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ReefcoreError(f"these labels cannot be read ({' '.join(str(error).split())})", path) from None
    if missing := [name for name in ("frame", "row", "column", "label") if name not in table]:
        raise ReefcoreError(f"the table lacks {', '.join(missing)}", path, "name its columns frame, row, column, label")
    if table.empty:
        raise ReefcoreError("there is no label in this table", path, "give a line per labelled patch")
    place = table[["row", "column"]].apply(pd.to_numeric, errors="coerce")
    decisions = table["decision"].dropna() if "decision" in table else table["label"].iloc[:0]
    beyond = f"rows are numbered 0 to {GRID[0] - 1} from the top, columns 0 to {GRID[1] - 1} from the left"
    for wrong, what in (
        (table["frame"].isna(), "the frame is missing"),
        ((place.isna() | (place < 0) | (place % 1 != 0)).any(axis=1), "row and column are whole numbers from 0"),
        ((place >= list(GRID)).any(axis=1), beyond),
        (~table["label"].isin(SUBSTRATES), f"a label is one of {', '.join(SUBSTRATES)}"),
        (~decisions.isin(LABELS).reindex(table.index, fill_value=True), f"a decision is {' or '.join(LABELS)}"),
        (table[["frame"]].join(place).duplicated(), "this patch has a label already"),
    ):
        if wrong.any():
            raise ReefcoreError(what, f"{path}:{wrong.argmax() + 2}", "correct the line")
    named = table[rule] if rule in table else sequences(table["frame"], rule)
    frames = table[["frame"]].assign(sequence=named)
    if "decision" in table:
        frames = frames.assign(label=table["decision"])
    frames = frames.drop_duplicates(ignore_index=True)
    if (twice := frames["frame"].duplicated()).any():
        what = f"{frames['frame'][twice].iloc[0]} has two sequences, or two decisions"
        raise ReefcoreError(what, path, "give one of each per frame")
    return frames, table[["frame"]].join(place.astype("int64")).assign(label=table["label"])


def located(
    photos: str | Path,
    decisions: str | Path | None = None,
    track: str | Path | None = None,
    timezone: str | None = None,
) -> pd.DataFrame:
    """Put frames on their track, with their decisions.

    Parameters
    ----------
    photos : path
        A folder of frames; positions and times come from their headers.
    decisions : path, optional
        What `reefcore.substrate.stream.run` wrote; frames without a decision are left out.
    track : path, optional
        A GPX or CSV file for frames without a position, or a folder with one per sequence.
    timezone : str, optional
        Of times without an offset; see `reefcore.substrate.tracks.utc`.

    Returns
    -------
    DataFrame
        See `reefcore.substrate.tracks.deployment`; without decisions it has no ``deploy`` and ``since``.

    Raises
    ------
    ReefcoreError
        As the readers do, or where the decisions are of other frames.
    """
    frames = tracks.positions(photos, timezone)
    frames = frames.assign(sequence=sequences(frames["frame"]).replace("", Path(photos).resolve().name))
    if track is not None:
        read = tracks.read_tracks if Path(track).is_dir() else tracks.read_track
        frames = tracks.join(frames, read(track, timezone))
    if decisions is None:
        return tracks.deployment(frames.assign(deploy=False)).drop(columns=["deploy", "since"])
    made = stream.read(decisions)
    if not frames["frame"].isin(made["frame"]).any():
        raise ReefcoreError(f"no frame of {photos} is in this file", decisions, "give the folder that it is of")
    return tracks.deployment(frames, made.loc[made["deploy"].notna(), ["frame", "ratio", "coral", "deploy"]])


def some_patches(photos: str | Path, model: str | Path, most: int = 16) -> np.ndarray:
    """Cut the patches of some frames of a folder, evenly chosen, as a model wants them: to calibrate int8 on."""
    listed = images.photos_in(photos)
    chosen = listed.iloc[np.unique(np.linspace(0, len(listed) - 1, most).astype(int))]
    runner = stream.Runner(model, alpha=0.5)
    paths = [images.photo_path(photos, *row, flat=True) for row in chosen.itertuples(index=False)]
    return np.concatenate([runner.patches(path) for path in paths])


def train(
    photos: str | Path,
    labels: str | Path,
    output: str | Path,
    rule: str = "",
    recipe: str = "mobilenetv3_small",
    size: str = "full",
    seed: int = 0,
    threads: int = 1,
) -> dict:
    """Train a classifier of patches on labels of one's own, and write its checkpoint.

    Parameters
    ----------
    photos : path
        The folder that holds the frames.
    labels, rule : see `read_labels`
    output : path
        Ends in ``.safetensors``.
    recipe, size : see `reefcore.substrate.training.recipe`
    seed, threads : int

    Returns
    -------
    dict
        ``output``, ``patches`` (labelled, of frames that can be used), ``skipped`` (frames that cannot be),
        ``sequences`` and ``frames`` (numbers by part: train, val, test), ``alpha`` (None without decisions on
        validation frames) and, of the test part, ``macro_f1`` and ``accuracy``.
    """
    from reefcore import substrate
    from reefcore.substrate import training

    if Path(output).suffix != ".safetensors":
        raise ReefcoreError("a checkpoint is a safetensors file", output, "end its name in .safetensors")
    if threads < 1:
        raise ReefcoreError(f"a network cannot be trained on {threads} threads", do="give 1 or more")
    if not Path(photos).is_dir():
        raise ReefcoreError("this is not a folder", photos, "give the folder that holds the frames")
    frames, marks = read_labels(labels, rule)
    chosen, splits = training.recipe(recipe, size), training.split(frames, marks, seed)
    pixels, places, skipped = training.cut(photos, frames["frame"].tolist(), chosen.input_size)
    decided = frames.dropna() if "label" in frames else None
    name = Path(output).stem
    made = training.run(chosen, pixels, places, marks, splits, frames=decided, name=name, seed=seed, threads=threads)
    made.fitted.save(output)
    test = made.predictions[made.predictions["part"] == "test"]
    by_part = frames.merge(splits, on="frame").groupby("part")[["sequence", "frame"]].nunique()
    found = {"output": str(output), "patches": len(marks.merge(places)), "skipped": len(skipped)}
    found |= {"sequences": by_part["sequence"].to_dict(), "frames": by_part["frame"].to_dict()}
    found |= {"alpha": made.fitted.about["alpha"]}
    return found | substrate.score(test["y_true"], test["y_pred"])
