"""Checks of arguments. The ``is_`` functions accept any object and never raise."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TypeGuard

import torch
from torch import Tensor

_FLOAT32 = torch.finfo(torch.float32)


def is_real(value: object) -> TypeGuard[float]:
    """True for real numbers and infinity; false for nan, booleans and integers too large for a float.

    >>> is_real(float("inf")), is_real("1"), is_real(True), is_real(10**400)
    (True, False, False, False)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:
        return False


def is_number(value: object, least: float = -math.inf) -> TypeGuard[float]:
    """True for numbers within the range of float32 that are at least ``least``."""
    return is_real(value) and abs(value) <= _FLOAT32.max and value >= least


def is_positive(value: object) -> TypeGuard[float]:
    """True for positive numbers that float32 can hold and divide by."""
    return is_number(value, _FLOAT32.tiny)


def is_count(value: object, least: int = 0) -> TypeGuard[int]:
    """True for integers of at most 64 bits that are at least ``least``."""
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) < 2**63


def kind_of(value: object) -> str:
    """The dtype of a tensor, or the class of another object, for error messages."""
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def check_count(name: str, value: object, least: int) -> None:
    """Raise unless ``value`` is an integer of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
    if not is_count(value, least):
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_vector(name: str, value: object, like: Tensor | None = None) -> None:
    """Raise unless ``value`` is a floating-point tensor (n,) of the shape of ``like``. Its values are not read."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor (n,), got {kind_of(value)}")
    if value.ndim != 1 or len(value) == 0 or (like is not None and value.shape != like.shape):
        expected = "(n,) with at least one entry" if like is None else tuple(like.shape)
        raise ValueError(f"{name} must be {expected}, got {tuple(value.shape)}")


def check_labels(name: str, value: object) -> None:
    """Raise unless ``value`` is an integer tensor (n,) of class numbers, 0 or larger."""
    if not isinstance(value, Tensor) or value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"{name} must be an integer tensor (n,), got {kind_of(value)}")
    if value.ndim != 1 or bool((value < 0).any()):
        raise ValueError(
            f"{name} must be class numbers (n,), 0 or larger, got {tuple(value.shape)} {value.tolist()[:5]}"
        )
