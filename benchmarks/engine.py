"""The time of a uniform epoch of ``adiw run``, and of weighted steps, with today's engine and with candidates.

    python benchmarks/engine.py [--workloads cifar10 fashion-mnist] [--candidates NAME ...] [--budget 60] [--out DIR]

Each candidate takes turns with today's compiled engine within one process; a ratio is that of kl or the default to
uniform with the same engine. The seconds until the first graph is ready are those of compilation and first steps. A
candidate changes neither the network nor the schedule nor the data: ``gradient_error`` is the distance of the first
batch's gradient from that in full precision, relative to it, and ``buffer_error`` that of batch norm's means and
variances. ``--profile`` lists the kernels of a uniform step by their time. Candidates that begin with "+" have the
change in their name and all changes above it, except that they have one of the two stems.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adiw.engine.loop import autocast
from adiw.experiments.training_run import TrainingRun
from cases import BASE, Case, collect
from engine_changes import (
    Change,
    PaddedStem,
    UnfoldedStem,
    compile_with,
    compiled_bookkeeping,
    shortcut_products,
    stem,
    summed_batch_norm,
    together,
    unchanged,
    weights_channels_last,
)
from plain_loop import figures
from record import RESULTS, Record, describe, first_line
from timing import Plan, Timed, Timer, interleave
from workloads import WORKLOADS, Workload

KL, DEFAULT = "adiw-kl", "adiw"
KERNELS = 60  # listed by --profile


@dataclass(frozen=True)
class Candidate:
    """An engine of the step benchmark, and what is changed after the run was built."""

    engine: str
    change: Change = unchanged
    methods: tuple[str, ...] = (BASE,)
    workloads: tuple[str, ...] = ("cifar10",)


BOTH = ("fashion-mnist", "cifar10")
TODAY = "compiled"
TUNED = {"coordinate_descent_tuning": True, "max_autotune_pointwise": True}
SEARCHED = {"max_autotune": True, "max_autotune_gemm_backends": "ATEN,TRITON"}
STRUCTURE = (weights_channels_last, shortcut_products)
SUMMED = (*STRUCTURE, stem(PaddedStem), summed_batch_norm)
CANDIDATES = {
    "captured": Candidate("captured", methods=(BASE, KL, DEFAULT), workloads=BOTH),
    TODAY: Candidate("compiled", methods=(BASE, KL), workloads=BOTH),
    "captured, weights channels last": Candidate("captured", weights_channels_last),
    "captured, padded stem": Candidate("captured", together(*STRUCTURE, stem(PaddedStem))),
    "weights channels last": Candidate("compiled", weights_channels_last),
    "+ shortcuts as products": Candidate("compiled", together(*STRUCTURE)),
    "+ padded stem": Candidate("compiled", together(*STRUCTURE, stem(PaddedStem))),
    "+ padded stem, max-autotune": Candidate(
        "compiled", together(*STRUCTURE, stem(PaddedStem), compile_with(**SEARCHED))
    ),
    "+ unfolded stem": Candidate("compiled", together(*STRUCTURE, stem(UnfoldedStem))),
    "+ padded stem, summed batch norm": Candidate("compiled", together(*SUMMED)),
    "+ unfolded stem, summed batch norm": Candidate(
        "compiled", together(*STRUCTURE, stem(UnfoldedStem), summed_batch_norm)
    ),
    "+ all of these, compiled bookkeeping": Candidate("compiled", together(*SUMMED, compiled_bookkeeping)),
    "+ all of these, combined kernels": Candidate(
        "compiled", together(*SUMMED, compiled_bookkeeping, compile_with(combo_kernels=True))
    ),
    "+ all of these, tuned kernels": Candidate(
        "compiled", together(*SUMMED, compiled_bookkeeping, compile_with(**TUNED))
    ),
    "+ all of these, max-autotune": Candidate(
        "compiled", together(*SUMMED, compiled_bookkeeping, compile_with(**SEARCHED))
    ),
    "compiled bookkeeping": Candidate("compiled", compiled_bookkeeping, (BASE, KL), BOTH),
}
FIRST = ("captured", TODAY)  # measured without --candidates


class Engine:
    """A training run with a candidate. ``engine(steps)`` returns the seconds of a step."""

    def __init__(
        self,
        workload: Workload,
        splits: Any,
        device: torch.device,
        candidate: Candidate,
        method: str,
        exact: Gradients | None = None,
    ) -> None:
        self.case = Case(workload.settings({"method": method}), splits, device, candidate.engine, workers=1)
        self.errors: dict[str, float] = {}
        start = time.perf_counter()
        with self.case.job.on_stream():
            candidate.change(self.case.job)
            if exact is not None:
                self.errors = gradients(self.case.job).errors(exact)
        self.case.warm_up()
        self.set_up = time.perf_counter() - start

    def __call__(self, steps: int) -> float:
        return self.case(steps)


@dataclass(frozen=True)
class Gradients:
    """Those of the first batch, by the name of the parameter, and the buffers after its forward pass."""

    by_name: dict[str, Tensor]
    buffers: dict[str, Tensor]

    def errors(self, exact: Gradients) -> dict[str, float]:
        """Distances from the exact ones, relative to them."""
        found = {}
        for name, mine, theirs in (
            ("gradient_error", self.by_name, exact.by_name),
            ("buffer_error", self.buffers, exact.buffers),
        ):
            apart = sum(float((mine[key] - exact_one).double().square().sum()) for key, exact_one in theirs.items())
            size = sum(float(exact_one.double().square().sum()) for exact_one in theirs.values())
            found[name] = math.sqrt(apart / size) if size else 0.0
        return found


def gradients(job: TrainingRun, exact: bool = False) -> Gradients:
    """The mean gradient of a batch; ``exact`` is without compilation and without formats of half precision."""
    job.loop.loader.set_epoch(0)
    x, y, _ = job.loop.loader.batch()  # with the strides of a step, for which the network is compiled
    model = job.model.train()
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, not exact
    try:
        with (
            torch.compiler.set_stance("force_eager" if exact else "default"),
            autocast(x.device, job.bf16 and not exact),
        ):
            outputs = model(x)
        torch.nn.functional.cross_entropy(outputs.float(), y).backward()
    finally:
        torch.backends.cudnn.allow_tf32 = before
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}  # type: ignore[union-attr]
    model.zero_grad(set_to_none=True)
    return Gradients(found, {name: x.clone() for name, x in model.named_buffers() if "running" in name})


def exact_gradients(workload: Workload, splits: Any, device: torch.device) -> Gradients:
    """The gradients of the run's first network in full precision."""
    case = Case(workload.settings({"method": BASE}), splits, device, "eager", workers=1)
    with case.job.on_stream():
        return gradients(case.job, exact=True)


