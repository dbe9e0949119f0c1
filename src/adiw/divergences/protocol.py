"""What a divergence is: settings that turn a pair of batches into a problem, and the problem's four functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol, TypeGuard

from torch import Generator, Tensor

from adiw.arguments import is_positive
from adiw.matching.batches import MatchedBatches

Side = Literal["train", "val"]


class Problem(Protocol):
    """min over Q of J(params), for one pair of batches. All tensors stay on the pair's device.

    ``params`` has one entry per training sample (n,) or per validation sample (m,), as the divergence's ``side``
    says. Entries of samples that the pair leaves out are ignored by every function.

    A problem may also have ``step_scale``, a tensor shaped as params: what each entry's step is multiplied by, where
    one step size does not fit all.
    """

    def initial(self) -> Tensor:
        """Where samples start that were never estimated: feasible, and weights about one."""
        ...

    def objective(self, params: Tensor) -> Tensor:
        """J(params), a scalar: the sum over the groups. ``gradient`` is its derivative."""
        ...

    def gradient(self, params: Tensor) -> Tensor:
        """dJ / dparams, shaped as params."""
        ...

    def project(self, params: Tensor) -> Tensor:
        """The feasible point for params."""
        ...

    def weights(self, params: Tensor) -> Tensor:
        """The importance weight of each training sample (n,)."""
        ...


class Divergence(Protocol):
    """Settings of a divergence: a frozen dataclass with a ``step_size``."""

    side: ClassVar[Side]  # whose samples carry one parameter each

    @property
    def step_size(self) -> float:
        """eta of the projected-gradient step."""
        ...

    def problem(self, batches: MatchedBatches) -> Problem:
        """The problem for this pair, with whatever (kernels, sorted samples) its functions share."""
        ...


class Learner(Protocol):
    """A divergence that also learns (a critic network). What it learns is a mapping of tensors, its memory."""

    def start(self, dim: int, num_groups: int, like: Tensor, generator: Generator) -> dict[str, Tensor]:
        """The first memory, for z of ``dim`` numbers, on the device and in the dtype of ``like``.

        It is empty where there is nothing to learn.
        """
        ...

    def learn(
        self, batches: MatchedBatches, weights: Tensor, memory: Mapping[str, Tensor], generator: Generator
    ) -> dict[str, Tensor]:
        """The memory after this pair under the current weights (n,)."""
        ...


def learns(divergence: object) -> TypeGuard[Learner]:
    """Whether a divergence has a memory. (``isinstance`` of a protocol takes longer than a small kernel.)"""
    return hasattr(divergence, "learn")


def check_setting(owner: object, name: str, valid: bool, expected: str) -> None:
    """Raise a ValueError that names the setting, what it must be and what came.

    >>> from adiw.divergences import KL
    >>> KL(width=-1.0)
    Traceback (most recent call last):
    ValueError: KL: width must be a positive number or "auto", got -1.0
    """
    if not valid:
        raise ValueError(f"{type(owner).__name__}: {name} must be {expected}, got {getattr(owner, name)!r}")


def check_width(owner: object, name: str = "width") -> None:
    """A positive number or "auto"."""
    value = getattr(owner, name)
    check_setting(
        owner, name, is_positive(value) or (isinstance(value, str) and value == "auto"), 'a positive number or "auto"'
    )


def check_step_size(owner: Divergence) -> None:
    """A positive number."""
    check_setting(owner, "step_size", is_positive(owner.step_size), "a positive number")
