"""The training step of every method, and epochs of steps. Nothing here synchronises with the device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from adiw.distributed.process_group import is_initialized
from adiw.engine.timer import DeviceTimer
from adiw.engine.train_loader import TrainLoader
from adiw.reweighting.cuda_graphs import GraphedCalls, MemoryPool

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
    """Forward pass, weighted loss, backward pass, update: the weighted loss of the batch, a scalar on the device."""
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
    """Trains for epochs on the batches of a loader; on a GPU each step is captured as a CUDA graph.

    Args:
        model, reweight, optimizer: as for ``train_step``.
        loader: the training batches.
        bf16: run the forward pass in bfloat16.
        clip: the largest norm of the gradient; None for no limit.
        log: called with a line of text if steps cannot be captured; None runs all steps eagerly.
    """

    def __init__(
        self,
        model: nn.Module,
        reweight: Reweight,
        optimizer: Optimizer,
        loader: TrainLoader,
        bf16: bool = False,
        clip: float | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.reweight: Any = reweight
        self.bf16, self.clip = bf16, clip
        self.device = device = next(model.parameters()).device
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        self.done = 0  # steps of the current epoch
        self.earlier_seconds = 0.0  # of the current epoch, before it was resumed
        self.timer = DeviceTimer(device)
        self.step: Callable[[], object] = self._step
        self.graphed: GraphedCalls | None = None  # the steps, where they are captured
        self.outdates_graphs: Callable[[], bool] = getattr(reweight, "outdates_graphs", lambda: False)
        self.on_step: Callable[[int, int], None] = lambda done, total: None  # after each step; may raise
        # With a process group, the step itself evaluates the trusted samples and divides them among the processes.
        self.evaluate_validation: Callable[[], object] | None = (
            self._evaluate_validation if hasattr(reweight, "refresh_validation") and not is_initialized() else None
        )
        reason = None if log is None else why_not_captured(device, reweight)
        if log is not None and reason is None:
            self._capture(log)
        elif log is not None and device.type == "cuda":
            log(f"steps are not captured as a CUDA graph ({reason})")

    def _capture(self, log: Callable[[str], None]) -> None:
        """The validation pass is a separate graph, because not every step has one."""
        memory = MemoryPool()
        self.graphed = GraphedCalls("steps", partial(generators_of, self.reweight), log, memory, self._undo)
        self.step = partial(self.graphed, self._step, (), self.device)
        if self.evaluate_validation is not None:
            passes = GraphedCalls("passes over the trusted samples", tell=log, memory=memory)
            self.evaluate_validation = partial(passes, self._evaluate_validation, (), self.device)

    @property
    def captured(self) -> bool:
        """Whether steps are replayed as a CUDA graph."""
        return self.graphed is not None and self.graphed.captured

    def run_epoch(self, epoch: int, done: int = 0) -> None:
        """Queue one step for every batch of the epoch after the first ``done``, those of before a stop."""
        self.model.train()
        self.timer.start()
        self.done = done
        if done == 0:
            self.total.zero_()
            self.earlier_seconds = 0.0
        total = len(self.loader)
        if done < total:
            self.loader.set_epoch(epoch, done)
        try:
            while self.done < total:
                self.train_batch()
                self.done += 1
                self.on_step(self.done, total)
        finally:
            self.timer.stop()

    def seconds(self) -> float:
        """Seconds of the steps of the last epoch; on a GPU this waits for them."""
        return self.earlier_seconds + self.timer.seconds()

    def train_batch(self) -> None:
        """Queue the next step. Trusted samples are evaluated first, before a training pass allocates memory."""
        self.loader.load_next()
        if self.evaluate_validation is not None:
            self.reweight.refresh_validation(self.evaluate_validation)
        if self.graphed is not None and self.graphed.captured and self.outdates_graphs():
            self.graphed.capture_again()
        self.step()

    @property
    def loss(self) -> Tensor:
        """The mean loss over the steps of the last epoch, a scalar on the device."""
        return self.total / len(self.loader)

    def _evaluate_validation(self) -> None:
        with autocast(self.device, self.bf16):
            self.reweight.evaluate_validation()

    def _undo(self) -> None:
        """Drop the gradients of a failed capture: they hold no valid values."""
        self.optimizer.zero_grad(set_to_none=True)

    def _step(self) -> None:
        batch = self.loader.batch()
        self.total.add_(train_step(self.model, self.reweight, self.optimizer, *batch, self.bf16, self.clip))


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set one rate for all parameter groups; a tensor is filled in place, because a CUDA graph reads it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def autocast(device: torch.device, bf16: bool) -> AbstractContextManager[Any]:
    """Autocast to bfloat16, or no autocast."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if bf16 else nullcontext()


def why_not_captured(device: torch.device, reweight: Any) -> str | None:
    """Why steps with this method cannot be captured; None if no reason is known."""
    if device.type != "cuda":
        return "there is no CUDA device"
    if is_initialized():
        return "processes exchange losses in every step"
    for part in (reweight, getattr(reweight, "val_schedule", None)):
        reason: str | None = getattr(part, "host_work", None)
        if reason is not None:
            return reason
    return None


def generators_of(reweight: Any) -> list[Generator]:
    """The random generators on the GPU that a method uses in a step."""
    randomness = getattr(reweight, "randomness", None)
    found = [] if randomness is None else [randomness.generator]
    return [generator for generator in found if generator.device.type == "cuda"]
