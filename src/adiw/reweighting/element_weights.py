"""A weight for each element of a sample (token, pixel, label): the weighted mean over the elements of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from adiw.reweighting.cuda_graphs import can_capture
from adiw.reweighting.default_estimator import ElementRankEstimator
from adiw.reweighting.loss_shapes import draw_evenly, element_losses, nearest
from adiw.reweighting.nonfinite_losses import zero_gradient
from adiw.reweighting.sample_index import PADDING
from adiw.reweighting.weight_state import WINDOW

if TYPE_CHECKING:
    from adiw.reweighting.adiw import ADIW


def weighted_elements(
    method: ADIW, outputs: Any, targets: Any, index: Tensor | None, features: Tensor | None
) -> Tensor:
    """mean(w * loss) over the elements of a batch, a scalar that is ready for backward.

    Weights are estimated for at most 2,048 elements, in all processes together; the others have the weight of the one
    of the same class whose loss is nearest.
    """
    try:
        elements = element_losses(method.evaluator.criterion, outputs, targets)
        method.check_call(elements.losses, index, features)
    except Exception as error:
        method.weight_state.share_error(error)
        raise
    losses, counted = elements.by_row()
    processes = method.weight_state.current_processes()
    with torch.no_grad():
        found_classes = method.evaluator.classes_of(outputs, targets, elements.losses)
        classes, num_classes = found_classes or (None, None)
        if isinstance(method.estimator, ElementRankEstimator):
            method.estimator.num_classes = num_classes
        flat = [None if x is None else x.detach().reshape(1, -1) for x in (losses, counted, classes)]
        assert flat[0] is not None
        found = draw_evenly(flat[0], flat[1], max(1, WINDOW // processes.size), flat[2])
        drawn, group = found.losses[0], None if found.classes is None else found.classes[0]
        index = torch.where(found.drawn[0], 0, PADDING)
        batch = method.weight_state.gather(index, drawn, method, columns=[None, group, None, None])
        mean = method.weighted_mean(batch, outputs, can_capture(losses.device), divide=False, key=num_classes)
        used = losses.isfinite() if counted is None else losses.isfinite() | ~counted
        finite = used.all(1)
        used = finite[:, None] if counted is None else counted & finite[:, None]
        total = torch.full((), losses.numel(), device=losses.device) if counted is None else counted.sum()
        batch.processes.sum_([total])
        of_class = (None, None) if classes is None else (group, classes.flatten())
        slope = nearest(drawn, mean.slope, losses.flatten(), *of_class)
        slope = slope / batch.processes.divisor(total.clamp_min(1))
    zero_gradient(outputs, finite)
    return torch.dot(torch.where(used, losses, 0).flatten(), slope)
