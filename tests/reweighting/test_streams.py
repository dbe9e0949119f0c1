"""Data without an index or a length: the last samples stand for the training set."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import adiw
from adiw.reweighting.weight_state import WINDOW

CRITERION = nn.CrossEntropyLoss(reduction="none")
DIVERGENCES = [None, *adiw.DIVERGENCES]


class Stream(IterableDataset[tuple[Tensor, Tensor, Tensor]]):
    """An endless stream of (x, label, whether it is wrong), of which 40% have another label than the true one."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            x = torch.randn(8, generator=generator)
            y, wrong = x[:3].argmax(), torch.rand((), generator=generator) < 0.4
            shift = torch.randint(1, 3, (), generator=generator)
            yield x, (y + shift * wrong) % 3, wrong


def trusted_set() -> TensorDataset:
    x = torch.randn(200, 8, generator=torch.Generator().manual_seed(5))
    return TensorDataset(x, x[:, :3].argmax(1))


def run(
    reweight: adiw.ADIW, model: nn.Module, batches: Iterator[tuple[Tensor, Tensor, Tensor]], steps: int
) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(steps):
        x, y, _ = next(batches)
        loss = reweight(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_each_divergence_tells_wrong_labels_of_a_stream(divergence: str | None) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    reweight = adiw.ADIW(model, CRITERION, trusted_set(), None, divergence)
    batches = iter(DataLoader(Stream(1), batch_size=64))
    run(reweight, model, batches, 80)
    seen, found = reweight.weight_state.seen_samples.clone(), []
    for _ in range(WINDOW // 64):
        x, y, bad = next(batches)
        reweight(model(x), y)
        found.append(bad)
    wrong = torch.cat(found)
    slots = (seen + torch.arange(WINDOW)) % WINDOW
    weights = reweight.weights[slots]
    assert weights[~wrong].mean() > 1.4 * weights[wrong].mean()


@pytest.mark.parametrize("divergence", [None, "kl", "mmd"])
def test_a_stream_resumes_exactly(divergence: str | None) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    reweight = adiw.ADIW(model, CRITERION, trusted_set(), None, divergence)
    batches = iter(DataLoader(Stream(1), batch_size=64))
    run(reweight, model, batches, 50)
    states = copy.deepcopy((model.state_dict(), reweight.state_dict()))
    rest = [next(batches) for _ in range(10)]
    expected = run(reweight, model, iter(rest), 10)
    torch.manual_seed(1)
    other = nn.Linear(8, 3)
    resumed = adiw.ADIW(other, CRITERION, trusted_set(), None, divergence)
    other.load_state_dict(states[0])
    resumed.load_state_dict(states[1])
    assert run(resumed, other, iter(rest), 10) == expected
    assert torch.equal(resumed.weights, reweight.weights)


class Batches(IterableDataset[tuple[Tensor, ...]]):
    """Whole batches without a length, as webdataset makes them; of any size."""

    def __init__(self, seed: int, sizes: list[int]) -> None:
        self.stream, self.sizes = Stream(seed), sizes

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        items = iter(self.stream)
        for size in self.sizes:
            x, y, wrong = zip(*(next(items) for _ in range(size)), strict=True)
            yield torch.stack(x), torch.stack(y), torch.stack(wrong)


class Sized(IterableDataset[dict[str, Tensor]]):
    """Mappings and a length, as mosaicml's StreamingDataset has them."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for x, y, _ in islice(Stream(1), self.size):
            yield {"x": x, "y": y}


def test_whole_batches_and_mappings_with_a_length_train_as_the_plain_stream() -> None:
    settings = {"warmup_steps": 0, "cautious": False}

    def weights(batches: Iterator[tuple[Tensor, Tensor, Tensor]], steps: int) -> Tensor:
        torch.manual_seed(0)
        model = nn.Linear(8, 3)
        reweight = adiw.ADIW(model, CRITERION, trusted_set(), None, "squared", **settings)
        run(reweight, model, batches, steps)
        return reweight.weights

    plain = weights(iter(DataLoader(Stream(1), batch_size=32)), 6)
    assert (plain[: 6 * 32] != 1).any()
    whole = DataLoader(Batches(1, [32] * 6), batch_size=None, num_workers=1)
    assert torch.equal(weights(iter(whole), 6), plain)
    sized = DataLoader(Sized(6 * 32), batch_size=32)
    assert torch.equal(weights(((b["x"], b["y"], b["x"]) for b in sized), 6), plain)
    ragged = weights(iter(DataLoader(Batches(1, [32, 7, 1, 40]), batch_size=None)), 4)
    assert (ragged[:80] != 1).any()
    assert (ragged[80:] == 1).all()


def test_the_state_has_the_size_of_the_window_and_the_slots_are_taken_in_turn() -> None:
    model = nn.Linear(8, 3)
    reweight = adiw.ADIW(model, CRITERION, trusted_set(), None, warmup_steps=0)
    assert reweight.weights.shape == (WINDOW,)
    sizes = {key: x.numel() for key, x in reweight.state_dict().items() if isinstance(x, Tensor)}
    for n in (700, 700, 700, 3000, 1):
        x = torch.randn(n, 8)
        reweight(model(x), x[:, :3].argmax(1))
    assert int(reweight.weight_state.seen_samples) == 5101
    assert {key: x.numel() for key, x in reweight.state_dict().items() if isinstance(x, Tensor)} == sizes
    assert int((reweight.record.labels[:-1] >= 0).sum()) == WINDOW


def test_an_index_and_its_absence_are_checked() -> None:
    model, x, y = nn.Linear(8, 3), torch.randn(4, 8), torch.tensor([0, 1, 2, 0])
    stream = adiw.ADIW(model, CRITERION, trusted_set(), None)
    with pytest.raises(ValueError, match="leave index out, or pass num_train"):
        stream(model(x), y, torch.arange(4))
    indexed = adiw.ADIW(model, CRITERION, trusted_set(), 100)
    with pytest.raises(TypeError, match="index is missing: wrap the training set"):
        indexed(model(x), y)
    train_set = adiw.Indexed(TensorDataset(x, y), trusted_set())
    with pytest.raises(ValueError, match="these trusted samples are part of a training set"):
        adiw.ADIW(model, CRITERION, train_set.trusted, None)
    with pytest.raises(ValueError, match="num_train"):
        stream.load_state_dict(indexed.state_dict())


def test_losses_that_are_not_finite_are_counted_without_names() -> None:
    model = nn.Linear(8, 3)
    reweight = adiw.ADIW(model, CRITERION, trusted_set(), None)
    x = torch.randn(4, 8)
    x[2] = torch.nan
    assert reweight(model(x), torch.tensor([0, 1, 2, 0])).isfinite()
    with pytest.warns(UserWarning, match="1 training losses so far were not finite and were excluded$"):
        reweight.summary()
