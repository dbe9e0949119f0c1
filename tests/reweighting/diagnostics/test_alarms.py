"""Each alarm is raised by figures that show the fault, and by none that do not."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw.divergences import KL
from adiw.reweighting.diagnostics import alarms, alarms_by_class


def names(found: list[alarms.Alarm]) -> list[str]:
    return [alarm.name for alarm in found]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ((800.0, 1.0, 1000, 0.0, None), []),
        ((800.0, 1.0, 1000, 0.1, 2.0), []),
        ((40.0, 1.0, 1000, 0.0, None), ["effective sample size"]),
        ((800.0, 1.0, 1000, 0.6, 1.5), ["weights at their bound"]),
        ((800.0, 30.0, 1000, 0.0, None), ["diverging weights"]),
        ((800.0, 0.01, 1000, 0.0, None), ["diverging weights"]),
        ((math.nan, math.nan, 1000, 0.0, None), ["diverging weights"]),
    ],
)
def test_statistics_of_the_weights(figures: Any, expected: list[str]) -> None:
    assert names(alarms.weight_alarms(*figures)) == expected


def test_a_divergence_that_is_not_finite() -> None:
    assert names(alarms.objective_alarms(math.inf)) == ["diverging divergence"]
    assert names(alarms.objective_alarms(math.nan)) == ["diverging divergence"]
    assert alarms.objective_alarms(-3.0) == []


LABELS = torch.arange(200) % 4


def test_one_class_for_all_predictions_is_a_collapse() -> None:
    found = alarms.prediction_alarms(torch.zeros(200, dtype=torch.long), LABELS, ["cat", "dog", "owl", "fox"])
    assert names(found) == ["collapsed"]
    assert "class cat is predicted for 100% of the samples, but 25% of them have this label" in found[0].message


def test_a_class_that_most_samples_have_is_predicted_as_often() -> None:
    labels = (torch.arange(100) < 3).long()
    assert alarms.prediction_alarms(torch.zeros(100, dtype=torch.long), labels) == []
    assert alarms.collapse(torch.tensor([98, 2]), torch.tensor([97, 3]), 97) == []


def test_a_rare_class_that_is_predicted_too_rarely_is_no_collapse() -> None:
    assert alarms.collapse(torch.tensor([9650, 350]), torch.tensor([9400, 600]), 9500) == []
    assert names(alarms.collapse(torch.tensor([9850, 150]), torch.tensor([9400, 600]), 9450)) == ["collapsed"]


@pytest.mark.parametrize("others", [8, 14, 18])
def test_a_class_of_one_in_twenty_that_is_never_predicted_is_no_collapse(others: int) -> None:
    """19 and more of 200 labels are not of the most frequent class in 0.6% of the draws."""
    assert alarms.collapse(torch.tensor([200, 0]), torch.tensor([200 - others, others]), 200 - others) == []
    assert names(alarms.collapse(torch.tensor([200, 0]), torch.tensor([181, 19]), 181)) == ["collapsed"]


def test_few_samples_do_not_hide_a_collapse() -> None:
    """Of 160 predictions, 150 for one class may be those of a network that predicts it in 96% of the cases."""
    assert names(alarms.collapse(torch.tensor([150, 10]), torch.tensor([126, 34]), 128)) == ["collapsed"]
    assert alarms.collapse(torch.tensor([143, 17]), torch.tensor([122, 38]), 128) == []
    assert alarms.collapse(torch.tensor([15000, 1000]), torch.tensor([12600, 3400]), 12800) == []


def test_less_than_the_majority_is_a_collapse() -> None:
    found = alarms.collapse(torch.tensor([6000, 4000]), torch.tensor([7500, 2500]), 7200)
    assert names(found) == ["collapsed"]
    assert "72.0%, is below the 75.0% of always predicting class 0:" in found[0].message
    assert alarms.collapse(torch.tensor([60, 40]), torch.tensor([75, 25]), 72) == []  # too few samples to say


def test_predicted_classes_far_from_the_labels() -> None:
    predicted = LABELS.clone()
    predicted[(LABELS == 2) & (torch.arange(200) % 8 == 2)] = 1  # half of class 2
    assert names(alarms.prediction_alarms(predicted, LABELS)) == ["predicted classes"]
    generator = torch.Generator().manual_seed(0)
    random = torch.where(torch.rand(200, generator=generator) < 0.6, LABELS, LABELS.roll(1))
    assert alarms.prediction_alarms(random, LABELS) == []


def checks(*accuracies: float, samples: int = 100) -> Tensor:
    return torch.stack([torch.arange(samples) < accuracy * samples for accuracy in accuracies])


@pytest.mark.parametrize(
    ("trusted", "train", "expected"),
    [
        ((0.9, 0.92, 0.85, 0.8, 0.7, 0.7), (0.6, 0.6, 0.7, 0.8, 0.9, 0.95), ["memorising"]),
        ((0.9, 0.92, 0.85, 0.8, 0.7, 0.7), (0.9, 0.9, 0.8, 0.7, 0.6, 0.6), []),  # both fall: not memorising
        ((0.6, 0.7, 0.8, 0.85, 0.9, 0.9), (0.6, 0.6, 0.7, 0.8, 0.9, 0.95), []),
        ((0.92, 0.9, 0.91, 0.9, 0.91, 0.91), (0.6, 0.6, 0.7, 0.8, 0.9, 0.95), []),
        ((0.9, 0.5), (0.5, 0.9), []),  # too few checks
    ],
)
def test_accuracy_that_falls_while_that_of_training_rises(
    trusted: tuple[float, ...], train: tuple[float, ...], expected: list[str]
) -> None:
    assert names(alarms.memorising(checks(*trusted), train)) == expected


def class_alarms(weights: Tensor, labels: Tensor, predicted: Tensor, trusted: Tensor) -> list[alarms.Alarm]:
    right = alarms_by_class.right_labels(labels, predicted, trusted, trusted)
    return alarms_by_class.class_alarms(weights, labels, predicted, trusted, right)


def test_weights_that_follow_a_class() -> None:
    labels = torch.arange(1000) % 4
    trusted = torch.arange(200) % 4
    follow = torch.where(labels == 3, 3.0, 0.4)
    found = class_alarms(follow, labels, labels, trusted)
    assert names(found) == ["weights follow a class"]
    assert "class 3 has 71% of the weight, but 25% of the trusted samples" in found[0].message
    assert class_alarms(torch.ones(1000), labels, labels, trusted) == []
    mostly_three = torch.cat([trusted, torch.full((200,), 3)])  # the trusted samples have this class as often
    assert class_alarms(follow, labels, labels, mostly_three) == []


def test_weights_that_follow_errors_may_move_the_class_mix() -> None:
    """Class 0 is rare, and wrong labels hide that: without them it has less weight."""
    truth = (torch.arange(1000) % 10 > 0).long()
    labels = torch.where(torch.arange(1000) % 3 == 0, 1 - truth, truth)
    trusted = torch.arange(200) % 2
    assert class_alarms((labels == truth).float(), labels, truth, trusted) == []
    assert names(class_alarms((labels == 1).float(), labels, labels, trusted)) == ["weights follow a class"]
    somewhat = torch.where(labels == 0, 0.4, 1.0) * (labels == truth)  # a little less than the errors explain
    assert class_alarms(somewhat, labels, truth, trusted) == []
    nearly_equal = torch.where((labels == 0) & (truth == 0), 2.0, 1.0)  # the mix of the given labels hardly changes
    assert class_alarms(nearly_equal, labels, truth, truth[:200]) == []


def test_a_class_that_the_network_does_not_learn_has_right_labels() -> None:
    """Of the trusted samples of class 1, a quarter is predicted: so few predictions are no sign of wrong labels."""
    labels, trusted = torch.arange(1000) % 2, torch.arange(200) % 2
    predicted, known = (torch.where(torch.arange(len(y)) % 8 == 1, 1, 0) for y in (labels, trusted))
    right = alarms_by_class.right_labels(labels, predicted, trusted, known)
    assert right.tolist() == pytest.approx([500, 500], rel=0.05)
    weights = torch.where(labels == 0, 1.6, 0.2)
    errors = torch.where(labels == predicted, 1.6, 0.2)  # these follow the predictions, whose alarm is another one
    assert alarms_by_class.class_alarms(errors, labels, predicted, trusted, right) == []
    assert names(alarms_by_class.class_alarms(weights, labels, predicted, trusted, right)) == [
        "weights follow a class"
    ]


def test_weights_that_follow_a_group() -> None:
    labels, groups = torch.arange(1000) % 2, (torch.arange(1000) // 2) % 5
    predicted = torch.where(torch.arange(1000) % 10 < 3, 1 - labels, labels)
    strata = alarms_by_class.strata_of(labels, predicted)
    errors = torch.where(predicted == labels, 1.4, 0.05)
    assert alarms_by_class.group_alarms(errors, groups, strata) == []
    found = alarms_by_class.group_alarms(
        torch.where(groups == 1, 0.1, errors + 0.3), groups, strata, ["a", "b", "c", "d", "e"]
    )
    assert names(found) == ["weights follow a group"]
    assert "group b has a mean weight of 0.10" in found[0].message
    many_errors = torch.where(groups == 1, 1 - labels, predicted)  # a group whose labels are wrong has low weights
    weights = torch.where(many_errors == labels, 1.4, 0.05)
    assert alarms_by_class.group_alarms(weights, groups, alarms_by_class.strata_of(labels, many_errors)) == []


def train(
    reweight_of: Callable[..., adiw.ADIW], noise: float = 0.4, epochs: int = 8, rate: float = 0.05, join: bool = True
) -> tuple[adiw.ADIW, list[str]]:
    """A loop of one's own with a summary after each epoch: the method, and the warnings."""
    torch.manual_seed(0)
    truth = torch.randint(4, (1300,))
    x = torch.randn(1300, 8) + 3 * torch.eye(4, 8)[truth]
    given = torch.where(torch.rand(1300) < noise, torch.randint(4, (1300,)), truth)
    trusted = TensorDataset(x[:100], truth[:100])
    train_set = adiw.Indexed(TensorDataset(x[100:], given[100:]), trusted if join else None)
    model = nn.Linear(8, 4)
    reweight = reweight_of(model, train_set.trusted if join else trusted, len(train_set))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(epochs):
            for inputs, y, index in torch.utils.data.DataLoader(train_set, batch_size=50, shuffle=True):
                reweight(model(inputs), y, index).backward()
                optimizer.step()
                optimizer.zero_grad()
            reweight.summary()
    return reweight, [str(warning.message) for warning in found]


