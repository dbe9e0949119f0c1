"""State that is not in buffers, as one value of a checkpoint."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from adiw.reweighting.dataset_cache import map_tensors


def one_value(state: dict[str, Any]) -> tuple[dict[str, Any]]:
    """The state in a tuple, with tensors on the CPU.

    ``torch.distributed.checkpoint`` stores a tuple as one value. Of a mapping it stores every tensor, and loads them
    only into tensors of the same shape, which a method does not have before its first step.

    >>> one_value({"steps": 3, "memory": {}})
    ({'steps': 3, 'memory': {}},)
    """
    return (map_tensors(Tensor.cpu, state),)


def from_one_value(state: Any) -> Any:
    """What ``one_value`` was given; a state of an earlier version, which has no tuple, is unchanged."""
    return state[0] if isinstance(state, tuple) and len(state) == 1 else state
