"""A network that draws random numbers in every training pass: ``tests.experiments.dropping:build``."""

from __future__ import annotations

from math import prod

from torch import nn


def build(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), 32), nn.Dropout(), nn.Linear(32, num_classes))
