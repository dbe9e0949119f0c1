"""Estimators in scikit-learn's form."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from adiw import classic
from adiw.integrations.sklearn import ReweightedClassifier, ReweightedRegressor
from torture import values
from torture.entries.entry import COUNT, NAME, NUMBER, THING, Entry, of_default
from torture.verdict import anything, weights


def arrays() -> list[Entry]:
    """Estimators in scikit-learn's form."""
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(12, 2)), rng.normal(size=(6, 2))
    labels = np.arange(12) % 3
    rows = partial(lambda good, random: values.array(random, good), train)
    entries = []
    for name in ("KMM", "KLIEP", "LSIF", "ULSIF"):
        estimator = getattr(classic, name)
        options = estimator().get_params()
        bad = {key: of_default(value) for key, value in options.items()}
        bad |= {"X_train": rows, "X_test": rows, "X": rows}
        good = lambda: {"X_train": train, "X_test": test, "X": test}  # noqa: E731
        entries.append(Entry(name, partial(fit_ratio, estimator), good, bad, weights, 2.0))
    y = lambda random: values.array(random, labels)  # noqa: E731
    bad = {"X": rows, "y": y, "X_val": rows, "y_val": y, "epochs": COUNT, "max_steps": COUNT, "batch_size": COUNT}
    bad |= {"divergence": NAME, "match_on": NAME, "random_state": COUNT, "verbose": COUNT, "rows": rows}
    bad |= dict.fromkeys(("lr", "weight_decay", "validation_fraction", "cap", "min_ess"), NUMBER)
    things = ("module", "criterion", "optimizer", "early_stopping", "join_trusted", "mean_one", "callbacks", "device")
    bad |= dict.fromkeys((*things, "warm_start"), THING)
    good = lambda: {"X": train, "y": labels, "X_val": test, "y_val": labels[:6], "epochs": 1, "rows": test}  # noqa: E731
    for estimator in (ReweightedClassifier, ReweightedRegressor):
        entries.append(Entry(estimator.__name__, partial(fit_network, estimator), good, bad, anything, 2.0))
    return entries


def fit_ratio(estimator: Any, X_train: Any, X_test: Any, X: Any, **given: Any) -> Any:
    fitted = estimator(**given).fit(X_train, X_test=X_test)
    return [fitted.weights_, fitted.predict(X)]


def fit_network(estimator: Any, X: Any, y: Any, X_val: Any, y_val: Any, rows: Any, **given: Any) -> Any:
    """Fit twice (with ``warm_start`` the second fit resumes the first) and predict."""
    model = estimator(**given).fit(X, y, X_val=X_val, y_val=y_val)
    return model.fit(X, y, X_val=X_val, y_val=y_val).predict(rows), model.sample_weight_
