"""The one exception of adiw.data."""

from collections.abc import Iterable
from pathlib import Path


class DataError(ValueError):
    """The data cannot be used: the message says what was expected, what came and how to fix it."""


def missing(name: str, folder: Path, files: Iterable[str]) -> DataError:
    """Error for files that are not there: where they should be and the command that fetches them.

    >>> print(missing("cifar10", Path("data"), ["test_batch.bin"]))
    cifar10 is not complete: data has no test_batch.bin; run `adiw data get cifar10`, or put it there
    """
    names = list(files)
    return DataError(
        f"{name} is not complete: {folder.as_posix()} has no {', '.join(names)}; "
        f"run `adiw data get {name}`, or put {'it' if len(names) == 1 else 'them'} there"
    )


def extra_missing(package: str, purpose: str) -> DataError:
    """Error for an optional package that is not installed.

    >>> print(extra_missing("Pillow", "reading images"))
    reading images needs Pillow, which is not installed: pip install "adiw[cli]"
    """
    return DataError(f'{purpose} needs {package}, which is not installed: pip install "adiw[cli]"')
