"""``adiw.estimate_weights``: the step on tensors, for people who keep their own state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from adiw.argument_checks import check_count, kind_of
from adiw.divergences import Divergence, resolve
from adiw.matching.batches import match
from adiw.reweighting.divergence_estimator import run_estimation


@dataclass(frozen=True)
class State:
    """What an estimate starts from: pass it to the next call to continue."""

    params: Tensor  # (n,) weights if the divergence's side is "train", else (m,) coefficients; nan: not estimated yet
    memory: Mapping[str, Tensor] = field(default_factory=dict)  # of a divergence that learns


def estimate_weights(
    z_train: Tensor,
    z_val: Tensor,
    divergence: str | Divergence = "kl",
    steps: int = 1,
    state: State | None = None,
    generator: Generator | None = None,
) -> tuple[Tensor, State]:
    """Weights of a training batch that bring it closer to a validation batch, and the state for the next call.

    Args:
        z_train: (n,) losses or (n, d) features of the training batch.
        z_val: (m,) or (m, d), the same of the validation batch.
        divergence: a name in ``adiw.DIVERGENCES`` or an instance.
        steps: T, projected-gradient steps.
        state: the one returned by the last call with the same samples in the same order; None to start.
        generator: the randomness of divergences that need it (the critic network).

    Returns:
        weights (n,), zero for samples whose z is not finite, and the new state.

    >>> weights, state = estimate_weights(torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2]))
    >>> weights, state = estimate_weights(torch.tensor([0.1, 0.1, 6.0]), torch.tensor([0.1, 0.2]), state=state)
    >>> [round(w, 2) for w in weights.tolist()]
    [1.5, 1.5, 0.0]
    """
    z_train, z_val = _check_z(z_train, z_val)
    check_count("steps", steps, least=1)
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a torch.Generator or None, got {generator!r}")
    divergence = resolve(divergence)
    batches = match(z_train.detach(), z_val.detach())
    size = len(z_train if divergence.side == "train" else z_val)
    state = _check_state(state, size, divergence, z_train)
    generator = Generator(z_train.device).manual_seed(0) if generator is None else generator
    with torch.no_grad():
        result = run_estimation(divergence, batches, state.params, state.memory, steps, generator)
    weights = torch.where(batches.included_train, result.weights, 0)  # a copy for the caller
    return weights, State(result.params, result.memory)


def _check_state(state: State | None, size: int, divergence: Divergence, like: Tensor) -> State:
    """The given state, or a first one of nan: (size,)."""
    if state is None:
        return State(like.new_full((size,), float("nan")))
    if not isinstance(state, State) or not isinstance(state.params, Tensor):
        raise TypeError(f"state must be the one returned by the last call, or None, got {state!r}")
    if state.params.shape != (size,):
        raise ValueError(
            f"state holds {len(state.params)} parameters, but this divergence has one per "
            f"{divergence.side} sample and the batch has {size}: pass the state of the same samples, or None"
        )
    return State(state.params.to(like.dtype), state.memory)


def _check_z(z_train: Tensor, z_val: Tensor) -> tuple[Tensor, Tensor]:
    """z_train (n, d) and z_val (m, d) in one floating-point dtype; raise if a shape, dtype or device is wrong."""
    for name, z in (("z_train", z_train), ("z_val", z_val)):
        if not isinstance(z, Tensor) or not z.is_floating_point():
            raise TypeError(f"{name} must be a floating-point tensor, got {kind_of(z)}")
        if z.ndim not in (1, 2) or z.numel() == 0:
            raise ValueError(f"{name} must be (n,) or (n, d) with at least one sample, got {tuple(z.shape)}")
    z_train, z_val = (z[:, None] if z.ndim == 1 else z for z in (z_train, z_val))
    if z_train.shape[1] != z_val.shape[1]:
        raise ValueError(
            f"z_train has {z_train.shape[1]} numbers per sample and z_val {z_val.shape[1]}: they must agree"
        )
    if z_train.device != z_val.device:
        raise ValueError(f"z_train is on {z_train.device} and z_val on {z_val.device}: move one of them")
    dtype = torch.promote_types(torch.promote_types(z_train.dtype, z_val.dtype), torch.float32)
    return z_train.to(dtype), z_val.to(dtype)
