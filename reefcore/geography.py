"""Where sources lie: marine ecoregions by position, sources grouped for a map, and the geometry of maps.

Ecoregions, provinces and realms are those of the Marine Ecoregions of the World (MEOW; Spalding et al. 2007,
doi:10.1641/B570707). Their polygons do not travel with the library; `download_meow` fetches them. Positions are WGS84
decimal degrees.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore.errors import ReefcoreError
from reefcore.files import atomic, share

REGION = ["ecoregion", "province", "realm"]
NO_PLACE = "(no location)"
EARTH_KM = 6371.0088  # mean radius
#: How far a point may be from what it is assigned to. A polygon reaches some 370 km off the coast and far inland; the
#: three points that stand for an ecoregion without its polygon can be far from its other reefs.
MAX_KM = {"nearest polygon": 200.0, "nearest point": 1000.0}
SURE_KM = 100.0  # up to here the nearest point is nearly always the right one; beyond, one in five is not
CENTRE = 160.0  # the meridian in the middle of world maps: the Pacific is whole, and the seam runs down the Atlantic

#: Where WWF and The Nature Conservancy have published the polygons.
MEOW_URLS = (
    "https://files.worldwildlife.org/wwfcmsprod/files/Publication/file/7gger8mmke_MEOW_FINAL.zip",
    "https://c402277.ssl.cf1.rackcdn.com/publications/351/files/original/MEOW_FINAL.zip?1349120553",
)
MEOW_NAME = "meow_ecos.shp"
MEOW_PARTS = (".prj", ".shx", ".dbf", ".shp")
MEOW_SHA256 = {
    ".shp": "9e958e389308ff49b49e3faca3c594d004e446b22d6830070a97c80c75ba7910",
    ".dbf": "a1988be1ddffba3001f4f048be5eb281291d1380481110f042b1c5233bfe82de",
}


def locate(points: pd.DataFrame, meow=None, max_km: float | None = None) -> pd.DataFrame:
    """Find the ecoregion, province and realm of positions.

    Parameters
    ----------
    points : DataFrame
        ``latitude`` and ``longitude`` in degrees; longitudes of 0 to 360 are understood.
    meow : str, path or GeoDataFrame, optional
        The polygons, see `read_meow`: by default those that `download_meow` has fetched. Without any, or with ``""``,
        the nearest of the points that represent each ecoregion (``data/geo``) decides.
    max_km : float, optional
        A point outside of every polygon is assigned up to this distance; by default `MAX_KM` says.

    Returns
    -------
    DataFrame
        A row per row of `points`, with its index: ``latitude``, ``longitude`` (in [-180, 180), NaN where they cannot be
        used), ``ecoregion``, ``province``, ``realm``, ``distance_km`` (great circle; 0 inside a polygon; to a polygon's
        border it is right within 2 km), ``problem`` (empty, or what to check), and ``how``:

        ===============  ==============================================================================
        polygon          the position lies in it; on a common border, the first in the order of names
        nearest polygon  on land or off the shelf: the nearest one, up to `max_km` away
        nearest point    no polygons: the ecoregion whose representative point is nearest
        too far          nothing within `max_km`; no ecoregion
        no coordinates   latitude or longitude is missing
        bad coordinates  ``problem`` says: not a number, out of range, perhaps swapped, or both zero
        ===============  ==============================================================================

    Notes
    -----
    The nearest point is a stopgap. On a half-degree grid of the sea within 32 degrees of the equator, in ecoregions
    with reefs, it names the polygon's ecoregion in 80 %, its province in 92 % and its realm in 97 % of the cells, and
    the ecoregion in 98 % of those within 100 km of the point.

    Raises
    ------
    ReefcoreError
        Where `points` lacks a column, or the polygons cannot be read.
    """
    import geopandas as gpd

    regions = read_meow(meow)
    require(points, "latitude", "longitude")
    at = ["latitude", "longitude"]
    which = points.groupby(at, dropna=False, sort=False).ngroup()  # the points of one photo share their position
    found = check_positions(points[at].drop_duplicates().reset_index(drop=True))
    found[REGION] = pd.DataFrame(pd.NA, index=found.index, columns=REGION, dtype="str")
    found["distance_km"] = np.nan
    found["how"] = np.where(found["latitude"].notna(), "", "bad coordinates")
    found.loc[found["problem"].eq("no coordinates"), "how"] = "no coordinates"
    rest = found.index[found["how"] == ""]
    if regions is None:
        how, regions = "nearest point", representatives()
        near = regions[at].assign(region=regions.index)
    else:
        how = "nearest polygon"
        places = gpd.GeoDataFrame(
            geometry=gpd.points_from_xy(found["longitude"], found["latitude"]), index=found.index, crs=4326
        )
        inside = gpd.sjoin(places.loc[rest], regions[["geometry"]], predicate="intersects")["index_right"]
        inside = inside.groupby(level=0).min()
        found.loc[inside.index, REGION] = regions.loc[inside, REGION].to_numpy()
        found.loc[inside.index, ["distance_km", "how"]] = [0.0, "polygon"]
        rest = rest.difference(inside.index)
        # Points of the borders, 0.02 degrees apart: the nearest of them is as good as the nearest place of a border,
        # and distances stay great circles, across the antimeridian too.
        near = regions.boundary.segmentize(0.02).get_coordinates() if len(rest) else pd.DataFrame(columns=["x", "y"])
        near = near.rename(columns={"x": "longitude", "y": "latitude"}).rename_axis("region").reset_index()
    if len(rest):
        nearest, distance = _nearest(found.loc[rest], near)
        limit = MAX_KM[how] if max_km is None else max_km
        found.loc[rest, REGION] = regions.loc[near["region"].to_numpy()[nearest], REGION].to_numpy()
        found.loc[rest, "distance_km"] = distance
        found.loc[rest, "how"] = np.where(distance <= limit, how, "too far")
        found.loc[found["how"] == "too far", REGION] = pd.NA
        far = (found["how"] == "nearest point") & (found["distance_km"] > SURE_KM)
        found.loc[far, "problem"] = "far from the nearest point of an ecoregion: check it, or give the polygons"
    columns = [*at, *REGION, "how", "distance_km", "problem"]
    return found[columns].iloc[which].set_index(points.index)


def check_positions(points: pd.DataFrame) -> pd.DataFrame:
    """Say of each position whether it can be one of a reef.

    Returns
    -------
    DataFrame
        ``latitude``, ``longitude`` (in [-180, 180)), both NaN where ``problem`` is not empty.
    """
    require(points, "latitude", "longitude")
    numbers = points[["latitude", "longitude"]].apply(pd.to_numeric, errors="coerce").astype(float)
    latitude, longitude = numbers["latitude"], numbers["longitude"]
    problem = pd.Series("", index=points.index, dtype="object")

    def note(where, text):
        problem[where & (problem == "")] = text

    for name in numbers:
        note(numbers[name].isna() & points[name].notna(), f"{name} is not a number")
    note(latitude.isna() | longitude.isna(), "no coordinates")
    out = latitude.abs() > 90
    note(out & (longitude.abs() <= 90), "latitude is outside -90 to 90; latitude and longitude may be swapped")
    note(out, "latitude is outside -90 to 90")
    note((longitude < -180) | (longitude > 360), "longitude is outside -180 to 360")
    note((latitude == 0) & (longitude % 360 == 0), "latitude and longitude are both 0: never filled in?")
    good = problem == ""
    return pd.DataFrame(
        {
            "latitude": latitude.where(good),
            "longitude": (longitude - 360 * (longitude >= 180)).where(good),
            "problem": problem.astype("str"),
        }
    )


def read_meow(path=None):
    """Read the polygons of the ecoregions.

    Parameters
    ----------
    path : str, path or GeoDataFrame, optional
        A file that geopandas reads, with the columns ECOREGION, PROVINCE and REALM, or a folder that holds the
        published ``meow_ecos.shp``. By default what `download_meow` has fetched; ``""`` for none.

    Returns
    -------
    GeoDataFrame or None
        ``ecoregion``, ``province``, ``realm``, ``geometry`` (WGS84), in the order of the names; None without polygons.

    Raises
    ------
    ReefcoreError
        Where there is no such file, or it is not one of ecoregions.
    """
    import geopandas as gpd

    if path is None:
        path = cache_folder() / MEOW_NAME
        if not path.exists():
            return None
    if isinstance(path, gpd.GeoDataFrame):
        table, path = path, None
    elif not str(path):
        return None
    else:
        path = Path(path)
        if path.is_dir():
            path = next(iter(sorted(path.rglob(MEOW_NAME))), path / MEOW_NAME)
        if not path.exists():
            raise ReefcoreError("there are no ecoregions here", path, "check the path, or call download_meow()")
        try:
            table = gpd.read_file(path)
        except Exception as error:  # pyogrio, fiona and shapely each raise their own
            raise ReefcoreError(f"these polygons cannot be read ({' '.join(str(error).split())})", path) from None
    table = table.rename(columns=lambda name: name.lower())
    if missing := [name for name in REGION if name not in table]:
        raise ReefcoreError(f"a table of ecoregions lacks {', '.join(missing)}", path, "give the MEOW shapefile")
    table = table.set_crs(4326) if table.crs is None else table.to_crs(4326)
    return table[[*REGION, "geometry"]].sort_values("ecoregion", kind="stable", ignore_index=True)


def cache_folder() -> Path:
    """Return where `download_meow` keeps the polygons: below ``XDG_CACHE_HOME``, or ``.cache`` of the home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reefcore" / "meow"


