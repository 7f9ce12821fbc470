"""Where frames were taken, where devices were released, how much coral lay below, and how much seabed was seen.

Positions are WGS84 decimal degrees, times UTC, distances metres on the WGS84 ellipsoid. A frame without a usable
position stays in every table, with the reason: the authors' code left such frames out silently.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterable
from datetime import timedelta
from datetime import timezone as fixed
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from PIL.ExifTags import GPS, Base

from reefcore import images, metrics
from reefcore.errors import ReefcoreError
from reefcore.files import write_json
from reefcore.geography import check_positions, require

logger = logging.getLogger(__name__)

UTC = "datetime64[us, UTC]"
#: How the columns of a track are spelt, lower case and without blanks, units and signs.
SPELT = {
    "time": ("time", "timestamp", "datetime", "gpstime", "timeutc", "datetimeutc", "utc", "utctime"),
    "latitude": ("latitude", "lat", "latdeg", "latitudedeg", "latdd"),
    "longitude": ("longitude", "lon", "long", "lng", "londeg", "longitudedeg", "londd"),
}


def utc(times, timezone: str | None = None, where: str | Path | None = None) -> pd.Series:
    """Turn written times into UTC (datetime64[us, UTC]); a missing one stays missing.

    Parameters
    ----------
    times : sequence of str
        ISO 8601 (``2025-03-01T10:15:30+10:00``), or with the colons of EXIF (``2025:03:01 10:15:30``).
    timezone : str, optional
        Of times that carry no offset: an IANA name such as ``Australia/Brisbane``, or an offset such as ``+10:00``.
    where : str or path, optional
        The file they are from, for the error.

    Raises
    ------
    ReefcoreError
        Where a time cannot be read, carries no offset while `timezone` is not given, or is a local time that occurs
        twice or never because the clocks change.
    """
    text = pd.Series(times, dtype="str").str.strip().replace("", pd.NA)
    text = text.str.replace(r"^(\d{4}):(\d\d):(\d\d)", r"\1-\2-\3", regex=True)
    aware = text.str.contains(r":\d\d.*(?:Z|UTC|[+-]\d\d:?\d\d)$", regex=True, na=False)
    local = text.notna() & ~aware
    found = pd.to_datetime(text.where(aware), utc=True, errors="coerce", format="ISO8601").astype(UTC)
    clock = pd.to_datetime(text.where(local), errors="coerce", format="ISO8601").astype("datetime64[us]")
    if (bad := text.notna() & found.isna() & clock.isna()).any():
        do = "write times as 2025-03-01T10:15:30+10:00"
        raise ReefcoreError(f"{text[bad].iloc[0]!r} is not a time that can be read", where, do)
    if not local.any():
        return found
    if timezone is None:
        do = "give its timezone, such as Australia/Brisbane or +10:00"
        raise ReefcoreError(f"the time {text[local].iloc[0]} does not say of which time zone it is", where, do)
    zone = _zone(timezone)
    placed = clock.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    if (odd := local & placed.isna()).any():
        first = clock[odd].iloc[0]
        never = pd.isna(first.tz_localize(zone, ambiguous=True, nonexistent="NaT"))
        said = f"the local time {first} occurs {'never' if never else 'twice'} in {timezone}, because the clocks change"
        raise ReefcoreError(said, where, "give times in UTC, or with their offset")
    return found.fillna(placed.dt.tz_convert("UTC"))


def _zone(name: str):
    try:
        if match := re.fullmatch(r"(?:UTC)?([+-])(\d\d):?([0-5]\d)", name.strip()):
            sign, hours, minutes = match.groups()
            return fixed(int(f"{sign}1") * timedelta(hours=int(hours), minutes=int(minutes)))
        return ZoneInfo(name.strip())
    except (KeyError, ValueError, OSError):
        do = "give an IANA name such as Australia/Brisbane, or an offset such as +10:00"
        raise ReefcoreError(f"{name!r} is not a time zone", do=do) from None


def positions(photos: str | Path | Iterable[str | Path], timezone: str | None = None) -> pd.DataFrame:
    """Read where and when photos were taken from their EXIF headers.

    Parameters
    ----------
    photos : path, or paths
        A folder (its photos, or else those of its subfolders; see `reefcore.images.photos_in`), or files.
    timezone : str, optional
        Of the camera's clock, see `utc`. The GPS time stamp is used before it, and the offset the camera wrote.

    Returns
    -------
    DataFrame
        One row per photo, sorted: ``frame`` (path relative to the folder, or the path as given), ``sequence`` (name of
        the folder it lies in), ``time``, ``latitude``, ``longitude``, ``how`` (``exif``, or missing), ``problem``
        (empty, or why there is no position or no time). Degrees may come with minutes and seconds, or be decimal; south
        and west are negative. Without a reference (N, S, E, W) there is no position: the hemisphere is not guessed.

    Raises
    ------
    ReefcoreError
        Where there is no such folder, no photo in it, or `timezone` is none. A damaged photo is a row with a problem.
    """
    if isinstance(photos, str | Path):
        folder, listed = Path(photos), images.photos_in(photos)
        paths = [images.photo_path(folder, *row, flat=True) for row in listed.itertuples(index=False)]
        names = [path.relative_to(folder).as_posix() for path in paths]
    else:
        paths = sorted(Path(path) for path in photos)
        names = [path.as_posix() for path in paths]
    if not paths:
        raise ReefcoreError("there is no photo to read a position from", do="give a folder of photos, or their paths")
    if timezone is not None:
        _zone(timezone)  # said once, not for every photo
    rows = [(name, path.resolve().parent.name, *taken(path, timezone)) for name, path in zip(names, paths, strict=True)]
    table = pd.DataFrame(rows, columns=["frame", "sequence", "time", "latitude", "longitude", "problem"])
    checked = check_positions(table)
    unlocated = table["latitude"].isna()
    table[["latitude", "longitude"]] = checked[["latitude", "longitude"]]
    problem = table["problem"].where(unlocated | (checked["problem"] == ""), checked["problem"])
    table["how"] = pd.Series(pd.NA, index=table.index, dtype="str").mask(table["latitude"].notna(), "exif")
    table = table.assign(time=pd.to_datetime(table["time"], utc=True).astype(UTC), problem=problem.astype("str"))
    return table[["frame", "sequence", "time", "latitude", "longitude", "how", "problem"]]


def taken(path: Path, timezone: str | None) -> tuple:
    """Read time, latitude, longitude and what is wrong with them from one photo."""
    try:
        _, taking, gps = images.exif(path)
    except ReefcoreError as error:
        return pd.NaT, np.nan, np.nan, error.what
    time, problem = pd.NaT, ""
    try:
        day = str(gps[GPS.GPSDateStamp]).strip("\0 ").replace(":", "-")
        hours, minutes, seconds = (float(value) for value in gps[GPS.GPSTimeStamp])
        time = pd.Timestamp(day, tz="UTC") + pd.Timedelta(seconds=round(3600 * hours + 60 * minutes + seconds, 6))
    except (KeyError, TypeError, ValueError):  # none, or not whole: the camera's clock is left
        if clock := str(taking.get(Base.DateTimeOriginal) or "").strip("\0 "):
            part = str(taking.get(Base.SubsecTimeOriginal) or "").strip("\0 ")
            offset = str(taking.get(Base.OffsetTimeOriginal) or "").strip("\0 ")
            try:
                time = utc([f"{clock}{'.' + part if part.isdigit() else ''}{offset}"], timezone)[0]
            except ReefcoreError as error:
                problem = error.what
    try:
        if str(gps.get(GPS.GPSStatus) or "A").strip("\0 ") == "V":
            raise ValueError("the receiver had no fix (GPSStatus V)")
        latitude = dms_degrees(gps.get(GPS.GPSLatitude), gps.get(GPS.GPSLatitudeRef), "NS", "latitude")
        longitude = dms_degrees(gps.get(GPS.GPSLongitude), gps.get(GPS.GPSLongitudeRef), "EW", "longitude")
    except ValueError as error:
        return time, np.nan, np.nan, "; ".join(filter(None, [str(error), problem]))
    return time, latitude, longitude, problem


def dms_degrees(value, reference, letters: str, name: str) -> float:
    """Turn what a photo's header says of a latitude or longitude into signed degrees.

    Parameters
    ----------
    value : rational or sequence of up to three
        Degrees, minutes and seconds (Exif's GPSLatitude, GPSLongitude); None where the header has none.
    reference : str or bytes
        A letter of `letters`, the first of which is positive (Exif's GPSLatitudeRef, GPSLongitudeRef).
    letters : {'NS', 'EW'}
    name : str
        What it is, for the message.

    Returns
    -------
    float
        Decimal degrees.

    Raises
    ------
    ValueError
        Saying why it is no position.
    """
    if value is None:
        raise ValueError("no GPS position in the header")
    try:
        parts = [float(part) for part in (value if isinstance(value, tuple | list) else (value,))]
    except (TypeError, ValueError):
        parts = []
    if not 1 <= len(parts) <= 3 or not np.isfinite(parts).all():
        raise ValueError(f"the GPS {name} is not a number (such as 0/0)")
    if min(parts) < 0 or max(parts[1:], default=0) > 60:
        raise ValueError(f"the GPS {name} is not degrees, minutes and seconds: {', '.join(f'{p:g}' for p in parts)}")
    reference = reference.decode("ascii", "replace") if isinstance(reference, bytes) else str(reference or "")
    letter = reference.strip("\0 ")[:1].upper()
    if not letter or letter not in letters:
        raise ValueError(f"the GPS {name} does not say {letters[0]} or {letters[1]}")
    return sum(part / 60**power for power, part in enumerate(parts)) * (1 if letter == letters[0] else -1)


def read_track(path: str | Path, timezone: str | None = None) -> pd.DataFrame:
    """Read the fixes of a GPS receiver from a GPX or CSV file.

    Parameters
    ----------
    path : path
        ``.gpx``, whose times are UTC (GPX 1.1), or a CSV with columns for time, latitude and longitude in a usual
        spelling (see `SPELT`), separated by commas, semicolons or tabs. A time column with ``utc`` in its name is UTC.
    timezone : str, optional
        Of the times of a CSV that carry no offset, see `utc`.

    Returns
    -------
    DataFrame
        ``time``, ``latitude``, ``longitude``, sorted by time. Fixes without a time, without a usable position, or at a
        time that another one has (the first is kept) are left out, and counted in the log.

    Raises
    ------
    ReefcoreError
        Where the file cannot be read, lacks a column, has no usable fix, or has times of no known zone.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        track = _gpx(text, path) if path.suffix.lower() == ".gpx" else _csv(text, path, timezone)
    except (OSError, UnicodeDecodeError) as error:
        raise ReefcoreError(f"this track cannot be read ({error})", path, "export it again as GPX or CSV") from None
    checked = check_positions(track)
    lost = track["time"].isna() | (checked["problem"] != "")
    track = track.assign(latitude=checked["latitude"], longitude=checked["longitude"])[~lost]
    track = track.sort_values("time", kind="stable", ignore_index=True)
    twice = track.duplicated("time")
    if lost.any():
        logger.warning("%s: %d fixes have no time or no usable position and are left out.", path, lost.sum())
    if twice.any():
        logger.warning("%s: %d fixes have the time of another one; the first of each is kept.", path, twice.sum())
    if track.empty:
        raise ReefcoreError("this track has no fix with a time and a position", path, "export it again, with times")
    return track[~twice].reset_index(drop=True)


def _gpx(text: str, path: Path) -> pd.DataFrame:
    import gpxpy
    from gpxpy.gpx import GPXException

    try:
        points = [walked[0] for walked in gpxpy.parse(text).walk()]
    except (GPXException, ValueError) as error:
        said = f"this is not GPX ({' '.join(str(error).split())})"
        raise ReefcoreError(said, path, "export the track again") from None
    times = [None if point.time is None else point.time.isoformat() for point in points]
    table = pd.DataFrame([(p.latitude, p.longitude) for p in points], columns=["latitude", "longitude"], dtype=float)
    return table.assign(time=utc(times, "UTC", path))


def _csv(text: str, path: Path, timezone: str | None) -> pd.DataFrame:
    try:
        raw = pd.read_csv(io.StringIO(text), sep=None, engine="python", dtype="str", skipinitialspace=True)
    except (pd.errors.ParserError, ValueError, csv.Error) as error:
        said = f"this is no table ({' '.join(str(error).split())})"
        raise ReefcoreError(said, path, "export the track as CSV") from None
    plain = {re.sub(r"[^a-z]", "", str(name).lower()): name for name in reversed(raw.columns)}
    found = {name: next((plain[s] for s in spelt if s in plain), None) for name, spelt in SPELT.items()}
    if missing := [name for name, column in found.items() if column is None]:
        said = f"the table has no column for {' and '.join(missing)} (it has {', '.join(map(str, raw.columns))})"
        raise ReefcoreError(said, path, "name them time, latitude and longitude")
    zone = "UTC" if "utc" in found["time"].lower() else timezone  # which may be that of the camera's clock
    table = raw[list(found.values())].set_axis(list(found), axis=1)
    return table.assign(time=utc(table["time"], zone, path))


def read_tracks(folder: str | Path, timezone: str | None = None) -> pd.DataFrame:
    """Read the tracks of a folder, one file per sequence: as `read_track`, with ``sequence``, the file's name."""
    folder = Path(folder)
    files = sorted(path for path in folder.glob("*") if path.suffix.lower() in (".gpx", ".csv"))
    if not files:
        raise ReefcoreError("there is no GPX or CSV file here", folder, "give the folder with the tracks")
    tables = [read_track(path, timezone).assign(sequence=path.stem) for path in files]
    return pd.concat(tables, ignore_index=True)


def join(frames: pd.DataFrame, track: pd.DataFrame, most: float = 5.0) -> pd.DataFrame:
    """Give frames without a position the one of a track at their time, between the two fixes that enclose it.

    Parameters
    ----------
    frames : DataFrame
        ``frame`` and ``time`` (UTC), and what `positions` gives where it is there. Frames with a position keep it.
    track : DataFrame
        From `read_track`. Where both tables have ``sequence``, a frame is joined to the track of its own sequence.
    most : float
        Seconds. Between fixes further apart than this nothing is interpolated, and nothing beyond the ends.

    Returns
    -------
    DataFrame
        `frames`, with ``latitude``, ``longitude``, ``how`` (``exif``, ``track`` or missing) and ``problem``, which says
        of each frame without a position why.

    Raises
    ------
    ReefcoreError
        Where a column is missing, or `most` is not a positive number.
    """
    require(frames, "frame", "time")
    require(track, "time", "latitude", "longitude")
    if not most > 0:
        raise ReefcoreError(f"most={most} is not a number of seconds above 0", do="give the longest gap to bridge")
    blank = {"latitude": np.nan, "longitude": np.nan, "how": None, "problem": ""}
    out = frames.assign(**{name: value for name, value in blank.items() if name not in frames}).reset_index(drop=True)
    out = out.astype({"how": "object", "problem": "object"})
    at, fixes, todo = _seconds(frames), track.assign(when=_seconds(track)).sort_values("when"), out["latitude"].isna()
    own = "sequence" in frames and "sequence" in track
    for name, here in out[todo].groupby(out["sequence"] if own else todo, dropna=False):
        mine = fixes[fixes["sequence"] == name] if own else fixes
        place, why = _between(at[here.index], mine[["when", "latitude", "longitude"]].to_numpy(float).T, most)
        out.loc[here.index, ["latitude", "longitude"]] = place
        out.loc[here.index, "how"] = np.where(why == "", "track", None)
        said = [f"{old}; track: {now}".removeprefix("; ") for old, now in zip(here["problem"], why, strict=True)]
        out.loc[here.index, "problem"] = np.where(why == "", "", said)
    return out.astype({"how": "str", "problem": "str"}).set_axis(frames.index)


def _seconds(table: pd.DataFrame) -> np.ndarray:
    """Give the times of a table in seconds since 1970, NaN where there is none; a clock without a zone is refused."""
    if getattr(table["time"].dtype, "tz", None) is None:
        raise ReefcoreError("the times of the table have no time zone", do="make them UTC with tracks.utc")
    time = table["time"].astype(UTC)
    return (time.astype("int64") / 1e6).where(time.notna()).to_numpy(float)


def _between(at: np.ndarray, fixes: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate positions (n, 2) from fixes of shape (3, n): seconds, latitude, longitude; and say why not."""
    seconds, north, east = fixes if fixes.size else np.full((3, 1), -1.0)  # without any: one in 1969
    ends = {"left": np.nan, "right": np.nan}
    latitude = np.interp(at, seconds, north, **ends)
    longitude = np.interp(at, seconds, np.unwrap(east, period=360), **ends)  # whole at 180 degrees too
    after = np.searchsorted(seconds, at).clip(0, len(seconds) - 1)  # the first fix not before the frame
    gap = np.where(np.isin(at, seconds), 0, seconds[after] - seconds[after - 1])
    far = [f"the fixes around its time are {value:.0f} s apart" for value in gap]
    why = np.where(np.isnan(latitude), "its time is not within a track", np.where(gap > most, far, ""))
    why = np.where(np.isnan(at), "it has no time", why)
    place = np.column_stack([latitude, (longitude + 180) % 360 - 180])
    return np.where((why == "")[:, None], place, np.nan), why


def deployment(frames: pd.DataFrame, decisions: pd.DataFrame | None = None) -> pd.DataFrame:
    """Order frames along their sequences, with the distance since the start and since the last deployment.

    Parameters
    ----------
    frames : DataFrame
        ``frame``, ``sequence``, ``time``, ``latitude``, ``longitude``; frames without a position are kept, last.
    decisions : DataFrame, optional
        ``frame`` and ``deploy`` (bool), and other columns such as ``coral`` (share of Coral patches, 0 to 1), added to
        `frames`; by default `frames` has ``deploy`` itself. Only frames with a decision are returned.

    Returns
    -------
    DataFrame
        The frames by sequence and time, with ``along`` (metres from the first frame of the sequence, from position to
        position: scatter of the positions makes it longer), ``since`` (metres along the track from the last deployment
        of the same sequence; NaN unless this frame is one, and for the first).

    Raises
    ------
    ReefcoreError
        Where a column is missing, or a frame has two decisions or an empty one.
    """
    from pyproj import Geod

    if decisions is not None:
        require(decisions, "frame", "deploy")
        if (twice := decisions["frame"].duplicated()).any():
            text = f"frame {decisions.loc[twice, 'frame'].iloc[0]} has more than one decision"
            raise ReefcoreError(text, do="give the decisions of one run")
        known = frames.columns.intersection(decisions.columns).difference(["frame"])
        frames = frames.drop(columns=known).merge(decisions, on="frame")
    require(frames, "frame", "sequence", "time", "latitude", "longitude", "deploy")
    if frames["deploy"].isna().any():
        text = f"frame {frames.loc[frames['deploy'].isna(), 'frame'].iloc[0]} has no decision"
        raise ReefcoreError(text, do="say deploy as true or false")
    table = frames.assign(
        lost=frames["latitude"].isna(), deploy=frames["deploy"].astype(bool), along=np.nan, since=np.nan
    )
    table = table.sort_values(["lost", "sequence", "time", "frame"], ignore_index=True).drop(columns="lost")
    for _, here in table[table["latitude"].notna()].groupby("sequence"):
        north, east = here["latitude"].to_numpy(), here["longitude"].to_numpy()
        steps = Geod(ellps="WGS84").inv(east[:-1], north[:-1], east[1:], north[1:])[2]
        table.loc[here.index, "along"] = np.concatenate([[0.0], np.cumsum(steps)])
        released = here.index[here["deploy"]]
        table.loc[released, "since"] = table.loc[released, "along"].diff()
    return table


def summary(points: pd.DataFrame) -> pd.DataFrame:
    """Sum up the deployments of each sequence, and of all, from what `deployment` gives.

    Returns
    -------
    DataFrame
        ``sequence`` (the last row is ``all``), ``frames``, ``located`` (frames with a position), ``deployments`` (of
        located frames), ``length`` (metres of track), ``per_100_m`` (deployments; NaN without length), ``nearest``,
        ``median``, ``farthest`` (metres from one deployment to the next; never from one sequence to another).
    """
    require(points, "frame", "sequence", "latitude", "deploy", "along", "since")
    rows = []
    for name, here in [*points.groupby("sequence"), ("all", points)]:
        on = here[here["latitude"].notna()]
        length = on.groupby("sequence")["along"].max().sum()
        number, since = int(on["deploy"].sum()), on["since"]
        rate = 100 * number / length if length > 0 else np.nan
        rows.append((name, len(here), len(on), number, length, rate, since.min(), since.median(), since.max()))
    columns = "sequence frames located deployments length per_100_m nearest median farthest".split()
    return pd.DataFrame(rows, columns=columns)


def coverage(points: pd.DataFrame, block: float = 5.0, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Average the share of Coral patches over the frames of each sequence, and of all.

    Frames are taken so often that neighbours show the same seabed: they are not independent, and a coral that lies in
    the overlap counts twice. The interval therefore resamples stretches of track, and whole sequences for all.

    Parameters
    ----------
    points : DataFrame
        From `deployment`, with ``coral`` (share of Coral patches, 0 to 1). Frames without a position are left out.
    block : float
        Metres of track that are drawn together.
    n, seed : int
        Draws of the bootstrap.

    Returns
    -------
    DataFrame
        ``sequence`` (the last row is ``all``), ``frames``, ``blocks`` (drawn), ``coral``, ``ci_low``, ``ci_high``
        (fractions, 95 %; NaN for a single block).

    Raises
    ------
    ReefcoreError
        Where a column is missing, or no frame has a position and a share of coral.
    """
    require(points, "sequence", "latitude", "along", "coral")
    points = points[points["latitude"].notna() & points["coral"].notna()]
    if points.empty:
        raise ReefcoreError("no frame has a position and a share of coral", do="join the frames to a track")
    rows = []
    for name, here in [*points.groupby("sequence"), ("all", points)]:
        unit = here["sequence"] if name == "all" else here["along"] // block
        sums = metrics.drawn_sums(np.column_stack([here["coral"], np.ones(len(here))]), unit, n, seed)
        drawn, blocks = sums[:, 0] / sums[:, 1], unit.nunique()
        low, high = np.quantile(drawn[1:], [0.025, 0.975]) if blocks > 1 else (np.nan, np.nan)
        rows.append((name, len(here), blocks, drawn[0], low, high))
    return pd.DataFrame(rows, columns=["sequence", "frames", "blocks", "coral", "ci_low", "ci_high"])


def local(points: pd.DataFrame) -> np.ndarray:
    """Project positions to metres east and north of their middle (azimuthal equidistant): float, shape (n, 2)."""
    from pyproj import Proj

    north, east = points["latitude"].to_numpy(float), points["longitude"].to_numpy(float)
    first = east[0] if len(east) else 0.0
    middle = first + ((east - first + 180) % 360 - 180).mean() if len(east) else 0.0
    flat = Proj(proj="aeqd", lat_0=north.mean() if len(north) else 0.0, lon_0=middle, ellps="WGS84")
    return np.column_stack(flat(east, north))


def footprints(points: pd.DataFrame, field_of_view: float | None = None, metres: float | None = None):
    """Outline the seabed that each frame shows, as a rectangle turned into the direction of travel.

    Parameters
    ----------
    points : DataFrame
        ``sequence``, ``latitude``, ``longitude`` in the order of travel, and the frame's ``width`` and ``height`` in
        pixels; ``altitude`` (metres above the seabed) for `field_of_view`.
    field_of_view : float
        Angle across the frame's width in degrees, in water: a flat port makes it about a quarter narrower than in air.
    metres : float
        Of seabed across a frame's width, instead: the camera looks straight down on flat ground either way.

    Returns
    -------
    array of shapely Polygon
        In metres, see `local`; of the frames with a position, in their order.

    Raises
    ------
    ReefcoreError
        Where not exactly one of `field_of_view` and `metres` is given, or it, or an altitude, cannot be.
    """
    from shapely import polygons

    if (field_of_view is None) == (metres is None):
        raise ReefcoreError("the size of a frame on the seabed is not known", do="give either field_of_view or metres")
    require(points, "sequence", "latitude", "longitude", "width", "height", *(["altitude"] if metres is None else []))
    points = points[points["latitude"].notna()]
    if metres is None:
        if not 0 < field_of_view < 180:
            raise ReefcoreError(f"field_of_view={field_of_view} is not an angle between 0 and 180 degrees")
        metres = 2 * points["altitude"].to_numpy(float) * np.tan(np.radians(field_of_view) / 2)
    across = np.broadcast_to(np.asarray(metres, float), len(points))
    if not (across > 0).all():
        raise ReefcoreError("a frame has no width on the seabed", do="give altitudes, or metres, above 0")
    along = across * (points["height"] / points["width"]).to_numpy(float)
    place = local(points)
    heading = np.zeros((len(points), 2))
    heading[:, 1] = 1.0  # of a frame alone: north
    for rows in points.groupby("sequence").indices.values():
        if len(rows) > 1:
            way = np.gradient(place[rows], axis=0)
            length = np.linalg.norm(way, axis=1, keepdims=True)
            heading[rows] = np.divide(way, length, out=heading[rows], where=length > 0)
    forward = heading * along[:, None] / 2
    side = heading[:, ::-1] * [1, -1] * across[:, None] / 2
    corners = [place + forward + side, place + forward - side, place - forward - side, place - forward + side]
    return polygons(np.stack(corners, axis=1))


def area(
    points: pd.DataFrame, field_of_view: float | None = None, metres: float | None = None, by: str = "sequence"
) -> pd.DataFrame:
    """Measure the seabed that was seen: the union of the footprints, beside their sum, which counts overlaps twice.

    Parameters
    ----------
    points, field_of_view, metres : see `footprints`
    by : str
        Column of the groups; with ``site``, ground that several sequences of a site saw counts once.

    Returns
    -------
    DataFrame
        `by` (the last row is ``all``: the sum of the rows above), ``frames`` (with a position), ``summed`` and
        ``seen`` (square metres), ``overlap`` (the share of the sum that was seen before, 0 to 1).
    """
    import shapely

    require(points, by, "latitude")
    rows = []
    for name, here in points[points["latitude"].notna()].groupby(by):
        shapes = footprints(here, field_of_view, metres)
        rows.append((name, len(here), shapely.area(shapes).sum(), shapely.union_all(shapes).area))
    table = pd.DataFrame(rows, columns=[by, "frames", "summed", "seen"])
    table.loc[len(table)] = ["all", *table[["frames", "summed", "seen"]].sum()]
    return table.assign(frames=table["frames"].astype(int), overlap=1 - table["seen"] / table["summed"])


def geojson(points: pd.DataFrame) -> dict:
    """Turn frames into a FeatureCollection (RFC 7946): a line per sequence and a point per frame.

    The coordinate reference system is WGS84 (EPSG:4326), longitude first, with 7 decimals (1 cm): QGIS and others open
    it as it is. A line over 180 degrees is cut there. A frame without a position is a feature without geometry.

    Parameters
    ----------
    points : DataFrame
        ``frame``, ``sequence``, ``latitude``, ``longitude``, in the order of travel, as `deployment` gives them. The
        other columns become properties of the points; times are written as ISO 8601.

    Returns
    -------
    dict
        What `json.dumps` takes.
    """
    require(points, "frame", "sequence", "latitude", "longitude")
    table = points.drop(columns=["latitude", "longitude"]).copy()
    for name in table.select_dtypes(["datetime", "datetimetz"]):
        table[name] = table[name].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    places = [[round(float(x), 7), round(float(y), 7)] for x, y in points[["longitude", "latitude"]].to_numpy()]
    features = []
    for name, rows in points[points["latitude"].notna()].reset_index(drop=True).groupby("sequence").indices.items():
        located = [place for place, known in zip(places, points["latitude"].notna(), strict=True) if known]
        if len(rows) > 1:
            parts = _cut([located[row] for row in rows])
            line = {"type": "LineString", "coordinates": parts[0]}
            if len(parts) > 1:
                line = {"type": "MultiLineString", "coordinates": parts}
            of = {"sequence": name, "frames": len(rows)}
            features.append({"type": "Feature", "geometry": line, "properties": of})
    for place, values in zip(places, table.astype(object).where(table.notna(), None).to_dict("records"), strict=True):
        point = None if np.isnan(place).any() else {"type": "Point", "coordinates": place}
        features.append({"type": "Feature", "geometry": point, "properties": values})
    return {"type": "FeatureCollection", "features": features}


def _cut(line: list) -> list[list]:
    """Cut a line where it crosses 180 degrees (RFC 7946, 3.1.9)."""
    parts = [[line[0]]]
    for (east, north), (to_east, to_north) in pairwise(line):
        if abs(to_east - east) > 180:
            edge = 180.0 if east > 0 else -180.0
            ahead = (to_east - east + 180) % 360 - 180
            seam = round(north + (edge - east) / ahead * (to_north - north), 7)
            parts[-1].append([edge, seam])
            parts.append([[-edge, seam]])
        parts[-1].append([to_east, to_north])
    return parts


def write_geojson(points: pd.DataFrame, path: str | Path) -> Path:
    """Write what `geojson` gives to a file, whole or not at all; the same points give the same bytes."""
    return write_json(geojson(points), path)
