"""The data of a run: the shifted training set, the trusted samples and the test set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Generator, Tensor

from adiw.data import Data, DataError, ImageFiles, Samples, load
from adiw.data.image_files import read_image
from adiw.data.imagefolder import class_folders
from adiw.data.samples import stratified_split
from adiw.data.tables import SUFFIXES as TABLES
from adiw.experiments.settings import Settings, SettingsError
from adiw.shifts import Shifted, check_trusted, parse, read_indices

LOOKED_AT = 20  # images whose size is read
TRUSTED = "trusted"  # a likely name of a file or folder of trusted samples
LEAST_HELD_OUT = 20  # samples; each of fewer ones is more than five points of accuracy, and the choice mostly chance


@dataclass(frozen=True)
class Groups:
    """The group of each training sample (n,) and of each test sample (m,), -1 for one that no training sample has."""

    names: list[str]
    train: Tensor
    test: Tensor


@dataclass(frozen=True)
class Splits:
    """The samples of a run, by what they are used for."""

    data: Data  # the data set as loaded
    train: Samples | ImageFiles  # the shifted training set, with the labels of training
    trusted: Samples | ImageFiles  # samples of the target distribution
    test: Samples | ImageFiles  # the test set, or the selection split
    shifted: Shifted  # the shift; ``keep`` has positions in the training set as loaded
    held_out: Samples | ImageFiles | None = None  # trusted samples: they choose the best epoch and evaluate it
    groups: Groups | None = None  # of the column that ``group`` names

    @property
    def truth_known(self) -> bool:
        """Whether labels were flipped by a simulated shift, so that intact and mislabelled samples are known."""
        return bool(self.shifted.flipped.any())

    @property
    def is_trusted(self) -> Tensor:
        """(n,) which training samples are trusted."""
        found = torch.zeros(len(self.train), dtype=torch.bool)
        found[self.shifted.trusted] = True
        return found

    @property
    def trusted_index(self) -> Tensor:
        """The positions of the trusted samples in ``mixed``, (m,)."""
        if len(self.shifted.trusted):
            return self.shifted.trusted
        return len(self.train) + torch.arange(len(self.trusted))

    @property
    def mixed(self) -> Samples | ImageFiles:
        """Training and trusted samples, each once; only those of a trusted_folder are not in the training set."""
        if len(self.shifted.trusted):
            return self.train
        assert isinstance(self.train, ImageFiles)
        assert isinstance(self.trusted, ImageFiles)
        paths = self.train.paths + self.trusted.paths
        return replace(self.train, paths=paths, y=torch.cat([self.train.y, self.trusted.y]))


def load_splits(settings: Settings, root: Path | None = None) -> Splits:
    """Load the data set, hold out the selection split if there is one, and shift the remaining training samples."""
    data, named = _load(settings, root)
    generator = Generator().manual_seed(settings.seed)
    train, test, positions = data.train, data.test, torch.arange(len(data.train))
    selected: Tensor | None = None
    if settings.selection:
        positions, selected = _draw(len(train), settings.selection, generator)
        test = without_augmentation(train.subset(selected))
        train = train.subset(positions)
    shifted = _shift(settings, train, data.num_classes, named, generator)
    if settings.trusted_folder is not None:
        trusted = _trusted_images(data, Path(settings.trusted_folder), settings.broken_images)
        check_trusted(torch.arange(len(trusted)), trusted.y, data.num_classes)
    else:
        check_trusted(shifted.trusted, shifted.y, data.num_classes)
        trusted = train.subset(shifted.keep[shifted.trusted], shifted.y[shifted.trusted])
    trusted, held_out = without_augmentation(trusted), None
    drawn = _held_out_positions(trusted.y, settings)
    if drawn is not None:
        stays, leaves = drawn
        if settings.trusted_folder is None:
            shifted = shifted.without(shifted.trusted[leaves])  # a held-out sample is not trained on either
        trusted, held_out = (trusted.subset(part) for part in (stays, leaves))
    shifted_train = train.subset(shifted.keep, shifted.y)
    shifted = replace(shifted, keep=positions[shifted.keep])
    return Splits(data, shifted_train, trusted, test, shifted, held_out, _groups(data, shifted.keep, selected))


def _load(settings: Settings, root: Path | None) -> tuple[Data, Tensor | None]:
    """The data set, and the positions in its training set that trusted_file names."""
    path = None if settings.path is None else Path(settings.path)
    trusted_rows = _trusted_table(settings)
    named = None if settings.trusted_file is None or trusted_rows else _named_positions(settings)
    one_file = named is not None and settings.dataset == "csv" and path is not None and path.is_file()
    data = load(
        settings.dataset,
        root,
        path=path,
        target=settings.target,
        group=settings.group,
        size=settings.image_size,
        train_rows=named.tolist() if named is not None and one_file else None,
        trusted=trusted_rows,
        broken=settings.broken_images,
    )
    if named is not None and one_file and data.rows is not None:
        named = torch.searchsorted(data.rows, named)  # its positions in the training set
    if not settings.augment:
        whole = replace(data.train, augment=False) if isinstance(data.train, ImageFiles) else data.train
        data = replace(data, augment=False, train=whole)
    return data, data.trusted if trusted_rows else named


def _groups(data: Data, train: Tensor, selected: Tensor | None) -> Groups | None:
    """The groups of the training samples at these positions, and of the test set or the ``selected`` samples."""
    if not data.train_groups:
        return None
    names = sorted(set(data.train_groups))
    number = {name: k for k, name in enumerate(names)}
    loaded = torch.tensor([number[name] for name in data.train_groups])
    test = torch.tensor([number.get(name, -1) for name in data.test_groups])
    return Groups(names, loaded[train], test if selected is None else loaded[selected])


def _shift(
    settings: Settings, train: Samples | ImageFiles, num_classes: int, named: Tensor | None, generator: Generator
) -> Shifted:
    """The shifted training set; its trusted samples are those at the positions ``named``, drawn ones without it, and
    none if a trusted_folder has them."""
    elsewhere = named is not None or settings.trusted_folder is not None
    if settings.shift == "none" and not elsewhere and not settings.trusted:
        raise SettingsError(f"no trusted samples are given: {_how_to_trust(settings)}")
    x = train.x if isinstance(train, Samples) else None
    shifted = parse(settings.shift).apply(x, train.y, num_classes, 0 if elsewhere else settings.trusted, generator)
    return shifted if named is None else replace(shifted, trusted=named)


def _how_to_trust(settings: Settings) -> str:
    """How to give trusted samples; names a file or folder beside the training data that seems to have them."""
    path = None if settings.path is None else Path(settings.path)
    if path is not None and path.is_dir():
        names = [f"{TRUSTED}{suffix}" for suffix in TABLES] if settings.dataset == "csv" else [TRUSTED]
        option = "--trusted-file" if settings.dataset == "csv" else "--trusted-folder"
        for found in (path / name for name in names if (path / name).exists()):
            return f"are they those in {found}? Then add {option} {found}"
    return (
        "name their positions in a --trusted-file, which for a table may also be a table of trusted rows, give a "
        "--trusted-folder of images, or draw some with --trusted if all labels are correct"
    )


def _held_out_positions(y: Tensor, settings: Settings) -> tuple[Tensor, Tensor] | None:
    """Positions of the trusted samples, with labels y, that stay and that are held out; None if there are too few.

    Both parts have the proportions of the classes, and at least one sample of each class stays.
    """
    if settings.fold is not None:
        return _fold_positions(y, settings)
    count = round(settings.hold_out * len(y))
    if count < LEAST_HELD_OUT:
        return None
    try:
        return stratified_split(y, count, settings.seed)
    except DataError:  # most classes have a single sample
        return None


def _fold_positions(y: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """Positions of the trusted samples that stay and that are held out, for part k/K.

    The parts have the proportions of the classes. The only sample of a class stays in all parts.
    """
    assert settings.fold is not None
    number, folds = map(int, settings.fold.split("/"))
    order = torch.randperm(len(y), generator=Generator().manual_seed(settings.seed))
    order = order[y[order].argsort(stable=True)]  # by class, at random within each
    out = torch.zeros(len(y), dtype=torch.bool)
    out[order[number - 1 :: folds]] = True
    out &= torch.bincount(y)[y] > 1
    if not bool(out.any()):
        raise SettingsError(f"part {settings.fold} of {len(y)} trusted samples is empty: use fewer folds")
    return (~out).nonzero().flatten(), out.nonzero().flatten()


def without_augmentation(samples: Samples | ImageFiles) -> Samples | ImageFiles:
    """The samples as evaluation uses them."""
    return replace(samples, train=False) if isinstance(samples, ImageFiles) else samples


def small_side(samples: Samples | ImageFiles) -> int | None:
    """The pixels of images, by the first ones, if they are less than half of what they are scaled to."""
    if not isinstance(samples, ImageFiles):
        return None
    side = max(min(read_image(path).size) for path in samples.paths[:LOOKED_AT])
    return side if 2 * side < samples.size else None


def with_augmentation(samples: Samples | ImageFiles) -> Samples | ImageFiles:
    """The samples as training uses them; ``Samples`` are augmented batch by batch."""
    return replace(samples, train=True) if isinstance(samples, ImageFiles) else samples


def _draw(size: int, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """(positions that stay, ``count`` positions drawn at random), both sorted."""
    if count >= size:
        raise SettingsError(f"selection holds out {count} of {size} training samples: hold out fewer")
    order = torch.randperm(size, generator=generator)
    return order[count:].sort().values, order[:count].sort().values


def _trusted_images(data: Data, folder: Path, broken: str) -> Samples | ImageFiles:
    """Trusted images that are not part of the training set."""
    if not isinstance(data.train, ImageFiles):
        raise SettingsError(
            f"--trusted-folder is for imagefolder, not {data.name}: name the samples in a --trusted-file"
        )
    return replace(class_folders(folder, data.classes, data.train.size, broken), augment=data.train.augment)


def _named_positions(settings: Settings) -> Tensor:
    """The positions that trusted_file names, ascending: in the training set, or rows of a table in one file."""
    assert settings.trusted_file is not None
    return read_indices(settings.trusted_file).sort().values


def _trusted_table(settings: Settings) -> Path | None:
    """The table of trusted rows that trusted_file is; None if it has positions."""
    if settings.trusted_file is None:
        return None
    if settings.shift != "none" or settings.selection:
        raise SettingsError(
            "--trusted-file names samples of the training set as loaded: set --shift none and hold out no --selection"
        )
    file = Path(settings.trusted_file)
    if settings.dataset != "csv" or not file.name.endswith(TABLES) or not file.is_file():
        return None
    if file.suffix != ".csv":
        return file
    with file.open("rb") as stream:
        first = stream.readline().strip()
    return None if first.isdigit() else file
