"""Losses of any shape: means over the elements that count, drawn elements, and weights per sample or per element."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw.baselines import Uniform
from adiw.matching.loss_ranks import weights_by_class
from adiw.reweighting.loss_shapes import draw_evenly, element_classes, element_losses, nearest, per_sample_losses

CRITERION = nn.CrossEntropyLoss(reduction="none")
IGNORED = -100


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(4, shape, generator=Generator().manual_seed(seed))


def test_each_shape_has_the_mean_of_pytorchs_own_reduction() -> None:
    """The mean over samples, with their sizes, is that of the same loss with reduction="mean"."""
    outputs = torch.randn(3, 4, 5, generator=Generator().manual_seed(0))
    targets = tokens(3, 5)
    targets[0, 2:], targets[1, :1] = IGNORED, IGNORED
    found = element_losses(CRITERION, outputs, targets).by_sample()
    torch.testing.assert_close(found.mean(), nn.CrossEntropyLoss()(outputs, targets))
    assert found.sizes is not None
    assert found.sizes.tolist() == [2, 4, 5]
    labels = torch.rand(3, 4, 5, generator=Generator().manual_seed(1))
    several = element_losses(nn.BCEWithLogitsLoss(reduction="none"), outputs, labels).by_sample()
    torch.testing.assert_close(several.mean(), nn.BCEWithLogitsLoss()(outputs, labels))
    assert several.losses.shape == (3,)


@pytest.mark.parametrize("training", [True, False])
def test_uniform_weights_give_the_mean_of_pytorch(training: bool) -> None:
    model, (x, y) = Tagger(), sequences(20, 0)
    reweight = Uniform(model, CRITERION, None, 20).train(training)
    torch.testing.assert_close(reweight(model(x), y, torch.arange(20)), nn.CrossEntropyLoss()(model(x), y))


def test_an_ignored_label_of_a_sample_does_not_count() -> None:
    outputs, targets = torch.randn(4, 3, generator=Generator().manual_seed(0)), torch.tensor([0, IGNORED, 2, 1])
    found = element_losses(CRITERION, outputs, targets).by_sample()
    assert found.losses.isnan().tolist() == [False, True, False, False]
    torch.testing.assert_close(found.mean(), nn.CrossEntropyLoss()(outputs, targets))


def test_a_mask_and_a_list_are_the_same_losses() -> None:
    losses = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    masked = element_losses(lambda o, t: (losses, mask), None, None).by_sample()
    listed = element_losses(lambda o, t: [losses[0, :2], losses[1, :1]], None, None).by_sample()
    assert masked.losses.tolist() == listed.losses.tolist() == [1.5, 4.0]
    assert masked.mean() == listed.mean() == pytest.approx(7 / 3)


@pytest.mark.parametrize(
    "returned",
    [(torch.zeros(2), torch.ones(3)), (torch.zeros(2),), (torch.zeros(2), None), [torch.zeros(2), 1.0], []],
)
def test_pairs_and_lists_that_are_no_losses(returned: Any) -> None:
    with pytest.raises(TypeError, match=r"a criterion that returns a (pair|list) must return"):
        per_sample_losses(lambda o, t: returned, None, None)


def test_a_sample_without_elements_has_no_loss_and_a_finite_gradient() -> None:
    values = torch.ones(2, 3, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    found = element_losses(lambda o, t: (o, mask), values, None).by_sample()
    assert found.losses.isnan().tolist() == [False, True]
    found.mean().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    nothing = element_losses(lambda o, t: (o, mask & False), values, None).by_sample()
    assert nothing.mean().item() == 0


def test_elements_are_drawn_with_equal_probability_from_long_and_short_rows() -> None:
    counted = torch.arange(400) < torch.tensor([[400], [200], [10], [0]])
    losses = torch.arange(1600.0).reshape(4, 400)
    drawn, classes, known = draw_evenly(losses, counted, 80, losses.long())
    assert known.sum(1).tolist() == pytest.approx([80, 40, 2, 0], abs=2)
    found = drawn[0][known[0]]
    assert len(found.unique()) == len(found)
    assert [int(((found >= at) & (found < at + 100)).sum()) for at in (0, 100, 200, 300)] == pytest.approx(
        [20] * 4, abs=2
    )
    assert found.remainder(20).unique().numel() == 20  # no column of an image of width 20 is left out
    assert classes is not None
    assert torch.equal(classes[known].float(), drawn[known])
    assert (classes[~known] == -1).all()
    few = draw_evenly(torch.tensor([[7.0, 8.0]]), None, 4).losses
    assert few[0, :2].sort().values.tolist() == [7, 8]
    assert few[0, 2:].isnan().all()


@pytest.mark.parametrize(
    ("outputs", "targets", "expected"),
    [
        (torch.zeros(2, 4, 3), torch.tensor([[0, 1, 3], [2, 2, 0]]), 4),
        (torch.zeros(2, 3, 4), torch.tensor([[0, 1, 3], [2, 2, 0]]), 4),
        (torch.zeros(2, 3), torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), 2),
        (torch.zeros(2, 4000, 3), torch.tensor([[0, 1, 3], [2, 2, 0]]), None),
        (torch.zeros(2, 4), torch.tensor([0, 1]), None),
        (None, torch.zeros(2, 3), None),
    ],
)
def test_classes_of_elements(outputs: Any, targets: Tensor, expected: int | None) -> None:
    found = element_classes(outputs, targets, torch.zeros(2, 3))
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found[1] == expected
        assert torch.equal(found[0], targets.long())


def test_nearest_loss() -> None:
    generator = Generator().manual_seed(0)
    known, values, at = (torch.rand(n, generator=generator) for n in (50, 50, 200))
    expected = values[(known - at[:, None]).abs().argmin(1)]
    assert torch.equal(nearest(known, values, at), expected)
    classes, at_classes = (torch.randint(3, (n,), generator=generator) for n in (50, 200))
    apart = (known - at[:, None]).abs().where(classes == at_classes[:, None], torch.inf)
    assert torch.equal(nearest(known, values, at, classes, at_classes), values[apart.argmin(1)])


def test_a_rare_class_is_compared_with_itself() -> None:
    """A class of a tenth of the elements with large losses keeps its share, unless trusted samples have another."""
    generator = Generator().manual_seed(0)
    rare = torch.rand(2000, generator=generator) < 0.1
    losses = torch.rand(2000, generator=generator) + 5 * rare
    trusted_rare = torch.rand(1000, generator=generator) < 0.1
    trusted = torch.rand(1000, generator=generator) + 5 * trusted_rare
    same = weights_by_class(losses, rare.long(), trusted, trusted_rare.long(), 2)
    assert same[rare].mean() == pytest.approx(1, abs=0.2)
    assert same[~rare].mean() == pytest.approx(1, abs=0.1)
    half = torch.arange(2000) < 1000
    more = weights_by_class(losses, half.long(), trusted, trusted_rare.long(), 2)
    assert more[half].mean() < 0.4


# 40% of the training sequences have random targets; the model can learn the rule of the others.
WIDTH, LENGTH, CLASSES = 6, 5, 4


class Tagger(nn.Module):
    """Scores (n, C, T) for inputs (n, T, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).transpose(1, 2)


