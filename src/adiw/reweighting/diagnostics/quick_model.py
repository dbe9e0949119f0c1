"""A small network that is trained out of fold: losses by which training and trusted samples can be compared.

The network of a training has learned each sample's label, and trusted samples better than others, since their weights
are larger: its losses of the two do not compare. Here no loss of a sample is by a model that was trained on it, and
trusted samples are treated as all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn.functional import adaptive_avg_pool2d, cross_entropy, smooth_l1_loss

from adiw.matching.loss_ranks import rank_weights
from adiw.reweighting.progress import OnProgress, counted, silent

FOLDS, BATCH, HIDDEN = 5, 256, 64
CHECKS = (20, 60, 150, 300)  # numbers of steps after which held-out samples are evaluated
ROUNDS = 3  # of ``comparable_losses``
MOST_TRAIN, MOST_TRUSTED = 5000, 2000  # samples that it is trained on
SIDE = 8  # pixels of the sides of its images
WIDEST = 512  # columns: more are projected to so many
STEP = "quick model, step"
MOST_SHARED = 16  # results of ``comparable_losses`` that are kept
_shared: dict[bytes, Tensor] = {}


def features_of(x: Tensor) -> Tensor:
    """(n, d) float32 inputs of a quick model; images (n, c, h, w) are reduced to ``SIDE`` x ``SIDE`` pixels."""
    return projected((adaptive_avg_pool2d(x.float(), SIDE) if x.ndim == 4 else x.float()).flatten(1), WIDEST)


def projected(x: Tensor, most: int) -> Tensor:
    """A random projection (n, most) of more columns, which about preserves distances; fewer stay as they are."""
    size = x.shape[1]
    if size <= most:
        return x
    drawn = torch.randn(size, most, generator=Generator().manual_seed(size)) / most**0.5
    found: Tensor = x @ drawn.to(x)
    return found


def standardised(x: Tensor) -> Tensor:
    """Columns with mean zero and standard deviation one; those that do not vary, or are not finite, are zero."""
    x = x.nan_to_num(0, 0, 0)
    return (x - x.mean(0)) / x.std(0).clamp_min(1e-6)


def draw_samples(is_trusted: Tensor) -> Tensor:
    """Positions of at most MOST_TRUSTED trusted samples, and of at most MOST_TRAIN others, in order.

    >>> draw_samples(torch.tensor([False, True, False]))
    tensor([0, 1, 2])
    """
    generator, found = Generator().manual_seed(0), []
    for member, most in ((is_trusted, MOST_TRUSTED), (~is_trusted, MOST_TRAIN)):
        place = member.nonzero().flatten()
        found.append(place[torch.randperm(len(place), generator=generator)[:most]])
    return torch.cat(found).sort().values


def comparable_losses(x: Tensor, y: Tensor, is_trusted: Tensor, progress: OnProgress = silent) -> Tensor:
    """(n,) the loss of each sample, of classes or numbers y (n,), by a quick model that was not trained on it.

    From the second round on, samples count with the weight of the rank of their last loss, trusted ones as all
    others, and the number of steps is the one that is best for the held-out trusted samples. Trainings of this
    process on the same samples, such as those of a sweep, share the result.
    """
    digest = hashlib.blake2b()
    for part in (x, y, is_trusted):
        digest.update(f"{part.dtype} {part.shape}".encode() + part.contiguous().numpy().tobytes())
    key = digest.digest()
    if key not in _shared:
        if len(_shared) == MOST_SHARED:
            del _shared[next(iter(_shared))]  # the oldest
        _shared[key] = _comparable_losses(x, y, is_trusted, progress)
    return _shared[key].clone()


def _comparable_losses(x: Tensor, y: Tensor, is_trusted: Tensor, progress: OnProgress) -> Tensor:
    x, generator = standardised(x), Generator().manual_seed(0)
    weights, after_step = torch.ones(len(x)), counted(progress, STEP, ROUNDS * CHECKS[-1])
    for _ in range(ROUNDS):
        fold = draw_folds(is_trusted, generator)
        found = out_of_fold_losses(x, y, fold, generator, weights, after_step)
        losses = found[int(found[:, is_trusted].mean(1).argmin())]
        weights = rank_weights(losses[~is_trusted], losses[is_trusted]).at(losses)
    return losses


def draw_folds(is_trusted: Tensor, generator: Generator) -> Tensor:
    """(n,) the fold of each sample; each has its share of the trusted samples."""
    fold = torch.zeros(len(is_trusted), dtype=torch.long)
    for member in (is_trusted, ~is_trusted):
        fold[member] = torch.randperm(int(member.sum()), generator=generator) % FOLDS
    return fold


def out_of_fold_losses(
    x: Tensor,
    y: Tensor,
    fold: Tensor,
    generator: Generator,
    weights: Tensor | None = None,
    after_step: Callable[[], None] = lambda: None,
) -> Tensor:
    """(len(CHECKS), n) the losses of samples x (n, d) after these numbers of steps, each by a model of other folds.

    The loss is the cross-entropy of classes y (n,), or Huber's of numbers in units of their mean deviation. All
    models are trained together. ``after_step`` is called after each of CHECKS[-1] steps.
    """
    if y.is_floating_point():
        y = y.float() - y.float().median()
        y = y / y.abs().mean().clamp_min(1e-12)
    weights = torch.ones(len(x)) if weights is None else weights
    outputs = 1 if y.is_floating_point() else 1 + int(y.max())
    parameters = [
        _uniform((FOLDS, rows, columns), size, generator).requires_grad_()
        for size, columns in ((x.shape[1], HIDDEN), (HIDDEN, outputs))
        for rows in (size, 1)
    ]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.1)
    own = [(fold == number).nonzero().flatten() for number in range(FOLDS)]
    others = torch.nn.utils.rnn.pad_sequence([(fold != number).nonzero().flatten() for number in range(FOLDS)], True)
    sizes = torch.tensor([[len(x) - len(rows)] for rows in own])
    losses = torch.zeros(len(CHECKS), len(x))
    for step in range(1, CHECKS[-1] + 1):
        position = torch.rand((FOLDS, min(BATCH, len(x))), generator=generator) * sizes
        index = others.gather(1, position.long().minimum(sizes - 1))
        with torch.enable_grad():
            optimizer.zero_grad()
            found = _losses(_forward(x[index], parameters), y[index])
            (weights[index] * found).mean(1).sum().backward()
        optimizer.step()
        if step in CHECKS:
            with torch.no_grad():
                for number, rows in enumerate(own):
                    outputs_of_fold = _forward(x[rows], [parameter[number] for parameter in parameters])
                    losses[CHECKS.index(step), rows] = _losses(outputs_of_fold, y[rows])
        after_step()
    return losses


def _uniform(shape: tuple[int, ...], inputs: int, generator: Generator) -> Tensor:
    """The usual start of a linear layer."""
    drawn: Tensor = (2 * torch.rand(shape, generator=generator) - 1) / inputs**0.5
    return drawn


def _forward(x: Tensor, parameters: list[Tensor]) -> Tensor:
    first, first_bias, second, second_bias = parameters
    outputs: Tensor = (x @ first + first_bias).relu() @ second + second_bias
    return outputs


def _losses(outputs: Tensor, y: Tensor) -> Tensor:
    if y.is_floating_point():
        found: Tensor = smooth_l1_loss(outputs[..., 0], y, reduction="none")
    else:
        found = cross_entropy(outputs.movedim(-1, 1), y.long(), reduction="none")
    return found
