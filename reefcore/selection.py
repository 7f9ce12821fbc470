"""A subset of the data for a purpose: by place, taxon, agreement, resolution, colour and how points were laid out.

The paper releases its metadata "to facilitate the creation of customized sub-datasets" (A.2.5); this makes one, with
its attribution and its description beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from reefcore import attribution, covariates, croissant, review, spreadsheets
from reefcore.errors import ReefcoreError
from reefcore.files import atomic, write_parquet
from reefcore.tables import plain

#: Criterion -> the column of the annotations it names values of.
NAMED = {"ecoregion": "ecoregion", "realm": "realm", "genus": "label", "source": "source"}


def select(
    annotations: pd.DataFrame,
    *,
    ecoregion: Iterable[str] = (),
    realm: Iterable[str] = (),
    genus: Iterable[str] = (),
    source: Iterable[str] = (),
    min_agreement: float | None = None,
    megapixels: tuple[float, float] | None = None,
    like: pd.DataFrame | str | None = None,
    max_colour_distance: float = 20.0,
    layout: Iterable[str] = (),
    points: tuple[int, int] | None = None,
    sources: pd.DataFrame | None = None,
    images: pd.DataFrame | None = None,
    reviews: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Select annotations; every criterion that is given must hold.

    Parameters
    ----------
    annotations : DataFrame
        The annotations table; its texts may be categories.
    ecoregion, realm, genus, source : iterable of str
        Names to keep, as they stand in the table (genus: the label, so Fungiidae too); empty keeps all.
    min_agreement : float, optional
        Least expert agreement of a source-label pair, in [0, 1]; what was never reviewed goes. Needs `reviews`.
    megapixels : (float, float), optional
        Least and largest size of a photo. Needs `images`.
    like : DataFrame or str, optional
        Photos to resemble in colour: a covariates table, or the name of a source. Needs `images`.
    max_colour_distance : float
        How far the colours of a source may be from `like`, in levels of 0..255 (`reefcore.covariates.like`).
    layout : iterable of str
        How points were laid out: simple random, stratified random, uniform grid (A.2.4). Needs `sources` with a column
        ``layout``.
    points : (int, int), optional
        Least and largest number of points on an image, counted before anything is selected.
    sources, images, reviews : DataFrame, optional
        The tables of sources, of covariates of the photos (`reefcore.covariates.table`), and of reviews.

    Returns
    -------
    selected : DataFrame
        Rows of `annotations`, in their order, duplicates of an id once, texts plain.
    steps : DataFrame
        ``criterion``, ``annotations``, ``images``, ``sources``, ``labels`` left after each, the whole table first.

    Raises
    ------
    ReefcoreError
        Where a name is not in the table (with the nearest ones), a table that a criterion needs is missing, a range is
        upside down, or nothing is left (with the criterion that removed the last).
    """
    given = {"ecoregion": ecoregion, "realm": realm, "genus": genus, "source": source}
    left = annotations.drop_duplicates("annotation_id")
    per_image = left.groupby(["source", "image"])["annotation_id"].transform("size")
    steps = []

    def narrow(criterion: str, keep=None) -> None:
        nonlocal left
        left = left if keep is None else left[keep]
        count = left.groupby("source")["image"].nunique()
        steps.append((criterion, len(left), int(count.sum()), len(count), left["label"].nunique()))
        if not len(left):
            raise ReefcoreError(
                f"nothing is left after {criterion}", do="ask for less, or check the criteria before it"
            )

    narrow("all annotations")
    for name, column in NAMED.items():
        if wanted := list(given[name]):
            _known(wanted, annotations[column], name)
            narrow(f"{name}: {', '.join(wanted)}", left[column].isin(wanted))
    if layout := list(layout):
        table = _needed(sources, "layout", "sources", ["source", "layout"])
        _known(layout, table["layout"], "layout")
        narrow(f"layout: {', '.join(layout)}", left["source"].isin(table.loc[table["layout"].isin(layout), "source"]))
    if points is not None:
        low, high = _range(points, "points")
        narrow(f"{low} to {high} points per image", per_image.reindex(left.index).between(low, high))
    if megapixels is not None:
        low, high = _range(megapixels, "megapixels")
        table = _needed(images, "megapixels", "covariates of the photos", ["source", "image", "megapixels"])
        fits = table[table["megapixels"].between(low, high)]
        narrow(f"photos of {low:g} to {high:g} megapixels", _on(left, fits, ["source", "image"]))
    if like is not None:
        if not max_colour_distance >= 0:
            raise ReefcoreError(f"a colour distance of {max_colour_distance} is negative", do="give 0 to 255 levels")
        table = _needed(images, "like", "covariates of the photos", ["source", "image", "red", "green", "blue"])
        if isinstance(like, str):
            _known([like], table["source"], "like")
        near = covariates.like(table, table[table["source"] == like] if isinstance(like, str) else like)
        near = near.loc[near["distance"] <= max_colour_distance, "source"]
        wanted = like if isinstance(like, str) else ", ".join(sorted(like["source"].unique()))
        narrow(f"colour within {max_colour_distance:g} levels of {wanted}", left["source"].isin(near))
    if min_agreement is not None:
        review.check_fractions(min_agreement=min_agreement)
        table = _needed(reviews, "min_agreement", "reviews", ["annotation_id", "verdict"])
        pairs = review.agreement(table, annotations, ["source", "label"])
        pairs = pairs[pairs["agreement"] >= min_agreement]
        narrow(f"expert agreement of at least {min_agreement:.0%}", _on(left, pairs, ["source", "label"]))
    return plain(left), pd.DataFrame(steps, columns=["criterion", "annotations", "images", "sources", "labels"])


