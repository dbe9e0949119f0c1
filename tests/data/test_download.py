import hashlib
import socket

import pytest

from adiw.data import DataError
from adiw.data.digest import check_bytes
from adiw.data.download import download

PAYLOAD = bytes(range(256)) * 4000  # about a megabyte, several blocks
DIGEST = f"sha256:{hashlib.sha256(PAYLOAD).hexdigest()}"


def check(path):
    check_bytes(path.read_bytes(), DIGEST, path)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "sub" / "file.bin"


@pytest.fixture(autouse=True)
def served(web):
    web.files["/file.bin"] = PAYLOAD


def part(target):
    return target.with_name("file.bin.part")


def test_download_with_progress(web, target):
    seen = []
    download(f"{web.address}/file.bin", target, check, lambda *event: seen.append(event))
    assert target.read_bytes() == PAYLOAD
    assert not part(target).exists()
    assert seen[-1] == ("file.bin", len(PAYLOAD), len(PAYLOAD))
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})


def test_resume_after_a_cut(web, target):
    web.cut_after = 600_000
    with pytest.raises(DataError, match=r"cut after 600000 of 1024000 bytes; run it again to resume"):
        download(f"{web.address}/file.bin", target, check)
    assert not target.exists()
    assert part(target).stat().st_size == 600_000
    web.cut_after = None
    seen = []
    download(f"{web.address}/file.bin", target, check, lambda *event: seen.append(event))
    assert web.asked[-1] == ("/file.bin", "bytes=600000-")
    assert seen[0][1] > 600_000
    assert seen[-1][1:] == (len(PAYLOAD), len(PAYLOAD))
    assert target.read_bytes() == PAYLOAD


def test_server_that_cannot_resume_sends_all_of_it(web, target):
    target.parent.mkdir()
    part(target).write_bytes(b"old bytes")
    web.resumes = False
    download(f"{web.address}/file.bin", target, check)
    assert target.read_bytes() == PAYLOAD


def test_complete_part_is_only_checked(web, target):
    target.parent.mkdir()
    part(target).write_bytes(PAYLOAD)
    download(f"{web.address}/file.bin", target, check)
    assert target.read_bytes() == PAYLOAD


def test_wrong_digest_keeps_nothing(web, target):
    web.files["/file.bin"] = b"something else"
    with pytest.raises(DataError, match=r"expected sha256:.* found sha256:"):
        download(f"{web.address}/file.bin", target, check)
    assert list(target.parent.iterdir()) == []


def test_wrong_digest_keeps_the_file_that_was_there(web, target):
    target.parent.mkdir()
    target.write_bytes(b"mine")
    web.files["/file.bin"] = b"something else"
    with pytest.raises(DataError):
        download(f"{web.address}/file.bin", target, check)
    assert target.read_bytes() == b"mine"


def test_errors_name_the_address_and_the_advice(web, target):
    with pytest.raises(DataError, match=rf"could not download {web.address}/none \(.*404.*\); ask around"):
        download(f"{web.address}/none", target, check, advice="ask around")
    with socket.socket() as unused:  # bound but not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(DataError, match=r"could not download.*; ask around"):
            download(f"http://127.0.0.1:{unused.getsockname()[1]}/x", target, check, advice="ask around")


def test_only_web_addresses(tmp_path, target):
    with pytest.raises(DataError, match="http://"):
        download(tmp_path.as_uri(), target, check)
