"""docs/add-a-divergence.md: its example is cut out, imported, put in the tables, and run through the shared suite."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from adiw import estimate_weights
from adiw.divergences import protocol
from adiw.matching.batches import MatchedBatches, match
from tests.divergences import cases
from tests.divergences.batches import EXTREMES, LAYOUTS, Batch, extreme
from tests.divergences.cases import Case
from tests.divergences.suite import CHECKS, check_extreme_batch

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-divergence.md").read_text(encoding="utf-8")
FILE, TABLE_LINE, CASE_LINE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def energy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page's file, imported as a file of its own."""
    path = tmp_path_factory.mktemp("page") / "energy.py"
    path.write_text(FILE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("page_energy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["page_energy"] = module  # dataclasses looks its annotations up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["page_energy"]


@pytest.fixture
def case(energy: ModuleType) -> Case:
    """The page's line for ``CASES``, evaluated in that module with the new class imported."""
    names: dict[str, Any] = {**vars(cases), "Energy": energy.Energy}
    (found,) = eval("{" + CASE_LINE + "}", names)["energy"]
    assert isinstance(found, Case)
    return found


def test_the_line_for_the_table(energy: ModuleType) -> None:
    assert eval("{" + TABLE_LINE + "}", vars(energy)) == {"energy": energy.Energy}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [1, 2])
def test_the_example_passes_the_suite(
    case: Case, dim: int, layout: str, check: Callable[[Case, Batch], None]
) -> None:
    check(case, LAYOUTS[layout](dim))


@pytest.mark.parametrize("name", EXTREMES)
def test_the_example_on_extreme_batches(case: Case, name: str) -> None:
    check_extreme_batch(case, extreme(name, 1))


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


def test_bad_settings_of_the_example_are_refused(energy: ModuleType) -> None:
    with pytest.raises(ValueError, match="Energy: step_size must be a positive number, got 0"):
        energy.Energy(step_size=0)


@pytest.mark.parametrize("name", re.findall(r"`pair\.(\w+)", PAGE))
def test_what_the_page_says_of_pairs_exists(name: str) -> None:
    assert name in set(dir(MatchedBatches)) | set(MatchedBatches.__dataclass_fields__)


@pytest.mark.parametrize("name", ["check_setting", "check_step_size", "check_width", "Learner"])
def test_what_the_page_says_of_the_protocol_exists(name: str) -> None:
    assert f"`{name}`" in PAGE
    assert hasattr(protocol, name)


def test_the_page_names_every_function_of_a_problem() -> None:
    functions = [name for name in vars(protocol.Problem) if not name.startswith("_")]
    for name in functions:
        assert f"| `{name}(" in PAGE, name
