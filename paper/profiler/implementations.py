"""The four implementations whose stages the paper compares, from the original DIW to ADIW."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from adiw.baselines.qp_solvers import resolve_solver
from adiw.engine.train_loader import Batch
from adiw.experiments.settings import Settings, SettingsError, unknown
from paper.profiler.stages import Epochs, one_loader, one_loader_per_batch


@dataclass(frozen=True)
class Implementation:
    """How an implementation runs the paper's step.

    validation: where its validation batches come from.
    program: True if it solves DIW's quadratic program, False if it takes projected-gradient steps.
    on_cpu: True if it estimates the weights on the CPU, False if on the model's device.
    """

    validation: Callable[[Epochs], Callable[[], Batch]]
    program: bool
    on_cpu: bool


IMPLEMENTATIONS: dict[str, Implementation] = {
    "DIW": Implementation(one_loader_per_batch, program=True, on_cpu=True),
    "DIW_Val": Implementation(one_loader, program=True, on_cpu=True),
    "ADIW_CPU": Implementation(one_loader, program=False, on_cpu=True),
    "ADIW_GPU": Implementation(one_loader, program=False, on_cpu=False),
}


def find(name: str) -> Implementation:
    """The implementation of this name; for an unknown name, an error that lists the known ones."""
    if name not in IMPLEMENTATIONS:
        raise unknown("implementation", name, IMPLEMENTATIONS)
    return IMPLEMENTATIONS[name]


def check_method(name: str, settings: Settings) -> None:
    """Raise if the implementation does not run the method of these settings."""
    program, method = find(name).program, settings.method
    if method != "diw" if program else not method.startswith("adiw-"):
        expected = "diw" if program else "one of the ADIW methods, such as adiw-km"
        raise SettingsError(f"{name} needs the method {expected}, got {method}")


def with_installed_solver(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings with an installed solver, and a note if it is not the requested one."""
    missing = []
    for solver in dict.fromkeys((settings.solver, "cvxopt", "osqp")):
        try:
            resolve_solver(solver)
        except ImportError:
            missing.append(solver)
            continue
        break
    else:
        solver = "gpu"  # the library's own interior-point method needs no package
    used = "the library's own interior-point method" if solver == "gpu" else solver
    note = f"{missing[0]} is not installed: the quadratic program was solved by {used}" if missing else ""
    return replace(settings, solver=solver), [note] if note else []
