"""A trained model on points or photos of one's own: predictions for annotations, labels for a folder of photos."""

from __future__ import annotations

import logging
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from reefcore import annotations, predictions, spreadsheets, taxonomy
from reefcore.errors import ReefcoreError, problems_text
from reefcore.files import atomic, read_parquet, write_parquet
from reefcore.images import ENDINGS, image_size, photo_path, photos_in
from reefcore.patches import of_photo, resized

logger = logging.getLogger(__name__)

LAYOUTS = ("grid", "random")
AT_ONCE = 16  # photos whose patches are in memory at a time
PLACE = ["source", "image", "row", "column"]


def run(
    checkpoint: str | Path,
    given: str | Path,
    output: str | Path,
    photos: str | Path | None = None,
    n: int = 25,
    layout: str = "grid",
    seed: int = 0,
    force: bool = False,
) -> dict:
    """Predict annotated points, or points laid on photos, with a trained model, and write what it answers.

    Points without an answer (unreadable photos, points outside their photo) are listed in ``<output>.skipped.csv``.
    EXIF orientation is not applied, as for every photo here.

    For annotations a predictions table is written: run_id is the name of the checkpoint, y_true is ``label_raw`` where
    that is a class of the model, else ``label``, or ``label_raw`` where there is none; of a model of families the
    family of that. For photos it is a table that
    `reefcore.annotations` reads: Source, Name, Row, Column, Label, Confidence, Second label, Second confidence.

    Parameters
    ----------
    checkpoint : path
        A trained model, see `reefcore.fitting.load`. Its patches have the side that it was trained on.
    given : path
        Annotations (a file that `reefcore.annotations.read` reads, or the table as Parquet), a folder of photos (see
        `reefcore.images.photos_in`) or one photo.
    output : path
        CSV or Parquet, by its ending; written whole or not at all.
    photos : path, optional
        With annotations: the folder with their photos as ``<source>/<image>``; those of one source may lie directly in
        it.
    n, layout, seed
        Points laid on each photo, see `lay_points`.
    force : bool
        Replace an output that is there.

    Returns
    -------
    dict
        ``output``, ``points`` (with an answer), ``photos``, ``skipped`` (points), ``skipped_list`` (path or None),
        ``model`` (what it is, in a sentence), ``size`` (of its recipe), ``classes``.

    Raises
    ------
    ReefcoreError
        Where the output is there already or has another ending, the input cannot be read, or no point has an answer.
    """
    from reefcore import fitting  # imports torch

    given, output = Path(given), Path(output)
    if output.suffix not in (".csv", ".parquet"):
        raise ReefcoreError("predictions are written as CSV or Parquet", output, "end its name in .csv or .parquet")
    for path in (Path(checkpoint), given):
        if not path.exists():
            raise ReefcoreError("there is nothing of this name", path, "check the path")
    if output.exists() and not force:
        raise ReefcoreError("this file is there already", output, "name another one, or use --force")
    on_photos = given.is_dir() or given.suffix.lower() in ENDINGS
    if on_photos == (photos is not None):
        do = "leave --photos out for photos" if on_photos else "give the folder with its photos by --photos"
        raise ReefcoreError(f"this is {'no file' if on_photos else 'a file'} of annotations", given, do)
    fitted = fitting.load(checkpoint)
    if on_photos:
        folder, names = given, photos_in(given) if given.is_dir() else None
        if names is None:
            folder, names = given.parent, pd.DataFrame([(given.resolve().parent.name, given.name)], columns=PLACE[:2])
        points, skipped = lay_points(names, folder, n, layout, seed)
    else:
        folder, skipped = Path(photos), pd.DataFrame(columns=[*PLACE, "reason"])
        points = read_parquet(given) if given.suffix == ".parquet" else annotations.read(given)
        if missing := [name for name in ("annotation_id", *PLACE, "label_raw", "label") if name not in points]:
            raise ReefcoreError(f"a table of annotations lacks the column {missing[0]}", given, "see reefcore.tables")
        if len(problems := points.attrs.pop("problems", [])):
            logger.warning("%s", problems_text(problems, given, len(points), points.attrs["rows"], output.parent))
        if repeated := points["annotation_id"].duplicated().sum():
            logger.warning("%d points stand twice in %s with the same label; one of each is kept.", repeated, given)
        points = points.drop_duplicates("annotation_id", ignore_index=True)
    scores, reasons = of_points(fitted, points, folder, fitting.predict)
    without = points[reasons != ""]
    skipped = pd.concat([skipped, without[PLACE].assign(reason=reasons[reasons != ""])], ignore_index=True)
    listed = output.with_name(f"{output.name}.skipped.csv")
    if len(skipped):
        with atomic(listed) as temporary:
            spreadsheets.inert(skipped).to_csv(temporary, index=False)
    else:
        listed.unlink(missing_ok=True)
    points = points[reasons == ""].reset_index(drop=True)
    if points.empty:
        why = next(iter(skipped["reason"]), "there is none")
        raise ReefcoreError(f"no point can be predicted ({why})", given, f"see {listed}" if len(skipped) else None)
    if on_photos:
        table = _labels(points, scores, fitted.classes)
    else:
        true = points["label"].where(points["label"].notna() & ~points["label_raw"].isin(fitted.classes))
        true = true.fillna(points["label_raw"])
        if fitted.recipe.task == "family":
            true = true.map(taxonomy.family_of(true.unique()))
        table = predictions.from_scores(
            Path(checkpoint).stem, points["annotation_id"], true, scores, list(fitted.classes)
        )
    if output.suffix == ".parquet":
        write_parquet(table, output)
    else:
        with atomic(output) as temporary:
            spreadsheets.inert(table).to_csv(temporary, index=False)
    recipe, classes = fitted.recipe, list(fitted.classes)
    return {
        "output": str(output),
        "points": len(points),
        "photos": len(points.drop_duplicates(["source", "image"])),
        "skipped": len(skipped),
        "skipped_list": str(listed) if len(skipped) else None,
        "model": f"recipe {recipe.name}, {recipe.size} size, {len(classes)} classes, patches of {fitted.crop} pixels",
        "size": recipe.size,
        "classes": classes,
    }


