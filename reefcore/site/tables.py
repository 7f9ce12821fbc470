"""From the files of a site to its tables: points with what is known of their images, photos, covers, and problems."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import annotations, geography, images, tables
from reefcore.annotations.points import PLACE, each, pseudonym, telling
from reefcore.errors import COLUMNS as PROBLEM
from reefcore.errors import ReefcoreError
from reefcore.site import checks, metadata, photos, points
from reefcore.site.settings import FACTS, OPTIONS, Site

IMAGES = {"source": "str", "image": "str", "photo": "str", "width": "Int64", "height": "Int64"}
IMAGES |= {"date": "datetime64[us]", "site": "str", "transect": "str", "survey": "str", "depth": "float64"}
IMAGES |= {"latitude": "float64", "longitude": "float64", **dict.fromkeys(geography.REGION, "str")}
IMAGES |= {"photographer": "str", "camera": "str", "points": "int64", "labelled": "int64"}
COVERS = {"source": "str", "unit": "str", "date": "str", "site": "str", "transect": "str", "depth": "float64"}
COVERS |= {"label_raw": "str", "count": "Float64", "total": "Float64", "percent": "float64", "life_form": "str"}
COVER_FACTS = ("date", "site", "transect", "depth")
LEFT_OUT = {"file": "str", "reason": "str", "rows": "Int64"}
PROBLEMS = {"file": "str", "line": "Int64", "column": "str", "problem": "str"}
BY = ["source", "image"]
#: A value within what is said of it.
QUOTED = re.compile(r""" such as (?:'[^']*'|"[^"]*")|'[^']*\d[^']*'|"[^"]*\d[^"]*\"""")


def empty(columns: dict[str, str]) -> pd.DataFrame:
    """Make a table without rows."""
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})


def make(site: Site, root: str | Path = "", workers: int = 2) -> dict[str, pd.DataFrame]:
    """Read everything that a site has.

    Parameters
    ----------
    site : Site
    root : path
        Of the made-up site; paths of a site of one's own are relative to its site.yaml.
    workers : int
        Threads that read the headers of photos.

    Returns
    -------
    dict of DataFrame
        ``points``: the annotations after the requests of site.yaml, with ``file``, ``inside`` (whether the point lies
        on its photo; NA unknown), and ``date``, ``site``, ``transect``, ``survey``, ``depth`` and position of its
        image. ``images``: one row per (source, image), also of those known from photos or metadata only. ``photos``:
        see `reefcore.site.photos.match`. ``covers``: see `reefcore.annotations.read_covers`. ``problems``: file, line,
        column, problem. ``left_out``: file, reason, rows (NA where a file was refused whole). ``checks``: check, state
        (ok, note, warning, wrong), text, count, examples.

    Raises
    ------
    ReefcoreError
        Where no file of annotations can be read, a folder or a table of metadata is not there, or a column of site.yaml
        is in none of the tables.
    """
    said, problems = [], []
    found, covers, left_out = _files(site, root, said, problems)
    extra = _metadata(site, root, said, problems)
    names = [name for table in (found, covers, *extra.values()) for name in table if name not in ("line", "file")]
    metadata.missing(site.columns_of, names, site.path)
    folder = site.at(site.photos, root) if site.photos else None
    listed = photos.listing(folder) if folder else []
    every, n = found, len(found)
    if len(covers):  # their sample units are images too: photos and metadata may know more of them
        units = covers.rename(columns={"unit": "image"})[[*BY, *COVER_FACTS, "file"]]
        every = pd.concat([found, units], ignore_index=True)
    table, which = _images(every, n)
    facts = {"export": _export_facts(every, which, len(table), site, said)}
    units, which = which[n:], which[:n]
    if site.from_name:
        facts["name"] = metadata.from_names(table["image"], site.from_name)
        lost = table["image"][facts["name"].isna().all(axis=1)]
        if len(lost):
            text = f"from_name does not fit the names of {checks.say(len(lost), 'image')}"
            said.append(("names", "warning", text, len(lost), checks.few(lost)))
    hints = {name: facts["export"][name] for name in ("survey", "site", "transect") if name in facts["export"]}
    wanted = table[["source", "image", "file"]].assign(**hints)
    matched = photos.match(wanted if folder else wanted[:0], listed, folder)
    table, facts = _with_photos(site, table, facts, matched)
    table, facts = _with_metadata(site, table, facts, extra, said)
    headers = photos.facts(folder, listed, workers) if folder else photos.facts("", [])
    table = _headers(table, headers, facts, site)
    table, origins = _settle(table, facts, site, root, said)
    found = _join(found, table, which, site)
    covers = _with_facts(covers, table, units)
    if site.privacy.get("positions", "exact") != "exact":
        table, found, covers, said, problems = _less_exact(site, table, found, covers, which, said, problems)
    said += points.judge(found, table, which) if len(found) else []
    said += checks.of_tables(site, table, found, matched, covers, headers, origins)
    problems = pd.DataFrame(problems, columns=["file", *PROBLEM]).astype(PROBLEMS)
    left_out = pd.DataFrame(left_out, columns=list(LEFT_OUT)).astype(LEFT_OUT)
    table = table[list(IMAGES)].astype(IMAGES)
    result = {"points": found, "images": table, "photos": matched, "covers": covers}
    said += checks.of_reading(problems, left_out)
    return result | {"problems": problems, "left_out": left_out, "checks": checks.table(said)}