CRITERION = nn.CrossEntropyLoss(reduction="none")


@pytest.mark.parametrize("join", [True, False])
@pytest.mark.parametrize("divergence", [None, "kl"])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_an_ordinary_loop_raises_none(divergence: str | None, noise: float, join: bool) -> None:
    reweight, warned = train(lambda *a: adiw.ADIW(a[0], CRITERION, *a[1:], divergence), noise, join=join)
    assert warned == []
    assert reweight.summary().alarms == ()


@pytest.mark.parametrize("join", [True, False])
def test_a_collapsed_model_is_reported_once_and_stays_in_the_summary(join: bool) -> None:
    def build(model: nn.Module, *rest: Any) -> adiw.ADIW:
        def criterion(outputs: Tensor, targets: Tensor) -> Tensor:  # rewards class 0 whatever the label is
            return CRITERION(outputs, 0 * targets) + 0 * CRITERION(outputs, targets)

        return adiw.ADIW(model, criterion, *rest)

    reweight, warned = train(build, rate=0.5, join=join)
    assert [message.split(":")[0] for message in warned] == ["collapsed"]
    summary = reweight.summary()
    assert names(list(summary.alarms)) == ["collapsed"]
    assert str(summary).endswith("alarms: collapsed")


def test_weights_of_few_samples_and_at_a_bound_are_reported() -> None:
    def spoil(model: nn.Module, *rest: Any) -> adiw.ADIW:
        return adiw.ADIW(model, CRITERION, *rest, KL(), cap=1.01)

    _, warned = train(spoil, epochs=3)
    assert any(message.startswith("weights at their bound") for message in warned)
    reweight, _ = train(lambda *a: adiw.ADIW(a[0], CRITERION, *a[1:], KL()), epochs=2)
    reweight.weights.zero_()[:5] = 300.0
    with pytest.warns(UserWarning, match="the weights are worth 5 of 1200 samples"):
        reweight.summary()
    reweight.weights.fill_(50.0)
    with pytest.warns(UserWarning, match="the mean weight is 50, and should be near one"):
        reweight.summary()


