"""Broken images and bombs in a folder: refused when they are met, or named and left out, as one chooses."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path

import pytest

from adiw.data import DataError, broken, load
from tests.data.files import write_folders, write_image


def png(width: int, height: int) -> bytes:
    """A PNG that claims this size and holds next to nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(10_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def truncated_jpeg(folder: Path) -> bytes:
    whole = folder / "whole.jpg"
    write_image(whole, size=(64, 64))
    payload = whole.read_bytes()
    whole.unlink()
    return payload[: len(payload) // 2]


# A file that asks Pillow to run Ghostscript, under the name of a picture.
POSTSCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(marker) (w) file closefile\nshowpage\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folders(tmp_path, ("ant", "bee"))
    ant = tmp_path / "train" / "ant"
    (ant / "bomb.png").write_bytes(png(30_000, 30_000))
    (ant / "claims.png").write_bytes(png(2**31 - 1, 2**31 - 1))
    (ant / "cut.jpg").write_bytes(truncated_jpeg(tmp_path))
    (ant / "empty.png").write_bytes(b"")
    (ant / "script.jpg").write_bytes(POSTSCRIPT)
    (tmp_path / "val" / "bee" / "text.webp").write_bytes(b"no picture")
    return tmp_path


BAD = {"bomb.png", "claims.png", "cut.jpg", "empty.png", "script.jpg"}


def test_skipped_images_are_named_and_the_others_stay(folder: Path) -> None:
    with pytest.warns(UserWarning, match="images were left out") as record:
        data = load("imagefolder", path=folder, size=8, broken="skip")
    assert [p.name for p in data.train.paths if p.name in BAD] == []  # type: ignore[union-attr]
    assert data.train.y.tolist() == [0, 0, 1, 1]
    assert data.test.y.tolist() == [0, 1]
    text = " ".join(str(warning.message) for warning in record)
    assert "5 of 7 images were left out" in text
    assert all(name in text for name in (*BAD, "text.webp"))
    assert all(data.train[i][0].shape == (3, 8, 8) for i in range(4))


def test_without_the_choice_they_are_refused_when_they_are_met(folder: Path) -> None:
    data = load("imagefolder", path=folder, size=8)
    assert len(data.train) == 9
    for position, path in enumerate(data.train.paths):  # type: ignore[union-attr]
        if path.name in BAD:
            with warnings.catch_warnings(), pytest.raises(DataError, match=path.name):
                data.train[position]


def test_a_class_of_broken_images_only_is_an_error(tmp_path: Path) -> None:
    write_folders(tmp_path, ("ant", "bee"))
    for path in (tmp_path / "train" / "bee").iterdir():
        path.write_bytes(b"")
    with pytest.warns(UserWarning, match="2 of 2 images"), pytest.raises(DataError, match="bee: expected images"):
        load("imagefolder", path=tmp_path, broken="skip")


def test_a_sound_folder_warns_of_nothing(tmp_path: Path) -> None:
    data = load("imagefolder", path=write_folders(tmp_path, ("ant", "bee")), size=8, broken="skip")
    assert len(data.train) == 4


def test_many_names_are_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken, "SHOWN", 2)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    with pytest.warns(UserWarning, match="and 3 more"):
        assert broken.leave_out_broken(paths) == []


def test_other_choices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="broken must be refuse or skip, got 'ignore'"):
        load("imagefolder", path=write_folders(tmp_path), broken="ignore")
    with pytest.raises(DataError, match="digits does not take broken"):
        load("digits", broken="skip")
