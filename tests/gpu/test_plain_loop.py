"""A user's own loop on a GPU: replayed graphs give exactly the results of eager calls."""

from __future__ import annotations

import copy
import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw import ADIW, Features, Indexed
from adiw.reweighting import cuda_graphs
from tests.simulated_gpu import always_eager

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and this machine has none"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature:UserWarning"),
    pytest.mark.filterwarnings("ignore:diverging weights"),  # alarms: both ways of training have the same ones
    pytest.mark.filterwarnings("ignore:weights at their bound"),
]
NUM_TRAIN, TRUSTED, BATCH, CLASSES, STEPS = 94, 40, 32, 4, 27  # three batches in an epoch
LAST = NUM_TRAIN % BATCH  # the size of the last batch of an epoch


class Net(nn.Module):
    """Convolution, batch norm, dropout, and an attribute that the forward pass uses."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2))
        self.head, self.scale = nn.Linear(4 * 36, CLASSES), 1.0

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x)) * self.scale
        return logits


class Run:
    """Training with the batches of some epochs, each with a smaller last batch."""

    def __init__(self, joined: bool = False, wrap: Callable[[nn.Module], Any] = lambda model: model, **given: Any):
        torch.manual_seed(0)
        random = Generator().manual_seed(0)
        y = torch.arange(NUM_TRAIN) % CLASSES
        x = torch.randn(NUM_TRAIN, 1, 8, 8, generator=random) + y.view(-1, 1, 1, 1) / 2
        wrong = torch.rand(NUM_TRAIN, generator=random) < 0.4
        wrong[:TRUSTED] = False
        self.x, self.y = x.cuda(), torch.where(wrong, (y + 1) % CLASSES, y).cuda()
        self.net = Net().cuda()
        self.model = wrap(self.net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        data = TensorDataset(x, self.y.cpu())
        val_set: Any = Indexed(data, torch.arange(TRUSTED)).trusted if joined else TensorDataset(x[:40], y[:40])
        chosen = {"val_batch": 24, "val_every": 2, "warmup_steps": 2, "generator": Generator().manual_seed(0)}
        given = {**chosen, "cautious": False, **given}  # with caution, weights hardly move in so short a training
        self.reweight = ADIW(self.model, nn.CrossEntropyLoss(reduction="none"), val_set, NUM_TRAIN, **given)
        self.scaler = torch.amp.GradScaler("cuda", enabled=False)
        self.accumulate, self.autocast = 1, False
        self.before: Callable[[Run, int], None] = lambda run, step: None
        self.losses: list[Tensor] = []

    def train(self, steps: int = STEPS) -> Run:
        order = torch.cat([torch.randperm(NUM_TRAIN, generator=Generator().manual_seed(i)) for i in range(steps)])
        epochs = order.view(steps, NUM_TRAIN).cuda()
        batches = [batch for epoch in epochs for batch in epoch.split(BATCH)][:steps]
        for step, index in enumerate(batches):
            self.before(self, step)
            with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
                outputs = self.model(self.x[index])
                loss = self.reweight(outputs, self.y[index], index, inputs=self.x[index])
            self.losses.append(loss.detach())
            self.scaler.scale(loss / self.accumulate).backward()
            if (step + 1) % self.accumulate == 0:
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
        return self

    @property
    def graphs(self) -> int:
        method = self.reweight
        parts = (method._estimations, method._refits, method._evaluations.calls)
        return sum(len(part.graphs) for part in parts)


@contextmanager
def deterministic() -> Iterator[None]:
    """cuDNN and cuBLAS give the same numbers for the same call."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


def compare(make: Callable[[], Run], least_graphs: int = 1, exact: bool = True) -> Run:
    """Train eagerly and with graphs: the results are the same, bit by bit unless ``exact`` is false."""
    with deterministic():
        with always_eager():
            torch.manual_seed(1)
            eager = make().train()
        torch.manual_seed(1)
        replayed = make().train()
    assert eager.graphs == 0
    assert replayed.graphs >= least_graphs
    near = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(torch.stack(replayed.losses), torch.stack(eager.losses), **near)
    torch.testing.assert_close(replayed.reweight.weights, eager.reweight.weights, **near)
    for mine, theirs in zip(replayed.net.parameters(), eager.net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, **near)
    _assert_same_state(replayed.reweight.state_dict(), eager.reweight.state_dict(), near)
    assert eager.reweight.weights.std() > 1e-3
    assert eager.reweight.summary().steps == STEPS
    assert replayed.reweight.summary().objective == pytest.approx(eager.reweight.summary().objective, nan_ok=True)
    return replayed


