"""The alarms of a training loop, checked in each call of ``summary``, and in ``verdict`` on held-out samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from adiw.argument_checks import kind_of
from adiw.matching.weight_limits import effective_sample_size
from adiw.reweighting.diagnostics import alarms, alarms_by_class
from adiw.reweighting.diagnostics.alarms import Alarm
from adiw.reweighting.diagnostics.collapse_in_training import collapse_in_training, training_predictions
from adiw.reweighting.diagnostics.evaluation_pass import EvaluatedSamples, evaluate_dataset
from adiw.reweighting.progress import OnProgress
from adiw.reweighting.sample_record import EARLY_STEPS
from adiw.reweighting.summary import Groups, Summary, group_rows
from adiw.user_code import warn_user

if TYPE_CHECKING:
    from adiw.reweighting.adiw import ADIW

Labelled = tuple[Tensor, Tensor]  # labels and predicted classes of the same samples, (m,)
MOST_SUMMARIES = 64  # whose accuracies are kept: of more, every second is dropped
MOST_TRUSTED = 256  # trusted samples that a summary evaluates, where they are not trained on


class AlarmChecks:
    """The accuracies at earlier summaries, and the alarms that were raised. It is not part of the method's state."""

    def __init__(self) -> None:
        self.followed: Tensor | None = None  # (m,) booleans: trusted samples with a prediction at the first summary
        self.right: list[Tensor] = []  # booleans at each summary: which of those were predicted correctly
        self.train_accuracy: list[float] = []
        self.raised: set[str] = set()

    def check(self, method: ADIW, summary: Summary, bound: float | None, groups: Any = None) -> Summary:
        """The summary with its alarms, and the rows of each class and group. Warns of each alarm once."""
        found: list[Alarm] = []
        state = method.weight_state
        if state._past_warmup() is None or bool(state._past_warmup()):
            # Trusted samples may have half of all weight: whether few samples have the other half is asked here.
            others = method.weights[~method.record.is_trusted]
            ess = float(effective_sample_size(others.double())) if len(others) else summary.ess
            at = (summary.share_at_bound, bound)
            found += alarms.weight_alarms(ess, summary.mean, len(others) or state.num_train, *at)
            found += [] if method.estimator.last is None else alarms.objective_alarms(summary.objective)
        known = method.record.known()
        labels, predicted, weights = (
            x[known].cpu() for x in (method.record.labels[:-1], method.record.predicted[:-1], method.weights)
        )
        if len(labels) and summary.steps > EARLY_STEPS:
            found += self._class_alarms(method, labels, predicted, weights)
        tables = None
        if groups is not None:
            numbers, names = group_numbers(groups, state.num_train)
            tables = group_rows(method.weights.cpu(), method.record, numbers, names)
            if len(labels):
                strata = alarms_by_class.strata_of(labels, predicted)
                found += alarms_by_class.group_alarms(weights, numbers[known.cpu()], strata, names)
        self._warn(found)
        return replace(summary, alarms=tuple(found), groups=tables)

    def check_held_out(
        self, method: ADIW, held_out: EvaluatedSamples, trusted: Labelled | None, progress: OnProgress
    ) -> tuple[Alarm, ...]:
        """Whether the network has collapsed, from held-out samples, other ``trusted`` ones, and training samples."""
        if held_out.targets is None or held_out.predicted is None or method.weight_state.seen_steps <= EARLY_STEPS:
            return ()
        given, unseen = held_out.targets.long(), held_out.predicted.long()
        found = alarms.collapse(*alarms.class_counts(unseen, given), int((unseen == given).sum()))
        predicted = None if found else training_predictions(method, progress)
        if predicted is not None:
            unseen_given = given
            if trusted is not None:
                labels, shown = (x[trusted[0] >= 0].long() for x in trusted)
                given = torch.cat([given, labels])
                if not method.record.joined:  # their predictions are of samples that are not trained on
                    unseen, unseen_given = torch.cat([unseen, shown]), given
            found = collapse_in_training(predicted, given, unseen, unseen_given)
        self._warn(found)
        return tuple(found)

    def _warn(self, found: list[Alarm]) -> None:
        for alarm in found:
            if alarm.name not in self.raised:
                self.raised.add(alarm.name)
                warn_user(str(alarm))

    def _class_alarms(self, method: ADIW, labels: Tensor, predicted: Tensor, weights: Tensor) -> list[Alarm]:
        """Alarms from predicted classes, and from the weights of the classes."""
        trusted = trusted_predictions(method)
        if trusted is None:
            return []
        has_prediction = trusted[0] >= 0
        self.followed = has_prediction if self.followed is None else self.followed
        self.right.append((trusted[0] == trusted[1])[self.followed])
        self.train_accuracy.append(float((labels == predicted).double().mean()))
        if len(self.right) > MOST_SUMMARIES:
            del self.right[1::2], self.train_accuracy[1::2]
        given, trusted_predicted = (x[has_prediction] for x in trusted)
        found = alarms.prediction_alarms(trusted_predicted, given)
        found += alarms.memorising(torch.stack(self.right), self.train_accuracy)
        right = alarms_by_class.right_labels(labels, predicted, given, trusted_predicted)
        return found + alarms_by_class.class_alarms(weights, labels, predicted, given, right)


def trusted_predictions(method: ADIW) -> Labelled | None:
    """(labels, predicted classes) of trusted samples, (m,); None if unknown.

    Trusted samples that are trained on have those of their training passes, -1 before the first. Others are
    evaluated, in one process only: with several, the model may be sharded, and not all of them call ``summary``.
    """
    record, schedule = method.record, method.val_schedule
    if record.joined:
        labels, predicted = (x[:-1][record.is_trusted].cpu() for x in (record.labels, record.predicted))
        return (labels, predicted) if bool((labels >= 0).any()) else None
    processes = method.weight_state.processes
    if processes is None or processes.size > 1:
        return None
    index = schedule.order[:MOST_TRUSTED].sort().values
    found = evaluate_dataset(method.evaluator, method.evaluator.model, schedule.dataset, index)
    if found.right is None or found.targets is None or found.predicted is None:
        return None
    return found.targets, found.predicted


def group_numbers(groups: Any, num_train: int) -> Groups:
    """The number of each sample's group (num_train,) and the names of the groups, from one value per sample.

    >>> group_numbers(["b", "a", "b"], 3)
    (tensor([1, 0, 1]), ['a', 'b'])
    """
    values = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(values) != num_train:
        raise ValueError(
            f"groups must have one value per training sample, {num_train}, got {len(values)} ({kind_of(groups)}): "
            "pass the column of the set in adiw.Indexed, trusted samples included"
        )
    names = sorted(set(values), key=str)
    number = {name: k for k, name in enumerate(names)}
    return torch.tensor([number[value] for value in values]), [str(name) for name in names]
