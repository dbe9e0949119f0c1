import gzip
import hashlib
import struct

import numpy as np
import pytest
import torch

from adiw.data import DataError
from adiw.data.idx import read_idx
from tests.data.files import idx_bytes

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
        (b"", "magic number 0x00000803"),
        (b"\x89PNG" + bytes(40), "found 0x89504e47"),
        (idx_bytes(ARRAY[0]), "found 0x00000802"),
        (b"\x00\x00\x0d\x03" + idx_bytes(ARRAY)[4:], "found 0x00000d03"),
        (idx_bytes(ARRAY)[:9], "truncated in the header, 9 bytes"),
        (idx_bytes(ARRAY)[:-1], r"truncated; the header says \(2, 3, 4\), that is 24 bytes, found 23"),
        (idx_bytes(ARRAY) + b"x", "too long"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", *[2**32 - 1] * 3), "implausibly large"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 0, 3, 4), "empty"),
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
