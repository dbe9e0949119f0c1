"""Methods and candidates: each runs on each kind of task, and does what its name says."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.gauntlet import alternatives, methods
from benchmarks.gauntlet.alternatives import Outcome
from benchmarks.gauntlet.candidates import (
    CANDIDATES,
    ComparableLosses,
    Weighting,
    shrunken_means,
    weighted_prior_ratio,
)
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.scoring import score
from benchmarks.gauntlet.task import Length, Sources, Split
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.training import batches, criterion_for, fit, mean_of

SHORT = Length(steps=40, batch=32)


def split_of(name: str) -> Split:
    return TASKS[name].draw(Sources(), 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", ["wine", "diabetes-units"])
def test_every_method_predicts_for_every_test_sample(method: str, task: str) -> None:
    if not METHODS[method].fits(TASKS[task]):
        pytest.skip(f"{method} is not for a {TASKS[task].kind}")
    if method == "cleanlab":
        pytest.importorskip("cleanlab")
    split = split_of(task)
    torch.manual_seed(0)
    outcome = METHODS[method].run(split, SHORT)
    assert outcome.predicted.shape == split.y_test.shape
    assert outcome.predicted.isfinite().all()
    if outcome.weights is not None:
        assert outcome.weights.shape == split.y_train.shape
        assert (outcome.weights >= 0).all()


def test_batches_are_epochs_without_the_incomplete_one() -> None:
    found = list(batches(10, 4, steps=5))
    assert [len(index) for index in found] == [4] * 5
    assert len(torch.cat(found[:2]).unique()) == 8
    assert len(next(iter(batches(3, 4, 1)))) == 3


def test_fitting_learns_clean_samples() -> None:
    split = split_of("digits-clean")
    torch.manual_seed(0)
    outcome = alternatives.uniform(split, Length(steps=300, batch=64))
    assert score([split], [outcome])["accuracy"] > 90


def test_early_stopping_returns_the_network_that_was_best_on_the_trusted_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A network that only gets worse: the first check is the best."""
    split = split_of("wine")
    made: list[Any] = []

    def spoil(network: nn.Module, *_: Any) -> nn.Module:
        check = _[-1]
        for step in (1, 2):
            check(step)
            made.append([p.clone() for p in network.parameters()])
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.mul_(-100)
        return network

    kept: list[nn.Module] = []
    monkeypatch.setattr(alternatives, "fit", spoil)
    monkeypatch.setattr(alternatives, "outcome_of", lambda split, network: kept.append(network))
    torch.manual_seed(2)
    alternatives.early_stopping(split, Length(steps=2, batch=32))
    losses = []
    for parameters in made:
        network = split.network()
        for own, value in zip(network.parameters(), parameters, strict=True):
            own.data = value
        outputs = network(split.x_trusted)
        errors = (outputs.argmax(1) != split.y_trusted).float().mean().item()
        losses.append((errors, criterion_for(3)(outputs, split.y_trusted).mean().item()))
    best = made[losses.index(min(losses))]
    assert all(torch.equal(a, b) for a, b in zip(kept[0].parameters(), best, strict=True))


def test_cleanlab_drops_wrong_labels_more_often_than_right_ones() -> None:
    pytest.importorskip("cleanlab")
    split = split_of("digits-symmetric")
    torch.manual_seed(0)
    kept = alternatives.cleanlab(split, Length(steps=200, batch=64)).weights
    assert kept is not None
    assert kept[split.wrong].mean() < 0.5 < kept[~split.wrong].mean()


def test_out_of_fold_probabilities_are_of_networks_that_have_not_seen_the_sample() -> None:
    """Labels that nothing in the inputs explains are not predicted, however long a network trains."""
    split = split_of("digits-clean")
    torch.manual_seed(0)
    random = replace(split, y_train=torch.randint(10, split.y_train.shape))
    chances = alternatives.out_of_fold(random, Length(steps=600, batch=64))
    torch.testing.assert_close(chances.sum(1), torch.ones(len(chances)))
    assert (chances.argmax(1) == random.y_train).float().mean() < 0.2


def test_joined_training_sets_hold_the_trusted_samples_once() -> None:
    split = split_of("wine")
    x, y = alternatives.joined(split)
    assert len(x) == len(y) == len(split.y_train) + len(split.y_trusted)
    assert torch.equal(x[len(split.y_train) :], split.x_trusted)
    assert torch.equal(y[len(split.y_train) :], split.y_trusted)


def test_a_candidate_without_extras_is_the_loop_of_the_readme() -> None:
    """The same loss as reweight(model(x), y, index), step by step, with weights that have moved."""
    split = split_of("wine")
    settings = replace(CANDIDATES["kl-join"], join=False)
    results = []
    for run in (partial(methods.divergence, "kl", cautious=False), partial(methods.candidate, settings)):
        torch.manual_seed(0)
        results.append(run(split=split, length=SHORT))
    assert results[0].weights is not None
    assert results[0].weights.std() > 0.1
    torch.testing.assert_close(results[1].weights, results[0].weights)
    assert torch.equal(results[1].predicted, results[0].predicted)


