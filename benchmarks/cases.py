"""Cases of the step benchmark: methods, their variants, and a training run that is timed step by step."""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass, field
from typing import Any

import torch

from adiw.divergences import DIVERGENCES
from adiw.engine.timer import DeviceTimer
from adiw.engine.train_loader import DatasetLoader
from adiw.experiments.methods import method_name
from adiw.experiments.settings import Settings
from adiw.experiments.splits import Splits
from adiw.experiments.training_run import Engine, TrainingRun
from adiw.reweighting.cuda_graphs import WARM_UP
from adiw.reweighting.sample_record import EARLY_STEPS

NETWORK = "adiw-wa, critic network"
METHODS: dict[str, dict[str, Any]] = {
    "uniform": {"method": "uniform"},
    "adiw": {"method": "adiw"},
    **{method_name(name): {"method": method_name(name)} for name in DIVERGENCES},
    NETWORK: {"method": "adiw-wa", "critic": "network"},
    "diw": {"method": "diw"},
    "l2r": {"method": "l2r"},
    "mw-net": {"method": "mw-net"},
    "random": {"method": "random"},
}
ADIW = tuple(name for name in METHODS if name.startswith("adiw"))
WITHOUT_NETWORK = tuple(name for name in ADIW if name != NETWORK)
BASE = "uniform"


@dataclass(frozen=True)
class Variant:
    """A column of the table: the engine that runs the steps, further settings, and the methods that are measured."""

    engine: str  # "eager", "captured" or "compiled" (and captured)
    methods: tuple[str, ...]
    refresh: int | None = None  # validation samples evaluated at a time; None: the default, 0: the whole batch
    every: int = 1  # steps between two evaluations
    exact: bool = False
    costs: float = 0.0  # seconds that must be left to start it

    def given(self, val_batch: int) -> dict[str, Any]:
        """The settings of the variant."""
        if self.refresh is None:
            return {}
        refresh = min(self.refresh, val_batch) or val_batch
        return {"val_refresh": refresh, "val_every": self.every, "exact": self.exact}


EVERYTHING = tuple(METHODS)
ON_GPU: dict[str, Variant] = {
    "captured": Variant("captured", EVERYTHING),
    "compiled": Variant("compiled", (BASE, *WITHOUT_NETWORK, "diw", "l2r", "mw-net"), costs=60),
    "compiled, full validation pass": Variant("compiled", ("adiw-kl",), refresh=0, costs=20),
    "full validation pass": Variant("captured", ADIW, refresh=0),
    "64 a step": Variant("captured", ADIW, refresh=64),
    "separate pass": Variant("captured", ADIW, refresh=0, exact=True),
    "eager": Variant("eager", EVERYTHING),
}
ON_CPU: dict[str, Variant] = {
    "eager": Variant("eager", EVERYTHING),
    "full validation pass": Variant("eager", ADIW, refresh=0),
    "64 a step": Variant("eager", ADIW, refresh=64),
    "separate pass": Variant("eager", ADIW, refresh=0, exact=True),
}
QUICK = ("captured", "full validation pass", "64 a step")


@dataclass
class Case:
    """A training run. After ``warm_up``, ``case(steps)`` returns the seconds of one step.

    peak: peak memory on the GPU in bytes, without what was allocated before, such as the training images.
    """

    settings: Settings
    splits: Splits
    device: torch.device
    engine: str
    workers: int
    log: list[str] = field(default_factory=list)
    peak: int | None = None

    def __post_init__(self) -> None:
        self.before = self._memory(start=True)
        how = {"capture": self.engine != "eager", "compiled": self.engine == "compiled", "log": self.log.append}
        self.job = TrainingRun(self.settings, self.splits, Engine(self.device, self.workers, **how))
        self.loader = self.job.loop.loader
        self.timer = DeviceTimer(self.device)
        val_schedule = getattr(self.job.reweight, "val_schedule", None)
        # Steps from one validation pass to the next.
        self.cycle: int = 1 if val_schedule is None else val_schedule.every
        self.epoch, self.left = 0, 0

    def warm_up(self) -> None:
        """Run the steps before the CUDA graph is captured, the first step of the graph, and on a GPU the early steps.

        The first two steps do not count for the peak: in them cuDNN benchmarks its algorithms.
        """
        self.job.model.train()
        self._run(2)
        self._memory(start=True)
        self._run((WARM_UP + 1) * self.cycle - 2)
        peak = self._memory()
        if peak is not None and self.before is not None:
            self.peak = peak - self.before
            torch.cuda.empty_cache()  # the graph and other streams cannot use the memory of the first steps
        if hasattr(self.job.reweight, "outdates_graphs") and self.device.type == "cuda":
            self._run(EARLY_STEPS + len(self.loader) + self.cycle)  # which do more than the others

    def __call__(self, steps: int) -> float:
        """Seconds of a step. A loader prefetches, so whole epochs are timed, with the start of its workers."""
        if isinstance(self.loader, DatasetLoader):
            self.left = 0
            return self._run(len(self.loader))
        self._run(self.cycle)  # not timed: caches and clock rates recover from the other cases
        return self._run(self.cycle * math.ceil(steps / self.cycle))

    def whole_epoch(self) -> float:
        """Seconds of an epoch, including the shuffling and without the evaluation."""
        with self.job.on_stream():
            self.job.loop.run_epoch(self.epoch)
        self.epoch, self.left = self.epoch + 1, 0
        return self.job.loop.timer.seconds()

    def _run(self, steps: int) -> float:
        with self.job.on_stream():
            self.timer.start()
            for _ in range(steps):
                self._step()
            self.timer.stop()
            return self.timer.seconds() / steps

    def _step(self) -> None:
        if self.left == 0:
            self.loader.set_epoch(self.epoch)
            self.epoch, self.left = self.epoch + 1, len(self.loader)
        self.job.loop.train_batch()
        self.left -= 1

    @property
    def captured(self) -> bool:
        return self.job.loop.captured

    @property
    def in_words(self) -> str:
        """The method and its settings; two cases with the same ones and the same engine are the same case."""
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
    """Free the memory of finished runs, which have reference cycles."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
