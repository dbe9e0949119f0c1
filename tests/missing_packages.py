"""A package that seems not to be installed."""

from __future__ import annotations

from importlib import metadata

import pytest


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """``adiw.versions.require`` does not find this package."""
    real = metadata.version

    def version(name: str) -> str:
        if name == package:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
