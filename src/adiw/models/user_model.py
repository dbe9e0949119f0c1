"""The user's own network, given as ``package.module:factory``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def build_user_model(spec: str, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Import ``package.module``, call ``factory(input_shape, num_classes)``, and return its network.

    Modules in the current directory are found, as with ``python -m``. Exceptions in the user's code are raised
    unchanged.

    >>> build_user_model("adiw.models.mlp:MLP", (64,), 10).head
    Linear(in_features=256, out_features=10, bias=True)
    >>> build_user_model("adiw.models.mlp:HIDDEN", (64,), 10)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: model '...': expected a function or class in adiw.models.mlp, found one of type int; check the name
    """
    module_name, _, attribute = spec.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise ValueError(f"model {spec!r}: expected package.module:factory; write for example my_models:build")
    with _current_directory_first():
        importlib.invalidate_caches()
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise  # the module exists, but imports one that is missing
            raise ValueError(
                f"model {spec!r}: found no module {error.name!r}; run in its directory or install it"
            ) from error
        factory = getattr(module, attribute, None)
        if not callable(factory):
            found = "none" if factory is None else f"one of type {type(factory).__name__}"
            raise ValueError(
                f"model {spec!r}: expected a function or class in {module_name}, found {found}; check the name"
            )
        model = factory(input_shape, num_classes)
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise ValueError(f"model {spec!r}: expected a torch.nn.Module from the factory, got type {kind}; return one")
    return model


@contextmanager
def _current_directory_first() -> Iterator[None]:
    """Search the current directory for modules first, inside this block only."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
