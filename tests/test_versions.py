"""A missing or outdated framework is reported with the command that installs it."""

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


CALL = re.compile(r'^( *)require\("([\w-]+)", "([\d.]+)"(?:, "(\w+)")?\)$', re.MULTILINE)
SOURCE = ROOT / "src"
CALLS = [(path, *call) for path in sorted(SOURCE.rglob("*.py")) for call in CALL.findall(path.read_text())]


def module_of(path: Path) -> str:
    """The dotted name of a module, such as adiw.integrations.sklearn."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def test_the_code_requires_what_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {None: project["dependencies"], **project["optional-dependencies"]}
    assert {"torch", "lightning", "transformers"} <= {package for _, _, package, _, _ in CALLS}
    for _, _, package, least, extra in CALLS:
        (found,) = [line for line in declared[extra or None] if re.match(rf"{package}\b", line)]
        assert f"{package}>={least}" in found


AT_IMPORT = [(module_of(path), package) for path, indent, package, _, _ in CALLS if not indent]


@pytest.mark.parametrize(("module", "package"), AT_IMPORT)
def test_the_version_is_checked_first(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    try:
        whole = importlib.import_module(module)
    except ImportError as error:
        pytest.skip(str(error))
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1" if name == package else real(name))
    with pytest.raises(ImportError, match=rf"expected {package} [\d.]+ or later, found 0.1: pip install --upgrade"):
        importlib.reload(whole)
