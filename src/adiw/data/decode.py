"""One image file to one tensor: decoding, and the two crops used for training and testing."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from adiw.data.errors import DataError, extra_missing

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[float, float, float, float]  # left, upper, right, lower, in pixels

# What the names of image files promise. Pillow would try all it knows, and hand PostScript to another program.
FORMATS = ("BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MAX_PIXELS = 80_000_000  # a larger image is taken for a decompression bomb
TEST_CROP = 224 / 256  # the centre crop's side over the shorter side, the usual ImageNet test


def read_image(path: Path) -> "Image":
    """Decode a whole image file as RGB; whatever is wrong with it, the error names the file."""
    try:
        from PIL import Image
    except ImportError:
        raise extra_missing("Pillow", "reading images") from None
    try:
        with Image.open(path, formats=FORMATS) as image:
            _refuse_bomb(path, image.size)
            return image.convert("RGB")
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _bomb(path, "far more") from None
    except Exception as error:  # Pillow's decoders raise whatever their parsers raise
        raise DataError(
            f"{path}: expected an image, found a file that cannot be decoded ({error}); replace or delete it"
        ) from error


def _refuse_bomb(path: Path, size: tuple[int, int]) -> None:
    """Opening reads only the header: refuse before any pixel is decoded."""
    if size[0] * size[1] > MAX_PIXELS:
        raise _bomb(path, f"{size[0]} x {size[1]}")


def _bomb(path: Path, found: str) -> DataError:
    return DataError(
        f"{path}: expected an image of at most {MAX_PIXELS:,} pixels, found {found}; shrink or delete it"
    )


def centre_box(width: int, height: int) -> Box:
    """The central square whose side is 7/8 of the shorter side.

    >>> centre_box(32, 16)
    (9.0, 1.0, 23.0, 15.0)
    """
    side = min(width, height) * TEST_CROP
    left, upper = (width - side) / 2, (height - side) / 2
    return left, upper, left + side, upper + side


def random_box(width: int, height: int) -> Box:
    """A random part: 8 to 100 % of the area, aspect ratio 3/4 to 4/3 (log-uniform), anywhere it fits.

    Draws from torch's default generator, which a DataLoader seeds in each of its workers.
    """
    for _ in range(10):
        area_draw, ratio_draw, left_draw, upper_draw = torch.rand(4).tolist()
        area = width * height * (0.08 + 0.92 * area_draw)
        ratio = math.exp(math.log(4 / 3) * (2 * ratio_draw - 1))
        w, h = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if w <= width and h <= height:
            left, upper = left_draw * (width - w), upper_draw * (height - h)
            # Rounding may pass the edge by one ulp, which Pillow refuses.
            return left, upper, min(left + w, width), min(upper + h, height)
    return centre_box(width, height)


def to_tensor(image: "Image", box: Box, size: int, flip: bool) -> Tensor:
    """Resize the box of an RGB image to a (3, size, size) uint8 tensor, mirrored when flip."""
    from PIL.Image import Resampling

    resized = image.resize((size, size), Resampling.BILINEAR, box=box, reducing_gap=3.0)
    pixels = torch.from_numpy(np.array(resized)).permute(2, 0, 1)
    return (pixels.flip(2) if flip else pixels).contiguous()
