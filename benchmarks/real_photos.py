"""Run the library on real photographs, which are not part of the project, and print what came out.

``python -m benchmarks.real_photos --rsmas DIR --reef DIR --out DIR``

``--rsmas`` is a folder of the RSMAS data set (one folder per class, 256-pixel patches of real corals; Gomez-Rios et
al., 2019): grouped 5-fold training and evaluation. ``--reef`` is a folder with whole reef photos and an
``i0201_annotations.csv`` of their points: read, cut, and shown as a labelled contact sheet.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import fft
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import StratifiedGroupKFold

from reefcore import annotations, metrics, patches, recipes
from reefcore.images import decode

SIDE = 48  # thumbnails for the search of overlaps
OVERLAP = 0.3  # of a thumbnail, at least
CORRELATION = 0.75  # of two thumbnails where they overlap: at this level most pairs by eye are of one photo
COLOUR = 40  # largest difference of two mean colours in any channel, in levels of 255


def overlap_groups(images: list[Image.Image], labels: np.ndarray) -> np.ndarray:
    """Group patches that show the same place: duplicates, and overlapping crops of one photo.

    Two patches of a class are joined where their gray thumbnails, at some shift that leaves an overlap of `OVERLAP`,
    correlate above `CORRELATION`, and their mean colours agree within `COLOUR`; joined pairs make groups by union-find.
    Crops of one photo that do not overlap stay apart, so some of the kinship remains.

    Returns
    -------
    ndarray of int, shape (n,)
        The group of each patch.
    """
    gray = np.stack([np.asarray(i.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX), np.float32) for i in images])
    gray -= gray.mean(axis=(1, 2), keepdims=True)
    colour = np.stack([np.asarray(i.resize((1, 1), Image.Resampling.BOX), np.float32).ravel() for i in images])
    shape = (2 * SIDE, 2 * SIDE)
    first, second = fft.rfft2(gray, shape), fft.rfft2(gray**2, shape)
    ones = fft.rfft2(np.ones((SIDE, SIDE), np.float32), shape)

    def sums(a, b):  # of products over the overlap, at every shift at once
        return fft.irfft2(a * np.conj(b), shape)

    n = np.maximum(sums(ones, ones).round(), 1)
    enough = n >= OVERLAP * SIDE**2
    pairs = []
    for i in range(len(images) - 1):
        others = np.arange(i + 1, len(images))
        others = others[(labels[others] == labels[i]) & (np.abs(colour[others] - colour[i]).max(axis=1) < COLOUR)]
        if not len(others):
            continue
        mean_a, mean_b = sums(first[i], ones) / n, sums(ones, first[others]) / n
        var_a, var_b = sums(second[i], ones) / n - mean_a**2, sums(ones, second[others]) / n - mean_b**2
        covariance = sums(first[i], first[others]) / n - mean_a * mean_b
        structured = enough & (var_a > 4) & (var_b > 4)  # a flat overlap correlates with anything
        r = np.where(structured, covariance / np.sqrt(np.maximum(var_a, 1) * np.maximum(var_b, 1)), -1)
        pairs += [(i, j) for j in others[r.max(axis=(1, 2)) > CORRELATION]]
    graph = coo_array((np.ones(len(pairs)), np.array(pairs, dtype=int).reshape(-1, 2).T), shape=(len(images),) * 2)
    return connected_components(graph, directed=False)[1]


def _fold(task) -> np.ndarray:
    """Train on four folds and predict the fifth; the last epoch is kept, so nothing of the fifth is looked at."""
    from reefcore.fitting import fit, predict

    recipe, x, y, classes, train, test, seed = task
    every = patches.ArrayPatches(x, [str(i) for i in range(len(x))])
    fitted = fit(recipe, every, (train, y[train]), (train[:0], y[:0]), classes, seed=seed)
    return predict(fitted, (every, test)).argmax(axis=1)


def cross_validate(folder: Path, recipe: recipes.Recipe, grouped: bool = True, workers: int = 2, seed: int = 0) -> None:
    """Print macro F1 and macro recall of a recipe over five folds of a folder with one folder per class."""
    started = time.perf_counter()
    files = sorted(folder.glob("*/*.jpg"))
    images = [Image.fromarray(decode(file)[0]) for file in files]
    labels = np.array([file.parent.name for file in files])
    classes, y = np.unique(labels, return_inverse=True)
    groups = overlap_groups(images, labels)
    size = recipe.input_size
    x = np.stack([np.asarray(i.resize((size, size), Image.Resampling.BILINEAR)) for i in images])
    sizes = np.bincount(groups)
    print(f"{len(files)} patches, {len(classes)} classes, {len(sizes)} groups, the largest of {sizes.max()} patches")
    by = groups if grouped else np.arange(len(files))
    folds = list(StratifiedGroupKFold(5, shuffle=True, random_state=seed).split(x, y, by))
    tasks = [(recipe, x, y, list(classes), train, test, seed) for train, test in folds]
    predicted = np.empty_like(y)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for (_, test), answer in zip(folds, pool.map(_fold, tasks), strict=True):
            predicted[test] = answer
    table = metrics.bootstrap(labels, classes[predicted], groups, n=1000, seed=seed).set_index("metric")
    how = "groups kept together" if grouped else "groups torn apart"
    for name in ("macro_f1", "macro_recall"):
        value, low, high = table.loc[name, ["value", "ci_low", "ci_high"]]
        print(f"{recipe.name}, {size} px, 5 folds, {how}: {name} {value:.3f} [{low:.3f}, {high:.3f}]")
    print(f"took {time.perf_counter() - started:.0f} s")


def contact_sheet(folder: Path, out: Path, size: int = 224) -> None:
    """Read the annotated quadrats, cut their patches, and write the labelled sheet; then open every other photo."""
    from reefcore.figures.sheets import contact_sheet as draw

    points = annotations.read(folder / "i0201_annotations.csv")
    cut, skipped = patches.cut(points, folder, size)
    kept = points[~points["annotation_id"].isin(skipped["annotation_id"])]
    print(f"{len(points)} points ({points.attrs['format']}), {len(cut)} patches, {len(skipped)} skipped")
    sheet = out / "contact_sheet.png"
    draw(cut, kept["label_raw"], title="Two real quadrats: the patch around each annotated point").savefig(sheet)
    print(f"contact sheet: {sheet}")
    for file in sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".png")):
        pixels, truncated = decode(file)
        height, width = pixels.shape[:2]
        print(f"{file.name}: {width} x {height}{', ends early: decoded as far as it goes' * truncated}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_photos", description="Run on real photographs.")
    parser.add_argument("--rsmas", type=Path, help="folder with one folder of patches per class")
    parser.add_argument("--reef", type=Path, help="folder with i0201_annotations.csv and its photos")
    parser.add_argument("--out", type=Path, default=Path("build"), help="where the contact sheet is written")
    parser.add_argument("--recipes", nargs="*", default=["efficientnet_b4"], help="recipes to train")
    parser.add_argument("--size", type=int, default=96, help="side of the input in pixels")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2, help="folds trained at a time")
    parser.add_argument(
        "--torn", action="store_true", help="ignore the groups when folding, to see what they are worth"
    )
    options = parser.parse_args()
    if options.reef:
        options.out.mkdir(parents=True, exist_ok=True)
        contact_sheet(options.reef, options.out)
    for name in options.recipes if options.rsmas else ():
        recipe = recipes.load(name)
        args = {key: options.size for key in recipe.model_args if key == "img_size"}
        recipe = dataclasses.replace(
            recipe, input_size=options.size, epochs=options.epochs, model_args={**recipe.model_args, **args}
        )
        cross_validate(options.rsmas, recipe, grouped=not options.torn, workers=options.workers)


if __name__ == "__main__":
    main()
