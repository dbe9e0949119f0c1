"""One run from settings to result, resumable at any epoch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adiw.distributed.process_group import current_processes
from adiw.engine import checkpoint
from adiw.engine.capture import Captured
from adiw.experiments.gallery import write_gallery
from adiw.experiments.job import Job
from adiw.experiments.methods import find
from adiw.experiments.record import Folder, commit, provenance, summarise
from adiw.experiments.resume import check_folder, fitting
from adiw.experiments.sealed import Row
from adiw.experiments.settings import Settings
from adiw.experiments.task import Task, prepare
from adiw.experiments.unwritten import Unwritten
from adiw.experiments.watch import DeadRunError, check_alive

SAVE_EVERY = 10.0  # seconds between checkpoints, at least
FILES = (  # of a run that has ended, but for checkpoints, which carry their own digest
    *("config.json", "metrics.jsonl", "timing.jsonl", "result.json", "weights.npy", "labels.npy", "classes.json"),
    *("weight_history.npy", "weight_history.json", "gallery.npy", "gallery.json"),
)
WORKERS = min(4, os.cpu_count() or 1)  # more than there are cores make PyTorch complain
Progress = Callable[[Row], None]


class Interrupted(RuntimeError):  # noqa: N818 - not an error: somebody asked for it
    """The run was asked to stop; its last checkpoint is whole."""


def keep_silent(line: str) -> None:
    """For remarks that nobody wants."""


@dataclass(frozen=True)
class Engine:
    """How a run is computed: its numbers differ by rounding alone.

    Attributes:
        device: None for a GPU where there is one.
        workers: processes that decode images.
        capture: on a GPU, record the training step as a graph and replay it.
        compiled: let torch.compile translate the network and the weight estimation, see ``Job``.
        tell: gets a line of text, such as why steps are not captured.
    """

    device: torch.device | None = None
    workers: int = WORKERS
    capture: bool = True
    compiled: bool = False
    tell: Callable[[str], None] = keep_silent

    def where(self) -> torch.device:
        return self.device or torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def start(self, settings: Settings, task: Task) -> Job:
        tell = self.tell if self.capture else None
        return Job(settings, task, self.where(), self.workers, tell, self.compiled)


DEFAULT = Engine()


def run(
    settings: Settings,
    out: Path,
    root: Path | None = None,
    engine: Engine = DEFAULT,
    resume: bool = False,
    progress: Progress = lambda row: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run ``settings`` in the folder ``out`` and return the result, which is also in its result.json.

    Args:
        root: of the data sets; None for $ADIW_DATA or ./data.
        engine: how it is computed.
        resume: go on from the folder's checkpoint; without it the folder must not hold another run.
        progress: called with each epoch's row.
        stop: asked after each epoch; true saves a checkpoint and raises ``Interrupted``.
    """
    turns = in_turns(settings, out, root, engine, resume, progress, stop)
    while True:
        try:
            next(turns)
        except StopIteration as end:
            result: dict[str, Any] = end.value
            return result


def in_turns(
    settings: Settings,
    out: Path,
    root: Path | None,
    engine: Engine,
    resume: bool,
    progress: Progress,
    stop: Callable[[], bool],
) -> Generator[None, None, dict[str, Any]]:
    """``run``, which pauses whenever an epoch has been given to the device: others may give it theirs."""
    find(settings.method)  # an unknown name should not wait for the data
    commit()  # as it is now, not when the run ends
    device = engine.where()
    folder, state = _open(out, settings, resume, device)
    task = prepare(settings, root)
    try:
        job = engine.start(settings, task)
    except DeadRunError as error:  # before its first epoch: in the pretraining of a two-step method
        folder.unseal()
        folder.write_json("config.json", settings.as_dict())
        folder.write_json("result.json", _result(settings, device, "dead", str(error), [], []))
        folder.seal("config.json", "result.json")
        raise
    if state is not None:
        with fitting(out):
            job.restore(state)
    folder.remove("result.json")  # of an earlier stretch: a run that goes on has no result yet
    folder.unseal()
    folder.write_json("config.json", settings.as_dict())
    folder.seal("config.json")
    folder.write_rows("metrics.jsonl", job.metrics)
    folder.write_rows("timing.jsonl", job.timing)
    status, reason = yield from _train(job, folder, progress, stop)
    result = _result(settings, device, status, reason, job.metrics, job.timing)
    result["engine"] = {"captured": _captured(job), "compiled": engine.compiled, "processes": job.processes.size}
    _write_outcome(job, folder, result)
    job.processes.wait()  # for the files: torchrun ends the others when one has ended badly
    if status == "dead":
        raise DeadRunError(f"{reason} (files are kept in {out})")
    return result


