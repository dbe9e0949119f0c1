"""Checks of a divergence's settings, for ``__post_init__``, and the settings that several divergences share.

Each check raises a ValueError that names the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from adiw.argument_checks import is_positive
from adiw.divergences.protocol import Divergence, Side
from adiw.matching.kernels import Width

Update = Literal["rescale", "optimum", "euclidean"]


def check_setting(owner: object, name: str, valid: bool, expected: str) -> None:
    """Raise unless ``valid``; ``expected`` describes valid values.

    >>> from adiw.divergences import KL
    >>> KL(width=-1.0)
    Traceback (most recent call last):
    ValueError: KL: width must be a positive number or "auto", got -1.0
    """
    if not valid:
        raise ValueError(f"{type(owner).__name__}: {name} must be {expected}, got {getattr(owner, name)!r}")


def check_choice(owner: object, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless the setting is one of these strings."""
    check_setting(owner, name, getattr(owner, name) in choices, f"one of {', '.join(map(repr, choices))}")


def check_width(owner: object, name: str = "width") -> None:
    """Raise unless the setting is a positive number or "auto"."""
    value = getattr(owner, name)
    automatic = isinstance(value, str) and value == "auto"
    check_setting(owner, name, automatic or is_positive(value), 'a positive number or "auto"')


def check_step_size(owner: Divergence | RatioSettings) -> None:
    """Raise unless ``step_size`` is a positive number."""
    check_setting(owner, "step_size", is_positive(owner.step_size), "a positive number")


@dataclass(frozen=True)
class RatioSettings:
    """The settings of a density ratio that is a kernel model with a mean of one, with the arguments of ``KL``."""

    width: Width = 0.5
    step_size: float = 0.5
    update: Update = "rescale"
    side: ClassVar[Side] = "val"
    cost: ClassVar[str] = "m (n + m)"

    def __post_init__(self) -> None:
        check_width(self)
        check_step_size(self)
        check_choice(self, "update", ("rescale", "optimum", "euclidean"))
