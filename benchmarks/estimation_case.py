"""A case for a timer: one weight estimation, from given losses to weights, without the training step around it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw import ADIW, Features
from adiw.baselines import DIW
from adiw.divergences import Divergence
from adiw.engine.loop import generators_of
from adiw.experiments.methods import method_name
from adiw.reweighting.cuda_graphs import WARM_UP, GraphedCalls
from adiw.reweighting.transforms import TransformedBatch
from adiw.reweighting.validation_schedule import ValidationBatch
from timing import Timer, repeated

DIVERGENCES: dict[str, Divergence] = {
    **{method_name(name): kind() for name, kind in adiw.DIVERGENCES.items()},
    "adiw-wa, critic network": adiw.divergences.Wasserstein(critic="network"),
}
DIM = 512  # of the features: as many as the last layer of ResNet-18 has


class EstimationCase:
    """A method with a batch of generated losses; a call estimates their weights once.

    Args:
        method: a name in ``DIVERGENCES``, or "diw".
        train, val: samples in the training and in the validation batch.
        num_train: samples in the training set.
        classes: match features, class by class, instead of losses.
        solver: the solver of DIW.

    ``host_waits`` is whether the host waits for the device in a call, once ``timer_of`` has checked that.
    """

    host_waits: bool | None = None

    def __init__(
        self,
        method: str,
        train: int,
        val: int,
        device: torch.device,
        num_train: int = 50_000,
        classes: int | None = None,
        solver: str = "gpu",
    ) -> None:
        num_train = max(num_train, train)
        random = Generator().manual_seed(0)
        model, criterion = nn.Linear(1, 2), nn.CrossEntropyLoss(reduction="none")
        trusted = TensorDataset(torch.zeros(val, 1), torch.arange(val) % 2)
        common: dict[str, Any] = {"val_batch": val, "warmup_steps": 0, "generator": random}
        caution = {"cautious": False}  # the estimate of the divergence alone
        if method == "diw":
            solve: Any = solver
            self.reweight: Any = DIW(model, criterion, trusted, num_train, solver=solve, **common)
        else:
            transform: Any = "loss" if classes is None else Features(None, num_classes=classes)
            divergence = DIVERGENCES[method]
            self.reweight = ADIW(
                model, criterion, trusted, num_train, divergence, transform=transform, **common, **caution
            )
        self.reweight.to(device)
        self.index = (torch.arange(train) * (num_train // train)).to(device)
        self.train = _transformed(train, classes, random, device)
        z, group = _transformed(val, classes, random, device)
        self.val = ValidationBatch(torch.arange(val, device=device), z, group, newest=z)
        self.losses = torch.ones(train, device=device)

    def __call__(self) -> Tensor:
        with torch.no_grad():
            step = self.reweight.weight_state.begin_step(self.index, self.losses)
            weights: Tensor = self.reweight.estimate(step, self.train, self.val)
            return weights

    @property
    def bytes(self) -> int:
        """Bytes of the buffers that the method keeps on its device."""
        return sum(buffer.nbytes for buffer in self.reweight.buffers())


def _transformed(count: int, classes: int | None, random: Generator, device: torch.device) -> TransformedBatch:
    """Losses from an exponential distribution, or features of norm one and their classes."""
    if classes is None:
        return TransformedBatch(torch.empty(count, 1).exponential_(generator=random).to(device), None)
    z = nn.functional.normalize(torch.randn(count, DIM, generator=random))
    return TransformedBatch(z.to(device), torch.randint(classes, (count,), generator=random).to(device))


def timer_of(case: EstimationCase, device: torch.device, engine: str) -> Timer:
    """A timer of the estimate, after warm-up. A step that cannot be captured as a CUDA graph is an error."""
    if engine == "compiled":
        case.reweight.compile(dynamic=False)
    if engine == "eager":
        for _ in range(WARM_UP):
            case()
        case.host_waits = _host_waits(case, device)
        return repeated(case, device)
    torch.cuda.synchronize()  # the batch was generated on another stream
    stream = torch.cuda.Stream()
    graphs = GraphedCalls("estimates", partial(generators_of, case.reweight), _refuse)
    step = partial(graphs, lambda: _discard(case()), (), device)
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP + 1):
            step()
        case.host_waits = _host_waits(step, device)
        timer = repeated(step, device)
    torch.cuda.synchronize()

    def on_stream(times: int) -> float:
        with torch.cuda.stream(stream):
            return timer(times)

    return on_stream


def _host_waits(step: Callable[[], object], device: torch.device) -> bool | None:
    """Whether an operation of a step makes the host wait for the device; None where there is only the host."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False


def _discard(weights: Tensor) -> None:
    pass


def _refuse(line: str) -> None:
    raise RuntimeError(line)


def engines(device: torch.device) -> tuple[str, ...]:
    return ("captured", "compiled", "eager") if device.type == "cuda" else ("eager",)


def attempt(make: Callable[[], Timer]) -> Timer:
    """The timer that ``make`` returns, or a timer that raises the error of ``make``: other cases are still timed."""
    try:
        return make()
    except Exception as problem:
        return _raising(problem)


def _raising(problem: Exception) -> Timer:
    def timer(times: int) -> float:
        raise problem

    return timer
