import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from adiw.data import DataError, load
from tests.data.files import idx_bytes, write_fashion


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
