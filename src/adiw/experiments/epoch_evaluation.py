"""Evaluation after each epoch: on the test set and, if there are any, on the held-out trusted samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from adiw.data import ImageFiles, Samples
from adiw.distributed.process_group import current_processes
from adiw.engine.loop import autocast
from adiw.engine.timer import DeviceTimer
from adiw.experiments.checked_io import Row
from adiw.experiments.splits import Splits, without_augmentation
from adiw.reweighting.cuda_graphs import GraphedCalls
from adiw.reweighting.dataset_cache import prepare_worker, start
from adiw.reweighting.diagnostics.evaluation_pass import EvaluatedSamples, evaluate_samples

BATCH = 2048  # samples in memory that are evaluated at a time


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], bf16: bool = False) -> Tensor:
    """For each sample whether it is top-1 and top-5 correct, and its cross-entropy: (n, 3) float64 on the device.

    With five classes or fewer, every sample is top-5 correct.
    """
    model.eval()
    rows = [torch.zeros(0, 3, dtype=torch.float64, device=next(model.parameters()).device)]
    for x, y in batches:
        with autocast(x.device, bf16):
            outputs = model(x).float()
        correct = outputs.topk(min(5, outputs.shape[1]), dim=1).indices == y[:, None]
        losses = cross_entropy(outputs, y, reduction="none")
        rows.append(torch.stack([correct[:, 0].double(), correct.sum(1).double(), losses.double()], dim=1))
    model.train()
    return torch.cat(rows)


AnySamples = Samples | ImageFiles


class Evaluation:
    """Evaluates a network. ``queue`` queues an evaluation on the device, ``row`` turns its figures into metrics.

    Args:
        model, splits, device: the network, the data and where it computes. Each process evaluates a part of the data.
        workers: the number of processes that decode images.
        bf16: run the forward pass in bfloat16.
        capture: replay the evaluation of samples in memory as a CUDA graph.
    """

    def __init__(
        self, model: nn.Module, splits: Splits, device: torch.device, workers: int, bf16: bool, capture: bool
    ) -> None:
        self.model, self.device, self.workers, self.bf16 = model, device, workers, bf16
        self.processes = current_processes()
        sets = [splits.test] if splits.held_out is None else [splits.test, splits.held_out]
        self.sizes = [len(samples) for samples in sets]
        self.sets = [self._to_device(self._local_part(samples)) for samples in sets]
        self.figures = torch.zeros(len(sets), 3, dtype=torch.float64, device=device)
        self.right = torch.zeros(sum(self.sizes[1:]), dtype=torch.float64, device=device)
        self.captured = capture and all(isinstance(samples, Samples) for samples in sets)
        self._work: Callable[[], object] = self._evaluate
        if self.captured:
            graphs = GraphedCalls("evaluations", tell=lambda line: None)
            self._work = partial(graphs, self._evaluate, (), device)
        self.timer = DeviceTimer(device)
        self.on_batch: Callable[[int, int], None] = lambda done, total: None  # before each batch; may raise

    def queue(self) -> None:
        """Queue an evaluation.

        ``figures`` (number of sets, 3) are then the sums of ``evaluate``, and ``right`` (number held out,) is one
        for each held-out sample that is predicted correctly.
        """
        self.timer.start()
        self._work()
        self.timer.stop()

    def row(self, figures: list[float]) -> Row:
        """The metrics of an epoch from ``figures``, flattened."""
        size, first, five = self.sizes[0], *figures[:2]
        row = {"accuracy": 100 * first / size, "top5": 100 * five / size}
        if len(self.sizes) > 1:
            size, first, loss = self.sizes[1], figures[3], figures[5]
            row |= {"held_out_accuracy": 100 * first / size, "held_out_loss": loss / size}
        return row

    def evaluate_samples(self, samples: AnySamples) -> EvaluatedSamples:
        """Losses, predictions and features of all samples, in evaluation mode; each process evaluates a part."""
        with torch.compiler.set_stance("force_eager"):
            batches = self.batches(self._local_part(samples))
            criterion = nn.CrossEntropyLoss(reduction="none")
            own = evaluate_samples(self.model, criterion, batches, lambda batch: (self.model(batch[0]), batch[1]))
        rows = -(-len(samples) // self.processes.size)
        found = own.map(lambda tensor: self.processes.gather([tensor], [-1], rows)[0])
        assert found.targets is not None
        is_sample = found.targets >= 0
        return found.map(lambda tensor: tensor[is_sample])

    def batches(self, samples: AnySamples) -> Iterator[tuple[Tensor, Tensor]]:
        """All of these samples in order, on the device, without augmentation."""
        done = 0
        for x, y in read(samples, self.device, self.workers):
            self.on_batch(done, len(samples))
            yield x, y
            done += len(y)

    def _evaluate(self) -> None:
        with torch.compiler.set_stance("force_eager"):  # another batch size would compile again
            found = [evaluate(self.model, self.batches(samples), self.bf16) for samples in self.sets]
        self.figures.copy_(torch.stack([rows.sum(0) for rows in found]))
        self.processes.sum_([self.figures])
        if len(self.sets) > 1:
            own = self.processes.part(len(self.right))
            self.right.zero_()[own.start : own.stop].copy_(found[1][:, 0])
            self.processes.sum_([self.right])

    def _local_part(self, samples: AnySamples) -> AnySamples:
        own = torch.tensor(self.processes.part(len(samples)), dtype=torch.long)
        return samples if self.processes.size == 1 else samples.subset(own)

    def _to_device(self, samples: AnySamples) -> AnySamples:
        """Samples in memory are moved to the device once, not in every epoch."""
        if isinstance(samples, Samples):
            return Samples(samples.x.to(self.device), samples.y.to(self.device))
        return samples


def read(samples: AnySamples, device: torch.device, workers: int) -> Iterable[tuple[Tensor, Tensor]]:
    """All of these samples in order, on the device, without augmentation."""
    if isinstance(samples, Samples):
        return zip(samples.x.to(device).split(BATCH), samples.y.to(device).split(BATCH), strict=True)
    loader: DataLoader[Any] = DataLoader(
        without_augmentation(samples), batch_size=256, num_workers=workers, worker_init_fn=prepare_worker
    )
    return ((x.to(device), y.to(device)) for x, y in start(loader))
