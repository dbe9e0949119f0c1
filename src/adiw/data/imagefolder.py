"""A user's own images in ImageNet's layout: train/CLASS/*.jpg and val/CLASS/*.jpg (or test/)."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from adiw.data.dataset import Data
from adiw.data.image_files import ImageFiles, read_image
from adiw.data.source_files import DataError, require_path

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
POLICIES = ("refuse", "skip")  # broken images: an error when one is read, or excluded when the folder is loaded
SHOWN = 20  # file names in a warning


def load_imagefolder(path: Path | None, size: int = 224, broken: str = "refuse") -> Data:
    """Your own images in train/CLASS/ and val/CLASS/ (or test/CLASS/): adiw run FOLDER.

    They are decoded on demand to (3, size, size) uint8. The classes are the sorted folder names of train; val may
    lack a class, but may not add one. An image that cannot be decoded is an error when it is read. With ``broken``
    "skip" every image is decoded once at the start, and broken ones are excluded with a warning.
    """
    if broken not in POLICIES:
        raise DataError(f"broken must be {' or '.join(POLICIES)}, got {broken!r}")
    path = require_path("imagefolder", path, "a folder that holds train/ and val/ (or test/)")
    train, test = path / "train", _test_folder(path)
    classes = _class_names(train)
    if len(classes) < 2:
        raise DataError(f"{train}: expected at least two class folders, found {list(classes)}")
    images = _files(train, classes, size, True, broken)
    return Data(
        name="imagefolder",
        train=images,
        test=class_folders(test, classes, size, broken),
        classes=classes,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        numbering="position among the files of train, class by class in sorted order, from 0",
        describe=lambda i: {"file": images.paths[i].relative_to(train).as_posix()},
    )


def class_folders(folder: Path, classes: tuple[str, ...], size: int, broken: str = "refuse") -> ImageFiles:
    """The images of one folder per class, not augmented, for a test or a trusted set.

    A class may be absent; a folder that is not in ``classes`` is an error.
    """
    unknown = sorted(set(_class_names(folder)) - set(classes))
    if unknown:
        raise DataError(
            f"{folder}: found classes that the training set does not have: {', '.join(unknown)}; "
            "rename or remove these folders, or add training images for them"
        )
    return _files(folder, classes, size, False, broken)


def exclude_broken(paths: Sequence[Path]) -> list[Path]:
    """The images that can be decoded, in their order; a warning names the others and their errors.

    Every file is decoded once, as many at a time as there are processors.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(pool.map(_decoding_error, paths))
    broken = [error for error in errors if error is not None]
    if broken:
        more = f" and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
        text = "; ".join(broken[:SHOWN])
        warnings.warn(f"{len(broken)} of {len(paths)} images are excluded: {text}{more}", stacklevel=2)
    return [path for path, error in zip(paths, errors, strict=True) if error is None]


def _decoding_error(path: Path) -> str | None:
    try:
        read_image(path)
    except DataError as error:
        return str(error)
    return None


def _test_folder(path: Path) -> Path:
    for name in ("val", "test"):
        if (path / name).is_dir():
            return path / name
    raise DataError(f"{path}: expected a folder val/ or test/ beside train/, found neither")


def _class_names(folder: Path) -> tuple[str, ...]:
    """Names of the class folders, sorted; hidden folders are ignored."""
    if not folder.is_dir():
        raise DataError(f"{folder}: expected a folder with one folder per class, found none")
    return tuple(sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")))


def _files(folder: Path, classes: tuple[str, ...], size: int, train: bool, broken: str) -> ImageFiles:
    """All images of a split, class by class, each class in the order of its file names."""
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        if not train and not (folder / name).is_dir():
            continue
        files = sorted(path for path in (folder / name).rglob("*") if not path.name.startswith("."))
        images = [path for path in files if path.suffix.lower() in SUFFIXES]
        images = exclude_broken(images) if broken == "skip" else images
        if not images:
            raise DataError(
                f"{folder / name}: expected images ({', '.join(SUFFIXES)}), found none; add some or remove the folder"
            )
        paths += images
        labels += [label] * len(images)
    return ImageFiles(tuple(paths), torch.tensor(labels, dtype=torch.int64), size, train)
