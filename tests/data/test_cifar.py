"""CIFAR in its two layouts, and crafted pickles."""

import collections
import hashlib
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from adiw.data import DataError, load
from adiw.data.cifar import CIFAR10_LAYOUTS, CIFAR100_LAYOUTS, read_pickle
from tests.data.files import Python2Pickler, cifar_pixels, cifar_record


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


def write_python(root, layout, key, labels):
    folder = root / layout.folder
    folder.mkdir()
    for name in (*layout.train, *layout.test):
        file = io.BytesIO()
        Python2Pickler(file, 2).dump({b"data": cifar_pixels(len(labels)), key: labels})
        (folder / name).write_bytes(file.getvalue())
    return folder


def check_pixels(x):
    assert x.shape[1:] == (3, 32, 32)
    assert x.dtype == torch.uint8
    assert x[1, :, 5, 5].tolist() == [10, 20, 30]
    assert x[:2, 0, 0, 0].tolist() == [0, 1]


def test_cifar10_binary(tmp_path):
    write_binary10(tmp_path)
    data = load("cifar10", tmp_path, verify=False)
    check_pixels(data.train.x)
    assert data.train.y.tolist() == [0, 9] * 5
    assert data.test.y.tolist() == [0, 9]
    assert data.augment
    assert data.classes[9] == "truck"


def test_cifar100_takes_the_fine_label(tmp_path):
    write_binary100(tmp_path)
    data = load("cifar100", tmp_path, verify=False)
    check_pixels(data.train.x)
    assert data.train.y.tolist() == [0, 99]
    assert data.num_classes == len(set(data.classes)) == 100
    assert list(data.classes) == sorted(data.classes)


def test_python_layouts(tmp_path):
    write_python(tmp_path, CIFAR10_LAYOUTS[1], b"labels", [0, 9])
    write_python(tmp_path, CIFAR100_LAYOUTS[0], b"fine_labels", [5, 99])
    ten, hundred = (load(name, tmp_path, verify=False) for name in ("cifar10", "cifar100"))
    check_pixels(ten.train.x)
    check_pixels(hundred.test.x)
    assert ten.train.y.tolist() == [0, 9] * 5
    assert hundred.test.y.tolist() == [5, 99]


def test_malicious_batch_is_refused_by_the_loader(tmp_path):
    folder = write_python(tmp_path, CIFAR10_LAYOUTS[1], b"labels", [0, 9])
    (folder / "data_batch_3").write_bytes(pickle.dumps(print))
    with pytest.raises(DataError, match="data_batch_3: refused"):
        load("cifar10", tmp_path, verify=False)


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("cifar10", write_binary10, "data_batch_1.bin: expected sha256:cee91656"),
        ("cifar100", write_binary100, "train.bin: expected bytes:153700000, found bytes:6148"),
    ],
)
def test_verified_by_default(tmp_path, name, write, message):
    write(tmp_path)
    with pytest.raises(DataError, match=message):
        load(name, tmp_path)


def test_python_layout_is_verified_before_it_is_read(tmp_path):
    folder = write_python(tmp_path, CIFAR10_LAYOUTS[1], b"labels", [0, 9])
    found = hashlib.md5((folder / "data_batch_1").read_bytes()).hexdigest()
    with pytest.raises(DataError, match=f"expected md5:c99cafc1.*found md5:{found}"):
        load("cifar10", tmp_path)


def test_every_layout_names_its_digests():
    for layout in (*CIFAR10_LAYOUTS, *CIFAR100_LAYOUTS):
        for digest in (*layout.train.values(), *layout.test.values()):
            kind, _, value = digest.partition(":")
            assert len(value) == {"sha256": 64, "md5": 32, "bytes": len(value)}[kind]


