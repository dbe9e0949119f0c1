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
        from mlflow import MlflowClient

        folder = folder.resolve()
        uri = os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlflow").as_uri()
        self._open: Callable[[], Any] = lambda: MlflowClient(tracking_uri=uri)
        self._folder, self._settings = folder, settings
        self._client: Any = None
        self._run = ""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self._client is None:
            self._client = self._open()
            self._run = self._existing_run() or self._new_run()
        for name, value in values.items():
            self._client.log_metric(self._run, name, float(value), step=step)

    def close(self, failed: bool = False) -> None:
        if self._client is not None:
            self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")

    def _experiment(self) -> str:
        known = self._client.get_experiment_by_name("adiw")
        return str(self._client.create_experiment("adiw") if known is None else known.experiment_id)

    def _existing_run(self) -> str | None:
        """The MLflow run of the same folder, if the run was started before."""
        same_folder = f"tags.`adiw.folder` = '{_without_quotes(self._folder)}'"
        found = self._client.search_runs([self._experiment()], same_folder, max_results=1)
        if not found:
            return None
        self._client.update_run(found[0].info.run_id, status="RUNNING")
        return str(found[0].info.run_id)

    def _new_run(self) -> str:
        tags = {"adiw.folder": _without_quotes(self._folder)}
        run = self._client.create_run(self._experiment(), run_name=self._folder.name, tags=tags)
        for name, value in self._settings.items():
            self._client.log_param(run.info.run_id, name, value)
        return str(run.info.run_id)


def _without_quotes(folder: Path) -> str:
    """The folder as text without single quotes, which end a string in MLflow's query language."""
    return str(folder).replace("'", "_")


TRACKERS: dict[str, Callable[[Path, Settings], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def open_tracker(name: str, folder: Path, settings: Settings) -> Tracker:
    """The tracker of a run in ``folder``. Its package is imported here, its files are written later."""
    if not isinstance(name, str) or name not in TRACKERS:
        raise ValueError(f"unknown tracker {name!r}: expected {' or '.join(TRACKERS)}")
    return TRACKERS[name](folder, settings)
