"""Counts and percents instead of points: MERMAID's benthic tables, CoralNet's percent covers, our own tables of cover.

They become the table of covers: one row per sample unit and label.

============  ===============================================================================================
column        what it is
============  ===============================================================================================
source        the name of the data
unit          the sample unit: a photo (CoralNet), a transect (PIT, LIT) or a quadrat (PQT), unique within the source
date, site,   as the file has them; the date as ISO 8601 where the file gives year, month and day
transect
depth         metres
label_raw     the label; of MERMAID ``Porites (massive)``, attribute and growth form
count         points, or intervals of a point-intercept transect; missing where the file gives no counts
total         all points or intervals of the unit
percent       0 to 100: of the points, of the intervals, or of the length surveyed (LIT)
life_form     MERMAID's growth form in the words of this project
============  ===============================================================================================

A percent is of what was observed, as in MERMAID; where that is less than what the file says was to be observed, it is
reported.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reefcore.annotations.points import Format, Options, Result, cells, each, grouped, hide, named_apart, need, numbers
from reefcore.annotations.sheet import Head, key, load

#: The columns of a table of covers, with their types.
COVERS = {"source": "str", "unit": "str", "date": "str", "site": "str", "transect": "str", "depth": "float64"}
COVERS |= {"label_raw": "str", "count": "Float64", "total": "Float64", "percent": "float64", "life_form": "str"}
DO = "`reefcore site` reads it as percent cover, and so does reefcore.annotations.read_covers"
#: MERMAID's growth forms where this project has another word.
LIFE_FORMS = {"plates or tables": "Tabular", "plates": "Tabular", "tables": "Tabular", "laminar": "Foliose"}
LIFE_FORMS |= {"mushroom": "Free-living", "solitary": "Free-living", "corymbose": "Digitate", "tabular": "Tabular"}
CENTIMETRES = 100  # per metre: MERMAID gives transects in metres and observations in centimetres
NEAR = 0.02  # how far from a whole number a count may be that is computed from a percent of three decimals
ALL = "ALL IMAGES"


def life_form(growth: str) -> str:
    """Give a growth form of MERMAID in the words of this project; empty stays empty."""
    word = growth.strip()
    return LIFE_FORMS.get(word.lower(), word.capitalize())


def _dates(head: Head, text: pd.DataFrame) -> pd.Series:
    year, month, day = (cells(head, text, f"sampledate{part}") for part in ("year", "month", "day"))
    written = year + "-" + month.str.zfill(2) + "-" + day.str.zfill(2)
    return written.where(year.ne(""), cells(head, text, "sampledate"))


def _unit(head: Head, text: pd.DataFrame, date: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Name the transect and the sample unit of each row; what tells two units apart goes into the name."""
    label = cells(head, text, "transectlabel", "label")
    transect = (cells(head, text, "transectnumber") + " " + label).str.strip()
    site, quadrat = cells(head, text, "site"), cells(head, text, "quadrat", "quadratnumber")
    unit = site + " | " + date + (" | transect " + transect).where(transect.ne(""), "")
    for name in ("management", "depth", "relativedepth", "sampletime"):  # in MERMAID these tell transects apart too
        more = cells(head, text, name)
        several = more.groupby(unit).transform("nunique") > 1
        unit = unit + (" | " + more).where(several & more.ne(""), "")
    return transect, unit + (" | quadrat " + quadrat).where(quadrat.ne(""), "")


def read_mermaid(head: Head, options: Options) -> Result:
    """Read MERMAID's tables of benthic observations: PIT, LIT and photo quadrats, as ingested or as downloaded."""
    points = head.first("numberofpoints", "numpoints")
    length = head.first("observationlength", "length")
    counted = head.first(
        "numberofpoints", "numpoints", "observationlength", "length", "observationinterval", "interval"
    )
    wanted = {
        "Site *": head.first("site"),
        "Number of points *, Observation length * or Observation interval *": counted,
    }
    need(head, "a MERMAID table of benthic observations", **wanted)
    sheet = load(head)
    sheet.frame = sheet.frame.replace("NA", "")  # what R, and so mermaidr, writes for an empty cell
    text, problems, columns = sheet.frame, list(sheet.problems), head.columns
    attribute, growth = cells(head, text, "benthicattribute"), cells(head, text, "growthform")
    of = points if points is not None else length
    amount = pd.Series(1.0, index=text.index) if of is None else numbers(text[of])
    why = pd.Series("", index=text.index, dtype="str").mask(attribute.eq(""), "an observation without an attribute")
    why = why.mask(why.eq("") & ~(amount >= 0), "an observation without a number of points or a length")
    title = head.header[columns["benthicattribute"] if of is None else of].strip()
    problems += grouped(why, sheet.lines, title, why, ": left out")
    date = _dates(head, text)
    transect, unit = _unit(head, text, date)
    depth = numbers(cells(head, text, "depth"))
    label = attribute + (" (" + growth + ")").where(growth.ne(""), "")
    frame = pd.DataFrame({"unit": unit, "date": date, "site": cells(head, text, "site"), "transect": transect})
    frame = frame.assign(depth=depth, label_raw=label, count=amount, life_form=each(growth, life_form))
    people = cells(head, text, "observeremails", "observers")
    frame["annotator"] = each(people, lambda names: ", ".join(_people(names, options)))
    good = why.eq("")
    problems += _shortfalls(head, text[good], frame[good], sheet.lines[good], points, length)
    first = dict.fromkeys(("date", "site", "transect", "depth", "life_form", "annotator"), "first")
    frame = frame[good].groupby(["unit", "label_raw"], sort=False).agg({**first, "count": "sum"}).reset_index()
    frame["total"] = frame.groupby("unit")["count"].transform("sum")
    frame["percent"] = (100 * frame["count"] / frame["total"]).fillna(0.0)
    if length is not None and points is None:
        frame = frame.assign(length_cm=frame["count"], count=np.nan, total=np.nan)
    return _covers(frame.assign(source=options.source or head.path.stem), problems, sheet, why)


