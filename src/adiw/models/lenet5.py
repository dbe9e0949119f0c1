"""LeNet-5 as in the paper, with ReLU and max pooling."""

from __future__ import annotations

from torch import Tensor, nn


def image_shape(model: str, input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """``(channels, height, width)`` of one image; another number of dimensions is an error."""
    if len(input_shape) != 3:
        fix = f"add the channel: {(1, *input_shape)}" if len(input_shape) == 2 else "use mlp for other data"
        raise ValueError(f"{model}: expected (channels, height, width), got {tuple(input_shape)}; {fix}")
    channels, height, width = input_shape
    return channels, height, width


class LeNet5(nn.Module):
    """LeNet-5, for images of 28 x 28 or 32 x 32 pixels.

    C(5x5, 6) - S(2x2) - C(5x5, 16) - S(2x2) - FC(120) - FC(84) - FC(num_classes): convolutions C, max pooling S and
    linear layers FC, with ReLU after C and FC.

    The input is 32 x 32; images of 28 x 28 are padded by 2 in the first convolution. Any number of channels.
    Maps ``(B, channels, H, W)`` to ``(B, num_classes)``; the output of ``feature_layer`` is ``(B, 84)``.

    >>> model = LeNet5((1, 28, 28), num_classes=10)
    >>> sum(p.numel() for p in model.parameters())
    61706
    """

    feature_layer: str = "features"

    def __init__(self, input_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("lenet5", input_shape)
        if (height, width) not in ((28, 28), (32, 32)):
            raise ValueError(
                f"lenet5: expected images of 28 x 28 or 32 x 32, got {height} x {width}; resize them or use resnet18"
            )
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, kernel_size=5, padding=(32 - height) // 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 5 * 5, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        )
        self.head = nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, channels, H, W)`` to ``(B, num_classes)``."""
        logits: Tensor = self.head(self.features(x))
        return logits
