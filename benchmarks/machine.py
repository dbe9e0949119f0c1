"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def describe(*packages: str) -> dict[str, Any]:
    """Hardware, Python, and the versions of what took part."""
    found = {}
    for name in ("torch", "numpy", *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": found,
    }
