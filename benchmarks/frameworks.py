"""The time of a training step in the loops of Lightning and of Hugging Face's Trainer, beside the plain loop.

    python benchmarks/frameworks.py [--networks lenet5] [--loops plain Lightning] [--budget 60] [--out DIR]

Each loop has its framework's defaults, without logging and checkpoints, and the same batches, which are on the
device. A framework's loop runs in a thread of its own and waits for its next batch until it is its turn, so that all
cases take turns within one process. A ratio is relative to uniform weights in the same loop.
"""

from __future__ import annotations

import argparse
import logging
import math
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from lightning.pytorch import LightningModule
from lightning.pytorch import Trainer as LightningTrainer
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset
from transformers import Trainer, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

import adiw
from adiw.integrations.huggingface import ClassLosses, ReweightingMixin
from adiw.integrations.lightning import Reweighting, weighted_loss
from adiw.reweighting.cuda_graphs import WARM_UP
from cases import collect
from plain_loop import BASE, METHODS, TRUSTED, WORKLOADS, PlainLoop, Workload, figures, graphs_of
from record import RESULTS, Record, describe, first_line
from timing import Plan, Timer, interleave

CHOSEN = ("kl", "default")
LEARNING_RATE, MOMENTUM = 0.01, 0.9  # those of the plain loop
ENDLESS = 10**9  # steps


class Ended(Exception):  # noqa: N818 - it ends the loop of a framework
    """There are no more batches: everything is measured."""


class Columns(Dataset[dict[str, Tensor]]):
    """Samples as the Trainer takes them."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": self.x[index], "labels": self.y[index]}


class Turns:
    """Batches without end for a loop in another thread, and a timer of its steps.

    The loop waits within its request for a batch until it is its turn. ``dataset`` and the samplers are what the
    integrations look at.
    """

    sampler = batch_sampler = None

    def __init__(self, batches: Iterator[Any], dataset: Any, run: Callable[[Turns], None]) -> None:
        self.batches, self.dataset, self.run = batches, dataset, run
        self.left = 0  # steps of this turn
        self.begin, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.ended, self.error = False, ""
        self.reweight: adiw.ADIW | None = None  # of the loop, once it has begun
        self.thread: threading.Thread | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while self.left == 0:
            self._pass_on()
        self.left -= 1
        return next(self.batches)

    def __call__(self, steps: int) -> float:
        """Seconds of a step; the trusted samples are evaluated in every fourth one."""
        steps = 4 * math.ceil(steps / 4)
        self._take(4)  # not timed: caches and clock rates recover from the other cases
        start = time.perf_counter()
        self._take(steps)
        return (time.perf_counter() - start) / steps

    def warm_up(self) -> None:
        self(4 * (WARM_UP + 2))

    def end(self) -> None:
        """Let the loop end by an exception."""
        self.ended = True
        self.begin.release()
        if self.thread is not None:
            self.thread.join()

    def _take(self, steps: int) -> None:
        """Let the loop run ``steps`` steps, and wait for it and for the device."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._train, daemon=True)
            self.thread.start()
            self._wait()
        self.left = steps
        self.begin.release()
        self._wait()

    def _wait(self) -> None:
        """Wait until the loop asks for a batch beyond its steps; raise its error if it failed."""
        self.done.acquire()
        if self.error:
            raise RuntimeError(self.error)

    def _pass_on(self) -> None:
        """In the loop's thread: say that all steps are done, and wait for the next turn."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        self.done.release()
        self.begin.acquire()
        if self.ended:
            raise Ended

    def _train(self) -> None:
        try:
            self.run(self)
            self.error = "the loop ended by itself"
        except Ended:
            pass
        except Exception as error:
            self.error = first_line(error)
        self.done.release()


class Module(LightningModule):
    """A user's module for Lightning."""

    def __init__(self, network: nn.Module, weighted: bool) -> None:
        super().__init__()
        self.network, self.weighted = network, weighted

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.network(x)
        return outputs

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y, index = batch
        outputs = self(x)
        return weighted_loss(self, outputs, y, index) if self.weighted else nn.functional.cross_entropy(outputs, y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return optimizer_of(self)


class Network(nn.Module):
    """A network as the Trainer takes it: it returns logits, and a loss if it gets labels."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, labels: Tensor | None = None) -> SequenceClassifierOutput:
        logits = self.network(x)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)


class OwnBatches(Trainer):
    """A Trainer whose training batches are on the device already."""

    turns: Turns

    def get_train_dataloader(self) -> Any:
        return self.turns


class Weighted(ReweightingMixin, OwnBatches):  # type: ignore[misc]
    """The Trainer with weights."""

    divergence: str | None = None

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> Any:
        named = {"divergence": self.divergence, "forward": self.outputs_and_targets}
        made = self.turns.reweight = adiw.ADIW(model, ClassLosses(), val_set, num_train, **named)  # type: ignore[arg-type]
        return made


def lightning_loop(workload: Workload, data: tuple[Tensor, Tensor], method: str) -> Turns:
    """Lightning's ``fit``."""
    x, y = data
    train_set = adiw.Indexed(TensorDataset(x.cpu(), y.cpu()), torch.arange(TRUSTED))
    criterion = nn.CrossEntropyLoss(reduction="none")

    def run(turns: Turns) -> None:
        def make(module: Any, count: int) -> Any:
            turns.reweight = adiw.ADIW(module, criterion, train_set.trusted, count, METHODS[method][0])
            return turns.reweight

        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = LightningTrainer(
            accelerator="gpu" if x.is_cuda else "cpu",
            devices=1,
            max_steps=ENDLESS,
            precision="bf16-mixed" if workload.bf16 else "32-true",
            callbacks=[] if method == BASE else [Reweighting(make)],
            enable_checkpointing=False,
            **quiet,  # type: ignore[arg-type]
        )
        trainer.fit(Module(network_of(workload), method != BASE), turns)

    return Turns(batches_of(workload, data), train_set, run)


def trainer_loop(folder: Path, workload: Workload, data: tuple[Tensor, Tensor], method: str) -> Turns:
    """The Trainer's ``train``."""
    x, y = data
    train_set = adiw.Indexed(Columns(x.cpu(), y.cpu()), torch.arange(TRUSTED))

    def run(turns: Turns) -> None:
        arguments = TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=workload.batch,
            max_steps=ENDLESS,
            bf16=workload.bf16,
            lr_scheduler_type="constant",
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=not x.is_cuda,
        )
        model = Network(network_of(workload)).to(x.device)
        kind: Any = OwnBatches if method == BASE else Weighted
        made = kind(model=model, args=arguments, train_dataset=train_set, optimizers=(optimizer_of(model), None))
        made.turns = turns
        if method != BASE:
            made.divergence = METHODS[method][0]
        made.train()

    def columns() -> Iterator[dict[str, Tensor]]:
        for x, y, index in batches_of(workload, data):
            yield {"x": x, "labels": y} if method == BASE else {"x": x, "labels": y, "index": index}

    return Turns(columns(), train_set, run)