def test_truncated_file(tmp_path):
    folder = write_binary10(tmp_path)
    (folder / "test_batch.bin").write_bytes(cifar_record([[1]])[:-1])
    with pytest.raises(DataError, match=r"test_batch.bin: truncated; .*3073-byte records, found 3072 bytes"):
        load("cifar10", tmp_path, verify=False)
    (folder / "test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError, match="found 0 bytes"):
        load("cifar10", tmp_path, verify=False)


def test_label_out_of_range(tmp_path):
    write_binary10(tmp_path, labels=(0, 10))
    with pytest.raises(DataError, match=r"data_batch_1.bin: expected labels from 0 to 9, found 10"):
        load("cifar10", tmp_path, verify=False)


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match="adiw data get cifar100"):
        load("cifar100", tmp_path)
    folder = write_binary10(tmp_path)
    (folder / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"has no data_batch_2.bin; run `adiw data get cifar10`, or put it there"):
        load("cifar10", tmp_path)


PATH = Path("data_batch_1")
RAN: list[str] = []


def record() -> str:
    RAN.append("ran")
    return "x"


class Malicious:
    """Unpickling it with the standard reader calls a function."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


def read(payload):
    return read_pickle(payload, PATH, b"labels")


def batch(**changes):
    content = {b"data": cifar_pixels(3), b"labels": [2, 0, 1], b"batch_label": b"training batch 1 of 5"}
    return content | {key.encode(): value for key, value in changes.items()}


def python2(value):
    file = io.BytesIO()
    Python2Pickler(file, 2).dump(value)
    return file.getvalue()


@pytest.mark.parametrize("dump", [python2, lambda value: pickle.dumps(value, 2), lambda v: pickle.dumps(v, 4)])
def test_batches_are_read(dump):
    x, y = read(dump(batch()))
    assert np.array_equal(x.reshape(3, 3072).numpy(), cifar_pixels(3))
    assert y.tolist() == [2, 0, 1]
    assert y.dtype == torch.int64


def test_column_major_arrays_are_read():
    x, _ = read(python2(batch(data=np.asfortranarray(cifar_pixels(3)))))
    assert np.array_equal(x.reshape(3, 3072).numpy(), cifar_pixels(3))


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("key", ["data", "labels", "extra"])
def test_malicious_batches_are_refused_and_nothing_runs(key, protocol):
    payload = pickle.dumps(batch(**{key: Malicious(record)}), protocol)
    pickle.loads(payload)
    assert RAN.pop() == "ran"  # the attack works on the standard reader
    with pytest.raises(DataError, match=r"data_batch_1: refused.*names tests.*record"):
        read(payload)
    assert RAN == []


@pytest.mark.parametrize(
    "payload",
    [
        b"cos\nsystem\n(S'echo hacked'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"(S'echo hacked'\nios\nsystem\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x08f2py.run\x93.",
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nfromfile\n(S'x'\ntR.",
        b"Pid\n.",
        b"\x82\x01.",
    ],
)
def test_known_attacks_are_refused(payload):
    with pytest.raises(DataError, match="refused"):
        read(payload)


def test_only_latin1_may_be_decoded():
    with pytest.raises(DataError, match="encoding 'zlib'"):
        read(b"c_codecs\nencode\n(Vx\nVzlib\ntR.")


@pytest.mark.parametrize(
    "content",
    [
        batch(data=cifar_pixels(3).astype(np.int64)),
        batch(data=cifar_pixels(3)[:, :3000]),
        batch(data=cifar_pixels(3).reshape(3, 3, 32, 32)),
        batch(data=[1, 2, 3]),
        batch(data=np.array([[None]])),
        batch(labels=[0, 1, "2"]),
        batch(labels=[0, 1, 2.5]),
        batch(labels=None),
        batch(labels=[2**70, 0, 0]),
        {b"data": cifar_pixels(3)},
        [1, 2],
        collections.OrderedDict(batch()),
    ],
)
def test_wrong_content_is_refused(content):
    with pytest.raises(DataError, match="data_batch_1: refused"):
        read(pickle.dumps(content, 2))


def test_label_count():
    with pytest.raises(DataError, match="expected 3 labels, one per image, found 2"):
        read(python2(batch(labels=[0, 1])))


@pytest.mark.parametrize("payload", [b"", b"not a pickle", python2(batch())[:-100]])
def test_truncated_or_foreign_files(payload):
    with pytest.raises(DataError, match="data_batch_1: refused"):
        read(payload)
