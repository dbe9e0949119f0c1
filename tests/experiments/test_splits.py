"""The data of a run: held-out samples, trusted samples, and their labels."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adiw.data import DataError, ImageFiles, Samples, load
from adiw.engine.train_loader import epoch_generator
from adiw.experiments.settings import SettingsError, resolve
from adiw.experiments.splits import Splits, load_splits, small_side, with_augmentation, without_augmentation
from tests.data.files import write_image
from tests.experiments.tables import write_table


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(write_table(tmp_path / "table.csv", rows=300))


def numbers(samples: Samples | ImageFiles) -> list[float]:
    """The first column of the table, which identifies a sample."""
    assert isinstance(samples, Samples)
    found: list[float] = samples.x[:, 0].tolist()
    return found


def truth(table: str) -> dict[float, int]:
    """The true label of each sample by its number."""
    train = load("csv", path=table).train
    return dict(zip(numbers(train), train.y.tolist(), strict=True))


def csv_splits(table: str, **given: object) -> Splits:
    return load_splits(resolve({"dataset": "csv", "path": table, "trusted": 60, "shift": "symmetric:0.5", **given}))


def test_trusted_samples_are_training_samples_under_their_true_labels(table: str) -> None:
    splits = csv_splits(table)
    true = truth(table)
    assert len(splits.trusted) == 60
    assert splits.trusted.y.tolist() == [true[number] for number in numbers(splits.trusted)]
    positions = splits.shifted.trusted.tolist()
    assert [numbers(splits.train)[i] for i in positions] == numbers(splits.trusted)
    wrong = [
        label != true[number] for number, label in zip(numbers(splits.train), splits.train.y.tolist(), strict=True)
    ]
    assert wrong == splits.shifted.flipped.tolist()
    assert 70 <= sum(wrong) <= 110  # half of the 180 that are not trusted, within three standard deviations
    assert splits.truth_known


def test_the_selection_split_is_disjoint_from_training_and_true(table: str) -> None:
    splits, true = csv_splits(table, selection=50), truth(table)
    held_out, seen = set(numbers(splits.test)), set(numbers(splits.train))
    assert (len(held_out), len(seen)) == (50, 190)
    assert not held_out & seen
    assert held_out | seen == set(true)
    assert not held_out & set(numbers(splits.trusted))
    assert splits.test.y.tolist() == [true[number] for number in numbers(splits.test)]
    loaded = numbers(load("csv", path=table).train)
    assert [loaded[position] for position in splits.shifted.keep.tolist()] == numbers(splits.train)


def test_without_selection_the_test_set_is_used(table: str) -> None:
    splits, data = csv_splits(table), load("csv", path=table)
    assert isinstance(data.test, Samples)
    assert numbers(splits.test) == numbers(data.test)
    assert torch.equal(splits.test.y, data.test.y)


def test_the_seed_decides_the_splits(table: str) -> None:
    first, again, other = (csv_splits(table, seed=seed, selection=30) for seed in (1, 1, 2))
    assert torch.equal(first.train.y, again.train.y)
    assert numbers(first.trusted) == numbers(again.trusted)
    assert numbers(first.test) == numbers(again.test)
    assert numbers(first.test) != numbers(other.test)
    assert numbers(first.trusted) != numbers(other.trusted)


def test_a_selection_of_everything_is_refused(table: str) -> None:
    with pytest.raises(SettingsError, match="selection holds out 240 of 240 training samples: hold out fewer"):
        csv_splits(table, selection=240)


def trusted_file(tmp_path: Path, indices: list[int]) -> str:
    file = tmp_path / "trusted.txt"
    file.write_text("\n".join(map(str, indices)))
    return str(file)


def train_and_test_tables(folder: Path, rows: int = 300) -> str:
    write_table(folder / "train.csv", rows=rows)
    write_table(folder / "test.csv", rows=60, seed=1)
    return str(folder)


def test_a_trusted_file_names_the_samples(tmp_path: Path) -> None:
    table = train_and_test_tables(tmp_path / "tables")
    file = trusted_file(tmp_path, [31, 2, 0, 7, 8])
    splits = load_splits(resolve({"dataset": "csv", "path": table, "shift": "none", "trusted_file": file}))
    assert splits.shifted.trusted.tolist() == [0, 2, 7, 8, 31]
    loaded = numbers(load("csv", path=table).train)
    assert numbers(splits.trusted) == [loaded[i] for i in (0, 2, 7, 8, 31)]
    assert not splits.truth_known


def test_a_trusted_file_may_be_a_table_of_trusted_rows(tmp_path: Path) -> None:
    table, checked = write_table(tmp_path / "table.csv", rows=300), write_table(tmp_path / "checked.csv", rows=12)
    given = {"dataset": "csv", "path": str(table), "shift": "none"}
    splits = load_splits(resolve({**given, "trusted_file": str(checked)}))
    assert splits.is_trusted.tolist() == [False] * 240 + [True] * 12
    assert torch.equal(splits.trusted.y, splits.train.y[240:])
    numbers = tmp_path / "numbers.csv"  # positions, as to_csv of pandas writes them
    numbers.write_text("0\n1\n2\n3\n4\n5\n")
    assert int(load_splits(resolve({**given, "trusted_file": str(numbers)})).is_trusted.sum()) == 6
    with pytest.raises(SettingsError, match="set --shift none"):
        load_splits(resolve({**given, "shift": "pair:0.2", "trusted_file": str(checked)}))


def test_a_trusted_file_works_with_fewer_rows_than_the_default_number(tmp_path: Path) -> None:
    small = train_and_test_tables(tmp_path / "small", rows=30)
    given = {"dataset": "csv", "path": small, "shift": "none", "trusted_file": trusted_file(tmp_path, list(range(9)))}
    assert len(load_splits(resolve(given)).trusted) == 9


@pytest.mark.parametrize("more", [{"shift": "symmetric:0.4"}, {"shift": "none", "selection": 10}])
def test_a_trusted_file_needs_unshifted_data(tmp_path: Path, table: str, more: dict[str, object]) -> None:
    given = {"dataset": "csv", "path": table, "trusted_file": trusted_file(tmp_path, [0, 1, 2]), **more}
    with pytest.raises(SettingsError, match="set --shift none and hold out no --selection"):
        load_splits(resolve(given))


def test_a_trusted_file_counts_the_rows_of_a_table_in_one_file_and_none_of_them_is_tested(
    tmp_path: Path, table: str
) -> None:
    rows = [299, 4, 17, 18, 60, 123]
    given = {"dataset": "csv", "path": table, "shift": "none", "trusted_file": trusted_file(tmp_path, rows)}
    splits = load_splits(resolve(given))
    assert splits.data.rows is not None
    assert splits.data.rows[splits.shifted.trusted].tolist() == sorted(rows)
    assert isinstance(splits.test, Samples)
    assert (len(splits.train), len(splits.test)) == (241, 59)  # a fifth of the 294 other rows
    assert len(set(numbers(splits.train)) | set(numbers(splits.test))) == 300
    assert [numbers(splits.train)[i] for i in splits.shifted.trusted] == numbers(splits.trusted)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [([3, 300], "expected trusted rows from 0 to 299, found 300"), ([3, 5, 3], "each trusted row once, repeated 3")],
)
def test_rows_that_a_file_does_not_have_are_refused(
    tmp_path: Path, table: str, rows: list[int], problem: str
) -> None:
    given = {"dataset": "csv", "path": table, "shift": "none", "trusted_file": trusted_file(tmp_path, rows)}
    with pytest.raises(DataError, match=problem):
        load_splits(resolve(given))


def test_data_without_a_shift_need_trusted_samples(table: str) -> None:
    with pytest.raises(SettingsError, match="no trusted samples are given: name their positions in a --trusted-file"):
        load_splits(resolve({"dataset": "csv", "path": table}))


@pytest.mark.parametrize("name", ["trusted.csv", "trusted.csv.gz"])
def test_a_table_that_seems_to_have_trusted_rows_is_named(tmp_path: Path, name: str) -> None:
    folder = train_and_test_tables(tmp_path / "tables")
    (Path(folder) / name).touch()
    with pytest.raises(SettingsError, match=rf"are they those in .*{name}\? Then add --trusted-file .*{name}$"):
        load_splits(resolve({"dataset": "csv", "path": folder}))


def test_a_trusted_set_that_misses_a_class_is_refused(tmp_path: Path) -> None:
    table = train_and_test_tables(tmp_path / "tables")
    labels = load("csv", path=table).train.y
    no_cats = (labels < 2).nonzero().flatten().tolist()[:20]
    given = {"dataset": "csv", "path": table, "shift": "none", "trusted_file": trusted_file(tmp_path, no_cats)}
    with pytest.raises(ValueError, match="expected every one of 3 classes, missing 2"):
        load_splits(resolve(given))


def test_images_are_augmented_for_training_only(tmp_path: Path) -> None:
    for split, count in (("train", 8), ("val", 2)):
        for name in ("ant", "bee"):
            for i in range(count):
                write_image(tmp_path / split / name / f"{i}.png")
    given = {"dataset": "imagefolder", "path": str(tmp_path), "trusted": 8, "selection": 4, "shift": "pair:0.2"}
    splits = load_splits(resolve(given))
    assert isinstance(splits.train, ImageFiles)
    assert isinstance(splits.trusted, ImageFiles)
    assert isinstance(splits.test, ImageFiles)
    assert (splits.train.train, splits.trusted.train, splits.test.train) == (True, False, False)
    assert not set(splits.test.paths) & set(splits.train.paths)
    plain = without_augmentation(splits.train)
    assert isinstance(plain, ImageFiles)
    assert not plain.train
    assert plain.paths == splits.train.paths


def test_images_have_the_given_size_and_stay_whole_where_that_is_asked_for(tmp_path: Path) -> None:
    for part in ("data/train", "data/val", "checked"):
        for name in ("ant", "bee"):
            for i in range(4):
                write_image(tmp_path / part / name / f"{i}.png")
    given = {"dataset": "imagefolder", "path": str(tmp_path / "data"), "trusted_folder": str(tmp_path / "checked")}
    splits = load_splits(resolve({**given, "image_size": 12, "augment": False}))
    assert not splits.data.augment
    for part in (splits.train, splits.trusted, splits.test, splits.mixed):
        assert isinstance(part, ImageFiles)
        assert part.input_shape == (3, 12, 12)
    for part in (splits.train, splits.trusted, splits.mixed):
        trained = with_augmentation(part)
        assert torch.equal(trained[0][0], trained[0][0])
        assert isinstance(trained, ImageFiles)
        assert trained.train > trained.augment
    assert small_side(splits.train) is None
    cropped = load_splits(resolve(given))
    assert small_side(cropped.train) == 10
    assert small_side(load_splits(resolve({"trusted": 50})).train) is None  # no files
    assert isinstance(cropped.trusted, ImageFiles)
    assert cropped.trusted.augment
    assert cropped.train.input_shape == (3, 224, 224)


def test_a_run_does_not_begin_with_its_trusted_samples() -> None:
    """The order of an epoch and the trusted samples are drawn with different seeds."""
    for seed in range(3):
        settings = resolve({"dataset": "digits", "shift": "symmetric:0.4", "trusted": 100, "seed": seed})
        splits = load_splits(settings)
        first = torch.randperm(len(splits.train), generator=epoch_generator(seed, 0))[:100]
        assert len(set(splits.shifted.trusted.tolist()) & set(first.tolist())) < 30
