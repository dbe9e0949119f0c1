"""The verdict on a training: is there a shift, do the weights remove it, and is the model better for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from adiw.argument_checks import kind_of
from adiw.reweighting.diagnostics.alarm_checks import trusted_predictions
from adiw.reweighting.diagnostics.alarms import Alarm
from adiw.reweighting.diagnostics.evaluation_pass import EvaluatedSamples, evaluate_dataset
from adiw.reweighting.diagnostics.significance import (
    CONFIDENCE,
    Interval,
    loss_distance,
    mix_distance,
    paired_means,
    paired_rates,
)
from adiw.reweighting.progress import OnProgress, silent
from adiw.reweighting.sample_record import SampleRecord

if TYPE_CHECKING:
    from adiw.reweighting.adiw import ADIW

LEVEL = 0.01  # chance to find a shift where there is none
Answer = Literal["helps", "does no good", "cannot tell", "not compared"]
HOW_TO_COMPARE = (
    "hold out trusted samples and compare with other models on them: adiw run --compare, or in a loop "
    "reweight.verdict(references={'uniform': model}, held_out=data_set)"
)


@dataclass(frozen=True)
class Shift:
    """How far the training samples are from the trusted ones, by the more significant of two tests.

    ``test`` is "losses" (Kolmogorov-Smirnov distance of early losses) or "class mix" (half the L1 distance of the
    class shares, chi-square test). The p-value accounts for both tests. ``found`` is None where none was possible.
    """

    found: bool | None
    test: str | None = None
    distance: float | None = None
    p_value: float | None = None
    n_trusted: int = 0
    smaller: bool = False  # whether the training losses are smaller than the trusted ones, in their test


@dataclass(frozen=True)
class Comparison:
    """The model against a reference on held-out samples: ``difference`` above zero is in favour of the model.

    Accuracies and their differences are in percent; for a regression the score is the mean loss. ``low`` to ``high``
    is the 95% interval; those of all references but the first hold together. ``needed`` is the number of samples that
    would show a difference of this size.
    """

    method: str
    score: float
    difference: float
    low: float
    high: float
    n: int
    needed: int

    @property
    def sign(self) -> int:
        """1 if the model is better than the reference, -1 if it is worse, 0 if neither is significant."""
        return (self.low > 0) - (self.high < 0)


@dataclass(frozen=True)
class Verdict:
    """One sentence with figures, and the figures. ``str(verdict)`` is the sentence, with a line for each alarm."""

    sentence: str
    answer: Answer
    shift: Shift
    after: Shift | None  # the same test with weights; None without a shift
    score: float | None  # of the model on the held-out samples
    comparison: list[Comparison] | None
    alarms: tuple[Alarm, ...] = ()  # a network that has collapsed, where held-out samples were passed

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; "alarms" only where there are some: runs of the command have their own."""
        return {name: value for name, value in asdict(self).items() if name != "alarms" or value}

    def __str__(self) -> str:
        return "\n".join([self.sentence, *map(str, self.alarms)])


def verdict_of(
    method: ADIW, references: Mapping[str, nn.Module] | None, held_out: Any, progress: OnProgress = silent
) -> Verdict:
    """The verdict on a training loop, see ``adiw.ADIW.verdict``."""
    if references is not None and not (isinstance(references, Mapping) and references):
        raise TypeError(f"references must map names to models, got {kind_of(references)}")
    if references and held_out is None:
        raise ValueError(
            "references are compared on held-out samples: pass held_out=data_set, trusted samples that no model "
            "was trained on"
        )
    trusted = trusted_predictions(method)
    rows = method.val_schedule.batch_size
    shift, after = find_shift(
        method.record, method.weights, None if trusted is None else trusted[0][trusted[0] >= 0], rows
    )
    if held_out is None:
        return make_verdict(shift, after)

    def tell(name: str) -> OnProgress:
        return lambda what, done, total: progress(f"{name}: {what}", done, total)

    def evaluated(name: str, model: Any) -> EvaluatedSamples:
        return evaluate_dataset(method.evaluator, model, held_out, progress=tell(name))

    own = evaluated("model", method.evaluator.model)
    others = {name: evaluated(name, model) for name, model in (references or {}).items()}
    if own.right is None:
        compared = compare_losses(own.losses, {name: other.losses for name, other in others.items()})
        return make_verdict(shift, after, float(own.losses.double().mean()), compared or None, "mean loss")
    right = {name: other.right for name, other in others.items() if other.right is not None}
    compared = compare_rates(own.right, right)
    found = method.alarm_checks.check_held_out(method, own, trusted, tell("training samples"))
    made = make_verdict(shift, after, 100 * float(own.right.double().mean()), compared or None)
    return replace(made, alarms=found)


