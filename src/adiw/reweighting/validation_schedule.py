"""The validation batch of each step: which samples are in it, and how often the model evaluates them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader

from adiw.argument_checks import check_count
from adiw.distributed.process_group import Processes
from adiw.matching.batches import Kept, finite_mask, known_finite
from adiw.reweighting.dataset_cache import (
    CACHE_BYTES,
    map_tensors,
    prepare_worker,
    read_all,
    start,
    take_rows,
)
from adiw.reweighting.extra_state import from_one_value, one_value
from adiw.reweighting.indexed_with_trusted import is_map_style
from adiw.reweighting.transforms import TransformedBatch

Evaluate = Callable[[Any], TransformedBatch]  # a batch of validation samples -> their z and groups


@dataclass(frozen=True)
class ValidationBatch:
    """The validation samples that a training batch is matched with: the ``m`` that were evaluated last."""

    index: Tensor  # (m,) in the validation set
    z: Tensor  # (m, d), nan where not evaluated yet
    group: Tensor | None  # (m,), None for one group
    newest: Tensor  # (refresh_size, d) z of the samples that were evaluated last
    kept: Kept | None = field(default=None, repr=False)  # None where z may not be finite


class StepClock:
    """Counts steps on the host, which decides what is launched.

    Its numbers are not attributes of the module: nn.Module takes long to set one.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.refreshed = False  # whether ``refresh`` was called for the coming step

    def tick(self, every: int) -> bool:
        """Count a step. Whether it is the first of ``every`` steps."""
        self.steps += 1
        return (self.steps - 1) % every == 0


