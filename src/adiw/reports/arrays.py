"""The arrays that a run keeps, read without running anything in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def load_array(file: Path) -> NDArray[Any]:
    """The plain array in a .npy file; pickles, archives and headers that claim too much are refused by name."""
    try:
        with file.open("rb") as stream:  # np.load would open archives too
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise ValueError(
            f"{file}: expected a plain array, as numpy.save writes it ({error}); run it again"
        ) from error
    return array
