"""The interface of a divergence: its settings build a problem for two batches, and a problem is five functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol, TypeGuard

from torch import Generator, Tensor

from adiw.matching.batches import MatchedBatches

Side = Literal["train", "val"]


class Problem(Protocol):
    """min J(params) over a feasible set, for n training and m validation samples.

    ``params`` is (n,) if ``Divergence.side`` is "train", else (m,). Every function ignores the entries of excluded
    samples. A problem may also have ``step_scale``, a tensor of the shape of params that multiplies the gradient in a
    step.
    """

    def initial(self) -> Tensor:
        """Feasible parameters whose weights have mean one, from which samples without an estimate start."""

    def objective(self, params: Tensor) -> Tensor:
        """J(params), a scalar: the sum over the groups."""

    def gradient(self, params: Tensor) -> Tensor:
        """dJ / dparams, of the shape of params."""

    def project(self, params: Tensor) -> Tensor:
        """The nearest feasible point, or another one if the divergence documents why."""

    def weights(self, params: Tensor) -> Tensor:
        """The importance weights of the training samples, (n,), not negative."""


class Divergence(Protocol):
    """The settings of a divergence: a frozen dataclass."""

    side: ClassVar[Side]  # one parameter per training sample ("train") or per validation sample ("val")

    @property
    def step_size(self) -> float:
        """eta of the projected-gradient step."""

    def problem(self, batches: MatchedBatches) -> Problem:
        """The problem for two batches. What several of its functions need, such as a kernel, is computed here."""


class Learner(Protocol):
    """A divergence that also trains a model across batches, such as a critic network. Its memory is named tensors."""

    def start(self, dim: int, num_groups: int, like: Tensor, generator: Generator) -> dict[str, Tensor]:
        """The first memory, for z of ``dim`` numbers, on the device and in the dtype of ``like``; may be empty."""

    def learn(
        self, batches: MatchedBatches, weights: Tensor, memory: Mapping[str, Tensor], generator: Generator
    ) -> dict[str, Tensor]:
        """The memory after training on these batches under the current weights (n,)."""


def learns(divergence: object) -> TypeGuard[Learner]:
    """Whether a divergence is a ``Learner``. (``isinstance`` with a protocol takes longer than a small kernel.)"""
    return hasattr(divergence, "learn")
