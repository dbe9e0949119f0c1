"""Pictures of the training samples at both ends of the weights, kept with a run for its report and its audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adiw.data import ImageFiles
from adiw.experiments.record import Folder
from adiw.experiments.task import Task
from adiw.experiments.trust import least_trusted_first, trust

EACH = 24  # pictures of either end
SIDE = 96  # pixels: larger ones would make reports heavy


def write_gallery(folder: Folder, task: Task, labels: Tensor, weights: Tensor, history: Mapping[int, Tensor]) -> None:
    """gallery.npy and gallery.json, for image data whose weights differ; otherwise nothing is written.

    labels: (4, n) original position, given, true and predicted label;  weights: (n,);  history: (n,) by epoch.
    """
    for old in ("gallery.npy", "gallery.json"):
        folder.remove(old)
    groups = choose(weights, history)
    found = pictures(task, torch.cat([torch.zeros(0, dtype=torch.int64), *groups.values()]))
    if found is None or not groups:
        return
    folder.write_array("gallery.npy", found)
    folder.write_json("gallery.json", {"pictures": _entries(task, groups, weights, labels)})


def choose(weights: Tensor, history: Mapping[int, Tensor]) -> dict[str, Tensor]:
    """Indices of the lowest and the highest weights, ties in order of index, and of the least trusted samples.

    None where all weights are equal, or where one is not a number: a dead run's weights rank nothing.

    >>> {end: index.tolist() for end, index in choose(torch.tensor([1.0, 0.0, 2.0, 0.0]), {}).items()}
    {'lowest': [1, 3], 'highest': [2, 0], 'least trusted': [1, 3, 0, 2]}
    """
    if bool((weights == weights[:1]).all()) or not bool(weights.isfinite().all()):
        return {}
    k, last, epochs = min(EACH, len(weights) // 2), weights.numpy(), sorted(history)
    scores = trust(np.array([history[epoch].numpy() for epoch in epochs]), epochs, last)
    return {
        "lowest": weights.argsort(stable=True)[:k],
        "highest": (-weights).argsort(stable=True)[:k],
        "least trusted": torch.from_numpy(least_trusted_first(scores, last)[: 2 * k]),
    }


def pictures(task: Task, index: Tensor) -> NDArray[np.uint8] | None:
    """(k, height, width, channels) uint8 of these training samples; None where they are not images."""
    train, picture = task.train, task.data.picture
    if isinstance(train, ImageFiles):
        small = replace(train, size=min(train.size, SIDE), train=False)
        x = torch.stack([small[i][0] for i in index.tolist()]) if len(index) else torch.zeros(0, 3, SIDE, SIDE)
    elif train.x.dtype == torch.uint8:
        x = train.x[index]
    elif picture:
        x = (train.x[index].reshape(-1, *picture).clamp(0, 1) * 255).round()
    else:
        return None
    found: NDArray[np.uint8] = x.cpu().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    return found


def _entries(task: Task, groups: dict[str, Tensor], weights: Tensor, labels: Tensor) -> list[dict[str, Any]]:
    """What is known of each picture."""
    entries = []
    for end, index in groups.items():
        for i in index.tolist():
            original, given, true, predicted = labels[:, i].tolist()
            truth = true if task.truth_known else None
            shown = {"given": given, "true": truth, "predicted": predicted}
            entries.append({"index": i, "original": original, "weight": float(weights[i]), **shown, "end": end})
    return entries
