"""Folders of images: their layout, broken files and decompression bombs."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path

import pytest

from adiw.data import DataError, imagefolder, load
from tests.data.files import write_folders, write_image


@pytest.mark.parametrize("test", ["val", "test"])
def test_layout(tmp_path, test):
    data = load("imagefolder", path=write_folders(tmp_path, ("bee", "ant"), test), size=8)
    assert data.classes == ("ant", "bee")
    assert data.train.y.tolist() == [0, 0, 1, 1]
    assert [p.parent.name for p in data.train.paths] == ["ant", "ant", "bee", "bee"]
    assert data.test.y.tolist() == [0, 1]
    assert (data.train.train, data.test.train, data.augment) == (True, False, False)
    assert data.input_shape == data.train[0][0].shape == (3, 8, 8)
    assert len(data.mean) == len(data.std) == 3


def test_other_files_do_not_count(tmp_path):
    write_folders(tmp_path)
    (tmp_path / "train" / "notes.txt").write_text("x")
    (tmp_path / "train" / "ant" / "notes.txt").write_text("x")
    (tmp_path / "train" / "ant" / "._1.png").write_text("x")
    (tmp_path / "train" / ".cache").mkdir()
    assert len(load("imagefolder", path=tmp_path).train) == 4


def test_a_class_may_be_absent_from_val(tmp_path):
    write_folders(tmp_path)
    write_image(tmp_path / "train" / "cow" / "1.png")
    data = load("imagefolder", path=tmp_path)
    assert data.num_classes == 3
    assert data.test.y.tolist() == [0, 1]


def test_one_class(tmp_path):
    with pytest.raises(DataError, match=r"train: expected at least two class folders, found \['ant'\]"):
        load("imagefolder", path=write_folders(tmp_path, ("ant",)))


@pytest.mark.parametrize("split", ["train", "val"])
def test_empty_class_folder(tmp_path, split):
    write_folders(tmp_path, ("ant", "bee", "cow"))
    for path in (tmp_path / split / "bee").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=f"{split}/bee: expected images"):
        load("imagefolder", path=tmp_path)


def test_class_only_in_val(tmp_path):
    write_folders(tmp_path)
    write_image(tmp_path / "val" / "wasp" / "1.png")
    with pytest.raises(DataError, match=r"val: found classes that the training set does not have: wasp"):
        load("imagefolder", path=tmp_path)


def test_missing_folders(tmp_path):
    with pytest.raises(DataError, match="expected a folder val/ or test/"):
        load("imagefolder", path=tmp_path)
    (tmp_path / "val").mkdir()
    with pytest.raises(DataError, match="train: expected a folder with one folder per class"):
        load("imagefolder", path=tmp_path)


def test_broken_image_is_named_when_read(tmp_path):
    data = load("imagefolder", path=write_folders(tmp_path))
    data.test.paths[1].write_bytes(b"broken")
    with pytest.raises(DataError, match=r"val/bee/1\.png: expected an image"):
        data.test[1]


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


# A PostScript file with the name of a picture: Pillow would run Ghostscript on it.
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
    with pytest.warns(UserWarning, match="images are excluded") as record:
        data = load("imagefolder", path=folder, size=8, broken="skip")
    assert [p.name for p in data.train.paths if p.name in BAD] == []  # type: ignore[union-attr]
    assert data.train.y.tolist() == [0, 0, 1, 1]
    assert data.test.y.tolist() == [0, 1]
    text = " ".join(str(warning.message) for warning in record)
    assert "5 of 7 images are excluded" in text
    assert all(name in text for name in (*BAD, "text.webp"))
    assert all(data.train[i][0].shape == (3, 8, 8) for i in range(4))


def test_by_default_they_are_refused_when_they_are_read(folder: Path) -> None:
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


def test_a_folder_without_broken_images_gives_no_warning(tmp_path: Path) -> None:
    data = load("imagefolder", path=write_folders(tmp_path, ("ant", "bee")), size=8, broken="skip")
    assert len(data.train) == 4


def test_many_names_are_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imagefolder, "SHOWN", 2)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    with pytest.warns(UserWarning, match="and 3 more"):
        assert imagefolder.exclude_broken(paths) == []


def test_other_choices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="broken must be refuse or skip, got 'ignore'"):
        load("imagefolder", path=write_folders(tmp_path), broken="ignore")
    with pytest.raises(DataError, match="digits does not take broken"):
        load("digits", broken="skip")
