"""Losses of any shape: one for each sample, or one for each of its elements (tokens, pixels, labels, boxes)."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from adiw.argument_checks import kind_of

Criterion = Callable[[Any, Any], Any]
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
MOST_CLASSES = 20  # of elements, for elements to be compared within their class


class SampleLosses(NamedTuple):
    """One loss per sample: the mean over its elements."""

    losses: Tensor  # (n,), nan for a sample without any element that counts
    sizes: Tensor | None  # (n,) how many elements count; None where that is the same for all samples

    def mean(self) -> Tensor:
        """The mean over all elements that count, a scalar."""
        if self.sizes is None:
            return self.losses.mean()
        known = torch.where(self.sizes > 0, self.losses, 0)
        return torch.dot(known, self.sizes) / self.sizes.sum().clamp_min(1)


class ElementLosses(NamedTuple):
    """One loss per element of each sample."""

    losses: Tensor  # (n, ...)
    counted: Tensor | None  # (n, ...) booleans: false for padding and ignored elements; None if all count

    def by_sample(self) -> SampleLosses:
        """The mean loss of each sample."""
        losses, counted = self
        if losses.ndim == 1:
            if counted is None:
                return SampleLosses(losses, None)
            return SampleLosses(torch.where(counted, losses, torch.nan), counted.to(losses.dtype))
        losses, counted = self.by_row()
        if counted is None:
            return SampleLosses(losses.mean(1), None)
        sizes = counted.sum(1)
        means = torch.where(counted, losses, 0).sum(1) / sizes.clamp_min(1)
        return SampleLosses(torch.where(sizes > 0, means, torch.nan), sizes.to(losses.dtype))

    def by_row(self) -> tuple[Tensor, Tensor | None]:
        """Losses and ``counted``, (n, number of elements)."""
        n = len(self.losses)
        return self.losses.reshape(n, -1), None if self.counted is None else self.counted.reshape(n, -1)


class CriterionLosses(NamedTuple):
    """What a criterion returned for a batch, before it is decided which elements count."""

    losses: Tensor  # (n, ...)
    counted: Tensor | None  # (n, ...) the mask that it returned; None without one
    ignored: int | None  # the target that does not count, where targets are (n, ...)

    def elements(self, targets: Any) -> ElementLosses:
        """The losses, and which of them count."""
        return ElementLosses(self.losses, self.counted if self.ignored is None else targets != self.ignored)


def element_losses(criterion: Criterion, outputs: Any, targets: Any) -> ElementLosses:
    """``criterion_losses``, and which of them count.

    >>> found = element_losses(torch.nn.CrossEntropyLoss(reduction="none"), torch.zeros(1, 2, 3),
    ...                        torch.tensor([[0, 1, -100]]))
    >>> found.counted
    tensor([[ True,  True, False]])
    >>> found.by_sample()
    SampleLosses(losses=tensor([0.6931]), sizes=tensor([2.]))
    """
    return criterion_losses(criterion, outputs, targets).elements(targets)


def criterion_losses(criterion: Criterion, outputs: Any, targets: Any) -> CriterionLosses:
    """criterion(outputs, targets), checked to be losses (n, ...).

    A criterion may also return a pair (losses, mask), with a mask of the same shape that is true for elements that
    count, or a list of n tensors of any length. For a loss of PyTorch with ``ignore_index``, ignored targets do not
    count.

    A tensor of outputs is passed as float32, outside of any autocast: bf16 logits change a loss by as much as the
    width of a narrow kernel. Other outputs (mappings, objects) are passed unchanged.
    """
    if isinstance(outputs, Tensor):
        half = outputs.dtype in (torch.bfloat16, torch.float16)
        with no_autocast(outputs.device.type):
            returned = criterion(outputs.float() if half else outputs, targets)
    else:
        returned = criterion(outputs, targets)
    losses, counted, ignored = _with_mask(returned, criterion, targets)
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        raise TypeError(f"criterion must return a floating-point tensor of losses (n, ...), got {kind_of(losses)}")
    if losses.ndim == 0:
        raise ValueError(
            'criterion returned a scalar; expected one loss per sample or element: build it with reduction="none"'
        )
    if losses.shape[0] == 0 or (losses.numel() == 0 and counted is None and ignored is None):
        raise ValueError(f"the batch is empty, losses have shape {tuple(losses.shape)}: there is no loss to weight")
    return CriterionLosses(losses if losses.dtype == torch.float64 else losses.float(), counted, ignored)


def sample_losses(criterion: Criterion, outputs: Any, targets: Any) -> SampleLosses:
    """The mean loss of each sample over its elements that count."""
    return criterion_losses(criterion, outputs, targets).elements(targets).by_sample()


def per_sample_losses(criterion: Criterion, outputs: Any, targets: Any) -> Tensor:
    """One loss per sample, (n,), in float32 or better: the mean over its elements.

    >>> per_sample_losses(torch.nn.CrossEntropyLoss(), torch.zeros(2, 3), torch.tensor([0, 1]))
    Traceback (most recent call last):
    ValueError: criterion returned a scalar; expected one loss per sample or element: build it with reduction="none"
    """
    found = criterion_losses(criterion, outputs, targets).elements(targets)
    if found.losses.ndim > 1 or found.counted is None:
        return found.by_sample().losses
    return torch.where(found.counted, found.losses, torch.nan)


class DrawnElements(NamedTuple):
    """Some elements of each sample."""

    losses: Tensor  # (n, number), nan behind the last element of a sample
    classes: Tensor | None  # (n, number) int64, -1 for elements without a class; None without classes
    drawn: Tensor  # (n, number) booleans: which of them are elements


def draw_evenly(losses: Tensor, counted: Tensor | None, number: int, classes: Tensor | None = None) -> DrawnElements:
    """At most ``number`` elements that count of each row of losses (n, e) and classes (n, e), spread evenly.

    All elements of a batch are drawn with about the same probability: a row with fewer elements than the longest has
    fewer here. They are those with the smallest multiples of the golden ratio modulo one, which fill the interval
    evenly and, unlike equal distances, do not follow the rows of an image.

    >>> found = draw_evenly(torch.arange(8.0).reshape(2, 4), None, 2)
    >>> found.losses
    tensor([[1., 3.],
            [4., 6.]])
    """
    n, e = losses.shape
    keys = (torch.arange(1, n * e + 1, device=losses.device) * GOLDEN_RATIO).remainder(1).reshape(n, e)
    if counted is not None:
        keys, most = torch.where(counted, keys, torch.inf), counted.sum(1).max()
    found, column = keys.topk(min(number, e), largest=False)
    drawn = found < (number / e if counted is None else number / most)
    losses = torch.where(drawn, losses.gather(1, column), torch.nan)
    classes = None if classes is None else torch.where(drawn, classes.gather(1, column), -1)
    behind = (0, number - drawn.shape[1])
    return DrawnElements(
        pad(losses, behind, value=torch.nan),
        None if classes is None else pad(classes, behind, value=-1),
        pad(drawn, behind),
    )


def element_classes(outputs: Any, targets: Any, losses: Tensor) -> tuple[Tensor, int] | None:
    """(class of each element (n, ...), number of classes); None where targets are not classes.

    Integer targets are classes where the outputs have one score for each class, (n, C, ...) or (n, ..., C), and there
    are at most MOST_CLASSES, of which a batch has enough elements to compare. Among other targets, zeros and ones are
    two classes, as those of a binary cross-entropy; the rest has the class -1.

    >>> element_classes(torch.zeros(1, 4, 2), torch.tensor([[3, 0]]), torch.zeros(1, 2))
    (tensor([[3, 0]]), 4)
    >>> element_classes(torch.zeros(1, 2), torch.tensor([[1.0, 0.5]]), torch.zeros(1, 2))
    (tensor([[ 1, -1]]), 2)
    """
    if not (isinstance(outputs, Tensor) and isinstance(targets, Tensor) and targets.shape == losses.shape):
        return None
    if targets.is_floating_point():
        return torch.where((targets == 0) | (targets == 1), targets, -1).long(), 2
    for axis in (1, -1):
        scores = outputs.movedim(axis, -1) if outputs.ndim == targets.ndim + 1 else outputs
        if scores.shape[:-1] == targets.shape and scores.shape[-1] <= MOST_CLASSES:
            return targets.long(), scores.shape[-1]
    return None


def nearest(
    known: Tensor, values: Tensor, at: Tensor, known_class: Tensor | None = None, at_class: Tensor | None = None
) -> Tensor:
    """For each of ``at`` (e,) the value of the known loss that is nearest to it, from (r,) losses and values.

    With classes, it is the nearest one of the same class, if one is known. Known losses that are not finite are used
    only where no other is known.

    >>> nearest(torch.tensor([3.0, torch.nan, 1.0]), torch.tensor([30.0, 0.0, 10.0]), torch.tensor([0.0, 1.9, 9.0]))
    tensor([10., 10., 30.])
    """
    if not len(at):
        return values[:0]
    known = torch.where(known.isfinite(), known, torch.inf)
    if known_class is not None and at_class is not None:  # shifted apart by class
        low, high = (x.where(x.isfinite(), 0).double() for x in (known, at))
        apart = 2 * (torch.maximum(low.amax(), high.amax()) - torch.minimum(low.amin(), high.amin())) + 1
        known, at = known.double() + apart * known_class, at.double() + apart * at_class
    ordered, order = known.sort(stable=True)
    above = torch.searchsorted(ordered, at.to(ordered.dtype).contiguous()).clamp_max(len(ordered) - 1)
    below = (above - 1).clamp_min(0)
    return values[order[torch.where(ordered[above] - at < at - ordered[below], above, below)]]


def no_autocast(device_type: str) -> AbstractContextManager[Any]:
    # torch.compile cannot trace ``is_autocast_available`` in all supported versions.
    available = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device_type)
    enabled = available and torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, enabled=False) if enabled else nullcontext()


def _with_mask(returned: Any, criterion: Criterion, targets: Any) -> tuple[Any, Tensor | None, int | None]:
    """The fields of ``CriterionLosses`` from what a criterion returned."""
    if isinstance(returned, list):
        return *_stack(returned), None
    if isinstance(returned, tuple):
        losses, mask = returned if len(returned) == 2 else (None, None)
        if not (isinstance(losses, Tensor) and isinstance(mask, Tensor) and losses.shape == mask.shape):
            got = ", ".join(map(kind_of, returned))
            raise TypeError(f"a criterion that returns a pair must return (losses, mask) of one shape, got ({got})")
        return losses, mask.bool(), None
    ignored = getattr(criterion, "ignore_index", None)
    labels = isinstance(targets, Tensor) and not targets.is_floating_point()
    if isinstance(ignored, int) and labels and isinstance(returned, Tensor) and targets.shape == returned.shape:
        return returned, None, ignored
    return returned, None, None


def _stack(parts: list[Any]) -> tuple[Tensor, Tensor]:
    """(losses (n, longest), which of them exist) from the losses of each sample, of any shape."""
    if not parts or not all(isinstance(part, Tensor) and part.is_floating_point() for part in parts):
        raise TypeError("a criterion that returns a list must return one floating-point tensor for each sample")
    flat = [part.reshape(-1) for part in parts]
    sizes = torch.tensor([len(part) for part in flat])
    losses = pad_sequence(flat, batch_first=True)
    return losses, (torch.arange(losses.shape[1]) < sizes[:, None]).to(losses.device)
