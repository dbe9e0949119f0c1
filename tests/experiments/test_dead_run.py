"""When a run is dead, and the advice in the message."""

from __future__ import annotations

import math

import pytest

from adiw.experiments.dead_run import PATIENCE, DeadRunError, check_alive


def epochs(*accuracies: float, loss: float = 1.0, nonfinite: float = 0.0) -> list[dict[str, float]]:
    return [{"accuracy": accuracy, "loss": loss, "nonfinite": nonfinite} for accuracy in accuracies]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_run_whose_loss_is_not_finite_is_dead(loss: float) -> None:
    with pytest.raises(DeadRunError, match=f"epoch 2: the training loss is {loss}; lower the learning rate"):
        check_alive(epochs(90.0, 90.0, loss=loss), 10)


def test_a_run_whose_samples_are_mostly_masked_is_dead_though_its_loss_is_finite() -> None:
    with pytest.raises(DeadRunError, match="epoch 1: 100% of the losses are not finite"):
        check_alive(epochs(90.0, loss=0.0, nonfinite=1.0), 10)
    check_alive(epochs(90.0, nonfinite=0.5), 10)
    check_alive(epochs(90.0, nonfinite=0.01), 10)


def test_only_the_last_row_is_checked_for_losses() -> None:
    rows = epochs(90.0, loss=math.nan) + epochs(90.0)
    check_alive(rows, 10)


def test_a_run_that_fell_to_chance_is_dead_after_five_epochs() -> None:
    fallen = epochs(80.0, *[10.0] * (PATIENCE - 1))
    check_alive(fallen, 10)
    with pytest.raises(DeadRunError, match=r"at chance for 5 epochs \(now 11\.9%, best 80\.0%\); lower the learning"):
        check_alive(fallen + epochs(11.9), 10)


def test_a_run_that_never_learned_is_dead_after_ten_epochs() -> None:
    check_alive(epochs(*[10.0] * 9), 10)
    with pytest.raises(DeadRunError, match=r"at chance for 10 epochs .*; try another learning rate"):
        check_alive(epochs(*[10.0] * 10), 10)


def test_runs_with_few_steps_per_epoch_have_more_patience() -> None:
    """Fashion-MNIST's 1000 trusted samples make three steps per epoch, so accuracy stays at chance at first."""
    early = epochs(10.0, 36.7, *[10.0] * 20)
    check_alive(early, 10, steps_per_epoch=3)
    with pytest.raises(DeadRunError, match="at chance for 34 epochs"):
        check_alive(epochs(36.7, *[10.0] * 34), 10, steps_per_epoch=3)
    with pytest.raises(DeadRunError):
        check_alive(early, 10, steps_per_epoch=234)


def test_a_single_good_epoch_resets_the_count() -> None:
    check_alive(epochs(80.0, *[10.0] * 4, 12.1, *[10.0] * 4), 10)


@pytest.mark.parametrize(("classes", "chance"), [(2, 52.0), (3, 35.3), (10, 12.0), (100, 1.2)])
def test_what_counts_as_chance(classes: int, chance: float) -> None:
    with pytest.raises(DeadRunError):
        check_alive(epochs(*[chance] * 10), classes)
    check_alive(epochs(*[chance + 0.1] * 10), classes)


def test_with_two_classes_learning_is_recognised() -> None:
    with pytest.raises(DeadRunError, match="at chance for 5 epochs"):
        check_alive(epochs(95.0, *[50.0] * 5), 2)
    check_alive(epochs(*[58.0] * 20), 2)  # a hard problem is not a dead run


def weighted(row: tuple[float, float, float, float]) -> dict[str, float]:
    loss, accuracy, ess, mean = row
    return {"loss": loss, "nonfinite": 0.0, "accuracy": accuracy, "ess": ess, "weight_mean": mean}


WARM_UP = (2.3, 40.0, 1000.0, 1.0)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ((2.7, 10.0, 20.0, 1.0), "effective sample size 20 of 1000, mean weight 1"),
        ((5e4, 10.0, 900.0, 2e4), "effective sample size 900 of 1000, mean weight 2e+04"),
        ((math.nan, 10.0, math.nan, math.nan), "effective sample size nan of 1000, mean weight nan"),
    ],
)
def test_weights_that_diverge_before_the_losses_are_named(bad: tuple[float, ...], named: str) -> None:
    rows = [weighted(row) for row in (WARM_UP, *[bad] * PATIENCE)]
    with pytest.raises(DeadRunError) as raised:
        check_alive(rows, 10, estimated=1000)
    assert str(raised.value).endswith(f"; the weights diverged first (epoch 2: {named}): lower step_size, or set cap")
    with pytest.raises(DeadRunError, match="; lower the learning rate"):
        check_alive(rows, 10)  # a method without a step size


@pytest.mark.parametrize("first", [(1e6, 10.0, 20.0, 1.0), (math.inf, 10.0, 900.0, 1.0), (2.3, 10.0, 300.0, 1.0)])
def test_for_losses_that_diverge_first_the_advice_is_the_learning_rate(first: tuple[float, ...]) -> None:
    rows = [weighted(row) for row in (WARM_UP, *[first] * PATIENCE)]
    with pytest.raises(DeadRunError, match=r"; lower the learning rate$"):
        check_alive(rows, 10, estimated=1000)
