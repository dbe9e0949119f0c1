"""Pictures of the training samples with the lowest and highest weights, kept with a run for its report and audit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adiw.data import ImageFiles
from adiw.experiments.run_folder import Folder
from adiw.experiments.splits import Splits

EACH = 24  # pictures of the lowest, and of the highest weights
LEAST_TRUSTED = 200  # pictures for the audit
SIDE = 96  # pixels: larger pictures would make reports large


def write_gallery(folder: Folder, splits: Splits, weights: Tensor, order: Tensor) -> None:
    """Write gallery.npy and gallery.json for image data: pictures, and the positions of the samples they show.

    weights: (n,);  order: (k,) positions by the audit, least trusted first.
    """
    for old in ("gallery.npy", "gallery.json"):
        folder.remove(old)
    groups = choose(weights, order)
    found = pictures(splits, torch.cat([torch.zeros(0, dtype=torch.int64), *groups.values()]))
    if found is None or not groups:
        return
    ends = {end: index.tolist() for end, index in groups.items()}
    folder.write_array("gallery.npy", found)
    folder.write_json("gallery.json", {"truth_known": splits.truth_known, "ends": ends})


def choose(weights: Tensor, order: Tensor) -> dict[str, Tensor]:
    """Positions of the lowest and highest last weights, ties in their order, and of the least trusted samples.

    Lowest and highest are missing where all weights are equal. Empty where one is not finite, as in a dead run.
    """
    if not bool(weights.isfinite().all()):
        return {}
    k, equal = min(EACH, len(weights) // 2), bool((weights == weights[:1]).all())
    ends = {"lowest": weights.argsort(stable=True)[:k], "highest": (-weights).argsort(stable=True)[:k]}
    return ({} if equal else ends) | {"least trusted": order[:LEAST_TRUSTED]}


def pictures(splits: Splits, index: Tensor) -> NDArray[np.uint8] | None:
    """(k, height, width, channels) uint8 of these training samples; None where they are not images."""
    train, picture = splits.train, splits.data.picture
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