def download_meow(folder: str | Path | None = None, url: str | Iterable[str] = MEOW_URLS, timeout: float = 60) -> Path:
    """Fetch the polygons of the ecoregions, once, and check that they are the published ones.

    The hashes that are known are those of the shapefile (`MEOW_SHA256`), so a zip file packed anew serves as well.

    Parameters
    ----------
    folder : path, optional
        By default `cache_folder`, where `locate` looks.
    url : str or iterable of str
        Addresses of the zip file (0.5 MB), or paths of it, the shapefile or its folder; tried in their order.
    timeout : float
        Seconds without an answer.

    Returns
    -------
    Path
        The shapefile. Where it is there already, whole, nothing is fetched.

    Raises
    ------
    ReefcoreError
        Naming each address and why it did not serve, or the folder that cannot be written.
    """
    shapefile = Path(folder or cache_folder()) / MEOW_NAME
    with contextlib.suppress(OSError, ValueError):
        _checked({suffix: shapefile.with_suffix(suffix).read_bytes() for suffix in MEOW_PARTS})
        return shapefile
    failures = []
    for address in [url] if isinstance(url, str | Path) else url:
        try:
            parts = _meow_parts(str(address), timeout)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            cause = error  # an HTTP library wraps the one reason in several sentences and the address again
            while getattr(cause, "reason", None) or (cause.args and isinstance(cause.args[0], Exception)):
                cause = getattr(cause, "reason", None) or cause.args[0]
            why = str(cause).rpartition(">: ")[2].rpartition("): ")[2] or type(cause).__name__
            failures.append(f"{address}: {why}")
            continue
        try:
            for suffix in MEOW_PARTS:  # the last one says that the others are there
                with atomic(shapefile.with_suffix(suffix)) as temporary:
                    temporary.write_bytes(parts[suffix])
        except OSError as error:
            raise ReefcoreError(
                f"the ecoregions cannot be kept here ({error})", shapefile.parent, "name a folder"
            ) from None
        return shapefile
    raise ReefcoreError(
        f"the ecoregions could not be fetched ({'; '.join(failures) or 'no address was given'})",
        do="check the network, or download the MEOW zip file by hand and give its path (--from PATH)",
    )


