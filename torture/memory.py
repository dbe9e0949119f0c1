"""Memory, objects and open files must not grow over 10,000 steps: the loop with every divergence, and a run."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, DIVERGENCES, Features
from adiw.divergences import Divergence, Wasserstein
from adiw.engine.checkpoint import write_atomically
from adiw.experiments.provenance import provenance
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.experiments.training_run import Engine
from torture.commit import commit

RESULTS = Path(__file__).parents[1] / "results" / "torture"
STEPS = 10_000
OBJECTS, MIB = 100, 16.0  # growth over all steps above this is a leak
ROW_OBJECTS = 8  # objects that an epoch of a run adds: its rows of metrics and timing


@dataclass(frozen=True)
class Held:
    """Python objects, resident memory and open files of this process."""

    objects: int
    mib: float
    handles: int

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            len(gc.get_objects()), pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir("/proc/self/fd"))
        )

    def since(self, before: Held) -> Held:
        return Held(self.objects - before.objects, self.mib - before.mib, self.handles - before.handles)

    def fault(self, epochs: int = 0) -> str | None:
        """Why this growth is a leak; None when it is not."""
        if self.objects > OBJECTS + ROW_OBJECTS * epochs:
            return f"{self.objects} more objects"
        if self.mib > MIB:
            return f"{self.mib:.1f} MiB more"
        return f"{self.handles} more open files" if self.handles > 0 else None


def divergences() -> dict[str, Divergence]:
    """Every divergence of the table, and the critic network."""
    found = {name: kind() for name, kind in DIVERGENCES.items()}
    return {**found, "wasserstein, network": Wasserstein(critic="network", pretrain=5)}


def training_step(divergence: Divergence, features: bool) -> Callable[[], None]:
    """A complete training step, as in a user's loop."""
    generator = Generator().manual_seed(0)
    x, y = torch.randn(256, 8, generator=generator), torch.randint(4, (256,), generator=generator)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    transform: Any = Features(model[1], num_classes=4) if features else "loss"
    criterion, val_set = nn.CrossEntropyLoss(reduction="none"), TensorDataset(x[:32], y[:32])
    settings: dict[str, Any] = {"transform": transform, "warmup_steps": 3, "val_batch": 16, "cap": 20.0}
    settings["repeats"] = True  # batches are drawn with replacement
    reweight = ADIW(model, criterion, val_set, 256, divergence, **settings, generator=generator)

    def step() -> None:
        index = torch.randint(256, (16,), generator=generator)
        reweight(model(x[index]), y[index], index).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def growth(step: Callable[[], object], steps: int, warm: int = 100) -> Held:
    """Growth over ``steps`` steps, after ``warm`` steps that fill caches and buffers."""
    for _ in range(warm):
        step()
    before = Held.now()
    for _ in range(steps):
        step()
    return Held.now().since(before)


def engine_growth(epochs: int, folder: Path, warm: int = 5, batch: int = 16) -> Held:
    """Growth over the epochs of a run on digits, after the first ``warm`` epochs."""
    seen: dict[int, Held] = {}

    def note_memory(row: dict[str, Any]) -> None:
        if row["epoch"] in (warm, epochs):
            seen[row["epoch"]] = Held.now()

    settings = resolve({"epochs": epochs, "batch": batch, "trusted": 50})
    run(settings, folder, engine=Engine(torch.device("cpu")), progress=note_memory)
    return seen[epochs].since(seen[warm])


def main() -> None:
    begun, found, wrong = time.monotonic(), {}, []
    for features in (False, True):
        for name, divergence in divergences().items():
            key = f"{name}, {'features' if features else 'loss'}"
            found[key] = growth(training_step(divergence, features), STEPS)
            fault = found[key].fault()
            wrong += [] if fault is None else [f"{key}: {fault}"]
            print(key, found[key], flush=True)
    epochs = 5 + -(-STEPS // 81)  # digits has 81 batches of 16
    with tempfile.TemporaryDirectory() as folder:
        found["adiw run"] = engine_growth(epochs, Path(folder) / "run")
    fault = found["adiw run"].fault(epochs)
    wrong += [] if fault is None else [f"adiw run: {fault}"]
    content = {
        "check": "memory",
        "about": "Steps of training, after which the process must hold no more memory, objects and open files.",
        "settings": {"steps": STEPS, "objects": OBJECTS, "mib": MIB, "epochs_of_the_run": epochs},
        "counts": {"steps": STEPS * len(found), "loops": len(found), "leaks": len(wrong)},
        "wrong": wrong,
        "rows": [{"loop": key, **asdict(held), "mib": round(held.mib, 2)} for key, held in found.items()],
        "seconds": round(time.monotonic() - begun, 1),
        "load": round(os.getloadavg()[0], 1),  # of the last minute
        **provenance(torch.device("cpu")),
        "commit": commit(),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_atomically(RESULTS / "memory.json", (json.dumps(content, indent=1) + "\n").encode())
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
