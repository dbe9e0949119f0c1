"""A benchmark's results as JSON, with the machine and versions. The file is rewritten after every result."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from adiw.experiments.provenance import provenance

RESULTS = Path(__file__).parent / "results"


class Record:
    """Rows under a heading. Nothing is written before the first row, so a failed start keeps the previous results."""

    def __init__(self, path: Path, **heading: Any) -> None:
        self.path, self.heading = path, heading
        self.rows: list[dict[str, Any]] = []

    def add(self, *rows: dict[str, Any]) -> None:
        """Append rows and replace the file atomically."""
        self.rows += rows
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".part")
        aside.write_text(json.dumps({**self.heading, "rows": self.rows}, indent=1) + "\n")
        os.replace(aside, self.path)


def first_line(error: Exception) -> str:
    """The type of an error and the first line of its message.

    >>> first_line(ValueError("no such thing\\n at all"))
    'ValueError: no such thing'
    """
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def describe(*packages: str, device: str = "cpu") -> dict[str, Any]:
    """Hardware, versions and commit; ``device`` is the one that is measured."""
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
        "load": round(os.getloadavg()[0], 1),  # of the last minute: other processes disturb the times
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": found | ({"cuda": torch.version.cuda} if on_gpu else {}),
        "commit": provenance(torch.device("cpu"))["commit"],
    }
