"""Batch norm's tangents against PyTorch's own rule."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from adiw.baselines.per_sample_jvp import BatchNormTangents

CHANNELS = 3
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit")  # of PyTorch itself, when it loads forward mode


def both(
    shape: tuple[int, ...], training: bool, affine: bool, moving: bool, narrow: bool = False
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """(outputs, tangents, running mean afterwards) by PyTorch's rule and by ours."""
    random = torch.Generator().manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=random, dtype=torch.float64)

    values, averages = [draw(*shape) * 2 + 5, draw(CHANNELS), draw(CHANNELS)], [draw(CHANNELS), draw(CHANNELS).exp()]
    directions = [draw(*value.shape) for value in values]
    if narrow:
        values, directions, averages = ([part.float() for part in parts] for parts in (values, directions, averages))
        values[0], directions[0] = values[0].bfloat16(), directions[0].bfloat16()
    found = []
    for ours in (False, True):
        mean, var = averages[0].clone(), averages[1].clone()
        with torch.no_grad(), forward_ad.dual_level():
            x, *scales = map(forward_ad.make_dual, values, directions)
            x = x if moving else values[0]
            with BatchNormTangents() if ours else torch.no_grad():
                y = functional.batch_norm(x, mean, var, *(scales if affine else ()), training=training)
            found.append((*forward_ad.unpack_dual(y), mean))
    return found


@pytest.mark.parametrize("shape", [(7, CHANNELS), (4, CHANNELS, 5, 2)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("affine", "moving"), [(True, True), (False, True), (True, False)])
def test_the_rule_of_pytorch(shape: tuple[int, ...], training: bool, affine: bool, moving: bool) -> None:
    theirs, ours = both(shape, training, affine, moving)
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[2], theirs[2])
    torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=1e-12)


def test_narrow_outputs_have_narrow_tangents() -> None:
    theirs, ours = both((9, CHANNELS, 4), training=True, affine=True, moving=True, narrow=True)
    wide = both((9, CHANNELS, 4), training=True, affine=True, moving=True)[0][1]
    assert ours[0].dtype == ours[1].dtype == torch.bfloat16
    errors = [float((part[1].double() - wide).abs().mean()) for part in (ours, theirs)]
    assert errors[0] <= errors[1]