def _with_facts(covers: pd.DataFrame, table: pd.DataFrame, units: np.ndarray) -> pd.DataFrame:
    """Give covers what metadata, names or photos say of their sample units, where the file does not."""
    for name in COVER_FACTS if len(covers) else ():
        values = table[name].dt.strftime("%Y-%m-%d") if name == "date" else table[name]
        covers[name] = pd.Series(values.array.take(units)).astype(COVERS[name])
    return covers.drop(columns="file", errors="ignore")


def _name(path: Path, site: Site, root) -> str:
    """Name a file relative to the site's folder, so that no table says where on this machine it lies."""
    try:
        return path.resolve().relative_to(site.home(root).resolve()).as_posix()
    except ValueError:
        return path.name


def _files(site: Site, root, said: list, problems: list) -> tuple[pd.DataFrame, pd.DataFrame, list[tuple]]:
    """Read the files of annotations; one that is refused is said, and the others are read."""
    found, covers, left_out, refused, seen = [], [], [], [], set()
    paths = [site.at(one["file"], root) for one in site.annotations]
    shown = [_name(path, site, root) for path in paths]
    sizes = functools.cache(lambda: _sizes(site.at(site.photos, root)))  # headers are read where asked for, and once
    for one, path, name in zip(site.annotations, paths, shown, strict=True):
        if shown.count(name) > 1:  # 2016/annotations.csv and 2017/annotations.csv
            name = f"{path.parent.name}/{name}"
        given = {key: getattr(site, key, None) for key in ("format", "source", "columns", "size", "base")} | one
        options = {key: given[key] for key in OPTIONS if given.get(key) not in (None, "", {})}
        if "columns" not in options:
            options.setdefault("base", 0)  # what readers say of it is said by `points.judge`, with the photos
        elif isinstance(options["columns"], str):
            options["columns"] = site.at(options["columns"], root)
        if site.privacy.get("names"):
            options["names"] = True
        try:
            frame = _read(path, options, sizes if site.photos else None)
        except ReefcoreError as error:
            refused.append(error)
            what = "; ".join(filter(None, [error.what.rstrip("."), error.do]))
            said.append(("files", "wrong", f"{name} was refused: {what}", 1, ""))
            problems.append((name, None, "", f"refused: {what}"))
            left_out.append((name, f"the file was refused: {error.what}", pd.NA))
            continue
        attrs, frame.attrs = frame.attrs, {}
        problems += [(name, *row) for row in attrs["problems"].itertuples(index=False, name=None)]
        left_out += [(name, reason, rows) for reason, rows in attrs["left_out"].items() if rows]
        kind, read = attrs["format"], attrs["read"]
        text = f"{name}: {kind}, {read:,} of {checks.say(attrs['rows'], 'row')} read"
        said.append(("files", "ok" if read == attrs["rows"] else "note", text, int(attrs["rows"] - read), ""))
        if "source" not in options and seen & set(frame["source"].unique()):  # other images may have the same names
            frame["source"] += f" ({path.parent.name})"
            if "row" in frame:
                frame["annotation_id"] = tables.annotation_ids(frame)
        seen |= set(frame["source"].unique())
        if "percent" in frame and "row" not in frame:
            covers.append(frame.assign(file=name))
        else:
            swap, scale = one.get("swap", site.swap), one.get("scale", site.scale)
            found.append(points.requested(frame, swap, scale).assign(file=name))
    if refused and not found and not covers:
        raise refused[0]
    if found:
        every = pd.concat(found, ignore_index=True) if len(found) > 1 else found[0].reset_index(drop=True)
    else:
        every = tables.complete(pd.DataFrame({name: pd.Series(dtype="str") for name in tables.IDENTITY}))
        every = every.astype({"row": "int64", "column": "int64"}).assign(file=pd.Series(dtype="str"))
    return every, pd.concat(covers, ignore_index=True) if covers else empty(COVERS), left_out


