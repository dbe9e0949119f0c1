"""A run's folder for the processes that leave its files to the first one."""

from __future__ import annotations

from typing import Any

import numpy as np

from adiw.experiments.record import Folder
from adiw.experiments.sealed import Row


class Unwritten(Folder):
    """The folder for a process that leaves writing to another: nothing that is given to it is kept."""

    def create(self) -> None:
        pass

    def write_json(self, name: str, content: Any) -> None:
        pass

    def write_rows(self, name: str, rows: list[Row]) -> None:
        pass

    def append_row(self, name: str, row: Row) -> None:
        pass

    def remove(self, name: str) -> None:
        pass

    def write_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        pass

    def seal(self, *names: str) -> None:
        pass

    def unseal(self) -> None:
        pass
