"""Read a table as KEEL has it: columns separated by commas, no header, the class last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.gauntlet.task import Pool

LEAST_OF_A_CLASS = 15  # rows


def read_table(file: Path) -> Pool:
    """Numbers standardised, text one-hot (its thirty most frequent values); classes of few rows are left out."""
    frame = pd.read_csv(file, header=None, na_values="?", skipinitialspace=True)
    label, columns = frame.iloc[:, -1].astype(str), []
    for name in frame.columns[:-1]:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            numbers = column.fillna(column.median()).to_numpy(float)
            columns.append(((numbers - numbers.mean()) / (numbers.std() or 1))[:, None])
        else:
            values = column.astype(str).value_counts().index[:30]
            columns.append((column.astype(str).to_numpy()[:, None] == values.to_numpy()).astype(float))
    kept = (label.map(label.value_counts()) >= LEAST_OF_A_CLASS).to_numpy()
    y = pd.factorize(label[kept], sort=True)[0]
    return Pool(np.concatenate(columns, 1)[kept].astype(np.float32), y, np.arange(len(y)))
