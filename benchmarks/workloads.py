"""Workloads of the step benchmark: networks, and generated data of the shapes of known data sets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from adiw.data import Data, ImageFiles, Samples, load
from adiw.experiments.settings import Settings, resolve
from adiw.experiments.splits import Splits, load_splits, without_augmentation
from adiw.shifts import parse

NOISE = "symmetric:0.4"


@dataclass(frozen=True)
class Shape:
    """The shape of a data set; ``epoch`` is the number of training samples of the real one."""

    name: str
    image: tuple[int, int, int]
    classes: int
    count: int
    epoch: int
    trusted: int = 1000
    augment: bool = False


@dataclass(frozen=True)
class Workload:
    """Settings and data of a training run.

    make: (workload, device, scratch folder) -> data.
    together: runs that fit on a device together; each CUDA graph keeps its own memory.
    compiled: whether the compiled columns are measured.
    """

    title: str
    given: dict[str, Any]
    shape: Shape
    make: Callable[[Workload, torch.device, Path], Splits]
    together: int = 12
    compiled: bool = False

    def settings(self, given: dict[str, Any]) -> Settings:
        return resolve({**self.given, **given})

    def cut(self, images: int | None, batch: int | None) -> Workload:
        """The same workload with fewer images or another batch size, for small machines and tests."""
        given = self.given if batch is None else {**self.given, "batch": batch, "val_batch": batch}
        if images is None:
            return replace(self, given=given)
        shape = self.shape
        few, classes = min(shape.trusted, images // 4), min(shape.classes, max(2, images // 8))
        shape = replace(shape, count=images, epoch=images, trusted=few, classes=classes)
        return replace(self, given=given, shape=shape)


def generated(workload: Workload, device: torch.device, folder: Path) -> Splits:
    """Images of noise on a colour for each class. They are on ``device`` once, for all runs."""
    shape, random = workload.shape, Generator().manual_seed(0)
    y = torch.randint(shape.classes, (shape.count,), generator=random)
    x = torch.randint(128, (shape.count, *shape.image), dtype=torch.uint8, generator=random)
    colours = torch.randint(128, (shape.classes, shape.image[0], 1, 1), dtype=torch.uint8, generator=random)
    x += colours[y]
    shifted = parse(NOISE).apply(None, y, shape.classes, shape.trusted, random)
    trusted = Samples(x[shifted.trusted], shifted.y[shifted.trusted])
    train = Samples(x.to(device), shifted.y)
    channels = shape.image[0]
    few = Samples(x[:64].clone(), y[:64])
    names = tuple(str(label) for label in range(shape.classes))
    data = Data(shape.name, train, few, names, (0.5,) * channels, (0.25,) * channels, shape.augment)
    return Splits(data, train, trusted, few, shifted)


def folder_of_images(workload: Workload, device: torch.device, folder: Path) -> Splits:
    """JPEG files in ImageNet's layout, read by the loader's workers; each file stands for several samples."""
    shape = workload.shape
    files = max(shape.count // 6, shape.classes)
    script = Path(__file__).with_name("make_images.py")
    command = [sys.executable, str(script), str(files), str(shape.classes), str(folder)]
    subprocess.run(command, check=True)
    data = load("imagefolder", path=folder, size=shape.image[1])
    again = torch.arange(shape.count) % len(data.train)
    random = Generator().manual_seed(0)
    train = data.train.subset(again)
    shifted = parse(NOISE).apply(None, train.y, shape.classes, shape.trusted, random)
    trusted = without_augmentation(train.subset(shifted.trusted, shifted.y[shifted.trusted]))
    assert isinstance(trusted, ImageFiles)
    # The validation schedule keeps trusted images on the device: decode them once here, not once for each method.
    decoded = Samples(torch.stack([trusted[i][0] for i in range(len(trusted))]), trusted.y)
    return Splits(data, train.subset(torch.arange(shape.count), shifted.y), decoded, decoded, shifted)


def digits(workload: Workload, device: torch.device, folder: Path) -> Splits:
    """scikit-learn's digits."""
    return load_splits(workload.settings({}))


_IMAGENET = {"dataset": "imagefolder", "shift": NOISE}
WORKLOADS: dict[str, Workload] = {
    "fashion-mnist": Workload(
        "Fashion-MNIST's shape, LeNet-5, batch 256",
        {"dataset": "fashion-mnist"},
        Shape("fashion-mnist", (1, 28, 28), 10, 60_000, 60_000),
        generated,
        compiled=True,
    ),
    "cifar10": Workload(
        "CIFAR-10's shape, ResNet-18, batch 256, bf16, channels last",
        {"dataset": "cifar10"},
        Shape("cifar10", (3, 32, 32), 10, 50_000, 50_000, augment=True),
        generated,
        compiled=True,
    ),
    "imagenet": Workload(
        "ImageNet's shape, ResNet-18, batch 256, bf16, channels last, images on the device",
        _IMAGENET,
        Shape("imagefolder", (3, 224, 224), 1000, 3072, 1_281_167),
        generated,
        together=3,
        compiled=True,
    ),
    "imagenet-folder": Workload(
        "ImageNet's shape, ResNet-18, batch 256, bf16, channels last, JPEG files through the loader",
        _IMAGENET,
        Shape("imagefolder", (3, 224, 224), 1000, 12_288, 1_281_167, trusted=512),
        folder_of_images,
        together=3,
    ),
    "digits": Workload(
        "digits, 64-256-256-10, batch 128",
        {"dataset": "digits"},
        Shape("digits", (1, 8, 8), 10, 1347, 1347),
        digits,
    ),
}
