"""What is timed: methods, the variants of each, and a training job whose steps can be counted off."""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass, field
from typing import Any

import torch

from adiw.engine.capture import WARM_UP, Captured
from adiw.engine.timer import DeviceTimer
from adiw.engine.train_loader import DatasetLoader
from adiw.experiments.job import Job
from adiw.experiments.settings import Settings
from adiw.experiments.task import Task

METHODS: dict[str, dict[str, Any]] = {
    "uniform": {"method": "uniform"},
    "adiw-km": {"method": "adiw-km"},
    "adiw-kl": {"method": "adiw-kl"},
    "adiw-ls": {"method": "adiw-ls"},
    "adiw-wa": {"method": "adiw-wa"},
    "adiw-wa, critic network": {"method": "adiw-wa", "critic": "network"},
    "diw": {"method": "diw"},
    "l2r": {"method": "l2r"},
    "mw-net": {"method": "mw-net"},
    "random": {"method": "random"},
}
ADIW = tuple(name for name in METHODS if name.startswith("adiw"))
BASE = "uniform"


@dataclass(frozen=True)
class Variant:
    """A column: the engine that computes the steps, further settings, and the methods that have them."""

    engine: str  # "eager", "captured" or "compiled" (and captured)
    methods: tuple[str, ...]
    refresh: int | None = None  # validation samples renewed; None for the default probe, 0 for the whole batch
    every: int = 1  # in every how many steps
    exact: bool = False
    costs: float = 0.0  # seconds that must be left to begin with it

    def given(self, val_batch: int) -> dict[str, Any]:
        """The settings that make it."""
        if self.refresh is None:
            return {}
        refresh = min(self.refresh, val_batch) or val_batch
        return {"val_refresh": refresh, "val_every": self.every, "exact": self.exact}


EVERYTHING = tuple(METHODS)
ON_GPU: dict[str, Variant] = {
    "captured": Variant("captured", EVERYTHING),
    "compiled": Variant("compiled", (BASE, *ADIW[:4], "diw", "l2r", "mw-net"), costs=60),
    "compiled, full probe": Variant("compiled", ("adiw-kl",), refresh=0, costs=20),
    "full probe": Variant("captured", ADIW, refresh=0),
    "64 a step": Variant("captured", ADIW, refresh=64),
    "separate pass": Variant("captured", ADIW, refresh=0, exact=True),
    "eager": Variant("eager", EVERYTHING),
}
ON_CPU: dict[str, Variant] = {
    "eager": Variant("eager", EVERYTHING),
    "full probe": Variant("eager", ADIW, refresh=0),
    "64 a step": Variant("eager", ADIW, refresh=64),
    "separate pass": Variant("eager", ADIW, refresh=0, exact=True),
}
QUICK = ("captured", "full probe", "64 a step")


@dataclass
class Case:
    """A training job. After ``warm_up``, ``case(steps)`` gives the seconds that each further step takes.

    peak: bytes on the GPU at most, beyond what was there before it (the training images among that).
    """

    settings: Settings
    task: Task
    device: torch.device
    engine: str
    workers: int
    told: list[str] = field(default_factory=list)
    peak: int | None = None

    def __post_init__(self) -> None:
        self.before = self._memory(start=True)
        tell = None if self.engine == "eager" else self.told.append
        self.job = Job(self.settings, self.task, self.device, self.workers, tell, self.engine == "compiled")
        self.feed = self.job.loop.loader
        self.watch = DeviceTimer(self.device)
        val_stream = getattr(self.job.reweight, "val_stream", None)
        self.cycle: int = 1 if val_stream is None else val_stream.every  # steps after which their work repeats
        self.epoch, self.left = 0, 0

    def warm_up(self) -> None:
        """The steps before a graph is recorded, and the first of the graph.

        The first two do not count for the peak: cuDNN tries its algorithms in them, for the first case of all.
        """
        self.job.model.train()
        self._run(2)
        self._memory(start=True)
        self._run((WARM_UP + 1) * self.cycle - 2)
        peak = self._memory()
        if peak is not None and self.before is not None:
            self.peak = peak - self.before
            torch.cuda.empty_cache()  # what the first steps used is of no use to the graph, nor to other streams

    def __call__(self, steps: int) -> float:
        """Seconds of a step. Batches of a loader are timed by whole epochs, its start included: it works ahead."""
        if isinstance(self.feed, DatasetLoader):
            self.left = 0
            return self._run(len(self.feed))
        self._run(self.cycle)  # not counted: what other cases did to caches and clocks
        return self._run(self.cycle * math.ceil(steps / self.cycle))

    def whole_epoch(self) -> float:
        """Seconds of an epoch as a run makes it, drawing its order included, evaluation not."""
        with self.job.place():
            self.job.loop.run_epoch(self.epoch)
        self.epoch, self.left = self.epoch + 1, 0
        return self.job.loop.timer.seconds()

    def _run(self, steps: int) -> float:
        with self.job.place():
            self.watch.start()
            for _ in range(steps):
                self._step()
            self.watch.stop()
            return self.watch.seconds() / steps

    def _step(self) -> None:
        if self.left == 0:
            self.feed.set_epoch(self.epoch)
            self.epoch, self.left = self.epoch + 1, len(self.feed)
        self.job.loop.train_batch()
        self.left -= 1

    @property
    def captured(self) -> bool:
        step = self.job.loop.step
        return isinstance(step, Captured) and step.captured

    @property
    def in_words(self) -> str:
        """The method and its settings: two cases that agree in this and in the engine are one."""
        return str(self.job.reweight.weight_state.settings)

    def _memory(self, start: bool = False) -> int | None:
        if self.device.type != "cuda":
            return None
        torch.cuda.synchronize()
        if not start:
            return torch.cuda.max_memory_allocated()
        collect()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()


def collect() -> None:
    """Give back what the jobs that are gone held: they hold themselves in circles."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
