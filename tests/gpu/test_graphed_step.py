"""CUDA graphs: for every method, a captured step computes the same as the eager step."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from adiw.baselines import qp_solvers
from adiw.baselines.diw import kernel_mean_matching
from adiw.engine.train_loader import DatasetLoader
from adiw.experiments import compilation
from adiw.experiments.methods import METHODS
from adiw.experiments.run import Interrupted, run
from adiw.experiments.settings import Settings, resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from adiw.matching.batches import match
from tests.simulated_gpu import always_eager

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),  # workers are forked
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and this machine has none"),
]
GPU = torch.device("cuda")
# Short, with a small learning rate, so that rounding errors stay small; the rate decays after the capture.
GIVEN = {"epochs": 4, "fine_tune_epochs": 2, "lr": 0.02, "decay_every": 2, "batch": 100}


def trained(settings: Settings, capture: bool, compiled: Any = False, workers: int = 0) -> TrainingRun:
    told: list[str] = []
    job = TrainingRun(
        settings, load_splits(settings), Engine(GPU, workers, capture, log=told.append), compiled=compiled
    )
    with nullcontext() if capture else always_eager():
        for _ in range(job.epochs):
            job.train_epoch()
    assert told == []
    return job


def assert_alike(one: TrainingRun, other: TrainingRun) -> None:
    """Two runs agree: a single weight may differ by more than rounding, the mean difference may not."""
    weights = other.weights()
    assert float((one.weights() - weights).abs().mean()) < 1e-3 * max(1, float(weights.abs().mean()))
    for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-3)
    assert one.metrics[-1]["loss"] == pytest.approx(other.metrics[-1]["loss"], rel=1e-3)


@pytest.mark.parametrize(
    "given",
    [{"method": method} for method in METHODS]
    + [
        {"method": "adiw-kl", "momentum": 0.9, "clip": 1.0},
        {"method": "adiw-kl", "transform": "features"},
        {"method": "adiw-km", "exact": True, "mean_one": True},
        {"method": "adiw-kl", "val_refresh": 16},
        {"method": "adiw-kl", "val_every": 4},
        {"method": "adiw-km", "step": "local", "val_every": 3, "val_refresh": 16},
        {"method": "adiw-kl", "optimizer": "adam", "lr": 1e-4},
        {"method": "adiw-kl", "hold_out": 0.3},
        {"method": "fine-tune", "hold_out": 0.3, "optimizer": "adam", "lr": 1e-4},
    ],
    ids=lambda given: "-".join(str(value) for value in given.values()),
)
def test_captured_steps_agree_with_eager_steps(given: dict[str, Any]) -> None:
    settings = resolve({**GIVEN, **given})
    eager, captured = trained(settings, capture=False), trained(settings, capture=True)
    assert captured.loop.captured
    if captured.fine_tuning is not None:
        assert captured.fine_tuning.captured
    if settings.hold_out:
        for row, other in zip(captured.metrics, eager.metrics, strict=True):
            assert row["held_out_loss"] == pytest.approx(other["held_out_loss"], rel=1e-2)
    assert_alike(captured, eager)


def test_a_step_that_works_on_the_host_stays_eager_and_logs_it() -> None:
    pytest.importorskip("qpsolvers", reason="the solvers need the extra adiw[qp]")
    told: list[str] = []
    settings = resolve({**GIVEN, "method": "diw", "solver": "osqp"})
    TrainingRun(settings, load_splits(settings), Engine(GPU, 0, log=told.append))
    assert told == ["steps are not captured as a CUDA graph (DIW's solver osqp works on the host)"]


def test_a_network_that_synchronises_stays_eager_and_logs_why() -> None:
    """A failed capture must not affect later work: dropout, other graphs, other runs."""
    settings = resolve({**GIVEN, "method": "adiw-kl", "model": "tests.experiments.asking:build"})
    told: list[str] = []
    job = TrainingRun(settings, load_splits(settings), Engine(GPU, 0, log=told.append))
    for _ in range(settings.epochs):
        job.train_epoch()
    (line,) = told
    assert line.startswith("steps are not captured as a CUDA graph and take longer (")
    assert "operation not permitted when stream is capturing" in line
    assert not job.loop.captured
    assert job.loop.evaluate_validation.func.captured  # type: ignore[union-attr]
    eager = trained(settings, capture=False)
    assert_alike(job, eager)  # the same units were dropped
    assert int(job.reweight.weight_state.seen_steps) == int(eager.reweight.weight_state.seen_steps)
    assert job.reweight.val_schedule.clock.steps == eager.reweight.val_schedule.clock.steps
    assert trained(resolve({**GIVEN, "method": "adiw-kl"}), capture=True).loop.captured


@pytest.mark.parametrize("method", ["uniform", "adiw-km", "adiw-kl", "adiw-ls", "adiw-wa", "l2r"])
def test_batches_of_workers_reach_the_graph(tmp_path: Path, method: str) -> None:
    random = np.random.default_rng(0)
    for split, count in (("train", 60), ("val", 4)):
        for name in ("ant", "bee"):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / split / name / f"{i}.png")
    given = {"dataset": "imagefolder", "path": str(tmp_path), "shift": "symmetric:0.4", "trusted": 20, "batch": 10}
    given |= {"model": "tests.experiments.tiny:build", "epochs": 2, "bf16": False, "method": method}
    settings = resolve(given)
    eager, captured = (trained(settings, capture, workers=2) for capture in (False, True))
    assert isinstance(captured.loop.loader, DatasetLoader)
    assert captured.loop.captured
    if captured.fine_tuning is not None:
        assert captured.fine_tuning.captured
    if settings.hold_out:
        for row, other in zip(captured.metrics, eager.metrics, strict=True):
            assert row["held_out_loss"] == pytest.approx(other["held_out_loss"], rel=1e-2)
    assert_alike(captured, eager)


@pytest.mark.parametrize("method", METHODS)
def test_a_captured_run_resumes_from_its_checkpoint(tmp_path: Path, method: str) -> None:
    batch = 10 if method == "val-only" else 100  # it has few samples, and the fourth step is captured
    settings = resolve({**GIVEN, "method": method, "batch": batch})
    run(settings, tmp_path / "whole", engine=Engine(GPU))
    rows: list[Any] = []  # one for each epoch
    with pytest.raises(Interrupted):
        run(settings, tmp_path / "parts", engine=Engine(GPU), progress=rows.append, stop=lambda: bool(rows))
    result = run(settings, tmp_path / "parts", engine=Engine(GPU), resume=True)
    assert result["engine"] == {"captured": True, "compiled": False, "processes": 1}
    whole, parts = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "parts")
    )
    for one, other in zip(whole, parts, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["weight_mean"] == pytest.approx(other["weight_mean"], rel=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"method": "adiw-kl"},
        {"method": "adiw-km", "step": "local", "val_every": 4},
        {"method": "adiw-ls"},
        {"method": "adiw-wa"},
        {"method": "uniform"},
        {"method": "random"},
        {"method": "adiw-kl", "transform": "features"},
        {
            "method": "adiw-kl",
            "transform": "features",
            "seed": 1,
        },  # another network, with its own hidden layer
        {"method": "l2r"},
        {"method": "mw-net"},
        {"method": "l2r", "model": "tests.experiments.normed:build"},
        {"method": "mw-net", "model": "tests.experiments.normed:build"},
    ],
    ids=str,
)
def test_a_compiled_network_and_estimation_under_the_graph(given: dict[str, Any]) -> None:
    settings = resolve({**GIVEN, **given})
    plain = trained(settings, capture=True)
    job = trained(settings, capture=True, compiled=True)
    assert job.loop.captured
    assert job.metrics[-1]["loss"] == pytest.approx(plain.metrics[-1]["loss"], rel=1e-3)
    assert torch.allclose(job.weights(), plain.weights(), rtol=1e-2, atol=1e-2)


def test_a_compiled_estimation_under_the_graph_of_a_network_that_is_not() -> None:
    settings = resolve({**GIVEN, "method": "adiw-kl"})
    plain, job = (trained(settings, capture=True, compiled=compiled) for compiled in (False, "estimation"))
    assert job.loop.captured
    assert job.model._compiled_call_impl is None
    assert torch.allclose(job.weights(), plain.weights(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", ["SECONDS_OF_ESTIMATION", "SECONDS_OF_ALL"])
def test_a_run_decides_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(compilation, name, 0.0)
    settings = resolve({**GIVEN, "method": "adiw-kl", "epochs": compilation.MEASURED + 2})
    result = run(settings, tmp_path, engine=Engine(GPU, compiled=None))
    what = "estimation" if name == "SECONDS_OF_ESTIMATION" else "all"
    assert result["engine"]["captured"]
    assert result["engine"]["compiled"]
    assert result["engine"]["compilation"]["what"] == what


def test_the_compiled_solver_of_diw_finds_the_same_optimum() -> None:
    """One problem, not a run: in a run DIW turns a change of 1e-8 in the network into large changes of weights."""
    random = torch.Generator(GPU).manual_seed(0)
    z_train, z_val = (torch.rand(100, 1, generator=random, device=GPU).double() for _ in range(2))
    problem = kernel_mean_matching(match(2 * z_train, z_val), width=0.01)
    compiled = torch.compile(qp_solvers.advance, dynamic=False)
    plain, fused = qp_solvers.solve(problem), qp_solvers.solve(problem, advance=compiled)
    assert plain.std() > 0.1
    torch.testing.assert_close(fused, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", ["l2r", "mw-net"])
def test_narrow_tangents_of_a_compiled_network_with_batch_norm(method: str) -> None:
    """In bf16 the weights differ, so their correlation is compared; derivatives that are not compiled would warn."""
    settings = resolve({**GIVEN, "method": method, "model": "tests.experiments.normed:build", "bf16": True})
    plain = trained(settings, capture=True).weights()
    job = trained(settings, capture=True, compiled=True)
    assert job.loop.captured
    assert float(torch.corrcoef(torch.stack([job.weights(), plain]))[0, 1]) > 0.8
