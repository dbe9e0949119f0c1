"""``torch.compile`` for a method of several objects in one process."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch


def compiled(owner: object, name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """The method ``name`` of ``owner``, by ``torch.compile(..., *args, **kwargs)``.

    PyTorch keeps the compiled versions of a function with its code, and makes at most eight: a ninth object would run
    uncompiled. So each object compiles a copy.
    """
    function: FunctionType = getattr(type(owner), name)
    own = FunctionType(
        function.__code__.replace(), function.__globals__, name, function.__defaults__, function.__closure__
    )
    own.__kwdefaults__ = function.__kwdefaults__
    return torch.compile(MethodType(own, owner), *args, **kwargs)
