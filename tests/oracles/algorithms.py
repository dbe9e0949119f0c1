"""Algorithms 1 and 2 as literal loops on numpy arrays, each with its variant for parametric weight models.

Nothing is changed in place. The store is a vector over all training samples, or over all validation samples for a
parametric model. `gradient(w, z_train, z_val)` and `project(w, z_train, z_val)` are called with one batch, or with
one class of it. The weights read from the store are not projected before the first step, and zero steps do not
change them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]
BatchFunction = Callable[[Array, Array, Array], Array]


def l2_normalise(z: Array) -> Array:
    """Every row divided by its Euclidean length; a row of zeros stays zero."""
    out = np.array(z, dtype=np.float64)
    for row in out:
        row /= max(float(np.linalg.norm(row)), 1e-12)
    return out


def _descend(
    start: Array,
    z_train: Array,
    z_val: Array,
    gradient: BatchFunction,
    project: BatchFunction,
    step_size: float,
    steps: int,
) -> Array:
    """The inner loop of both algorithms: w <- project(w - step * gradient(w)), `steps` times."""
    current = np.array(start, dtype=np.float64)
    for _ in range(steps):
        moved = current - step_size * gradient(current, z_train, z_val)
        current = project(moved, z_train, z_val)
    return current


def algorithm1(
    store: Array,
    index: Index,
    z_train: Array,
    z_val: Array,
    gradient: BatchFunction,
    project: BatchFunction,
    step_size: float,
    steps: int,
) -> tuple[Array, Array]:
    """One batch of Algorithm 1 up to the weighting: (new store, weights of the batch in its order)."""
    weights = _descend(store[index], z_train, z_val, gradient, project, step_size, steps)
    new_store = np.array(store, dtype=np.float64)
    for position, sample in enumerate(index):
        new_store[sample] = weights[position]
    return new_store, weights


def algorithm1_parametric(
    store: Array,
    val_index: Index,
    z_train: Array,
    z_val: Array,
    gradient: BatchFunction,
    project: BatchFunction,
    basis: Callable[[Array, Array], Array],
    step_size: float,
    steps: int,
) -> tuple[Array, Array]:
    """Algorithm 1 for a model beta'psi: beta is kept per validation sample, weights are beta'psi(z_train).

    `basis(z_train, z_val)` is the (n, m) matrix of psi_l(z_i), with the validation batch as the centres.
    """
    beta = _descend(store[val_index], z_train, z_val, gradient, project, step_size, steps)
    new_store = np.array(store, dtype=np.float64)
    for position, sample in enumerate(val_index):
        new_store[sample] = beta[position]
    return new_store, basis(z_train, z_val) @ beta


def _members(labels: Index, y: int) -> Index:
    return np.array([i for i, label in enumerate(labels) if label == y], dtype=np.int64)


def algorithm2_weights(
    store: Array,
    index: Index,
    z_train: Array,
    y_train: Index,
    z_val: Array,
    y_val: Index,
    class_prior_ratio: Array,
    gradient: BatchFunction,
    project: BatchFunction,
    step_size: float,
    steps: int,
) -> tuple[Array, Array]:
    """One batch of Algorithm 2 up to the weighting: (new store, weights of the batch in its order).

    Features are scaled to unit length, then every class with at least two samples on both sides is estimated
    on its own. A class with fewer keeps its stored weights. The store never contains the class-prior ratio
    r_y; the returned weights do, for estimated and skipped classes alike (a skipped class returns r_y times
    its stored weight). If every class is skipped the batch gets zeros and the store stays as it was. Labels
    run from 0 to len(class_prior_ratio) - 1; a class absent from the training batch counts as skipped.
    """
    z_train, z_val = l2_normalise(z_train), l2_normalise(z_val)
    new_store = np.array(store, dtype=np.float64)
    weights = np.zeros(len(index))
    estimated = 0
    for y, ratio in enumerate(class_prior_ratio):
        train, val = _members(y_train, y), _members(y_val, y)
        current = new_store[index[train]]
        if len(train) >= 2 and len(val) >= 2:
            estimated += 1
            current = _descend(current, z_train[train], z_val[val], gradient, project, step_size, steps)
        for position, value in zip(train, current, strict=True):
            new_store[index[position]] = value
            weights[position] = ratio * value
    if estimated == 0:
        return np.array(store, dtype=np.float64), np.zeros(len(index))
    return new_store, weights


def algorithm2_parametric(
    store: Array,
    val_index: Index,
    z_train: Array,
    y_train: Index,
    z_val: Array,
    y_val: Index,
    class_prior_ratio: Array,
    gradient: BatchFunction,
    project: BatchFunction,
    basis: Callable[[Array, Array], Array],
    step_size: float,
    steps: int,
    skipped_weight: float | None = None,
) -> tuple[Array, Array]:
    """Algorithm 2 for a model beta'psi: beta is kept per validation sample, centres are those of one class.

    The paper leaves the weights of a skipped class open here, since beta is stored and not the weights. With
    `skipped_weight` None the retained beta is used as it stands over the class's centres in the batch (no
    centre: weight zero); a number is taken instead for every training sample of a skipped class. Both are
    multiplied by r_y. If every class is skipped the batch gets zeros and the store stays as it was.
    """
    z_train, z_val = l2_normalise(z_train), l2_normalise(z_val)
    new_store = np.array(store, dtype=np.float64)
    weights = np.zeros(len(z_train))
    estimated = 0
    for y, ratio in enumerate(class_prior_ratio):
        train, val = _members(y_train, y), _members(y_val, y)
        beta = new_store[val_index[val]]
        skip = len(train) < 2 or len(val) < 2
        if not skip:
            estimated += 1
            beta = _descend(beta, z_train[train], z_val[val], gradient, project, step_size, steps)
            for position, value in zip(val, beta, strict=True):
                new_store[val_index[position]] = value
        if skip and skipped_weight is not None:
            weights[train] = ratio * skipped_weight
        elif len(train) and len(val):
            weights[train] = ratio * (basis(z_train[train], z_val[val]) @ beta)
    if estimated == 0:
        return np.array(store, dtype=np.float64), np.zeros(len(z_train))
    return new_store, weights
