"""estimate_weights: valid and invalid arguments, and calls that continue from the state of the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from adiw import DIVERGENCES, State, estimate_weights
from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein
from adiw.matching.batches import match
from adiw.matching.weight_limits import NEGLIGIBLE
from adiw.reweighting.divergence_estimator import descend, run_estimation

NAN, INF = float("nan"), float("inf")
Z_TRAIN = torch.tensor([0.1, 0.2, 0.4, 3.0, 5.0])
Z_VAL = torch.tensor([0.1, 0.2, 0.3])
DETERMINISTIC = [
    MMD(width=0.5),
    MMD(width="auto", slack=0.0),
    KL(),
    KL(update="optimum", step_size=0.1),
    KL(update="euclidean", step_size=0.1),
    Squared(width=0.5, step_size=0.1),
    Wasserstein(),
    Wasserstein(scale="auto"),
]
every_deterministic = pytest.mark.parametrize("divergence", DETERMINISTIC, ids=str)


@pytest.mark.parametrize(
    ("z_train", "z_val", "error", "message"),
    [
        ([0.1], Z_VAL, TypeError, "z_train must be a floating-point tensor, got list"),
        (Z_TRAIN, None, TypeError, "z_val must be a floating-point tensor, got NoneType"),
        (torch.tensor([1, 2]), Z_VAL, TypeError, r"z_train must be a floating-point tensor, got torch\.int64"),
        (Z_TRAIN, torch.tensor([True]), TypeError, r"z_val must be a floating-point tensor, got torch\.bool"),
        (Z_TRAIN.to(torch.complex64), Z_VAL, TypeError, r"got torch\.complex64"),
        (torch.tensor(0.5), Z_VAL, ValueError, r"z_train must be \(n,\) or \(n, d\) .* got \(\)"),
        (torch.zeros(2, 3, 4), Z_VAL, ValueError, r"got \(2, 3, 4\)"),
        (torch.zeros(0), Z_VAL, ValueError, r"z_train .* at least one sample, got \(0,\)"),
        (Z_TRAIN, torch.zeros(0, 1), ValueError, r"z_val .* at least one sample, got \(0, 1\)"),
        (torch.zeros(3, 0), torch.zeros(3, 0), ValueError, r"got \(3, 0\)"),
        (torch.zeros(3, 2), Z_VAL, ValueError, "z_train has 2 numbers per sample and z_val 1: they must agree"),
        (torch.zeros(3, 2), torch.zeros(4, 5), ValueError, "z_train has 2 numbers per sample and z_val 5"),
        (Z_TRAIN, torch.zeros(3, device="meta"), ValueError, "z_train is on cpu and z_val on meta: move one"),
    ],
)
def test_bad_batches(z_train: Any, z_val: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        estimate_weights(z_train, z_val)


@pytest.mark.parametrize("steps", [0, -1])
def test_bad_steps(steps: int) -> None:
    with pytest.raises(ValueError, match=f"steps must be at least 1, got {steps}"):
        estimate_weights(Z_TRAIN, Z_VAL, steps=steps)


def test_bad_divergences() -> None:
    with pytest.raises(ValueError, match="unknown divergence 'kll': expected one of 'kl', "):
        estimate_weights(Z_TRAIN, Z_VAL, "kll")
    with pytest.raises(TypeError, match=r"instance such as KL\(\)"):
        estimate_weights(Z_TRAIN, Z_VAL, KL)


@pytest.mark.parametrize(("divergence", "size", "side"), [("kl", 3, "val"), ("mmd", 5, "train")])
def test_state_of_other_samples(divergence: str, size: int, side: str) -> None:
    for wrong in (size - 1, size + 1, 0):
        with pytest.raises(ValueError, match=f"state holds {wrong} parameters.*one per {side} sample.*has {size}"):
            estimate_weights(Z_TRAIN, Z_VAL, divergence, state=State(torch.ones(wrong)))
    with pytest.raises(ValueError, match="state holds"):
        estimate_weights(Z_TRAIN, Z_VAL, divergence, state=State(torch.ones(size, 1)))


@pytest.mark.parametrize("name", DIVERGENCES)
def test_vectors_of_length_one_are_scalars(name: str) -> None:
    flat, _ = estimate_weights(Z_TRAIN, Z_VAL, name, steps=2)
    column, _ = estimate_weights(Z_TRAIN[:, None], Z_VAL[:, None], name, steps=2)
    mixed, _ = estimate_weights(Z_TRAIN, Z_VAL[:, None], name, steps=2)
    assert torch.equal(flat, column)
    assert torch.equal(flat, mixed)
    assert flat.shape == (5,)


@pytest.mark.parametrize(
    ("train", "val", "result"),
    [
        (torch.float16, torch.float16, torch.float32),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float32, torch.float64, torch.float64),
        (torch.float64, torch.float64, torch.float64),
    ],
)
def test_dtypes(train: torch.dtype, val: torch.dtype, result: torch.dtype) -> None:
    """Half precision is too coarse for a kernel: at least float32."""
    weights, state = estimate_weights(Z_TRAIN.to(train), Z_VAL.to(val), "kl")
    assert weights.dtype == state.params.dtype == result


@pytest.mark.parametrize("divergence", ["kl", "mmd"])
def test_a_state_of_another_dtype_goes_on_in_that_of_the_losses(divergence: str) -> None:
    z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    _, state = estimate_weights(z_train.double(), z_val, divergence)
    weights, again = estimate_weights(z_train, z_val, divergence, state=state)
    assert weights.dtype == again.params.dtype == torch.float32


def test_no_gradient_flows_and_nothing_is_changed() -> None:
    z_train, z_val = Z_TRAIN.clone().requires_grad_(), Z_VAL.clone().requires_grad_()
    for name in DIVERGENCES:
        weights, state = estimate_weights(z_train, z_val, name)
        assert not weights.requires_grad
        assert not state.params.requires_grad
    assert torch.equal(z_train, Z_TRAIN)
    assert torch.equal(z_val, Z_VAL)


@every_deterministic
def test_two_calls_of_one_step_equal_one_call_of_two(divergence: Divergence) -> None:
    once, state = estimate_weights(Z_TRAIN, Z_VAL, divergence, steps=1)
    kept = state.params.clone()
    again, last = estimate_weights(Z_TRAIN, Z_VAL, divergence, steps=1, state=state)
    twice, expected = estimate_weights(Z_TRAIN, Z_VAL, divergence, steps=2)
    assert torch.equal(again, twice)
    assert torch.equal(last.params, expected.params)
    assert torch.equal(state.params, kept), "the state that was passed in was changed"
    assert not torch.equal(once, twice)


def test_the_network_continues_from_its_state_and_generator() -> None:
    """The critic is trained once per call, so the same calls from the same state give the same weights."""
    divergence = Wasserstein("network", pretrain=0)

    def rounds(count: int, state: State | None, generator: torch.Generator) -> tuple[Tensor, State]:
        weights = Z_TRAIN
        for _ in range(count):
            weights, state = estimate_weights(Z_TRAIN, Z_VAL, divergence, state=state, generator=generator)
        assert state is not None
        return weights, state

    through, _ = rounds(4, None, torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(1)
    _, half = rounds(2, None, generator)
    resumed, _ = rounds(2, half, generator)
    assert torch.equal(through, resumed)
    other, _ = rounds(4, None, torch.Generator().manual_seed(2))
    assert not torch.equal(through, other)


def test_the_global_generator_does_not_change() -> None:
    before = torch.random.get_rng_state()
    estimate_weights(Z_TRAIN, Z_VAL, Wasserstein("network", pretrain=0))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("divergence", [*DETERMINISTIC, Wasserstein("network", pretrain=0)], ids=str)
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_samples_that_are_not_finite(divergence: Divergence, value: float) -> None:
    """On either side: their weight is zero and the others do not change; only the state has a nan."""
    z_train, z_val = torch.cat([Z_TRAIN, torch.tensor([value])]), torch.cat([torch.tensor([value]), Z_VAL])
    found, state = estimate_weights(z_train, z_val, divergence, steps=2)
    assert float(found[-1]) == 0
    assert bool(found.isfinite().all())
    membership_train = divergence.side == "train"
    assert bool(state.params[-1 if membership_train else 0].isnan()), "never estimated"
    if not state.memory:  # the network draws other random numbers for other sizes
        expected, alone = estimate_weights(Z_TRAIN, Z_VAL, divergence, steps=2)
        assert_close(found[:-1], expected, rtol=1e-5, atol=1e-6)
        assert_close(state.params[:-1] if membership_train else state.params[1:], alone.params, rtol=1e-5, atol=1e-6)


@every_deterministic
def test_an_excluded_sample_keeps_its_parameter(divergence: Divergence) -> None:
    _, before = estimate_weights(Z_TRAIN, Z_VAL, divergence)
    z_train, z_val = Z_TRAIN.clone(), Z_VAL.clone()
    z_train[1] = z_val[1] = NAN
    weights, after = estimate_weights(z_train, z_val, divergence, state=before)
    assert torch.equal(after.params[1], before.params[1])
    assert bool(weights.isfinite().all())
    assert float(weights[1]) == 0


@pytest.mark.parametrize("name", DIVERGENCES)
def test_nothing_to_compare(name: str) -> None:
    weights, state = estimate_weights(torch.full((3,), NAN), Z_VAL, name)
    assert weights.tolist() == [0.0] * 3
    assert bool(state.params.isnan().all())


def test_new_samples_start_from_the_initial_value() -> None:
    """nan in the state means not estimated yet: these samples start from the problem's initial value."""
    params = torch.tensor([0.5, NAN, 1.5, NAN, 0.2])
    divergence = MMD(width=0.5)
    done = run_estimation(divergence, match(Z_TRAIN[:, None], Z_VAL[:, None]), params, {}, 1, torch.Generator())
    assert_close(done.start, torch.tensor([0.5, 1.0, 1.5, 1.0, 0.2]))
    assert_close(done.end, descend(done.problem, done.start, 0.1, 1))
    divergence = KL()
    done = run_estimation(
        divergence, match(Z_TRAIN[:, None], Z_VAL[:, None]), torch.tensor([0.1, NAN, 2.0]), {}, 1, torch.Generator()
    )
    assert_close(done.start[[0, 2]], torch.tensor([0.1, 2.0]))
    assert_close(done.start[1], done.problem.initial()[1])


