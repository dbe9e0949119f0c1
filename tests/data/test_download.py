"""Downloads: checked before they are kept, used offline when they are there, unpacked inside their folder."""

import gzip
import hashlib
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from adiw.data import DATASETS, DataError, download
from adiw.data.download import SOURCES, Source, get, retrieve, unpack
from tests.data.files import idx_bytes, tar_bytes
from tests.missing_packages import hide

PAYLOAD = bytes(range(256)) * 4000  # about a megabyte, several chunks
DIGEST = f"sha256:{hashlib.sha256(PAYLOAD).hexdigest()}"


class Recorder:
    """A progress bar that records the bytes shown after every step, and the total."""

    total = 0

    def __init__(self):
        self.shown, self.done, self.closed = [], 0, 0

    def update(self, size):
        self.done += size
        self.shown.append(self.done)

    def reset(self):
        self.done = 0

    def close(self):
        self.closed += 1


@pytest.fixture
def target(tmp_path):
    return tmp_path / "sub" / "file.bin"


@pytest.fixture(autouse=True)
def served(web):
    web.files["/file.bin"] = PAYLOAD


def test_a_file_is_downloaded_with_progress(web, target, capfd):
    bar = Recorder()
    retrieve(f"{web.address}/file.bin", target, DIGEST, "", bar)
    assert target.read_bytes() == PAYLOAD
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert (bar.total, bar.done, bar.closed) == (len(PAYLOAD), len(PAYLOAD), 1)
    assert len(bar.shown) > 3
    assert capfd.readouterr() == ("", "")  # pooch's own remarks are silenced


def test_a_correct_file_needs_no_network(web, target):
    target.parent.mkdir()
    target.write_bytes(PAYLOAD)
    retrieve("http://127.0.0.1:1/file.bin", target, DIGEST, "")
    assert web.asked == []


def test_a_damaged_file_is_replaced(web, target):
    target.parent.mkdir()
    target.write_bytes(b"damaged")
    retrieve(f"{web.address}/file.bin", target, DIGEST, "")
    assert target.read_bytes() == PAYLOAD


def test_a_cut_transfer_leaves_nothing_behind(web, target):
    web.cut_after = 600_000
    with pytest.raises(DataError, match=r"could not download .*file\.bin"):
        retrieve(f"{web.address}/file.bin", target, DIGEST, "try again")
    assert list(target.parent.iterdir()) == []
    web.cut_after = None
    retrieve(f"{web.address}/file.bin", target, DIGEST, "")
    assert target.read_bytes() == PAYLOAD


def test_a_wrong_digest_leaves_nothing_behind(web, target):
    web.files["/file.bin"] = b"something else"
    with pytest.raises(DataError, match=r"expected sha256:.* but got "):
        retrieve(f"{web.address}/file.bin", target, DIGEST, "")
    assert list(target.parent.iterdir()) == []


def test_a_wrong_digest_keeps_the_file_that_was_there(web, target):
    target.parent.mkdir()
    target.write_bytes(b"mine")
    web.files["/file.bin"] = b"something else"
    with pytest.raises(DataError):
        retrieve(f"{web.address}/file.bin", target, DIGEST, "")
    assert target.read_bytes() == b"mine"


def test_errors_name_the_address_and_the_advice(web, target):
    with pytest.raises(DataError, match=rf"could not download {web.address}/none \(.*404.*\); put it there"):
        retrieve(f"{web.address}/none", target, DIGEST, "put it there")
    with socket.socket() as unused:  # bound but not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(DataError, match=r"could not download.*; put it there"):
            retrieve(f"http://127.0.0.1:{unused.getsockname()[1]}/x", target, DIGEST, "put it there")


def test_a_missing_pooch_names_the_extra(target, monkeypatch):
    hide(monkeypatch, "pooch")
    with pytest.raises(ImportError, match=r'pooch.*pip install "adiw\[cli\]"'):
        retrieve("http://127.0.0.1:1/file.bin", target, DIGEST, "")


@pytest.fixture
def tiny_files(web, monkeypatch):
    """A replacement for fashion-mnist with two one-pixel files, served under /data/."""
    payloads = {name: idx_bytes(np.full((1, 1, 1), i, np.uint8)) for i, name in enumerate(("a", "b"))}
    packed = {f"{name}.gz": gzip.compress(payload) for name, payload in payloads.items()}
    files = {name: f"md5:{hashlib.md5(payload).hexdigest()}" for name, payload in packed.items()}
    web.files |= {f"/data/{name}": payload for name, payload in packed.items()}
    monkeypatch.setitem(SOURCES, "fashion-mnist", Source(f"{web.address}/data", "set", files, archive=False))
    return payloads


@pytest.fixture
def tiny_archive(web, monkeypatch):
    """A replacement for cifar10: the archive /set.tar.gz with set/x.bin."""
    payload = tar_bytes({"set/x.bin": b"pixels", "set/readme.html": b"read me", "other/y": b"no"})
    web.files["/set.tar.gz"] = payload
    digest = f"md5:{hashlib.md5(payload).hexdigest()}"
    monkeypatch.setitem(SOURCES, "cifar10", Source(web.address, "set", {"set.tar.gz": digest}, archive=True))
    return payload


