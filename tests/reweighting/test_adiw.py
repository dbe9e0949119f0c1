"""ADIW as users call it: the loop, the loss, the warm-up, its state, and invalid arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adiw
from adiw import ADIW, DIVERGENCES
from adiw.divergences import KL, MMD, Energy, Relative, Sliced, Squared, Wasserstein

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
SETTINGS = {  # in place of the defaults, with steps that show in a few calls
    "mmd": MMD(width=0.3),
    "squared": Squared(width=0.3, step_size=0.1),
    "relative": Relative(width=0.3),
    "wasserstein": Wasserstein(scale=1.0, step_size=0.1),
    "energy": Energy(scale=1.0, step_size=0.3),
    "sliced": Sliced(scale=1.0, step_size=0.1),
}
ALL = [
    *(pytest.param(SETTINGS.get(name, kind()), id=name) for name, kind in DIVERGENCES.items()),
    pytest.param(Wasserstein("network", 1.0, step_size=0.1, pretrain=0, learning_rate=1e-2), id="network"),
]


class Echo(nn.Module):
    """A model whose output is its input. With ``echo_loss`` its loss is its input too, so that tests choose z."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.calls: list[bool] = []
        self.rows: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(self.training)
        self.rows.append(len(x))
        return self.scale * x


def echo_loss(outputs: Tensor, targets: object) -> Tensor:
    return outputs


VAL = torch.linspace(0.05, 1.0, 12)


def echo(num_train: int = 20, divergence: Any = "kl", **settings: Any) -> tuple[Echo, ADIW]:
    model = Echo()
    settings = {"warmup_steps": 0, "generator": Generator().manual_seed(0), "cautious": False, **settings}
    return model, ADIW(
        model, echo_loss, TensorDataset(VAL, VAL), num_train, divergence, **{"val_every": 1, **settings}
    )


def losses(count: int, seed: int = 0) -> Tensor:
    """(count,) losses: some like the validation losses, some far larger."""
    generator = Generator().manual_seed(seed)
    near, far = torch.rand(count, generator=generator), 3 + torch.rand(count, generator=generator)
    return torch.where(torch.arange(count) % 3 == 0, far, near)


def call(reweight: ADIW, values: Tensor, index: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
    """(loss, the weight of each sample in it): d loss / d loss_i = w_i / n."""
    outputs = values.clone().requires_grad_()
    loss = reweight(outputs, None, index, **more)
    loss.backward()
    assert outputs.grad is not None
    return loss.detach(), outputs.grad * len(values)


def test_the_readme_loop_separates_clean_from_mislabelled_samples() -> None:
    generator = Generator().manual_seed(4)
    true = torch.randint(3, (600,), generator=generator)
    x = 3 * torch.eye(3)[true] @ torch.randn(3, 10, generator=generator) + torch.randn(600, 10, generator=generator)
    wrong = torch.rand(600, generator=generator) < 0.4
    y = torch.where(wrong, (true + torch.randint(1, 3, (600,), generator=generator)) % 3, true)
    trusted = TensorDataset(x[:60], true[:60])
    torch.manual_seed(0)
    model, criterion = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)), CROSS_ENTROPY
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    train_set = adiw.Indexed(TensorDataset(x, y))
    reweight = adiw.ADIW(model, criterion, trusted, num_train=len(train_set), divergence="kl")
    for _ in range(8):
        for xs, ys, index in DataLoader(train_set, batch_size=100, shuffle=True, drop_last=True, generator=generator):
            loss = reweight(model(xs), ys, index)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    assert reweight.weights.shape == (600,)
    assert reweight.weights[~wrong].mean() > 1.3
    assert reweight.weights[wrong].mean() < 0.3
    assert (model(x).argmax(1) == true).float().mean() > 0.95


@pytest.mark.parametrize("divergence", ALL)
def test_the_loss_is_the_mean_of_weight_times_loss_not_divided_by_the_weights(divergence: Any) -> None:
    _, reweight = echo(divergence=divergence, cap=1.2)  # capped weights do not sum to n
    values, index = losses(9), torch.arange(9)
    for _ in range(3):
        loss, weights = call(reweight, values, index)
    torch.testing.assert_close(weights, reweight.weights[:9])
    torch.testing.assert_close(loss, (reweight.weights[:9] * values).mean())
    assert abs(float(weights.mean()) - 1) > 1e-3
    assert weights.std() > 1e-3


