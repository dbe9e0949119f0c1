"""Pictures that a run keeps: which samples, their pixels, and none if the data are not images."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from adiw.data import Data, ImageFiles, Samples
from adiw.experiments.gallery import EACH, LEAST_TRUSTED, SIDE, choose, pictures, write_gallery
from adiw.experiments.run_folder import Folder
from adiw.experiments.settings import resolve
from adiw.experiments.splits import Splits, load_splits
from adiw.shifts import Shifted


def task_of(train: Samples | ImageFiles, true: torch.Tensor | None = None, picture: tuple[int, ...] = ()) -> Splits:
    """Splits with the unshifted training set ``train``."""
    channels = 0 if isinstance(train, Samples) and train.x.dtype == torch.float32 else train.input_shape[0]
    scale = ((0.5,) * channels,) * 2
    data = Data("made", train, train, ("ant", "bee"), *scale, picture=picture)
    keep, none = torch.arange(len(train)), torch.zeros(0, dtype=torch.int64)
    return Splits(data, train, train, train, Shifted(keep, train.y, train.y if true is None else true, none, None))


def grey(n: int) -> Samples:
    """n images of 2 x 3 pixels, each as bright as its index."""
    return Samples(torch.arange(n, dtype=torch.uint8).reshape(n, 1, 1, 1).expand(n, 1, 2, 3), torch.arange(n) % 2)


def ends(folder: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads((folder / "gallery.json").read_text())["ends"]
    return found


def test_the_lowest_and_the_highest_weights_with_their_pixels(tmp_path: Path) -> None:
    task = task_of(grey(100), true=torch.zeros(100, dtype=torch.int64))
    weights = torch.arange(100).flip(0).float()
    weights[:10] = 0  # ties, before the others
    write_gallery(Folder(tmp_path), task, weights, torch.arange(len(weights)))
    found = ends(tmp_path)
    assert found["lowest"] == [*range(10), *range(99, 99 - EACH + 10, -1)]
    assert found["highest"] == list(range(10, 10 + EACH))
    pixels = np.load(tmp_path / "gallery.npy")
    assert (pixels.shape, pixels.dtype) == ((2 * EACH + 100, 2, 3, 1), np.uint8)
    assert pixels[:, 0, 0, 0].tolist() == [i for index in found.values() for i in index]
    assert json.loads((tmp_path / "gallery.json").read_text())["truth_known"]


def test_the_least_trusted_are_those_of_the_audit(tmp_path: Path) -> None:
    task = task_of(grey(4))
    write_gallery(Folder(tmp_path), task, torch.tensor([0.0, 0.0, 1.0, 1.0]), torch.tensor([1, 3, 0]))
    assert ends(tmp_path)["least trusted"] == [1, 3, 0]
    assert not json.loads((tmp_path / "gallery.json").read_text())["truth_known"]  # no label was changed


def test_weights_that_are_not_finite_leave_no_gallery_and_remove_an_old_one(tmp_path: Path) -> None:
    task = task_of(grey(6))
    write_gallery(Folder(tmp_path), task, torch.arange(6.0), torch.arange(6))
    assert {file.name for file in tmp_path.iterdir()} == {"gallery.json", "gallery.npy"}
    broken = torch.tensor([1.0, 2.0, float("nan"), 0.0, 0.0, 0.0])
    write_gallery(Folder(tmp_path), task, broken, torch.arange(6))
    assert list(tmp_path.iterdir()) == []


def test_equal_weights_have_no_ends_but_an_audit(tmp_path: Path) -> None:
    task = task_of(grey(6))
    write_gallery(Folder(tmp_path), task, torch.ones(6), torch.arange(6))
    assert {end: len(index) for end, index in ends(tmp_path).items()} == {"least trusted": 6}


def test_no_sample_is_both_lowest_and_highest() -> None:
    found = choose(torch.tensor([3.0, 1.0, 2.0]), torch.arange(3))
    assert (found["lowest"].tolist(), found["highest"].tolist()) == ([1], [0])


def test_vectors_are_pictures_if_the_data_have_a_picture_shape(tmp_path: Path) -> None:
    x = torch.tensor([[0.0, 1.0, 0.5, 2.0], [1.0, 0.0, 0.0, 0.0]])
    samples = Samples(x, torch.tensor([0, 1]))
    assert pictures(task_of(samples), torch.tensor([0])) is None
    found = pictures(task_of(samples, picture=(1, 2, 2)), torch.tensor([0]))
    assert found is not None
    assert found[..., 0].tolist() == [[[0, 255], [128, 255]]]
    write_gallery(Folder(tmp_path), task_of(samples), torch.tensor([0.0, 1.0]), torch.arange(2))
    assert list(tmp_path.iterdir()) == []


def test_only_the_chosen_image_files_are_decoded_small_and_without_augmentation(tmp_path: Path) -> None:
    for i in range(3):
        Image.new("RGB", (300, 200), (i * 100, 10, 20)).save(tmp_path / f"{i}.png")
    paths = (*(tmp_path / f"{i}.png" for i in range(3)), tmp_path / "missing.png")
    files = ImageFiles(paths, torch.tensor([0, 1, 0, 1]), size=224, train=True)
    found = pictures(task_of(files), torch.tensor([2, 0]))
    assert found is not None
    assert found.shape == (2, SIDE, SIDE, 3)
    assert found[:, 50, 50].tolist() == [[200, 10, 20], [0, 10, 20]]


def test_a_run_on_digits_keeps_pictures(finished: Callable[[str], Path]) -> None:
    folder = finished("adiw-kl")
    pixels, task = np.load(folder / "gallery.npy"), load_splits(resolve({}))
    found = ends(folder)
    assert pixels.shape == (2 * EACH + LEAST_TRUSTED, 8, 8, 1)
    assert isinstance(task.train, Samples)
    np.testing.assert_allclose(pixels[0].reshape(-1) / 255, task.train.x[found["lowest"][0]].numpy(), atol=1 / 255)
    assert json.loads((folder / "classes.json").read_text()) == [str(digit) for digit in range(10)]
    weights = np.load(folder / "weights.npy")
    assert weights[found["lowest"][0]] == weights.min()
    assert set(weights[found["highest"]].tolist()) <= set(np.sort(weights)[-EACH:].tolist())
