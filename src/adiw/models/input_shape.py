"""The check of the input shape of the networks for images."""

from __future__ import annotations


def image_shape(model: str, input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """``(channels, height, width)`` of one image; another number of dimensions is an error."""
    if len(input_shape) != 3:
        fix = f"add the channel: {(1, *input_shape)}" if len(input_shape) == 2 else "use mlp for other data"
        raise ValueError(f"{model}: expected (channels, height, width), got {tuple(input_shape)}; {fix}")
    channels, height, width = input_shape
    return channels, height, width
