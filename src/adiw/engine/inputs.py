"""From stored samples to what a network takes: scaling as its first layer, augmentation on the device."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad


class Scaled(nn.Module):
    """A network that takes samples as they are stored: bytes become (x / 255 - mean) / std, floats stay.

    Args:
        network: takes float images (n, c, h, w) or vectors (n, d).
        mean, std: per channel; empty for no scaling beyond / 255.
        channels_last: lay images out with the channel innermost, which GPUs prefer in half precision.
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
        middle, spread = (torch.tensor(part or (at,)).view(-1, 1, 1) for part, at in ((mean, 0.0), (std, 1.0)))
        self.register_buffer("scale", 1 / (255 * spread), persistent=False)
        self.register_buffer("shift", -middle / spread, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.uint8:
            x = torch.addcmul(self.shift, x.float(), self.scale)
        if self.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        out: Tensor = self.network(x)
        return out


def draw_crops(count: int, generator: Generator, padding: int = 4) -> Tensor:
    """Where to crop and whether to mirror, for ``count`` images: (count, 3) of top, left and 0 or 1.

    >>> draw_crops(2, Generator().manual_seed(0)).shape
    torch.Size([2, 3])
    """
    corner = torch.randint(2 * padding + 1, (count, 2), generator=generator, device=generator.device)
    mirror = torch.randint(2, (count, 1), generator=generator, device=generator.device)
    return torch.cat([corner, mirror], dim=1)


def crop_and_flip(x: Tensor, crops: Tensor, padding: int = 4) -> Tensor:
    """Each image (n, c, h, w) shifted by up to ``padding`` pixels and mirrored, as ``crops`` (n, 3) says.

    >>> crop_and_flip(torch.tensor([[[[1, 2]]]]), torch.tensor([[1, 1, 1]]), padding=1)
    tensor([[[[2, 1]]]])
    """
    height, width = x.shape[2:]
    top, left, mirror = (part[:, None] for part in crops.unbind(1))
    rows = top + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device)
    columns = left + torch.where(mirror > 0, width - 1 - across, across)
    padded = pad(x, (padding,) * 4)
    sample = torch.arange(len(x), device=x.device)[:, None, None]
    picked = padded.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)
