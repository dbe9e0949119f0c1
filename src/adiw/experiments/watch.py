"""When a run is dead: losses that are not finite, or accuracy that fell to chance and stays there."""

from __future__ import annotations

import math
from typing import Any

PATIENCE = 5  # epochs in a row at chance,
STEPS = 100  # and steps: an epoch of a few trusted samples has few, and its accuracy jumps about at first


class DeadRunError(RuntimeError):
    """A run that will not recover. Its files are kept."""


def check_alive(metrics: list[dict[str, Any]], num_classes: int, steps_per_epoch: int = STEPS) -> None:
    """Raise when the last rows of a run show that it has died.

    Chance is 100 / classes percent; what is within 20% of it, and within two points, counts as chance. A run that
    never got anywhere is given twice the patience before it is called dead.

    >>> check_alive([{"loss": 0.1, "nonfinite": 0.9, "accuracy": 90.0}], 10)
    Traceback (most recent call last):
    adiw.experiments.watch.DeadRunError: epoch 1: 90% of the losses are not finite; lower the learning rate
    """
    epoch, last = len(metrics), metrics[-1]
    if not math.isfinite(last["loss"]):
        raise DeadRunError(f"epoch {epoch}: the training loss is {last['loss']}; lower the learning rate")
    if last["nonfinite"] > 0.5:  # these samples are left out of the loss, which therefore looks healthy
        raise DeadRunError(
            f"epoch {epoch}: {last['nonfinite']:.0%} of the losses are not finite; lower the learning rate"
        )
    chance = 100 / num_classes + min(20 / num_classes, 2)
    best = max(row["accuracy"] for row in metrics)
    learned = best > min(2 * chance, (100 + chance) / 2)
    patience = max(PATIENCE if learned else 2 * PATIENCE, math.ceil(STEPS / steps_per_epoch))
    recent = metrics[-patience:]
    if len(recent) == patience and all(row["accuracy"] <= chance for row in recent):
        raise DeadRunError(
            f"epoch {epoch}: accuracy has been at chance for {patience} epochs (now {last['accuracy']:.1f}%, best "
            f"{best:.1f}%); {'lower the learning rate' if learned else 'try another learning rate'}"
        )
