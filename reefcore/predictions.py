"""Predictions, the interface between any model and every table and figure: made from scores, read, written.

A file of predictions may come from any program. It is Parquet or CSV with the columns ``run_id``, ``annotation_id``,
``y_true``, ``y_pred`` and, where scores are wanted, one column ``score:CLASS`` per class, probabilities in [0, 1].
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError, problems_text
from reefcore.files import read_parquet, write_parquet
from reefcore.tables import SCORE, check, validate

TEXT = ["run_id", "annotation_id", "y_true", "y_pred"]


def from_scores(run_id: str, annotation_ids, y_true, scores: np.ndarray, classes: list[str]) -> pd.DataFrame:
    """Make a predictions table of a model's scores; the class with the highest score is predicted, the first of equals.

    Parameters
    ----------
    run_id : str
        ``<recipe>-<training scheme>-<test scheme>`` by this project's habit, such as ``resnet_tiny-S3-W``.
    annotation_ids, y_true : sequence of str, length n
        A true label that is not among `classes` is kept: it can only count as an error.
    scores : ndarray, shape (n, len(classes))
        Probabilities in [0, 1].
    classes : list of str
    """
    scores = np.asarray(scores, dtype=np.float32)
    if scores.shape != (len(annotation_ids), len(classes)):
        raise ReefcoreError(f"scores of shape {scores.shape} for {len(annotation_ids)} points, {len(classes)} classes")
    best = np.asarray(classes, dtype=object)[scores.argmax(axis=1)]
    table = pd.DataFrame(
        {"run_id": run_id, "annotation_id": list(annotation_ids), "y_true": list(y_true), "y_pred": best}
    )
    table = table.join(pd.DataFrame(scores, columns=[f"{SCORE}{name}" for name in classes]))
    return validate(table, "predictions", run_id)


def run_parts(run_ids: pd.Series) -> pd.DataFrame:
    """Split run ids ``<recipe>-<train set>-<test set>`` into ``recipe``, ``train`` and ``test``, with their index."""
    parts = run_ids.str.rsplit("-", n=2, expand=True).reindex(columns=range(3))
    return parts.set_axis(["recipe", "train", "test"], axis=1)


def read(path: str | Path, annotations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Read and check predictions made by any program.

    Parameters
    ----------
    path : path
        Parquet, or CSV (UTF-8).
    annotations : DataFrame, optional
        With ``annotation_id`` and ``label``: gives ``y_true`` where the file has none.

    Returns
    -------
    DataFrame
        The rows without a problem; ``.attrs["problems"]`` lists the others by line (CSV) or row + 1 (Parquet). A file
        without ``run_id`` is one run named as the file.

    Raises
    ------
    ReefcoreError
        Where the file cannot be read, lacks a column, or no row is right.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        table = read_parquet(path)
    else:
        try:  # ids may be all digits and a class may be called NA: read text as text
            table = pd.read_csv(path, dtype=dict.fromkeys(TEXT, "str"), keep_default_na=False, na_values=[""])
        except FileNotFoundError:
            raise ReefcoreError("this file does not exist", path, "check the path") from None
        except (ValueError, OSError) as error:
            raise ReefcoreError(f"this is not a readable CSV ({error})", path, "give UTF-8 CSV or Parquet") from None
    if "run_id" not in table:
        table.insert(0, "run_id", path.stem)
    if "y_true" not in table and annotations is not None and "annotation_id" in table:
        labels = annotations.drop_duplicates("annotation_id").set_index("annotation_id")["label"]
        table["y_true"] = table["annotation_id"].map(labels)
    kept, problems = check(table, "predictions")
    if not len(kept):
        raise ReefcoreError(f"no prediction can be used: {problems_text(problems.head(3), path, 0, len(table))}", path)
    kept.attrs["problems"] = problems
    return kept


def write(table: pd.DataFrame, path: str | Path) -> Path:
    """Check predictions and write them to Parquet, whole or not at all."""
    return write_parquet(validate(table, "predictions", path), path)
