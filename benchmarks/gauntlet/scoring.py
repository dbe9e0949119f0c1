"""The metrics of a method on one seed of a task."""

from __future__ import annotations

import torch
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from benchmarks.gauntlet.alternatives import Outcome
from benchmarks.gauntlet.task import Split


def score(splits: list[Split], outcomes: list[Outcome]) -> dict[str, float]:
    """Test metrics over the pooled predictions of all splits.

    ``rmse`` in the units of the source for a regression; otherwise percentages: ``accuracy``, ``balanced_accuracy``
    and, for a task that names such samples, ``focus_recall``. ``wrong_auroc`` says how well low weights find the
    wrong labels (1 is perfect, 0.5 is chance), for methods with weights on tasks with wrong labels.
    """
    pairs = list(zip(splits, outcomes, strict=True))
    if splits[0].num_classes is None:
        errors = torch.cat([(o.predicted - s.y_test) * s.unit for s, o in pairs])
        metrics = {"rmse": errors.double().square().mean().sqrt().item()}
    else:
        predicted = torch.cat([o.predicted for _, o in pairs])
        truth = torch.cat([s.y_test for s in splits])
        metrics = {
            "accuracy": 100 * (predicted == truth).double().mean().item(),
            "balanced_accuracy": 100 * float(balanced_accuracy_score(truth, predicted)),
        }
    focus = [(o.predicted == s.y_test)[s.focus] for s, o in pairs if s.focus is not None]
    if focus:
        metrics["focus_recall"] = 100 * torch.cat(focus).double().mean().item()
    aurocs = [roc_auc_score(s.wrong, -o.weights) for s, o in pairs if o.weights is not None and s.wrong.any()]
    if aurocs:
        metrics["wrong_auroc"] = float(sum(aurocs) / len(aurocs))
    return metrics
