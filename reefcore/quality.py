"""Photos to look at again: twice the same, blurred, dark, washed out, small, damaged.

Everything comes from the table of `reefcore.covariates`; a photo is flagged, never dropped.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore.covariates import RGB, near_duplicates

__all__ = ["FLAGS", "photos"]

FLAGS = ("duplicate", "near-duplicate", "blurred", "dark", "overexposed", "small", "unreadable")
BITS = 8  # of 64 that the hashes of near-duplicates may differ in
FAR = 3.0  # robust standard deviations below the site's median that count as blurred
SHARP = 20.0  # variance of the Laplacian under which any photo is blurred
DARK, BRIGHT = 40.0, 215.0  # mean luma of 0..255
SMALL, LESS = 0.1, 0.25  # megapixels, and part of the site's median
COLUMNS = ["source", "image", "flag", "value", "of", "text"]


def photos(
    covariates: pd.DataFrame, unreadable: pd.DataFrame | None = None, points: pd.DataFrame | None = None
) -> pd.DataFrame:
    """List what is the matter with photos.

    Parameters
    ----------
    covariates, unreadable : DataFrame
        See `reefcore.covariates.table`.
    points : DataFrame, optional
        Annotations (``source``, ``image``): near-duplicates that both have points are warned of, for they are no
        independent samples.

    Returns
    -------
    DataFrame
        ``source``, ``image``, ``flag``, ``value``, ``of`` (the threshold), ``text``; in the order of `FLAGS`, then by
        name. ``duplicate``: the hash, size and mean colour of another photo (value: bits that differ). ``near-
        duplicate``: a hash up to 8 bits apart. ``blurred``: sharpness (variance of the Laplacian) below 20, or so far
        below the others that its logarithm is 3 robust standard deviations (of 5 photos or more) under their median.
        ``dark``, ``overexposed``: mean luma under 40, over 215. ``small``: under a quarter of the
        median megapixels, or 0.1 where the median is more. ``unreadable``: text is the reason; value and of are NA.
    """
    table, rows = covariates.sort_values(["source", "image"], ignore_index=True), []
    names = list(table[["source", "image"]].itertuples(index=False, name=None))
    rows += _alike(table, names, points)
    sharp = table["sharpness"].where(table["sharpness"] > 0, 1e-3).where(table["sharpness"].notna())
    least = SHARP
    if sharp.notna().sum() >= 5:
        log = np.log(sharp)
        spread = 1.4826 * (log - log.median()).abs().median()  # of a normal distribution, its standard deviation
        least = max(least, float(np.exp(log.median() - FAR * spread))) if spread > 0 else least
    usual = float(table["megapixels"].median()) if len(table) else SMALL
    smallest = max(SMALL, LESS * usual) if usual >= SMALL else LESS * usual  # all small is no matter of single photos
    checks = [
        ("blurred", "sharpness", least, -1, "blurred: sharpness {:.0f}, where this site's photos have {:.0f} or more"),
        ("dark", "brightness", DARK, -1, "dark: a mean brightness of {:.0f} of 255, under {:.0f}"),
        ("overexposed", "brightness", BRIGHT, 1, "washed out: a mean brightness of {:.0f} of 255, over {:.0f}"),
        ("small", "megapixels", smallest, -1, "small: {:.2f} megapixels, under {:.2f}"),
    ]
    for flag, column, limit, sign, text in checks:
        for place in np.flatnonzero(sign * (table[column] - limit) > 0):
            value = float(table[column].iloc[place])
            rows.append((*names[place], flag, value, limit, text.format(value, limit)))
    if unreadable is not None:
        for source, image, reason in unreadable[["source", "image", "reason"]].itertuples(index=False, name=None):
            rows.append((source, image, "unreadable", np.nan, np.nan, reason))
    found = pd.DataFrame(rows, columns=COLUMNS)
    found["order"] = found["flag"].map({flag: i for i, flag in enumerate(FLAGS)})
    found = found.sort_values(["order", "source", "image", "text"], ignore_index=True).drop(columns="order")
    return found.astype({"value": "float64", "of": "float64"})


def _alike(table: pd.DataFrame, names: list[tuple], points: pd.DataFrame | None) -> list[tuple]:
    if not len(table):
        return []
    labelled = set() if points is None else set(points[["source", "image"]].itertuples(index=False, name=None))
    facts = table[["width", "height", *RGB]].set_axis(pd.MultiIndex.from_tuples(names)).round(3)
    several, rows = table["source"].nunique() > 1, []
    for source_a, image_a, source_b, image_b, bits in near_duplicates(table, BITS).itertuples(index=False, name=None):
        a, b = (source_a, image_a), (source_b, image_b)
        same = bits == 0 and (facts.loc[a] == facts.loc[b]).all()
        both = "; both have points, and are not independent samples" if {a, b} <= labelled else ""
        for one, other in ((a, b), (b, a)):
            name = "/".join(other) if several else other[1]
            text = f"the same photo as {name}" if same else f"looks like {name} ({bits} of 64 bits differ)"
            flag = "duplicate" if same else "near-duplicate"
            rows.append((*one, flag, float(bits), 0.0 if same else float(BITS), text + both))
    return rows
