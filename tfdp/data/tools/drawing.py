"""Pictures in a terminal, and many pictures in one PNG file."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from rich.segment import Segment
from rich.style import Style

_RAMP = " .:-=+*#%@"
_WIDTH = 48
_GAP = 2


def is_picture(value: np.ndarray) -> bool:
    """Whether one example looks like a picture: `(height, width)`, or with 1, 3 or 4 channels."""
    numbers = value.dtype == np.uint8 or value.dtype.kind == "f"
    sized = value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3, 4))
    return bool(numbers and sized and min(value.shape[:2]) >= 4)


def as_bytes(picture: np.ndarray) -> np.ndarray:
    """uint8 of shape `(height, width, 1 or 3)`; floats are stretched from least to most."""
    if picture.dtype != np.uint8:
        low, high = float(np.nanmin(picture)), float(np.nanmax(picture))
        scale = 255 / (high - low) if high > low else 0.0
        picture = (np.nan_to_num(picture - low) * scale).round().astype(np.uint8)
    if picture.ndim == 2:
        picture = picture[:, :, np.newaxis]
    return picture[:, :, :3] if picture.shape[2] == 4 else picture


def as_characters(picture: np.ndarray) -> list[str]:
    """A line of characters for every two rows of pixels, the brighter the denser."""
    grey = _shrunk(as_bytes(picture)).mean(axis=2)
    pairs = _pairs(grey).mean(axis=1)
    steps = (pairs / 256 * len(_RAMP)).astype(int)
    return ["".join(_RAMP[step] for step in line) for line in steps]


def as_half_blocks(picture: np.ndarray) -> list[Segment]:
    """For a terminal with colours: each character is two pixels, one above the other."""
    shrunk = _shrunk(as_bytes(picture))
    pixels = _pairs(np.broadcast_to(shrunk, (*shrunk.shape[:2], 3)))
    segments = []
    for line in pixels:
        for column in range(line.shape[1]):
            upper, lower = (_colour(line[half, column]) for half in (0, 1))
            segments.append(Segment("\u2580", Style(color=upper, bgcolor=lower)))
        segments.append(Segment.line())
    return segments


def grid(pictures: list[np.ndarray], columns: int = 8) -> np.ndarray:
    """Pictures side by side, `(height, width, 3)` uint8, with white between them."""
    tiles = [np.broadcast_to(each, (*each.shape[:2], 3)) for each in map(as_bytes, pictures)]
    height, width = (max(tile.shape[axis] for tile in tiles) + _GAP for axis in (0, 1))
    across = min(columns, len(tiles))
    canvas = np.full((-(-len(tiles) // across) * height, across * width, 3), 255, np.uint8)
    for number, tile in enumerate(tiles):
        top, left = number // across * height, number % across * width
        canvas[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return canvas[:-_GAP, :-_GAP]


def png(picture: np.ndarray) -> bytes:
    """`(height, width, 3)` uint8 as a PNG file."""
    encoded: bytes = tf.io.encode_png(picture).numpy()
    return encoded


def _shrunk(picture: np.ndarray) -> np.ndarray:
    """Every n-th pixel, so that it fits a terminal."""
    step = -(-picture.shape[1] // _WIDTH)
    return picture[::step, ::step]


def _pairs(pixels: np.ndarray) -> np.ndarray:
    """`(lines, 2, width, ...)`: rows two by two; an odd last one is doubled."""
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, pixels[-1:]])
    return pixels.reshape(len(pixels) // 2, 2, *pixels.shape[1:])


def _colour(pixel: np.ndarray) -> str:
    return "#{:02x}{:02x}{:02x}".format(*(int(value) for value in pixel))
