"""Custom loops, plain or with accelerate: bad input is an error that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from adiw import ADIW, Indexed

_data = Generator().manual_seed(0)
X, Y = torch.randn(40, 4, generator=_data), torch.randint(3, (40,), generator=_data)
TRUSTED = TensorDataset(X[:10], Y[:10])
CRITERION = nn.CrossEntropyLoss(reduction="none")


def plain(train_set: Any, model: nn.Module, num_train: int = 40, **settings: Any) -> ADIW:
    reweight = ADIW(model, CRITERION, TRUSTED, num_train)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y, *index in DataLoader(train_set, batch_size=20, **settings):
        reweight(model(x), y, index[0] if index else None).backward()
        optimizer.step()
        optimizer.zero_grad()
    return reweight


class Net(nn.Linear):
    """Columns in, an object with logits out."""

    def forward(self, x: Tensor) -> Any:
        return type("Outputs", (), {"logits": super().forward(x)})


def with_accelerate(train_set: Any, model: nn.Module, num_train: int = 40, **settings: Any) -> ADIW:
    accelerate = pytest.importorskip("accelerate", reason="needs the extra adiw[hf]")
    pytest.importorskip("transformers", reason="needs the extra adiw[hf]")
    from adiw.integrations.huggingface import classify

    def columns(samples: list[Any]) -> dict[str, Tensor]:
        names = ("x", "labels", "index")
        return {
            name: torch.as_tensor([s[i] for s in samples]) if i else torch.stack([s[0] for s in samples])
            for i, name in enumerate(names[: len(samples[0])])
        }

    accelerator = accelerate.Accelerator(cpu=True)
    net = Net(4, 3)
    net.load_state_dict(model.state_dict())
    net.requires_grad_(model.weight.requires_grad)
    loader = DataLoader(train_set, batch_size=20, collate_fn=columns, **settings)
    net, optimizer, loader = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1), loader)
    trusted = [{"x": x, "labels": y} for x, y in TRUSTED]
    reweight = ADIW(net, CRITERION, trusted, num_train, forward=classify)
    accelerator.register_for_checkpointing(reweight)
    for batch in loader:
        accelerator.backward(reweight(*classify(net, batch), batch["index"]))
        optimizer.step()
        optimizer.zero_grad()
    return reweight


@pytest.fixture(params=[plain, with_accelerate])
def train(request: pytest.FixtureRequest) -> Callable[..., ADIW]:
    return request.param  # type: ignore[no-any-return]


def rows(count: int = 40) -> TensorDataset:
    return TensorDataset(torch.cat([X, X])[:count], torch.cat([Y, Y])[:count])


def test_a_loader_without_indices(train: Callable[..., ADIW]) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=r"(index is missing: pass|only x, labels: wrap the training set).*Indexed"
    ):
        train(rows(), nn.Linear(4, 3))


def test_a_sampler_that_repeats_indices(train: Callable[..., ADIW]) -> None:
    sampler = RandomSampler(rows(), replacement=True, generator=Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"sample \d+ is twice in a batch.* draw them without replacement"):
        train(Indexed(rows()), nn.Linear(4, 3), sampler=sampler)


def test_a_training_set_that_changes_its_length(train: Callable[..., ADIW], tmp_path: Path) -> None:
    with pytest.raises(
        IndexError, match=r"index 40 is not in the training set: num_train is 40, which must be the length"
    ):
        train(Indexed(rows(60)), nn.Linear(4, 3))
    longer = train(Indexed(rows(60)), nn.Linear(4, 3), num_train=60)
    with pytest.raises(
        ValueError, match=r"this state is of 60 training samples, but there are 40 now: .*the same training set"
    ):
        train(Indexed(rows()), nn.Linear(4, 3)).load_state_dict(longer.state_dict())


def test_a_frozen_model(train: Callable[..., ADIW]) -> None:
    with pytest.raises(ValueError, match=r"no parameter of \w+ requires a gradient.*unfreeze a part of it"):
        train(Indexed(rows()), nn.Linear(4, 3).requires_grad_(False))
