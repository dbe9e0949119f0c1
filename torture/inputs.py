"""Bad inputs for every public name and every command must give a clear error or a defined result."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random

import torch

from torture.command_inputs import check_commands
from torture.entries import entries
from torture.record import Record, arguments
from torture.verdict import verdict

PART, COMMANDS, OUTSIDE = 500, 0.1, 0.002  # inputs of a part; share for the command; share in a new process
ABOUT = "generated bad inputs for the public names and the command: a clear error or a defined result, no traceback"


def shown(value: object) -> str:
    text = f"{value!r}" if not isinstance(value, torch.Tensor) else f"{value.dtype}{tuple(value.shape)} {value}"
    return " ".join(text.split())[:200]


def check_names(count: int, random: Random, work: Path, counts: Counter[str], wrong: list[str]) -> None:
    """Call public names with bad arguments."""
    table = entries(work)
    for entry in random.choices(table, [entry.share for entry in table], k=count):
        changed = entry.change(random)
        found, details = verdict(partial(entry.call, **entry.good() | changed), entry.defined)
        counts[found] += 1
        if found == "wrong":
            given = ", ".join(f"{name}={shown(value)}" for name, value in changed.items())
            wrong.append(f"{entry.name}: {details} <- {given}")


def check_part(count: int, seed: str) -> tuple[Counter[str], list[str]]:
    """Try ``count`` inputs; return the counts and the failures."""
    torch.set_num_threads(1)
    random, counts, wrong = Random(seed), Counter[str](), []
    commands, here = round(COMMANDS * count), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        check_names(count - commands, random, Path(folder), counts, wrong)
        try:
            check_commands(commands, round(OUTSIDE * count), random, Path(folder), wrong)
        finally:
            os.chdir(here)
    print(f"{seed}: {count} inputs, {len(wrong)} wrong", file=sys.stderr, flush=True)
    return counts + Counter({"calls": count - commands, "commands": commands}), wrong


def check(count: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Try ``count`` inputs in parts with their own seeds, on all processors."""
    parts = [(min(PART, count - start), f"{seed} {start}") for start in range(0, count, PART)]
    with get_context("spawn").Pool(min(len(parts), os.cpu_count() or 1)) as pool:
        found = pool.starmap(check_part, parts, chunksize=1)
    counts = sum((part for part, _ in found), Counter[str]())
    wrong = [line for _, lines in found for line in lines]
    verdicts = {"clear errors": counts["clear error"], "defined results": counts["defined result"]}
    kinds = {"inputs": count, "calls": counts["calls"], **verdicts, "commands": counts["commands"]}
    return {**kinds, "wrong": len(wrong)}, wrong


def main() -> int:
    given = arguments("Give bad inputs to every public name and every command.", count=10_000)
    torch.set_num_threads(1)
    record = Record("inputs", ABOUT, seed=given.seed)
    counts, wrong = check(given.count, given.seed)
    record.write(counts, wrong, given.out)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
