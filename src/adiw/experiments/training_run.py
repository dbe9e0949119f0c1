"""A run in progress: its data, network and method, and the epochs so far."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from adiw.baselines import DIW, L2R, MWNet, Uniform
from adiw.data import ImageFiles, Samples
from adiw.distributed.process_group import current_processes
from adiw.engine.loop import Loop, set_learning_rate
from adiw.engine.stopping import StopCheck, Stopped
from adiw.engine.torchrun import data_parallel, sync_batch_norm
from adiw.engine.train_loader import DatasetLoader, Part, TensorLoader, TrainLoader, epoch_seed
from adiw.experiments import two_step
from adiw.experiments.best_epoch import BestEpoch
from adiw.experiments.checked_io import Row
from adiw.experiments.data_check import features
from adiw.experiments.epoch_evaluation import Evaluation
from adiw.experiments.methods import Context, find
from adiw.experiments.model_and_optimizer import build_model, build_optimizer, learning_rate
from adiw.experiments.run_record import summarise
from adiw.experiments.settings import Settings, SettingsError
from adiw.experiments.splits import Splits, with_augmentation, without_augmentation
from adiw.label_audit import Audit
from adiw.matching.weight_limits import effective_sample_size
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.dataset_cache import CACHE_BYTES
from adiw.reweighting.diagnostics.alarms import Alarm
from adiw.reweighting.diagnostics.audit import by_quick_model, first_losses, make_audit
from adiw.reweighting.diagnostics.evaluation_pass import EvaluatedSamples
from adiw.reweighting.diagnostics.quick_model import draw_samples
from adiw.reweighting.progress import at_most_every
from adiw.reweighting.sample_record import EARLY_STEPS

WORKERS = min(4, os.cpu_count() or 1)  # PyTorch warns of more workers than cores
SNAPSHOTS = 20  # at most so many epochs whose weights are kept
BETWEEN = 0.25  # seconds between two reports
COMPILED_VERSIONS = 64  # versions of the same code that torch.compile may cache
FINE_TUNE_BATCH, FINE_TUNE_RATE = 8, 0.1  # the best, or close to it, on the development half of the gauntlet
WEIGHT_METRICS = ("ess", "weight_mean", "weight_max", "share_zero", "weight_intact", "weight_mislabelled")


def no_log(line: str) -> None:
    """Discard a line of text."""


@dataclass(frozen=True)
class Engine:
    """How a run is computed. It changes results only by rounding.

    Attributes:
        device: None uses a GPU if there is one.
        workers: number of processes that decode images.
        capture: on a GPU, capture the training step as a graph and replay it.
        compiled: use torch.compile, see ``TrainingRun``; None decides after ``compilation.MEASURED`` epochs, and
            does not on a CPU.
        choose_threads: on a CPU, set PyTorch's number of threads for this process, see ``cpu_threads``.
        log: gets a line of text, such as why steps are not captured.
        stage: gets what the run does now, such as "epoch 2, step 40 of 900", a few times a second at most.
    """

    device: torch.device | None = None
    workers: int = WORKERS
    capture: bool = True
    compiled: bool | None = False
    choose_threads: bool = False
    log: Callable[[str], None] = no_log
    stage: Callable[[str], None] = no_log

    def resolve_device(self) -> torch.device:
        """``device``, or its default."""
        return self.device or torch.device("cuda" if torch.cuda.is_available() else "cpu")


DEFAULT = Engine()


class TrainingRun:
    """A run in progress, an epoch at a time. On a GPU it has its own stream: the default one cannot be captured.

    Args:
        settings, splits: the run and its data.
        engine: how it is computed.
        stop: called after each step, and before each batch of an evaluation; once true, ``Stopped`` is raised.
        compiled: use torch.compile for the network and the weight estimation (for DIW: one iteration of its solver;
            for L2R and MW-Net: the virtual passes), or for the "estimation" alone; None for what the engine says.
    """

    def __init__(
        self,
        settings: Settings,
        splits: Splits,
        engine: Engine = DEFAULT,
        stop: Callable[[], bool] = lambda: False,
        compiled: bool | Literal["estimation"] | None = None,
    ) -> None:
        self.settings, self.splits, self.workers = settings, splits, engine.workers
        self.device = device = engine.resolve_device()
        self.compiled = bool(engine.compiled) if compiled is None else compiled
        self.processes = current_processes()
        self.tell = at_most_every(BETWEEN, engine.stage)
        self.stop = StopCheck(stop, self.processes)
        self.bf16 = settings.bf16 and device.type == "cuda"  # on a CPU it is not faster, and some CPUs lack it
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.epoch = 0
        self.resumed_steps = 0  # of the next epoch, which were done before the run was resumed
        self.metrics: list[Row] = []
        self.timing: list[Row] = []
        self.history: dict[int, Tensor] = {}
        self.held_out: list[Tensor] = []  # after each epoch, which held-out samples are predicted correctly
        self.alarms: list[Alarm] = []
        self.method = find(settings.method)
        self.best = BestEpoch(self.method.warmup)
        self.train_set = self.method.train_set(splits)
        self.train_epochs = settings.train_epochs(len(self.train_set))
        with self.on_stream():
            self._build()
            self._prepare(engine.log if engine.capture else None)

    @property
    def epochs(self) -> int:
        """The number of epochs, those of fine-tuning included."""
        return self.train_epochs + (self.settings.fine_tune_epochs if self.method.fine_tunes else 0)

    def _build(self) -> None:
        settings, splits, device = self.settings, self.splits, self.device
        torch.manual_seed(settings.seed)
        self.model = sync_batch_norm(build_model(settings, splits).to(device), device, self.processes)
        if self.compiled:
            # Runs of one process share compiled code. Hooks must be part of its guards, since only some of the runs
            # observe a hidden layer; and a sweep has more settings than the default limit of eight versions.
            torch._dynamo.config.skip_nnmodule_hook_guards = False
            torch._dynamo.config.cache_size_limit = max(torch._dynamo.config.cache_size_limit, COMPILED_VERSIONS)
        if self.compiled is True:
            self.model.compile(dynamic=False)
        self.optimizer = build_optimizer(settings, self.model)
        context = Context(
            settings,
            splits,
            self.model,
            nn.CrossEntropyLoss(reduction="none"),
            self.optimizer,
            Generator().manual_seed(settings.seed),
            partial(two_step.features, self),
            reading(splits, device, self.workers),
        )
        self.reweight: Any = self.method.build(context).to(device)
        if self.compiled and isinstance(self.reweight, (ADIW, DIW, L2R, MWNet)):
            self.reweight.compile(dynamic=False)

    def _prepare(self, log: Callable[[str], None] | None) -> None:
        settings, model = self.settings, data_parallel(self.model, self.device)

        def loop(samples: Samples | ImageFiles, batch: int, reweight: Any, optimizer: Any) -> Loop:
            size = min(batch, len(samples))
            if size < self.processes.size:
                raise SettingsError(
                    f"a batch of {size} samples is too small for {self.processes.size} processes: use fewer"
                )
            loader = self.train_loader(samples, self.processes.part, batch)
            made = Loop(model, reweight, optimizer, loader, self.bf16, settings.clip, log)
            made.on_step = self._after_step
            return made

        self.loop = loop(self.train_set, settings.batch, self.reweight, self.optimizer)
        self.fine_tuning: Loop | None = None
        if self.method.fine_tunes:
            trusted = with_augmentation(self.splits.trusted)
            uniform = Uniform(self.model, nn.CrossEntropyLoss(reduction="none"), None, len(trusted)).to(self.device)
            self.fine_tuning = loop(trusted, FINE_TUNE_BATCH, uniform, build_optimizer(settings, self.model))
        capture = self.loop.graphed is not None
        self.evaluation = Evaluation(self.model, self.splits, self.device, self.workers, self.bf16, capture)
        if not self.evaluation.captured:  # a captured evaluation is queued as a whole
            self.evaluation.on_batch = partial(self._before_sample, "evaluating, sample")
        flipped = self.splits.shifted.flipped.to(self.device)
        known = self.splits.truth_known and len(flipped) == len(self.splits.train)
        self.flipped = flipped.double() if known else None
        self.nonfinite = 0.0  # losses so far that were not finite

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

    def train_loader(
        self, samples: Samples | ImageFiles, part: Part = range, batch: int | None = None
    ) -> TrainLoader:
        """Training batches of these samples, or this process's part of each batch."""
        seed, size = self.settings.seed, batch or self.settings.batch
        if isinstance(samples, Samples):
            augment = self.splits.data.augment
            return TensorLoader(samples.x, samples.y, size, seed, self.device, augment, part)
        return DatasetLoader(samples, size, seed, self.device, self.workers, part)

    def phase(self) -> tuple[Loop, int, float]:
        """Of the next epoch: its loop, the number of samples and the learning rate."""
        if self.fine_tuning is not None and self.epoch >= self.train_epochs:
            return self.fine_tuning, len(self.splits.trusted), FINE_TUNE_RATE * self.settings.lr
        return self.loop, len(self.train_set), learning_rate(self.settings, self.epoch)

    def _after_step(self, done: int, total: int) -> None:
        """Report the step, and raise ``Stopped`` if a stop is requested."""
        self.tell(f"epoch {self.epoch + 1}, step", done, total)
        self.stop.after_step()

    def _before_sample(self, what: str, done: int, total: int) -> None:
        """Report what is read or evaluated, and raise ``Stopped`` if a stop is requested."""
        self.tell(what, done, total)
        self.stop.in_one_process()

    def train_epoch(self) -> Row:
        """Train for an epoch, or the rest of a resumed one, and evaluate: its row of metrics.

        After ``Stopped``, ``state`` and ``position`` are those between two steps of the epoch.
        """
        loop, samples, rate = self.phase()
        done, self.resumed_steps = self.resumed_steps, 0
        with self.on_stream():
            begins = done == 0 and loop is self.fine_tuning and self.epoch == self.train_epochs
            if begins and self.best.model:
                self.model.load_state_dict(self.best.model)  # the last epoch may have memorised wrong labels
            set_learning_rate(loop.optimizer, rate)
            if self.processes.size > 1 and done == 0:
                torch.manual_seed(self.process_seed())
            loop.run_epoch(self.epoch, done)
            self._evaluate()
            loss, nonfinite, train_accuracy, *figures = self._stats(loop).tolist()
            if len(self.evaluation.right):
                self.held_out.append(self.evaluation.right.bool().cpu())
        evaluated, weights = figures[: self.evaluation.figures.numel()], figures[self.evaluation.figures.numel() :]
        self.epoch += 1
        share = (nonfinite - self.nonfinite) / samples
        self.nonfinite = nonfinite
        row = {"epoch": self.epoch, "loss": loss, "nonfinite": share, **self.evaluation.row(evaluated)}
        if isinstance(self.reweight, ADIW):
            row["train_accuracy"] = 100 * train_accuracy
        row |= dict(zip(WEIGHT_METRICS, weights, strict=False))
        self.metrics.append(row)
        seconds = {"train_seconds": loop.seconds(), "evaluate_seconds": self.evaluation.timer.seconds()}
        self.timing.append({"epoch": self.epoch, **seconds})
        with self.on_stream():
            self.best.update(row, self.model)
            if self.epoch in snapshot_epochs(self.epochs):
                self.history[self.epoch] = self.weights().cpu()
        return row

    def process_seed(self) -> int:
        """Own dropout in each process, the same when an epoch is repeated."""
        return epoch_seed(epoch_seed(self.settings.seed, self.epoch), 1 + self.processes.rank) % 2**63

    def _evaluate(self) -> None:
        """Queue an evaluation. One that is stopped is repeated: the random numbers that it drew are put back."""
        random = torch.get_rng_state()
        try:
            self.evaluation.queue()
        except Stopped:
            torch.set_rng_state(random)
            raise

    def predict(self, samples: Samples | ImageFiles) -> Tensor:
        """The predicted class of each of these samples, (n,) on the CPU, by the network of the best or last epoch."""
        predicted = self.evaluate_samples(samples).predicted
        assert predicted is not None  # the targets are classes
        return predicted

    def evaluate_samples(self, samples: Samples | ImageFiles) -> EvaluatedSamples:
        """Losses, predictions and features of these samples, by the network of the best or last epoch."""
        with self.on_stream(), self.best.loaded(self.model):
            return self.evaluation.evaluate_samples(samples)

    def audit(self) -> Audit:
        """The audit of the training samples, with the network of the best or last epoch."""
        splits, data, keep = self.splits, self.splits.data, self.splits.shifted.keep
        source, numbering = data.find(keep)
        all_used = self.method.trains_on != "trusted"  # val-only has no history of the other samples
        place = splits.shifted.trusted if len(splits.shifted.trusted) else slice(len(splits.train), None)
        return make_audit(
            self.reweight.weight_state.history if all_used else None,
            self.evaluate_samples(splits.train),
            self._unseen_losses(),
            torch.cat([splits.train.y, splits.trusted.y]),
            place if all_used else None,
            None if data.describe is None else lambda i: data.describe(int(keep[i])),  # type: ignore[misc]
            self.tell,
            is_trusted=splits.is_trusted.numpy(),
            source=source.numpy(),
            numbering=numbering,
        )

    def _unseen_losses(self) -> Tensor | None:
        """(n,) losses of ``mixed`` by networks that were not trained on the sample; None if they are not known.

        Image files would have to be read again for a quick model: of many, the losses of the first epoch are used.
        """
        mixed, reweight = self.splits.mixed, self.reweight
        many = isinstance(mixed, ImageFiles) and len(self.loop.loader) >= EARLY_STEPS
        if self.method.trains_on == "trusted" or (many and not isinstance(reweight, ADIW)):
            return None
        if many:
            state = reweight.weight_state
            return first_losses(reweight.record.early[:-1], state.seen_steps, state.seen_samples)
        is_trusted = torch.zeros(len(mixed), dtype=torch.bool).index_fill_(0, self.splits.trusted_index, True)
        place = draw_samples(is_trusted)
        x = features(without_augmentation(mixed.subset(place)), self._before_sample).cpu()
        return by_quick_model(is_trusted, mixed.y.cpu(), place, x, self.tell)

    def _stats(self, loop: Loop) -> Tensor:
        """The figures of the epoch as one tensor on the device, which are then copied to the host together."""
        weights = self.weights().double()
        zero = (weights < 1e-6).double().mean()
        figures = [effective_sample_size(weights), weights.mean(), weights.max(), zero]
        if self.flipped is not None:
            intact = 1 - self.flipped
            figures += [weights @ intact / intact.sum(), weights @ self.flipped / self.flipped.sum()]
        loss = loop.loss / self.processes.size
        self.processes.sum_([loss])
        accuracy = self.reweight.record.accuracy() if isinstance(self.reweight, ADIW) else torch.zeros_like(loss)
        first = [loss, self.nonfinite_losses().double(), accuracy.double()]
        return torch.stack([*first, *self.evaluation.figures.flatten(), *figures])

    def nonfinite_losses(self) -> Tensor:
        """The number of losses so far that were not finite."""
        loops = [self.loop] if self.fine_tuning is None else [self.loop, self.fine_tuning]
        return torch.stack([loop.reweight.weight_state.nonfinite.sum() for loop in loops]).sum()

    def weights(self) -> Tensor:
        """The weight of each training sample, (n,) on the device; zero for samples that val-only does not use."""
        weights: Tensor = self.reweight.weights.detach().float()
        if self.method.trains_on != "trusted":
            return weights[: len(self.splits.train)].clone()  # further samples are trusted ones, of mixed
        trusted = self.splits.shifted.trusted.to(self.device)  # empty with a trusted_folder
        zeros = torch.zeros(len(self.splits.train), device=self.device)
        return zeros.index_copy_(0, trusted, weights[: len(trusted)])

    def figures(self) -> dict[str, Any]:
        """The figures for result.json: of the last epochs, or of the best epoch if samples are held out."""
        found = summarise(self.metrics, self.timing, self.train_epochs)
        if self.settings.hold_out:
            found["held_out"] = 0 if self.splits.held_out is None else len(self.splits.held_out)
        return found | self.best.record(self.metrics)


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
