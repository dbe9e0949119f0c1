"""One run from settings to result, resumable at any step."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adiw.distributed.process_group import current_processes
from adiw.engine import checkpoint
from adiw.engine.stopping import Stopped
from adiw.experiments.audit_files import write_audit
from adiw.experiments.checked_io import Row
from adiw.experiments.compilation import MEASURED, Compiled, can_decide, in_words, what_pays
from adiw.experiments.cpu_threads import choose_threads
from adiw.experiments.dead_run import DeadRunError, check_alive
from adiw.experiments.diagnosis import (
    class_statistics,
    group_tables,
    raise_epoch_alarms,
    raise_final_alarms,
    verdict_of_run,
)
from adiw.experiments.gallery import write_gallery
from adiw.experiments.methods import find
from adiw.experiments.provenance import commit, provenance
from adiw.experiments.resume import check_folder, explain_mismatch, position_of, restore, state_of
from adiw.experiments.run_folder import Folder
from adiw.experiments.run_record import summarise
from adiw.experiments.settings import Settings
from adiw.experiments.splits import LEAST_HELD_OUT, load_splits, small_side
from adiw.experiments.training_run import DEFAULT, Engine, TrainingRun
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.diagnostics.alarms import Alarm

SAVE_EVERY = 10.0  # least seconds between two checkpoints
FILES = (  # of a run that has ended; checkpoints hold their own digest
    *("config.json", "metrics.jsonl", "timing.jsonl", "result.json", "weights.npy", "labels.npy", "classes.json"),
    *("weight_history.npy", "weight_history.json", "gallery.npy", "gallery.json", "audit.npy", "audit.json"),
    "held_out.npy",
)
NOT_BEGUN = "stopped before its first step; the same command starts it again"
OnEpoch = Callable[[Row], None]


class Interrupted(RuntimeError):  # noqa: N818 - a requested stop is not an error
    """The run was stopped on request. If it has begun, its checkpoint is complete."""


def in_one_line(error: Exception) -> str:
    """
    >>> in_one_line(ValueError("too large\\nby far"))
    'ValueError: too large'
    """
    lines = str(error).strip().splitlines() or [""]
    if lines[0].startswith("Caught "):  # by a DataLoader worker, whose traceback precedes the message
        return lines[-1]
    return f"{type(error).__name__}: {lines[0]}"


def run(
    settings: Settings,
    out: Path,
    root: Path | None = None,
    engine: Engine = DEFAULT,
    resume: bool = False,
    progress: OnEpoch = lambda row: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run ``settings`` in the folder ``out`` and return the content of its result.json.

    Args:
        root: folder of the data sets; None for $ADIW_DATA or ./data.
        engine: how it is computed.
        resume: resume from the folder's checkpoint; otherwise the folder must not hold a run.
        progress: called with the metrics of each epoch; "epochs" is the number of epochs of the whole run.
        stop: called after each step; if it returns true, a checkpoint is saved and ``Interrupted`` is raised.
    """
    find(settings.method)  # fails on an unknown name before the data are loaded
    commit()  # caches the commit of the start
    device = engine.resolve_device()
    folder, state = _open(out, settings, resume, device)
    engine.stage("reading the data")
    splits = load_splits(settings, root)
    if settings.hold_out and splits.held_out is None:
        share = f"{settings.hold_out:g} of {len(splits.trusted)} trusted samples"
        engine.log(f"the last epoch is kept, not the best: --hold-out {share} are fewer than {LEAST_HELD_OUT}")
    if side := small_side(splits.train):
        slow = f"images of {side} pixels are enlarged to {settings.image_size}"
        engine.log(f"{slow}: --image-size {side} is faster, and --no-augment keeps them whole (see adiw check)")
    engine.stage("building the network and the method")
    if engine.choose_threads and device.type == "cpu" and current_processes().size == 1:
        # A resumed run keeps its number: sums over other parts are rounded differently.
        threads = choose_threads(settings, splits) if state is None else state.get("threads")
        torch.set_num_threads(threads or torch.get_num_threads())
    try:
        training = TrainingRun(settings, splits, engine, stop)
    except Stopped:  # in the pretraining of a two-step method
        raise Interrupted(NOT_BEGUN) from None
    except DeadRunError as error:  # in the pretraining of a two-step method, before the first epoch
        _write_dead(folder, settings, device, str(error))
        raise
    if state is not None:
        with explain_mismatch(out):
            restore(training, state)
    folder.remove("result.json")  # a resumed run has no result yet
    folder.remove_sums()
    folder.write_json("config.json", settings.as_dict())
    folder.write_sums("config.json")
    folder.write_rows("metrics.jsonl", training.metrics)
    folder.write_rows("timing.jsonl", training.timing)
    running = _Running(training, folder, engine, stop)
    del training  # it may be replaced
    reason = _train(running, progress)
    training = running.training
    try:
        result = _judge(training, reason, engine)
        result["engine"] |= running.record
        engine.stage("auditing the labels")
        _write_outcome(training, folder, result)
    except Stopped:
        raise Interrupted("stopped after the last epoch; continue with --resume") from None
    training.processes.wait()  # until the files are written: torchrun ends all processes when one fails
    if result["status"] == "dead":
        raise DeadRunError(f"{result['reason']} (files are kept in {out})")
    return result


