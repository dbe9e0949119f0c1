"""The shared suite for divergences: every check that the library's own divergences pass, for yours.

In a file for pytest (any other runner can call the checks as well):

    import pytest
    import adiw.testing
    from my_divergences import Mine

    @pytest.mark.parametrize("check", adiw.testing.checks(Mine), ids=str)
    def test_mine(check):
        check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from adiw.divergences import Divergence
from adiw.divergences.registry import check_kind
from adiw.testing.batches import EXTREMES, LAYOUTS, extreme
from adiw.testing.case import Case, default
from adiw.testing.suite import CHECKS, check_extreme_batch
from adiw.testing.training import TASKS, check_training, check_training_on_features

__all__ = ["Case", "Check", "checks", "property_checks", "training_checks"]


@dataclass(frozen=True)
class Check:
    """A check of the suite. Calling it raises an AssertionError if the divergence fails."""

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        self.run()

    def __str__(self) -> str:
        return self.name


def checks(kind: type[Divergence], case: Case | None = None) -> list[Check]:
    """All checks of a divergence: its properties on small batches, and short trainings with its defaults.

    Args:
        kind: the class.
        case: settings for the properties, and exceptions from them; by default the default settings, with ``width``
            and ``scale`` set to suit the data.

    >>> from adiw.divergences import Energy
    >>> found = checks(Energy)
    >>> found[0]()
    >>> print(found[0])
    check_gradient_is_the_derivative, one group, 1d
    """
    check_kind(kind, getattr(kind, "__name__", repr(kind)))
    return [*property_checks(Case(default(kind)) if case is None else case), *training_checks(kind)]


def property_checks(case: Case) -> Iterator[Check]:
    """Gradient, projection, groups, excluded samples, precision and extreme numbers, on scalars and vectors."""
    for dim in case.dims:
        for layout, make in LAYOUTS.items():
            for check in CHECKS:
                yield Check(f"{check.__name__}, {layout}, {dim}d", partial(_on, check, case, make, dim))
        for name in EXTREMES:
            yield Check(f"{name}, {dim}d", partial(_on, check_extreme_batch, case, partial(extreme, name), dim))


def training_checks(kind: type[Divergence]) -> Iterator[Check]:
    """Short trainings with the default settings."""
    for name, task in TASKS.items():
        yield Check(f"training, {name}", lambda task=task: check_training(kind(), task()))  # type: ignore[misc]
    yield Check("training, features", lambda: check_training_on_features(kind()))


def _on(check: Callable[..., None], case: Case, make: Callable[[int], object], dim: int) -> None:
    check(case, make(dim))
