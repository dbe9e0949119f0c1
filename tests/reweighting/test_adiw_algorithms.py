"""ADIW with a fixed model against the loops of Algorithms 1 and 2 in tests/oracles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Features
from adiw.divergences import KL, MMD, Squared, Wasserstein
from tests.oracles import algorithms as alg
from tests.oracles import reference as ref

WIDTH, SEED = 0.6, 7
NUM_TRAIN, BATCH, NUM_VAL, VAL_BATCH = 20, 6, 11, 5
Array = ref.Array


class Rows(nn.Module):
    """A model without parameters: the output of a row is the row."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def first_column(outputs: Tensor, targets: object) -> Tensor:
    return outputs[:, 0]


def make(x_val: Array, y_val: Array, divergence: Any, **settings: Any) -> ADIW:
    val_set = TensorDataset(torch.tensor(x_val), torch.tensor(y_val))
    generator = Generator().manual_seed(SEED)
    settings = {"val_batch": VAL_BATCH, "warmup_steps": 0, "generator": generator, "cautious": False, **settings}
    return ADIW(Rows(), first_column, val_set, NUM_TRAIN, divergence, **{"val_every": 1, **settings}).double()


def val_indices(steps: int, batch: int = VAL_BATCH) -> list[Array]:
    """The validation samples that each step reads: the stream cycles through the set in one order."""
    order = torch.randperm(NUM_VAL, generator=Generator().manual_seed(SEED)).numpy()
    return [order[(batch * step + np.arange(batch)) % NUM_VAL] for step in range(steps)]


def epochs(count: int, seed: int = 0) -> list[Array]:
    """Shuffled batches of every epoch; the last of each is smaller."""
    rng = np.random.default_rng(seed)
    return [
        batch for _ in range(count) for batch in np.split(rng.permutation(NUM_TRAIN), range(BATCH, NUM_TRAIN, BATCH))
    ]


def weights_in_loss(reweight: ADIW, x: Array, y: Array, index: Array, **more: Any) -> Array:
    outputs = torch.tensor(x).requires_grad_()
    loss = reweight(outputs, torch.tensor(y), torch.tensor(index), **more)
    loss.backward()
    weights = outputs.grad[:, 0] * len(x)  # type: ignore[index]
    torch.testing.assert_close(loss.detach(), (weights * outputs[:, 0]).mean().detach())
    return weights.numpy()


# One-step functions of each divergence, in the oracle's terms.


def mmd_gradient(w: Array, z: Array, v: Array) -> Array:
    return ref.mmd_gradient(w, z, v, WIDTH)


def mmd_project(w: Array, z: Array, v: Array) -> Array:
    slack = (np.sqrt(len(w)) - 1) / np.sqrt(len(w))
    return ref.project_qp(w, 50.0, np.full(len(w), 1 / len(w)), 1 - slack, 1 + slack)


def kl_gradient(b: Array, z: Array, v: Array) -> Array:
    return ref.kl_gradient(b, z, v, WIDTH)


def kl_project(b: Array, z: Array, v: Array) -> Array:
    b = np.maximum(b, 0.0)
    return b / (b @ ref.psi_bar(z, v, WIDTH))


def squared_gradient(b: Array, z: Array, v: Array) -> Array:
    return ref.squared_gradient(b, z, v, WIDTH, 1e-3)


def squared_project(b: Array, z: Array, v: Array) -> Array:
    return np.maximum(b, 0.0)


def basis(z: Array, v: Array) -> Array:
    return ref.gaussian(z, v, WIDTH)


def start_unseen(store: Array, members: Array, z: Array, v: Array) -> None:
    """Set coefficients without an estimate to one value, such that the mean weight is one."""
    fresh = np.isnan(store[members])
    store[members[fresh]] = 1 / ref.psi_bar(z, v, WIDTH).sum()


PARAMETRIC: dict[str, tuple[Any, Callable[..., Array], Callable[..., Array]]] = {
    "kl": (KL(width=WIDTH, step_size=0.3), kl_gradient, kl_project),
    "squared": (Squared(width=WIDTH, step_size=0.2, penalty=1e-3), squared_gradient, squared_project),
}


