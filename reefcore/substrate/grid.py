"""The patches of a frame: a grid that covers every pixel, and one crop of one size in each of its cells.

The authors' grid has 4 rows and 7 columns (`reefcore.tables.GRID`) over frames of 5312 x 3040 pixels. Here a frame may
have any size, and nothing is random: the same frame has the same patches, in training and afterwards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from reefcore.errors import ReefcoreError
from reefcore.images import decode, image_size
from reefcore.patches import cells, crops
from reefcore.tables import GRID

__all__ = ["cells", "crops", "cut", "decoded", "patches", "portrait", "read"]


def patches(
    frame: np.ndarray, side: int, rows: int = GRID[0], columns: int = GRID[1], fast: bool = False
) -> np.ndarray:
    """Cut a frame into the patches a classifier sees.

    Parameters
    ----------
    frame : ndarray of uint8, shape (height, width, 3)
    side : int
        Of a patch, in pixels: each crop is resized to side x side, its aspect not kept (bicubic, antialiased where it
        becomes smaller; the authors: 256).
    rows, columns : int
        Of the grid.
    fast : bool
        Resize by PyTorch, in a fifth of Pillow's time; levels differ by two of 255 at most, and hardly any does.

    Returns
    -------
    ndarray of uint8, shape (rows * columns, side, side, 3)
        Row by row from the top left.

    Raises
    ------
    ReefcoreError
        Where the frame is no such array, or smaller than the grid, or `side` below 1.
    """
    frame = np.asarray(frame)
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        what = f"a frame of {frame.dtype}, shape {frame.shape}, has no patches"
        raise ReefcoreError(what, do="give 8-bit RGB pixels, (height, width, 3)")
    return cut(frame, frame.shape[:2], side, rows, columns, fast)


def read(
    source: str | Path | bytes, side: int, rows: int = GRID[0], columns: int = GRID[1], fast: bool = False
) -> np.ndarray:
    """Read the patches of a frame from its file, letting the JPEG decoder leave out what a patch would not show.

    The decoder delivers the fewest eighths of the frame that leave every crop at least `side` pixels, and crops are cut
    there where they lie in the whole frame, to a fraction of a pixel. Levels differ from those of `patches` by one or
    two of 255 in the mean.

    Parameters
    ----------
    source : path, or bytes of a file
    side, rows, columns, fast : see `patches`; `fast` also moves the crops of a reduced frame to its whole pixels

    Returns
    -------
    ndarray of uint8, shape (rows * columns, side, side, 3)

    Raises
    ------
    ReefcoreError
        Where the file is missing, no image, ends early (half a frame is not to be decided on), or the frame is smaller
        than the grid.
    """
    pixels, size = decoded(source, side, rows, columns)
    return cut(pixels, size, side, rows, columns, fast)


def decoded(
    source: str | Path | bytes, side: int, rows: int = GRID[0], columns: int = GRID[1]
) -> tuple[np.ndarray, tuple[int, int]]:
    """Decode a frame as far as its patches need it, the first half of `read`: its pixels, and its height and width."""
    width, height = image_size(source)
    where = None if isinstance(source, bytes) else source
    try:
        cells(height, width, rows, columns)
    except ReefcoreError as error:
        raise ReefcoreError(error.what, where, error.do) from None
    # Of H rows at least ceil(H * side / crop) are to be left: then a crop has at least `side` of them.
    least = (-(-height * side // (height // rows)), -(-width * side // (width // columns)))
    pixels, truncated = decode(source, least)
    if truncated:
        raise ReefcoreError("this frame ends early", where, "copy it from the camera again")
    return pixels, (height, width)


def portrait(height: int, width: int) -> str | None:
    """Say of a frame that is higher than wide that it is most likely turned; None of any other.

    It is cut like any other frame, but its cells are then narrow, and its rows are not the camera's.
    """
    if height <= width:
        return None
    return (
        f"A frame is {width} pixels wide and {height} high, most likely stored turned: "
        "its grid is cut across what the camera took as rows."
    )


def cut(
    pixels: np.ndarray, size: tuple[int, int], side: int, rows: int, columns: int, fast: bool = False
) -> np.ndarray:
    """Cut the patches of a frame of that (height, width) out of its pixels, of which a decoder may have left fewer."""
    if side < 1:
        raise ReefcoreError(f"a patch of {side} pixels cannot be cut", do="ask for a side of at least 1")
    # A decoder's pixel is 8 / k pixels of the frame wide; the last one may hang over its edge.
    fits = (k for k in range(8, 0, -1) if tuple(-(-length * k // 8) for length in size) == pixels.shape[:2])
    boxes = crops(*size, rows, columns) * (next(fits) / 8)
    if fast:
        import torch
        from torch.nn.functional import interpolate

        high, wide = np.maximum(np.rint(boxes[0, 2:] - boxes[0, :2]), 1).astype(int)
        most = np.array(pixels.shape[:2]) - (high, wide)
        begins = np.minimum(np.rint(boxes[:, :2]).astype(int), most).tolist()
        # All at once and with colours last, as decoders leave them: then torch has instructions of its own for it.
        found = np.stack([pixels[top : top + high, left : left + wide] for top, left in begins])
        found = interpolate(torch.from_numpy(found).permute(0, 3, 1, 2), (side, side), mode="bicubic", antialias=True)
        return np.ascontiguousarray(found.permute(0, 2, 3, 1).numpy())
    out = np.empty((len(boxes), side, side, 3), np.uint8)
    outer = np.column_stack([np.floor(boxes[:, :2]), np.ceil(boxes[:, 2:])]).astype(int)
    for i, ((top, left, bottom, right), (t, le, b, r)) in enumerate(zip(boxes, outer.tolist(), strict=True)):
        crop = Image.fromarray(pixels[t:b, le:r])  # cut first: a resize of the whole would look beyond the box
        box = (left - le, top - t, right - le, bottom - t)
        out[i] = crop.resize((side, side), Image.Resampling.BICUBIC, box)
    return out
