"""State of a method that is not in buffers: random generators, and values that a checkpoint stores whole."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

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
    """What ``one_value`` was given; anything else is unchanged."""
    return state[0] if isinstance(state, tuple) and len(state) == 1 else state


class ResumableGenerator:
    """A generator and its seed. Moved to another device, it starts again from the seed."""

    def __init__(self, generator: Generator | None) -> None:
        if generator is not None and not isinstance(generator, Generator):
            raise TypeError(
                f"generator must be a torch.Generator or None, got {generator!r}: torch.Generator().manual_seed(0)"
            )
        self.seed = torch.initial_seed() if generator is None else generator.initial_seed()
        self.generator = Generator().manual_seed(self.seed) if generator is None else generator

    def on(self, device: torch.device) -> Generator:
        """The generator for draws on ``device``."""
        here = self.generator.device
        if here.type != device.type or (here.index or 0) != (device.index or 0):
            self.generator = Generator(device).manual_seed(self.seed)
        return self.generator

    def on_host(self) -> Generator:
        """A generator for draws on the CPU: this one, or a new one with the same seed if this one is on a GPU."""
        return self.generator if self.generator.device.type == "cpu" else Generator().manual_seed(self.seed)

    def state(self) -> dict[str, Any]:
        """What ``restore`` needs to continue the sequence."""
        return {"seed": self.seed, "device": self.generator.device.type, "state": self.generator.get_state()}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        """Continue from a saved state, or start again from its seed if it comes from another device type."""
        self.seed = state["seed"]
        self.generator = Generator(device).manual_seed(self.seed)
        if state["device"] == device.type:
            self.generator.set_state(state["state"].cpu())
