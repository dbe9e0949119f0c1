"""The mean loss of every training sample over its training passes: a sum and a count, not the history itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class LossHistory(nn.Module):
    """The sum of each sample's losses and their number. Losses that are not finite are excluded.

    A label that is wrong has a large loss in most epochs, also if the network has memorised it in the end. The last
    slot of the buffers takes padding and bad indices.

    >>> history = LossHistory(3)
    >>> history.add(torch.tensor([2, 0]), torch.tensor([1.0, 4.0]), torch.tensor([True, True]))
    >>> history.add(torch.tensor([2, 0]), torch.tensor([3.0, torch.nan]), torch.tensor([True, False]))
    >>> history.means()
    tensor([4., nan, 2.])
    """

    loss_sums: Tensor
    loss_counts: Tensor

    def __init__(self, num_train: int) -> None:
        super().__init__()
        self.register_buffer("loss_sums", torch.zeros(num_train + 1))
        self.register_buffer("loss_counts", torch.zeros(num_train + 1, dtype=torch.int32))

    def add(self, index: Tensor, losses: Tensor, finite: Tensor) -> None:
        """Add the losses (g,) of the samples ``index`` (g,) where ``finite`` (g,) is true."""
        self.loss_sums.index_add_(0, index, torch.where(finite, losses, 0).to(self.loss_sums.dtype))
        self.loss_counts.index_add_(0, index, finite.to(self.loss_counts.dtype))

    def means(self, last: Tensor | None = None) -> Tensor:
        """(num_train,) the mean loss, nan for samples without any; ``last`` (num_train,) counts as one more loss."""
        sums, counts = self.loss_sums[:-1].double(), self.loss_counts[:-1].double()
        if last is not None:
            known = last.isfinite()
            sums, counts = sums + torch.where(known, last, 0), counts + known
        return torch.where(counts > 0, sums / counts.clamp_min(1), torch.nan).float()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name, buffer in self.named_buffers():  # a state without a history starts an empty one
            state_dict.setdefault(prefix + name, torch.zeros_like(buffer))
        super()._load_from_state_dict(state_dict, prefix, *rest)
