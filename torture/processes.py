"""Two and four processes with a part of each batch against one with all of it, for every variant of ADIW."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adiw import Features
from adiw.divergences import KL, MMD, Squared, Wasserstein
from adiw.engine.checkpoint import write_atomically
from adiw.experiments.record import provenance
from tests.several import BATCH, EVEN, NUM_TRAIN, NUM_VAL, VARIANTS, in_processes, train

STEPS, SIZES, BOUND = 200, (2, 4), 1e-5
NETWORK = Wasserstein(critic="network", pretrain=2, learning_rate=1e-3)
MORE: dict[str, Callable[[], dict[str, Any]]] = {
    "kl auto": lambda: {"divergence": KL(width="auto")},
    "kl optimum": lambda: {"divergence": KL(update="optimum", step_size=0.1)},
    "mmd, limits": lambda: {"divergence": MMD(width=0.3), "mean_one": True, "cap": 1.5, "min_ess": 0.8},
    "mmd, several steps": lambda: {"divergence": MMD(width=0.3), "steps": 3},
    "features mmd": lambda: {"transform": Features("1", num_classes=4), "divergence": MMD(width=0.3)},
    "features squared": lambda: {"transform": Features("1", num_classes=4), "divergence": Squared(width=0.3)},
    "features network": lambda: {"transform": Features("1", num_classes=4), "divergence": NETWORK},
}
# Here what differs in a last digit grows, however many processes there are: shown beside a run that was nudged.
SENSITIVE: dict[str, Callable[[], dict[str, Any]]] = {
    "mmd auto": lambda: {"divergence": MMD(width="auto")},
    "mmd local auto": lambda: {"divergence": MMD(width="auto", step="local")},
    "kl euclidean": lambda: {"divergence": KL(update="euclidean", step_size=0.1)},
}
ALL = {**VARIANTS, **MORE, **SENSITIVE}
DRAWN = (*EVEN, "features network")
NUDGE = 1e-15
PARTS = slice(0, 1), slice(1, None)  # of what ``work`` returns: weights, parameters


def work(rank: int, size: int, steps: int, nudge: float) -> dict[str, list[Tensor]]:
    """Weights and parameters of every variant after these steps; with a nudge, of those that are sensitive to one."""
    found = {}
    for name, make in (SENSITIVE if nudge else ALL).items():
        run = train(rank, size, make(), range(steps), even=name in DRAWN, nudge=nudge)
        found[name] = [run["weights"], *run["parameters"]]
    return found


def largest(first: list[Tensor], second: list[Tensor]) -> float:
    """The largest difference between two lists of tensors; nan where there is one."""
    return float(torch.stack([(a - b).abs().max() for a, b in zip(first, second, strict=True)]).max())


def compare(steps: int) -> list[dict[str, Any]]:
    """A row for every variant and number of processes: how far the process that is furthest off is from one alone.

    Rows of one process are those of the nudged run.
    """
    jobs = [(1, 0.0), (1, NUDGE), *((size, 0.0) for size in SIZES)]
    with ThreadPoolExecutor(len(jobs)) as pool:  # all at once: processes that wait for each other leave time
        results = list(pool.map(lambda job: in_processes(job[0], work, steps, job[1]), jobs))
    (alone,) = results[0]
    rows = []
    for (size, _), found in zip(jobs[1:], results[1:], strict=True):
        for name in found[0]:
            far = [[largest(process[name][part], alone[name][part]) for part in PARTS] for process in found]
            weights, parameters = torch.tensor(far).amax(0).tolist()  # a nan comes through this
            row = {"variant": name, "processes": size, "sensitive": name in SENSITIVE}
            rows.append({**row, "weights": weights, "parameters": parameters})
    return rows


def main() -> int:
    begun = time.monotonic()
    rows = compare(STEPS)
    judged = [row for row in rows if not row["sensitive"]]
    off = [row for row in judged if not max(row["weights"], row["parameters"]) <= BOUND]
    content = {
        "check": "processes",
        "about": "2 and 4 processes against 1, same global batch: largest difference of weights and parameters",
        "settings": {
            **{"steps": STEPS, "bound": BOUND, "dtype": "float64", "backend": "gloo", "batch norm": "absent"},
            **{"num_train": NUM_TRAIN, "batch": f"{BATCH - 4} to {BATCH}", "num_val": NUM_VAL, "dropout": "absent"},
            "seeds": "data 0, network 1, step k draws its batch with seed k, process r makes its method with seed r",
            "sensitive": f"not judged: one process, its first parameters times 1 + {NUDGE}, is as far off by itself",
        },
        "counts": {"comparisons": len(judged), f"beyond {BOUND}": len(off)},
        "figures": {what: max(row[what] for row in judged) for what in ("weights", "parameters")},
        "rows": rows,
        "wrong": [f"{row['variant']}, {row['processes']} processes" for row in off],
        "seconds": round(time.monotonic() - begun, 1),
        "load": round(os.getloadavg()[0], 1),
        **provenance(torch.device("cpu")),
    }
    folder = Path(__file__).parents[1] / "results" / "torture"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "processes.json", (json.dumps(content, indent=1) + "\n").encode())
    print(
        f"processes: {len(judged)} comparisons, {len(off)} beyond {BOUND}; largest differences {content['figures']}"
    )
    return bool(off)


if __name__ == "__main__":
    sys.exit(main())
