"""Images that cannot be decoded, found before training meets them."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from adiw.data.decode import read_image
from adiw.data.errors import DataError

POLICIES = ("refuse", "skip")  # an error when one is met, or leave them all out at the start
SHOWN = 20  # names in a warning


def leave_out_broken(paths: Sequence[Path]) -> list[Path]:
    """The images that can be decoded, in their order; a warning names the others and what is wrong with them.

    Every file is decoded once, as many at a time as there are processors.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = list(pool.map(_fault, paths))
    broken = [fault for fault in faults if fault is not None]
    if broken:
        more = f" and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
        text = "; ".join(broken[:SHOWN])
        warnings.warn(f"{len(broken)} of {len(paths)} images were left out: {text}{more}", stacklevel=2)
    return [path for path, fault in zip(paths, faults, strict=True) if fault is None]


def _fault(path: Path) -> str | None:
    try:
        read_image(path)
    except DataError as error:
        return str(error)
    return None
