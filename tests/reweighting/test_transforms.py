"""From losses or hidden-layer outputs to z, and from targets to groups."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from adiw import Features, class_prior_ratio
from adiw.reweighting.transforms import LossValue


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, 5), nn.Tanh()), nn.Linear(5, 3))


def unit_rows(x: Tensor) -> Tensor:
    return x / x.square().sum(1, keepdim=True).sqrt()


def test_the_loss_itself() -> None:
    z, group = LossValue().apply(torch.tensor([0.5, 2.0]), "any targets", None)
    assert z.tolist() == [[0.5], [2.0]]
    assert group is None
    assert LossValue().class_factor(group) is None


@pytest.mark.parametrize("by", ["name", "module"])
def test_the_output_of_a_layer(by: str) -> None:
    model = network()
    features = Features("2.1" if by == "name" else model[2][1], num_classes=3)
    features.attach(model)
    x, y = torch.randn(7, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    model(x)
    z, group = features.apply(torch.zeros(7), y, None)
    torch.testing.assert_close(z, unit_rows(model[:3](x)).detach())
    assert not z.requires_grad
    assert torch.equal(group, y)


def test_features_in_the_call_replace_the_layer_and_are_flattened() -> None:
    model = network()
    features = Features("0")
    features.attach(model)
    model(torch.randn(2, 4))
    passed = torch.randn(2, 3, 2, requires_grad=True)
    z, group = features.apply(torch.zeros(2, dtype=torch.float64), None, passed)
    assert z.dtype == torch.float64
    assert not z.requires_grad
    torch.testing.assert_close(z.float(), unit_rows(passed.detach().flatten(1)))
    assert group is None  # without classes all samples are one group


def test_an_output_is_used_once() -> None:
    model = network()
    features = Features("0")
    features.attach(model)
    model(torch.randn(2, 4))
    features.apply(torch.zeros(2), None, None)
    with pytest.raises(ValueError, match="its layer has not run since the last call"):
        features.apply(torch.zeros(2), None, None)


def test_without_layer_and_without_features() -> None:
    with pytest.raises(ValueError, match=r"it has no layer\); run the model first, or pass features="):
        Features().apply(torch.zeros(2), None, None)


def test_an_output_of_another_batch() -> None:
    model = network()
    features = Features("0")
    features.attach(model)
    model(torch.randn(3, 4))
    with pytest.raises(ValueError, match="3 hidden-layer outputs for 2 losses: call reweight right after"):
        features.apply(torch.zeros(2), None, None)


def test_an_unknown_layer_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no layer 'fc'; it has 0, 1, 2, 2\.0, 2\.1, 3"):
        Features("fc").attach(network())
    with pytest.raises(ValueError, match="not part of the model"):
        Features(nn.Linear(4, 6)).attach(network())


def test_attaching_to_a_second_model_removes_the_first_hook() -> None:
    first, second = network(), network()
    features = Features("0")
    features.attach(first)
    features.attach(second)
    first(torch.randn(2, 4))
    assert features.take_output() is None
    second(torch.randn(2, 4))
    assert features.take_output() is not None


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1e30, 3e37])
def test_features_of_any_size_have_length_one(size: float) -> None:
    z = Features().apply(torch.zeros(2), None, size * torch.tensor([[3.0, 4.0], [0.0, -1.0]])).z
    torch.testing.assert_close(z, torch.tensor([[0.6, 0.8], [0.0, -1.0]]))


def test_a_row_of_zeros_stays_zero_and_a_nonfinite_row_stays_nonfinite() -> None:
    passed = torch.tensor([[0.0, 0.0], [3.0, 4.0], [float("nan"), 1.0], [float("inf"), 1.0]])
    z, _ = Features().apply(torch.zeros(4), None, passed)
    torch.testing.assert_close(z[:2], torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    assert not z[2:].isfinite().all(1).any()


@pytest.mark.parametrize(
    "targets", [torch.zeros(2), torch.zeros(2, 3, dtype=torch.long), None, torch.zeros(3, dtype=torch.long)]
)
def test_classes_need_one_integer_per_sample(targets: Tensor | None) -> None:
    with pytest.raises(ValueError, match=r"integer targets \(n,\), one class per sample; without class_prior"):
        Features(num_classes=3).apply(torch.zeros(2), targets, torch.randn(2, 4))


def test_an_unknown_class_has_no_group() -> None:
    _, group = Features(num_classes=2).apply(torch.zeros(4), torch.tensor([0, 1, 2, -100]), torch.randn(4, 3))
    assert group.tolist() == [0, 1, -1, -1]


def test_the_class_prior_ratio_is_a_factor_of_each_sample() -> None:
    features = Features(class_prior=torch.tensor([0.5, 2.0]))
    assert features.num_groups == 2
    assert features.minimum == 2
    factor = features.class_factor(torch.tensor([1, 0, -1]))
    assert factor is not None
    assert factor.tolist() == [2.0, 0.5, 1.0]
    assert Features(num_classes=2).class_factor(torch.tensor([0])) is None


def test_invalid_class_priors() -> None:
    with pytest.raises(ValueError, match="one ratio per class"):
        Features(class_prior=torch.tensor([[1.0]]))
    with pytest.raises(ValueError, match="one ratio per class"):
        Features(class_prior=torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"num_classes is 3, but class_prior has 2"):
        Features(class_prior=torch.ones(2), num_classes=3)


def test_the_ratio_from_labels() -> None:
    train, test = torch.tensor([0, 0, 0, 1, 1, 3]), torch.tensor([0, 1, 2, 3])
    ratio = class_prior_ratio(train, test, 4)
    torch.testing.assert_close(ratio, torch.tensor([0.25 / 0.5, 0.25 / (1 / 3), 0.0, 0.25 / (1 / 6)]))
    # Class 2, a quarter of the test labels, has no training sample.
    assert float((ratio[train]).mean()) == pytest.approx(0.75)


def test_a_layer_and_labels_of_the_wrong_kind() -> None:
    with pytest.raises(TypeError, match="layer must be a module of the model, its dotted name, or None, got 3"):
        Features(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="test_labels must be below num_classes, 2, got 5"):
        class_prior_ratio(torch.tensor([0, 1]), torch.tensor([5]), 2)
