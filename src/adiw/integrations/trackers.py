"""Experiment trackers: TensorBoard and MLflow log the metrics of a run to files. Neither is required."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from adiw.versions import require

__all__ = ["MLflow", "TensorBoard", "Tracker", "open_tracker"]

Settings = Mapping[str, object]


class Tracker(Protocol):
    """Logs the metrics of a run, step by step. It writes no file before the first call of ``log``."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the value of each metric at this step."""
        ...

    def close(self, failed: bool = False) -> None:
        """End the run and write everything to the disk."""
        ...


class TensorBoard:
    """Event files in ``folder/tensorboard``. A resumed run adds another file, and TensorBoard shows one curve.

    The settings are not logged: the run's folder has them.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        require("tensorboard", "2.14", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self._open: Callable[[], Any] = lambda: SummaryWriter(str(folder / "tensorboard"))
        self._writer: Any = None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._writer = self._writer or self._open()
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self, failed: bool = False) -> None:
        if self._writer is not None:
            self._writer.close()


class MLflow:
    """One MLflow run, in ``folder/mlflow`` or at ``MLFLOW_TRACKING_URI``. A resumed run continues it.

    ``mlflow ui --backend-store-uri folder/mlflow`` shows it. Nothing leaves this machine unless that variable names
    a server: MLflow's telemetry is off unless ``MLFLOW_DISABLE_TELEMETRY`` is set by the user.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # MLflow reads it at its import
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database backend
        require("mlflow-skinny", "3.2", "mlflow")
        import mlflow

        self._mlflow, self._folder, self._settings = mlflow, folder.resolve(), settings
        self._uri = os.environ.get("MLFLOW_TRACKING_URI") or (self._folder / "mlflow").as_uri()
        self._run: Any = None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run = self._run or self._start()
        self._mlflow.log_metrics(dict(values), step, run_id=self._run.info.run_id)

    def close(self, failed: bool = False) -> None:
        if self._run is not None:
            self._mlflow.end_run("FAILED" if failed else "FINISHED")

    def _start(self) -> Any:
        """The MLflow run of the same folder, if the run was started before; otherwise a new one."""
        self._mlflow.set_tracking_uri(self._uri)
        self._mlflow.set_experiment("adiw")
        folder = _without_quotes(self._folder)
        found = self._mlflow.search_runs(
            filter_string=f"tags.`adiw.folder` = '{folder}'", max_results=1, output_format="list"
        )
        if found:
            return self._mlflow.start_run(found[0].info.run_id)
        run = self._mlflow.start_run(run_name=self._folder.name, tags={"adiw.folder": folder})
        self._mlflow.log_params(dict(self._settings))
        return run


def _without_quotes(folder: Path) -> str:
    """The folder as text without single quotes, which end a string in MLflow's query language."""
    return str(folder).replace("'", "_")


TRACKERS: dict[str, Callable[[Path, Settings], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def open_tracker(name: str, folder: Path, settings: Settings) -> Tracker:
    """The tracker of a run in ``folder``. Its package is imported here, its files are written later."""
    if not isinstance(name, str) or name not in TRACKERS:
        raise ValueError(f"unknown tracker {name!r}: expected {' or '.join(TRACKERS)}")
    return TRACKERS[name](folder, settings)
