"""Two-step density-ratio estimators in scikit-learn's form: ``fit(X_train, X_test)``, ``weights_``, ``predict``."""

# ruff: noqa: E402 (versions are checked before the other imports)
from adiw.versions import require

require("scikit-learn", "1.6", "classic")
require("scipy", "1.11", "classic")

from adiw.classic.classifier_ratio import ClassifierRatio
from adiw.classic.kliep import KLIEP
from adiw.classic.kmm import KMM
from adiw.classic.lsif import LSIF
from adiw.classic.rulsif import RULSIF
from adiw.classic.ulsif import ULSIF

__all__ = ["KLIEP", "KMM", "LSIF", "RULSIF", "ULSIF", "ClassifierRatio"]
