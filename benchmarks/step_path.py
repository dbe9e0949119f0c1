"""Follow one training step of the README's loop through the source: calls, files, changes of file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import adiw

SOURCE = f"{Path(adiw.__file__).parent}/"


def build_step() -> Callable[[], None]:
    """One step of the README's loop (kl, ``val_every=1``), past its warm-up and the first hundred steps."""
    torch.manual_seed(0)
    train_set = adiw.Indexed(TensorDataset(torch.randn(2000, 20), torch.randint(5, (2000,))))
    val_set = TensorDataset(torch.randn(50, 20), torch.randint(5, (50,)))
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss(reduction="none")
    reweight = adiw.ADIW(model, criterion, val_set, num_train=len(train_set), divergence="kl", val_every=1)
    loader = DataLoader(train_set, batch_size=64, shuffle=True, drop_last=True)
    batches = [batch for _ in range(5) for batch in loader]

    def step() -> None:
        x, y, index = batches.pop()
        reweight(model(x), y, index).backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(120):
        step()
    return step


def follow(step: Callable[[], None]) -> tuple[list[tuple[int, str, str]], int]:
    """((depth, file, function) of every call within the package, how often control passes from file to file)."""
    calls: list[tuple[int, str, str]] = []
    stack: list[str] = []
    changes = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal changes
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(SOURCE):
            return
        if event == "call":
            calls.append((len(stack), file.removeprefix(SOURCE), frame.f_code.co_qualname))
            stack.append(file)
        else:
            stack.pop()
        changes += bool(stack[:-1] if event == "call" else stack) and file != stack[-2 if event == "call" else -1]

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return calls, changes


def main() -> None:
    calls, changes = follow(build_step())
    for depth, file, name in calls:
        print("  " * depth + f"{file} {name}")
    print(f"{len(calls)} calls in {len({file for _, file, _ in calls})} files, {changes} changes of file")


if __name__ == "__main__":
    main()
