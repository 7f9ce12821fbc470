"""Photographs as pixels: one rule for opening them, whatever their mode, and their size from the header alone."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from reefcore.errors import ReefcoreError

logger = logging.getLogger(__name__)

_END_OF_JPEG = b"\xff\xd9"
_BAD = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)  # what PIL raises at damaged files


def decode(path: str | Path, eighth: bool = False) -> tuple[Image.Image, bool]:
    """Open a photo as an 8-bit RGB image, in the pixel order it is stored in (EXIF orientation is not applied).

    Alpha is dropped, gray is repeated in three channels, palettes and CMYK are converted, 16-bit gray keeps its high
    byte. A JPEG that ends early is decoded as far as it goes, as pyspacer does, and the decoder fills the rest (gray).

    Parameters
    ----------
    path : path
    eighth : bool
        Let the JPEG decoder deliver one pixel per block of 8 x 8, the last ones perhaps incomplete, which skips most of
        its work. Other formats, and photos narrower than a block, are decoded whole.

    Returns
    -------
    image : PIL.Image.Image
        Mode ``RGB``.
    truncated : bool
        The file ended early.

    Raises
    ------
    ReefcoreError
        Where the file is missing, no image, or damaged beyond that.
    """
    path = Path(path)
    try:
        try:
            return _rgb(path, eighth), False
        except UnidentifiedImageError:
            raise
        except OSError as error:
            data = path.read_bytes()  # a missing file ends here
            if not data.startswith(b"\xff\xd8") or "truncated" not in str(error):
                raise
            # PIL's own switch for this is global, so not safe between threads: end the file for the decoder instead.
            return _rgb(io.BytesIO(data + _END_OF_JPEG), eighth), True
    except FileNotFoundError:
        raise ReefcoreError("this photo does not exist", path, "check the photo folder and the image names") from None
    except UnidentifiedImageError:
        raise ReefcoreError("this is not an image that can be read", path, "export it as JPEG or PNG") from None
    except _BAD as error:
        raise ReefcoreError(f"this photo cannot be decoded ({error})", path, "export it again") from None


def _rgb(file, eighth: bool) -> Image.Image:
    """Decode an open or named file into mode RGB."""
    with Image.open(file) as image:
        if eighth and min(image.size) >= 8:
            image.draft("RGB", (image.width // 8, image.height // 8))
        image.load()
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            values = np.asarray(image)
            if image.mode == "F" or values.min() < 0 or values.max() > 0xFFFF:
                raise ValueError(f"its pixels are of mode {image.mode}, not 8 or 16 bits")
            return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")  # PIL would clip at 255 instead
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        return image.convert("RGB")


def open_image(path: str | Path) -> np.ndarray:
    """Read a photo as an array; see `decode` for the rules. A photo that ends early is said in the log.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
    """
    image, truncated = decode(path)
    if truncated:
        logger.warning("%s ends early; the rest of the photo is filled by the decoder.", path)
    return np.asarray(image)


def image_size(path: str | Path) -> tuple[int, int]:
    """Read width and height of a photo, in pixels as stored, from its header alone.

    Raises
    ------
    ReefcoreError
        Where the file is missing or no image.
    """
    try:
        with Image.open(path) as image:
            return image.size
    except FileNotFoundError:
        raise ReefcoreError("this photo does not exist", path, "check the photo folder and the image names") from None
    except _BAD:
        raise ReefcoreError("this is not an image that can be read", path, "export it as JPEG or PNG") from None


def photo_path(photos: str | Path, source: str, image: str, flat: bool = False) -> Path:
    """Say where a photo lies: ``photos/<source>/<image>``, or ``photos/<image>`` where `flat` and only that exists."""
    nested = Path(photos) / source / image
    return Path(photos) / image if flat and not nested.exists() else nested
