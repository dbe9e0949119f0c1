"""Fashion-MNIST and its idx files."""

import gzip
import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from adiw.data import DataError, load
from adiw.data.fashion_mnist import read_idx
from tests.data.files import idx_bytes, write_fashion

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["a-ubyte", "a-ubyte.gz"])
def test_round_trip(tmp_path, name):
    path = tmp_path / name
    payload = idx_bytes(ARRAY)
    path.write_bytes(gzip.compress(payload) if name.endswith(".gz") else payload)
    digest = f"sha256:{hashlib.sha256(payload).hexdigest()}"  # of the uncompressed file in both cases
    assert torch.equal(read_idx(path, 3, digest), torch.from_numpy(ARRAY.copy()))
    with pytest.raises(DataError, match="expected md5:0, found md5:"):
        read_idx(path, 3, "md5:0")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "found 0 bytes that begin with 0x;"),
        (b"\x89PNG" + bytes(40), "begin with 0x89504e47"),
        (idx_bytes(ARRAY[0]), "in 3 dimensions, found 24 bytes that begin with 0x00000802"),
        (b"\x00\x00\x0d\x03" + idx_bytes(ARRAY)[4:], "begin with 0x00000d03"),
        (idx_bytes(ARRAY)[:9], "found 9 bytes"),
        (idx_bytes(ARRAY)[:-1], "found 39 bytes that begin with 0x00000803000000020000000300000004"),
        (idx_bytes(ARRAY) + b"x", "found 41 bytes"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", *[2**32 - 1] * 3), "found 16 bytes"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 0, 3, 4), "found 16 bytes"),
    ],
)
def test_bad_files_are_named(tmp_path, payload, message):
    path = tmp_path / "bad-ubyte"
    path.write_bytes(payload)
    with pytest.raises(DataError, match=f"bad-ubyte: .*{message}"):
        read_idx(path, 3)


def test_damaged_gzip(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(idx_bytes(ARRAY))[:-10])
    with pytest.raises(DataError, match=r"a\.gz: damaged or truncated"):
        read_idx(path, 3)
    path.write_bytes(idx_bytes(ARRAY))
    with pytest.raises(DataError, match=r"a\.gz: damaged or truncated"):
        read_idx(path, 3)
    packed = gzip.compress(idx_bytes(ARRAY))
    path.write_bytes(packed[:20] + b"\xff\xff" + packed[22:])
    with pytest.raises(DataError, match=r"a\.gz: damaged or truncated"):
        read_idx(path, 3)


@pytest.mark.parametrize("packed", [True, False])
def test_tiny_files(tmp_path, packed):
    write_fashion(tmp_path, (3, 0, 9), packed)
    data = load("fashion-mnist", tmp_path, verify=False)
    assert data.train.x.shape == (3, 1, 28, 28)
    assert data.train.x.dtype == torch.uint8
    assert data.train.x[:, 0, 5, 7].tolist() == [0, 1, 2]
    assert data.test.y.tolist() == [3, 0, 9]
    assert (data.mean, data.std, data.augment) == ((0.0,), (1.0,), False)
    assert data.classes[9] == "Ankle boot"


def test_compressed_file_is_preferred(tmp_path):
    folder = write_fashion(tmp_path)
    (folder / "train-images-idx3-ubyte").write_bytes(b"damaged")
    assert len(load("fashion-mnist", tmp_path, verify=False).train) == 3


def test_digest_is_checked_by_default(tmp_path):
    write_fashion(tmp_path)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz: expected sha256:c59f468a"):
        load("fashion-mnist", tmp_path)


def test_missing_files_name_the_command(tmp_path):
    with pytest.raises(DataError, match="adiw data get fashion-mnist"):
        load("fashion-mnist", tmp_path)
    folder = write_fashion(tmp_path)
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"has no t10k-labels-idx1-ubyte.gz; run"):
        load("fashion-mnist", tmp_path)


def test_images_and_labels_must_match(tmp_path):
    folder = write_fashion(tmp_path)
    payload = gzip.compress(idx_bytes(np.zeros(2, np.uint8)))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(payload)
    with pytest.raises(DataError, match=r"expected 3 labels.*found 2"):
        load("fashion-mnist", tmp_path, verify=False)


def test_label_out_of_range_names_the_file(tmp_path):
    write_fashion(tmp_path, (0, 10, 1))
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz: expected labels from 0 to 9, found 10"):
        load("fashion-mnist", tmp_path, verify=False)


def real_root() -> Path | None:
    root = Path(os.environ.get("ADIW_DATA") or "")
    return root if (root / "fashion-mnist").is_dir() else None


@pytest.mark.skipif(real_root() is None, reason="ADIW_DATA names no folder with fashion-mnist")
def test_real_files():
    data = load("fashion-mnist")
    assert (len(data.train), len(data.test)) == (60000, 10000)
    assert data.train.y.bincount().tolist() == [6000] * 10
    assert abs(data.train.x.float().mean().item() / 255 - 0.2860) < 1e-4  # the published pixel mean
