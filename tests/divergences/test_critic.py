"""The critic network against an ordinary PyTorch network, its optimiser, and double backward."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.testing import assert_close

from adiw import State, estimate_weights
from adiw.divergences import Wasserstein, critic
from adiw.divergences.critic_training import _draw, interpolate, train
from adiw.matching.batches import MatchedBatches, match
from adiw.reweighting.divergence_estimator import run_estimation

DIM, GROUPS = 3, 2
NAN = float("nan")


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def a_pair(dtype: torch.dtype = torch.float64) -> MatchedBatches:
    """Two classes of different sizes in mixed order, and one excluded sample on either side."""
    generator = seeded(1)
    z_train = torch.randn(9, DIM, generator=generator, dtype=torch.float64).to(dtype)
    z_val = 0.5 + torch.randn(7, DIM, generator=generator, dtype=torch.float64).to(dtype)
    z_train[4], z_val[0] = NAN, NAN
    return match(
        z_train, z_val, torch.tensor([0, 1, 1, 0, 0, 1, 0, 0, 1]), torch.tensor([0, 1, 0, 1, 1, 0, 0]), GROUPS
    )


def as_module(theta: Tensor, dim: int, groups: int) -> nn.Sequential:
    """The same network from PyTorch's own layers."""
    sizes = [(dim, critic.HIDDEN), (critic.HIDDEN, critic.HIDDEN), (critic.HIDDEN, groups)]
    layers, at = [], 0
    for fan_in, fan_out in sizes:
        layer = nn.Linear(fan_in, fan_out, dtype=theta.dtype)
        count = fan_in * fan_out
        with torch.no_grad():
            layer.weight.copy_(theta[at : at + count].view(fan_in, fan_out).T)
            layer.bias.copy_(theta[at + count : at + count + fan_out])
        layers += [layer, nn.ReLU()]
        at += count + fan_out
    assert at == len(theta)
    return nn.Sequential(*layers[:-1])


def flat_gradient(module: nn.Sequential) -> Tensor:
    """The gradients of a module made by ``as_module``, in the order of theta."""
    parts = []
    for layer in module:
        if isinstance(layer, nn.Linear):
            bias = layer.bias.grad if layer.bias.grad is not None else torch.zeros_like(layer.bias)
            parts += [layer.weight.grad.T.reshape(-1), bias]
    return torch.cat(parts)


def loss_of(
    batches: MatchedBatches, weights: Tensor | None = None, penalty: float = 10.0, unit: float | Tensor = 1.0
) -> critic.Loss:
    ones = torch.ones_like(batches.z_train[:, 0])
    return critic.Loss.build(batches, unit, ones if weights is None else weights, torch.tensor(penalty))


def points_of(batches: MatchedBatches, weights: Tensor | None = None, generator: Generator | None = None) -> Tensor:
    """Points between the samples, (n, dim), for one update."""
    ones = torch.ones_like(batches.z_train[:, 0])
    return interpolate(batches, ones if weights is None else weights, 1, generator or seeded())[0]


def slopes(theta: Tensor, z: Tensor, group: Tensor, groups: int) -> Tensor:
    """||grad_z Phi(z)||, (n,), by autograd."""
    z = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(critic.evaluate(theta, z, group, groups).sum(), z)
    return gradient.norm(dim=1)


def theta_for(batches: MatchedBatches, seed: int = 2) -> Tensor:
    return critic.start(batches.z_train.shape[1], batches.num_groups, batches.z_train, seeded(seed))["theta"]


def test_start_is_uniform_within_one_over_the_root_of_fan_in() -> None:
    memory = critic.start(DIM, GROUPS, torch.zeros(1, dtype=torch.float64), seeded())
    assert {key: (value.dtype, value.shape) for key, value in memory.items() if key in ("updates", "batches")} == {
        "updates": (torch.int64, ()),
        "batches": (torch.int64, ()),
    }
    for layer in as_module(memory["theta"], DIM, GROUPS):
        if isinstance(layer, nn.Linear):
            values = torch.cat([layer.weight.flatten(), layer.bias]).detach() * layer.in_features**0.5
            assert float(values.abs().max()) <= 1
            if len(values) > 200:  # uniform on [-1, 1]: variance 1 / 3, and the extremes are nearly reached
                assert float(values.abs().max()) > 0.95
                assert abs(float(values.var()) - 1 / 3) < 4 * (4 / 45 / len(values)) ** 0.5
    again = critic.start(DIM, GROUPS, torch.zeros(1, dtype=torch.float64), seeded())
    assert torch.equal(memory["theta"], again["theta"])