def test_the_weight_of_trusted_samples_is_no_alarm() -> None:
    """Where the network predicts wrong labels, they have half of all weight, however few they are."""
    reweight, _ = train(lambda *a: adiw.ADIW(a[0], CRITERION, *a[1:]), epochs=2)
    reweight.weights.fill_(0.5)
    reweight.weights[reweight.record.is_trusted] = 0.5 * 1300 / int(reweight.record.is_trusted.sum())
    reweight.weights[reweight.record.is_trusted.nonzero()[0]] = 600.0
    assert reweight.summary().ess < 0.05 * 1300
    assert "effective sample size" not in {alarm.name for alarm in reweight.summary().alarms}


def test_looks_before_all_trusted_samples_were_seen() -> None:
    """The checks follow the trusted samples of the first look, also if more of them are seen later."""
    torch.manual_seed(0)
    labels = torch.arange(600) % 3
    x = torch.randn(600, 4) + 3 * torch.eye(3, 4)[labels]
    train_set = adiw.Indexed(TensorDataset(x[:400], labels[:400]), TensorDataset(x[400:], labels[400:]))
    model = nn.Linear(4, 3)
    reweight = adiw.ADIW(model, CRITERION, train_set.trusted, 600)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(110):
        samples = torch.randperm(600)[:5].tolist()
        inputs, y, index = torch.utils.data.default_collate([train_set[k] for k in samples])
        reweight(model(inputs), y, index).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step >= 100:
            reweight.summary()
            seen.append(int((reweight.record.labels[400:600] >= 0).sum()))
    assert seen[0] < seen[-1] < 200
    checks = reweight.alarm_checks.right
    assert len(checks) > 2
    assert len({len(look) for look in checks}) == 1
    assert reweight.verdict().shift.found is False


