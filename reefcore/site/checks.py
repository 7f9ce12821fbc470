"""What a site has and lacks, and what is wrong with it, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from reefcore.annotations import labelled_by
from reefcore.annotations.points import NOT_PEOPLE
from reefcore.annotations.points import counted as say
from reefcore.site.photos import WAYS
from reefcore.site.settings import Site

STATES = ("wrong", "warning", "note", "ok")
TYPES = {"check": "str", "state": "str", "text": "str", "count": "int64", "examples": "str"}
ORDER = [*"files rows photos".split(), "size of photos", "rows and columns", "points", "duplicates", "labels", "people"]
ORDER += "names metadata dates site transect survey depth positions latitude longitude privacy".split()
#: Column of the images -> its check
FACTS = {"date": "dates", "site": "site", "transect": "transect", "depth": "depth", "latitude": "positions"}
NAMED = ("date", "site", "transect")  # what from_name can find in a name
FEW = 0.5  # of the median number of points: images with fewer are listed
USUAL = 0.5  # of the images must have that number, else there is no number that an image should have
SHOWN = 5  # examples


def table(said: list[tuple]) -> pd.DataFrame:
    """Make the table of checks: ``check``, ``state``, ``text``, ``count`` (of what is said), ``examples``."""
    place = {name: number for number, name in enumerate(ORDER)}
    said = sorted(said, key=lambda row: place.get(row[0], len(place)))  # stable: within a check as they arose
    return pd.DataFrame(said, columns=list(TYPES)).astype(TYPES)


def few(values: Iterable) -> str:
    """Give the first examples as text."""
    return "; ".join(map(str, list(values)[:SHOWN]))


def of_reading(problems: pd.DataFrame, left_out: pd.DataFrame) -> list[tuple]:
    """Say what the readers could not use."""
    said = []
    for row in left_out[left_out["rows"].notna()].itertuples():
        text = f"{row.file}: {say(row.rows, 'row')} left out: {row.reason}"
        said.append(("rows", "note", text, row.rows, ""))
    if n := len(problems):
        first = problems.iloc[0]
        line = "" if pd.isna(first["line"]) else f" line {first['line']}:"
        text = f"{say(n, 'remark')} on the files, all in csv/problems.csv"
        said.append(("rows", "note", text, n, f"{first['file']}:{line} {first['problem']}"))
    return said


def of_tables(site: Site, images, points, photos, covers, headers, origins: dict) -> list[tuple]:
    """Say what is there and what lacks: photos, points, people, dates, transects, positions, depth, duplicates.

    Parameters
    ----------
    site : Site
    images, points, photos, covers : DataFrame
        See `reefcore.site.tables.make`.
    headers : DataFrame
        See `reefcore.site.photos.facts`.
    origins : dict
        Fact -> where its values are from -> number of images.
    """
    said = []
    annotated = images[images["points"] > 0]
    if len(annotated):
        said += _photos(site, annotated, photos, headers) + _points(points, annotated)
    elif len(covers):
        text = (
            f"{say(covers['unit'].nunique(), 'sample unit')} with covers; what needs points is left out of the report"
        )
        said.append(("points", "note", text, len(covers), ""))
    else:
        said.append(("points", "wrong", "there is not one point with a label", 0, ""))
    lacking = {}  # what no image has -> the keys of site.yaml that would give it
    for fact, check in FACTS.items():
        if check == "positions" and origins.get(fact) and site.privacy.get("positions") == "none":
            continue  # it is said below that they are hidden, not that they lack
        if len(annotated) and annotated[fact].isna().all():
            column = "latitude_column and longitude_column" if fact == "latitude" else f"{fact}_column"
            lacking[check.rstrip("s")] = column
        elif len(annotated):
            said += _fact(annotated, fact, check, check.rstrip("s"), origins.get(fact, {}))
        elif len(covers) and fact in covers:
            values, one = covers[fact].dropna(), check.rstrip("s")
            text = f"{say(values.nunique(), one)}: {few(values.unique())}" if len(values) else f"no {one} in the file"
            said.append((check, "ok" if len(values) == len(covers) else "note", text, values.nunique(), ""))
    if lacking:
        what = ", ".join(list(lacking)[:-1]) + " or " * (len(lacking) > 1) + list(lacking)[-1]
        keys = ", ".join(lacking.values()) + ", or from_name" * any(name in NAMED for name in lacking)
        it = "them" if len(lacking) > 1 else "it"
        text = f"no image has a {what}; metadata, or {keys} in site.yaml, would give {it}"
        said.append(("metadata", "note", text, len(annotated), ""))
    shown = site.privacy.get("positions", "exact")
    if shown != "exact" and origins.get("latitude"):
        how = {"rounded": "rounded to 0.1 degree", "none": "left out of all tables; only the ecoregion is kept"}[shown]
        said.append(("privacy", "ok", f"positions are {how}", 0, ""))
    return said


def _photos(site: Site, annotated, photos, headers) -> list[tuple]:
    if not site.photos:
        text = "no photos: what needs pixels is left out of the report; photos: in site.yaml names their folder"
        return [("photos", "note", text, 0, "")]
    said, n = [], len(annotated)
    have = int(annotated["photo"].notna().sum())
    how = photos.loc[photos["state"].eq("matched"), "how"].value_counts()
    others = ", ".join(f"{how[name]:,} {text}" for name, text in WAYS.items() if name in how and name != "exact")
    state = "ok" if have == n else "warning" if have else "wrong"
    text = f"{have:,} of {say(n, 'annotated image')} {'has its' if n == 1 else 'have their'} photo"
    said.append(("photos", state, text + (f" ({others})" if others else ""), have, ""))
    lost = photos[photos["image"].notna() & photos["state"].eq("unmatched")]
    if len(lost):
        near = [f"{row.image} (perhaps {row.near})" if pd.notna(row.near) else row.image for row in lost.itertuples()]
        text = f"{say(len(lost), 'image')} without a photo; all are in csv/photos.csv"
        said.append(("photos", "warning", text, len(lost), few(near)))
    doubt = photos[photos["image"].notna() & photos["state"].eq("ambiguous")]
    if len(doubt):
        text = f"{say(len(doubt), 'image')} may be of several photos, or share a name with another survey, and"
        text += " get none; put photos of one name into folders named after their source, survey or site"
        said.append(("photos", "warning", text, len(doubt), few(f"{r.image}: {r.near}" for r in doubt.itertuples())))
    unused = photos[photos["image"].isna() & photos["state"].eq("unmatched")]
    if len(unused):
        text = f"{say(len(unused), 'photo')} without annotations; the classifier can label them"
        said.append(("photos", "note", text, len(unused), few(unused["path"])))
    again = photos[photos["state"] == "copy"]
    if len(again):
        text = f"{say(len(again), 'photo')} left out as copies of photos that are matched"
        said.append(("photos", "note", text, len(again), few(again["path"])))
    bad = headers[headers["photo_width"].isna()]
    if len(bad):
        said.append(("photos", "warning", f"{say(len(bad), 'photo')} cannot be read", len(bad), few(bad["path"])))
    return said


def _points(points, annotated) -> list[tuple]:
    per = annotated["points"]
    low, middle, high = per.min(), per.median(), per.max()
    count = f"{low:,}" if low == high else f"{low:,} to {high:,}, mostly {middle:,g}"
    text = f"{say(len(points), 'point')} on {say(len(annotated), 'image')}, {count} per image"
    said = [("points", "ok", text, len(points), "")]
    less = annotated[per < FEW * middle]
    if len(less) and (per == middle).mean() >= USUAL:
        text = f"{say(len(less), 'image')} with fewer than half as many points as most; perhaps they are not finished"
        examples = few(f"{row.image}: {row.points}" for row in less.itertuples())
        said.append(("points", "warning", text, len(less), examples))
    twice = points.duplicated("annotation_id")
    if twice.any():
        text = f"{say(int(twice.sum()), 'point')} with the image, place and label of an earlier one; all count"
        said.append(("duplicates", "note", text, int(twice.sum()), few(points["image"][twice].unique())))
    if points["file"].nunique() > 1:
        said += _across(points)
    known = points["label_raw"].nunique()
    said.append(("labels", "ok", f"{say(known, 'label')}", known, few(points["label_raw"].value_counts().index)))
    return said + _people(points, annotated)


def _across(points) -> list[tuple]:
    """Say images and points that several files have: they would count twice."""
    pairs = points[["file", "source", "image"]].drop_duplicates()
    shared = pairs[pairs["image"].duplicated(keep=False)]
    shared = shared[shared.groupby("image")["file"].transform("nunique") > 1]
    if shared.empty:
        return []
    some = points[points["image"].isin(set(shared["image"]))].drop_duplicates(["file", "image", "row", "column"])
    same = int(some.duplicated(["image", "row", "column"]).sum())
    names, n = shared["image"].drop_duplicates(), shared["image"].nunique()
    text = f"{say(n, 'image name')} in more than one file, with {say(same, 'point')} at the same place: the same image"
    text += " in two files counts twice, so keep it in one of them"
    return [("duplicates", "warning", text, same, few(names))]


def _people(points, annotated) -> list[tuple]:
    said, labelled, n = [], int(annotated["labelled"].sum()), len(points)
    people = points["annotator"].dropna() if "annotator" in points else pd.Series(dtype="str")
    people = people[~people.str.casefold().isin(NOT_PEOPLE)]
    if len(people):
        hidden = people.str.startswith("person-").all()
        text = say(people.nunique(), "annotator") + (", under pseudonyms" if hidden else ", by name")
        counts = few(f"{who}: {many:,}" for who, many in people.value_counts().items())
        said.append(("people", "ok", text, people.nunique(), counts))
    unknown = int(labelled_by(points).isna().sum())
    if unknown:
        text = f"the files do not say who labelled {unknown:,} of {say(n, 'point')}; they count as people's"
        said.append(("people", "note", text, unknown, ""))
    if labelled < n:
        text = f"{n - labelled:,} of {say(n, 'point')} were labelled by a machine and not confirmed by a person"
        said.append(("people", "warning" if labelled == 0 else "note", text, n - labelled, ""))
    return said


def _fact(annotated, fact: str, check: str, one: str, origin: dict) -> list[tuple]:
    have, n = int(annotated[fact].notna().sum()), len(annotated)
    where = " and ".join(f"{many:,} from the {name}" for name, many in origin.items())
    where = f"from the {next(iter(origin))}" if len(origin) == 1 else where
    values = annotated[fact].dropna()
    if fact == "date":
        days = values.dt.normalize()
        span = f"{days.min():%Y-%m-%d}" if days.nunique() == 1 else f"{days.min():%Y-%m-%d} to {days.max():%Y-%m-%d}"
        detail = f"{say(days.nunique(), 'day')}: {span}"
    elif fact == "depth":
        detail = f"{values.min():g} to {values.max():g} m"
    elif fact == "latitude":
        regions = annotated["ecoregion"].dropna().unique()
        spots = len(annotated[["latitude", "longitude"]].dropna().drop_duplicates())
        detail = f"{say(spots, 'position')}, in {', '.join(regions[:3]) or 'no ecoregion of the sea'}"
    else:
        detail = f"{say(values.nunique(), one)}: {', '.join(map(str, values.unique()[:SHOWN]))}"
    without = "" if have == n else "without: " + few(annotated["image"][annotated[fact].isna()])
    text = f"{have:,} of {say(n, 'image')} with a {one}; {detail} ({where})"
    said = [(check, "ok" if have == n else "note", text, have, without)]
    if fact == "depth" and (bad := (values < 0) | (values > 200)).any():
        text = f"{say(int(bad.sum()), 'depth')} below 0 or beyond 200 m: is it another unit, or another column?"
        said.append((check, "warning", text, int(bad.sum()), few(values[bad].unique())))
    if fact == "date" and (odd := (values > pd.Timestamp.now()) | (values < pd.Timestamp(1950, 1, 1))).any():
        text = f"{say(int(odd.sum()), 'date')} before 1950 or in the future"
        said.append((check, "warning", text, int(odd.sum()), few(values[odd].dt.strftime("%Y-%m-%d").unique())))
    return said


def of_labels(labels: pd.DataFrame, problems: pd.DataFrame | None = None) -> list[tuple]:
    """Say how many labels and points are identified, and what a person should look at, from `reefcore.benthos`."""
    if labels.empty:
        return []
    points, n = labels["points"], int(labels["points"].sum())
    known = labels["taxon"].notna() | ~labels["functional_group"].fillna("Unclear").isin(["Unclear"])
    share = points[known].sum() / max(n, 1)
    text = f"{known.sum():,} of {say(len(labels), 'label')} identified, with {share:.0%} of the points"
    state = "ok" if known.all() else "warning" if share >= 0.5 else "wrong"
    said = [("labels", state, text, int(known.sum()), few(labels["label"][~known]))]
    look = labels["check"].astype("str").str.casefold().eq("yes")
    if look.any():
        text = f"{say(int(look.sum()), 'label')} to look at in labels.csv (check: yes), "
        text += f"of {say(points[look].sum(), 'point')}"
        said.append(("labels", "warning", text, int(look.sum()), few(labels["label"][look])))
    out = labels["functional_group"].eq("Not benthos")
    if out.any():
        text = f"{points[out].sum():,} of {say(n, 'point')} are of labels that are no benthos, and no cover counts them"
        said.append(("labels", "note", text, int(points[out].sum()), few(labels["label"][out])))
    if problems is not None and len(problems):
        rows = [
            row.problem if pd.isna(row.line) else f"line {row.line}: {row.problem}" for row in problems.itertuples()
        ]
        state = "note" if problems["line"].isna().all() else "warning"
        said.append(("labels", state, f"{say(len(problems), 'remark')} on labels.csv", len(problems), few(rows)))
    return said


def text(checks: pd.DataFrame, title: str) -> str:
    """Say the table of checks for people: what is wrong first, then what to know, then what is fine."""
    lines = [title]
    marks = {"wrong": "WRONG", "warning": "CHECK", "note": "note", "ok": "ok"}
    order = np.argsort([STATES.index(state) for state in checks["state"]], kind="stable")
    for row in checks.iloc[order].itertuples():
        examples = f"\n         {row.examples}" if row.examples else ""
        lines.append(f"  {marks[row.state]:6} {row.text}.{examples}")
    wrong, doubt = ((checks["state"] == state).sum() for state in ("wrong", "warning"))
    lines.append("Nothing is wrong." if not wrong + doubt else f"{say(wrong, 'thing')} wrong, {doubt} to check.")
    return "\n".join(lines)
