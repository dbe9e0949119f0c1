"""A data set held in memory."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from adiw.data.errors import DataError
from adiw.data.labels import check_index, check_rows


@dataclass(frozen=True, eq=False)
class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Samples and labels as two tensors.

    x: (n, c, h, w) uint8 images or (n, ...) float32 vectors;  y: (n,) int64.

    >>> samples = Samples(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))
    >>> len(samples), samples[1][1].item(), samples.input_shape
    (4, 1, (2,))
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if not isinstance(self.x, Tensor):
            raise DataError(
                f"expected x as a tensor (n, ...), found {type(self.x).__name__}; torch.as_tensor makes one"
            )
        images = self.x.dtype == torch.uint8 and self.x.dim() == 4
        vectors = self.x.dtype == torch.float32 and self.x.dim() >= 2
        if not (images or vectors):
            raise DataError(
                "expected x as uint8 images (n, channels, height, width) or float32 vectors (n, features), "
                f"found {self.x.dtype} {tuple(self.x.shape)}; convert or reshape x first"
            )
        check_rows(self.y, len(self.x))

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self.x[i], self.y[i]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one x."""
        return tuple(self.x.shape[1:])

    def subset(self, index: Tensor, y: Tensor) -> "Samples":
        """Choose rows and replace their labels: index (m,) int64 row numbers, y (m,) int64 new labels.

        >>> samples = Samples(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]))
        >>> samples.subset(torch.tensor([2, 0]), torch.tensor([1, 1])).x.tolist()
        [[4.0, 5.0], [0.0, 1.0]]
        """
        check_index(index, len(self))
        check_rows(y, len(index))
        return Samples(self.x[index], y)
