"""Which iterations are profiled, and whether a profile that was begun may be gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from adiw.engine.checkpoint import CheckpointError
from adiw.experiments.settings import Settings, SettingsError


@dataclass(frozen=True)
class Plan:
    """The profiled epochs, counted from 1, and the window in each: the paper skips 10 iterations, then 2, records 10.

    iterations: at which every epoch ends, None for whole epochs. A stage takes as long in a short epoch.

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
            raise SettingsError(f"the profiled epochs must be different numbers from 1 on, got {given}")

    @property
    def window(self) -> int:
        """Iterations from the epoch's first to the last that is recorded."""
        return self.skip + self.stabilise + self.record

    def length(self, batches: int) -> int:
        """Iterations of an epoch with this many batches; an error if the window does not fit into it."""
        length = batches if self.iterations is None else min(self.iterations, batches)
        if length < self.window:
            raise SettingsError(
                f"the window takes {self.window} iterations ({self.skip} skipped, {self.stabilise} to stabilise, "
                f"{self.record} recorded), but an epoch has {length}: take smaller batches, longer epochs or a "
                "smaller window"
            )
        return length

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"epochs": list(self.epochs)}


def check_same(
    file: Path, content: Mapping[str, Any], common: Mapping[str, Any], name: str, settings: Settings
) -> None:
    """Refuse to add to a profile of another plan or device, or to mix two settings of one implementation.

    ``content`` is what the file holds, ``common`` what holds for all implementations of a profile.
    """
    changed = [f"{key} was {content.get(key)}, is {common[key]}" for key in common if content.get(key) != common[key]]
    if name in content["implementations"]:
        found, given = content["implementations"][name]["settings"], settings.as_dict()
        changed += [
            f"{key} of {name} was {found.get(key)}, is {given.get(key)}"
            for key in {**found, **given}
            if found.get(key) != given.get(key)
        ]
    if changed:
        raise CheckpointError(
            f"{file} was made with other settings ({'; '.join(changed)}): choose another folder, or delete the file"
        )
