"""``python -m benchmarks.gauntlet.verdicts``: how often verdicts and alarms are wrong, on the tasks of the gauntlet.

For each task, method and seed, a part of the trusted samples is held out, and the method and the alternatives are
trained on the rest. The verdict is given on the held-out samples, and judged by the test samples, which are many.
With ``--folds K`` every trusted sample is held out once, by K trainings of each.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import adiw
from adiw.experiments.settings import HOLD_OUT
from adiw.reweighting import alarms
from adiw.reweighting.verdict import Comparison, Shift, answer_of, compare_losses, compare_rates
from benchmarks.gauntlet import records
from benchmarks.gauntlet.alternatives import joined
from benchmarks.gauntlet.halves import allowed, confirmed, read_halves
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.task import MissingError, Sources, Split, Task
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.training import criterion_for, fit, predictions
from benchmarks.record import describe

RESULTS = Path(__file__).with_name("verdicts.jsonl")
REFERENCES = ("uniform", "fine-tune", "trusted-only", "mixed")  # the first is what one would do without weights
JOINED = "default"  # adiw without settings, the method that trains on the trusted samples as well
FELL = 0.02  # of the test accuracy since its best: memorising
Key = tuple[str, str, int, int]  # task, method, seed, folds


@dataclass(frozen=True)
class Watched:
    """A weighted training: predictions, names of the last alarms, the shift, and test accuracy after each epoch."""

    predicted: Tensor
    alarms: list[str]
    shift: Shift
    after: Shift | None
    test_accuracy: list[float]


def train_watched(name: str, split: Split, task: Task) -> Watched:
    """adiw with a summary after each epoch, as a user would have it."""
    network, trusted, join = split.network(), TensorDataset(split.x_trusted, split.y_trusted), name == JOINED
    train_set = adiw.Indexed(TensorDataset(split.x_train, split.y_train), trusted if join else None)
    criterion, val_set = criterion_for(split.num_classes), train_set.trusted if join else trusted
    reweight = adiw.ADIW(network, criterion, val_set, len(train_set), None if join else name)
    epoch, accuracies = max(1, len(train_set) // task.length.batch), []

    def look(step: int) -> None:
        if step % epoch == 0 or step == task.length.steps:
            reweight.summary()
            if split.num_classes:
                right = predictions(network, split.x_test, split.num_classes) == split.y_test
                accuracies.append(right.double().mean().item())

    x, y = joined(split) if join else (split.x_train, split.y_train)
    fit(network, x, y, reweight, task.length, look)
    verdict, found = reweight.verdict(), reweight.summary().alarms
    predicted = predictions(network, split.x_test, split.num_classes)
    return Watched(predicted, [alarm.name for alarm in found], verdict.shift, verdict.after, accuracies)


def hold_out(split: Split, number: int, folds: int) -> tuple[Split, int]:
    """The split without a part of its trusted samples, which come first among the test samples; their number."""
    m = len(split.y_trusted)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(0))
    out = torch.zeros(m, dtype=torch.bool)
    out[order[: round(HOLD_OUT * m)] if folds == 1 else order[number::folds]] = True
    x, y = split.x_trusted, split.y_trusted
    test = {"x_test": torch.cat([x[out], split.x_test]), "y_test": torch.cat([y[out], split.y_test])}
    return replace(split, x_trusted=x[~out], y_trusted=y[~out], focus=None, **test), int(out.sum())


def compare(name: str, own: Tensor, other: Tensor, targets: Tensor, classes: int | None) -> Comparison:
    """Predictions of the method and of a reference for the same samples."""
    if classes:
        return compare_rates(name, own == targets, other == targets)
    return compare_losses(name, (own - targets).square(), (other - targets).square())


def judge(key: Key, sources: Sources) -> dict[str, Any]:
    """Train everything for one verdict, and judge it: its record."""
    task, (_, method, seed, folds) = TASKS[key[0]], key
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start, whole = time.process_time(), task.splits(sources, seed)[0]
    held_out: dict[str, list[Tensor]] = {name: [] for name in ("", *REFERENCES)}
    test: dict[str, Tensor] = {}
    targets, watched = [], []
    for number in range(folds):
        split, count = hold_out(whole, number, folds)
        torch.manual_seed(seed)
        watched.append(train_watched(method, split, task))
        outputs = {"": watched[-1].predicted}
        for name in REFERENCES:
            torch.manual_seed(seed)
            outputs[name] = METHODS[name].run(split, task.length).predicted
        targets.append(split.y_test[:count])
        for name, predicted in outputs.items():
            held_out[name].append(predicted[:count])
            test.setdefault(name, predicted[count:])
    pooled, classes = {name: torch.cat(parts) for name, parts in held_out.items()}, whole.num_classes
    given = [compare(name, pooled[""], pooled[name], torch.cat(targets), classes) for name in REFERENCES]
    truth = [compare(name, test[""], test[name], whole.y_test, classes) for name in REFERENCES]
    first = watched[0]
    return {
        **dict(zip(("task", "method", "seed", "folds"), key, strict=True)),
        "answer": answer_of(given),
        "shift": asdict(first.shift),
        "after": None if first.after is None else asdict(first.after),
        "held_out": [asdict(each) for each in given],
        "test": [asdict(each) for each in truth],
        "alarms": first.alarms,
        "faults": faults(first, test[""], whole, truth[0]),
        "settings": {"task": task.settings(), "references": REFERENCES},
        "cpu_seconds": round(time.process_time() - start, 2),
        **describe("adiw"),
    }


def faults(found: Watched, predicted: Tensor, split: Split, uniform: Comparison) -> dict[str, bool]:
    """What is wrong with a trained network, by its test samples."""
    wrong = {"worse than uniform": uniform.sign < 0}
    if split.num_classes:
        names = [alarm.name for alarm in alarms.prediction_alarms(predicted, split.y_test)]
        accuracy = found.test_accuracy
        wrong |= {"collapsed": "collapsed" in names, "predicted classes": bool(names)}
        wrong["memorising"] = max(accuracy) - accuracy[-1] > FELL
    return wrong


def is_false(name: str, record: dict[str, Any]) -> bool:
    """Whether an alarm was raised although the test samples show no fault that explains it."""
    wrong = record["faults"]
    return not (wrong.get(name, False) or wrong["worse than uniform"] or wrong.get("collapsed", False))


def summary(found: list[dict[str, Any]]) -> str:
    """Counts of right and wrong verdicts and alarms, as text."""

    def sign(row: dict[str, Any]) -> int:
        return (row["low"] > 0) - (row["high"] < 0)

    def share(part: list[Any], whole: list[Any]) -> str:
        return f"{len(part)} of {len(whole)}" + (f" ({100 * len(part) / len(whole):.1f}%)" if whole else "")

    by = {answer: [r for r in found if r["answer"] == answer] for answer in ("helps", "does no good", "cannot tell")}
    no_help = [r for r in by["helps"] if r["test"][0]["difference"] <= 0]
    good = [
        r
        for r in by["does no good"]
        if all(t["difference"] > 0 for g, t in zip(r["held_out"], r["test"], strict=True) if sign(g) < 0)
    ]
    clear = [r for r in found if sign(r["test"][0]) != 0]
    raised = [r for r in found if r["alarms"]]
    false = [r for r in raised if any(is_false(name, r) for name in r["alarms"])]
    collapses = [r for r in found if r["faults"].get("collapsed")]
    lines = [
        f"verdicts: {len(found)}; " + ", ".join(f"{name} {len(part)}" for name, part in by.items()),
        f"'helps' is wrong: {share(no_help, by['helps'])}",
        f"'does no good' is wrong: {share(good, by['does no good'])}",
        f"'cannot tell' where the test set differs significantly from uniform: "
        f"{share([r for r in clear if r['answer'] == 'cannot tell'], clear)}",
        f"collapses with an alarm: {share([r for r in collapses if 'collapsed' in r['alarms']], collapses)}",
        f"runs with a false alarm: {share(false, found)}",
        *(f"  false: {r['task']} {r['method']} {r['seed']}: {', '.join(r['alarms'])}" for r in false),
        *(f"  wrong: {r['task']} {r['method']} {r['seed']}: {r['answer']}" for r in (*no_help, *good)),
    ]
    return "\n".join(lines)


def read(path: Path) -> dict[Key, dict[str, Any]]:
    """The last record of each key whose task still has the recorded settings."""
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    fresh = (row for row in rows if row["settings"]["task"] == TASKS[row["task"]].settings())
    return {(row["task"], row["method"], row["seed"], row["folds"]): row for row in fresh}


def run_all(keys: list[Key], sources: Sources, processes: int, path: Path) -> Iterator[dict[str, Any] | str]:
    """Records as they come, appended to ``path``; a text for a task whose data are missing."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they start
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(judge, key, sources) for key in keys]):
            try:
                record = future.result()
            except MissingError as error:
                yield f"skipped: {error}"
                continue
            records.append(record, path)
            yield record