def _open(out: Path, settings: Settings, resume: bool, device: torch.device) -> tuple[Folder, dict[str, Any] | None]:
    """The run's folder and the checkpoint to go on from. Of several processes the first alone touches files."""
    processes = current_processes()
    if processes.rank > 0:
        return Unwritten(out), processes.broadcast_object(None)
    folder = Folder(out)
    check_folder(folder, settings, resume)
    folder.create()
    state = checkpoint.load(out, device if processes.size == 1 else torch.device("cpu")) if resume else None
    return folder, processes.broadcast_object(state)


def _captured(job: Job) -> bool:
    return isinstance(job.loop.step, Captured) and job.loop.step.captured


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


def _train(
    job: Job, folder: Folder, progress: Progress, stop: Callable[[], bool]
) -> Generator[None, None, tuple[str, str | None]]:
    """Epochs until the end, or until the run dies: (status, reason). A run that had died stays dead."""
    saved, reason = time.monotonic(), _cause_of_death(job)
    while reason is None and job.epoch < job.settings.epochs:
        try:
            job.queue()
            yield
            row = job.collect()
        except RuntimeError as error:
            if stop():  # the signal that asked for it has ended the workers too
                raise Interrupted("stopped within an epoch; go on from the last checkpoint with --resume") from error
            raise
        folder.append_row("metrics.jsonl", row)
        folder.append_row("timing.jsonl", job.timing[-1])
        progress(row)
        reason = _cause_of_death(job)
        stopping = job.processes.any(stop())
        ending = reason is not None or job.epoch == job.settings.epochs
        if stopping or ending or time.monotonic() - saved > SAVE_EVERY:
            if job.processes.rank == 0:
                checkpoint.save(folder.path, job.state())
            saved = time.monotonic()
        if stopping and not ending:
            job.processes.wait()
            raise Interrupted(f"stopped after epoch {job.epoch} of {job.settings.epochs}; go on with --resume")
    return ("done", None) if reason is None else ("dead", reason)


def _cause_of_death(job: Job) -> str | None:
    """Why the run will not recover; None while it lives."""
    try:
        if job.metrics:
            check_alive(job.metrics, job.task.data.num_classes, len(job.loop.loader))
    except DeadRunError as error:
        return str(error)
    return None


def _write_outcome(job: Job, folder: Folder, result: dict[str, Any]) -> None:
    """Weights, their history, labels and predictions, and the result: it says that the rest is there."""
    predicted = job.predict()
    if job.processes.rank > 0:
        return
    folder.write_array("weights.npy", job.weights().cpu().numpy())
    epochs = sorted(job.history)
    history = np.stack([job.history[epoch].numpy() for epoch in epochs]) if epochs else np.zeros((0, 0), np.float16)
    folder.write_array("weight_history.npy", history)
    folder.write_json("weight_history.json", {"epochs": epochs})
    shifted = job.task.shifted
    labels = torch.stack([shifted.keep, shifted.y, shifted.true_y, predicted])
    folder.write_array("labels.npy", labels.cpu().numpy())
    folder.write_json("classes.json", list(job.task.data.classes))
    if job.feed_set is job.task.train:  # val-only has no weights to show
        write_gallery(folder, job.task, labels.cpu(), job.weights().cpu(), job.history)
    folder.write_json("result.json", result)
    folder.seal(*FILES)
