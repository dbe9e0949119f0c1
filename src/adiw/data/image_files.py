"""A data set of image files, decoded on demand by the loader's workers."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from adiw.arguments import is_count
from adiw.data.decode import centre_box, random_box, read_image, to_tensor
from adiw.data.errors import DataError
from adiw.data.labels import check_index, check_rows


@dataclass(frozen=True, eq=False)
class ImageFiles(Dataset[tuple[Tensor, Tensor]]):
    """Image files and their labels; an item is a (3, size, size) uint8 tensor and its label.

    paths: n image files;  y: (n,) int64;  size: side of the result in pixels;
    train: random resized crop and flip when true, resize and centre crop otherwise.

    >>> files = ImageFiles((Path("a.png"), Path("b.png")), torch.tensor([0, 1]), size=32)
    >>> len(files), files.input_shape
    (2, (3, 32, 32))
    """

    paths: tuple[Path, ...]
    y: Tensor
    size: int = 224
    train: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.paths, tuple) or not all(isinstance(path, Path) for path in self.paths):
            raise DataError(f"expected paths as a tuple of Path, found {self.paths!r}")
        check_rows(self.y, len(self.paths))
        if not is_count(self.size, least=1):
            raise DataError(f"expected an image size of at least 1 pixel, found {self.size}; 224 is usual")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        image = read_image(self.paths[i])
        box = random_box(*image.size) if self.train else centre_box(*image.size)
        flip = self.train and bool(torch.rand(()) < 0.5)
        return to_tensor(image, box, self.size, flip), self.y[i]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one x."""
        return (3, self.size, self.size)

    def subset(self, index: Tensor, y: Tensor) -> "ImageFiles":
        """Choose rows and replace their labels: index (m,) int64 row numbers, y (m,) int64 new labels.

        >>> files = ImageFiles((Path("a.png"), Path("b.png")), torch.tensor([0, 1]))
        >>> [path.name for path in files.subset(torch.tensor([1]), torch.tensor([0])).paths]
        ['b.png']
        """
        check_index(index, len(self))
        check_rows(y, len(index))
        return replace(self, paths=tuple(self.paths[i] for i in index.tolist()), y=y)