@pytest.mark.parametrize("divergence", ALL)
def test_weights_of_samples_outside_the_batch_do_not_change(divergence: Any) -> None:
    _, reweight = echo(divergence=divergence)
    call(reweight, losses(6), torch.arange(6))
    before = reweight.weights.clone()
    call(reweight, losses(5, seed=1), torch.tensor([19, 3, 7, 12, 5]))
    same = torch.tensor([i for i in range(20) if i not in (19, 3, 7, 12, 5)])
    assert torch.equal(reweight.weights[same], before[same])
    assert torch.equal(reweight.weights[13:19], torch.ones(6))  # not seen yet
    assert not torch.equal(reweight.weights, before)


def test_a_negligible_weight_is_zero_in_the_loss_and_when_stored() -> None:
    """At a width of 0.5, losses 6.3 and 7.2 above the nearest trusted loss have weights of about e^-80 and e^-104."""
    _, reweight = echo()
    _, weights = call(reweight, torch.tensor([0.2, 0.6, 4.0, 7.3, 8.2]), torch.arange(5))
    assert 0 < weights[2] < 1e-6
    assert weights[3:].tolist() == reweight.weights[3:5].tolist() == [0, 0]


def test_a_sample_that_occurs_twice_stores_the_mean_of_its_weights() -> None:
    _, reweight = echo(divergence=MMD(width=0.3), repeats=True)
    _, weights = call(reweight, losses(5), torch.tensor([4, 2, 4, 0, 4]))
    torch.testing.assert_close(reweight.weights[4], weights[[0, 2, 4]].mean())
    torch.testing.assert_close(reweight.weights[[2, 0]], weights[[1, 3]])


def test_duplicates_are_not_averaged_unless_repeats_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Tensor] = []
    monkeypatch.setattr(
        "adiw.reweighting.sample_index.mean_of_duplicates", lambda index, values: calls.append(index) or values
    )
    for repeats in (False, True):
        call(echo(divergence=MMD(width=0.3), repeats=repeats)[1], losses(5), torch.arange(5))
        assert bool(calls) == repeats


def test_a_sample_that_occurs_twice_is_an_error_unless_repeats_are_allowed() -> None:
    _, reweight = echo()
    with pytest.raises(ValueError, match=r"sample 4 is twice in a batch.*without replacement.*repeats=True"):
        call(reweight, losses(5), torch.tensor([4, 2, 1, 0, 4]))


def test_a_frozen_model_is_an_error_in_training() -> None:
    model = nn.Linear(2, 3).requires_grad_(False)
    x, y = torch.randn(4, 2), torch.tensor([0, 1, 2, 0])
    reweight = ADIW(model, CROSS_ENTROPY, TensorDataset(x, y), 4)
    with torch.no_grad():
        reweight(model(x), y, torch.arange(4))  # without gradient, only the weights are wanted
    with pytest.raises(ValueError, match=r"no parameter of Linear requires a gradient.*unfreeze a part of it"):
        reweight(model(x), y, torch.arange(4))
    model.bias.requires_grad_(True)
    reweight(model(x), y, torch.arange(4)).backward()


def warm_flags(reweight: ADIW, sizes: list[int]) -> list[bool]:
    """Whether each step, of these batch sizes, had weights of one and stored nothing."""
    flags = []
    for size in sizes:
        before = reweight.weight_state.weight_slots.clone()
        _, weights = call(reweight, losses(size), torch.arange(size))
        kept = not torch.equal(reweight.weight_state.weight_slots, before)
        assert kept != torch.equal(weights, torch.ones(size))
        flags.append(not kept)
    return flags


@pytest.mark.parametrize(
    ("settings", "sizes", "expected"),
    [
        pytest.param({"warmup_steps": None}, [8, 8, 8], [True, True, False], id="an epoch that drops the last batch"),
        pytest.param({"warmup_steps": None}, [8, 8, 4, 8], [True, True, True, False], id="and one that does not"),
        pytest.param({"warmup_steps": None}, [20, 20], [True, False], id="full batch"),
        pytest.param({"warmup_steps": 2}, [8, 3, 8], [True, True, False], id="in steps"),
        pytest.param({"warmup_steps": 0}, [8], [False], id="none"),
    ],
)
def test_the_warm_up_is_uniform_and_stores_nothing(
    settings: dict[str, Any], sizes: list[int], expected: list[bool]
) -> None:
    _, reweight = echo(num_train=20, divergence=MMD(width=0.3), **settings)
    assert warm_flags(reweight, sizes) == expected


