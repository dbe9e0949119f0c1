import pytest

from adiw.data import DataError
from adiw.data.unpack import unpack
from tests.data.files import tar_bytes


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
