import gzip
import hashlib
import io
from pathlib import Path

import pytest

from adiw.data import DataError
from adiw.data.digest import check_bytes, check_stream

PAYLOAD = bytes(range(256)) * 8192  # two blocks


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_digests(kind):
    right = f"{kind}:{hashlib.new(kind, PAYLOAD).hexdigest()}"
    check_bytes(PAYLOAD, right, Path("f"))
    with pytest.raises(DataError, match=f"^f: expected {right}, found {kind}:"):
        check_bytes(PAYLOAD[:-1], right, Path("f"))


def test_size():
    check_bytes(PAYLOAD, f"bytes:{len(PAYLOAD)}", Path("f"))
    with pytest.raises(DataError, match="expected bytes:1, found bytes:2"):
        check_bytes(b"ab", "bytes:1", Path("f"))


@pytest.mark.parametrize("damage", [lambda b: b[:-12], lambda b: b"x" + b, lambda b: b[:20] + b"\xff\xff" + b[22:]])
def test_damaged_gzip(damage):
    packed = damage(gzip.compress(PAYLOAD))
    with gzip.open(io.BytesIO(packed)) as stream, pytest.raises(DataError, match=r"f.gz: damaged or truncated"):
        check_stream(stream, "bytes:1", Path("f.gz"))
