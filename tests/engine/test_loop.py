"""The training step and an epoch of steps, compared with plain PyTorch code."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam
from torch.utils.data import TensorDataset

from adiw import ADIW
from adiw.baselines import Fixed
from adiw.engine.loop import Loop, autocast, set_learning_rate, train_step
from adiw.engine.train_loader import TensorLoader, batches
from adiw.matching import batches as batches_of_matching
from adiw.reweighting import cuda_graphs, sample_record, validation_schedule
from adiw.reweighting.cuda_graphs import GraphedCalls
from tests.engine.small_problem import problem, same
from tests.simulated_gpu import pretend_to_record

CPU = torch.device("cpu")


def weigh(model: nn.Module, n: int) -> Fixed:
    weights = torch.linspace(0, 2, n)
    return Fixed(model, nn.CrossEntropyLoss(reduction="none"), None, n, weights=weights)


def test_a_step_is_forward_weights_backward_update() -> None:
    model, x, y = problem()
    by_hand, index = copy.deepcopy(model), torch.tensor([3, 59, 0, 21])
    reweight = weigh(model, 60)
    optimizer, other = (SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, by_hand))
    for _ in range(3):  # momentum and cleared gradients show from the second step on
        loss = train_step(model, reweight, optimizer, x[index], y[index], index)
        losses = cross_entropy(by_hand(x[index]), y[index], reduction="none")
        expected = (torch.linspace(0, 2, 60)[index] * losses).mean()
        other.zero_grad()
        expected.backward()
        other.step()
        torch.testing.assert_close(loss, expected.detach())
        assert not loss.requires_grad
    for mine, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert mine.grad is None


def test_an_epoch_is_its_steps_and_its_loss_their_mean() -> None:
    model, x, y = problem()
    by_hand = copy.deepcopy(model)
    loader = TensorLoader(x, y, 16, 0, CPU, augment=False)
    model.eval()  # run_epoch sets training mode
    loop = Loop(model, weigh(model, 60), SGD(model.parameters(), lr=0.1), loader)
    loop.run_epoch(0)
    reweight, optimizer = weigh(by_hand, 60), SGD(by_hand.parameters(), lr=0.1)
    losses = [train_step(by_hand.train(), reweight, optimizer, *batch) for batch in batches(loader, 0)]
    assert len(losses) == 3
    assert float(loop.loss) == pytest.approx(float(torch.stack(losses).mean()))
    assert loop.timer.seconds() > 0
    assert same(model, by_hand)


def test_trusted_samples_are_evaluated_before_the_training_pass() -> None:
    """The training pass holds no memory then. Here it happens in every second step, never within a step."""
    model, x, y = problem()
    passes: list[str] = []
    model.register_forward_hook(lambda module, *_: passes.append("train" if module.training else "trusted"))
    trusted = TensorDataset(x[:8], y[:8])
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), trusted, 60, val_every=2)
    loader = TensorLoader(x, y, 15, 0, CPU, augment=False)
    Loop(model, reweight, SGD(model.parameters(), lr=0.1), loader).run_epoch(0)
    assert passes == ["trusted", "train", "train"] * 2


def test_a_step_whose_capture_fails_is_repeated_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CUDA graph is simulated: its capture fails at the update and leaves invalid gradients."""

    def made() -> tuple[Loop, ADIW]:
        torch.manual_seed(0)
        model, x, y = problem()
        model = nn.Sequential(model[0], model[2])  # the simulated capture would update batch norm
        reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), TensorDataset(x[:20], y[:20]), 60, val_every=3)
        loop = Loop(model, reweight, SGD(model.parameters(), 0.1), TensorLoader(x, y, 10, 0, CPU, False))
        return loop, reweight

    @contextmanager
    def recording() -> Iterator[None]:
        before = copy.deepcopy(reweight.state_dict())
        with monkeypatch.context() as patch:
            patch.setattr(loop.optimizer, "step", fail)
            patch.setattr(validation_schedule, "is_capturing", lambda tensor: True)
            try:
                yield
            finally:  # a capture executes nothing on the device
                steps, refreshed = reweight.val_schedule.clock.steps, reweight.val_schedule.clock.refreshed
                reweight.load_state_dict(before)
                reweight.val_schedule.clock.steps, reweight.val_schedule.clock.refreshed = steps, refreshed
                loop.loader.positions.sub_(10)  # type: ignore[attr-defined]

    def fail() -> None:
        for parameter in loop.model.parameters():
            parameter.grad = torch.full_like(parameter, 1e6)
        raise RuntimeError("out of memory")

    pretend_to_record(monkeypatch, recording)
    monkeypatch.setattr(cuda_graphs, "can_capture", lambda device: True)
    plain, plain_reweight = made()
    loop, reweight = made()
    messages: list[str] = []
    loop._capture(messages.append)
    for one in (plain, loop):
        one.run_epoch(0)
    (line,) = messages
    assert line.startswith("steps are not captured as a CUDA graph and take longer (out of memory)")
    assert reweight.val_schedule.clock.steps == plain_reweight.val_schedule.clock.steps == 6
    assert same(loop.model, plain.model)
    assert torch.equal(reweight.weights, plain_reweight.weights)


