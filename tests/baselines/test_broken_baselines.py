"""Wrong baselines, each of which the shared suite must reject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor, nn

from adiw.baselines import L2R, MWNet, Random, Uniform
from tests.baselines.suite import (
    Factory,
    check_a_nonfinite_loss_changes_nothing_else,
    check_eval_freezes,
    check_gradient_is_that_of_fixed_weights,
    check_model_does_not_change,
    check_resumes_bit_for_bit,
    check_weights_are_those_of_the_loss,
)


class DrawsInEvaluation(Random):
    def train(self, mode: bool = True) -> DrawsInEvaluation:
        return self


class ForgetsItsGenerator(Random):
    def set_extra_state(self, state: dict[str, Any]) -> None:
        pass


class ForgetsAdam(MWNet):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, learning_rate=0.1, **options)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        pass


class RegistersTheModel(Uniform):
    def __init__(self, model: nn.Module, *args: Any, **options: Any) -> None:
        super().__init__(model, *args, **options)
        self.model = model


class RunsTheModelItself(L2R):
    """Its validation pass changes the running averages of batch norm."""

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        self.functional.evaluator.model(inputs)
        return super().forward(outputs, targets, index, inputs)


class Sums(Uniform):
    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        return len(index) * super().forward(outputs, targets, index, inputs)


class DifferentiatesTheWeights(Uniform):
    """mean(loss^2 / loss.detach()): the right value with twice the gradient."""

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        losses = self.evaluator.losses(outputs, targets)
        self.weight_state.begin_step(index, losses)
        return (losses.square() / losses.detach()).mean()


class TrustsEveryLoss(Uniform):
    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        return self.evaluator.losses(outputs, targets).mean()


BROKEN: list[tuple[Factory, Callable[[Factory], None]]] = [
    (DrawsInEvaluation, check_eval_freezes),
    (ForgetsItsGenerator, check_resumes_bit_for_bit),
    (ForgetsAdam, check_resumes_bit_for_bit),
    (RegistersTheModel, check_model_does_not_change),
    (RunsTheModelItself, check_model_does_not_change),
    (Sums, check_weights_are_those_of_the_loss),
    (DifferentiatesTheWeights, check_gradient_is_that_of_fixed_weights),
    (TrustsEveryLoss, check_a_nonfinite_loss_changes_nothing_else),
]


@pytest.mark.parametrize(("factory", "check"), BROKEN)
def test_broken_baselines_are_rejected(factory: Factory, check: Callable[[Factory], None]) -> None:
    with pytest.raises(AssertionError):
        check(factory)
