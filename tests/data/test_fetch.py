import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from adiw.data import DATASETS, DataError, fetch
from adiw.data.fetch import SOURCES, Source, get
from tests.data.files import idx_bytes, tar_bytes


@pytest.fixture
def tiny_files(web, monkeypatch):
    """A stand-in for fashion-mnist with two one-pixel files, served under /data/."""
    payloads = {name: idx_bytes(np.full((1, 1, 1), i, np.uint8)) for i, name in enumerate(("a", "b"))}
    files = {f"{name}.gz": f"sha256:{hashlib.sha256(payload).hexdigest()}" for name, payload in payloads.items()}
    web.files |= {f"/data/{name}.gz": gzip.compress(payload) for name, payload in payloads.items()}
    monkeypatch.setitem(SOURCES, "fashion-mnist", Source(f"{web.address}/data/", "set", files, archive=False))
    return payloads


@pytest.fixture
def tiny_archive(web, monkeypatch):
    """A stand-in for cifar10: the archive /set.tar.gz with set/x.bin."""
    payload = tar_bytes({"set/x.bin": b"pixels", "set/readme.html": b"read me", "other/y": b"no"})
    web.files["/set.tar.gz"] = payload
    digest = f"md5:{hashlib.md5(payload).hexdigest()}"
    monkeypatch.setitem(SOURCES, "cifar10", Source(web.address, "set", {"set.tar.gz": digest}, archive=True))
    return payload


def test_files_are_fetched_and_only_bad_ones_again(web, tmp_path, tiny_files):
    folder = get("fashion-mnist", tmp_path)
    assert folder == tmp_path / "set"
    assert gzip.decompress((folder / "b.gz").read_bytes()) == tiny_files["b"]
    (folder / "a.gz").write_bytes(b"damaged")
    web.asked.clear()
    get("fashion-mnist", tmp_path)
    assert [path for path, _ in web.asked] == ["/data/a.gz"]
    assert gzip.decompress((folder / "a.gz").read_bytes()) == tiny_files["a"]


def test_wrong_content_is_not_kept(web, tmp_path, tiny_files):
    web.files["/data/b.gz"] = gzip.compress(tiny_files["a"])
    with pytest.raises(DataError, match=r"b\.gz\.part: expected sha256"):
        get("fashion-mnist", tmp_path)
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["a.gz"]


def test_mirror_is_used_and_still_checked(web, tmp_path, tiny_files):
    web.files["/copy/a.gz"] = web.files["/data/a.gz"]
    web.files["/copy/b.gz"] = b"evil"
    with pytest.raises(DataError, match="damaged or truncated"):
        get("fashion-mnist", tmp_path, mirror=f"{web.address}/copy/")
    assert [path for path, _ in web.asked] == ["/copy/a.gz", "/copy/b.gz"]


def test_no_network_says_which_files_go_where(web, tmp_path, tiny_files):
    web.files.clear()
    with pytest.raises(DataError) as caught:
        get("fashion-mnist", tmp_path)
    assert f"put a.gz, b.gz into {tmp_path / 'set'} by hand" in str(caught.value)


def test_archive_is_unpacked(web, tmp_path, tiny_archive):
    seen = []
    folder = get("cifar10", tmp_path, lambda *event: seen.append(event))
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"x.bin": b"pixels", "readme.html": b"read me"}
    assert not (tmp_path / "other").exists()
    assert seen == [("set.tar.gz", len(tiny_archive), len(tiny_archive))]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set", "set.tar.gz"]


def test_archive_put_there_by_hand_is_not_fetched(web, tmp_path, tiny_archive):
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


def test_what_loads_is_not_fetched(web, tmp_path, tiny_archive, monkeypatch):
    monkeypatch.setitem(DATASETS, "cifar10", lambda root, options: None)
    assert get("cifar10", tmp_path) == tmp_path / "set"
    assert web.asked == []


def test_sets_without_a_download(tmp_path):
    with pytest.raises(DataError, match="'digits' is not a download; data sets to get are fashion-mnist, cifar10"):
        get("digits", tmp_path)


def test_sources_are_data_sets_at_their_official_addresses():
    assert set(SOURCES) < set(DATASETS)
    assert SOURCES["cifar100"].files == {"cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85"}
    assert all(source.address.endswith("/") for source in SOURCES.values())


@pytest.mark.skipif(
    not (Path(os.environ.get("ADIW_DATA") or "") / "fashion-mnist").is_dir(),
    reason="ADIW_DATA names no folder with fashion-mnist",
)
def test_real_files_pass_without_a_download(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("nothing should be downloaded")

    monkeypatch.setattr(fetch, "download", refuse)
    root = Path(os.environ["ADIW_DATA"])
    assert get("fashion-mnist", root) == root / "fashion-mnist"
