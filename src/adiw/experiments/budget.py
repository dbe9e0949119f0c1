"""The time limit of a sweep, such as the time that a cluster grants it."""

from __future__ import annotations

import re
import time

from adiw.experiments.settings import SettingsError

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
RESERVE, SMALLEST_RESERVE = 0.05, 20.0  # share of the budget, and least seconds, kept for the end


class Budget:
    """A time limit that starts now; ``spent()`` is true once only the reserve remains.

    The reserve is for the steps that are still running, the checkpoints, and the tables.

    >>> Budget(3600).spent()
    False
    """

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds - min(max(RESERVE * seconds, SMALLEST_RESERVE), seconds / 2)

    def spent(self) -> bool:
        return time.monotonic() >= self.end


def seconds_of(text: str, option: str = "--budget") -> float:
    """Seconds of a duration such as 25m, 90s or 1h30m.

    >>> seconds_of("1h30m"), seconds_of("90s")
    (5400.0, 90.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise SettingsError(f"{option} must be a duration such as 25m, 90s or 1h30m, got {text!r}")
    total = sum(float(number) * UNITS[unit] for number, unit in parts)
    if total <= 0:
        raise SettingsError(f"{option} must be positive, got {text!r}")
    return total
