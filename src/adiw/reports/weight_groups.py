"""Histograms of a run's weights, apart for intact and mislabelled samples where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 50


def weight_groups(weights: NDArray[np.float32], flipped: NDArray[np.bool_]) -> dict[str, Any]:
    """Edges and groups in the form of a sweep's records; the last bin also holds what is beyond.

    weights: (n,);  flipped: (n,), all false where the truth is not known.

    >>> found = weight_groups(np.array([0.0, 1.0, 1.0]), np.array([True, False, False]))
    >>> {name: (group["count"], group["mean"]) for name, group in found["groups"].items()}
    {'intact': (2, 1.0), 'mislabelled': (1, 0.0)}
    """
    top = max(2.0, float(np.quantile(weights, 0.99)))
    edges = np.linspace(0, top, BINS + 1)
    parts = {"intact": weights[~flipped], "mislabelled": weights[flipped]} if flipped.any() else {"all": weights}
    groups = {
        name: {
            "count": len(part),
            "mean": float(part.mean()),
            "histogram": np.histogram(np.clip(part, 0, top), edges)[0].tolist(),
        }
        for name, part in parts.items()
        if len(part)
    }
    return {"edges": [round(float(edge), 4) for edge in edges], "groups": groups}
