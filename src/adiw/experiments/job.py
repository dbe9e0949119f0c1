"""A run in progress: the task, the network, the method, and what they have done so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.utils.data import DataLoader

from adiw.baselines import DIW, L2R, MWNet
from adiw.data import ImageFiles, Samples
from adiw.distributed.process_group import current_processes
from adiw.engine.capture import Captured
from adiw.engine.checkpoint import CheckpointError
from adiw.engine.evaluate import count_correct, in_batches, predict
from adiw.engine.loop import Loop, set_learning_rate
from adiw.engine.preprocessing import NormalizedNetwork
from adiw.engine.timer import DeviceTimer
from adiw.engine.torchrun import data_parallel, sync_batch_norm
from adiw.engine.train_loader import DatasetLoader, Part, TensorLoader, TrainLoader, epoch_seed
from adiw.experiments import two_step
from adiw.experiments.methods import Context, find
from adiw.experiments.resume import check_same
from adiw.experiments.sealed import Row
from adiw.experiments.settings import Settings, SettingsError
from adiw.experiments.task import Task, as_they_are, to_train_on
from adiw.matching.limits import effective_sample_size
from adiw.models import build as build_network
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.dataset_cache import CACHE_BYTES, leave_interrupts_to_the_parent, start

SNAPSHOTS = 20  # weights of all samples are kept at this many epochs
TRANSLATIONS = 64  # of the same code, by torch.compile


class Job:
    """A run in progress. ``queue`` gives an epoch's work to the device; ``collect`` waits for it.

    In between, other jobs may queue theirs: on a GPU each has a stream of its own.

    Args:
        settings, task: of the run.
        device, workers: where it trains, and processes that decode images.
        tell: gets a line of text when steps are not captured as a graph; None asks for eager steps.
        compiled: let torch.compile translate the network and the weight estimation (of DIW: an iteration of its
            solver; of L2R and MW-Net: the virtual passes).
    """

    def __init__(
        self,
        settings: Settings,
        task: Task,
        device: torch.device,
        workers: int,
        tell: Callable[[str], None] | None = None,
        compiled: bool = False,
    ) -> None:
        self.settings, self.task, self.device, self.workers = settings, task, device, workers
        self.processes = current_processes()
        self.bf16 = settings.bf16 and device.type == "cuda"  # a CPU gains nothing by it, and some fail
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        with self.place():
            self._build(compiled)
            self._prepare(tell)
        self.epoch = 0
        self.metrics: list[Row] = []
        self.timing: list[Row] = []
        self.history: dict[int, Tensor] = {}

    def _build(self, compiled: bool) -> None:
        """Network, optimizer and method."""
        settings, task, device = self.settings, self.task, self.device
        torch.manual_seed(settings.seed)
        self.model = sync_batch_norm(build_model(settings, task).to(device), device, self.processes)
        if compiled:
            # Runs of a process share translations: where a network is observed, its hooks must be looked at, and a
            # sweep has more settings than the eight that may have a translation each.
            torch._dynamo.config.skip_nnmodule_hook_guards = False
            torch._dynamo.config.cache_size_limit = max(torch._dynamo.config.cache_size_limit, TRANSLATIONS)
            self.model.compile(dynamic=False)
        self.optimizer = build_optimizer(settings, self.model)
        method = find(settings.method)
        context = Context(
            settings,
            task,
            self.model,
            nn.CrossEntropyLoss(reduction="none"),
            self.optimizer,
            Generator().manual_seed(settings.seed),
            lambda: two_step.features(settings, task, build_model, build_optimizer, self.feed, device, self.bf16),
            reading(task, device, self.workers),
        )
        self.reweight: Any = method.build(context).to(device)
        if compiled and isinstance(self.reweight, (ADIW, DIW, L2R, MWNet)):
            self.reweight.compile(dynamic=False)
        self.feed_set = to_train_on(task.trusted) if method.trains_on == "trusted" else task.train

    def _prepare(self, tell: Callable[[str], None] | None) -> None:
        """The loop, and what judges it."""
        settings, size = self.settings, min(self.settings.batch, len(self.feed_set))
        if size < self.processes.size:
            raise SettingsError(
                f"a batch of {size} samples is too small for {self.processes.size} processes: use fewer"
            )
        feed = self.feed(self.feed_set, self.processes.part)
        model = data_parallel(self.model, self.device)
        self.loop = Loop(model, self.reweight, self.optimizer, feed, self.bf16, settings.clip, tell)
        self.judged_on = self._own(self.task.judged_on)
        self.hits = torch.zeros(2, dtype=torch.long, device=self.device)
        self.judge: Callable[[], None] = self._judge
        if isinstance(self.judged_on, Samples):  # cross to the device once, not every epoch
            self.judged_on = Samples(self.judged_on.x.to(self.device), self.judged_on.y.to(self.device))
            if isinstance(self.loop.step, Captured):
                self.judge = Captured(self._judge, lambda line: None)
        self.watch = DeviceTimer(self.device)
        flipped = self.task.shifted.flipped.to(self.device)
        self.flipped = flipped if self.task.truth_known and len(flipped) == len(self.task.train) else None
        self.broken = 0.0  # losses so far that were not finite
        self.stats = torch.zeros(0)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Where this job's work is queued. Shapes stay as they are, so cuDNN may try its algorithms for each once."""
        if self.stream is None:
            yield
            return
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            torch.backends.cudnn.benchmark = before

    def feed(self, samples: Samples | ImageFiles, part: Part = range) -> TrainLoader:
        """Training batches of these samples, or this process's part of each."""
        settings = self.settings
        if isinstance(samples, Samples):
            augment = self.task.data.augment
            return TensorLoader(samples.x, samples.y, settings.batch, settings.seed, self.device, augment, part)
        return DatasetLoader(samples, settings.batch, settings.seed, self.device, self.workers, part)

    def _own(self, samples: Samples | ImageFiles) -> Samples | ImageFiles:
        """Those of the samples that this process evaluates."""
        own = torch.tensor(self.processes.part(len(samples)), dtype=torch.long)
        return samples if self.processes.size == 1 else samples.subset(own, samples.y[own])

    def batches(self, samples: Samples | ImageFiles) -> Iterable[tuple[Tensor, Tensor]]:
        """All of these samples in order, on the device, for evaluation."""
        if isinstance(samples, Samples):
            return in_batches(samples.x.to(self.device), samples.y.to(self.device))
        loader: DataLoader[Any] = DataLoader(
            as_they_are(samples),
            batch_size=256,
            num_workers=self.workers,
            worker_init_fn=leave_interrupts_to_the_parent,
        )
        return ((x.to(self.device), y.to(self.device)) for x, y in start(loader))

    def queue(self) -> None:
        """Give the device an epoch of training and its evaluation to do."""
        with self.place():
            set_learning_rate(self.optimizer, self.settings.learning_rate(self.epoch))
            if self.processes.size > 1:  # dropout: different in each process, and alike when an epoch is run again
                seed = epoch_seed(epoch_seed(self.settings.seed, self.epoch), 1 + self.processes.rank)
                torch.manual_seed(seed % 2**63)
            self.loop.run_epoch(self.epoch)
            self.watch.start()
            self.judge()
            self.stats = self._stats()
            self.watch.stop()

    def collect(self) -> Row:
        """Wait for the epoch that was queued: the row for the metrics."""
        with self.place():
            loss, broken, first, five, *health = self.stats.tolist()
        self.epoch += 1
        share = (broken - self.broken) / len(self.feed_set)
        self.broken = broken
        total = len(self.task.judged_on)
        row = {"epoch": self.epoch, "loss": loss, "nonfinite": share}
        row |= {"accuracy": 100 * int(first) / total, "top5": 100 * int(five) / total}
        row |= dict(zip(HEALTH, health, strict=False))
        self.metrics.append(row)
        seconds = {"train_seconds": self.loop.timer.seconds(), "evaluate_seconds": self.watch.seconds()}
        self.timing.append({"epoch": self.epoch, **seconds})
        if self.epoch in snapshot_epochs(self.settings.epochs):
            self.history[self.epoch] = self.weights().half().cpu()
        return row

    def _judge(self) -> None:
        with torch.compiler.set_stance("force_eager"):  # one more batch size is not worth a translation
            self.hits.copy_(count_correct(self.model, self.batches(self.judged_on), self.bf16))
        self.processes.sum_([self.hits])

    def predict(self) -> Tensor:
        """The class that the network gives each training sample, (n,) on the CPU; processes share the work."""
        count = len(self.task.train)
        with self.place(), torch.compiler.set_stance("force_eager"):
            own = predict(self.model, self.batches(self._own(self.task.train)))
        found: Tensor = self.processes.gather([own], [-1], -(-count // self.processes.size))[0]
        return found[found >= 0]

    def _stats(self) -> Tensor:
        """The epoch in numbers, on the device: they cross over together."""
        weights = self.weights().double()
        zero = (weights < 1e-6).double().mean()
        health = [effective_sample_size(weights), weights.mean(), weights.max(), zero]
        if self.flipped is not None:
            flipped = self.flipped.double()
            health += [weights @ (1 - flipped) / (1 - flipped).sum(), weights @ flipped / flipped.sum()]
        broken, loss = self.reweight.weight_state.nonfinite.sum(), self.loop.loss / self.processes.size
        self.processes.sum_([loss])
        return torch.stack([loss, broken.double(), *self.hits.double(), *health])

    def weights(self) -> Tensor:
        """The weight of every training sample, (n,) on the device; zero for those that val-only does not train on."""
        weights: Tensor = self.reweight.weights.detach().float()
        if self.feed_set is self.task.train:
            return weights.clone()
        trusted = self.task.shifted.trusted.to(self.device)  # none where they come from elsewhere
        nothing = torch.zeros(len(self.task.train), device=self.device)
        return nothing.index_copy_(0, trusted, weights[: len(trusted)])

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on, and the rows so far."""
        with self.place():
            cuda = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
            return {
                "settings": self.settings.as_dict(),
                "epoch": self.epoch,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "reweight": self.reweight.state_dict(),
                "random": torch.get_rng_state(),
                "random_cuda": cuda,
                "metrics": self.metrics,
                "timing": self.timing,
                "history": self.history,
            }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from ``state``, which must be of the same settings (more epochs are allowed)."""
        check_same(state["settings"], self.settings)
        if state["epoch"] > self.settings.epochs:
            done, asked = state["epoch"], self.settings.epochs
            raise CheckpointError(f"{done} epochs have been run already: epochs must be at least that, got {asked}")
        with self.place():
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(_for_this_device(state["optimizer"], self.optimizer))
            self.reweight.load_state_dict(state["reweight"])
        torch.set_rng_state(state["random"].cpu())
        if state["random_cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.device)
        self.epoch, self.metrics, self.timing = state["epoch"], list(state["metrics"]), list(state["timing"])
        self.history = {epoch: weights.cpu() for epoch, weights in state["history"].items()}
        self.broken = float(self.reweight.weight_state.nonfinite.sum())


def _for_this_device(state: dict[str, Any], optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer's state, with options that hang on the device as ``optimizer`` has them.

    On a GPU the learning rate is a tensor: as a number it would be a constant of the recorded graph.
    """
    groups = []
    for saved, own in zip(state["param_groups"], optimizer.param_groups, strict=True):
        groups.append({**saved, **{key: own[key] for key in ("lr", "fused", "capturable") if key in own}})
    return {**state, "param_groups": groups}


HEALTH = ("ess", "weight_mean", "weight_max", "share_zero", "weight_intact", "weight_mislabelled")


def reading(task: Task, device: torch.device, workers: int) -> dict[str, int]:
    """How trusted samples are read: image files by workers, and kept on a GPU up to an eighth of its memory."""
    memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    val_workers = workers if isinstance(task.trusted, ImageFiles) else 0
    return {"cache_bytes": max(CACHE_BYTES, memory // 8), "val_workers": val_workers}


def build_model(settings: Settings, task: Task) -> nn.Module:
    """The network behind the scaling of stored samples."""
    data = task.data
    network = build_network(settings.model, data.input_shape, data.num_classes)
    return NormalizedNetwork(network, data.mean, data.std, settings.channels_last)


def build_optimizer(settings: Settings, model: nn.Module) -> Optimizer:
    """SGD or Adam as the settings say; on a GPU one kernel, with the rate on the device: a graph can hold it."""
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"
    rate: Any = torch.tensor(settings.lr, device=device) if on_gpu else settings.lr
    decay, fused = settings.weight_decay, True if on_gpu else None
    if settings.optimizer == "sgd":
        return SGD(model.parameters(), lr=rate, momentum=settings.momentum, weight_decay=decay, fused=fused)
    return Adam(model.parameters(), lr=rate, weight_decay=decay, fused=fused, capturable=on_gpu)


def snapshot_epochs(epochs: int) -> set[int]:
    """At most ``SNAPSHOTS`` epochs, evenly spaced, the last among them.

    >>> sorted(snapshot_epochs(3))
    [1, 2, 3]
    """
    return {round(epochs * (k + 1) / min(SNAPSHOTS, epochs)) for k in range(min(SNAPSHOTS, epochs))}
