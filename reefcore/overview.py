"""What a site's tables hold, counted for people: completeness, who labelled, which surveys, how colours compare."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from reefcore import annotations, benthos, comparison, cover
from reefcore.annotations.points import counted
from reefcore.errors import ReefcoreError

WHO = {"person": "people", "machine": "a machine"}
NOT_SAID = "not said"
PHOTO = ["source", "image"]
#: States of checks, the worst first
STATES = ("wrong", "warning", "note", "ok")


def heading(name: str) -> str:
    """Write the name of a column as a person would: ``ci_low`` is low, ``functional_group`` functional group."""
    return {"ci_low": "low", "ci_high": "high"}.get(name, str(name).replace("_", " "))


def _known(values: pd.Series) -> pd.Series:
    """Say which values are there: neither missing nor blank."""
    return values.notna() & (values.astype("str").str.strip() != "")


def units(images: pd.DataFrame, covers: pd.DataFrame) -> pd.DataFrame:
    """List images, and with them the sample units of covers that came without points, as if they were images.

    Returns
    -------
    DataFrame
        The columns of `images`; of a sample unit ``image`` is its name, ``points`` its points as far as they are known,
        ``labelled`` the same, and ``photo`` NA.
    """
    if covers.empty:
        return images
    first = covers.drop_duplicates(["source", "unit"]).rename(columns={"unit": "image"})
    total = first["total"].fillna(0).round().astype("int64")
    first = first.assign(date=pd.to_datetime(first["date"], errors="coerce"), points=total, labelled=total)
    first = first.reindex(columns=images.columns).astype(images.dtypes.to_dict())
    return pd.concat([images, first], ignore_index=True) if len(images) else first.reset_index(drop=True)


def counts(images: pd.DataFrame, points: pd.DataFrame, covers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Count what a site holds.

    Parameters
    ----------
    images, points, covers : DataFrame
        Tables of a site; sample units of covers count as images do, see `units`.

    Returns
    -------
    DataFrame
        ``what``, ``number``, ``from``, ``to`` (text: the range of dates and depths).
    """
    covers = pd.DataFrame({"label_raw": [], "unit": []}) if covers is None else covers
    images = units(images, covers)
    rows = [("images", len(images), "", ""), ("images with points", (images["points"] > 0).sum(), "", "")]
    rows += [("photos found", images["photo"].notna().sum(), "", ""), ("points", len(points), "", "")]
    by = annotations.labelled_by(points)
    rows += [(f"points labelled by {who}", (by == kind).sum(), "", "") for kind, who in WHO.items()]
    rows += [("points whose labeller the export does not name", by.isna().sum(), "", "")]
    rows += [("different labels", pd.concat([points["label_raw"], covers["label_raw"]]).nunique(), "", "")]
    if len(covers):
        number = len(covers[["source", "unit"]].drop_duplicates())
        rows += [("of the images, sample units of covers", number, "", ""), ("rows of covers", len(covers), "", "")]
    for name in ("site", "transect", "photographer", "camera"):
        within = ["site", name] if name == "transect" else [name]  # each site has its own T1
        rows.append((f"{name}s", len(images.loc[_known(images[name]), within].drop_duplicates()), "", ""))
    dates, depth = pd.to_datetime(images["date"]), images["depth"].dropna()
    span = (f"{dates.min():%Y-%m-%d}", f"{dates.max():%Y-%m-%d}") if dates.notna().any() else ("", "")
    rows.append(("days with photos", dates.dt.normalize().nunique(), *span))
    rows.append(
        ("depths", depth.nunique(), *((f"{depth.min():g} m", f"{depth.max():g} m") if len(depth) else ("", "")))
    )
    return pd.DataFrame(rows, columns=["what", "number", "from", "to"])


def completeness(images: pd.DataFrame) -> pd.DataFrame:
    """Say of how many images each thing is known that a report needs.

    An image has all of its points where it has at least as many as most images with points have.

    Returns
    -------
    DataFrame
        ``what``, ``images``, ``of``, ``share`` (fraction; NaN of none), ``missing`` (up to three images without it).
    """
    pointed = images["points"] > 0
    usual = int(images.loc[pointed, "points"].mode().max()) if pointed.any() else 0
    known = {
        "a photo that was found": images["photo"].notna(),
        "points": pointed,
        f"all of its points (here {usual:,})": images["points"].ge(max(usual, 1)),
        "all points labelled by people": pointed & images["labelled"].ge(images["points"]),
        "a position": images["latitude"].notna() & images["longitude"].notna(),
        **{f"a {name}": _known(images[name]) for name in ("date", "site", "transect", "depth", "camera")},
    }
    rows = []
    for what, there in known.items():
        some = ", ".join(images.loc[~there, "image"].astype("str").head(3)) + (", …" if (~there).sum() > 3 else "")
        rows.append((what, int(there.sum()), len(images), some))
    table = pd.DataFrame(rows, columns=["what", "images", "of", "missing"])
    table.insert(3, "share", table["images"] / table["of"].where(table["of"] > 0))
    return table


