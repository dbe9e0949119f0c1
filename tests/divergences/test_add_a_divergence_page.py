"""docs/add-a-divergence.md: its files, written to an empty folder, pass the suite there and run from the command."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from adiw import DIVERGENCES, estimate_weights
from adiw.cli import main
from adiw.divergences import protocol, registry, settings
from adiw.matching import batches, groups, kernels, projections
from adiw.matching.batches import match

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-divergence.md").read_text(encoding="utf-8")
FILE, TESTS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
RECIPE, ENTRY_POINT = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
RUN, SWEEP, PYTEST = (block.splitlines() for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the repository with the two files of the page."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "my_file.py").write_text(FILE, encoding="utf-8")
    (folder / "test_my_file.py").write_text(TESTS, encoding="utf-8")
    return folder


def run(folder: Path, line: str) -> str:
    """The output of a command of the page."""
    words = line.split()
    command = [sys.executable, *(words[1:] if words[0] == "python" else ["-m", *words])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def test_the_example_passes_the_whole_suite(folder: Path) -> None:
    (line,) = PYTEST
    shown = run(folder, f"{line} -p no:cacheprovider")
    (passed,) = re.findall(r"(\d+) passed", shown)
    assert int(passed) > 80, shown  # 15 checks on 4 batches, 24 extreme ones, 3 trainings
    assert "failed" not in shown


def test_the_example_runs_and_is_reported(folder: Path) -> None:
    for line in RUN:
        run(folder, f"{line} --quiet" if " run " in line else line)
    config = json.loads((folder / "mine" / "config.json").read_text())
    assert (config["method"], config["set"]) == ("adiw-my_file:Mine", "step_size=0.3")
    assert "adiw-my_file:Mine" in (folder / "mine" / "index.html").read_text()


def test_the_example_is_a_row_of_a_sweep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    monkeypatch.chdir(folder)
    try:
        for line in SWEEP:
            here = ["--processes", "1"] if " sweep " in line else []
            monkeypatch.setattr(sys, "argv", [*line.split(), *here])
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 0
    finally:
        del sys.modules["my_file"], DIVERGENCES["mine"]
    records = [json.loads(line) for line in (folder / "swept" / "results.jsonl").read_text().splitlines()]
    found = {(record["status"], record["settings"]["method"]) for record in records}
    assert found == {("done", row["method"]) for row in tomllib.loads(RECIPE)["row"]}
    assert "Mine" in (folder / "swept" / "index.html").read_text()


def test_the_entry_point_is_of_the_group() -> None:
    assert tomllib.loads(ENTRY_POINT)["project"]["entry-points"] == {registry.GROUP: {"mine": "my_file:Mine"}}


@pytest.fixture(scope="module")
def example(folder: Path) -> Iterator[ModuleType]:
    """The page's file as a module."""
    spec = importlib.util.spec_from_file_location("page_example", folder / "my_file.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["page_example"] = module  # dataclasses looks annotations up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["page_example"], DIVERGENCES["mine"]


def test_the_example_is_what_it_says(example: ModuleType) -> None:
    rng = np.random.default_rng(0)
    z, v, w = rng.normal(size=(12, 1)), rng.normal(1, 1, size=(7, 1)), rng.exponential(size=12)
    problem = example.Mine().problem(match(torch.from_numpy(z), torch.from_numpy(v)))
    parts = [(w * np.exp(1j * t * z[:, 0])).mean() - np.exp(1j * t * v[:, 0]).mean() for t in example.FREQUENCIES]
    expected = 12 * np.square(np.abs(parts)).sum()
    assert float(problem.objective(torch.from_numpy(w))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.usefixtures("example")
def test_the_example_separates_wrong_losses_by_its_name() -> None:
    weights, _ = estimate_weights(torch.tensor([0.1, 0.2, 0.3, 5.0]), torch.tensor([0.1, 0.2]), "mine", steps=20)
    assert float(weights[3]) < 0.05
    assert float(weights[:3].min()) > 0.5


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`batches\.(\w+)", PAGE))))
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
