"""Networks for images of any size that train fast: ``tests.experiments.tiny:build``, and one with dropout."""

from __future__ import annotations

from torch import nn


def build(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * input_shape[0], num_classes))


def dropping(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    return nn.Sequential(*build(input_shape, num_classes), nn.Dropout())
