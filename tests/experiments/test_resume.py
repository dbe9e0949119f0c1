"""Stop and resume: bit for bit the files of an uninterrupted run, or an error with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from adiw.engine import checkpoint
from adiw.engine.checkpoint import NAME, PREVIOUS, CheckpointError
from adiw.experiments import run as run_module
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.methods import METHODS
from adiw.experiments.resume import position_of, restore, state_of
from adiw.experiments.run import Interrupted, run
from adiw.experiments.settings import Settings, resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from tests.experiments.conftest import EPOCHS, short
from tests.experiments.tables import write_table
from tests.experiments.test_run import image_settings

CPU = torch.device("cpu")
ENGINE = Engine(CPU)


def same(first: Any, second: Any) -> bool:
    """Equal to the last bit, tensors included."""
    if isinstance(first, Tensor):
        return torch.equal(first.nan_to_num(-7), second.nan_to_num(-7)) and first.dtype == second.dtype
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def interrupted(
    settings: Settings, folder: Path, after: int, steps: int = 0, resume: bool = False, engine: Engine = ENGINE
) -> str:
    """Stop the run after these epochs and steps, or later if an epoch has fewer: what it says.

    After its steps, the run asks once before each batch of its evaluation, and once when the epoch has ended.
    """
    rows: list[Any] = []
    asked = iter(range(1000))

    def stop() -> bool:
        return len(rows) >= after and next(asked) >= steps

    with pytest.raises(Interrupted, match=r"stopped after .*; continue with --resume") as raised:
        run(settings, folder, engine=engine, resume=resume, progress=rows.append, stop=stop)
    return str(raised.value)


def assert_same_run(one: Path, other: Path) -> None:
    for name in ("metrics.jsonl", "weights.npy", "weight_history.npy", "labels.npy", "config.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    first, second = (checkpoint.load(folder, CPU) for folder in (one, other))
    assert first is not None
    assert second is not None
    for key in first.keys() - {"timing"}:
        assert same(first[key], second[key]), key


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_is_the_uninterrupted_one(finished: Callable[[str], Path], tmp_path: Path, method: str) -> None:
    settings = short(method)
    interrupted(settings, tmp_path, 1, steps=4)
    assert not (tmp_path / "result.json").exists()
    torch.rand(3)
    if method not in ("fine-tune", "val-only"):  # whose epochs have one step
        said = interrupted(settings, tmp_path, 1, resume=True)
        assert said == f"stopped after epoch 2 of {EPOCHS}; continue with --resume"
    run(settings, tmp_path, engine=Engine(CPU), resume=True)
    assert_same_run(finished(method), tmp_path)


@pytest.mark.parametrize("steps", range(1, 13))
def test_a_run_stops_after_any_step_and_resumes_from_it(tmp_path: Path, steps: int) -> None:
    """Nine steps of a network with dropout are an epoch; then two batches are evaluated."""
    given = {"method": "adiw", "model": "tests.experiments.dropping:build", "epochs": 3, "hold_out": 0.3}
    settings = resolve(given)
    run(settings, tmp_path / "whole", engine=Engine(CPU))
    where = "step {} of epoch 2" if steps < 12 else "epoch 2"
    said = interrupted(settings, tmp_path / "cut", 1, steps)
    assert said == f"stopped after {where.format(min(steps, 9))} of 3; continue with --resume"
    run(settings, tmp_path / "cut", engine=Engine(CPU), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_augmented_images_resume_within_an_epoch(tmp_path: Path) -> None:
    """After a step, and in an evaluation, whose loader draws a random number."""
    settings = image_settings(tmp_path, "adiw-kl", epochs=3, batch=3, trusted=4)
    settings = replace(settings, model="tests.experiments.tiny:dropping")
    run(settings, tmp_path / "whole", engine=Engine(CPU, workers=0))
    said = interrupted(settings, tmp_path / "cut", 1, steps=3, engine=Engine(CPU, workers=2))
    assert said == "stopped after step 3 of epoch 2 of 3; continue with --resume"
    said = interrupted(settings, tmp_path / "cut", 0, steps=1, resume=True, engine=Engine(CPU, workers=0))
    assert said == "stopped after step 4 of epoch 2 of 3; continue with --resume"
    run(settings, tmp_path / "cut", engine=Engine(CPU, workers=0), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("method", ["uniform", "two-step-kmm"])
def test_a_stop_before_the_first_step_or_after_the_last(tmp_path: Path, method: str) -> None:
    """Before the first step, only the pretraining of a two-step method asks."""
    settings = resolve({"method": method, "epochs": 1})
    if method != "uniform":
        with pytest.raises(Interrupted, match="stopped before its first step; the same command starts it again"):
            run(settings, tmp_path, engine=Engine(CPU), stop=lambda: True)
        assert not (tmp_path / "config.json").exists()
    said = interrupted(settings, tmp_path, 1, steps=1)
    assert said == "stopped after the last epoch; continue with --resume"
    run(settings, tmp_path, engine=Engine(CPU), resume=True)
    run(settings, tmp_path / "whole", engine=Engine(CPU))
    assert_same_run(tmp_path / "whole", tmp_path)


def test_a_begun_epoch_counts_when_the_length_changes(tmp_path: Path) -> None:
    given = {"method": "fine-tune", "epochs": 2, "fine_tune_epochs": 2}
    interrupted(resolve(given), tmp_path, 2, steps=3)  # in the first epoch of fine-tuning
    with pytest.raises(CheckpointError, match="had 2 epochs, which cannot become 3 in epoch 3"):
        run(resolve({**given, "epochs": 3}), tmp_path, engine=Engine(CPU), resume=True)
    settings = resolve({"method": "uniform", "epochs": 2})
    interrupted(settings, tmp_path / "other", 1, steps=3)
    with pytest.raises(CheckpointError, match="the run has 2 epochs already: epochs must be at least 2, got 1"):
        run(replace(settings, epochs=1), tmp_path / "other", engine=Engine(CPU), resume=True)


def test_losses_that_were_not_finite_are_counted_from_the_start_of_the_epoch() -> None:
    settings = resolve({"method": "uniform", "epochs": 2})
    job, resumed = (TrainingRun(settings, load_splits(settings), Engine(CPU, 0)) for _ in range(2))
    job.nonfinite = 3.0  # so many in earlier epochs
    restore(resumed, {**state_of(job), "position": position_of(job)})
    assert resumed.nonfinite == 3.0


def test_a_kill_while_the_stop_is_saved_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "SAVE_EVERY", 0.0)
    settings = resolve({"method": "adiw", "epochs": 3})
    run(settings, tmp_path / "whole", engine=Engine(CPU))
    interrupted(settings, tmp_path / "cut", 2, steps=5)
    (tmp_path / "cut" / NAME).unlink()  # as after a kill between the two renames
    run(settings, tmp_path / "cut", engine=Engine(CPU), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_features_and_rare_validation_passes_resume_too(tmp_path: Path) -> None:
    given = {"method": "adiw-kl", "transform": "features", "val_batch": 24, "val_refresh": 7, "epochs": 3}
    settings = resolve(given)
    run(settings, tmp_path / "whole", engine=Engine(CPU))
    interrupted(settings, tmp_path / "cut", 1, steps=3)
    interrupted(settings, tmp_path / "cut", 1, steps=6, resume=True)
    run(settings, tmp_path / "cut", engine=Engine(CPU), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_rows_after_the_last_checkpoint_are_replaced(finished: Callable[[str], Path], tmp_path: Path) -> None:
    settings = resolve({"method": "adiw-kl", "epochs": EPOCHS})
    interrupted(settings, tmp_path, 2)
    with (tmp_path / "metrics.jsonl").open("a") as file:  # as after a kill
        file.write('{"epoch": 3, "loss": 99.0}\n{"epo')
    run(settings, tmp_path, engine=Engine(CPU), resume=True)
    assert_same_run(finished("adiw-kl"), tmp_path)


def test_a_kill_before_the_first_checkpoint_resumes_from_the_start(
    finished: Callable[[str], Path], tmp_path: Path
) -> None:
    settings = resolve({"method": "adiw-kl", "epochs": EPOCHS})
    interrupted(settings, tmp_path, 1)
    (tmp_path / NAME).unlink()
    run(settings, tmp_path, engine=Engine(CPU), resume=True)
    assert_same_run(finished("adiw-kl"), tmp_path)


def test_the_previous_checkpoint_is_used_if_it_is_the_only_one(
    finished: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "SAVE_EVERY", 0.0)
    settings = resolve({"method": "adiw-kl", "epochs": EPOCHS})
    interrupted(settings, tmp_path, 3)
    (tmp_path / NAME).unlink()  # as after a kill between the two renames
    before = checkpoint.load(tmp_path, CPU)
    assert before is not None
    assert before["epoch"] == 2
    run(settings, tmp_path, engine=Engine(CPU), resume=True)
    assert_same_run(finished("adiw-kl"), tmp_path)


def test_checkpoints_are_written_at_the_given_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []
    monkeypatch.setattr(checkpoint, "save", lambda folder, state: saved.append(state["epoch"]))
    run(resolve({"method": "uniform", "epochs": 3}), tmp_path / "seldom", engine=Engine(CPU))
    assert saved == [3]
    monkeypatch.setattr(run_module, "SAVE_EVERY", 0.0)
    run(resolve({"method": "uniform", "epochs": 3}), tmp_path / "often", engine=Engine(CPU))
    assert saved == [3, 1, 2, 3]


def test_more_epochs_resume_from_the_end(finished: Callable[[str], Path], tmp_path: Path) -> None:
    run(resolve({"method": "adiw-kl", "epochs": 2}), tmp_path, engine=Engine(CPU))
    result = run(resolve({"method": "adiw-kl", "epochs": EPOCHS}), tmp_path, engine=Engine(CPU), resume=True)
    assert result["epochs"] == EPOCHS
    for name in ("metrics.jsonl", "weights.npy", "config.json"):
        assert (tmp_path / name).read_bytes() == (finished("adiw-kl") / name).read_bytes()


def test_a_finished_run_that_is_resumed_has_no_result_until_it_ends(tmp_path: Path) -> None:
    run(resolve({"method": "uniform", "epochs": 1}), tmp_path, engine=Engine(CPU))
    interrupted(resolve({"method": "uniform", "epochs": 3}), tmp_path, 1, resume=True)
    assert not (tmp_path / "result.json").exists()


def test_resuming_a_finished_run_changes_nothing(finished: Callable[[str], Path], tmp_path: Path) -> None:
    settings = resolve({"method": "uniform", "epochs": EPOCHS})
    run(settings, tmp_path, engine=Engine(CPU))
    run(settings, tmp_path, engine=Engine(CPU), resume=True)
    assert_same_run(finished("uniform"), tmp_path)


def test_fewer_epochs_than_have_been_run_are_refused(tmp_path: Path) -> None:
    run(resolve({"method": "uniform", "epochs": 3}), tmp_path, engine=Engine(CPU))
    with pytest.raises(CheckpointError, match="the run has 3 epochs already: epochs must be at least 3, got 2"):
        run(resolve({"method": "uniform", "epochs": 2}), tmp_path, engine=Engine(CPU), resume=True)


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_other_settings_are_refused_by_name(tmp_path: Path, has_checkpoint: bool) -> None:
    interrupted(resolve({"method": "uniform", "epochs": 3}), tmp_path, 1)
    if not has_checkpoint:
        (tmp_path / NAME).unlink()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(CheckpointError) as raised:
        run(
            resolve({"method": "uniform", "epochs": 3, "lr": 0.3, "seed": 1}),
            tmp_path,
            engine=Engine(CPU),
            resume=True,
        )
    message = str(raised.value)
    assert "(lr was 0.1, is 0.3; seed was 0, is 1)" in message
    assert "resume with the same ones, or choose another folder" in message
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_setting_that_no_longer_exists_is_named(tmp_path: Path) -> None:
    interrupted(resolve({"method": "uniform", "epochs": 3}), tmp_path, 1)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "temperature": 2.0}))
    (tmp_path / "SHA256SUMS").unlink()  # an earlier version wrote none
    with pytest.raises(CheckpointError, match=r"temperature was 2\.0, is None"):
        run(resolve({"method": "uniform", "epochs": 3}), tmp_path, engine=Engine(CPU), resume=True)


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    settings = resolve({"method": "uniform", "epochs": 2})
    run(settings, tmp_path, engine=Engine(CPU))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match="already holds a run: add --resume to continue it"):
        run(settings, tmp_path, engine=Engine(CPU))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_empty_folder_has_nothing_to_resume(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(CheckpointError, match=f"{name} holds no run to resume: omit --resume"):
            run(resolve({"method": "uniform"}), tmp_path / name, engine=Engine(CPU), resume=True)
    assert not (tmp_path / "missing").exists()


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    settings = resolve({"method": "uniform", "epochs": 2})
    run(settings, tmp_path, engine=Engine(CPU))
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match=f"{NAME} is damaged .*: delete it to start from the first epoch"):
        run(settings, tmp_path, engine=Engine(CPU), resume=True)


@pytest.mark.parametrize(
    ("content", "message"), [({"epoch": 3}, "in {} does not fit this run"), ([1, 2], "{}/checkpoint.pt is damaged")]
)
def test_a_checkpoint_of_another_run_does_not_fit(tmp_path: Path, content: object, message: str) -> None:
    settings = resolve({"method": "uniform", "epochs": 2})
    run(settings, tmp_path, engine=Engine(CPU))
    checkpoint.save(tmp_path, content)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=message.format(tmp_path)):
        run(settings, tmp_path, engine=Engine(CPU), resume=True)


def test_changed_data_do_not_fit_the_checkpoint(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", rows=90)
    given = {"dataset": "csv", "path": str(table), "trusted": 30, "epochs": 2, "method": "uniform"}
    interrupted(resolve(given), tmp_path / "run", 1)
    write_table(table, rows=120)
    with pytest.raises(CheckpointError, match=r"does not fit this run .*: if the data or the network have changed"):
        run(resolve(given), tmp_path / "run", engine=Engine(CPU), resume=True)


@pytest.mark.parametrize("method", ["uniform", "adiw-kl"])
def test_a_dead_run_keeps_its_files_and_stays_dead(tmp_path: Path, method: str) -> None:
    settings = resolve({"method": method, "lr": 1e6, "epochs": 1})
    for resume in (False, True):
        with pytest.raises(DeadRunError, match=r"epoch 1: \d+% of the losses are not finite.*files are kept in"):
            run(settings, tmp_path, engine=Engine(CPU), resume=resume)
        result = json.loads((tmp_path / "result.json").read_text())
        assert result["status"] == "dead"
        assert "not finite" in result["reason"]
        assert {"weights.npy", "metrics.jsonl", NAME} <= {file.name for file in tmp_path.iterdir()}
    longer = resolve({"method": method, "lr": 1e6, "epochs": 5})
    with pytest.raises(DeadRunError, match="epoch 1"):
        run(longer, tmp_path, engine=Engine(CPU), resume=True)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1
    assert not (tmp_path / PREVIOUS).exists()


# MW-Net gives NaN losses no weight: its accuracy shows after ten epochs that it is dead.
@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_found_dead(tmp_path: Path, method: str) -> None:
    with pytest.raises(DeadRunError):
        run(resolve({"method": method, "lr": 1e6, "epochs": 12}), tmp_path, engine=Engine(CPU))


def test_a_worker_that_the_signal_ends_is_part_of_the_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*args: object) -> None:
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated.")

    monkeypatch.setattr(run_module.TrainingRun, "train_epoch", dies)
    with pytest.raises(Interrupted, match="stopped within an epoch; continue from the last checkpoint with --resume"):
        run(resolve({"method": "uniform"}), tmp_path / "asked", engine=Engine(CPU), stop=lambda: True)
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        run(resolve({"method": "uniform"}), tmp_path / "not", engine=Engine(CPU))
