"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 28 x 28 grey images of ten kinds of clothing, in idx files."""

import gzip
import struct
import zlib
from pathlib import Path
from typing import IO, cast

import torch
from torch import Tensor

from adiw.data.dataset import Data
from adiw.data.samples import Samples
from adiw.data.source_files import DataError, check_digest, missing_files

FOLDER = "fashion-mnist"
CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
DIGESTS = {  # of the uncompressed files
    "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
MAX_BYTES = 1 << 26  # more than any of the files has: a damaged one may decompress to far more


def load_fashion_mnist(root: Path) -> Data:
    """60000 training and 10000 test images of clothing, 28 x 28 grey pixels, in ten classes.

    (1, 28, 28) uint8, from root/fashion-mnist/*-ubyte[.gz].
    """
    paths = {name: _find(root / FOLDER, name) for name in DIGESTS}
    absent = [f"{name}.gz" for name, path in paths.items() if path is None]
    if absent:
        raise missing_files("fashion-mnist", root / FOLDER, absent)
    arrays = [read_idx(path, DIGESTS[name]) for name, path in paths.items() if path is not None]
    train, test = (Samples(x.unsqueeze(1), y.long()) for x, y in (arrays[:2], arrays[2:]))
    return Data(name="fashion-mnist", train=train, test=test, classes=CLASSES, mean=(0.0,), std=(1.0,))


def _find(folder: Path, name: str) -> Path | None:
    # .gz first, because `adiw data get` replaces that one when it is damaged.
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)


def read_idx(path: Path, digest: str) -> Tensor:
    """A uint8 tensor from a file in MNIST's idx format, compressed if it ends in .gz.

    The file holds the bytes 0, 0, 8 (unsigned bytes) and the number of dimensions, each dimension in four bytes
    (big-endian), and the values. digest: of the uncompressed file, see ``check_digest``.
    """
    try:
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as stream:
            payload = check_digest(stream.read(MAX_BYTES), digest, path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged or truncated ({error}); download it again") from error
    start = 4 + 4 * payload[3]
    shape = struct.unpack(f">{payload[3]}I", payload[4:start])
    return torch.frombuffer(bytearray(payload[start:]), dtype=torch.uint8).reshape(shape)