def _people(text: str, options: Options) -> list[str]:
    names = pd.Series([name.strip() for name in text.replace(";", ",").split(",") if name.strip()], dtype="str")
    return hide(names, options).tolist()


def _shortfalls(head: Head, text, frame, lines, points, length) -> list[tuple]:
    """Say which sample units have another number of points, intervals or centimetres than the file says they have."""
    if points is not None:
        declared, what = numbers(cells(head, text, "numberofpointsperquadrat", "numpointsperquadrat")), "points"
    else:
        metres = numbers(cells(head, text, "transectlengthsurveyed", "transectlength"))
        step, start = numbers(cells(head, text, "intervalsize")), numbers(cells(head, text, "intervalstart"))
        declared, what = (
            (CENTIMETRES * metres, "cm")
            if length is not None
            else (((metres - start) / step + 1e-9).apply(np.floor) + 1, "intervals")
        )
    known = pd.DataFrame({"unit": frame["unit"], "n": frame["count"], "declared": declared, "line": lines})
    known = known.groupby("unit", sort=False).agg(n=("n", "sum"), declared=("declared", "max"), line=("line", "first"))
    wrong = known[(known["n"] - known["declared"]).abs() > (0 if points is not None else 1)]  # both ends may count
    said = "{0!r} has {1:,g} of the {2:,g} {3} that the file says it has; its percents are of those"
    found = [(int(r.line), "", said.format(r.Index, r.n, r.declared, what)) for r in wrong.itertuples()]
    place = head.first("observationinterval", "interval")
    if points is None and length is None and place is not None:
        twice = pd.DataFrame({"unit": frame["unit"], "at": text[place], "line": lines})
        twice = twice[twice["at"].ne("") & twice.duplicated(["unit", "at"])]
        many = (f"interval {r.at} of {r.unit!r} stands twice; both are counted" for r in twice.itertuples())
        found += zip(twice["line"].tolist(), [head.header[place].strip()] * len(twice), many, strict=True)
    return found


def _covers(frame: pd.DataFrame, problems: list[tuple], sheet, why: pd.Series) -> Result:
    """Give a table of covers all its columns and types, and count what was left out."""
    for name in COVERS:
        if name not in frame:
            frame[name] = np.nan if name in ("depth", "count", "total") else None
    frame = frame[[*COVERS, *(name for name in frame if name not in COVERS)]].astype(COVERS)
    for name in ("date", "site", "transect", "life_form", *({"annotator"} & set(frame))):
        frame[name] = frame[name].where(frame[name].ne(""))
    left_out = {**sheet.left_out, **why[why.ne("")].value_counts(sort=False).to_dict()}
    if not sheet.total:
        problems.append((None, "", "the file has a header and no rows"))
    return Result(frame.reset_index(drop=True), problems, sheet.total, left_out)


STATUS = "annotationstatus"
NOT_LABELS = {"imageid", "imagename", "name", STATUS, "annotationarea", "points", "images"}


