"""The pairs of batches that the shared suite is run on: ordinary ones, and extreme ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adiw.matching.batches import MatchedBatches, match

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Batch:
    """z of both batches in float64 with their groups, before ``match`` excludes samples."""

    z_train: Tensor  # (n, d)
    z_val: Tensor  # (m, d)
    group_train: Tensor  # (n,)
    group_val: Tensor  # (m,)
    num_groups: int

    def batches(self, dtype: torch.dtype = torch.float64) -> MatchedBatches:
        z_train, z_val = self.z_train.to(dtype), self.z_val.to(dtype)
        return match(z_train, z_val, self.group_train, self.group_val, self.num_groups)

    def take(self, train: Tensor, val: Tensor) -> Batch:
        """These samples, in this order (positions or booleans)."""
        parts = (self.z_train[train], self.z_val[val], self.group_train[train], self.group_val[val])
        return Batch(*parts, self.num_groups)

    def used(self) -> tuple[Tensor, Tensor]:
        """Which training and validation samples are not excluded."""
        batches = self.batches()
        return batches.group_train >= 0, batches.group_val >= 0

    def only(self, group: int) -> Batch:
        """One group of it as a batch of its own."""
        part = self.take(self.group_train == group, self.group_val == group)
        zeros = torch.zeros_like(part.group_train), torch.zeros_like(part.group_val)
        return Batch(part.z_train, part.z_val, *zeros, 1)

    def groups(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Positions of each group that is not excluded, on both sides."""
        batches = self.batches()
        for group in batches.group_train[batches.group_train >= 0].unique():
            yield (batches.group_train == group).nonzero()[:, 0], (batches.group_val == group).nonzero()[:, 0]


def one_group(dim: int) -> Batch:
    generator = torch.Generator().manual_seed(dim)
    z_train = torch.randn(9, dim, generator=generator, dtype=torch.float64)
    z_val = 0.5 + 0.6 * torch.randn(6, dim, generator=generator, dtype=torch.float64)
    return Batch(z_train, z_val, torch.zeros(9, dtype=torch.long), torch.zeros(6, dtype=torch.long), 1)


def classes(dim: int) -> Batch:
    """Four classes of different size in mixed order. Class 3 has no validation sample; some samples are excluded."""
    generator = torch.Generator().manual_seed(10 + dim)
    group_train = torch.tensor([0, 2, 0, -1, 1, 0, 3, 1, 0, 0, 2, 1, 0, 3, 1])
    group_val = torch.tensor([1, 0, 2, 1, -1, 0, 2, 1, 1, 2])
    z_train = torch.randn(15, dim, generator=generator, dtype=torch.float64)
    z_val = 0.5 + 0.6 * torch.randn(10, dim, generator=generator, dtype=torch.float64)
    z_train[14, 0], z_val[8, -1] = NAN, INF  # both of class 1
    return Batch(z_train, z_val, group_train, group_val, 4)


LAYOUTS = {"one group": one_group, "classes": classes}


def with_excluded(batch: Batch) -> Batch:
    """The batch with excluded samples appended: nan, infinite, and of no group."""
    extra = torch.tensor([NAN, INF, -INF, 3.0, -2.0, 0.1], dtype=torch.float64)[:, None]
    group = torch.tensor([0, 0, 0, -1, -1, -1])
    extra = extra.expand(len(extra), batch.z_train.shape[1])
    return replace(
        batch,
        z_train=torch.cat([batch.z_train, extra]),
        z_val=torch.cat([batch.z_val, extra.flip(0)]),
        group_train=torch.cat([batch.group_train, group]),
        group_val=torch.cat([batch.group_val, group.flip(0)]),
    )


EXTREMES: dict[str, tuple[list[float], list[float]]] = {
    "one training sample": ([0.3], [0.1, 0.2, 0.9, 0.4]),
    "one validation sample": ([0.3, 0.1, 2.0, 0.9], [0.2]),
    "one of each": ([0.3], [0.2]),
    "all equal": ([2.5] * 5, [2.5] * 4),
    "huge": ([1e30, -1e30, 3e29, 2e30], [1e30, 4e29, -2e30]),
    "huge with ties": ([1e30, 1e30, 5e30, 5e30], [1e30, 1e30]),
    "large with ties": ([1e9, 1e9, 5e9, 5e9], [1e9, 1e9]),
    "tiny": ([1e-30, -1e-30, 3e-31, 2e-30], [1e-30, 4e-31, -2e-30]),
    "one extreme sample on either side": ([0.1, 0.7, 1e30, 0.3], [0.2, -1e30, 0.5]),
    "just out of reach": ([9.6, 9.7, 9.8], [0.0, 0.01]),  # kernels of width 0.7 are about 1e-41: denormal
    "out of reach": ([1e3, 1.1e3], [0.0, 1.0, 2.0]),
    "nothing to compare": ([NAN, INF], [0.0, 1.0]),
}


def extreme(name: str, dim: int) -> Batch:
    """One group of float32 numbers near the limits of the dtype; vectors repeat the number."""
    z_train, z_val = (torch.tensor(z)[:, None].repeat(1, dim) for z in EXTREMES[name])
    groups = (torch.zeros(len(z_train), dtype=torch.long), torch.zeros(len(z_val), dtype=torch.long))
    return Batch(z_train, z_val, *groups, 1)
