"""The time of a training step in a user's own loop relative to a uniform one, measured side by side.

    python benchmarks/plain_loop.py [--networks lenet5 mlp] [--budget 60] [--out benchmarks/results]

The loop is that of the README; the data is generated on the device. Nothing is compiled. On a GPU ``adiw.ADIW``
replays its own CUDA graphs; rows with "eager" in the method do not. Cases take turns in each round, and the interval
of a ratio is that of its median over the rounds.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw.models import build
from adiw.reweighting import cuda_graphs
from adiw.reweighting.cuda_graphs import WARM_UP
from cases import collect
from record import RESULTS, Record, describe
from timing import Plan, Timed, Timer, interleave

TRUSTED = 1000
# Columns of the table: the divergence, and whether graphs are replayed.
METHODS: dict[str, tuple[str | None, bool]] = {
    "default": (None, True),
    **{name: (name, True) for name in ("kl", "mmd", "squared", "wasserstein")},
    "default, eager": (None, False),
    "kl, eager": ("kl", False),
}
BASE = "uniform"


@dataclass(frozen=True)
class Workload:
    """A network and the shape of its samples; ``vocabulary`` is for samples of tokens."""

    title: str
    model: Callable[[int], nn.Module]  # number of classes -> network
    shape: tuple[int, ...]
    vocabulary: int = 0
    bf16: bool = False
    batch: int = 256
    samples: int = 10_000
    classes: int = 10

    def data(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Random samples and labels; a label is visible in its sample."""
        random = Generator().manual_seed(0)
        y = torch.randint(self.classes, (self.samples,), generator=random)
        if self.vocabulary:
            x = torch.randint(self.vocabulary, (self.samples, *self.shape), generator=random)
            x[:, 0] = y
        else:
            x = torch.randn(self.samples, *self.shape, generator=random) + y.view(-1, *[1] * len(self.shape)) / 10
        return x.to(device), y.to(device)