def test_evaluate_gives_each_sample_the_output_of_its_group() -> None:
    batches = a_pair()
    theta = theta_for(batches)
    outputs = as_module(theta, DIM, GROUPS)(batches.z_train)
    found = critic.evaluate(theta, batches.z_train, batches.group_train, GROUPS)
    for i, group in enumerate(batches.group_train.tolist()):
        if group >= 0:
            assert_close(found[i], outputs[i, group])


def reference_loss(
    module: nn.Sequential, batches: MatchedBatches, weights: Tensor, penalty: float, between: Tensor
) -> Tensor:
    """Eq. ADIW_wa_reg with the gradient penalty by double backward, group by group."""

    def phi(z: Tensor, group: Tensor) -> Tensor:
        return module(z)[torch.arange(len(z)), group.clamp_min(0)]

    gaps = []
    for group in range(batches.num_groups):
        rows, columns = batches.group_train == group, batches.group_val == group
        on_train = (weights * phi(batches.z_train, batches.group_train))[rows].mean()
        gaps.append(on_train - phi(batches.z_val, batches.group_val)[columns].mean())
    point = between.clone().requires_grad_()
    (slope,) = torch.autograd.grad(phi(point, batches.group_train).sum(), point, create_graph=True)
    used = batches.group_train >= 0
    return torch.stack(gaps).mean() + penalty * (slope[used].norm(dim=1) - 1).square().mean()


@pytest.mark.parametrize("penalty", [0.0, 10.0])
def test_gradient_of_the_loss_is_that_of_double_backward(penalty: float) -> None:
    batches = a_pair()
    weights = torch.rand(9, generator=seeded(3), dtype=torch.float64) + 0.5
    between = points_of(batches, weights, seeded(4))
    theta = theta_for(batches)
    module = as_module(theta, DIM, GROUPS)
    reference_loss(module, batches, weights, penalty, between).backward()
    loss = loss_of(batches, weights, penalty)
    assert_close(loss.gradient(theta, between), flat_gradient(module))
    assert loss.share.dtype == torch.float64


def test_unit_divides_every_z() -> None:
    batches, ones = a_pair(), torch.ones(9, dtype=torch.float64)
    scaled = replace(batches, z_train=batches.z_train * 4, z_val=batches.z_val * 4)
    memory = critic.start(DIM, GROUPS, batches.z_train, seeded())
    penalty, unit = torch.tensor(10.0), torch.tensor(4.0, dtype=torch.float64)
    expected = train(batches, 1.0, ones, memory, penalty, 3, 0.01, seeded(1))["theta"]
    for four in (4.0, unit):
        assert_close(train(scaled, four, ones, memory, penalty, 3, 0.01, seeded(1))["theta"], expected)


def test_updates_are_those_of_adam() -> None:
    """Three batches of two updates each; every update has its own points."""
    batches, weights = a_pair(), torch.linspace(0.2, 1.8, 9, dtype=torch.float64)
    memory = critic.start(DIM, GROUPS, batches.z_train, seeded())
    first = memory["theta"]
    theirs = first.clone().requires_grad_()
    adam = torch.optim.Adam([theirs], lr=0.01)
    ours, again = seeded(7), seeded(7)
    loss, penalty = loss_of(batches, weights), torch.tensor(10.0)
    for batch in range(1, 4):
        for between in interpolate(batches, weights, 2, again):
            theirs.grad = loss.gradient(theirs.detach(), between)
            adam.step()
        memory = train(batches, 1.0, weights, memory, penalty, 2, 0.01, ours)
        assert int(memory["updates"]) == 2 * batch
        assert_close(memory["theta"], theirs.detach())
    assert_close(memory["mean"], adam.state[theirs]["exp_avg"])
    assert_close(memory["square"], adam.state[theirs]["exp_avg_sq"])
    assert float((memory["theta"] - first).abs().max()) > 0.01


