"""A PyTorch loop: digits with 40% wrong training labels. "new" and "was" mark the changed lines."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

import adiw  # new
from adiw.models import MLP
from noisy_digits import accuracy, noisy_digits


def train(epochs: int = 25, folder: Path | None = None, start: int = 0) -> dict[str, nn.Module]:
    """Train and return all stateful parts. ``folder`` gets a checkpoint per epoch; ``start`` resumes from one."""
    torch.manual_seed(0)
    train_set, trusted, _ = noisy_digits()
    model = MLP((64,), num_classes=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss(reduction="none")  # one loss per sample
    parts = {"model": model, "optimizer": optimizer}
    train_set = adiw.Indexed(train_set, trusted)  # new: items become (x, y, index)
    reweight = parts["adiw"] = adiw.ADIW(model, criterion, train_set.trusted, len(train_set))  # new
    loader = DataLoader(train_set, batch_size=128, shuffle=True, drop_last=True)
    if folder is not None and start > 0:
        states = torch.load(folder / f"{start}.pt", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(states[name])

    for epoch in range(start, epochs):
        torch.manual_seed(epoch)  # the order of an epoch depends on its number alone, so a resumed run has the same
        for x, y, index in loader:  # was: for x, y in loader:
            loss = reweight(model(x), y, index)  # was: loss = criterion(model(x), y).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if folder is not None:
            torch.save({name: part.state_dict() for name, part in parts.items()}, folder / f"{epoch + 1}.pt")
    return parts


def main() -> float:
    """Train, and return the accuracy on the test set in percent."""
    return accuracy(train()["model"], noisy_digits()[2])


if __name__ == "__main__":
    print(f"accuracy {main():.1f}%")
