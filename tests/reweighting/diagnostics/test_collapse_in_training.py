"""A collapse that the predictions for training samples show, and what looks like one."""

from __future__ import annotations

import pickle
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adiw
from adiw.reweighting.diagnostics import collapse_in_training as module
from adiw.reweighting.diagnostics.collapse_in_training import collapse_in_training, training_predictions


def found(other_predicted: int, other_given: int, other_unseen: int, unseen_given: int = 4) -> list[str]:
    """The alarms where so many of 4,000 predictions, 200 trusted labels, 40 predictions and labels are of class 1."""
    pairs = ((other_predicted, 4000), (other_given, 200), (other_unseen, 40), (unseen_given, 40))
    samples = [(torch.arange(n) < k).long() for k, n in pairs]
    return [alarm.message for alarm in collapse_in_training(*samples, names=["no", "yes"])]


def test_one_class_for_nearly_all_training_samples_is_a_collapse() -> None:
    (message,) = found(170, 20, 1)
    what = "class no is predicted for 96% of 4,000 training samples, but 90% of 200 trusted samples have this label: "
    assert message.startswith(what)
    assert found(0, 20, 0)
    assert found(240, 26, 1) == []  # 94%
    assert found(196, 19, 1) == []  # not twice as often


@pytest.mark.parametrize("other_given", range(19))
@pytest.mark.parametrize("other_predicted", [100, 196])
def test_nineteen_in_twenty_trusted_samples_may_have_one_class(other_predicted: int, other_given: int) -> None:
    """Then 19 and more of 200 have another class in 0.6% of the draws, however rarely it is predicted."""
    assert found(other_predicted, other_given, 1) == []
    assert found(100, 19, 1)


def test_a_network_that_predicts_the_rare_class_of_unseen_samples_has_not_collapsed() -> None:
    """The training samples have another class mix than the trusted ones, and the network finds both."""
    assert found(120, 100, 20, 20) == []
    assert found(120, 100, 8, 20) == []  # it finds less than half of them, and predicts them more often
    assert found(170, 20, 3, 4) == []
    assert found(170, 20, 5, 10) == []
    assert found(170, 20, 2, 4)


class Fixed(nn.Module):
    """Predicts class 1 where the first column is positive."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([-x[:, 0], x[:, 0]], 1) * self.scale


def samples(number: int, others: float, recognised: float) -> tuple[Tensor, Tensor]:
    """x (n, 1) and classes (n,), of which the share ``others`` is 1, and of these ``recognised`` are predicted."""
    y = (torch.arange(number) % 100 < 100 * others).long()
    known = torch.rand(number, generator=torch.Generator().manual_seed(0)) < recognised
    return torch.where((y == 1) & known, 1.0, -1.0)[:, None], y


def trained(
    others: float, recognised: float, trusted: float = 0.12, trusted_recognised: float = 1.0, join: bool = True
) -> adiw.ADIW:
    """A loop with the fixed network on 2,000 samples, of which 30% have another label, and 160 trusted ones.

    ``trusted``: the share of class 1 among these.
    """
    x, y = samples(2000, others, recognised)
    given = torch.where(torch.arange(2000) % 10 < 3, 1 - y, y)
    trusted_set = TensorDataset(*samples(160, trusted, trusted_recognised))
    train_set = adiw.Indexed(TensorDataset(x, given), trusted_set if join else None)
    model, criterion = Fixed(), nn.CrossEntropyLoss(reduction="none")
    reweight = adiw.ADIW(model, criterion, train_set.trusted if join else trusted_set, len(train_set))
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        for inputs, labels, index in DataLoader(train_set, 64, shuffle=True, generator=generator):
            reweight(model(inputs), labels, index)
    return reweight


@pytest.mark.parametrize("join", [True, False])
def test_a_verdict_on_held_out_samples_reports_it(join: bool) -> None:
    """The trusted samples are predicted correctly where they are trained on, the held-out ones are not."""
    reweight = trained(0.12, 0.35, trusted_recognised=1.0 if join else 0.35, join=join)
    held_out = TensorDataset(*samples(100, 0.1, 0.45))
    if join:
        assert reweight.summary().alarms == ()
    with pytest.warns(UserWarning, match="collapsed: class 0 is predicted for 96% of 2,000 training samples"):
        verdict = reweight.verdict(held_out=held_out)
    assert [alarm.name for alarm in verdict.alarms] == ["collapsed"]
    assert verdict.as_dict()["alarms"][0]["name"] == "collapsed"
    assert str(verdict) == f"{verdict.sentence}\n{verdict.alarms[0]}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reweight.verdict(held_out=held_out).alarms == verdict.alarms  # which warns once


def test_training_samples_of_another_class_mix_are_no_collapse() -> None:
    """Of them 3% have the class that 12% of the trusted samples have, and the network is right."""
    reweight = trained(0.03, 1.0)
    verdict = reweight.verdict(held_out=TensorDataset(*samples(100, 0.12, 1.0)))
    assert verdict.alarms == ()
    assert "alarms" not in verdict.as_dict()


def test_an_imbalanced_class_that_is_predicted_is_no_collapse() -> None:
    verdict = trained(0.05, 0.9, trusted=0.05).verdict(held_out=TensorDataset(*samples(100, 0.05, 0.9)))
    assert verdict.alarms == ()


def test_a_network_that_predicts_one_class_only_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reweight = trained(0.12, 0.3)
    recorded = reweight.record.predicted[:2000].long()
    assert recorded.float().mean() == pytest.approx(0.036, abs=0.01)
    predicted = training_predictions(reweight)
    assert predicted is not None
    assert torch.equal(predicted, recorded)
    reweight.evaluator.model.scale.data.neg_()  # type: ignore[union-attr, operator]
    predicted = training_predictions(reweight)
    assert predicted is not None
    assert torch.equal(predicted, 1 - recorded)
    monkeypatch.setattr(module, "MOST", 50)
    assert len(training_predictions(reweight)) == 50  # type: ignore[arg-type]
    often = trained(0.2, 1.0)
    often.evaluator.model.scale.data.neg_()  # type: ignore[union-attr, operator]
    predicted = training_predictions(often)
    assert predicted is not None
    assert predicted.float().mean() == pytest.approx(0.2)  # of the training passes


def test_copies_of_trusted_samples_are_without_the_training_set() -> None:
    train_set = adiw.Indexed([("a", 0), ("b", 1)], trusted=[("c", 1)])
    assert train_set.trusted.train_set is train_set
    assert pickle.loads(pickle.dumps(train_set.trusted)).train_set is None
