"""A survey for deploying coral devices that never took place: sequences of frames of one seabed, experts, observers.

A vehicle tows its camera over invented reefs; every sequence is one strip of seabed, seen frame by frame through its
water, so that neighbouring frames overlap by about half. Same seabed, organisms and water as the rest of the sample
(`reefcore.sample.photos`); substrates of a patch as in the substrate card (Raine et al. 2025, arXiv:2509.01019).
Synthetic throughout: no number computed on it says anything about a real reef.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base
from scipy import ndimage

from reefcore import geography
from reefcore.files import atomic, share, write_parquet
from reefcore.parallel import pool
from reefcore.sample import check, photos, survey, taxa
from reefcore.sample.water import Water
from reefcore.tables import GRID, SUBSTRATES

log = logging.getLogger(__name__)
ECOREGION = "Central and Southern Great Barrier Reef"
SITES, SEQUENCES, FRAMES = 6, 12, 30  # at scale 1: sites, sequences, frames in a sequence
WIDTH, HEIGHT = 672, 384  # of a frame, pixels, give or take a few
PIXEL = 0.0084  # m of seabed to a pixel of a strip
SPREAD = 1.5  # m of seabed across a frame to a metre of altitude
STEP, EVERY = 1.3, 2  # m and s from frame to frame
FILLING = 0.62  # of its square, by a colony
COMMUNITY = 9  # hard corals of a site
#: What a strip is laid out in, and its usual share; corals and macroalgae grow on reef.
ZONES = {"reef": 0.36, "sand": 0.26, "algae": 0.12, "coral": 0.21, "shadow": 0.05}
DEPLOYABLE = ("Hard substrate", "Corallinales", "Turf algae", "Rubble")
#: Position in `SUBSTRATES` of each of `photos.CLASSES`.
SUBSTRATE = np.array(
    [1 if kind in taxa.CORALS else 2 if name in DEPLOYABLE else 0 for name, kind in taxa.KINDS.items()], np.uint8
)
#: How much a cell counts in the decision on its frame (rows from the top, columns from the left): a device falls behind
#: the vehicle, whose way is up in the frame, and between its sides.
WEIGHT = np.linspace(0.4, 1.6, GRID[0])[:, None] * (1.75 - 0.25 * np.abs(np.arange(GRID[1]) - GRID[1] // 2))
ENOUGH, TOO_MUCH = 0.45, 0.25  # weighted shares: Deploy above which, and Coral below which, a device may be dropped
#: Threshold and noise of each observer, and how much of the last answer stays when frames come in order.
OBSERVERS = {"observer A": (0.02, 0.09, 0.06), "observer B": (-0.03, 0.13, 0.09)}
NO_FIX, UNSEEN = 0.04, 0.03  # shares of frames: without a position; that an observer lacks
ZONE = timezone(timedelta(hours=10))  # of eastern Australia


@dataclass(frozen=True)
class Sequence:
    """One sequence: where and when it was taken, through what, and how long.

    Attributes
    ----------
    name, site : str
    look : photos.Look
        Of its camera, seabed and sun; its water is that of 0 NTU.
    community : dict
        Hard coral -> share of the site's corals.
    zones : dict
        Shares of `ZONES`.
    start : Timestamp
        UTC.
    latitude, longitude : float
        Of its first frame, degrees.
    heading : float
        Radians from north, clockwise.
    depth, altitude, turbidity : tuple of 2 floats
        At its first and last frame: m, m, NTU.
    frames, width, height : int
        Number of frames; pixels of each.
    """

    name: str
    site: str
    look: photos.Look
    community: dict
    zones: dict
    start: pd.Timestamp
    latitude: float
    longitude: float
    heading: float
    depth: tuple
    altitude: tuple
    turbidity: tuple
    frames: int
    width: int
    height: int


def plan(seed: int, scale: float = 1.0) -> list[Sequence]:
    """Plan the sequences: invented sites in one ecoregion, clear and turbid, two or three sequences at each.

    Parameters
    ----------
    seed : int
    scale : float
        Frames as a fraction of the whole survey's, in (0, 2]; a small survey has fewer and shorter sequences, at least
        4 of at least 8 frames.
    """
    rng = survey.stream(seed, "substrate")
    count = max(4, round(SEQUENCES * scale**0.4))
    frames = max(8, round(SEQUENCES * FRAMES * scale / count))
    sites = min(SITES, count // 2)
    names = [name.split()[1].lower() for name in survey._names(sites, rng)]
    reef = pd.read_csv(share("data", "geo", "meow_reef_points.csv")).set_index("ecoregion").loc[ECOREGION]
    known = taxa.table().set_index("taxon")
    living = known.index[known["ocean"] != "Atlantic"]
    common = survey.weights()[living] ** 0.35
    camera = photos.make_look(seed, "Central Indo-Pacific", 12).camera  # one vehicle, one camera
    camera = replace(camera, strobe=0.0, balance=0.55, tint=(0.95, 1.0, 1.0), brightness=0.25, blur=0.4, noise=1.5)
    murk = rng.permutation(np.geomspace(0.3, 2.6, sites))  # NTU
    deep = rng.permutation(np.linspace(2.5, 7.5, sites))
    made = []
    for site, name in enumerate(names):
        chosen = sorted(rng.choice(living, COMMUNITY, replace=False, p=common / common.sum()))
        abundance = rng.dirichlet(np.full(COMMUNITY, 0.9))
        place = [reef["nearest_reef_lat"], reef["nearest_reef_lon"]] + rng.normal(0, 0.18, 2).clip(-0.4, 0.4)
        usual = rng.dirichlet(22 * np.array(list(ZONES.values())))
        day = pd.Timestamp("2024-02-05", tz=ZONE) + pd.Timedelta(days=3 * site)
        for number in range(1, len(range(site, count, sites)) + 1):
            name_ = f"{name}-{number}"
            rng = survey.stream(seed, "sequence", name_)
            look = photos.make_look(site + SITES * seed, "Central Indo-Pacific", 12)
            water = Water("sequence", tuple(rng.uniform(0.9, 1.1, 3) * (0.26, 0.065, 0.05)), 0.03, 0.5)
            sun = (*rng.uniform(-0.5, 0.5, 2), rng.uniform(0.4, 0.9))
            look = replace(look, water=water, camera=camera, scale=0.42, sun=sun, cropped=False, frame=False)
            depth = (deep[site] + rng.normal(0, 1.2, 2)).clip(1.2, 9.8)
            start = day + pd.Timedelta(minutes=int(480 + 110 * (number - 1) + rng.integers(90)))
            spot = np.array(place) + rng.normal(0, 0.004, 2)
            made.append(
                Sequence(
                    name=name_,
                    site=f"{name.title()} Reef",
                    look=look,
                    community=dict(zip(chosen, abundance, strict=True)),
                    zones=dict(zip(ZONES, rng.dirichlet(30 * usual + 0.5), strict=True)),
                    start=start.tz_convert("UTC").as_unit("us"),
                    latitude=spot[0],
                    longitude=spot[1],
                    heading=rng.uniform(0, 2 * np.pi),
                    depth=tuple(depth),
                    altitude=tuple(rng.uniform(2.4, 3.5, 2)),
                    turbidity=tuple((murk[site] * rng.lognormal(0, 0.3) * rng.lognormal(0, 0.12, 2)).clip(0.2, 6)),
                    frames=frames,
                    width=int(WIDTH + rng.integers(-9, 10)),
                    height=int(HEIGHT + rng.integers(-6, 7)),
                )
            )
    return made


class _Strip(photos._Scene):
    """The seabed of a sequence, as long as the way of its vehicle: patches of `ZONES`, with what lives in each."""

    def __init__(self, sequence: Sequence, width: int, height: int, rng: np.random.Generator):
        self.sequence = sequence
        # Noise that repeats is shifted sideways along the way, so that no two places look the same.
        walk = ndimage.gaussian_filter1d(rng.standard_normal(height), 150, mode="nearest")
        self.shift = (200 * walk / walk.std()).astype(int)
        self.zone = photos.compete(self._patchy(width, height, rng), np.array(list(sequence.zones.values())))
        super().__init__(
            sequence.look, dict.fromkeys((*DEPLOYABLE, "Sediment", "Shadow"), 1.0), taxa.KINDS, width, height, rng
        )
        for name, zone, size, cover in self._living():
            self._plant(name, zone, size, cover)

    def _patchy(self, width: int, height: int, rng) -> np.ndarray:
        """Noise of every zone at a quarter of the resolution: patches of one to several cells, and drift along."""
        fields = np.empty((len(ZONES), -(-height // 4), -(-width // 4)), np.float32)
        for field in fields:
            rough = np.zeros((height // 16 + 1, width // 16 + 1))
            for sigma, weight in ((2.5, 0.5), (6, 0.8)):
                noise = ndimage.gaussian_filter(rng.standard_normal(rough.shape), sigma)
                rough += weight * noise / noise.std()
            drift = ndimage.gaussian_filter1d(rng.standard_normal(len(rough)), 18)
            rough += 1.1 * (drift / drift.std())[:, None]
            image = Image.fromarray(rough.astype(np.float32))
            field[:] = np.asarray(image.resize(field.shape[::-1], Image.Resampling.BICUBIC))
        return fields

    def _cut(self, bank: np.ndarray, stretch: float, step: int = 1, turn: bool = True) -> np.ndarray:
        side = len(bank)
        y0, x0 = self.rng.integers(0, side, 2)
        y = (y0 + np.arange(0, self.height, step) / stretch).astype(int) % side
        x = np.arange(0, self.width, step)[None] + self.shift[::step, None]
        return bank[y[:, None], (x0 + x / stretch).astype(int) % side]

    def _spread(self, shares: dict[str, float], low: np.ndarray) -> np.ndarray:
        """Lay sand with some rubble in the sand, dark holes in the shadow, and the kinds of rock elsewhere."""
        names, zones = list(shares), list(ZONES)
        rock = [names.index(name) for name in DEPLOYABLE]
        fields = np.stack([self._cut(photos._swell()[1 + n % 2], 0.45, 4) for n in rock])
        choice = np.take(rock, photos.compete(fields, np.array([0.4, 0.24, 0.2, 0.16])))
        loose = self._cut(photos._swell()[3], 0.5, 4) > 1.5
        sand = np.where(loose, names.index("Rubble"), names.index("Sediment"))
        choice = np.where(self.zone == zones.index("sand"), sand, choice)
        return np.where(self.zone == zones.index("shadow"), names.index("Shadow"), choice)

    def _living(self):
        """What grows where: name, zone, size against a usual colony, and share of the zone it covers."""
        for name, share_ in self.sequence.community.items():
            yield name, "coral", 1.0, 0.95 * share_
            yield name, "reef", 0.7, 0.04 * share_
            yield name, "sand", 0.6, 0.02 * share_
        yield "Macroalgae", "algae", 0.7, 1.1
        yield "Macroalgae", "reef", 0.45, 0.03
        yield "Octocorallia", "reef", 0.7, 0.02
        yield "Porifera", "coral", 0.6, 0.03

    def _plant(self, name: str, zone: str, size: float, cover: float) -> None:
        """Grow colonies of one kind at random places of a zone, the largest first."""
        rows, columns = np.nonzero(self.zone == list(ZONES).index(zone))
        usual = size * photos.COLONY * self.look.scale
        wanted = cover * 16 * len(rows) / FILLING / usual**2
        count = int(wanted + self.rng.random())
        if not count:
            return
        where = self.rng.integers(len(rows), size=count)
        radii = np.sort(usual * np.exp(self.rng.normal(0, 0.25, count)))[::-1] / 2
        for at, radius in zip(where, radii, strict=True):
            y, x = 4 * np.array([rows[at], columns[at]]) + self.rng.uniform(0, 4, 2)
            self.grow(name, float(radius), float(y), float(x))


def _drift(ends: tuple, count: int, rng: np.random.Generator, wiggle: float) -> np.ndarray:
    """Go from one value to another in `count` steps, wandering by `wiggle` (standard deviation)."""
    noise = ndimage.gaussian_filter1d(rng.standard_normal(count), 3, mode="nearest")
    return np.linspace(*ends, count) + wiggle * (noise - noise.mean()) / max(noise.std(), 1e-9)


def track(sequence: Sequence, seed: int) -> pd.DataFrame:
    """Drive along a sequence: the position at every second, from 5 s before the first frame to 5 s after the last.

    Returns
    -------
    DataFrame
        ``time`` (UTC), ``latitude``, ``longitude`` (degrees; whole parts of 0.0001 arc seconds, as EXIF keeps them).
    """
    seconds = np.arange(-5, EVERY * (sequence.frames - 1) + 6)
    rng = survey.stream(seed, "track", sequence.name)
    turn = ndimage.gaussian_filter1d(rng.standard_normal(len(seconds)), 8, mode="nearest")
    heading = sequence.heading + 0.5 * turn / turn.std()
    degree = np.pi / 180 * geography.EARTH_KM * 1000  # m
    north, east = (np.cumsum(way(heading)) * STEP / EVERY / degree for way in (np.cos, np.sin))
    latitude = sequence.latitude + north
    longitude = sequence.longitude + east / np.cos(np.radians(sequence.latitude))
    return pd.DataFrame(
        {
            "time": sequence.start + pd.to_timedelta(seconds, unit="s").as_unit("us"),
            "latitude": np.round(latitude * 3.6e7) / 3.6e7,
            "longitude": np.round(longitude * 3.6e7) / 3.6e7,
        }
    )


def _write_gpx(way: pd.DataFrame, name: str, path: Path) -> None:
    """Write a track as GPX 1.1."""
    points = [
        f'<trkpt lat="{row.latitude:.8f}" lon="{row.longitude:.8f}"><time>{row.time:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>'
        for row in way.itertuples()
    ]
    head = (
        '<gpx version="1.1" creator="ReefNet Companion (synthetic survey)" xmlns="http://www.topografix.com/GPX/1/1">'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', head, f"<trk><name>{name}</name><trkseg>", *points]
    with atomic(path) as temporary:
        temporary.write_text("\n".join([*lines, "</trkseg></trk>", "</gpx>", ""]), encoding="utf-8")


def _exif(time: pd.Timestamp, position: tuple[float, float] | None) -> Image.Exif:
    """Make the EXIF header of a frame: local time with its offset; the position in degrees, minutes and seconds."""
    exif, local = Image.Exif(), f"{time.tz_convert(ZONE):%Y:%m:%d %H:%M:%S}"
    exif[Base.Make], exif[Base.Model] = "ReefNet Companion", "synthetic transom camera"
    exif[Base.ImageDescription] = "Synthetic: no photograph of a real reef"
    exif.get_ifd(IFD.Exif).update({Base.DateTimeOriginal: local, Base.OffsetTimeOriginal: "+10:00"})
    if position is not None:
        latitude, longitude = position
        exif.get_ifd(IFD.GPSInfo).update(
            {
                GPS.GPSLatitudeRef: "S" if latitude <= 0 else "N",
                GPS.GPSLatitude: _dms(latitude),
                GPS.GPSLongitudeRef: "E" if longitude >= 0 else "W",
                GPS.GPSLongitude: _dms(longitude),
                GPS.GPSTimeStamp: (float(time.hour), float(time.minute), float(time.second)),
                GPS.GPSDateStamp: f"{time:%Y:%m:%d}",
            }
        )
    return exif


def _dms(degrees: float) -> tuple[float, float, float]:
    minutes, parts = divmod(round(abs(degrees) * 3.6e7), 600_000)  # of 0.0001 arc seconds
    return float(minutes // 60), float(minutes % 60), parts / 10_000


def _cells(size: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Start and length of near-equal parts of a line of pixels, as numpy.array_split makes them."""
    lengths = np.full(parts, size // parts)
    lengths[: size % parts] += 1
    return np.cumsum(lengths) - lengths, lengths


def cover(substrate: np.ndarray) -> np.ndarray:
    """Measure the substrates in each cell of a frame.

    Parameters
    ----------
    substrate : int array (height, width)
        Position in `SUBSTRATES` of each pixel.

    Returns
    -------
    ndarray of shape (rows, columns, 3)
        Share of each substrate among the pixels of the centred crop of the cell, floor(height/rows) x
        floor(width/columns) pixels.
    """
    rows, columns = GRID
    tall, wide = substrate.shape[0] // rows, substrate.shape[1] // columns
    shares = np.empty((rows, columns, len(SUBSTRATES)))
    for r, (top, height) in enumerate(zip(*_cells(substrate.shape[0], rows), strict=True)):
        for c, (left, width) in enumerate(zip(*_cells(substrate.shape[1], columns), strict=True)):
            y, x = top + (height - tall) // 2, left + (width - wide) // 2
            crop = substrate[y : y + tall, x : x + wide]
            shares[r, c] = np.bincount(crop.ravel(), minlength=len(SUBSTRATES)) / crop.size
    return shares


def margin(shares: np.ndarray) -> float:
    """Say how surely an expert would drop a device on a frame: above 0 yes, below 0 no.

    Each cell counts by `WEIGHT`. A device is dropped where more than `ENOUGH` of the seabed is Deploy and less than
    `TOO_MUCH` of it Coral; the margin is the smaller of the two distances.

    Parameters
    ----------
    shares : ndarray of shape (rows, columns, 3)
        See `cover`.
    """
    _, coral, deploy = (WEIGHT[..., None] * shares).sum((0, 1)) / WEIGHT.sum()
    return float(min(deploy - ENOUGH, TOO_MUCH - coral))


def _shoot(task) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take the frames of one sequence: its rows of frames (with the expert's ``margin``) and of patch labels."""
    folder, sequence, seed, lost = task
    rng = survey.stream(seed, "shoot", sequence.name)
    n, look = sequence.frames, sequence.look
    altitude = _drift(sequence.altitude, n, rng, 0.12).clip(2, 4)
    depth = _drift(sequence.depth, n, rng, 0.25).clip(1, 10)
    turbidity = (np.exp(_drift(tuple(np.log(sequence.turbidity)), n, rng, 0.08))).clip(0.1, 8)
    wide = SPREAD * altitude / PIXEL  # of each frame, in pixels of the strip
    tall = wide * sequence.height / sequence.width
    middle = _drift((0, 0), n, rng, 8).clip(-20, 20)
    width, height = int(wide.max()) + 44, int((n - 1) * STEP / PIXEL + tall.max()) + 4
    strip = _Strip(sequence, width, height, rng)
    reef = strip.colours() * strip.light()
    planes = [Image.fromarray(plane) for plane in (*reef, strip.relief)]
    mask = Image.fromarray(SUBSTRATE[strip.classes])
    way = track(sequence, seed).iloc[5::EVERY]
    rows, patches, size = [], [], (sequence.width, sequence.height)
    for i in range(n):
        rng = survey.stream(seed, "frame", sequence.name, i)
        y, x = height - tall.max() / 2 - 2 - i * STEP / PIXEL, width / 2 + middle[i]  # the vehicle goes up
        box = (x - wide[i] / 2, y - tall[i] / 2, x + wide[i] / 2, y + tall[i] / 2)
        seen = np.stack([np.asarray(plane.resize(size, Image.Resampling.BILINEAR, box)) for plane in planes])
        shares = cover(np.asarray(mask.resize(size, Image.Resampling.NEAREST, box)))
        ntu = float(turbidity[i])  # PIL takes no number of numpy
        water = replace(look.water, scatter=0.03 + 0.16 * ntu, particles=0.5 + 3 * ntu)
        camera = replace(look.camera, noise=1.2 + 0.3 * depth[i], blur=look.camera.blur + 0.25 * ntu)
        nearer = seen[3] / np.float32(420 * look.scale * altitude[i])
        light = photos.immerse(seen[:3], nearer, water, camera, depth[i], altitude[i], rng)
        time, latitude, longitude = way.iloc[i]
        name, known = f"{sequence.name}_{i + 1:04d}.jpg", rng.random() >= NO_FIX
        position = (0.0, 0.0) if i == lost else (latitude, longitude) if known else None
        image = photos.expose(light, water, camera, rng)
        photos.save(image, folder / sequence.name / name, look, i, _exif(time, position))
        if i == lost or not known:
            latitude = longitude = np.nan
        sure = margin(shares)
        label = "Deploy" if sure + rng.normal(0, 0.03) > 0 else "No-Deploy"
        at = (f"{sequence.name}/{name}", sequence.name, sequence.site, time, latitude, longitude)
        rows.append((*at, depth[i].round(2), round(ntu, 2), altitude[i].round(2), *size, label, sure))
        # Where two substrates are nearly tied, the expert names the second now and then.
        order = np.argsort(shares, -1, kind="stable")
        first, second = (np.take_along_axis(shares, order[..., -k, None], -1)[..., 0] for k in (1, 2))
        slip = rng.random(GRID) < 0.5 * np.exp((second - first) / 0.06)
        label = np.where(slip, order[..., -2], order[..., -1])
        patches += [(at[0], r, c, SUBSTRATES[label[r, c]]) for r, c in np.ndindex(*GRID)]
    columns = "frame sequence site time latitude longitude depth turbidity altitude width height label margin".split()
    return pd.DataFrame(rows, columns=columns), pd.DataFrame(patches, columns=["frame", "row", "column", "label"])


def observe(frames: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Let each of `OBSERVERS` decide on the frames, once in order and once shuffled.

    An observer sees the expert's margin with a threshold of their own and noise that grows with turbidity and depth; in
    order, the last answer in the sequence leans on the next. Each lacks other frames.

    Parameters
    ----------
    frames : DataFrame
        ``frame``, ``sequence``, ``depth`` (m), ``turbidity`` (NTU), ``margin``, in order.

    Returns
    -------
    DataFrame
        ``observer``, ``order`` ("blind" or "ordered"), ``position`` (1 ...), ``frame``, ``label``.
    """
    hard = 0.6 + 0.25 * frames["turbidity"].to_numpy() + 0.04 * frames["depth"].to_numpy()
    parts = []
    for observer, (threshold, noise, stick) in OBSERVERS.items():
        rng = survey.stream(seed, observer)
        has = rng.random(len(frames)) >= UNSEEN
        for order in ("blind", "ordered"):
            at = np.flatnonzero(has)
            at = rng.permutation(at) if order == "blind" else at
            seen = frames["margin"].to_numpy()[at] + noise * hard[at] * rng.standard_normal(len(at)) - threshold
            answers, sequence = [], frames["sequence"].to_numpy()[at]
            for i, value in enumerate(seen):
                if order == "ordered" and i and sequence[i] == sequence[i - 1]:
                    value += stick if answers[-1] == "Deploy" else -stick
                answers.append("Deploy" if value > 0 else "No-Deploy")
            said = {"position": np.arange(1, len(at) + 1), "frame": frames["frame"].to_numpy()[at], "label": answers}
            parts.append(pd.DataFrame({"observer": observer, "order": order, **said}))
    return pd.concat(parts, ignore_index=True)


def generate(folder: str | Path, seed: int = 0, scale: float = 1.0, workers: int = 2) -> None:
    """Make the survey: photos, tracks and tables.

    Parameters
    ----------
    folder : path
        Receives ``frames/<sequence>/<frame>``, ``tracks/<sequence>.gpx``, ``patch_labels.parquet``,
        ``observations.parquet`` and ``frames.parquet``. What is there of these is replaced; the tables are written
        last, so that a folder with ``frames.parquet`` is complete.
    seed : int
        The same seed gives the same bytes on one machine, whatever `workers` is.
    scale : float
        Frames as a fraction of the whole survey's, in (0, 2].
    workers : int
        Processes; one sequence is the work of one.

    Raises
    ------
    ReefcoreError
        Where `seed` is negative or `scale` out of range.

    Notes
    -----
    About `NO_FIX` of the frames have no position, and one frame of the survey has latitude and longitude 0 in its EXIF
    header, as receivers write that have no fix; in the table, both are empty. Labels: see `margin` for a frame; a
    patch has the substrate of most of its pixels (`cover`), with a few errors where two are nearly tied.
    """
    check(seed, scale)
    folder = Path(folder)
    (folder / "frames.parquet").unlink(missing_ok=True)
    for part in ("frames", "tracks"):
        shutil.rmtree(folder / part, ignore_errors=True)  # those of another scale would stay between the new ones
    sequences = plan(seed, scale)
    for sequence in sequences:
        _write_gpx(track(sequence, seed), sequence.name, folder / "tracks" / f"{sequence.name}.gpx")
    tasks = [(folder / "frames", s, seed, s.frames // 2 if s is sequences[1] else None) for s in sequences]
    if workers > 1:
        with pool(workers) as processes:
            results = list(processes.map(_shoot, tasks))
    else:
        results = [_shoot(task) for task in tasks]
    frames, patches = (pd.concat(part).sort_values("frame", kind="stable", ignore_index=True) for part in zip(*results))
    log.info("substrate survey: %d frames in %d sequences", len(frames), len(sequences))
    write_parquet(patches, folder / "patch_labels.parquet")
    write_parquet(observe(frames, seed), folder / "observations.parquet")
    write_parquet(frames.drop(columns="margin"), folder / "frames.parquet")