def find_shift(
    record: SampleRecord, weights: Tensor, trusted: Tensor | None, num_trusted: int
) -> tuple[Shift, Shift | None]:
    """The shift before weights, and with the weights (num_train,) if there is one.

    trusted: (m,) labels of trusted samples, None if unknown; num_trusted: trusted losses that losses were compared
        with, where the trusted samples are not part of the training set.
    """
    losses, weights, known = record.early_losses(num_trusted), weights.detach().cpu(), record.known().cpu()
    labels = record.labels[:-1].cpu()[known].long()

    def tests(w: Tensor) -> dict[str, Any]:
        found = {}
        if losses is not None:
            found["losses"] = loss_distance(losses[0].cpu(), losses[1].cpu(), w)
        if trusted is not None and len(trusted) and len(labels):
            classes = 1 + int(max(labels.max(), trusted.max()))
            shares = torch.bincount(labels, w[known].double(), minlength=classes)
            found["class mix"] = mix_distance(shares, torch.bincount(trusted.long(), minlength=classes))
        return found

    before = tests(torch.ones_like(weights))
    if not before:
        return Shift(None), None
    count = num_trusted if losses is None else len(losses[1])
    shift = _most_significant(before, count)
    if not shift.found or shift.test is None:
        return shift, None
    after = tests(weights)
    left = _most_significant(after, count)
    # Where no difference is left, the distance that was found before is the one to compare with.
    return shift, left if left.found else replace(left, test=shift.test, distance=after[shift.test].distance)


def _most_significant(found: dict[str, Any], count: int) -> Shift:
    test = min(found, key=lambda name: found[name].p_value)
    p_value = min(1.0, len(found) * found[test].p_value)
    return Shift(p_value < LEVEL, test, found[test].distance, p_value, count, found[test].smaller)


def compare_rates(own: Tensor, others: Mapping[str, Tensor]) -> list[Comparison]:
    """Compare with references by the correct predictions (n,) of each model on the same samples.

    >>> compare_rates(torch.arange(50) < 45, {"uniform": torch.arange(50) < 30})[0].sign
    1
    """
    return _compare(lambda other, confidence: paired_rates(own, other, confidence), others, 100)


def compare_losses(own: Tensor, others: Mapping[str, Tensor]) -> list[Comparison]:
    """Compare with references by the losses (n,) of each model on the same samples.

    >>> compare_losses(torch.zeros(9), {"uniform": torch.ones(9)})[0].difference
    1.0
    """
    return _compare(lambda other, confidence: paired_means(other.double() - own.double(), confidence), others, 1)


def _compare(
    interval: Callable[[Tensor, float], Interval], others: Mapping[str, Tensor], unit: float
) -> list[Comparison]:
    """The first reference decides whether the weights help, so its interval has the whole confidence.

    Each of the others can only show that the weights do no good. Their intervals hold together, by Bonferroni: with
    several of them, one would otherwise be better by chance in more than 5% of the cases.
    """
    compared = []
    for position, (name, other) in enumerate(others.items()):
        confidence = 1 - (1 - CONFIDENCE) / (1 if position == 0 else len(others) - 1)
        found = interval(other, confidence)
        difference, low, high = (unit * value for value in (found.difference, found.low, found.high))
        score = unit * float(other.double().mean())
        compared.append(Comparison(name, score, difference, low, high, found.n, found.needed))
    return compared


