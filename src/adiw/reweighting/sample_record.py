"""What a training loop shows of each sample: its losses, its label, and the predicted class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from adiw.matching.batches import known_true, none_if_true
from adiw.reweighting.loss_shapes import GOLDEN_RATIO
from adiw.reweighting.sample_index import write_by_index
from adiw.reweighting.step import Step

if TYPE_CHECKING:
    from adiw.reweighting.weight_state import WeightState

EARLY_STEPS = 100  # losses are recorded in the first epoch and at least so many steps: before a network memorises
TIE = 1e-5  # relative and absolute: equal inputs have losses as close as this, in batches of different sizes


class LossHistory(nn.Module):
    """The sum of each sample's losses and their number. Losses that are not finite are excluded.

    A label that is wrong has a large loss in most epochs, also if the network has memorised it in the end. The last
    slot of the buffers takes padding and bad indices.

    >>> history = LossHistory(3)
    >>> history.add(torch.tensor([2, 0]), torch.tensor([1.0, 4.0]), None)
    >>> history.add(torch.tensor([2, 0]), torch.tensor([3.0, torch.nan]), torch.tensor([True, False]))
    >>> history.means()
    tensor([4., nan, 2.])
    """

    loss_sums: Tensor
    loss_counts: Tensor

    def __init__(self, num_train: int) -> None:
        super().__init__()
        self.register_buffer("loss_sums", torch.zeros(num_train + 1))
        self.register_buffer("loss_counts", torch.zeros(num_train + 1, dtype=torch.int32))

    def add(self, index: Tensor, losses: Tensor, finite: Tensor | None) -> None:
        """Add the losses (g,) of the samples ``index`` (g,) where ``finite`` (g,) is true; None: of all."""
        sums, counts = self.loss_sums, self.loss_counts
        one = torch.ones_like(index, dtype=counts.dtype) if finite is None else finite.to(counts.dtype)
        losses = losses if finite is None else torch.where(finite, losses, 0)
        sums.index_add_(0, index, losses.to(sums.dtype))
        counts.index_add_(0, index, one)

    def means(self, last: Tensor | None = None) -> Tensor:
        """(num_train,) the mean loss, nan for samples without any; ``last`` (num_train,) counts as one more loss."""
        sums, counts = self.loss_sums[:-1].double(), self.loss_counts[:-1].double()
        if last is not None:
            known = last.isfinite()
            sums, counts = sums + torch.where(known, last, 0), counts + known
        return torch.where(counts > 0, sums / counts.clamp_min(1), torch.nan).float()


class SampleRecord(nn.Module):
    """Early losses, labels and last predictions of all training samples, for the verdict and the alarms.

    Where the trusted samples are part of the training set, at ``trusted_index``, ``early`` is the last loss of each
    sample in the early steps. Otherwise it is the share of the trusted losses that are smaller, in those of these
    steps in which trusted samples are evaluated: the losses of different networks cannot be compared. Predictions are
    known for targets (n,) of integers and outputs (n, C). Slots of samples that were not seen hold nan or -1; the
    last slot takes what must not be stored.
    """

    early: Tensor
    labels: Tensor
    predicted: Tensor
    is_trusted: Tensor

    def __init__(self, num_train: int, trusted_index: Tensor | None) -> None:
        super().__init__()
        self.num_train = num_train
        self.register_buffer("early", torch.full((num_train + 1,), float("nan")))
        self.early[-1] = 1  # as ``write_by_index`` leaves it
        self.register_buffer("labels", torch.full((num_train + 1,), -1, dtype=torch.int32))
        self.register_buffer("predicted", torch.full((num_train + 1,), -1, dtype=torch.int32))
        self.register_buffer("is_trusted", torch.zeros(num_train, dtype=torch.bool), persistent=False)
        self._restart()
        self.mark_trusted(trusted_index)

    def _restart(self) -> None:
        self._late = False  # whether the early steps are known to be over
        self._first_step: int | None = None  # of those that ``ends_early_steps`` counts
        self._smallest_batch: int | None = None

    def ends_early_steps(self, step: int) -> bool:
        """Whether the early steps are over and were not in the last call: true once.

        For steps on a GPU, whose counts the host does not read: it knows the number of this step and the smallest
        batch, and that so many steps of that size have gone through the training set.
        """
        if self._late:
            return False
        if self._first_step is None:
            self._first_step = step
        steps = step - self._first_step
        samples = steps * (self._smallest_batch or 0)
        self._late = steps > EARLY_STEPS and samples > self.num_train
        return self._late

    def mark_trusted(self, trusted_index: Tensor | None) -> None:
        """Say which training samples are trusted; None if the trusted samples are not trained on."""
        self.joined = trusted_index is not None
        self.is_trusted.fill_(False)
        if trusted_index is not None:
            self.is_trusted[trusted_index[trusted_index < self.num_train].to(self.is_trusted.device)] = True

    def write(
        self,
        state: WeightState,
        step: Step,
        losses: Tensor,
        labels: Tensor | None,
        predicted: Tensor | None,
        val_losses: Tensor | None,
        every: int = 1,
    ) -> None:
        """Record a step: losses (g,) and ``class_columns`` of all processes, and trusted losses (m, 1) if known.

        The trusted losses are of the same network in every ``every``-th step only, from the first one on.
        """
        if not state.is_stream:  # whose batches have rows that are no samples
            state.history.add(step.index, losses, step.finite)
            if self._smallest_batch is None or step.count < self._smallest_batch:
                self._smallest_batch = step.count
        if labels is not None and predicted is not None:
            self.labels.index_copy_(0, step.index, labels)
            self.predicted.index_copy_(0, step.index, predicted)
        if self._late or not (self.joined or val_losses is not None):
            return
        late = (state.seen_samples > self.num_train) & (state.seen_steps > EARLY_STEPS)
        if known_true(late):
            self._late = True
            return
        if val_losses is not None and not self.joined:
            late = late | ((state.seen_steps - 1) % every != 0)
            if known_true(late):
                return
            losses = share_smaller(losses, val_losses[:, 0], step.index)
        used = none_if_true(~late)
        if step.finite is not None:
            used = step.finite if used is None else step.finite & used
        write_by_index(self.early, step.index, losses, used, step.distinct)

    def known(self) -> Tensor:
        """(num_train,) the training samples with a label and a prediction, trusted samples excluded."""
        return (self.labels[:-1] >= 0) & ~self.is_trusted

    def accuracy(self) -> Tensor:
        """The share of training samples, without trusted ones, whose last predicted class is the given label."""
        known = self.known()
        right = known & (self.labels[:-1] == self.predicted[:-1])
        return right.sum() / known.sum().clamp_min(1)

    def early_losses(self, num_trusted: int) -> tuple[Tensor, Tensor] | None:
        """Early values of the training samples (n,), nan where unknown, and of the trusted ones (m,) to compare."""
        early = self.early[:-1]
        train = torch.where(self.is_trusted, torch.nan, early)
        if not bool(train.isfinite().any()):
            return None
        return train, early[self.is_trusted] if self.joined else (torch.arange(num_trusted) + 0.5) / num_trusted

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *arguments: Any) -> None:
        self._restart()
        super()._load_from_state_dict(state, prefix, *arguments)

    def __repr__(self) -> str:
        return "SampleRecord()"


def share_smaller(losses: Tensor, others: Tensor, index: Tensor) -> Tensor:
    """(g,) the share of other losses (m,) that are smaller than each loss (g,); ties are broken by its index (g,).

    The shares are uniform if both have the same distribution, however many of them are equal.

    >>> share_smaller(torch.tensor([0.5, 3.0]), torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0, 0]))
    tensor([0.2500, 0.7500])
    """
    others = others.to(losses.dtype)
    equal = torch.isclose(others, losses[:, None], rtol=TIE, atol=TIE)
    smaller = (others < losses[:, None]) & ~equal
    shares = (smaller.sum(1) + (index % 4096 * GOLDEN_RATIO).frac() * (equal.sum(1) + 1)) / (len(others) + 1)
    return shares.float()


def class_columns(
    outputs: Any, targets: Any, losses: Tensor, with_uncertainty: bool = False
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(labels, predicted classes, uncertainty) of a batch, (n,), or three None where targets are not classes.

    The first two are int32; the uncertainty, unless it is None, is -log of the largest predicted probability.

    >>> class_columns(torch.tensor([[0.1, 0.9]]), torch.tensor([0]), torch.zeros(1))
    (tensor([0], dtype=torch.int32), tensor([1], dtype=torch.int32), None)
    >>> class_columns(torch.zeros(1, 2), torch.tensor([0]), torch.zeros(1), with_uncertainty=True)[2]
    tensor([0.6931])
    >>> class_columns(torch.zeros(1, 1), torch.zeros(1), torch.zeros(1))
    (None, None, None)
    """
    is_labels = isinstance(targets, Tensor) and targets.shape == losses.shape and not targets.is_floating_point()
    is_scores = isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] > 1
    if not (is_labels and is_scores):
        return None, None, None
    scores = outputs.detach().to(losses.dtype) if with_uncertainty else None
    uncertainty = None if scores is None else scores.logsumexp(1) - scores.amax(1)
    return targets.int(), outputs.argmax(1).int(), uncertainty
