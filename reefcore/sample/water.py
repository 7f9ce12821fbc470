"""Water and cameras: what becomes of a lit reef on its way into a JPEG.

Light is followed in three broad bands (red, green, blue) as in the revised image formation model (Akkaynak & Treibitz
2018, doi:10.1109/CVPR.2018.00703): what the reef reflects is attenuated over depth and over the range to the camera,
and the water adds its own scattered light over the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageFilter

#: Diffuse attenuation (1/m) near 600, 525 and 450 nm of Jerlov's water types (Jerlov 1976, Marine Optics, table XXVII).
JERLOV = {
    "I": (0.235, 0.043, 0.019), "IA": (0.240, 0.048, 0.026), "IB": (0.245, 0.054, 0.036), "II": (0.260, 0.076, 0.068),
    "III": (0.295, 0.116, 0.135), "1C": (0.300, 0.130, 0.250), "3C": (0.330, 0.200, 0.390),
}  # fmt: skip


@dataclass(frozen=True)
class Water:
    """One source's water.

    Attributes
    ----------
    jerlov : str
        Jerlov type, a key of `JERLOV`.
    attenuation : tuple of 3 floats
        Diffuse attenuation of red, green and blue, 1/m.
    scatter : float
        Beam scattering, 1/m: the part of the light lost over the range that turns into haze.
    particles : float
        Suspended particles per 100,000 pixels.
    """

    jerlov: str
    attenuation: tuple
    scatter: float
    particles: float


@dataclass(frozen=True)
class Camera:
    """One source's camera and how it is used.

    Attributes
    ----------
    strobe : float
        Light of the diver's own lamp against daylight at 5 m, 0 for none.
    balance : float
        How much of the colour cast automatic white balance removes, 0..1.
    tint : tuple of 3 floats
        Gains of red, green and blue that remain.
    brightness : float
        Mean level the exposure aims for, 0..1 in linear light.
    contrast, saturation : float
        1 is neutral.
    vignette : float
        Loss of light in the corners, 0..1.
    blur, noise : float
        Standard deviation of the blur in pixels, and of the noise in levels of 255.
    quality : int
        JPEG quality.
    """

    strobe: float
    balance: float
    tint: tuple
    brightness: float
    contrast: float
    saturation: float
    vignette: float
    blur: float
    noise: float
    quality: int


def make_water(rng: np.random.Generator, realm: str) -> Water:
    """Draw the water of one source; oceanic types are more common in the Indo-Pacific than in the Atlantic."""
    weights = np.array([2, 3, 3, 3, 2, 1.5, 1] if "Atlantic" in realm else [3, 4, 4, 3, 1.5, 1.2, 0.6])
    number = rng.choice(len(JERLOV), p=weights / weights.sum())
    name = list(JERLOV)[number]
    attenuation = tuple(float(k) for k in np.array(JERLOV[name]) * rng.uniform(0.85, 1.2, 3))
    scatter = float(rng.lognormal(np.log(0.05 + 0.03 * number), 0.35))
    return Water(name, attenuation, scatter, float(rng.gamma(1.2, 1 + 1.5 * number)))


def make_camera(rng: np.random.Generator) -> Camera:
    """Draw the camera of one source."""
    strobe = float(rng.choice([0, 0.4, 1.5, 4.0], p=[0.5, 0.2, 0.2, 0.1]))
    return Camera(
        strobe=strobe,
        balance=float(1 - rng.beta(1.4, 3.6)),
        tint=tuple(float(t) for t in np.exp(rng.normal(0, (0.18, 0.06, 0.18)))),
        brightness=float(rng.uniform(0.19, 0.32)),
        contrast=float(rng.uniform(0.85, 1.2)),
        saturation=float(rng.uniform(0.85, 1.35)),
        vignette=float(rng.uniform(0.0, 0.45)),
        blur=float(0.35 + rng.gamma(1.0, 0.2)),
        noise=float(rng.uniform(0.6, 2.6)),
        quality=int(rng.integers(64, 84)),
    )


def soften(field: np.ndarray, factor: int) -> np.ndarray:
    """Blur a float32 field (h, w) cheaply: average over blocks of `factor` pixels and interpolate back."""
    height, width = field.shape
    small = Image.fromarray(field).resize((max(1, width // factor), max(1, height // factor)), Image.Resampling.BOX)
    return np.asarray(small.resize((width, height), Image.Resampling.BILINEAR))


def immerse(reef, relief, water: Water, camera: Camera, depth: float, altitude: float, rng) -> np.ndarray:
    """Look at a lit reef through water.

    Parameters
    ----------
    reef : float32 array (3, h, w)
        Light the reef reflects under white light, linear, 0..1; changed in place.
    relief : float32 array (h, w)
        Height above the mean seabed in units of the range to the camera, about -0.2..0.2.
    water, camera
    depth, altitude : float
        Metres below the surface, and from camera to seabed.
    rng : Generator

    Returns
    -------
    float32 array (3, h, w)
        Linear light at the lens, exposed and white-balanced.
    """
    attenuation = np.array(water.attenuation)
    beam = attenuation + water.scatter
    daylight = np.exp(-attenuation * depth)
    lamp = camera.strobe * np.exp(-5 * attenuation[1]) * np.exp(-2 * beam * altitude)
    direct = np.exp(-beam * altitude)
    haze = water.scatter / beam * (1 - direct) * daylight**0.8 * 0.35
    light = (daylight + lamp) * direct
    # Automatic exposure and white balance work on the mean of the frame; no camera lifts a band more than so far.
    mean = reef.mean((1, 2)) * light + haze
    gain = np.minimum(mean[1] / mean, 6) ** camera.balance * np.array(camera.tint)
    gain *= camera.brightness / (mean * gain).mean() * rng.uniform(0.85, 1.18)
    far = 1 - relief  # nearer parts lose less to the water: the exponential to first order
    vignette = falloff(relief.shape, camera.vignette, rng)
    for band, plane in enumerate(reef):
        slope = np.float32(beam[band] * altitude)
        plane *= np.float32(light[band] * gain[band]) * (1 + slope * relief)
        plane += np.float32(haze[band] * gain[band]) * far
        plane *= vignette
    return reef


def falloff(shape, strength: float, rng) -> np.ndarray:
    """Light left at each pixel (float32, h x w): darker corners, around a centre that wanders a little."""
    height, width = shape
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None] - np.float32(rng.normal(0, 0.15))
    x = np.linspace(-1, 1, width, dtype=np.float32)[None] - np.float32(rng.normal(0, 0.15))
    return 1 / (1 + np.float32(strength) * 0.8 * (x * x + y * y))


@cache
def _grain() -> np.ndarray:
    """Sensor noise, partly common to the bands (float32, side x side x 3; standard deviation 1)."""
    grain = np.random.default_rng(9).standard_normal((1200, 1200, 3), dtype=np.float32)
    grain += 0.6 * grain.mean(-1, keepdims=True)
    return grain / grain.std()


def expose(light: np.ndarray, water: Water, camera: Camera, rng: np.random.Generator) -> np.ndarray:
    """Turn linear light at the lens (float32, 3 x h x w; changed in place) into a photo (uint8, h x w x 3)."""
    _, height, width = light.shape
    for _ in range(rng.poisson(water.particles * height * width / 1e5)):
        radius = rng.gamma(2.0, 1.1) + 0.5
        y, x = rng.uniform(0, height), rng.uniform(0, width)
        top, left = max(0, int(y - 2 * radius)), max(0, int(x - 2 * radius))
        window = light[:, top : int(y + 2 * radius) + 2, left : int(x + 2 * radius) + 2]
        gy = np.arange(top, top + window.shape[1], dtype=np.float32)[:, None] - y
        gx = np.arange(left, left + window.shape[2], dtype=np.float32)[None] - x
        spot = np.exp(-(gy * gy + gx * gx) / (radius * radius))
        window += np.float32(rng.uniform(0.03, 0.16)) * spot.astype(np.float32)
    np.maximum(light, 0, out=light)
    np.sqrt(light, out=light)
    grey = 0.3 * light[0] + 0.5 * light[1] + 0.2 * light[2]
    pivot = np.float32(camera.brightness**0.5)
    steep = np.float32(255 * camera.contrast)
    grey *= steep * np.float32(1 - camera.saturation)
    grey += 255 * pivot - steep * pivot
    light *= steep * np.float32(camera.saturation)
    light += grey
    np.clip(light, 0, 255, out=light)
    photo = np.empty((height, width, 3), np.uint8)
    for band, plane in enumerate(light):
        photo[..., band] = plane
    photo = np.asarray(Image.fromarray(photo).filter(ImageFilter.BoxBlur(0.9 * camera.blur)))
    grain = _grain()
    y, x = rng.integers(0, grain.shape[0] - height + 1), rng.integers(0, grain.shape[1] - width + 1)
    noisy = grain[y : y + height, x : x + width] * np.float32(camera.noise)
    noisy += photo
    return np.clip(noisy, 0, 255, out=noisy).astype(np.uint8)
