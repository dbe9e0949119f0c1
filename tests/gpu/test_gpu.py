"""ADIW on a GPU: no host synchronisation in a step, and the results of the CPU."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, DIVERGENCES, Features
from adiw.divergences import KL, MMD, Relative, Squared, Wasserstein
from adiw.models import build
from adiw.reweighting.sample_index import mean_of_duplicates, write_by_index

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and this machine has none"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature:UserWarning"),
]

# 24 training and 17 validation samples per batch: their distribution functions are nowhere equal in between, so that
# the sign of their difference (the Wasserstein critic) does not depend on rounding.
NUM_TRAIN, BATCH, NUM_VAL, VAL_BATCH, CLASSES = 96, 24, 41, 17, 4
NETWORK = Wasserstein(critic="network", pretrain=2, learning_rate=1e-3)
EXACT = {
    **{name: kind() for name, kind in DIVERGENCES.items()},
    "mmd": MMD(width=0.3),  # a narrower kernel sees too few of these samples: rounding decides which
    "squared": Squared(width=0.3, step_size=0.1),
    "relative": Relative(width=0.3),
    "kl auto": KL(width="auto"),
    "kl optimum": KL(update="optimum", step_size=0.1),
    "kl euclidean": KL(update="euclidean", step_size=0.1),
    "mmd auto": MMD(width="auto"),
    "wasserstein auto": Wasserstein(scale="auto"),
}
LOSSES: dict[str, Callable[[], dict[str, Any]]] = {
    name: lambda divergence=divergence: {"divergence": divergence}  # type: ignore[misc]
    for name, divergence in {**EXACT, "network": NETWORK}.items()
}
OTHERS: dict[str, Callable[[], dict[str, Any]]] = {
    "features": lambda: {"transform": Features("1", class_prior=torch.tensor([0.5, 1.0, 1.5, 1.0]))},
    "features mmd": lambda: {"divergence": MMD(width=0.3), "transform": Features("1", num_classes=CLASSES)},
    "features squared": lambda: {"divergence": Squared(width=0.3), "transform": Features("1", num_classes=CLASSES)},
    "features network": lambda: {"divergence": NETWORK, "transform": Features("1", num_classes=CLASSES)},
    "features sliced": lambda: {"divergence": "sliced", "transform": Features("1", num_classes=CLASSES)},
    "features energy": lambda: {"divergence": "energy", "transform": Features("1", num_classes=CLASSES)},
    "features hellinger": lambda: {"divergence": "hellinger", "transform": Features("1", num_classes=CLASSES)},
    "one group of features": lambda: {"transform": Features("1")},
    "partial refresh": lambda: {"val_refresh": 5},
    "exact": lambda: {"exact": True},
    "limits": lambda: {"divergence": MMD(width=0.3), "mean_one": True, "cap": 1.2, "min_ess": 0.9},
    "mean one": lambda: {"divergence": MMD(width=0.3), "mean_one": True},
    "several steps": lambda: {"divergence": MMD(width=0.3), "steps": 3},
}
ALL = {**LOSSES, **OTHERS}


class Run:
    """A small network in training on a device."""

    def __init__(self, device: str, settings: dict[str, Any]) -> None:
        generator = Generator().manual_seed(0)
        x, y = torch.randn(NUM_TRAIN, 6, generator=generator), torch.arange(NUM_TRAIN) % CLASSES
        val = TensorDataset(torch.randn(NUM_VAL, 6, generator=generator), torch.arange(NUM_VAL) % CLASSES)
        self.x, self.y = x.to(device), y.to(device)
        self.model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES))
        for parameter in self.model.parameters():
            nn.init.normal_(parameter, std=0.5, generator=generator)
        self.model.to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        settings = {
            "val_batch": VAL_BATCH,
            "val_every": 1,
            "warmup_steps": 1,
            "cautious": False,
            "generator": Generator().manual_seed(0),
            **settings,
        }
        criterion = nn.CrossEntropyLoss(reduction="none")
        self.reweight = ADIW(self.model, criterion, val, NUM_TRAIN, **settings)

    def batch(self, step: int) -> Tensor:
        return torch.randperm(NUM_TRAIN, generator=Generator().manual_seed(step))[:BATCH].to(self.x.device)

    def step(self, index: Tensor, x: Tensor, y: Tensor) -> None:
        self.reweight(self.model(x), y, index, inputs=x).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def train(self, steps: range) -> Tensor:
        for step in steps:
            index = self.batch(step)
            self.step(index, self.x[index], self.y[index])
        return self.reweight.weights.clone()


@contextmanager
def no_waiting() -> Iterator[None]:
    """An operation that makes the host wait for the device is an error."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ALL)
