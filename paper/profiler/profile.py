"""Train each implementation and time the stages of its steps in the profiled windows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.data import Samples
from adiw.engine.checkpoint import CheckpointError, write_atomically
from adiw.engine.loop import set_learning_rate
from adiw.engine.preprocessing import crop_and_flip, draw_crops
from adiw.engine.train_loader import Batch, DatasetLoader, epoch_generator
from adiw.engine.train_loader import batches as loaded
from adiw.experiments.methods import Context
from adiw.experiments.methods import find as find_method
from adiw.experiments.model_and_optimizer import build_model, build_optimizer, learning_rate
from adiw.experiments.provenance import commit, provenance
from adiw.experiments.settings import Settings
from adiw.experiments.splits import Splits, load_splits
from adiw.experiments.training_run import WORKERS
from paper.profiler.implementations import check_method, find, with_installed_solver
from paper.profiler.plan import Plan
from paper.profiler.stages import STAGES, StagedStep
from paper.profiler.table import FILE
from paper.profiler.trace import StageTime, profile_window

OnEpoch = Callable[[str, int], None]  # called with the implementation and the number of the epoch that has ended


def profile_all(
    settings: Mapping[str, Settings],
    plan: Plan,
    out: Path,
    root: Path | None = None,
    device: torch.device | None = None,
    workers: int = WORKERS,
    on_epoch: OnEpoch = lambda name, epoch: None,
) -> dict[str, Any]:
    """Profile the implementations in ``settings`` and return the content of the folder's profile.json.

    The file is written after each implementation. An implementation that it already contains is not run again; a
    file with other settings or another plan is refused.
    """
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    file = out / FILE
    common = {"plan": plan.as_dict(), "device": device.type, "workers": workers}
    content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {**common, "implementations": {}}
    for name, chosen in settings.items():
        check_method(name, chosen)
        check_same(file, content, common, name, chosen)
    out.mkdir(parents=True, exist_ok=True)
    for name, chosen in settings.items():
        if name not in content["implementations"]:
            splits = load_splits(chosen, root)
            content["implementations"][name] = profile_one(name, chosen, plan, splits, device, workers, on_epoch)
            write_atomically(file, (json.dumps(content, indent=2) + "\n").encode())
    return content


def check_same(
    file: Path, content: Mapping[str, Any], common: Mapping[str, Any], name: str, settings: Settings
) -> None:
    """Raise if the file's ``content`` has another plan or device, or other settings of this implementation."""
    changed = [f"{key} was {content.get(key)}, is {common[key]}" for key in common if content.get(key) != common[key]]
    if name in content["implementations"]:
        found, given = content["implementations"][name]["settings"], settings.as_dict()
        changed += [
            f"{key} of {name} was {found.get(key)}, is {given.get(key)}"
            for key in {**found, **given}
            if found.get(key) != given.get(key)
        ]
    if changed:
        raise CheckpointError(
            f"{file} was made with other settings ({'; '.join(changed)}): choose another folder, or delete the file"
        )


def profile_one(
    name: str, settings: Settings, plan: Plan, splits: Splits, device: torch.device, workers: int, on_epoch: OnEpoch
) -> dict[str, Any]:
    """Train one implementation up to the last profiled epoch and return its entry for profile.json.

    As in the paper, seconds are those of all recorded iterations of a window together, averaged over the windows.
    """
    commit()  # caches the commit of the start
    used, notes = with_installed_solver(settings) if find(name).program else (settings, [])
    train = DatasetLoader(splits.train, settings.batch, settings.seed, device, workers)
    length, last = plan.length(len(train)), max(plan.epochs)
    step = build_step(name, used, splits, device, workers)
    windows = []
    for epoch in range(1, last + 1):
        set_learning_rate(step.optimizer, learning_rate(settings, epoch - 1))
        batches, done = training_batches(train, splits, epoch - 1), 0
        if epoch in plan.epochs:
            window = (plan.skip, plan.stabilise, plan.record)
            stages, whole = profile_window(partial(step, batches), STAGES, *window, device)
            windows.append({"epoch": epoch, **_as_dict(stages, whole)})
            done = plan.window
        for _ in range(0 if epoch == last else length - done):
            step(batches)
        on_epoch(name, epoch)
    return {
        "settings": settings.as_dict(),
        "solver": used.solver if find(name).program else None,
        "notes": notes,
        **_mean(windows),
        "windows": windows,
        **provenance(device),
    }


def build_step(name: str, settings: Settings, splits: Splits, device: torch.device, workers: int) -> StagedStep:
    """The staged step of an implementation: network, optimizer, method and validation batches."""
    torch.manual_seed(settings.seed)
    model = build_model(settings, splits).to(device).train()
    optimizer = build_optimizer(settings, model)
    criterion, random = nn.CrossEntropyLoss(reduction="none"), Generator().manual_seed(settings.seed)
    no_cache = {"cache_bytes": 0, "val_workers": 0}  # validation batches come from the loader below
    context = Context(settings, splits, model, criterion, optimizer, random, _no_features, no_cache)
    reweight: Any = find_method(settings.method).build(context).to("cpu" if find(name).on_cpu else device)
    val_loader = DatasetLoader(splits.trusted, settings.val_batch, settings.seed, device, workers)
    bf16 = settings.bf16 and device.type == "cuda"
    return StagedStep(
        model, optimizer, reweight, find(name).validation(partial(loaded, val_loader)), bf16, settings.clip
    )


def _no_features() -> tuple[Tensor, Tensor]:
    raise AssertionError("neither DIW nor ADIW uses features of another network")


def training_batches(loader: DatasetLoader, splits: Splits, epoch: int) -> Iterator[Batch]:
    """The batches of an epoch through a DataLoader; samples in memory are augmented on the device."""
    if not (splits.data.augment and isinstance(splits.train, Samples)):
        yield from loaded(loader, epoch)
        return
    random = epoch_generator(loader.seed, epoch)
    for x, y, index in loaded(loader, epoch):
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
    """The mean of each figure over the windows that have it; None if none has."""
    columns = {key: [time[key] for time in times] for key in times[0]}
    known = {key: [value for value in values if value is not None] for key, values in columns.items()}
    return {key: sum(values) / len(values) if values else None for key, values in known.items()}
