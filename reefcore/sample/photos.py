"""Photographs of a reef that does not exist: colonies laid out on rock and sand, lit, and seen through water.

Every source has one `Look`: its water, camera, scale, and the forms and colours its genera take. A photo comes with the
class of every pixel, so that labels are true by construction. Synthetic throughout; nothing is taken from photographs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from reefcore.errors import ReefcoreError
from reefcore.files import atomic
from reefcore.sample import morphology, taxa
from reefcore.sample.morphology import generator
from reefcore.sample.water import Camera, Water, expose, immerse, make_camera, make_water, soften

#: What the class map of a photo counts: 44 hard corals, then other benthic categories.
CLASSES: tuple[str, ...] = tuple(taxa.KINDS)
AREA_SCALE = 1 / 36  # of a photo's pixels against the photo it stands for
COLONY = 142  # pixels; usual diameter of a colony at median resolution
GROUND = tuple(kind.name for kind in taxa.OTHER if "ground" in kind.forms and kind.name != "Human objects")


@dataclass(frozen=True)
class Look:
    """Everything that the photos of one source share.

    Attributes
    ----------
    seed : int
    realm : str
        MEOW realm.
    megapixels : float
        Of the photos it stands for; `shape` scales them down.
    water, camera
        See `reefcore.sample.water`.
    depth : tuple of 2 floats
        Shallowest and deepest photo, m.
    altitude : float
        Camera to seabed, m.
    scale : float
        Size of organisms in pixels against median resolution.
    aspect : float
        Width over height.
    cropped, frame : bool
        Photos are cropped to quadrats of varying size; the quadrat's frame shows at the edges.
    sun : tuple of 3 floats
        Direction of light and how sharp its shadows are, 0..1.
    """

    seed: int
    realm: str
    megapixels: float
    water: Water
    camera: Camera
    depth: tuple
    altitude: float
    scale: float
    aspect: float
    cropped: bool
    frame: bool
    sun: tuple


def make_look(seed: int, realm: str, megapixels: float) -> Look:
    """Draw the look of one source.

    Parameters
    ----------
    seed : int
        The same seed, realm and megapixels give the same look.
    realm : str
        MEOW realm, such as "Tropical Atlantic".
    megapixels : float
        Resolution of the source's photos, 0.2 to 27 in the paper.

    Raises
    ------
    ReefcoreError
        Where `megapixels` is not positive.
    """
    if not megapixels > 0:
        raise ReefcoreError(f"megapixels is {megapixels}", do="give a positive number, 0.2 to 27 in the paper")
    rng = generator("look", seed, realm)
    top = rng.gamma(2.5, 1.6) + 1
    turn, tilt = rng.uniform(0, 2 * np.pi), rng.uniform(0.25, 0.75)
    cropped = bool(rng.random() < 0.16)
    return Look(
        seed=seed,
        realm=realm,
        megapixels=float(megapixels),
        water=make_water(rng, realm),
        camera=make_camera(rng),
        depth=(float(top), float(top + rng.uniform(1, 6))),
        altitude=float(rng.uniform(0.5, 1.2)),
        scale=float(np.clip((megapixels / 12) ** 0.25, 0.6, 1.2) * np.exp(rng.normal(0, 0.06))),
        aspect=float(rng.choice([4 / 3, 3 / 2], p=[0.7, 0.3])),
        cropped=cropped,
        frame=cropped and bool(rng.random() < 0.6),
        sun=(float(tilt * np.cos(turn)), float(tilt * np.sin(turn)), float(rng.uniform(0.25, 1.0))),
    )


def shape(look: Look, seed: int) -> tuple[int, int]:
    """Return width and height in pixels of one photo: constant in a source, unless its photos are cropped quadrats."""
    pixels, aspect = look.megapixels * 1e6 * AREA_SCALE, look.aspect
    if look.cropped:
        rng = generator("shape", look.seed, seed)
        pixels, aspect = pixels * rng.uniform(0.4, 1.0), aspect * rng.uniform(0.7, 1.05)
    height = math.sqrt(pixels / aspect)
    return max(48, round(height * aspect)), max(48, round(height))


@cache
def _habit(look_seed: int, kind: taxa.Kind, name: str | None = None) -> tuple:
    """How a taxon grows in one source: weights of its forms and colours, tile, and departures in size and relief."""
    rng = generator("habit", look_seed, name or kind.name)
    forms = np.array(list(kind.forms.values())) * rng.gamma(0.5, 1, len(kind.forms))
    colours = rng.gamma(0.4, 1, len(kind.colours)) * 0.6 ** np.arange(len(kind.colours))  # the first is the usual one
    tint = np.exp(rng.normal(0, (0.11, 0.07, 0.11)))
    size = float(np.exp(rng.normal(0, 0.12)))
    relief = float(np.exp(rng.normal(0, 0.15)))
    return forms / forms.sum(), colours / colours.sum(), int(rng.integers(morphology.VARIANTS)), tint, size, relief


def _ramp(kind, weights, tint, rng, spread=0.03) -> np.ndarray:
    """Colours for tone 0..1 in 64 steps (float32, 64 x 3, linear): valley, body, ridge."""
    ridge, valley = (np.array(taxa.COLOURS[name]) for name in kind.colours[rng.choice(len(kind.colours), p=weights)])
    vary = tint * np.exp(rng.normal(0, spread, 3)) * np.exp(rng.normal(0, 0.06))
    stops = np.stack([0.6 * valley, 0.5 * valley + 0.4 * ridge, ridge, 0.7 * ridge + 0.25])
    steps = np.stack([np.interp(np.linspace(0, 1, 64), (0, 0.38, 0.72, 1.15), stops[:, band]) for band in range(3)], -1)
    return ((steps * vary) ** 2).astype(np.float32)


def _sample(tile: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Interpolate a repeating tile (side, side, 2), side a power of two, bilinearly at (n,) positions: (n, 2)."""
    side = tile.shape[0]
    y0, x0 = np.floor(y), np.floor(x)
    fy, fx = (y - y0)[:, None], (x - x0)[:, None]
    y0, x0 = y0.astype(np.int32) & (side - 1), x0.astype(np.int32) & (side - 1)
    y1, x1 = ((y0 + 1) & (side - 1)) * side, (x0 + 1) & (side - 1)
    y0 *= side
    flat = tile.reshape(-1, 2)
    upper, lower = flat.take(y0 + x0, 0), flat.take(y1 + x0, 0)
    upper += (flat.take(y0 + x1, 0) - upper) * fx
    lower += (flat.take(y1 + x1, 0) - lower) * fx
    lower -= upper
    lower *= fy
    upper += lower
    return upper


