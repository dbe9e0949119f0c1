"""``python -m benchmarks.gauntlet``: run what is missing, or print the table of what is recorded."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.gauntlet import records, table, tuned
from benchmarks.gauntlet.command import add_options, chosen_tasks, report
from benchmarks.gauntlet.halves import RefusedError, allowed, confirm, confirmed, read_halves
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.records import Key, Record
from benchmarks.gauntlet.running import plan
from benchmarks.gauntlet.tasks import OWN, TASKS

PAGES = (Path(__file__).with_name("README.md"), Path(__file__).parents[2] / "docs" / "divergences.md")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m benchmarks.gauntlet", description="See benchmarks/gauntlet/README.md.")
    made.add_argument("--quick", action="store_true", help="one seed (--seeds 1)")
    made.add_argument("--seeds", type=int, default=5, help="seeds 0 to N-1 [default: 5]")
    made.add_argument(
        "--method", action="append", choices=METHODS, metavar="NAME", help="this method; may be repeated"
    )
    add_options(made, records.RESULTS)
    made.add_argument("--confirm", metavar="NAME", help="the one candidate that may run on the confirmation half")
    made.add_argument("--default", metavar="NAME", choices=METHODS, help="with --table: the method to judge")
    made.add_argument(
        "--draw", action="store_true", help="write the tables into README.md and the pages of the divergences"
    )
    return made


def print_table(found: dict[Key, Record], tasks: list[str], methods: list[str], default: str | None) -> None:
    found = table.comparable(found)
    print(table.means_table(found, tasks, methods))
    print("\n" + table.ranking(found, tasks, methods))
    if default is not None:
        print("\n" + table.default_table(found, tasks, default))


def run(found: dict[Key, Record], tasks: list[str], methods: list[str], arguments: argparse.Namespace) -> None:
    candidate = confirmed()
    refused = [m for m in methods if any(not allowed(task, m, candidate) for task in tasks)]
    if refused:
        print(f"not run outside of development without --confirm: {', '.join(refused)}", flush=True)
    seeds = 1 if arguments.quick else arguments.seeds
    if failed := report(plan(tasks, methods, range(seeds), found, candidate), found, arguments):
        raise SystemExit(f"{failed} runs failed: the same command makes them again")


def main(given: list[str] | None = None) -> None:
    arguments = parser().parse_args(given)
    tasks = chosen_tasks(arguments.half, arguments.task)
    # References, which are tuned for each task, have seeds and records of their own.
    asked = arguments.method or [name for name, method in METHODS.items() if method.group != "reference"]
    methods = [name for name in METHODS if name in asked]
    found = records.read(TASKS, arguments.results)
    if arguments.table:
        print_table(found, tasks, methods, arguments.default)
    elif arguments.draw:
        if OWN is not None:
            raise SystemExit("--draw writes the pages of this repository: unset ADIW_TASKS")
        for page in PAGES:
            page.write_text(table.draw(page.read_text(), found, read_halves(), tuned.recorded_table()))
    else:
        try:
            if arguments.confirm:
                confirm(arguments.confirm)
        except RefusedError as error:
            raise SystemExit(f"refused: {error}") from None
        run(found, tasks, methods, arguments)


if __name__ == "__main__":
    main()
