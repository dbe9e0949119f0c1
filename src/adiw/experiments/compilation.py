"""Whether torch.compile pays for itself in the rest of a run, for a command that was not told to use it or not."""

from __future__ import annotations

from typing import Literal

from adiw.baselines import Uniform
from adiw.engine.train_loader import TensorLoader
from adiw.experiments.training_run import TrainingRun
from adiw.reweighting.adiw import ADIW

Compiled = bool | Literal["estimation"]  # the network and the estimation of the weights, or the estimation alone

MEASURED = 2  # epochs before the decision: the first one includes the capture of the graph
# Measured on an H200 (benchmarks/results): compilation took 6 s for the estimation, and 14 to 17 s for LeNet-5 with
# it; a larger network takes longer. A captured estimate takes 0.11 ms less when it is compiled. A step with a
# compiled network takes 12% (LeNet-5, uniform weights) to 34% less (ResNet-18, ImageNet's shape).
SECONDS_OF_ESTIMATION, SECONDS_OF_ALL = 6.0, 30.0
SAVED_BY_ESTIMATION = 1e-4  # seconds of a step
SAVED_BY_ALL = 0.12  # of the seconds of a step


def can_decide(training: TrainingRun) -> bool:
    """Whether the figures above hold: one process replays its steps, and its samples are on the device."""
    known = isinstance(training.reweight, (ADIW, Uniform)) and isinstance(training.loop.loader, TensorLoader)
    return training.loop.captured and known and training.processes.size == 1


def what_pays(training: TrainingRun) -> Compiled:
    """What is worth compiling now, after at least ``MEASURED`` epochs."""
    epochs = training.train_epochs - training.epoch
    if SAVED_BY_ALL * epochs * training.timing[-1]["train_seconds"] > SECONDS_OF_ALL:
        return True
    reweight, steps = training.reweight, epochs * len(training.loop.loader)
    estimates = isinstance(reweight, ADIW) and reweight.compiles
    return "estimation" if estimates and SAVED_BY_ESTIMATION * steps > SECONDS_OF_ESTIMATION else False


def in_words(what: Compiled, training: TrainingRun) -> str:
    """The line that says what is compiled."""
    parts = (
        "the estimation of the weights" if what == "estimation" else "the network and the estimation of the weights"
    )
    steps = (training.train_epochs - training.epoch) * len(training.loop.loader)
    return f"compiling {parts} from epoch {training.epoch + 1} on: {steps:,} steps are left"
