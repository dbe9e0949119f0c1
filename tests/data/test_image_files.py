"""Image files: decoding, crops, and the data set made of them."""

import io
import pickle
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from adiw.data import DataError, ImageFiles, image_files
from tests.data.files import write_image
from tests.missing_packages import hide


def test_modes_become_rgb(tmp_path):
    for mode in ("L", "P", "RGBA", "CMYK", "1", "LA"):
        path = tmp_path / f"{mode}.tif"
        Image.new(mode, (4, 3)).save(path)
        assert image_files.read_image(path).mode == "RGB"


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
        image_files.read_image(path)


def test_bombs_are_refused_when_pillows_own_limit_is_off(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(60_000, 60_000))
    with pytest.raises(DataError, match="found 60000 x 60000"):
        image_files.read_image(path)


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
        image_files.read_image(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.png"):
        image_files.read_image(tmp_path / "gone.png")


def test_missing_pillow_names_the_extra(tmp_path, monkeypatch):
    hide(monkeypatch, "pillow")
    with pytest.raises(ImportError, match=r'pillow.*pip install "adiw\[cli\]"'):
        ImageFiles((tmp_path / "any.png",), torch.tensor([0]))


def test_random_boxes_stay_inside_and_keep_their_law():
    torch.manual_seed(0)
    boxes = [image_files.random_box(64, 48) for _ in range(2000)]
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
    assert image_files.random_box(1000, 1) == image_files.centre_box(1000, 1)


def test_to_tensor_keeps_channels_and_flips(tmp_path):
    path = tmp_path / "a.png"
    write_image(path, (200, 100, 50), (8, 8))
    image = image_files.read_image(path)
    image.paste((0, 0, 0), (4, 0, 8, 8))  # the right half is black
    plain = image_files.to_tensor(image, (0, 0, 8, 8), 8, flip=False)
    assert plain[:, 0, 0].tolist() == [200, 100, 50]
    assert plain[:, 0, 7].tolist() == [0, 0, 0]
    assert torch.equal(image_files.to_tensor(image, (0, 0, 8, 8), 8, flip=True), plain.flip(2))


@pytest.fixture
def files(tmp_path):
    colours = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, colour in zip(paths, colours, strict=True):
        write_image(path, colour, (30, 20))
    return ImageFiles(tuple(paths), torch.tensor([0, 1, 1]), size=16)


def test_items(files):
    x, y = files[1]
    assert x.shape == files.input_shape == (3, 16, 16)
    assert x.dtype == torch.uint8
    assert x.float().mean((1, 2)).tolist() == [0, 250, 0]
    assert y.item() == 1
    assert len(files) == 3


def test_test_crop_is_the_centre(tmp_path):
    image = Image.new("RGB", (32, 16))
    image.paste((255, 255, 255), (8, 0, 24, 16))  # white only in the central square
    image.save(tmp_path / "a.png")
    x, _ = ImageFiles((tmp_path / "a.png",), torch.tensor([0]), size=14)[0]
    assert x.min() == 255


def test_training_crops_vary_with_torchs_seed_only(tmp_path):
    gradient = Image.linear_gradient("L").resize((64, 64)).rotate(45)
    gradient.save(tmp_path / "a.png")
    train = ImageFiles((tmp_path / "a.png",), torch.tensor([0]), size=16, train=True)
    torch.manual_seed(0)
    first, second = train[0][0], train[0][0]
    torch.manual_seed(0)
    assert torch.equal(train[0][0], first)
    assert not torch.equal(first, second)


def test_without_augmentation_training_has_the_crops_of_testing(tmp_path):
    Image.linear_gradient("L").resize((64, 64)).rotate(45).save(tmp_path / "a.png")
    test = ImageFiles((tmp_path / "a.png",), torch.tensor([0]), size=16)
    train = replace(test, train=True, augment=False)
    before = torch.get_rng_state()
    assert torch.equal(train[0][0], test[0][0])
    assert torch.equal(torch.get_rng_state(), before)


def test_subset_keeps_the_settings(files):
    chosen = files.subset(torch.tensor([2, 0]), torch.tensor([1, 1]))
    assert [path.name for path in chosen.paths] == ["2.png", "0.png"]
    assert chosen.y.tolist() == [1, 1]
    assert (chosen.size, chosen.train) == (16, False)
    assert files.subset(torch.tensor([2])).y.tolist() == files.y[2:].tolist()


def test_loader_batches_and_names_broken_files(files):
    (batch,) = DataLoader(files, batch_size=3)
    assert batch[0].shape == (3, 3, 16, 16)
    files.paths[2].write_bytes(b"broken")
    with pytest.raises(DataError, match=r"2\.png: expected an image"):
        list(DataLoader(files, batch_size=3))


def test_error_survives_the_way_from_a_worker():
    error = pickle.loads(pickle.dumps(DataError("a.png: broken")))
    assert isinstance(error, DataError)
    assert str(error) == "a.png: broken"


def test_bad_arguments(files):
    with pytest.raises(DataError, match=r"shape \(3,\)"):
        ImageFiles(files.paths, torch.tensor([0]))
    with pytest.raises(DataError, match="at least 1 pixel"):
        ImageFiles(files.paths, files.y, size=0)
