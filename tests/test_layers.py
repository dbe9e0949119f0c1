"""Packages import only those below them, in the order of the design."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "adiw"

TOP = "top"  # a module directly under src/adiw, except __init__ (the public names) and __main__ (the command)
MATHS = {TOP, "matching"}  # tensors in, tensors out
METHOD = MATHS | {"divergences", "distributed", "reweighting"}
PUBLIC = "__init__"
CORE = METHOD | {PUBLIC, "classic", "testing"}
BESIDE = {"baselines", "data", "shifts", "models"}  # these import the core, and not each other
# What each package may import besides itself.
ALLOWED: dict[str, set[str]] = {
    TOP: set(),
    "matching": {TOP},
    "divergences": MATHS,
    "distributed": {TOP},
    "reweighting": METHOD,
    "classic": MATHS | {"divergences"},
    "testing": METHOD,
    PUBLIC: METHOD,
    **dict.fromkeys(BESIDE, CORE),
    "engine": CORE | BESIDE,
    "experiments": CORE | BESIDE | {"engine"},
    "integrations": CORE | BESIDE | {"engine"},
    "reports": {TOP, "experiments"},
    "cli": CORE | BESIDE | {"engine", "experiments", "integrations", "reports"},
}
# Allowed packages besides the standard library; a layer that is not listed may import those of its extra.
LIBRARIES = {package: {"torch", "numpy"} for package in CORE} | {"classic": {"torch", "numpy", "sklearn", "scipy"}}


def imports(path: Path, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, parts of the dotted name) of every import in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            yield from ((node.lineno, (*base, alias.name)) for alias in node.names)


def layer_of(part: str, root: Path) -> str | None:
    """The layer of ``adiw.<part>``; None for a folder that is not in the design."""
    if part == "__main__":  # python -m adiw
        return "cli"
    if part in ALLOWED:
        return part
    if (root / part).is_dir():
        return None
    return TOP if (root / f"{part}.py").exists() else PUBLIC  # a name that adiw/__init__.py defines


def violations(root: Path) -> list[str]:
    """Every forbidden import below ``root``, as "file:line: reason"."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        own, layer = parts[0], layer_of(parts[0], root)
        if layer is None:
            found.append(f"{path}:1: the design has no layer {own!r}")
            continue
        for line, name in imports(path, ("adiw", *parts[:-1])):
            why = _forbidden(own, layer, name, root)
            if why:
                found.append(f"{path}:{line}: {why}")
    return found


def _forbidden(own: str, layer: str, name: tuple[str, ...], root: Path) -> str | None:
    if name[0] != "adiw":
        known = LIBRARIES.get(layer)
        if known is not None and name[0] not in known | sys.stdlib_module_names:
            return f"{own} must not import {name[0]}"
        return "reports read results and never import torch" if layer == "reports" and name[0] == "torch" else None
    part = name[1] if len(name) > 1 else "__init__"
    target = layer_of(part, root)
    if target is None or (target != layer and target not in ALLOWED[layer]):
        return f"{layer} must not import {'.'.join(name)}"
    return None


def test_imports_go_one_way() -> None:
    assert len(list(SOURCE.rglob("*.py"))) > 20
    assert violations(SOURCE) == []


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in {
        "__init__.py": "from adiw.argument_checks import check",
        "arguments.py": "import torch",
        **files,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    "files",
    [
        {"reweighting/adiw.py": "from adiw.divergences.kl import KL\nfrom adiw.distributed import uneven_loaders"},
        {
            "divergences/kl.py": "from adiw.matching.kernels import gaussian",
            "matching/kernels.py": "import numpy as np",
        },
        {"classic/kmm.py": "from sklearn.base import BaseEstimator\nfrom adiw.divergences import MMD"},
        {"data/digits.py": "import sklearn\nfrom adiw.data.source_files import DataError\nfrom . import errors"},
        {"baselines/given_weights.py": "from adiw import ADIW\nimport adiw.reweighting.weight_state"},
        {"engine/step.py": "from adiw.baselines import BASELINES\nfrom ..models import build"},
        {"experiments/run.py": "from adiw.engine.step import train_step\nfrom adiw.data import load"},
        {"integrations/lightning.py": "import lightning\nfrom adiw import ADIW"},
        {"reports/table.py": "import matplotlib\nfrom adiw.experiments.results import read"},
        {"__main__.py": "from adiw.cli import main", "cli.py": ""},
        {"cli.py": "import typer\nfrom adiw.reports import report_page\nfrom adiw.engine import step"},
    ],
)
def test_allowed_imports(tmp_path: Path, files: dict[str, str]) -> None:
    assert violations(tree(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("arguments.py", "import torch\nfrom adiw.engine import step", 2),
        ("arguments.py", "from adiw import cli", 1),
        ("arguments.py", "from adiw.matching import groups", 1),
        ("reweighting/adiw.py", "import adiw.data.digits", 1),
        ("reweighting/adiw.py", "def late():\n    from adiw.models import build", 2),
        ("reweighting/adiw.py", "from .. import models", 1),
        ("reweighting/adiw.py", "import scipy", 1),
        ("reweighting/adiw.py", "try:\n    import sklearn\nexcept ImportError:\n    pass", 2),
        ("__init__.py", "from adiw.baselines import BASELINES", 1),
        ("divergences/kl.py", "from adiw.reweighting.adiw import ADIW", 1),
        ("divergences/kl.py", "from adiw import ADIW", 1),
        ("divergences/kl.py", "from ..distributed import together", 1),
        ("divergences/kl.py", "from ..data import load", 1),
        ("matching/kernels.py", "from adiw.divergences import KL", 1),
        ("matching/kernels.py", "from adiw.reweighting.validation_schedule import ValidationSchedule", 1),
        ("distributed/together.py", "from adiw.reweighting.adiw import ADIW", 1),
        ("classic/kmm.py", "from adiw.baselines import DIW", 1),
        ("classic/kmm.py", "import matplotlib", 1),
        ("data/digits.py", "from adiw.shifts import SHIFTS", 1),
        ("shifts/pair.py", "from adiw.data import load", 1),
        ("models/mlp.py", "from ..engine import step", 1),
        ("baselines/diw.py", "from adiw.engine.step import train_step", 1),
        ("engine/step.py", "from adiw.experiments import run", 1),
        ("engine/step.py", "from adiw.cli import main", 1),
        ("experiments/run.py", "from adiw.reports import report_page", 1),
        ("experiments/run.py", "from adiw.integrations import lightning", 1),
        ("integrations/lightning.py", "from adiw.experiments import run", 1),
        ("reports/page.py", "import torch", 1),
        ("reports/page.py", "from torch import Tensor", 1),
        ("reports/page.py", "from adiw.reweighting.adiw import ADIW", 1),
        ("helpers/more.py", "", 1),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, file: str, text: str, line: int) -> None:
    known = {f"{name}/__init__.py": "" for name in ALLOWED if name not in (TOP, PUBLIC)}
    found = violations(tree(tmp_path, {**known, file: text}))
    assert len(found) == 1
    assert found[0].startswith(f"{tmp_path / file}:{line}: ")