@cache
def _warp() -> np.ndarray:
    """Smooth noise that bends outlines and blotches colours (float32, side x side x 2; standard deviation 1)."""
    rng = generator("warp")
    layers = [morphology.fractal(256, rng, 2.2, 80) for _ in range(2)]
    return np.stack(layers, -1).astype(np.float32)


@cache
def _swell() -> np.ndarray:
    """Relief of the seabed and patchiness of its cover (float32, 6 x 512 x 512; standard deviation 1)."""
    rng = generator("swell")
    return np.stack([morphology.fractal(512, rng, slope, 260) for slope in (1.7, 1.35, 1.35, 1.5, 1.5, 1.5)]).astype(
        np.float32
    )


@cache
def _lumps() -> tuple[np.ndarray, np.ndarray]:
    """Make the stones that a seabed is heaped of.

    Returns
    -------
    int16 array (512, 512, 2)
        Way from each pixel to the middle of its stone: ground changes from stone to stone.
    float32 array (512, 512, 2)
        Height in pixels and departure in tone.
    """
    rng, side = generator("lumps"), 512
    way, height, tone = None, 0, 0
    for size, tall in ((48, 16.0), (20, 9.0)):
        d, nearest, angle, count = morphology.cells(side, size, rng, 0.4)
        level, shade = rng.random(count)[nearest[..., 0]], rng.normal(0, 0.07, count)[nearest[..., 0]]
        dome = np.sqrt(np.clip(1 - (d[..., 0] / 0.75) ** 2, 0.02, 1)) * (0.35 + 0.65 * level)
        bend = [0.1 * size * morphology.fractal(side, rng, 1.9, 40) for _ in range(2)]
        at = tuple(np.rint(np.indices((side, side))[axis] + bend[axis]).astype(int) % side for axis in (0, 1))
        height, tone = height + tall * dome[at], tone + shade[at]
        way = [(-size * d[..., 0] * turn(angle))[at] + bend[axis] for axis, turn in enumerate((np.sin, np.cos))]
    return np.stack(way, -1).astype(np.int16), np.stack([height, tone], -1).astype(np.float32)


