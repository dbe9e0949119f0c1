"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 32 x 32 colour images, in the binary or the Python layout."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from adiw.data.cifar_classes import CIFAR10_CLASSES, CIFAR100_CLASSES
from adiw.data.cifar_pickle import read_pickle
from adiw.data.dataset import Data
from adiw.data.digest import check_bytes
from adiw.data.errors import DataError, missing
from adiw.data.labels import check_range
from adiw.data.options import Options
from adiw.data.samples import Samples

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Layout:
    """One form in which the files are published: expected digests by file name, and how one is read."""

    folder: str
    train: Mapping[str, str]
    test: Mapping[str, str]
    read: Callable[[bytes, Path], tuple[Tensor, Tensor]]

    def absent(self, root: Path) -> list[str]:
        """The files of this layout that are not in their folder below root."""
        return [name for name in (*self.train, *self.test) if not (root / self.folder / name).is_file()]


def read_binary(payload: bytes, path: Path, label_bytes: int) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64; a record is the label bytes, then the pixels.

    The last label byte counts: CIFAR-100 has two, coarse and fine.

    >>> x, y = read_binary(bytes([4, 7]) + bytes(3072), Path("train.bin"), label_bytes=2)
    >>> x.shape, y
    (torch.Size([1, 3, 32, 32]), tensor([7]))
    """
    record = label_bytes + PIXELS
    if not payload or len(payload) % record:
        raise DataError(
            f"{path}: truncated; expected a whole number of {record}-byte records, "
            f"found {len(payload)} bytes; fetch it again"
        )
    rows = torch.frombuffer(bytearray(payload), dtype=torch.uint8).reshape(-1, record)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1].long()


CIFAR10_LAYOUTS = (
    Layout(
        "cifar-10-batches-bin",
        {
            "data_batch_1.bin": "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        },
        {"test_batch.bin": "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
        partial(read_binary, label_bytes=1),
    ),
    Layout(
        "cifar-10-batches-py",
        {
            "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
            "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
            "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
        },
        {"test_batch": "md5:40351d587109b95175f43aff81a1287e"},
        partial(read_pickle, label_key=b"labels"),
    ),
)
CIFAR100_LAYOUTS = (
    Layout(
        "cifar-100-python",
        {"train": "md5:16019d7e3df5f24257cddd939b257f8d"},
        {"test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc"},
        partial(read_pickle, label_key=b"fine_labels"),
    ),
    Layout(  # digests are published for the archive only
        "cifar-100-binary",
        {"train.bin": f"bytes:{50_000 * (2 + PIXELS)}"},
        {"test.bin": f"bytes:{10_000 * (2 + PIXELS)}"},
        partial(read_binary, label_bytes=2),
    ),
)


def load_cifar10(root: Path, options: Options) -> Data:
    """50000 training and 10000 test images (3, 32, 32) uint8 in ten classes."""
    verify = options.only("cifar10", "verify").verify
    train, test = _splits("cifar10", CIFAR10_LAYOUTS, len(CIFAR10_CLASSES), root, verify)
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    return Data("cifar10", train, test, CIFAR10_CLASSES, mean, std, augment=True)


def load_cifar100(root: Path, options: Options) -> Data:
    """50000 training and 10000 test images (3, 32, 32) uint8 in a hundred classes (the fine labels)."""
    verify = options.only("cifar100", "verify").verify
    train, test = _splits("cifar100", CIFAR100_LAYOUTS, len(CIFAR100_CLASSES), root, verify)
    mean, std = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    return Data("cifar100", train, test, CIFAR100_CLASSES, mean, std, augment=True)


def _splits(
    name: str, layouts: tuple[Layout, ...], num_classes: int, root: Path, verify: bool
) -> tuple[Samples, Samples]:
    layout = _choose(name, layouts, root)
    return (
        _read(root, layout, layout.train, num_classes, verify),
        _read(root, layout, layout.test, num_classes, verify),
    )


def _choose(name: str, layouts: tuple[Layout, ...], root: Path) -> Layout:
    """The first layout that is complete below root."""
    for layout in layouts:
        if not layout.absent(root):
            return layout
    begun = [layout for layout in layouts if (root / layout.folder).is_dir()]
    nearest = (*begun, *layouts)[0]
    raise missing(name, root / nearest.folder, nearest.absent(root))


def _read(root: Path, layout: Layout, files: Mapping[str, str], num_classes: int, verify: bool) -> Samples:
    """All images of some files of a layout, in their order."""
    parts = []
    for name, digest in files.items():
        path = root / layout.folder / name
        payload = path.read_bytes()
        if verify:
            check_bytes(payload, digest, path)
        x, y = layout.read(payload, path)
        check_range(y, num_classes, str(path))
        parts.append((x, y))
    return Samples(torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts]))
