"""scikit-learn: a classifier and a regressor whose training samples are weighted by a few trusted ones."""

# ruff: noqa: E402 (versions are checked before the other imports)
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from adiw.versions import require

require("scikit-learn", "1.6", "sklearn")
require("skorch", "1.2", "sklearn")

from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from adiw.integrations.network_estimator import NetworkEstimator
from adiw.label_audit import Audit

__all__ = ["ReweightedClassifier", "ReweightedRegressor"]


class ReweightedClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """A neural network classifier that weights its training samples by how well they match a few trusted ones.

    Args:
        module: a network that returns logits (n, C), of which a copy is trained; or a class or function called as
            ``module(input_shape, num_outputs)``; or None for ``adiw.models.MLP``.
        divergence: a name in ``adiw.DIVERGENCES``, or an instance with its settings; None for the default of ADIW.
        match_on: what is matched: "loss" (Algorithm 1), or ``adiw.Features(layer, ...)`` with the dotted name of a
            hidden layer (Algorithm 2; that of the default network is "features"); None for the default of ADIW. It
            is ADIW's ``transform``, a name that scikit-learn reserves for a method.
        criterion: ``criterion(outputs, targets)`` gives one loss per sample, (n,); None for the cross-entropy.
        max_steps: training steps, rounded up to whole epochs. An epoch is a pass over the training rows, but at
            most a twentieth of the steps.
        epochs: passes over the training rows, in place of ``max_steps``.
        batch_size: samples per training step.
        lr, weight_decay: learning rate and weight decay of the optimizer.
        optimizer: a class of ``torch.optim``.
        early_stopping: keep the epoch with the best score on held-out trusted samples, the latest of equal scores
            and never the first, in which all weights are one; otherwise the last epoch. Fewer than 20 trusted
            samples are not split: the last epoch is kept, with a warning.
        validation_fraction: the part of the trusted samples that is held out for this.
        join_trusted: train on the other trusted samples too, once per epoch.
        mean_one, cap, min_ess: limits on the weights, see ``adiw.Limits``.
        callbacks: skorch callbacks, such as a learning-rate scheduler.
        device: the PyTorch device to train on.
        warm_start: if True, another ``fit`` on the same rows trains for as long again, also after pickling;
            otherwise every ``fit`` starts with a new network and new weights.
        verbose: 1 prints a line for each epoch, with the training loss and the score on the held-out samples, and
            lines of progress while ``audit`` reads the rows.
        random_state: an int makes every fit repeatable. PyTorch's global random state is not changed.

    Attributes:
        classes_: (C,) the labels, sorted.
        sample_weight_: (n,) the weight of every row of X after the kept epoch; one for rows not trained on.
        best_epoch_: the kept epoch, from 1; None without early stopping.
        validation_scores_: the accuracy on the held-out samples after each epoch; None without early stopping.
        net_: the fitted skorch net; ``net_.module_`` is the network, ``net_.history`` the record of its training.

    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), np.array(["no", "yes"]).repeat(100)
    >>> X[100:] += 3
    >>> given = np.where(rng.random(200) < 0.4, "no", y)
    >>> model = ReweightedClassifier(epochs=50, random_state=0).fit(X, given, X_val=X[::10], y_val=y[::10])
    >>> model.predict([[0.0, 0.0], [3.0, 3.0]]).tolist(), model.sample_weight_.shape
    (['no', 'yes'], (200,))
    """

    classes_: NDArray[Any]
    _numeric_targets = False
    _default_criterion = nn.CrossEntropyLoss(reduction="none")
    _nonlinearity = staticmethod(partial(torch.softmax, dim=-1))

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """The probability of each class in ``classes_``, (n, C)."""
        return self._outputs(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable label of each row, (n,)."""
        best = self.predict_proba(X).argmax(axis=1)  # first: it raises NotFittedError
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def audit(self, X: ArrayLike) -> Audit:
        """Rank the rows of X that ``fit`` was called with, the likeliest wrong label first; see ``adiw.audit``.

        The columns of a DataFrame are shown with its rows. ``audit.save(folder)`` writes audit.csv and audit.html.
        """
        made = super().audit(X)  # first: it raises NotFittedError
        return replace(made, names=[str(name) for name in self.classes_])

    def _encode(
        self, y: NDArray[Any], y_val: NDArray[Any] | None, is_trusted: NDArray[np.bool_], resuming: bool
    ) -> NDArray[np.int64]:
        """Set ``classes_``, which a resumed fit must not change: the position in it of each label."""
        check_classification_targets(y)
        classes, class_index = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"ReweightedClassifier needs two classes or more, and y has 1 class: {classes[0]!r}")
        if resuming and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start=True continues with the classes {self.classes_.tolist()}, but y has "
                f"{classes.tolist()}: fit the same rows, or a clone"
            )
        self.classes_ = classes
        if y_val is None:
            return class_index
        unknown = np.setdiff1d(y_val, classes)
        if len(unknown):
            raise ValueError(f"y_val has labels that are not in y: {', '.join(map(repr, unknown.tolist()))}")
        return np.concatenate([class_index, np.searchsorted(classes, y_val)])

    def _num_outputs(self) -> int:
        return len(self.classes_)

    def _score(self, outputs: Tensor, targets: Tensor) -> float:
        return float((outputs.argmax(1) == targets).float().mean())


class ReweightedRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """A neural network regressor that weights its training samples by how well they match a few trusted ones.

    The network is trained on targets that are centred and scaled by the mean and the standard deviation of the
    trusted targets, so that wrong targets, however large, do not change their scale.

    Its arguments and attributes are those of ``ReweightedClassifier``, except for ``classes_`` and these:

    Args:
        module: a network that returns one value, (n, 1); a factory is called with ``num_outputs=1``.
        criterion: ``criterion(outputs, targets)`` of the scaled outputs and targets, both (n,), gives one loss per
            sample, for example ``nn.HuberLoss(reduction="none")``; None for the squared error.

    Attributes:
        validation_scores_: the coefficient of determination R^2 on the held-out samples after each epoch.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 1))
    >>> y = 2 * X[:, 0] + 5
    >>> given = np.where(rng.random(300) < 0.3, 10 * y, y)  # 30% are in another unit
    >>> model = ReweightedRegressor(epochs=50, random_state=0).fit(X, given, X_val=X[::10], y_val=y[::10])
    >>> bool(abs(model.predict([[1.0]])[0] - 7) < 0.5)
    True
    """

    _centre: float
    _unit: float
    _numeric_targets = True
    _default_criterion = nn.MSELoss(reduction="none")
    _nonlinearity = None

    def predict(self, X: ArrayLike) -> NDArray[np.float32]:
        """The predicted target of each row, (n,)."""
        outputs = self._outputs(X)[:, 0]  # first: it raises NotFittedError
        return (outputs.astype(np.float64) * self._unit + self._centre).astype(np.float32)

    def audit(self, X: ArrayLike) -> Audit:
        """Rank the rows of X that ``fit`` was called with, the likeliest wrong target first; see ``adiw.audit``."""
        made = super().audit(X)  # first: it raises NotFittedError
        predicted = None if made.predicted is None else made.predicted * np.float64(self._unit) + self._centre
        return replace(made, given=made.given * self._unit + self._centre, predicted=predicted)

    def _encode(
        self, y: NDArray[Any], y_val: NDArray[Any] | None, is_trusted: NDArray[np.bool_], resuming: bool
    ) -> NDArray[np.float32]:
        """Centre and scale by the trusted targets; a resumed fit keeps the centre and the unit."""
        if y_val is not None:
            y = np.concatenate([y, check_array(y_val, ensure_2d=False, dtype=np.float64, input_name="y_val")])
        known = y[is_trusted] if is_trusted.any() else y
        if not resuming:
            self._centre, self._unit = float(known.mean()), float(known.std()) or 1.0
        return ((y - self._centre) / self._unit).astype(np.float32)

    def _num_outputs(self) -> int:
        return 1

    def _score(self, outputs: Tensor, targets: Tensor) -> float:
        errors = (outputs[:, 0] - targets).square().mean()
        return float(1 - errors / targets.var(correction=0).clamp_min(torch.finfo(targets.dtype).tiny))