def _meow_parts(address: str, timeout: float) -> dict[str, bytes]:
    """Get the four files of the shapefile, from a folder, a zip file or an address of one, and check them."""
    stem, path = Path(MEOW_NAME).stem, Path(address)
    if path.is_dir() or path.suffix == ".shp":
        found = next(iter(sorted(path.rglob(MEOW_NAME))), path / MEOW_NAME) if path.is_dir() else path
        return _checked({suffix: found.with_suffix(suffix).read_bytes() for suffix in MEOW_PARTS})
    with contextlib.ExitStack() as stack:
        if "://" in address:
            import pooch

            pooch.get_logger().setLevel("WARNING")
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            get = pooch.HTTPDownloader(timeout=timeout)
            path = pooch.retrieve(address, None, "meow.zip", folder, downloader=get)  # what is in it has known hashes
        archive = stack.enter_context(zipfile.ZipFile(path))
        names = {Path(name).suffix: name for name in archive.namelist() if Path(name).stem == stem}
        if missing := [suffix for suffix in (".shp", ".shx", ".dbf", ".prj") if suffix not in names]:
            raise ValueError(f"the zip file lacks {stem}{missing[0]}")
        return _checked({suffix: _bounded(archive, names[suffix]) for suffix in MEOW_PARTS})


