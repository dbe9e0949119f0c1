"""``adiw data get``: downloads the official files with pooch, checks their digests and unpacks them."""

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adiw.data import load
from adiw.data.source_files import DataError
from adiw.versions import require

CHUNK = 1 << 18  # bytes between two steps of the progress bar
TIMEOUT = 30.0  # seconds without receiving a byte


@dataclass(frozen=True)
class Source:
    """Where a data set is published.

    address: the web folder of the files;  folder: where they end up below the root;  files: the digests of the
    downloads by file name;  archive: whether they are tar archives.
    """

    address: str
    folder: str
    files: Mapping[str, str]
    archive: bool


SOURCES: dict[str, Source] = {
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "fashion-mnist",
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
        archive=False,
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz",
        "cifar-10-batches-bin",
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        archive=True,
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz",
        "cifar-100-binary",
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
        archive=True,
    ),
}


def get(name: str, root: Path, progress: Any = None) -> Path:
    """Download a data set into root and return its folder; files that are there and correct are kept.

    An archive stays beside the folder it was unpacked to. ``progress``: a progress bar in the form that pooch calls.
    """
    if name not in SOURCES:
        raise DataError(f"{name!r} is not a download; the data sets to download are {', '.join(SOURCES)}")
    source = SOURCES[name]
    if _loads(name, root):
        return root / source.folder
    folder = root if source.archive else root / source.folder
    advice = (
        f"without a network, put {', '.join(source.files)} into {folder} yourself, "
        f"then run `adiw data get {name}` again"
    )
    for file, digest in source.files.items():
        retrieve(f"{source.address}/{file}", folder / file, digest, advice, progress)
        if source.archive:
            unpack(folder / file, root, source.folder)
    return root / source.folder


def _loads(name: str, root: Path) -> bool:
    """Whether the loader finds all files and they are correct."""
    try:
        load(name, root)
    except DataError:
        return False
    return True


def retrieve(url: str, target: Path, digest: str, advice: str, progress: Any = None) -> None:
    """Download url to target unless target already has this digest.

    pooch downloads to a temporary file and renames it after the check, so a failure leaves no file behind and does
    not touch the old one. advice: ends the error message.
    """
    require("pooch", "1.8", "cli")
    import pooch

    pooch.get_logger().setLevel("WARNING")  # by default pooch reports every download on standard error
    # No compression in transit: requests would decompress a .gz file, and its digest would not match.
    downloader = pooch.HTTPDownloader(
        progressbar=progress or False,
        chunk_size=CHUNK,
        timeout=TIMEOUT,
        headers={"User-Agent": "adiw", "Accept-Encoding": "identity"},
    )
    try:
        pooch.retrieve(url, digest, target.name, target.parent, downloader=downloader)
    except (OSError, ValueError) as error:  # network or disk; a wrong digest
        raise DataError(f"could not download {url} ({error}); {advice}") from error


def unpack(archive: Path, root: Path, folder: str) -> None:
    """Extract the files below ``folder`` of a tar archive to root/folder.

    A member that would leave the root (.., a link outside) is refused, and then nothing is extracted; an absolute
    path loses its first slash. pooch's own extraction has these checks only from Python 3.12 on.
    """
    try:
        with tarfile.open(archive) as tar:
            members = [tarfile.data_filter(member, str(root)) for member in tar]
            files = [member for member in members if member.isfile() and Path(member.name).parts[0] == folder]
            tar.extractall(root, files, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f"{archive}: refused or damaged ({error}); nothing was unpacked") from error
    if not files:
        raise DataError(f"{archive}: expected files below {folder}/, found none; download it again")
