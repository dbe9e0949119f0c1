"""Recipes: the files of the library, and checks of a user's own file."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from adiw.divergences import Wasserstein
from adiw.experiments.recipes import Recipe, load, load_file, names
from adiw.experiments.settings import SettingsError

NAMED = {
    "fmnist-prior",
    "fmnist-noise",
    "cifar10-noise",
    "cifar100-noise",
    "imagenet-noise",
    "val-size",
    "transforms",
}
OURS_NAMED = {"fmnist-prior-ours", "fmnist-noise-ours", "cifar10-noise-ours"}
OWN = """
title = "A title"
about = "What it is."
trials = 2
[settings]
dataset = "digits"
[[column]]
label = "a lot"
shift = "symmetric:0.4"
[[column]]
label = "little"
shift = "pair:0.1"
[[row]]
label = "Uniform"
method = "uniform"
[[row]]
label = "KL"
method = "adiw-kl"
width = 0.5
[paper.accuracy]
KL = ["88.73 (0.66)", "-"]
[paper.seconds]
KL = [1, 2.5]
"""
OURS = """
base = "fmnist-noise"
title = "Ours"
about = "Chosen on the selection split."
[settings]
momentum = 0.0
[rows."ADIW-KM"]
mean_one = true
[[deviation]]
setting = "momentum"
rows = "all"
paper = "not stated"
ours = 0.0
chosen = "selection split"
[[deviation]]
setting = "mean_one"
rows = ["ADIW-KM"]
paper = false
ours = true
chosen = "selection split"
"""


def given(folder: Path, text: str, *changes: tuple[str, str]) -> Recipe:
    """The recipe of a text in which some parts are replaced."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "mine.toml").write_text(text)
    return load_file(folder / "mine.toml")


def settings(recipe: Recipe, row: str, column: int = 0) -> dict[str, Any]:
    entry = next(entry for entry in recipe.rows if entry.label == row)
    return recipe.settings(entry, recipe.columns[column], trial=0).as_dict()


def test_the_library_has_the_papers_recipes_and_ours() -> None:
    assert set(names()) == NAMED | OURS_NAMED
    assert all(load(name).deviations for name in OURS_NAMED)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_recipe_of_the_paper_is_complete_and_has_no_deviations(name: str) -> None:
    recipe = load(name)
    assert recipe.name == name
    assert (recipe.trials, recipe.deviations) == (3, ())
    assert json.loads(json.dumps(recipe.as_dict())) == recipe.as_dict()
    assert recipe.as_dict()["common"]["epochs"] == (300 if "imagenet" in name else 400)
    for figures in recipe.paper.values():
        assert list(figures) == [row.label for row in recipe.rows]
    for row in recipe.rows:
        method = settings(recipe, row.label)
        assert method["exact"]
        if method["method"] == "adiw-wa":  # the critic's other settings are the paper's by default
            assert (method["critic"], method["penalty"]) == ("network", 10.0)
    critic = Wasserstein()
    assert (critic.pretrain, critic.updates, critic.learning_rate) == (50, 3, 1e-4)


# The settings in the appendix: width and step size of KM, KL, LS, and the step size of WA; DIW's width.
@pytest.mark.parametrize(
    ("name", "km", "kl", "ls", "wa", "diw"),
    [
        ("fmnist-prior", (0.1, 1e-4), (5, 0.005), (1, 0.01), 0.0005, 0.1),
        ("fmnist-noise", (0.01, 0.1), (0.5, 0.5), (0.01, 0.01), 0.01, 0.01),
        ("cifar10-noise", (0.01, 0.1), (0.5, 0.1), (0.01, 0.1), 0.01, 0.01),
        ("cifar100-noise", (0.01, 0.5), (0.1, 0.1), (0.01, 0.1), 0.005, 0.01),
        ("imagenet-noise", (0.01, 0.5), (0.5, 0.5), (0.01, 0.5), 0.003, 0.01),
        ("val-size", (0.01, 0.1), (0.5, 0.1), (0.01, 0.1), 0.01, 0.01),
    ],
)
def test_the_papers_hyper_parameters(
    name: str, km: tuple[float, float], kl: tuple[float, float], ls: tuple[float, float], wa: float, diw: float
) -> None:
    recipe = load(name)
    for label, expected in (("ADIW-KM", km), ("ADIW-KL", kl), ("ADIW-LS", ls)):
        found = settings(recipe, label)
        assert (found["width"], found["step_size"]) == expected, label
    assert settings(recipe, "ADIW-LS")["penalty"] == 1e-5
    assert settings(recipe, "ADIW-WA")["step_size"] == wa
    assert settings(recipe, "DIW")["width"] == diw