def _bounded(archive: zipfile.ZipFile, name: str, limit: int = 50_000_000) -> bytes:
    with archive.open(name) as file:
        data = file.read(limit)
    if len(data) == limit:
        raise ValueError(f"{name} is far larger than the published file")
    return data


def _checked(parts: dict[str, bytes]) -> dict[str, bytes]:
    """Return the parts of the shapefile where the two that hold the data are the published ones."""
    for suffix, expected in MEOW_SHA256.items():
        if hashlib.sha256(parts[suffix]).hexdigest() != expected:
            raise ValueError(f"{Path(MEOW_NAME).stem}{suffix} is not the published file (its SHA-256 differs)")
    return parts


@cache
def representatives() -> pd.DataFrame:
    """List the points that stand for ecoregions where there are no polygons: one inside each, two on its reefs.

    Returns
    -------
    DataFrame
        ``ecoregion``, ``province``, ``realm``, ``latitude``, ``longitude``.
    """
    inside = pd.read_csv(share("data", "geo", "meow_points.csv")).rename(
        columns={"lat": "latitude", "lon": "longitude"}
    )
    reefs = pd.read_csv(share("data", "geo", "meow_reef_points.csv")).merge(inside[REGION], on="ecoregion")
    parts = [inside[[*REGION, "latitude", "longitude"]]]
    for kind in ("reef_mean", "nearest_reef"):
        at = reefs.rename(columns={f"{kind}_lat": "latitude", f"{kind}_lon": "longitude"})
        parts.append(at[[*REGION, "latitude", "longitude"]])
    return pd.concat(parts).sort_values(["ecoregion", "latitude", "longitude"], ignore_index=True)


def _vectors(places: pd.DataFrame) -> np.ndarray:
    """Turn positions into unit vectors from the centre of the Earth, which know no seam and no poles."""
    latitude, longitude = (np.radians(places[name].to_numpy(float)) for name in ("latitude", "longitude"))
    flat = np.cos(latitude)
    return np.column_stack([flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)])


