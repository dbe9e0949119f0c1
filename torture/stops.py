"""Stop runs and a sweep by signals at random moments, and resume them: the files of those that were left alone.

A signal goes to all processes of the command, as on SLURM: also to the workers that decode images and to the
processes of a sweep. Stops of more than ``LIMIT`` seconds are counted: other work on the machine delays them.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch

from adiw.engine import checkpoint
from tests.cli.images import write_images
from tests.experiments.small_sweeps import TEXT, files, write_recipe
from torture.compare import differences
from torture.kills import launch, wait_for, warm_up
from torture.record import Record, arguments

LIMIT, HANGS = 5.0, 300.0  # longest seconds of a stop; of a command
SIGNALS = (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
COMMON = ("--quiet", "--device", "cpu")
NOT_BEGUN = -signal.SIGINT, -signal.SIGTERM, -signal.SIGUSR1  # before the command has installed its handler


@dataclass
class Case:
    """A command that is stopped again and again.

    Attributes:
        share: of the stops.
        arguments: of the command, without the folder of its files.
        differences: a line for each difference between the files of two of its folders.
        resume: more arguments for a folder that holds a run.
        forked: fork it from this process, which saves its start; processes of a sweep need their own.
    """

    share: float
    arguments: tuple[object, ...]
    differences: Callable[[Path, Path], list[str]] = differences
    resume: tuple[str, ...] = ("--resume",)
    forked: bool = True


@dataclass
class Tally:
    """Counts of what was done, the seconds of each stop, and a line for each slow one and each failure."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def cases(work: Path) -> dict[str, Case]:
    """A run with dropout, a run on augmented images with two workers, and a sweep in two processes."""
    images = write_images(work / "images", train=40)
    recipe = write_recipe(work, text=TEXT.replace("epochs = 2", "epochs = 30\nbatch = 32"))
    digits = ("--model", "tests.experiments.dropping:build", "--batch", 16, "--epochs", 12)
    folder = ("--dataset", "imagefolder", "--path", images, "--model", "tests.experiments.tiny:build")
    augmented = ("--batch", 4, "--trusted", 12, "--hold-out", 0, "--epochs", 4, "--workers", 2)
    part = ("--processes", 2, "--shift", "much", "--trials", 1)
    return {
        "digits": Case(0.48, ("run", "--method", "adiw-kl", "--no-cautious", *digits, *COMMON)),
        "images": Case(0.32, ("run", "--method", "adiw", *folder, *augmented, *COMMON)),
        "sweep": Case(0.2, ("sweep", recipe, *part, *COMMON), different_sweeps, (), forked=False),
    }


def different_sweeps(expected: Path, found: Path) -> list[str]:
    """A line for each difference between two sweeps; a run may be recorded only once."""
    one, other = files(expected), files(found)
    lines = [f"{name} differs" for name in {**one, **other} if one.get(name) != other.get(name)]
    records = [(folder / "results.jsonl").read_text().count("\n") for folder in (expected, found)]
    return lines + ([f"{records[1]} records, not {records[0]}"] if records[0] != records[1] else [])


def run_once(case: Case, out: Path, log: Path, wait: float, number: signal.Signals) -> tuple[int | None, float]:
    """Start or resume the command, and send the signal after ``wait`` seconds: (exit code, seconds of the stop)."""
    more = case.resume if (out / "config.json").exists() else ()
    given = [*map(str, case.arguments), "--out", str(out), *more]

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command has installed its handler
        os.setpgrp()
        if not case.forked:
            os.execv(sys.executable, [sys.executable, "-m", "adiw", *given])

    child = launch(given, log, prepare)
    code = wait_for(child, wait)
    if code is not None:
        return code, 0.0
    sent = time.monotonic()
    try:
        os.killpg(child, number)
    except ProcessLookupError:  # it has not set its process group yet
        os.kill(child, number)
    return wait_for(child, HANGS), time.monotonic() - sent


def stop_again_and_again(name: str, case: Case, stops: int, work: Path, random: Random) -> Tally:
    """Stop the command ``stops`` times, and compare each finished folder with that of an uninterrupted one."""
    tally, log, alone = Tally(), work / f"{name}.log", work / f"{name}-alone"
    begun = time.monotonic()
    code, _ = run_once(case, alone, log, HANGS, signal.SIGKILL)
    whole = time.monotonic() - begun
    if code != 0:
        tally.wrong.append(f"{name}: uninterrupted: exit code {code}, {log.read_text()[-300:]!r}")
        return tally
    while tally.counts["stops"] < stops:
        out = work / f"{name}-{tally.counts['runs']}"
        code = None
        while code != 0:
            wait = HANGS if tally.counts["stops"] >= stops else random.uniform(0, whole / 3)
            code, seconds = run_once(case, out, log, wait, random.choice(SIGNALS))
            count(tally, name, code, seconds, out, log.read_text(errors="replace"))
            if tally.counts["lost"]:
                return tally
        found = case.differences(alone, out)
        tally.counts["different"] += bool(found)
        tally.wrong += [f"{name}: {line}" for line in found]
        tally.counts["runs"] += 1
        shutil.rmtree(out)
    return tally


def count(tally: Tally, name: str, code: int | None, seconds: float, out: Path, output: str) -> None:
    """Count how the command ended, or add what is wrong with it."""
    if code == 0:
        return
    if code not in NOT_BEGUN and (code != 130 or "Traceback" in output):
        tally.counts["lost"] += 1
        tally.wrong.append(f"{name}: exit code {code}, {output.strip()[-300:]!r}")
        return
    if seconds > LIMIT:
        tally.slow.append(f"{name}: {seconds:.1f} s, {output.strip().splitlines()[-1]}")
    tally.counts["stops"] += 1
    tally.seconds.append(seconds)
    states = [checkpoint.load(file.parent, torch.device("cpu")) for file in out.rglob(checkpoint.NAME)]
    tally.counts["with a checkpoint within an epoch"] += any("position" in (state or {}) for state in states)


def check(names: tuple[str, ...], stops: int, seed: int) -> Tally:
    """Each case has its share of the stops."""
    torch.set_num_threads(1)
    total = Tally()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        warm_up(work / "warm-up")
        known = cases(work)
        for name, case in ((name, known[name]) for name in names):
            tally = stop_again_and_again(name, case, round(case.share * stops), work, Random(f"{seed} {name}"))
            total.counts += tally.counts
            total.seconds += tally.seconds
            total.slow += tally.slow
            total.wrong += tally.wrong
            longest = max(tally.seconds, default=0)
            print(f"{name}: {dict(tally.counts)}, longest {longest:.2f} s", file=sys.stderr, flush=True)
    return total


def main(names: tuple[str, ...] = ("digits", "images", "sweep")) -> int:
    given = arguments("Stop runs and a sweep by signals, resume them, and compare their files.", count=50)
    about = "SIGTERM, SIGINT or SIGUSR1 at a random moment, then resumed: the files of a run left alone, bit for bit"
    record = Record("stops", about, seed=given.seed, cases=list(names), longest_seconds=LIMIT)
    tally = check(names, given.count, given.seed)
    counts = {key: tally.counts[key] for key in ("stops", "with a checkpoint within an epoch", "runs", "lost")}
    counts |= {"different": tally.counts["different"], f"beyond {LIMIT:g} s": len(tally.slow)}
    seconds = {"longest": max(tally.seconds, default=0.0), "each": [round(found, 2) for found in tally.seconds]}
    record.write(counts, tally.wrong, given.out, slow=tally.slow, seconds_of_a_stop=seconds)
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
