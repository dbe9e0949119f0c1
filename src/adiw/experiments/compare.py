"""The simple alternatives beside a run: the same data, network and held-out samples, without estimated weights."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adiw.distributed.process_group import current_processes
from adiw.experiments.best_epoch import right_in_other_parts
from adiw.experiments.checked_io import Row, read_array, read_json
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.methods import find
from adiw.experiments.run import FILES, run
from adiw.experiments.run_folder import Folder
from adiw.experiments.settings import Settings
from adiw.experiments.training_run import Engine
from adiw.reweighting.diagnostics.verdict import Shift, compare_rates, make_verdict

FOLDER = "compare"  # of the alternatives, in the folder of the run
# The first is what one would do without trusted samples: the weights help if they are better than that.
ALTERNATIVES = ("uniform", "mixed", "fine-tune", "val-only")


def alternatives(settings: Settings) -> dict[str, Settings]:
    """The settings of each alternative to a run, by its method.

    Trusted samples that are part of the training set are trained on by all methods: "mixed" is then "uniform".
    """
    methods = [name for name in ALTERNATIVES if name != settings.method]
    if settings.trusted_folder is None:
        methods.remove("mixed")
    return {method: replace(settings, method=method, set=None) for method in methods}


def plan_runs(settings: Settings, out: Path, folds: int) -> dict[str, dict[Path, Settings]]:
    """The runs that are compared, by method and folder: the run in ``out`` itself, and its alternatives.

    With several folds each method, that of the run too, is trained once for each fold of the trusted samples, with
    this fold held out.
    """
    methods = {settings.method: settings, **alternatives(settings)}
    if folds == 1:
        return {m: {out if m == settings.method else out / FOLDER / m: each} for m, each in methods.items()}
    numbers = range(1, folds + 1)
    return {
        m: {out / FOLDER / m / f"fold-{k}-{folds}": replace(each, fold=f"{k}/{folds}") for k in numbers}
        for m, each in methods.items()
    }


def compared_folds(out: Path) -> int | None:
    """The number of folds that the run in ``out`` was compared with before; None if it was not."""
    folds = [int(folder.name.rpartition("-")[2]) for folder in (out / FOLDER).glob("*/fold-*-*")]
    return max(folds, default=1 if (out / FOLDER).is_dir() else None)


def run_alternatives(
    settings: Settings,
    out: Path,
    root: Path | None,
    engine: Engine,
    folds: int = 1,
    progress: Callable[[str, Row], None] = lambda method, row: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run what is compared with the run in ``out`` and has not ended; return its result.json with the verdict.

    The runs are in folders below ``out``; those that were stopped are resumed. A dead one is compared as well.
    """
    planned, processes = plan_runs(settings, out, folds), current_processes()
    # Without the alarms of the alternatives, which are in their result.json.
    quieter = replace(engine, log=lambda line: None if line.startswith("epoch ") else engine.log(line))
    for method, runs in planned.items():
        for folder, changed in runs.items():
            if processes.broadcast_object((folder / "result.json").exists()):
                continue
            begun = processes.broadcast_object((folder / "config.json").exists())
            name = method if changed.fold is None else f"{method}, fold {changed.fold}"
            try:
                run(changed, folder, root, _named(name, quieter), begun, partial(progress, name), stop)
            except DeadRunError as error:
                engine.log(f"{name} is dead: {error}")
    result: dict[str, Any] = {}
    if processes.rank == 0:
        result = with_verdict(out, settings.method, {method: list(runs) for method, runs in planned.items()})
        target = Folder(out)
        target.remove_sums()
        target.write_json("result.json", result)
        target.write_sums(*FILES)
    return processes.broadcast_object(result)


def _named(name: str, engine: Engine) -> Engine:
    """The engine, with the run's name before each of its stages."""
    return replace(engine, stage=lambda text: engine.stage(f"{name}: {text}"))


def with_verdict(out: Path, method: str, folders: dict[str, list[Path]]) -> dict[str, Any]:
    """The result of the run in ``out``, with the verdict from the runs in the ``folders`` of each method."""
    result: dict[str, Any] = read_json(out / "result.json")
    before: dict[str, Any] = result.get("verdict") or {"shift": {"found": None}, "after": None}
    shift, after = Shift(**before["shift"]), None if before["after"] is None else Shift(**before["after"])
    right = {name: held_out_right(runs, find(name).warmup) for name, runs in folders.items()}
    own = right.pop(method)
    if own is None:
        return {**result, "verdict": make_verdict(shift, after).as_dict()}
    compared = compare_rates(own, {name: other for name, other in right.items() if other is not None})
    verdict = make_verdict(shift, after, 100 * float(own.double().mean()), compared or None)
    return {**result, "verdict": verdict.as_dict()}


def held_out_right(folders: list[Path], warmup: int) -> Tensor | None:
    """(m,) which held-out samples of the runs in these folders are predicted correctly; None without any.

    Each is evaluated after an epoch that was chosen on other samples: those of the other folds, or the other half.
    The first ``warmup`` epochs are not chosen.
    """
    files = [folder / "held_out.npy" for folder in folders]
    if not all(file.exists() for file in files):
        return None
    found = [torch.from_numpy(read_array(file)) for file in files]
    epochs = min(len(right) for right in found)
    fold = torch.arange(len(found)).repeat_interleave(torch.tensor([right.shape[1] for right in found]))
    part = fold if len(found) > 1 else None
    return right_in_other_parts(torch.cat([right[:epochs] for right in found], 1), part, warmup)


def comparison_rows(out: Path, result: dict[str, Any], settings: Settings, folds: int = 1) -> list[Row]:
    """A row for the run and for each alternative: method, accuracies on the test and held-out samples, interval.

    The accuracy on the test set is the mean over the folds whose training is not ``dead``, if there is one.
    """
    verdict = result["verdict"]
    compared = {each["method"]: each for each in verdict["comparison"] or ()}
    rows: list[Row] = []
    for method, runs in plan_runs(settings, out, folds).items():
        found = compared.get(method, {"score": verdict["score"]} if method == settings.method else {"score": None})
        results = [read_json(folder / "result.json") for folder in runs]
        tested = [each["accuracy"] for each in results if each["status"] == "done"]
        mean, dead = statistics.fmean(tested) if tested else None, len(results) - len(tested)
        rows.append({"accuracy": mean, "held_out": found["score"], "dead": dead, **found, "method": method})
    return rows
