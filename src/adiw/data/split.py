"""A fixed split into training and test rows that keeps the class proportions."""

import torch
from torch import Tensor

from adiw.data.errors import DataError


def stratified_split(y: Tensor, test_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers (n - m,) for training and (m,) for testing, both ascending; y: (n,) int64.

    Each class gives its share of test_rows (largest remainder); every class keeps a training row,
    so m < test_rows when classes are that rare.

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