def sequences(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs, and the true class of each token; the last tokens of some are ignored."""
    generator = Generator().manual_seed(seed)
    x = torch.randn(n, LENGTH, WIDTH, generator=generator)
    y = x[..., :CLASSES].argmax(2)
    y[torch.arange(LENGTH) >= torch.randint(2, LENGTH + 1, (n, 1), generator=generator)] = IGNORED
    return x, y


def noisy(y: Tensor, per_element: bool, seed: int) -> tuple[Tensor, Tensor]:
    """Targets of which 40% are drawn at random, by sample or by element, and which they are."""
    generator = Generator().manual_seed(seed)
    wrong = torch.rand(y.shape if per_element else (len(y), 1), generator=generator) < 0.4
    wrong = wrong.expand_as(y)
    return torch.where(wrong & (y != IGNORED), torch.randint(CLASSES, y.shape, generator=generator), y), wrong


def train(reweight: adiw.ADIW, model: nn.Module, x: Tensor, y: Tensor, epochs: int, indexed: bool) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    generator = Generator().manual_seed(0)
    for _ in range(epochs):
        for index in torch.randperm(len(x), generator=generator).split(50):
            reweight(model(x[index]), y[index], index if indexed else None).backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize("divergence", [None, "kl", "mmd", "wasserstein"])
def test_weights_of_sequences_tell_the_wrong_ones(divergence: str | None) -> None:
    torch.manual_seed(0)
    (x, truth), trusted, model = sequences(400, 0), sequences(60, 1), Tagger()
    y, wrong = noisy(truth, False, 2)
    reweight = adiw.ADIW(model, CRITERION, TensorDataset(*trusted), len(x), divergence)
    train(reweight, model, x, y, 12, indexed=True)
    right, bad = reweight.weights[~wrong[:, 0]].mean(), reweight.weights[wrong[:, 0]].mean()
    assert right > 1.5 * bad


@pytest.mark.parametrize("divergence", [None, "kl", "mmd", "wasserstein"])
def test_weights_of_elements_tell_the_wrong_ones(divergence: str | None) -> None:
    """The gradient of an element's loss with respect to a factor of it is its weight over the number of elements."""
    torch.manual_seed(0)
    (x, truth), trusted, model = sequences(1000, 0), sequences(100, 1), Tagger()
    y, wrong = noisy(truth, True, 2)
    factor = torch.ones(50, LENGTH, requires_grad=True)

    def criterion(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        losses = CRITERION(outputs, targets)
        return losses * factor if len(losses) == 50 else losses, targets != IGNORED

    reweight = adiw.ADIW(model, criterion, TensorDataset(*trusted), None, divergence, unit="element")
    train(reweight, model, x, y, 4, indexed=False)
    factor.grad = None
    reweight(model(x[:50]), y[:50]).backward()
    assert factor.grad is not None
    counted = y[:50] != IGNORED
    losses = CRITERION(model(x[:50]), y[:50])
    weights = factor.grad * counted.sum() / losses.detach().clamp_min(1e-12)
    assert weights[~counted].abs().max() == 0
    changed = wrong[:50] & (y[:50] != truth[:50])
    assert weights[counted & ~changed].mean() > 1.5 * weights[changed].mean()


def test_more_elements_than_are_compared() -> None:
    """Ten thousand elements in a batch: each has the weight of the one with the nearest loss among 2,048."""
    torch.manual_seed(0)
    scale = nn.Linear(1, 1, bias=False)
    nn.init.ones_(scale.weight)
    trusted = TensorDataset(torch.rand(50, 200, 1), torch.zeros(50))
    reweight = adiw.ADIW(scale, lambda o, t: o.squeeze(2), trusted, None, unit="element", warmup_steps=0)
    x = torch.cat([torch.rand(30, 200, 1), 5 + torch.rand(20, 200, 1)])
    for _ in range(9):
        loss = reweight(scale(x), torch.zeros(50))
    used = torch.autograd.grad(loss, scale.weight)[0] * 10000
    assert float(used) == pytest.approx(float(x[:30].sum()) * 10000 / 6000, rel=0.02)
    assert reweight.weights.shape == (2048,)


def test_an_element_that_is_not_finite_leaves_its_sample_out() -> None:
    scale = nn.Linear(1, 1, bias=False)
    nn.init.ones_(scale.weight)
    trusted = TensorDataset(torch.rand(50, 4, 1), torch.zeros(50))
    reweight = adiw.ADIW(scale, lambda o, t: o.squeeze(2) + t[:, None], trusted, None, unit="element")
    x = torch.rand(3, 4, 1)
    loss = reweight(scale(x), torch.tensor([0, torch.inf, 0]))
    assert loss.item() == pytest.approx(float(x[[0, 2]].sum()) / 12)
    loss.backward()
    assert scale.weight.grad is not None
    assert float(scale.weight.grad) == pytest.approx(float(x[[0, 2]].sum()) / 12)


@pytest.mark.parametrize("unit", ["sample", "element"])
def test_a_mask_that_hides_everything(unit: Any) -> None:
    torch.manual_seed(0)
    model, (x, y) = Tagger(), sequences(10, 0)
    size = None if unit == "element" else 10
    reweight = adiw.ADIW(model, CRITERION, TensorDataset(*sequences(60, 1)), size, unit=unit)
    index = None if size is None else torch.arange(10)
    for targets in (y, torch.full_like(y, IGNORED), y):
        loss = reweight(model(x), targets, index)
        loss.backward()
        assert loss.isfinite()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
    assert reweight(model(x), torch.full_like(y, IGNORED), index).item() == 0
    assert reweight.summary().nonfinite_train == 0


@pytest.mark.parametrize("unit", ["sample", "element"])
@pytest.mark.parametrize("divergence", [None, "kl"])
def test_batches_without_any_element(divergence: str | None, unit: Any) -> None:
    """Pictures without a box, and sequences of length zero: they add nothing, and the weights stay."""

    def losses_of_boxes(outputs: Tensor, boxes: list[int]) -> list[Tensor]:
        return [row[:number].square() for row, number in zip(outputs, boxes, strict=True)]

    size = None if unit == "element" else 10
    index = () if size is None else (torch.arange(10),)
    settings: dict[str, Any] = {"warmup_steps": 0, "cautious": False, "unit": unit}
    model = nn.Linear(1, 4)
    trusted = TensorDataset(torch.randn(40, 1), torch.arange(40) % 3 + 1)
    reweight = adiw.ADIW(model, losses_of_boxes, trusted, size, divergence, **settings)
    tagger, (x, y) = Tagger(), sequences(10, 0)
    tags = adiw.ADIW(tagger, CRITERION, TensorDataset(*sequences(60, 1)), size, divergence, **settings)
    for number in (3, 0, 3):
        before = reweight.weights.clone(), tags.weights.clone()
        loss = reweight(model(torch.randn(10, 1)), [number] * 10, *index)
        found = tags(tagger(x)[..., :number], y[:, :number], *index)
        (loss + found).backward()
        if number == 0:
            assert loss.item() == found.item() == 0
            torch.testing.assert_close((reweight.weights, tags.weights), before, rtol=0, atol=0)
    assert all(p.grad is not None and p.grad.isfinite().all() for net in (model, tagger) for p in net.parameters())
    assert reweight.summary().nonfinite_train == tags.summary().nonfinite_train == 0


def test_losses_of_length_zero_without_a_mask() -> None:
    model = nn.Linear(1, 1)
    reweight = adiw.ADIW(model, lambda o, t: o[:, :0], TensorDataset(torch.randn(40, 1), torch.zeros(40)), 10)
    with pytest.raises(ValueError, match=r"the batch is empty, losses have shape \(10, 0\)"):
        reweight(model(torch.randn(10, 1)), torch.zeros(10), torch.arange(10))


def test_flat_losses_are_an_error_that_says_the_shape() -> None:
    model, (x, y) = Tagger(), sequences(10, 0)
    reweight = adiw.ADIW(model, lambda o, t: CRITERION(o, t).flatten(), TensorDataset(x, y), 10)
    with pytest.raises(ValueError, match=r"there are 50 losses: return 5 losses for each sample as \(10, \.\.\.\)"):
        reweight(model(x), y, torch.arange(10))


def test_settings_that_elements_do_not_have() -> None:
    model, trusted = Tagger(), TensorDataset(*sequences(60, 1))
    with pytest.raises(ValueError, match="needs num_train=None"):
        adiw.ADIW(model, CRITERION, trusted, 10, unit="element")
    with pytest.raises(ValueError, match="leave transform and exact unset"):
        adiw.ADIW(model, CRITERION, trusted, None, unit="element", exact=True)
    with pytest.raises(ValueError, match='must be "sample" or "element"'):
        adiw.ADIW(model, CRITERION, trusted, None, unit="token")  # type: ignore[arg-type]
