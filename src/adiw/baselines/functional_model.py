"""The user's model as a function of its parameters: losses, gradients and Jacobian-vector products (JVP)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from adiw.baselines.baseline import Baseline
from adiw.baselines.per_sample_jvp import Parameters, jvp_by_double_backward, lacks_forward_mode, per_sample_jvp
from adiw.distributed.process_group import Processes
from adiw.reweighting.cuda_graphs import compiled
from adiw.reweighting.model_evaluator import ModelEvaluator, Precision, autocast_to
from adiw.reweighting.step import zero_gradient
from adiw.reweighting.validation_schedule import ValidationSchedule
from adiw.user_code import warn_user


class FunctionalModel(nn.Module):
    """The model as a function of its parameters ``theta``. The model itself does not change.

    Every pass runs in the model's current mode. L2R and MW-Net are defined in training mode: batch norm takes its
    statistics from the batch, and its running averages change on copies only. Dropout draws a new mask in each pass.
    ``outputs`` are those of the training pass, which determine the autocast. The model is not part of the state.
    """

    def __init__(self, evaluator: ModelEvaluator) -> None:
        super().__init__()
        self.evaluator = evaluator
        self.has_forward_mode = True  # until an operator without forward mode raises
        # Set by the first eager JVP. Only then is the JVP compiled: torch.compile does not raise at a custom operator
        # without forward mode, but differentiates the code of its forward function.
        self._forward_mode_works = False
        self._compiled_jvp: Callable[..., Tensor] | None = None
        self._call = partial(functional_call, _Pass(self.evaluator))  # in a partial, the module is not registered

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the passes through the model with ``torch.compile(*args, **kwargs)``.

        The JVP is compiled as one graph or not at all: tangents are lost between two graphs.
        """
        self._outputs = compiled(self, "_outputs", *args, **kwargs)  # type: ignore[method-assign]
        self._compiled_jvp = compiled(self, "_forward_mode", *args, **{**kwargs, "fullgraph": True})

    def theta(self) -> dict[str, Tensor]:
        """The model's current trainable parameters, detached."""
        named = self.evaluator.model.named_parameters()
        return {name: value.detach() for name, value in named if value.requires_grad}

    def gradient(
        self, theta: Parameters, batch: Any, outputs: Any, weights: Tensor | float = 1.0
    ) -> tuple[dict[str, Tensor], Tensor]:
        """(grad of mean(weights * loss) at theta, which losses are finite, (n,)). Other losses count as zero."""
        with torch.enable_grad():
            leaves = {name: value.detach().requires_grad_() for name, value in theta.items()}
            new_outputs, targets = self._outputs(leaves, batch, self.evaluator.precision_of(outputs))
            losses = self.evaluator.losses(new_outputs, targets)
            finite = losses.isfinite()
            zero_gradient(new_outputs, finite)
            weights = weights.to(losses.dtype) if isinstance(weights, Tensor) else weights
            mean = torch.where(finite, weights * losses, 0).mean()
            found = torch.autograd.grad(mean, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(leaves, found, strict=True)), finite

    def validation_gradient(
        self, theta: Parameters, val_schedule: ValidationSchedule, outputs: Any, processes: Processes
    ) -> dict[str, Tensor]:
        """Gradient of the mean loss of the next validation samples at theta, from the parts of all processes."""
        index, samples = val_schedule.next_samples(processes)
        gradient, finite = self.gradient(
            theta, samples, outputs, processes.split_weights(len(index), device=index.device)
        )
        processes.sum_(gradient.values())
        (finite,) = processes.join([finite], len(index))
        val_schedule.nonfinite.index_add_(0, index, (~finite).to(val_schedule.nonfinite.dtype))
        return gradient

    def refuse_batch_norm(self) -> None:
        """Raise if the model has batch norm in training mode: each process would normalise its part of the batch."""
        for name, module in self.evaluator.model.named_modules():
            if isinstance(module, _BatchNorm) and module.training:
                raise ValueError(
                    f"L2R and MW-Net differentiate through the batch norm {name!r}, which PyTorch cannot do over "
                    "several processes: train in one, or with a network without batch norm (such as group norm)"
                )

    def jvp(self, theta: Parameters, batch: Any, outputs: Any, direction: Parameters) -> Tensor:
        """<direction, grad loss_i(theta)> of each sample, (n,); zero where it is not finite."""
        given = (theta, direction, batch, self.evaluator.precision_of(outputs))
        products = self._run_compiled(*given)
        if products is None:
            # A compiled model may drop tangents, and has no second derivative.
            with torch.compiler.set_stance("force_eager"):
                products = self._run_eager(*given)
        return torch.where(products.isfinite(), products, 0)

    def _run_compiled(self, *given: Any) -> Tensor | None:
        """The compiled JVP; None if there is none or it fails."""
        if self._compiled_jvp is None or not self._forward_mode_works:
            return None
        try:
            return self._compiled_jvp(*given)
        except RuntimeError as error:
            warn_user(f"the JVP of the losses cannot be compiled ({_first_line(error)})")
            self._compiled_jvp = None
            return None

    def _run_eager(self, theta: Parameters, direction: Parameters, batch: Any, precision: Precision) -> Tensor:
        """The JVP by forward mode, or by double backward after an operator without forward mode."""
        losses_at = partial(self._losses, batch=batch, precision=precision)
        if not self.has_forward_mode:
            return jvp_by_double_backward(losses_at, theta, direction)
        try:
            products = per_sample_jvp(losses_at, theta, direction)
            self._forward_mode_works = True
            return products
        except RuntimeError as error:
            if not lacks_forward_mode(error):
                raise
            reason = _first_line(error)
        products = jvp_by_double_backward(losses_at, theta, direction)
        self.has_forward_mode = False
        warn_user(
            f"the model cannot be differentiated in forward mode ({reason}): double backward is used from now on, "
            "which gives the same weights but needs more time and memory"
        )
        return products

    def _forward_mode(self, theta: Parameters, direction: Parameters, batch: Any, precision: Precision) -> Tensor:
        return per_sample_jvp(partial(self._losses, batch=batch, precision=precision), theta, direction)

    def _losses(self, theta: Parameters, batch: Any, precision: Precision) -> Tensor:
        return self.evaluator.losses(*self._outputs(theta, batch, precision))

    def _outputs(self, theta: Parameters, batch: Any, precision: Precision) -> tuple[Any, Any]:
        copies = {f"model.{name}": value.clone() for name, value in self.evaluator.model.named_buffers()}
        swapped = {f"model.{name}": value for name, value in theta.items()}
        with autocast_to(*precision):
            outputs, targets, *_ = self._call({**swapped, **copies}, (batch,))
        return outputs, targets

    def get_extra_state(self) -> dict[str, bool]:
        return {"has_forward_mode": self.has_forward_mode}

    def set_extra_state(self, state: dict[str, bool]) -> None:
        self.has_forward_mode, self._forward_mode_works = state["has_forward_mode"], False


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


class _Pass(nn.Module):
    """The model and the user's forward function as one module, for ``functional_call``."""

    def __init__(self, evaluator: ModelEvaluator) -> None:
        super().__init__()
        self.model, self.evaluator = evaluator.model, evaluator

    def forward(self, batch: Any) -> tuple[Any, ...]:
        return self.evaluator.run(batch)


class GradientBaseline(Baseline):
    """A baseline that differentiates the model: ``functional`` is the model as a function of its parameters."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.functional = FunctionalModel(self.evaluator)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the passes with ``torch.compile(*args, **kwargs)``; see ``FunctionalModel.compile``."""
        self.functional.compile(*args, **kwargs)
