"""A framework that is missing or too old, for each integration and for the plain loop."""

from __future__ import annotations

import importlib
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from adiw.versions import require

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("found", ["2.6", "2.6.0", "2.6.0rc1", "2.10.1", "3.0.dev4"])
def test_new_enough(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda package: found)
    require("lightning", "2.6", "lightning")


@pytest.mark.parametrize("found", ["2.5.9", "1.9", "0.99.99"])
def test_too_old(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda package: found)
    expected = rf'expected lightning 2.6 or later, found {found}: pip install --upgrade "adiw\[lightning\]"'
    with pytest.raises(ImportError, match=expected):
        require("lightning", "2.6", "lightning")


def test_not_installed() -> None:
    with pytest.raises(ImportError, match=r'no-such-framework is not installed: pip install "adiw\[hf\]"'):
        require("no-such-framework", "1.0", "hf")


CALL = re.compile(r'^require\("([\w-]+)", "([\d.]+)"(?:, "(\w+)")?\)$', re.MULTILINE)
CALLS = [call for path in sorted(ROOT.glob("src/adiw/**/*.py")) for call in CALL.findall(path.read_text())]


def test_the_code_asks_for_what_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {None: project["dependencies"], **project["optional-dependencies"]}
    assert {package for package, _, _ in CALLS} == {"torch", "lightning", "transformers", "accelerate"} | {
        "scikit-learn",
        "skorch",
    }
    for package, least, extra in CALLS:
        (found,) = [line for line in declared[extra or None] if re.match(rf"{package}\b", line)]
        assert f"{package}>={least}" in found


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("adiw", "torch"),
        ("adiw.integrations.lightning", "lightning"),
        ("adiw.integrations.huggingface", "transformers"),
        ("adiw.integrations.huggingface", "accelerate"),
        ("adiw.integrations.sklearn", "scikit-learn"),
        ("adiw.integrations.sklearn", "skorch"),
    ],
)
def test_each_looks_at_the_version_first(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    try:
        whole = importlib.import_module(module)
    except ImportError as error:
        pytest.skip(str(error))
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1" if name == package else real(name))
    with pytest.raises(ImportError, match=rf"expected {package} [\d.]+ or later, found 0.1: pip install --upgrade"):
        importlib.reload(whole)
