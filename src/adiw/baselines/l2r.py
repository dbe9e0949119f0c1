"""Learning to reweight (L2R): weights from inner products of per-sample gradients and the validation gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from adiw.baselines.functional_model import GradientBaseline
from adiw.matching.weight_limits import rescale_to_mean_one
from adiw.reweighting.step import Step, zero_where_not


class L2R(GradientBaseline):
    """w_i = max(0, -d L_val(theta - alpha sum_j eps_j grad loss_j) / d eps_i) at eps = 0   (Ren et al. 2018).

    The weights of a batch are then scaled to sum to one, unless all are zero. The derivative is
    alpha <grad L_val(theta), grad loss_i(theta)>, and alpha cancels: one validation gradient and one forward-mode
    pass over the training batch give the weights exactly, with no second-order graph. Operators without forward mode
    use double backward, with one warning.

    The loss is sum(w * loss), and zero if all w are zero. ``weights`` holds n * w, so that the loss is
    mean(weights * loss) as for every other method. Both passes run in the model's current mode (training mode while
    it trains) and do not change its buffers; see ``FunctionalModel``.

    Args as for ``adiw.ADIW``. Every call needs ``inputs`` (with ``forward``, the whole batch).

    >>> import torch
    >>> from torch import nn
    >>> model = nn.Linear(2, 3)
    >>> val_set = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randint(3, (8,)))
    >>> reweight = L2R(model, nn.CrossEntropyLoss(reduction="none"), val_set, num_train=100)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> reweight(model(x), y, index, inputs=x).backward()
    >>> bool((reweight.weights >= 0).all())
    True
    """

    runs_batch = "L2R differentiates the losses of the training batch"

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        if step.starts_group:
            self.functional.refuse_batch_norm()
        theta = self.functional.theta()
        direction = self.functional.validation_gradient(theta, self.val_schedule, outputs, step.processes)
        products = self.functional.jvp(theta, batch, outputs, direction)
        products = zero_where_not(step.local_finite, products).clamp_min(0)
        (products,) = step.processes.gather([products], [0])
        weights = rescale_to_mean_one(products, float("inf"), step.is_sample)  # n times the w that sums to one
        return self.weight_state.store(step, weights, step.finite)