def test_steps_are_captured_again_when_they_have_less_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the early steps of 60 samples in batches of 15, whose graph also records losses."""
    monkeypatch.setattr(sample_record, "EARLY_STEPS", 8)
    model, x, y = problem()
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), TensorDataset(x[:8], y[:8]), 60)
    loop = Loop(model, reweight, SGD(model.parameters(), lr=0.1), TensorLoader(x, y, 15, 0, CPU, augment=False))
    log: list[int] = []
    loop.graphed = GraphedCalls("steps")
    monkeypatch.setattr(GraphedCalls, "captured", True)
    monkeypatch.setattr(GraphedCalls, "capture_again", lambda self: log.append(reweight.val_schedule.clock.steps))
    monkeypatch.setattr(batches_of_matching, "host_can_read", lambda _values: False)  # as on a GPU
    for epoch in range(5):
        loop.run_epoch(epoch)
    assert log == [10]


def groups(kind: str) -> Iterator[dict[str, object]]:
    yield {"params": [nn.Parameter(torch.ones(1))], "lr": torch.tensor(0.5) if kind == "tensor" else 0.5}
    yield {"params": [nn.Parameter(torch.ones(1))], "lr": torch.tensor(0.7) if kind == "tensor" else 0.7}


@pytest.mark.parametrize("kind", ["float", "tensor"])
def test_the_learning_rate_of_all_groups_is_set(kind: str) -> None:
    optimizer = Adam(list(groups(kind)), foreach=False)
    before = [group["lr"] for group in optimizer.param_groups]
    set_learning_rate(optimizer, 0.125)
    for group, old in zip(optimizer.param_groups, before, strict=True):
        assert float(group["lr"]) == 0.125
        assert isinstance(group["lr"], torch.Tensor) == (kind == "tensor")
        assert kind == "float" or group["lr"] is old  # a CUDA graph reads this tensor


def test_full_precision_or_half() -> None:
    with autocast(CPU, bf16=False):
        assert not torch.is_autocast_enabled("cpu")
    with autocast(CPU, bf16=True):
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("clip", [None, 0.05])
def test_the_gradient_is_clipped_to_a_norm(clip: float | None) -> None:
    model, x, y = problem()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    train_step(model, weigh(model, 60), SGD(model.parameters(), lr=1.0), x, y, torch.arange(60), clip=clip)
    moved = torch.cat([(a - b).flatten() for a, b in zip(before, model.parameters(), strict=True)]).norm().detach()
    assert (float(moved) <= 0.05 * 1.001) == (clip is not None)
