"""Where data lies and how it is read: the settings every loader is called with."""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from adiw.data.dataset import Data
from adiw.data.errors import DataError


@dataclass(frozen=True)
class Options:
    """Settings of a loader; each takes the ones it names and refuses the others.

    path: the user's own folder or file;  target: label column;  size: side of decoded images;
    seed: of the train/test split;  verify: compare files with their published digests;
    broken: images that cannot be decoded, "refuse" or "skip".
    """

    path: Path | None = None
    target: str | None = None
    size: int = 224
    seed: int = 0
    verify: bool = True
    broken: str = "refuse"

    def only(self, name: str, *taken: str) -> "Options":
        """Itself, or an error when an option was set that the data set `name` does not take.

        >>> Options(seed=3).only("csv", "path", "target", "seed").seed
        3
        """
        changed = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        unknown = [option for option in changed if option not in taken]
        if unknown:
            raise DataError(f"{name} does not take {', '.join(unknown)}; it takes {', '.join(taken) or 'no options'}")
        return self

    def require_path(self, name: str, what: str) -> Path:
        """The path, or an error that says what it should point to."""
        if self.path is None:
            raise DataError(f"{name} needs a path: {what}")
        try:
            found = self.path.exists()
        except OSError as error:  # a name that is too long, a folder that may not be looked into
            raise DataError(f"{name}: {str(self.path)[:100]} cannot be read ({error.strerror})") from error
        if not found:
            raise DataError(f"{name}: {self.path} does not exist; expected {what}")
        return self.path


Loader = Callable[[Path, Options], Data]
"""What reads a data set: from the folder that holds the data sets, and settings."""


def data_root() -> Path:
    """The folder that holds the data sets: $ADIW_DATA, or ./data when it is not set."""
    return Path(os.environ.get("ADIW_DATA") or "data")
