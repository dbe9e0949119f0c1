"""A Ray cluster as an executor: each task takes one CPU and a share of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from adiw.versions import require

require("ray", "2.48", "ray")

import ray  # noqa: E402 - after the check of its version


class RayTask:
    """A task on a Ray cluster; ``result`` raises if its worker was lost."""

    def __init__(self, reference: ray.ObjectRef[Any]) -> None:
        self.reference = reference

    def done(self) -> bool:
        return bool(ray.wait([self.reference], timeout=0)[0])

    def result(self) -> Any:
        try:
            return ray.get(self.reference)
        except ray.exceptions.RayTaskError as error:  # its text is a traceback: the reason is in the last line
            raise RuntimeError(str(error).strip().splitlines()[-1]) from error


class RayExecutor:
    """Tasks on the cluster that RAY_ADDRESS names, the one on this machine, or a new one on this machine.

    Args:
        gpus_per_run: GPUs, or the share of a GPU, that each task takes; None is one if the cluster has any.
    """

    def __init__(self, gpus_per_run: float | None = None) -> None:
        self.started = not ray.is_initialized()
        if self.started:
            ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
        self.resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.gpus_per_run = float("GPU" in self.resources) if gpus_per_run is None else gpus_per_run
        # A lost task is submitted again by the sweep, as on every executor.
        self._call = ray.remote(max_retries=0, num_cpus=1, num_gpus=self.gpus_per_run)(_call)

    @property
    def slots(self) -> int:
        """How many tasks the cluster computes at the same time; an error if it cannot compute any."""
        cpus, gpus = (self.resources.get(kind, 0.0) for kind in ("CPU", "GPU"))
        found = int(min(cpus, gpus / self.gpus_per_run) if self.gpus_per_run else cpus)
        if found < 1:
            needed = f"a CPU and {self.gpus_per_run:g} GPUs"
            raise ValueError(f"each run needs {needed}, and the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs")
        return found

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> RayTask:
        return RayTask(self._call.remote(function, *arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.started:
            ray.shutdown()


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)
