"""Photographs as pixels: one rule for opening them, whatever their mode, and their size from the header alone."""

from __future__ import annotations

import io
import logging
import struct
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import simplejpeg
from PIL import Image, UnidentifiedImageError
from PIL.ExifTags import IFD, Base

from reefcore.errors import ReefcoreError

logger = logging.getLogger(__name__)

_START_OF_JPEG, _END_OF_JPEG = b"\xff\xd8", b"\xff\xd9"
ENDINGS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp")
_BAD = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)  # what PIL raises at damaged files


def decode(path: str | Path | bytes, side: int | tuple[int, int] | None = None) -> tuple[np.ndarray, bool]:
    """Read a photo as 8-bit RGB, in the pixel order it is stored in (EXIF orientation is not applied).

    Alpha is dropped, gray is repeated in three channels, palettes and CMYK are converted, 16-bit gray keeps its high
    byte. A JPEG that ends early is decoded as far as it goes, as pyspacer does, and the decoder fills the rest (gray).

    Parameters
    ----------
    path : path, or bytes of a file
    side : int, or (height, width), optional
        Let the JPEG decoder deliver one pixel per block of 8 x 8, 4 x 4 or 2 x 2, the last ones perhaps incomplete: the
        largest blocks that leave the longer side at least this many pixels. That skips most of its work. Other formats,
        and photos narrower than a block, are decoded whole. Of a height and a width, the fewest eighths of both sides
        that leave at least these.

    Returns
    -------
    pixels : ndarray of uint8, shape (height, width, 3)
        May be read-only.
    truncated : bool
        The file ended early.

    Raises
    ------
    ReefcoreError
        Where the file is missing, no image, or damaged beyond that.
    """
    data, path = (path, None) if isinstance(path, bytes) else (None, Path(path))
    try:
        data = path.read_bytes() if path else data
        if (pixels := _ordinary_jpeg(data, side)) is not None:
            return pixels, False
        try:
            return _rgb(data, side), False
        except UnidentifiedImageError:
            raise
        except OSError as error:
            if not data.startswith(_START_OF_JPEG) or "truncated" not in str(error):
                raise
            # PIL's own switch for this is global, so not safe between threads: end the file for the decoder instead.
            return _rgb(data + _END_OF_JPEG, side), True
    except FileNotFoundError:
        raise ReefcoreError("this photo does not exist", path, "check the photo folder and the image names") from None
    except UnidentifiedImageError:
        raise ReefcoreError("this is not an image that can be read", path, "export it as JPEG or PNG") from None
    except _BAD as error:
        raise ReefcoreError(f"this photo cannot be decoded ({error})", path, "export it again") from None


