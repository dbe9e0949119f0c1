"""Fashion-MNIST and its idx files."""

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from adiw.data import DataError, fashion_mnist, load
from adiw.data.fashion_mnist import read_idx
from tests.data.files import idx_bytes, write_fashion

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["a-ubyte", "a-ubyte.gz"])
def test_round_trip(tmp_path, name):
    path = tmp_path / name
    payload = idx_bytes(ARRAY)
    path.write_bytes(gzip.compress(payload) if name.endswith(".gz") else payload)
    digest = f"sha256:{hashlib.sha256(payload).hexdigest()}"  # of the uncompressed file in both cases
    assert torch.equal(read_idx(path, digest), torch.from_numpy(ARRAY.copy()))
    with pytest.raises(DataError, match="expected md5:0, found md5:"):
        read_idx(path, "md5:0")


def test_damaged_gzip(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(idx_bytes(ARRAY))[:-10])
    with pytest.raises(DataError, match=r"a\.gz: damaged or truncated"):
        read_idx(path, "md5:0")
    path.write_bytes(idx_bytes(ARRAY))
    with pytest.raises(DataError, match=r"a\.gz: damaged or truncated"):
        read_idx(path, "md5:0")
    packed = gzip.compress(idx_bytes(ARRAY))
    path.write_bytes(packed[:20] + b"\xff\xff" + packed[22:])
    with pytest.raises(DataError, match=r"a\.gz: damaged or truncated"):
        read_idx(path, "md5:0")


@pytest.fixture
def any_digest(monkeypatch):
    """Take small files for the official ones."""
    monkeypatch.setattr(fashion_mnist, "check_digest", lambda payload, *expected: payload)


@pytest.mark.usefixtures("any_digest")
@pytest.mark.parametrize("packed", [True, False])
def test_tiny_files(tmp_path, packed):
    write_fashion(tmp_path, (3, 0, 9), packed)
    data = load("fashion-mnist", tmp_path)
    assert data.train.x.shape == (3, 1, 28, 28)
    assert data.train.x.dtype == torch.uint8
    assert data.train.x[:, 0, 5, 7].tolist() == [0, 1, 2]
    assert data.test.y.tolist() == [3, 0, 9]
    assert (data.mean, data.std, data.augment) == ((0.0,), (1.0,), False)
    assert data.classes[9] == "Ankle boot"


@pytest.mark.usefixtures("any_digest")
def test_compressed_file_is_preferred(tmp_path):
    folder = write_fashion(tmp_path)
    (folder / "train-images-idx3-ubyte").write_bytes(b"damaged")
    assert len(load("fashion-mnist", tmp_path).train) == 3


def test_other_files_are_refused(tmp_path):
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


def real_root() -> Path | None:
    root = Path(os.environ.get("ADIW_DATA") or "")
    return root if (root / "fashion-mnist").is_dir() else None


@pytest.mark.skipif(real_root() is None, reason="ADIW_DATA names no folder with fashion-mnist")
def test_real_files():
    data = load("fashion-mnist")
    assert (len(data.train), len(data.test)) == (60000, 10000)
    assert data.train.y.bincount().tolist() == [6000] * 10
    assert abs(data.train.x.float().mean().item() / 255 - 0.2860) < 1e-4  # the published pixel mean
