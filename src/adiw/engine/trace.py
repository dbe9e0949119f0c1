"""Where a window of iterations spent its time, read from the trace that PyTorch's profiler exports."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
# A kernel names its launch on the host by a number of one kind or the other; the first is the launch itself, the
# second the operator around it, for launches that a version of the profiler does not record.
LINKS = {"correlation": {"cuda_runtime", "cuda_driver"}, "External id": {"cpu_op"}}
Event = Mapping[str, Any]
MICROSECOND = 1e-6


@dataclass(frozen=True)
class StageTime:
    """Seconds of a stage, summed over its occurrences; None on a machine without a GPU.

    cpu: on the host, from entering the stage to leaving it, waiting included.
    device: from the start of the first kernel that it launched to the end of the last, idle gaps included, as the
        profiler draws a range on the device. (The paper's tables must hold these: a quadratic program that is solved
        on the CPU takes as long there in CUDA time as in CPU time.)
    busy: the sum of its kernels and copies alone.
    """

    cpu: float
    device: float | None
    busy: float | None


@dataclass
class _Range:
    """One occurrence of a stage on the host, and what the device did for it. In microseconds."""

    name: str
    start: float
    end: float
    kernels: list[tuple[float, float]] = field(default_factory=list)


def read_trace(trace: Mapping[str, Any], stages: Sequence[str]) -> tuple[dict[str, StageTime], StageTime]:
    """(time of each stage, time of the window from its first stage to its last) of an exported trace.

    A kernel belongs to the stage during which the host launched it, whichever thread that was: autograd launches the
    kernels of ``backward`` from threads of its own. The profiler's sums see only the thread that opened the range,
    which would explain the paper's 0.00 seconds for backward. The main thread waits in ``backward`` until all are
    launched, so the moment of the launch decides. Pairs of CUDA events around a stage would include the time in which
    the device waits for the host before the stage's first kernel, such as for a batch to be decoded.

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
        raise ValueError(f"the trace holds none of the stages {', '.join(stages)}")
    on_device = [event for event in events if event.get("cat") in ON_DEVICE]
    _attribute(ranges, on_device, _launch_times(events))
    found = {name: _sum([one for one in ranges if one.name == name], bool(on_device)) for name in stages}
    kernels = [kernel for one in ranges for kernel in one.kernels]
    whole = _Range("window", ranges[0].start, ranges[-1].end, kernels)
    return found, _sum([whole], bool(on_device))


def _ranges(events: Iterable[Event], stages: Sequence[str]) -> list[_Range]:
    """The stages as they followed one another on the host."""
    marked = (event for event in events if event.get("cat") == "user_annotation" and event["name"] in stages)
    ranges = [_Range(event["name"], event["ts"], event["ts"] + event["dur"]) for event in marked]
    return sorted(ranges, key=lambda one: one.start)


def _launch_times(events: Iterable[Event]) -> dict[tuple[str, int], float]:
    """When the host launched each kernel, by the numbers that the launch and the kernel share."""
    return {
        (link, event["args"][link]): event["ts"]
        for event in events
        for link, kinds in LINKS.items()
        if event.get("cat") in kinds and link in event.get("args", {})
    }


def _attribute(ranges: list[_Range], on_device: list[Event], launched: Mapping[tuple[str, int], float]) -> None:
    """Give every kernel to the stage in which it was launched; those launched outside of the window are left out."""
    starts = [one.start for one in ranges]
    for event in on_device:
        known = (launched.get((link, event["args"].get(link, -1))) for link in LINKS)
        moment = next((time for time in known if time is not None), starts[0] - 1)
        at = bisect_right(starts, moment) - 1
        if at >= 0 and moment <= ranges[at].end:
            ranges[at].kernels.append((event["ts"], event["ts"] + event["dur"]))


def _sum(ranges: list[_Range], with_device: bool) -> StageTime:
    """The occurrences of one stage added up, in seconds."""
    cpu = sum(one.end - one.start for one in ranges) * MICROSECOND
    if not with_device:
        return StageTime(cpu, None, None)
    used = [one.kernels for one in ranges if one.kernels]
    spans = (max(end for _, end in kernels) - min(start for start, _ in kernels) for kernels in used)
    busy = sum(end - start for kernels in used for start, end in kernels)
    return StageTime(cpu, sum(spans) * MICROSECOND, busy * MICROSECOND)