def _block(width: int, height: int, side: int | tuple[int, int] | None) -> int:
    """Choose the block of a reduced decode: how many pixels in a line become one."""
    if isinstance(side, tuple):
        return max((n for n in (2, 4, 8) if height // n >= side[0] and width // n >= side[1]), default=1)
    return max((n for n in (2, 4, 8) if side and max(width, height) >= n * side and min(width, height) >= n), default=1)


def _ordinary_jpeg(data: bytes, side: int | tuple[int, int] | None) -> np.ndarray | None:
    """Decode a whole JPEG in YCbCr or gray to PIL's own pixels in half its time; None leaves any other file to PIL."""
    if not data.startswith(_START_OF_JPEG):
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if colours in ("YCbCr", "Gray") and height * width <= Image.MAX_IMAGE_PIXELS:
            if isinstance(side, tuple):  # this decoder also has three eighths, five, ...
                return simplejpeg.decode_jpeg(data, min_height=min(side[0], height), min_width=min(side[1], width))
            block = _block(width, height, side)
            return simplejpeg.decode_jpeg(data, min_height=-(-height // block), min_width=-(-width // block))
    except ValueError:  # what it minds, PIL may not, or says better
        pass
    return None


def _rgb(data: bytes, side: int | tuple[int, int] | None) -> np.ndarray:
    """Decode a file's bytes by PIL."""
    with Image.open(io.BytesIO(data)) as image:
        if (block := _block(*image.size, side)) > 1:
            image.draft("RGB", (image.width // block, image.height // block))
        image.load()
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            values = np.asarray(image)
            if image.mode == "F" or values.min() < 0 or values.max() > 0xFFFF:
                raise ValueError(f"its pixels are of mode {image.mode}, not 8 or 16 bits")
            return (values >> 8).astype(np.uint8)[:, :, None].repeat(3, axis=2)  # PIL would clip at 255 instead
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        return np.asarray(image.convert("RGB"))


def open_image(path: str | Path) -> np.ndarray:
    """Read a photo as an array; see `decode` for the rules. A photo that ends early is said in the log.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
    """
    pixels, truncated = decode(path)
    if truncated:
        logger.warning("%s ends early; the rest of the photo is filled by the decoder.", path)
    return pixels


def image_size(path: str | Path | bytes) -> tuple[int, int]:
    """Read width and height of a photo (a path, or the bytes of a file), in pixels as stored, from its header alone.

    Raises
    ------
    ReefcoreError
        Where the file is missing or no image.
    """
    with _header(path) as image:
        return image.size


def camera(path: str | Path) -> str | None:
    """Read make and model of the camera from the EXIF header of a JPEG or TIFF; None where it says neither.

    Nothing else of the header is read: no position, no name, no serial number.
    """
    try:
        tags = exif(path)[0]
    except ReefcoreError:  # a damaged header hides the camera, not the photo
        _header(path).close()
        return None
    make, model = (str(tags.get(tag) or "").replace("\0", " ").strip() for tag in (Base.Make, Base.Model))
    return (model if model.lower().startswith(make.lower()) else f"{make} {model}").strip() or None


def exif(path: str | Path) -> tuple[dict, dict, dict]:
    """Read the EXIF header of a JPEG or TIFF: the tags of the photo, of its taking, and of its position, by number.

    Returns
    -------
    photo, taking, position : dict
        As PIL gives them; `PIL.ExifTags` names the numbers (``Base`` for the first two, ``GPS`` for the third). Empty
        where the file has none, and for other formats: in a PNG the header may lie behind the pixels.

    Raises
    ------
    ReefcoreError
        Where the file is missing or no image, or its header is damaged.
    """
    # Of parts of a damaged header, which it leaves out, PIL warns.
    with warnings.catch_warnings(action="ignore"), _header(path) as image:
        if image.format not in ("JPEG", "MPO", "TIFF"):
            return {}, {}, {}
        try:
            tags = image.getexif()
            return dict(tags), dict(tags.get_ifd(IFD.Exif)), dict(tags.get_ifd(IFD.GPSInfo))
        except (*_BAD, struct.error, TypeError, KeyError):
            raise ReefcoreError("the EXIF header of this photo is damaged", path, "export it again") from None


def _header(path: str | Path | bytes) -> Image.Image:
    data, path = (io.BytesIO(path), None) if isinstance(path, bytes) else (path, path)
    try:
        return Image.open(data)
    except FileNotFoundError:
        raise ReefcoreError("this photo does not exist", path, "check the photo folder and the image names") from None
    except _BAD:
        raise ReefcoreError("this is not an image that can be read", path, "export it as JPEG or PNG") from None


def photo_path(photos: str | Path, source: str, image: str, flat: bool = False) -> Path:
    """Say where a photo lies: ``photos/<source>/<image>``, or ``photos/<image>`` where `flat` and only that exists."""
    nested = Path(photos) / source / image
    return Path(photos) / image if flat and not nested.exists() else nested


def photos_in(folder: str | Path) -> pd.DataFrame:
    """List the photos in a folder, by the ending of their names: those directly in it, or else those of its subfolders.

    Returns
    -------
    DataFrame
        ``source`` (the name of the folder, or subfolder, that holds it) and ``image``, sorted: what
        `reefcore.covariates.table` takes.

    Raises
    ------
    ReefcoreError
        Where there is no such folder, or no photo in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReefcoreError("this is not a folder", folder, "give a folder of photos")

    def photos(where: Path) -> list[tuple[str, str]]:
        found = (path.name for path in where.iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
        return [(where.resolve().name, name) for name in sorted(found)]

    below = sorted(path for path in folder.iterdir() if path.is_dir())
    names = photos(folder) or [row for where in below for row in photos(where)]
    if not names:
        raise ReefcoreError("there is no photo in this folder", folder, f"photos end in {', '.join(ENDINGS)}")
    return pd.DataFrame(names, columns=["source", "image"], dtype="str")
