"""Per-sample losses of the user's model, in the training pass and in a separate pass in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from adiw.argument_checks import kind_of
from adiw.reweighting.transforms import Transform, TransformedBatch

Criterion = Callable[[Any, Any], Tensor]
Forward = Callable[[nn.Module, Any], tuple[Any, ...]]
Precision = tuple[str, torch.dtype | None]  # device type and autocast dtype, None without autocast


class EvaluatedBatch(NamedTuple):
    """What the model returned for a batch, and the hidden-layer outputs for ``Features``."""

    outputs: Any
    targets: Any
    features: Tensor | None


class ModelEvaluator:
    """The user's model, criterion and forward function. None of them is part of a method's state."""

    def __init__(self, model: nn.Module, criterion: Criterion, forward: Forward | None, transform: Transform) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
        if not callable(criterion):
            raise TypeError("criterion must be callable: criterion(outputs, targets) gives one loss per sample")
        if forward is not None and not callable(forward):
            raise TypeError("forward must be callable: forward(model, batch) gives (outputs, targets)")
        self.given_model, model = model, unwrap(model)
        self.model, self.criterion, self.forward, self.transform = model, criterion, forward, transform
        transform.attach(model)

    def losses(self, outputs: Any, targets: Any) -> Tensor:
        """One loss per sample (n,), in float32 or better."""
        if getattr(getattr(self.given_model, "_join_config", None), "enable", False):
            raise RuntimeError(
                "torch's Join cannot replace a process that has no more batches: the losses of all processes are "
                "gathered in each step. Iterate over adiw.together(loader) instead, which ends in the same step in "
                "all processes"
            )
        return per_sample_losses(self.criterion, outputs, targets)

    def evaluate(self, batch: Any, outputs: Any, dtype: torch.dtype) -> TransformedBatch:
        """z and groups of a batch in evaluation mode, under the autocast of the training ``outputs``. No gradient."""
        return self.transformed(self.run_in_evaluation_mode(batch, self.precision_of(outputs)), dtype)

    def run_in_evaluation_mode(self, batch: Any, precision: Precision) -> EvaluatedBatch:
        """The model's outputs for a batch in evaluation mode, without gradient."""
        with torch.no_grad(), evaluation_mode(self.model), autocast_to(*precision):
            outputs, targets, *features = self.run(batch)
        return EvaluatedBatch(outputs, targets, features[0] if features else self.transform.take_output())

    def transformed(self, batch: EvaluatedBatch, dtype: torch.dtype) -> TransformedBatch:
        """z and groups of an evaluated batch."""
        with torch.no_grad(), no_autocast(self.device_type(batch.outputs)):
            losses = self.losses(batch.outputs, batch.targets).to(dtype)
            return self.transform.apply(losses, batch.targets, batch.features)

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
        parameter, device_type = next(self.model.parameters(), None), self.device_type(outputs)
        if torch.is_autocast_enabled(device_type):
            return device_type, torch.get_autocast_dtype(device_type)
        half = isinstance(outputs, Tensor) and outputs.dtype in (torch.bfloat16, torch.float16)
        autocast = half and parameter is not None and parameter.dtype == torch.float32
        return device_type, outputs.dtype if autocast else None

    def device_type(self, outputs: Any) -> str:
        """The type of the device of the outputs, or of the model if they are not a tensor."""
        found = outputs if isinstance(outputs, Tensor) else next(self.model.parameters(), None)
        return "cpu" if found is None else found.device.type


def per_sample_losses(criterion: Criterion, outputs: Any, targets: Any) -> Tensor:
    """criterion(outputs, targets), checked to be one floating-point loss per sample, (n,).

    A tensor of outputs is passed as float32, outside of any autocast: bf16 logits change a loss by as much as the
    width of a narrow kernel. Other outputs (mappings, objects) are passed unchanged.

    >>> per_sample_losses(torch.nn.CrossEntropyLoss(), torch.zeros(2, 3), torch.tensor([0, 1]))
    Traceback (most recent call last):
    ValueError: criterion returned a scalar; expected one loss per sample, (n,): build it with reduction="none"
    """
    if isinstance(outputs, Tensor):
        half = outputs.dtype in (torch.bfloat16, torch.float16)
        with no_autocast(outputs.device.type):
            losses = criterion(outputs.float() if half else outputs, targets)
    else:
        losses = criterion(outputs, targets)
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        raise TypeError(f"criterion must return a floating-point tensor (n,), got {kind_of(losses)}")
    if losses.ndim == 0:
        raise ValueError(
            'criterion returned a scalar; expected one loss per sample, (n,): build it with reduction="none"'
        )
    if losses.ndim > 1:
        raise ValueError(
            f"criterion returned shape {tuple(losses.shape)}; expected one loss per sample, (n,): "
            "reduce the other dimensions, e.g. criterion(outputs, targets).flatten(1).mean(1)"
        )
    if len(losses) == 0:
        raise ValueError("the batch is empty: there is no loss to weight")
    return losses if losses.dtype == torch.float64 else losses.float()


def no_autocast(device_type: str) -> AbstractContextManager[Any]:
    """Disable autocast if it is enabled."""
    # torch.compile cannot trace ``is_autocast_available`` in all supported versions.
    available = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device_type)
    enabled = available and torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, enabled=False) if enabled else nullcontext()


def autocast_to(device_type: str, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Autocast to this dtype, or no autocast for None."""
    # Without the cache: a later training pass must not use copies of the weights that were made without gradients.
    return torch.autocast(device_type, dtype=dtype, enabled=dtype is not None, cache_enabled=False)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Set every module to evaluation mode, and restore the mode of each afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


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