def _read(path: Path, options: dict, sizes: Callable[[], pd.DataFrame] | None) -> pd.DataFrame:
    """Read one file of points, or of covers; a format that needs the size of the photos gets it from these."""
    form = next((form for form in annotations.FORMATS if form.name == options.get("format")), None)
    if not {"format", "columns"} & set(options):
        with contextlib.suppress(ReefcoreError):  # `read` says what is wrong
            form = annotations.recognise(path)
    if getattr(form, "covers", False):
        return annotations.read_covers(path, **{k: v for k, v in options.items() if k in ("source", "names", "format")})
    needs = getattr(form, "name", "").startswith("squidle") or "columns" in options
    if needs and sizes and "size" not in options:
        options = options | {"sizes": sizes()}
    return annotations.read(path, **options)


def _sizes(folder: Path) -> pd.DataFrame:
    """List the sizes of photos by the names an export may call them: with the ending, without, and with the folder."""
    rows = {}
    for path in photos.listing(folder):
        try:
            size = images.image_size(folder / path)
        except ReefcoreError:
            continue
        for name in (path, Path(path).name, Path(path).stem):
            rows[name] = size if rows.get(name, size) == size else None  # two photos of one name and two sizes: neither
    return pd.DataFrame([(k, *v) for k, v in rows.items() if v], columns=["image", "width", "height"])


def _metadata(site: Site, root, said: list, problems: list) -> dict[str, pd.DataFrame]:
    found = {}
    for path in site.metadata:
        name = _name(site.at(path, root), site, root)
        found[name], rows = metadata.read(site.at(path, root))
        problems += [(name, *row) for row in rows]
    return found


