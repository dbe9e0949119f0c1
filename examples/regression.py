"""Regression: half of the measurements are very noisy; a few are known to be good."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adiw

MARGIN = 0.6  # largest allowed ratio of the error with weights to the error without


def measure(count: int, noise: Tensor) -> TensorDataset:
    """A smooth function of five columns, plus noise with this standard deviation per row."""
    x = torch.rand(count, 5) * 2 - 1
    y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3].abs()
    return TensorDataset(x, y + noise * torch.randn(count))


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """One loss per sample: (n,)."""
    return (outputs.squeeze(1) - targets).square()


def train(train_set: TensorDataset, trusted: TensorDataset, weighted: bool) -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    # The scale of squared errors falls during training: width="auto" adapts to it.
    divergence = adiw.divergences.KL(width="auto")
    reweight = adiw.ADIW(model, squared_error, trusted, len(train_set), divergence)
    for _ in range(40):
        for x, y, index in DataLoader(adiw.Indexed(train_set), batch_size=128, shuffle=True, drop_last=True):
            outputs = model(x)
            loss = reweight(outputs, y, index) if weighted else squared_error(outputs, y).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def main(seed: int = 0) -> dict[str, float]:
    """Root mean squared error on measurements without noise, with and without weights."""
    errors = {}
    for weighted in (False, True):
        torch.manual_seed(seed)
        noise = torch.where(torch.rand(1000) < 0.5, 0.05, 3.0)  # half of the instruments are bad
        train_set, trusted = measure(1000, noise), measure(100, torch.tensor(0.05))
        test = measure(1000, torch.tensor(0.0))
        model = train(train_set, trusted, weighted)
        error = squared_error(model(test.tensors[0]), test.tensors[1]).mean().sqrt()
        errors["weighted" if weighted else "plain"] = error.item()
    print(f"root mean squared error: {errors['plain']:.3f} plain, {errors['weighted']:.3f} weighted")
    assert errors["weighted"] <= MARGIN * errors["plain"], errors
    return errors


if __name__ == "__main__":
    main()
