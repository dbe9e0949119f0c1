"""Trusted samples given as arrays: which rows they are, and which rows are trained on, matched and held out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from adiw.integrations.skorch import Rows

Index = NDArray[np.int64]


class Roles(NamedTuple):
    """Which rows are trained on, which are the validation set of ADIW, and which choose the epoch."""

    train: Index
    matched: Index
    held_out: Index


def trusted_mask(trusted: ArrayLike | None, count: int) -> NDArray[np.bool_]:
    """``trusted`` as a boolean array (count,); all false for None."""
    mask = np.zeros(count, bool) if trusted is None else np.asarray(trusted)
    if mask.dtype != bool or mask.shape != (count,):
        raise ValueError(
            f"trusted must be a boolean array ({count},), true for rows with a correct target, "
            f"got {mask.dtype} {mask.shape}"
        )
    return mask


def stack_rows(first: Rows, second: Rows) -> Rows:
    """The rows of both: a CSR matrix if one of them is sparse, otherwise an array."""
    if sparse.issparse(first) or sparse.issparse(second):
        return sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second])


def assign_roles(
    targets: NDArray[np.generic], is_trusted: NDArray[np.bool_], num_held_out: int, join: bool, seed: int
) -> Roles:
    """Hold out trusted samples at equal distances in the order of their targets, so that all classes are present.

    The other trusted samples are matched and, with ``join``, also trained on.

    >>> roles = assign_roles(np.arange(10), np.arange(10) >= 6, num_held_out=2, join=True, seed=0)
    >>> len(roles.train), len(roles.matched), len(roles.held_out)
    (8, 2, 2)
    """
    random, trusted = np.random.default_rng(seed), np.flatnonzero(is_trusted)
    shuffled = random.permutation(trusted)
    ordered = shuffled[np.argsort(targets[shuffled], kind="stable")]
    distance = len(trusted) / max(num_held_out, 1)
    held_out = ordered[((np.arange(num_held_out) + random.random()) * distance).astype(int)]
    train = np.setdiff1d(np.arange(len(targets)), held_out if join else trusted)
    if not len(train):
        raise ValueError("join_trusted=False trains on the rows that are not trusted, but all rows are trusted")
    return Roles(train, np.setdiff1d(trusted, held_out), np.sort(held_out))
