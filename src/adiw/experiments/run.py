"""One run from settings to result, resumable at any epoch."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.utils.data import DataLoader

from adiw.data import ImageFiles, Samples
from adiw.engine import checkpoint
from adiw.engine.checkpoint import CheckpointError
from adiw.engine.feed import DeviceFeed, Feed, LoaderFeed, leave_interrupts_to_the_parent
from adiw.engine.inputs import Scaled
from adiw.engine.loop import evaluate, in_batches, predict, set_learning_rate, train_epoch
from adiw.experiments import two_step
from adiw.experiments.gallery import write_gallery
from adiw.experiments.methods import Context, find
from adiw.experiments.record import Folder, Row, provenance, summarise
from adiw.experiments.resume import check_folder, check_same, fitting
from adiw.experiments.settings import Settings
from adiw.experiments.task import Task, as_they_are, prepare, to_train_on
from adiw.experiments.watch import DeadRunError, check_alive
from adiw.models import build as build_network

SNAPSHOTS = 20  # weights of all samples are kept at this many epochs
SAVE_EVERY = 10.0  # seconds between checkpoints, at least
WORKERS = min(4, os.cpu_count() or 1)  # more than there are cores make PyTorch complain
Progress = Callable[[Row], None]


class Interrupted(RuntimeError):  # noqa: N818 - not an error: somebody asked for it
    """The run was asked to stop; its last checkpoint is whole."""


class Run:
    """A run in progress: the task, the network, the method, and what they have done so far."""

    def __init__(self, settings: Settings, task: Task, device: torch.device, workers: int) -> None:
        self.settings, self.task, self.device, self.workers = settings, task, device, workers
        self.bf16 = settings.bf16 and device.type == "cuda"  # a CPU gains nothing by it, and some fail
        torch.manual_seed(settings.seed)
        self.model = build_model(settings, task).to(device)
        self.optimizer = build_optimizer(settings, self.model)
        method = find(settings.method)
        context = Context(
            settings,
            task,
            self.model,
            nn.CrossEntropyLoss(reduction="none"),
            self.optimizer,
            Generator().manual_seed(settings.seed),
            lambda: two_step.features(settings, task, build_model, build_optimizer, self.feed, device),
        )
        self.reweight: Any = method.build(context).to(device)
        self.feed_set = task.train
        if method.trains_on == "trusted":
            self.feed_set = to_train_on(task.trusted)
        self.epoch = 0
        self.metrics: list[Row] = []
        self.timing: list[Row] = []
        self.history: dict[int, Tensor] = {}

    def feed(self, samples: Samples | ImageFiles) -> Feed:
        """Training batches of these samples."""
        settings = self.settings
        if isinstance(samples, Samples):
            augment = self.task.data.augment
            return DeviceFeed(samples.x, samples.y, settings.batch, settings.seed, self.device, augment)
        return LoaderFeed(samples, settings.batch, settings.seed, self.device, self.workers)

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
        return ((x.to(self.device), y.to(self.device)) for x, y in loader)

    def one_epoch(self, feed: Feed, judged_on: Callable[[], Iterable[tuple[Tensor, Tensor]]]) -> Row:
        """Train for an epoch and judge it: the row for the metrics."""
        settings, broken = self.settings, self.nonfinite()
        set_learning_rate(self.optimizer, settings.learning_rate(self.epoch))
        trained = train_epoch(self.model, self.reweight, self.optimizer, feed.epoch(self.epoch), self.bf16)
        start = time.perf_counter()
        top1, top5 = evaluate(self.model, judged_on(), self.bf16)
        self.epoch += 1
        share = (self.nonfinite() - broken) / len(self.feed_set)
        row = {"epoch": self.epoch, "loss": trained.loss, "nonfinite": share, "accuracy": top1, "top5": top5}
        row |= self.health()
        self.metrics.append(row)
        seconds = {"train_seconds": trained.seconds, "evaluate_seconds": time.perf_counter() - start}
        self.timing.append({"epoch": self.epoch, **seconds})
        if self.epoch in snapshot_epochs(settings.epochs):
            self.history[self.epoch] = self.weights().half()
        return row

    def weights(self) -> Tensor:
        """The weight of every training sample, (n,) on the CPU; zero for those that val-only does not train on."""
        weights: Tensor = self.reweight.weights.detach().float().cpu().clone()
        if self.feed_set is self.task.train:
            return weights
        trusted = self.task.shifted.trusted  # none where they come from elsewhere
        return torch.zeros(len(self.task.train)).index_copy_(0, trusted, weights[: len(trusted)])

    def nonfinite(self) -> int:
        """Training losses so far that were not finite and were left out."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their share is in the metrics
            return int(self.reweight.summary().nonfinite_train)

    def health(self) -> Row:
        """The weights in a few numbers; intact and mislabelled apart where the truth is known."""
        weights = self.weights().double()
        square = float(weights.square().sum())
        row = {
            "ess": float(weights.sum()) ** 2 / square if square > 0 else 0.0,
            "weight_mean": float(weights.mean()),
            "weight_max": float(weights.max()),
            "share_zero": float((weights < 1e-6).double().mean()),
        }
        flipped = self.task.shifted.flipped
        if self.task.truth_known and len(weights) == len(flipped):
            row["weight_intact"] = float(weights[~flipped].mean())
            row["weight_mislabelled"] = float(weights[flipped].mean())
        return row

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on, and the rows so far."""
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
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.reweight.load_state_dict(state["reweight"])
        torch.set_rng_state(state["random"].cpu())
        if state["random_cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.device)
        self.epoch, self.metrics, self.timing = state["epoch"], list(state["metrics"]), list(state["timing"])
        self.history = {epoch: weights.cpu() for epoch, weights in state["history"].items()}


def run(
    settings: Settings,
    out: Path,
    root: Path | None = None,
    device: torch.device | None = None,
    resume: bool = False,
    workers: int = WORKERS,
    progress: Progress = lambda row: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run ``settings`` in the folder ``out`` and return the result, which is also in its result.json.

    Args:
        root: of the data sets; None for $ADIW_DATA or ./data.
        resume: go on from the folder's checkpoint; without it the folder must not hold another run.
        workers: processes that decode images.
        progress: called with each epoch's row.
        stop: asked after each epoch; true saves a checkpoint and raises ``Interrupted``.
    """
    find(settings.method)  # an unknown name should not wait for the data
    folder = Folder(out)
    check_folder(folder, settings, resume)
    folder.create()
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    task = prepare(settings, root)
    state = checkpoint.load(out, device) if resume else None
    try:
        job = Run(settings, task, device, workers)
    except DeadRunError as error:  # before its first epoch: in the pretraining of a two-step method
        folder.write_json("config.json", settings.as_dict())
        folder.write_json("result.json", _result(settings, device, "dead", str(error), [], []))
        raise
    if state is not None:
        with fitting(out):
            job.restore(state)
    folder.remove("result.json")  # of an earlier stretch: a run that goes on has no result yet
    folder.write_json("config.json", settings.as_dict())
    folder.write_rows("metrics.jsonl", job.metrics)
    folder.write_rows("timing.jsonl", job.timing)
    status, reason = _train(job, folder, progress, stop)
    result = _result(settings, device, status, reason, job.metrics, job.timing)
    _write_outcome(job, folder, result)
    if status == "dead":
        raise DeadRunError(f"{reason} (files are kept in {out})")
    return result


