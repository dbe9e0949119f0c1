"""What the candidates of ``engine.py`` change in a training run: kernels, and neither network, schedule nor data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, pad

from adiw.experiments.training_run import TrainingRun

Change = Callable[[TrainingRun], None]


class PaddedStem(nn.Conv2d):
    """Pads the three colour channels with zeros to eight, which tensor cores need."""

    def forward(self, x: Tensor) -> Tensor:
        more = (0, 0, 0, 0, 0, 5)
        x = pad(x, more).contiguous(memory_format=torch.channels_last)
        return conv2d(x, pad(self.weight, more), None, self.stride, self.padding)  # type: ignore[arg-type]


class UnfoldedStem(nn.Conv2d):
    """A 3 x 3 convolution of three channels as one matrix product over the 27 values around each pixel."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        padded = pad(x, (1, 1, 1, 1))
        around = [padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        columns = torch.cat(around, 1).permute(0, 2, 3, 1)  # (n, h, w, 27), padded to a multiple of eight
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)
        return linear(pad(columns, (0, 5)), pad(weight, (0, 5))).permute(0, 3, 1, 2)


class ShortcutProduct(nn.Conv2d):
    """A 1 x 1 convolution as one matrix product over the pixels that it reads."""

    def forward(self, x: Tensor) -> Tensor:
        down, across = self.stride
        pixels = x[:, :, ::down, ::across].permute(0, 2, 3, 1)
        return linear(pixels, self.weight.flatten(1)).permute(0, 3, 1, 2)


class SummedBatchNorm(nn.BatchNorm2d):
    """Batch norm from two sums over the batch, which a GPU adds faster than Welford's recurrence.

    The sums are of differences to the running mean, so that little is lost to rounding.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        running: Any = self  # with running figures, as those of the network are
        count = x.numel() // x.shape[1]
        near = running.running_mean.clone().view(-1, 1, 1)
        apart = x.to(torch.promote_types(x.dtype, torch.float32)) - near
        shift = apart.sum((0, 2, 3), keepdim=True) / count
        variance = (apart * apart).sum((0, 2, 3), keepdim=True) / count - shift * shift
        with torch.no_grad():
            running.num_batches_tracked.add_(1)
            running.running_mean.lerp_((shift + near).flatten(), running.momentum)
            running.running_var.lerp_(variance.flatten() * (count / (count - 1)), running.momentum)
        scale = self.weight.view(-1, 1, 1) * (variance + self.eps).rsqrt()
        return ((apart - shift) * scale + self.bias.view(-1, 1, 1)).to(x.dtype)


def weights_channels_last(job: TrainingRun) -> None:
    """Keep the weights in the memory format of the activations."""
    job.model.to(memory_format=torch.channels_last)


def stem(kind: type[nn.Conv2d]) -> Change:
    """Compute the first convolution of three channels in another way."""

    def change(job: TrainingRun) -> None:
        first = getattr(job.model.network, "conv1", None)
        if not isinstance(first, nn.Conv2d) or first.in_channels != 3 or first.stride != (1, 1):
            raise ValueError("the network has no stem with three channels")
        first.__class__ = kind

    return change


def shortcut_products(job: TrainingRun) -> None:
    """Compute 1 x 1 convolutions as matrix products."""
    for module in job.model.modules():
        if type(module) is nn.Conv2d and module.kernel_size == (1, 1):
            module.__class__ = ShortcutProduct


def summed_batch_norm(job: TrainingRun) -> None:
    """Compute batch norm from two sums."""
    for module in job.model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = SummedBatchNorm


def compiled_bookkeeping(job: TrainingRun) -> None:
    """Compile the gathering of a batch with its augmentation, and what is stored of each sample."""
    loader: Any = job.loop.loader
    loader.batch = torch.compile(loader.batch, dynamic=False)
    state: Any = job.reweight.weight_state
    state.count = torch.compile(state.count, dynamic=False)
    state.history.add = torch.compile(state.history.add, dynamic=False)


def compile_with(**options: Any) -> Change:
    """Compile the network with these options of Inductor."""

    def change(job: TrainingRun) -> None:
        job.model.compile(dynamic=False, options=options)

    return change


def together(*changes: Change) -> Change:
    """All of these changes."""

    def change(job: TrainingRun) -> None:
        for each in changes:
            each(job)

    return change


def unchanged(job: TrainingRun) -> None:
    """Today's engine."""