def _assert_same_state(found: Any, expected: Any, near: dict[str, float]) -> None:
    if isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True, **near)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            _assert_same_state(found[key], value, near)
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            _assert_same_state(one, other, near)
    else:
        assert found == expected


def autocast(run: Run) -> None:
    run.autocast = True


def scaled(run: Run) -> None:
    run.scaler = torch.amp.GradScaler("cuda", init_scale=2.0**8)


def accumulated(run: Run) -> None:
    run.accumulate = 3


def modes(run: Run) -> None:
    """The user evaluates the model between steps, and leaves it in evaluation mode for some."""

    def before(run: Run, step: int) -> None:
        run.model.train(step % 7 != 3)

    run.before = before


def replaced(run: Run) -> None:
    """A layer, a parameter's memory and an attribute are replaced, and a state is loaded.

    Each change is followed by the eager calls before a capture, by the capture and by a replay.
    """
    run.reweight.val_schedule.every = 1

    def before(run: Run, step: int) -> None:
        if step == 5:
            run.net.head = copy.deepcopy(run.net.head)
            run.optimizer = torch.optim.SGD(run.net.parameters(), lr=0.05)
        elif step == 10:
            run.net.head.weight.data = run.net.head.weight.data.clone() * 1.5
        elif step == 15:
            run.net.scale = 0.5
        elif step == 19:
            run.reweight.load_state_dict(copy.deepcopy(run.reweight.state_dict()))

    run.before = before


VARIANTS = {
    "plain": lambda run: None,
    "autocast": autocast,
    "scaler": scaled,
    "accumulation": accumulated,
    "modes": modes,
    "replaced": replaced,
}
METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "default joined": {"joined": True},
    **{name: {"divergence": name} for name in adiw.DIVERGENCES},
    "critic network": {"divergence": adiw.divergences.Wasserstein(critic="network", pretrain=4, learning_rate=1e-3)},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("method", METHODS)
def test_replayed_steps_equal_eager_steps(method: str, variant: str) -> None:
    def make() -> Run:
        run = Run(**METHODS[method])
        VARIANTS[variant](run)
        return run

    compare(make, least_graphs=2)


@pytest.mark.parametrize(
    "given",
    [
        {"transform": Features("features", class_prior=torch.tensor([0.5, 1.0, 1.5, 1.0]))},
        {"divergence": "mmd", "exact": True},
        {"divergence": "mmd", "mean_one": True, "cap": 1.5, "min_ess": 0.5},
        {"divergence": "kl", "val_refresh": 7, "val_every": 1},
        {"divergence": "kl", "steps": 3, "warmup_steps": None},
        {"divergence": "kl", "forward": lambda model, batch: (model(batch[0]), batch[1])},
        {"divergence": "kl", "cautious": True},
    ],
    ids=["features", "exact", "limits", "partial refresh", "several steps", "forward", "caution"],
)
def test_other_settings(given: dict[str, Any]) -> None:
    compare(lambda: Run(**given))


@pytest.mark.parametrize("unit", ["sample", "element"])
@pytest.mark.parametrize("divergence", [None, "kl", "mmd"])
def test_a_stream_of_tokens(divergence: str | None, unit: Any) -> None:
    """Replayed steps equal eager ones, and no step waits for the device."""
    random = Generator().manual_seed(0)
    x, tokens = torch.randn(200, 8, 6, generator=random), torch.randint(4, (200, 6), generator=random)
    tokens[::3, 3:] = -100

    def train() -> tuple[ADIW, list[Tensor]]:
        torch.manual_seed(0)
        model = nn.Conv1d(8, 4, 1).cuda()
        criterion, given = nn.CrossEntropyLoss(reduction="none"), {"generator": Generator().manual_seed(0)}
        reweight = ADIW(model, criterion, TensorDataset(x[:40], tokens[:40]), None, divergence, unit=unit, **given)
        losses, steps = [], list(zip(x[40:].cuda().split(20), tokens[40:].cuda().split(20), strict=True)) * 3
        for step, (inputs, targets) in enumerate(steps):
            torch.cuda.set_sync_debug_mode("error" if step >= 12 else "default")  # a capture itself waits
            try:
                losses.append(reweight(model(inputs), targets).detach())
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return reweight, losses

    with deterministic():
        with always_eager():
            eager, expected = train()
        replayed, losses = train()
    assert len(replayed._estimations.graphs) == 1
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected), rtol=0, atol=0)
    torch.testing.assert_close(replayed.weights, eager.weights, rtol=0, atol=0)


