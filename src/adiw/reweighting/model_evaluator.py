"""What the current model says of a batch, in evaluation mode and without a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from adiw.reweighting.per_sample_losses import per_sample_losses
from adiw.reweighting.transforms import Observed, Transform

Criterion = Callable[[Any, Any], Tensor]
Forward = Callable[[nn.Module, Any], tuple[Any, ...]]
Precision = tuple[str, torch.dtype | None]  # kind of device and dtype of an autocast, None where there is none


class ModelEvaluator:
    """The user's model, criterion and forward function, none of which belong to our own state."""

    def __init__(self, model: nn.Module, criterion: Criterion, forward: Forward | None, transform: Transform) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
        if not callable(criterion):
            raise TypeError("criterion must be callable: criterion(outputs, targets) gives one loss per sample")
        if forward is not None and not callable(forward):
            raise TypeError("forward must be callable: forward(model, batch) gives (outputs, targets)")
        self.given, model = model, unwrapped(model)
        self.model, self.criterion, self.forward, self.transform = model, criterion, forward, transform
        transform.attach(model)

    def losses(self, outputs: Any, targets: Any) -> Tensor:
        """One loss per sample (n,), in float32 or better."""
        if getattr(getattr(self.given, "_join_config", None), "enable", False):
            raise RuntimeError(
                "torch's Join cannot stand in for a process that has run out of batches: the losses of all are "
                "gathered here. Iterate over adiw.together(loader) instead, which ends for all at once"
            )
        return per_sample_losses(self.criterion, outputs, targets)

    def evaluate(self, batch: Any, precision: Precision, dtype: torch.dtype) -> Observed:
        """z and groups of a batch in evaluation mode, under the autocast of this precision. No gradient."""
        with torch.no_grad():
            with evaluation_mode(self.model), autocast_to(*precision):
                outputs, targets, *features = self.run(batch)
            losses = self.losses(outputs, targets).to(dtype)
            return self.transform.observe(losses, targets, features[0] if features else None)

    def training_batch(self, inputs: Any, targets: Any, reason: str) -> Any:
        """The training batch, for methods that run the model again: (inputs, targets), or inputs for ``forward``.

        ``reason`` begins the error for missing inputs: which method needs them and what for.
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
                    "forward(model, batch) must return (outputs, targets) or (outputs, targets, features)"
                )
            return result
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise TypeError(
                f"batches must be (x, y), got {type(batch).__name__}: for others pass "
                "forward=lambda model, batch: (outputs, targets)"
            )
        return self.model(batch[0]), batch[1]

    def precision_of(self, outputs: Any) -> Precision:
        """Of the autocast that the training outputs were made under: the one in force, or what shows in them."""
        parameter = next(self.model.parameters(), None)
        found = outputs if isinstance(outputs, Tensor) else parameter
        kind = "cpu" if found is None else found.device.type
        if torch.is_autocast_enabled(kind):
            return kind, torch.get_autocast_dtype(kind)
        narrow = isinstance(outputs, Tensor) and outputs.dtype in (torch.bfloat16, torch.float16)
        shows = narrow and parameter is not None and parameter.dtype == torch.float32
        return kind, outputs.dtype if shows else None


def autocast_to(kind: str, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Autocast to this dtype, or none at all."""
    # Without the cache: copies of the weights made without gradients must not serve a later training pass.
    return torch.autocast(kind, dtype=dtype, enabled=dtype is not None, cache_enabled=False)


def check_trainable(model: nn.Module) -> None:
    """Refuse a model that cannot learn from weighted losses.

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


def unwrapped(model: nn.Module) -> nn.Module:
    """The plain model: under several processes a wrapped one would talk to the others about every pass."""
    inner = getattr(model, "_orig_mod", model)  # of torch.compile around the wrapped model
    if not isinstance(inner, DistributedDataParallel):
        return model
    plain: nn.Module = inner.module
    if any(isinstance(module, DistributedDataParallel) for module in plain.modules()):
        raise ValueError("the model is wrapped in DistributedDataParallel twice: wrap it once")
    return plain


def follow(method: nn.Module, model: nn.Module) -> None:
    """Move ``method`` to the device of the model's parameters; a model without any leaves it where it is."""
    parameter = next(model.parameters(), None)
    if parameter is not None:
        method.to(parameter.device)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Every module in evaluation mode, and afterwards each in the mode it was in: nothing else changes."""
    modes = [(module, module.training) for module in model.modules()]
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
