"""docs/comparison.md: every method of the library has its line, and what the line says of it is so."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import adiw
from adiw import baselines, classic
from adiw.baselines.interior import ITERATIONS
from adiw.baselines.quadratic import SOLVERS
from adiw.divergences.wasserstein import Wasserstein
from adiw.experiments.methods import METHODS

PAGE = (Path(__file__).parents[1] / "docs" / "comparison.md").read_text(encoding="utf-8")
TABLE = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
HEAD, ROWS = TABLE[0], TABLE[2:]


def line_of(name: str) -> list[str]:
    """The one line of the table that names this thing of the library."""
    found = [row for row in ROWS if name in row[HEAD.index("here")]]
    assert len(found) == 1, f"{name} should have one line in docs/comparison.md, has {len(found)}"
    return found[0]


def test_the_table_has_the_papers_columns_and_whole_lines() -> None:
    assert HEAD[:3] == ["category", "divergence", "method"]
    assert {len(row) for row in TABLE} == {10}
    assert all(cell for row in ROWS for cell in row)


@pytest.mark.parametrize("name", sorted(adiw.DIVERGENCES))
def test_every_divergence_has_its_line(name: str) -> None:
    row = line_of(f'`divergence="{name}"`')
    assert f"`adiw.divergences.{adiw.DIVERGENCES[name].__name__}`" in row[3]
    assert row[2].lower() in METHODS
    assert (row[5], row[7]) == ("yes", "end-to-end")


@pytest.mark.parametrize("name", sorted(classic.__all__))
def test_every_classic_estimator_has_its_line(name: str) -> None:
    row = line_of(f"`adiw.classic.{name}`")
    assert row[2].upper().startswith(name)
    assert (row[5], row[7]) == ("no", "two-step")


def test_diw_and_its_solvers() -> None:
    row = line_of("`adiw.baselines.DIW`")
    assert baselines.DIW
    assert all(f'"{solver}"' in row[6] for solver in SOLVERS)
    assert f"in each of its {ITERATIONS} iterations" in PAGE


def test_every_line_is_of_something_that_is_here() -> None:
    assert len(ROWS) == len(adiw.DIVERGENCES) + len(classic.__all__) + 1


def test_the_options_that_the_page_names_exist() -> None:
    assert f"blocks of {inspect.signature(classic.KMM).parameters['block'].default:,}" in line_of("KMM")[6]
    for critic in ("exact", "network"):
        assert f'critic="{critic}"' in PAGE
        Wasserstein(critic=critic)  # type: ignore[arg-type]
    for update in ("rescale", "euclidean"):
        assert f'update="{update}"' in PAGE
        adiw.divergences.KL(update=update)  # type: ignore[arg-type]
    for method in ("two-step-kmm", "two-step-kliep", "two-step-lsif"):
        assert f"`{method}`" in PAGE
        assert method in METHODS
