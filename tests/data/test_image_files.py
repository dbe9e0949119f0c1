import pickle

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from adiw.data import DataError, ImageFiles
from tests.data.files import write_image


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


def test_subset_keeps_the_settings(files):
    chosen = files.subset(torch.tensor([2, 0]), torch.tensor([1, 1]))
    assert [path.name for path in chosen.paths] == ["2.png", "0.png"]
    assert chosen.y.tolist() == [1, 1]
    assert (chosen.size, chosen.train) == (16, False)
    with pytest.raises(DataError, match="row numbers from 0 to 2"):
        files.subset(torch.tensor([3]), torch.tensor([0]))


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