def test_losses_are_divided_by_or_less_the_trusted_mean_of_their_class() -> None:
    outputs, targets = torch.tensor([4.0, 9.0]), torch.tensor([0, 1])

    def first(outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs

    for compare, expected in (("ratio", [2.0, 3.0]), ("difference", [2.0, 6.0]), (None, [4.0, 9.0])):
        comparable = ComparableLosses(first, compare)  # type: ignore[arg-type]
        assert torch.equal(comparable(outputs, targets), outputs)  # before the trusted samples were evaluated
        comparable.means = torch.tensor([2.0, 3.0])
        assert comparable(outputs, targets).tolist() == expected


def test_shrunken_means_by_hand() -> None:
    means = shrunken_means(torch.tensor([1.0, 1.0, 4.0]), torch.tensor([0, 0, 1]), 3)
    torch.testing.assert_close(means, torch.tensor([(2 + 6) / 5, (4 + 6) / 4, 2.0]))


def test_the_weighted_prior_counts_what_the_weights_have_kept() -> None:
    """Class 1 has most given labels, but the weights keep as many of either class: no factor is needed."""
    y_train, y_trusted = torch.tensor([0] * 10 + [1] * 30), torch.tensor([0, 1] * 20)
    weights = torch.cat([torch.ones(20), torch.zeros(20)])
    torch.testing.assert_close(weighted_prior_ratio(weights, y_train, y_trusted, 2), torch.ones(2))
    uniform = weighted_prior_ratio(torch.ones(40), y_train, y_trusted, 2)
    torch.testing.assert_close(uniform, torch.tensor([25 / 15, 25 / 35]))


def test_the_prior_multiplies_the_loss() -> None:
    """During the warm-up all weights are one, so the loss is the mean of factor * loss."""
    split = split_of("wine")
    network = split.network()
    candidate = replace(CANDIDATES["mmd-ratio-prior"], join=False)
    weighting = Weighting(candidate, network, split.y_train, split.x_trusted, split.y_trusted, 3)
    index = torch.arange(30)
    outputs, targets = network(split.x_train[index]), split.y_train[index]
    loss = weighting(outputs, targets, index)
    shares = [torch.bincount(y, minlength=3) / len(y) for y in (split.y_trusted, split.y_train)]
    expected = (shares[0] / shares[1])[targets] * criterion_for(3)(outputs, targets)
    torch.testing.assert_close(loss, expected.mean())
    assert loss.requires_grad


def test_joined_trusted_samples_weigh_at_least_one_with_a_floor() -> None:
    split = split_of("wine")
    _, y = alternatives.joined(split)
    weighting = Weighting(CANDIDATES["mmd-floor"], split.network(), y, split.x_trusted, split.y_trusted, 3)
    weighting.reweight = FixedWeights(torch.full((len(y),), 0.5))  # type: ignore[assignment]
    outputs = torch.zeros(2, 3)
    index = torch.tensor([0, len(y) - 1])  # a training sample and a trusted one
    loss = weighting(outputs, y[index], index)
    assert loss.item() == pytest.approx((0.5 + 1.0) / 2 * math.log(3))


class FixedWeights:
    """Stands in for an ADIW whose estimate is known."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def __call__(self, outputs: Tensor, targets: Tensor, index: Tensor) -> Tensor:
        return outputs.sum()


def test_metrics_by_hand() -> None:
    split = replace(
        split_of("wine"),
        y_test=torch.tensor([0, 0, 0, 1]),
        y_train=torch.tensor([0, 1, 1]),
        truth=torch.tensor([0, 1, 0]),
        focus=torch.tensor([True, False, False, True]),
    )
    outcome = Outcome(torch.tensor([0, 0, 1, 0]), torch.tensor([1.0, 0.5, 0.7]))
    found = score([split], [outcome])
    assert found["accuracy"] == 50
    assert found["balanced_accuracy"] == pytest.approx(100 / 3)
    assert found["focus_recall"] == 50
    assert found["wrong_auroc"] == 0.5


def test_an_rmse_is_in_the_units_of_the_source_and_pooled_over_splits() -> None:
    split = replace(split_of("diabetes-units"), y_test=torch.zeros(2), unit=10.0)
    outcomes = [Outcome(torch.tensor([1.0, 1.0])), Outcome(torch.tensor([0.0, 0.0]))]
    assert score([split, split], outcomes)["rmse"] == pytest.approx((2 * 100 / 4) ** 0.5)


def test_uniform_is_the_mean_of_the_losses() -> None:
    outputs, targets = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    expected = nn.functional.cross_entropy(outputs, targets)
    torch.testing.assert_close(mean_of(criterion_for(3))(outputs, targets, torch.arange(5)), expected)
    assert fit(nn.Linear(3, 3), outputs, targets, mean_of(criterion_for(3)), SHORT) is not None
