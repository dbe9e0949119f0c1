"""Memory and traffic of the weights of many samples, in bytes: counted, not timed.

    python benchmarks/scale.py [--out benchmarks/results]

The buffers are counted at two sizes, and the bytes that a step reads and writes operator by operator. The tables of
docs/scale.md are drawn from the result.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import TensorDataset

import adiw
from adiw.baselines import Uniform
from adiw.distributed.process_group import ProcessGroup
from adiw.models import resnet18
from adiw.reweighting.validation_schedule import ValidationSchedule
from record import RESULTS

BATCH = 256
VARIANTS: dict[str, dict[str, Any]] = {
    "adiw": {},  # the default, whose trusted samples are in the training set
    "adiw-km": {"divergence": "mmd"},
    "adiw-kl": {"divergence": "kl"},
    "adiw-ls": {"divergence": "squared"},
    "adiw-wa": {"divergence": "wasserstein"},
    "adiw-kl, limits": {"divergence": "kl", "mean_one": True},
}


def build(variant: str, train: int, val: int, val_batch: int = BATCH) -> Any:
    """A small model, and a method for ``train`` training and ``val`` validation samples."""
    model, criterion = nn.Linear(2, 3), nn.CrossEntropyLoss(reduction="none")
    trusted = TensorDataset(torch.zeros(val, 2), torch.arange(val) % 3)
    if variant == "uniform":
        return model, Uniform(model, criterion, trusted, train)
    settings = VARIANTS[variant]
    known = trusted if settings else adiw.Indexed(TensorDataset(torch.zeros(train, 2)), range(val)).trusted
    return model, adiw.ADIW(model, criterion, known, train, val_batch=val_batch, val_every=1, **settings)


def kept(module: nn.Module) -> int:
    """Bytes of a method's buffers."""
    return sum(buffer.nbytes for buffer in module.buffers())


def bytes_per_training_sample(variant: str) -> int:
    """Growth of the buffers with one more training sample."""
    less, more = (kept(build(variant, size, 100)[1]) for size in (10_000, 20_000))
    return (more - less) // 10_000


def bytes_per_validation_sample(variant: str) -> int:
    """Growth with one more validation sample, without its inputs, which are cached up to ``cache_bytes``."""
    less, more = (kept(build(variant, 10_000, size, val_batch=8)[1]) for size in (1000, 2000))
    return (more - less) // 1000


class Traffic(TorchDispatchMode):
    """Bytes that operators exchange with buffers: indices, values written and values read."""

    def __init__(self, buffers: list[Tensor]) -> None:
        super().__init__()
        self.stores = {buffer.untyped_storage().data_ptr() for buffer in buffers}
        self.bytes = 0
        self.largest = 0  # elements of the largest tensor that an operator exchanges with a buffer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if any(self._is_store(tensor) for tensor in given):
            made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
            others = [tensor for tensor in (*given, *made) if not self._is_store(tensor)]
            self.bytes += sum(tensor.nbytes for tensor in others)
            self.largest = max([self.largest, *(tensor.numel() for tensor in others)])
        return out

    def _is_store(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self.stores


def traffic(variant: str, train: int, batch: int = BATCH) -> Traffic:
    """Traffic of one step with the buffers that grow with the training set, on a GPU.

    It runs on the CPU, where the host reads some values and so skips a few operations; this is turned off here.
    """
    model, reweight = build(variant, train, batch)
    x, y = torch.randn(batch, 2), torch.zeros(batch, dtype=torch.long)
    index = torch.arange(batch) * (train // batch)
    outputs = model(x)
    reweight(outputs, y, index)  # the first step also allocates
    large = [buffer for buffer in reweight.buffers() if buffer.numel() >= train]
    seen = Traffic(large)
    with patch("adiw.matching.batches.host_can_read", return_value=False), seen:
        reweight(outputs, y, index)
    return seen


class CountingProcessGroup(ProcessGroup):
    """Rank 0 of two processes, without the other: counts the bytes of a gather, and returns its own part twice."""

    def __init__(self) -> None:
        super().__init__(size=2, rank=0)
        self.bytes = 0

    def broadcast_state(self, module: nn.Module) -> None:
        """Rank 0 has the state already."""

    def _run(self, operation: Any, *arguments: Any, **options: Any) -> None:
        if len(arguments) == 2 and isinstance(arguments[1], Tensor):  # (out, own) of a gather
            out, own = arguments
            out.copy_(torch.cat([own, own]))
            self.bytes += out.nbytes


def gathered(batch: int, val: int) -> int:
    """Bytes that a process gathers in a step, for this global batch size and number of validation samples."""
    model, reweight = build("adiw-kl", 1000, val, val_batch=val)
    reweight.weight_state.processes = processes = CountingProcessGroup()
    x, y = torch.randn(batch // 2, 2), torch.zeros(batch // 2, dtype=torch.long)
    for _ in range(2):  # the first step also exchanges sizes
        processes.bytes = 0
        reweight(model(x), y, torch.arange(batch // 2))
    return processes.bytes


def bytes_gathered() -> dict[str, int]:
    """Bytes for one training sample, and for one validation sample that is evaluated."""
    base = gathered(100, 100)
    return {"training": (gathered(200, 100) - base) // 100, "validation": (gathered(100, 200) - base) // 100}


def facts() -> dict[str, Any]:
    """Everything in docs/scale.md that is counted."""
    names = ["uniform", *VARIANTS]
    parameters = sum(p.nbytes for p in resnet18((3, 224, 224), 1000).parameters())
    return {
        "bytes_per_training_sample": {name: bytes_per_training_sample(name) for name in names},
        "bytes_per_validation_sample": {name: bytes_per_validation_sample(name) for name in VARIANTS},
        "batch": BATCH,
        "bytes_moved_per_step": {name: traffic(name, 100_000).bytes for name in names},
        "bytes_gathered": bytes_gathered(),
        "bytes_of_gradient": {"resnet18": parameters},
        "cache_bytes": _default(ValidationSchedule, "cache_bytes"),
    }


def _default(what: Any, argument: str) -> int:
    from inspect import signature

    return int(signature(what).parameters[argument].default)


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    found = facts()
    (parser.parse_args(given).out / "scale.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
