"""Importance weights for every training sample, estimated while a PyTorch model trains."""

# ruff: noqa: E402 (the version is checked before anything needs it)
from importlib import import_module
from typing import Any

from adiw.versions import require

require("torch", "2.6")

from adiw import divergences
from adiw.distributed.uneven_loaders import together
from adiw.divergences import DIVERGENCES, register
from adiw.label_audit import Audit
from adiw.matching import projections
from adiw.matching.weight_limits import Limits
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.diagnostics.alarms import Alarm
from adiw.reweighting.diagnostics.audit import audit
from adiw.reweighting.diagnostics.verdict import Verdict
from adiw.reweighting.estimate_weights import State, estimate_weights
from adiw.reweighting.indexed_with_trusted import Indexed
from adiw.reweighting.summary import Stationarity, Summary
from adiw.reweighting.transforms import Features, class_prior_ratio

__version__ = "0.1.0"
__all__ = [
    "ADIW",
    "DIVERGENCES",
    "Alarm",
    "Audit",
    "Features",
    "Indexed",
    "Limits",
    "State",
    "Stationarity",
    "Summary",
    "Verdict",
    "audit",
    "class_prior_ratio",
    "divergences",
    "estimate_weights",
    "projections",
    "register",
    "together",
]


def __getattr__(name: str) -> Any:
    """``adiw.classic`` is imported on first use: it needs scikit-learn, the rest does not."""
    if name == "classic":
        return import_module("adiw.classic")
    raise AttributeError(f"module 'adiw' has no attribute {name!r}")