def _open(out: Path, settings: Settings, resume: bool, device: torch.device) -> tuple[Folder, dict[str, Any] | None]:
    """The run's folder and the checkpoint to resume from. Only rank 0 reads and writes files."""
    processes = current_processes()
    if processes.rank > 0:
        return Folder(out, writes=False), processes.broadcast_object(None)
    folder = Folder(out)
    check_folder(folder, settings, resume)
    folder.create()
    state = checkpoint.load(out, device if processes.size == 1 else torch.device("cpu")) if resume else None
    return folder, processes.broadcast_object(state)


def _write_dead(folder: Folder, settings: Settings, device: torch.device, reason: str) -> None:
    """Write the files of a run that is dead before its first epoch."""
    folder.remove_sums()
    folder.write_json("config.json", settings.as_dict())
    folder.write_json("result.json", _result(settings, device, "dead", reason))
    folder.write_sums("config.json", "result.json")


def _judge(training: TrainingRun, reason: str | None, engine: Engine) -> dict[str, Any]:
    """The content of result.json after the last epoch; ``reason``: why the run is dead, None if it is not."""
    predicted = training.predict(training.splits.test)
    if reason is None:
        found = raise_final_alarms(training, predicted)
        _log_alarms([alarm for alarm in found if alarm.name != "collapsed"], engine.log)  # the error says that one
        collapsed = [alarm.message for alarm in found if alarm.name == "collapsed"]
        reason = f"the network has collapsed: {collapsed[0]}" if collapsed else None
    result = _result(training.settings, training.device, "done" if reason is None else "dead", reason, training)
    result["groups"] = group_tables(training, predicted)
    result["predictions"] = class_statistics(training.splits, predicted)
    result["engine"] = {
        "captured": training.loop.captured,
        "compiled": bool(training.compiled),
        "processes": training.processes.size,
    }
    return result


def _result(
    settings: Settings, device: torch.device, status: str, reason: str | None, training: TrainingRun | None = None
) -> dict[str, Any]:
    """The content of result.json: status, figures, settings and provenance; without ``training`` no epoch was run."""
    figures = summarise([], []) if training is None else training.figures()
    return {
        "status": status,
        "reason": reason,
        **figures,
        "alarms": [] if training is None else [asdict(alarm) for alarm in training.alarms],
        "verdict": None if training is None else verdict_of_run(training),
        "judged_on": _judged_on(settings),
        "settings": settings.as_dict(),
        **provenance(device),
    }


def _judged_on(settings: Settings) -> str:
    """What accuracies are measured on. Labels of the test rows of a single table may be wrong, too."""
    if settings.selection:
        return "selection split"
    one_table = settings.dataset == "csv" and settings.path is not None and Path(settings.path).is_file()
    return "test rows, with the table's labels" if one_table else "test set"


class _Running:
    """A run that may be replaced by a compiled one, which goes on from a checkpoint."""

    def __init__(self, training: TrainingRun, folder: Folder, engine: Engine, stop: Callable[[], bool]) -> None:
        self.training, self.folder, self.engine, self.stop = training, folder, engine, stop
        self.undecided = MEASURED if engine.compiled is None else 0  # epochs until the decision
        self.record: dict[str, Any] = {}  # of the decision, for result.json
        self.begun: float | None = None  # when the compilation began, until its first epoch is done

    def after_epoch(self) -> None:
        """Decide when it is time, and note how long the compilation took."""
        if self.begun is not None:
            took = time.monotonic() - self.begun - self.training.timing[-2]["train_seconds"]
            self.record["compilation"]["seconds"], self.begun = max(took, 0.0), None
        if self.undecided and can_decide(self.training):
            self.undecided -= 1
            if not self.undecided and (what := what_pays(self.training)):
                self._compile(what)

    def go_on_without(self, error: Exception) -> bool:
        """After an error: whether it is of the first compiled epoch, which is then repeated without compilation."""
        if self.begun is None:
            return False
        self.engine.log(f"torch.compile failed, and the run goes on without it ({in_one_line(error)})")
        self.begun, self.record = None, {}
        self._restart(False)
        return True

    def _compile(self, what: Compiled) -> None:
        self.engine.log(in_words(what, self.training))
        self.begun = time.monotonic()
        self.record["compilation"] = {"what": "all" if what is True else what, "from_epoch": self.training.epoch + 1}
        checkpoint.save(self.folder.path, state_of(self.training))
        self._restart(what)

    def _restart(self, compiled: Compiled) -> None:
        settings, splits, device = self.training.settings, self.training.splits, self.training.device
        del self.training  # its memory on the device is freed before the next run takes as much
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        self.training = TrainingRun(settings, splits, self.engine, self.stop, compiled)
        state = checkpoint.load(self.folder.path, device)
        assert state is not None
        restore(self.training, state)


