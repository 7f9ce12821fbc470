"""A survey for deploying coral devices that never took place: sequences of frames of one seabed, experts, observers.

A vehicle tows its camera over invented reefs; every sequence is one strip of seabed, seen frame by frame through its
water, so that neighbouring frames overlap by about half. Same seabed, organisms and water as the rest of the sample
(`reefcore.sample.photos`); substrates of a patch as in the substrate card (Raine et al. 2025, arXiv:2509.01019).
Synthetic throughout: no number computed on it says anything about a real reef.
"""

from __future__ import annotations

import logging
import shutil
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base
from scipy import ndimage

from reefcore import geography
from reefcore.files import atomic, share, write_parquet
from reefcore.parallel import pool
from reefcore.patches import crops
from reefcore.sample import check, photos, survey, taxa
from reefcore.sample.water import Water
from reefcore.tables import GRID, SUBSTRATES

log = logging.getLogger(__name__)
ECOREGION, REALM = "Central and Southern Great Barrier Reef", "Central Indo-Pacific"
SITES, SEQUENCES, FRAMES = 6, 20, 18  # at scale 1: sites, sequences, frames in a sequence
WIDTH, HEIGHT = 672, 384  # of a frame, pixels, give or take a few
PIXEL = 0.0084  # m of seabed to a pixel of a strip
SPREAD = 1.5  # m of seabed across a frame to a metre of altitude
STEP, EVERY = 1.3, 2  # m and s from frame to frame
COMMUNITY = 9  # hard corals of a site
#: What a strip is laid out in, and its usual share; corals and macroalgae grow on rock.
ZONES = {"reef": 0.26, "sand": 0.31, "algae": 0.16, "coral": 0.22, "shadow": 0.05}
#: What grows in which zone: size against a usual colony, and share of the zone.
GROWTH = [
    ("coral", "corals", 1.0, 1.3), ("reef", "corals", 0.7, 0.04), ("sand", "corals", 0.6, 0.02),
    ("algae", "Macroalgae", 1.1, 1.7), ("reef", "Macroalgae", 0.45, 0.03), ("reef", "Octocorallia", 0.7, 0.02),
    ("coral", "Porifera", 0.6, 0.03),
]  # fmt: skip
DEPLOYABLE = ("Hard substrate", "Corallinales", "Turf algae", "Rubble")
#: Position in `SUBSTRATES` of each of `photos.CLASSES`.
SUBSTRATE = np.array([1 if kind in taxa.CORALS else 2 * (kind.name in DEPLOYABLE) for kind in taxa.KINDS.values()])
#: How much a cell counts in the decision on its frame (rows from the top, columns from the left): a device falls behind
#: the vehicle, whose way is up in the frame, and between its sides.
WEIGHT = np.linspace(0.1, 1.9, GRID[0])[:, None] * (2 - 0.5 * np.abs(np.arange(GRID[1]) - GRID[1] // 2))
ENOUGH, TOO_MUCH = 0.36, 0.5  # weighted shares: Deploy above which, and Coral below which, a device may be dropped
#: Threshold and noise of each observer, and how much of the last answer stays when frames come in order.
OBSERVERS = {"observer A": (0.02, 0.07, 0.05), "observer B": (-0.03, 0.09, 0.08)}
NO_FIX, UNSEEN = 0.04, 0.03  # shares of frames: without a position; that an observer lacks
LOCAL = timezone(timedelta(hours=10))  # eastern Australia


def _plan(seed: int, scale: float) -> list[SimpleNamespace]:
    """Plan the sequences: invented sites in one ecoregion, clear and turbid, shallow and deep, three or four at each.

    A small `scale` means fewer and shorter sequences, but at least 4 of at least 8 frames. Pairs of a sequence are its
    values at the first and the last frame.
    """
    rng = survey.stream(seed, "substrate")
    count = max(4, round(SEQUENCES * scale**0.6))
    frames, sites = max(8, round(SEQUENCES * FRAMES * scale / count)), min(SITES, count // 2)
    names = [name.split()[1].lower() for name in survey._names(sites, rng)]
    reef = pd.read_csv(share("data", "geo", "meow_reef_points.csv")).set_index("ecoregion").loc[ECOREGION]
    known = taxa.table().set_index("taxon")
    common = survey.weights()[known.index[known["ocean"] != "Atlantic"]] ** 0.35
    camera = photos.make_look(seed, REALM, 12).camera  # one vehicle, one camera
    camera = replace(camera, strobe=0.0, balance=0.8, tint=(0.97, 1.0, 1.0), brightness=0.24, contrast=1.15)
    murk = rng.permutation(np.geomspace(0.3, 2.8, sites))  # NTU
    deep = rng.permutation(np.linspace(2.5, 7.5, sites))
    made = []
    for site, name in enumerate(names):
        chosen = sorted(rng.choice(common.index, COMMUNITY, replace=False, p=common / common.sum()))
        community = dict(zip(chosen, rng.dirichlet(np.full(COMMUNITY, 0.9)), strict=True))
        centre = reef[["nearest_reef_lat", "nearest_reef_lon"]].to_numpy(float) + rng.normal(0, 0.18, 2).clip(-0.4, 0.4)
        usual = rng.dirichlet(22 * np.array(list(ZONES.values())))
        water = Water("1C", tuple(rng.uniform(0.9, 1.1, 3) * (0.26, 0.075, 0.06)), 0.0, 0.0)
        look = photos.make_look(SITES * seed + site, REALM, 12)
        look = replace(look, water=water, camera=camera, scale=0.5, cropped=False, frame=False)
        for number in range(1, len(range(site, count, sites)) + 1):
            own = survey.stream(seed, "sequence", name, number)
            start = pd.Timestamp("2024-02-05 08:00", tz=LOCAL) + pd.Timedelta(days=3 * site)
            start += pd.Timedelta(minutes=int(110 * (number - 1) + own.integers(90)))
            turbidity = murk[site] * own.lognormal(0, 0.3) * own.lognormal(0, 0.12, 2)
            made.append(
                SimpleNamespace(
                    name=f"{name}-{number}",
                    site=f"{name.title()} Reef",
                    look=replace(look, sun=(*own.uniform(-0.5, 0.5, 2), own.uniform(0.4, 0.9))),
                    community=community,  # hard coral -> share of the site's corals
                    zones=own.dirichlet(30 * usual + 0.5),
                    start=start.tz_convert("UTC").as_unit("us"),
                    place=centre + own.normal(0, 0.004, 2),  # latitude and longitude of the first frame, degrees
                    heading=own.uniform(0, 2 * np.pi),  # radians from north, clockwise
                    depth=(deep[site] + own.normal(0, 1.2, 2)).clip(1.2, 9.8),  # pair, m
                    altitude=own.uniform(2.4, 3.5, 2),  # pair, m above the seabed
                    turbidity=turbidity.clip(0.2, 6),  # pair, NTU
                    frames=frames,
                    size=(int(WIDTH + own.integers(-9, 10)), int(HEIGHT + own.integers(-6, 7))),
                )
            )
    return made


class _Strip(photos._Scene):
    """The seabed of a sequence, as long as the way of its vehicle: patches of `ZONES`, with what lives in each."""

    def __init__(self, sequence: SimpleNamespace, width: int, height: int, rng: np.random.Generator):
        self.sequence = sequence
        # Noise that repeats is shifted sideways along the way, so that no two places look the same.
        slant = ndimage.gaussian_filter1d(rng.standard_normal(height), 150, mode="nearest")
        self.shift = np.cumsum(0.15 * slant / slant.std()).astype(int)
        quarter = (-(-width // 4), -(-height // 4))
        self.zone = photos.compete(np.stack([self._patchy(quarter, rng) for _ in ZONES]), sequence.zones)
        ground = dict.fromkeys((*DEPLOYABLE, "Sediment", "Shadow"), 1.0)
        super().__init__(sequence.look, ground, taxa.KINDS, width, height, rng)
        for zone, kind, size, cover in GROWTH:
            for name, part in sequence.community.items() if kind == "corals" else [(kind, 1)]:
                self._plant(name, zone, size, cover * part)

    def _patchy(self, size: tuple, rng) -> np.ndarray:
        """Noise of one zone at a quarter of the resolution: patches of one to several cells, and drift along."""
        noise = rng.standard_normal((size[1] // 4 + 1, size[0] // 4 + 1))
        parts = [ndimage.gaussian_filter(noise, sigma) for sigma in (2.5, 6)]
        parts.append(ndimage.gaussian_filter1d(rng.standard_normal((len(noise), 1)), 18, axis=0))
        field = sum(weight * part / part.std() for weight, part in zip((0.5, 0.8, 1.9), parts, strict=True))
        return np.asarray(Image.fromarray(field.astype(np.float32)).resize(size, Image.Resampling.BICUBIC))

    def _cut(self, bank: np.ndarray, stretch: float, step: int = 1, turn: bool = True) -> np.ndarray:
        side = len(bank)
        y0, x0 = self.rng.integers(0, side, 2)
        y = (y0 + np.arange(0, self.height, step) / stretch).astype(int) % side
        x = np.arange(0, self.width, step)[None] + self.shift[::step, None]
        return bank[y[:, None], (x0 + x / stretch).astype(int) % side]

    def _spread(self, shares: dict[str, float], low: np.ndarray) -> np.ndarray:
        """Lay sand with some rubble in the sand, dark holes in the shadow, and the kinds of rock elsewhere."""
        names, zones, swell = list(shares), list(ZONES), photos._swell()
        rock = [names.index(name) for name in DEPLOYABLE]
        fields = np.stack([self._cut(swell[1 + n % 2], 0.45, 4) for n in rock])
        choice = np.take(rock, photos.compete(fields, np.array([0.4, 0.24, 0.2, 0.16])))
        loose, dark = self._cut(swell[3], 0.5, 4) > 1.5, self._cut(swell[4], 0.4, 4) < 0.7
        sand, hole = self.zone == zones.index("sand"), (self.zone == zones.index("shadow")) & dark
        choice = np.where(sand, np.where(loose, names.index("Rubble"), names.index("Sediment")), choice)
        return np.where(hole, names.index("Shadow"), choice)

    def _plant(self, name: str, zone: str, size: float, cover: float) -> None:
        """Grow colonies of one kind at random places of a zone, the largest first."""
        rows, columns = np.nonzero(self.zone == list(ZONES).index(zone))
        usual = size * photos.COLONY * self.look.scale
        count = int(cover * 16 * len(rows) / 0.6 / usual**2 + self.rng.random())  # a colony fills 0.6 of its square
        for radius in np.sort(usual * np.exp(self.rng.normal(0, 0.25, count)))[::-1] / 2:
            at = self.rng.integers(len(rows))
            y, x = 4 * np.array([rows[at], columns[at]]) + self.rng.uniform(0, 4, 2)
            self.grow(name, float(radius), float(y), float(x))


def _drift(ends, count: int, rng: np.random.Generator, wiggle: float) -> np.ndarray:
    """Go from one value to another in `count` steps, wandering by `wiggle`."""
    noise = ndimage.gaussian_filter1d(rng.standard_normal(count), 3, mode="nearest")
    return np.linspace(*ends, count) + wiggle * (noise - noise.mean()) / noise.std()


def _track(sequence: SimpleNamespace, seed: int) -> pd.DataFrame:
    """Drive along a sequence: ``time`` (UTC), ``latitude``, ``longitude`` (degrees) at every second.

    It begins 5 s before the first frame and ends 5 s after the last; positions are whole parts of 0.0001 arc seconds,
    as the EXIF headers keep them.
    """
    seconds = np.arange(-5, EVERY * (sequence.frames - 1) + 6)
    turn = survey.stream(seed, "track", sequence.name).standard_normal(len(seconds))
    turn = ndimage.gaussian_filter1d(turn, 8, mode="nearest")
    heading = sequence.heading + 0.5 * turn / turn.std()
    degree = np.pi / 180 * geography.EARTH_KM * 1000  # m
    north, east = (np.cumsum(way(heading)) * STEP / EVERY / degree for way in (np.cos, np.sin))
    latitude, longitude = sequence.place
    at = np.round(3.6e7 * np.stack([latitude + north, longitude + east / np.cos(np.radians(latitude))])) / 3.6e7
    time = sequence.start + pd.to_timedelta(seconds, unit="s").as_unit("us")
    return pd.DataFrame({"time": time, "latitude": at[0], "longitude": at[1]})


def _write_gpx(way: pd.DataFrame, name: str, path: Path) -> None:
    """Write a track as GPX 1.1."""
    head = '<gpx version="1.1" creator="ReefNet Companion (synthetic)" xmlns="http://www.topografix.com/GPX/1/1">'
    points = [
        f'<trkpt lat="{latitude:.8f}" lon="{longitude:.8f}"><time>{time:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>'
        for time, latitude, longitude in way.itertuples(index=False)
    ]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', head, f"<trk><name>{name}</name><trkseg>", *points]
    with atomic(path) as temporary:
        temporary.write_text("\n".join([*lines, "</trkseg></trk>", "</gpx>", ""]), encoding="utf-8")


def _exif(time: pd.Timestamp, position: tuple | None) -> Image.Exif:
    """Make the EXIF header of a frame: local time with its offset; UTC and the position, if any, of the receiver."""
    exif, local = Image.Exif(), f"{time.tz_convert(LOCAL):%Y:%m:%d %H:%M:%S}"
    exif.update({Base.Make: "ReefNet Companion", Base.Model: "synthetic transom camera"})
    exif.get_ifd(IFD.Exif).update({Base.DateTimeOriginal: local, Base.OffsetTimeOriginal: "+10:00"})
    if position is not None:
        clock = (float(time.hour), float(time.minute), float(time.second))
        gps = exif.get_ifd(IFD.GPSInfo)
        gps |= {GPS.GPSDateStamp: f"{time:%Y:%m:%d}", GPS.GPSTimeStamp: clock}
        gps |= {GPS.GPSLatitudeRef: "S", GPS.GPSLongitudeRef: "E"}
        for tag, degrees in zip((GPS.GPSLatitude, GPS.GPSLongitude), position, strict=True):
            minutes, parts = divmod(round(abs(degrees) * 3.6e7), 600_000)  # of 0.0001 arc seconds
            gps[tag] = (float(minutes // 60), float(minutes % 60), parts / 10_000)
    return exif


def cover(substrate: np.ndarray) -> np.ndarray:
    """Measure the substrates in each cell of a frame, in its centred crop (`reefcore.patches.crops`).

    Parameters
    ----------
    substrate : int array (height, width)
        Position in `SUBSTRATES` of each pixel.

    Returns
    -------
    ndarray of shape (rows, columns, 3)
        Share of each substrate.
    """
    shares = np.empty((*GRID, len(SUBSTRATES)))
    for place, (top, left, bottom, right) in zip(np.ndindex(*GRID), crops(*substrate.shape), strict=True):
        crop = substrate[top:bottom, left:right]
        shares[place] = np.bincount(crop.ravel(), minlength=len(SUBSTRATES)) / crop.size
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
    turbidity = np.exp(_drift(np.log(sequence.turbidity), n, rng, 0.08)).clip(0.1, 8)
    wide = SPREAD * altitude / PIXEL  # of each frame, in pixels of the strip
    tall = wide * sequence.size[1] / sequence.size[0]
    middle = _drift((0, 0), n, rng, 8).clip(-20, 20)
    width, height = int(wide.max()) + 44, int((n - 1) * STEP / PIXEL + tall.max()) + 4
    strip = _Strip(sequence, width, height, rng)
    reef = strip.colours() * strip.light()
    planes = [Image.fromarray(plane) for plane in (*reef, strip.relief)]
    mask = Image.fromarray(SUBSTRATE[strip.classes].astype(np.uint8))
    way = _track(sequence, seed).iloc[5::EVERY]
    rows, patches, size = [], [], sequence.size
    for i in range(n):
        rng = survey.stream(seed, "frame", sequence.name, i)
        y, x = height - tall.max() / 2 - 2 - i * STEP / PIXEL, width / 2 + middle[i]  # the vehicle goes up
        box = (x - wide[i] / 2, y - tall[i] / 2, x + wide[i] / 2, y + tall[i] / 2)
        seen = np.stack([np.asarray(plane.resize(size, Image.Resampling.BILINEAR, box)) for plane in planes])
        shares = cover(np.asarray(mask.resize(size, Image.Resampling.NEAREST, box)))
        ntu = float(turbidity[i])  # PIL takes no number of numpy
        water = replace(look.water, scatter=0.03 + 0.09 * ntu, particles=0.5 + 3 * ntu)
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
    header, as receivers write that have no fix; in the table, both are empty, while the track covers them. A frame is
    `SPREAD` m of seabed wide for each metre of altitude. Labels: a frame's is the expert's `margin`, with a little
    noise; a patch has the substrate of most of its pixels (`cover`), with a few errors where two are nearly tied.
    """
    check(seed, scale)
    folder = Path(folder)
    (folder / "frames.parquet").unlink(missing_ok=True)
    for part in ("frames", "tracks"):
        shutil.rmtree(folder / part, ignore_errors=True)  # those of another scale would stay between the new ones
    sequences = _plan(seed, scale)
    for sequence in sequences:
        _write_gpx(_track(sequence, seed), sequence.name, folder / "tracks" / f"{sequence.name}.gpx")
    tasks = [(folder / "frames", s, seed, s.frames // 2 if s is sequences[1] else None) for s in sequences]
    with pool(workers) if workers > 1 else nullcontext() as processes:
        results = sorted((processes.map if processes else map)(_shoot, tasks), key=lambda made: made[0]["frame"][0])
    frames, patches = (pd.concat(part, ignore_index=True) for part in zip(*results, strict=True))
    log.info("substrate survey: %d frames in %d sequences", len(frames), len(sequences))
    write_parquet(patches, folder / "patch_labels.parquet")
    write_parquet(observe(frames, seed), folder / "observations.parquet")
    write_parquet(frames.drop(columns="margin"), folder / "frames.parquet")
