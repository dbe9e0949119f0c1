"""Jacobian-vector products (JVP) of per-sample losses: their derivatives along one direction of the parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.functional import jvp
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
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


Parameters = Mapping[str, Tensor]
LossesAt = Callable[[Parameters], Tensor]


def per_sample_jvp(losses_at: LossesAt, theta: Parameters, direction: Parameters) -> Tensor:
    """<direction, grad loss_i(theta)> for each sample i, (n,): one forward-mode pass, no graph.

    Raises NotImplementedError where an operator has no forward mode.

    Args:
        losses_at: parameters -> per-sample losses (n,).
        theta, direction: tensors of the same names and shapes.

    >>> theta, direction = {"a": torch.tensor(3.0)}, {"a": torch.tensor(2.0)}
    >>> per_sample_jvp(lambda p: p["a"] ** 2 * torch.tensor([1.0, -1.0]), theta, direction)
    tensor([ 12., -12.])
    """
    if not torch.compiler.is_compiling():
        _load_forward_mode()
    # Fused attention kernels have neither a forward mode nor second derivatives.
    with torch.no_grad(), forward_ad.dual_level(), sdpa_kernel(SDPBackend.MATH), BatchNormTangents():
        dual = {name: forward_ad.make_dual(value, direction[name]) for name, value in theta.items()}
        products: Tensor | None = forward_ad.unpack_dual(losses_at(dual)).tangent
    if products is None:
        raise NotImplementedError("the losses have no tangents: an operator of the model dropped them (forward AD)")
    return products


def jvp_by_double_backward(losses_at: LossesAt, theta: Parameters, direction: Parameters) -> Tensor:
    """The same as ``per_sample_jvp`` by two backward passes, for operators without forward mode.

    >>> theta, direction = {"a": torch.tensor(3.0)}, {"a": torch.tensor(2.0)}
    >>> jvp_by_double_backward(lambda p: p["a"] ** 2 * torch.tensor([1.0, -1.0]), theta, direction)
    tensor([ 12., -12.])
    """

    def losses(*values: Tensor) -> Tensor:
        return losses_at(dict(zip(theta, values, strict=True)))

    # cuDNN's recurrent layers have no second derivative either.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.cudnn.flags(enabled=False):
        _, products = jvp(losses, tuple(theta.values()), tuple(direction[name] for name in theta))
    found: Tensor = products
    return found


@cache
def _load_forward_mode() -> None:
    """Let PyTorch load its forward-mode rules, and hide the deprecation warning that it raises about itself."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.filterwarnings("ignore", r"`torch\.jit")  # a DeprecationWarning, from 2.15 a FutureWarning
        forward_ad.make_dual(torch.zeros(()), torch.zeros(()))


def lacks_forward_mode(error: RuntimeError) -> bool:
    """Whether forward mode is missing (NotImplementedError is a RuntimeError)."""
    return isinstance(error, NotImplementedError) or "forward AD" in str(error)
