"""Weights that are estimated over the batches of an optimizer step: those of one batch with all of their samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Features
from adiw.reweighting.indexed_with_trusted import TrustedSamples

CRITERION = nn.CrossEntropyLoss(reduction="none")
N, SIZE = 96, 24
_random = Generator().manual_seed(0)
X = torch.randn(N, 5, generator=_random, dtype=torch.float64)
Y = torch.randint(3, (N,), generator=_random)
TRUSTED = TensorDataset(X[:20], Y[:20])

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "default, joined": {"val_set": TrustedSamples(TRUSTED, torch.arange(20))},
    "kl": {"divergence": "kl"},
    "mmd": {"divergence": "mmd", "val_every": 1},
    "squared": {"divergence": "squared"},
    "wasserstein": {"divergence": "wasserstein", "cap": 1.2},
    "exact": {"divergence": "kl", "exact": True},
    "features": {"divergence": "kl", "transform": Features("0", num_classes=3)},
    "stream": {"divergence": "mmd", "num_train": None},
}


def network(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Linear(5, 8), nn.Dropout(dropout), nn.Tanh(), nn.Linear(8, 3)
    return nn.Sequential(*layers).double()


def make(model: nn.Module, settings: dict[str, Any]) -> ADIW:
    settings = {"val_set": TRUSTED, "num_train": N, "warmup_steps": 2, "cautious": False, **settings}
    return ADIW(model, CRITERION, **settings, generator=Generator().manual_seed(1)).double()


def train(settings: dict[str, Any], parts: int, dropout: float = 0.0, steps: int = 5) -> tuple[Tensor, ADIW]:
    """The parameters after some steps, each with the same samples in so many parts."""
    model = network(dropout)
    reweight, optimizer = make(model, settings), torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    stream = settings.get("num_train", N) is None
    for step in range(steps):
        chosen = torch.randperm(N, generator=Generator().manual_seed(step))[:SIZE]
        batches = [(X[i], Y[i]) if stream else (X[i], Y[i], i) for i in chosen.chunk(parts)]
        if parts > 1:
            reweight.look_ahead(batches)
        for x, y, *index in batches:
            (reweight(model(x), y, *index, **({} if parts > 1 else {"inputs": x})) / parts).backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([p.detach().flatten() for p in model.parameters()]), reweight


@pytest.mark.parametrize("name", VARIANTS)
def test_parts_of_a_batch_train_as_the_batch(name: str) -> None:
    (whole, expected), (accumulated, found) = (train(VARIANTS[name], parts) for parts in (1, 4))
    assert (expected.weights != 1).any()
    torch.testing.assert_close(found.weights, expected.weights, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(accumulated, whole, rtol=1e-7, atol=1e-7)
    assert found.summary().steps == expected.summary().steps == 5


def test_parts_that_are_matched_one_by_one_train_otherwise() -> None:
    model, parts = network(), [(X[i], Y[i], i) for i in torch.arange(SIZE).chunk(4)]
    together, each = (make(model, {"divergence": "mmd", "warmup_steps": 0}) for _ in range(2))
    together.look_ahead(parts)
    for x, y, index in parts:
        together(model(x), y, index)
        each(model(x), y, index)
    assert (together.weights - each.weights).abs().max() > 0.01


def test_the_weights_are_those_of_an_exact_pass_where_the_network_has_dropout() -> None:
    model = network(dropout=0.5)
    reweight = make(model, {"divergence": "kl", "warmup_steps": 0})
    reweight.look_ahead([(X[:8], Y[:8], torch.arange(8)), (X[8:24], Y[8:24], torch.arange(8, 24))])
    exact = make(model, {"divergence": "kl", "warmup_steps": 0, "exact": True})
    exact(model(X[:24]), Y[:24], torch.arange(24), X[:24])
    torch.testing.assert_close(reweight.weights, exact.weights)
    assert (exact.weights != 1).any()
    assert model.training


def test_each_part_is_the_mean_over_its_own_elements() -> None:
    """Two sentences with three words that count and two with nine: the parts add up by their numbers of words."""
    outputs = torch.randn(4, 3, 6, dtype=torch.float64, generator=Generator().manual_seed(2))
    targets = torch.randint(3, (4, 6), generator=Generator().manual_seed(3))
    targets[0, 1:], targets[1, 2:], targets[2, 3:] = -100, -100, -100
    val = TensorDataset(torch.randn(40, 3, 6, dtype=torch.float64), torch.randint(3, (40, 6)))
    whole, parts = (
        ADIW(nn.Identity(), CRITERION, val, 4, "kl", warmup_steps=0, generator=Generator().manual_seed(1)).double()
        for _ in range(2)
    )
    expected = whole(outputs, targets, torch.arange(4))
    pairs = [(outputs[:2], targets[:2], torch.arange(2)), (outputs[2:], targets[2:], torch.arange(2, 4))]
    parts.look_ahead(pairs)
    first, second = (parts(*pair) for pair in pairs)
    torch.testing.assert_close((3 * first + 9 * second) / 12, expected)
    torch.testing.assert_close(parts.weights, whole.weights)


def test_mappings_and_a_pass_of_ones_own() -> None:
    model = network()
    batches = [{"x": X[i], "y": Y[i], "index": i} for i in torch.arange(SIZE).chunk(2)]
    settings = {"divergence": "kl", "warmup_steps": 0}
    seen: list[Any] = []

    def forward(model: nn.Module, batch: Any) -> Any:
        seen.append(set(batch))
        return model(batch["x"]), batch["y"]

    val = [{"x": x, "y": y} for x, y in zip(*TRUSTED.tensors, strict=True)]
    plain, mapped = make(model, settings), make(model, {**settings, "forward": forward, "val_set": val})
    own = make(model, settings)
    plain.look_ahead([(batch["x"], batch["y"], batch["index"]) for batch in batches])
    mapped.look_ahead(batches)
    own.look_ahead(batches, lambda batch: (model(batch["x"]), batch["y"]))
    assert seen[0] == {"x", "y"}
    for found in (mapped, own):
        torch.testing.assert_close(found.weights, plain.weights)
    assert (plain.weights != 1).any()


def test_losses_that_are_not_finite() -> None:
    """One is found in the first pass, and one appears in training only."""
    model, parts, targets = nn.Linear(5, 1).double(), torch.arange(8).chunk(2), torch.full((N,), -100.0)
    val_set = TensorDataset(X[:20], targets[:20])
    settings = {"warmup_steps": 0, "cautious": False}
    reweight = ADIW(model, lambda o, t: (o[:, 0] - t).sqrt(), val_set, N, "kl", **settings).double()
    targets[1] = 100  # the root of a negative number, whose derivative is not a number either
    reweight.look_ahead([(X[i], targets[i], i) for i in parts])
    targets[5] = 100
    for i in parts:
        loss = reweight(model(X[i]), targets[i], i)
        loss.backward()
        assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert reweight.weights[1] == 1
    assert (reweight.weights[:8] != 1).sum() == 7
    assert reweight.weight_state.nonfinite.tolist()[:6] == [0, 1, 0, 0, 0, 0]


def test_batches_that_do_not_fit() -> None:
    model = network()
    reweight, first, second = make(model, {}), torch.arange(4), torch.arange(4, 10)
    with pytest.raises(ValueError, match="look_ahead needs the batches of an optimizer step, got none"):
        reweight.look_ahead([])
    with pytest.raises(TypeError, match=r"batches have no index: pass adiw\.Indexed"):
        reweight.look_ahead([(X, Y)])
    batches = [(X[i], Y[i], i) for i in (first, second)]
    reweight.look_ahead(batches)
    with pytest.raises(ValueError, match="these 6 samples are not the next 4 of look_ahead: train on its batches in"):
        reweight(model(X[second]), Y[second], second)
    reweight.look_ahead(batches)  # replaces what is left
    with pytest.raises(ValueError, match="these 4 samples are not the next 4 of look_ahead"):
        reweight(model(X[first]), Y[first], first + 1)
    reweight.load_state_dict(make(network(), {}).state_dict())
    reweight(model(X[second]), Y[second], second)  # a state has no coming batches
    elements = ADIW(nn.Identity(), nn.BCEWithLogitsLoss(reduction="none"), TRUSTED, None, unit="element")
    with pytest.raises(ValueError, match="look_ahead is for weights of samples"):
        elements.look_ahead([(X, X)])


def test_evaluation_between_the_batches_does_not_use_their_weights() -> None:
    model = network()
    reweight, index = make(model, {"warmup_steps": 0}), torch.arange(8)
    reweight.look_ahead([(X[index], Y[index], index)])
    reweight.eval()
    evaluated = reweight(model(X[20:30]), Y[20:30])
    assert evaluated == reweight.evaluator.losses(model(X[20:30]), Y[20:30]).mean()
    reweight.train()
    reweight(model(X[index]), Y[index], index)
    assert not reweight._coming


def test_trusted_samples_that_are_replaced_in_the_middle_of_an_accumulation() -> None:
    """The weights of the step that has begun stay; the next step has the new trusted samples."""
    model, batches = network(), [(X[i], Y[i], i) for i in torch.arange(SIZE).chunk(2)]
    kept, replaced = (make(model, {"divergence": "kl", "warmup_steps": 0, "val_every": 1}) for _ in range(2))
    found: list[list[Tensor]] = [[], []]
    for reweight, losses in zip((kept, replaced), found, strict=True):
        for step in range(2):
            reweight.look_ahead(batches)
            for number, (x, y, index) in enumerate(batches):
                losses.append(reweight(model(x), y, index).detach())
                if reweight is replaced and step == number == 0:
                    reweight.trust(TensorDataset(3 * X[40:80], (Y[40:80] + 1) % 3))
    torch.testing.assert_close(found[1][:2], found[0][:2], rtol=0, atol=0)
    assert found[1][2] != found[0][2]
