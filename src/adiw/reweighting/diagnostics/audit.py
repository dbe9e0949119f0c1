"""The audit of a training loop: the mean loss of each sample so far, and a last pass over the training set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from adiw.audit_cutoff import Losses
from adiw.distributed.split_models import check_whole
from adiw.label_audit import Audit
from adiw.reweighting.dataset_cache import map_tensors
from adiw.reweighting.diagnostics.evaluation_pass import BATCH, EvaluatedSamples, evaluate_samples, nearest_others
from adiw.reweighting.diagnostics.quick_model import comparable_losses, draw_samples, features_of
from adiw.reweighting.indexed_with_trusted import Indexed, TrustedSamples, find_indexed, split_index
from adiw.reweighting.progress import OnProgress, silent
from adiw.reweighting.sample_record import EARLY_STEPS, LossHistory

FIRST = 1000  # of the ranking: samples whose neighbours are computed, and which are described


def audit(
    reweight: Any,
    train_set: Any,
    *,
    names: Sequence[str] = (),
    columns: Callable[[int], Mapping[str, Any]] | None = None,
    numbering: str = "index in the training set, from 0",
    progress: OnProgress = silent,
) -> Audit:
    """Rank the training samples, the likeliest wrong label first.

    Args:
        reweight: ``adiw.ADIW`` or another weighting method, after training.
        train_set: the training set, ``adiw.Indexed(...)``, or a DataLoader of it.
        names: of the classes.
        columns: ``columns(index)`` describes a sample as a mapping, e.g. the row of its table. It is called for the
            first thousand samples of the ranking.
        numbering: whose numbers the indices are, for the table.
        progress: called with what is done, how much so far and of how many, such as ("evaluating, sample", 256, 460);
            ``progress=print`` prints them.

    The score of a sample is its mean loss over all training passes and a last pass in evaluation mode: a label that
    the network has memorised in the end still has a large mean. ``audit.cutoff`` needs trusted samples that are
    trained on, ``adiw.Indexed(train_set, trusted)``. ``audit.save(folder)`` writes audit.csv and audit.html.

    >>> x, y = torch.randn(60, 2), torch.arange(60) % 3
    >>> train_set = Indexed(torch.utils.data.TensorDataset(x, y), trusted=range(20))
    >>> model, criterion = torch.nn.Linear(2, 3), torch.nn.CrossEntropyLoss(reduction="none")
    >>> from adiw import ADIW
    >>> reweight = ADIW(model, criterion, train_set.trusted, len(train_set))
    >>> reweight(model(x), y, torch.arange(60)).backward()
    >>> audit(reweight, train_set).order.shape  # the trusted samples are not ranked
    (40,)
    """
    state = reweight.weight_state
    loader = train_set
    if not isinstance(train_set, DataLoader):  # a wrapper of an indexed set has the indices already
        loader = DataLoader(train_set if find_indexed(train_set) else Indexed(train_set), batch_size=BATCH)
    index: list[Tensor] = []
    evaluator, is_trusted = reweight.evaluator, trusted_in_training(reweight)
    check_whole(evaluator.model, "an audit")
    inputs = ChosenInputs(is_trusted)
    parameter = next(evaluator.model.parameters(), reweight.weights)
    batches = _batches(loader, index, inputs, parameter.device)
    found = evaluate_samples(evaluator.model, evaluator.criterion, batches, evaluator.run, progress, state.num_train)
    positions = torch.cat(index)
    if len(positions.unique()) < state.num_train:
        raise ValueError(
            f"train_set has {len(positions.unique())} different samples, but {state.num_train} were trained on: pass "
            "the training set of reweight, or a DataLoader that reads all of it (drop_last=False)"
        )
    found = found.map(lambda tensor: torch.empty_like(tensor[: state.num_train]).index_copy_(0, positions, tensor))
    targets, record = found.targets, getattr(reweight, "record", None)
    unseen = by_quick_model(is_trusted, targets, inputs.place, inputs.read(), progress)
    if unseen is None and record is not None:
        unseen = first_losses(record.early[:-1], state.seen_steps, state.seen_samples)
    return make_audit(
        state.history,
        found,
        unseen,
        targets,
        is_trusted,
        columns,
        progress,
        is_trusted=None if is_trusted is None else is_trusted.numpy(),
        names=names,
        weights=reweight.weights.detach().cpu().numpy(),
        numbering=numbering,
    )


def make_audit(
    history: LossHistory | None,
    last: EvaluatedSamples,
    unseen: Tensor | None,
    targets: Tensor | None,
    trusted: Any = None,
    describe: Callable[[int], Mapping[str, Any]] | None = None,
    progress: OnProgress = silent,
    **more: Any,
) -> Audit:
    """The audit of n training samples, of all N that were trained on: the others are trusted samples behind them.

    Args:
        history: the losses of all N in training; None where they are not known.
        last: the last pass over the n samples.
        unseen: (N,) losses by networks that were not trained on the sample; None if they are not known.
        targets: (N,) of all.
        trusted: the places of the trusted samples among all; None if they are not trained on.
        describe: ``describe(position)`` says what a sample is, by column.
        more: further fields of the audit.
    """
    count, means = len(last.losses), last.losses
    if history is not None:
        further = means.new_full((len(history.loss_sums) - 1 - count,), torch.nan)
        means = history.means(torch.cat([means, further]).to(history.loss_sums.device)).cpu()
    compared = means if unseen is None else unseen
    classes = last.targets is not None and not last.targets.is_floating_point()
    given = np.zeros(count) if last.targets is None else last.targets.numpy()
    made = Audit(
        losses=means[:count].numpy().astype(np.float64),
        unseen=None if unseen is None else unseen[:count].numpy().astype(np.float64),
        given=given.astype(np.int64 if classes else np.float64),
        predicted=None if last.predicted is None else last.predicted.numpy(),
        confidence=None if last.confidence is None else last.confidence.numpy(),
        trusted=None if trusted is None else losses_at(trusted, compared, targets),
        **more,
    )
    first = made.order[:FIRST]
    if describe is not None:
        made = replace(made, columns={i: {str(k): str(v) for k, v in describe(i).items()} for i in first.tolist()})
    if not classes or last.features is None:
        return made
    assert last.targets is not None
    neighbour, distance = torch.full((count,), -1), torch.full((count,), torch.nan)
    place = torch.from_numpy(first.copy())
    neighbour[place], distance[place] = nearest_others(last.features, last.targets, place, progress)
    return replace(made, neighbour=neighbour.numpy(), distance=distance.numpy())


class ChosenInputs:
    """The inputs of a part of the training samples, as they are read, for a quick model.

    They are not known where batches have no tensor of numbers or of images as inputs, or no sample is trusted.
    """

    def __init__(self, is_trusted: Tensor | None) -> None:
        self.place = None if is_trusted is None else draw_samples(is_trusted)
        self.row = None if is_trusted is None or self.place is None else torch.full((len(is_trusted),), -1)
        if self.row is not None and self.place is not None:
            self.row[self.place] = torch.arange(len(self.place))
        self.parts: list[tuple[Tensor, Tensor]] = []

    def add(self, x: Any, index: Tensor) -> None:
        """Keep the rows of the inputs x (g, ...) of the samples ``index`` (g,) that were chosen."""
        if self.row is None or not can_be_quick(x) or int(index.max()) >= len(self.row):
            self.row = None
            return
        rows = self.row[index]
        if bool((rows >= 0).any()):
            self.parts.append((rows[rows >= 0], features_of(x.cpu()[rows >= 0])))

    def read(self) -> Tensor | None:
        """(k, d) the inputs of the k chosen samples in order; None where they are not known."""
        if self.row is None or self.place is None or not self.parts:
            return None
        rows, x = (torch.cat(column) for column in zip(*self.parts, strict=True))
        return torch.empty(len(self.place), x.shape[1]).index_copy_(0, rows, x)


def can_be_quick(x: Any) -> bool:
    """Whether inputs are numbers or images, which a quick model can read."""
    return (
        isinstance(x, Tensor) and x.ndim > 1 and (x.is_floating_point() or (x.dtype == torch.uint8 and x.ndim == 4))
    )


def by_quick_model(
    is_trusted: Tensor | None,
    targets: Tensor | None,
    place: Tensor | None,
    x: Tensor | None,
    progress: OnProgress = silent,
) -> Tensor | None:
    """(n,) losses of the samples at ``place`` (k,) with inputs x (k, d), by quick models; nan elsewhere.

    None where the inputs or the targets do not suit one.
    """
    if is_trusted is None or targets is None or place is None or x is None or bool(is_trusted.all()):
        return None
    unseen = torch.full((len(is_trusted),), torch.nan)
    unseen[place] = comparable_losses(x, targets[place], is_trusted[place], progress)
    return unseen


def first_losses(early: Tensor, seen_steps: Tensor, seen_samples: Tensor) -> Tensor:
    """(n,) the losses of the first epoch, on the CPU; nan if it has fewer than ``EARLY_STEPS`` steps.

    Later ones are of a network that knows the trusted samples better than others.
    """
    long = len(early) * int(seen_steps) >= EARLY_STEPS * int(seen_samples)
    return early.cpu() if long else torch.full_like(early, torch.nan).cpu()


def losses_at(place: Any, losses: Tensor, targets: Tensor | None) -> Losses | None:
    """The losses of the trusted samples at ``place``, from those of all samples (n,); None if there is none."""
    own = losses[place].double()
    known = own.isfinite()
    classes = targets is not None and not targets.is_floating_point()
    given = targets[: len(losses)][place][known].long().numpy() if targets is not None and classes else None
    return Losses(own[known].numpy(), given) if len(own) else None


def trusted_in_training(reweight: Any) -> Tensor | None:
    """(num_train,) which training samples are trusted ones; None if the trusted samples are not trained on."""
    val_set = getattr(getattr(reweight, "val_schedule", None), "dataset", None)
    if not isinstance(val_set, TrustedSamples):
        return None
    is_trusted = torch.zeros(len(reweight.weights), dtype=torch.bool)
    return is_trusted.index_fill_(0, val_set.index, True)


def _batches(loader: Any, index: list[Tensor], inputs: ChosenInputs, device: torch.device) -> Iterator[Any]:
    """Batches on the device without their indices, which are appended to ``index``; ``inputs`` keeps some inputs."""
    for batch in loader:
        found, rest = split_index(batch)
        index.append(found.long().cpu())
        inputs.add(rest[0] if isinstance(rest, tuple) else None, index[-1])
        yield map_tensors(lambda tensor: tensor.to(device), rest)
