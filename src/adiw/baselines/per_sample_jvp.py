"""Jacobian-vector products (JVP) of per-sample losses: their derivatives along one direction of the parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from adiw.baselines.batch_norm_jvp import BatchNormTangents

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

    J'u is linear in u, so for any u the derivative of <J'u, direction> by u is J direction.

    >>> theta, direction = {"a": torch.tensor(3.0)}, {"a": torch.tensor(2.0)}
    >>> jvp_by_double_backward(lambda p: p["a"] ** 2 * torch.tensor([1.0, -1.0]), theta, direction)
    tensor([ 12., -12.])
    """
    # cuDNN's recurrent layers have no second derivative either.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.cudnn.flags(enabled=False):
        leaves = {name: value.detach().requires_grad_() for name, value in theta.items()}
        losses = losses_at(leaves)
        u = torch.zeros_like(losses, requires_grad=True)
        pulled = torch.autograd.grad(losses, list(leaves.values()), u, create_graph=True, allow_unused=True)
        pairs = [(g, direction[name]) for g, name in zip(pulled, leaves, strict=True) if g is not None]
        (products,) = torch.autograd.grad([g for g, _ in pairs], u, [v for _, v in pairs])
    return products


@cache
def _load_forward_mode() -> None:
    """Let PyTorch load its forward-mode rules, and hide the deprecation warning that it raises about itself."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.filterwarnings("ignore", r"`torch\.jit")  # a DeprecationWarning, from 2.15 a FutureWarning
        forward_ad.make_dual(torch.zeros(()), torch.zeros(()))


def lacks_forward_mode(error: RuntimeError) -> bool:
    """Whether forward mode is missing (NotImplementedError is a RuntimeError)."""
    return isinstance(error, NotImplementedError) or "forward AD" in str(error)
