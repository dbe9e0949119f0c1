"""Whole image sets for a GPU: Fashion-MNIST with LeNet-5, CIFAR-10 with ResNet-18, both with 1,000 trusted images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adiw.data import Data, Samples, load
from benchmarks.gauntlet.corruptions import confusions, rarer_confusions, symmetric, thin_classes
from benchmarks.gauntlet.task import ImageLength, ImageSplit, Pool, Pools, Sources, Split, Task, make_split

TRUSTED = 1000
RATE = 0.4  # of wrong labels
Confusions = Callable[[Pool, Pool, float, int, np.random.Generator], NDArray[Any]]


@dataclass(frozen=True)
class ImageSet:
    """An image set, how it is trained on, and the weak network that confuses its classes."""

    data: str  # in adiw.data
    file: str
    model: str
    length: ImageLength
    teacher: int  # images that the weak network trains on, and no other one
    confusions: Confusions


SETS = {
    "fashion-60k": ImageSet(
        data="fashion-mnist",
        file="fashion-mnist/train-images-idx3-ubyte.gz",
        model="lenet5",
        length=ImageLength(steps=6000, batch=256),
        teacher=2000,
        confusions=confusions,
    ),
    "cifar-50k": ImageSet(
        data="cifar10",
        file="cifar-10-batches-bin/data_batch_1.bin",
        model="resnet18-cifar",
        length=ImageLength(steps=2500, batch=256, rate=5e-4, augment=True, bf16=True, weight_decay=1e-4),
        teacher=5000,
        confusions=partial(rarer_confusions, steps=1000),
    ),
}


@lru_cache(maxsize=2)
def load_set(sources: Sources, images: ImageSet) -> Data:
    sources.file("data", images.file)
    return load(images.data, sources.data)


def pool_of(samples: Any, chosen: NDArray[Any], first: int = 0) -> Pool:
    """Images as bytes; rows are numbered from ``first``."""
    assert isinstance(samples, Samples)
    return Pool(samples.x.numpy()[chosen], samples.y.numpy()[chosen], first + chosen)


def vectors(pool: Pool) -> Pool:
    x = pool.x.reshape(len(pool), -1).astype(np.float32)
    x /= 255  # in place: the images are large
    return Pool(x, pool.y, pool.rows)


def draw(images: ImageSet, shift: str, sources: Sources, seed: int) -> Split:
    """The training file is dealt into trusted images, those of the weak network if there is one, and the others."""
    rng, data = np.random.default_rng(seed), load_set(sources, images)
    held_out = images.teacher if shift == "instance" else 0
    order = rng.permutation(len(data.train))
    trusted, teacher, train = np.split(order, [TRUSTED, TRUSTED + held_out])
    test = pool_of(data.test, np.arange(len(data.test)), len(data.train))
    pools = Pools(pool_of(data.train, train), pool_of(data.train, trusted), test)
    classes = data.num_classes
    if shift == "mix-symmetric":
        pools = Pools(thin_classes(pools.train, classes, 0.1, rng), pools.trusted, test)
    if shift == "instance":
        weak = vectors(pool_of(data.train, teacher))
        given = images.confusions(vectors(pools.train), weak, RATE, classes, rng)
    else:
        given = symmetric(pools.train.y, RATE, classes, rng)
    split = make_split(pools, given, classes)
    return ImageSplit(
        **vars(split), model=images.model, mean=data.mean, std=data.std, channels_last=images.length.bf16
    )


METHODS = ("uniform", "early-stopping", "trusted-only", "mixed", "fine-tune", "mmd", "kl", "default")
SHIFTS = {
    "symmetric": "40% of the labels wrong, any other class",
    "mix-symmetric": "half the classes cut to a tenth, then 40% of the labels wrong",
    "instance": "40% of the labels drawn wrong from a weak network's predictions",
}
TASKS = [
    Task(
        f"{name}-{shift}",
        "image",
        f"whole {SETS[name].data}, 1,000 trusted, {SETS[name].model}: {SHIFTS[shift]}",
        partial(draw, SETS[name], shift),
        SETS[name].length,
        methods,
    )
    for name, shifts, methods in (
        ("cifar-50k", ("symmetric", "instance"), METHODS),
        ("fashion-60k", ("symmetric", "mix-symmetric", "instance"), (*METHODS, "cleanlab")),
    )
    for shift in shifts
]
