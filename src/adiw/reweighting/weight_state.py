"""The weights of all training samples, stored by index, and the counters of a weighting method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from adiw.argument_checks import check_count
from adiw.distributed.process_group import Processes, current_processes
from adiw.matching.batches import is_finite, known_finite, none_if_true
from adiw.reweighting.nonfinite_losses import warn_of_nonfinite
from adiw.reweighting.sample_index import PADDING, check_index, mask_bad, write_by_index
from adiw.reweighting.sample_record import LossHistory
from adiw.reweighting.step import GatheredBatch, Step, WeightedMean
from adiw.reweighting.summary import Summary, summarise

if TYPE_CHECKING:
    from adiw.reweighting.divergence_estimator import EstimationResult
    from adiw.reweighting.validation_schedule import ValidationSchedule

NAN = float("nan")
FILLS = (PADDING, NAN, 0, NAN, *[-1] * 5)  # of index, losses, sizes and columns, where a process has fewer samples
WINDOW = 2048  # samples of a stream whose losses and weights are kept: the last ones


class WeightState(nn.Module):
    """One weight per training sample, counters on the device, and the weighted mean of the losses.

    Each process passes its part of the batch, and all processes keep the same state. The buffers have one slot more
    than there are samples, for what must not be stored: masked values, bad indices and padding.

    Args:
        num_train: size of the training set; None for a stream, of which the last ``WINDOW`` samples have a slot.
        settings: the method and its settings as text; ``load_state_dict`` refuses a state with other settings.
        repeats: whether a sample may occur twice in a process's batch.
        warmup_steps: first steps, in which all weights are one; None for one epoch.
        keep_estimates: also store the estimates, if a class prior or limits make them differ from the weights.
        process_group: PyTorch's group of the processes that have different parts of the batch; None for all.

    >>> state = WeightState(3, "Uniform()")
    >>> losses = torch.tensor([0.5, float("nan")])
    >>> step = state.begin_step(torch.tensor([2, 0]), losses)
    >>> weights = state.store(step, torch.tensor([4.0, 4.0]), step.finite)
    >>> state.weights
    tensor([1., 1., 4.])
    >>> state.weighted_mean(step, weights, losses, None)
    tensor(1.)
    """

    weight_slots: Tensor
    estimate_slots: Tensor | None
    nonfinite_slots: Tensor
    seen_steps: Tensor
    seen_samples: Tensor
    bad_indices: Tensor

    def __init__(
        self,
        num_train: int | None,
        settings: str,
        *,
        repeats: bool = True,
        warmup_steps: int | None = 0,
        keep_estimates: bool = False,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        self.is_stream, self.process_group = num_train is None, process_group
        num_train = WINDOW if num_train is None else num_train
        check_count("num_train", num_train, least=1)
        if warmup_steps is not None:
            check_count("warmup_steps", warmup_steps, least=0)
        self.num_train, self.settings, self.repeats, self.warmup_steps = num_train, settings, repeats, warmup_steps
        self.register_buffer("weight_slots", torch.ones(num_train + 1))
        self.register_buffer("estimate_slots", torch.ones(num_train + 1) if keep_estimates else None)
        self.register_buffer("nonfinite_slots", torch.zeros(num_train + 1, dtype=torch.int32))
        for counter in ("seen_steps", "seen_samples", "bad_indices"):
            self.register_buffer(counter, torch.zeros((), dtype=torch.long))
        self.history = LossHistory(num_train)
        self.largest_batch = 0  # samples of a process that later batches may have, if more than the first ones
        self.processes: Processes | None = None  # chosen in the first step: a process group may be made until then
        self._started = False
        self._warm = False  # whether the warm-up is known to have ended
        self._warned: dict[str, int] = {}  # counts of losses that were not finite at the last warning

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,); one for samples without an estimate."""
        return self.weight_slots[:-1]

    @property
    def estimates(self) -> Tensor:
        """The last estimate of every training sample, (num_train,): its weight before class prior and limits."""
        return (self.weight_slots if self.estimate_slots is None else self.estimate_slots)[:-1]

    @property
    def nonfinite(self) -> Tensor:
        """How often the loss of each training sample was not finite, (num_train,)."""
        return self.nonfinite_slots[:-1]

    def begin_step(
        self, index: Tensor, losses: Tensor, method: nn.Module | None = None, sizes: Tensor | None = None
    ) -> Step:
        """Gather and count the samples of a step, and record their losses."""
        batch = self.gather(index, losses, method, sizes)
        step = self.count(batch)
        if not self.is_stream:
            self.history.add(step.index, batch.losses, step.finite)
        return step

    def gather(
        self,
        index: Tensor | None,
        losses: Tensor,
        method: nn.Module | None = None,
        sizes: Tensor | None = None,
        columns: Sequence[Tensor | None] = (),
    ) -> GatheredBatch:
        """Check the index (n,) and gather the samples of all processes, their ``sizes`` (n,) and columns.

        Of a stream the index is None, or ``PADDING`` for rows that are no samples. ``columns`` are z (n, d) and
        integers (n,). In the first step of several processes, rank 0's state of ``method`` is copied to all.
        """
        try:
            index, checked = self._checked_index(index, losses)
        except Exception as error:
            self.share_error(error)
            raise
        if self._started and self.processes is not None:
            processes, starts_group = self.processes, False
        else:
            processes, starts_group = self._start_processes(method, losses)
        alone = processes.size == 1
        own = [index.to(losses.device, non_blocking=True), losses.detach(), sizes, *columns]
        index, all_losses, all_sizes, *columns = processes.gather(own, FILLS[: len(own)])
        checked = checked and alone  # otherwise some rows may pad, and another process may have the same sample
        distinct = checked and (len(losses) <= self.num_train if self.is_stream else not self.repeats)
        return GatheredBatch(
            index, all_losses, all_sizes, columns, len(losses), checked, distinct, processes, starts_group
        )

    def _checked_index(self, index: Tensor | None, losses: Tensor) -> tuple[Tensor, bool]:
        """(index (n,), whether every entry is known to be in the training set)."""
        if losses.device != self.seen_steps.device:
            raise ValueError(
                f"outputs are on {losses.device}, but reweight is on {self.seen_steps.device}: "
                f'call reweight.to("{losses.device}") once after moving the model'
            )
        if self.is_stream:
            return (torch.zeros_like(losses, dtype=torch.long), True) if index is None else (index, False)
        if index is None:
            raise TypeError(
                "index is missing: wrap the training set in adiw.Indexed and pass the last part of each batch, or, "
                "for data without an index, make the method with num_train=None"
            )
        return check_index(index, len(losses), self.num_train, self.repeats)

    def count(self, batch: GatheredBatch) -> Step:
        """Count the step, its losses that are not finite, and bad indices. Reads nothing from the device."""
        index, num_samples = batch.index, len(batch.index)
        if self.is_stream:
            index = self._next_slots(index)
        if not batch.checked:
            index, num_bad = mask_bad(index, self.num_train)
            self.bad_indices.add_(num_bad)
        finite = None if known_finite(batch.losses) else is_finite(batch.losses)
        if finite is not None:
            bad = ~finite if batch.sizes is None else ~finite & (batch.sizes > 0)  # without elements there is no loss
            self.nonfinite_slots.index_add_(0, index, bad.to(self.nonfinite_slots.dtype))
        total = num_samples if batch.processes.size == 1 else (index < self.num_train).sum()
        self.seen_steps.add_(1)
        self.seen_samples.add_(total)
        counted: dict[str, Any] = vars(batch) | {"index": index, "finite": finite, "num_samples": total}
        return Step(**counted, num_train=self.num_train, past_warmup=self._past_warmup())

    def _next_slots(self, index: Tensor) -> Tensor:
        """The slots of the window that the samples of a stream take, in place of the oldest; padding stays."""
        is_sample = index != PADDING
        slots = (self.seen_samples + is_sample.cumsum(0) - 1).remainder(self.num_train)
        return torch.where(is_sample, slots, PADDING)

    def _start_processes(self, method: nn.Module | None, losses: Tensor) -> tuple[Processes, bool]:
        """The processes that train together, and whether several of them start in this step."""
        processes = self.current_processes()
        evaluator = getattr(method, "evaluator", None)
        _refuse_join(getattr(evaluator, "given_model", None))
        state, model = self if method is None else method, getattr(evaluator, "model", None)
        starts_group = processes.start(state, losses, model, self.largest_batch)
        self.processes, self._started = processes, True
        return processes, starts_group

    def current_processes(self) -> Processes:
        """The processes that train together; before the first step, those of the process group of now."""
        return current_processes(self.process_group) if self.processes is None else self.processes

    def share_error(self, error: Exception) -> None:
        """Before this process raises an error, and before the step's ``gather``: let all others raise one too."""
        self.current_processes().share_error(error, self.seen_steps.device)

    def _past_warmup(self) -> Tensor | None:
        if self.warmup_steps == 0 or self._warm:
            return None
        if self.warmup_steps is None:
            past = none_if_true(self.seen_samples > self.num_train)
        else:
            past = none_if_true(self.seen_steps > self.warmup_steps)
        self._warm = past is None
        return past

    def read_weights(self, step: Step) -> Tensor:
        """The last weight of each sample of the step, (g,)."""
        return self.weight_slots.index_select(0, step.index)

    def read_estimates(self, step: Step) -> Tensor:
        """The last estimate of each sample of the step, (g,)."""
        slots = self.weight_slots if self.estimate_slots is None else self.estimate_slots
        return slots.index_select(0, step.index)

    def store(
        self, step: Step, weights: Tensor, mask: Tensor | None = None, estimates: Tensor | None = None
    ) -> Tensor:
        """Store the weights (g,), and the estimates (g,) if they are kept, where ``mask`` (g,) is true.

        During the warm-up nothing is stored. Returns the weights for the loss, which are one during the warm-up.
        """
        past = step.past_warmup
        if past is not None:
            weights, mask = torch.where(past, weights, 1), past if mask is None else mask & past
        write_by_index(self.weight_slots, step.index, weights, mask, step.distinct)
        if (slots := self.estimate_slots) is not None:
            assert estimates is not None
            write_by_index(slots, step.index, estimates, mask, step.distinct)
        return weights

    def weighted_mean(self, step: Step, weights: Tensor, losses: Tensor, outputs: Any) -> Tensor:
        """mean(w * loss) for weights (g,) and this process's losses (n,).

        Samples whose loss is not finite add nothing to the loss or to its gradient.
        """
        return WeightedMean.of(step, weights.detach(), losses.dtype)(losses, outputs)

    def summary(
        self,
        val_schedule: ValidationSchedule | None = None,
        bound: float | None = None,
        last: EstimationResult | None = None,
    ) -> Summary:
        """Statistics of the weights, read from the device.

        Warns of losses that were not finite, and again each time that their number has doubled.
        """
        self._raise_bad_indices()
        num_train = warn_of_nonfinite("training", self.nonfinite, self._warned, named=not self.is_stream)
        counts = None if val_schedule is None else val_schedule.nonfinite
        num_val = 0 if counts is None else warn_of_nonfinite("validation", counts, self._warned)
        figures: dict[str, Any] = summarise(self.weights, bound, last)
        return Summary(steps=int(self.seen_steps), nonfinite_train=num_train, nonfinite_val=num_val, **figures)

    def _raise_bad_indices(self) -> None:
        count = int(self.bad_indices)
        if count:
            raise IndexError(
                f"{count} indices so far were not in the training set (0 to {self.num_train - 1}), and their weights "
                "were not stored: take the index from adiw.Indexed around this training set"
            )

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As in ``nn.Module``, but raises after bad indices, also as part of the state_dict of a whole method."""
        self._raise_bad_indices()
        return super().state_dict(*args, **kwargs)

    def get_extra_state(self) -> dict[str, Any]:
        return {"settings": self.settings, "num_train": self.num_train}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self._warm = False
        if not isinstance(state, dict) or "settings" not in state:
            raise ValueError(f"this is not the state of a weighting method: expected its settings, got {state!r}")
        if state["settings"] != self.settings:
            raise ValueError(
                f"this state was made with {state['settings']}, but this is {self.settings}: "
                "make the method with the same settings to resume from it"
            )
        if state.get("num_train", self.num_train) != self.num_train:
            raise ValueError(
                f"this state is of {state['num_train']} training samples, but there are {self.num_train} now: "
                "weights are stored by sample number, so resume with the same training set, or start without it"
            )


def _refuse_join(model: Any) -> None:
    if getattr(getattr(model, "_join_config", None), "enable", False):
        raise RuntimeError(
            "torch's Join cannot replace a process that has no more batches: the losses of all processes are "
            "gathered in each step. Iterate over adiw.together(loader) instead, which ends in the same step in "
            "all processes"
        )
