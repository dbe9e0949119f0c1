"""One GPU for several processes at the same time, by NVIDIA's Multi-Process Service (MPS)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"  # read by the service and by its clients
PATIENCE = 30.0  # seconds for the service to start or to end
SMALL = ("lenet5", "mlp")  # networks that leave most of a GPU idle
MOST = 12  # processes: three times the throughput of runs in one process, by benchmarks/many_runs.py
MEMORY = 2**31  # bytes of a process that trains a small network, its CUDA context included


def processes_to_share(models: Iterable[str]) -> int:
    """How many processes train runs of these networks on one GPU together.

    For small networks one for each run, as far as there are cores and memory; a larger one fills the GPU alone.
    """
    runs = list(models)
    if not runs or not set(runs) <= set(SMALL):
        return 1
    return max(1, min(len(runs), MOST, len(os.sched_getaffinity(0)), _free_memory() // MEMORY))


def _free_memory() -> int:
    """Free bytes of the GPU. They are asked of the driver: a CUDA context of this process could keep MPS out."""
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
        return int(answer.split()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return MOST * MEMORY  # unknown


@contextmanager
def shared_gpu(processes: int) -> Iterator[bool]:
    """Run MPS for the processes that start within this context, if there are several and the machine has one GPU.

    Without it, kernels of different processes take turns on the GPU. Nothing changes where it is not installed, is
    running already, or does not start. Gives whether it was started.
    """
    wanted = processes > 1 and torch.cuda.device_count() == 1 and "CUDA_VISIBLE_DEVICES" not in os.environ
    if not wanted or PIPES in os.environ or shutil.which(CONTROL) is None:
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="adiw-mps-", ignore_cleanup_errors=True) as folder:
        added = {PIPES: folder, LOGS: folder}
        if not _control(added, "-d"):
            yield False
            return
        os.environ.update(added)
        try:
            yield True
        finally:
            for name in added:
                del os.environ[name]
            _control(added, said="quit\n")


def _control(added: dict[str, str], *arguments: str, said: str = "") -> bool:
    """Whether the service's command, with these environment variables and this input, has succeeded."""
    command, environment = [CONTROL, *arguments], {**os.environ, **added}
    try:
        subprocess.run(
            command, input=said, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True
