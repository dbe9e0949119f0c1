"""Checks of the input shape and the number of classes that a network is built for."""

from __future__ import annotations


def check_num_classes(model: str, num_classes: int) -> None:
    """A network needs at least one output."""
    if num_classes < 1:
        raise ValueError(
            f"{model}: expected num_classes of at least 1, got {num_classes}; count the classes of the data"
        )


def image_shape(model: str, input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """``(channels, height, width)`` of one image; another number of dimensions is an error."""
    if len(input_shape) != 3:
        fix = f"add the channel: {(1, *input_shape)}" if len(input_shape) == 2 else "use mlp for other data"
        raise ValueError(f"{model}: expected (channels, height, width), got {tuple(input_shape)}; {fix}")
    channels, height, width = input_shape
    return channels, height, width