def _images(found: pd.DataFrame, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """List the images of rows, in order, and which of them each row is of; the first `n` rows are points."""
    groups = found.groupby(BY, sort=True)
    which = groups.ngroup().to_numpy()
    first = pd.Series(which).drop_duplicates()
    table = found.loc[first.index, [*BY, "file"]].set_axis(first.to_numpy()).sort_index().reset_index(drop=True)
    machine = annotations.labelled_by(found[:n]).eq("machine").fillna(False).to_numpy(bool)  # unknown: a person's
    counts = {"points": np.bincount(which[:n], minlength=len(table))}
    counts["labelled"] = np.bincount(which[:n], ~machine, minlength=len(table)).astype("int64")
    return table.assign(**counts), which


def _first(values: pd.Series, which: np.ndarray, n: int) -> tuple[pd.Series, int]:
    """Give the first value of each image that is not empty, and how many images have several."""
    pairs = pd.DataFrame({"image": which, "value": values.to_numpy()})[values.notna().to_numpy()].drop_duplicates()
    several = int(pairs["image"].duplicated(keep=False).groupby(pairs["image"]).any().sum())
    first = pairs.drop_duplicates("image").set_index("image")["value"]
    return first.reindex(range(n)), several


def _export_facts(found: pd.DataFrame, which, n: int, site: Site, said: list) -> pd.DataFrame:
    """Take from the annotations what they say of their images."""
    held = metadata.columns([name for name in found if name not in ("image", "file")], site.columns_of)
    held |= {name: name for name in ("width", "height") if name in found}
    facts = {}
    for fact, column in held.items():
        values = found[column]
        if values.dtype == "str":
            values = values.where(values.str.strip().ne(""))
        if values.notna().any():
            facts[fact], several = _first(values, which, n)
            if several:
                text = (
                    f"{checks.say(several, 'image')} with more than one {fact} in the annotations; the first is taken"
                )
                said.append((fact, "warning", text, several, ""))
    return pd.DataFrame(facts, index=range(n))


def _with_photos(site: Site, table: pd.DataFrame, facts: dict, matched: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Give images their photo, and add as images the photos that have no points."""
    own = matched[matched["image"].notna()].set_index(BY)["path"]
    table = table.assign(photo=own.reindex(pd.MultiIndex.from_frame(table[BY])).to_numpy())
    alone = matched.loc[matched["image"].isna() & matched["state"].eq("unmatched"), "path"]
    if alone.empty:
        return table, facts
    sources = table["source"].unique()
    source = sources[0] if len(sources) == 1 else site.name
    names = alone.str.rsplit("/", n=1).str[-1]
    taken = set(table.loc[table["source"] == source, "image"])
    names = names.where(~names.duplicated(keep=False) & ~names.isin(taken), alone)
    names = names.where(~names.isin(taken), names + " (another photo)")
    more = pd.DataFrame({"source": source, "image": names, "photo": alone, "points": 0, "labelled": 0})
    table = pd.concat([table, more], ignore_index=True)
    return table, {kind: frame.reindex(table.index) for kind, frame in facts.items()}


def _with_metadata(site: Site, table, facts: dict, extra: dict, said: list) -> tuple[pd.DataFrame, dict]:
    """Join the tables of metadata by the names of images, as photos are matched."""
    places = {}
    for name, frame in extra.items():
        held = metadata.columns([c for c in frame if c != "line"], site.columns_of)
        frame = frame[list(held.values())].set_axis(list(held), axis=1)
        frame = frame.mask(frame.apply(lambda values: values.str.strip().eq("")))
        if "image" not in held:
            places[name] = frame
            continue
        nameless = frame["image"].isna()
        if nameless.any():
            text = f"{name}: {checks.say(nameless.sum(), 'row')} without an image name, not used"
            said.append(("metadata", "warning", text, int(nameless.sum()), ""))
        frame = frame[~nameless].drop_duplicates()
        twice = frame["image"].duplicated(keep=False)
        if twice.any():
            some = frame.loc[twice, "image"].unique()
            text = f"{name}: {checks.say(len(some), 'image')} with several rows that differ; the first of each is taken"
            said.append(("metadata", "warning", text, len(some), checks.few(some)))
        if "photographer" in frame and not site.privacy.get("names"):
            frame["photographer"] = each(frame["photographer"].fillna(""), pseudonym).replace("", pd.NA)
        every = frame.drop_duplicates("image").reset_index(drop=True)
        table, facts = _by_image(site, table, facts, every, "metadata" if len(extra) == 1 else name, said)
    for name, frame in places.items():
        facts[name] = _by_place(frame, name, facts, len(table), said)
    return table, facts


def _by_place(frame: pd.DataFrame, name: str, facts: dict, n: int, said: list) -> pd.DataFrame:
    """Join a table with a row per site, transect or survey; what differs within one of these is left out."""
    known = {}
    for fact in ("survey", "site", "transect"):
        parts = [part[fact].astype("str") for part in facts.values() if fact in part]
        if fact in frame and parts:
            known[fact] = parts[0] if len(parts) == 1 else parts[0].fillna(parts[1])
    if not known:
        do = "name it: image_column: ..., or site_column: ... where it has a row per site, in site.yaml"
        raise ReefcoreError("this table of metadata has no column of image names", name, do)

    def keys(part):
        texts = [part[fact].fillna("").str.strip().str.casefold() for fact in known]
        return texts[0].str.cat(texts[1:], sep=" / ") if len(texts) > 1 else texts[0]

    rows = frame.dropna(subset=list(known), how="all").drop_duplicates()
    many = rows.drop(columns=list(known)).groupby(keys(rows), sort=False)
    one = many.first().mask(many.nunique() > 1)
    asked = keys(pd.DataFrame(known, index=range(n)))
    found, by = one.reindex(asked).set_axis(range(n)), " and ".join(known)
    have = asked.isin(one.index)
    text = f"{name}: joined by {by}; {have.sum():,} of {checks.say(n, 'image')} have a row"
    said.append(("metadata", "ok" if have.all() else "warning", text, n, checks.few(asked[~have].unique())))
    for fact in one:
        if n_several := int((many[fact].nunique() > 1).sum()):
            text = f"{name}: {checks.say(n_several, by)} with more than one {fact}, which is left out"
            said.append((fact, "warning", text, n_several, ""))
    return found


def _by_image(site: Site, table, facts: dict, every, name: str, said: list) -> tuple[pd.DataFrame, dict]:
    """Join a table with a row per image."""
    pairs = photos.match(table[BY], every["image"])
    pairs = pairs.merge(
        pd.Series(every.index, index=every["image"], name="row"), left_on="path", right_index=True, how="left"
    )
    own = pairs[pairs["image"].notna()].set_index(BY)
    row = own["row"].reindex(pd.MultiIndex.from_frame(table[BY])).to_numpy()
    lone = pairs.loc[pairs["image"].isna(), "row"].dropna().astype(int)
    annotated = table["file"].notna().to_numpy()  # not known from photos only
    lacking = table[pd.isna(row) & annotated]
    if len(lacking):
        near = own["near"].reindex(pd.MultiIndex.from_frame(lacking[BY])).to_numpy()
        names = [f"{a} (perhaps {b})" if pd.notna(b) else a for a, b in zip(lacking["image"], near, strict=True)]
        text = f"{len(lacking):,} of {annotated.sum():,} annotated images have no row in the {name}"
        said.append(("metadata", "warning", text, len(lacking), checks.few(names)))
    else:
        text = f"all {annotated.sum():,} annotated images have their row in the {name}"
        said.append(("metadata", "ok", text, 0, ""))
    if len(lone):
        text = f"{checks.say(len(lone), 'row')} of the {name} of images without points or photo"
        said.append(("metadata", "note", text, len(lone), checks.few(every["image"][lone])))
        source = table["source"].iloc[0] if table["source"].nunique() == 1 else site.name
        more = pd.DataFrame({"source": source, "image": every["image"][lone], "points": 0, "labelled": 0})
        table = pd.concat([table, more], ignore_index=True)
        facts = {kind: frame.reindex(table.index) for kind, frame in facts.items()}
        row = np.concatenate([row, lone.to_numpy()])
    return table, {name: every.drop(columns="image").reindex(row).set_axis(table.index), **facts}


def _headers(table: pd.DataFrame, headers: pd.DataFrame, facts: dict, site: Site) -> pd.DataFrame:
    """Add what the headers of the photos say: their size always, date and position as a last resort."""
    known = headers.drop_duplicates("path").set_index("path").reindex(table["photo"]).set_axis(table.index)
    stated = facts["export"].reindex(columns=["width", "height"]).apply(pd.to_numeric, errors="coerce").round()
    stated = stated.astype("Float64").astype("Int64")
    table = table.assign(stated_width=stated["width"], stated_height=stated["height"])
    table["width"] = known["photo_width"].fillna(stated["width"])
    table["height"] = known["photo_height"].fillna(stated["height"])
    table["orientation"] = known["orientation"].fillna(1).astype("int64")
    facts["header"] = known[["camera"] + (["date", "latitude", "longitude"] if site.exif else [])]
    return table


def _settle(table: pd.DataFrame, facts: dict, site: Site, root, said: list) -> tuple[pd.DataFrame, dict]:
    """Choose for each image and fact between metadata, annotations, the image's name and the photo's header."""
    last = [kind for kind in ("export", "name", "header") if kind in facts]
    order = [*(kind for kind in facts if kind not in last), *last]  # tables of metadata first
    parts = {fact: {} for fact in (*FACTS, "photographer", "camera")}
    for fact, kind in itertools.product(parts, order):
        if fact not in facts[kind] or facts[kind][fact].isna().all():
            continue
        values, notes = facts[kind][fact], []
        where = {"export": "annotations", "name": "names", "header": "headers"}.get(kind, kind)
        if fact == "date" and kind != "header":
            values, notes = metadata.dates(values, site.date_format)
        elif fact in ("depth", "latitude", "longitude"):
            values, notes = metadata.numbers(values, fact)
        elif fact != "date":
            values = values.astype("str").str.strip().str.replace(r"^(-?\d+)\.0$", r"\1", regex=True)
        check = "dates" if fact == "date" else fact
        said += [(check, state, f"{where}: {text}", n, few) for state, text, n, few in notes]
        parts[fact][where] = values
    for where in {**parts["latitude"], **parts["longitude"]}:  # half a position is none, and is not completed elsewhere
        north, east = (parts[name].get(where, pd.Series(np.nan, table.index)) for name in ("latitude", "longitude"))
        half = north.notna() != east.notna()
        if half.any():
            text = f"{where}: {checks.say(int(half.sum()), 'image')} with only one of latitude and longitude"
            said.append(("positions", "warning", text, int(half.sum()), checks.few(table["image"][half])))
        parts["latitude"][where], parts["longitude"][where] = north.mask(half), east.mask(half)
    origins = {}
    for fact in parts:
        origins[fact], table[fact] = _first_of(parts[fact], fact, table, said)
    return _places(table, site, root, said), origins


def _first_of(parts: dict, fact: str, table: pd.DataFrame, said: list) -> tuple[dict, pd.Series]:
    """Take the first origin that has a value; conflicts between metadata and annotations are said."""
    kinds = {"date": "datetime64[us]", "depth": "float64", "latitude": "float64", "longitude": "float64"}
    found, counts = pd.Series(index=table.index, dtype=kinds.get(fact, "str")), {}
    kind = next(iter(parts), "annotations")
    if kind not in ("annotations", "names", "headers") and "annotations" in parts:
        a, b = parts[kind], parts["annotations"]
        if fact == "date":
            differ = a.dt.normalize() != b.dt.normalize()
        elif a.dtype == "float64":
            differ = (a - b).abs() > 1e-6
        else:
            differ = a.str.casefold() != b.str.casefold()
        differ &= a.notna() & b.notna()
        if differ.any():
            text = f"{checks.say(int(differ.sum()), 'image')} with one {fact} in the annotations and another"
            a, b = (x.dt.strftime("%Y-%m-%d") if fact == "date" else x for x in (a[differ], b[differ]))
            few = checks.few(f"{i}: {y}, taken {x}" for i, x, y in zip(table["image"][differ], a, b, strict=True))
            said.append((fact, "warning", f"{text} in the {kind}, which is taken", int(differ.sum()), few))
    for where, values in parts.items():
        fresh = found.isna() & values.notna()
        counts[where] = int((fresh & table["points"].gt(0)).sum())
        found = found.where(~fresh, values)
    return {where: n for where, n in counts.items() if n}, found


def _places(table: pd.DataFrame, site: Site, root, said: list) -> pd.DataFrame:
    """Check positions, and find their ecoregion: of the exact ones, which privacy may round after that."""
    good = geography.check_positions(table)
    given = table["latitude"].notna() | table["longitude"].notna()
    for problem, rows in table[given & good["problem"].ne("")].groupby(good["problem"]):
        text = f"the position of {checks.say(len(rows), 'image')} is left empty: {problem}"
        said.append(("positions", "warning", text, len(rows), checks.few(rows["image"])))
    table = table.assign(latitude=good["latitude"], longitude=good["longitude"])
    table[geography.REGION] = pd.DataFrame(pd.NA, index=table.index, columns=geography.REGION, dtype="str")
    if table["latitude"].notna().any():
        meow = site.at(site.meow, root) if site.meow else None
        region = geography.locate(table[["latitude", "longitude"]], meow)
        table[geography.REGION] = region[geography.REGION]
        far = table["latitude"].notna() & region["problem"].ne("")  # what else is wrong has left no position
        if far.any():
            n, names = checks.say(int(far.sum()), "image"), checks.few(table["ecoregion"][far].unique())
            text = (
                f"the ecoregion of {n} is a guess, far from the nearest known point of one, and often wrong: {names};"
            )
            text += " the shapefile of ecoregions, named as meow: in site.yaml, settles it"
            said.append(("positions", "warning", text, int(far.sum()), checks.few(table["image"][far])))
        lost = table["latitude"].notna() & table["ecoregion"].isna()
        if lost.any():
            text = (
                f"{checks.say(int(lost.sum()), 'image')} far from every ecoregion of the sea: is a sign missing, or are"
            )
            text += " latitude and longitude exchanged?"
            said.append(("positions", "warning", text, int(lost.sum()), checks.few(table["image"][lost])))
        realms = table["realm"].dropna().unique()
        if len(realms) > 1:
            text = f"positions lie in {len(realms)} realms ({', '.join(sorted(realms))}): is a sign missing?"
            said.append(("positions", "warning", text, len(realms), ""))
    return table


def _less_exact(site: Site, table, found, covers, which: np.ndarray, said: list, problems: list) -> tuple:
    """Round positions or leave them out as privacy asks: of tables, of what else tells them, and of what was said."""
    place = ["latitude", "longitude"]
    exact = table[place].take(which).set_axis(found.index)
    found = found.drop(columns=telling(found, exact, IMAGES))
    covers = covers.drop(columns=[name for name in covers if PLACE.search(name)])
    for frame in (table, found):
        frame[place] = frame[place].round(1) if site.privacy["positions"] == "rounded" else np.nan
    hidden = []
    for check, state, text, n, few in said:
        if check in (*place, "positions"):
            text, few = QUOTED.sub("", text), "" if check in place else few
        hidden.append((check, state, text, n, few))
    problems = [
        (file, line, column, QUOTED.sub("…", text) if PLACE.search(f"{column}".casefold()) else text)
        for file, line, column, text in problems
    ]
    return table, found, covers, hidden, problems


def _join(found: pd.DataFrame, table: pd.DataFrame, which: np.ndarray, site: Site) -> pd.DataFrame:
    """Give each point what is known of its image."""
    for name in FACTS:
        found[name] = table[name].array.take(which)
    for name in geography.REGION:
        found[name] = (
            table[name].array.take(which).astype("str")
            if name not in found
            else pd.Series(table[name].array.take(which), index=found.index).fillna(found[name])
        )
    found["inside"] = points.inside(found, table["width"].array.take(which), table["height"].array.take(which))
    for name in ("width", "height"):
        if name in found:
            found[name] = table[name].array.take(which)
    return found


def label(site: Site, found: pd.DataFrame, root: str | Path = "", write: bool = True, covers=None):
    """Propose a taxon, functional group and life form for each label, keep what labels.csv says, and apply it.

    Parameters
    ----------
    site : Site
    found : DataFrame
        The points of `make`.
    root : path
    write : bool
        Write labels.csv where it is not there, and add labels that it lacks; what its owner wrote stays.
    covers : DataFrame, optional
        Those of `make`, whose labels are proposed too.

    Returns
    -------
    labels, annotations, problems : DataFrame
        See `reefcore.benthos`; ``problems`` has the columns line, column, problem.

    Raises
    ------
    ReefcoreError
        Where labels.csv cannot be read.
    """
    from reefcore import benthos

    path = site.at(site.labels, root)
    asked = site.ocean or None
    every = found
    if covers is not None and len(covers):
        realm = found["realm"].iloc[0] if len(found) else None  # covers have no position of their own
        columns = [name for name in ("label_raw", "group_in_file", "realm") if name in found]
        every = pd.concat([found[columns].assign(count=1), covers.assign(realm=realm)], ignore_index=True)
    labels = benthos.propose(every, asked)
    labels, problems = benthos.merge(labels, benthos.read(path) if path.exists() else None, asked)
    if write:
        benthos.write(labels, path)
    return labels, benthos.apply(found, labels), problems
