"""When calls are captured and replayed, on a simulated GPU; tests/gpu/test_plain_loop.py tests it on a real one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Features, Indexed
from adiw.reweighting import adiw, cuda_graphs, sample_record
from adiw.reweighting.cuda_graphs import WARM_UP, GraphedCalls, NotCaptured, can_capture
from adiw.reweighting.graphed_pass import MOST_CHANGES, fingerprint
from adiw.reweighting.sample_record import class_columns
from adiw.reweighting.transforms import LossValue
from tests.simulated_gpu import always_eager, simulate_graphs, tensors_in

CPU = torch.device("cpu")


def double(x: Tensor) -> Tensor:
    return 2 * x


def test_calls_are_replayed_after_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate_graphs(monkeypatch, list)
    calls = GraphedCalls("calls")
    found = [calls(double, (torch.tensor([float(i)]),), CPU) for i in range(WARM_UP + 3)]
    assert log == ["capture", "replay", "replay", "replay"]
    assert [shared for _, shared in found] == [False] * WARM_UP + [True] * 3
    assert [float(value) for value, _ in found[:WARM_UP]] == [0.0, 2.0, 4.0]
    assert {float(value) for value, _ in found[WARM_UP:]} == {2.0 * (WARM_UP + 2)}  # one memory, overwritten


def test_a_simulated_graph_fixes_what_python_computes_and_refuses_what_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total, python, calls = torch.zeros(2), [1.0], GraphedCalls("sums")

    def add(x: Tensor) -> Tensor:
        total.add_(python[0] * x)
        return total[1:] + 1

    simulate_graphs(monkeypatch, lambda: [total])
    for step in range(8):
        python[0] = 1.0 if step <= WARM_UP else 100.0
        result, _ = calls(add, [torch.tensor([1.0, 2.0])], CPU)
    assert total.tolist() == [8, 16]
    assert result.tolist() == [17]
    for read in (lambda x: x * float(x[0]), lambda x: x[x > 0], torch.nonzero):
        calls = GraphedCalls("reads")
        for _ in range(WARM_UP):
            calls(read, [torch.ones(2)], CPU)
        with pytest.warns(UserWarning, match="operation not permitted"):
            calls(read, [torch.ones(2)], CPU)


def test_every_shape_dtype_and_key_has_its_graph_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_graphs(monkeypatch, list)
    monkeypatch.setattr(cuda_graphs, "MOST_GRAPHS", 3)
    calls = GraphedCalls("calls")
    cases: list[tuple[Tensor, str]] = [
        (torch.ones(2), "a"),
        (torch.ones(3), "a"),
        (torch.ones(2).double(), "a"),
        (torch.ones(2), "b"),
    ]
    for _ in range(WARM_UP + 2):
        found = [calls(double, (x,), CPU, key) for x, key in cases]
    assert [shared for _, shared in found] == [True, True, True, False]
    assert [value.dtype for value, _ in found] == [x.dtype for x, _ in cases]


def test_signatures_that_do_not_return_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_graphs(monkeypatch, list)
    monkeypatch.setattr(cuda_graphs, "MOST_SIGNATURES", 5)
    calls = GraphedCalls("calls")
    for size in range(50):
        calls(double, (torch.ones(size),), CPU)
    assert len(calls.calls) <= 6


def test_work_that_cannot_be_captured_stays_eager_and_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> None:
        raise NotCaptured("a number was asked for")

    simulate_graphs(monkeypatch, list)
    monkeypatch.setattr(cuda_graphs, "capture", refuse)
    calls = GraphedCalls("calls")
    with pytest.warns(UserWarning, match=r"^calls are not captured as a CUDA graph .*\(a number was") as caught:
        found = [calls(double, (torch.ones(1),), CPU) for _ in range(WARM_UP + 5)]
    assert len(caught) == 1
    assert not any(shared for _, shared in found)


def test_no_capture_on_a_cpu_or_if_all_is_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    capturing = [False]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    gpu = torch.device("cuda")
    assert not can_capture(CPU)
    assert can_capture(gpu)
    with always_eager():
        assert not can_capture(gpu)
    assert can_capture(gpu)
    capturing[0] = True  # the whole step is being captured
    assert not can_capture(gpu)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.3))
        self.head, self.scale = nn.Linear(6, 4), 1.0

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x)) * self.scale
        return logits


Before = Callable[[Net, ADIW, int], None]


class Run:
    """Training in batches of changing size, on a GPU that is simulated."""

    def __init__(self, joined: bool = False, unlabelled: bool = False, **given: Any) -> None:
        torch.manual_seed(0)
        truth, centres = torch.arange(60) % 4, 3 * torch.randn(4, 3)
        self.x, kind = centres[truth] + torch.randn(60, 3), torch.arange(60) % 3
        wrong, trusted = kind == 0, kind == 1
        self.y = torch.where(wrong, (truth + 1) % 4, truth)
        if unlabelled:
            self.y[1::6] = -100  # which cross-entropy ignores
        self.net = Net()
        val_set: Any = TensorDataset(self.x[trusted], truth[trusted])
        if joined:
            val_set = Indexed(TensorDataset(self.x, self.y), trusted.nonzero().flatten()).trusted
        given = {"val_batch": 18, "val_every": 2, "warmup_steps": 2, "generator": Generator().manual_seed(0), **given}
        self.reweight = ADIW(self.net, nn.CrossEntropyLoss(reduction="none"), val_set, 60, **given)
        self.losses: list[float] = []

    def state(self) -> list[Tensor]:
        method = self.reweight
        return [
            *method.buffers(),
            *tensors_in([method.estimator.memory, method.val_schedule.z, method.val_schedule.group]),
        ]

    def train(self, before: Before, steps: int = 40) -> Run:
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.3)
        for step in range(steps):
            before(self.net, self.reweight, step)
            index = torch.randperm(60, generator=Generator().manual_seed(step))[: 16 if step % 5 else 7]
            loss = self.reweight(self.net(self.x[index]), self.y[index], index, inputs=self.x[index])
            loss /= 2
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            self.losses.append(float(loss.detach()))
        return self


def nothing(net: Net, reweight: ADIW, step: int) -> None:
    pass


def replaced(net: Net, reweight: ADIW, step: int) -> None:
    if step == 12:
        net.head = copy.deepcopy(net.head)
    elif step == 20:
        net.scale = 0.5
    elif step == 28:
        net.head.weight.data = 2 * net.head.weight.data
    elif step == 33:
        reweight.load_state_dict(copy.deepcopy(reweight.state_dict()))


def modes(net: Net, reweight: ADIW, step: int) -> None:
    net.train(step % 3 > 0)


@pytest.mark.parametrize("before", [nothing, replaced, modes])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"joined": True},
        {"divergence": "kl"},
        {"divergence": "kl", "unlabelled": True},
        {"divergence": "mmd", "val_refresh": 3, "val_every": 1},
        {"divergence": "wasserstein", "exact": True, "mean_one": True, "cautious": False},
        {"transform": Features("body", num_classes=4)},
        {"divergence": "kl", "forward": lambda model, batch: (model(batch[0]), batch[1])},
    ],
    ids=["default", "joined", "kl", "unlabelled", "mmd", "exact", "features", "forward"],
)
def test_training_with_graphs_is_training_without(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], before: Before
) -> None:
    runs: list[Run] = []
    log = simulate_graphs(monkeypatch, lambda: runs[-1].state())
    for eager in (True, False):
        runs.append(Run(**given))
        if eager:
            with always_eager():
                runs[-1].train(before)
        else:
            runs[-1].train(before)
        assert ("replay" in log) is not eager
    expected, found = runs
    assert log.count("replay") > 20
    assert found.losses == expected.losses
    assert torch.equal(found.reweight.weights, expected.reweight.weights)
    assert expected.reweight.weights.std() > 1e-3
    assert str(found.reweight.summary()) == str(expected.reweight.summary())


@pytest.mark.parametrize("given", [{"joined": True}, {"divergence": "kl"}], ids=["joined", "kl"])
def test_after_the_early_steps_graphs_do_not_record_losses(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setattr(sample_record, "EARLY_STEPS", 20)
    recorded: list[bool] = []
    steps: list[bool] = []  # that are not replayed
    write, write_step = sample_record.write_by_index, sample_record.SampleRecord.write
    monkeypatch.setattr(sample_record.SampleRecord, "write", lambda *given: (steps.append(True), write_step(*given)))
    monkeypatch.setattr(sample_record, "write_by_index", lambda *given: (recorded.append(True), write(*given)))
    runs: list[Run] = []
    log = simulate_graphs(monkeypatch, lambda: runs[-1].state())
    for eager in (True, False):
        recorded.clear()
        steps.clear()
        runs.append(Run(**given))
        with always_eager() if eager else nullcontext():
            runs[-1].train(nothing, steps=50)
    assert len(recorded) == 2 * (WARM_UP + 1)  # both batch sizes are captured once in the early steps
    assert len(steps) == 2 * (WARM_UP + 2)  # and once more afterwards
    assert len(runs[1].reweight._estimations.graphs) == 2
    assert log.count("replay") > 20
    early = [run.reweight.record.early for run in runs]
    assert torch.equal(early[0].nan_to_num(-1), early[1].nan_to_num(-1))
    assert early[0].isfinite().any()
    assert torch.equal(runs[0].reweight.weights, runs[1].reweight.weights)


@pytest.mark.parametrize("most_bytes", [adiw.MOST_BYTES, 0])
def test_a_graph_reads_small_outputs_itself(monkeypatch: pytest.MonkeyPatch, most_bytes: int) -> None:
    monkeypatch.setattr(adiw, "MOST_BYTES", most_bytes)
    run = Run(divergence="kl")
    simulate_graphs(monkeypatch, run.state)
    predicted: list[Tensor] = []
    monkeypatch.setattr(
        adiw, "class_columns", lambda outputs, *rest: (predicted.append(outputs), class_columns(outputs, *rest))[1]
    )
    run.train(nothing)
    copied = [x for graph in run.reweight._estimations.graphs.values() for x in graph.inputs if x is not None]
    assert any(x.ndim == 2 for x in copied) == (most_bytes > 0)
    captured = 2 * (WARM_UP + 1)  # both batch sizes are captured then, and replayed
    assert len(predicted) == (captured if most_bytes else 40)


@pytest.mark.parametrize("most_bytes", [adiw.MOST_BYTES, 0])
@pytest.mark.parametrize("given", [{}, {"joined": True}, {"divergence": "kl"}], ids=["default", "joined", "kl"])
def test_weights_of_several_batches_together_with_graphs_are_those_without(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], most_bytes: int
) -> None:
    """In every third step a batch has its own estimate, in a graph of its own although its size is the same."""
    monkeypatch.setattr(adiw, "MOST_BYTES", most_bytes)
    runs: list[Run] = []
    log = simulate_graphs(monkeypatch, lambda: runs[-1].state())
    for eager in (True, False):
        runs.append(run := Run(**given))
        with always_eager() if eager else nullcontext():
            run.train(nothing, steps=20)  # some evidence
            log.clear()
            for step in range(24):
                index = torch.randperm(60, generator=Generator().manual_seed(step))[:16]
                batches = [(run.x[i], run.y[i], i) for i in index.split([10, 6] if step % 3 else [16])]
                if step % 3:
                    run.reweight.look_ahead(batches)
                run.losses += [float(run.reweight(run.net(x).detach(), y, i)) for x, y, i in batches]
    assert log.count("replay") > 20
    assert runs[1].losses == runs[0].losses
    assert torch.equal(runs[1].reweight.weights, runs[0].reweight.weights)
    assert runs[0].reweight.weights.std() > 1e-3


def test_a_model_that_changes_in_every_pass_stays_eager_and_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def anneal(net: Net, reweight: ADIW, step: int) -> None:
        net.scale = 1 + step / 100

    run = Run(divergence="kl")
    log = simulate_graphs(monkeypatch, run.state)
    with pytest.warns(UserWarning, match=rf"^passes .*\(the model changed {MOST_CHANGES + 1} times") as caught:
        run.train(anneal)
    assert len(caught) == 1
    assert log.count("capture") == 2  # estimations of two batch sizes
    with always_eager():
        assert run.losses == Run(divergence="kl").train(anneal).losses


def test_forward_hooks_are_called_and_keep_passes_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    run, modes = Run(divergence="kl"), []
    simulate_graphs(monkeypatch, run.state)
    run.net.head.register_forward_hook(lambda module, _inputs, _output: modes.append(module.training))
    with pytest.warns(UserWarning, match="Linear has forward hooks, which a graph would not call"):
        run.train(nothing, 20)
    assert modes.count(False) == 10


def test_samples_that_the_host_reads_stay_eager_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(divergence="kl", cache_bytes=0)
    log = simulate_graphs(monkeypatch, run.state)
    run.train(nothing)
    assert log.count("capture") == 2  # estimations of two batch sizes


def test_a_copy_has_no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(divergence="kl")
    simulate_graphs(monkeypatch, run.state)
    run.train(nothing)
    for other in (copy.deepcopy(run.reweight), pickle.loads(pickle.dumps(run.reweight))):
        assert run.reweight._estimations.graphs
        assert other._estimations.graphs == {}
        assert torch.equal(other.weights, run.reweight.weights)


def test_compiling_drops_the_graphs_of_the_estimation_before(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(divergence="kl")
    simulate_graphs(monkeypatch, run.state)
    run.train(nothing, 10)
    assert run.reweight._estimations.graphs
    run.reweight.compile(backend=lambda graph, inputs: graph)
    assert not run.reweight._estimations.graphs


def change_nothing(net: Net) -> None:
    net.train(not net.training)
    with torch.no_grad():
        net.head.weight.mul_(2)


CHANGES: dict[str, Callable[[Net], Any]] = {
    "module": lambda net: setattr(net, "head", copy.deepcopy(net.head)),
    "activation": lambda net: net.body.__setitem__(2, nn.ReLU()),
    "memory": lambda net: setattr(net.head.weight, "data", net.head.weight.data.clone()),
    "shape": lambda net: setattr(net.head.weight, "data", net.head.weight.data.t()),
    "buffer": lambda net: net.body[1].register_buffer("running_mean", torch.ones(6)),
    "attribute": lambda net: setattr(net, "scale", 3.0),
    "tensor": lambda net: setattr(net, "mask", torch.ones(2)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_follows_every_change(change: str) -> None:
    net, transform = Net(), LossValue()
    before = fingerprint(net, transform)
    change_nothing(net)
    assert fingerprint(net, transform) == before
    CHANGES[change](net)
    assert fingerprint(net, transform) != before


def test_metrics_of_a_model_are_not_part_of_it() -> None:
    kind = type("Accuracy", (nn.Module,), {"__module__": "torchmetrics.classification"})
    net = Net()
    net.accuracy = kind()
    before = fingerprint(net, LossValue())
    net.accuracy.updates = 7
    assert fingerprint(net, LossValue()) == before


def test_only_the_hook_of_the_transform_is_allowed() -> None:
    net, features = Net(), Features("body")
    features.attach(net)
    fingerprint(net, features)
    with pytest.raises(NotCaptured, match="Sequential has forward hooks"):
        fingerprint(net, LossValue())
    net.head.register_forward_pre_hook(lambda _module, _inputs: None)
    with pytest.raises(NotCaptured, match="Linear has forward hooks"):
        fingerprint(net, features)
