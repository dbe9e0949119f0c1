"""The user's model at parameters that are not its own: a virtual step and what it tells, without a trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from adiw.baselines.directional import Parameters, double_backward, forward_mode, lacks_forward_mode
from adiw.reweighting.model_evaluator import Criterion, Forward, ModelEvaluator, Precision, autocast_to
from adiw.reweighting.per_sample_losses import guard_gradient
from adiw.reweighting.transforms import LossValue
from adiw.reweighting.validation_stream import ValidationStream


class Virtual(nn.Module):
    """Losses, gradients and slopes of the model at given parameters ``theta``. The model is not part of the state.

    Every pass runs in the mode that the model is in, so in training mode while it trains, as the definitions of L2R
    and MW-Net have it: batch norm takes its statistics from the batch. Its running averages change on copies only.
    Dropout draws a new mask in each pass. ``outputs`` are those of the training pass, for its autocast.
    """

    def __init__(self, model: nn.Module, criterion: Criterion, forward: Forward | None) -> None:
        super().__init__()
        self.evaluator = ModelEvaluator(model, criterion, forward, LossValue())
        self.has_forward_mode = True  # until an operator says otherwise
        self._sure = False  # until a pass has shown that none does: torch.compile would look into a custom operator
        self._compiled: Callable[..., Tensor] | None = None
        self._call = partial(functional_call, _Pass(self.evaluator))  # a module as such would be part of our state

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Let torch.compile, with these arguments, translate the passes through the model.

        The slopes are one graph or stay as they are: tangents are lost between two.
        """
        self._outputs = torch.compile(self._outputs, *args, **kwargs)  # type: ignore[method-assign]
        self._compiled = torch.compile(self._tangents, *args, **{**kwargs, "fullgraph": True})

    def theta(self) -> dict[str, Tensor]:
        """The model's parameters that train, now, without their graph."""
        named = self.evaluator.model.named_parameters()
        return {name: value.detach() for name, value in named if value.requires_grad}

    def gradient(
        self, theta: Parameters, batch: Any, outputs: Any, weights: Tensor | float = 1.0
    ) -> tuple[dict[str, Tensor], Tensor]:
        """(grad of mean(weights * loss) at theta, which losses are finite (n,)); the others count as zero."""
        with torch.enable_grad():
            leaves = {name: value.detach().requires_grad_() for name, value in theta.items()}
            virtual_outputs, targets = self._outputs(leaves, batch, self.evaluator.precision_of(outputs))
            losses = self.evaluator.losses(virtual_outputs, targets)
            finite = losses.isfinite()
            guard_gradient(virtual_outputs, finite)
            mean = torch.where(finite, weights * losses, 0).mean()
            found = torch.autograd.grad(mean, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(leaves, found, strict=True)), finite

    def validation_gradient(self, theta: Parameters, val_stream: ValidationStream, outputs: Any) -> dict[str, Tensor]:
        """grad of the mean loss of the next validation batch at theta, of which several processes do a part each."""
        index, batch = val_stream.next_batch()
        gradient, finite = self.gradient(theta, batch, outputs, val_stream.real())
        val_stream.add_means(gradient.values())
        val_stream.nonfinite.index_add_(0, index, (~val_stream.gather(finite)).to(val_stream.nonfinite.dtype))
        return gradient

    def check_processes(self) -> None:
        """Refuse batch norm where each of several processes has a part of the batch: raised in their first step."""
        for name, module in self.evaluator.model.named_modules():
            if isinstance(module, _BatchNorm) and module.training:
                raise ValueError(
                    f"L2R and MW-Net differentiate through the batch norm {name!r}, which PyTorch cannot do over "
                    "several processes: train in one, or with a network without batch norm (such as group norm)"
                )

    def slopes(self, theta: Parameters, batch: Any, outputs: Any, direction: Parameters) -> Tensor:
        """<direction, grad loss_i(theta)> of each sample, (n,); zero where it is not finite."""
        given = (theta, direction, batch, self.evaluator.precision_of(outputs))
        slopes = self._in_one_graph(*given)
        if slopes is None:
            with _untranslated():
                slopes = self._differentiate(*given)
        return torch.where(slopes.isfinite(), slopes, 0)

    def _in_one_graph(self, *given: Any) -> Tensor | None:
        """By the translated forward mode; None where that is not asked for, or turns out to be impossible."""
        if self._compiled is None or not self._sure:
            return None
        try:
            return self._compiled(*given)
        except RuntimeError as error:
            warnings.warn(f"the slopes of the losses cannot be compiled ({_first_line(error)})", stacklevel=3)
            self._compiled = None
            return None

    def _differentiate(self, theta: Parameters, direction: Parameters, batch: Any, precision: Precision) -> Tensor:
        """By forward mode; from the first operator on that has none, by double backward."""
        losses_at = partial(self._losses, batch=batch, precision=precision)
        if not self.has_forward_mode:
            return double_backward(losses_at, theta, direction)
        try:
            slopes = forward_mode(losses_at, theta, direction)
            self._sure = True
            return slopes
        except RuntimeError as error:
            if not lacks_forward_mode(error):
                raise
            reason = _first_line(error)
        slopes = double_backward(losses_at, theta, direction)
        self.has_forward_mode = False
        warnings.warn(
            f"the model cannot be differentiated in forward mode ({reason}): from now on by double backward, which "
            "gives the same weights but needs more time and memory",
            stacklevel=3,
        )
        return slopes

    def _tangents(self, theta: Parameters, direction: Parameters, batch: Any, precision: Precision) -> Tensor:
        return forward_mode(partial(self._losses, batch=batch, precision=precision), theta, direction)

    def _losses(self, theta: Parameters, batch: Any, precision: Precision) -> Tensor:
        """Per-sample losses (n,) of a batch at theta."""
        return self.evaluator.losses(*self._outputs(theta, batch, precision))

    def _outputs(self, theta: Parameters, batch: Any, precision: Precision) -> tuple[Any, Any]:
        """(outputs, targets) of a batch at theta."""
        copies = {f"model.{name}": value.clone() for name, value in self.evaluator.model.named_buffers()}
        swapped = {f"model.{name}": value for name, value in theta.items()}
        with autocast_to(*precision):
            outputs, targets, *_ = self._call({**swapped, **copies}, (batch,))
        return outputs, targets

    def get_extra_state(self) -> dict[str, bool]:
        return {"has_forward_mode": self.has_forward_mode}

    def set_extra_state(self, state: dict[str, bool]) -> None:
        self.has_forward_mode, self._sure = state["has_forward_mode"], False


def _untranslated() -> AbstractContextManager[Any]:
    """Translated networks run as written: a translation may drop tangents, and has no second derivative."""
    stance = getattr(torch.compiler, "set_stance", None)  # from PyTorch 2.6 on
    return nullcontext() if stance is None else stance("force_eager")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


class _Pass(nn.Module):
    """The model and the user's forward function as one module, so that ``functional_call`` reaches both."""

    def __init__(self, evaluator: ModelEvaluator) -> None:
        super().__init__()
        self.model, self.evaluator = evaluator.model, evaluator

    def forward(self, batch: Any) -> tuple[Any, ...]:
        return self.evaluator.run(batch)
