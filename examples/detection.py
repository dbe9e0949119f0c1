"""Detection: each disc in a picture has a box, and in 40% of the pictures the boxes are twice as large."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import adiw

MARGIN = 0.08  # smallest allowed gain in overlap of the boxes over the same training without weights
SIZE, CELLS = 24, 6  # pixels and cells along a side; a cell finds the disc whose centre is in it
Sample = tuple[Tensor, Tensor]  # picture (1, SIZE, SIZE) and boxes (discs, 4): left, top, right, bottom in pixels


def draw(too_large: float) -> Sample:
    """A noisy picture, and the boxes of its discs."""
    discs = int(torch.randint(1, 4, ()))
    centre, radius = 4 + (SIZE - 8) * torch.rand(discs, 2), 2 + 3 * torch.rand(discs, 1)
    pixels = torch.arange(SIZE) + 0.5
    apart = (pixels - centre[:, :1, None]).square() + (pixels[:, None] - centre[:, 1:, None]).square()
    picture = (apart < radius[..., None].square()).any(0).float() + 0.2 * torch.randn(SIZE, SIZE)
    half = 2 * radius if torch.rand(()) < too_large else radius
    return picture.unsqueeze(0), torch.cat([centre - half, centre + half], 1)


def pictures(count: int, too_large: float) -> list[Sample]:
    return [draw(too_large) for _ in range(count)]


def collate(samples: list[Any]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Pictures (n, 1, SIZE, SIZE), a list of n boxes (discs, 4), and the index (n,)."""
    x, boxes, index = zip(*samples, strict=True)
    return torch.stack(x), list(boxes), torch.tensor(index)


def at_cells(outputs: Tensor, boxes: list[Tensor]) -> list[Tensor]:
    """The boxes that were found in the cells of the given boxes' centres, from outputs (n, 4, CELLS, CELLS)."""
    found = []
    for distances, given in zip(outputs, boxes, strict=True):
        centre = (given[:, :2] + given[:, 2:]) / 2
        column, row = (centre * CELLS / SIZE).long().clamp(0, CELLS - 1).T
        middle = (torch.stack([column, row, column, row], 1) + 0.5) * SIZE / CELLS
        found.append(middle + distances[:, row, column].T)
    return found


def losses_of_boxes(outputs: Tensor, boxes: list[Tensor]) -> list[Tensor]:
    """One loss for each box: a tensor (discs,) for each picture."""
    return [(found - given).square().mean(1) for found, given in zip(at_cells(outputs, boxes), boxes, strict=True)]


def train(train_set: list[Sample], trusted: list[Sample], weighted: bool) -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 5, padding=2, stride=2), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 4, 1),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    indexed = adiw.Indexed(train_set, trusted)
    reweight = adiw.ADIW(model, losses_of_boxes, indexed.trusted, len(indexed))
    for _ in range(10):
        for x, boxes, index in DataLoader(indexed, 32, shuffle=True, drop_last=True, collate_fn=collate):
            outputs = model(x)
            loss = reweight(outputs, boxes, index) if weighted else torch.cat(losses_of_boxes(outputs, boxes)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def overlap(found: Tensor, given: Tensor) -> Tensor:
    """The area of two boxes' intersection, divided by that of their union: (discs,)."""
    sides = torch.minimum(found[:, 2:], given[:, 2:]) - torch.maximum(found[:, :2], given[:, :2])
    both = sides.clamp_min(0).prod(1)
    areas = [(box[:, 2:] - box[:, :2]).clamp_min(0).prod(1) for box in (found, given)]
    return both / (areas[0] + areas[1] - both)


def main(seed: int = 0) -> dict[str, float]:
    """The mean overlap with correct boxes, with and without weights."""
    scores = {}
    for weighted in (False, True):
        torch.manual_seed(seed)
        train_set, trusted, test = pictures(400, 0.4), pictures(60, 0.0), pictures(200, 0.0)
        model = train(train_set, trusted, weighted)
        boxes = [given for _, given in test]
        with torch.no_grad():
            found = at_cells(model(torch.stack([x for x, _ in test])), boxes)
        scores["weighted" if weighted else "plain"] = overlap(torch.cat(found), torch.cat(boxes)).mean().item()
    print(f"overlap: {scores['plain']:.3f} plain, {scores['weighted']:.3f} weighted")
    assert scores["weighted"] >= scores["plain"] + MARGIN, scores
    return scores


if __name__ == "__main__":
    main()