@pytest.mark.parametrize("divergence", ALL)
def test_the_warm_up_does_not_change_later_estimates(divergence: Any) -> None:
    _, reweight = echo(divergence=divergence, warmup_steps=2)
    call(reweight, losses(9), torch.arange(9))
    learnt = {key: value.clone() for key, value in reweight.estimator.memory.items()}
    call(reweight, losses(9, seed=5), torch.arange(9))
    assert all(torch.equal(value, learnt[key]) for key, value in reweight.estimator.memory.items())
    for stored in (reweight.weights, reweight.weight_state.estimates):
        assert torch.equal(stored, torch.ones(20))
    if hasattr(reweight, "coefficients"):
        assert reweight.estimator.coefficients.isnan().all()


def test_the_model_is_not_part_of_the_module() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    criterion = nn.CrossEntropyLoss(weight=torch.ones(3), reduction="none")
    reweight = ADIW(model, criterion, TensorDataset(torch.randn(4, 2), torch.arange(4) % 3), 10)
    assert not list(reweight.parameters())
    assert all(module not in set(model.modules()) for module in reweight.modules())
    own = {tensor.data_ptr() for tensor in model.state_dict().values()}
    state = [value for value in reweight.state_dict().values() if isinstance(value, Tensor)]
    assert state
    assert not own & {value.data_ptr() for value in state}
    reweight.eval()
    assert model.training  # nor does its mode follow


def test_evaluation_mode_gives_the_plain_mean_and_freezes_everything() -> None:
    model, reweight = echo(divergence=KL())
    call(reweight, losses(9), torch.arange(9))
    before = {k: v.clone() for k, v in reweight.state_dict().items() if isinstance(v, Tensor)}
    model.calls.clear()
    reweight.eval()
    loss, weights = call(reweight, losses(9, seed=3), torch.arange(9))
    torch.testing.assert_close(loss, losses(9, seed=3).mean())
    assert torch.equal(weights, torch.ones(9))
    assert model.calls == []
    after = {k: v for k, v in reweight.state_dict().items() if isinstance(v, Tensor)}
    torch.testing.assert_close(after, before, rtol=0, atol=0, equal_nan=True)
    reweight.train()
    call(reweight, losses(9, seed=3), torch.arange(9))
    assert reweight.weight_state.seen_steps == 2


def test_a_step_runs_the_model_once_for_training_and_once_for_validation() -> None:
    model, reweight = echo(val_batch=4)
    reweight(model(losses(6)), None, torch.arange(6)).backward()
    assert model.calls == [True, False]


def test_a_partial_refresh_evaluates_that_many_validation_samples_and_uses_the_stored_z_of_the_others() -> None:
    model, reweight = echo(divergence=MMD(width=0.3), val_batch=12, val_refresh=3)
    whole, full = echo(divergence=MMD(width=0.3), val_batch=12)
    for _ in range(4):
        reweight(model(losses(6)), None, torch.arange(6))
    assert model.rows == [6, 3] * 4
    # The model does not change, so stored z are up to date; after four steps all of them have been evaluated.
    full.load_state_dict({**full.state_dict(), "weight_state.weight_slots": reweight.weight_state.weight_slots})
    reweight(model(losses(6)), None, torch.arange(6))
    full(whole(losses(6)), None, torch.arange(6))
    torch.testing.assert_close(reweight.weights, full.weights)
    assert whole.rows == [6, 12]


@pytest.mark.parametrize("val_refresh", [None, 3])
def test_a_streamed_validation_set_gives_the_same_weights_as_a_cached_one(val_refresh: int | None) -> None:
    runs = [echo(val_batch=5, val_refresh=val_refresh, cache_bytes=size)[1] for size in (0, 2**20)]
    for reweight in runs:
        for step in range(5):
            call(reweight, losses(9, step), torch.arange(9))
    assert runs[0].val_schedule.cached is None
    assert runs[1].val_schedule.cached is not None
    assert torch.equal(runs[0].weights, runs[1].weights)


