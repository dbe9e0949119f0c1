"""When a run compiles itself: the decision, and what happens to the run."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.baselines import Uniform
from adiw.experiments import compilation, run
from adiw.experiments.compilation import MEASURED, can_decide, what_pays
from adiw.experiments.settings import resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from tests.counting import Counting

CPU = torch.device("cpu")
EPOCHS = MEASURED + 3

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit")  # from the compiler, at its first import


def training(method: str, epochs: int, steps: int, seconds: float, **given: str) -> Any:
    """A run of so many epochs after two of them: of so many steps, which took so many seconds."""
    settings = resolve({"dataset": "digits", "method": method, **given})
    made: Any = TrainingRun(settings, load_splits(settings), Engine(CPU, 0))
    made.train_epochs, made.epoch, made.timing = epochs + 2, 2, [{"train_seconds": seconds}] * 2
    made.loop.loader = range(steps)
    return made


@pytest.mark.parametrize(
    ("method", "epochs", "steps", "seconds", "expected"),
    [
        ("adiw-kl", 398, 195, 1.07, True),  # CIFAR-10, 400 epochs on an H200
        ("uniform", 398, 195, 0.96, True),
        ("adiw-kl", 398, 234, 0.133, "estimation"),  # Fashion-MNIST, 400 epochs
        ("uniform", 398, 234, 0.092, False),
        ("adiw-kl", 98, 234, 0.133, False),
        ("adiw-kl", 8, 195, 1.07, False),
        ("adiw-wa", 398, 234, 0.148, "estimation"),
    ],
)
def test_what_pays(method: str, epochs: int, steps: int, seconds: float, expected: object) -> None:
    assert what_pays(training(method, epochs, steps, seconds)) == expected


def test_a_critic_network_is_not_compiled() -> None:
    assert what_pays(training("adiw-wa", 398, 234, 0.267, critic="network")) is False


def test_the_figures_are_those_of_replayed_steps_of_one_process() -> None:
    run = training("uniform", 398, 195, 0.96)
    assert isinstance(run.reweight, Uniform)
    assert not can_decide(run)  # its steps are eager on a CPU


def finish(folder: Path, compiled: bool | None, method: str = "adiw-kl") -> tuple[dict[str, Any], list[str], str]:
    """The result of a run, its log and its metrics."""
    settings, log = resolve({"dataset": "digits", "epochs": EPOCHS, "method": method}), []
    result = run.run(settings, folder, engine=Engine(CPU, compiled=compiled, log=log.append))
    return result, log, (folder / "metrics.jsonl").read_text()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """Compilation always pays, also on a CPU, and runs the graphs as they are."""
    backend = Counting()
    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    monkeypatch.setattr(run, "can_decide", lambda training: True)
    monkeypatch.setattr(compilation, "SECONDS_OF_ESTIMATION", 0.0)
    return backend


@pytest.mark.parametrize("what", ["estimation", "all"])
def test_a_run_goes_on_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: Counting, what: str) -> None:
    expected = finish(tmp_path / "plain", False)
    assert always.calls == 0
    if what == "all":
        monkeypatch.setattr(compilation, "SECONDS_OF_ALL", 0.0)
        monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **given: compiled_networks.append(self))
    compiled_networks: list[Any] = []
    result, log, metrics = finish(tmp_path / "decided", None)
    rows, others = ([json.loads(row) for row in text.splitlines()] for text in (metrics, expected[2]))
    assert [row["epoch"] for row in rows] == list(range(1, EPOCHS + 1))
    assert rows[:MEASURED] == others[:MEASURED]
    for row, other in zip(rows, others, strict=True):
        assert row == pytest.approx(other, rel=2e-2)  # compiled sums have another order
    assert always.calls >= 10  # of the steps of the later epochs
    assert len(compiled_networks) == (what == "all")
    assert result["engine"]["compiled"] is True
    found = result["engine"]["compilation"]
    assert (found["what"], found["from_epoch"]) == (what, MEASURED + 1)
    assert found["seconds"] >= 0
    (line,) = (line for line in log if line.startswith("compiling"))
    assert f"from epoch {MEASURED + 1} on" in line
    assert ("the network" in line) == (what == "all")


def test_a_run_goes_on_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: Counting) -> None:
    def no_compiler(graph: Any, inputs: Any) -> Any:
        raise OSError("gcc is missing")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=no_compiler))
    result, log, metrics = finish(tmp_path / "decided", None)
    assert metrics == finish(tmp_path / "plain", False)[2]
    assert result["engine"] == {"captured": False, "compiled": False, "processes": 1}
    assert any(line.startswith("torch.compile failed, and the run goes on without it") for line in log)


def test_other_errors_of_a_run_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: TrainingRun) -> None:
        raise ValueError("not of the compiler")

    monkeypatch.setattr(TrainingRun, "train_epoch", fail)
    with pytest.raises(ValueError, match="not of the compiler"):
        finish(tmp_path, None)
