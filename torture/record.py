"""The record of a check: results/torture/NAME.json, with everything that is needed to repeat it."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from adiw.engine.checkpoint import write_atomically
from adiw.experiments.provenance import provenance
from torture.commit import commit

RESULTS = Path(__file__).parents[1] / "results" / "torture"


def arguments(about: str, count: int) -> argparse.Namespace:
    """The command line of a check: number of cases, seed, and folder of the record."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=count, help=f"cases to try [default: {count}]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the record")
    return parser.parse_args()


class Record:
    """The record of one check. Create it before the check: it measures the time.

    Args:
        name: name of the check and of its file.
        about: what is tried, in a sentence for docs/reliability.md.
        settings: the settings of the check with its seed.
    """

    def __init__(self, name: str, about: str, **settings: Any) -> None:
        self.name, self.about, self.settings, self.started = name, about, settings, time.monotonic()

    def write(self, counts: Mapping[str, int], wrong: Sequence[str], out: Path = RESULTS, **more: Any) -> Path:
        """Write the file. ``wrong`` has a line for everything that went wrong; ``more``: further entries."""
        content = {
            "check": self.name,
            "about": self.about,
            "settings": self.settings,
            "counts": dict(counts),
            "wrong": list(wrong),
            **more,
            "seconds": round(time.monotonic() - self.started, 1),
            "load": round(os.getloadavg()[0], 1),  # of the last minute: whether the machine was busy
            **provenance(torch.device("cpu")),
            "commit": commit(),
        }
        out.mkdir(parents=True, exist_ok=True)
        file = out / f"{self.name}.json"
        write_atomically(file, (json.dumps(content, indent=1) + "\n").encode())
        print(f"{self.name}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
        for line in wrong[:20]:
            print(f"  {line}")
        return file
