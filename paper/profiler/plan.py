"""Which iterations are profiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from adiw.experiments.settings import SettingsError


@dataclass(frozen=True)
class Plan:
    """The profiled epochs, counted from 1, and the window in each of them.

    A window has ``skip`` iterations without the profiler, ``stabilise`` with the profiler running but not recording,
    and ``record`` recorded ones; the paper uses 10, 2 and 10. ``iterations`` ends every epoch early: a stage takes as
    long in a short epoch.

    >>> Plan(epochs=(1, 5)).window
    22
    """

    epochs: tuple[int, ...] = (1,)
    skip: int = 10
    stabilise: int = 2
    record: int = 10
    iterations: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("skip", 0), ("stabilise", 1), ("record", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not self.epochs or min(self.epochs) < 1 or len(set(self.epochs)) < len(self.epochs):
            given = ", ".join(map(str, self.epochs)) or "none"
            raise SettingsError(f"the profiled epochs must be different numbers from 1, got {given}")

    @property
    def window(self) -> int:
        """Iterations from the start of the epoch to the last recorded one."""
        return self.skip + self.stabilise + self.record

    def length(self, batches: int) -> int:
        """Iterations of an epoch of this many batches; an error if the window does not fit."""
        length = batches if self.iterations is None else min(self.iterations, batches)
        if length < self.window:
            raise SettingsError(
                f"the window takes {self.window} iterations ({self.skip} skipped, {self.stabilise} to stabilise, "
                f"{self.record} recorded), but an epoch has {length}: use smaller batches, longer epochs or a "
                "smaller window"
            )
        return length

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"epochs": list(self.epochs)}


def up_to(epochs: Sequence[int], last: int | None) -> tuple[int, ...]:
    """The epochs up to ``last``, or ``last`` itself if there are none; all of them for None.

    >>> up_to((20, 105, 205), 110), up_to((20, 105, 205), 7), up_to((20, 105, 205), None)
    ((20, 105), (7,), (20, 105, 205))
    """
    return tuple(epochs) if last is None else tuple(epoch for epoch in epochs if epoch <= last) or (last,)