def test_the_settings_that_only_the_ablations_have() -> None:
    recipe = load("transforms")
    found = [settings(recipe, f"ADIW-{kind}-F") for kind in ("KM", "KL", "LS", "WA")]
    assert [entry["width"] for entry in found] == [0.5, 0.3, 0.3, 1.0]
    assert found[2]["penalty"] == 1e-3
    assert {entry["transform"] for entry in found} == {"features"}
    assert settings(recipe, "ADIW-KM-L")["transform"] == "loss"
    sizes = load("val-size")
    assert [settings(sizes, "DIW", column)["trusted"] for column in range(3)] == [10, 100, 1000]


def test_the_papers_figures_are_in_their_cells() -> None:
    noise, prior, images = (load(name).paper for name in ("fmnist-noise", "fmnist-prior", "imagenet-noise"))
    assert noise["accuracy"]["ADIW-LS"] == [[90.0, 0.11], [89.39, 0.09], [88.55, 0.16]]
    assert noise["seconds"]["DIW"] == [77.25, 80.1, 76.39]
    assert noise["seconds"]["Random"] == noise["accuracy"]["Oracle"] == [None] * 3
    assert prior["accuracy"]["Uniform"] == [None, None]
    assert prior["accuracy"]["ADIW-WA"] == [[77.37, 0.43], [73.14, 1.5]]
    assert (images["top5"]["ADIW-KL"], images["accuracy"]["L2R"]) == ([[84.82, 0.04]], [None])
    assert load("cifar10-noise").paper["accuracy"]["Uniform"][1] == [62.92, 0.34]


def test_an_unknown_name_lists_the_real_ones() -> None:
    with pytest.raises(SettingsError, match="unknown recipe 'fmnist-noize': expected one of fmnist-noise, "):
        load("fmnist-noize")


def test_a_row_overrides_its_column_and_a_column_the_common_settings(tmp_path: Path) -> None:
    change = ('method = "adiw-kl"', 'method = "adiw-kl"\nshift = "none"\ntrusted = 50')
    recipe = given(tmp_path, OWN, ("[settings]", '[settings]\nshift = "pair:0.2"'), change)
    assert settings(recipe, "Uniform", 1)["shift"] == "pair:0.1"
    assert settings(recipe, "KL", 1)["shift"] == "none"
    assert recipe.settings(recipe.rows[0], recipe.columns[0], trial=7).seed == 7
    assert recipe.paper["accuracy"] == {"Uniform": [None, None], "KL": [[88.73, 0.66], None]}
    assert recipe.paper["seconds"]["KL"] == [1.0, 2.5]
    assert (recipe.name, recipe.measures) == ("mine", ("accuracy",))
    assert load(str(tmp_path / "mine.toml")) == recipe
    assert recipe.as_dict()["common"] == {"dataset": "digits", "epochs": 60, "shift": "pair:0.2"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("trials = 2", "trails = 2", "unknown key of the recipe 'trails': expected one of trials, "),
        ("trials = 2", "trials = 0", "trials must be a whole number from 1, got 0"),
        ("trials = 2", "trials = true", "trials must be a whole number from 1, got True"),
        ('title = "A title"', "", "title: expected a text, got None"),
        ("trials = 2", 'kind = "profile"', "unknown key of the recipe 'kind'"),
        ("trials = 2", 'measures = ["top1"]', "unknown key of measures 'top1': expected one of top5, accuracy"),
        ('label = "little"', 'label = "a lot"', r"expected \[\[column\]\] tables with different labels, got"),
        ('label = "KL"', "", "label: expected a text, got None"),
        ("width = 0.5", "with = 0.5", "unknown setting 'with': did you mean 'width'?"),
        ("width = 0.5", "seed = 3", "a recipe does not set the seed: trial k has the seed k"),
        ("width = 0.5", 'epochs = "many"', "epochs must be at least 1, got many"),
        ('"pair:0.1"', "3", "a setting of Uniform has the wrong type"),
        ('"adiw-kl"', '"adiw-k"', "unknown method 'adiw-k': expected one of adiw-k"),
        ('"pair:0.1"', '"pear:0.1"', "shift 'pear': expected one of pair, "),
        ('"digits"', '"digit"', "unknown dataset 'digit': expected one of digits, "),
        ("[paper.seconds]", "[paper.time]", "unknown key of paper 'time': expected one of "),
        ("KL = [1, 2.5]", "KM = [1, 2.5]", "unknown key of paper.seconds 'KM': expected one of KL, Uniform"),
        ("KL = [1, 2.5]", "KL = [1]", "paper.seconds of KL: expected 2 figures, got 1"),
        ("KL = [1, 2.5]", 'KL = [1, "2"]', "paper.seconds: expected a number, or \"-\" for none, got '2'"),
        ("88.73 (0.66)", "88.73 +- 0.66", r'paper.accuracy: expected "mean \(std\)" such as'),
        ("trials = 2", "trials = ", "Invalid value"),
        (
            '[settings]\ndataset = "digits"',
            "settings = 3",
            r"settings: expected a table, written \[settings\], got 3",
        ),
    ],
)
def test_an_error_names_the_bad_file_and_the_reason(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"^mine.toml: {message}"):
        given(tmp_path, OWN, (old, new))


