"""The installed package: its imports, its public names and their docstrings."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import adiw

# The names that the design promises to users.
PROMISED = [
    "adiw.ADIW",
    "adiw.DIVERGENCES",
    "adiw.Features",
    "adiw.Indexed",
    "adiw.divergences.KL",
    "adiw.divergences.MMD",
    "adiw.divergences.Squared",
    "adiw.divergences.Wasserstein",
    "adiw.estimate_weights",
]
CLASSIC = ["KMM", "KLIEP", "LSIF", "ULSIF", "RULSIF", "ClassifierRatio"]


def imported_by(statement: str) -> set[str]:
    """Top-level modules that a statement imports in a fresh interpreter."""
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


def test_importing_the_package_imports_torch_and_numpy_only() -> None:
    # Some parts of torch import further packages only when they are used.
    torch_itself = imported_by("import torch, numpy, torch.utils.data, torch.nn.functional")
    ours = imported_by("import adiw")
    assert {"adiw", "torch", "numpy"} <= ours
    assert ours - torch_itself - sys.stdlib_module_names - {"adiw"} == set()


def test_types_are_shipped() -> None:
    assert (Path(adiw.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_are_there_and_documented(name: str) -> None:
    thing: object = adiw
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    if name != "adiw.DIVERGENCES":
        assert inspect.getdoc(thing)


@pytest.mark.skipif(find_spec("adiw.classic") is None, reason="this build has no adiw.classic")
@pytest.mark.parametrize("name", CLASSIC)
def test_classic_estimators_are_there(name: str) -> None:
    pytest.importorskip("sklearn", reason="the classic estimators need the extra adiw[classic]")
    estimator = getattr(importlib.import_module("adiw.classic"), name)
    assert {"fit", "predict"} <= set(dir(estimator))


def test_classic_needs_no_separate_import() -> None:
    assert "sklearn" in imported_by("import adiw; adiw.classic.KLIEP")
    with pytest.raises(AttributeError, match="module 'adiw' has no attribute 'clasic'"):
        adiw.clasic  # type: ignore[attr-defined]


def test_the_papers_divergences_are_in_the_table_and_exported() -> None:
    assert {"mmd", "kl", "squared", "wasserstein"} <= set(adiw.DIVERGENCES)
    for kind in adiw.DIVERGENCES.values():
        assert kind.__name__ in adiw.divergences.__all__


def test_the_signatures_that_users_call() -> None:
    call = list(inspect.signature(adiw.ADIW.forward).parameters)
    assert call[1:5] == ["outputs", "targets", "index", "inputs"]
    made = inspect.signature(adiw.ADIW).parameters
    assert list(made)[:5] == ["model", "criterion", "val_set", "num_train", "divergence"]
    assert made["divergence"].default is None
    assert made["transform"].default == "loss"
    assert made["warmup_steps"].default is None
    estimate = inspect.signature(adiw.estimate_weights).parameters
    assert list(estimate)[:5] == ["z_train", "z_val", "divergence", "steps", "state"]
    assert (estimate["divergence"].default, estimate["steps"].default, estimate["state"].default) == ("kl", 1, None)


def test_all_is_complete_sorted_and_documented() -> None:
    assert sorted(adiw.__all__) == sorted(set(adiw.__all__))
    for name in adiw.__all__:
        thing = getattr(adiw, name)
        if inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing):
            own = thing.__doc__ or ""
            assert len(own.strip()) > 10, f"adiw.{name} has no docstring of its own"
            assert not own.startswith(f"{name}("), f"adiw.{name} has only the docstring that dataclass made"


def test_the_version_is_that_of_the_project_file() -> None:
    project = Path(__file__).parents[1] / "pyproject.toml"
    assert f'version = "{adiw.__version__}"' in project.read_text()
