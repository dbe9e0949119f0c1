"""Options and output that the commands of the gauntlet share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from benchmarks.gauntlet.halves import Half, read_halves
from benchmarks.gauntlet.records import Key, Record
from benchmarks.gauntlet.running import Failed, Skipped, Unit, Work, estimate, run_all, run_unit, units
from benchmarks.gauntlet.task import Sources
from benchmarks.gauntlet.tasks import OWN, TASKS

UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float:
    """A duration: 90s, 20m or 3h.

    >>> seconds("20m")
    1200.0
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a duration such as 90s, 20m or 3h, got {text!r}")
    return float(match[1]) * UNITS[match[2]]


def add_options(made: argparse.ArgumentParser, results: Path) -> None:
    """Which tasks run, where their data are, for how long, and where the records are."""
    if OWN is not None:
        results = OWN.with_name(f"{OWN.stem}-{results.name}")
    made.add_argument(
        "--half", choices=get_args(Half), help="tasks of one half only, or the whole image sets for a GPU"
    )
    made.add_argument("--task", action="append", choices=TASKS, metavar="NAME", help="this task; may be repeated")
    made.add_argument("--budget", type=seconds, default="3h", help="start no run after this time [default: 3h]")
    made.add_argument("--processes", type=int, default=2, help="runs at a time, one thread each [default: 2]")
    made.add_argument(
        "--data",
        type=Path,
        default=Sources.data,
        help="folder with fashion-mnist, cifar-10-batches-bin and confirmation [default: $ADIW_DATA or data]",
    )
    made.add_argument(
        "--tables",
        type=Path,
        default=Sources.tables,
        help="folder with adult and employment [default: $ADIW_TABLES or ../shared/data]",
    )
    made.add_argument("--results", type=Path, default=results, help="file of the records")
    made.add_argument("--table", action="store_true", help="print the table of what is recorded, and run nothing")


def chosen_tasks(half: Half | None, names: list[str] | None) -> list[str]:
    """The tasks of a half, or of both; those for a GPU only where they are named. A user's own have no half."""
    if OWN is not None:
        return [task for task in TASKS if not names or task in names]
    halves = read_halves()
    if half:
        tasks = halves[half]
    else:
        tasks = [*halves["development"], *halves["confirmation"], *(halves["gpu"] if names else ())]
    return [task for task in tasks if not names or task in names]


def report(keys: list[Key], found: dict[Key, Record], arguments: argparse.Namespace) -> int:
    """Make these runs, with a line for each. Returns the number of those that failed."""
    minutes = estimate(keys, found) / arguments.processes / 60
    print(f"{len(keys)} runs to make, about {minutes:.0f} minutes with {arguments.processes} processes", flush=True)
    return make(run_unit, units(keys), arguments, _line)


def make(work: Work, units: list[Unit], arguments: argparse.Namespace, line: Callable[[Record], str]) -> int:
    """Make the runs of all units within the budget, and print ``line`` of each record. Returns the failed ones."""
    sources = Sources(arguments.data, arguments.tables)
    done, failed, total = 0, 0, sum(map(len, units))
    for result in run_all(work, units, sources, arguments.processes, arguments.budget, arguments.results):
        if isinstance(result, Skipped | Failed):
            failed += isinstance(result, Failed)
            print(f"{type(result).__name__.lower()} {result.name}: {result.reason}", flush=True)
            continue
        done += 1
        print(f"[{done}/{total}] {line(result)}", flush=True)
    return failed


def _line(record: Record) -> str:
    metric = TASKS[record["task"]].metric
    value = f"{metric} {record['metrics'][metric]:.2f}, {record['seconds']} s"
    return f"{record['task']} {record['method']} {record['seed']}: {value}"