def people(points: pd.DataFrame) -> pd.DataFrame:
    """Say who labelled what: each annotator (a pseudonym), machine and import, with points, photos and labels.

    Returns
    -------
    DataFrame
        ``annotator``, ``labelled by``, ``points``, ``share``, ``images``, ``labels`` (how many), ``most used``
        (the three commonest labels); the most points first. The shares sum to 1: nobody's points are a row too.
    """
    names = points["annotator"] if "annotator" in points else pd.Series(pd.NA, points.index, "str")
    table = points[[*PHOTO, "label_raw"]].assign(annotator=names.astype("str").fillna(NOT_SAID))
    table["labelled by"] = annotations.labelled_by(points).map(WHO).astype("str").fillna(NOT_SAID)
    rows = []
    for (annotator, who), here in table.groupby(["annotator", "labelled by"]):
        most = here["label_raw"].value_counts().rename_axis("label").reset_index(name="n")
        most = ", ".join(most.sort_values(["n", "label"], ascending=[False, True])["label"].head(3))
        images = len(here[PHOTO].drop_duplicates())
        rows.append((annotator, who, len(here), len(here) / len(table), images, here["label_raw"].nunique(), most))
    columns = ["annotator", "labelled by", "points", "share", "images", "labels", "most used"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["points", "annotator"], ascending=[False, True], ignore_index=True)


def surveys(dates: pd.Series, gap: int = 60, every: str = "survey") -> pd.Series:
    """Name the survey of each photo by its date.

    A survey takes days or weeks: dates belong to one survey where no more than `gap` days lie between one and the next.
    It has the name of the month it began in.

    Parameters
    ----------
    dates : Series of datetime64, or of text that pandas reads as dates
    gap : int
        Days, at least 1.
    every : {"survey", "day", "month", "year"}
        Days, months and years are those of the calendar instead.

    Returns
    -------
    Series of str
        ``2016-05`` (a survey, a month), ``2016-05-25`` or ``2016``: sorted as text they are in order; NA without a
        date. Two surveys that began in one month have the names of their first days.

    Raises
    ------
    ReefcoreError
        Where `every` or `gap` is something else.
    """
    formats = {"survey": "%Y-%m", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}
    if every not in formats or gap < 1:
        raise ReefcoreError(
            f"dates cannot be grouped by {every!r} with gaps of {gap} days", do=f"by {', '.join(formats)}"
        )
    days = pd.to_datetime(dates, errors="coerce").dt.normalize()
    if every != "survey":
        return days.dt.strftime(formats[every]).astype("str")
    each = pd.Series(np.sort(days.dropna().unique()), dtype=days.dtype)
    number = (each.diff().dt.days.fillna(0) > gap).cumsum()
    first = each.groupby(number).transform("min")
    names = first.dt.strftime("%Y-%m")
    if names.nunique() < number.nunique():
        names = first.dt.strftime("%Y-%m-%d")
    return days.map(dict(zip(each, names, strict=True))).astype("str")


def design(images: pd.DataFrame, rows: list[str], columns: str) -> pd.DataFrame:
    """Count images of each site (or site and transect) in each survey: what was seen when.

    Returns
    -------
    DataFrame
        `rows`, a column per value of `columns` (numbers of images), ``in all``; what is not known has a row or column
        of that name.
    """
    table = images[[*rows, columns]].astype("str").fillna("not known")
    table = table.groupby([*rows, columns]).size().unstack(fill_value=0)
    return table.rename_axis(None, axis=1).assign(**{"in all": table.sum(axis=1)}).reset_index()


def revisited(points: pd.DataFrame, unit: str, period: str) -> pd.DataFrame:
    """Keep the points of units (sites, transects) that were seen in every period.

    A difference between two dates is one of the reef only where the same places were looked at.

    Returns
    -------
    DataFrame
        The rows of `points` that are left; ``.attrs["left_out"]`` lists the units that are not among them.
    """
    known = points[_known(points[period]) & _known(points[unit])]
    seen = known.groupby(unit)[period].nunique()
    kept = seen.index[seen == known[period].nunique()]
    rows = known[known[unit].isin(kept)].copy()
    rows.attrs["left_out"] = sorted(set(points[unit].dropna().astype("str")) - set(kept.astype("str")))
    return rows


