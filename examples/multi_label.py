"""Multi-label classification: 40% of the rows have the tags of another row; a few rows were checked."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adiw

MARGIN = 0.05  # smallest allowed gain in F1 score over the same training without weights
TAGS, COLUMNS = 8, 20


def tag(count: int, mixed_up: float, directions: Tensor) -> TensorDataset:
    """Rows near the sum of their tags' directions; a share ``mixed_up`` of them has the tags of another row."""
    tags = (torch.rand(count, TAGS) < 0.3).float()
    x = tags @ directions + 0.7 * torch.randn(count, COLUMNS)
    wrong = torch.rand(count, 1) < mixed_up
    return TensorDataset(x, torch.where(wrong, tags[torch.randperm(count)], tags))


def mean_over_tags(outputs: Tensor, targets: Tensor) -> Tensor:
    """One loss per sample, the mean over its tags: (n,)."""
    return nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)


def train(train_set: TensorDataset, trusted: TensorDataset, weighted: bool) -> nn.Module:
    model = nn.Sequential(nn.Linear(COLUMNS, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, TAGS))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    # A mean over tags is smaller than the cross-entropy of classes: width="auto" adapts to the scale.
    divergence = adiw.divergences.KL(width="auto")
    reweight = adiw.ADIW(model, mean_over_tags, trusted, len(train_set), divergence)
    for _ in range(30):
        for x, y, index in DataLoader(adiw.Indexed(train_set), batch_size=128, shuffle=True, drop_last=True):
            outputs = model(x)
            loss = reweight(outputs, y, index) if weighted else mean_over_tags(outputs, y).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def f1(outputs: Tensor, targets: Tensor) -> float:
    """2 TP / (2 TP + FP + FN) over all tags of all rows."""
    found, there = outputs > 0, targets > 0
    return (2 * (found & there).sum() / (found.sum() + there.sum())).item()


def main(seed: int = 0) -> dict[str, float]:
    """The F1 score on rows with correct tags, with and without weights."""
    scores = {}
    for weighted in (False, True):
        torch.manual_seed(seed)
        directions = torch.randn(TAGS, COLUMNS)
        train_set, trusted, test = (tag(*size, directions) for size in ((1000, 0.4), (100, 0.0), (1000, 0.0)))
        model = train(train_set, trusted, weighted)
        scores["weighted" if weighted else "plain"] = f1(model(test.tensors[0]), test.tensors[1])
    print(f"F1 score: {scores['plain']:.3f} plain, {scores['weighted']:.3f} weighted")
    assert scores["weighted"] >= scores["plain"] + MARGIN, scores
    return scores


if __name__ == "__main__":
    main()
