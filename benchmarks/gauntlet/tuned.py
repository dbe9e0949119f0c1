"""``python -m benchmarks.gauntlet.tuned``: the default beside the best divergence with settings chosen for each task.

The settings in ``candidates.TUNED`` run on draws of a task that the table does not use, and the best by their mean
test score are chosen for it: more than a user could do, who has no test samples. They then run on the draws of the
table, and so does the default, on the same machine. This is a reference, which no choice of ours depends on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.gauntlet import records
from benchmarks.gauntlet.candidates import TUNED
from benchmarks.gauntlet.command import add_options, chosen_tasks, report
from benchmarks.gauntlet.halves import confirmed, read_halves
from benchmarks.gauntlet.records import Key, Record
from benchmarks.gauntlet.running import plan
from benchmarks.gauntlet.table import CLOSE, DEFAULT, best, gain, markdown, values
from benchmarks.gauntlet.tasks import TASKS

RESULTS = Path(__file__).with_name("tuned.jsonl")
CHOICE_SEEDS, SEEDS = range(5, 7), range(5)


def choose(found: dict[Key, Record], task: str) -> str | None:
    """The settings that are best on the draws for choosing; None until all have run on all of them."""
    needed = {(task, name, seed) for name in TUNED for seed in CHOICE_SEEDS}
    if not needed <= found.keys():
        return None
    return best({key: found[key] for key in needed}, task, TUNED)


def to_choose(tasks: list[str], found: dict[Key, Record]) -> list[Key]:
    """The runs that are missing for a choice."""
    return plan(tasks, list(TUNED), CHOICE_SEEDS, found, confirmed())


def to_compare(tasks: list[str], found: dict[Key, Record]) -> list[Key]:
    """The runs of the chosen settings and of the default that are missing, of tasks with a choice."""
    choices = {task: name for task in tasks if (name := choose(found, task))}
    return [
        key
        for seed in SEEDS
        for task, name in choices.items()
        for key in plan([task], [name, DEFAULT], range(seed, seed + 1), found, confirmed())
    ]


def table(found: dict[Key, Record], tasks: list[str]) -> str:
    """The default against the chosen settings, task by task, and on how many it is close to them or above."""
    rows, near, count = [["task", "seeds", "chosen settings", "tuned", DEFAULT, "gain of the default"]], 0, 0
    for task in tasks:
        name = choose(found, task)
        drawn = {key: record for key, record in found.items() if key[2] in SEEDS}
        ours, theirs = values(drawn, task, DEFAULT), values(drawn, task, name) if name else {}
        over = gain(ours, theirs, TASKS[task].metric)
        if name is None or over is None:
            continue
        count, near = count + 1, near + (over.mean >= CLOSE)
        means = [f"{sum(part.values()) / len(part):.2f}" for part in (theirs, ours)]
        unit = " (RMSE)" if TASKS[task].metric == "rmse" else ""
        rows.append([task + unit, str(over.seeds), name.removeprefix("tuned-"), *means, str(over)])
    if not count:
        return "No records yet."
    verdict = f"The default is at most {-CLOSE} below the tuned divergence on {near} of {count} tasks."
    return f"{markdown(rows)}\n\n{verdict}"


def recorded_table() -> str:
    """The table of the committed records."""
    halves = read_halves()
    return table(records.read(TASKS, RESULTS), [*halves["development"], *halves["confirmation"]])


def main(given: list[str] | None = None) -> None:
    made = argparse.ArgumentParser("python -m benchmarks.gauntlet.tuned", description=__doc__)
    add_options(made, RESULTS)
    arguments = made.parse_args(given)
    tasks, end = chosen_tasks(arguments.half, arguments.task), time.monotonic() + arguments.budget
    failed = 0
    for missing in () if arguments.table else (to_choose, to_compare):
        arguments.budget = end - time.monotonic()
        found = records.read(TASKS, arguments.results)
        failed += report(missing(tasks, found), found, arguments)
    print(table(records.read(TASKS, arguments.results), tasks))
    if failed:
        raise SystemExit(f"{failed} runs failed: the same command makes them again")


if __name__ == "__main__":
    main()
