"""The data of a run: the shifted training set, the trusted samples and the test set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Generator, Tensor

from adiw.data import Data, ImageFiles, Samples, load
from adiw.data.imagefolder import class_folders
from adiw.experiments.settings import Settings, SettingsError
from adiw.shifts import Shifted, check_trusted, parse, read_indices


@dataclass(frozen=True)
class Splits:
    """The samples of a run, by what they are used for."""

    data: Data  # the data set as loaded
    train: Samples | ImageFiles  # the shifted training set, with the labels that training sees
    trusted: Samples | ImageFiles  # samples of the target distribution
    test: Samples | ImageFiles  # the test set, or the selection split
    shifted: Shifted  # the shift; ``keep`` has positions in the training set as loaded

    @property
    def truth_known(self) -> bool:
        """Whether labels were flipped by a simulated shift, so that intact and mislabelled samples are known."""
        return bool(self.shifted.flipped.any())


def load_splits(settings: Settings, root: Path | None = None) -> Splits:
    """Load the data set, hold out the selection split if there is one, and shift the remaining training samples."""
    path = None if settings.path is None else Path(settings.path)
    data = load(settings.dataset, root, path=path, target=settings.target, broken=settings.broken_images)
    generator = Generator().manual_seed(settings.seed)
    train, test, positions = data.train, data.test, torch.arange(len(data.train))
    if settings.selection:
        positions, held_out = _hold_out(len(train), settings.selection, generator)
        test = without_augmentation(train.subset(held_out, train.y[held_out]))
        train = train.subset(positions, train.y[positions])
    x = train.x if isinstance(train, Samples) else None
    named = settings.trusted_file is not None or settings.trusted_folder is not None
    if settings.shift == "none" and not named and not settings.trusted:
        raise SettingsError(
            "shift none needs trusted samples: name them in a trusted_file, give a trusted_folder of images, or draw "
            "some with trusted if all labels are correct"
        )
    shifted = parse(settings.shift).apply(x, train.y, data.num_classes, 0 if named else settings.trusted, generator)
    if settings.trusted_file is not None:
        shifted = replace(shifted, trusted=_trusted_indices(settings, path))
    shifted_train = train.subset(shifted.keep, shifted.y)
    if settings.trusted_folder is not None:
        trusted = _trusted_images(data, Path(settings.trusted_folder), settings.broken_images)
        check_trusted(torch.arange(len(trusted)), trusted.y, data.num_classes)
    else:
        check_trusted(shifted.trusted, shifted.y, data.num_classes)
        trusted = train.subset(shifted.keep[shifted.trusted], shifted.y[shifted.trusted])
    shifted = replace(shifted, keep=positions[shifted.keep])
    return Splits(data, shifted_train, without_augmentation(trusted), test, shifted)


def without_augmentation(samples: Samples | ImageFiles) -> Samples | ImageFiles:
    """The samples as evaluation uses them."""
    return replace(samples, train=False) if isinstance(samples, ImageFiles) else samples


def with_augmentation(samples: Samples | ImageFiles) -> Samples | ImageFiles:
    """The samples as training uses them; ``Samples`` are augmented batch by batch."""
    return replace(samples, train=True) if isinstance(samples, ImageFiles) else samples


def _hold_out(size: int, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """(positions that stay, ``count`` positions drawn at random), both sorted."""
    if count >= size:
        raise SettingsError(f"selection holds out {count} of {size} training samples: hold out fewer")
    order = torch.randperm(size, generator=generator)
    return order[count:].sort().values, order[:count].sort().values


def _trusted_images(data: Data, folder: Path, broken: str) -> Samples | ImageFiles:
    """Trusted images that are not part of the training set."""
    if not isinstance(data.train, ImageFiles):
        raise SettingsError(f"trusted_folder is for imagefolder, not {data.name}: name the samples in a trusted_file")
    return class_folders(folder, data.classes, data.train.size, broken)


def _trusted_indices(settings: Settings, path: Path | None) -> Tensor:
    """The positions in the training set, from 0, that trusted_file names."""
    if settings.shift != "none" or settings.selection:
        raise SettingsError(
            "trusted_file names samples of the training set as loaded: set shift to none and hold out no selection"
        )
    if settings.dataset == "csv" and path is not None and path.is_file():
        raise SettingsError(
            f"trusted_file counts the rows of train.csv, but {path} is split at random: "
            "make path a folder with train.csv and test.csv"
        )
    assert settings.trusted_file is not None
    return read_indices(settings.trusted_file).sort().values
