"""The data of a run: shifted training samples, trusted samples, and the samples that judge it."""

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
class Task:
    """What a method trains on and what it is judged by."""

    data: Data
    train: Samples | ImageFiles  # the shifted training set, labels as training sees them
    trusted: Samples | ImageFiles  # its trusted samples
    judged_on: Samples | ImageFiles  # the test set, or the selection split
    shifted: Shifted

    @property
    def truth_known(self) -> bool:
        """Whether the shift was simulated with flipped labels, so that intact and mislabelled can be told apart."""
        return bool(self.shifted.flipped.any())


def prepare(settings: Settings, root: Path | None = None) -> Task:
    """Load the data set, hold out the selection split if asked for, and shift what remains."""
    data = load(settings.dataset, root, path=_path(settings), target=settings.target, broken=settings.broken_images)
    random = Generator().manual_seed(settings.seed)
    train, judged_on = data.train, data.test
    if settings.selection:
        train, judged_on = _hold_out(train, settings.selection, random)
    x = train.x if isinstance(train, Samples) else None
    given = settings.trusted_file is not None or settings.trusted_folder is not None
    if settings.shift == "none" and not given and not settings.trusted:
        raise SettingsError(
            "shift none needs to be told which samples are trusted: name them in a trusted_file, give a "
            "trusted_folder of images, or draw some with trusted if all labels are right"
        )
    drawn = 0 if given else settings.trusted
    shifted = parse(settings.shift).apply(x, train.y, data.num_classes, drawn, random)
    if settings.trusted_file is not None:
        shifted = _use_trusted_file(shifted, settings)
    seen = train.subset(shifted.keep, shifted.y)
    if settings.trusted_folder is not None:
        trusted = _trusted_images(data, Path(settings.trusted_folder), settings.broken_images)
        check_trusted(torch.arange(len(trusted)), trusted.y, data.num_classes)
    else:
        check_trusted(shifted.trusted, shifted.y, data.num_classes)
        trusted = as_they_are(train.subset(shifted.keep[shifted.trusted], shifted.y[shifted.trusted]))
    return Task(data, seen, trusted, judged_on, shifted)


def as_they_are(samples: Samples | ImageFiles) -> Samples | ImageFiles:
    """The samples without augmentation, to look at and not to train on."""
    return replace(samples, train=False) if isinstance(samples, ImageFiles) else samples


def to_train_on(samples: Samples | ImageFiles) -> Samples | ImageFiles:
    """The samples with the augmentation of training samples; that of ``Samples`` comes with their batches."""
    return replace(samples, train=True) if isinstance(samples, ImageFiles) else samples


def _path(settings: Settings) -> Path | None:
    return None if settings.path is None else Path(settings.path)


def _hold_out(
    train: Samples | ImageFiles, count: int, random: Generator
) -> tuple[Samples | ImageFiles, Samples | ImageFiles]:
    """(the rest, ``count`` samples drawn at random with their true labels)."""
    if count >= len(train):
        raise SettingsError(f"selection holds out {count} of {len(train)} training samples: none would be left")
    order = torch.randperm(len(train), generator=random)
    out, rest = order[:count].sort().values, order[count:].sort().values
    return train.subset(rest, train.y[rest]), as_they_are(train.subset(out, train.y[out]))


def _trusted_images(data: Data, folder: Path, broken: str) -> Samples | ImageFiles:
    """Trusted images that are not part of the training set."""
    if not isinstance(data.train, ImageFiles):
        raise SettingsError(f"trusted_folder is for imagefolder, not {data.name}: name the samples in a trusted_file")
    return class_folders(folder, data.classes, data.train.size, broken)


def _use_trusted_file(shifted: Shifted, settings: Settings) -> Shifted:
    if settings.shift != "none" or settings.selection:
        raise SettingsError(
            "trusted_file names samples of the training set as it is: set shift to none and hold out no selection"
        )
    path = _path(settings)
    if settings.dataset == "csv" and path is not None and path.is_file():
        raise SettingsError(
            f"trusted_file counts the rows of train.csv, but {path} is split at random: "
            "make path a folder with train.csv and test.csv"
        )
    assert settings.trusted_file is not None
    trusted: Tensor = read_indices(settings.trusted_file).sort().values
    return replace(shifted, trusted=trusted)
