"""The time of a training step with uniform weights and with a method, measured alternately in one process."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import torch

from adiw.engine.capture import WARM_UP
from adiw.engine.timer import DeviceTimer
from adiw.experiments.run import Engine
from adiw.experiments.settings import Settings
from adiw.experiments.splits import Splits, load_splits
from adiw.experiments.training_run import TrainingRun

BASE = "uniform"


@dataclass(frozen=True)
class StepTime:
    """A training step of one method.

    milliseconds: median over the rounds.
    ratio: median over the rounds of its time divided by that with uniform weights in the same round.
    state_bytes: memory of the state of the method: the weights by index, a meta-network.
    peak_bytes: peak memory of training on a GPU; None on a CPU.
    """

    method: str
    milliseconds: float
    ratio: float
    state_bytes: int
    peak_bytes: int | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class TimedJob:
    """A run whose steps are timed without writing anything."""

    def __init__(self, settings: Settings, splits: Splits, engine: Engine) -> None:
        before = _allocated(engine.resolve_device())
        self.job: TrainingRun = engine.start(settings, splits)
        self.timer, self.epochs, self.left = DeviceTimer(self.job.device), count(), 0
        # Every val_every-th step evaluates trusted samples, and each kind of step is captured after WARM_UP calls.
        self.cycle = settings.val_every
        self.job.model.train()
        self.seconds((WARM_UP + 1) * self.cycle)
        peak = _peak(self.job.device)
        self.peak = None if peak is None or before is None else peak - before

    def seconds(self, steps: int) -> float:
        """Mean seconds of a step."""
        with self.job.on_stream():
            self.timer.start()
            for _ in range(steps):
                if self.left == 0:
                    self.job.loop.loader.set_epoch(next(self.epochs))
                    self.left = len(self.job.loop.loader)
                self.job.loop.train_batch()
                self.left -= 1
            self.timer.stop()
            return self.timer.seconds() / steps

    def state_bytes(self) -> int:
        tensors = (*self.job.reweight.parameters(), *self.job.reweight.buffers())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def compare(settings: Settings, root: Path | None, engine: Engine, steps: int, rounds: int) -> list[StepTime]:
    """Uniform weights and the method of ``settings``, ``steps`` steps each per round, alternating.

    Other work on the machine then slows both down, and their ratio stays the same.
    """
    splits = load_splits(settings, root)
    jobs = {name: TimedJob(replace(settings, method=name), splits, engine) for name in (BASE, settings.method)}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            job.seconds(job.cycle)  # not counted: the other job has changed caches and clocks
            times[name].append(job.seconds(-(-steps // job.cycle) * job.cycle))
    return [
        StepTime(
            name,
            1000 * statistics.median(times[name]),
            statistics.median(own / base for own, base in zip(times[name], times[BASE], strict=True)),
            job.state_bytes(),
            job.peak,
        )
        for name, job in jobs.items()
    ]


def _allocated(device: torch.device) -> int | None:
    """Bytes in use on a GPU; resets the peak."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _peak(device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device)