def test_a_compiled_model() -> None:
    def make() -> Run:
        torch._dynamo.reset()  # otherwise the second run would use kernels that the first compiled for all sizes
        return Run(wrap=torch.compile, divergence="kl")

    compare(make, least_graphs=2, exact=False)


def test_a_compiled_estimation() -> None:
    def make() -> Run:
        torch._dynamo.reset()
        run = Run(divergence="kl")
        run.reweight.compile()
        return run

    compare(make, least_graphs=2, exact=False)


def test_a_model_compiled_with_its_own_graphs_stays_eager() -> None:
    def make() -> Run:
        torch._dynamo.reset()
        return Run(wrap=lambda model: torch.compile(model, mode="reduce-overhead"), divergence="kl")

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        compare(make, exact=False)


def test_each_batch_size_has_its_graph_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = compare(lambda: Run(divergence="kl"))
    sizes = [signature[1][0] for signature in run.reweight._estimations.graphs]  # type: ignore[index]
    assert sorted(sizes) == [(LAST,), (BATCH,)]
    monkeypatch.setattr(cuda_graphs, "MOST_GRAPHS", 1)
    run = compare(lambda: Run(divergence="kl"))
    assert len(run.reweight._estimations.graphs) == 1


def test_the_loss_and_its_gradient_are_not_overwritten_by_later_steps() -> None:
    """Two losses before one backward pass, and a loss that is changed in place."""

    def gradients(run: Run) -> list[Tensor]:
        run.train(10)
        index = torch.arange(BATCH, device="cuda")
        first = run.reweight(run.model(run.x[index]), run.y[index], index)
        first /= 2
        second = run.reweight(run.model(run.x[index + 50]), run.y[index + 50], index + 50)
        values = [first.detach().clone(), second.detach().clone()]
        (first + second).backward()
        return values + [p.grad.clone() for p in run.net.parameters() if p.grad is not None]

    with deterministic():
        with always_eager():
            expected = gradients(Run(divergence="mmd"))
        found = gradients(Run(divergence="mmd"))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_nonfinite_losses_and_bad_indices_are_masked_in_replays() -> None:
    def train(run: Run) -> Run:
        for step in range(12):
            index = torch.arange(BATCH, device="cuda") + step
            outputs, label = run.model(run.x[index]), run.y[index[step]]
            offset = torch.zeros_like(outputs)  # makes one loss infinite, and its gradient stays finite
            offset[step, label], offset[step, (label + 1) % CLASSES] = -3e38, 3e38
            run.reweight(outputs + offset, run.y[index], index).backward()
            run.optimizer.step()
            run.optimizer.zero_grad()
        return run

    with always_eager():
        eager = train(Run(divergence="kl"))
    replayed = train(Run(divergence="kl"))
    assert torch.equal(replayed.reweight.weight_state.nonfinite, eager.reweight.weight_state.nonfinite)
    assert int(replayed.reweight.weight_state.nonfinite.sum()) == 12
    assert all(p.isfinite().all() for p in replayed.net.parameters())
    index = torch.full((BATCH,), NUM_TRAIN, device="cuda")
    replayed.reweight(replayed.model(replayed.x[:BATCH]), replayed.y[:BATCH], index)
    with pytest.raises(IndexError, match=f"{BATCH} indices"):
        replayed.reweight.summary()


