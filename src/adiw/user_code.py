"""The user's own code: import of ``package.module:name``, and warnings that name the line that called the library."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load(spec: str, kind: str, expected: str, form: str, example: str) -> Any:
    """The function or class that ``package.module:name`` names. Exceptions in the user's code are raised unchanged.

    Args:
        kind, expected, form, example: for the errors: "model", "a function or class", "package.module:factory",
            "my_models:build".

    >>> load("adiw.models.mlp:HIDDEN", "model", "a class", "module:Class", "my_models:Net")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: model '...': expected a class in adiw.models.mlp, found one of type int; check the name
    """
    module_name, _, attribute = spec.partition(":")
    if module_name.endswith(".py"):
        inside = f"{Path(module_name).stem}:{attribute}"
        raise ValueError(f"{kind} {spec!r}: expected {form}, not a file; write {inside}, in the folder of the file")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise ValueError(f"{kind} {spec!r}: expected {form}; write for example {example}")
    with current_directory_first():
        importlib.invalidate_caches()
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise  # the module exists, but imports one that is missing
            raise ValueError(
                f"{kind} {spec!r}: found no module {error.name!r}; run in its directory or install it"
            ) from error
    thing = getattr(module, attribute, None)
    if not callable(thing):
        found = "none" if thing is None else f"one of type {type(thing).__name__}"
        raise ValueError(f"{kind} {spec!r}: expected {expected} in {module_name}, found {found}; check the name")
    return thing


@contextmanager
def current_directory_first() -> Iterator[None]:
    """Search the current directory for modules first, as ``python -m`` does, inside this block only."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def warn_user(message: str) -> None:
    """Warn with the line that called this library, from whatever depth."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(("adiw.", "torch.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
