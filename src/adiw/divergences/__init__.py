"""Divergences between two batches. To add one, add a file to this folder and a line to ``DIVERGENCES``."""

from __future__ import annotations

import inspect
from difflib import get_close_matches

from adiw.divergences.kl import KL, KLProblem
from adiw.divergences.mmd import MMD, MMDProblem
from adiw.divergences.protocol import Divergence, Learner, Problem, learns
from adiw.divergences.squared import Squared, SquaredProblem
from adiw.divergences.wasserstein import Wasserstein

DIVERGENCES: dict[str, type[Divergence]] = {
    "mmd": MMD,
    "kl": KL,
    "squared": Squared,
    "wasserstein": Wasserstein,
}
"""The names that ``divergence=`` accepts, and the class of each."""


def resolve(divergence: str | Divergence) -> Divergence:
    """A divergence with its settings, from a name in ``DIVERGENCES`` or from an instance.

    >>> resolve("kl")
    KL(width=0.5, step_size=0.5, update='rescale')
    >>> resolve("klx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown divergence 'klx': expected one of 'kl', ..., or an instance
    """
    if isinstance(divergence, str):
        if divergence in DIVERGENCES:
            return DIVERGENCES[divergence]()
        near = get_close_matches(divergence, DIVERGENCES, n=len(DIVERGENCES), cutoff=0)
        raise ValueError(
            f"unknown divergence {divergence!r}: expected one of {', '.join(map(repr, near))}, or an instance"
        )
    if isinstance(divergence, type) or not callable(getattr(divergence, "problem", None)):
        raise TypeError(
            f"divergence must be a name in adiw.DIVERGENCES or an instance such as KL(), got {divergence!r}"
        )
    return divergence


def describe(kind: type[Divergence]) -> str:
    """The first line of a divergence's docstring, for lists.

    >>> describe(KL)
    'Kullback-Leibler divergence (KLIEP)'
    """
    return (inspect.getdoc(kind) or kind.__name__).partition("\n")[0].rstrip(".")


__all__ = [
    "DIVERGENCES",
    "KL",
    "MMD",
    "Divergence",
    "KLProblem",
    "Learner",
    "MMDProblem",
    "Problem",
    "Squared",
    "SquaredProblem",
    "Wasserstein",
    "describe",
    "learns",
    "resolve",
]
