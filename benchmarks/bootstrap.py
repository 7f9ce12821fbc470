"""Intervals by resampling photos: one sparse product, instead of gathering points and scoring each resample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.metrics import balanced_accuracy_score, precision_recall_fscore_support

from benchmarks import Row, seconds
from reefcore import metrics

POINTS, CLASSES, PHOTOS, DRAWS, PLAIN_DRAWS = 40_000, 39, 8_000, 1_000, 20


def rows() -> Iterator[Row]:
    """Bootstrap every metric over the photos of 40,000 points; the plain way is timed on 20 draws and scaled up."""
    rng = np.random.default_rng(0)
    names = np.array([f"Genus {i}" for i in range(CLASSES)])  # as a table of predictions has them
    true = names[rng.integers(0, CLASSES, POINTS)]
    pred = np.where(rng.random(POINTS) < 0.6, true, names[rng.integers(0, CLASSES, POINTS)])
    photo = rng.integers(0, PHOTOS, POINTS)
    of_photo = [np.flatnonzero(photo == i) for i in range(PHOTOS)]

    def plain():
        for _ in range(PLAIN_DRAWS):
            at = np.concatenate([of_photo[i] for i in rng.integers(0, PHOTOS, PHOTOS)])
            balanced_accuracy_score(true[at], pred[at])
            precision_recall_fscore_support(true[at], pred[at], average="macro", zero_division=0)

    plain_s = seconds(plain, repeats=1) * DRAWS / PLAIN_DRAWS
    library_s = seconds(lambda: metrics.bootstrap(true, pred, photo, DRAWS))
    yield Row(
        "1,000 bootstrap draws over photos", "gather, scikit-learn per draw", plain_s, "metrics.bootstrap", library_s
    )
