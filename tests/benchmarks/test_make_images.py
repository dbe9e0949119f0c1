"""Generated images are read as an image folder, and their classes differ."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from adiw.data import load

pytest.importorskip("PIL", reason="pictures need the extra adiw[cli]")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "make_images.py"


def make(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_folder_of_classes_that_differ(tmp_path: Path) -> None:
    done = make(24, 3, tmp_path / "images", "--size", "64x48")
    assert done.returncode == 0, done.stderr
    data = load("imagefolder", path=tmp_path / "images", size=32)
    assert (len(data.train), len(data.test), data.num_classes) == (24, 3, 3)
    assert data.train.y.bincount().tolist() == [8, 8, 8]
    colours = torch.stack([x.float().mean((1, 2)) for x, _ in data.train])
    centres = torch.stack([colours[data.train.y == label].mean(0) for label in range(3)])
    assert torch.equal(torch.cdist(colours, centres).argmin(1), data.train.y)
    pictures = {x.numpy().tobytes() for x, _ in data.test}
    assert len(pictures) == 3


def test_pictures_have_the_usual_size_and_do_not_depend_on_the_processes(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("first", "second"):
        assert make(2, 2, tmp_path / name).returncode == 0
    first, second = (sorted((tmp_path / name).rglob("*.jpg")) for name in ("first", "second"))
    assert [file.relative_to(tmp_path / "first").as_posix() for file in first] == [
        "train/class-0000/000000.jpg",
        "train/class-0001/000000.jpg",
        "val/class-0000/000000.jpg",
        "val/class-0001/000000.jpg",
    ]
    contents = [file.read_bytes() for file in first]
    assert contents == [file.read_bytes() for file in second]
    assert len(set(contents)) == 4
    with Image.open(first[0]) as image:
        assert (image.size, image.format) == ((500, 375), "JPEG")


@pytest.mark.parametrize(("arguments", "message"), [((5, 1), "2 classes or more"), ((2, 3), "an image of each")])
def test_too_few(tmp_path: Path, arguments: tuple[int, int], message: str) -> None:
    done = make(*arguments, tmp_path / "images")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "images").exists()


def test_a_size_that_is_none(tmp_path: Path) -> None:
    done = make(4, 2, tmp_path / "images", "--size", "big")
    assert done.returncode == 2
    assert "--size" in done.stderr
