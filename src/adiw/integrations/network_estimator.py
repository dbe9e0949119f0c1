"""What ``ReweightedClassifier`` and ``ReweightedRegressor`` share: arguments, trusted samples and training."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from adiw import ADIW, Features
from adiw.argument_checks import check_count, is_number, is_positive
from adiw.baselines import Uniform
from adiw.divergences import Divergence
from adiw.integrations.network_training import (
    Criterion,
    IndexedRows,
    ModuleFactory,
    PerSample,
    Progress,
    ReweightedNet,
    Rows,
    assign_roles,
    build_module,
    dense,
    seeded,
    stack_rows,
    train,
    trusted_mask,
)
from adiw.label_audit import Audit
from adiw.reweighting.diagnostics.audit import audit
from adiw.reweighting.diagnostics.evaluation_pass import BATCH
from adiw.reweighting.indexed_with_trusted import TrustedSamples
from adiw.reweighting.progress import at_most_every, silent
from adiw.reweighting.transforms import Transform
from adiw.user_code import warn_user

FEWEST_TO_STOP = 20  # trusted samples: a fifth of fewer is too few to choose an epoch by
SECONDS = 2.0  # between two lines of progress of an audit
EPOCHS = 20  # at least this many within max_steps, so that there is a choice
INPUT: dict[str, Any] = {"dtype": np.float32, "order": "C", "accept_sparse": "csr", "allow_nd": True}


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """A network whose training samples are weighted by how well they match trusted samples."""

    net_: ReweightedNet
    sample_weight_: NDArray[np.float32]
    validation_scores_: list[float] | None
    best_epoch_: int | None
    _progress: Progress
    _numeric_targets: bool
    _default_criterion: Criterion
    _nonlinearity: Callable[[Tensor], Tensor] | None

    def __init__(
        self,
        module: nn.Module | ModuleFactory | None = None,
        *,
        divergence: str | Divergence | None = None,
        match_on: Literal["loss"] | Transform | None = None,
        criterion: Criterion | None = None,
        max_steps: int = 2500,
        epochs: int | None = None,
        batch_size: int = 128,
        lr: float = 0.003,
        weight_decay: float = 0.0,
        optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        join_trusted: bool = True,
        mean_one: bool = False,
        cap: float | None = None,
        min_ess: float = 0.0,
        callbacks: Sequence[Any] | None = None,
        device: str = "cpu",
        warm_start: bool = False,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.module, self.divergence, self.match_on, self.criterion = module, divergence, match_on, criterion
        self.max_steps, self.epochs, self.batch_size = max_steps, epochs, batch_size
        self.lr, self.weight_decay, self.optimizer = lr, weight_decay, optimizer
        self.early_stopping, self.validation_fraction = early_stopping, validation_fraction
        self.join_trusted, self.mean_one, self.cap, self.min_ess = join_trusted, mean_one, cap, min_ess
        self.callbacks, self.device, self.warm_start = callbacks, device, warm_start
        self.verbose, self.random_state = verbose, random_state

    @abstractmethod
    def _encode(
        self, y: NDArray[Any], y_val: NDArray[Any] | None, is_trusted: NDArray[np.bool_], resuming: bool
    ) -> NDArray[Any]:
        """The targets of the network, (n,) or with ``y_val`` (n + m,)."""

    @abstractmethod
    def _num_outputs(self) -> int:
        """The number of outputs of the network."""

    @abstractmethod
    def _score(self, outputs: Tensor, targets: Tensor) -> float:
        """The score of outputs (n, C) for encoded targets (n,), as in ``score``."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        trusted: ArrayLike | None = None,
    ) -> Self:
        """Train on rows X (n, ...) and targets y (n,), weighted by the trusted samples.

        Trusted samples are the rows of X where the boolean array ``trusted`` (n,) is true, or other rows X_val
        (m, ...) with targets y_val (m,). Without them all weights are one, and a warning is issued: the targets in y
        are in doubt, so weights that match a part of them would mean nothing.
        """
        self._check_arguments()
        previous = getattr(self, "_progress", None) if self.warm_start else None
        checks = INPUT | {"y_numeric": self._numeric_targets}
        rows, given = validate_data(self, X, y, reset=previous is None, **checks)
        rows, given_val, is_trusted = self._add_trusted(rows, X_val, y_val, trusted)
        targets = self._encode(given, given_val, is_trusted, resuming=previous is not None)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        progress = self._begin(targets, is_trusted, seed, previous)
        progress.more = None if given_val is None else rows[len(given) :]
        with seeded(seed, self.device):
            weights = self._train(rows, targets, progress, seed)
        best, self._progress, self.sample_weight_ = progress.best, progress, weights.numpy()[: len(given)].copy()
        self.validation_scores_, self.best_epoch_ = (best.scores, best.epoch) if best.scores else (None, None)
        return self

    def audit(self, X: ArrayLike) -> Audit:
        """Rank the rows of X that ``fit`` was called with, the likeliest wrong target first; see ``adiw.audit``.

        The columns of a DataFrame are shown with its rows. ``audit.save(folder)`` writes audit.csv and audit.html.
        """
        check_is_fitted(self)
        rows, progress, fitted = (
            validate_data(self, X, reset=False, **INPUT),
            self._progress,
            len(self.sample_weight_),
        )
        if rows.shape[0] != fitted:
            raise ValueError(
                f"audit takes the X that fit was called with: expected {fitted} rows, got {rows.shape[0]}"
            )
        rows = rows if progress.more is None else stack_rows(rows, progress.more)
        batches: Any = DataLoader(IndexedRows(rows, progress.targets), BATCH, collate_fn=IndexedRows.with_index)
        describe = (lambda i: X.iloc[i] if i < fitted else {}) if hasattr(X, "iloc") else None
        tell = at_most_every(SECONDS, lambda line: print(f"audit: {line}", flush=True)) if self.verbose else silent
        method = self._trained_method(rows, progress)
        made = audit(method, batches, columns=describe, numbering="row of X, from 0", progress=tell)
        is_trusted = progress.is_trusted[:fitted]
        return replace(without_rows_behind(made, fitted), weights=self.sample_weight_, is_trusted=is_trusted)

    def _trained_method(self, rows: Rows, progress: Progress) -> ADIW | Uniform:
        """The weighting method at the end of ``fit``."""
        transform = copy.deepcopy(self.match_on)
        with warnings.catch_warnings():  # of trusted samples: ``fit`` has issued them
            warnings.simplefilter("ignore")
            method = self._reweight(self.net_, rows, progress.targets, progress, transform, seed=0)
        if isinstance(transform, Features):
            transform.detach()
        assert progress.weights is not None  # set by ``fit``
        method.load_state_dict(progress.weights)
        return method

    def _check_arguments(self) -> None:
        for name in ("max_steps", "batch_size") if self.epochs is None else ("epochs", "batch_size"):
            check_count(name, getattr(self, name), least=1)
        if not is_positive(self.lr):
            raise ValueError(f"lr must be a positive number, got {self.lr!r}")
        if not is_number(self.weight_decay, least=0):
            raise ValueError(f"weight_decay must be a number >= 0, got {self.weight_decay!r}")
        if not (is_positive(self.validation_fraction) and self.validation_fraction < 1):
            raise ValueError(f"validation_fraction must be between 0 and 1, got {self.validation_fraction!r}")

    def _add_trusted(
        self, rows: Rows, X_val: ArrayLike | None, y_val: ArrayLike | None, trusted: ArrayLike | None
    ) -> tuple[Rows, NDArray[Any] | None, NDArray[np.bool_]]:
        """All rows, with X_val at the end; y_val; and which rows are trusted."""
        count = rows.shape[0]
        if X_val is None and y_val is None:
            mask = trusted_mask(trusted, count)
            if not mask.any():
                warn_user(
                    f"{type(self).__name__}.fit without trusted samples trains with weights of one: pass X_val= and "
                    "y_val=, a few samples with correct targets, or trusted=, a mask of such rows of X"
                )
            return rows, None, mask
        if trusted is not None:
            raise ValueError("trusted samples are either X_val and y_val, or the rows of X in trusted=, not both")
        if X_val is None or y_val is None:
            missing = "X_val" if X_val is None else "y_val"
            raise ValueError(f"trusted samples need both X_val and y_val: {missing} is missing")
        more, given_val = validate_data(self, X_val, reset=False, **INPUT), column_or_1d(y_val)
        check_consistent_length(more, given_val)
        rows = stack_rows(rows, more)
        return rows, given_val, np.arange(rows.shape[0]) >= count

    def _begin(
        self, targets: NDArray[Any], is_trusted: NDArray[np.bool_], seed: int, previous: Progress | None
    ) -> Progress:
        """The progress to resume from, or that of a new training."""
        if previous is not None and previous.is_trusted.any():
            if np.array_equal(previous.is_trusted, is_trusted):
                previous.targets = targets
                return previous
            sizes = [f"{len(mask)} rows, {mask.sum()} of them trusted" for mask in (previous.is_trusted, is_trusted)]
            raise ValueError(
                f"warm_start=True continues with the same rows and trusted samples: expected {sizes[0]}, got "
                f"{sizes[1]}, or others; fit the same rows, or a clone"
            )
        roles = assign_roles(targets, is_trusted, self._num_held_out(is_trusted.sum()), self.join_trusted, seed)
        _, steps = self._length(len(roles.train))
        warmup = steps if steps < len(roles.train) // int(self.batch_size) else None  # None: one pass
        return Progress(is_trusted, targets, roles, warmup, random=None if previous is None else previous.random)

    def _num_held_out(self, num_trusted: int) -> int:
        if not self.early_stopping or not num_trusted:
            return 0
        if num_trusted < FEWEST_TO_STOP:
            warn_user(
                f"early_stopping needs {FEWEST_TO_STOP} trusted samples or more, got {num_trusted}: none is held "
                "out, and the last epoch is kept"
            )
            return 0
        return min(max(round(self.validation_fraction * num_trusted), 1), num_trusted - 1)

    def _length(self, num_train: int) -> tuple[int, int]:
        """The number of epochs, and the steps of each: a pass over the training rows, or a part of a long one."""
        one_pass = max(1, num_train // int(self.batch_size))
        if self.epochs is not None:
            return int(self.epochs), one_pass
        steps = min(one_pass, -(-int(self.max_steps) // EPOCHS))
        return -(-int(self.max_steps) // steps), steps

    def _train(self, rows: Rows, targets: NDArray[Any], progress: Progress, seed: int) -> Tensor:
        """Train a new network or resume, and return the weight of every row."""
        roles, transform = progress.roles, copy.deepcopy(self.match_on)  # it keeps a hook on the network
        net = self._net(rows.shape).initialize() if progress.random is None else self.net_
        epochs, steps = self._length(len(roles.train))
        net.set_params(max_epochs=epochs, verbose=int(self.verbose))
        reweight = self._reweight(net, rows, targets, progress, transform, seed)
        # Weights have a mean of about one in each batch: alone in a last batch, a wrong label has full weight.
        drawn = min(len(roles.train), steps * int(self.batch_size))
        train_rows = IndexedRows(rows, targets, roles.train, drawn)
        try:
            weights = train(net, reweight, train_rows, roles.held_out, self._score, progress)
        finally:
            if isinstance(transform, Features):
                transform.detach()
        self.net_ = net
        return weights

    def _net(self, shape: tuple[int, ...]) -> ReweightedNet:
        return ReweightedNet(
            build_module(self.module, shape[1:], self._num_outputs()),
            criterion=PerSample(self.criterion or self._default_criterion, squeeze=self._numeric_targets),
            optimizer=self.optimizer,
            optimizer__weight_decay=self.weight_decay,
            lr=self.lr,
            batch_size=int(self.batch_size),  # DataLoader refuses NumPy integers
            predict_nonlinearity=self._nonlinearity,
            train_split=None,
            callbacks=copy.deepcopy(self.callbacks),  # they keep state, and fit must not change parameters
            device=self.device,
        )

    def _reweight(
        self, net: ReweightedNet, rows: Rows, targets: NDArray[Any], progress: Progress, transform: Any, seed: int
    ) -> ADIW | Uniform:
        """ADIW; without trusted samples to match, weights of one."""
        matched = progress.roles.matched
        if not len(matched):
            return Uniform(net.module_, net.criterion_, None, len(targets))
        trusted: Any = TensorDataset(dense(rows, matched), torch.from_numpy(targets[matched]))
        return ADIW(
            net.module_,
            net.criterion_,
            TrustedSamples(trusted, torch.as_tensor(matched)) if self.join_trusted else trusted,
            len(targets),
            self.divergence,
            transform="loss" if transform is None else transform,
            warmup_steps=progress.warmup_steps,
            mean_one=self.mean_one,
            cap=self.cap,
            min_ess=self.min_ess,
            generator=torch.Generator().manual_seed(seed),
        )

    def _outputs(self, X: ArrayLike) -> NDArray[np.float32]:
        """The outputs of the network after its nonlinearity, (n, C)."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, **INPUT)
        outputs: NDArray[np.float32] = self.net_.predict_proba(IndexedRows(rows, np.zeros(rows.shape[0])))
        return outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def without_rows_behind(found: Audit, count: int) -> Audit:
    """The audit of the first ``count`` rows: those behind them are trusted rows that are not rows of X."""
    names = ("losses", "given", "predicted", "confidence", "unseen", "neighbour", "distance")
    kept: dict[str, Any] = {name: values[:count] for name in names if (values := getattr(found, name)) is not None}
    if found.neighbour is not None:
        kept["distance"] = np.where(kept["neighbour"] < count, kept["distance"], np.nan)
        kept["neighbour"] = np.where(kept["neighbour"] < count, kept["neighbour"], -1)
    return replace(found, **kept)
