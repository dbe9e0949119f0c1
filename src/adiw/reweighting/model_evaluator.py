"""Per-sample losses of the user's model, in the training pass and in a separate pass in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from adiw.reweighting.loss_shapes import (
    Criterion,
    draw_evenly,
    element_classes,
    element_losses,
    per_sample_losses,
)
from adiw.reweighting.transforms import LossAndLabel, Transform, TransformedBatch

Forward = Callable[[nn.Module, Any], tuple[Any, ...]]
Precision = tuple[str, torch.dtype | None]  # device type and autocast dtype, None without autocast


class EvaluatedBatch(NamedTuple):
    """What the model returned for a batch, and hidden-layer outputs if ``forward`` returned them."""

    outputs: Any
    targets: Any
    features: Tensor | None


class ModelEvaluator:
    """The user's model, criterion and forward function. None of them is part of a method's state.

    With ``elements``, z and group of a sample in evaluation mode are those of so many of its elements, (n, elements).
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion,
        forward: Forward | None,
        transform: Transform,
        elements: int | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
        if not callable(criterion):
            raise TypeError("criterion must be callable: criterion(outputs, targets) gives one loss per sample")
        if forward is not None and not callable(forward):
            raise TypeError("forward must be callable: forward(model, batch) gives (outputs, targets)")
        self.given_model, model = model, unwrap(model)
        self.model, self.criterion, self.forward, self.transform = model, criterion, forward, transform
        self.elements = elements
        transform.attach(model)

    def losses(self, outputs: Any, targets: Any) -> Tensor:
        """One loss per sample (n,), in float32 or better."""
        return per_sample_losses(self.criterion, outputs, targets)

    def evaluate(self, batch: Any, outputs: Any, dtype: torch.dtype) -> TransformedBatch:
        """z and groups of a batch in evaluation mode, under the autocast of the training ``outputs``. No gradient."""
        return self.transformed(self.run_in_evaluation_mode(batch, self.precision_of(outputs)), dtype)

    def run_in_evaluation_mode(
        self, batch: Any, precision: Precision, run: Callable[[Any], tuple[Any, ...]] | None = None
    ) -> EvaluatedBatch:
        """The model's outputs for a batch in evaluation mode, without gradient; ``run`` replaces ``self.run``."""
        with torch.no_grad(), evaluation_mode(self.model), autocast_to(*precision):
            outputs, targets, *features = (run or self.run)(batch)
        return EvaluatedBatch(outputs, targets, features[0] if features else None)

    def transformed(self, batch: EvaluatedBatch, dtype: torch.dtype) -> TransformedBatch:
        """z and groups of an evaluated batch."""
        with torch.no_grad():
            if self.elements is not None:
                return self._drawn_elements(batch, self.elements, dtype)
            losses = per_sample_losses(self.criterion, batch.outputs, batch.targets)
            return self.transform.apply(losses.to(dtype), batch.targets, batch.features)

    def _drawn_elements(self, batch: EvaluatedBatch, number: int, dtype: torch.dtype) -> TransformedBatch:
        """Losses and classes of so many elements of each sample: (n, number)."""
        found = element_losses(self.criterion, batch.outputs, batch.targets)
        classes = self.classes_of(batch.outputs, batch.targets, found.losses)
        drawn = draw_evenly(*found.by_row(), number, None if classes is None else classes[0].flatten(1))
        return TransformedBatch(drawn.losses.to(dtype), drawn.classes)

    def classes_of(self, outputs: Any, targets: Any, losses: Tensor) -> tuple[Tensor, int] | None:
        """``element_classes``, where the method uses them: None for divergences, which compare losses alone."""
        return element_classes(outputs, targets, losses) if isinstance(self.transform, LossAndLabel) else None

    def training_batch(self, inputs: Any, targets: Any, reason: str) -> Any:
        """The training batch, for methods that run the model again: (inputs, targets), or inputs for ``forward``.

        ``reason`` begins the error for missing inputs: which method needs them, and what for.
        """
        if inputs is None:
            what = "x" if self.forward is None else "batch"
            raise ValueError(f"{reason}: call reweight(outputs, targets, index, inputs={what})")
        return (inputs, targets) if self.forward is None else inputs

    def run(self, batch: Any) -> tuple[Any, ...]:
        """(outputs, targets) or (outputs, targets, features) of the model for a batch."""
        if self.forward is not None:
            result = self.forward(self.model, batch)
            if not isinstance(result, tuple) or len(result) not in (2, 3):
                raise TypeError(
                    "forward(model, batch) must return (outputs, targets) or (outputs, targets, features), "
                    f"got {type(result).__name__}"
                )
            return result
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise TypeError(
                f"batches must be (x, y), got {type(batch).__name__}: for others pass "
                "forward=lambda model, batch: (outputs, targets)"
            )
        return self.model(batch[0]), batch[1]

    def precision_of(self, outputs: Any) -> Precision:
        """The autocast of the training pass: the current one, or else the dtype of half-precision ``outputs``."""
        device_type = self.device_type(outputs)
        if torch.is_autocast_enabled(device_type):
            return device_type, torch.get_autocast_dtype(device_type)
        half = isinstance(outputs, Tensor) and outputs.dtype in (torch.bfloat16, torch.float16)
        parameter = next(self.model.parameters(), None) if half else None
        autocast = parameter is not None and parameter.dtype == torch.float32
        autocast = autocast and not hasattr(parameter, "device_mesh")  # fully_shard casts the parameters itself
        return device_type, outputs.dtype if autocast else None

    def device_type(self, outputs: Any) -> str:
        """The type of the device of the outputs, or of the model if they are not a tensor."""
        if isinstance(outputs, Tensor):
            return outputs.device.type
        found = (x for module in modules_of(self.model) for x in module._parameters.values() if x is not None)
        return next((x.device.type for x in found), "cpu")


