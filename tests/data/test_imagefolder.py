import pytest

from adiw.data import DataError, load
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
