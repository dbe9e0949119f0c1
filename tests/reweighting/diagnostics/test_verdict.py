"""The verdict: its three answers, in a loop of one's own and from figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import adiw
from adiw.reweighting.diagnostics.verdict import (
    Comparison,
    Shift,
    answer_of,
    compare_losses,
    compare_rates,
    make_verdict,
)

CRITERION = nn.CrossEntropyLoss(reduction="none")
RUNS = 400  # of a simulation
SIZES = {"train": 1000, "trusted": 100, "held_out": 600}


def draw(noise: float, skew: bool = False) -> dict[str, TensorDataset]:
    """Samples of four classes; of the training samples, a share has a random label or most are of class 0."""
    torch.manual_seed(1)
    found = {}
    for name, size in SIZES.items():
        rare = (1 - 0.9 * (torch.rand(size) < 0.8)) if skew and name == "train" else torch.ones(size)
        truth = (torch.randint(4, (size,)) * (rare > 0.5)).long()
        x = torch.randn(size, 8) + 2.2 * torch.eye(4, 8)[truth]
        wrong = (torch.rand(size) < noise) & (name == "train")
        found[name] = TensorDataset(x, torch.where(wrong, torch.randint(4, (size,)), truth))
    return found


@lru_cache
def trained(noise: float, join: bool, divergence: str | None, skew: bool = False) -> tuple[adiw.ADIW, nn.Module, Any]:
    """(the method, a network trained without weights, held-out samples)."""
    parts = draw(noise, skew)
    train_set = adiw.Indexed(parts["train"], parts["trusted"] if join else None)
    networks = [nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4)) for _ in range(2)]
    val_set = train_set.trusted if join else parts["trusted"]
    reweight = adiw.ADIW(networks[0], CRITERION, val_set, len(train_set), divergence)
    for network, objective in zip(networks, (reweight, lambda o, y, i: CRITERION(o, y).mean()), strict=True):
        optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
        for _ in range(20):
            for x, y, index in DataLoader(train_set, batch_size=50, shuffle=True):
                objective(network(x), y, index).backward()  # type: ignore[operator]
                optimizer.step()
                optimizer.zero_grad()
    return reweight, networks[1], parts["held_out"]


def test_the_samples_that_each_model_has_evaluated_are_reported() -> None:
    reweight, uniform, held_out = trained(0.5, False, None)
    seen: list[tuple[str, int, int]] = []
    reweight.verdict({"uniform": uniform}, held_out, progress=lambda *progress: seen.append(progress))
    batches = [256, 512, 600]
    names = ("model", "uniform")
    assert seen == [(f"{name}: evaluating, sample", done, 600) for name in names for done in batches]


@pytest.mark.parametrize(("join", "divergence"), [(True, None), (False, None), (False, "kl"), (True, "kl")])
def test_wrong_labels_are_a_shift_that_the_weights_remove(join: bool, divergence: str | None) -> None:
    verdict = trained(0.5, join, divergence)[0].verdict()
    assert verdict.shift.found
    assert verdict.shift.p_value is not None
    assert verdict.shift.p_value < 1e-3
    assert verdict.after is not None
    assert verdict.after.distance is not None
    assert verdict.shift.distance is not None
    assert verdict.after.distance < 0.6 * verdict.shift.distance
    assert (verdict.answer, verdict.comparison) == ("not compared", None)
    assert "adiw run --compare" in str(verdict)


@pytest.mark.parametrize(("join", "divergence"), [(True, None), (False, None), (False, "kl")])
def test_no_shift_is_found_where_there_is_none(join: bool, divergence: str | None) -> None:
    verdict = trained(0.0, join, divergence)[0].verdict()
    assert verdict.shift.found is False
    assert verdict.after is None
    assert "no difference between training and trusted samples was found" in verdict.sentence


@pytest.mark.parametrize("divergence", [None, "kl"])
def test_equal_losses_are_no_shift_where_trusted_samples_are_not_trained_on(divergence: str | None) -> None:
    torch.manual_seed(0)
    y = (torch.rand(1100) < 0.3).long()
    x = torch.where(torch.rand(1100, 3) < 0.8, y[:, None], 1 - y[:, None]).float()  # sixteen different losses
    train_set = adiw.Indexed(TensorDataset(x[100:], y[100:]))
    model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 2))
    reweight = adiw.ADIW(model, CRITERION, TensorDataset(x[:100], y[:100]), len(train_set), divergence)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for inputs, labels, index in DataLoader(train_set, batch_size=50, shuffle=True):
        reweight(model(inputs), labels, index).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert reweight.verdict().shift.found is False


def test_another_class_mix_is_a_shift() -> None:
    verdict = trained(0.0, True, None, skew=True)[0].verdict()
    assert (verdict.shift.found, verdict.shift.test) == (True, "class mix")
    assert verdict.after is not None
    assert verdict.after.distance is not None
    assert verdict.after.distance < 0.5 * (verdict.shift.distance or 0)


def test_the_model_is_compared_on_held_out_samples() -> None:
    reweight, other, held_out = trained(0.5, True, None)
    verdict = reweight.verdict({"uniform": other, "itself": reweight.evaluator.model}, held_out)
    assert verdict.comparison is not None
    uniform, itself = verdict.comparison
    x, y = held_out.tensors
    rates = [100 * (net(x).argmax(1) == y).double().mean().item() for net in (reweight.evaluator.model, other)]
    assert verdict.score == pytest.approx(rates[0])
    assert uniform.score == pytest.approx(rates[1])
    assert uniform.difference == pytest.approx(rates[0] - rates[1])
    assert (itself.difference, itself.sign, itself.n) == (0.0, 0, 600)
    assert uniform.sign == 1
    assert verdict.answer == "helps"
    assert str(verdict).startswith("The weights help: accuracy ")
    assert "would be needed" not in str(verdict)
    alike = reweight.verdict({"itself": reweight.evaluator.model}, held_out)
    assert alike.answer == "cannot tell"
    assert "more held-out trusted samples would be needed" in str(alike)
    worse = trained(0.5, True, None)[0]
    swapped = compare_rates(other(x).argmax(1) == y, {"better": worse.evaluator.model(x).argmax(1) == y})
    assert answer_of(swapped) == "does no good"
    assert json.loads(json.dumps(verdict.as_dict()))["comparison"][0]["method"] == "uniform"
    assert reweight.verdict(held_out=held_out).answer == "not compared"


def test_the_model_keeps_its_mode_and_the_random_state() -> None:
    reweight, other, held_out = trained(0.5, True, None)
    model = reweight.evaluator.model
    model.train()
    other.eval()
    before = torch.get_rng_state()
    reweight.verdict({"uniform": other}, held_out)
    reweight.summary()
    assert (model.training, other.training) == (True, False)
    assert torch.equal(before, torch.get_rng_state())


def test_bad_references_are_errors() -> None:
    reweight, other, held_out = trained(0.0, True, None)
    with pytest.raises(ValueError, match="pass held_out=data_set"):
        reweight.verdict({"uniform": other})
    with pytest.raises(TypeError, match="references must map names to models"):
        reweight.verdict([other], held_out)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a model, an nn\.Module"):
        reweight.verdict({"uniform": 3}, held_out)  # type: ignore[dict-item]


class Pairs(Dataset[dict[str, Tensor]]):
    """Items that only ``forward`` understands."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        return {"x": self.x[k], "y": self.y[k]}


