"""A network with batch norm: ``tests.experiments.normed:build``."""

from __future__ import annotations

from math import prod

from torch import nn


def build(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    layers = [nn.Flatten(), nn.Linear(prod(input_shape), 32), nn.BatchNorm1d(32), nn.Linear(32, num_classes)]
    return nn.Sequential(*layers)