def _on(left: pd.DataFrame, table: pd.DataFrame, by: list[str]) -> pd.Series:
    """Tell which rows stand in a table, by these columns."""
    found = pd.MultiIndex.from_frame(left[by]).isin(pd.MultiIndex.from_frame(table[by]))
    return pd.Series(found, index=left.index)


def _known(wanted: list[str], values: pd.Series, name: str) -> None:
    import difflib

    known = sorted(values.dropna().unique())
    for value in wanted:
        if value not in known:
            near = difflib.get_close_matches(value, known, n=3, cutoff=0.4) or known[:5]
            raise ReefcoreError(f"no {name} is called {value!r}", do=f"did you mean {', '.join(near)}?")


def _range(pair: tuple, name: str) -> tuple:
    low, high = pair
    if not low <= high:
        raise ReefcoreError(f"{name}={low},{high} is upside down", do="give the least first")
    return low, high


def _needed(table: pd.DataFrame | None, criterion: str, name: str, columns: list[str]) -> pd.DataFrame:
    if table is None or not set(columns) <= set(table):
        raise ReefcoreError(
            f"{criterion} needs a table of {name} with {', '.join(columns)}", do="give it, or leave the criterion out"
        )
    return table


def write(
    selected: pd.DataFrame,
    steps: pd.DataFrame,
    folder: str | Path,
    sources: pd.DataFrame | None = None,
    notice: str = "",
) -> list[Path]:
    """Write a selection with everything that must go with it.

    Parameters
    ----------
    selected, steps : DataFrame
        From `select`.
    folder : path
        Receives ``annotations.parquet``, ``steps.csv`` (how it came about), ``attribution.csv``, ``CITATION.cff`` and
        ``croissant.json``.
    sources : DataFrame, optional
        With contributors of its own (see `reefcore.attribution.attribution`).
    notice : str
        What every copy must say of these data, such as that they are synthetic; a sentence.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ReefcoreError
        Where `folder` is a file, or holds other things than an earlier selection.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ReefcoreError("this is a file, not a folder", folder, "name a new folder for the selection")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "croissant.json").exists():
        raise ReefcoreError("this folder holds other things", folder, "name a new folder for the selection")
    names = sorted(selected["source"].unique())
    own = pd.DataFrame({"source": names}, dtype="str")
    if sources is not None:
        own = own.merge(sources.drop_duplicates("source"), on="source", how="left")
    attributed = attribution.attribution(own)
    said = "; ".join(steps["criterion"].iloc[1:]) or "everything"
    title = f"Selection of {len(selected):,} coral annotations from {len(names)} sources ({said})"
    title = f"{title}. {notice}" if notice else title
    licences = sorted(attributed["licence"].dropna().unique())
    table = write_parquet(selected, folder / "annotations.parquet")
    described = croissant.describe(
        table, selected, "reefnet-selection", title, ", ".join(licences) or "unknown", "See CITATION.cff."
    )
    texts = {
        "steps.csv": spreadsheets.csv(steps),
        "attribution.csv": spreadsheets.csv(attributed),
        "CITATION.cff": attribution.citation(attributed, title),
        "croissant.json": json.dumps(described, indent=2, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        with atomic(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [table, *(folder / name for name in texts)]
