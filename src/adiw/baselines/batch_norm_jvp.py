"""Jacobian-vector product (JVP) of batch norm, in few passes over the batch and in the dtype of the outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class BatchNormTangents(TorchFunctionMode):
    """A context in which ``batch_norm`` below replaces ``torch.nn.functional.batch_norm``.

    PyTorch's own forward-mode rule takes about fifteen passes over the batch. Traced by torch.compile under autocast,
    it returns tangents in another dtype than the outputs, which the next layer does not accept.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (batch_norm if func is functional.batch_norm else func)(*args, **(kwargs or {}))


def batch_norm(
    input: Tensor,  # the names of torch.nn.functional.batch_norm
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = w x^ + b with x^ = (x - mean) / std of each channel, as ``torch.nn.functional.batch_norm``.

    For tangents dx, dw and db of the arguments, the tangent of y is
        dy = w / std (dx - mean(dx) - x^ mean(x^ dx)) + dw x^ + db.
    With running averages, which are constants, the two means are zero.
    """
    (x, dx), (w, dw), (b, db) = forward_ad.unpack_dual(input), _unpack(weight), _unpack(bias)
    y: Tensor = functional.batch_norm(x, running_mean, running_var, w, b, training, momentum, eps)
    wide, shape = torch.promote_types(x.dtype, torch.float32), (1, -1, *[1] * (x.ndim - 2))
    over = [dim for dim in range(x.ndim) if dim != 1]
    if training or running_mean is None or running_var is None:
        var, mean = torch.var_mean(x.to(wide), over, correction=0, keepdim=True)
    else:
        var, mean = running_var.view(shape), running_mean.view(shape)
    centred, scale = x.to(wide) - mean, (var + eps).rsqrt()
    # dy = of_x dx + of_centred (x - mean) + constant, with one coefficient of each kind per channel.
    of_x = scale if w is None else scale * w.view(shape)
    of_centred = 0 * scale if dw is None else scale * dw.view(shape)
    constant = 0 * scale if db is None else db.view(shape).to(wide)
    if dx is not None:
        dx = dx.to(wide)
        if training:
            of_centred = of_centred - of_x * scale.square() * (centred * dx).mean(over, keepdim=True)
            constant = constant - of_x * dx.mean(over, keepdim=True)
        constant = torch.addcmul(constant, of_x, dx)
    dual: Tensor = forward_ad.make_dual(y, torch.addcmul(constant, of_centred, centred).to(y.dtype))
    return dual


def _unpack(value: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if value is None else forward_ad.unpack_dual(value)
