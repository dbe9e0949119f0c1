"""Samples and labels in memory, the checks that every kind of data set shares, and a split by class."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from adiw.data.source_files import DataError


def check_rows(y: Tensor, rows: int) -> None:
    """Labels y must be (rows,) int64."""
    if not isinstance(y, Tensor):
        raise DataError(f"expected labels y as a tensor ({rows},) of int64, found {type(y).__name__}")
    if y.dtype != torch.int64 or y.shape != (rows,):
        raise DataError(
            f"expected labels y of shape ({rows},) and dtype int64, one per sample, "
            f"found {tuple(y.shape)} {y.dtype}; convert with y.long().flatten()"
        )


def check_range(y: Tensor, num_classes: int, where: str) -> None:
    """Labels y (n,) must lie in 0 .. num_classes - 1; ``where`` names the file or split in the error."""
    if len(y) == 0:
        raise DataError(f"{where}: expected samples, found none")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        wrong = high if high >= num_classes else low
        raise DataError(
            f"{where}: expected labels from 0 to {num_classes - 1}, found {wrong}; "
            "the file is damaged or belongs to another data set"
        )


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
                f"expected x as a tensor (n, ...), found {type(self.x).__name__}; convert with torch.as_tensor"
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

    def subset(self, index: Tensor, y: Tensor | None = None) -> "Samples":
        """The rows at index (m,) int64, with their labels, or with other labels y (m,) int64."""
        return Samples(self.x[index], self.y[index] if y is None else y)


def stratified_split(y: Tensor, test_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers (n - m,) for training and (m,) for testing, both ascending; y: (n,) int64.

    The test rows have the class proportions of y (largest remainder). Every class keeps at least one
    training row, so m < test_rows when some classes are very rare.

    >>> train, test = stratified_split(torch.tensor([0, 0, 0, 0, 1, 1]), test_rows=3, seed=0)
    >>> len(train), torch.tensor([0, 0, 0, 0, 1, 1])[test].tolist()
    (3, [0, 0, 1])
    """
    counts = torch.bincount(y)
    quota = counts.double() * test_rows / len(y)
    take = quota.floor().long()
    leftover = test_rows - int(take.sum())
    take[torch.argsort(quota - take, descending=True, stable=True)[:leftover]] += 1
    take = take.minimum(counts - 1).clamp(min=0)
    if int(take.sum()) == 0:
        raise DataError(
            f"expected enough rows to split off a test set, found {len(y)} rows in {len(counts)} classes; "
            "give more rows per class, or separate train and test files"
        )
    in_test = torch.zeros(len(y), dtype=torch.bool)
    generator = torch.Generator().manual_seed(seed)
    for label, test_count in enumerate(take.tolist()):
        rows = (y == label).nonzero().flatten()
        in_test[rows[torch.randperm(len(rows), generator=generator)[:test_count]]] = True
    return (~in_test).nonzero().flatten(), in_test.nonzero().flatten()