def test_a_recipe_of_ours_states_its_deviations_from_the_papers(tmp_path: Path) -> None:
    recipe, paper = given(tmp_path, OURS), load("fmnist-noise")
    assert (recipe.title, recipe.trials, recipe.columns, recipe.paper) == ("Ours", 3, paper.columns, paper.paper)
    assert settings(recipe, "ADIW-KM") == settings(paper, "ADIW-KM") | {"momentum": 0.0, "mean_one": True}
    assert settings(recipe, "ADIW-KL") == settings(paper, "ADIW-KL") | {"momentum": 0.0}
    assert [deviation["setting"] for deviation in recipe.deviations] == ["momentum", "mean_one"]
    assert recipe.as_dict()["deviations"][1]["rows"] == ["ADIW-KM"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('rows = ["ADIW-KM"]', "rows = 3", r'\[\[deviation\]\] of mean_one: rows must be "all" or a list, got 3'),
        ("ours = true\n", "", r"\[\[deviation\]\] of mean_one: ours is missing"),
        ("ours = true", "ours = true\nwhy = 1", "unknown key of deviation 'why'"),
        ('ours = 0.0\nchosen = "selection split"', 'ours = 0.0\nchosen = " "', "chosen: expected a text, got ' '"),
        ('[rows."ADIW-KM"]', '[rows."ADIW-MK"]', "unknown row 'ADIW-MK': expected one of ADIW-KM, "),
        ('"fmnist-noise"', '"fmnist"', "unknown base 'fmnist': expected one of fmnist-"),
        ('"fmnist-noise"', '"fmnist-noise-ours"', "base fmnist-noise-ours has a base itself: use that one"),
        ('title = "Ours"', 'title = "Ours"\nkind = "runs"', "unknown key of a recipe with a base 'kind'"),
    ],
)
def test_bad_entries_of_a_recipe_with_a_base(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"^mine.toml: {message}"):
        given(tmp_path, OURS, (old, new))


def test_the_files_are_plain_toml_with_lines_that_fit_a_page() -> None:
    for name in names():
        text = (files("adiw.experiments") / "recipe_files" / f"{name}.toml").read_text()
        assert tomllib.loads(text)["title"]
        assert max(map(len, text.splitlines())) <= 118


def test_a_recipe_with_a_base_adds_rows_after_those_of_the_paper(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    row = '[[row]]\nlabel = "Mine"\nmethod = "adiw"\n'
    file.write_text(f'base = "fmnist-noise"\ntitle = "t"\nabout = "a"\n{row}')
    base, mine = load("fmnist-noise"), load_file(file)
    assert [entry.label for entry in mine.rows] == [*(entry.label for entry in base.rows), "Mine"]
    assert mine.settings(mine.rows[-1], mine.columns[0], 0).method == "adiw"
    assert mine.paper["accuracy"]["Mine"] == [None] * 3
    assert mine.paper["accuracy"]["DIW"] == base.paper["accuracy"]["DIW"]
    file.write_text(file.read_text().replace("Mine", "DIW"))
    with pytest.raises(SettingsError, match=r"expected \[\[row\]\] tables with different labels"):
        load_file(file)
