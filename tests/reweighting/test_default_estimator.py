"""The default, weights from the ranks of all losses: against a reference in numpy, and in small trainings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from adiw import ADIW, Indexed
from adiw.baselines import Uniform
from adiw.matching.loss_ranks import class_factor
from adiw.reweighting.default_estimator import POOL, RankEstimator
from adiw.reweighting.weight_state import WeightState

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
NAN, INF = float("nan"), float("inf")


def isotonic(values: np.ndarray) -> np.ndarray:
    """Decreasing least squares by pooling adjacent violators."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (b, m), (a, n) = blocks.pop(), blocks.pop()
            blocks.append(((a * n + b * m) / (n + m), n + m))
    return np.concatenate([np.full(n, value) for value, n in blocks])


class Reference:
    """The default in numpy, one sample at a time, for trusted samples at ``trusted`` or with losses of their own."""

    def __init__(self, num_train: int, classes: int, trusted: list[int] | None, warmup: int, every: int) -> None:
        self.loss, self.label = np.full(num_train, np.nan), np.full(num_train, -1)
        self.estimate, self.weights, self.factors = np.ones(num_train), np.ones(num_train), np.ones(classes)
        self.trusted, self.warmup, self.every, self.steps = trusted, warmup, every, 0
        self.train = [i for i in range(num_train) if i not in (trusted or [])]
        self.ranked, self.table, self.evidence = np.array([]), np.ones(4), 0.0

    def refit(self, losses: np.ndarray, labels: np.ndarray) -> None:
        known = self.loss[self.train]
        self.ranked = np.sort(known[np.isfinite(known)])
        m, n = np.isfinite(losses).sum(), len(self.ranked)
        parts = min(max(len(losses), 4), 100)
        self.table = np.ones(parts)
        if m and n:
            twice = [2 * sum(self.ranked < x) + sum(self.ranked == x) for x in losses[np.isfinite(losses)]]
            shares = np.bincount([min(int(u) * parts // (2 * n), parts - 1) for u in twice], minlength=parts) / m
            ratio = isotonic((m * parts * shares + 2) / (m + 2))
            counts = [(r, m / parts * np.isclose(ratio, r).sum()) for r in ratio]
            bound = np.array([(r * e + np.sqrt(r * e + 0.25)) / e for r, e in counts])
            right = bound / ratio[: max(1, round(0.25 * parts))].mean()
            weights = 1 / (1 + np.exp(-20 * (right - 0.65)))
            weights = np.where(weights >= 0.01, weights, 0)
            statistic = 0.0
            for j, x in enumerate(np.sort(losses[np.isfinite(losses)])):
                f, u = (j + 1) / m, max(np.mean(self.ranked <= x), 0.25)
                if f > u:
                    divergence = sum(a * np.log(a / b) for a, b in ((f, u), (1 - f, 1 - u)) if a > 0)
                    statistic = max(statistic, m * n / (m + n) * divergence)
            starts = self.evidence > 0 or np.exp(1 - statistic) <= m**-1.5
            self.evidence = float(np.clip((statistic - 3) / 2, 0, 1)) if starts else 0.0
            self.table = 1 + self.evidence * (weights / weights.mean() - 1)
        else:
            self.evidence = 0.0
        for_class = [
            self.estimate[[i for i in self.train if self.label[i] == c]].sum() for c in range(len(self.factors))
        ]
        number = np.array([(labels == c).sum() for c in range(len(self.factors))])
        expected = np.array(for_class) / max(sum(for_class), 1e-12) * number.sum()
        chi_square = ((number - expected) ** 2 / np.maximum(expected, 0.5)).sum()
        power = max(0, 1 - (len(number) - 1) / max(chi_square, 1e-6))
        self.factors = ((number + 5) / (expected + 5)) ** power

    def step(self, index: list[int], losses: np.ndarray, labels: np.ndarray, val: Any = None) -> np.ndarray:
        """The weights of a step in the loss."""
        if self.steps % self.every == 0:
            self.refit(*((self.loss[self.trusted], self.label[self.trusted]) if val is None else val))
        self.steps += 1
        found = []
        for i, loss, label in zip(index, losses, labels, strict=True):
            self.loss[i], self.label[i] = loss, label
            smaller, size = int(np.sum(self.ranked < loss)), len(self.table)
            new = self.table[min(smaller * size // max(len(self.ranked), 1), size - 1)]
            rate = 0.35 * (1 if self.trusted is not None else self.evidence)
            estimate = self.estimate[i] + rate * (new - self.estimate[i])
            trusted = self.trusted is not None and i in self.trusted
            weight = (self.table[0] * (1 + self.evidence) if trusted else estimate) * self.factors[label]
            past = self.steps > self.warmup
            if past:
                self.estimate[i], self.weights[i] = estimate, weight
            found.append(weight if past else 1.0)
        return np.array(found)


class Table(nn.Module):
    """A model that gives each sample, which is its index, logits of its own; they move with the training."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits.clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.logits[x]


def task(num_train: int = 90, num_trusted: int = 30) -> tuple[Tensor, Tensor, Tensor]:
    """(logits, labels, whether a label is wrong): the model is fairly sure of the right label of each sample.

    Trusted samples, the last ones, have right labels and fewer of class 0.
    """
    random = Generator().manual_seed(2)
    size = num_train + num_trusted
    truth = torch.randint(3, (size,), generator=random)
    truth[num_train:][:10] = 1
    wrong = (torch.rand(size, generator=random) < 0.4) & (torch.arange(size) < num_train)
    labels = torch.where(wrong, (truth + 1) % 3, truth)
    logits = 2 * torch.eye(3)[truth] + 0.7 * torch.randn(size, 3, generator=random)
    return logits.double(), labels, wrong


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("joined", [True, False], ids=["joined", "not joined"])
def test_the_reference(joined: bool, every: int) -> None:
    logits, labels, wrong = task()
    everything, num_val = torch.arange(120), 30
    model = Table(logits)
    train_set = TensorDataset(everything, labels)
    trusted = TensorDataset(everything[90:], labels[90:])
    val_set: Any = Indexed(train_set, everything[90:]).trusted if joined else trusted
    size = 120 if joined else 90
    reweight = ADIW(model, CROSS_ENTROPY, val_set, size, warmup_steps=4, val_every=every, val_batch=num_val).double()
    reference = Reference(size, 3, list(range(90, 120)) if joined else None, 4, every)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    for step in range(14):
        index = torch.randperm(size, generator=Generator().manual_seed(step))[:30]
        losses, val_losses = (
            CROSS_ENTROPY(model(rows), labels[rows]).detach().numpy() for rows in (index, everything[90:])
        )
        val = None if joined else (val_losses, labels[90:].numpy())
        expected = reference.step(index.tolist(), losses, labels[index].numpy(), val)
        loss = reweight(model(index), labels[index], index)
        assert loss.item() == pytest.approx((expected * losses).mean(), rel=1e-6)  # ranks are in single precision
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    np.testing.assert_allclose(reweight.weights.numpy(), reference.weights, rtol=1e-6)
    # The comparison has evidence, factors of the classes and weights that differ.
    assert reference.evidence > 0.5
    assert np.ptp(reference.factors) > 0.1
    assert reference.weights[:90][wrong[:90].numpy()].mean() < 0.8


def make(val: Tensor, num_train: int = 60, joined: int | None = None, **settings: Any) -> ADIW:
    """A method whose samples are their own losses. With ``joined``, the last samples are trusted."""
    model = nn.Linear(1, 1)
    val_set: Any = TensorDataset(val, val)
    if joined is not None:
        val_set = Indexed(TensorDataset(torch.zeros(num_train)), torch.arange(num_train - joined, num_train)).trusted
    settings = {"warmup_steps": 0, "val_every": 1, **settings}
    return ADIW(
        model,
        lambda outputs, targets: outputs,
        val_set,
        num_train,
        forward=lambda model, batch: (batch[0], batch[1]) if joined is None else None,
        **settings,
    )


RIGHT, WRONG = torch.linspace(0, 1, 36)[torch.arange(36) * 7 % 36], torch.linspace(4, 5, 24)  # 7: in another order
LOSSES = torch.cat([WRONG, RIGHT])
VAL = torch.linspace(0, 1, 25)


def call(reweight: ADIW, values: Tensor, index: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(loss, the weight of each sample in it)."""
    outputs = values.clone().requires_grad_()
    loss = reweight(outputs, targets, index)
    loss.backward()
    assert outputs.grad is not None
    return loss.detach(), outputs.grad * len(values)


@pytest.mark.parametrize("joined", [None, 20])
def test_wrong_labels_end_at_zero_and_the_mean_at_one(joined: int | None) -> None:
    reweight = make(VAL, joined=joined)
    for _ in range(40):
        _, weights = call(reweight, LOSSES, torch.arange(60))
    assert weights[:24].max() < 0.01
    untrusted = 60 - (joined or 0)
    assert weights[:untrusted].mean().item() == pytest.approx(1, abs=0.1)
    if joined:  # twice the weight of the best of the others
        torch.testing.assert_close(
            weights[untrusted:], 2 * weights[:untrusted].max().expand(joined), rtol=0.01, atol=0
        )
    else:
        torch.testing.assert_close(weights[30:55], torch.full((25,), 60 / 36), rtol=0.15, atol=0)


@pytest.mark.parametrize("joined", [None, 20])
def test_without_a_difference_all_weights_stay_one(joined: int | None) -> None:
    values = torch.rand(60, generator=Generator().manual_seed(0))
    reweight = make(torch.rand(25, generator=Generator().manual_seed(1)), joined=joined)
    for _ in range(10):
        _, weights = call(reweight, values, torch.arange(60))
    assert torch.equal(weights, torch.ones(60))
    assert torch.equal(reweight.weights, torch.ones(60))


def test_weights_stay_when_the_evidence_ends_unless_trusted_samples_are_trained_on() -> None:
    """A network that memorises gives every training sample a small loss, also the wrong labels."""
    memorised = torch.rand(60, generator=Generator().manual_seed(0)) / 10
    outside, joined = make(VAL), make(VAL, joined=20)
    for reweight in (outside, joined):
        for _ in range(20):
            call(reweight, LOSSES, torch.arange(60))
    call(outside, memorised, torch.arange(60))  # with the weights by rank of the losses before
    before = outside.weights.clone()
    for reweight in (outside, joined):
        for _ in range(30):
            call(reweight, memorised, torch.arange(60))
    assert torch.equal(outside.weights, before)
    assert outside.weights[:24].max() < 0.8
    assert joined.weights[:24].min() > 0.9


@pytest.mark.parametrize("joined", [None, 40])
def test_chance_does_not_begin_what_keeps_itself_up(joined: int | None) -> None:
    """Evidence begins with a p-value of at most 40^(-3/2), 0.004, and then stays until it is above exp(-2)."""
    reweight = make(torch.linspace(0, 1, 40), num_train=240, joined=joined)
    ranks, train = reweight.ranks, torch.linspace(0, 1, 240 if joined is None else 200)
    assert ranks is not None

    def evidence(largest: float) -> float:
        trusted = largest * torch.linspace(0, 1, 40)
        losses = train if joined is None else torch.cat([train, trusted])
        if joined is None:
            reweight.trust(TensorDataset(trusted, trusted))
        for _ in range(2):  # joined losses are compared in the next step
            call(reweight, losses, torch.arange(240))
        found = reweight.ranks
        assert found is not None
        return float(found.evidence)

    found = [evidence(largest) for largest in (0.89, 0.75, 0.89, 0.97, 0.89)]  # p-values of 0.05, 1e-4 and one
    assert found == pytest.approx([0, 1, found[2], 0, 0])
    assert 0.1 < found[2] < 0.9


@pytest.mark.parametrize("nonfinite", [NAN, INF])
@pytest.mark.parametrize("joined", [None, 20])
def test_a_nonfinite_loss_keeps_its_weight_and_does_not_change_others(nonfinite: float, joined: int | None) -> None:
    affected, clean = make(VAL, joined=joined), make(VAL, joined=joined)
    values, finite = LOSSES.clone(), torch.arange(60) != 3
    values[3] = nonfinite
    for _ in range(8):
        loss, weights = call(affected, values, torch.arange(60))
        call(clean, LOSSES[finite], torch.arange(60)[finite])
    assert loss.isfinite()
    assert weights[3] == 0
    torch.testing.assert_close(affected.weights, clean.weights)
    assert affected.weights[3] == 1
    assert affected.weights[:24].min() < 0.5


def test_nonfinite_trusted_losses_are_excluded() -> None:
    reweight = make(torch.cat([VAL, torch.tensor([NAN, INF])]))
    for _ in range(20):
        call(reweight, LOSSES, torch.arange(60))
    assert reweight.weights[:24].max() < 0.2 < 1 < reweight.weights[30:55].min()
    with pytest.warns(UserWarning, match="40 validation losses so far were not finite"):
        reweight.summary()


def test_without_finite_trusted_losses_all_weights_are_one() -> None:
    reweight = make(torch.full((12,), NAN))
    for _ in range(3):
        call(reweight, LOSSES, torch.arange(60))
    assert torch.equal(reweight.weights, torch.ones(60))


def test_a_repeated_sample_stores_the_mean() -> None:
    twice, once = make(VAL, repeats=True), make(VAL)
    index = torch.cat([torch.arange(60), torch.tensor([0, 59])])
    for _ in range(5):
        call(twice, LOSSES[index], index)
        call(once, LOSSES, torch.arange(60))
    torch.testing.assert_close(twice.weights, once.weights)
    assert twice.ranks is not None
    torch.testing.assert_close(twice.ranks.losses[:-1], LOSSES)
    call(twice, torch.tensor([1.0, 3.0]), torch.tensor([7, 7]))
    assert twice.ranks.losses[7] == 2


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("joined", [None, 20])
def test_refitting_ahead_of_the_step_or_in_it_is_the_same(joined: int | None, ahead: bool) -> None:
    reweight, in_step = make(VAL, joined=joined, val_every=3), make(VAL, joined=joined, val_every=3)
    for _ in range(10):
        if ahead:
            reweight.refresh_validation()
        call(reweight, LOSSES, torch.arange(60))
        call(in_step, LOSSES, torch.arange(60))
    assert torch.equal(reweight.weights, in_step.weights)
    assert reweight.weights.std() > 0.1


@pytest.mark.parametrize("every", [1, 4])
def test_trusted_samples_in_the_training_set_are_not_evaluated_again(every: int) -> None:
    model = nn.Linear(2, 3)
    passes: list[int] = []
    model.register_forward_hook(lambda *_: passes.append(1))
    train_set = Indexed(TensorDataset(torch.randn(40, 2), torch.arange(40) % 3), torch.arange(12))
    reweight = ADIW(model, CROSS_ENTROPY, train_set.trusted, len(train_set), val_every=every)
    for x, y, index in DataLoader(train_set, 10):
        reweight(model(x), y, index).backward()
    assert len(passes) == 4


def test_the_dtype_and_the_device_are_those_of_the_module() -> None:
    logits, labels, _ = task()
    model = Table(logits.float())
    reweight = ADIW(model, CROSS_ENTROPY, TensorDataset(torch.arange(90, 120), labels[90:]), 90, warmup_steps=0)
    assert reweight.ranks is not None
    reweight(model(torch.arange(30)), labels[:30], torch.arange(30))
    reweight.double()
    model.double()
    reweight(model(torch.arange(30)), labels[:30], torch.arange(30))
    assert reweight.ranks.factors is not None
    kinds = {part.dtype for part in (reweight.weights, reweight.ranks.losses, reweight.ranks.factors)}
    assert kinds == {torch.float64}
    assert reweight.ranks.labels.dtype == torch.int64
    reweight.ranks.to("meta")
    assert (
        {buffer.device.type for buffer in reweight.ranks.buffers()}
        == {reweight.ranks.factors.device.type}
        == {"meta"}
    )


def test_a_pool_of_the_samples_is_ranked() -> None:
    ranks = RankEstimator(POOL + 500, 20, torch.arange(100, 200), Generator().manual_seed(0))
    assert len(ranks.train_pool) == POOL
    assert len(ranks.train_pool.unique()) == POOL
    assert not ((ranks.train_pool >= 100) & (ranks.train_pool < 200)).any()
    assert ranks.trusted_pool is not None
    assert ranks.trusted_pool.tolist() == list(range(100, 200))


def test_a_training_set_of_trusted_samples_only() -> None:
    reweight = make(VAL, num_train=60, joined=60)
    for _ in range(3):
        call(reweight, LOSSES, torch.arange(60))
    assert torch.equal(reweight.weights, torch.ones(60))


@pytest.mark.parametrize("num_train", [2, 3])
def test_num_train_without_the_trusted_samples_is_an_error(num_train: int) -> None:
    trusted = Indexed([("a", 0)] * 3, [("b", 1)]).trusted
    with pytest.raises(ValueError, match=rf"num_train is {num_train}, but a trusted sample is at position 3: .*len"):
        ADIW(nn.Linear(2, 2), CROSS_ENTROPY, trusted, num_train)


def test_a_state_that_is_not_of_a_rank_estimator_is_an_error() -> None:
    ranks = RankEstimator(5, 2, None, Generator())
    with pytest.raises(ValueError, match="not the state of a rank estimator"):
        ranks.set_extra_state({"other": 1})


def test_the_class_factor_is_shrunk_and_then_the_ratio_of_the_shares() -> None:
    equal, trusted = torch.tensor([500.0, 500.0]), torch.tensor([9000.0, 1000.0])
    torch.testing.assert_close(class_factor(equal, trusted), torch.tensor([1.8, 0.2]), rtol=0.01, atol=0)
    chance = class_factor(equal, torch.tensor([52.0, 48.0]))  # a chi-square of 0.16, below its mean of one
    assert torch.equal(chance, torch.ones(2))


def regression(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square()


def several_labels(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)


def as_mapping(outputs: Mapping[str, Tensor], targets: Tensor) -> Tensor:
    return CROSS_ENTROPY(outputs["logits"], targets)


KINDS: dict[str, Any] = {
    "regression": (regression, lambda x, w: x @ w[:, 0], lambda y: y + 20),
    "several labels": (several_labels, lambda x, w: (x @ w > 0).float(), lambda y: 1 - y),
    "mapping": (as_mapping, lambda x, w: (x @ w).argmax(1), lambda y: (y + 1) % 3),
}


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "not joined"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_tasks_find_the_wrong_targets(kind: str, joined: bool) -> None:
    criterion, target, spoil = KINDS[kind]
    random = Generator().manual_seed(0)
    x, w = torch.randn(400, 6, generator=random), torch.randn(6, 3, generator=random)
    y = target(x, w)
    wrong = torch.rand(400, generator=random) < 0.3
    wrong[:50] = False
    given = torch.where(wrong.view(-1, *[1] * (y.ndim - 1)), spoil(y), y)
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def run(inputs: Tensor) -> Any:
        return {"logits": model(inputs)} if kind == "mapping" else model(inputs)

    train_set = Indexed(TensorDataset(x, given), torch.arange(50))
    val_set: Any = train_set.trusted if joined else TensorDataset(x[:50], y[:50])
    forward = lambda model, batch: (run(batch[0]), batch[1])  # noqa: E731
    reweight = ADIW(model, criterion, val_set, 400, forward=forward, generator=random)
    for _ in range(12):
        for inputs, targets, index in DataLoader(train_set, 50, shuffle=True, generator=random):
            reweight(run(inputs), targets, index).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert reweight.ranks is not None
    assert reweight.ranks.factors is None  # a mapping of outputs does not say how many classes there are
    assert reweight.weights[wrong].mean() < 0.4 < 1.1 < reweight.weights[50:][~wrong[50:]].mean()


def train(noise: float, weighted: bool, joined: bool = True, seed: int = 0) -> tuple[float, Tensor, Tensor]:
    """(test accuracy, weights, wrong) of a network that can memorise 800 samples of three classes."""
    random = Generator().manual_seed(seed)
    truth = torch.randint(3, (3000,), generator=random)
    x = 3 * torch.eye(3, 20)[truth] + torch.randn(3000, 20, generator=random)
    wrong = torch.rand(3000, generator=random) < noise
    labels = torch.where(wrong, (truth + torch.randint(1, 3, (3000,), generator=random)) % 3, truth)
    trusted = TensorDataset(x[800:900], truth[800:900])
    train_set = Indexed(TensorDataset(x[:800], labels[:800]), trusted if joined else None)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    arguments: Any = (model, CROSS_ENTROPY, train_set.trusted if joined else trusted, len(train_set))
    reweight: Any = ADIW(*arguments, generator=random) if weighted else Uniform(*arguments)
    for _ in range(20):
        for inputs, targets, index in DataLoader(train_set, 64, shuffle=True, generator=random):
            reweight(model(inputs), targets, index).backward()
            optimizer.step()
            optimizer.zero_grad()
    accuracy = (model(x[900:]).argmax(1) == truth[900:]).float().mean().item()
    return accuracy, reweight.weights[:800], wrong[:800]


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "not joined"])
def test_training_with_wrong_labels(joined: bool) -> None:
    accuracy, weights, wrong = train(0.4, weighted=True, joined=joined)
    uniform, _, _ = train(0.4, weighted=False, joined=joined)
    assert weights[~wrong].mean() > 2 * weights[wrong].mean()
    assert accuracy > uniform + 0.05


def test_training_without_wrong_labels() -> None:
    """Trusted losses are smaller by chance in some refits, so that weights move, but no sample is dropped.

    The mean of |w - 1| is about 0.3 at most. With 40% wrong labels it is about one.
    """
    for seed in range(2):
        accuracy, weights, _ = train(0.0, weighted=True, seed=seed)
        uniform, _, _ = train(0.0, weighted=False, seed=seed)
        assert (weights - 1).abs().mean() < 0.4
        assert weights.min() > 0.1
        assert accuracy > uniform - 0.01


def predicted_errors(kind: str, weighted: bool = True) -> tuple[float, ADIW, Tensor]:
    """(test accuracy, the method, wrong) of a training on 900 samples of four classes, 100 of them trusted.

    The class is that of a cluster, or, where x[4] is large, the next one. "predicted": the labels are the clusters,
    as by a model that does not know of x[4]; "flipped": as many are wrong at random; "rare": right labels, but few
    samples of two classes; "none": right labels.
    """
    random = Generator().manual_seed(0)
    cluster = torch.randint(4, (8000,), generator=random)
    x = torch.randn(8000, 12, generator=random)
    x[:, :4] += 3 * torch.eye(4)[cluster]
    truth = (cluster + (x[:, 4] > 0.25)) % 4
    chance = torch.rand(8000, generator=random)
    if kind == "rare":
        keep = (truth > 1) | (chance < 0.05) | (torch.arange(8000) > 2000)
        cluster, x, truth, chance = (values[keep] for values in (cluster, x, truth, chance))
    given = {"predicted": cluster, "flipped": torch.where(chance < 0.4, (truth + 1) % 4, truth)}.get(kind, truth)
    wrong = given != truth
    trusted = TensorDataset(x[-100:], truth[-100:])
    train_set = Indexed(TensorDataset(x[:800], given[:800]), trusted)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    reweight = ADIW(model, CROSS_ENTROPY, train_set.trusted, len(train_set), generator=random)
    for _ in range(20):
        for inputs, targets, index in DataLoader(train_set, 32, shuffle=True, generator=random):
            loss = reweight(model(inputs), targets, index)
            (loss if weighted else CROSS_ENTROPY(model(inputs), targets).mean()).backward()
            optimizer.step()
            optimizer.zero_grad()
    return (model(x[2100:-100]).argmax(1) == truth[2100:-100]).float().mean().item(), reweight, wrong[:800]


def test_wrong_labels_that_the_network_predicts() -> None:
    accuracy, reweight, wrong = predicted_errors("predicted")
    uniform, _, _ = predicted_errors("predicted", weighted=False)
    assert reweight.ranks is not None
    assert reweight.ranks.predicted_errors == 1
    assert accuracy > uniform + 0.05
    weights = reweight.weights
    assert weights[:800][wrong].mean() < weights[:800][~wrong].mean()
    assert weights[800:].mean() >= 0.5 * 900 / 100  # half of all weight
    assert weights.mean().item() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("kind", ["flipped", "rare", "none"])
def test_wrong_labels_that_the_network_does_not_predict_and_rare_classes(kind: str) -> None:
    _, reweight, _ = predicted_errors(kind)
    assert reweight.ranks is not None
    assert reweight.ranks.predicted_errors == 0


def look(
    losses: Tensor,
    uncertainty: Tensor,
    seen: int,
    ranks: RankEstimator | None = None,
    unexpected: Tensor | None = None,
) -> RankEstimator:
    """An estimator with the last 50 of 200 samples trusted, after one look in epoch ``seen``."""
    state = WeightState(200, "")
    state.seen_samples.fill_(200 * seen + 1)
    ranks = RankEstimator(200, 50, torch.arange(150, 200), Generator()) if ranks is None else ranks
    ranks.factors = torch.ones(3)
    ranks.labels.fill_(0)
    assert ranks.uncertainty is not None
    assert ranks.unexpected is not None
    ranks.losses[:-1], ranks.uncertainty[:-1] = losses, uncertainty
    ranks.unexpected[:-1] = torch.zeros(200) if unexpected is None else unexpected
    ranks.refit(state)
    return ranks


SURE = torch.rand(200, generator=Generator().manual_seed(0))
LARGER = SURE + (torch.arange(200) >= 150)  # trusted values are larger


def test_evidence_of_predicted_errors() -> None:
    assert look(LARGER, SURE, seen=3).predicted_errors == 1
    assert look(LARGER, LARGER, seen=3).predicted_errors == 0  # the network is less sure of trusted samples
    assert look(SURE, SURE, seen=3).predicted_errors == 0
    for seen in (0, 2, 6, 40):
        assert look(LARGER, SURE, seen).predicted_errors == 0
    found = look(LARGER, SURE, seen=3)
    assert look(SURE, SURE, 5, found).predicted_errors == 1  # the largest evidence
    assert look(-LARGER, SURE, 5, found).predicted_errors == 0  # smaller trusted losses cancel it
    found = look(LARGER, SURE, seen=3)
    assert look(-LARGER, SURE, 40, found).predicted_errors == 1


def test_evidence_of_predicted_errors_by_unexpected_errors() -> None:
    """Nine trusted labels are errors that the network does not expect: a difference of 3.28 standard errors."""
    errors = torch.where((torch.arange(200) >= 150) & (torch.arange(200) % 6 == 0), 0.9, -0.05)
    assert look(SURE, SURE, seen=3).predicted_errors == 0
    found = look(SURE, SURE, 3, unexpected=errors)
    assert found.predicted_errors.item() == pytest.approx(3.28 - 2.5, abs=0.01)
    assert look(SURE, LARGER, 3, unexpected=errors).predicted_errors == 0
    assert look(SURE, SURE, 3, unexpected=-errors).predicted_errors == 0
    assert look(-LARGER, SURE, 3, unexpected=errors).predicted_errors == 0
    assert look(SURE, SURE, 6, unexpected=errors).predicted_errors == 0


def test_uncertainty_is_needed_until_the_looks_are_over_and_again_in_an_earlier_state() -> None:
    early = look(LARGER, SURE, seen=5)
    assert early.needs_uncertainty
    late = look(LARGER, SURE, 6, look(LARGER, SURE, seen=5))
    assert not late.needs_uncertainty
    late.load_state_dict(early.state_dict())
    assert late.needs_uncertainty


def test_predicted_errors_are_part_of_the_state() -> None:
    found = look(LARGER, SURE, seen=3, unexpected=-SURE)
    other = RankEstimator(200, 50, torch.arange(150, 200), Generator())
    other.load_state_dict(found.state_dict())
    assert other.predicted_errors == 1
    assert other.unexpected is not None
    torch.testing.assert_close(other.unexpected[:-1], -SURE)
    moved = found.with_last_losses(RankEstimator(200, 40, torch.arange(160, 200), Generator()))
    assert moved.predicted_errors == 1
    assert moved.uncertainty is not None
    assert moved.unexpected is not None
    torch.testing.assert_close(moved.uncertainty[:-1], SURE)
    torch.testing.assert_close(moved.unexpected[:-1], -SURE)


def test_uncertainty_and_unexpected_errors_are_those_of_the_outputs_of_each_sample() -> None:
    logits, labels, _ = task()
    model = Table(logits.float())
    everything = TensorDataset(torch.arange(120), labels)
    for joined in (True, False):
        val_set: Any = Indexed(everything, torch.arange(90, 120)).trusted if joined else everything
        reweight = ADIW(model, CROSS_ENTROPY, val_set, 120)
        index = torch.cat([torch.tensor([7, 3, 100]), (logits.argmax(1) != labels).nonzero()[:1, 0]])
        reweight(model(index), labels[index], index)
        assert reweight.ranks is not None
        if not joined:
            assert reweight.ranks.uncertainty is None
            continue
        assert reweight.ranks.uncertainty is not None
        expected = -logits[index].softmax(1).amax(1).log().float()
        torch.testing.assert_close(reweight.ranks.uncertainty[index], expected)
        assert reweight.ranks.uncertainty.isfinite().sum() == 4
        wrong = logits[index].argmax(1) != labels[index]
        assert wrong.any()
        assert not wrong.all()
        assert reweight.ranks.unexpected is not None
        errors = wrong.float() - 1 + logits[index].softmax(1).amax(1).float()
        torch.testing.assert_close(reweight.ranks.unexpected[index], errors)
        assert reweight.ranks.unexpected.isfinite().sum() == 4
