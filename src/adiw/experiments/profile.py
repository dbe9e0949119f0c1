"""Where the steps of DIW and ADIW spend their time, stage by stage, in the paper's window of iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.data import Samples
from adiw.engine.loop import set_learning_rate
from adiw.engine.preprocessing import crop_and_flip, draw_crops
from adiw.engine.profiler import profile_window
from adiw.engine.stages import STAGES, StagedStep
from adiw.engine.trace import StageTime
from adiw.engine.train_loader import Batch, DatasetLoader, epoch_generator
from adiw.engine.train_loader import batches as loaded
from adiw.experiments.implementations import check_method, find, with_solver
from adiw.experiments.job import build_model, build_optimizer
from adiw.experiments.methods import Context
from adiw.experiments.methods import find as find_method
from adiw.experiments.profile_plan import Plan, check_same
from adiw.experiments.record import Folder, commit, provenance
from adiw.experiments.run import WORKERS
from adiw.experiments.settings import Settings
from adiw.experiments.task import Task, prepare

FILE = "profile.json"
Progress = Callable[[str, int], None]


def profile_all(
    settings: Mapping[str, Settings],
    plan: Plan,
    out: Path,
    root: Path | None = None,
    device: torch.device | None = None,
    workers: int = WORKERS,
    progress: Progress = lambda name, epoch: None,
) -> dict[str, Any]:
    """Profile the implementations that ``settings`` names, and return the content of the folder's profile.json.

    The file is written after each of them. One that is in it already is not run again; a file that was made with
    other settings or another plan is refused.

    Args:
        settings: implementation -> settings, see ``adiw.experiments.implementations.settings_of``.
        root, device, workers: as for ``adiw.experiments.run.run``.
        progress: called with the implementation and the number of each epoch that has ended.
    """
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = Folder(out)
    common = {"plan": plan.as_dict(), "device": device.type, "workers": workers}
    content = folder.read_json(FILE) or {**common, "implementations": {}}
    for name, chosen in settings.items():
        check_method(name, chosen)
        check_same(folder.path / FILE, content, common, name, chosen)
    folder.create()
    for name, chosen in settings.items():
        if name not in content["implementations"]:
            task = prepare(chosen, root)
            content["implementations"][name] = profile_one(name, chosen, plan, task, device, workers, progress)
            folder.unseal()
            folder.write_json(FILE, content)
            folder.seal(FILE, "recipe.json")
    return dict(content)


def profile_one(
    name: str, settings: Settings, plan: Plan, task: Task, device: torch.device, workers: int, progress: Progress
) -> dict[str, Any]:
    """Train one implementation up to the last profiled epoch: its entry for profile.json.

    Seconds are those of the recorded iterations together, as in the paper, averaged over the windows.
    """
    commit()  # as it is now, not when the profile ends
    used, notes = with_solver(settings) if find(name).program else (settings, [])
    train = DatasetLoader(task.train, settings.batch, settings.seed, device, workers)
    length = plan.length(len(train))
    step = build_step(name, used, task, device, workers)
    windows = []
    for epoch in range(1, max(plan.epochs) + 1):
        set_learning_rate(step.optimizer, settings.learning_rate(epoch - 1))
        batches = training_batches(train, task, epoch - 1)
        if epoch in plan.epochs:
            stages, whole = profile_window(partial(step, batches), plan.skip, plan.stabilise, plan.record, device)
            windows.append({"epoch": epoch, **_as_dict(stages, whole)})
        rest = 0 if epoch == max(plan.epochs) else length - plan.window * (epoch in plan.epochs)
        for _ in range(rest):
            step(batches)
        progress(name, epoch)
    return {
        "settings": settings.as_dict(),
        "solver": used.solver if find(name).program else None,
        "notes": notes,
        **_mean(windows),
        "windows": windows,
        **provenance(device),
    }


def build_step(name: str, settings: Settings, task: Task, device: torch.device, workers: int) -> StagedStep:
    """Network, optimizer and method of an implementation, and its own way to validation batches."""
    torch.manual_seed(settings.seed)
    model = build_model(settings, task).to(device).train()
    optimizer = build_optimizer(settings, model)
    criterion, random = nn.CrossEntropyLoss(reduction="none"), Generator().manual_seed(settings.seed)
    unread = {"cache_bytes": 0, "val_workers": 0}  # validation batches come from the feed below
    context = Context(settings, task, model, criterion, optimizer, random, _no_features, unread)
    reweight: Any = find_method(settings.method).build(context).to("cpu" if find(name).on_cpu else device)
    feed = DatasetLoader(task.trusted, settings.val_batch, settings.seed, device, workers)
    bf16 = settings.bf16 and device.type == "cuda"
    return StagedStep(model, optimizer, reweight, find(name).validation(partial(loaded, feed)), bf16, settings.clip)


def _no_features() -> tuple[Tensor, Tensor]:
    raise AssertionError("neither DIW nor ADIW asks for features of another network")


def training_batches(feed: DatasetLoader, task: Task, epoch: int) -> Iterator[Batch]:
    """An epoch's batches through a loader, in-memory samples too; those are augmented when they have arrived."""
    if not (task.data.augment and isinstance(task.train, Samples)):
        yield from loaded(feed, epoch)
        return
    random = epoch_generator(feed.seed, epoch)
    for x, y, index in loaded(feed, epoch):
        yield crop_and_flip(x, draw_crops(len(x), random).to(x.device, non_blocking=True)), y, index


def _as_dict(stages: Mapping[str, StageTime], whole: StageTime) -> dict[str, Any]:
    return {"stages": {name: asdict(time) for name, time in stages.items()}, "window": asdict(whole)}


def _mean(windows: list[dict[str, Any]]) -> dict[str, Any]:
    """The stages and the whole, averaged over the windows."""
    return {
        "stages": {name: _average([window["stages"][name] for window in windows]) for name in STAGES},
        "window": _average([window["window"] for window in windows]),
    }


def _average(times: list[dict[str, float | None]]) -> dict[str, float | None]:
    """The mean of each figure; None where there is none."""
    columns = {key: [time[key] for time in times] for key in times[0]}
    known = {key: [value for value in values if value is not None] for key, values in columns.items()}
    return {key: sum(values) / len(values) if values else None for key, values in known.items()}
