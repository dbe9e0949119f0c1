"""The checks of arguments accept any value and raise only the errors that they are for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from adiw.argument_checks import check_count, check_labels, check_vector, is_count, is_number, is_positive, is_real

STRANGE = (None, "", "1", b"1", [], {}, object(), int, 1 + 2j, True, math.nan, 10**400, torch.tensor(1.0), np.ones(2))


@pytest.mark.parametrize("value", STRANGE)
def test_values_that_are_not_numbers(value: object) -> None:
    assert not any((is_real(value), is_number(value), is_positive(value), is_count(value)))
    with pytest.raises((TypeError, ValueError), match="steps must be"):
        check_count("steps", value, least=1)
    with pytest.raises((TypeError, ValueError), match="v must be"):
        check_vector("v", value)
    with pytest.raises((TypeError, ValueError), match="y must be"):
        check_labels("y", value)


@pytest.mark.parametrize("value", [1, 2.5, np.float32(0.5), np.int64(3)])
def test_numbers_of_numpy_are_numbers(value: float) -> None:
    assert is_real(value)
    assert is_positive(value)
    assert is_count(value) == (int(value) == value and not isinstance(value, float))


def test_the_edges() -> None:
    assert is_real(math.inf)
    assert not is_number(math.inf)
    assert is_number(0, least=0)
    assert not is_positive(0)
    assert not is_positive(5e-324)  # zero in float32
    assert not is_number(1e39)  # infinite in float32
    assert not is_count(2**63)
    check_vector("v", torch.ones(2), like=torch.zeros(2))
    with pytest.raises(ValueError, match=r"v must be \(2,\), got \(3,\)"):
        check_vector("v", torch.ones(3), like=torch.zeros(2))
    with pytest.raises(ValueError, match="at least one entry"):
        check_vector("v", torch.ones(0))
    with pytest.raises(ValueError, match="0 or larger"):
        check_labels("y", torch.tensor([0, -1]))
