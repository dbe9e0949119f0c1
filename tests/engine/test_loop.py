"""One step, an epoch, and evaluation, against the same written out by hand."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam
from torch.utils.data import TensorDataset

from adiw import ADIW
from adiw.baselines import Fixed
from adiw.engine.capture import Captured
from adiw.engine.feed import DeviceFeed, batches
from adiw.engine.loop import Loop, autocast, count_hits, in_batches, predict, set_learning_rate, train_step
from tests.pretend import pretend_to_record

CPU = torch.device("cpu")


def problem(classes: int = 7, n: int = 60) -> tuple[nn.Module, Tensor, Tensor]:
    random = Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, classes))
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=random)
    return model, torch.randn(n, 4, generator=random), torch.randint(classes, (n,), generator=random)


def weigh(model: nn.Module, n: int) -> Fixed:
    weights = torch.linspace(0, 2, n)
    return Fixed(model, nn.CrossEntropyLoss(reduction="none"), None, n, weights=weights)


def same(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


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
    feed = DeviceFeed(x, y, 16, 0, CPU, augment=False)
    model.eval()  # training happens in training mode whatever came before
    loop = Loop(model, weigh(model, 60), SGD(model.parameters(), lr=0.1), feed)
    loop.queue(0)
    reweight, optimizer = weigh(by_hand, 60), SGD(by_hand.parameters(), lr=0.1)
    losses = [train_step(by_hand.train(), reweight, optimizer, *batch) for batch in batches(feed, 0)]
    assert len(losses) == 3
    assert float(loop.loss) == pytest.approx(float(torch.stack(losses).mean()))
    assert loop.watch.seconds() > 0
    assert same(model, by_hand)


def test_trusted_samples_are_looked_at_before_the_training_pass() -> None:
    """While it holds no memory yet: in every second step here, and never within a step."""
    model, x, y = problem()
    passes: list[str] = []
    model.register_forward_hook(lambda module, *_: passes.append("train" if module.training else "trusted"))
    trusted = TensorDataset(x[:8], y[:8])
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), trusted, 60, val_every=2)
    feed = DeviceFeed(x, y, 15, 0, CPU, augment=False)
    Loop(model, reweight, SGD(model.parameters(), lr=0.1), feed).queue(0)
    assert passes == ["trusted", "train", "train"] * 2


def test_a_step_whose_recording_fails_is_done_again_from_where_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is stood in for: the recording fails at the update, with gradients that hold nothing."""

    def made() -> tuple[Loop, ADIW]:
        torch.manual_seed(0)
        model, x, y = problem()
        model = nn.Sequential(model[0], model[2])  # of batch norm a stand-in would move the means
        reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), TensorDataset(x[:20], y[:20]), 60, val_every=3)
        loop = Loop(model, reweight, SGD(model.parameters(), 0.1), DeviceFeed(x, y, 10, 0, CPU, False))
        return loop, reweight

    @contextmanager
    def recording() -> Iterator[None]:
        before = copy.deepcopy(reweight.state_dict())
        with monkeypatch.context() as patch:
            patch.setattr(loop.optimizer, "step", fail)
            try:
                yield
            finally:  # nothing was executed on the device
                turns, counted = reweight.val_stream.turns, reweight.val_stream._counted
                reweight.load_state_dict(before)
                reweight.val_stream.turns, reweight.val_stream._counted = turns, counted
                loop.feed.place.sub_(10)  # type: ignore[attr-defined]

    def fail() -> None:
        for parameter in loop.model.parameters():
            parameter.grad = torch.full_like(parameter, 1e6)
        raise RuntimeError("out of memory")

    pretend_to_record(monkeypatch, recording)
    plain, plain_reweight = made()
    loop, reweight = made()
    told: list[str] = []
    loop.step = Captured(loop._step, told.append, undo=loop._undo)
    for some in (plain, loop):
        some.queue(0)
    assert told == ["steps are not captured as a graph (out of memory)"]
    assert reweight.val_stream.turns == plain_reweight.val_stream.turns == 6
    assert same(loop.model, plain.model)
    assert torch.equal(reweight.weights, plain_reweight.weights)


def by_definition(model: nn.Module, x: Tensor, y: Tensor, k: int) -> int:
    """How many samples have fewer than k classes scored above the right one."""
    with torch.no_grad():
        outputs = model.eval()(x)
    above = (outputs > outputs.gather(1, y[:, None])).sum(1)
    return int((above < k).sum())


@pytest.mark.parametrize("classes", [2, 4, 5, 7, 30])
def test_accuracy_is_as_defined(classes: int) -> None:
    model, x, y = problem(classes)
    before = copy.deepcopy(model)
    first, five = count_hits(model, in_batches(x, y, size=7)).tolist()
    assert first == by_definition(before, x, y, 1)
    assert five == by_definition(before, x, y, 5)
    assert 0 < first < len(y)
    if classes <= 5:
        assert five == len(y)
    assert same(model, before)  # batch norm has learnt nothing
    assert model.training


def test_predictions_are_the_best_class_in_evaluation_mode() -> None:
    model, x, y = problem()
    expected = copy.deepcopy(model).eval()(x).argmax(1)
    assert torch.equal(predict(model, in_batches(x, y, size=11)), expected)
    assert model.training


def test_in_batches_leaves_none_out() -> None:
    x, y = torch.arange(10), torch.arange(10)
    sizes = [len(part) for part, _ in in_batches(x, y, size=4)]
    assert sizes == [4, 4, 2]
    assert torch.equal(torch.cat([part for part, _ in in_batches(x, y, size=4)]), x)


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
        assert kind == "float" or group["lr"] is old  # a captured graph reads this very tensor


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
