"""What is compared on a task: the alternatives, the divergences as the README has them, and the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch.utils.data import TensorDataset

import adiw
from adiw.reweighting.default_estimator import RATE, TRUSTED_SHARE
from benchmarks.gauntlet import alternatives
from benchmarks.gauntlet.alternatives import Outcome, joined, outcome_of
from benchmarks.gauntlet.candidates import CANDIDATES, TUNED, Candidate, Weighting
from benchmarks.gauntlet.records import settings_of
from benchmarks.gauntlet.task import Length, Split, Task
from benchmarks.gauntlet.training import criterion_for, fit


@dataclass(frozen=True)
class Method:
    """A way to train. ``group`` says what it is compared as."""

    group: Literal["alternative", "library", "divergence", "candidate", "reference"]
    run: Callable[[Split, Length], Outcome]
    settings: str
    fits: Callable[[Task], bool] = lambda task: True


def divergence(name: str, split: Split, length: Length, cautious: bool = True) -> Outcome:
    """adiw as the README has it: a divergence by its defaults; the trusted samples are not trained on."""
    network, criterion = split.network(), criterion_for(split.num_classes)
    trusted = TensorDataset(split.x_trusted, split.y_trusted)
    reweight = adiw.ADIW(network, criterion, trusted, len(split.y_train), name, cautious=cautious)
    fit(network, split.x_train, split.y_train, reweight, length)
    return outcome_of(split, network, reweight.weights)


def candidate(settings: Candidate, split: Split, length: Length) -> Outcome:
    network = split.network()
    x, y = joined(split) if settings.join else (split.x_train, split.y_train)
    weighting = Weighting(settings, network, y, split.x_trusted, split.y_trusted, split.num_classes)
    fit(network, x, y, weighting, length)
    return outcome_of(split, network, weighting.reweight.weights[: len(split.y_train)])


def default(rate: float, split: Split, length: Length, join: bool = True) -> Outcome:
    """adiw without settings, as the README has it; ``join``: the trusted samples are trained on as well.

    ``rate``: by which a weight moves towards its estimate; the former default had 0.2.
    """
    network, trusted = split.network(), TensorDataset(split.x_trusted, split.y_trusted)
    train_set = adiw.Indexed(TensorDataset(split.x_train, split.y_train), trusted if join else None)
    val_set = train_set.trusted if join else trusted
    reweight = adiw.ADIW(network, criterion_for(split.num_classes), val_set, len(train_set))
    assert reweight.ranks is not None
    reweight.ranks.rate = rate
    fit(network, *(joined(split) if join else (split.x_train, split.y_train)), reweight, length)
    return outcome_of(split, network, reweight.weights[: len(split.y_train)])


def _is_table(task: Task) -> bool:
    return task.kind in ("table", "regression")


def _has_classes(task: Task) -> bool:
    return task.kind != "regression"


METHODS: dict[str, Method] = {
    "uniform": Method("alternative", alternatives.uniform, ""),
    "early-stopping": Method(
        "alternative", alternatives.early_stopping, f"best of {alternatives.CHECKS} checks on the trusted samples"
    ),
    "trusted-only": Method("alternative", alternatives.trusted_only, ""),
    "mixed": Method("alternative", alternatives.mixed, "training and trusted samples, once each"),
    "fine-tune": Method(
        "alternative",
        alternatives.fine_tune,
        f"{alternatives.FINE_TUNE_EPOCHS} epochs in batches of {alternatives.FINE_TUNE_BATCH} at a tenth of the rate",
    ),
    "cleanlab": Method(
        "alternative", alternatives.cleanlab, f"prune_by_noise_rate, {alternatives.FOLDS} folds", _has_classes
    ),
    **{
        f"{kind}{'' if data == 'train' else '-trusted'}": Method(
            "library", partial(alternatives.sklearn_model, kind, data), "scikit-learn's defaults", _is_table
        )
        for kind in ("linear", "boosting")
        for data in ("train", "trusted")
    },
    **{
        name: Method("divergence", partial(divergence, name), settings_of(kind))
        for name, kind in adiw.DIVERGENCES.items()
    },
    "default": Method(
        "candidate",
        partial(default, RATE),
        f"no settings (rate {RATE}, evidence from a p-value of m^(-3/2) of Berk and Jones's test, up to "
        f"{TRUSTED_SHARE} of the weight to trusted samples), trusted samples joined",
    ),
    "default-apart": Method(
        "candidate",
        partial(default, RATE, join=False),
        f"no settings (rate {RATE}, evidence from a p-value of m^(-3/2)), trusted samples not trained on",
    ),
    "ranks": Method("candidate", partial(default, 0.2), "no settings, trusted samples joined"),
    **{
        name: Method("candidate", partial(candidate, settings), repr(settings))
        for name, settings in CANDIDATES.items()
    },
    **{name: Method("reference", partial(candidate, settings), repr(settings)) for name, settings in TUNED.items()},
}


def fits(method: str, task: Task) -> bool:
    """Whether a method runs on a task."""
    return METHODS[method].fits(task) and method in (task.methods or METHODS)
