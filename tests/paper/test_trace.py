"""Reading traces: simulated GPU traces, and events that are excluded."""

from __future__ import annotations

from typing import Any

import pytest

from paper.profiler.trace import StageTime, read_trace

STAGES = ["forward", "backward"]


def event(kind: str, name: str, start: float, length: float, **more: Any) -> dict[str, Any]:
    """An event of the trace; times in milliseconds."""
    numbers = {"correlation": "correlation", "op": "External id"}
    args = {label: more[key] for key, label in numbers.items() if key in more}
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "ts": 1e3 * start,
        "dur": 1e3 * length,
        "tid": more.get("thread", 1),
        "args": args,
    }


def stage(name: str, start: float, length: float) -> dict[str, Any]:
    return event("user_annotation", name, start, length)


def launched(kind: str, number: int, at: float, start: float, length: float, thread: int = 1) -> list[dict[str, Any]]:
    """A launch on the host at ``at`` and the work that it started on the device."""
    api = "cuda_driver" if number % 2 else "cuda_runtime"
    return [
        event(kind, "work", start, length, correlation=number, thread=7),
        event(api, "launch", at, 0.01, correlation=number, thread=thread),
    ]


def times(*events: dict[str, Any]) -> tuple[dict[str, StageTime], StageTime]:
    return read_trace({"traceEvents": [{"ph": "M", "name": "process_name"}, *events]}, STAGES)


def figures(time: StageTime) -> tuple[float, float, float]:
    """CPU, device and busy time in milliseconds."""
    assert time.device is not None
    assert time.busy is not None
    return 1e3 * time.cpu, 1e3 * time.device, 1e3 * time.busy


def test_kernels_go_to_the_stage_that_launched_them_and_not_the_one_that_they_ran_in() -> None:
    found, whole = times(
        stage("forward", 0, 2),
        stage("backward", 3, 4),
        *launched("gpu_memcpy", 1, at=0.5, start=1, length=1),
        *launched("kernel", 2, at=1.5, start=4, length=2),  # the host has run ahead: it is in backward by then
        *launched("gpu_memset", 3, at=3.5, start=6, length=0.5),
        *launched("kernel", 4, at=5, start=8, length=1),
    )
    assert figures(found["forward"]) == pytest.approx((2, 5, 3))
    assert figures(found["backward"]) == pytest.approx((4, 3, 1.5))
    assert figures(whole) == pytest.approx((7, 8, 4.5))


def test_the_kernels_of_backward_are_launched_by_a_thread_of_its_own() -> None:
    found, _ = times(
        stage("forward", 0, 1),
        stage("backward", 1, 3),
        *launched("kernel", 1, at=1.2, start=2, length=1, thread=1),
        *launched("kernel", 2, at=3.9, start=5, length=2, thread=99),
    )
    assert figures(found["backward"]) == pytest.approx((3, 5, 3))


def test_a_launch_that_was_not_recorded_is_found_by_its_operator() -> None:
    found, _ = times(
        stage("forward", 0, 1),
        stage("backward", 1, 1),
        event("cpu_op", "aten::mm", 1.5, 0.1, op=31),
        event("kernel", "gemm", 4, 2, correlation=5, op=31),
    )
    assert (found["forward"].device, found["backward"].device) == (0, pytest.approx(0.002))


def test_occurrences_add_up_and_the_gaps_between_them_do_not_count() -> None:
    found, whole = times(
        stage("forward", 10, 1),
        stage("forward", 0, 2),  # events come in any order
        *launched("kernel", 1, at=0.1, start=0.5, length=1),
        *launched("kernel", 2, at=10.1, start=10.5, length=1),
    )
    assert figures(found["forward"]) == pytest.approx((3, 2, 2))
    assert figures(found["backward"]) == (0, 0, 0)
    assert figures(whole) == pytest.approx((11, 11, 2))


def test_kernels_launched_outside_of_the_stages_are_excluded() -> None:
    found, whole = times(
        stage("forward", 1, 1),
        stage("backward", 3, 1),
        stage("other", 0, 9),
        *launched("kernel", 1, at=0.5, start=1.5, length=5),  # before the first
        *launched("kernel", 2, at=2.5, start=3.5, length=5),  # between them
        *launched("kernel", 3, at=4.5, start=5.5, length=5),  # after the last
        event("kernel", "launched before the trace began", 1.2, 0.5, correlation=77),
        event("gpu_user_annotation", "forward", 1, 50),
    )
    assert [figures(found[name])[1:] for name in STAGES] == [(0, 0), (0, 0)]
    assert figures(whole) == pytest.approx((3, 0, 0))


def test_without_a_gpu_there_is_no_device_time() -> None:
    found, whole = times(stage("forward", 0, 1), event("cpu_op", "aten::mm", 0.2, 0.5, op=3))
    assert found["forward"] == StageTime(pytest.approx(0.001), None, None)
    assert (whole.device, whole.busy) == (None, None)


def test_a_trace_without_stages_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected a trace with the stages forward, backward, got"):
        times(event("cpu_op", "aten::mm", 0, 1))
