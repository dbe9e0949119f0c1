"""PyTorch's profiler over a window of steps."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from adiw.engine.stages import STAGES
from adiw.engine.trace import StageTime, read_trace


def profile_window(
    step: Callable[[], Any], skip: int, stabilise: int, record: int, device: torch.device
) -> tuple[dict[str, StageTime], StageTime]:
    """Call ``step`` skip + stabilise + record times: (time of each stage, of the whole) in the recorded calls.

    The profiler is off in the first ``skip`` calls and running, but not recording, in the next ``stabilise``.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's library writes a line for every start and stop
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    window = schedule(wait=skip, warmup=stabilise, active=record, repeat=1)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning: Profiler clears events")  # there is one cycle, and it is read
        file = Path(folder) / "trace.json"
        with profile(
            activities=activities, schedule=window, on_trace_ready=lambda done: done.export_chrome_trace(str(file))
        ) as profiler:
            for _ in range(skip + stabilise + record):
                step()
                profiler.step()
        # Names of kernels may hold characters that strict JSON does not allow.
        trace = json.loads(file.read_text(encoding="utf-8", errors="replace"), strict=False)
    return read_trace(trace, STAGES)
