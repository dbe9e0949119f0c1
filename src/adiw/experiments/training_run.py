"""A run in progress: its data, network and method, and the epochs so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader

from adiw.baselines import DIW, L2R, MWNet
from adiw.data import ImageFiles, Samples
from adiw.distributed.process_group import current_processes
from adiw.engine.capture import Captured
from adiw.engine.checkpoint import CheckpointError
from adiw.engine.evaluate import count_correct, in_batches, predict
from adiw.engine.loop import Loop, set_learning_rate
from adiw.engine.timer import DeviceTimer
from adiw.engine.torchrun import data_parallel, sync_batch_norm
from adiw.engine.train_loader import DatasetLoader, Part, TensorLoader, TrainLoader, epoch_seed
from adiw.experiments import two_step
from adiw.experiments.checked_io import Row
from adiw.experiments.methods import Context, find
from adiw.experiments.model_and_optimizer import build_model, build_optimizer, load_optimizer_state
from adiw.experiments.resume import check_same
from adiw.experiments.settings import Settings, SettingsError
from adiw.experiments.splits import Splits, with_augmentation, without_augmentation
from adiw.matching.weight_limits import effective_sample_size
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.dataset_cache import CACHE_BYTES, leave_interrupts_to_the_parent, start

SNAPSHOTS = 20  # at most so many epochs whose weights are kept
COMPILED_VERSIONS = 64  # versions of the same code that torch.compile may cache
WEIGHT_METRICS = ("ess", "weight_mean", "weight_max", "share_zero", "weight_intact", "weight_mislabelled")


class TrainingRun:
    """A run in progress. ``queue_epoch`` queues an epoch on the device, ``collect_epoch`` waits for it.

    Meanwhile other runs may queue their epochs: on a GPU each run has its own stream.

    Args:
        settings, splits: the run and its data.
        device, workers: where it trains, and the number of processes that decode images.
        log: gets a line of text when steps are not captured as a graph; None trains with eager steps.
        compiled: use torch.compile for the network and the weight estimation (for DIW: one iteration of its solver;
            for L2R and MW-Net: the virtual passes).
    """

    def __init__(
        self,
        settings: Settings,
        splits: Splits,
        device: torch.device,
        workers: int,
        log: Callable[[str], None] | None = None,
        compiled: bool = False,
    ) -> None:
        self.settings, self.splits, self.device, self.workers = settings, splits, device, workers
        self.processes = current_processes()
        self.bf16 = settings.bf16 and device.type == "cuda"  # on a CPU it is not faster, and some CPUs lack it
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        with self.on_stream():
            self._build(compiled)
            self._prepare(log)
        self.epoch = 0
        self.metrics: list[Row] = []
        self.timing: list[Row] = []
        self.history: dict[int, Tensor] = {}

    def _build(self, compiled: bool) -> None:
        """Network, optimizer and method."""
        settings, splits, device = self.settings, self.splits, self.device
        torch.manual_seed(settings.seed)
        self.model = sync_batch_norm(build_model(settings, splits).to(device), device, self.processes)
        if compiled:
            # Runs of one process share compiled code. Hooks must be part of its guards, since only some of the runs
            # observe a hidden layer; and a sweep has more settings than the default limit of eight versions.
            torch._dynamo.config.skip_nnmodule_hook_guards = False
            torch._dynamo.config.cache_size_limit = max(torch._dynamo.config.cache_size_limit, COMPILED_VERSIONS)
            self.model.compile(dynamic=False)
        self.optimizer = build_optimizer(settings, self.model)
        method = find(settings.method)
        context = Context(
            settings,
            splits,
            self.model,
            nn.CrossEntropyLoss(reduction="none"),
            self.optimizer,
            Generator().manual_seed(settings.seed),
            lambda: two_step.features(
                settings, splits, build_model, build_optimizer, self.train_loader, device, self.bf16
            ),
            reading(splits, device, self.workers),
        )
        self.reweight: Any = method.build(context).to(device)
        if compiled and isinstance(self.reweight, (ADIW, DIW, L2R, MWNet)):
            self.reweight.compile(dynamic=False)
        self.train_set = with_augmentation(splits.trusted) if method.trains_on == "trusted" else splits.train

    def _prepare(self, log: Callable[[str], None] | None) -> None:
        """The training loop and the evaluation."""
        settings, size = self.settings, min(self.settings.batch, len(self.train_set))
        if size < self.processes.size:
            raise SettingsError(
                f"a batch of {size} samples is too small for {self.processes.size} processes: use fewer"
            )
        loader = self.train_loader(self.train_set, self.processes.part)
        model = data_parallel(self.model, self.device)
        self.loop = Loop(model, self.reweight, self.optimizer, loader, self.bf16, settings.clip, log)
        self.test_set = self._local_part(self.splits.test)
        self.hits = torch.zeros(2, dtype=torch.long, device=self.device)
        self.evaluate: Callable[[], None] = self._evaluate
        if isinstance(self.test_set, Samples):  # move it to the device once, not in every epoch
            self.test_set = Samples(self.test_set.x.to(self.device), self.test_set.y.to(self.device))
            if isinstance(self.loop.step, Captured):
                self.evaluate = Captured(self._evaluate, lambda line: None)
        self.evaluation_time = DeviceTimer(self.device)
        flipped = self.splits.shifted.flipped.to(self.device)
        known = self.splits.truth_known and len(flipped) == len(self.splits.train)
        self.flipped = flipped.double() if known else None
        self.nonfinite = 0.0  # losses so far that were not finite
        self.stats = torch.zeros(0)

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Queue work on this run's stream. Shapes do not change, so cuDNN may try its algorithms once for each."""
        if self.stream is None:
            yield
            return
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            torch.backends.cudnn.benchmark = before

    def train_loader(self, samples: Samples | ImageFiles, part: Part = range) -> TrainLoader:
        """Training batches of these samples, or this process's part of each batch."""
        settings = self.settings
        if isinstance(samples, Samples):
            augment = self.splits.data.augment
            return TensorLoader(samples.x, samples.y, settings.batch, settings.seed, self.device, augment, part)
        return DatasetLoader(samples, settings.batch, settings.seed, self.device, self.workers, part)

    def _local_part(self, samples: Samples | ImageFiles) -> Samples | ImageFiles:
        """The samples that this process evaluates."""
        own = torch.tensor(self.processes.part(len(samples)), dtype=torch.long)
        return samples if self.processes.size == 1 else samples.subset(own, samples.y[own])

    def batches(self, samples: Samples | ImageFiles) -> Iterable[tuple[Tensor, Tensor]]:
        """All of these samples in order, on the device, for evaluation."""
        if isinstance(samples, Samples):
            return in_batches(samples.x.to(self.device), samples.y.to(self.device))
        loader: DataLoader[Any] = DataLoader(
            without_augmentation(samples),
            batch_size=256,
            num_workers=self.workers,
            worker_init_fn=leave_interrupts_to_the_parent,
        )
        return ((x.to(self.device), y.to(self.device)) for x, y in start(loader))

    def queue_epoch(self) -> None:
        """Queue an epoch of training and its evaluation on the device."""
        with self.on_stream():
            set_learning_rate(self.optimizer, self.settings.learning_rate(self.epoch))
            if self.processes.size > 1:  # own dropout in each process, the same when an epoch is repeated
                seed = epoch_seed(epoch_seed(self.settings.seed, self.epoch), 1 + self.processes.rank)
                torch.manual_seed(seed % 2**63)
            self.loop.run_epoch(self.epoch)
            self.evaluation_time.start()
            self.evaluate()
            self.stats = self._stats()
            self.evaluation_time.stop()

    def collect_epoch(self) -> Row:
        """Wait for the queued epoch and return its row of metrics."""
        with self.on_stream():
            loss, nonfinite, first, five, *weight_metrics = self.stats.tolist()
        self.epoch += 1
        share = (nonfinite - self.nonfinite) / len(self.train_set)
        self.nonfinite = nonfinite
        total = len(self.splits.test)
        row = {"epoch": self.epoch, "loss": loss, "nonfinite": share}
        row |= {"accuracy": 100 * int(first) / total, "top5": 100 * int(five) / total}
        row |= dict(zip(WEIGHT_METRICS, weight_metrics, strict=False))
        self.metrics.append(row)
        seconds = {"train_seconds": self.loop.timer.seconds(), "evaluate_seconds": self.evaluation_time.seconds()}
        self.timing.append({"epoch": self.epoch, **seconds})
        if self.epoch in snapshot_epochs(self.settings.epochs):
            self.history[self.epoch] = self.weights().cpu()
        return row

    def _evaluate(self) -> None:
        with torch.compiler.set_stance("force_eager"):  # another batch size would compile again
            self.hits.copy_(count_correct(self.model, self.batches(self.test_set), self.bf16))
        self.processes.sum_([self.hits])

    def predict(self) -> Tensor:
        """The predicted class of each training sample, (n,) on the CPU; each process predicts a part."""
        count = len(self.splits.train)
        with self.on_stream(), torch.compiler.set_stance("force_eager"):
            own = predict(self.model, self.batches(self._local_part(self.splits.train)))
        found: Tensor = self.processes.gather([own], [-1], -(-count // self.processes.size))[0]
        return found[found >= 0]

    def _stats(self) -> Tensor:
        """The figures of the epoch as one tensor on the device, which are then copied to the host together."""
        weights = self.weights().double()
        zero = (weights < 1e-6).double().mean()
        figures = [effective_sample_size(weights), weights.mean(), weights.max(), zero]
        if self.flipped is not None:
            intact = 1 - self.flipped
            figures += [weights @ intact / intact.sum(), weights @ self.flipped / self.flipped.sum()]
        nonfinite, loss = self.reweight.weight_state.nonfinite.sum(), self.loop.loss / self.processes.size
        self.processes.sum_([loss])
        return torch.stack([loss, nonfinite.double(), *self.hits.double(), *figures])

    def weights(self) -> Tensor:
        """The weight of each training sample, (n,) on the device; zero for samples that val-only does not use."""
        weights: Tensor = self.reweight.weights.detach().float()
        if self.train_set is self.splits.train:
            return weights.clone()
        trusted = self.splits.shifted.trusted.to(self.device)  # empty with a trusted_folder
        zeros = torch.zeros(len(self.splits.train), device=self.device)
        return zeros.index_copy_(0, trusted, weights[: len(trusted)])

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on, and the rows so far."""
        with self.on_stream():
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
        """Resume from ``state``, which must have the same settings; more epochs are allowed."""
        check_same(state["settings"], self.settings.as_dict())
        if state["epoch"] > self.settings.epochs:
            done, wanted = state["epoch"], self.settings.epochs
            raise CheckpointError(f"the run has {done} epochs already: epochs must be at least {done}, got {wanted}")
        with self.on_stream():
            self.model.load_state_dict(state["model"])
            load_optimizer_state(self.optimizer, state["optimizer"])
            self.reweight.load_state_dict(state["reweight"])
        torch.set_rng_state(state["random"].cpu())
        if state["random_cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.device)
        self.epoch, self.metrics, self.timing = state["epoch"], list(state["metrics"]), list(state["timing"])
        self.history = {epoch: weights.float().cpu() for epoch, weights in state["history"].items()}
        self.nonfinite = float(self.reweight.weight_state.nonfinite.sum())


def reading(splits: Splits, device: torch.device, workers: int) -> dict[str, int]:
    """How trusted samples are read: workers decode image files, and a GPU caches up to an eighth of its memory."""
    memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    val_workers = workers if isinstance(splits.trusted, ImageFiles) else 0
    return {"cache_bytes": max(CACHE_BYTES, memory // 8), "val_workers": val_workers}


def snapshot_epochs(epochs: int) -> set[int]:
    """At most ``SNAPSHOTS`` evenly spaced epochs, the last among them.

    >>> sorted(snapshot_epochs(3))
    [1, 2, 3]
    """
    return {round(epochs * (k + 1) / min(SNAPSHOTS, epochs)) for k in range(min(SNAPSHOTS, epochs))}