@pytest.mark.parametrize("steps", [1, 3])
def test_algorithm_1_with_weights(steps: int) -> None:
    rng = np.random.default_rng(1)
    x, x_val = rng.exponential(1.0, (NUM_TRAIN, 1)), rng.exponential(0.5, (NUM_VAL, 1))
    reweight = make(x_val, np.zeros(NUM_VAL), MMD(width=WIDTH, step_size=0.02, step="plain"), steps=steps)
    store = np.ones(NUM_TRAIN)
    batches = epochs(3)
    for index, val_index in zip(batches, val_indices(len(batches)), strict=True):
        store, expected = alg.algorithm1(
            store, index, x[index], x_val[val_index], mmd_gradient, mmd_project, 0.02, steps
        )
        weights = weights_in_loss(reweight, x[index], np.zeros(len(index)), index)
        np.testing.assert_allclose(weights, expected, atol=1e-8)
        np.testing.assert_allclose(reweight.weights.numpy(), store, atol=1e-8)
    assert store.std() > 0.05


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("name", PARAMETRIC)
def test_algorithm_1_with_coefficients(name: str, steps: int) -> None:
    divergence, gradient, project = PARAMETRIC[name]
    rng = np.random.default_rng(2)
    x, x_val = rng.exponential(1.0, (NUM_TRAIN, 1)), rng.exponential(0.5, (NUM_VAL, 1))
    reweight = make(x_val, np.zeros(NUM_VAL), divergence, steps=steps)
    store, kept = np.full(NUM_VAL, np.nan), np.ones(NUM_TRAIN)
    batches = epochs(3)
    for index, val_index in zip(batches, val_indices(len(batches)), strict=True):
        z, v = x[index], x_val[val_index]
        start_unseen(store, val_index, z, v)
        store, expected = alg.algorithm1_parametric(
            store, val_index, z, v, gradient, project, basis, divergence.step_size, steps
        )
        weights = weights_in_loss(reweight, z, np.zeros(len(index)), index)
        np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-9)
        kept[index] = expected
    np.testing.assert_allclose(reweight.estimator.coefficients.numpy(), store, rtol=1e-8)
    np.testing.assert_allclose(reweight.weights.numpy(), kept, rtol=1e-8)
    assert kept.std() > 0.05


def test_algorithm_1_with_the_wasserstein_distance() -> None:
    """The batches are the same in each epoch: the oracle's critic needs stored weights with a mean of one.

    With 10 training and 7 validation samples the distribution functions are never equal; where they are, the slope of
    the critic is not unique.
    """
    rng = np.random.default_rng(3)
    x, x_val = rng.exponential(1.0, (NUM_TRAIN, 1)), rng.exponential(0.5, (NUM_VAL, 1))
    reweight = make(x_val, np.zeros(NUM_VAL), Wasserstein(scale=1.0, step_size=0.2), val_batch=7)

    def gradient(w: Array, z: Array, v: Array) -> Array:
        return -ref.wasserstein_critic_1d(w, z, v)[0]

    def project(w: Array, z: Array, v: Array) -> Array:
        return ref.project_qp(w, np.inf, np.full(len(w), 1 / len(w)), 1.0, 1.0)

    store, batches = np.ones(NUM_TRAIN), [np.arange(0, 10), np.arange(10, 20)] * 3
    for index, val_index in zip(batches, val_indices(len(batches), 7), strict=True):
        store, expected = alg.algorithm1(store, index, x[index], x_val[val_index], gradient, project, 0.2, 1)
        weights = weights_in_loss(reweight, x[index], np.zeros(len(index)), index)
        np.testing.assert_allclose(weights, expected, atol=1e-7)
    np.testing.assert_allclose(reweight.weights.numpy(), store, atol=1e-7)


RATIO = np.array([0.5, 2.0, 1.5, 0.7])


def classwise_problem(seed: int) -> tuple[Array, Array, Array, Array]:
    """Class 3 is rare on both sides, so that many batches skip it."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, NUM_TRAIN, p=[0.4, 0.35, 0.15, 0.1])
    y_val = rng.choice(4, NUM_VAL, p=[0.45, 0.35, 0.1, 0.1])
    return rng.normal(size=(NUM_TRAIN, 3)), y, rng.normal(0.7, 1.0, (NUM_VAL, 3)), y_val


def features_forward(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor, Tensor]:
    return model(batch[0]), batch[1], batch[0]


def estimated(y: Array, y_val: Array) -> Array:
    """Whether each sample's class has two samples on both sides."""
    return np.array([min((y == label).sum(), (y_val == label).sum()) >= 2 for label in y])


