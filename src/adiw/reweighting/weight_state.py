"""The books of a weighting method: each sample's last weight, the steps so far, and what went wrong in them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from adiw.arguments import check_count
from adiw.distributed.process_group import ProcessGroup
from adiw.matching.batches import is_finite, unless_true
from adiw.reweighting.estimation import EstimationResult
from adiw.reweighting.per_sample_losses import guard_gradient
from adiw.reweighting.summary import Summary, name_indices, summarise
from adiw.reweighting.transforms import Observed
from adiw.reweighting.validation_stream import ValidationStream
from adiw.reweighting.values_by_index import ValuesByIndex, check_distinct, check_index


@dataclass(frozen=True)
class Step:
    """The samples of a step: this process's, and those of all processes, padded with the spare slot."""

    index: Tensor  # (n,)
    finite: Tensor  # (n,) whose loss is finite
    everyone: Tensor  # (g,) as ``index``; the same tensor for a process alone
    sound: Tensor  # (g,) as ``finite``
    spare: int  # the slot that pads
    first: bool  # of a team: what must be alike in all processes is to be shared

    @property
    def present(self) -> Tensor:
        """(g,) which of ``everyone`` are samples, and do not pad parts of unequal length."""
        return self.everyone < self.spare


class WeightState(nn.Module):
    """Weights by index, counters on the device, and the weighted mean that leaves broken samples out.

    Args:
        num_train: size of the training set.
        settings: the method and its settings in words; a state made with others is refused.
        repeats: whether a sample may be twice in a batch of one process.

    Where several processes train together, each enters its part of the batch and all keep the same books: ``team``
    gathers the parts.

    >>> weight_state = WeightState(3, "Uniform()")
    >>> losses = torch.tensor([0.5, float("nan")])
    >>> step = weight_state.enter(torch.tensor([2, 0]), losses)
    >>> weight_state.keep(step, torch.tensor([4.0, 4.0]))
    >>> weight_state.weights
    tensor([1., 1., 4.])
    >>> weight_state.weighted_mean(step, torch.tensor([4.0, 4.0]), losses, None)
    tensor(1.)
    """

    seen_steps: Tensor
    seen_samples: Tensor
    bad_indices: Tensor
    nonfinite: Tensor

    def __init__(self, num_train: int, settings: str, repeats: bool = True) -> None:
        super().__init__()
        check_count("num_train", num_train, least=1)
        self.settings, self.processes = settings, ProcessGroup()
        self._told: dict[str, int] = {}  # losses that were not finite when somebody was last warned of them
        self.used = ValuesByIndex(num_train)
        for counter in ("seen_steps", "seen_samples", "bad_indices"):
            self.register_buffer(counter, torch.zeros((), dtype=torch.long))
        self.register_buffer("nonfinite", torch.zeros(num_train + 1, dtype=torch.int32))
        self.repeats = repeats

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,); one for samples not seen yet."""
        return self.used.values

    def enter(self, index: Tensor, losses: Tensor) -> Step:
        """Begin a step: it is counted, and the index (n,) comes back checked and on our device."""
        if losses.device != self.seen_steps.device:
            raise ValueError(
                f"outputs are on {losses.device}, but reweight is on {self.seen_steps.device}: "
                f'call reweight.to("{losses.device}") once after moving the model'
            )
        index, bad = check_index(index, len(losses), len(self.used))
        if bad is not None:
            self.bad_indices.add_(bad)
        if not self.repeats:
            check_distinct(index)
        index, finite = index.to(losses.device, non_blocking=True), is_finite(losses.detach())
        first = self.processes.prepare(len(losses), losses)
        if first:
            self.processes.share(self.buffers())
        everyone, sound = self.processes.gather(index, len(self.used)), self.processes.gather(finite, False)
        self.nonfinite.index_add_(0, everyone, (~sound).to(self.nonfinite.dtype))
        self.seen_steps.add_(1)
        step = Step(index, finite, everyone, sound, len(self.used), first)
        if self.processes.size == 1:
            self.seen_samples.add_(len(losses))
        else:
            self.seen_samples.add_(step.present.sum())
            self.nonfinite[-1:].zero_()  # what pads the batch is nobody's
        return step

    def distinct(self, index: Tensor) -> bool:
        """Whether it is known that no sample is twice in a step's index (g,): on the CPU of a process alone."""
        return not self.repeats and not index.is_cuda and self.processes.size == 1

    def ready(self, steps: int | None) -> Tensor | None:
        """Whether this step comes after the first ``steps``, or for None after the first epoch: a boolean on the
        device, None where the host sees that it does.
        """
        return unless_true(self.seen_samples > len(self.used) if steps is None else self.seen_steps > steps)

    def whole(self, observed: Observed) -> Observed:
        """z and groups of all processes' samples, in the order of ``Step.everyone``."""
        group = None if observed.group is None else self.processes.gather(observed.group, -1)
        return Observed(self.processes.gather(observed.z, float("nan")), group)

    def keep(self, step: Step, weights: Tensor) -> None:
        """Remember the weights (g,) of everyone's samples whose loss is finite; the others keep theirs."""
        self.used.write(step.everyone, weights, step.sound)

    def weighted_mean(self, step: Step, weights: Tensor, losses: Tensor, outputs: Any) -> Tensor:
        """mean(w * loss); samples whose loss is not finite add nothing, also to the gradient.

        Of several processes each returns its part, scaled so that the mean over the processes (which is what
        DistributedDataParallel makes of their gradients) is the mean over all samples, however many each has.
        """
        guard_gradient(outputs, step.finite)
        weighted = torch.where(step.finite, weights.to(losses.dtype) * losses, 0)
        if self.processes.size == 1:
            return weighted.mean()
        return weighted.sum() * self.processes.size / step.present.sum().clamp_min(1)

    def summary(
        self,
        val_stream: ValidationStream | None = None,
        bound: float | None = None,
        last: EstimationResult | None = None,
    ) -> Summary:
        """Health of the weights. Reads them from the device.

        Warns of losses that were not finite: the first time, and whenever they are twice as many, so that a long run
        does not fill its log.
        """
        self._raise_bad_indices()
        counts = {"training": self.nonfinite[:-1], "validation": None if val_stream is None else val_stream.nonfinite}
        found = {kind: 0 if count is None else int(count.sum()) for kind, count in counts.items()}
        for kind, count in counts.items():
            if count is not None and found[kind] and found[kind] >= 2 * self._told.get(kind, 0):
                self._told[kind] = found[kind]
                warnings.warn(
                    f"{found[kind]} {kind} losses so far were not finite and were left out; {kind} samples: "
                    f"{name_indices(count)}",
                    stacklevel=3,
                )
        return Summary(
            steps=int(self.seen_steps),
            nonfinite_train=found["training"],
            nonfinite_val=found["validation"],
            **summarise(self.weights, bound, last),
        )

    def _raise_bad_indices(self) -> None:
        count = int(self.bad_indices)
        if count:
            raise IndexError(
                f"{count} indices since the start were not in the training set (0 to {len(self.used) - 1}): their "
                "weights were not kept. Check that the index comes from adiw.Indexed around this training set"
            )

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """See ``nn.Module``; raises if indices were bad. The state of the method that owns this goes through here."""
        self._raise_bad_indices()
        return super().state_dict(*args, **kwargs)

    def get_extra_state(self) -> dict[str, Any]:
        return {"settings": self.settings, "num_train": len(self.used)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or "settings" not in state:
            raise ValueError(f"this is not the state of a weighting method: expected its settings, came {state!r}")
        if state["settings"] != self.settings:
            raise ValueError(
                f"this state was made with {state['settings']}, but this is {self.settings}: "
                "make the method with the same settings to go on from it"
            )
        if state.get("num_train", len(self.used)) != len(self.used):
            raise ValueError(
                f"this state is of {state['num_train']} training samples, but there are {len(self.used)} now: "
                "weights belong to samples by their number, so go on with the same set, or begin anew without it"
            )
