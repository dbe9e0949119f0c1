import pytest
import torch

from adiw.data import DataError, load


def write(path, labels, first=0):
    lines = ["height,fixed,kind", *(f"{first + i},7,{label}" for i, label in enumerate(labels))]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_one_file_is_split_and_standardised(tmp_path):
    data = load("csv", path=write(tmp_path / "t.csv", ["b", "a"] * 25))
    assert (len(data.train), len(data.test)) == (40, 10)
    assert data.test.y.bincount().tolist() == [5, 5]
    assert data.classes == ("a", "b")
    x = data.train.x
    assert x.dtype == torch.float32
    assert x[:, 0].mean().abs() < 1e-6
    assert (x[:, 0].std(correction=0) - 1).abs() < 1e-6
    assert (x[:, 1] == 0).all()  # the constant column
    assert (data.mean, data.std, data.augment) == ((), (), False)
    assert data.input_shape == (2,)


def test_seed_decides_the_split(tmp_path):
    path = write(tmp_path / "t.csv", ["b", "a"] * 25)
    first, again, other = (load("csv", path=path, seed=seed).test.x for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_two_files_use_training_statistics(tmp_path):
    write(tmp_path / "train.csv", ["x", "y", "x", "y"])  # heights 0 1 2 3: mean 1.5, variance 1.25
    write(tmp_path / "test.csv", ["y"], first=4)
    data = load("csv", path=tmp_path)
    assert data.test.x[0, 0].item() == pytest.approx(2.5 / 1.25**0.5)
    assert data.test.y.tolist() == [1]


def test_integer_labels_are_sorted_as_numbers(tmp_path):
    write(tmp_path / "train.csv", ["10", "9", "-1"] * 2)
    write(tmp_path / "test.csv", ["10"])
    data = load("csv", path=tmp_path)
    assert data.classes == ("-1", "9", "10")
    assert data.train.y.tolist() == [2, 1, 0, 2, 1, 0]


def test_target_by_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("kind,a\n" + "x,1\ny,2\n" * 5)
    assert load("csv", path=path, target="kind").classes == ("x", "y")


def test_one_class(tmp_path):
    with pytest.raises(DataError, match="column 'kind': expected at least two classes, found only 'a'"):
        load("csv", path=write(tmp_path / "t.csv", ["a"] * 10))


def test_a_continuous_target_is_refused(tmp_path):
    with pytest.raises(DataError, match="column 'kind': expected labels that repeat, found 10 different"):
        load("csv", path=write(tmp_path / "t.csv", [str(i / 7) for i in range(10)]))


def test_class_only_in_test(tmp_path):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    write(tmp_path / "test.csv", ["z"])
    with pytest.raises(DataError, match=r"test.csv, column 'kind': found classes that train.csv does not have: z"):
        load("csv", path=tmp_path)


def test_columns_of_both_files_must_agree(tmp_path):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    (tmp_path / "test.csv").write_text("fixed,height,kind\n7,1,x\n")
    with pytest.raises(DataError, match=r"expected the columns of train.csv in the same order, height, fixed"):
        load("csv", path=tmp_path)


def test_missing_file_of_a_pair(tmp_path):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    with pytest.raises(DataError, match=r"test\.csv: file not found"):
        load("csv", path=tmp_path)


def test_numbers_beyond_float32(tmp_path):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    (tmp_path / "test.csv").write_text("height,fixed,kind\n1e300,7,x\n")
    with pytest.raises(DataError, match="float32"):
        load("csv", path=tmp_path)