def measure(
    name: str,
    workload: Workload,
    splits: Any,
    chosen: list[str],
    plan: Plan,
    device: torch.device,
    deadline: float,
    profiled: list[str],
    methods: list[str],
) -> Iterator[dict[str, Any]]:
    """A row for each engine and method, as soon as it is measured; those that fail have the error."""
    exact, today = exact_gradients(workload, splits, device), None
    for title in chosen:
        cases: dict[str, Engine] = {}
        for method in [method for method in CANDIDATES[title].methods if method in methods]:
            about = {"workload": name, "engine": title, "method": method}
            if time.monotonic() > deadline and title not in FIRST:
                yield about | {"error": "there was no time left"}
                continue
            try:
                cases[method] = Engine(workload, splits, device, CANDIDATES[title], method, exact)
            except Exception as error:
                yield about | {"error": first_line(error)}
        timers: dict[str, Timer] = dict(cases)
        if today is not None and cases:
            timers[TODAY] = today
        timed = interleave(timers, plan)
        for method, case in cases.items():
            found = figures(timed[method], timed.get(BASE, Timed(error="uniform weights failed")))
            about = {"workload": name, "engine": title, "method": method, "set_up_seconds": case.set_up}
            about |= {"captured": case.case.captured, "notes": case.case.log}
            if "error" not in found:
                epochs = [case.case.whole_epoch() for _ in range(3)]
                about |= {"seconds_per_epoch": sorted(epochs)[1], "epochs": epochs, **case.errors}
                if today is not None:
                    about["of_today"] = timed[method].over(timed[TODAY])
            listed = kernels(case, device) if title in profiled and method == BASE else []
            yield about | found | {"kernels": listed}
        if title == TODAY:
            today = cases.get(BASE)
        del cases, timers
        collect()


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
    if "of_today" in row:
        found += f"  {row['of_today']:.3f} of today's"
    errors = f"errors {row['gradient_error']:.1e}, {row['buffer_error']:.1e}"
    return f"{name} {found}  {errors}  ready in {row['set_up_seconds']:.1f} s"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workloads", nargs="*", choices=BOTH, default=list(BOTH))
    parser.add_argument("--candidates", nargs="*", choices=CANDIDATES, default=list(FIRST))
    parser.add_argument("--methods", nargs="*", choices=(BASE, KL, DEFAULT), default=[BASE, KL, DEFAULT])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--times", type=int, default=360, help="steps of a case in all rounds together")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds of a case in all rounds together")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no candidate is started")
    parser.add_argument("--images", type=int, help="number of training images, for a smaller run")
    parser.add_argument("--batch", type=int, help="batch size, instead of that of the workload")
    parser.add_argument("--profile", nargs="*", choices=CANDIDATES, default=[], help="list the kernels of these")
    parser.add_argument("--plans", type=int, default=10, help="algorithms of a convolution that cuDNN tries; 0: all")
    parser.add_argument("--name", default="engine", help="name of the record")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    begin, device = time.monotonic(), torch.device(options.device)
    plan = Plan(options.rounds, options.times, options.limit, least=4)
    torch.backends.cudnn.benchmark_limit = options.plans
    record = Record(
        options.out / f"{options.name}-{device.type}.json", **describe(device=device.type), plans=options.plans
    )
    for number, name in enumerate(options.workloads, 1):
        workload = WORKLOADS[name].cut(options.images, options.batch)
        chosen = [title for title in options.candidates if name in CANDIDATES[title].workloads]
        with tempfile.TemporaryDirectory() as folder:
            splits = workload.make(workload, device, Path(folder))
            deadline = begin + options.budget * number / len(options.workloads)
            given = (plan, device, deadline, options.profile, options.methods)
            for row in measure(name, workload, splits, chosen, *given):
                record.add(row)
                print(line(row), flush=True)


if __name__ == "__main__":
    main()
