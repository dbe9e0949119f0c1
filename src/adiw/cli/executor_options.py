"""The options of ``adiw sweep`` that say where runs are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from adiw.experiments.executors import Executor
from adiw.experiments.local_executor import LocalExecutor, processes_for
from adiw.experiments.run import Engine
from adiw.experiments.settings import SettingsError, unknown
from adiw.experiments.shared_gpu import shared_gpu
from adiw.experiments.sweep import Sweep

EXECUTORS = ("local", "ray")


@dataclass(frozen=True)
class Where:
    """The name of the executor, its processes, the share of a GPU for each run, and retries of a run."""

    executor: str
    processes: int | None
    gpus_per_run: float | None
    retries: int

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise unknown("executor", self.executor, EXECUTORS)
        if self.executor == "ray" and self.processes is not None:
            raise SettingsError(
                "--processes is for --executor local: Ray starts as many runs as it has CPUs and GPUs"
            )
        if self.gpus_per_run is not None and not 0 < self.gpus_per_run <= 1:
            raise SettingsError(f"--gpus-per-run must be above 0 and at most 1, got {self.gpus_per_run:g}")

    @contextmanager
    def open(self, work: Sweep, runs: int) -> Iterator[Executor | None]:
        """An executor for this number of runs; None to compute them in this process."""
        if self.executor == "ray" and runs:
            from adiw.experiments.ray_executor import RayExecutor

            if work.engine.device is not None and work.engine.device.index is not None:
                raise SettingsError(
                    f"--device {work.engine.device}: Ray chooses the GPU of each run; use --device cuda"
                )
            with RayExecutor(0.0 if _on_cpu(work.engine) else self.gpus_per_run) as cluster:
                work.processes = min(cluster.slots, runs)
                yield cluster
            return
        work.processes = self._processes(work, runs)
        if work.processes == 1:
            yield None
            return
        spread = not _on_cpu(work.engine) and work.engine.resolve_device().index is None
        share = nullcontext() if _on_cpu(work.engine) else shared_gpu(work.processes)
        with share, LocalExecutor(work.processes, (self.gpus_per_run or 1.0) if spread else None) as processes:
            yield processes

    def _processes(self, work: Sweep, runs: int) -> int:
        """The given number; otherwise as many as use the whole machine, or one if runs share a process."""
        if self.processes is not None:
            return self.processes
        if work.side_by_side is not None:
            return 1
        return max(1, min(runs, processes_for(work.engine.resolve_device(), self.gpus_per_run or 1.0)))


def _on_cpu(engine: Engine) -> bool:
    return engine.device is not None and engine.device.type == "cpu"