def network_of(workload: Workload) -> nn.Module:
    torch.manual_seed(0)
    return workload.model(workload.classes)


def batches_of(workload: Workload, data: tuple[Tensor, Tensor]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Those of the plain loop."""
    return PlainLoop(workload, data, BASE).batches


def measure(
    network: str, workload: Workload, loops: dict[str, Any], plan: Plan, device: torch.device, deadline: float
) -> list[dict[str, Any]]:
    """One row for each loop and method, timed alternately."""
    data = workload.data(device)
    cases = {
        (loop, method): make(workload, data, method) for loop, make in loops.items() for method in (BASE, *CHOSEN)
    }
    for case in cases.values():
        case.warm_up()
    timers: dict[str, Timer] = {" ".join(name): case for name, case in cases.items()}
    timed = interleave(timers, plan, deadline)
    rows: list[dict[str, Any]] = []
    for (loop, method), case in cases.items():
        found = figures(timed[f"{loop} {method}"], timed[f"{loop} {BASE}"])
        rows.append({"network": network, "loop": loop, "method": method, **found, "graphs": graphs_of(case.reweight)})
    for row in rows:
        plain = next((r for r in rows if r["loop"] == "plain" and r["method"] == row["method"]), {})
        if "ratio" in row and "ratio" in plain:
            row["over_plain"] = row["ratio"] - plain["ratio"]
    for case in cases.values():
        if isinstance(case, Turns):
            case.end()
    collect()
    return rows


def line(row: dict[str, Any]) -> str:
    name = f"{row['network']:15s} {row['loop']:10s} {row['method']:8s}"
    if "error" in row:
        return f"{name} {row['error']}"
    low, high = row["interval"]
    graphs = " ".join(f"{part} {count}" for part, count in row["graphs"].items())
    return f"{name} {row['ms']:8.3f} ms  x{row['ratio']:.3f} ({low:.3f} to {high:.3f})  {graphs}"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="*", choices=WORKLOADS, default=["lenet5", "resnet18-cifar"])
    parser.add_argument("--loops", nargs="*", choices=("plain", "Lightning", "Trainer"), default=None)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--times", type=int, default=440, help="steps of a case in all rounds together")
    parser.add_argument("--limit", type=float, default=2.5, help="seconds of a case in all rounds together")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no round is started")
    parser.add_argument("--samples", type=int, help="number of training samples, for a smaller run")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    begin, device = time.monotonic(), torch.device(options.device)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")  # of the frameworks; that graphs are not captured is tested elsewhere
    plan = Plan(options.rounds, options.times, options.limit, least=4)
    packages = ("lightning", "transformers", "accelerate")
    record = Record(options.out / f"frameworks-{device.type}.json", **describe(*packages, device=device.type))
    changes = {key: value for key in ("samples", "batch") if (value := getattr(options, key)) is not None}
    with tempfile.TemporaryDirectory() as folder:
        loops = {"plain": PlainLoop, "Lightning": lightning_loop, "Trainer": partial(trainer_loop, Path(folder))}
        chosen = {name: loops[name] for name in options.loops or loops}
        for number, name in enumerate(options.networks, 1):
            deadline = begin + options.budget * number / len(options.networks)
            rows = measure(name, replace(WORKLOADS[name], **changes), chosen, plan, device, deadline)
            record.add(*rows)
            for row in rows:
                print(line(row), flush=True)


if __name__ == "__main__":
    main()
