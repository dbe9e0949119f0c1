"""Networks by name: the table's, and the user's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

from adiw.models import MODELS, build

SOURCE = """
from torch import nn

number = 3

def tiny(input_shape, num_classes):
    return nn.Linear(input_shape[0], num_classes)

def wrong(input_shape, num_classes):
    return "a network"

def failing(input_shape, num_classes):
    raise RuntimeError("the user's own mistake")

def lazy(input_shape, num_classes):
    import adiw_test_sibling
    return adiw_test_sibling.model
"""


@pytest.fixture(autouse=True)
def _user_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "adiw_test_user.py").write_text(SOURCE)
    (tmp_path / "adiw_test_sibling.py").write_text("from torch import nn\nmodel = nn.Identity()\n")
    (tmp_path / "adiw_test_needy.py").write_text("import adiw_test_absent_dependency\n")
    package = tmp_path / "adiw_test_package"
    package.mkdir()
    (package / "nets.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = list(sys.path)
    yield
    assert sys.path == path  # the current directory was importable only while building
    for name in [name for name in sys.modules if name.startswith("adiw_test_")]:
        del sys.modules[name]


@pytest.mark.parametrize("module", ["adiw_test_user", "adiw_test_package.nets"])
def test_a_user_model_in_the_current_directory(module: str) -> None:
    model = build(f"{module}:tiny", (5,), 4)
    assert isinstance(model, nn.Linear)
    assert (model.in_features, model.out_features) == (5, 4)


def test_a_factory_that_imports_when_called() -> None:
    assert isinstance(build("adiw_test_user:lazy", (5,), 4), nn.Identity)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adiw_test_absent:tiny", "found no module 'adiw_test_absent'"),
        ("adiw_test_package.absent:tiny", "found no module 'adiw_test_package.absent'"),
        ("adiw_test_user:absent", "expected a function or class in adiw_test_user, found none"),
        ("adiw_test_user:number", "expected a function or class in adiw_test_user, found one of type int"),
        ("adiw_test_user:wrong", "expected a torch.nn.Module from the factory, got type str"),
        ("adiw_test_user:", "expected package.module:factory"),
        (":tiny", "expected package.module:factory"),
        ("a:b:c", "expected package.module:factory"),
        ("../adiw_test_user.py:tiny", "expected package.module:factory"),
    ],
)
def test_errors_are_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        build(name, (5,), 4)
    assert str(error.value).startswith(f"model {name!r}: ")
    assert "\n" not in str(error.value)


def test_the_users_own_mistakes_pass_through() -> None:
    with pytest.raises(RuntimeError, match="the user's own mistake"):
        build("adiw_test_user:failing", (5,), 4)
    with pytest.raises(ModuleNotFoundError, match="adiw_test_absent_dependency"):
        build("adiw_test_needy:tiny", (5,), 4)


@pytest.mark.parametrize(("name", "nearest"), [("resnet-18", "resnet18"), ("LeNet5", "lenet5"), ("MLP", "mlp")])
def test_unknown_names_list_the_table_nearest_first(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"expected one of {nearest}, ") as error:
        build(name, (3, 32, 32), 10)
    assert all(known in str(error.value) for known in MODELS)
