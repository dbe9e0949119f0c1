"""docs/add-a-divergence.md: its example is added to a copy of the source tree, as the page says, and tested there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import stats

from adiw import estimate_weights
from adiw.divergences import protocol, settings
from adiw.matching import batches, groups, kernels, projections
from adiw.matching.batches import match

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-divergence.md").read_text(encoding="utf-8")
FILE, LINES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
# Tests that read the tables of divergences and methods.
TESTS = [
    *(f"tests/divergences/test_{name}.py" for name in ("every_divergence", "numbers", "settings")),
    *(
        f"tests/reweighting/test_{name}.py"
        for name in ("adiw", "adiw_numbers", "adiw_resume", "estimation", "memory")
    ),
    "tests/experiments/test_run.py",
]
# Tests of the tables that do not have the name of a divergence in theirs.
UNNAMED = [
    *("src/adiw/divergences", "src/adiw/experiments/methods.py", "tests/test_package.py"),
    "tests/cli/test_help_and_list.py",
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree with the page's file and its three lines in ``__init__.py``."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("src", "tests", "torture"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    package = copy / "src" / "adiw" / "divergences"
    (package / "energy.py").write_text(FILE, encoding="utf-8")
    text = (package / "__init__.py").read_text(encoding="utf-8")
    places = ("from adiw.divergences.kl import", '    "mmd": MMD,', '    "Divergence",')
    for place, line in zip(places, LINES.splitlines(), strict=True):
        assert text.count(place) == 1
        text = text.replace(place, f"{line}\n{place}")
    (package / "__init__.py").write_text(text, encoding="utf-8")
    return copy


def run(tree: Path, *command: str) -> str:
    """The output of a Python command that imports the copy."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def test_the_example_passes_every_test_of_its_name(tree: Path) -> None:
    shown = run(tree, "-m", "pytest", *TESTS, "-k", "energy", "-p", "no:cacheprovider", "-p", "no:xdist")
    (passed,) = re.findall(r"(\d+) passed", shown)
    assert int(passed) > 60, shown  # the shared suite alone has 14 checks on 4 batches, and 24 extreme ones
    assert "failed" not in shown


def test_the_doctests_and_the_lists_hold_with_the_example(tree: Path) -> None:
    run(tree, "-m", "pytest", *UNNAMED, "-p", "no:cacheprovider", "-p", "no:xdist")


def test_the_command_knows_the_example(tree: Path) -> None:
    assert "Energy distance" in run(tree, "-m", "adiw", "list")
    assert "energy" in json.loads(run(tree, "-m", "adiw", "list", "--json"))["divergences"]
    out = tree / "run"
    run(
        tree, "-m", "adiw", "run", "--method", "adiw-energy", "--step-size", "0.2", "--epochs", "1", "--out", str(out)
    )
    assert (out / "results.jsonl").exists() or list(out.iterdir())


@pytest.fixture(scope="module")
def energy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page's file as a module."""
    path = tmp_path_factory.mktemp("page") / "energy.py"
    path.write_text(FILE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("page_energy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["page_energy"] = module  # dataclasses looks annotations up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["page_energy"]


def test_the_example_is_the_energy_distance(energy: ModuleType) -> None:
    """scipy's energy distance is the root of D for scalars; the term without w is added back."""
    rng = np.random.default_rng(0)
    z, v, w = rng.normal(size=12), rng.normal(1, 1, size=7), rng.exponential(size=12)
    w /= w.mean()
    problem = energy.Energy().problem(match(torch.from_numpy(z)[:, None], torch.from_numpy(v)[:, None]))
    constant = np.abs(v[:, None] - v).mean()
    expected = stats.energy_distance(z, v, w) ** 2
    found = float(problem.objective(torch.from_numpy(w))) / 12 - constant
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_example_separates_wrong_losses(energy: ModuleType) -> None:
    weights, _ = estimate_weights(
        torch.tensor([0.1, 0.2, 0.3, 5.0]), torch.tensor([0.1, 0.2]), energy.Energy(), steps=20
    )
    assert float(weights[3]) < 0.05
    assert float(weights[:3].min()) > 0.5


@pytest.mark.parametrize("name", re.findall(r"`batches\.(\w+)", PAGE))
def test_the_attributes_of_batches_on_the_page_exist(name: str) -> None:
    assert name in set(dir(batches.MatchedBatches)) | set(batches.MatchedBatches.__dataclass_fields__)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (protocol, ["Learner"]),
        (settings, ["check_setting", "check_choice", "check_step_size", "check_width"]),
        (groups, ["per_sample"]),
        (kernels, ["resolve_width"]),
        (projections, ["box_mean_band", "weighted_simplex", "simplex", "box", "non_negative"]),
    ],
)
def test_the_functions_on_the_page_exist(module: ModuleType, names: list[str]) -> None:
    assert module.__name__ in PAGE
    for name in names:
        assert re.search(rf"`[\w.]*{name}\b", PAGE)
        assert hasattr(module, name)


def test_the_page_names_every_function_of_a_problem() -> None:
    functions = [name for name in vars(protocol.Problem) if not name.startswith("_")]
    for name in functions:
        assert f"| `{name}(" in PAGE, name
