"""What a photo says about camera and water before any label: colour, resolution, sharpness (paper, A.2.5).

Everything about a photo comes from its header and one reduced decode, so a survey of 300,000 photos is a matter of an
hour or so on two cores. The tables that compare sources take the table of photos that `table` makes.
"""

from __future__ import annotations

import itertools
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageStat
from tqdm import tqdm

from reefcore.errors import ReefcoreError
from reefcore.images import camera, decode, image_size, photo_path

__all__ = ["colour_distance", "image_size", "like", "mean_rgb", "near_duplicates", "spread", "summary", "table"]

logger = logging.getLogger(__name__)

SIDE = 400  # longer side, in pixels, of the picture that spread, sharpness and hash are measured on
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # Rec. ITU-R BT.601, Section 2.5.1
RGB = ["red", "green", "blue"]
DTYPES = {
    **dict.fromkeys(["source", "image"], "str"),
    **dict.fromkeys(["width", "height"], "int64"),
    **dict.fromkeys(
        ["megapixels", "aspect", *RGB, "red_sd", "green_sd", "blue_sd", "brightness", "sharpness"], "float"
    ),
    **dict.fromkeys(["camera", "phash"], "str"),
}
COLUMNS = list(DTYPES)


def mean_rgb(path: str | Path) -> tuple[float, float, float]:
    """Average the colour of a photo over all its pixels.

    A JPEG of 12 megapixels is decoded at an eighth of its size, where every pixel already is the mean of a block of
    8 x 8: nine times faster than a full decode, and within 0.1 level of it on ordinary photos (0.6 where much of it is
    clipped black or white). Blocks cut by the border count by their area. Smaller photos are reduced less.

    Returns
    -------
    red, green, blue : float
        In 0..255. Of a JPEG that ends early, with the decoder's gray for what is missing; the log says so.

    Raises
    ------
    ReefcoreError
        Where the photo cannot be read.
    """
    pixels, truncated = decode(path, SIDE)
    if truncated:
        logger.warning("%s ends early; the rest of the photo is filled by the decoder.", path)
    red, green, blue = _mean(pixels, image_size(path)).tolist()
    return red, green, blue


