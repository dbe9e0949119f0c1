import io
import sys
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from adiw.data import DataError, decode
from tests.data.files import write_image


def test_modes_become_rgb(tmp_path):
    for mode in ("L", "P", "RGBA", "CMYK", "1", "LA"):
        path = tmp_path / f"{mode}.tif"
        Image.new(mode, (4, 3)).save(path)
        assert decode.read_image(path).mode == "RGB"


def png_header(width, height):
    """A PNG that claims a size and ends there."""

    def chunk(kind, body):
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\x00\x00\x00"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_000, 9_500, 60_000])  # our limit, Pillow's warning, Pillow's error
def test_decompression_bombs_are_refused_by_name(tmp_path, side):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(side, side))
    with pytest.raises(DataError, match=r"bomb\.png: expected an image of at most 80,000,000 pixels"):
        decode.read_image(path)


def test_bombs_are_refused_when_pillows_own_limit_is_off(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(60_000, 60_000))
    with pytest.raises(DataError, match="found 60000 x 60000"):
        decode.read_image(path)


def noise_png():
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("payload", [b"", b"not an image", noise_png()[:2000], noise_png()[:20]])
def test_broken_images_are_named(tmp_path, payload):
    path = tmp_path / "broken.png"
    path.write_bytes(payload)
    with pytest.raises(DataError, match=r"broken\.png: expected an image, found a file that cannot be decoded"):
        decode.read_image(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.png"):
        decode.read_image(tmp_path / "gone.png")


def test_missing_pillow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r'Pillow.*pip install "adiw\[cli\]"'):
        decode.read_image(tmp_path / "any.png")


def test_random_boxes_stay_inside_and_keep_their_law():
    torch.manual_seed(0)
    boxes = [decode.random_box(64, 48) for _ in range(2000)]
    left, upper, right, lower = torch.tensor(boxes, dtype=torch.float64).T
    width, height = right - left, lower - upper
    assert left.min() >= 0
    assert upper.min() >= 0
    assert right.max() <= 64
    assert lower.max() <= 48
    area, ratio = width * height / (64 * 48), width / height
    assert area.min() > 0.0799
    assert area.min() < 0.1  # the law's small end is reached
    assert area.max() > 0.9
    assert ratio.min() > 0.7499
    assert ratio.max() < 1.3334


def test_random_box_of_a_sliver_falls_back_to_the_centre():
    torch.manual_seed(0)
    assert decode.random_box(1000, 1) == decode.centre_box(1000, 1)


def test_to_tensor_keeps_channels_and_flips(tmp_path):
    path = tmp_path / "a.png"
    write_image(path, (200, 100, 50), (8, 8))
    image = decode.read_image(path)
    image.paste((0, 0, 0), (4, 0, 8, 8))  # the right half is black
    plain = decode.to_tensor(image, (0, 0, 8, 8), 8, flip=False)
    assert plain[:, 0, 0].tolist() == [200, 100, 50]
    assert plain[:, 0, 7].tolist() == [0, 0, 0]
    assert torch.equal(decode.to_tensor(image, (0, 0, 8, 8), 8, flip=True), plain.flip(2))
