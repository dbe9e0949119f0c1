"""When a run is dead: its losses are not finite, or its accuracy stays at chance."""

from __future__ import annotations

import math
from typing import Any

PATIENCE = 5  # consecutive epochs at chance
STEPS = 100  # least number of steps in them: the accuracy after a few steps is not reliable
LEAST_ESS = 0.05  # share of the training set: with less, a few samples have all the weight
LARGEST_MEAN = 10.0  # of the weights, whose mean should be near one
LARGEST_LOSS = 10.0  # per unit of weight, in units of log(num_classes), the loss of guessing

Metrics = list[dict[str, Any]]


class DeadRunError(RuntimeError):
    """A run that cannot recover. Its files are kept."""


def check_alive(metrics: Metrics, num_classes: int, steps_per_epoch: int = STEPS, estimated: int = 0) -> None:
    """Raise if the metrics show that a run is dead.

    Chance is 100 / num_classes percent, plus 20% of that or two points. A run that has never been above chance has
    twice the patience.

    estimated: the number of training samples for methods that estimate weights with a step size, which may be the
    cause; 0 for other methods.

    >>> check_alive([{"loss": 0.1, "nonfinite": 0.9, "accuracy": 90.0}], 10)
    Traceback (most recent call last):
    adiw.experiments.dead_run.DeadRunError: epoch 1: 90% of the losses are not finite; lower the learning rate
    """
    epoch, last = len(metrics), metrics[-1]
    advice = _weights_diverged(metrics, num_classes, estimated)
    if not math.isfinite(last["loss"]):
        raise DeadRunError(
            f"epoch {epoch}: the training loss is {last['loss']}; {advice or 'lower the learning rate'}"
        )
    if last["nonfinite"] > 0.5:  # these samples are masked in the loss, which is therefore finite
        share = f"{last['nonfinite']:.0%} of the losses are not finite"
        raise DeadRunError(f"epoch {epoch}: {share}; {advice or 'lower the learning rate'}")
    chance = 100 / num_classes + min(20 / num_classes, 2)
    best = max(row["accuracy"] for row in metrics)
    learned = best > min(2 * chance, (100 + chance) / 2)
    patience = max(PATIENCE if learned else 2 * PATIENCE, math.ceil(STEPS / steps_per_epoch))
    recent = metrics[-patience:]
    if len(recent) == patience and all(row["accuracy"] <= chance for row in recent):
        raise DeadRunError(
            f"epoch {epoch}: accuracy has been at chance for {patience} epochs (now {last['accuracy']:.1f}%, best "
            f"{best:.1f}%); {advice or ('lower the learning rate' if learned else 'try another learning rate')}"
        )


def _weights_diverged(metrics: Metrics, num_classes: int, estimated: int) -> str | None:
    """What to do if the weights diverged before the losses of the network did; None if they did not."""
    for epoch, row in enumerate(metrics if estimated else [], start=1):
        mean, ordinary = row["weight_mean"], LARGEST_LOSS * math.log(num_classes)
        if math.isfinite(mean) and not row["loss"] / max(mean, 1.0) <= ordinary:
            return None  # the losses of the network are too large or NaN
        if not (row["ess"] >= LEAST_ESS * estimated and mean <= LARGEST_MEAN):  # also true for NaN
            weights = f"effective sample size {row['ess']:.0f} of {estimated}, mean weight {mean:.3g}"
            return f"the weights diverged first (epoch {epoch}: {weights}): lower step_size, or set cap"
    return None
