"""How many threads a run on the CPU uses."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from adiw.data import Samples
from adiw.experiments.model_and_optimizer import build_model
from adiw.experiments.settings import Settings
from adiw.experiments.splits import Splits

# Floating-point operations of a forward pass over a batch: with fewer, threads wait for each other longer than they
# compute. The network for digits has 2e7, LeNet-5 on Fashion-MNIST 2e8.
SMALL = 1e8
WATCHED = 0.2  # seconds in which the machine is watched
STATISTICS = Path("/proc/stat")  # of Linux


def choose_threads(settings: Settings, splits: Splits) -> int:
    """The number of threads for a run in one process on the CPU.

    OMP_NUM_THREADS decides, if it is set. Otherwise one for a small network. For others as many as there are idle
    cores: where cores are shared, each operation would wait for the thread whose core has other work.
    """
    usual = torch.get_num_threads()
    if usual == 1 or "OMP_NUM_THREADS" in os.environ:
        return usual
    if isinstance(splits.train, Samples):
        batch = min(settings.batch, len(splits.train))
        if batch * operations(build_model(settings, splits), splits.train.x[:1]) < SMALL:
            return 1
    idle = idle_cores()
    return usual if idle is None else max(1, min(usual, round(idle)))


def operations(model: nn.Module, sample: Tensor) -> int:
    """The floating-point operations of a forward pass of this input, in evaluation mode."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.eval()(sample)
    return int(counter.get_total_flops())


def idle_cores() -> float | None:
    """How many cores of this machine have no work while this process waits; None where it cannot be read."""
    before = _idle_seconds()
    if before is None:
        return None
    begun = time.monotonic()
    time.sleep(WATCHED)
    after = _idle_seconds()
    return None if after is None else (after - before) / (time.monotonic() - begun)


def _idle_seconds() -> float | None:
    """Seconds that the cores were idle so far, all together."""
    try:
        values = STATISTICS.read_text().split("\n", 1)[0].split()
        return (int(values[4]) + int(values[5])) / os.sysconf("SC_CLK_TCK")  # idle, and waiting for files
    except (OSError, ValueError, IndexError):
        return None
