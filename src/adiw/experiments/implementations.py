"""The four implementations whose stages the paper compares, from the original DIW to ADIW as proposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from adiw.baselines.quadratic import resolve_solver
from adiw.engine.stages import Epochs, anew, outside
from adiw.engine.train_loader import Batch
from adiw.experiments.settings import Settings, SettingsError, unknown


@dataclass(frozen=True)
class Implementation:
    """A way to run the paper's step.

    validation: how it comes by validation batches.
    program: whether it solves DIW's quadratic program, rather than taking projected-gradient steps.
    on_cpu: whether weights are estimated on the CPU, rather than on the model's device.
    """

    about: str
    validation: Callable[[Epochs], Callable[[], Batch]]
    program: bool
    on_cpu: bool


IMPLEMENTATIONS: dict[str, Implementation] = {
    "DIW": Implementation("quadratic program on the CPU, a validation loader for each batch", anew, True, True),
    "DIW_Val": Implementation("quadratic program on the CPU, one validation loader", outside, True, True),
    "ADIW_CPU": Implementation("projected-gradient steps on the CPU", outside, False, True),
    "ADIW_GPU": Implementation("projected-gradient steps on the device", outside, False, False),
}


def find(name: str) -> Implementation:
    """The implementation of that name; an unknown one is an error that lists the real ones, the nearest first."""
    if name not in IMPLEMENTATIONS:
        raise unknown("implementation", name, IMPLEMENTATIONS)
    return IMPLEMENTATIONS[name]


def settings_of(settings: Settings, names: Sequence[str]) -> dict[str, Settings]:
    """The settings of each implementation: the given ones for ADIW, and for DIW its own method, width and solver.

    >>> [one.method for one in settings_of(Settings(method="adiw-km"), ["DIW", "ADIW_GPU"]).values()]
    ['diw', 'adiw-km']
    """
    diw = replace(settings, method="diw", transform="loss", width=None, step_size=None, solver="cvxopt")
    return {name: diw if find(name).program else settings for name in names}


def check_method(name: str, settings: Settings) -> None:
    """An error if the method of the settings is not what the implementation runs."""
    program, method = find(name).program, settings.method
    if method != "diw" if program else not method.startswith("adiw-"):
        expected = "diw" if program else "one of the ADIW methods, such as adiw-km"
        raise SettingsError(f"{name} needs the method {expected}, got {method}")


def with_solver(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings with a solver that is installed, and a line that says so where it is not the one asked for."""
    missing = []
    for solver in dict.fromkeys((settings.solver, "cvxopt", "osqp")):
        try:
            resolve_solver(solver)
        except ImportError:
            missing.append(solver)
            continue
        break
    else:
        solver = "gpu"  # needs no package
    note = f"{missing[0]} is not installed: the quadratic program was solved by {_name(solver)}" if missing else ""
    return replace(settings, solver=solver), [note] if note else []


def _name(solver: str) -> str:
    return "the library's own interior-point method" if solver == "gpu" else solver
