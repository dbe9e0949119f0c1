"""Preprocessing on the device: normalisation as the first layer of a network, random crops and flips."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad


class NormalizedNetwork(nn.Module):
    """A network that takes samples as stored: bytes become (x / 255 - mean) / std, floats are not changed.

    Args:
        network: takes float images (n, c, h, w) or vectors (n, d).
        mean, std: one value per channel; empty for a division by 255 alone.
        channels_last: use PyTorch's channels-last memory format, which is faster on GPUs in half precision.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        network: nn.Module,
        mean: tuple[float, ...] = (),
        std: tuple[float, ...] = (),
        channels_last: bool = False,
    ) -> None:
        super().__init__()
        self.network, self.channels_last = network, channels_last
        channel_mean = torch.tensor(mean or (0.0,)).view(-1, 1, 1)
        channel_std = torch.tensor(std or (1.0,)).view(-1, 1, 1)
        self.register_buffer("scale", 1 / (255 * channel_std), persistent=False)
        self.register_buffer("shift", -channel_mean / channel_std, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.uint8:
            x = torch.addcmul(self.shift, x.float(), self.scale)
        if self.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        outputs: Tensor = self.network(x)
        return outputs


def draw_crops(count: int, generator: Generator, padding: int = 4) -> Tensor:
    """Random crop positions and flips for ``count`` images: (count, 3) with top, left, and 1 for a flip.

    >>> draw_crops(2, Generator().manual_seed(0)).shape
    torch.Size([2, 3])
    """
    corner = torch.randint(2 * padding + 1, (count, 2), generator=generator, device=generator.device)
    flip = torch.randint(2, (count, 1), generator=generator, device=generator.device)
    return torch.cat([corner, flip], dim=1)


def crop_and_flip(x: Tensor, crops: Tensor, padding: int = 4) -> Tensor:
    """Pad images (n, c, h, w) by ``padding`` pixels, crop them to h x w and flip some, as ``crops`` (n, 3) says.

    >>> crop_and_flip(torch.tensor([[[[1, 2]]]]), torch.tensor([[1, 1, 1]]), padding=1)
    tensor([[[[2, 1]]]])
    """
    height, width = x.shape[2:]
    top, left, flip = (column[:, None] for column in crops.unbind(1))
    rows = top + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device)
    columns = left + torch.where(flip > 0, width - 1 - across, across)
    padded = pad(x, (padding,) * 4)
    sample = torch.arange(len(x), device=x.device)[:, None, None]
    cropped = padded.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)
