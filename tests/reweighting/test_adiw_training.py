"""ADIW in common training loops: mixed precision, accumulation, compilation, other batches, other losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adiw
from adiw import ADIW, Features
from adiw.divergences import KL, MMD, Wasserstein
from adiw.reweighting.loss_shapes import Criterion

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
_data = Generator().manual_seed(0)
X, Y = torch.randn(30, 4, generator=_data), torch.randint(3, (30,), generator=_data)
VAL = TensorDataset(torch.randn(10, 4, generator=_data), torch.randint(3, (10,), generator=_data))


class Net(nn.Module):
    """Records the dtype of its hidden layer in each pass."""

    def __init__(self, whole_outputs: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.head = nn.Linear(4, 16), nn.Linear(16, 3)
        self.whole_outputs, self.calls = whole_outputs, list[tuple[bool, torch.dtype]]()

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.hidden(x))
        self.calls.append((self.training, hidden.dtype))
        outputs = self.head(hidden)
        return outputs.float() if self.whole_outputs else outputs


def make(model: nn.Module, criterion: Criterion = CROSS_ENTROPY, val: Any = VAL, **settings: Any) -> ADIW:
    settings = {"divergence": "kl", "warmup_steps": 0, "generator": Generator().manual_seed(0), **settings}
    settings = {"cautious": False, **settings}
    return ADIW(model, criterion, val, len(X), **settings)


def batches(size: int = 10) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for index in torch.arange(len(X)).split(size):
        yield X[index], Y[index], index


def test_a_step_does_not_change_modes_batch_norm_or_random_numbers() -> None:
    def train(reweighted: bool) -> tuple[list[bool], list[Tensor]]:
        torch.manual_seed(0)
        frozen = nn.BatchNorm1d(16).eval()
        model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), frozen, nn.Dropout(0.5), nn.Linear(16, 3))
        model.append(nn.Identity())
        frozen.eval()
        reweight = make(model)
        for x, y, index in batches():
            outputs = model(x)
            if reweighted:
                reweight(outputs, y, index)
        buffers = [buffer.clone() for buffer in model.buffers()]
        return [module.training for module in model.modules()], [*buffers, torch.get_rng_state()]

    (modes, state), (expected_modes, expected) = train(True), train(False)
    assert modes == expected_modes == [True, True, True, False, True, True, True]
    torch.testing.assert_close(state, expected, rtol=0, atol=0)


@pytest.mark.parametrize("where", ["all of it inside", "only the model inside"])
def test_bf16_autocast(where: str) -> None:
    model = Net()
    seen: list[torch.dtype] = []

    def criterion(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.append(outputs.dtype)
        return CROSS_ENTROPY(outputs, targets)

    reweight = make(model, criterion, val_every=1)
    for x, y, index in batches():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = model(x)
            loss = reweight(outputs, y, index) if where == "all of it inside" else None
        loss = reweight(outputs, y, index) if loss is None else loss
        assert outputs.dtype == torch.bfloat16
        assert loss.dtype == torch.float32
        loss.backward()
    assert model.calls == [(True, torch.bfloat16), (False, torch.bfloat16)] * 3
    assert set(seen) == {torch.float32}
    assert reweight.weights.dtype == torch.float32
    assert reweight.weights.std() > 0.01
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_inside_autocast_validation_uses_it_even_if_the_outputs_are_float32() -> None:
    model = Net(whole_outputs=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        make(model)(model(X[:10]), Y[:10], torch.arange(10))
    assert model.calls == [(True, torch.bfloat16), (False, torch.bfloat16)]


def test_inside_autocast_a_criterion_with_a_matrix_product_is_computed_in_float32() -> None:
    """For training and validation alike: half precision on one side would shift its losses against the other's."""
    seen: list[torch.dtype] = []

    def criterion(outputs: Tensor, targets: Tensor) -> Tensor:
        distance = (outputs - nn.functional.one_hot(targets, 3)) @ torch.eye(3)
        seen.append(distance.dtype)
        return distance.square().sum(1)

    model = Net()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        make(model, criterion)(model(X[:10]), Y[:10], torch.arange(10))
    assert seen == [torch.float32, torch.float32]


def test_validation_within_the_same_autocast_context_does_not_change_gradients() -> None:
    def gradients(reweighted: bool) -> list[Tensor]:
        model = Net()
        reweight = make(model)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if reweighted:
                reweight(torch.zeros(10, 3, dtype=torch.bfloat16), Y[:10], torch.arange(10))
            CROSS_ENTROPY(model(X[:10]).float(), Y[:10]).mean().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    torch.testing.assert_close(gradients(True), gradients(False))
    assert len(gradients(True)) == 4


