"""Folders of small images that a network of a few weights can tell apart, and such networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

# A user's own module: networks with and without a named hidden layer, broken ones, slow ones, and one that sends its
# own process a signal, always at the same step.
MODULE = """
import os
import time

import torch
from torch import nn


class Tiny(nn.Sequential):
    feature_layer = "1"


def pooled(input_shape, num_classes):
    return Tiny(nn.AvgPool2d(56), nn.Flatten(), nn.Linear(48, num_classes))


def nameless(input_shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(input_shape).numel(), num_classes))


def broken(input_shape, num_classes):
    network = nameless(input_shape, num_classes)
    nn.init.constant_(network[1].weight, float("nan"))
    return network


class Slow(nn.Sequential):
    def forward(self, x):
        if self.training:
            time.sleep(0.05)
        return super().forward(x)


def slow(input_shape, num_classes):
    return Slow(pooled(input_shape, num_classes))


class Signalling(nn.Sequential):
    steps = 0

    def forward(self, x):
        self.steps += self.training
        if self.training and self.steps == int(os.environ.get("SIGNAL_STEP", 0)):
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))
        return super().forward(x)


def signalling(input_shape, num_classes):
    return Signalling(nameless(input_shape, num_classes))


def not_a_network(input_shape, num_classes):
    return 7
"""


def write_module(folder: Path, name: str) -> None:
    """The module above under the given name. Each test needs its own, because imported modules are cached."""
    (folder / f"{name}.py").write_text(MODULE)


def write_images(root: Path, train: int = 20, val: int = 4, classes: tuple[str, ...] = ("ant", "bee", "cat")) -> Path:
    """PNG images of 24 x 20 pixels, red, green or blue by class, with noise."""
    random = np.random.default_rng(0)
    for split, count in (("train", train), ("val", val)):
        for c, name in enumerate(classes):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = random.integers(0, 80, (20, 24, 3))
                pixels[..., c] += 150
                Image.fromarray(pixels.astype(np.uint8)).save(root / split / name / f"{i}.png")
    return root