def test_objective_is_the_distance_under_the_critic() -> None:
    """n E_val[Phi] - sum_i w_i Phi(z_i), summed over the groups."""
    batches = a_pair()
    divergence = Wasserstein("network", 1.0, pretrain=0)
    ones, weights = torch.ones(9, dtype=torch.float64), torch.linspace(0.2, 1.8, 9, dtype=torch.float64)
    memory = divergence.learn(batches, ones, divergence.start(DIM, GROUPS, batches.z_train, seeded()), seeded())
    module = as_module(memory["theta"], DIM, GROUPS)
    expected = torch.zeros((), dtype=torch.float64)
    for group in range(GROUPS):
        rows, columns = batches.group_train == group, batches.group_val == group
        with torch.no_grad():
            phi, phi_val = module(batches.z_train[rows])[:, group], module(batches.z_val[columns])[:, group]
        expected += rows.sum() * phi_val.mean() - weights[rows] @ phi
    assert_close(divergence.problem(replace(batches, memory=memory)).objective(weights), expected)


def many_draws(weights: Tensor, group_train: Tensor, group_val: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
    """How often each training (validation) sample is the partner of each row: (n, n) and (n, m) counts.

    z are the corners of a simplex in six dimensions, so that a point on a line names its ends.
    """
    n, m = len(group_train), len(group_val)
    z = torch.eye(n + m, dtype=torch.float64)
    batches = match(z[:n], z[n:], group_train, group_val, int(group_train.max()) + 1)
    generator = seeded(11)
    train_counts, val_counts = torch.zeros(n, n), torch.zeros(n, m)
    for _ in range(rounds):
        between = points_of(batches, weights, generator)
        assert_close(between.sum(1), torch.ones(n, dtype=torch.float64))
        train_counts[torch.arange(n), between[:, :n].argmax(1)] += 1
        val_counts[torch.arange(n), between[:, n:].argmax(1)] += 1
    return train_counts, val_counts


def test_partners_are_drawn_in_proportion_to_the_weights_from_the_same_group() -> None:
    """Counts of 2000 draws within four standard deviations of their binomial mean."""
    group_train, group_val = torch.tensor([0, 1, 0, 1, 0]), torch.tensor([1, 0, 0, 1])
    weights = torch.tensor([0.5, 3.0, 2.5, 1.0, 0.0], dtype=torch.float64)
    rounds = 2000
    train_counts, val_counts = many_draws(weights, group_train, group_val, rounds)
    same = group_train[:, None] == group_train
    share = torch.where(same, weights, 0) / torch.where(same, weights, 0).sum(1, keepdim=True)
    bound = 4 * (rounds * share * (1 - share)).sqrt()
    assert bool(((train_counts - rounds * share).abs() <= bound).all()), train_counts
    same_val = group_train[:, None] == group_val
    share_val = same_val / same_val.sum(1, keepdim=True)
    bound_val = 4 * (rounds * share_val * (1 - share_val)).sqrt()
    assert bool(((val_counts - rounds * share_val).abs() <= bound_val).all()), val_counts


def test_a_group_whose_weights_are_all_zero_still_draws_from_itself() -> None:
    """All samples of a class in a batch may have a stored weight of zero."""
    group_train = torch.tensor([0, 1, 0, 1])
    weights = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    counts, _ = many_draws(weights, group_train, torch.tensor([0, 1]), 200)
    assert bool((counts[group_train[:, None] != group_train] == 0).all()), counts


def test_points_are_uniform_on_the_line() -> None:
    """The share of the validation sample: mean 1/2, variance 1/12, within four standard errors of 400 draws."""
    batches = match(torch.zeros(400, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
    part = points_of(batches, generator=seeded(5))[:, 0]
    assert float(part.min()) >= 0
    assert float(part.max()) <= 1
    assert abs(float(part.mean()) - 0.5) < 4 * (1 / 12 / 400) ** 0.5
    assert abs(float(part.var()) - 1 / 12) < 4 * (1 / 180 / 400) ** 0.5


@pytest.mark.parametrize("pretrain", [0, 3])
def test_weights_stand_still_while_the_critic_is_pretrained(pretrain: int) -> None:
    divergence = Wasserstein("network", 1.0, step_size=0.1, pretrain=pretrain, updates=2)
    z_train, z_val = torch.tensor([0.1, 0.5, 4.0, 5.0]), torch.tensor([0.1, 0.3])
    state, generator = None, seeded()
    for batch in range(1, pretrain + 3):
        weights, state = estimate_weights(z_train, z_val, divergence, state=state, generator=generator)
        assert int(state.memory["batches"]) == batch
        assert int(state.memory["updates"]) == 2 * batch
        moved = not torch.equal(weights, torch.ones(4))
        assert moved == (batch > pretrain), f"batch {batch}"


def test_pretraining_has_no_gradient_penalty() -> None:
    """A large penalty has no effect in the first batches, and has one later."""
    batches, ones = a_pair(), torch.ones(9, dtype=torch.float64)
    plain, heavy = (Wasserstein("network", 1.0, penalty=p, pretrain=2, updates=1) for p in (0.0, 1e3))
    first = second = plain.start(DIM, GROUPS, batches.z_train, seeded())
    for batch in range(4):
        first = plain.learn(batches, ones, first, seeded(batch))
        second = heavy.learn(batches, ones, second, seeded(batch))
        assert torch.equal(first["theta"], second["theta"]) == (batch < 2), f"batch {batch}"


def test_training_the_critic_lowers_its_loss_and_finds_the_sign() -> None:
    """On two separated populations the trained Phi is larger on the validation side."""
    z_train, z_val = torch.linspace(2, 4, 20)[:, None], torch.linspace(0, 1, 20)[:, None]
    batches, ones = match(z_train, z_val), torch.ones(20)
    divergence = Wasserstein("network", 1.0, pretrain=0, learning_rate=1e-2)
    generator = seeded(3)
    memory = divergence.start(1, 1, z_train, generator)
    between = points_of(batches, generator=seeded(4))
    before = reference_loss(as_module(memory["theta"], 1, 1), batches, ones, 10.0, between).item()
    for _ in range(60):
        memory = divergence.learn(batches, ones, memory, generator)
    after = reference_loss(as_module(memory["theta"], 1, 1), batches, ones, 10.0, between).item()
    assert after < before - 1  # the distance is 2.5: the trained loss is near -2.5
    phi_train, phi_val = (critic.evaluate(memory["theta"], z, batches.group_train, 1) for z in (z_train, z_val))
    assert float(phi_val.min()) > float(phi_train.max())
    steep = slopes(memory["theta"], between, batches.group_train, 1)
    assert abs(float(steep.mean()) - 1) < 0.2


def test_training_resumes_exactly_from_a_copy_of_the_memory() -> None:
    """Copied memory and parameters give the same results as the originals."""
    divergence = Wasserstein("network", 1.0, pretrain=1)
    batches = a_pair(torch.float32)
    generator = seeded()
    params, memory = torch.full((9,), NAN), {}
    for _ in range(3):
        done = run_estimation(divergence, batches, params, memory, 1, generator)
        params, memory = done.end, done.memory
    position = generator.get_state()
    straight = run_estimation(divergence, batches, params, memory, 2, generator)
    copy = {key: value.clone() for key, value in memory.items()}
    generator = Generator()
    generator.set_state(position)
    again = run_estimation(divergence, batches, params.clone(), copy, 2, generator)
    assert torch.equal(straight.end, again.end)
    assert straight.memory.keys() == again.memory.keys() == {"theta", "mean", "square", "updates", "batches"}
    for key in again.memory:
        assert torch.equal(straight.memory[key], again.memory[key]), key
        assert torch.equal(copy[key], memory[key]), f"{key} was changed in place"


def test_exact_critic_keeps_no_memory() -> None:
    _, state = estimate_weights(torch.tensor([0.1, 0.5]), torch.tensor([0.2]), Wasserstein("exact", 1.0))
    assert state.memory == {}


@pytest.mark.parametrize(("dim", "choice", "network"), [(1, "auto", False), (2, "auto", True), (1, "network", True)])
def test_auto_chooses_the_critic(dim: int, choice: str, network: bool) -> None:
    z = torch.zeros(3, dim)
    _, state = estimate_weights(z, z, Wasserstein(choice))
    assert bool(state.memory) == network


def test_exact_critic_of_vectors_is_an_error() -> None:
    with pytest.raises(ValueError, match=r'exact critic needs scalar z, got 2 numbers.*critic="network"'):
        estimate_weights(torch.zeros(3, 2), torch.zeros(3, 2), Wasserstein("exact", 1.0))


def test_the_critic_keeps_learning_after_an_extreme_loss() -> None:
    divergence = Wasserstein("network", 1.0, pretrain=0)
    z_val = torch.tensor([0.1, 0.2])
    _, state = estimate_weights(torch.tensor([0.1, 1e30]), z_val, divergence)
    state = State(torch.ones(2), state.memory)
    weights, _ = estimate_weights(torch.tensor([0.1, 0.5]), z_val, divergence, state=state)
    assert bool(weights.isfinite().all())


def test_the_network_is_the_papers() -> None:
    """dim-64-64-groups: 64 hidden units twice, with biases."""
    theta = critic.start(DIM, GROUPS, torch.zeros(1), seeded())["theta"]
    assert len(theta) == (DIM + 1) * 64 + (64 + 1) * 64 + (64 + 1) * GROUPS


def test_three_partners_are_drawn_in_proportion_too() -> None:
    """With two samples, some wrong ways of drawing give the right frequencies too. Four standard deviations."""
    weights, rounds = torch.tensor([4.0, 1.0, 1.0], dtype=torch.float64), 2000
    counts, _ = many_draws(weights, torch.zeros(3, dtype=torch.long), torch.zeros(1, dtype=torch.long), rounds)
    share = weights / weights.sum()
    assert bool(((counts - rounds * share).abs() <= 4 * (rounds * share * (1 - share)).sqrt()).all()), counts


def test_random_numbers_have_the_precision_of_z() -> None:
    batches = match(torch.zeros(50, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
    part = points_of(batches)
    assert bool((part.float().double() != part).any())


def test_all_tensors_are_made_on_the_device_of_z() -> None:
    """The meta device simulates a GPU; it has no generator of its own."""
    z = torch.zeros(4, 1, device="meta")
    memory = critic.start(1, 1, z, None)  # type: ignore[arg-type]
    assert {value.device.type for value in memory.values()} == {"meta"}
    batches = MatchedBatches(z, z, *(torch.ones(4, dtype=torch.bool, device="meta") for _ in range(2)))
    assert interpolate(batches, z[:, 0], 1, None).device.type == "meta"  # type: ignore[arg-type]
    learned = train(batches, 1.0, z[:, 0], memory, z[0, 0], 2, 0.1, None)  # type: ignore[arg-type]
    assert {value.device.type for value in learned.values()} == {"meta"}


@pytest.mark.parametrize("groups", [1, 2])
def test_excluded_samples_and_other_groups_are_never_drawn(groups: int) -> None:
    """Zero is the value of the running sum before the first sample of the group."""
    z = torch.tensor([[NAN], [1.0], [2.0], [3.0]])
    group = torch.tensor([0, 0, groups - 1, groups - 1])
    batches = match(z, z, group, group, groups)
    numbers = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64).expand(4, 2)
    first, last = _draw(torch.ones(4), batches, "train", numbers.contiguous())
    assert first[1:].tolist() == ([1, 1, 1] if groups == 1 else [1, 2, 2])
    assert last[1:].tolist() == ([3, 3, 3] if groups == 1 else [1, 3, 3])


def small_critic(
    first: list[float], first_bias: list[float], second: list[float], second_bias: float = 0.0
) -> Tensor:
    """z -> relu(w1 z + b1) -> relu(w2 . + b2) -> the first unit: all other parameters are zero."""
    layers = [torch.zeros(rows, columns, dtype=torch.float64) for rows, columns in ((2, 64), (65, 64), (65, 1))]
    layers[0][0, : len(first)], layers[0][1, : len(first)] = torch.tensor(first), torch.tensor(first_bias)
    layers[1][: len(second), 0], layers[1][64, 0], layers[2][0, 0] = torch.tensor(second), second_bias, 1.0
    return torch.cat([layer.reshape(-1) for layer in layers])


@pytest.mark.parametrize(
    ("theta", "on"),
    [
        (small_critic([1.0], [-1.0], [1.0], 1.0), 1 + 1e-6),
        (small_critic([1.0, 2.0], [0.0, -1.0], [1.0, -1.0]), 1 - 1e-6),
    ],
    ids=["of the first layer", "of the second layer"],
)
def test_at_a_kink_the_derivative_of_relu_is_zero(theta: Tensor, on: float) -> None:
    """As in autograd. Both networks have their kink at one, and a slope of one beside it.

    At a slope of one the penalty is minimal, and at a slope of zero its gradient is zero: theta does not change.
    """
    batches = match(torch.zeros(2, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64))
    points = torch.tensor([[1.0], [on]], dtype=torch.float64)
    assert slopes(theta, points, batches.group_train, 1).tolist() == [0.0, 1.0]
    change = loss_of(batches, penalty=1e3).gradient(theta, points) - loss_of(batches, penalty=0.0).gradient(
        theta, points
    )
    assert_close(change, torch.zeros_like(change))


def test_a_flat_critic_has_a_penalty_that_can_be_differentiated() -> None:
    batches = a_pair()
    theta = torch.zeros_like(theta_for(batches))
    assert bool(loss_of(batches).gradient(theta, batches.z_train).isfinite().all())


def test_the_penalty_of_one_sample_is_its_own() -> None:
    """The penalty is ten times the squared difference of the single slope from one."""
    batches = match(torch.tensor([[0.5]]).double(), torch.tensor([[0.2]]).double())
    theta, point = theta_for(batches), batches.z_train
    change = loss_of(batches).gradient(theta, point) - loss_of(batches, penalty=0.0).gradient(theta, point)
    direction, small = torch.randn(len(theta), generator=seeded(8), dtype=torch.float64), 1e-7
    ahead, behind = (
        10 * (slopes(theta + sign * small * direction, point, batches.group_train, 1)[0] - 1).square()
        for sign in (1, -1)
    )
    assert_close(change @ direction, (ahead - behind) / (2 * small), rtol=1e-5, atol=1e-6)


def test_an_extreme_sample_does_not_change_the_critic() -> None:
    batches, ones = match(torch.tensor([[0.1], [1e30]]), torch.tensor([[0.1], [0.2]])), torch.ones(2)
    memory = critic.start(1, 1, batches.z_train, seeded())
    after = train(batches, 1.0, ones, memory, torch.tensor(10.0), 2, 0.01, seeded())
    assert torch.equal(after["theta"], memory["theta"])
    assert int(after["updates"]) == 2


def test_the_problem_measures_z_in_units_of_the_scale() -> None:
    batches, weights = a_pair(), torch.linspace(0.2, 1.8, 9, dtype=torch.float64)
    memory = {"theta": theta_for(batches), "batches": torch.tensor(1)}
    wide = replace(batches, z_train=4 * batches.z_train, z_val=4 * batches.z_val, memory=memory)
    found = Wasserstein("network", scale=4.0, pretrain=0).problem(wide)
    expected = Wasserstein("network", 1.0, pretrain=0).problem(replace(batches, memory=memory))
    assert_close(found.objective(weights), expected.objective(weights))
    assert_close(found.gradient(weights), expected.gradient(weights))


def test_the_objective_is_zero_before_the_critic_is_ready() -> None:
    batches = a_pair()
    memory = {"theta": theta_for(batches), "batches": torch.tensor(2)}
    problem = Wasserstein("network", 1.0, pretrain=2).problem(replace(batches, memory=memory))
    assert problem.objective(torch.ones(9, dtype=torch.float64)).item() == 0


def test_pretraining_is_an_update_with_a_penalty_of_zero() -> None:
    batches, ones = a_pair(), torch.ones(9, dtype=torch.float64)
    divergence = Wasserstein("network", 1.0, pretrain=1, updates=1)
    memory = divergence.start(DIM, GROUPS, batches.z_train, seeded())
    learned = divergence.learn(batches, ones, memory, seeded(1))
    rate = divergence.learning_rate
    expected = train(batches, 1.0, ones, memory, torch.tensor(0.0), 1, rate, seeded(1))
    assert torch.equal(learned["theta"], expected["theta"])


@pytest.mark.parametrize("side", ["train", "val"])
def test_the_critic_learns_when_one_loss_is_nan(side: str) -> None:
    """In a single group of scalars, excluded samples have the largest z, which the network must ignore."""
    z, with_nan = torch.tensor([[0.1], [2.0], [0.7]]), torch.tensor([[0.2], [NAN], [0.9]])
    batches = match(with_nan, z) if side == "train" else match(z, with_nan)
    divergence = Wasserstein("network", 1.0, pretrain=0)
    memory = divergence.start(1, 1, z, seeded())
    learned = divergence.learn(batches, torch.ones(3), memory, seeded())
    assert not torch.equal(learned["theta"], memory["theta"])
    problem = divergence.problem(replace(batches, memory=learned))
    assert bool(problem.objective(torch.ones(3)).isfinite())
    assert bool(problem.gradient(torch.ones(3)).isfinite().all())


def test_a_network_uses_its_unit_for_large_z_too() -> None:
    """1e33 in units of 1000 is 1e30 in units of one: neither is too far for float32."""
    z = torch.tensor([[1e30], [-2e30], [3.0]])
    near, far = match(z, z[:2]), match(1000 * z, 1000 * z[:2])
    memory = critic.start(1, 1, z, seeded()) | {"batches": torch.tensor(1)}
    problems = [
        Wasserstein("network", scale=scale, pretrain=0).problem(replace(batches, memory=memory))
        for scale, batches in ((1.0, near), (1000.0, far))
    ]
    assert_close(problems[1].gradient(torch.ones(3)), problems[0].gradient(torch.ones(3)))


@pytest.mark.parametrize("far", ["train", "val"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_network_is_finite_on_the_largest_numbers(far: str, sign: int) -> None:
    z, most = torch.ones(4, DIM), sign * torch.finfo(torch.float32).max
    batches = match(z * most, z) if far == "train" else match(z, z * most)
    divergence, ones = Wasserstein("network", 1.0, pretrain=0), torch.ones(4)
    memory = divergence.learn(batches, ones, divergence.start(DIM, 1, z, seeded()), seeded())
    assert bool(memory["theta"].isfinite().all())
    problem = divergence.problem(replace(batches, memory=memory))
    assert bool(problem.gradient(ones).isfinite().all())
    assert bool(problem.objective(ones).isfinite())


def test_a_network_does_not_learn_from_excluded_samples() -> None:
    """The z of an excluded sample does not change the network."""
    divergence, ones = Wasserstein("network", 1.0, pretrain=0), torch.ones(4)
    group, z = torch.tensor([0, 0, 0, -1]), torch.linspace(-1, 1, 4 * DIM).view(4, DIM)
    learned = []
    for excluded in (0.0, 7.0, NAN):
        other = z.clone()
        other[3] = excluded
        batches = match(other, other, group, group)
        learned.append(divergence.learn(batches, ones, divergence.start(DIM, 1, z, seeded()), seeded())["theta"])
    assert_close(learned[1], learned[0])
    assert_close(learned[2], learned[0])
