"""Kill and terminate runs at random moments, let their disk fill up, and resume them with ``--resume``.

Each must end with the files of an uninterrupted run, bit for bit except times. Children are forked from a process
that has imported everything, so that a kill costs no start-up.
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

EPOCHS, LIMIT = 8, 600.0  # of a run; longest seconds of a child
# Few samples: an epoch is five steps, and most of the time is spent on files.
SMALL = ("--selection", 1000, "--batch", 64, "--trusted", 40, "--val-batch", 32)
OPTIONS = ("--epochs", EPOCHS, *SMALL, "--quiet", "--device", "cpu")
# kill -9 at a random moment, while a temporary file is written, or at a file operation
KINDS = ("moment", "writing", "file")
OTHERS = ("terminate", "stopping", "full disk")
NAMES = {
    "none": "uninterrupted",
    "moment": "killed at a random moment",
    "writing": "killed while a file was written",
    "file": "killed at a file operation",
    "terminate": "terminated",
    "stopping": "killed while a stop was saved",
    "full disk": "ended by a full disk",
}


@dataclass
class Tally:
    """Counts of what was done, and a line for everything that went wrong."""

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


def wait_for(child: int, seconds: float, until: Callable[[], bool] = lambda: False) -> int | None:
    """Wait until the child ends, ``until`` is true, or the time is over: its exit code, None if it still runs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not until():
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    return None


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def kill_at_file_operation(number: int) -> None:
    """Let this process kill itself just before it renames, removes or opens for writing its ``number``-th file."""
    remaining = [number]

    def hook(event: str, given: tuple[object, ...]) -> None:
        if event in ("os.rename", "os.remove") or (event == "open" and str(given[1]).startswith(("w", "a"))):
            remaining[0] -= 1
            if remaining[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run_once(method: str, out: Path, log: Path, kind: str, whole: float, random: Random) -> tuple[int | None, str]:
    """Start or resume the run, and end it as ``kind`` says: (exit code, None if killed; its output)."""
    resume = ["--resume"] if (out / "config.json").exists() else []
    given = [*map(str, ("run", "--method", method, "--out", out, *OPTIONS)), *resume]
    prepare: Callable[[], None] = lambda: None  # noqa: E731
    if kind == "file":
        number = random.randint(1, 60)
        prepare = lambda: kill_at_file_operation(number)  # noqa: E731
    if kind == "full disk":  # the operating system limits the size of files
        limit = random.randint(100, 150_000)
        prepare = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    child = launch(given, log, prepare)
    until = (lambda: any(out.glob("*.part"))) if kind == "writing" else (lambda: False)
    wait = LIMIT if kind in ("file", "full disk", "none") else random.uniform(0, whole)
    code = wait_for(child, wait, until)
    if code is None and kind in ("terminate", "stopping"):
        os.kill(child, signal.SIGTERM)
        until = (lambda: any(out.glob("checkpoint.pt.part"))) if kind == "stopping" else (lambda: False)
        code = wait_for(child, LIMIT, until)
    if code is None:
        time.sleep(random.uniform(0, 0.002) if kind in ("writing", "stopping") else 0)
        kill(child)
    return (None if code == -signal.SIGKILL else code), log.read_text(errors="replace")


def judge(kind: str, code: int | None, output: str) -> str | None:
    """What is wrong with the way this process ended; None if nothing is."""
    if code in (None, 0):
        return None
    stopped = code == -signal.SIGTERM or (code == 130 and ("--resume" in output or "starts it again" in output))
    if kind in ("terminate", "stopping") and stopped:
        return None  # before or after the command has installed its handler
    if kind == "full disk" and code == 2 and "--resume" in output and "Traceback" not in output:
        return None
    return f"{kind}: exit code {code}, {output.strip()[-300:]!r}"


def kill_runs(method: str, kills: int, work: Path, random: Random) -> Tally:
    """Kill runs of this method ``kills`` times, and compare each finished run with the uninterrupted one."""
    tally, log, uninterrupted = Tally(), work / f"{method}.log", work / f"{method}-uninterrupted"
    begun = time.monotonic()
    code, output = run_once(method, uninterrupted, log, "none", 0, random)
    if code != 0:
        tally.wrong.append(f"{method}: uninterrupted: exit code {code}, {output!r}")
        return tally
    whole = time.monotonic() - begun
    while tally.counts["kills"] < kills:
        out = work / f"{method}-{tally.counts['runs']}"
        while True:
            enough = tally.counts["kills"] >= kills
            kind = "none" if enough else random.choice(KINDS * 2 + OTHERS)
            code, output = run_once(method, out, log, kind, whole, random)
            ended = "terminate" if kind == "stopping" and code is not None else kind  # before it was killed
            tally.counts[NAMES[ended]] += code != 0 and kind != "none"
            tally.counts["kills"] += code is None
            if problem := judge(kind, code, output):
                tally.counts["lost"] += 1
                tally.wrong.append(f"{method}: {problem}")
                break
            if code == 0:
                found = differences(uninterrupted, out)
                tally.counts["different"] += bool(found)
                tally.wrong += [f"{method}: {line}" for line in found]
                break
        tally.counts["runs"] += 1
        shutil.rmtree(out, ignore_errors=True)
    return tally


def warm_up(out: Path) -> None:
    """A run in this process, so that lazy imports are done when children are forked."""
    settings = resolve({"method": "two-step-kmm", "epochs": 1, "selection": 1000, "trusted": 40, "batch": 64})
    run.run(settings, out, engine=run.Engine(torch.device("cpu")))


def check(kills: int, seed: int, methods: list[str]) -> Tally:
    """Divide the kills among the methods."""
    torch.set_num_threads(1)
    run.SAVE_EVERY = 0.0  # a checkpoint after every epoch: as many critical moments as possible
    total = Tally()
    with tempfile.TemporaryDirectory() as work:
        warm_up(Path(work) / "warm-up")
        for k, method in enumerate(methods):
            share = kills // len(methods) + (k < kills % len(methods))
            tally = kill_runs(method, share, Path(work), Random(f"{seed} {method}"))
            total.counts += tally.counts
            total.wrong += tally.wrong
            print(f"{method}: {dict(tally.counts)}", file=sys.stderr, flush=True)
    return total


def main(methods: tuple[str, ...] = tuple(METHODS)) -> int:
    given = arguments("Kill runs of every method, resume them, and compare their files.", count=200)
    about = "kill -9 at a random moment, then --resume: the files of an uninterrupted run, bit for bit"
    record = Record("kills", about, seed=given.seed, methods=list(methods), epochs=EPOCHS)
    tally = check(given.count, given.seed, list(methods))
    counts = {"methods": len(methods)} | {key: tally.counts[key] for key in ("kills", "lost", "different")}
    rest = sorted(key for key, count in tally.counts.items() if key not in counts and count)
    record.write(counts | {key: tally.counts[key] for key in rest}, tally.wrong, given.out)
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
