"""Write JPEG files of the usual size of ImageNet, to time the loading of image folders without ImageNet.

``python benchmarks/make_images.py COUNT CLASSES FOLDER [--size 500x375] [--seed 0]`` writes COUNT training images and
a tenth as many for validation into FOLDER/train/CLASS and FOLDER/val/CLASS: the layout of the data set imagefolder.
The images of a class share a colour and the direction and spacing of stripes; position, contrast and noise differ, so
that a network has something to learn and the files are not tiny.
"""

from __future__ import annotations

import argparse
import colorsys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import numpy as np
from PIL import Image


def picture(label: int, classes: int, width: int, height: int, random: np.random.Generator) -> Image.Image:
    """One image of the class ``label``."""
    share = label / classes
    y, x = np.mgrid[:height, :width]
    angle, distance = np.pi * ((share * 7) % 1), 12 + 40 * ((share * 3) % 1)
    along = (x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / distance
    stripes = np.sin(along + random.uniform(0, 2 * np.pi)) * random.uniform(20, 60)
    colour = 255 * np.array(colorsys.hsv_to_rgb(share, 0.6, 0.7))
    coarse = random.normal(0, 25, (height // 16 + 1, width // 16 + 1, 3)).repeat(16, 0).repeat(16, 1)[:height, :width]
    noise = random.normal(0, 12, (height, width, 3))
    values = colour + stripes[..., None] + coarse + noise
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def write_class(folder: Path, label: int, classes: int, count: int, size: tuple[int, int], seed: int) -> None:
    """Write ``count`` images of one class to ``folder``/class-LABEL."""
    target = folder / f"class-{label:04d}"
    target.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng([seed, label])
    for number in range(count):
        picture(label, classes, *size, random).save(target / f"{number:06d}.jpg", quality=90)


def write_images(
    count: int,
    classes: int,
    folder: Path,
    size: tuple[int, int],
    seed: int,
) -> None:
    """Write both splits, one class per process; all classes have the same number of images, at least one."""
    with ProcessPoolExecutor() as pool:
        for split, share, offset in (("train", count, 0), ("val", count // 10, 1)):
            each = max(1, share // classes)
            folders, sizes, seeds = repeat(folder / split), repeat(size), repeat(2 * seed + offset)
            list(pool.map(write_class, folders, range(classes), repeat(classes), repeat(each), sizes, seeds))


def pixels(text: str) -> tuple[int, int]:
    """Width and height of a text such as 500x375; argparse reports a ValueError."""
    width, height = (int(part) for part in text.split("x"))
    return width, height


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("count", type=int, help="training images")
    parser.add_argument("classes", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=pixels, default=(500, 375), help="width x height, such as 500x375")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.classes < 2 or given.count < given.classes:
        parser.error(f"expected 2 classes or more and an image of each, got {given.count} of {given.classes} classes")
    write_images(given.count, given.classes, given.folder, given.size, given.seed)


if __name__ == "__main__":
    main()
