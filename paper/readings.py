"""Other readings of the paper's random weights and of its pair noise, on Fashion-MNIST.

    python -m paper.readings [--processes 6] [--epochs 400]

The paper does not say how often random weights are drawn, nor what they are divided by. The settings are those of the
recipe fmnist-noise, with a schedule as much shorter as the training. Runs that are much shorter do not tell readings
apart, because the network has not memorised the wrong labels yet. What is recorded is not run again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.baselines import Fixed, Random
from adiw.experiments import recipes
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.methods import METHODS, Context, Method
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.reports.grid import NONE, Box, Grid, Head, to_markdown
from adiw.reweighting.step import Step
from adiw.shifts import SHIFTS, Pair, Shifted
from adiw.shifts.trusted import draw_trusted, trusted_count

RECORDS = Path(__file__).parent / "results" / "readings" / "results.jsonl"
RECIPE = "fmnist-noise"


class NotDivided(Random):
    """w = max(0, g), whose mean is 0.4."""

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        generator = self.randomness.on(losses.device)
        drawn = torch.randn(len(step.index), generator=generator, dtype=losses.dtype, device=losses.device)
        return self.weight_state.store(step, drawn.clamp_min(0), step.finite)


class DividedBySum(Random):
    """w = max(0, g) / sum(max(0, g)): the mean of w * loss is smaller by the size of a batch."""

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        return super()._batch_weights(step, losses, outputs, batch) / len(step.index)


def _drawn_once(divided: bool) -> Callable[[Context], nn.Module]:
    def build(context: Context) -> nn.Module:
        drawn = torch.randn(len(context.splits.train), generator=context.generator).clamp_min(0)
        return Fixed(*context.basics, weights=drawn / drawn.mean() if divided else drawn)

    return build


class ExactCount(Pair):
    """Exactly the share ``rate`` of the labels that are not trusted flips."""

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: Generator
    ) -> Shifted:
        index = draw_trusted(y, trusted_count(trusted, len(y)), generator)
        free = torch.ones(len(y), dtype=torch.bool)
        free[index] = False
        order = torch.randperm(int(free.sum()), generator=generator)
        flipped = free.nonzero().squeeze(1)[order[: round(self.rate * len(order))]]
        given = y.clone()
        given[flipped] = (y[flipped] + 1) % num_classes
        return Shifted(torch.arange(len(y)), given, y.clone(), index, None)


class PreviousClass(Pair):
    """A label flips to the class before its own."""

    def _distance(self, y: Tensor, num_classes: int, generator: Generator) -> Tensor | int:
        return -1


class EitherNeighbour(Pair):
    """A label flips to the class before or after its own, with equal probability."""

    def _distance(self, y: Tensor, num_classes: int, generator: Generator) -> Tensor | int:
        return 2 * torch.randint(2, y.shape, generator=generator) - 1


RANDOM = "random, drawn for each batch, divided by its mean"
WEIGHTS: dict[str, Callable[[Context], nn.Module]] = {
    "uniform": METHODS["uniform"].build,
    RANDOM: METHODS["random"].build,
    "random, drawn for each batch, not divided": lambda c: NotDivided(*c.basics, generator=c.generator),
    "random, drawn for each batch, divided by its sum": lambda c: DividedBySum(*c.basics, generator=c.generator),
    "random, drawn once, divided by the mean of all": _drawn_once(divided=True),
    "random, drawn once, not divided": _drawn_once(divided=False),
}
PAIR, SYMMETRIC = "0.3 pair", "0.4 symmetric"
NOISE: dict[str, tuple[str, Callable[..., Any]]] = {  # the shift, and the class that reads its name
    PAIR: ("pair:0.3", Pair),
    f"{PAIR}, an exact count": ("pair:0.3", ExactCount),
    f"{PAIR}, to the previous class": ("pair:0.3", PreviousClass),
    f"{PAIR}, to either neighbour": ("pair:0.3", EitherNeighbour),
    SYMMETRIC: ("symmetric:0.4", SHIFTS["symmetric"]),
}
RUNS = [
    (weights, noise)
    for weights in WEIGHTS
    for noise in NOISE
    if weights in ("uniform", RANDOM) or noise in (PAIR, SYMMETRIC)
]


def train(weights: str, noise: str, epochs: int) -> dict[str, Any]:
    """The record of one run."""
    shift, kind = NOISE[noise]
    SHIFTS[shift.partition(":")[0]] = kind
    METHODS["random"] = Method(WEIGHTS[weights], weights)  # in a process of its own
    common = recipes.load(RECIPE).common
    every = common["decay_every"] * epochs // common["epochs"]
    settings = resolve({**common, "method": "random", "shift": shift, "epochs": epochs, "decay_every": every})
    with tempfile.TemporaryDirectory() as folder:
        with suppress(DeadRunError):  # its result.json says so
            run(settings, Path(folder) / "run")
        result = json.loads((Path(folder) / "run" / "result.json").read_text())
    figures = {
        key: result[key]
        for key in ("status", "accuracy", "accuracy_std", "settings", "versions", "hardware", "commit")
    }
    return {"weights": weights, "noise": noise, "epochs": epochs, **figures}


def read(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(weights, noise) -> record."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {(record["weights"], record["noise"]): record for record in map(json.loads, lines)}


def readings_table(folder: Path) -> str:
    """Accuracies by reading, in Markdown, with the paper's in the last two lines."""
    found = read(folder / RECORDS.name)
    rows = [
        [Box(weights), *(Box(_cell(found.get((weights, noise)))) for noise in NOISE)]
        for weights in WEIGHTS
        if any((weights, noise) in found for noise in NOISE)
    ]
    recipe = recipes.load(RECIPE)
    labels = [column.label for column in recipe.columns]
    for row in ("Uniform", "Random"):
        figures = dict(zip(labels, recipe.paper["accuracy"][row], strict=True))
        texts = [f"{figures[noise.partition(',')[0]][0]:.1f}" for noise in NOISE]
        rows.append([Box(f"the paper's {row}, {recipe.common['epochs']} epochs"), *map(Box, texts)])
    heads = [Head("weights"), *map(Head, NOISE)]
    epochs = sorted({record["epochs"] for record in found.values()})
    devices = sorted({record["hardware"]["device"] for record in found.values()})
    notes = [
        f"1 trial of {count} epochs, evaluated on the test set. Hardware: {', '.join(devices)}." for count in epochs
    ]
    return to_markdown(
        Grid("Fashion-MNIST: other readings of Random and of pair noise: accuracy (%)", heads, rows, notes)
    )


def _cell(record: dict[str, Any] | None) -> str:
    if record is None:
        return NONE
    return f"{record['accuracy']:.1f}" + ("" if record["status"] == "done" else f" ({record['status']})")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RECORDS)
    given = parser.parse_args()
    missing = [names for names in RUNS if names not in read(given.out)]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(given.processes, get_context("spawn"), max_tasks_per_child=1) as pool:
        for ended in as_completed([pool.submit(train, *names, given.epochs) for names in missing]):
            record = ended.result()
            with given.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(
                f"{record['weights']}; {record['noise']}: {record['accuracy']:.2f} ({record['status']})", flush=True
            )


if __name__ == "__main__":
    main()
