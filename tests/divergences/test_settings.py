"""Invalid settings raise errors that name the setting, the expected value and the given value."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import adiw
from adiw import DIVERGENCES
from adiw.divergences import KL, MMD, Energy, JensenShannon, Power, Relative, Sliced, Squared, Wasserstein, resolve

INF, NAN = float("inf"), float("nan")
POSITIVE = (0, -1.0, INF, NAN)
BAD: list[tuple[type, str, tuple[Any, ...], str]] = [
    (MMD, "width", (*POSITIVE, "Auto"), 'a positive number or "auto"'),
    (MMD, "step_size", POSITIVE, "a positive number"),
    (MMD, "upper", (0.5, -1.0, NAN), "at least 1, the mean weight"),
    (MMD, "slack", (-0.1, NAN), "None or a number from 0"),
    (MMD, "step", ("", "Local"), "one of 'plain', 'local'"),
    (KL, "width", (*POSITIVE, "median"), 'a positive number or "auto"'),
    (KL, "step_size", POSITIVE, "a positive number"),
    (KL, "update", ("Rescale", "", None), "one of 'rescale', 'optimum', 'euclidean'"),
    (Squared, "width", (*POSITIVE, ""), 'a positive number or "auto"'),
    (Squared, "step_size", POSITIVE, "a positive number"),
    (Squared, "penalty", (-1e-9, INF, NAN), "a number from 0"),
    (Wasserstein, "critic", ("net", "", None), "one of 'auto', 'exact', 'network'"),
    (Wasserstein, "scale", (*POSITIVE, "loss"), 'a positive number or "auto"'),
    (Wasserstein, "step_size", POSITIVE, "a positive number"),
    (Wasserstein, "penalty", (-1.0, INF, NAN), "a number from 0"),
    (Wasserstein, "pretrain", (-1,), "a count from 0"),
    (Wasserstein, "updates", (0, -1), "a count from 1"),
    (Wasserstein, "learning_rate", POSITIVE, "a positive number"),
    (MMD, "kernel", ("rbf", None), "one of 'gaussian', 'laplace', 'rational-quadratic', 'linear'"),
    (Relative, "alpha", (-0.1, 1, 1.0, INF, NAN), "a number from 0 to below 1"),
    (Relative, "penalty", (-1e-9, INF), "a number from 0"),
    (Power, "power", (-0.51, -1, INF), "a number from -0.5"),
    (Power, "update", ("exact",), "one of 'rescale', 'optimum', 'euclidean'"),
    (JensenShannon, "update", ("exact",), "one of 'rescale', 'optimum', 'euclidean'"),
    (Energy, "scale", (*POSITIVE, "loss"), 'a positive number or "auto"'),
    (Sliced, "directions", (0, -1, 2.5), "a count from 1"),
]
EVERY = [(kind, name, value, expected) for kind, name, values, expected in BAD for value in values]


@pytest.mark.parametrize(("kind", "name", "value", "expected"), EVERY)
def test_bad_settings(kind: type, name: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be") as raised:
        kind(**{name: value})
    assert str(raised.value) == f"{kind.__name__}: {name} must be {expected}, got {value!r}"


SETTINGS = [(kind, name) for kind in DIVERGENCES.values() for name in inspect.signature(kind).parameters]


@pytest.mark.parametrize(("kind", "name"), SETTINGS)
def test_every_setting_of_the_table_is_checked(kind: type, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: {name} must be .+, got nan$"):
        kind(**{name: NAN})


@pytest.mark.parametrize(
    "divergence",
    [
        MMD(width="auto", upper=1.0, slack=0.0),
        MMD(upper=INF),
        KL(width="auto", update="optimum"),
        Squared(width="auto", penalty=0.0),
        Wasserstein(scale="auto", penalty=0.0, pretrain=0, updates=1),
        Relative(width="auto", alpha=0.0, penalty=0.0),
        Power(width="auto", power=-0.5),
        Energy(scale="auto"),
        Sliced(scale="auto", directions=1),
    ],
)
def test_limits_of_the_settings_are_allowed(divergence: adiw.divergences.Divergence) -> None:
    assert resolve(divergence) is divergence


@pytest.mark.parametrize("name", DIVERGENCES)
def test_names_give_the_default_settings(name: str) -> None:
    assert resolve(name) == DIVERGENCES[name]()


@pytest.mark.parametrize(
    ("name", "nearest"), [("klx", "kl"), ("mdd", "mmd"), ("square", "squared"), ("wasser", "wasserstein")]
)
def test_unknown_names_list_the_real_ones_nearest_first(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"unknown divergence '{name}': expected one of '{nearest}', ") as raised:
        resolve(name)
    for known in DIVERGENCES:
        assert repr(known) in str(raised.value)


@pytest.mark.parametrize("thing", [KL, MMD, None, 3, object()])
def test_other_objects_are_an_error(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"a name in adiw\.DIVERGENCES or an instance such as KL\(\), got"):
        resolve(thing)
