"""CIFAR in its binary layout."""

import pytest
import torch

from adiw.data import DataError, cifar, load
from tests.data.files import cifar_record


def write_binary10(root, labels=(0, 9)):
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        (folder / name).write_bytes(cifar_record([[label] for label in labels]))
    return folder


def write_binary100(root, labels=((1, 0), (2, 99))):
    folder = root / "cifar-100-binary"
    folder.mkdir()
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(cifar_record([list(pair) for pair in labels]))
    return folder


def check_pixels(x):
    assert x.shape[1:] == (3, 32, 32)
    assert x.dtype == torch.uint8
    assert x[1, :, 5, 5].tolist() == [10, 20, 30]
    assert x[:2, 0, 0, 0].tolist() == [0, 1]


@pytest.fixture
def any_digest(monkeypatch):
    """Take small files for the official ones."""
    monkeypatch.setattr(cifar, "check_digest", lambda payload, *expected: payload)


@pytest.mark.usefixtures("any_digest")
def test_cifar10_binary(tmp_path):
    write_binary10(tmp_path)
    data = load("cifar10", tmp_path)
    check_pixels(data.train.x)
    assert data.train.y.tolist() == [0, 9] * 5
    assert data.test.y.tolist() == [0, 9]
    assert data.augment
    assert data.classes[9] == "truck"


@pytest.mark.usefixtures("any_digest")
def test_cifar100_takes_the_fine_label(tmp_path):
    write_binary100(tmp_path)
    data = load("cifar100", tmp_path)
    check_pixels(data.train.x)
    assert data.train.y.tolist() == [0, 99]
    assert data.num_classes == len(set(data.classes)) == 100
    assert list(data.classes) == sorted(data.classes)


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("cifar10", write_binary10, "data_batch_1.bin: expected sha256:cee91656"),
        ("cifar100", write_binary100, "train.bin: expected bytes:153700000, found bytes:6148"),
    ],
)
def test_other_files_are_refused(tmp_path, name, write, message):
    write(tmp_path)
    with pytest.raises(DataError, match=message):
        load(name, tmp_path)


@pytest.mark.usefixtures("any_digest")
def test_label_out_of_range(tmp_path):
    write_binary100(tmp_path, labels=((1, 0), (2, 100)))
    with pytest.raises(DataError, match=r"cifar100 train: expected labels from 0 to 99, found 100"):
        load("cifar100", tmp_path)


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match="adiw data get cifar100"):
        load("cifar100", tmp_path)
    folder = write_binary10(tmp_path)
    (folder / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"has no data_batch_2.bin; run `adiw data get cifar10`, or put it there"):
        load("cifar10", tmp_path)


def test_the_layout_for_python_is_not_read(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"cos\nsystem\n(S'echo hacked'\ntR.")
    with pytest.raises(DataError, match=r"cifar-10-batches-bin has no data_batch_1.bin"):
        load("cifar10", tmp_path)
