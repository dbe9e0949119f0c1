"""Two and four processes with a part of each batch must give the weights of one process with the whole batch.

The processes have copies of the model, and for some variants also parts of it (FSDP2, ``fully_shard``).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
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
from adiw.experiments.provenance import provenance
from tests.gloo_processes import BATCH, EVEN, NUM_TRAIN, NUM_VAL, VARIANTS, in_processes, train
from torture.commit import commit

STEPS, SIZES, BOUND = 200, (2, 4), 1e-5
STRETCH = 25  # steps after which all processes restart from the same state, for variants that amplify rounding
NUDGE = 1e-15
NETWORK = Wasserstein(critic="network", pretrain=2, learning_rate=1e-3)
MORE: dict[str, Callable[[], dict[str, Any]]] = {
    "kl auto": lambda: {"divergence": KL(width="auto")},
    "kl optimum": lambda: {"divergence": KL(update="optimum", step_size=0.1)},
    "kl euclidean": lambda: {"divergence": KL(update="euclidean", step_size=0.1)},
    "mmd, limits": lambda: {"divergence": MMD(width=0.3), "mean_one": True, "cap": 1.5, "min_ess": 0.8},
    "mmd, several steps": lambda: {"divergence": MMD(width=0.3), "steps": 3},
    "features mmd": lambda: {"transform": Features("1", num_classes=4), "divergence": MMD(width=0.3)},
    "features squared": lambda: {"transform": Features("1", num_classes=4), "divergence": Squared(width=0.3)},
    "features network": lambda: {"transform": Features("1", num_classes=4), "divergence": NETWORK},
}
# These variants amplify rounding: with a kernel of 0.007 times the typical distance, a loss that differs in its last
# digit changes the next weights a hundred times as much. The record has the growth of such a change in one process.
SENSITIVE: dict[str, Callable[[], dict[str, Any]]] = {
    "mmd auto": lambda: {"divergence": MMD(width="auto")},
    "mmd local auto": lambda: {"divergence": MMD(width="auto", step="local")},
}
SPLIT = ("default", "kl", "mmd", "squared", "wasserstein")  # also trained with parts of the model
BY_PARTS = ", FSDP2"
STEADY = {**VARIANTS, **MORE}
DRAWN = (*EVEN, "features network")
PARTS = slice(0, 1), slice(1, None)  # of ``outcome``: weights, parameters
Outcomes = dict[str, list[list[Tensor]]]


def outcome(trained: dict[str, Any]) -> list[Tensor]:
    return [trained["weights"], *trained["parameters"]]


def in_stretches(rank: int, size: int, make: Callable[[], dict[str, Any]], steps: int, states: list[Any]) -> Any:
    """(outcomes, states) of each stretch. A stretch starts from the given state, or where the last one ended."""
    found, reached = [], [None]
    for k, first in enumerate(range(0, steps, STRETCH)):
        start = states[k] if states else reached[-1]
        trained = train(rank, size, make(), range(first, min(first + STRETCH, steps)), start)
        found.append(outcome(trained))
        reached.append(trained["state"])
    return found, reached[:-1]


def work(rank: int, size: int, steps: int, saved: str = "") -> tuple[Outcomes, dict[str, list[Any]]]:
    """Weights and parameters of every variant after these steps, or after each stretch, and the states.

    ``saved`` is a file with the states from which the stretches start.
    """
    states = torch.load(saved, weights_only=False) if saved else {}
    found, reached = {}, {}
    for name, make in STEADY.items():
        found[name] = [outcome(train(rank, size, make(), range(steps), even=name in DRAWN))]
    for name in SPLIT if size > 1 else ():
        found[name + BY_PARTS] = [outcome(train(rank, size, STEADY[name](), range(steps), sharded=True))]
    for name, make in SENSITIVE.items():
        found[name], reached[name] = in_stretches(rank, size, make, steps, states.get(name, []))
    return found, reached


def growth(steps: int) -> dict[str, list[float]]:
    """For each stretch, the difference of the weights of one process after a tiny change of its first parameters."""
    ends = range(STRETCH, steps + 1, STRETCH)
    return {
        name: [
            largest(*([train(0, 1, make(), range(end), nudge=nudge)["weights"]] for nudge in (0.0, NUDGE)))
            for end in ends
        ]
        for name, make in SENSITIVE.items()
    }


def largest(first: list[Tensor], second: list[Tensor]) -> float:
    """The largest difference between two lists of tensors; nan if any entry is nan."""
    return float(torch.stack([(a - b).abs().max() for a, b in zip(first, second, strict=True)]).max())


def compare(steps: int) -> list[dict[str, Any]]:
    """A row for every variant and number of processes: the largest difference from the result of one process."""
    ((alone, states),) = in_processes(1, work, steps)
    with tempfile.NamedTemporaryFile() as saved, ThreadPoolExecutor(len(SIZES)) as pool:
        torch.save(states, saved.name)
        # Both numbers of processes run concurrently: processes that wait for each other leave the CPU idle.
        results = list(pool.map(lambda size: in_processes(size, work, steps, saved.name), SIZES))
    rows = []
    for size, processes in zip(SIZES, results, strict=True):
        for name in processes[0][0]:
            expected = alone[name.removesuffix(BY_PARTS)]
            far = [
                [largest(found[part], kept[part]) for part in PARTS]
                for process, _ in processes
                for found, kept in zip(process[name], expected, strict=True)
            ]
            weights, parameters = torch.tensor(far).amax(0).tolist()  # amax propagates nan
            row = {"variant": name, "processes": size, "restarted every": STRETCH if name in SENSITIVE else None}
            rows.append({**row, "weights": weights, "parameters": parameters})
    return rows


def main() -> int:
    begun = time.monotonic()
    rows = compare(STEPS)
    off = [row for row in rows if not max(row["weights"], row["parameters"]) <= BOUND]
    content = {
        "check": "processes",
        "about": "2 and 4 processes against 1, same global batch, copies or parts (FSDP2) of the model: largest "
        "difference of weights and parameters",
        "settings": {
            **{"steps": STEPS, "bound": BOUND, "dtype": "float64", "backend": "gloo", "batch norm": "absent"},
            **{"num_train": NUM_TRAIN, "batch": f"{BATCH - 4} to {BATCH}", "num_val": NUM_VAL, "dropout": "absent"},
            "seeds": "data 0, network 1, step k draws its batch with seed k, process r makes its method with seed r",
            "restarted": f"variants that amplify rounding: every {STRETCH} steps, from the state of one process",
        },
        "counts": {"comparisons": len(rows), f"beyond {BOUND}": len(off)},
        "figures": {what: max(row[what] for row in rows) for what in ("weights", "parameters")},
        "growth": {
            "about": f"one process alone: weights after each {STRETCH} steps, its first parameters times 1 + {NUDGE}",
            **growth(STEPS),
        },
        "rows": rows,
        "wrong": [f"{row['variant']}, {row['processes']} processes" for row in off],
        "seconds": round(time.monotonic() - begun, 1),
        "load": round(os.getloadavg()[0], 1),
        **provenance(torch.device("cpu")),
        "commit": commit(),
    }
    folder = Path(__file__).parents[1] / "results" / "torture"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "processes.json", (json.dumps(content, indent=1) + "\n").encode())
    print(f"processes: {len(rows)} comparisons, {len(off)} beyond {BOUND}; largest differences {content['figures']}")
    return bool(off)


if __name__ == "__main__":
    sys.exit(main())