def main(given: list[str] | None = None) -> None:
    made = argparse.ArgumentParser("python -m benchmarks.gauntlet.verdicts", description=__doc__)
    made.add_argument("--half", choices=("development", "confirmation"), default="development")
    made.add_argument("--task", action="append", choices=TASKS, metavar="NAME", help="this task; may be repeated")
    made.add_argument(
        "--method", action="append", choices=(JOINED, *adiw.DIVERGENCES), help="[default: default, kl, mmd]"
    )
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--folds", type=int, default=1, help=f"1 holds out {HOLD_OUT:g} of the trusted samples")
    made.add_argument("--processes", type=int, default=2)
    made.add_argument("--data", type=Path, default=Sources.data)
    made.add_argument("--tables", type=Path, default=Sources.tables)
    made.add_argument("--results", type=Path, default=RESULTS)
    made.add_argument("--table", action="store_true", help="print the figures of what is recorded, and run nothing")
    arguments = made.parse_args(given)
    tasks = [task for task in read_halves()[arguments.half] if not arguments.task or task in arguments.task]
    keys = [
        (task, method, seed, arguments.folds)
        for seed in range(arguments.seeds)
        for task in tasks
        for method in arguments.method or (JOINED, "kl", "mmd")
        if allowed(task, method, confirmed())
    ]
    found = read(arguments.results)
    if not arguments.table:
        missing = [key for key in keys if key not in found]
        sources = Sources(arguments.data, arguments.tables)
        for record in run_all(missing, sources, arguments.processes, arguments.results):
            text = record if isinstance(record, str) else f"{record['task']} {record['method']}: {record['answer']}"
            print(text, flush=True)
        found = read(arguments.results)
    print(summary([found[key] for key in keys if key in found]))


if __name__ == "__main__":
    main()
