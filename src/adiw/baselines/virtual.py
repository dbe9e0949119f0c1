"""The user's model at parameters that are not its own: a virtual step and what it tells, without a trace."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from adiw.baselines.directional import Parameters, double_backward, forward_mode, lacks_forward_mode
from adiw.losses import guard_gradient
from adiw.observer import Criterion, Forward, Observer
from adiw.probe import Probe
from adiw.transforms import LossValue


class Virtual(nn.Module):
    """Losses, gradients and slopes of the model at given parameters ``theta``. The model is not part of the state.

    Every pass runs in the mode that the model is in, so in training mode while it trains, as the definitions of L2R
    and MW-Net have it: batch norm takes its statistics from the batch. Its running averages change on copies only.
    Dropout draws a new mask in each pass. ``outputs`` are those of the training pass, for its autocast.
    """

    def __init__(self, model: nn.Module, criterion: Criterion, forward: Forward | None) -> None:
        super().__init__()
        self.observer = Observer(model, criterion, forward, LossValue())
        self.has_forward_mode = True  # until an operator says otherwise

    def theta(self) -> dict[str, Tensor]:
        """The model's parameters that train, now, without their graph."""
        named = self.observer.model.named_parameters()
        return {name: value.detach() for name, value in named if value.requires_grad}

    def gradient(
        self, theta: Parameters, batch: Any, outputs: Any, weights: Tensor | float = 1.0
    ) -> tuple[dict[str, Tensor], Tensor]:
        """(grad of mean(weights * loss) at theta, which losses are finite (n,)); the others count as zero."""
        with torch.enable_grad():
            leaves = {name: value.detach().requires_grad_() for name, value in theta.items()}
            virtual_outputs, losses = self._run(leaves, batch, outputs)
            finite = losses.isfinite()
            guard_gradient(virtual_outputs, finite)
            mean = torch.where(finite, weights * losses, 0).mean()
            found = torch.autograd.grad(mean, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(leaves, found, strict=True)), finite

    def validation_gradient(self, theta: Parameters, probe: Probe, outputs: Any) -> dict[str, Tensor]:
        """grad of the mean loss of the next validation batch at theta, of which several processes do a part each."""
        index, batch = probe.next_batch()
        gradient, finite = self.gradient(theta, batch, outputs, probe.real())
        probe.add_means(gradient.values())
        probe.nonfinite.index_add_(0, index, (~probe.gather(finite)).to(probe.nonfinite.dtype))
        return gradient

    def check_processes(self) -> None:
        """Refuse batch norm where each of several processes has a part of the batch: raised in their first step."""
        for name, module in self.observer.model.named_modules():
            if isinstance(module, _BatchNorm) and module.training:
                raise ValueError(
                    f"L2R and MW-Net differentiate through the batch norm {name!r}, which PyTorch cannot do over "
                    "several processes: train in one, or with a network without batch norm (such as group norm)"
                )

    def slopes(self, theta: Parameters, batch: Any, outputs: Any, direction: Parameters) -> Tensor:
        """<direction, grad loss_i(theta)> of each sample, (n,); zero where it is not finite."""

        def losses_at(parameters: Parameters) -> Tensor:
            return self._run(parameters, batch, outputs)[1]

        slopes = self._differentiate(losses_at, theta, direction)
        return torch.where(slopes.isfinite(), slopes, 0)

    def _differentiate(self, losses_at: Any, theta: Parameters, direction: Parameters) -> Tensor:
        """By forward mode; from the first operator on that has none, by double backward."""
        if not self.has_forward_mode:
            return double_backward(losses_at, theta, direction)
        try:
            return forward_mode(losses_at, theta, direction)
        except RuntimeError as error:
            if not lacks_forward_mode(error):
                raise
            reason = str(error).splitlines()[0]
        slopes = double_backward(losses_at, theta, direction)
        self.has_forward_mode = False
        warnings.warn(
            f"the model cannot be differentiated in forward mode ({reason}): from now on by double backward, which "
            "gives the same weights but needs more time and memory",
            stacklevel=2,
        )
        return slopes

    def _run(self, theta: Parameters, batch: Any, outputs: Any) -> tuple[Any, Tensor]:
        """(outputs, per-sample losses (n,)) of a batch at theta."""
        module = _Pass(self.observer)
        copies = {f"model.{name}": value.clone() for name, value in self.observer.model.named_buffers()}
        swapped = {f"model.{name}": value for name, value in theta.items()}
        with self.observer.autocast_of(outputs):
            virtual_outputs, targets, *_ = functional_call(module, {**swapped, **copies}, (batch,))
        return virtual_outputs, self.observer.losses(virtual_outputs, targets)

    def get_extra_state(self) -> dict[str, bool]:
        return {"has_forward_mode": self.has_forward_mode}

    def set_extra_state(self, state: dict[str, bool]) -> None:
        self.has_forward_mode = state["has_forward_mode"]


class _Pass(nn.Module):
    """The model and the user's forward function as one module, so that ``functional_call`` reaches both."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self.model, self.observer = observer.model, observer

    def forward(self, batch: Any) -> tuple[Any, ...]:
        return self.observer.run(batch)
