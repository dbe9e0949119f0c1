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
from adiw.engine.checkpoint import CheckpointError
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


def say(line: str) -> None:
    """A remark on standard error."""
    print(f"adiw: {line}", file=sys.stderr)


def fail(message: str, code: int) -> NoReturn:
    """Say it in one line and end."""
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
    """Ctrl-C or SIGTERM ends a run after its current epoch; a second one ends it at once, with ``farewell``."""

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
        if self.asked:
            raise KeyboardInterrupt(self.farewell)
        self.asked = True
        print("\nadiw: stopping after this epoch (again to stop at once)", file=sys.stderr)

    def __exit__(self, *error: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def progress_bar(unit: str, quiet: bool) -> Progress:
    """A bar with counts, elapsed time and time left, on standard error; nothing when quiet or not on a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=quiet or not console.is_terminal,
    )
