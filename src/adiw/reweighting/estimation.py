"""One round of weight estimation: a few projected-gradient steps, warm-started from what came before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor

from adiw.arguments import check_count
from adiw.divergences import Divergence, Learner, Problem, learns, resolve
from adiw.matching.batches import MatchedBatches, finite_part, match
from adiw.matching.groups import masked


@dataclass(frozen=True)
class State:
    """What an estimate starts from: pass the last one back to go on from there."""

    params: Tensor  # (n,) weights or (m,) coefficients, as the divergence's side says; nan where never estimated
    memory: Mapping[str, Tensor] = field(default_factory=dict)  # of a divergence that learns


@dataclass(frozen=True)
class EstimationResult:
    """The round that was run: enough to evaluate its objective and gradients later, when somebody asks."""

    problem: Problem
    start: Tensor
    end: Tensor
    memory: Mapping[str, Tensor]


def estimate_weights(
    z_train: Tensor,
    z_val: Tensor,
    divergence: str | Divergence = "kl",
    steps: int = 1,
    state: State | None = None,
    generator: Generator | None = None,
) -> tuple[Tensor, State]:
    """Weights of a training batch that bring it closer to a validation batch, and the state to go on from.

    Args:
        z_train: (n,) losses or (n, d) features of the training batch.
        z_val: (m,) or (m, d), the same of the validation batch.
        divergence: a name in ``adiw.DIVERGENCES`` or an instance.
        steps: T, projected-gradient steps.
        state: from the last call with the same samples in the same order; None starts afresh.
        generator: the randomness of divergences that need it (the critic network).

    Returns:
        weights (n,), zero for samples whose z is not finite, and the new state.

    >>> weights, state = estimate_weights(torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2]))
    >>> weights, state = estimate_weights(torch.tensor([0.1, 0.1, 6.0]), torch.tensor([0.1, 0.2]), state=state)
    >>> [round(w, 2) for w in weights.tolist()]
    [1.5, 1.5, 0.0]
    """
    z_train, z_val = _check(z_train, z_val)
    check_count("steps", steps, least=1)
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a torch.Generator or None, got {generator!r}")
    divergence = resolve(divergence)
    batches = match(z_train.detach(), z_val.detach())
    size = len(z_train if divergence.side == "train" else z_val)
    if state is None:
        state = State(z_train.new_full((size,), float("nan")))
    if not isinstance(state, State) or not isinstance(state.params, Tensor):
        raise TypeError(f"state must be the one that the last call returned, or None, got {state!r}")
    if state.params.shape != (size,):
        raise ValueError(
            f"state holds {len(state.params)} parameters, but this divergence has one per "
            f"{divergence.side} sample and the batch has {size}: pass the state of the same samples, or None"
        )
    done = run_round(divergence, batches, state.params, state.memory, steps, generator or _generator(z_train))
    weights = torch.where(batches.used_train, done.problem.weights(done.end), 0)  # a copy: they are the caller's
    return weights, State(masked(batches.taking_part(divergence.side), done.end, state.params), done.memory)


def run_round(
    divergence: Divergence,
    batches: MatchedBatches,
    params: Tensor,
    memory: Mapping[str, Tensor],
    steps: int,
    generator: Generator,
    all_known: bool = False,
) -> EstimationResult:
    """T steps of params <- project(params - eta gradient) from ``params``; what is no number there starts afresh.

    ``all_known`` promises that all are numbers.
    """
    with torch.no_grad():
        known = None if all_known else finite_part(params)
        if learns(divergence):
            memory = memory or start_memory(divergence, batches, generator)
            if memory:
                memory = divergence.learn(batches, masked(known, params, 1), memory, generator)
                batches = replace(batches, memory=memory)
        problem = divergence.problem(batches)
        start = params if known is None else torch.where(known, params, problem.initial())
        end = descend(problem, start, divergence.step_size, steps)
        return EstimationResult(problem, start, masked(batches.taking_part(divergence.side), end, start), memory)


def start_memory(divergence: Learner, batches: MatchedBatches, generator: Generator) -> dict[str, Tensor]:
    """The first memory of a divergence that learns, for z shaped as in this pair."""
    return divergence.start(batches.z_train.shape[1], batches.num_groups, batches.z_train, generator)


def descend(problem: Problem, params: Tensor, step_size: float, steps: int) -> Tensor:
    """W <- project(W - eta dJ/dW), ``steps`` times."""
    scale: Tensor | None = getattr(problem, "step_scale", None)
    for _ in range(steps):
        step = problem.gradient(params) if scale is None else scale * problem.gradient(params)
        params = problem.project(params.sub(step, alpha=step_size))
    return params


def _check(z_train: Tensor, z_val: Tensor) -> tuple[Tensor, Tensor]:
    """Both as (., d) of one float dtype on one device, or an error that says which is off."""
    for name, z in (("z_train", z_train), ("z_val", z_val)):
        if not isinstance(z, Tensor) or not z.is_floating_point():
            kind = z.dtype if isinstance(z, Tensor) else type(z).__name__
            raise TypeError(f"{name} must be a floating-point tensor, got {kind}")
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


def _generator(like: Tensor) -> Generator:
    generator = Generator(like.device)
    generator.manual_seed(0)
    return generator
