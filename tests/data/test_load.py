"""The table, the options and the default folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from adiw.data import DATASETS, DataError, data_root, load


def test_table_is_complete():
    assert list(DATASETS) == ["digits", "fashion-mnist", "cifar10", "cifar100", "imagefolder", "csv"]


def test_unknown_name_lists_the_table():
    with pytest.raises(DataError) as caught:
        load("mnits")
    assert all(name in str(caught.value) for name in DATASETS)


def test_root_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("ADIW_DATA", "elsewhere")
    assert data_root() == Path("elsewhere")
    monkeypatch.setenv("ADIW_DATA", "")
    assert data_root() == Path("data")
    monkeypatch.delenv("ADIW_DATA")
    assert data_root() == Path("data")


def test_load_uses_the_default_root(monkeypatch, tmp_path):
    monkeypatch.setenv("ADIW_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match="elsewhere"):
        load("cifar10")
    with pytest.raises(DataError, match="given"):
        load("cifar10", tmp_path / "given")


@pytest.mark.parametrize("name", DATASETS)
def test_options_a_data_set_does_not_take_are_refused(name, tmp_path):
    with pytest.raises(DataError, match=f"{name} does not take"):
        load(name, path=tmp_path, target="label", size=32, broken="skip")


@pytest.mark.parametrize("name", ["imagefolder", "csv"])
def test_path_is_needed_and_must_exist(name, tmp_path):
    with pytest.raises(DataError, match=f"{name} needs a path"):
        load(name)
    with pytest.raises(DataError, match=r"nowhere does not exist; expected a"):
        load(name, path=tmp_path / "nowhere")


def test_optional_packages_are_not_imported_up_front():
    packages = ("PIL", "sklearn", "torchvision", "pandas", "pyarrow", "pooch", "requests")
    code = f"import sys, adiw.data.download; print([name for name in {packages} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("what", ["root", "path"])
@pytest.mark.parametrize("value", [3, "a\0b"])
def test_a_value_that_is_not_a_path_is_refused(what, value):
    with pytest.raises(DataError, match=f"{what}: expected a path, found"):
        load("csv", **{what: value})


def test_a_path_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"csv: x+ cannot be read \(File name too long\)"):
        load("csv", path="x" * 5000, target="y")
