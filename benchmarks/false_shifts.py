"""``python -m benchmarks.false_shifts FOLDER``: how often a difference is found where there is none.

Rows of clean tables (see ``benchmarks/audit_tables.py``) are dealt at random into training and trusted samples. Then
``adiw check`` and the verdict, with trusted samples that are trained on and with others, should find a difference as
often as their level says: in one of a hundred splits, each test. The record is benchmarks/results/false_shifts.json.
"""

from __future__ import annotations

import argparse
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import adiw
from adiw.data import Samples
from adiw.experiments.data_check import check_data
from adiw.experiments.settings import HOLD_OUT, resolve
from adiw.experiments.splits import Splits, load_splits
from adiw.reweighting.diagnostics.verdict import LEVEL
from benchmarks.audit_tables import read_table
from benchmarks.record import RESULTS, describe

TABLES = ("german", "pima", "australian", "contraceptive", "segment", "titanic", "saheart", "vehicle")
MOST_ROWS, LEAST_TRUSTED, STEPS, BATCH = 2500, 40, 130, 64
CHECKS = ("class mix", "inputs", "labels")


def draw(file: Path, seed: int) -> tuple[Samples, int]:
    """Shuffled rows, and how many of the first are trusted."""
    pool, rng = read_table(file), np.random.default_rng([seed, zlib.crc32(file.stem.encode())])
    pool = pool[rng.permutation(len(pool))[:MOST_ROWS]]
    return Samples(torch.from_numpy(pool.x), torch.from_numpy(pool.y).long()), max(LEAST_TRUSTED, len(pool) // 10)


def checked(samples: Samples, trusted: int, seed: int) -> dict[str, float]:
    """The p-values of ``adiw check``."""
    template = load_splits(resolve({"dataset": "digits", "shift": "none", "trusted": 100}))
    index = torch.arange(trusted)
    classes = tuple(map(str, range(1 + int(samples.y.max()))))
    data = replace(template.data, train=samples, test=samples, classes=classes)
    shifted = replace(template.shifted, trusted=index)
    splits = Splits(data, samples, samples.subset(index), samples, shifted, None, None)
    found = {each.name: each.figures for each in check_data(splits, HOLD_OUT, seed)}
    return {name: found[name]["p_value"] for name in CHECKS}


def judged(samples: Samples, trusted: int, seed: int, join: bool) -> float:
    """The p-value of the first answer of the verdict."""
    torch.manual_seed(seed)
    parts = [TensorDataset(samples.x[part], samples.y[part]) for part in (slice(trusted, None), slice(trusted))]
    train_set = adiw.Indexed(parts[0], parts[1] if join else None)
    classes = 1 + int(samples.y.max())
    model = nn.Sequential(nn.Linear(samples.x.shape[1], 64), nn.ReLU(), nn.Linear(64, classes))
    criterion = nn.CrossEntropyLoss(reduction="none")
    reweight = adiw.ADIW(model, criterion, train_set.trusted if join else parts[1], len(train_set))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader: DataLoader[Any] = DataLoader(train_set, BATCH, shuffle=True)
    for _ in range(-(-STEPS // len(loader))):
        for x, y, index in loader:
            reweight(model(x), y, index).backward()
            optimizer.step()
            optimizer.zero_grad()
    p_value = reweight.verdict().shift.p_value
    return 1.0 if p_value is None else p_value


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.false_shifts", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=25, help="of each table")
    parser.add_argument("--results", type=Path, default=RESULTS / "false_shifts.json")
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    found: dict[str, list[float]] = {}
    files = [file for name in TABLES if (file := arguments.folder / f"{name}.dat").exists()]
    for seed in range(arguments.splits):
        for file in files:
            samples, trusted = draw(file, seed)
            p_values = checked(samples, trusted, seed)
            p_values["verdict, trained on"] = judged(samples, trusted, seed, True)
            p_values["verdict, apart"] = judged(samples, trusted, seed, False)
            for name, value in p_values.items():
                found.setdefault(name, []).append(round(value, 5))
    rates = {name: {"splits": len(p), "found": sum(v < LEVEL for v in p)} for name, p in found.items()}
    record = {"level": LEVEL, "tables": [file.stem for file in files], "tests": rates, "p_values": found}
    arguments.results.write_text(json.dumps({**record, **describe("adiw")}) + "\n")
    for name, rate in rates.items():
        print(f"{name}: {rate['found']} of {rate['splits']}")


if __name__ == "__main__":
    main()