def _result(
    settings: Settings, device: torch.device, status: str, reason: str | None, metrics: list[Row], timing: list[Row]
) -> dict[str, Any]:
    """What result.json says: how the run ended, its figures, and what they were made with."""
    return {
        "status": status,
        "reason": reason,
        **summarise(metrics, timing),
        "judged_on": "selection split" if settings.selection else "test set",
        "settings": settings.as_dict(),
        **provenance(device),
    }


def _train(job: Run, folder: Folder, progress: Progress, stop: Callable[[], bool]) -> tuple[str, str | None]:
    """Epochs until the end, or until the run dies: (status, reason). A run that had died stays dead."""
    feed, saved = job.feed(job.feed_set), time.monotonic()
    samples = job.task.judged_on
    if isinstance(samples, Samples):  # cross to the device once, not every epoch
        samples = Samples(samples.x.to(job.device), samples.y.to(job.device))
    reason = _cause_of_death(job)
    while reason is None and job.epoch < job.settings.epochs:
        try:
            row = job.one_epoch(feed, lambda: job.batches(samples))
        except RuntimeError as error:
            if stop():  # the signal that asked for it has ended the workers too
                raise Interrupted("stopped within an epoch; go on from the last checkpoint with --resume") from error
            raise
        folder.append_row("metrics.jsonl", row)
        folder.append_row("timing.jsonl", job.timing[-1])
        progress(row)
        reason = _cause_of_death(job)
        stopping = stop()
        ending = reason is not None or job.epoch == job.settings.epochs
        if stopping or ending or time.monotonic() - saved > SAVE_EVERY:
            checkpoint.save(folder.path, job.state())
            saved = time.monotonic()
        if stopping and not ending:
            raise Interrupted(f"stopped after epoch {job.epoch} of {job.settings.epochs}; go on with --resume")
    return ("done", None) if reason is None else ("dead", reason)


def _cause_of_death(job: Run) -> str | None:
    """Why the run will not recover; None while it lives."""
    try:
        if job.metrics:
            check_alive(job.metrics, job.task.data.num_classes)
    except DeadRunError as error:
        return str(error)
    return None


def _write_outcome(job: Run, folder: Folder, result: dict[str, Any]) -> None:
    """Weights, their history, labels and predictions, and the result last: it says that the rest is there."""
    folder.write_array("weights.npy", job.weights().numpy())
    epochs = sorted(job.history)
    history = np.stack([job.history[epoch].numpy() for epoch in epochs]) if epochs else np.zeros((0, 0), np.float16)
    folder.write_array("weight_history.npy", history)
    folder.write_json("weight_history.json", {"epochs": epochs})
    shifted = job.task.shifted
    labels = torch.stack([shifted.keep, shifted.y, shifted.true_y, predict(job.model, job.batches(job.task.train))])
    folder.write_array("labels.npy", labels.cpu().numpy())
    folder.write_json("classes.json", list(job.task.data.classes))
    if job.feed_set is job.task.train:  # val-only has no weights to show
        write_gallery(folder, job.task, labels.cpu(), job.weights(), job.history)
    folder.write_json("result.json", result)


def build_model(settings: Settings, task: Task) -> nn.Module:
    """The network behind the scaling of stored samples."""
    data = task.data
    network = build_network(settings.model, data.input_shape, data.num_classes)
    return Scaled(network, data.mean, data.std, settings.channels_last)


def build_optimizer(settings: Settings, model: nn.Module) -> Optimizer:
    """SGD or Adam as the settings say."""
    if settings.optimizer == "sgd":
        momentum, decay = settings.momentum, settings.weight_decay
        return SGD(model.parameters(), lr=settings.lr, momentum=momentum, weight_decay=decay)
    return Adam(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)


def snapshot_epochs(epochs: int) -> set[int]:
    """At most ``SNAPSHOTS`` epochs, evenly spaced, the last among them.

    >>> sorted(snapshot_epochs(3))
    [1, 2, 3]
    """
    return {round(epochs * (k + 1) / min(SNAPSHOTS, epochs)) for k in range(min(SNAPSHOTS, epochs))}
