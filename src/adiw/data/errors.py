"""The exception of ``adiw.data``, and the error that names what to download."""

from collections.abc import Iterable
from pathlib import Path


class DataError(ValueError):
    """The data cannot be used: the message says what was expected, what was found and how to fix it."""


def missing_files(name: str, folder: Path, files: Iterable[str]) -> DataError:
    """Error for missing files: where they belong and the command that downloads them.

    >>> print(missing_files("cifar10", Path("data"), ["test_batch.bin"]))
    cifar10 is not complete: data has no test_batch.bin; run `adiw data get cifar10`, or put it there
    """
    names = list(files)
    return DataError(
        f"{name} is not complete: {folder.as_posix()} has no {', '.join(names)}; "
        f"run `adiw data get {name}`, or put {'it' if len(names) == 1 else 'them'} there"
    )
