"""Training in several gloo processes, for the tests: each has its part of every global batch."""

from __future__ import annotations

import copy
import datetime
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Generator, Tensor, nn
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from adiw import ADIW, DIVERGENCES, Features, Indexed
from adiw.baselines import DIW, L2R, MWNet, Random, Uniform
from adiw.divergences import KL, MMD, Relative, Squared, Wasserstein

NUM_TRAIN, BATCH, NUM_VAL, CLASSES = 96, 24, 37, 4
WHOLE = states.StateDictOptions(full_state_dict=True)


VARIANTS: dict[str, Callable[[], dict[str, Any]]] = {
    **{name: lambda name=name: {"divergence": name} for name in DIVERGENCES},  # type: ignore[misc]
    "mmd": lambda: {"divergence": MMD(width=0.3)},  # narrower kernels see too few of these samples
    "mmd local": lambda: {"divergence": MMD(width=0.3, step="local"), "val_refresh": 5, "val_every": 2},
    "squared": lambda: {"divergence": Squared(width=0.3)},
    "relative": lambda: {"divergence": Relative(width=0.3)},
    "network": lambda: {"divergence": Wasserstein(critic="network", pretrain=2, learning_rate=1e-3)},
    "default": lambda: {"val_refresh": 5, "val_every": 2},
    "default, trusted samples in the training set": lambda: {"joined": True},
    "features": lambda: {"transform": Features("1", num_classes=4), "divergence": KL()},
    "streamed, exact, mean one": lambda: {"cache_bytes": 0, "exact": True, "mean_one": True},
}
BASELINES: dict[str, Callable[[], dict[str, Any]]] = {
    "uniform": lambda: {"method": Uniform},
    "random": lambda: {"method": Random},
    "l2r": lambda: {"method": L2R},
    "mw-net": lambda: {"method": MWNet},
    "diw": lambda: {"method": DIW, "width": 0.001},
}
# Methods that draw random numbers for every row, including padding: parts of unequal size give other numbers.
EVEN = ("network", "random")


def data() -> tuple[Tensor, Tensor, TensorDataset]:
    random = Generator().manual_seed(0)
    x, y = torch.randn(NUM_TRAIN, 6, generator=random).double(), torch.arange(NUM_TRAIN) % CLASSES
    val = TensorDataset(torch.randn(NUM_VAL, 6, generator=random).double(), torch.arange(NUM_VAL) % CLASSES)
    return x, y, val


def network(scale: float = 1.0) -> nn.Module:
    random = Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES)).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=random).data.mul_(scale)
    return model


def train(
    rank: int,
    size: int,
    settings: dict[str, Any],
    steps: range,
    state: Any = None,
    even: bool = False,
    batches: Sequence[Tensor] | None = None,
    nudge: float = 0.0,
    sharded: bool = False,
) -> dict[str, Any]:
    """The weights, parameters and state after these steps in process ``rank`` of ``size``.

    ``settings`` are those of ADIW, or of the "method" in them. Unless ``even``, some batches have up to four samples
    less, so that the parts of the processes differ in size. ``batches`` replaces the batches of this process.
    The initial parameters of the network are multiplied by 1 + ``nudge``. With ``sharded`` each process has a part of
    every parameter (FSDP2) instead of a copy of the network.
    """
    torch.set_num_threads(1)
    x, y, val = data()
    plain = network(1 + nudge)
    model = split(plain) if sharded else DistributedDataParallel(plain) if size > 1 else plain
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    # Seeds differ between the processes: the state that they share must come from rank 0.
    given = {"val_batch": 17, "generator": Generator().manual_seed(rank), **settings}
    method = given.pop("method", ADIW)
    trusted: Any = Indexed([None] * (NUM_TRAIN - NUM_VAL), val).trusted if given.pop("joined", False) else val
    if method in (ADIW, DIW):
        given = {"warmup_steps": 2, **given}
    if method is ADIW:
        # The trusted samples are gathered in each step, and the labels are random: no evidence would move a weight.
        given = {"val_every": 1, "cautious": False, **given}
    if method is MWNet:
        given["optimizer"] = optimizer
    reweight = method(model, nn.CrossEntropyLoss(reduction="none"), trusted, NUM_TRAIN, **given).double()
    if state is not None:
        state = copy.deepcopy(state)  # the processes share its memory
        states.set_state_dict(
            plain, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=WHOLE
        )
        reweight.load_state_dict(state["reweight"])
    for step in steps:
        batch = torch.randperm(NUM_TRAIN, generator=Generator().manual_seed(step))[
            : BATCH - (0 if even else step % 5)
        ]
        index = batch.tensor_split(size)[rank] if batches is None else batches[step]
        reweight(model(x[index]), y[index], index, inputs=x[index]).backward()
        optimizer.step()
        optimizer.zero_grad()
    parameters, moments = states.get_state_dict(plain, optimizer, options=WHOLE)
    return {
        "weights": reweight.weights.clone(),
        "parameters": [parameter.detach().clone() for parameter in parameters.values()],
        "nonfinite": reweight.weight_state.nonfinite.clone(),
        "state": {"model": parameters, "optimizer": moments, "reweight": reweight.state_dict()},
    }


def split(model: nn.Sequential) -> nn.Module:
    """The network with each parameter split over all processes."""
    for layer in model:
        if any(True for _ in layer.parameters()):
            fully_shard(layer)
    return fully_shard(model)


def under_torchrun(monkeypatch: pytest.MonkeyPatch, rank: int = 0, size: int = 1) -> None:
    """Set the environment variables that torchrun sets."""
    values = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": size,
        "MASTER_PORT": free_port(),
    }
    for name, value in {**values, "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "none"}.items():
        monkeypatch.setenv(name, str(value))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@contextmanager
def group_of_one() -> Iterator[None]:
    """A process group of one process, which is enough to wrap a model in DistributedDataParallel."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def in_processes(size: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Run ``work(rank, size, *arguments)`` in ``size`` processes. Returns the result of each."""
    multiprocessing.set_forkserver_preload(["torch.distributed", "adiw"])  # imported once, for all processes
    with tempfile.TemporaryDirectory() as folder:
        given = (size, free_port(), folder, work, arguments)
        mp.start_processes(_start, given, nprocs=size, start_method="forkserver")
        return [torch.load(Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(size)]


def _start(
    rank: int, size: int, port: int, folder: str, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
    torch.save(work(rank, size, *arguments), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
