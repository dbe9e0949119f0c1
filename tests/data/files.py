"""Tiny valid files in each format, for the tests to load as they are or after damaging them."""

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def idx_bytes(array: np.ndarray) -> bytes:
    """An idx file of unsigned bytes."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_fashion(root: Path, labels: tuple[int, ...] = (3, 0, 9), packed: bool = True) -> Path:
    """Images (n, 28, 28) whose pixels all equal the image's number, with the given labels, as both splits."""
    folder = root / "fashion-mnist"
    folder.mkdir(parents=True)
    images = np.arange(len(labels), dtype=np.uint8)[:, None, None] * np.ones((28, 28), np.uint8)
    for part in ("train", "t10k"):
        for kind, array in (("images-idx3", images), ("labels-idx1", np.array(labels, np.uint8))):
            name, payload = f"{part}-{kind}-ubyte", idx_bytes(array)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(payload))
            else:
                (folder / name).write_bytes(payload)
    return folder


def cifar_pixels(n: int) -> np.ndarray:
    """(n, 3072) bytes: red 10, green 20, blue 30, and the image's number in the very first byte."""
    pixels = np.repeat(np.array([10, 20, 30], np.uint8), 1024)[None].repeat(n, 0)
    pixels[:, 0] = np.arange(n)
    return pixels


def cifar_record(labels: list[list[int]]) -> bytes:
    """Binary batch: the label bytes of each record, then its pixels."""
    return np.concatenate([np.array(labels, np.uint8), cifar_pixels(len(labels))], axis=1).tobytes()


def write_image(path: Path, colour: tuple[int, int, int] = (200, 100, 50), size: tuple[int, int] = (20, 10)) -> None:
    """A PNG (or what the suffix says) of one colour; size is (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def write_folders(root: Path, classes: tuple[str, ...] = ("ant", "bee"), test: str = "val") -> Path:
    """Two images of each class in train/ and one in val/."""
    for name in classes:
        write_image(root / "train" / name / "1.png")
        write_image(root / "train" / name / "2.JPEG")
        write_image(root / test / name / "1.png")
    return root


def tar_bytes(members: dict[str, bytes], link: str | None = None) -> bytes:
    """A .tar.gz of the members, and a symbolic link set/link to `link`."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link is not None:
            info = tarfile.TarInfo("set/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    return file.getvalue()
