"""Two-step density-ratio estimators in scikit-learn's form: ``fit(X_train, X_test)``, ``weights_``, ``predict``."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        'adiw.classic needs scikit-learn and scipy: install them with pip install "adiw[classic]"'
    ) from error

from adiw.classic.classifier_ratio import ClassifierRatio
from adiw.classic.kliep import KLIEP
from adiw.classic.kmm import KMM
from adiw.classic.lsif import LSIF
from adiw.classic.rulsif import RULSIF
from adiw.classic.ulsif import ULSIF

__all__ = ["KLIEP", "KMM", "LSIF", "RULSIF", "ULSIF", "ClassifierRatio"]