@every_deterministic
def test_a_result_can_be_evaluated_later(divergence: Divergence) -> None:
    """``end`` is finite also for excluded samples, so objective and gradient can be evaluated there."""
    z_val = torch.cat([Z_VAL, torch.tensor([NAN])])
    batches = match(Z_TRAIN[:, None], z_val[:, None])
    size = len(Z_TRAIN) if divergence.side == "train" else len(z_val)
    done = run_estimation(divergence, batches, torch.full((size,), NAN), {}, 2, torch.Generator())
    for value in (done.end, done.problem.objective(done.end), done.problem.gradient(done.end)):
        assert bool(value.isfinite().all())


def test_descend_is_steps_of_project_after_gradient() -> None:
    problem = MMD(width=0.5, step="plain").problem(match(Z_TRAIN[:, None], Z_VAL[:, None]))
    params = torch.linspace(0.5, 1.5, 5)
    expected = params
    for _ in range(3):
        expected = problem.project(expected - 0.07 * problem.gradient(expected))
    assert_close(descend(problem, params, 0.07, 3), expected)
    assert torch.equal(descend(problem, params, 0.07, 0), params)


def test_the_first_estimate_starts_the_memory_of_a_divergence_that_learns() -> None:
    batches = match(Z_TRAIN[:, None], Z_VAL[:, None])

    def memory(divergence: Divergence) -> Mapping[str, Tensor]:
        size = Z_TRAIN if divergence.side == "train" else Z_VAL
        return run_estimation(divergence, batches, torch.full_like(size, torch.nan), {}, 1, torch.Generator()).memory

    assert memory(KL()) == memory(Wasserstein()) == {}
    learnt = memory(Wasserstein("network"))
    assert learnt["theta"].dtype == torch.float32
    assert int(learnt["batches"]) == 1


