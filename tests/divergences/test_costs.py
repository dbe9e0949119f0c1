"""The number of kernels of an estimate: in a captured step of a small batch they take the time, not the numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from adiw import DIVERGENCES
from adiw.divergences import learns, resolve
from adiw.matching import batches as module
from adiw.matching.batches import match
from adiw.reweighting.divergence_estimator import run_estimation

BATCH, COLUMNS, CLASSES = 256, 16, 10


class Kernels(TorchDispatchMode):
    """Counts operations that compute something. A view has the memory of its argument."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        known = {part.untyped_storage().data_ptr() for part in args if isinstance(part, torch.Tensor)}
        views = isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() in known
        self.count += not views or function.overloadpacket.__name__.endswith("_")
        return made


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host cannot know that all samples are included."""
    monkeypatch.setattr(module, "host_can_read", lambda values: False)


def kernels(name: str, z: str) -> int:
    """The kernels of the first step of a divergence with its defaults, on losses or on features in classes."""
    divergence, random = resolve(name), torch.Generator().manual_seed(0)
    dim = COLUMNS if z == "features" else 1
    z_train, z_val = (torch.randn(BATCH, dim, generator=random) for _ in range(2))
    classes = [torch.randint(CLASSES, (BATCH,), generator=random) for _ in range(2)]
    groups = (*classes, CLASSES, 2) if z == "features" else ()
    start = divergence.start(dim, CLASSES if groups else 1, z_train, random) if learns(divergence) else {}
    with Kernels() as counted:
        batches = match(z_train, z_val, *groups)
        run_estimation(divergence, batches, torch.ones(BATCH), start, 1, random, divergence.side == "train")
    return counted.count


@pytest.mark.parametrize("z", ["loss", "features"])
def test_an_estimate_takes_at_most_three_times_the_kernels_of_kl(z: str) -> None:
    least = kernels("kl", z)
    found = {name: kernels(name, z) / least for name in DIVERGENCES}
    assert max(found.values()) <= 3, found
