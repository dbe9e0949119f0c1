"""The stream of validation batches: which samples, what z they have under the current model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from adiw.arguments import check_count
from adiw.distributed.process_group import ProcessGroup
from adiw.matching.batches import finite_part
from adiw.reweighting.dataset_cache import CACHE_BYTES, leave_interrupts_to_the_parent, map_tensors, read_all, start
from adiw.reweighting.transforms import Observed


@dataclass(frozen=True)
class Window:
    """The validation samples that a training batch is matched with: the ``w`` that were read last."""

    index: Tensor  # (w,) in the validation set
    z: Tensor  # (w, d), nan where not read yet
    group: Tensor | None  # (w,), None when there is one group


class ValidationStream(nn.Module):
    """Reads the validation set round and round in one shuffled order, ``refresh`` samples in every ``every``-th step.

    The window is the last ``batch`` samples that were read. With refresh = batch and every = 1 all of them are fresh,
    as in the paper; otherwise the rest are remembered from the steps before. The order is drawn once: where the
    stream stands is known on the device, so a step needs no host synchronisation and a resumed run goes on exactly.
    A step reads by itself (``read``), unless somebody has called ``turn``, and ``look`` where that says so, before.

    The inputs are moved to the device once when they fit in ``cache_bytes`` and a second look at some of them finds
    the same; a set that changes between reads (augmentation), or is too large, is read through a DataLoader instead.
    Either way ``workers`` processes do the reading, this one where there are none.
    """

    order: Tensor
    ahead: Tensor
    place: Tensor
    window_index: Tensor
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
    ) -> None:
        super().__init__()
        size = _check_dataset(dataset)
        check_count("val_every", every, least=1)
        check_count("val_batch", batch, least=1)
        check_count("val_refresh", batch if refresh is None else refresh, least=1)
        check_count("cache_bytes", cache_bytes, least=0)
        check_count("val_workers", workers, least=0)
        self.window = min(batch, size)
        self.refresh = self.window if refresh is None else min(refresh, self.window)
        self.dataset, self.workers, self.every = dataset, workers, every
        self.processes = ProcessGroup()
        self.register_buffer("order", torch.randperm(size, generator=generator))
        self.register_buffer("ahead", torch.arange(self.refresh))  # places in the order that are read next
        self.register_buffer("place", torch.arange(self.refresh))  # places in the window that they go to
        self.register_buffer("window_index", self.order[-self.window :].clone())
        self.turns = 0  # steps so far: the host counts them, since it is the host that leaves work out
        self._counted = False  # whether the coming step is among them
        self.register_buffer("nonfinite", torch.zeros(size, dtype=torch.int32))
        self.z: Tensor | None = None  # (window, d): its d is known after the first read
        self.group: Tensor | None = None
        self.cached = read_all(dataset, cache_bytes, workers)
        self._stream: Iterator[Any] | None = None

    def __len__(self) -> int:
        return len(self.order)

    @property
    def host_work(self) -> str | None:
        """Why a step needs the host, or None: samples on the device are found there."""
        return None if self.cached is not None else "the trusted samples are read by the host"

    def next_batch(self) -> tuple[Tensor, Any]:
        """(index, batch) of the next ``refresh`` validation samples, on the device.

        Of several processes each has its part of the batch only.
        """
        index = self.order[self.ahead]
        batch = self._fetch(index)
        self.ahead.add_(self.refresh).remainder_(len(self))
        return index, batch

    def _part(self) -> range:
        """Which of the next samples this process evaluates: all parts have one size, so the last may be too long."""
        size = -(-self.refresh // self.processes.size)
        return range(self.processes.rank * size, (self.processes.rank + 1) * size)

    def real(self) -> Tensor | float:
        """(part,) one for this process's samples of the next batch, zero for those that fill the last part up.

        The number one for a process alone.
        """
        if self.processes.size == 1:
            return 1.0
        part = self._part()
        return (torch.arange(part.start, part.stop, device=self.order.device) < self.refresh).float()

    def add_means(self, means: Iterable[Tensor]) -> None:
        """From means over each process's part, with zeros for what is not ``real``, to those over all, in place."""
        if self.processes.size > 1:
            means = [mean.mul_(len(self._part()) / self.refresh) for mean in means]
            self.processes.add(means)

    def gather(self, values: Tensor) -> Tensor:
        """All processes' parts of something that is known of every sample, (refresh, ...)."""
        if self.processes.size == 1:
            return values
        return self.processes.gather(values, 0, len(self._part()))[: self.refresh]

    def turn(self) -> bool:
        """Count a step: whether it is one that reads. Whoever asks before the step has to ``look`` before it too."""
        self.turns, self._counted = self.turns + 1, True
        return (self.turns - 1) % self.every == 0

    def turn_again(self) -> None:
        """The step that was counted last has failed before it changed anything, and comes again."""
        self._counted = True

    def look(self, observe: Callable[[Any], Observed]) -> None:
        """Observe the next samples: they replace the oldest of the window."""
        index, batch = self.next_batch()
        z, group = (part if part is None else self.gather(part) for part in observe(batch))
        assert z is not None
        finite = finite_part(z)
        if finite is not None:
            finite = finite[:, 0] if z.shape[1] == 1 else finite.all(1)
            self.nonfinite.index_add_(0, index, (~finite).to(self.nonfinite.dtype))
        if self.z is None:
            self.z = z.new_full((self.window, z.shape[1]), float("nan"))
            self.group = None if group is None else torch.zeros_like(self.window_index)
        self._replace(self.window_index, index)
        self._replace(self.z, z)
        if self.group is not None and group is not None:
            self._replace(self.group, group)
        if self.refresh < self.window:
            self.place.add_(self.refresh).remainder_(self.window)

    def _replace(self, remembered: Tensor, new: Tensor) -> None:
        if self.refresh == self.window:
            remembered.copy_(new)
        else:
            remembered.index_copy_(0, self.place, new)

    def read(self, observe: Callable[[Any], Observed]) -> Window:
        """The window for this step, after a look if it is time for one and nobody has had it yet."""
        if not self._counted and (self.turn() or self.z is None):
            self.look(observe)
        self._counted = False
        assert self.z is not None  # the first turn looks
        return Window(self.window_index, self.z, self.group)

    def _fetch(self, index: Tensor) -> Any:
        if self.cached is not None:
            if self.processes.size > 1:
                part = torch.tensor(self._part(), device=index.device).clamp_max(self.refresh - 1)
                index = index[part]
            return map_tensors(lambda column: column[index], self.cached)
        if self._stream is None:
            self._stream = self._open_stream(int(self.ahead[0]))
        return map_tensors(lambda x: x.to(index.device, non_blocking=True), next(self._stream))

    def _open_stream(self, position: int) -> Iterator[Any]:
        order, refresh, part = self.order.tolist(), self.refresh, self._part()  # not self: workers end with the probe

        def batches() -> Iterator[list[int]]:
            at = position
            while True:
                yield [order[(at + min(ahead, refresh - 1)) % len(order)] for ahead in part]
                at += refresh

        pin = torch.cuda.is_available() and self.ahead.is_cuda
        loader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=_Forever(batches),
            num_workers=self.workers,
            pin_memory=pin,
            worker_init_fn=leave_interrupts_to_the_parent,
            generator=Generator(),  # its own: opening a loader draws a seed, and the global generator is the user's
        )
        return start(loader)

    def get_extra_state(self) -> dict[str, Tensor | int | None]:
        return {"z": self.z, "group": self.group, "turns": self.turns}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        kinds: dict[str, Any] = {"z": (Tensor, NoneType), "group": (Tensor, NoneType), "turns": int}
        if not isinstance(state, dict) or not all(isinstance(state.get(key), kind) for key, kind in kinds.items()):
            raise ValueError(f"this is not the state of a stream of validation batches: {state!r}")
        device = self.ahead.device
        self.z, self.group = (None if x is None else x.clone().to(device) for x in (state["z"], state["group"]))
        self.turns, self._counted, self._stream = state["turns"], False, None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ValidationStream:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = self.ahead.device
        self.z = None if self.z is None else fn(self.z)
        self.group = None if self.group is None else fn(self.group)
        if self.cached is not None:  # to the device, but in the types that the data set gave
            self.cached = map_tensors(lambda column: column.to(device), self.cached)
        return self


class _Forever:
    """An endless batch sampler."""

    def __init__(self, batches: Callable[[], Iterator[list[int]]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self.batches()


def _check_dataset(dataset: Any) -> int:
    if isinstance(dataset, DataLoader):
        raise TypeError("val_set must be a data set, got a DataLoader: pass loader.dataset, batches are made here")
    by_number = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)
    if not by_number or not hasattr(dataset, "__len__"):
        raise TypeError(f"val_set must have a length and items by number, got {type(dataset).__name__}")
    if len(dataset) == 0:
        raise ValueError("val_set is empty: the weights are estimated from it, so it needs trusted samples")
    return len(dataset)