def test_a_step_does_not_wait_for_the_device(name: str) -> None:
    run = Run("cuda", ALL[name]())
    run.train(range(2))  # the first steps copy data to the device
    batches = [(index, run.x[index], run.y[index]) for index in (run.batch(step) for step in range(2, 6))]
    with no_waiting():
        for batch in batches:
            run.step(*batch)
    assert run.reweight.weights.isfinite().all()


def test_a_step_with_the_index_on_the_host_does_not_wait_either() -> None:
    run = Run("cuda", {})
    run.train(range(2))
    index = run.batch(2)
    host, x, y = index.cpu(), run.x[index], run.y[index]
    with no_waiting():
        run.step(host, x, y)


def test_a_streamed_validation_set_does_not_wait() -> None:
    run, cached = Run("cuda", {"cache_bytes": 0}), Run("cuda", {})
    run.train(range(2))
    batches = [(index, run.x[index], run.y[index]) for index in (run.batch(step) for step in range(2, 6))]
    with no_waiting():
        for batch in batches:
            run.step(*batch)
    torch.testing.assert_close(run.reweight.weights, cached.train(range(6)))


def test_a_synchronisation_is_detected() -> None:
    with pytest.raises(RuntimeError, match="synchronizing"), no_waiting():
        torch.ones(2, device="cuda").sum().item()


def test_a_bad_index_is_masked_counted_and_raised_at_the_next_summary() -> None:
    run, sound = Run("cuda", {"divergence": MMD(width=0.3), "warmup_steps": 0}), Run("cuda", {})
    index = run.batch(0)
    bad = index.clone()
    bad[[2, 7, 9]] = torch.tensor([-1, NUM_TRAIN, 2**40], device="cuda")
    with no_waiting():
        run.step(bad, run.x[index], run.y[index])
    weights = run.reweight.weights
    untouched = torch.ones(NUM_TRAIN, dtype=torch.bool, device="cuda")
    untouched[torch.cat([index[:2], index[3:7], index[8:9], index[10:]])] = False
    assert (weights[untouched] == 1).all()
    assert (weights[~untouched] != 1).all()
    for look in (run.reweight.summary, run.reweight.state_dict):
        with pytest.raises(IndexError, match=r"3 indices so far were not in the training set \(0 to 95\)"):
            look()
    sound.train(range(2))
    sound.reweight.summary()
    sound.reweight.state_dict()