def test_a_model_that_synchronises_keeps_its_pass_eager_and_warns_once() -> None:
    class Asking(Net):
        def forward(self, x: Tensor) -> Tensor:
            logits = super().forward(x)
            return logits if float(logits.detach().sum()) < 1e9 else logits * 2

    def make() -> Run:
        run = Run(divergence="kl")
        run.net = Asking().cuda()
        run.model = run.reweight.evaluator.model = run.net
        run.optimizer = torch.optim.SGD(run.net.parameters(), lr=0.05)
        return run

    with pytest.warns(UserWarning, match="^passes over the trusted samples are not captured") as found:
        run = compare(make)
    assert len(found) == 1
    assert run.reweight._estimations.graphs
    torch.rand(2, device="cuda")  # the default generator still draws


def test_forward_hooks_are_called_in_every_pass() -> None:
    calls: list[bool] = []
    run = Run(divergence="kl")
    run.net.head.register_forward_hook(lambda module, _inputs, _output: calls.append(module.training))
    with pytest.warns(UserWarning, match="Linear has forward hooks, which a graph would not call"):
        run.train(20)
    assert calls.count(False) == 10


def test_a_replayed_step_does_not_wait_for_the_device() -> None:
    run = Run(divergence="kl")
    run.train(20)
    index = torch.arange(BATCH, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            run.reweight(run.model(run.x[:BATCH]), run.y[:BATCH], index).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_on_another_stream_and_with_the_index_on_the_host() -> None:
    def make() -> Run:
        run = Run(divergence="kl")
        host = run.reweight.forward

        def forward(outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
            return host(outputs, targets, index.cpu(), inputs)

        run.reweight.forward = forward  # type: ignore[method-assign]
        return run

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        compare(make, least_graphs=2)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_old_graphs_that_are_freed_do_not_end_a_capture() -> None:
    """An object in a reference cycle is freed whenever Python collects garbage, also during a capture."""
    thresholds, old = gc.get_threshold(), Run(divergence="kl").train(20)
    cycle: list[Any] = [old]
    cycle.append(cycle)
    del old, cycle
    gc.set_threshold(1)  # collect after every few objects
    try:
        compare(lambda: Run(divergence="kl"), least_graphs=2)
    finally:
        gc.set_threshold(*thresholds)


def test_a_copy_and_a_pickle_have_no_graphs() -> None:
    run = Run(divergence="kl").train(20)
    assert run.graphs
    other = copy.deepcopy(run.reweight)
    assert not other._estimations.graphs
    index = torch.arange(BATCH, device="cuda")
    with nullcontext():
        other(run.model(run.x[:BATCH]), run.y[:BATCH], index)


@pytest.mark.parametrize("divergence", [None, "kl", "mmd"])
def test_parts_of_a_batch_train_as_the_batch(divergence: str | None) -> None:
    """``look_ahead``, eagerly at first and then as replays; batches and their index may be on the CPU."""

    def train(parts: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        random = Generator().manual_seed(0)
        x = torch.randn(NUM_TRAIN, 6, generator=random, dtype=torch.float64)
        y = torch.randint(CLASSES, (NUM_TRAIN,), generator=random)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES)).double().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        given = {"warmup_steps": 2, "generator": Generator().manual_seed(0), "cautious": False}
        val_set, criterion = TensorDataset(x[:TRUSTED], y[:TRUSTED]), nn.CrossEntropyLoss(reduction="none")
        reweight = ADIW(model, criterion, val_set, NUM_TRAIN, divergence, **given).double()
        for step in range(10):
            chosen = torch.randperm(NUM_TRAIN, generator=Generator().manual_seed(step))[:BATCH]
            batches = [(x[i], y[i], i) for i in chosen.chunk(parts)]
            if parts > 1:
                reweight.look_ahead(batches)
            for inputs, targets, index in batches:
                (reweight(model(inputs.cuda()), targets.cuda(), index) / parts).backward()
            optimizer.step()
            optimizer.zero_grad()
        return reweight.weights, torch.cat([p.detach().flatten() for p in model.parameters()])

    (weights, parameters), (expected, whole) = train(4), train(1)
    torch.testing.assert_close(weights, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(parameters, whole, rtol=1e-6, atol=1e-6)
    assert (expected != 1).any()
