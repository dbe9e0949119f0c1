"""Per-sample losses: what a criterion may return, in which precision, and which samples have a gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adiw.reweighting.loss_shapes import per_sample_losses
from adiw.reweighting.nonfinite_losses import zero_gradient


def test_losses_pass_unchanged() -> None:
    outputs, targets = torch.tensor([[2.0, -1.0], [0.0, 1.0]]), torch.tensor([0, 1])
    losses = per_sample_losses(nn.CrossEntropyLoss(reduction="none"), outputs, targets)
    torch.testing.assert_close(losses, torch.log1p(torch.tensor([-3.0, -1.0]).exp()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_outputs_reach_the_criterion_as_float32(dtype: torch.dtype) -> None:
    seen: list[torch.dtype] = []

    def criterion(outputs: Tensor, targets: None) -> Tensor:
        seen.append(outputs.dtype)
        return outputs

    assert per_sample_losses(criterion, torch.zeros(2, dtype=dtype), None).dtype == torch.float32
    assert seen == [torch.float32]


def test_losses_are_float32_or_better() -> None:
    assert per_sample_losses(lambda o, t: o.half(), torch.zeros(2), None).dtype == torch.float32
    assert per_sample_losses(lambda o, t: o, torch.zeros(2, dtype=torch.float64), None).dtype == torch.float64
    mapping = {"logits": torch.zeros(2, dtype=torch.bfloat16)}
    seen: list[object] = []  # outputs that are not tensors reach the criterion unchanged
    per_sample_losses(lambda o, t: (seen.append(o), o["logits"])[1], mapping, None)
    assert seen == [mapping]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_reduced_criterion_is_an_error_that_names_reduction_none(reduction: str) -> None:
    with pytest.raises(ValueError, match=r'scalar; expected one loss per sample or element: .*reduction="none"'):
        per_sample_losses(nn.CrossEntropyLoss(reduction=reduction), torch.zeros(2, 3), torch.tensor([0, 1]))


@pytest.mark.parametrize("result", [1.0, None, torch.tensor([1, 2])])
def test_a_criterion_that_returns_no_losses(result: object) -> None:
    with pytest.raises(TypeError, match=r"floating-point tensor of losses \(n, \.\.\.\)"):
        per_sample_losses(lambda o, t: result, torch.zeros(2), None)  # type: ignore[arg-type, return-value]


def test_an_empty_batch() -> None:
    with pytest.raises(ValueError, match="batch is empty"):
        per_sample_losses(nn.CrossEntropyLoss(reduction="none"), torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2)])
def test_the_gradient_of_nonfinite_rows_is_zero_and_the_others_do_not_change(shape: tuple[int, ...]) -> None:
    outputs = torch.ones(shape, requires_grad=True)
    zero_gradient(outputs, torch.tensor([True, False, True]))
    scale = torch.tensor([2.0, float("nan"), 3.0]).view(-1, *[1] * (len(shape) - 1))
    (outputs * scale).sum().backward()
    assert outputs.grad is not None
    expected = torch.tensor([2.0, 0.0, 3.0]).view_as(scale).expand(shape)
    assert torch.equal(outputs.grad, expected)


def test_no_gradient_is_copied_where_all_losses_are_finite() -> None:
    outputs = torch.zeros(3, 2, requires_grad=True)
    zero_gradient(outputs, torch.ones(3, dtype=torch.bool))
    assert not outputs._backward_hooks


def test_zero_gradient_ignores_outputs_without_a_gradient_per_sample() -> None:
    zero_gradient({"logits": torch.zeros(2)}, torch.tensor([True, False]))
    zero_gradient(torch.zeros(2), torch.tensor([True, False]))
    other = torch.ones(3, requires_grad=True)  # not one row per loss
    zero_gradient(other, torch.tensor([True, False]))
    other.sum().backward()
    assert other.grad is not None
    assert other.grad.tolist() == [1.0, 1.0, 1.0]


def test_an_infinite_loss_needs_zero_gradient() -> None:
    """A weight of zero is not enough: without ``zero_gradient`` the gradient is nan."""
    outputs = torch.zeros(1, requires_grad=True)
    (0 * nn.functional.mse_loss(outputs, torch.tensor([float("inf")]), reduction="none")).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.isnan().all()


def test_losses_compile_without_is_autocast_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch 2.11 cannot trace ``is_autocast_available``."""

    def fail(kind: str) -> bool:
        raise RuntimeError(f"cannot trace is_autocast_available({kind!r})")

    monkeypatch.setattr(torch.amp, "is_autocast_available", fail)
    compiled = torch.compile(partial(per_sample_losses, lambda o, t: o), backend="eager", fullgraph=True)
    assert compiled(torch.ones(2), None).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="cannot trace"):
        per_sample_losses(lambda o, t: o, torch.ones(2), None)


@pytest.mark.parametrize("wrap", [lambda part: {"logits": part}, lambda part: (part, "text"), lambda part: [part]])
def test_zero_gradient_reaches_tensors_within_mappings_and_sequences(wrap: Callable[[Tensor], Any]) -> None:
    outputs = torch.ones(2, 3, requires_grad=True)
    part = outputs * 2
    zero_gradient(wrap(part), torch.tensor([True, False]))
    part.sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.tolist() == [[2.0] * 3, [0.0] * 3]


def test_zero_gradient_passes_over_a_scalar() -> None:
    zero_gradient(torch.tensor(1.0, requires_grad=True), torch.tensor([True]))
