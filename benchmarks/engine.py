"""The time of a uniform epoch of ``adiw run``, and of weighted steps, with today's engine and with candidates.

    python benchmarks/engine.py [--workloads cifar10 fashion-mnist] [--candidates NAME ...] [--budget 60] [--out DIR]

All engines of a workload take turns within one process; a ratio is that of kl or the default to uniform with the same
engine. The seconds until the first graph is ready are those of compilation and first steps. A candidate changes
neither the network nor the schedule nor the data. ``--profile`` lists the kernels of a uniform step by their time.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from adiw.experiments.training_run import TrainingRun
from cases import BASE, Case, collect
from plain_loop import figures
from record import RESULTS, Record, describe, first_line
from timing import Plan, Timer, interleave
from workloads import WORKLOADS, Workload

KL, DEFAULT = "adiw-kl", "adiw"
KERNELS = 40  # listed by --profile


def compile_with(**options: Any) -> Callable[[TrainingRun], None]:
    """Compile the network with these options of Inductor."""

    def change(job: TrainingRun) -> None:
        job.model.compile(dynamic=False, options=options)

    return change


def weights_channels_last(job: TrainingRun) -> None:
    """Keep the weights in the memory format of the activations."""
    job.model.to(memory_format=torch.channels_last)


def padded_stem(job: TrainingRun) -> None:
    """Pad the three colour channels with zeros to eight, which tensor cores need."""
    network: Any = job.model.network
    stem = getattr(network, "conv1", None)
    if not isinstance(stem, nn.Conv2d) or stem.in_channels != 3:
        raise ValueError("the network has no stem with three channels")

    def forward(self: nn.Conv2d, x: Tensor) -> Tensor:
        more = (0, 0, 0, 0, 0, 5)
        x = pad(x, more).contiguous(memory_format=torch.channels_last)
        return conv2d(x, pad(self.weight, more), None, self.stride, self.padding)  # type: ignore[arg-type]

    stem.forward = types.MethodType(forward, stem)  # type: ignore[method-assign]


def both(*changes: Callable[[TrainingRun], None]) -> Callable[[TrainingRun], None]:
    """All of these changes."""

    def change(job: TrainingRun) -> None:
        for each in changes:
            each(job)

    return change


def unchanged(job: TrainingRun) -> None:
    """Today's engine."""


@dataclass(frozen=True)
class Candidate:
    """An engine of the step benchmark, and what is changed after the run was built."""

    engine: str
    change: Callable[[TrainingRun], None] = unchanged
    methods: tuple[str, ...] = (BASE,)
    workloads: tuple[str, ...] = ("cifar10",)


BOTH = ("fashion-mnist", "cifar10")
TUNED = {"coordinate_descent_tuning": True}
SEARCHED = {"max_autotune": True, "max_autotune_gemm_backends": "ATEN,TRITON"}
CANDIDATES = {
    "captured": Candidate("captured", methods=(BASE, KL, DEFAULT), workloads=BOTH),
    "compiled": Candidate("compiled", methods=(BASE, KL), workloads=BOTH),
    "captured, weights channels last": Candidate("captured", weights_channels_last),
    "compiled, weights channels last": Candidate("compiled", weights_channels_last),
    "compiled, padded stem": Candidate("compiled", both(weights_channels_last, padded_stem)),
    "compiled, coordinate descent": Candidate("compiled", both(weights_channels_last, compile_with(**TUNED))),
    "compiled, max-autotune": Candidate("compiled", both(weights_channels_last, compile_with(**SEARCHED))),
}
SLOW = ("compiled, coordinate descent", "compiled, max-autotune")  # their compilation searches


class Engine:
    """A training run with a candidate. ``engine(steps)`` returns the seconds of a step."""

    def __init__(
        self, workload: Workload, splits: Any, device: torch.device, candidate: Candidate, method: str
    ) -> None:
        self.case = Case(workload.settings({"method": method}), splits, device, candidate.engine, workers=1)
        with self.case.job.on_stream():
            candidate.change(self.case.job)
        start = time.perf_counter()
        self.case.warm_up()
        self.set_up = time.perf_counter() - start

    def __call__(self, steps: int) -> float:
        return self.case(steps)


