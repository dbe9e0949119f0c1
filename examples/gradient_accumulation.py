"""Gradient accumulation: weights are estimated for each small batch, the optimizer steps after several."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader

import adiw
from adiw.baselines import Uniform
from adiw.models import MLP
from noisy_digits import accuracy, noisy_digits

ACCUMULATED = 2  # small batches for each step of the optimizer


def main(weighted: bool = True, epochs: int = 25) -> float:
    """Train and return the test accuracy in percent; without ``weighted``, every weight is one."""
    torch.manual_seed(0)
    train_set, trusted, test_set = noisy_digits()
    model = MLP((64,), num_classes=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss(reduction="none")

    train_set = adiw.Indexed(train_set)  # items become (x, y, index)
    method = adiw.ADIW if weighted else Uniform
    reweight = method(model, criterion, trusted, num_train=len(train_set))

    for _ in range(epochs):
        loader = DataLoader(train_set, batch_size=128 // ACCUMULATED, shuffle=True, drop_last=True)
        for number, (x, y, index) in enumerate(loader, start=1):
            loss = reweight(model(x), y, index) / ACCUMULATED  # their sum is the weighted mean of all
            loss.backward()
            if number % ACCUMULATED == 0:
                optimizer.step()
                optimizer.zero_grad()
    return accuracy(model, test_set)


if __name__ == "__main__":
    print(f"accuracy without weights {main(weighted=False):.1f}%, with weights {main():.1f}%")
