"""`adiw data get`: the official files, downloaded, checked and unpacked."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from adiw.data import DATASETS
from adiw.data.digest import check_stream
from adiw.data.download import Progress, download
from adiw.data.errors import DataError
from adiw.data.fashion_mnist import DIGESTS
from adiw.data.options import Options
from adiw.data.unpack import unpack


@dataclass(frozen=True)
class Source:
    """Where a data set is published.

    address: web folder of the files;  folder: where they end up below the root;  files: expected digests
    by name, of the file itself when it is a tar archive, else of what the gzip file contains.
    """

    address: str
    folder: str
    files: Mapping[str, str]
    archive: bool


SOURCES: dict[str, Source] = {
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "fashion-mnist",
        {f"{name}.gz": digest for name, digest in DIGESTS.items()},
        archive=False,
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/",
        "cifar-10-batches-bin",
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        archive=True,
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz/",
        "cifar-100-python",  # its files have digests of their own, those of the binary layout have none
        {"cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85"},
        archive=True,
    ),
}


def get(name: str, root: Path, progress: Progress | None = None, mirror: str | None = None) -> Path:
    """Fetch a data set into root and return its folder; what is there and correct is not fetched again.

    mirror: web folder with the same files, instead of the official address; the digests still hold.
    An archive is kept beside its folder.
    """
    if name not in SOURCES:
        raise DataError(f"{name!r} is not a download; data sets to get are {', '.join(SOURCES)}")
    source = SOURCES[name]
    if _loads(name, root):
        return root / source.folder
    place = root if source.archive else root / source.folder
    advice = (
        f"without a network, put {', '.join(source.files)} into {place} by hand, "
        f"then run `adiw data get {name}` again"
    )
    for file, digest in source.files.items():
        target = place / file
        check = partial(_check, digest=digest, archive=source.archive)
        if not _passes(check, target):
            download(f"{(mirror or source.address).rstrip('/')}/{file}", target, check, progress, advice)
        if source.archive:
            unpack(target, root, source.folder)
    return root / source.folder


def _loads(name: str, root: Path) -> bool:
    """The loader itself decides whether the files are there and correct."""
    try:
        DATASETS[name](root, Options())
    except DataError:
        return False
    return True


def _passes(check: Callable[[Path], None], path: Path) -> bool:
    """Whether the file is there and its digest is right."""
    try:
        check(path)
    except DataError:
        return False
    return True


def _check(path: Path, digest: str, archive: bool) -> None:
    if not path.is_file():
        raise DataError(f"{path}: file not found")
    with path.open("rb") if archive else cast(IO[bytes], gzip.open(path)) as stream:
        check_stream(stream, digest, path)
