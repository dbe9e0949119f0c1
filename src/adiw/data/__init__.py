"""Data sets: published ones in their official files, and the user's own images and tables.

A new data set is one file with a loader, and one line in the table below.

>>> data = load("digits")
>>> len(data.train), data.num_classes
(1297, 10)
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

from adiw.data.cifar import load_cifar10, load_cifar100
from adiw.data.dataset import Data
from adiw.data.digits import load_digits
from adiw.data.fashion_mnist import load_fashion_mnist
from adiw.data.image_files import ImageFiles
from adiw.data.imagefolder import load_imagefolder
from adiw.data.samples import Samples
from adiw.data.source_files import DataError, data_root
from adiw.data.tables import load_table

DATASETS: dict[str, Callable[..., Data]] = {
    "digits": load_digits,
    "fashion-mnist": load_fashion_mnist,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "imagefolder": load_imagefolder,
    "csv": load_table,
}
"""The names that ``load`` accepts, and the function that loads each data set; its parameters are the options."""


def load(
    name: str,
    root: str | Path | None = None,
    *,
    path: str | Path | None = None,
    target: str | None = None,
    group: str | None = None,
    size: int = 224,
    train_rows: Sequence[int] | None = None,
    trusted: Path | None = None,
    broken: str = "refuse",
) -> Data:
    """Load a data set by its name in DATASETS.

    root: folder that holds the data sets (default: $ADIW_DATA or ./data);  path: the user's own images or
    table;  target: label column of a table;  group: its column that names groups of rows;  size: side of decoded
    images;  train_rows: rows of a table in one file, from 0, that are not drawn for testing;  trusted: a table of
    trusted rows, which become training rows as well;  broken: an image that cannot be decoded is an error when it is
    read ("refuse"), or excluded with a warning at the start ("skip").
    A data set refuses options that it does not take.
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise DataError(f"unknown data set {name!r}; the data sets are {', '.join(DATASETS)}")
    for what, value in (("root", root), ("path", path)):
        if not (value is None or isinstance(value, str | Path)) or "\0" in str(value):
            raise DataError(f"{what}: expected a path, found {value!r}")
    given = {
        "root": data_root() if root is None else Path(root),
        "path": None if path is None else Path(path),
        **{"target": target, "group": group, "size": size, "train_rows": train_rows},
        **{"trusted": trusted, "broken": broken},
    }
    loader = DATASETS[name]
    taken = [option for option in given if option in inspect.signature(loader).parameters]
    stray = [
        key for key, default in (load.__kwdefaults__ or {}).items() if given[key] != default and key not in taken
    ]
    if stray:
        options = ", ".join(option for option in taken if option != "root") or "no options"
        raise DataError(f"{name} does not take {', '.join(stray)}; it takes {options}")
    return loader(**{option: given[option] for option in taken})


__all__ = ["DATASETS", "Data", "DataError", "ImageFiles", "Samples", "data_root", "load"]
