"""What the processes of the tests do with split models, missing parts of a batch and distributed checkpoints."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Generator, Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import TensorDataset

from adiw import ADIW
from adiw.divergences import KL
from tests.gloo_processes import BATCH, EVEN, NUM_TRAIN, VARIANTS, data, network, split, train

CRITERION = nn.CrossEntropyLoss(reduction="none")
NAMES = ("default", "network")  # the default, and a method with more state than tensors of known shapes


def split_work(rank: int, size: int, folder: Path) -> dict[str, Any]:
    """All of it, in the processes that other tests use as well."""
    return {
        "few trusted": few_trusted(rank, size),
        "tensor parallel": tensor_parallel(rank, size),
        "sharded": sharded(rank, size, folder) if size == 2 else None,
        "hybrid": hybrid(rank) if size == 4 else None,
        "one looks": one_looks(rank),
        "errors": {name: error_of(rank, name) for name in ODD},
        "later error": later_error(rank),
        "lengths": lengths(rank, size),
        "larger batches": larger_batches(rank, size),
        "accumulated": accumulated(rank, size),
    }


def sharded(rank: int, size: int, folder: Path) -> dict[str, Any]:
    """Training with every parameter split, and its state in a distributed checkpoint after ten of twelve steps."""
    runs = {}
    for name in NAMES:
        runs[name] = half = train(rank, size, VARIANTS[name](), range(10), even=name in EVEN, sharded=True)
        dcp.save({"reweight": half["state"]["reweight"]}, checkpoint_id=folder / name)
        runs[name] = train(
            rank, size, VARIANTS[name](), range(10, 12), half["state"], even=name in EVEN, sharded=True
        )
        torch.save({key: half["state"][key] for key in ("model", "optimizer")}, folder / f"{name}-{rank}.pt")
    return runs


def resumed(rank: int, size: int, folder: Path) -> dict[str, Any]:
    """The last two steps from the checkpoint, in any number of processes."""
    found = {}
    for name in NAMES:
        state = torch.load(folder / f"{name}-0.pt", weights_only=True)
        # A new method, as a resumed program has it: the state of one that has not seen a step.
        empty = train(rank, size, VARIANTS[name](), range(0))["state"]["reweight"]
        dcp.load({"reweight": empty}, checkpoint_id=folder / name)
        found[name] = train(rank, size, VARIANTS[name](), range(10, 12), {**state, "reweight": empty}, name in EVEN)
    return found


def few_trusted(rank: int, size: int) -> Tensor:
    """The weights with three trusted samples, of which with four processes one has none of its own."""
    x, y, val = data()
    torch.set_num_threads(1)
    plain = network()
    model = split(plain) if size > 1 else plain
    few = TensorDataset(*(column[:3] for column in val.tensors))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few trusted samples
        reweight = ADIW(model, CRITERION, few, NUM_TRAIN, "kl", warmup_steps=0, val_every=1).double()
    for step in range(3):
        index = torch.arange(step, step + BATCH).tensor_split(size)[rank]
        reweight(model(x[index]), y[index], index).backward()
    return reweight.weights


def tensor_parallel(rank: int, size: int) -> dict[str, Any]:
    """Each layer is split over pairs of processes, and the data over the pairs: tensor parallelism and FSDP2."""
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    model = network()
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    return trained_on_mesh(model, rank, mesh["data"].get_group())


def hybrid(rank: int) -> dict[str, Any]:
    """Two copies of the model, each split over two processes (HSDP); all four processes have other data."""
    model = network()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return trained_on_mesh(model, rank, None)


def trained_on_mesh(model: nn.Module, rank: int, group: Any) -> dict[str, Any]:
    """Eight steps of a model that is split, with the data divided over a group of processes."""
    x, y, val = data()
    settings: dict[str, Any] = {
        "divergence": KL(),
        "val_every": 1,
        "warmup_steps": 2,
        "val_batch": 17,
        "cautious": False,
    }
    generator = Generator().manual_seed(rank)  # shared state must come from the first process
    reweight = ADIW(model, CRITERION, val, NUM_TRAIN, **settings, generator=generator, process_group=group).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(8):
        batch = torch.randperm(NUM_TRAIN, generator=Generator().manual_seed(step))[: BATCH - step % 5]
        index = batch.tensor_split(dist.get_world_size(group))[dist.get_rank(group)]
        reweight(model(x[index]), y[index], index).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"weights": reweight.weights, "parameters": [p.detach().full_tensor() for p in model.parameters()]}


def one_looks(rank: int) -> str:
    """Rank 0 alone reads the results of a split model, and is refused what needs the other processes."""
    x, y, val = data()
    model = split(network())
    reweight = ADIW(model, CRITERION, val, NUM_TRAIN, warmup_steps=0).double()
    index = torch.arange(BATCH) + rank * BATCH
    for _ in range(2):
        reweight(model(x[index]), y[index], index).backward()
    if rank > 0:
        return ""
    reweight.summary()
    str(reweight.verdict())
    try:
        reweight.verdict(held_out=val)
    except ValueError as error:
        return str(error)
    return ""


def step_of(reweight: ADIW, rank: int, odd: str) -> Any:
    """A step in which the last process differs from the others in the way ``odd`` says."""
    outputs, targets = torch.zeros(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    index: Any = torch.arange(4) + 4 * rank
    is_last = rank == dist.get_world_size() - 1
    if odd == "no index, together":
        return reweight.look_ahead([(outputs, targets) if is_last else (outputs, targets, index)])
    if is_last:
        if odd == "no index":
            index = None
        elif odd == "bad index":
            index = index + 1000
        elif odd == "scalar":
            reweight.evaluator.criterion = nn.CrossEntropyLoss()
        elif odd == "elements":
            outputs, targets = torch.zeros(4, 3, 5, requires_grad=True), torch.zeros(4, 5, dtype=torch.long)
        elif odd == "dtype":
            outputs = outputs.double()
        elif odd == "larger":
            outputs, targets, index = torch.zeros(5, 3, requires_grad=True), torch.zeros(5).long(), torch.arange(5)
    return reweight(outputs, targets, index)


ODD = ("no index", "no index, together", "bad index", "scalar", "elements", "dtype")


def make() -> ADIW:
    val = TensorDataset(torch.zeros(40, 3), torch.arange(40) % 3)
    return ADIW(nn.Identity(), CRITERION, val, 40, warmup_steps=0)


def error_of(rank: int, odd: str) -> str:
    try:
        step_of(make(), rank, odd)
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def later_error(rank: int) -> list[str]:
    """Errors in later steps of one method: it goes on after each."""
    reweight, found = make(), []
    for odd in ("", "no index", "", "larger", ""):
        try:
            step_of(reweight, rank, odd)
        except (TypeError, ValueError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def lengths(rank: int, size: int) -> list[float]:
    """The weighted loss of sequences that each process pads to its own length: its mean over the processes."""
    generator = Generator().manual_seed(0)
    outputs, targets = torch.randn(4, 3, 9, generator=generator), torch.randint(3, (4, 9), generator=generator)
    targets[:, 5:], targets[0, 2:] = -100, -100  # padding
    own, longest = torch.arange(4).tensor_split(size)[rank], 9 if rank == 0 else 5
    val = TensorDataset(torch.randn(40, 3, 9, generator=generator), torch.zeros(40, 9, dtype=torch.long))
    reweight = ADIW(nn.Identity(), CRITERION, val, 4, "kl", warmup_steps=0, val_every=1)
    loss = reweight(outputs[own, :, :longest].requires_grad_(), targets[own, :longest], own).detach()
    if size > 1:
        dist.all_reduce(loss)
    return [float(loss) / size, *reweight.weights.tolist()]


def larger_batches(rank: int, size: int) -> Tensor:
    """The weights after batches that grow, as those of packed sequences do; their largest size is known before."""
    x, y, val = data()
    reweight = ADIW(network(), CRITERION, val, NUM_TRAIN, "kl", warmup_steps=0, cautious=False).double()
    reweight.weight_state.largest_batch = BATCH
    for number in (8, 12, BATCH):
        index = torch.arange(number).tensor_split(size)[rank]
        reweight(reweight.evaluator.model(x[index]), y[index], index)
    return reweight.weights


def accumulated(rank: int, size: int) -> list[Tensor]:
    """Weights and gradients of two steps of two batches each, whose weights are estimated together."""
    x, y, val = data()
    model = split(network()) if size > 1 else network()
    reweight = ADIW(model, CRITERION, val, NUM_TRAIN, "kl", warmup_steps=0, val_every=1, cautious=False).double()
    for step in range(2):
        batches = [index.tensor_split(size)[rank] for index in torch.arange(step, step + BATCH).split([15, 9])]
        if size > 1:
            reweight.look_ahead([(x[index], y[index], index) for index in batches])
            losses = [reweight(model(x[index]), y[index], index) for index in batches]
            (losses[0] * 15 / BATCH + losses[1] * 9 / BATCH).backward()
        else:
            whole = torch.cat(batches)
            reweight(model(x[whole]), y[whole], whole).backward()
    return [reweight.weights, *whole_gradients(model)]


def whole_gradients(model: nn.Module) -> list[Tensor]:
    gradients: list[Any] = [parameter.grad for parameter in model.parameters()]
    return [g.full_tensor() if hasattr(g, "full_tensor") else g for g in gradients]
