"""One step for every method, an epoch of steps, and evaluation: queued on the device, waited for by who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from adiw.distributed.process_group import ProcessGroup
from adiw.engine.capture import Captured, Pool, generators_of, obstacle
from adiw.engine.clock import Stopwatch
from adiw.engine.feed import Feed

Reweight = Callable[..., Tensor]


def train_step(
    model: nn.Module,
    reweight: Reweight,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    index: Tensor,
    bf16: bool = False,
    clip: float | None = None,
) -> Tensor:
    """Forward, weights, backward, update: the weighted loss of the batch, without waiting for the device."""
    with autocast(x.device, bf16):
        outputs = model(x)
    loss = reweight(outputs, y, index, inputs=x)
    loss.backward()
    if clip is not None:
        clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


class Loop:
    """Epochs of steps on the batches of a feed; on a GPU the steps are captured as a graph.

    Args:
        model, reweight, optimizer: of the steps.
        feed: of the batches.
        bf16, clip: precision of the forward pass, and largest norm of the gradient.
        tell: gets a line of text when steps are not captured; None for eager steps.
    """

    def __init__(
        self,
        model: nn.Module,
        reweight: Reweight,
        optimizer: Optimizer,
        feed: Feed,
        bf16: bool = False,
        clip: float | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.model, self.optimizer, self.feed = model, optimizer, feed
        self.reweight: Any = reweight
        self.bf16, self.clip = bf16, clip
        self.device = device = next(model.parameters()).device
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        self.watch = Stopwatch(device)
        self.step: Callable[[], None] = self._step
        # Processes that train together agree on what they read within a step.
        self.look: Callable[[], None] | None = (
            self._look if hasattr(reweight, "look") and not ProcessGroup().linked else None
        )
        reason = None if tell is None else obstacle(device, reweight)
        if tell is not None and reason is None:
            self._capture(tell)
        elif tell is not None and device.type == "cuda":
            tell(f"steps are not captured as a graph ({reason})")

    def _capture(self, tell: Callable[[str], None]) -> None:
        """The validation pass is a graph of its own: it is not part of every step."""
        pool = Pool()
        self.step = Captured(self._step, tell, lambda: generators_of(self.reweight), pool, undo=self._undo)
        if self.look is not None:
            self.look = Captured(self._look, tell, pool=pool, name="passes over the trusted samples")

    def queue(self, epoch: int) -> None:
        """A step for every batch of the epoch."""
        self.model.train()
        self.watch.start()
        self.total.zero_()
        self.feed.begin(epoch)
        for _ in range(len(self.feed)):
            self.advance()
        self.watch.stop()

    def advance(self) -> None:
        """The next step. Trusted samples are looked at before it, while no training pass holds memory."""
        self.feed.fetch()
        if self.look is not None and self.reweight.val_stream.turn():
            self.look()
        self.step()

    @property
    def loss(self) -> Tensor:
        """The mean loss of the last epoch's steps, a scalar on the device."""
        return self.total / len(self.feed)

    def _look(self) -> None:
        with autocast(self.device, self.bf16):
            self.reweight.look()

    def _undo(self) -> None:
        """After a recording that failed: its gradients hold nothing, and the coming step has been counted already."""
        self.optimizer.zero_grad(set_to_none=True)
        if self.look is not None:
            self.reweight.val_stream.turn_again()

    def _step(self) -> None:
        batch = self.feed.batch()
        self.total.add_(train_step(self.model, self.reweight, self.optimizer, *batch, self.bf16, self.clip))


@torch.no_grad()
def count_hits(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], bf16: bool = False) -> Tensor:
    """How many samples are right at first and among the first five, in evaluation mode: (2,) int64 on the device.

    Of fewer than five classes all count as among the first five.
    """
    model.eval()
    hits = [torch.zeros(2, dtype=torch.long, device=next(model.parameters()).device)]
    for x, y in batches:
        with autocast(x.device, bf16):
            outputs = model(x)
        best = outputs.float().topk(min(5, outputs.shape[1]), dim=1).indices == y[:, None]
        hits.append(torch.stack([best[:, 0].sum(), best.sum()]))
    model.train()
    return torch.stack(hits).sum(0)


@torch.no_grad()
def predict(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """The predicted class of every sample, (n,) on the CPU, in evaluation mode."""
    model.eval()
    classes = torch.cat([torch.zeros(0, dtype=torch.long), *(model(x).argmax(1).cpu() for x, _ in batches)])
    model.train()
    return classes


def in_batches(x: Tensor, y: Tensor, size: int = 2048) -> Iterator[tuple[Tensor, Tensor]]:
    """Samples on the device, ``size`` at a time, none left out."""
    for start in range(0, len(x), size):
        yield x[start : start + size], y[start : start + size]


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """The same rate for all parameters; a rate kept as a tensor is filled in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def autocast(device: torch.device, bf16: bool) -> AbstractContextManager[Any]:
    """bfloat16 for the forward pass, or full precision."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16)