def test_the_step_size_is_used() -> None:
    small, _ = estimate_weights(Z_TRAIN, Z_VAL, Wasserstein(step_size=1e-4))
    large, _ = estimate_weights(Z_TRAIN, Z_VAL, Wasserstein(step_size=2e-4))
    assert_close(large - 1, 2 * (small - 1), rtol=1e-2, atol=1e-7)


def test_a_local_step_converges_to_the_density_ratio_where_a_plain_one_overshoots() -> None:
    """Half of the training losses and nine tenths of the validation losses are alike: the ratio there is 1.8."""
    z_train = torch.cat([torch.zeros(100), torch.arange(100) + 1.0])
    z_val = torch.cat([torch.zeros(90), torch.arange(10) * 10 + 1.0])
    results = {}
    for step in ("plain", "local"):
        state = None
        for _ in range(60):
            weights, state = estimate_weights(z_train, z_val, MMD(step_size=0.1, step=step), state=state)
        results[step] = weights
    assert_close(results["local"][:100], torch.full((100,), 1.8), rtol=0.02, atol=0.0)
    assert float(results["local"][101]) < 0.05  # no validation sample is near
    assert float((results["plain"][:100] - 1.8).abs().min()) > 0.5


@pytest.mark.parametrize("divergence", sorted(DIVERGENCES))
def test_nonfinite_parameters_of_a_state_count_as_not_estimated(divergence: str) -> None:
    z_train, z_val = torch.tensor([0.1, 0.2, 3.0]), torch.tensor([0.1, 0.2, 0.4])
    infinite = torch.tensor([0.5, float("inf"), 0.7])
    nan = torch.tensor([0.5, float("nan"), 0.7])
    weights, expected = (estimate_weights(z_train, z_val, divergence, state=State(x))[0] for x in (infinite, nan))
    assert weights.isfinite().all()
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("state", [3, Z_TRAIN, State(None)])  # type: ignore[arg-type]
def test_invalid_states(state: Any) -> None:
    with pytest.raises(TypeError, match="state must be the one returned by the last call, or None"):
        estimate_weights(Z_TRAIN, Z_VAL, "kl", state=state)


