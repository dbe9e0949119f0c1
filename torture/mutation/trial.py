"""Run tests against a mutant: a process forked from one that has imported torch, on its own copy of the source.

The copy, rather than a patched module, is seen by the processes that a test starts as well. Limits are in seconds of
the processor, so that a busy machine makes no time-outs.
"""

from __future__ import annotations

import compileall
import gc
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HANGING = 900  # seconds by the clock after which a process that uses no processor is given up
WARM = ("torch.utils.data", "numpy", "hypothesis", "pytest", "scipy.optimize", "scipy.stats", "sklearn.utils")


@dataclass(frozen=True)
class Trial:
    """Tests to run with ``source`` in place of a module (its path under src/); empty for the module as it is."""

    module: str
    source: str
    tests: Sequence[str]
    seconds: int = 300


@dataclass(frozen=True)
class Verdict:
    """How it ended: "survived" (all tests passed), "killed" (one failed) or "timeout"; with its last lines."""

    outcome: str
    seconds: float  # of the processor
    said: str


def run_all(trials: Iterable[Trial], folder: Path, jobs: int) -> Iterator[tuple[Trial, Verdict]]:
    """Every trial with its verdict, ``jobs`` at a time, in the order in which they end."""
    for name in WARM:
        __import__(name)
    gc.freeze()  # else every process walks torch's objects, and copies them
    free = [_copy(folder / str(job)) for job in range(jobs)]
    running: dict[int, tuple[Trial, Path, float]] = {}
    waiting = iter(trials)
    trial = next(waiting, None)
    while trial is not None or running:
        if trial is not None and free:
            place = free.pop()
            running[_start(trial, place)] = (trial, place, time.monotonic())
            trial = next(waiting, None)
            continue
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            _give_up([child for child, (_, _, began) in running.items() if time.monotonic() - began > HANGING])
            time.sleep(0.02)
            continue
        done, place, _ = running.pop(pid)
        shutil.copy(ROOT / "src" / done.module, place / "src" / done.module)
        free.append(place)
        yield done, _verdict(status, usage.ru_utime + usage.ru_stime, (place / "said").read_text(errors="replace"))


def _copy(place: Path) -> Path:
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(place / "src", quiet=1)
    return place


def _start(trial: Trial, place: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        with (place / "said").open("w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        code = _test(trial, place)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _test(trial: Trial, place: Path) -> int:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (trial.seconds, trial.seconds + 5))
    target = place / "src" / trial.module
    original = (ROOT / "src" / trial.module).read_text()
    target.write_text(trial.source or original)
    Path(cache_from_source(str(target))).unlink(missing_ok=True)  # told apart by the second: it may be stale
    sys.dont_write_bytecode = bool(trial.source)
    os.environ |= {"PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(place / "src"))
    os.chdir(ROOT)
    tests = [test.replace("src/", f"{place}/src/", 1) if test.startswith("src/") else test for test in trial.tests]
    options = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of hypothesis, which is warm
    return int(pytest.main([*options, "-c", str(ROOT / "pyproject.toml"), *tests], plugins=[_FirstFailure()]))


class _FirstFailure:
    """Ends the process with the first test that fails: nothing is to be cleaned up."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            print(report.nodeid, report.longreprtext[-300:], flush=True)
            os._exit(1)


def _give_up(children: list[int]) -> None:
    for child in children:
        os.killpg(child, signal.SIGKILL)


def _verdict(status: int, seconds: float, said: str) -> Verdict:
    """A process that a signal ended ran out of time or crashed; pytest exits with 5 when it found no tests."""
    last = said.strip()[-400:]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        late = number in (signal.SIGXCPU, signal.SIGKILL)
        return Verdict("timeout" if late else "killed", seconds, f"signal {number}: {last}")
    code = os.WEXITSTATUS(status)
    if code not in (0, 1, 2):  # 2: the mutant cannot be imported
        raise RuntimeError(f"the tests did not run (exit {code}): {last}")
    return Verdict("survived" if code == 0 else "killed", seconds, last)
