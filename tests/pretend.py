"""A GPU where there is none: for the branches that only ask where a tensor is."""

from __future__ import annotations

from torch import Tensor


class PretendCuda(Tensor):
    """A tensor of the CPU that says it is on a GPU: ``torch.tensor(...).as_subclass(PretendCuda)``."""

    is_cuda = True  # type: ignore[assignment]
