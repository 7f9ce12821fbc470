"""Data sets of masks: a value for every pixel of a photo becomes points, by seeded sampling over what is labelled.

=================  ==============================================================  ==================================
format             where photos lie, and their masks                               what a mask says
=================  ==============================================================  ==================================
``coralscapes``    ``leftImg8bit/`` and ``gtFine/``, as Cityscapes; or ``image/``   39 classes; 0 is not labelled
                   and ``label/``, as `unpack` writes the hub's Parquet
``mosaics-ucsd``   ``images/`` and ``labels/``; or ``image/`` and ``label/``        34 classes; 0 is not labelled
``coralscop``      ``images/`` and ``jsons/``: outlines or run lengths, as COCO     coral; the rest is not coral
``coralvos``       ``images/`` and ``masks/``, or ``JPEGImages/`` and               not 0: coral; 0 is not coral
                   ``Annotations/``; a folder for each video
=================  ==============================================================  ==================================

What the values mean is in ``data/domains/classes.csv``; a ``classes.json`` or ``id2label.json`` in the folder counts
before it. A point is drawn from the labelled pixels of a photo, each as likely as any other; with ``points="classes"``
every class of the photo gets as many. Pixels without a label are never drawn. A mask of two values says coral or not,
and nothing finer: not which genus, and not whether the coral is a hard one.
"""

from __future__ import annotations

import io
import json
import re
import sys
import zlib
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw
from tqdm import tqdm

from reefcore import tables
from reefcore.annotations.points import Format, Options, Result, counted
from reefcore.annotations.sheet import Head
from reefcore.errors import ReefcoreError
from reefcore.files import atomic, share
from reefcore.images import ENDINGS, image_size

#: Folder of photos -> the folder of masks beside it, what photos end with, and what their masks may end with instead.
IMAGE_LABEL = ("image", "label", "", ("",))
PAIRS = {
    "coralscapes": (("leftImg8bit", "gtFine", "_leftImg8bit", ("_gtFine", "_gtFine_labelIds")), IMAGE_LABEL),
    "mosaics-ucsd": (("images", "labels", "", ("",)), IMAGE_LABEL),
    "coralscop": (("images", "jsons", "", ("",)),),
    "coralvos": (("images", "masks", "", ("",)), ("JPEGImages", "Annotations", "", ("",))),
}
BINARY = ("coralscop", "coralvos")
CORAL, NOT_CORAL = "coral", "not coral"
KIND_NOT_SAID = "Coral, hard or soft"  # broad_category of a binary mask's coral: no hard coral is claimed
MOST = 65535  # the largest number of a class
NAMES = ("classes.json", "id2label.json")
NOT_LABELLED = ("", "none", "null", "unlabeled", "unlabelled", "unidentified", "void", "ignore")  # as a list may say it
#: What a damaged file, or one that holds something else, makes fail.
WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SyntaxError, RecursionError)
WRONG += (Image.DecompressionBombError, ReefcoreError)
TITLES = {
    "coralscapes": "a folder of Coralscapes: photos with masks of 39 classes",
    "mosaics-ucsd": "a folder of the UCSD mosaics: tiles with masks of 34 classes",
    "coralscop": "a folder of CoralMask, the data of CoralSCOP: photos with outlines of corals",
    "coralvos": "a folder of CoralVOS: frames of videos with masks of corals",
}


@cache
def classes(dataset: str) -> pd.DataFrame:
    """Give what the values of a data set's masks mean: ``value``, ``label``, ``functional_group`` (None: as labelled).

    Only where a label says less than the data set's own description does, as "massive/meandering alive", a group is
    given. "Other coral alive" has soft corals in it by that description: Unclear.
    """
    table = pd.read_csv(share("data", "domains", "classes.csv"), dtype={"functional_group": "str"})
    table = table[table["dataset"] == dataset].drop(columns="dataset").reset_index(drop=True)
    return table.assign(functional_group=table["functional_group"].where(table["functional_group"].notna()))


