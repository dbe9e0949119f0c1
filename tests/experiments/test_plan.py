"""The runs of a part of a recipe, and their folders, named after the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from adiw.experiments.recipes import Part, Planned, load, plan
from adiw.experiments.settings import SettingsError
from tests.experiments.small_sweeps import TEXT, small


def places(planned: list[Planned]) -> list[tuple[str, str, int]]:
    return [(job.row, job.column, job.trial) for job in planned]


def test_the_whole_recipe_cell_by_cell(tmp_path: Path) -> None:
    planned = plan(small(tmp_path))
    rows, columns = ("Uniform", "KL", "Val-Only"), ("much", "little")
    assert places(planned) == [(row, column, trial) for row in rows for column in columns for trial in (0, 1)]
    assert [job.settings.seed for job in planned] == [0, 1] * 6
    assert planned[1].name == "Uniform, much, trial 1"


@pytest.mark.parametrize("wanted", ["KL", "kl", "adiw-kl"])
def test_a_row_is_found_by_label_or_method(tmp_path: Path, wanted: str) -> None:
    planned = plan(small(tmp_path), Part(methods=(wanted,), trials=1))
    assert places(planned) == [("KL", "much", 0), ("KL", "little", 0)]


@pytest.mark.parametrize("wanted", ["little", "pair:0.1"])
def test_a_column_is_found_by_label_or_shift(tmp_path: Path, wanted: str) -> None:
    planned = plan(small(tmp_path), Part(("uniform", "val-only"), (wanted,), trials=3))
    assert places(planned) == [(row, "little", trial) for row in ("Uniform", "Val-Only") for trial in range(3)]


def test_a_label_has_priority_over_a_method(tmp_path: Path) -> None:
    other = """[[row]]\nlabel = "Other"\nmethod = "adiw-kl"\n[[row]]\nlabel = "adiw-kl"\nmethod = "adiw-kl"\n"""
    recipe = small(tmp_path, other)
    assert [job.row for job in plan(recipe, Part(("adiw-kl",), ("much",), 1))] == ["adiw-kl"]
    assert [job.row for job in plan(small(tmp_path), Part(("adiw-kl",), ("much",), 1))] == ["KL"]


def test_a_shift_that_all_columns_share_names_all_of_them() -> None:
    recipe = load("val-size")
    assert len(plan(recipe, Part(("DIW",), ("symmetric:0.4",), 1))) == 3
    with pytest.raises(SettingsError, match="unknown shift 'none'"):
        plan(recipe, Part(shifts=("none",)))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part(methods=("KM",)), "unknown method 'KM': expected one of KL, Val-Only, Uniform"),
        (Part(shifts=("much", "none")), "unknown shift 'none': expected one of "),
    ],
)
def test_unknown_names_list_the_real_ones(tmp_path: Path, part: Part, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        plan(small(tmp_path), part)


def test_changes_override_the_settings_of_a_row(tmp_path: Path) -> None:
    recipe = small(tmp_path, text=TEXT.replace('method = "val-only"', 'method = "val-only"\nepochs = 7'))
    assert {job.settings.epochs for job in plan(recipe)} == {2, 7}
    changed = plan(recipe, Part(changes={"epochs": 3, "selection": 100}))
    assert {(job.settings.epochs, job.settings.selection) for job in changed} == {(3, 100)}


def test_same_settings_same_folder_and_others_another(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    folders = [job.folder for job in plan(recipe)]
    assert len(set(folders)) == 12
    assert folders == [job.folder for job in plan(small(tmp_path))]
    assert [job.folder for job in plan(recipe, Part(("KL",), ("little",)))] == folders[6:8]
    assert not set(folders) & {job.folder for job in plan(recipe, Part(changes={"epochs": 3}))}
