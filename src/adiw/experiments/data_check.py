"""Checks of a data set before any training: class mix, duplicates, shift, number of trusted samples."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from adiw.data import ImageFiles, Samples
from adiw.experiments.splits import LEAST_HELD_OUT, Splits, small_side, without_augmentation
from adiw.reweighting.diagnostics.quick_model import (
    CHECKS,
    MOST_TRAIN,
    MOST_TRUSTED,
    STEP,
    draw_folds,
    features_of,
    out_of_fold_losses,
    standardised,
)
from adiw.reweighting.diagnostics.significance import (
    Distance,
    loss_distance,
    losses_needed,
    mix_distance,
    pairs_needed,
)
from adiw.reweighting.diagnostics.verdict import LEVEL
from adiw.reweighting.progress import OnProgress, counted, each, silent

DIGITS = 5  # of probabilities that are compared
GAINS = (0.02, 0.05, 0.1, 0.2)  # of the accuracy: the number of held-out samples that shows each is reported
DISAGREEMENT = 0.15  # share of samples on which two trained models differ; a common value for related models


@dataclass(frozen=True)
class Finding:
    """The result of one check: a sentence and its figures; ``warns`` if the data should be changed."""

    name: str
    warns: bool
    sentence: str
    figures: dict[str, Any]


def check_data(splits: Splits, hold_out: float, seed: int, progress: OnProgress = silent) -> list[Finding]:
    """The findings. A run holds out the share ``hold_out`` of the trusted samples.

    ``progress`` is called with what is done, how much so far, and of how many.
    """
    others = ~splits.is_trusted
    train = without_augmentation(splits.train.subset(others.nonzero().flatten()))
    generator = torch.Generator().manual_seed(seed)
    parts = [_sample(train, MOST_TRAIN, generator), _sample(splits.trusted, MOST_TRUSTED, generator)]
    x = standardised(torch.cat([features(part, progress) for part in parts]))
    is_trusted = torch.tensor([False, True]).repeat_interleave(torch.tensor([len(part) for part in parts]))
    fold, y = draw_folds(is_trusted, generator), torch.cat([part.y for part in parts])
    step = counted(progress, STEP, 2 * CHECKS[-1])
    losses = out_of_fold_losses(x, y, fold, generator, after_step=step)[-1]
    scores = out_of_fold_losses(x, is_trusted.long(), fold, generator, after_step=step)[-1]
    chance = torch.where(is_trusted, (-scores).exp(), 1 - (-scores).exp())  # of being trusted
    chance = chance.round(decimals=DIGITS)  # equal inputs have equal chances, but for rounding
    inputs = loss_distance(-chance[~is_trusted], -chance[is_trusted])
    if inputs.smaller:  # Held-out samples look a little less like their own kind by chance: that is no difference.
        inputs = replace(inputs, p_value=1.0)
    return [
        _class_mix(train.y, splits.trusted.y, splits.data.classes),
        _duplicates(train, splits.trusted, progress),
        _shift(
            "inputs",
            "their inputs",
            "check that the trusted ones are like the data on which the model is used",
            inputs,
        ),
        _labels(loss_distance(losses[~is_trusted], losses[is_trusted])),
        *_small_images(train),
        _enough(len(splits.trusted), hold_out),
    ]


def features(samples: Samples | ImageFiles, progress: OnProgress = silent) -> Tensor:
    """(n, d) inputs of the quick model."""
    if isinstance(samples, Samples):
        return features_of(samples.x)
    rows = each(range(len(samples)), progress, "reading, image")
    return torch.cat([features_of(samples[k][0][None]) for k in rows])


def _small_images(train: Samples | ImageFiles) -> list[Finding]:
    """Whether images are small for what they are scaled to."""
    side = small_side(train)
    if side is None or not isinstance(train, ImageFiles):
        return []
    text = f"images of {side} pixels are enlarged to {train.size}: --image-size {side} trains much faster"
    if train.augment:
        text += ". Random crops lose most of a small image, and flips change a class that depends on the direction: "
        text += "--no-augment keeps the images whole"
    return [Finding("small images", True, text, {"side": side, "size": train.size})]


def _sample(samples: Samples | ImageFiles, most: int, generator: torch.Generator) -> Samples | ImageFiles:
    index = torch.randperm(len(samples), generator=generator)[:most].sort().values
    return samples.subset(index)


def _class_mix(train: Tensor, trusted: Tensor, classes: tuple[str, ...]) -> Finding:
    counts = [torch.bincount(labels, minlength=len(classes)) for labels in (train, trusted)]
    found = mix_distance(counts[0].double(), counts[1])
    shares = [(100 * count.double() / count.sum()).tolist() for count in counts]
    missing = [name for name, a, b in zip(classes, *counts, strict=True) if int(a) and not int(b)]
    figures = {**asdict(found), "train": shares[0], "trusted": shares[1], "missing": missing}
    words = _words(found)
    text = f"training and trusted samples do not differ significantly in their class mix ({words})"
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        names = f"no trusted sample is of class {', '.join(missing[:5])}{more}"
        text = f"{names}: add trusted samples of each class that matters ({words})"
    elif found.p_value < LEVEL:
        text = f"the trusted samples have another class mix than the training samples ({words}): the weights will "
        text += "follow it, so check that it is that of the data on which the model is used"
    return Finding("class mix", bool(missing) or found.p_value < LEVEL, text, figures)


def _duplicates(train: Samples | ImageFiles, trusted: Samples | ImageFiles, progress: OnProgress) -> Finding:
    label_of: dict[bytes, set[int]] = {}
    for digest, label in zip(_digests(trusted, progress), trusted.y.tolist(), strict=True):
        label_of.setdefault(digest, set()).add(label)
    pairs = [(digest, label) for digest, label in zip(_digests(train, progress), train.y.tolist(), strict=True)]
    copies = [label in label_of[digest] for digest, label in pairs if digest in label_of]
    figures = {"copies": len(copies), "other_label": copies.count(False)}
    text = "no training sample is an exact copy of a trusted sample"
    if copies:
        repeat = "training sample repeats" if len(copies) == 1 else "training samples repeat"
        text = f"{len(copies):,} {repeat} a trusted sample exactly, {copies.count(False):,} with another label"
        text += ": remove the copies, or held-out samples are trained on and their accuracy is too high"
    return Finding("duplicates", bool(copies), text, figures)


def _digests(samples: Samples | ImageFiles, progress: OnProgress) -> list[bytes]:
    """A digest of the content of each sample, without its label."""
    if isinstance(samples, ImageFiles):
        files = each(samples.paths, progress, "comparing, image")
        return [hashlib.sha256(path.read_bytes()).digest() for path in files]
    return [hashlib.sha256(row.tobytes()).digest() for row in samples.x.contiguous().numpy()]


def _labels(found: Distance) -> Finding:
    """Wrong labels make the losses of a quick model larger."""
    advice = "some training labels are probably wrong, which is what the weights are for"
    if found.smaller:
        advice = "trusted labels fit less well than the others: check them, or the trusted samples are harder ones"
    return _shift("labels", "how well a quick model predicts their labels", advice, found)


def _shift(name: str, what: str, advice: str, found: Distance) -> Finding:
    figures = {**asdict(found), "needed": losses_needed(found.distance, LEVEL)}
    if found.p_value < LEVEL:
        text = f"training and trusted samples differ in {what} ({_words(found)}): {advice}"
        return Finding(name, True, text, figures)
    text = f"training and trusted samples do not differ significantly in {what} ({_words(found)})"
    needed = f"a difference of this size would be seen with about {figures['needed']:,} trusted samples"
    return Finding(name, False, f"{text}: {needed}", figures)


def _words(found: Distance) -> str:
    return f"distance {found.distance:.2f}, p {'< 0.001' if found.p_value < 0.001 else f'= {found.p_value:.2g}'}"


def _enough(trusted: int, hold_out: float) -> Finding:
    """What gain of accuracy the held-out samples can show."""
    share = round(hold_out * trusted)
    held_out = share if share >= LEAST_HELD_OUT else 0
    needed = {gain: pairs_needed(gain, DISAGREEMENT) for gain in GAINS}
    shown = next((gain for gain in GAINS if needed[gain] <= held_out), None)
    figures = {"held_out": held_out, "needed": {f"{100 * gain:g}": count for gain, count in needed.items()}}
    counts = ", ".join(f"{count:,} for {100 * gain:g} points" for gain, count in needed.items())
    enough = "too few to show a gain of 20" if shown is None else f"enough to show a gain of {100 * shown:g}"
    text = f"{held_out} of {trusted} are held out, {enough} points over another method"
    if held_out == 0:
        text = f"none of {trusted} is held out, as {hold_out:.0%} would be fewer than {LEAST_HELD_OUT}"
    return Finding(
        "trusted samples",
        shown is None,
        f"{text}. Held-out samples needed: {counts}. adiw run --compare --folds 5 holds out each trusted sample once",
        figures,
    )