def answer_of(comparison: list[Comparison] | None) -> Answer:
    """Better than the first reference, what one would do without weights, and not worse than any: it helps.

    Worse than one of them: it does no good, since that one is simpler.
    """
    if not comparison:
        return "not compared"
    if any(each.sign < 0 for each in comparison):
        return "does no good"
    return "helps" if comparison[0].sign > 0 else "cannot tell"


def make_verdict(
    shift: Shift,
    after: Shift | None,
    score: float | None = None,
    comparison: list[Comparison] | None = None,
    measure: str = "accuracy",
) -> Verdict:
    """The verdict from its three answers; ``score`` is that of the model on the held-out samples."""
    answer = answer_of(comparison)
    begin = {
        "helps": "The weights help",
        "does no good": "The weights do no good",
        "cannot tell": "Cannot tell whether the weights help",
        "not compared": "Whether the weights help was not measured",
    }[answer]
    parts = [_shift_words(shift, after)]
    if comparison and score is not None:
        parts.insert(0, _comparison_words(score, comparison, measure))
    elif score is not None:
        parts.insert(0, f"{measure} {_number(score, measure)} on held-out samples, without a model to compare with")
    if not comparison:
        parts.append(HOW_TO_COMPARE)
    return Verdict(f"{begin}: {'; '.join(parts)}.", answer, shift, after, score, comparison)


def _comparison_words(score: float, comparison: list[Comparison], measure: str) -> str:
    unit = " points" if measure == "accuracy" else ""
    differences = ", ".join(
        f"{_signed(each.difference)}{unit} compared with {each.method} ({_signed(each.low)} to {_signed(each.high)})"
        for each in comparison
    )
    better = "" if measure == "accuracy" else " (differences above zero favour the weights)"
    words = f"{measure} {_number(score, measure)} on {comparison[0].n} held-out samples{better}, {differences}"
    open_ones = [each.needed - each.n for each in comparison if not each.sign]
    intervals = "with 95% intervals" if len(comparison) > 1 else "with its 95% interval"
    if answer_of(comparison) != "cannot tell":
        return f"{words}, {intervals}"
    return f"{words}, {intervals}: about {max(open_ones[0], 1):,} more held-out trusted samples would be needed"


def _shift_words(shift: Shift, after: Shift | None) -> str:
    if shift.found is None or shift.distance is None or shift.p_value is None:
        return "whether trusted and training samples differ was not tested"
    figures = f"distance {shift.distance:.2f}, p {_p(shift.p_value)}"
    if not shift.found:
        return f"no difference between training and trusted samples was found ({shift.test}: {figures})"
    words = f"training and trusted samples differ in their {shift.test} ({figures})"
    if after is None or after.distance is None or after.p_value is None:
        return words
    left = f"distance {after.distance:.2f}, p {_p(after.p_value)}"
    if not after.found:
        return f"{words}, and no difference is left with the weights ({left})"
    if after.test != shift.test:
        return f"{words}, and with the weights in their {after.test} ({left})"
    if after.smaller and not shift.smaller:
        return (
            f"{words}, which the weights turn round: weighted training losses are smaller than trusted ones ({left})"
        )
    reduced = round(after.distance, 2) < round(shift.distance, 2)
    return f"{words}, which the weights {'reduce' if reduced else 'do not remove'} ({left})"


def _number(score: float, measure: str) -> str:
    return f"{score:.1f}%" if measure == "accuracy" else f"{score:.4g}"


def _signed(value: float) -> str:
    return f"{value:+.1f}" if abs(value) >= 1 else f"{value:+.2g}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"
