"""Runs that are killed, terminated and starved of disk at random moments, and gone on with by ``--resume``.

Each must end with the files of the run that nobody touched, bit for bit, times apart. Children are forked from a
process that has imported everything, so that a kill costs no start-up.
"""

from __future__ import annotations

import os
import resource
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

from adiw.cli.app import start
from adiw.experiments import run
from adiw.experiments.methods import METHODS
from adiw.experiments.settings import resolve
from torture.compare import differences
from torture.record import Record, arguments

EPOCHS, LIMIT = 8, 600.0  # of a run; seconds until a child is given up
# Few samples: an epoch is five steps, and most of a life is spent with files.
SMALL = ("--selection", 1000, "--batch", 64, "--trusted", 40, "--val-batch", 32)
OPTIONS = ("--epochs", EPOCHS, *SMALL, "--quiet", "--device", "cpu")
KINDS = ("moment", "aside", "file")  # kill -9: at a random moment; while a file is written aside; at a file operation
OTHERS = ("terminate", "full disk")
NAMES = {
    "none": "untouched",
    "moment": "killed at a random moment",
    "aside": "killed while a file was written",
    "file": "killed at a file operation",
    "terminate": "terminated",
    "full disk": "ended by a full disk",
}


@dataclass
class Tally:
    """What was done, and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def launch(arguments: list[str], log: Path, prepare: Callable[[], None] = lambda: None) -> int:
    """Fork a child that runs ``adiw`` with these arguments, its output in ``log``: its process id."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        prepare()
        sys.argv = ["adiw", *arguments]
        start()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        os.write(2, f"Traceback: {error!r}".encode())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(child: int, seconds: float, look: Callable[[], bool] = lambda: False) -> int | None:
    """Wait until the child ends, for so long or until ``look`` is true: its exit code, None while it lives."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not look():
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    return None


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def kill_at_file_operation(number: int) -> None:
    """Let this process kill itself just before its ``number``-th renaming, removal or opening of a file to write."""
    left = [number]

    def hook(event: str, given: tuple[object, ...]) -> None:
        if event in ("os.rename", "os.remove") or (event == "open" and str(given[1]).startswith(("w", "a"))):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def one_life(method: str, out: Path, log: Path, kind: str, whole: float, random: Random) -> tuple[int | None, str]:
    """Start or go on with the run, and end it as ``kind`` says: (its exit code, None when killed; what it said)."""
    resume = ["--resume"] if (out / "config.json").exists() else []
    given = [*map(str, ("run", "--method", method, "--out", out, *OPTIONS)), *resume]
    prepare: Callable[[], None] = lambda: None  # noqa: E731
    if kind == "file":
        number = random.randint(1, 60)
        prepare = lambda: kill_at_file_operation(number)  # noqa: E731
    if kind == "full disk":  # no file may grow beyond this, which the kernel enforces
        limit = random.randint(100, 150_000)
        prepare = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    child = launch(given, log, prepare)
    look = (lambda: any(out.glob("*.part"))) if kind == "aside" else (lambda: False)
    wait = LIMIT if kind in ("file", "full disk", "none") else random.uniform(0, whole)
    code = ended(child, wait, look)
    if code is None and kind == "terminate":
        os.kill(child, signal.SIGTERM)
        code = ended(child, LIMIT)
    elif code is None:
        time.sleep(random.uniform(0, 0.002) if kind == "aside" else 0)
        kill(child)
    return (None if code == -signal.SIGKILL else code), log.read_text(errors="replace")


def judge(kind: str, code: int | None, said: str) -> str | None:
    """What is wrong with the way this life ended; None when it is as it should be."""
    if code in (None, 0):
        return None
    if kind == "terminate" and (code == -signal.SIGTERM or (code == 130 and "--resume" in said)):
        return None  # before the command could answer, or with an answer
    if kind == "full disk" and code == 2 and "--resume" in said and "Traceback" not in said:
        return None
    return f"{kind}: exit code {code}, {said.strip()[-300:]!r}"


def torment(method: str, kills: int, work: Path, random: Random) -> Tally:
    """Kill runs of this method so many times, and compare each that comes to its end."""
    tally, log, untouched = Tally(), work / f"{method}.log", work / f"{method}-untouched"
    begun = time.monotonic()
    code, said = one_life(method, untouched, log, "none", 0, random)
    if code != 0:
        tally.wrong.append(f"{method}: untouched: exit code {code}, {said!r}")
        return tally
    whole = time.monotonic() - begun
    while tally.counts["kills"] < kills:
        out = work / f"{method}-{tally.counts['runs']}"
        while True:
            enough = tally.counts["kills"] >= kills
            kind = "none" if enough else random.choice(KINDS * 2 + OTHERS)
            code, said = one_life(method, out, log, kind, whole, random)
            tally.counts[NAMES[kind]] += code != 0 and kind != "none"
            tally.counts["kills"] += code is None
            if problem := judge(kind, code, said):
                tally.counts["lost"] += 1
                tally.wrong.append(f"{method}: {problem}")
                break
            if code == 0:
                found = differences(untouched, out)
                tally.counts["different"] += bool(found)
                tally.wrong += [f"{method}: {line}" for line in found]
                break
        tally.counts["runs"] += 1
        shutil.rmtree(out, ignore_errors=True)
    return tally


def warm_up(out: Path) -> None:
    """A run in this process: what is imported at first use is there when children are forked."""
    settings = resolve({"method": "two-step-kmm", "epochs": 1, "selection": 1000, "trusted": 40, "batch": 64})
    run.run(settings, out, engine=run.Engine(torch.device("cpu")))


def check(kills: int, seed: int, methods: list[str]) -> Tally:
    """Spread the kills over the methods."""
    torch.set_num_threads(1)
    run.SAVE_EVERY = 0.0  # a checkpoint after every epoch: as many moments to be killed at as there can be
    total = Tally()
    with tempfile.TemporaryDirectory() as work:
        warm_up(Path(work) / "warm-up")
        for k, method in enumerate(methods):
            share = kills // len(methods) + (k < kills % len(methods))
            tally = torment(method, share, Path(work), Random(f"{seed} {method}"))
            total.counts += tally.counts
            total.wrong += tally.wrong
            print(f"{method}: {dict(tally.counts)}", file=sys.stderr, flush=True)
    return total


def main(methods: tuple[str, ...] = tuple(METHODS)) -> int:
    given = arguments("Kill runs of every method and compare what they come to.", count=200)
    about = "kill -9 at a random moment, then --resume: the files of the run that nobody killed, bit for bit"
    record = Record("kills", about, seed=given.seed, methods=list(methods), epochs=EPOCHS)
    tally = check(given.count, given.seed, list(methods))
    counts = {"methods": len(methods)} | {key: tally.counts[key] for key in ("kills", "lost", "different")}
    rest = sorted(key for key, count in tally.counts.items() if key not in counts and count)
    record.write(counts | {key: tally.counts[key] for key in rest}, tally.wrong, given.out)
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
