"""Meta-Weight-Net (MW-Net): a small network that learns to map a sample's loss to its weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import Adam, Optimizer

from adiw.argument_checks import is_positive
from adiw.baselines.functional_model import GradientBaseline
from adiw.reweighting.dataset_cache import map_tensors
from adiw.reweighting.extra_state import from_one_value, one_value
from adiw.reweighting.loss_shapes import Criterion
from adiw.reweighting.model_evaluator import move_to_device_of
from adiw.reweighting.step import Step, zero_where_not

HIDDEN = 100


class MWNet(GradientBaseline):
    """w_i = V(loss_i; psi), where psi lowers the validation loss after a virtual step (Shu et al. 2019).

    V is Linear(1, 100)-ReLU-Linear(100, 1)-sigmoid on the detached loss of the training pass. In each step
        theta_hat = theta - lr grad mean(V * loss)      a virtual step without momentum and decay,
        psi descends L_val(theta_hat) by Adam           (learning rate 1e-3, weight decay 1e-4),
        the loss is mean(V_new * loss)                  not normalised, so weights lie between 0 and 1.
    The gradient of psi is exact without a second-order graph:
        d L_val / d psi = -(lr / n) sum_i <grad L_val(theta_hat), grad loss_i(theta)> dV_i / d psi,
    and one forward-mode pass over the training batch gives the inner products. Operators without forward mode use
    double backward, with one warning. Passes run in the model's current mode and do not change its buffers; see
    ``FunctionalModel``. (With dropout, the virtual step and the inner products have different masks.)

    Args as for ``adiw.ADIW``. Every call needs ``inputs`` (with ``forward``, the whole batch).
        optimizer: that of the model; the virtual step uses the current learning rate of its first parameter group.
        learning_rate: a fixed learning rate for the virtual step, instead of ``optimizer``.

    >>> model = nn.Linear(2, 3)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> val_set = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randint(3, (8,)))
    >>> reweight = MWNet(model, nn.CrossEntropyLoss(reduction="none"), val_set, num_train=100, optimizer=optimizer)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> reweight(model(x), y, index, inputs=x).backward()
    >>> bool((reweight.weights[index] < 1).all())
    True
    """

    runs_batch, bound = "MWNet takes a virtual step on the training batch", 1.0

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion,
        val_set: Any,
        num_train: int,
        *,
        optimizer: Optimizer | None = None,
        learning_rate: float | None = None,
        **options: Any,
    ) -> None:
        if (optimizer is None) == (learning_rate is None):
            raise ValueError(
                "MWNet needs the learning rate of its virtual step: pass either optimizer=, whose current learning "
                "rate it uses, or learning_rate="
            )
        if learning_rate is not None and not is_positive(learning_rate):
            raise ValueError(f"learning_rate must be a positive number, got {learning_rate!r}")
        super().__init__(model, criterion, val_set, num_train, **options)
        self.optimizer, self.learning_rate = optimizer, learning_rate
        self.network = start_network(self.randomness.on(torch.device("cpu")))
        self.adam = Adam(self.network.parameters(), lr=1e-3, weight_decay=1e-4)
        move_to_device_of(model, self)

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        if step.starts_group:
            self.functional.refuse_batch_norm()
        values = zero_where_not(step.local_finite, losses).detach()
        self._learn(step, values, batch, outputs)
        (weights,) = step.processes.gather([self._evaluate(values).detach()], [1.0])
        return self.weight_state.store(step, weights, step.finite)

    def _learn(self, step: Step, values: Tensor, batch: Any, outputs: Any) -> None:
        """One step of Adam on psi, from the losses ``values`` (n,) of the training batch."""
        # A number, or a tensor if the optimizer's learning rate is one.
        rate: Any = self.learning_rate if self.optimizer is None else self.optimizer.param_groups[0]["lr"]
        processes = step.processes
        share = len(values) / step.num_samples  # this process's fraction of the batch
        theta = self.functional.theta()
        with torch.enable_grad():
            weights = self._evaluate(values)
        descent, _ = self.functional.gradient(theta, batch, outputs, share * weights.detach())
        processes.sum_(descent.values())
        theta_hat = {name: value - rate * descent[name] for name, value in theta.items()}
        direction = self.functional.validation_gradient(theta_hat, self.val_schedule, outputs, processes)
        products = self.functional.jvp(theta, batch, outputs, direction)
        psi = list(self.network.parameters())
        gradients = torch.autograd.grad(weights, psi, -rate * share / len(values) * products)
        processes.sum_(gradients)
        for parameter, gradient in zip(psi, gradients, strict=True):
            parameter.grad = gradient
        self.adam.step()
        self.adam.zero_grad()

    def _evaluate(self, values: Tensor) -> Tensor:
        """V(loss), (n,), in full precision and in the dtype of the losses."""
        with torch.autocast(values.device.type, enabled=False):
            column = values[:, None].to(next(self.network.parameters()).dtype)
            weights: Tensor = self.network(column)[:, 0]
            return weights.to(values.dtype)

    def get_extra_state(self) -> tuple[dict[str, Any]]:
        return one_value({"adam": self.adam.state_dict()})

    def set_extra_state(self, state: Any) -> None:
        state = from_one_value(state)
        self._load_adam(map_tensors(Tensor.clone, state["adam"]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> MWNet:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if hasattr(self, "adam"):  # made last in the constructor
            self._load_adam(self.adam.state_dict())
        return self

    def _load_adam(self, state: dict[str, Any]) -> None:
        """Load Adam's state, on the device and in the dtype of the network."""
        # On a GPU the step count must be there too, to avoid a host synchronisation.
        on_gpu = next(self.network.parameters()).is_cuda
        groups = [{**group, "capturable": on_gpu} for group in state["param_groups"]]
        self.adam.load_state_dict({**state, "param_groups": groups})


def start_network(generator: Generator) -> nn.Sequential:
    """V with the default initialisation of ``nn.Linear``, drawn from ``generator``."""
    layers = [nn.utils.skip_init(nn.Linear, 1, HIDDEN), nn.utils.skip_init(nn.Linear, HIDDEN, 1)]
    for layer in layers:
        bound = layer.in_features**-0.5
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.Sigmoid())
