"""What the integrations ask of a weighting method, and what they log of it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Protocol

from torch import Tensor, nn

from adiw.reweighting.summary import Summary
from adiw.reweighting.weight_state import WeightState


class Method(Protocol):
    """``adiw.ADIW`` or one of the baselines."""

    weight_state: WeightState

    @property
    def weights(self) -> Tensor: ...

    def __call__(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor: ...

    def summary(self) -> Summary: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...

    def to(self, device: Any) -> Any: ...


def check_method(made: Any, by: str) -> Any:
    """What a function of the user's made, when it is a weighting method."""
    if not isinstance(made, nn.Module) or not hasattr(made, "weight_state"):
        raise TypeError(f"{by} must return a weighting method such as ADIW(...), got {type(made).__name__}")
    return made


def health(method: Method) -> dict[str, float]:
    """The summary as numbers to log, by name; those that are not defined are left out."""
    numbers = {f"weights/{name}": float(value) for name, value in asdict(method.summary()).items() if name != "steps"}
    return {name: value for name, value in numbers.items() if not math.isnan(value)}