@pytest.mark.parametrize("steps", [1, 3])
def test_algorithm_2_with_weights(steps: int) -> None:
    x, y, x_val, y_val = classwise_problem(4)
    transform = Features(class_prior=torch.tensor(RATIO))
    reweight = make(
        x_val,
        y_val,
        MMD(width=WIDTH, step_size=0.05, step="plain"),
        steps=steps,
        transform=transform,
        forward=features_forward,
    )
    store, batches, kinds = np.ones(NUM_TRAIN), epochs(4), set()
    for index, val_index in zip(batches, val_indices(len(batches)), strict=True):
        z, v = x[index], x_val[val_index]
        store, expected = alg.algorithm2_weights(
            store, index, z, y[index], v, y_val[val_index], RATIO, mmd_gradient, mmd_project, 0.05, steps
        )
        weights = weights_in_loss(reweight, z, y[index], index, features=torch.tensor(z))
        np.testing.assert_allclose(weights, expected, atol=1e-7)
        np.testing.assert_allclose(reweight.weight_state.estimates.numpy(), store, atol=1e-7)
        kinds.add((estimated(y[index], y_val[val_index]).any(), estimated(y[index], y_val[val_index]).all()))
    assert (True, False) in kinds  # batches in which some classes were skipped
    assert store.std() > 0.05


@pytest.mark.parametrize("name", PARAMETRIC)
def test_algorithm_2_with_coefficients(name: str) -> None:
    """Samples of a skipped class keep their weights. The paper does not define this case; the oracle has variants."""
    divergence, gradient, project = PARAMETRIC[name]
    x, y, x_val, y_val = classwise_problem(5)
    reweight = make(
        x_val, y_val, divergence, transform=Features(class_prior=torch.tensor(RATIO)), forward=features_forward
    )
    store, kept, batches, skipped = np.full(NUM_VAL, np.nan), np.ones(NUM_TRAIN), epochs(4), 0
    for index, val_index in zip(batches, val_indices(len(batches)), strict=True):
        z, v, labels, val_labels = x[index], x_val[val_index], y[index], y_val[val_index]
        for label in range(4):
            train, val = labels == label, val_labels == label
            if train.sum() >= 2 and val.sum() >= 2:
                unit = alg.l2_normalise
                start_unseen(store, val_index[val], unit(z[train]), unit(v[val]))
        store, expected = alg.algorithm2_parametric(
            store, val_index, z, labels, v, val_labels, RATIO, gradient, project, basis, divergence.step_size, 1
        )
        done = estimated(labels, val_labels)
        weights = weights_in_loss(reweight, z, labels, index, features=torch.tensor(z))
        np.testing.assert_allclose(weights[done], expected[done], rtol=1e-8)
        kept[index[done]] = expected[done] / RATIO[labels[done]]
        if done.any():
            np.testing.assert_allclose(weights, RATIO[labels] * kept[index], rtol=1e-8)
            skipped += int((~done).sum())
        else:
            assert not weights.any()
    assert skipped > 0
    np.testing.assert_allclose(reweight.weight_state.estimates.numpy(), kept, rtol=1e-8)
    np.testing.assert_allclose(reweight.estimator.coefficients.numpy(), store, rtol=1e-8)


def test_the_class_prior_ratio_does_not_compound() -> None:
    """z is the same on both sides, so the estimate stays one and the weight in the loss is r_y in every epoch."""
    y = np.array([0, 0, 1, 1])
    x = np.ones((4, 2))
    transform = Features(class_prior=torch.tensor([0.25, 3.0], dtype=torch.float64))
    reweight = make(x, y, KL(), transform=transform, forward=features_forward)
    for _ in range(5):
        weights = weights_in_loss(reweight, x, y, np.arange(4), features=torch.tensor(x))
        np.testing.assert_allclose(weights, [0.25, 0.25, 3.0, 3.0], rtol=1e-9)
    np.testing.assert_allclose(reweight.weights[:4].numpy(), [0.25, 0.25, 3.0, 3.0], rtol=1e-9)
    np.testing.assert_allclose(reweight.weight_state.estimates[:4].numpy(), 1.0, rtol=1e-9)


