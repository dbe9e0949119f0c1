"""Trackers: metrics can be read back, a resumed run continues, and no file exists before the first step."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from adiw.integrations.trackers import TRACKERS, MLflow, open_tracker

SETTINGS = {"method": "adiw-kl", "lr": 0.1, "path": None}
History = list[tuple[int, float]]


def read_tensorboard(folder: Path, name: str) -> History:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard")).Reload()
    return [(event.step, event.value) for event in found.Scalars(name)]


def only_run(folder: Path) -> tuple[Any, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(folder / "mlflow").as_uri())
    experiment = client.get_experiment_by_name("adiw")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return client, run


def read_mlflow(folder: Path, name: str) -> History:
    client, run = only_run(folder)
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]


READERS: dict[str, Callable[[Path, str], History]] = {"tensorboard": read_tensorboard, "mlflow": read_mlflow}
needs_mlflow = pytest.mark.skipif(find_spec("mlflow") is None, reason="needs the extra adiw[mlflow]")
every_tracker = pytest.mark.parametrize("name", TRACKERS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard"),  # its own dependencies
    pytest.mark.filterwarnings("ignore::DeprecationWarning:google"),
]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def installed(name: str) -> None:
    if find_spec(name) is None:  # not imported here: MLflow's first import must be the tracker's own
        pytest.skip(f"needs the extra adiw[{name}]")


def test_the_suite_covers_the_table() -> None:
    assert set(TRACKERS) == set(READERS)


@every_tracker
@pytest.mark.usefixtures("installed")
def test_what_is_logged_can_be_read_back(name: str, tmp_path: Path) -> None:
    tracker = open_tracker(name, tmp_path, SETTINGS)
    for step in (1, 2, 3):
        tracker.log(step, {"accuracy": 50.0 + step, "loss": 1 / 2**step})
    tracker.close()
    assert READERS[name](tmp_path, "accuracy") == [(1, 51.0), (2, 52.0), (3, 53.0)]
    assert READERS[name](tmp_path, "loss") == [(1, 0.5), (2, 0.25), (3, 0.125)]


@every_tracker
@pytest.mark.usefixtures("installed")
def test_a_resumed_run_is_one_curve(name: str, tmp_path: Path) -> None:
    for step in (1, 2):
        tracker = open_tracker(name, tmp_path, SETTINGS)
        tracker.log(step, {"accuracy": float(step)})
        tracker.close(failed=step == 1)
    assert READERS[name](tmp_path, "accuracy") == [(1, 1.0), (2, 2.0)]


@every_tracker
@pytest.mark.usefixtures("installed")
def test_before_the_first_step_there_are_no_files(name: str, tmp_path: Path) -> None:
    open_tracker(name, tmp_path / "r", SETTINGS).close()
    assert not (tmp_path / "r").exists()


@every_tracker
@pytest.mark.usefixtures("installed")
def test_a_value_of_nan_is_logged(name: str, tmp_path: Path) -> None:
    tracker = open_tracker(name, tmp_path, SETTINGS)
    tracker.log(1, {"loss": math.nan})
    tracker.close()
    ((step, value),) = READERS[name](tmp_path, "loss")
    assert step == 1
    assert math.isnan(value)


@needs_mlflow
@pytest.mark.parametrize("folder", ["plain", "with space", "with 'quotes'"])
def test_mlflow_has_settings_name_and_status(folder: str, tmp_path: Path) -> None:
    for failed, status in ((True, "FAILED"), (False, "FINISHED")):
        tracker = MLflow(tmp_path / folder, SETTINGS)
        tracker.log(1, {"accuracy": 1.0})
        tracker.close(failed)
        _, run = only_run(tmp_path / folder)
        assert run.info.status == status
    assert run.data.params == {"method": "adiw-kl", "lr": "0.1", "path": "None"}
    assert run.info.run_name == folder


@needs_mlflow
def test_mlflow_uses_its_tracking_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "shared" / "mlflow").as_uri())
    for folder in ("a", "b"):
        tracker = MLflow(tmp_path / folder, SETTINGS)
        tracker.log(1, {"accuracy": 1.0})
        tracker.close()
    assert {run.read_text() for run in (tmp_path / "shared").glob("mlflow/*/*/tags/mlflow.runName")} == {"a", "b"}
    assert not (tmp_path / "a").exists()


def test_the_module_imports_neither_and_telemetry_is_off(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from adiw.integrations.trackers import MLflow\n"
        "assert not {'mlflow', 'tensorboard'} & set(sys.modules)\n"
    )
    if find_spec("mlflow") is not None:
        code += (
            "MLflow(Path('r'), {})\n"
            "from mlflow.environment_variables import MLFLOW_DISABLE_TELEMETRY as off; assert off.get()"
        )
    quiet = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=tmp_path, env=quiet)
