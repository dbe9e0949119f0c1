"""Run tests against a mutant, in a process forked from one that has imported torch, on a copy of the source.

Processes that a test starts import the copy too, which they would not do with a patched module. Limits are in seconds
of CPU time, so that a busy machine causes no time-outs.
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
HANGING = 900  # seconds of wall-clock time after which a process is stopped, whatever CPU time it has used
WARM = ("torch.utils.data", "numpy", "hypothesis", "pytest", "scipy.optimize", "scipy.stats", "sklearn.utils")


@dataclass(frozen=True)
class Trial:
    """Tests to run with ``source`` in place of a module (its path under src/); an empty one changes nothing."""

    module: str
    source: str
    tests: Sequence[str]
    seconds: int = 300


@dataclass(frozen=True)
class Verdict:
    """The outcome: "survived" (all tests passed), "killed" (one failed) or "timeout"; and the last lines printed."""

    outcome: str
    seconds: float  # of CPU time
    output: str


def run_all(trials: Iterable[Trial], folder: Path, jobs: int) -> Iterator[tuple[Trial, Verdict]]:
    """Run ``jobs`` trials at a time; yield each with its verdict as it ends."""
    for name in WARM:
        __import__(name)
    gc.freeze()  # otherwise garbage collection in each fork touches torch's objects, and so copies them
    free = [_copy(folder / str(job)) for job in range(jobs)]
    running: dict[int, tuple[Trial, Path, float]] = {}
    waiting = iter(trials)
    trial = next(waiting, None)
    while trial is not None or running:
        if trial is not None and free:
            copy = free.pop()
            running[_start(trial, copy)] = (trial, copy, time.monotonic())
            trial = next(waiting, None)
            continue
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            _stop([child for child, (_, _, began) in running.items() if time.monotonic() - began > HANGING])
            time.sleep(0.02)
            continue
        done, copy, _ = running.pop(pid)
        shutil.copy(ROOT / "src" / done.module, copy / "src" / done.module)
        free.append(copy)
        yield done, _verdict(status, usage.ru_utime + usage.ru_stime, (copy / "output").read_text(errors="replace"))


def _copy(copy: Path) -> Path:
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy / "src", quiet=1)
    return copy


def _start(trial: Trial, copy: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        with (copy / "output").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        code = _test(trial, copy)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _test(trial: Trial, copy: Path) -> int:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (trial.seconds, trial.seconds + 5))
    target = copy / "src" / trial.module
    original = (ROOT / "src" / trial.module).read_text()
    target.write_text(trial.source or original)
    Path(cache_from_source(str(target))).unlink(
        missing_ok=True
    )  # its time stamp has a resolution of seconds, so it may be stale
    sys.dont_write_bytecode = bool(trial.source)
    os.environ |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(copy / "src"))
    os.chdir(ROOT)
    tests = [test.replace("src/", f"{copy}/src/", 1) if test.startswith("src/") else test for test in trial.tests]
    options = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is already imported
    return int(pytest.main([*options, "-c", str(ROOT / "pyproject.toml"), *tests], plugins=[_FirstFailure()]))


class _FirstFailure:
    """End the process at the first test that fails: there is nothing to clean up."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            print(report.nodeid, report.longreprtext[-300:], flush=True)
            os._exit(1)


def _stop(children: list[int]) -> None:
    for child in children:
        os.killpg(child, signal.SIGKILL)


def _verdict(status: int, seconds: float, output: str) -> Verdict:
    """A signal means a crash or a time limit; pytest exits with 5 when it finds no tests, which is an error here."""
    last = output.strip()[-400:]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        late = number in (signal.SIGXCPU, signal.SIGKILL)
        return Verdict("timeout" if late else "killed", seconds, f"signal {number}: {last}")
    code = os.WEXITSTATUS(status)
    if code not in (0, 1, 2):  # 2: the mutant cannot be imported
        raise RuntimeError(f"the tests did not run (exit {code}): {last}")
    return Verdict("survived" if code == 0 else "killed", seconds, last)
