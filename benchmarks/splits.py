"""The within-source split of a data set of ReefNet's size: iterative stratification, source by source."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks import Row, seconds
from reefcore import splits

IMAGES, CLASSES, SOURCES, PER_IMAGE = 180_000, 39, 76, 5


def annotations(images: int = IMAGES, seed: int = 0) -> pd.DataFrame:
    """Invent annotations: 76 sources of uneven size, about five classes of a long tail per image."""
    rng = np.random.default_rng(seed)
    source = np.repeat(rng.choice(SOURCES, images, p=rng.dirichlet(np.full(SOURCES, 0.5))), PER_IMAGE)
    image = np.repeat(np.arange(images), PER_IMAGE)
    weight = 1 / np.arange(1, CLASSES + 1)
    label = rng.choice(CLASSES, len(image), p=weight / weight.sum())
    frame = pd.DataFrame({"source": source, "image": image, "label": label}).astype("str")
    return frame.assign(annotation_id=[f"{i:016x}" for i in rng.permutation(len(frame))])


def rows() -> Iterator[Row]:
    """Split 180,000 images; the plain way draws them at random and does not balance the classes."""
    table = annotations()

    def plain():
        images = table[["source", "image"]].drop_duplicates()
        part = np.random.default_rng(0).choice(["train", "val", "test"], len(images), p=[0.7, 0.1, 0.2])
        return table.merge(images.assign(part=part), on=["source", "image"])

    plain_s = seconds(plain, repeats=1)
    library_s = seconds(lambda: splits.within_source(table), repeats=1)
    yield Row(
        "split 180,000 images, 39 classes", "at random, not stratified", plain_s, "splits.within_source", library_s
    )
