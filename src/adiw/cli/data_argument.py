"""``DATA``, the argument of ``adiw run`` and ``adiw check``: a data set by its name, or the user's file or folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adiw.data import DATASETS
from adiw.experiments.settings import Settings, SettingsError, unknown

HELP = "A table, a folder of tables or images, or a data set of 'adiw list'"
KINDS = ("csv", "imagefolder")  # of users' own data, which have a path


def with_data(given: dict[str, Any], data: str | None) -> dict[str, Any]:
    """The given settings, and those that ``data`` stands for; an error if some of them say this already."""
    if data is None:
        return given
    named = source(data)
    options = " and ".join(f"--{name}" for name in ("dataset", "path") if name in given)
    if options:
        raise SettingsError(f"{data} and {options} both name the data: give only one of them")
    return {**named, **given}


def source(data: str) -> dict[str, Any]:
    """The settings dataset and path of a data set by name, or of a user's file or folder.

    >>> source("digits"), source("my/table.csv")
    ({'dataset': 'digits'}, {'dataset': 'csv', 'path': 'my/table.csv'})
    """
    path = Path(data)
    if data in KINDS:
        raise SettingsError(f"{data} is a kind of data: name the file or folder itself, such as tables/my.csv")
    if data in DATASETS:
        return {"dataset": data}
    if not path.exists() and not path.suffix:
        raise unknown("data set, file or folder", data, [name for name in DATASETS if name not in KINDS])
    images = path.is_dir() and (path / "train").is_dir()
    return {"dataset": "imagefolder" if images else "csv", "path": data}


def data_name(settings: Settings) -> str:
    """The name of the data set, or of the user's file or folder without its ending.

    >>> data_name(Settings(dataset="csv", path="my/table.csv.gz")), data_name(Settings())
    ('table', 'digits')
    """
    own = "" if settings.path is None else Path(settings.path).resolve().name
    return own.partition(".")[0] or settings.dataset