def _named(dataset: str, head: Head) -> dict[int, str]:
    """Say which class each value is: by the folder's own list, else by ours."""
    known = dict(zip(*(classes(dataset)[name] for name in ("value", "label")), strict=True))
    own = next((name for name in head.names if Path(name).name in NAMES), None)
    if own is None or dataset in BINARY:
        tiles = dataset == "mosaics-ucsd" and any("/labels/" in f"/{name}" for name in head.names)
        if tiles:  # in this layout 34 is said to be "unidentified", and the others may count from 0
            do = "put its list there as classes.json: a list of {id, name}, or an object name: id"
            raise ReefcoreError("what the values of these masks mean is not known", head.path, do)
        return known
    try:
        said = json.loads((head.path / own).read_text(encoding="utf-8-sig"))
        pairs = [(one["id"], one["name"]) for one in said] if isinstance(said, list) else said.items()
        pairs = [(a, b) if str(a).lstrip("-").isdigit() else (b, a) for a, b in pairs]
        named = {int(value): str(name).strip() for value, name in pairs}
        if not all(0 <= value <= MOST for value in named):
            raise ValueError(f"an id is not between 0 and {MOST}")
        return {value: name for value, name in named.items() if name.lower() not in NOT_LABELLED}
    except WRONG as error:
        do = "give a list of {id, name}, or an object that names the ids"
        raise ReefcoreError(f"this list of classes cannot be read ({error})", head.path / own, do) from None


def pairs(dataset: str, names: list[str]) -> tuple[list[tuple[str, str]], Counter]:
    """Find photos and their masks among the files of a folder.

    Parameters
    ----------
    dataset : str
        A format above.
    names : list of str
        Paths relative to the folder, with ``/``.

    Returns
    -------
    pairs : list of (photo, mask), sorted
    left_out : Counter
        Masks without a photo, photos without a mask.
    """
    there, found, used, alone = set(names), [], set(), 0
    masks = 0
    for photos, labels, tail, tails in PAIRS[dataset]:
        endings = (".json",) if labels == "jsons" else (".png", ".PNG")
        masks += sum(f"/{labels}/" in f"/{name}" and name.lower().endswith(endings) for name in names)
        for name in names:
            stem, dot, ending = name.rpartition(".")
            if f"/{photos}/" not in f"/{name}" or f"{dot}{ending}".lower() not in ENDINGS:
                continue
            where = f"/{stem.removesuffix(tail)}".replace(f"/{photos}/", f"/{labels}/", 1)[1:]
            mask = next((m for t in tails for e in endings if (m := f"{where}{t}{e}") in there), None)
            alone += mask is None
            if mask is not None:
                found.append((name, mask))
                used.add(mask)
    left = Counter({"a photo without a mask": alone, "a mask without a photo": masks - len(used)})
    return sorted(found), +left


def runs(counts: list[int] | str, height: int, width: int) -> np.ndarray:
    """Decode COCO's run lengths, plain or as its compressed text: bool, shape (height, width).

    Runs go down the columns and alternate between outside and inside, beginning outside. In the text each number is a
    few letters of six bits, five of them its own, the lowest first; from the third number on it is the difference to
    the one two before.
    """
    if isinstance(counts, str):
        numbers, at = [], 0
        while at < len(counts):  # a text that ends within a number is an IndexError
            value, shift, more = 0, 0, True
            while more:
                bits = ord(counts[at]) - 48
                value |= (bits & 0x1F) << shift
                more, at, shift = bool(bits & 0x20), at + 1, shift + 5
            if bits & 0x10:
                value |= -1 << shift
            numbers.append(value + numbers[-2] if len(numbers) > 2 else value)
        counts = numbers
    counts = np.asarray(counts, dtype="int64")
    if (counts < 0).any() or counts.sum() != height * width:
        raise ValueError(f"run lengths of {counts.sum()} pixels for {height * width}")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T


def _outlined(path: Path) -> np.ndarray:
    """Read a JSON of one photo: 1 where any of its segments is, else 0."""
    said = json.loads(path.read_text(encoding="utf-8-sig"))
    height, width = int(said["image"]["height"]), int(said["image"]["width"])
    if not 0 < height * width <= Image.MAX_IMAGE_PIXELS:
        raise ValueError(f"a photo of {width} x {height} pixels")
    mask = Image.new("L", (width, height))
    inside = np.zeros((height, width), bool)
    for one in said["annotations"]:
        segment = one["segmentation"]
        if isinstance(segment, dict):
            if [int(side) for side in segment["size"]] != [height, width]:
                raise ValueError("run lengths of another size than the photo")
            inside |= runs(segment["counts"], height, width)
        elif not isinstance(segment, list):  # without it, coral would be taken for none
            raise ValueError("an annotation without an outline")
        for ring in segment if isinstance(segment, list) else ():
            corners = [float(value) for value in ring]
            if not np.isfinite(corners).all():
                raise ValueError("an outline with a corner that is no number")
            if len(corners) >= 6:
                ImageDraw.Draw(mask).polygon(corners, fill=1)
    return (inside | (np.asarray(mask) > 0)).astype("uint8")


