"""What the integrations ask of a weighting method, and what they do with it in the same way."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Protocol

from torch import Tensor, nn

from adiw.health import Summary
from adiw.integrations.training_set import check_length


class Method(Protocol):
    """``adiw.ADIW`` or one of the baselines."""

    @property
    def weights(self) -> Tensor: ...

    def __call__(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor: ...

    def summary(self) -> Summary: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...

    def to(self, device: Any) -> Any: ...


def check_model(model: nn.Module) -> None:
    """Refuse a model that cannot learn from weighted losses."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"no parameter of {type(model).__name__} requires a gradient, so weights cannot change what it learns: "
            "unfreeze a part of it, e.g. model.head.requires_grad_(True)"
        )


def check_processes(count: int) -> None:
    """Refuse several processes: in this integration nobody has tried them."""
    if count > 1:
        raise NotImplementedError(
            f"training runs in {count} processes, which this integration has not been tried with: use one device, "
            "or a loop of your own under DistributedDataParallel, where adiw.ADIW gathers the losses of all processes"
        )


def health(method: Method) -> dict[str, float]:
    """The summary as numbers to log, by name; those that are not defined are left out."""
    numbers = {f"weights/{name}": float(value) for name, value in asdict(method.summary()).items() if name != "steps"}
    return {name: value for name, value in numbers.items() if not math.isnan(value)}


def saved(method: Method) -> dict[str, Any]:
    """All that a checkpoint needs: tensors, numbers and text, loadable with ``weights_only=True``."""
    return {"num_train": len(method.weights), "method": method.state_dict()}


def restore(method: Method, state: dict[str, Any]) -> None:
    """Go on from what ``saved`` gave. The method must be on its device: its random numbers are restored there."""
    check_length(state["num_train"], len(method.weights), "in the checkpoint")
    method.load_state_dict(state["method"])
