"""A multilayer perceptron for small or tabular data."""

from __future__ import annotations

import math

from torch import Tensor, nn

HIDDEN = 256


class MLP(nn.Module):
    """Multilayer perceptron with two hidden layers of 256 units, for vectors and small images.

    Maps ``(B, *input_shape)`` to ``(B, num_classes)``; the output of ``feature_layer`` is ``(B, 256)``.

    >>> model = MLP((64,), num_classes=10)
    >>> sum(p.numel() for p in model.parameters())
    85002
    """

    feature_layer: str = "features"

    def __init__(self, input_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        inputs = math.prod(input_shape)
        if not input_shape or inputs < 1:
            raise ValueError(
                f"mlp: expected one sample's shape, e.g. (64,), got {tuple(input_shape)}; pass x[0].shape"
            )
        self.features = nn.Sequential(
            nn.Flatten(),
            nn.Linear(inputs, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
        )
        self.head = nn.Linear(HIDDEN, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, *input_shape)`` to ``(B, num_classes)``."""
        logits: Tensor = self.head(self.features(x))
        return logits