def test_groups_in_a_loop() -> None:
    reweight, _ = train(lambda *a: adiw.ADIW(a[0], CRITERION, *a[1:]), epochs=3)
    column = ["even" if k % 2 == 0 else "odd" for k in range(1300)]
    tables = reweight.summary(groups=column).groups
    assert tables is not None
    assert [row["name"] for row in tables["groups"]] == ["even", "odd"]
    assert [row["name"] for row in tables["classes"]] == ["0", "1", "2", "3"]
    weights = reweight.weights[::2].double()
    assert tables["groups"][0]["n"] == 650
    assert tables["groups"][0]["mean_weight"] == pytest.approx(float(weights.mean()))
    assert tables["groups"][0]["ess"] == pytest.approx(float(weights.sum() ** 2 / weights.square().sum()))
    labels, predicted = reweight.record.labels[:-1], reweight.record.predicted[:-1]
    assert tables["groups"][0]["accuracy"] == pytest.approx(100 * float((labels == predicted)[::2].double().mean()))
    with pytest.raises(ValueError, match="one value per training sample, 1300, got 3"):
        reweight.summary(groups=[1, 2, 3])
    reweight.weights[::2] *= 0.05
    with pytest.warns(UserWarning, match="group even has a mean weight of"):
        reweight.summary(groups=column)


def test_the_record_is_part_of_the_state() -> None:
    reweight, _ = train(lambda *a: adiw.ADIW(a[0], CRITERION, *a[1:]), epochs=2)
    state = reweight.state_dict()
    other, _ = train(lambda *a: adiw.ADIW(a[0], CRITERION, *a[1:]), epochs=1)
    other.load_state_dict(state)
    assert torch.equal(other.record.predicted, reweight.record.predicted)
