"""The reader of Python batches: official-looking ones are read, anything else is refused and never run."""

import collections
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from adiw.data import DataError
from adiw.data.cifar_pickle import read_pickle
from tests.data.files import Python2Pickler, cifar_pixels

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