def changes(points: pd.DataFrame, by: str, unit: str, period: str, **settings) -> pd.DataFrame:
    """Compare each period with the next, and the first with the last, each time by the units that both have.

    Parameters
    ----------
    points : DataFrame
        Annotations, or covers.
    by, settings
        See `reefcore.cover.change`.
    unit, period : str
        Columns, such as site and survey; rows without either are left out.

    Returns
    -------
    DataFrame
        As `reefcore.cover.change`, and ``places``, the number of units compared. Pairs without a common unit have no
        rows; the first period with the last comes last.
    """
    known = points[_known(points[period]) & _known(points[unit])]
    names, parts = sorted(known[period].unique()), []
    for pair in [*pairwise(names), *([(names[0], names[-1])] if len(names) > 2 else [])]:
        rows = revisited(known[known[period].isin(pair)], unit, period)
        if len(rows):
            parts.append(cover.change(rows, by, period, **settings).assign(places=rows[unit].nunique()))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def last_pair(changes: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of the last pair of periods: the first with the last, where these can be compared."""
    if changes.empty:
        return changes
    return changes[changes["from"].eq(changes["from"].iloc[-1]) & changes["to"].eq(changes["to"].iloc[-1])]


def depth_zones(depth: pd.Series, step: float = 5) -> pd.Series:
    """Name the zone of depth of each row, such as ``05-10 m``; NA without a depth."""
    low = (np.floor(depth.astype(float) / step) * step).astype("Float64")
    names = [pd.NA if pd.isna(d) else f"{d:02.0f}-{d + step:02.0f} m" for d in low]
    return pd.Series(names, depth.index, "str")


def water(covariates: pd.DataFrame) -> pd.DataFrame:
    """Put the photos' mean colour and resolution beside the published numbers (paper, A.3.1 and Figure 16).

    Parameters
    ----------
    covariates : DataFrame
        Of `reefcore.covariates.table`.

    Returns
    -------
    DataFrame
        ``quantity``, ``here``, ``published``, ``difference``: colours as fractions of 255, resolution in megapixels.
        The published means are of patches around points, the ones here of whole photos.
    """
    rows = {}
    for channel in ("red", "green", "blue"):
        rows[f"mean {channel}"] = f"normalisation/mean/{channel}", covariates[channel].mean() / 255
    for text, name in (("smallest", "min"), ("median", "median"), ("largest", "max")):
        size = getattr(covariates["megapixels"], name)()
        rows[f"{text} photo (megapixels)"] = f"dataset/megapixels_{name}", size
    return comparison.with_paper(rows)[["quantity", "here", "published", "difference"]]


def nearby(sources: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """List sources by their distance from a site.

    Parameters
    ----------
    sources : DataFrame
        Of `reefcore.geography.sources`.
    images : DataFrame
        ``latitude``, ``longitude``, ``ecoregion``, ``province``, ``realm`` of the site.

    Returns
    -------
    DataFrame
        ``source``, ``km`` (great circle from the site's mean position), ``shares`` (the finest of ecoregion, province
        and realm that it has in common with a photo of the site; "nothing"), ``ecoregion``, ``images``,
        ``annotations``; the nearest first. Sources without a position are last, NaN km.
    """
    from reefcore import geography

    here = pd.DataFrame([geography.mean_position(images.dropna(subset=["latitude", "longitude"]))])
    here.columns = ["latitude", "longitude"]
    placed = sources["latitude"].notna()
    one, many = (np.radians(t[["latitude", "longitude"]].to_numpy(float)) for t in (here, sources))
    half = np.sin((many - one) / 2) ** 2
    arc = half[:, 0] + np.cos(one[0, 0]) * np.cos(many[:, 0]) * half[:, 1]
    km = pd.Series(2 * geography.EARTH_KM * np.arcsin(np.sqrt(np.clip(arc, 0, 1))), sources.index).where(placed)
    shares = pd.Series("nothing", sources.index, "str")
    for name in ("realm", "province", "ecoregion"):
        shares[sources[name].notna() & sources[name].isin(set(images[name].dropna()))] = name
    table = sources[["source", "ecoregion", "images", "annotations"]].assign(km=km, shares=shares)
    table = table.sort_values(["km", "source"], ignore_index=True)
    return table[["source", "km", "shares", "ecoregion", "images", "annotations"]]


def with_covers(labels: pd.DataFrame, covers: pd.DataFrame) -> pd.DataFrame:
    """Add to the table of labels those that only covers have, with what they are taken to mean.

    Parameters
    ----------
    labels : DataFrame
        See `reefcore.benthos.propose`.
    covers : DataFrame
        From `reefcore.annotations.read_covers`; ``points`` of a label are then its counts, or its rows without any.
    """
    lacking = covers[~covers["label_raw"].isin(labels["label"])]
    if lacking.empty:
        return labels
    proposed = benthos.propose(lacking)
    return pd.concat([labels, proposed], ignore_index=True) if len(labels) else proposed


def not_counted(table: pd.DataFrame) -> str:
    """Say how much no cover counts, and of which labels, as it is no benthos; empty where there is nothing.

    Parameters
    ----------
    table : DataFrame
        Annotations, or covers with their meaning; see `reefcore.cover.not_benthos`.
    """
    out = cover.not_benthos(table)
    if not out.any():
        return ""
    labels = table.loc[out, "label_raw"].astype("str").value_counts().sort_index().sort_values(ascending=False)
    names = ", ".join(labels.index[:5]) + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")
    total = counted(len(table), *(("row of covers", "rows of covers") if "percent" in table else ("point",)))
    what = f"{out.sum():,} of {total}"
    show, are = ("shows", "is") if out.sum() == 1 else ("show", "are")
    said = f"{what} ({out.mean():.1%}) {show} no benthos ({names}) and {are} left out of covers and of their totals"
    return f" {said}; to count them, give their labels another functional group in labels.csv."


def meaning(covers: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Fill covers with what their labels mean, as annotations are; see `with_covers` and `reefcore.benthos.apply`."""
    return benthos.apply(covers, with_covers(labels, covers)) if len(covers) else covers
