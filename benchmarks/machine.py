"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from adiw.experiments.record import provenance


def describe(*packages: str, device: str = "cpu") -> dict[str, Any]:
    """Hardware, Python, and the versions of what took part; ``device`` is the one that the work was done on."""
    found = {}
    for name in ("torch", "numpy", *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    on_gpu = device == "cuda"
    return {
        "device": torch.cuda.get_device_name() if on_gpu else "CPU",
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),  # of the last minute: whether others were at work
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": found | ({"cuda": torch.version.cuda} if on_gpu else {}),
        "commit": provenance(torch.device("cpu"))["commit"],
    }
