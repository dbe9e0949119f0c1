"""An ordinary PyTorch loop, on digits, 40% of whose training labels are wrong; the lines that change are marked."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader

import adiw  # changed
from adiw.baselines import Uniform
from adiw.models import MLP
from noisy_digits import accuracy, noisy_digits


def main(weighted: bool = True, epochs: int = 25) -> float:
    """Train and return the test accuracy in percent; without ``weighted``, every weight is one."""
    torch.manual_seed(0)
    train_set, trusted, test_set = noisy_digits()
    model = MLP((64,), num_classes=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss(reduction="none")

    train_set = adiw.Indexed(train_set)  # changed: items become (x, y, index)
    method = adiw.ADIW if weighted else Uniform
    reweight = method(model, criterion, trusted, num_train=len(train_set))  # changed

    for _ in range(epochs):
        for x, y, index in DataLoader(train_set, batch_size=128, shuffle=True, drop_last=True):  # changed
            loss = reweight(model(x), y, index)  # changed: weighted mean loss, ready for backward
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, test_set)


if __name__ == "__main__":
    print(f"accuracy without weights {main(weighted=False):.1f}%, with weights {main():.1f}%")