def values(path: Path, binary: bool) -> np.ndarray:
    """Read a mask as whole numbers, shape (height, width); of a binary one 1 is coral.

    Raises
    ------
    ValueError
        Where it is no mask, or has colours that nobody says the meaning of.
    """
    if path.suffix == ".json":
        return _outlined(path)
    with Image.open(path) as image:
        bands = [name for name in image.getbands() if name != "A"]  # how opaque a pixel is says nothing of coral
        found = np.asarray(image)  # of a palette, the numbers and not the colours
    if found.ndim == 3:
        found = found[..., 0] if len(bands) == 1 else found[..., : len(bands)]
    if found.ndim == 3 and binary:
        found = found.any(axis=2)
    if found.ndim != 2:
        raise ValueError("a mask of colours")
    if found.min(initial=0) < 0 or (found.max(initial=0) > MOST and not binary):
        raise ValueError("a mask of other numbers than classes")
    return (found > 0).astype("uint8") if binary else found.astype("uint8") if found.dtype == bool else found


def draw(mask: np.ndarray, known: list[int], n: int, by_class: bool, image: str, seed: int) -> np.ndarray:
    """Draw pixels of a mask that have a class, no pixel twice.

    Parameters
    ----------
    mask : ndarray of int, shape (height, width)
    known : list of int
        The values that are classes; no other pixel is drawn.
    n : int
        Pixels; all of them where there are fewer.
    by_class : bool
        The same number of each class that is there (as far as it has so many pixels), instead of uniformly.
    image : str
        The draw depends on it and on `seed`, on no other photo.
    seed : int

    Returns
    -------
    ndarray of int, shape (drawn,)
        Positions in the flat mask, rising.
    """
    random = np.random.default_rng([seed, zlib.crc32(image.encode())])
    flat, used = mask.ravel(), np.zeros(MOST + 1, bool)
    used[known] = True
    there = np.flatnonzero(np.bincount(flat, minlength=MOST + 1)[: MOST + 1] * used)
    groups = [np.flatnonzero(flat == value) for value in there] if by_class else [np.flatnonzero(used[flat])]
    each = -(-n // max(len(groups), 1))
    some = [g[random.choice(len(g), min(each, len(g)), replace=False, shuffle=False)] for g in groups if len(g)]
    drawn = np.concatenate(some) if some else np.zeros(0, "int64")
    return np.sort(drawn if len(drawn) <= n else random.choice(drawn, n, replace=False))


def _reader(dataset: str):
    def read(head: Head, options: Options) -> Result:
        """Draw points from every photo of a folder; a record is a photo or a mask without one."""
        shards = [name for name in head.names if name.endswith(".parquet")]
        found, left = pairs(dataset, [name.replace("\\", "/") for name in head.names])
        if not found:
            do = "unpack them: reefcore.annotations.masks.unpack(folder)" if shards else "see the page of the format"
            what = f"{counted(len(shards), 'Parquet file')} of photos and masks" if shards else "no photo with a mask"
            raise ReefcoreError(f"this folder holds {what}", head.path, do)
        names, source = _named(dataset, head), options.source or head.path.resolve().name
        groups = classes(dataset).set_index("label")["functional_group"]
        parts, problems, unknown, binary = [], [], Counter(), dataset in BINARY
        for photo, mask in tqdm(found, desc="masks", unit="photo", disable=not sys.stderr.isatty()):
            try:
                width, height = image_size(head.path / photo)
                pixels = values(head.path / mask, binary)
                if pixels.shape != (height, width):
                    raise ValueError(
                        f"it has {pixels.shape[1]} x {pixels.shape[0]} pixels, its photo {width} x {height}"
                    )
            except WRONG as error:
                left["a mask or photo that cannot be read, or that do not fit"] += 1
                problems.append((None, "", f"{mask}: {getattr(error, 'what', error)}; left out"))
                continue
            unknown.update(set(np.flatnonzero(np.bincount(pixels.ravel())).tolist()) - set(names) - {0})
            at = draw(pixels, list(names), options.sample, options.points == "classes", photo, options.seed)
            if not len(at):
                left["a photo with nothing labelled"] += 1
                continue
            rows, columns = np.divmod(at, width)
            labels = [names[value] for value in pixels.ravel()[at]]
            part = {"image": photo, "row": rows, "column": columns, "label_raw": labels, "width": width}
            parts.append(pd.DataFrame(part | {"height": height}))
        if unknown:
            said = ", ".join(f"{value} ({counted(n, 'mask')})" for value, n in sorted(unknown.items()))
            problems.append((None, "", f"values without a class were never drawn: {said}"))
        blank = pd.DataFrame(columns=["image", "row", "column", "label_raw", "width", "height"])
        frame = pd.concat(parts, ignore_index=True) if parts else blank
        kinds = dict.fromkeys(("image", "label_raw"), "str") | dict.fromkeys(("row", "column"), "int64")
        frame = frame.astype(kinds | dict.fromkeys(("width", "height"), "Int64")).assign(source=source, rule="drawn")
        if binary:
            broad = frame["label_raw"].map({CORAL: KIND_NOT_SAID, NOT_CORAL: "Not coral"})
            frame = frame.assign(label=frame["label_raw"], rank="other", broad_category=broad)
        else:
            frame["group_in_file"] = frame["label_raw"].map(groups).astype("str")
        frame, rest = tables.check(tables.complete(frame), "annotations")
        assert rest.empty, rest
        return Result(
            frame, problems, len(found) + left["a photo without a mask"] + left["a mask without a photo"], dict(left)
        )

    return read


def unpack(folder: str | Path) -> int:
    """Write the photos and masks of the hub's Parquet files as ``<split>/image/`` and ``<split>/label/`` beside them.

    The files are those that ``hf download ... --repo-type dataset`` gives: columns ``image`` and ``label`` with the
    bytes of a file each. What is there is left as it is, so that the call can be repeated after it was killed.

    Parameters
    ----------
    folder : path

    Returns
    -------
    int
        Photos in the Parquet files.

    Raises
    ------
    ReefcoreError
        Where a file cannot be read, or holds something else.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder, number = Path(folder), 0
    for path in sorted(folder.rglob("*.parquet")):
        split = re.match(r"[A-Za-z0-9]+", path.name)
        where = folder / (split[0] if split else "all")
        try:
            batches = pq.ParquetFile(path).iter_batches(8, columns=["image", "label"])
            for index, row in enumerate(row for batch in batches for row in batch.to_pylist()):
                stem = f"{path.stem}-{index:05d}"
                for kind in ("label", "image"):  # the photo last: a mask without one is counted, not lost
                    data = row[kind]["bytes"]
                    with Image.open(io.BytesIO(data)) as image:
                        target = where / kind / f"{stem}.{'jpg' if image.format == 'JPEG' else 'png'}"
                    if not target.exists():
                        target.parent.mkdir(parents=True, exist_ok=True)
                        with atomic(target) as temporary:
                            Path(temporary).write_bytes(data)
                number += 1
        except (pa.ArrowException, *WRONG) as error:
            raise ReefcoreError(
                f"this Parquet file has no photos and masks to unpack ({error})", path, "download it again"
            ) from None
    return number


def _lies(dataset: str):
    def recognise(head: Head) -> bool:
        if head.kind != "folder":
            return False
        names = [f"/{name}" for name in head.names]
        if dataset == "mosaics-ucsd":
            return any(re.search(r"/labels/.*(FR|PAL)\w*_\d+_\d+_\d+_\d+\.png$", name) for name in names)
        return any(
            any(f"/{a}/" in name for name in names) and any(f"/{b}/" in name for name in names)
            for a, b, *_ in PAIRS[dataset]
            if (a, b) != IMAGE_LABEL[:2]
        )

    return recognise


FORMATS = [Format(name, title, _lies(name), _reader(name), kinds=("folder",)) for name, title in TITLES.items()]
