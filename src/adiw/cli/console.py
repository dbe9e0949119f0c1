"""Errors in one line with an exit code, signals, and progress: bars, or lines where there is no terminal."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from adiw.data import DataError
from adiw.distributed.process_group import current_processes
from adiw.engine.checkpoint import CheckpointError
from adiw.engine.torchrun import is_connection_loss, is_first_failure, started_by_torchrun
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.run import NOT_BEGUN, Interrupted, in_one_line
from adiw.reweighting.progress import lines_every

BAD_INPUT, DEAD, STOPPED = 2, 3, 130  # exit codes
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors that users can cause into one line on standard error and an exit code."""
    try:
        yield
    except DeadRunError as error:
        fail(f"the run is dead: {error}", DEAD)
    except (Interrupted, KeyboardInterrupt) as error:
        fail(str(error) or "stopped", STOPPED)
    except OSError as error:
        fail(_explain(error), BAD_INPUT)
    except (CheckpointError, DataError, ImportError, IndexError, TypeError, ValueError) as error:
        line = in_one_line(error)  # of a DataLoader worker, whose message has the error's name
        fail(line.partition(": ")[2] if str(error).startswith("Caught ") else str(error), BAD_INPUT)
    except (KeyError, RecursionError, MemoryError) as error:  # a file is damaged, or was not written by adiw
        what = f"no entry {error}" if isinstance(error, KeyError) else str(error) or "not enough memory"
        fail(f"a file cannot be used ({what}): it is damaged, or was not written by adiw", BAD_INPUT)
    except RuntimeError as error:
        if not started_by_torchrun() or not is_connection_loss(error):
            raise
        fail("another process of this run has ended; continue from the last checkpoint with --resume", STOPPED)


def say(line: str) -> None:
    """Print a line on standard error."""
    print(f"adiw: {line}", file=sys.stderr)


def fail(message: str, code: int) -> NoReturn:
    """Print the message in one line and exit; if several processes fail, only the first prints."""
    if is_first_failure():
        say(" ".join(message.split()))
    raise SystemExit(code)


def _explain(error: OSError) -> str:
    """The error and its file; on a full disk, what to do."""
    text = error.strerror or str(error)
    text = text if error.filename is None else f"{error.filename}: {text}"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"{text}: free some space and continue with --resume; the last checkpoint is complete" if full else text


class StopRequest:
    """Whether Ctrl-C, SIGTERM or SIGUSR1, the warning that SLURM sends, has requested a stop.

    The run reads this after each step, and saves a checkpoint. A second signal ends it immediately, with ``message``.
    So does the first one if the run has not read this yet, because there is nothing to save. Under torchrun neither
    ends it: torchrun forwards signals to all processes, and kills those that take too long.
    """

    def __init__(self, message: str = "stopped immediately; continue from the last checkpoint with --resume") -> None:
        self.requested, self.was_read, self.process, self.message = False, False, os.getpid(), message

    def __call__(self) -> bool:
        self.was_read = True
        return self.requested

    def __enter__(self) -> StopRequest:
        self.before = {s: signal.signal(s, self._handle) for s in SIGNALS}
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self.process:  # a forked worker that still has this handler
            if number == signal.SIGTERM:
                os._exit(1)
            return
        again, self.requested = self.requested, True
        if started_by_torchrun():
            if not again and current_processes().rank == 0:
                print("\nadiw: stopping after this step", file=sys.stderr)
        elif again or not self.was_read:
            raise KeyboardInterrupt(self.message if self.was_read else NOT_BEGUN)
        else:
            print("\nadiw: stopping after this step (again to stop immediately)", file=sys.stderr)

    def __exit__(self, *error: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def timed_lines(quiet: bool, seconds: float = 60.0) -> Callable[[str], None]:
    """A function that prints a line of progress, for output that is not a terminal: one a minute keeps logs short."""
    return (lambda line: None) if quiet else lines_every(seconds, say)


def on_bars(bar: Progress) -> Callable[..., None]:
    """A function (what, done, total, note) that shows each kind of work in a bar of its own."""
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int, note: str = "") -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, note="")
        bar.update(tasks[what], completed=done, total=total, note=note)

    return show


@contextmanager
def working(what: str, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal what is being done, where its length is not known."""
    console = Console(stderr=True)
    with nullcontext() if quiet or not console.is_terminal else console.status(what):
        yield


def progress_bar(unit: str, quiet: bool) -> Progress:
    """A bar with counts, elapsed and remaining time, on standard error; hidden if quiet or not on a terminal."""
    hidden = quiet or not Console(stderr=True).is_terminal
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True, quiet=hidden),  # before rich 15 a disabled bar still prints a line end
        disable=hidden,
    )
