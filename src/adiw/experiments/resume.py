"""Resume a run or a sweep: what a checkpoint holds, and that its folder has the same settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from adiw.distributed.process_group import current_processes
from adiw.engine.checkpoint import CheckpointError
from adiw.engine.train_loader import epoch_seed
from adiw.experiments.checked_io import read_lines
from adiw.experiments.model_and_optimizer import load_optimizer_state
from adiw.experiments.recipes import Recipe
from adiw.experiments.run_folder import Folder
from adiw.experiments.settings import UNRECORDED, Settings, SettingsError, override, resolve
from adiw.experiments.training_run import TrainingRun
from adiw.reweighting.diagnostics.alarms import Alarm


def resumed_settings(out: Path, given: Mapping[str, Any]) -> Settings:
    """The settings of the run in this folder. The ``given`` ones must agree with them; only the length may differ.

    Rank 0 reads the file for all processes: it may be on that machine only.
    """
    processes = current_processes()
    read = _config(Folder(out)) if processes.rank == 0 else {}
    found = processes.broadcast_object(read)
    changed = override(found, given)
    check_same(found, changed)
    try:
        return resolve(changed)
    except SettingsError as error:
        raise CheckpointError(f"{out / 'config.json'}: {error}") from error


def check_folder(folder: Folder, settings: Settings, resume: bool) -> None:
    """Refuse a folder that holds another run, or no run to resume."""
    if resume:
        check_same(_config(folder), settings.as_dict())
    elif folder.read_json("config.json") is not None:
        raise CheckpointError(
            f"{folder.path} already holds a run: add --resume to continue it, or choose another folder with --out"
        )


def _config(folder: Folder) -> dict[str, Any]:
    found: dict[str, Any] | None = folder.read_json("config.json")
    if found is None:
        raise CheckpointError(f"{folder.path} holds no run to resume: omit --resume to start one")
    return found


def check_same(found: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other settings; the length, in epochs or steps, may differ."""
    before, now = ({**UNRECORDED, **settings, "epochs": None, "steps": None} for settings in (found, given))
    changed = differences(before, now)
    if changed:
        raise CheckpointError(
            f"the run in this folder has other settings ({'; '.join(changed)}): resume with the same ones, "
            "or choose another folder"
        )


def differences(found: Mapping[str, Any], given: Mapping[str, Any], where: str = "") -> list[str]:
    """A text for each setting that differs.

    >>> differences({"lr": 0.1, "seed": 0}, {"lr": 0.2, "seed": 0}, " of KL")
    ['lr of KL was 0.1, is 0.2']
    """
    keys = [key for key in {**found, **given} if found.get(key) != given.get(key)]
    return [f"{key}{where} was {found.get(key)}, is {given.get(key)}" for key in keys]


@contextmanager
def explain_mismatch(folder: Path) -> Iterator[None]:
    """Turn an error of loading a checkpoint into one that says that the network or the data are different."""
    try:
        yield
    except CheckpointError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        detail = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(
            f"the checkpoint in {folder} does not fit this run ({detail}): if the data or the network have changed "
            "since, choose another folder"
        ) from error


def open_sweep(recipe: Recipe, changes: Mapping[str, Any], out: Path) -> Folder:
    """The folder of a sweep with its recipe.json, created where it is missing.

    A folder that holds another recipe, or the same with other settings, is refused: a table never mixes two. More
    trials, rows and columns may be added. ``changes`` are settings of the command that override the recipe's.
    """
    folder = Folder(out)
    found = folder.read_json("recipe.json")
    given = {**recipe.as_dict(), "changes": dict(changes)}
    if found is not None:
        if found["name"] != recipe.name:
            raise SettingsError(f"{out} holds the sweep {found['name']}: choose another folder with --out")
        changed = _changed(found, given)
        if changed:
            text = f"{out} holds the sweep {recipe.name} with other settings ({'; '.join(changed)})"
            raise SettingsError(f"{text}: choose another folder with --out")
    for records in sorted(out.glob("*.jsonl")):
        read_lines(records)  # raises for a damaged file, before its digest is removed
    folder.create()
    folder.remove_sums()
    folder.write_json("recipe.json", given)
    folder.write_sums("recipe.json")
    return folder


