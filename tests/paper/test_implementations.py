"""The paper's four implementations: their settings, and the replacements of missing solvers."""

from __future__ import annotations

import re

import pytest

from adiw.experiments.settings import SettingsError, resolve
from paper.profiler import implementations
from paper.profiler.implementations import IMPLEMENTATIONS, check_method, find, with_installed_solver


def test_they_are_the_papers() -> None:
    assert list(IMPLEMENTATIONS) == ["DIW", "DIW_Val", "ADIW_CPU", "ADIW_GPU"]
    assert [one.program for one in IMPLEMENTATIONS.values()] == [True, True, False, False]
    assert [one.on_cpu for one in IMPLEMENTATIONS.values()] == [True, True, True, False]
    assert len({one.validation for one in IMPLEMENTATIONS.values()}) == 2
    assert find("DIW").validation is not find("DIW_Val").validation
    assert find("DIW_Val").validation is find("ADIW_GPU").validation


def test_an_unknown_name_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"unknown implementation 'ADIW': expected one of .*ADIW_GPU"):
        find("ADIW")


@pytest.mark.parametrize(("name", "method"), [("DIW", "adiw-km"), ("ADIW_GPU", "diw"), ("ADIW_CPU", "uniform")])
def test_a_method_that_an_implementation_does_not_run_is_refused(name: str, method: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} needs the method .*, got {method}"):
        check_method(name, resolve({"method": method}))


@pytest.mark.parametrize(
    ("requested", "installed", "used", "note"),
    [
        ("cvxopt", {"cvxopt", "osqp"}, "cvxopt", None),
        ("osqp", {"cvxopt", "osqp"}, "osqp", None),
        ("gpu", set(), "gpu", None),
        ("cvxopt", {"osqp"}, "osqp", "cvxopt is not installed: the quadratic program was solved by osqp"),
        ("osqp", {"cvxopt"}, "cvxopt", "osqp is not installed: the quadratic program was solved by cvxopt"),
        ("cvxopt", set(), "gpu", "cvxopt is not installed: .* by the library's own interior-point method"),
    ],
)
def test_a_missing_solver_is_replaced_with_a_note(
    monkeypatch: pytest.MonkeyPatch, requested: str, installed: set[str], used: str, note: str | None
) -> None:
    def resolve_solver(name: str) -> None:
        if name not in installed | {"gpu"}:
            raise ImportError(name)

    monkeypatch.setattr(implementations, "resolve_solver", resolve_solver)
    settings, notes = with_installed_solver(resolve({"method": "diw", "solver": requested}))
    assert settings.solver == used
    assert len(notes) == (note is not None)
    assert note is None or re.fullmatch(note, notes[0])
