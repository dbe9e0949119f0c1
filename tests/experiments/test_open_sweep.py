"""A sweep's folder holds one recipe with one set of settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adiw.experiments.recipes import load_file
from adiw.experiments.resume import open_sweep
from adiw.experiments.settings import SettingsError
from tests.experiments.small_sweeps import TEXT, small, write_recipe


def test_the_recipe_is_written_with_the_changes_of_the_command(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    open_sweep(recipe, {"selection": 100}, tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "recipe.json").read_text())
    assert kept == {**recipe.as_dict(), "changes": {"selection": 100}}


def test_another_recipe_is_refused(tmp_path: Path) -> None:
    open_sweep(small(tmp_path), {}, tmp_path / "out")
    other = load_file(write_recipe(tmp_path, name="other"))
    before = (tmp_path / "out" / "recipe.json").read_bytes()
    with pytest.raises(SettingsError, match="out holds the sweep mine: choose another folder with --out"):
        open_sweep(other, {}, tmp_path / "out")
    assert (tmp_path / "out" / "recipe.json").read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epochs = 2", "epochs = 3", "epochs of the recipe was 2, is 3"),
        ("pair:0.1", "pair:0.2", "shift of little was pair:0.1, is pair:0.2"),
        ('"adiw-kl"', '"adiw-kl"\nwidth = 2', "width of KL was None, is 2"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    open_sweep(small(tmp_path), {}, tmp_path / "out")
    with pytest.raises(SettingsError, match=rf"holds the sweep mine with other settings \({message}\): choose"):
        open_sweep(small(tmp_path, text=TEXT.replace(old, new)), {}, tmp_path / "out")


def test_a_short_trial_does_not_become_part_of_the_table(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    open_sweep(recipe, {"epochs": 1}, tmp_path / "out")
    with pytest.raises(SettingsError, match="epochs of the command was 1, is None"):
        open_sweep(recipe, {}, tmp_path / "out")


def test_more_trials_and_rows_are_allowed(tmp_path: Path) -> None:
    open_sweep(small(tmp_path), {}, tmp_path / "out")
    more = '[[row]]\nlabel = "KM"\nmethod = "adiw-km"\n'
    open_sweep(small(tmp_path, more, TEXT.replace("trials = 2", "trials = 5")), {}, tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "recipe.json").read_text())
    assert (kept["trials"], len(kept["rows"])) == (5, 4)