def _mean(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Average reduced pixels, each by how many of the photo's pixels it stands for."""
    block = round(max(size) / max(pixels.shape[:2]))
    across, down = (
        np.minimum(full - block * np.arange(small), block).astype(np.float32)
        for full, small in zip(size, pixels.shape[1::-1], strict=True)
    )
    rows = down @ pixels.reshape(len(down), -1).astype(np.float32)
    return across @ rows.reshape(len(across), 3) / (across.sum() * down.sum())


def _measure(path: Path) -> tuple:
    """Measure one photo: the columns after source and image."""
    import imagehash
    from scipy import ndimage

    width, height = image_size(path)
    pixels, truncated = decode(path, SIDE)
    if truncated:
        raise ReefcoreError("this photo ends early, and the decoder's gray would count as its colour", path)
    mean = _mean(pixels, (width, height))
    picture = Image.fromarray(pixels)
    if max(picture.size) > SIDE:
        picture = picture.resize(
            [max(1, round(side * SIDE / max(width, height))) for side in (width, height)], Image.Resampling.BOX
        )
    luma = np.asarray(picture, dtype=np.float32) @ LUMA
    return (
        *(width, height, width * height / 1e6, width / height),
        *(*mean, *ImageStat.Stat(picture).stddev, mean @ LUMA),
        float(ndimage.laplace(luma).var()) if max(width, height) >= SIDE else np.nan,
        camera(path),
        str(imagehash.phash(picture)),
    )


def table(images: pd.DataFrame, photos: str | Path, workers: int = 2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Measure many photos.

    Parameters
    ----------
    images : DataFrame
        Columns ``source`` and ``image``; repeated photos are measured once.
    photos : path
        Folder with the photos as ``<source>/<image>``; a single source may lie directly in it.
    workers : int
        Threads; PIL lets others run while it decodes.

    Returns
    -------
    covariates : DataFrame
        Sorted by source and image: ``source``, ``image``; ``width`` and ``height`` in pixels as stored, ``megapixels``,
        ``aspect`` (width / height); ``red``, ``green``, ``blue``, the mean in 0..255 (see `mean_rgb`); ``red_sd``,
        ``green_sd``, ``blue_sd``, their standard deviation over the photo reduced to 400 pixels on its longer side (as
        it is where it is smaller); ``brightness``, the mean of the luma 0.299 R + 0.587 G + 0.114 B; ``sharpness``, the
        variance of the Laplacian of that luma at 400 pixels (low is blurred; Pech-Pacheco et al. 2000,
        doi:10.1109/ICPR.2000.903548), NA where the photo is smaller; ``camera``, make and model as EXIF has them, NA
        without; ``phash``, the 64-bit perceptual hash of the imagehash library, as 16 hexadecimal digits.
    skipped : DataFrame
        ``source``, ``image``, ``reason`` of the photos that could not be read, or not to their end.
    """
    names = images[["source", "image"]].drop_duplicates().sort_values(["source", "image"])
    flat = names["source"].nunique() == 1

    def measure(name):
        try:
            return (*name, *_measure(photo_path(photos, *name, flat))), None
        except ReefcoreError as error:
            return None, (*name, error.what)

    with ThreadPoolExecutor(workers) as pool:
        jobs = pool.map(measure, names.itertuples(index=False, name=None))
        rows = list(tqdm(jobs, "covariates", len(names), unit="photo", disable=not sys.stderr.isatty()))
    skipped = pd.DataFrame([row for _, row in rows if row], columns=["source", "image", "reason"], dtype="str")
    if len(skipped):
        logger.warning("%d of %d photos were not measured: %s.", len(skipped), len(names), skipped["reason"].iat[0])
    return pd.DataFrame([row for row, _ in rows if row], columns=COLUMNS).astype(DTYPES), skipped


def near_duplicates(covariates: pd.DataFrame, distance: int = 4) -> pd.DataFrame:
    """Find pairs of photos that look the same: the same photo saved again, resized or lightly edited.

    Parameters
    ----------
    covariates : DataFrame
        See `table`; ``source``, ``image``, ``phash`` and the standard deviations are read.
    distance : int
        Bits, 0 to 8, that two hashes may differ in. Photos that have nothing to do with each other differ in about 32.

    Returns
    -------
    DataFrame
        ``source_a``, ``image_a``, ``source_b``, ``image_b``, ``bits``, closest first, each pair once.
        ``.attrs["featureless"]`` lists the photos left out as they are one colour (no channel varies by a level), so
        that their hash says nothing.

    Raises
    ------
    ReefcoreError
        Where `distance` is not between 0 and 8.

    Notes
    -----
    Not every pair is compared. The hash is cut into bands, one and a half times as many as bits may differ; in a pair
    within the distance, a third of the bands are equal, so it meets in a sort by some choice of that many bands
    (multi-index hashing, Norouzi et al. 2012, doi:10.1109/CVPR.2012.6248043).
    """
    if not 0 <= distance <= 8:
        raise ReefcoreError(f"near duplicates within {distance} bits cannot be told from chance", do="ask for 0 to 8")
    flat = (covariates[["red_sd", "green_sd", "blue_sd"]] < 1).all(axis=1)
    rows = covariates.loc[~flat, ["source", "image", "phash"]].reset_index(drop=True)
    hashes = np.array([int(value, 16) for value in rows["phash"]], dtype=np.uint64)
    equal = (distance + 1) // 2 or 1
    edges = np.linspace(0, 64, distance + equal + 1).round().astype(int)
    bands = [((1 << int(b)) - 1) ^ ((1 << int(a)) - 1) for a, b in itertools.pairwise(edges)]
    found = [np.empty(0, dtype=np.int64)]
    for chosen in itertools.combinations(bands, equal):
        keys = hashes & np.uint64(sum(chosen))
        order = np.argsort(keys, kind="stable")
        keys, first = keys[order], np.arange(len(order))
        for step in range(1, len(order)):  # sorted, so equal keys lie side by side
            first = first[first < len(order) - step]
            first = first[keys[first] == keys[first + step]]
            if not len(first):
                break
            a, b = order[first], order[first + step]
            near = np.bitwise_count(hashes[a] ^ hashes[b]) <= distance
            found.append(a[near] * len(order) + b[near])  # the sort is stable: within a key, a comes before b
    a, b = np.divmod(np.unique(np.concatenate(found)), max(len(rows), 1))
    pairs = pd.concat(
        [
            rows.loc[a, ["source", "image"]].reset_index(drop=True).add_suffix("_a"),
            rows.loc[b, ["source", "image"]].reset_index(drop=True).add_suffix("_b"),
            pd.Series(np.bitwise_count(hashes[a] ^ hashes[b]).astype(int), name="bits"),
        ],
        axis=1,
    ).sort_values("bits", kind="stable", ignore_index=True)
    pairs.attrs["featureless"] = ["/".join(name) for name in covariates.loc[flat, ["source", "image"]].to_numpy()]
    return pairs


def colour_distance(covariates: pd.DataFrame, by: str = "source") -> pd.DataFrame:
    """Say how far apart the colours of each two sources are.

    The distance is the area between the two distributions of the photos' mean red (the 1-D Wasserstein or earth mover's
    distance; Rubner et al. 2000, doi:10.1023/A:1026543900054), averaged with that of green and of blue: by how many
    levels, on average, a channel of one source would have to be shifted to have the other's colours.

    Parameters
    ----------
    covariates : DataFrame
        `by`, ``red``, ``green``, ``blue`` (see `table`).
    by : str
        The column of groups to compare; photos without an entry are one group, "not recorded".

    Returns
    -------
    DataFrame
        Square and symmetric, groups as index and columns; levels of 255, 0 on the diagonal.

    Raises
    ------
    ReefcoreError
        Where there is no photo.
    """
    groups = _colours(covariates.assign(**{by: covariates[by].astype("str").fillna("not recorded")}), by)
    names = list(groups)
    distances = pd.DataFrame(0.0, index=pd.Index(names, name=by), columns=names)
    for a, b in itertools.combinations(names, 2):
        distances.loc[a, b] = distances.loc[b, a] = _wasserstein(groups[a], groups[b])
    return distances


def like(covariates: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Say which sources look like another set of photos.

    Parameters
    ----------
    covariates, other : DataFrame
        ``red``, ``green``, ``blue`` (see `table`), and ``source`` in `covariates`; `other` is taken as one set.

    Returns
    -------
    DataFrame
        ``source``, ``images``, ``distance`` to the photos of `other` (see `colour_distance`), nearest first; and
        ``overlap``, the fraction of those photos whose red, green and blue all lie in the central 95 % of the source's.

    Raises
    ------
    ReefcoreError
        Where either has no photo.
    """
    groups, mine = _colours(covariates), other[RGB].to_numpy()
    if not len(mine):
        raise ReefcoreError("there is no photo to compare the sources with", do="see why in the table of skipped ones")
    rows = []
    for source, colours in groups.items():
        low, high = np.quantile(colours, [0.025, 0.975], axis=0)
        inside = ((mine >= low) & (mine <= high)).all(axis=1).mean()
        rows.append((source, len(colours), _wasserstein(colours, mine), inside))
    result = pd.DataFrame(rows, columns=["source", "images", "distance", "overlap"])
    return result.sort_values("distance", kind="stable", ignore_index=True)


def _colours(covariates: pd.DataFrame, by: str = "source") -> dict[str, np.ndarray]:
    """Map each group to the mean colours of its photos, shape (n, 3)."""
    if covariates.empty:
        raise ReefcoreError("there is no photo whose colour could be compared", do="see the table of skipped photos")
    return {name: rows[RGB].to_numpy() for name, rows in covariates.groupby(by)}


def _wasserstein(a: np.ndarray, b: np.ndarray) -> float:
    from scipy.stats import wasserstein_distance

    return float(np.mean([wasserstein_distance(a[:, channel], b[:, channel]) for channel in range(3)]))


def spread(covariates: pd.DataFrame) -> pd.DataFrame:
    """Divide the variance of the photos' colour into that between sources and that within them.

    Returns
    -------
    DataFrame
        ``channel`` (red, green, blue, brightness), ``between`` and ``within``, standard deviations in levels of 255
        (each photo counts once), and ``share``, the fraction of the variance that lies between sources.
    """
    channels = [*RGB, "brightness"]
    values = covariates[channels]
    means = values.groupby(covariates["source"]).transform("mean")
    between, within = means.var(ddof=0), (values - means).var(ddof=0)
    parts = {"between": between**0.5, "within": within**0.5, "share": between / (between + within)}
    return pd.DataFrame(parts, index=channels).rename_axis("channel").reset_index()


def summary(covariates: pd.DataFrame) -> pd.DataFrame:
    """Describe each source by its photos.

    Returns
    -------
    DataFrame
        ``source``, ``images``; ``megapixels_min``, ``megapixels`` (median), ``megapixels_max``, ``aspect`` (median);
        ``same_size``, the fraction of photos of the commonest size, upright or across; ``cameras``, how many there are;
        ``red``, ``green``, ``blue`` (medians of the photos' means, 0..255); ``cast``, the largest less the smallest of
        these; ``apart``, whether these two channels' middle halves do not overlap.
    """
    long, short = covariates[["width", "height"]].max(axis=1), covariates[["width", "height"]].min(axis=1)
    groups = covariates.assign(size=long.astype("str") + "x" + short.astype("str")).groupby("source")
    low, middle, high = (groups[RGB].quantile(q) for q in (0.25, 0.5, 0.75))
    source, least, most = np.arange(len(middle)), middle.to_numpy().argmin(axis=1), middle.to_numpy().argmax(axis=1)
    return pd.DataFrame(
        {
            "images": groups.size(),
            "megapixels_min": groups["megapixels"].min(),
            "megapixels": groups["megapixels"].median(),
            "megapixels_max": groups["megapixels"].max(),
            "aspect": groups["aspect"].median(),
            "same_size": groups["size"].agg(lambda sizes: sizes.value_counts(normalize=True).iloc[0]),
            "cameras": groups["camera"].nunique(),
            **{name: middle[name] for name in RGB},
            "cast": middle.max(axis=1) - middle.min(axis=1),
            "apart": high.to_numpy()[source, least] < low.to_numpy()[source, most],
        }
    ).reset_index()
