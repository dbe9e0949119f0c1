"""Files in the layout of CIFAR-100 from images of CIFAR-10: ten equal parts of each class, from dark to bright."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np

from adiw.data.cifar import PIXELS, read_binary

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "make_cifar100.py"


def test_ten_parts_of_each_class(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    written = []
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        brightness = random.permutation(100).astype(np.uint8)
        rows = np.column_stack([np.arange(100) % 10, np.repeat(brightness[:, None], PIXELS, 1)]).astype(np.uint8)
        rows.tofile(folder / f"{name}.bin")
        written.append(rows)
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True, timeout=120)
    read = partial(read_binary, label_bytes=2)
    for name, rows in (("train.bin", np.concatenate(written[:5])), ("test.bin", written[5])):
        path = tmp_path / "cifar-100-binary" / name
        x, y = read(path.read_bytes(), path)
        assert np.array_equal(x.flatten(1).numpy(), rows[:, 1:])
        assert np.array_equal(y.numpy() // 10, rows[:, 0])
        assert y.bincount(minlength=100).tolist() == [len(rows) // 100] * 100
        for fine in range(99):
            if fine % 10 < 9:
                assert rows[y == fine, 1].max() <= rows[y == fine + 1, 1].min()