def _train(running: _Running, progress: OnEpoch) -> str | None:
    """Train until the last epoch: None, or why the run is dead. A resumed dead run stays dead."""
    folder, stop = running.folder, running.stop
    saved, reason, epochs = time.monotonic(), _cause_of_death(running.training), running.training.epochs
    while reason is None and running.training.epoch < epochs:
        training = running.training
        try:
            row = training.train_epoch()
        except Stopped:
            raise _saved_within_epoch(training, folder) from None
        except Exception as error:
            if isinstance(error, RuntimeError) and stop():  # the same signal has ended the DataLoader workers
                raise Interrupted(
                    "stopped within an epoch; continue from the last checkpoint with --resume"
                ) from error
            del training
            if not running.go_on_without(error):
                raise
            continue
        folder.append_row("metrics.jsonl", row)
        folder.append_row("timing.jsonl", training.timing[-1])
        progress({**row, "epochs": epochs})
        _log_alarms(raise_epoch_alarms(training), running.engine.log)
        reason = _cause_of_death(training)
        stopping = training.processes.any(stop())
        ending = reason is not None or training.epoch == epochs
        if stopping or ending or time.monotonic() - saved > SAVE_EVERY:
            if training.processes.rank == 0:
                checkpoint.save(folder.path, state_of(training))
            saved = time.monotonic()
        if stopping and not ending:
            training.processes.wait()
            raise Interrupted(f"stopped after epoch {training.epoch} of {epochs}; continue with --resume")
        del training
        if not ending:
            running.after_epoch()
    return reason


def _saved_within_epoch(training: TrainingRun, folder: Folder) -> Interrupted:
    """Save a checkpoint between two steps of an epoch: the error that says where the run stopped."""
    position = position_of(training)
    if training.processes.rank == 0:
        checkpoint.save(folder.path, {**state_of(training), "position": position})
    training.processes.wait()
    where = f"step {position['steps']} of epoch {training.epoch + 1} of {training.epochs}"
    return Interrupted(f"stopped after {where}; continue with --resume")


def _log_alarms(found: list[Alarm], log: Callable[[str], None]) -> None:
    for alarm in found:
        log(f"epoch {alarm.epoch}, {alarm}")


def _cause_of_death(training: TrainingRun) -> str | None:
    """Why the run cannot recover; None otherwise."""
    try:
        if training.metrics:
            classes, estimated = training.splits.data.num_classes, isinstance(training.reweight, ADIW)
            steps, samples = len(training.loop.loader), len(training.splits.train) if estimated else 0
            check_alive(training.metrics, classes, steps, samples)
    except DeadRunError as error:
        return str(error)
    return None


def _write_outcome(training: TrainingRun, folder: Folder, result: dict[str, Any]) -> None:
    """Write weights, their history, labels and predictions; result.json last, since it marks a complete folder."""
    audit = training.audit()
    if training.processes.rank > 0:
        return
    weights, splits = training.weights().cpu(), training.splits
    folder.write_array("weights.npy", weights.numpy())
    epochs = sorted(training.history)
    history = [training.history[epoch].numpy() for epoch in epochs]
    folder.write_array("weight_history.npy", np.stack(history) if epochs else np.zeros((0, 0), np.float32))
    folder.write_json("weight_history.json", {"epochs": epochs})
    shifted = splits.shifted
    predicted = torch.as_tensor(audit.predicted)
    labels = torch.stack([shifted.keep, shifted.y, shifted.true_y, predicted]).cpu()
    folder.write_array("labels.npy", labels.numpy())
    folder.write_json("classes.json", list(splits.data.classes))
    write_audit(folder, audit)
    if training.method.trains_on != "trusted":  # val-only weights trusted samples alone
        write_gallery(folder, splits, weights, torch.from_numpy(audit.order.copy()))
    if training.held_out:
        folder.write_array("held_out.npy", torch.stack(training.held_out).numpy())
    folder.write_json("result.json", result)
    folder.write_sums(*FILES)
