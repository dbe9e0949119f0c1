"""Digests of official files."""

import hashlib
from pathlib import Path

import pytest

from adiw.data import DataError
from adiw.data.source_files import check_digest

PAYLOAD = bytes(range(256))


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_digests(kind):
    right = f"{kind}:{hashlib.new(kind, PAYLOAD).hexdigest()}"
    check_digest(PAYLOAD, right, Path("f"))
    with pytest.raises(DataError, match=f"^f: expected {right}, found {kind}:"):
        check_digest(PAYLOAD[:-1], right, Path("f"))


def test_size():
    check_digest(PAYLOAD, f"bytes:{len(PAYLOAD)}", Path("f"))
    with pytest.raises(DataError, match="expected bytes:1, found bytes:2"):
        check_digest(b"ab", "bytes:1", Path("f"))
