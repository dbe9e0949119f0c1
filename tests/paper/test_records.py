"""The committed records: each is a run of its recipe, and each folder is that of a recipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adiw.experiments.recipes import Part, Recipe, load, load_file, names, plan
from adiw.reports.folders import read_sweep

ROOT = Path(__file__).parents[2]
OWN_RECIPES = sorted(file for file in (ROOT / "paper" / "recipes").glob("*.toml") if "profile-" not in file.name)
SWEEPS = sorted(
    file.parent for folder in ("results", "paper/results") for file in (ROOT / folder).glob("*/recipe.json")
)
IDS = [str(folder.relative_to(ROOT)) for folder in SWEEPS]


def recipe_of(folder: Path) -> Recipe:
    own = ROOT / "paper" / "recipes" / f"{folder.name}.toml"
    return load(folder.name) if folder.parents[1] == ROOT else load_file(own)


def test_every_folder_has_a_recipe_and_results() -> None:
    assert {folder.name for folder in SWEEPS if folder.parents[1] == ROOT} <= set(names())
    assert {folder.name for folder in SWEEPS if folder.parents[1] != ROOT} == {file.stem for file in OWN_RECIPES}
    for folder in SWEEPS:
        kept = {file.name for file in folder.iterdir() if file.is_file()}
        assert {"recipe.json", "results.jsonl"} <= kept, folder
        assert kept <= {"recipe.json", "results.jsonl", "timing.jsonl", "SHA256SUMS"}, folder


@pytest.mark.parametrize("folder", SWEEPS, ids=IDS)
def test_the_recorded_recipe_is_that_of_today(folder: Path) -> None:
    recorded = json.loads((folder / "recipe.json").read_text())
    assert recorded == json.loads(json.dumps({**recipe_of(folder).as_dict(), "changes": {}}))


@pytest.mark.parametrize("folder", SWEEPS, ids=IDS)
def test_every_record_fills_a_cell_of_its_recipe(folder: Path) -> None:
    """Settings that a record has and that exist today are those of the planned run; an older record has fewer."""
    recipe, file = recipe_of(folder), folder / "results.jsonl"
    planned = {(job.row, job.column, job.trial): job for job in plan(recipe, Part(trials=recipe.trials))}
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for line in lines:
        settings = planned[line["row"], line["column"], line["trial"]].settings.as_dict()
        common = settings.keys() & line["settings"].keys()
        assert len(common) > 30
        # None is the default of the time of the record. Where it has changed since, the recipe names the former one.
        named = {key: line["settings"][key] for key in common if line["settings"][key] is not None}
        assert named == {key: settings[key] for key in named}
        assert {key for key in common - named.keys() if settings[key] is not None} <= {"step", "width", "step_size"}
    sweep = read_sweep(folder)
    done = {(line["row"], line["column"]) for line in lines if line["status"] == "done"}
    assert sweep.unplaced == ()
    assert {place for place, cell in sweep.cells.items() if cell.figure("accuracy")} == done


def test_new_settings_do_not_change_the_digests_of_recorded_runs() -> None:
    """A record that has exactly today's settings is in the folder that its run would have today."""
    same = 0
    for folder in SWEEPS:
        planned = {(job.row, job.column, job.trial): job for job in plan(recipe_of(folder))}
        file = folder / "results.jsonl"
        for line in map(json.loads, file.read_text().splitlines() if file.exists() else ()):
            job = planned[line["row"], line["column"], line["trial"]]
            if line["settings"] == job.settings.as_dict():
                assert line["folder"] == job.folder
                same += 1
    assert same > 100


@pytest.mark.parametrize("file", OWN_RECIPES, ids=lambda file: file.stem)
def test_a_choice_is_judged_on_held_out_training_samples(file: Path) -> None:
    """No setting is chosen on the test set; digits-divergences compares defaults and chooses nothing."""
    recipe = load_file(file)
    settings = [job.settings for job in plan(recipe, Part(trials=1))]
    assert all(one.selection > 0 for one in settings) or file.stem == "digits-divergences"
