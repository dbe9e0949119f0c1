"""The stage profile on a CUDA device: every stage has device time, and no kernel is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.experiments.settings import resolve
from paper.profiler import trace as module
from paper.profiler.implementations import IMPLEMENTATIONS
from paper.profiler.plan import Plan
from paper.profiler.profile import profile_all
from paper.profiler.trace import ON_DEVICE, StageTime, read_trace

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and this machine has none"),
]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All traces that are read."""
    seen: list[Any] = []

    def reading(trace: Any, stages: Any) -> tuple[dict[str, StageTime], StageTime]:
        seen.append(trace)
        return read_trace(trace, stages)

    monkeypatch.setattr(module, "read_trace", reading)
    return seen


def test_stages_add_up_to_the_window(tmp_path: Path, traces: list[Any]) -> None:
    methods = {name: "diw" if one.program else "adiw-kl" for name, one in IMPLEMENTATIONS.items()}
    settings = {name: resolve({"dataset": "digits", "batch": 32, "method": one}) for name, one in methods.items()}
    content = profile_all(settings, Plan(), tmp_path, device=torch.device("cuda"), workers=0)
    entries = content["implementations"]
    for (name, entry), trace in zip(entries.items(), traces, strict=True):
        stages, window = entry["stages"], entry["window"]
        for stage, time in stages.items():
            assert time["device"] > 0, (name, stage)
            assert 0 < time["busy"] <= 1.01 * time["device"], (name, stage)  # one stream: kernels do not overlap
        assert 0.8 * window["cpu"] <= sum(time["cpu"] for time in stages.values()) <= window["cpu"]
        # The device waits between stages while the host collates a batch, but stages do not overlap.
        assert 0.3 * window["device"] <= sum(time["device"] for time in stages.values()) <= 1.01 * window["device"]
        kernels = sum(1e-6 * event["dur"] for event in trace["traceEvents"] if event.get("cat") in ON_DEVICE)
        assert sum(time["busy"] for time in stages.values()) >= 0.95 * kernels, name
    on_cpu, on_gpu = (entries[name]["stages"]["estimate weights"]["busy"] for name in ("ADIW_CPU", "ADIW_GPU"))
    assert on_cpu < on_gpu  # copies to the CPU and back, against the estimation itself