def _changed(found: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Which settings differ between two recipe.json, in the rows and columns that both have."""
    before, now = _by_source(found), _by_source(given)
    return [text for source in now if source in before for text in differences(before[source], now[source], source)]


def _by_source(recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    entries = {f" of {entry['label']}": entry["settings"] for entry in (*recipe["columns"], *recipe["rows"])}
    return {" of the recipe": recipe["common"], " of the command": recipe["changes"], **entries}


def state_of(training: TrainingRun) -> dict[str, Any]:
    """Everything that the next epoch depends on, and the rows so far."""
    tuning = training.fine_tuning
    with training.on_stream():
        return {
            "settings": training.settings.as_dict(),
            "threads": torch.get_num_threads(),
            "epoch": training.epoch,
            "train_epochs": training.train_epochs,
            "model": training.model.state_dict(),
            "optimizer": training.optimizer.state_dict(),
            "reweight": training.reweight.state_dict(),
            "fine_tuning": tuning and [tuning.optimizer.state_dict(), tuning.reweight.state_dict()],
            "best": training.best.state(),
            **random_state(training.device),
            "metrics": training.metrics,
            "timing": training.timing,
            "history": training.history,
            "held_out": training.held_out,
            "alarms": [asdict(alarm) for alarm in training.alarms],
        }


def position_of(training: TrainingRun) -> dict[str, Any]:
    """Where in an epoch the run is: part of a checkpoint between two steps. All processes must call it."""
    loop, _, _ = training.phase()
    with training.on_stream():
        own = {"loss": float(loop.total), **random_state(training.device)}
    return {
        "steps": loop.done,
        "seconds": loop.seconds(),
        "nonfinite": training.nonfinite,
        "processes": training.processes.gather_object(own),
    }


def restore(training: TrainingRun, state: dict[str, Any]) -> None:
    """Resume from ``state``, which must have the same settings; more epochs are allowed before fine-tuning."""
    check_same(state["settings"], training.settings.as_dict())
    _check_length(training, state)
    with training.on_stream():
        training.model.load_state_dict(state["model"])
        load_optimizer_state(training.optimizer, state["optimizer"])
        training.reweight.load_state_dict(state["reweight"])
        if training.fine_tuning is not None:
            load_optimizer_state(training.fine_tuning.optimizer, state["fine_tuning"][0])
            training.fine_tuning.reweight.load_state_dict(state["fine_tuning"][1])
        training.best.restore(state["best"])
    set_random_state(state, training.device)
    training.epoch, training.metrics, training.timing = state["epoch"], list(state["metrics"]), list(state["timing"])
    training.history = {epoch: weights.float().cpu() for epoch, weights in state["history"].items()}
    training.held_out = [right.cpu() for right in state["held_out"]]
    training.alarms = [Alarm(**alarm) for alarm in state["alarms"]]
    training.nonfinite = float(training.nonfinite_losses())
    if "position" in state:
        _restore_position(training, state["position"])


def _restore_position(training: TrainingRun, position: dict[str, Any]) -> None:
    """Continue within an epoch. Other numbers of processes than before draw other numbers for dropout."""
    loop, _, _ = training.phase()
    training.resumed_steps, training.nonfinite = position["steps"], position["nonfinite"]
    loop.earlier_seconds, parts = position["seconds"], position["processes"]
    if len(parts) == training.processes.size:
        own = parts[training.processes.rank]
        loop.total.fill_(own["loss"])
        set_random_state(own, training.device)
        return
    loop.total.fill_(sum(part["loss"] for part in parts) / len(parts))
    if training.processes.size > 1:
        torch.manual_seed(epoch_seed(training.process_seed(), training.resumed_steps) % 2**63)


def _check_length(training: TrainingRun, state: dict[str, Any]) -> None:
    """Refuse fewer epochs than have begun, and others before a fine-tuning that has begun."""
    begun, trained, epochs = state["epoch"] + ("position" in state), state["train_epochs"], training.train_epochs
    if begun > training.epochs:
        raise CheckpointError(
            f"the run has {begun} epochs already: epochs must be at least {begun}, got {training.epochs}"
        )
    if training.fine_tuning is not None and begun > min(trained, epochs) and trained != epochs:
        raise CheckpointError(
            f"the training before fine-tuning had {trained} epochs, which cannot become {epochs} in epoch {begun}: "
            "resume without --epochs and --steps"
        )


def random_state(device: torch.device) -> dict[str, Any]:
    """The states of PyTorch's generators."""
    cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return {"random": torch.get_rng_state(), "random_cuda": cuda}


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore what ``random_state`` returned; that of a GPU only on a GPU."""
    torch.set_rng_state(state["random"].cpu())
    if state["random_cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state["random_cuda"].cpu(), device)
