"""How the command speaks: errors in one line with a code, progress on the terminal."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from adiw.data import DataError
from adiw.distributed.process_group import current_processes
from adiw.engine.checkpoint import CheckpointError
from adiw.engine.torchrun import is_connection_loss, is_first_failure, started_by_torchrun
from adiw.experiments.run import Interrupted
from adiw.experiments.watch import DeadRunError

BAD_INPUT, DEAD, STOPPED = 2, 3, 130  # exit codes


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what users can cause into one line on standard error and an exit code."""
    try:
        yield
    except DeadRunError as error:
        fail(f"the run is dead: {error}", DEAD)
    except (Interrupted, KeyboardInterrupt) as error:
        fail(str(error) or "stopped", STOPPED)
    except OSError as error:
        fail(_explain(error), BAD_INPUT)
    except (CheckpointError, DataError, ImportError, IndexError, TypeError, ValueError) as error:
        fail(_without_worker(str(error)), BAD_INPUT)
    except (KeyError, RecursionError, MemoryError) as error:  # what a file says that is not ours, or damaged
        what = f"no entry {error}" if isinstance(error, KeyError) else str(error) or "not enough memory"
        fail(f"a file cannot be used ({what}): it is damaged, or was not written by adiw", BAD_INPUT)
    except RuntimeError as error:
        if not started_by_torchrun() or not is_connection_loss(error):
            raise
        fail("another process of this run has ended; go on from the last checkpoint with --resume", STOPPED)


def say(line: str) -> None:
    """A remark on standard error."""
    print(f"adiw: {line}", file=sys.stderr)


def fail(message: str, code: int) -> NoReturn:
    """Say it in one line and end; of several processes that fail the first says it."""
    if is_first_failure():
        say(" ".join(message.split()))
    raise SystemExit(code)


def _explain(error: OSError) -> str:
    """What went wrong with which file; on a full disk, what to do."""
    text = error.strerror or str(error)
    text = text if error.filename is None else f"{error.filename}: {text}"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"{text}: free some space and go on with --resume; the last checkpoint is whole" if full else text


def _without_worker(message: str) -> str:
    """The message itself, where a DataLoader's worker process has put its traceback before it.

    >>> _without_worker("Caught DataError in worker 0.\\nOriginal Traceback\\nadiw.DataError: a.png: damaged")
    'a.png: damaged'
    """
    if not (message.startswith("Caught ") and "Original Traceback" in message):
        return message
    return message.strip().splitlines()[-1].partition(": ")[2]


class StopRequest:
    """Ctrl-C or SIGTERM ends a run after its current epoch; a second one ends it at once, with ``farewell``.

    Under torchrun a second one does nothing: it passes on what it gets, and ends by itself what takes too long.
    """

    def __init__(self, farewell: str = "stopped at once; go on from the last checkpoint with --resume") -> None:
        self.asked, self.process, self.farewell = False, os.getpid(), farewell

    def __enter__(self) -> Callable[[], bool]:
        self.before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return lambda: self.asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self.process:  # a worker process, forked a moment ago
            if number == signal.SIGTERM:
                os._exit(1)
            return
        if self.asked and not started_by_torchrun():
            raise KeyboardInterrupt(self.farewell)
        if not self.asked and current_processes().rank == 0:
            again = "" if started_by_torchrun() else " (again to stop at once)"
            print(f"\nadiw: stopping after this epoch{again}", file=sys.stderr)
        self.asked = True

    def __exit__(self, *error: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def progress_bar(unit: str, quiet: bool) -> Progress:
    """A bar with counts, elapsed time and time left, on standard error; nothing when quiet or not on a terminal."""
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
        console=Console(stderr=True, quiet=hidden),  # before rich 15 a bar that is disabled still ends a line
        disable=hidden,
    )