@pytest.mark.parametrize("name", [name for name in ALL if "network" not in name])
def test_cpu_and_gpu_agree(name: str) -> None:
    """In float32 after 20 steps of training; the critic network draws other random numbers on each device."""
    cpu, gpu = Run("cpu", ALL[name]()), Run("cuda", ALL[name]())
    weights = cpu.train(range(20))
    torch.testing.assert_close(gpu.train(range(20)).cpu(), weights, rtol=2e-3, atol=2e-3)
    assert weights.std() > 0.01
    torch.testing.assert_close(gpu.model[0].weight.cpu(), cpu.model[0].weight, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_a_captured_step_gives_the_weights_of_eager_ones(name: str) -> None:
    eager, captured = Run("cuda", ALL[name]()), Run("cuda", ALL[name]())
    expected = eager.train(range(10))

    index = captured.batch(0)
    x, y = captured.x[index], captured.y[index]
    static = [index.clone(), x.clone(), y.clone()]

    def load(step: int) -> None:
        batch = captured.batch(step)
        for place, value in zip(static, (batch, captured.x[batch], captured.y[batch]), strict=True):
            place.copy_(value)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for step in range(3):
            load(step)
            captured.step(*static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(captured.reweight.randomness.on(torch.device("cuda")))
    with torch.cuda.graph(graph):
        captured.step(*static)
    for step in range(3, 10):
        load(step)
        graph.replay()
    torch.testing.assert_close(captured.reweight.weights, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(captured.model[0].weight, eager.model[0].weight, rtol=1e-5, atol=1e-5)
    assert captured.reweight.weight_state.seen_steps == 10
    assert expected.std() > 1e-3


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the compiler forks
@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_compiled_estimate_gives_the_weights_of_eager_ones(name: str) -> None:
    torch.compiler.reset()
    eager, compiled = Run("cuda", LOSSES[name]()), Run("cuda", LOSSES[name]())
    compiled.reweight.compile(dynamic=False)
    expected = eager.train(range(8))
    torch.testing.assert_close(compiled.train(range(8)), expected, rtol=1e-3, atol=1e-3)
    assert expected.std() > 1e-3


@pytest.mark.parametrize("name", ALL)
def test_a_run_resumed_on_the_gpu_is_the_same_run(name: str) -> None:
    straight = Run("cuda", ALL[name]())
    expected = straight.train(range(10))
    first, second = Run("cuda", ALL[name]()), Run("cuda", ALL[name]())
    first.train(range(5))
    second.train(range(20, 22))
    for source, target in ((first.model, second.model), (first.optimizer, second.optimizer)):
        target.load_state_dict(source.state_dict())
    file = io.BytesIO()
    torch.save(first.reweight.state_dict(), file)
    file.seek(0)
    second.reweight.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(second.train(range(5, 10)), expected)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_a_resnet_gives_the_outputs_of_the_cpu(layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    model = build("resnet18", (3, 33, 40), 10).double()
    x = torch.rand(4, 3, 33, 40, dtype=torch.double).contiguous(memory_format=layout)
    expected = model(x)
    (slope,) = torch.autograd.grad(expected.square().sum(), model.conv1.weight)
    found = model.cuda()(x.cuda())
    torch.testing.assert_close(found.cpu(), expected)
    (slope_found,) = torch.autograd.grad(found.square().sum(), model.conv1.weight)
    torch.testing.assert_close(slope_found.cpu(), slope)
    narrow = model.conv1.float()(x.cuda().float())  # cuDNN chooses another layout for doubles
    assert narrow.is_contiguous(memory_format=layout)


def test_a_state_moves_between_devices() -> None:
    gpu, cpu = Run("cuda", {}), Run("cpu", {})
    weights = gpu.train(range(5))
    file = io.BytesIO()
    torch.save([part.state_dict() for part in (gpu.model, gpu.optimizer, gpu.reweight)], file)
    file.seek(0)
    states = torch.load(file, weights_only=True, map_location="cpu")
    for part, state in zip((cpu.model, cpu.optimizer, cpu.reweight), states, strict=True):
        part.load_state_dict(state)
    assert torch.equal(cpu.reweight.weights, weights.cpu())
    torch.testing.assert_close(cpu.train(range(5, 7)), gpu.train(range(5, 7)).cpu(), rtol=1e-3, atol=1e-3)


def test_on_another_device_the_error_says_to_move_it() -> None:
    run = Run("cpu", {"divergence": NETWORK, "warmup_steps": 0})
    run.train(range(3))
    run.model.cuda()
    run.x, run.y = run.x.cuda(), run.y.cuda()
    with pytest.raises(ValueError, match=r'reweight is on cpu: call reweight\.to\("cuda:0"\)'):
        run.train(range(3, 4))
    run.reweight.to("cuda:0")
    run.optimizer = torch.optim.SGD(run.model.parameters(), lr=0.05)
    assert run.train(range(3, 6)).is_cuda


@pytest.mark.filterwarnings("ignore:passes over the trusted samples are not captured")  # the model has a hook
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "after"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_with_a_grad_scaler(dtype: torch.dtype, inside: bool) -> None:
    run, whole = Run("cuda", {}), Run("cuda", {})
    hidden: list[tuple[bool, torch.dtype]] = []
    run.model[0].register_forward_hook(lambda module, _, output: hidden.append((module.training, output.dtype)))
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**8)
    for step in range(8):
        index = run.batch(step)
        with torch.autocast("cuda", dtype=dtype):
            outputs = run.model(run.x[index])
            loss = run.reweight(outputs, run.y[index], index) if inside else None
        loss = run.reweight(outputs, run.y[index], index) if loss is None else loss
        assert loss.dtype == torch.float32
        scaler.scale(loss).backward()
        scaler.step(run.optimizer)
        scaler.update()
        run.optimizer.zero_grad()
    assert hidden == [(True, dtype), (False, dtype)] * 8  # the validation pass has the precision of the training pass
    assert scaler.get_scale() == 2.0**8  # no step was skipped
    expected = whole.train(range(8))
    torch.testing.assert_close(run.reweight.weights, expected, rtol=0.1, atol=0.05)
    assert expected.std() > 0.1


def test_duplicates_are_averaged_in_the_same_way_every_time() -> None:
    generator = Generator("cuda").manual_seed(0)
    index = torch.randint(500, (100_000,), generator=generator, device="cuda")
    values = torch.rand(100_000, generator=generator, device="cuda")
    first = mean_of_duplicates(index, values)
    assert all(torch.equal(mean_of_duplicates(index, values), first) for _ in range(20))
    slots = torch.ones(501, device="cuda")
    write_by_index(slots, index, values)
    for i in (0, 250, 499):
        torch.testing.assert_close(slots[i], values[index == i].mean())
