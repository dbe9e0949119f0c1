"""Weight estimation alone: what a step of a method does between the losses and the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Features
from adiw.baselines import DIW
from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein
from adiw.engine.capture import WARM_UP, Captured, generators_of
from adiw.reweighting.transforms import Observed
from adiw.reweighting.validation_stream import Window
from timing import Timer, repeated

DIVERGENCES: dict[str, Divergence] = {
    "adiw-km": MMD(),
    "adiw-kl": KL(),
    "adiw-ls": Squared(),
    "adiw-wa": Wasserstein(),
    "adiw-wa, critic network": Wasserstein(critic="network"),
}
DIM = 512  # of the features, where classes are told apart: ResNet-18's last layer


class Alone:
    """A method with a batch of made-up losses to estimate weights from; a call is one estimate.

    Args:
        method: a name in ``DIVERGENCES``, or "diw".
        train, val: samples in the training and in the validation batch.
        store: samples in the training set.
        classes: match features of this many classes instead of losses.
        solver: of DIW.
    """

    def __init__(
        self,
        method: str,
        train: int,
        val: int,
        device: torch.device,
        store: int = 50_000,
        classes: int | None = None,
        solver: str = "gpu",
    ) -> None:
        store = max(store, train)
        random = Generator().manual_seed(0)
        model, criterion = nn.Linear(1, 2), nn.CrossEntropyLoss(reduction="none")
        trusted = TensorDataset(torch.zeros(val, 1), torch.zeros(val, dtype=torch.long))
        common: dict[str, Any] = {"val_batch": val, "warmup_steps": 0, "generator": random}
        if method == "diw":
            solve: Any = solver
            self.reweight: Any = DIW(model, criterion, trusted, store, solver=solve, **common)
        else:
            transform: Any = "loss" if classes is None else Features(None, num_classes=classes)
            divergence = DIVERGENCES[method]
            self.reweight = ADIW(model, criterion, trusted, store, divergence, transform=transform, **common)
        self.reweight.to(device)
        self.index = (torch.arange(train) * (store // train)).to(device)
        self.train = _observed(train, classes, random, device)
        z, group = _observed(val, classes, random, device)
        self.val = Window(torch.arange(val, device=device), z, group)
        self.losses = torch.ones(train, device=device)
        self.finite = torch.ones(train, dtype=torch.bool, device=device)

    def __call__(self) -> Tensor:
        with torch.no_grad():
            step = self.reweight.weight_state.enter(self.index, self.losses)
            weights: Tensor = self.reweight.estimate(step.everyone, self.train, self.val, self.finite)
            return weights

    @property
    def bytes(self) -> int:
        """What the method keeps on its device."""
        return sum(buffer.nbytes for buffer in self.reweight.buffers())


def _observed(count: int, classes: int | None, random: Generator, device: torch.device) -> Observed:
    """Losses from an exponential distribution, or features of length one and their classes."""
    if classes is None:
        return Observed(torch.empty(count, 1).exponential_(generator=random).to(device), None)
    z = nn.functional.normalize(torch.randn(count, DIM, generator=random))
    return Observed(z.to(device), torch.randint(classes, (count,), generator=random).to(device))


def timer_of(alone: Alone, device: torch.device, engine: str) -> Timer:
    """A timer of the estimate, warmed up; where it is to be replayed as a graph, an obstacle to that is an error."""
    if engine == "compiled":
        alone.reweight.compile(dynamic=False)
    if engine == "eager":
        for _ in range(WARM_UP):
            alone()
        return repeated(alone, device)
    torch.cuda.synchronize()  # the batch was made on another stream
    stream = torch.cuda.Stream()
    step = Captured(lambda: _discard(alone()), _refuse, lambda: generators_of(alone.reweight))
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP + 1):
            step()
        timer = repeated(step, device)
    torch.cuda.synchronize()

    def on_stream(times: int) -> float:
        with torch.cuda.stream(stream):
            return timer(times)

    return on_stream


def _discard(weights: Tensor) -> None:
    pass


def _refuse(line: str) -> None:
    raise RuntimeError(line)


def engines(device: torch.device) -> tuple[str, ...]:
    return ("captured", "compiled", "eager") if device.type == "cuda" else ("eager",)


def attempt(make: Callable[[], Timer]) -> Timer:
    """The timer that ``make`` gives, or one that raises what ``make`` raised: the failure becomes that case's own."""
    try:
        return make()
    except Exception as problem:
        return _raising(problem)


def _raising(problem: Exception) -> Timer:
    def timer(times: int) -> float:
        raise problem

    return timer
