"""Profile a window of steps with PyTorch's profiler, and sum the time of every stage from its trace."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
# A kernel refers to its launch on the host by one of these ids: that of the launch, or, where the profiler does not
# record the launch, that of the operator around it.
LINKS = {"correlation": {"cuda_runtime", "cuda_driver"}, "External id": {"cpu_op"}}
Event = Mapping[str, Any]
MICROSECOND = 1e-6


@dataclass(frozen=True)
class StageTime:
    """Seconds of a stage, summed over its occurrences. Device times are None without a GPU.

    cpu: on the host, from the start of the stage to its end, waiting included.
    device: from the start of its first kernel to the end of its last, idle gaps included. The paper's tables contain
        this time: in them a quadratic program on the CPU takes as much CUDA time as CPU time.
    busy: the sum of its kernels and copies.
    """

    cpu: float
    device: float | None
    busy: float | None


@dataclass
class _Range:
    """One occurrence of a stage on the host, and its kernels on the device, in microseconds."""

    name: str
    start: float
    end: float
    kernels: list[tuple[float, float]] = field(default_factory=list)


def profile_window(
    step: Callable[[], Any], stages: Sequence[str], skip: int, stabilise: int, record: int, device: torch.device
) -> tuple[dict[str, StageTime], StageTime]:
    """Call ``step`` skip + stabilise + record times: (time of each stage, of the whole) in the recorded calls.

    The profiler is off in the first ``skip`` calls, and runs without recording in the next ``stabilise``.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's library logs a line for every start and stop
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    window = schedule(wait=skip, warmup=stabilise, active=record, repeat=1)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning: Profiler clears events")  # there is only one cycle
        file = Path(folder) / "trace.json"
        with profile(
            activities=activities, schedule=window, on_trace_ready=lambda done: done.export_chrome_trace(str(file))
        ) as profiler:
            for _ in range(skip + stabilise + record):
                step()
                profiler.step()
        # Names of kernels may contain characters that strict JSON does not allow.
        trace = json.loads(file.read_text(encoding="utf-8", errors="replace"), strict=False)
    return read_trace(trace, stages)


def read_trace(trace: Mapping[str, Any], stages: Sequence[str]) -> tuple[dict[str, StageTime], StageTime]:
    """(time of each stage, time of the window from the first stage to the last) of an exported trace.

    A kernel belongs to the stage in which the host launched it, from any thread: autograd launches the kernels of
    ``backward`` from its own threads, while the main thread waits in that stage. The profiler's own sums count only
    the thread that opened the range, which may explain the paper's 0.00 seconds for backward. CUDA events around a
    stage would also count the time in which the device waits for the host before the stage's first kernel.

    >>> def event(kind, name, start, length, **args):
    ...     return {"ph": "X", "cat": kind, "name": name, "ts": start, "dur": length, "args": args}
    >>> events = [event("user_annotation", "backward", 0, 1e6), event("kernel", "gemm", 3e6, 5e5, correlation=7)]
    >>> events += [event("cuda_runtime", "cudaLaunchKernel", 4e5, 10, correlation=7)]
    >>> read_trace({"traceEvents": events}, ["backward"])[0]
    {'backward': StageTime(cpu=1.0, device=0.5, busy=0.5)}
    """
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    ranges = _ranges(events, stages)
    if not ranges:
        raise ValueError(f"expected a trace with the stages {', '.join(stages)}, got one with none of them")
    on_device = [event for event in events if event.get("cat") in ON_DEVICE]
    _attribute(ranges, on_device, _launch_times(events))
    found = {name: _sum([one for one in ranges if one.name == name], bool(on_device)) for name in stages}
    kernels = [kernel for one in ranges for kernel in one.kernels]
    whole = _Range("window", ranges[0].start, ranges[-1].end, kernels)
    return found, _sum([whole], bool(on_device))


def _ranges(events: Iterable[Event], stages: Sequence[str]) -> list[_Range]:
    """The occurrences of the stages on the host, in order of time."""
    marked = (event for event in events if event.get("cat") == "user_annotation" and event["name"] in stages)
    ranges = [_Range(event["name"], event["ts"], event["ts"] + event["dur"]) for event in marked]
    return sorted(ranges, key=lambda one: one.start)


def _launch_times(events: Iterable[Event]) -> dict[tuple[str, int], float]:
    """The time at which the host launched each kernel, by the ids that launch and kernel share."""
    return {
        (link, event["args"][link]): event["ts"]
        for event in events
        for link, kinds in LINKS.items()
        if event.get("cat") in kinds and link in event.get("args", {})
    }


def _attribute(ranges: list[_Range], on_device: list[Event], launched: Mapping[tuple[str, int], float]) -> None:
    """Add every kernel to the stage in which it was launched; kernels launched outside the window are excluded."""
    starts = [one.start for one in ranges]
    for event in on_device:
        known = (launched.get((link, event["args"].get(link, -1))) for link in LINKS)
        moment = next((time for time in known if time is not None), starts[0] - 1)
        at = bisect_right(starts, moment) - 1
        if at >= 0 and moment <= ranges[at].end:
            ranges[at].kernels.append((event["ts"], event["ts"] + event["dur"]))


def _sum(ranges: list[_Range], with_device: bool) -> StageTime:
    """The sum over the occurrences of one stage, in seconds."""
    cpu = sum(one.end - one.start for one in ranges) * MICROSECOND
    if not with_device:
        return StageTime(cpu, None, None)
    used = [one.kernels for one in ranges if one.kernels]
    spans = (max(end for _, end in kernels) - min(start for start, _ in kernels) for kernels in used)
    busy = sum(end - start for kernels in used for start, end in kernels)
    return StageTime(cpu, sum(spans) * MICROSECOND, busy * MICROSECOND)
