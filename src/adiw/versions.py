"""Check that a package is installed in a supported version."""

from __future__ import annotations

import re
from importlib import metadata


def require(package: str, least: str, extra: str | None = None) -> None:
    """Raise ImportError unless ``package`` is installed in version ``least`` or later.

    ``extra`` names the extra of adiw that installs it.

    >>> require("torch", "2.6")
    >>> require("torch", "99.0")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ImportError: expected torch 99.0 or later, found ...: pip install --upgrade torch
    """
    what = package if extra is None else f'"adiw[{extra}]"'
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ImportError(f"{package} is not installed: pip install {what}") from None
    if _numbers(found) < _numbers(least):
        raise ImportError(f"expected {package} {least} or later, found {found}: pip install --upgrade {what}")


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor number; patches and release candidates are ignored."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
