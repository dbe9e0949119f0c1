"""The short form of torture/memory.py: a step leaks no memory, and logs grow by one line per epoch."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pytest
import torch

from adiw import DIVERGENCES
from adiw.engine import checkpoint
from adiw.experiments.run import Interrupted, run
from adiw.experiments.settings import resolve
from adiw.experiments.training_run import SNAPSHOTS, Engine, snapshot_epochs
from adiw.reweighting.weight_state import WeightState
from torture.memory import Held, divergences, engine_growth, growth, training_step

STEPS, WARM = 60, 10
LINE = 400  # bytes of a line in a log
LOGS = ("metrics", "timing")


@pytest.mark.parametrize("features", [False, True], ids=["loss", "features"])
@pytest.mark.parametrize("name", divergences())
def test_a_step_leaks_nothing(name: str, features: bool) -> None:
    added = growth(training_step(divergences()[name], features), STEPS, WARM)
    assert added.objects < STEPS / 4, added  # one object in each step would be a leak
    assert added.handles <= 0, added


def test_every_divergence_is_tested() -> None:
    assert set(DIVERGENCES) <= set(divergences())


def test_a_leak_is_detected() -> None:
    kept: list[torch.Tensor] = []
    step = training_step(divergences()["kl"], False)

    def leaking() -> None:
        step()
        kept.append(torch.zeros(1))

    assert growth(leaking, STEPS, WARM).objects >= STEPS
    files: list[int] = []
    assert growth(lambda: files.append(os.open(os.devnull, os.O_RDONLY)), 3, 0).handles == 3
    for file in files:
        os.close(file)
    assert Held(101, 0.0, 0).fault() == "101 more objects"
    assert Held(0, 20.0, 0).fault() == "20.0 MiB more"
    assert Held(0, 0.0, 1).fault() == "1 more open files"
    assert Held(60, 1.0, -1).fault() is None


def test_a_run_closes_its_files_and_logs_one_line_per_epoch(tmp_path: Path) -> None:
    added = engine_growth(8, tmp_path / "run", warm=3, batch=128)
    assert added.fault(epochs=5) is None, added
    for name in ("metrics.jsonl", "timing.jsonl"):
        lines = (tmp_path / "run" / name).read_bytes().splitlines()
        assert [json.loads(line)["epoch"] for line in lines] == list(range(1, 9))
        assert max(map(len, lines)) < LINE


def a_run(folder: Path, epochs: int, stops: int = 0) -> dict[str, int]:
    """The size of each file of a run that was stopped and resumed after each of the first ``stops`` epochs."""
    settings, engine = resolve({"epochs": epochs, "batch": 256, "trusted": 50}), Engine(torch.device("cpu"))
    for _ in range(stops):
        with pytest.raises(Interrupted):
            run(settings, folder, engine=engine, resume=folder.exists(), stop=lambda: True)
    run(settings, folder, engine=engine, resume=folder.exists())
    return {file.name: file.stat().st_size for file in folder.iterdir()}


def test_resuming_adds_nothing_to_the_logs(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sizes = a_run(folder, 3, stops=2)
    for name in ("metrics.jsonl", "timing.jsonl"):
        lines = (folder / name).read_bytes().splitlines()
        assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
        assert max(map(len, lines)) < LINE
    assert a_run(folder, 3) == sizes


def test_an_epoch_adds_a_few_hundred_bytes_to_the_checkpoint(tmp_path: Path) -> None:
    a_run(tmp_path / "a", 1)
    state = checkpoint.load(tmp_path / "a", torch.device("cpu")) or {}
    sizes = []
    for epochs in (1000, 2000):
        rows = {
            name: [{key: value + k for key, value in state[name][0].items()} for k in range(epochs)] for name in LOGS
        }
        checkpoint.save_file(tmp_path / "b.pt", rows)
        sizes.append((tmp_path / "b.pt").stat().st_size)
    assert (sizes[1] - sizes[0]) / 1000 < LINE


def test_the_history_of_weights_does_not_grow_with_the_epochs() -> None:
    for epochs in (1, 7, 10**6):
        assert len(snapshot_epochs(epochs)) == min(epochs, SNAPSHOTS)


def test_warnings_of_nonfinite_losses_become_rarer() -> None:
    weight_state = WeightState(3, "Uniform()")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(100):
            weight_state.begin_step(torch.tensor([1]), torch.tensor([float("nan")]))
            assert weight_state.summary().nonfinite_train == int(weight_state.seen_steps)
    assert [str(warning.message).split()[0] for warning in caught] == ["1", "2", "4", "8", "16", "32", "64"]