def autocast_to(device_type: str, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Autocast to this dtype, or no autocast for None."""
    if dtype is None and not torch.is_autocast_enabled(device_type):
        return nullcontext()
    # Without the cache: a later training pass must not use copies of the weights that were made without gradients.
    return torch.autocast(device_type, dtype=dtype, enabled=dtype is not None, cache_enabled=False)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Set every module to evaluation mode, and restore the mode of each afterwards."""
    modules = modules_of(model)
    modes = [module.training for module in modules]
    _set_modes(modules, repeat(False))
    try:
        yield
    finally:
        _set_modes(modules, modes)


def _set_modes(modules: Iterable[nn.Module], modes: Iterable[bool]) -> None:
    """Set the mode of each module; directly where it is an attribute, for which nn.Module looks ten times as long."""
    for module, mode in zip(modules, modes, strict=False):
        attributes = vars(module)
        if "training" in attributes:
            attributes["training"] = mode
        else:  # of a module compiled by TorchScript
            module.training = mode


def modules_of(model: nn.Module) -> list[nn.Module]:
    """``model.modules()``, which makes names as well and takes several times as long."""
    found: dict[int, nn.Module] = {}
    waiting: list[nn.Module | None] = [model]
    while waiting:
        module = waiting.pop()
        if module is not None and id(module) not in found:
            found[id(module)] = module
            waiting += reversed(module._modules.values())
    return list(found.values())


def check_trainable(model: nn.Module) -> None:
    """Raise if no parameter of the model requires a gradient.

    >>> check_trainable(nn.Linear(2, 3).requires_grad_(False))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: no parameter of Linear requires a gradient, so weights cannot change what it learns: unfreeze ...
    """
    needed = [parameter.requires_grad for parameter in model.parameters()]
    if needed and not any(needed):
        raise ValueError(
            f"no parameter of {type(model).__name__} requires a gradient, so weights cannot change what it learns: "
            "unfreeze a part of it, e.g. model.head.requires_grad_(True)"
        )


def unwrap(model: nn.Module) -> nn.Module:
    """The model without DistributedDataParallel, which would communicate in every validation pass."""
    inner = getattr(model, "_orig_mod", model)  # torch.compile around the wrapper
    if (kind := type(inner).__name__) in ("DeepSpeedEngine", "FullyShardedDataParallel"):
        raise TypeError(
            f"{kind} does not allow that trusted samples pass through the model between its forward and backward "
            "pass: split the model with torch.distributed.fsdp.fully_shard (FSDP2), or use DistributedDataParallel"
        )
    if not isinstance(inner, DistributedDataParallel):
        return model
    plain: nn.Module = inner.module
    if any(isinstance(module, DistributedDataParallel) for module in plain.modules()):
        raise ValueError("the model is wrapped in DistributedDataParallel twice: wrap it once")
    return plain


def move_to_device_of(model: nn.Module, method: nn.Module) -> None:
    """Move ``method`` to the device of the model's parameters, if it has any."""
    parameter = next(model.parameters(), None)
    if parameter is not None:
        method.to(parameter.device)
