"""What is kept of a run: its files, and the facts that let somebody else judge its figures."""

from __future__ import annotations

import io
import json
import os
import platform
import statistics
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import adiw
from adiw.engine.checkpoint import write_atomically
from adiw.experiments.outcome import LAST
from adiw.experiments.sealed import Row, line, read_json
from adiw.experiments.sums import NAME as SUMS
from adiw.experiments.sums import sums_of


class Folder:
    """The folder of one run. Every file is replaced as a whole, or grows by whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make the folder and see that it can be written to, before anything slow."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            marker = self.path / ".writable"
            marker.write_bytes(b"")
            marker.unlink()
        except OSError as error:
            reason = error.strerror or "unknown reason"
            text = f"cannot write to the folder {self.path} ({reason}): choose another"
            raise type(error)(error.errno, text) from error

    def read_json(self, name: str) -> Any:
        """The file's content, or None where there is none."""
        file = self.path / name
        return read_json(file) if file.exists() else None

    def write_json(self, name: str, content: Any) -> None:
        write_atomically(self.path / name, (json.dumps(content, indent=2) + "\n").encode())

    def write_rows(self, name: str, rows: list[Row]) -> None:
        """A line of JSON for each row."""
        write_atomically(self.path / name, "".join(map(line, rows)).encode())

    def append_row(self, name: str, row: Row) -> None:
        """One more line; a line that a crash has cut short is taken out first."""
        with (self.path / name).open("ab+") as target:
            size = target.tell()
            target.seek(max(size - 1, 0))
            if target.read() not in (b"", b"\n"):
                target.seek(0)
                target.truncate(target.read().rfind(b"\n") + 1)
            target.write(line(row).encode())

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def write_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        payload = io.BytesIO()
        np.save(payload, array, allow_pickle=False)
        write_atomically(self.path / name, payload.getvalue())

    def seal(self, *names: str) -> None:
        """Note the digests of these files; any of them must be unsealed before it changes."""
        write_atomically(self.path / SUMS, sums_of(self.path, names))

    def unseal(self) -> None:
        self.remove(SUMS)


def summarise(metrics: list[Row], timing: list[Row]) -> dict[str, Any]:
    """Accuracy over the last ten epochs, and seconds for an epoch with the first left out.

    None stands for what no epoch was run for.

    >>> summarise([{"accuracy": 50.0, "top5": 90.0}, {"accuracy": 70.0, "top5": 100.0}], [{"train_seconds": 1.0}])
    {'accuracy': 60.0, 'accuracy_std': 10.0, 'top5': 95.0, 'epochs': 2, 'seconds_per_epoch': 1.0}
    """
    last = [row["accuracy"] for row in metrics[-LAST:]]
    seconds = [row["train_seconds"] for row in timing]
    return {
        "accuracy": statistics.fmean(last) if last else None,
        "accuracy_std": statistics.pstdev(last) if last else None,
        "top5": statistics.fmean(row["top5"] for row in metrics[-LAST:]) if last else None,
        "epochs": len(metrics),
        "seconds_per_epoch": statistics.median(seconds[1:] or seconds) if seconds else None,
    }


def provenance(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and commit that a figure was made with."""
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
    """The commit of the source tree that this package is imported from, when it is one.

    It is looked up once: what is checked out while a run trains is not what trains it.
    """
    given = os.environ.get("ADIW_COMMIT")  # for a tree that travels without its history
    if given:
        return given
    tree = Path(__file__).parents[3]
    if not (tree / ".git").exists():  # installed; a repository further up is somebody else's
        return None
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
