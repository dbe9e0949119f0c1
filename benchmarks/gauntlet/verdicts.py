"""``python -m benchmarks.gauntlet.verdicts``: how often verdicts and alarms are wrong, on the tasks of the gauntlet.

The trusted samples of a task are held out in folds. For each fold, method and seed, the method and the alternatives
are trained on the rest. The verdict is given on the held-out samples of all folds, and judged by the test samples,
which are many. The alarms of each training are judged as ``alarms`` says. One line of JSON for each fold of a task,
method and seed; what is recorded is not run again, unless the settings of its task or method have changed: then it is
removed.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

import adiw
from adiw.reweighting.diagnostics.verdict import Comparison, answer_of, compare_losses, compare_rates
from benchmarks.gauntlet import alarms, records
from benchmarks.gauntlet.alarms import share
from benchmarks.gauntlet.command import add_options, chosen_tasks, make
from benchmarks.gauntlet.halves import allowed, confirmed
from benchmarks.gauntlet.records import Record
from benchmarks.gauntlet.running import Unit
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.watched import ENDS, FIELDS, JOINED, judge, method_settings, row_of

RESULTS = Path(__file__).with_name("verdicts_by_fold.jsonl")


def pooled(folds: list[Record]) -> list[Comparison]:
    """The method against each reference on the held-out samples of all folds."""
    outcomes = {name: [each for fold in folds for each in fold["held_out"][name]] for name in folds[0]["held_out"]}
    if isinstance(outcomes["adiw"][0], str):
        right = {name: torch.tensor([each == "1" for each in values]) for name, values in outcomes.items()}
        return compare_rates(right.pop("adiw"), right)
    losses = {name: torch.tensor(values) for name, values in outcomes.items()}
    return compare_losses(losses.pop("adiw"), losses)


def verdict(folds: list[Record]) -> Record:
    """The verdict of one task, method and seed, and the truth.

    The truth has means over the folds: their networks are tested on the same samples, so the mean of the ends of
    their intervals is an interval, too.
    """
    held_out = pooled(folds)
    test = [
        {end: sum(fold["test"][position][end] for fold in folds) / len(folds) for end in ENDS}
        for position in range(len(held_out))
    ]
    head = {field: folds[0][field] for field in FIELDS[:3]}
    return head | {"answer": answer_of(held_out), "held_out": [row_of(each) for each in held_out], "test": test}


def summary(found: list[Record]) -> str:
    """Counts of right and wrong verdicts, as text."""

    def sign(row: dict[str, Any]) -> int:
        return (row["low"] > 0) - (row["high"] < 0)

    by = {answer: [r for r in found if r["answer"] == answer] for answer in ("helps", "does no good", "cannot tell")}
    no_help = [r for r in by["helps"] if r["test"][0]["difference"] <= 0]
    good = [
        r
        for r in by["does no good"]
        if all(t["difference"] > 0 for g, t in zip(r["held_out"], r["test"], strict=True) if sign(g) < 0)
    ]
    clear = [r for r in found if sign(r["test"][0]) != 0]
    lines = [
        f"verdicts: {len(found)}; " + ", ".join(f"{name} {len(part)}" for name, part in by.items()),
        f"'helps' is wrong: {share(no_help, by['helps'])}",
        f"'does no good' is wrong: {share(good, by['does no good'])}",
        f"'cannot tell' where the test set differs significantly from uniform: "
        f"{share([r for r in clear if r['answer'] == 'cannot tell'], clear)}",
        *(f"  wrong: {r['task']} {r['method']} {r['seed']}: {r['answer']}" for r in (*no_help, *good)),
    ]
    return "\n".join(lines)


def read(path: Path) -> dict[tuple[Any, ...], Record]:
    """The last record of each key whose task and method still have the recorded settings."""
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {tuple(row[field] for field in FIELDS): row for row in rows if is_fresh(row)}


def is_fresh(row: Record) -> bool:
    """Whether the task and the method of a record still have its settings."""
    task, settings = TASKS.get(row["task"]), row["settings"]
    own = task and {"task": task.settings(), "method": method_settings(row["method"])}
    return bool({key: settings.get(key) for key in ("task", "method")} == own)


def units(arguments: argparse.Namespace) -> list[Unit]:
    """What the arguments name, as far as the halves allow it: all methods on a fold share their references."""
    return [
        methods
        for seed in range(arguments.seeds)
        for fold in range(arguments.folds)
        for task in chosen_tasks(arguments.half, arguments.task)
        if (
            methods := [
                (task, method, seed, arguments.folds, fold)
                for method in arguments.method or (JOINED, "kl", "mmd")
                if allowed(task, method, confirmed())
            ]
        )
    ]


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.gauntlet.verdicts", description=__doc__)
    names = (JOINED, *adiw.DIVERGENCES)
    parser.add_argument("--method", action="append", choices=names, help="[default: default, kl and mmd]")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0 to N-1 [default: 1]")
    parser.add_argument(
        "--folds", type=int, default=5, help="[default: 5]; 1 holds out the share that the command does"
    )
    add_options(parser, RESULTS)
    arguments = parser.parse_args(given)
    if not arguments.table:
        records.keep(arguments.results, is_fresh)
    wanted, found = units(arguments), read(arguments.results)
    missing = [left for unit in wanted if (left := [key for key in unit if key not in found])]
    failed = 0 if arguments.table else make(judge, missing, arguments, line)
    found = read(arguments.results)
    trainings = [found[key] for unit in wanted for key in unit if key in found]
    folds = defaultdict(list)
    for record in trainings:
        folds[record["task"], record["method"], record["seed"]].append(record)
    print(summary([verdict(each) for each in folds.values() if len(each) == arguments.folds]))
    print(alarms.summary(trainings))
    if failed:
        raise SystemExit(f"{failed} runs failed: the same command makes them again")


def line(record: Record) -> str:
    """What is printed of a record."""
    ahead = record["test"][0]["difference"]
    return f"{' '.join(str(record[field]) for field in FIELDS)}: {ahead:+.2f} to uniform, alarms {record['alarms']}"


if __name__ == "__main__":
    main()
