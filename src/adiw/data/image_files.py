"""Image files that are decoded on demand, with the crops of training and testing."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from adiw.argument_checks import is_count
from adiw.data.samples import check_rows
from adiw.data.source_files import DataError
from adiw.versions import require

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[float, float, float, float]  # left, upper, right, lower, in pixels

# Only these formats: Pillow would otherwise try all it knows, and run another program for PostScript.
FORMATS = ("BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MAX_PIXELS = 80_000_000  # a larger image is treated as a decompression bomb
TEST_CROP = 224 / 256  # side of the centre crop over the shorter side, as usual for ImageNet


@dataclass(frozen=True, eq=False)
class ImageFiles(Dataset[tuple[Tensor, Tensor]]):
    """Image files and their labels; an item is a (3, size, size) uint8 tensor and its label.

    paths: n image files;  y: (n,) int64;  size: side of the result in pixels;
    train: random resized crop and flip when true, resize and centre crop otherwise;
    augment: false for the centre crop in training too.

    >>> files = ImageFiles((Path("a.png"), Path("b.png")), torch.tensor([0, 1]), size=32)
    >>> len(files), files.input_shape
    (2, (3, 32, 32))
    """

    paths: tuple[Path, ...]
    y: Tensor
    size: int = 224
    train: bool = False
    augment: bool = True

    def __post_init__(self) -> None:
        require("pillow", "10", "cli")
        if not isinstance(self.paths, tuple) or not all(isinstance(path, Path) for path in self.paths):
            raise DataError(f"expected paths as a tuple of Path, found {self.paths!r}")
        check_rows(self.y, len(self.paths))
        if not is_count(self.size, least=1):
            raise DataError(f"expected an image size of at least 1 pixel, found {self.size}; 224 is usual")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        image = read_image(self.paths[i])
        at_random = self.train and self.augment
        box = random_box(*image.size) if at_random else centre_box(*image.size)
        flip = at_random and bool(torch.rand(()) < 0.5)
        return to_tensor(image, box, self.size, flip), self.y[i]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one x."""
        return (3, self.size, self.size)

    def subset(self, index: Tensor, y: Tensor | None = None) -> "ImageFiles":
        """The rows at index (m,) int64, with their labels, or with other labels y (m,) int64."""
        return replace(self, paths=tuple(self.paths[i] for i in index.tolist()), y=self.y[index] if y is None else y)


def read_image(path: Path) -> "Image":
    """Decode an image file as RGB; every error names the file."""
    from PIL import Image

    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:  # only the header has been read so far
                raise _too_large(path, f"{image.width} x {image.height}")
            return image.convert("RGB")
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(path, "far more") from None
    except Exception as error:  # a decoder may raise any exception on a damaged file
        raise DataError(
            f"{path}: expected an image, found a file that cannot be decoded ({error}); replace or delete it"
        ) from error


def _too_large(path: Path, found: str) -> DataError:
    return DataError(
        f"{path}: expected an image of at most {MAX_PIXELS:,} pixels, found {found}; shrink or delete it"
    )


def centre_box(width: int, height: int) -> Box:
    """The central square whose side is 7/8 of the shorter side."""
    side = min(width, height) * TEST_CROP
    left, upper = (width - side) / 2, (height - side) / 2
    return left, upper, left + side, upper + side


def random_box(width: int, height: int) -> Box:
    """A random box inside the image: 8 to 100 % of its area, aspect ratio 3/4 to 4/3 (log-uniform).

    Draws from torch's default generator, which a DataLoader seeds in each of its workers.
    """
    for _ in range(10):
        area_draw, ratio_draw, left_draw, upper_draw = torch.rand(4).tolist()
        area = width * height * (0.08 + 0.92 * area_draw)
        ratio = math.exp(math.log(4 / 3) * (2 * ratio_draw - 1))
        w, h = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if w <= width and h <= height:
            left, upper = left_draw * (width - w), upper_draw * (height - h)
            # Rounding may exceed the edge by one ulp, which Pillow refuses.
            return left, upper, min(left + w, width), min(upper + h, height)
    return centre_box(width, height)


def to_tensor(image: "Image", box: Box, size: int, flip: bool) -> Tensor:
    """Resize the box of an RGB image to a (3, size, size) uint8 tensor, flipped left to right on request."""
    from PIL.Image import Resampling

    resized = image.resize((size, size), Resampling.BILINEAR, box=box, reducing_gap=3.0)
    pixels = torch.from_numpy(np.array(resized)).permute(2, 0, 1)
    return (pixels.flip(2) if flip else pixels).contiguous()