def read_percents(head: Head, options: Options) -> Result:
    """Read CoralNet's percent covers, of both kinds; with the number of points, percents become counts.

    The row ``ALL IMAGES`` is the mean of the others and is left out. Where a percent is no whole number of points, the
    count is left empty and it is said.
    """
    sheet = load(head)
    text, problems, columns = sheet.frame, list(sheet.problems), head.columns
    image = head.first("imagename", "name", "imageid") or 0  # our own wide table begins with its unit
    titles = [name.strip() for name in head.header]
    labels = [i for i, name in enumerate(titles) if name and i != image and key(name) not in NOT_LABELS]
    name = text[image]
    if "imageid" in columns:
        number = text[columns["imageid"]].where(name.ne(""), "")
        name, apart = named_apart(name, pd.Series("", index=text.index), number, number)
        problems += apart
    why = pd.Series("", index=text.index, dtype="str").mask(name.eq(""), "a row without an image")
    why = why.mask((text == ALL).any(axis=1), f"the row {ALL}, the mean of the others")
    values = text[labels].apply(lambda cover: cover.str.removesuffix("%").str.strip())
    values = values.replace("", "0").apply(numbers).astype("float64")  # an empty cell is no cover
    for at in labels:
        wrong = (text[at].map(repr) + " is not a percent: left out").where(values[at].isna(), "")
        problems += grouped(text[at], sheet.lines, titles[at], wrong)
    sums = values.sum(axis=1)
    why = why.mask(why.eq("") & sums.eq(0), "an image without cover of any label")
    problems += grouped(why, sheet.lines, "", why, ": left out")
    for place in np.flatnonzero(why.eq("") & (sums - 100).abs().gt(0.5)):
        problems.append((int(sheet.lines[place]), "", f"the covers of {name[place]!r} add up to {sums[place]:g} %"))
    total = numbers(text[columns["points"]]) if "points" in columns else pd.Series(np.nan, index=text.index)
    good = why.eq("")
    places, names = np.flatnonzero(good), [titles[i] for i in labels]
    tall = pd.DataFrame({"place": np.repeat(places, len(labels)), "label_raw": np.tile(names, len(places))})
    tall["percent"] = values[good].to_numpy().ravel()
    tall["unit"], tall["total"] = name.take(tall["place"]).to_numpy(), total.take(tall["place"]).to_numpy()
    tall = tall.dropna(subset="percent").reset_index(drop=True)
    exact = tall["percent"] * tall["total"] / 100
    tall["count"] = exact.round().where((exact - exact.round()).abs() <= NEAR + tall["total"] * 1e-5)
    odd = tall[tall["total"].notna() & tall["count"].isna()]
    for place, rows in odd.groupby("place"):
        first = rows.iloc[0]
        said = f"{first['percent']:g} % of {first['total']:g} points is no whole number ({first['label_raw']!r}"
        problems.append((int(sheet.lines[place]), "Points", f"{said}, {len(rows)} labels); counts are left empty"))
    return _covers(tall.drop(columns="place").assign(source=options.source or head.path.stem), problems, sheet, why)


def read_own(head: Head, options: Options) -> Result:
    """Read a table of cover that this project wrote: its first column is the unit, its second what is counted.

    On its side, it has the labels as columns, like CoralNet's percent covers.
    """
    if not head.has("count"):
        return read_percents(head, options)
    sheet = load(head)
    text, problems, columns = sheet.frame, list(sheet.problems), head.columns
    unit, label = text[0], text[1]
    why = pd.Series("", index=text.index, dtype="str").mask(unit.eq(""), "a row without a unit")
    why = why.mask(unit.eq(ALL), f"the rows {ALL}, the mean of the others")
    problems += grouped(why, sheet.lines, head.header[0].strip(), why, ": left out")
    frame = pd.DataFrame({"unit": unit, "label_raw": label})
    frame = frame.assign(**{name: numbers(text[columns[name]]) for name in ("count", "total", "percent")})
    kind = key(head.header[0])
    for name in {"date", "site", "transect"} & {kind}:
        frame[name] = unit
    return _covers(frame[why.eq("")].assign(source=options.source or head.path.stem), problems, sheet, why)


def _is_other_method(head: Head) -> bool:
    """Tell whether it is MERMAID's, and of fish, bleaching, invertebrates or the shape of a reef, or a summary."""
    ingested = head.has("site", "management", "sampledateyear") and not head.has("benthicattribute")
    colonies = head.has("benthicattribute", "normal", "pale")
    return ingested or colonies or any(name.startswith("percentcoverbenthiccategory") for name in head.columns)


FORMATS = [
    Format(
        "mermaid-other",
        "a MERMAID table of another kind: fish, bleaching, invertebrates, or a summary",
        _is_other_method,
        do="give the observations of benthic PIT, LIT or photo quadrats",
    ),
    Format(
        "mermaid",
        "a MERMAID table of benthic observations: counts along transects or in quadrats, not points of images",
        lambda head: head.has("benthicattribute"),
        read_mermaid,
        DO,
        covers=True,
    ),
    Format(
        "coralnet-percent-covers",
        "a CoralNet table of percent covers: it holds no points",
        lambda head: (
            head.has(STATUS) and head.first("imagename", "name", "imageid") is not None and not head.has("row")
        ),
        read_percents,
        DO,
        covers=True,
    ),
    Format(
        "reefcore-cover",
        "a table of percent cover that reefcore wrote: it holds no points",
        lambda head: (
            head.has("images", "count", "total", "percent", "cilow")
            or [key(name) for name in head.header[1:3]] == ["images", "points"]
        ),
        read_own,
        DO,
        covers=True,
    ),
]