class ValidationSchedule(nn.Module):
    """Cycles through the validation set in one shuffled order: ``refresh`` samples in every ``every``-th step.

    A step's batch is the last ``batch`` samples that were evaluated. With refresh = batch and every = 1 all of them
    are evaluated in each step, as in the paper; otherwise the others keep their z from earlier steps. The order is
    drawn once and the position in it is kept on the device, so that a step needs no host synchronisation and a
    resumed run continues with the same samples.

    The inputs are moved to the device once when they fit in ``cache_bytes`` and do not change when they are read
    again; others are read by a DataLoader. ``workers`` processes read them (0: the training process). Without
    ``evaluated`` they are not read at all, and only steps are counted. With ``elements``, z of a sample is the
    losses of so many of its elements, nan behind the last.
    """

    order: Tensor
    next_positions: Tensor
    oldest_rows: Tensor
    batch_index: Tensor
    nonfinite: Tensor

    def __init__(
        self,
        dataset: Any,
        batch: int,
        refresh: int | None,
        generator: Generator,
        cache_bytes: int = CACHE_BYTES,
        workers: int = 0,
        every: int = 1,
        evaluated: bool = True,
        elements: int | None = None,
    ) -> None:
        super().__init__()
        size = _check_dataset(dataset)
        check_count("val_every", every, least=1)
        check_count("val_batch", batch, least=1)
        check_count("val_refresh", batch if refresh is None else refresh, least=1)
        check_count("cache_bytes", cache_bytes, least=0)
        check_count("val_workers", workers, least=0)
        self.batch_size = min(batch, size)
        self.refresh_size = self.batch_size if refresh is None else min(refresh, self.batch_size)
        self.dataset, self.workers, self.every, self.evaluated = dataset, workers, every, evaluated
        self.elements = elements
        self.register_buffer("order", torch.randperm(size, generator=generator))
        self.register_buffer("next_positions", torch.arange(self.refresh_size))  # in the order
        self.register_buffer("oldest_rows", torch.arange(self.refresh_size))  # of the batch: replaced next
        self.register_buffer("batch_index", self.order[-self.batch_size :].clone())
        self.register_buffer("nonfinite", torch.zeros(size, dtype=torch.int32))
        self.clock = StepClock()
        self.z: Tensor | None = None  # (batch_size, d): d is known after the first evaluation
        self.group: Tensor | None = None
        self.kept: Kept | None = None
        self.cached = read_all(dataset, cache_bytes, workers) if evaluated else None
        self._loaded: Iterator[Any] | None = None

    def __len__(self) -> int:
        return len(self.order)

    @property
    def num_units(self) -> int:
        """How many samples there are, or elements of them."""
        return len(self) * (self.elements or 1)

    @property
    def host_work(self) -> str | None:
        """Why a step needs the host, or None: cached samples are selected on the device."""
        cached = self.cached is not None or not self.evaluated
        return None if cached else "the trusted samples are read by the host"

    def batch_for_step(self, evaluate: Evaluate, processes: Processes) -> ValidationBatch:
        """The validation batch of this step. Evaluates the next samples if due, unless ``refresh`` did."""
        if self.is_due():
            self.evaluate_next(evaluate, processes)
        return self.batch()

    def batch(self) -> ValidationBatch:
        """The samples, or their elements, that were evaluated last. Later evaluations write to the same tensors."""
        assert self.z is not None  # the first step evaluates
        newest = self.z
        if self.refresh_size < self.batch_size:
            newest = self.z[(self.oldest_rows - self.refresh_size) % self.batch_size]
        if self.elements is not None:
            numbers = torch.arange(self.elements, device=self.z.device)
            index = (self.batch_index[:, None] * self.elements + numbers).flatten()
            group = None if self.group is None else self.group.flatten()
            return ValidationBatch(index, self.z.reshape(-1, 1), group, newest, self.kept)
        return ValidationBatch(self.batch_index, self.z, self.group, newest, self.kept)

    def is_due(self) -> bool:
        """Count a step. Whether it evaluates the next samples: every ``every``-th does, unless ``refresh`` did."""
        if not self.clock.refreshed:
            return self.clock.tick(self.every)
        # Capturing a CUDA graph executes nothing: the step itself follows.
        self.clock.refreshed = is_capturing(self.order)
        return False

    def refresh(self, run: Callable[[], None]) -> None:
        """Call ``run``, which evaluates the next samples, before the step instead of in it, if that is due."""
        if self.clock.tick(self.every):
            run()
        self.clock.refreshed = True

    def evaluate_next(self, evaluate: Evaluate, processes: Processes) -> None:
        """Evaluate the next samples, which replace the oldest of the batch."""
        index, samples = self.next_samples(processes)
        self.store(index, evaluate(samples), processes)

    def store(self, index: Tensor, evaluated: TransformedBatch, processes: Processes) -> None:
        """Replace the oldest of the batch by the samples ``index``, of which each process evaluated a part."""
        z, group = processes.join(evaluated, self.refresh_size)
        finite = finite_mask(z)
        if finite is not None:
            finite = finite[:, 0] if z.shape[1] == 1 or self.elements is not None else finite.all(1)
            self.nonfinite.index_add_(0, index, (~finite).to(self.nonfinite.dtype))
        if self.z is None:
            self.z = z.new_full((self.batch_size, z.shape[1]), float("nan"))
            self.group = None if group is None else group.new_full((self.batch_size, *group.shape[1:]), -1)
        for column, new in ((self.batch_index, index), (self.z, z), (self.group, group)):
            if column is None:
                continue
            if self.refresh_size == self.batch_size:
                column.copy_(new)
            else:
                column.index_copy_(0, self.oldest_rows, new)
        if self.refresh_size < self.batch_size:
            self.oldest_rows.add_(self.refresh_size).remainder_(self.batch_size)
        all_new = self.refresh_size == self.batch_size
        self.kept = Kept(self.z.clone()) if (finite is None if all_new else known_finite(self.z)) else None

    def next_samples(self, processes: Processes) -> tuple[Tensor, Any]:
        """(index of the next ``refresh_size`` samples, inputs of this process's part of them), on the device."""
        positions = self.next_positions
        index = self.order.index_select(0, positions)
        if self.cached is not None:
            samples = take_rows(self.cached, processes.split(index))
        else:
            if self._loaded is None:
                self._loaded = self._open_loader(processes)
            samples = map_tensors(lambda x: x.to(index.device, non_blocking=True), next(self._loaded))
        positions.add_(self.refresh_size).remainder_(len(self.order))
        return index, samples

    def _open_loader(self, processes: Processes) -> Iterator[Any]:
        # The sampler holds no reference to this object, so that deleting the object ends the workers.
        order, refresh, position = self.order.tolist(), self.refresh_size, int(self.next_positions[0])
        part = processes.split(torch.arange(refresh)).tolist()

        def batches() -> Iterator[list[int]]:
            at = position
            while True:
                yield [order[(at + ahead) % len(order)] for ahead in part]
                at += refresh

        loader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=batches(),
            num_workers=self.workers,
            pin_memory=torch.cuda.is_available() and self.order.is_cuda,
            worker_init_fn=prepare_worker,
            generator=Generator(),  # a loader draws a seed, which must not change the global generator
        )
        return start(loader)

    def get_extra_state(self) -> tuple[dict[str, Any]]:
        return one_value({"z": self.z, "group": self.group, "steps": self.clock.steps})

    def set_extra_state(self, state: Any) -> None:
        state = from_one_value(state)
        kinds: dict[str, Any] = {"z": (Tensor, NoneType), "group": (Tensor, NoneType), "steps": int}
        if not isinstance(state, dict) or not all(isinstance(state.get(key), kind) for key, kind in kinds.items()):
            raise ValueError(
                f"this is not the state of a validation schedule: expected {', '.join(kinds)}, got {state!r}"
            )
        device = self.order.device
        self.z, self.group = (None if x is None else x.clone().to(device) for x in (state["z"], state["group"]))
        self.clock.steps, self.clock.refreshed, self._loaded, self.kept = state["steps"], False, None, None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ValidationSchedule:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = self.order.device
        self.z = None if self.z is None else fn(self.z)
        self.group = None if self.group is None else fn(self.group)
        self.kept = None
        if self.cached is not None:  # to the device, but with the dtypes of the data set
            self.cached = map_tensors(lambda column: column.to(device), self.cached)
        return self


def is_capturing(tensor: Tensor) -> bool:
    """Whether work on this tensor's device is being captured as a CUDA graph."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _check_dataset(dataset: Any) -> int:
    if isinstance(dataset, DataLoader):
        raise TypeError("val_set must be a data set, got a DataLoader: pass loader.dataset")
    if not is_map_style(dataset):
        kind = type(dataset).__name__
        raise TypeError(f"val_set must be a map-style data set (__len__ and __getitem__), got {kind}")
    if len(dataset) == 0:
        raise ValueError("val_set is empty: the weights are estimated from it, so it needs trusted samples")
    return len(dataset)
