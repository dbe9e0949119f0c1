"""Judge a call: it must return a defined result, or raise an error that this library raises on purpose."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

import adiw

SOURCE = Path(adiw.__file__).parent
# Packages that check arguments for this library: their messages say what was expected and what came.
DELEGATES = ("/sklearn/", "/skorch/", "numpy/random/", "/lightning/pytorch/trainer/connectors/")
TORCH_STATE = ("torch/nn/modules/module.py", "load_state_dict")


def verdict(call: Callable[[], Any], defined: Callable[[Any], str | None]) -> tuple[str, str]:
    """("clear error", its text), ("defined result", ""), or ("wrong", the reason)."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = call()
    except Exception as error:
        problem = unclear(error)
        text = f"{type(error).__name__}: {str(error)[:300]}"
        return ("clear error", text) if problem is None else ("wrong", f"{problem}: {text}")
    problem = defined(result)
    return ("defined result", "") if problem is None else ("wrong", problem)


def unclear(error: Exception) -> str | None:
    """What is wrong with an error: it has no message, or no ``raise`` statement of this library raised it."""
    if not str(error).strip():
        return "an error without a message"
    file, line, function = innermost(error.__traceback__)
    if in_callers_code(error.__traceback__):
        return None
    if any(part in file for part in DELEGATES) or (file.endswith(TORCH_STATE[0]) and function == TORCH_STATE[1]):
        return None
    if Path(file).is_relative_to(SOURCE) and line in raising_lines(file):
        return None
    place = Path(file).relative_to(SOURCE) if Path(file).is_relative_to(SOURCE) else file
    return f"not raised on purpose, but at {place}:{line}"


def in_callers_code(traceback: TracebackType | None) -> bool:
    """Whether the error comes from code that was passed in, such as a criterion; such errors are fine."""
    entered = False
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if entered and file.is_relative_to(Path(__file__).parent):
            return True
        entered |= file.is_relative_to(SOURCE)
        traceback = traceback.tb_next
    return False


def innermost(traceback: TracebackType | None) -> tuple[str, int, str]:
    """(file, line, function) where an error was raised."""
    assert traceback is not None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno, traceback.tb_frame.f_code.co_name


@functools.cache
def raising_lines(file: str) -> set[int]:
    """The lines of all ``raise`` statements of a file."""
    nodes = ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
    spans = [range(n.lineno, (n.end_lineno or n.lineno) + 1) for n in nodes if isinstance(n, ast.Raise)]
    return {line for span in spans for line in span}


def finite(result: Any) -> str | None:
    """All numbers of a result are finite."""
    bad = [value for value in numbers(result) if not bool(np.isfinite(value).all())]
    return f"the result is not finite: {str(result)[:200]}" if bad else None


def weights(result: Any) -> str | None:
    """All numbers of a result are weights: finite, and not below zero."""
    bad = [value for value in numbers(result) if not bool(((value >= 0) & np.isfinite(value)).all())]
    return f"not weights: {str(result)[:200]}" if bad else None


def anything(result: Any) -> str | None:
    """Every result is fine."""
    return None


def numbers(value: Any) -> Iterable[np.ndarray]:
    """The floating-point arrays in a nested value."""
    if isinstance(value, torch.Tensor):
        yield from [value.detach().double().numpy()] if value.is_floating_point() else []
    elif isinstance(value, np.ndarray):
        yield from [value] if value.dtype.kind == "f" else []
    elif isinstance(value, float):
        yield np.array(value)
    elif isinstance(value, dict):
        yield from (found for item in value.values() for found in numbers(item))
    elif isinstance(value, list | tuple):
        yield from (found for item in value for found in numbers(item))
