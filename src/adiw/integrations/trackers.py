"""Where the figures of a run are shown while it runs: TensorBoard or MLflow, both as files, neither required."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

__all__ = ["MLflow", "TensorBoard", "Tracker", "open_tracker"]

Settings = Mapping[str, object]


class Tracker(Protocol):
    """Takes the figures of a run, step by step. Its files begin with the first step: a refused run leaves none."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """The values of each figure after this step."""
        ...

    def close(self, failed: bool = False) -> None:
        """The run has ended: everything reaches the disk."""
        ...


class TensorBoard:
    """Event files in ``folder/tensorboard``; a run that goes on adds another file beside the first.

    The settings are not shown: TensorBoard has curves, and the run's folder has its settings.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError('the tracker tensorboard needs pip install "adiw[tensorboard]"') from error
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
    """One MLflow run, in ``folder/mlflow`` or where ``MLFLOW_TRACKING_URI`` says; a run that goes on is taken up.

    ``mlflow ui --backend-store-uri folder/mlflow`` shows it. Nothing leaves this machine unless that variable names
    a server: MLflow's own reports of its use are turned off unless ``MLFLOW_DISABLE_TELEMETRY`` is set already.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # its databases need more than mlflow-skinny
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise ImportError('the tracker mlflow needs pip install "adiw[mlflow]"') from error
        folder = folder.resolve()
        where = os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlflow").as_uri()
        self._open: Callable[[], Any] = lambda: MlflowClient(tracking_uri=where)
        self._folder, self._settings = folder, settings
        self._client: Any = None
        self._run = ""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self._client is None:
            self._client = self._open()
            self._run = self._find() or self._begin()
        for name, value in values.items():
            self._client.log_metric(self._run, name, float(value), step=step)

    def close(self, failed: bool = False) -> None:
        if self._client is not None:
            self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")

    def _experiment(self) -> str:
        known = self._client.get_experiment_by_name("adiw")
        return str(self._client.create_experiment("adiw") if known is None else known.experiment_id)

    def _find(self) -> str | None:
        """The run that an earlier start in the same folder began."""
        of_folder = f"tags.`adiw.folder` = '{_quoted(self._folder)}'"
        found = self._client.search_runs([self._experiment()], of_folder, max_results=1)
        if not found:
            return None
        self._client.update_run(found[0].info.run_id, status="RUNNING")
        return str(found[0].info.run_id)

    def _begin(self) -> str:
        tags = {"adiw.folder": _quoted(self._folder)}
        run = self._client.create_run(self._experiment(), run_name=self._folder.name, tags=tags)
        for name, value in self._settings.items():
            self._client.log_param(run.info.run_id, name, value)
        return str(run.info.run_id)


def _quoted(folder: Path) -> str:
    """A folder's name without the quote that would end it in MLflow's query language."""
    return str(folder).replace("'", "_")


TRACKERS: dict[str, Callable[[Path, Settings], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def open_tracker(name: str, folder: Path, settings: Settings) -> Tracker:
    """The tracker of that name for a run in ``folder``; what it needs is imported at once, and its files come later.

    >>> open_tracker("wandb", Path("runs/a"), {})
    Traceback (most recent call last):
    ValueError: unknown tracker 'wandb': expected tensorboard or mlflow
    """
    if not isinstance(name, str) or name not in TRACKERS:
        raise ValueError(f"unknown tracker {name!r}: expected {' or '.join(TRACKERS)}")
    return TRACKERS[name](folder, settings)
