"""A sweep on a real Ray cluster on this machine, with two workers, one of which is killed in the middle."""

from __future__ import annotations

import builtins
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "adiw[ray]"')

from adiw.cli.app import app  # noqa: E402
from adiw.experiments.executors import run_on  # noqa: E402
from adiw.experiments.ray_executor import RayExecutor  # noqa: E402
from adiw.experiments.recipes import Part, plan  # noqa: E402
from tests.experiments.small_sweeps import TEXT, files, finish, small, statuses, sweep, write_recipe  # noqa: E402

# Some versions of Ray leave files and processes open when they start a cluster.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
PART = Part(("Uniform", "KL"), ("much",))
# Appends a line to the file "started" when a run starts, and waits until two processes have started one. The first
# run that reaches its second epoch, of ten steps, writes its process into the file "paused" and waits to be killed.
NETWORK = """
import os, signal, time
from torch import nn

class Pausing(nn.Sequential):
    steps = 0

    def forward(self, x):
        self.steps += self.training
        if self.steps == 15:
            try:
                with open("paused", "x") as file:
                    file.write(f"{os.getpid()}\\n")
                signal.pause()
            except FileExistsError:
                pass
        return super().forward(x)

def build(input_shape, num_classes):
    with open("started", "a") as file:
        print(os.getpid(), file=file)
    while not os.path.exists("paused") and len(set(open("started").read().split())) < 2:
        time.sleep(0.02)
    return Pausing(nn.Flatten(), nn.Linear(64, num_classes))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayExecutor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr(builtins, "print", print)  # Ray replaces it, which skorch takes for a wish to print
        patch.setattr(ray, "init", partial(ray.init, num_cpus=2, num_gpus=0))
        with RayExecutor() as executor:
            yield executor
    assert not ray.is_initialized()


def test_a_killed_worker_loses_no_run_and_none_runs_twice(
    cluster: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    started, paused = Path("started"), Path("paused")
    Path("network_on_ray.py").write_text(NETWORK)
    recipe = small(tmp_path, text=TEXT.replace("epochs = 2", 'epochs = 4\nmodel = "network_on_ray:build"'))
    paused.touch()
    finish(sweep(recipe, Path("alone")), recipe, PART)
    started.unlink()
    paused.unlink()
    work, killed = sweep(recipe, Path("out")), []

    def kill_the_paused() -> bool:
        """Called by the sweep again and again, to ask whether to stop."""
        if not killed and paused.exists() and (pid := paused.read_text()).endswith("\n"):
            os.kill(int(pid), signal.SIGKILL)
            killed.append(pid)
        return False

    assert cluster.slots == 2
    for job, record in run_on(cluster, work, plan(recipe, PART), stop=kill_the_paused):
        work.write_record(job, record)
    runs = started.read_text().splitlines(keepends=True)
    assert len(runs) == 5  # four runs, and the killed one again
    assert killed[0] in runs
    assert len(set(runs)) >= 2  # a third process takes part if the second is not done before
    assert sorted(statuses(work)) == [(row, "much", k, "done") for row in ("KL", "Uniform") for k in (0, 1)]
    assert files(tmp_path / "out") == files(tmp_path / "alone")


@pytest.mark.usefixtures("cluster")
def test_the_command_uses_a_cluster_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = [
        "sweep",
        str(write_recipe(tmp_path)),
        "--method",
        "Uniform",
        "--shift",
        "much",
        "--device",
        "cpu",
        "--out",
    ]
    app([*small, str(tmp_path / "here"), "--processes", "1"], standalone_mode=False)
    app([*small, str(tmp_path / "out"), "--executor", "ray", "--retries", "0"], standalone_mode=False)
    assert capsys.readouterr().err.splitlines()[-1] == "adiw: 2 done"
    assert files(tmp_path / "out") == files(tmp_path / "here")
    assert ray.is_initialized()


@pytest.mark.usefixtures("cluster")
def test_an_error_in_a_task_has_its_reason() -> None:
    with pytest.raises(RuntimeError, match=r"^ValueError: invalid literal for int\(\) with base 10: 'three'$"):
        RayExecutor().submit(int, "three").result()


@pytest.mark.usefixtures("cluster")
def test_the_slots_of_a_cluster_are_its_cpus_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RayExecutor(0.0).slots == 2
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0, "GPU": 4.0})
    assert [RayExecutor(share).slots for share in (None, 1.0, 0.5, 0.1, 0.0)] == [4, 4, 8, 16, 16]
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0})
    with pytest.raises(ValueError, match=r"needs a CPU and 0\.5 GPUs, and the Ray cluster has 16 CPUs and 0 GPUs"):
        RayExecutor(0.5).slots