class Transformer(nn.Module):
    """A small encoder: (B, 64) tokens to (B, classes)."""

    def __init__(self, vocabulary: int, classes: int, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(64, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.encoder(self.tokens(x) + self.places).mean(1))
        return logits


WORKLOADS = {
    "lenet5": Workload("LeNet-5", lambda classes: build("lenet5", (1, 28, 28), classes), (1, 28, 28)),
    "resnet18-cifar": Workload(
        "ResNet-18, bf16", lambda classes: build("resnet18-cifar", (3, 32, 32), classes), (3, 32, 32), bf16=True
    ),
    "transformer": Workload("transformer", lambda classes: Transformer(1000, classes), (64,), vocabulary=1000),
    "mlp": Workload("MLP", lambda classes: build("mlp", (64,), classes), (64,)),
}


class PlainLoop:
    """The loop of the README, with or without weights. A call runs some steps and returns the seconds of one."""

    def __init__(self, workload: Workload, data: tuple[Tensor, Tensor], method: str) -> None:
        torch.manual_seed(0)
        (self.x, self.y), self.workload = data, workload
        self.device = self.x.device
        self.model = workload.model(workload.classes).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss(reduction="none")
        self.reweight, self.graphs = None, True
        if method != BASE:
            divergence, self.graphs = METHODS[method]
            train_set = adiw.Indexed(TensorDataset(self.x.cpu(), self.y.cpu()), torch.arange(TRUSTED))
            self.reweight = adiw.ADIW(self.model, self.criterion, train_set.trusted, len(train_set), divergence)
        self.batches = self._endless()

    def _endless(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Shuffled batches on the device, without end."""
        size = self.workload.batch
        while True:
            order = torch.randperm(len(self.y), device=self.device)
            for index in order[: len(order) // size * size].split(size):
                yield self.x[index], self.y[index], index

    def step(self) -> None:
        x, y, index = next(self.batches)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.workload.bf16):
            outputs = self.model(x)
            loss = self.criterion(outputs, y).mean() if self.reweight is None else self.reweight(outputs, y, index)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def __call__(self, steps: int) -> float:
        """Seconds of a step; the trusted samples are evaluated in every fourth one."""
        steps = 4 * math.ceil(steps / 4)
        with mock.patch.object(cuda_graphs, "ENABLED", self.graphs):
            for _ in range(4):
                self.step()  # not timed: caches and clock rates recover from the other cases
            self._wait()
            start = time.perf_counter()
            for _ in range(steps):
                self.step()
            self._wait()
            return (time.perf_counter() - start) / steps

    def warm_up(self) -> None:
        self(4 * (WARM_UP + 2))

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def graphs_of(reweight: adiw.ADIW | None) -> dict[str, int]:
    """The number of CUDA graphs of each part; none with uniform weights."""
    if reweight is None:
        return {}
    parts = {
        "estimation": reweight._estimations,
        "ranks": reweight._refits,
        "pass": reweight._evaluations.calls,
    }
    return {name: len(part.graphs) for name, part in parts.items()}


def median_interval(values: list[float]) -> tuple[float, float]:
    """A 95% interval of the median from order statistics; the whole range for fewer than six values.

    >>> median_interval([float(i) for i in range(1, 12)])
    (2.0, 10.0)
    """
    ordered, n = sorted(values), len(values)
    tail = lambda k: sum(math.comb(n, i) for i in range(k + 1)) / 2**n  # noqa: E731 - P(at most k lie below)
    k = 0
    while k + 1 < n / 2 and 2 * tail(k + 1) <= 0.05:
        k += 1
    return ordered[k], ordered[-1 - k]


def measure(
    name: str, workload: Workload, plan: Plan, device: torch.device, deadline: float = math.inf
) -> list[dict[str, Any]]:
    """One row for each method, timed alternately; the first round alone starts after the deadline."""
    data, cases, notes = workload.data(device), {}, {}
    for method in (BASE, *METHODS):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cases[method] = PlainLoop(workload, data, method)
            cases[method].warm_up()
        notes[method] = [str(warning.message) for warning in caught]
    timers: dict[str, Timer] = dict(cases)
    timed = interleave(timers, plan, deadline)
    rows = [
        {"network": name, "method": method, **figures(timed[method], timed[BASE])}
        | {"graphs": graphs_of(case.reweight), "notes": notes[method]}
        for method, case in cases.items()
    ]
    collect()
    return rows


def figures(mine: Timed, base: Timed) -> dict[str, Any]:
    """The time of a case, and its ratio to the uniform one with an interval; or the error of either."""
    if mine.median is None or base.median is None:
        return {"error": mine.error or base.error}
    ratios = [a / b for a, b in zip(mine.seconds, base.seconds, strict=True)]
    low, high = median_interval(ratios)
    return {
        "ms": 1000 * mine.median,
        "uniform_ms": 1000 * base.median,
        "ratio": mine.over(base),
        "interval": [low, high],
        "ratios": ratios,
        "steps_each_round": mine.per_round,
    }


def line(row: dict[str, Any]) -> str:
    name = f"{row['network']:15s} {row['method']:16s}"
    if "error" in row:
        return f"{name} {row['error']}"
    low, high = row["interval"]
    graphs = " ".join(f"{part} {count}" for part, count in row["graphs"].items())
    figures = f"{row['ms']:8.3f} ms  x{row['ratio']:.3f} ({low:.3f} to {high:.3f})"
    return f"{name} {figures}  {graphs} {'; '.join(row['notes'])}"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="*", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--times", type=int, default=440, help="steps of a case in all rounds together")
    parser.add_argument("--limit", type=float, default=3.0, help="seconds of a case in all rounds together")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no network is started")
    parser.add_argument("--samples", type=int, help="number of training samples, for a smaller run")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    device, deadline = torch.device(options.device), time.monotonic() + options.budget
    plan = Plan(options.rounds, options.times, options.limit, least=4)
    record = Record(options.out / f"plain-loop-{device.type}.json", **describe(device=device.type))
    changes = {key: value for key in ("samples", "batch") if (value := getattr(options, key)) is not None}
    for name in options.networks:
        if time.monotonic() > deadline:
            print(f"{name:15s} there was no time left", flush=True)
            continue
        rows = measure(name, replace(WORKLOADS[name], **changes), plan, device, deadline)
        record.add(*rows)
        for row in rows:
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
