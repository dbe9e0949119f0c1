"""Divergences between two batches. To add one, add a file to this folder and a line to the table in registry.py."""

from __future__ import annotations

from adiw.divergences.energy import Energy
from adiw.divergences.jensen_shannon import JensenShannon
from adiw.divergences.kl import KL, KLProblem
from adiw.divergences.mmd import MMD, MMDProblem
from adiw.divergences.power import Hellinger, Power
from adiw.divergences.protocol import Divergence, Learner, Problem, learns
from adiw.divergences.registry import DIVERGENCES, Capabilities, capabilities, describe, register, resolve
from adiw.divergences.relative import Relative
from adiw.divergences.sliced import Sliced
from adiw.divergences.squared import Squared, SquaredProblem
from adiw.divergences.wasserstein import Wasserstein

__all__ = [
    "DIVERGENCES",
    "KL",
    "MMD",
    "Capabilities",
    "Divergence",
    "Energy",
    "Hellinger",
    "JensenShannon",
    "KLProblem",
    "Learner",
    "MMDProblem",
    "Power",
    "Problem",
    "Relative",
    "Sliced",
    "Squared",
    "SquaredProblem",
    "Wasserstein",
    "capabilities",
    "describe",
    "learns",
    "register",
    "resolve",
]
