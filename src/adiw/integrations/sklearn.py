"""scikit-learn: a classifier on a PyTorch network whose training samples are weighted by a few trusted ones."""

# ruff: noqa: E402 (versions are checked before the other imports)
from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from torch.utils.data import TensorDataset

from adiw.versions import require

require("scikit-learn", "1.6", "sklearn")
require("skorch", "1.2", "sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from adiw import ADIW
from adiw.argument_checks import check_count, is_number, is_positive
from adiw.divergences import Divergence
from adiw.integrations.skorch import IndexedRows, ModuleFactory, ReweightedNet, build_module, copy_to_tensor, seeded

__all__ = ["ReweightedClassifier"]


class ReweightedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network classifier that weights its training samples by how well they match a few trusted ones.

    Args:
        module: a network that returns logits (n, C), of which a copy is trained; or a class or function called as
            ``module(input_shape, num_classes)``; or None for ``adiw.models.MLP``.
        divergence: a name in ``adiw.DIVERGENCES``, or an instance with its settings.
        epochs: passes over the training set; the first one trains with weights of one.
        batch_size: samples per training step.
        lr, weight_decay: learning rate and weight decay of the optimizer.
        optimizer: a class of ``torch.optim``.
        mean_one, cap, min_ess: limits on the weights, see ``adiw.Limits``.
        callbacks: skorch callbacks, such as a learning-rate scheduler.
        device: the PyTorch device to train on.
        warm_start: if True, another ``fit`` on the same rows trains for ``epochs`` more, also after pickling;
            otherwise every ``fit`` starts with a new network and new weights.
        random_state: an int makes every fit repeatable. PyTorch's global random state is not changed.

    Attributes:
        classes_: (C,) the labels, sorted.
        sample_weight_: (n,) the last weight of every training sample; ones without trusted samples.
        net_: the fitted skorch net; ``net_.module_`` is the network.

    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), np.array(["no", "yes"]).repeat(100)
    >>> X[100:] += 3
    >>> given = np.where(rng.random(200) < 0.4, "no", y)
    >>> model = ReweightedClassifier(random_state=0).fit(X, given, X_val=X[::10], y_val=y[::10])
    >>> model.predict([[0.0, 0.0], [3.0, 3.0]]).tolist(), model.sample_weight_.shape
    (['no', 'yes'], (200,))
    """

    net_: ReweightedNet
    classes_: NDArray[Any]
    sample_weight_: NDArray[np.float32]
    _last: dict[str, Any]  # weights and random state, from which a warm start resumes

    def __init__(
        self,
        module: nn.Module | ModuleFactory | None = None,
        *,
        divergence: str | Divergence = "kl",
        epochs: int = 50,
        batch_size: int = 128,
        lr: float = 0.003,
        weight_decay: float = 0.0,
        optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
        mean_one: bool = False,
        cap: float | None = None,
        min_ess: float = 0.0,
        callbacks: Sequence[Any] | None = None,
        device: str = "cpu",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.module, self.divergence = module, divergence
        self.epochs, self.batch_size, self.lr, self.weight_decay = epochs, batch_size, lr, weight_decay
        self.optimizer, self.callbacks, self.device, self.random_state = optimizer, callbacks, device, random_state
        self.mean_one, self.cap, self.min_ess, self.warm_start = mean_one, cap, min_ess, warm_start

    def fit(
        self, X: ArrayLike, y: ArrayLike, X_val: ArrayLike | None = None, y_val: ArrayLike | None = None
    ) -> ReweightedClassifier:
        """Train on X (n, ...) and labels y (n,), weighted by the trusted samples X_val (m, ...) and y_val (m,).

        Without trusted samples, all weights are one, and a warning is issued. No part of X is held out in their
        place: its labels are in doubt, so weights that match them would mean nothing.
        """
        last: dict[str, Any] = self._last if self.warm_start and hasattr(self, "_last") else {}
        rows, labels = validate_data(self, X, y, dtype=np.float32, allow_nd=True, reset=not last)
        class_index = self._class_index(labels, resuming=bool(last))
        self._check_arguments()
        trusted = self._trusted_set(X_val, y_val)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with seeded(seed, self.device):
            net = self.net_.set_params(max_epochs=self.epochs) if last else self._net(rows.shape).initialize()
            reweight = None if trusted is None else self._reweight(net, trusted, len(rows), seed)
            if reweight is not None and last.get("weights") is not None:
                reweight.load_state_dict(last["weights"])
            torch.set_rng_state(last.get("random", torch.get_rng_state()))
            net.train_with(IndexedRows(copy_to_tensor(rows), torch.from_numpy(class_index)), reweight)
            weights = None if reweight is None else reweight.state_dict()
            self._last = {"weights": weights, "random": torch.get_rng_state()}
        self.net_ = net
        self.sample_weight_ = (
            np.ones(len(rows), np.float32) if reweight is None else reweight.weights.cpu().numpy().copy()
        )
        return self

    def _check_arguments(self) -> None:
        for name in ("epochs", "batch_size"):
            check_count(name, getattr(self, name), least=1)
        if not is_positive(self.lr):
            raise ValueError(f"lr must be a positive number, got {self.lr!r}")
        if not is_number(self.weight_decay, least=0):
            raise ValueError(f"weight_decay must be a number >= 0, got {self.weight_decay!r}")

    def _class_index(self, labels: NDArray[Any], resuming: bool) -> NDArray[np.int64]:
        """Set ``classes_``, which a resumed fit must not change: the position in it of each label, (n,)."""
        check_classification_targets(labels)
        classes, class_index = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"ReweightedClassifier needs two classes or more, and y has 1 class: {classes[0]!r}")
        if resuming and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start=True continues with the classes {self.classes_.tolist()}, but y has "
                f"{classes.tolist()}: fit the same rows, or a clone"
            )
        self.classes_ = classes
        return class_index

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """The probability of each class in ``classes_``, (n, C)."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float32, allow_nd=True, reset=False)
        probabilities: NDArray[np.float32] = self.net_.predict_proba(copy_to_tensor(rows))
        return probabilities

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable label of each row, (n,)."""
        best = self.predict_proba(X).argmax(axis=1)  # first: it raises NotFittedError
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _net(self, shape: tuple[int, ...]) -> ReweightedNet:
        return ReweightedNet(
            build_module(self.module, shape[1:], len(self.classes_)),
            criterion=nn.CrossEntropyLoss,  # skorch then applies softmax to the outputs in predict_proba
            optimizer=self.optimizer,
            optimizer__weight_decay=self.weight_decay,
            lr=self.lr,
            max_epochs=self.epochs,
            batch_size=int(self.batch_size),  # DataLoader refuses NumPy integers
            iterator_train__shuffle=True,
            # Weights have a mean of about one in each batch: alone in a last batch, a wrong label has full weight.
            iterator_train__drop_last=shape[0] > int(self.batch_size),
            iterator_train__collate_fn=IndexedRows.collate,
            train_split=None,
            callbacks=copy.deepcopy(self.callbacks),  # they keep state, and fit must not change parameters
            device=self.device,
            verbose=0,
        )

    def _reweight(self, net: ReweightedNet, trusted: TensorDataset, num_train: int, seed: int) -> ADIW:
        criterion = nn.CrossEntropyLoss(reduction="none")
        return ADIW(
            net.module_,
            criterion,
            trusted,
            num_train,
            self.divergence,
            mean_one=self.mean_one,
            cap=self.cap,
            min_ess=self.min_ess,
            generator=torch.Generator().manual_seed(seed),
        )

    def _trusted_set(self, X_val: ArrayLike | None, y_val: ArrayLike | None) -> TensorDataset | None:
        """The trusted samples with the class index of each label; without samples None and a warning."""
        if X_val is None and y_val is None:
            warnings.warn(
                "ReweightedClassifier.fit without trusted samples trains with weights of one: "
                "pass X_val= and y_val=, a few samples with correct labels",
                UserWarning,
                stacklevel=3,
            )
            return None
        if X_val is None or y_val is None:
            missing = "X_val" if X_val is None else "y_val"
            raise ValueError(f"trusted samples need both X_val and y_val: {missing} is missing")
        rows = validate_data(self, X_val, dtype=np.float32, allow_nd=True, reset=False)
        labels = column_or_1d(y_val)
        check_consistent_length(rows, labels)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"y_val has labels that are not in y: {', '.join(map(repr, unknown.tolist()))}")
        return TensorDataset(copy_to_tensor(rows), torch.from_numpy(np.searchsorted(self.classes_, labels)))
