"""Reef organisms as height fields: surfaces (corallites, rock, sand) that tile, and growth forms seen from above.

Everything is made once per process from a seed and kept; `reefcore.sample.photos` cuts, turns and stretches it.
Heights are in pixels for surfaces and in radii for forms; tone runs from 0 (valleys, bases) to 1 (ridges, tips).
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree

from reefcore.sample.taxa import Kind

TILE = 128  # pixels; side of a corallite tile (a power of two, as STAMP)
GROUND = 512  # pixels; side of a tile of rock, sand or rubble
STAMP = 128  # pixels; side of a growth form
VARIANTS = 3  # tiles per taxon: the ecomorphs that sources differ in
STAMPS = 5  # individuals per growth form of a taxon


def generator(*keys) -> np.random.Generator:
    """Make a generator from numbers and names, the same in every process."""
    return np.random.default_rng([key if isinstance(key, int) else zlib.crc32(key.encode()) for key in keys])


def _unit(field: np.ndarray) -> np.ndarray:
    """Stretch a field to 0..1 between its 1st and 99th percentile."""
    low, high = np.percentile(field, (1, 99))
    return np.clip((field - low) / max(high - low, 1e-9), 0, 1)


def _smooth(field: np.ndarray, low: float, high: float) -> np.ndarray:
    t = np.clip((field - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def _frequency(side: int) -> tuple[np.ndarray, np.ndarray]:
    return np.fft.fftfreq(side)[:, None] * side, np.fft.rfftfreq(side)[None, :] * side


def fractal(side: int, rng: np.random.Generator, slope: float = 1.0, longest: float | None = None) -> np.ndarray:
    """Make noise that tiles, with amplitude falling as frequency to the power `slope`; mean 0, standard deviation 1.

    Parameters
    ----------
    side : int
        Pixels.
    rng : Generator
    slope : float
        0 is white noise, 2 is smooth.
    longest : float, optional
        Longest wavelength in pixels.
    """
    fy, fx = _frequency(side)
    k = np.hypot(fy, fx)
    k[0, 0] = 1
    amplitude = k**-slope
    amplitude[k < side / (longest or side)] = 0
    noise = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((side, side))) * amplitude, s=(side, side))
    return noise / noise.std()


def cells(side: int, size: float, rng: np.random.Generator, jitter: float = 0.2):
    """Scatter points on a loose hexagonal grid that tiles.

    Returns
    -------
    distance, nearest : arrays (side, side, 2)
        Distance of each pixel to its first and second point in units of `size`, and their numbers.
    angle : array (side, side)
        Direction from the first point.
    count : int
        Points.
    """
    columns, rows = max(2, round(side / size)), 2 * max(1, round(side / size / 1.732))
    y, x = np.mgrid[:rows, :columns].reshape(2, -1).astype(float)
    points = np.stack([(y + 0.5) * side / rows, (x + 0.5 * (y % 2)) * side / columns], 1)
    points = (points + rng.normal(0, jitter * size, points.shape)) % side
    grid = np.stack(np.mgrid[:side, :side], -1).reshape(-1, 2) + 0.5
    distance, nearest = cKDTree(points, boxsize=side).query(grid, k=2)
    offset = (grid - points[nearest[:, 0]] + side / 2) % side - side / 2
    angle = np.arctan2(offset[:, 0], offset[:, 1]).reshape(side, side)
    return (distance / size).reshape(side, side, 2), nearest.reshape(side, side, 2), angle, len(points)


def _septa(field, rng, length=3.0):
    """Draw fine lines down the slopes of a field, by smearing noise along its gradient."""
    side = len(field)
    noise = ndimage.gaussian_filter(rng.standard_normal((side, side)), 0.55, mode="wrap")
    gy, gx = (ndimage.sobel(field, axis, mode="wrap") for axis in (0, 1))
    norm = np.hypot(gy, gx) + 1e-9
    y, x = np.mgrid[:side, :side]
    total = 0
    for step in np.linspace(-length, length, 7):
        total = (
            total
            + noise[np.rint(y + step * gy / norm).astype(int) % side, np.rint(x + step * gx / norm).astype(int) % side]
        )
    return _unit(total) - 0.5


def _labyrinth(side, size, rng, order=0.0, steps=5):
    """Make ridges and valleys of one wavelength; with `order` they run along the first axis."""
    fy, fx = _frequency(side)
    k = np.hypot(fy, fx)
    ring = np.exp(-(((k - side / size) / (0.22 * side / size)) ** 2))
    if order:
        ring *= np.exp(-order * (np.abs(fy) / np.maximum(k, 1)) ** 2)
    field = rng.standard_normal((side, side))
    for _ in range(steps):
        field = np.fft.irfft2(np.fft.rfft2(np.tanh(2 * field)) * ring, s=(side, side))
        field /= field.std()
    return field


def _polygons(side, size, rng, septa=0.0, wall=0.25, merge=0.0):
    d, nearest, _, count = cells(side, size, rng)
    edge = d[..., 1] - d[..., 0]
    if merge:  # some neighbours share a valley
        group = np.arange(count)
        pairs = np.unique(np.sort(nearest.reshape(-1, 2), 1), axis=0)
        for a, b in pairs[rng.random(len(pairs)) < merge]:
            group[b] = group[a]
        edge = np.where(group[nearest[..., 0]] == group[nearest[..., 1]], 1.0, edge)
    ridge = ndimage.gaussian_filter(np.exp(-((edge / wall) ** 2)), 0.6, mode="wrap")
    lines = _septa(d[..., 0], rng) * septa
    height = ridge + 0.25 * lines * _smooth(d[..., 0], 0.1, 0.4)
    return height, 0.1 + 0.8 * ridge + 0.55 * lines - 0.25 * np.exp(-((d[..., 0] / 0.16) ** 2))


def _stars(side, size, rng, ring=0.35, septa=0.0, dome=0.0, oval=0.0, fuzz=0.0):
    d, _, angle, _ = cells(side, size, rng, 0.15)
    r = d[..., 0] * (1 + 0.25 * oval * np.cos(2 * angle))
    rim = np.exp(-(((r - ring) / 0.13) ** 2))
    mound = 1 - _smooth(r, ring, ring + 0.22)
    pit = np.exp(-((r / (0.55 * ring)) ** 2))
    lines = _septa(r, rng) * septa
    height = 0.6 * mound * (1 + dome) + 0.4 * rim - 0.8 * pit + 0.3 * lines + fuzz * 0.3 * rng.standard_normal(r.shape)
    return height, 0.35 + 0.15 * mound + 0.45 * rim - 0.5 * pit + 0.5 * lines


def _ridges(side, size, rng, septa=0.0, groove=0.0, order=0.0, breaks=0.0, fuzz=0.0):
    field = _labyrinth(side, size, rng, 0.15 * order)
    if breaks:
        field -= 0.9 * breaks * _smooth(_labyrinth(side, size * 1.3, rng), 0.6, 1.6)
    ridge = 0.5 + 0.5 * np.tanh(1.7 * (field - 0.25))
    top = groove * np.exp(-(((field - 1.5) / 0.35) ** 2))
    lines = _septa(field, rng) * septa
    rough = fuzz * 0.25 * rng.standard_normal(field.shape)
    return ridge - 0.5 * top + 0.25 * lines + rough, 0.25 + 0.55 * ridge - 0.3 * top + 0.45 * lines + rough


def _rows(side, size, rng, septa=0.0, order=4.0):
    field = _labyrinth(side, size, rng, order)
    ridge = 0.5 + 0.5 * np.tanh(1.5 * field)
    lines = _septa(field, rng, 2) * septa
    return ridge + 0.2 * lines, 0.2 + 0.6 * ridge + 0.5 * lines


def _radial(side, size, rng):
    field = _labyrinth(side, size, rng, 30.0)
    return 0.5 + 0.5 * np.tanh(field), 0.35 + 0.3 * np.tanh(1.2 * field) + 0.06 * rng.standard_normal(field.shape)


def _pores(side, size, rng, rim=0.0, fuzz=0.0):
    d, *_ = cells(side, size, rng, 0.15)
    pit = np.exp(-((d[..., 0] / 0.3) ** 2))
    rough = fuzz * 0.22 * rng.standard_normal(pit.shape)
    halo = rim * np.exp(-(((d[..., 0] - 0.4) / 0.15) ** 2))
    return 1 - pit + 0.3 * halo + rough, 0.75 - 0.6 * pit + 0.25 * halo + rough


def _cones(side, size, rng, pit=0.5, uneven=0.0, ridge=0.0):
    d, nearest, angle, count = cells(side, size, rng, 0.22 + 0.1 * uneven)
    tall = 1 - uneven * rng.random(count)[nearest[..., 0]]
    r = d[..., 0] * (1 + 0.35 * ridge * np.cos(2 * angle + rng.uniform(0, 6.3, count)[nearest[..., 0]]))
    cone = np.clip(1 - r / 0.6, 0, 1) ** 0.8 * tall
    hole = pit * np.exp(-((d[..., 0] / 0.14) ** 2))
    return cone - 0.7 * hole, 0.15 + 0.85 * cone - 0.6 * hole


def _flowers(side, size, rng, petals=8, spike=0.0, cup=0.0):
    d, nearest, angle, count = cells(side, size, rng, 0.16)
    wave = np.cos(petals * angle + rng.uniform(0, 6.3, count)[nearest[..., 0]])
    r = d[..., 0] * (1 - 0.22 * wave)
    disc = 1 - _smooth(r, 0.34, 0.58)
    mouth = np.exp(-((d[..., 0] / (0.16 + 0.08 * cup)) ** 2))
    star = disc * (0.65 + 0.35 * wave * _smooth(d[..., 0], 0.08, 0.3))
    return star * (1 + spike * 0.5 * wave) - 0.5 * mouth, 0.05 + 0.95 * star - (0.35 + 0.3 * cup) * mouth


def _bubbles(side, size, rng):
    d, nearest, _, count = cells(side, size, rng, 0.25)
    big = rng.uniform(0.55, 0.75, count)[nearest[..., 0]]
    ball = np.sqrt(np.clip(1 - (d[..., 0] / big) ** 2, 0, 1))
    return ball, 0.1 + 0.8 * ball


def _discs(side, size, rng):
    d, *_ = cells(side, size, rng, 0.2)
    disc = 1 - _smooth(d[..., 0], 0.38, 0.55)
    mouth = np.exp(-((d[..., 0] / 0.13) ** 2))
    return disc - 0.5 * mouth, 0.1 + 0.7 * disc - 0.5 * mouth


def _plain(side, size, rng, holes=0.0):
    field = fractal(side, rng, 1.1, 6 * size)
    height, tone = 0.5 + 0.25 * field, 0.55 + 0.12 * field
    if holes:
        d, nearest, _, count = cells(side, 7 * size, rng, 0.35)
        hole = np.exp(-((d[..., 0] / (0.16 * rng.random(count)[nearest[..., 0]] + 0.02)) ** 4))
        height, tone = height - 6 * hole, tone - 0.9 * hole
    return height, tone


def _fuzz(side, size, rng):
    field = ndimage.gaussian_filter(rng.standard_normal((side, side)), size / 4, mode="wrap")
    return _unit(field), 0.1 + 0.8 * _unit(field)


def _rock(side, size, rng):
    rough = fractal(side, rng, 1.5, 10 * size)
    pits = _smooth(fractal(side, rng, 1.2, 2.5 * size), 1.0, 2.2)
    specks = _smooth(fractal(side, rng, 0.8, 1.5 * size), 2.0, 3.0)
    height = 0.4 * rough + 0.06 * fractal(side, rng, 0.7, size) - 0.6 * pits
    tone = 0.5 + 0.08 * rough + 0.07 * fractal(side, rng, 0.7, 3 * size) - 0.3 * pits + 0.25 * specks
    return height, tone


def _crust(side, size, rng):
    bumps = fractal(side, rng, 1.6, 4 * size)
    margin = np.exp(-((fractal(side, rng, 1.5, 5 * size) / 0.16) ** 2))
    grain = fractal(side, rng, 0.6, size)
    return 0.3 * bumps + 0.05 * grain, 0.5 + 0.1 * bumps + 0.06 * grain + 0.25 * margin


def _sand(side, size, rng):
    grain = rng.standard_normal((side, side))
    ripples = fractal(side, rng, 1.7, 90)
    dark = _smooth(fractal(side, rng, 0.5, 12), 2.1, 3)
    return 0.2 * grain + 2.2 * ripples, 0.62 + 0.1 * grain + 0.1 * ripples - 0.5 * dark


def _rubble(side, size, rng):
    height, tone = 0.25 * fractal(side, rng, 1.1, 3 * size), 0.2 + 0.1 * fractal(side, rng, 0.8, size)
    grain = 0.14 * fractal(side, rng, 0.6, size)
    wrapped = np.zeros((2, side, side))
    for level in np.sort(rng.uniform(0, 1, int(1.1 * (side / size) ** 2))):
        a = rng.uniform(0, side, 2)
        turn, length, width = rng.uniform(0, 6.3), size * rng.uniform(0.5, 2.4), size * rng.uniform(0.14, 0.3)
        half = int(length + width) + 1
        y, x = np.arange(int(a[0]) - half, int(a[0]) + half), np.arange(int(a[1]) - half, int(a[1]) + half)
        inside, _ = _rod(y[:, None] - a[0], x[None] - a[1], turn, length, width)
        window = np.ix_(y % side, x % side)
        hit = inside > 0
        wrapped[0][window] = np.where(hit, 0.6 * level + inside * width / size * 1.6, wrapped[0][window])
        wrapped[1][window] = np.where(hit, 0.25 + 0.7 * rng.random() ** 1.3, wrapped[1][window])
    rods = wrapped[0] > 0
    return np.where(rods, wrapped[0], height), np.where(rods, wrapped[1], tone) + grain


def _rod(y, x, turn, length, width):
    """Cross-section height 0..1 of a round-ended rod from the origin, and the position 0..1 along it."""
    along = np.clip((x * np.cos(turn) + y * np.sin(turn)) / length, 0, 1)
    dy, dx = y - along * length * np.sin(turn), x - along * length * np.cos(turn)
    return np.sqrt(np.clip(1 - (dy * dy + dx * dx) / (width * width), 0, 1)), along


SURFACES = {
    "polygons": _polygons, "stars": _stars, "ridges": _ridges, "rows": _rows, "radial": _radial, "pores": _pores,
    "cones": _cones, "flowers": _flowers, "bubbles": _bubbles, "discs": _discs, "plain": _plain, "fuzz": _fuzz,
    "rock": _rock, "crust": _crust, "sand": _sand, "rubble": _rubble,
}  # fmt: skip
POLAR = {"rows", "radial"}  # surfaces laid out by radius and angle: concentric rows, radial septa
#: Ecomorphs: spacing, relief and tone contrast of the three tiles of a taxon.
ECOMORPHS = ((0.9, 1.25, 1.15), (1.0, 1.15, 1.1), (1.12, 1.0, 1.0))


@cache
def tile(kind: Kind, variant: int) -> np.ndarray:
    """Return the surface of a taxon or benthic category as a tile.

    Parameters
    ----------
    kind : Kind
    variant : int
        Ecomorph, 0 to ``VARIANTS - 1``.

    Returns
    -------
    float32 array (side, side, 2)
        Height in pixels and tone 0..1; `GROUND` pixels a side for ground, `TILE` for bodies. It repeats seamlessly.
    """
    spacing, relief, contrast = ECOMORPHS[variant]
    side, rng = GROUND if "ground" in kind.forms else TILE, generator("tile", kind.name, variant)
    height, tone = SURFACES[kind.corallite](side, kind.size * spacing, rng, **kind.options)
    tone = 0.5 + contrast * (np.clip(tone, 0, 1) - 0.5)
    return np.stack([height * kind.relief * relief, tone], -1).astype(np.float32)


def _grid():
    axis = (np.arange(STAMP) + 0.5) / STAMP * 2 - 1
    return axis[:, None] * 1.04, axis[None, :] * 1.04


def _outline(rng, rough=0.12, harmonics=7):
    """Distance from the centre as a fraction of an irregular outline, which is 1."""
    y, x = _grid()
    r, angle = np.hypot(y, x), np.arctan2(y, x)
    n = np.arange(1, harmonics + 1)
    weight = rough * rng.standard_normal(harmonics) / n**0.6
    edge = 0.86 + sum(
        w * np.cos(k * angle + p) for k, w, p in zip(n, weight, rng.uniform(0, 6.3, harmonics), strict=True)
    )
    return r / np.clip(edge, 0.35, 1.0)


def _domes(rng, count, radius, spread, tall, base=0.0):
    """Heap domes: the highest of many, within `spread` of the centre."""
    y, x = _grid()
    height = np.zeros((STAMP, STAMP))
    for _ in range(count):
        turn, away = rng.uniform(0, 6.3), spread * np.sqrt(rng.random())
        size = radius * rng.uniform(0.7, 1.3)
        d = ((y - away * np.sin(turn)) ** 2 + (x - away * np.cos(turn)) ** 2) / size**2
        top = base + tall * (1 - 0.55 * away) * rng.uniform(0.8, 1.1)
        np.maximum(height, (top + 0.8 * size * np.sqrt(np.clip(1 - d, 0, 1))) * (d < 1), out=height)
    return height


def _massive(rng):
    q = _outline(rng, 0.07)
    height = 0.62 * np.sqrt(np.clip(1 - q**2, 0, 1)) + 0.05 * fractal(STAMP, rng, 2.0) * (1 - q**2)
    return np.where(q < 1, np.maximum(height, 0.02), 0), np.zeros_like(q)


def _lobed(rng):
    height = _domes(rng, 16, 0.36, 0.62, 0.28)
    return height, np.zeros_like(height)


def _columnar(rng):
    height = _domes(rng, 30, 0.2, 0.76, 0.5)
    return height, np.zeros_like(height)


def _encrusting(rng):
    q = 1.02 * _outline(rng, 0.16, 9) + 0.05 * fractal(STAMP, rng, 1.7, 40)
    inside = 1 - _smooth(q, 0.82, 1.0)
    height = 0.09 * inside * (1 + 0.6 * fractal(STAMP, rng, 2.0, 90))
    return np.where(q < 1, np.maximum(height, 0.01), 0), 0.5 * _smooth(q, 0.86, 1.0)


def _foliose(rng):
    y, x = _grid()
    height, tip = np.zeros((STAMP, STAMP)), np.zeros((STAMP, STAMP))
    wave = 0.05 * fractal(STAMP, rng, 1.8, 60)
    for level in np.sort(rng.random(11)):  # plates from the lowest, outermost to the topmost, innermost
        turn, away = rng.uniform(0, 6.3), 0.5 * (1 - level)
        dy, dx = y - away * np.sin(turn), x - away * np.cos(turn)
        size = rng.uniform(0.38, 0.55)
        d = np.hypot(dy, dx) / size + wave
        out = dy * np.sin(turn) + dx * np.cos(turn)
        plate = 0.1 + 0.42 * level + 0.22 * out + 0.1 * d
        hit = (d < 1) & (plate > height)
        height = np.where(hit, plate, height)
        tip = np.where(hit, _smooth(d, 0.84, 1.0) * 0.9, tip)
    return height, tip


def _branches(count, width, reach, rise, fork, base, spread=0.55, fan=0.0):
    """Make a growth form of rods that radiate, rise and taper, with pale tips, over a dark base of radius `base`.

    They start within `spread` of the centre, or, with `fan`, at one point of the edge, within that angle.
    """

    def grow(rng):
        y, x = _grid()
        q = _outline(rng, 0.1)
        height = np.where(q < base, 0.06, 0.0)
        tip = np.where(q < base, -0.6, 0.0)
        queue = [(0.0, 0.0, turn, reach, 0.08, 0) for turn in rng.uniform(0, 6.3, count)]
        while queue:
            y0, x0, turn, length, z0, depth = queue.pop(0)
            if depth == 0 and fan:
                y0, x0, turn, length = 0.0, -0.85, (turn / 3.15 - 1) * fan, reach * rng.uniform(0.6, 1.1)
            elif depth == 0:
                away = spread * np.sqrt(rng.random())
                y0, x0, turn = away * np.sin(turn), away * np.cos(turn), turn + rng.normal(0, 0.5)
                length = (reach * rng.uniform(0.6, 1.2)) * (1.1 - away)
                z0 = 0.1 + 0.35 * (0.6 - away)
            steep = rise * rng.uniform(0.6, 1.3)
            thick = width * rng.uniform(0.8, 1.15) * (0.85**depth)
            y1, x1 = y0 + length * np.sin(turn), x0 + length * np.cos(turn)
            low = np.floor((np.minimum([y0, x0], [y1, x1]) - thick + 1.04) / 2.08 * STAMP).astype(int)
            high = np.ceil((np.maximum([y0, x0], [y1, x1]) + thick + 1.04) / 2.08 * STAMP).astype(int)
            window = tuple(slice(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True))
            dy, dx = y[window[0]] - y0, x[:, window[1]] - x0
            if dy.size == 0 or dx.size == 0:
                continue
            inside, along = _rod(dy, dx, turn, max(length, 1e-3), thick)
            z = (z0 + steep * along + thick * inside) * (inside > 0)
            hit = z > height[window]
            height[window] = np.where(hit, z, height[window])
            tip[window] = np.where(hit, 0.55 * along**3 + 0.2 * inside - 0.25 * (1 - along), tip[window])
            if depth < fork:
                for side in (-1, 1):
                    where = rng.uniform(0.35, 0.75)
                    queue.append(
                        (y0 + where * (y1 - y0), x0 + where * (x1 - x0), turn + side * rng.uniform(0.5, 1.0),
                         length * rng.uniform(0.45, 0.7), z0 + steep * where, depth + 1)
                    )  # fmt: skip
        return height, tip

    return grow


def _tabular(rng):
    q = _outline(rng, 0.1, 9)
    d, nearest, _, count = cells(STAMP, 7.5, rng, 0.25)
    nub = np.clip(1 - d[..., 0] / 0.62, 0, 1) * rng.uniform(0.6, 1.1, count)[nearest[..., 0]]
    inside = q + 0.16 * (1 - nub) * _smooth(q, 0.7, 0.95) < 1
    height = (0.5 + 0.1 * nub + 0.05 * fractal(STAMP, rng, 2.0)) * inside
    return height, (0.7 * nub - 0.25 + 0.2 * _smooth(q, 0.8, 1)) * inside


def _solitary(rng):
    y, x = _grid()
    long = rng.uniform(0.62, 1.0)
    q = np.sqrt(y**2 / long**2 + x**2) / 0.94
    slit = np.exp(-((y / 0.05) ** 2)) * (np.abs(x) < 0.34)
    height = 0.34 * np.sqrt(np.clip(1 - q**2, 0, 1)) - 0.12 * slit * (q < 1)
    return np.where(q < 1, np.maximum(height, 0.02), 0), -0.9 * slit + 0.25 * _smooth(q, 0.9, 1)


def _leafy(rng):
    y, x = _grid()
    height, tip = np.zeros((STAMP, STAMP)), np.zeros((STAMP, STAMP))
    for level in np.sort(rng.random(70)):
        turn, away = rng.uniform(0, 6.3), 0.75 * np.sqrt(rng.random())
        inside, along = _rod(y - away * np.sin(turn), x - away * np.cos(turn), rng.uniform(0, 6.3), 0.22, 0.075)
        hit = inside > 0
        height = np.where(hit, 0.1 + 0.35 * level + 0.06 * inside, height)
        tip = np.where(hit, rng.uniform(-0.35, 0.35) + 0.25 * along, tip)
    return height, tip


def _tubes(rng):
    y, x = _grid()
    height, tip = np.zeros((STAMP, STAMP)), np.zeros((STAMP, STAMP))
    for level in np.sort(rng.random(9)):
        turn, away, size = rng.uniform(0, 6.3), 0.6 * np.sqrt(rng.random()), rng.uniform(0.2, 0.34)
        d = np.hypot(y - away * np.sin(turn), x - away * np.cos(turn)) / size
        rim = np.exp(-(((d - 0.72) / 0.22) ** 2))
        hit = d < 1
        height = np.where(hit, 0.25 + 0.4 * level + 0.12 * rim - 0.4 * (d < 0.5), height)
        tip = np.where(hit, 0.25 * rim - 1.0 * (d < 0.5), tip)
    return height, tip


FORMS = {
    "massive": _massive, "lobed": _lobed, "columnar": _columnar, "encrusting": _encrusting, "foliose": _foliose,
    "tabular": _tabular, "solitary": _solitary, "leafy": _leafy, "tubes": _tubes,
    "staghorn": _branches(15, 0.075, 0.58, 0.3, 2, 0.0, 0.4), "bushy": _branches(34, 0.06, 0.42, 0.35, 1, 0.75),
    "stubby": _branches(60, 0.115, 0.24, 0.4, 0, 0.8, 0.68), "needles": _branches(46, 0.033, 0.42, 0.35, 2, 0.7),
    "digitate": _branches(60, 0.085, 0.1, 0.5, 0, 0.85, 0.75), "fan": _branches(13, 0.03, 0.9, 0.1, 3, 0.0, fan=1.1),
    "fingers": _branches(22, 0.1, 0.4, 0.5, 0, 0.5),
}  # fmt: skip


@cache
def stamp(name: str, form: str, individual: int) -> np.ndarray:
    """Return one individual of a growth form, seen from above.

    Parameters
    ----------
    name : str
        Taxon or category: each has its own individuals.
    form : str
        A key of `FORMS`.
    individual : int
        0 to ``STAMPS - 1``.

    Returns
    -------
    float32 array (STAMP, STAMP, 2)
        Height in radii, 0 outside the body, and what to add to the tone (paler tips and margins, darker bases).
    """
    height, tip = FORMS[form](generator("stamp", name, form, individual))
    return np.stack([height, tip], -1).astype(np.float32)
