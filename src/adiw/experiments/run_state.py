"""What a checkpoint holds: the state of a run between two epochs, and the position within one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from adiw.engine.checkpoint import CheckpointError
from adiw.engine.train_loader import epoch_seed
from adiw.experiments.model_and_optimizer import load_optimizer_state
from adiw.experiments.resume import check_same
from adiw.experiments.training_run import TrainingRun
from adiw.reweighting.alarms import Alarm


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