@pytest.mark.parametrize("nonfinite", [False, True])
def test_a_grad_scaler_does_not_change_the_step(nonfinite: bool) -> None:
    """Also with a loss that is not finite: its gradient is zero, so the scaler does not skip the step."""

    def train(enabled: bool) -> list[Tensor]:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=enabled)
        reweight = make(model)
        mask = torch.zeros(10, 3)
        mask[4, Y[4]] = -float("inf") if nonfinite else 0
        for x, y, index in batches():
            scaler.scale(reweight(model(x) + mask, y, index)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return [parameter.detach().clone() for parameter in model.parameters()]

    scaled, plain, untrained = train(True), train(False), list(Net().parameters())
    torch.testing.assert_close(scaled, plain)
    assert all(not torch.equal(after, before) for after, before in zip(plain, untrained, strict=True))


@pytest.mark.parametrize("backward", ["after each call", "after all calls"])
def test_gradient_accumulation_adds_up(backward: str) -> None:
    """After all calls: no call may change in place what the backward pass of an earlier call needs."""

    def gradient(micro_batches: list[int]) -> Tensor:
        model = Net()
        reweight, total = make(model), torch.zeros(())
        for number, (x, y, index) in enumerate(batches()):
            loss = reweight(model(x), y, index)
            if number not in micro_batches:
                continue
            if backward == "after each call":
                loss.backward()
            else:
                total = total + loss
        if total.requires_grad:
            total.backward()
        assert model.hidden.weight.grad is not None
        return model.hidden.weight.grad

    torch.testing.assert_close(gradient([0, 1, 2]), gradient([0]) + gradient([1]) + gradient([2]))


@pytest.mark.parametrize("transform", ["loss", "features"])
def test_a_compiled_model(transform: str) -> None:
    graphs: list[bool] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(torch.is_grad_enabled())
        return graph

    def train(compiled: bool) -> Tensor:
        torch.compiler.reset()
        model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).sin().view_as(parameter))
        run = torch.compile(model, backend=backend) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        settings = {} if transform == "loss" else {"transform": Features(model[2], num_classes=3)}
        reweight = make(run, **settings)  # type: ignore[arg-type]
        for x, y, index in batches(15):
            reweight(run(x), y, index).backward()
            optimizer.step()
            optimizer.zero_grad()
        return torch.cat([reweight.weights, model[1].running_mean])  # type: ignore[list-item]

    torch.testing.assert_close(train(True), train(False))
    assert len(graphs) >= 2  # the training pass and the validation pass were both compiled


def test_batches_of_other_sizes() -> None:
    model = Net()
    reweight = make(model, warmup_steps=None)
    loader = DataLoader(adiw.Indexed(TensorDataset(X, Y)), batch_size=8, shuffle=True, generator=_data)
    sizes = []
    for _ in range(2):
        for x, y, index in loader:
            sizes.append(len(x))
            reweight(model(x), y, index).backward()
    assert sizes == [8, 8, 8, 6] * 2
    assert reweight.weight_state.seen_samples == 60
    assert (reweight.weights != 1).all()  # every sample was weighted after the one epoch of warm-up


def test_batches_that_are_mappings() -> None:
    items = [{"x": x, "label": y} for x, y in zip(X, Y, strict=True)]
    trusted = [{"x": x, "label": y} for x, y in VAL]
    model, plain = Net(), Net()
    reweight = make(model, val=trusted, forward=lambda m, batch: (m(batch["x"]), batch["label"]))
    expected = make(plain)
    for batch in DataLoader(adiw.Indexed(items), batch_size=10):
        reweight(model(batch["x"]), batch["label"], batch["index"])
    for x, y, index in batches():
        expected(plain(x), y, index)
    assert torch.equal(reweight.weights, expected.weights)
    assert reweight.weights.std() > 0.01


def test_outputs_that_are_mappings() -> None:
    """Some libraries return mappings, which the criterion unpacks."""

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.net(x)}

    model, plain = Wrapped(), Net()
    reweight = make(model, lambda outputs, targets: CROSS_ENTROPY(outputs["logits"], targets))
    expected = make(plain)
    for x, y, index in batches():
        reweight(model(x), y, index).backward()
        expected(plain(x), y, index).backward()
    assert torch.equal(reweight.weights, expected.weights)
    torch.testing.assert_close(model.net.head.weight.grad, plain.head.weight.grad)


def regression_weights(unit: float, divergence: Any) -> tuple[Tensor, Tensor]:
    """(weights, which targets are outliers) for points on a line, with targets in units of ``unit``."""
    generator = Generator().manual_seed(3)
    x = torch.randn(30, 1, generator=generator)
    outlier = torch.arange(30) % 3 == 0
    y = unit * (2 * x[:, 0] + torch.where(outlier, 4.0, 0.0) + 0.3 * torch.randn(30, generator=generator))
    x_val = torch.randn(20, 1, generator=generator)
    y_val = unit * (2 * x_val[:, 0] + 0.3 * torch.randn(20, generator=generator))
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(2 * unit)
        model.bias.fill_(0.0)
    mse = nn.MSELoss(reduction="none")
    reweight = make(model, lambda o, t: mse(o[:, 0], t), TensorDataset(x_val, y_val), divergence=divergence)
    for _ in range(10):
        reweight(model(x), y, torch.arange(30)).backward()
    return reweight.weights.clone(), outlier


@pytest.mark.parametrize(
    "divergence",
    [KL(width="auto"), MMD(width="auto", step_size=0.5), Wasserstein(scale="auto", step_size=0.1)],
    ids=["kl", "mmd", "wasserstein"],
)
def test_regression_losses_of_any_scale(divergence: Any) -> None:
    weights, outlier = regression_weights(1.0, divergence)
    assert weights[outlier].mean() < 0.5 * weights[~outlier].mean()
    for unit in (2.0**10, 2.0**-10):  # powers of two: the losses scale without rounding
        other, _ = regression_weights(unit, divergence)
        torch.testing.assert_close(other, weights, rtol=1e-3, atol=1e-3)


def test_several_labels_per_sample() -> None:
    labels = (X[:, :3] > 0).float()
    val_x = VAL.tensors[0]
    bce = nn.BCEWithLogitsLoss(reduction="none")
    model = Net()
    reweight = make(
        model,
        lambda outputs, targets: bce(outputs, targets).mean(1),
        TensorDataset(val_x, (val_x[:, :3] > 0).float()),
    )
    outputs = model(X)
    loss = reweight(outputs, labels, torch.arange(30))
    loss.backward()
    torch.testing.assert_close(loss, (reweight.weights * bce(outputs, labels).mean(1)).mean())
    assert reweight.weights.std() > 0.01