def _nearest(places: pd.DataFrame, among: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest of some positions, and the great-circle distance to it in km."""
    from scipy.spatial import cKDTree

    chord, which = cKDTree(_vectors(among)).query(_vectors(places))
    return which, 2 * EARTH_KM * np.arcsin(np.minimum(chord / 2, 1))


def mean_position(places: pd.DataFrame) -> tuple[float, float]:
    """Average positions on the sphere: of 179 and -179 degrees it is 180, not 0; NaN of none."""
    x, y, z = _vectors(places).sum(axis=0)
    if not len(places):
        return np.nan, np.nan
    return float(np.degrees(np.arctan2(z, np.hypot(x, y)))), float(np.degrees(np.arctan2(y, x)))


def cluster(places: pd.DataFrame, degrees: float) -> np.ndarray:
    """Number positions so that those within some degrees of latitude and of longitude of each other share a number.

    Any two positions that are close have the same number, and so have those that a chain of close ones joins: a group
    can be wider than `degrees`, and the order of the rows does not matter.

    Returns
    -------
    ndarray of int
        From 0, in no particular order; one per row, which must all have a position.
    """
    from scipy.sparse.csgraph import connected_components

    if degrees < 0:
        raise ReefcoreError(f"{degrees} degrees is negative", do="give 0 or more")
    which = places.groupby(["latitude", "longitude"], sort=False).ngroup()
    latitude, longitude = places[["latitude", "longitude"]].drop_duplicates().to_numpy(float).T[:, :, None]
    east = np.abs((longitude - longitude.T + 180) % 360 - 180)
    close = (np.abs(latitude - latitude.T) <= degrees + 1e-9) & (east <= degrees + 1e-9)
    return connected_components(close, directed=False)[1][which]


def sources(annotations: pd.DataFrame) -> pd.DataFrame:
    """Sum up the annotations of each source: where it is, and how much it holds.

    Returns
    -------
    DataFrame
        ``source``, ``ecoregion``, ``province``, ``realm`` (as recorded; those of most of its points), ``latitude``,
        ``longitude`` (mean of its distinct positions; NaN without any), ``positions`` (how many), ``problem`` (of
        positions that cannot be used, see `check_positions`), ``images``, ``annotations``; in the order of the names.
    """
    table = annotations.groupby("source").agg(images=("image", "nunique"), annotations=("image", "size"))
    recorded = annotations.groupby(["source", *REGION]).size().rename("points").reset_index()
    recorded = recorded.sort_values("points", ascending=False, kind="stable").drop_duplicates("source")
    spots = annotations[["source", "latitude", "longitude"]].drop_duplicates()
    spots = check_positions(spots).assign(source=spots["source"])
    rows = []
    for source, here in spots.groupby("source"):
        good = here[here["problem"] == ""]
        problem = "; ".join(sorted(set(here["problem"]) - {""}))
        rows.append((source, *mean_position(good), len(good), problem))
    places = pd.DataFrame(rows, columns=["source", "latitude", "longitude", "positions", "problem"])
    table = places.merge(recorded[["source", *REGION]], how="left").merge(table, on="source")
    return table[["source", *REGION, "latitude", "longitude", "positions", "problem", "images", "annotations"]]


def group(sources: pd.DataFrame, degrees: float = 2) -> pd.DataFrame:
    """Group the sources that lie close together, as the paper's Figure 3 does ("within two degrees").

    Parameters
    ----------
    sources : DataFrame
        ``source``, ``latitude``, ``longitude``, ``annotations``, and ``ecoregion``, ``realm`` where known: see
        `sources`.
    degrees : float
        Sources within this many degrees of latitude and of longitude share a group; see `cluster`.

    Returns
    -------
    DataFrame
        ``latitude``, ``longitude`` (mean of its sources), ``sources`` (how many), ``annotations``, ``ecoregion``,
        ``realm`` (of its most annotated source), ``members`` (names); the most annotated first. Sources without a
        usable position are the last row, with NaN for the position.
    """
    require(sources, "source", "annotations")
    table = sources.assign(**check_positions(sources)).sort_values(
        ["annotations", "source"], ascending=[False, True], ignore_index=True
    )
    table = table.assign(**{name: pd.NA for name in ("ecoregion", "realm") if name not in table}, group=-1)
    good = table["latitude"].notna()
    if good.any():
        table.loc[good, "group"] = cluster(table[good], degrees)
    rows = []
    for number, here in table.groupby("group"):
        place = (np.nan, np.nan) if number < 0 else mean_position(here)
        first = here.iloc[0]
        members = ", ".join(sorted(here["source"]))
        rows.append((*place, len(here), here["annotations"].sum(), first["ecoregion"], first["realm"], members))
    columns = ["latitude", "longitude", "sources", "annotations", "ecoregion", "realm", "members"]
    groups = pd.DataFrame(rows, columns=columns).assign(lost=lambda t: t["latitude"].isna())
    groups = groups.sort_values(["lost", "annotations", "members"], ascending=[True, False, True], ignore_index=True)
    return groups[columns]


def by_ecoregion(annotations: pd.DataFrame) -> pd.DataFrame:
    """Count sources, images and annotations per ecoregion (paper, Figure 7).

    Returns
    -------
    DataFrame
        ``ecoregion``, ``province``, ``realm``, ``sources``, ``images``, ``annotations``, ``share`` (of all annotations,
        a fraction); the most annotated first, then what has no ecoregion, as `NO_PLACE`.
    """
    require(annotations, "source", "image", *REGION)
    named = annotations[["source", "image", *REGION]].fillna({"ecoregion": NO_PLACE})
    regions = named.groupby("ecoregion")
    table = regions.agg(province=("province", "first"), realm=("realm", "first"), sources=("source", "nunique"))
    table["images"] = named.drop_duplicates(["source", "image", "ecoregion"]).groupby("ecoregion").size()
    table["annotations"] = regions.size()
    table["share"] = table["annotations"] / len(named)
    table = table.reset_index().assign(lost=lambda t: t["ecoregion"] == NO_PLACE)
    order = ["lost", "annotations", "ecoregion"]
    return table.sort_values(order, ascending=[True, False, True], ignore_index=True).drop(columns="lost")


def land():
    """Read the land of the world but Antarctica (Natural Earth, 1:110 million): a GeoSeries in degrees."""
    import geopandas as gpd

    return gpd.read_file(share("data", "geo", "land.geojson")).geometry.explode(ignore_index=True)


def recentre(shapes, centre: float, south: float = -90, north: float = 90):
    """Cut shapes at the meridian opposite to `centre`, so that nothing is drawn across the whole map.

    Parameters
    ----------
    shapes : GeoSeries
        In degrees, longitudes in [-180, 180].
    centre : float
        Longitude of the middle of the map.
    south, north : float
        Latitudes the shapes are cut at.

    Returns
    -------
    GeoSeries
        Longitudes are degrees east of `centre`, in [-180, 180]; empty shapes are left out, no CRS.
    """
    import geopandas as gpd
    from shapely import box

    centre = centre % 360
    seam = centre - 180
    west = shapes.intersection(box(-180, south, seam, north)).translate(360 - centre)
    east = shapes.intersection(box(seam, south, 180, north)).translate(-centre)
    parts = pd.concat([west, east])
    return gpd.GeoSeries(parts[~parts.is_empty].array, index=parts.index[~parts.is_empty]).set_crs(
        None, allow_override=True
    )


def equal_earth(degrees_east, latitude) -> tuple[np.ndarray, np.ndarray]:
    """Project positions to the Equal Earth map (Savric et al. 2019, doi:10.1080/13658816.2018.1504949).

    Parameters
    ----------
    degrees_east : array of float
        Degrees east of the middle of the map, in [-180, 180].
    latitude : array of float

    Returns
    -------
    x, y : ndarray of float
        In metres.
    """
    from pyproj import Proj

    return Proj("+proj=eqearth +over")(np.asarray(degrees_east, float), np.asarray(latitude, float))


def require(table: pd.DataFrame, *names: str) -> None:
    """Refuse a table that lacks one of these columns, by a `ReefcoreError` that names all that are missing."""
    if missing := [name for name in names if name not in table]:
        raise ReefcoreError(f"the table lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}", do="add them")
