"""Segmentation: half of the objects were not annotated, so their masks are empty; each pixel has its own weight."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adiw

MARGIN = 0.20  # smallest allowed gain in intersection over union over the same training without weights
SIZE = 24


def images(count: int, missing: float) -> TensorDataset:
    """Noisy images (n, 1, SIZE, SIZE) of a disc, and their masks (n, SIZE, SIZE), some of them empty."""
    pixels = torch.arange(SIZE).float()
    centre, radius = SIZE * (0.25 + 0.5 * torch.rand(2, count, 1, 1)), 3 + 4 * torch.rand(count, 1, 1)
    masks = (pixels[:, None] - centre[0]).square() + (pixels - centre[1]).square() < radius.square()
    shown = masks.float() + 0.5 * torch.randn(count, SIZE, SIZE)
    return TensorDataset(shown.unsqueeze(1), (masks & (torch.rand(count, 1, 1) >= missing)).float())


def train(train_set: TensorDataset, trusted: TensorDataset, weighted: bool) -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    model.append(nn.Flatten(1, 2))  # (n, SIZE, SIZE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.BCEWithLogitsLoss(reduction="none")  # one loss per pixel
    reweight = adiw.ADIW(model, criterion, trusted, num_train=None, unit="element")
    for _ in range(8):
        for x, mask in DataLoader(train_set, batch_size=32, shuffle=True, drop_last=True):
            scores = model(x)
            loss = reweight(scores, mask) if weighted else criterion(scores, mask).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def intersection_over_union(scores: Tensor, masks: Tensor) -> float:
    """Pixels that are in both masks, divided by those that are in one of them, over all images."""
    found, there = scores > 0, masks > 0
    return ((found & there).sum() / (found | there).sum()).item()


def main(seed: int = 0) -> dict[str, float]:
    """Intersection over union on images with correct masks, with and without weights."""
    scores = {}
    for weighted in (False, True):
        torch.manual_seed(seed)
        train_set, trusted, test = images(320, 0.5), images(64, 0.0), images(200, 0.0)
        model = train(train_set, trusted, weighted)
        with torch.no_grad():
            found = model(test.tensors[0])
        scores["weighted" if weighted else "plain"] = intersection_over_union(found, test.tensors[1])
    print(f"intersection over union: {scores['plain']:.3f} plain, {scores['weighted']:.3f} weighted")
    assert scores["weighted"] >= scores["plain"] + MARGIN, scores
    return scores


if __name__ == "__main__":
    main()