@every_deterministic
def test_the_weights_are_a_copy(divergence: Divergence) -> None:
    weights, state = estimate_weights(Z_TRAIN, Z_VAL, divergence)
    kept = state.params.clone()
    weights.fill_(-1)
    assert torch.equal(state.params, kept)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every_deterministic
def test_vmap_over_batches(divergence: Divergence) -> None:
    """Within torch.vmap the host cannot read a number."""
    z_train, z_val = torch.rand(3, 5), torch.rand(3, 4)
    found = torch.vmap(lambda train, val: estimate_weights(train, val, divergence)[0])(z_train, z_val)
    one_by_one = [estimate_weights(*both, divergence)[0] for both in zip(z_train, z_val, strict=True)]
    assert_close(found, torch.stack(one_by_one))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_only_negligible_weights_become_zero(dtype: torch.dtype) -> None:
    """MMD's weights are its parameters, which a step this small changes by less than the smallest normal number."""
    given = torch.tensor([0.0, 1e-38, 0.9 * NEGLIGIBLE, 1.1 * NEGLIGIBLE, 5.0], dtype=dtype)
    z = torch.arange(5, dtype=dtype)[:, None]
    found = run_estimation(MMD(step_size=1e-37), match(z, z), given, {}, 1, torch.Generator())
    assert_close(found.end, given, rtol=0, atol=1e-36)
    assert torch.equal(found.weights, torch.where(torch.arange(5) < 3, 0, found.end))
