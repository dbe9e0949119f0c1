"""Write files in the layout of CIFAR-100 from the images of CIFAR-10, to try the command without CIFAR-100.

``python benchmarks/make_cifar100.py ROOT`` reads ROOT/cifar-10-batches-bin and writes ROOT/cifar-100-binary. Each of
the ten classes is split into ten by brightness. A network can learn these classes; its accuracy says nothing about
CIFAR-100.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

RECORD = 1 + 3 * 32 * 32


def read(folder: Path, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n,) and pixels (n, 3072) of files of CIFAR-10."""
    rows = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, RECORD) for name in names])
    return rows[:, 0], rows[:, 1:]


def fine_labels(label: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Ten times the class, plus the decile of the image's brightness within its class: (n,) uint8."""
    brightness, fine = pixels.mean(1), np.zeros_like(label)
    for one in range(10):
        of_class = np.flatnonzero(label == one)
        rank = brightness[of_class].argsort().argsort()
        fine[of_class] = 10 * one + rank * 10 // len(of_class)
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", type=Path)
    root = parser.parse_args().root
    (root / "cifar-100-binary").mkdir(exist_ok=True)
    for name, parts in (("train", [f"data_batch_{k}.bin" for k in range(1, 6)]), ("test", ["test_batch.bin"])):
        label, pixels = read(root / "cifar-10-batches-bin", parts)
        rows = np.column_stack([label, fine_labels(label, pixels), pixels])
        rows.tofile(root / "cifar-100-binary" / f"{name}.bin")


if __name__ == "__main__":
    main()