@pytest.mark.parametrize("divergence", [KL(), MMD(width=WIDTH), Squared(width=WIDTH), Wasserstein(pretrain=0)])
def test_a_batch_in_which_all_classes_are_skipped_has_weights_of_zero_and_stores_nothing(divergence: Any) -> None:
    x, y, x_val, y_val = classwise_problem(6)
    transform = Features(num_classes=4)
    reweight = make(x_val, y_val, divergence, transform=transform, forward=features_forward)
    index = np.arange(BATCH)
    weights_in_loss(reweight, x[index], y[index], index, features=torch.tensor(x[index]))
    before = {key: value.clone() for key, value in reweight.state_dict().items() if "slots" in key}
    alone = np.array([0, 1, 2, 3])  # one sample of each class
    weights = weights_in_loss(reweight, x[alone], alone, alone, features=torch.tensor(x[alone]))
    assert not weights.any()
    after = {key: value for key, value in reweight.state_dict().items() if "slots" in key}
    torch.testing.assert_close(after, before, rtol=0, atol=0, equal_nan=True)


def test_a_thousand_classes_in_one_call() -> None:
    """The same weights as with two classes: every class is estimated separately."""
    rng = np.random.default_rng(8)
    x, x_val, few = rng.normal(size=(12, 3)), rng.normal(size=(NUM_VAL, 3)), np.arange(12) % 2
    few_val = np.arange(NUM_VAL) % 2
    results = []
    for low, high, classes in ((0, 1, 2), (3, 997, 1000)):
        y, y_val = np.where(few == 0, low, high), np.where(few_val == 0, low, high)
        transform = Features(num_classes=classes)
        reweight = make(
            x_val, y_val, MMD(width=WIDTH), transform=transform, forward=features_forward, val_batch=NUM_VAL
        )
        results.append(weights_in_loss(reweight, x, y, np.arange(12), features=torch.tensor(x)))
    np.testing.assert_allclose(results[0], results[1], atol=1e-12)
    assert results[0].std() > 0.01


@pytest.mark.parametrize("by", ["name", "module"])
def test_a_layer_and_features_in_the_call_give_the_same_weights(by: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    x, y, x_val, y_val = (torch.tensor(array) for array in classwise_problem(9))
    criterion, val_set = nn.CrossEntropyLoss(reduction="none"), TensorDataset(x_val, y_val)

    def run(transform: Features, forward: Any, passed: bool) -> Tensor:
        generator = Generator().manual_seed(SEED)
        reweight = ADIW(
            model,
            criterion,
            val_set,
            NUM_TRAIN,
            warmup_steps=0,
            generator=generator,
            transform=transform,
            forward=forward,
        ).double()
        for index in (torch.arange(12), torch.arange(8, 20)):
            outputs = model(x[index])
            reweight(outputs, y[index], index, features=model[:2](x[index]) if passed else None)
        return reweight.weights

    layer = "1" if by == "name" else model[1]
    hooked = run(Features(layer, num_classes=4), None, passed=False)
    passed = run(Features(num_classes=4), lambda m, b: (m(b[0]), b[1], m[:2](b[0])), passed=True)
    torch.testing.assert_close(hooked, passed)
    assert hooked.std() > 0.01


def test_layers_without_output() -> None:
    model, val_set = nn.Linear(3, 4), TensorDataset(torch.randn(5, 3), torch.arange(5) % 4)
    criterion = nn.CrossEntropyLoss(reduction="none")
    with pytest.raises(ValueError, match="the model has no layer 'fc'"):
        ADIW(model, criterion, val_set, 9, transform=Features("fc"))
    reweight = ADIW(model, criterion, val_set, 9, transform=Features(model))
    with pytest.raises(ValueError, match="its layer has not run since the last call"):
        reweight(torch.zeros(4, 4), torch.arange(4), torch.arange(4))
    without = ADIW(model, criterion, val_set, 9, transform=Features())
    with pytest.raises(ValueError, match="it has no layer"):
        without(model(torch.randn(4, 3)), torch.arange(4), torch.arange(4))