def test_only_damaged_files_are_downloaded_again(web, tmp_path, tiny_files):
    folder = get("fashion-mnist", tmp_path)
    assert folder == tmp_path / "set"
    assert gzip.decompress((folder / "b.gz").read_bytes()) == tiny_files["b"]
    (folder / "a.gz").write_bytes(b"damaged")
    web.asked.clear()
    get("fashion-mnist", tmp_path)
    assert web.asked == ["/data/a.gz"]
    assert gzip.decompress((folder / "a.gz").read_bytes()) == tiny_files["a"]


def test_wrong_content_is_not_kept(web, tmp_path, tiny_files):
    web.files["/data/b.gz"] = gzip.compress(tiny_files["a"])
    with pytest.raises(DataError, match=r"b\.gz.* expected md5"):
        get("fashion-mnist", tmp_path)
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["a.gz"]


def test_without_a_network_the_error_names_the_files_and_their_folder(web, tmp_path, tiny_files):
    web.files.clear()
    with pytest.raises(DataError) as caught:
        get("fashion-mnist", tmp_path)
    assert f"put a.gz, b.gz into {tmp_path / 'set'} yourself" in str(caught.value)


def test_an_archive_is_unpacked(web, tmp_path, tiny_archive):
    bar = Recorder()
    folder = get("cifar10", tmp_path, bar)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"x.bin": b"pixels", "readme.html": b"read me"}
    assert not (tmp_path / "other").exists()
    assert (bar.total, bar.done) == (len(tiny_archive), len(tiny_archive))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set", "set.tar.gz"]


def test_an_archive_put_there_by_hand_is_not_downloaded(web, tmp_path, tiny_archive):
    (tmp_path / "set.tar.gz").write_bytes(tiny_archive)
    assert (get("cifar10", tmp_path) / "x.bin").read_bytes() == b"pixels"
    assert web.asked == []


def test_unpacking_replaces_damaged_files_and_keeps_others(tmp_path, tiny_archive, web):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "x.bin").write_bytes(b"damaged")
    (tmp_path / "set" / "mine.txt").write_bytes(b"mine")
    folder = get("cifar10", tmp_path)
    assert (folder / "x.bin").read_bytes() == b"pixels"
    assert (folder / "mine.txt").read_bytes() == b"mine"


def test_a_data_set_that_loads_is_not_downloaded(web, tmp_path, tiny_archive, monkeypatch):
    monkeypatch.setitem(DATASETS, "cifar10", lambda root: None)
    assert get("cifar10", tmp_path) == tmp_path / "set"
    assert web.asked == []


def test_data_sets_without_a_download(tmp_path):
    with pytest.raises(DataError, match="'digits' is not a download; the data sets to download are fashion-mnist, c"):
        get("digits", tmp_path)


def test_sources_are_data_sets_at_their_official_addresses():
    assert set(SOURCES) < set(DATASETS)
    assert SOURCES["cifar100"].files == {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"}
    assert not any(source.address.endswith("/") for source in SOURCES.values())


@pytest.mark.skipif(
    not (Path(os.environ.get("ADIW_DATA") or "") / "fashion-mnist").is_dir(),
    reason="ADIW_DATA names no folder with fashion-mnist",
)
def test_real_files_pass_without_a_download(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("nothing should be downloaded")

    monkeypatch.setattr(download, "retrieve", refuse)
    root = Path(os.environ["ADIW_DATA"])
    assert get("fashion-mnist", root) == root / "fashion-mnist"


@pytest.mark.parametrize("name", ["../escaped", "set/../../escaped"])
def test_members_that_escape_are_refused(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    archive = tmp_path / "bad.tar.gz"
    archive.write_bytes(tar_bytes({"set/good": b"x", name: b"evil"}))
    with pytest.raises(DataError, match=r"bad\.tar\.gz: refused"):
        unpack(archive, root, "set")
    assert list(root.iterdir()) == []
    assert not (tmp_path / "escaped").exists()


def test_absolute_members_stay_inside(tmp_path):
    archive = tmp_path / "bad.tar.gz"
    archive.write_bytes(tar_bytes({"set/good": b"x", f"{tmp_path}/escaped": b"evil"}))
    unpack(archive, tmp_path, "set")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar.gz", "set"]


@pytest.mark.parametrize("link", ["../../outside", "/etc/passwd"])
def test_links_that_escape_are_refused(tmp_path, link):
    archive = tmp_path / "bad.tar.gz"
    archive.write_bytes(tar_bytes({"set/good": b"x"}, link))
    with pytest.raises(DataError, match="refused"):
        unpack(archive, tmp_path, "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    "payload",
    [b"", b"no archive", tar_bytes({"set/x": bytes(9999)})[:-30], tar_bytes({"a": b""})],
    ids=["empty", "text", "cut", "other"],
)
def test_damaged_or_foreign_archives(tmp_path, payload):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(payload)
    with pytest.raises(DataError, match=r"a\.tar\.gz: "):
        unpack(archive, tmp_path, "set")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]