def test_exact_takes_z_from_a_separate_pass_in_evaluation_mode() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    calls: list[bool] = []
    model.register_forward_hook(lambda module, *_: calls.append(module.training))
    x, y = torch.randn(9, 3), torch.randint(2, (9,))
    val_set = TensorDataset(torch.randn(12, 3), torch.randint(2, (12,)))
    reweight = ADIW(model, CROSS_ENTROPY, val_set, 9, MMD(width=0.3), warmup_steps=0, exact=True, cautious=False)
    loss = reweight(model(x), y, torch.arange(9), inputs=x)
    assert calls == [True, False, False]
    assert loss.requires_grad
    model.eval()
    with torch.no_grad():
        z_train, z_val = CROSS_ENTROPY(model(x), y), CROSS_ENTROPY(model(val_set.tensors[0]), val_set.tensors[1])
    expected, _ = adiw.estimate_weights(z_train, z_val, MMD(width=0.3))
    torch.testing.assert_close(reweight.weights, expected)


def test_exact_with_forward_takes_the_whole_batch() -> None:
    model, seen = Echo(), []

    def forward(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, None]:
        seen.append(batch)
        return model(batch["x"]), None

    items = [{"x": value} for value in VAL]
    reweight = ADIW(model, echo_loss, items, 9, warmup_steps=0, exact=True, forward=forward)
    batch = {"x": losses(9)}
    reweight(model(batch["x"]), None, torch.arange(9), inputs=batch)
    assert seen[0] is batch


def test_exact_needs_inputs() -> None:
    model, reweight = echo(exact=True)
    with pytest.raises(ValueError, match=r"exact=True .*call reweight\(outputs, targets, index, inputs=x\)"):
        reweight(model(losses(4)), None, torch.arange(4))


@pytest.mark.parametrize("divergence", ALL)
def test_limits_hold_in_the_loss_and_estimates_are_stored_without_them(divergence: Any) -> None:
    limited = echo(divergence=divergence, mean_one=True, cap=1.2, min_ess=0.995)[1]
    free = echo(divergence=divergence)[1]
    for seed in range(4):
        index = torch.randperm(20, generator=Generator().manual_seed(seed))[:9]
        _, weights = call(limited, losses(9, seed), index)
        call(free, losses(9, seed), index)
        assert float(weights.mean()) == pytest.approx(1, rel=1e-5)
        assert weights.max() <= 1.2 * (1 + 1e-5)
        assert weights.sum() ** 2 / weights.square().sum() >= 0.995 * 9 * (1 - 1e-5)
        assert torch.equal(limited.weight_state.estimates, free.weights)  # limits do not affect later estimates
        torch.testing.assert_close(limited.weights[index], weights)
    assert not torch.allclose(limited.weights, free.weights)


def test_three_steps_in_one_call_equal_three_calls() -> None:
    one, three = echo(divergence=MMD(width=0.3))[1], echo(divergence=MMD(width=0.3), steps=3)[1]
    for _ in range(3):
        call(one, losses(9), torch.arange(9))
    call(three, losses(9), torch.arange(9))
    torch.testing.assert_close(one.weights, three.weights)


@pytest.mark.parametrize("divergence", ALL)
@pytest.mark.parametrize(
    "values", [torch.tensor([0.4]), torch.full((6,), 0.4), torch.full((6,), 40.0), torch.zeros(2)]
)
def test_equal_losses_get_equal_weights(divergence: Any, values: Tensor) -> None:
    _, reweight = echo(divergence=divergence, val_batch=5)
    for _ in range(3):
        loss, weights = call(reweight, values, torch.arange(len(values)))
        assert loss.isfinite()
        assert (weights >= 0).all()
        torch.testing.assert_close(weights, weights[:1].expand_as(weights))
    assert reweight.weights.isfinite().all()


@pytest.mark.parametrize("divergence", ALL)
def test_one_validation_sample(divergence: Any) -> None:
    model = Echo()
    reweight = ADIW(model, echo_loss, TensorDataset(VAL[:1], VAL[:1]), 9, divergence, warmup_steps=0)
    for _ in range(3):
        _, weights = call(reweight, losses(9), torch.arange(9))
    assert weights.isfinite().all()
    assert (weights >= 0).all()


