"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 32 x 32 colour images, in the binary or the Python layout.

The Python layout is a pickle, and a pickle can call any function by its name. Here the names in the official files
are replaced by inert classes of this module, and every other name is refused. A crafted file can at worst produce
wrong values, which are checked like any other data.
"""

import io
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adiw.data.dataset import Data
from adiw.data.errors import DataError, missing_files
from adiw.data.load_options import Options, check_digest
from adiw.data.samples import Samples, check_range

PIXELS = 3 * 32 * 32
_TEN = "airplane automobile bird cat deer dog frog horse ship truck"
_HUNDRED = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
    bowl boy bridge bus butterfly camel can castle caterpillar cattle
    chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket
    rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR10_CLASSES = tuple(_TEN.split())
CIFAR100_CLASSES = tuple(_HUNDRED.split())


class _Array:
    """Replaces numpy.ndarray: keeps the pickled state."""

    state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Dtype:
    """Replaces numpy.dtype: keeps its name. The byte order in its state does not matter for single bytes."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None: ...


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return ALLOWED[module, name]


def read_pickle(payload: bytes, path: Path, label_key: bytes) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 of one Python batch; ``path`` names the file in errors."""
    try:
        batch = _InertUnpickler(io.BytesIO(payload), encoding="bytes").load()
        pixels = _pixels(batch[b"data"])
        labels = batch[label_key]
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise ValueError("labels are not a list of integers")
        y = torch.tensor(labels, dtype=torch.int64)
    except Exception as error:  # a crafted file can make the unpickler raise any exception
        raise DataError(
            f"{path}: refused, expected a CIFAR batch with b'data' and {label_key!r} ({error}); "
            "download the official file again, and do not open this one with pickle.load"
        ) from error
    if len(pixels) != len(y):
        raise DataError(f"{path}: expected {len(pixels)} labels, one per image, found {len(y)}")
    return pixels, y


def _pixels(array: object) -> Tensor:
    """The (n, 3072) bytes that an _Array was pickled with, as (n, 3, 32, 32)."""
    if not isinstance(array, _Array) or not isinstance(array.state, tuple):
        raise ValueError("data is not an array")
    _, shape, dtype, fortran, raw = array.state
    if not isinstance(dtype, _Dtype) or dtype.name not in (b"u1", "u1"):
        raise ValueError("data is not an array of unsigned bytes")
    if len(shape) != 2 or shape[1] != PIXELS or not isinstance(raw, bytes) or len(raw) != math.prod(shape):
        raise ValueError(f"data has shape {shape}, expected (n, {PIXELS})")
    rows = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")
    return torch.from_numpy(np.array(rows, order="C")).reshape(-1, 3, 32, 32)


def read_binary(payload: bytes, path: Path, label_bytes: int) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64; a record is the label bytes, then the pixels.

    The last label byte is the label: CIFAR-100 has two, coarse and fine.

    >>> x, y = read_binary(bytes([4, 7]) + bytes(3072), Path("train.bin"), label_bytes=2)
    >>> x.shape, y
    (torch.Size([1, 3, 32, 32]), tensor([7]))
    """
    record = label_bytes + PIXELS
    if not payload or len(payload) % record:
        raise DataError(
            f"{path}: truncated; expected a whole number of {record}-byte records, "
            f"found {len(payload)} bytes; download it again"
        )
    rows = torch.frombuffer(bytearray(payload), dtype=torch.uint8).reshape(-1, record)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1].long()


@dataclass(frozen=True)
class Layout:
    """One form in which the files are published: their digests by file name, and the function that reads one."""

    folder: str
    train: Mapping[str, str]
    test: Mapping[str, str]
    read: Callable[[bytes, Path], tuple[Tensor, Tensor]]

    def absent(self, root: Path) -> list[str]:
        """The files of this layout that are missing in its folder below root."""
        return [name for name in (*self.train, *self.test) if not (root / self.folder / name).is_file()]


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
    Layout(  # the authors publish a digest of the archive only, so the size is checked
        "cifar-100-binary",
        {"train.bin": f"bytes:{50_000 * (2 + PIXELS)}"},
        {"test.bin": f"bytes:{10_000 * (2 + PIXELS)}"},
        partial(read_binary, label_bytes=2),
    ),
)


def load_cifar10(root: Path, options: Options) -> Data:
    """50000 training and 10000 test colour images of 32 x 32 pixels in ten classes.

    (3, 32, 32) uint8, normalised and augmented on the device.
    """
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    train, test = _splits("cifar10", CIFAR10_LAYOUTS, len(CIFAR10_CLASSES), root, options)
    return Data("cifar10", train, test, CIFAR10_CLASSES, mean, std, augment=True)


def load_cifar100(root: Path, options: Options) -> Data:
    """50000 training and 10000 test images like those of cifar10, in a hundred classes (the fine labels)."""
    mean, std = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    train, test = _splits("cifar100", CIFAR100_LAYOUTS, len(CIFAR100_CLASSES), root, options)
    return Data("cifar100", train, test, CIFAR100_CLASSES, mean, std, augment=True)


def _splits(
    name: str, layouts: tuple[Layout, ...], num_classes: int, root: Path, options: Options
) -> tuple[Samples, Samples]:
    """Train and test of the first layout that is complete below root."""
    options.only(name, "verify")
    layout = next((layout for layout in layouts if not layout.absent(root)), None)
    if layout is None:
        begun = [layout for layout in layouts if (root / layout.folder).is_dir()]
        nearest = (*begun, *layouts)[0]
        raise missing_files(name, root / nearest.folder, nearest.absent(root))
    read = partial(_read, root / layout.folder, layout.read, num_classes, options.verify)
    return read(layout.train), read(layout.test)


def _read(
    folder: Path,
    read: Callable[[bytes, Path], tuple[Tensor, Tensor]],
    num_classes: int,
    verify: bool,
    files: Mapping[str, str],
) -> Samples:
    """All images of some files, in their order."""
    parts = []
    for name, digest in files.items():
        path = folder / name
        payload = path.read_bytes()
        if verify:
            check_digest(payload, digest, path)
        x, y = read(payload, path)
        check_range(y, num_classes, str(path))
        parts.append((x, y))
    return Samples(torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts]))
