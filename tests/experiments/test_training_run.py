"""A run in progress: torch.compile, streams, and optimizer states from another device."""

from __future__ import annotations

import copy
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest
import torch

from adiw.experiments.resume import restore, state_of
from adiw.experiments.settings import resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from adiw.reweighting.adiw import ADIW
from tests.counting import Counting

CPU = torch.device("cpu")


pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit")  # from the compiler, at its first import


@pytest.mark.parametrize(
    ("given", "estimation"),
    [
        ({"method": "adiw-kl"}, True),
        ({"method": "adiw-kl", "transform": "features"}, True),
        ({"method": "diw"}, True),
        ({"method": "l2r"}, True),
        ({"method": "mw-net"}, True),
        ({"method": "uniform"}, False),
    ],
    ids=str,
)
def test_what_is_compiled(given: dict[str, str], estimation: bool) -> None:
    settings = resolve({"dataset": "digits", **given})
    for asked in (False, True):
        job = TrainingRun(settings, load_splits(settings), Engine(CPU, 0, compiled=asked))
        assert (job.model._compiled_call_impl is not None) == asked
        assert translates(job.reweight) == (estimation and asked)


def translates(reweight: Any) -> bool:
    """Whether the method uses torch.compile."""
    parts = vars(reweight) | vars(getattr(reweight, "functional", reweight))
    return bool({"estimate", "_outputs"} & parts.keys()) or isinstance(parts.get("solve"), partial)


def test_compiled_networks_of_a_process_keep_their_hidden_layers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs alternate and two observe a hidden layer: each observes that of its own network."""
    backend = Counting()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    torch.compiler.reset()
    given = [{"transform": "features"}, {}, {"transform": "features", "seed": 1}]
    given = [{"method": "adiw-kl", **settings} for settings in given]
    settings = [resolve({"dataset": "digits", "epochs": 3, **some}) for some in given]
    jobs, plain = (
        [TrainingRun(one, load_splits(one), Engine(CPU, 0, compiled=compiled)) for one in settings]
        for compiled in (True, False)
    )
    for _ in range(3):
        for job in (*jobs, *plain):
            job.train_epoch()
    for job, other in zip(jobs, plain, strict=True):
        torch.testing.assert_close(job.weights(), other.weights(), rtol=1e-3, atol=1e-3)
    assert backend.calls > 3 * len(jobs)
    assert float((jobs[0].weights() - jobs[2].weights()).abs().max()) > 0.1


def test_the_default_is_every_fourth_step_for_loops_as_for_runs() -> None:
    settings = resolve({"dataset": "digits", "method": "adiw-kl"})
    reweight = TrainingRun(settings, load_splits(settings), Engine(CPU, 0)).reweight
    assert isinstance(reweight, ADIW)
    other = ADIW(torch.nn.Linear(1, 2), torch.nn.CrossEntropyLoss(reduction="none"), [(torch.zeros(1), 0)], 3)
    assert reweight.val_schedule.every == other.val_schedule.every == 4


def test_cudnn_benchmarks_its_algorithms_only_within_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = resolve({"dataset": "digits"})
    job = TrainingRun(settings, load_splits(settings), Engine(CPU, 0))
    monkeypatch.setattr(job, "stream", object())  # as on a GPU
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)  # whatever ran before in this process
    with job.on_stream():
        assert torch.backends.cudnn.benchmark
    with suppress(KeyError), job.on_stream():
        raise KeyError
    assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_options_that_depend_on_the_device_are_not_restored(optimizer: str) -> None:
    """A run that was begun on a CPU resumes where the learning rate is a tensor, as on a GPU."""
    settings = resolve({"dataset": "digits", "epochs": 2, "optimizer": optimizer, "lr": 0.01})
    first, second = (TrainingRun(settings, load_splits(settings), Engine(CPU, 0)) for _ in range(2))
    first.train_epoch()
    (group,) = second.optimizer.param_groups
    group["lr"] = torch.tensor(0.01)
    restore(second, copy.deepcopy(state_of(first)))
    (group,) = second.optimizer.param_groups
    assert isinstance(group["lr"], torch.Tensor)
    group["lr"] = 0.01  # a number, as on the CPU
    for job in (first, second):
        job.train_epoch()
    assert first.metrics == second.metrics


def test_torch_compile_may_cache_a_version_per_setting() -> None:
    settings = resolve({"dataset": "digits"})
    TrainingRun(settings, load_splits(settings), Engine(CPU, 0, compiled=True))
    assert torch._dynamo.config.cache_size_limit >= 35  # as many as digits-widths has