def test_a_regression_is_compared_by_its_losses() -> None:
    torch.manual_seed(0)
    x = torch.randn(700, 3)
    y = x.sum(1)
    given = torch.where(torch.rand(700) < 0.4, y + 8, y)
    models = [nn.Linear(3, 1) for _ in range(2)]

    def forward(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return model(batch["x"])[:, 0], batch["y"]

    def squares(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square()

    reweight = adiw.ADIW(models[0], squares, Pairs(x[:50], y[:50]), 600, forward=forward, warmup_steps=20)
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for _ in range(12):
            for index in torch.randperm(600).split(50):
                outputs = model(x[100:][index])[:, 0]
                targets = given[100:][index]
                weighted = model is models[0]
                (reweight(outputs, targets, index) if weighted else squares(outputs, targets).mean()).backward()
                optimizer.step()
                optimizer.zero_grad()
    verdict = reweight.verdict({"uniform": models[1]}, Pairs(x[50:100], y[50:100]))
    assert verdict.shift.test == "losses"
    assert verdict.answer == "helps"
    assert verdict.score == pytest.approx(squares(models[0](x[50:100])[:, 0], y[50:100]).mean().item())
    assert "mean loss" in str(verdict)


def comparison(low: float, high: float) -> Comparison:
    return Comparison("other", 80.0, (low + high) / 2, low, high, 50, 200)


@pytest.mark.parametrize(
    ("intervals", "answer"),
    [
        ([(1, 5)], "helps"),
        ([(1, 5), (-2, 4)], "helps"),
        ([(-2, 4), (1, 5)], "cannot tell"),
        ([(1, 5), (-7, -1)], "does no good"),
        ([(-1, 1)], "cannot tell"),
        ([], "not compared"),
    ],
)
def test_the_answer_follows_from_the_intervals(intervals: list[tuple[float, float]], answer: str) -> None:
    assert answer_of([comparison(*ends) for ends in intervals]) == answer


def test_no_good_is_said_in_under_a_twentieth_of_the_cases_where_all_models_are_alike() -> None:
    generator = torch.Generator().manual_seed(0)
    answers = []
    for _ in range(RUNS):
        hard = torch.randn(40, generator=generator)
        right = hard + torch.randn(5, 40, generator=generator) < 1
        names = ("uniform", "mixed", "fine-tune", "val-only")
        answers.append(answer_of(compare_rates(right[0], dict(zip(names, right[1:], strict=True)))))
    assert 0 < answers.count("does no good") < 0.05 * RUNS
    assert 0 < answers.count("helps") < (0.025 + 3 * math.sqrt(0.025 / RUNS)) * RUNS


def test_intervals_of_all_but_the_first_reference_hold_together() -> None:
    own, other = torch.arange(60) < 50, torch.arange(60) % 3 > 0
    widths = [
        [each.high - each.low for each in compare_rates(own, {str(k): other for k in range(count)})]
        for count in (1, 2, 4)
    ]
    (alone,), (first, second), (among, *others) = widths
    assert alone == first == second == among
    assert len(set(others)) == 1
    assert others[0] > 1.1 * among


def test_sentences_without_a_test_and_with_a_shift_that_stays() -> None:
    assert "was not tested" in make_verdict(Shift(None), None).sentence
    shift, after = Shift(True, "losses", 0.3, 1e-5, 50), Shift(True, "losses", 0.31, 1e-5, 50)
    assert "which the weights do not remove (distance 0.31, p < 0.001)" in make_verdict(shift, after).sentence
    equal = Shift(True, "losses", shift.distance - 0.001, 1e-5, 40)  # with the digits that are shown
    assert "which the weights do not remove (distance 0.30" in make_verdict(shift, equal).sentence
    assert "turn round" in make_verdict(shift, replace(after, smaller=True)).sentence
    assert "turn round" not in make_verdict(replace(shift, smaller=True), replace(after, smaller=True)).sentence


def test_losses_that_differ_are_told_apart() -> None:
    (found,) = compare_losses(torch.tensor([0.1, 0.2, 0.1, 0.15]), {"uniform": torch.tensor([1.0, 1.2, 0.9, 1.1])})
    assert found.sign == 1
    assert math.isclose(found.difference, 1.05 - 0.1375, rel_tol=1e-6)
