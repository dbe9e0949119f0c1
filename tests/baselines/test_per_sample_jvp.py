"""Jacobian-vector products by forward mode and by double backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from adiw.baselines.per_sample_jvp import Parameters, jvp_by_double_backward, lacks_forward_mode, per_sample_jvp

GENERATOR = torch.Generator().manual_seed(0)
A = torch.randn(5, 3, generator=GENERATOR, dtype=torch.float64)
THETA = {name: torch.randn(3, generator=GENERATOR, dtype=torch.float64) for name in ("left", "right")}
DIRECTION = {name: torch.randn(3, generator=GENERATOR, dtype=torch.float64) for name in THETA}


def bilinear(theta: Parameters) -> Tensor:
    """(a_i'left) (a_i'right), whose derivative is known."""
    return (A @ theta["left"]) * (A @ theta["right"])


@pytest.mark.parametrize("derive", [per_sample_jvp, jvp_by_double_backward])
def test_closed_form(derive: object) -> None:
    expected = (A @ DIRECTION["left"]) * (A @ THETA["right"]) + (A @ THETA["left"]) * (A @ DIRECTION["right"])
    found = derive(bilinear, THETA, DIRECTION)  # type: ignore[operator]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert not found.requires_grad


@pytest.mark.parametrize("derive", [per_sample_jvp, jvp_by_double_backward])
def test_a_parameter_that_is_not_used(derive: object) -> None:
    found = derive(lambda theta: A @ theta["left"], THETA, DIRECTION)  # type: ignore[operator]
    torch.testing.assert_close(found, A @ DIRECTION["left"], rtol=0, atol=1e-12)


def test_forward_mode_makes_no_graph() -> None:
    seen = []

    def losses_at(theta: Parameters) -> Tensor:
        seen.append(bilinear(theta).requires_grad)
        return bilinear(theta)

    per_sample_jvp(losses_at, {name: value.requires_grad_() for name, value in THETA.items()}, DIRECTION)
    assert seen == [False]


def test_losses_without_a_derivative_are_an_error_and_not_zero() -> None:
    with pytest.raises(NotImplementedError, match="have no tangents"):
        per_sample_jvp(lambda theta: torch.ones(5), THETA, DIRECTION)


def test_which_errors_mean_that_forward_mode_is_missing() -> None:
    assert lacks_forward_mode(NotImplementedError("no jvp"))
    assert lacks_forward_mode(RuntimeError("Trying to use forward AD with an operator"))
    assert not lacks_forward_mode(RuntimeError("CUDA out of memory"))