@cache
def _ground_tiles(variant: int) -> np.ndarray:
    """Tiles of all ground classes, in the order of `GROUND` (float32, classes * side * side x 2)."""
    return np.stack([morphology.tile(taxa.KINDS[name], variant) for name in GROUND]).reshape(-1, 2)


def compete(fields: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Let fields of noise compete for each place, each lifted until it wins about its wanted share.

    Parameters
    ----------
    fields : float32 array (n, h, w)
    wanted : array of n shares that sum to 1

    Returns
    -------
    int array (h, w)
        Which field wins.
    """
    offset = np.log(wanted)
    for _ in range(8):
        choice = np.argmax(fields[:, ::2, ::2] + offset[:, None, None].astype(np.float32), 0)
        got = np.bincount(choice.ravel(), minlength=len(fields)) / choice.size
        offset += 0.6 * np.log((wanted + 0.003) / (got + 0.003))
    return np.argmax(fields + offset[:, None, None].astype(np.float32), 0)


class _Scene:
    """A seabed under construction.

    Attributes
    ----------
    relief : float32 array (h, w)
        Height in pixels.
    paint : int32 array (h, w)
        Index into the colours of `palette`.
    classes : uint8 array (h, w)
        Index into `kinds`.
    palette : list of float32 arrays (64, 3)
        Linear colours, 64 steps of tone for each thing in the photo.
    """

    def __init__(self, look: Look, cover: dict[str, float], kinds: dict[str, taxa.Kind], width: int, height: int, rng):
        self.look, self.rng, self.width, self.height = look, rng, width, height
        self.kinds, self.index = kinds, {name: number for number, name in enumerate(kinds)}
        self.palette: list[np.ndarray] = []
        self._lay_ground({name: cover[name] for name in GROUND if name in cover} or {"Turf algae": 1.0})

    def _cut(self, bank: np.ndarray, stretch: float, step: int = 1, turn: bool = True) -> np.ndarray:
        """Cut the frame out of repeating noise, magnified `stretch` times; every `step`-th pixel."""
        side = len(bank)
        (y0, x0), flip = self.rng.integers(0, side, 2), (self.rng.random(2) < 0.5) & turn
        y = (y0 + (np.arange(0, self.height, step) / stretch).astype(int)) % side
        x = (x0 + (np.arange(0, self.width, step) / stretch).astype(int)) % side
        return (bank.swapaxes(0, 1) if flip[0] else bank).take(y[:: -1 if flip[1] else 1], 0).take(x, 1)

    def _lay_ground(self, shares: dict[str, float]) -> None:
        look, rng, scale = self.look, self.rng, np.float32(self.look.scale)
        names, swell = list(shares), _swell()
        relief = 20 * scale * self._cut(swell[0], 1.0)
        choice = self._spread(shares, relief[::4, ::4] / (20 * scale))
        state = rng.bit_generator.state
        way = self._cut(_lumps()[0], look.scale, turn=False)
        rng.bit_generator.state = state
        lumps = self._cut(_lumps()[1], look.scale, turn=False)
        y = np.clip((np.arange(self.height, dtype=np.int16)[:, None] + way[..., 0]) >> 2, 0, choice.shape[0] - 1)
        x = np.clip((np.arange(self.width, dtype=np.int16)[None] + way[..., 1]) >> 2, 0, choice.shape[1] - 1)
        choice = choice.astype(np.uint8)[y, x]
        # Their surfaces, from one atlas.
        zoom, side = 0.6 + 0.5 * look.scale, morphology.GROUND
        number = np.array([GROUND.index(name) for name in names], np.int32)
        y0, x0 = rng.integers(0, side, 2)
        at_y = ((y0 + np.arange(self.height) / zoom).astype(np.int32) % side * side)[:, None]
        at_x = ((x0 + np.arange(self.width) / zoom).astype(np.int32) % side)[None]
        surface = _ground_tiles(_habit(look.seed, taxa.KINDS["Turf algae"], "ground")[2]).take(
            (number * side * side).take(choice) + (at_y + at_x), 0
        )
        flat = np.array([0.3 if name == "Sediment" else 1.0 for name in names], np.float32)
        drop = np.array([-30 * scale if name == "Shadow" else 0.0 for name in names], np.float32)
        heap = lumps[..., 0] * scale
        self.relief = (relief + heap) * flat.take(choice) + drop.take(choice) + surface[..., 0] * np.float32(zoom)
        tone = surface[..., 1] + lumps[..., 1] + np.float32(0.07) * self._cut(swell[4], 1.0)
        self.paint = (np.clip(tone, 0, 0.999) * 64).astype(np.int32) + 64 * choice.astype(np.int32)
        self.classes = np.array([self.index[name] for name in names], np.uint8).take(choice)
        for name in names:
            _, colours, _, tint, *_ = _habit(look.seed, self.kinds[name])
            self.palette.append(_ramp(self.kinds[name], colours, tint, rng))

    def _spread(self, shares: dict[str, float], low: np.ndarray) -> np.ndarray:
        """Say which ground lies where (positions in `shares`): fields of noise in competition, at a quarter of the
        resolution; `low` is the relief there, standard deviation 1.
        """
        names, swell = list(shares), _swell()
        lean = {"Shadow": -2.0, "Sediment": -0.8, "Rubble": -0.4, "Corallinales": 0.5, "Hard substrate": 0.4}
        fields = np.stack(
            [self._cut(swell[1 + n % 2], 0.9, 4) + np.float32(lean.get(name, 0)) * low for n, name in enumerate(names)]
        )
        wanted = np.array([shares[name] for name in names])
        return compete(fields, wanted / wanted.sum())

    def grow(self, name: str, radius: float, cy: float, cx: float) -> None:
        """Set one colony of class `name` on the seabed, with its centre at (cy, cx)."""
        look, rng, kind = self.look, self.rng, self.kinds[name]
        forms, colours, variant, tint, size, rough = _habit(look.seed, kind)
        form = list(kind.forms)[rng.choice(len(forms), p=forms)]
        stamp = morphology.stamp(name, form, int(rng.integers(morphology.STAMPS)))
        top, bottom = max(0, int(cy - radius)), min(self.height, int(cy + radius) + 1)
        left, right = max(0, int(cx - radius)), min(self.width, int(cx + radius) + 1)
        y = (np.arange(top, bottom, dtype=np.float32) - np.float32(cy))[:, None] / np.float32(radius)
        x = (np.arange(left, right, dtype=np.float32) - np.float32(cx))[None] / np.float32(radius)
        turn, squeeze = rng.uniform(0, 2 * np.pi), np.float32(rng.uniform(0.95, 1.2))
        c, s = np.float32(np.cos(turn)), np.float32(np.sin(turn))
        start = rng.integers(0, 256, 2)
        bend = _warp().take(np.arange(bottom - top) + start[0], 0, mode="wrap")
        bend = bend.take(np.arange(right - left) + start[1], 1, mode="wrap")
        y, x = c * y - s * x, s * y + c * x
        u, v = y * squeeze + np.float32(0.03) * bend[..., 0], x + np.float32(0.03) * bend[..., 1]
        middle = np.float32(morphology.STAMP / 2)
        inside = np.flatnonzero(np.maximum(np.abs(u), np.abs(v)) < 1.0)
        u, v = u.ravel()[inside], v.ravel()[inside]
        rise, tip = _sample(stamp, u * (middle / 1.04) + (middle - 0.5), v * (middle / 1.04) + (middle - 0.5)).T
        body = np.flatnonzero(rise > 0.012)
        if not len(body):
            return
        pixels, rise, tip = inside[body], rise[body], tip[body]
        y, x = y.ravel()[pixels], x.ravel()[pixels]  # the outline bends, the corallites keep their shape
        blotch = bend[..., 0].ravel()[pixels]
        r2 = y * y + x * x
        grain = np.float32(
            radius / (look.scale * size)
        )  # texture pixels per radius: corallites do not grow with the colony
        side = morphology.TILE
        if kind.corallite in morphology.POLAR:
            turns = max(1, round(float(2 * np.pi * 0.6 * grain / side)))
            around, out = np.arctan2(y, x) * np.float32(side * turns / (2 * np.pi)), np.sqrt(r2) * grain
            at = (around, out) if kind.corallite == "rows" else (out, around)
        else:
            bulge = grain * (1 + np.float32(0.3) * r2)
            start = rng.integers(0, side, 2).astype(np.float32)
            at = (y * bulge + start[0], x * bulge + start[1])
        surface = _sample(morphology.tile(kind, variant), *at)
        rows, columns = np.divmod(pixels, right - left)
        flat = (rows + top) * self.width + (columns + left)
        ground = self.relief.take(flat)
        base = np.float32(np.median(ground[::37]))
        z = (0.8 * ground + 0.2 * base if form == "encrusting" else base) + rise * np.float32(radius)
        z += surface[:, 0] * np.float32(rough * look.scale) * np.clip(rise * 12, 0, 1)
        alive = z > ground - np.where(rise < 0.08, -4, 0.3 * radius)
        if rng.random() < 0.15:  # part of the colony is dead: the ground shows
            alive &= blotch < rng.uniform(0.9, 1.8)
        seen = np.flatnonzero(alive)
        tone = surface[:, 1] + 0.5 * tip + np.float32(0.05) * blotch + np.float32(rng.normal(0, 0.04))
        flat = flat[seen]
        paint = (np.clip(tone[seen], 0, 0.999) * 64).astype(np.int32) + 64 * len(self.palette)
        self.relief.reshape(-1)[flat] = z[seen]
        self.paint.reshape(-1)[flat] = paint
        self.classes.reshape(-1)[flat] = self.index[name]
        self.palette.append(_ramp(kind, colours, tint, rng))

    def lay_frame(self) -> None:
        """Lay the pipe of a quadrat along some edges."""
        pipe = max(4, round(0.035 * min(self.height, self.width)))
        across = np.sqrt(np.clip(1 - np.linspace(-1, 1, pipe, dtype=np.float32) ** 2, 0.05, 1))
        high = self.relief.max() * 0.6
        for edge in np.flatnonzero(self.rng.random(4) < 0.6):
            where = [np.s_[:pipe], np.s_[-pipe:], np.s_[:, :pipe], np.s_[:, -pipe:]][edge]
            self.relief[where] = high + pipe * 0.5 * (across[:, None] if edge < 2 else across[None])
            self.paint[where] = 64 * len(self.palette)
            self.classes[where] = self.index["Human objects"]
        self.palette.append(np.full((64, 3), 0.32, np.float32))

    def light(self) -> np.ndarray:
        """Light that falls on each pixel (float32, h x w): sun on slopes, cast shadows, dim crevices."""
        relief, scale, (sx, sy, sharp) = self.relief, self.look.scale, self.look.sun
        gy, gx = np.zeros_like(relief), np.zeros_like(relief)
        np.subtract(relief[2:], relief[:-2], out=gy[1:-1])
        np.subtract(relief[:, 2:], relief[:, :-2], out=gx[:, 1:-1])
        facing = 1 / np.sqrt(1 + 0.25 * (gx * gx + gy * gy))
        lit = np.maximum(1 - np.float32(0.5 * sx) * gx - np.float32(0.5 * sy) * gy, 0) * facing
        half = np.ascontiguousarray(relief[::2, ::2])
        shade = np.zeros_like(half)
        for step in (2, 4, 7, 11, 16, 24):  # does something towards the sun stand above the ray?
            ray = np.roll(half, (-round(sy * step), -round(sx * step)), (0, 1)) - half - np.float32(step * 1.1)
            np.maximum(shade, ray, out=shade)
        shade = np.clip(shade * np.float32(0.16 / scale), 0, 1)
        shade = np.asarray(Image.fromarray(shade).resize(relief.shape[::-1], Image.Resampling.BILINEAR))
        near, wide = relief - soften(relief, 6), relief - soften(relief, 32)
        hollow = np.clip(near * np.float32(0.04 / scale), -0.3, 0.08) + np.clip(
            wide * np.float32(0.025 / scale), -0.5, 0.25
        )
        sun = np.float32(0.4 + 0.4 * sharp)
        return (sun * lit * (1 - np.float32(sharp) * shade) + (1 - sun) * facing) * np.maximum(1 + hollow, 0.06)

    def colours(self) -> np.ndarray:
        """Reflectance of each pixel, linear (float32, 3 x h x w)."""
        return np.stack([band.take(self.paint) for band in np.concatenate(self.palette).T.copy()])


def _plan(look: Look, cover: dict[str, float], kinds: dict, width: int, height: int, rng) -> list[tuple]:
    """Choose number, size and place of the colonies: a list of (name, radius, y, x), largest first."""
    side, usual = min(width, height), COLONY * look.scale
    bodies = []
    for name, share in cover.items():
        if name in GROUND or name == "Human objects":
            continue
        wide = usual * _habit(look.seed, kinds[name])[4] * (0.7 if "solitary" in kinds[name].forms else 1)
        wanted = share * width * height / 0.6  # a colony fills about 0.6 of its square
        count = max(1, round(wanted / wide**2))
        for diameter in math.sqrt(wanted / count) * np.exp(rng.normal(0, 0.16, count)):
            bodies.append((name, np.clip(diameter, min(0.65 * wide, 0.6 * side), min(1.5 * usual, 0.9 * side)) / 2))
    bodies.sort(key=lambda body: -body[1])
    placed = np.zeros((len(bodies), 3))
    for number, (_, radius) in enumerate(bodies):
        tries = rng.uniform((0.4 * radius, 0.4 * radius), (height - 0.4 * radius, width - 0.4 * radius), (24, 2))
        before = placed[:number]
        gap = np.hypot(tries[:, :1] - before[:, 0], tries[:, 1:] - before[:, 1]) - 0.8 * (before[:, 2] + radius)
        best = np.argmin(np.maximum(-gap, 0).sum(1)) if number else 0
        placed[number] = (*tries[best], radius)
    return [(name, radius, y, x) for (name, radius), (y, x, _) in zip(bodies, placed, strict=True)]


def photo(
    look: Look,
    colonies: dict[str, float],
    seed: int,
    width: int,
    height: int,
    kinds: dict[str, taxa.Kind] = taxa.KINDS,
) -> tuple[np.ndarray, np.ndarray]:
    """Take one photo of a source.

    Parameters
    ----------
    look : Look
    colonies : dict
        Wanted relative cover of each class (keys of `kinds`; normalised to sum to 1, 0 for absent). Every organism
        asked for appears, if only as one small colony, unless the photo is too small for all.
    seed : int
        Of this photo within its source.
    width, height : int
        Pixels; see `shape`.
    kinds : dict of Kind
        What can be shown, by name, at most 256; with other corals than the sample's it still needs the ground kinds.

    Returns
    -------
    image : uint8 array (height, width, 3)
    classes : uint8 array (height, width)
        Position in `kinds`, which is that in `CLASSES`, of what each pixel shows.

    Raises
    ------
    ReefcoreError
        Where `colonies` names an unknown class or nothing.
    """
    unknown = sorted(set(colonies) - set(kinds))
    if unknown or not sum(colonies.values()) > 0:
        raise ReefcoreError(f"no photo can show {', '.join(unknown) or 'nothing'}", do="use names in photos.CLASSES")
    total = sum(colonies.values())
    cover = {name: share / total for name, share in sorted(colonies.items()) if share > 0}
    rng = generator("photo", look.seed, seed)
    scene = _Scene(look, cover, kinds, width, height, rng)
    for body in _plan(look, cover, kinds, width, height, rng):
        scene.grow(*body)
    if look.frame:
        scene.lay_frame()
    reef = scene.colours()
    reef *= scene.light()
    nearer = scene.relief / np.float32(420 * look.scale * look.altitude)
    light = immerse(reef, nearer, look.water, look.camera, rng.uniform(*look.depth), look.altitude, rng)
    return expose(light, look.water, look.camera, rng), scene.classes


def save(image: np.ndarray, path: str | Path, look: Look, seed: int, exif: Image.Exif | bytes = b"") -> Path:
    """Write a photo as the JPEG its source's camera makes, whole or not at all; the same photo gives the same bytes."""
    path = Path(path)
    quality = int(np.clip(look.camera.quality + generator("jpeg", look.seed, seed).integers(-2, 3), 40, 95))
    with atomic(path) as temporary:
        Image.fromarray(image).save(temporary, "JPEG", quality=quality, subsampling=2, exif=exif)
    return path
