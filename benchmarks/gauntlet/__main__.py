"""``python -m benchmarks.gauntlet``: run what is missing, or print the table of what is recorded."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import get_args

from benchmarks.gauntlet import records, table
from benchmarks.gauntlet.halves import Half, RefusedError, allowed, confirm, confirmed, read_halves
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.records import Key, Record
from benchmarks.gauntlet.running import Skipped, estimate, plan, run_all
from benchmarks.gauntlet.task import Sources
from benchmarks.gauntlet.tasks import TASKS

PAGES = [Path(__file__).parents[2] / name for name in ("docs/density-ratios.md", "docs/distances.md")]
PAGES.append(Path(__file__).with_name("README.md"))
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


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m benchmarks.gauntlet", description="See benchmarks/gauntlet/README.md.")
    made.add_argument("--quick", action="store_true", help="one seed (--seeds 1)")
    made.add_argument("--seeds", type=int, default=5, help="seeds 0 to N-1 [default: 5]")
    made.add_argument("--half", choices=get_args(Half), help="tasks of one half only")
    made.add_argument("--task", action="append", choices=TASKS, metavar="NAME", help="this task; may be repeated")
    made.add_argument(
        "--method", action="append", choices=METHODS, metavar="NAME", help="this method; may be repeated"
    )
    made.add_argument("--budget", type=seconds, default="3h", help="start no run after this time [default: 3h]")
    made.add_argument("--processes", type=int, default=2, help="runs at a time, one thread each [default: 2]")
    made.add_argument(
        "--data",
        type=Path,
        default=Sources.data,
        help="folder with fashion-mnist and confirmation [default: $ADIW_DATA or data]",
    )
    made.add_argument(
        "--tables",
        type=Path,
        default=Sources.tables,
        help="folder with adult and employment [default: $ADIW_TABLES or ../shared/data]",
    )
    made.add_argument("--results", type=Path, default=records.RESULTS, help="file of the records")
    made.add_argument("--confirm", metavar="NAME", help="the one candidate that may run on the confirmation half")
    made.add_argument("--default", metavar="NAME", choices=METHODS, help="with --table: the method to judge")
    made.add_argument("--table", action="store_true", help="print the table of what is recorded, and run nothing")
    made.add_argument(
        "--draw", action="store_true", help="write the tables into README.md and the pages of the divergences"
    )
    return made


def chosen_tasks(half: Half | None, names: list[str] | None) -> list[str]:
    halves = read_halves()
    tasks = halves[half] if half else halves["development"] + halves["confirmation"]
    return [task for task in tasks if not names or task in names]


def print_table(found: dict[Key, Record], tasks: list[str], methods: list[str], default: str | None) -> None:
    print(table.means_table(found, tasks, methods))
    print("\n" + table.ranking(found, tasks, methods))
    if default is not None:
        print("\n" + table.default_table(found, tasks, default))


def run(found: dict[Key, Record], tasks: list[str], methods: list[str], arguments: argparse.Namespace) -> None:
    candidate = confirmed()
    seeds = 1 if arguments.quick else arguments.seeds
    keys = plan(tasks, methods, seeds, found, candidate)
    minutes = estimate(keys, found) / arguments.processes / 60
    print(f"{len(keys)} runs to make, about {minutes:.0f} minutes with {arguments.processes} processes", flush=True)
    refused = [m for m in methods if any(not allowed(task, m, candidate) for task in tasks)]
    if refused:
        print(f"not run on the confirmation half without --confirm: {', '.join(refused)}", flush=True)
    sources = Sources(arguments.data, arguments.tables)
    done = 0
    for result in run_all(keys, sources, arguments.processes, arguments.budget, arguments.results):
        if isinstance(result, Skipped):
            print(f"skipped {result.name}: {result.reason}", flush=True)
            continue
        done += 1
        metric = TASKS[result["task"]].metric
        value = f"{metric} {result['metrics'][metric]:.2f}, {result['cpu_seconds']} s"
        print(f"[{done}/{len(keys)}] {result['task']} {result['method']} {result['seed']}: {value}", flush=True)


def main(given: list[str] | None = None) -> None:
    arguments = parser().parse_args(given)
    tasks = chosen_tasks(arguments.half, arguments.task)
    methods = [name for name in METHODS if not arguments.method or name in arguments.method]
    found = records.read(TASKS, arguments.results)
    if arguments.table:
        print_table(found, tasks, methods, arguments.default)
    elif arguments.draw:
        for page in PAGES:
            page.write_text(table.draw(page.read_text(), found, read_halves()))
    else:
        try:
            if arguments.confirm:
                confirm(arguments.confirm)
        except RefusedError as error:
            raise SystemExit(f"refused: {error}") from None
        run(found, tasks, methods, arguments)


if __name__ == "__main__":
    main()
