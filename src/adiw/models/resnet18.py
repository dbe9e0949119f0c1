"""ResNet-18 (He et al. 2016), for ImageNet and for CIFAR."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, pixel_unshuffle

from adiw.models.lenet5 import image_shape


class BasicBlock(nn.Module):
    """ReLU(shortcut(x) + BN(C(3x3, ReLU(BN(C(3x3, x)))))).

    ``(B, inputs, H, W)`` to ``(B, outputs, H / stride, W / stride)``; the shortcut is the identity, or a
    1 x 1 convolution where the shape changes.

    >>> BasicBlock(8, 16, stride=2)(torch.zeros(2, 8, 6, 6)).shape
    torch.Size([2, 16, 3, 3])
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """The block's residual sum."""
        hidden = self.relu(self.bn1(self.conv1(x)))
        out: Tensor = self.relu(self.bn2(self.conv2(hidden)) + self.downsample(x))
        return out


class Stem(nn.Conv2d):
    """C(7x7, outputs, stride 2, padding 3) without bias: an ``nn.Conv2d`` that a GPU computes faster.

    >>> Stem(3, 64)(torch.zeros(2, 3, 224, 224)).shape
    torch.Size([2, 64, 112, 112])
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, kernel_size=7, stride=2, padding=3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, inputs, H, W)`` to ``(B, outputs, H / 2, W / 2)``, halves rounded up."""
        return convolve(x, self.weight, self.bias, self.stride, self.padding)  # type: ignore[arg-type]


@torch.fx.wrap  # torch.fx keeps the call whole, so the choice is made when the traced network runs
def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, int], padding: tuple[int, int]
) -> Tensor:
    """``conv2d``; on a GPU, for images with few channels, the faster ``space_to_depth_conv``."""
    is_stem = bias is None and stride == (2, 2) and padding == (3, 3)
    if is_stem and x.is_cuda and x.dim() == 4 and x.shape[1] <= 4:
        return space_to_depth_conv(x, weight)
    return conv2d(x, weight, bias, stride, padding)


def space_to_depth_conv(x: Tensor, weight: Tensor) -> Tensor:
    """The 7 x 7 convolution of stride 2 and padding 3, as a 4 x 4 convolution over blocks of 2 x 2 pixels.

    GPUs process channels in groups of eight: three colour channels are padded with five of zeros, at each of 49
    pixels. The four pixels of a block have twelve channels, padded with four of zeros, at each of 16 blocks.

    >>> x, weight = torch.rand(2, 3, 9, 8), torch.rand(5, 3, 7, 7)
    >>> torch.allclose(space_to_depth_conv(x, weight), conv2d(x, weight, stride=2, padding=3), atol=1e-4)
    True
    """
    height, width, more = x.shape[2], x.shape[3], x.shape[1] % 2
    last = x.stride(1) == 1 and not x.is_contiguous()
    blocks = pixel_unshuffle(pad(x, (4, 2 + width % 2, 4, 2 + height % 2, 0, more)), 2)
    blocks = blocks.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    return conv2d(blocks, pixel_unshuffle(pad(weight, (1, 0, 1, 0, 0, more)), 2))


class ResNet18(nn.Module):
    """Stem - four stages of two blocks (64, 128, 256, 512 channels) - global average - FC(num_classes).

    The stem is C(7x7, 64, stride 2) and S(3x3, stride 2); with ``small_images`` it is C(3x3, 64) alone.
    Maps ``(B, channels, H, W)`` to ``(B, num_classes)``; the output of ``feature_layer`` is ``(B, 512)``.
    Parameters have torchvision's names, so that its checkpoints load. PyTorch's default initialisation.

    >>> ResNet18((3, 32, 32), num_classes=10, small_images=True).feature_layer
    'flatten'
    """

    feature_layer: str = "flatten"

    def __init__(self, input_shape: tuple[int, ...], num_classes: int, small_images: bool) -> None:
        super().__init__()
        name = "resnet18-cifar" if small_images else "resnet18"
        channels, _, _ = image_shape(name, input_shape)
        self.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False) if small_images else Stem(channels, 64)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(512, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, channels, H, W)`` to ``(B, num_classes)``."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.flatten(self.avgpool(x)))
        return logits


def resnet18(input_shape: tuple[int, ...], num_classes: int) -> ResNet18:
    """ResNet-18 for images of ImageNet's size: 7 x 7 stem of stride 2, then max pooling."""
    return ResNet18(input_shape, num_classes, small_images=False)


def resnet18_cifar(input_shape: tuple[int, ...], num_classes: int) -> ResNet18:
    """ResNet-18 for images of CIFAR's size: 3 x 3 stem of stride 1, no max pooling."""
    return ResNet18(input_shape, num_classes, small_images=True)