@pytest.mark.parametrize("bad", [-1, 20, 2**40])
def test_an_index_out_of_range_is_an_error_and_changes_nothing(bad: int) -> None:
    _, reweight = echo()
    with pytest.raises(IndexError, match=f"index {bad} is not in the training set: num_train is 20"):
        reweight(losses(3), None, torch.tensor([0, bad, 1]))
    assert torch.equal(reweight.weights, torch.ones(20))
    assert reweight.weight_state.seen_steps == 0
    reweight.summary()  # does not raise: no bad index was counted


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (torch.tensor([0.0, 1.0, 2.0]), TypeError, "tensor of integers, got torch.float32"),
        (torch.tensor([True, False, True]), TypeError, "tensor of integers, got torch.bool"),
        ([0, 1, 2], TypeError, "tensor of integers, got list"),
        (torch.arange(2), ValueError, r"index has shape \(2,\), but there are 3 losses"),
        (torch.arange(3)[:, None], ValueError, r"index has shape \(3, 1\), but there are 3 losses"),
    ],
)
def test_an_index_of_the_wrong_kind(index: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        echo()[1](losses(3), None, index)


def test_losses_of_the_wrong_kind() -> None:
    model = nn.Linear(2, 3)
    val_set = TensorDataset(torch.zeros(2, 2), torch.arange(2))
    x, y, index = torch.zeros(4, 2), torch.zeros(4).long(), torch.arange(4)
    with pytest.raises(ValueError, match='reduction="none"'):
        ADIW(model, nn.CrossEntropyLoss(), val_set, 9)(model(x), y, index)
    with pytest.raises(ValueError, match="batch is empty"):
        ADIW(model, CROSS_ENTROPY, val_set, 9)(model(x[:0]), y[:0], index[:0])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"divergence": "kll"}, ValueError, r"unknown divergence 'kll': expected one of 'kl'"),
        ({"divergence": KL}, TypeError, r"an instance such as KL\(\)"),
        ({"divergence": 3}, TypeError, "a name in adiw.DIVERGENCES"),
        ({"num_train": 0}, ValueError, "num_train must be at least 1, got 0"),
        ({"steps": 0}, ValueError, "steps must be at least 1, got 0"),
        ({"warmup_steps": -1}, ValueError, "warmup_steps must be at least 0, got -1"),
        ({"transform": "features"}, ValueError, r'transform must be "loss" or adiw.Features'),
        ({"cap": 0.5}, ValueError, "cap must be"),
        ({"val_batch": 0}, ValueError, "val_batch must be at least 1"),
        ({"val_every": 0}, ValueError, "val_every must be at least 1"),
    ],
)
def test_settings_of_the_wrong_kind(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        echo(**settings)


def test_every_name_in_the_table_is_a_divergence() -> None:
    for name in DIVERGENCES:
        _, reweight = echo(divergence=name)
        call(reweight, losses(6), torch.arange(6))
        assert type(reweight.divergence) is DIVERGENCES[name]


def test_outputs_on_another_device_are_an_error() -> None:
    _, reweight = echo()
    with pytest.raises(ValueError, match=r'outputs are on meta, but reweight is on cpu: call reweight\.to\("meta"\)'):
        reweight(torch.zeros(3, device="meta"), None, torch.arange(3))


def test_the_global_generator_does_not_change() -> None:
    before = torch.get_rng_state()
    for divergence in ("kl", Wasserstein(critic="network", pretrain=0)):
        _, reweight = echo(divergence=divergence, generator=None)
        call(reweight, losses(6), torch.arange(6))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("divergence", ALL)
def test_the_generator_determines_the_weights(divergence: Any) -> None:
    def train(seed: int) -> Tensor:
        _, reweight = echo(divergence=divergence, val_batch=4, generator=Generator().manual_seed(seed))
        for step in range(3):
            call(reweight, losses(9, step), torch.arange(9))
        return reweight.weights

    assert torch.equal(train(1), train(1))
    assert not torch.equal(train(1), train(2))


def test_invalid_features_transforms_and_states() -> None:
    model, index = Echo(), torch.arange(4)
    reweight = ADIW(model, echo_loss, TensorDataset(VAL, VAL), 9, warmup_steps=0)
    with pytest.raises(ValueError, match=r"features= needs transform=adiw\.Features"):
        reweight(model(VAL[:4]), None, index, features=torch.zeros(4, 2))
    with pytest.raises(TypeError, match=r'transform must be "loss" or an instance such as adiw\.Features\("layer"\)'):
        ADIW(model, echo_loss, TensorDataset(VAL, VAL), 9, transform=adiw.Features)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="this is not the state of an ADIW: expected memory and randomness"):
        reweight.load_state_dict({**reweight.state_dict(), "_extra_state": {"memory": {}}})
