"""Versions, hardware and commit, for the record of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import adiw


def provenance(device: torch.device) -> dict[str, Any]:
    """The entries of a record that describe the program and the machine."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "versions": {
            "adiw": adiw.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "hardware": {"device": gpu or platform.processor() or platform.machine(), "cpus": os.cpu_count()},
        "commit": commit(),
    }


@cache
def commit() -> str | None:
    """The commit of the source tree that this package is imported from; None for an installed package.

    It is read once, because the tree may change while a run trains. $ADIW_COMMIT replaces it where the tree is a copy
    without a repository.
    """
    given = os.environ.get("ADIW_COMMIT")
    if given:
        return given
    tree = Path(__file__).parents[3]
    if not (tree / ".git").exists():  # installed: a repository further up belongs to another project
        return None
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
