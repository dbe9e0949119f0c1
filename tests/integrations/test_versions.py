"""A framework that is missing or too old."""

from __future__ import annotations

import importlib
from importlib import metadata

import pytest

from adiw.integrations.versions import require


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


@pytest.mark.parametrize(("module", "extra"), [("lightning", "lightning"), ("huggingface", "hf")])
def test_each_integration_looks_at_the_version_first(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    whole = importlib.import_module(f"adiw.integrations.{module}")
    monkeypatch.setattr(metadata, "version", lambda package: "0.1")
    with pytest.raises(ImportError, match=rf"or later, found 0.1: pip install --upgrade .adiw\[{extra}\]"):
        importlib.reload(whole)