def measure(
    name: str,
    workload: Workload,
    splits: Any,
    chosen: list[str],
    plan: Plan,
    device: torch.device,
    deadline: float,
    profiled: set[tuple[str, str]],
) -> list[dict[str, Any]]:
    """One row for each engine and method; those that fail have the error."""
    cases: dict[tuple[str, str], Engine] = {}
    failed: dict[tuple[str, str], str] = {}
    for title in chosen:
        for method in CANDIDATES[title].methods:
            if time.monotonic() > deadline and title not in ("captured", "compiled"):
                failed[title, method] = "there was no time left"
                continue
            try:
                cases[title, method] = Engine(workload, splits, device, CANDIDATES[title], method)
            except Exception as error:
                failed[title, method] = first_line(error)
    timers: dict[str, Timer] = {str(key): case for key, case in cases.items()}
    timed = interleave(timers, plan)
    rows: list[dict[str, Any]] = []
    for key, case in cases.items():
        found = figures(timed[str(key)], timed[str((key[0], BASE))])
        about = {"workload": name, "engine": key[0], "method": key[1], "set_up_seconds": case.set_up}
        about |= {"captured": case.case.captured, "notes": case.case.log}
        if "error" not in found:
            epochs = [case.case.whole_epoch() for _ in range(3)]
            about |= {"seconds_per_epoch": sorted(epochs)[1], "epochs": epochs}
        rows.append(about | found | {"kernels": kernels(case, device) if key in profiled else []})
    rows += [{"workload": name, "engine": key[0], "method": key[1], "error": why} for key, why in failed.items()]
    return rows


def kernels(engine: Engine, device: torch.device, steps: int = 8) -> list[dict[str, Any]]:
    """The kernels of steps with this engine, the longest first: microseconds of a step and calls."""
    on_gpu = device.type == "cuda"
    kind = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[kind]) as profile:
        engine(steps)
    steps += engine.case.cycle  # those that are not timed
    found: list[dict[str, Any]] = []
    for event in profile.key_averages():
        total = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        found.append({"kernel": event.key[:160], "us": total / steps, "calls": event.count / steps})
    return sorted(found, key=lambda kernel: -float(kernel["us"]))[:KERNELS]


def line(row: dict[str, Any]) -> str:
    name = f"{row['workload']:14s} {row['engine']:32s} {row['method']:8s}"
    if "error" in row:
        return f"{name} {row['error']}"
    found = f"{row['ms']:7.3f} ms  x{row['ratio']:.3f}  epoch {row['seconds_per_epoch']:.4f} s"
    return f"{name} {found}  ready in {row['set_up_seconds']:.1f} s"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workloads", nargs="*", choices=BOTH, default=list(BOTH))
    parser.add_argument("--candidates", nargs="*", choices=CANDIDATES, help="[default: those that need no search]")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--times", type=int, default=360, help="steps of a case in all rounds together")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds of a case in all rounds together")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no candidate is started")
    parser.add_argument("--images", type=int, help="number of training images, for a smaller run")
    parser.add_argument("--batch", type=int, help="batch size, instead of that of the workload")
    parser.add_argument("--profile", nargs="*", choices=CANDIDATES, default=[], help="list the kernels of these")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    begin, device = time.monotonic(), torch.device(options.device)
    plan = Plan(options.rounds, options.times, options.limit, least=4)
    record = Record(options.out / f"engine-{device.type}.json", **describe(device=device.type))
    wanted = options.candidates or [title for title in CANDIDATES if title not in SLOW]
    for number, name in enumerate(options.workloads, 1):
        workload = WORKLOADS[name].cut(options.images, options.batch)
        chosen = [title for title in wanted if name in CANDIDATES[title].workloads]
        with tempfile.TemporaryDirectory() as folder:
            splits = workload.make(workload, device, Path(folder))
            deadline = begin + options.budget * number / len(options.workloads)
            profiled = {(title, BASE) for title in options.profile}
            rows = measure(name, workload, splits, chosen, plan, device, deadline, profiled)
            record.add(*rows)
            for row in rows:
                print(line(row), flush=True)
            collect()


if __name__ == "__main__":
    main()
