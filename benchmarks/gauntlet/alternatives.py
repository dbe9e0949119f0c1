"""What people do instead of weights, with the same network; and models of scikit-learn."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from torch import Tensor, nn

from benchmarks.gauntlet.task import Length, MissingError, Split
from benchmarks.gauntlet.training import criterion_for, fit, mean_of, outputs_of, predictions

FOLDS = 3  # of the out-of-fold probabilities that label errors are found with
FINE_TUNE_EPOCHS, FINE_TUNE_BATCH = 20, 8  # of those tried on the development half, the best or close to it
CHECKS = 30  # times that early stopping evaluates the trusted samples


@dataclass(frozen=True)
class Outcome:
    """Predictions for the test samples (classes or values), and the last weights of the training samples."""

    predicted: Tensor
    weights: Tensor | None = None


def train_uniform(split: Split, length: Length, x: Tensor, y: Tensor, **kwargs: Any) -> nn.Module:
    """A new network trained with uniform weights."""
    return fit(split.network(), x, y, mean_of(criterion_for(split.num_classes)), length, **kwargs)


def outcome_of(split: Split, network: nn.Module, weights: Tensor | None = None) -> Outcome:
    return Outcome(predictions(network, split.x_test, split.num_classes), None if weights is None else weights.cpu())


def joined(split: Split) -> tuple[Tensor, Tensor]:
    """Training samples, then trusted samples."""
    return torch.cat([split.x_train, split.x_trusted]), torch.cat([split.y_train, split.y_trusted])


def uniform(split: Split, length: Length) -> Outcome:
    return outcome_of(split, train_uniform(split, length, split.x_train, split.y_train))


def trusted_only(split: Split, length: Length) -> Outcome:
    return outcome_of(split, train_uniform(split, length, split.x_trusted, split.y_trusted))


def mixed(split: Split, length: Length) -> Outcome:
    return outcome_of(split, train_uniform(split, length, *joined(split)))


def early_stopping(split: Split, length: Length) -> Outcome:
    """Uniform weights; the network that was best on the trusted samples, of CHECKS during training."""
    return outcome_of(split, last_and_best(split, length)[1])


def last_and_best(split: Split, length: Length) -> tuple[nn.Module, nn.Module]:
    """Uniform weights: the network after the last step, and the one that was best on the trusted samples."""
    network, criterion = split.network(), criterion_for(split.num_classes)
    every = max(1, length.steps // CHECKS)
    best: tuple[tuple[float, float], nn.Module] | None = None

    def check(step: int) -> None:
        nonlocal best
        if step % every:
            return
        outputs = outputs_of(network, split.x_trusted)
        loss = criterion(outputs, split.y_trusted).mean().item()
        errors = (outputs.argmax(1) != split.y_trusted).float().mean().item() if split.num_classes else loss
        if best is None or (errors, loss) < best[0]:
            best = (errors, loss), copy.deepcopy(network)

    fit(network, split.x_train, split.y_train, mean_of(criterion), length, check)
    assert best is not None
    return network, best[1]


def fine_tune(split: Split, length: Length) -> Outcome:
    """Uniform weights, then a few epochs on the trusted samples at a tenth of the rate."""
    return fine_tuned(split, length, train_uniform(split, length, split.x_train, split.y_train))


def fine_tuned(split: Split, length: Length, network: nn.Module) -> Outcome:
    """A few epochs on the trusted samples at a tenth of the rate, after a training."""
    steps = FINE_TUNE_EPOCHS * (len(split.x_trusted) // FINE_TUNE_BATCH)
    short = replace(length, steps=steps, batch=FINE_TUNE_BATCH, rate=length.rate / 10)
    fit(network, split.x_trusted, split.y_trusted, mean_of(criterion_for(split.num_classes)), short)
    return outcome_of(split, network)


def after_uniform(split: Split, length: Length) -> dict[str, Outcome]:
    """``uniform``, ``early-stopping`` and ``fine-tune`` from a single training with uniform weights."""
    last, best = last_and_best(split, length)
    found = {"uniform": outcome_of(split, last), "early-stopping": outcome_of(split, best)}
    return {**found, "fine-tune": fine_tuned(split, length, last)}


def cleanlab(split: Split, length: Length) -> Outcome:
    """Label errors found by cleanlab from out-of-fold probabilities are dropped, then uniform weights."""
    try:
        from cleanlab.filter import find_label_issues
    except ImportError as error:
        raise MissingError("cleanlab is not installed: pip install cleanlab") from error
    assert split.num_classes is not None
    chances = out_of_fold(split, length)
    found = find_label_issues(split.y_train.numpy(), chances.double().numpy(), n_jobs=1)
    kept = torch.as_tensor(~found)
    return outcome_of(split, train_uniform(split, length, split.x_train[kept], split.y_train[kept]), kept.float())


def out_of_fold(split: Split, length: Length) -> Tensor:
    """Class probabilities of each training sample, by a network that has not trained on it: (n, num_classes)."""
    chances = torch.zeros(len(split.y_train), split.num_classes or 1)
    folds = KFold(FOLDS, shuffle=True, random_state=int(torch.randint(2**31, ())))
    for rest, held_out in folds.split(split.x_train):
        network = train_uniform(split, length, split.x_train[rest], split.y_train[rest])
        chances[held_out] = outputs_of(network, split.x_train[held_out]).softmax(1)
    return chances


def sklearn_model(
    kind: Literal["linear", "boosting"], data: Literal["train", "trusted"], split: Split, _: Length
) -> Outcome:
    """A model of scikit-learn by its defaults."""
    seed = int(torch.randint(2**31, ()))
    model: Any
    if kind == "linear":
        model = LogisticRegression(max_iter=1000) if split.num_classes else Ridge()
    elif split.num_classes:
        model = HistGradientBoostingClassifier(random_state=seed)
    else:
        model = HistGradientBoostingRegressor(random_state=seed)
    x, y = (split.x_train, split.y_train) if data == "train" else (split.x_trusted, split.y_trusted)
    model.fit(x.numpy(), y.numpy())
    return Outcome(torch.as_tensor(np.asarray(model.predict(split.x_test.numpy()))))