def lay_points(
    photos: pd.DataFrame, folder: str | Path, n: int = 25, layout: str = "grid", seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lay points on photos.

    Parameters
    ----------
    photos : DataFrame
        ``source``, ``image``.
    folder : path
    n : int
        Points per photo, at least 1.
    layout : {'grid', 'random'}
        ``grid``: the centres of `n` equal cells, rows times columns so that cells are as square as `n` allows (a prime
        number gives one line). ``random``: simple random, no pixel twice.
    seed : int
        Of the random points; those of a photo depend on its name, not on the other photos.

    Returns
    -------
    points : DataFrame
        ``source``, ``image``, ``row``, ``column`` (pixels, 0-based).
    skipped : DataFrame
        The same columns, row and column empty, and ``reason``: photos whose size cannot be read.
    """
    if n < 1 or layout not in LAYOUTS:
        raise ReefcoreError(
            f"{n} points cannot be laid out as {layout!r}", do=f"give at least 1, and {' or '.join(LAYOUTS)}"
        )
    rows, skipped = [], []
    for source, name in photos[["source", "image"]].itertuples(index=False):
        try:
            width, height = image_size(photo_path(folder, source, name, flat=True))
        except ReefcoreError as error:
            skipped.append((source, name, None, None, error.what))
            continue
        if layout == "grid":
            divisors = np.flatnonzero(n % np.arange(1, n + 1) == 0) + 1
            down = divisors[np.abs(np.log(height / divisors / (width * divisors / n))).argmin()]
            across = n // down
            y, x = np.indices((down, across)).reshape(2, -1) * 2 + 1
            y, x = y * height // (2 * down), x * width // (2 * across)
        else:
            rng = np.random.default_rng([seed, zlib.crc32(f"{source}/{name}".encode())])
            pixels = rng.choice(height * width, min(n, height * width), replace=False, shuffle=False)
            y, x = np.divmod(np.sort(pixels), width)
        rows += [(source, name, int(row), int(column)) for row, column in zip(y, x, strict=True)]
    return pd.DataFrame(rows, columns=PLACE), pd.DataFrame(skipped, columns=[*PLACE, "reason"])


def of_points(
    fitted, points: pd.DataFrame, photos: str | Path, predict: Callable, workers: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Predict points, a few photos at a time, each decoded once.

    Parameters
    ----------
    fitted : reefcore.fitting.Fitted
    points : DataFrame
        ``source``, ``image``, ``row``, ``column``.
    photos : path
    predict : callable
        ``predict(fitted, patches)`` gives probabilities, shape (n, classes); `reefcore.fitting.predict`.
    workers : int
        Threads that decode.

    Returns
    -------
    scores : ndarray of float32, shape (kept, classes)
        For the points without a reason, in their order.
    reasons : ndarray of str, shape (n,)
        Why a point has no answer; empty where it has one.
    """
    scores = np.zeros((len(points), len(fitted.classes)), dtype=np.float32)
    reasons = np.full(len(points), "", dtype=object)
    rows, columns = points["row"].to_numpy(), points["column"].to_numpy()
    flat = points["source"].nunique() == 1
    groups = sorted(points.groupby(["source", "image"], sort=False).indices.items())

    def cut(group) -> list[np.ndarray | str]:
        (source, name), indices = group
        path = photo_path(photos, source, name, flat)
        found, truncated = of_photo(path, rows[indices], columns[indices], fitted.crop)
        if truncated:
            logger.warning("%s ends early; the rest of the photo is filled by the decoder.", path)
        return [p if isinstance(p, str) else resized(p, fitted.recipe.input_size) for p in found]

    bar = tqdm(desc="photos", total=len(groups), unit="photo", disable=not sys.stderr.isatty())
    with bar, ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(groups), AT_ONCE):
            batch = groups[start : start + AT_ONCE]
            found = [patch for of_one in pool.map(cut, batch) for patch in of_one]
            indices = np.concatenate([indices for _, indices in batch])
            lost = np.array([isinstance(patch, str) for patch in found])
            reasons[indices[lost]] = [patch for patch in found if isinstance(patch, str)]
            if not lost.all():
                patches = np.stack([patch for patch in found if not isinstance(patch, str)])
                scores[indices[~lost]] = predict(fitted, patches)
            bar.update(len(batch))
    return scores[reasons == ""], reasons


def _labels(points: pd.DataFrame, scores: np.ndarray, classes: list[str]) -> pd.DataFrame:
    """Name the two likeliest classes of each point, in the columns of CoralNet's exports and three more."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    best = np.take_along_axis(scores, order, axis=1)
    names = np.asarray(classes, dtype=object)[order]
    table = points.rename(columns={"image": "Name"}).rename(columns=str.capitalize)
    table["Label"], table["Confidence"] = names[:, 0], best[:, 0]
    if len(classes) > 1:
        table["Second label"], table["Second confidence"] = names[:, 1], best[:, 1]
    return table
