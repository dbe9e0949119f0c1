"""``check_data``: each fault of a data set is found, and a sound one raises no warning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from adiw.data import Samples
from adiw.data.image_files import read_image
from adiw.experiments import data_check
from adiw.experiments.data_check import Finding, check_data, features
from adiw.experiments.settings import resolve
from adiw.experiments.splits import Splits, load_splits
from adiw.reweighting.diagnostics import quick_model
from tests.cli.images import write_images


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (quick_model, data_check):
        monkeypatch.setattr(module, "CHECKS", (100,))


def splits(**given: object) -> Splits:
    return load_splits(resolve({"trusted": 120, **given}))


def findings(data: Splits, hold_out: float = 0.3) -> dict[str, Finding]:
    return {each.name: each for each in check_data(data, hold_out, 0)}


def test_a_sound_data_set_has_no_warning_but_that_of_few_samples() -> None:
    found = findings(splits(shift="none"))
    assert list(found) == ["class mix", "duplicates", "inputs", "labels", "trusted samples"]
    assert [name for name, each in found.items() if each.warns] == ["trusted samples"]
    assert "would be seen with about" in found["labels"].sentence


def test_each_step_of_the_quick_models_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    check_data(splits(shift="none"), 0.3, 0, lambda *progress: seen.append(progress))
    assert seen == [("quick model, step", step, 200) for step in range(1, 201)]


def test_image_files_are_reported_as_they_are_read(tmp_path: Path) -> None:
    write_images(tmp_path)
    data, seen = splits(dataset="imagefolder", path=str(tmp_path), trusted=6), []
    check_data(data, 0.3, 0, lambda *progress: seen.append(progress))
    sizes = [int((~data.is_trusted).sum()), 6]
    reading = [("reading, image", done, size) for size in sizes for done in range(1, size + 1)]
    comparing = [("comparing, image", done, size) for size in sizes[::-1] for done in range(1, size + 1)]
    steps = [("quick model, step", step, 200) for step in range(1, 201)]
    assert seen == reading + steps + comparing


def test_image_files_are_compared_without_augmentation(tmp_path: Path) -> None:
    """Random crops of the training images alone would be a difference of the inputs."""
    write_images(tmp_path)
    data, found = splits(dataset="imagefolder", path=str(tmp_path), trusted=6), []
    for seed in range(2):
        torch.manual_seed(seed)
        found.append(check_data(data, 0.3, 0))
    assert found[0] == found[1]


def test_small_images_are_reported_with_what_to_set(tmp_path: Path) -> None:
    write_images(tmp_path)
    given = {"dataset": "imagefolder", "path": str(tmp_path), "trusted": 6}
    side = min(read_image(next((tmp_path / "train").rglob("*.png"))).size)
    small = findings(splits(**given))["small images"]
    assert small.warns
    assert f"images of {side} pixels are enlarged to 224: --image-size {side} trains" in small.sentence
    assert "--no-augment" in small.sentence
    assert "--no-augment" not in findings(splits(**given, augment=False))["small images"].sentence
    assert "small images" not in findings(splits(**given, image_size=2 * side))


def test_wrong_labels_are_found_and_nothing_else() -> None:
    found = findings(splits(shift="symmetric:0.4"))
    assert [name for name, each in found.items() if each.warns] == ["labels", "trusted samples"]
    assert found["labels"].figures["p_value"] < 1e-3


def test_the_advice_says_which_labels_fit_less_well() -> None:
    data = splits(shift="symmetric:0.4")
    assert "some training labels are probably wrong" in findings(data)["labels"].sentence
    clean = splits(shift="none")
    wrong = replace(clean.trusted, y=(clean.trusted.y + 1) % 10)
    found = findings(replace(clean, trusted=wrong))["labels"]
    assert found.warns
    assert "trusted labels fit less well than the others" in found.sentence


def test_another_class_mix_is_found() -> None:
    found = findings(splits(shift="class-prior:0.2,5", trusted=None))
    assert found["class mix"].warns
    assert len(found["class mix"].figures["train"]) == 10
    assert sum(found["class mix"].figures["trusted"]) == pytest.approx(100)


def test_missing_classes_are_named() -> None:
    data = splits(shift="none")
    kept = (data.trusted.y != 3).nonzero().flatten()
    found = findings(replace(data, trusted=data.trusted.subset(kept, data.trusted.y[kept])))
    assert found["class mix"].sentence.startswith("no trusted sample is of class 3: add trusted samples")
    assert found["class mix"].figures["missing"] == ["3"]


def test_other_inputs_are_found() -> None:
    data = splits(shift="none")
    assert isinstance(data.trusted, Samples)
    brighter = Samples((data.trusted.x + 0.3).clamp(0, 1.3), data.trusted.y)
    assert findings(replace(data, trusted=brighter))["inputs"].warns


def with_rows(train: torch.Tensor, trusted: torch.Tensor) -> Splits:
    """Splits with these rows, of random labels."""
    data, draw = splits(shift="none"), torch.Generator().manual_seed(0)
    both = torch.cat([trusted, train])
    shifted = replace(data.shifted, trusted=torch.arange(len(trusted)))
    samples = Samples(both, torch.randint(10, (len(both),), generator=draw))
    return replace(data, train=samples, trusted=samples.subset(torch.arange(len(trusted))), shifted=shifted)


@pytest.mark.parametrize("seed", range(3))
def test_equal_rows_are_not_other_inputs(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = (torch.rand(1400, 3, generator=draw) < torch.tensor([0.5, 0.2, 0.7])).float()  # eight different ones
    found = findings(with_rows(rows[300:], rows[:300]))["inputs"]
    assert not found.warns
    assert found.figures["distance"] < 0.08  # the p-value is 0.09


def test_rows_that_all_have_a_twin_are_not_other_inputs() -> None:
    """A held-out trusted row looks like the training row that the quick model has seen, and the other way round."""
    rows = torch.randn(150, 10, generator=torch.Generator().manual_seed(0))
    found = findings(with_rows(rows, rows))["inputs"]
    assert found.figures["distance"] > 0.3
    assert not found.warns


def test_copies_of_trusted_samples_are_counted() -> None:
    data = splits(shift="none")
    assert isinstance(data.train, Samples)
    assert isinstance(data.trusted, Samples)
    others = torch.ones(len(data.train), dtype=torch.bool)
    others[data.shifted.trusted] = False
    rows = others.nonzero().flatten()[:5]
    x, y = data.train.x.clone(), data.train.y.clone()
    x[rows], y[rows] = data.trusted.x[:5], data.trusted.y[:5]
    y[rows[:2]] = (y[rows[:2]] + 1) % 10
    found = findings(replace(data, train=Samples(x, y)))["duplicates"]
    assert found.figures == {"copies": 5, "other_label": 2}
    assert found.sentence.startswith("5 training samples repeat a trusted sample exactly, 2 with another label: ")
    x[rows[1:]] += 1
    found = findings(replace(data, train=Samples(x, y)))["duplicates"]
    assert found.sentence.startswith("1 training sample repeats a trusted sample exactly, 1 with another label: ")


@pytest.mark.parametrize(
    ("trusted", "held_out", "warns", "words"),
    [
        (50, 0, True, "none of 50 is held out, as 30% would be fewer than 20. Held-out samples needed: "),
        (120, 36, True, "36 of 120 are held out, too few to show a gain of 20 points over another method. "),
        (900, 270, False, "270 of 900 are held out, enough to show a gain of 10 points over another method. "),
    ],
)
def test_how_many_trusted_samples_are_enough(trusted: int, held_out: int, warns: bool, words: str) -> None:
    found = findings(splits(shift="none", trusted=trusted))["trusted samples"]
    assert found.warns == warns
    assert found.figures["held_out"] == held_out
    assert found.sentence.startswith(words)
    assert found.figures["needed"]["20"] < found.figures["needed"]["2"]


def test_images_are_reduced(tmp_path: Path) -> None:
    images = Samples(torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8), torch.tensor([0, 1, 2]))
    assert features(images).shape == (3, 3 * 8 * 8)
    assert features(images)[0, 0] == pytest.approx(float(images.x[0, 0, :4, :4].float().mean()))
